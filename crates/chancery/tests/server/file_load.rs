//! Slow uploads and downloads, and many long ones at once, beside single reads. The tests measure times, so `reliability/files`
//! runs them against a release build.

use crate::BINARY;
use crate::file_writers::{PUBLIC, RECORDS, prepare};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use testkit::{ADMIN, ApiClient, Installation, PASSWORD, Process, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

const HOSTS: [&str; 4] = ["localhost", "b.example", "c.example", "d.example"];
/// The number of slow uploads, and of slow downloads.
const SLOW: usize = 200;
/// The duration of the load.
const LASTS: Duration = Duration::from_secs(30);
/// The number of uploads at full speed.
const FAST: usize = 100;
const SIZE: usize = 50 * 1024 * 1024;
/// The maximum of the 99th percentile of single reads.
const PATIENCE: Duration = Duration::from_millis(250);
/// The maximum growth of the process in MiB.
const MAX_GROWTH: u64 = 256;

static CHUNK: [u8; 64 * 1024] = [b'x'; 64 * 1024];

/// Reads of records, one after the other.
struct RecordReads {
    is_over: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Vec<Duration>>>,
}

impl RecordReads {
    /// Starts two readers of each build.
    fn start(clients: &[(ApiClient, String)]) -> RecordReads {
        let is_over: Arc<AtomicBool> = Arc::default();
        let read = |(client, record): &(ApiClient, String)| {
            let (client, record, is_over) = (client.clone(), record.clone(), is_over.clone());
            tokio::spawn(async move {
                let mut times = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    client.get(&record).await.ok();
                    times.push(begun.elapsed());
                    // A client pauses between its calls.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                times
            })
        };
        let tasks = clients.iter().chain(clients).map(read).collect();
        RecordReads { is_over, tasks }
    }

    /// Returns the number of reads, their 99th percentile, and the longest.
    async fn end(self) -> (usize, Duration, Duration) {
        self.is_over.store(true, Ordering::Relaxed);
        let mut times = Vec::new();
        for task in self.tasks {
            times.extend(task.await.unwrap());
        }
        times.sort();
        (times.len(), times[times.len() * 99 / 100], times[times.len() - 1])
    }
}

/// Opens a connection with a small receive buffer.
async fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 * 1024).unwrap();
    socket.connect(address).await.unwrap()
}

fn upload_head(client: &ApiClient, host: &str) -> String {
    format!(
        "POST /api/files/upload/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAuthorization: JWT {}\r\n\
         Content-Disposition: attachment; filename=a.txt\r\nContent-Length: {SIZE}\r\n\r\n",
        client.token
    )
}

/// Sends 64 KiB of an upload per second, and counts itself among the active ones.
async fn slow_upload(client: ApiClient, host: &'static str, at_work: Arc<AtomicUsize>) {
    let mut stream = connect(client.address()).await;
    stream.write_all(upload_head(&client, host).as_bytes()).await.unwrap();
    at_work.fetch_add(1, Ordering::Relaxed);
    while stream.write_all(&CHUNK).await.is_ok() {
        // The client is slow.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    at_work.fetch_sub(1, Ordering::Relaxed);
}

/// Reads 64 KiB of a download per second.
async fn slow_download(address: SocketAddr, host: &'static str, path: String, at_work: Arc<AtomicUsize>) {
    let mut stream = connect(address).await;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).await.unwrap();
    let mut piece = vec![0; 64 * 1024];
    at_work.fetch_add(1, Ordering::Relaxed);
    while stream.read_exact(&mut piece).await.is_ok() {
        // The client is slow.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    at_work.fetch_sub(1, Ordering::Relaxed);
}

/// Uploads 50 MB at full speed. Returns the status.
async fn fast_upload(client: ApiClient, host: &'static str) -> String {
    let mut stream = connect(client.address()).await;
    stream.write_all(upload_head(&client, host).as_bytes()).await.unwrap();
    for _ in 0..SIZE / CHUNK.len() {
        if stream.write_all(&CHUNK).await.is_err() {
            break;
        }
    }
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    answer.split(' ').nth(1).unwrap_or("none").to_owned()
}

/// Creates a record and a public file of 50 MB in each build. Returns the paths.
async fn create_files(process: &Process) -> (Vec<(ApiClient, String)>, Vec<String>) {
    let (mut clients, mut files) = (Vec::new(), Vec::new());
    for host in HOSTS {
        let client = process.client(host).sign_in(ADMIN, PASSWORD).await;
        prepare(&client).await;
        let record = client.post(RECORDS, json!({"fields": {"title": "read"}})).await.id();
        let token = client.upload("a.txt", vec![b'x'; SIZE]).await;
        let made = client.post(PUBLIC, json!({"token": token})).await.expect_created();
        files.push(format!("{PUBLIC}{}/", made["uuid"].as_str().unwrap()));
        clients.push((client, format!("/api/object-records/{record}/")));
    }
    (clients, files)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it is timed: reliability/files"]
async fn slow_files_and_many_at_once_disturb_no_reads() {
    let installation = Installation::with_build(BINARY).set("CHANCERY_TRUSTED_PROXIES", "127.0.0.1");
    HOSTS[1..].iter().for_each(|host| drop(installation.succeeds(&["build", "create", host])));
    let process = installation.serve();
    let (clients, files) = create_files(&process).await;

    let before = process.held_memory();
    let (at_work, mut slow) = (Arc::<AtomicUsize>::default(), JoinSet::new());
    for n in 0..SLOW {
        let build = n % HOSTS.len();
        slow.spawn(slow_upload(clients[build].0.clone(), HOSTS[build], at_work.clone()));
        slow.spawn(slow_download(process.api(), HOSTS[build], files[build].clone(), at_work.clone()));
    }
    eventually(async || at_work.load(Ordering::Relaxed) == 2 * SLOW).await;
    let reads = RecordReads::start(&clients);
    let (begun, mut most) = (Instant::now(), before);
    while begun.elapsed() < LASTS {
        // The interval at which memory is measured.
        tokio::time::sleep(Duration::from_millis(100)).await;
        most = most.max(process.held_memory());
    }
    let (count, p99, longest) = reads.end().await;
    let still = at_work.load(Ordering::Relaxed);
    println!(
        "{SLOW} slow uploads and {SLOW} slow downloads ({still} of them after {LASTS:?}): {count} reads, p99 {p99:.1?}, longest \
         {longest:.1?}; memory grew by {} MiB",
        most - before
    );
    assert_eq!(still, 2 * SLOW);
    assert!(p99 < PATIENCE && most - before < MAX_GROWTH, "p99 {p99:?}, {} MiB", most - before);
    slow.shutdown().await;

    // Memory is released before the next measurement.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = process.held_memory();
    let (reads, begun, mut most) = (RecordReads::start(&clients), Instant::now(), before);
    let mut fast = JoinSet::new();
    for n in 0..FAST {
        let build = n % 2;
        fast.spawn(fast_upload(clients[build].0.clone(), HOSTS[build]));
    }
    let mut accepted_count = 0;
    while !fast.is_empty() {
        // The interval at which memory is measured.
        tokio::time::sleep(Duration::from_millis(50)).await;
        most = most.max(process.held_memory());
        while let Some(status) = fast.try_join_next() {
            let status = status.unwrap();
            assert!(status == "201" || status == "503", "{status}");
            accepted_count += usize::from(status == "201");
        }
    }
    let lasted = begun.elapsed();
    let (count, p99, longest) = reads.end().await;
    println!(
        "{FAST} uploads of 50 MB at once, {accepted_count} taken, in {lasted:.1?}: {count} reads, p99 {p99:.1?}, longest {longest:.1?}; \
         memory grew by {} MiB",
        most - before
    );
    assert!(p99 < PATIENCE && most - before < MAX_GROWTH, "p99 {p99:?}, {} MiB", most - before);
    process.stop();
}
