//! `/api/object-classes/{id}/permission-sets/` and the assignees of a set (`docs/reference/object-classes.md`).

use serde_json::json;
use testkit::Server;
use testkit::message;
use testkit::shown::{START, admin, page};

const SETS: &str = "/api/object-classes/1/permission-sets/";

#[tokio::test]
async fn a_set_gives_what_it_says_to_those_who_are_assigned() {
    let server = Server::start().await;
    let api = server.admin().await;
    api.post("/api/object-classes/", json!({"name": "Order"})).await.created();
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
    api.post(SETS, body).await.is(201, set);
    let clerk = server.as_type("external").await;
    clerk.get("/api/object-classes/1/").await.is(404, message::not_found());
    api.post(&format!("{SETS}2/assignees/users/"), json!([clerk.id])).await.created();
    // Records that may be viewed open the class, but not its sets.
    let class = clerk.get("/api/object-classes/1/").await.ok();
    assert_eq!(
        class["_meta"],
        json!({"permissions": {
            "view": true, "edit": false, "delete": false, "edit_perm_set": false,
            "object_records": {"create": false, "list": true, "view": true, "edit": true, "delete": false},
        }})
    );
    clerk.get("/api/object-classes/1/object-records/").await.is(200, page(json!([])));
    clerk.get(SETS).await.is(403, message::forbidden());
    clerk.get(&format!("{SETS}2/assignees/users/")).await.is(403, message::forbidden());
    clerk.patch("/api/object-classes/1/", json!({"name": "Mine"})).await.is(403, message::forbidden());
    api.delete_all(&format!("{SETS}2/assignees/users/"), json!([clerk.id])).await.is_empty();
    clerk.get("/api/object-classes/1/").await.is(404, message::not_found());
}

#[tokio::test]
async fn everyone_takes_few_actions_and_no_assignees() {
    let server = Server::start().await;
    let api = server.admin().await;
    api.post("/api/object-classes/", json!({"name": "Order"})).await.created();
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
        .is(400, json!({"detail": "Assignees can not be set to this permission set type."}));
    api.delete(&format!("{SETS}1/"))
        .await
        .is(400, json!({"detail": "Permission set of type Everyone is restricted and cannot be deleted."}));
    for name in ["Owners", "everyone", "MEMBERS"] {
        api.post(SETS, json!({"name": name}))
            .await
            .refuses(json!({"name": [format!("Name {name} is reserved and cannot be used.")]}));
    }
}

#[tokio::test]
async fn nobody_gives_what_he_lacks() {
    let server = Server::start().await;
    let api = server.admin().await;
    api.post("/api/object-classes/", json!({"name": "Order"})).await.created();
    let lesser = server.with_role(json!({"object_classes": ["edit_perm_set"], "object_records": ["view"]})).await;
    lesser.post(SETS, json!({"name": "a", "permissions": {"object_records": ["view"]}})).await.created();
    for permissions in
        [json!({"object_records": ["delete"]}), json!({"object_classes": ["delete"]}), json!({"tasks": ["view"]})]
    {
        lesser.post(SETS, json!({"name": "b", "permissions": permissions})).await.is(403, message::forbidden());
        lesser.patch(&format!("{SETS}2/"), json!({"permissions": permissions})).await.is(403, message::forbidden());
    }
    api.post(SETS, json!({"name": "strong", "permissions": {"object_records": ["delete"]}})).await.created();
    lesser.post(&format!("{SETS}3/assignees/users/"), json!([lesser.id])).await.is(403, message::forbidden());
    lesser.patch(&format!("{SETS}3/"), json!({"name": "renamed"})).await.ok();
}
