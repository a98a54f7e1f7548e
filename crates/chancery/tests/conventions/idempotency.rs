//! `Idempotency-Key`: a repeated POST has one effect and gets the first answer (`docs/reference/conventions.md`). Several processes
//! are tested in `tests/server/processes.rs`.

use crate::TestServer;
use crate::message;
use platform::kit::idempotency::sent_key::KeySupport;
use platform::table;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use store::{Conn, Sql, StoreError};
use testkit::{ApiClient, Reply, TestBuild, send_concurrently};

const ROLES: &str = "/api/roles/";
const USERS: &str = "/api/users/";
const RECORDS: &str = "/api/object-classes/1/object-records/";
const DAY: i64 = 86_400_000_000;

/// Sends a POST with a key.
async fn post(client: &ApiClient, path: &str, key: &str, body: &Value) -> Reply {
    client.call("POST", path).header("idempotency-key", key).json(body).send().await
}

fn is_replayed(reply: &Reply) -> bool {
    reply.header("idempotency-replayed") == "true"
}

/// Reads a number from the database of the build.
async fn number(server: &TestBuild, sql: &'static str) -> i64 {
    let read = move |conn: &mut Conn| conn.query_one(&Sql::new(sql), |row| row.int(0));
    server.build.db.read::<i64, StoreError>(read).await.unwrap()
}

/// Creates a class with a text, and a role by which its records are listed and created.
async fn notes(admin: &ApiClient) {
    admin.post("/api/object-classes/", json!({"name": "Note"})).await.expect_created();
    let field = json!({"label": "Title", "type": "string"});
    admin.post("/api/object-classes/1/fields/", field).await.expect_created();
}

#[tokio::test]
async fn a_repeated_request_has_no_effect_and_gets_the_first_answer() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let body = json!({"name": "Readers"});

    let first = post(&admin, ROLES, "a", &body).await;
    assert_eq!((first.status, first.header("idempotency-replayed")), (201, ""));
    // The slash at the end does not belong to the address.
    for path in [ROLES, "/api/roles"] {
        let again = post(&admin, path, "a", &body).await;
        assert_eq!((again.status, &again.text, is_replayed(&again)), (201, &first.text, true));
        assert_eq!(again.header("etag"), first.header("etag"));
        assert_eq!(again.header("content-type"), "application/json");
        assert_ne!(again.header("x-request-id"), first.header("x-request-id"));
    }
    // The first answer remains, even if its role was changed or deleted.
    admin.delete("/api/roles/1/").await.expect(204);
    assert_eq!(post(&admin, ROLES, "a", &body).await.text, first.text);
    assert_eq!(admin.get(ROLES).await["total_count"], 0);

    let other_body = post(&admin, ROLES, "a", &json!({"name": "Readers "})).await;
    other_body.expect_reply(422, message::detail("Idempotency-Key was used with another body."));
    // The body is not checked before.
    let broken = admin.call("POST", ROLES).header("idempotency-key", "a").body("application/json", "{");
    broken.send().await.expect_reply(422, message::detail("Idempotency-Key was used with another body."));

    // Another key, another query string, another path and another account are other requests.
    for (client, path, key) in [
        (&admin, ROLES, "b"),
        (&admin, "/api/roles/?x=1", "a"),
        (&admin, "/api/user-groups/", "a"),
        (&server.with_role(json!({"roles": ["create", "list"]})).await, ROLES, "a"),
    ] {
        let reply = post(client, path, key, &json!({"name": format!("{path} {key} {}", client.id)})).await;
        assert_eq!((reply.status, is_replayed(&reply)), (201, false), "{path} {key} {reply:?}");
    }
}

#[tokio::test]
async fn refusals_leave_the_key_free() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    post(&admin, ROLES, "a", &json!({"name": ""})).await.refuses(json!({"name": ["This field may not be blank."]}));
    let broken = admin.call("POST", ROLES).header("idempotency-key", "a").body("application/json", "{").send().await;
    assert_eq!(broken.status, 400);
    let created = post(&admin, ROLES, "a", &json!({"name": "Readers"})).await;
    assert_eq!((created.status, is_replayed(&created)), (201, false));
}

#[tokio::test]
async fn the_caller_and_the_media_type_are_checked_before_the_key() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let creator = server.with_role(json!({"roles": ["create", "list"]})).await;
    let body = json!({"name": "Readers"});
    post(&creator, ROLES, "a", &body).await.expect(201);

    let typed = creator.call("POST", ROLES).header("idempotency-key", "a").body("text/plain", body.to_string());
    typed.send().await.expect_reply(415, message::detail("Unsupported media type \"text/plain\" in request."));
    post(&server.anonymous(), ROLES, "é", &body).await.expect_reply(401, message::unauthenticated());
    admin.patch(&format!("/api/users/{}/", creator.id), json!({"roles": []})).await.ok();
    post(&creator, ROLES, "a", &body).await.expect_reply(403, message::forbidden());
}

#[tokio::test]
async fn a_key_has_1_to_255_visible_ascii_characters_and_is_sent_once() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let invalid = || message::detail("Invalid Idempotency-Key.");
    for key in ["", "a b", "é", "a\tb", &"k".repeat(256)] {
        post(&admin, ROLES, key, &json!({"name": "x"})).await.expect_reply(400, invalid());
    }
    let twice = admin.call("POST", ROLES).header("idempotency-key", "a").header("idempotency-key", "a");
    twice.json(&json!({"name": "x"})).send().await.expect_reply(400, invalid());
    for key in ["~", &"k".repeat(255)] {
        post(&admin, ROLES, key, &json!({"name": key.get(..9).unwrap_or(key)})).await.expect(201);
    }
}

#[tokio::test]
async fn other_methods_dry_runs_and_callers_without_an_account_ignore_keys() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    notes(&admin).await;
    let batch = json!({"items": [{"fields": {"title": "First"}}]});
    for _ in 0..2 {
        let listed = admin.call("GET", ROLES).header("idempotency-key", "é").send().await;
        assert_eq!((listed.status, is_replayed(&listed)), (200, false));
        let trial = post(&admin, &format!("{RECORDS}batch/?dry_run=true"), "a", &batch).await;
        assert_eq!((trial.status, is_replayed(&trial)), (201, false));
        let public = post(&server.anonymous(), "/api/single-sign-on/login/", "é", &json!({"id": 1})).await;
        assert_ne!(public.text, message::detail("Invalid Idempotency-Key.").to_string());
    }
    assert_eq!(number(&server, "SELECT count(*) FROM idempotency_keys").await, 0);
    let batch_again = async || post(&admin, &format!("{RECORDS}batch/"), "a", &batch).await;
    assert_eq!(batch_again().await.expect(201), json!({"ids": [1]}));
    assert_eq!(batch_again().await.expect(201), json!({"ids": [1]}));
    assert_eq!(admin.get(RECORDS).await["total_count"], 1);
}

#[tokio::test]
async fn keys_are_refused_below_sign_in_at_uploads_and_where_a_secret_is_shown() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let refused = message::detail("Idempotency-Key is not supported here.");
    let routes = table().routes().filter(|route| route.key_support() == KeySupport::Refused);
    let paths: BTreeSet<&str> = routes
        .map(|route| route.path)
        .filter(|path| !path.starts_with("/oauth/") && !path.starts_with("/mcp/"))
        .collect();
    let (sign_in, others): (Vec<&str>, Vec<&str>) = paths.iter().partition(|path| path.starts_with("/api/auth/"));
    assert_eq!(
        others,
        [
            "/api/files/upload/",
            "/api/mcp/connectors/",
            "/api/mcp/connectors/{id}/reset-client-secret/",
            "/api/object-classes/{class_id}/object-records/export/link/",
            "/api/scim/tokens/",
            "/api/single-sign-on/{id}/link/",
            "/api/single-sign-on/{id}/test/",
            "/api/users/me/second-factors/",
            "/api/users/me/second-factors/recovery-codes/",
            "/api/users/me/second-factors/{id}/confirm/",
            "/api/users/{id}/activation-link/",
            "/api/users/{user_id}/api-keys/",
        ]
    );
    for path in others {
        let path = path.replace("{id}", "1").replace("{user_id}", "1").replace("{class_id}", "1");
        post(&admin, &path, "a", &json!({})).await.expect_reply(400, refused.clone());
    }
    for path in sign_in.into_iter().filter(|path| !path.contains("/browser/")) {
        for client in [&admin, &server.anonymous()] {
            let reply = post(client, path, "a", &json!({})).await;
            let is_unknown = client.id == 0 && path == "/api/auth/password-change/";
            assert_eq!(reply.status, if is_unknown { 401 } else { 400 }, "{path} {reply:?}");
            assert!(is_unknown || reply.json == refused, "{path} {reply:?}");
        }
    }
    assert_eq!(post(&server.anonymous(), "/oauth/token/", "a", &json!({})).await.status, 400);
}

#[tokio::test]
async fn requests_with_one_key_wait_for_each_other() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let body = json!({"username": "ann@example.com", "account_type": "internal", "first_name": "A", "last_name": "B"});
    let calls = (0..8).map(|_| admin.call("POST", USERS).header("idempotency-key", "a").json(&body));
    let replies = send_concurrently(calls).await;
    assert!(replies.iter().all(|reply| reply.status == 201 && reply.text == replies[0].text), "{replies:?}");
    assert_eq!(replies.iter().filter(|reply| is_replayed(reply)).count(), 7);
    // A service account's password is hashed before the transaction.
    let service = json!({
        "username": "svc@example.com", "account_type": "service_internal", "first_name": "A", "last_name": "B",
        "password": "correct horse battery",
    });
    let calls = (0..4).map(|_| admin.call("POST", USERS).header("idempotency-key", "b").json(&service));
    let replies = send_concurrently(calls).await;
    assert!(replies.iter().all(|reply| reply.status == 201 && reply.text == replies[0].text), "{replies:?}");
}

#[tokio::test]
async fn a_replay_about_a_record_asks_whether_the_caller_may_still_view_it() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    notes(&admin).await;
    let person = server.as_type("internal").await;
    let record = json!({"fields": {"title": "Salary"}, "owner": person.id});
    let first = post(&admin, RECORDS, "a", &record).await;
    assert_eq!(first.status, 201, "{first:?}");
    assert_eq!(post(&admin, RECORDS, "a", &record).await.text, first.text);
    let owners = post(&person, "/api/object-records/1/owners/", "o", &json!([person.id])).await;
    let id = json!({"id": 1});

    admin.delete("/api/object-records/1/").await.expect(204);
    let hidden = post(&admin, RECORDS, "a", &record).await;
    assert_eq!((hidden.status, &hidden.json, is_replayed(&hidden)), (201, &id, true));
    assert_eq!(hidden.header("etag"), "");
    if owners.status == 201 {
        let hidden = post(&person, "/api/object-records/1/owners/", "o", &json!([person.id])).await;
        assert_eq!((hidden.status, &hidden.json), (201, &id));
    }
}

#[tokio::test]
async fn a_large_answer_is_read_again_at_its_address() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    admin.post("/api/object-classes/", json!({"name": "Note"})).await.expect_created();
    let field = json!({"label": "Text", "type": "text"});
    admin.post("/api/object-classes/1/fields/", field).await.expect_created();
    let record = |text: &str| json!({"fields": {"text": text.repeat(9000)}});
    // Nine thousand characters of three bytes each are below the bound of a text, and three of them above 64 KiB.
    for alias in ["Text 2", "Text 3"] {
        admin.post("/api/object-classes/1/fields/", json!({"label": alias, "type": "text"})).await.expect_created();
    }
    let mut body = record("€");
    body["fields"]["text_2"] = body["fields"]["text"].clone();
    body["fields"]["text_3"] = body["fields"]["text"].clone();
    let first = post(&admin, RECORDS, "a", &body).await;
    assert!(first.status == 201 && first.text.len() > 64 * 1024, "{} {}", first.status, first.text.len());
    let again = post(&admin, RECORDS, "a", &body).await;
    assert_eq!((again.status, &again.json, is_replayed(&again)), (201, &first.json, true));
    admin.patch("/api/object-records/1/", json!({"fields": {"text": "changed"}})).await.ok();
    assert_eq!(post(&admin, RECORDS, "a", &body).await["fields"]["text"], "changed");
    admin.delete("/api/object-records/1/").await.expect(204);
    post(&admin, RECORDS, "a", &body).await.expect_reply(201, json!({"id": 1}));
    assert!(number(&server, "SELECT max(length(answer)) FROM idempotency_keys").await < 2000);
}

#[tokio::test]
async fn answers_are_sealed_and_stored_for_a_day() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let body = json!({"name": "Readers"});
    post(&admin, ROLES, "a", &body).await.expect(201);
    assert_eq!(number(&server, "SELECT count(*) FROM idempotency_keys WHERE answer LIKE '%Readers%'").await, 0);
    server.advance(DAY - 1);
    let admin = server.admin().await;
    assert!(is_replayed(&post(&admin, ROLES, "a", &body).await));
    server.advance(1);
    post(&admin, ROLES, "a", &body).await.refuses(json!({"name": ["This field must be unique."]}));
    let again = post(&admin, ROLES, "a", &json!({"name": "Writers"})).await;
    assert_eq!((again.status, is_replayed(&again)), (201, false));
}

#[tokio::test]
async fn an_account_stores_10_000_answers() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let fill = |conn: &mut Conn| -> Result<(), StoreError> {
        let sql = "INSERT INTO idempotency_keys(account, key_hash, row_key, answer, created_at) \
                   WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 10000) \
                   SELECT 1, 'hash ' || n, '', '', 9000000000000000 FROM n";
        conn.exec(&Sql::new(sql))?;
        Ok(())
    };
    server.build.db.write::<(), StoreError>(fill).await.unwrap();
    for name in ["a", "b", "c"] {
        post(&admin, ROLES, name, &json!({"name": name})).await.expect(201);
        assert!(number(&server, "SELECT count(*) FROM idempotency_keys WHERE account = 1").await <= 10_000);
    }
    // The oldest go first.
    assert_eq!(number(&server, "SELECT min(id) FROM idempotency_keys").await, 4);
}

#[tokio::test]
async fn the_answers_of_an_account_go_with_it_and_all_of_them_with_an_anonymized_one() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let creator = server.with_role(json!({"roles": ["create", "list"]})).await;
    post(&creator, ROLES, "a", &json!({"name": "x"})).await.expect(201);
    post(&admin, ROLES, "a", &json!({"name": "y"})).await.expect(201);
    let person = server.as_type("internal").await;
    admin.delete(&format!("/api/users/{}/", creator.id)).await.expect(204);
    assert_eq!(number(&server, "SELECT count(*) FROM idempotency_keys").await, 1);
    admin.post(&format!("/api/users/{}/anonymize/", person.id), json!({})).await.ok();
    assert_eq!(number(&server, "SELECT count(*) FROM idempotency_keys").await, 0);
}

#[tokio::test]
async fn front_ends_of_other_origins_send_keys_and_read_replays() {
    let server = TestServer::start_with(|config| config.cors_origins = vec!["https://app.example".to_owned()]).await;
    let admin = server.admin().await;
    let call = admin.call("POST", ROLES).header("origin", "https://app.example").header("idempotency-key", "a");
    let exposed = call.json(&json!({"name": "x"})).send().await.header("access-control-expose-headers").to_owned();
    for header in ["idempotency-replayed", "x-change-id", "retry-after", "ratelimit", "ratelimit-policy"] {
        assert!(exposed.split(", ").any(|name| name == header), "{header} {exposed}");
    }
}
