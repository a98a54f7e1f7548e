//! The HTTP client of the history service, with the calls that the main API needs (`docs/reference/history.md`).

use crate::own_history::ForeignService;
use bytes::Bytes;
use futures_util::future::try_join;
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::{Method, StatusCode};
use kit::ids::RecordId;
use kit::outbound;
use kit::request::Request;
use reqwest::{Body, Client, RequestBuilder};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use store::blobs::pieces;
use url::form_urlencoded;

/// The timeout for a new connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The timeout of a call. It is long, since the service retries a write five times.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(20);
/// The timeout of the upload of a file.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum size of an answer, except for pages of lists, in bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// The maximum size of a page of a list, in bytes. The service puts texts of at most 32 MiB on a page.
const MAX_PAGE_BYTES: usize = 33 * 1024 * 1024;
/// The maximum idle time of a connection. It is shorter than that of the service, so that no call meets a closed one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// An offset behind the last event of every record.
const BEHIND_ALL: i64 = 1 << 40;
/// The maximum number of characters of an answer that are logged.
const MAX_LOGGED_CHARS: usize = 500;
/// The time after which the client checks again whether a service belongs to the database.
const VERIFIED_MAX_AGE: Duration = Duration::from_secs(10);

/// The address and the key of the history service (`CHANCERY_HISTORY_URL`, `CHANCERY_HISTORY_API_KEY`).
#[derive(Clone)]
pub struct HistoryAddress {
    /// The base URL, without a slash at its end.
    pub url: String,
    /// The `X-API-Key` of the history service.
    pub api_key: String,
}

/// The address at which one file can be put.
pub struct UploadAddress {
    /// The URL. Any client that has it can put the file.
    pub upload_url: String,
    /// The id by which an event names the file.
    pub file_id: String,
}

/// The credentials of a new tenant.
#[derive(Clone)]
pub struct CreatedTenant {
    pub client_id: String,
    pub client_secret: String,
}

/// The reason why a call failed.
#[derive(Clone, Debug, PartialEq)]
pub enum CallFailure {
    /// The service is unavailable; the same call may succeed later.
    Unavailable(String),
    /// The service belongs to another database.
    Foreign(String),
    /// The tenant does not exist.
    NoTenant(String),
    /// The tenant exists already.
    Exists,
    /// The service rejected the request as invalid; a retry cannot succeed.
    Refused(String),
    /// The body of the request was too large.
    TooLarge,
    /// The requested page is too large.
    PageTooLarge,
}

impl CallFailure {
    /// Returns whether every repetition of the call would fail in the same way.
    pub fn is_final(&self) -> bool {
        matches!(self, CallFailure::Refused(_) | CallFailure::TooLarge)
    }
}

impl std::fmt::Display for CallFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CallFailure::Unavailable(why)
            | CallFailure::Foreign(why)
            | CallFailure::NoTenant(why)
            | CallFailure::Refused(why) => f.write_str(why),
            CallFailure::Exists => f.write_str("Client already exist."),
            CallFailure::TooLarge => f.write_str("the body is too large"),
            CallFailure::PageTooLarge => f.write_str("the page is too large"),
        }
    }
}

/// An HTTP client of the history service.
pub struct HistoryClient {
    http: Client,
    url: String,
    api_key: HeaderValue,
    identity: Mutex<ExpectedService>,
    /// Is true if the database stores the address.
    pub(crate) is_of_server: bool,
}

/// The identity of the service that a client calls (see [`crate::own_history`]).
#[derive(Default)]
enum ExpectedService {
    #[default]
    Unknown,
    /// The database's own service, with the time of its check and the id that calls carry. A former version has no id.
    Own(Instant, Option<HeaderValue>),
    /// Another service.
    Foreign,
}

impl HistoryClient {
    /// Creates a client with its own connection pool. The error is one line that names the wrong setting.
    pub fn new(service: &HistoryAddress) -> Result<HistoryClient, String> {
        let mut api_key = HeaderValue::from_str(&service.api_key)
            .map_err(|_| "CHANCERY_HISTORY_API_KEY: it has characters that no header may have".to_owned())?;
        api_key.set_sensitive(true);
        let http = outbound::http_client()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(CALL_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .user_agent("chancery")
            .build();
        let http = http.map_err(|error| format!("CHANCERY_HISTORY_URL: {error}"))?;
        let (url, identity) = (service.url.clone(), Mutex::default());
        Ok(HistoryClient { http, url, api_key, identity, is_of_server: true })
    }

    /// Returns the client of a command. Its address may be right for this command alone, and is not stored.
    ///
    /// # Errors
    /// Those of [`HistoryClient::new`].
    pub fn for_command(service: &HistoryAddress) -> Result<HistoryClient, String> {
        Ok(HistoryClient { is_of_server: false, ..HistoryClient::new(service)? })
    }

    /// Returns the address of the service.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the id of the service; `None` if its version has no id.
    pub async fn service_id(&self, patience: Duration) -> Result<Option<String>, CallFailure> {
        let request = self.http.request(Method::GET, format!("{}/api/service", self.url));
        let request = request.header("x-api-key", self.api_key.clone()).timeout(patience);
        let (status, json, body) = receive(request).await?;
        match (status, json["id"].as_str()) {
            (StatusCode::OK, Some(id)) if HeaderValue::from_str(id).is_ok() => Ok(Some(id.to_owned())),
            (StatusCode::NOT_FOUND, _) if json["detail"] == "Not found." => Ok(None),
            _ => Err(failure(status, &json, &body)),
        }
    }

    /// Returns whether a recent check has found that the service belongs to the database.
    pub(crate) fn is_verified(&self) -> bool {
        matches!(&*self.identity(), ExpectedService::Own(since, _) if since.elapsed() < VERIFIED_MAX_AGE)
    }

    /// Stores whether the service belongs to the database, and its id; `None`: unknown.
    pub(crate) fn set_verified(&self, is_own: Option<bool>, id: Option<&str>) {
        *self.identity() = match is_own {
            Some(true) => ExpectedService::Own(Instant::now(), id.and_then(|id| HeaderValue::from_str(id).ok())),
            Some(false) => ExpectedService::Foreign,
            None => ExpectedService::Unknown,
        };
    }

    /// Returns whether the last check found another service.
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(&*self.identity(), ExpectedService::Foreign)
    }

    fn identity(&self) -> MutexGuard<'_, ExpectedService> {
        web::lock(&self.identity)
    }

    /// Creates a tenant.
    pub async fn initialize(
        &self,
        database_name: &str,
        label: &str,
        timeout: Duration,
    ) -> Result<CreatedTenant, CallFailure> {
        let body = json!({"database_name": database_name, "client_label": label});
        let request = self.call(Method::POST, "/api/initialize-tenant").timeout(timeout);
        let answer = self.send(with_json(request, body.to_string()), StatusCode::CREATED).await?;
        let text = |name: &str| answer[name].as_str().map(str::to_owned);
        match (text("client_id"), text("client_secret")) {
            (Some(client_id), Some(client_secret)) => Ok(CreatedTenant { client_id, client_secret }),
            _ => Err(CallFailure::Unavailable("the answer to initialize-tenant has no client".to_owned())),
        }
    }

    /// Delivers system events, each as JSON text.
    pub async fn batch(&self, client_id: &str, events: &[&str]) -> Result<(), CallFailure> {
        let body = format!("{{\"events\":[{}]}}", events.join(","));
        let request = self.call(Method::POST, "/api/system-events/batch").header("x-client-id", client_id);
        self.send(with_json(request, body), StatusCode::CREATED).await.map(drop)
    }

    /// Delivers one history event in its envelope.
    pub async fn create_event(&self, client_id: &str, envelope: &Envelope<'_>) -> Result<(), CallFailure> {
        let request = self.call(Method::POST, "/api/event-bridge/create-event").header("x-client-id", client_id);
        self.send(with_json(request, envelope.to_json()), StatusCode::CREATED).await.map(drop)
    }

    /// Returns a page of the history events of one record, newest first.
    pub async fn events_of_record(
        &self,
        client_request: &Request,
        client_id: &str,
        record_id: RecordId,
        event_query: &EventQuery,
        patience: Duration,
    ) -> Result<RecordEvents, CallFailure> {
        let page = self.history_events(client_request, client_id, record_id, event_query, patience);
        if event_query.filters.is_empty() {
            let (filtered_count, results) = page.await?;
            return Ok(RecordEvents { total_count: filtered_count, filtered_count, results });
        }
        // The service's own total counts all events of the tenant.
        let none = EventQuery { filters: Vec::new(), limit: 1, offset: BEHIND_ALL };
        let count = self.history_events(client_request, client_id, record_id, &none, patience);
        let ((filtered_count, results), (total_count, _)) = try_join(page, count).await?;
        Ok(RecordEvents { total_count, filtered_count, results })
    }

    /// Returns a page of the system events of a tenant, newest first.
    pub async fn system_events(
        &self,
        client_request: &Request,
        client_id: &str,
        event_query: &EventQuery,
        patience: Duration,
    ) -> Result<ListPage, CallFailure> {
        self.list(client_request, client_id, "/api/system-events?", None, event_query, patience).await
    }

    /// Returns the number of history events of a record that meet the filters, and a page of them as a JSON array.
    async fn history_events(
        &self,
        client_request: &Request,
        client_id: &str,
        record_id: RecordId,
        event_query: &EventQuery,
        patience: Duration,
    ) -> Result<(i64, Bytes), CallFailure> {
        let page = self
            .list(client_request, client_id, "/api/history/events?", Some(record_id), event_query, patience)
            .await?;
        Ok((page.filtered_count, page.results))
    }

    /// Returns a page of a list of the service, of one record or of the whole tenant.
    async fn list(
        &self,
        client_request: &Request,
        client_id: &str,
        path: &str,
        record_id: Option<RecordId>,
        event_query: &EventQuery,
        patience: Duration,
    ) -> Result<ListPage, CallFailure> {
        // The serializer cannot be sent to another thread, so it ends before the wait.
        let path = {
            let mut query = form_urlencoded::Serializer::new(path.to_owned());
            query.extend_pairs(record_id.map(|id| ("record_id", id.to_string())));
            query
                .append_pair("limit", &event_query.limit.to_string())
                .append_pair("offset", &event_query.offset.to_string());
            query.extend_pairs(&event_query.filters).finish()
        };
        let request = self.call(Method::GET, &path).header("x-client-id", client_id).timeout(patience);
        let outcome = self.read_page(client_request, request, patience).await;
        self.doubt_after(&outcome);
        let page = outcome?;
        let no_list = |_| CallFailure::Unavailable("the answer to a list of events is none".to_owned());
        let listed: ServiceList<'_> = serde_json::from_slice(&page).map_err(no_list)?;
        let ServiceList { total_count, filtered_count, results } = listed;
        Ok(ListPage { total_count, filtered_count, results: page.slice_ref(results.get().as_bytes()) })
    }

    /// Returns the body of a page. The memory of the answer is reserved before it is read, twice, since the page is copied into it.
    async fn read_page(
        &self,
        client_request: &Request,
        request: RequestBuilder,
        patience: Duration,
    ) -> Result<Bytes, CallFailure> {
        let response = request.send().await.map_err(|error| CallFailure::Unavailable(outbound::error_text(error)))?;
        let status = response.status();
        if status != StatusCode::OK {
            let body = outbound::body(response, MAX_ANSWER_BYTES).await.unwrap_or_default();
            let json: Json = serde_json::from_slice(&body).unwrap_or_default();
            let is_page = json["detail"][0]["type"] == "value_error.page.too_large";
            return Err(if is_page { CallFailure::PageTooLarge } else { failure(status, &json, &body) });
        }
        let length = response.content_length().map_or(MAX_PAGE_BYTES, |length| length.try_into().unwrap_or(usize::MAX));
        if length > MAX_PAGE_BYTES {
            return Err(CallFailure::PageTooLarge);
        }
        let until = Instant::now() + patience;
        if client_request.reserve_answer(length).is_err()
            && client_request.await_room(2 * length, until.into()).await.is_err()
        {
            return Err(CallFailure::Unavailable("too many large pages at once".to_owned()));
        }
        let body = outbound::body(response, MAX_PAGE_BYTES).await;
        let body = body.ok_or_else(|| CallFailure::Unavailable("a page did not arrive".to_owned()))?;
        Ok(body.into())
    }

    /// Requests an address at which one file can be put.
    pub async fn upload_address(&self, client_id: &str) -> Result<UploadAddress, CallFailure> {
        let request = self.call(Method::GET, "/api/files/upload-url").header("x-client-id", client_id);
        let answer = self.send(request, StatusCode::OK).await?;
        let text = |name: &str| answer[name].as_str().map(str::to_owned);
        match (text("upload_url"), text("file_id")) {
            (Some(upload_url), Some(file_id)) => Ok(UploadAddress { upload_url, file_id }),
            _ => Err(CallFailure::Unavailable("the answer to upload-url has no address".to_owned())),
        }
    }

    /// Puts the first `size` bytes of a file at an address, which may be one of S3, and returns the status of the
    /// answer. The key is not sent there. No part of the answer is reported, since the address is a secret too.
    ///
    /// # Errors
    /// One line with the reason why there is no answer.
    pub async fn put_file(&self, upload_url: &str, file: File, size: u64) -> Result<StatusCode, String> {
        let body = Body::wrap_stream(pieces(Arc::new(file), size));
        let request = self.http.put(upload_url).header(CONTENT_LENGTH, size).timeout(UPLOAD_TIMEOUT).body(body);
        let response = request.send().await.map_err(outbound::error_text)?;
        Ok(response.status())
    }

    /// Deletes a tenant with its history. Returns `false` if the tenant does not exist.
    pub async fn delete_tenant(&self, client_id: &str) -> Result<bool, CallFailure> {
        let request = self.call(Method::DELETE, "/api/delete-tenant").header("x-client-id", client_id);
        match self.send(request, StatusCode::NO_CONTENT).await {
            Ok(_) => Ok(true),
            Err(CallFailure::NoTenant(_)) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Returns a request that all services except the verified one refuse.
    fn call(&self, method: Method, path: &str) -> RequestBuilder {
        let request =
            self.http.request(method, format!("{}{path}", self.url)).header("x-api-key", self.api_key.clone());
        match &*self.identity() {
            ExpectedService::Own(_, Some(id)) => request.header("x-history-service", id.clone()),
            _ => request,
        }
    }

    async fn send(&self, request: RequestBuilder, expected: StatusCode) -> Result<Json, CallFailure> {
        let answered = receive(request).await;
        let outcome = answered.and_then(
            |(status, json, body)| {
                if status == expected { Ok(json) } else { Err(failure(status, &json, &body)) }
            },
        );
        self.doubt_after(&outcome);
        outcome
    }

    /// Resets the identity after a failed call, since another service may answer there next.
    fn doubt_after<T>(&self, outcome: &Result<T, CallFailure>) {
        if let Err(CallFailure::Unavailable(_) | CallFailure::Foreign(_) | CallFailure::NoTenant(_)) = outcome {
            *self.identity() = ExpectedService::Unknown;
        }
    }
}

/// The parameters of a request for events.
#[derive(Debug, PartialEq)]
pub struct EventQuery {
    /// The filters, as parameters of the service's list.
    pub filters: Vec<(String, String)>,
    pub limit: i64,
    pub offset: i64,
}

/// A page of a record's history events.
pub struct RecordEvents {
    /// The number of events of the record.
    pub total_count: i64,
    /// The number of them that meet the filters.
    pub filtered_count: i64,
    /// The page as a JSON array.
    pub results: Bytes,
}

/// A page of a list.
pub struct ListPage {
    /// The number of events of the tenant.
    pub total_count: i64,
    /// The number of them that meet the filters.
    pub filtered_count: i64,
    /// The page as a JSON array.
    pub results: Bytes,
}

/// The parts of the service's answer to a list that are read.
#[derive(Deserialize)]
struct ServiceList<'a> {
    total_count: i64,
    filtered_count: i64,
    #[serde(borrow)]
    results: &'a RawValue,
}

/// The envelope of a history event (`docs/reference/history.md`).
pub struct Envelope<'a> {
    /// The id of the event.
    pub id: &'a str,
    /// The `database_name` of the tenant.
    pub source: &'a str,
    /// The domain of the build.
    pub account: &'a str,
    /// The time at which the event was put into the outbox, in microseconds since 1970.
    pub time: i64,
    /// The event as JSON text.
    pub detail: &'a str,
}

impl Envelope<'_> {
    fn to_json(&self) -> String {
        let envelope = json!({
            "version": "0", "id": self.id, "detail-type": "history_event", "source": self.source,
            "account": self.account, "time": resource::time::show(self.time), "region": "", "resources": [],
        });
        // The detail is JSON text already, so it is appended unchanged.
        let mut text = envelope.to_string();
        text.pop();
        text + ",\"detail\":" + self.detail + "}"
    }
}

fn with_json(request: RequestBuilder, body: String) -> RequestBuilder {
    request.header(http::header::CONTENT_TYPE, "application/json").body(body)
}

/// Returns the status of an answer, its JSON (null if it has none) and its body.
async fn receive(request: RequestBuilder) -> Result<(StatusCode, Json, Vec<u8>), CallFailure> {
    let response = request.send().await.map_err(|error| CallFailure::Unavailable(outbound::error_text(error)))?;
    let status = response.status();
    let body = outbound::body(response, MAX_ANSWER_BYTES).await.unwrap_or_default();
    Ok((status, serde_json::from_slice(&body).unwrap_or_default(), body))
}

fn failure(status: StatusCode, json: &Json, body: &[u8]) -> CallFailure {
    let detail = json["detail"].as_str().unwrap_or("");
    let reason =
        || format!("{status}: {}", String::from_utf8_lossy(body).chars().take(MAX_LOGGED_CHARS).collect::<String>());
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => CallFailure::TooLarge,
        StatusCode::UNPROCESSABLE_ENTITY => CallFailure::Refused(reason()),
        StatusCode::MISDIRECTED_REQUEST => {
            CallFailure::Foreign(format!("{}: {}", reason(), ForeignService::Other(None)))
        }
        StatusCode::UNAUTHORIZED => CallFailure::Unavailable(format!("{} (CHANCERY_HISTORY_API_KEY)", reason())),
        StatusCode::BAD_REQUEST => match detail {
            "Client already exist." => CallFailure::Exists,
            "Failed to connect to tenant db." => CallFailure::NoTenant(detail.to_owned()),
            _ if detail.ends_with("tenant not found in database.") => CallFailure::NoTenant(detail.to_owned()),
            "Invalid JSON body." => CallFailure::Refused(reason()),
            _ => CallFailure::Unavailable(reason()),
        },
        _ => CallFailure::Unavailable(reason()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_is_whole() {
        let envelope = Envelope {
            id: "6e9b",
            source: "a_example_1",
            account: "a.example",
            time: 0,
            detail: r#"{"event_id":"6e9b","event_data":["{\"id\":1}"]}"#,
        };
        let expected = json!({
            "version": "0", "id": "6e9b", "detail-type": "history_event", "source": "a_example_1",
            "account": "a.example", "time": "1970-01-01T00:00:00.000000Z", "region": "", "resources": [],
            "detail": {"event_id": "6e9b", "event_data": ["{\"id\":1}"]},
        });
        assert_eq!(serde_json::from_str::<Json>(&envelope.to_json()).unwrap(), expected);
    }

    #[test]
    fn failures_are_classified_by_status_and_detail() {
        let classify = |status: u16, body: &str| {
            let json = serde_json::from_str(body).unwrap_or_default();
            failure(StatusCode::from_u16(status).unwrap(), &json, body.as_bytes())
        };
        assert!(matches!(
            classify(500, r#"{"detail": "Failed to persist system events."}"#),
            CallFailure::Unavailable(_)
        ));
        assert!(matches!(classify(401, r#"{"detail": "Unauthorized API Key."}"#), CallFailure::Unavailable(_)));
        assert!(matches!(classify(404, "not here"), CallFailure::Unavailable(_)));
        assert!(matches!(classify(302, ""), CallFailure::Unavailable(_)));
        assert!(matches!(classify(421, r#"{"detail": "This is another history service."}"#), CallFailure::Foreign(_)));
        assert!(matches!(classify(400, r#"{"detail": "x tenant not found in database."}"#), CallFailure::NoTenant(_)));
        assert!(matches!(classify(422, r#"{"detail": []}"#), CallFailure::Refused(_)));
        assert_eq!(classify(400, r#"{"detail": "Client already exist."}"#), CallFailure::Exists);
        assert_eq!(classify(413, ""), CallFailure::TooLarge);
    }
}
