//! `/api/user-groups/` (`docs/reference/user-groups.md`).

use crate::TestServer;
use crate::message;
use crate::shown::{START, admin, page, user};
use serde_json::{Value, json};
use testkit::{ApiClient, SECOND};

#[tokio::test]
async fn a_group_from_its_creation_to_its_end() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let mut group = json!({
        "id": 1,
        "name": "Registry",
        "description": "Ground floor",
        "created_at": START,
        "created_by": admin(),
        "modified_at": START,
        "modified_by": admin(),
        "_meta": {"permissions": {"view": true, "edit": true, "delete": true, "edit_perm_set": true}},
    });
    let body = json!({"name": " Registry ", "description": "Ground floor", "id": 9, "created_by": 9});
    api.post("/api/user-groups/", body).await.expect_reply(201, group.clone());
    api.get("/api/user-groups/1/").await.expect_reply(200, group.clone());
    api.get("/api/user-groups/").await.expect_reply(200, page(json!([group])));

    // Its creator is its owner. It has no members. The system has created two sets.
    let owner = json!({"user": admin(), "created_at": START, "created_by": admin()});
    api.get("/api/user-groups/1/owners/users/").await.expect_reply(200, page(json!([owner])));
    api.get("/api/user-groups/1/members/users/").await.expect_reply(200, page(json!([])));
    let set = |id: i64, name: &str, actions: Value| {
        json!({
            "id": id, "name": name, "type": name, "permissions": {"user_groups": actions},
            "created_at": START, "created_by": null, "modified_at": START, "modified_by": null,
        })
    };
    let sets = json!([set(1, "everyone", json!([])), set(2, "members", json!(["view"]))]);
    api.get("/api/user-groups/1/permission-sets/").await.expect_reply(200, page(sets));

    server.advance(SECOND);
    let second = server.as_type("super_admin").await;
    group["name"] = json!("Archive");
    group["modified_at"] = json!("2026-01-31T09:30:01.000000Z");
    group["modified_by"] = user(&second, "super_admin");
    second.patch("/api/user-groups/1/", json!({"name": "Archive", "planet": "Mars"})).await.expect_reply(200, group);

    api.delete("/api/user-groups/1/").await.expect_empty();
    api.get("/api/user-groups/1/").await.expect_reply(404, message::not_found());
    for below in ["members/users/", "owners/users/", "permission-sets/"] {
        api.get(&format!("/api/user-groups/1/{below}")).await.expect_reply(404, message::not_found());
    }
    api.get("/api/user-groups/").await.expect_reply(200, page(json!([])));
}

#[tokio::test]
async fn name_and_description_have_the_standard_rules() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.post("/api/user-groups/", json!({"name": "Straße"})).await.expect_created();
    let long = |length: usize| "ö".repeat(length);
    let refused = |name: Value, message: &str| (name, json!({"name": [message]}));
    for (name, errors) in [
        refused(json!(" "), "This field may not be blank."),
        refused(Value::Null, "This field may not be null."),
        refused(json!(true), "Not a valid string."),
        refused(json!(long(101)), "Ensure this field has no more than 100 characters."),
        refused(json!("STRASSE"), "This field must be unique."),
    ] {
        api.post("/api/user-groups/", json!({"name": name})).await.refuses(errors);
    }
    api.post("/api/user-groups/", json!({"description": long(501)})).await.refuses(json!({
        "name": ["This field is required."],
        "description": ["Ensure this field has no more than 500 characters."],
    }));
    api.post("/api/user-groups/", json!({"name": long(100), "description": long(500)})).await.expect_created();
    // Groups may have the names of special sets.
    api.post("/api/user-groups/", json!({"name": "Everyone"})).await.expect_created();
    api.patch("/api/user-groups/1/", json!({"name": "STRASSE", "description": ""})).await.ok();
    api.patch("/api/user-groups/1/", json!({"name": "EVERYONE"}))
        .await
        .refuses(json!({"name": ["This field must be unique."]}));
}

/// Returns `_meta.permissions` of a group for a caller, as `[view, edit, delete, edit_perm_set]`; null if the caller may not view
/// it.
async fn rights(caller: &ApiClient, group: i64) -> Value {
    let reply = caller.get(&format!("/api/user-groups/{group}/")).await;
    if reply == (403, message::forbidden()) {
        return Value::Null;
    }
    let rights = reply.ok()["_meta"]["permissions"].clone();
    json!([rights["view"], rights["edit"], rights["delete"], rights["edit_perm_set"]])
}

#[tokio::test]
async fn rights_come_from_the_account_ownership_membership_sets_and_roles() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let group = api.post("/api/user-groups/", json!({"name": "Group"})).await.id();
    let path = format!("/api/user-groups/{group}/");
    let all = json!([true, true, true, true]);
    let (stranger, member) = (server.as_type("internal").await, server.as_type("external").await);
    let (owner, assignee) = (server.as_type("external").await, server.as_type("full").await);
    let (teammate, robot) = (server.as_type("internal").await, server.as_type("service_external").await);

    api.post(&format!("{path}members/users/"), json!([member.id])).await.expect_created();
    api.post(&format!("{path}owners/users/"), json!([owner.id])).await.expect_created();
    let body = json!({"name": "Deleters", "permissions": {"user_groups": ["delete"]}});
    let set = api.post(&format!("{path}permission-sets/"), body).await.id();
    let team = api.post("/api/user-groups/", json!({"name": "Team"})).await.id();
    api.post(&format!("/api/user-groups/{team}/members/users/"), json!([teammate.id])).await.expect_created();
    api.post(&format!("{path}permission-sets/{set}/assignees/users/"), json!([assignee.id])).await.expect_created();
    api.post(&format!("{path}permission-sets/{set}/assignees/user-groups/"), json!([team])).await.expect_created();

    assert_eq!(rights(&api, group).await, all);
    assert_eq!(rights(&server.as_type("service_internal").await, group).await, all);
    assert_eq!(rights(&owner, group).await, all);
    assert_eq!(rights(&stranger, group).await, Value::Null);
    assert_eq!(rights(&robot, group).await, Value::Null);
    assert_eq!(rights(&member, group).await, json!([true, false, false, false]));
    assert_eq!(rights(&assignee, group).await, json!([true, false, true, false]));
    assert_eq!(rights(&teammate, group).await, json!([true, false, true, false]));
    let viewer = server.with_role(json!({"user_groups": ["view"]})).await;
    assert_eq!(rights(&viewer, group).await, json!([true, false, false, false]));

    // `everyone` applies to all accounts except services.
    let sets = api.get(&format!("{path}permission-sets/")).await;
    let (everyone, members) = (sets.ids()[0], sets.ids()[1]);
    let view = json!({"permissions": {"user_groups": ["view"]}});
    api.patch(&format!("{path}permission-sets/{everyone}/"), view).await.ok();
    assert_eq!(rights(&stranger, group).await, json!([true, false, false, false]));
    assert_eq!(rights(&robot, group).await, Value::Null);

    // Rights are the union of the sets: `edit` from one set, `delete` from another.
    let edit = json!({"permissions": {"user_groups": ["edit"]}});
    api.patch(&format!("{path}permission-sets/{members}/"), edit).await.ok();
    api.post(&format!("{path}members/users/"), json!([assignee.id, robot.id])).await.expect_created();
    assert_eq!(rights(&assignee, group).await, json!([true, true, true, false]));
    assert_eq!(rights(&robot, group).await, json!([true, true, false, false]));

    // Rights end with their cause.
    api.delete_all(&format!("{path}permission-sets/{set}/assignees/user-groups/"), json!([team])).await.expect_empty();
    assert_eq!(rights(&teammate, group).await, json!([true, false, false, false]));
    api.delete_all(&format!("{path}owners/users/"), json!([owner.id])).await.expect_empty();
    assert_eq!(rights(&owner, group).await, json!([true, false, false, false]));
    api.delete_all(&format!("{path}members/users/"), json!([robot.id])).await.expect_empty();
    assert_eq!(rights(&robot, group).await, Value::Null);
}

#[tokio::test]
async fn each_method_asks_for_its_right() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let (viewer, editor) = (server.as_type("external").await, server.as_type("external").await);
    let (deleter, owner) = (server.as_type("external").await, server.as_type("external").await);
    let stranger = server.as_type("internal").await;
    for (n, (caller, actions, view, edit, delete)) in [
        (&server.anonymous(), json!([]), 401, 401, 401),
        (&stranger, json!([]), 403, 403, 403),
        (&viewer, json!(["view"]), 200, 403, 403),
        (&editor, json!(["edit"]), 200, 200, 403),
        (&deleter, json!(["delete"]), 200, 403, 204),
        (&owner, json!([]), 200, 200, 204),
    ]
    .into_iter()
    .enumerate()
    {
        let group = admin.post("/api/user-groups/", json!({"name": format!("Group {n}")})).await.id();
        let path = format!("/api/user-groups/{group}/");
        let body = json!({"name": "Set", "permissions": {"user_groups": actions}});
        let set = admin.post(&format!("{path}permission-sets/"), body).await.id();
        if caller.id == owner.id {
            admin.post(&format!("{path}owners/users/"), json!([caller.id])).await.expect_created();
        } else if caller.id > 0 {
            admin
                .post(&format!("{path}permission-sets/{set}/assignees/users/"), json!([caller.id]))
                .await
                .expect_created();
        }
        assert_eq!(caller.get(&path).await.status, view, "{}", caller.username);
        assert_eq!(caller.patch(&path, json!({"description": "x"})).await.status, edit, "{}", caller.username);
        assert_eq!(caller.delete(&path).await.status, delete, "{}", caller.username);
    }
}

#[tokio::test]
async fn groups_are_created_by_holders_of_create_who_own_them() {
    let server = TestServer::start().await;
    let body = |name: &str| json!({"name": name});
    server.anonymous().post("/api/user-groups/", body("a")).await.expect_reply(401, message::unauthenticated());
    for account_type in ["internal", "external", "full", "service_external"] {
        let caller = server.as_type(account_type).await;
        caller.post("/api/user-groups/", json!({})).await.expect_reply(403, message::forbidden());
    }
    let creator = server.with_role(json!({"user_groups": ["create"]})).await;
    let group = creator.post("/api/user-groups/", body("Mine")).await.expect_created();
    assert_eq!(group["created_by"], user(&creator, "full"));
    assert_eq!(
        group["_meta"]["permissions"],
        json!({"view": true, "edit": true, "delete": true, "edit_perm_set": true})
    );
    // The role grants `view` on all groups, and ownership all rights on the own group.
    let other = server.admin().await.post("/api/user-groups/", body("Other")).await.id();
    assert_eq!(rights(&creator, other).await, json!([true, false, false, false]));
    let robot = server.as_type("service_internal").await;
    let group = robot.post("/api/user-groups/", body("Made by a service")).await.id();
    let owners = robot.get(&format!("/api/user-groups/{group}/owners/users/")).await;
    assert_eq!(owners.column("user"), [user(&robot, "service_internal")]);
}

#[tokio::test]
async fn refusals_come_in_their_order() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let stranger = server.as_type("internal").await;
    let group = api.post("/api/user-groups/", json!({"name": "Group"})).await.id();
    let (group_path, unknown_path) = (format!("/api/user-groups/{group}/"), "/api/user-groups/999/");
    let wrong = json!({"name": ""});
    server.anonymous().patch(unknown_path, wrong.clone()).await.expect_reply(401, message::unauthenticated());
    stranger.patch(unknown_path, wrong.clone()).await.expect_reply(404, message::not_found());
    stranger.get(unknown_path).await.expect_reply(404, message::not_found());
    stranger.delete(unknown_path).await.expect_reply(404, message::not_found());
    stranger.patch(&group_path, wrong.clone()).await.expect_reply(403, message::forbidden());
    stranger
        .call("PATCH", &group_path)
        .body("application/json", "{")
        .send()
        .await
        .expect_reply(403, message::forbidden());
    api.patch(&group_path, wrong).await.refuses(json!({"name": ["This field may not be blank."]}));
}

#[tokio::test]
async fn the_list_shows_what_the_caller_may_list() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let (internal, external) = (server.as_type("internal").await, server.as_type("external").await);
    external.get("/api/user-groups/").await.expect_reply(403, message::forbidden());
    internal.get("/api/user-groups/").await.expect_reply(200, page(json!([])));
    server.anonymous().get("/api/user-groups/").await.expect_reply(401, message::unauthenticated());
    for name in ["First", "Second", "Third"] {
        api.post("/api/user-groups/", json!({"name": name})).await.expect_created();
    }
    api.post("/api/user-groups/2/members/users/", json!([external.id])).await.expect_created();

    // `list` does not include `view`: the caller sees the group in the list, and `_meta` says that they may not view it.
    let listed = internal.get("/api/user-groups/").await;
    assert_eq!((listed.ids(), &listed["total_count"]), (vec![1, 2, 3], &json!(3)));
    let none = json!({"permissions": {"view": false, "edit": false, "delete": false, "edit_perm_set": false}});
    assert_eq!(listed.column("_meta"), [none.clone(), none.clone(), none]);
    internal.get("/api/user-groups/1/").await.expect_reply(403, message::forbidden());

    // Other callers see and count only the groups that they may view.
    let listed = external.get("/api/user-groups/?name__icontains=s").await;
    assert_eq!((listed.ids(), &listed["total_count"], &listed["filtered_count"]), (vec![2], &json!(1), &json!(1)));
    let listed = external.get("/api/user-groups/?name__startswith=F").await;
    assert_eq!((listed.ids(), &listed["total_count"], &listed["filtered_count"]), (vec![], &json!(1), &json!(0)));
}

#[tokio::test]
async fn the_list_is_filtered_and_sorted_by_its_columns() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let second = server.as_type("super_admin").await;
    for (creator, name) in [(&second, "beta"), (&api, "Alpha"), (&api, "ÄRGER"), (&second, "alphabet")] {
        server.advance(SECOND);
        creator.post("/api/user-groups/", json!({"name": name})).await.expect_created();
    }
    server.advance(SECOND);
    second.patch("/api/user-groups/2/", json!({})).await.ok();
    for (query, ids) in [
        ("", vec![1, 2, 3, 4]),
        ("?ordering=-id", vec![4, 3, 2, 1]),
        ("?ordering=name", vec![2, 4, 1, 3]),
        ("?ordering=created_at", vec![1, 2, 3, 4]),
        ("?ordering=-modified_at", vec![2, 4, 3, 1]),
        ("?ordering=created_by,-name", vec![3, 2, 1, 4]),
        ("?ordering=-modified_by", vec![4, 2, 1, 3]),
        ("?created_by=1", vec![2, 3]),
        ("?modified_by__in=1,99", vec![3]),
        ("?name__iendswith=RGER", vec![3]),
        ("?id__gte=3&name__contains=a", vec![4]),
        ("?modified_at__gte=2026-01-31T09:30:04Z", vec![2, 4]),
        ("?created_at__range=2026-01-31T09:30:02Z,2026-01-31T09:30:03Z", vec![2, 3]),
    ] {
        assert_eq!(api.get(&format!("/api/user-groups/{query}")).await.ids(), ids, "{query}");
    }
    api.get("/api/user-groups/?ordering=name,description")
        .await
        .refuses(json!({"ordering": ["Select a valid choice. description is not one of the available choices."]}));
    api.get("/api/user-groups/?created_by=x").await.refuses(json!({"created_by": ["A valid integer is required."]}));
}

#[tokio::test]
async fn the_list_is_filtered_by_member_among_the_groups_that_the_caller_may_view() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let (ann, bob) = (server.as_type("internal").await, server.as_type("external").await);
    for (group, members) in [(1, vec![ann.id, bob.id]), (2, vec![bob.id]), (3, vec![]), (4, vec![ann.id])] {
        assert_eq!(api.post("/api/user-groups/", json!({"name": format!("Group {group}")})).await.id(), group);
        for member in members {
            api.post(&format!("/api/user-groups/{group}/members/users/"), json!([member])).await.expect_created();
        }
    }
    let groups = async |caller: &ApiClient, query: String| -> Vec<i64> {
        caller.get(&format!("/api/user-groups/?{query}")).await.ids()
    };
    // Callers who may view all groups, such as an administrator.
    assert_eq!(groups(&api, format!("member={}", ann.id)).await, [1, 4]);
    assert_eq!(groups(&api, format!("member__in={},{}&ordering=-name", ann.id, bob.id)).await, [4, 2, 1]);
    assert_eq!(groups(&api, format!("member={}&member={}", ann.id, bob.id)).await, [1]);
    // An owner of a group is not automatically a member, and an unknown user is not a member of any group.
    assert_eq!(groups(&api, format!("member={}", api.id)).await, Vec::<i64>::new());
    assert_eq!(groups(&api, "member=999".to_owned()).await, Vec::<i64>::new());
    let first = api.get(&format!("/api/user-groups/?member={}&limit=1", bob.id)).await;
    let counts = [&first["total_count"], &first["filtered_count"]];
    assert_eq!((first.ids(), counts), (vec![1], [&json!(4), &json!(2)]));
    assert!(
        first["next"].as_str().unwrap().ends_with(&format!("/api/user-groups/?limit=1&offset=1&member={}", bob.id))
    );

    // Ann may list all groups but view only groups of their own. The filter does not reveal that Bob is in the second group.
    assert_eq!(groups(&ann, String::new()).await, [1, 2, 3, 4]);
    assert_eq!(groups(&ann, format!("member={}", bob.id)).await, [1]);
    assert_eq!(groups(&ann, format!("member__in={},{}", ann.id, bob.id)).await, [1, 4]);
    // Bob may not list users, but the filter and the list of members show the members of Bob's groups.
    assert_eq!(bob.get("/api/user-groups/1/members/users/").await["total_count"], 2);
    assert_eq!(groups(&bob, format!("member={}", ann.id)).await, [1]);
    assert_eq!(groups(&bob, format!("member={}", bob.id)).await, [1, 2]);
    server.as_type("external").await.get("/api/user-groups/?member=x").await.expect_reply(403, message::forbidden());

    api.get("/api/user-groups/?member=x&member__gt=1").await.refuses(json!({
        "member": ["A valid integer is required."],
        "member__gt": ["Select a valid choice. gt is not one of the available choices."],
    }));
    // A deleted user is no longer a member.
    api.delete(&format!("/api/users/{}/", ann.id)).await.expect_empty();
    assert_eq!(groups(&api, format!("member={}", ann.id)).await, Vec::<i64>::new());
}

#[tokio::test]
async fn an_edit_of_what_somebody_else_has_changed_is_refused() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let tag = api.post("/api/user-groups/", json!({"name": "Group"})).await.header("etag").to_owned();
    assert_eq!(api.get("/api/user-groups/1/").await.header("etag"), tag);
    api.with_header("if-match", &tag).patch("/api/user-groups/1/", json!({"description": "x"})).await.ok();
    let late = api.with_header("if-match", &tag);
    late.patch("/api/user-groups/1/", json!({"name": "y"}))
        .await
        .expect_reply(412, message::detail("Object has been changed."));
    late.delete("/api/user-groups/1/").await.expect_reply(412, message::detail("Object has been changed."));
    api.with_header("if-match", "*").delete("/api/user-groups/1/").await.expect_empty();
}

#[tokio::test]
async fn a_deleted_group_leaves_the_sets_that_it_was_assigned_to() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let user = server.as_type("external").await;
    api.post("/api/user-groups/", json!({"name": "Group"})).await.expect_created();
    let team = api.post("/api/user-groups/", json!({"name": "Team"})).await.id();
    api.post(&format!("/api/user-groups/{team}/members/users/"), json!([user.id])).await.expect_created();
    let body = json!({"name": "Viewers", "permissions": {"user_groups": ["view"]}});
    let set = api.post("/api/user-groups/1/permission-sets/", body).await.id();
    let assigned = format!("/api/user-groups/1/permission-sets/{set}/assignees/user-groups/");
    api.post(&assigned, json!([team])).await.expect_created();
    user.get("/api/user-groups/1/").await.ok();

    api.delete(&format!("/api/user-groups/{team}/")).await.expect_empty();
    api.get(&assigned).await.expect_reply(200, page(json!([])));
    user.get("/api/user-groups/1/").await.expect_reply(403, message::forbidden());
    // A group with assignees can be deleted, too.
    api.delete("/api/user-groups/1/").await.expect_empty();
}

#[tokio::test]
async fn options_describe_groups() {
    let server = TestServer::start().await;
    server.anonymous().options("/api/user-groups/").await.expect_reply(401, message::unauthenticated());
    let document = server.as_type("external").await.options("/api/user-groups/").await.ok();
    assert_eq!(document["restrictions"], json!({"limit_items": 1000}));
    let columns = document["list"]["columns"].as_array().unwrap();
    let sortable: Vec<_> = columns.iter().filter(|column| column["sort_ok"] == true).map(|it| &it["alias"]).collect();
    assert_eq!(sortable, ["id", "name", "created_at", "created_by", "modified_at", "modified_by"]);
    let filters: Vec<_> = columns.iter().filter(|it| it["predicates"] != json!([])).map(|it| &it["alias"]).collect();
    assert_eq!(
        filters,
        ["id", "name", "member", "is_provisioned", "created_at", "created_by", "modified_at", "modified_by"]
    );
}
