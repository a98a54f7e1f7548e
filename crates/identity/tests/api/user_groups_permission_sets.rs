//! `/api/user-groups/{id}/permission-sets/` (`docs/reference/permission-sets.md`).

use crate::TestServer;
use crate::message;
use crate::shown::{START, admin, page};
use serde_json::{Value, json};
use testkit::{ApiClient, SECOND};

/// The group that each test uses, with its special sets.
const SETS: &str = "/api/user-groups/1/permission-sets/";
const EVERYONE: &str = "/api/user-groups/1/permission-sets/1/";
const MEMBERS: &str = "/api/user-groups/1/permission-sets/2/";

/// Returns the first super admin, who has created the group.
async fn with_group(server: &TestServer) -> ApiClient {
    let api = server.admin().await;
    api.post("/api/user-groups/", json!({"name": "Group"})).await.expect_created();
    api
}

fn actions(actions: Value) -> Value {
    json!({"permissions": {"user_groups": actions}})
}

#[tokio::test]
async fn a_set_from_its_creation_to_its_end() {
    let server = TestServer::start().await;
    let api = with_group(&server).await;
    let mut set = json!({
        "id": 3,
        "name": "Editors",
        "type": "custom",
        "permissions": {"user_groups": ["view", "edit"]},
        "created_at": START,
        "created_by": admin(),
        "modified_at": START,
        "modified_by": admin(),
    });
    let body = json!({
        "name": " Editors ", "permissions": {"user_groups": ["edit", "view"]}, "type": "members", "id": 9, "created_by": 9,
    });
    api.post(SETS, body).await.expect_reply(201, set.clone());

    server.advance(SECOND);
    set["name"] = json!("Deleters");
    set["permissions"] = json!({"user_groups": ["view", "delete"]});
    set["modified_at"] = json!("2026-01-31T09:30:01.000000Z");
    let body =
        json!({"name": "Deleters", "permissions": {"user_groups": ["delete"]}, "type": "everyone", "planet": "x"});
    let path = format!("{SETS}3/");
    api.patch(&path, body).await.expect_reply(200, set.clone());
    let listed = api.get(SETS).await;
    assert_eq!((listed.ids(), &listed["results"][2]), (vec![1, 2, 3], &set));

    api.delete(&path).await.expect_empty();
    assert_eq!(api.get(SETS).await.ids(), [1, 2]);
    api.patch(&path, json!({})).await.expect_reply(404, message::not_found());
    api.delete(&path).await.expect_reply(404, message::not_found());
}

#[tokio::test]
async fn a_single_set_is_not_read() {
    let server = TestServer::start().await;
    let api = with_group(&server).await;
    let reply = api.get(EVERYONE).await;
    reply.expect_reply(405, message::detail("Method \"GET\" not allowed."));
    assert_eq!(reply.header("allow"), "DELETE, PATCH");
}

#[tokio::test]
async fn the_list_is_neither_sorted_nor_filtered() {
    let server = TestServer::start().await;
    let api = with_group(&server).await;
    api.post(SETS, json!({"name": "Custom"})).await.expect_created();
    for query in ["?ordering=-id", "?ordering=planet", "?name=members", "?type=custom", "?id__gt=x"] {
        assert_eq!(api.get(&format!("{SETS}{query}")).await.ids(), [1, 2, 3], "{query}");
    }
    assert_eq!(api.get(&format!("{SETS}?limit=1&offset=1")).await.ids(), [2]);
}

#[tokio::test]
async fn names_have_the_standard_rules_and_are_unique_within_the_group() {
    let server = TestServer::start().await;
    let api = with_group(&server).await;
    api.post(SETS, json!({"name": "Straße"})).await.expect_created();
    let refused = |name: Value, message: &str| (name, json!({"name": [message]}));
    for (name, errors) in [
        refused(json!(""), "This field may not be blank."),
        refused(json!("   "), "This field may not be blank."),
        refused(Value::Null, "This field may not be null."),
        refused(json!(7), "Not a valid string."),
        refused(json!("x".repeat(101)), "Ensure this field has no more than 100 characters."),
        refused(json!("strasse"), "This field must be unique."),
    ] {
        api.post(SETS, json!({"name": name.clone()})).await.refuses(errors.clone());
        if name != "strasse" {
            api.patch(&format!("{SETS}3/"), json!({"name": name})).await.refuses(errors);
        }
    }
    api.post(SETS, json!({})).await.refuses(json!({"name": ["This field is required."]}));
    api.post(SETS, json!({"name": "ü".repeat(100)})).await.expect_created();
    api.patch(&format!("{SETS}3/"), json!({"name": "STRASSE"})).await.ok();
    api.patch(&format!("{SETS}4/"), json!({"name": "straße"}))
        .await
        .refuses(json!({"name": ["This field must be unique."]}));
    // Names are unique per group.
    let other = api.post("/api/user-groups/", json!({"name": "Other"})).await.id();
    api.post(&format!("/api/user-groups/{other}/permission-sets/"), json!({"name": "Straße"})).await.expect_created();
}

#[tokio::test]
async fn reserved_names_are_refused_in_every_spelling() {
    let server = TestServer::start().await;
    let api = with_group(&server).await;
    api.post(SETS, json!({"name": "Custom"})).await.expect_created();
    for name in ["owners", "everyone", "members", "Members", " OWNERS ", "ｅｖｅｒｙｏｎｅ", "ⓜembers", "memberſ"]
    {
        let refused = json!({"name": [format!("Name {} is reserved and cannot be used.", name.trim())]});
        api.post(SETS, json!({"name": name})).await.refuses(refused.clone());
        api.patch(&format!("{SETS}3/"), json!({"name": name})).await.refuses(refused);
    }
    for name in ["everyone else", "member", "owners'"] {
        api.post(SETS, json!({"name": name})).await.expect_created();
    }
}

#[tokio::test]
async fn special_sets_keep_their_names_and_stay() {
    let server = TestServer::start().await;
    let api = with_group(&server).await;
    for (path, name) in [(EVERYONE, "everyone"), (MEMBERS, "members")] {
        let refused = json!({"name": [format!("Name {name} is reserved and cannot be changed.")]});
        for other in ["Another", "owners", "Everyone ", "MEMBERS"] {
            api.patch(path, json!({"name": other})).await.refuses(refused.clone());
        }
        let set = api.patch(path, json!({"name": name, "permissions": {"user_groups": ["view"]}})).await.ok();
        assert_eq!((&set["name"], &set["type"]), (&json!(name), &json!(name)));
        // The set was modified now. It still has no creator.
        assert_eq!((&set["created_by"], &set["modified_by"]), (&Value::Null, &admin()));
    }
    let kept =
        |name: &str| message::detail(&format!("Permission set of type {name} is restricted and cannot be deleted."));
    api.delete(EVERYONE).await.expect_reply(400, kept("Everyone"));
    api.delete(MEMBERS).await.expect_reply(400, kept("Members"));
}

#[tokio::test]
async fn permissions_are_checked_by_resource_and_by_type() {
    let server = TestServer::start().await;
    let api = with_group(&server).await;
    let custom = format!("{SETS}{}/", api.post(SETS, json!({"name": "Custom"})).await.id());
    for (path, permissions, errors) in [
        (custom.as_str(), Value::Null, json!(["This field may not be null."])),
        (&custom, json!([]), json!(["Invalid data. Expected a dictionary, but got list."])),
        (&custom, json!({"planets": ["view"]}), json!(["Invalid resource planets."])),
        (&custom, json!({"user_groups": null}), json!({"user_groups": ["This field may not be null."]})),
        (&custom, json!({"user_groups": {}}), json!({"user_groups": ["Expected a list of items but got type dict."]})),
        (&custom, json!({"user_groups": ["fly", "view", 5]}), json!({"user_groups": ["Invalid actions fly,5."]})),
        (&custom, json!({"user_groups": ["list"]}), json!({"user_groups": ["Invalid actions list."]})),
        (
            &custom,
            json!({"user_groups": ["edit_perm_set"]}),
            json!({"user_groups": ["Invalid actions edit_perm_set."]}),
        ),
        (MEMBERS, json!({"user_groups": ["create"]}), json!({"user_groups": ["Invalid actions create."]})),
        (EVERYONE, json!({"user_groups": ["edit"]}), json!({"user_groups": ["Invalid actions edit."]})),
        (
            EVERYONE,
            json!({"user_groups": ["delete", "view", "edit"]}),
            json!({"user_groups": ["Invalid actions delete,edit."]}),
        ),
    ] {
        let reply = api.patch(path, json!({"permissions": permissions})).await;
        assert_eq!(reply, (400, json!({"permissions": errors})), "{path} {permissions}");
        if path == custom {
            let reply = api.post(SETS, json!({"name": "New", "permissions": permissions})).await;
            assert_eq!(reply, (400, json!({"permissions": errors})), "{permissions}");
        }
    }
    api.post(SETS, json!({"name": "owners", "permissions": {"user_groups": ["fly"]}})).await.refuses(json!({
        "name": ["Name owners is reserved and cannot be used."],
        "permissions": {"user_groups": ["Invalid actions fly."]},
    }));
}

#[tokio::test]
async fn sent_actions_replace_the_current_ones_and_bring_what_they_need() {
    let server = TestServer::start().await;
    let api = with_group(&server).await;
    let set = api.post(SETS, json!({"name": "Custom"})).await.expect_created();
    assert_eq!(set["permissions"], json!({"user_groups": []}));
    for (permissions, expected) in [
        (json!({"user_groups": ["edit"]}), json!(["view", "edit"])),
        (json!({}), json!(["view", "edit"])),
        (json!({"user_groups": ["view"]}), json!(["view"])),
        (json!({"user_groups": ["delete", "delete"]}), json!(["view", "delete"])),
        (json!({"user_groups": ["delete", "edit", "view"]}), json!(["view", "edit", "delete"])),
        (json!({"user_groups": []}), json!([])),
    ] {
        let set = api.patch(&format!("{SETS}3/"), json!({"permissions": permissions})).await.ok();
        assert_eq!(set["permissions"], json!({"user_groups": expected}), "{permissions}");
    }
    assert_eq!(
        api.patch(&format!("{SETS}3/"), json!({"name": "Other"})).await.ok()["permissions"]["user_groups"],
        json!([])
    );
    let set = api.patch(MEMBERS, actions(json!(["delete"]))).await.ok();
    assert_eq!(set["permissions"]["user_groups"], json!(["view", "delete"]));
    let set = api.patch(EVERYONE, actions(json!(["view"]))).await.ok();
    assert_eq!(set["permissions"]["user_groups"], json!(["view"]));
}

#[tokio::test]
async fn a_group_has_ten_sets_at_most_those_of_the_system_counted() {
    let server = TestServer::start().await;
    let api = with_group(&server).await;
    for n in 3..=10 {
        api.post(SETS, json!({"name": format!("Set {n}")})).await.expect_created();
    }
    let refused = message::limit_exceeded("10 User Group Permission Sets");
    api.post(SETS, json!({"name": "Set 11"})).await.refuses(refused);
    // Limits are checked last.
    api.post(SETS, json!({"name": "owners"}))
        .await
        .refuses(json!({"name": ["Name owners is reserved and cannot be used."]}));
    api.delete(&format!("{SETS}10/")).await.expect_empty();
    api.post(SETS, json!({"name": "Set 11"})).await.expect_created();
    let other = api.post("/api/user-groups/", json!({"name": "Other"})).await.id();
    api.post(&format!("/api/user-groups/{other}/permission-sets/"), json!({"name": "Set"})).await.expect_created();
}

#[tokio::test]
async fn reading_needs_view_and_changing_needs_edit_perm_set() {
    let server = TestServer::start().await;
    let api = with_group(&server).await;
    let set = api.post(SETS, json!({"name": "All", "permissions": {"user_groups": ["edit", "delete"]}})).await.id();
    let (owner, holder) = (server.as_type("external").await, server.as_type("full").await);
    let (member, stranger) = (server.as_type("external").await, server.as_type("internal").await);
    let viewer = server.with_role(json!({"user_groups": ["create"]})).await;
    let service = server.as_type("service_internal").await;
    api.post("/api/user-groups/1/owners/users/", json!([owner.id])).await.expect_created();
    api.post("/api/user-groups/1/members/users/", json!([member.id])).await.expect_created();
    api.post(&format!("{SETS}{set}/assignees/users/"), json!([holder.id])).await.expect_created();

    for (caller, read, created, changed, deleted) in [
        (&server.anonymous(), 401, 401, 401, 401),
        (&stranger, 403, 403, 403, 403),
        (&member, 200, 403, 403, 403),
        (&viewer, 200, 403, 403, 403),
        // All actions of a set do not include the right to change sets, so users cannot grant themselves actions.
        (&holder, 200, 403, 403, 403),
        (&owner, 200, 201, 200, 204),
        (&service, 200, 201, 200, 204),
    ] {
        let target = api.post(SETS, json!({"name": format!("For {}", caller.username)})).await.id();
        let path = format!("{SETS}{target}/");
        assert_eq!(caller.get(SETS).await.status, read, "{}", caller.username);
        let body = json!({"name": format!("By {}", caller.username)});
        let reply = caller.post(SETS, body).await;
        assert_eq!(reply.status, created, "{}", caller.username);
        assert_eq!(caller.patch(&path, actions(json!(["delete"]))).await.status, changed, "{}", caller.username);
        assert_eq!(caller.patch(MEMBERS, json!({})).await.status, changed, "{}", caller.username);
        assert_eq!(caller.delete(&path).await.status, deleted, "{}", caller.username);
        if created == 201 {
            api.delete(&format!("{SETS}{}/", reply.id())).await.expect_empty();
        } else {
            api.delete(&path).await.expect_empty();
        }
    }
}

#[tokio::test]
async fn refusals_come_in_their_order() {
    let server = TestServer::start().await;
    let api = with_group(&server).await;
    let stranger = server.as_type("internal").await;
    let other = api.post("/api/user-groups/", json!({"name": "Other"})).await.id();
    let wrong = json!({"name": ""});
    let unknown_group = "/api/user-groups/999/permission-sets/";
    server.anonymous().post(unknown_group, wrong.clone()).await.expect_reply(401, message::unauthenticated());
    stranger.get(unknown_group).await.expect_reply(404, message::not_found());
    stranger.post(unknown_group, wrong.clone()).await.expect_reply(404, message::not_found());
    stranger.post(SETS, wrong.clone()).await.expect_reply(403, message::forbidden());
    // An unknown set, and a set of another group.
    for path in [format!("{SETS}999/"), format!("{SETS}3/"), format!("/api/user-groups/{other}/permission-sets/1/")] {
        stranger.patch(&path, wrong.clone()).await.expect_reply(404, message::not_found());
        api.patch(&path, wrong.clone()).await.expect_reply(404, message::not_found());
        api.delete(&path).await.expect_reply(404, message::not_found());
    }
    stranger.patch(EVERYONE, wrong.clone()).await.expect_reply(403, message::forbidden());
    stranger.delete(EVERYONE).await.expect_reply(403, message::forbidden());
    api.options(unknown_group).await.expect_reply(404, message::not_found());
}

#[tokio::test]
async fn an_edit_of_what_somebody_else_has_changed_is_refused() {
    let server = TestServer::start().await;
    let api = with_group(&server).await;
    let tag = api.post(SETS, json!({"name": "Set"})).await.header("etag").to_owned();
    let path = format!("{SETS}3/");
    let changed = api.with_header("if-match", &tag).patch(&path, actions(json!(["view"]))).await;
    changed.ok();
    let late = api.with_header("if-match", &tag);
    late.patch(&path, json!({"name": "y"})).await.expect_reply(412, message::detail("Object has been changed."));
    late.delete(&path).await.expect_reply(412, message::detail("Object has been changed."));
    api.with_header("if-match", changed.header("etag")).delete(&path).await.expect_empty();
}

#[tokio::test]
async fn options_describe_sets() {
    let server = TestServer::start().await;
    with_group(&server).await;
    server.anonymous().options(SETS).await.expect_reply(401, message::unauthenticated());
    let document = server.as_type("external").await.options(SETS).await.ok();
    let schema = document["details"]["schema"].as_array().unwrap();
    assert_eq!(
        schema[1],
        json!({
            "alias": "name", "type": "string", "required": true, "editable": true,
            "validators": [
                {"name": "min_length", "value": 1},
                {"name": "max_length", "value": 100},
                {"name": "reserved", "value": ["owners", "everyone", "members"]},
            ],
        })
    );
    assert_eq!(
        schema[2],
        json!({
            "alias": "type", "type": "enum", "required": false, "editable": false, "validators": [],
            "values": [
                {"value": "everyone", "text": "Everyone", "system": true},
                {"value": "members", "text": "Members", "system": true},
                {"value": "owners", "text": "Owners", "system": true},
                {"value": "custom", "text": "Custom", "system": false},
            ],
        })
    );
    let columns = document["list"]["columns"].as_array().unwrap();
    assert!(
        columns.iter().all(|column| column["sort_ok"] == false && column["predicates"] == json!([])),
        "{columns:?}"
    );
    assert_eq!(document["restrictions"], json!({"limit_items": 10}));
}

#[tokio::test]
async fn an_unread_group_is_not_listed_as_a_page_of_nothing() {
    let server = TestServer::start().await;
    let api = with_group(&server).await;
    let member = server.as_type("external").await;
    api.post("/api/user-groups/1/members/users/", json!([member.id])).await.expect_created();
    assert_eq!(member.get(SETS).await.ids(), [1, 2]);
    api.patch(MEMBERS, actions(json!([]))).await.ok();
    member.get(SETS).await.expect_reply(403, message::forbidden());
    api.get("/api/user-groups/1/members/users/").await.expect_reply(
        200,
        page(json!([{"user": crate::shown::user(&member, "external"), "created_at": START, "created_by": admin()}])),
    );
}

#[tokio::test]
async fn options_tell_which_actions_others_bring_along() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.post("/api/user-groups/", json!({"name": "Registry"})).await.expect_created();
    let document = api.options("/api/user-groups/1/permission-sets/").await.ok();
    let fields = document["details"]["schema"].as_array().unwrap();
    let permissions = fields.iter().find(|field| field["alias"] == "permissions").unwrap();
    assert_eq!(
        permissions["schema"],
        json!([{
            "alias": "user_groups", "type": "set", "required": false, "editable": true,
            "validators": [{"name": "max_items", "value": 3}],
            "values": [
                {"value": "view", "text": "View", "requires": []},
                {"value": "edit", "text": "Edit", "requires": ["view"]},
                {"value": "delete", "text": "Delete", "requires": ["view"]},
            ],
        }])
    );
}
