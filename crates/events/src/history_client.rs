//! The HTTP client of the history service, with the four calls that the main API needs (document 3, "History service").

use http::header::HeaderValue;
use http::{Method, StatusCode};
use kit::outbound;
use reqwest::{Client, RequestBuilder};
use serde_json::{Value as Json, json};
use std::time::Duration;

/// The longest time that making a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest time that a call may take. It is long, since the service retries a write five times.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// The most characters of an answer that are logged.
const MAX_LOGGED_CHARS: usize = 500;

/// The address and the key of the history service (`CHANCERY_HISTORY_URL`, `CHANCERY_HISTORY_API_KEY`).
#[derive(Clone)]
pub struct HistoryAddress {
    /// The base URL, without a slash at its end.
    pub url: String,
    /// The `X-API-Key` of the history service.
    pub api_key: String,
}

/// The credentials of a new tenant, named as in document 3.
#[derive(Clone)]
pub struct CreatedTenant {
    pub client_id: String,
    pub client_secret: String,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The service is unavailable; the same call may succeed later.
    Unavailable(String),
    /// The tenant does not exist.
    NoTenant(String),
    /// The tenant exists already.
    Exists,
    /// The service rejected the request as invalid; a retry cannot succeed.
    Refused(String),
    /// The body of the request was too large.
    TooLarge,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Unavailable(why) | Failure::NoTenant(why) | Failure::Refused(why) => f.write_str(why),
            Failure::Exists => f.write_str("Client already exist."),
            Failure::TooLarge => f.write_str("the body is too large"),
        }
    }
}

/// An HTTP client of the history service.
pub struct HistoryClient {
    http: Client,
    url: String,
    api_key: HeaderValue,
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
            .user_agent("chancery")
            .build();
        let http = http.map_err(|error| format!("CHANCERY_HISTORY_URL: {error}"))?;
        Ok(HistoryClient { http, url: service.url.clone(), api_key })
    }

    /// Creates a tenant.
    pub async fn initialize(
        &self,
        database_name: &str,
        label: &str,
        timeout: Duration,
    ) -> Result<CreatedTenant, Failure> {
        let body = json!({"database_name": database_name, "client_label": label});
        let request = self.call(Method::POST, "/api/initialize-tenant").timeout(timeout);
        let answer = send(with_json(request, body.to_string()), StatusCode::CREATED).await?;
        let text = |name: &str| answer[name].as_str().map(str::to_owned);
        match (text("client_id"), text("client_secret")) {
            (Some(client_id), Some(client_secret)) => Ok(CreatedTenant { client_id, client_secret }),
            _ => Err(Failure::Unavailable("the answer to initialize-tenant has no client".to_owned())),
        }
    }

    /// Delivers system events, each given as JSON text.
    pub async fn batch(&self, client_id: &str, events: &[&str]) -> Result<(), Failure> {
        let body = format!("{{\"events\":[{}]}}", events.join(","));
        let request = self.call(Method::POST, "/api/system-events/batch").header("x-client-id", client_id);
        send(with_json(request, body), StatusCode::CREATED).await.map(drop)
    }

    /// Delivers one history event in its envelope.
    pub async fn create_event(&self, client_id: &str, envelope: &Envelope<'_>) -> Result<(), Failure> {
        let request = self.call(Method::POST, "/api/event-bridge/create-event").header("x-client-id", client_id);
        send(with_json(request, envelope.to_json()), StatusCode::CREATED).await.map(drop)
    }

    /// Deletes a tenant with its history. Succeeds also when the tenant does not exist.
    pub async fn delete_tenant(&self, client_id: &str) -> Result<(), Failure> {
        let request = self.call(Method::DELETE, "/api/delete-tenant").header("x-client-id", client_id);
        match send(request, StatusCode::NO_CONTENT).await {
            Ok(_) | Err(Failure::NoTenant(_)) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    fn call(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).header("x-api-key", self.api_key.clone())
    }
}

/// The envelope of a history event (document 3, `create-event`).
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
        // The detail is JSON text already, so it is appended as it is.
        let mut text = envelope.to_string();
        text.pop();
        text + ",\"detail\":" + self.detail + "}"
    }
}

fn with_json(request: RequestBuilder, body: String) -> RequestBuilder {
    request.header(http::header::CONTENT_TYPE, "application/json").body(body)
}

async fn send(request: RequestBuilder, expected: StatusCode) -> Result<Json, Failure> {
    let response = request.send().await.map_err(|error| Failure::Unavailable(outbound::in_words(error)))?;
    let status = response.status();
    let body = outbound::body(response, MAX_ANSWER_BYTES).await.unwrap_or_default();
    let json: Json = serde_json::from_slice(&body).unwrap_or_default();
    if status == expected { Ok(json) } else { Err(failure(status, &json, &body)) }
}

fn failure(status: StatusCode, json: &Json, body: &[u8]) -> Failure {
    let detail = json["detail"].as_str().unwrap_or("");
    let reason =
        || format!("{status}: {}", String::from_utf8_lossy(body).chars().take(MAX_LOGGED_CHARS).collect::<String>());
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => Failure::TooLarge,
        StatusCode::UNPROCESSABLE_ENTITY => Failure::Refused(reason()),
        StatusCode::BAD_REQUEST => match detail {
            "Client already exist." => Failure::Exists,
            "Failed to connect to tenant db." => Failure::NoTenant(detail.to_owned()),
            _ if detail.ends_with("tenant not found in database.") => Failure::NoTenant(detail.to_owned()),
            "Invalid JSON body." => Failure::Refused(reason()),
            _ => Failure::Unavailable(reason()),
        },
        _ => Failure::Unavailable(reason()),
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
    fn what_can_be_tried_again_is_told_from_what_cannot() {
        let of = |status: u16, body: &str| {
            let json = serde_json::from_str(body).unwrap_or_default();
            failure(StatusCode::from_u16(status).unwrap(), &json, body.as_bytes())
        };
        assert!(matches!(of(500, r#"{"detail": "Failed to persist system events."}"#), Failure::Unavailable(_)));
        assert!(matches!(of(401, r#"{"detail": "Unauthorized API Key."}"#), Failure::Unavailable(_)));
        assert!(matches!(of(404, "not here"), Failure::Unavailable(_)));
        assert!(matches!(of(302, ""), Failure::Unavailable(_)));
        assert!(matches!(of(400, r#"{"detail": "x tenant not found in database."}"#), Failure::NoTenant(_)));
        assert!(matches!(of(422, r#"{"detail": []}"#), Failure::Refused(_)));
        assert_eq!(of(400, r#"{"detail": "Client already exist."}"#), Failure::Exists);
        assert_eq!(of(413, ""), Failure::TooLarge);
    }
}
