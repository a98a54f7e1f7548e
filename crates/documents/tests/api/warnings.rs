//! The `warning` of templates follows changes of classes.

use crate::TestServer;
use crate::set_up::{TEMPLATES, template, with_classes};
use serde_json::json;
use testkit::ApiClient;

async fn warning(api: &ApiClient, template: i64) -> String {
    api.get(&format!("{TEMPLATES}{template}/")).await["warning"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn fields_that_go_are_warned_of_until_they_are_there_again() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let id = template(&api, "A", &["{{ number }} {{ customer.city }} {{#line}}{{ text }}{{/line}} {{ number }}"]).await;
    let other = template(&api, "B", &["{{ amount }}"]).await;
    api.delete("/api/object-classes/1/fields/1/").await.expect_empty();
    assert_eq!(warning(&api, id).await, "Merge fields number do not exist.");
    api.delete("/api/object-classes/2/fields/7/").await.expect_empty();
    api.delete("/api/object-classes/3/fields/8/").await.expect_empty();
    assert_eq!(warning(&api, id).await, "Merge fields number, customer.city, text do not exist.");
    assert_eq!(warning(&api, other).await, "");
    assert_eq!(api.get(&format!("{TEMPLATES}?warning__icontains=MERGE")).await.ids(), [id]);
    for (class, label) in [(2, "City"), (1, "Number"), (3, "Text")] {
        api.post(&format!("/api/object-classes/{class}/fields/"), json!({"label": label, "type": "string"}))
            .await
            .expect_created();
    }
    assert_eq!(warning(&api, id).await, "");
}

#[tokio::test]
async fn relations_and_classes_that_go_are_warned_of() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let loops = template(&api, "A", &["{{#line}}{{ text }}{{/line}}"]).await;
    let parents = template(&api, "B", &["{{ customer.city }}"]).await;
    // Deletes the relation of the lines.
    api.delete("/api/object-classes/3/fields/10/").await.expect_empty();
    assert_eq!(warning(&api, loops).await, "Merge fields line, text do not exist.");
    let relation = json!({"label": "Invoice", "type": "relation", "related_object_class": 1});
    api.post("/api/object-classes/3/fields/", relation.clone()).await.expect_created();
    assert_eq!(warning(&api, loops).await, "");
    api.delete("/api/object-classes/3/").await.expect_empty();
    assert_eq!(warning(&api, loops).await, "Merge fields line, text do not exist.");
    api.delete("/api/object-classes/1/fields/3/").await.expect_empty();
    assert_eq!(warning(&api, parents).await, "Merge fields customer.city do not exist.");
    // A class with this alias and such fields removes the warning.
    let line = api.post("/api/object-classes/", json!({"name": "Line"})).await.id();
    for field in [json!({"label": "Text", "type": "string"}), relation] {
        api.post(&format!("/api/object-classes/{line}/fields/"), field).await.expect_created();
    }
    assert_eq!(warning(&api, loops).await, "");
}

#[tokio::test]
async fn fields_and_relations_of_loops_in_loops_are_warned_of() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let part = api.post("/api/object-classes/", json!({"name": "Part"})).await.id();
    let fields = format!("/api/object-classes/{part}/fields/");
    let relation = json!({"label": "Line", "type": "relation", "related_object_class": 3});
    let code = api.post(&fields, json!({"label": "Code", "type": "string"})).await.id();
    let line = api.post(&fields, relation.clone()).await.id();
    let text = "{{#line}}{{#part}}{{ code }}{{ @number }}{{ id }}{{^text}}-{{/text}}{{/part}}{{/line}}";
    let id = template(&api, "A", &[text]).await;
    api.delete(&format!("{fields}{code}/")).await.expect_empty();
    assert_eq!(warning(&api, id).await, "Merge fields code do not exist.");
    api.delete(&format!("{fields}{line}/")).await.expect_empty();
    assert_eq!(warning(&api, id).await, "Merge fields part, code do not exist.");
    api.delete("/api/object-classes/3/fields/8/").await.expect_empty();
    assert_eq!(warning(&api, id).await, "Merge fields part, code, text do not exist.");
    for (class, field) in [
        (part, relation),
        (part, json!({"label": "Code", "type": "string"})),
        (3, json!({"label": "Text", "type": "string"})),
    ] {
        api.post(&format!("/api/object-classes/{class}/fields/"), field).await.expect_created();
    }
    assert_eq!(warning(&api, id).await, "");
    api.delete(&format!("/api/object-classes/{part}/")).await.expect_empty();
    assert_eq!(warning(&api, id).await, "Merge fields part, code do not exist.");
}

#[tokio::test]
async fn a_new_file_takes_the_warning_away() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    let id = template(&api, "A", &["{{ number }}"]).await;
    api.delete("/api/object-classes/1/fields/1/").await.expect_empty();
    api.patch(&format!("{TEMPLATES}{id}/"), json!({"name": "Renamed"})).await.ok();
    assert_eq!(warning(&api, id).await, "Merge fields number do not exist.");
    let token = api.upload("a.docx", crate::set_up::docx(["{{ amount }}"])).await;
    api.patch(&format!("{TEMPLATES}{id}/"), json!({"template_file": token})).await.ok();
    assert_eq!(warning(&api, id).await, "");
}

#[tokio::test]
async fn a_class_takes_its_templates_along() {
    let server = TestServer::start().await;
    let api = with_classes(&server).await;
    template(&api, "A", &["{{ number }}"]).await;
    for class in [3, 1] {
        api.delete(&format!("/api/object-classes/{class}/")).await.expect_empty();
    }
    crate::set_up::wait_for(
        &server,
        "SELECT (SELECT count(*) FROM files) + (SELECT count(*) FROM document_templates)",
        0,
    )
    .await;
}
