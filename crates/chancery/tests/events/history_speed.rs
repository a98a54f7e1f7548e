//! The number of events that wait for the real history service, and their time, while thousands of records are created. These tests
//! take minutes (`reliability/history`).

use crate::TestServer;
use crate::history_delivery::{count_waiting, record_created_event, request};
use crate::record_history::{commit_events, start_with_history};
use platform::events::history_client::{HistoryAddress, HistoryClient};
use platform::events::outbox::{self, OutboxHistoryEvent};
use platform::events::record_events::{EventPerson, EventSource, FieldValue, RecordChangeEvent};
use platform::events::relay;
use platform::kit::commit;
use platform::kit::ids::{FieldId, RecordId, UserId};
use platform::kit::refusal::Refusal;
use platform::kit::request::Request;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::Conn;
use testkit::{HISTORY_KEY, HistoryServer, NOW, eventually};

/// The default bound of the outbox in bytes.
const BOUND: i64 = 256 << 20;

/// Returns the three events of each of 1,000 new records with ten fields.
fn batch(first: i64) -> Vec<OutboxHistoryEvent> {
    let source = EventSource::user(UserId::new(3), "Ada Lovelace");
    let value = |field_id| FieldValue {
        field_id: FieldId::new(field_id),
        field_type: "string",
        field_name: "Name of a field",
        field_value: json!("a value of some length"),
    };
    let record = |id| {
        let created = RecordChangeEvent::RecordCreated((1..=10).map(value).collect());
        let status = RecordChangeEvent::StatusInitialized(value(11));
        let owner = RecordChangeEvent::OwnerInitialized(EventPerson::user(UserId::new(3), "Ada Lovelace"));
        [created, status, owner].map(|event| event.to_history_event(RecordId::new(id), &source, NOW))
    };
    (first..first + 1000).flat_map(record).collect()
}

/// Commits a batch when it has its turn.
async fn put_batch(server: &TestServer, request: &Arc<Request>, first: i64) -> Result<(), Refusal> {
    let events = batch(first);
    let _turn = outbox::turn(&server.app, &server.build).await;
    let put = move |request: &Request, conn: &mut Conn| outbox::put_history(request, conn, &events);
    commit::write(request, put).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it measures"]
async fn three_thousand_events_at_once() {
    let history = HistoryServer::start().await;
    let server = start_with_history(&history).await;
    for round in 0..3 {
        eventually(async || count_waiting(&server).await == 0).await;
        let started = Instant::now();
        commit_events(&server, (0..3000).map(|n| record_created_event(round * 3000 + n)).collect()).await;
        eventually(async || count_waiting(&server).await == 0).await;
        eprintln!("3,000 events were delivered after {:?}", started.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes minutes"]
async fn batches_of_a_hundred_thousand_records_leave_most_of_the_outbox_free() {
    let history = HistoryServer::start().await;
    let server = start_with_history(&history).await;
    let request = request(&server, &server.admin().await).await;
    let (started, mut most) = (Instant::now(), 0);
    for n in 0..100 {
        put_batch(&server, &request, n * 1000).await.unwrap();
        most = most.max(outbox::backlog(&server.build).current_estimate().bytes);
    }
    let written = started.elapsed();
    eventually(async || count_waiting(&server).await == 0).await;
    eprintln!("written in {written:?}, delivered after {:?}; at most {} MiB waited", started.elapsed(), most >> 20);
    assert!(most < BOUND / 8, "{most} bytes waited");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes minutes"]
async fn the_backlog_of_an_outage_is_delivered_during_further_writes() {
    let server = TestServer::start_with(|config| config.identity.address_attempts = 0).await;
    let request = request(&server, &server.admin().await).await;
    // Fills the outbox: ten minutes of 450 events per second.
    let mut batches = 0;
    let refused = loop {
        match put_batch(&server, &request, batches * 1000).await {
            Ok(()) => batches += 1,
            Err(refusal) => break refusal.status,
        }
    };
    let left = outbox::backlog(&server.build).current_estimate();
    assert_eq!((refused.as_u16(), left.bytes > BOUND - (4 << 20), left.bytes <= BOUND), (503, true, true), "{left:?}");
    // The service is available again, while records are created continuously.
    let history = HistoryServer::start().await;
    let address = HistoryAddress { url: format!("http://{}", history.address), api_key: HISTORY_KEY.to_owned() };
    platform::events::connect(&server.app, HistoryClient::new(&address).unwrap());
    relay::wake(&server.app, &server.build);
    let started = Instant::now();
    eventually(async || outbox::backlog(&server.build).current_estimate().rows < left.rows).await;
    while outbox::backlog(&server.build).current_estimate().bytes > BOUND / 8 {
        put_batch(&server, &request, batches * 1000).await.unwrap();
        batches += 1;
        assert!(
            started.elapsed() < Duration::from_secs(600),
            "{:?}",
            outbox::backlog(&server.build).current_estimate()
        );
    }
    let elapsed = started.elapsed();
    eventually(async || count_waiting(&server).await == 0).await;
    eprintln!("{} events, and those of {batches} batches in all, were delivered after {elapsed:?}", left.rows);
}
