//! Tests the links of one-time accounts to their tasks, and the sessions of these links (`docs/reference/task-links.md`).

use crate::TestServer;
use crate::set_up::{TEMPLATES, class, form_template, record, update_template};
use serde_json::{Value, json};
use testkit::{ADMIN, ApiClient, MailFile, PASSWORD, Reply, SECOND, eventually, message};

pub const TASKS: &str = "/api/tasks/";

/// Creates a one-time account and returns its id and username.
pub async fn create_one_time_account(server: &TestServer, api: &ApiClient) -> (i64, String) {
    let username = server.account("one_time_completion").await;
    (api.get(&format!("/api/users/?username={username}")).await.ids()[0], username)
}

/// Creates a task without a record, assigned to this user, and returns its id.
pub async fn task(api: &ApiClient, template: i64, assignee: i64) -> i64 {
    api.post(TASKS, json!({"task_template": template, "assignees": [assignee]})).await.id()
}

pub fn task_path(task: i64) -> String {
    format!("{TASKS}{task}/")
}

pub async fn call_action(api: &ApiClient, task: i64, action: &str, body: Value) -> Reply {
    api.post(&format!("{TASKS}{task}/{action}/"), body).await
}

/// Exchanges the token of a link for a session.
pub async fn exchange(client: &ApiClient, token: &str) -> Reply {
    client.post("/api/auth/task/", json!({"token": token})).await
}

/// Returns a client with the session of a link.
pub async fn session(client: &ApiClient, token: &str) -> ApiClient {
    let pair = exchange(client, token).await.ok();
    client.anonymous().with_pair("", &pair)
}

/// Returns the tokens of the links that were mailed to an address, in order.
pub async fn links(server: &TestServer, to: &str) -> Vec<String> {
    server
        .mails()
        .await
        .iter()
        .filter(|mail| mail.to == to && mail.text.contains("/task/"))
        .map(MailFile::token)
        .collect()
}

fn invalid() -> (u16, Value) {
    (400, json!({"token": ["Invalid token."]}))
}

async fn refresh(client: &ApiClient) -> Reply {
    client.post("/api/auth/refresh/", json!({"refresh_token": client.refresh_token})).await
}

#[tokio::test]
async fn a_link_from_its_mail_to_the_end_of_its_task() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let template = form_template(&api, "Survey").await;
    let (user, address) = create_one_time_account(&server, &api).await;
    let task = task(&api, template, user).await;
    let mail = server.mail_to(&address).await;
    assert_eq!(mail.subject, "A task for you: Survey");
    let token = mail.token();
    assert_eq!(mail.link(), format!("https://a.example/task/?token={token}"));

    let anonymous = server.anonymous();
    let reply = exchange(&anonymous, &token).await;
    let mut names: Vec<_> = reply.ok().as_object().unwrap().keys().cloned().collect();
    names.sort();
    assert_eq!(names, ["access_token", "expires_in", "refresh_token", "task"]);
    assert_eq!((&reply["expires_in"], &reply["task"]), (&json!(900), &json!(task)));
    assert!(reply.header("content-encoding").is_empty());
    let first = anonymous.with_pair("", &reply.json);
    assert_eq!(first.id, user);
    let seen = first.get(&task_path(task)).await.ok();
    let may = json!({"view": true, "edit": false, "delete": false, "complete": true, "assign": false});
    assert_eq!((&seen["status"], &seen["_meta"]["permissions"]), (&json!("open"), &may));

    // A link can be used again, each time for a new session, and a session can be refreshed.
    let second = session(&anonymous, &token).await;
    let refreshed = refresh(&second).await.ok();
    assert_eq!(refreshed.get("task"), None);
    let second = anonymous.with_pair("", &refreshed);
    assert_eq!(call_action(&second, task, "cancel", json!({})).await, (403, message::forbidden()));
    let file = second.upload("answer.csv", "a;b").await;
    let body = json!({"response": {"q": {"file": file}}, "comment": "Done."});
    let done = call_action(&second, task, "complete", body).await.ok();
    assert_eq!(
        (&done["status"], &done["completed_by"]["id"], &done["comment"]),
        (&json!("completed"), &json!(user), &json!("Done."))
    );
    assert_eq!(api.get(&task_path(task)).await.ok()["response"]["q"]["file"].as_str().unwrap().len(), 36);

    // The end of the task ends all sessions and links of the account to it.
    for client in [&first, &second] {
        assert_eq!(client.get(&task_path(task)).await, (401, message::bad_token()));
        assert_eq!(refresh(client).await, (401, message::bad_token()));
    }
    assert_eq!(exchange(&anonymous, &token).await, invalid());

    // Reopening the task mails another link.
    call_action(&api, task, "reopen", json!({})).await.ok();
    let all = links(&server, &address).await;
    assert_eq!(all.len(), 2);
    assert_eq!(exchange(&anonymous, &token).await, invalid());
    let second_session = session(&anonymous, &all[1]).await;
    let uuid = second_session.get(&task_path(task)).await.ok()["response"]["q"]["file"].as_str().unwrap().to_owned();
    let file = second_session.get(&format!("/api/files/response/file/{uuid}/")).await;
    assert_eq!((file.status, file.text.as_str()), (200, "a;b"));
    let kept = json!({"response": {"q": {"file": uuid}}});
    call_action(&second_session, task, "complete", kept).await.ok();
    assert_eq!(second_session.get(&task_path(task)).await, (401, message::bad_token()));
}

#[tokio::test]
async fn nobody_but_one_time_accounts_that_are_assigned_themselves_get_links() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let template = form_template(&api, "Survey").await;
    let (internal, external) = (server.as_type("internal").await, server.as_type("external").await);
    let group = api.post("/api/user-groups/", json!({"name": "Clerks"})).await.id();
    api.post(&format!("/api/user-groups/{group}/members/users/"), json!([internal.id])).await.expect_created();
    let (user, address) = create_one_time_account(&server, &api).await;
    let body = json!({
        "task_template": template, "assignees": [internal.id, external.id, user], "assignee_groups": [group],
    });
    let task = api.post(TASKS, body).await.id();
    let mails: Vec<_> = server.mails().await.into_iter().filter(|mail| mail.text.contains("/task/")).collect();
    assert_eq!(mails.iter().map(|mail| mail.to.as_str()).collect::<Vec<_>>(), [address.as_str()]);
    assert_eq!(session(&server.anonymous(), &mails[0].token()).await.get(&task_path(task)).await.status, 200);
    // An account that is already an assignee gets no second link.
    api.patch(&task_path(task), json!({"assignees": [user]})).await.ok();
    assert_eq!(links(&server, &address).await.len(), 1);
}

#[tokio::test]
async fn each_end_of_a_task_ends_its_links_and_their_sessions() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = class(&api, "Contracts").await;
    let approved = json!({
        "name": "Approved", "complete_by": "asap",
        "plugin_config": {"task_type": "tt_form", "approval_required": true},
    });
    let approved = api.post(TEMPLATES, approved).await.id();
    let record = record(&api, class).await;
    let (user, address) = create_one_time_account(&server, &api).await;
    let anonymous = server.anonymous();
    for end in ["cancel", "reject", "approve", "expire", "delete", "unassign", "send-link", "delete the record"] {
        let body = json!({"task_template": approved, "object_record": record, "assignees": [user]});
        let task = api.post(TASKS, body).await.id();
        let token = links(&server, &address).await.pop().unwrap();
        let client = session(&anonymous, &token).await;
        if ["reject", "approve"].contains(&end) {
            call_action(&client, task, "complete", json!({"response": {}})).await.ok();
            // A task in approval has not ended, but can be completed only once.
            assert_eq!(client.get(&task_path(task)).await.ok()["status"], "in_approval");
            session(&anonymous, &token).await;
            call_action(&client, task, "complete", json!({"response": {}}))
                .await
                .expect_reply(400, message::detail("Action is not available."));
        }
        match end {
            "cancel" | "reject" | "approve" => drop(call_action(&api, task, end, json!({})).await.ok()),
            "expire" => {
                api.patch(&task_path(task), json!({"expires_at": "2026-01-31T09:30:05Z"})).await.ok();
                server.advance(10 * SECOND);
                eventually(async || api.get(&task_path(task)).await.ok()["status"] == "expired").await;
            }
            "delete" => api.delete(&task_path(task)).await.expect_empty(),
            "unassign" => drop(api.patch(&task_path(task), json!({"assignees": []})).await.ok()),
            "send-link" => call_action(&api, task, end, json!({})).await.expect_empty(),
            _ => api.delete(&format!("/api/object-records/{record}/")).await.expect_empty(),
        }
        assert_eq!(client.get(&task_path(task)).await, (401, message::bad_token()), "{end}");
        assert_eq!(refresh(&client).await, (401, message::bad_token()), "{end}");
        assert_eq!(exchange(&anonymous, &token).await, invalid(), "{end}");
        if end == "send-link" {
            let new = links(&server, &address).await.pop().unwrap();
            assert_ne!(new, token);
            session(&anonymous, &new).await.get(&task_path(task)).await.ok();
        }
    }
}

#[tokio::test]
async fn new_links_are_sent_once_a_minute() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let template = form_template(&api, "Survey").await;
    let (user, address) = create_one_time_account(&server, &api).await;
    let [first, second] = [task(&api, template, user).await, task(&api, template, user).await];
    assert_eq!(links(&server, &address).await.len(), 2);
    // The links by assignment do not count.
    call_action(&api, first, "send-link", json!({})).await.expect_empty();
    call_action(&api, first, "send-link", json!({}))
        .await
        .refuses(message::detail("A link was sent less than a minute ago."));
    call_action(&api, second, "send-link", json!({})).await.expect_empty();
    assert_eq!(links(&server, &address).await.len(), 4);
    server.advance(60 * SECOND - 1);
    call_action(&api, first, "send-link", json!({}))
        .await
        .refuses(message::detail("A link was sent less than a minute ago."));
    server.advance(1);
    call_action(&api, first, "send-link", json!({})).await.expect_empty();
    assert_eq!(links(&server, &address).await.len(), 5);
}

#[tokio::test]
async fn an_address_gets_twenty_links_an_hour_and_the_others_later() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let template = form_template(&api, "Survey").await;
    let (user, address) = create_one_time_account(&server, &api).await;
    let (other, other_address) = create_one_time_account(&server, &api).await;
    let mut tasks = Vec::new();
    for _ in 0..23 {
        tasks.push(task(&api, template, user).await);
    }
    task(&api, template, other).await;
    let expect_links = async |address: &str, count: usize| {
        eventually(async || {
            kit::jobs::wake(&server.app, &server.build);
            let mailed_links = all_links(&server, address);
            assert!(mailed_links.len() <= count, "{} links", mailed_links.len());
            if mailed_links.len() == count { Ok(mailed_links) } else { Err(mailed_links) }
        })
        .await
    };
    expect_links(&other_address, 1).await;
    expect_links(&address, 20).await;
    // The queued link of an ended task is not sent. Another link is sent in its place.
    call_action(&api, tasks[20], "cancel", json!({})).await.ok();
    server.advance(3_599 * SECOND);
    let api = server.admin().await;
    expect_links(&address, 20).await;
    server.advance(SECOND);
    let links = expect_links(&address, 22).await;
    let anonymous = server.anonymous();
    session(&anonymous, &links[21]).await.get(&task_path(tasks[22])).await.ok();
    for _ in 0..19 {
        task(&api, template, user).await;
    }
    expect_links(&address, 40).await;
    server.advance(3_600 * SECOND);
    expect_links(&address, 41).await;
}

/// Returns the tokens of the links that have been mailed to an address so far, in order.
fn all_links(server: &TestServer, to: &str) -> Vec<String> {
    let mails = MailFile::read_all(server.data(), testkit::DOMAIN);
    mails.iter().filter(|mail| mail.to == to && mail.text.contains("/task/")).map(MailFile::token).collect()
}

#[tokio::test]
async fn an_account_that_may_not_come_any_more_has_no_link() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let template = form_template(&api, "Survey").await;
    let anonymous = server.anonymous();
    for end in ["deactivate", "rename", "restrict", "anonymize", "delete"] {
        let (user, address) = create_one_time_account(&server, &api).await;
        let task = task(&api, template, user).await;
        let token = server.mail_to(&address).await.token();
        let client = session(&anonymous, &token).await;
        let path = format!("/api/users/{user}/");
        match end {
            "delete" => api.delete(&path).await.expect_empty(),
            "rename" => drop(api.patch(&path, json!({"username": "new@example.com"})).await.ok()),
            "restrict" => {
                let ranges = json!({"is_ip_restriction_enabled": true, "allowed_ip_ranges": ["192.0.2.0/24"]});
                api.patch(&path, ranges).await.ok();
            }
            _ => drop(api.post(&format!("{path}{end}/"), json!({})).await.ok()),
        }
        let refused = client.get(&task_path(task)).await;
        match end {
            "restrict" => assert_eq!(refused, (403, message::detail("Access from this address is not allowed."))),
            _ => assert_eq!(refused, (401, message::bad_token()), "{end}"),
        }
        assert_eq!(refresh(&client).await, (401, message::bad_token()), "{end}");
        assert_eq!(exchange(&anonymous, &token).await, invalid(), "{end}");
        match end {
            // The account can use the same link again after its reactivation. An ended session stays ended.
            "deactivate" => {
                api.post(&format!("{path}reactivate/"), json!({})).await.ok();
                session(&anonymous, &token).await.get(&task_path(task)).await.ok();
                assert_eq!(client.get(&task_path(task)).await, (401, message::bad_token()));
            }
            "rename" => {
                call_action(&api, task, "send-link", json!({})).await.expect_empty();
                let new = server.mail_to("new@example.com").await.token();
                session(&anonymous, &new).await.get(&task_path(task)).await.ok();
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_refresh_asks_again_whether_the_link_would_still_work() {
    // The test simulates that the end of the sessions was missed.
    let server = TestServer::start().await;
    let api = server.admin().await;
    let template = form_template(&api, "Survey").await;
    let (user, address) = create_one_time_account(&server, &api).await;
    for missed in
        ["UPDATE tasks SET status = 'canceled'", "DELETE FROM task_assignees", "DELETE FROM tasks WHERE id = 3"]
    {
        task(&api, template, user).await;
        let token = links(&server, &address).await.pop().unwrap();
        let client = session(&server.anonymous(), &token).await;
        let first = server.anonymous().with_pair("", &refresh(&client).await.ok());
        let run = move |conn: &mut store::Conn| conn.exec(&store::Sql::new(missed)).map(drop);
        server.build.db.write::<(), store::StoreError>(run).await.unwrap();
        assert_eq!(exchange(&server.anonymous(), &token).await, invalid(), "{missed}");
        assert_eq!(refresh(&first).await, (401, message::bad_token()), "{missed}");
        // The session has ended.
        assert_eq!(first.get("/api/users/me/").await, (401, message::bad_token()), "{missed}");
    }
}

#[tokio::test]
async fn wrong_tokens_count_towards_the_attempts_of_their_address() {
    let server = TestServer::start_with(|config| config.identity.address_attempts = 3).await;
    let api = server.admin().await;
    let template = form_template(&api, "Survey").await;
    let (user, address) = create_one_time_account(&server, &api).await;
    task(&api, template, user).await;
    let token = server.mail_to(&address).await.token();
    let anonymous = server.anonymous();
    for (body, errors) in [
        (json!({}), json!({"token": ["This field is required."]})),
        (json!({"token": null}), json!({"token": ["This field may not be null."]})),
        (json!({"token": 5}), json!({"token": ["Not a valid string."]})),
        (json!({"token": ""}), json!({"token": ["This field may not be blank."]})),
        (json!({"token": "a\u{0}"}), json!({"token": ["Null characters are not allowed."]})),
    ] {
        // Malformed tokens do not count as attempts.
        anonymous.post("/api/auth/task/", body).await.refuses(errors);
    }
    for guess in ["x", &token[1..], &token.to_uppercase()] {
        assert_eq!(exchange(&anonymous, guess).await, invalid());
        assert_eq!(exchange(&anonymous, &token).await.status, if guess == token.to_uppercase() { 429 } else { 200 });
    }
    let reply = exchange(&anonymous, &token).await;
    assert_eq!(reply, (429, message::detail("Too many requests.")));
    assert!(!reply.header("retry-after").is_empty());
    server.advance(300 * SECOND);
    exchange(&anonymous, &token).await.ok();
}

#[tokio::test]
async fn the_pages_of_other_sites_cannot_use_a_link() {
    let server = TestServer::start().await;
    let body = json!({"token": "x"});
    for (name, value) in [("origin", "https://other.example"), ("sec-fetch-site", "cross-site")] {
        let reply = server.anonymous().with_header(name, value).post("/api/auth/task/", body.clone()).await;
        assert_eq!(reply.status, 403, "{name}");
    }
    let reply = server.anonymous().call("POST", "/api/auth/task/").body("text/plain", body.to_string()).send().await;
    reply.expect(415);
}

#[tokio::test]
async fn a_task_that_changes_a_record_needs_no_right_to_view_it() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = class(&api, "Contracts").await;
    let record = record(&api, class).await;
    let template = update_template(&api, "Title", class, "manual").await;
    let (user, address) = create_one_time_account(&server, &api).await;
    let body = json!({"task_template": template, "object_record": record, "assignees": [user]});
    let task = api.post(TASKS, body).await.id();
    let client = session(&server.anonymous(), &server.mail_to(&address).await.token()).await;
    assert_eq!(client.get(&task_path(task)).await.ok()["form"]["values"], json!({"title": null}));
    let wrong =
        call_action(&client, task, "complete", json!({"response": {"fields": {"title": 5, "amount": "1"}}})).await;
    let errors = json!({"title": ["Not a valid string."], "amount": ["This field does not exist."]});
    wrong.refuses(json!({"response": {"fields": errors}}));
    call_action(&client, task, "complete", json!({"response": {"fields": {"title": "New"}}})).await.ok();
    assert_eq!(api.get(&format!("/api/object-records/{record}/")).await.ok()["fields"]["title"], "New");
}

#[tokio::test]
async fn a_link_is_of_its_build_alone_and_no_other_token_is_one() {
    let server = TestServer::start().await;
    let (api, other) = (server.admin().await, server.build("b.example").await);
    let template = form_template(&api, "Survey").await;
    let (user, address) = create_one_time_account(&server, &api).await;
    task(&api, template, user).await;
    let token = server.mail_to(&address).await.token();
    assert_eq!(exchange(&other.anonymous(), &token).await, invalid());
    let new = json!({"username": "new@example.com", "account_type": "internal", "first_name": "N", "last_name": "N"});
    api.post("/api/users/", new).await.expect_created();
    let activation = server.mail_to("new@example.com").await.token();
    let client = session(&server.anonymous(), &token).await;
    for foreign in [&activation, &client.token, &client.refresh_token, "unsent-1", "unsent-2"] {
        assert_eq!(exchange(&server.anonymous(), foreign).await, invalid());
    }
    // The token of a link is not a password token.
    let body = json!({"token": token, "password": PASSWORD});
    assert_eq!(client.post("/api/auth/activate/", body.clone()).await, invalid());
    assert_eq!(client.post("/api/auth/password-reset/confirm/", body).await, invalid());
    client.login(&address, PASSWORD).await.expect(401);
    api.login(ADMIN, PASSWORD).await.ok();
}

#[tokio::test]
async fn a_link_has_twenty_sessions_at_a_time_which_end_together() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let template = form_template(&api, "Survey").await;
    let (user, address) = create_one_time_account(&server, &api).await;
    let task = task(&api, template, user).await;
    let token = links(&server, &address).await.pop().unwrap();
    let mut sessions = Vec::new();
    for _ in 0..22 {
        sessions.push(session(&server.anonymous(), &token).await);
    }
    let statuses = async || {
        let mut statuses = Vec::new();
        for session in &sessions {
            statuses.push(session.get(&task_path(task)).await.status);
        }
        statuses
    };
    let mut expected = vec![200; 22];
    expected[..2].fill(401);
    assert_eq!(statuses().await, expected);
    call_action(&api, task, "cancel", json!({})).await.ok();
    assert_eq!(statuses().await, [401; 22]);
}
