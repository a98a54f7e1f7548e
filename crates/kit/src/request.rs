//! A request as handlers see it: who calls, what was received, and what is left to do when its write is committed.

use crate::answer::{Answer, Tag};
use crate::app::App;
use crate::authenticate::Admission;
use crate::build::Build;
use crate::caller::{Caller, Requirement};
use crate::path::PathValue;
use crate::refusal::Refusal;
use http::{HeaderMap, Method, StatusCode, header};
use resource::{Body, Errors, Object, Query, Sent, message};
use std::cell::RefCell;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;

/// How many names that a route does not declare are told at most.
const MAX_UNDECLARED: usize = 100;

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
    /// The build that the host names, or on a route of the deployment the path.
    pub build: Arc<Build>,
    /// What the route asks of its caller.
    pub requirement: Requirement,
    /// The members of a body that the route declares; `None`: any.
    pub declared_names: Option<&'static [String]>,
    /// The values of the path, in order.
    pub path_values: Vec<PathValue>,
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
    /// By what the caller was admitted; `None` on public routes.
    pub admission: Option<Admission>,
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

/// Something to be done after a commit.
pub type AfterCommit = fn(&App, &Arc<Build>);

/// What a write leaves to be done once it is committed.
#[derive(Default)]
pub struct Effects {
    rights: AtomicI64,
    after_commit: Mutex<Vec<AfterCommit>>,
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
    /// Does something after the commit, once, however often it is asked for.
    pub fn after_commit(&self, work: AfterCommit) {
        let mut all = self.after_commit.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.iter().any(|known| std::ptr::fn_addr_eq(*known, work)) {
            all.push(work);
        }
    }
    /// The version of the rights and what is to be done, once.
    pub(crate) fn take(&self) -> (i64, Vec<AfterCommit>) {
        let mut all = self.after_commit.lock().unwrap_or_else(PoisonError::into_inner);
        (self.rights.swap(0, Ordering::Relaxed), std::mem::take(&mut *all))
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
        self.ids().next().unwrap_or(0)
    }
    /// The second id of the path.
    pub fn second_id(&self) -> i64 {
        self.ids().nth(1).unwrap_or(0)
    }
    fn ids(&self) -> impl Iterator<Item = i64> {
        self.path_values.iter().filter_map(PathValue::integer)
    }
    /// The uuid of the path.
    pub fn uuid(&self) -> Uuid {
        self.path_values.iter().find_map(PathValue::uuid).unwrap_or_default()
    }
    /// The name, domain or rest of the path.
    pub fn name(&self) -> &str {
        self.path_values.iter().find_map(PathValue::text).unwrap_or("")
    }
    fn body(&self) -> Result<Sent<'_>, Refusal> {
        let body = self.body.as_ref().map_err(|(status, detail)| Refusal::detail(*status, detail.clone()))?;
        Ok(body.sent())
    }
    /// The body as an object, with the members that the route declares.
    pub fn object(&self) -> Result<Object<'_>, Refusal> {
        let (body, declared) = (self.body()?, self.declared_names);
        let is_declared = |name: &str| declared.is_none_or(|names| names.iter().any(|known| known == name));
        let wrong = || Refusal::field("non_field_errors", message::not_an_object(body.type_name()));
        body.as_object(is_declared).ok_or_else(wrong)
    }
    /// The names in the body that the route does not declare, each once, at most [`MAX_UNDECLARED`] of them.
    pub fn undeclared(&self) -> Result<Vec<String>, Refusal> {
        let names = RefCell::new(Vec::<String>::new());
        if let Some(declared) = self.declared_names {
            self.body()?.as_object(|name| {
                let mut names = names.borrow_mut();
                let is_known = |name: &str| declared.iter().chain(names.iter()).any(|known| known == name);
                if names.len() < MAX_UNDECLARED && !is_known(name) {
                    names.push(name.to_owned());
                }
                false
            });
        }
        Ok(names.into_inner())
    }
    /// The texts of a body that must all be there; every missing one is named.
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
    /// Whether a read is answered with the state that the client names in `If-None-Match`, so that it has it already.
    pub fn knows(&self, answer: &Answer) -> bool {
        let is_read = self.method == Method::GET || self.method == Method::HEAD;
        let is_shown = is_read && answer.status == StatusCode::OK;
        is_shown && answer.tag.is_some_and(|tag| tag.is_named_by_if_none_match(&self.headers))
    }
    /// Refuses when `If-Match` names another state than the current one (document 4, section 2).
    pub fn check_if_match(&self, current: impl FnOnce() -> Result<Tag, Refusal>) -> Result<(), Refusal> {
        if !self.headers.contains_key(header::IF_MATCH) || current()?.is_named_by_if_match(&self.headers) {
            return Ok(());
        }
        Err(Refusal::detail(StatusCode::PRECONDITION_FAILED, "Object has been changed."))
    }
}
