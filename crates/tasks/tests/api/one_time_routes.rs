//! Tests that the session of a link may only call its own task, among all routes.

use crate::TestServer;
use crate::one_time::{TASKS, call_action, create_one_time_account, session, task, task_path};
use crate::set_up::{form_template, number};
use http::Method;
use kit::caller::RouteAccess;
use kit::route::{Route, Schema};
use serde_json::json;
use testkit::{ApiClient, DOMAIN, Reply, UUID, message};

/// The routes that the sessions of links may call.
const ALLOWED: [(&str, &str); 4] = [
    ("GET", "/api/tasks/{task_id}/"),
    ("POST", "/api/tasks/{task_id}/complete/"),
    ("GET", "/api/files/response/file/{uuid}/"),
    ("POST", "/api/files/upload/"),
];

fn is_allowed(route: &Route) -> bool {
    ALLOWED.contains(&(route.method.as_str(), route.path))
}

/// Replaces each id and name of a path by this number, and uuids by this uuid.
fn path(pattern: &str, id: i64, uuid: &str) -> String {
    let part = |part: &str| match part {
        "{build_domain}" => DOMAIN.to_owned(),
        "{uuid}" => uuid.to_owned(),
        part if part.starts_with('{') => id.to_string(),
        part => part.to_owned(),
    };
    pattern.split('/').map(part).collect::<Vec<_>>().join("/")
}

async fn call(client: &ApiClient, route: &Route, path: &str) -> Reply {
    let call = client.call(route.method.as_str(), path);
    match route.body {
        Schema::Nothing => call.send().await,
        Schema::Ids => call.json(&json!([1])).send().await,
        Schema::Binary => {
            let call = call.header("content-disposition", "attachment; filename=a.csv");
            call.body("application/octet-stream", "a;b").send().await
        }
        _ => call.json(&json!({})).send().await,
    }
}

#[tokio::test]
async fn the_session_of_a_link_may_call_nothing_but_its_task() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let template = form_template(&api, "Survey").await;
    let (user, address) = create_one_time_account(&server, &api).await;
    // The first task belongs to another user. The account has a separate link to each of the other two.
    task(&api, template, 1).await;
    let other = task(&api, template, user).await;
    let other = (other, session(&server.anonymous(), &server.mail_to(&address).await.token()).await);
    let own = task(&api, template, user).await;
    let client = session(&server.anonymous(), &server.mail_to(&address).await.token()).await;
    let unknown = UUID.to_owned();
    let mut allowed = Vec::new();
    for route in TestServer::table().routes() {
        let what = format!("{} {}", route.method, route.path);
        match route.access {
            RouteAccess::Public if !route.optional_sign_in => continue,
            RouteAccess::ApiKey => continue,
            // Agents have their own tokens.
            _ if route.own_admission.is_some() => {
                client
                    .call(route.method.as_str(), &path(route.path, 1, &unknown))
                    .json(&json!({}))
                    .send()
                    .await
                    .expect(401);
                continue;
            }
            _ if is_allowed(route) => {
                allowed.push((route.method.as_str(), route.path));
                continue;
            }
            _ => {}
        }
        for id in [1, other.0, own, user, 999] {
            let reply = call(&client, route, &path(route.path, id, &unknown)).await;
            assert_eq!(reply, (403, message::forbidden()), "{what} of {id}");
            let broken = client
                .call(route.method.as_str(), &path(route.path, id, &unknown))
                .body("text/csv", "a;b")
                .send()
                .await;
            assert_eq!(broken, (403, message::forbidden()), "{what} of {id}");
        }
    }
    assert_eq!(allowed, ALLOWED, "another one is a decision");

    // On allowed routes, other tasks are refused like unknown ones.
    for id in [1, other.0, 999, 0] {
        assert_eq!(client.get(&task_path(id)).await, (403, message::forbidden()), "{id}");
        for body in [json!({"response": {}}), json!({}), json!([])] {
            assert_eq!(call_action(&client, id, "complete", body).await, (403, message::forbidden()), "{id}");
        }
    }
    client.get(&task_path(own)).await.ok();
    other.1.get(&task_path(other.0)).await.ok();
    assert_eq!(client.call("HEAD", &task_path(own)).send().await.status, 200);
    assert_eq!(client.call("HEAD", &task_path(other.0)).send().await.status, 403);
    client.get(&format!("/api/files/response/file/{UUID}/")).await.expect(404);
    // These calls changed nothing.
    assert_eq!(number(&server, "SELECT count(*) FROM tasks WHERE status = 'open'").await, 3);
    for method in [Method::PUT, Method::DELETE] {
        assert!([403, 405].contains(&client.call(method.as_str(), TASKS).send().await.status), "{method}");
    }
}

#[tokio::test]
async fn the_file_of_another_task_is_not_shown_to_the_session_of_a_link() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let template = form_template(&api, "Survey").await;
    let (user, address) = create_one_time_account(&server, &api).await;
    let mut uuids = Vec::new();
    let mut clients = Vec::new();
    for _ in 0..2 {
        let task = task(&api, template, user).await;
        let file = api.upload("a.csv", "a;b").await;
        call_action(&api, task, "complete", json!({"response": {"file": file}})).await.ok();
        call_action(&api, task, "reopen", json!({})).await.ok();
        clients.push(session(&server.anonymous(), &server.mail_to(&address).await.token()).await);
        uuids.push(api.get(&task_path(task)).await.ok()["response"]["file"].as_str().unwrap().to_owned());
    }
    for (n, client) in clients.iter().enumerate() {
        for (m, uuid) in uuids.iter().enumerate() {
            let expected = if n == m { 200 } else { 403 };
            assert_eq!(client.get(&format!("/api/files/response/file/{uuid}/")).await.status, expected);
        }
    }
}

#[tokio::test]
async fn uploads_of_a_session_belong_to_its_account() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let template = form_template(&api, "Survey").await;
    let (user, address) = create_one_time_account(&server, &api).await;
    let own = task(&api, template, user).await;
    let client = session(&server.anonymous(), &server.mail_to(&address).await.token()).await;
    let (mine, foreign) = (client.upload("a.csv", "a;b").await, api.upload("b.csv", "c").await);
    call_action(&client, own, "complete", json!({"response": {"file": foreign}}))
        .await
        .refuses(json!({"response": [format!("Invalid token {foreign}.")]}));
    call_action(&api, own, "complete", json!({"response": {"file": mine}}))
        .await
        .refuses(json!({"response": [format!("Invalid token {mine}.")]}));
    call_action(&client, own, "complete", json!({"response": {"file": mine}})).await.ok();
}
