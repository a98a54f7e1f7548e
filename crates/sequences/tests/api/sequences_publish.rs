//! Tests `/api/sequences/{id}/publish/`, `versions/`, `pause/`, `resume/` and `take-over/`.

use crate::TestServer;
use crate::set_up::{
    SEQUENCES, ended_runs, hours_later, invoices, on, publish, published, record, run_with_status, sequence,
};
use serde_json::{Value, json};
use testkit::message;
use testkit::shown::{START, admin, page};

fn stop() -> Value {
    json!([{"key": "end", "type": "stop", "as": "completed"}])
}

#[tokio::test]
async fn a_draft_is_published_in_the_state_that_its_publisher_has_seen() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let id = sequence(&api, "Count", json!({"trigger": on(class, &["created"]), "steps": stop()})).await;
    let path = format!("{SEQUENCES}{id}/publish/");
    api.post(&path, json!({})).await.expect_reply(428, message::detail("If-Match is required."));
    let call = |tag: &str, body: Value| api.call("POST", &path).header("if-match", tag).json(&body).send();
    call("*", json!({})).await.expect_reply(428, message::detail("If-Match is required."));
    call("\"old\"", json!({})).await.expect_reply(412, message::detail("Object has been changed."));
    let tag = api.get(&format!("{SEQUENCES}{id}/")).await.header("etag").to_owned();
    let long = "c".repeat(256);
    let too_long = json!({"comment": ["Ensure this field has no more than 255 characters."]});
    call(&tag, json!({"comment": long})).await.refuses(too_long);
    let running = call(&tag, json!({"comment": "The first"})).await.ok();
    assert_eq!(running["status"], "running");
    assert_eq!(running["published_version"], 1);
    assert_eq!(running["has_changes"], false);
    assert_eq!(running["runs_as"], admin());
    assert_eq!(running["trigger_type"], "record");
    assert_eq!(running["object_class"], class);
    assert_eq!(
        running["_meta"]["labels"],
        json!({"object_class": "Invoice", "status": "Running", "trigger_type": "Record"})
    );
    publish(&api, id).await.expect_reply(400, message::detail("Nothing has changed."));
    let version = json!({
        "version": 1, "published_at": START, "published_by": admin(), "runs_as": admin(), "comment": "The first",
        "num_of_runs_in_progress": 0,
    });
    api.get(&format!("{SEQUENCES}{id}/versions/")).await.expect_reply(200, page(json!([version])));
    let one = api.get(&format!("{SEQUENCES}{id}/versions/1/")).await.ok();
    assert_eq!(one["definition"]["steps"], stop());
    api.get(&format!("{SEQUENCES}{id}/versions/2/")).await.expect_reply(404, message::not_found());
    let log = api.get("/api/administration/log/?resource=sequences&action=publish").await.ok();
    assert_eq!(log["results"][0]["changes"]["version"], json!([null, 1]));
    assert_eq!(log["results"][0]["changes"]["definition.steps.end"], json!([null, stop()[0]]));
}

#[tokio::test]
async fn all_problems_of_a_draft_are_reported_together() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let definition = json!({
        "trigger": {
            "type": "record", "object_class": class, "on": ["changed"],
            "condition": {"ref": "before.nothing", "is": "exact", "to": 1},
        },
        "concurrency": "both",
        "steps": [
            {"key": "approve", "type": "update_record", "fields": {
                "approver": {"ref": "record.number"}, "amount": "much", "nothing": 1,
            }},
            {"type": "stop", "as": "completed"},
            {"key": "later", "type": "stop", "as": "failed", "message": {"text": "{{ steps.after.record }}"}},
            {"key": "after", "type": "create_record", "object_class": 99},
            {"key": "branch", "type": "branch", "branches": [{"if": {"ref": "record.amount", "is": "like", "to": 1}}]},
        ],
    });
    let id = sequence(&api, "Wrong", definition).await;
    let errors = json!({
        "trigger": {"condition": ["This reference does not exist."]},
        "steps": {
            "1": {"key": ["This field is required."]},
            "branch": {"branches": {"0": {"if": ["like is not a valid choice."]}}},
            "approve": {"fields": {
                "approver": ["Expected user, but got string."],
                "amount": ["A valid number is required."],
                "nothing": ["This field does not exist."],
            }},
            "later": {"message": ["Step after does not come before this one."]},
            "after": {"object_class": ["Invalid pk 99 - object does not exist."]},
        },
        "concurrency": ["both is not a valid choice."],
    });
    publish(&api, id).await.refuses(json!({"definition": errors}));
    let problems = api.get(&format!("{SEQUENCES}{id}/")).await.ok()["problems"].clone();
    assert_eq!(problems.as_array().unwrap().len(), 9);
    assert!(
        problems
            .as_array()
            .unwrap()
            .contains(&json!({"path": "steps.approve.fields.approver", "message": "Expected user, but got string."}))
    );
}

#[tokio::test]
async fn publishing_lends_rights_that_the_publisher_must_have() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let definition = json!({"trigger": on(class, &["created"]), "steps": stop()});
    let id = sequence(&api, "Count", definition.clone()).await;
    // Somebody who may not view all records of the class views the class by another right.
    let editor = server.with_role(json!({"sequences": ["edit"], "object_classes": ["view"]})).await;
    publish(&editor, id).await.expect_reply(403, message::forbidden());
    let rights = json!({"sequences": ["edit"], "object_classes": ["view"], "object_records": ["view"]});
    let publisher = server.with_role(rights).await;
    assert_eq!(publish(&publisher, id).await.ok()["runs_as"]["id"], publisher.id);
    // The same draft by another account is another version.
    assert_eq!(publish(&api, id).await.ok()["published_version"], 2);
    // A class that the publisher may not view does not exist for them.
    let blind = server.with_role(json!({"sequences": ["edit"]})).await;
    let errors = json!({"trigger": {"object_class": [format!("Invalid pk {class} - object does not exist.")]}});
    publish(&blind, id).await.refuses(json!({"definition": errors}));
}

#[tokio::test]
async fn a_version_has_at_most_as_many_steps_as_the_limit_and_a_class_ten_sequences() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    server.set_limit("sequence_steps", 1).await;
    let two = json!([{"key": "a", "type": "stop", "as": "completed"}, {"key": "b", "type": "stop", "as": "completed"}]);
    let id = sequence(&api, "Two", json!({"trigger": on(class, &["created"]), "steps": two})).await;
    publish(&api, id).await.expect_reply(400, message::limit_exceeded("1 Sequence Steps"));
    for n in 0..10 {
        published(&api, &format!("{n}"), json!({"trigger": on(class, &["created"]), "steps": stop()})).await;
    }
    let id = sequence(&api, "Eleven", json!({"trigger": on(class, &["created"]), "steps": stop()})).await;
    publish(&api, id).await.expect_reply(400, message::limit_exceeded("10 Sequences of the class"));
}

#[tokio::test]
async fn a_pause_holds_runs_before_their_next_step() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let steps = json!([
        {"key": "rest", "type": "wait", "for": {"span": {"time_value": 1, "time_unit": "hours"}}},
        {"key": "note", "type": "update_record", "fields": {"note": "done"}},
    ]);
    let id = published(&api, "Rest", json!({"trigger": on(class, &["created"]), "steps": steps})).await;
    let first = record(&api, class, json!({})).await;
    run_with_status(&api, id, "waiting").await;
    let path = format!("{SEQUENCES}{id}/");
    api.post(&format!("{path}resume/"), json!({})).await.expect_reply(400, message::detail("Action is not available."));
    let paused = api.post(&format!("{path}pause/"), json!({"runs": "hold"})).await.ok();
    assert_eq!((&paused["status"], &paused["paused_because"]), (&json!("paused"), &json!("person")));
    api.post(&format!("{path}pause/"), json!({})).await.expect_reply(400, message::detail("Action is not available."));
    run_with_status(&api, id, "held").await;
    // What would start meanwhile is counted, and never starts.
    record(&api, class, json!({})).await;
    testkit::eventually(async || {
        let skipped = api.get(&format!("{path}skipped/")).await.ok();
        if skipped["results"][0]["reason"] == "paused" { Ok(()) } else { Err(skipped) }
    })
    .await;
    // The time of waits goes on.
    let api = hours_later(&server, 1).await;
    assert_eq!(api.post(&format!("{path}resume/"), json!({})).await.ok()["status"], "running");
    let runs = ended_runs(&api, id, 1).await;
    assert_eq!(runs[0]["status"], "completed");
    assert_eq!(crate::set_up::fields(&api, first).await["note"], "done");
}

#[tokio::test]
async fn a_take_over_lends_the_rights_of_another_account() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let rights = json!({"sequences": ["edit"], "object_classes": ["view"], "object_records": ["view", "edit"]});
    let publisher = server.with_role(rights).await;
    let steps = json!([{"key": "note", "type": "update_record", "fields": {"note": "done"}}]);
    let id = sequence(&api, "Note", json!({"trigger": on(class, &["created"]), "steps": steps})).await;
    publish(&publisher, id).await.ok();
    let path = format!("{SEQUENCES}{id}/take-over/");
    publisher.post(&path, json!({})).await.expect_reply(400, message::detail("Action is not available."));
    // The account is deactivated: the sequence is paused in that transaction.
    api.post(&format!("/api/users/{}/deactivate/", publisher.id), json!({})).await.ok();
    let paused = api.get(&format!("{SEQUENCES}{id}/")).await.ok();
    assert_eq!((&paused["status"], &paused["paused_because"]), (&json!("paused"), &json!("account")));
    let mail = server.mail_to(&api.username).await;
    assert!(mail.text.starts_with("The sequence \"Note\" is paused, because its account cannot be used"), "{mail:?}");
    let unusable = message::detail("The account of the sequence cannot be used.");
    api.post(&format!("{SEQUENCES}{id}/resume/"), json!({})).await.expect_reply(400, unusable);
    let taken = api.post(&path, json!({})).await.ok();
    assert_eq!((&taken["status"], &taken["runs_as"]), (&json!("running"), &admin()));
    let record = record(&api, class, json!({})).await;
    ended_runs(&api, id, 1).await;
    assert_eq!(crate::set_up::fields(&api, record).await["note"], "done");
}

#[tokio::test]
async fn a_sequence_with_runs_in_progress_is_not_deleted() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let steps = json!([{"key": "rest", "type": "wait", "for": {"span": {"time_value": 1, "time_unit": "hours"}}}]);
    let id = published(&api, "Rest", json!({"trigger": on(class, &["created"]), "steps": steps})).await;
    record(&api, class, json!({})).await;
    run_with_status(&api, id, "waiting").await;
    let path = format!("{SEQUENCES}{id}/");
    let busy = message::detail("Sequence has runs in progress and cannot be deleted.");
    api.delete(&path).await.expect_reply(400, busy);
    api.post(&format!("{path}runs/cancel/"), json!({"status": "waiting"})).await.expect_reply(202, json!({"count": 1}));
    ended_runs(&api, id, 1).await;
    api.delete(&path).await.expect_empty();
    testkit::eventually(async || api.get("/api/sequence-runs/").await.ok()["total_count"] == 0).await;
}
