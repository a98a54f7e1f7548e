//! Helpers for the set-up of tests of comments.

use crate::TestServer;
use serde_json::{Value, json};
use testkit::ApiClient;

/// The comments of record 1.
pub const COMMENTS: &str = "/api/object-records/1/comments/";

/// Creates class 1 with record 1. Returns the first super admin.
pub async fn with_record(server: &TestServer) -> ApiClient {
    let api = server.admin().await;
    api.post("/api/object-classes/", json!({"name": "Order"})).await.expect_created();
    api.post("/api/object-classes/1/object-records/", json!({})).await.expect_created();
    api
}

/// Grants a user these actions on record 1.
pub async fn grant(api: &ApiClient, user: i64, actions: Value) {
    let set = json!({"name": format!("Of {user}"), "permissions": {"object_records": actions}});
    let set = api.post("/api/object-classes/1/record-permission-sets/", set).await.id();
    let assignees = format!("/api/object-records/1/permission-sets/{set}/assignees/");
    api.post(&assignees, json!([user])).await.expect_created();
}

/// Writes a comment of record 1 and returns its id.
pub async fn comment(client: &ApiClient, body: Value) -> i64 {
    let reply = client.post(COMMENTS, body).await;
    reply.expect_created();
    reply.id()
}
