//! Tests `/api/sequences/{id}/start/` and `/api/object-records/{id}/sequences/`.

use crate::TestServer;
use crate::set_up::{SEQUENCES, ended_runs, fields, invoices, published, record};
use serde_json::{Value, json};
use testkit::message;
use testkit::shown::page;

fn manual(class: Option<i64>) -> Value {
    json!({"type": "manual", "object_class": class})
}

fn note(value: Value) -> Value {
    json!([{"key": "note", "type": "update_record", "fields": {"note": value}}])
}

#[tokio::test]
async fn people_start_a_sequence_for_a_record_that_they_may_edit() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let mut trigger = manual(Some(class));
    trigger["condition"] = json!({"ref": "record.amount", "is": "gt", "to": 10});
    trigger["inputs"] = json!([
        {"name": "reason", "type": "string", "label": "Why", "required": true},
        {"name": "level", "type": "enum", "options": ["low", "high"], "default": "low"},
    ]);
    let text = json!({"text": "{{ inputs.reason }} ({{ inputs.level }}) by {{ starter }}"});
    let id = published(&api, "Note", json!({"trigger": trigger, "steps": note(text)})).await;
    let (small, large) =
        (record(&api, class, json!({"amount": "5"})).await, record(&api, class, json!({"amount": "50"})).await);
    let path = format!("{SEQUENCES}{id}/start/");
    // The starter may edit the record, and do nothing else.
    let starter = server.as_type("internal").await;
    let set = json!({"name": "Edit", "permissions": {"object_records": ["view", "edit"]}});
    let set = api.post(&format!("/api/object-classes/{class}/record-permission-sets/"), set).await.id();
    for record in [small, large] {
        let assignees = format!("/api/object-records/{record}/permission-sets/{set}/assignees/");
        api.post(&assignees, json!([starter.id])).await.expect_created();
    }
    let offered = json!([{
        "id": id, "name": "Note", "description": "",
        "inputs": [
            {"name": "reason", "label": "Why", "type": "string", "required": true, "default": null, "options": [], "object_class": null},
            {"name": "level", "label": "level", "type": "enum", "required": false, "default": "low",
             "options": [{"value": "low", "text": "low"}, {"value": "high", "text": "high"}], "object_class": null},
        ],
    }]);
    starter.get(&format!("/api/object-records/{large}/sequences/")).await.expect_reply(200, page(offered));
    starter.get(&format!("/api/object-records/{small}/sequences/")).await.expect_reply(200, page(json!([])));
    // Who may neither view it nor start it does not find it.
    starter.post(&path, json!({})).await.expect_reply(404, message::not_found());
    server
        .as_type("internal")
        .await
        .post(&path, json!({"object_record": large}))
        .await
        .expect_reply(404, message::not_found());
    api.post(&path, json!({})).await.refuses(json!({"object_record": ["This field is required."]}));
    api.post(&path, json!({"object_record": 99}))
        .await
        .refuses(json!({"object_record": ["Invalid pk 99 - object does not exist."]}));
    let body = |inputs: Value| json!({"object_record": large, "inputs": inputs});
    starter.post(&path, body(json!({}))).await.refuses(json!({"inputs": {"reason": ["This field is required."]}}));
    let wrong = json!({"reason": 1, "level": "middle", "speed": 2});
    let errors = json!({
        "speed": ["This field does not exist."], "reason": ["Not a valid string."], "level": ["middle is not a valid choice."],
    });
    starter.post(&path, body(wrong)).await.refuses(json!({"inputs": errors}));
    let unmet = message::detail("The record does not meet the condition of the sequence.");
    starter.post(&path, json!({"object_record": small, "inputs": {"reason": "x"}})).await.expect_reply(400, unmet);
    let started = starter.post(&path, body(json!({"reason": "Late", "level": "high"}))).await.expect_created();
    assert_eq!(started["sequence"], id);
    assert_eq!(
        (&started["version"], &started["status"], &started["object_record"]),
        (&json!(1), &json!("queued"), &json!(large))
    );
    let runs = ended_runs(&api, id, 1).await;
    assert_eq!(runs[0]["uuid"], started["uuid"]);
    assert_eq!(runs[0]["trigger"]["source_type"], "user");
    assert_eq!(runs[0]["trigger"]["source_id"], starter.id);
    let name = starter.get("/api/users/me/").await.ok();
    let name = format!("{} {}", name["first_name"].as_str().unwrap(), name["last_name"].as_str().unwrap());
    assert_eq!(fields(&api, large).await["note"], format!("Late (high) by {name}"));
    // The starter sees the run and the inputs, and no step's values.
    let own = starter.get(&format!("/api/sequence-runs/{}/", started["uuid"].as_str().unwrap())).await.ok();
    assert_eq!(own["inputs"], json!({"level": "high", "reason": "Late"}));
    assert_eq!(own["_meta"]["permissions"], json!({"view": true, "edit": false, "view_values": false}));
    // A paused sequence is not started.
    api.post(&format!("{SEQUENCES}{id}/pause/"), json!({})).await.ok();
    let paused = message::detail("Sequence is not running.");
    starter.post(&path, body(json!({"reason": "Late"}))).await.expect_reply(400, paused);
}

#[tokio::test]
async fn a_sequence_without_a_class_needs_the_permission_and_the_group() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let member = server.with_role(json!({"sequences": ["start"]})).await;
    let other = server.with_role(json!({"sequences": ["start"]})).await;
    let group = api.post("/api/user-groups/", json!({"name": "Clerks"})).await.id();
    api.post(&format!("/api/user-groups/{group}/members/users/"), json!([member.id])).await.expect_created();
    let mut trigger = manual(None);
    trigger["user_groups"] = json!([group]);
    let steps = json!([{"key": "make", "type": "create_record", "object_class": class, "fields": {"number": "A"}}]);
    let id = published(&api, "Make", json!({"trigger": trigger, "steps": steps})).await;
    let path = format!("{SEQUENCES}{id}/start/");
    other.post(&path, json!({})).await.expect_reply(404, message::not_found());
    server.as_type("internal").await.post(&path, json!({})).await.expect_reply(404, message::not_found());
    member.post(&path, json!({})).await.expect_created();
    // Groups do not bind super admins.
    api.post(&path, json!({})).await.expect_created();
    let runs = ended_runs(&api, id, 2).await;
    assert!(runs.iter().all(|run| run["status"] == "completed"), "{runs:#?}");
    let made = api.get(&format!("/api/object-classes/{class}/object-records/")).await.ok();
    assert_eq!(made["total_count"], 2);
    assert_eq!((&made["results"][0]["owner"], &made["results"][0]["created_by"]), (&Value::Null, &Value::Null));
}
