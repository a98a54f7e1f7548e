//! The events of record changes: PATCH of `/api/object-records/{id}/`, and relations that a deletion clears
//! (`docs/reference/object-records.md`).

use crate::TestServer;
use crate::set_up::{BATCH, RECORDS, class, history, options, record, set, with_class};
use serde_json::{Value, json};
use testkit::shown::page;
use testkit::{ApiClient, SECOND, message};

/// The number of the event type `field_values_changed`.
const CHANGED: i64 = 7;

/// Creates class 1 with a field of each type whose values have several forms.
async fn forms(api: &ApiClient) {
    let fields = json!([
        {"label": "Title", "type": "string", "is_unique": true},
        {"label": "Notes", "type": "text"},
        {"label": "Site", "type": "url"},
        {"label": "Contact", "type": "email"},
        {"label": "Pages", "type": "integer"},
        {"label": "Total", "type": "decimal"},
        {"label": "Sent at", "type": "datetime"},
        {"label": "Tags", "type": "set", "options": options(&["red", "green", "blue"])},
        {"label": "State", "type": "status", "options": options(&["draft", "done"]), "initial": "draft"},
        {"label": "Clerk", "type": "user"},
        {"label": "Scans", "type": "document"},
    ]);
    class(api, "Form", fields).await;
}

#[tokio::test]
async fn one_event_tells_the_fields_that_really_changed() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    forms(&api).await;
    let fields = json!({
        "title": "A", "site": "https://a.example/x", "contact": "a@b.example", "pages": 3, "total": "1.50",
        "sent_at": "2026-01-31T09:00:00Z", "tags": ["red", "blue"], "clerk": 1,
    });
    let record = api.post(RECORDS, json!({"fields": fields})).await.expect_created();
    let path = format!("/api/object-records/{}/", record["id"]);
    // The same values in other forms. A number is sent as text, because a float would already lose its zero here.
    let same = "\"title\": \" A \", \"notes\": \"  \", \"site\": \" https://a.example/x\", \"contact\": \"a@b.example \", \
        \"pages\": 3, \"sent_at\": \"2026-01-31T10:00:00+01:00\", \"tags\": [\"blue\", \"red\", \"blue\"], \
        \"state\": \"draft\", \"clerk\": 1, \"scans\": []";
    server.advance(SECOND);
    for total in ["1.50", "1.5", "\"1.5\"", "\"01.500\"", "15e-1"] {
        let fields = format!("{{{same}, \"total\": {total}}}");
        let body = format!("{{\"fields\": {fields}}}");
        let changed = api.call("PATCH", &path).body("application/json", body).send().await.ok();
        assert_eq!(changed["fields"], record["fields"], "{total}");
        let body = format!("{{\"items\": [{{\"id\": {}, \"fields\": {fields}}}]}}", record["id"]);
        api.call("PATCH", BATCH).body("application/json", body).send().await.ok();
    }
    assert_eq!(history(&server, 1, &[CHANGED]).await, []);
    // The time of the write is stored nevertheless.
    assert_eq!(api.get(&path).await["modified_at"], "2026-01-31T09:30:01.000000Z");

    let value = |id: i64, kind: &str, name: &str, value: Value| json!({"field_id": id, "field_type": kind, "field_value": value, "field_name": name});
    let body = format!("{{\"fields\": {{{same}, \"total\": \"1.51\", \"pages\": null}}}}");
    api.call("PATCH", &path).body("application/json", body).send().await.ok();
    let first = json!([value(5, "integer", "Pages", Value::Null), value(6, "decimal", "Total", json!("1.51"))]);
    let body = json!({"items": [{"id": 1, "fields": {"title": "A ", "total": 1.51, "tags": [], "state": "done"}}]});
    api.patch(BATCH, body).await.ok();
    let second = json!([value(8, "set", "Tags", json!([])), value(9, "status", "State", json!("done"))]);
    assert_eq!(history(&server, 1, &[CHANGED]).await, [(CHANGED, first), (CHANGED, second)]);
}

#[tokio::test]
async fn a_change_assigns_nobody() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let (readers, record_id) = (set(&api, "Readers", json!({"object_records": ["view"]})).await, record(&api).await);
    let ann = server.as_type("internal").await;
    let path = format!("/api/object-records/{record_id}/");
    let before = api.get(&path).await.ok();
    for permission_sets in [json!([{"permission_set": readers, "users": [ann.id]}]), json!("nonsense"), Value::Null] {
        let body = json!({"permission_sets": permission_sets});
        api.patch(&path, body).await.expect_reply(200, before.clone());
        let items = json!({"items": [{"id": record_id, "permission_sets": permission_sets}]});
        api.patch(BATCH, items).await.expect_reply(200, json!({"ids": [record_id]}));
    }
    api.get(&format!("{path}permission-sets/{readers}/assignees/")).await.expect_reply(200, page(json!([])));
    ann.get(&path).await.expect_reply(404, message::not_found());
    assert_eq!(history(&server, record_id, &[5]).await, []);
}

#[tokio::test]
async fn each_child_whose_parent_is_deleted_has_its_event() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let person = server.as_type("external").await;
    let relation =
        |label: &str| json!({"label": label, "type": "relation", "related_object_class": 1, "on_delete": "clear"});
    let [parts, notes] =
        [class(&api, "Part", json!([relation("Of")])).await, class(&api, "Note", json!([relation("About")])).await];
    let parent = api.post(RECORDS, json!({"owner": person.id})).await.id();
    let other = record(&api).await;
    let child = async |class: i64, body: Value| {
        api.post(&format!("/api/object-classes/{class}/object-records/"), body).await.id()
    };
    let own = child(parts, json!({"fields": {"of": parent}, "owner": person.id})).await;
    let hidden = child(parts, json!({"fields": {"of": parent}})).await;
    let of_hidden_class = child(notes, json!({"fields": {"about": parent}})).await;
    let others = child(parts, json!({"fields": {"of": other}})).await;
    let hidden_ones = [hidden, of_hidden_class, others];
    for id in hidden_ones {
        person.get(&format!("/api/object-records/{id}/")).await.expect_reply(404, message::not_found());
    }
    server.advance(SECOND);
    person.delete(&format!("/api/object-records/{parent}/")).await.expect_empty();
    let cleared = |id: i64, name: &str| {
        let value = json!({"field_id": id, "field_type": "relation", "field_value": null, "field_name": name});
        vec![(CHANGED, json!([value]))]
    };
    for (id, events) in [
        (own, cleared(1, "Of")),
        (hidden, cleared(1, "Of")),
        (of_hidden_class, cleared(2, "About")),
        (others, Vec::new()),
    ] {
        assert_eq!(history(&server, id, &[CHANGED]).await, events, "{id}");
        let now = api.get(&format!("/api/object-records/{id}/")).await.ok();
        let is_changed = !events.is_empty();
        let (at, by) = if is_changed { ("2026-01-31T09:30:01.000000Z", person.id) } else { (testkit::shown::START, 1) };
        assert_eq!((&now["modified_at"], &now["modified_by"]["id"]), (&json!(at), &json!(by)), "{id}");
    }
}
