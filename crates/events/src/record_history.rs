//! The history of a record, read from the history service and answered as a list of the main API
//! (`docs/reference/history.md`).

use crate::history_client::{HistoryClient, RecordEvents};
use crate::history_lists::{EXCLUDE, PATIENCE, Parameters, read};
use crate::record_events::{EVENT_TYPES, SOURCE_TYPES};
use bytes::Bytes;
use http::StatusCode;
use kit::answer::Answer;
use kit::ids::RecordId;
use kit::listed::{JsonItems, ListCounts};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows;
use resource::{Field, FieldKind, MAX_FILTERS, Query, Resource, openapi};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;

/// A history event, with its filters: those of the service except `record_id`, each also with `__exclude`.
pub static HISTORY_EVENT: LazyLock<Resource> = LazyLock::new(|| {
    let fields = [
        Field::new("event_id", FieldKind::Uuid),
        Field::new("event_datetime", FieldKind::DateTime).filter(),
        Field::new("event_type", FieldKind::choices(&EVENT_TYPES)).filter(),
        Field::new("event_data", FieldKind::List).schema(|| json!({"type": "array", "items": {}})),
        Field::new("source_type", FieldKind::choices(&SOURCE_TYPES)).filter(),
        Field::new("source_id", FieldKind::UserId).filter(),
        Field::new("source_name", FieldKind::text(255)).nullable(),
        Field::new("source_info", FieldKind::text(255)),
    ];
    Resource::new("history_events", "HistoryEvent", "history_events", fields.map(Field::read_only))
});

/// Returns the parameters of the list in OpenAPI.
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
    /// The number of events of the record. At 0 the record never existed, or its first events have not arrived yet.
    pub total_count: i64,
    /// The requested page, in the envelope of lists.
    pub answer: Answer,
}

/// Reads the history of a record by the parameters of a request. The calling code must have checked the rights.
///
/// # Errors
/// 400 for wrong parameters; 503 if the service is away or slow.
pub async fn history_of_record(request: &Request, record_id: RecordId) -> Result<RecordHistory, Refusal> {
    let page = page_of_record(request, record_id, &request.query).await?;
    Ok(RecordHistory { total_count: page.events.total_count, answer: page.answer(request) })
}

/// A page of the history of a record.
pub struct HistoryPage {
    limit: i64,
    offset: i64,
    events: RecordEvents,
}

impl HistoryPage {
    /// Returns the events as a JSON array.
    pub fn results(&self) -> Bytes {
        self.events.results.clone()
    }

    /// Returns the size of the events, in bytes.
    pub fn size(&self) -> usize {
        self.events.results.len()
    }

    /// Returns the page in the envelope of lists.
    fn answer(&self, request: &Request) -> Answer {
        let RecordEvents { total_count, filtered_count, results } = &self.events;
        let body = rows::envelope(request, self.limit, self.offset, *total_count, *filtered_count, results.to_vec());
        Answer::json(StatusCode::OK, body)
    }

    /// Returns the page with these events in place of the read ones, in the envelope of lists.
    pub fn answer_items(&self, request: &Request, items: JsonItems) -> Answer {
        let RecordEvents { total_count, filtered_count, .. } = self.events;
        let counts = ListCounts { total: total_count, filtered: filtered_count };
        rows::list_answer(request, self.limit, self.offset, counts, items)
    }
}

/// Reads a page of the history of a record by these parameters. The calling code must have checked the rights.
///
/// # Errors
/// Those of [`history_of_record`].
pub async fn page_of_record(request: &Request, record_id: RecordId, query: &Query) -> Result<HistoryPage, Refusal> {
    // The service counts `record_id` among the filters, too.
    let max_filters = MAX_FILTERS - 1;
    let parameters = Parameters { resource: &HISTORY_EVENT, named_there: &[], may_exclude: true, max_filters };
    let event_query = parameters.parse(query)?;
    let ask = async |service: &HistoryClient, client_id: &str| {
        service.events_of_record(request, client_id, record_id, &event_query, PATIENCE).await
    };
    let events = read(request, ask).await?;
    Ok(HistoryPage { limit: event_query.limit, offset: event_query.offset, events })
}

#[cfg(test)]
mod tests {
    use super::*;
    use resource::json::RowForm;

    #[test]
    fn the_description_tells_each_field_and_each_filter_with_its_opposite() {
        let schema = openapi::response(&HISTORY_EVENT, RowForm::List);
        assert_eq!(schema["title"], "HistoryEvent");
        assert_eq!(schema["properties"]["source_id"], json!({"type": "integer"}));
        assert_eq!(schema["properties"]["event_data"], json!({"type": "array", "items": {}}));
        let parameters = parameters();
        let names: Vec<&str> = parameters.iter().filter_map(|parameter| parameter["name"].as_str()).collect();
        let with_opposites = |filter: &str, predicates: &[&str]| -> Vec<String> {
            predicates
                .iter()
                .flat_map(|predicate| [format!("{filter}{predicate}"), format!("{filter}{predicate}__exclude")])
                .collect()
        };
        let expected = [
            vec!["limit".to_owned(), "offset".to_owned()],
            with_opposites("event_datetime", &["", "__gt", "__gte", "__lt", "__lte", "__range"]),
            with_opposites("event_type", &["", "__in"]),
            with_opposites("source_type", &["", "__in"]),
            with_opposites("source_id", &["", "__in"]),
        ];
        assert_eq!(names, expected.concat());
        let opposite = parameters.iter().find(|parameter| parameter["name"] == "source_id__exclude").unwrap();
        assert_eq!(opposite["description"], "Leaves out where `source_id` is the value");
    }
}
