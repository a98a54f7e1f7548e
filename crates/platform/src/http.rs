//! A request as handlers see it, what they answer, and why they refuse.

use crate::app::{App, Build};
use crate::caller::Caller;
use crate::routes::Route;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use resource::{Body, Errors, Object, Query, SelectError, Sent, message};
use serde_json::{Value as Json, json};
use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// What a handler answers with.
pub type Outcome = Result<Answer, Refusal>;

/// An authorised request: who calls, and what was received.
#[derive(Clone)]
pub struct Request {
    /// Who calls, with the rights that hold now; `None` on public routes. A write looks at them again, first in its
    /// transaction.
    pub caller: Option<Arc<Caller>>,
    received: Arc<Received>,
}

/// What a request brought: it stays the same, whatever becomes of its caller.
pub struct Received {
    /// The application.
    pub app: App,
    /// The build that the host names.
    pub build: Arc<Build>,
    /// The route.
    pub route: &'static Route,
    /// The ids of the path, in order.
    pub ids: Vec<i64>,
    /// The method.
    pub method: Method,
    /// The path as sent.
    pub path: String,
    /// The parameters of the address.
    pub query: Query,
    /// The JSON body, an empty object when none was sent; else the status and text of what is wrong with it, which
    /// counts only when a handler asks for the body: 404 and 403 come first (document 4, section 2, "order of checks").
    pub body: Result<Body, (StatusCode, String)>,
    /// What the body takes of the bound on all of them, for as long as the request is worked on.
    pub room: web::room::Taken,
    /// The headers.
    pub headers: HeaderMap,
    /// Where the call comes from (document 4, section 3, "IP restriction").
    pub address: IpAddr,
    /// Scheme and host of the request, for links to it.
    pub origin: String,
    /// The moment at which the whole request was there, microseconds since 1970.
    pub now: i64,
    /// When the access token of the caller ends.
    pub token_expires_at: i64,
    /// What is to be done when the write has been committed.
    pub effects: Effects,
}

/// The ids of a batch, up to the first item that is none: an id before it may be wrong too, and the first error in the
/// order sent is the one that is told (document 4, section 2, "batches").
pub struct Batch {
    /// Each once, in the order sent.
    pub ids: Vec<i64>,
    /// What is wrong with the item after them.
    pub wrong: Option<String>,
}

impl Batch {
    /// Refuses for the item that is no id, when all before it are right.
    pub fn finish(self) -> Result<Vec<i64>, Refusal> {
        match self.wrong {
            Some(wrong) => Err(Refusal::bad(wrong)),
            None => Ok(self.ids),
        }
    }
}

/// What a write leaves to be done once it is committed.
#[derive(Default)]
pub struct Effects {
    rights: AtomicI64,
    mail: AtomicBool,
    events: AtomicBool,
}

impl Effects {
    /// Cached callers before this version of the rights are stale.
    pub fn rights_changed(&self, version: i64) {
        self.rights.fetch_max(version, Ordering::Relaxed);
    }
    /// The version that the write has raised the rights to; 0 if it has not.
    pub fn raised_to(&self) -> i64 {
        self.rights.load(Ordering::Relaxed)
    }
    /// A message waits in the queue.
    pub fn mail_queued(&self) {
        self.mail.store(true, Ordering::Relaxed);
    }
    /// An event waits for the history service.
    pub fn event_queued(&self) {
        self.events.store(true, Ordering::Relaxed);
    }
    /// What is to be done, once: the version of the rights, whether mail waits, whether events do.
    pub(crate) fn take(&self) -> (i64, bool, bool) {
        let taken = |flag: &AtomicBool| flag.swap(false, Ordering::Relaxed);
        (self.rights.swap(0, Ordering::Relaxed), taken(&self.mail), taken(&self.events))
    }
}

impl Deref for Request {
    type Target = Received;
    fn deref(&self) -> &Received {
        &self.received
    }
}

impl Request {
    /// A request of a caller.
    pub fn new(caller: Option<Arc<Caller>>, received: Received) -> Request {
        Request { caller, received: Arc::new(received) }
    }
    /// The same request of somebody whose rights were read anew.
    pub fn by(&self, caller: Arc<Caller>) -> Request {
        Request { caller: Some(caller), received: self.received.clone() }
    }
    /// The caller of a route that needs one.
    pub fn caller(&self) -> Result<&Caller, Refusal> {
        self.caller.as_deref().ok_or_else(Refusal::unauthenticated)
    }
    /// The first id of the path.
    pub fn id(&self) -> i64 {
        self.ids.first().copied().unwrap_or(0)
    }
    /// The second id of the path.
    pub fn second_id(&self) -> i64 {
        self.ids.get(1).copied().unwrap_or(0)
    }
    fn body(&self) -> Result<Sent<'_>, Refusal> {
        let body = self.body.as_ref().map_err(|(status, detail)| Refusal::detail(*status, detail.clone()))?;
        Ok(body.sent())
    }
    /// The body as an object, with the members that the route declares.
    pub fn object(&self) -> Result<Object<'_>, Refusal> {
        let (body, declared) = (self.body()?, self.route.declared_names());
        let is_declared = |name: &str| declared.as_ref().is_none_or(|names| names.iter().any(|known| known == name));
        let wrong = || Refusal::field("non_field_errors", message::not_an_object(body.type_name()));
        body.as_object(is_declared).ok_or_else(wrong)
    }
    /// The body as a list of ids (documents 1 and 2, "Assignees"); the same id twice counts once.
    pub fn batch(&self, max: usize) -> Result<Batch, Refusal> {
        let body = self.body()?;
        let (items, count) = body.as_list(max).ok_or_else(|| Refusal::bad(message::not_a_list(body.type_name())))?;
        if items.is_empty() {
            return Err(Refusal::bad(message::EMPTY_LIST));
        }
        if count > max {
            return Err(Refusal::bad(message::too_many(max)));
        }
        let mut ids = Vec::with_capacity(items.len());
        for item in items {
            match resource::pk(item) {
                Ok(id) if ids.contains(&id) => {}
                Ok(id) => ids.push(id),
                Err(wrong) => return Ok(Batch { ids, wrong: Some(wrong) }),
            }
        }
        Ok(Batch { ids, wrong: None })
    }
    /// The caller's user agent, cut to a sane length.
    pub fn user_agent(&self) -> String {
        let text = self.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or("");
        text.chars().take(255).collect()
    }
    /// Refuses when `If-Match` names another state than the current one (document 4, section 2).
    pub fn check_if_match(&self, current: impl FnOnce() -> Result<Tag, Refusal>) -> Result<(), Refusal> {
        let Some(wanted) = self.headers.get(header::IF_MATCH).and_then(|value| value.to_str().ok()) else {
            return Ok(());
        };
        if wanted.trim() == "*" {
            return Ok(());
        }
        let current = current()?.to_string();
        let matches = wanted.split(',').any(|tag| tag.trim().trim_start_matches("W/") == current);
        if matches { Ok(()) } else { Err(Refusal::detail(StatusCode::PRECONDITION_FAILED, "Object has been changed.")) }
    }
}

/// One instance as JSON.
pub struct Instance {
    /// The bytes.
    pub body: Vec<u8>,
    /// See [`Answer::holds_until`].
    pub holds_until: Option<i64>,
}

impl Deref for Instance {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.body
    }
}

/// A successful answer.
#[derive(Debug)]
pub struct Answer {
    /// 200, 201 or 204, or a redirect.
    pub status: StatusCode,
    /// The body.
    pub body: Bytes,
    /// Its type; none for an empty body.
    pub content_type: Option<&'static str>,
    /// The `ETag`, of an instance alone.
    pub tag: Option<Tag>,
    /// Further headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Until when the same request is answered alike, as long as nothing is committed to the build's database
    /// (microseconds since 1970); `None` where nobody vouches for that. See `pages.rs`.
    pub holds_until: Option<i64>,
}

impl Answer {
    fn new(status: StatusCode, content_type: Option<&'static str>, body: impl Into<Bytes>) -> Answer {
        Answer { status, body: body.into(), content_type, tag: None, headers: Vec::new(), holds_until: None }
    }
    /// JSON bytes.
    pub fn json(status: StatusCode, body: impl Into<Bytes>) -> Answer {
        Answer::new(status, Some("application/json"), body)
    }
    /// A JSON value with 200.
    pub fn value(value: &Json) -> Answer {
        Answer::json(StatusCode::OK, value.to_string())
    }
    /// One instance, with its `ETag`.
    pub fn instance(status: StatusCode, instance: Instance) -> Answer {
        let (tag, holds_until) = (Some(etag(&instance)), instance.holds_until);
        Answer { tag, holds_until, ..Answer::json(status, instance.body) }
    }
    /// 204.
    pub fn empty() -> Answer {
        Answer::new(StatusCode::NO_CONTENT, None, Bytes::new())
    }
    /// A refusal whose transaction is to be kept all the same.
    pub fn refusal(refusal: &Refusal) -> Answer {
        let mut answer = Answer::json(refusal.status, refusal.body.to_string());
        answer.headers.clone_from(&refusal.headers);
        answer
    }
    /// A page for people, which no other page may frame.
    pub fn page(status: StatusCode, html: impl Into<Bytes>) -> Answer {
        let policy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
        let mut answer = Answer::new(status, Some("text/html; charset=utf-8"), html);
        answer.headers = vec![
            (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy)),
            (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        ];
        answer
    }
}

/// Names an instance's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(u64);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{:016x}\"", self.0)
    }
}

/// The tag of an instance's state: a hash (FNV-1a) of what is shown of it. Not a secret, and cheap enough for every
/// single read.
pub fn etag(body: &[u8]) -> Tag {
    let mix = |hash: u64, word: &[u8; 8]| {
        let mixed = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(0x0000_0100_0000_01b3);
        mixed ^ (mixed >> 32)
    };
    let (words, rest) = body.as_chunks();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    Tag(mix(words.iter().fold(0xcbf2_9ce4_8422_2325, mix), &last))
}

/// Why a request is refused.
#[derive(Debug)]
pub struct Refusal {
    /// 400 and up.
    pub status: StatusCode,
    /// The body.
    pub body: Json,
    /// Further headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The store's own words, for the log alone.
    pub cause: Option<Box<store::Error>>,
}

impl Refusal {
    /// A body with `detail`.
    pub fn detail(status: StatusCode, detail: impl Into<String>) -> Refusal {
        Refusal { status, body: json!({"detail": detail.into()}), headers: Vec::new(), cause: None }
    }
    /// 400 with `detail`.
    pub fn bad(detail: impl Into<String>) -> Refusal {
        Refusal::detail(StatusCode::BAD_REQUEST, detail)
    }
    /// 400 with one message on one field.
    pub fn field(field: &str, message: impl Into<String>) -> Refusal {
        Errors::of(field, message).into()
    }
    /// 400 with `error_code` (document 1, "Errors": a count limit exceeded).
    pub fn limit(detail: impl Into<String>) -> Refusal {
        let mut refusal = Refusal::bad(detail);
        refusal.body["error_code"] = "ERR_LIMIT_EXCEEDED".into();
        refusal
    }
    /// 401 without credentials.
    pub fn unauthenticated() -> Refusal {
        Refusal::unauthorised("Authentication credentials were not provided.")
    }
    /// 401 with a token that does not hold.
    pub fn bad_token() -> Refusal {
        Refusal::unauthorised("Invalid or expired token.")
    }
    /// 401 with `WWW-Authenticate`.
    pub fn unauthorised(detail: &str) -> Refusal {
        Refusal::detail(StatusCode::UNAUTHORIZED, detail).header(header::WWW_AUTHENTICATE, "JWT")
    }
    /// 403.
    pub fn forbidden() -> Refusal {
        Refusal::detail(StatusCode::FORBIDDEN, "You do not have permission to perform this action.")
    }
    /// 404.
    pub fn not_found() -> Refusal {
        Refusal::detail(StatusCode::NOT_FOUND, "Not found.")
    }
    /// 405 with what is allowed.
    pub fn method(method: &Method, allowed: &str) -> Refusal {
        Refusal::detail(StatusCode::METHOD_NOT_ALLOWED, format!("Method \"{method}\" not allowed."))
            .header(header::ALLOW, allowed)
    }
    /// 503, to be tried again.
    pub fn busy(detail: &str) -> Refusal {
        Refusal::detail(StatusCode::SERVICE_UNAVAILABLE, detail).header(header::RETRY_AFTER, "1")
    }
    /// 429, to be tried again after so many microseconds, a second at least.
    pub fn too_many(wait: i64) -> Refusal {
        let seconds = (wait / 1_000_000).max(1).to_string();
        Refusal::detail(StatusCode::TOO_MANY_REQUESTS, "Too many requests.").header(header::RETRY_AFTER, &seconds)
    }
    /// Adds a header.
    pub fn header(mut self, name: HeaderName, value: &str) -> Refusal {
        self.headers.extend(HeaderValue::from_str(value).ok().map(|value| (name, value)));
        self
    }
}

impl From<Errors> for Refusal {
    fn from(errors: Errors) -> Self {
        Refusal { status: StatusCode::BAD_REQUEST, body: errors.to_json(), headers: Vec::new(), cause: None }
    }
}

impl From<SelectError> for Refusal {
    fn from(wrong: SelectError) -> Self {
        Refusal { status: StatusCode::BAD_REQUEST, body: wrong.to_json(), headers: Vec::new(), cause: None }
    }
}

impl From<store::Error> for Refusal {
    fn from(error: store::Error) -> Self {
        let mut refusal = match &error {
            store::Error::Slow => Refusal::busy("The query takes too long."),
            store::Error::Busy => Refusal::busy("The server is busy. Please try again."),
            store::Error::Full => Refusal::busy("The storage is full."),
            store::Error::Unavailable(_) | store::Error::InUse => Refusal::busy("The storage is not available."),
            store::Error::Missing => Refusal::not_found(),
            _ => Refusal::detail(StatusCode::INTERNAL_SERVER_ERROR, "Internal server error."),
        };
        refusal.cause = Some(Box::new(error));
        refusal
    }
}

impl From<crate::password::Busy> for Refusal {
    fn from(_: crate::password::Busy) -> Self {
        Refusal::busy("The server is busy. Please try again.")
    }
}
