//! The description of the server, and the parts of SCIM that it lacks (`docs/reference/scim.md`).

use crate::TestServer;
use crate::set_up::{CORE, ENTERPRISE, GROUPS, USERS, expect_refusal, send, with_directory};
use serde_json::{Value, json};

#[tokio::test]
async fn the_server_describes_itself() {
    let server = TestServer::start().await;
    let (_, client) = with_directory(&server).await;
    let config = client.get("/api/scim/v2/ServiceProviderConfig").await;
    assert_eq!(config.header("content-type"), "application/scim+json");
    let config = config.ok();
    let supported: Vec<(&str, bool)> = ["patch", "bulk", "filter", "changePassword", "sort", "etag"]
        .into_iter()
        .map(|part| (part, config[part]["supported"].as_bool().unwrap()))
        .collect();
    assert_eq!(
        supported,
        [
            ("patch", true),
            ("bulk", false),
            ("filter", true),
            ("changePassword", false),
            ("sort", false),
            ("etag", true)
        ]
    );
    assert_eq!(config["filter"]["maxResults"], 200);
    let schemas = client.get("/api/scim/v2/Schemas").await.ok();
    let ids: Vec<&Value> = schemas["Resources"].as_array().unwrap().iter().map(|schema| &schema["id"]).collect();
    let group = "urn:ietf:params:scim:schemas:core:2.0:Group";
    assert_eq!(ids, [CORE, ENTERPRISE, group]);
    for (n, id) in [CORE, ENTERPRISE, group].into_iter().enumerate() {
        client.get(&format!("/api/scim/v2/Schemas/{id}")).await.expect_reply(200, schemas["Resources"][n].clone());
    }
    let types = client.get("/api/scim/v2/ResourceTypes").await.ok();
    for (n, name) in ["User", "Group"].into_iter().enumerate() {
        let path = format!("/api/scim/v2/ResourceTypes/{name}");
        client.get(&path).await.expect_reply(200, types["Resources"][n].clone());
    }
    expect_refusal(&client.get("/api/scim/v2/Schemas/x").await, 404, None);
    expect_refusal(&client.get("/api/scim/v2/ResourceTypes/x").await, 404, None);
}

#[tokio::test]
async fn missing_parts_are_named() {
    let server = TestServer::start().await;
    let (_, client) = with_directory(&server).await;
    for path in ["/api/scim/v2/Bulk", "/api/scim/v2/.search"] {
        expect_refusal(&send(&client, "POST", path, json!({"Operations": []})).await, 501, None);
    }
    for method in ["GET", "PUT", "PATCH", "DELETE"] {
        expect_refusal(&send(&client, method, "/api/scim/v2/Me", json!({})).await, 501, None);
    }
    for path in [USERS, GROUPS] {
        expect_refusal(&client.get(&format!("{path}?sortBy=id")).await, 501, None);
        expect_refusal(&send(&client, "PUT", path, json!({})).await, 405, None);
    }
}

#[tokio::test]
async fn an_unknown_path_is_refused_in_the_form_of_scim() {
    let server = TestServer::start().await;
    let (_, client) = with_directory(&server).await;
    for path in ["/api/scim/v2/Planets", "/api/scim/v2/Users/1/groups", "/api/scim/v2/Users/.search"] {
        expect_refusal(&client.get(path).await, 404, None);
        expect_refusal(&server.anonymous().get(path).await, 401, None);
    }
}
