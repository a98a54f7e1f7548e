//! Helpers for the set-up of tests of SCIM.

use crate::TestServer;
use serde_json::{Value, json};
use testkit::{ApiClient, PreparedCall, Reply, TestBuild};

pub const USERS: &str = "/api/scim/v2/Users/";
pub const GROUPS: &str = "/api/scim/v2/Groups/";
pub const TOKENS: &str = "/api/scim/tokens/";
pub const CORE: &str = "urn:ietf:params:scim:schemas:core:2.0:User";
pub const ENTERPRISE: &str = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
const ERROR: &str = "urn:ietf:params:scim:api:messages:2.0:Error";

/// Creates a single sign-on configuration and returns its id.
pub async fn configuration(api: &ApiClient, name: &str) -> i64 {
    let body = json!({
        "name": name, "client_id": "a", "client_secret": "b", "tenant_id": name.to_lowercase(), "provider": "provider_a",
        "is_enabled": true,
    });
    api.post("/api/single-sign-on/", body).await.id()
}

/// Creates a token of a configuration. Returns a client that uses it.
pub async fn directory(tenant: &TestBuild, api: &ApiClient, name: &str, configuration: i64) -> ApiClient {
    let body = json!({"name": name, "single_sign_on": configuration});
    let made = api.post(TOKENS, body).await.expect_created();
    tenant.anonymous().with_header("authorization", &format!("Bearer {}", made["token"].as_str().unwrap()))
}

/// Creates a configuration with a token. Returns the first super admin, and a client that uses the token.
pub async fn with_directory(server: &TestServer) -> (ApiClient, ApiClient) {
    let api = server.admin().await;
    let configuration = configuration(&api, "Company").await;
    let directory = directory(server, &api, "Directory", configuration).await;
    (api, directory)
}

/// Returns a body with the media type of SCIM.
pub fn with_body(call: PreparedCall, body: &Value) -> PreparedCall {
    call.body("application/scim+json", body.to_string())
}

/// Sends a request with a body.
pub async fn send(client: &ApiClient, method: &str, path: &str, body: Value) -> Reply {
    with_body(client.call(method, path), &body).send().await
}

/// Sends a PATCH with these operations.
pub async fn patch(client: &ApiClient, path: &str, operations: Value) -> Reply {
    let schemas = json!(["urn:ietf:params:scim:api:messages:2.0:PatchOp"]);
    send(client, "PATCH", path, json!({"schemas": schemas, "Operations": operations})).await
}

/// Creates a user and returns its id.
pub async fn user(client: &ApiClient, username: &str) -> String {
    let made = send(client, "POST", USERS, json!({"schemas": [CORE], "userName": username})).await;
    made.expect_created()["id"].as_str().unwrap().to_owned()
}

/// Creates a group and returns its id.
pub async fn group(client: &ApiClient, name: &str, members: &[&str]) -> String {
    let members: Vec<Value> = members.iter().map(|id| json!({"value": id})).collect();
    let made = send(client, "POST", GROUPS, json!({"displayName": name, "members": members})).await;
    made.expect_created()["id"].as_str().unwrap().to_owned()
}

/// Checks that an answer is a refusal in the form of SCIM.
#[track_caller]
pub fn expect_refusal(reply: &Reply, status: u16, scim_type: Option<&str>) {
    assert_eq!(reply.status, status, "{reply:?}");
    assert_eq!(reply.header("content-type"), "application/scim+json");
    assert_eq!(reply["schemas"], json!([ERROR]), "{reply:?}");
    assert_eq!(reply["status"], status.to_string(), "{reply:?}");
    assert_eq!(reply["scimType"].as_str(), scim_type, "{reply:?}");
    assert!(reply["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{reply:?}");
}
