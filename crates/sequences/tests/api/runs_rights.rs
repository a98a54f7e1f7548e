//! Tests the rights of runs: those of the account at each step, and who sees what of a run.

use crate::TestServer;
use crate::set_up::{
    RUNS, SEQUENCES, ended_runs, fields, hours_later, invoices, on, publish, record, run_with_status, sequence, steps,
};
use serde_json::{Value, json};
use testkit::{ApiClient, eventually, message};

/// Publishes a sequence that waits an hour and then notes, as an account that may edit every record by a role. Returns the account
/// and the sequence.
async fn waiting(server: &TestServer, api: &ApiClient, class: i64) -> (ApiClient, i64) {
    let rights = json!({"sequences": ["edit"], "object_classes": ["view"], "object_records": ["view", "edit"]});
    let account = server.with_role(rights).await;
    let steps_of = json!([
        {"key": "rest", "type": "wait", "for": {"span": {"time_value": 1, "time_unit": "hours"}}},
        {"key": "note", "type": "update_record", "fields": {"note": "done"}},
    ]);
    let id = sequence(api, "Note", json!({"trigger": on(class, &["created"]), "steps": steps_of})).await;
    publish(&account, id).await.ok();
    (account, id)
}

#[tokio::test]
async fn a_right_that_has_ended_does_nothing_more() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let (account, id) = waiting(&server, &api, class).await;
    let first = record(&api, class, json!({})).await;
    run_with_status(&api, id, "waiting").await;
    // The role loses the right to edit while the run waits.
    let roles = api.get(&format!("/api/users/{}/", account.id)).await.ok();
    let role = roles["roles"][0].as_i64().or(roles["roles"][0]["id"].as_i64()).unwrap();
    let fewer = json!({"sequences": ["list", "view", "edit"], "object_classes": ["list", "view"], "object_records": ["list", "view"]});
    api.patch(&format!("/api/roles/{role}/"), json!({"permissions": fewer})).await.ok();
    let api = hours_later(&server, 1).await;
    record(&api, class, json!({})).await;
    let failed = eventually(async || {
        let runs = api.get(&format!("{RUNS}?object_record={first}")).await.ok();
        if runs["results"][0]["status"] == "failed" { Ok(runs["results"][0].clone()) } else { Err(runs) }
    })
    .await;
    assert_eq!(failed["error"], json!({"step": "note", "status": 403, "body": message::forbidden()}));
    assert_eq!(fields(&api, first).await["note"], Value::Null);
}

#[tokio::test]
async fn runs_of_an_account_that_is_deactivated_are_held() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let (account, id) = waiting(&server, &api, class).await;
    let first = record(&api, class, json!({})).await;
    run_with_status(&api, id, "waiting").await;
    api.post(&format!("/api/users/{}/deactivate/", account.id), json!({})).await.ok();
    let held = run_with_status(&api, id, "held").await;
    let api = hours_later(&server, 1).await;
    assert_eq!(fields(&api, first).await["note"], Value::Null);
    api.post(&format!("{SEQUENCES}{id}/take-over/"), json!({})).await.ok();
    let runs = ended_runs(&api, id, 1).await;
    assert_eq!((&runs[0]["uuid"], &runs[0]["status"]), (&held["uuid"], &json!("completed")));
    assert_eq!(fields(&api, first).await["note"], "done");
}

#[tokio::test]
async fn an_account_that_lacks_what_publishing_asks_pauses_its_sequence() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let (account, id) = waiting(&server, &api, class).await;
    let user = api.get(&format!("/api/users/{}/", account.id)).await.ok();
    let role = user["roles"][0].as_i64().or(user["roles"][0]["id"].as_i64()).unwrap();
    api.patch(&format!("/api/roles/{role}/"), json!({"permissions": {"sequences": []}})).await.ok();
    record(&api, class, json!({})).await;
    run_with_status(&api, id, "held").await;
    let paused = api.get(&format!("{SEQUENCES}{id}/")).await.ok();
    assert_eq!((&paused["status"], &paused["paused_because"]), (&json!("paused"), &json!("rights")));
    let log = api.get("/api/administration/log/?resource=sequences&action=pause").await.ok();
    assert_eq!(log["results"][0]["by"], Value::Null);
}

#[tokio::test]
async fn values_are_seen_by_the_account_that_did_the_step() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let rights = json!({"sequences": ["edit"], "object_classes": ["view"], "object_records": ["view", "edit"]});
    let account = server.with_role(rights).await;
    let owner = server.as_type("internal").await;
    api.post(&format!("/api/object-classes/{class}/owners/"), json!([owner.id])).await.expect_created();
    let steps_of = json!([{"key": "note", "type": "update_record", "fields": {"note": {"text": "secret"}}}]);
    let id = sequence(&api, "Note", json!({"trigger": on(class, &["created"]), "steps": steps_of})).await;
    publish(&account, id).await.ok();
    record(&api, class, json!({})).await;
    let run = ended_runs(&api, id, 1).await.remove(0);
    for (who, sees) in [(&api, true), (&account, true), (&owner, false)] {
        let step = steps(who, &run).await.remove(0);
        assert_eq!(!step["input"].is_null() && !step["output"].is_null(), sees, "{}", who.username);
        let shown = who.get(&format!("{RUNS}{}/", run["uuid"].as_str().unwrap())).await.ok();
        assert_eq!(shown["_meta"]["permissions"]["view_values"], sees, "{}", who.username);
    }
    // Who may view sequences and no record sees neither values nor ids.
    let viewer = server.with_role(json!({"sequences": ["view"]})).await;
    let shown = viewer.get(&format!("{RUNS}{}/", run["uuid"].as_str().unwrap())).await.ok();
    assert_eq!((&shown["object_record"], &shown["inputs"]), (&Value::Null, &Value::Null));
    let step = steps(&viewer, &run).await.remove(0);
    assert_eq!((&step["object_record"], &step["input"]), (&Value::Null, &Value::Null));
    server.as_type("internal").await.get(RUNS).await.expect_reply(200, testkit::shown::page(json!([])));
}
