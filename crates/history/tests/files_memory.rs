//! Tests many uploads at once, in a process of their own, whose memory is measured.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use bytes::Bytes;
use history::engine::Tenant;
use history::files::Files;
use std::sync::Arc;
use uuid::Uuid;
use web::clock::Clock;
use web::listener::{Limits, serve};

const UPLOADS: usize = 100;
/// The size of each upload in bytes. Together they far exceed the permitted growth of memory.
const LENGTH: usize = 6 * 1024 * 1024;
const MAX_GROWTH: usize = 256 * 1024 * 1024;

/// Returns the maximum memory of the process so far, in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<usize>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_uploads_at_once_do_not_fill_the_memory() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let data = tempfile::tempdir().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let files = Arc::new(Files::open(None, data.path().join("files"), url, b"secret", Clock::system()).unwrap());
    let served = files.clone();
    let handler = move |request, _| {
        let files = served.clone();
        async move { files.answer(request).await }
    };
    tokio::spawn(serve(listener, handler, Limits::default(), std::future::pending::<()>()));

    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let (client_id, secret_hash, client_label) = (Uuid::new_v4(), String::new(), String::new());
    let tenant = Tenant { client_id, secret_hash, database_name: "acme".into(), client_label };
    let content = Bytes::from(vec![7; LENGTH]);
    let before = peak();
    let uploads = (0..UPLOADS).map(|_| async {
        let (file_id, address) = files.upload_address(&tenant).await.unwrap();
        assert_eq!(http.put(&address).body(content.clone()).send().await.unwrap().status(), 200);
        file_id
    });
    let ids = futures_util::future::join_all(uploads).await;
    let grown = peak() - before;
    assert!(grown < MAX_GROWTH, "{} MiB", grown >> 20);
    for id in ids {
        let path = data.path().join(format!("files/{client_id}/{id}"));
        assert_eq!(std::fs::metadata(path).unwrap().len(), LENGTH as u64);
    }
}
