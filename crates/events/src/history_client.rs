//! The history service as the main API sees it: four calls by HTTP (document 3, "History service").

use http::header::HeaderValue;
use http::{Method, StatusCode};
use kit::outbound;
use reqwest::{Client, RequestBuilder};
use serde_json::{Value as Json, json};
use std::time::Duration;

/// How long a connection may take.
const CONNECTING: Duration = Duration::from_secs(3);
/// How long an answer may take: the service itself tries a write five times.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// The longest answer that is read.
const MAX_BYTES: usize = 64 * 1024;
/// How much of an answer stands in the log.
const SHOWN: usize = 500;

/// Where the history service is (`CHANCERY_HISTORY_URL`, `CHANCERY_HISTORY_API_KEY`).
#[derive(Clone)]
pub struct HistoryAddress {
    /// Without a slash at its end.
    pub url: String,
    /// The `X-API-Key`.
    pub api_key: String,
}

/// A tenant as the service made it.
#[derive(Clone)]
#[allow(missing_docs, reason = "named as in document 3")]
pub struct Made {
    pub client_id: String,
    pub client_secret: String,
}

/// Why a call did not do what it was to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// Nobody answers, or not now: the same call may succeed later.
    Away(String),
    /// There is no such tenant.
    NoTenant(String),
    /// There is such a tenant already.
    Exists,
    /// What was sent is wrong, and will be.
    Refused(String),
    /// What was sent is too much.
    TooLarge,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Away(why) | Failure::NoTenant(why) | Failure::Refused(why) => f.write_str(why),
            Failure::Exists => f.write_str("Client already exist."),
            Failure::TooLarge => f.write_str("the body is too large"),
        }
    }
}

/// A client of the service.
pub struct HistoryClient {
    http: Client,
    url: String,
    api_key: HeaderValue,
}

impl HistoryClient {
    /// A client with connections of its own.
    ///
    /// # Errors
    /// One line that names the setting.
    pub fn new(service: &HistoryAddress) -> Result<HistoryClient, String> {
        let mut api_key = HeaderValue::from_str(&service.api_key)
            .map_err(|_| "CHANCERY_HISTORY_API_KEY: it has characters that no header may have".to_owned())?;
        api_key.set_sensitive(true);
        let http = outbound::http_client().connect_timeout(CONNECTING).timeout(PATIENCE).user_agent("chancery").build();
        let http = http.map_err(|error| format!("CHANCERY_HISTORY_URL: {error}"))?;
        Ok(HistoryClient { http, url: service.url.clone(), api_key })
    }

    /// Makes a tenant.
    pub async fn initialize(&self, database_name: &str, label: &str, patience: Duration) -> Result<Made, Failure> {
        let body = json!({"database_name": database_name, "client_label": label});
        let request = self.call(Method::POST, "/api/initialize-tenant").timeout(patience);
        let answer = send(with_json(request, body.to_string()), StatusCode::CREATED).await?;
        let text = |name: &str| answer[name].as_str().map(str::to_owned);
        match (text("client_id"), text("client_secret")) {
            (Some(client_id), Some(client_secret)) => Ok(Made { client_id, client_secret }),
            _ => Err(Failure::Away("the answer to initialize-tenant has no client".to_owned())),
        }
    }

    /// Delivers system events, each as JSON.
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

    /// Deletes a tenant with its history. One that is gone already is deleted.
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
    /// The event's own id.
    pub id: &'a str,
    /// The `database_name` of the tenant.
    pub source: &'a str,
    /// The build's domain.
    pub account: &'a str,
    /// When the event was written down, microseconds since 1970.
    pub time: i64,
    /// The event, JSON.
    pub detail: &'a str,
}

impl Envelope<'_> {
    fn to_json(&self) -> String {
        let envelope = json!({
            "version": "0", "id": self.id, "detail-type": "history_event", "source": self.source,
            "account": self.account, "time": resource::time::show(self.time), "region": "", "resources": [],
        });
        // The detail is JSON already.
        let mut text = envelope.to_string();
        text.pop();
        text + ",\"detail\":" + self.detail + "}"
    }
}

fn with_json(request: RequestBuilder, body: String) -> RequestBuilder {
    request.header(http::header::CONTENT_TYPE, "application/json").body(body)
}

async fn send(request: RequestBuilder, expected: StatusCode) -> Result<Json, Failure> {
    let response = request.send().await.map_err(|error| Failure::Away(outbound::in_words(error)))?;
    let status = response.status();
    let body = outbound::body(response, MAX_BYTES).await.unwrap_or_default();
    let json: Json = serde_json::from_slice(&body).unwrap_or_default();
    if status == expected { Ok(json) } else { Err(failure(status, &json, &body)) }
}

fn failure(status: StatusCode, json: &Json, body: &[u8]) -> Failure {
    let detail = json["detail"].as_str().unwrap_or("");
    let words = || format!("{status}: {}", String::from_utf8_lossy(body).chars().take(SHOWN).collect::<String>());
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => Failure::TooLarge,
        StatusCode::UNPROCESSABLE_ENTITY => Failure::Refused(words()),
        StatusCode::BAD_REQUEST => match detail {
            "Client already exist." => Failure::Exists,
            "Failed to connect to tenant db." => Failure::NoTenant(detail.to_owned()),
            _ if detail.ends_with("tenant not found in database.") => Failure::NoTenant(detail.to_owned()),
            "Invalid JSON body." => Failure::Refused(words()),
            _ => Failure::Away(words()),
        },
        _ => Failure::Away(words()),
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
        assert!(matches!(of(500, r#"{"detail": "Failed to persist system events."}"#), Failure::Away(_)));
        assert!(matches!(of(401, r#"{"detail": "Unauthorized API Key."}"#), Failure::Away(_)));
        assert!(matches!(of(404, "not here"), Failure::Away(_)));
        assert!(matches!(of(302, ""), Failure::Away(_)));
        assert!(matches!(of(400, r#"{"detail": "x tenant not found in database."}"#), Failure::NoTenant(_)));
        assert!(matches!(of(422, r#"{"detail": []}"#), Failure::Refused(_)));
        assert_eq!(of(400, r#"{"detail": "Client already exist."}"#), Failure::Exists);
        assert_eq!(of(413, ""), Failure::TooLarge);
    }
}
