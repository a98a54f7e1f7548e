//! `/api/security/second-factors/`, and sessions that lack a required factor (`docs/reference/second-factors.md`).

use crate::TestServer;
use crate::message;
use crate::second_factors::{FACTORS, WithGenerator, add_generator, count};
use serde_json::{Value, json};
use testkit::{ADMIN, ApiClient, DAY, PASSWORD};

const PATH: &str = "/api/security/second-factors/";

fn required() -> Value {
    message::detail("Second factor required.")
}

fn rules(internal: &str, super_admin: &str) -> Value {
    json!({"internal": internal, "external": "optional", "full": "optional", "super_admin": super_admin})
}

#[tokio::test]
async fn the_rules_are_optional_until_they_are_changed() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let first = api.get(PATH).await;
    assert_eq!(first.ok(), rules("optional", "optional"));
    let changed = api.patch(PATH, json!({"internal": "required"})).await;
    assert_eq!(changed.ok(), rules("required", "optional"));
    let now = api.get(PATH).await;
    assert_eq!((now.ok(), now.header("etag")), (rules("required", "optional"), changed.header("etag")));
    let outdated = api.call("PATCH", PATH).header("if-match", first.header("etag")).json(&json!({"full": "off"}));
    outdated.send().await.expect_reply(412, message::detail("Object has been changed."));
    let entries = api.get("/api/administration/log/?resource=second_factors").await.ok();
    let entry = &entries["results"][0];
    assert_eq!((&entries["filtered_count"], &entry["action"]), (&json!(1), &json!("edit")));
    assert_eq!(
        (&entry["object_id"], &entry["changes"]),
        (&Value::Null, &json!({"internal": ["optional", "required"]}))
    );
    // The other rules stay without it.
    assert_eq!(api.get("/api/security/").await.ok()["second_factors"], Value::Null);
}

#[tokio::test]
async fn a_rule_is_one_of_three() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let errors = json!({"internal": ["sometimes is not a valid choice."], "full": ["This field may not be null."]});
    api.patch(PATH, json!({"internal": "sometimes", "full": null})).await.refuses(errors);
    api.patch(PATH, json!({})).await.ok();
    assert_eq!(api.get("/api/administration/log/?resource=second_factors").await.ids(), [0; 0]);
}

#[tokio::test]
async fn the_permission_decides_and_super_admins_about_themselves() {
    let server = TestServer::start().await;
    let none = server.as_type("internal").await;
    none.get(PATH).await.expect_reply(403, message::forbidden());
    none.patch(PATH, json!({})).await.expect_reply(403, message::forbidden());
    let reader = server.with_role(json!({"standard_authentication": ["list"]})).await;
    reader.get(PATH).await.ok();
    reader.patch(PATH, json!({})).await.expect_reply(403, message::forbidden());
    let editor = server.with_role(json!({"standard_authentication": ["list", "edit"]})).await;
    editor.patch(PATH, json!({"super_admin": "optional"})).await.expect_reply(403, message::forbidden());
    editor.patch(PATH, json!({"super_admin": "wrong"})).await.expect_reply(403, message::forbidden());
    editor.patch(PATH, json!({"external": "off"})).await.ok();
    let service = server.as_type("service_internal").await;
    service.patch(PATH, json!({"super_admin": "off"})).await.ok();
}

#[tokio::test]
async fn a_living_session_that_lacks_the_factor_may_only_get_one() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let user = server.as_type("internal").await;
    user.get("/api/users/").await.ok();
    admin.patch(PATH, json!({"internal": "required"})).await.ok();
    for path in ["/api/users/", "/api/users/me/sessions/", "/api/users/me/preferences/", "/api/security/"] {
        user.get(path).await.expect_reply(403, required());
    }
    user.patch("/api/users/me/", json!({"job_title": "Clerk"})).await.expect_reply(403, required());
    user.get("/api/users/me/").await.ok();
    user.get("/api/users/permissions/").await.ok();
    let wrong = json!({"current_password": "wrong", "new_password": "x"});
    user.post("/api/auth/password-change/", wrong).await.refuses(json!({"current_password": ["Invalid password."]}));
    let pair = user.post("/api/auth/refresh/", json!({"refresh_token": user.refresh_token})).await.ok();
    let user = user.with_pair(&user.username, &pair);
    // A new session is the same. Others are not concerned.
    server.sign_in(&user.username, PASSWORD).await.get("/api/users/").await.expect_reply(403, required());
    admin.get("/api/users/").await.ok();

    let WithGenerator { api, factor, .. } = add_generator(&server, user).await;
    api.get("/api/users/").await.ok();
    let last = message::detail("A second factor is required.");
    api.delete(&format!("{FACTORS}{factor}/")).await.refuses(last);
    admin.patch(PATH, json!({"internal": "optional"})).await.ok();
    api.delete(&format!("{FACTORS}{factor}/")).await.expect_empty();
    api.get("/api/users/").await.ok();
}

#[tokio::test]
async fn one_of_two_factors_may_go_where_one_is_required() {
    let server = TestServer::start().await;
    let WithGenerator { api, .. } = add_generator(&server, server.admin().await).await;
    crate::second_factors::add_passkey(&api, "ES256", "Laptop").await;
    api.patch(PATH, json!({"super_admin": "required"})).await.ok();
    api.delete(&format!("{FACTORS}1/")).await.expect_empty();
    let last = message::detail("A second factor is required.");
    api.delete(&format!("{FACTORS}2/")).await.refuses(last);
    assert_eq!(count(&server, "recovery_codes").await, 10);
}

#[tokio::test]
async fn a_password_change_comes_first() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let user = server.as_type("internal").await;
    admin.patch("/api/security/", json!({"systemconf": {"password_rotation_interval": 1}})).await.ok();
    admin.patch(PATH, json!({"internal": "required"})).await.ok();
    server.advance(DAY);
    let user = server.sign_in(&user.username, PASSWORD).await;
    let change = message::detail("Password change required.");
    user.get("/api/users/").await.expect_reply(403, change.clone());
    user.get(FACTORS).await.expect_reply(403, change);
    let body = json!({"current_password": PASSWORD, "new_password": "another long password"});
    user.post("/api/auth/password-change/", body).await.expect_empty();
    user.get("/api/users/").await.expect_reply(403, required());
    user.get(FACTORS).await.ok();
}

#[tokio::test]
async fn a_front_end_is_told_that_a_factor_is_required() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let browser = server.anonymous().with_header("accept", "text/html");
    let form = [("username", ADMIN), ("password", PASSWORD)];
    let reply = browser.call("POST", "/sign-in/").form(&form).send().await;
    let browser = browser.with_header("cookie", reply.header("set-cookie").split(';').next().unwrap());
    let start = async || browser.call("POST", "/api/auth/browser/token/").send().await.ok();
    let started = start().await;
    assert_eq!((&started["second_factor_required"], &started["ui_config"]), (&json!(false), &json!([])));
    admin.patch(PATH, json!({"super_admin": "required"})).await.ok();
    let started = start().await;
    assert_eq!((&started["second_factor_required"], &started["ui_config"]), (&json!(true), &Value::Null));
    assert_eq!((&started["password_change_required"], &started["user"]["username"]), (&json!(false), &json!(ADMIN)));
    assert_eq!(started["permissions"]["users"]["list"], true);
    let api = server.anonymous().with_token(started["access_token"].as_str().unwrap());
    api.get("/api/roles/").await.expect_reply(403, required());
    browser.call("POST", "/api/auth/browser/logout/").send().await.expect_empty();
}

#[tokio::test]
async fn services_need_none() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let everywhere =
        json!({"internal": "required", "external": "required", "full": "required", "super_admin": "required"});
    let clients: [ApiClient; 2] = [server.as_type("service_internal").await, server.as_type("service_external").await];
    admin.patch(PATH, everywhere).await.ok();
    for service in clients {
        service.get("/api/users/").await.ok();
    }
    admin.get("/api/users/").await.expect_reply(403, required());
}
