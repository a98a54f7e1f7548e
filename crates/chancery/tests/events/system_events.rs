//! System events (`docs/reference/history.md`): the outcome of each sign-in is one of ten events in the outbox.

use crate::TestServer;
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::{ADMIN, MINUTE, PASSWORD, TestBuild, WaitingSystemEvent, events};

/// Returns the types, sources and reasons of the events.
async fn waiting_events(tenant: &TestBuild) -> Vec<(i64, i64, Value)> {
    events(tenant)
        .await
        .into_iter()
        .map(|event| (event.event_type, event.source_id, event.data["reason"].clone()))
        .collect()
}

async fn run(tenant: &TestBuild, sql: &'static str) {
    tenant.build.db.write::<u64, StoreError>(move |conn| conn.exec(&Sql::new(sql))).await.unwrap();
}

#[tokio::test]
async fn one_401_and_an_event_that_tells_why() {
    let server = TestServer::start().await;
    let internal = server.account("internal").await;
    let client = server.anonymous();
    let api = client.sign_in(ADMIN, PASSWORD).await;
    let mut expected = vec![(1, 1, json!("password"))];
    let refused = json!({"detail": "Unable to sign in with the credentials given."});
    let attempt = async |username: &str, password: &str| {
        client.login(username, password).await.expect_reply(401, refused.clone())
    };
    attempt("nobody@example.com", "wrong").await;
    expected.push((2, 0, json!("unknown_account")));
    attempt(&internal, "wrong").await;
    expected.push((2, 2, json!("wrong_password")));
    api.post("/api/users/2/deactivate/", json!({})).await.ok();
    attempt(&internal, PASSWORD).await;
    expected.push((4, 2, json!("password")));
    api.post("/api/users/2/reactivate/", json!({})).await.ok();
    api.patch("/api/security/", json!({"authentication_method": {"internal": "sso"}})).await.ok();
    attempt(&internal, PASSWORD).await;
    expected.push((5, 2, json!("password")));
    api.patch("/api/security/", json!({"authentication_method": {"internal": "any"}})).await.ok();
    let elsewhere = json!({"is_ip_restriction_enabled": true, "allowed_ip_ranges": ["10.0.0.0/8"]});
    api.patch("/api/users/2/", elsewhere).await.ok();
    attempt(&internal, PASSWORD).await;
    expected.push((2, 2, json!("address_not_allowed")));
    api.patch("/api/users/2/", json!({"is_ip_restriction_enabled": false})).await.ok();
    for n in 0..5 {
        attempt(&internal, "wrong").await;
        expected.push((2, 2, json!("wrong_password")));
        if n == 4 {
            // The event follows its cause by a microsecond.
            expected.push((6, 2, Value::Null));
        }
    }
    attempt(&internal, PASSWORD).await;
    expected.push((2, 2, json!("locked")));
    assert_eq!(waiting_events(&server).await, expected);
    let events = events(&server).await;
    assert!(
        events.iter().all(|event| event.ip == "127.0.0.1" && (0..2).contains(&(event.at - testkit::NOW))),
        "{events:?}"
    );
    assert!(events.iter().all(|event| event.source_type == i64::from(event.source_id > 0)), "{events:?}");
}

#[tokio::test]
async fn resets_are_told_from_the_request_to_the_new_password() {
    let server = TestServer::start().await;
    let internal = server.account("internal").await;
    let service = server.account("service_external").await;
    let client = server.anonymous();
    for username in [internal.as_str(), "nobody@example.com", &service] {
        client.post("/api/auth/password-reset/", json!({"username": username})).await.expect_empty();
    }
    let token = server.mail_to(&internal).await.token();
    let confirm = async |token: &str, password: &str| {
        client.post("/api/auth/password-reset/confirm/", json!({"token": token, "password": password})).await.status
    };
    assert_eq!(confirm("made-up", "a new password").await, 400);
    assert_eq!(confirm(&token, "short").await, 400);
    assert_eq!(confirm(&token, "a new password").await, 204);
    assert_eq!(confirm(&token, "a new password").await, 400);
    let none = Value::Null;
    let expected =
        [(7, 2), (8, 0), (8, 3), (10, 0), (10, 0), (9, 2), (10, 0)].map(|(kind, user)| (kind, user, none.clone()));
    assert_eq!(waiting_events(&server).await, expected);
}

#[tokio::test]
async fn usernames_and_passwords_of_failed_sign_ins_are_not_stored() {
    let server = TestServer::start().await;
    server.anonymous().login("my-secret-password", "another-secret").await.expect(401);
    server
        .anonymous()
        .post("/api/auth/password-reset/", json!({"username": "my-secret-password"}))
        .await
        .expect_empty();
    assert!(!format!("{:?}", events(&server).await).contains("secret"));
}

#[tokio::test]
async fn failures_do_not_fill_the_disk() {
    let server = TestServer::start_with(|config| config.identity.address_attempts = 0).await;
    let client = server.anonymous();
    // Simulates this number of waiting rows.
    let waiting = |n: i64| {
        move |conn: &mut Conn| {
            let sql =
                Sql::new("INSERT INTO outbox(n, id, kind, size, created_at, body) VALUES ($1, $2, 'system', 0, 0, $3)");
            conn.exec(&sql.arg(n).arg(uuid(n)).arg(success(n)))
        }
    };
    let clear = "DELETE FROM outbox WHERE body LIKE '%\"event_type\":2,%'";
    for n in [-10_000, -1] {
        server.build.db.write::<u64, StoreError>(waiting(n)).await.unwrap();
    }
    let failed = async |username: &str| {
        client.login(username, "wrong").await.expect(401);
    };
    for _ in 0..3 {
        failed("nobody@example.com").await;
        failed(ADMIN).await;
    }
    let counts = |events: Vec<WaitingSystemEvent>| -> Vec<(i64, i64, String, Value)> {
        let failures = events.into_iter().filter(|event| event.event_type != 1);
        failures.map(|event| (event.event_type, event.source_id, event.ip, event.data["count"].clone())).collect()
    };
    let here = || "127.0.0.1".to_owned();
    assert_eq!(counts(events(&server).await), [(2, 0, here(), json!(3)), (2, 1, here(), json!(3))]);
    // The next minute has rows of its own, and every success has a row.
    server.advance(MINUTE);
    failed("nobody@example.com").await;
    client.sign_in(ADMIN, PASSWORD).await;
    client.sign_in(ADMIN, PASSWORD).await;
    let all = events(&server).await;
    assert_eq!(all.iter().filter(|event| event.event_type == 1 && event.at > 0).count(), 2);
    assert_eq!(counts(all).len(), 3);
    // Beyond the second threshold, the row has neither account nor address.
    run(&server, clear).await;
    server.build.db.write::<u64, StoreError>(waiting(-100_001)).await.unwrap();
    for _ in 0..2 {
        failed("nobody@example.com").await;
        failed(ADMIN).await;
    }
    assert_eq!(counts(events(&server).await), [(2, 0, String::new(), json!(4))]);
}

#[tokio::test]
async fn parallel_failures_are_all_counted() {
    let server =
        TestServer::start_with(|config| (config.identity.address_attempts, config.identity.lock_attempts) = (0, 1000))
            .await;
    let insert = |conn: &mut Conn| {
        let sql = Sql::new(
            "INSERT INTO outbox(n, id, kind, size, created_at, body) \
             VALUES (-20000, $1, 'system', 0, 0, $2), (-1, $3, 'system', 0, 0, $4)",
        );
        conn.exec(&sql.arg(uuid(1)).arg(success(1)).arg(uuid(2)).arg(success(2)))
    };
    server.build.db.write::<u64, StoreError>(insert).await.unwrap();
    let mut tasks = Vec::new();
    for _ in 0..20 {
        let client = server.anonymous();
        tasks.push(tokio::spawn(async move { client.login(ADMIN, "wrong").await.status }));
    }
    let mut refused = 0;
    for task in tasks {
        refused += i64::from(task.await.unwrap() == 401);
    }
    let failures: Vec<WaitingSystemEvent> =
        events(&server).await.into_iter().filter(|event| event.event_type == 2).collect();
    assert_eq!((failures.len(), &failures[0].data["count"]), (1, &json!(refused)));
}

/// Returns an old event of a successful sign-in.
fn success(n: i64) -> String {
    json!({
        "id": uuid(n), "event_timestamp": "1970-01-01T00:00:00.000000Z", "category": 1, "event_type": 1, "source_id": 1,
        "source_type": 1, "source_info": "", "source_ip": "", "event_data": "{}",
    })
    .to_string()
}

/// Returns a text with the length of a uuid.
fn uuid(n: i64) -> String {
    format!("{n:036}")
}
