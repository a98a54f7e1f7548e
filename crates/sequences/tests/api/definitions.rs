//! Tests what publishing refuses in definitions, by the problems of drafts.

use crate::TestServer;
use crate::set_up::{SEQUENCES, invoices, sequence};
use serde_json::{Value, json};

#[tokio::test]
async fn what_does_not_exist_or_does_not_fit_is_a_problem() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let user = server.as_type("internal").await;
    let record = |more: Value| {
        let mut trigger = json!({"type": "record", "object_class": class, "on": ["changed"]});
        trigger.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        trigger
    };
    let step = |step: Value| {
        let mut step = step;
        step["key"] = json!("it");
        json!([step])
    };
    let stop = || json!([{"key": "it", "type": "stop", "as": "completed"}]);
    let set = |name: &str, value: Value| step(json!({"type": "update_record", "fields": {name: value}}));
    let span = |value: i64, unit: &str| json!({"time_value": value, "time_unit": unit});
    for (trigger, steps, problem) in [
        (json!({"type": "moon"}), stop(), Some(("trigger.type", "moon is not a valid choice."))),
        (
            json!({"type": "record", "on": ["created"]}),
            stop(),
            Some(("trigger.object_class", "This field is required.")),
        ),
        (record(json!({"on": ["sold"]})), stop(), Some(("trigger.on", "sold is not a valid choice."))),
        (record(json!({"on": []})), stop(), Some(("trigger.on", "This list may not be empty."))),
        (record(json!({"fields": ["none"]})), stop(), Some(("trigger.fields", "This field does not exist."))),
        (record(json!({"inputs": []})), stop(), Some(("trigger.inputs", "This field does not exist."))),
        (record(json!({"condition": {"ref": "now", "is": "gt", "to": "2026-01-31T00:00:00Z"}})), stop(), None),
        (
            record(json!({"condition": {"ref": "record.note", "is": "contains", "to": "x"}})),
            stop(),
            Some(("trigger.condition", "contains is not a valid choice.")),
        ),
        (
            record(json!({"condition": {"ref": "starter", "is": "exact", "to": 1}})),
            stop(),
            Some(("trigger.condition", "This reference does not exist.")),
        ),
        (record(json!({})), set("amount", json!({"add": [{"ref": "record.amount"}, 1]})), None),
        (
            record(json!({})),
            set("amount", json!({"add": [{"ref": "record.number"}, 1]})),
            Some(("steps.it.fields.amount", "Expected decimal, but got string.")),
        ),
        (record(json!({})), set("paid_on", json!({"add": [{"ref": "today"}, span(30, "days")]})), None),
        (
            record(json!({})),
            set("paid_on", json!({"add": [{"ref": "now"}, span(30, "days")]})),
            Some(("steps.it.fields.paid_on", "Expected date, but got datetime.")),
        ),
        (
            record(json!({})),
            set("paid_on", json!({"add": [{"ref": "today"}, span(500, "days")]})),
            Some(("steps.it.fields.paid_on.time_value", "Ensure this value is less than or equal to 400 days.")),
        ),
        (
            record(json!({})),
            set("approver", json!(99)),
            Some(("steps.it.fields.approver", "Invalid pk 99 - object does not exist.")),
        ),
        (record(json!({})), set("approver", json!(user.id)), None),
        (record(json!({})), set("approver", json!({"first": [{"ref": "starter"}, {"ref": "record.owner"}]})), None),
        (
            record(json!({})),
            set("note", json!({"text": "{{ record.state | upper }}{{?record.amount}}!{{/record.amount}}"})),
            None,
        ),
        (
            record(json!({})),
            set("note", json!({"text": "{{ record.state"})),
            Some(("steps.it.fields.note", "Enter a valid value.")),
        ),
        (
            record(json!({})),
            set("state", json!("lost")),
            Some(("steps.it.fields.state", "lost is not a valid choice.")),
        ),
        (
            record(json!({})),
            step(json!({"type": "wait", "for": {"task": 1}})),
            Some(("steps.it.at_most", "This field is required.")),
        ),
        (
            record(json!({})),
            step(json!({"type": "create_task", "task_template": 9})),
            Some(("steps.it.task_template", "Invalid pk 9 - object does not exist.")),
        ),
        (
            json!({"type": "manual"}),
            step(json!({"type": "update_record", "fields": {}})),
            Some(("steps.it.record", "This field is required.")),
        ),
        (
            json!({"type": "manual", "inputs": [{"name": "n", "type": "json"}]}),
            stop(),
            Some(("trigger.inputs.0.type", "json is not a valid choice.")),
        ),
        (
            record(json!({})),
            step(json!({"type": "find_records", "object_class": class, "condition": {"any": []}})),
            Some(("steps.it.condition", "any is not a valid choice.")),
        ),
        (
            record(json!({})),
            step(
                json!({"type": "find_records", "object_class": class, "condition": {"ref": "item.state", "is": "gt", "to": "a"}}),
            ),
            Some(("steps.it.condition", "gt is not a valid choice.")),
        ),
        (
            record(json!({})),
            step(json!({"type": "stop", "as": "completed", "speed": 1})),
            Some(("steps.it.speed", "This field does not exist.")),
        ),
    ] {
        let definition = json!({"trigger": trigger, "steps": steps});
        let id = sequence(&api, "Draft", definition.clone()).await;
        let problems = api.get(&format!("{SEQUENCES}{id}/")).await.ok()["problems"].clone();
        let expected = match problem {
            Some((path, message)) => json!([{"path": path, "message": message}]),
            None => json!([]),
        };
        assert_eq!(problems, expected, "{definition:#}");
        api.delete(&format!("{SEQUENCES}{id}/")).await.expect_empty();
    }
}

#[tokio::test]
async fn steps_nest_five_levels() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let nested = |levels: usize| {
        (1..levels).fold(json!([{"key": "end", "type": "stop", "as": "completed"}]), |inside, n| {
            let condition = json!({"ref": "record.amount", "is": "isnull", "to": true});
            json!([{"key": format!("level_{n}"), "type": "branch", "branches": [{"if": condition, "steps": inside}]}])
        })
    };
    let problems = async |levels: usize| {
        let trigger = json!({"type": "record", "object_class": class, "on": ["created"]});
        let id = sequence(&api, &format!("{levels}"), json!({"trigger": trigger, "steps": nested(levels)})).await;
        api.get(&format!("{SEQUENCES}{id}/")).await.ok()["problems"].clone()
    };
    assert_eq!(problems(5).await, json!([]));
    let expected = json!([{"path": "steps.end", "message": "Limit of 5 step levels has been exceeded."}]);
    assert_eq!(problems(6).await, expected);
}
