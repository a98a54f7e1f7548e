//! The history of a record, read from the history service and answered as a list of the main API
//! (`docs/reference/history.md`).

use crate::client;
use crate::history_client::{Failure, RecordEvents, WantedEvents};
use crate::history_tenants::{self, TenantError};
use crate::own_history;
use crate::record_events::{EVENT_TYPES, SOURCE_TYPES};
use crate::relay;
use http::StatusCode;
use kit::answer::Answer;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows;
use resource::select::bound_filters;
use resource::{
    Errors, Field, Filter, Kind, MAX_FILTERS, Predicate, Query, Resource, SelectError, Value, openapi, select, time,
};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;
use std::time::Duration;
use url::form_urlencoded;

/// How long a request waits for the history service.
const PATIENCE: Duration = Duration::from_secs(5);
/// The moments that the service takes, in microseconds since 1970: the years 1900 to 2299. No event is as early or as
/// late as these two.
const MOMENTS: [i64; 2] = [-2_208_988_800_000_000, 10_413_792_000_000_000 - 1];
/// The ending of the parameters that leave out what meets a filter.
const EXCLUDE: &str = "__exclude";

/// A history event, with its filters: those of the service but for `record_id`, each also with `__exclude`.
pub static HISTORY_EVENT: LazyLock<Resource> = LazyLock::new(|| {
    let fields = [
        Field::new("event_id", Kind::Uuid),
        Field::new("event_datetime", Kind::DateTime).filter(),
        Field::new("event_type", Kind::choices(&EVENT_TYPES)).filter(),
        Field::new("event_data", Kind::List).schema(|| json!({"type": "array", "items": {}})),
        Field::new("source_type", Kind::choices(&SOURCE_TYPES)).filter(),
        Field::new("source_id", Kind::UserId).filter(),
        Field::new("source_name", Kind::text(255)).nullable(),
        Field::new("source_info", Kind::text(255)),
    ];
    Resource::new("history_events", "HistoryEvent", "history_events", fields.map(Field::read_only))
});

/// The parameters of the list in OpenAPI.
pub fn parameters() -> Vec<Json> {
    let mut parameters = openapi::paging();
    for parameter in openapi::parameters(&HISTORY_EVENT).into_iter().skip(parameters.len()) {
        let text = |name: &str| parameter[name].as_str().unwrap_or_default().to_owned();
        let mut opposite = parameter.clone();
        opposite["name"] = (text("name") + EXCLUDE).into();
        opposite["description"] = format!("Leaves out where {}", text("description")).into();
        parameters.extend([parameter, opposite]);
    }
    parameters
}

/// The history of a record.
pub struct RecordHistory {
    /// How many events the record has; none: it never was, or its first events have not arrived yet.
    pub total_count: i64,
    /// The page that the request asks for, in the envelope of lists.
    pub answer: Answer,
}

/// Reads the history of a record, as the parameters of a request ask for it. The caller has checked the rights.
///
/// # Errors
/// 400 for wrong parameters; 503 when the service is away or slow.
pub async fn history_of_record(request: &Request, record_id: i64) -> Result<RecordHistory, Refusal> {
    let wanted = wanted_events(&request.query)?;
    let read = tokio::time::timeout(PATIENCE, read(request, record_id, &wanted)).await;
    let slow = || TenantError::Service(Failure::Unavailable(format!("no answer within {} s", PATIENCE.as_secs())));
    let events = read.unwrap_or_else(|_| Err(slow())).map_err(refusal)?;
    let RecordEvents { total_count, filtered_count, results, .. } = &events;
    let body = rows::envelope(request, wanted.limit, wanted.offset, *total_count, *filtered_count, results);
    Ok(RecordHistory { total_count: *total_count, answer: Answer::json(StatusCode::OK, body) })
}

async fn read(request: &Request, record_id: i64, wanted: &WantedEvents) -> Result<RecordEvents, TenantError> {
    let none = |what: &str| TenantError::Service(Failure::Unavailable(what.to_owned()));
    let service = client(&request.app).ok_or_else(|| none("there is no history service"))?;
    let tenant = match relay::tenant(&request.build) {
        Some(tenant) => Some(tenant),
        None => history_tenants::find(&request.app, &request.build.uid).await?,
    };
    let tenant = tenant.ok_or_else(|| none("the build has no tenant yet"))?;
    own_history::verify(&request.app, service, PATIENCE).await?;
    service.events_of_record(&tenant.client_id, record_id, wanted, PATIENCE).await.map_err(TenantError::Service)
}

fn refusal(error: TenantError) -> Refusal {
    match error {
        TenantError::Store(error) => error.into(),
        TenantError::Service(Failure::PageTooLarge) => {
            Refusal::field("limit", "Ensure that the page has at most 32 MiB.")
        }
        TenantError::Service(failure) => {
            tracing::warn!(reason = %failure, "history is not read");
            Refusal::busy("History is unavailable.")
        }
    }
}

/// What the parameters of a request ask for, checked as those of every list, each filter also with `__exclude`.
fn wanted_events(query: &Query) -> Result<WantedEvents, SelectError> {
    let is_filter = |parameter: &str| {
        let name = parameter.split_once("__").map_or(parameter, |(name, _)| name);
        HISTORY_EVENT.field(name).is_some_and(|field| field.filter)
    };
    bound_filters(query, MAX_FILTERS, is_filter)?;
    let (mut filters, mut errors) = (Vec::new(), Errors::new());
    for (parameter, value) in query.pairs().filter(|(parameter, _)| is_filter(parameter)) {
        let (name, exclude) = match parameter.strip_suffix(EXCLUDE) {
            Some(name) => (name, EXCLUDE),
            None => (parameter, ""),
        };
        match select(&HISTORY_EVENT, &single(name, value)) {
            Ok(select) => filters.extend(select.filters.iter().map(|filter| parameter_of(filter, exclude))),
            Err(wrong) => {
                let messages = wrong.to_json()[name].take();
                messages
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Json::as_str)
                    .for_each(|message| errors.add(parameter, message));
            }
        }
    }
    let page = ["limit", "offset"].map(|name| query.last(name).map(|value| (name, value)));
    let mut paging = form_urlencoded::Serializer::new(String::new());
    paging.extend_pairs(page.into_iter().flatten());
    let (limit, offset) = match select(&HISTORY_EVENT, &Query::parse(&paging.finish())) {
        Ok(select) => (select.limit, select.offset),
        Err(SelectError::Wrong(wrong)) => {
            errors.merge(wrong);
            (0, 0)
        }
        Err(wrong) => return Err(wrong),
    };
    if !errors.is_empty() {
        return Err(SelectError::Wrong(errors));
    }
    filters.sort_unstable();
    filters.dedup();
    // The service counts `record_id`, too.
    if filters.len() >= MAX_FILTERS {
        return Err(SelectError::TooManyFilters(MAX_FILTERS));
    }
    Ok(WantedEvents { filters, limit, offset })
}

/// A query of one parameter.
fn single(name: &str, value: &str) -> Query {
    Query::parse(&form_urlencoded::Serializer::new(String::new()).append_pair(name, value).finish())
}

/// A filter as a parameter of the service.
fn parameter_of(filter: &Filter<'_>, exclude: &str) -> (String, String) {
    let value = |value: &Value| match value {
        Value::Int(at) if matches!(filter.field().kind, Kind::DateTime) => {
            time::show((*at).clamp(MOMENTS[0], MOMENTS[1]))
        }
        Value::Int(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        _ => String::new(),
    };
    let values: Vec<String> = filter.operands().iter().map(value).collect();
    let predicate = match filter.predicate() {
        Predicate::Exact => String::new(),
        other => format!("__{}", other.name()),
    };
    (format!("{}{predicate}{exclude}", filter.field().name), values.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use resource::json::Form;

    #[test]
    fn the_description_tells_each_field_and_each_filter_with_its_opposite() {
        let schema = openapi::response(&HISTORY_EVENT, Form::List);
        assert_eq!(schema["title"], "HistoryEvent");
        assert_eq!(schema["properties"]["source_id"], json!({"type": "integer"}));
        assert_eq!(schema["properties"]["event_data"], json!({"type": "array", "items": {}}));
        let parameters = parameters();
        let names: Vec<&str> = parameters.iter().filter_map(|parameter| parameter["name"].as_str()).collect();
        let of = |filter: &str, predicates: &[&str]| -> Vec<String> {
            predicates.iter().flat_map(|of| [format!("{filter}{of}"), format!("{filter}{of}__exclude")]).collect()
        };
        let expected = [
            vec!["limit".to_owned(), "offset".to_owned()],
            of("event_datetime", &["", "__gt", "__gte", "__lt", "__lte", "__range"]),
            of("event_type", &["", "__in"]),
            of("source_type", &["", "__in"]),
            of("source_id", &["", "__in"]),
        ];
        assert_eq!(names, expected.concat());
        let opposite = parameters.iter().find(|parameter| parameter["name"] == "source_id__exclude").unwrap();
        assert_eq!(opposite["description"], "Leaves out where `source_id` is the value");
    }
}
