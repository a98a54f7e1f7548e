//! The path of a request: host → build → route → caller → permission → handler → answer. The order of refusals is
//! fixed here: 401, 403, 404, 403, 400 (document 4, section 2, "order of checks").

use crate::address::client_address;
use crate::app::{App, Build};
use crate::attempts;
use crate::body::{self, has_body};
use crate::caller::{self, Caller};
use crate::http::{Answer, Effects, Outcome, Received, Refusal, Request};
use crate::origin;
use crate::pages;
use crate::routes::{Access, Handler, Route, Table, allowed};
use crate::sign_in;
use crate::token::Claims;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use resource::Query;
use serde_json::json;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::Conn;
use web::content::Content;
use web::request_id::{REQUEST_ID, request_id};
use web::room::Taken;

/// How much of a path is logged, in characters.
const LOGGED: usize = 200;

/// Answers one request of the main API, and writes its line into the log.
pub async fn answer(app: App, request: http::Request<Incoming>, peer: SocketAddr) -> Response<Content> {
    let started = Instant::now();
    let (parts, body) = request.into_parts();
    let id = request_id(&parts.headers);
    let (method, uri) = (parts.method.clone(), parts.uri.clone());
    let origin = origin::configured(&app, &parts.headers).cloned();
    let mut seen = Seen::default();
    let outcome = match origin::preflight(&parts, origin.is_some()) {
        Some(answer) => Ok(answer),
        None => respond(&app, parts, body, peer.ip(), &mut seen).await,
    };
    let (mut response, cause) = render(make_room(&app, &seen, &method, outcome).await);
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id.clone());
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    origin::allow(&app, origin, headers);
    if method == Method::HEAD {
        *response.body_mut() = Full::default().into();
    }
    let status = response.status().as_u16();
    let milliseconds = started.elapsed().as_micros() as f64 / 1000.0;
    let request_id = id.to_str().unwrap_or("");
    // It is ASCII, as everything in the first line of a request.
    let path = uri.path().get(..LOGGED).unwrap_or(uri.path());
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
    let host = origin::host(&parts, trusted)?;
    let build = app.build_of_host(origin::without_port(&host)).await?.ok_or_else(Refusal::not_found)?;
    seen.build = Some(build.clone());
    let (routes, ids) = Table::get().find(path).ok_or_else(Refusal::not_found)?;
    let address = client_address(peer, all(&parts.headers, "x-forwarded-for"), &app.config.trusted_proxies);

    let method = if parts.method == Method::HEAD { &Method::GET } else { &parts.method };
    let route = routes.iter().copied().find(|route| route.method == *method);
    let is_open = match route {
        Some(route) => {
            route.access == Access::Public
                && !(route.path == crate::security::PATH && parts.headers.contains_key(header::AUTHORIZATION))
        }
        None => routes.iter().any(|route| route.access == Access::Public),
    };
    let claims = if is_open { None } else { Some(claims(app, &build, &parts.headers)?) };
    let caller = admit(app, &build, claims, address, route).await?;
    seen.user = caller.as_ref().map(|caller| caller.user);
    let Some(route) = route else { return Err(Refusal::method(&parts.method, &allowed(routes))) };
    if is_open && route.method == Method::POST {
        origin::may_call_public(app, &parts, &host)?;
    }
    if route.is_counted
        && let Err(refusal) = attempts::check(app, &build, address, app.clock.now())
    {
        return sign_in::pages::refused(route, refusal);
    }
    let (body, room) = body::read(app, &build, route, &parts.headers, body).await?;
    // A body may take long, and its caller may have lost his rights meanwhile.
    let caller = match caller {
        Some(_) if has_body(route) => admit(app, &build, claims, address, Some(route)).await?,
        caller => caller,
    };
    if is_open && let Err((status, detail)) = &body {
        // Before anything is counted: the page of another site may have sent it.
        return Err(Refusal::detail(*status, detail.clone()));
    }
    let received = Received {
        app: app.clone(),
        build,
        route,
        ids,
        path: path.to_owned(),
        query: Query::parse(parts.uri.query().unwrap_or("")),
        body,
        room,
        address,
        origin: format!("{}://{host}", origin::scheme(&parts, trusted)),
        method: parts.method,
        headers: parts.headers,
        now: app.clock.now(),
        token_expires_at: claims.map_or(0, |claims| claims.expires_at),
        effects: Effects::default(),
    };
    run(Arc::new(Request::new(caller, received))).await
}

/// Runs a handler where its kind belongs. What writes goes on when the client hangs up: a change that is committed has
/// its effects, and steps are not left half-way.
async fn run(request: Arc<Request>) -> Outcome {
    let db = request.build.db.clone();
    match request.route.handler {
        Handler::Plain(handler) => handler(&request),
        Handler::Peek(handler) => {
            pages::answer(request, async move |request| db.read_short(move |conn| handler(&request, conn)).await).await
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

/// A write that took longer may have waited for others.
const WAITED: Duration = Duration::from_millis(5);

/// One transaction of a request, for whoever may still do it when it takes effect.
pub async fn write<T: Send + 'static>(
    request: &Arc<Request>,
    script: impl Fn(&Request, &mut Conn) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let shared = request.clone();
    let work = move |conn: &mut Conn| {
        let started = Instant::now();
        let readmitted = caller::readmit(&shared, conn)?;
        let admitted = readmitted.as_ref().unwrap_or(&shared);
        let done = script(admitted, conn)?;
        // On PostgreSQL it may have waited for others, who may have taken the right meanwhile.
        if !shared.app.store.is_embedded() && started.elapsed() > WAITED {
            caller::readmit(admitted, conn)?;
        }
        Ok(done)
    };
    let outcome = request.build.db.write(work).await;
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

/// What the access token of a request says; 401 without one that is ours.
fn claims(app: &App, build: &Build, headers: &HeaderMap) -> Result<Claims, Refusal> {
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or("");
    let (scheme, token) = sent.split_once(' ').unwrap_or((sent, ""));
    if !["JWT", "Bearer"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Err(Refusal::unauthenticated());
    }
    app.tokens.verify(token.trim(), &build.uid, app.clock.now()).ok_or_else(Refusal::bad_token)
}

/// Who calls, if he may call from where he is, and may call the route.
async fn admit(
    app: &App,
    build: &Arc<Build>,
    claims: Option<Claims>,
    address: IpAddr,
    route: Option<&Route>,
) -> Result<Option<Arc<Caller>>, Refusal> {
    let (Some(claims), now) = (claims, app.clock.now()) else { return Ok(None) };
    let caller = caller::identify(build, claims, now).await?.ok_or_else(Refusal::bad_token)?;
    caller.is_called_from(address)?;
    if let Some(route) = route {
        caller.may_use(route, now)?;
    }
    Ok(Some(caller))
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

/// An answer with the room that it takes until it is sent. What a stranger gets is small, or the same for everybody.
async fn make_room(app: &App, seen: &Seen, method: &Method, outcome: Outcome) -> Result<(Answer, Taken), Refusal> {
    let answer = outcome?;
    let taken = match (&seen.build, seen.user) {
        (Some(build), Some(_)) => body::of_answer(app, build, answer.body.len(), method == Method::GET).await?,
        _ => Taken::default(),
    };
    Ok((answer, taken))
}

fn render(outcome: Result<(Answer, Taken), Refusal>) -> (Response<Content>, Option<Box<store::Error>>) {
    let (answer, taken, cause) = match outcome {
        Ok((answer, taken)) => (answer, taken, None),
        Err(refusal) => (Answer::refusal(&refusal), Taken::default(), refusal.cause),
    };
    let mut response = Response::new(Content::Held(Full::new(answer.body), taken));
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
