//! Tests a complete approval from its template to its log, as its users perform it (`docs/reference/tasks.md`).

use crate::TestServer;
use crate::set_up::{class, grant_on_record, record};
use serde_json::{Value, json};
use testkit::shown::{START, admin, page, user};
use testkit::{ApiClient, NOW, message};

const DAY: i64 = 86_400_000_000;

async fn log_of(api: &ApiClient, task: i64) -> Value {
    api.get(&format!("/api/tasks/{task}/log/")).await.ok()["results"].clone()
}

#[tokio::test]
async fn an_amount_is_corrected_by_a_clerk_and_approved_by_her_manager() {
    let server = TestServer::start_with(|settings| settings.identity.access_token_seconds = 7 * 86_400).await;
    let admin_api = server.admin().await;

    // The administrator declares the class of invoices and the template for corrected amounts.
    let class = class(&admin_api, "Invoice").await;
    let template = json!({
        "name": "Correct the amount",
        "description": "The amount differs from the order.",
        "complete_by": "time_frame", "complete_by_time_unit": "days", "complete_by_time_value": 3,
        "plugin_config": {
            "task_type": "tt_object_record_update",
            "configuration": {"object_class": class, "fields": ["amount"], "instructions": "Look at the order."},
            "prompt": "What is the right amount?",
            "approval_required": true,
            "approval_conditions": [{"name": "Below 1,000"}, {"name": "The board agreed"}],
        },
    });
    admin_api.post("/api/task-templates/", template).await.expect_created();
    let record = record(&admin_api, class).await;
    let manager = server.as_type("internal").await;
    grant_on_record(&admin_api, manager.id, json!({"object_records": ["edit"], "tasks": ["create", "assign"]})).await;
    let clerk = server.as_type("internal").await;

    // The manager assigns the task to the clerk, who may not view the record.
    let body = json!({"task_template": 1, "object_record": record, "assignees": [clerk.id]});
    let created = manager.post("/api/tasks/", body).await;
    let task = json!({
        "id": 1,
        "name": "Correct the amount",
        "description": "The amount differs from the order.",
        "instructions": "Look at the order.",
        "task_template": 1,
        "object_record": record,
        "status": "open",
        "assignees": [user(&clerk, "internal")],
        "assignee_groups": [],
        "due_at": "2026-02-03T09:30:00.000000Z",
        "expires_at": null,
        "completed_at": null,
        "completed_by": null,
        "response": null,
        "comment": null,
        "approval": null,
        "created_at": START,
        "created_by": user(&manager, "internal"),
        "modified_at": START,
        "modified_by": user(&manager, "internal"),
        "_meta": {
            "permissions": {"view": true, "edit": true, "delete": false, "complete": false, "assign": true},
            "labels": {"object_record": format!("#{record}"), "task_template": "Correct the amount"},
        },
        "form": {
            "task_type": "tt_object_record_update",
            "prompt": "What is the right amount?",
            "allow_comment": true,
            "approval_required": true,
            "approval_conditions": [{"name": "Below 1,000"}, {"name": "The board agreed"}],
            "configuration": {"object_class": class, "fields": ["amount"], "instructions": "Look at the order."},
            "fields": [{
                "alias": "amount", "label": "Amount", "description": "", "type": "decimal", "required": false,
                "editable": true, "validators": [],
            }],
            "values": {"amount": null},
            "labels": {"object_class": "Invoice", "fields": {}, "files": {}},
        },
    });
    created.expect_reply(201, task.clone());
    clerk.get(&format!("/api/object-records/{record}/")).await.expect_reply(404, message::not_found());

    // It is the only open task of the clerk.
    let mine = clerk.get("/api/tasks/?assignees=me&status=open&ordering=due_at").await;
    let mut listed = task.clone();
    listed.as_object_mut().unwrap().remove("form");
    listed["_meta"]["permissions"] =
        json!({"view": true, "edit": false, "delete": false, "complete": true, "assign": false});
    listed["_meta"]["labels"] = json!({"object_record": null, "task_template": null});
    mine.expect_reply(200, page(json!([listed])));

    // A day later the clerk answers. The record remains unchanged until the approval.
    server.advance(DAY);
    let body = json!({"response": {"fields": {"amount": "990.5"}}, "comment": "See page 2."});
    let completed = clerk.post("/api/tasks/1/complete/", body).await.ok();
    assert_eq!(completed["status"], "in_approval");
    assert_eq!(completed["completed_at"], "2026-02-01T09:30:00.000000Z");
    assert_eq!(completed["completed_by"], user(&clerk, "internal"));
    assert_eq!(completed["response"], json!({"fields": {"amount": "990.5"}}));
    assert_eq!(completed["comment"], "See page 2.");
    let amount = async || {
        let record = manager.get(&format!("/api/object-records/{record}/")).await.ok();
        record["fields"]["amount"].clone()
    };
    assert_eq!(amount().await, Value::Null);

    // The clerk may not approve the answer. The manager may, with a condition of the template.
    clerk
        .post("/api/tasks/1/approve/", json!({"condition": "Below 1,000"}))
        .await
        .expect_reply(403, message::forbidden());
    manager
        .post("/api/tasks/1/approve/", json!({"condition": "Always"}))
        .await
        .refuses(json!({"condition": ["Always is not a valid choice."]}));
    let body = json!({"condition": "Below 1,000", "comment": "Thank you."});
    let approved = manager.post("/api/tasks/1/approve/", body).await.ok();
    assert_eq!(approved["status"], "completed");
    assert_eq!(
        approved["approval"],
        json!({
            "by": user(&manager, "internal"), "at": "2026-02-01T09:30:00.000000Z", "condition": "Below 1,000",
            "comment": "Thank you.",
        })
    );
    assert_eq!(amount().await, "990.50");

    // The log contains all steps, the newest first.
    let at = "2026-02-01T09:30:00.000000Z";
    let entry = |id: i64, at: &str, by: &ApiClient, action: &str, changes: Value| {
        json!({
            "id": id, "at": at, "by": user(by, "internal"), "source_type": "user", "action": action, "changes": changes,
        })
    };
    assert_eq!(
        log_of(&clerk, 1).await,
        json!([
            entry(
                3,
                at,
                &manager,
                "approve",
                json!({
                    "condition": [null, "Below 1,000"], "comment": [null, "Thank you."],
                    "status": ["in_approval", "completed"],
                })
            ),
            entry(
                2,
                at,
                &clerk,
                "complete",
                json!({
                    "comment": [null, "See page 2."], "status": ["open", "in_approval"],
                })
            ),
            entry(
                1,
                START,
                &manager,
                "create",
                json!({
                    "name": [null, "Correct the amount"], "task_template": [null, 1], "object_record": [null, record],
                    "status": [null, "open"], "assignees": [null, [clerk.id]],
                    "due_at": [null, "2026-02-03T09:30:00.000000Z"],
                })
            ),
        ])
    );
    // The task is deleted with its record, and the administration log contains an entry.
    admin_api.delete(&format!("/api/object-records/{record}/")).await.expect_empty();
    manager.get("/api/tasks/1/").await.expect_reply(404, message::not_found());
    let entry = admin_api.get("/api/administration/log/?resource=tasks").await.ok()["results"][0].clone();
    assert_eq!(
        entry,
        json!({
            "id": entry["id"], "at": at, "by": admin(), "ip": "127.0.0.1", "action": "delete", "resource": "tasks",
            "object_id": 1, "object_name": "Correct the amount",
            "changes": {
                "object_record": [record, null], "status": ["completed", null],
                "completed_at": [at, null], "completed_by": [clerk.id, null],
            },
        })
    );
    assert_eq!(NOW + DAY, server.clock.now());
}
