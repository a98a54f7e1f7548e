//! The path of a request: host → build → route → caller → permission → handler → answer. The order of refusals is
//! fixed here: 401, 403, 404, 403, 400 (document 4, section 2, "order of checks").

use crate::address::client_address;
use crate::app::{App, Build};
use crate::attempts;
use crate::caller::{self, Caller};
use crate::http::{Answer, Effects, Outcome, Refusal, Request};
use crate::listener::{BodyError, read_body};
use crate::pages;
use crate::routes::{Access, Handler, Route, Schema, Table, allowed};
use crate::sign_in;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use resource::Query;
use serde_json::{Value as Json, json};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::Conn;
use web::request_id::{REQUEST_ID, request_id};

/// The largest body but of uploads (document 4, section 2).
const MAX_BODY: usize = 2 * 1024 * 1024;
/// A body that stands still this long is given up.
const BODY_PROGRESS: Duration = Duration::from_secs(10);

/// Answers one request of the main API, and writes its line into the log.
pub async fn answer(app: App, request: http::Request<Incoming>, peer: SocketAddr) -> Response<Full<Bytes>> {
    let started = Instant::now();
    let (parts, body) = request.into_parts();
    let id = request_id(&parts.headers);
    let (method, uri) = (parts.method.clone(), parts.uri.clone());
    let origin = configured_origin(&app, &parts.headers).cloned();
    let mut seen = Seen::default();
    let outcome = match preflight(&parts, origin.is_some()) {
        Some(answer) => Ok(answer),
        None => respond(&app, parts, body, peer.ip(), &mut seen).await,
    };
    let (mut response, cause) = render(outcome);
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id.clone());
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    allow_origin(&app, origin, headers);
    if method == Method::HEAD {
        *response.body_mut() = Full::default();
    }
    let status = response.status().as_u16();
    let milliseconds = started.elapsed().as_micros() as f64 / 1000.0;
    let (request_id, path) = (id.to_str().unwrap_or(""), uri.path());
    let (build, user) = (seen.build.as_deref().map_or("", |build| &build.domain), seen.user);
    match cause {
        Some(cause) if status >= 500 => {
            tracing::error!(request_id, method = method.as_str(), path, status, milliseconds, build, user, cause = %cause, "request");
        }
        _ => tracing::info!(request_id, method = method.as_str(), path, status, milliseconds, build, user, "request"),
    }
    response
}

/// What the log line tells beyond the address.
#[derive(Default)]
struct Seen {
    build: Option<Arc<Build>>,
    user: Option<i64>,
}

async fn respond(app: &App, parts: http::request::Parts, body: Incoming, peer: IpAddr, seen: &mut Seen) -> Outcome {
    let path = parts.uri.path();
    match path.strip_suffix('/').unwrap_or(path) {
        "/healthz" => return Ok(Answer::value(&json!({"status": "ok"}))),
        "/readyz" => return readiness(app).await,
        _ => {}
    }
    let trusted = app.config.trusted_proxies.contains(peer);
    let host = host(&parts, trusted);
    let build = app.build_of_host(without_port(&host)).await?.ok_or_else(Refusal::not_found)?;
    seen.build = Some(build.clone());
    let (routes, ids) = Table::get().find(path).ok_or_else(Refusal::not_found)?;
    let address = client_address(peer, all(&parts.headers, "x-forwarded-for"), &app.config.trusted_proxies);
    let now = app.clock.now();

    let method = if parts.method == Method::HEAD { &Method::GET } else { &parts.method };
    let route = routes.iter().copied().find(|route| route.method == *method);
    let is_open = match route {
        Some(route) => {
            route.access == Access::Public
                && !(route.path == crate::security::PATH && parts.headers.contains_key(header::AUTHORIZATION))
        }
        None => routes.iter().any(|route| route.access == Access::Public),
    };
    let caller = if is_open { None } else { Some(authenticate(app, &build, &parts.headers, address, now).await?) };
    seen.user = caller.as_ref().map(|caller| caller.user);
    let Some(route) = route else { return Err(Refusal::method(&parts.method, &allowed(routes))) };
    if let Some(caller) = &caller {
        authorise(route, caller, now)?;
    }
    if route.is_counted
        && let Err(refusal) = attempts::check(app, &build, address, now)
    {
        return sign_in::pages::refused(route, refusal);
    }
    let request = Request {
        app: app.clone(),
        build,
        caller,
        route,
        ids,
        path: path.to_owned(),
        query: Query::parse(parts.uri.query().unwrap_or("")),
        body: self::body(route, &parts.headers, body).await?,
        address,
        origin: format!("{}://{host}", scheme(&parts, trusted)),
        method: parts.method,
        headers: parts.headers,
        now,
        effects: Effects::default(),
    };
    run(Arc::new(request)).await
}

/// Runs a handler where its kind belongs. What writes goes on when the client hangs up: a change that is committed has
/// its effects, and steps are not left half-way.
async fn run(request: Arc<Request>) -> Outcome {
    let db = request.build.db.clone();
    match request.route.handler {
        Handler::Plain(handler) => handler(&request),
        Handler::Peek(handler) => {
            pages::answer(request, async move |request| db.peek(move |conn| handler(&request, conn)).await).await
        }
        Handler::Read(handler) => {
            pages::answer(request, async move |request| db.read(move |conn| handler(&request, conn)).await).await
        }
        Handler::Write(handler) => detached(async move { write(&request, handler).await }).await,
        Handler::Steps(handler) => detached(handler(request)).await,
    }
}

async fn detached(work: impl Future<Output = Outcome> + Send + 'static) -> Outcome {
    match tokio::spawn(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(store::Error::Db(format!("the handler ended early: {error}")).into()),
    }
}

/// One transaction of a request.
pub async fn write<T: Send + 'static>(
    request: &Arc<Request>,
    script: impl Fn(&Request, &mut Conn) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let shared = request.clone();
    let outcome = request.build.db.write(move |conn| script(&shared, conn)).await;
    finish(request);
    outcome
}

fn finish(request: &Request) {
    let (rights, mail, events) = request.effects.take();
    if rights > 0 {
        request.build.callers.reached(rights);
    }
    if mail {
        request.app.mail.wake(&request.app, &request.build);
    }
    if events {
        request.app.relay.wake(&request.app, &request.build);
    }
}

async fn authenticate(
    app: &App,
    build: &Arc<Build>,
    headers: &HeaderMap,
    address: IpAddr,
    now: i64,
) -> Result<Arc<Caller>, Refusal> {
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or("");
    let (scheme, token) = sent.split_once(' ').unwrap_or((sent, ""));
    if !scheme.eq_ignore_ascii_case("JWT") {
        return Err(Refusal::unauthenticated());
    }
    let caller = caller::identify(app, build, token.trim(), now).await?.ok_or_else(Refusal::bad_token)?;
    if !caller.may_call_from(address) {
        return Err(Refusal::detail(StatusCode::FORBIDDEN, "Access from this address is not allowed."));
    }
    Ok(caller)
}

fn authorise(route: &Route, caller: &Caller, now: i64) -> Result<(), Refusal> {
    if !route.while_expired && caller.password_expires_at.is_some_and(|expires_at| expires_at <= now) {
        return Err(Refusal::detail(StatusCode::FORBIDDEN, "Password change required."));
    }
    match route.access {
        Access::Permission(resource, action) => caller.needs(resource, action),
        _ => Ok(()),
    }
}

/// Whether the stores answer. An outage of the history service is no reason to serve nothing, so it is told alone.
async fn readiness(app: &App) -> Outcome {
    app.store.ready().await?;
    let mut body = json!({"status": "ok"});
    if app.history.is_some() {
        let lag = app.relay.lag(app.clock.now());
        body["history"] = json!({
            "waiting": lag.waiting, "lag_seconds": lag.seconds, "is_reachable": lag.is_reachable, "refused": lag.refused,
        });
    }
    Ok(Answer::value(&body))
}

async fn body(
    route: &Route,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<Result<Json, (StatusCode, String)>, Refusal> {
    if matches!(route.method, Method::GET | Method::OPTIONS) {
        return Ok(Ok(Json::Null));
    }
    let bytes = read_body(body, MAX_BODY, BODY_PROGRESS).await.map_err(|error| match error {
        BodyError::TooLarge => Refusal::detail(StatusCode::PAYLOAD_TOO_LARGE, "Request body is too large."),
        BodyError::Slow => Refusal::detail(StatusCode::REQUEST_TIMEOUT, "The request body did not arrive in time."),
        BodyError::Broken => Refusal::bad("The request body is incomplete."),
    })?;
    if bytes.is_empty() {
        return Ok(Ok(json!({})));
    }
    let media_type =
        headers.get(header::CONTENT_TYPE).map_or("application/json", |value| value.to_str().unwrap_or("?"));
    let essence = media_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    if let (Schema::Form(_), "application/x-www-form-urlencoded") = (&route.body, essence.as_str()) {
        let text = String::from_utf8_lossy(&bytes);
        let fields = Query::parse(&text);
        return Ok(Ok(Json::Object(fields.pairs().map(|(name, value)| (name.to_owned(), value.into())).collect())));
    }
    if essence != "application/json" {
        return Ok(Err((
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!("Unsupported media type \"{media_type}\" in request."),
        )));
    }
    Ok(serde_json::from_slice(&bytes).map_err(|error| (StatusCode::BAD_REQUEST, format!("JSON parse error - {error}"))))
}

fn render(outcome: Outcome) -> (Response<Full<Bytes>>, Option<Box<store::Error>>) {
    let (answer, cause) = match outcome {
        Ok(answer) => (answer, None),
        Err(refusal) => (Answer::refusal(&refusal), refusal.cause),
    };
    let mut response = Response::new(Full::new(answer.body));
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    if let Some(content_type) = answer.content_type {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    if let Some(tag) = answer.tag.and_then(|tag| HeaderValue::try_from(tag.to_string()).ok()) {
        headers.insert(header::ETAG, tag);
    }
    for (name, value) in answer.headers {
        headers.append(name, value);
    }
    (response, cause)
}

fn all<'a>(headers: &'a HeaderMap, name: &'static str) -> impl Iterator<Item = &'a str> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok())
}

fn forwarded<'a>(headers: &'a HeaderMap, name: &'static str, trusted: bool) -> Option<&'a str> {
    let value = headers.get(name).filter(|_| trusted)?.to_str().ok()?;
    value.split(',').next().map(str::trim).filter(|value| !value.is_empty())
}

#[doc(hidden)]
pub fn host(parts: &http::request::Parts, trusted: bool) -> String {
    let named = forwarded(&parts.headers, "x-forwarded-host", trusted)
        .or_else(|| parts.headers.get(header::HOST).and_then(|value| value.to_str().ok()))
        .or_else(|| parts.uri.authority().map(|authority| authority.as_str()));
    let is_plain = |host: &&str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte));
    named.filter(is_plain).unwrap_or("localhost").to_owned()
}

fn scheme(parts: &http::request::Parts, trusted: bool) -> &'static str {
    match forwarded(&parts.headers, "x-forwarded-proto", trusted) {
        Some(scheme) if scheme.eq_ignore_ascii_case("https") => "https",
        _ => "http",
    }
}

#[doc(hidden)]
pub fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn configured_origin<'a>(app: &App, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    let text = origin.to_str().ok()?;
    app.config.cors_origins.iter().any(|known| known.trim_end_matches('/') == text).then_some(origin)
}

/// The answer to a preflight request of a configured origin, without authentication (document 4, section 1).
fn preflight(parts: &http::request::Parts, from_configured_origin: bool) -> Option<Answer> {
    let is_preflight =
        parts.method == Method::OPTIONS && parts.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if !is_preflight || !from_configured_origin {
        return None;
    }
    let mut answer = Answer::empty();
    answer.headers = vec![
        (header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PATCH, PUT, DELETE, OPTIONS")),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            HeaderValue::from_static("authorization, content-type, if-match, x-request-id, content-disposition"),
        ),
        (header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600")),
    ];
    Some(answer)
}

fn allow_origin(app: &App, origin: Option<HeaderValue>, headers: &mut HeaderMap) {
    if app.config.cors_origins.is_empty() {
        return;
    }
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        // The cookie of a single sign-on; nothing else that we answer heeds cookies.
        headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("etag, x-request-id, retry-after, www-authenticate"),
        );
    }
}
