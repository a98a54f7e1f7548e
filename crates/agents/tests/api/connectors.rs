//! `/api/mcp/connectors/` (`docs/reference/mcp-connectors.md`).

use crate::TestServer;
use crate::set_up::{CONNECTORS, INTEGRATIONS, connector, integration, number};
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::shown::{START, admin, page, user};
use testkit::{ApiClient, SECOND, message, one_wins, send_concurrently, statuses};

const READING: [&str; 9] = [
    "list_object_classes",
    "describe_object_class",
    "search_records",
    "get_record",
    "list_tasks",
    "get_task",
    "get_record_history",
    "list_startable_sequences",
    "get_sequence_run",
];

fn all_permissions() -> Value {
    json!({"permissions": {"list": true, "view": true, "create": true, "edit": true, "delete": true}})
}

/// Connector 1 as its detail shows it, with the address and the client of the answer to its creation.
fn connector_detail(created: &Value, integration: &str) -> Value {
    json!({
        "id": 1, "name": "Assistant", "description": "", "integration": integration, "is_enabled": true, "status": "enabled",
        "allowed_tools": READING, "server_url": created["server_url"], "client_id": created["client_id"],
        "created_at": START, "created_by": admin(), "modified_at": START, "modified_by": admin(), "_meta": all_permissions(),
    })
}

fn connector_item(integration: &str) -> Value {
    let mut listed = connector_detail(&json!({}), integration);
    for name in ["allowed_tools", "server_url", "client_id"] {
        listed.as_object_mut().unwrap().shift_remove(name);
    }
    listed
}

#[tokio::test]
async fn a_connector_from_its_creation_to_its_end() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.get(CONNECTORS).await.expect_reply(200, page(json!([])));
    let agents = integration(&api, "Agents", &[]).await;
    let body = json!({
        "name": " Assistant ", "integration": agents, "id": 7, "status": "disabled", "client_id": "x", "client_secret": "y",
    });
    let reply = api.post(CONNECTORS, body).await;
    let created = reply.expect_created();
    let secret = created["client_secret"].as_str().unwrap().to_owned();
    let mut expected = connector_detail(&created, &agents);
    expected["client_secret"] = json!(secret);
    assert_eq!(created, expected);
    assert_eq!(secret.len(), 43);
    let url = created["server_url"].as_str().unwrap();
    let uuid = url.strip_prefix("https://a.example/mcp/");
    assert!(uuid.is_some_and(|uuid| uuid.len() == 36), "{url}");

    let path = format!("{CONNECTORS}1/");
    let detail = api.get(&path).await;
    detail.expect_reply(200, connector_detail(&created, &agents));
    assert_eq!(detail.header("etag"), reply.header("etag"), "the secret is no part of the state");
    api.get(CONNECTORS).await.expect_reply(200, page(json!([connector_item(&agents)])));

    server.advance(SECOND);
    let second = server.as_type("super_admin").await;
    let other = integration(&api, "Others", &[]).await;
    let body = json!({
        "name": "Helper", "description": "Of the office", "is_enabled": false,
        "allowed_tools": ["delete_record", "get_record", "get_record"], "integration": other, "client_id": "x",
    });
    let changed = changed_detail(connector_detail(&created, &agents), &second);
    second.patch(&path, body).await.expect_reply(200, changed.clone());
    api.get(&path).await.expect_reply(200, changed);
    api.call("PATCH", &path).header("if-match", detail.header("etag")).json(&json!({})).send().await.expect(412);

    api.delete(&path).await.expect_empty();
    for reply in [api.get(&path).await, api.delete(&path).await, api.patch(&path, json!({})).await] {
        reply.expect_reply(404, message::not_found());
    }
    api.post(&format!("{path}reset-client-secret/"), json!({})).await.expect_reply(404, message::not_found());
    expect_log(&api).await;
}

/// The detail of the connector after the change by a second super admin.
fn changed_detail(mut detail: Value, second: &ApiClient) -> Value {
    for (name, value) in [
        ("name", json!("Helper")),
        ("description", json!("Of the office")),
        ("is_enabled", json!(false)),
        ("status", json!("disabled")),
        ("allowed_tools", json!(["get_record", "delete_record"])),
        ("modified_at", json!("2026-01-31T09:30:01.000000Z")),
        ("modified_by", user(second, "super_admin")),
    ] {
        detail[name] = value;
    }
    detail
}

/// Expects the creation, the change and the deletion of the connector in the administration log.
async fn expect_log(api: &ApiClient) {
    let log = api.get("/api/administration/log/?resource=mcp_connectors").await;
    assert_eq!(log.column("action"), ["delete", "edit", "create"]);
    assert_eq!(log.column("object_name"), ["Helper", "Helper", "Assistant"]);
    assert_eq!(
        log.column("changes")[1],
        json!({
            "name": ["Assistant", "Helper"], "description": ["", "Of the office"], "is_enabled": [true, false],
            "allowed_tools": [READING, ["get_record", "delete_record"]],
        })
    );
}

#[tokio::test]
async fn a_secret_is_shown_once_and_replaced_by_super_admins() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let agents = integration(&api, "Agents", &[]).await;
    let created = connector(&api, "Assistant", &agents).await;
    let first = created["client_secret"].as_str().unwrap().to_owned();
    let reset = format!("{CONNECTORS}1/reset-client-secret/");
    for account_type in ["internal", "full", "external", "service_external"] {
        server.as_type(account_type).await.post(&reset, json!({})).await.expect_reply(403, message::forbidden());
    }
    server.advance(SECOND);
    let service = server.as_type("service_internal").await;
    let answer = service.post(&reset, json!({})).await.ok();
    let second = answer["client_secret"].as_str().unwrap().to_owned();
    assert_eq!(
        answer,
        json!({
            "id": 1, "name": "Assistant", "server_url": created["server_url"], "client_id": created["client_id"],
            "client_secret": second,
        })
    );
    assert_ne!(first, second);
    let mut now = connector_detail(&created, &agents);
    now["modified_at"] = json!("2026-01-31T09:30:01.000000Z");
    now["modified_by"] = user(&service, "service_internal");
    api.get(&format!("{CONNECTORS}1/")).await.expect_reply(200, now);
    let log = api.get("/api/administration/log/?resource=mcp_connectors").await;
    assert_eq!(log.column("action"), ["reset_client_secret", "create"]);
    assert_eq!(log.column("changes")[0], json!({"client_secret": ["***", "***"]}));
    // The database contains neither secret.
    let read = |conn: &mut Conn| {
        let sql =
            "SELECT client_secret || (SELECT string_agg(changes, ',') FROM administration_log) FROM mcp_connectors";
        conn.query_one(&Sql::new(sql), |row| Ok(row.text(0)?.to_owned()))
    };
    let stored = server.build.db.read::<String, StoreError>(read).await.unwrap();
    assert!(!stored.contains(&first) && !stored.contains(&second), "{stored}");
}

/// A body of a creation that is refused, with the errors by field.
struct WrongBody {
    body: Value,
    errors: Value,
}

fn wrong_bodies(agents: &str, hook: &str) -> Vec<WrongBody> {
    let unknown = "0f8fad5b-d9cb-469f-a165-70867728950e";
    let long = "Ensure this field has no more than 100 characters.";
    let cases = [
        (json!({}), json!({"name": ["This field is required."], "integration": ["This field is required."]})),
        (json!({"name": "", "integration": agents}), json!({"name": ["This field may not be blank."]})),
        (
            json!({"name": null, "integration": null}),
            json!({"name": ["This field may not be null."], "integration": ["This field may not be null."]}),
        ),
        (json!({"name": "x".repeat(101), "integration": agents}), json!({"name": [long]})),
        (
            json!({"name": 5, "integration": 5}),
            json!({"name": ["Not a valid string."], "integration": ["Must be a valid UUID."]}),
        ),
        (json!({"name": "ASSISTANT", "integration": agents}), json!({"name": ["This field must be unique."]})),
        (json!({"name": "B", "integration": "x"}), json!({"integration": ["Must be a valid UUID."]})),
        (
            json!({"name": "B", "integration": unknown}),
            json!({"integration": [format!("{unknown} is not a valid AI MCP integration.")]}),
        ),
        (
            json!({"name": "B", "integration": hook}),
            json!({"integration": [format!("{hook} is not a valid AI MCP integration.")]}),
        ),
        (
            json!({"name": "ASSISTANT", "integration": hook, "description": "x".repeat(501)}),
            json!({
                "name": ["This field must be unique."],
                "description": ["Ensure this field has no more than 500 characters."],
                "integration": [format!("{hook} is not a valid AI MCP integration.")],
            }),
        ),
        (
            json!({"name": "B", "integration": agents, "is_enabled": "yes"}),
            json!({"is_enabled": ["Must be a valid boolean."]}),
        ),
        (
            json!({"name": "B", "integration": agents, "allowed_tools": ["get_record", "drop_table", 5]}),
            json!({"allowed_tools": ["drop_table is not a valid choice.", "5 is not a valid choice."]}),
        ),
        (
            json!({"name": "B", "integration": agents, "allowed_tools": "get_record"}),
            json!({"allowed_tools": ["Expected a list of items but got type str."]}),
        ),
    ];
    cases.into_iter().map(|(body, errors)| WrongBody { body, errors }).collect()
}

#[tokio::test]
async fn wrong_bodies_are_refused() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let agents = integration(&api, "Agents", &[]).await;
    connector(&api, "Assistant", &agents).await;
    let hook = json!({"type": "webhook", "name": "Hook", "url": "https://b.example/", "secret": "x".repeat(32)});
    let hook = api.post(INTEGRATIONS, hook).await.expect_created()["uuid"].as_str().unwrap().to_owned();
    for WrongBody { body, errors } in wrong_bodies(&agents, &hook) {
        api.post(CONNECTORS, body).await.refuses(errors);
    }
    let path = format!("{CONNECTORS}1/");
    api.patch(&path, json!({"name": "", "allowed_tools": ["x"]})).await.refuses(json!({
        "name": ["This field may not be blank."], "allowed_tools": ["x is not a valid choice."],
    }));
    // A PATCH ignores every value of the integration.
    api.patch(&path, json!({"integration": "x"})).await.ok();
    // A connector may offer no tools, and accepts its own name again.
    assert_eq!(
        api.patch(&path, json!({"name": "assistant", "allowed_tools": []})).await.ok()["allowed_tools"],
        json!([])
    );
}

#[tokio::test]
async fn everybody_lists_connectors_and_super_admins_alone_do_the_rest() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let agents = integration(&api, "Agents", &[]).await;
    connector(&api, "Assistant", &agents).await;
    server.anonymous().get(CONNECTORS).await.expect_reply(401, message::unauthenticated());
    let path = format!("{CONNECTORS}1/");
    for account_type in ["internal", "full", "external", "service_external"] {
        let api = server.as_type(account_type).await;
        let mut listed = connector_item(&agents);
        listed["_meta"] =
            json!({"permissions": {"list": true, "view": false, "create": false, "edit": false, "delete": false}});
        api.get(CONNECTORS).await.expect_reply(200, page(json!([listed])));
        for reply in [
            api.get(&path).await,
            api.post(CONNECTORS, json!({})).await,
            api.patch(&path, json!({})).await,
            api.delete(&path).await,
        ] {
            reply.expect_reply(403, message::forbidden());
        }
        let permissions = json!({"list": true, "view": false, "create": false, "edit": false, "delete": false});
        assert_eq!(api.get("/api/users/permissions/").await.ok()["mcp_connectors"], permissions);
    }
    // No role contains these permissions.
    let role = json!({"name": "Agents", "permissions": {"mcp_connectors": ["view"]}});
    api.post("/api/roles/", role).await.refuses(json!({"permissions": ["Invalid resource mcp_connectors."]}));
}

#[tokio::test]
async fn a_list_is_filtered_and_sorted() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let (agents, others) = (integration(&api, "Agents", &[]).await, integration(&api, "Others", &[]).await);
    connector(&api, "beta", &agents).await;
    server.advance(SECOND);
    connector(&api, "Alpha", &agents).await;
    server.advance(SECOND);
    connector(&api, "Gamma", &others).await;
    api.patch(&format!("{CONNECTORS}2/"), json!({"is_enabled": false})).await.ok();
    for (query, ids) in [
        ("ordering=name", vec![2, 1, 3]),
        ("ordering=-id", vec![3, 2, 1]),
        ("ordering=-created_at", vec![3, 2, 1]),
        ("ordering=modified_at", vec![1, 2, 3]),
        ("id=2", vec![2]),
        ("name=beta", vec![1]),
        ("name__icontains=A", vec![1, 2, 3]),
        (&format!("integration={agents}"), vec![1, 2]),
        (&format!("integration__in={others},{agents}"), vec![1, 2, 3]),
        (&format!("integration={}", others.to_uppercase()), vec![3]),
        ("is_enabled=false", vec![2]),
        ("created_at__gt=2026-01-31T09:30:00Z", vec![2, 3]),
        ("created_by=1&modified_by=1", vec![1, 2, 3]),
        ("client_id=x&allowed_tools=y&server_url=z&client_secret=w", vec![1, 2, 3]),
    ] {
        assert_eq!(api.get(&format!("{CONNECTORS}?{query}")).await.ids(), ids, "{query}");
    }
    let only = |column: &str| format!("Select a valid choice. {column} is not one of the available choices.");
    api.get(&format!("{CONNECTORS}?id__gt=1")).await.refuses(json!({"id__gt": [only("gt")]}));
    for column in ["integration", "is_enabled", "status", "client_id", "client_secret"] {
        api.get(&format!("{CONNECTORS}?ordering={column}")).await.expect(400);
    }
}

#[tokio::test]
async fn options_describe_it() {
    let server = TestServer::start().await;
    let document = server.as_type("internal").await.options(CONNECTORS).await.ok();
    let columns: Vec<(String, bool)> = document["list"]["columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| (column["alias"].as_str().unwrap().to_owned(), column["sort_ok"] == true))
        .collect();
    let expected = [
        ("id", true),
        ("name", true),
        ("description", false),
        ("integration", false),
        ("is_enabled", false),
        ("status", false),
        ("created_at", true),
        ("created_by", false),
        ("modified_at", true),
        ("modified_by", false),
    ];
    assert_eq!(columns, expected.map(|(name, sorts)| (name.to_owned(), sorts)));
    let schema = document["details"]["schema"].as_array().unwrap();
    let name = schema.iter().find(|field| field["alias"] == "name").unwrap();
    assert_eq!(name["validators"], json!([{"name": "min_length", "value": 1}, {"name": "max_length", "value": 100}]));
    assert_eq!(document["restrictions"]["limit_items"], 100);
}

#[tokio::test]
async fn there_are_a_hundred_at_most() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let agents = integration(&api, "Agents", &[]).await;
    for n in 1..=99 {
        connector(&api, &format!("Connector {n}"), &agents).await;
    }
    let body = |n: i64| json!({"name": format!("Last {n}"), "integration": agents});
    let replies = send_concurrently((1..=4).map(|n| api.call("POST", CONNECTORS).json(&body(n)))).await;
    let wrong = json!({"detail": "Limit of 100 MCP connectors has been exceeded.", "error_code": "ERR_LIMIT_EXCEEDED"});
    one_wins(&replies, 201, &wrong);
    assert_eq!(statuses(&replies).iter().filter(|status| **status == 400).count(), 3);
    api.delete(&format!("{CONNECTORS}5/")).await.expect_empty();
    connector(&api, "Again", &agents).await;
    assert_eq!(number(&server, "SELECT count(*) FROM mcp_connectors").await, 100);
}
