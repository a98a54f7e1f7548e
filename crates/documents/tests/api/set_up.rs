//! The set-up of tests of documents.

use crate::TestServer;
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::{ApiClient, eventually};
pub use testkit::{docx, paragraphs};

pub const TEMPLATES: &str = "/api/object-classes/1/document-templates/";
pub const RECORDS: &str = "/api/object-classes/1/object-records/";
pub const GENERATE: &str = "/api/object-records/documents/";

/// Returns the first super admin. They have created the classes 1 `Invoice` (number, amount, customer, papers, contract), 2
/// `Customer` (name, city), 3 `Line` (text, price, invoice), and 4 `Other`, which is not related to the others.
pub async fn with_classes(server: &TestServer) -> ApiClient {
    let api = server.admin().await;
    for name in ["Invoice", "Customer", "Line", "Other"] {
        api.post("/api/object-classes/", json!({"name": name})).await.expect_created();
    }
    for (class, field) in [
        (1, json!({"label": "Number", "type": "string"})),
        (1, json!({"label": "Amount", "type": "decimal"})),
        (1, json!({"label": "Customer", "type": "relation", "related_object_class": 2})),
        (1, json!({"label": "Papers", "type": "document", "max_num_of_files": 2})),
        (1, json!({"label": "Paid", "type": "boolean"})),
        (2, json!({"label": "Name", "type": "string"})),
        (2, json!({"label": "City", "type": "string"})),
        (3, json!({"label": "Text", "type": "string"})),
        (3, json!({"label": "Price", "type": "decimal"})),
        (3, json!({"label": "Invoice", "type": "relation", "related_object_class": 1})),
    ] {
        api.post(&format!("/api/object-classes/{class}/fields/"), field).await.expect_created();
    }
    api
}

pub async fn record(api: &ApiClient, class: i64, fields: Value) -> i64 {
    api.post(&format!("/api/object-classes/{class}/object-records/"), json!({"fields": fields})).await.id()
}

/// Creates a template of class 1 with these paragraphs and returns its id.
pub async fn template(api: &ApiClient, name: &str, paragraphs: &[&str]) -> i64 {
    let token = api.upload(&format!("{name}.docx"), docx(paragraphs)).await;
    let made = api.post(TEMPLATES, json!({"name": name, "template_file": token})).await;
    made.expect_created();
    made.id()
}

/// Requests a document and waits until the run has ended. Returns the run.
pub async fn generated(api: &ApiClient, record: i64, template: i64, field: Option<&str>) -> Value {
    let body = json!({"object_record": record, "document_template": template, "object_record_field": field});
    api.post(GENERATE, body).await.expect_created();
    wait_for_run(api, record, template).await
}

/// Waits until a run has ended. Returns the run.
pub async fn wait_for_run(api: &ApiClient, record: i64, template: i64) -> Value {
    let path = format!("/api/object-records/{record}/documents/{template}/");
    eventually(async || {
        let run = api.get(&path).await.ok()["generated_document"].clone();
        if run["status"] == "processing" { Err(run) } else { Ok(run) }
    })
    .await
}

/// Returns the paragraphs of the file of a run.
pub async fn file(api: &ApiClient, run: &Value) -> Vec<String> {
    let reply = api.get(&address(run)).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    paragraphs(&reply.bytes)
}

/// Returns the path at which the file of a run is downloaded.
pub fn address(run: &Value) -> String {
    let url = run["_meta"]["labels"]["document"]["url"].as_str().unwrap_or_else(|| panic!("no file in {run:#}"));
    url.strip_prefix("https://a.example").unwrap().to_owned()
}

/// Returns the number that a statement selects.
pub async fn number(server: &TestServer, text: &'static str) -> i64 {
    let read = move |conn: &mut Conn| conn.query_one(&Sql::new(text), |row| row.int(0));
    server.build.db.read::<i64, StoreError>(read).await.unwrap()
}

/// Waits until a statement selects this number.
pub async fn wait_for(server: &TestServer, text: &'static str, wanted: i64) {
    eventually(async || match number(server, text).await {
        number if number == wanted => Ok(()),
        number => Err(format!("{text} is {number} instead of {wanted}")),
    })
    .await;
}
