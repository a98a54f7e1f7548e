//! Tests the step that generates documents.

use crate::TestServer;
use crate::set_up::{done, ended_runs, invoices, on, publish, published, record, sequence};
use serde_json::{Value, json};
use testkit::{ApiClient, docx};

async fn template(api: &ApiClient, class: i64, text: &str) -> i64 {
    let file = api.upload("letter.docx", docx([text])).await;
    let body = json!({"name": "Letter", "template_file": file});
    api.post(&format!("/api/object-classes/{class}/document-templates/"), body).await.id()
}

#[tokio::test]
async fn a_document_is_put_into_a_field_before_the_next_step() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let papers = json!({"label": "Papers", "type": "document"});
    api.post(&format!("/api/object-classes/{class}/fields/"), papers).await.expect_created();
    let template = template(&api, class, "Dear customer").await;
    let steps = json!([
        {"key": "letter", "type": "generate_document", "document_template": template, "object_record_field": "papers"},
        {"key": "note", "type": "update_record", "fields": {"note": {"ref": "steps.letter.status"}}},
    ]);
    let id = published(&api, "Write", json!({"trigger": on(class, &["created"]), "steps": steps})).await;
    let record = record(&api, class, json!({})).await;
    let run = ended_runs(&api, id, 1).await.remove(0);
    assert_eq!(run["status"], "completed", "{run:#}");
    let expected = [("letter", "done"), ("note", "done")];
    assert_eq!(done(&api, &run).await, expected.map(|(path, status)| (path.to_owned(), status.to_owned())));
    let values = api.get(&format!("/api/object-records/{record}/")).await.ok()["fields"].clone();
    assert_eq!((&values["note"], values["papers"].as_array().map(Vec::len)), (&json!("field_updated"), Some(1)));
}

#[tokio::test]
async fn a_template_of_another_class_is_refused() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let class = invoices(&api).await;
    let other = api.post("/api/object-classes/", json!({"name": "Other"})).await.id();
    let template = template(&api, other, "Dear customer").await;
    let steps = json!([
        {"key": "letter", "type": "generate_document", "document_template": template, "object_record_field": "number"},
    ]);
    let id = sequence(&api, "Write", json!({"trigger": on(class, &["created"]), "steps": steps})).await;
    let expected: Value = json!({
        "document_template": [format!("Invalid pk {template} - object does not exist.")], "object_record_field": ["Enter a valid value."],
    });
    publish(&api, id).await.expect_reply(400, json!({"definition": {"steps": {"letter": expected}}}));
}
