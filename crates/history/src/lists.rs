//! `GET /api/history/events` and `GET /api/system-events` (`docs/reference/history.md`). Each list declares its
//! filters; parameters and their description follow from them.

use crate::body::holder;
use crate::engine::EngineList;
use crate::event::{CATEGORIES, HISTORY_TYPES, HistoryEvent, SOURCE_TYPES, SYSTEM_TYPES, SystemEvent, name_of};
use crate::fields::parse_datetime_text;
use crate::filter::{Condition, FilterColumn, PageRange, Test};
use crate::reply::{HistoryOutcome, HistoryRefusal, HistoryReply, PathStep, Problem, Problems};
use crate::schema::{self, nullable, number_of, number_of_or_zero, object, one_of, required, text, uuid};
use crate::service::HistoryService;
use http::StatusCode;
use resource::MAX_FILTERS;
use resource::openapi::{query, titled};
use resource::select::bound_filters;
use resource::time;
use resource::{Query, SelectError};
use serde_json::{Value as Json, json};
use std::collections::HashSet;
use std::time::Duration;
use uuid::Uuid;

const MAX_LIMIT: i64 = 1000;
const DEFAULT_LIMIT: i64 = 25;

/// The type of a filter's values.
#[derive(Clone, Copy)]
pub enum FilterType {
    Int,
    /// One of these names, or its number; the first has the number 1.
    Name(&'static [&'static str]),
    DateTime,
}

impl FilterType {
    fn predicates(self) -> &'static [&'static str] {
        match self {
            FilterType::Int | FilterType::Name(_) => &["exact", "in"],
            FilterType::DateTime => &["exact", "gt", "gte", "lt", "lte", "range"],
        }
    }

    fn schema(self) -> Json {
        match self {
            FilterType::Int => schema::int(),
            FilterType::Name(names) => json!({"anyOf": [one_of(names), number_of(names)]}),
            FilterType::DateTime => schema::datetime_schema(),
        }
    }
}

/// The parameter of a filter: its name, its column and the type of its values.
type FilterParameter = (&'static str, FilterColumn, FilterType);

pub const HISTORY_FILTERS: [FilterParameter; 5] = [
    ("record_id", FilterColumn::RecordId, FilterType::Int),
    ("event_type", FilterColumn::EventType, FilterType::Name(&HISTORY_TYPES)),
    ("source_type", FilterColumn::SourceType, FilterType::Name(&SOURCE_TYPES)),
    ("source_id", FilterColumn::SourceId, FilterType::Int),
    ("event_datetime", FilterColumn::At, FilterType::DateTime),
];

pub const SYSTEM_FILTERS: [FilterParameter; 4] = [
    ("category", FilterColumn::Category, FilterType::Name(&CATEGORIES)),
    ("event_type", FilterColumn::EventType, FilterType::Name(&SYSTEM_TYPES)),
    ("source_id", FilterColumn::SourceId, FilterType::Int),
    ("event_timestamp", FilterColumn::At, FilterType::DateTime),
];

/// The maximum size of an answer that is sent without reserved memory, in bytes.
const MAX_UNRESERVED: usize = 64 * 1024;
/// The maximum wait of an answer for memory.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// Lists the history events of a tenant.
pub async fn history_events(service: &HistoryService, client_id: Uuid, query: &Query) -> HistoryOutcome {
    let tenant = service.tenant(client_id).await?.ok_or_else(HistoryRefusal::tenant_unavailable)?;
    let page = page(&HISTORY_FILTERS, query)?;
    let (limit, offset) = (page.limit, page.offset);
    let read_page = || async {
        let listed = service.engine.history_events(&tenant, page.clone()).await.map_err(HistoryRefusal::unreadable)?;
        Ok::<_, HistoryRefusal>(envelope(limit, offset, &listed, write_history_event))
    };
    answer_within_memory(service, client_id, read_page).await
}

/// Lists the system events of a tenant.
pub async fn system_events(service: &HistoryService, client_id: Uuid, query: &Query) -> HistoryOutcome {
    let tenant = service.tenant(client_id).await?.ok_or_else(HistoryRefusal::tenant_unavailable)?;
    let page = page(&SYSTEM_FILTERS, query)?;
    let (limit, offset) = (page.limit, page.offset);
    let read_page = || async {
        let listed = service.engine.system_events(&tenant, page.clone()).await.map_err(HistoryRefusal::unreadable)?;
        Ok::<_, HistoryRefusal>(envelope(limit, offset, &listed, write_system_event))
    };
    answer_within_memory(service, client_id, read_page).await
}

/// Runs a read and returns its answer, which owns a permit for its memory until it is sent. Without a free permit the answer
/// is dropped, and the read runs again when a permit is free. Waiting requests therefore have no answers in memory.
async fn answer_within_memory<F: Future<Output = HistoryOutcome>>(
    service: &HistoryService,
    client_id: Uuid,
    read_page: impl Fn() -> F,
) -> HistoryOutcome {
    let (reply, tenant) = (read_page().await?, holder(Some(client_id)));
    let length = reply.length();
    if length <= MAX_UNRESERVED {
        return Ok(reply);
    }
    if let Some(permit) = service.answers.try_acquire(&tenant, length) {
        return Ok(reply.with_permit(permit));
    }
    drop(reply);
    let permit = service.answers.acquire(&tenant, 2 * length, MAX_WAIT).await;
    let busy = || HistoryRefusal::new(StatusCode::SERVICE_UNAVAILABLE, "Too many large requests at once.");
    let mut permit = permit.ok_or_else(busy)?;
    let reply = read_page().await?;
    permit.shrink(reply.length());
    Ok(reply.with_permit(permit))
}

/// Parses the requested page from the parameters of a request.
pub fn page(filters: &[FilterParameter], query: &Query) -> Result<PageRange, HistoryRefusal> {
    let mut problems = Problems::default();
    if let Err(SelectError::TooManyFilters(max_filters)) =
        bound_filters(query, MAX_FILTERS, |name| filter_named(filters, name).is_some())
    {
        problems.add(&[PathStep::Name("query")], Problem::TooManyFilters(max_filters));
        return Err(problems.into());
    }
    let mut page = PageRange { conditions: Vec::new(), limit: DEFAULT_LIMIT, offset: 0 };
    for (name, value) in query.pairs() {
        let outcome = match name {
            "limit" => int_between(value, 1, MAX_LIMIT).map(|limit| page.limit = limit),
            "offset" => int_between(value, 0, i64::MAX).map(|offset| page.offset = offset),
            _ => match condition(filters, name, value) {
                None => Ok(()),
                Some(condition) => condition.map(|condition| page.conditions.push(condition)),
            },
        };
        if let Err(problem) = outcome {
            problems.add(&[PathStep::Name("query"), PathStep::Name(name)], problem);
        }
    }
    if problems.is_empty() { Ok(page) } else { Err(problems.into()) }
}

fn int_between(text: &str, min: i64, max: i64) -> Result<i64, Problem> {
    match int(text)? {
        number if number < min => Err(Problem::Below(min)),
        number if number > max => Err(Problem::Above(max)),
        number => Ok(number),
    }
}

fn int(text: &str) -> Result<i64, Problem> {
    text.trim().parse().map_err(|_| Problem::NotAnInteger)
}

/// Parses a parameter as a condition; `None` if it does not name a filter.
fn condition(filters: &[FilterParameter], name: &str, value: &str) -> Option<Result<Condition, Problem>> {
    let (&(_, column, filter_type), predicate, is_excluded) = filter_named(filters, name)?;
    Some(parse_test(filter_type, predicate, value).map(|test| match (is_excluded, test) {
        // Columns are never null, so the opposite of a bound is a bound, which can use an index.
        (true, Test::Above(value)) => Condition { column, test: Test::UpTo(value), is_excluded: false },
        (true, Test::From(value)) => Condition { column, test: Test::Below(value), is_excluded: false },
        (true, Test::Below(value)) => Condition { column, test: Test::From(value), is_excluded: false },
        (true, Test::UpTo(value)) => Condition { column, test: Test::Above(value), is_excluded: false },
        (is_excluded, test) => Condition { column, test, is_excluded },
    }))
}

/// Returns the filter that a parameter names, its predicate, and whether the parameter ends in `__exclude`.
fn filter_named<'f, 'n>(filters: &'f [FilterParameter], name: &'n str) -> Option<(&'f FilterParameter, &'n str, bool)> {
    let (is_excluded, name) = match name.strip_suffix("__exclude") {
        Some(name) => (true, name),
        None => (false, name),
    };
    let (name, predicate) = name.split_once("__").unwrap_or((name, "exact"));
    Some((filters.iter().find(|(filter_name, _, _)| *filter_name == name)?, predicate, is_excluded))
}

fn parse_test(filter_type: FilterType, predicate: &str, value: &str) -> Result<Test, Problem> {
    if !filter_type.predicates().contains(&predicate) {
        return Err(Problem::NoSuchPredicate);
    }
    let parse_one = |text: &str| match filter_type {
        FilterType::Int => int(text),
        FilterType::Name(names) => {
            let at = names.iter().position(|name| *name == text.trim()).map(|at| at as i64 + 1);
            let number = || text.trim().parse().ok().filter(|number| (1..=names.len() as i64).contains(number));
            at.or_else(number).ok_or(Problem::NotAMember)
        }
        // The decoding of the query has replaced the plus of an offset from UTC by a space.
        FilterType::DateTime => parse_datetime_text(&text.trim().replace(' ', "+"))
            .or_else(|| parse_datetime_text(text.trim()))
            .ok_or(Problem::NotADateTime),
    };
    Ok(match predicate {
        "in" => {
            let mut unique_values = HashSet::new();
            let values = value
                .split(',')
                .map(parse_one)
                .filter(|value| value.is_err() || value.is_ok_and(|v| unique_values.insert(v)));
            Test::In(values.collect::<Result<_, _>>()?)
        }
        "gt" => Test::Above(parse_one(value)?),
        "gte" => Test::From(parse_one(value)?),
        "lt" => Test::Below(parse_one(value)?),
        "lte" => Test::UpTo(parse_one(value)?),
        "range" => {
            let (from, to) = value.split_once(',').ok_or(Problem::NotADateTime)?;
            Test::Between(parse_one(from)?, parse_one(to)?)
        }
        _ => Test::In(vec![parse_one(value)?]),
    })
}

/// Returns the parameters of a list for the OpenAPI document.
pub fn parameters(filters: &[FilterParameter]) -> Vec<Json> {
    let limit = json!({"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT});
    let offset = json!({"type": "integer", "minimum": 0, "maximum": i64::MAX, "default": 0});
    let mut list = vec![
        query("limit", "Maximum number of results of the page", limit),
        query("offset", "Number of results before the page", offset),
    ];
    for (name, _, filter_type) in filters {
        for predicate in filter_type.predicates() {
            let parameter = if *predicate == "exact" { (*name).to_owned() } else { format!("{name}__{predicate}") };
            let meaning = meaning(predicate);
            let query_parameters = [
                (parameter.clone(), format!("`{name}` {meaning}")),
                (format!("{parameter}__exclude"), format!("All but those whose `{name}` {meaning}")),
            ];
            for (name, text) in query_parameters {
                let mut parameter = query(&name, &text, filter_type.schema());
                if matches!(*predicate, "in" | "range") {
                    parameter["schema"] = json!({"type": "array", "minItems": 1, "items": filter_type.schema()});
                    parameter["explode"] = false.into();
                }
                if *predicate == "range" {
                    (parameter["schema"]["minItems"], parameter["schema"]["maxItems"]) = (2.into(), 2.into());
                }
                list.push(parameter);
            }
        }
    }
    list
}

/// Returns the meaning of a predicate, in the words after the name of a filter.
fn meaning(predicate: &str) -> &'static str {
    match predicate {
        "in" => "is one of the values",
        "gt" => "is after the time",
        "gte" => "is at or after the time",
        "lt" => "is before the time",
        "lte" => "is at or before the time",
        "range" => "lies between two times, both included",
        _ => "is the value",
    }
}

fn envelope<T>(limit: i64, offset: i64, listed: &EngineList<T>, write: fn(&T, &mut Vec<u8>)) -> HistoryReply {
    let (total, filtered) = (listed.total, listed.filtered);
    let mut out = Vec::with_capacity(128 + 512 * listed.results.len());
    let head =
        format!(r#"{{"limit":{limit},"offset":{offset},"total_count":{total},"filtered_count":{filtered},"results":["#);
    out.extend_from_slice(head.as_bytes());
    for (at, event) in listed.results.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(event, &mut out);
    }
    out.extend_from_slice(b"]}");
    HistoryReply::json_bytes(StatusCode::OK, out).with_etag()
}

fn append_raw_json(out: &mut Vec<u8>, text: &str) {
    // Writing into memory cannot fail.
    drop(serde_json::to_writer(out, text));
}

fn write_json_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Writes a history event as JSON. Its `event_data` is stored as JSON already.
fn write_history_event(event: &HistoryEvent, out: &mut Vec<u8>) {
    write_json_text(out, &format!(r#"{{"event_id":"{}","event_datetime":""#, event.id));
    time::write(out, event.at);
    write_json_text(out, &format!(r#"","event_type":"{}","event_data":"#, name_of(&HISTORY_TYPES, event.event_type)));
    write_json_text(out, &event.data);
    let source_type = name_of(&SOURCE_TYPES, event.source_type);
    write_json_text(out, &format!(r#","source_type":"{source_type}","source_id":{},"source_name":"#, event.source_id));
    match &event.source_name {
        Some(name) => append_raw_json(out, name),
        None => write_json_text(out, "null"),
    }
    write_json_text(out, r#","source_info":"#);
    append_raw_json(out, &event.source_info);
    out.push(b'}');
}

/// Writes a system event as JSON. Its `event_data` is a text.
fn write_system_event(event: &SystemEvent, out: &mut Vec<u8>) {
    write_json_text(out, &format!(r#"{{"id":"{}","event_timestamp":""#, event.id));
    time::write(out, event.at);
    let (category, event_type) = (name_of(&CATEGORIES, event.category), name_of(&SYSTEM_TYPES, event.event_type));
    let (source_id, source_type) = (event.source_id, event.source_type);
    write_json_text(out, &format!(r#"","category":"{category}","event_type":"{event_type}","source_id":{source_id},"#));
    write_json_text(out, &format!(r#""source_type":{source_type},"source_info":"#));
    append_raw_json(out, &event.source_info);
    write_json_text(out, r#","source_ip":"#);
    append_raw_json(out, &event.source_ip);
    write_json_text(out, r#","event_data":"#);
    append_raw_json(out, &event.data);
    out.push(b'}');
}

pub fn history_event_schema() -> Json {
    let data = json!({"type": "array", "items": {}});
    let schema = object([
        ("event_id", required(uuid())),
        ("event_datetime", required(schema::datetime_schema())),
        ("event_type", required(one_of(&HISTORY_TYPES))),
        ("event_data", required(data)),
        ("source_type", required(one_of(&SOURCE_TYPES))),
        ("source_id", required(schema::int())),
        ("source_name", required(nullable(text()))),
        ("source_info", required(text())),
    ]);
    titled("HistoryEvent", schema)
}

pub fn system_event_schema() -> Json {
    let schema = object([
        ("id", required(uuid())),
        ("event_timestamp", required(schema::datetime_schema())),
        ("category", required(one_of(&CATEGORIES))),
        ("event_type", required(one_of(&SYSTEM_TYPES))),
        ("source_id", required(schema::int())),
        ("source_type", required(number_of_or_zero(&SOURCE_TYPES))),
        ("source_info", required(text())),
        ("source_ip", required(text())),
        ("event_data", required(text())),
    ]);
    titled("SystemEvent", schema)
}
