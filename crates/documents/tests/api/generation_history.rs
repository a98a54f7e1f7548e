//! A generated document in the history of its record: the event and its copy of the file.

use crate::TestServer;
use crate::set_up::{GENERATE, file, generated, number, paragraphs, record, template, wait_for, with_classes};
use events::history_client::HistoryAddress;
use serde_json::{Value, json};
use testkit::{ApiClient, HISTORY_KEY, HistoryServer, eventually};

async fn start_with_url(url: String) -> TestServer {
    TestServer::start_with(|settings| {
        settings.events.history = Some(HistoryAddress { url, api_key: HISTORY_KEY.to_owned() })
    })
    .await
}

/// Waits until the history of a record has an event of a type.
async fn event(api: &ApiClient, record: i64, event_type: &str) -> Value {
    eventually(async || {
        let history = api.get(&format!("/api/object-records/{record}/history/")).await;
        let mut events = history.json["results"].as_array().into_iter().flatten();
        events.find(|event| event["event_type"] == event_type).cloned().ok_or(history)
    })
    .await
}

#[tokio::test]
async fn the_history_has_the_event_and_a_copy_of_its_own() {
    let history = HistoryServer::start().await;
    let server = start_with_url(format!("http://{}", history.address)).await;
    let api = with_classes(&server).await;
    let invoice = record(&api, 1, json!({"number": "R-1"})).await;
    let id = template(&api, "Invoice", &["{{ number }}"]).await;
    let run = generated(&api, invoice, id, Some("papers")).await;
    assert_eq!(file(&api, &run).await, ["R-1"]);
    let event = event(&api, invoice, "document_generated").await;
    let data = &event["event_data"][0];
    assert_eq!((&data["document_template_id"], &data["field_id"]), (&json!(id), &json!(4)));
    assert_eq!((&event["source_type"], &event["source_id"]), (&json!("user"), &json!(api.id)));
    // The file of the record is deleted, and the file of the history remains.
    api.delete(&format!("/api/object-records/{invoice}/")).await.expect_empty();
    api.delete(&format!("/api/object-classes/1/object-records/deleted/{invoice}/")).await.expect_empty();
    wait_for(&server, "SELECT count(*) FROM files", 1).await;
    let uid = &server.build.uid;
    let tenant = events::history_tenants::find(&server.app, uid).await.unwrap().unwrap();
    let reader = history.client_with_key().with_header("x-client-id", &tenant.client_id);
    let reply = reader.get(&format!("/api/history/events/{}/file", event["event_id"].as_str().unwrap())).await;
    assert_eq!(reply.status, 302);
    let path = reply.header("location").strip_prefix(&format!("http://{}", history.address)).unwrap().to_owned();
    assert_eq!(paragraphs(&history.client_without_key().get(&path).await.bytes), ["R-1"]);
}

#[tokio::test]
async fn a_run_waits_for_a_history_service_that_is_away() {
    let server = start_with_url("http://127.0.0.1:9".to_owned()).await;
    let api = with_classes(&server).await;
    let invoice = record(&api, 1, json!({"number": "R-1"})).await;
    let id = template(&api, "Invoice", &["{{ number }}"]).await;
    api.post(GENERATE, json!({"object_record": invoice, "document_template": id})).await.expect_created();
    wait_for(&server, "SELECT count(*) FROM jobs WHERE kind = 'documents' AND attempts = 1", 1).await;
    let path = format!("/api/object-records/{invoice}/documents/{id}/");
    let run = api.get(&path).await["generated_document"].clone();
    assert_eq!((&run["status"], &run["document"]), (&json!("processing"), &Value::Null));
    // The run leaves no file behind and can be canceled.
    wait_for(&server, "SELECT count(*) FROM files", 1).await;
    api.post(&format!("{path}cancel/"), json!({})).await.expect_created();
    wait_for(&server, "SELECT count(*) FROM jobs WHERE kind = 'documents'", 0).await;
}

#[tokio::test]
async fn equal_documents_share_their_copy() {
    let history = HistoryServer::start().await;
    let server = start_with_url(format!("http://{}", history.address)).await;
    let api = with_classes(&server).await;
    let invoice = record(&api, 1, json!({"number": "R-1"})).await;
    let id = template(&api, "Invoice", &["{{ number }}"]).await;
    let bytes = "SELECT n FROM counters WHERE name = 'event_file_bytes'";
    let run = generated(&api, invoice, id, None).await;
    let size: i64 = run["_meta"]["labels"]["document"]["size"].as_str().unwrap().parse().unwrap();
    assert_eq!(number(&server, bytes).await, size);
    for _ in 0..3 {
        generated(&api, invoice, id, None).await;
    }
    assert_eq!(number(&server, bytes).await, size);
    api.patch(&format!("/api/object-records/{invoice}/"), json!({"fields": {"number": "R-2"}})).await.ok();
    generated(&api, invoice, id, None).await;
    assert!(number(&server, bytes).await > size);
    // Each run has an event, and each event has a file.
    wait_for(&server, "SELECT count(*) FROM outbox", 0).await;
    let events = api.get(&format!("/api/object-records/{invoice}/history/")).await.ok();
    let events = events["results"].as_array().unwrap().iter();
    let events: Vec<&Value> = events.filter(|event| event["event_type"] == "document_generated").collect();
    assert_eq!(events.len(), 5);
    let tenant = events::history_tenants::find(&server.app, &server.build.uid).await.unwrap().unwrap();
    let reader = history.client_with_key().with_header("x-client-id", &tenant.client_id);
    let mut texts = Vec::new();
    for event in events {
        let reply = reader.get(&format!("/api/history/events/{}/file", event["event_id"].as_str().unwrap())).await;
        let path = reply.header("location").strip_prefix(&format!("http://{}", history.address)).unwrap().to_owned();
        texts.extend(paragraphs(&history.client_without_key().get(&path).await.bytes));
    }
    texts.sort();
    assert_eq!(texts, ["R-1", "R-1", "R-1", "R-1", "R-2"]);
}
