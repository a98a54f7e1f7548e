//! The set-up of tests of agents.

use crate::TestServer;
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::ApiClient;

pub const CONNECTORS: &str = "/api/mcp/connectors/";
pub const INTEGRATIONS: &str = "/api/integrations/";
/// The callback of the agents of these tests.
pub const CALLBACK: &str = "https://agent.example/callback";

/// Creates a class, and returns its id.
pub async fn class(api: &ApiClient, name: &str) -> i64 {
    api.post("/api/object-classes/", json!({"name": name})).await.id()
}

/// Creates an enabled integration of agents with these classes, and returns its uuid.
pub async fn integration(api: &ApiClient, name: &str, classes: &[i64]) -> String {
    let body = json!({
        "type": "ai_mcp", "name": name, "is_enabled": true, "object_classes": classes,
        "redirect_uris": [CALLBACK, "http://127.0.0.1/callback"],
    });
    api.post(INTEGRATIONS, body).await.expect_created()["uuid"].as_str().unwrap().to_owned()
}

/// Creates a connector, and returns the answer.
pub async fn connector(api: &ApiClient, name: &str, integration: &str) -> Value {
    api.post(CONNECTORS, json!({"name": name, "integration": integration})).await.expect_created()
}

/// The number that a statement returns.
pub async fn number(server: &TestServer, text: &'static str) -> i64 {
    let read = move |conn: &mut Conn| conn.query_one(&Sql::new(text), |row| row.int(0));
    server.build.db.read::<i64, StoreError>(read).await.unwrap()
}
