//! `POST /api/event-bridge/create-event` (`docs/reference/history.md`): one history event in its envelope. The id in
//! `detail` is the idempotency key.

use crate::event::{HISTORY_TYPES, HistoryEvent, SOURCE_TYPES};
use crate::fields::{self, ArrayValue, BoundedList, JsonArray, JsonTexts, ObjectValue, Scalar, fields};
use crate::reply::{HistoryOutcome, HistoryRefusal, HistoryReply, PathStep, Problem, Problems};
use crate::schema::{datetime_schema, int, nullable, number_of, object, optional, required, text, uuid};
use crate::service::HistoryService;
use http::{HeaderMap, StatusCode};
use hyper::body::Incoming;
use resource::openapi::titled;
use serde::de::IgnoredAny;
use serde_json::{Value as Json, json};
use uuid::Uuid;

/// The maximum number of items of the field `resources`, which is required and not used.
const MAX_RESOURCES: usize = 1000;

const FAILED: &str = "Failed to persist event.";

/// Stores an event for the tenant of the header. Without the header, for the tenant whose `database_name` is the
/// envelope's `source`.
pub async fn create(
    service: &HistoryService,
    client_id: Option<Uuid>,
    headers: &HeaderMap,
    body: Incoming,
) -> HistoryOutcome {
    let of_header = match client_id {
        Some(id) => Some(service.tenant(id).await?.ok_or_else(|| HistoryRefusal::tenant_not_found(&id.to_string()))?),
        None => None,
    };
    let body = service.bodies.read(client_id, headers, body).await?;
    let (source, event) = service.parse(body.bytes, read).await?;
    let tenant = match of_header {
        Some(tenant) => tenant,
        None => service.tenant_named(&source).await?.ok_or_else(|| HistoryRefusal::tenant_not_found(&source))?,
    };
    let name = client_id.map_or(source, |id| id.to_string());
    service
        .engine
        .add_history_event(&tenant, event)
        .await
        .map_err(|error| HistoryRefusal::engine(error, FAILED, || HistoryRefusal::tenant_not_found(&name)))?;
    drop(body.room);
    Ok(HistoryReply::json(StatusCode::CREATED, &json!({"detail": "Event created."})))
}

/// Returns the envelope's source and the event of a body.
pub fn read(body: &[u8]) -> Result<(String, HistoryEvent), HistoryRefusal> {
    let envelope = fields::read(body, Envelope::default())?;
    let mut problems = Problems::default();
    let source = envelope.source.clone().string();
    for (name, problem) in [
        ("version", envelope.version.text().err()),
        ("id", envelope.id.text().err()),
        ("detail-type", envelope.detail_type.text().err()),
        ("source", source.as_ref().err().copied()),
        ("account", envelope.account.text().err()),
        ("time", envelope.time.parse_datetime().err()),
        ("region", envelope.region.text().err()),
        ("resources", envelope.resources.items(MAX_RESOURCES).err()),
    ] {
        if let Some(problem) = problem {
            problems.add(&[PathStep::Name("body"), PathStep::Name(name)], problem);
        }
    }
    let event = match envelope.detail {
        Some(ObjectValue(Some(detail))) => detail.event(&mut problems),
        Some(ObjectValue(None)) => {
            problems.add(&[PathStep::Name("body"), PathStep::Name("detail")], Problem::NotAnObject);
            None
        }
        None => {
            problems.add(&[PathStep::Name("body"), PathStep::Name("detail")], Problem::Missing);
            None
        }
    };
    match (source, event) {
        (Ok(source), Some(event)) if problems.is_empty() => Ok((source, event)),
        _ => Err(problems.into()),
    }
}

fields! {
    /// The envelope in the body.
    Envelope {
        "version" => version: Scalar<'a> = required(text());
        "id" => id: Scalar<'a> = required(text());
        "detail-type" => detail_type: Scalar<'a> = required(text());
        "source" => source: Scalar<'a> = required(text());
        "account" => account: Scalar<'a> = required(text());
        "time" => time: Scalar<'a> = required(datetime_schema());
        "region" => region: Scalar<'a> = required(text());
        "resources" => resources: ArrayValue<IgnoredAny> = required(json!({"type": "array", "maxItems": MAX_RESOURCES, "items": {}})),
            entries => entries.next_value_seed(BoundedList::new(MAX_RESOURCES))?;
        "detail" => detail: Option<ObjectValue<Detail<'a>>> = required(titled("HistoryEventCreate", Detail::schema())), entries => Some(entries.next_value()?);
    }
}

fields! {
    /// The event in the envelope.
    Detail {
        "event_id" => event_id: Scalar<'a> = required(uuid());
        "event_time" => event_time: Scalar<'a> = required(datetime_schema());
        "event_type_id" => event_type_id: Scalar<'a> = required(number_of(&HISTORY_TYPES));
        "record_id" => record_id: Scalar<'a> = required(int());
        "source_id" => source_id: Scalar<'a> = required(int());
        "source_type_id" => source_type_id: Scalar<'a> = required(number_of(&SOURCE_TYPES));
        "source_name" => source_name: Scalar<'a> = optional(nullable(text()));
        "source_info" => source_info: Scalar<'a> = optional(nullable(text()));
        "event_data" => event_data: ArrayValue<JsonArray> = required(json_texts()), entries => entries.next_value_seed(JsonTexts)?;
    }
}

fn json_texts() -> Json {
    let item = json!({"type": "string", "contentMediaType": "application/json", "description": "JSON, as text"});
    json!({"type": "array", "items": item})
}

/// Returns the schemas of the body and of the answer.
pub fn schemas() -> (Json, Json) {
    (titled("EventEnvelope", Envelope::schema()), titled("Stored", object([("detail", required(text()))])))
}

impl Detail<'_> {
    fn event(self, problems: &mut Problems) -> Option<HistoryEvent> {
        let mut add_problem = |name: &str, item: Option<usize>, problem: Problem| {
            let mut place = vec![PathStep::Name("body"), PathStep::Name("detail"), PathStep::Name(name)];
            place.extend(item.map(PathStep::Index));
            problems.add(&place, problem);
        };
        macro_rules! field {
            ($name:literal, $value:expr) => {
                $value.map_err(|problem| add_problem($name, None, problem)).ok()
            };
        }
        // All fields are read before the first `?`, so that all problems are reported.
        let id = field!("event_id", self.event_id.uuid());
        let at = field!("event_time", self.event_time.parse_datetime());
        let event_type = field!("event_type_id", self.event_type_id.number_of(&HISTORY_TYPES));
        let record_id = field!("record_id", self.record_id.int());
        let source_id = field!("source_id", self.source_id.int());
        let source_type = field!("source_type_id", self.source_type_id.number_of(&SOURCE_TYPES));
        let source_name = match self.source_name {
            Scalar::Missing | Scalar::Null => Some(None),
            name => field!("source_name", name.string()).map(Some),
        };
        let source_info = match self.source_info {
            Scalar::Null => Some(String::new()),
            info => field!("source_info", info.string_or_empty()),
        };
        let texts = field!("event_data", self.event_data.items(1)).and_then(|mut texts| texts.pop());
        let data = texts.and_then(|texts| {
            texts.wrong.iter().for_each(|(at, problem)| add_problem("event_data", Some(*at), *problem));
            texts.wrong.is_empty().then_some(texts.array)
        });
        Some(HistoryEvent {
            id: id?,
            at: at?,
            event_type: event_type?,
            record_id: record_id?,
            source_id: source_id?,
            source_type: source_type?,
            source_name: source_name?,
            source_info: source_info?,
            data: data?,
        })
    }
}
