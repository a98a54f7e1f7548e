//! Members and owners of a group (`docs/reference/permission-sets.md`).

use crate::TestServer;
use crate::message;
use crate::shown::{START, admin, page, user};
use serde_json::{Value, json};
use testkit::{ApiClient, SECOND};

const MEMBERS: &str = "/api/user-groups/1/members/users/";
const OWNERS: &str = "/api/user-groups/1/owners/users/";

/// Returns the first super admin, who has created group 1 and owns it.
async fn with_group(server: &TestServer) -> ApiClient {
    let api = server.admin().await;
    api.post("/api/user-groups/", json!({"name": "Group"})).await.expect_created();
    api
}

/// Returns the ids of the people on a page.
async fn list_user_ids(caller: &ApiClient, path: &str) -> Vec<i64> {
    caller.get(path).await.column("user").iter().map(|user| user["id"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn members_come_and_go() {
    let server = TestServer::start().await;
    let api = with_group(&server).await;
    let ann = server.as_type("internal").await;
    let record = |who: Value, at: &str, by: Value| json!({"user": who, "created_at": at, "created_by": by});
    let first = record(user(&ann, "internal"), START, admin());
    api.post(MEMBERS, json!([ann.id])).await.expect_reply(201, json!([first]));

    server.advance(SECOND);
    let second = server.as_type("super_admin").await;
    let later = record(admin(), "2026-01-31T09:30:01.000000Z", user(&second, "super_admin"));
    second.post(MEMBERS, json!([1, ann.id, 1])).await.expect_reply(201, json!([later, first]));
    api.get(MEMBERS).await.expect_reply(200, page(json!([first, later])));
    api.get(&format!("{MEMBERS}?ordering=user&created_by=77")).await.expect_reply(200, page(json!([first, later])));

    api.delete_all(MEMBERS, json!([ann.id])).await.expect_empty();
    api.get(MEMBERS).await.expect_reply(200, page(json!([later])));
    let gone = message::detail(&format!("Invalid pk {} - object does not exist.", ann.id));
    api.delete_all(MEMBERS, json!([ann.id])).await.expect_reply(400, gone);
}

#[tokio::test]
async fn owners_come_and_go_and_the_last_one_stays() {
    let server = TestServer::start().await;
    let api = with_group(&server).await;
    let ann = server.as_type("external").await;
    let last = message::detail("The last owner must remain.");
    api.delete_all(OWNERS, json!([1])).await.expect_reply(400, last.clone());
    let record = |who: Value| json!({"user": who, "created_at": START, "created_by": admin()});
    api.post(OWNERS, json!([ann.id])).await.expect_reply(201, json!([record(user(&ann, "external"))]));
    api.get(OWNERS).await.expect_reply(200, page(json!([record(admin()), record(user(&ann, "external"))])));
    // The removal of all at once is refused, too.
    api.delete_all(OWNERS, json!([1, ann.id])).await.expect_reply(400, last.clone());
    api.delete_all(OWNERS, json!([1])).await.expect_empty();
    ann.delete_all(OWNERS, json!([ann.id])).await.expect_reply(400, last);
    assert_eq!(list_user_ids(&ann, OWNERS).await, [ann.id]);
}

#[tokio::test]
async fn a_last_owner_who_is_deleted_leaves_the_group_to_super_admins() {
    let server = TestServer::start().await;
    let api = with_group(&server).await;
    let owner = server.with_role(json!({"user_groups": ["create"]})).await;
    let group = owner.post("/api/user-groups/", json!({"name": "His own"})).await.id();
    api.delete(&format!("/api/users/{}/", owner.id)).await.expect_empty();
    let owners = format!("/api/user-groups/{group}/owners/users/");
    api.get(&owners).await.expect_reply(200, page(json!([])));
    api.post(&owners, json!([1])).await.expect_created();
    let shown = api.get(&format!("/api/user-groups/{group}/")).await.ok();
    assert_eq!(shown["created_by"]["is_deleted"], true);
}

#[tokio::test]
async fn bodies_are_lists_of_known_ids() {
    let server = TestServer::start().await;
    let api = with_group(&server).await;
    server.account("one_time_completion").await;
    let one_time = api.get("/api/users/?account_type=one_time_completion").await.ids()[0];
    for (path, role) in [(MEMBERS, "member"), (OWNERS, "owner")] {
        for (body, detail) in [
            (json!([]), "This list may not be empty.".to_owned()),
            (json!({}), "Expected a list of items but got type dict.".to_owned()),
            (json!(["x"]), "Incorrect type. Expected pk value, received str.".to_owned()),
            (json!([1, 999]), "Invalid pk 999 - object does not exist.".to_owned()),
            (json!([one_time]), format!("1 Time Completion account {one_time} cannot be {role}.")),
            (json!((1..=101).collect::<Vec<_>>()), "Up to 100 items allowed.".to_owned()),
        ] {
            assert_eq!(api.post(path, body.clone()).await, (400, message::detail(&detail)), "{path} {body}");
        }
    }
    assert_eq!(list_user_ids(&api, MEMBERS).await, Vec::<i64>::new());
}

#[tokio::test]
async fn members_need_edit_and_owners_need_edit_perm_set() {
    let server = TestServer::start().await;
    let api = with_group(&server).await;
    let (owner, member) = (server.as_type("external").await, server.as_type("external").await);
    let (editor, deleter) = (server.as_type("internal").await, server.as_type("internal").await);
    let stranger = server.as_type("full").await;
    let creator = server.with_role(json!({"user_groups": ["create"]})).await;
    api.post(OWNERS, json!([owner.id])).await.expect_created();
    api.post(MEMBERS, json!([member.id])).await.expect_created();
    for (holder, action) in [(&editor, "edit"), (&deleter, "delete")] {
        let body = json!({"name": action, "permissions": {"user_groups": [action]}});
        let set = api.post("/api/user-groups/1/permission-sets/", body).await.id();
        let path = format!("/api/user-groups/1/permission-sets/{set}/assignees/users/");
        api.post(&path, json!([holder.id])).await.expect_created();
    }
    for (caller, read, members, owners) in [
        (&server.anonymous(), 401, 401, 401),
        (&stranger, 403, 403, 403),
        (&member, 200, 403, 403),
        (&creator, 200, 403, 403),
        (&deleter, 200, 403, 403),
        // A user with `edit` cannot become an owner this way.
        (&editor, 200, 201, 403),
        (&owner, 200, 201, 201),
        (&server.as_type("service_internal").await, 200, 201, 201),
    ] {
        let id = caller.id.max(1);
        assert_eq!(caller.get(MEMBERS).await.status, read, "{}", caller.username);
        assert_eq!(caller.get(OWNERS).await.status, read, "{}", caller.username);
        assert_eq!(caller.post(MEMBERS, json!([id])).await.status, members, "{}", caller.username);
        assert_eq!(caller.post(OWNERS, json!([id])).await.status, owners, "{}", caller.username);
        let removed = |added: u16| if added == 201 { 204 } else { added };
        let status = caller.delete_all(MEMBERS, json!([id])).await.status;
        assert_eq!(status, removed(members), "{}", caller.username);
        let status = caller.delete_all(OWNERS, json!([owner.id])).await.status;
        assert_eq!(status, removed(owners), "{}", caller.username);
        if owners == 201 {
            api.post(OWNERS, json!([owner.id])).await.expect_created();
        }
    }
}

#[tokio::test]
async fn only_whom_the_caller_may_list_is_added() {
    let server = TestServer::start().await;
    let api = with_group(&server).await;
    let (owner, stranger) = (server.as_type("external").await, server.as_type("internal").await);
    api.post(OWNERS, json!([owner.id])).await.expect_created();
    let refused = format!("You do not have permission to assign user {} to User Group 1.", stranger.id);
    owner.post(MEMBERS, json!([owner.id, stranger.id])).await.expect_reply(400, message::detail(&refused));
    owner.post(OWNERS, json!([stranger.id])).await.expect_reply(400, message::detail(&refused));
    owner.post(MEMBERS, json!([owner.id])).await.expect_created();
    api.post(MEMBERS, json!([stranger.id])).await.expect_created();
    owner.post(OWNERS, json!([stranger.id])).await.expect_created();
    owner.delete_all(MEMBERS, json!([stranger.id, owner.id])).await.expect_empty();
}

#[tokio::test]
async fn a_group_has_ten_owners_at_most() {
    let server = TestServer::start().await;
    let api = with_group(&server).await;
    for n in 2..=11 {
        let body = json!({
            "username": format!("user{n}@example.com"), "account_type": "external", "first_name": "U",
            "last_name": format!("{n}"), "delay_activation": true,
        });
        api.post("/api/users/", body).await.expect_created();
    }
    let refused = message::limit_exceeded("10 User Group Owners");
    api.post(OWNERS, json!([2, 3, 4, 5, 6, 7, 8, 9, 10, 11])).await.refuses(refused.clone());
    api.post(OWNERS, json!([2, 3, 4, 5, 6, 7, 8, 9, 10])).await.expect_created();
    api.post(OWNERS, json!([1, 11])).await.refuses(refused);
    assert_eq!(list_user_ids(&api, OWNERS).await, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
}

#[tokio::test]
async fn refusals_come_in_their_order() {
    let server = TestServer::start().await;
    let api = with_group(&server).await;
    let stranger = server.as_type("internal").await;
    for kind in ["members", "owners"] {
        let at = |group: i64| format!("/api/user-groups/{group}/{kind}/users/");
        server.anonymous().post(&at(999), json!(5)).await.expect_reply(401, message::unauthenticated());
        for caller in [&stranger, &api] {
            caller.get(&at(999)).await.expect_reply(404, message::not_found());
            caller.post(&at(999), json!(5)).await.expect_reply(404, message::not_found());
            caller.delete_all(&at(999), json!(5)).await.expect_reply(404, message::not_found());
            caller.options(&at(999)).await.expect_reply(404, message::not_found());
        }
        stranger.get(&at(1)).await.expect_reply(403, message::forbidden());
        stranger.post(&at(1), json!(5)).await.expect_reply(403, message::forbidden());
        stranger.delete_all(&at(1), json!(5)).await.expect_reply(403, message::forbidden());
        for method in ["GET", "PATCH", "PUT", "DELETE"] {
            let reply = api.call(method, &format!("{}1/", at(1))).send().await;
            reply.expect_reply(405, message::detail(&format!("Method \"{method}\" not allowed.")));
        }
    }
}

#[tokio::test]
async fn options_describe_both_collections() {
    let server = TestServer::start().await;
    with_group(&server).await;
    let caller = server.as_type("external").await;
    for (path, limit) in [(MEMBERS, 1000), (OWNERS, 10)] {
        server.anonymous().options(path).await.expect_reply(401, message::unauthenticated());
        let document = caller.options(path).await.ok();
        assert_eq!(document["restrictions"], json!({"limit_items": limit, "limit_items_in_batch": 100}));
        assert_eq!(document["batch"]["type"], "set");
    }
}

#[tokio::test]
async fn members_are_listed_to_one_another() {
    let server = TestServer::start().await;
    let api = with_group(&server).await;
    let (ann, ben) = (server.as_type("external").await, server.as_type("service_external").await);
    assert_eq!(ann.get("/api/users/").await.ids(), [ann.id]);
    api.post(MEMBERS, json!([ann.id, ben.id])).await.expect_created();
    assert_eq!(ann.get("/api/users/").await.ids(), [ann.id, ben.id]);
    assert_eq!(ben.get("/api/users/").await.ids(), [ann.id, ben.id]);
    // Owners are not members.
    let owner = server.as_type("external").await;
    api.post(OWNERS, json!([owner.id])).await.expect_created();
    assert_eq!(owner.get("/api/users/").await.ids(), [ann.id, ben.id, owner.id]);
    assert_eq!(ann.get("/api/users/").await.ids(), [ann.id, ben.id]);
}
