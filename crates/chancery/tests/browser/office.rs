//! A small office: customers, their invoices, and the people who work with them.

use serde_json::{Value, json};
use testkit::ApiClient;

/// A person who may view invoices, but not customers.
pub const FIA: &str = "fia@example.com";
/// An administrator who is not a super admin.
pub const ANNA: &str = "anna@example.com";

pub async fn fill_build(admin: &ApiClient) {
    for name in ["Office", "Records"] {
        let permissions = json!({"users": ["list", "view", "create"], "object_classes": ["create"]});
        admin.post("/api/roles/", json!({"name": name, "permissions": permissions})).await.expect_created();
    }
    let fia = create_person(admin, FIA, "internal", "Fia Lund", json!({})).await;
    create_person(admin, ANNA, "full", "Anna Berg", json!({"roles": [1, 2]})).await;
    let waits = json!({"roles": [1], "delay_activation": true});
    create_person(admin, "farid@example.com", "full", "Farid Aziz", waits).await;
    admin.post("/api/user-groups/", json!({"name": "Clerks"})).await.expect_created();
    classes(admin).await;
    let set = json!({"name": "Readers", "permissions": {"object_records": ["view"]}});
    admin.post("/api/object-classes/2/record-permission-sets/", set).await.expect_created();
    admin.post("/api/object-records/2/permission-sets/1/assignees/", json!([fia])).await.expect_created();
    let template = json!({
        "name": "Pay the invoice", "complete_by": "date", "complete_by_date": "2026-12-31",
        "plugin_config": {"task_type": "tt_form", "prompt": "Pay it.", "configuration": {}},
    });
    admin.post("/api/task-templates/", template).await.expect_created();
    let task = json!({"task_template": 1, "name": "Pay it", "object_record": 2, "assignees": [1]});
    admin.post("/api/tasks/", task).await.expect_created();
    let blocks = json!([
        {"kind": "count", "class": "invoice", "title": "Open invoices", "filters": "gone=1&state=open"},
        {"kind": "list", "class": "invoice", "filters": "state=open", "ordering": "-nosuch", "limit": 2},
    ]);
    let content = json!({"version": 1, "blocks": blocks}).to_string();
    admin.post("/ui-config/home/", json!({"content": content})).await.expect_created();
    admin.patch("/api/users/me/", json!({"timezone": "Europe/Berlin"})).await.ok();
}

async fn create_person(admin: &ApiClient, username: &str, account_type: &str, name: &str, more: Value) -> i64 {
    let (first_name, last_name) = name.split_once(' ').unwrap();
    let mut person = json!({
        "username": username, "account_type": account_type, "first_name": first_name, "last_name": last_name,
    });
    person.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    admin.post("/api/users/", person).await.id()
}

/// Creates the classes and records. Record 1 is the customer, 2 to 31 are invoices.
async fn classes(admin: &ApiClient) {
    for (id, name) in [(1, "Customer"), (2, "Invoice")] {
        assert_eq!(admin.post("/api/object-classes/", json!({"name": name})).await.id(), id);
    }
    admin.post("/api/object-classes/1/fields/", json!({"label": "Name", "type": "string"})).await.expect_created();
    for field in [
        json!({"label": "Number", "type": "string"}),
        json!({"label": "Customer", "type": "relation", "related_object_class": 1}),
        json!({"label": "Amount", "type": "decimal"}),
        json!({"label": "Paid", "type": "boolean"}),
        json!({"label": "Note", "type": "string"}),
        json!({
            "label": "State", "type": "status", "initial": "open",
            "options": [{"value": "open", "text": "Open"}, {"value": "paid", "text": "Paid"}],
        }),
    ] {
        admin.post("/api/object-classes/2/fields/", field).await.expect_created();
    }
    let customer = json!({"fields": {"name": "Pine Energy"}});
    let customer = admin.post("/api/object-classes/1/object-records/", customer).await.id();
    for number in 2..=31 {
        let fields = json!({"number": format!("I-{number}"), "customer": customer, "amount": number});
        admin.post("/api/object-classes/2/object-records/", json!({"fields": fields})).await.expect_created();
    }
}
