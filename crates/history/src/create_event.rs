//! `POST /api/event-bridge/create-event` (document 3, "History service"; document 4, section 6): one history event in
//! its envelope. The id in `detail` is the idempotency key.

use crate::event::{HISTORY_TYPES, HistoryEvent, SOURCE_TYPES};
use crate::openapi::{int, member, moment, needed, nullable, object, optional, text, uuid};
use crate::reply::{Outcome, Problem, Problems, Refusal, Reply, Step};
use crate::scalar::{AtMost, JsonTexts, List, Object, Reading, Scalar, Texts, fields};
use crate::service::{self, Service};
use http::{HeaderMap, StatusCode};
use hyper::body::Incoming;
use serde::de::IgnoredAny;
use serde_json::{Value as Json, json};
use uuid::Uuid;

/// Nobody looks at them.
const MOST_RESOURCES: usize = 1000;

const FAILED: &str = "Failed to persist event.";

/// Stores the event for the tenant of the header, else for the one whose `database_name` is the envelope's `source`.
pub async fn create(service: &Service, client_id: Option<Uuid>, headers: &HeaderMap, body: Incoming) -> Outcome {
    let of_header = match client_id {
        Some(id) => Some(service.tenant(id).await?.ok_or_else(|| Refusal::no_tenant(&id.to_string()))?),
        None => None,
    };
    let held = service.room.read(client_id, headers, body).await?;
    let (source, event) = service.off_the_runtime_if_long(held.bytes, read).await?;
    let tenant = match of_header {
        Some(tenant) => tenant,
        None => service.tenant_named(&source).await?.ok_or_else(|| Refusal::no_tenant(&source))?,
    };
    let name = client_id.map_or(source, |id| id.to_string());
    service
        .engine
        .add_history_event(&tenant, event)
        .await
        .map_err(|error| Refusal::engine(error, FAILED, || Refusal::no_tenant(&name)))?;
    drop(held.room);
    Ok(Reply::json(StatusCode::CREATED, &json!({"detail": "Event created."})))
}

/// Reads the body: the envelope's source, and the event.
pub fn read(body: &[u8]) -> Result<(String, HistoryEvent), Refusal> {
    let body = service::json(body, Reading(Envelope::default()))?;
    let mut problems = Problems::default();
    let Some(envelope) = body.0 else {
        problems.add(&[Step::Name("body")], Problem::NotAnObject);
        return Err(problems.into());
    };
    let source = envelope.source.clone().string();
    for (name, problem) in [
        ("version", envelope.version.text().err()),
        ("id", envelope.id.text().err()),
        ("detail-type", envelope.detail_type.text().err()),
        ("source", source.as_ref().err().copied()),
        ("account", envelope.account.text().err()),
        ("time", envelope.time.moment().err()),
        ("region", envelope.region.text().err()),
        ("resources", envelope.resources.items(MOST_RESOURCES).err()),
    ] {
        if let Some(problem) = problem {
            problems.add(&[Step::Name("body"), Step::Name(name)], problem);
        }
    }
    let event = match envelope.detail {
        Some(Object(Some(detail))) => detail.event(&mut problems),
        Some(Object(None)) => {
            problems.add(&[Step::Name("body"), Step::Name("detail")], Problem::NotAnObject);
            None
        }
        None => {
            problems.add(&[Step::Name("body"), Step::Name("detail")], Problem::Missing);
            None
        }
    };
    match (source, event) {
        (Ok(source), Some(event)) if problems.is_empty() => Ok((source, event)),
        _ => Err(problems.into()),
    }
}

fields! {
    /// The envelope as it comes.
    Envelope {
        "version" => version: Scalar<'a> = needed(text());
        "id" => id: Scalar<'a> = needed(text());
        "detail-type" => detail_type: Scalar<'a> = needed(text());
        "source" => source: Scalar<'a> = needed(text());
        "account" => account: Scalar<'a> = needed(text());
        "time" => time: Scalar<'a> = needed(moment());
        "region" => region: Scalar<'a> = needed(text());
        "resources" => resources: List<IgnoredAny> = needed(json!({"type": "array", "maxItems": MOST_RESOURCES})),
            entries => entries.next_value_seed(AtMost::new(MOST_RESOURCES))?;
        "detail" => detail: Option<Object<Detail<'a>>> = needed(Detail::schema()), entries => Some(entries.next_value()?);
    }
}

fields! {
    /// The event in it.
    Detail {
        "event_id" => event_id: Scalar<'a> = needed(uuid());
        "event_time" => event_time: Scalar<'a> = needed(moment());
        "event_type_id" => event_type_id: Scalar<'a> = needed(member(&HISTORY_TYPES));
        "record_id" => record_id: Scalar<'a> = needed(int());
        "source_id" => source_id: Scalar<'a> = needed(int());
        "source_type_id" => source_type_id: Scalar<'a> = needed(member(&SOURCE_TYPES));
        "source_name" => source_name: Scalar<'a> = optional(nullable(text()));
        "source_info" => source_info: Scalar<'a> = optional(nullable(text()));
        "event_data" => event_data: List<Texts> = needed(json_texts()), entries => entries.next_value_seed(JsonTexts)?;
    }
}

fn json_texts() -> Json {
    let item = json!({"type": "string", "contentMediaType": "application/json", "description": "JSON, as text"});
    json!({"type": "array", "items": item})
}

/// The body, and what is answered.
pub fn schemas() -> (Json, Json) {
    (Envelope::schema(), object([("detail", needed(text()))]))
}

impl Detail<'_> {
    fn event(self, problems: &mut Problems) -> Option<HistoryEvent> {
        let mut note = |name: &str, item: Option<usize>, problem: Problem| {
            let mut place = vec![Step::Name("body"), Step::Name("detail"), Step::Name(name)];
            place.extend(item.map(Step::Index));
            problems.add(&place, problem);
        };
        macro_rules! field {
            ($name:literal, $value:expr) => {
                $value.map_err(|problem| note($name, None, problem)).ok()
            };
        }
        let id = field!("event_id", self.event_id.uuid());
        let at = field!("event_time", self.event_time.moment());
        let event_type = field!("event_type_id", self.event_type_id.member(HISTORY_TYPES.len()));
        let record_id = field!("record_id", self.record_id.int());
        let source_id = field!("source_id", self.source_id.int());
        let source_type = field!("source_type_id", self.source_type_id.member(SOURCE_TYPES.len()));
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
            texts.wrong.iter().for_each(|(at, problem)| note("event_data", Some(*at), *problem));
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
