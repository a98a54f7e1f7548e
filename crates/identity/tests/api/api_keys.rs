//! `/api/users/{id}/api-keys/`, and calls by API keys (`docs/reference/api-keys.md`).

use crate::TestServer;
use crate::message;
use crate::shown::{START, admin, page};
use serde_json::{Value, json};
use testkit::{ApiClient, SECOND, TestBuild, eventually, one_wins, send_concurrently};

const IN_A_MONTH: &str = "2026-03-01T00:00:00.000000Z";

/// Creates a service account. Returns its id.
async fn service(api: &ApiClient, account_type: &str) -> i64 {
    let body = json!({
        "username": format!("{account_type}@example.com"), "account_type": account_type, "first_name": "Night",
        "last_name": "Import", "password": "correct horse battery",
    });
    api.post("/api/users/", body).await.id()
}

/// Creates a key. Returns a client that uses it.
async fn with_key(tenant: &TestBuild, api: &ApiClient, account: i64, permissions: Value) -> ApiClient {
    let name: String = permissions.to_string().chars().take(100).collect();
    let body = json!({"name": name, "permissions": permissions, "expires_at": IN_A_MONTH});
    let made = api.post(&format!("/api/users/{account}/api-keys/"), body).await.expect_created();
    by_key(tenant, &made)
}

fn by_key(tenant: &TestBuild, made: &Value) -> ApiClient {
    tenant.anonymous().with_header("authorization", &format!("Bearer {}", made["key"].as_str().unwrap()))
}

#[tokio::test]
async fn a_key_from_its_creation_to_its_end() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let account = service(&api, "service_internal").await;
    let path = format!("/api/users/{account}/api-keys/");
    let permissions = json!({"user_groups": ["create"], "roles": ["edit"]});
    let body = json!({"name": " Nightly import ", "permissions": permissions, "expires_at": IN_A_MONTH});
    let mut made = api.post(&path, body).await.expect_created();
    let key = made["key"].as_str().unwrap().to_owned();
    assert!(key.len() == 47 && key.starts_with("chk_"), "{key}");
    made.as_object_mut().unwrap().remove("key");
    let mut shown = json!({
        "id": 1,
        "name": "Nightly import",
        "prefix": key[..12],
        "permissions": {"user_groups": ["list", "view", "create"], "roles": ["list", "view", "edit"]},
        "expires_at": IN_A_MONTH,
        "created_at": START,
        "created_by": admin(),
        "last_used_at": null,
    });
    assert_eq!(made, shown);
    api.get(&path).await.expect_reply(200, page(json!([shown])));
    api.get(&format!("{path}1/")).await.expect_reply(200, shown.clone());

    // Both schemes mean the same.
    for scheme in ["JWT", "Bearer", "bearer"] {
        let program = server.anonymous().with_header("authorization", &format!("{scheme} {key}"));
        assert_eq!(program.get("/api/users/me/").await.ok()["id"], account, "{scheme}");
    }
    shown["last_used_at"] = json!(START);
    eventually(async || api.get(&format!("{path}1/")).await.ok() == shown).await;

    let program = server.anonymous().with_token(&key);
    let group = program.post("/api/user-groups/", json!({"name": "Nightly"})).await.expect_created();
    assert_eq!(group["created_by"]["id"], account);
    let entry = api.get("/api/administration/log/?resource=user_groups&action=create").await.ok();
    assert_eq!(entry["results"][0]["by"]["id"], account);

    assert_eq!(api.patch(&format!("{path}1/"), json!({})).await.status, 405);
    api.delete(&format!("{path}1/")).await.expect_empty();
    program.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    api.get(&path).await.expect_reply(200, page(json!([])));

    let log = api.get("/api/administration/log/?resource=api_keys&ordering=id").await.ok();
    let log: Vec<Value> = log["results"].as_array().unwrap().clone();
    let told = |entry: &Value| (entry["action"].clone(), entry["object_name"].clone(), entry["by"]["id"].clone());
    let name = json!("service_internal@example.com: Nightly import");
    assert_eq!(
        log.iter().map(told).collect::<Vec<_>>(),
        [(json!("create"), name.clone(), json!(1)), (json!("delete"), name, json!(1)),]
    );
    assert!(!log[0].to_string().contains(&key), "{}", log[0]);
}

#[tokio::test]
async fn the_fields_have_the_standard_rules() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let account = service(&api, "service_external").await;
    let path = format!("/api/users/{account}/api-keys/");
    api.post(&path, json!({})).await.refuses(json!({
        "name": ["This field is required."],
        "permissions": ["This field is required."],
        "expires_at": ["This field is required."],
    }));
    let body = json!({"name": "A", "permissions": null, "expires_at": START});
    api.post(&path, body).await.refuses(json!({"expires_at": ["Date must be in the future."]}));
    let body = json!({"name": "A", "permissions": null, "expires_at": "2027-02-01T09:30:00.000001Z"});
    let message = "Ensure this value is less than or equal to 2027-02-01T09:30:00.000000Z.";
    api.post(&path, body).await.refuses(json!({"expires_at": [message]}));
    // The account has few permissions, and some of them are for no role.
    let permissions =
        json!({"users": ["view", "fly"], "planets": ["list"], "roles": "all", "mcp_connectors": ["list"]});
    let body = json!({"name": "A", "permissions": permissions, "expires_at": IN_A_MONTH});
    api.post(&path, body).await.refuses(json!({"permissions": {
        "users": ["Invalid actions view,fly."],
        "planets": ["Invalid actions list."],
        "roles": ["Expected a list of items but got type str."],
        "mcp_connectors": ["Invalid actions list."],
    }}));
    let body = json!({"name": "Import", "permissions": {}, "expires_at": "2027-02-01T09:30:00Z"});
    api.post(&path, body).await.expect_created();
    let body = json!({"name": "IMPORT", "permissions": null, "expires_at": IN_A_MONTH});
    api.post(&path, body).await.refuses(json!({"name": ["This field must be unique."]}));
}

#[tokio::test]
async fn only_super_admins_and_only_for_service_accounts() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let account = service(&api, "service_internal").await;
    let path = format!("/api/users/{account}/api-keys/");
    let body = json!({"name": "Key", "permissions": null, "expires_at": IN_A_MONTH});
    let made = api.post(&path, body.clone()).await.expect_created();
    let program = server.sign_in("service_internal@example.com", "correct horse battery").await;
    let full = server.with_role(json!({"users": ["list", "view", "edit", "create", "delete"]})).await;
    for caller in [&program, &full, &by_key(&server, &made)] {
        for one in [&path, &format!("{path}1/"), &"/api/users/99/api-keys/".to_owned()] {
            caller.get(one).await.expect_reply(403, message::forbidden());
        }
        caller.post(&path, body.clone()).await.expect_reply(403, message::forbidden());
        caller.delete(&format!("{path}1/")).await.expect_reply(403, message::forbidden());
    }
    let unavailable = message::detail("Action is not available.");
    api.post("/api/users/1/api-keys/", body.clone()).await.expect_reply(400, unavailable);
    // Accounts of people have none.
    api.get("/api/users/1/api-keys/").await.expect_reply(200, page(json!([])));
    api.post("/api/users/99/api-keys/", body).await.expect_reply(404, message::not_found());
    // The key of another account.
    let other = service(&api, "service_external").await;
    for method in ["GET", "DELETE"] {
        api.call(method, &format!("/api/users/{other}/api-keys/1/"))
            .send()
            .await
            .expect_reply(404, message::not_found());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_has_twenty_keys_at_most() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let account = service(&api, "service_external").await;
    let path = format!("/api/users/{account}/api-keys/");
    let body = |n: usize| json!({"name": format!("Key {n}"), "permissions": null, "expires_at": IN_A_MONTH});
    for n in 1..20 {
        api.post(&path, body(n)).await.expect_created();
    }
    let calls = (20..40).map(|n| api.call("POST", &path).json(&body(n)));
    one_wins(&send_concurrently(calls).await, 201, &message::limit_exceeded("20 API Keys"));
    assert_eq!(api.get(&path).await.ok()["total_count"], 20);
}

#[tokio::test]
async fn a_key_ends_with_its_time_and_its_account() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let account = service(&api, "service_internal").await;
    let path = format!("/api/users/{account}/api-keys/");
    let soon = json!({"name": "Soon", "permissions": null, "expires_at": "2026-01-31T09:31:00Z"});
    let soon = by_key(&server, &api.post(&path, soon).await.expect_created());
    let program = with_key(&server, &api, account, json!(null)).await;
    let me = "/api/users/me/";
    soon.get(me).await.ok();
    server.advance(60 * SECOND - 1);
    soon.get(me).await.ok();
    server.advance(1);
    soon.get(me).await.expect_reply(401, message::bad_token());
    soon.post("/api/user-groups/", json!({"name": "A"})).await.expect_reply(401, message::bad_token());

    // A new password ends sessions, not keys.
    api.patch(&format!("/api/users/{account}/"), json!({"password": "another long password"})).await.ok();
    program.get(me).await.ok();
    api.post(&format!("/api/users/{account}/deactivate/"), json!({})).await.ok();
    program.get(me).await.expect_reply(401, message::bad_token());
    api.post(&format!("/api/users/{account}/reactivate/"), json!({})).await.ok();
    program.get(me).await.ok();

    let ranges = json!({"is_ip_restriction_enabled": true, "allowed_ip_ranges": ["203.0.113.0/24"]});
    api.patch(&format!("/api/users/{account}/"), ranges).await.ok();
    let elsewhere = message::detail("Access from this address is not allowed.");
    program.get(me).await.expect_reply(403, elsewhere);
    api.patch(&format!("/api/users/{account}/"), json!({"is_ip_restriction_enabled": false})).await.ok();
    program.get(me).await.ok();

    api.delete(&format!("/api/users/{account}/")).await.expect_empty();
    program.get(me).await.expect_reply(401, message::bad_token());
    api.get(&path).await.expect_reply(404, message::not_found());
}

#[tokio::test]
async fn a_wrong_key_is_a_wrong_token() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let account = service(&api, "service_internal").await;
    let body = json!({"name": "Key", "permissions": null, "expires_at": IN_A_MONTH});
    let made = api.post(&format!("/api/users/{account}/api-keys/"), body).await.expect_created();
    let key = made["key"].as_str().unwrap();
    let upper = key.to_uppercase();
    let longer = format!("{key}A");
    for wrong in ["chk_", &key[..46], &longer, &upper, &key[4..], &format!("{}.", &key[..46])] {
        server.anonymous().with_token(wrong).get("/api/users/me/").await.expect_reply(401, message::bad_token());
    }
    // A key belongs to one build.
    let other = server.build("b.example").await;
    other.anonymous().with_token(key).get("/api/users/me/").await.expect_reply(401, message::bad_token());
    // Other schemes do not take it.
    let basic = server.anonymous().with_header("authorization", &format!("Basic {key}"));
    basic.get("/api/users/me/").await.expect_reply(401, message::unauthenticated());
    let header = server.anonymous().with_header("x-api-key", key);
    header.get("/api/users/me/").await.expect_reply(401, message::unauthenticated());
}

#[tokio::test]
async fn a_key_without_permissions_of_its_own_has_those_of_its_account() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let account = service(&api, "service_internal").await;
    let program = with_key(&server, &api, account, json!(null)).await;
    let all = api.get("/api/users/permissions/").await.ok();
    program.get("/api/users/permissions/").await.expect_reply(200, all);
    program.post("/api/roles/", json!({"name": "Clerks", "permissions": {"users": ["edit"]}})).await.expect_created();
    // Only super admins may change a super admin, and the account counts as one.
    program.patch("/api/users/1/", json!({"job_title": "Boss"})).await.ok();
}

#[tokio::test]
async fn a_narrowed_key_is_no_super_admin() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let account = service(&api, "service_internal").await;
    let permissions = json!({
        "users": ["list", "view", "edit", "create", "delete"], "roles": ["create", "edit"], "single_sign_on": ["create"],
        "user_groups": ["create"], "standard_authentication": ["list"],
    });
    let program = with_key(&server, &api, account, permissions).await;
    let held = program.get("/api/users/permissions/").await.ok();
    assert_eq!((&held["users"]["delete"], &held["user_groups"]["edit"]), (&json!(true), &json!(false)));

    // It cannot change super admins, make one, or give what it lacks.
    let forbidden = message::forbidden();
    program.patch("/api/users/1/", json!({"job_title": "Boss"})).await.expect_reply(403, forbidden.clone());
    program.delete("/api/users/1/").await.expect_reply(403, forbidden.clone());
    let person =
        json!({"username": "a@example.com", "account_type": "super_admin", "first_name": "A", "last_name": "B"});
    program.post("/api/users/", person.clone()).await.expect_reply(403, forbidden.clone());
    let role = json!({"name": "Strong", "permissions": {"company_details": ["edit"]}});
    program.post("/api/roles/", role).await.expect_reply(403, forbidden.clone());
    program.post("/api/roles/", json!({"name": "Weak", "permissions": {"users": ["edit"]}})).await.expect_created();
    let shown = program.get("/api/users/1/").await.ok();
    assert_eq!(shown["_meta"]["permissions"]["edit"], false);
    assert_eq!(shown["_meta"]["allowed_account_type_changes"], json!([]));
    // It does not change its own account either, and the account says so.
    let own = program.get(&format!("/api/users/{account}/")).await.ok();
    assert_eq!(
        own["_meta"]["permissions"],
        json!({"list": true, "view": true, "create": true, "edit": false, "delete": false})
    );

    // The configuration vouches for what the key holds.
    let configuration = json!({
        "name": "P", "client_id": "a", "client_secret": "b", "tenant_id": "c", "provider": "provider_a", "is_enabled": true,
    });
    let made = program.post("/api/single-sign-on/", configuration).await.expect_created();
    assert_eq!(made["_meta"]["labels"]["vouched_by"], "service_internal@example.com");

    // The account owns the group that the key makes. Ownership grants the key nothing.
    let group = program.post("/api/user-groups/", json!({"name": "Own"})).await.id();
    let path = format!("/api/user-groups/{group}/");
    program.patch(&path, json!({"name": "Mine"})).await.expect_reply(403, forbidden.clone());
    program.delete(&path).await.expect_reply(403, forbidden.clone());
    let shown = program.get(&path).await.ok();
    assert_eq!(
        shown["_meta"]["permissions"],
        json!({"view": true, "edit": false, "delete": false, "edit_perm_set": false})
    );
    let whole = with_key(&server, &api, account, json!(null)).await;
    assert_eq!(whole.get(&path).await.ok()["_meta"]["permissions"]["edit"], true);
    // A permission set grants it.
    let set = json!({"name": "Editors", "permissions": {"user_groups": ["view", "edit"]}});
    let set = api.post(&format!("{path}permission-sets/"), set).await.id();
    api.post(&format!("{path}permission-sets/{set}/assignees/users/"), json!([account])).await.expect_created();
    program.patch(&path, json!({"name": "Mine"})).await.ok();
    program.delete(&path).await.expect_reply(403, forbidden.clone());
}

#[tokio::test]
async fn a_narrowed_key_without_permissions_sees_what_sets_give() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let account = service(&api, "service_internal").await;
    let program = with_key(&server, &api, account, json!({})).await;
    let whole = with_key(&server, &api, account, json!(null)).await;
    let group = whole.post("/api/user-groups/", json!({"name": "Own"})).await.id();
    program.get("/api/user-groups/").await.expect_reply(403, message::forbidden());
    program.get(&format!("/api/user-groups/{group}/")).await.expect_reply(403, message::forbidden());
    assert_eq!(program.get("/api/users/").await.ok()["total_count"], 1);
    for path in ["/api/roles/", "/api/single-sign-on/", "/api/administration/log/", "/api/limits/"] {
        program.get(path).await.expect_reply(403, message::forbidden());
    }
    api.post(&format!("/api/user-groups/{group}/members/users/"), json!([account])).await.expect_created();
    assert_eq!(program.get("/api/user-groups/").await.ok()["total_count"], 1);
}

#[tokio::test]
async fn what_a_key_never_does() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let account = service(&api, "service_internal").await;
    let person = json!({
        "username": "a@example.com", "account_type": "internal", "first_name": "A", "last_name": "B",
        "delay_activation": true,
    });
    let person = api.post("/api/users/", person).await.id();
    let configuration = json!({
        "name": "P", "client_id": "a", "client_secret": "b", "tenant_id": "c", "provider": "provider_a", "is_enabled": true,
    });
    let configuration = api.post("/api/single-sign-on/", configuration).await.id();
    let key = json!({"name": "Key", "permissions": null, "expires_at": IN_A_MONTH});
    let own = format!("/api/users/{account}/");
    let service = json!({
        "username": "b@example.com", "account_type": "service_external", "first_name": "A", "last_name": "B",
        "password": "correct horse battery",
    });
    let passwords = json!({"current_password": "correct horse battery", "new_password": "another long password"});
    let program = with_key(&server, &api, account, json!(null)).await;
    for (method, path, body) in [
        ("POST", format!("{own}api-keys/"), key),
        ("POST", format!("/api/users/{person}/activation-link/"), json!({})),
        ("POST", format!("/api/users/{person}/send-activation-link/"), json!({})),
        ("POST", format!("/api/single-sign-on/{configuration}/link/"), json!({})),
        ("POST", format!("/api/single-sign-on/{configuration}/test/"), json!({})),
        ("POST", "/api/auth/password-change/".to_owned(), passwords),
        ("POST", "/api/users/".to_owned(), service),
        // It does not change its own account.
        ("PATCH", own.clone(), json!({"first_name": "Day"})),
        ("PATCH", own.clone(), json!({"password": "another long password"})),
        ("PATCH", "/api/users/me/".to_owned(), json!({"first_name": "Day"})),
        ("DELETE", own.clone(), json!({})),
        ("POST", format!("{own}deactivate/"), json!({})),
        ("POST", format!("{own}anonymize/"), json!({})),
    ] {
        let reply = program.call(method, &path).json(&body).send().await;
        assert_eq!(reply, (403, message::forbidden()), "{method} {path}");
    }
    // The password of another account is ignored, as for everybody.
    program.patch(&format!("/api/users/{person}/"), json!({"password": "x", "job_title": "Clerk"})).await.ok();
    // It is not a session.
    assert_eq!(program.get("/api/users/me/sessions/").await.ok()["total_count"], 0);
    let refresh = json!({"refresh_token": "chk_0123456789012345678901234567890123456789012"});
    server.anonymous().post("/api/auth/refresh/", refresh).await.expect_reply(401, message::bad_token());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_use_is_written_in_a_minute() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let account = service(&api, "service_internal").await;
    let program = with_key(&server, &api, account, json!(null)).await;
    let path = format!("/api/users/{account}/api-keys/1/");
    for (after, shown) in [(0, START), (59 * SECOND, START), (SECOND, "2026-01-31T09:31:00.000000Z")] {
        server.advance(after);
        for _ in 0..10 {
            program.get("/api/users/me/").await.ok();
        }
        eventually(async || api.get(&path).await.ok()["last_used_at"] == shown).await;
    }
}
