//! Tests concurrent uses of links, also while they end.

use crate::TestServer;
use crate::multipart::{CONTENT_TYPE, body, file, text};
use crate::one_time::{call_action, create_one_time_account, exchange, links, session, task, task_path};
use crate::set_up::{TEMPLATES, form_template, number, wait_for};
use serde_json::json;
use testkit::{message, send_concurrently, statuses};

#[tokio::test(flavor = "multi_thread")]
async fn of_many_forms_at_once_one_completes_the_task() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let questions = json!([{"name": "n", "type": "integer"}, {"name": "f", "type": "file"}]);
    let config = json!({"task_type": "tt_form", "configuration": {"questions": questions}});
    let template = json!({"name": "Survey", "complete_by": "asap", "plugin_config": config});
    let template = api.post(TEMPLATES, template).await.id();
    let (user, address) = create_one_time_account(&server, &api).await;
    let task = task(&api, template, user).await;
    let token = links(&server, &address).await.pop().unwrap();
    let form = |n: usize| {
        let parts = [text("token", &token), text("q0", &n.to_string()), file("q1", "a.csv", n.to_string())];
        server.anonymous().call("POST", "/task/").body(CONTENT_TYPE, body(&parts))
    };
    let replies = send_concurrently((0..8).map(form)).await;
    assert_eq!(statuses(&replies), [200, 400, 400, 400, 400, 400, 400, 400]);
    let won = replies.iter().position(|reply| reply.status == 200).unwrap();
    let done = api.get(&task_path(task)).await.ok();
    assert_eq!(done["response"]["n"], won);
    let uuid = done["response"]["f"]["file"].as_str().unwrap();
    assert_eq!(api.get(&format!("/api/files/response/file/{uuid}/")).await.text, won.to_string());
    // The files of the refused calls are removed.
    wait_for(&server, "SELECT count(*) FROM files", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_sessions_one_completes_the_task_and_all_are_over() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let template = form_template(&api, "Survey").await;
    let (user, address) = create_one_time_account(&server, &api).await;
    for _ in 0..5 {
        let task = task(&api, template, user).await;
        let token = links(&server, &address).await.pop().unwrap();
        let mut clients = Vec::new();
        for _ in 0..6 {
            clients.push(session(&server.anonymous(), &token).await);
        }
        let path = format!("/api/tasks/{task}/complete/");
        let calls = clients.iter().map(|client| client.call("POST", &path).json(&json!({"response": {}})));
        let replies = send_concurrently(calls).await;
        let (won, lost): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == 200);
        assert_eq!(won.len(), 1, "{replies:?}");
        // A call that began before the end and waited for it finds the task completed.
        let refusals = [(401, message::bad_token()), (400, message::detail("Action is not available."))];
        assert!(lost.iter().all(|reply| refusals.iter().any(|refusal| *reply == refusal)), "{lost:?}");
        for client in &clients {
            assert_eq!(client.get(&task_path(task)).await, (401, message::bad_token()));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_session_begins_behind_the_end_of_its_task() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let template = form_template(&api, "Survey").await;
    let (user, address) = create_one_time_account(&server, &api).await;
    for end in ["cancel", "send-link", "cancel", "send-link", "deactivate", "cancel"] {
        let task = task(&api, template, user).await;
        let token = links(&server, &address).await.pop().unwrap();
        let exchanges: Vec<_> = (0..8)
            .map(|_| {
                let (client, token) = (server.anonymous(), token.clone());
                tokio::spawn(async move { exchange(&client, &token).await })
            })
            .collect();
        match end {
            "deactivate" => drop(api.post(&format!("/api/users/{user}/deactivate/"), json!({})).await.ok()),
            end => drop(call_action(&api, task, end, json!({})).await),
        }
        for exchanged in exchanges {
            let reply = exchanged.await.unwrap();
            assert!([200, 400].contains(&reply.status), "{reply:?}");
            if reply.status == 200 {
                let client = server.anonymous().with_pair("", &reply.json);
                assert_eq!(client.get(&task_path(task)).await, (401, message::bad_token()), "{end}");
            }
        }
        let live = "SELECT count(*) FROM sessions WHERE task IS NOT NULL AND ended_at IS NULL";
        assert_eq!(number(&server, live).await, 0, "{end}");
        if end == "deactivate" {
            api.post(&format!("/api/users/{user}/reactivate/"), json!({})).await.ok();
        }
    }
}
