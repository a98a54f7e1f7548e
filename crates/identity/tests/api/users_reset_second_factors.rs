//! `/api/users/{id}/reset-second-factors/` (`docs/reference/second-factors.md`).

use crate::TestServer;
use crate::message;
use crate::second_factors::{WithGenerator, add_generator, add_passkey, count, first_step, prove};
use identity::builds;
use serde_json::{Value, json};
use testkit::{ADMIN, PASSWORD};

#[tokio::test]
async fn lost_factors_go_with_the_sessions_of_the_account() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let username = server.account("internal").await;
    let with = add_generator(&server, server.sign_in(&username, PASSWORD).await).await;
    add_passkey(&with.api, "ES256", "Laptop").await;
    let step = first_step(&server, &username).await;
    let reset = format!("/api/users/{}/reset-second-factors/", with.api.id);
    admin.call("POST", &reset).send().await.expect_empty();
    with.api.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    let code = with.generator.code(server.clock.now());
    assert_eq!(prove(&server, &step["challenge"], "code", code).await.status, 401);
    for rows in ["second_factors", "recovery_codes", "used_code_steps", "sign_in_challenges"] {
        let rows_left = count(&server, rows).await;
        assert_eq!(rows_left, 0, "{rows}");
    }
    let mail = server.mail_to(&username).await;
    assert!(mail.text.contains("The second factors of your account were removed"), "{}", mail.text);
    server.sign_in(&username, PASSWORD).await;
    // It is 204 where there is none, too.
    admin.call("POST", &reset).send().await.expect_empty();
    let entries = admin.get("/api/administration/log/?action=reset_second_factors").await.ok();
    let entry = &entries["results"][1];
    assert_eq!((&entry["resource"], &entry["object_id"]), (&json!("users"), &json!(with.api.id)));
    assert_eq!((&entry["object_name"], &entry["changes"]), (&json!(username), &json!({})));
}

#[tokio::test]
async fn only_who_holds_what_the_account_holds_resets() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let editor = server.with_role(json!({"users": ["list", "view", "edit"]})).await;
    let stronger = server.with_role(json!({"users": ["list", "view", "edit"], "roles": ["list", "view"]})).await;
    let plain = server.as_type("internal").await;
    let reset = async |api: &testkit::ApiClient, id: Value| {
        api.call("POST", &format!("/api/users/{id}/reset-second-factors/")).send().await
    };
    plain.call("POST", "/api/users/1/reset-second-factors/").send().await.expect_reply(403, message::forbidden());
    reset(&editor, json!(1)).await.expect_reply(403, message::forbidden());
    reset(&editor, json!(stronger.id)).await.expect_reply(403, message::forbidden());
    reset(&editor, json!(99)).await.expect_reply(404, message::not_found());
    reset(&editor, json!(plain.id)).await.expect_empty();
    reset(&stronger, json!(editor.id)).await.expect_empty();
    reset(&admin, json!(stronger.id)).await.expect_empty();
    let not_available = message::detail("Action is not available.");
    for account_type in ["service_external", "service_internal"] {
        let service = server.as_type(account_type).await;
        reset(&admin, json!(service.id)).await.refuses(not_available.clone());
    }
    server.account("one_time_completion").await;
    let users = admin.get("/api/users/?account_type=one_time_completion").await.ids();
    reset(&admin, json!(users[0])).await.refuses(not_available);
    // Their own reset needs a recent sign-in, and ends their own session.
    server.advance(11 * testkit::MINUTE);
    reset(&admin, json!(1)).await.expect_reply(403, message::detail("Please sign in again."));
    let admin = server.admin().await;
    reset(&admin, json!(1)).await.expect_empty();
    admin.get("/api/users/me/").await.expect_reply(401, message::bad_token());
}

#[tokio::test]
async fn the_command_line_resets_the_last_super_admin() {
    let server = TestServer::start().await;
    let WithGenerator { api, .. } = add_generator(&server, server.admin().await).await;
    api.patch("/api/security/second-factors/", json!({"super_admin": "required"})).await.ok();
    builds::reset_second_factors(&server.app, &server.build, " Admin@Example.com ").await.unwrap();
    api.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    let again = server.admin().await;
    again.get("/api/users/").await.expect_reply(403, message::detail("Second factor required."));
    let WithGenerator { api, .. } = add_generator(&server, again).await;
    let entries = api.get("/api/administration/log/?action=reset_second_factors").await.ok();
    assert_eq!((&entries["results"][0]["by"], &entries["results"][0]["object_name"]), (&Value::Null, &json!(ADMIN)));
    assert!(server.mails().await.iter().any(|mail| mail.text.contains("were removed")));
    let unknown = builds::reset_second_factors(&server.app, &server.build, "nobody@example.com").await;
    assert_eq!(unknown.unwrap_err(), "nobody@example.com: there is no such user");
}

#[tokio::test]
async fn nothing_is_left_of_who_leaves() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    for way in ["anonymize", "delete"] {
        let username = server.account("internal").await;
        let with = add_generator(&server, server.sign_in(&username, PASSWORD).await).await;
        first_step(&server, &username).await;
        let user = format!("/api/users/{}/", with.api.id);
        match way {
            "delete" => admin.delete(&user).await.expect_empty(),
            _ => drop(admin.post(&format!("{user}anonymize/"), json!({})).await.ok()),
        }
        for rows in ["second_factors", "recovery_codes", "used_code_steps", "sign_in_challenges"] {
            let rows_left = count(&server, rows).await;
            assert_eq!(rows_left, 0, "{rows} after {way}");
        }
    }
    let entries = admin.get("/api/administration/log/?resource=second_factors").await.ok();
    assert_eq!(entries["filtered_count"], 2, "{entries:#}");
    let names = entries["results"].as_array().unwrap().iter().map(|entry| (&entry["object_name"], &entry["ip"]));
    assert!(names.into_iter().all(|(name, ip)| name == "" && ip == ""), "{entries:#}");
}
