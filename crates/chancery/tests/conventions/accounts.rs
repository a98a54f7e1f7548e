//! The permissions of accounts and their ways to sign in, over all modules.

use crate::TestServer;
use crate::message;
use platform::table;
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};

/// Returns the number of events that wait for the history service.
async fn sign_in_events(server: &TestServer) -> i64 {
    let count = |conn: &mut Conn| conn.query_one(&Sql::new("SELECT count(*) FROM outbox"), |row| row.int(0));
    server.build.db.read::<i64, StoreError>(count).await.unwrap()
}

/// Every route with counted failures refuses an address with too many failures. It does so before it reads the body, and without an
/// event.
#[tokio::test]
async fn beyond_the_bound_no_way_of_signing_in_reads_what_is_sent() {
    let server = TestServer::start_with(|config| config.identity.address_attempts = 3).await;
    let anyone = server.anonymous();
    for _ in 0..3 {
        anyone
            .login("nobody@example.com", "wrong")
            .await
            .expect_reply(401, message::detail("Unable to sign in with the credentials given."));
    }
    let before = sign_in_events(&server).await;
    let mut paths = Vec::new();
    for route in table().routes().filter(|route| route.guard.is_some()) {
        paths.push(route.path);
        for body in ["{\"half\": ", "{}"] {
            let reply = anyone.call(route.method.as_str(), route.path).body("application/json", body).send().await;
            assert_eq!((reply.status, reply.header("retry-after")), (429, "300"), "{} {reply:?}", route.path);
            assert!(reply.text.contains("Too many requests."), "{} {reply:?}", route.path);
        }
    }
    paths.sort_unstable();
    let expected = [
        "/activate/",
        "/api/auth/activate/",
        "/api/auth/login/",
        "/api/auth/passkey/",
        "/api/auth/passkey/confirm/",
        "/api/auth/password-reset/",
        "/api/auth/password-reset/confirm/",
        "/api/auth/second-factor/",
        "/api/auth/task/",
        "/api/single-sign-on/login/",
        "/oauth/authorize/second-factor/",
        "/oauth/authorize/sign-in/",
        "/oauth/authorize/single-sign-on/",
        "/password-reset/",
        "/sign-in/",
        "/sign-in/passkey/",
        "/sign-in/second-factor/",
        "/sign-in/single-sign-on/",
        "/task/",
    ];
    assert_eq!(paths, expected);
    assert_eq!(sign_in_events(&server).await, before);
}

#[tokio::test]
async fn each_account_type_holds_its_permissions() {
    let server = TestServer::start().await;
    let path = "/api/users/permissions/";
    let all = |users: [bool; 5], crud: bool, groups: [bool; 6], rest: bool| {
        let crud = json!({"list": crud, "view": crud, "create": crud, "edit": crud, "delete": crud});
        json!({
            "users": {
                "list": users[0], "view": users[1], "create": users[2], "edit": users[3], "delete": users[4],
            },
            "roles": crud,
            "task_templates": crud,
            "integrations": crud,
            "sequences": {
                "list": rest, "view": rest, "create": rest, "edit": rest, "delete": rest, "start": rest,
            },
            "single_sign_on": crud,
            "authentication_objects": crud,
            "user_groups": {
                "list": groups[0], "view": groups[1], "create": groups[2], "edit": groups[3], "delete": groups[4],
                "edit_perm_set": groups[5],
            },
            "standard_authentication": {"list": rest, "edit": rest},
            "company_details": {"view": rest, "edit": rest},
            "outbound_mail_setup": {"view": rest, "edit": rest},
            "administration_log": {"list": rest},
            "files": {"store": rest, "list": rest, "delete": rest},
            // All users may list connectors, and the classes that they may view.
            "mcp_connectors": {"list": true, "view": rest, "create": rest, "edit": rest, "delete": rest},
            "object_classes": {
                "list": true, "view": rest, "create": rest, "edit": rest, "delete": rest, "edit_perm_set": rest,
            },
            "object_records": {
                "list": rest, "view": rest, "create": rest, "edit": rest, "delete": rest, "edit_owners": rest,
            },
            "custom_component": {"list": rest, "view": rest, "create": rest, "edit": rest},
            // Every user who signs in may view a front end.
            "ui_config": {"view": true, "create": rest},
        })
    };
    let everything = all([true; 5], true, [true; 6], true);
    let standard = all([true, true, false, false, false], false, [true, false, false, false, false, false], false);
    let nothing = all([false; 5], false, [false; 6], false);
    server.anonymous().get(path).await.expect_reply(401, message::unauthenticated());
    for (account_type, expected) in [
        ("super_admin", &everything),
        ("service_internal", &everything),
        ("internal", &standard),
        ("full", &standard),
        ("external", &nothing),
        ("service_external", &nothing),
    ] {
        let reply = server.as_type(account_type).await.get(path).await;
        assert_eq!(reply, (200, expected.clone()), "{account_type}");
    }

    // Permissions of roles are added.
    let mut expected = standard;
    let clerk = server.with_role(json!({"users": ["delete"], "standard_authentication": ["edit"]})).await;
    expected["users"]["delete"] = json!(true);
    expected["standard_authentication"] = json!({"list": true, "edit": true});
    clerk.get(path).await.expect_reply(200, expected.clone());
    let api = server.admin().await;
    let role = api.post("/api/roles/", json!({"name": "More", "permissions": {"user_groups": ["create"]}})).await.id();
    let roles = api.get(&format!("/api/users/{}/", clerk.id)).await.ok()["roles"].clone();
    api.patch(&format!("/api/users/{}/", clerk.id), json!({"roles": [roles[0], role]})).await.ok();
    expected["user_groups"]["view"] = json!(true);
    expected["user_groups"]["create"] = json!(true);
    clerk.get(path).await.expect_reply(200, expected);
}

#[tokio::test]
async fn permissions_are_told_by_resource_and_action() {
    let server = TestServer::start().await;
    let caller = server.with_role(json!({"users": ["edit"], "company_details": ["view"]})).await;

    let permissions = caller.get("/api/users/permissions/").await.ok();

    assert_eq!(
        permissions["users"],
        json!({"list": true, "view": true, "create": false, "edit": true, "delete": false})
    );
    assert_eq!(permissions["company_details"], json!({"view": true, "edit": false}));
    assert_eq!(permissions["user_groups"]["list"], true);
    assert_eq!(
        permissions["roles"],
        json!({"list": false, "view": false, "create": false, "edit": false, "delete": false})
    );
    for (account_type, expected) in
        [("super_admin", true), ("service_internal", true), ("external", false), ("service_external", false)]
    {
        let permissions = server.as_type(account_type).await.get("/api/users/permissions/").await.ok();
        let resources = permissions.as_object().unwrap().iter();
        let all: Vec<(String, &Value)> = resources
            .flat_map(|(resource, actions)| {
                let actions = actions.as_object().unwrap().iter();
                actions.map(move |(action, value)| (format!("{resource}.{action}"), value))
            })
            .collect();
        // All users may list connectors and the classes that they may view, and may view a front end.
        let of_all = ["object_classes.list", "mcp_connectors.list", "ui_config.view"];
        let is_expected =
            |(name, value): &(String, &Value)| **value == json!(expected || of_all.contains(&name.as_str()));
        assert!(all.len() > 40 && all.iter().all(is_expected), "{account_type}: {permissions:#}");
    }
}
