//! Tests files in the data directory, behind the listener.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use history::engine::{EngineError, Tenant};
use history::files::Files;
use reqwest::{Client, Method, Response};
use serde_json::{Value as Json, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use tempfile::TempDir;
use testkit::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use uuid::Uuid;
use web::clock::Clock;
use web::listener::{Limits, serve};

const NOW: i64 = 1_769_851_800_000_000;
const SECOND: i64 = 1_000_000;
const MAX_FILE: usize = 50 * 1024 * 1024;
/// A limit far above the duration of any step, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

struct FilesService {
    files: Arc<Files>,
    clock: Clock,
    url: String,
    host: String,
    directory: PathBuf,
    http: Client,
    _data: TempDir,
}

async fn start() -> FilesService {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let data = tempfile::tempdir().unwrap();
    let directory = data.path().join("history/files");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let (url, clock) = (format!("http://{host}"), Clock::fixed(NOW));
    let files = Arc::new(Files::open(None, directory.clone(), url.clone(), b"secret", clock.clone()).unwrap());
    let served = files.clone();
    let handler = move |request, _| {
        let files = served.clone();
        async move { files.answer(request).await }
    };
    tokio::spawn(serve(listener, handler, Limits::default(), std::future::pending::<()>()));
    let http = Client::builder().no_proxy().build().unwrap();
    FilesService { files, clock, url, host, directory, http, _data: data }
}

impl FilesService {
    async fn send(&self, method: Method, address: &str, body: impl Into<reqwest::Body>) -> Response {
        self.http.request(method, address).body(body).send().await.unwrap()
    }

    async fn put_file(&self, address: &str, body: impl Into<reqwest::Body>) -> (u16, Json) {
        status_and_body(self.send(Method::PUT, address, body).await).await
    }

    async fn get(&self, address: &str) -> (u16, Json) {
        status_and_body(self.send(Method::GET, address, "").await).await
    }

    async fn uploaded(&self, tenant: &Tenant, content: &[u8]) -> Uuid {
        let (file_id, address) = self.files.upload_address(tenant).await.unwrap();
        assert_eq!(self.put_file(&address, content.to_vec()).await, (200, Json::Null));
        file_id
    }

    /// Sends the beginning of an upload.
    async fn begin(&self, address: &str, length: usize, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.host).await.unwrap();
        let path = address.strip_prefix(&self.url).unwrap();
        let head = format!("PUT {path} HTTP/1.1\r\nhost: {}\r\ncontent-length: {length}\r\n\r\n", self.host);
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream
    }

    /// Waits until this number of uploads are in progress.
    async fn arriving(&self, count: usize) {
        eventually(async || {
            let names = names(&self.directory.join(".arriving"));
            if names.len() == count { Ok(()) } else { Err(names) }
        })
        .await;
    }

    fn home(&self, tenant: &Tenant) -> PathBuf {
        self.directory.join(tenant.client_id.to_string())
    }
}

/// Returns status and body; null for an empty body.
async fn status_and_body(response: Response) -> (u16, Json) {
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(if text.is_empty() { Json::Null } else { json!(text) }))
}

async fn read_status(stream: &mut TcpStream) -> String {
    let mut text = vec![0; 12];
    tokio::time::timeout(TIMEOUT, stream.read_exact(&mut text)).await.unwrap().unwrap();
    String::from_utf8(text).unwrap()
}

fn tenant(database_name: &str) -> Tenant {
    let (secret_hash, client_label) = (String::new(), database_name.to_owned());
    Tenant { client_id: Uuid::new_v4(), secret_hash, database_name: database_name.to_owned(), client_label }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn refusal(status: u16, detail: &str) -> (u16, Json) {
    (status, json!({"detail": detail}))
}

#[tokio::test]
async fn a_file_is_put_once_and_read_as_it_was() {
    let service = start().await;
    let acme = tenant("acme");
    let (file_id, upload) = service.files.upload_address(&acme).await.unwrap();
    let start = format!("{}/api/files/content/acme/{file_id}?client={}&expires=", service.url, acme.client_id);
    assert!(upload.starts_with(&start), "{upload}");
    let download = service.files.download_address(&acme, file_id).await.unwrap();
    assert_eq!(service.get(&download).await, refusal(404, "Not found."));

    let content: Vec<u8> = (0..3_000_001_u32).map(|number| (number / 7) as u8).collect();
    assert_eq!(service.put_file(&upload, content.clone()).await, (200, Json::Null));
    assert_eq!(service.put_file(&upload, "another").await, refusal(409, "The file was uploaded already."));

    let answer = service.send(Method::GET, &download, "").await;
    assert_eq!(answer.status(), 200);
    for (name, value) in [
        ("content-type", "application/octet-stream"),
        ("content-length", "3000001"),
        ("content-disposition", "attachment"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "sandbox"),
        ("cache-control", "private, no-store"),
    ] {
        assert_eq!(answer.headers()[name], value, "{name}");
    }
    assert!(answer.bytes().await.unwrap() == content);
    let head = service.send(Method::HEAD, &download, "").await;
    assert_eq!((head.status().as_u16(), &head.headers()["content-length"]), (200, &"3000001".parse().unwrap()));

    let file = service.home(&acme).join(file_id.to_string());
    for (path, mode) in [(&file, 0o600), (&service.home(&acme), 0o700), (&service.directory, 0o700)] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, mode, "{}", path.display());
    }
    assert!(names(&service.directory.join(".arriving")).is_empty());
    let empty = service.uploaded(&acme, b"").await;
    let download = service.files.download_address(&acme, empty).await.unwrap();
    assert_eq!(service.get(&download).await, (200, Json::Null));
}

#[tokio::test]
async fn an_address_is_good_as_it_was_made_and_for_its_time() {
    let service = start().await;
    let acme = tenant("acme");
    let (file_id, upload) = service.files.upload_address(&acme).await.unwrap();
    let download = service.files.download_address(&acme, file_id).await.unwrap();
    let refused = refusal(403, "Invalid or expired address.");
    let edited = [
        upload.replace("/acme/", "/other/"),
        upload.replace(&file_id.to_string(), &Uuid::new_v4().to_string()),
        upload.replace(&acme.client_id.to_string(), &Uuid::new_v4().to_string()),
        upload.replace("expires=1", "expires=2"),
        upload.replace("&signature=", "&signature=0"),
        upload.replace("/acme/", "/%61cme/"),
        upload.split('?').next().unwrap().to_owned(),
        format!("{}/api/files/content/", service.url),
        download.clone(),
    ];
    for edited in edited {
        assert_eq!(service.put_file(&edited, "x").await, refused, "{edited}");
    }
    assert_eq!(service.get(&upload).await, refused);
    assert_eq!(
        status_and_body(service.send(Method::DELETE, &upload, "").await).await,
        refusal(405, "Method \"DELETE\" not allowed.")
    );
    assert_eq!(service.get(&format!("{}/elsewhere", service.url)).await, refusal(404, "Not found."));

    service.clock.advance(899 * SECOND);
    assert_eq!(service.put_file(&upload, "x").await, (200, Json::Null));
    assert_eq!(service.get(&download).await, (200, json!("x")));
    service.clock.advance(SECOND);
    assert_eq!(service.put_file(&upload, "x").await, refused);
    assert_eq!(service.get(&download).await, refused);
}

#[tokio::test]
async fn fifty_megabytes_are_taken_and_no_byte_more() {
    let service = start().await;
    let acme = tenant("acme");
    let (file_id, upload) = service.files.upload_address(&acme).await.unwrap();
    let refused = refusal(413, "Max file size is 50.0 MB.");
    assert_eq!(service.put_file(&upload, vec![1; MAX_FILE + 1]).await, refused);
    // The refusal does not wait for the announced body.
    let mut announced = service.begin(&upload, MAX_FILE + 1, b"").await;
    assert_eq!(read_status(&mut announced).await, "HTTP/1.1 413");
    // A body without a length is counted.
    let mut stream = TcpStream::connect(&service.host).await.unwrap();
    let path = upload.strip_prefix(&service.url).unwrap();
    let head = format!("PUT {path} HTTP/1.1\r\nhost: {}\r\ntransfer-encoding: chunked\r\n\r\n", service.host);
    let (mut reading, mut writing) = stream.split();
    let send = async {
        writing.write_all(head.as_bytes()).await.unwrap();
        let chunk = [b"100000\r\n".as_slice(), &vec![2; 1 << 20], b"\r\n"].concat();
        while writing.write_all(&chunk).await.is_ok() {}
    };
    let mut status = [0; 12];
    let read = tokio::time::timeout(TIMEOUT, reading.read_exact(&mut status));
    tokio::select! { read = read => drop(read.unwrap().unwrap()), () = send => panic!("the refusal comes first") }
    assert_eq!(&status, b"HTTP/1.1 413");
    service.arriving(0).await;
    assert!(names(&service.home(&acme)).is_empty());

    assert_eq!(service.put_file(&upload, vec![3; MAX_FILE]).await, (200, Json::Null));
    assert_eq!(fs::metadata(service.home(&acme).join(file_id.to_string())).unwrap().len(), MAX_FILE as u64);
}

#[tokio::test]
async fn an_upload_that_breaks_or_stalls_leaves_nothing() {
    let service = start().await;
    let acme = tenant("acme");
    let (_, upload) = service.files.upload_address(&acme).await.unwrap();
    let broken = service.begin(&upload, 1_000_000, &[1; 100_000]).await;
    service.arriving(1).await;
    drop(broken);
    service.arriving(0).await;
    let mut stalled = service.begin(&upload, 1_000_000, &[1; 100_000]).await;
    service.arriving(1).await;
    assert_eq!(read_status(&mut stalled).await, "HTTP/1.1 408");
    service.arriving(0).await;
    assert!(names(&service.home(&acme)).is_empty());
    // The address is still valid.
    assert_eq!(service.put_file(&upload, "whole").await, (200, Json::Null));
}

#[tokio::test]
async fn of_uploads_at_the_same_time_one_wins() {
    let service = start().await;
    let acme = tenant("acme");
    let (file_id, upload) = service.files.upload_address(&acme).await.unwrap();
    let uploads = (1..=8_u8).map(|number| service.put_file(&upload, vec![number; 300_000]));
    let answers = futures_util::future::join_all(uploads).await;
    let winners: Vec<u8> =
        (1..=8).zip(&answers).filter(|(_, answer)| answer.0 == 200).map(|(number, _)| number).collect();
    assert_eq!(winners.len(), 1, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.0 == 200 || *answer == refusal(409, "The file was uploaded already.")));
    assert!(fs::read(service.home(&acme).join(file_id.to_string())).unwrap() == vec![winners[0]; 300_000]);
    service.arriving(0).await;
}

#[tokio::test]
async fn a_deletion_takes_what_is_the_tenants_and_stays() {
    let service = start().await;
    let (acme, other) = (tenant("acme"), tenant("acme"));
    let (gone, other_file) = (service.uploaded(&acme, b"gone").await, service.uploaded(&other, b"kept").await);
    let (_, upload) = service.files.upload_address(&acme).await.unwrap();
    let download = service.files.download_address(&acme, gone).await.unwrap();
    // One upload is in progress.
    let mut racing = service.begin(&upload, 10, b"12345").await;
    service.arriving(1).await;

    service.files.delete_tenant(&acme).await.unwrap();
    assert_eq!(service.get(&download).await, refusal(404, "Not found."));
    assert_eq!(service.put_file(&upload, "late").await, refusal(404, "Not found."));
    racing.write_all(b"67890").await.unwrap();
    assert_eq!(read_status(&mut racing).await, "HTTP/1.1 404");
    service.arriving(0).await;
    assert!(names(&service.directory.join(".deleted")).is_empty());
    // A request with a cached tenant does not create it again.
    assert_eq!(service.files.upload_address(&acme).await, Err(EngineError::NoTenant));
    service.files.delete_tenant(&acme).await.unwrap();
    service.files.delete_tenant(&tenant("never_seen")).await.unwrap();
    let download = service.files.download_address(&other, other_file).await.unwrap();
    assert_eq!(service.get(&download).await, (200, json!("kept")));
}

#[tokio::test]
async fn files_of_a_killed_process_are_removed() {
    let service = start().await;
    let acme = tenant("acme");
    let file_id = service.uploaded(&acme, b"kept").await;
    let (arriving, deleted) = (service.directory.join(".arriving"), service.directory.join(".deleted"));
    let mark = service.directory.join(Uuid::new_v4().to_string());
    let aged = |path: &Path, minutes: u64| {
        let age = Duration::from_micros(NOW as u64) - Duration::from_secs(60 * minutes);
        let file = fs::File::create(path).unwrap();
        file.set_modified(UNIX_EPOCH + age).unwrap();
    };
    let leave = || {
        aged(&arriving.join("old"), 61);
        aged(&arriving.join("young"), 59);
        aged(&mark, 61);
        fs::create_dir_all(deleted.join("half")).unwrap();
        fs::write(deleted.join("half/file"), "x").unwrap();
    };
    leave();
    let again = Files::open(None, service.directory.clone(), service.url.clone(), b"secret", service.clock.clone());
    assert!(again.is_ok());
    assert_eq!(names(&arriving), ["young"]);
    assert!(names(&deleted).is_empty() && !mark.exists());

    // A running service removes them, too, when an address is requested an hour later.
    leave();
    service.clock.advance(3600 * SECOND);
    let download = {
        service.files.upload_address(&acme).await.unwrap();
        service.arriving(0).await;
        service.files.download_address(&acme, file_id).await.unwrap()
    };
    assert_eq!(service.get(&download).await, (200, json!("kept")));
}
