//! A history service that is killed while many write: what it acknowledged is there, once (issue: "an event acknowledged
//! is an event kept, once").

use crate::BINARY;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::{Client, HISTORY_KEY, Installation, Process};

const ROUNDS: usize = 4;
const BATCH: usize = 200;

/// What was sent, and what of it was acknowledged.
#[derive(Default)]
struct Told {
    batches: Vec<Vec<Json>>,
    inserted: u64,
    acknowledged: BTreeSet<String>,
    events: Vec<Json>,
}

/// On the engine that tests run on; `None`: the embedded one.
fn installation(url: Option<&str>) -> Installation {
    let installation = Installation::embedded(BINARY).set("CHANCERY_HISTORY_API_KEY", HISTORY_KEY);
    match url {
        Some(url) => installation.set("CHANCERY_HISTORY_DATABASE_URL", url),
        None => installation,
    }
}

fn caller(process: &Process, client_id: &str) -> Client {
    let client = Client::new(process.history(), "history.example").with_header("x-api-key", HISTORY_KEY);
    if client_id.is_empty() { client } else { client.with_header("x-client-id", client_id) }
}

async fn tenant(process: &Process) -> String {
    let wanted = json!({"database_name": "crash", "client_label": "crash"});
    let made = caller(process, "").post("/api/initialize-tenant", wanted).await.created();
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

/// Sends batches one after the other until the service is gone.
async fn send_batches(client: Client, writer: usize, told: Arc<Mutex<Told>>) {
    for n in 0.. {
        let events: Vec<Json> = (0..BATCH).map(|at| system_event(&id(writer, n * BATCH + at))).collect();
        told.lock().unwrap().batches.push(events.clone());
        let call = client.call("POST", "/api/system-events/batch").json(&json!({"events": events}));
        let Some(reply) = call.try_send().await else { return };
        if reply.status == 201 {
            let mut told = told.lock().unwrap();
            told.inserted += reply.json["inserted"].as_u64().unwrap();
            told.acknowledged.extend(events.iter().map(|event| event["id"].as_str().unwrap().to_owned()));
        }
    }
}

/// Sends single events likewise.
async fn send_events(client: Client, writer: usize, told: Arc<Mutex<Told>>) {
    for n in 0.. {
        let id = id(writer, n);
        told.lock().unwrap().events.push(history_event(&id));
        let call = client.call("POST", "/api/event-bridge/create-event").json(&history_event(&id));
        let Some(reply) = call.try_send().await else { return };
        if reply.status == 201 {
            told.lock().unwrap().acknowledged.insert(id);
        }
    }
}

/// Every id of both lists.
async fn stored(client: &Client) -> Vec<String> {
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

#[tokio::test(flavor = "multi_thread")]
async fn what_is_acknowledged_is_kept_once() {
    let installation = installation(testkit::history_database_url().as_deref());
    let told = Arc::new(Mutex::new(Told::default()));
    let mut client_id = String::new();
    for round in 0..ROUNDS {
        let process = installation.serve_history();
        if client_id.is_empty() {
            client_id = tenant(&process).await;
        }
        let client = caller(&process, &client_id);
        let mut writers = Vec::new();
        for writer in 0..4 {
            let number = round * 100 + writer;
            writers.push(tokio::spawn(send_batches(client.clone(), number, told.clone())));
            writers.push(tokio::spawn(send_events(client.clone(), 0x1000 + number, told.clone())));
        }
        // Some time after the first acknowledgement.
        for _ in 0..400 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if told.lock().unwrap().acknowledged.len() > (round + 1) * 1000 {
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(37 * round as u64)).await;
        process.kill();
        for writer in writers {
            writer.await.unwrap();
        }
    }

    let process = installation.serve_history();
    let client = caller(&process, &client_id);
    let (batches, events, acknowledged, before) = {
        let told = told.lock().unwrap();
        (told.batches.clone(), told.events.clone(), told.acknowledged.clone(), told.inserted)
    };
    // Sent again, whatever became of it, every event is there once.
    let mut inserted = before;
    let kept: BTreeSet<String> = stored(&client).await.into_iter().collect();
    let lost: Vec<&String> = acknowledged.difference(&kept).collect();
    assert!(lost.is_empty(), "{} of {} acknowledged events were lost: {lost:?}", lost.len(), acknowledged.len());
    for batch in &batches {
        let reply = client.post("/api/system-events/batch", json!({"events": batch})).await.created();
        inserted += reply["inserted"].as_u64().unwrap();
    }
    for event in &events {
        client.post("/api/event-bridge/create-event", event.clone()).await.created();
    }
    let ids = stored(&client).await;
    let distinct: BTreeSet<&String> = ids.iter().collect();
    assert_eq!((ids.len(), distinct.len()), (batches.len() * BATCH + events.len(), ids.len()));
    // What was written without an answer is counted by nobody; nothing is counted twice.
    assert!(inserted <= (batches.len() * BATCH) as u64);
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_on_one_store_count_each_event_once() {
    // The embedded engine has one process to itself.
    let Some(url) = testkit::history_database_url() else { return };
    let (one, two) = (installation(Some(&url)), installation(Some(&url)));
    let processes = [one.serve_history(), two.serve_history()];
    let client_id = tenant(&processes[0]).await;
    // The other one knows the tenant at once.
    let mut tasks = Vec::new();
    for n in 0..8 {
        for process in &processes {
            let client = caller(process, &client_id);
            let events: Vec<Json> = (0..1000).map(|at| system_event(&id(n / 2, at))).collect();
            tasks.push(tokio::spawn(async move {
                let reply = client.post("/api/system-events/batch", json!({"events": events})).await;
                reply.created()["inserted"].as_u64().unwrap()
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
