//! Answers and refusals: `{"detail": "…"}` for a refusal, a list of problems for 422 (`docs/reference/history.md`).

use crate::engine::{self, MAX_PAGE_BYTES};
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;
use serde_json::json;
use web::content::BodyContent;
use web::pace::{IN_MEMORY, Pace};
use web::shares::Permit;
use web::tag::{EntityTag, etag};
use web::viewer::ViewerAnswer;

/// The outcome of a handler.
pub type HistoryOutcome = Result<HistoryReply, HistoryRefusal>;

/// An answer.
#[derive(Debug)]
pub struct HistoryReply {
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
    tag: Option<EntityTag>,
    /// The minimum pace at which the client must read it.
    pace: Option<Box<Pace>>,
}

impl From<ViewerAnswer> for HistoryReply {
    fn from(served: ViewerAnswer) -> HistoryReply {
        let ViewerAnswer { content_type, tag, mut headers, body } = served;
        headers.push((header::CONTENT_TYPE, HeaderValue::from_static(content_type)));
        HistoryReply { headers, tag, ..HistoryReply::json_bytes(StatusCode::OK, body) }
    }
}

impl HistoryReply {
    /// Creates an answer with a JSON body.
    pub fn json(status: StatusCode, value: &impl Serialize) -> HistoryReply {
        // All keys are texts, so this cannot fail.
        HistoryReply::json_bytes(status, serde_json::to_vec(value).unwrap_or_default())
    }

    /// Creates an answer with a body that is JSON already.
    pub fn json_bytes(status: StatusCode, body: impl Into<Bytes>) -> HistoryReply {
        HistoryReply { status, headers: Vec::new(), body: body.into(), tag: None, pace: None }
    }

    /// Creates a 204.
    pub fn empty() -> HistoryReply {
        HistoryReply::json_bytes(StatusCode::NO_CONTENT, Bytes::new())
    }

    /// Creates a 302.
    pub fn redirect(address: &str) -> HistoryReply {
        let location = HeaderValue::from_str(address).ok().map(|address| (header::LOCATION, address));
        HistoryReply {
            headers: location.into_iter().collect(),
            ..HistoryReply::json_bytes(StatusCode::FOUND, Bytes::new())
        }
    }

    /// Returns the answer with one more header.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: &str) -> HistoryReply {
        self.headers.extend(HeaderValue::from_str(value).ok().map(|value| (name, value)));
        self
    }

    /// The length of its body in bytes.
    pub(crate) fn length(&self) -> usize {
        self.body.len()
    }

    /// Returns the answer with the permit for its memory, which it owns until it is sent.
    #[must_use]
    pub(crate) fn with_permit(mut self, permit: Permit) -> HistoryReply {
        self.pace = Some(Box::new(Pace { demand: permit.demand(), rates: IN_MEMORY }));
        self.body = permit.attach_to(self.body);
        self
    }

    /// Returns the answer with an `ETag` of its body.
    #[must_use]
    pub fn with_etag(mut self) -> HistoryReply {
        self.tag = Some(etag(&self.body));
        self
    }

    /// Returns the answer to a read with these request headers. It is 304 if they name the state of this answer.
    #[must_use]
    pub(crate) fn unless_known(self, headers: &HeaderMap) -> HistoryReply {
        let is_known = self.tag.is_some_and(|tag| tag.is_named_by_if_none_match(headers));
        if is_known { HistoryReply { status: StatusCode::NOT_MODIFIED, body: Bytes::new(), ..self } } else { self }
    }

    pub(crate) fn into_response(self) -> Response<BodyContent> {
        let has_type = !self.body.is_empty() || self.status == StatusCode::NOT_MODIFIED;
        let mut response = Response::new(BodyContent::from(Full::new(self.body)));
        *response.status_mut() = self.status;
        if let Some(pace) = self.pace {
            response.extensions_mut().insert(*pace);
        }
        let headers = response.headers_mut();
        headers.extend(self.headers.into_iter().map(|(name, value)| (Some(name), value)));
        if has_type {
            headers.entry(header::CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        }
        headers.extend(
            self.tag.and_then(|tag| HeaderValue::try_from(tag.to_string()).ok()).map(|tag| (header::ETAG, tag)),
        );
        // Redirects contain signed addresses, too.
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        response
    }
}

/// The refusal of a request.
#[derive(Debug)]
pub struct HistoryRefusal {
    reply: HistoryReply,
    /// The cause for the log, which is not part of the answer.
    pub cause: Option<String>,
}

impl HistoryRefusal {
    /// `{"detail": …}`
    pub fn new(status: StatusCode, detail: &str) -> HistoryRefusal {
        let reply = HistoryReply::json(status, &json!({"detail": detail}));
        let is_temporary = status == StatusCode::SERVICE_UNAVAILABLE;
        let reply = if is_temporary { reply.with_header(header::RETRY_AFTER, "1") } else { reply };
        HistoryRefusal { reply, cause: None }
    }

    /// 400
    pub fn bad_request(detail: &str) -> HistoryRefusal {
        HistoryRefusal::new(StatusCode::BAD_REQUEST, detail)
    }

    /// 404
    pub fn not_found() -> HistoryRefusal {
        HistoryRefusal::new(StatusCode::NOT_FOUND, "Not found.")
    }

    /// Creates a 400 for a header `X-Client-Id` that is missing or not a UUID of version 4.
    pub fn unauthorized_client() -> HistoryRefusal {
        HistoryRefusal::bad_request("Unauthorized Client.")
    }

    /// Creates a 400 for an unknown tenant, at writes of events or files.
    pub fn tenant_not_found(name: &str) -> HistoryRefusal {
        HistoryRefusal::bad_request(&format!("{name} tenant not found in database."))
    }

    /// Creates a 400 for an unknown tenant, at reads of events or the deletion of a tenant.
    pub fn tenant_unavailable() -> HistoryRefusal {
        HistoryRefusal::bad_request("Failed to connect to tenant db.")
    }

    /// 500 with a cause for the log
    pub fn internal_error(detail: &str, cause: &str) -> HistoryRefusal {
        HistoryRefusal {
            cause: Some(cause.to_owned()),
            ..HistoryRefusal::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
        }
    }

    /// 503 with a cause for the log
    pub fn unavailable(detail: &str, cause: String) -> HistoryRefusal {
        HistoryRefusal { cause: Some(cause), ..HistoryRefusal::new(StatusCode::SERVICE_UNAVAILABLE, detail) }
    }

    /// Translates an engine's error: 503 if a later attempt may succeed, otherwise 500 with the detail `failed`.
    pub fn engine(
        error: engine::EngineError,
        failed: &str,
        no_tenant: impl FnOnce() -> HistoryRefusal,
    ) -> HistoryRefusal {
        match error {
            engine::EngineError::NoTenant => no_tenant(),
            engine::EngineError::Unavailable(cause) => HistoryRefusal::unavailable(ENGINE_UNAVAILABLE, cause),
            engine::EngineError::Failed(cause) => HistoryRefusal::internal_error(failed, &cause),
            error @ engine::EngineError::PageTooLarge => HistoryRefusal::internal_error(failed, &error.to_string()),
        }
    }

    /// Translates an engine's error at a read of events or tenants.
    pub fn unreadable(error: engine::EngineError) -> HistoryRefusal {
        if error == engine::EngineError::PageTooLarge {
            let mut problems = Problems::default();
            problems
                .add(&[PathStep::Name("query"), PathStep::Name("limit")], Problem::PageTooLarge(MAX_PAGE_BYTES >> 20));
            return problems.into();
        }
        HistoryRefusal::engine(error, "Failed to read events.", HistoryRefusal::tenant_unavailable)
    }

    /// Returns the status and the body.
    pub fn status_and_body(&self) -> (StatusCode, &[u8]) {
        (self.reply.status, &self.reply.body)
    }

    pub(crate) fn into_reply(self) -> HistoryReply {
        self.reply
    }
}

/// The detail of a 503 of either engine.
const ENGINE_UNAVAILABLE: &str = "ClickHouse temporarily unavailable.";

impl From<Problems> for HistoryRefusal {
    fn from(problems: Problems) -> HistoryRefusal {
        let detail = json!({"detail": problems.0});
        HistoryRefusal { reply: HistoryReply::json(StatusCode::UNPROCESSABLE_ENTITY, &detail), cause: None }
    }
}

/// A step of the path from the request to a wrong value.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum PathStep<'a> {
    /// The field of an object.
    Name(&'a str),
    /// The place in an array.
    Index(usize),
}

/// The maximum number of problems in an answer: a small body can have millions.
pub const MAX_PROBLEMS: usize = 1000;

/// All problems with the values of a request, up to [`MAX_PROBLEMS`].
#[derive(Debug, Default)]
pub struct Problems(Vec<serde_json::Value>);

impl Problems {
    pub fn add(&mut self, place: &[PathStep<'_>], problem: Problem) {
        if self.0.len() == MAX_PROBLEMS {
            return;
        }
        let (message, kind) = problem.message_and_type();
        self.0.push(json!({"loc": place, "msg": message, "type": kind}));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A problem with a value. Numbers are the limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Problem {
    Missing,
    Null,
    NotAnObject,
    NotAList,
    NotAString,
    NotAnInteger,
    NotAUuid,
    NotADateTime,
    NotAMember,
    NotJson,
    NoMatch,
    TooManyItems(usize),
    TooManyFilters(usize),
    TooLong(usize),
    /// The limit in MiB.
    PageTooLarge(usize),
    Below(i64),
    Above(i64),
    NoSuchPredicate,
}

impl Problem {
    /// Returns the message and the type.
    fn message_and_type(self) -> (String, &'static str) {
        let (message, kind) = match self {
            Problem::Missing => ("field required", "value_error.missing"),
            Problem::Null => ("none is not an allowed value", "type_error.none.not_allowed"),
            Problem::NotAnObject => ("value is not a valid dict", "type_error.dict"),
            Problem::NotAList => ("value is not a valid list", "type_error.list"),
            Problem::NotAString => ("str type expected", "type_error.str"),
            Problem::NotAnInteger => ("value is not a valid integer", "type_error.integer"),
            Problem::NotAUuid => ("value is not a valid uuid", "type_error.uuid"),
            Problem::NotADateTime => ("invalid datetime format", "value_error.datetime"),
            Problem::NotAMember => ("value is not a valid enumeration member", "type_error.enum"),
            Problem::NotJson => ("invalid JSON", "value_error.json"),
            Problem::NoMatch => ("string does not match regex", "value_error.str.regex"),
            Problem::NoSuchPredicate => ("unknown predicate", "value_error.predicate"),
            Problem::TooManyItems(n) => {
                return (format!("ensure this value has at most {n} items"), "value_error.list.max_items");
            }
            Problem::TooManyFilters(n) => {
                return (format!("ensure that there are at most {n} filters"), "value_error.filters.max_items");
            }
            Problem::TooLong(n) => {
                return (format!("ensure this value has at most {n} characters"), "value_error.any_str.max_length");
            }
            Problem::PageTooLarge(mebibytes) => {
                return (format!("ensure that the page has at most {mebibytes} MiB"), "value_error.page.too_large");
            }
            Problem::Below(n) => {
                return (format!("ensure this value is greater than or equal to {n}"), "value_error.number.not_ge");
            }
            Problem::Above(n) => {
                return (format!("ensure this value is less than or equal to {n}"), "value_error.number.not_le");
            }
        };
        (message.to_owned(), kind)
    }
}
