//! Tests loops, concurrency, limits and the counts of skipped starts.

use crate::TestServer;
use crate::set_up::{SEQUENCES, ended_runs, fields, hours_later, invoices, is, on, published, record, run_with_status};
use serde_json::{Value, json};
use testkit::{ApiClient, eventually, message};

/// Waits until starts of a sequence were skipped for a reason, and returns their number.
async fn skipped(api: &ApiClient, sequence: i64, reason: &str) -> i64 {
    eventually(async || {
        let skipped = api.get(&format!("{SEQUENCES}{sequence}/skipped/")).await.ok();
        let found = skipped["results"].as_array().unwrap().iter().find(|skipped| skipped["reason"] == reason).cloned();
        found.and_then(|found| found["count"].as_i64()).ok_or(skipped)
    })
    .await
}

#[tokio::test]
async fn two_sequences_that_undo_each_other_end() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let mut ids = Vec::new();
    for (name, from, to) in [("Submit", "draft", "submitted"), ("Withdraw", "submitted", "draft")] {
        let mut trigger = on(class, &["changed"]);
        trigger["condition"] = is("record.state", "exact", json!(from));
        let step = json!([{"key": "turn", "type": "update_record", "fields": {"state": to}}]);
        ids.push(published(&api, name, json!({"trigger": trigger, "steps": step})).await);
    }
    let record = record(&api, class, json!({})).await;
    api.patch(&format!("/api/object-records/{record}/"), json!({"fields": {"state": "draft"}})).await.ok();
    let first = ended_runs(&api, ids[0], 1).await.remove(0);
    let second = ended_runs(&api, ids[1], 1).await.remove(0);
    assert_eq!((&second["parent"], &second["cause"], &second["depth"]), (&first["uuid"], &first["uuid"], &json!(1)));
    assert_eq!(second["trigger"]["source_type"], "sequence");
    assert_eq!(second["trigger"]["source_id"], ids[0]);
    assert_eq!(skipped(&api, ids[0], "loop").await, 1);
    assert_eq!(fields(&api, record).await["state"], "draft");
}

#[tokio::test]
async fn a_sequence_that_makes_records_of_its_own_class_ends_at_the_depth() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let step = json!([{"key": "more", "type": "create_record", "object_class": class, "fields": {"number": {"text": "{{ record.number }}x"}}}]);
    let id = published(&api, "More", json!({"trigger": on(class, &["created"]), "steps": step})).await;
    record(&api, class, json!({"number": "A"})).await;
    let runs = ended_runs(&api, id, 11).await;
    assert_eq!(runs[10]["depth"], 10);
    assert_eq!(skipped(&api, id, "depth").await, 1);
    let total = api.get(&format!("/api/object-classes/{class}/object-records/")).await.ok()["total_count"].clone();
    assert_eq!(total, 12);
}

#[tokio::test]
async fn sources_decide_who_starts_a_sequence() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let step = |note: &str| json!([{"key": "note", "type": "update_record", "fields": {"note": note}}]);
    let first = published(&api, "First", json!({"trigger": on(class, &["created"]), "steps": step("one")})).await;
    let mut by_people = on(class, &["changed"]);
    by_people["sources"] = json!(["user"]);
    let second = published(&api, "Second", json!({"trigger": by_people, "steps": step("two")})).await;
    let record = record(&api, class, json!({})).await;
    ended_runs(&api, first, 1).await;
    assert_eq!(api.get(&format!("{SEQUENCES}{second}/runs/")).await.ok()["total_count"], 0);
    api.patch(&format!("/api/object-records/{record}/"), json!({"fields": {"number": "A"}})).await.ok();
    ended_runs(&api, second, 1).await;
    assert_eq!(fields(&api, record).await["note"], "two");
}

fn rest(then: Value) -> Value {
    json!([{"key": "rest", "type": "wait", "for": {"span": {"time_value": 1, "time_unit": "hours"}}}, then])
}

#[tokio::test]
async fn runs_of_a_record_wait_are_skipped_or_replace_each_other() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let mut ids = Vec::new();
    for concurrency in ["queue", "skip", "replace", "parallel"] {
        let then = json!({"key": "end", "type": "stop", "as": "completed"});
        let definition = json!({"trigger": on(class, &["changed"]), "steps": rest(then), "concurrency": concurrency});
        ids.push(published(&api, concurrency, definition).await);
    }
    let record = record(&api, class, json!({})).await;
    let path = format!("/api/object-records/{record}/");
    let statuses = async |api: &ApiClient, id: i64| {
        let mut statuses = api.get(&format!("{SEQUENCES}{id}/runs/")).await.column("status");
        statuses.reverse();
        statuses
    };
    api.patch(&path, json!({"fields": {"number": "1"}})).await.ok();
    for id in &ids {
        run_with_status(&api, *id, "waiting").await;
    }
    api.patch(&path, json!({"fields": {"number": "2"}})).await.ok();
    for (id, expected) in ids.iter().zip([
        vec!["waiting", "queued"],
        vec!["waiting"],
        vec!["canceled", "waiting"],
        vec!["waiting", "waiting"],
    ]) {
        eventually(
            async || if statuses(&api, *id).await == expected { Ok(()) } else { Err(statuses(&api, *id).await) },
        )
        .await;
    }
    assert_eq!(skipped(&api, ids[1], "busy").await, 1);
    // The queued run begins when the first one ends.
    let api = hours_later(&server, 1).await;
    api.patch(&path, json!({"fields": {"number": "3"}})).await.ok();
    eventually(async || statuses(&api, ids[0]).await[..2] == ["completed", "waiting"]).await;
}

#[tokio::test]
async fn a_storm_is_slowed_and_not_lost() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let step = json!([{"key": "end", "type": "stop", "as": "completed"}]);
    let definition = json!({"trigger": on(class, &["created"]), "steps": step, "hourly_limit": 2});
    let id = published(&api, "Slow", definition).await;
    for _ in 0..5 {
        record(&api, class, json!({})).await;
    }
    let ended = async |api: &ApiClient| {
        api.get(&format!("{SEQUENCES}{id}/runs/?status=completed")).await.ok()["filtered_count"].clone()
    };
    eventually(async || ended(&api).await == 2).await;
    let api = hours_later(&server, 1).await;
    record(&api, class, json!({})).await;
    eventually(async || ended(&api).await == 4).await;
}

#[tokio::test]
async fn runs_in_progress_are_limited() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    server.set_limit("sequence_runs_in_progress", 2).await;
    let then = json!({"key": "end", "type": "stop", "as": "completed"});
    let trigger = json!({"type": "manual", "object_class": class});
    let id = published(&api, "Rest", json!({"trigger": trigger, "steps": rest(then)})).await;
    let start = async || {
        let record = record(&api, class, json!({})).await;
        api.post(&format!("{SEQUENCES}{id}/start/"), json!({"object_record": record})).await
    };
    // One sequence has at most half of them.
    start().await.expect_created();
    start().await.expect_reply(400, message::limit_exceeded("2 runs in progress"));
}

#[tokio::test]
async fn twenty_failures_in_a_row_pause_a_sequence() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let step = json!([{"key": "end", "type": "stop", "as": "failed"}]);
    let id = published(&api, "Fail", json!({"trigger": on(class, &["created"]), "steps": step})).await;
    for _ in 0..20 {
        record(&api, class, json!({})).await;
    }
    eventually(async || {
        let sequence = api.get(&format!("{SEQUENCES}{id}/")).await.ok();
        let is_paused = sequence["status"] == "paused" && sequence["paused_because"] == "failures";
        if is_paused { Ok(()) } else { Err(sequence["paused_because"].clone()) }
    })
    .await;
    // One mail of the failures of an hour, and one of the pause.
    let subjects = eventually(async || {
        let mails = server.mails().await;
        let subjects: Vec<String> = mails.into_iter().map(|mail| mail.subject).collect();
        if subjects.len() == 2 { Ok(subjects) } else { Err(subjects) }
    })
    .await;
    assert_eq!(subjects, ["A run of the sequence \"Fail\" failed", "Paused: Fail"]);
    assert_eq!(api.post(&format!("{SEQUENCES}{id}/resume/"), json!({})).await.ok()["status"], "running");
}

#[tokio::test]
async fn a_batch_starts_a_run_for_each_record() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let step = json!([{"key": "note", "type": "update_record", "fields": {"note": {"ref": "record.number"}}}]);
    let id = published(&api, "Note", json!({"trigger": on(class, &["created"]), "steps": step})).await;
    let bodies: Vec<Value> = (0..30).map(|n| json!({"fields": {"number": format!("{n}")}})).collect();
    let path = format!("/api/object-classes/{class}/object-records/batch/");
    api.post(&path, json!({"items": bodies})).await.expect_created();
    let runs = ended_runs(&api, id, 30).await;
    assert!(runs.iter().all(|run| run["status"] == "completed"));
    let notes = api.get(&format!("/api/object-classes/{class}/object-records/?note__isnull=false&limit=1")).await.ok();
    assert_eq!(notes["filtered_count"], 30);
}
