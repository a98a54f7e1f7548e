//! `/api/object-class-forms/` (`docs/reference/forms.md`).

use crate::TestServer;
use crate::set_up::{assignees, number, record, set, set_limits, sql, with_class, with_class_set};
use serde_json::{Value, json};
use testkit::message;
use testkit::shown::{START, admin, page};
use testkit::{ApiClient, SECOND, one_wins, send_concurrently};

const FORMS: &str = "/api/object-class-forms/";
const LOG: &str = "/api/administration/log/?resource=object_class_forms";

/// Two enabled custom components and a disabled one.
const COMPONENTS: &[&str] =
    &["INSERT INTO custom_components(id, name, is_enabled) VALUES (3, 'Map', 1), (5, 'Chart', 1), (7, 'Old', 0)"];

fn body(name: &str) -> Value {
    json!({"name": name, "object_class": 1, "type": "create", "configuration": {}})
}

/// Creates a form of class 1 and returns its address.
async fn form(api: &ApiClient, name: &str) -> String {
    address(&api.post(FORMS, body(name)).await.expect_created())
}

fn address(form: &Value) -> String {
    format!("{FORMS}{}/", form["uuid"].as_str().unwrap())
}

/// The form in the answers to GET and lists, with these permissions on records.
fn form_json(form: &Value, records: Value) -> Value {
    let mut listed = form.clone();
    listed.as_object_mut().unwrap().shift_remove("configuration");
    listed["_meta"]["permissions"]["object_records"] = records;
    listed
}

fn record_permissions(holds: bool) -> Value {
    json!({"create": holds, "list": holds, "view": holds, "edit": holds, "delete": holds})
}

#[tokio::test]
async fn a_form_from_its_making_to_its_end() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    sql(&server, COMPONENTS).await;
    api.get(FORMS).await.expect_reply(200, page(json!([])));
    let body = json!({
        "name": " New order ", "object_class": 1, "type": "create", "is_enabled": true, "custom_components": [5, 3, 5],
        "configuration": {"rows": [{"field": "title", "width": 0.5}], "title": "Ä\n"}, "uuid": testkit::UUID, "planet": 1,
    });
    let made = api.post(FORMS, body).await;
    let uuid = made["uuid"].clone();
    assert_ne!(uuid, testkit::UUID);
    let shown = json!({
        "uuid": uuid, "name": "New order", "object_class": 1, "type": "create",
        "configuration": {"rows": [{"field": "title", "width": 0.5}], "title": "Ä\n"}, "is_enabled": true,
        "custom_components": [3, 5],
        "created_at": START, "created_by": admin(), "modified_at": START, "modified_by": admin(),
        "_meta": {
            "labels": {"object_class": "Order"},
            "permissions": {
                "list": true, "view": true, "edit": true, "create": true, "delete": true, "object_records": {"create": true},
            },
        },
    });
    made.expect_reply(201, shown.clone());
    let form_path = address(&made.json);
    let got = api.get(&form_path).await;
    got.expect_reply(200, form_json(&shown, json!({"create": true})));
    assert_eq!(got.header("etag"), made.header("etag"));
    api.get(&format!("{form_path}configuration/"))
        .await
        .expect_reply(200, json!({"configuration": shown["configuration"]}));
    api.get(FORMS).await.expect_reply(200, page(json!([form_json(&shown, record_permissions(true))])));

    server.advance(SECOND);
    // The class and the type cannot be changed. Members that are not sent stay.
    let body =
        json!({"name": "Order", "object_class": 9, "type": "list", "configuration": [1], "custom_components": []});
    let changed = api.patch(&form_path, body).await;
    let mut shown = shown;
    for (name, value) in [
        ("name", json!("Order")),
        ("configuration", json!([1])),
        ("custom_components", json!([])),
        ("modified_at", json!("2026-01-31T09:30:01.000000Z")),
    ] {
        shown[name] = value;
    }
    changed.expect_reply(200, shown.clone());
    assert_eq!(changed.header("etag"), api.get(&form_path).await.header("etag"));
    let unless =
        |known: &str| api.call("PATCH", &form_path).header("if-match", known).json(&json!({"is_enabled": false}));
    unless(made.header("etag")).send().await.expect_reply(412, message::detail("Object has been changed."));
    unless(changed.header("etag")).send().await.ok();
    let delete = api.call("DELETE", &form_path).header("if-match", made.header("etag")).send().await;
    delete.expect_reply(412, message::detail("Object has been changed."));

    api.delete(&form_path).await.expect_empty();
    for path in [
        &form_path,
        &format!("{form_path}configuration/"),
        &format!("{FORMS}{}/", testkit::UUID),
        &format!("{FORMS}1/"),
    ] {
        api.get(path).await.expect_reply(404, message::not_found());
    }
    api.patch(&form_path, json!({})).await.expect_reply(404, message::not_found());
    api.delete(&form_path).await.expect_reply(404, message::not_found());
    assert_eq!(number(&server, "SELECT count(*) FROM object_class_form_components").await, 0);

    let log = api.get(LOG).await;
    let uuid = uuid.as_str().unwrap();
    assert_eq!(log.column("action"), ["delete", "edit", "edit", "create"]);
    assert_eq!(log.column("object_id"), [Value::Null, Value::Null, Value::Null, Value::Null]);
    let [old, new] = ["New order", "Order"].map(|name| format!("{uuid} {name}"));
    assert_eq!(log.column("object_name"), [json!(new), json!(new), json!(new), json!(old)]);
    assert_eq!(
        log.column("changes"),
        [
            json!({}),
            json!({"is_enabled": [true, false]}),
            json!({
                "name": ["New order", "Order"],
                "configuration": [{"rows": [{"field": "title", "width": 0.5}], "title": "Ä\n"}, [1]],
                "custom_components": [[3, 5], []],
            }),
            json!({
                "name": [null, "New order"], "object_class": [null, 1], "type": [null, "create"],
                "configuration": [null, {"rows": [{"field": "title", "width": 0.5}], "title": "Ä\n"}],
                "is_enabled": [null, true], "custom_components": [null, [3, 5]],
            }),
        ]
    );
}

#[tokio::test]
async fn wrong_bodies_are_refused() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let form_path = form(&api, "Taken").await;
    form(&api, "Other").await;
    let required = json!(["This field is required."]);
    let everything = json!({"name": required, "object_class": required, "type": required, "configuration": required});
    api.post(FORMS, json!({})).await.refuses(everything);
    let with = |name: &str, value: Value| {
        let mut body = body("A");
        body[name] = value;
        body
    };
    let null = "This field may not be null.";
    for (name, value, text) in [
        ("name", json!(null), null),
        ("name", json!("  "), "This field may not be blank."),
        ("name", json!("x".repeat(101)), "Ensure this field has no more than 100 characters."),
        ("name", json!(5), "Not a valid string."),
        ("name", json!("a\u{0}"), "Null characters are not allowed."),
        ("name", json!("TAKEN"), "This field must be unique."),
        ("object_class", json!(null), null),
        ("object_class", json!("1"), "Incorrect type. Expected pk value, received str."),
        ("object_class", json!([1]), "Incorrect type. Expected pk value, received list."),
        ("object_class", json!(9), "Invalid pk 9 - object class does not exist."),
        ("object_class", json!(-1), "Invalid pk -1 - object class does not exist."),
        ("object_class", json!(u64::MAX), "Invalid pk 18446744073709551615 - object class does not exist."),
        ("type", json!(null), null),
        ("type", json!("update"), "update is not a valid choice."),
        ("type", json!(7), "7 is not a valid choice."),
        ("configuration", json!(null), null),
        ("is_enabled", json!("yes"), "Must be a valid boolean."),
        ("is_enabled", json!(null), null),
    ] {
        api.post(FORMS, with(name, value)).await.refuses(json!({name: [text]}));
    }
    // All errors are reported together, except the limit, which comes last.
    set_limits(&server, json!({"object_class_forms": 2})).await;
    let body = json!({"name": "taken", "object_class": 1, "type": "list", "is_enabled": 1, "custom_components": [9]});
    api.post(FORMS, body).await.refuses(json!({
        "name": ["This field must be unique."], "type": ["list is not a valid choice."], "configuration": required,
        "is_enabled": ["Must be a valid boolean."], "custom_components": ["Invalid pk 9 - object does not exist."],
    }));
    // The name is free in another class.
    api.post("/api/object-classes/", json!({"name": "Other"})).await.expect_created();
    api.post(FORMS, with("object_class", json!(2))).await.expect_created();
    api.post(FORMS, json!({"name": "TAKEN", "object_class": 2, "type": "create", "configuration": 1}))
        .await
        .expect_created();

    for (name, value, text) in [
        ("name", json!(null), null),
        ("name", json!("OTHER"), "This field must be unique."),
        ("configuration", json!(null), null),
        ("is_enabled", json!(0), "Must be a valid boolean."),
        ("custom_components", json!(null), null),
    ] {
        api.patch(&form_path, json!({name: value})).await.refuses(json!({name: [text]}));
    }
    api.patch(&form_path, json!({"name": "TAKEN"})).await.ok();
    let wrong = "Invalid data. Expected a dictionary, but got list.";
    api.post(FORMS, json!([])).await.refuses(json!({"non_field_errors": [wrong]}));
    api.patch(&form_path, json!([])).await.refuses(json!({"non_field_errors": [wrong]}));
}

#[tokio::test]
async fn a_configuration_is_any_json_within_bounds() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let form_path = form(&api, "Form").await;
    let configure = async |text: &str| {
        let body = format!("{{\"configuration\": {text}}}");
        api.call("PATCH", &form_path).body("application/json", body).send().await
    };
    for text in ["false", "0", "\"\"", "[]", "{}", "{\"b\":1,\"a\":[null,-1.5,\"\\\"\"]}", "18446744073709551615"] {
        assert_eq!(configure(text).await.ok()["configuration"].to_string(), text);
        let told = api.get(&format!("{form_path}configuration/")).await;
        assert_eq!(told.text, format!("{{\"configuration\":{text}}}"));
    }
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let in_objects = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    const MIB: usize = 1024 * 1024;
    for fits in [nested(64), in_objects(64), text(MIB)] {
        configure(&fits).await.ok();
        assert_eq!(api.get(&format!("{form_path}configuration/")).await.text, format!("{{\"configuration\":{fits}}}"));
    }
    for (wrong, message) in [
        (nested(65), "Value is too large."),
        (in_objects(65), "Value is too large."),
        (nested(90), "Value is too large."),
        (text(MIB + 1), "Value is too large."),
        ("\"a\\u0000\"".to_owned(), "Null characters are not allowed."),
        ("[{\"a\\u0000\": 1}]".to_owned(), "Null characters are not allowed."),
        ("{\"a\": 1, \"a\": 1}".to_owned(), "Enter a valid value."),
        ("[{\"a\": 1, \"\\u0061\": 2}]".to_owned(), "Enter a valid value."),
    ] {
        configure(&wrong).await.refuses(json!({"configuration": [message]}));
    }
    // Blanks do not count in the limit, but in that of the body's bytes. The body's levels are limited too.
    configure(&format!("[{}]", " ".repeat(MIB + 1))).await.ok();
    configure(&nested(100)).await.expect_reply(400, message::detail("JSON parse error - too deep."));
    configure(&text(2 * MIB)).await.expect_reply(413, message::detail("Request body is too large."));

    // The log contains only the size of a long configuration.
    let long = format!("{} bytes", 65 * 1024);
    configure(&text(65 * 1024)).await.ok();
    configure("1").await.ok();
    let log = api.get(LOG).await.column("changes");
    assert_eq!(log[0], json!({"configuration": [long, 1]}));
    assert_eq!(log[1], json!({"configuration": [[], long]}));
    assert_eq!(log[2], json!({"configuration": ["1048576 bytes", []]}));
    // Sending the stored value again is not a change.
    let entries = log.len();
    configure("1").await.ok();
    assert_eq!(api.get(LOG).await["filtered_count"], entries);
}

#[tokio::test]
async fn custom_components_are_enabled_ones() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    sql(&server, COMPONENTS).await;
    let form_path = form(&api, "Form").await;
    assert_eq!(api.get(&form_path).await.ok()["custom_components"], json!([]));
    let many: Vec<i64> = vec![3; 101];
    for (component_ids, wrong) in [
        (json!(null), vec!["This field may not be null."]),
        (json!(3), vec!["Expected a list of items but got type int."]),
        (json!({"0": 3}), vec!["Expected a list of items but got type dict."]),
        (json!(many), vec!["Ensure this list has at most 100 items."]),
        (json!([3, null]), vec!["This field may not be null."]),
        (json!([" "]), vec!["This field may not be blank."]),
        (
            json!(["3", 3.5, true]),
            vec![
                "Incorrect type. Expected pk value, received str.",
                "Incorrect type. Expected pk value, received float.",
                "Incorrect type. Expected pk value, received bool.",
            ],
        ),
        (json!([9, 3, 0]), vec!["Invalid pk 0 - object does not exist.", "Invalid pk 9 - object does not exist."]),
        (json!([u64::MAX]), vec!["Invalid pk 18446744073709551615 - object does not exist."]),
        (json!([7, 3]), vec!["Custom component 7 - object not enabled."]),
    ] {
        let mut create = body("New");
        create["custom_components"] = component_ids.clone();
        api.post(FORMS, create).await.refuses(json!({"custom_components": wrong}));
        api.patch(&form_path, json!({"custom_components": component_ids}))
            .await
            .refuses(json!({"custom_components": wrong}));
    }
    assert_eq!(
        api.patch(&form_path, json!({"custom_components": [5, 3]})).await.ok()["custom_components"],
        json!([3, 5])
    );
    // A component that is disabled later stays until the list is sent again.
    sql(&server, &["UPDATE custom_components SET is_enabled = 0 WHERE id = 5"]).await;
    assert_eq!(api.patch(&form_path, json!({"name": "A"})).await.ok()["custom_components"], json!([3, 5]));
    api.patch(&form_path, json!({"custom_components": [3, 5]}))
        .await
        .refuses(json!({"custom_components": ["Custom component 5 - object not enabled."]}));
}

#[tokio::test]
async fn forms_are_for_those_who_may_view_their_class() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    api.post("/api/object-classes/", json!({"name": "Hidden"})).await.expect_created();
    let mut hidden = body("Hidden");
    hidden["object_class"] = json!(2);
    let hidden = address(&api.post(FORMS, hidden).await.expect_created());
    let form_path = form(&api, "Form").await;

    // The callers have a role, a class set, the right to create records, and a record set.
    let by_role = server.with_role(json!({"object_classes": ["list", "view"]})).await;
    let [by_set, creator, of_record, owner, editor, stranger] = [
        server.as_type("internal").await,
        server.as_type("external").await,
        server.as_type("external").await,
        server.as_type("internal").await,
        server.as_type("full").await,
        server.as_type("internal").await,
    ];
    with_class_set(&api, by_set.id, json!({"object_classes": ["view"]})).await;
    with_class_set(&api, creator.id, json!({"object_records": ["create"]})).await;
    with_class_set(&api, editor.id, json!({"object_classes": ["edit"]})).await;
    let viewers = set(&api, "Viewers", json!({"object_records": ["view"]})).await;
    api.post(&assignees(record(&api).await, viewers), json!([of_record.id])).await.expect_created();
    let ownership =
        api.post("/api/object-classes/1/owners/", json!([owner.id])).await.expect_created()[0]["id"].clone();

    let permissions = |edits: bool, records: Value| json!({"list": true, "view": true, "edit": edits, "create": edits, "delete": edits, "object_records": records});
    let only_create = json!({"create": true, "list": false, "view": false, "edit": false, "delete": false});
    for (caller, edits, records) in [
        (&by_set, false, record_permissions(false)),
        (&creator, false, only_create),
        (&of_record, false, record_permissions(false)),
        (&editor, true, record_permissions(false)),
        (&owner, true, record_permissions(true)),
    ] {
        let list = caller.get(FORMS).await.ok();
        assert_eq!((&list["total_count"], &list["filtered_count"]), (&json!(1), &json!(1)), "{list:#}");
        assert_eq!(list["results"][0]["_meta"]["permissions"], permissions(edits, records.clone()));
        let shown = caller.get(&form_path).await.ok();
        assert_eq!(shown["_meta"]["permissions"], permissions(edits, json!({"create": records["create"]})));
        caller.get(&format!("{form_path}configuration/")).await.expect_reply(200, json!({"configuration": {}}));
        // The other class is hidden like a missing one.
        for path in [&hidden, &format!("{hidden}configuration/")] {
            caller.get(path).await.expect_reply(404, message::not_found());
        }
        caller.patch(&hidden, json!({"name": null})).await.expect_reply(404, message::not_found());
        caller.delete(&hidden).await.expect_reply(404, message::not_found());
        let mut there = body("Hidden");
        there["object_class"] = json!(2);
        let unknown = "Invalid pk 2 - object class does not exist.";
        caller.post(FORMS, there).await.refuses(json!({"object_class": [unknown]}));
        if edits {
            let made = caller.post(FORMS, body("Another")).await.expect_created();
            caller.patch(&address(&made), json!({"name": "Changed"})).await.ok();
            caller.delete(&address(&made)).await.expect_empty();
        } else {
            let wrong = json!({"object_class": ["You do not have permission to use this object class."]});
            // The refusal does not reveal existing names.
            caller.post(FORMS, body("Form")).await.refuses(wrong);
            caller.patch(&form_path, json!({"name": null})).await.expect_reply(403, message::forbidden());
            caller.delete(&form_path).await.expect_reply(403, message::forbidden());
        }
        caller.options(FORMS).await.ok();
    }
    assert_eq!(by_role.get(FORMS).await.ok()["total_count"], 2);
    stranger.get(FORMS).await.expect_reply(200, page(json!([])));
    stranger.get(&form_path).await.expect_reply(404, message::not_found());
    stranger.patch(&form_path, json!({})).await.expect_reply(404, message::not_found());
    stranger.delete(&form_path).await.expect_reply(404, message::not_found());
    stranger.options(FORMS).await.ok();
    let unknown = json!({"object_class": ["Invalid pk 1 - object class does not exist."]});
    stranger.post(FORMS, body("Form")).await.refuses(unknown);
    api.options(&form_path).await.expect_reply(405, message::detail("Method \"OPTIONS\" not allowed."));
    // The end of a right takes effect immediately.
    api.delete(&format!("/api/object-classes/1/owners/{ownership}/")).await.expect_empty();
    owner.get(&form_path).await.expect_reply(404, message::not_found());
    owner.get(FORMS).await.expect_reply(200, page(json!([])));
}

#[tokio::test]
async fn lists_are_filtered_and_sorted() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let other = server.as_type("super_admin").await;
    api.post("/api/object-classes/", json!({"name": "Other"})).await.expect_created();
    let mut uuids = Vec::new();
    for (caller, name, class, is_enabled) in [(&api, "b", 1, true), (&other, "A", 2, false), (&api, "c", 2, true)] {
        let body = json!({
            "name": name, "object_class": class, "type": "create", "configuration": 1, "is_enabled": is_enabled,
        });
        uuids.push(caller.post(FORMS, body).await.expect_created()["uuid"].as_str().unwrap().to_owned());
        server.advance(SECOND);
    }
    other.patch(&format!("{FORMS}{}/", uuids[0]), json!({})).await.ok();
    let by_uuid = format!("uuid={}", uuids[1]);
    let by_capitals = format!("uuid__exact={}", uuids[1].to_uppercase());
    let by_modifier = format!("modified_by={}", other.id);
    let by_creators = format!("created_by__in=1,{}", other.id);
    for (query, names) in [
        ("", vec!["b", "A", "c"]),
        ("ordering=name", vec!["A", "b", "c"]),
        ("ordering=-name", vec!["c", "b", "A"]),
        ("ordering=-created_at", vec!["c", "A", "b"]),
        ("ordering=-modified_at", vec!["b", "c", "A"]),
        (&by_uuid, vec!["A"]),
        (&by_capitals, vec!["A"]),
        ("uuid=x", vec![]),
        ("name__istartswith=B", vec!["b"]),
        ("name=a", vec![]),
        ("object_class=2", vec!["A", "c"]),
        ("object_class__in=1,7", vec!["b"]),
        ("type=create", vec!["b", "A", "c"]),
        ("is_enabled=false", vec!["A"]),
        ("created_at__gt=2026-01-31T09:30:00Z", vec!["A", "c"]),
        ("modified_at__range=2026-01-31T09:30:01Z,2026-01-31T09:30:02Z", vec!["A", "c"]),
        (&by_modifier, vec!["b", "A"]),
        (&by_creators, vec!["b", "A", "c"]),
        ("planet=1", vec!["b", "A", "c"]),
    ] {
        assert_eq!(api.get(&format!("{FORMS}?{query}")).await.column("name"), names, "{query}");
    }
    let choice = |value: &str| format!("Select a valid choice. {value} is not one of the available choices.");
    for (query, field, text) in [
        ("ordering=type", "ordering", choice("type")),
        ("ordering=uuid", "ordering", choice("uuid")),
        ("object_class__gt=1", "object_class__gt", choice("gt")),
        ("object_class=x", "object_class", "A valid integer is required.".to_owned()),
        ("type=list", "type", choice("list")),
        ("uuid__in=x", "uuid__in", choice("in")),
        ("is_enabled=x", "is_enabled", "Must be a valid boolean.".to_owned()),
    ] {
        api.get(&format!("{FORMS}?{query}")).await.refuses(json!({field: [text]}));
    }
}

#[tokio::test]
async fn a_class_has_so_many_forms() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    set_limits(&server, json!({"object_class_forms": 3})).await;
    assert_eq!(api.options(FORMS).await.ok()["restrictions"], json!({"limit_items": 3}));
    form(&api, "First").await;
    let second = form(&api, "Second").await;
    let calls = (0..12).map(|n| api.call("POST", FORMS).json(&body(&format!("Form {n}"))));
    let refused = message::limit_exceeded("3 standalone forms for the class");
    one_wins(&send_concurrently(calls).await, 201, &refused);
    api.post(FORMS, body("More")).await.expect_reply(400, refused);
    // Another class has its own limit.
    api.post("/api/object-classes/", json!({"name": "Other"})).await.expect_created();
    let mut there = body("More");
    there["object_class"] = json!(2);
    api.post(FORMS, there).await.expect_created();
    api.delete(&second).await.expect_empty();
    form(&api, "More").await;
}

#[tokio::test]
async fn of_creates_with_one_name_one_wins() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let calls = (0..12).map(|_| api.call("POST", FORMS).json(&body("Form")));
    one_wins(&send_concurrently(calls).await, 201, &json!({"name": ["This field must be unique."]}));
}

#[tokio::test]
async fn forms_go_with_their_class() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    sql(&server, COMPONENTS).await;
    let one = form(&api, "Form").await;
    api.patch(&one, json!({"custom_components": [3]})).await.ok();
    form(&api, "Second").await;
    api.delete("/api/object-classes/1/").await.expect_empty();
    api.get(&one).await.expect_reply(404, message::not_found());
    api.get(FORMS).await.expect_reply(200, page(json!([])));
    assert_eq!(number(&server, "SELECT count(*) FROM object_class_forms").await, 0);
    assert_eq!(number(&server, "SELECT count(*) FROM object_class_form_components").await, 0);
}
