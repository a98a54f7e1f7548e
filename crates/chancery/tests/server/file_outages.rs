//! The answers about files while the disk is full or S3 is unavailable, and the recovery without an operator. Uploads and downloads
//! are refused with 503, runs wait and end.

use crate::BINARY;
use crate::file_writers::{PUBLIC, RECORDS, TEMPLATES, content, prepare};
use crate::files_crash::s3_files;
use crate::outages::{expect_no_failures, expect_unavailable};
use crate::workload::{admin, prepare_installation};
use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};
use testkit::{ApiClient, Installation, Reply, S3Server, docx, eventually_within};

/// The number of records for which a document is requested.
const ASKED: usize = 3;
/// The free space for the database on a disk that is too small for a document.
const ROOM: u64 = 1024 * 1024;
/// The maximum wait of a run after the recovery: its job tries again after 10 and after 20 seconds.
const AGAIN: Duration = Duration::from_secs(60);

/// Returns a template whose documents are longer than [`ROOM`].
fn long_template() -> Vec<u8> {
    let mut state = 1_u64;
    let mut letter = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        char::from(b'A' + (state >> 59) as u8)
    };
    let text: String = (0..3_000_000).map(|_| letter()).collect();
    docx(["{{ title }}", &text])
}

/// Creates records and a template. Returns their ids, and the path of a public file of 100 KB.
async fn create_records(admin: &ApiClient) -> (Vec<i64>, i64, String) {
    prepare(admin).await;
    let template = upload(admin, "t.docx", long_template()).await.expect_created()["token"].clone();
    let template = admin.post(TEMPLATES, json!({"name": "t", "template_file": template})).await.id();
    let mut records = Vec::new();
    for n in 0..ASKED {
        records.push(admin.post(RECORDS, json!({"fields": {"title": n.to_string()}})).await.id());
    }
    let token = upload(admin, "a.100000.txt", content("a.100000.txt")).await.expect_created()["token"].clone();
    let uuid = admin.post(PUBLIC, json!({"token": token})).await.expect_created()["uuid"].clone();
    (records, template, format!("{PUBLIC}{}/", uuid.as_str().unwrap()))
}

async fn upload(client: &ApiClient, name: &str, content: Vec<u8>) -> Reply {
    let call = client.call("POST", "/api/files/upload/");
    let call = call.header("content-disposition", &format!("attachment; filename={name}"));
    call.body("application/octet-stream", content).send().await
}

async fn generate(client: &ApiClient, record: i64, template: i64) -> Reply {
    let body = json!({"object_record": record, "document_template": template, "object_record_field": "papers"});
    client.post("/api/object-records/documents/", body).await
}

async fn run(client: &ApiClient, record: i64, template: i64) -> Json {
    let path = format!("/api/object-records/{record}/documents/{template}/");
    client.get(&path).await.ok()["generated_document"].clone()
}

/// Waits until every run has ended, with its file once in its field.
async fn all_end(client: &ApiClient, records: &[i64], template: i64) {
    let begun = Instant::now();
    for record in records {
        let run = eventually_within(AGAIN.saturating_sub(begun.elapsed()), async || {
            let run = run(client, *record, template).await;
            if run["status"] == "processing" { Err(run) } else { Ok(run) }
        })
        .await;
        let shown = client.get(&format!("/api/object-records/{record}/")).await.ok();
        assert_eq!((&run["status"], &shown["fields"]["papers"]), (&json!("field_updated"), &json!([run["document"]])));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_and_documents_wait_for_room_on_a_full_disk() {
    let installation = prepare_installation(Installation::embedded(BINARY).with_small_disk(48)).and_build();
    let process = installation.serve();
    let admin = admin(&process).await;
    let (records, template, public) = create_records(&admin).await;

    // The space is sufficient for rows only: runs begin.
    installation.disk().fill_but(ROOM);
    let (requested_records, others) = records.split_at(ASKED - 1);
    for record in requested_records {
        generate(&admin, *record, template).await.expect_created();
    }
    expect_unavailable(&upload(&admin, "b.2000000.txt", content("b.2000000.txt")).await, &["The storage is full."]);
    // The runs try to write their documents, which the test cannot observe.
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The disk is completely full.
    installation.disk().fill_disk();
    expect_unavailable(&generate(&admin, others[0], template).await, &["The storage is full."]);
    for _ in 0..5 {
        expect_unavailable(&upload(&admin, "b.1000.txt", content("b.1000.txt")).await, &["The storage is full."]);
        assert_eq!(admin.get(&public).await.bytes, content("a.100000.txt"));
        for path in [RECORDS, TEMPLATES, PUBLIC, "/readyz"] {
            admin.get(path).await.ok();
        }
    }
    for record in requested_records {
        assert_eq!(run(&admin, *record, template).await["status"], "processing");
    }

    installation.disk().free_space();
    upload(&admin, "b.2000000.txt", content("b.2000000.txt")).await.expect_created();
    let begun = Instant::now();
    all_end(&admin, requested_records, template).await;
    println!(
        "{} runs waited for room, and ended {:.1?} after there was some",
        requested_records.len(),
        begun.elapsed()
    );
    expect_no_failures(&process);
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_may_be_away_for_a_while() {
    let mut s3 = S3Server::start();
    let mut installation =
        prepare_installation(Installation::with_build(BINARY)).set("CHANCERY_FILES_URL", &s3.url("files"));
    for (name, value) in s3.environment() {
        installation = installation.set(&name, &value);
    }
    let process = installation.serve();
    let admin = admin(&process).await;
    let (records, template, public) = create_records(&admin).await;
    let token = upload(&admin, "gone.1.txt", content("gone.1.txt")).await.expect_created()["token"].clone();
    let gone = admin.post(PUBLIC, json!({"token": token})).await.expect_created()["uuid"].clone();
    assert_eq!(s3_files(&s3).len(), 3);

    s3.stop();
    let requested_records = &records[..2];
    for record in requested_records {
        generate(&admin, *record, template).await.expect_created();
    }
    admin.delete(&format!("{PUBLIC}{}/", gone.as_str().unwrap())).await.expect_empty();
    let begun = Instant::now();
    expect_unavailable(&upload(&admin, "b.1000.txt", content("b.1000.txt")).await, &["The storage is not available."]);
    expect_unavailable(&admin.get(&public).await, &["The storage is not available."]);
    println!("S3 away: an upload and a download are refused within {:.1?}", begun.elapsed());
    for path in [RECORDS, TEMPLATES, PUBLIC, "/readyz"] {
        admin.get(path).await.ok();
    }
    for record in requested_records {
        assert_eq!(run(&admin, *record, template).await["status"], "processing");
    }

    s3.restart();
    let begun = Instant::now();
    upload(&admin, "b.1000.txt", content("b.1000.txt")).await.expect_created();
    assert_eq!(admin.get(&public).await.bytes, content("a.100000.txt"));
    all_end(&admin, requested_records, template).await;
    // The template, the public file, the upload and two documents remain. Deleted files are removed by then or soon.
    eventually_within(AGAIN.saturating_sub(begun.elapsed()), async || {
        let files = s3_files(&s3);
        if files.len() <= 5 { Ok(()) } else { Err(files) }
    })
    .await;
    println!("S3 back: all is done after {:.1?}", begun.elapsed());
    assert_eq!(s3_files(&s3).len(), 5);
    expect_no_failures(&process);
    process.stop();
}

/// Returns the state of the store of files in `/readyz`: its status, the body's status, the status of the store, and the warnings.
async fn readiness(client: &ApiClient) -> (u16, Json, Json, Json) {
    let reply = client.get("/readyz").await;
    let body: Json = serde_json::from_str(&reply.text).unwrap();
    assert!(body["files"]["since"].is_string(), "{body}");
    (reply.status, body["status"].clone(), body["files"]["status"].clone(), body["warnings"].clone())
}

/// Waits until `/readyz` has this state.
async fn wait_for_readiness(client: &ApiClient, expected: (u16, Json, Json, Json)) {
    // The server checks the store every 15 seconds, for at most 3 seconds.
    eventually_within(Duration::from_secs(40), async || {
        let state = readiness(client).await;
        if state == expected { Ok(()) } else { Err(state) }
    })
    .await;
}

/// Returns an installation with a build whose files are in a bucket.
fn installation_on_bucket(s3: &S3Server, url: &str) -> Installation {
    let environment = s3.environment();
    let installation = Installation::with_build(BINARY).set("CHANCERY_FILES_URL", url);
    environment.iter().fold(installation, |installation, (name, value)| installation.set(name, value))
}

fn warning(reason: &str) -> Json {
    json!([format!("The file store is unavailable ({reason}); uploads are refused.")])
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_knows_a_bucket_that_was_never_reached_and_one_that_is_away() {
    let mut s3 = S3Server::start();
    // A wrong bucket stops a rollout.
    let wrong = installation_on_bucket(&s3, "s3://nosuch/files");
    let process = wrong.serve_api();
    let client = process.client("localhost");
    wait_for_readiness(&client, (503, json!("unavailable"), json!("unavailable"), warning("no_such_bucket"))).await;
    let log = process.stderr();
    assert_eq!(log.matches("file store is unavailable, uploads are refused").count(), 1, "{log}");

    let right = installation_on_bucket(&s3, &s3.url("files"));
    let process = right.serve_api();
    let client = process.client("localhost");
    wait_for_readiness(&client, (200, json!("ok"), json!("ok"), Json::Null)).await;
    // Everything except files works in the meantime.
    s3.stop();
    wait_for_readiness(&client, (200, json!("ok"), json!("unavailable"), warning("unreachable"))).await;
    s3.restart();
    wait_for_readiness(&client, (200, json!("ok"), json!("ok"), Json::Null)).await;
}
