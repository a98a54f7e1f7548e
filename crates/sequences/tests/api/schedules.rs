//! Tests schedules, and steps that are repeated for records.

use crate::TestServer;
use crate::set_up::{
    SEQUENCES, done, ended_runs, fields, hours_later, invoices, is, on, publish, published, record, sequence,
};
use serde_json::{Value, json};
use testkit::{eventually, message};

/// A schedule at a time of each day in UTC. Servers of tests start at 09:30 on 2026-01-31.
fn daily(at: &str) -> Value {
    json!({"type": "schedule", "time_zone": "UTC", "every": "days", "at": at})
}

fn create(class: i64, number: Value) -> Value {
    json!([{"key": "make", "type": "create_record", "object_class": class, "fields": {"number": number}}])
}

#[tokio::test]
async fn a_moment_starts_one_run() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let definition = json!({"trigger": daily("10:00"), "steps": create(class, json!({"text": "{{ today }}"}))});
    let id = published(&api, "Daily", definition).await;
    let path = format!("{SEQUENCES}{id}/");
    let moments = api.get(&format!("{path}schedule/?limit=2")).await;
    let expected = json!({"results": [
        {"at": "2026-01-31T10:00:00.000000Z", "local": "2026-01-31T10:00:00+00:00"},
        {"at": "2026-02-01T10:00:00.000000Z", "local": "2026-02-01T10:00:00+00:00"},
    ]});
    moments.expect_reply(200, expected);
    let api = hours_later(&server, 1).await;
    let run = ended_runs(&api, id, 1).await.remove(0);
    assert_eq!((&run["status"], &run["object_record"]), (&json!("completed"), &Value::Null));
    assert_eq!(
        (&run["trigger"]["type"], &run["trigger"]["source_type"], &run["trigger"]["source_id"]),
        (&json!("schedule"), &json!("system"), &Value::Null)
    );
    let made = api.get(&format!("/api/object-classes/{class}/object-records/")).await.ok();
    assert_eq!(made["results"][0]["fields"]["number"], "2026-01-31");
    // A new version does not repeat the moment.
    api.patch(&path, json!({"definition": {"trigger": daily("10:00"), "steps": create(class, json!("B"))}})).await.ok();
    publish(&api, id).await.ok();
    assert_eq!(api.get(&format!("{path}runs/")).await.ok()["total_count"], 1);
}

#[tokio::test]
async fn the_last_missed_moment_runs_and_others_are_counted() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let id = published(&api, "Daily", json!({"trigger": daily("10:00"), "steps": create(class, json!("A"))})).await;
    let api = hours_later(&server, 73).await;
    ended_runs(&api, id, 1).await;
    let path = format!("{SEQUENCES}{id}/");
    let skipped = eventually(async || {
        let skipped = api.get(&format!("{path}skipped/")).await.ok();
        if skipped["total_count"] == 1 { Ok(skipped) } else { Err(skipped) }
    })
    .await;
    assert_eq!((&skipped["results"][0]["reason"], &skipped["results"][0]["count"]), (&json!("missed"), &json!(3)));
}

#[tokio::test]
async fn a_schedule_starts_a_run_for_each_selected_record() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let due = record(&api, class, json!({"paid_on": "2026-03-02"})).await;
    let later = record(&api, class, json!({"paid_on": "2026-03-03"})).await;
    let mut trigger = daily("10:00");
    let in_30_days = json!({"add": [{"ref": "today"}, {"time_value": 30, "time_unit": "days"}]});
    trigger["for_each"] = json!({"object_class": class, "condition": is("item.paid_on", "exact", in_30_days)});
    let steps = json!([{"key": "note", "type": "update_record", "fields": {"note": "soon"}}]);
    let id = published(&api, "Remind", json!({"trigger": trigger, "steps": steps})).await;
    let api = hours_later(&server, 1).await;
    let run = ended_runs(&api, id, 1).await.remove(0);
    assert_eq!(run["object_record"], due);
    assert_eq!((&fields(&api, due).await["note"], &fields(&api, later).await["note"]), (&json!("soon"), &Value::Null));
}

#[tokio::test]
async fn moments_while_a_sequence_is_paused_never_start() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let id = published(&api, "Daily", json!({"trigger": daily("10:00"), "steps": create(class, json!("A"))})).await;
    let path = format!("{SEQUENCES}{id}/");
    api.post(&format!("{path}pause/"), json!({})).await.ok();
    let api = hours_later(&server, 1).await;
    eventually(async || {
        let skipped = api.get(&format!("{path}skipped/")).await.ok();
        if skipped["results"][0]["reason"] == "paused" { Ok(()) } else { Err(skipped) }
    })
    .await;
    api.post(&format!("{path}resume/"), json!({})).await.ok();
    assert_eq!(api.get(&format!("{path}runs/")).await.ok()["total_count"], 0);
}

#[tokio::test]
async fn a_malformed_schedule_is_reported() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for (trigger, expected) in [
        (
            json!({"type": "schedule"}),
            json!({"every": ["This field is required."], "time_zone": ["This field is required."], "at": ["This field is required."]}),
        ),
        (
            json!({"type": "schedule", "time_zone": "Europe/Atlantis", "every": "minutes", "interval": 7, "at": "10:00"}),
            json!({
                "time_zone": ["Europe/Atlantis is not a valid choice."], "interval": ["7 is not a valid choice."],
                "at": ["This field does not exist."],
            }),
        ),
        (
            json!({"type": "schedule", "time_zone": "UTC", "every": "weeks", "at": "24:00", "weekdays": [8], "starts_on": "2026-02-02", "ends_on": "2026-02-01"}),
            json!({
                "at": ["Enter a valid value."], "weekdays": ["8 is not a valid choice."],
                "ends_on": ["Ensure this value is greater than or equal to 2026-02-02."],
            }),
        ),
    ] {
        let name = trigger.to_string().chars().take(90).collect::<String>();
        let steps = json!([{"key": "end", "type": "stop", "as": "completed"}]);
        let id = sequence(&api, &name, json!({"trigger": trigger, "steps": steps})).await;
        publish(&api, id).await.expect_reply(400, json!({"definition": {"trigger": expected}}));
    }
    let id = sequence(&api, "Manual", json!({"trigger": {"type": "manual"}, "steps": []})).await;
    api.get(&format!("{SEQUENCES}{id}/schedule/")).await.expect_reply(404, message::not_found());
}

#[tokio::test]
async fn steps_are_repeated_for_the_children_of_a_record() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let lines = api.post("/api/object-classes/", json!({"name": "Line"})).await.id();
    for field in [
        json!({"label": "Invoice", "type": "relation", "related_object_class": class}),
        json!({"label": "Text", "type": "string"}),
        json!({"label": "Price", "type": "integer"}),
    ] {
        api.post(&format!("/api/object-classes/{lines}/fields/"), field).await.expect_created();
    }
    let invoice = record(&api, class, json!({"number": "A1", "state": "draft"})).await;
    let mut made = Vec::new();
    for price in [5, 20, 30, 40] {
        made.push(record(&api, lines, json!({"invoice": invoice, "price": price})).await);
    }
    let steps = json!([
        {"key": "each", "type": "for_each", "in": {"children": lines}, "condition": is("item.price", "gt", json!(10)), "at_most": 2, "steps": [
            {"key": "mark", "type": "update_record", "record": {"ref": "item"}, "if": is("item.price", "lt", json!(30)),
             "fields": {"text": {"text": "{{ record.number }}: {{ item.price }}"}}},
            {"key": "rest", "type": "update_record", "record": {"ref": "item"}, "if": is("steps.mark.record", "isnull", json!(true)),
             "fields": {"text": "large"}},
        ]},
        {"key": "note", "type": "update_record", "fields": {"note": {"text": "{{ steps.each.count }} and {{ steps.each.left_out }}"}}},
    ]);
    let id = published(&api, "Each", json!({"trigger": on(class, &["changed"]), "steps": steps})).await;
    api.patch(&format!("/api/object-records/{invoice}/"), json!({"fields": {"state": "submitted"}})).await.ok();
    let run = ended_runs(&api, id, 1).await.remove(0);
    let steps = done(&api, &run).await;
    let expected = [
        ("each", "done"),
        ("each[0]/mark", "done"),
        ("each[0]/rest", "left_out"),
        ("each[1]/mark", "left_out"),
        ("each[1]/rest", "done"),
        ("note", "done"),
    ];
    assert_eq!(steps, expected.map(|(path, status)| (path.to_owned(), status.to_owned())));
    assert_eq!(fields(&api, made[1]).await["text"], "A1: 20");
    assert_eq!(fields(&api, made[2]).await["text"], "large");
    assert_eq!(fields(&api, made[3]).await["text"], Value::Null);
    assert_eq!(fields(&api, invoice).await["note"], "2 and 1");
}

#[tokio::test]
async fn what_is_repeated_is_unknown_outside() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let steps = json!([
        {"key": "find", "type": "find_records", "object_class": class, "at_most": 10},
        {"key": "each", "type": "for_each", "in": {"records": {"ref": "steps.find.records"}}, "steps": [
            {"key": "make", "type": "create_record", "object_class": class, "fields": {"number": {"ref": "item.number"}}},
        ]},
        {"key": "note", "type": "update_record", "record": {"ref": "steps.make.record"}, "fields": {"note": {"ref": "item.note"}}},
    ]);
    let id = sequence(&api, "Each", json!({"trigger": {"type": "manual"}, "steps": steps})).await;
    let expected = json!({"definition": {"steps": {"note": {
        "record": ["Step make does not come before this one."], "fields": {"note": ["This reference does not exist."]},
    }}}});
    let refused = publish(&api, id).await;
    assert_eq!(
        (refused.status, &refused.json["definition"]["steps"]["note"]["record"]),
        (400, &expected["definition"]["steps"]["note"]["record"])
    );
}
