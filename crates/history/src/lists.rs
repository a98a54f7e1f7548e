//! `GET /api/history/events` and `GET /api/system-events` (document 3, "History event list rules"; document 4, section 6,
//! rows "list parameters" and "order"). Each list declares its filters; everything else is read from there.

use crate::engine::{Error, LARGEST_PAGE, Listed};
use crate::event::{CATEGORIES, HISTORY_TYPES, HistoryEvent, SOURCE_TYPES, SYSTEM_TYPES, SystemEvent};
use crate::filter::{Column, Condition, Page, Test};
use crate::reply::{Outcome, Problem, Problems, Refusal, Reply, Step};
use crate::scalar::moment;
use crate::service::Service;
use http::StatusCode;
use resource::Query;
use resource::time;
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
    let (is_excluded, name) = match name.strip_suffix("__exclude") {
        Some(name) => (true, name),
        None => (false, name),
    };
    let (name, predicate) = name.split_once("__").unwrap_or((name, "exact"));
    let (_, column, kind) = *filters.iter().find(|(known, _, _)| *known == name)?;
    Some(test(kind, predicate, value).map(|test| match (is_excluded, test) {
        // No column is null, so the opposite of a bound is a bound, for which there are indexes.
        (true, Test::Above(value)) => Condition { column, test: Test::UpTo(value), is_excluded: false },
        (true, Test::From(value)) => Condition { column, test: Test::Below(value), is_excluded: false },
        (true, Test::Below(value)) => Condition { column, test: Test::From(value), is_excluded: false },
        (true, Test::UpTo(value)) => Condition { column, test: Test::Above(value), is_excluded: false },
        (is_excluded, test) => Condition { column, test, is_excluded },
    }))
}

fn test(kind: Kind, predicate: &str, value: &str) -> Result<Test, Problem> {
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
    Ok(match (kind, predicate) {
        (_, "exact") => Test::In(vec![one(value)?]),
        (Kind::Int | Kind::Name(_), "in") => Test::In(value.split(',').map(one).collect::<Result<_, _>>()?),
        (Kind::Moment, "gt") => Test::Above(one(value)?),
        (Kind::Moment, "gte") => Test::From(one(value)?),
        (Kind::Moment, "lt") => Test::Below(one(value)?),
        (Kind::Moment, "lte") => Test::UpTo(one(value)?),
        (Kind::Moment, "range") => {
            let (from, to) = value.split_once(',').ok_or(Problem::NotAMoment)?;
            Test::Between(one(from)?, one(to)?)
        }
        _ => return Err(Problem::NoSuchPredicate),
    })
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
