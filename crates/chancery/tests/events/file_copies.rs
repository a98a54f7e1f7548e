//! The main API puts the copy of a document into the history service, before the event that names it.

use crate::TestServer;
use crate::record_history::{commit_events, delivered, start_with_history};
use platform::events::file_copies::{CopyFailure, MAX_BYTES, put_copy};
use platform::events::record_events::{EventSource, GeneratedDocument, RecordChangeEvent};
use platform::kit::ids::{DocumentTemplateId, FieldId, RecordId};
use std::fs::File;
use std::io::Write;
use testkit::{ApiClient, Behaviour, FakeHistory, HISTORY_KEY, HistoryServer, NOW, S3Server, eventually};

/// Returns a temporary file without a name.
fn file(content: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    file
}

async fn copy_content(server: &TestServer, content: &[u8]) -> Result<Option<String>, CopyFailure> {
    put_copy(&server.app, &server.build, file(content), content.len() as u64).await
}

/// Starts a server that delivers to a fake service.
async fn with_fake(history: &FakeHistory) -> TestServer {
    let service = history.service();
    TestServer::start_with(|config| config.events.history = service).await
}

fn failure(why: &str, may_retry: bool) -> Result<Option<String>, CopyFailure> {
    Err(CopyFailure { why: why.to_owned(), may_retry })
}

/// Puts a copy, writes its event, and reads the file of the event.
async fn a_copy_comes_back(service: &HistoryServer) {
    let server = start_with_history(service).await;
    let content: Vec<u8> = (0..3_000_001_u32).map(|number| (number / 7) as u8).collect();
    let file_id = copy_content(&server, &content).await.unwrap().unwrap();
    let document = GeneratedDocument {
        document_template_id: DocumentTemplateId::new(5),
        field_id: FieldId::new(0),
        file_id: &file_id,
    };
    let event =
        RecordChangeEvent::DocumentGenerated(document).to_history_event(RecordId::new(12), &EventSource::system(), NOW);
    let event_id = event.event_id;
    commit_events(&server, vec![event]).await;
    delivered(&server).await;

    let tenant = platform::events::history_tenants::find(&server.app, &server.build.uid).await.unwrap().unwrap();
    let client = ApiClient::new(service.address, "history.example")
        .with_header("x-api-key", HISTORY_KEY)
        .with_header("x-client-id", &tenant.client_id);
    let reply = client.get(&format!("/api/history/events/{event_id}/file")).await;
    assert_eq!(reply.status, 302);
    let answer = reqwest::get(reply.header("location")).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(answer.bytes().await.unwrap() == content);
}

#[tokio::test]
async fn a_copy_goes_to_the_history_service_and_its_event_leads_to_it() {
    a_copy_comes_back(&HistoryServer::start().await).await;
}

#[tokio::test]
async fn a_copy_goes_to_the_bucket_of_the_history_service() {
    let s3 = S3Server::start();
    a_copy_comes_back(&HistoryServer::with_files(Some(&s3)).await).await;
}

#[tokio::test]
async fn without_a_history_service_there_is_no_copy() {
    let server = TestServer::start().await;
    assert_eq!(copy_content(&server, b"%PDF").await, Ok(None));
}

#[tokio::test]
async fn fifty_megabytes_are_copied_and_more_is_refused_before_it_is_sent() {
    let service = HistoryServer::start().await;
    let server = start_with_history(&service).await;
    let of_size = |size: u64| {
        let file = file(b"");
        file.set_len(size).unwrap();
        put_copy(&server.app, &server.build, file, size)
    };
    assert!(matches!(of_size(MAX_BYTES).await, Ok(Some(_))));
    assert_eq!(of_size(MAX_BYTES + 1).await, failure("the file has more than 50 MB", false));
    assert!(matches!(of_size(0).await, Ok(Some(_))));

    let history = FakeHistory::start().await;
    let server = with_fake(&history).await;
    let before = history.calls();
    let refused = put_copy(&server.app, &server.build, file(b""), MAX_BYTES + 1).await;
    assert_eq!((refused, history.calls()), (failure("the file has more than 50 MB", false), before));
}

#[tokio::test]
async fn a_failure_says_whether_a_retry_may_help_and_tells_no_secret() {
    let history = FakeHistory::start().await;
    let server = with_fake(&history).await;
    assert!(matches!(copy_content(&server, b"%PDF").await, Ok(Some(_))));
    for (status, shown, may_retry) in [
        (400, "400 Bad Request", false),
        (404, "404 Not Found", false),
        (413, "413 Payload Too Large", false),
        (403, "403 Forbidden", true),
        (429, "429 Too Many Requests", true),
        (307, "307 Temporary Redirect", true),
        (500, "500 Internal Server Error", true),
        (503, "503 Service Unavailable", true),
    ] {
        history.answers_uploads_with(status);
        let why = format!("the upload of the file was answered with {shown}");
        assert_eq!(copy_content(&server, b"%PDF").await, failure(&why, may_retry), "{status}");
    }
    assert_eq!(history.uploads(), 9);

    history.answers_uploads_with(201);
    history.set_behaviour(Behaviour::Refuses);
    let away = r#"503 Service Unavailable: {"detail":"ClickHouse temporarily unavailable"}"#;
    assert_eq!(copy_content(&server, b"%PDF").await, failure(away, true));
    history.set_behaviour(Behaviour::Serves);
    assert!(matches!(copy_content(&server, b"%PDF").await, Ok(Some(_))));

    // A file that is shorter than its announced length is not stored as a whole.
    let short = put_copy(&server.app, &server.build, file(b"%PDF"), 1_000_000).await.unwrap_err();
    assert!(short.may_retry && short.why.starts_with("the file was not uploaded: "), "{short}");
    assert!(!short.why.contains("secret") && !short.why.contains('\n'), "{short}");
}

#[tokio::test]
async fn nothing_is_put_into_another_history_service() {
    let history = FakeHistory::start().await;
    let server = with_fake(&history).await;
    assert!(matches!(copy_content(&server, b"%PDF").await, Ok(Some(_))));
    history.set_id(Some("0b9d2f4e-8a55-4c39-9a2f-3d5c0e6b7a11"));
    let foreign = copy_content(&server, b"%PDF").await.unwrap_err();
    assert!(foreign.may_retry && foreign.why.contains("another history service"), "{foreign}");
    let foreign = copy_content(&server, b"%PDF").await.unwrap_err();
    assert!(foreign.may_retry && foreign.why.contains("not the history service of this database"), "{foreign}");
    assert_eq!(history.uploads(), 1);
}

#[tokio::test]
async fn a_service_that_does_not_answer_may_answer_later() {
    let history = FakeHistory::start().await;
    let server = with_fake(&history).await;
    assert!(matches!(copy_content(&server, b"%PDF").await, Ok(Some(_))));
    drop(history);
    eventually(async || matches!(copy_content(&server, b"%PDF").await, Err(CopyFailure { may_retry: true, .. }))).await;
}
