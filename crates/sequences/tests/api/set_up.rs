//! Helpers for the set-up of tests of sequences.

use crate::TestServer;
use serde_json::{Value, json};
use testkit::{ApiClient, Reply, eventually};

pub const SEQUENCES: &str = "/api/sequences/";
pub const RUNS: &str = "/api/sequence-runs/";

/// Creates the class `invoice` with the fields `number`, `amount`, `state` (draft, submitted, approved), `approver` and `note`.
/// Returns its id.
pub async fn invoices(api: &ApiClient) -> i64 {
    let class = api.post("/api/object-classes/", json!({"name": "Invoice"})).await.id();
    let options = ["draft", "submitted", "approved"].map(|value| json!({"value": value, "text": value.to_uppercase()}));
    for field in [
        json!({"label": "Number", "type": "string"}),
        json!({"label": "Amount", "type": "decimal"}),
        json!({"label": "State", "type": "enum", "options": options}),
        json!({"label": "Approver", "type": "user"}),
        json!({"label": "Note", "type": "text"}),
        json!({"label": "Paid on", "type": "date"}),
    ] {
        api.post(&format!("/api/object-classes/{class}/fields/"), field).await.expect_created();
    }
    class
}

/// Creates a record of a class and returns its id.
pub async fn record(api: &ApiClient, class: i64, fields: Value) -> i64 {
    let reply = api.post(&format!("/api/object-classes/{class}/object-records/"), json!({"fields": fields})).await;
    reply.expect_created();
    reply.id()
}

/// The values of a record.
pub async fn fields(api: &ApiClient, record: i64) -> Value {
    api.get(&format!("/api/object-records/{record}/")).await.ok()["fields"].clone()
}

/// Creates a sequence with a draft and returns its id.
pub async fn sequence(api: &ApiClient, name: &str, definition: Value) -> i64 {
    let reply = api.post(SEQUENCES, json!({"name": name, "definition": definition})).await;
    reply.expect_created();
    reply.id()
}

/// Publishes the draft of a sequence as the caller has just read it.
pub async fn publish(api: &ApiClient, sequence: i64) -> Reply {
    let path = format!("{SEQUENCES}{sequence}/");
    let tag = api.get(&path).await.header("etag").to_owned();
    api.call("POST", &format!("{path}publish/")).header("if-match", &tag).json(&json!({})).send().await
}

/// Creates a sequence, publishes it and returns its id.
pub async fn published(api: &ApiClient, name: &str, definition: Value) -> i64 {
    let id = sequence(api, name, definition).await;
    publish(api, id).await.ok();
    id
}

/// A trigger that listens to writes of a class.
pub fn on(class: i64, events: &[&str]) -> Value {
    json!({"type": "record", "object_class": class, "on": events})
}

/// A comparison.
pub fn is(reference: &str, predicate: &str, to: Value) -> Value {
    json!({"ref": reference, "is": predicate, "to": to})
}

/// Waits until a sequence has this number of runs and none of them is in progress. Returns them, the oldest first.
pub async fn ended_runs(api: &ApiClient, sequence: i64, count: usize) -> Vec<Value> {
    let mut runs = eventually(async || {
        let runs = api.get(&format!("{SEQUENCES}{sequence}/runs/?limit=100")).await.ok();
        let results = runs["results"].as_array().cloned().unwrap_or_default();
        let have_ended = results.iter().all(|run| !run["ended_at"].is_null());
        if results.len() == count && have_ended { Ok(results) } else { Err(runs) }
    })
    .await;
    runs.reverse();
    runs
}

/// Waits until the only run of a sequence has this status, and returns it.
pub async fn run_with_status(api: &ApiClient, sequence: i64, status: &str) -> Value {
    eventually(async || {
        let runs = api.get(&format!("{SEQUENCES}{sequence}/runs/")).await.ok();
        let run = runs["results"][0].clone();
        if run["status"] == status { Ok(run) } else { Err(runs) }
    })
    .await
}

/// The steps of a run.
pub async fn steps(api: &ApiClient, run: &Value) -> Vec<Value> {
    let uuid = run["uuid"].as_str().unwrap();
    api.get(&format!("{RUNS}{uuid}/steps/")).await.ok()["results"].as_array().unwrap().clone()
}

/// The paths and states of the steps of a run.
pub async fn done(api: &ApiClient, run: &Value) -> Vec<(String, String)> {
    let text = |step: &Value, name: &str| step[name].as_str().unwrap().to_owned();
    steps(api, run).await.iter().map(|step| (text(step, "path"), text(step, "status"))).collect()
}

/// Moves the clock by some hours and wakes the engine, which sleeps by the real time. Returns a session of the first super admin,
/// since the former ones have expired.
pub async fn hours_later(server: &TestServer, hours: i64) -> ApiClient {
    server.advance(hours * 3_600_000_000);
    let api = server.admin().await;
    let steps = json!([{"key": "end", "type": "stop", "as": "completed"}]);
    let id = published(&api, "Later", json!({"trigger": {"type": "manual"}, "steps": steps})).await;
    api.post(&format!("{SEQUENCES}{id}/start/"), json!({})).await.expect_created();
    api
}
