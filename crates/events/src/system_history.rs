//! The system events of a build, read from the history service (`docs/reference/history.md`).

use crate::history_client::{CallFailure, HistoryClient};
use crate::history_lists::{PATIENCE, Parameters, read};
use kit::refusal::Refusal;
use kit::request::Request;
use resource::{MAX_FILTERS, Resource};
use serde::Deserialize;
use serde_json::Value as Json;

/// A system event.
#[derive(Deserialize)]
pub struct ShownSystemEvent {
    pub id: String,
    /// The time, as answers show times.
    pub event_timestamp: String,
    pub event_type: String,
    /// A user's id, if the source is a user.
    pub source_id: i64,
    pub source_type: i64,
    pub source_ip: String,
    event_data: String,
}

/// A page of system events, newest first.
pub struct SystemEvents {
    pub limit: i64,
    pub offset: i64,
    pub total_count: i64,
    pub filtered_count: i64,
    pub results: Vec<ShownSystemEvent>,
}

impl ShownSystemEvent {
    /// Returns the reason of the event, if its type has several reasons.
    pub fn reason(&self) -> Option<String> {
        let data: Json = serde_json::from_str(&self.event_data).ok()?;
        data["reason"].as_str().map(str::to_owned)
    }
}

/// Reads the page of system events that the parameters of a request select. `named_there` contains the fields of
/// `resource` that have another name in the service, with that name. The calling code must have checked the rights.
///
/// # Errors
/// 400 for wrong parameters; 503 if the service is away or slow.
pub async fn system_events(
    request: &Request,
    resource: &Resource,
    named_there: &[(&str, &str)],
) -> Result<SystemEvents, Refusal> {
    let parameters = Parameters { resource, named_there, may_exclude: false, max_filters: MAX_FILTERS };
    let event_query = parameters.parse(&request.query)?;
    let ask = async |service: &HistoryClient, client_id: &str| {
        let page = service.system_events(request, client_id, &event_query, PATIENCE).await?;
        let no_list = |_| CallFailure::Unavailable("the answer to a list of system events is none".to_owned());
        let results = serde_json::from_slice(&page.results).map_err(no_list)?;
        Ok(SystemEvents {
            limit: event_query.limit,
            offset: event_query.offset,
            total_count: page.total_count,
            filtered_count: page.filtered_count,
            results,
        })
    };
    read(request, ask).await
}
