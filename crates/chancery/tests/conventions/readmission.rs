//! The rights at the time of the effect decide about a request. Each write checks first in its transaction whether its caller may
//! still do it (`docs/reference/conventions.md`).

use crate::TestServer;
use crate::message;
use crate::routes::is_of_accounts;
use http::StatusCode;
use platform::kit::answer::{Answer, Outcome};
use platform::kit::caller::RouteAccess;
use platform::kit::commit::write;
use platform::kit::request::Request;
use platform::kit::route::{Handler, Route};
use platform::table;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::Duration;
use store::{Conn, Sql, StoreError};
use testkit::{ApiClient, MINUTE};

/// Returns the routes that change something for a signed-in caller, except the routes that only begin to link an identity.
fn writes() -> Vec<&'static Route> {
    let writes = |route: &&Route| {
        is_of_accounts(route)
            && matches!(route.handler, Handler::Write(_) | Handler::Async(_))
            && route.method != http::Method::GET
            && route.path != "/api/single-sign-on/{id}/link/"
    };
    table().routes().filter(writes).collect()
}

/// Runs a request that is already admitted.
async fn finish(route: &Route, request: Request) -> Outcome {
    let request = Arc::new(request);
    match route.handler {
        Handler::Write(handler) => write(&request, handler).await,
        Handler::Async(steps) => steps(request).await,
        _ => panic!("{} is no write", route.path),
    }
}

/// Returns the status and the body of an outcome.
fn status_and_body(outcome: Outcome) -> (u16, Json) {
    match outcome {
        Ok(answer) => {
            (answer.status.as_u16(), serde_json::from_slice(answer.body.in_memory_bytes()).unwrap_or_default())
        }
        Err(refusal) => (refusal.status.as_u16(), refusal.body()),
    }
}

/// Returns the parts of a build's database that count as changes: its log, its users and the version of its rights.
async fn state(server: &TestServer) -> Vec<String> {
    let script = |conn: &mut Conn| {
        conn.query_all(&Sql::new("SELECT CAST(count(*) AS TEXT) || ' ' || CAST((SELECT n FROM versions WHERE name = 'rights') AS TEXT) FROM administration_log UNION ALL SELECT username || status || account_type FROM users"), |row| {
            Ok(row.text(0)?.to_owned())
        })
    };
    server.build.db.read::<_, StoreError>(script).await.unwrap()
}

/// Walks over all writes: each is admitted, then `happens` changes its caller, then it continues.
async fn walk(
    server: &TestServer,
    caller: &ApiClient,
    happens: impl AsyncFn(),
    expected: impl Fn(&Route) -> Option<(u16, Json)>,
) {
    let mut admitted = Vec::new();
    for route in writes() {
        admitted.push((route, server.request(Some(caller), route, "").await));
    }
    happens().await;
    let before = state(server).await;
    for (route, request) in admitted {
        let Some(expected) = expected(route) else { continue };
        assert_eq!(status_and_body(finish(route, request).await), expected, "{} {}", route.method, route.path);
        assert_eq!(state(server).await, before, "{} {}", route.method, route.path);
    }
}

#[tokio::test]
async fn a_caller_who_is_gone_writes_nothing() {
    for action in ["deactivate", "anonymize"] {
        let server = TestServer::start().await;
        let (admin, other) = (server.admin().await, server.as_type("super_admin").await);
        let happens = async || {
            admin.post(&format!("/api/users/{}/{action}/", other.id), json!({})).await.ok();
        };
        walk(&server, &other, happens, |_| Some((401, message::bad_token()))).await;
    }
}

#[tokio::test]
async fn a_caller_whose_session_or_token_ended_writes_nothing() {
    let server = TestServer::start().await;
    let other = server.as_type("super_admin").await;
    let happens =
        async || other.post("/api/auth/logout/", json!({"refresh_token": other.refresh_token})).await.expect_empty();
    walk(&server, &other, happens, |_| Some((401, message::bad_token()))).await;

    let late = server.sign_in(&other.username, testkit::PASSWORD).await;
    walk(&server, &late, async || server.advance(15 * MINUTE), |_| Some((401, message::bad_token()))).await;
}

#[tokio::test]
async fn a_caller_who_is_called_from_elsewhere_now_writes_nothing() {
    let server = TestServer::start().await;
    let (admin, other) = (server.admin().await, server.as_type("super_admin").await);
    let happens = async || {
        let ranges = json!({"is_ip_restriction_enabled": true, "allowed_ip_ranges": ["192.0.2.0/24"]});
        admin.patch(&format!("/api/users/{}/", other.id), ranges).await.ok();
    };
    let refused = message::detail("Access from this address is not allowed.");
    walk(&server, &other, happens, |_| Some((403, refused.clone()))).await;
}

#[tokio::test]
async fn a_caller_who_was_made_less_writes_what_he_still_may() {
    let server = TestServer::start().await;
    let (admin, other) = (server.admin().await, server.as_type("super_admin").await);
    let happens = async || {
        admin.patch(&format!("/api/users/{}/", other.id), json!({"account_type": "internal"})).await.ok();
    };
    let needs_permission = |route: &Route| matches!(route.access, RouteAccess::Permission(..));
    let expected = |route: &Route| needs_permission(route).then(|| (403, message::forbidden()));
    walk(&server, &other, happens, expected).await;
}

#[tokio::test]
async fn rights_that_others_lost_are_no_reason_to_refuse() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let holder = server.with_role(json!({"user_groups": ["create"]})).await;
    let role = admin
        .post("/api/roles/", json!({"name": "Another", "permissions": {"users": ["edit"]}}))
        .await
        .expect_created();
    let writes: Vec<_> = (0..100)
        .map(|n| {
            let holder = holder.clone();
            tokio::spawn(async move { holder.post("/api/user-groups/", json!({"name": format!("Group {n}")})).await })
        })
        .collect();
    for n in 0..20 {
        let actions = if n % 2 == 0 { json!(["list"]) } else { json!(["edit"]) };
        admin.patch(&format!("/api/roles/{}/", role["id"]), json!({"permissions": {"users": actions}})).await.ok();
    }
    for write in writes {
        write.await.unwrap().expect_created();
    }
}

/// SQLite does not have concurrent writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_ends_while_a_write_waits_ends_it() {
    let server = TestServer::start().await;
    if server.app.store.is_embedded() {
        return;
    }
    let (admin, other) = (server.admin().await, server.as_type("super_admin").await);
    admin.post("/api/roles/", json!({"name": "Role", "description": "as it was"})).await.expect_created();
    let route = table().routes().find(|route| matches!(route.access, RouteAccess::Authenticated)).unwrap();
    let request = Arc::new(server.request(Some(&other), route, "").await);
    let writing = tokio::spawn(async move {
        let waits = |_: &Request, conn: &mut Conn| {
            conn.exec(&Sql::new("UPDATE roles SET description = 'changed'"))?;
            // The wait is longer than the pause and the deactivation below.
            std::thread::sleep(Duration::from_millis(1500));
            Ok(Answer::empty())
        };
        status_and_body(write(&request, waits).await)
    });
    // By then, the write has locked its row.
    tokio::time::sleep(Duration::from_millis(300)).await;
    admin.post(&format!("/api/users/{}/deactivate/", other.id), json!({})).await.ok();
    assert_eq!(writing.await.unwrap(), (401, message::bad_token()));
    assert_eq!(admin.get("/api/roles/1/").await.ok()["description"], "as it was");
}

#[tokio::test]
async fn a_handler_sees_the_rights_that_hold_now() {
    let server = TestServer::start().await;
    let (admin, other) = (server.admin().await, server.as_type("super_admin").await);
    let route = table().routes().find(|route| matches!(route.access, RouteAccess::Authenticated)).unwrap();
    let request = Arc::new(server.request(Some(&other), route, "").await);
    admin.patch(&format!("/api/users/{}/", other.id), json!({"account_type": "full"})).await.ok();
    let answer = write(&request, |request, _| {
        let caller = request.caller()?;
        let may = [caller.is_super(), caller.has_permission("users", "create"), caller.has_permission("users", "list")];
        Ok(Answer::json(StatusCode::OK, json!(may).to_string()))
    });
    assert_eq!(status_and_body(answer.await), (200, json!([false, false, true])));
}
