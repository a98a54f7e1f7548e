//! The history service as the main API sees it: five calls by HTTP (document 3, "History service").

use http::header::HeaderValue;
use http::{Method, StatusCode};
use kit::outbound;
use reqwest::{Client, RequestBuilder};
use serde_json::{Value as Json, json};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a connection may take.
const CONNECTING: Duration = Duration::from_secs(3);
/// How long an answer may take: the service itself tries a write five times.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// The longest answer that is read.
const MAX_BYTES: usize = 64 * 1024;
/// How much of an answer stands in the log.
const SHOWN: usize = 500;
/// How long a service counts as the database's own before that is looked at again.
const VERIFIED: Duration = Duration::from_secs(10);

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
    /// It is not the database's own service.
    Foreign(String),
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
            Failure::Away(why) | Failure::Foreign(why) | Failure::NoTenant(why) | Failure::Refused(why) => {
                f.write_str(why)
            }
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
    identity: Mutex<Identity>,
    /// Whether the database is to note the address.
    pub(crate) is_of_server: bool,
}

/// What a client knows of which service it calls (see [`crate::own_history`]).
#[derive(Default)]
enum Identity {
    #[default]
    Unknown,
    /// The database's own, when that was found, and the id that calls carry; a former version has none.
    Own(Instant, Option<HeaderValue>),
    /// Another one.
    Foreign,
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
        Ok(HistoryClient { http, url: service.url.clone(), api_key, identity: Mutex::default(), is_of_server: true })
    }

    /// A client of a command, whose address may be right for this command alone, and is not noted.
    ///
    /// # Errors
    /// As [`HistoryClient::new`].
    pub fn of_command(service: &HistoryAddress) -> Result<HistoryClient, String> {
        Ok(HistoryClient { is_of_server: false, ..HistoryClient::new(service)? })
    }

    /// Where the service is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The id of the service; `None` if it is of a version that has none.
    pub async fn service_id(&self, patience: Duration) -> Result<Option<String>, Failure> {
        let request = self.http.request(Method::GET, format!("{}/api/service", self.url));
        let request = request.header("x-api-key", self.api_key.clone()).timeout(patience);
        let (status, json, body) = receive(request).await?;
        match (status, json["id"].as_str()) {
            (StatusCode::OK, Some(id)) if HeaderValue::from_str(id).is_ok() => Ok(Some(id.to_owned())),
            (StatusCode::NOT_FOUND, _) if json["detail"] == "Not found." => Ok(None),
            _ => Err(failure(status, &json, &body)),
        }
    }

    /// Whether it was found a moment ago that the service is the database's own.
    pub(crate) fn is_verified(&self) -> bool {
        matches!(&*self.identity(), Identity::Own(since, _) if since.elapsed() < VERIFIED)
    }

    /// Stores whether the service is the database's own, and its id; `None`: not known.
    pub(crate) fn set_verified(&self, is_own: Option<bool>, id: Option<&str>) {
        *self.identity() = match is_own {
            Some(true) => Identity::Own(Instant::now(), id.and_then(|id| HeaderValue::from_str(id).ok())),
            Some(false) => Identity::Foreign,
            None => Identity::Unknown,
        };
    }

    /// Whether the service was another one when it was last looked at.
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(&*self.identity(), Identity::Foreign)
    }

    fn identity(&self) -> MutexGuard<'_, Identity> {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a tenant.
    pub async fn initialize(&self, database_name: &str, label: &str, patience: Duration) -> Result<Made, Failure> {
        let body = json!({"database_name": database_name, "client_label": label});
        let request = self.call(Method::POST, "/api/initialize-tenant").timeout(patience);
        let answer = self.send(with_json(request, body.to_string()), StatusCode::CREATED).await?;
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
        self.send(with_json(request, body), StatusCode::CREATED).await.map(drop)
    }

    /// Delivers one history event in its envelope.
    pub async fn create_event(&self, client_id: &str, envelope: &Envelope<'_>) -> Result<(), Failure> {
        let request = self.call(Method::POST, "/api/event-bridge/create-event").header("x-client-id", client_id);
        self.send(with_json(request, envelope.to_json()), StatusCode::CREATED).await.map(drop)
    }

    /// Deletes a tenant with its history; `false` if the service does not know it, or no longer.
    pub async fn delete_tenant(&self, client_id: &str) -> Result<bool, Failure> {
        let request = self.call(Method::DELETE, "/api/delete-tenant").header("x-client-id", client_id);
        match self.send(request, StatusCode::NO_CONTENT).await {
            Ok(_) => Ok(true),
            Err(Failure::NoTenant(_)) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// A request that any service but the one that was verified refuses.
    fn call(&self, method: Method, path: &str) -> RequestBuilder {
        let request =
            self.http.request(method, format!("{}{path}", self.url)).header("x-api-key", self.api_key.clone());
        match &*self.identity() {
            Identity::Own(_, Some(id)) => request.header("x-history-service", id.clone()),
            _ => request,
        }
    }

    async fn send(&self, request: RequestBuilder, expected: StatusCode) -> Result<Json, Failure> {
        let answered = receive(request).await;
        let outcome = answered.and_then(
            |(status, json, body)| {
                if status == expected { Ok(json) } else { Err(failure(status, &json, &body)) }
            },
        );
        if let Err(Failure::Away(_) | Failure::Foreign(_) | Failure::NoTenant(_)) = outcome {
            // Another one may answer there next.
            *self.identity() = Identity::Unknown;
        }
        outcome
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

/// The status of an answer, its JSON (null if it has none) and its body.
async fn receive(request: RequestBuilder) -> Result<(StatusCode, Json, Vec<u8>), Failure> {
    let response = request.send().await.map_err(|error| Failure::Away(outbound::in_words(error)))?;
    let status = response.status();
    let body = outbound::body(response, MAX_BYTES).await.unwrap_or_default();
    Ok((status, serde_json::from_slice(&body).unwrap_or_default(), body))
}

fn failure(status: StatusCode, json: &Json, body: &[u8]) -> Failure {
    let detail = json["detail"].as_str().unwrap_or("");
    let words = || format!("{status}: {}", String::from_utf8_lossy(body).chars().take(SHOWN).collect::<String>());
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => Failure::TooLarge,
        StatusCode::UNPROCESSABLE_ENTITY => Failure::Refused(words()),
        StatusCode::MISDIRECTED_REQUEST => Failure::Foreign(words()),
        StatusCode::UNAUTHORIZED => Failure::Away(format!("{} (CHANCERY_HISTORY_API_KEY)", words())),
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
        assert!(matches!(of(421, r#"{"detail": "This is another history service."}"#), Failure::Foreign(_)));
        assert!(matches!(of(400, r#"{"detail": "x tenant not found in database."}"#), Failure::NoTenant(_)));
        assert!(matches!(of(422, r#"{"detail": []}"#), Failure::Refused(_)));
        assert_eq!(of(400, r#"{"detail": "Client already exist."}"#), Failure::Exists);
        assert_eq!(of(413, ""), Failure::TooLarge);
    }
}
