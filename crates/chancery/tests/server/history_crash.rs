//! A history service that is killed during many writes, and its engine. Acknowledged events are stored, once (issue: "an event
//! acknowledged is an event kept, once").

use crate::BINARY;
use crate::workload::{READY, WRITERS};
use crate::writers::{RunningWriters, WorkloadWriter, WriterNotes, down_time, until_kill};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use testkit::{ApiClient, ClickHouseServer, HISTORY_KEY, Installation, Process, eventually, rounds};

const BATCH: usize = 50;

/// The events that were sent, and those that were acknowledged.
#[derive(Default)]
struct AcknowledgedEvents {
    batches: Vec<Vec<Json>>,
    inserted: u64,
    acknowledged: BTreeSet<String>,
    events: Vec<Json>,
    /// Answers that must not occur.
    faults: Vec<String>,
}

/// Returns an installation on the engine of the tests. `None` for the embedded one.
fn installation(url: Option<&str>) -> Installation {
    let installation = Installation::embedded(BINARY).set("CHANCERY_HISTORY_API_KEY", HISTORY_KEY);
    match url {
        Some(url) => installation.set("CHANCERY_HISTORY_DATABASE_URL", url),
        None => installation,
    }
}

fn caller(process: &Process, client_id: &str) -> ApiClient {
    let client = ApiClient::new(process.history(), "history.example").with_header("x-api-key", HISTORY_KEY);
    if client_id.is_empty() { client } else { client.with_header("x-client-id", client_id) }
}

async fn tenant(process: &Process) -> String {
    let wanted = json!({"database_name": "crash", "client_label": "crash"});
    let made = caller(process, "").post("/api/initialize-tenant", wanted).await.expect_created();
    made["client_id"].as_str().unwrap().to_owned()
}

fn id(writer: usize, n: usize) -> String {
    format!("{writer:08x}-0000-4000-8000-{n:012x}")
}

fn system_event(id: &str) -> Json {
    json!({"id": id, "event_timestamp": "2026-01-31T09:30:00Z", "category": 1, "event_type": 1})
}

fn history_event(id: &str) -> Json {
    json!({
        "version": "0", "id": id, "detail-type": "event", "source": "crash", "account": "", "time": "2026-01-31T09:30:00Z",
        "region": "", "resources": [], "detail": {
            "event_id": id, "event_time": "2026-01-31T09:30:00Z", "event_type_id": 7, "record_id": 1, "source_id": 1,
            "source_type_id": 1, "event_data": [],
        },
    })
}

impl WriterNotes for AcknowledgedEvents {
    const AT_WORK: usize = 1000;

    fn acknowledged(&self) -> usize {
        self.acknowledged.len()
    }

    fn faults(&self) -> &[String] {
        &self.faults
    }
}

/// Begins a round: one half of the writers sends batches, the other single events, one after the other.
fn start(
    client: &ApiClient,
    round: usize,
    told: &Arc<Mutex<AcknowledgedEvents>>,
) -> RunningWriters<AcknowledgedEvents> {
    RunningWriters::start(WRITERS, told, |writer, _| {
        let (client, told) = (client.clone(), told.clone());
        EventSender { client, told, number: round * WRITERS + writer, in_batches: writer % 2 == 0 }
    })
}

struct EventSender {
    client: ApiClient,
    told: Arc<Mutex<AcknowledgedEvents>>,
    number: usize,
    in_batches: bool,
}

impl WorkloadWriter for EventSender {
    async fn write(&self, n: usize) -> Option<()> {
        match self.in_batches {
            true => send_batch(&self.client, self.number, n, &self.told).await,
            false => send_event(&self.client, self.number, n, &self.told).await,
        }
    }
}

async fn send_batch(
    client: &ApiClient,
    writer: usize,
    n: usize,
    acknowledged_events: &Mutex<AcknowledgedEvents>,
) -> Option<()> {
    let events: Vec<Json> = (0..BATCH).map(|at| system_event(&id(writer, n * BATCH + at))).collect();
    acknowledged_events.lock().unwrap().batches.push(events.clone());
    let call = client.call("POST", "/api/system-events/batch").json(&json!({"events": events}));
    let reply = call.try_send().await?;
    let mut acknowledged_events = acknowledged_events.lock().unwrap();
    acknowledged_events.accepts(reply.status, &reply.text)?;
    acknowledged_events.inserted += reply["inserted"].as_u64().unwrap();
    acknowledged_events.acknowledged.extend(events.iter().map(|event| event["id"].as_str().unwrap().to_owned()));
    Some(())
}

async fn send_event(
    client: &ApiClient,
    writer: usize,
    n: usize,
    acknowledged_events: &Mutex<AcknowledgedEvents>,
) -> Option<()> {
    let id = id(writer, n);
    acknowledged_events.lock().unwrap().events.push(history_event(&id));
    let call = client.call("POST", "/api/event-bridge/create-event").json(&history_event(&id));
    let reply = call.try_send().await?;
    let mut acknowledged_events = acknowledged_events.lock().unwrap();
    acknowledged_events.accepts(reply.status, &reply.text)?;
    acknowledged_events.acknowledged.insert(id);
    Some(())
}

impl AcknowledgedEvents {
    /// Returns whether an event was accepted. A service without its engine may only answer 503.
    fn accepts(&mut self, status: u16, text: &str) -> Option<()> {
        if !matches!(status, 201 | 503) {
            self.faults.push(format!("{status} {text}"));
        }
        (status == 201).then_some(())
    }
}

/// Waits until the service serves again. Returns the time.
async fn served_again(client: &ApiClient, since: Instant) -> Duration {
    for path in ["/readyz", "/api/system-events?limit=1"] {
        eventually(async || match client.call("GET", path).try_send().await {
            Some(reply) if reply.status == 200 => Ok(()),
            reply => Err((path, reply)),
        })
        .await;
    }
    let time = since.elapsed();
    assert!(time < READY, "ready again after {time:?}");
    time
}

/// Returns every id of both lists.
async fn fetch_ids(client: &ApiClient) -> Vec<String> {
    let mut ids = Vec::new();
    for (path, name) in [("/api/system-events", "id"), ("/api/history/events", "event_id")] {
        for offset in (0..).step_by(1000) {
            let page = client.get(&format!("{path}?limit=1000&offset={offset}")).await;
            let found = page.column(name);
            if found.is_empty() {
                break;
            }
            ids.extend(found.iter().map(|id| id.as_str().unwrap().to_owned()));
        }
    }
    ids
}

/// Checks the state when nothing writes any more. Prints the result as a row of a table, like `Workload::check`.
async fn check(
    what: &str,
    rounds: usize,
    slowest: Duration,
    client: &ApiClient,
    acknowledged_events: &Mutex<AcknowledgedEvents>,
) {
    let acknowledged_events = std::mem::take(&mut *acknowledged_events.lock().unwrap());
    let stored_ids: BTreeSet<String> = fetch_ids(client).await.into_iter().collect();
    let lost: Vec<&String> = acknowledged_events.acknowledged.difference(&stored_ids).collect();
    // A batch is stored as a whole or not at all.
    let mut batch_sizes: BTreeMap<usize, usize> = BTreeMap::new();
    for batch in &acknowledged_events.batches {
        *batch_sizes
            .entry(batch.iter().filter(|event| stored_ids.contains(event["id"].as_str().unwrap())).count())
            .or_default() += 1;
    }
    let half: usize =
        batch_sizes.iter().filter(|(count, _)| !matches!(**count, 0 | BATCH)).map(|(_, batches)| batches).sum();
    println!(
        "| {what} | {rounds} | {WRITERS} | {} | {} | {half} | {} | {:.2} s |",
        acknowledged_events.acknowledged.len(),
        lost.len(),
        lost.len(),
        slowest.as_secs_f64()
    );
    assert_eq!(acknowledged_events.faults, Vec::<String>::new(), "answers that nobody should get");
    assert!(
        lost.is_empty(),
        "{} of {} acknowledged events were lost: {lost:?}",
        lost.len(),
        acknowledged_events.acknowledged.len()
    );
    assert_eq!(half, 0, "batches by how much of them is there: {batch_sizes:?}");

    // After all events are sent again, every event is stored once.
    let mut inserted = acknowledged_events.inserted;
    for batch in &acknowledged_events.batches {
        let reply = client.post("/api/system-events/batch", json!({"events": batch})).await.expect_created();
        inserted += reply["inserted"].as_u64().unwrap();
    }
    for event in &acknowledged_events.events {
        client.post("/api/event-bridge/create-event", event.clone()).await.expect_created();
    }
    let ids = fetch_ids(client).await;
    let distinct: BTreeSet<&String> = ids.iter().collect();
    assert_eq!(
        (ids.len(), distinct.len()),
        (acknowledged_events.batches.len() * BATCH + acknowledged_events.events.len(), ids.len())
    );
    // Writes without an answer are not counted, and nothing is counted twice.
    assert!(inserted <= (acknowledged_events.batches.len() * BATCH) as u64);
    assert_eq!(
        client.get("/api/system-events?limit=1").await["total_count"],
        acknowledged_events.batches.len() * BATCH
    );
    assert_eq!(client.get("/api/history/events?limit=1").await["total_count"], acknowledged_events.events.len());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it kills again and again: ./test all kills"]
async fn acknowledged_events_are_stored_once_when_the_service_is_killed() {
    let url = testkit::history_database_url();
    let installation = installation(url.as_deref());
    // The embedded engine mostly runs in one process with the main API.
    let serve = || if url.is_some() { installation.serve_history() } else { installation.serve() };
    let mut process = serve();
    let client_id = tenant(&process).await;
    let (acknowledged_events, rounds, mut slowest) = (Arc::default(), rounds(3), Duration::ZERO);
    for round in 0..rounds {
        let writers = start(&caller(&process, &client_id), round, &acknowledged_events);
        writers.are_at_work().await;
        until_kill(round).await;
        process.kill();
        writers.stop().await;

        let killed = Instant::now();
        process = serve();
        slowest = slowest.max(served_again(&caller(&process, &client_id), killed).await);
    }
    let what = if url.is_some() { "history service on ClickHouse" } else { "history service and its SQLite" };
    check(what, rounds, slowest, &caller(&process, &client_id), &acknowledged_events).await;
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it kills again and again: ./test all kills"]
async fn acknowledged_events_are_stored_once_when_clickhouse_is_killed() {
    // The embedded engine is killed with the service.
    if testkit::history_database_url().is_none() {
        return;
    }
    let mut clickhouse = ClickHouseServer::start_private();
    let installation = installation(Some(&clickhouse.url()));
    let process = installation.serve_history();
    let client = caller(&process, &tenant(&process).await);
    let (acknowledged_events, rounds, mut slowest) = (Arc::default(), rounds(3), Duration::ZERO);
    for round in 0..rounds {
        let writers = start(&client, round, &acknowledged_events);
        writers.are_at_work().await;
        until_kill(round).await;
        clickhouse.kill();
        down_time().await;
        clickhouse.restart();
        slowest = slowest.max(served_again(&client, Instant::now()).await);
        // The same process continues with the same writers.
        writers.are_at_work().await;
        writers.stop().await;
    }
    check("ClickHouse", rounds, slowest, &client, &acknowledged_events).await;
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_on_one_store_count_each_event_once() {
    // The embedded engine is used by a single process.
    let Some(url) = testkit::history_database_url() else { return };
    let (one, two) = (installation(Some(&url)), installation(Some(&url)));
    let processes = [one.serve_history(), two.serve_history()];
    let client_id = tenant(&processes[0]).await;
    // The other process finds the tenant immediately.
    let mut tasks = Vec::new();
    for n in 0..8 {
        for process in &processes {
            let client = caller(process, &client_id);
            let events: Vec<Json> = (0..1000).map(|at| system_event(&id(n / 2, at))).collect();
            tasks.push(tokio::spawn(async move {
                let reply = client.post("/api/system-events/batch", json!({"events": events})).await;
                reply.expect_created()["inserted"].as_u64().unwrap()
            }));
        }
    }
    let mut inserted = 0;
    for task in tasks {
        inserted += task.await.unwrap();
    }
    assert_eq!(inserted, 4000);
    for process in &processes {
        let listed = caller(process, &client_id).get("/api/system-events").await.ok();
        assert_eq!(listed["total_count"], 4000);
    }
}
