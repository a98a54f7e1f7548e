//! The answers of the server while its database or its disk fails, and its recovery without an operator (issue: "PostgreSQL stopped
//! for 30 s: 503 with a clear error, recovery without a restart. A full disk: 503, recovery").

use crate::BINARY;
use crate::message;
use crate::workload::{READY, Workload, admin, events, expect_served, prepare_installation, reconnect};
use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};
use testkit::{ADMIN, ApiClient, Installation, PASSWORD, PostgreSql, PreparedCall, Process, Reply};

/// Returns the duration of the outage of PostgreSQL: 30 seconds in long runs of the tests.
fn outage() -> Duration {
    Duration::from_secs(if std::env::var_os("CHANCERY_TEST_ROUNDS").is_some() { 30 } else { 3 })
}

/// The maximum time for an answer. A statement may take 10 seconds, and the store stops waiting after 15.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns a read, a write and a sign-in.
fn calls(admin: &ApiClient, n: usize) -> [PreparedCall; 3] {
    [
        admin.call("GET", "/api/roles/"),
        admin.call("POST", "/api/roles/").json(&json!({"name": format!("Role {n}")})),
        admin.anonymous().call("POST", "/api/auth/login/").json(&json!({"username": ADMIN, "password": PASSWORD})),
    ]
}

/// Returns the answer, which must arrive in time.
async fn answer(call: PreparedCall) -> Reply {
    let began = Instant::now();
    let reply = call.send().await;
    assert!(began.elapsed() < PATIENCE, "an answer after {:?}: {reply:?}", began.elapsed());
    reply
}

/// Expects 503 with one of these texts and nothing else.
#[track_caller]
pub fn expect_unavailable(reply: &Reply, details: &[&str]) {
    assert!(details.iter().any(|text| *reply == (503, message::detail(text))), "{reply:?}");
    assert_eq!(reply.header("retry-after"), "1");
}

/// Expects that no answer was 500.
#[track_caller]
pub fn expect_no_failures(process: &Process) {
    let log = process.stderr();
    let failures: Vec<&str> = log.lines().filter(|line| line.contains("\"status\":500")).collect();
    assert!(log.contains("\"status\":503") && failures.is_empty(), "{failures:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn postgresql_may_stop_for_a_while() {
    let Some(mut postgresql) = PostgreSql::start() else { return };
    let installation = prepare_installation(Installation::on_postgres(BINARY, &postgresql.url()).and_build());
    let process = installation.serve();
    let admin = admin(&process).await;

    postgresql.stop();
    let (end, mut slowest) = (Instant::now() + outage(), Duration::ZERO);
    let mut n = 0;
    while Instant::now() < end {
        for call in calls(&admin, n) {
            let began = Instant::now();
            expect_unavailable(&answer(call).await, &["The storage is not available."]);
            slowest = slowest.max(began.elapsed());
        }
        expect_unavailable(&answer(admin.call("GET", "/readyz")).await, &["The storage is not available."]);
        admin.get("/healthz").await.ok();
        n += 1;
        // Clients pause between their calls during the outage.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let accepts = postgresql.restart();
    expect_served(&admin).await;
    let ready = accepts.elapsed();
    println!("stopped for {:?}: answers within {slowest:.2?}, ready again after {ready:.2?}", outage());
    assert!(ready < READY, "ready again after {ready:?}");
    for call in calls(&admin, n) {
        assert!(matches!(answer(call).await.status, 200 | 201));
    }
    expect_no_failures(&process);
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn postgresql_may_stand_still_for_a_while() {
    let Some(postgresql) = PostgreSql::start() else { return };
    let installation = prepare_installation(Installation::on_postgres(BINARY, &postgresql.url()).and_build());
    let process = installation.serve();
    let admin = admin(&process).await;

    postgresql.freeze();
    let frozen = Instant::now();
    // The number exceeds the connections.
    let mut waiting = Vec::new();
    for n in 0..10 {
        waiting.extend(calls(&admin, n).map(|call| tokio::spawn(answer(call))));
    }
    while frozen.elapsed() < outage() {
        expect_unavailable(&answer(admin.call("GET", "/readyz")).await, &["The storage is not available."]);
    }
    let last = tokio::spawn(answer(admin.call("GET", "/api/roles/")));
    postgresql.thaw();
    let thawed = Instant::now();
    expect_served(&admin).await;
    let ready = thawed.elapsed();
    println!("stood still for {:?}: ready again after {ready:.2?}", outage());
    assert!(ready < READY, "ready again after {ready:?}");
    // Calls that waited too long were refused; the others were served late.
    for task in waiting.into_iter().chain([last]) {
        let reply = task.await.unwrap();
        if !matches!(reply.status, 200 | 201) {
            expect_unavailable(&reply, &["The storage is not available.", "The server is busy. Please try again."]);
        }
    }
    for call in calls(&admin, 100) {
        assert!(matches!(answer(call).await.status, 200 | 201));
    }
    expect_no_failures(&process);
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_writes_and_serves_reads() {
    let installation = prepare_installation(Installation::embedded(BINARY).with_small_disk(48)).and_build();
    let process = installation.serve();
    let admin = admin(&process).await;
    let events = events(&installation, &process);
    let mut workload = Workload::prepare(&admin).await;
    let writers = workload.start(&admin);
    writers.are_at_work().await;
    let upload = events.get("/api/files/upload-url").await.ok();
    let upload = upload["upload_url"].as_str().unwrap().strip_prefix(&format!("http://{}", process.history())).unwrap();
    let event_count = events.get("/api/system-events").await.ok()["total_count"].clone();

    installation.disk().fill_disk();
    // The unused space in the files is filled first.
    let mut n = 0;
    let full = until_refused(async || {
        n += 1;
        admin.post("/api/user-groups/", json!({"name": format!("Full {n}")})).await
    })
    .await;
    assert_eq!((full.json.clone(), full.header("retry-after")), (message::detail("The storage is full."), "1"));
    let outage = message::detail("ClickHouse temporarily unavailable.");
    let refused = until_refused(async || {
        n += 1;
        events.post("/api/system-events/batch", json!({"events": [event(n)]})).await
    });
    assert_eq!(refused.await.json, outage);
    let put = events.call("PUT", upload).body("application/octet-stream", vec![7; 100_000]).send().await;
    put.expect_reply(503, message::detail("The storage is full."));
    for path in ["/api/roles/", "/api/users/", "/api/users/me/", "/api/administration/log/", "/readyz"] {
        admin.get(path).await.ok();
    }
    assert!(events.get("/api/system-events").await.ok()["total_count"].as_u64() >= event_count.as_u64());
    events.get("/readyz").await.ok();

    installation.disk().free_space();
    let began = Instant::now();
    writers.are_at_work().await;
    assert!(began.elapsed() < READY, "writes again after {:?}", began.elapsed());
    writers.stop().await;
    events.post("/api/system-events/batch", json!({"events": [event(n)]})).await.expect_created();
    events.call("PUT", upload).body("application/octet-stream", vec![7; 100_000]).send().await.expect(200);
    expect_no_failures(&process);

    // A server that is killed on a full disk can start there, and serves acknowledged data.
    installation.disk().fill_disk();
    process.kill();
    let process = installation.serve();
    let admin = reconnect(&process, &admin);
    expect_served(&admin).await;
    installation.disk().free_space();
    workload.check("full disk", None, &admin, &crate::workload::events(&installation, &process)).await;
}

/// Writes until a write is refused with 503.
async fn until_refused(mut write: impl AsyncFnMut() -> Reply) -> Reply {
    for _ in 0..10_000 {
        let reply = write().await;
        if reply.status == 503 {
            return reply;
        }
    }
    panic!("the disk is never full");
}

fn event(n: usize) -> Json {
    json!({
        "id": format!("00000000-0000-4000-8000-{n:012x}"), "event_timestamp": "2026-01-31T09:30:00Z", "category": 1,
        "event_type": 2, "source_info": "x".repeat(3000),
    })
}
