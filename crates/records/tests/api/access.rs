//! `access/` of a class and of a record (`docs/reference/object-classes.md`, `docs/reference/object-records.md`).

use crate::TestServer;
use crate::set_up::{assignees, connectors, group, record, set, sql, with_class, with_class_set};
use serde_json::{Value, json};
use testkit::ApiClient;
use testkit::message;
use testkit::shown::{admin, user};

const CLASS: &str = "/api/object-classes/1/access/";

fn record_path(record: i64) -> String {
    format!("/api/object-records/{record}/access/")
}

/// Returns the actions that are true, as `resource.action`.
fn true_actions(answer: &Value) -> Vec<String> {
    let resources = answer["permissions"].as_object().unwrap();
    let action_names = |(resource, actions): (&String, &Value)| {
        let actions = actions.as_object().unwrap().clone();
        let resource = resource.clone();
        actions
            .into_iter()
            .filter(|(_, held)| *held == json!(true))
            .map(move |(action, _)| format!("{resource}.{action}"))
    };
    let mut held: Vec<String> = resources.iter().flat_map(action_names).collect();
    held.sort();
    held
}

/// Returns the ways without their actions and without duplicates, in their order.
fn sources(answer: &Value) -> Vec<Value> {
    let mut sources = Vec::new();
    for way in answer["ways"].as_array().unwrap() {
        let source = json!([way["source"], way["id"], way["name"], way["user_group"]["name"]]);
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    sources
}

fn way(resource: &str, action: &str, source: &str, id: Value, name: Value, user_group: Value) -> Value {
    json!({"resource": resource, "action": action, "source": source, "id": id, "name": name, "user_group": user_group})
}

#[tokio::test]
async fn each_thing_that_gives_an_action_is_told() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let ann = server.with_role(json!({"object_records": ["edit"]})).await;
    let team = group(&api, "Team", &[ann.id]).await;
    let (readers, record_id) = (set(&api, "Readers", json!({"object_records": ["view"]})).await, record(&api).await);
    api.post(&assignees(record_id, readers), json!([ann.id])).await.expect_created();
    api.post(&format!("{}user-groups/", assignees(record_id, readers)), json!([team])).await.expect_created();
    with_class_set(&api, ann.id, json!({"object_records": ["view"]})).await;
    let role = api.get("/api/roles/?ordering=-id").await;
    let (role_id, role_name) = (role.column("id")[0].clone(), role.column("name")[0].clone());
    let of_team = json!({"id": team, "name": "Team"});
    let nobody = Value::Null;
    let of_class = || {
        way("object_records", "view", "class_permission_set", json!(2), json!(format!("Of {}", ann.id)), nobody.clone())
    };
    let expected = json!({
        "user": user(&ann, "full"),
        "permissions": {
            "object_records": {"view": true, "edit": true, "delete": false, "edit_owners": false},
            "tasks": {"create": false, "edit": false, "view": false, "delete": false, "complete": false, "assign": false},
        },
        "ways": [
            way("object_records", "view", "role", role_id.clone(), role_name.clone(), nobody.clone()),
            of_class(),
            way("object_records", "view", "record_permission_set", json!(readers), json!("Readers"), nobody.clone()),
            way("object_records", "view", "record_permission_set", json!(readers), json!("Readers"), of_team),
            way("object_records", "edit", "role", role_id, role_name, nobody.clone()),
        ],
    });
    let path = record_path(record_id);
    ann.get(&path).await.expect_reply(200, expected.clone());
    ann.get(&format!("{path}?user={}", ann.id)).await.expect_reply(200, expected.clone());
    api.get(&format!("{path}?user={}", ann.id)).await.expect_reply(200, expected);

    // A super admin has every action by the account type, and here also as owner of the record and of the class.
    let of_admin = api.get(&path).await.ok();
    assert_eq!((of_admin["user"].clone(), true_actions(&of_admin).len()), (admin(), 10));
    let owner = |source: &str| json!([source, null, null, null]);
    assert_eq!(
        sources(&of_admin),
        [json!(["account_type", null, "super_admin", null]), owner("owner"), owner("class_owner")]
    );
    assert_eq!(of_admin["ways"].as_array().unwrap().len(), 30);
}

#[tokio::test]
async fn a_class_is_told_with_what_its_records_open() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let (readers, one) = (set(&api, "Readers", json!({"object_records": ["view"]})).await, record(&api).await);
    let (ann, ben, carl) =
        (server.as_type("external").await, server.as_type("internal").await, server.as_type("internal").await);
    ann.get(CLASS).await.expect_reply(404, message::not_found());
    api.post(&assignees(one, readers), json!([ann.id])).await.expect_created();
    // The visibility of a record makes the class visible, without an entry in `ways`.
    let answer = ann.get(CLASS).await.ok();
    assert_eq!((true_actions(&answer), answer["ways"].clone()), (vec!["object_classes.view".to_owned()], json!([])));
    assert_eq!(answer["permissions"]["object_records"].as_object().unwrap().len(), 6);

    let team = group(&api, "Team", &[ben.id]).await;
    let keepers =
        json!({"name": "Keepers", "permissions": {"object_classes": ["edit_perm_set"], "object_records": ["create"]}});
    api.post("/api/object-classes/1/permission-sets/", keepers).await.expect_created();
    api.post("/api/object-classes/1/permission-sets/2/assignees/user-groups/", json!([team])).await.expect_created();
    api.patch("/api/object-classes/1/permission-sets/1/", json!({"permissions": {"object_records": ["view"]}}))
        .await
        .ok();
    let (everyone, of_team) =
        (json!(["class_permission_set", 1, "everyone", null]), json!(["class_permission_set", 2, "Keepers", "Team"]));
    let answer = ben.get(CLASS).await.ok();
    assert_eq!(
        true_actions(&answer),
        [
            "object_classes.edit_perm_set",
            "object_classes.view",
            "object_records.create",
            "object_records.list",
            "object_records.view"
        ]
    );
    assert_eq!(sources(&answer), [of_team, everyone.clone()]);
    // Only callers who may change the sets may ask about others.
    assert_eq!(sources(&ben.get(&format!("{CLASS}?user={}", carl.id)).await.ok()), [everyone]);
    carl.get(&format!("{CLASS}?user={}", ben.id)).await.expect_reply(403, message::forbidden());
    carl.get(&format!("{CLASS}?user={}", carl.id)).await.ok();
    // The set for everyone does not apply to services.
    let service = server.as_type("service_external").await;
    let answer = api.get(&format!("{CLASS}?user={}", service.id)).await.ok();
    assert_eq!((true_actions(&answer), answer["ways"].clone()), (Vec::<String>::new(), json!([])));
}

#[tokio::test]
async fn callers_read_the_access_of_others_with_edit_owners_only() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let (readers, record_id) = (set(&api, "Readers", json!({"object_records": ["edit"]})).await, record(&api).await);
    let path = record_path(record_id);
    let about = |user: &ApiClient| format!("{path}?user={}", user.id);
    let (ann, ben, stranger) =
        (server.as_type("external").await, server.as_type("internal").await, server.as_type("internal").await);
    stranger.get(&path).await.expect_reply(404, message::not_found());
    stranger.get(&record_path(999)).await.expect_reply(404, message::not_found());
    api.post(&assignees(record_id, readers), json!([ann.id])).await.expect_created();
    ann.get(&about(&ann)).await.ok();
    ann.get(&about(&ben)).await.expect_reply(403, message::forbidden());
    ann.get(&format!("{path}?user=999")).await.expect_reply(403, message::forbidden());
    with_class_set(&api, ann.id, json!({"object_records": ["edit_owners"]})).await;
    // Users whom the caller may not list are refused like unknown ids.
    for unknown in [ben.id.to_string(), "999".to_owned(), "x".to_owned(), String::new()] {
        let errors = json!({"user": [format!("Invalid pk {unknown} - object does not exist.")]});
        ann.get(&format!("{path}?user={unknown}")).await.refuses(errors);
    }
    // A user without grants has empty ways. An anonymized account has no actions, and a deleted one is unknown.
    let answer = api.get(&about(&stranger)).await.ok();
    assert_eq!((true_actions(&answer), answer["ways"].clone()), (Vec::<String>::new(), json!([])));
    api.post(&assignees(record_id, readers), json!([ben.id, stranger.id])).await.expect_created();
    assert_eq!(true_actions(&api.get(&about(&ben)).await.ok()), ["object_records.edit", "object_records.view"]);
    // A deactivated account has no actions now, but its ways remain.
    let ways = api.get(&about(&ben)).await["ways"].clone();
    api.post(&format!("/api/users/{}/deactivate/", ben.id), json!({})).await.ok();
    let answer = api.get(&about(&ben)).await.ok();
    assert_eq!((true_actions(&answer), &answer["ways"]), (Vec::<String>::new(), &ways));
    api.post(&format!("/api/users/{}/anonymize/", ben.id), json!({})).await.ok();
    let answer = api.get(&about(&ben)).await.ok();
    assert_eq!((true_actions(&answer), answer["ways"].clone()), (Vec::<String>::new(), json!([])));
    api.delete(&format!("/api/users/{}/", stranger.id)).await.expect_empty();
    let errors = json!({"user": [format!("Invalid pk {} - object does not exist.", stranger.id)]});
    api.get(&about(&stranger)).await.refuses(errors);
}

#[tokio::test]
async fn ways_of_others_name_only_objects_that_the_caller_may_view() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let ann = server.with_role(json!({"object_records": ["view"]})).await;
    let role = api.get("/api/roles/?ordering=-id").await["results"][0].clone();
    let team = group(&api, "Team", &[ann.id]).await;
    let (readers, record_id) = (set(&api, "Readers", json!({"object_records": ["view"]})).await, record(&api).await);
    api.post(&format!("{}user-groups/", assignees(record_id, readers)), json!([team])).await.expect_created();
    with_class_set(&api, ann.id, json!({"object_records": ["view"]})).await;
    // These users may view only one group, which all of them are members of.
    let (owner, keeper) = (server.as_type("external").await, server.as_type("external").await);
    let shared = group(&api, "Shared", &[ann.id, owner.id, keeper.id]).await;
    let view = json!({"permissions": {"user_groups": ["view"]}});
    let sets = format!("/api/user-groups/{shared}/permission-sets/");
    let members = api.get(&sets).await.ok()["results"]
        .as_array()
        .unwrap()
        .iter()
        .find(|set| set["type"] == "members")
        .unwrap()["id"]
        .clone();
    api.patch(&format!("{sets}{members}/"), view).await.ok();
    api.patch(&format!("/api/object-records/{record_id}/"), json!({"owner": owner.id})).await.ok();
    let path = format!("{}?user={}", record_path(record_id), ann.id);
    let named = async |client: &ApiClient, path: &str| {
        let answer = client.get(path).await.ok();
        let ways = answer["ways"].as_array().unwrap().iter().filter(|way| way["action"] == "view");
        ways.map(|way| json!([way["source"], way["id"], way["name"], way["user_group"]])).collect::<Vec<_>>()
    };
    let hidden = json!({"id": null, "name": null});
    let of_set = |group: Value| json!(["record_permission_set", readers, "Readers", group]);
    let of_class = format!("Of {}", ann.id);
    assert_eq!(
        named(&owner, &path).await,
        [json!(["role", null, null, null]), json!(["class_permission_set", null, null, null]), of_set(hidden),]
    );
    let all = [
        json!(["role", role["id"], role["name"], null]),
        json!(["class_permission_set", 2, of_class, null]),
        of_set(json!({"id": team, "name": "Team"})),
    ];
    // Each user sees all ways of their own actions.
    assert_eq!(named(&ann, &record_path(record_id)).await, all);
    assert_eq!(named(&api, &path).await, all);
    // A caller with the rights to view them sees all names.
    let viewer = server.with_role(json!({"users": ["list"], "roles": ["view"], "user_groups": ["view"]})).await;
    with_class_set(&api, viewer.id, json!({"object_classes": ["view"], "object_records": ["edit_owners"]})).await;
    assert_eq!(named(&viewer, &path).await, all);
    // The same applies to a class.
    with_class_set(&api, keeper.id, json!({"object_classes": ["edit_perm_set"]})).await;
    let of_ann = named(&keeper, &format!("{CLASS}?user={}", ann.id)).await;
    assert_eq!(of_ann, [json!(["role", null, null, null]), all[1].clone()]);
}

#[tokio::test]
async fn an_agent_has_what_sets_give_to_its_connector() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    connectors(&server, &[(7, "Claude"), (9, "Elsewhere")]).await;
    let (editors, record_id) =
        (set(&api, "Editors", json!({"object_records": ["edit", "delete"]})).await, record(&api).await);
    let path = record_path(record_id);
    let give = json!({"mcp_permissions": [{"connector": 7, "permissions": {"object_records": ["edit"]}}]});
    api.patch(&format!("/api/object-classes/1/record-permission-sets/{editors}/"), give).await.ok();
    // Ownership, account type and class ownership grant an agent nothing.
    let answer = api.get(&format!("{path}?connector=7")).await.ok();
    assert_eq!((true_actions(&answer), answer["ways"].clone()), (Vec::<String>::new(), json!([])));
    let ann = server.as_type("internal").await;
    let team = group(&api, "Team", &[ann.id]).await;
    api.post(&format!("{}user-groups/", assignees(record_id, editors)), json!([team])).await.expect_created();
    let answer = ann.get(&format!("{path}?connector=7")).await.ok();
    assert_eq!(true_actions(&answer), ["object_records.edit", "object_records.view"]);
    assert_eq!(sources(&answer), [json!(["record_permission_set", editors, "Editors", "Team"])]);
    assert_eq!(
        true_actions(&ann.get(&path).await.ok()),
        ["object_records.delete", "object_records.edit", "object_records.view"]
    );
    // A connector that is not associated with the class has no actions, independent of stored rows.
    sql(&server, &["INSERT INTO record_set_connectors(permission_set, connector, permissions) VALUES (1, 9, 64)"])
        .await;
    assert_eq!(true_actions(&ann.get(&format!("{path}?connector=9")).await.ok()), Vec::<String>::new());
    for unknown in ["8", "x"] {
        let errors = json!({"connector": [format!("Invalid pk {unknown} - object does not exist.")]});
        ann.get(&format!("{path}?connector={unknown}")).await.refuses(errors);
    }
    let errors = json!({
        "user": ["Invalid pk 99 - object does not exist."],
        "connector": ["Invalid pk 8 - object does not exist."],
    });
    api.get(&format!("{path}?connector=8&user=99")).await.refuses(errors);
}
