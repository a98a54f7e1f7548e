//! `/api/users/` and `/api/users/{id}/` (`docs/reference/users.md`).

use crate::TestServer;
use crate::message;
use crate::shown::{START, admin as admin_reference, page};
use serde_json::{Value, json};
use testkit::{ADMIN, ApiClient, PASSWORD, SECOND, send_concurrently, statuses};

const TYPES: [&str; 7] =
    ["internal", "external", "full", "one_time_completion", "super_admin", "service_internal", "service_external"];

/// Returns the body of a user of a type, with a password if the type needs one.
fn body(username: &str, account_type: &str) -> Value {
    let mut body =
        json!({"username": username, "account_type": account_type, "first_name": "Ann", "last_name": "Berg"});
    if account_type.starts_with("service") {
        body["password"] = "long enough".into();
    }
    body
}

/// Adds members to a body.
fn with_members(mut body: Value, more: Value) -> Value {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn choice(value: &str) -> String {
    format!("{value} is not a valid choice.")
}

fn limit(limit: i64, account_type: &str) -> Value {
    message::limit_exceeded(&format!("{limit} {account_type} accounts"))
}

// ---- POST ----------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_user_is_created_and_shown_in_full() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    admin.post("/api/roles/", json!({"name": "Readers"})).await.expect_created();
    let request_body = json!({
        "username": "Ann.Berg@example.com",
        "account_type": "full",
        "first_name": "Ann",
        "last_name": "Berg",
        "job_title": "Clerk",
        "company_name": "Berg & Co",
        "phone": "+47 1",
        "mobile": "+47 2",
        "roles": [1],
        "timezone": "Europe/Oslo",
        "is_ip_restriction_enabled": true,
        "allowed_ip_ranges": ["10.0.0.0/8", "2001:db8::/32"],
    });

    let reply = admin.post("/api/users/", request_body).await;

    let expected = json!({
        "id": 2,
        "username": "Ann.Berg@example.com",
        "account_type": "full",
        "first_name": "Ann",
        "last_name": "Berg",
        "job_title": "Clerk",
        "company_name": "Berg & Co",
        "phone": "+47 1",
        "mobile": "+47 2",
        "roles": [1],
        "timezone": "Europe/Oslo",
        "is_ip_restriction_enabled": true,
        "allowed_ip_ranges": ["10.0.0.0/8", "2001:db8::/32"],
        "status": "invited",
        "activated_at": null,
        "password_set_at": null,
        "password_expires_at": null,
        "link_sent_at": null,
        "link_sent_by": admin_reference(),
        "next_actions": ["send_activation_link", "deactivate", "anonymize"],
        "created_at": START,
        "created_by": admin_reference(),
        "modified_at": START,
        "modified_by": admin_reference(),
        "_meta": {
            "labels": {"roles": ["Readers"]},
            "permissions": {"list": true, "view": true, "create": true, "edit": true, "delete": true},
            "allowed_account_type_changes": ["internal", "external", "super_admin"],
            "is_mail_set_up": false,
        },
    });
    reply.expect_reply(201, expected.clone());
    admin.get("/api/users/2/").await.expect_reply(200, expected);
}

#[tokio::test]
async fn omitted_members_have_defaults() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let user = admin.post("/api/users/", body("ann@example.com", "internal")).await.expect_created();
    for (field, value) in [
        ("job_title", json!("")),
        ("company_name", json!("")),
        ("phone", json!("")),
        ("mobile", json!("")),
        ("roles", json!([])),
        ("timezone", json!("UTC")),
        ("is_ip_restriction_enabled", json!(false)),
        ("allowed_ip_ranges", json!([])),
    ] {
        assert_eq!(user[field], value, "{field}");
    }
}

#[tokio::test]
async fn each_account_type_has_its_initial_status() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    for (account_type, status, is_mailed) in [
        ("internal", "invited", true),
        ("external", "invited", true),
        ("full", "invited", true),
        ("super_admin", "invited", true),
        ("service_internal", "active", false),
        ("service_external", "active", false),
        ("one_time_completion", "active", false),
    ] {
        let username = format!("{account_type}@example.com");
        let user = admin.post("/api/users/", body(&username, account_type)).await.expect_created();
        assert_eq!(user["status"], status, "{account_type}");
        assert_eq!(user["activated_at"].is_null(), status != "active", "{account_type}");
        assert_eq!(user["link_sent_by"].is_null(), !is_mailed, "{account_type}");
        let mails = server.mails().await;
        assert_eq!(mails.iter().filter(|mail| mail.to == username).count(), usize::from(is_mailed), "{account_type}");
    }
}

#[tokio::test]
async fn a_delayed_activation_mails_nothing() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    for account_type in ["internal", "external", "full", "super_admin"] {
        let username = format!("{account_type}@example.com");
        let user = admin
            .post("/api/users/", with_members(body(&username, account_type), json!({"delay_activation": true})))
            .await
            .expect_created();
        assert_eq!(
            (&user["status"], &user["link_sent_at"], &user["link_sent_by"]),
            (&json!("pending"), &json!(null), &json!(null))
        );
        let user = admin
            .post(
                "/api/users/",
                with_members(body(&format!("x{username}"), account_type), json!({"delay_activation": false})),
            )
            .await
            .expect_created();
        assert_eq!(user["status"], "invited");
    }
    assert_eq!(server.mails().await.len(), 4);
    for account_type in ["one_time_completion", "service_internal", "service_external"] {
        for delay in [true, false] {
            let sent = with_members(body("x@example.com", account_type), json!({"delay_activation": delay}));
            let message = "delay_activation can not be set with this account type.";
            admin.post("/api/users/", sent).await.refuses(json!({"delay_activation": [message]}));
        }
    }
}

#[tokio::test]
async fn required_fields() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let required = json!(["This field is required."]);
    admin.post("/api/users/", json!({})).await.refuses(json!({
        "username": required, "account_type": required, "first_name": required, "last_name": required,
    }));
    for account_type in ["service_internal", "service_external"] {
        admin.post("/api/users/", json!({"account_type": account_type})).await.refuses(json!({
            "username": required, "first_name": required, "last_name": required, "password": required,
        }));
    }
}

#[tokio::test]
async fn no_field_may_be_null() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let fields = [
        "username",
        "account_type",
        "first_name",
        "last_name",
        "job_title",
        "company_name",
        "phone",
        "mobile",
        "roles",
        "delay_activation",
        "timezone",
        "is_ip_restriction_enabled",
        "allowed_ip_ranges",
    ];
    let all = |value: Value| Value::Object(fields.iter().map(|field| ((*field).to_owned(), value.clone())).collect());
    let messages = all(json!(["This field may not be null."]));
    admin.post("/api/users/", all(Value::Null)).await.refuses(messages.clone());
    admin.patch("/api/users/1/", all(Value::Null)).await.refuses(messages);
    let null = json!({"password": ["This field may not be null."]});
    admin
        .post("/api/users/", with_members(body("s@example.com", "service_external"), json!({"password": null})))
        .await
        .refuses(null);
}

#[tokio::test]
async fn texts_have_their_lengths() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let too_long = |max: usize| json!([format!("Ensure this field has no more than {max} characters.")]);
    let long = json!({
        "username": format!("{}@{}.example.com", "a".repeat(60), "b".repeat(60)),
        "first_name": "ä".repeat(101),
        "last_name": "ä".repeat(101),
        "job_title": "ä".repeat(101),
        "company_name": "ä".repeat(101),
        "phone": "1".repeat(21),
        "mobile": "1".repeat(21),
    });
    let messages = json!({
        "username": too_long(100),
        "first_name": too_long(100),
        "last_name": too_long(100),
        "job_title": too_long(100),
        "company_name": too_long(100),
        "phone": too_long(20),
        "mobile": too_long(20),
    });
    admin
        .post("/api/users/", with_members(body("x@example.com", "internal"), long.clone()))
        .await
        .refuses(messages.clone());
    admin.patch("/api/users/1/", long).await.refuses(messages);

    let longest = json!({
        "username": format!("{}@{}.com", "a".repeat(60), "b".repeat(35)),
        "first_name": "ä".repeat(100),
        "last_name": "ä".repeat(100),
        "job_title": "ä".repeat(100),
        "company_name": "ä".repeat(100),
        "phone": "1".repeat(20),
        "mobile": "1".repeat(20),
    });
    admin.post("/api/users/", with_members(body("x@example.com", "internal"), longest)).await.expect_created();

    let blank = json!(["This field may not be blank."]);
    let blank_texts = json!({"username": " ", "first_name": "", "last_name": "\n"});
    admin.post("/api/users/", with_members(body("x@example.com", "internal"), blank_texts.clone())).await.refuses(
        json!({
            "username": blank, "first_name": blank, "last_name": blank,
        }),
    );
    admin
        .patch("/api/users/1/", blank_texts)
        .await
        .refuses(json!({"username": blank, "first_name": blank, "last_name": blank}));
    admin.patch("/api/users/1/", json!({"job_title": "", "company_name": "", "phone": "", "mobile": ""})).await.ok();
}

#[tokio::test]
async fn usernames_are_addresses_and_unique_ignoring_case() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    for username in [
        "ann",
        "ann@",
        "@example.com",
        "ann@example",
        "a b@example.com",
        "ann@exa mple.com",
        "ann@example.com\nBcc: x@example.com",
        "Ann <ann@example.com>",
        "ann@.com",
        "a@b@example.com",
        "ann@-x.com",
    ] {
        let refused = admin.post("/api/users/", body(username, "internal")).await;
        refused.refuses(json!({"username": ["Enter a valid email address."]}));
    }
    for username in ["ann@example.com", "Jörg+x@example.co.uk", "STRASSE@example.com"] {
        assert_eq!(admin.post("/api/users/", body(username, "internal")).await.expect_created()["username"], username);
    }
    for username in ["ANN@EXAMPLE.COM", " ann@example.com", "jÖrg+X@example.co.uk", "straße@example.com", ADMIN] {
        let refused = admin.post("/api/users/", body(username, "external")).await;
        refused.refuses(json!({"username": ["This field must be unique."]}));
    }
    admin
        .patch("/api/users/2/", json!({"username": "Admin@Example.com"}))
        .await
        .refuses(json!({"username": ["This field must be unique."]}));
    admin.patch("/api/users/2/", json!({"username": "ANN@example.com"})).await.ok();

    // The name of a deleted user can be used again.
    admin.delete("/api/users/2/").await.expect_empty();
    admin.post("/api/users/", body("ann@example.com", "internal")).await.expect_created();
}

#[tokio::test]
async fn choices_and_time_zones_are_exact() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    for (value, shown) in [
        (json!("robot"), "robot"),
        (json!("Internal"), "Internal"),
        (json!(""), ""),
        (json!(5), "5"),
        (json!(false), "False"),
    ] {
        admin
            .post("/api/users/", with_members(body("x@example.com", "internal"), json!({"account_type": value})))
            .await
            .refuses(json!({"account_type": [choice(shown)]}));
        admin
            .patch("/api/users/1/", json!({"account_type": value}))
            .await
            .refuses(json!({"account_type": [choice(shown)]}));
    }
    for zone in ["Mars/Olympus", "europe/oslo", "+01:00", ""] {
        admin
            .post("/api/users/", with_members(body("x@example.com", "internal"), json!({"timezone": zone})))
            .await
            .refuses(json!({"timezone": [choice(zone)]}));
    }
    for zone in ["UTC", "Europe/Oslo", "America/Argentina/Buenos_Aires"] {
        assert_eq!(admin.patch("/api/users/1/", json!({"timezone": zone})).await.ok()["timezone"], zone);
    }
}

#[tokio::test]
async fn address_ranges_have_a_prefix_and_are_at_most_ten() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let wrong = json!({"allowed_ip_ranges": ["Must be a valid set of IPv4 or IPv6 network addresses."]});
    for ranges in [
        json!(["10.0.0.1"]),
        json!(["10.0.0.0/33"]),
        json!(["2001:db8::/129"]),
        json!(["10.0.0.0/8", "x"]),
        json!(["/8"]),
        json!([5]),
        json!([null]),
        json!(["010.0.0.0/8"]),
        json!([""]),
    ] {
        admin.patch("/api/users/1/", json!({"allowed_ip_ranges": ranges})).await.refuses(wrong.clone());
    }
    let ranges =
        |count: usize| json!({"allowed_ip_ranges": (0..count).map(|n| format!("10.{n}.0.0/16")).collect::<Vec<_>>()});
    let over = json!({"allowed_ip_ranges": ["Limit of 10 IP restrictions has been exceeded."]});
    admin.patch("/api/users/1/", ranges(11)).await.refuses(over.clone());
    admin.post("/api/users/", with_members(body("x@example.com", "internal"), ranges(11))).await.refuses(over);
    assert_eq!(
        admin.patch("/api/users/1/", ranges(10)).await.ok()["allowed_ip_ranges"],
        ranges(10)["allowed_ip_ranges"]
    );
    admin
        .patch("/api/users/1/", json!({"is_ip_restriction_enabled": "yes"}))
        .await
        .refuses(json!({"is_ip_restriction_enabled": ["Must be a valid boolean."]}));
}

#[tokio::test]
async fn roles_are_for_configuration_admins() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    admin.post("/api/roles/", json!({"name": "Readers"})).await.expect_created();
    let refused = json!({"roles": ["Roles can be assigned only to config admin account."]});
    for account_type in TYPES {
        let user = body(&format!("{account_type}@example.com"), account_type);
        let reply = admin.post("/api/users/", with_members(user.clone(), json!({"roles": [1]}))).await;
        if account_type == "full" {
            assert_eq!(reply.expect_created()["roles"], json!([1]));
        } else {
            reply.refuses(refused.clone());
            assert_eq!(
                admin.post("/api/users/", with_members(user, json!({"roles": []}))).await.expect_created()["roles"],
                json!([])
            );
        }
    }
    admin.patch("/api/users/1/", json!({"roles": [1]})).await.refuses(refused);
    admin.patch("/api/users/1/", json!({"roles": []})).await.ok();
}

#[tokio::test]
async fn a_role_of_another_build_is_unknown() {
    let server = TestServer::start().await;
    let other = server.build("b.example").await.admin().await;
    other.post("/api/roles/", json!({"name": "Theirs"})).await.expect_created();
    let admin = server.admin().await;
    let unknown = json!({"roles": ["Invalid pk 1 - object does not exist."]});
    admin
        .post("/api/users/", with_members(body("x@example.com", "full"), json!({"roles": [1]})))
        .await
        .refuses(unknown);
}

#[tokio::test]
async fn the_password_of_a_service_account_keeps_the_rules_and_that_of_others_is_ignored() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    admin
        .patch("/api/security/", json!({"password_complexity": {"max_repeating_chars": 2, "min_numbers": 1}}))
        .await
        .ok();
    for (password, messages) in [
        (json!("aaa"), json!(["Max repeating chars 2", "Min numbers 1", "Min length 8"])),
        (json!("x".repeat(513)), json!(["Ensure this field has no more than 512 characters."])),
        (json!(12345678), json!(["Not a valid string."])),
        (json!(""), json!(["This field may not be blank."])),
    ] {
        let sent = with_members(body("s@example.com", "service_external"), json!({"password": password}));
        admin.post("/api/users/", sent).await.refuses(json!({"password": messages}));
    }
    let service = admin
        .post(
            "/api/users/",
            with_members(body("s@example.com", "service_external"), json!({"password": " long enough 1 "})),
        )
        .await
        .expect_created();
    assert_eq!((&service["password"], &service["password_set_at"]), (&Value::Null, &json!(START)));
    server.sign_in("s@example.com", " long enough 1 ").await;

    for (n, account_type) in ["internal", "external", "full", "super_admin", "one_time_completion"].iter().enumerate() {
        let username = format!("u{n}@example.com");
        let user = admin
            .post("/api/users/", with_members(body(&username, account_type), json!({"password": "x"})))
            .await
            .expect_created();
        assert_eq!((&user["password"], &user["password_set_at"]), (&Value::Null, &Value::Null), "{account_type}");
        assert_eq!(server.anonymous().login(&username, "x").await.status, 401);
    }
}

#[tokio::test]
async fn read_only_members_are_ignored() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let more = json!({
        "id": 77, "status": "active", "activated_at": "2020-01-01", "password_set_at": "2020-01-01", "link_sent_at": null, "link_sent_by": 5,
        "next_actions": [], "created_at": "2020-01-01", "created_by": 5, "full_name": "x", "last_login": "2020-01-01", "is_deleted": true,
        "password_hash": "x", "_meta": {}, "colour": "red",
    });
    let user = admin
        .post("/api/users/", with_members(body("ann@example.com", "internal"), more.clone()))
        .await
        .expect_created();
    assert_eq!(
        (&user["id"], &user["status"], &user["created_at"], &user["created_by"]),
        (&json!(2), &json!("invited"), &json!(START), &admin_reference())
    );
    let before = admin.get("/api/users/2/").await.ok();
    assert_eq!(admin.patch("/api/users/2/", more).await.ok(), before);
    assert_eq!(admin.get("/api/users/?id=2").await.column("full_name"), ["Ann Berg"]);
}

#[tokio::test]
async fn rules_over_several_fields_come_after_the_fields_and_limits_last() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    admin.post("/api/roles/", json!({"name": "Readers"})).await.expect_created();
    admin.post("/api/users/", body("one@example.com", "service_internal")).await.expect_created();
    let everything = json!({"roles": [1], "delay_activation": true, "phone": "1".repeat(21)});
    let second = with_members(body("two@example.com", "service_internal"), everything);
    admin
        .post("/api/users/", second.clone())
        .await
        .refuses(json!({"phone": ["Ensure this field has no more than 20 characters."]}));
    admin.post("/api/users/", with_members(second.clone(), json!({"phone": ""}))).await.refuses(json!({
        "roles": ["Roles can be assigned only to config admin account."],
        "delay_activation": ["delay_activation can not be set with this account type."],
    }));
    admin.post("/api/users/", body("two@example.com", "service_internal")).await.refuses(limit(1, "service_internal"));
}

#[tokio::test]
async fn each_type_has_a_limit_that_the_gone_do_not_fill() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let create =
        async |n: usize| admin.post("/api/users/", body(&format!("s{n}@example.com"), "service_external")).await;
    for n in 1..=5 {
        create(n).await.expect_created();
    }
    create(6).await.refuses(limit(5, "service_external"));

    admin.delete("/api/users/2/").await.expect_empty();
    create(6).await.expect_created();
    create(7).await.refuses(limit(5, "service_external"));

    admin.post("/api/users/3/anonymize/", json!({})).await.ok();
    create(7).await.expect_created();
    create(8).await.refuses(limit(5, "service_external"));

    // The deletion of the anonymized user does not free another place, and an inactive user still counts.
    admin.delete("/api/users/3/").await.expect_empty();
    admin.post("/api/users/4/deactivate/", json!({})).await.ok();
    create(8).await.refuses(limit(5, "service_external"));
}

#[tokio::test]
async fn the_limit_holds_for_changes_of_the_type() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    for n in 1..25 {
        admin
            .post(
                "/api/users/",
                with_members(body(&format!("u{n}@example.com"), "super_admin"), json!({"delay_activation": true})),
            )
            .await
            .expect_created();
    }
    admin.post("/api/users/", body("x@example.com", "super_admin")).await.refuses(limit(25, "super_admin"));
    let user = admin.post("/api/users/", body("x@example.com", "internal")).await.id();
    let path = format!("/api/users/{user}/");
    admin.patch(&path, json!({"account_type": "super_admin"})).await.refuses(limit(25, "super_admin"));
    admin.patch("/api/users/2/", json!({"account_type": "external"})).await.ok();
    admin.patch(&path, json!({"account_type": "super_admin"})).await.ok();
    admin.patch("/api/users/2/", json!({"account_type": "super_admin"})).await.refuses(limit(25, "super_admin"));
}

// ---- Who may -------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn only_super_admins_and_the_internal_service_make_or_change_their_like() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let manager = server.with_role(json!({"users": ["create", "edit", "delete"]})).await;
    let service = server.as_type("service_internal").await;
    for account_type in ["super_admin", "service_internal"] {
        manager.post("/api/users/", body("x@example.com", account_type)).await.expect_reply(403, message::forbidden());
    }
    let other = admin.post("/api/users/", body("other@example.com", "super_admin")).await.id();
    for id in [other, service.id] {
        let path = format!("/api/users/{id}/");
        manager.patch(&path, json!({"username": "mine@example.com"})).await.expect_reply(403, message::forbidden());
        manager.patch(&path, json!({})).await.expect_reply(403, message::forbidden());
        manager.patch(&path, json!({"account_type": "internal"})).await.expect_reply(403, message::forbidden());
        manager.delete(&path).await.expect_reply(403, message::forbidden());
        for action in ["send-activation-link", "deactivate", "reactivate", "unlock", "anonymize"] {
            manager.post(&format!("{path}{action}/"), json!({})).await.expect_reply(403, message::forbidden());
        }
        let shown = manager.get(&path).await.ok();
        assert_eq!(
            shown["_meta"]["permissions"],
            json!({"list": true, "view": true, "create": true, "edit": false, "delete": false})
        );
        assert_eq!(shown["_meta"]["allowed_account_type_changes"], json!([]));
    }
    let user = server.as_type("internal").await;
    let path = format!("/api/users/{}/", user.id);
    manager.patch(&path, json!({"account_type": "super_admin"})).await.expect_reply(403, message::forbidden());
    assert_eq!(manager.get(&path).await.ok()["_meta"]["allowed_account_type_changes"], json!(["external", "full"]));
    manager.patch(&path, json!({"job_title": "x"})).await.ok();

    service.patch(&path, json!({"account_type": "super_admin"})).await.ok();
    service.patch(&format!("/api/users/{other}/"), json!({"job_title": "x"})).await.ok();
    service.delete(&path).await.expect_empty();
}

#[tokio::test]
async fn a_caller_makes_nobody_a_super_admin_least_himself() {
    let server = TestServer::start().await;
    let manager = server.with_role(json!({"users": ["create", "edit", "delete"], "roles": ["create", "edit"]})).await;
    let own = format!("/api/users/{}/", manager.id);
    manager.patch(&own, json!({"account_type": "super_admin"})).await.expect_reply(403, message::forbidden());
    manager.patch(&own, json!({"account_type": "service_internal"})).await.expect_reply(403, message::forbidden());
    manager.patch("/api/users/me/", json!({"account_type": "super_admin", "roles": [1]})).await.ok();
    assert_eq!(manager.get("/api/users/me/").await.ok()["account_type"], "full");
}

#[tokio::test]
async fn nobody_gives_a_role_with_permissions_that_he_lacks() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let manager = server.with_role(json!({"users": ["create", "edit"]})).await;
    let small = admin.post("/api/roles/", json!({"name": "Small", "permissions": {"users": ["view"]}})).await.id();
    let large = admin
        .post("/api/roles/", json!({"name": "Large", "permissions": {"users": ["view"], "company_details": ["edit"]}}))
        .await
        .id();

    let sent = |roles: Value| with_members(body("ann@example.com", "full"), json!({"roles": roles}));
    manager.post("/api/users/", sent(json!([large]))).await.expect_reply(403, message::forbidden());
    manager.post("/api/users/", sent(json!([small, large]))).await.expect_reply(403, message::forbidden());
    let ann = manager.post("/api/users/", sent(json!([small]))).await.id();
    let path = format!("/api/users/{ann}/");
    manager.patch(&path, json!({"roles": [large]})).await.expect_reply(403, message::forbidden());
    manager
        .patch(&format!("/api/users/{}/", manager.id), json!({"roles": [1, large]}))
        .await
        .expect_reply(403, message::forbidden());

    // Roles that another user assigned may stay, and may be removed.
    admin.patch(&path, json!({"roles": [large]})).await.ok();
    manager.patch(&path, json!({"roles": [large, small]})).await.ok();
    manager.patch(&path, json!({"roles": []})).await.ok();
    manager.patch(&path, json!({"roles": [large]})).await.expect_reply(403, message::forbidden());
}

#[tokio::test]
async fn accounts_without_a_role_have_the_permissions_of_their_type() {
    let server = TestServer::start().await;
    for (account_type, list, view) in [
        ("super_admin", "all", 200),
        ("service_internal", "all", 200),
        ("internal", "all", 200),
        ("full", "all", 200),
        ("external", "own", 403),
        ("service_external", "own", 403),
    ] {
        let caller = server.as_type(account_type).await;
        let listed = caller.get("/api/users/").await;
        if list == "own" {
            assert_eq!(
                (listed.ids(), &listed["total_count"], &listed["filtered_count"]),
                (vec![caller.id], &json!(1), &json!(1)),
                "{account_type}"
            );
        } else {
            assert!(listed.ids().contains(&1) && listed.ids().contains(&caller.id), "{account_type}");
        }
        assert_eq!(caller.get("/api/users/1/").await.status, view, "{account_type}");
        let may_write = ["super_admin", "service_internal"].contains(&account_type);
        assert_eq!(
            caller.post("/api/users/", json!({})).await.status,
            if may_write { 400 } else { 403 },
            "{account_type}"
        );
    }
}

// ---- GET -----------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn the_list_shows_its_own_fields() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    server.advance(SECOND);
    admin.post("/api/users/", body("ann@example.com", "internal")).await.expect_created();
    let permissions = json!({"labels": {"roles": []}, "permissions": {"list": true, "view": true, "create": true, "edit": true, "delete": true}});

    let list = admin.get("/api/users/").await;

    let later = "2026-01-31T09:30:01.000000Z";
    list.expect_reply(
        200,
        page(json!([
            {
                "id": 1,
                "username": ADMIN,
                "roles": [],
                "account_type": "super_admin",
                "status": "active",
                "full_name": "admin Super Admin",
                "last_login": START,
                "activated_at": START,
                "password_set_at": START,
                "password_expires_at": null,
                "created_at": START,
                "created_by": null,
                "modified_at": START,
                "modified_by": null,
                "link_sent_at": null,
                "link_sent_by": null,
                "next_actions": ["deactivate", "anonymize"],
                "_meta": permissions,
            },
            {
                "id": 2,
                "username": "ann@example.com",
                "roles": [],
                "account_type": "internal",
                "status": "invited",
                "full_name": "Ann Berg",
                "last_login": null,
                "activated_at": null,
                "password_set_at": null,
                "password_expires_at": null,
                "created_at": later,
                "created_by": admin_reference(),
                "modified_at": later,
                "modified_by": admin_reference(),
                "link_sent_at": null,
                "link_sent_by": admin_reference(),
                "next_actions": ["send_activation_link", "deactivate", "anonymize"],
                "_meta": permissions,
            },
        ])),
    );
}

#[tokio::test]
async fn lists_name_roles_to_those_who_may_see_them() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let boss = server.with_role(json!({"roles": ["view"]})).await;
    let second = admin.post("/api/roles/", json!({"name": "Two\n\"lines\""})).await.expect_created();
    admin.patch(&format!("/api/users/{}/", boss.id), json!({"roles": [1, second["id"]]})).await.ok();
    let colleague = server.as_type("external").await;
    let group = admin.post("/api/user-groups/", json!({"name": "Team"})).await.id();
    admin
        .post(&format!("/api/user-groups/{group}/members/users/"), json!([boss.id, colleague.id]))
        .await
        .expect_created();
    let labels = async |caller: &ApiClient| {
        let list = caller.get(&format!("/api/users/?id={}", boss.id)).await;
        list.expect(200);
        (list["results"][0]["roles"].clone(), list["results"][0]["_meta"]["labels"].clone())
    };
    let names = json!({"roles": [format!("Role of {}", boss.username), "Two\n\"lines\""]});
    assert_eq!(labels(&admin).await, (json!([1, 2]), names.clone()));
    assert_eq!(labels(&boss).await, (json!([1, 2]), names.clone()));
    // A caller who may view neither roles nor users sees two null names, as the ids already reveal their number.
    assert_eq!(labels(&colleague).await, (json!([1, 2]), json!({"roles": [null, null]})));
    assert_eq!(admin.get(&format!("/api/users/{}/", boss.id)).await.ok()["_meta"]["labels"], names);
}

#[tokio::test]
async fn a_name_has_no_bidirectional_controls() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    for control in ['\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}'] {
        let sent = with_members(body("ann@example.com", "internal"), json!({"first_name": format!("An{control}na")}));
        admin.post("/api/users/", sent).await.refuses(json!({"first_name": ["Enter a valid value."]}));
    }
    admin
        .patch("/api/users/me/", json!({"last_name": "\u{202e}Berg"}))
        .await
        .refuses(json!({"last_name": ["Enter a valid value."]}));
}

#[tokio::test]
async fn permissions_shown_are_those_that_hold() {
    let server = TestServer::start().await;
    let other = server.as_type("internal").await;
    for (permissions, shown) in [
        (json!({}), json!({"list": true, "view": true, "create": false, "edit": false, "delete": false})),
        (
            json!({"users": ["edit"]}),
            json!({"list": true, "view": true, "create": false, "edit": true, "delete": false}),
        ),
        (
            json!({"users": ["create", "delete"]}),
            json!({"list": true, "view": true, "create": true, "edit": false, "delete": true}),
        ),
    ] {
        let caller = server.with_role(permissions).await;
        let path = format!("/api/users/{}/", other.id);
        assert_eq!(caller.get(&path).await.ok()["_meta"]["permissions"], shown);
        assert_eq!(
            caller.get(&format!("/api/users/?id={}", other.id)).await["results"][0]["_meta"],
            json!({"labels": {"roles": []}, "permissions": shown})
        );
        assert_eq!(caller.patch(&path, json!({})).await.status == 200, shown["edit"] == true);
    }
}

// ---- PATCH ---------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_new_username_ends_what_the_former_one_had() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let editor = server.with_role(json!({"users": ["edit"]})).await;
    let user = server.as_type("internal").await;
    let path = format!("/api/users/{}/", user.id);
    server.anonymous().post("/api/auth/password-reset/", json!({"username": user.username})).await.expect_empty();
    let link = server.mail_to(&user.username).await.token();

    editor.patch(&path, json!({"username": "new@example.com", "first_name": "Nina"})).await.ok();

    let mail = server.mail_to(&user.username).await;
    assert_eq!(mail.subject, "Your username at a.example was changed");
    assert_eq!(
        mail.text,
        "Hello internal,\n\nthis address is no longer the username of your account at a.example. The account was signed \
         out, and you sign in with the new username from now on.\n\nIf you did not expect this, tell your administrator.\n"
    );
    user.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    let refresh = json!({"refresh_token": user.refresh_token});
    user.post("/api/auth/refresh/", refresh).await.expect_reply(401, message::bad_token());
    let reset = json!({"token": link, "password": "another one"});
    user.anonymous()
        .post("/api/auth/password-reset/confirm/", reset)
        .await
        .refuses(json!({"token": ["Invalid token."]}));
    server.sign_in("new@example.com", PASSWORD).await;

    // The session that makes the change continues. The user's other sessions end. Another spelling is a change, too.
    let other = server.sign_in(&editor.username, PASSWORD).await;
    let own = format!("/api/users/{}/", editor.id);
    editor.patch(&own, json!({"username": editor.username.to_uppercase()})).await.ok();
    editor.get("/api/users/me/").await.ok();
    other.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    assert_eq!(server.mail_to(&editor.username).await.subject, "Your username at a.example was changed");
    // An unchanged name and a name that was never used have no consequences.
    let mails = server.mails().await.len();
    editor.patch(&own, json!({"username": editor.username.to_uppercase()})).await.ok();
    let pending = with_members(body("never@example.com", "internal"), json!({"delay_activation": true}));
    let never = admin.post("/api/users/", pending).await.id();
    editor.patch(&format!("/api/users/{never}/"), json!({"username": "not.yet@example.com"})).await.ok();
    admin.post(&format!("/api/users/{never}/anonymize/"), json!({})).await.ok();
    admin.post(&format!("{path}anonymize/"), json!({})).await.ok();
    admin.patch(&path, json!({"username": "nobody@example.com"})).await.ok();
    assert_eq!(server.mails().await.len(), mails);
}

#[tokio::test]
async fn only_super_admins_rename_whom_rights_on_objects_hang_on() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let editor = server.with_role(json!({"users": ["edit"], "user_groups": ["create"]})).await;
    let mut users = Vec::new();
    for _ in 0..4 {
        users.push(server.as_type("internal").await.id);
    }
    let [owner, assigned, through_group, member] = users[..] else { panic!("{users:?}") };
    for (group, member) in [("Group", member), ("Team", through_group)] {
        let group = admin.post("/api/user-groups/", json!({"name": group})).await.id();
        admin.post(&format!("/api/user-groups/{group}/members/users/"), json!([member])).await.expect_created();
    }
    admin.post("/api/user-groups/1/owners/users/", json!([owner])).await.expect_created();
    let sets = "/api/user-groups/1/permission-sets/";
    let set = admin.post(sets, json!({"name": "Editors"})).await.id();
    admin.post(&format!("{sets}{set}/assignees/users/"), json!([assigned])).await.expect_created();
    admin.post(&format!("{sets}{set}/assignees/user-groups/"), json!([2])).await.expect_created();
    let rename = |id: i64| json!({"username": format!("mine.{id}@example.com")});
    for id in [owner, assigned, through_group] {
        let path = format!("/api/users/{id}/");
        editor.patch(&path, rename(id)).await.expect_reply(403, message::forbidden());
        editor.patch(&path, json!({"last_name": "Changed"})).await.ok();
    }
    editor.patch(&format!("/api/users/{member}/"), rename(member)).await.ok();
    // The editor cannot rename themselves either, since they own a group.
    editor.post("/api/user-groups/", json!({"name": "Own"})).await.expect_created();
    editor
        .patch(&format!("/api/users/{}/", editor.id), rename(editor.id))
        .await
        .expect_reply(403, message::forbidden());
    let service = server.as_type("service_internal").await;
    admin.patch(&format!("/api/users/{owner}/"), rename(owner)).await.ok();
    service.patch(&format!("/api/users/{assigned}/"), rename(assigned)).await.ok();
}

#[tokio::test]
async fn a_patch_changes_what_is_sent_and_nothing_else() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    admin.post("/api/users/", body("ann@example.com", "internal")).await.expect_created();
    let before = admin.get("/api/users/2/").await.ok();
    server.advance(SECOND);
    let editor = server.with_role(json!({"users": ["edit"]})).await;

    let reply = editor
        .patch("/api/users/2/", json!({"last_name": " Bär ", "phone": "+47 3", "username": "Ann@example.org"}))
        .await;

    let mut expected = before;
    expected["last_name"] = "Bär".into();
    expected["phone"] = "+47 3".into();
    expected["username"] = "Ann@example.org".into();
    expected["modified_at"] = "2026-01-31T09:30:01.000000Z".into();
    expected["modified_by"] = crate::shown::user(&editor, "full");
    expected["_meta"]["permissions"]["create"] = false.into();
    expected["_meta"]["permissions"]["delete"] = false.into();
    expected["_meta"]["allowed_account_type_changes"] = json!(["external", "full"]);
    reply.expect_reply(200, expected.clone());
    editor.get("/api/users/2/").await.expect_reply(200, expected);
    assert_eq!(admin.get("/api/users/?full_name=Ann+Bär").await.ids(), [2]);
}

#[tokio::test]
async fn account_types_change_into_one_another_or_never() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let changeable = ["internal", "external", "full", "super_admin"];
    for (n, from) in TYPES.iter().enumerate() {
        let id = admin.post("/api/users/", body(&format!("u{n}@example.com"), from)).await.id();
        let path = format!("/api/users/{id}/");
        for to in TYPES {
            let allowed = from == &to || (changeable.contains(from) && changeable.contains(&to));
            let reply = admin.patch(&path, json!({"account_type": to})).await;
            if allowed {
                assert_eq!(reply.ok()["account_type"], to);
                admin.patch(&path, json!({"account_type": from})).await.ok();
            } else {
                reply
                    .refuses(json!({"account_type": [format!("Account type cannot be changed from {from} to {to}.")]}));
            }
        }
        let shown = admin.get(&path).await.ok();
        let others: Vec<&str> = if changeable.contains(from) {
            changeable.into_iter().filter(|to| to != from).collect()
        } else {
            Vec::new()
        };
        assert_eq!(shown["_meta"]["allowed_account_type_changes"], json!(others), "{from}");
    }
}

#[tokio::test]
async fn a_former_configuration_admin_loses_all_roles() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let user = server.with_role(json!({"roles": ["list"]})).await;
    let path = format!("/api/users/{}/", user.id);
    user.get("/api/roles/").await.ok();

    let changed = admin.patch(&path, json!({"account_type": "internal"})).await.ok();

    assert_eq!((&changed["roles"], &changed["_meta"]["labels"]["roles"]), (&json!([]), &json!([])));
    user.get("/api/roles/").await.expect_reply(403, message::forbidden());
    admin.patch(&path, json!({"account_type": "full"})).await.ok();
    user.get("/api/roles/").await.expect_reply(403, message::forbidden());
    admin.patch(&path, json!({"roles": [1]})).await.ok();
    user.get("/api/roles/").await.ok();
}

#[tokio::test]
async fn a_super_admin_changes_the_password_of_service_accounts_alone() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let service = server.as_type("service_external").await;
    let path = format!("/api/users/{}/", service.id);
    server.advance(SECOND);
    admin.patch(&path, json!({"password": "short"})).await.refuses(json!({"password": ["Min length 8"]}));
    admin.patch(&path, json!({"password": null})).await.refuses(json!({"password": ["This field may not be null."]}));
    service.get("/api/users/me/").await.ok();

    let changed = admin.patch(&path, json!({"password": "another one"})).await.ok();

    assert_eq!(changed["password_set_at"], "2026-01-31T09:30:01.000000Z");
    service.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    service
        .post("/api/auth/refresh/", json!({"refresh_token": service.refresh_token}))
        .await
        .expect_reply(401, message::bad_token());
    assert_eq!(server.anonymous().login(&service.username, PASSWORD).await.status, 401);
    server.sign_in(&service.username, "another one").await;

    for account_type in ["internal", "external", "full", "super_admin"] {
        let user = server.as_type(account_type).await;
        for password in ["another one", "x", ""] {
            admin.patch(&format!("/api/users/{}/", user.id), json!({"password": password})).await.ok();
        }
        user.get("/api/users/me/").await.ok();
        server.sign_in(&user.username, PASSWORD).await;
    }
}

#[tokio::test]
async fn others_change_no_password() {
    let server = TestServer::start().await;
    let (internal, external) = (server.as_type("service_internal").await, server.as_type("service_external").await);
    let editor = server.with_role(json!({"users": ["edit"]})).await;
    let user = server.as_type("internal").await;
    for caller in [&internal, &editor] {
        let change = json!({"password": "another one", "job_title": "x"});
        caller
            .patch(&format!("/api/users/{}/", external.id), change.clone())
            .await
            .expect_reply(403, message::forbidden());
        assert_eq!(caller.patch(&format!("/api/users/{}/", user.id), change).await.ok()["job_title"], "x");
    }
    internal
        .patch(&format!("/api/users/{}/", internal.id), json!({"password": "another one"}))
        .await
        .expect_reply(403, message::forbidden());
    for client in [&internal, &external, &user] {
        server.sign_in(&client.username, PASSWORD).await;
    }
}

#[tokio::test]
async fn a_change_that_is_refused_changes_nothing() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let before = admin.get("/api/users/1/").await.ok();
    admin
        .patch("/api/users/1/", json!({"first_name": "Ann", "timezone": "Mars"}))
        .await
        .refuses(json!({"timezone": [choice("Mars")]}));
    admin
        .patch("/api/users/1/", json!({"first_name": "Ann", "account_type": "full"}))
        .await
        .refuses(message::detail("The last super admin must remain."));
    assert_eq!(admin.get("/api/users/1/").await.ok(), before);
}

// ---- DELETE --------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_deleted_user_is_gone_but_for_the_references() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let user = server.with_role(json!({"roles": ["create"]})).await;
    user.post("/api/roles/", json!({"name": "Theirs"})).await.expect_created();
    let path = format!("/api/users/{}/", user.id);

    admin.delete(&path).await.expect_empty();

    user.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    user.post("/api/auth/refresh/", json!({"refresh_token": user.refresh_token}))
        .await
        .expect_reply(401, message::bad_token());
    assert_eq!(server.anonymous().login(&user.username, PASSWORD).await.status, 401);
    for reply in [
        admin.get(&path).await,
        admin.patch(&path, json!({})).await,
        admin.delete(&path).await,
        admin.post(&format!("{path}deactivate/"), json!({})).await,
    ] {
        reply.expect_reply(404, message::not_found());
    }
    let list = admin.get("/api/users/").await;
    assert_eq!((list.ids(), &list["total_count"]), (vec![1], &json!(1)));
    assert_eq!(admin.get("/api/users/autocomplete/").await.column("value"), [1]);
    let mut reference = crate::shown::user(&user, "full");
    reference["is_deleted"] = true.into();
    assert_eq!(admin.get("/api/roles/2/").await.ok()["created_by"], reference);
    // The filter still matches the reference.
    assert_eq!(admin.get(&format!("/api/roles/?created_by={}", user.id)).await.ids(), [2]);
}

#[tokio::test]
async fn the_last_super_admin_must_remain() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let remain = message::detail("The last super admin must remain.");
    let refuse_all = async |caller: &ApiClient| {
        caller.patch("/api/users/1/", json!({"account_type": "internal"})).await.refuses(remain.clone());
        caller.delete("/api/users/1/").await.refuses(remain.clone());
        caller.post("/api/users/1/deactivate/", json!({})).await.refuses(remain.clone());
        caller.post("/api/users/1/anonymize/", json!({})).await.refuses(remain.clone());
    };
    refuse_all(&admin).await;
    // An inactive super admin, or one who was never active, does not count.
    let invited = admin.post("/api/users/", body("invited@example.com", "super_admin")).await.id();
    refuse_all(&admin).await;
    admin.post(&format!("/api/users/{invited}/deactivate/"), json!({})).await.ok();
    refuse_all(&admin).await;
    refuse_all(&server.as_type("service_internal").await).await;

    let second = server.as_type("super_admin").await;
    admin.delete("/api/users/1/").await.expect_empty();
    let remain = message::detail("The last super admin must remain.");
    second.delete(&format!("/api/users/{}/", second.id)).await.refuses(remain);
}

#[tokio::test]
async fn two_super_admins_cannot_leave_at_once() {
    let server = TestServer::start().await;
    let (first, second) = (server.admin().await, server.as_type("super_admin").await);
    let leave = |client: &ApiClient| client.call("DELETE", &format!("/api/users/{}/", client.id));
    let statuses = statuses(&send_concurrently([leave(&first), leave(&second)]).await);
    assert_eq!(statuses, [204, 400]);
}
