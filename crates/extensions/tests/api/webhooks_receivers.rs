//! Receivers that are unavailable, slow or hostile: the outcomes of their deliveries. They do not delay other receivers
//! (`docs/reference/integrations.md`).

use crate::TestServer;
use crate::set_up::{advance, deliveries, hook, number, open_loopback, record, with_class};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use testkit::{ApiClient, Receiver, ReceiverBehaviour, eventually, quiet_period};

const ONE_EVENT: [&str; 1] = ["record_created"];

/// The status of a delivery, the number of its attempts, and the status of the last answer.
type DeliveryRow<'a> = (&'a str, i64, Option<i64>);

/// Returns the rows of deliveries, the newest first.
fn delivery_rows(listed: &[Value]) -> Vec<DeliveryRow<'_>> {
    let told = |one: &Value| (one["attempts"].as_i64().unwrap(), one["response_status"].as_i64());
    listed.iter().map(|one| (one["status"].as_str().unwrap(), told(one).0, told(one).1)).collect()
}

/// Waits until the deliveries of a webhook have these rows, the newest first.
async fn expect_deliveries(api: &ApiClient, webhook: &str, expected: &[DeliveryRow<'_>]) {
    eventually(async || {
        let listed = deliveries(api, webhook, 1).await;
        if delivery_rows(&listed) == expected { Ok(()) } else { Err(listed) }
    })
    .await;
}

async fn hook_of(api: &ApiClient, receiver: &Receiver, name: &str) -> String {
    hook(api, receiver, name, json!({"events": ONE_EVENT})).await
}

#[tokio::test]
async fn an_error_is_tried_again_after_growing_delays_and_keeps_nobody_waiting() {
    let server = TestServer::start_with(open_loopback).await;
    let (api, receiver) = (with_class(&server).await, Receiver::start().await);
    let hook_path = hook_of(&api, &receiver, "Hook").await;
    receiver.reacts(ReceiverBehaviour::Answer(503));
    record(&api).await;
    assert_eq!(delivery_rows(&deliveries(&api, &hook_path, 1).await), [("pending", 1, Some(503))]);
    // Other deliveries are sent meanwhile.
    receiver.reacts(ReceiverBehaviour::Answer(204));
    record(&api).await;
    let listed = deliveries(&api, &hook_path, 2).await;
    assert_eq!(delivery_rows(&listed), [("delivered", 1, Some(204)), ("pending", 1, Some(503))]);
    receiver.reacts(ReceiverBehaviour::Answer(500));
    let first = receiver.requests()[0].clone();
    for (seconds, tries) in [(4, 2), (1, 3), (9, 3), (1, 4), (19, 4), (1, 5)] {
        advance(&server, seconds);
        receiver.wait_for_requests(tries).await;
        quiet_period().await;
        assert_eq!(receiver.requests().len(), tries, "{seconds}");
    }
    // Each attempt has the same event with the same id and body.
    let last = receiver.requests().pop().unwrap();
    assert_eq!((last.id(), &last.body), (first.id(), &first.body));
    assert_ne!(last.headers["webhook-timestamp"], first.headers["webhook-timestamp"]);
    // After a day it is given up.
    advance(&server, 86_400);
    receiver.wait_for_requests(5).await;
    expect_deliveries(&api, &hook_path, &[("delivered", 1, Some(204)), ("failed", 4, Some(500))]).await;
    assert_eq!(number(&server, "SELECT count(*) FROM webhook_events").await, 0);
}

#[tokio::test]
async fn a_receiver_that_is_away_gets_all_in_order_when_it_is_back() {
    let server = TestServer::start_with(open_loopback).await;
    let api = with_class(&server).await;
    let receiver = Receiver::start().await;
    receiver.reacts(ReceiverBehaviour::Bytes(""));
    let hook_path = hook_of(&api, &receiver, "Hook").await;
    let mut records = vec![record(&api).await];
    receiver.wait_for_requests(1).await;
    for _ in 0..8 {
        records.push(record(&api).await);
    }
    quiet_period().await;
    // The receiver is not called for a while.
    assert_eq!(receiver.requests().len(), 1);
    receiver.reacts(ReceiverBehaviour::Answer(200));
    advance(&server, 5);
    let received = receiver.wait_for_requests(10).await;
    let ids: Vec<i64> =
        received[1..].iter().map(|received| received.json()["data"]["record_id"].as_i64().unwrap()).collect();
    // The delivery that was tried before comes last.
    assert_eq!((&ids[..8], ids[8]), (&records[1..], records[0]));
    assert!(delivery_rows(&deliveries(&api, &hook_path, 9).await).iter().all(|(status, ..)| *status == "delivered"));
}

#[tokio::test]
async fn hostile_receivers_cost_the_others_nothing() {
    let server = TestServer::start_with(open_loopback).await;
    let api = with_class(&server).await;
    let elsewhere = Receiver::start().await;
    let redirect = format!("HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", elsewhere.url("/"));
    let endless = format!("HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n{}", "x".repeat(100_000));
    let cases: Vec<(&str, ReceiverBehaviour, DeliveryRow)> = vec![
        ("redirects", ReceiverBehaviour::Bytes(redirect.leak()), ("pending", 1, Some(302))),
        ("closes", ReceiverBehaviour::Bytes(""), ("pending", 1, None)),
        ("speaks no HTTP", ReceiverBehaviour::Bytes("220 mail.example ESMTP\r\n"), ("pending", 1, None)),
        (
            "has an endless head",
            ReceiverBehaviour::Bytes(format!("HTTP/1.1 200 OK\r\n{}", "a: b\r\n".repeat(10_000)).leak()),
            ("pending", 1, None),
        ),
        ("says too much", ReceiverBehaviour::Bytes(endless.leak()), ("delivered", 1, Some(200))),
        (
            "says too little",
            ReceiverBehaviour::Bytes("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nshort"),
            ("delivered", 1, Some(200)),
        ),
        (
            "hangs in its body",
            ReceiverBehaviour::Hang("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"),
            ("delivered", 1, Some(200)),
        ),
        ("is gone", ReceiverBehaviour::Bytes("HTTP/1.1 410 Gone\r\n\r\n"), ("pending", 1, Some(410))),
    ];
    let mut hooks = Vec::new();
    for (name, reaction, told) in &cases {
        let receiver = Receiver::start().await;
        receiver.reacts(*reaction);
        hooks.push((hook_of(&api, &receiver, name).await, *told, *name));
    }
    let hanging = Receiver::start().await;
    hanging.reacts(ReceiverBehaviour::Hang(""));
    let hangs = hook_of(&api, &hanging, "hangs").await;
    let honest = Receiver::start().await;
    hook_of(&api, &honest, "honest").await;

    let began = Instant::now();
    for count in 1..=5 {
        record(&api).await;
        honest.wait_for_requests(count).await;
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    for (hook, expected, name) in &hooks {
        let listed = deliveries(&api, hook, 1).await;
        assert_eq!(delivery_rows(&listed)[4], *expected, "{name}");
    }
    assert_eq!(elsewhere.requests().len(), 0);
    // An attempt at a hanging receiver ends after ten seconds.
    let listed = deliveries(&api, &hangs, 1).await;
    assert_eq!(delivery_rows(&listed)[4], ("pending", 1, None));
    assert!((9..20).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert_eq!((hanging.requests().len(), honest.requests().len()), (1, 5));
}

#[tokio::test]
async fn addresses_that_are_not_allowed_are_not_connected_to() {
    let receiver = Receiver::start().await;
    let server = TestServer::start().await;
    let api = with_class(&server).await;
    let mut hooks = Vec::new();
    for (n, host) in
        ["127.0.0.1", "localhost", "127.1", "0x7f.1", "[::ffff:127.0.0.1]", "2130706433"].iter().enumerate()
    {
        let url = format!("https://{host}:{}/hook", receiver.port);
        let body = json!({"events": ONE_EVENT, "url": url});
        hooks.push(hook(&api, &receiver, &format!("Hook {n}"), body).await);
    }
    record(&api).await;
    for hook in &hooks {
        assert_eq!(delivery_rows(&deliveries(&api, hook, 1).await), [("pending", 1, None)]);
    }
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn a_disabled_webhook_stops_and_what_waits_waits_for_a_day_at_most() {
    let server = TestServer::start_with(open_loopback).await;
    let (api, receiver) = (with_class(&server).await, Receiver::start().await);
    receiver.reacts(ReceiverBehaviour::Answer(500));
    let hook_path = hook_of(&api, &receiver, "Hook").await;
    record(&api).await;
    deliveries(&api, &hook_path, 1).await;
    api.patch(&hook_path, json!({"is_enabled": false})).await.ok();
    receiver.reacts(ReceiverBehaviour::Answer(200));
    advance(&server, 3600);
    record(&api).await;
    quiet_period().await;
    assert_eq!(receiver.requests().len(), 1);
    // When it is enabled again, waiting deliveries are sent. Events of the meantime are not.
    api.patch(&hook_path, json!({"is_enabled": true})).await.ok();
    receiver.wait_for_requests(2).await;
    expect_deliveries(&api, &hook_path, &[("delivered", 2, Some(200))]).await;
    receiver.reacts(ReceiverBehaviour::Answer(500));
    record(&api).await;
    expect_deliveries(&api, &hook_path, &[("pending", 1, Some(500)), ("delivered", 2, Some(200))]).await;
    api.patch(&hook_path, json!({"is_enabled": false})).await.ok();
    advance(&server, 86_401);
    expect_deliveries(&api, &hook_path, &[("failed", 1, Some(500)), ("delivered", 2, Some(200))]).await;
    assert_eq!(receiver.requests().len(), 3);
}

#[tokio::test]
async fn the_oldest_fail_beyond_what_may_wait_and_a_thousand_are_listed() {
    let server = TestServer::start_with(|settings| {
        open_loopback(settings);
        settings.domains.edit::<extensions::ExtensionSettings>().waiting_deliveries = 20;
    })
    .await;
    let (api, receiver) = (with_class(&server).await, Receiver::start().await);
    receiver.reacts(ReceiverBehaviour::Bytes(""));
    let hook_path = hook_of(&api, &receiver, "Hook").await;
    let batch = async |count: usize| {
        let items = json!({"items": vec![json!({"fields": {}}); count]});
        api.post("/api/object-classes/1/object-records/batch/", items).await.expect_created();
    };
    batch(30).await;
    deliveries(&api, &hook_path, 1).await;
    advance(&server, 61);
    let count = async |status: &str| {
        let listed = api.get(&format!("{hook_path}deliveries/?limit=1000")).await.ok();
        listed["results"].as_array().unwrap().iter().filter(|delivery| delivery["status"] == status).count()
    };
    eventually(async || match count("pending").await {
        20 => Ok(()),
        pending => Err(pending),
    })
    .await;
    assert_eq!(count("failed").await, 10);
    let listed = api.get(&format!("{hook_path}deliveries/?limit=1000")).await;
    assert!(listed.column("status")[..20].iter().all(|status| status == "pending"), "{:?}", listed.column("status"));

    receiver.reacts(ReceiverBehaviour::Answer(200));
    eventually(async || {
        // An attempt that was running when the receiver recovered pauses the webhook once more.
        advance(&server, 60);
        match count("pending").await {
            0 => Ok(()),
            pending => Err(pending),
        }
    })
    .await;
    // The number of waiting deliveries stays within the limit, so that none of them fails.
    let mut sent = receiver.requests().len();
    for _ in 0..100 {
        batch(10).await;
        sent += 10;
        receiver.wait_for_requests(sent).await;
    }
    advance(&server, 61);
    let listed = api.get(&format!("{hook_path}deliveries/?limit=5")).await.ok();
    assert_eq!((&listed["total_count"], &listed["filtered_count"]), (&json!(1_000), &json!(1_000)));
    eventually(async || number(&server, "SELECT count(*) FROM webhook_deliveries").await <= 1_000).await;
}
