//! The rules of the bodies of integrations, and their description in OPTIONS (`docs/reference/integrations.md`).

use crate::TestServer;
use crate::set_up::{INTEGRATIONS, SECRET, address, agents, copies, webhook, with_class};
use serde_json::{Value, json};

/// Returns a body with other values.
fn with_members(mut body: Value, others: Value) -> Value {
    for (name, value) in others.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

#[tokio::test]
async fn wrong_bodies_of_all_types() {
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let made = address(&api.post(INTEGRATIONS, webhook("Taken")).await.expect_created());
    let required = "This field is required.";
    api.post(INTEGRATIONS, json!({})).await.refuses(json!({"type": [required], "name": [required]}));
    api.post(INTEGRATIONS, json!({"type": null, "name": null, "description": null, "is_enabled": null})).await.refuses(
        json!({
            "type": ["This field may not be null."], "name": ["This field may not be null."],
            "description": ["This field may not be null."], "is_enabled": ["This field may not be null."],
        }),
    );
    api.post(INTEGRATIONS, json!({"type": "email", "name": ""})).await.refuses(json!({
        "type": ["email is not a valid choice."], "name": ["This field may not be blank."],
    }));
    // Copies require a document store.
    let refusal = json!({"type": ["document_management is not a valid choice."]});
    api.post(INTEGRATIONS, copies("Copies")).await.refuses(refusal);
    for (name, value, wrong) in [
        ("name", json!("x".repeat(101)), "Ensure this field has no more than 100 characters."),
        ("name", json!(" tAKEN"), "This field must be unique."),
        ("name", json!(5), "Not a valid string."),
        ("description", json!("x".repeat(501)), "Ensure this field has no more than 500 characters."),
        ("is_enabled", json!("yes"), "Must be a valid boolean."),
        ("authentication_object", json!("1"), "Incorrect type. Expected pk value, received str."),
        ("authentication_object", json!(9), "Invalid pk 9 - Authentication object does not exist."),
        ("object_class", json!([1]), "Incorrect type. Expected pk value, received list."),
        ("object_class", json!(9), "Invalid pk 9 - Object class does not exist."),
        ("url", json!(""), "This field may not be blank."),
        ("url", json!("receiver"), "Enter a valid URL."),
        ("url", json!("ftp://receiver.example/"), "Enter a valid URL."),
        ("url", json!("http://receiver.example/"), "Enter a valid URL."),
        ("url", json!("http://127.0.0.1/"), "Enter a valid URL."),
        ("url", json!("https://user:word@receiver.example/"), "Enter a valid URL."),
        (
            "url",
            json!(format!("https://a/{}", "x".repeat(2048))),
            "Ensure this field has no more than 2048 characters.",
        ),
        ("secret", json!("fifteen letters"), "Ensure this field has at least 16 characters."),
        ("secret", json!("x".repeat(256)), "Ensure this field has no more than 255 characters."),
        ("secret", json!(null), "This field may not be null."),
        ("secret", json!(""), "This field may not be blank."),
        ("events", json!("record_created"), "Expected a list of items but got type str."),
        ("events", json!(["record_made"]), "record_made is not a valid choice."),
        ("events", json!([]), "This list may not be empty."),
    ] {
        let refusal = json!({name: [wrong]});
        let body = with_members(webhook("New"), json!({name: value, "secret": SECRET}));
        let body = if name == "secret" { with_members(body, json!({name: value})) } else { body };
        api.post(INTEGRATIONS, body).await.refuses(refusal.clone());
        if value != json!(" tAKEN") {
            let body = json!({name: value, "secret": SECRET});
            let body = if name == "secret" { with_members(body, json!({name: value})) } else { body };
            api.patch(&made, body).await.refuses(refusal);
        }
    }
    let missing = json!({"type": "webhook", "name": "New"});
    api.post(INTEGRATIONS, missing).await.refuses(json!({"url": [required], "secret": [required]}));
    // A stored secret is not used for another address.
    let elsewhere = json!({"url": "https://elsewhere.example/"});
    api.patch(&made, elsewhere.clone()).await.refuses(json!({"secret": [required]}));
    api.patch(&made, with_members(elsewhere.clone(), json!({"secret": SECRET}))).await.ok();
    api.patch(&made, elsewhere).await.ok();
}

#[tokio::test]
async fn wrong_bodies_of_agents_and_copies() {
    let server = TestServer::start_with(|settings| {
        settings.domains.edit::<extensions::ExtensionSettings>().document_store_url = Some("file:///tmp".to_owned());
    })
    .await;
    let api = with_class(&server).await;
    api.post("/api/object-classes/1/fields/", json!({"label": "Title", "type": "string"})).await.expect_created();
    api.post("/api/object-classes/", json!({"name": "Other"})).await.expect_created();
    let required = "This field is required.";
    api.post(INTEGRATIONS, json!({"type": "ai_mcp", "name": "A"})).await.refuses(json!({"redirect_uris": [required]}));
    for (name, value, wrong) in [
        ("redirect_uris", json!([]), "This list may not be empty."),
        ("redirect_uris", json!(null), "This field may not be null."),
        ("redirect_uris", json!(["http://agent.example/"]), "Enter a valid URL."),
        ("redirect_uris", json!([5]), "Enter a valid URL."),
        ("redirect_uris", json!(vec!["https://a.example/"; 11]), "Up to 10 items allowed."),
        ("object_classes", json!([1, 9]), "Invalid pk 9 - Object class does not exist."),
        ("object_classes", json!(["1"]), "Incorrect type. Expected pk value, received str."),
        ("object_classes", json!(vec![1; 101]), "Up to 100 items allowed."),
    ] {
        let body = with_members(agents("A"), json!({name: value}));
        api.post(INTEGRATIONS, body).await.refuses(json!({name: [wrong]}));
    }
    for (name, value, wrong) in [
        ("folder", json!(""), "This field may not be blank."),
        ("folder", json!(null), "This field may not be null."),
        ("folder", json!("x".repeat(256)), "Ensure this field has no more than 255 characters."),
        ("folder", json!("/contracts"), "Enter a valid value."),
        ("folder", json!("a/../../b"), "Enter a valid value."),
        ("folder", json!("a\\b"), "Enter a valid value."),
        ("folder", json!("a\u{1}b"), "Enter a valid value."),
        ("dedupe", json!(null), "This field may not be null."),
        ("object_class_field", json!("1"), "Incorrect type. Expected pk value, received str."),
        ("object_class_field", json!(9), "Invalid pk 9 - Object class field does not exist."),
        // A field of another type, of another class, and without a class.
        ("object_class_field", json!(2), "Invalid pk 2 - Object class field does not exist."),
    ] {
        let body = with_members(copies("C"), json!({name: value}));
        api.post(INTEGRATIONS, body).await.refuses(json!({name: [wrong]}));
    }
    let refusal = json!({"object_class_field": ["Invalid pk 1 - Object class field does not exist."]});
    for class in [json!(2), json!(null)] {
        api.post(INTEGRATIONS, with_members(copies("C"), json!({"object_class": class})))
            .await
            .refuses(refusal.clone());
    }
    let made = address(&api.post(INTEGRATIONS, copies("C")).await.expect_created());
    api.patch(&made, json!({"object_class": 2})).await.refuses(refusal);
    api.patch(&made, json!({"object_class": 2, "object_class_field": null})).await.ok();
}

#[tokio::test]
async fn options_tell_what_each_type_adds() {
    let server = TestServer::start().await;
    let api = server.as_type("internal").await;
    let document = api.options(INTEGRATIONS).await.ok();
    let aliases = |entries: &Value| -> Vec<String> {
        entries.as_array().unwrap().iter().map(|entry| entry["alias"].as_str().unwrap().to_owned()).collect()
    };
    let common = ["uuid", "type", "name", "description", "is_enabled", "authentication_object", "object_class"];
    let audit = ["created_at", "created_by", "modified_at", "modified_by"];
    assert_eq!(aliases(&document["details"]["schema"]), [&common[..], &audit[..]].concat());
    assert_eq!(document["restrictions"], json!({"limit_items": 100}));
    let values = &document["details"]["schema"][1]["values"];
    assert_eq!(values, &json!([{"value": "ai_mcp", "text": "AI MCP"}, {"value": "webhook", "text": "Webhook"}]));
    let by_type = &document["details"]["schema_by_type"];
    assert_eq!(aliases(&by_type["ai_mcp"]), ["object_classes", "redirect_uris"]);
    assert_eq!(aliases(&by_type["webhook"]), ["url", "secret", "events"]);
    assert_eq!(by_type.get("document_management"), None);
    let url = json!({
        "alias": "url", "type": "url", "required": true, "editable": true,
        "validators": [{"name": "max_length", "value": 2048}],
    });
    assert_eq!(by_type["webhook"][0], url);

    let server = TestServer::start_with(|settings| {
        settings.domains.edit::<extensions::ExtensionSettings>().document_store_url = Some("file:///tmp".to_owned());
    })
    .await;
    let document = server.admin().await.options(INTEGRATIONS).await.ok();
    let own = &document["details"]["schema_by_type"]["document_management"];
    assert_eq!(aliases(own), ["folder", "object_class_field", "dedupe"]);
    assert_eq!(document["details"]["schema"][1]["values"][0]["value"], "document_management");
}
