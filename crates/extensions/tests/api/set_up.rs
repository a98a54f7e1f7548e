//! What tests of extensions begin with.

use crate::TestServer;
use kit::address::Ranges;
use kit::jobs;
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::{ApiClient, Receiver, TestSettings, eventually};

pub const INTEGRATIONS: &str = "/api/integrations/";

/// A secret with the bytes that a library reads from its base64.
pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The first super admin of a server, who made class 1, `Order`, with the document field 1, `Files`.
pub async fn with_class(server: &TestServer) -> ApiClient {
    let api = server.admin().await;
    api.post("/api/object-classes/", json!({"name": "Order"})).await.expect_created();
    let field = json!({"label": "Files", "type": "document", "max_num_of_files": 25});
    api.post("/api/object-classes/1/fields/", field).await.expect_created();
    api
}

/// The body of a webhook of class 1.
pub fn webhook(name: &str) -> Value {
    json!({
        "type": "webhook", "name": name, "object_class": 1, "is_enabled": true, "url": "https://receiver.example/hook",
        "secret": SECRET,
    })
}

/// The body of an integration of agents.
pub fn agents(name: &str) -> Value {
    json!({"type": "ai_mcp", "name": name, "redirect_uris": ["https://agent.example/callback"]})
}

/// The body of copies of the documents of class 1.
pub fn copies(name: &str) -> Value {
    json!({
        "type": "document_management", "name": name, "object_class": 1, "object_class_field": 1, "folder": "contracts",
        "is_enabled": true,
    })
}

/// The address of an integration.
pub fn address(integration: &Value) -> String {
    format!("{INTEGRATIONS}{}/", integration["uuid"].as_str().unwrap())
}

/// The first number that a statement reads from the first build's database.
pub async fn number(server: &TestServer, sql: &'static str) -> i64 {
    let read = move |conn: &mut Conn| conn.query_one(&Sql::new(sql), |row| row.int(0));
    server.build.db.read::<_, StoreError>(read).await.unwrap()
}

/// Gives somebody actions on class 1 and its records by a class permission set of his own.
pub async fn with_class_set(api: &ApiClient, user: i64, permissions: Value) {
    let body = json!({"name": format!("Of {user}"), "permissions": permissions});
    let set = api.post("/api/object-classes/1/permission-sets/", body).await.id();
    let assignees = format!("/api/object-classes/1/permission-sets/{set}/assignees/users/");
    api.post(&assignees, json!([user])).await.expect_created();
}

/// Lets webhooks lead to receivers of the test.
pub fn open_loopback(settings: &mut TestSettings) {
    settings.outbound_allow = Ranges::parse_list("127.0.0.0/8").unwrap();
    // The clock is advanced by days.
    settings.identity.access_token_seconds = 1_000_000;
    settings.identity.refresh_token_seconds = 1_000_000;
}

/// Makes a webhook of class 1 that sends to a receiver, with other values; its address.
pub async fn hook(api: &ApiClient, receiver: &Receiver, name: &str, others: Value) -> String {
    let mut body = webhook(name);
    body["url"] = json!(receiver.url("/hook"));
    for (name, value) in others.as_object().unwrap() {
        body[name] = value.clone();
    }
    address(&api.post(INTEGRATIONS, body).await.expect_created())
}

/// Makes a record of class 1; its id.
pub async fn record(api: &ApiClient) -> i64 {
    api.post("/api/object-classes/1/object-records/", json!({})).await.id()
}

/// Advances the clock and has the jobs of the first build look at it.
pub fn advance(server: &TestServer, seconds: i64) {
    server.advance(seconds * 1_000_000);
    jobs::wake(&server.app, &server.build);
}

/// The deliveries of a webhook, the newest first, when none of them waits for its first attempt.
pub async fn deliveries(api: &ApiClient, webhook: &str, count: usize) -> Vec<Value> {
    eventually(async || {
        let listed = api.get(&format!("{webhook}deliveries/?limit=1000")).await.ok();
        let results = listed["results"].as_array().unwrap().clone();
        let tried = results.iter().filter(|delivery| delivery["attempts"].as_i64() > Some(0)).count();
        if tried >= count { Ok(results) } else { Err(listed) }
    })
    .await
}
