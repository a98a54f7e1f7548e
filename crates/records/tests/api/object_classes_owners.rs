//! `/api/object-classes/{id}/owners/` (`docs/reference/object-classes.md`).

use crate::TestServer;
use serde_json::{Value, json};
use testkit::ApiClient;
use testkit::message;
use testkit::shown::{START, admin, page, user};

fn owner(id: i64, of: Value) -> Value {
    json!({
        "id": id, "owner_id": of["id"], "type": "user",
        "name": format!("{} {}", of["first_name"].as_str().unwrap(), of["last_name"].as_str().unwrap()),
        "created_at": START, "user": of, "created_by": "admin Super Admin",
    })
}

async fn class(server: &TestServer) -> ApiClient {
    let api = server.admin().await;
    api.post("/api/object-classes/", json!({"name": "Order"})).await.expect_created();
    api
}

#[tokio::test]
async fn owners_come_and_go() {
    let server = TestServer::start().await;
    let api = class(&server).await;
    let person = server.as_type("internal").await;
    let path = "/api/object-classes/1/owners/";
    let [first, second] = [owner(1, admin()), owner(2, user(&person, "internal"))];
    let creator = first["created_by"].clone();
    api.get(path).await.expect_reply(200, page(json!([first])));
    api.post(path, json!([person.id, person.id, 1])).await.expect_reply(201, json!([second, first]));
    assert_eq!(creator, second["created_by"]);
    assert_eq!(api.get(&format!("{path}?ordering=-name&owner_id={}", person.id)).await.ids(), [2]);
    assert_eq!(api.get(&format!("{path}?created_by=1&name__icontains=ADMIN")).await.ids(), [1]);
    // An owner has all actions and may add owners.
    person.patch("/api/object-classes/1/", json!({"name": "Mine"})).await.ok();
    person.delete(&format!("{path}1/")).await.expect_empty();
    person.delete(&format!("{path}2/")).await.expect_reply(400, json!({"detail": "The last owner must remain."}));
    person.delete(&format!("{path}7/")).await.expect_reply(404, message::not_found());
    person.get(&format!("{path}2/")).await.expect_reply(405, json!({"detail": "Method \"GET\" not allowed."}));
}

#[tokio::test]
async fn only_owners_and_super_admins_change_them() {
    let server = TestServer::start().await;
    let api = class(&server).await;
    let path = "/api/object-classes/1/owners/";
    let editor = server.with_role(json!({"object_classes": ["edit", "edit_perm_set"]})).await;
    editor.get(path).await.ok();
    editor.post(path, json!([editor.id])).await.expect_reply(403, message::forbidden());
    editor.delete(&format!("{path}1/")).await.expect_reply(403, message::forbidden());
    for (body, detail) in [
        (json!([]), "This list may not be empty."),
        (json!({}), "Expected a list of items but got type dict."),
        (json!(["1"]), "Incorrect type. Expected pk value, received str."),
        (json!([99]), "Invalid pk 99 - object does not exist."),
        (json!([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]), "Up to 10 items allowed."),
    ] {
        api.post(path, body).await.expect_reply(400, json!({"detail": detail}));
    }
    let one_time = server.account("one_time_completion").await;
    let id = api.get(&format!("/api/users/?username={one_time}")).await.ids()[0];
    api.post(path, json!([id]))
        .await
        .expect_reply(400, json!({"detail": format!("1 Time Completion account {id} cannot be owner.")}));
    server.set_limit("object_class_owners", 1).await;
    api.post(path, json!([editor.id])).await.expect_reply(400, message::limit_exceeded("1 Object Class Owners"));
}

#[tokio::test]
async fn every_change_of_the_owners_is_in_the_log() {
    let server = TestServer::start().await;
    let api = class(&server).await;
    let person = server.as_type("internal").await;
    let path = "/api/object-classes/1/owners/";
    api.post(path, json!([1, person.id])).await.expect_created();
    api.post(path, json!([1, person.id])).await.expect_created();
    person.delete(&format!("{path}1/")).await.expect_empty();
    person.delete(&format!("{path}2/")).await.expect_reply(400, json!({"detail": "The last owner must remain."}));
    let log = api.get("/api/administration/log/?resource=object_classes&ordering=id").await;
    let told = |entry: &Value| json!([entry["action"], entry["object_id"], entry["by"]["id"], entry["object_name"]]);
    assert_eq!(
        log["results"].as_array().unwrap().iter().map(told).collect::<Vec<_>>(),
        [
            json!(["create", 1, 1, "Order"]),
            json!(["add_owners", 1, 1, "Order"]),
            json!(["add_owners", 1, 1, "Order"]),
            json!(["remove_owners", 1, person.id, "Order"]),
        ]
    );
    let changes = |owners: Value| json!({"owners": owners});
    assert_eq!(
        log.column("changes")[1..],
        [changes(json!([[], [1]])), changes(json!([[], [person.id]])), changes(json!([[1], []]))]
    );
}
