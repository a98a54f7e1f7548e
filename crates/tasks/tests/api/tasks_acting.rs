//! `/api/tasks/{id}/complete/`, `approve/`, `reject/`, `cancel/`, `reopen/` (`docs/reference/tasks.md`).

use crate::TestServer;
use crate::set_up::{TEMPLATES, class, form_template, grant_on_record, record};
use serde_json::{Value, json};
use testkit::{ApiClient, message};

const TASKS: &str = "/api/tasks/";

fn not_available() -> Value {
    message::detail("Action is not available.")
}

/// Creates a template of forms with these members of `plugin_config`, and returns its id.
async fn template(api: &ApiClient, config: Value) -> i64 {
    let mut config = config;
    config["task_type"] = json!("tt_form");
    let body = json!({"name": "Survey", "complete_by": "asap", "plugin_config": config});
    let made = api.post(TEMPLATES, body).await;
    made.expect_created();
    made.id()
}

async fn task(api: &ApiClient, body: Value) -> i64 {
    let made = api.post(TASKS, body).await;
    made.expect_created();
    made.id()
}

/// Returns the status of a task.
async fn status(api: &ApiClient, id: i64) -> Value {
    api.get(&format!("/api/tasks/{id}/")).await.ok()["status"].clone()
}

async fn call_action(api: &ApiClient, id: i64, action: &str) -> testkit::Reply {
    let body = if action == "complete" { json!({"response": 1}) } else { json!({}) };
    api.post(&format!("/api/tasks/{id}/{action}/"), body).await
}

#[tokio::test]
async fn each_action_is_available_in_its_states_alone() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let other = server.as_type("super_admin").await;
    template(&api, json!({"approval_required": true})).await;
    let actions = ["complete", "approve", "reject", "cancel", "reopen"];
    for (state, way, available) in [
        ("open", &[][..], vec!["complete", "cancel"]),
        ("in_approval", &["complete"][..], vec!["approve", "reject", "cancel"]),
        ("completed", &["complete", "approve"], vec!["reopen"]),
        ("rejected", &["complete", "reject"], vec!["reopen"]),
        ("canceled", &["cancel"], vec!["reopen"]),
    ] {
        for action in actions {
            let id = task(&api, json!({"task_template": 1})).await;
            for step in way {
                call_action(if *step == "complete" { &other } else { &api }, id, step).await.ok();
            }
            assert_eq!(status(&api, id).await, state);
            let reply = call_action(&api, id, action).await;
            match available.contains(&action) {
                true => drop(reply.ok()),
                false => reply.expect_reply(400, not_available()),
            }
        }
        let id = task(&api, json!({"task_template": 1})).await;
        for step in way {
            call_action(if *step == "complete" { &other } else { &api }, id, step).await.ok();
        }
        let reply = api.patch(&format!("/api/tasks/{id}/"), json!({"name": "x"})).await;
        match ["open", "in_approval"].contains(&state) {
            true => drop(reply.ok()),
            false => reply.expect_reply(400, not_available()),
        }
    }
}

#[tokio::test]
async fn without_approval_a_task_is_completed_at_once_and_may_be_reopened() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    form_template(&api, "Survey").await;
    let id = task(&api, json!({"task_template": 1})).await;
    let path = format!("/api/tasks/{id}/");
    server.advance(1_000_000);
    let done = api
        .post(&format!("{path}complete/"), json!({"response": {"b": [1, 2.50], "a": "é"}, "comment": " Fine "}))
        .await
        .ok();
    let at = "2026-01-31T09:30:01.000000Z";
    assert_eq!(
        [&done["status"], &done["response"], &done["comment"], &done["completed_at"], &done["completed_by"]["id"]],
        [&json!("completed"), &json!({"b": [1, 2.50], "a": "é"}), &json!("Fine"), &json!(at), &json!(1)]
    );
    let open = api.post(&format!("{path}reopen/"), json!({})).await.ok();
    assert_eq!(
        [&open["status"], &open["completed_at"], &open["completed_by"], &open["response"]["a"]],
        [&json!("open"), &Value::Null, &Value::Null, &json!("é")]
    );
    api.post(&format!("{path}complete/"), json!({"response": "anew"})).await.ok();
    let entries = api.get(&format!("{path}log/")).await.ok();
    let actions: Vec<_> = entries["results"].as_array().unwrap().iter().map(|entry| entry["action"].clone()).collect();
    assert_eq!(actions, ["complete", "reopen", "complete", "create"]);
}

#[tokio::test]
async fn invalid_responses_are_refused() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    template(
        &api,
        json!({"allow_comment": false, "approval_required": true, "approval_conditions": [{"name": "Yes"}]}),
    )
    .await;
    let id = task(&api, json!({"task_template": 1})).await;
    let other = server.as_type("super_admin").await;
    let complete = format!("/api/tasks/{id}/complete/");
    let deep = |levels: usize| {
        let mut value = json!(1);
        (0..levels).for_each(|_| value = json!([value]));
        value
    };
    for (body, errors) in [
        (json!({}), json!({"response": ["This field is required."]})),
        (json!({"response": null}), json!({"response": ["This field may not be null."]})),
        (
            json!({"comment": "Because"}),
            json!({"comment": ["Comments are not allowed."], "response": ["This field is required."]}),
        ),
        (json!({"response": 1, "comment": 5}), json!({"comment": ["Not a valid string."]})),
        (
            json!({"response": 1, "comment": "c".repeat(4001)}),
            json!({"comment": ["Ensure this field has no more than 4000 characters."]}),
        ),
        (json!({"response": deep(65)}), json!({"response": ["Value is too large."]})),
        (json!({"response": "x".repeat(1 << 20)}), json!({"response": ["Value is too large."]})),
        (json!({"response": ["\u{0}"]}), json!({"response": ["Null characters are not allowed."]})),
        (json!({"response": {"x": {"file": "none"}}}), json!({"response": ["Invalid token none."]})),
        (json!(1), json!({"non_field_errors": ["Invalid data. Expected a dictionary, but got int."]})),
    ] {
        api.post(&complete, body).await.refuses(errors);
    }
    assert_eq!(status(&api, id).await, "open");
    other.post(&complete, json!({"response": deep(64), "comment": ""})).await.ok();
    for (body, errors) in [
        (json!({}), json!({"condition": ["This field is required."]})),
        (json!({"condition": null}), json!({"condition": ["This field may not be null."]})),
        (json!({"condition": "No"}), json!({"condition": ["No is not a valid choice."]})),
        (
            json!({"condition": 1, "comment": "x"}),
            json!({
                "condition": ["1 is not a valid choice."], "comment": ["Comments are not allowed."],
            }),
        ),
    ] {
        for action in ["approve", "reject"] {
            api.post(&format!("/api/tasks/{id}/{action}/"), body.clone()).await.refuses(errors.clone());
        }
    }
    other
        .post(&format!("/api/tasks/{id}/approve/"), json!({"condition": "Yes"}))
        .await
        .expect_reply(403, message::forbidden());
    let rejected = api.post(&format!("/api/tasks/{id}/reject/"), json!({"condition": "Yes"})).await.ok();
    assert_eq!((&rejected["status"], &rejected["approval"]["condition"]), (&json!("rejected"), &json!("Yes")));

    // If the template has no conditions, a decision has none.
    template(&api, json!({"approval_required": true})).await;
    let id = task(&api, json!({"task_template": 2})).await;
    other.post(&format!("/api/tasks/{id}/complete/"), json!({"response": 1})).await.ok();
    let approve = format!("/api/tasks/{id}/approve/");
    api.post(&approve, json!({"condition": "Yes"})).await.refuses(json!({"condition": ["Yes is not a valid choice."]}));
    let approved = api.post(&approve, json!({"condition": null})).await.ok();
    assert_eq!(approved["approval"]["condition"], Value::Null);
}

#[tokio::test]
async fn the_answer_of_an_account_that_is_not_active_is_not_approved() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    template(&api, json!({"approval_required": true})).await;
    for end in ["deactivate", "anonymize", "delete"] {
        let clerk = server.as_type("internal").await;
        let id = task(&api, json!({"task_template": 1, "assignees": [clerk.id]})).await;
        clerk.post(&format!("/api/tasks/{id}/complete/"), json!({"response": 1})).await.ok();
        let user = format!("/api/users/{}/", clerk.id);
        match end {
            "delete" => api.delete(&user).await.expect_empty(),
            _ => drop(api.post(&format!("{user}{end}/"), json!({})).await.ok()),
        }
        let approve = format!("/api/tasks/{id}/approve/");
        api.post(&approve, json!({}))
            .await
            .refuses(message::detail("The account that completed the task is not active."));
        assert_eq!(status(&api, id).await, "in_approval", "{end}");
        match end {
            "deactivate" => {
                api.post(&format!("{user}reactivate/"), json!({})).await.ok();
                api.post(&approve, json!({})).await.ok();
            }
            "anonymize" => drop(api.post(&format!("/api/tasks/{id}/reject/"), json!({})).await.ok()),
            _ => drop(api.post(&format!("/api/tasks/{id}/cancel/"), json!({})).await.ok()),
        }
    }
}

#[tokio::test]
async fn files_of_an_answer_are_kept_with_the_task() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    record(&api, 1).await;
    form_template(&api, "Survey").await;
    let clerk = server.as_type("internal").await;
    let id = task(&api, json!({"task_template": 1, "object_record": 1, "assignees": [clerk.id]})).await;
    let complete = format!("/api/tasks/{id}/complete/");
    let token = clerk.upload("a.txt", "one").await;
    let foreign = api.upload("b.txt", "two").await;
    clerk
        .post(&complete, json!({"response": [{"file": token}, {"file": foreign}]}))
        .await
        .refuses(json!({"response": [format!("Invalid token {foreign}.")]}));
    let body = json!({"response": {"answers": [{"file": token}, {"file": token, "note": "is no file"}]}});
    let done = clerk.post(&complete, body).await.ok();
    let uuid = done["response"]["answers"][0]["file"].as_str().unwrap().to_owned();
    assert_ne!(uuid, token);
    assert_eq!(done["response"]["answers"][1], json!({"file": token, "note": "is no file"}));
    let path = format!("/api/files/response/file/{uuid}/");
    for reader in [&clerk, &api] {
        let file = reader.get(&path).await;
        assert_eq!((file.status, &file.bytes[..]), (200, &b"one"[..]));
        assert_eq!(file.header("content-type"), "application/force-download");
        assert_eq!(file.header("content-disposition"), "attachment; filename*=UTF-8''a.txt");
        assert_eq!(file.header("content-security-policy"), "sandbox");
    }
    let stranger = server.as_type("internal").await;
    stranger.get(&path).await.expect_reply(404, message::not_found());
    server.anonymous().get(&path).await.expect_reply(401, message::unauthenticated());
    // Files of records and other files are not available here.
    grant_on_record(&api, stranger.id, json!({"tasks": ["view"]})).await;
    assert_eq!(stranger.get(&path).await.status, 200);
    api.get(&format!("/api/files/public-storage/{uuid}/")).await.expect_reply(404, message::not_found());
    api.get(&format!("/api/object-records/1/files/{uuid}/")).await.expect_reply(404, message::not_found());

    // A later answer may name the file again. A file that the answer does not name is removed.
    api.post(&format!("/api/tasks/{id}/reopen/"), json!({})).await.ok();
    let done = clerk.post(&complete, json!({"response": [{"file": uuid}]})).await.ok();
    assert_eq!(done["response"], json!([{"file": uuid}]));
    assert_eq!(clerk.get(&path).await.status, 200);
    api.post(&format!("/api/tasks/{id}/reopen/"), json!({})).await.ok();
    clerk.post(&complete, json!({"response": []})).await.ok();
    clerk.get(&path).await.expect_reply(404, message::not_found());
    crate::set_up::wait_for(&server, "SELECT count(*) FROM files WHERE token IS NULL", 0).await;
}

#[tokio::test]
async fn an_answer_that_names_a_thousand_wrong_things_is_told_of_a_hundred() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    record(&api, 1).await;
    form_template(&api, "Survey").await;
    crate::set_up::update_template(&api, "Change", 1, "manual").await;
    let survey = task(&api, json!({"task_template": 1})).await;
    let change = task(&api, json!({"task_template": 2, "object_record": 1})).await;
    let files: Vec<Value> = (0..40_000).map(|n| json!({"file": n.to_string()})).collect();
    let refused = api.post(&format!("/api/tasks/{survey}/complete/"), json!({"response": files})).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    let told = refused.json["response"].as_array().unwrap();
    assert_eq!((told.len(), &told[0]), (100, &json!("Invalid token 0.")));
    let fields: serde_json::Map<_, _> = (0..40_000).map(|n| (format!("f{n}"), json!(n))).collect();
    let refused = api.post(&format!("/api/tasks/{change}/complete/"), json!({"response": {"fields": fields}})).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    assert_eq!(refused.json["response"]["fields"].as_object().unwrap().len(), 100);
}
