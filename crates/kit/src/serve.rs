//! The path of a request: host → build → route → caller → permission → handler → answer. The order of refusals is
//! fixed here: 401, 403, 404, 403, 400 (`docs/reference/conventions.md`).

use crate::address::client_address;
use crate::answer::{Answer, AnswerBody, BodyProducer, Outcome, etag};
use crate::answer_cache;
use crate::answer_room::{AnswerRoom, reserve_memory, reserve_or_refuse, with_permit, with_room};
use crate::app::App;
use crate::authenticate::{self, Admission};
use crate::body::{self, BodyUse, ReceivedBody, has_body};
use crate::build::Build;
use crate::caller::{Caller, RouteAccess};
use crate::commit::{alter_answer, write_answer};
use crate::domain::{front_end, registered};
use crate::html::{self, Theme};
use crate::idempotency::key::{KeyParts, RequestKey};
use crate::idempotency::replay;
use crate::idempotency::sent_key::SentKey;
use crate::jobs;
use crate::metrics;
use crate::origin;
use crate::path::PathValue;
use crate::refusal::Refusal;
use crate::request::{Effects, ReceivedRequest, Request};
use crate::route::{Handler, OwnAdmission, Route, Schema};
use crate::snapshot;
use crate::table::{MatchedRoutes, Table, allowed};
use crate::upload::Upload;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use resource::{JsonBody, Query};
use serde_json::{Value as Json, json};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::Conn;
use subtle::ConstantTimeEq;
use web::compress::{AcceptedCodings, compress};
use web::content::{self, BodyContent};
use web::pace::{IN_MEMORY, OF_FILE, Pace};
use web::request_id::{REQUEST_ID, request_id};
use web::shares::{Permit, ShareAccount};

/// The maximum length of a logged path, in characters.
const MAX_LOGGED: usize = 200;
/// The header with the deployment's key.
const API_KEY: &str = "x-api-key";

/// Answers one request of the main API, and writes its line into the log.
pub async fn answer(
    app: App,
    table: &'static Table,
    request: http::Request<Incoming>,
    peer: SocketAddr,
) -> Response<BodyContent> {
    let started = Instant::now();
    let (parts, body) = request.into_parts();
    let id = request_id(&parts.headers);
    let (method, uri) = (parts.method.clone(), parts.uri.clone());
    let mut origin = origin::configured(&app, &parts.headers).cloned();
    if origin.is_some() && table.is_for_own_pages(uri.path()) {
        origin = None;
    }
    let accepted = AcceptedCodings::from_headers(&parts.headers);
    let address =
        client_address(peer.ip(), header_values(&parts.headers, "x-forwarded-for"), &app.settings.trusted_proxies);
    let mut trace = RequestTrace { theme: Theme::from_headers(&parts.headers), ..RequestTrace::default() };
    let sends_body = !body.is_end_stream();
    let is_by_tls = origin::is_by_tls(&app)
        && !origin::is_marked_plain(&parts.headers, app.settings.trusted_proxies.contains(peer.ip()));
    let outcome = match origin::preflight(&parts, origin.is_some()) {
        Some(answer) => Ok(answer),
        None => respond(&app, table, parts, body, Client { peer: peer.ip(), address }, &mut trace).await,
    };
    let form = match (trace.refusals, trace.page_of()) {
        (Some(render), _) => RefusalForm::Protocol(render),
        (None, Some((build, theme))) => RefusalForm::Page(build, theme),
        (None, None) => RefusalForm::Json,
    };
    let (mut response, cause) = render(outcome, form, &method, &id);
    if let Some(pace) = trace.pace.take() {
        response.extensions_mut().insert(pace);
    }
    let is_compressed = trace.route.is_none_or(Route::is_compressed) && !trace.is_front_end;
    let mut response = if is_compressed { compress(response, accepted) } else { response };
    if method == Method::HEAD && response.status() != StatusCode::NOT_MODIFIED {
        without_body(&mut response);
    }
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id.clone());
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if is_by_tls {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
    // The connection ends if a body was not read. Without this header, a client may lose its next request on it.
    if sends_body && !trace.body_is_read {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    origin::allow(&app, origin, headers);
    let status = response.status().as_u16();
    let duration = started.elapsed();
    metrics::count(trace.route, trace.is_front_end, status, duration);
    log_request(&trace, (&method, &uri), &id, address, AnsweredRequest { status, duration, cause });
    response
}

/// The answer to a request, for its log line.
struct AnsweredRequest {
    status: u16,
    duration: Duration,
    /// The cause of a refusal.
    cause: Option<Box<store::StoreError>>,
}

fn log_request(
    trace: &RequestTrace,
    (method, uri): (&Method, &Uri),
    id: &HeaderValue,
    address: IpAddr,
    AnsweredRequest { status, duration, cause }: AnsweredRequest,
) {
    let milliseconds = duration.as_micros() as f64 / 1000.0;
    let (request_id, method) = (id.to_str().unwrap_or(""), method.as_str());
    // The path is ASCII, like everything in the first line of a request.
    let path = uri.path().get(..MAX_LOGGED).unwrap_or(uri.path());
    let (build, user) = (trace.build.as_deref().map_or("", |build| &build.domain), trace.user);
    match cause {
        Some(cause) if status >= 500 => {
            tracing::error!(request_id, method, path, status, milliseconds, build, user, %address, cause = %cause, "request");
        }
        _ => tracing::info!(request_id, method, path, status, milliseconds, build, user, %address, "request"),
    }
}

/// The client of a request.
struct Client {
    /// The address of the other end of the connection.
    peer: IpAddr,
    /// The address of the client, which a trusted proxy reports.
    address: IpAddr,
}

/// The facts about a request beyond its address, for its log line and for the form of a refusal.
#[derive(Default)]
struct RequestTrace {
    build: Option<Arc<Build>>,
    route: Option<&'static Route>,
    user: Option<i64>,
    /// Is true if the front end has answered. Its files are already compressed.
    is_front_end: bool,
    /// The colours of pages.
    theme: Theme,
    /// Renders refusals in the form of a protocol.
    refusals: Option<fn(&Refusal) -> Answer>,
    /// Is true if the address answers pages for people.
    answers_pages: bool,
    /// Is true if the build shows pages at the host of the request ([`origin::is_open_to_browsers`]).
    is_open_to_browsers: bool,
    /// Is true if the body was read to its end.
    body_is_read: bool,
    /// The pace at which the client must read the answer, if others may wait for what it occupies.
    pace: Option<Pace>,
}

impl RequestTrace {
    /// Returns the build and the colours for a refusal as a page; `None` if the refusal is JSON.
    fn page_of(&self) -> Option<(&Build, Theme)> {
        let is_page = self.answers_pages && self.is_open_to_browsers;
        self.build.as_deref().filter(|_| is_page).map(|build| (build, self.theme))
    }
}

async fn respond(
    app: &App,
    table: &'static Table,
    parts: http::request::Parts,
    body: Incoming,
    Client { peer, address }: Client,
    trace: &mut RequestTrace,
) -> Outcome {
    app.unnamed_proxy.check_request(peer, &parts.headers, &app.settings.trusted_proxies);
    if let Some(answer) = answer_of_process(app, &parts).await {
        return answer;
    }
    let is_trusted = app.settings.trusted_proxies.contains(peer);
    let host = origin::host(&parts, is_trusted)?;
    if origin::is_by_tls(app) && origin::is_marked_plain(&parts.headers, is_trusted) {
        return Ok(Answer::redirect(StatusCode::PERMANENT_REDIRECT, &origin::address_by_tls(app, &parts, &host)));
    }
    let name = origin::without_port(&host);
    let matched_routes = table.find(parts.uri.path());
    let build = match &matched_routes {
        Some(matched_routes) if matched_routes.is_of_deployment() => {
            operator(app, &parts.headers)?;
            app.build(&matched_routes.domain().to_ascii_lowercase()).await?.ok_or_else(Refusal::not_found)?
        }
        _ => match app.build_of_host(name).await? {
            Some(build) => build,
            None => return page_not_found(&parts, name, trace.theme),
        },
    };
    trace.build = Some(build.clone());
    trace.is_open_to_browsers = build.domain.eq_ignore_ascii_case(name) || origin::is_open_to_browsers(app, name);
    if let Some(answer) = front_end(app).and_then(|front_end| (front_end.answer)(&build, &parts)) {
        trace.is_front_end = true;
        return if trace.is_open_to_browsers { answer } else { page_not_found(&parts, name, trace.theme) };
    }
    let MatchedRoutes { routes, path_values } = matched_routes.ok_or_else(Refusal::not_found)?;
    let origin = format!("{}://{host}", origin::scheme(&parts, is_trusted));
    let arrival = Arrival { app, build, routes, path_values, host: &host, origin, address };
    arrival.respond(parts, body, trace).await
}

/// Answers the requests about the state of the process. `None` for other paths.
async fn answer_of_process(app: &App, parts: &http::request::Parts) -> Option<Outcome> {
    let path = parts.uri.path();
    match path.strip_suffix('/').unwrap_or(path) {
        "/healthz" | "/readyz" if !matches!(parts.method, Method::GET | Method::HEAD) => {
            Some(Err(Refusal::method(&parts.method, "GET, HEAD")))
        }
        "/healthz" => Some(Ok(Answer::value(&json!({"status": "ok"})))),
        "/readyz" => Some(readiness(app).await),
        _ => None,
    }
}

/// A request for a path of a build, before its caller is known.
struct Arrival<'a> {
    app: &'a App,
    build: Arc<Build>,
    /// The routes of the path, one for each method.
    routes: &'a [&'static Route],
    path_values: Vec<PathValue>,
    /// The host of the request with its port.
    host: &'a str,
    /// Scheme and host of the request.
    origin: String,
    /// The address of the client.
    address: IpAddr,
}

/// The credential that a path requires.
struct PathAccess {
    /// Is true if the request needs none.
    is_open: bool,
    /// Is true if the path is for operators.
    is_of_operator: bool,
    /// The admission of a path with callers of its own. Other methods of its path answer 405 to its callers.
    own: Option<OwnAdmission>,
}

/// The body of a request that a handler does not read itself.
struct ReadBody {
    sent: Result<JsonBody, (StatusCode, String)>,
    /// The memory that is reserved for it.
    room: Option<Permit>,
    /// The body of an upload, which its handler reads.
    unread: Option<Incoming>,
    /// The `Idempotency-Key` of the request, and the hash of the bytes if it has one.
    key: SentKey,
    hash: Option<String>,
}

impl Arrival<'_> {
    async fn respond(self, parts: http::request::Parts, body: Incoming, trace: &mut RequestTrace) -> Outcome {
        let method = if parts.method == Method::HEAD { &Method::GET } else { &parts.method };
        let route = self.routes.iter().copied().find(|route| route.method == *method);
        trace.route = route;
        trace.answers_pages = route.map_or(self.routes.iter().any(|route| route.answers_pages()), Route::answers_pages);
        if trace.answers_pages && !trace.is_open_to_browsers && *method == Method::GET {
            return page_not_found(&parts, origin::without_port(self.host), trace.theme);
        }
        let access = self.access(route, &parts.headers);
        trace.refusals = access.own.and_then(|own| own.render);
        let admission = self.admit(&access, &parts)?;
        let caller = self.load_caller(&access, admission.as_ref(), route, &parts).await?;
        trace.user = caller.as_ref().map(|caller| caller.user.get()).filter(|user| *user > 0);
        let Some(route) = route else { return Err(Refusal::method(&parts.method, &allowed(self.routes))) };
        self.check_origin(route, &access, &parts, trace.is_open_to_browsers)?;
        if let Some(guard) = route.guard {
            guard(self.app, &self.build, self.address)?;
        }
        let mut body = self.read_body(route, caller.as_deref(), &parts, body).await?;
        trace.body_is_read = has_body(route) && body.unread.is_none();
        // A body may take long, and its caller may have lost the rights meanwhile.
        let caller = match trace.body_is_read {
            true => self.load_caller(&access, admission.as_ref(), Some(route), &parts).await?,
            false => caller,
        };
        if access.is_open
            && let Err((status, detail)) = &body.sent
        {
            // This comes before anything is counted, since the page of another site may have sent the request.
            return Err(Refusal::detail(*status, detail.clone()));
        }
        let idempotency = self.request_key(route, caller.as_deref(), &parts.uri, &mut body)?;
        let is_upload = body.unread.is_some();
        let admission = if is_upload { admission.map(Admission::admission_for_upload) } else { admission };
        let ReadBody { sent, room, unread, .. } = body;
        let received = ReceivedRequest {
            app: self.app.clone(),
            build: self.build,
            requirement: route.requirement(),
            declared_names: route.declared_names(),
            path_values: self.path_values,
            path: parts.uri.path().to_owned(),
            query: Query::parse(parts.uri.query().unwrap_or("")),
            body: sent,
            room,
            answer_room: AnswerRoom::default(),
            address: self.address,
            origin: self.origin,
            method: parts.method,
            headers: parts.headers,
            now: self.app.clock.now(),
            admission,
            effects: Effects::default(),
            idempotency,
            run: None,
        };
        let request = Arc::new(Request::new(caller, received));
        let answer = run_counted(route, &request, unread).await?;
        trace.body_is_read |= is_upload;
        Ok(send_at_pace(&request, answer, trace))
    }

    fn access(&self, route: Option<&Route>, headers: &HeaderMap) -> PathAccess {
        PathAccess {
            is_open: match route {
                Some(route) => is_open(route, headers),
                None => self.routes.iter().any(|route| route.access == RouteAccess::Public),
            },
            is_of_operator: self.routes.iter().any(|route| route.access == RouteAccess::ApiKey),
            own: self.routes.iter().find_map(|route| route.own_admission),
        }
    }

    /// Checks the credential of the request; `None` if the path requires none.
    fn admit(&self, access: &PathAccess, parts: &http::request::Parts) -> Result<Option<Admission>, Refusal> {
        match access.own {
            _ if access.is_open || access.is_of_operator => Ok(None),
            Some(own) => match (own.admit)(self.app, &self.build, &parts.headers, &self.path_values) {
                Ok(admission) => Ok(Some(admission)),
                Err(refusal) => Err(self.refuse(access, refusal, parts)),
            },
            None => admission(self.app, &self.build, &parts.headers).map(Some),
        }
    }

    /// Loads the admitted caller, and checks the requirement of the route.
    async fn load_caller(
        &self,
        access: &PathAccess,
        admission: Option<&Admission>,
        route: Option<&Route>,
        parts: &http::request::Parts,
    ) -> Result<Option<Arc<Caller>>, Refusal> {
        let Some(admission) = admission else { return Ok(None) };
        let requirement = route.map(Route::requirement);
        let caller = admission.caller(self.app, &self.build, self.address, requirement).await;
        caller.map(Some).map_err(|refusal| self.refuse(access, refusal, parts))
    }

    /// Returns the refusal of a caller in the form of the path.
    fn refuse(&self, access: &PathAccess, refusal: Refusal, parts: &http::request::Parts) -> Refusal {
        match access.own {
            Some(own) => (own.refuse)(refusal, self.app, &self.build, parts.uri.path(), &self.path_values),
            None => refusal,
        }
    }

    /// Refuses a request that the page of another site has sent, unless the route is for such pages.
    fn check_origin(
        &self,
        route: &Route,
        access: &PathAccess,
        parts: &http::request::Parts,
        is_open_to_browsers: bool,
    ) -> Result<(), Refusal> {
        let is_public_post = (access.is_open || access.own.is_some()) && route.method == Method::POST;
        if is_public_post && !is_open_to_browsers && origin::is_by_page(&parts.headers) {
            return Err(Refusal::forbidden());
        }
        if route.is_for_own_pages {
            origin::require_cookie_origin(parts, self.host)?;
        } else if is_public_post && !route.from_any_site {
            origin::require_public_origin(self.app, parts, self.host)?;
        }
        Ok(())
    }

    async fn read_body(
        &self,
        route: &Route,
        caller: Option<&Caller>,
        parts: &http::request::Parts,
        body: Incoming,
    ) -> Result<ReadBody, Refusal> {
        let key = SentKey::read(route, &parts.headers, parts.uri.query());
        if matches!(route.handler, Handler::Upload(..)) {
            let sent = Ok(JsonBody::from_json(&Json::Null));
            return Ok(ReadBody { sent, room: None, unread: Some(body), key, hash: None });
        }
        let account = match caller {
            Some(caller) => ShareAccount::Id(caller.user.get()),
            None => ShareAccount::from_address(self.address),
        };
        let body_use = if key.is_key() { BodyUse::ParsedAndHashed } else { BodyUse::Parsed };
        let holder = self.build.holder(account);
        let ReceivedBody { sent, room, hash } =
            body::read(self.app, &holder, route, &parts.headers, body, body_use).await?;
        Ok(ReadBody { sent, room, unread: None, key, hash })
    }

    /// Returns the `Idempotency-Key` of a request whose body has arrived. Its refusals follow those of the caller and of the body's
    /// media type.
    fn request_key(
        &self,
        route: &Route,
        caller: Option<&Caller>,
        uri: &Uri,
        body: &mut ReadBody,
    ) -> Result<Option<RequestKey>, Refusal> {
        let key = std::mem::replace(&mut body.key, SentKey::Nothing);
        if let Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, detail)) = &body.sent
            && !matches!((&key, &route.body), (SentKey::Nothing, _) | (_, Schema::Nothing))
        {
            return Err(Refusal::detail(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail.clone()));
        }
        let key = match key {
            SentKey::Key(key) => key,
            SentKey::Refused(refusal) => return Err(refusal),
            SentKey::Nothing => return Ok(None),
        };
        let Some(caller) = caller else { return Ok(None) };
        let (path, query, hash) = (uri.path(), uri.query().unwrap_or(""), body.hash.take().unwrap_or_default());
        let parts = KeyParts { build: &self.build, account: caller.user, path, query, key: &key, body: hash };
        Ok(Some(RequestKey::new(parts)))
    }
}

/// Runs the handler of a route, which may refuse with 429 only if the route declares it.
pub(crate) async fn run_declared(route: &'static Route, request: &Arc<Request>, unread: Option<Incoming>) -> Outcome {
    let outcome = run(route, request.clone(), unread).await;
    debug_assert!(
        route.may_throttle()
            || outcome.as_ref().err().is_none_or(|refusal| refusal.status != StatusCode::TOO_MANY_REQUESTS),
        "{} {} refuses with 429, which it does not declare",
        route.method,
        route.path
    );
    outcome
}

/// Runs the handler of a route, or replays the answer of an earlier request. The outcome reports the rate limit by which the request was
/// counted.
async fn run_counted(route: &'static Route, request: &Arc<Request>, unread: Option<Incoming>) -> Outcome {
    let outcome = match &request.idempotency {
        Some(_) => replay::run(route, request.clone()).await,
        None => run_declared(route, request, unread).await,
    };
    with_rate_limit(request, outcome)
}

/// Returns the outcome with the headers of the rate limit by which the request was counted.
fn with_rate_limit(request: &Request, mut outcome: Outcome) -> Outcome {
    let Some(state) = request.effects.rate_limit() else { return outcome };
    match &mut outcome {
        Ok(answer) => answer.headers.extend(state.headers()),
        Err(refusal) if refusal.status == StatusCode::TOO_MANY_REQUESTS => refusal.headers.extend(state.headers()),
        // The count was rolled back.
        Err(_) => {}
    }
    outcome
}

/// Returns the answer with the permit for its memory, and notes the pace at which the client must read it. An answer that the
/// client has already becomes 304.
fn send_at_pace(request: &Request, answer: Answer, trace: &mut RequestTrace) -> Answer {
    if request.is_up_to_date(&answer) {
        return answer.not_modified();
    }
    let permit = request.answer_room.permit(answer.body.in_memory_bytes().len());
    trace.pace = match (&permit, &answer.body) {
        (Some(permit), _) => Some(Pace { demand: permit.demand(), rates: IN_MEMORY }),
        (None, AnswerBody::File { permit: Some(permit), .. }) => Some(Pace { demand: permit.demand(), rates: OF_FILE }),
        _ => None,
    };
    match permit {
        Some(permit) => with_permit(answer, permit),
        None => answer,
    }
}

/// Refuses with 404 a page at a host whose pages are not served. A person gets the refusal as a page.
fn page_not_found(parts: &http::request::Parts, name: &str, theme: Theme) -> Outcome {
    if wants_page(parts) { Ok(html::unknown_host_page(name, theme)) } else { Err(Refusal::not_found()) }
}

/// Returns whether a person opened an address in a browser.
fn wants_page(parts: &http::request::Parts) -> bool {
    html::is_accepted(&parts.headers) && [Method::GET, Method::HEAD].contains(&parts.method)
}

/// Returns whether a request needs no credential. If sign-in is optional, a credential that is sent counts.
fn is_open(route: &Route, headers: &HeaderMap) -> bool {
    route.access == RouteAccess::Public && !(route.optional_sign_in && headers.contains_key(header::AUTHORIZATION))
}

/// Runs a handler as its kind requires. A write continues when the client disconnects: a committed
/// change has its effects, and steps are completed.
pub(crate) async fn run(route: &'static Route, request: Arc<Request>, unread: Option<Incoming>) -> Outcome {
    // An answer to all clients is small, or the same for all of them.
    let is_own = request.caller.is_some() || route.answers_pages() || route.optional_sign_in;
    match route.handler {
        Handler::Write(handler) => detached(async move { run_write(route, &request, handler).await }).await,
        Handler::Upload(most, handler) => {
            let upload = Upload::begin(&request, most, unread).await?;
            detached(handler(request, upload)).await
        }
        Handler::Async(handler) if route.method != Method::GET => {
            let answer = detached(handler(request.clone())).await?;
            if is_own { reserve_memory(&request, answer).await } else { Ok(answer) }
        }
        _ if is_own => {
            let attempt = || async { reserve_or_refuse(&request, read(route, request.clone()).await) };
            with_room(&request, attempt).await
        }
        _ => read(route, request).await,
    }
}

/// Runs a write. It reserves the memory of its answer before the commit.
async fn run_write(route: &Route, request: &Arc<Request>, handler: fn(&Request, &mut Conn) -> Outcome) -> Outcome {
    let script = move |request: &Request, conn: &mut Conn| reserve_or_refuse(request, handler(request, conn));
    match route.alters_tables {
        true => with_room(request, || alter_answer(request, script)).await,
        false => with_room(request, || write_answer(request, script)).await,
    }
}

/// Runs a handler that changes nothing.
async fn read(route: &'static Route, request: Arc<Request>) -> Outcome {
    let db = request.build.db.clone();
    match route.handler {
        Handler::NoDatabase(handler) => with_etag(route, handler(&request)),
        Handler::ShortRead(handler) => {
            let look = async move |request: Arc<Request>| {
                with_etag(route, db.read_short(move |conn| handler(&request, conn)).await)
            };
            if route.is_cacheable() { answer_cache::answer(request, look).await } else { look(request).await }
        }
        Handler::Read(handler) => {
            let look = async move |request| with_etag(route, snapshot::read(&request, handler).await);
            if route.is_cacheable() { answer_cache::answer(request, look).await } else { look(request).await }
        }
        Handler::ReadInOneStatement(peek, handler) => {
            let look = async move |request: Arc<Request>| {
                let peeked = request.clone();
                match db.read_short(move |conn| peek(&peeked, conn)).await {
                    Ok(Some(answer)) => with_etag(route, Ok(answer)),
                    Err(refusal) if !refusal.is_outdated() => Err(refusal),
                    Ok(None) | Err(_) => with_etag(route, snapshot::read(&request, handler).await),
                }
            };
            if route.is_cacheable() { answer_cache::answer(request, look).await } else { look(request).await }
        }
        Handler::Async(handler) => detached(handler(request)).await,
        Handler::Write(_) | Handler::Upload(..) => Err(store::StoreError::internal("a write is no read").into()),
    }
}

/// Adds the tag to the answer of a read. An instance already has its tag, and an answer with a secret has none.
fn with_etag(route: &Route, outcome: Outcome) -> Outcome {
    let mut answer = outcome?;
    let is_untagged = answer.tag.is_none() && answer.status == StatusCode::OK;
    if let AnswerBody::Whole(body) = &answer.body
        && is_untagged
        && route.is_tagged()
    {
        answer.tag = Some(etag(body));
    }
    Ok(answer)
}

pub(crate) async fn detached(work: impl Future<Output = Outcome> + Send + 'static) -> Outcome {
    match tokio::spawn(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(store::StoreError::internal(format_args!("the handler ended early: {error}")).into()),
    }
}

/// Returns the admission of a request, by the first kind of credential that matches its token; 401 without a valid credential.
fn admission(app: &App, build: &Build, headers: &HeaderMap) -> Result<Admission, Refusal> {
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or("");
    let (scheme, token) = authorization.split_once(' ').unwrap_or((authorization, ""));
    if !["JWT", "Bearer"].iter().any(|credential_scheme| scheme.eq_ignore_ascii_case(credential_scheme)) {
        return Err(Refusal::unauthenticated());
    }
    let kinds = registered().iter().flat_map(|domain| domain.callers);
    let by = authenticate::functions_for_token(kinds, token.trim()).ok_or_else(Refusal::bad_token)?;
    let claims = (by.read)(app, build, token.trim(), app.clock.now()).ok_or_else(Refusal::bad_token)?;
    Ok(Admission { claims, by })
}

/// Refuses with 401 without the deployment's key, and with 403 for a wrong key.
fn operator(app: &App, headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(presented_key) = headers.get(API_KEY) else { return Err(Refusal::unauthenticated()) };
    let key = app.settings.api_key.as_deref().unwrap_or("");
    let is_right = !key.is_empty() && bool::from(presented_key.as_bytes().ct_eq(key.as_bytes()));
    if is_right { Ok(()) } else { Err(Refusal::forbidden()) }
}

/// Answers whether the stores respond, the state of each module, and warnings for operators.
async fn readiness(app: &App) -> Outcome {
    app.store.ready().await?;
    let mut body = json!({"status": "ok", "jobs": jobs::health(app)});
    let mut warnings: Vec<String> = app.unnamed_proxy.warning().into_iter().collect();
    let mut status = StatusCode::OK;
    for report in registered().iter().filter_map(|domain| domain.health?(app)) {
        body[report.name] = report.details;
        warnings.extend(report.warning);
        if !report.is_ready {
            status = StatusCode::SERVICE_UNAVAILABLE;
            body["status"] = "unavailable".into();
        }
    }
    if !warnings.is_empty() {
        body["warnings"] = json!(warnings);
    }
    Ok(Answer { status, ..Answer::value(&body) })
}

/// The form of a refusal.
enum RefusalForm<'a> {
    Json,
    /// A page with the build and its colours.
    Page(&'a Build, Theme),
    /// The form of a protocol.
    Protocol(fn(&Refusal) -> Answer),
}

/// Returns the answer as a response, and the cause of a refusal.
fn render(
    outcome: Outcome,
    form: RefusalForm<'_>,
    method: &Method,
    id: &HeaderValue,
) -> (Response<BodyContent>, Option<Box<store::StoreError>>) {
    let (answer, cause) = match outcome {
        Ok(answer) => (answer, None),
        Err(refusal) => {
            let answer = match form {
                RefusalForm::Page(build, theme) => html::refusal_page(build, theme, &refusal),
                RefusalForm::Protocol(render) => render(&refusal),
                RefusalForm::Json => Answer::refusal(&refusal),
            };
            (answer, refusal.cause)
        }
    };
    let content = match answer.body {
        AnswerBody::Whole(bytes) => BodyContent::Whole(Full::new(bytes)),
        AnswerBody::File { file, length, permit } => BodyContent::File { file: file.into(), left: length, permit },
        AnswerBody::Pieces { length, .. } if method == Method::HEAD => content::pieces(length).1,
        AnswerBody::Pieces { length, produce } => produced(length, produce, id.clone()),
    };
    let mut response = Response::new(content);
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
    // A client that does not know the time repeats too early, or never.
    if matches!(answer.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        headers.entry(header::RETRY_AFTER).or_insert(HeaderValue::from_static("1"));
    }
    (response, cause)
}

/// Removes the body, but leaves its length in the headers.
fn without_body(response: &mut Response<BodyContent>) {
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    }
    *response.body_mut() = Full::default().into();
}

/// Returns the body of an answer that is produced while it is sent. If its production fails, the client gets an incomplete body.
fn produced(length: Option<u64>, produce: BodyProducer, id: HeaderValue) -> BodyContent {
    let (producer, content) = content::pieces(length);
    tokio::spawn(async move {
        match produce(producer.clone()).await {
            Ok(()) => producer.finish().await,
            Err(_) if producer.is_closed() => {}
            Err(error) => {
                let request_id = id.to_str().unwrap_or("");
                tracing::error!(request_id, %error, "an answer ended half-way");
            }
        }
    });
    content
}

fn header_values<'a>(headers: &'a HeaderMap, name: &'static str) -> impl Iterator<Item = &'a str> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok())
}
