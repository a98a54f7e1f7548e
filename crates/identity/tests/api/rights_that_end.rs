//! A right that ends while a write waits for another transaction ends the write. The rights at the time of its effect decide
//! (`docs/reference/conventions.md`). On SQLite writes are never concurrent.

use crate::TestServer;
use crate::message;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn to_give_a_permission() {
    let server = TestServer::start().await;
    if server.app.store.is_embedded() {
        return;
    }
    let api = server.admin().await;
    let all = json!({"user_groups": ["create"], "roles": ["list", "view", "edit"]});
    let person = server.with_role(all).await;
    let role = api.post("/api/roles/", json!({"name": "Another"})).await.id();
    let path = format!("/api/roles/{role}/");
    let before = api.get(&path).await;
    let call = person.call("PATCH", &path).json(&json!({"permissions": {"user_groups": ["create"]}}));
    let takes = async || {
        let permissions = json!({"permissions": {"user_groups": []}});
        api.patch("/api/roles/1/", permissions).await.ok();
    };
    let reply = server.while_it_waits("SELECT id FROM roles WHERE id = 2 FOR UPDATE", call, takes).await;
    reply.expect_reply(403, message::forbidden());
    assert_eq!(api.get(&path).await.ok()["permissions"], before["permissions"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_group() {
    let server = TestServer::start().await;
    if server.app.store.is_embedded() {
        return;
    }
    let api = server.admin().await;
    let person = server.as_type("external").await;
    for name in ["Team", "Editors"] {
        api.post("/api/user-groups/", json!({"name": name})).await.expect_created();
    }
    let set = json!({"name": "Editors", "permissions": {"user_groups": ["view", "edit"]}});
    let set = api.post("/api/user-groups/1/permission-sets/", set).await.id();
    let assignees = format!("/api/user-groups/1/permission-sets/{set}/assignees/user-groups/");
    api.post(&assignees, json!([2])).await.expect_created();
    // Another group has the name until its transaction is rolled back.
    let holds = "INSERT INTO user_groups(name, name_fold, description, created_at, modified_at) \
                 VALUES ('Crew', 'crew', '', 0, 0) RETURNING id";
    let call = || person.call("PATCH", "/api/user-groups/1/").json(&json!({"name": "Crew"}));
    let members = "/api/user-groups/2/members/users/";
    api.post(members, json!([person.id])).await.expect_created();
    let leaves = async || api.delete_all(members, json!([person.id])).await.expect_empty();
    server.while_it_waits(holds, call(), leaves).await.expect_reply(403, message::forbidden());
    api.post(members, json!([person.id])).await.expect_created();
    let goes = async || api.delete("/api/user-groups/2/").await.expect_empty();
    server.while_it_waits(holds, call(), goes).await.expect_reply(403, message::forbidden());
    assert_eq!(api.get("/api/user-groups/1/").await.ok()["name"], "Team");
}
