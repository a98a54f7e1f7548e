//! Reads the system events in a build's outbox.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use crate::server::Tenant;
use serde_json::Value;
use store::{Conn, Error, Sql};

/// A system event as it waits in the outbox.
#[derive(Debug)]
pub struct Event {
    pub event_type: i64,
    pub source_id: i64,
    pub source_type: i64,
    pub ip: String,
    pub data: Value,
    pub at: i64,
}

/// All waiting events of a build, in order. Panics when one is no system event.
pub async fn events(tenant: &Tenant) -> Vec<Event> {
    let read = |conn: &mut Conn| {
        conn.all(&Sql::new("SELECT id, kind, body FROM outbox ORDER BY n"), |row| {
            let body: Value = serde_json::from_str(row.text(2)?).unwrap();
            assert_eq!((row.text(1)?, body["id"].as_str()), ("system", Some(row.text(0)?)));
            Ok(body)
        })
    };
    let bodies = tenant.build.db.read::<Vec<Value>, Error>(read).await.unwrap();
    bodies.iter().map(event).collect()
}

fn event(body: &Value) -> Event {
    assert_eq!((body["category"].as_i64(), body["source_info"].as_str()), (Some(1), Some("")));
    Event {
        event_type: body["event_type"].as_i64().unwrap(),
        source_id: body["source_id"].as_i64().unwrap(),
        source_type: body["source_type"].as_i64().unwrap(),
        ip: body["source_ip"].as_str().unwrap().to_owned(),
        data: serde_json::from_str(body["event_data"].as_str().unwrap()).unwrap(),
        at: resource::time::parse(body["event_timestamp"].as_str().unwrap()).unwrap(),
    }
}
