//! A request for handlers: the caller, the received parts, and the effects that follow the commit of its write.

use crate::answer::{Answer, EntityTag};
use crate::answer_room::AnswerRoom;
use crate::app::App;
use crate::authenticate::Admission;
use crate::build::Build;
use crate::caller::{Caller, Requirement, RouteAccess};
use crate::idempotency::key::RequestKey;
use crate::ids::{SequenceId, UserId};
use crate::path::PathValue;
use crate::rate_limit::{RateLimit, RateLimitState};
use crate::refusal::Refusal;
use http::{HeaderMap, Method, StatusCode, header};
use resource::{Errors, Id, JsonBody, JsonValue, Query, SentObject, message};
use std::cell::RefCell;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use uuid::Uuid;
use web::shares::{Permit, PermitHolder, ShareAccount};

/// The maximum number of undeclared names that [`Request::undeclared`] returns.
const MAX_UNDECLARED: usize = 100;

/// An authorised request: the caller and the received parts.
#[derive(Clone)]
pub struct Request {
    /// The caller with the current rights; `None` on public routes. A write checks them again at the start of its
    /// transaction.
    pub caller: Option<Arc<Caller>>,
    /// The author of a request without a caller: the field of its entries in the administration log, and its name.
    pub author: Option<(&'static str, Arc<str>)>,
    received: Arc<ReceivedRequest>,
}

/// The received parts of a request. They stay the same when its caller is read again.
pub struct ReceivedRequest {
    pub app: App,
    /// The build of the host; on a route of the deployment, the build of the path.
    pub build: Arc<Build>,
    /// The route's requirement on its caller.
    pub requirement: Requirement,
    /// The names of the body's members that the route declares; `None`: any.
    pub declared_names: Option<&'static [String]>,
    /// The values of the path, in order.
    pub path_values: Vec<PathValue>,
    pub method: Method,
    /// The path, as the client sent it.
    pub path: String,
    /// The parameters of the query string.
    pub query: Query,
    /// The JSON body, an empty object if none was sent; or the status and message of its error. The error
    /// is reported only when a handler requests the body: 404 and 403 come first.
    pub body: Result<JsonBody, (StatusCode, String)>,
    /// The memory reserved for the body, which is released with the request.
    pub room: Option<Permit>,
    /// The memory reserved for the answer.
    pub answer_room: AnswerRoom,
    pub headers: HeaderMap,
    /// The address of the client.
    pub address: IpAddr,
    /// Scheme and host of the request, for links to it.
    pub origin: String,
    /// The time at which the whole request had arrived, in microseconds since 1970.
    pub now: i64,
    /// The admission by which the caller was authenticated; `None` on public routes.
    pub admission: Option<Admission>,
    /// The effects that follow the commit of the write.
    pub effects: Effects,
    /// The `Idempotency-Key`; `None` if the request has none, or it has no effect.
    pub idempotency: Option<RequestKey>,
    /// The run of a sequence in whose name the request writes. Its caller is the account that lends its rights.
    pub run: Option<Arc<RunWriter>>,
}

/// A run of a sequence that writes (`docs/reference/sequences.md`).
#[derive(Clone, Debug, PartialEq)]
pub struct RunWriter {
    pub sequence: SequenceId,
    /// The name of the sequence.
    pub name: String,
    /// The uuid of the run.
    pub run: String,
    /// The uuid of the first run of its cause.
    pub cause: String,
    /// The number of runs between the first run of the cause and this one.
    pub depth: i64,
}

/// The ids of a batch before its first item that is not an id. One of these ids may be wrong too. Of
/// several errors, the first one in the order sent is reported (`docs/reference/conventions.md`).
pub struct BatchIds<I = i64> {
    /// The ids without repetitions, in the order sent.
    pub ids: Vec<I>,
    /// The error of the first item that is not an id.
    pub wrong: Option<String>,
}

impl<I> BatchIds<I> {
    /// Returns the ids, or a refusal for the item that is not an id. To be called after the check of the ids.
    pub fn finish(self) -> Result<Vec<I>, Refusal> {
        match self.wrong {
            Some(wrong) => Err(Refusal::bad_request(wrong)),
            None => Ok(self.ids),
        }
    }
}

/// A function that is called after a commit.
pub type AfterCommit = fn(&App, &Arc<Build>);
/// A closure that is called after a commit, with values of the write.
pub type AfterCommitWith = Box<dyn FnOnce(&App, &Arc<Build>) + Send>;

/// The effects of a write that follow its commit.
#[derive(Default)]
pub struct Effects {
    rights: AtomicI64,
    ends_object_rights: AtomicBool,
    caller_was_checked: AtomicBool,
    object_rights: AtomicI64,
    after_commit: Mutex<Vec<AfterCommit>>,
    rate_limit: Mutex<Option<RateLimitState>>,
    after_commit_with: Mutex<Vec<AfterCommitWith>>,
}

impl Effects {
    /// Records that the write raises the rights to this version. Callers that were cached under earlier ones are then stale.
    pub fn rights_changed(&self, version: i64) {
        self.rights.fetch_max(version, Ordering::Relaxed);
    }
    /// Returns the version to which the write has raised the rights; 0 if it has not.
    pub fn raised_to(&self) -> i64 {
        self.rights.load(Ordering::Relaxed)
    }
    /// Records that the write revokes rights on single objects.
    pub fn set_ends_object_rights(&self) {
        self.ends_object_rights.store(true, Ordering::Relaxed);
    }
    /// Returns whether the write revokes rights on single objects.
    pub fn ends_object_rights(&self) -> bool {
        self.ends_object_rights.load(Ordering::Relaxed)
    }
    /// Records that the caller was checked again before the write ended the caller's session. A later check is impossible.
    pub(crate) fn set_caller_was_checked(&self) {
        self.caller_was_checked.store(true, Ordering::Relaxed);
    }
    /// Stores the version of the rights on single objects with which the write begins.
    pub(crate) fn set_object_rights(&self, version: i64) {
        self.object_rights.store(version, Ordering::Relaxed);
    }
    /// Returns the version of the rights on single objects with which the write began.
    pub(crate) fn object_rights(&self) -> i64 {
        self.object_rights.load(Ordering::Relaxed)
    }
    /// Returns whether the caller was checked again.
    pub(crate) fn caller_was_checked(&self) -> bool {
        self.caller_was_checked.load(Ordering::Relaxed)
    }
    /// Sets the state of the rate limit by which the request was counted. Its answer reports it, refusals too.
    pub fn set_rate_limit(&self, state: RateLimitState) {
        *web::lock(&self.rate_limit) = Some(state);
    }
    /// Returns the state of the rate limit by which the request was counted.
    pub(crate) fn rate_limit(&self) -> Option<RateLimitState> {
        *web::lock(&self.rate_limit)
    }
    /// Registers a function that is called after the commit: once, even if it is registered several times.
    pub fn after_commit(&self, work: AfterCommit) {
        let mut pending_work = web::lock(&self.after_commit);
        if !pending_work.iter().any(|queued| std::ptr::fn_addr_eq(*queued, work)) {
            pending_work.push(work);
        }
    }
    /// Registers a closure that is called after the commit.
    pub fn after_commit_with(&self, work: AfterCommitWith) {
        web::lock(&self.after_commit_with).push(work);
    }
    /// Adds the effects of an inner call that wrote in the same transaction.
    pub fn merge(&self, inner: &Effects) {
        let (raised, ends) = (inner.raised_to(), inner.ends_object_rights());
        let with = inner.take_closures();
        let (_, work) = inner.take_effects();
        self.rights_changed(raised);
        if ends {
            self.set_ends_object_rights();
        }
        work.into_iter().for_each(|work| self.after_commit(work));
        with.into_iter().for_each(|work| self.after_commit_with(work));
    }
    /// Returns the closures to call, and removes them.
    pub(crate) fn take_closures(&self) -> Vec<AfterCommitWith> {
        std::mem::take(&mut *web::lock(&self.after_commit_with))
    }
    /// Returns the raised version of the rights (0: none) and the functions to call, and resets the effects.
    pub(crate) fn take_effects(&self) -> (i64, Vec<AfterCommit>) {
        let mut pending_work = web::lock(&self.after_commit);
        self.ends_object_rights.store(false, Ordering::Relaxed);
        self.caller_was_checked.store(false, Ordering::Relaxed);
        (self.rights.swap(0, Ordering::Relaxed), std::mem::take(&mut *pending_work))
    }
}

impl Deref for Request {
    type Target = ReceivedRequest;
    fn deref(&self) -> &ReceivedRequest {
        &self.received
    }
}

impl Request {
    /// Returns a request of this caller.
    pub fn new(caller: Option<Arc<Caller>>, received: ReceivedRequest) -> Request {
        Request { caller, author: None, received: Arc::new(received) }
    }
    /// Returns a request for a job that works for an account, as if the account had sent it now. Its rights
    /// are those that were read; it has no session that could end.
    pub fn for_job(app: &App, build: &Arc<Build>, caller: Caller) -> Request {
        Request::for_system(app, build).with_caller(Arc::new(caller))
    }
    /// Returns a request for work of the system, without a caller, as if it was sent now.
    pub fn for_system(app: &App, build: &Arc<Build>) -> Request {
        let request_parts = ReceivedRequest {
            app: app.clone(),
            build: build.clone(),
            requirement: Requirement {
                access: RouteAccess::Authenticated,
                while_expired: true,
                while_lacking_factor: true,
                for_narrowed: true,
                for_keys: true,
            },
            declared_names: None,
            path_values: Vec::new(),
            method: Method::POST,
            path: String::new(),
            query: Query::parse(""),
            body: Ok(JsonBody::from_json(&serde_json::Value::Null)),
            room: None,
            answer_room: AnswerRoom::default(),
            headers: HeaderMap::new(),
            address: IpAddr::from([0, 0, 0, 0]),
            origin: String::new(),
            now: app.clock.now(),
            admission: None,
            effects: Effects::default(),
            idempotency: None,
            run: None,
        };
        Request::new(None, request_parts)
    }
    /// Returns the same request with its caller read again.
    pub fn with_caller(&self, caller: Arc<Caller>) -> Request {
        Request { caller: Some(caller), author: None, received: self.received.clone() }
    }
    /// Returns a request of the same caller that writes in the name of a run, with effects of its own.
    pub fn for_run(&self, run: Arc<RunWriter>) -> Request {
        let system = Request::for_system(&self.app, &self.build);
        let Ok(received) = Arc::try_unwrap(system.received) else { return self.clone() };
        let received = ReceivedRequest { run: Some(run), now: self.now, ..received };
        Request { caller: self.caller.clone(), author: None, received: Arc::new(received) }
    }
    /// Returns the same request without a caller. Its entries in the administration log name an author in a field.
    pub fn without_caller(&self, field: &'static str, author: &str) -> Request {
        Request { caller: None, author: Some((field, author.into())), received: self.received.clone() }
    }
    /// Returns the holder of the request's shared permits: its caller, else the network of its address.
    pub fn holder(&self) -> PermitHolder {
        let account = match &self.caller {
            Some(caller) => ShareAccount::Id(caller.user.get()),
            None => ShareAccount::from_address(self.address),
        };
        self.build.holder(account)
    }
    /// Counts a call by a rate limit, which the answer then reports. `used` are the calls of the period without this one, `first` the
    /// time of the earliest of them, in microseconds since 1970.
    ///
    /// # Errors
    /// 429 if all calls are used.
    pub fn count_call(&self, limit: &'static RateLimit, used: i64, first: i64) -> Result<(), Refusal> {
        let first = if used == 0 { self.now } else { first };
        let wait = first + limit.seconds * 1_000_000 - self.now;
        self.effects.set_rate_limit(limit.state(used + 1, wait));
        if used >= limit.most { Err(Refusal::too_many(wait)) } else { Ok(()) }
    }
    /// Returns the caller; 401 if there is none.
    pub fn caller(&self) -> Result<&Caller, Refusal> {
        self.caller.as_deref().ok_or_else(Refusal::unauthenticated)
    }
    /// Returns the account that audit fields name as the author of what the request writes: its caller, and nobody for the run of a
    /// sequence.
    pub fn writer(&self) -> Option<UserId> {
        if self.run.is_some() { None } else { self.caller.as_ref().map(|caller| caller.user) }
    }
    /// Returns the first id in the path as an id of the resource that the route names, 0 if there is none.
    pub fn id<I: Id>(&self) -> I {
        I::from_number(self.ids().next().unwrap_or(0))
    }
    /// Returns the second id in the path, 0 if there is none. See [`Request::id`].
    pub fn second_id<I: Id>(&self) -> I {
        I::from_number(self.ids().nth(1).unwrap_or(0))
    }
    fn ids(&self) -> impl Iterator<Item = i64> {
        self.path_values.iter().filter_map(PathValue::integer)
    }
    /// Returns the uuid in the path.
    pub fn uuid(&self) -> Uuid {
        self.path_values.iter().find_map(PathValue::uuid).unwrap_or_default()
    }
    /// Returns the first text value in the path: a name, a domain or the rest.
    pub fn name(&self) -> &str {
        self.path_values.iter().find_map(PathValue::text).unwrap_or("")
    }
    fn body(&self) -> Result<JsonValue<'_>, Refusal> {
        let body = self.body.as_ref().map_err(|(status, detail)| Refusal::detail(*status, detail.clone()))?;
        Ok(body.as_value())
    }
    /// Returns the text of the body, which is JSON.
    pub fn sent_text(&self) -> Result<&str, Refusal> {
        Ok(self.body()?.text())
    }
    /// Returns the body as an object of the members that the route declares.
    pub fn object(&self) -> Result<SentObject<'_>, Refusal> {
        let (body, declared) = (self.body()?, self.declared_names);
        let is_declared =
            |name: &str| declared.is_none_or(|names| names.iter().any(|declared_name| declared_name == name));
        let wrong = || Refusal::field("non_field_errors", message::not_an_object(body.type_name()));
        body.as_object(is_declared).ok_or_else(wrong)
    }
    /// Returns the names in the body that the route does not declare, without repetitions, at most [`MAX_UNDECLARED`].
    pub fn undeclared(&self) -> Result<Vec<String>, Refusal> {
        let names = RefCell::new(Vec::<String>::new());
        if let Some(declared) = self.declared_names {
            self.body()?.as_object(|name| {
                let mut names = names.borrow_mut();
                let is_known =
                    |name: &str| declared.iter().chain(names.iter()).any(|declared_name| declared_name == name);
                if names.len() < MAX_UNDECLARED && !is_known(name) {
                    names.push(name.to_owned());
                }
                false
            });
        }
        Ok(names.into_inner())
    }
    /// Returns the required texts of a body. The refusal names every missing or wrong one.
    pub fn texts<const N: usize>(&self, names: [&'static str; N]) -> Result<[String; N], Refusal> {
        let body = self.object()?;
        let mut errors = Errors::new();
        let texts = names.map(|name| match body.get(name) {
            None => {
                errors.add(name, message::REQUIRED);
                String::new()
            }
            Some(value) if value.is_null() => {
                errors.add(name, message::NULL);
                String::new()
            }
            Some(value) => match value.as_str() {
                None => {
                    errors.add(name, message::STRING);
                    String::new()
                }
                Some(text) if text.is_empty() => {
                    errors.add(name, message::BLANK);
                    String::new()
                }
                Some(text) if text.contains('\0') => {
                    errors.add(name, message::NUL);
                    String::new()
                }
                Some(text) => text.into_owned(),
            },
        });
        errors.refuse()?;
        Ok(texts)
    }
    /// Returns the body as a list of at most `max` different ids.
    pub fn batch<I: Id>(&self, max: usize) -> Result<BatchIds<I>, Refusal> {
        let body = self.body()?;
        let (ids, wrong) = resource::ids(body, max).map_err(Refusal::bad_request)?;
        Ok(BatchIds { ids, wrong })
    }
    /// Returns the caller's user agent, cut to 255 characters.
    pub fn user_agent(&self) -> String {
        let text = self.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or("");
        text.chars().take(255).collect()
    }
    /// Returns whether the client already has the state that this answer to a read shows (`If-None-Match`).
    pub fn is_up_to_date(&self, answer: &Answer) -> bool {
        let is_read = self.method == Method::GET || self.method == Method::HEAD;
        let is_shown = is_read && answer.status == StatusCode::OK;
        is_shown && answer.tag.is_some_and(|tag| tag.is_named_by_if_none_match(&self.headers))
    }

    /// Refuses with 412 if `If-Match` names another state than the current one (`docs/reference/conventions.md`).
    pub fn check_if_match(&self, current: impl FnOnce() -> Result<EntityTag, Refusal>) -> Result<(), Refusal> {
        if !self.headers.contains_key(header::IF_MATCH) || current()?.is_named_by_if_match(&self.headers) {
            return Ok(());
        }
        Err(Refusal::detail(StatusCode::PRECONDITION_FAILED, "Object has been changed."))
    }
}
