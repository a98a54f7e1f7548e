//! `…/permission-sets/{id}/assignees/` of a group: users and groups (`docs/reference/permission-sets.md`).

use crate::TestServer;
use crate::message;
use crate::shown::{START, admin, page, user};
use serde_json::{Value, json};
use testkit::{ApiClient, SECOND};

/// The custom set of the only group.
const USERS: &str = "/api/user-groups/1/permission-sets/3/assignees/users/";
const GROUPS: &str = "/api/user-groups/1/permission-sets/3/assignees/user-groups/";
/// The assignees of the system's sets.
const EVERYONE: &str = "/api/user-groups/1/permission-sets/1/assignees/";
const MEMBERS: &str = "/api/user-groups/1/permission-sets/2/assignees/";

/// Returns the first super admin, who has created group 1 with the custom set 3.
async fn with_set(server: &TestServer) -> ApiClient {
    let api = server.admin().await;
    api.post("/api/user-groups/", json!({"name": "Group"})).await.expect_created();
    api.post("/api/user-groups/1/permission-sets/", json!({"name": "Set"})).await.expect_created();
    api
}

/// Returns the ids of these users in a page of records.
fn users(page: &testkit::Reply) -> Vec<i64> {
    page.column("user").iter().map(|user| user["id"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn users_are_assigned_and_taken_away() {
    let server = TestServer::start().await;
    let api = with_set(&server).await;
    let (ann, ben) = (server.as_type("internal").await, server.as_type("service_external").await);
    let record = |client: &ApiClient, account_type: &str, at: &str, by: Value| json!({"user": user(client, account_type), "created_at": at, "created_by": by});
    let first = record(&ann, "internal", START, admin());
    api.post(USERS, json!([ann.id])).await.expect_reply(201, json!([first]));

    // Existing records do not change and are in the answer, too, in the order of the body. A duplicate id counts once.
    server.advance(SECOND);
    let second = server.as_type("super_admin").await;
    let later = record(&ben, "service_external", "2026-01-31T09:30:01.000000Z", user(&second, "super_admin"));
    second.post(USERS, json!([ben.id, ann.id, ben.id])).await.expect_reply(201, json!([later, first]));
    api.get(USERS).await.expect_reply(200, page(json!([first, later])));
    api.get(&format!("{USERS}?ordering=-created_at&user={}&planet=x", ann.id))
        .await
        .expect_reply(200, page(json!([first, later])));

    api.delete_all(USERS, json!([ann.id, ann.id])).await.expect_empty();
    api.get(USERS).await.expect_reply(200, page(json!([later])));
    let gone = message::detail(&format!("Invalid pk {} - object does not exist.", ann.id));
    api.delete_all(USERS, json!([ben.id, ann.id])).await.expect_reply(400, gone);
    api.get(USERS).await.expect_reply(200, page(json!([later])));
}

#[tokio::test]
async fn groups_are_assigned_and_taken_away() {
    let server = TestServer::start().await;
    let api = with_set(&server).await;
    api.post("/api/user-groups/", json!({"name": "Team"})).await.expect_created();
    let record = |id: i64, name: &str| json!({"id": id, "name": name, "created_by": admin(), "created_at": START});
    api.post(GROUPS, json!([2])).await.expect_reply(201, json!([record(2, "Team")]));
    // A group may be assigned to its own set.
    api.post(GROUPS, json!([1, 2])).await.expect_reply(201, json!([record(1, "Group"), record(2, "Team")]));
    api.get(GROUPS).await.expect_reply(200, page(json!([record(2, "Team"), record(1, "Group")])));
    api.delete_all(GROUPS, json!([2])).await.expect_empty();
    api.get(GROUPS).await.expect_reply(200, page(json!([record(1, "Group")])));
    api.delete_all(GROUPS, json!([2]))
        .await
        .expect_reply(400, message::detail("Invalid pk 2 - object does not exist."));
}

#[tokio::test]
async fn bodies_are_lists_of_known_ids() {
    let server = TestServer::start().await;
    let api = with_set(&server).await;
    for path in [USERS, GROUPS] {
        for (body, detail) in [
            (json!([]), "This list may not be empty."),
            (json!({"users": [1]}), "Expected a list of items but got type dict."),
            (json!("1"), "Expected a list of items but got type str."),
            (json!(1), "Expected a list of items but got type int."),
            (json!(1.5), "Expected a list of items but got type float."),
            (json!(true), "Expected a list of items but got type bool."),
            (Value::Null, "Expected a list of items but got type NoneType."),
            (json!(["1"]), "Incorrect type. Expected pk value, received str."),
            (json!([1.5]), "Incorrect type. Expected pk value, received float."),
            (json!([true]), "Incorrect type. Expected pk value, received bool."),
            (json!([null]), "Incorrect type. Expected pk value, received NoneType."),
            (json!([[1]]), "Incorrect type. Expected pk value, received list."),
            (json!([{"id": 1}]), "Incorrect type. Expected pk value, received dict."),
            (json!([999]), "Invalid pk 999 - object does not exist."),
            (json!([0]), "Invalid pk 0 - object does not exist."),
            (json!([-5]), "Invalid pk -5 - object does not exist."),
            (json!([u64::MAX]), "Invalid pk 18446744073709551615 - object does not exist."),
            // The answer contains the first error in the order of the ids.
            (json!([999, "x", 998]), "Invalid pk 999 - object does not exist."),
            (json!(["x", 999]), "Incorrect type. Expected pk value, received str."),
        ] {
            assert_eq!(api.post(path, body.clone()).await, (400, message::detail(detail)), "POST {path} {body}");
            assert_eq!(
                api.delete_all(path, body.clone()).await,
                (400, message::detail(detail)),
                "DELETE {path} {body}"
            );
        }
        let list = api.call("POST", path).body("application/json", "[1").send().await;
        assert!(list.status == 400 && list["detail"].as_str().unwrap().starts_with("JSON parse error - "), "{list:?}");
        api.call("POST", path)
            .body("text/plain", "[1]")
            .send()
            .await
            .expect_reply(415, message::detail("Unsupported media type \"text/plain\" in request."));
    }
    // A batch is accepted or refused as a whole.
    api.post(USERS, json!([1, 999])).await.expect(400);
    api.get(USERS).await.expect_reply(200, page(json!([])));
    // The bodies contain more ids than a request may have.
    let ids = |count: i64| json!((1..=count).collect::<Vec<_>>());
    let too_many = |count: i64| message::detail(&format!("Up to {count} items allowed."));
    api.post(USERS, ids(101)).await.expect_reply(400, too_many(100));
    api.delete_all(USERS, ids(101)).await.expect_reply(400, too_many(100));
    api.post(GROUPS, ids(11)).await.expect_reply(400, too_many(10));
    api.delete_all(GROUPS, ids(11)).await.expect_reply(400, too_many(10));
}

#[tokio::test]
async fn one_time_deleted_and_anonymized_accounts_are_not_assigned() {
    let server = TestServer::start().await;
    let api = with_set(&server).await;
    let (gone, nobody) = (server.as_type("internal").await.id, server.as_type("internal").await.id);
    server.account("one_time_completion").await;
    let one_time = api.get("/api/users/?account_type=one_time_completion").await.ids()[0];
    let refused = message::detail(&format!("1 Time Completion account {one_time} cannot be assignee."));
    api.post(USERS, json!([1, one_time])).await.expect_reply(400, refused);
    api.delete(&format!("/api/users/{gone}/")).await.expect_empty();
    api.post(&format!("/api/users/{nobody}/anonymize/"), json!({})).await.ok();
    for id in [gone, nobody] {
        let unknown = message::detail(&format!("Invalid pk {id} - object does not exist."));
        api.post(USERS, json!([id])).await.expect_reply(400, unknown);
    }
    api.get(USERS).await.expect_reply(200, page(json!([])));
}

#[tokio::test]
async fn anonymized_and_deleted_users_are_not_assignees() {
    let server = TestServer::start().await;
    let api = with_set(&server).await;
    let (ann, ben) = (server.as_type("internal").await.id, server.as_type("internal").await.id);
    let cleo = server.as_type("external").await.id;
    api.post(USERS, json!([ann, ben, cleo])).await.expect_created();
    api.post(&format!("/api/users/{ann}/anonymize/"), json!({})).await.ok();
    api.delete(&format!("/api/users/{ben}/")).await.expect_empty();
    assert_eq!(users(&api.get(USERS).await), [cleo]);
    // The creator of an assignment is shown after their deletion.
    let second = server.as_type("super_admin").await;
    second.post(USERS, json!([1])).await.expect_created();
    api.delete(&format!("/api/users/{}/", second.id)).await.expect_empty();
    let by = api.get(USERS).await.ok()["results"][1]["created_by"].clone();
    assert_eq!((&by["id"], &by["is_deleted"]), (&json!(second.id), &json!(true)));
}

#[tokio::test]
async fn nobody_is_assigned_to_the_sets_of_the_system() {
    let server = TestServer::start().await;
    let api = with_set(&server).await;
    let refused = message::detail("Assignees can not be set to this permission set type.");
    for set in [EVERYONE, MEMBERS] {
        for (kind, id) in [("users/", 1), ("user-groups/", 1)] {
            let path = format!("{set}{kind}");
            api.post(&path, json!([id])).await.expect_reply(400, refused.clone());
            api.get(&path).await.expect_reply(200, page(json!([])));
            let gone = message::detail("Invalid pk 1 - object does not exist.");
            api.delete_all(&path, json!([id])).await.expect_reply(400, gone);
        }
    }
}

#[tokio::test]
async fn a_set_has_ten_groups_at_most() {
    let server = TestServer::start().await;
    let api = with_set(&server).await;
    for n in 2..=12 {
        api.post("/api/user-groups/", json!({"name": format!("Group {n}")})).await.expect_created();
    }
    let refused = message::limit_exceeded("10 permission set assignees");
    api.post(GROUPS, json!([1, 2, 3, 4, 5, 6])).await.expect_created();
    api.post(GROUPS, json!([7, 8, 9, 10, 11])).await.refuses(refused.clone());
    assert_eq!(api.get(GROUPS).await["total_count"], 6);
    api.post(GROUPS, json!([7, 8, 9, 10])).await.expect_created();
    // Existing assignees do not count.
    api.post(GROUPS, json!([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])).await.expect_created();
    api.post(GROUPS, json!([11])).await.refuses(refused);
    api.post(GROUPS, json!([999])).await.expect_reply(400, message::detail("Invalid pk 999 - object does not exist."));
    api.delete_all(GROUPS, json!([1])).await.expect_empty();
    api.post(GROUPS, json!([11])).await.expect_created();
    // The limit applies per set.
    let another = api.post("/api/user-groups/1/permission-sets/", json!({"name": "Another"})).await.id();
    let another = format!("/api/user-groups/1/permission-sets/{another}/assignees/user-groups/");
    api.post(&another, json!([12])).await.expect_created();
}

#[tokio::test]
async fn a_set_has_a_hundred_users_at_most() {
    let server = TestServer::start().await;
    let api = with_set(&server).await;
    for n in 2..=101 {
        let body = json!({
            "username": format!("user{n}@example.com"), "account_type": "external", "first_name": "U",
            "last_name": format!("{n}"), "delay_activation": true,
        });
        api.post("/api/users/", body).await.expect_created();
    }
    api.post(USERS, json!((1..=100).collect::<Vec<_>>())).await.expect_created();
    let refused = message::limit_exceeded("100 permission set assignees");
    api.post(USERS, json!([101])).await.refuses(refused);
    api.delete_all(USERS, json!((1..=100).collect::<Vec<_>>())).await.expect_empty();
    api.post(USERS, json!([101])).await.expect_created();
}

#[tokio::test]
async fn only_whom_the_caller_may_list_is_assigned() {
    let server = TestServer::start().await;
    let api = with_set(&server).await;
    let (owner, colleague) = (server.as_type("external").await, server.as_type("external").await);
    let stranger = server.as_type("internal").await;
    api.post("/api/user-groups/", json!({"name": "Hidden"})).await.expect_created();
    api.post("/api/user-groups/1/owners/users/", json!([owner.id])).await.expect_created();
    api.post("/api/user-groups/1/members/users/", json!([colleague.id])).await.expect_created();

    let text = |what: &str, id: i64| {
        message::detail(&format!("You do not have permission to assign {what} {id} to User Group Permission Set 3."))
    };
    owner.post(USERS, json!([colleague.id, owner.id])).await.expect_created();
    owner.post(USERS, json!([colleague.id, stranger.id])).await.expect_reply(400, text("user", stranger.id));
    owner.post(GROUPS, json!([1, 2])).await.expect_reply(400, text("user group", 2));
    owner.post(GROUPS, json!([1])).await.expect_created();
    // A caller who may change sets may send and remove existing assignees.
    api.post(USERS, json!([stranger.id])).await.expect_created();
    api.post(GROUPS, json!([2])).await.expect_created();
    owner.post(USERS, json!([stranger.id])).await.expect_created();
    owner.delete_all(USERS, json!([stranger.id])).await.expect_empty();
    owner.delete_all(GROUPS, json!([2])).await.expect_empty();
    // The account type grants the list permissions, too.
    let internal = server.as_type("internal").await;
    api.post("/api/user-groups/1/owners/users/", json!([internal.id])).await.expect_created();
    internal.post(USERS, json!([stranger.id])).await.expect_created();
    internal.post(GROUPS, json!([2])).await.expect_created();
}

#[tokio::test]
async fn reading_needs_view_and_changing_needs_edit_perm_set() {
    let server = TestServer::start().await;
    let api = with_set(&server).await;
    let (owner, holder) = (server.as_type("external").await, server.as_type("full").await);
    let (member, stranger) = (server.as_type("external").await, server.as_type("internal").await);
    let viewer = server.with_role(json!({"user_groups": ["view"]})).await;
    let body = json!({"name": "All", "permissions": {"user_groups": ["edit", "delete"]}});
    let set = api.post("/api/user-groups/1/permission-sets/", body).await.id();
    let all = format!("/api/user-groups/1/permission-sets/{set}/assignees/users/");
    api.post(&all, json!([holder.id])).await.expect_created();
    api.post("/api/user-groups/1/owners/users/", json!([owner.id])).await.expect_created();
    api.post("/api/user-groups/1/members/users/", json!([member.id])).await.expect_created();
    let service = server.as_type("service_internal").await;
    for path in [USERS, GROUPS] {
        for (caller, read, added, removed) in [
            (&server.anonymous(), 401, 401, 401),
            (&stranger, 403, 403, 403),
            (&member, 200, 403, 403),
            (&viewer, 200, 403, 403),
            (&holder, 200, 403, 403),
            (&owner, 200, 201, 204),
            (&service, 200, 201, 204),
            (&api, 200, 201, 204),
        ] {
            let id = if path == USERS { owner.id } else { 1 };
            assert_eq!(caller.get(path).await.status, read, "{} {path}", caller.username);
            assert_eq!(caller.post(path, json!([id])).await.status, added, "{} {path}", caller.username);
            assert_eq!(caller.delete_all(path, json!([id])).await.status, removed, "{} {path}", caller.username);
        }
    }
    // Users cannot assign themselves to a set with more actions.
    holder.post(USERS, json!([holder.id])).await.expect_reply(403, message::forbidden());
}

#[tokio::test]
async fn refusals_come_in_their_order() {
    let server = TestServer::start().await;
    let api = with_set(&server).await;
    let stranger = server.as_type("internal").await;
    api.post("/api/user-groups/", json!({"name": "Other"})).await.expect_created();
    for kind in ["users", "user-groups"] {
        let at = |group: i64, set: i64| format!("/api/user-groups/{group}/permission-sets/{set}/assignees/{kind}/");
        server.anonymous().post(&at(999, 999), json!(5)).await.expect_reply(401, message::unauthenticated());
        for caller in [&stranger, &api] {
            // Only GET answers 403 for an unknown group.
            caller.get(&at(999, 3)).await.expect_reply(403, message::forbidden());
            caller.post(&at(999, 3), json!(5)).await.expect_reply(404, message::not_found());
            caller.delete_all(&at(999, 3), json!(5)).await.expect_reply(404, message::not_found());
            caller.options(&at(999, 3)).await.expect_reply(404, message::not_found());
            // An unknown set, and a set of another group.
            for path in [at(1, 999), at(2, 3)] {
                caller.get(&path).await.expect_reply(404, message::not_found());
                caller.post(&path, json!(5)).await.expect_reply(404, message::not_found());
                caller.delete_all(&path, json!(5)).await.expect_reply(404, message::not_found());
                caller.options(&path).await.expect_reply(404, message::not_found());
            }
        }
        stranger.get(&at(1, 3)).await.expect_reply(403, message::forbidden());
        stranger.post(&at(1, 1), json!(5)).await.expect_reply(403, message::forbidden());
        stranger.delete_all(&at(1, 3), json!(5)).await.expect_reply(403, message::forbidden());
    }
}

#[tokio::test]
async fn a_single_record_has_no_methods() {
    let server = TestServer::start().await;
    let api = with_set(&server).await;
    api.post(USERS, json!([1])).await.expect_created();
    for path in [format!("{USERS}1/"), format!("{GROUPS}1/"), format!("{USERS}999/")] {
        for method in ["GET", "PATCH", "PUT", "DELETE", "POST"] {
            let reply = api.call(method, &path).send().await;
            reply.expect_reply(405, message::detail(&format!("Method \"{method}\" not allowed.")));
            server.anonymous().call(method, &path).send().await.expect_reply(401, message::unauthenticated());
        }
    }
}

#[tokio::test]
async fn options_describe_both_collections() {
    let server = TestServer::start().await;
    with_set(&server).await;
    let caller = server.as_type("external").await;
    let columns = |document: &Value| {
        let columns = document["list"]["columns"].as_array().unwrap().clone();
        assert!(columns.iter().all(|it| it["sort_ok"] == false && it["predicates"] == json!([])), "{columns:?}");
        columns.iter().map(|column| column["alias"].clone()).collect::<Vec<_>>()
    };
    for path in [USERS, GROUPS] {
        server.anonymous().options(path).await.expect_reply(401, message::unauthenticated());
    }
    let users = caller.options(USERS).await.ok();
    assert_eq!(columns(&users), ["id", "user", "created_at", "created_by"]);
    assert_eq!(users["batch"]["type"], "set");
    assert_eq!(users["batch"]["required"], true);
    // The list omits the accounts that cannot be assigned.
    let autocomplete = users["batch"]["autocomplete"].as_str().unwrap();
    assert!(
        autocomplete.contains("one_time_completion") && autocomplete.ends_with("text__icontains="),
        "{autocomplete}"
    );
    assert_eq!(users["restrictions"], json!({"limit_items": 100, "limit_items_in_batch": 100}));
    let groups = caller.options(GROUPS).await.ok();
    assert_eq!(columns(&groups), ["id", "name", "created_by", "created_at"]);
    assert_eq!(groups["batch"]["autocomplete"], "/api/user-groups/autocomplete/?text__icontains=");
    assert_eq!(groups["restrictions"], json!({"limit_items": 10, "limit_items_in_batch": 10}));
}
