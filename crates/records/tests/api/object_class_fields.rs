//! `/api/object-classes/{id}/fields/` (`docs/reference/object-class-fields.md`).

use crate::TestServer;
use crate::set_up::FIELDS;
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::message;
use testkit::shown::{START, admin, page, user};
use testkit::{ApiClient, SECOND, eventually};

/// Starts a server with one class, and returns it with its first super admin.
async fn with_class() -> (TestServer, ApiClient) {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.post("/api/object-classes/", json!({"name": "Invoice"})).await.expect_created();
    (server, api)
}

/// The body of a field of this type with only the required members.
fn field_body(kind: &str, label: &str) -> Value {
    let mut field = json!({"label": label, "type": kind});
    if ["enum", "set", "status"].contains(&kind) {
        field["options"] = json!([{"value": "a", "text": "A"}, {"value": "b", "text": "B"}]);
    }
    if kind == "status" {
        field["initial"] = json!("a");
    }
    if kind == "relation" {
        field["related_object_class"] = json!(1);
    }
    field
}

/// Creates a record with these values and returns it.
async fn record(api: &ApiClient, class: i64, fields: Value) -> Value {
    api.post(&format!("/api/object-classes/{class}/object-records/"), json!({"fields": fields})).await.expect_created()
}

#[tokio::test]
async fn a_field_from_its_declaration_to_its_end() {
    let (server, api) = with_class().await;
    let mut field = json!({
        "id": 1, "alias": "invoice_no", "label": "Invoice no.", "description": "As printed", "type": "string",
        "default": null, "is_required": false, "is_unique": false, "is_indexed": false, "position": 1,
        "max_length": 255,
        "created_at": START, "created_by": admin(), "modified_at": START, "modified_by": admin(),
    });
    // Members of other types are ignored.
    let body = json!({
        "label": " Invoice no. ", "description": "As printed", "type": "string", "id": 9, "options": 5, "scale": "x",
    });
    let created = api.post(FIELDS, body).await;
    created.expect_reply(201, field.clone());
    api.get("/api/object-classes/1/fields/1/").await.expect_reply(200, field.clone());
    api.get(FIELDS).await.expect_reply(200, page(json!([field])));
    assert_eq!(record(&api, 1, json!({"invoice_no": "A-1"})).await["fields"], json!({"invoice_no": "A-1"}));
    api.patch("/api/object-classes/1/", json!({"label_field": "invoice_no"})).await.ok();

    server.advance(SECOND);
    let second = server.as_type("super_admin").await;
    field["label"] = json!("Number");
    field["max_length"] = json!(2);
    field["modified_at"] = json!("2026-01-31T09:30:01.000000Z");
    field["modified_by"] = user(&second, "super_admin");
    let tag = created.header("etag").to_owned();
    // Alias and type stay.
    let change = json!({"label": "Number", "max_length": 2, "alias": "other", "type": "text"});
    let patch = || second.call("PATCH", "/api/object-classes/1/fields/1/").header("if-match", &tag).json(&change);
    patch().send().await.expect_reply(200, field.clone());
    patch().send().await.expect_reply(412, json!({"detail": "Object has been changed."}));
    // A new bound applies to later writes.
    api.post("/api/object-classes/1/object-records/", json!({"fields": {"invoice_no": "A-2"}}))
        .await
        .refuses(json!({"fields": {"invoice_no": ["Ensure this field has no more than 2 characters."]}}));
    assert_eq!(api.get("/api/object-records/1/").await.ok()["fields"], json!({"invoice_no": "A-1"}));

    api.delete("/api/object-classes/1/fields/1/").await.expect_empty();
    api.get("/api/object-classes/1/fields/1/").await.expect_reply(404, message::not_found());
    api.get(FIELDS).await.expect_reply(200, page(json!([])));
    assert_eq!(api.get("/api/object-records/1/").await.ok()["fields"], json!({}));
    assert_eq!(api.get("/api/object-classes/1/").await.ok()["label_field"], Value::Null);
    let log = api.get("/api/administration/log/?resource=object_class_fields&ordering=id").await;
    assert_eq!(log.column("action"), [json!("create"), json!("edit"), json!("delete")]);
    assert_eq!(log.column("object_name"), [json!("Invoice no."), json!("Number"), json!("Number")]);
    assert_eq!(log.ok()["results"][1]["changes"], json!({"label": ["Invoice no.", "Number"], "max_length": [255, 2]}));
}

#[tokio::test]
async fn each_type_shows_what_it_adds() {
    let (_server, api) = with_class().await;
    let options = json!([{"value": "a", "text": "A"}, {"value": "b", "text": "B"}]);
    for (n, (kind, added)) in [
        ("string", json!({"max_length": 255})),
        ("text", json!({})),
        ("url", json!({})),
        ("email", json!({})),
        ("integer", json!({"min_value": null, "max_value": null})),
        ("decimal", json!({"precision": 20, "scale": 2})),
        ("boolean", json!({})),
        ("date", json!({})),
        ("datetime", json!({})),
        ("enum", json!({"options": options})),
        ("set", json!({"options": options})),
        ("status", json!({"options": options, "initial": "a"})),
        ("user", json!({})),
        ("document", json!({"max_num_of_files": 1})),
        ("relation", json!({"related_object_class": 1, "on_delete": "refuse"})),
    ]
    .into_iter()
    .enumerate()
    {
        let mut field = json!({
            "id": n + 1, "alias": kind, "label": kind, "description": "", "type": kind, "default": null,
            "is_required": false, "is_unique": false, "is_indexed": false, "position": n + 1,
            "created_at": START, "created_by": admin(), "modified_at": START, "modified_by": admin(),
        });
        field.as_object_mut().unwrap().extend(added.as_object().unwrap().clone());
        api.post(FIELDS, field_body(kind, kind)).await.expect_reply(201, field);
    }
    let made = record(&api, 1, json!({})).await;
    let names: Vec<&String> = made["fields"].as_object().unwrap().keys().collect();
    assert_eq!(names.len(), 15);
    assert_eq!(names[..3], ["string", "text", "url"]);
    assert_eq!(made["fields"]["status"], "a");
}

#[tokio::test]
async fn aliases_follow_from_labels_and_some_are_reserved() {
    let (_server, api) = with_class().await;
    for (label, alias) in [
        ("Größe (cm)", "gr_e_cm"),
        ("Owner", "owner_2"),
        ("owner!", "owner_3"),
        ("2nd", "field_2nd"),
        ("日本", "field_"),
        ("名", "field_2"),
    ] {
        assert_eq!(api.post(FIELDS, field_body("boolean", label)).await.expect_created()["alias"], alias, "{label}");
    }
    let refused = |alias: &str| format!("Name {alias} is reserved and cannot be used.");
    for (alias, message) in [
        ("search", refused("search")),
        ("fields", refused("fields")),
        ("company", refused("company")),
        ("a__b", "Enter a valid value.".to_owned()),
        ("A", "Enter a valid value.".to_owned()),
        ("", "This field may not be blank.".to_owned()),
        ("owner_2", "This field must be unique.".to_owned()),
    ] {
        let body = json!({"label": "x", "type": "date", "alias": alias});
        api.post(FIELDS, body).await.refuses(json!({"alias": [message]}));
    }
    // Another class may use the same alias.
    api.post("/api/object-classes/", json!({"name": "Order"})).await.expect_created();
    let other = json!({"label": "x", "type": "date", "alias": "owner_2"});
    api.post("/api/object-classes/2/fields/", other).await.expect_created();
}

#[tokio::test]
async fn errors_of_a_declaration_are_reported_by_field() {
    let (_server, api) = with_class().await;
    let option = |value: &str| json!({"value": value, "text": "x"});
    for (change, errors) in [
        (json!({"type": "planet"}), json!({"type": ["planet is not a valid choice."]})),
        (json!({"type": "date", "label": " "}), json!({"label": ["This field may not be blank."]})),
        (
            json!({"type": "text", "is_unique": true}),
            json!({"is_unique": ["This field cannot be true for the type text."]}),
        ),
        (
            json!({"type": "url", "is_indexed": true}),
            json!({"is_indexed": ["This field cannot be true for the type url."]}),
        ),
        (
            json!({"type": "document", "is_unique": true, "is_indexed": true}),
            json!({
                "is_unique": ["This field cannot be true for the type document."],
                "is_indexed": ["This field cannot be true for the type document."],
            }),
        ),
        (json!({"max_length": 256}), json!({"max_length": ["Ensure this value is less than or equal to 255."]})),
        (json!({"max_length": 0}), json!({"max_length": ["Ensure this value is greater than or equal to 1."]})),
        (
            json!({"type": "integer", "min_value": 5, "max_value": 4}),
            json!({"max_value": ["Ensure this value is greater than or equal to 5."]}),
        ),
        (
            json!({"type": "decimal", "precision": 31}),
            json!({"precision": ["Ensure this value is less than or equal to 30."]}),
        ),
        (json!({"type": "decimal", "scale": 11}), json!({"scale": ["Ensure this value is less than or equal to 10."]})),
        (
            json!({"type": "decimal", "precision": 1}),
            json!({"scale": ["Ensure this value is less than or equal to 1."]}),
        ),
        (
            json!({"type": "document", "max_num_of_files": 26}),
            json!({"max_num_of_files": ["Ensure this value is less than or equal to 25."]}),
        ),
        (
            json!({"type": "document", "default": ["x"]}),
            json!({"default": ["This field cannot be set for the type document."]}),
        ),
        (json!({"type": "enum"}), json!({"options": ["This field is required."]})),
        (json!({"type": "enum", "options": []}), json!({"options": ["This list may not be empty."]})),
        (json!({"type": "enum", "options": "x"}), json!({"options": ["Expected a list of items but got type str."]})),
        (
            json!({"type": "set", "options": [option("a"), option(" a ")]}),
            json!({"options": ["Option a must be unique."]}),
        ),
        (
            json!({"type": "set", "options": [option("a"), option("b,c"), 5, {"value": "x".repeat(51)}]}),
            json!({"options": {
                "1": {"value": ["Enter a valid value."]},
                "2": ["Invalid data. Expected a dictionary, but got int."],
                "3": {
                    "value": ["Ensure this field has no more than 50 characters."], "text": ["This field is required."],
                },
            }}),
        ),
        (
            json!({"type": "set", "options": (0..501).map(|n| option(&n.to_string())).collect::<Vec<_>>()}),
            json!({"options": ["Up to 500 items allowed."]}),
        ),
        (json!({"type": "status", "options": [option("a")]}), json!({"initial": ["This field is required."]})),
        (
            json!({"type": "status", "options": [option("a")], "initial": "b"}),
            json!({"initial": ["b is not a valid choice."]}),
        ),
        (json!({"type": "relation"}), json!({"related_object_class": ["This field is required."]})),
        (
            json!({"type": "relation", "related_object_class": 99}),
            json!({"related_object_class": ["Invalid pk 99 - object does not exist."]}),
        ),
        (
            json!({"type": "relation", "related_object_class": 1, "on_delete": "clear", "is_required": true}),
            json!({"on_delete": ["A required field cannot be cleared."]}),
        ),
        (json!({"type": "integer", "default": "5"}), json!({"default": ["A valid integer is required."]})),
        (
            json!({"type": "integer", "max_value": 4, "default": 5}),
            json!({"default": ["Ensure this value is less than or equal to 4."]}),
        ),
        (json!({"type": "user", "default": 99}), json!({"default": ["Invalid pk 99 - object does not exist."]})),
        (
            json!({"type": "relation", "related_object_class": 1, "default": 1}),
            json!({"default": ["Invalid pk 1 - object does not exist."]}),
        ),
        (
            json!({"type": "enum", "options": [option("a")], "default": "b"}),
            json!({"default": ["b is not a valid choice."]}),
        ),
    ] {
        let mut body = json!({"label": "Field", "type": "string"});
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        api.post(FIELDS, body).await.refuses(errors);
    }
    api.post(FIELDS, json!({})).await.refuses(json!({
        "label": ["This field is required."], "type": ["This field is required."],
    }));
    api.get(FIELDS).await.expect_reply(200, page(json!([])));
}

#[tokio::test]
async fn defaults_are_shown_as_values_are_and_are_for_records_made_later() {
    let (_server, api) = with_class().await;
    record(&api, 1, json!({})).await;
    for (kind, default_value, shown) in [
        ("string", json!(" x "), json!("x")),
        ("text", json!(" "), Value::Null),
        ("integer", json!(-5), json!(-5)),
        ("decimal", json!(7.5), json!("7.50")),
        ("boolean", json!(false), json!(false)),
        ("date", json!("2026-01-31"), json!("2026-01-31")),
        ("datetime", json!("2026-01-31T10:00:00"), json!("2026-01-31T10:00:00.000000Z")),
        ("enum", json!("b"), json!("b")),
        ("set", json!(["b", "a", "b"]), json!(["a", "b"])),
        ("status", json!("b"), json!("b")),
        ("user", json!(1), json!(1)),
        ("relation", json!(1), json!(1)),
    ] {
        let mut body = field_body(kind, kind);
        body["default"] = default_value;
        let field = api.post(FIELDS, body).await.expect_created();
        assert_eq!(field["default"], shown, "{kind}");
        let made = record(&api, 1, json!({})).await;
        assert_eq!(made["fields"][kind], shown, "{kind}");
    }
    let older = api.get("/api/object-records/1/").await.ok();
    for (name, value) in older["fields"].as_object().unwrap() {
        assert_eq!(*value, if name == "status" { json!("a") } else { Value::Null }, "{name}");
    }
}

#[tokio::test]
async fn options_are_added_and_renamed_but_none_in_use_is_removed() {
    let (_server, api) = with_class().await;
    let options = |values: &[&str]| json!({"options": values.iter().map(|value| json!({"value": value, "text": value})).collect::<Vec<_>>()});
    let in_use = |value: &str| json!({"options": [format!("Option {value} is in use.")]});
    for kind in ["enum", "set", "status"] {
        let mut body = field_body(kind, kind);
        body["options"] = options(&["a", "b", "c", "d"])["options"].clone();
        body["default"] = if kind == "set" { json!(["d"]) } else { json!("d") };
        api.post(FIELDS, body).await.expect_created();
    }
    record(&api, 1, json!({"enum": "b", "set": ["a", "b"], "status": "b"})).await;
    let deleted = record(&api, 1, json!({"enum": "c", "set": ["c"], "status": "c"})).await;
    api.delete(&format!("/api/object-records/{}/", deleted["id"])).await.expect_empty();
    for id in 1..=3 {
        let field = format!("/api/object-classes/1/fields/{id}/");
        let kept = ["a", "b", "c", "d", "new"];
        assert_eq!(api.patch(&field, options(&kept)).await.ok()["options"], options(&kept)["options"]);
        api.patch(&field, options(&["a", "c", "d"])).await.refuses(in_use("b"));
        api.patch(&field, options(&["a", "b"])).await.refuses(in_use("d"));
        // Values of deleted records do not count.
        api.patch(&field, options(&["a", "b", "d"])).await.ok();
    }
    api.patch("/api/object-classes/1/fields/2/", options(&["b", "d"])).await.refuses(in_use("a"));
    api.patch("/api/object-classes/1/fields/2/", options(&["b", "a", "d"]))
        .await
        .refuses(json!({"options": ["The order of options in use cannot be changed."]}));
    api.patch("/api/object-classes/1/fields/3/", options(&["b", "d"])).await.refuses(in_use("a"));
    let mut other = options(&["b", "d"]);
    other["initial"] = json!("d");
    api.patch("/api/object-classes/1/fields/3/", other).await.ok();
    api.patch("/api/object-classes/1/fields/3/", json!({"initial": "a"}))
        .await
        .refuses(json!({"initial": ["a is not a valid choice."]}));
    let record = json!({"fields": {"enum": "c"}});
    api.patch("/api/object-records/1/", record)
        .await
        .refuses(json!({"fields": {"enum": ["c is not a valid choice."]}}));
}

#[tokio::test]
async fn unique_fields_keep_values_apart_letter_by_letter() {
    let (_server, api) = with_class().await;
    let unique = json!({"fields": {"no": ["This field must be unique."]}});
    let records = "/api/object-classes/1/object-records/";
    api.post(FIELDS, json!({"label": "No", "type": "string", "is_unique": true})).await.expect_created();
    for no in [json!("a"), json!("A"), Value::Null, Value::Null] {
        record(&api, 1, json!({"no": no})).await;
    }
    api.post(records, json!({"fields": {"no": "a"}})).await.refuses(unique);

    api.patch("/api/object-classes/1/fields/1/", json!({"is_unique": false})).await.ok();
    let second = record(&api, 1, json!({"no": "a"})).await;
    let repeated = json!({"is_unique": ["This field must be unique."]});
    let make_unique = async || api.patch("/api/object-classes/1/fields/1/", json!({"is_unique": true})).await;
    make_unique().await.refuses(repeated.clone());
    assert_eq!(api.get("/api/object-classes/1/fields/1/").await.ok()["is_unique"], false);
    api.delete(&format!("/api/object-records/{}/", second["id"])).await.expect_empty();
    assert_eq!(make_unique().await.ok()["is_unique"], true);

    // Existing records would all get the same status.
    let mut status = field_body("status", "Status");
    status["is_unique"] = json!(true);
    api.post(FIELDS, status).await.refuses(repeated);
}

/// Waits until a field is indexed.
async fn wait_for_index(api: &ApiClient, field: i64) {
    let path = format!("/api/object-classes/1/fields/{field}/");
    eventually(async || api.get(&path).await.ok()["is_indexed"] == true).await;
}

/// Returns the names of the indexes of a class's fields.
async fn indexes(server: &TestServer) -> Vec<String> {
    let read = |conn: &mut Conn| {
        let sql = match conn.is_embedded() {
            true => "SELECT name FROM sqlite_schema WHERE type = 'index' AND name LIKE 'r1_f%' ORDER BY name",
            false => "SELECT CAST(indexname AS TEXT) FROM pg_indexes WHERE indexname LIKE 'r1_f%' ORDER BY 1",
        };
        conn.query_all(&Sql::new(sql), |row| Ok(row.text(0)?.to_owned()))
    };
    server.build.db.read::<_, StoreError>(read).await.unwrap()
}

#[tokio::test]
async fn an_index_is_made_by_a_job_and_dropped_at_once() {
    let (server, api) = with_class().await;
    for label in ["a", "b"] {
        let field = json!({"label": label, "type": "string", "is_indexed": true});
        assert_eq!(api.post(FIELDS, field).await.expect_created()["is_indexed"], false);
    }
    wait_for_index(&api, 1).await;
    wait_for_index(&api, 2).await;
    assert_eq!(indexes(&server).await, ["r1_f1", "r1_f2"]);
    let changed = api.patch("/api/object-classes/1/fields/1/", json!({"is_indexed": false})).await.ok();
    assert_eq!(changed["is_indexed"], false);
    assert_eq!(indexes(&server).await, ["r1_f2"]);
    api.patch("/api/object-classes/1/fields/1/", json!({"is_indexed": true})).await.ok();
    wait_for_index(&api, 1).await;
    api.delete("/api/object-classes/1/fields/2/").await.expect_empty();
    assert_eq!(indexes(&server).await, ["r1_f1"]);
}

#[tokio::test]
async fn twenty_fields_are_indexed_at_most() {
    let (_server, api) = with_class().await;
    let field = |n: usize| json!({"label": n.to_string(), "type": "integer", "is_indexed": n <= 20});
    for n in 1..=21 {
        api.post(FIELDS, field(n)).await.expect_created();
    }
    let exceeded = message::limit_exceeded("20 Indexed Fields");
    api.post(FIELDS, field(20)).await.refuses(exceeded.clone());
    let index = json!({"is_indexed": true});
    api.patch("/api/object-classes/1/fields/21/", index.clone()).await.refuses(exceeded);
    // A field that is already indexed passes the check.
    api.patch("/api/object-classes/1/fields/20/", index.clone()).await.ok();
    api.patch("/api/object-classes/1/fields/20/", json!({"is_indexed": false})).await.ok();
    api.patch("/api/object-classes/1/fields/21/", index).await.ok();
}

#[tokio::test]
async fn a_relation_needs_edit_of_both_classes() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for name in ["Own", "Other"] {
        api.post("/api/object-classes/", json!({"name": name})).await.expect_created();
    }
    let keeper = server.as_type("internal").await;
    let give = async |class: i64, actions: Value| {
        let sets = format!("/api/object-classes/{class}/permission-sets/");
        let name = format!("{class} {actions}");
        let body = json!({"name": name, "permissions": {"object_classes": actions, "object_records": ["delete"]}});
        let set = api.post(&sets, body).await.id();
        api.post(&format!("{sets}{set}/assignees/users/"), json!([keeper.id])).await.expect_created();
    };
    give(1, json!(["edit"])).await;
    give(2, json!(["view"])).await;
    let relate = |to: i64| {
        let body = json!({"label": format!("To {to}"), "type": "relation", "related_object_class": to});
        keeper.post("/api/object-classes/1/fields/", body)
    };
    keeper.get("/api/object-classes/2/").await.ok();
    relate(2).await.refuses(json!({"related_object_class": ["Invalid pk 2 - object does not exist."]}));
    relate(3).await.refuses(json!({"related_object_class": ["Invalid pk 3 - object does not exist."]}));
    relate(1).await.expect_created();
    give(2, json!(["edit"])).await;
    let field = relate(2).await.expect_created();
    // The relation stays after the right has ended.
    api.delete("/api/object-classes/2/permission-sets/5/").await.expect_empty();
    keeper.patch(&format!("/api/object-classes/1/fields/{}/", field["id"]), json!({"label": "Renamed"})).await.ok();
}

#[tokio::test]
async fn relations_make_no_circles_and_no_long_chains_of_classes() {
    let (_server, api) = with_class().await;
    for n in 2..=12 {
        api.post("/api/object-classes/", json!({"name": format!("Class {n}")})).await.expect_created();
    }
    let relate = async |child: i64, parent: i64| {
        let body = json!({"label": "Parent", "type": "relation", "related_object_class": parent});
        api.post(&format!("/api/object-classes/{child}/fields/"), body).await
    };
    let refused = |message: &str| json!({"related_object_class": [message]});
    for child in 2..=5 {
        relate(child, child - 1).await.expect_created();
    }
    for child in 7..=11 {
        relate(child, child - 1).await.expect_created();
    }
    // A class may relate to itself.
    relate(1, 1).await.expect_created();
    relate(1, 5).await.refuses(refused("Circular relations are not allowed."));
    relate(11, 7).await.expect_created();
    // The chains 1 to 5 and 6 to 11 have eleven classes together.
    relate(6, 5).await.refuses(refused("Limit of 10 relation levels has been exceeded."));
    relate(6, 4).await.expect_created();
    relate(12, 11).await.refuses(refused("Limit of 10 relation levels has been exceeded."));
}

#[tokio::test]
async fn limits_are_told_with_their_names() {
    let (server, api) = with_class().await;
    let limits = format!("/api/builds/{}/limits/", testkit::DOMAIN);
    let operator = server.anonymous().with_header("x-api-key", testkit::API_KEY);
    operator.patch(&limits, json!({"object_relations_top_parent": 1, "object_relations_children": 2})).await.ok();
    api.post("/api/object-classes/", json!({"name": "Second"})).await.expect_created();
    api.post("/api/object-classes/", json!({"name": "Third"})).await.expect_created();
    let to_first = field_body("relation", "First");
    api.post(FIELDS, to_first.clone()).await.expect_created();
    api.post(FIELDS, to_first.clone()).await.refuses(message::limit_exceeded("1 Object Relation Parents"));
    api.post("/api/object-classes/2/fields/", to_first.clone()).await.expect_created();
    api.post("/api/object-classes/3/fields/", to_first)
        .await
        .refuses(message::limit_exceeded("2 Object Relation Children"));

    // Strings beyond the maximum length of an index are neither unique nor indexed.
    operator.patch(&limits, json!({"api_object_field_string_type_length_limit": 600})).await.ok();
    for (property, max_length) in [("is_required", 600), ("is_unique", 400), ("is_indexed", 400)] {
        let field = json!({"label": "x", "type": "string", property: true});
        assert_eq!(api.post("/api/object-classes/3/fields/", field).await.expect_created()["max_length"], max_length);
    }

    operator
        .patch(&limits, json!({"object_class_fields": 2, "api_object_field_string_type_length_limit": 10}))
        .await
        .ok();
    let string = |max: i64| json!({"label": "x", "type": "string", "max_length": max});
    api.post(FIELDS, string(11))
        .await
        .refuses(json!({"max_length": ["Ensure this value is less than or equal to 10."]}));
    api.post(FIELDS, string(10)).await.expect_created();
    api.post(FIELDS, string(10)).await.refuses(message::limit_exceeded("2 Object Class Fields"));
    let document = api.options(FIELDS).await.ok();
    assert_eq!(document["restrictions"], json!({"limit_items": 2}));
    let schema = document["details"]["schema"].as_array().unwrap();
    let max_length = schema.iter().find(|entry| entry["alias"] == "max_length").unwrap();
    assert_eq!(
        max_length["validators"],
        json!([{"name": "min_value", "value": 1}, {"name": "max_value", "value": 10}])
    );
}

#[tokio::test]
async fn a_status_is_never_null_and_older_records_hold_its_initial() {
    let (_server, api) = with_class().await;
    record(&api, 1, json!({})).await;
    let mut status = field_body("status", "Status");
    let value = "it's \\ \"a\" ß";
    status["options"] = json!([{"value": value, "text": "First"}, {"value": "b", "text": "Second"}]);
    status["initial"] = json!(value);
    api.post(FIELDS, status.clone()).await.expect_created();
    api.post(FIELDS, status).await.refuses(json!({"type": ["A class has one status field at most."]}));
    assert_eq!(api.get("/api/object-records/1/").await.ok()["fields"], json!({"status": value}));
    let null = json!({"fields": {"status": ["This field may not be null."]}});
    api.patch("/api/object-records/1/", json!({"fields": {"status": null}})).await.refuses(null);
    assert_eq!(record(&api, 1, json!({"status": "b"})).await["fields"], json!({"status": "b"}));
    // After its deletion another status may be created. Its initial value is set in existing records.
    api.delete("/api/object-classes/1/fields/1/").await.expect_empty();
    api.post(FIELDS, field_body("status", "Status")).await.expect_created();
    for id in [1, 2] {
        assert_eq!(api.get(&format!("/api/object-records/{id}/")).await.ok()["fields"], json!({"status": "a"}));
    }
}

#[tokio::test]
async fn a_field_with_values_is_deleted_by_those_who_may_edit_the_records() {
    let (server, api) = with_class().await;
    let editor = server.as_type("internal").await;
    let set = json!({"name": "Designers", "permissions": {"object_classes": ["edit"]}});
    let sets = "/api/object-classes/1/permission-sets/";
    let set = api.post(sets, set).await.expect_created()["id"].clone();
    api.post(&format!("{sets}{set}/assignees/users/"), json!([editor.id])).await.expect_created();
    for label in ["Held", "Empty"] {
        api.post(FIELDS, field_body("integer", label)).await.expect_created();
    }
    record(&api, 1, json!({"held": 1})).await;
    editor.delete("/api/object-classes/1/fields/1/").await.expect_reply(403, message::forbidden());
    editor.delete("/api/object-classes/1/fields/2/").await.expect_empty();
    let set_with_edit = json!({"permissions": {"object_records": ["edit"]}});
    api.patch(&format!("{sets}{set}/"), set_with_edit).await.ok();
    editor.delete("/api/object-classes/1/fields/1/").await.expect_empty();
}

#[tokio::test]
async fn fields_require_view_or_edit_on_their_class() {
    let (server, api) = with_class().await;
    api.post(FIELDS, field_body("integer", "Amount")).await.expect_created();
    let single = "/api/object-classes/1/fields/1/";
    let stranger = server.as_type("internal").await;
    for reply in [
        stranger.get(FIELDS).await,
        stranger.options(FIELDS).await,
        stranger.get(single).await,
        stranger.post(FIELDS, json!({})).await,
        stranger.patch(single, json!({})).await,
        stranger.delete(single).await,
        api.get("/api/object-classes/2/fields/").await,
        api.get("/api/object-classes/1/fields/2/").await,
        api.patch("/api/object-classes/1/fields/2/", json!({})).await,
        api.delete("/api/object-classes/1/fields/2/").await,
        // A missing field is reported before errors of the body.
        api.patch("/api/object-classes/1/fields/2/", json!([])).await,
    ] {
        reply.expect_reply(404, message::not_found());
    }
    api.patch(single, json!([]))
        .await
        .expect_reply(400, json!({"non_field_errors": ["Invalid data. Expected a dictionary, but got list."]}));
    let creator = server.with_role(json!({"object_records": ["create"]})).await;
    creator.get(single).await.ok();
    assert_eq!(creator.get(FIELDS).await.ids(), [1]);
    for reply in
        [creator.post(FIELDS, json!({})).await, creator.patch(single, json!({})).await, creator.delete(single).await]
    {
        reply.expect_reply(403, message::forbidden());
    }
    let designer = server.with_role(json!({"object_classes": ["list", "view", "edit"]})).await;
    designer.post(FIELDS, field_body("date", "Due")).await.expect_created();
    // The field of another class is not found.
    api.post("/api/object-classes/", json!({"name": "Order"})).await.expect_created();
    api.get("/api/object-classes/2/fields/1/").await.expect_reply(404, message::not_found());
}

#[tokio::test]
async fn lists_are_in_the_order_of_positions() {
    let (_server, api) = with_class().await;
    for (label, position) in [("c", json!(3)), ("a", json!(1)), ("b", json!(3)), ("d", Value::Null)] {
        let mut body = field_body("integer", label);
        if !position.is_null() {
            body["position"] = position;
        }
        api.post(FIELDS, body).await.expect_created();
    }
    let labels = async |query: &str| api.get(&format!("{FIELDS}{query}")).await.column("label");
    assert_eq!(labels("").await, ["a", "c", "b", "d"]);
    assert_eq!(labels("?ordering=-label").await, ["d", "c", "b", "a"]);
    assert_eq!(labels("?ordering=-position").await, ["d", "b", "c", "a"]);
    assert_eq!(labels("?label__iexact=A").await, ["a"]);
    assert_eq!(labels("?alias__startswith=c").await, ["c"]);
    assert_eq!(labels("?type=date").await, Vec::<Value>::new());
    let names: Vec<String> = record(&api, 1, json!({})).await["fields"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["a", "c", "b", "d"]);
}

#[tokio::test]
async fn a_position_is_a_number_from_zero() {
    let (_server, api) = with_class().await;
    let field = api.post(FIELDS, field_body("integer", "First")).await.id();
    let path = format!("{FIELDS}{field}/");
    let most = i64::from(i32::MAX);
    for (position, message) in [
        (json!(-1), "Ensure this value is greater than or equal to 0."),
        (json!(most + 1), "Ensure this value is less than or equal to 2147483647."),
        (Value::Null, "This field may not be null."),
        (json!("1"), "A valid integer is required."),
    ] {
        let mut body = field_body("integer", "Second");
        body["position"] = position.clone();
        api.post(FIELDS, body).await.refuses(json!({"position": [message]}));
        api.patch(&path, json!({"position": position})).await.refuses(json!({"position": [message]}));
    }
    assert_eq!(api.get(FIELDS).await.column("position"), [1]);
    for position in [0, most] {
        assert_eq!(api.patch(&path, json!({"position": position})).await.ok()["position"], position);
    }
    // At the maximum position, the id decides the order.
    assert_eq!(api.post(FIELDS, field_body("integer", "Second")).await.expect_created()["position"], most);
    assert_eq!(api.get(FIELDS).await.column("label"), ["First", "Second"]);
}

#[tokio::test]
async fn words_of_a_deleted_field_are_found_no_more() {
    let (_server, api) = with_class().await;
    for label in ["One", "Two"] {
        api.post(FIELDS, field_body("string", label)).await.expect_created();
    }
    for n in 0..60 {
        record(&api, 1, json!({"one": format!("apple {n}"), "two": "pear"})).await;
    }
    let count_matches = async |word: &str| {
        let reply = api.get(&format!("/api/object-classes/1/object-records/?search={word}")).await.ok();
        reply["filtered_count"].as_i64().unwrap()
    };
    assert_eq!([count_matches("apple").await, count_matches("pear").await], [60, 60]);
    api.delete("/api/object-classes/1/fields/1/").await.expect_empty();
    eventually(async || count_matches("apple").await == 0).await;
    assert_eq!(count_matches("pear").await, 60);
}

#[tokio::test]
async fn the_values_of_a_deleted_field_are_gone() {
    let (server, api) = with_class().await;
    let label = json!({"label": "Title", "type": "string", "is_unique": true});
    api.post(FIELDS, label.clone()).await.expect_created();
    let batch = "/api/object-classes/1/object-records/batch/";
    let items: Vec<Value> = (0..250).map(|n| json!({"fields": {"title": n.to_string()}})).collect();
    api.post(batch, json!({"items": items})).await.expect_created();
    api.delete("/api/object-classes/1/fields/1/").await.expect_empty();
    // A new field with the same alias starts without values.
    api.post(FIELDS, label).await.expect_created();
    assert_eq!(api.get("/api/object-records/7/").await["fields"], json!({"title": null}));
    assert_eq!(record(&api, 1, json!({"title": "7"})).await["fields"], json!({"title": "7"}));
    let left = |conn: &mut Conn| {
        let sql = Sql::new("SELECT count(*) FROM r1 WHERE f1 IS NOT NULL OR f1_fold IS NOT NULL");
        if conn.is_embedded() { conn.query_one(&sql, |row| row.int(0)) } else { Ok(0) }
    };
    eventually(async || server.build.db.read::<_, StoreError>(left).await == Ok(0)).await;
}

#[tokio::test]
async fn a_class_that_has_had_many_fields_answers_until_it_gets_no_more() {
    let (server, api) = with_class().await;
    let have_had = async || {
        let had = Sql::new("UPDATE object_classes SET fields_made = fields_made + 99");
        server.build.db.write::<_, StoreError>(move |conn| conn.exec(&had)).await.unwrap();
    };
    for n in 0..50 {
        api.post(FIELDS, json!({"label": format!("f{n}"), "type": "integer"})).await.expect_created();
        have_had().await;
    }
    api.post(FIELDS, field_body("integer", "more"))
        .await
        .expect_reply(400, json!({"detail": "This class cannot have another field."}));
    let fields: serde_json::Map<String, Value> = (0..50).map(|n| (format!("f{n}"), json!(n))).collect();
    assert_eq!(record(&api, 1, json!(fields)).await["fields"], json!(fields));
    api.patch("/api/object-records/1/", json!({"fields": {"f49": 7}})).await.ok();
    let filters: String = (30..49).map(|n| format!("&f{n}={n}")).collect();
    let found = api.get(&format!("/api/object-classes/1/object-records/?ordering=f1,f2&f49=7{filters}")).await.ok();
    assert_eq!((&found["filtered_count"], &found["results"][0]["fields"]["f49"]), (&json!(1), &json!(7)));
}

#[tokio::test]
async fn five_hundred_texts_fit_into_a_record() {
    let (_server, api) = with_class().await;
    for n in 0..500 {
        api.post(FIELDS, json!({"label": format!("f{n}"), "type": "string"})).await.expect_created();
    }
    let exceeded = message::limit_exceeded("500 Object Class Fields");
    api.post(FIELDS, field_body("integer", "more")).await.refuses(exceeded);
    let fields: serde_json::Map<String, Value> =
        (0..500).map(|n| (format!("f{n}"), json!(format!("{n:0>3}{}", "ß".repeat(252))))).collect();
    let made = record(&api, 1, json!(fields)).await;
    assert_eq!(made["fields"], json!(fields));
    let changed = json!({"fields": {"f499": "x"}});
    assert_eq!(api.patch("/api/object-records/1/", changed).await.ok()["fields"]["f499"], "x");
}

#[tokio::test]
async fn a_class_describes_its_records() {
    let (server, api) = with_class().await;
    let required = json!({"label": "No", "type": "string", "max_length": 9, "is_required": true});
    api.post(FIELDS, required).await.expect_created();
    api.post(FIELDS, field_body("status", "Status")).await.expect_created();
    for (kind, bound) in [("integer", "max_value"), ("decimal", "precision"), ("document", "max_num_of_files")] {
        let mut field = field_body(kind, kind);
        field[bound] = json!(9);
        api.post(FIELDS, field).await.expect_created();
    }
    let path = "/api/object-classes/1/openapi.json";
    let document = api.get(path).await.ok();
    assert_eq!(document["info"]["title"], "Invoice");
    let names: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["/api/object-classes/1/object-records/", "/api/object-records/{record_id}/"]);
    let create = &document["components"]["schemas"]["ObjectRecordCreate"];
    assert_eq!(
        create["properties"]["fields"],
        json!({
            "type": "object",
            "description": "Values by alias",
            "properties": {
                "no": {"type": "string", "maxLength": 9, "minLength": 1},
                "status": {"type": "string", "enum": ["a", "b"]},
                "integer": {"anyOf": [{"type": "integer", "maximum": 9}, {"type": "null"}]},
                "decimal": {"anyOf": [
                    {"type": ["string", "number"], "format": "decimal", "pattern": r"^-?\d{1,7}(\.\d{1,2})?$"},
                    {"type": "null"},
                ]},
                "document": {
                    "anyOf": [
                        {"type": "array", "items": {"type": ["integer", "string"]}, "maxItems": 9},
                        {"type": "null"},
                    ],
                },
            },
            "required": ["no"],
        })
    );
    assert_eq!(create["required"], json!(["fields"]));
    // Answers may contain only some fields, and values may be older than their bounds.
    assert_eq!(
        document["components"]["schemas"]["ObjectRecord"]["properties"]["fields"],
        json!({
            "type": "object",
            "description": "Values by alias",
            "properties": {
                "no": {"type": ["string", "null"]},
                "status": {"type": "string", "enum": ["a", "b"]},
                "integer": {"type": ["integer", "null"]},
                "decimal": {
                    "type": ["string", "null"], "format": "decimal", "pattern": r"^-?\d{1,30}\.\d{2,10}$",
                },
                "document": {"type": ["array", "null"], "items": {"type": "integer"}},
            },
        })
    );
    let of_schema = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    for (path, method, status) in
        [("/api/object-classes/1/object-records/", "post", "201"), ("/api/object-records/{record_id}/", "patch", "200")]
    {
        let answer = &document["paths"][path][method]["responses"][status]["content"]["application/json"]["schema"];
        assert_eq!(*answer, of_schema("ObjectRecordCreated"), "{path}");
    }
    // Callers who may not view the record they wrote get only these members.
    assert_eq!(document["components"]["schemas"]["ObjectRecordCreated"]["required"], json!(["id", "object_class"]));
    let list = &document["paths"]["/api/object-classes/1/object-records/"]["get"];
    let name = |parameter: &Value| {
        let shared = parameter["$ref"].as_str().and_then(|address| document.pointer(&address[1..]));
        shared.unwrap_or(parameter)["name"].as_str().unwrap().to_owned()
    };
    let parameters: Vec<String> = list["parameters"].as_array().unwrap().iter().map(name).collect();
    for name in ["no__icontains", "status__in", "limit", "ordering", "search", "fields"] {
        assert!(parameters.iter().any(|one| one == name), "{name}: {parameters:?}");
    }
    assert!(!parameters.iter().any(|one| ["filters", "class_id"].contains(&one.as_str())), "{parameters:?}");

    let creator = server.with_role(json!({"object_records": ["create"]})).await;
    creator.get(path).await.ok();
    server.as_type("internal").await.get(path).await.expect_reply(404, message::not_found());
}

/// Tests a class with more options than documents that repeat them may contain.
#[tokio::test]
async fn the_options_of_a_class_may_be_many() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let options: Vec<Value> =
        (0..500).map(|n| json!({"value": format!("{n:050}"), "text": format!("Option {n:090}")})).collect();
    let declare = async |class: i64, count: usize| {
        api.post("/api/object-classes/", json!({"name": format!("Class {class}")})).await.expect_created();
        for n in 0..count {
            let kind = if n % 2 == 0 { "enum" } else { "set" };
            let field = json!({"label": format!("f{n}"), "type": kind, "options": options});
            api.post(&format!("/api/object-classes/{class}/fields/"), field).await.expect_created();
        }
        let described = api.options(&format!("/api/object-classes/{class}/object-records/")).await.ok().clone();
        (described, api.get(&format!("/api/object-classes/{class}/openapi.json")).await.ok().clone())
    };
    let ((few, few_openapi), (many, many_openapi)) = (declare(1, 2).await, declare(2, 12).await);
    assert_eq!(few["list"]["columns"][6]["alias"], "f0");
    let columns = |document: &Value| document["list"]["columns"].as_array().unwrap().clone();
    assert_eq!(columns(&few), columns(&many)[..8]);
    assert_eq!(columns(&many)[17]["values"], json!(options));
    let entries = |document: &Value| document["details"]["schema"].as_array().unwrap().clone();
    for (few, many) in entries(&few).iter().zip(&entries(&many)) {
        match (few["schema"].as_array(), many["schema"].as_array()) {
            (Some(few), Some(many)) => assert_eq!((&few[..], 12), (&many[..2], many.len())),
            _ => assert_eq!(few, many),
        }
    }
    assert_eq!(entries(&few).len(), entries(&many).len());
    assert_eq!(few["restrictions"], many["restrictions"]);
    // The other description omits the options.
    let names = |document: &Value| document.to_string().contains(options[499]["value"].as_str().unwrap());
    assert_eq!([names(&few_openapi), names(&many_openapi)], [true, false]);
    // Bodies are still checked against the options.
    let records = "/api/object-classes/2/object-records/";
    api.post(records, json!({"fields": {"f11": [options[499]["value"]]}})).await.expect_created();
    let wrong = json!({"fields": {"f0": ["x is not a valid choice."]}});
    api.post(records, json!({"fields": {"f0": "x"}})).await.refuses(wrong);
}
