//! `POST /api/event-bridge/create-event` (document 3, "History service"; document 4, section 6): one history event in
//! its envelope. The id in `detail` is the idempotency key.

use crate::body::Held;
use crate::event::{HISTORY_TYPES, HistoryEvent, SOURCE_TYPES};
use crate::reply::{Outcome, Problem, Problems, Refusal, Reply, Step};
use crate::scalar::{AtMost, Fields, JsonTexts, List, Object, Reading, Scalar, Texts};
use crate::service::{Service, json};
use http::StatusCode;
use serde::de::{IgnoredAny, MapAccess};
use uuid::Uuid;

/// Nobody looks at them.
const MOST_RESOURCES: usize = 1000;
/// A body that is longer than this, in bytes, is no work for the thread that received it.
const LONG: usize = 64 * 1024;

const FAILED: &str = "Failed to persist event.";

/// Stores the event for the tenant of the header, else for the one whose `database_name` is the envelope's `source`.
pub async fn create(service: &Service, client_id: Option<Uuid>, held: Held<'_>) -> Outcome {
    let of_header = match client_id {
        Some(id) => Some(service.tenant(id).await?.ok_or_else(|| Refusal::no_tenant(&id.to_string()))?),
        None => None,
    };
    let (source, event) = if held.bytes.len() < LONG {
        read(&held.bytes)?
    } else {
        let _turn = service.reading.acquire().await;
        let body = held.bytes;
        let read = tokio::task::spawn_blocking(move || read(&body)).await;
        read.map_err(|error| Refusal::failed(FAILED, &error.to_string()))??
    };
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
    drop(held.permit);
    Ok(Reply::json(StatusCode::CREATED, &serde_json::json!({"detail": "Event created."})))
}

/// Reads the body: the envelope's source, and the event.
pub fn read(body: &[u8]) -> Result<(String, HistoryEvent), Refusal> {
    let body = json(body, Reading(Envelope::default()))?;
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

#[derive(Default)]
struct Envelope<'a> {
    version: Scalar<'a>,
    id: Scalar<'a>,
    detail_type: Scalar<'a>,
    source: Scalar<'a>,
    account: Scalar<'a>,
    time: Scalar<'a>,
    region: Scalar<'a>,
    resources: List<IgnoredAny>,
    detail: Option<Object<Detail<'a>>>,
}

impl<'de: 'a, 'a> Fields<'de> for Envelope<'a> {
    fn take<A: MapAccess<'de>>(&mut self, name: &str, entries: &mut A) -> Result<(), A::Error> {
        let field = match name {
            "version" => &mut self.version,
            "id" => &mut self.id,
            "detail-type" => &mut self.detail_type,
            "source" => &mut self.source,
            "account" => &mut self.account,
            "time" => &mut self.time,
            "region" => &mut self.region,
            "resources" => {
                self.resources = entries.next_value_seed(AtMost::new(MOST_RESOURCES))?;
                return Ok(());
            }
            "detail" => {
                self.detail = Some(entries.next_value()?);
                return Ok(());
            }
            _ => return entries.next_value::<IgnoredAny>().map(drop),
        };
        *field = entries.next_value()?;
        Ok(())
    }
}

#[derive(Default)]
struct Detail<'a> {
    event_id: Scalar<'a>,
    event_time: Scalar<'a>,
    event_type_id: Scalar<'a>,
    record_id: Scalar<'a>,
    source_id: Scalar<'a>,
    source_type_id: Scalar<'a>,
    source_name: Scalar<'a>,
    source_info: Scalar<'a>,
    event_data: List<Texts>,
}

impl<'de: 'a, 'a> Fields<'de> for Detail<'a> {
    fn take<A: MapAccess<'de>>(&mut self, name: &str, entries: &mut A) -> Result<(), A::Error> {
        let field = match name {
            "event_id" => &mut self.event_id,
            "event_time" => &mut self.event_time,
            "event_type_id" => &mut self.event_type_id,
            "record_id" => &mut self.record_id,
            "source_id" => &mut self.source_id,
            "source_type_id" => &mut self.source_type_id,
            "source_name" => &mut self.source_name,
            "source_info" => &mut self.source_info,
            "event_data" => {
                self.event_data = entries.next_value_seed(JsonTexts)?;
                return Ok(());
            }
            _ => return entries.next_value::<IgnoredAny>().map(drop),
        };
        *field = entries.next_value()?;
        Ok(())
    }
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
