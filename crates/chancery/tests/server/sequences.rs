//! Tests how operators stop sequences (`docs/operations.md`).

use crate::BINARY;
use serde_json::json;
use testkit::{ADMIN, ApiClient, Installation, PASSWORD, eventually};

/// Publishes a sequence that people start. Returns its path.
async fn published(admin: &ApiClient) -> String {
    let steps = json!([{"key": "end", "type": "stop", "as": "completed"}]);
    let sequence = json!({"name": "End", "definition": {"trigger": {"type": "manual"}, "steps": steps}});
    let made = admin.post("/api/sequences/", sequence).await;
    let path = format!("/api/sequences/{}/", made.id());
    let publish = admin.call("POST", &format!("{path}publish/")).header("if-match", made.header("etag"));
    publish.json(&json!({})).send().await.ok();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_without_sequences_leaves_runs_to_others() {
    let without = Installation::with_build(BINARY).set("CHANCERY_SEQUENCES", "false");
    let process = without.serve_api();
    let admin = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let path = published(&admin).await;
    let run = admin.post(&format!("{path}start/"), json!({})).await.expect_created()["uuid"].clone();
    let run = format!("/api/sequence-runs/{}/", run.as_str().unwrap());
    // Another request takes longer than the begin of a run.
    admin.post("/api/roles/", json!({"name": "Clerks"})).await.expect_created();
    assert_eq!(admin.get(&run).await.ok()["status"], "queued");
    process.stop();
    let with = without.set("CHANCERY_SEQUENCES", "true");
    let process = with.serve_api();
    let admin = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    eventually(async || admin.get(&run).await.json["status"] == "completed").await;
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_pause_the_sequences_of_a_build() {
    let installation = Installation::with_build(BINARY);
    let process = installation.serve_api();
    let admin = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let path = published(&admin).await;
    let pause = ["sequences", "pause", "--build", "localhost"];
    let refused = installation.run(&[&pause[..], &["--id", "9"]].concat());
    assert!(refused.stderr.contains("9: there is no such published sequence"), "{}", refused.stderr);
    installation.succeeds(&pause);
    let paused = admin.get(&path).await.ok();
    assert_eq!((&paused["status"], &paused["paused_because"]), (&json!("paused"), &json!("operator")));
    let log = admin.get("/api/administration/log/?resource=sequences&action=pause").await.ok();
    assert_eq!((&log["results"][0]["by"], &log["filtered_count"]), (&json!(null), &json!(1)));
    assert_eq!(admin.post(&format!("{path}resume/"), json!({})).await.ok()["status"], "running");
    process.stop();
}
