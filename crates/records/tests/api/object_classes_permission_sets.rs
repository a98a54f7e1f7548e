//! `/api/object-classes/{id}/permission-sets/` and the assignees of a set (`docs/reference/object-classes.md`).

use crate::TestServer;
use crate::set_up::{group, set_limits, users, with_class, with_class_set};
use serde_json::{Value, json};
use testkit::ApiClient;
use testkit::message;
use testkit::shown::{START, admin, page};

const SETS: &str = "/api/object-classes/1/permission-sets/";

#[tokio::test]
async fn a_set_gives_what_it_says_to_those_who_are_assigned() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.post("/api/object-classes/", json!({"name": "Order"})).await.expect_created();
    let body = json!({"name": "Clerks", "permissions": {"object_records": ["edit"], "tasks": ["assign"]}});
    let set = json!({
        "id": 2, "name": "Clerks", "type": "custom",
        "permissions": {
            "object_classes": [],
            "object_records": ["list", "view", "edit"],
            "tasks": ["edit", "view", "assign"],
        },
        "created_at": START, "created_by": admin(), "modified_at": START, "modified_by": admin(),
    });
    api.post(SETS, body).await.expect_reply(201, set);
    let clerk = server.as_type("external").await;
    clerk.get("/api/object-classes/1/").await.expect_reply(404, message::not_found());
    api.post(&format!("{SETS}2/assignees/users/"), json!([clerk.id])).await.expect_created();
    // Visible records make the class visible, but not its sets.
    let class = clerk.get("/api/object-classes/1/").await.ok();
    assert_eq!(
        class["_meta"],
        json!({"permissions": {
            "view": true, "edit": false, "delete": false, "edit_perm_set": false,
            "object_records": {"create": false, "list": true, "view": true, "edit": true, "delete": false},
        }})
    );
    clerk.get("/api/object-classes/1/object-records/").await.expect_reply(200, page(json!([])));
    clerk.get(SETS).await.expect_reply(403, message::forbidden());
    clerk.get(&format!("{SETS}2/assignees/users/")).await.expect_reply(403, message::forbidden());
    clerk.patch("/api/object-classes/1/", json!({"name": "Mine"})).await.expect_reply(403, message::forbidden());
    api.delete_all(&format!("{SETS}2/assignees/users/"), json!([clerk.id])).await.expect_empty();
    clerk.get("/api/object-classes/1/").await.expect_reply(404, message::not_found());
}

#[tokio::test]
async fn everyone_takes_few_actions_and_no_assignees() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.post("/api/object-classes/", json!({"name": "Order"})).await.expect_created();
    api.patch(&format!("{SETS}1/"), json!({"permissions": {"object_records": ["edit"], "tasks": ["view"]}}))
        .await
        .refuses(json!({"permissions": {
            "object_records": ["Invalid actions edit."], "tasks": ["Invalid actions view."],
        }}));
    let person = server.as_type("external").await;
    api.patch(&format!("{SETS}1/"), json!({"permissions": {"object_records": ["create"]}})).await.ok();
    person.get("/api/object-classes/1/").await.ok();
    api.post(&format!("{SETS}1/assignees/users/"), json!([person.id]))
        .await
        .expect_reply(400, json!({"detail": "Assignees can not be set to this permission set type."}));
    api.delete(&format!("{SETS}1/"))
        .await
        .expect_reply(400, json!({"detail": "Permission set of type Everyone is restricted and cannot be deleted."}));
    for name in ["Owners", "everyone", "MEMBERS"] {
        api.post(SETS, json!({"name": name}))
            .await
            .refuses(json!({"name": [format!("Name {name} is reserved and cannot be used.")]}));
    }
}

#[tokio::test]
async fn nobody_gives_what_he_lacks() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.post("/api/object-classes/", json!({"name": "Order"})).await.expect_created();
    let lesser = server.with_role(json!({"object_classes": ["edit_perm_set"], "object_records": ["view"]})).await;
    lesser.post(SETS, json!({"name": "a", "permissions": {"object_records": ["view"]}})).await.expect_created();
    for permissions in
        [json!({"object_records": ["delete"]}), json!({"object_classes": ["delete"]}), json!({"tasks": ["view"]})]
    {
        lesser
            .post(SETS, json!({"name": "b", "permissions": permissions}))
            .await
            .expect_reply(403, message::forbidden());
        lesser
            .patch(&format!("{SETS}2/"), json!({"permissions": permissions}))
            .await
            .expect_reply(403, message::forbidden());
    }
    api.post(SETS, json!({"name": "strong", "permissions": {"object_records": ["delete"]}})).await.expect_created();
    lesser.post(&format!("{SETS}3/assignees/users/"), json!([lesser.id])).await.expect_reply(403, message::forbidden());
    lesser.patch(&format!("{SETS}3/"), json!({"name": "renamed"})).await.ok();
}

#[tokio::test]
async fn limits_of_sets_and_of_their_assignees() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    // The system's set counts in the limit.
    for n in 2..=10 {
        api.post(SETS, json!({"name": format!("Set {n}")})).await.expect_created();
    }
    let exceeded = |limit: &str| message::limit_exceeded(limit);
    api.post(SETS, json!({"name": "More"})).await.expect_reply(400, exceeded("10 Object Class Permission Sets"));
    let (of_users, of_groups) = (format!("{SETS}2/assignees/users/"), format!("{SETS}2/assignees/user-groups/"));
    let users = users(&api, 101).await;
    api.post(&of_users, json!(users)).await.expect_reply(400, message::detail("Up to 100 items allowed."));
    api.post(&of_users, json!(users[..100])).await.expect_created();
    api.post(&of_users, json!(users[100..])).await.expect_reply(400, exceeded("100 Permission Set Assignees"));
    let mut groups = Vec::new();
    for n in 0..11 {
        groups.push(group(&api, &format!("Group {n}"), &[]).await);
    }
    api.post(&of_groups, json!(groups)).await.expect_reply(400, message::detail("Up to 10 items allowed."));
    api.post(&of_groups, json!(groups[..10])).await.expect_created();
    api.post(&of_groups, json!(groups[10..])).await.expect_reply(400, exceeded("10 Permission Set Assignees"));
    // Existing assignees are accepted again, another set has its own limit, and a removal allows a new assignee.
    api.post(&of_users, json!(users[..2])).await.expect_created();
    api.post(&of_groups, json!(groups[..2])).await.expect_created();
    api.post(&format!("{SETS}3/assignees/users/"), json!(users[100..])).await.expect_created();
    api.delete_all(&of_users, json!(users[..1])).await.expect_empty();
    api.post(&of_users, json!(users[100..])).await.expect_created();

    let limits = json!({
        "object_class_permission_set": 11, "object_class_permission_set_assignees": 7,
        "object_class_permission_set_users_groups_assignees": 8,
    });
    set_limits(&server, limits).await;
    for (path, restrictions) in [
        (SETS, json!({"limit_items": 11})),
        (&of_users, json!({"limit_items": 7, "limit_items_in_batch": 100})),
        (&of_groups, json!({"limit_items": 8, "limit_items_in_batch": 10})),
    ] {
        assert_eq!(api.options(path).await.ok()["restrictions"], restrictions, "{path}");
    }
    api.post(SETS, json!({"name": "More"})).await.expect_created();
    api.post(&of_users, json!(users[..1])).await.expect_reply(400, exceeded("7 Permission Set Assignees"));
    api.post(&of_groups, json!(groups[10..])).await.expect_reply(400, exceeded("8 Permission Set Assignees"));
}

#[tokio::test]
async fn invalid_assignees_are_refused() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let keeper = server.as_type("external").await;
    with_class_set(&api, keeper.id, json!({"object_classes": ["edit_perm_set"]})).await;
    api.post(SETS, json!({"name": "Nothing"})).await.expect_created();
    let (of_users, of_groups) = (format!("{SETS}3/assignees/users/"), format!("{SETS}3/assignees/user-groups/"));
    server.account("one_time_completion").await;
    let one_time = api.get("/api/users/?account_type=one_time_completion").await.ids()[0];
    let refused = format!("1 Time Completion account {one_time} cannot be assignee.");
    api.post(&of_users, json!([keeper.id, one_time])).await.expect_reply(400, message::detail(&refused));
    api.post(&of_users, json!([keeper.id, 99]))
        .await
        .expect_reply(400, message::detail("Invalid pk 99 - object does not exist."));
    // The caller cannot assign users and groups that they may not list.
    let team = group(&api, "Team", &[]).await;
    let refused = "You do not have permission to assign user 1 to the permission set.";
    keeper.post(&of_users, json!([1])).await.expect_reply(400, message::detail(refused));
    let refused = format!("You do not have permission to assign user group {team} to the permission set.");
    keeper.post(&of_groups, json!([team])).await.expect_reply(400, message::detail(&refused));
    for path in [&of_users, &of_groups] {
        api.get(path).await.expect_reply(200, page(json!([])));
    }
}

/// Returns the latest entry of the administration log.
async fn last_entry(api: &ApiClient) -> Value {
    let log = api.get("/api/administration/log/?limit=1").await.ok();
    let [entry] = &log["results"].as_array().unwrap()[..] else { panic!("{log}") };
    json!(["action", "resource", "object_id", "object_name", "changes"].map(|name| entry[name].clone()))
}

#[tokio::test]
async fn every_change_of_a_set_is_in_the_log() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let (person, team) = (server.as_type("internal").await.id, group(&api, "Team", &[]).await);
    let (set, sets) = (format!("{SETS}2/"), "object_class_permission_sets");
    let permissions =
        |classes: &[&str], records: &[&str]| json!({"object_classes": classes, "object_records": records, "tasks": []});
    let (original, edited) = (permissions(&["view"], &["create"]), permissions(&["view", "edit"], &["create"]));

    let body = json!({"name": "Set", "permissions": {"object_classes": ["view"], "object_records": ["create"]}});
    api.post(SETS, body).await.expect_created();
    let changes = json!({"name": [null, "Set"], "permissions": [null, original]});
    assert_eq!(last_entry(&api).await, json!(["create", sets, 2, "Set", changes]));
    api.patch(&set, json!({"name": "Editors", "permissions": {"object_classes": ["edit"]}})).await.ok();
    let changes = json!({"name": ["Set", "Editors"], "permissions": [original, edited]});
    assert_eq!(last_entry(&api).await, json!(["edit", sets, 2, "Editors", changes]));
    // A write without a difference is not logged.
    api.patch(&set, json!({"name": "Editors", "permissions": {"object_classes": ["edit"]}})).await.ok();
    assert_eq!(last_entry(&api).await, json!(["edit", sets, 2, "Editors", changes]));
    for (kind, field, id) in [("users", "users", person), ("user-groups", "user_groups", team)] {
        let path = format!("{set}assignees/{kind}/");
        let added = json!(["add_assignees", sets, 2, "Editors", {field: [[], [id]]}]);
        api.post(&path, json!([id])).await.expect_created();
        assert_eq!(last_entry(&api).await, added);
        // A user or group that is assigned already is not logged again.
        let entries = api.get("/api/administration/log/?limit=1").await["total_count"].clone();
        api.post(&path, json!([id])).await.expect_created();
        assert_eq!(api.get("/api/administration/log/?limit=1").await["total_count"], entries);
        api.delete_all(&path, json!([id])).await.expect_empty();
        assert_eq!(last_entry(&api).await, json!(["remove_assignees", sets, 2, "Editors", {field: [[id], []]}]));
    }
    // The assignees that are removed with a set are not logged separately.
    api.post(&format!("{set}assignees/users/"), json!([person])).await.expect_created();
    api.delete(&set).await.expect_empty();
    assert_eq!(last_entry(&api).await, json!(["delete", sets, 2, "Editors", {}]));
    let log = api.get(&format!("/api/administration/log/?resource={sets}&ordering=id")).await;
    let actions = [
        "create",
        "edit",
        "add_assignees",
        "remove_assignees",
        "add_assignees",
        "remove_assignees",
        "add_assignees",
        "delete",
    ];
    assert_eq!(log.column("action"), actions);
    // Sets that the system creates with a class have no entry.
    assert_eq!(api.get(&format!("/api/administration/log/?resource={sets}&object_id=1")).await["filtered_count"], 0);
}
