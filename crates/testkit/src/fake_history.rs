//! A fake history service with the calls that the main API uses (`docs/reference/history.md`). A test can make
//! it fail. It records the events that it receives.

use crate::eventually::eventually;
use crate::history::HISTORY_KEY;
use bytes::Bytes;
use events::history_client::HistoryAddress;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use serde_json::{Value as Json, json};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use web::listener::{self, Limits};

/// The path to which files are put.
const UPLOAD_PATH: &str = "/upload";

/// The behaviour of the fake service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Behaviour {
    /// It serves every call.
    Serves,
    /// It answers 503 and does not serve the call.
    Refuses,
    /// It never answers and does not serve the call.
    Hangs,
    /// It serves the call but answers 502.
    LosesAnswers,
}

/// A tenant of the fake service.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryTenant {
    /// The `X-Client-Id` of the tenant.
    pub client_id: String,
    /// The `database_name` of the tenant.
    pub database_name: String,
    /// The `client_label` of the tenant.
    pub label: String,
}

/// A running fake service. Dropping it closes its listener.
pub struct FakeHistory {
    /// The address of its listener.
    pub address: SocketAddr,
    listening: JoinHandle<()>,
    state: Arc<Mutex<FakeHistoryState>>,
}

struct FakeHistoryState {
    /// The id of the service; `None` for a former version without an id.
    id: Option<&'static str>,
    behaviour: Behaviour,
    calls: usize,
    tenants: Vec<HistoryTenant>,
    deleted: Vec<String>,
    ids: HashSet<String>,
    repeated: usize,
    system_events: Vec<Json>,
    envelopes: Vec<Json>,
    /// A text that makes every event that contains it invalid.
    poison: Option<String>,
    /// The longest accepted body, in bytes.
    max_body: usize,
    /// The status of the answer to a file that is put.
    upload_status: u16,
    /// The number of files that were put.
    uploads: usize,
}

impl FakeHistory {
    /// Starts a fake service on a free port.
    pub async fn start() -> FakeHistory {
        FakeHistory::start_on_port(0).await
    }

    /// Starts a fake service on a port, which a server may have called before.
    pub async fn start_on_port(port: u16) -> FakeHistory {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the port is free");
        let address = listener.local_addr().expect("a bound listener has an address");
        let state = FakeHistoryState {
            id: Some("7c9e6679-7425-40de-944b-e07fc1f90ae7"),
            behaviour: Behaviour::Serves,
            calls: 0,
            tenants: Vec::new(),
            deleted: Vec::new(),
            ids: HashSet::new(),
            repeated: 0,
            system_events: Vec::new(),
            envelopes: Vec::new(),
            poison: None,
            max_body: 16 * 1024 * 1024,
            upload_status: 200,
            uploads: 0,
        };
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        let handler = move |request, _| answer(shared.clone(), request);
        let listening =
            tokio::spawn(listener::serve(listener, handler, Limits::default(), std::future::pending::<()>()));
        FakeHistory { address, listening, state }
    }

    /// Returns the setting by which a server calls this service.
    pub fn service(&self) -> Option<HistoryAddress> {
        FakeHistory::service_at(self.address.port())
    }

    /// Returns the setting by which a server calls a service on a port.
    pub fn service_at(port: u16) -> Option<HistoryAddress> {
        Some(HistoryAddress { url: format!("http://127.0.0.1:{port}"), api_key: HISTORY_KEY.to_owned() })
    }

    /// Changes the behaviour of the service.
    pub fn set_behaviour(&self, behaviour: Behaviour) {
        self.state().behaviour = behaviour;
    }

    /// Replaces the id of the service, or removes it, as in a former version.
    pub fn set_id(&self, id: Option<&'static str>) {
        self.state().id = id;
    }

    /// Makes the service reject every event that contains a text.
    pub fn poison(&self, text: &str) {
        self.state().poison = Some(text.to_owned());
    }

    /// Sets the longest accepted body, in bytes.
    pub fn max_body(&self, bytes: usize) {
        self.state().max_body = bytes;
    }

    /// Sets the status of the answer to a file that is put.
    pub fn answers_uploads_with(&self, status: u16) {
        self.state().upload_status = status;
    }

    /// The number of files that were put.
    pub fn uploads(&self) -> usize {
        self.state().uploads
    }

    /// The tenants, in order of creation.
    pub fn tenants(&self) -> Vec<HistoryTenant> {
        self.state().tenants.clone()
    }

    /// Removes a tenant, as an operator may do by mistake.
    pub fn remove_tenant(&self, client_id: &str) {
        self.state().tenants.retain(|tenant| tenant.client_id != client_id);
    }

    /// The client ids of the tenants that were deleted by a call.
    pub fn deleted(&self) -> Vec<String> {
        self.state().deleted.clone()
    }

    /// The system events without duplicates, in order of arrival.
    pub fn system_events(&self) -> Vec<Json> {
        self.state().system_events.clone()
    }

    /// The envelopes of the history events without duplicates, in order of arrival.
    pub fn envelopes(&self) -> Vec<Json> {
        self.state().envelopes.clone()
    }

    /// The number of duplicate events.
    pub fn repeated(&self) -> usize {
        self.state().repeated
    }

    /// The number of calls so far.
    pub fn calls(&self) -> usize {
        self.state().calls
    }

    /// Waits until `count` system events have arrived, and returns all of them.
    #[track_caller]
    pub fn wait_for_events(&self, count: usize) -> impl Future<Output = Vec<Json>> + '_ {
        eventually(async move || {
            let events = self.system_events();
            if events.len() >= count { Ok(events) } else { Err(events) }
        })
    }

    /// Waits until the service has received `count` calls.
    #[track_caller]
    pub fn wait_for_calls(&self, count: usize) -> impl Future<Output = ()> + '_ {
        eventually(async move || match self.calls() {
            calls if calls < count => Err(calls),
            _ => Ok(()),
        })
    }

    fn state(&self) -> MutexGuard<'_, FakeHistoryState> {
        lock(&self.state)
    }
}

impl Drop for FakeHistory {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

fn lock(state: &Mutex<FakeHistoryState>) -> MutexGuard<'_, FakeHistoryState> {
    web::lock(state)
}

async fn answer(state: Arc<Mutex<FakeHistoryState>>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let behaviour = {
        let mut state = lock(&state);
        state.calls += 1;
        state.behaviour
    };
    let (status, body) = match behaviour {
        Behaviour::Serves => lock(&state).serve(&parts, &body),
        Behaviour::Refuses => (503, detail("ClickHouse temporarily unavailable")),
        Behaviour::Hangs => std::future::pending().await,
        Behaviour::LosesAnswers if parts.uri.path() == "/api/service" => lock(&state).serve(&parts, &body),
        Behaviour::LosesAnswers => {
            lock(&state).serve(&parts, &body);
            (502, detail("Bad gateway"))
        }
    };
    let body = if status == 204 { String::new() } else { body.to_string() };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    response
}

fn detail(text: impl Into<String>) -> Json {
    json!({"detail": text.into()})
}

impl FakeHistoryState {
    fn serve(&mut self, parts: &http::request::Parts, body: &Bytes) -> (u16, Json) {
        let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
        if parts.method == Method::PUT && parts.uri.path() == UPLOAD_PATH {
            assert_eq!(header("x-api-key"), "", "the key is not for those who take files");
            self.uploads += 1;
            return (self.upload_status, detail("<secret>\n"));
        }
        if header("x-api-key") != HISTORY_KEY {
            return (401, detail("Unauthorized API Key."));
        }
        let service = header("x-history-service");
        if !service.is_empty() && self.id.is_some_and(|id| id != service) {
            return (421, detail("This is another history service."));
        }
        if body.len() > self.max_body {
            return (413, detail("Request body is too large."));
        }
        let client_id = header("x-client-id");
        let json = serde_json::from_slice(body);
        match (&parts.method, parts.uri.path()) {
            (&Method::GET, "/api/service") => {
                return self.id.map_or((404, detail("Not found.")), |id| (200, json!({"id": id})));
            }
            (&Method::DELETE, "/api/delete-tenant") => return self.delete(client_id),
            (&Method::GET, "/api/files/upload-url")
                if self.tenants.iter().any(|tenant| tenant.client_id == client_id) =>
            {
                let upload_url = format!("http://{}{UPLOAD_PATH}?signature=secret", header("host"));
                return (200, json!({"upload_url": upload_url, "file_id": "0b5f1d5e-8a67-4f5c-9c1f-6d5f3f0f2a11"}));
            }
            (_, path) if json.is_err() => return (400, detail(format!("Invalid JSON body. {path}"))),
            _ => {}
        }
        let json: Json = json.unwrap_or_default();
        let is_known = self.tenants.iter().any(|tenant| tenant.client_id == client_id);
        match parts.uri.path() {
            "/api/initialize-tenant" => self.initialize(&json),
            _ if !is_known => (400, detail(format!("{client_id} tenant not found in database."))),
            "/api/system-events/batch" => self.batch(&json),
            "/api/event-bridge/create-event" => self.create_event(json),
            _ => (404, detail("Not found.")),
        }
    }

    fn initialize(&mut self, body: &Json) -> (u16, Json) {
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let (database_name, label) = (text("database_name"), text("client_label"));
        if self.tenants.iter().any(|tenant| tenant.database_name == database_name || tenant.label == label) {
            return (400, detail("Client already exist."));
        }
        let client_id = events::outbox::Uuid::new_v4().to_string();
        let answer = json!({"client_id": client_id, "client_secret": "secret", "database_name": database_name});
        self.tenants.push(HistoryTenant { client_id, database_name, label });
        (201, answer)
    }

    fn delete(&mut self, client_id: &str) -> (u16, Json) {
        let before = self.tenants.len();
        self.tenants.retain(|tenant| tenant.client_id != client_id);
        if self.tenants.len() == before {
            return (400, detail("Failed to connect to tenant db."));
        }
        self.deleted.push(client_id.to_owned());
        (204, Json::Null)
    }

    fn is_invalid(&self, event: &Json) -> bool {
        self.poison.as_ref().is_some_and(|poison| event.to_string().contains(poison))
    }

    /// Records the id of an event and returns whether it is new.
    fn record_id(&mut self, id: &Json) -> bool {
        let is_new = self.ids.insert(id.as_str().unwrap_or_default().to_owned());
        self.repeated += usize::from(!is_new);
        is_new
    }

    fn batch(&mut self, body: &Json) -> (u16, Json) {
        let events = body["events"].as_array().cloned().unwrap_or_default();
        if let Some(at) = events.iter().position(|event| self.is_invalid(event)) {
            let message = json!({"loc": ["body", "events", at, "id"], "msg": "value is not a valid uuid"});
            return (422, json!({"detail": [message]}));
        }
        let before = self.system_events.len();
        for event in events {
            if self.record_id(&event["id"]) {
                self.system_events.push(event);
            }
        }
        (201, json!({"inserted": self.system_events.len() - before}))
    }

    fn create_event(&mut self, envelope: Json) -> (u16, Json) {
        if self.is_invalid(&envelope) {
            return (422, json!({"detail": [{"loc": ["body", "detail"], "msg": "value is not valid"}]}));
        }
        if self.record_id(&envelope["detail"]["event_id"]) {
            self.envelopes.push(envelope);
        }
        (201, detail("Event created."))
    }
}
