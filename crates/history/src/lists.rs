//! `GET /api/history/events` and `GET /api/system-events` (document 3, "History event list rules"; document 4, section 6,
//! rows "list parameters" and "order"). Each list declares its filters; everything else is read from there.

use crate::engine::{Error, LARGEST_PAGE, Listed};
use crate::event::{CATEGORIES, HISTORY_TYPES, HistoryEvent, SOURCE_TYPES, SYSTEM_TYPES, SystemEvent};
use crate::filter::{Column, Condition, Page, Test};
use crate::openapi::{self, member, member_or_zero, needed, nullable, object, text, uuid};
use crate::reply::{Outcome, Problem, Problems, Refusal, Reply, Step};
use crate::scalar::moment;
use crate::service::Service;
use http::StatusCode;
use resource::MAX_FILTERS;
use resource::select::bound_filters;
use resource::time;
use resource::{Query, SelectError};
use serde_json::{Value as Json, json};
use std::collections::HashSet;
use uuid::Uuid;

/// The greatest `limit`.
const MOST: i64 = 1000;
/// The `limit` of who names none.
const USUAL: i64 = 25;

/// What a filter's values are.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Whole numbers; `exact` and `in`.
    Int,
    /// One of these names, stored as its place from 1 on; `exact` and `in`. Its number is as good.
    Name(&'static [&'static str]),
    /// A moment; `exact`, `gt`, `gte`, `lt`, `lte` and `range`.
    Moment,
}

impl Kind {
    fn predicates(self) -> &'static [&'static str] {
        match self {
            Kind::Int | Kind::Name(_) => &["exact", "in"],
            Kind::Moment => &["exact", "gt", "gte", "lt", "lte", "range"],
        }
    }

    fn schema(self) -> Json {
        match self {
            Kind::Int => openapi::int(),
            Kind::Name(names) => json!({"anyOf": [{"type": "string", "enum": names}, member(names)]}),
            Kind::Moment => openapi::moment(),
        }
    }
}

/// A filter's parameter, its column and its kind.
type Filter = (&'static str, Column, Kind);

pub(crate) const HISTORY: [Filter; 5] = [
    ("record_id", Column::RecordId, Kind::Int),
    ("event_type", Column::EventType, Kind::Name(&HISTORY_TYPES)),
    ("source_type", Column::SourceType, Kind::Name(&SOURCE_TYPES)),
    ("source_id", Column::SourceId, Kind::Int),
    ("event_datetime", Column::At, Kind::Moment),
];

pub(crate) const SYSTEM: [Filter; 4] = [
    ("category", Column::Category, Kind::Name(&CATEGORIES)),
    ("event_type", Column::EventType, Kind::Name(&SYSTEM_TYPES)),
    ("source_id", Column::SourceId, Kind::Int),
    ("event_timestamp", Column::At, Kind::Moment),
];

/// The history events of a tenant.
pub async fn history_events(service: &Service, client_id: Uuid, query: &Query) -> Outcome {
    let tenant = service.tenant(client_id).await?.ok_or_else(Refusal::no_connection)?;
    let page = page(&HISTORY, query)?;
    let (limit, offset) = (page.limit, page.offset);
    let listed = service.engine.history_events(&tenant, page).await.map_err(unread)?;
    Ok(envelope(limit, offset, &listed, show_history_event))
}

/// The system events of a tenant.
pub async fn system_events(service: &Service, client_id: Uuid, query: &Query) -> Outcome {
    let tenant = service.tenant(client_id).await?.ok_or_else(Refusal::no_connection)?;
    let page = page(&SYSTEM, query)?;
    let (limit, offset) = (page.limit, page.offset);
    let listed = service.engine.system_events(&tenant, page).await.map_err(unread)?;
    Ok(envelope(limit, offset, &listed, show_system_event))
}

/// Why events cannot be read.
pub fn unread(error: Error) -> Refusal {
    if error == Error::PageTooLarge {
        let mut problems = Problems::default();
        problems.add(&[Step::Name("query"), Step::Name("limit")], Problem::PageTooLarge(LARGEST_PAGE >> 20));
        return problems.into();
    }
    Refusal::engine(error, "Failed to read events.", Refusal::no_connection)
}

pub(crate) fn page(filters: &[Filter], query: &Query) -> Result<Page, Refusal> {
    let mut problems = Problems::default();
    if let Err(SelectError::TooManyFilters(most)) =
        bound_filters(query, MAX_FILTERS, |name| parts(filters, name).is_some())
    {
        problems.add(&[Step::Name("query")], Problem::TooManyFilters(most));
        return Err(problems.into());
    }
    let mut page = Page { conditions: Vec::new(), limit: USUAL, offset: 0 };
    for (name, value) in query.pairs() {
        let outcome = match name {
            "limit" => number(value, 1, MOST).map(|limit| page.limit = limit),
            "offset" => number(value, 0, i64::MAX).map(|offset| page.offset = offset),
            _ => match condition(filters, name, value) {
                None => Ok(()),
                Some(condition) => condition.map(|condition| page.conditions.push(condition)),
            },
        };
        if let Err(problem) = outcome {
            problems.add(&[Step::Name("query"), Step::Name(name)], problem);
        }
    }
    if problems.is_empty() { Ok(page) } else { Err(problems.into()) }
}

fn number(text: &str, least: i64, most: i64) -> Result<i64, Problem> {
    match int(text)? {
        number if number < least => Err(Problem::Below(least)),
        number if number > most => Err(Problem::Above(most)),
        number => Ok(number),
    }
}

fn int(text: &str) -> Result<i64, Problem> {
    text.trim().parse().map_err(|_| Problem::NotAnInteger)
}

/// A parameter as a condition; `None` when it names no filter.
fn condition(filters: &[Filter], name: &str, value: &str) -> Option<Result<Condition, Problem>> {
    let (&(_, column, kind), predicate, is_excluded) = parts(filters, name)?;
    Some(test(kind, predicate, value).map(|test| match (is_excluded, test) {
        // No column is null, so the opposite of a bound is a bound, for which there are indexes.
        (true, Test::Above(value)) => Condition { column, test: Test::UpTo(value), is_excluded: false },
        (true, Test::From(value)) => Condition { column, test: Test::Below(value), is_excluded: false },
        (true, Test::Below(value)) => Condition { column, test: Test::From(value), is_excluded: false },
        (true, Test::UpTo(value)) => Condition { column, test: Test::Above(value), is_excluded: false },
        (is_excluded, test) => Condition { column, test, is_excluded },
    }))
}

/// The filter that a parameter names, its predicate, and whether it excludes.
fn parts<'f, 'n>(filters: &'f [Filter], name: &'n str) -> Option<(&'f Filter, &'n str, bool)> {
    let (is_excluded, name) = match name.strip_suffix("__exclude") {
        Some(name) => (true, name),
        None => (false, name),
    };
    let (name, predicate) = name.split_once("__").unwrap_or((name, "exact"));
    Some((filters.iter().find(|(known, _, _)| *known == name)?, predicate, is_excluded))
}

fn test(kind: Kind, predicate: &str, value: &str) -> Result<Test, Problem> {
    if !kind.predicates().contains(&predicate) {
        return Err(Problem::NoSuchPredicate);
    }
    let one = |text: &str| match kind {
        Kind::Int => int(text),
        Kind::Name(names) => {
            let at = names.iter().position(|name| *name == text.trim()).map(|at| at as i64 + 1);
            let number = || text.trim().parse().ok().filter(|number| (1..=names.len() as i64).contains(number));
            at.or_else(number).ok_or(Problem::NotAMember)
        }
        // In an address a plus stands for a space.
        Kind::Moment => {
            moment(&text.trim().replace(' ', "+")).or_else(|| moment(text.trim())).ok_or(Problem::NotAMoment)
        }
    };
    Ok(match predicate {
        "in" => {
            let mut seen = HashSet::new();
            let values =
                value.split(',').map(one).filter(|value| value.is_err() || value.is_ok_and(|v| seen.insert(v)));
            Test::In(values.collect::<Result<_, _>>()?)
        }
        "gt" => Test::Above(one(value)?),
        "gte" => Test::From(one(value)?),
        "lt" => Test::Below(one(value)?),
        "lte" => Test::UpTo(one(value)?),
        "range" => {
            let (from, to) = value.split_once(',').ok_or(Problem::NotAMoment)?;
            Test::Between(one(from)?, one(to)?)
        }
        _ => Test::In(vec![one(value)?]),
    })
}

/// The parameters of the list of history events.
pub fn history_parameters() -> Vec<Json> {
    parameters(&HISTORY)
}

/// The parameters of the list of system events.
pub fn system_parameters() -> Vec<Json> {
    parameters(&SYSTEM)
}

fn parameters(filters: &[Filter]) -> Vec<Json> {
    let query = |name: &str, schema: Json| json!({"name": name, "in": "query", "schema": schema});
    let mut list = vec![
        query("limit", json!({"type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL})),
        query("offset", json!({"type": "integer", "minimum": 0, "maximum": i64::MAX, "default": 0})),
    ];
    for (name, _, kind) in filters {
        for predicate in kind.predicates() {
            let name = if *predicate == "exact" { (*name).to_owned() } else { format!("{name}__{predicate}") };
            for name in [name.clone(), format!("{name}__exclude")] {
                let mut parameter = query(&name, kind.schema());
                if matches!(*predicate, "in" | "range") {
                    parameter["schema"] = json!({"type": "array", "minItems": 1, "items": kind.schema()});
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

fn envelope<T>(limit: i64, offset: i64, listed: &Listed<T>, show: fn(&T, &mut Vec<u8>)) -> Reply {
    let (total, filtered) = (listed.total, listed.filtered);
    let mut out = Vec::with_capacity(128 + 512 * listed.results.len());
    let head =
        format!(r#"{{"limit":{limit},"offset":{offset},"total_count":{total},"filtered_count":{filtered},"results":["#);
    out.extend_from_slice(head.as_bytes());
    for (at, event) in listed.results.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        show(event, &mut out);
    }
    out.extend_from_slice(b"]}");
    Reply::written(StatusCode::OK, out)
}

/// Puts a text as a JSON string.
fn put_text(out: &mut Vec<u8>, text: &str) {
    // Writing into memory cannot fail.
    drop(serde_json::to_writer(out, text));
}

fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn name(names: &[&'static str], number: u8) -> &'static str {
    usize::from(number).checked_sub(1).and_then(|at| names.get(at)).copied().unwrap_or("")
}

/// `event_data` is stored as JSON and goes out as it is.
fn show_history_event(event: &HistoryEvent, out: &mut Vec<u8>) {
    put(out, &format!(r#"{{"event_id":"{}","event_datetime":""#, event.id));
    time::write(out, event.at);
    put(out, &format!(r#"","event_type":"{}","event_data":"#, name(&HISTORY_TYPES, event.event_type)));
    put(out, &event.data);
    let source_type = name(&SOURCE_TYPES, event.source_type);
    put(out, &format!(r#","source_type":"{source_type}","source_id":{},"source_name":"#, event.source_id));
    match &event.source_name {
        Some(name) => put_text(out, name),
        None => put(out, "null"),
    }
    put(out, r#","source_info":"#);
    put_text(out, &event.source_info);
    out.push(b'}');
}

fn show_system_event(event: &SystemEvent, out: &mut Vec<u8>) {
    put(out, &format!(r#"{{"id":"{}","event_timestamp":""#, event.id));
    time::write(out, event.at);
    let (category, event_type) = (name(&CATEGORIES, event.category), name(&SYSTEM_TYPES, event.event_type));
    let (source_id, source_type) = (event.source_id, event.source_type);
    put(out, &format!(r#"","category":"{category}","event_type":"{event_type}","source_id":{source_id},"#));
    put(out, &format!(r#""source_type":{source_type},"source_info":"#));
    put_text(out, &event.source_info);
    put(out, r#","source_ip":"#);
    put_text(out, &event.source_ip);
    put(out, r#","event_data":"#);
    put_text(out, &event.data);
    out.push(b'}');
}

/// An item of the list of history events.
pub fn history_event() -> Json {
    object([
        ("event_id", needed(uuid())),
        ("event_datetime", needed(openapi::moment())),
        ("event_type", needed(json!({"type": "string", "enum": HISTORY_TYPES}))),
        ("event_data", needed(json!({"type": "array"}))),
        ("source_type", needed(json!({"type": "string", "enum": SOURCE_TYPES}))),
        ("source_id", needed(openapi::int())),
        ("source_name", needed(nullable(text()))),
        ("source_info", needed(text())),
    ])
}

/// An item of the list of system events.
pub fn system_event() -> Json {
    object([
        ("id", needed(uuid())),
        ("event_timestamp", needed(openapi::moment())),
        ("category", needed(json!({"type": "string", "enum": CATEGORIES}))),
        ("event_type", needed(json!({"type": "string", "enum": SYSTEM_TYPES}))),
        ("source_id", needed(openapi::int())),
        ("source_type", needed(member_or_zero(&SOURCE_TYPES))),
        ("source_info", needed(text())),
        ("source_ip", needed(text())),
        ("event_data", needed(text())),
    ])
}
