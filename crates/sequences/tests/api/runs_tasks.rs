//! Tests steps that create tasks, wait for them and cancel them.

use crate::TestServer;
use crate::set_up::{ended_runs, fields, invoices, is, on, published, record, run_with_status, steps};
use serde_json::{Value, json};
use testkit::ApiClient;

/// Creates a template with an approval and returns its id.
async fn template(api: &ApiClient) -> i64 {
    let config = json!({"task_type": "tt_form", "allow_comment": true});
    let body = json!({"name": "Check", "complete_by": "asap", "plugin_config": config});
    let reply = api.post("/api/task-templates/", body).await;
    reply.expect_created();
    reply.id()
}

#[tokio::test]
async fn a_run_makes_a_task_and_goes_on_with_its_answer() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let template = template(&api).await;
    let clerk = server.as_type("internal").await;
    let steps_of = json!([
        {"key": "ask", "type": "create_task", "task_template": template, "name": {"text": "Check {{ record.number }}"},
         "assignees": [{"field": "approver"}],
         "due_at": {"add": [{"ref": "now"}, {"time_value": 5, "time_unit": "days"}]}},
        {"key": "answer", "type": "wait", "for": {"task": {"ref": "steps.ask.task"}}, "at_most": {"time_value": 10, "time_unit": "days"}},
        {"key": "note", "type": "update_record", "if": is("steps.answer.status", "exact", json!("completed")), "fields": {
            "note": {"text": "{{ steps.answer.comment }} {{ steps.answer.response/reason }}"},
            "amount": {"ref": "steps.answer.response/amount", "type": "decimal"},
            "approver": {"ref": "steps.answer.completed_by"},
        }},
    ]);
    let id = published(&api, "Ask", json!({"trigger": on(class, &["created"]), "steps": steps_of})).await;
    let record = record(&api, class, json!({"number": "A1", "approver": clerk.id})).await;
    run_with_status(&api, id, "waiting").await;
    let task = clerk.get("/api/tasks/?assignees=me").await.ok()["results"][0].clone();
    assert_eq!((&task["name"], &task["due_at"]), (&json!("Check A1"), &json!("2026-02-05T09:30:00.000000Z")));
    assert_eq!((&task["created_by"], &task["object_record"]), (&Value::Null, &json!(record)));
    let log = api.get(&format!("/api/tasks/{}/log/", task["id"])).await.ok();
    assert_eq!((&log["results"][0]["source_type"], &log["results"][0]["by"]), (&json!("sequence"), &Value::Null));
    let body = json!({"response": {"reason": "fits", "amount": "12.5"}, "comment": "Fine."});
    clerk.post(&format!("/api/tasks/{}/complete/", task["id"]), body).await.ok();
    let runs = ended_runs(&api, id, 1).await;
    assert_eq!(runs[0]["status"], "completed", "{:#?}", steps(&api, &runs[0]).await);
    let values = fields(&api, record).await;
    assert_eq!((&values["note"], &values["amount"]), (&json!("Fine. fits"), &json!("12.50")));
    assert_eq!(values["approver"], clerk.id);
}

#[tokio::test]
async fn a_wait_for_a_task_times_out_and_the_run_cancels_the_task() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let template = template(&api).await;
    let steps_of = json!([
        {"key": "ask", "type": "create_task", "task_template": template, "record": null},
        {"key": "answer", "type": "wait", "for": {"task": {"ref": "steps.ask.task"}}, "at_most": {"time_value": 1, "time_unit": "hours"}},
        {"key": "end", "type": "cancel_task", "task": {"ref": "steps.ask.task"}},
        {"key": "note", "type": "update_record", "fields": {"note": {"text": "{{ steps.answer.outcome }} {{ steps.answer.status }}"}}},
    ]);
    let rights = json!({
        "sequences": ["edit"], "object_classes": ["view"], "object_records": ["view", "edit"], "task_templates": ["view"],
    });
    let publisher = server.with_role(rights).await;
    let id = crate::set_up::sequence(&api, "Ask", json!({"trigger": on(class, &["created"]), "steps": steps_of})).await;
    crate::set_up::publish(&publisher, id).await.ok();
    let first = record(&api, class, json!({})).await;
    run_with_status(&api, id, "waiting").await;
    let api = crate::set_up::hours_later(&server, 1).await;
    testkit::eventually(async || fields(&api, first).await["note"] == "timed_out open").await;
    // Its account could not even view the task, which its run has made.
    assert_eq!(api.get("/api/tasks/1/").await.ok()["status"], "canceled");
}

#[tokio::test]
async fn a_wait_ends_with_a_task_that_is_deleted() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let template = template(&api).await;
    let steps_of = json!([
        {"key": "ask", "type": "create_task", "task_template": template},
        {"key": "answer", "type": "wait", "for": {"task": {"ref": "steps.ask.task"}}, "at_most": {"time_value": 1, "time_unit": "hours"}},
        {"key": "note", "type": "update_record", "fields": {"note": {"text": "{{ steps.answer.outcome }}{{ steps.answer.status }}"}}},
    ]);
    let id = published(&api, "Ask", json!({"trigger": on(class, &["created"]), "steps": steps_of})).await;
    let record = record(&api, class, json!({})).await;
    run_with_status(&api, id, "waiting").await;
    api.delete("/api/tasks/1/").await.expect_empty();
    ended_runs(&api, id, 1).await;
    assert_eq!(fields(&api, record).await["note"], "done");
}
