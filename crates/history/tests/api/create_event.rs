//! Tests `/api/event-bridge/create-event`.

use crate::{detail, envelope, expect_problem, id, problems};
use serde_json::{Value as Json, json};
use testkit::{ApiClient, HistoryServer, Reply};

const CREATE: &str = "/api/event-bridge/create-event";
const TIME: &str = "2026-01-31T09:30:00.123456Z";

async fn add(api: &ApiClient, detail: Json) -> Reply {
    api.post(CREATE, envelope("events", detail)).await
}

#[tokio::test]
async fn an_event_is_read_back_as_it_was_sent() {
    let server = HistoryServer::start().await;
    let api = server.tenant("events").await;
    let mut whole = detail(1, 17, 7, TIME);
    let field = r#"{"field_id": 3, "field_type": "string", "field_value": ["é", null, 1.50], "field_name": "Name"}"#;
    whole["event_data"] = json!([field, "5", " \"text\" "]);
    whole["source_type_id"] = json!(4);
    whole["source_name"] = json!("Ann Example");
    whole["source_info"] = json!("assistant 1.0");
    add(&api, whole).await.expect_reply(201, json!({"detail": "Event created."}));
    api.get("/api/history/events").await.expect_reply(
        200,
        json!({"limit": 25, "offset": 0, "total_count": 1, "filtered_count": 1, "results": [{
            "event_id": id(1), "event_datetime": TIME, "event_type": "field_values_changed",
            "event_data": [
                {"field_id": 3, "field_type": "string", "field_value": ["é", null, 1.5], "field_name": "Name"}, 5, "text",
            ],
            "source_type": "mcp", "source_id": 7, "source_name": "Ann Example", "source_info": "assistant 1.0",
        }]}),
    );
}

#[tokio::test]
async fn omitted_members_are_null_or_empty() {
    let server = HistoryServer::start().await;
    let api = server.tenant("events").await;
    add(&api, detail(1, 1, 8, TIME)).await.expect_created();
    let listed = api.get("/api/history/events").await.ok();
    assert_eq!(
        listed["results"][0],
        json!({
            "event_id": id(1), "event_datetime": TIME, "event_type": "record_deleted", "event_data": [],
            "source_type": "user", "source_id": 7, "source_name": null, "source_info": "",
        })
    );
}

#[tokio::test]
async fn the_tenant_is_that_of_the_header_else_of_the_source() {
    let server = HistoryServer::start().await;
    let (one, two) = (server.tenant("one").await, server.tenant("two").await);
    let both = envelope("two", detail(1, 1, 1, TIME));
    one.post(CREATE, both.clone()).await.expect_created();
    assert_eq!(one.get("/api/history/events").await.ok()["total_count"], 1);
    assert_eq!(two.get("/api/history/events").await.ok()["total_count"], 0);
    server.client_with_key().post(CREATE, both).await.expect_created();
    assert_eq!(two.get("/api/history/events").await.ok()["total_count"], 1);
}

#[tokio::test]
async fn an_event_id_is_written_once() {
    let server = HistoryServer::start().await;
    let api = server.tenant("events").await;
    let created = json!({"detail": "Event created."});
    add(&api, detail(1, 1, 1, TIME)).await.expect_reply(201, created.clone());
    // The second request has other values: it gets 201, and is not stored.
    add(&api, detail(1, 2, 3, "2020-01-01T00:00:00Z")).await.expect_reply(201, created);
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let api = api.clone();
            tokio::spawn(async move { add(&api, detail(2, 1, 3, TIME)).await.status })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), 201);
    }
    let listed = api.get("/api/history/events").await;
    assert_eq!(listed.json["total_count"], 2);
    assert_eq!(listed.column("event_type"), [json!("owners_added"), json!("record_created")]);
}

#[tokio::test]
async fn a_refusal_names_everything_that_is_wrong() {
    let server = HistoryServer::start().await;
    let api = server.tenant("events").await;
    let missing = |place: Json| json!([place, "field required", "value_error.missing"]);
    let of_envelope = ["version", "id", "detail-type", "source", "account", "time", "region", "resources", "detail"];
    let expected: Vec<Json> = of_envelope.iter().map(|name| missing(json!(["body", name]))).collect();
    api.post(CREATE, json!({})).await.expect_reply(422, problems(json!(expected)));
    let of_detail =
        ["event_id", "event_time", "event_type_id", "record_id", "source_id", "source_type_id", "event_data"];
    let expected: Vec<Json> = of_detail.iter().map(|name| missing(json!(["body", "detail", name]))).collect();
    add(&api, json!({})).await.expect_reply(422, problems(json!(expected)));
    let wrong = json!({
        "event_id": "5", "event_time": "2300-01-01T00:00:00Z", "event_type_id": 11, "record_id": "1", "source_id": 1.5,
        "source_type_id": 0, "source_name": 5, "source_info": [], "event_data": ["{", 5, "1 2", "null"],
    });
    let place = |name: &str| json!(["body", "detail", name]);
    let item = |at: usize| json!(["body", "detail", "event_data", at]);
    add(&api, wrong).await.expect_reply(
        422,
        problems(json!([
            [place("event_id"), "value is not a valid uuid", "type_error.uuid"],
            [place("event_time"), "invalid datetime format", "value_error.datetime"],
            [place("event_type_id"), "value is not a valid enumeration member", "type_error.enum"],
            [place("record_id"), "value is not a valid integer", "type_error.integer"],
            [place("source_id"), "value is not a valid integer", "type_error.integer"],
            [place("source_type_id"), "value is not a valid enumeration member", "type_error.enum"],
            [place("source_name"), "str type expected", "type_error.str"],
            [place("source_info"), "str type expected", "type_error.str"],
            [item(0), "invalid JSON", "value_error.json"],
            [item(1), "str type expected", "type_error.str"],
            [item(2), "invalid JSON", "value_error.json"],
        ])),
    );
    let mut wrong = envelope("events", detail(1, 1, 1, TIME));
    wrong["detail"] = json!([]);
    expect_problem(
        &api.post(CREATE, wrong).await,
        json!(["body", "detail"]),
        "value is not a valid dict",
        "type_error.dict",
    );
    let mut wrong = envelope("events", detail(1, 1, 1, TIME));
    (wrong["time"], wrong["resources"]) = (json!("x"), json!({}));
    api.post(CREATE, wrong).await.expect_reply(
        422,
        problems(json!([
            [["body", "time"], "invalid datetime format", "value_error.datetime"],
            [["body", "resources"], "value is not a valid list", "type_error.list"],
        ])),
    );
    assert_eq!(api.get("/api/history/events").await.ok()["total_count"], 0);
}

#[tokio::test]
async fn json_that_some_readers_cannot_read_is_refused() {
    let server = HistoryServer::start().await;
    let api = server.tenant("events").await;
    for text in [
        format!("{}{}", "[".repeat(5000), "]".repeat(5000)),
        r#""\ud800""#.to_owned(),
        r#"{"\udfff": 1}"#.to_owned(),
        "1e999999".to_owned(),
        "NaN".to_owned(),
        "1 2".to_owned(),
        String::new(),
    ] {
        let mut event = detail(1, 1, 7, TIME);
        event["event_data"] = json!([text]);
        let place = json!(["body", "detail", "event_data", 0]);
        expect_problem(&add(&api, event).await, place, "invalid JSON", "value_error.json");
    }
    let mut event = detail(1, 1, 7, TIME);
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    event["event_data"] = json!([deep, r#""\ud83d\ude00""#, "1e300"]);
    add(&api, event).await.expect_created();
    assert_eq!(api.get("/api/history/events").await.ok()["results"][0]["event_data"][1], "😀");
}

#[tokio::test]
async fn a_refusal_names_at_most_a_thousand_problems() {
    let server = HistoryServer::start().await;
    let api = server.tenant("events").await;
    let mut event = detail(1, 1, 7, TIME);
    event["event_data"] = json!(vec![1; 300_000]);
    let reply = add(&api, event).await;
    assert_eq!((reply.status, reply.json["detail"].as_array().unwrap().len()), (422, 1000));
}
