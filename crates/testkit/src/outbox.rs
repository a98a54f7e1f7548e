//! Reads the events in a build's outbox.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use crate::server::TestBuild;
use serde_json::Value;
use store::{Conn, Sql, StoreError};

/// A system event that waits in the outbox.
#[derive(Debug)]
pub struct WaitingSystemEvent {
    pub event_type: i64,
    pub source_id: i64,
    pub source_type: i64,
    pub ip: String,
    pub data: Value,
    pub at: i64,
}

/// Returns all waiting system events of a build, in order.
pub async fn events(tenant: &TestBuild) -> Vec<WaitingSystemEvent> {
    let load_bodies = |conn: &mut Conn| {
        conn.query_all(&Sql::new("SELECT id, kind, body FROM outbox WHERE kind = 'system' ORDER BY n"), |row| {
            let body: Value = serde_json::from_str(row.text(2)?).unwrap();
            assert_eq!((row.text(1)?, body["id"].as_str()), ("system", Some(row.text(0)?)));
            Ok(body)
        })
    };
    let bodies = tenant.build.db.read::<Vec<Value>, StoreError>(load_bodies).await.unwrap();
    bodies.iter().map(event).collect()
}

fn event(body: &Value) -> WaitingSystemEvent {
    assert_eq!((body["category"].as_i64(), body["source_info"].as_str()), (Some(1), Some("")));
    WaitingSystemEvent {
        event_type: body["event_type"].as_i64().unwrap(),
        source_id: body["source_id"].as_i64().unwrap(),
        source_type: body["source_type"].as_i64().unwrap(),
        ip: body["source_ip"].as_str().unwrap().to_owned(),
        data: serde_json::from_str(body["event_data"].as_str().unwrap()).unwrap(),
        at: resource::time::parse(body["event_timestamp"].as_str().unwrap()).unwrap(),
    }
}

/// A history event of a record that waits in the outbox.
#[derive(Debug, PartialEq)]
pub struct RecordEvent {
    pub record: i64,
    /// The name of its type, such as `record_created`.
    pub kind: &'static str,
    pub data: Value,
}

/// The types of history events, by their numbers from 1.
const KINDS: [&str; 10] = [
    "record_created",
    "owner_initialized",
    "owners_added",
    "owners_removed",
    "assignees_added",
    "assignees_removed",
    "field_values_changed",
    "record_deleted",
    "document_generated",
    "status_initialized",
];

/// Returns all waiting history events of a build, in order.
pub async fn record_events(tenant: &TestBuild) -> Vec<RecordEvent> {
    let load_bodies = |conn: &mut Conn| {
        conn.query_all(&Sql::new("SELECT body FROM outbox WHERE kind = 'history' ORDER BY n"), |row| {
            Ok(serde_json::from_str(row.text(0)?).unwrap())
        })
    };
    let bodies = tenant.build.db.read::<Vec<Value>, StoreError>(load_bodies).await.unwrap();
    let entry = |entry: &Value| -> Value { serde_json::from_str(entry.as_str().unwrap()).unwrap() };
    let event = |body: &Value| RecordEvent {
        record: body["record_id"].as_i64().unwrap(),
        kind: KINDS[body["event_type_id"].as_u64().unwrap() as usize - 1],
        data: body["event_data"].as_array().unwrap().iter().map(entry).collect(),
    };
    bodies.iter().map(event).collect()
}
