//! The classes of a connector, and the rights that record permission sets give to it (`docs/reference/mcp-connectors.md`).

use crate::TestServer;
use crate::set_up::{CONNECTORS, INTEGRATIONS, class, connector, integration, number};
use serde_json::{Value, json};
use testkit::{ApiClient, message, send_concurrently};

/// The connectors that have rights by a set of a class, with their actions on records.
async fn connectors(api: &ApiClient, class: i64) -> Vec<(i64, Value)> {
    let sets = api.get(&format!("/api/object-classes/{class}/record-permission-sets/")).await.ok();
    let of_first = sets["results"][0]["mcp_permissions"].as_array().unwrap().clone();
    of_first.iter().map(|of| (of["connector"].as_i64().unwrap(), of["permissions"]["object_records"].clone())).collect()
}

/// Creates a record set of a class that gives `view` to its users and then to a connector.
async fn create_record_set(api: &ApiClient, class: i64, connector: i64) -> String {
    let sets = format!("/api/object-classes/{class}/record-permission-sets/");
    let body = json!({"name": "Readers", "permissions": {"object_records": ["view"]}});
    let set_path = format!("{sets}{}/", api.post(&sets, body).await.id());
    let give = json!({"mcp_permissions": [{"connector": connector, "permissions": {"object_records": ["view"]}}]});
    api.patch(&set_path, give).await.ok();
    set_path
}

#[tokio::test]
async fn a_connector_has_the_classes_of_its_integration() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let (orders, bills, letters) =
        (class(&api, "Orders").await, class(&api, "Bills").await, class(&api, "Letters").await);
    let agents = integration(&api, "Agents", &[orders]).await;
    let integration_path = format!("{INTEGRATIONS}{agents}/");
    api.patch(&integration_path, json!({"object_class": bills})).await.ok();
    connector(&api, "First", &agents).await;
    connector(&api, "Second", &agents).await;
    create_record_set(&api, orders, 1).await;
    create_record_set(&api, bills, 2).await;
    let nothing = || json!([]);
    assert_eq!(connectors(&api, orders).await, [(1, json!(["view"])), (2, nothing())]);
    assert_eq!(connectors(&api, bills).await, [(1, nothing()), (2, json!(["view"]))]);

    // A class that both fields name stays associated until neither names it. The rights of connectors end with the last one.
    api.patch(&integration_path, json!({"object_classes": [orders, bills, letters]})).await.ok();
    api.patch(&integration_path, json!({"object_class": null})).await.ok();
    assert_eq!(connectors(&api, bills).await, [(1, nothing()), (2, json!(["view"]))]);
    api.patch(&integration_path, json!({"object_classes": [orders]})).await.ok();
    assert_eq!(connectors(&api, bills).await, []);
    assert_eq!(number(&server, "SELECT count(*) FROM record_set_connectors").await, 1);
    api.patch(&integration_path, json!({"object_classes": [orders, bills]})).await.ok();
    assert_eq!(connectors(&api, bills).await, [(1, nothing()), (2, nothing())]);

    // A change of another field changes no associations.
    api.patch(&integration_path, json!({"name": "Others", "is_enabled": false})).await.ok();
    assert_eq!(connectors(&api, orders).await, [(1, json!(["view"])), (2, nothing())]);

    // The deletion of a class deletes its sets.
    api.delete(&format!("/api/object-classes/{orders}/")).await.expect_empty();
    assert_eq!(number(&server, "SELECT count(*) FROM record_set_connectors").await, 0);
    assert_eq!(number(&server, "SELECT count(*) FROM mcp_connector_classes").await, 2);

    // The deletion of a connector deletes its rights by sets.
    api.delete(&format!("{CONNECTORS}1/")).await.expect_empty();
    assert_eq!(connectors(&api, bills).await, [(2, nothing())]);
}

#[tokio::test]
async fn an_integration_with_connectors_stays() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let agents = integration(&api, "Agents", &[]).await;
    connector(&api, "First", &agents).await;
    let integration_path = format!("{INTEGRATIONS}{agents}/");
    let refusal = message::detail("Integration is used by MCP connectors and cannot be deleted.");
    api.delete(&integration_path).await.expect_reply(400, refusal.clone());
    api.get(&integration_path).await.ok();
    api.delete(&format!("{CONNECTORS}1/")).await.expect_empty();
    api.delete(&integration_path).await.expect_empty();

    // A connector and the deletion of its integration at the same time: one of them succeeds.
    for n in 0..5 {
        let agents = integration(&api, "Agents", &[]).await;
        let body = json!({"name": format!("Racing {n}"), "integration": agents});
        let replies = send_concurrently([
            api.call("POST", CONNECTORS).json(&body),
            api.call("DELETE", &format!("{INTEGRATIONS}{agents}/")),
        ])
        .await;
        match (replies[0].status, replies[1].status) {
            (201, 400) => {
                replies[1].expect_reply(400, refusal.clone());
                api.delete(&format!("{CONNECTORS}{}/", replies[0].id())).await.expect_empty();
                api.delete(&format!("{INTEGRATIONS}{agents}/")).await.expect_empty();
            }
            (400, 204) => {
                let gone = json!({"integration": [format!("{agents} is not a valid AI MCP integration.")]});
                replies[0].refuses(gone);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn rights_of_a_connector_end_with_its_association() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let orders = class(&api, "Orders").await;
    let agents = integration(&api, "Agents", &[orders]).await;
    connector(&api, "First", &agents).await;
    let set = create_record_set(&api, orders, 1).await;
    let integration_path = format!("{INTEGRATIONS}{agents}/");
    for _ in 0..10 {
        api.patch(&integration_path, json!({"object_classes": [orders]})).await.ok();
        let give = json!({"mcp_permissions": [{"connector": 1, "permissions": {"object_records": ["view"]}}]});
        let replies = send_concurrently([
            api.call("PATCH", &set).json(&give),
            api.call("PATCH", &integration_path).json(&json!({"object_classes": []})),
        ])
        .await;
        assert_eq!(replies[1].status, 200, "{:?}", replies[1]);
        assert!([200, 400].contains(&replies[0].status), "{:?}", replies[0]);
        assert_eq!(number(&server, "SELECT count(*) FROM record_set_connectors").await, 0);
        assert_eq!(number(&server, "SELECT count(*) FROM mcp_connector_classes").await, 0);
    }
}

#[tokio::test]
async fn access_tells_what_somebodys_agent_may_do() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let orders = class(&api, "Orders").await;
    let agents = integration(&api, "Agents", &[orders]).await;
    connector(&api, "First", &agents).await;
    connector(&api, "Second", &integration(&api, "Others", &[]).await).await;
    let set = create_record_set(&api, orders, 1).await;
    let record = api.post(&format!("/api/object-classes/{orders}/object-records/"), json!({})).await.id();
    let ann = server.as_type("internal").await;
    let set = set.split('/').rev().nth(1).unwrap();
    let assignees = format!("/api/object-records/{record}/permission-sets/{set}/assignees/");
    api.post(&assignees, json!([ann.id])).await.expect_created();
    let may = async |connector: i64, user: i64| {
        let path = format!("/api/object-records/{record}/access/?connector={connector}&user={user}");
        api.get(&path).await.ok()["permissions"]["object_records"]["view"].clone()
    };
    // The owner of the record has no set, so their agent has no rights.
    assert_eq!([may(1, ann.id).await, may(2, ann.id).await, may(1, 1).await], [true, false, false]);
    api.patch(&format!("{INTEGRATIONS}{agents}/"), json!({"object_classes": []})).await.ok();
    assert_eq!(may(1, ann.id).await, false);
}
