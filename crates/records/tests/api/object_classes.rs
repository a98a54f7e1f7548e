//! `/api/object-classes/` (`docs/reference/object-classes.md`).

use crate::TestServer;
use crate::set_up::{class, number, record, with_nodes};
use serde_json::{Value, json};
use testkit::message;
use testkit::shown::{START, admin, page, user};
use testkit::{SECOND, send_concurrently, statuses};

/// The `_meta` of a class for a caller with all actions on it.
fn all_permissions() -> Value {
    json!({"permissions": {
        "view": true, "edit": true, "delete": true, "edit_perm_set": true,
        "object_records": {"create": true, "list": true, "view": true, "edit": true, "delete": true},
    }})
}

#[tokio::test]
async fn a_class_from_its_declaration_to_its_end() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let mut class = json!({
        "id": 1,
        "name": "Purchase order",
        "alias": "purchase_order",
        "description": "What was ordered",
        "label_field": null,
        "num_of_records": 0,
        "created_at": START,
        "created_by": admin(),
        "modified_at": START,
        "modified_by": admin(),
        "_meta": all_permissions(),
    });
    let body = json!({"name": " Purchase order ", "description": "What was ordered", "id": 9, "num_of_records": 9});
    let created = api.post("/api/object-classes/", body).await;
    created.expect_reply(201, class.clone());
    api.get("/api/object-classes/1/").await.expect_reply(200, class.clone());
    api.get("/api/object-classes/").await.expect_reply(200, page(json!([class])));
    api.get("/api/object-classes/autocomplete/?text__icontains=ORDER")
        .await
        .expect_reply(200, page(json!([{"value": 1, "text": "Purchase order"}])));

    // Its creator owns it, and the system creates one set.
    let set = json!({
        "id": 1, "name": "everyone", "type": "everyone",
        "permissions": {"object_classes": [], "object_records": [], "tasks": []},
        "created_at": START, "created_by": null, "modified_at": START, "modified_by": null,
    });
    api.get("/api/object-classes/1/permission-sets/").await.expect_reply(200, page(json!([set])));

    server.advance(SECOND);
    let second = server.as_type("super_admin").await;
    class["name"] = json!("Order");
    class["modified_at"] = json!("2026-01-31T09:30:01.000000Z");
    class["modified_by"] = user(&second, "super_admin");
    let tag = created.header("etag").to_owned();
    let change = json!({"name": "Order", "alias": "other", "planet": "Mars"});
    second
        .call("PATCH", "/api/object-classes/1/")
        .header("if-match", &tag)
        .json(&change)
        .send()
        .await
        .expect_reply(200, class);
    second
        .call("PATCH", "/api/object-classes/1/")
        .header("if-match", &tag)
        .json(&change)
        .send()
        .await
        .expect_reply(412, json!({"detail": "Object has been changed."}));

    api.delete("/api/object-classes/1/").await.expect_empty();
    for below in ["", "owners/", "permission-sets/", "object-records/"] {
        api.get(&format!("/api/object-classes/1/{below}")).await.expect_reply(404, message::not_found());
    }
    api.get("/api/object-classes/").await.expect_reply(200, page(json!([])));
    let log = api.get("/api/administration/log/?resource=object_classes&ordering=id").await;
    assert_eq!(log.column("action"), [json!("create"), json!("add_owners"), json!("edit"), json!("delete")]);
}

#[tokio::test]
async fn a_class_stays_while_it_has_records_or_others_relate_to_it() {
    let server = TestServer::start().await;
    let api = with_nodes(&server).await;
    let order = class(&api, "Order", json!([{"label": "Node", "type": "relation", "related_object_class": 1}])).await;
    let record = record(&api).await;
    let refused = message::detail("Object class has records and cannot be deleted.");
    api.delete("/api/object-classes/1/").await.expect_reply(400, refused);
    // Deleted records are removed with their class.
    api.delete(&format!("/api/object-records/{record}/")).await.expect_empty();
    api.delete("/api/object-classes/1/").await.expect_reply(400, message::detail("Object class is in use."));
    api.delete(&format!("/api/object-classes/{order}/")).await.expect_empty();
    // A relation to itself does not prevent the deletion.
    api.delete("/api/object-classes/1/").await.expect_empty();
    api.post(&format!("/api/object-records/{record}/restore/"), json!({}))
        .await
        .expect_reply(404, message::not_found());
    let kept = "SELECT (SELECT count(*) FROM object_class_fields) + (SELECT count(*) FROM deleted_records) \
        + (SELECT count(*) FROM record_counts) + (SELECT count(*) FROM record_viewers)";
    assert_eq!(number(&server, kept).await, 0);
}

#[tokio::test]
async fn name_and_alias_have_their_rules() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let long = |length: usize| "ö".repeat(length);
    api.post("/api/object-classes/", json!({"name": "Straße", "alias": "street"})).await.expect_created();
    for (body, errors) in [
        (json!({}), json!({"name": ["This field is required."]})),
        (json!({"name": " "}), json!({"name": ["This field may not be blank."]})),
        (json!({"name": long(101)}), json!({"name": ["Ensure this field has no more than 100 characters."]})),
        (json!({"name": "STRASSE"}), json!({"name": ["This field must be unique."]})),
        (json!({"name": "a", "alias": "street"}), json!({"alias": ["This field must be unique."]})),
        (json!({"name": "a", "alias": "a__b"}), json!({"alias": ["Enter a valid value."]})),
        (json!({"name": "a", "alias": "1a"}), json!({"alias": ["Enter a valid value."]})),
        (json!({"name": "a", "alias": "Ab"}), json!({"alias": ["Enter a valid value."]})),
        (json!({"name": "a", "alias": ""}), json!({"alias": ["This field may not be blank."]})),
        (
            json!({"name": "a", "alias": "a".repeat(51)}),
            json!({"alias": ["Ensure this field has no more than 50 characters."]}),
        ),
        (
            json!({"name": "a", "description": long(501), "label_field": "title"}),
            json!({
                "description": ["Ensure this field has no more than 500 characters."],
                "label_field": ["title is not a valid choice."],
            }),
        ),
    ] {
        api.post("/api/object-classes/", body).await.refuses(errors);
    }
    for (name, alias) in
        [("Größe", "gr_e"), ("GR e", "gr_e_2"), ("Gr-E", "gr_e_3"), ("日本", "class_"), ("中国", "class_2")]
    {
        let class = api.post("/api/object-classes/", json!({"name": name})).await.expect_created();
        assert_eq!(class["alias"], alias, "{name}");
    }
}

#[tokio::test]
async fn the_creator_of_a_class_owns_it() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    admin.post("/api/object-classes/", json!({"name": "Other"})).await.expect_created();
    let api = server.with_role(json!({"object_classes": ["create"]})).await;
    let own = api.post("/api/object-classes/", json!({"name": "Own"})).await.expect_created();
    assert_eq!(own["_meta"], all_permissions());
    // The role also grants `list` and `view`.
    assert_eq!(api.get("/api/object-classes/").await.column("name"), ["Other", "Own"]);
    let stranger = server.as_type("external").await;
    stranger.get("/api/object-classes/").await.expect_reply(200, page(json!([])));
    stranger.get("/api/object-classes/1/").await.expect_reply(404, message::not_found());
    stranger.options("/api/object-classes/1/owners/").await.expect_reply(404, message::not_found());
    stranger.post("/api/object-classes/", json!({"name": "Mine"})).await.expect_reply(403, message::forbidden());
    api.patch("/api/object-classes/1/", json!({"name": "Mine"})).await.expect_reply(403, message::forbidden());
    api.delete("/api/object-classes/1/").await.expect_reply(403, message::forbidden());
    api.patch("/api/object-classes/2/", json!({"name": "Mine"})).await.ok();
    api.delete("/api/object-classes/2/").await.expect_empty();
}

#[tokio::test]
async fn filters_and_sorting() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for name in ["beta", "Alpha", "gamma"] {
        api.post("/api/object-classes/", json!({"name": name})).await.expect_created();
        server.advance(SECOND);
    }
    for (query, ids) in [
        ("ordering=name", vec![2, 1, 3]),
        ("ordering=-created_at", vec![3, 2, 1]),
        ("name__icontains=MMA", vec![3]),
        ("alias=alpha", vec![2]),
        ("created_at__gt=2026-01-31T09:30:00Z", vec![2, 3]),
        ("created_by=1&id__lte=2", vec![1, 2]),
        ("limit=1&offset=1", vec![2]),
    ] {
        assert_eq!(api.get(&format!("/api/object-classes/?{query}")).await.ids(), ids, "{query}");
    }
}

#[tokio::test]
async fn the_limit_is_exact() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    server.set_limit("object_classes", 2).await;
    let body = |n: usize| json!({"name": format!("c{n}")});
    let creates = send_concurrently((0..8).map(|n| api.call("POST", "/api/object-classes/").json(&body(n)))).await;
    let statuses = statuses(&creates);
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 2, "{statuses:?}");
    api.post("/api/object-classes/", json!({"name": "more"}))
        .await
        .expect_reply(400, message::limit_exceeded("2 Object Classes"));
}
