//! Tests many hostile bodies at once, in a process of their own, whose memory is measured. They are sent with the key,
//! since without it no body is read.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use bytes::Bytes;
use futures_util::future::join_all;
use std::time::Duration;
use testkit::HistoryServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const REQUESTS_AT_ONCE: usize = 5;
const MAX_BODY: usize = 16 * 1024 * 1024;
const MAX_GROWTH: usize = 256 * 1024 * 1024;
const TIMEOUT: Duration = Duration::from_secs(60);

const PATHS: [&str; 3] = ["/api/system-events/batch", "/api/event-bridge/create-event", "/api/initialize-tenant"];

/// Returns the maximum memory of the process so far, in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<usize>().unwrap() * 1024
}

/// Returns a body of about [`MAX_BODY`]: a field whose value is an array of equal items.
fn array_of(field: &str, item: &str) -> Bytes {
    let (head, tail) = (format!("{{\"{field}\":[{item}"), "]}");
    let item = format!(",{item}");
    let count = (MAX_BODY - head.len() - tail.len()) / item.len();
    (head + &item.repeat(count) + tail).into()
}

/// Returns the head of a request with the key and a tenant, which announces a body of some length.
fn head(path: &str, client_id: &str, length: usize) -> String {
    let key = testkit::HISTORY_KEY;
    format!(
        "POST {path} HTTP/1.1\r\nhost: a\r\nx-api-key: {key}\r\nx-client-id: {client_id}\r\ncontent-length: {length}\r\n\r\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_bodies_do_not_fill_the_memory() {
    let server = HistoryServer::start().await;
    let tenant = async |name: &str| {
        let wanted = serde_json::json!({"database_name": name, "client_label": name});
        let made = server.client_with_key().post("/api/initialize-tenant", wanted).await.expect_created();
        made["client_id"].as_str().unwrap().to_owned()
    };
    let (first_tenant, other) = (tenant("one").await, tenant("other").await);
    let shapes = [
        array_of("events", "[0]"),
        array_of("resources", "{}"),
        Bytes::from("[".repeat(MAX_BODY)),
        Bytes::from(format!("{{\"detail\":{{\"event_data\":[{}\"1\"]}}}}", "\"1\",".repeat(MAX_BODY / 4 - 16))),
    ];
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let before = peak();

    // These requests send only a piece of their bodies, and so acquire memory or wait for it.
    let mut streams = Vec::new();
    for n in 0..150 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let path = PATHS[n % 2];
        let announced = if n % 3 == 0 { MAX_BODY } else { 200 * 1024 };
        stream.write_all(head(path, &first_tenant, announced).as_bytes()).await.unwrap();
        stream.write_all(&[b'['; 64 * 1024]).await.unwrap();
        streams.push(stream);
    }
    for shape in &shapes {
        let calls = (0..REQUESTS_AT_ONCE).map(|n| {
            let url = format!("http://{}{}", server.address, PATHS[n % PATHS.len()]);
            let call = http.post(url).header("x-client-id", &other);
            let call = if n == 0 { call } else { call.header("x-api-key", testkit::HISTORY_KEY) };
            let (call, is_keyed) = (call.body(shape.clone()).send(), n > 0);
            async move {
                let status = call.await.unwrap().status().as_u16();
                let expected: &[u16] = if is_keyed { &[400, 422, 503] } else { &[401] };
                assert!(expected.contains(&status), "{status}");
            }
        });
        join_all(calls).await;
    }
    drop(streams);
    let grown = peak() - before;
    println!("grown by {} MiB", grown >> 20);
    assert!(grown < MAX_GROWTH, "{} MiB", grown >> 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_whose_bodies_do_not_come_holds_up_nobody_else() {
    let server = HistoryServer::start().await;
    let tenant = async |name: &str| {
        let wanted = serde_json::json!({"database_name": name, "client_label": name});
        let made = server.client_with_key().post("/api/initialize-tenant", wanted).await.expect_created();
        made["client_id"].as_str().unwrap().to_owned()
    };
    let (slow, honest) = (tenant("slow").await, tenant("honest").await);
    let mut streams = Vec::new();
    for announced in [MAX_BODY, MAX_BODY, MAX_BODY].into_iter().chain([256 * 1024; 80]) {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(head(PATHS[0], &slow, announced).as_bytes()).await.unwrap();
        stream.write_all(b"{").await.unwrap();
        streams.push(stream);
    }
    // The test cannot observe that the server has read the beginnings of the bodies.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let began = std::time::Instant::now();
    for length in [MAX_BODY, 1000] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let body = format!("{{\"events\":[]{}}}", " ".repeat(length - 13));
        stream.write_all(head(PATHS[0], &honest, length).as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        tokio::time::timeout(TIMEOUT, stream.read_exact(&mut answer)).await.unwrap().unwrap();
        assert_eq!(&answer, b"HTTP/1.1 201");
    }
    // The slow bodies are refused after ten seconds at the earliest.
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
    drop(streams);
}
