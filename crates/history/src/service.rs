//! The path of a request: route → method → key → client → handler → answer.

use crate::body::Room;
use crate::engine::{Engine, Tenant};
use crate::files::{CONTENT_PATH, Files};
use crate::lists::{self, unread};
use crate::reply::{Outcome, Refusal, Reply};
use crate::{batch, create_event, event_files, openapi, tenants};
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use resource::Query;
use serde::de::DeserializeSeed;
use serde_json::Value as Json;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;
use uuid::Uuid;
use web::content::Content;
use web::request_id::{REQUEST_ID, request_id};

/// How long a tenant that is known is not asked for again: another process may delete it.
const FRESH: Duration = Duration::from_millis(500);
/// Tenants that are remembered.
const REMEMBERED: usize = 10_000;
/// How much of a path is logged, in characters.
const LOGGED: usize = 200;
/// A body that is longer than this, in bytes, is no work for the thread that received it.
const LONG: usize = 64 * 1024;
/// Batches, and other long bodies, that are read at a time.
const READING: usize = 1;

pub(crate) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
pub(crate) const CLIENT_ID: HeaderName = HeaderName::from_static("x-client-id");

/// What an operator sets.
pub struct Settings {
    /// What callers send as `X-API-Key`.
    pub api_key: String,
    /// The most events of a batch: 10,000.
    pub batch_events: usize,
}

/// The service: all that its requests share.
pub struct Service {
    /// Where events are kept.
    pub engine: Engine,
    /// Where the files of events are kept.
    pub(crate) files: Files,
    pub(crate) settings: Settings,
    /// What describes it, made once: anybody may ask for it.
    description: OnceLock<Json>,
    /// Turns of batches that are read.
    pub(crate) reading: Semaphore,
    /// Memory for bodies.
    pub(crate) room: Room,
    known: Mutex<HashMap<Uuid, (Instant, Arc<Tenant>)>>,
    /// Tenants that are being deleted here.
    going: Mutex<HashSet<Uuid>>,
}

/// The deletion of a tenant, which is one at a time.
pub(crate) struct Going<'a> {
    service: &'a Service,
    client_id: Uuid,
}

impl Drop for Going<'_> {
    fn drop(&mut self) {
        self.service.going().remove(&self.client_id);
    }
}

/// The endpoints.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Endpoint {
    Health,
    Readiness,
    Description,
    CreateEvent,
    Batch,
    HistoryEvents,
    EventFile,
    SystemEvents,
    Initialize,
    Delete,
    UploadUrl,
}

/// What a caller must send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Access {
    /// Nothing.
    Public,
    /// The key.
    Key,
    /// The key, and a client id unless the body names the tenant.
    KeyOrClient,
    /// The key and a client id.
    Client,
}

/// An endpoint's method, its path without a slash at its end, and who may call it.
pub(crate) struct Route {
    pub endpoint: Endpoint,
    pub method: Method,
    pub path: &'static str,
    pub access: Access,
}

impl Route {
    const fn new(endpoint: Endpoint, method: Method, path: &'static str, access: Access) -> Route {
        Route { endpoint, method, path, access }
    }
}

/// Stands in a path for the id of an event.
pub(crate) const EVENT_ID: &str = "{event_id}";

/// All of them.
pub(crate) static ROUTES: [Route; 11] = [
    Route::new(Endpoint::Health, Method::GET, "/healthz", Access::Public),
    Route::new(Endpoint::Readiness, Method::GET, "/readyz", Access::Public),
    Route::new(Endpoint::Description, Method::GET, "/api/openapi.json", Access::Public),
    Route::new(Endpoint::CreateEvent, Method::POST, "/api/event-bridge/create-event", Access::KeyOrClient),
    Route::new(Endpoint::Batch, Method::POST, "/api/system-events/batch", Access::Client),
    Route::new(Endpoint::SystemEvents, Method::GET, "/api/system-events", Access::Client),
    Route::new(Endpoint::HistoryEvents, Method::GET, "/api/history/events", Access::Client),
    Route::new(Endpoint::EventFile, Method::GET, "/api/history/events/{event_id}/file", Access::Client),
    Route::new(Endpoint::Initialize, Method::POST, "/api/initialize-tenant", Access::Key),
    Route::new(Endpoint::Delete, Method::DELETE, "/api/delete-tenant", Access::Client),
    Route::new(Endpoint::UploadUrl, Method::GET, "/api/files/upload-url", Access::Client),
];

/// The route of a path, with or without a slash at its end, and the id in it.
fn find(path: &str) -> Option<(&'static Route, &str)> {
    let path = path.strip_suffix('/').unwrap_or(path);
    ROUTES.iter().find_map(|route| match route.path.split_once(EVENT_ID) {
        None => (route.path == path).then_some((route, "")),
        Some((before, after)) => {
            let id = path.strip_prefix(before)?.strip_suffix(after)?;
            (!id.contains('/')).then_some((route, id))
        }
    })
}

impl Service {
    /// A service on an engine.
    pub fn new(engine: Engine, files: Files, settings: Settings) -> Service {
        Service {
            engine,
            files,
            settings,
            description: OnceLock::new(),
            reading: Semaphore::new(READING),
            room: Room::default(),
            known: Mutex::default(),
            going: Mutex::default(),
        }
    }

    /// Answers one request, and writes its line into the log.
    pub async fn answer(self: Arc<Service>, request: Request<Incoming>, _peer: SocketAddr) -> Response<Content> {
        let started = Instant::now();
        let id = request_id(request.headers());
        let (method, path) = (request.method().clone(), request.uri().path().chars().take(LOGGED).collect::<String>());
        // What writes goes on when the client hangs up, so that its line in the log is true.
        let answered = tokio::spawn(self.dispatch(request)).await;
        let (mut response, cause) = answered.unwrap_or_else(|error| {
            let refusal = Refusal::failed("A server error occurred.", &error.to_string());
            (refusal.into_reply().into_response(), Some(error.to_string()))
        });
        response.headers_mut().insert(REQUEST_ID, id.clone());
        response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        let (status, milliseconds) = (response.status().as_u16(), started.elapsed().as_micros() as f64 / 1000.0);
        let (request_id, method) = (id.to_str().unwrap_or(""), method.as_str());
        match cause {
            Some(cause) => tracing::error!(request_id, method, path, status, milliseconds, cause, "history request"),
            None => tracing::info!(request_id, method, path, status, milliseconds, "history request"),
        }
        response
    }

    /// The answer, and what the log should tell of it.
    async fn dispatch(self: Arc<Service>, request: Request<Incoming>) -> (Response<Content>, Option<String>) {
        if request.uri().path().starts_with(CONTENT_PATH) {
            return (self.files.answer(request).await, None);
        }
        let is_head = request.method() == Method::HEAD;
        let (parts, body) = request.into_parts();
        let (reply, cause) = match self.respond(parts, body).await {
            Ok(reply) => (reply, None),
            Err(mut refusal) => {
                let cause = refusal.cause.take();
                (refusal.into_reply(), cause)
            }
        };
        let mut response = reply.into_response();
        if is_head {
            *response.body_mut() = Full::default().into();
        }
        (response, cause)
    }

    async fn respond(&self, parts: http::request::Parts, body: Incoming) -> Outcome {
        let (route, id) = find(parts.uri.path()).ok_or_else(Refusal::not_found)?;
        let method = if parts.method == Method::HEAD { &Method::GET } else { &parts.method };
        if route.method != *method {
            let allow = if route.method == Method::GET { "GET, HEAD" } else { route.method.as_str() };
            let detail = serde_json::json!({"detail": format!("Method \"{}\" not allowed.", parts.method)});
            return Ok(Reply::json(StatusCode::METHOD_NOT_ALLOWED, &detail).with(header::ALLOW, allow));
        }
        if route.access != Access::Public && !self.has_key(&parts.headers) {
            return Err(Refusal::new(StatusCode::UNAUTHORIZED, "Unauthorized API Key."));
        }
        let client = match route.access {
            Access::Public | Access::Key => None,
            Access::KeyOrClient => client_id(&parts.headers)?,
            Access::Client => Some(client_id(&parts.headers)?.ok_or_else(Refusal::unauthorized_client)?),
        };
        let named = || client.ok_or_else(Refusal::unauthorized_client);
        let query = Query::parse(parts.uri.query().unwrap_or(""));
        match route.endpoint {
            Endpoint::Health => Ok(Reply::json(StatusCode::OK, &serde_json::json!({"status": "ok"}))),
            Endpoint::Readiness => self.readiness().await,
            Endpoint::Description => {
                let document = self.description.get_or_init(|| openapi::document(self.settings.batch_events));
                Ok(Reply::json(StatusCode::OK, document))
            }
            Endpoint::CreateEvent => create_event::create(self, client, &parts.headers, body).await,
            Endpoint::Initialize => tenants::initialize(self, &parts.headers, body).await,
            Endpoint::Batch => batch::create(self, named()?, &parts.headers, body).await,
            Endpoint::HistoryEvents => lists::history_events(self, named()?, &query).await,
            Endpoint::SystemEvents => lists::system_events(self, named()?, &query).await,
            Endpoint::Delete => tenants::delete(self, named()?).await,
            Endpoint::EventFile => event_files::redirect(self, named()?, Uuid::try_parse(id).ok()).await,
            Endpoint::UploadUrl => event_files::upload_address(self, named()?).await,
        }
    }

    /// Reads a body; a long one where it keeps no other request waiting, and one at a time.
    pub(crate) async fn off_the_runtime_if_long<T: Send + 'static>(
        &self,
        body: Bytes,
        read: fn(&[u8]) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        if body.len() < LONG {
            return read(&body);
        }
        let _turn = self.reading.acquire().await;
        let read = tokio::task::spawn_blocking(move || read(&body)).await;
        read.map_err(|error| Refusal::failed("A server error occurred.", &error.to_string()))?
    }

    async fn readiness(&self) -> Outcome {
        let ready = self.engine.ready().await;
        let (status, word) = match &ready {
            Ok(()) => (StatusCode::OK, "ok"),
            Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        };
        Ok(Reply::json(status, &serde_json::json!({"status": word})))
    }

    /// Whether there is one key and it is the right one.
    fn has_key(&self, headers: &HeaderMap) -> bool {
        let mut sent = headers.get_all(API_KEY).iter();
        match (sent.next(), sent.next()) {
            (Some(key), None) => key.as_bytes().ct_eq(self.settings.api_key.as_bytes()).into(),
            _ => false,
        }
    }

    /// A tenant, from memory while it is fresh.
    pub(crate) async fn tenant(&self, client_id: Uuid) -> Result<Option<Arc<Tenant>>, Refusal> {
        let known = self.known().get(&client_id).cloned();
        if let Some((asked, tenant)) = known
            && asked.elapsed() < FRESH
        {
            return Ok(Some(tenant));
        }
        let found = self.engine.tenant(client_id).await.map_err(unread)?.map(Arc::new);
        let mut known = self.known();
        match &found {
            Some(tenant) => {
                if known.len() >= REMEMBERED {
                    known.clear();
                }
                known.insert(client_id, (Instant::now(), tenant.clone()));
            }
            None => drop(known.remove(&client_id)),
        }
        Ok(found)
    }

    /// The tenant with a database name.
    pub(crate) async fn tenant_named(&self, database_name: &str) -> Result<Option<Arc<Tenant>>, Refusal> {
        Ok(self.engine.tenant_named(database_name).await.map_err(unread)?.map(Arc::new))
    }

    /// Forgets a tenant that is going.
    pub(crate) fn forget(&self, client_id: Uuid) {
        self.known().remove(&client_id);
    }

    /// Begins the deletion of a tenant, unless another one is going on.
    pub(crate) fn begin_deletion(&self, client_id: Uuid) -> Option<Going<'_>> {
        let is_first = self.going().insert(client_id);
        is_first.then(|| Going { service: self, client_id })
    }

    fn going(&self) -> std::sync::MutexGuard<'_, HashSet<Uuid>> {
        self.going.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, (Instant, Arc<Tenant>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The header `X-Client-Id`, if it was sent: one UUID of version 4.
fn client_id(headers: &HeaderMap) -> Result<Option<Uuid>, Refusal> {
    let mut sent = headers.get_all(CLIENT_ID).iter();
    let Some(first) = sent.next() else { return Ok(None) };
    let id = first.to_str().ok().filter(|text| text.len() == 36).and_then(|text| Uuid::try_parse(text).ok());
    match id {
        Some(id) if id.get_version_num() == 4 && sent.next().is_none() => Ok(Some(id)),
        _ => Err(Refusal::unauthorized_client()),
    }
}

/// Reads a JSON body.
pub(crate) fn json<'a, S: DeserializeSeed<'a>>(body: &'a [u8], wanted: S) -> Result<S::Value, Refusal> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = wanted.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|_| Refusal::bad("Invalid JSON body."))
}
