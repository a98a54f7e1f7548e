//! Many large answers that clients do not read need little memory and delay no other caller (security, promise "resources stay
//! bounded"). `reliability/answers` requests 200 at once of each kind from a release build.

use crate::BINARY;
use crate::TestServer;
use crate::hostile_bodies::{agent, honest, p99};
use platform::kit::serve;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use store::{Conn, Sql, StoreError};
use testkit::{ADMIN, ApiClient, Installation, PASSWORD, Process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::sync::watch;
use tokio::task::JoinSet;
use web::listener::{self, Limits};

/// The maximum growth of memory in MiB.
const GROWTH: u64 = 256;
/// The length of a long value, and the number of values of a record. Fifteen such records have 26 MiB.
const LONG: usize = 65_000;
const VALUES: usize = 28;
const RECORDS: usize = 15;
const SETS: usize = 20;

/// A server, and callers who may request large answers.
struct LargeAnswersScene {
    _installation: Installation,
    process: Process,
    admin: ApiClient,
    /// The path of a connector's server, and the token of an agent that may edit record 1.
    agent: (String, String),
}

/// Starts a server whose class 1 has a list of records of 26 MiB and a list of fields of 1.3 MiB.
async fn start_scene() -> LargeAnswersScene {
    let installation = Installation::with_build(BINARY).set("CHANCERY_ADDRESS_ATTEMPTS", "0");
    let process = installation.serve();
    let admin = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    admin.post("/api/object-classes/", json!({"name": "Class"})).await.expect_created();
    for n in 0..VALUES {
        let field = json!({"label": format!("T {n}"), "type": "text"});
        admin.post("/api/object-classes/1/fields/", field).await.expect_created();
    }
    let long = "x".repeat(LONG);
    let values = |count: usize| (0..count).map(|n| (format!("t_{n}"), json!(long))).collect::<serde_json::Map<_, _>>();
    let agent = agent(&process, &admin).await;
    let integration = admin.get("/api/integrations/").await.ok()["results"][0]["uuid"].as_str().unwrap().to_owned();
    admin.patch(&format!("/api/integrations/{integration}/"), json!({"object_classes": [1]})).await.ok();
    let rights = json!({"object_records": ["view", "edit"]});
    let set = json!({"name": "All", "permissions": rights});
    admin.post("/api/object-classes/1/record-permission-sets/", set).await.expect_created();
    let of_agents = json!({"mcp_permissions": [{"connector": 1, "permissions": rights}]});
    admin.patch("/api/object-classes/1/record-permission-sets/1/", of_agents).await.ok();
    let record = json!({"fields": values(14), "permission_sets": [{"permission_set": 1, "users": [1]}]});
    admin.post("/api/object-classes/1/object-records/", record).await.expect_created();
    for _ in 0..RECORDS {
        admin.post("/api/object-classes/1/object-records/", json!({"fields": values(VALUES)})).await.expect_created();
    }
    for n in 0..SETS {
        let options: Vec<_> = (0..500).map(|at| json!({"value": format!("v{at}"), "text": "y".repeat(100)})).collect();
        let field = json!({"label": format!("Set {n}"), "type": "set", "options": options});
        admin.post("/api/object-classes/1/fields/", field).await.expect_created();
    }
    LargeAnswersScene { _installation: installation, process, admin, agent }
}

/// Sends a request as a text, and reads a kilobyte per second of the answer.
async fn read_slowly(process_api: std::net::SocketAddr, request: String, lasts: Duration) -> u16 {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(process_api).await.unwrap();
    let mut head = [0; 12];
    let reading = async {
        stream.write_all(request.as_bytes()).await?;
        stream.read_exact(&mut head).await?;
        let mut piece = [0; 1000];
        while stream.read(&mut piece).await? > 0 {
            // The client is slow.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        std::io::Result::Ok(())
    };
    let _ = tokio::time::timeout(lasts, reading).await;
    std::str::from_utf8(&head).ok().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.parse().ok()).unwrap_or(0)
}

fn get(client: &ApiClient, path: &str, more: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: JWT {}\r\n{more}\r\n", client.token)
}

/// Returns a call of the tool `update_record`, whose answer contains the record of 0.9 MB twice.
fn call_tool((path, token): &(String, String)) -> String {
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "update_record", "arguments": {"object_record": 1, "fields": {"t_0": "z"}}},
    })
    .to_string();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-06-18\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Starts a number of slow readers of each answer, beside ordinary calls.
async fn disturb(count: usize, lasts: Duration, most_p99: Option<Duration>) {
    let LargeAnswersScene { process, admin, agent, .. } = &start_scene().await;
    let requests = [
        ("records", get(admin, "/api/object-classes/1/object-records/?limit=1000", "")),
        (
            "records, compressed",
            get(admin, "/api/object-classes/1/object-records/?limit=1000", "Accept-Encoding: gzip\r\n"),
        ),
        ("fields", get(admin, "/api/object-classes/1/fields/?limit=1000", "")),
        ("one record", get(admin, "/api/object-records/2/", "")),
        ("a tool of an agent", call_tool(agent)),
    ];
    for (name, request) in requests {
        let before = process.held_memory();
        let (tell, done) = watch::channel(false);
        let honest = tokio::spawn(honest(admin.clone(), done));
        let mut readers = JoinSet::new();
        for _ in 0..count {
            readers.spawn(read_slowly(process.api(), request.clone(), lasts));
        }
        let (mut most, mut statuses) = (before, BTreeMap::new());
        while !readers.is_empty() {
            // The interval at which memory is measured.
            tokio::time::sleep(Duration::from_millis(50)).await;
            most = most.max(process.held_memory());
            while let Some(status) = readers.try_join_next() {
                *statuses.entry(status.unwrap()).or_insert(0) += 1;
            }
        }
        tell.send_replace(true);
        let mut times = honest.await.unwrap();
        times.sort();
        println!(
            "{count} slow readers of {name}: {statuses:?}; memory grew by {} MiB; {} honest calls, p99 {:.1?}",
            most - before,
            times.len(),
            p99(&times)
        );
        assert!(statuses.keys().all(|status| [0, 200, 503].contains(status)), "{name}: {statuses:?}");
        assert!(most - before <= GROWTH, "{name}: memory grew by {} MiB", most - before);
        assert!(most_p99.is_none_or(|most| p99(&times) <= most), "{name}: p99 {:?}", p99(&times));
        // A reader with the usual pace is served immediately again.
        admin.get("/api/object-classes/1/fields/?limit=1000").await.ok();
    }
}

#[tokio::test]
async fn a_page_of_any_list_has_at_most_32_mib() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    for name in ["Clerk", "Auditor"] {
        admin.post("/api/roles/", json!({"name": name, "permissions": {}})).await.expect_created();
    }
    // The text is longer than the maximum of a role.
    let long = "x".repeat(17 * 1024 * 1024);
    let write = move |conn: &mut Conn| conn.exec(&Sql::new("UPDATE roles SET description = $1").arg(long.clone()));
    server.build.db.write::<_, StoreError>(write).await.unwrap();

    let refused = json!({"limit": ["Ensure that the page has at most 32 MiB."]});
    admin.get("/api/roles/").await.expect_reply(400, refused);
    // A single instance always fits.
    let page = admin.get("/api/roles/?limit=1").await.ok();
    assert_eq!(page["results"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_reads_take_little_memory() {
    disturb(24, Duration::from_secs(3), None).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it is timed: reliability/answers"]
async fn two_hundred_answers_that_nobody_reads_disturb_nobody() {
    disturb(200, Duration::from_secs(30), Some(Duration::from_millis(250))).await;
}

/// Reads an answer at a rate in bytes per second, for at most this time. Returns the bytes and whether the connection was cut.
async fn read_at_rate(address: SocketAddr, request: String, rate: usize, longest: Duration) -> (usize, bool) {
    const PIECES_A_SECOND: usize = 20;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let (began, mut read, mut piece) = (Instant::now(), 0, vec![0; rate / PIECES_A_SECOND]);
    while began.elapsed() < longest {
        match stream.read_exact(&mut piece).await {
            Ok(count) => read += count,
            Err(_) => return (read, true),
        }
        // The test needs this rate.
        tokio::time::sleep(Duration::from_secs(1) / PIECES_A_SECOND as u32).await;
    }
    (read, false)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_below_the_lowest_rate_is_cut_off() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    admin.post("/api/roles/", json!({"name": "Clerk", "permissions": {}})).await.expect_created();
    let long = "x".repeat(8 * 1024 * 1024);
    let write = move |conn: &mut Conn| conn.exec(&Sql::new("UPDATE roles SET description = $1").arg(long.clone()));
    server.build.db.write::<_, StoreError>(write).await.unwrap();

    // The kernel buffers little of an answer at this listener, so that the rate has an effect after seconds.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_send_buffer_size(32 * 1024).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let (app, listener) = (server.app.clone(), socket.listen(16).unwrap());
    let address = listener.local_addr().unwrap();
    let handler = move |request, peer| serve::answer(app.clone(), platform::table(), request, peer);
    tokio::spawn(listener::serve(listener, handler, Limits::default(), std::future::pending::<()>()));

    let request = get(&admin, "/api/roles/", "").replace("localhost", testkit::DOMAIN);
    let began = Instant::now();
    let honest = tokio::spawn(read_at_rate(address, request.clone(), 200_000, Duration::from_secs(16)));
    // The rate is below 64 KiB per second, but never without progress for ten seconds, after which any answer would end.
    let (read, is_cut) = read_at_rate(address, request, 20_000, Duration::from_secs(40)).await;
    println!("cut off after {:.1?} and {read} bytes", began.elapsed());
    assert!(is_cut && read > 50_000, "{read} bytes");
    assert!((Duration::from_secs(5)..Duration::from_secs(30)).contains(&began.elapsed()), "{:?}", began.elapsed());
    let (read, is_cut) = honest.await.unwrap();
    assert!(!is_cut && read > 1_000_000, "{read} bytes");
}
