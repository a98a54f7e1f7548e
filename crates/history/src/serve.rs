//! The path of a request: route → method → key → service id → client id → handler → answer.

use crate::engine::EngineError;
use crate::files::CONTENT_PATH;
use crate::reply::{HistoryOutcome, HistoryRefusal, HistoryReply, PathStep, Problem, Problems};
use crate::routes::{self, API_KEY, CLIENT_ID, Endpoint, HistoryRoute, RequiredCredentials, SERVICE_ID};
use crate::service::HistoryService;
use crate::{batch, create_event, event_files, lists, openapi, tenants};
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use resource::Query;
use resource::openapi::Audience;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use store::blobs::health::BlobHealth;
use subtle::ConstantTimeEq;
use uuid::Uuid;
use web::compress::{AcceptedCodings, compress};
use web::content::BodyContent;
use web::request_id::{REQUEST_ID, request_id};
use web::viewer;

/// The maximum length of a path in the log, in characters.
const MAX_LOGGED_PATH: usize = 200;

impl HistoryService {
    /// Answers one request and logs it.
    pub async fn answer(
        self: Arc<HistoryService>,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> Response<BodyContent> {
        let started = Instant::now();
        let id = request_id(request.headers());
        let method = request.method().clone();
        let counts = routes::counts(request.uri().path());
        let path: String = request.uri().path().chars().take(MAX_LOGGED_PATH).collect();
        // The task is independent of the client: a write is completed although the client disconnects, so the log is
        // correct.
        let answered = tokio::spawn(dispatch(self, request)).await;
        let (mut response, cause) = answered.unwrap_or_else(|error| {
            let refusal = HistoryRefusal::internal_error("A server error occurred.", &error.to_string());
            (refusal.into_reply().into_response(), Some(error.to_string()))
        });
        response.headers_mut().insert(REQUEST_ID, id.clone());
        response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        let (status, duration) = (response.status().as_u16(), started.elapsed());
        counts.count(status, duration);
        let (milliseconds, address) = (duration.as_micros() as f64 / 1000.0, peer.ip().to_canonical());
        let (request_id, method) = (id.to_str().unwrap_or(""), method.as_str());
        match cause {
            Some(cause) => {
                tracing::error!(request_id, method, path, status, milliseconds, %address, cause, "history request")
            }
            None => tracing::info!(request_id, method, path, status, milliseconds, %address, "history request"),
        }
        response
    }
}

/// Returns the answer, and the cause of a failure for the log.
async fn dispatch(service: Arc<HistoryService>, request: Request<Incoming>) -> (Response<BodyContent>, Option<String>) {
    if request.uri().path().starts_with(CONTENT_PATH) {
        return (service.files.answer(request).await, None);
    }
    let (parts, body) = request.into_parts();
    let is_head = parts.method == Method::HEAD;
    let route_match = routes::find(parts.uri.path());
    let (reply, cause) = match respond(&service, route_match, &parts, body).await {
        Ok(reply) => (reply.unless_known(&parts.headers), None),
        Err(mut refusal) => {
            let cause = refusal.cause.take();
            (refusal.into_reply(), cause)
        }
    };
    let mut response = reply.into_response();
    if route_match.is_none_or(|(route, _)| route.endpoint.is_compressed()) {
        response = compress(response, AcceptedCodings::from_headers(&parts.headers));
    }
    if is_head {
        *response.body_mut() = Full::default().into();
    }
    (response, cause)
}

async fn respond(
    service: &HistoryService,
    route_match: Option<(&'static HistoryRoute, &str)>,
    parts: &http::request::Parts,
    body: Incoming,
) -> HistoryOutcome {
    let (route, value) = route_match.ok_or_else(HistoryRefusal::not_found)?;
    let method = if parts.method == Method::HEAD { &Method::GET } else { &parts.method };
    if route.method != *method {
        let allow = if route.method == Method::GET { "GET, HEAD" } else { route.method.as_str() };
        let detail = json!({"detail": format!("Method \"{}\" not allowed.", parts.method)});
        return Ok(HistoryReply::json(StatusCode::METHOD_NOT_ALLOWED, &detail).with_header(header::ALLOW, allow));
    }
    if route.access != RequiredCredentials::Public && !has_key(&parts.headers, &service.settings.api_key) {
        return Err(HistoryRefusal::new(StatusCode::UNAUTHORIZED, "Unauthorized API Key."));
    }
    if route.access != RequiredCredentials::Public && parts.headers.contains_key(SERVICE_ID) {
        check_service_id(service, &parts.headers).await?;
    }
    let client = match route.access {
        RequiredCredentials::Public | RequiredCredentials::Key => None,
        RequiredCredentials::KeyOrClient => client_id(&parts.headers)?,
        RequiredCredentials::Client => {
            Some(client_id(&parts.headers)?.ok_or_else(HistoryRefusal::unauthorized_client)?)
        }
    };
    let required_client = || client.ok_or_else(HistoryRefusal::unauthorized_client);
    let query = Query::parse(parts.uri.query().unwrap_or(""));
    match route.endpoint {
        Endpoint::Health => Ok(status(StatusCode::OK, "ok")),
        Endpoint::Readiness => Ok(readiness(service.engine.ready().await, service.files.health())),
        Endpoint::Description => describe(service, &query),
        Endpoint::Service => {
            let id = service.id().await.map_err(HistoryRefusal::unreadable)?;
            Ok(HistoryReply::json(StatusCode::OK, &json!({"id": id})))
        }
        Endpoint::Home => Ok(HistoryReply::redirect(viewer::PATH)),
        Endpoint::Page => Ok(viewer::page("Chancery history API", "/api/openapi.json?audience=clients").into()),
        Endpoint::PageFile => {
            viewer::file(value, &parts.headers).map(HistoryReply::from).ok_or_else(HistoryRefusal::not_found)
        }
        Endpoint::CreateEvent => create_event::create(service, client, &parts.headers, body).await,
        Endpoint::Initialize => tenants::initialize(service, &parts.headers, body).await,
        Endpoint::Batch => batch::create(service, required_client()?, &parts.headers, body).await,
        Endpoint::HistoryEvents => lists::history_events(service, required_client()?, &query).await,
        Endpoint::SystemEvents => lists::system_events(service, required_client()?, &query).await,
        Endpoint::Delete => tenants::delete(service, required_client()?).await,
        Endpoint::EventFile => event_files::redirect(service, required_client()?, Uuid::try_parse(value).ok()).await,
        Endpoint::UploadUrl => event_files::upload_address(service, required_client()?).await,
    }
}

fn describe(service: &HistoryService, query: &Query) -> HistoryOutcome {
    let Some(audience) = Audience::from_query(query) else {
        let mut problems = Problems::default();
        problems.add(&[PathStep::Name("query"), PathStep::Name(Audience::PARAMETER)], Problem::NotAMember);
        return Err(problems.into());
    };
    let make = || openapi::document(service.settings.batch_events, audience).to_string().into_bytes();
    Ok(HistoryReply::json_bytes(StatusCode::OK, service.descriptions[audience as usize].get_or_init(make).clone())
        .with_etag())
}

/// Returns whether the request has exactly one key, and the right one.
fn has_key(headers: &HeaderMap, api_key: &str) -> bool {
    let mut keys = headers.get_all(API_KEY).iter();
    match (keys.next(), keys.next()) {
        (Some(key), None) => key.as_bytes().ct_eq(api_key.as_bytes()).into(),
        _ => false,
    }
}

/// Refuses a request for another history service. So a caller that sends the id of its service cannot change another
/// one, even directly after that one took over the address.
async fn check_service_id(service: &HistoryService, headers: &HeaderMap) -> Result<(), HistoryRefusal> {
    let id = service.id().await.map_err(HistoryRefusal::unreadable)?;
    if headers.get_all(SERVICE_ID).iter().all(|header_value| header_value.as_bytes() == id.as_bytes()) {
        return Ok(());
    }
    Err(HistoryRefusal::new(StatusCode::MISDIRECTED_REQUEST, "This is another history service."))
}

/// Parses the header `X-Client-Id`, if it was sent: one UUID of version 4.
fn client_id(headers: &HeaderMap) -> Result<Option<Uuid>, HistoryRefusal> {
    let mut client_ids = headers.get_all(CLIENT_ID).iter();
    let Some(first) = client_ids.next() else { return Ok(None) };
    let id = first.to_str().ok().filter(|text| text.len() == 36).and_then(|text| Uuid::try_parse(text).ok());
    match id {
        Some(id) if id.get_version_num() == 4 && client_ids.next().is_none() => Ok(Some(id)),
        _ => Err(HistoryRefusal::unauthorized_client()),
    }
}

/// Answers whether the engine and the store of files respond. An outage of files after the first contact does not make
/// the service unready, since events without files can still be stored.
fn readiness(engine: Result<(), EngineError>, files: Option<BlobHealth>) -> HistoryReply {
    let is_ready = engine.is_ok() && files.is_none_or(|files| files.was_reached);
    let (code, word) = if is_ready { (StatusCode::OK, "ok") } else { (StatusCode::SERVICE_UNAVAILABLE, "unavailable") };
    let mut body = json!({"status": word});
    if let Some(files) = files {
        body["files"] = files.details();
        if let Some(warning) = files.warning() {
            body["warnings"] = json!([warning]);
        }
    }
    let reply = HistoryReply::json(code, &body);
    if is_ready { reply } else { reply.with_header(header::RETRY_AFTER, "1") }
}

fn status(code: StatusCode, word: &str) -> HistoryReply {
    HistoryReply::json(code, &json!({"status": word}))
}
