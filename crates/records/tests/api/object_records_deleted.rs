//! `/api/object-classes/{id}/object-records/deleted/` and `/api/object-records/{id}/restore/`
//! (`docs/reference/object-records.md`).

use crate::TestServer;
use crate::set_up::{RECORDS, class, with_nodes};
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::shown::{START, admin, page, user};
use testkit::{ApiClient, DAY, SECOND, eventually, message};

const DELETED: &str = "/api/object-classes/1/object-records/deleted/";

async fn make(api: &ApiClient, class: i64, body: Value) -> i64 {
    api.post(&format!("/api/object-classes/{class}/object-records/"), body).await.id()
}

#[tokio::test]
async fn a_deleted_record_comes_back_as_it_was() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let option = |value: &str| json!({"value": value, "text": value});
    let options = json!([option("a"), option("b")]);
    let fields = json!([
        {"label": "Title", "type": "string"},
        {"label": "Amount", "type": "decimal"},
        {"label": "At", "type": "datetime"},
        {"label": "Day", "type": "date"},
        {"label": "Done", "type": "boolean"},
        {"label": "Count", "type": "integer"},
        {"label": "State", "type": "status", "options": options, "initial": "a"},
        {"label": "Tags", "type": "set", "options": options},
        {"label": "Person", "type": "user"},
    ]);
    class(&api, "Order", fields).await;
    let owner = server.as_type("internal").await;
    let fields = json!({
        "title": "Ünïcode", "amount": "-12.30", "at": "2026-01-01T00:00:00.000001Z", "day": "2026-02-03", "done": true,
        "count": -7, "state": "b", "tags": ["b", "a"], "person": owner.id,
    });
    let id = make(&api, 1, json!({"fields": fields, "owner": owner.id})).await;
    let path = format!("/api/object-records/{id}/");
    let mut record = api.get(&path).await.ok();
    server.advance(SECOND);
    owner.delete(&path).await.expect_empty();
    api.get(&path).await.expect_reply(404, message::not_found());
    assert_eq!(api.get(RECORDS).await.ids(), [0; 0]);
    assert_eq!(api.get(&format!("{RECORDS}?search=unicode")).await["filtered_count"], 0);
    let deleted = json!({
        "id": id, "label": "Ünïcode", "deleted_at": "2026-01-31T09:30:01.000000Z", "deleted_by": user(&owner, "internal"),
    });
    api.get(DELETED).await.expect_reply(200, page(json!([deleted])));

    let second = server.as_type("super_admin").await;
    server.advance(SECOND);
    record["modified_at"] = json!("2026-01-31T09:30:02.000000Z");
    record["modified_by"] = user(&second, "super_admin");
    second.post(&format!("{path}restore/"), json!({})).await.expect_reply(201, record.clone());
    api.get(&path).await.expect_reply(200, record.clone());
    assert_eq!(record["created_at"], START);
    assert_eq!(api.get(&format!("{RECORDS}?search=ünïcode&title=Ünïcode")).await.ids(), [id]);
    assert_eq!(api.get("/api/object-classes/1/").await["num_of_records"], 1);
    owner.get(&path).await.ok();
    api.get(DELETED).await.expect_reply(200, page(json!([])));
    second.post(&format!("{path}restore/"), json!({})).await.expect_reply(404, message::not_found());
    // Its events are those of a new record.
    let sql = "SELECT body FROM outbox WHERE kind = 'history' ORDER BY n";
    let read = move |conn: &mut Conn| conn.query_all(&Sql::new(sql), |row| Ok(row.text(0)?.to_owned()));
    let bodies = server.build.db.read::<_, StoreError>(read).await.unwrap();
    let types: Vec<i64> = bodies
        .iter()
        .map(|body| serde_json::from_str::<Value>(body).unwrap()["event_type_id"].as_i64().unwrap())
        .collect();
    assert_eq!(types.len(), 7, "{bodies:#?}");
    assert_eq!(types[..3], types[4..]);
}

#[tokio::test]
async fn values_that_are_invalid_at_the_restoration_become_null() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let option = |value: &str| json!({"value": value, "text": value});
    let options = json!([option("a"), option("b"), option("c")]);
    class(&api, "Parent", json!([])).await;
    let fields = json!([
        {"label": "Number", "type": "integer", "is_unique": true, "is_required": true},
        {"label": "State", "type": "status", "options": options, "initial": "a"},
        {"label": "Kind", "type": "enum", "options": options},
        {"label": "Tags", "type": "set", "options": options},
        {"label": "Parent", "type": "relation", "related_object_class": 1},
        {"label": "Person", "type": "user"},
        {"label": "Gone", "type": "string"},
        {"label": "Short", "type": "string"},
    ]);
    let orders = class(&api, "Order", fields).await;
    let person = server.as_type("internal").await;
    let parent = make(&api, 1, json!({})).await;
    let fields = json!({
        "number": 1, "state": "c", "kind": "c", "tags": ["b", "c"], "parent": parent, "person": person.id, "gone": "x",
        "short": "a long text",
    });
    let id = make(&api, orders, json!({"fields": fields, "owner": person.id})).await;
    api.delete(&format!("/api/object-records/{id}/")).await.expect_empty();
    make(&api, orders, json!({"fields": {"number": 1}})).await;
    api.delete(&format!("/api/object-records/{parent}/")).await.expect_empty();
    let list = api.get(&format!("/api/object-classes/{orders}/fields/")).await;
    let field = |alias: &str| {
        let fields = list["results"].as_array().unwrap();
        let id = &fields.iter().find(|field| field["alias"] == alias).unwrap()["id"];
        format!("/api/object-classes/{orders}/fields/{id}/")
    };
    for alias in ["state", "kind", "tags"] {
        api.patch(&field(alias), json!({"options": [option("a"), option("b")]})).await.ok();
    }
    api.patch(&field("short"), json!({"max_length": 3})).await.ok();
    api.delete(&field("gone")).await.expect_empty();
    api.post(
        &format!("/api/object-classes/{orders}/fields/"),
        json!({"label": "New", "type": "string", "default": "d"}),
    )
    .await
    .expect_created();
    api.delete(&format!("/api/users/{}/", person.id)).await.expect_empty();
    let restored = api.post(&format!("/api/object-records/{id}/restore/"), json!({})).await.expect_created();
    assert_eq!(restored["owner"], Value::Null);
    assert_eq!(
        restored["fields"],
        json!({
            "number": null, "state": "a", "kind": null, "tags": null, "parent": null, "person": null,
            "short": "a long text", "new": null,
        })
    );
}

#[tokio::test]
async fn a_restored_text_fits_into_the_index_of_its_field() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    server.set_limit("api_object_field_string_type_length_limit", 3000).await;
    let fields = json!([{"label": "Code", "type": "string"}, {"label": "Note", "type": "string"}]);
    class(&api, "Order", fields).await;
    let long = "x".repeat(3000);
    let id = make(&api, 1, json!({"fields": {"code": long, "note": long}})).await;
    let path = format!("/api/object-records/{id}/");
    api.delete(&path).await.expect_empty();
    let unique = json!({"max_length": 400, "is_unique": true});
    api.patch("/api/object-classes/1/fields/1/", unique).await.ok();
    let restored = api.post(&format!("{path}restore/"), json!({})).await.expect_created();
    assert_eq!(restored["fields"], json!({"code": null, "note": long}));
}

#[tokio::test]
async fn owners_of_the_class_and_super_admins_alone_see_what_was_deleted() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order", json!([])).await;
    let person = server.as_type("internal").await;
    let everything = json!(["create", "list", "view", "edit", "delete", "edit_owners"]);
    let holder = server.with_role(json!({"object_records": everything, "object_classes": ["edit"]})).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(make(&api, 1, json!({"owner": holder.id})).await);
    }
    for id in [ids[1], ids[0], ids[2]] {
        holder.delete(&format!("/api/object-records/{id}/")).await.expect_empty();
    }
    for (caller, status, body) in [(&holder, 403, message::forbidden()), (&person, 404, message::not_found())] {
        caller.get(DELETED).await.expect_reply(status, body.clone());
        caller.delete(&format!("{DELETED}{}/", ids[0])).await.expect_reply(status, body);
        caller
            .post(&format!("/api/object-records/{}/restore/", ids[0]), json!({}))
            .await
            .expect_reply(404, message::not_found());
    }
    api.post("/api/object-classes/1/owners/", json!([person.id])).await.expect_created();
    // All were deleted at the same time. The higher id counts as newer.
    assert_eq!(person.get(DELETED).await.ids(), [ids[2], ids[1], ids[0]]);
    assert_eq!(person.get(&format!("{DELETED}?limit=1&offset=1&id=7&ordering=id")).await.ids(), [ids[1]]);
    assert_eq!(person.get(DELETED).await["results"][0]["label"], format!("#{}", ids[2]));
    person.delete(&format!("{DELETED}{}/", ids[0])).await.expect_empty();
    person.delete(&format!("{DELETED}{}/", ids[0])).await.expect_reply(404, message::not_found());
    person
        .post(&format!("/api/object-records/{}/restore/", ids[0]), json!({}))
        .await
        .expect_reply(404, message::not_found());
    person.post(&format!("/api/object-records/{}/restore/", ids[1]), json!({})).await.expect_created();
    person
        .post(&format!("/api/object-records/{}/restore/", ids[1]), json!({}))
        .await
        .expect_reply(404, message::not_found());
    api.delete(&format!("{DELETED}99/")).await.expect_reply(404, message::not_found());
    assert_eq!(api.get(&format!("/api/object-records/{}/", ids[1])).await["created_by"], admin());
}

#[tokio::test]
async fn a_restore_stays_inside_the_limit_and_ends_after_thirty_days() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order", json!([])).await;
    let [first, second] = [make(&api, 1, json!({})).await, make(&api, 1, json!({})).await];
    api.delete(&format!("/api/object-records/{first}/")).await.expect_empty();
    server.set_limit("object_records_per_object_class", 1).await;
    let restore = format!("/api/object-records/{first}/restore/");
    api.post(&restore, json!({})).await.refuses(message::limit_exceeded("1 Object Records"));
    api.delete(&format!("/api/object-records/{second}/")).await.expect_empty();
    api.post(&restore, json!({})).await.expect_created();
    server.advance(30 * DAY);
    let api = server.admin().await;
    api.post(&format!("/api/object-records/{second}/restore/"), json!({}))
        .await
        .expect_reply(404, message::not_found());
    api.get(DELETED).await.expect_reply(200, page(json!([])));
    api.delete(&format!("{DELETED}{second}/")).await.expect_reply(404, message::not_found());
    // A job removes it.
    api.delete(&format!("/api/object-records/{first}/")).await.expect_empty();
    let left = |conn: &mut Conn| conn.query_one(&Sql::new("SELECT count(*) FROM deleted_records"), |row| row.int(0));
    eventually(async || server.build.db.read::<i64, StoreError>(left).await == Ok(1)).await;
}

#[tokio::test]
async fn a_restored_relation_keeps_chains_within_their_bound() {
    let server = TestServer::start().await;
    let api = with_nodes(&server).await;
    let under = async |parent: Option<i64>| make(&api, 1, json!({"fields": {"parent": parent}})).await;
    let parent = under(None).await;
    let id = under(Some(parent)).await;
    api.delete(&format!("/api/object-records/{id}/")).await.expect_empty();
    let mut top = None;
    for _ in 0..9 {
        top = Some(under(top).await);
    }
    api.patch(&format!("/api/object-records/{parent}/"), json!({"fields": {"parent": top}})).await.ok();
    let restored = api.post(&format!("/api/object-records/{id}/restore/"), json!({})).await.expect_created();
    assert_eq!(restored["fields"], json!({"parent": null}));
}
