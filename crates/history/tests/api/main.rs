//! Tests the history service through its API. The files have the names of the endpoints' files in `src`. The service
//! runs on the embedded engine, or, with `CHANCERY_TEST_HISTORY=clickhouse`, on ClickHouse.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod access;
mod create_event;
mod event_files;
mod events;
mod file_removal;
mod service;
mod system_events;
mod tenants;

use serde_json::{Value as Json, json};
use testkit::Reply;

/// Returns an id that ends with a number.
fn id(n: u32) -> String {
    format!("00000000-0000-4000-8000-{n:012}")
}

/// Returns the envelope of a history event.
fn envelope(source: &str, detail: Json) -> Json {
    json!({
        "version": "0", "id": "17793124-05d4-b198-2fde-7ededc63b103", "detail-type": "record event", "source": source,
        "account": "a.example", "time": "2026-01-31T09:30:00Z", "region": "", "resources": [], "detail": detail,
    })
}

/// Returns a history event of a record.
fn detail(n: u32, record: i64, event_type: i64, time: &str) -> Json {
    json!({
        "event_id": id(n), "event_time": time, "event_type_id": event_type, "record_id": record, "source_id": 7,
        "source_type_id": 1, "event_data": [],
    })
}

/// Returns a system event.
fn system_event(n: u32) -> Json {
    json!({
        "id": id(n), "event_timestamp": format!("2026-01-31T09:30:00.{:06}Z", n % 1_000_000), "category": 1,
        "event_type": 1,
    })
}

/// Returns the body of a 422, from the place, message and type of each problem.
fn problems(list: Json) -> Json {
    let list = list.as_array().cloned().unwrap_or_default();
    let problem = |item: &Json| json!({"loc": item[0], "msg": item[1], "type": item[2]});
    json!({"detail": list.iter().map(problem).collect::<Vec<_>>()})
}

/// Expects a 422 with one problem.
#[track_caller]
fn expect_problem(reply: &Reply, place: Json, message: &str, kind: &str) {
    reply.expect_reply(422, problems(json!([[place, message, kind]])));
}
