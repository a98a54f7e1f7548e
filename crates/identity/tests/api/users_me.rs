//! `/api/users/me/` and the caller's sessions (`docs/reference/users.md`).

use crate::TestServer;
use crate::message;
use crate::shown::{START, page};
use serde_json::{Value, json};
use testkit::{DAY, HOUR, MINUTE, PASSWORD, SECOND, eventually};

#[tokio::test]
async fn everybody_sees_and_edits_the_own_user() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    for account_type in ["internal", "external", "full", "super_admin", "service_internal", "service_external"] {
        let user = server.as_type(account_type).await;
        let own = user.get("/api/users/me/").await.ok();
        assert_eq!(
            (&own["id"], &own["username"], &own["account_type"]),
            (&json!(user.id), &json!(user.username), &json!(account_type))
        );
        let (fields, of_admin) =
            (own.as_object().unwrap().keys(), admin.get(&format!("/api/users/{}/", user.id)).await.ok());
        assert!(fields.eq(of_admin.as_object().unwrap().keys()), "{account_type}: the same fields as by id");

        let change = json!({"first_name": "Ann", "last_name": "Berg", "job_title": "Clerk", "phone": "1", "mobile": "2", "timezone": "Europe/Oslo"});
        let changed = user.patch("/api/users/me/", change.clone()).await.ok();

        for (field, value) in change.as_object().unwrap() {
            assert_eq!(&changed[field], value, "{account_type}");
        }
        assert_eq!(changed["modified_by"]["id"], user.id);
        assert_eq!(admin.get(&format!("/api/users/?full_name=Ann+Berg&id={}", user.id)).await.ids(), [user.id]);
    }
}

#[tokio::test]
async fn other_fields_of_the_own_user_are_ignored() {
    let server = TestServer::start().await;
    let user = server.as_type("internal").await;
    let mut expected = user.get("/api/users/me/").await.ok();
    expected["modified_by"] = crate::shown::user(&user, "internal");
    let change = json!({
        "username": "other@example.com", "account_type": "super_admin", "company_name": "x", "password": "another one", "roles": [1],
        "status": "inactive", "is_ip_restriction_enabled": true, "allowed_ip_ranges": ["10.0.0.0/8"], "delay_activation": "x", "id": 1,
    });
    user.patch("/api/users/me/", change).await.expect_reply(200, expected);
    server.sign_in(&user.username, PASSWORD).await;
}

#[tokio::test]
async fn own_fields_are_checked_like_any_others() {
    let server = TestServer::start().await;
    let user = server.as_type("external").await;
    let change = json!({"first_name": "", "last_name": null, "job_title": "x".repeat(101), "phone": 5, "mobile": "1".repeat(21), "timezone": "Mars"});
    user.patch("/api/users/me/", change).await.refuses(json!({
        "first_name": ["This field may not be blank."],
        "last_name": ["This field may not be null."],
        "job_title": ["Ensure this field has no more than 100 characters."],
        "phone": ["Not a valid string."],
        "mobile": ["Ensure this field has no more than 20 characters."],
        "timezone": ["Mars is not a valid choice."],
    }));
}

#[tokio::test]
async fn the_own_sessions_are_listed() {
    let server = TestServer::start().await;
    let user = server.as_type("external").await;
    server.as_type("internal").await;
    server.advance(MINUTE);
    let phone = server.anonymous().with_header("user-agent", "A phone").sign_in(&user.username, PASSWORD).await;

    let list = phone.get("/api/users/me/sessions/?ordering=id&user_agent=x").await;

    let later = "2026-01-31T09:31:00.000000Z";
    list.expect_reply(
        200,
        page(json!([
            {"id": 3, "created_at": later, "last_used_at": later, "ip": "127.0.0.1", "user_agent": "A phone", "is_current": true, "agent": null},
            {"id": 1, "created_at": START, "last_used_at": START, "ip": "127.0.0.1", "user_agent": "", "is_current": false, "agent": null},
        ])),
    );
    assert_eq!(user.get("/api/users/me/sessions/").await.column("is_current"), [false, true]);
}

#[tokio::test]
async fn a_session_that_is_over_is_not_listed() {
    let server = TestServer::start().await;
    let user = server.as_type("internal").await;
    let other = server.sign_in(&user.username, PASSWORD).await;
    other.post("/api/auth/logout/", json!({"refresh_token": other.refresh_token})).await.expect_empty();
    assert_eq!(user.get("/api/users/me/sessions/").await.ids(), [1]);
    server.advance(7 * DAY);
    let user = server.sign_in(&user.username, PASSWORD).await;
    assert_eq!(user.get("/api/users/me/sessions/").await.ids(), [3]);
}

#[tokio::test]
async fn a_session_remembers_when_it_was_used_last() {
    let server = TestServer::start().await;
    let user = server.as_type("internal").await;
    server.advance(10 * MINUTE);
    user.get("/api/users/me/").await.ok();
    // The last use is written in the background.
    eventually(async || {
        let used = user.get("/api/users/me/sessions/").await.column("last_used_at");
        if used == ["2026-01-31T09:40:00.000000Z"] { Ok(()) } else { Err(used) }
    })
    .await;
}

#[tokio::test]
async fn one_session_is_ended_and_no_other() {
    let server = TestServer::start().await;
    let (user, elsewhere) = (server.as_type("internal").await, server.admin().await);
    let lost = server.sign_in(&user.username, PASSWORD).await;

    user.delete("/api/users/me/sessions/3/").await.expect_empty();

    lost.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    lost.post("/api/auth/refresh/", json!({"refresh_token": lost.refresh_token}))
        .await
        .expect_reply(401, message::bad_token());
    user.get("/api/users/me/").await.ok();
    for id in [3, 2, 999] {
        user.delete(&format!("/api/users/me/sessions/{id}/")).await.expect_reply(404, message::not_found());
    }
    elsewhere.get("/api/users/me/").await.ok();

    user.delete("/api/users/me/sessions/1/").await.expect_empty();
    user.get("/api/users/me/").await.expect_reply(401, message::bad_token());
}

#[tokio::test]
async fn the_schema_of_the_own_user_tells_what_may_be_changed() {
    let server = TestServer::start().await;
    let document = server.as_type("external").await.options("/api/users/me/").await.ok();
    let fields = document["details"]["schema"].as_array().unwrap();
    let editable: Vec<&Value> =
        fields.iter().filter(|field| field["editable"] == true).map(|field| &field["alias"]).collect();
    assert_eq!(editable, ["first_name", "last_name", "job_title", "phone", "mobile", "timezone"]);
}

#[tokio::test]
async fn a_refresh_keeps_the_session_in_the_list() {
    let server = TestServer::start().await;
    let user = server.as_type("internal").await;
    server.advance(HOUR + SECOND);
    let pair = user
        .with_header("user-agent", "Moved")
        .post("/api/auth/refresh/", json!({"refresh_token": user.refresh_token}))
        .await
        .ok();
    let user = user.with_pair(&user.username, &pair);
    let list = user.get("/api/users/me/sessions/").await;
    assert_eq!(
        (list.ids(), list.column("last_used_at"), list.column("user_agent")),
        (vec![1], vec![json!("2026-01-31T10:30:01.000000Z")], vec![json!("Moved")])
    );
}
