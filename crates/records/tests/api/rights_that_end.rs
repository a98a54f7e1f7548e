//! Tests that a right that ends during the wait of a write ends the write: the rights at the commit decide
//! (`docs/reference/conventions.md`). SQLite has only one writer at a time.

use crate::TestServer;
use crate::set_up::{BATCH, RECORDS, class, group, record, set, with_class, with_class_set};
use serde_json::{Value, json};
use testkit::{ApiClient, message};

const RECORD: &str = "/api/object-records/1/";
const LOCK_RECORD: &str = "SELECT id FROM r1 WHERE id = 1 FOR UPDATE";
const LOCK_CLASS: &str = "SELECT id FROM object_classes WHERE id = 1 FOR UPDATE";
/// The lock of a change of the class's fields.
const LOCK_TABLE: &str = "LOCK TABLE r1 IN SHARE ROW EXCLUSIVE MODE";

/// Creates the class `Order` with a unique number, and a record of it without an owner. Returns `None` except on PostgreSQL.
async fn orders() -> Option<(TestServer, ApiClient)> {
    let server = TestServer::start().await;
    if server.app.store.is_embedded() {
        return None;
    }
    let api = server.admin().await;
    class(&api, "Order", json!([{"label": "Number", "type": "integer", "is_unique": true}])).await;
    api.post(RECORDS, json!({"owner": null})).await.expect_created();
    Some((server, api))
}

/// Asserts that nothing was written to the record.
async fn expect_unchanged(api: &ApiClient) {
    let record = api.get(RECORD).await.ok();
    assert_eq!([&record["fields"]["number"], &record["owner"]], [&Value::Null, &Value::Null]);
}

fn number(number: i64) -> Value {
    json!({"fields": {"number": number}})
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_role() {
    let Some((server, api)) = orders().await else { return };
    let all = json!({"object_classes": ["list", "view"], "object_records": ["list", "view", "edit", "delete"]});
    let person = server.with_role(all.clone()).await;
    let gives = async |permissions: Value| {
        api.patch("/api/roles/1/", json!({"permissions": permissions})).await.ok();
    };
    let takes = async || gives(json!({"object_records": ["list", "view"]})).await;
    for (method, path, body) in [
        ("PATCH", RECORD, number(1)),
        ("DELETE", RECORD, json!({})),
        ("PATCH", BATCH, json!({"items": [{"id": 1, "fields": {"number": 1}}]})),
        ("DELETE", BATCH, json!({"ids": [1]})),
    ] {
        let call = person.call(method, path).json(&body);
        server.while_it_waits(LOCK_RECORD, call, takes).await.expect_reply(403, message::forbidden());
        gives(all.clone()).await;
    }
    expect_unchanged(&api).await;
    // Another change of the role does not refuse the write.
    let call = person.call("PATCH", RECORD).json(&number(2));
    let changes = async || gives(json!({"object_records": ["list", "view", "edit"]})).await;
    assert_eq!(server.while_it_waits(LOCK_RECORD, call, changes).await.ok()["fields"]["number"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_account_type() {
    let Some((server, api)) = orders().await else { return };
    for (lock, method, path, body) in [
        (LOCK_RECORD, "PATCH", RECORD, number(1)),
        (LOCK_CLASS, "POST", "/api/object-classes/1/owners/", json!([])),
        (LOCK_CLASS, "PATCH", "/api/object-classes/1/", json!({"name": "Mine"})),
    ] {
        let person = server.as_type("super_admin").await;
        let body = if path.ends_with("owners/") { json!([person.id]) } else { body };
        let demotes = async || {
            api.patch(&format!("/api/users/{}/", person.id), json!({"account_type": "internal"})).await.ok();
        };
        let call = person.call(method, path).json(&body);
        server.while_it_waits(lock, call, demotes).await.expect_reply(404, message::not_found());
    }
    expect_unchanged(&api).await;
    assert_eq!(api.get("/api/object-classes/1/owners/").await.column("owner_id"), [json!(1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_class_permission_set() {
    let Some((server, api)) = orders().await else { return };
    let (person, other) = (server.as_type("internal").await, server.as_type("internal").await);
    let actions = json!({"object_records": ["create", "list", "view", "edit", "delete"]});
    with_class_set(&api, person.id, actions.clone()).await;
    let sets = "/api/object-classes/1/permission-sets/";
    let assignees = format!("{sets}2/assignees/users/");
    let unknown = json!({"items": {"0": {"id": ["Invalid pk 1 - object does not exist."]}}});
    for (method, path, body, refused) in [
        ("PATCH", RECORD, number(1), (404, message::not_found())),
        ("DELETE", RECORD, json!({}), (404, message::not_found())),
        ("PATCH", BATCH, json!({"items": [{"id": 1, "fields": {"number": 1}}]}), (404, message::not_found())),
    ] {
        let call = || person.call(method, path).json(&body);
        let removes = async || api.delete_all(&assignees, json!([person.id])).await.expect_empty();
        assert_eq!(server.while_it_waits(LOCK_RECORD, call(), removes).await, refused);
        api.post(&assignees, json!([person.id])).await.expect_created();
        // The set becomes smaller.
        let shrinks = async || {
            let smaller = json!({"permissions": {"object_records": ["create"]}});
            api.patch(&format!("{sets}2/"), smaller).await.ok();
        };
        let reply = server.while_it_waits(LOCK_RECORD, call(), shrinks).await;
        let refused = if path == BATCH { (400, unknown.clone()) } else { refused };
        assert_eq!(reply, refused);
        api.patch(&format!("{sets}2/"), json!({"permissions": actions})).await.ok();
    }
    expect_unchanged(&api).await;
    // Changes of other users' rights do not refuse the write.
    api.post(&assignees, json!([other.id])).await.expect_created();
    let removes = async || api.delete_all(&assignees, json!([other.id])).await.expect_empty();
    let call = person.call("PATCH", RECORD).json(&number(2));
    assert_eq!(server.while_it_waits(LOCK_RECORD, call, removes).await.ok()["fields"]["number"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_a_unique_value_is_waited_for() {
    let Some((server, api)) = orders().await else { return };
    let person = server.as_type("internal").await;
    with_class_set(&api, person.id, json!({"object_records": ["create", "list", "view", "edit"]})).await;
    let assignees = "/api/object-classes/1/permission-sets/2/assignees/users/";
    let holds = "INSERT INTO r1(id, created_at, f1) VALUES (1000, 0, 7) RETURNING id";
    for (method, path) in [("PATCH", RECORD), ("POST", RECORDS)] {
        let call = person.call(method, path).json(&number(7));
        let removes = async || api.delete_all(assignees, json!([person.id])).await.expect_empty();
        server.while_it_waits(holds, call, removes).await.expect_reply(404, message::not_found());
        api.post(assignees, json!([person.id])).await.expect_created();
    }
    expect_unchanged(&api).await;
    assert_eq!(api.get(RECORDS).await.ids(), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_class_is_changed() {
    let Some((server, api)) = orders().await else { return };
    let person = server.as_type("internal").await;
    with_class_set(&api, person.id, json!({"object_records": ["create", "list", "view", "edit"]})).await;
    let assignees = "/api/object-classes/1/permission-sets/2/assignees/users/";
    for (method, path, body) in [
        ("POST", RECORDS, number(1)),
        ("POST", BATCH, json!({"items": [{"fields": {"number": 1}}]})),
        ("PATCH", BATCH, json!({"items": [{"id": 1, "fields": {"number": 1}}]})),
        ("PATCH", RECORD, number(1)),
    ] {
        let call = person.call(method, path).json(&body);
        let removes = async || api.delete_all(assignees, json!([person.id])).await.expect_empty();
        server.while_it_waits(LOCK_TABLE, call, removes).await.expect_reply(404, message::not_found());
        api.post(assignees, json!([person.id])).await.expect_created();
    }
    expect_unchanged(&api).await;
    assert_eq!(api.get(RECORDS).await.ids(), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_owner_of_the_class() {
    let Some((server, api)) = orders().await else { return };
    let person = server.as_type("external").await;
    let owners = "/api/object-classes/1/owners/";
    for (method, body, refused) in [
        ("DELETE", json!({}), (404, message::not_found())),
        ("PATCH", number(1), (404, message::not_found())),
        ("PATCH", json!({"owner": person.id}), (403, message::forbidden())),
    ] {
        let ownership = api.post(owners, json!([person.id])).await.expect_created()[0]["id"].clone();
        let removes = async || api.delete(&format!("{owners}{ownership}/")).await.expect_empty();
        let call = person.call(method, RECORD).json(&body);
        assert_eq!(server.while_it_waits(LOCK_RECORD, call, removes).await, refused);
    }
    expect_unchanged(&api).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_member_of_a_group() {
    let Some((server, api)) = orders().await else { return };
    let person = server.as_type("external").await;
    let members = "/api/user-groups/1/members/users/";
    group(&api, "Team", &[person.id]).await;
    let of_class = api
        .post(
            "/api/object-classes/1/permission-sets/",
            json!({"name": "Editors", "permissions": {"object_records": ["list", "view", "edit"]}}),
        )
        .await
        .id();
    let assigned = [
        format!("/api/object-classes/1/permission-sets/{of_class}/assignees/user-groups/"),
        crate::set_up::assignees(1, set(&api, "Readers", json!({"object_records": ["view", "edit"]})).await)
            + "user-groups/",
    ];
    for path in assigned {
        api.post(&path, json!([1])).await.expect_created();
        let call = || person.call("PATCH", RECORD).json(&number(7));
        let removes = async || api.delete_all(members, json!([person.id])).await.expect_empty();
        server.while_it_waits(LOCK_RECORD, call(), removes).await.expect_reply(404, message::not_found());
        api.post(members, json!([person.id])).await.expect_created();
        let holds = "INSERT INTO r1(id, created_at, f1) VALUES (1000, 0, 7) RETURNING id";
        server.while_it_waits(holds, call(), removes).await.expect_reply(404, message::not_found());
        api.post(members, json!([person.id])).await.expect_created();
        api.delete_all(&path, json!([1])).await.expect_empty();
    }
    expect_unchanged(&api).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_record_permission_set() {
    let Some((server, api)) = orders().await else { return };
    let person = server.as_type("external").await;
    let id = set(&api, "Editors", json!({"object_records": ["view", "edit"]})).await;
    api.post(&crate::set_up::assignees(1, id), json!([person.id])).await.expect_created();
    let holds = "INSERT INTO r1(id, created_at, f1) VALUES (1000, 0, 7) RETURNING id";
    let path = format!("/api/object-classes/1/record-permission-sets/{id}/");
    let call = || person.call("PATCH", RECORD).json(&number(7));
    let shrinks = async || {
        api.patch(&path, json!({"permissions": {"object_records": ["view"]}})).await.ok();
    };
    server.while_it_waits(holds, call(), shrinks).await.expect_reply(403, message::forbidden());
    api.patch(&path, json!({"permissions": {"object_records": ["view", "edit"]}})).await.ok();
    let deletes = async || api.delete(&path).await.expect_empty();
    server.while_it_waits(holds, call(), deletes).await.expect_reply(404, message::not_found());
    expect_unchanged(&api).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn to_view_the_record_that_a_relation_names() {
    let Some((server, api)) = orders().await else { return };
    let person = server.as_type("internal").await;
    with_class_set(&api, person.id, json!({"object_records": ["list", "view"]})).await;
    let line = class(&api, "Line", json!([{"label": "Of", "type": "relation", "related_object_class": 1}])).await;
    api.post(&format!("/api/object-classes/{line}/owners/"), json!([person.id])).await.expect_created();
    let assignees = "/api/object-classes/1/permission-sets/2/assignees/users/";
    let removes = async || api.delete_all(assignees, json!([person.id])).await.expect_empty();
    let lines = format!("/api/object-classes/{line}/object-records/");
    let call = person.call("POST", &lines).json(&json!({"fields": {"of": 1}}));
    let refused = json!({"fields": {"of": ["Invalid pk 1 - object does not exist."]}});
    server.while_it_waits(LOCK_RECORD, call, removes).await.expect_reply(400, refused);
    assert_eq!(api.get(&lines).await["total_count"], 0);
}

/// Tests that callers with only the necessary rights can concurrently remove rights without blocking each other.
#[tokio::test(flavor = "multi_thread")]
async fn those_who_end_rights_do_not_hinder_each_other() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    record(&api).await;
    let owner = server.as_type("full").await;
    let people: Vec<i64> = {
        let mut ids = Vec::new();
        for _ in 0..20 {
            ids.push(server.as_type("external").await.id);
        }
        ids
    };
    with_class_set(&api, people[0], json!({"object_records": ["list", "view"]})).await;
    let assignees = "/api/object-classes/1/permission-sets/2/assignees/users/";
    api.post(assignees, json!(people)).await.expect_created();
    api.post("/api/object-classes/1/owners/", json!([owner.id])).await.expect_created();
    let calls = people.iter().map(|id| owner.call("DELETE", assignees).json(&json!([id])));
    for reply in testkit::send_concurrently(calls.collect::<Vec<_>>()).await {
        reply.expect_empty();
    }
    assert_eq!(api.get(assignees).await.ok()["total_count"], 0);
}
