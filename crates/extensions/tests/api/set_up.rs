//! The set-up of tests of extensions.

use crate::TestServer;
use kit::address::Ranges;
use kit::jobs;
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::{ApiClient, Receiver, TestSettings, eventually};

pub const INTEGRATIONS: &str = "/api/integrations/";

/// A secret with the bytes that a library decodes from its base64.
pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Returns the first super admin of a server, who has created class 1, `Order`, with the document field 1, `Files`.
pub async fn with_class(server: &TestServer) -> ApiClient {
    let api = server.admin().await;
    api.post("/api/object-classes/", json!({"name": "Order"})).await.expect_created();
    let field = json!({"label": "Files", "type": "document", "max_num_of_files": 25});
    api.post("/api/object-classes/1/fields/", field).await.expect_created();
    api
}

/// Returns the body of a webhook of class 1.
pub fn webhook(name: &str) -> Value {
    json!({
        "type": "webhook", "name": name, "object_class": 1, "is_enabled": true, "url": "https://receiver.example/hook",
        "secret": SECRET,
    })
}

/// Returns the body of an integration of agents.
pub fn agents(name: &str) -> Value {
    json!({"type": "ai_mcp", "name": name, "redirect_uris": ["https://agent.example/callback"]})
}

/// Returns the body of copies of the documents of class 1.
pub fn copies(name: &str) -> Value {
    json!({
        "type": "document_management", "name": name, "object_class": 1, "object_class_field": 1, "folder": "contracts",
        "is_enabled": true,
    })
}

/// Returns the address of an integration.
pub fn address(integration: &Value) -> String {
    format!("{INTEGRATIONS}{}/", integration["uuid"].as_str().unwrap())
}

/// Returns the first number that a statement reads from the first build's database.
pub async fn number(server: &TestServer, sql: &'static str) -> i64 {
    let read = move |conn: &mut Conn| conn.query_one(&Sql::new(sql), |row| row.int(0));
    server.build.db.read::<_, StoreError>(read).await.unwrap()
}

/// Grants a user actions on class 1 and its records by a class permission set of their own.
pub async fn with_class_set(api: &ApiClient, user: i64, permissions: Value) {
    let body = json!({"name": format!("Of {user}"), "permissions": permissions});
    let set = api.post("/api/object-classes/1/permission-sets/", body).await.id();
    let assignees = format!("/api/object-classes/1/permission-sets/{set}/assignees/users/");
    api.post(&assignees, json!([user])).await.expect_created();
}

/// Allows webhooks to call receivers of the test.
pub fn open_loopback(settings: &mut TestSettings) {
    settings.outbound_allow = Ranges::parse_list("127.0.0.0/8").unwrap();
    // Tests advance the clock by days.
    settings.identity.access_token_seconds = 1_000_000;
    settings.identity.refresh_token_seconds = 1_000_000;
}

/// Creates a webhook of class 1 that sends to a receiver, with other values. Returns its address.
pub async fn hook(api: &ApiClient, receiver: &Receiver, name: &str, others: Value) -> String {
    let mut body = webhook(name);
    body["url"] = json!(receiver.url("/hook"));
    for (name, value) in others.as_object().unwrap() {
        body[name] = value.clone();
    }
    address(&api.post(INTEGRATIONS, body).await.expect_created())
}

/// Creates a record of class 1. Returns its id.
pub async fn record(api: &ApiClient) -> i64 {
    api.post("/api/object-classes/1/object-records/", json!({})).await.id()
}

/// Advances the clock and wakes the jobs of the first build.
pub fn advance(server: &TestServer, seconds: i64) {
    server.advance(seconds * 1_000_000);
    jobs::wake(&server.app, &server.build);
}

/// Returns the deliveries of a webhook, the newest first, when at least `count` of them were tried.
pub async fn deliveries(api: &ApiClient, webhook: &str, count: usize) -> Vec<Value> {
    eventually(async || {
        let listed = api.get(&format!("{webhook}deliveries/?limit=1000")).await.ok();
        let results = listed["results"].as_array().unwrap().clone();
        let tried = results.iter().filter(|delivery| delivery["attempts"].as_i64() > Some(0)).count();
        if tried >= count { Ok(results) } else { Err(listed) }
    })
    .await
}
