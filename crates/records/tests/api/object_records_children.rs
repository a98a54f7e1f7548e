//! `/api/object-records/{id}/children/` (`docs/reference/object-records.md`).

use crate::TestServer;
use crate::set_up::class;
use serde_json::json;
use testkit::shown::page;
use testkit::{ApiClient, message};

/// Creates customers, and two classes that point to them: orders by two relations, and notes.
async fn customers(server: &TestServer) -> ApiClient {
    let api = server.admin().await;
    class(&api, "Customer", json!([{"label": "Name", "type": "string"}])).await;
    let to = |label: &str| json!({"label": label, "type": "relation", "related_object_class": 1});
    class(&api, "Order", json!([to("Buyer"), to("Payer")])).await;
    class(&api, "Note", json!([to("About"), {"label": "Text", "type": "text"}])).await;
    api
}

async fn make(api: &ApiClient, class: i64, fields: serde_json::Value) -> i64 {
    api.post(&format!("/api/object-classes/{class}/object-records/"), json!({"fields": fields})).await.id()
}

#[tokio::test]
async fn the_children_of_every_class_stand_in_the_order_of_their_ids() {
    let server = TestServer::start().await;
    let api = customers(&server).await;
    let customer = make(&api, 1, json!({"name": "Ada"})).await;
    let other = make(&api, 1, json!({"name": "Bob"})).await;
    let note = make(&api, 3, json!({"about": customer, "text": "first"})).await;
    let both = make(&api, 2, json!({"buyer": customer, "payer": customer})).await;
    let order_id = make(&api, 2, json!({"buyer": other, "payer": customer})).await;
    make(&api, 2, json!({"buyer": other})).await;
    let path = format!("/api/object-records/{customer}/children/");
    let list = api.get(&path).await;
    assert_eq!(list.ids(), [note, both, order_id]);
    // They have the same format as in their lists.
    assert_eq!(list["results"][0], api.get("/api/object-classes/3/object-records/").await["results"][0]);
    assert_eq!((&list["total_count"], &list["filtered_count"]), (&json!(3), &json!(3)));
    let filtered = api.get(&format!("{path}?object_class=2&limit=1&ordering=-id&id=1")).await;
    assert_eq!(filtered.ids(), [both]);
    assert_eq!((&filtered["total_count"], &filtered["filtered_count"]), (&json!(3), &json!(2)));
    assert_eq!(api.get(&format!("{path}?object_class=2&offset=1")).await.ids(), [order_id]);
    assert_eq!(
        api.get(&format!("{path}?fields=text")).await.column("fields"),
        [json!({"text": "first"}), json!({}), json!({})]
    );
    api.get(&format!("{path}?object_class=x")).await.refuses(json!({"object_class": ["A valid integer is required."]}));
    api.get(&format!("/api/object-records/{note}/children/")).await.expect_reply(200, page(json!([])));
}

#[tokio::test]
async fn hidden_children_are_neither_shown_nor_counted() {
    let server = TestServer::start().await;
    let api = customers(&server).await;
    let person = server.as_type("external").await;
    for class in [1, 2] {
        let set = json!({"name": "Viewers", "permissions": {"object_records": ["view"]}});
        api.post(&format!("/api/object-classes/{class}/record-permission-sets/"), set).await.expect_created();
    }
    let assigned = |set: i64| json!([{"permission_set": set, "users": [person.id]}]);
    let body = json!({"fields": {}, "permission_sets": assigned(1)});
    let customer = api.post("/api/object-classes/1/object-records/", body).await.id();
    let body = json!({"fields": {"buyer": customer}, "permission_sets": assigned(2)});
    let shown = api.post("/api/object-classes/2/object-records/", body).await.id();
    make(&api, 2, json!({"buyer": customer})).await;
    make(&api, 3, json!({"about": customer})).await;
    let path = format!("/api/object-records/{customer}/children/");
    let list = person.get(&path).await;
    assert_eq!((list.ids(), &list["total_count"]), (vec![shown], &json!(1)));
    assert_eq!(api.get(&path).await["total_count"], 3);
    let stranger = server.as_type("external").await;
    for call in ["GET", "OPTIONS"] {
        stranger.call(call, &path).send().await.expect_reply(404, message::not_found());
    }
    assert_eq!(person.options(&path).await.ok(), api.options(&path).await.ok());
    api.get("/api/object-records/99/children/").await.expect_reply(404, message::not_found());
}
