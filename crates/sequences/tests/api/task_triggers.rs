//! Tests triggers of tasks.

use crate::TestServer;
use crate::set_up::{SEQUENCES, ended_runs, fields, invoices, is, publish, published, record, sequence};
use serde_json::{Value, json};
use testkit::{ApiClient, message};

async fn template(api: &ApiClient, name: &str) -> i64 {
    let config = json!({"task_type": "tt_form"});
    let body = json!({"name": name, "complete_by": "asap", "plugin_config": config});
    let reply = api.post("/api/task-templates/", body).await;
    reply.expect_created();
    reply.id()
}

async fn task(api: &ApiClient, template: i64, record: Option<i64>) -> i64 {
    let reply = api.post("/api/tasks/", json!({"task_template": template, "object_record": record})).await;
    reply.expect_created();
    reply.id()
}

fn note() -> Value {
    json!([{"key": "note", "type": "update_record", "fields": {
        "note": {"text": "{{ task.status }} {{ task.response/reason }}"}, "approver": {"ref": "task.completed_by"},
    }}])
}

#[tokio::test]
async fn a_completed_task_of_a_template_starts_a_run_on_its_record() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let (check, other) = (template(&api, "Check").await, template(&api, "Other").await);
    let trigger = json!({
        "type": "task", "object_class": class, "task_template": check, "status": ["completed", "canceled"],
        "condition": is("record.number", "exact", json!("A")),
    });
    let id = published(&api, "Note", json!({"trigger": trigger, "steps": note()})).await;
    let meets = record(&api, class, json!({"number": "A"})).await;
    let fails = record(&api, class, json!({"number": "B"})).await;
    for (template, record) in [(other, meets), (check, fails), (check, meets)] {
        let task = task(&api, template, Some(record)).await;
        let body = json!({"response": {"reason": "fits"}});
        api.post(&format!("/api/tasks/{task}/complete/"), body).await.ok();
    }
    let run = ended_runs(&api, id, 1).await.remove(0);
    assert_eq!((&run["trigger"]["type"], &run["object_record"]), (&json!("task"), &json!(meets)));
    let values = fields(&api, meets).await;
    assert_eq!((&values["note"], &values["approver"]), (&json!("completed fits"), &json!(api.id)));
}

#[tokio::test]
async fn new_and_reopened_tasks_without_a_record_are_open() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let check = template(&api, "Check").await;
    let trigger = json!({"type": "task", "status": ["open"]});
    let steps = json!([{"key": "make", "type": "create_record", "object_class": class, "fields": {"number": {"ref": "task.status"}}}]);
    let id = published(&api, "Count", json!({"trigger": trigger, "steps": steps})).await;
    let task = task(&api, check, None).await;
    ended_runs(&api, id, 1).await;
    api.post(&format!("/api/tasks/{task}/cancel/"), json!({})).await.ok();
    api.post(&format!("/api/tasks/{task}/reopen/"), json!({})).await.ok();
    let runs = ended_runs(&api, id, 2).await;
    assert!(runs.iter().all(|run| run["status"] == "completed"), "{runs:#?}");
    api.delete(&format!("/api/tasks/{task}/")).await.expect_empty();
    assert_eq!(api.get(&format!("{SEQUENCES}{id}/runs/")).await.ok()["total_count"], 2);
}

#[tokio::test]
async fn a_sequence_that_makes_tasks_of_its_own_trigger_ends() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let check = template(&api, "Check").await;
    let trigger = json!({"type": "task", "object_class": class, "status": ["open"]});
    let steps = json!([{"key": "more", "type": "create_task", "task_template": check}]);
    let definition = json!({"trigger": trigger, "steps": steps, "concurrency": "parallel"});
    let id = published(&api, "More", definition).await;
    let record = record(&api, class, json!({})).await;
    task(&api, check, Some(record)).await;
    let runs = ended_runs(&api, id, 11).await;
    assert_eq!(runs[10]["depth"], 10);
}

#[tokio::test]
async fn a_trigger_of_tasks_needs_the_view_of_all_tasks() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let rights = json!({"sequences": ["edit"], "object_classes": ["view"], "object_records": ["view", "edit"]});
    let publisher = server.with_role(rights).await;
    let stop = json!([{"key": "end", "type": "stop", "as": "completed"}]);
    for (name, class) in [("Of class", json!(class)), ("Of none", Value::Null)] {
        let trigger = json!({"type": "task", "object_class": class, "status": ["open"]});
        let id = sequence(&api, name, json!({"trigger": trigger, "steps": stop})).await;
        publish(&publisher, id).await.expect_reply(403, message::forbidden());
        publish(&api, id).await.ok();
    }
    let id = sequence(&api, "Wrong", json!({"trigger": {"type": "task", "status": ["gone"], "condition": is("record.number", "exact", json!("A"))}, "steps": stop})).await;
    let expected = json!({"status": ["gone is not a valid choice."], "condition": ["This field does not exist."]});
    publish(&api, id).await.expect_reply(400, json!({"definition": {"trigger": expected}}));
}
