//! The common parts of the main API's lists that are read from the history service: parameters, the tenant, refusals.

use crate::client;
use crate::history_client::{CallFailure, EventQuery, HistoryClient};
use crate::history_tenants::{self, TenantError};
use crate::own_history;
use crate::relay;
use kit::refusal::Refusal;
use kit::request::Request;
use resource::select::bound_filters;
use resource::{
    CheckedFilter, CheckedValue, Errors, FieldKind, MAX_FILTERS, Predicate, Query, Resource, SelectError, select, time,
};
use std::time::Duration;
use url::form_urlencoded;

/// The maximum time for which a request waits for the history service.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// The times that the service accepts, in microseconds since 1970: the years 1900 to 2299. The times of
/// all events are between these two.
const ACCEPTED_TIMES: [i64; 2] = [-2_208_988_800_000_000, 10_413_792_000_000_000 - 1];
/// The suffix of the parameters that exclude the matches of a filter.
pub const EXCLUDE: &str = "__exclude";

/// Runs `read` with the service and the client id of the tenant of the request's build.
///
/// # Errors
/// 503 if the service is away or slow, 400 for a page that is too large.
pub async fn read<T>(
    request: &Request,
    call: impl AsyncFnOnce(&HistoryClient, &str) -> Result<T, CallFailure>,
) -> Result<T, Refusal> {
    let outcome = tokio::time::timeout(PATIENCE, async {
        let (service, client_id) = tenant(request).await?;
        call(service, &client_id).await.map_err(TenantError::Service)
    });
    let slow = || TenantError::Service(CallFailure::Unavailable(format!("no answer within {} s", PATIENCE.as_secs())));
    outcome.await.unwrap_or_else(|_| Err(slow())).map_err(refusal)
}

/// Returns the history service, after a check that it belongs to the database, and the client id of the build.
async fn tenant(request: &Request) -> Result<(&HistoryClient, String), TenantError> {
    let none = |reason: &str| TenantError::Service(CallFailure::Unavailable(reason.to_owned()));
    let service = client(&request.app).ok_or_else(|| none("there is no history service"))?;
    let tenant = match relay::tenant(&request.build) {
        Some(tenant) => Some(tenant),
        None => history_tenants::find(&request.app, &request.build.uid).await?,
    };
    let tenant = tenant.ok_or_else(|| none("the build has no tenant yet"))?;
    own_history::verify(&request.app, service, PATIENCE).await?;
    Ok((service, tenant.client_id.clone()))
}

fn refusal(error: TenantError) -> Refusal {
    match error {
        TenantError::Store(error) => error.into(),
        TenantError::Service(CallFailure::PageTooLarge) => {
            Refusal::field("limit", "Ensure that the page has at most 32 MiB.")
        }
        TenantError::Service(failure) => {
            tracing::warn!(reason = %failure, "history is not read");
            Refusal::service_busy("History is unavailable.")
        }
    }
}

/// The mapping of a list's parameters to those of the service.
pub struct Parameters<'a> {
    /// The declaration of the list.
    pub resource: &'a Resource,
    /// The fields that have another name in the service, with that name.
    pub named_there: &'a [(&'a str, &'a str)],
    /// Is true if each filter also has a parameter that excludes its matches.
    pub may_exclude: bool,
    /// The maximum number of filters in a request.
    pub max_filters: usize,
}

impl Parameters<'_> {
    /// Parses the parameters of a request, with the checks of every list.
    pub fn parse(&self, query: &Query) -> Result<EventQuery, SelectError> {
        let is_filter = |parameter: &str| {
            let name = parameter.split_once("__").map_or(parameter, |(name, _)| name);
            self.resource.field(name).is_some_and(|field| field.filter)
        };
        bound_filters(query, MAX_FILTERS, is_filter)?;
        let (mut filters, mut errors) = (Vec::new(), Errors::new());
        for (parameter, value) in query.pairs().filter(|(parameter, _)| is_filter(parameter)) {
            let (name, exclude) = match parameter.strip_suffix(EXCLUDE).filter(|_| self.may_exclude) {
                Some(name) => (name, EXCLUDE),
                None => (parameter, ""),
            };
            match select(self.resource, &query_of(name, value)) {
                Ok(select) => filters.extend(select.filters.iter().map(|filter| self.parameter_of(filter, exclude))),
                Err(SelectError::Wrong(wrong)) => {
                    let messages = wrong
                        .iter()
                        .filter(|(field, _)| *field == name)
                        .flat_map(|(_, field_errors)| field_errors.messages());
                    messages.for_each(|message| errors.add(parameter, message));
                }
                Err(error) => return Err(error),
            }
        }
        let page = ["limit", "offset"].map(|name| query.last_value(name).map(|value| (name, value)));
        let mut paging = form_urlencoded::Serializer::new(String::new());
        paging.extend_pairs(page.into_iter().flatten());
        let (limit, offset) = match select(self.resource, &Query::parse(&paging.finish())) {
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
        if filters.len() > self.max_filters {
            return Err(SelectError::TooManyFilters(MAX_FILTERS));
        }
        Ok(EventQuery { filters, limit, offset })
    }

    /// Returns a filter as a parameter of the service.
    fn parameter_of(&self, filter: &CheckedFilter<'_>, exclude: &str) -> (String, String) {
        let value = |value: &CheckedValue| match value {
            CheckedValue::Int(at) if matches!(filter.field().kind, FieldKind::DateTime) => {
                time::show((*at).clamp(ACCEPTED_TIMES[0], ACCEPTED_TIMES[1]))
            }
            // To the service 0 means that there is no user; it has no event with the number -1.
            CheckedValue::Int(0) if matches!(filter.field().kind, FieldKind::User) => "-1".to_owned(),
            CheckedValue::Int(number) => number.to_string(),
            CheckedValue::Text(text) => text.clone(),
            _ => String::new(),
        };
        let values: Vec<String> = filter.operands().iter().map(value).collect();
        let predicate = match filter.predicate() {
            Predicate::Exact => String::new(),
            other => format!("__{}", other.name()),
        };
        let own = filter.field().name.as_ref();
        let name = self
            .named_there
            .iter()
            .find(|(api_name, _)| *api_name == own)
            .map_or(own, |(_, service_name)| *service_name);
        (format!("{name}{predicate}{exclude}"), values.join(","))
    }
}

/// Returns a query of one parameter.
fn query_of(name: &str, value: &str) -> Query {
    Query::parse(&form_urlencoded::Serializer::new(String::new()).append_pair(name, value).finish())
}
