//! The messages of webhooks, and `/api/integrations/{uuid}/deliveries/` and `/test/` (`docs/reference/integrations.md`).

use crate::TestServer;
use crate::set_up::{
    INTEGRATIONS, SECRET, address, agents, deliveries, hook, number, open_loopback, record, with_class,
};
use serde_json::{Value, json};
use testkit::shown::{START, page};
use testkit::{Receiver, SECOND, message, quiet_period};

const RECORDS: &str = "/api/object-classes/1/object-records/";

#[tokio::test]
async fn an_event_is_sent_with_its_record_and_listed() {
    let server = TestServer::start_with(open_loopback).await;
    let (api, receiver) = (with_class(&server).await, Receiver::start().await);
    let field = json!({"label": "Title", "type": "string"});
    api.post("/api/object-classes/1/fields/", field).await.expect_created();
    let hook_path = hook(&api, &receiver, "Hook", json!({"events": ["record_created", "record_deleted"]})).await;
    api.get(&format!("{hook_path}deliveries/")).await.expect_reply(200, page(json!([])));
    let body = json!({"fields": {"title": "Größe \"9\""}});
    let record = api.post(RECORDS, body).await.id();

    let received = receiver.wait_for_requests(1).await.remove(0);
    assert_eq!(received.path, "/hook");
    for (name, value) in [
        ("content-type", "application/json".to_owned()),
        ("user-agent", "Chancery".to_owned()),
        ("host", format!("127.0.0.1:{}", receiver.port)),
        ("webhook-timestamp", "1769851800".to_owned()),
    ] {
        assert_eq!(received.headers.get(name), Some(&value));
    }
    assert!(received.headers["webhook-signature"].starts_with("v1,"), "{:?}", received.headers);
    let payload = received.json();
    assert_eq!(
        payload,
        json!({
            "type": "record_created", "timestamp": START,
            "data": {
                "event_id": received.id(), "event_datetime": START, "event_type": "record_created",
                "event_data": [
                    {"field_id": 2, "field_type": "string", "field_value": "Größe \"9\"", "field_name": "Title"},
                ],
                "source_type": "user", "source_id": 1, "source_name": "admin Super Admin", "source_info": "",
                "record_id": record, "object_class": 1,
            },
        })
    );
    let listed = deliveries(&api, &hook_path, 1).await;
    let delivered = json!({
        "event_id": received.id(), "event_type": "record_created", "created_at": START, "last_attempt_at": START,
        "attempts": 1, "status": "delivered", "response_status": 200,
    });
    assert_eq!(json!(listed), json!([delivered]));

    // A change without a subscription, and the deletion of the record.
    server.advance(SECOND);
    api.patch(&format!("/api/object-records/{record}/"), json!({"fields": {"title": "B"}})).await.ok();
    api.delete(&format!("/api/object-records/{record}/")).await.expect_empty();
    let payload = receiver.wait_for_requests(2).await[1].json();
    assert_eq!((&payload["type"], &payload["data"]["event_data"]), (&json!("record_deleted"), &json!([])));
    assert_eq!((&payload["data"]["record_id"], &payload["data"]["object_class"]), (&json!(record), &json!(1)));
    let listed = deliveries(&api, &hook_path, 2).await;
    assert_eq!((&listed[0]["event_type"], &listed[1]), (&json!("record_deleted"), &delivered));
    // The bodies of finished deliveries are deleted.
    assert_eq!(number(&server, "SELECT count(*) FROM webhook_events").await, 0);
    // One connection was used for both.
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn each_webhook_hears_of_its_class_and_its_events() {
    let server = TestServer::start_with(open_loopback).await;
    let api = with_class(&server).await;
    api.post("/api/object-classes/", json!({"name": "Bill"})).await.expect_created();
    let receivers = [Receiver::start().await, Receiver::start().await, Receiver::start().await];
    hook(&api, &receivers[0], "Orders", json!({"events": ["record_created"]})).await;
    hook(&api, &receivers[1], "All", json!({"object_class": null, "events": ["record_created", "owner_initialized"]}))
        .await;
    let silent = hook(&api, &receivers[2], "Disabled", json!({"is_enabled": false})).await;
    for class in [1, 2, 1] {
        api.post(&format!("/api/object-classes/{class}/object-records/"), json!({})).await.expect_created();
    }
    let types = |receiver: &Receiver| -> Vec<(Value, Value)> {
        let type_and_class = |json: Value| (json["type"].clone(), json["data"]["object_class"].clone());
        receiver.requests().iter().map(|received| type_and_class(received.json())).collect()
    };
    receivers[1].wait_for_requests(6).await;
    receivers[0].wait_for_requests(2).await;
    let event = |name: &str, class: i64| (json!(name), json!(class));
    assert_eq!(types(&receivers[0]), [event("record_created", 1), event("record_created", 1)]);
    let all = types(&receivers[1]);
    for (name, class, count) in
        [("record_created", 1, 2), ("record_created", 2, 1), ("owner_initialized", 1, 2), ("owner_initialized", 2, 1)]
    {
        assert_eq!(all.iter().filter(|delivery| **delivery == event(name, class)).count(), count, "{name} {class}");
    }
    // The events arrive in their order.
    let ids: Vec<i64> =
        receivers[1].requests().iter().map(|received| received.json()["data"]["record_id"].as_i64().unwrap()).collect();
    assert!(ids.is_sorted(), "{ids:?}");

    // Events are sent from the time at which the webhook is enabled.
    api.patch(&silent, json!({"is_enabled": true})).await.ok();
    record(&api).await;
    let received = receivers[2].wait_for_requests(1).await;
    assert_eq!(received[0].json()["data"]["record_id"], 4);
    // A deleted webhook gets no further events.
    api.delete(&silent).await.expect_empty();
    let count = receivers[2].requests().len();
    record(&api).await;
    receivers[0].wait_for_requests(4).await;
    quiet_period().await;
    assert!(receivers[2].requests().len() <= count + 2, "{:?}", types(&receivers[2]));
    api.get(&format!("{silent}deliveries/")).await.expect_reply(404, message::not_found());
}

#[tokio::test]
async fn a_test_is_sent_also_by_a_webhook_that_is_disabled() {
    let server = TestServer::start_with(open_loopback).await;
    let (api, receiver) = (with_class(&server).await, Receiver::start().await);
    let hook_path = hook(&api, &receiver, "Hook", json!({"is_enabled": false})).await;
    let answer = api.post(&format!("{hook_path}test/"), json!({})).await;
    let received = receiver.wait_for_requests(1).await.remove(0);
    let mut delivery = json!({
        "event_id": received.id(), "event_type": "test", "created_at": START, "last_attempt_at": null, "attempts": 0,
        "status": "pending", "response_status": null,
    });
    answer.expect_reply(200, delivery.clone());
    let uuid = hook_path.strip_prefix(INTEGRATIONS).unwrap().trim_end_matches('/');
    assert_eq!(received.json(), json!({"type": "test", "timestamp": START, "data": {"integration": uuid}}));
    for (name, value) in [
        ("last_attempt_at", json!(START)),
        ("attempts", json!(1)),
        ("status", json!("delivered")),
        ("response_status", json!(200)),
    ] {
        delivery[name] = value;
    }
    assert_eq!(deliveries(&api, &hook_path, 1).await, [delivery]);
    // A test is tried once.
    receiver.reacts(testkit::ReceiverBehaviour::Answer(500));
    api.post(&format!("{hook_path}test/"), json!({})).await.ok();
    let failed = deliveries(&api, &hook_path, 2).await.remove(0);
    assert_eq!((&failed["status"], &failed["response_status"]), (&json!("failed"), &json!(500)));

    let others = address(&api.post(INTEGRATIONS, agents("Agents")).await.expect_created());
    for path in [&others, &format!("{INTEGRATIONS}{}/", testkit::UUID)] {
        api.post(&format!("{path}test/"), json!({})).await.expect_reply(404, message::not_found());
        api.get(&format!("{path}deliveries/")).await.expect_reply(404, message::not_found());
        api.options(&format!("{path}deliveries/")).await.expect_reply(404, message::not_found());
    }
    let viewer = server.with_role(json!({"integrations": ["view"]})).await;
    viewer.post(&format!("{hook_path}test/"), json!({})).await.expect_reply(403, message::forbidden());
    assert_eq!(viewer.get(&format!("{hook_path}deliveries/")).await["total_count"], 2);
    let lister = server.with_role(json!({"integrations": ["list"]})).await;
    lister.get(&format!("{hook_path}deliveries/")).await.expect_reply(403, message::forbidden());
}

#[tokio::test]
async fn a_retry_goes_to_the_current_address_of_the_webhook() {
    let server = TestServer::start_with(open_loopback).await;
    let (api, first, second) = (with_class(&server).await, Receiver::start().await, Receiver::start().await);
    let hook_path = hook(&api, &first, "Hook", json!({"events": ["record_created"]})).await;
    first.reacts(testkit::ReceiverBehaviour::Bytes(""));
    record(&api).await;
    deliveries(&api, &hook_path, 1).await;
    let id = first.requests()[0].id().to_owned();
    api.patch(&hook_path, json!({"url": second.url("/other?a=1"), "secret": SECRET})).await.ok();
    crate::set_up::advance(&server, 5);
    let received = second.wait_for_requests(1).await.remove(0);
    assert_eq!((received.path.as_str(), received.id()), ("/other?a=1", id.as_str()));
}
