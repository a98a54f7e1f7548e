//! The main API delivers its events to the history service: all of them, each once, system events in their order
//! (`docs/reference/history.md`).

use crate::TestServer;
use crate::{BINARY, message};
use platform::events::outbox::{self, OutboxHistoryEvent, Uuid};
use platform::events::relay;
use platform::kit::ids::RecordId;
use platform::kit::refusal::Refusal;
use platform::kit::request::Request;
use platform::kit::route::Handler;
use platform::table;
use serde_json::{Value as Json, json};
use std::collections::HashSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use store::{BorrowedArgument, Conn, Sql, StoreError};
use testkit::{
    ADMIN, ApiClient, Behaviour, FakeHistory, FakeServer, HISTORY_KEY, Installation, MINUTE, NOW, PASSWORD, SECOND,
    TestBuild, eventually, quiet_period,
};

async fn start_with_history(history: &FakeHistory) -> TestServer {
    let service = history.service();
    TestServer::start_with(|config| (config.events.history, config.identity.address_attempts) = (service, 0)).await
}

/// Returns the types of the events.
fn kinds(events: &[Json]) -> Vec<i64> {
    events.iter().map(|event| event["event_type"].as_i64().unwrap()).collect()
}

pub async fn number(tenant: &TestBuild, sql: &'static str) -> i64 {
    tenant.build.db.read::<_, StoreError>(move |conn| conn.query_one(&Sql::new(sql), |row| row.int(0))).await.unwrap()
}

pub async fn count_waiting(tenant: &TestBuild) -> i64 {
    number(tenant, "SELECT count(*) FROM outbox").await
}

/// Adds an old row with a number of bytes to the outbox.
async fn put_old(tenant: &TestBuild, id: &str, bytes: usize) {
    let id = id.to_owned();
    let body = json!({
        "id": id, "event_timestamp": "1970-01-01T00:00:00.000000Z", "category": 1, "event_type": 1, "source_id": 1,
        "source_type": 1, "source_info": "x".repeat(bytes), "source_ip": "", "event_data": "{}",
    });
    let body = body.to_string();
    let insert = move |conn: &mut Conn| {
        let sql = Sql::new("INSERT INTO outbox(id, kind, size, created_at, body) VALUES ($1, 'system', $2, 0, $3)");
        conn.exec(&sql.arg(&id).arg(body.len() as i64).arg(&body))
    };
    tenant.build.db.write::<u64, StoreError>(insert).await.unwrap();
}

async fn fail(client: &ApiClient, username: &str) {
    client.login(username, "wrong").await.expect(401);
}

// ---- Tenants -------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_build_has_its_tenant_as_soon_as_it_is_made() {
    let history = FakeHistory::start().await;
    let server = start_with_history(&history).await;
    let other = server.build("3-b.example").await;
    let tenants = history.tenants();
    assert_eq!(tenants.len(), 2, "{tenants:?}");
    for (tenant, build, front) in
        [(&tenants[0], &server.build, "a_example_"), (&tenants[1], &other.build, "_3_b_example_")]
    {
        let hash = tenant.database_name.strip_prefix(front).unwrap_or_else(|| panic!("{tenant:?}"));
        assert!(hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{tenant:?}");
        assert_eq!(tenant.label, format!("{} {} 0", build.domain, build.uid));
    }
    // The secret is stored, and is not readable.
    let sql = Sql::new("SELECT client_id, client_secret FROM history_tenants ORDER BY created_at, domain DESC");
    let read =
        move |conn: &mut Conn| conn.query_all(&sql, |row| Ok([row.text(0)?.to_owned(), row.text(1)?.to_owned()]));
    let rows = server.app.store.control().read::<_, StoreError>(read).await.unwrap();
    let ids: HashSet<&str> = rows.iter().map(|[id, _]| id.as_str()).collect();
    assert_eq!(ids, tenants.iter().map(|tenant| tenant.client_id.as_str()).collect());
    assert!(rows.iter().all(|[_, secret]| secret.len() > 40 && !secret.contains("secret")), "{rows:?}");
}

#[tokio::test]
async fn a_build_is_made_without_the_service_and_its_tenant_later() {
    let port = FakeServer::closed_port().await;
    let server = TestServer::start_with(|config| config.events.history = FakeHistory::service_at(port)).await;
    server.admin().await;
    let anyone = server.anonymous();
    eventually(async || {
        let ready = anyone.get("/readyz").await.ok();
        ready["history"] == json!({"waiting": 1, "lag_seconds": 0, "is_reachable": false, "refused": 0})
    })
    .await;
    let history = FakeHistory::start_on_port(port).await;
    assert_eq!(kinds(&history.wait_for_events(1).await), [1]);
    assert_eq!(history.tenants().len(), 1);
}

#[tokio::test]
async fn a_tenant_whose_answer_was_lost_is_followed_by_another() {
    let history = FakeHistory::start().await;
    history.set_behaviour(Behaviour::LosesAnswers);
    let server = start_with_history(&history).await;
    server.admin().await;
    history.wait_for_calls(2).await;
    history.set_behaviour(Behaviour::Serves);
    history.wait_for_events(1).await;
    let tenants = history.tenants();
    assert!(tenants.len() >= 2, "{tenants:?}");
    // The last tenant is stored and remains.
    eventually(async || count_waiting(&server).await == 0).await;
    server.admin().await;
    history.wait_for_events(2).await;
    assert_eq!(history.tenants(), tenants);
}

// ---- Delivery ------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn outcomes_of_sign_ins_arrive_in_order() {
    let history = FakeHistory::start().await;
    let server = start_with_history(&history).await;
    let client = server.anonymous();
    client.sign_in(ADMIN, PASSWORD).await;
    fail(&client, ADMIN).await;
    fail(&client, "nobody@example.com").await;
    client.post("/api/auth/password-reset/", json!({"username": ADMIN})).await.expect_empty();
    let events = history.wait_for_events(4).await;
    assert_eq!(kinds(&events), [1, 2, 2, 7]);
    let mut second = events[1].clone();
    assert!(Uuid::parse_str(second["id"].take().as_str().unwrap()).is_ok());
    let expected = json!({
        "id": null, "event_timestamp": "2026-01-31T09:30:00.000000Z", "category": 1, "event_type": 2, "source_id": 1,
        "source_type": 1, "source_info": "", "source_ip": "127.0.0.1", "event_data": r#"{"reason":"wrong_password"}"#,
    });
    assert_eq!(second, expected);
    eventually(async || count_waiting(&server).await == 0).await;
    assert_eq!(history.repeated(), 0);
}

#[tokio::test]
async fn an_event_arrives_at_once() {
    let history = FakeHistory::start().await;
    let server = start_with_history(&history).await;
    let mut times = Vec::new();
    for n in 1..=10 {
        server
            .anonymous()
            .post("/api/auth/password-reset/", json!({"username": "nobody@example.com"}))
            .await
            .expect_empty();
        let started = Instant::now();
        history.wait_for_events(n).await;
        times.push(started.elapsed());
    }
    // The test uses the fastest delivery, because the machine can be busy for a while.
    assert!(times.iter().min() < Some(&Duration::from_millis(500)), "{times:?}");
}

/// Returns a request of the first super admin, for writes of events.
pub async fn request(server: &TestServer, admin: &ApiClient) -> Arc<Request> {
    let route = table().routes().find(|route| matches!(route.handler, Handler::Write(_))).unwrap();
    Arc::new(server.request(Some(admin), route, "").await)
}

pub fn record_created_event(record_id: i64) -> OutboxHistoryEvent {
    OutboxHistoryEvent {
        event_id: Uuid::new_v4(),
        event_time: NOW + record_id,
        event_type_id: 1,
        record_id: RecordId::new(record_id),
        source_id: 1,
        source_type_id: 1,
        source_name: Some("Ada".to_owned()),
        source_info: String::new(),
        event_data: vec![r#"{"field_id":1,"field_value":"Größe"}"#.to_owned()],
    }
}

/// Returns the received envelopes, by record. Deliveries are concurrent, so they arrive in any order.
fn envelopes(history: &FakeHistory) -> Vec<Json> {
    let mut envelopes = history.envelopes();
    envelopes.sort_by_key(|envelope| envelope["detail"]["record_id"].as_i64());
    envelopes
}

fn records(envelopes: &[Json]) -> Vec<i64> {
    envelopes.iter().map(|envelope| envelope["detail"]["record_id"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn history_of_records_arrives_in_its_envelope() {
    let history = FakeHistory::start().await;
    let server = start_with_history(&history).await;
    let admin = server.admin().await;
    let request = request(&server, &admin).await;
    let events: Vec<OutboxHistoryEvent> = (1..=30).map(record_created_event).collect();
    for events in events.chunks(10) {
        let events = events.to_vec();
        let put = move |request: &Request, conn: &mut Conn| outbox::put_history(request, conn, &events);
        platform::kit::commit::write(&request, put).await.unwrap();
        fail(&server.anonymous(), "nobody@example.com").await;
    }
    eventually(async || count_waiting(&server).await == 0).await;
    let envelopes = envelopes(&history);
    assert_eq!(records(&envelopes), (1..=30).collect::<Vec<_>>());
    let expected = json!({
        "version": "0", "id": events[0].event_id.to_string(), "detail-type": "history_event",
        "source": history.tenants()[0].database_name, "account": "a.example", "time": "2026-01-31T09:30:00.000000Z",
        "region": "", "resources": [],
        "detail": {
            "event_id": events[0].event_id.to_string(), "event_time": "2026-01-31T09:30:00.000001Z", "event_type_id": 1,
            "record_id": 1, "source_id": 1, "source_type_id": 1, "source_name": "Ada", "source_info": "",
            "event_data": [r#"{"field_id":1,"field_value":"Größe"}"#],
        },
    });
    assert_eq!(envelopes[0], expected);
    assert_eq!(kinds(&history.system_events()), [1, 2, 2, 2]);
    // A rollback leaves no event.
    let undone = |request: &Request, conn: &mut Conn| {
        outbox::put_history(request, conn, &[record_created_event(31)])?;
        Err::<(), _>(platform::kit::refusal::Refusal::not_found())
    };
    assert_eq!(platform::kit::commit::write(&request, undone).await.unwrap_err().status, 404);
    assert_eq!(count_waiting(&server).await, 0);
}

#[tokio::test]
async fn an_outage_delays_and_loses_nothing() {
    let history = FakeHistory::start().await;
    let server = start_with_history(&history).await;
    let client = server.anonymous();
    client.sign_in(ADMIN, PASSWORD).await;
    history.wait_for_events(1).await;
    history.set_behaviour(Behaviour::Refuses);
    let before = history.calls();
    for _ in 0..20 {
        fail(&client, "nobody@example.com").await;
    }
    history.wait_for_calls(before + 3).await;
    // New events do not shorten the back-off.
    assert!(history.calls() < before + 10, "{} calls", history.calls() - before);
    client.sign_in(ADMIN, PASSWORD).await;
    assert_eq!(count_waiting(&server).await, 21);
    server.advance(3600 * SECOND);
    // A commit at the time of the process's first count can be missing until the next count.
    eventually(async || {
        client.get("/readyz").await.ok()["history"]
            == json!({"waiting": 21, "lag_seconds": 3600, "is_reachable": false, "refused": 0})
    })
    .await;
    history.set_behaviour(Behaviour::Serves);
    let events = history.wait_for_events(22).await;
    assert_eq!(kinds(&events), [vec![1], vec![2; 20], vec![1]].concat());
    eventually(async || {
        client.get("/readyz").await.ok()["history"]
            == json!({"waiting": 0, "lag_seconds": 0, "is_reachable": true, "refused": 0})
    })
    .await;
    assert_eq!((history.repeated(), history.system_events().len()), (0, 22));
}

#[tokio::test]
async fn lost_answers_make_no_duplicates() {
    let history = FakeHistory::start().await;
    let server = start_with_history(&history).await;
    let client = server.anonymous();
    history.set_behaviour(Behaviour::LosesAnswers);
    for _ in 0..5 {
        fail(&client, "nobody@example.com").await;
    }
    history.wait_for_events(5).await;
    history.set_behaviour(Behaviour::Serves);
    fail(&client, ADMIN).await;
    let events = history.wait_for_events(6).await;
    eventually(async || count_waiting(&server).await == 0).await;
    let ids: HashSet<&str> = events.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!((ids.len(), history.system_events().len()), (6, 6));
    assert!(history.repeated() >= 1, "the test shows something only if something was sent twice");
}

#[tokio::test]
async fn more_than_a_batch_arrives_in_order() {
    let history = FakeHistory::start().await;
    let server = start_with_history(&history).await;
    history.set_behaviour(Behaviour::Refuses);
    let ids: Vec<String> = (0..2500).map(|_| Uuid::new_v4().to_string()).collect();
    let rows = ids.clone();
    let insert = move |conn: &mut Conn| {
        for id in &rows {
            let sql =
                Sql::new("INSERT INTO outbox(id, kind, size, created_at, body) VALUES ($1, 'system', 100, 0, $2)");
            conn.exec(&sql.arg(id).arg(json!({"id": id, "event_type": 1}).to_string()))?;
        }
        Ok(0)
    };
    server.build.db.write::<u64, StoreError>(insert).await.unwrap();
    fail(&server.anonymous(), ADMIN).await;
    history.set_behaviour(Behaviour::Serves);
    let events = history.wait_for_events(2501).await;
    let arrived: Vec<&str> = events.iter().take(2500).map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(arrived, ids);
    assert_eq!(history.repeated(), 0);
}

#[tokio::test]
async fn wrong_events_do_not_hold_up_the_rest() {
    let history = FakeHistory::start().await;
    let server = start_with_history(&history).await;
    let request = request(&server, &server.admin().await).await;
    history.wait_for_events(1).await;
    history.poison("poison");
    history.set_behaviour(Behaviour::Refuses);
    for n in 0..20 {
        let id = if n == 13 { "poison".to_owned() } else { Uuid::new_v4().to_string() };
        put_old(&server, &id, 0).await;
    }
    let put = |request: &Request, conn: &mut Conn| {
        let wrong = OutboxHistoryEvent { source_info: "poison".to_owned(), ..record_created_event(2) };
        outbox::put_history(request, conn, &[record_created_event(1), wrong, record_created_event(3)])
    };
    platform::kit::commit::write(&request, put).await.unwrap();
    fail(&server.anonymous(), ADMIN).await;
    history.set_behaviour(Behaviour::Serves);
    let events = history.wait_for_events(21).await;
    assert_eq!(kinds(&events), [vec![1; 20], vec![2]].concat());
    eventually(async || count_waiting(&server).await == 0).await;
    assert_eq!(records(&envelopes(&history)), [1, 3]);
    let sql = Sql::new("SELECT kind, reason, body FROM outbox_refused ORDER BY refused_at, kind DESC");
    let read = move |conn: &mut Conn| {
        conn.query_all(&sql, |row| {
            assert!(row.text(1)?.starts_with("422 Unprocessable Entity: {"), "{}", row.text(1)?);
            let body: Json = serde_json::from_str(row.text(2)?).unwrap();
            Ok((row.text(0)?.to_owned(), body["id"].clone(), body["source_info"].clone()))
        })
    };
    let refused = server.build.db.read::<_, StoreError>(read).await.unwrap();
    let expected = [("system", json!("poison"), json!("")), ("history", Json::Null, json!("poison"))];
    assert_eq!(refused, expected.map(|(kind, id, info)| (kind.to_owned(), id, info)));
    assert_eq!(history.repeated(), 0, "what was refused was not stored");
}

#[tokio::test]
async fn a_batch_that_is_too_large_goes_in_parts() {
    let history = FakeHistory::start().await;
    let server = start_with_history(&history).await;
    history.max_body(10_000);
    history.set_behaviour(Behaviour::Refuses);
    let ids: Vec<String> = (0..15).map(|_| Uuid::new_v4().to_string()).collect();
    for id in &ids {
        put_old(&server, id, 3000).await;
    }
    put_old(&server, "one that is too large by itself", 12_000).await;
    fail(&server.anonymous(), ADMIN).await;
    history.set_behaviour(Behaviour::Serves);
    let events = history.wait_for_events(16).await;
    let arrived: Vec<&str> = events.iter().take(15).map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(arrived, ids);
    eventually(async || count_waiting(&server).await == 0).await;
    assert_eq!(number(&server, "SELECT count(*) FROM outbox_refused").await, 1);
}

#[tokio::test]
async fn an_unknown_tenant_loses_nothing() {
    let history = FakeHistory::start().await;
    let server = start_with_history(&history).await;
    server.admin().await;
    history.wait_for_events(1).await;
    eventually(async || count_waiting(&server).await == 0).await;
    history.remove_tenant(&history.tenants()[0].client_id);
    let calls = history.calls();
    server.admin().await;
    history.wait_for_calls(calls + 1).await;
    let client = server.anonymous();
    eventually(async || client.get("/readyz").await.ok()["history"]["is_reachable"] == json!(false)).await;
    assert_eq!((count_waiting(&server).await, history.system_events().len()), (1, 1));
}

// ---- Many history events at once -----------------------------------------------------------------------------------

/// Commits events of these records in one transaction.
async fn commit_events(request: &Arc<Request>, records: std::ops::RangeInclusive<i64>) -> Result<(), Refusal> {
    let events: Vec<OutboxHistoryEvent> = records.map(record_created_event).collect();
    let put = move |request: &Request, conn: &mut Conn| outbox::put_history(request, conn, &events);
    platform::kit::commit::write(request, put).await
}

#[tokio::test]
async fn many_lost_answers_make_no_duplicates() {
    let history = FakeHistory::start().await;
    let server = start_with_history(&history).await;
    let request = request(&server, &server.admin().await).await;
    history.wait_for_events(1).await;
    eventually(async || count_waiting(&server).await == 0).await;
    history.set_behaviour(Behaviour::LosesAnswers);
    commit_events(&request, 1..=200).await.unwrap();
    eventually(async || history.envelopes().len() >= 64).await;
    history.set_behaviour(Behaviour::Serves);
    eventually(async || count_waiting(&server).await == 0).await;
    assert_eq!(records(&envelopes(&history)), (1..=200).collect::<Vec<_>>());
    assert!(history.repeated() >= 64, "{} were sent twice", history.repeated());
}

#[tokio::test]
async fn an_outage_costs_one_call_at_a_time() {
    let history = FakeHistory::start().await;
    let server = start_with_history(&history).await;
    let request = request(&server, &server.admin().await).await;
    history.wait_for_events(1).await;
    eventually(async || count_waiting(&server).await == 0).await;
    history.set_behaviour(Behaviour::Refuses);
    let before = history.calls();
    commit_events(&request, 1..=500).await.unwrap();
    eventually(async || !relay::delivery_lag(&server.app).is_reachable).await;
    let first = history.calls() - before;
    assert!(first <= 64, "{first}");
    // Each further attempt requests the service's id, or sends one event.
    history.wait_for_calls(before + first + 4).await;
    assert!(history.calls() - before <= first + 10, "{first}, then {}", history.calls() - before);
    history.set_behaviour(Behaviour::Serves);
    eventually(async || count_waiting(&server).await == 0).await;
    assert_eq!(records(&envelopes(&history)), (1..=500).collect::<Vec<_>>());
    assert_eq!(history.repeated(), 0);
}

#[tokio::test]
async fn many_wrong_events_do_not_hold_up_the_rest() {
    let history = FakeHistory::start().await;
    let server = start_with_history(&history).await;
    let request = request(&server, &server.admin().await).await;
    history.poison("poison");
    let put = |request: &Request, conn: &mut Conn| {
        let of = |n: i64| match n % 10 {
            0 => OutboxHistoryEvent { source_info: "poison".to_owned(), ..record_created_event(n) },
            _ => record_created_event(n),
        };
        outbox::put_history(request, conn, &(1..=200).map(of).collect::<Vec<_>>())
    };
    platform::kit::commit::write(&request, put).await.unwrap();
    eventually(async || count_waiting(&server).await == 0).await;
    assert_eq!(records(&envelopes(&history)), (1..=200).filter(|n| n % 10 != 0).collect::<Vec<_>>());
    assert_eq!(number(&server, "SELECT count(*) FROM outbox_refused").await, 20);
    assert_eq!(relay::delivery_lag(&server.app).refused, 20);
}

#[tokio::test]
async fn events_of_a_batch_wait_together_or_not_at_all() {
    let history = FakeHistory::start().await;
    let service = history.service();
    let change = |config: &mut testkit::TestSettings| {
        (config.events.history, config.events.outbox_bytes) = (service, 100_000);
        config.identity.address_attempts = 0;
    };
    let server = TestServer::start_with(change).await;
    let request = request(&server, &server.admin().await).await;
    history.wait_for_events(1).await;
    eventually(async || count_waiting(&server).await == 0).await;
    // A delivery that finds nothing sets the estimate to zero, even if events are added at the same time.
    quiet_period().await;
    history.set_behaviour(Behaviour::Refuses);
    commit_events(&request, 1..=100).await.unwrap();
    // A part of the events would fit.
    let refusal = commit_events(&request, 101..=300).await.unwrap_err();
    assert_eq!((refusal.status.as_u16(), refusal.body()), (503, message::detail("History is unavailable.")));
    assert_eq!(count_waiting(&server).await, 100);
    history.set_behaviour(Behaviour::Serves);
    eventually(async || count_waiting(&server).await == 0).await;
    // A transaction above the bound may use the whole outbox.
    commit_events(&request, 101..=600).await.unwrap();
    eventually(async || count_waiting(&server).await == 0).await;
    assert_eq!(records(&envelopes(&history)), (1..=600).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_batch_waits_for_its_turn_while_much_is_on_its_way() {
    let history = FakeHistory::start().await;
    let service = history.service();
    let change =
        |config: &mut testkit::TestSettings| (config.events.history, config.events.outbox_bytes) = (service, 800_000);
    let server = TestServer::start_with(change).await;
    let request = request(&server, &server.admin().await).await;
    history.wait_for_events(1).await;
    eventually(async || count_waiting(&server).await == 0).await;
    // A sixteenth of the bound waits, in a delivery to a service that does not answer yet.
    history.set_behaviour(Behaviour::Hangs);
    let calls = history.calls();
    commit_events(&request, 1..=200).await.unwrap();
    history.wait_for_calls(calls + 1).await;
    // A delivery that found nothing just before can have set the estimate to zero. Later ones cannot, while this one hangs.
    let mut next = 201;
    while outbox::backlog(&server.build).current_estimate().bytes <= 800_000 / 16 {
        commit_events(&request, next..=next + 199).await.unwrap();
        next += 200;
    }
    let turn = || Box::pin(outbox::turn(&server.app, &server.build));
    assert!(ready_within(5, &mut turn()).await.is_none());
    // After the service is marked as unreachable, batches do not wait for it.
    history.set_behaviour(Behaviour::Refuses);
    eventually(async || !relay::delivery_lag(&server.app).is_reachable).await;
    assert!(ready_within(1, &mut turn()).await.is_some());
    history.set_behaviour(Behaviour::Serves);
    eventually(async || count_waiting(&server).await == 0).await;
    eventually(async || outbox::backlog(&server.build).current_estimate().bytes == 0).await;
    // The number of concurrent batches is small.
    let mut turns = Vec::new();
    for _ in 0..4 {
        turns.push(turn().await);
    }
    let mut fifth = turn();
    assert!(ready_within(1, &mut fifth).await.is_none());
    turns.pop();
    assert!(ready_within(1, &mut fifth).await.is_some());
}

/// Polls a future at most this number of times, first immediately and then at each wake. Returns its result, if it was ready by
/// then.
async fn ready_within<F: Future + Unpin>(polls: usize, future: &mut F) -> Option<F::Output> {
    let mut left = polls;
    poll_fn(|context| {
        left -= 1;
        match Pin::new(&mut *future).poll(context) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

// ---- The bound -----------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_full_outbox_refuses_what_it_cannot_tell_and_folds_failures() {
    let history = FakeHistory::start().await;
    let service = history.service();
    let change = |config: &mut testkit::TestSettings| {
        (config.events.history, config.events.outbox_bytes) = (service, 100_000);
        (config.identity.address_attempts, config.identity.lock_attempts) = (0, 1000);
    };
    let server = TestServer::start_with(change).await;
    let client = server.anonymous();
    history.set_behaviour(Behaviour::Refuses);
    // A third is used: failures of the same account and address share a row, successes do not.
    put_old(&server, "00000000-0000-4000-8000-000000000001", 33_000).await;
    client.sign_in(ADMIN, PASSWORD).await;
    eventually(async || outbox::backlog(&server.build).current_estimate().bytes > 33_000).await;
    for _ in 0..3 {
        fail(&client, ADMIN).await;
        fail(&client, "nobody@example.com").await;
    }
    client.sign_in(ADMIN, PASSWORD).await;
    assert_eq!(count_waiting(&server).await, 5);
    // The whole outbox is used.
    put_old(&server, "00000000-0000-4000-8000-000000000002", 80_000).await;
    eventually(async || outbox::backlog(&server.build).current_estimate().bytes > 100_000).await;
    client.login(ADMIN, PASSWORD).await.expect_reply(503, message::detail("History is unavailable."));
    assert_eq!(client.login(ADMIN, PASSWORD).await.header("retry-after"), "1");
    for _ in 0..4 {
        fail(&client, ADMIN).await;
        server.advance(MINUTE);
        fail(&client, "nobody@example.com").await;
    }
    assert_eq!(count_waiting(&server).await, 7);
    let folded = Sql::new("SELECT body FROM outbox WHERE fold_key = '2'");
    let read = move |conn: &mut Conn| {
        conn.query_one(&folded, |row| Ok(serde_json::from_str::<Json>(row.text(0)?).unwrap_or_default()))
    };
    let folded = server.build.db.read::<_, StoreError>(read).await.unwrap();
    let data: Json = serde_json::from_str(folded["event_data"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&data["count"], &data["last_at"], &folded["source_id"]),
        (&json!(8), &json!("2026-01-31T09:34:00.000000Z"), &json!(0))
    );
    // Requests without an event succeed, and all others do after the outbox has space.
    client.get("/api/security/").await.ok();
    server.advance(MINUTE);
    history.set_behaviour(Behaviour::Serves);
    history.wait_for_events(7).await;
    eventually(async || client.login(ADMIN, PASSWORD).await.status == 200).await;
}

// ---- Processes -----------------------------------------------------------------------------------------------------

fn installation(port: u16) -> Installation {
    let installation = match Installation::postgresql(BINARY) {
        Some(installation) => installation.set("CHANCERY_FALLBACK_BUILD", "localhost"),
        None => Installation::embedded(BINARY),
    };
    let installation = installation
        .set("CHANCERY_ADMIN_PASSWORD", PASSWORD)
        .set("CHANCERY_HISTORY_URL", &format!("http://127.0.0.1:{port}"))
        .set("CHANCERY_HISTORY_API_KEY", HISTORY_KEY)
        .set("CHANCERY_ADDRESS_ATTEMPTS", "0");
    installation.succeeds(&["build", "create", "localhost"]);
    installation
}

#[tokio::test(flavor = "multi_thread")]
async fn events_committed_before_a_crash_arrive_after_it() {
    let history = FakeHistory::start().await;
    let installation = installation(history.address.port());
    assert_eq!(history.tenants().len(), 1);
    let process = installation.serve_api();
    let client = process.client("localhost");
    client.sign_in(ADMIN, PASSWORD).await;
    history.wait_for_events(1).await;
    history.set_behaviour(Behaviour::Hangs);
    for _ in 0..5 {
        fail(&client, "nobody@example.com").await;
    }
    process.kill();
    history.set_behaviour(Behaviour::Serves);
    let process = installation.serve_api();
    assert_eq!(kinds(&history.wait_for_events(6).await), [1, 2, 2, 2, 2, 2]);
    assert_eq!(history.tenants().len(), 1);
    process.stop();
}

/// Adds history events of these records to the outbox of a build, like a process.
async fn insert(installation: &Installation, records: std::ops::RangeInclusive<i64>) {
    let store = installation.store().await;
    let bodies: Vec<(String, String)> = records
        .map(|record_id| {
            let id = Uuid::new_v4().to_string();
            let body = json!({
                "event_id": id, "event_time": "2026-01-31T09:30:00Z", "event_type_id": 8, "record_id": record_id,
                "source_id": 0, "source_type_id": 3, "event_data": [],
            });
            (id, body.to_string())
        })
        .collect();
    let insert = move |conn: &mut Conn| {
        let rows = bodies.iter().map(|(id, body)| {
            [BorrowedArgument::Text(id), BorrowedArgument::Text("history"), BorrowedArgument::Text(body)]
        });
        let rows: Vec<_> = rows
            .map(|[id, kind, body]| [id, kind, BorrowedArgument::Int(500), BorrowedArgument::Int(0), body])
            .collect();
        conn.insert_rows("outbox", &["id", "kind", "size", "created_at", "body"], &rows, "")
    };
    store.database("build_1").write::<_, StoreError>(insert).await.unwrap();
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_history_events_survive_a_crash_while_they_are_sent() {
    let history = FakeHistory::start().await;
    let installation = installation(history.address.port());
    insert(&installation, 1..=1000).await;
    // The answers are lost with the process: the events have arrived, and are still in the outbox.
    history.set_behaviour(Behaviour::LosesAnswers);
    let process = installation.serve_api();
    eventually(async || history.envelopes().len() >= 64).await;
    process.kill();
    history.set_behaviour(Behaviour::Serves);
    let process = installation.serve_api();
    eventually(async || history.envelopes().len() == 1000).await;
    assert_eq!(records(&envelopes(&history)), (1..=1000).collect::<Vec<_>>());
    assert!(history.repeated() >= 64, "{} were sent twice", history.repeated());
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn several_processes_deliver_each_history_event_once() {
    let history = FakeHistory::start().await;
    let installation = installation(history.address.port());
    if installation.database_url().is_none() {
        return;
    }
    insert(&installation, 1..=3000).await;
    let processes = [installation.serve_api(), installation.serve_api()];
    eventually(async || history.envelopes().len() == 3000).await;
    assert_eq!(records(&envelopes(&history)), (1..=3000).collect::<Vec<_>>());
    assert_eq!(history.repeated(), 0);
    processes.into_iter().for_each(testkit::Process::stop);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_processes_deliver_each_event_once() {
    let Some(installation) = Installation::postgresql(BINARY) else { return };
    let history = FakeHistory::start().await;
    let installation = installation
        .set("CHANCERY_FALLBACK_BUILD", "localhost")
        .set("CHANCERY_ADMIN_PASSWORD", PASSWORD)
        .set("CHANCERY_HISTORY_URL", &format!("http://{}", history.address))
        .set("CHANCERY_HISTORY_API_KEY", HISTORY_KEY)
        .set("CHANCERY_ADDRESS_ATTEMPTS", "0");
    installation.succeeds(&["build", "create", "localhost"]);
    let processes = [installation.serve_api(), installation.serve_api()];
    let mut tasks = Vec::new();
    for process in &processes {
        for _ in 0..4 {
            let client = process.client("localhost");
            tasks.push(tokio::spawn(async move {
                for _ in 0..10 {
                    fail(&client, "nobody@example.com").await;
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    let events = history.wait_for_events(80).await;
    let ids: HashSet<&str> = events.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!((ids.len(), history.repeated(), history.tenants().len()), (80, 0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn history_stays_when_a_build_goes_unless_it_is_to_go() {
    let history = FakeHistory::start().await;
    let installation = installation(history.address.port());
    let made = installation.succeeds(&["build", "create", "b.example"]);
    assert_eq!(made, "The build b.example was made.\n");
    let first = history.tenants()[1].clone();
    let gone = installation.succeeds(&["build", "delete", "b.example", "--yes"]);
    let stays = format!("Its history stays: database {}, client id {}.\n", first.database_name, first.client_id);
    assert_eq!(without_receipt(&gone), format!("The build b.example was deleted.\n{stays}"));
    assert_eq!(history.deleted(), [] as [&str; 0]);

    // Events that were not delivered in time are reported.
    installation.succeeds(&["build", "create", "c.example"]);
    history.set_behaviour(Behaviour::Refuses);
    let process = installation.serve_api();
    fail(&process.client("c.example"), ADMIN).await;
    let gone = installation.succeeds(&["build", "delete", "c.example", "--yes"]);
    assert!(without_receipt(&gone).ends_with(".\n1 events had not arrived there, and are gone.\n"), "{gone}");
    history.set_behaviour(Behaviour::Serves);
    process.stop();

    // The same domain gets another tenant.
    installation.succeeds(&["build", "create", "b.example"]);
    let second = history.tenants()[3].clone();
    assert_ne!(first.database_name, second.database_name);
    history.set_behaviour(Behaviour::Refuses);
    let refused = installation.fails(&["build", "delete", "b.example", "--yes", "--with-history"]);
    let nothing = "chancery: b.example: nothing was deleted, since its history was not: CHANCERY_HISTORY_URL: ";
    let expected = format!("{nothing}http://{}: 503 Service Unavailable: ", history.address);
    assert!(refused.starts_with(&expected) && refused.lines().count() == 1, "{refused}");
    assert!(installation.succeeds(&["build", "list"]).contains("b.example\tactive"));

    // The state after an earlier attempt that ended in the middle.
    history.set_behaviour(Behaviour::LosesAnswers);
    installation.fails(&["build", "delete", "b.example", "--yes", "--with-history"]);
    history.set_behaviour(Behaviour::Serves);
    let gone = installation.succeeds(&["build", "delete", "b.example", "--yes", "--with-history"]);
    let unknown = format!("database {}, client id {}", second.database_name, second.client_id);
    let told = format!("The build b.example was deleted.\nIts history service knows no history of it: {unknown}.\n");
    assert_eq!(without_receipt(&gone), told);
    assert_eq!(history.deleted(), [second.client_id]);
    assert!(!installation.succeeds(&["build", "list"]).contains("b.example"));
}

/// Returns what a deletion prints before the place of its receipt.
fn without_receipt(printed: &str) -> &str {
    printed.split_once("The receipt is in ").map_or(printed, |(before, _)| before)
}
