//! `POST /api/system-events/batch` (`docs/reference/history.md`): up to 10,000 events, each id once.

use crate::event::{CATEGORIES, SOURCE_TYPES, SYSTEM_TYPES, SystemEvent};
use crate::fields::{self, ArrayValue, BoundedList, FromFields, ObjectValue, Scalar, fields};
use crate::reply::{HistoryOutcome, HistoryRefusal, HistoryReply, PathStep, Problem, Problems};
use crate::schema::{datetime_schema, int, number_of, number_of_or_zero, object, optional, required, text, uuid};
use crate::service::HistoryService;
use http::{HeaderMap, StatusCode};
use hyper::body::Incoming;
use resource::openapi::titled;
use serde::de::{IgnoredAny, MapAccess};
use serde_json::{Value as Json, json};
use std::collections::HashSet;
use uuid::Uuid;

const FAILED: &str = "Failed to persist system events.";

/// Stores a batch of system events for a tenant.
pub async fn create(service: &HistoryService, client_id: Uuid, headers: &HeaderMap, body: Incoming) -> HistoryOutcome {
    let no_tenant = || HistoryRefusal::tenant_not_found(&client_id.to_string());
    let tenant = service.tenant(client_id).await?.ok_or_else(no_tenant)?;
    let body = service.bodies.read(Some(client_id), headers, body).await?;
    let max_events = service.settings.batch_events;
    let events = service.parse_aside(body.bytes, FAILED, move |body| read(body, max_events)).await?;
    let inserted = service
        .engine
        .add_system_events(&tenant, events)
        .await
        .map_err(|error| HistoryRefusal::engine(error, FAILED, no_tenant))?;
    drop(body.room);
    Ok(HistoryReply::json(StatusCode::CREATED, &json!({"inserted": inserted})))
}

/// Returns the events of a body. Of several with the same id only the first is returned.
pub fn read(body: &[u8], max_events: usize) -> Result<Vec<SystemEvent>, HistoryRefusal> {
    let batch = fields::read(body, BatchBody { max_events, events: ArrayValue::Missing })?;
    let mut problems = Problems::default();
    let items = match batch.events.items(max_events) {
        Ok(items) => items,
        Err(problem) => {
            problems.add(&[PathStep::Name("body"), PathStep::Name("events")], problem);
            return Err(problems.into());
        }
    };
    let mut unique_ids = HashSet::with_capacity(items.len());
    let mut events = Vec::with_capacity(items.len());
    for (at, item) in items.into_iter().enumerate() {
        let Some(fields) = item.0 else {
            problems
                .add(&[PathStep::Name("body"), PathStep::Name("events"), PathStep::Index(at)], Problem::NotAnObject);
            continue;
        };
        if let Some(event) = event(fields, at, &mut problems)
            && problems.is_empty()
            && unique_ids.insert(event.id)
        {
            events.push(event);
        }
    }
    if problems.is_empty() { Ok(events) } else { Err(problems.into()) }
}

fn event(fields: EventFields<'_>, at: usize, problems: &mut Problems) -> Option<SystemEvent> {
    let mut add_problem = |name: &str, problem: Problem| {
        problems.add(
            &[PathStep::Name("body"), PathStep::Name("events"), PathStep::Index(at), PathStep::Name(name)],
            problem,
        );
    };
    macro_rules! field {
        ($name:literal, $value:expr) => {
            $value.map_err(|problem| add_problem($name, problem)).ok()
        };
    }
    // All fields are read before the first `?`, so that all problems are reported.
    let id = field!("id", fields.id.uuid());
    let timestamp = field!("event_timestamp", fields.event_timestamp.parse_datetime());
    let category = field!("category", fields.category.number_of(&CATEGORIES));
    let event_type = field!("event_type", fields.event_type.number_of(&SYSTEM_TYPES));
    let source_id = field!("source_id", fields.source_id.int_or_zero());
    let source_type = field!("source_type", fields.source_type.number_of_or_zero(&SOURCE_TYPES));
    let source_info = field!("source_info", fields.source_info.string_or_empty());
    let source_ip = field!("source_ip", fields.source_ip.string_or_empty());
    let data = field!("event_data", fields.event_data.string_or_empty());
    Some(SystemEvent {
        id: id?,
        at: timestamp?,
        category: category?,
        event_type: event_type?,
        source_id: source_id?,
        source_type: source_type?,
        source_info: source_info?,
        source_ip: source_ip?,
        data: data?,
    })
}

/// The body. A setting limits its number of events.
struct BatchBody<'a> {
    max_events: usize,
    events: ArrayValue<ObjectValue<EventFields<'a>>>,
}

impl<'de: 'a, 'a> FromFields<'de> for BatchBody<'a> {
    fn read_field<A: MapAccess<'de>>(&mut self, name: &str, entries: &mut A) -> Result<(), A::Error> {
        match name {
            "events" => self.events = entries.next_value_seed(BoundedList::new(self.max_events))?,
            _ => drop(entries.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

fields! {
    /// A system event in the body.
    EventFields {
        "id" => id: Scalar<'a> = required(uuid());
        "event_timestamp" => event_timestamp: Scalar<'a> = required(datetime_schema());
        "category" => category: Scalar<'a> = required(number_of(&CATEGORIES));
        "event_type" => event_type: Scalar<'a> = required(number_of(&SYSTEM_TYPES));
        "source_id" => source_id: Scalar<'a> = optional(int());
        "source_type" => source_type: Scalar<'a> = optional(number_of_or_zero(&SOURCE_TYPES));
        "source_info" => source_info: Scalar<'a> = optional(text());
        "source_ip" => source_ip: Scalar<'a> = optional(text());
        "event_data" => event_data: Scalar<'a> = optional(text());
    }
}

/// Returns the schemas of the body and of the answer.
pub fn schemas(max_events: usize) -> (Json, Json) {
    let events =
        json!({"type": "array", "maxItems": max_events, "items": titled("SystemEventCreate", EventFields::schema())});
    let answer = titled("Inserted", object([("inserted", required(int()))]));
    (titled("SystemEventBatch", object([("events", required(events))])), answer)
}
