//! Tests the removal of files that no event names.

use crate::{detail, envelope};
use history::file_removal::{UNNAMED_AGE, remove_unnamed, run};
use serde_json::{Value as Json, json};
use std::fs::File;
use std::time::{Duration, UNIX_EPOCH};
use store::blobs::{BlobKey, Blobs};
use testkit::{ApiClient, HOUR, HistoryServer, NOW, S3Server, eventually};
use web::clock::Clock;

/// Starts a service whose clock shows the real time, as the clock of the disk or the bucket does.
async fn start(s3: Option<&S3Server>) -> HistoryServer {
    let server = HistoryServer::with_files(s3).await;
    server.clock.advance(Clock::system().now() - NOW);
    server
}

/// Puts a file and returns its id.
async fn put_file(api: &ApiClient, content: &str) -> String {
    let given = api.get("/api/files/upload-url").await.ok();
    let address = given["upload_url"].as_str().unwrap();
    let answer = reqwest::Client::new().put(address).body(content.to_owned()).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    given["file_id"].as_str().unwrap().to_owned()
}

/// Adds an event of a type with these data.
async fn add(api: &ApiClient, n: u32, event_type: i64, data: &[Json]) {
    let mut event = detail(n, 1, event_type, "2026-01-31T09:30:00Z");
    event["event_data"] = data.iter().map(Json::to_string).collect();
    api.post("/api/event-bridge/create-event", envelope("files", event)).await.expect_created();
}

/// Returns the content of a file, through an event that names it; `None` if it was removed.
async fn content(api: &ApiClient, file_id: &str) -> Option<String> {
    let event = uuid::Uuid::new_v4().to_string();
    let mut named = detail(1, 1, 9, "2026-01-31T09:30:00Z");
    named["event_id"] = json!(event);
    named["event_data"] = json!([json!({"file_id": file_id}).to_string()]);
    api.post("/api/event-bridge/create-event", envelope("files", named)).await.expect_created();
    let address = api.get(&format!("/api/history/events/{event}/file")).await;
    let answer = reqwest::get(address.header("location")).await.unwrap();
    if answer.status() == 404 { None } else { Some(answer.text().await.unwrap()) }
}

async fn removed(server: &HistoryServer) -> u64 {
    remove_unnamed(&server.service).await.unwrap()
}

async fn old_files_without_an_event_are_removed(s3: Option<&S3Server>) {
    let server = start(s3).await;
    let (api, other, bare) = (server.tenant("files").await, server.tenant("files_too").await, server.tenant("c").await);
    let [first, second, upper] = [put_file(&api, "1").await, put_file(&api, "2").await, put_file(&api, "3").await];
    add(&api, 1, 9, &[json!({"file_id": first}), json!(5), json!({"file_id": second})]).await;
    add(&api, 2, 9, &[json!({"file_id": format!("urn:uuid:{}", upper.to_uppercase())})]).await;
    let [unnamed, elsewhere] = [put_file(&api, "4").await, put_file(&api, "5").await];
    // Events of other types do not name files. Events of another tenant do not name files of this one.
    add(&api, 3, 7, &[json!({"file_id": unnamed})]).await;
    add(&other, 1, 9, &[json!({"file_id": elsewhere})]).await;
    let [referenced_file, unreferenced_file] = [put_file(&other, "6").await, put_file(&other, "7").await];
    add(&other, 2, 9, &[json!({"file_id": referenced_file})]).await;
    add(&api, 4, 9, &[json!({"file_id": unreferenced_file})]).await;

    assert_eq!(removed(&server).await, 0);
    server.clock.advance(UNNAMED_AGE - HOUR);
    assert_eq!(removed(&server).await, 0);
    server.clock.advance(2 * HOUR);
    let late = if s3.is_none() { Some(put_young_file(&server, &api).await) } else { None };
    assert_eq!(removed(&server).await, 3);
    assert_eq!(removed(&server).await, 0);

    for (file_id, expected) in [(&first, "1"), (&second, "2"), (&upper, "3")] {
        assert_eq!(content(&api, file_id).await.as_deref(), Some(expected));
    }
    assert_eq!(content(&other, &referenced_file).await.as_deref(), Some("6"));
    if let Some(late) = late {
        assert_eq!(content(&api, &late).await.as_deref(), Some("young"));
    }
    for (api, file_id) in [(&api, &unnamed), (&api, &elsewhere), (&other, &unreferenced_file)] {
        assert_eq!(content(api, file_id).await, None);
    }
    assert_eq!(bare.get("/api/history/events").await["total_count"], 0);
}

/// Puts a file at the time of the service's clock.
async fn put_young_file(server: &HistoryServer, api: &ApiClient) -> String {
    let file_id = put_file(api, "young").await;
    let tenants = std::fs::read_dir(server.data().join("history/files")).unwrap();
    let path = tenants.map(|tenant| tenant.unwrap().path().join(&file_id)).find(|path| path.exists()).unwrap();
    let time = UNIX_EPOCH + Duration::from_micros(server.clock.now() as u64);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    file_id
}

#[tokio::test]
async fn in_the_data_directory_old_files_without_an_event_are_removed() {
    old_files_without_an_event_are_removed(None).await;
}

#[tokio::test]
async fn in_a_bucket_old_files_without_an_event_are_removed() {
    let s3 = S3Server::start();
    old_files_without_an_event_are_removed(Some(&s3)).await;
}

#[tokio::test]
async fn more_files_than_are_asked_for_at_once_are_looked_at() {
    let server = start(None).await;
    let api = server.tenant("files").await;
    let file_id = put_file(&api, "kept").await;
    add(&api, 1, 9, &[json!({"file_id": file_id})]).await;
    let tenants = std::fs::read_dir(server.data().join("history/files")).unwrap();
    let home = tenants.map(|tenant| tenant.unwrap().path()).find(|path| path.join(&file_id).exists()).unwrap();
    // Files with other names than this service creates are retained.
    for name in ["a-note", "0B5F1D5E-8A67-4F5C-9C1F-6D5F3F0F2A11", ".hidden"] {
        File::create(home.join(name)).unwrap();
    }
    for _ in 0..2500 {
        File::create(home.join(uuid::Uuid::new_v4().to_string())).unwrap();
    }
    server.clock.advance(UNNAMED_AGE + HOUR);
    // Two processes remove the files at the same time.
    let (one, two) = tokio::join!(removed(&server), removed(&server));
    assert!(one.max(two) <= 2500 && one + two >= 2500, "{one} {two}");
    assert_eq!(std::fs::read_dir(&home).unwrap().count(), 4);
    assert_eq!(content(&api, &file_id).await.as_deref(), Some("kept"));
}

#[tokio::test]
async fn a_deleted_tenant_is_no_hindrance() {
    let server = start(None).await;
    let [api, gone] = [server.tenant("files").await, server.tenant("gone").await];
    put_file(&gone, "gone").await;
    put_file(&api, "unnamed").await;
    server.clock.advance(UNNAMED_AGE + HOUR);
    gone.delete("/api/delete-tenant").await.expect_empty();
    assert_eq!(removed(&server).await, 1);
}

#[tokio::test]
async fn nothing_is_removed_from_a_bucket_that_another_service_uses() {
    let s3 = S3Server::start();
    let (server, copy) = (start(Some(&s3)).await, start(Some(&s3)).await);
    let api = server.tenant("files").await;
    let file_id = put_file(&api, "named in one of them").await;
    copy.tenant("files").await;
    assert_eq!(removed(&server).await, 0);
    for server in [&server, &copy] {
        server.clock.advance(UNNAMED_AGE + HOUR);
    }
    for server in [&copy, &server, &copy] {
        assert_eq!(removed(server).await, 0);
    }
    let id = |server: Json| server["id"].as_str().unwrap().to_owned();
    let [own, its] = [
        id(server.client_with_key().get("/api/service").await.ok()),
        id(copy.client_with_key().get("/api/service").await.ok()),
    ];
    let mut expected = [
        format!("history/files/{file_id}"),
        format!("history/history-services/{own}"),
        format!("history/history-services/{its}"),
    ];
    expected.sort();
    assert_eq!(s3.keys(), expected);

    // The copy does not exist any more, and an operator removes its mark.
    let spool = tempfile::tempdir().unwrap();
    let blobs = Blobs::open(s3.environment(), Some(&s3.url("history")), "", spool.path().to_owned(), Clock::system());
    blobs.unwrap().remove(&BlobKey::new("history-services", its)).await.unwrap();
    assert_eq!(removed(&server).await, 1);
    assert_eq!(s3.keys(), [format!("history/history-services/{own}")]);
}

#[tokio::test]
async fn a_service_is_noted_in_its_bucket_as_soon_as_it_starts_and_removes_nothing_then() {
    let s3 = S3Server::start();
    let server = start(Some(&s3)).await;
    let api = server.tenant("files").await;
    let file_id = put_file(&api, "unnamed").await;
    server.clock.advance(UNNAMED_AGE + HOUR);
    let running = tokio::spawn(run(server.service.clone()));
    let id = server.client_with_key().get("/api/service").await.ok()["id"].as_str().unwrap().to_owned();
    let expected = [format!("history/files/{file_id}"), format!("history/history-services/{id}")];
    eventually(async || {
        let keys = s3.keys();
        if keys == expected { Ok(()) } else { Err(keys) }
    })
    .await;
    running.abort();
}
