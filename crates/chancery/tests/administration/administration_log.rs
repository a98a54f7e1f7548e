//! `GET /api/administration/log/` (`docs/reference/administration-log.md`).

use crate::TestServer;
use crate::message;
use crate::shown::{START, admin, page};
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::{ApiClient, PASSWORD, Reply, SECOND};

const PATH: &str = "/api/administration/log/";

/// Returns the action, resource, id, name and changes of the newest entry.
async fn last_changes(api: &ApiClient) -> Value {
    let entry = api.get(&format!("{PATH}?limit=1")).await.ok()["results"][0].clone();
    json!([entry["action"], entry["resource"], entry["object_id"], entry["object_name"], entry["changes"]])
}

#[tokio::test]
async fn an_entry_tells_who_changed_what_from_where() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.post("/api/roles/", json!({"name": "Clerks", "permissions": {"users": ["list"]}})).await.expect_created();
    server.advance(SECOND);
    api.patch("/api/roles/1/", json!({"name": "Registrars", "description": ""})).await.ok();
    api.delete("/api/roles/1/").await.expect_empty();

    let entry = |id: i64, action: &str, name: &str, at: &str, changes: Value| {
        json!({
            "id": id, "at": at, "by": admin(), "ip": "127.0.0.1", "action": action, "resource": "roles",
            "object_id": 1, "object_name": name, "changes": changes,
        })
    };
    let later = "2026-01-31T09:30:01.000000Z";
    let made = json!({"name": [null, "Clerks"], "description": [null, ""], "permissions": [null, {"users": ["list"]}]});
    api.get(&format!("{PATH}?resource=roles")).await.expect_reply(
        200,
        json!({
            "limit": 25, "offset": 0, "total_count": 4, "filtered_count": 3, "next": null, "previous": null,
            "results": [
                entry(4, "delete", "Registrars", later, json!({})),
                entry(3, "edit", "Registrars", later, json!({"name": ["Clerks", "Registrars"]})),
                entry(2, "create", "Clerks", START, made),
            ],
        }),
    );
}

#[tokio::test]
async fn the_command_line_is_nobody() {
    let server = TestServer::start().await;
    server.admin().await.get(PATH).await.expect_reply(
        200,
        page(json!([{
            "id": 1, "at": START, "by": null, "ip": "", "action": "create", "resource": "users", "object_id": 1,
            "object_name": "admin@example.com",
            "changes": {
                "username": [null, "admin@example.com"], "account_type": [null, "super_admin"],
                "first_name": [null, "admin"], "last_name": [null, "Super Admin"], "job_title": [null, ""],
                "company_name": [null, ""], "phone": [null, ""], "mobile": [null, ""], "timezone": [null, "UTC"],
                "is_ip_restriction_enabled": [null, false], "allowed_ip_ranges": [null, []],
            },
        }])),
    );
}

#[tokio::test]
async fn every_change_of_users_is_noted() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let role = api.post("/api/roles/", json!({"name": "Role"})).await.id();
    let body = json!({
        "username": "ann@example.com", "account_type": "full", "first_name": "Ann", "last_name": "Bee", "roles": [role],
        "delay_activation": true,
    });
    let user = api.post("/api/users/", body).await.id();
    let path = format!("/api/users/{user}/");
    let noted = last_changes(&api).await;
    assert_eq!(json!([noted[0], noted[1], noted[2], noted[3]]), json!(["create", "users", user, "ann@example.com"]));
    assert_eq!(noted[4]["roles"], json!([null, [role]]));
    assert_eq!(noted[4]["account_type"], json!([null, "full"]));

    api.patch(&path, json!({"phone": "123", "timezone": "UTC", "account_type": "internal"})).await.ok();
    let changes = json!({"phone": ["", "123"], "account_type": ["full", "internal"], "roles": [[role], []]});
    assert_eq!(last_changes(&api).await, json!(["edit", "users", user, "ann@example.com", changes]));
    api.patch(&path, json!({"username": "ann.bee@example.com"})).await.ok();
    let changes = json!({"username": ["ann@example.com", "ann.bee@example.com"]});
    assert_eq!(last_changes(&api).await, json!(["edit", "users", user, "ann.bee@example.com", changes]));

    let nobody = format!("anonymized-{user}@anonymized.invalid");
    for action in ["send-activation-link", "deactivate", "reactivate", "anonymize"] {
        api.post(&format!("{path}{action}/"), json!({})).await.ok();
        let name = if action == "anonymize" { &nobody } else { "ann.bee@example.com" };
        let expected = json!([action.replace('-', "_"), "users", user, name, {}]);
        assert_eq!(last_changes(&api).await, expected);
    }
    api.delete(&path).await.expect_empty();
    let name = nobody;
    assert_eq!(last_changes(&api).await, json!(["delete", "users", user, name, {}]));

    let own = server.as_type("internal").await;
    own.patch("/api/users/me/", json!({"phone": "5"})).await.ok();
    assert_eq!(last_changes(&api).await, json!(["edit", "users", own.id, own.username, {"phone": ["", "5"]}]));
    assert_eq!(api.get(&format!("{PATH}?limit=1")).await.ok()["results"][0]["by"]["id"], own.id);
}

#[tokio::test]
async fn anonymization_removes_personal_data_from_the_log() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let other = server.as_type("internal").await;
    let ann = leave_traces(&server, &api).await;
    let before = log_about(&api, ann).await;

    api.post(&format!("/api/users/{ann}/anonymize/"), json!({})).await.ok();

    // Every entry remains, with its action, author and time, but without personal data.
    let after = log_about(&api, ann).await;
    let actions = ["create", "send_activation_link", "edit", "edit", "link_identity", "anonymize"];
    assert_eq!(after.column("action"), actions);
    assert_eq!(after.column("at")[..5], before.column("at")[..]);
    assert_eq!(after.column("by")[1], before.column("by")[1]);
    let nobody = json!(format!("anonymized-{ann}@anonymized.invalid"));
    assert!(after.column("object_name").iter().all(|name| *name == nobody), "{after:?}");
    let gone = json!([null, null]);
    let changes = after.column("changes");
    assert_eq!(
        changes[0],
        json!({
            "username": gone, "account_type": [null, "internal"], "first_name": gone, "last_name": gone, "job_title": gone,
            "company_name": gone, "phone": gone, "mobile": gone, "timezone": gone,
            "is_ip_restriction_enabled": [null, false], "allowed_ip_ranges": gone,
        })
    );
    assert_eq!(changes[2], json!({"username": gone, "phone": gone, "allowed_ip_ranges": gone}));
    assert_eq!(changes[3], json!({"mobile": gone}));
    // The addresses of other authors remain. The address of the anonymized person does not.
    assert_eq!(after.column("ip"), ["127.0.0.1", "127.0.0.1", "127.0.0.1", "", "", "127.0.0.1"]);
    assert_not_stored(&server, &api, ann).await;
    assert_eq!(api.get(&format!("{PATH}?object_name__icontains=STERN")).await.ids(), [0; 0], "nor in what is folded");
    assert_eq!(api.get(&format!("{PATH}?object_name={}", other.username)).await["filtered_count"], 1, "others stay");
}

#[tokio::test]
async fn a_migration_removes_personal_data_of_anonymized_users_from_the_log() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let ann = leave_traces(&server, &api).await;
    let as_before = move |conn: &mut Conn| {
        let sql = "UPDATE users SET status = 'anonymized', username = 'anonymized-x@anonymized.invalid', \
                   first_name = 'Anonymized', last_name = 'Anonymized' WHERE id = $1";
        conn.exec(&Sql::new(sql).arg(ann))
    };
    server.build.db.write::<_, StoreError>(as_before).await.unwrap();
    let migration = platform::MIGRATIONS.build.iter().find(|migration| migration.name.starts_with("0006"));
    let then = migration.and_then(|migration| migration.then).unwrap();
    server.build.db.write::<_, StoreError>(then).await.unwrap();
    assert_not_stored(&server, &api, ann).await;
}

/// Creates a user with entries of every kind about the account, and with sessions. Returns their id.
async fn leave_traces(server: &TestServer, api: &ApiClient) -> i64 {
    let body = json!({
        "username": "ann.stern@example.com", "account_type": "internal", "first_name": "Annabel", "last_name": "Stern",
        "phone": "555-0001", "job_title": "Astronomer", "timezone": "Europe/Oslo", "delay_activation": true,
    });
    let ann = api.post("/api/users/", body).await.id();
    let path = format!("/api/users/{ann}/");
    api.post(&format!("{path}send-activation-link/"), json!({})).await.ok();
    let changed =
        json!({"username": "annabel.stern@example.com", "phone": "555-0002", "allowed_ip_ranges": ["127.0.0.0/8"]});
    api.patch(&path, changed).await.ok();
    api.post(&format!("{path}send-activation-link/"), json!({})).await.ok();
    let token = server.mail_to("annabel.stern@example.com").await.token();
    server.anonymous().post("/api/auth/activate/", json!({"token": token, "password": PASSWORD})).await.expect_empty();
    let own = server.anonymous().with_header("user-agent", "Sternwarte/1.0");
    own.login("annabel.stern@example.com", PASSWORD).await.ok();
    let own = own.sign_in("annabel.stern@example.com", PASSWORD).await;
    own.patch("/api/users/me/", json!({"mobile": "555-0003"})).await.ok();
    own.post("/api/auth/logout/", json!({"refresh_token": own.refresh_token})).await.expect_empty();
    let link = move |conn: &mut Conn| {
        let sql = Sql::new(
            "INSERT INTO administration_log(at, by_user, ip, action, resource, object_id, object_name, object_name_fold, changes) \
             VALUES (1769851800000000, $1, '127.0.0.1', 'link_identity', 'users', $1, 'annabel.stern@example.com', 'annabel.stern@example.com', '{}')",
        );
        // The test does not need the second link.
        conn.exec(&Sql::new("DELETE FROM administration_log WHERE id = (SELECT max(id) FROM administration_log WHERE action = 'send_activation_link')"))?;
        conn.exec(&sql.arg(ann))
    };
    server.build.db.write::<_, StoreError>(link).await.unwrap();
    ann
}

async fn log_about(api: &ApiClient, user: i64) -> Reply {
    api.get(&format!("{PATH}?resource=users&object_id={user}&ordering=id")).await
}

/// Asserts that neither the log nor a session contains personal data.
async fn assert_not_stored(server: &TestServer, api: &ApiClient, user: i64) {
    let log = api.get(&format!("{PATH}?limit=1000")).await.text;
    for text in ["stern", "Stern", "Annabel", "555-", "Astronomer", "Oslo", "127.0.0.0/8"] {
        assert!(!log.contains(text), "{text} is in {log}");
    }
    let sessions = move |conn: &mut Conn| {
        let sql = Sql::new("SELECT ip, user_agent FROM sessions WHERE user_id = $1 ORDER BY id").arg(user);
        conn.query_all(&sql, |row| Ok([row.text(0)?.to_owned(), row.text(1)?.to_owned()]))
    };
    let sessions = server.build.db.read::<_, StoreError>(sessions).await.unwrap();
    assert_eq!(sessions, [["", ""], ["", ""]]);
}

#[tokio::test]
async fn secrets_are_three_stars() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let body = json!({
        "username": "robot@example.com", "account_type": "service_external", "first_name": "R", "last_name": "2",
        "password": "a secret of robots",
    });
    let robot = api.post("/api/users/", body).await.id();
    assert_eq!(last_changes(&api).await[4]["password"], json!([null, "***"]));
    api.patch(&format!("/api/users/{robot}/"), json!({"password": "another secret"})).await.ok();
    let changes = json!({"password": ["***", "***"]});
    assert_eq!(last_changes(&api).await, json!(["edit", "users", robot, "robot@example.com", changes]));
    let log = api.get(PATH).await.text;
    assert!(!log.contains("secret") && !log.contains("argon2") && !log.contains(PASSWORD), "{log}");
}

#[tokio::test]
async fn every_change_of_groups_and_below_is_noted() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let user = server.as_type("internal").await.id;
    api.post("/api/user-groups/", json!({"name": "Group"})).await.expect_created();
    let made = api.get(&format!("{PATH}?resource__startswith=user_group&ordering=id")).await;
    assert_eq!(made.column("action"), ["create", "add_owners"]);
    assert_eq!(
        made.column("changes"),
        [json!({"name": [null, "Group"], "description": [null, ""]}), json!({"owners": [[], [1]]})]
    );
    let (group, set) = ("/api/user-groups/1/", "/api/user-groups/1/permission-sets/3/");
    let people = |kind: &str| format!("{group}{kind}/users/");
    let assignees = |kind: &str| format!("{set}assignees/{kind}/");

    api.patch(group, json!({"name": "Team"})).await.ok();
    assert_eq!(last_changes(&api).await, json!(["edit", "user_groups", 1, "Team", {"name": ["Group", "Team"]}]));

    api.post(&people("members"), json!([user, 1])).await.expect_created();
    assert_eq!(
        last_changes(&api).await,
        json!(["add_members", "user_groups", 1, "Team", {"members": [[], [user, 1]]}])
    );
    api.delete_all(&people("members"), json!([1])).await.expect_empty();
    assert_eq!(last_changes(&api).await, json!(["remove_members", "user_groups", 1, "Team", {"members": [[1], []]}]));
    api.post(&people("owners"), json!([1, user])).await.expect_created();
    assert_eq!(last_changes(&api).await, json!(["add_owners", "user_groups", 1, "Team", {"owners": [[], [user]]}]));
    api.delete_all(&people("owners"), json!([user])).await.expect_empty();
    assert_eq!(last_changes(&api).await, json!(["remove_owners", "user_groups", 1, "Team", {"owners": [[user], []]}]));

    let sets = "user_group_permission_sets";
    let body = json!({"name": "Set", "permissions": {"user_groups": ["view"]}});
    api.post("/api/user-groups/1/permission-sets/", body).await.expect_created();
    let changes = json!({"name": [null, "Set"], "permissions": [null, {"user_groups": ["view"]}]});
    assert_eq!(last_changes(&api).await, json!(["create", sets, 3, "Set", changes]));
    api.patch(set, json!({"name": "Set", "permissions": {"user_groups": ["edit"]}})).await.ok();
    let changes = json!({"permissions": [{"user_groups": ["view"]}, {"user_groups": ["view", "edit"]}]});
    assert_eq!(last_changes(&api).await, json!(["edit", sets, 3, "Set", changes]));
    for (kind, id) in [("users", user), ("user-groups", 1)] {
        let field = kind.replace('-', "_");
        api.post(&assignees(kind), json!([id])).await.expect_created();
        assert_eq!(last_changes(&api).await, json!(["add_assignees", sets, 3, "Set", {field.as_str(): [[], [id]]}]));
        api.delete_all(&assignees(kind), json!([id])).await.expect_empty();
        assert_eq!(last_changes(&api).await, json!(["remove_assignees", sets, 3, "Set", {field.as_str(): [[id], []]}]));
    }
    api.delete(set).await.expect_empty();
    assert_eq!(last_changes(&api).await, json!(["delete", sets, 3, "Set", {}]));
    api.delete(group).await.expect_empty();
    assert_eq!(last_changes(&api).await, json!(["delete", "user_groups", 1, "Team", {}]));
}

#[tokio::test]
async fn security_rules_are_noted() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let body = json!({
        "password_complexity": {"min_length": 10, "min_symbols": 0},
        "authentication_method": {"internal": "sso", "service_internal": "password"},
    });
    api.patch("/api/security/", body).await.ok();
    let changes = json!({"min_length": [8, 10], "internal": ["any", "sso"]});
    assert_eq!(last_changes(&api).await, json!(["edit", "standard_authentication", 1, "", changes]));
}

#[tokio::test]
async fn unchanged_and_refused_requests_are_not_logged() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let user = server.as_type("internal").await;
    api.post("/api/user-groups/", json!({"name": "Group"})).await.expect_created();
    api.post("/api/user-groups/1/members/users/", json!([user.id])).await.expect_created();
    let count = api.get(PATH).await.ok()["total_count"].clone();

    api.patch("/api/user-groups/1/", json!({"name": "Group"})).await.ok();
    api.patch("/api/user-groups/1/permission-sets/2/", json!({"permissions": {"user_groups": ["view"]}})).await.ok();
    api.patch("/api/security/", json!({"systemconf": {"password_rotation_interval": 0}})).await.ok();
    api.post("/api/user-groups/1/members/users/", json!([user.id])).await.expect_created();
    api.post("/api/user-groups/", json!({"name": "GROUP"})).await.expect(400);
    api.post("/api/user-groups/1/owners/users/", json!([user.id, 999])).await.expect(400);
    api.delete_all("/api/user-groups/1/owners/users/", json!([1])).await.expect(400);
    user.patch("/api/user-groups/1/", json!({"name": "Mine"})).await.expect(403);
    assert_eq!(api.get(PATH).await.ok()["total_count"], count);
}

#[tokio::test]
async fn it_is_read_by_holders_of_its_permission() {
    let server = TestServer::start().await;
    server.anonymous().get(PATH).await.expect_reply(401, message::unauthenticated());
    for account_type in ["internal", "external", "full", "service_external"] {
        server.as_type(account_type).await.get(PATH).await.expect_reply(403, message::forbidden());
    }
    server.as_type("service_internal").await.get(PATH).await.ok();
    server.with_role(json!({"administration_log": ["list"]})).await.get(PATH).await.ok();
    let reply = server.admin().await.post(PATH, json!({})).await;
    reply.expect_reply(405, message::detail("Method \"POST\" not allowed."));
}

#[tokio::test]
async fn it_is_filtered_by_each_column_but_changes() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let robot = server.as_type("service_internal").await;
    server.advance(SECOND);
    api.post("/api/roles/", json!({"name": "Ärger"})).await.expect_created();
    robot.patch("/api/roles/1/", json!({"name": "Zorn"})).await.ok();
    for (query, ids) in [
        ("", vec![4, 3, 2, 1]),
        ("?ordering=id", vec![1, 2, 3, 4]),
        ("?ordering=-id", vec![4, 3, 2, 1]),
        ("?ordering=at", vec![1, 2, 3, 4]),
        ("?ordering=-at", vec![4, 3, 2, 1]),
        ("?id__in=1", vec![]),
        ("?id__lte=2", vec![2, 1]),
        ("?at__gt=2026-01-31T09:30:00Z", vec![4, 3]),
        ("?by=1", vec![3]),
        ("?by__in=1,2", vec![4, 3]),
        ("?ip=127.0.0.1", vec![4, 3]),
        ("?ip__startswith=10.", vec![]),
        ("?action=edit", vec![4]),
        ("?resource=roles", vec![4, 3]),
        ("?resource=users&object_id=2", vec![2]),
        ("?object_id__range=2,9", vec![2]),
        ("?object_name__istartswith=%C3%A4R", vec![3]),
        ("?changes=x", vec![4, 3, 2, 1]),
    ] {
        let reply = api.get(&format!("{PATH}{query}")).await;
        if query == "?id__in=1" {
            reply.refuses(json!({"id__in": ["Select a valid choice. in is not one of the available choices."]}));
        } else {
            assert_eq!(reply.ids(), ids, "{query}");
        }
    }
    for column in ["by", "action", "changes", "object_name"] {
        let refused = format!("Select a valid choice. {column} is not one of the available choices.");
        api.get(&format!("{PATH}?ordering={column}")).await.refuses(json!({"ordering": [refused]}));
    }
}
