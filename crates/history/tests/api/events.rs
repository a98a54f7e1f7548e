//! Tests `/api/history/events`.

use crate::{detail, envelope, expect_problem, problems};
use serde_json::{Value as Json, json};
use testkit::{ApiClient, HistoryServer};

const TIME: &str = "2026-01-31T09:30:00Z";

async fn add(api: &ApiClient, detail: Json) {
    api.post("/api/event-bridge/create-event", envelope("events", detail)).await.expect_created();
}

/// Returns the last digits of the ids that a query lists. Checks that the counts agree with it.
async fn ids(api: &ApiClient, query: &str) -> Vec<i64> {
    let listed = api.get(&format!("/api/history/events?{query}")).await;
    let ids: Vec<i64> =
        listed.column("event_id").iter().map(|id| id.as_str().unwrap()[24..].parse().unwrap()).collect();
    assert_eq!(listed.json["filtered_count"], ids.len(), "{query}");
    ids
}

#[tokio::test]
async fn the_newest_come_first_and_ties_have_their_order() {
    let server = HistoryServer::start().await;
    let api = server.tenant("events").await;
    // Five events have one time, one is later and one earlier. Of equal rank, the greater id comes first.
    for (n, event_type) in [(5, 1), (4, 2), (1, 10), (3, 3), (2, 7)] {
        add(&api, detail(n, 1, event_type, TIME)).await;
    }
    add(&api, detail(9, 1, 8, "2026-01-31T09:30:00.000001Z")).await;
    add(&api, detail(8, 1, 3, "2026-01-31T09:29:59.999999Z")).await;
    assert_eq!(ids(&api, "").await, [9, 3, 2, 1, 4, 5, 8]);
    assert_eq!(ids(&api, "record_id=1").await, [9, 3, 2, 1, 4, 5, 8]);
    // Other orders are not supported: `ordering` is an unknown parameter, which is ignored.
    assert_eq!(ids(&api, "ordering=event_datetime").await, [9, 3, 2, 1, 4, 5, 8]);
    let mut one_by_one = Vec::new();
    for offset in 0..8 {
        let listed = api.get(&format!("/api/history/events?limit=1&offset={offset}")).await;
        assert_eq!((&listed.json["limit"], &listed.json["offset"]), (&json!(1), &json!(offset)));
        assert_eq!((&listed.json["total_count"], &listed.json["filtered_count"]), (&json!(7), &json!(7)));
        one_by_one.extend(listed.column("event_id"));
    }
    assert_eq!(one_by_one, api.get("/api/history/events").await.column("event_id"));
}

#[tokio::test]
async fn events_of_equal_rank_are_ordered_by_the_bytes_of_their_ids() {
    let server = HistoryServer::start().await;
    let api = server.tenant("events").await;
    let ids = [
        "00000000-0000-4000-8000-0000000000ff",
        "10000000-0000-4000-8000-000000000001",
        "ff000000-0000-4000-8000-000000000000",
        "0f000000-0000-4000-bfff-000000000002",
    ];
    for id in ids {
        let mut event = detail(1, 1, 3, TIME);
        event["event_id"] = json!(id);
        add(&api, event).await;
    }
    let listed = api.get("/api/history/events").await;
    assert_eq!(listed.column("event_id"), [json!(ids[2]), json!(ids[1]), json!(ids[3]), json!(ids[0])]);
}

#[tokio::test]
async fn events_are_filtered_by_every_predicate() {
    let server = HistoryServer::start().await;
    let api = server.tenant("events").await;
    for n in 1..=10_u32 {
        let mut event = detail(n, i64::from(n % 4), i64::from(n), &format!("2026-01-{n:02}T00:00:00Z"));
        event["source_type_id"] = json!(1 + n % 2);
        event["source_id"] = json!(n % 5);
        add(&api, event).await;
    }
    for (query, expected) in [
        ("record_id=1", vec![9, 5, 1]),
        ("record_id__exact=1", vec![9, 5, 1]),
        ("record_id__in=1,2", vec![10, 9, 6, 5, 2, 1]),
        ("record_id__exclude=1", vec![10, 8, 7, 6, 4, 3, 2]),
        ("record_id__in__exclude=1,2,3", vec![8, 4]),
        ("event_type=document_generated", vec![9]),
        ("event_type__in=record_created,status_initialized", vec![10, 1]),
        ("event_type__exclude=record_created", vec![10, 9, 8, 7, 6, 5, 4, 3, 2]),
        ("source_type=user", vec![10, 8, 6, 4, 2]),
        ("source_type__in=user,mcp", vec![10, 8, 6, 4, 2]),
        ("source_type__exclude=user", vec![9, 7, 5, 3, 1]),
        ("source_type=user&event_type__in=record_created,owner_initialized", vec![2]),
        ("source_id=0", vec![10, 5]),
        ("source_id__in=0,1&record_id=1", vec![5, 1]),
        ("source_id__in__exclude=0,1,2", vec![9, 8, 4, 3]),
        ("event_datetime=2026-01-03T00:00:00Z", vec![3]),
        ("event_datetime__exact=2026-01-03", vec![3]),
        ("event_datetime__exclude=2026-01-03", vec![10, 9, 8, 7, 6, 5, 4, 2, 1]),
        ("event_datetime__gt=2026-01-08T00:00:00Z", vec![10, 9]),
        ("event_datetime__gte=2026-01-08T01:00:00%2B01:00", vec![10, 9, 8]),
        ("event_datetime__gte=2026-01-08T01:00:00+01:00", vec![10, 9, 8]),
        ("event_datetime__lt=2026-01-03T00:00:00Z", vec![2, 1]),
        ("event_datetime__lte=2026-01-03T00:00:00Z", vec![3, 2, 1]),
        ("event_datetime__gt__exclude=2026-01-03T00:00:00Z", vec![3, 2, 1]),
        ("event_datetime__range=2026-01-03T00:00:00Z,2026-01-05T00:00:00Z", vec![5, 4, 3]),
        ("event_datetime__range__exclude=2026-01-02,2026-01-09", vec![10, 1]),
        ("event_datetime__gt=2026-01-02&event_datetime__lt=2026-01-05&record_id=3", vec![3]),
        ("record_id=1&record_id=2", vec![]),
        ("unknown=1&record_id=1", vec![9, 5, 1]),
    ] {
        assert_eq!(ids(&api, query).await, expected, "{query}");
    }
    assert_eq!(api.get("/api/history/events?record_id=1").await.ok()["total_count"], 10);
}

#[tokio::test]
async fn wrong_parameters_are_named() {
    let server = HistoryServer::start().await;
    let api = server.tenant("events").await;
    let below = "ensure this value is greater than or equal to";
    let above = "ensure this value is less than or equal to 1000";
    let (int, member) = ("value is not a valid integer", "value is not a valid enumeration member");
    let invalid_datetime = "invalid datetime format";
    for (query, name, message, kind) in [
        ("limit=0", "limit", format!("{below} 1"), "value_error.number.not_ge"),
        ("limit=1001", "limit", above.to_owned(), "value_error.number.not_le"),
        ("limit=x", "limit", int.to_owned(), "type_error.integer"),
        ("limit=", "limit", int.to_owned(), "type_error.integer"),
        ("offset=-1", "offset", format!("{below} 0"), "value_error.number.not_ge"),
        ("record_id=x", "record_id", int.to_owned(), "type_error.integer"),
        ("record_id__in=1,,2", "record_id__in", int.to_owned(), "type_error.integer"),
        ("record_id=9223372036854775808", "record_id", int.to_owned(), "type_error.integer"),
        ("event_type=x", "event_type", member.to_owned(), "type_error.enum"),
        ("event_type__in=record_created,x", "event_type__in", member.to_owned(), "type_error.enum"),
        ("source_type__exclude=x", "source_type__exclude", member.to_owned(), "type_error.enum"),
        ("event_datetime=x", "event_datetime", invalid_datetime.to_owned(), "value_error.datetime"),
        (
            "event_datetime__range=2026-01-01",
            "event_datetime__range",
            invalid_datetime.to_owned(),
            "value_error.datetime",
        ),
        ("event_datetime__gt=1899-01-01", "event_datetime__gt", invalid_datetime.to_owned(), "value_error.datetime"),
        ("record_id__gt=1", "record_id__gt", "unknown predicate".to_owned(), "value_error.predicate"),
    ] {
        expect_problem(&api.get(&format!("/api/history/events?{query}")).await, json!(["query", name]), &message, kind);
    }
    api.get("/api/history/events?limit=0&record_id=x").await.expect_reply(
        422,
        problems(json!([
            [["query", "limit"], format!("{below} 1"), "value_error.number.not_ge"],
            [["query", "record_id"], int, "type_error.integer"],
        ])),
    );
    api.get("/api/history/events?limit=1000&offset=9223372036854775807").await.ok();
}

#[tokio::test]
async fn a_page_is_bounded_in_bytes() {
    let server = HistoryServer::start().await;
    let api = server.tenant("events").await;
    for n in 0..4 {
        let mut event = detail(n, 1, 7, TIME);
        event["event_data"] = json!([json!("x".repeat(12_000_000)).to_string()]);
        add(&api, event).await;
    }
    let reply = api.get("/api/history/events").await;
    expect_problem(
        &reply,
        json!(["query", "limit"]),
        "ensure that the page has at most 32 MiB",
        "value_error.page.too_large",
    );
    assert_eq!(api.get("/api/history/events?limit=2").await.column("event_id").len(), 2);
}
