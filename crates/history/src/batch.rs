//! `POST /api/system-events/batch` (document 3, "System events" and "Batch rules"): up to 10,000 events, each id once.

use crate::event::{CATEGORIES, SOURCE_TYPES, SYSTEM_TYPES, SystemEvent};
use crate::openapi::{int, member, member_or_zero, moment, needed, object, optional, text, uuid};
use crate::reply::{Outcome, Problem, Problems, Refusal, Reply, Step};
use crate::scalar::{AtMost, Fields, List, Object, Reading, Scalar, fields};
use crate::service::{self, Service};
use http::{HeaderMap, StatusCode};
use hyper::body::Incoming;
use serde::de::{IgnoredAny, MapAccess};
use serde_json::{Value as Json, json};
use std::collections::HashSet;
use uuid::Uuid;

const FAILED: &str = "Failed to persist system events.";

/// Stores a batch for a tenant.
pub async fn create(service: &Service, client_id: Uuid, headers: &HeaderMap, body: Incoming) -> Outcome {
    let no_tenant = || Refusal::no_tenant(&client_id.to_string());
    let tenant = service.tenant(client_id).await?.ok_or_else(no_tenant)?;
    let held = service.room.read(Some(client_id), headers, body).await?;
    let events = {
        // While it is read a batch takes its memory twice.
        let _turn = service.reading.acquire().await;
        let (most, body) = (service.settings.batch_events, held.bytes);
        // Long enough to keep others waiting.
        let read = tokio::task::spawn_blocking(move || read(&body, most)).await;
        read.map_err(|error| Refusal::failed(FAILED, &error.to_string()))??
    };
    let inserted = service
        .engine
        .add_system_events(&tenant, events)
        .await
        .map_err(|error| Refusal::engine(error, FAILED, no_tenant))?;
    drop(held.room);
    Ok(Reply::json(StatusCode::CREATED, &json!({"inserted": inserted})))
}

/// Reads the body: of several events with one id the first.
pub fn read(body: &[u8], most: usize) -> Result<Vec<SystemEvent>, Refusal> {
    let body = service::json(body, Reading(Batch { most, events: List::Missing }))?;
    let mut problems = Problems::default();
    let Some(batch) = body.0 else {
        problems.add(&[Step::Name("body")], Problem::NotAnObject);
        return Err(problems.into());
    };
    let items = match batch.events.items(most) {
        Ok(items) => items,
        Err(problem) => {
            problems.add(&[Step::Name("body"), Step::Name("events")], problem);
            return Err(problems.into());
        }
    };
    let mut seen = HashSet::with_capacity(items.len());
    let mut events = Vec::with_capacity(items.len());
    for (at, item) in items.into_iter().enumerate() {
        let Some(fields) = item.0 else {
            problems.add(&[Step::Name("body"), Step::Name("events"), Step::Index(at)], Problem::NotAnObject);
            continue;
        };
        if let Some(event) = event(fields, at, &mut problems)
            && problems.is_empty()
            && seen.insert(event.id)
        {
            events.push(event);
        }
    }
    if problems.is_empty() { Ok(events) } else { Err(problems.into()) }
}

fn event(fields: EventFields<'_>, at: usize, problems: &mut Problems) -> Option<SystemEvent> {
    let mut note = |name: &str, problem: Problem| {
        problems.add(&[Step::Name("body"), Step::Name("events"), Step::Index(at), Step::Name(name)], problem);
    };
    macro_rules! field {
        ($name:literal, $value:expr) => {
            $value.map_err(|problem| note($name, problem)).ok()
        };
    }
    let id = field!("id", fields.id.uuid());
    let moment = field!("event_timestamp", fields.event_timestamp.moment());
    let category = field!("category", fields.category.member(CATEGORIES.len()));
    let event_type = field!("event_type", fields.event_type.member(SYSTEM_TYPES.len()));
    let source_id = field!("source_id", fields.source_id.int_or_zero());
    let source_type = field!("source_type", fields.source_type.member_or_zero(SOURCE_TYPES.len()));
    let source_info = field!("source_info", fields.source_info.string_or_empty());
    let source_ip = field!("source_ip", fields.source_ip.string_or_empty());
    let data = field!("event_data", fields.event_data.string_or_empty());
    Some(SystemEvent {
        id: id?,
        at: moment?,
        category: category?,
        event_type: event_type?,
        source_id: source_id?,
        source_type: source_type?,
        source_info: source_info?,
        source_ip: source_ip?,
        data: data?,
    })
}

struct Batch<'a> {
    most: usize,
    events: List<Object<EventFields<'a>>>,
}

impl<'de: 'a, 'a> Fields<'de> for Batch<'a> {
    fn take<A: MapAccess<'de>>(&mut self, name: &str, entries: &mut A) -> Result<(), A::Error> {
        match name {
            "events" => self.events = entries.next_value_seed(AtMost::new(self.most))?,
            _ => drop(entries.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

fields! {
    /// A system event as it comes.
    EventFields {
        "id" => id: Scalar<'a> = needed(uuid());
        "event_timestamp" => event_timestamp: Scalar<'a> = needed(moment());
        "category" => category: Scalar<'a> = needed(member(&CATEGORIES));
        "event_type" => event_type: Scalar<'a> = needed(member(&SYSTEM_TYPES));
        "source_id" => source_id: Scalar<'a> = optional(int());
        "source_type" => source_type: Scalar<'a> = optional(member_or_zero(&SOURCE_TYPES));
        "source_info" => source_info: Scalar<'a> = optional(text());
        "source_ip" => source_ip: Scalar<'a> = optional(text());
        "event_data" => event_data: Scalar<'a> = optional(text());
    }
}

/// The body, and what is answered.
pub fn schemas(most: usize) -> (Json, Json) {
    let events = json!({"type": "array", "maxItems": most, "items": EventFields::schema()});
    (object([("events", needed(events))]), object([("inserted", needed(int()))]))
}
