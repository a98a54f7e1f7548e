//! Refusals: answers with a status of 400 or above.

use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use resource::openapi::{object, titled};
use resource::{Errors, SelectError, message};
use serde_json::{Value as Json, json};

/// The `error_code` of a refusal by a limit.
pub const LIMIT_EXCEEDED: &str = "ERR_LIMIT_EXCEEDED";

/// The reason for which a refused transaction runs again.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RetryReason {
    /// See [`Refusal::outdated`].
    Outdated,
    /// See [`Refusal::without_room`].
    Room,
    /// See [`Refusal::meets_used_key`].
    UsedKey,
}

/// The reason of a refusal.
#[derive(Clone, Debug, PartialEq)]
pub enum RefusalReason {
    /// A sentence about the request.
    Detail(String),
    /// A sentence about a limit on the number of something.
    Limit(String),
    /// The same as an answer of single sign-on has it: as a list of one, without `error_code`.
    LimitAsList(String),
    /// A sentence about the request, with a name of the error in the protocol of the route.
    Coded { code: &'static str, detail: String },
    /// The errors of fields or parameters.
    Errors(Errors),
}

impl RefusalReason {
    /// The body of the answer.
    pub fn to_json(&self) -> Json {
        match self {
            RefusalReason::Detail(detail) | RefusalReason::Coded { detail, .. } => json!({"detail": detail}),
            RefusalReason::Limit(detail) => json!({"detail": detail, "error_code": LIMIT_EXCEEDED}),
            RefusalReason::LimitAsList(detail) => json!({"detail": [detail]}),
            RefusalReason::Errors(errors) => errors.to_json(),
        }
    }

    /// The sentence about the request as a whole.
    pub fn detail(&self) -> Option<&str> {
        match self {
            RefusalReason::Detail(detail)
            | RefusalReason::Coded { detail, .. }
            | RefusalReason::Limit(detail)
            | RefusalReason::LimitAsList(detail) => Some(detail),
            RefusalReason::Errors(_) => None,
        }
    }

    /// All messages, for people.
    pub fn messages(&self) -> Vec<String> {
        match self {
            RefusalReason::Errors(errors) => errors.messages(),
            _ => self.detail().map(str::to_owned).into_iter().collect(),
        }
    }
}

/// A refusal of a request: an answer with a status of 400 or above.
#[derive(Debug)]
pub struct Refusal {
    pub status: StatusCode,
    pub reason: RefusalReason,
    /// Headers in addition to those of every answer.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The error of the store, which is logged and not sent.
    pub cause: Option<Box<store::StoreError>>,
    /// The reason for which the work may have another outcome when it runs again.
    again: Option<RetryReason>,
}

impl Refusal {
    fn new(status: StatusCode, reason: RefusalReason) -> Refusal {
        Refusal { status, reason, headers: Vec::new(), cause: None, again: None }
    }
    /// A refusal whose body is `{"detail": …}`.
    pub fn detail(status: StatusCode, detail: impl Into<String>) -> Refusal {
        Refusal::new(status, RefusalReason::Detail(detail.into()))
    }
    /// A refusal with a name of the error, which the route renders in the form of its protocol.
    pub fn coded(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Refusal {
        Refusal::new(status, RefusalReason::Coded { code, detail: detail.into() })
    }
    /// 400 with `detail`.
    pub fn bad_request(detail: impl Into<String>) -> Refusal {
        Refusal::detail(StatusCode::BAD_REQUEST, detail)
    }
    /// 400 with one message on one field.
    pub fn field(field: &str, message: impl Into<String>) -> Refusal {
        Errors::single(field, message).into()
    }
    /// 400 with `error_code` (a count limit exceeded).
    pub fn limit(detail: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, RefusalReason::Limit(detail.into()))
    }
    /// Returns the text of a refusal by [`limit`](Self::limit).
    pub fn exceeded_limit(&self) -> Option<&str> {
        if let RefusalReason::Limit(detail) = &self.reason { Some(detail) } else { None }
    }
    /// The cause or the sentence of the refusal, in one line for logs and jobs.
    pub fn log_text(&self) -> String {
        match &self.cause {
            Some(cause) => cause.to_string(),
            None => self.reason.detail().unwrap_or("it was refused").to_owned(),
        }
    }
    /// The body of the answer.
    pub fn body(&self) -> Json {
        self.reason.to_json()
    }
    /// 401 when no credentials were sent.
    pub fn unauthenticated() -> Refusal {
        Refusal::unauthorised("Authentication credentials were not provided.")
    }
    /// 401 when the token is not valid.
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
    /// 405 with the allowed methods.
    pub fn method(method: &Method, allowed: &str) -> Refusal {
        Refusal::detail(StatusCode::METHOD_NOT_ALLOWED, format!("Method \"{method}\" not allowed."))
            .header(header::ALLOW, allowed)
    }
    /// 503 with `Retry-After`.
    pub fn service_busy(detail: &str) -> Refusal {
        Refusal::detail(StatusCode::SERVICE_UNAVAILABLE, detail).header(header::RETRY_AFTER, "1")
    }
    /// 503 when a shared permit does not become free in time.
    pub fn overloaded() -> Refusal {
        Refusal::service_busy("The server is busy. Please try again.")
    }
    /// 503 of work without memory for its answer. A client gets it only if none becomes free in time.
    pub(crate) fn without_room() -> Refusal {
        Refusal { again: Some(RetryReason::Room), ..Refusal::overloaded() }
    }
    /// Returns whether there was no memory for the answer, so that the work was undone.
    pub fn lacks_room(&self) -> bool {
        self.again == Some(RetryReason::Room)
    }
    /// 429 with a `Retry-After` of `wait` microseconds, at least a second.
    pub fn too_many(wait: i64) -> Refusal {
        let seconds = (wait / 1_000_000).max(1).to_string();
        Refusal::detail(StatusCode::TOO_MANY_REQUESTS, "Too many requests.").header(header::RETRY_AFTER, &seconds)
    }
    /// 503 of a write that was decided by rights that have changed since. A client gets it only if a second
    /// attempt has the same outcome.
    pub fn outdated() -> Refusal {
        Refusal { again: Some(RetryReason::Outdated), ..Refusal::overloaded() }
    }
    /// Marks a refusal as one of [`Refusal::meets_used_key`].
    pub(crate) fn with_used_key(self) -> Refusal {
        Refusal { again: Some(RetryReason::UsedKey), ..self }
    }
    /// Returns whether another process works on the request's `Idempotency-Key`, or has stored its answer.
    pub(crate) fn meets_used_key(&self) -> bool {
        self.again == Some(RetryReason::UsedKey)
    }
    /// Returns whether a rule refuses the request, not an error of the store.
    pub fn is_by_rule(&self) -> bool {
        self.cause.is_none()
    }
    /// Returns whether the transaction used outdated data, so that a second attempt may have another outcome.
    /// Rights or tables were changed since, or another transaction has committed a value that must be unique.
    pub fn is_outdated(&self) -> bool {
        let of_store =
            matches!(self.cause.as_deref(), Some(store::StoreError::SchemaChanged(_) | store::StoreError::Unique(_)));
        self.again == Some(RetryReason::Outdated) || of_store
    }
    /// Adds a header.
    pub fn header(mut self, name: HeaderName, value: &str) -> Refusal {
        self.headers.extend(HeaderValue::from_str(value).ok().map(|value| (name, value)));
        self
    }
}

impl From<Errors> for Refusal {
    fn from(errors: Errors) -> Self {
        Refusal::new(StatusCode::BAD_REQUEST, RefusalReason::Errors(errors))
    }
}

impl From<SelectError> for Refusal {
    fn from(error: SelectError) -> Self {
        match error {
            SelectError::TooManyFilters(most) => Refusal::bad_request(message::too_many_filters(most)),
            SelectError::Wrong(errors) => errors.into(),
        }
    }
}

impl From<store::StoreError> for Refusal {
    fn from(error: store::StoreError) -> Self {
        let mut refusal = match &error {
            store::StoreError::Slow => Refusal::service_busy("The query takes too long."),
            store::StoreError::Busy => Refusal::overloaded(),
            store::StoreError::Full => Refusal::service_busy("The storage is full."),
            store::StoreError::Unavailable(_) | store::StoreError::FileStore(_) | store::StoreError::InUse => {
                Refusal::service_busy("The storage is not available.")
            }
            store::StoreError::Missing => Refusal::not_found(),
            _ => Refusal::detail(StatusCode::INTERNAL_SERVER_ERROR, "Internal server error."),
        };
        refusal.cause = Some(Box::new(error));
        refusal
    }
}

/// Returns the schema of every refusal except 400.
pub fn schema() -> Json {
    titled("Refusal", object([("detail", json!({"type": "string", "description": "The reason, in a sentence"}))]))
}

/// Returns the schema of a 400. Messages of nested fields are nested in the same way. The schema refers
/// to itself only as the value of an object, where generators follow it.
pub fn errors_schema() -> Json {
    let messages = json!({
        "type": "array", "items": {"type": "string"},
        "description": "Errors of a field: a sentence for each reason",
    });
    let detail = json!({
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        "description": "Error of the whole request. Some limits are reported as a list of one sentence",
    });
    let nested = json!({"$ref": "#/components/schemas/Errors"});
    titled(
        "Errors",
        json!({
            "type": "object",
            "description": "What is wrong with a request: `detail` with a sentence about the whole, or the messages of each \
                            wrong field or parameter under its name, nested where the body nests",
            "properties": {
                "detail": detail,
                "error_code": {"type": "string", "description": "A name for programs, such as `ERR_LIMIT_EXCEEDED`"},
            },
            "additionalProperties": {"anyOf": [{"type": "string"}, messages, nested]},
            "examples": [{"username": ["This field must be unique."], "first_name": ["This field is required."]}],
        }),
    )
}
