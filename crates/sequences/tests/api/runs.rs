//! Tests runs: their steps, their values and their ends.

use crate::TestServer;
use crate::set_up::{
    RUNS, SEQUENCES, done, ended_runs, fields, hours_later, invoices, is, on, published, record, run_with_status, steps,
};
use serde_json::{Value, json};
use testkit::shown::{START, admin, page};
use testkit::{eventually, message};

#[tokio::test]
async fn a_change_starts_a_run_that_changes_the_record() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let definition = json!({
        "trigger": {
            "type": "record", "object_class": class, "on": ["changed"], "fields": ["state"],
            "condition": {"all": [
                is("before.state", "exact", json!("draft")), is("record.state", "exact", json!("submitted")),
                is("record.amount", "gt", json!("1000.00")),
            ]},
        },
        "steps": [{"key": "note", "type": "update_record", "fields": {
            "note": {"text": "{{ record.number }} was {{ before.state }}"},
            "amount": {"multiply": [{"ref": "record.amount"}, 2]},
            "paid_on": {"add": [{"ref": "today"}, {"time_value": 1, "time_unit": "months"}]},
        }}],
    });
    let id = published(&api, "Note", definition).await;
    let small = record(&api, class, json!({"state": "draft", "amount": "10"})).await;
    let large = record(&api, class, json!({"number": "A1", "state": "draft", "amount": "1000.01"})).await;
    for record in [small, large] {
        let body = json!({"fields": {"state": "submitted"}});
        api.patch(&format!("/api/object-records/{record}/"), body).await.ok();
    }
    let runs = ended_runs(&api, id, 1).await;
    let run = json!({
        "uuid": runs[0]["uuid"], "version": 1, "status": "completed", "cause": runs[0]["uuid"], "depth": 0, "parent": null,
        "started_at": START, "ended_at": START, "next_at": null, "step": null, "num_of_steps": 1,
        "sequence": {"id": id, "name": "Note"},
        "runs_as": admin(),
        "trigger": {
            "type": "record", "source_type": "user", "source_id": 1, "source_name": "admin Super Admin",
            "event_id": runs[0]["trigger"]["event_id"], "at": START,
        },
        "object_record": large,
        "error": null,
        "_meta": {"permissions": {"view": true, "edit": true, "view_values": true}},
    });
    assert_eq!(runs[0], run);
    let values = fields(&api, large).await;
    assert_eq!(values["note"], "A1 was DRAFT");
    assert_eq!((&values["amount"], &values["paid_on"]), (&json!("2000.02"), &json!("2026-02-28")));
    let step = json!({
        "n": 1, "path": "note", "type": "update_record", "status": "done", "started_at": START, "ended_at": START,
        "attempts": 1, "runs_as": admin(),
        "input": {"object_record": large, "owner": null, "fields": {
            "amount": "2000.02", "note": "A1 was DRAFT", "paid_on": "2026-02-28",
        }},
        "output": {"record": large, "changed": ["note", "amount", "paid_on"]},
        "error": null, "object_record": large, "task": null,
    });
    let uuid = runs[0]["uuid"].as_str().unwrap();
    api.get(&format!("{RUNS}{uuid}/steps/")).await.expect_reply(200, page(json!([step])));
    // Nobody stands in the audit fields, and the history names the sequence.
    let changed = api.get(&format!("/api/object-records/{large}/")).await.ok();
    assert_eq!(changed["modified_by"], Value::Null);
    let mut one = run.clone();
    one["inputs"] = json!({});
    api.get(&format!("{RUNS}{uuid}/")).await.expect_reply(200, one);
    let listed = api.get(&format!("{RUNS}?sequence={id}&object_record={large}&status=completed")).await;
    assert_eq!(listed.column("uuid"), [json!(uuid)]);
    let at_record = json!({
        "uuid": uuid, "status": "completed", "started_at": START, "ended_at": START, "sequence": {"id": id, "name": "Note"},
    });
    api.get(&format!("/api/object-records/{large}/sequence-runs/")).await.expect_reply(200, page(json!([at_record])));
}

#[tokio::test]
async fn creations_deletions_restorations_and_owners_start_runs() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let copies = api.post("/api/object-classes/", json!({"name": "Copy"})).await.id();
    api.post(&format!("/api/object-classes/{copies}/fields/"), json!({"label": "Text", "type": "string"}))
        .await
        .expect_created();
    let mut ids = Vec::new();
    for event in ["created", "deleted", "restored", "owner_changed"] {
        let text = json!({"text": format!("{event} {{{{ record.number }}}}")});
        let step = json!([{"key": "copy", "type": "create_record", "object_class": copies, "fields": {"text": text}}]);
        ids.push(published(&api, event, json!({"trigger": on(class, &[event]), "steps": step})).await);
    }
    let record = record(&api, class, json!({"number": "A1"})).await;
    let path = format!("/api/object-records/{record}/");
    let user = server.as_type("internal").await;
    api.patch(&path, json!({"owner": user.id})).await.ok();
    ended_runs(&api, ids[0], 1).await;
    ended_runs(&api, ids[3], 1).await;
    api.delete(&path).await.expect_empty();
    ended_runs(&api, ids[1], 1).await;
    api.post(&format!("{path}restore/"), json!({})).await.expect_created();
    ended_runs(&api, ids[2], 1).await;
    let texts = api.get(&format!("/api/object-classes/{copies}/object-records/?ordering=text")).await.column("fields");
    let expected = ["created A1", "deleted A1", "owner_changed A1", "restored A1"];
    assert_eq!(texts, expected.map(|text| json!({"text": text})));
}

#[tokio::test]
async fn branches_waits_and_stops_decide_the_course() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let steps_of = json!([
        {"key": "unless", "type": "update_record", "if": is("record.amount", "isnull", json!(true)), "fields": {"note": "none"}},
        {"key": "decide", "type": "branch",
         "branches": [
            {"if": is("record.amount", "gt", json!(100)), "steps": [
                {"key": "rest", "type": "wait", "for": {"span": {"time_value": 2, "time_unit": "days"}}},
                {"key": "large", "type": "update_record", "fields": {"note": {"text": "large {{ steps.rest.outcome }}"}}},
            ]},
         ],
         "else": [{"key": "small", "type": "stop", "as": "failed", "message": {"text": "Only {{ record.amount }}"}}]},
        {"key": "last", "type": "update_record", "fields": {"state": "approved"}},
    ]);
    let id = published(&api, "Decide", json!({"trigger": on(class, &["created"]), "steps": steps_of})).await;
    let small = record(&api, class, json!({"amount": "1.50"})).await;
    let runs = ended_runs(&api, id, 1).await;
    assert_eq!(runs[0]["status"], "failed");
    let error = json!({"step": "decide/else/small", "status": null, "body": {"detail": "Only 1.50"}});
    assert_eq!((&runs[0]["error"], &runs[0]["object_record"]), (&error, &json!(small)));
    let path_and_status = |path: &str, status: &str| (path.to_owned(), status.to_owned());
    assert_eq!(
        done(&api, &runs[0]).await,
        [
            path_and_status("unless", "left_out"),
            path_and_status("decide", "done"),
            path_and_status("decide/else/small", "done")
        ]
    );
    let large = record(&api, class, json!({"amount": "150"})).await;
    let waiting = run_with_status(&api, id, "waiting").await;
    assert_eq!(waiting["step"], "decide/0/rest");
    assert_eq!(waiting["next_at"], "2026-02-02T09:30:00.000000Z");
    let api = hours_later(&server, 48).await;
    let runs = ended_runs(&api, id, 2).await;
    assert_eq!(runs[1]["status"], "completed");
    let values = fields(&api, large).await;
    assert_eq!((&values["note"], &values["state"]), (&json!("large done"), &json!("approved")));
}

#[tokio::test]
async fn what_the_api_refuses_fails_the_step_and_the_run_may_go_on() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let steps_of = json!([
        {"key": "wrong", "type": "update_record", "on_error": "continue", "fields": {"paid_on": {"ref": "record.paid_on"}, "state": {"ref": "record.number"}}},
        {"key": "tell", "type": "update_record", "fields": {"note": {"text": "{{ steps.wrong.error.status }}: {{ steps.wrong.error.detail }}"}}},
        {"key": "again", "type": "delete_record", "record": 99},
    ]);
    let id =
        crate::set_up::sequence(&api, "Wrong", json!({"trigger": on(class, &["created"]), "steps": steps_of})).await;
    let errors = json!({"steps": {
        "wrong": {"fields": {"state": ["Expected enum, but got string."]}},
        "again": {"record": ["Invalid pk 99 - object does not exist."]},
    }});
    crate::set_up::publish(&api, id).await.refuses(json!({"definition": errors}));
    // The status 1,000 invoices later: a field that has become required.
    let steps_of = json!([
        {"key": "wrong", "type": "create_record", "on_error": "continue", "object_class": class, "fields": {"number": {"ref": "record.number"}}},
        {"key": "tell", "type": "update_record", "fields": {"note": {"text": "{{ steps.wrong.error.status }}: {{ steps.wrong.error.detail }}"}}},
        {"key": "twice", "type": "create_record", "object_class": class, "fields": {"number": {"ref": "record.number"}}},
    ]);
    api.patch(
        &format!("{SEQUENCES}{id}/"),
        json!({"definition": {"trigger": on(class, &["created"]), "steps": steps_of}}),
    )
    .await
    .ok();
    crate::set_up::publish(&api, id).await.ok();
    let fields_of = api.get(&format!("/api/object-classes/{class}/fields/")).await.ok();
    let number = fields_of["results"][0]["id"].as_i64().unwrap();
    api.patch(&format!("/api/object-classes/{class}/fields/{number}/"), json!({"is_unique": true})).await.ok();
    let record = record(&api, class, json!({"number": "A1"})).await;
    let runs = ended_runs(&api, id, 1).await;
    let body = json!({"fields": {"number": ["This field must be unique."]}});
    assert_eq!(runs[0]["error"], json!({"step": "twice", "status": 400, "body": body}));
    assert_eq!(fields(&api, record).await["note"], "400: This field must be unique.");
    // The reason ends, and the run goes on with the failed step.
    api.patch(&format!("/api/object-classes/{class}/fields/{number}/"), json!({"is_unique": false})).await.ok();
    let path = format!("{RUNS}{}/", runs[0]["uuid"].as_str().unwrap());
    api.post(&format!("{path}cancel/"), json!({})).await.expect_reply(400, message::detail("Action is not available."));
    assert_eq!(api.post(&format!("{path}retry/"), json!({})).await.ok()["status"], "queued");
    let run = eventually(async || {
        let run = api.get(&path).await.ok();
        if run["status"] == "completed" { Ok(run) } else { Err(run) }
    })
    .await;
    let states: Vec<Value> = steps(&api, &run).await.iter().map(|step| step["status"].clone()).collect();
    assert_eq!(states, ["failed", "done", "failed", "done"]);
    api.post(&format!("{path}retry/"), json!({})).await.expect_reply(400, message::detail("Action is not available."));
}

#[tokio::test]
async fn records_are_found_and_assigned() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let user = server.as_type("internal").await;
    let set = json!({"name": "Look", "permissions": {"object_records": ["view"]}});
    let set = api.post(&format!("/api/object-classes/{class}/record-permission-sets/"), set).await.id();
    for amount in ["10", "20", "30"] {
        record(&api, class, json!({"number": "old", "amount": amount, "approver": user.id})).await;
    }
    let condition = json!({"all": [is("item.number", "exact", json!("old")), is("item.amount", "gte", json!({"ref": "record.amount"}))]});
    let steps_of = json!([
        {"key": "find", "type": "find_records", "object_class": class, "condition": condition, "at_most": 10},
        {"key": "assign", "type": "assign", "record": {"ref": "steps.find.first"}, "permission_set": set,
         "to": [{"field": "approver"}, {"users": [user.id]}]},
        {"key": "note", "type": "update_record", "fields": {"note": {"text": "{{ steps.find.count }} from {{ steps.find.first.amount }}"}}},
        {"key": "unassign", "type": "unassign", "if": is("steps.find.count", "gt", json!(5)), "record": {"ref": "steps.find.first"},
         "permission_set": set, "to": [{"permission_set": set}]},
    ]);
    let id = published(&api, "Find", json!({"trigger": on(class, &["created"]), "steps": steps_of})).await;
    let new = record(&api, class, json!({"number": "new", "amount": "15"})).await;
    let runs = ended_runs(&api, id, 1).await;
    assert_eq!(runs[0]["status"], "completed", "{:#?}", steps(&api, &runs[0]).await);
    assert_eq!(fields(&api, new).await["note"], "2 from 20.00");
    // The user sees the record that was found.
    assert_eq!(user.get(&format!("/api/object-classes/{class}/object-records/")).await.ids(), [2]);
    let assigned = steps(&api, &runs[0]).await;
    assert_eq!(assigned[1]["output"], json!({"user_groups": [], "users": [user.id]}));
}

#[tokio::test]
async fn equal_values_write_nothing() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let step = json!([{"key": "same", "type": "update_record", "fields": {"number": {"ref": "record.number"}, "amount": "5"}}]);
    let id = published(&api, "Same", json!({"trigger": on(class, &["created"]), "steps": step})).await;
    let record = record(&api, class, json!({"number": "A", "amount": "5.00"})).await;
    let runs = ended_runs(&api, id, 1).await;
    assert_eq!(steps(&api, &runs[0]).await[0]["output"]["changed"], json!([]));
    let shown = api.get(&format!("/api/object-records/{record}/")).await.ok();
    assert_eq!(shown["modified_by"]["id"], 1, "the record was not modified by the sequence");
}

#[tokio::test]
async fn a_wait_ends_when_the_record_meets_its_condition() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let steps_of = json!([
        {"key": "until", "type": "wait", "for": {"condition": is("record.state", "exact", json!("approved"))},
         "at_most": {"time_value": 5, "time_unit": "days"}},
        {"key": "note", "type": "update_record", "fields": {"note": {"ref": "steps.until.outcome"}}},
    ]);
    let id = published(&api, "Until", json!({"trigger": on(class, &["created"]), "steps": steps_of})).await;
    let record = record(&api, class, json!({"state": "draft"})).await;
    run_with_status(&api, id, "waiting").await;
    let path = format!("/api/object-records/{record}/");
    api.patch(&path, json!({"fields": {"state": "submitted"}})).await.ok();
    api.patch(&path, json!({"fields": {"state": "approved"}})).await.ok();
    ended_runs(&api, id, 1).await;
    assert_eq!(fields(&api, record).await["note"], "done");
}

#[tokio::test]
async fn the_deletion_of_its_record_cancels_a_run() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let steps_of = json!([{"key": "rest", "type": "wait", "for": {"span": {"time_value": 1, "time_unit": "days"}}}]);
    let id = published(&api, "Rest", json!({"trigger": on(class, &["created"]), "steps": steps_of})).await;
    let record = record(&api, class, json!({})).await;
    run_with_status(&api, id, "waiting").await;
    api.delete(&format!("/api/object-records/{record}/")).await.expect_empty();
    let runs = ended_runs(&api, id, 1).await;
    assert_eq!((&runs[0]["status"], &runs[0]["object_record"]), (&json!("canceled"), &Value::Null));
    assert_eq!(done(&api, &runs[0]).await, [("rest".to_owned(), "canceled".to_owned())]);
}
