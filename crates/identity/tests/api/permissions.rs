//! The permissions of callers: `GET /api/users/permissions/`, the agreement of `_meta.permissions` with the allowed actions, and
//! the limits of grants (`docs/reference/users.md`).

use crate::TestServer;
use crate::message;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};
use testkit::{ApiClient, PASSWORD};

/// Returns the body of a new account with a unique name. No mail is sent for it.
fn account(account_type: &str) -> Value {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut body = json!({
        "username": format!("made-{n}@example.com"), "account_type": account_type, "first_name": "Made",
        "last_name": n.to_string(), "password": PASSWORD,
    });
    if matches!(account_type, "internal" | "external" | "full" | "super_admin") {
        body["delay_activation"] = json!(true);
    }
    body
}

/// Returns a caller of each account type that can sign in, and configuration administrators with one permission each.
async fn callers(server: &TestServer, resource: &str, actions: &[&str]) -> Vec<ApiClient> {
    let mut callers = vec![server.admin().await];
    for account_type in ["service_internal", "internal", "external", "full", "service_external"] {
        callers.push(server.as_type(account_type).await);
    }
    for action in actions {
        callers.push(server.with_role(json!({resource: [action]})).await);
    }
    callers
}

#[tokio::test]
async fn permissions_of_users_match_the_outcome_of_requests() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for caller in callers(&server, "users", &["list", "view", "create", "edit", "delete"]).await {
        for account_type in ["internal", "full", "one_time_completion", "super_admin"] {
            let who = format!("{} on {account_type}", caller.username);
            let target = api.post("/api/users/", account(account_type)).await.id();
            let path = format!("/api/users/{target}/");
            let listed = caller.get(&format!("/api/users/?id={target}")).await.ok()["results"][0].clone();
            let permissions = match &listed {
                // A user that is not listed has no `_meta`, and all actions fail.
                Value::Null => json!({"list": false, "view": false, "create": false, "edit": false, "delete": false}),
                listed => listed["_meta"]["permissions"].clone(),
            };
            let viewed = caller.get(&path).await;
            if viewed.status == 200 {
                assert_eq!(viewed["_meta"]["permissions"], permissions, "{who}");
            }
            let created = caller.post("/api/users/", account("internal")).await.status;
            let edited = caller.patch(&path, json!({"phone": "1"})).await.status;
            let acted = caller.post(&format!("{path}anonymize/"), json!({})).await.status;
            assert_eq!(acted, edited, "{who}");
            let deleted = caller.delete(&path).await.status;
            let succeeded = json!({
                "list": !listed.is_null(), "view": viewed.status == 200, "create": created == 201,
                "edit": edited == 200, "delete": deleted == 204,
            });
            assert_eq!(permissions, succeeded, "{who}");
            for refused in [viewed.status, created, edited, deleted].into_iter().filter(|status| *status >= 300) {
                assert_eq!(refused, 403, "{who}");
            }
        }
    }
}

#[tokio::test]
async fn permissions_of_roles_match_the_outcome_of_requests() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for caller in callers(&server, "roles", &["list", "view", "create", "edit", "delete"]).await {
        for (n, permissions) in [json!({}), json!({"users": ["list"]}), json!({"users": ["delete"]})].iter().enumerate()
        {
            let who = format!("{} on {permissions}", caller.username);
            let name = |what: &str| format!("{what} {n} {}", caller.username);
            let target = api.post("/api/roles/", json!({"name": name("For"), "permissions": permissions})).await.id();
            let path = format!("/api/roles/{target}/");
            let listed = caller.get(&format!("/api/roles/?id={target}")).await;
            let viewed = caller.get(&path).await;
            let created = caller.post("/api/roles/", json!({"name": name("By")})).await;
            let edited = caller.patch(&path, json!({"description": "x"})).await.status;
            let deleted = caller.delete(&path).await.status;
            let succeeded = json!({
                "list": listed.status == 200, "view": viewed.status == 200, "create": created.status == 201,
                "edit": edited == 200, "delete": deleted == 204,
            });
            match listed.status {
                200 => assert_eq!(listed["results"][0]["_meta"]["permissions"], succeeded, "{who}"),
                _ => assert_eq!(succeeded.to_string().matches("true").count(), 0, "{who}"),
            }
            if viewed.status == 200 {
                assert_eq!(viewed["_meta"]["permissions"], succeeded, "{who}");
            }
        }
    }
}

#[tokio::test]
async fn permissions_of_groups_match_the_outcome_of_requests() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let mut callers = callers(&server, "user_groups", &["list", "view", "create"]).await;
    let strangers = callers.len();
    // An owner, a member, and assignees of a set, directly or through a group.
    for account_type in ["external", "service_external", "internal", "full", "internal", "external"] {
        callers.push(server.as_type(account_type).await);
    }
    let [owner, member, editor, deleter, through, nobody] = &callers[strangers..] else { panic!("six") };
    let team = api.post("/api/user-groups/", json!({"name": "Team"})).await.id();
    api.post(&format!("/api/user-groups/{team}/members/users/"), json!([through.id])).await.expect_created();

    for everyone in [json!([]), json!(["view"])] {
        for caller in &callers {
            let name = format!("For {} {everyone}", caller.username);
            let group = api.post("/api/user-groups/", json!({"name": name})).await.id();
            let path = format!("/api/user-groups/{group}/");
            let sets = format!("{path}permission-sets/");
            let set = async |actions: Value, kind: &str, id: i64| {
                let body = json!({"name": format!("{actions} {kind}"), "permissions": {"user_groups": actions}});
                let set = api.post(&sets, body).await.id();
                api.post(&format!("{sets}{set}/assignees/{kind}/"), json!([id])).await.expect_created();
                set
            };
            let special = api.get(&sets).await.ids()[0];
            let body = json!({"permissions": {"user_groups": everyone}});
            api.patch(&format!("{sets}{special}/"), body).await.ok();
            api.post(&format!("{path}owners/users/"), json!([owner.id])).await.expect_created();
            api.post(&format!("{path}members/users/"), json!([member.id])).await.expect_created();
            let edit_set = set(json!(["edit"]), "users", editor.id).await;
            set(json!(["delete"]), "users", deleter.id).await;
            set(json!(["edit", "delete"]), "user-groups", team).await;

            let permissions = match caller.get(&format!("/api/user-groups/?id={group}")).await {
                listed if listed.status == 403 || listed.ids().is_empty() => {
                    json!({"view": false, "edit": false, "delete": false, "edit_perm_set": false})
                }
                listed => listed["results"][0]["_meta"]["permissions"].clone(),
            };
            let viewed = caller.get(&path).await;
            if viewed.status == 200 {
                assert_eq!(viewed["_meta"]["permissions"], permissions, "{} {everyone}", caller.username);
            }
            let below = [
                caller.get(&sets).await.status,
                caller.get(&format!("{path}members/users/")).await.status,
                caller.get(&format!("{path}owners/users/")).await.status,
                caller.get(&format!("{sets}{edit_set}/assignees/users/")).await.status,
                caller.get(&format!("{sets}{edit_set}/assignees/user-groups/")).await.status,
            ];
            assert_eq!(below, [viewed.status; 5], "{} {everyone}", caller.username);
            // All callers may list their own id.
            let own = json!([caller.id]);
            let edited = caller.patch(&path, json!({"description": "x"})).await.status;
            let added = caller.post(&format!("{path}members/users/"), own.clone()).await.status;
            assert_eq!(added == 201, edited == 200, "{} {everyone}", caller.username);
            let changed = [
                caller.post(&sets, json!({"name": "New"})).await.status,
                caller.post(&format!("{sets}{edit_set}/assignees/users/"), own.clone()).await.status,
                caller.post(&format!("{path}owners/users/"), own).await.status,
                caller.patch(&format!("{sets}{edit_set}/"), json!({})).await.status + 1,
            ];
            let changes = permissions["edit_perm_set"] == true;
            let expected = if changes { [201; 4] } else { [403, 403, 403, 404] };
            assert_eq!(changed, expected, "{} {everyone}", caller.username);
            let deleted = caller.delete(&path).await.status;
            let succeeded = json!({
                "view": viewed.status == 200, "edit": edited == 200, "delete": deleted == 204, "edit_perm_set": changes,
            });
            assert_eq!(permissions, succeeded, "{} {everyone}", caller.username);
        }
    }
    // An assignee of a set in another group has no rights here.
    nobody.get(&format!("/api/user-groups/{team}/")).await.expect_reply(403, message::forbidden());
}

#[tokio::test]
async fn permissions_of_the_security_rules_match_the_outcome_of_requests() {
    let server = TestServer::start().await;
    for caller in callers(&server, "standard_authentication", &["list", "edit"]).await {
        let (read, edited) = (caller.get("/api/security/").await, caller.patch("/api/security/", json!({})).await);
        let succeeded = json!({"view": read.status == 200, "edit": edited.status == 200});
        for reply in [&read, &edited].into_iter().filter(|reply| reply.status == 200) {
            assert_eq!(reply["_meta"]["permissions"], succeeded, "{}", caller.username);
        }
        let permissions = caller.get("/api/users/permissions/").await.ok();
        assert_eq!(permissions["standard_authentication"]["list"], succeeded["view"], "{}", caller.username);
        assert_eq!(permissions["standard_authentication"]["edit"], succeeded["edit"], "{}", caller.username);
    }
}

#[tokio::test]
async fn nobody_gives_a_role_with_what_he_lacks() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let clerk = server.with_role(json!({"users": ["create", "edit"]})).await;
    let role = async |name: &str, permissions: Value| {
        api.post("/api/roles/", json!({"name": name, "permissions": permissions})).await.id()
    };
    let weak = role("Weak", json!({"users": ["edit"], "user_groups": ["list"]})).await;
    let strong = role("Strong", json!({"users": ["delete"]})).await;
    let user_body = |roles: Value| {
        let mut body = account("full");
        body["roles"] = roles;
        body
    };

    clerk.post("/api/users/", user_body(json!([weak, strong]))).await.expect_reply(403, message::forbidden());
    let user = clerk.post("/api/users/", user_body(json!([weak]))).await.id();
    let path = format!("/api/users/{user}/");
    clerk.patch(&path, json!({"roles": [strong]})).await.expect_reply(403, message::forbidden());
    // The clerk cannot assign it to themselves either.
    clerk
        .patch(&format!("/api/users/{}/", clerk.id), json!({"roles": [strong]}))
        .await
        .expect_reply(403, message::forbidden());
    // 403 comes before errors of the body.
    clerk.patch(&path, json!({"roles": [strong], "first_name": ""})).await.expect_reply(403, message::forbidden());
    let mut wrong = user_body(json!([strong]));
    wrong["first_name"] = json!("");
    clerk.post("/api/users/", wrong).await.expect_reply(403, message::forbidden());
    clerk
        .patch(&path, json!({"roles": [999]}))
        .await
        .refuses(json!({"roles": ["Invalid pk 999 - object does not exist."]}));
    assert_eq!(api.get(&path).await.ok()["roles"], json!([weak]));

    // Roles that a user already has do not count as assigned, and may be removed.
    api.patch(&path, json!({"roles": [weak, strong]})).await.ok();
    clerk.patch(&path, json!({"roles": [strong, weak], "phone": "1"})).await.ok();
    assert_eq!(clerk.patch(&path, json!({"roles": [strong]})).await.ok()["roles"], json!([strong]));
    clerk.patch(&path, json!({"roles": []})).await.ok();
    clerk.patch(&path, json!({"roles": [strong]})).await.expect_reply(403, message::forbidden());
    // A super admin's service may assign all roles.
    let robot = server.as_type("service_internal").await;
    robot.patch(&path, json!({"roles": [strong]})).await.ok();
}

#[tokio::test]
async fn super_admins_and_their_services_are_made_and_changed_by_their_like_alone() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let crud = ["list", "view", "create", "edit", "delete"];
    let clerk = server.with_role(json!({"users": crud, "roles": crud})).await;
    let robot = server.as_type("service_internal").await;
    let second = server.as_type("super_admin").await;

    for account_type in ["super_admin", "service_internal"] {
        clerk.post("/api/users/", account(account_type)).await.expect_reply(403, message::forbidden());
        clerk.post("/api/users/", json!({"account_type": account_type})).await.expect_reply(403, message::forbidden());
    }
    let internal = api.post("/api/users/", account("internal")).await.id();
    for id in [internal, clerk.id] {
        let path = format!("/api/users/{id}/");
        for account_type in ["super_admin", "service_internal"] {
            clerk.patch(&path, json!({"account_type": account_type})).await.expect_reply(403, message::forbidden());
        }
        let shown = clerk.get(&path).await.ok();
        assert!(!shown["_meta"]["allowed_account_type_changes"].to_string().contains("super_admin"), "{shown}");
    }
    for target in [second.id, robot.id, 1] {
        let path = format!("/api/users/{target}/");
        for body in [json!({"username": "mine@example.com"}), json!({"phone": "1"}), json!({}), json!({"phone": null})]
        {
            clerk.patch(&path, body).await.expect_reply(403, message::forbidden());
        }
        for action in ["send-activation-link", "deactivate", "reactivate", "unlock", "anonymize"] {
            clerk.post(&format!("{path}{action}/"), json!({})).await.expect_reply(403, message::forbidden());
        }
        clerk.delete(&path).await.expect_reply(403, message::forbidden());
        let shown = clerk.get(&path).await.ok();
        let seen = json!({"list": true, "view": true, "create": true, "edit": false, "delete": false});
        assert_eq!(shown["_meta"]["permissions"], seen);
        assert_eq!(shown["_meta"]["allowed_account_type_changes"], json!([]));
    }
    // `/api/users/me/` does not allow the change either.
    let me =
        clerk.patch("/api/users/me/", json!({"account_type": "super_admin", "roles": [], "phone": "1"})).await.ok();
    assert_eq!((&me["account_type"], &me["phone"]), (&json!("full"), &json!("1")));

    for caller in [&robot, &api] {
        let made = caller.post("/api/users/", account("super_admin")).await.id();
        let path = format!("/api/users/{made}/");
        let changed = caller.patch(&path, json!({"account_type": "external"})).await.ok();
        assert_eq!(changed["_meta"]["allowed_account_type_changes"], json!(["internal", "full", "super_admin"]));
        caller.patch(&path, json!({"account_type": "super_admin"})).await.ok();
        caller.post(&format!("{path}deactivate/"), json!({})).await.ok();
        caller.delete(&path).await.expect_empty();
    }
}

#[tokio::test]
async fn passwords_of_services_are_changed_by_super_admins_alone() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let clerk = server.with_role(json!({"users": ["edit"]})).await;
    let robot = server.as_type("service_internal").await;
    let (service, user) = (server.as_type("service_external").await, server.as_type("internal").await);
    let password = json!({"password": "a new password"});
    for caller in [&clerk, &robot] {
        caller
            .patch(&format!("/api/users/{}/", service.id), password.clone())
            .await
            .expect_reply(403, message::forbidden());
    }
    robot.patch(&format!("/api/users/{}/", robot.id), password.clone()).await.expect_reply(403, message::forbidden());
    // For other accounts the password is ignored for all callers.
    for caller in [&clerk, &robot, &api] {
        caller.patch(&format!("/api/users/{}/", user.id), password.clone()).await.ok();
        user.get("/api/users/me/").await.ok();
    }
    server.sign_in(&user.username, PASSWORD).await;

    api.patch(&format!("/api/users/{}/", service.id), password).await.ok();
    service.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    assert_eq!(server.anonymous().login(&service.username, PASSWORD).await.status, 401);
    server.sign_in(&service.username, "a new password").await;
}

#[tokio::test]
async fn a_caller_with_fewer_permissions_cannot_change_a_username() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let clerk = server.with_role(json!({"users": ["edit"]})).await;
    let stronger = server.with_role(json!({"users": ["edit", "delete"]})).await;
    let path = format!("/api/users/{}/", stronger.id);
    // A caller who changes the address of an account can get its reset link.
    clerk.patch(&path, json!({"username": "clerk2@example.com"})).await.expect_reply(403, message::forbidden());
    let changed = clerk.patch(&path, json!({"username": stronger.username, "job_title": "Head clerk"})).await.ok();
    assert_eq!(changed["job_title"], "Head clerk");
    api.patch(&path, json!({"username": "head@example.com"})).await.ok();
    let weaker = server.as_type("internal").await;
    clerk.patch(&format!("/api/users/{}/", weaker.id), json!({"username": "new@example.com"})).await.ok();
}
