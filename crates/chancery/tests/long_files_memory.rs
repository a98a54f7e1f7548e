//! Uploads and downloads of 50 MB, in a process of their own, whose memory is measured: some with the data directory and with S3,
//! and a hundred at once.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "served/mod.rs"]
mod served;

use serde_json::json;
use served::TestServer;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::{ApiClient, DOMAIN, S3Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const MIB: usize = 1024 * 1024;
const SIZE: usize = 50 * MIB;
/// The number of concurrent transfers. The allocator requests memory in pieces of 2 MiB, and returns it late on a busy machine.
const FILES: usize = 8;
/// The maximum memory of one file.
const MAX_OF_ONE: usize = 4 * MIB;
/// The maximum memory of a download from S3. Its client reads 400 KiB at a time, and the allocator retains freed memory for a
/// moment.
const MAX_FROM_S3: usize = 8 * MIB;
/// The number of concurrent uploads, and the maximum memory of all.
const AT_ONCE: usize = 100;
const MAX_OF_ALL: usize = 256 * MIB;
/// The part of each upload that is sent by then.
const SENT_AT_ONCE: usize = 4 * MIB;

static CHUNK: [u8; 64 * 1024] = [b'x'; 64 * 1024];

/// Returns the present memory of the process in bytes.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<usize>().unwrap() * 1024
}

/// Returns the result of a future, and the maximum growth of the process in the meantime.
async fn growth<T>(what: impl Future<Output = T>) -> (T, usize) {
    let (before, is_over) = (memory(), Arc::new(AtomicBool::new(false)));
    let watched = is_over.clone();
    let watch = std::thread::spawn(move || {
        let mut most = before;
        while !watched.load(Ordering::Relaxed) {
            most = most.max(memory());
            // The interval at which memory is measured.
            std::thread::sleep(Duration::from_millis(2));
        }
        most - before
    });
    let done = what.await;
    is_over.store(true, Ordering::Relaxed);
    (done, watch.join().unwrap())
}

async fn connected(address: SocketAddr, line: &str, more: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("{line} HTTP/1.1\r\nHost: {DOMAIN}\r\nConnection: close\r\n{more}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Begins to upload a file of 50 MB, and sends this part of it.
async fn start_upload(api: &ApiClient, byte_count: usize) -> std::io::Result<TcpStream> {
    let more = format!(
        "Authorization: JWT {}\r\nContent-Disposition: attachment; filename=a.txt\r\nContent-Length: {SIZE}\r\n",
        api.token
    );
    let mut stream = connected(api.address(), "POST /api/files/upload/", &more).await;
    for _ in 0..byte_count / CHUNK.len() {
        stream.write_all(&CHUNK).await?;
    }
    Ok(stream)
}

/// Uploads a file of 50 MB. Returns its token.
async fn upload(api: ApiClient) -> String {
    let mut answer = String::new();
    start_upload(&api, SIZE).await.unwrap().read_to_string(&mut answer).await.unwrap();
    let token = answer.split_once("{\"token\":\"").unwrap_or_else(|| panic!("{answer}")).1;
    token.split_once('"').unwrap().0.to_owned()
}

/// Downloads a file. Returns the number of bytes, including the head.
async fn download(api: ApiClient, path: String) -> usize {
    let mut stream = connected(api.address(), &format!("GET {path}"), "").await;
    let (mut length, mut piece) = (0, vec![0; 64 * 1024]);
    loop {
        match stream.read(&mut piece).await.unwrap() {
            0 => return length,
            count => length += count,
        }
    }
}

async fn public(api: &ApiClient, token: &str) -> String {
    let made = api.post("/api/files/public-storage/", json!({"token": token})).await.expect_created();
    format!("/api/files/public-storage/{}/", made["uuid"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_files_take_little_memory() {
    // Files are never in the database.
    if testkit::test_database().is_some() {
        return;
    }
    let s3 = S3Server::start();
    let (url, environment) = (s3.url("files"), s3.environment());
    let with_s3 = TestServer::start_with(|settings| {
        settings.domains.edit::<platform::files::FileSettings>().files_url = Some(url);
        settings.domains.edit::<platform::files::FileSettings>().environment = Some(environment);
    });
    let servers = [("data directory", TestServer::start().await), ("S3", with_s3.await)];
    for ((place, server), max_of_download) in servers.iter().zip([MAX_OF_ONE, MAX_FROM_S3]) {
        let api = server.admin().await;
        // The first files allocate memory that later ones use again.
        let firsts: JoinSet<_> = (0..FILES).map(|_| upload(api.clone())).collect();
        for token in firsts.join_all().await {
            let path = public(&api, &token).await;
            assert!(download(api.clone(), path).await > SIZE);
        }

        let uploads: JoinSet<_> = (0..FILES).map(|_| upload(api.clone())).collect();
        let (tokens, of_uploads) = growth(uploads.join_all()).await;
        let mut paths = Vec::new();
        for token in tokens {
            paths.push(public(&api, &token).await);
        }
        let downloads: JoinSet<_> = paths.into_iter().map(|path| download(api.clone(), path)).collect();
        let (lengths, of_downloads) = growth(downloads.join_all()).await;
        assert!(lengths.iter().all(|length| (SIZE..SIZE + 2000).contains(length)), "{lengths:?} bytes");
        let [of_upload, of_download] = [of_uploads, of_downloads].map(|grown| grown / FILES);
        println!("{place}: an upload of 50 MB takes {} KiB, its download {} KiB", of_upload >> 10, of_download >> 10);
        assert!(
            of_upload < MAX_OF_ONE && of_download < max_of_download,
            "{place}: {of_upload} and {of_download} bytes"
        );
    }

    let api = servers[0].1.admin().await;
    let ((open_uploads, refused), of_all) = growth(async {
        let mut uploads = JoinSet::new();
        for _ in 0..AT_ONCE {
            let api = api.clone();
            uploads.spawn(async move { start_upload(&api, SENT_AT_ONCE).await });
        }
        let streams = uploads.join_all().await;
        let mut open_uploads = Vec::new();
        let mut refused = 0;
        for stream in streams {
            let Ok(mut stream) = stream else {
                refused += 1;
                continue;
            };
            let mut answer = [0; 12];
            match tokio::time::timeout(Duration::from_millis(5), stream.read(&mut answer)).await {
                Ok(_) => refused += 1,
                Err(_) => open_uploads.push(stream),
            }
        }
        (open_uploads, refused)
    })
    .await;
    println!(
        "{AT_ONCE} uploads at once, {} taken and {refused} refused, take {} KiB",
        open_uploads.len(),
        of_all >> 10
    );
    // The maximum of concurrent uploads in a build.
    assert_eq!((open_uploads.len(), refused), (64, AT_ONCE - 64));
    assert!(of_all < MAX_OF_ALL, "{of_all} bytes");
    // Other requests are served.
    api.get("/api/users/me/").await.ok();
}
