//! `/api/object-classes/{id}/record-permission-sets/` (`docs/reference/object-records.md`).

use crate::TestServer;
use crate::set_up::{SETS, assignees, class, connectors, record, set, set_limits, with_class, with_class_set};
use serde_json::{Value, json};
use testkit::message;
use testkit::shown::{START, admin, page};
use testkit::{ApiClient, SECOND, send_concurrently};

/// Two connectors that are associated with class 1, and one that is not.
const CONNECTORS: &[(i64, &str)] = &[(5, "Copilot"), (7, "Claude"), (9, "Elsewhere")];

fn permissions(records: &[&str], tasks: &[&str]) -> Value {
    json!({"object_records": records, "tasks": tasks})
}

fn set_json(id: i64, name: &str, permissions: Value, connectors: &[(i64, &str, Value)]) -> Value {
    let connector_json =
        |(id, _, permissions): &(i64, &str, Value)| json!({"connector": id, "permissions": permissions});
    let labels: serde_json::Map<String, Value> =
        connectors.iter().map(|(id, name, _)| (id.to_string(), json!({"name": name}))).collect();
    json!({
        "id": id, "name": name, "permissions": permissions,
        "mcp_permissions": connectors.iter().map(connector_json).collect::<Vec<_>>(),
        "created_at": START, "created_by": admin(), "modified_at": START, "modified_by": admin(),
        "_meta": {"labels": {"connectors": labels}},
    })
}

#[tokio::test]
async fn a_set_is_made_changed_listed_and_deleted() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    api.get(SETS).await.expect_reply(200, page(json!([])));
    // Required actions are added. No name is reserved. A create ignores the actions of connectors.
    let body = json!({
        "name": " everyone ", "permissions": {"object_records": ["edit"], "tasks": ["assign"]}, "mcp_permissions": "?",
    });
    let first = set_json(1, "everyone", permissions(&["edit", "view"], &["edit", "view", "assign"]), &[]);
    api.post(SETS, body).await.expect_reply(201, first.clone());
    api.post(SETS, json!({"name": "Nothing"}))
        .await
        .expect_reply(201, set_json(2, "Nothing", permissions(&[], &[]), &[]));
    let second = set_json(2, "Nothing", permissions(&[], &[]), &[]);
    api.get(&format!("{SETS}?ordering=-id&name=x")).await.expect_reply(200, page(json!([first, second])));

    // A key that is not sent stays, and so does an action that another one needs.
    let changed = set_json(1, "All", permissions(&["view"], &["edit", "view", "assign"]), &[]);
    api.patch(&format!("{SETS}1/"), json!({"name": "All", "permissions": {"object_records": []}, "planet": 1}))
        .await
        .expect_reply(200, changed);
    api.get(&format!("{SETS}1/")).await.expect_reply(405, message::detail("Method \"GET\" not allowed."));
    api.delete(&format!("{SETS}1/")).await.expect_empty();
    api.delete(&format!("{SETS}1/")).await.expect_reply(404, message::not_found());
    api.patch(&format!("{SETS}1/"), json!({})).await.expect_reply(404, message::not_found());
    let log = api.get("/api/administration/log/?resource=record_permission_sets").await;
    assert_eq!(log.column("action"), ["delete", "edit", "create", "create"]);
    assert_eq!(
        log.column("changes")[1],
        json!({
            "name": ["everyone", "All"],
            "permissions": [
                permissions(&["edit", "view"], &["edit", "view", "assign"]),
                permissions(&["view"], &["edit", "view", "assign"]),
            ],
        })
    );
}

#[tokio::test]
async fn wrong_bodies_are_refused() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    set(&api, "Readers", json!({})).await;
    let long = "x".repeat(101);
    for (body, errors) in [
        (json!({}), json!({"name": ["This field is required."]})),
        (json!({"name": " "}), json!({"name": ["This field may not be blank."]})),
        (json!({"name": null}), json!({"name": ["This field may not be null."]})),
        (json!({"name": long}), json!({"name": ["Ensure this field has no more than 100 characters."]})),
        (json!({"name": "READERS"}), json!({"name": ["This field must be unique."]})),
        (json!({"name": "A", "permissions": null}), json!({"permissions": ["This field may not be null."]})),
        (json!({"name": "A", "permissions": {"x": []}}), json!({"permissions": ["Invalid resource x."]})),
        (
            json!({"name": "A", "permissions": {"object_classes": ["view"]}}),
            json!({"permissions": ["Invalid resource object_classes."]}),
        ),
        (
            json!({"name": "A", "permissions": {"object_records": ["edit_owners", "view", "list"], "tasks": null}}),
            json!({"permissions": {
                "object_records": ["Invalid actions edit_owners,list."], "tasks": ["This field may not be null."],
            }}),
        ),
    ] {
        api.post(SETS, body.clone()).await.refuses(errors);
    }
    for path in ["/api/object-classes/9/record-permission-sets/"] {
        api.get(path).await.expect_reply(404, message::not_found());
        api.options(path).await.expect_reply(404, message::not_found());
        api.post(path, json!({"name": "A"})).await.expect_reply(404, message::not_found());
    }
    for n in 2..=10 {
        set(&api, &format!("Set {n}"), json!({})).await;
    }
    api.post(SETS, json!({"name": "More"}))
        .await
        .expect_reply(400, message::limit_exceeded("10 Object Class Permission Sets"));
}

#[tokio::test]
async fn connectors_have_a_part_of_their_set() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    connectors(&server, CONNECTORS).await;
    let (nothing, viewing) = (permissions(&[], &[]), permissions(&["view"], &[]));
    let both = |five: &Value, seven: &Value| [(5, "Copilot", five.clone()), (7, "Claude", seven.clone())];
    let whole = permissions(&["edit", "view"], &["edit", "view", "assign"]);
    api.post(SETS, json!({"name": "Set", "permissions": whole}))
        .await
        .expect_reply(201, set_json(1, "Set", whole.clone(), &both(&nothing, &nothing)));
    let set_path = format!("{SETS}1/");
    let give = |connector: i64, permissions: Value| json!({"mcp_permissions": [{"connector": connector, "permissions": permissions}]});
    // Required actions are added, and must be granted by the set too.
    api.patch(&set_path, give(7, json!({"tasks": ["assign"]}))).await.expect_reply(
        200,
        set_json(1, "Set", whole.clone(), &both(&nothing, &permissions(&["view"], &["edit", "view", "assign"]))),
    );
    api.patch(&set_path, give(5, json!({"object_records": ["edit"]}))).await.expect_reply(
        200,
        set_json(
            1,
            "Set",
            whole.clone(),
            &both(&permissions(&["edit", "view"], &[]), &permissions(&["view"], &["edit", "view", "assign"])),
        ),
    );
    let excess = "Permissions of connector 7 exceed the permissions of the set: object_records.delete, tasks.create";
    api.patch(&set_path, give(7, json!({"object_records": ["delete"], "tasks": ["create"]})))
        .await
        .refuses(json!({"mcp_permissions": [excess]}));
    // A set that shrinks reduces the actions of all connectors, even of those that are not sent.
    let body = json!({
        "permissions": {"object_records": ["view"], "tasks": []},
        "mcp_permissions": [{"connector": 7, "permissions": {}}],
    });
    let shrunk = set_json(1, "Set", viewing.clone(), &both(&viewing, &viewing));
    api.patch(&set_path, body).await.expect_reply(200, shrunk.clone());
    api.get(SETS).await.expect_reply(200, page(json!([shrunk])));
    let log = api.get("/api/administration/log/?resource=record_permission_sets").await;
    assert_eq!(
        log.column("changes")[0]["mcp_permissions"][1],
        json!([{"connector": 5, "permissions": viewing}, {"connector": 7, "permissions": viewing}])
    );

    for (value, errors) in [
        (json!(null), json!(["This field may not be null."])),
        (json!("x"), json!(["Expected a list of items but got type str."])),
        (json!([5]), json!(["Invalid data. Expected a dictionary, but got int."])),
        (json!([{"connector": 9, "permissions": {}}]), json!(["Invalid pk 9 - object does not exist."])),
        (json!([{"connector": 99, "permissions": {}}]), json!(["Invalid pk 99 - object does not exist."])),
        (json!([{"connector": "5", "permissions": {}}]), json!(["Incorrect type. Expected pk value, received str."])),
        (json!([{"permissions": {}}]), json!({"connector": ["This field is required."]})),
        (json!([{"connector": 5}]), json!({"permissions": ["This field is required."]})),
        (json!([{"connector": 5, "permissions": null}]), json!({"permissions": ["This field may not be null."]})),
        (json!([{"connector": 5, "permissions": {"x": []}}]), json!({"permissions": ["Invalid resource x."]})),
        (
            json!([{"connector": 5, "permissions": {"tasks": ["fly"]}}]),
            json!({"permissions": {"tasks": ["Invalid actions fly."]}}),
        ),
        (
            json!([{"connector": 5, "permissions": {}}, {"connector": 5, "permissions": {}}]),
            json!(["This list must contain unique connectors."]),
        ),
    ] {
        api.patch(&set_path, json!({"mcp_permissions": value})).await.refuses(json!({"mcp_permissions": errors}));
    }
}

#[tokio::test]
async fn sets_are_read_with_view_on_the_class_and_grant_only_actions_of_the_caller() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    connectors(&server, CONNECTORS).await;
    let id = set(&api, "Set", json!({"object_records": ["view", "edit"]})).await;
    let (reader, keeper) = (server.as_type("internal").await, server.as_type("internal").await);
    reader.get(SETS).await.expect_reply(404, message::not_found());
    // A caller who may view one record may list the sets of its class.
    let one = record(&api).await;
    api.post(&assignees(one, id), json!([reader.id])).await.expect_created();
    let all = api.get(SETS).await.ok();
    reader.get(SETS).await.expect_reply(200, all);
    reader.options(SETS).await.ok();
    reader.post(SETS, json!({"name": "Mine"})).await.expect_reply(403, message::forbidden());
    reader.patch(&format!("{SETS}1/"), json!({"name": "Mine"})).await.expect_reply(403, message::forbidden());
    reader.delete(&format!("{SETS}1/")).await.expect_reply(403, message::forbidden());

    let held = json!({"object_classes": ["edit_perm_set"], "object_records": ["view"]});
    with_class_set(&api, keeper.id, held).await;
    let refused =
        async |body: Value| keeper.patch(&format!("{SETS}1/"), body).await.expect_reply(403, message::forbidden());
    refused(json!({"permissions": {"object_records": ["edit", "delete"]}})).await;
    let connector =
        |actions: Value| json!({"mcp_permissions": [{"connector": 5, "permissions": {"object_records": actions}}]});
    refused(connector(json!(["edit"]))).await;
    keeper.patch(&format!("{SETS}1/"), connector(json!(["view"]))).await.ok();
    keeper
        .post(SETS, json!({"name": "B", "permissions": {"tasks": ["view"]}}))
        .await
        .expect_reply(403, message::forbidden());
    keeper.post(SETS, json!({"name": "B", "permissions": {"object_records": ["view"]}})).await.expect_created();
    // Existing actions may stay or be removed.
    keeper.patch(&format!("{SETS}1/"), json!({"name": "C", "permissions": {"object_records": ["edit"]}})).await.ok();
    keeper.patch(&format!("{SETS}1/"), json!({"permissions": {"object_records": []}})).await.ok();
    keeper.delete(&format!("{SETS}1/")).await.expect_empty();
}

#[tokio::test]
async fn the_schema_names_every_action() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let document = api.options(SETS).await.ok();
    let names = |list: &Value| list.as_array().unwrap().iter().map(|it| it["alias"].clone()).collect::<Value>();
    let columns = json!([
        "id",
        "name",
        "permissions",
        "mcp_permissions",
        "created_at",
        "created_by",
        "modified_at",
        "modified_by"
    ]);
    assert_eq!(names(&document["list"]["columns"]), columns);
    assert_eq!(document["restrictions"], json!({"limit_items": 10}));
    let schema = document["details"]["schema"].as_array().unwrap();
    let permissions = schema.iter().find(|entry| entry["alias"] == "permissions").unwrap();
    assert_eq!(names(&permissions["schema"]), json!(["object_records", "tasks"]));
    assert_eq!(
        permissions["schema"][0]["values"],
        json!([
            {"value": "edit", "text": "Edit", "requires": ["view"]},
            {"value": "view", "text": "View", "requires": []},
            {"value": "delete", "text": "Delete", "requires": ["view"]},
        ])
    );
}

#[tokio::test]
async fn a_changed_limit_holds_at_once() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    for limit in [2, 3] {
        set_limits(&server, json!({"records_permission_set": limit})).await;
        assert_eq!(api.options(SETS).await.ok()["restrictions"], json!({"limit_items": limit}));
        for n in api.get(SETS).await.ids().len()..limit {
            set(&api, &format!("Set {n}"), json!({})).await;
        }
        let exceeded = message::limit_exceeded(&format!("{limit} Object Class Permission Sets"));
        api.post(SETS, json!({"name": "More"})).await.expect_reply(400, exceeded);
    }
}

#[tokio::test]
async fn changes_of_a_set_take_effect_on_its_records_at_once() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let id = set(&api, "Set", json!({})).await;
    let record_id = record(&api).await;
    let reader = server.as_type("external").await;
    api.post(&assignees(record_id, id), json!([reader.id])).await.expect_created();
    let (list, path) = ("/api/object-classes/1/object-records/", format!("/api/object-records/{record_id}/"));
    for _ in 0..2 {
        reader.get(list).await.expect_reply(404, message::not_found());
        reader.get(&path).await.expect_reply(404, message::not_found());
        api.patch(&format!("{SETS}{id}/"), json!({"permissions": {"object_records": ["view"]}})).await.ok();
        assert_eq!(reader.get(list).await.ids(), [record_id]);
        reader.get(&path).await.ok();
        api.patch(&format!("{SETS}{id}/"), json!({"permissions": {"object_records": []}})).await.ok();
    }
    api.patch(&format!("{SETS}{id}/"), json!({"permissions": {"object_records": ["view"]}})).await.ok();
    assert_eq!(reader.get(list).await.ids(), [record_id]);
    api.delete(&format!("{SETS}{id}/")).await.expect_empty();
    reader.get(list).await.expect_reply(404, message::not_found());
}

/// Asserts that the actions of every connector are granted by its set.
async fn check_parts(api: &ApiClient) {
    let set = api.get(SETS).await.json["results"][0].take();
    for of in set["mcp_permissions"].as_array().unwrap() {
        for key in ["object_records", "tasks"] {
            let whole = set["permissions"][key].as_array().unwrap();
            let part = of["permissions"][key].as_array().unwrap();
            assert!(part.iter().all(|action| whole.contains(action)), "{set:#}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connector_never_has_more_than_a_set_that_shrinks_meanwhile() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    connectors(&server, CONNECTORS).await;
    let id = set(&api, "Set", json!({})).await;
    let path = format!("{SETS}{id}/");
    for _ in 0..testkit::rounds(5) {
        api.patch(&path, json!({"permissions": {"object_records": ["edit"], "tasks": ["assign"]}})).await.ok();
        let whole = json!({"object_records": ["edit"], "tasks": ["assign"]});
        let give = json!({"mcp_permissions": [{"connector": 5, "permissions": whole}, {"connector": 7, "permissions": whole}]});
        let shrink = json!({"permissions": {"object_records": ["view"], "tasks": []}});
        let bodies = [&give, &shrink, &give, &give];
        let replies = send_concurrently(bodies.map(|body| api.call("PATCH", &path).json(body))).await;
        assert!(replies.iter().all(|reply| matches!(reply.status, 200 | 400)), "{replies:?}");
        check_parts(&api).await;
    }
    server.advance(SECOND);
}

#[tokio::test]
async fn options_tell_which_actions_others_bring_along_of_other_resources_too() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order", json!([])).await;
    let document = api.options("/api/object-classes/1/record-permission-sets/").await.ok();
    let fields = document["details"]["schema"].as_array().unwrap();
    let permissions = fields.iter().find(|field| field["alias"] == "permissions").unwrap();
    let required: Vec<Value> = permissions["schema"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|key| key["values"].as_array().unwrap())
        .map(|action| json!([action["value"], action["requires"]]))
        .collect();
    assert_eq!(
        required,
        [
            json!(["edit", ["view"]]),
            json!(["view", []]),
            json!(["delete", ["view"]]),
            json!(["create", ["object_records.view", "view"]]),
            json!(["edit", ["object_records.view", "view"]]),
            json!(["view", ["object_records.view"]]),
            json!(["delete", ["object_records.view", "view"]]),
            json!(["complete", ["object_records.view", "view"]]),
            json!(["assign", ["object_records.view", "edit", "view"]]),
        ]
    );
}
