//! Servers that are killed while records are written and webhooks send their events. Each receiver gets each event of an
//! acknowledged write at least once, and files are copied once. On PostgreSQL two processes do the work at once.

use crate::BINARY;
use crate::workload::{admin, expect_served, prepare_installation, reconnect};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use testkit::{ApiClient, Installation, Process, Receiver, eventually_within, rounds};

const RECORDS: &str = "/api/object-classes/1/object-records/";
/// The number of kills in a round.
const KILLS: u64 = 4;
const WRITERS: usize = 8;
const PATIENCE: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it kills again and again: ./test all kills"]
async fn no_event_of_a_webhook_and_no_copy_is_lost_when_servers_are_killed() {
    let store = tempfile::tempdir().unwrap();
    let installation = prepare_installation(Installation::with_build(BINARY))
        .set("CHANCERY_OUTBOUND_ALLOW", "127.0.0.0/8")
        .set("CHANCERY_DOCUMENT_STORE_URL", &format!("file://{}", store.path().display()));
    let mut processes = vec![installation.serve()];
    processes.extend(installation.database_url().map(|_| installation.serve()));
    let mut admin = admin(&processes[0]).await;
    let receivers = [Receiver::start().await, Receiver::start().await];
    prepare(&admin, &receivers).await;
    let mut written: Vec<Vec<i64>> = Vec::new();
    for round in 0..rounds(2) {
        for kill in 0..KILLS {
            let writers: tokio::task::JoinSet<Vec<i64>> = (0..WRITERS).map(|_| write(admin.clone())).collect();
            // Each kill meets the process at another step of its work.
            tokio::time::sleep(Duration::from_millis(300 + (613 * (round as u64 + 1) * (kill + 3)) % 900)).await;
            // This process receives the writes. If there are two, the other one continues.
            processes.remove(0).kill();
            written.extend(writers.join_all().await);
            processes.push(installation.serve());
            admin = reconnect(&processes[0], &admin);
            expect_served(&admin).await;
        }
    }
    let acknowledged: BTreeSet<i64> = written.iter().flatten().copied().collect();
    let until = Instant::now() + PATIENCE;
    for receiver in &receivers {
        let deliveries = || -> BTreeMap<i64, usize> {
            let mut deliveries = BTreeMap::new();
            for received in receiver.requests() {
                *deliveries.entry(received.json()["data"]["record_id"].as_i64().unwrap()).or_default() += 1;
            }
            deliveries
        };
        eventually_within(until - Instant::now(), async || {
            let deliveries = deliveries();
            let lost: Vec<_> = acknowledged.iter().filter(|record| !deliveries.contains_key(record)).collect();
            match lost.len() {
                0 => Ok(()),
                count => Err(format!("{count} of {} events did not come: {lost:?}", acknowledged.len())),
            }
        })
        .await;
        let deliveries = deliveries();
        // Successive writes of one writer arrived in this order for the first time.
        let mut first = BTreeMap::new();
        for (place, received) in receiver.requests().iter().enumerate() {
            first.entry(received.json()["data"]["record_id"].as_i64().unwrap()).or_insert(place);
        }
        for records in &written {
            assert!(records.iter().map(|record| first[record]).is_sorted(), "{records:?}");
        }
        let again: usize = deliveries.values().map(|times| times - 1).sum();
        println!("| {} records | {} events | {again} came again |", acknowledged.len(), deliveries.len());
        // A kill repeats at most the deliveries in progress.
        assert!(again <= rounds(2) * KILLS as usize * 200, "{again}");
    }
    let place = store.path().join("localhost/contracts");
    for record in &acknowledged {
        let names = || -> Vec<String> {
            let entries = std::fs::read_dir(place.join(record.to_string())).into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.file_name().into_string().unwrap());
            // A killed process leaves an unfinished file beside the copy, under another name.
            names.filter(|name| !name.contains('#')).collect()
        };
        eventually_within(until - Instant::now(), async || match names() {
            names if names == ["a.txt"] => Ok(()),
            names => Err((record, names)),
        })
        .await;
    }
    processes.into_iter().for_each(Process::stop);
}

async fn prepare(admin: &ApiClient, receivers: &[Receiver]) {
    admin.post("/api/object-classes/", json!({"name": "Order"})).await.expect_created();
    let field = json!({"label": "Papers", "type": "document"});
    admin.post("/api/object-classes/1/fields/", field).await.expect_created();
    for (n, receiver) in receivers.iter().enumerate() {
        let webhook = json!({
            "type": "webhook", "name": format!("Webhook {n}"), "object_class": 1, "is_enabled": true,
            "url": receiver.url("/hook"), "secret": "sixteen letters!", "events": ["record_created"],
        });
        admin.post("/api/integrations/", webhook).await.expect_created();
    }
    let copies = json!({
        "type": "document_management", "name": "Copies", "object_class": 1, "object_class_field": 1,
        "folder": "contracts", "is_enabled": true,
    });
    admin.post("/api/integrations/", copies).await.expect_created();
}

/// Creates records with a file until the server is unavailable. Returns the acknowledged ones.
async fn write(admin: ApiClient) -> Vec<i64> {
    let mut made = Vec::new();
    loop {
        let upload =
            admin.call("POST", "/api/files/upload/").header("content-disposition", "attachment; filename=a.txt");
        let Some(token) = upload.body("application/octet-stream", "text").try_send().await else { return made };
        let body = json!({"fields": {"papers": [token.json["token"]]}});
        let Some(reply) = admin.call("POST", RECORDS).json(&body).try_send().await else { return made };
        if reply.status != 201 {
            return made;
        }
        made.push(reply.json["id"].as_i64().unwrap());
    }
}
