//! `/api/security/` (`docs/reference/security-rules.md`), and the effects of the rules on sign-in.

use crate::TestServer;
use crate::message;
use serde_json::{Value, json};
use testkit::{ADMIN, ApiClient, DAY, PASSWORD, SECOND};

const PATH: &str = "/api/security/";

#[tokio::test]
async fn the_defaults() {
    let server = TestServer::start().await;
    server.admin().await.get(PATH).await.expect_reply(
        200,
        json!({
            "password_complexity": {
                "max_repeating_chars": 0, "min_letters": 0, "min_numbers": 0, "min_symbols": 0,
                "min_lower_case": 0, "min_upper_case": 0, "min_length": 8,
            },
            "systemconf": {
                "password_prevent_reuse": false, "password_rotation_interval": 0, "activation_link_valid_period": 7,
            },
            "authentication_method": {"internal": "any", "external": "any", "full": "any", "super_admin": "any"},
            "_meta": {"permissions": {"view": true, "edit": true}},
        }),
    );
}

#[tokio::test]
async fn without_a_header_the_form_for_everyone() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.patch(PATH, json!({"password_complexity": {"min_numbers": 1, "max_repeating_chars": 3}})).await.ok();
    server.anonymous().get(PATH).await.expect_reply(
        200,
        json!({
            "max_repeating_chars": 3, "min_letters": 0, "min_numbers": 1, "min_symbols": 0,
            "min_lower_case": 0, "min_upper_case": 0, "min_length": 8,
        }),
    );
}

#[tokio::test]
async fn with_a_header_the_whole_form_or_401_or_403() {
    let server = TestServer::start().await;
    server.anonymous().with_token("no token").get(PATH).await.expect_reply(401, message::bad_token());
    let basic = server.anonymous().with_header("authorization", "Basic YTpi");
    basic.get(PATH).await.expect_reply(401, message::unauthenticated());
    for account_type in ["internal", "external", "full", "service_external"] {
        server.as_type(account_type).await.get(PATH).await.expect_reply(403, message::forbidden());
    }
    server.as_type("service_internal").await.get(PATH).await.ok();
    let reader = server.with_role(json!({"standard_authentication": ["list"]})).await;
    assert_eq!(reader.get(PATH).await.ok()["_meta"], json!({"permissions": {"view": true, "edit": false}}));
    reader.patch(PATH, json!({})).await.expect_reply(403, message::forbidden());
    let editor = server.with_role(json!({"standard_authentication": ["edit"]})).await;
    assert_eq!(editor.patch(PATH, json!({})).await.ok()["_meta"], json!({"permissions": {"view": true, "edit": true}}));
    server.anonymous().patch(PATH, json!({})).await.expect_reply(401, message::unauthenticated());
}

#[tokio::test]
async fn a_patch_changes_what_is_sent_and_answers_all_groups() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let body = json!({
        "password_complexity": {"min_length": 12, "min_symbols": 1, "planet": 5},
        "systemconf": {"password_rotation_interval": 90},
        "authentication_method": {"external": "password", "service_internal": "password"},
        "planet": "Mars",
    });
    let mut rules = json!({
        "password_complexity": {
            "max_repeating_chars": 0, "min_letters": 0, "min_numbers": 0, "min_symbols": 1,
            "min_lower_case": 0, "min_upper_case": 0, "min_length": 12,
        },
        "systemconf": {
            "password_prevent_reuse": false, "password_rotation_interval": 90, "activation_link_valid_period": 7,
        },
        "authentication_method": {
            "internal": "any", "external": "password", "full": "any", "super_admin": "any",
            "service_internal": "password", "service_external": "password",
        },
        "_meta": {"permissions": {"view": true, "edit": true}},
    });
    api.patch(PATH, body).await.expect_reply(200, rules.clone());
    api.patch(PATH, json!({})).await.expect_reply(200, rules.clone());
    let methods = rules["authentication_method"].as_object_mut().unwrap();
    methods.retain(|account_type, _| !account_type.starts_with("service"));
    api.get(PATH).await.expect_reply(200, rules);
}

#[tokio::test]
async fn every_integer_has_its_bounds() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let complexity = ["max_repeating_chars", "min_letters", "min_numbers", "min_symbols", "min_lower_case"];
    let complexity = complexity.into_iter().chain(["min_upper_case", "min_length"]);
    let bounds = complexity.map(|name| ("password_complexity", name, 128)).chain([
        ("systemconf", "password_rotation_interval", 32767),
        ("systemconf", "activation_link_valid_period", 32767),
    ]);
    for (group, name, most) in bounds {
        for right in [0, most] {
            let rules = api.patch(PATH, json!({group: {name: right}})).await.ok();
            assert_eq!(rules[group][name], right);
        }
        for (wrong, message) in [
            (json!(-1), "Ensure this value is greater than or equal to 0.".to_owned()),
            (json!(most + 1), format!("Ensure this value is less than or equal to {most}.")),
            (json!(u64::MAX), format!("Ensure this value is less than or equal to {most}.")),
            (json!("5"), "A valid integer is required.".to_owned()),
            (json!(5.5), "A valid integer is required.".to_owned()),
            (json!(true), "A valid integer is required.".to_owned()),
            (Value::Null, "This field may not be null.".to_owned()),
        ] {
            api.patch(PATH, json!({group: {name: wrong}})).await.refuses(json!({group: {name: [message]}}));
        }
    }
}

#[tokio::test]
async fn flags_methods_and_groups_are_checked_all_at_once() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let body = json!({
        "password_complexity": [1],
        "systemconf": {"password_prevent_reuse": "true", "password_rotation_interval": -1},
        "authentication_method": {"internal": "telepathy", "external": null, "full": 5, "super_admin": ["any"]},
    });
    api.patch(PATH, body).await.refuses(json!({
        "password_complexity": ["Invalid data. Expected a dictionary, but got list."],
        "systemconf": {
            "password_prevent_reuse": ["Must be a valid boolean."],
            "password_rotation_interval": ["Ensure this value is greater than or equal to 0."],
        },
        "authentication_method": {
            "internal": ["telepathy is not a valid choice."],
            "external": ["This field may not be null."],
            "full": ["5 is not a valid choice."],
            "super_admin": ["[\"any\"] is not a valid choice."],
        },
    }));
    api.patch(PATH, json!({"systemconf": null})).await.refuses(json!({"systemconf": ["This field may not be null."]}));
    let no_object = json!({"non_field_errors": ["Invalid data. Expected a dictionary, but got list."]});
    api.patch(PATH, json!([])).await.refuses(no_object);
    // Nothing was stored.
    assert_eq!(api.get(PATH).await.ok()["systemconf"]["password_rotation_interval"], 0);
}

#[tokio::test]
async fn the_methods_of_services_cannot_be_changed() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let methods = |internal: &str, external: &str| json!({"authentication_method": {"service_internal": internal, "service_external": external}});
    api.patch(PATH, methods("password", "password")).await.ok();
    api.patch(PATH, methods("any", "sso")).await.refuses(json!({"authentication_method": {
        "service_internal": ["This field cannot be changed."],
        "service_external": ["This field cannot be changed."],
    }}));
    let unknown = json!({"authentication_method": {"service_internal": "x"}});
    api.patch(PATH, unknown)
        .await
        .refuses(json!({"authentication_method": {"service_internal": ["x is not a valid choice."]}}));
}

#[tokio::test]
async fn super_admins_keep_a_way_in() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let body = json!({"authentication_method": {"super_admin": "sso"}});
    api.patch(PATH, body)
        .await
        .refuses(json!({"authentication_method": {"super_admin": ["Super admins could no longer sign in."]}}));
    api.patch(PATH, json!({"authentication_method": {"super_admin": "password"}})).await.ok();
    server.admin().await;
}

#[tokio::test]
async fn an_edit_of_what_somebody_else_has_changed_is_refused() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let seen = api.get(PATH).await.header("etag").to_owned();
    let body = json!({"systemconf": {"password_prevent_reuse": true}});
    let changed = api.with_header("if-match", &seen).patch(PATH, body).await.header("etag").to_owned();
    let late = api.with_header("if-match", &seen).patch(PATH, json!({})).await;
    late.expect_reply(412, message::detail("Object has been changed."));
    assert_eq!(api.get(PATH).await.header("etag"), changed);
    api.with_header("if-match", &changed).patch(PATH, json!({})).await.ok();
}

#[tokio::test]
async fn options_describe_the_three_groups() {
    let server = TestServer::start().await;
    server.anonymous().options(PATH).await.expect_reply(401, message::unauthenticated());
    let document = server.as_type("external").await.options(PATH).await.ok();
    let groups = document["details"]["schema"].as_array().unwrap();
    let names: Vec<&Value> = groups.iter().map(|group| &group["alias"]).collect();
    assert_eq!(names, ["password_complexity", "systemconf", "authentication_method"]);
    assert_eq!(
        groups[0]["schema"][0],
        json!({
            "alias": "max_repeating_chars", "type": "integer", "required": false, "editable": true,
            "validators": [{"name": "min_value", "value": 0}, {"name": "max_value", "value": 128}],
        })
    );
    let integers = groups.iter().flat_map(|group| group["schema"].as_array().unwrap());
    let integers: Vec<_> = integers.filter(|field| field["type"] == "integer").collect();
    assert_eq!(integers.len(), 9);
    assert!(integers.iter().all(|field| field["validators"][0] == json!({"name": "min_value", "value": 0})));
    let methods = groups[2]["schema"].as_array().unwrap();
    let editable: Vec<_> = methods.iter().map(|method| (method["alias"].clone(), method["editable"].clone())).collect();
    assert_eq!(
        json!(editable),
        json!([
            ["internal", true],
            ["external", true],
            ["full", true],
            ["super_admin", true],
            ["service_internal", false],
            ["service_external", false],
        ])
    );
    let values = json!([
        {"value": "any", "text": "Any"},
        {"value": "password", "text": "Password"},
        {"value": "sso", "text": "Single Sign-On"},
    ]);
    assert!(methods.iter().all(|method| method["type"] == "enum" && method["values"] == values));
}

#[tokio::test]
async fn the_method_of_an_account_type_decides_about_passwords() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let refused = message::detail("Unable to sign in with the credentials given.");
    for account_type in ["internal", "external", "full"] {
        let username = server.account(account_type).await;
        for (method, status) in [("sso", 401), ("password", 200), ("sso", 401), ("any", 200)] {
            api.patch(PATH, json!({"authentication_method": {account_type: method}})).await.ok();
            let reply = server.anonymous().login(&username, PASSWORD).await;
            assert_eq!(reply.status, status, "{account_type} {method}");
            assert!(status == 200 || reply.json == refused, "{reply:?}");
        }
    }
}

/// Returns the answer to a change of the caller's own password.
async fn change(caller: &ApiClient, current: &str, new: &str) -> testkit::Reply {
    caller.post("/api/auth/password-change/", json!({"current_password": current, "new_password": new})).await
}

#[tokio::test]
async fn complexity_holds_wherever_a_password_is_set() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let strict = json!({"password_complexity": {
        "max_repeating_chars": 2, "min_letters": 5, "min_numbers": 1, "min_symbols": 1, "min_lower_case": 4,
        "min_upper_case": 2, "min_length": 10,
    }});
    api.patch(PATH, strict).await.ok();
    let broken = json!([
        "Max repeating chars 2",
        "Min letters 5",
        "Min numbers 1",
        "Min symbols 1",
        "Min lower case 4",
        "Min upper case 2",
        "Min length 10",
    ]);

    let mut service = json!({
        "username": "robot@example.com", "account_type": "service_external", "first_name": "R", "last_name": "2",
        "password": "aaa",
    });
    api.post("/api/users/", service.clone()).await.refuses(json!({"password": broken}));
    service["password"] = json!("GOod enough 1!");
    let service = api.post("/api/users/", service).await.id();
    let path = format!("/api/users/{service}/");
    api.patch(&path, json!({"password": "GOod enoooough 1!"}))
        .await
        .refuses(json!({"password": ["Max repeating chars 2"]}));
    api.patch(&path, json!({"password": "GOod enough 2!"})).await.ok();

    change(&api, PASSWORD, "aaa").await.refuses(json!({"new_password": broken}));
    change(&api, PASSWORD, "GOod enough 3!").await.expect_empty();

    // The rules are enforced only for services. Other accounts choose their password by the link.
    let body = json!({
        "username": "ann@example.com", "account_type": "internal", "first_name": "Ann", "last_name": "Bee",
        "password": "aaa",
    });
    api.post("/api/users/", body).await.expect_created();
    let token = server.mail_to("ann@example.com").await.token();
    let activate = |password: &str| json!({"token": token, "password": password});
    let anonymous = server.anonymous();
    anonymous.post("/api/auth/activate/", activate("aaa")).await.refuses(json!({"password": broken}));
    anonymous.post("/api/auth/activate/", activate("GOod enough 4!")).await.expect_empty();

    anonymous.post("/api/auth/password-reset/", json!({"username": "ann@example.com"})).await.expect_empty();
    let token = server.mail_to("ann@example.com").await.token();
    let confirm = |password: &str| json!({"token": token, "password": password});
    anonymous.post("/api/auth/password-reset/confirm/", confirm("aaa")).await.refuses(json!({"password": broken}));
    anonymous.post("/api/auth/password-reset/confirm/", confirm("GOod enough 5!")).await.expect_empty();
    server.sign_in("ann@example.com", "GOod enough 5!").await;
}

#[tokio::test]
async fn a_password_is_not_used_again_when_the_rules_say_so() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    change(&api, PASSWORD, "another password").await.expect_empty();
    change(&api, "another password", PASSWORD).await.expect_empty();

    api.patch(PATH, json!({"systemconf": {"password_prevent_reuse": true}})).await.ok();
    let used = json!({"new_password": ["Password has been used before."]});
    change(&api, PASSWORD, PASSWORD).await.refuses(used.clone());
    change(&api, PASSWORD, "another password").await.refuses(used.clone());
    api.patch(PATH, json!({"password_complexity": {"min_numbers": 1}})).await.ok();
    let both = json!({"new_password": ["Min numbers 1", "Password has been used before."]});
    change(&api, PASSWORD, "another password").await.refuses(both);
    api.patch(PATH, json!({"password_complexity": {"min_numbers": 0}})).await.ok();

    // The last 24 passwords count, including the present one.
    let mut current = PASSWORD.to_owned();
    for n in 1..=23 {
        let next = format!("password number {n}");
        change(&api, &current, &next).await.expect_empty();
        current = next;
    }
    change(&api, &current, PASSWORD).await.refuses(used);
    change(&api, &current, "another password").await.expect_empty();

    // Passwords of other users do not count.
    let user = server.as_type("internal").await;
    change(&user, PASSWORD, "another password").await.expect_empty();
}

#[tokio::test]
async fn a_password_that_is_too_old_opens_nothing_but_its_change() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.patch(PATH, json!({"systemconf": {"password_rotation_interval": 30}})).await.ok();
    let user = server.as_type("internal").await;
    let shown = api.get(&format!("/api/users/{}/", user.id)).await.ok();
    assert_eq!(shown["password_expires_at"], "2026-03-02T09:30:00.000000Z");

    server.advance(30 * DAY - SECOND);
    let user = server.sign_in(&user.username, PASSWORD).await;
    user.get("/api/users/me/").await.ok();

    // The rule also applies within the session.
    server.advance(SECOND);
    let required = message::detail("Password change required.");
    for path in ["/api/users/me/", "/api/users/", "/api/users/permissions/", "/api/users/999/", PATH] {
        user.get(path).await.expect_reply(403, required.clone());
    }
    user.options("/api/users/").await.expect_reply(403, required.clone());

    let expired = server.sign_in(&user.username, PASSWORD).await;
    expired.get("/api/users/me/").await.expect_reply(403, required);
    let pair = expired.post("/api/auth/refresh/", json!({"refresh_token": expired.refresh_token})).await.ok();
    let expired = expired.with_pair(&user.username, &pair);
    change(&expired, PASSWORD, "a password of today").await.expect_empty();
    expired.get("/api/users/me/").await.ok();
    expired.post("/api/auth/logout/", json!({"refresh_token": expired.refresh_token})).await.expect_empty();

    // 0 means never.
    let admin = server.sign_in(ADMIN, PASSWORD).await;
    change(&admin, PASSWORD, "another of today").await.expect_empty();
    admin.patch(PATH, json!({"systemconf": {"password_rotation_interval": 0}})).await.ok();
    server.advance(10_000 * DAY);
    let user = server.sign_in(&user.username, "a password of today").await;
    assert_eq!(user.get("/api/users/me/").await.ok()["password_expires_at"], Value::Null);
}

#[tokio::test]
async fn an_activation_link_holds_for_the_days_that_the_rules_say() {
    for (days, after, status) in [
        (None, 7 * DAY - SECOND, 204),
        (None, 7 * DAY, 400),
        (Some(1), DAY - SECOND, 204),
        (Some(1), DAY, 400),
        (Some(0), 30_000 * DAY, 204),
    ] {
        let server = TestServer::start().await;
        let api = server.admin().await;
        if let Some(days) = days {
            api.patch(PATH, json!({"systemconf": {"activation_link_valid_period": days}})).await.ok();
        }
        let body =
            json!({"username": "ann@example.com", "account_type": "external", "first_name": "A", "last_name": "B"});
        api.post("/api/users/", body).await.expect_created();
        let body = json!({"token": server.mail_to("ann@example.com").await.token(), "password": PASSWORD});
        server.advance(after);
        let reply = server.anonymous().post("/api/auth/activate/", body).await;
        assert_eq!(reply.status, status, "{days:?} {after}");
        assert!(status == 204 || reply.json == json!({"token": ["Invalid token."]}), "{reply:?}");
    }
}
