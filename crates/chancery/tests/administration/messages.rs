//! `/api/administration/messages/preview/` (`docs/reference/mail.md`).

use crate::TestServer;
use crate::message;
use serde_json::json;

const PATH: &str = "/api/administration/messages/preview/";

#[tokio::test]
async fn each_message_is_shown_as_it_will_look() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for (name, subject, text) in [
        (
            "activation",
            "Activate your account at a.example",
            "Hello Ann,\n\nan account was made for you at a.example. Choose a password to activate it:\n\n\
             https://a.example/activate/?token=sample\n",
        ),
        (
            "reset",
            "Reset your password at a.example",
            "Hello Ann,\n\nsomebody asked to reset your password at a.example. If it was you, choose a new one within 24 \
             hours:\n\nhttps://a.example/password-reset/?token=sample\n\nIf it was not you, ignore this message.\n",
        ),
        (
            "test",
            "Test message of a.example",
            "Hello,\n\nthis message was sent to test the outbound mail settings of a.example. They work.\n",
        ),
        (
            "reminder",
            "Reminder: Check the order",
            "Hello Ann,\n\nthis is a reminder of a task at a.example: Check the order\n\n\
             Due: 2026-01-31 09:30 UTC\nExpires: 2026-02-28 09:30 UTC\n",
        ),
        (
            "task_link",
            "A task for you: Check the order",
            "Hello Ann,\n\na task at a.example was assigned to you: Check the order\n\n\
             You complete it here, without a password:\n\nhttps://a.example/task/?token=sample\n\n\
             The link is for you alone. It works until the task has ended, or is assigned to somebody else.\n",
        ),
    ] {
        api.post(PATH, json!({"name": name})).await.expect_reply(200, json!({"subject": subject, "text": text}));
    }
}

#[tokio::test]
async fn the_company_details_stand_below() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let details = json!({
        "admin_first_name": "Ada", "admin_last_name": "{link}", "admin_email_signature": "Yours\nthe registry",
    });
    api.patch("/api/administration/company-details/", details).await.ok();
    let preview = api.post(PATH, json!({"name": "test"})).await.ok();
    assert_eq!(
        preview["text"],
        "Hello,\n\nthis message was sent to test the outbound mail settings of a.example. They work.\n\n\
         Yours\nthe registry\n\nAda {link}\n"
    );
    assert!(server.mails().await.is_empty(), "a preview is sent to nobody");
}

#[tokio::test]
async fn other_names_are_refused_and_so_is_who_may_not_view_the_details() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for (body, wrong) in [
        (json!({}), "This field is required."),
        (json!({"name": null}), "This field may not be null."),
        (json!({"name": "given_up"}), "given_up is not a valid choice."),
        (json!({"name": ""}), " is not a valid choice."),
    ] {
        api.post(PATH, body).await.refuses(json!({"name": [wrong]}));
    }
    server.with_role(json!({"company_details": ["view"]})).await.post(PATH, json!({"name": "test"})).await.ok();
    let stranger = server.with_role(json!({"outbound_mail_setup": ["edit"]})).await;
    stranger.post(PATH, json!({"name": "test"})).await.expect_reply(403, message::forbidden());
}
