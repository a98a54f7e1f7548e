//! What the service answers: documented shapes, `{"detail": "…"}` for refusals, a validation list for 422 (document 3,
//! "History service"; document 4, section 6, row "errors").

use crate::engine;
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;
use serde_json::json;
use web::content::Content;

/// An answer, or why there is none.
pub type Outcome = Result<Reply, Refusal>;

/// An answer.
#[derive(Debug)]
pub struct Reply {
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Vec<u8>,
}

impl Reply {
    /// With a JSON body.
    pub fn json(status: StatusCode, value: &impl Serialize) -> Reply {
        // What is shown has string keys only, so this cannot fail.
        Reply { status, headers: Vec::new(), body: serde_json::to_vec(value).unwrap_or_default() }
    }

    /// With a JSON body that is written already.
    pub fn written(status: StatusCode, body: Vec<u8>) -> Reply {
        Reply { status, headers: Vec::new(), body }
    }

    /// 204.
    pub fn empty() -> Reply {
        Reply { status: StatusCode::NO_CONTENT, headers: Vec::new(), body: Vec::new() }
    }

    /// 302. The address may be a key to a file, so that no cache may keep it.
    pub fn redirect(address: &str) -> Reply {
        let location = HeaderValue::from_str(address).ok().map(|address| (header::LOCATION, address));
        Reply { status: StatusCode::FOUND, headers: location.into_iter().collect(), body: Vec::new() }
    }

    /// With one more header.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: &str) -> Reply {
        self.headers.extend(HeaderValue::from_str(value).ok().map(|value| (name, value)));
        self
    }

    pub(crate) fn into_response(self) -> Response<Content> {
        let has_body = !self.body.is_empty();
        let mut response = Response::new(Content::from(Full::new(Bytes::from(self.body))));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.extend(self.headers.into_iter().map(|(name, value)| (Some(name), value)));
        if has_body {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// Why a request is refused.
#[derive(Debug)]
pub struct Refusal {
    reply: Reply,
    /// What the log should tell and the caller should not.
    pub cause: Option<String>,
}

impl Refusal {
    /// `{"detail": …}`
    pub fn new(status: StatusCode, detail: &str) -> Refusal {
        let reply = Reply::json(status, &json!({"detail": detail}));
        // What is not possible now may be in a moment.
        let is_passing = status == StatusCode::SERVICE_UNAVAILABLE;
        let reply = if is_passing { reply.with(header::RETRY_AFTER, "1") } else { reply };
        Refusal { reply, cause: None }
    }

    /// 400
    pub fn bad(detail: &str) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, detail)
    }

    /// 404
    pub fn not_found() -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, "Not found.")
    }

    /// 400, a header `X-Client-Id` that is missing or no UUID v4.
    pub fn unauthorized_client() -> Refusal {
        Refusal::bad("Unauthorized Client.")
    }

    /// 400, a tenant that is unknown to what writes.
    pub fn no_tenant(name: &str) -> Refusal {
        Refusal::bad(&format!("{name} tenant not found in database."))
    }

    /// 400, a tenant that is unknown to what reads or deletes.
    pub fn no_connection() -> Refusal {
        Refusal::bad("Failed to connect to tenant db.")
    }

    /// 500, with a cause for the log.
    pub fn failed(detail: &str, cause: &str) -> Refusal {
        Refusal { cause: Some(cause.to_owned()), ..Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, detail) }
    }

    /// 503, with a cause for the log.
    pub fn unavailable(detail: &str, cause: String) -> Refusal {
        Refusal { cause: Some(cause), ..Refusal::new(StatusCode::SERVICE_UNAVAILABLE, detail) }
    }

    /// What an engine could not do: 503 if it may be able to later, else 500 with `failed`.
    pub fn engine(error: engine::Error, failed: &str, no_tenant: impl FnOnce() -> Refusal) -> Refusal {
        match error {
            engine::Error::NoTenant => no_tenant(),
            engine::Error::Unavailable(cause) => Refusal::unavailable(OUTAGE, cause),
            engine::Error::Failed(cause) => Refusal::failed(failed, &cause),
            error @ engine::Error::PageTooLarge => Refusal::failed(failed, &error.to_string()),
        }
    }

    /// Its status and its body.
    pub fn told(&self) -> (StatusCode, &[u8]) {
        (self.reply.status, &self.reply.body)
    }

    pub(crate) fn into_reply(self) -> Reply {
        self.reply
    }
}

/// 503 on either engine; the words are document 3's.
const OUTAGE: &str = "ClickHouse temporarily unavailable.";

impl From<Problems> for Refusal {
    fn from(problems: Problems) -> Refusal {
        let detail = json!({"detail": problems.0});
        Refusal { reply: Reply::json(StatusCode::UNPROCESSABLE_ENTITY, &detail), cause: None }
    }
}

/// A step on the way to a wrong value.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Step<'a> {
    /// Of an object.
    Name(&'a str),
    /// Of an array.
    Index(usize),
}

/// How many problems are told: a small body can have millions.
const TOLD: usize = 1000;

/// What is wrong with a request, everything at once, up to [`TOLD`] problems.
#[derive(Debug, Default)]
pub struct Problems(Vec<serde_json::Value>);

impl Problems {
    /// Adds one.
    pub fn add(&mut self, place: &[Step<'_>], problem: Problem) {
        if self.0.len() == TOLD {
            return;
        }
        let (message, kind) = problem.words();
        self.0.push(json!({"loc": place, "msg": message, "type": kind}));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The kinds of problems, in the words of document 3.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the words say it")]
pub enum Problem {
    Missing,
    Null,
    NotAnObject,
    NotAList,
    NotAString,
    NotAnInteger,
    NotAUuid,
    NotAMoment,
    NotAMember,
    NotJson,
    NoMatch,
    TooManyItems(usize),
    TooManyFilters(usize),
    TooLong(usize),
    PageTooLarge(usize),
    Below(i64),
    Above(i64),
    NoSuchPredicate,
}

impl Problem {
    /// The message and its type.
    fn words(self) -> (String, &'static str) {
        let (message, kind) = match self {
            Problem::Missing => ("field required", "value_error.missing"),
            Problem::Null => ("none is not an allowed value", "type_error.none.not_allowed"),
            Problem::NotAnObject => ("value is not a valid dict", "type_error.dict"),
            Problem::NotAList => ("value is not a valid list", "type_error.list"),
            Problem::NotAString => ("str type expected", "type_error.str"),
            Problem::NotAnInteger => ("value is not a valid integer", "type_error.integer"),
            Problem::NotAUuid => ("value is not a valid uuid", "type_error.uuid"),
            Problem::NotAMoment => ("invalid datetime format", "value_error.datetime"),
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
