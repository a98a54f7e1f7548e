//! `/api/integrations/` (`docs/reference/integrations.md`): integrations from their creation to their deletion, and the rights to
//! change them.

use crate::TestServer;
use crate::set_up::{INTEGRATIONS, SECRET, address, agents, copies, number, webhook, with_class, with_class_set};
use serde_json::{Value, json};
use testkit::shown::{START, admin, page};
use testkit::{ApiClient, SECOND, message, one_wins, send_concurrently};

const LOG: &str = "/api/administration/log/?resource=integrations";

/// Starts a server that copies documents into a directory.
async fn with_store() -> TestServer {
    let directory = tempfile::tempdir().unwrap().keep();
    let url = format!("file://{}", directory.display());
    TestServer::start_with(|settings| {
        settings.domains.edit::<extensions::ExtensionSettings>().document_store_url = Some(url)
    })
    .await
}

fn all_events() -> [&'static str; 10] {
    events::record_events::EVENT_TYPES.map(|(name, _)| name)
}

fn event_labels() -> Value {
    events::record_events::EVENT_TYPES.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect()
}

fn permissions(edit: bool) -> Value {
    json!({"list": true, "view": true, "edit": edit, "create": true, "delete": true})
}

#[tokio::test]
async fn a_webhook_from_its_making_to_its_end() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    api.get(INTEGRATIONS).await.expect_reply(200, page(json!([])));
    let mut body = webhook(" Orders ");
    body["uuid"] = json!(testkit::UUID);
    body["folder"] = json!("/ignored");
    let made = api.post(INTEGRATIONS, body).await;
    let uuid = made["uuid"].clone();
    assert_ne!(uuid, testkit::UUID);
    let mut shown = json!({
        "uuid": uuid, "type": "webhook", "name": "Orders", "description": "", "is_enabled": true,
        "authentication_object": null, "object_class": 1, "url": "https://receiver.example/hook", "events": all_events(),
        "created_at": START, "created_by": admin(), "modified_at": START, "modified_by": admin(),
        "_meta": {
            "labels": {
                "type": "Webhook", "authentication_object": null, "object_class": "Order", "events": event_labels(),
            },
            "permissions": permissions(true),
        },
    });
    made.expect_reply(201, shown.clone());
    let webhook_path = address(&made.json);
    let got = api.get(&webhook_path).await;
    got.expect_reply(200, shown.clone());
    assert_eq!(got.header("etag"), made.header("etag"));
    let mut listed = shown.clone();
    ["url", "events"].iter().for_each(|name| drop(listed.as_object_mut().unwrap().shift_remove(*name)));
    listed["_meta"]["labels"].as_object_mut().unwrap().shift_remove("events");
    api.get(INTEGRATIONS).await.expect_reply(200, page(json!([listed])));

    server.advance(SECOND);
    // The type and missing members do not change.
    let body = json!({
        "type": "ai_mcp", "name": "Bills", "description": "Of 2026", "is_enabled": false, "secret": "sixteen letters!",
        "url": "https://other.example/", "events": ["record_deleted", "record_created", "record_created"],
    });
    let changed = api.patch(&webhook_path, body).await;
    for (name, value) in [
        ("name", json!("Bills")),
        ("description", json!("Of 2026")),
        ("is_enabled", json!(false)),
        ("url", json!("https://other.example/")),
        ("events", json!(["record_created", "record_deleted"])),
        ("modified_at", json!("2026-01-31T09:30:01.000000Z")),
    ] {
        shown[name] = value;
    }
    shown["_meta"]["labels"]["events"] =
        json!({"record_created": "Record created", "record_deleted": "Record deleted"});
    changed.expect_reply(200, shown.clone());
    let unless =
        |known: &str| api.call("PATCH", &webhook_path).header("if-match", known).json(&json!({"is_enabled": false}));
    unless(made.header("etag")).send().await.expect_reply(412, message::detail("Object has been changed."));
    unless(changed.header("etag")).send().await.ok();

    api.delete(&webhook_path).await.expect_empty();
    api.get(&webhook_path).await.expect_reply(404, message::not_found());
    api.patch(&webhook_path, json!({})).await.expect_reply(404, message::not_found());
    api.delete(&webhook_path).await.expect_reply(404, message::not_found());

    let log = api.get(LOG).await;
    let uuid = uuid.as_str().unwrap();
    assert_eq!(log.column("action"), ["delete", "edit", "create"]);
    assert_eq!(log.column("object_id"), [Value::Null, Value::Null, Value::Null]);
    let [old, new] = ["Orders", "Bills"].map(|name| json!(format!("{uuid} {name}")));
    assert_eq!(log.column("object_name"), [new.clone(), new, old]);
    assert_eq!(log.column("changes")[1]["secret"], json!(["***", "***"]));
    assert_eq!(log.column("changes")[1]["url"], json!(["https://receiver.example/hook", "https://other.example/"]));
    assert_eq!(log.column("changes")[2]["secret"], json!([null, "***"]));
    assert!(!log.text.contains("letters!") && !log.text.contains(SECRET), "{}", log.text);
}

#[tokio::test]
async fn integrations_of_the_other_types() {
    let server = with_store().await;
    let api = with_class(&server).await;
    let object = json!({"name": "Store", "provider": "bearer"});
    let object = api.post("/api/authentication-objects/", object).await.id();
    let mut body = copies("Contracts");
    body["authentication_object"] = json!(object);
    let made = api.post(INTEGRATIONS, body).await.expect_created();
    assert_eq!(
        made,
        json!({
            "uuid": made["uuid"], "type": "document_management", "name": "Contracts", "description": "",
            "is_enabled": true, "authentication_object": object, "object_class": 1, "folder": "contracts",
            "object_class_field": 1, "dedupe": false,
            "created_at": START, "created_by": admin(), "modified_at": START, "modified_by": admin(),
            "_meta": {
                "labels": {
                    "type": "Document management", "authentication_object": "Store", "object_class": "Order",
                    "object_class_field": "Files",
                },
                "permissions": permissions(true),
            },
        })
    );
    let mut body = agents("Agents");
    body["object_classes"] = json!([1, 1]);
    let made = api.post(INTEGRATIONS, body).await.expect_created();
    assert_eq!(
        made,
        json!({
            "uuid": made["uuid"], "type": "ai_mcp", "name": "Agents", "description": "", "is_enabled": false,
            "authentication_object": null, "object_class": null, "object_classes": [1],
            "redirect_uris": ["https://agent.example/callback"],
            "created_at": START, "created_by": admin(), "modified_at": START, "modified_by": admin(),
            "_meta": {
                "labels": {
                    "type": "AI MCP", "authentication_object": null, "object_class": null, "object_classes": {"1": "Order"},
                },
                "permissions": permissions(true),
            },
        })
    );
    let changed =
        api.patch(&address(&made), json!({"object_classes": [], "redirect_uris": ["http://[::1]:3000/"]})).await;
    assert_eq!((&changed["object_classes"], &changed["redirect_uris"]), (&json!([]), &json!(["http://[::1]:3000/"])));

    // Lists are sorted and filtered by the common fields.
    api.post(INTEGRATIONS, webhook("Orders")).await.expect_created();
    let names = async |query: &str| api.get(&format!("{INTEGRATIONS}?{query}")).await.column("name");
    assert_eq!(names("ordering=-name").await, ["Orders", "Contracts", "Agents"]);
    assert_eq!(names("type__in=webhook,ai_mcp&ordering=name").await, ["Agents", "Orders"]);
    assert_eq!(names("object_class=1&is_enabled=true&ordering=created_at").await, ["Contracts", "Orders"]);
    assert_eq!(names(&format!("authentication_object={object}")).await, ["Contracts"]);
    assert_eq!(names(&format!("uuid={}", made["uuid"].as_str().unwrap())).await, ["Agents"]);
    assert_eq!(names("name__icontains=R&created_by=1&modified_by=1").await, ["Contracts", "Orders"]);
    let refusal = json!({"ordering": ["Select a valid choice. url is not one of the available choices."]});
    api.get(&format!("{INTEGRATIONS}?ordering=url")).await.expect_reply(400, refusal);
}

#[tokio::test]
async fn a_caller_needs_the_rights_that_an_integration_uses() {
    let server = with_store().await;
    let api = with_class(&server).await;
    let object = json!({"name": "Store", "provider": "bearer"});
    let object = api.post("/api/authentication-objects/", object).await.id();
    let all = json!({"integrations": ["list", "view", "create", "edit", "delete"]});
    let clerk = server.with_role(all.clone()).await;
    // A user who may view the records of the class, and a user who may also view authentication objects.
    let viewer = server.with_role(all.clone()).await;
    with_class_set(&api, viewer.id, json!({"object_records": ["list", "view"]})).await;
    let mut more = all.clone();
    more["authentication_objects"] = json!(["list", "view"]);
    let both = server.with_role(more).await;
    with_class_set(&api, both.id, json!({"object_records": ["list", "view"]})).await;
    let with_object = |mut body: Value| {
        body["authentication_object"] = json!(object);
        body
    };
    let without_class = |mut body: Value| {
        body.as_object_mut().unwrap().shift_remove("object_class");
        body
    };

    for body in [webhook("A"), copies("A"), without_class(webhook("A")), agents("A")] {
        clerk.post(INTEGRATIONS, body).await.expect_reply(403, message::forbidden());
    }
    for body in [with_object(webhook("A")), with_object(copies("A")), without_class(webhook("A")), agents("A")] {
        viewer.post(INTEGRATIONS, body).await.expect_reply(403, message::forbidden());
    }
    // A refused creation does not count against the limit.
    assert_eq!(number(&server, "SELECT count(*) FROM integrations").await, 0);
    for body in [webhook("Viewed"), copies("Copied")] {
        viewer.post(INTEGRATIONS, body).await.expect_created();
    }
    both.post(INTEGRATIONS, with_object(webhook("Signed"))).await.expect_created();

    // Each change requires the rights on the former and the new values.
    let viewed_path = address(&viewer.get(&format!("{INTEGRATIONS}?name=Viewed")).await["results"][0]);
    let signed_path = address(&viewer.get(&format!("{INTEGRATIONS}?name=Signed")).await["results"][0]);
    for body in [json!({}), json!({"description": "B"}), json!({"secret": SECRET}), json!({"is_enabled": false})] {
        clerk.patch(&viewed_path, body.clone()).await.expect_reply(403, message::forbidden());
        viewer.patch(&signed_path, body.clone()).await.expect_reply(403, message::forbidden());
        viewer.patch(&viewed_path, body.clone()).await.ok();
        both.patch(&signed_path, body).await.ok();
    }
    viewer.patch(&viewed_path, json!({"object_class": null})).await.expect_reply(403, message::forbidden());
    viewer.patch(&signed_path, json!({"authentication_object": null})).await.expect_reply(403, message::forbidden());
    api.patch(&viewed_path, json!({"object_class": null, "is_enabled": false})).await.ok();
    for body in [json!({"is_enabled": true}), json!({"object_class": 1}), json!({"name": "C"})] {
        viewer.patch(&viewed_path, body).await.expect_reply(403, message::forbidden());
    }
    api.patch(&viewed_path, json!({"is_enabled": true})).await.ok();
    // A class that the viewer may not view.
    api.post("/api/object-classes/", json!({"name": "Secret"})).await.expect_created();
    let mut body = webhook("Secrets");
    body["object_class"] = json!(2);
    viewer.post(INTEGRATIONS, body.clone()).await.expect_reply(403, message::forbidden());
    let secrets = address(&api.post(INTEGRATIONS, body).await.expect_created());
    let body = json!({"object_class": 1, "url": "https://elsewhere.example/", "secret": SECRET});
    viewer.patch(&secrets, body).await.expect_reply(403, message::forbidden());

    // `_meta` agrees with the allowed actions.
    let edits = async |caller: &ApiClient, path: &str| caller.get(path).await["_meta"]["permissions"]["edit"].clone();
    for (caller, path, may) in [
        (&clerk, &secrets, false),
        (&viewer, &secrets, false),
        (&viewer, &signed_path, false),
        (&both, &signed_path, true),
        (&viewer, &viewed_path, false),
        (&api, &viewed_path, true),
    ] {
        assert_eq!(edits(caller, path).await, may, "{path}");
    }
    // Agents are for super admins, but all users who may delete integrations may delete them.
    let agents = address(&api.post(INTEGRATIONS, agents("Agents")).await.expect_created());
    both.patch(&agents, json!({"name": "B"})).await.expect_reply(403, message::forbidden());
    assert_eq!(edits(&both, &agents).await, false);
    both.delete(&agents).await.expect_empty();
}

#[tokio::test]
async fn references_to_deleted_objects_become_null() {
    let server = with_store().await;
    let api = with_class(&server).await;
    let object = json!({"name": "Store", "provider": "bearer"});
    let object = api.post("/api/authentication-objects/", object).await.id();
    let mut hook = webhook("Hook");
    hook["authentication_object"] = json!(object);
    let hook = address(&api.post(INTEGRATIONS, hook).await.expect_created());
    let copied = address(&api.post(INTEGRATIONS, copies("Copies")).await.expect_created());
    let mut body = agents("Agents");
    (body["object_classes"], body["object_class"], body["is_enabled"]) = (json!([1]), json!(1), json!(true));
    let agents = address(&api.post(INTEGRATIONS, body).await.expect_created());

    api.delete(&format!("/api/authentication-objects/{object}/")).await.expect_empty();
    let shown = api.get(&hook).await;
    assert_eq!((&shown["authentication_object"], &shown["is_enabled"]), (&Value::Null, &json!(true)));

    api.delete("/api/object-classes/1/fields/1/").await.expect_empty();
    let shown = api.get(&copied).await;
    assert_eq!((&shown["object_class_field"], &shown["is_enabled"]), (&Value::Null, &json!(false)));
    assert_eq!(shown["object_class"], 1);

    api.delete("/api/object-classes/1/").await.expect_empty();
    for (path, is_enabled) in [(&hook, false), (&copied, false), (&agents, true)] {
        let shown = api.get(path).await;
        assert_eq!((&shown["object_class"], &shown["is_enabled"]), (&Value::Null, &json!(is_enabled)), "{path}");
    }
    assert_eq!(api.get(&agents).await["object_classes"], json!([]));
    let log = api.get(&format!("{LOG}&action=edit")).await;
    assert_eq!(
        log.column("changes"),
        [
            json!({"object_class": [1, null]}),
            json!({"object_class": [1, null]}),
            json!({"object_class": [1, null], "is_enabled": [true, false]}),
            json!({"object_class_field": [1, null], "is_enabled": [true, false]}),
            json!({"authentication_object": [object, null]}),
        ]
    );
}

#[tokio::test]
async fn a_build_has_a_hundred_of_them() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    server.set_limit("integrations", 2).await;
    api.post(INTEGRATIONS, webhook("A")).await.expect_created();
    let create = |n: usize| api.call("POST", INTEGRATIONS).json(&webhook(&format!("B{n}")));
    let replies = send_concurrently((0..30).map(create)).await;
    let refusal = json!({"detail": "Limit of 2 Integrations has been exceeded.", "error_code": "ERR_LIMIT_EXCEEDED"});
    one_wins(&replies, 201, &refusal);
    let one = address(&api.get(INTEGRATIONS).await["results"][0]);
    api.delete(&one).await.expect_empty();
    api.post(INTEGRATIONS, webhook("C")).await.expect_created();
}
