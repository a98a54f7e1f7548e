//! Tests `/api/initialize-tenant` and `/api/delete-tenant`.

use crate::{expect_problem, problems, system_event};
use serde_json::{Value as Json, json};
use testkit::{ApiClient, HistoryServer, PreparedCall, send_concurrently, statuses};

async fn initialize(api: &ApiClient, name: &str, label: &str) -> testkit::Reply {
    initialization(api, name, label).send().await
}

fn initialization(api: &ApiClient, name: &str, label: &str) -> PreparedCall {
    let body = json!({"database_name": name, "client_label": label});
    api.call("POST", "/api/initialize-tenant").json(&body)
}

#[tokio::test]
async fn the_secret_of_a_new_tenant_is_not_compressed() {
    let server = HistoryServer::start().await;
    let call =
        server.client_with_key().call("POST", "/api/initialize-tenant").header("accept-encoding", "identity;q=0, gzip");
    let made = call.json(&json!({"database_name": "first", "client_label": "x".repeat(1000)})).send().await;
    assert_eq!((made.status, made.header("content-encoding")), (201, ""));
}

#[tokio::test]
async fn a_tenant_is_made_once() {
    let server = HistoryServer::start().await;
    let api = server.client_with_key();
    let made = initialize(&api, "first", "First").await.expect_created();
    let members: Vec<&String> = made.as_object().unwrap().keys().collect();
    assert_eq!(members, ["client_id", "client_secret", "database_name"]);
    assert_eq!(made["database_name"], "first");
    assert_eq!(made["client_id"].as_str().unwrap().len(), 36);
    assert_eq!(made["client_secret"].as_str().unwrap().len(), 43);
    // The name or the label exists already.
    let exists = json!({"detail": "Client already exist."});
    initialize(&api, "first", "Other").await.expect_reply(400, exists.clone());
    initialize(&api, "other", "First").await.expect_reply(400, exists.clone());
    initialize(&api, "first", "First").await.expect_reply(400, exists);
    initialize(&api, "First", "other").await.expect_created();
}

#[tokio::test]
async fn names_are_identifiers_of_at_most_64_characters() {
    let server = HistoryServer::start().await;
    let api = server.client_with_key();
    let place = || json!(["body", "database_name"]);
    for wrong in ["", "1a", "a-b", "a b", "é", "a;DROP DATABASE x", "a\"b", "a\u{0}", "../a", "a."] {
        let reply = initialize(&api, wrong, "label").await;
        expect_problem(&reply, place(), "string does not match regex", "value_error.str.regex");
    }
    let reply = initialize(&api, &"x".repeat(65), "label").await;
    expect_problem(&reply, place(), "ensure this value has at most 64 characters", "value_error.any_str.max_length");
    initialize(&api, &"x".repeat(64), "long").await.expect_created();
    // Names that engines use themselves are allowed.
    for name in ["default", "system", "information_schema", "main", "sqlite_master", "_", "tenant_1", "chancery"] {
        let tenant = server.tenant(name).await;
        tenant
            .post("/api/system-events/batch", json!({"events": [system_event(1)]}))
            .await
            .expect_reply(201, json!({"inserted": 1}));
    }
}

#[tokio::test]
async fn both_fields_are_required_texts() {
    let server = HistoryServer::start().await;
    let api = server.client_with_key();
    let post = async |body: Json| api.post("/api/initialize-tenant", body).await;
    let (name, label) = (json!(["body", "database_name"]), json!(["body", "client_label"]));
    post(json!({})).await.expect_reply(
        422,
        problems(json!([
            [name, "field required", "value_error.missing"],
            [label, "field required", "value_error.missing"]
        ])),
    );
    post(json!({"database_name": 5, "client_label": null})).await.expect_reply(
        422,
        problems(json!([
            [name, "str type expected", "type_error.str"],
            [label, "none is not an allowed value", "type_error.none.not_allowed"],
        ])),
    );
}

#[tokio::test]
async fn of_many_at_once_one_makes_the_tenant() {
    let server = HistoryServer::start().await;
    let api = server.client_with_key();
    // Half of them compete for the name, half for the label.
    let for_name = (0..8).map(|n| initialization(&api, "race", &format!("l{n}")));
    let for_label = (0..8).map(|n| initialization(&api, &format!("race{n}"), "race"));
    let attempts = send_concurrently(for_name.zip(for_label).flat_map(|(one, other)| [one, other])).await;
    let (for_name, for_label): (Vec<_>, Vec<_>) = attempts.into_iter().enumerate().partition(|(n, _)| n % 2 == 0);
    for attempts in [for_name, for_label] {
        let attempts: Vec<_> = attempts.into_iter().map(|(_, reply)| reply).collect();
        assert_eq!(statuses(&attempts), [201, 400, 400, 400, 400, 400, 400, 400]);
    }
}

#[tokio::test]
async fn a_tenant_that_is_deleted_is_gone_and_its_name_is_free() {
    let server = HistoryServer::start().await;
    let (api, other) = (server.tenant("going").await, server.tenant("staying").await);
    let batch = json!({"events": [system_event(1), system_event(2)]});
    for tenant in [&api, &other] {
        tenant.post("/api/system-events/batch", batch.clone()).await.expect_reply(201, json!({"inserted": 2}));
    }
    api.delete("/api/delete-tenant").await.expect_empty();
    let no_connection = json!({"detail": "Failed to connect to tenant db."});
    api.delete("/api/delete-tenant").await.expect_reply(400, no_connection.clone());
    api.get("/api/system-events").await.expect_reply(400, no_connection);
    let reply = api.post("/api/system-events/batch", batch).await;
    assert!(reply.status == 400 && reply["detail"].as_str().unwrap().ends_with(" tenant not found in database."));
    // The new tenant of that name has no data of the old one.
    let anew = server.tenant("going").await;
    assert_eq!(anew.get("/api/system-events").await.ok()["total_count"], 0);
    assert_eq!(other.get("/api/system-events").await.ok()["total_count"], 2);
}

#[tokio::test]
async fn a_deletion_that_was_cut_short_is_repeated() {
    let server = HistoryServer::start().await;
    let made = initialize(&server.client_with_key(), "half", "half").await.expect_created();
    let api = server.client_with_key().with_header("x-client-id", made["client_id"].as_str().unwrap());
    api.post("/api/system-events/batch", json!({"events": [system_event(1)]})).await.expect_created();
    // This is the state after a process died after the first step.
    let id = made["client_id"].as_str().unwrap().parse().unwrap();
    server.service.engine.begin_delete(id).await.unwrap().unwrap();
    // This is longer than the validity of a cached tenant.
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    api.get("/api/system-events").await.expect_reply(400, json!({"detail": "Failed to connect to tenant db."}));
    initialize(&server.client_with_key(), "half", "another")
        .await
        .expect_reply(400, json!({"detail": "Client already exist."}));
    api.delete("/api/delete-tenant").await.expect_empty();
    initialize(&server.client_with_key(), "half", "another").await.expect_created();
}

#[tokio::test]
async fn tenants_do_not_see_each_other() {
    let server = HistoryServer::start().await;
    let (first_tenant, second_tenant) = (server.tenant("one").await, server.tenant("two").await);
    first_tenant
        .post("/api/system-events/batch", json!({"events": [system_event(1)]}))
        .await
        .expect_reply(201, json!({"inserted": 1}));
    // The same id is another event in another tenant.
    second_tenant
        .post("/api/system-events/batch", json!({"events": [system_event(1)]}))
        .await
        .expect_reply(201, json!({"inserted": 1}));
    second_tenant
        .post("/api/system-events/batch", json!({"events": [system_event(2)]}))
        .await
        .expect_reply(201, json!({"inserted": 1}));
    assert_eq!(first_tenant.get("/api/system-events").await.column("id"), [json!(crate::id(1))]);
    assert_eq!(second_tenant.get("/api/system-events").await.column("id"), [json!(crate::id(2)), json!(crate::id(1))]);
}

#[tokio::test]
async fn of_many_deletions_at_once_one_succeeds() {
    let server = HistoryServer::start().await;
    let api = server.tenant("going").await;
    let deletions = send_concurrently((0..8).map(|_| api.call("DELETE", "/api/delete-tenant"))).await;
    let statuses = statuses(&deletions);
    assert_eq!(statuses, [204, 400, 400, 400, 400, 400, 400, 400]);
}
