//! `/api/administration/company-details/` (`docs/reference/company-details.md`).

use crate::TestServer;
use crate::message;
use serde_json::{Value, json};
use testkit::{MINUTE, SECOND};

const PATH: &str = "/api/administration/company-details/";

const BOTH: [(&str, bool); 2] = [("edit", true), ("view", true)];

fn with_permissions(mut details: Value, permissions: &[(&str, bool)]) -> Value {
    let permissions: Value = permissions.iter().map(|(action, holds)| ((*action).to_owned(), json!(holds))).collect();
    details["_meta"] = json!({"permissions": permissions});
    details
}

fn empty() -> Value {
    json!({
        "admin_first_name": "", "admin_last_name": "", "admin_email_address": "", "admin_phone_number": "",
        "admin_job_title": "", "admin_email_signature": "",
    })
}

fn filled() -> Value {
    json!({
        "admin_first_name": "Ada", "admin_last_name": "Berg", "admin_email_address": "ada@company.example",
        "admin_phone_number": "+47 1234", "admin_job_title": "Registrar", "admin_email_signature": "Yours\nthe registry",
    })
}

#[tokio::test]
async fn they_are_empty_at_first_and_any_of_them_can_be_set() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let mut details = empty();
    api.get(PATH).await.expect_reply(200, with_permissions(details.clone(), &BOTH));

    details["admin_first_name"] = json!("Ada");
    api.patch(PATH, json!({"admin_first_name": " Ada "})).await.expect_reply(200, with_permissions(details, &BOTH));
    api.patch(PATH, filled()).await.expect_reply(200, with_permissions(filled(), &BOTH));
    api.patch(PATH, json!({})).await.expect_reply(200, with_permissions(filled(), &BOTH));
    api.patch(PATH, json!({"planet": "Mars", "_meta": 1})).await.expect_reply(200, with_permissions(filled(), &BOTH));
    api.get(PATH).await.expect_reply(200, with_permissions(filled(), &BOTH));
    api.patch(PATH, empty()).await.expect_reply(200, with_permissions(empty(), &BOTH));
}

#[tokio::test]
async fn each_field_has_its_rules() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for (field, max) in [
        ("admin_first_name", 25),
        ("admin_last_name", 25),
        ("admin_phone_number", 20),
        ("admin_job_title", 100),
        ("admin_email_signature", 255),
    ] {
        let too_long = format!("Ensure this field has no more than {max} characters.");
        for (value, message) in [
            (json!("ö".repeat(max + 1)), too_long.as_str()),
            (Value::Null, "This field may not be null."),
            (json!(5), "Not a valid string."),
            (json!(true), "Not a valid string."),
            (json!(["x"]), "Not a valid string."),
            (json!("a\0b"), "Null characters are not allowed."),
            (json!("a\u{1b}b"), "Enter a valid value."),
        ] {
            api.patch(PATH, json!({field: value})).await.refuses(json!({field: [message]}));
        }
        api.patch(PATH, json!({field: "ö".repeat(max)})).await.ok();
    }
    let email = "admin_email_address";
    let local = "a".repeat(64);
    for (value, messages) in [
        (json!("nobody"), json!(["Enter a valid email address."])),
        (json!("a@b"), json!(["Enter a valid email address."])),
        (json!("a@b.example\r\nBcc: c@d.example"), json!(["Enter a valid email address."])),
        (
            json!(format!("{local}@{}.example", "b".repeat(28))),
            json!(["Ensure this field has no more than 100 characters."]),
        ),
        (
            json!("a".repeat(101)),
            json!(["Ensure this field has no more than 100 characters.", "Enter a valid email address."]),
        ),
        (Value::Null, json!(["This field may not be null."])),
        (json!(5), json!(["Not a valid string."])),
    ] {
        api.patch(PATH, json!({email: value})).await.refuses(json!({email: messages}));
    }
    api.patch(PATH, json!({email: format!("{local}@{}.example", "b".repeat(27))})).await.ok();
}

#[tokio::test]
async fn header_values_reject_line_ends() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for field in ["admin_first_name", "admin_last_name", "admin_phone_number", "admin_job_title"] {
        for bad in ["a\r\nBcc: c@d.example", "a\nb", "a\rb", "a\tb", "a\u{85}b", "a\u{2028}b", "a\u{2029}b"] {
            let reply = api.patch(PATH, json!({field: bad})).await;
            assert_eq!(reply, (400, json!({field: ["Enter a valid value."]})), "{field} {bad:?}");
        }
    }
    let signature = json!({"admin_email_signature": "Yours\r\n\tthe registry"});
    assert_eq!(api.patch(PATH, signature).await.ok()["admin_email_signature"], "Yours\r\n\tthe registry");
}

#[tokio::test]
async fn all_wrong_fields_are_told_at_once_and_nothing_is_changed() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let wrong = json!({
        "admin_first_name": "x".repeat(26), "admin_last_name": null, "admin_email_address": "x", "admin_phone_number": 5,
        "admin_job_title": "a\nb".repeat(50), "admin_email_signature": "Yours",
    });
    api.patch(PATH, wrong).await.refuses(json!({
        "admin_first_name": ["Ensure this field has no more than 25 characters."],
        "admin_last_name": ["This field may not be null."],
        "admin_email_address": ["Enter a valid email address."],
        "admin_phone_number": ["Not a valid string."],
        "admin_job_title": ["Ensure this field has no more than 100 characters.", "Enter a valid value."],
    }));
    api.get(PATH).await.expect_reply(200, with_permissions(empty(), &BOTH));
    api.patch(PATH, json!([]))
        .await
        .refuses(json!({"non_field_errors": ["Invalid data. Expected a dictionary, but got list."]}));
}

#[tokio::test]
async fn each_method_asks_for_its_permission() {
    let server = TestServer::start().await;
    let viewer = server.with_role(json!({"company_details": ["view"]})).await;
    let editor = server.with_role(json!({"company_details": ["edit"]})).await;
    for (caller, view, edit) in [
        (server.anonymous(), 401, 401),
        (server.as_type("internal").await, 403, 403),
        (server.as_type("external").await, 403, 403),
        (server.as_type("full").await, 403, 403),
        (server.as_type("service_external").await, 403, 403),
        (viewer.clone(), 200, 403),
        (editor.clone(), 200, 200),
        (server.as_type("service_internal").await, 200, 200),
    ] {
        assert_eq!(caller.get(PATH).await.status, view, "{}", caller.username);
        assert_eq!(
            caller.patch(PATH, json!({"admin_first_name": null})).await.status,
            if edit == 200 { 400 } else { edit }
        );
        assert_eq!(caller.patch(PATH, json!({})).await.status, edit, "{}", caller.username);
    }
    viewer.get(PATH).await.expect_reply(200, with_permissions(empty(), &[("edit", false), ("view", true)]));
    editor.get(PATH).await.expect_reply(200, with_permissions(empty(), &BOTH));
    server.admin().await.delete(PATH).await.expect_reply(405, message::detail("Method \"DELETE\" not allowed."));
}

#[tokio::test]
async fn options_tell_the_lengths() {
    let server = TestServer::start().await;
    server.anonymous().options(PATH).await.expect_reply(401, message::unauthenticated());
    let text = |alias: &str, kind: &str, max: usize| {
        json!({
            "alias": alias, "type": kind, "required": false, "editable": true,
            "validators": [{"name": "max_length", "value": max}],
        })
    };
    let schema = json!([
        text("admin_first_name", "string", 25),
        text("admin_last_name", "string", 25),
        text("admin_email_address", "email", 100),
        text("admin_phone_number", "string", 20),
        text("admin_job_title", "string", 100),
        text("admin_email_signature", "string", 255),
    ]);
    server.as_type("external").await.options(PATH).await.expect_reply(200, json!({"details": {"schema": schema}}));
}

#[tokio::test]
async fn changes_are_logged_and_guarded_against_other_changes() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let tag = api.get(PATH).await.header("etag").to_owned();
    let late = api.with_header("if-match", &tag);
    late.patch(PATH, json!({"admin_first_name": "Ada", "admin_last_name": ""})).await.ok();
    late.patch(PATH, json!({"admin_first_name": "Eve"}))
        .await
        .expect_reply(412, message::detail("Object has been changed."));

    let log = api.get("/api/administration/log/?resource=company_details").await.ok();
    assert_eq!(log["filtered_count"], 1);
    let entry = &log["results"][0];
    assert_eq!((&entry["action"], &entry["object_id"]), (&json!("edit"), &json!(1)));
    assert_eq!(entry["changes"], json!({"admin_first_name": ["", "Ada"]}));
}

#[tokio::test]
async fn each_build_has_its_own() {
    let server = TestServer::start().await;
    let other = server.build("b.example").await;
    server.admin().await.patch(PATH, filled()).await.ok();
    other.admin().await.get(PATH).await.expect_reply(200, with_permissions(empty(), &BOTH));
}

// ---- In messages ---------------------------------------------------------------------------------------------------

const ANNA: &str = "anna@example.com";

fn anna() -> Value {
    json!({"username": ANNA, "account_type": "internal", "first_name": "Anna", "last_name": "Dahl"})
}

#[tokio::test]
async fn messages_end_with_them() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.patch(PATH, filled()).await.ok();
    api.post("/api/users/", anna()).await.expect_created();
    let closing = "\n\nYours\nthe registry\n\nAda Berg\nRegistrar\nada@company.example\n+47 1234\n";
    let activation = server.mail_to(ANNA).await;
    assert!(activation.text.starts_with("Hello Anna,\n\nan account was made"), "{}", activation.text);
    assert!(activation.text.ends_with(closing), "{}", activation.text);
    let password = json!({"token": activation.token(), "password": "long enough"});
    server.anonymous().post("/api/auth/activate/", password).await.expect_empty();

    server.advance(SECOND);
    server.anonymous().post("/api/auth/password-reset/", json!({"username": ANNA})).await.expect_empty();
    let reset = server.mail_to(ANNA).await;
    assert_eq!(reset.subject, "Reset your password at a.example");
    assert!(reset.text.ends_with(closing), "{}", reset.text);

    // Empty values leave no gap.
    let fewer = json!({"admin_email_signature": "", "admin_job_title": "", "admin_first_name": ""});
    api.patch(PATH, fewer).await.ok();
    server.advance(MINUTE);
    server.anonymous().post("/api/auth/password-reset/", json!({"username": ANNA})).await.expect_empty();
    let text = server.mail_to(ANNA).await.text;
    assert!(text.ends_with("ignore this message.\n\nBerg\nada@company.example\n+47 1234\n"), "{text}");
}

#[tokio::test]
async fn template_syntax_in_them_is_text() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let literal = json!({
        "admin_first_name": "{link}", "admin_last_name": "{{7*7}}", "admin_job_title": "${env:HOME} {% x %} <b>&amp;</b>",
        "admin_email_signature": "{admin_first_name} {token} }{",
    });
    api.patch(PATH, literal).await.ok();
    let mut user = anna();
    user["first_name"] = json!("{domain}");
    api.post("/api/users/", user).await.expect_created();
    let mail = server.mail_to(ANNA).await;
    assert_eq!(mail.subject, "Activate your account at a.example");
    assert!(mail.text.starts_with("Hello {domain},\n"), "{}", mail.text);
    let closing = "\n\n{admin_first_name} {token} }{\n\n{link} {{7*7}}\n${env:HOME} {% x %} <b>&amp;</b>\n";
    assert!(mail.text.ends_with(closing), "{}", mail.text);
    assert_eq!(mail.text.matches("?token=").count(), 1);
}
