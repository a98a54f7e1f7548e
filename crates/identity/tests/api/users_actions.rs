//! `/api/users/{id}/deactivate/` and the other actions (`docs/reference/users.md`).

use crate::TestServer;
use crate::message;
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::{ApiClient, MINUTE, PASSWORD, Reply, SECOND};

const ACTIONS: [&str; 5] = ["send_activation_link", "deactivate", "reactivate", "unlock", "anonymize"];

fn path(id: i64, action: &str) -> String {
    format!("/api/users/{id}/{}/", action.replace('_', "-"))
}

async fn call_action(caller: &ApiClient, id: i64, action: &str) -> Value {
    caller.post(&path(id, action), json!({})).await.ok()
}

/// Creates a user who is invited, or not invited yet if `is_delayed`.
async fn new_user(admin: &ApiClient, username: &str, is_delayed: bool) -> i64 {
    let user = json!({"username": username, "account_type": "internal", "first_name": "Ann", "last_name": "Berg", "delay_activation": is_delayed});
    admin.post("/api/users/", user).await.id()
}

#[tokio::test]
async fn each_state_has_its_actions_and_every_other_is_not_available() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let pending = new_user(&admin, "pending@example.com", true).await;
    let invited = new_user(&admin, "invited@example.com", false).await;
    let active = server.as_type("internal").await.id;
    let locked = server.as_type("external").await;
    let inactive = server.as_type("full").await.id;
    let anonymized = server.as_type("internal").await.id;
    let service = server.as_type("service_external").await.id;
    call_action(&admin, inactive, "deactivate").await;
    call_action(&admin, anonymized, "anonymize").await;
    for _ in 0..5 {
        server.anonymous().login(&locked.username, "wrong").await;
    }
    for (id, status, actions) in [
        (pending, "pending", vec!["send_activation_link", "deactivate", "anonymize"]),
        (invited, "invited", vec!["send_activation_link", "deactivate", "anonymize"]),
        (active, "active", vec!["deactivate", "anonymize"]),
        (locked.id, "locked", vec!["deactivate", "unlock", "anonymize"]),
        (inactive, "inactive", vec!["reactivate", "anonymize"]),
        (anonymized, "anonymized", vec![]),
        (service, "active", vec!["deactivate", "anonymize"]),
    ] {
        let shown = admin.get(&format!("/api/users/{id}/")).await.ok();
        assert_eq!((&shown["status"], &shown["next_actions"]), (&json!(status), &json!(actions)));
        for action in ACTIONS.into_iter().filter(|action| !actions.contains(action)) {
            admin.post(&path(id, action), json!({})).await.refuses(message::detail("Action is not available."));
        }
    }
}

#[tokio::test]
async fn the_activation_link_is_sent_again() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let id = new_user(&admin, "ann@example.com", true).await;
    server.advance(SECOND);
    let sender = server.with_role(json!({"users": ["edit"]})).await;

    let user = call_action(&sender, id, "send_activation_link").await;

    assert_eq!(
        (&user["status"], &user["link_sent_at"], &user["link_sent_by"]["id"]),
        (&json!("invited"), &json!(null), &json!(sender.id)),
        "the mail was written to the disk, and sent to nobody"
    );
    assert_eq!(
        (&user["modified_at"], &user["modified_by"]["id"]),
        (&json!("2026-01-31T09:30:01.000000Z"), &json!(sender.id))
    );
    call_action(&admin, id, "send_activation_link").await;
    assert_eq!(server.mails().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_gets_twenty_activation_mails_an_hour() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let id = new_user(&admin, "ann@example.com", false).await;
    server.advance(MINUTE);
    // The mail of its creation does not count.
    let sends: Vec<_> = (0..30)
        .map(|_| {
            let admin = admin.clone();
            tokio::spawn(async move { admin.post(&path(id, "send_activation_link"), json!({})).await })
        })
        .collect();
    let mut mail_count = 0;
    for send in sends {
        let reply = send.await.unwrap();
        if reply.status == 200 {
            mail_count += 1;
        } else {
            assert_eq!(reply.header("retry-after"), (60 * 60).to_string());
            reply.expect_reply(429, message::detail("Too many requests."));
        }
    }
    assert_eq!((mail_count, server.mails().await.len()), (20, 21));
    let first = server.mails().await[0].token();
    let other = new_user(&admin, "bob@example.com", true).await;
    call_action(&admin, other, "send_activation_link").await;

    server.advance(60 * MINUTE);
    call_action(&server.admin().await, id, "send_activation_link").await;
    let activate = json!({"token": first, "password": "long enough"});
    server.anonymous().post("/api/auth/activate/", activate).await.expect_empty();
}

/// Returns the token of an activation link in an answer.
fn token_of(link: &Value) -> String {
    let (address, token) = link["url"].as_str().unwrap().split_once("?token=").unwrap();
    assert_eq!(address, "https://a.example/activate/");
    token.to_owned()
}

async fn activate(server: &TestServer, token: &str) -> Reply {
    server.anonymous().post("/api/auth/activate/", json!({"token": token, "password": "long enough"})).await
}

#[tokio::test]
async fn a_super_admin_hands_over_an_activation_link_that_ends_the_former_ones() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    admin.patch("/api/security/", json!({"systemconf": {"activation_link_valid_period": 7}})).await.ok();
    let id = new_user(&admin, "ann@example.com", true).await;
    call_action(&admin, id, "send_activation_link").await;
    let mailed = server.mail_to("ann@example.com").await.token();
    server.advance(SECOND);

    let link = admin.post(&path(id, "activation_link"), json!({})).await;

    let token = token_of(&link.json);
    link.expect_reply(200, json!({"url": link["url"], "expires_at": "2026-02-07T09:30:01.000000Z"}));
    assert_eq!(link.header("etag"), "");
    let shown = admin.get(&format!("/api/users/{id}/")).await.ok();
    assert_eq!((&shown["status"], &shown["link_sent_at"]), (&json!("invited"), &json!(null)));
    let log = admin.get("/api/administration/log/?action=activation_link").await;
    assert_eq!(
        (&log["results"][0]["object_id"], &log["results"][0]["object_name"], &log["results"][0]["changes"]),
        (&json!(id), &json!("ann@example.com"), &json!({}))
    );
    assert!(!log.text.contains(&token));
    activate(&server, &mailed).await.refuses(json!({"token": ["Invalid token."]}));
    let next = token_of(&call_action(&admin, id, "activation_link").await);
    activate(&server, &token).await.refuses(json!({"token": ["Invalid token."]}));
    activate(&server, &next).await.expect_empty();
    server.sign_in("ann@example.com", "long enough").await;
    admin.post(&path(id, "activation_link"), json!({})).await.refuses(message::detail("Action is not available."));
    // Without a period the link does not expire.
    admin.patch("/api/security/", json!({"systemconf": {"activation_link_valid_period": 0}})).await.ok();
    let pending = new_user(&admin, "bob@example.com", true).await;
    assert_eq!(call_action(&admin, pending, "activation_link").await["expires_at"], Value::Null);
    assert_eq!(admin.get(&format!("/api/users/{pending}/")).await.ok()["status"], "invited");
}

#[tokio::test]
async fn nobody_but_super_admins_gets_an_activation_link() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let id = new_user(&admin, "ann@example.com", false).await;
    let token = server.mail_to("ann@example.com").await.token();
    let editor = server.with_role(json!({"users": ["list", "view", "create", "edit"]})).await;
    for caller in [editor, server.as_type("internal").await, server.as_type("service_external").await] {
        for id in [id, 1, 77] {
            caller.post(&path(id, "activation_link"), json!({})).await.expect_reply(403, message::forbidden());
        }
    }
    server.anonymous().post(&path(id, "activation_link"), json!({})).await.expect(401);
    admin.post(&path(77, "activation_link"), json!({})).await.expect_reply(404, message::not_found());
    for closed in [1, server.as_type("internal").await.id, server.as_type("service_external").await.id] {
        admin
            .post(&path(closed, "activation_link"), json!({}))
            .await
            .refuses(message::detail("Action is not available."));
    }
    activate(&server, &token).await.expect_empty();
}

#[tokio::test(flavor = "multi_thread")]
async fn shown_and_mailed_activation_links_are_twenty_an_hour_together() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let id = new_user(&admin, "ann@example.com", false).await;
    for _ in 0..8 {
        call_action(&admin, id, "send_activation_link").await;
    }
    let shows: Vec<_> = (0..16)
        .map(|_| {
            let admin = admin.clone();
            tokio::spawn(async move { admin.post(&path(id, "activation_link"), json!({})).await.status })
        })
        .collect();
    let mut shown = 0;
    for show in shows {
        match show.await.unwrap() {
            200 => shown += 1,
            status => assert_eq!(status, 429),
        }
    }
    assert_eq!(shown, 12);
    let refused = admin.post(&path(id, "send_activation_link"), json!({})).await;
    assert_eq!(refused.header("retry-after"), (60 * 60).to_string());
    refused.expect_reply(429, message::detail("Too many requests."));
    server.advance(60 * MINUTE);
    call_action(&server.admin().await, id, "activation_link").await;
}

#[tokio::test]
async fn a_mail_that_waits_sends_no_link_beside_one_that_was_shown_since() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let nowhere = json!({
        "host": "mail.invalid", "port": 25, "tls": false, "username": "mailer", "password": "secret",
        "from_email": "no-reply@a.example", "failure_email": "ops@a.example",
    });
    admin.patch("/api/administration/smtp-settings/", nowhere).await.ok();
    let id = new_user(&admin, "ann@example.com", false).await;
    let shown = admin.get(&format!("/api/users/{id}/")).await.ok();
    assert_eq!((&shown["_meta"]["is_mail_set_up"], &shown["link_sent_at"]), (&json!(true), &json!(null)));
    server.advance(SECOND);
    let token = token_of(&call_action(&admin, id, "activation_link").await);
    // The mail is retried, and a later one is sent.
    let forget = |conn: &mut Conn| conn.exec(&Sql::new("UPDATE smtp_settings SET host = ''")).map(drop);
    server.build.db.write::<_, StoreError>(forget).await.unwrap();
    server.advance(60 * MINUTE);
    new_user(&server.admin().await, "bob@example.com", false).await;
    let receivers: Vec<_> = server.mails().await.into_iter().map(|mail| mail.to).collect();
    assert_eq!(receivers, ["bob@example.com"]);
    activate(&server, &token).await.expect_empty();
}

#[tokio::test]
async fn a_deactivated_user_is_out_at_once_and_comes_back_as_before() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let user = server.with_role(json!({"roles": ["list"]})).await;

    let shown = call_action(&admin, user.id, "deactivate").await;

    assert_eq!((&shown["status"], &shown["roles"]), (&json!("inactive"), &json!([1])));
    user.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    user.post("/api/auth/refresh/", json!({"refresh_token": user.refresh_token}))
        .await
        .expect_reply(401, message::bad_token());
    assert_eq!(server.anonymous().login(&user.username, PASSWORD).await.status, 401);

    assert_eq!(call_action(&admin, user.id, "reactivate").await["status"], "active");
    user.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    server.sign_in(&user.username, PASSWORD).await.get("/api/roles/").await.ok();
}

#[tokio::test]
async fn an_account_without_a_password_is_pending_after_reactivation() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let id = new_user(&admin, "ann@example.com", false).await;
    let token = server.mail_to("ann@example.com").await.token();
    call_action(&admin, id, "deactivate").await;
    let activate = async |token: &str| {
        server.anonymous().post("/api/auth/activate/", json!({"token": token, "password": "long enough"})).await
    };
    activate(&token).await.refuses(json!({"token": ["Invalid token."]}));
    assert_eq!(call_action(&admin, id, "reactivate").await["status"], "pending");
    activate(&token).await.refuses(json!({"token": ["Invalid token."]}));
    call_action(&admin, id, "send_activation_link").await;
    activate(&server.mail_to("ann@example.com").await.token()).await.expect_empty();
}

#[tokio::test]
async fn services_and_one_time_accounts_come_back_active() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let service = server.as_type("service_external").await;
    let once = json!({"username": "once@example.com", "account_type": "one_time_completion", "first_name": "O", "last_name": "T"});
    let once = admin.post("/api/users/", once).await.id();
    for id in [service.id, once] {
        assert_eq!(call_action(&admin, id, "deactivate").await["status"], "inactive");
        assert_eq!(call_action(&admin, id, "reactivate").await["status"], "active");
    }
    server.sign_in(&service.username, PASSWORD).await;
}

#[tokio::test]
async fn an_unlocked_user_signs_in_at_once() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let user = server.as_type("internal").await;
    for _ in 0..5 {
        server.anonymous().login(&user.username, "wrong").await;
    }
    assert_eq!(call_action(&admin, user.id, "unlock").await["status"], "active");
    server.sign_in(&user.username, PASSWORD).await;
}

#[tokio::test]
async fn an_anonymized_user_is_nobody_for_ever() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let user = server.with_role(json!({"roles": ["create"]})).await;
    user.post("/api/roles/", json!({"name": "Theirs"})).await.expect_created();
    let personal = json!({
        "job_title": "Clerk", "company_name": "Berg & Co", "phone": "1", "mobile": "2", "timezone": "Europe/Oslo",
        "is_ip_restriction_enabled": true, "allowed_ip_ranges": ["127.0.0.0/8"],
    });
    admin.patch(&format!("/api/users/{}/", user.id), personal).await.ok();

    let shown = call_action(&admin, user.id, "anonymize").await;

    for (field, value) in [
        ("status", json!("anonymized")),
        ("first_name", json!("Anonymized")),
        ("last_name", json!("Anonymized")),
        ("job_title", json!("")),
        ("company_name", json!("")),
        ("phone", json!("")),
        ("mobile", json!("")),
        ("timezone", json!("UTC")),
        ("roles", json!([])),
        ("is_ip_restriction_enabled", json!(false)),
        ("allowed_ip_ranges", json!([])),
        ("next_actions", json!([])),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
    let nobody = shown["username"].as_str().unwrap().to_owned();
    assert!(nobody.ends_with(".invalid") && nobody.len() <= 100, "{nobody}");
    user.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    for username in [&user.username, &nobody] {
        assert_eq!(server.anonymous().login(username, PASSWORD).await.status, 401);
        server.anonymous().post("/api/auth/password-reset/", json!({"username": username})).await.expect_empty();
    }
    assert!(server.mails().await.is_empty());
    assert_eq!(
        admin
            .get(&format!("/api/users/?full_name__icontains={}", user.username.split('@').next().unwrap()))
            .await
            .ids(),
        [0; 0]
    );
    let reference = admin.get("/api/roles/2/").await.ok()["created_by"].clone();
    assert_eq!(
        (&reference["first_name"], &reference["username"], &reference["is_deleted"]),
        (&json!("Anonymized"), &json!(nobody), &json!(false))
    );
    // The name can be used again, and several users may be anonymized.
    let again = new_user(&admin, &user.username, true).await;
    call_action(&admin, again, "anonymize").await;
}

#[tokio::test]
async fn actions_need_the_permission_to_edit() {
    let server = TestServer::start().await;
    let user = server.as_type("internal").await;
    for caller in [server.as_type("internal").await, server.with_role(json!({"users": ["create", "delete"]})).await] {
        for action in ACTIONS {
            caller.post(&path(user.id, action), json!({})).await.expect_reply(403, message::forbidden());
        }
    }
    let editor = server.with_role(json!({"users": ["edit"]})).await;
    call_action(&editor, user.id, "deactivate").await;
    editor.post(&path(999, "deactivate"), json!({})).await.expect_reply(404, message::not_found());
}

#[tokio::test]
async fn a_link_to_a_former_address_is_spent() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let user =
        json!({"username": "typo@example.com", "account_type": "internal", "first_name": "Ann", "last_name": "Berg"});
    let id = api.post("/api/users/", user).await.id();
    let token = server.mail_to("typo@example.com").await.token();
    api.patch(&format!("/api/users/{id}/"), json!({"username": "ann@example.com"})).await.ok();
    let body = json!({"token": token, "password": "a good password"});
    server.anonymous().post("/api/auth/activate/", body).await.refuses(json!({"token": ["Invalid token."]}));

    api.post(&format!("/api/users/{id}/send-activation-link/"), json!({})).await.ok();
    let token = server.mail_to("ann@example.com").await.token();
    server
        .anonymous()
        .post("/api/auth/activate/", json!({"token": token, "password": "a good password"}))
        .await
        .expect_empty();
    server.sign_in("ann@example.com", "a good password").await;
}
