//! Commands for a whole build include classes, whose tables are created at run time. A copy contains their records and finds them
//! by their words, another secret key does not change them, and a deleted build leaves none.

use crate::BINARY;
use serde_json::json;
use testkit::{ADMIN, ApiClient, Installation, PASSWORD, Process};

const RECORDS: &str = "/api/object-classes/1/object-records/";

async fn admin(process: &Process, domain: &str) -> ApiClient {
    process.client(domain).sign_in(ADMIN, PASSWORD).await
}

/// Creates a class with two fields and a record.
async fn make_class(api: &ApiClient) {
    api.post("/api/object-classes/", json!({"name": "Order"})).await.expect_created();
    for field in
        [json!({"label": "Title", "type": "string", "is_indexed": true}), json!({"label": "N", "type": "integer"})]
    {
        api.post("/api/object-classes/1/fields/", field).await.expect_created();
    }
    api.post(RECORDS, json!({"fields": {"title": "First of all", "n": 1}})).await.expect_created();
}

/// Checks that the record of [`make_class`] exists, and that others can be created.
async fn expect_consistent(api: &ApiClient) {
    let found = api.get(&format!("{RECORDS}?search=first+al&ordering=title")).await.ok();
    assert_eq!(found["results"][0]["fields"], json!({"title": "First of all", "n": 1}));
    api.post("/api/object-classes/1/fields/", json!({"label": "More", "type": "text"})).await.expect_created();
    api.post(RECORDS, json!({"fields": {"title": "Second", "more": "words"}})).await.expect_created();
    assert_eq!(api.get(&format!("{RECORDS}?search=words")).await["filtered_count"], 1);
    assert_eq!(api.get("/api/object-classes/1/").await["num_of_records"], 2);
}

#[tokio::test]
async fn a_backup_has_classes_and_their_records() {
    let installation = Installation::embedded(BINARY).set("CHANCERY_ADMIN_PASSWORD", PASSWORD);
    let process = installation.serve();
    make_class(&admin(&process, "localhost").await).await;
    installation.succeeds(&["backup", "copy"]);
    process.stop();
    let copy = installation.home().join("copy").display().to_string();
    let restored = Installation::embedded(BINARY).set("CHANCERY_DATA", &copy);
    let process = restored.serve();
    expect_consistent(&admin(&process, "localhost").await).await;
    process.stop();
}

#[tokio::test]
async fn another_secret_key_changes_nothing_about_classes() {
    let installation = Installation::with_build(BINARY);
    let process = installation.serve_api();
    make_class(&admin(&process, "localhost").await).await;
    process.stop();
    let key = "another key, which is longer than it must be";
    installation.succeeds(&["keys", "rotate", "--new-secret-key", key]);
    let installation = match installation.database_url() {
        Some(_) => installation.set("CHANCERY_SECRET_KEY", key),
        None => installation,
    };
    let process = installation.serve_api();
    expect_consistent(&admin(&process, "localhost").await).await;
    process.stop();
}

#[tokio::test]
async fn a_deleted_build_leaves_no_classes_to_the_next_of_its_name() {
    let installation = Installation::with_build(BINARY);
    let process = installation.serve_with(&["--fallback-build", ""]);
    installation.succeeds(&["build", "create", "b.example"]);
    make_class(&admin(&process, "b.example").await).await;
    installation.succeeds(&["build", "delete", "b.example", "--yes"]);
    installation.succeeds(&["build", "create", "b.example"]);
    let api = admin(&process, "b.example").await;
    api.get(RECORDS).await.expect(404);
    make_class(&api).await;
    expect_consistent(&api).await;
    process.stop();
}
