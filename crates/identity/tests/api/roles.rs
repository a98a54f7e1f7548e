//! `/api/roles/` (`docs/reference/roles.md`).

use crate::TestServer;
use crate::message;
use crate::shown::{START, admin, page, user};
use serde_json::{Value, json};
use testkit::SECOND;

#[tokio::test]
async fn a_role_from_its_creation_to_its_end() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let mut role = json!({
        "id": 1,
        "name": "Clerks",
        "description": "They look after users.",
        "permissions": {"users": ["list", "view", "edit"], "company_details": ["view"]},
        "created_at": START,
        "created_by": admin(),
        "modified_at": START,
        "modified_by": admin(),
        "_meta": {"permissions": {"list": true, "view": true, "create": true, "edit": true, "delete": true}},
    });

    let body = json!({
        "name": " Clerks ",
        "description": "They look after users.",
        "permissions": {"company_details": ["view"], "users": ["edit"]},
    });
    api.post("/api/roles/", body).await.expect_reply(201, role.clone());
    api.get("/api/roles/1/").await.expect_reply(200, role.clone());
    api.get("/api/roles/").await.expect_reply(200, page(json!([role])));

    server.advance(SECOND);
    let second = server.as_type("super_admin").await;
    role["name"] = json!("Registrars");
    role["permissions"] = json!({"users": ["list"], "company_details": ["view"]});
    role["modified_at"] = json!("2026-01-31T09:30:01.000000Z");
    role["modified_by"] = user(&second, "super_admin");
    let body = json!({"name": "Registrars", "permissions": {"users": ["list"]}});
    second.patch("/api/roles/1/", body).await.expect_reply(200, role.clone());
    api.get("/api/roles/1/").await.expect_reply(200, role);

    api.delete("/api/roles/1/").await.expect_empty();
    api.get("/api/roles/1/").await.expect_reply(404, message::not_found());
    api.get("/api/roles/").await.expect_reply(200, page(json!([])));
}

#[tokio::test]
async fn a_reference_shows_a_name_letter_by_letter() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let mut user = admin();
    user["last_name"] = json!("O\"Brien \\ d'Été, 名 🙂 </b> \u{7f}");
    api.patch("/api/users/1/", json!({"last_name": user["last_name"]})).await.ok();
    let role = api.post("/api/roles/", json!({"name": "Clerks"})).await.expect_created();
    assert_eq!([&role["created_by"], &role["modified_by"]], [&user, &user]);
    assert_eq!(api.get("/api/roles/").await.ok()["results"][0]["created_by"], user);
}

#[tokio::test]
async fn omitted_members_have_defaults_and_read_only_members_are_ignored() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let body = json!({
        "name": "Empty", "id": 77, "created_at": "2000-01-01T00:00:00Z", "created_by": 5, "modified_by": null,
        "_meta": {"permissions": {}}, "planet": "Mars",
    });
    let role = api.post("/api/roles/", body).await.expect_created();
    assert_eq!(role["id"], 1);
    assert_eq!(role["description"], "");
    assert_eq!(role["permissions"], json!({}));
    assert_eq!(role["created_at"], START);
    assert_eq!(role["created_by"], admin());
}

#[tokio::test]
async fn name_and_description_have_the_standard_rules() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.post("/api/roles/", json!({"name": "Straße"})).await.expect_created();
    let long = |length: usize| "ö".repeat(length);
    let refused = |name: Value, message: &str| (name, json!({"name": [message]}));
    for (name, errors) in [
        refused(json!(""), "This field may not be blank."),
        refused(json!("  "), "This field may not be blank."),
        refused(Value::Null, "This field may not be null."),
        refused(json!(5), "Not a valid string."),
        refused(json!(["a"]), "Not a valid string."),
        refused(json!("a\0b"), "Null characters are not allowed."),
        refused(json!(long(101)), "Ensure this field has no more than 100 characters."),
        refused(json!("STRASSE"), "This field must be unique."),
        refused(json!(" straße "), "This field must be unique."),
    ] {
        api.post("/api/roles/", json!({"name": name})).await.refuses(errors);
    }
    api.post("/api/roles/", json!({})).await.refuses(json!({"name": ["This field is required."]}));
    api.post("/api/roles/", json!({"name": long(100), "description": long(500)})).await.expect_created();

    let too_long = json!({"description": ["Ensure this field has no more than 500 characters."]});
    api.patch("/api/roles/1/", json!({"description": long(501)})).await.refuses(too_long);
    // The role may have its own name in another spelling.
    api.patch("/api/roles/1/", json!({"name": "STRASSE"})).await.ok();
    api.patch("/api/roles/1/", json!({"name": long(100)}))
        .await
        .refuses(json!({"name": ["This field must be unique."]}));
    api.patch("/api/roles/1/", json!({"name": null})).await.refuses(json!({"name": ["This field may not be null."]}));
}

#[tokio::test]
async fn only_permissions_that_a_role_can_give_are_accepted() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for (permissions, errors) in [
        (Value::Null, json!(["This field may not be null."])),
        (json!(["users"]), json!(["Invalid data. Expected a dictionary, but got list."])),
        (json!({"planets": ["view"]}), json!(["Invalid resource planets."])),
        (json!({"users": null}), json!({"users": ["This field may not be null."]})),
        (json!({"users": "list"}), json!({"users": ["Expected a list of items but got type str."]})),
        (json!({"users": ["fly", "list", "swim"]}), json!({"users": ["Invalid actions fly,swim."]})),
        // Only groups grant these actions.
        (json!({"user_groups": ["edit_perm_set", "view"]}), json!({"user_groups": ["Invalid actions edit_perm_set."]})),
        (json!({"user_groups": ["delete", "edit"]}), json!({"user_groups": ["Invalid actions delete,edit."]})),
        (json!({"standard_authentication": ["view"]}), json!({"standard_authentication": ["Invalid actions view."]})),
        (json!({"company_details": ["list"]}), json!({"company_details": ["Invalid actions list."]})),
        (json!({"outbound_mail_setup": ["create"]}), json!({"outbound_mail_setup": ["Invalid actions create."]})),
        (json!({"administration_log": ["edit"]}), json!({"administration_log": ["Invalid actions edit."]})),
    ] {
        let reply = api.post("/api/roles/", json!({"name": "Bad", "permissions": permissions})).await;
        assert_eq!(reply, (400, json!({"permissions": errors})), "{permissions}");
    }
    let all_at_once = json!({"name": "", "permissions": {"users": ["fly"], "roles": null}});
    api.post("/api/roles/", all_at_once).await.refuses(json!({
        "name": ["This field may not be blank."],
        "permissions": {"users": ["Invalid actions fly."], "roles": ["This field may not be null."]},
    }));
}

#[tokio::test]
async fn a_role_can_give_all_of_these_and_actions_bring_what_they_need() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let crud = ["list", "view", "create", "edit", "delete"];
    let all = json!({
        "users": crud, "roles": crud, "single_sign_on": crud, "authentication_objects": crud,
        "user_groups": ["list", "view", "create"],
        "standard_authentication": ["list", "edit"],
        "company_details": ["view", "edit"],
        "outbound_mail_setup": ["view", "edit"],
        "administration_log": ["list"],
    });
    let role = api.post("/api/roles/", json!({"name": "All", "permissions": all})).await.expect_created();
    assert_eq!(role["permissions"], all);

    for (permissions, expected) in [
        (json!({"users": []}), json!({})),
        (json!({"users": ["list", "list"]}), json!({"users": ["list"]})),
        (json!({"users": ["view"]}), json!({"users": ["list", "view"]})),
        (json!({"users": ["create"]}), json!({"users": ["list", "view", "create"]})),
        (json!({"users": ["delete", "edit"]}), json!({"users": ["list", "view", "edit", "delete"]})),
        (json!({"user_groups": ["create"]}), json!({"user_groups": ["list", "view", "create"]})),
        (json!({"standard_authentication": ["edit"]}), json!({"standard_authentication": ["list", "edit"]})),
        (json!({"outbound_mail_setup": ["edit"]}), json!({"outbound_mail_setup": ["view", "edit"]})),
    ] {
        let body = json!({"name": format!("Role with {permissions}"), "permissions": permissions});
        assert_eq!(api.post("/api/roles/", body).await.expect_created()["permissions"], expected, "{permissions}");
    }
}

#[tokio::test]
async fn a_patch_replaces_the_actions_of_the_resources_sent() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let permissions = json!({"users": ["edit"], "roles": ["list"]});
    api.post("/api/roles/", json!({"name": "Role", "permissions": permissions})).await.expect_created();
    for (changes, expected) in [
        (json!({}), json!({"users": ["list", "view", "edit"], "roles": ["list"]})),
        (json!({"users": ["view"]}), json!({"users": ["list", "view"], "roles": ["list"]})),
        (json!({"roles": []}), json!({"users": ["list", "view"]})),
        (json!({"users": [], "company_details": ["view"]}), json!({"company_details": ["view"]})),
    ] {
        let role = api.patch("/api/roles/1/", json!({"permissions": changes})).await.ok();
        assert_eq!(role["permissions"], expected, "{changes}");
    }
}

#[tokio::test]
async fn a_role_works_at_once_and_until_it_is_gone() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let clerk = server.with_role(json!({"roles": ["list"]})).await;
    clerk.get("/api/roles/").await.ok();
    clerk.get("/api/roles/1/").await.expect_reply(403, message::forbidden());

    api.patch("/api/roles/1/", json!({"permissions": {"roles": ["view"]}})).await.ok();
    clerk.get("/api/roles/1/").await.ok();

    // A role in use can be deleted. It is removed from its users.
    api.delete("/api/roles/1/").await.expect_empty();
    clerk.get("/api/roles/").await.expect_reply(403, message::forbidden());
    let user = api.get(&format!("/api/users/{}/", clerk.id)).await.ok();
    assert_eq!((&user["roles"], &user["_meta"]["labels"]), (&json!([]), &json!({"roles": []})));
}

#[tokio::test]
async fn each_method_asks_for_its_permission() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    admin.post("/api/roles/", json!({"name": "Target"})).await.expect_created();
    let lister = server.with_role(json!({"roles": ["list"]})).await;
    let viewer = server.with_role(json!({"roles": ["view"]})).await;
    let creator = server.with_role(json!({"roles": ["create"]})).await;
    let editor = server.with_role(json!({"roles": ["edit"]})).await;
    let remover = server.with_role(json!({"roles": ["delete"]})).await;
    let (internal, external) = (server.as_type("internal").await, server.as_type("external").await);
    let (full, service) = (server.as_type("full").await, server.as_type("service_external").await);
    let service_internal = server.as_type("service_internal").await;

    for (caller, list, view, create, edit, delete) in [
        (&server.anonymous(), 401, 401, 401, 401, 401),
        (&internal, 403, 403, 403, 403, 403),
        (&external, 403, 403, 403, 403, 403),
        (&full, 403, 403, 403, 403, 403),
        (&service, 403, 403, 403, 403, 403),
        (&lister, 200, 403, 403, 403, 403),
        (&viewer, 200, 200, 403, 403, 403),
        (&creator, 200, 200, 201, 403, 403),
        (&editor, 200, 200, 403, 200, 403),
        (&remover, 200, 200, 403, 403, 204),
        (&service_internal, 200, 200, 201, 200, 204),
    ] {
        let target = admin.post("/api/roles/", json!({"name": format!("For {}", caller.username)})).await.id();
        let path = format!("/api/roles/{target}/");
        assert_eq!(caller.get("/api/roles/").await.status, list, "{}", caller.username);
        assert_eq!(caller.get(&path).await.status, view, "{}", caller.username);
        let body = json!({"name": format!("By {}", caller.username)});
        assert_eq!(caller.post("/api/roles/", body).await.status, create, "{}", caller.username);
        assert_eq!(caller.patch(&path, json!({"description": "x"})).await.status, edit, "{}", caller.username);
        assert_eq!(caller.delete(&path).await.status, delete, "{}", caller.username);
    }
}

#[tokio::test]
async fn refusals_come_in_their_order() {
    let server = TestServer::start().await;
    let clerk = server.with_role(json!({"roles": ["edit", "create"]})).await;
    let stranger = server.as_type("internal").await;
    let api = server.admin().await;
    let strong = api.post("/api/roles/", json!({"name": "Strong", "permissions": {"users": ["delete"]}})).await.id();
    let (strong, unknown) = (format!("/api/roles/{strong}/"), "/api/roles/999/");
    let wrong = json!({"name": "", "permissions": {"users": ["delete"]}});

    server.anonymous().patch(unknown, wrong.clone()).await.expect_reply(401, message::unauthenticated());
    stranger.patch(unknown, wrong.clone()).await.expect_reply(403, message::forbidden());
    clerk.patch(unknown, wrong.clone()).await.expect_reply(404, message::not_found());
    clerk.patch(&strong, wrong.clone()).await.expect_reply(403, message::forbidden());
    clerk.post("/api/roles/", wrong.clone()).await.expect_reply(403, message::forbidden());
    api.patch(&strong, wrong).await.refuses(json!({"name": ["This field may not be blank."]}));
    api.get("/api/roles/99999999999999999999999/").await.expect_reply(404, message::not_found());
    api.delete(unknown).await.expect_reply(404, message::not_found());
}

#[tokio::test]
async fn nobody_creates_or_edits_a_role_that_gives_what_he_lacks() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let clerk = server.with_role(json!({"roles": ["create", "edit", "delete"], "users": ["edit"]})).await;
    let give = |permissions: Value| json!({"name": "Given", "permissions": permissions});

    clerk.post("/api/roles/", give(json!({"users": ["delete"]}))).await.expect_reply(403, message::forbidden());
    // Implied actions count, too: the clerk lacks `create` and has `list` and `view`.
    clerk.post("/api/roles/", give(json!({"users": ["create"]}))).await.expect_reply(403, message::forbidden());
    clerk.post("/api/roles/", give(json!({"company_details": ["view"]}))).await.expect_reply(403, message::forbidden());
    let own = clerk.post("/api/roles/", give(json!({"users": ["edit"], "user_groups": ["list"]}))).await.id();

    let path = format!("/api/roles/{own}/");
    clerk.patch(&path, json!({"permissions": {"users": ["delete"]}})).await.expect_reply(403, message::forbidden());
    clerk.patch(&path, json!({"permissions": {"users": ["view"]}})).await.ok();
    // The clerk may not edit a role with permissions that the clerk does not have, not even rename or reduce it.
    api.patch(&path, json!({"permissions": {"single_sign_on": ["list"]}})).await.ok();
    clerk.patch(&path, json!({"name": "Mine"})).await.expect_reply(403, message::forbidden());
    clerk.patch(&path, json!({"permissions": {"single_sign_on": []}})).await.expect_reply(403, message::forbidden());
    let shown = clerk.get(&path).await.ok();
    assert_eq!(
        shown["_meta"]["permissions"],
        json!({"list": true, "view": true, "create": true, "edit": false, "delete": true})
    );
}

#[tokio::test]
async fn the_list_is_filtered_and_sorted() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for name in ["beta", "Alpha", "ÄRGER", "alphabet"] {
        server.advance(SECOND);
        api.post("/api/roles/", json!({"name": name})).await.expect_created();
    }
    for (query, ids) in [
        ("", vec![1, 2, 3, 4]),
        ("?ordering=name", vec![2, 4, 1, 3]),
        ("?ordering=-name", vec![3, 1, 4, 2]),
        ("?ordering=-created_at", vec![4, 3, 2, 1]),
        ("?name=Alpha", vec![2]),
        ("?name=alpha", vec![]),
        ("?name__iexact=ALPHA", vec![2]),
        ("?name__icontains=%C3%A4r", vec![3]),
        ("?name__istartswith=alpha", vec![2, 4]),
        ("?id__range=2,3", vec![2, 3]),
        ("?created_at__gt=2026-01-31T09:30:03Z", vec![4]),
        ("?created_by=1&id__lt=3", vec![1, 2]),
        ("?modified_by__in=5,6", vec![]),
        ("?planet=Mars", vec![1, 2, 3, 4]),
    ] {
        assert_eq!(api.get(&format!("/api/roles/{query}")).await.ids(), ids, "{query}");
    }
    api.get("/api/roles/?ordering=permissions")
        .await
        .refuses(json!({"ordering": ["Select a valid choice. permissions is not one of the available choices."]}));
    api.get("/api/roles/?name__gt=a")
        .await
        .refuses(json!({"name__gt": ["Select a valid choice. gt is not one of the available choices."]}));
}

#[tokio::test]
async fn an_edit_of_what_somebody_else_has_changed_is_refused() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let tag = api.post("/api/roles/", json!({"name": "Role"})).await.header("etag").to_owned();
    assert_eq!(api.get("/api/roles/1/").await.header("etag"), tag);
    let changed = api.with_header("if-match", &tag).patch("/api/roles/1/", json!({"description": "x"})).await;
    changed.ok();
    let late = api.with_header("if-match", &tag);
    late.patch("/api/roles/1/", json!({"name": "y"}))
        .await
        .expect_reply(412, message::detail("Object has been changed."));
    late.delete("/api/roles/1/").await.expect_reply(412, message::detail("Object has been changed."));
    api.with_header("if-match", changed.header("etag")).delete("/api/roles/1/").await.expect_empty();
}

#[tokio::test]
async fn the_hundred_and_first_role_is_refused() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for n in 1..=100 {
        api.post("/api/roles/", json!({"name": format!("Role {n}")})).await.expect_created();
    }
    let refused = message::limit_exceeded("100 Roles");
    api.post("/api/roles/", json!({"name": "Role 101"})).await.refuses(refused.clone());
    // A freed place can be used again.
    api.delete("/api/roles/7/").await.expect_empty();
    api.post("/api/roles/", json!({"name": "Role 101"})).await.expect_created();
    api.post("/api/roles/", json!({"name": "Role 102"})).await.refuses(refused);
    assert_eq!(api.get("/api/roles/").await["total_count"], 100);
}

#[tokio::test]
async fn options_describe_roles() {
    let server = TestServer::start().await;
    server.anonymous().options("/api/roles/").await.expect_reply(401, message::unauthenticated());
    let document = server.as_type("external").await.options("/api/roles/").await.ok();
    assert_eq!(document["restrictions"], json!({"limit_items": 100}));
    assert_eq!(
        document["details"]["schema"][1],
        json!({
            "alias": "name", "type": "string", "required": true, "editable": true,
            "validators": [{"name": "min_length", "value": 1}, {"name": "max_length", "value": 100}],
        })
    );
    // The document contains the implied actions of each action, like a creation.
    let permissions = &document["details"]["schema"][3];
    let actions_of = |resource: &str| {
        let resources = permissions["schema"].as_array().unwrap();
        resources.iter().find(|entry| entry["alias"] == resource).map(|entry| entry["values"].clone()).unwrap()
    };
    assert_eq!(permissions["alias"], "permissions");
    assert_eq!(
        actions_of("users"),
        json!([
            {"value": "list", "text": "List", "requires": []},
            {"value": "view", "text": "View", "requires": ["list"]},
            {"value": "create", "text": "Create", "requires": ["list", "view"]},
            {"value": "edit", "text": "Edit", "requires": ["list", "view"]},
            {"value": "delete", "text": "Delete", "requires": ["list", "view"]},
        ])
    );
    assert_eq!(actions_of("company_details")[1], json!({"value": "edit", "text": "Edit", "requires": ["view"]}));
    assert_eq!(
        actions_of("standard_authentication")[1],
        json!({"value": "edit", "text": "Edit", "requires": ["list"]})
    );
    server
        .admin()
        .await
        .options("/api/roles/1/")
        .await
        .expect_reply(405, message::detail("Method \"OPTIONS\" not allowed."));
}
