//! The header `Idempotency-Key` of a request, and its effect on each route.

use crate::caller::RouteAccess;
use crate::refusal::Refusal;
use crate::route::{Handler, Route};
use http::Method;
use http::header::HeaderMap;
use resource::Query;

/// The header with the key of a request.
const KEY: &str = "idempotency-key";
/// The maximum length of a key, in characters.
const MAX_KEY: usize = 255;
/// The beginnings of paths below which keys are refused.
const REFUSING_PATHS: [&str; 3] = ["/api/auth/", "/oauth/", "/mcp/"];

/// The effect of a key on the requests of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySupport {
    /// The key has no effect.
    Ignored,
    /// A request with a key is refused with 400.
    Refused,
    /// The answer is stored and replayed.
    Stored,
}

impl Route {
    /// Returns the effect of an `Idempotency-Key` on the requests of the route.
    pub fn key_support(&self) -> KeySupport {
        if self.method != Method::POST {
            return KeySupport::Ignored;
        }
        if REFUSING_PATHS.iter().any(|start| self.path.starts_with(start)) {
            return KeySupport::Refused;
        }
        // A caller with an own admission, such as a directory, has no account.
        if matches!(self.access, RouteAccess::Public | RouteAccess::ApiKey) || self.own_admission.is_some() {
            return KeySupport::Ignored;
        }
        let is_upload = matches!(self.handler, Handler::Upload(..));
        if is_upload || self.answers_secret { KeySupport::Refused } else { KeySupport::Stored }
    }
}

/// The key of a request, as the client sent it.
pub(crate) enum SentKey {
    /// The request has no key, or its key has no effect.
    Nothing,
    Key(String),
    Refused(Refusal),
}

impl SentKey {
    /// Reads the key of a request.
    pub(crate) fn read(route: &Route, headers: &HeaderMap, query: Option<&str>) -> SentKey {
        let mut sent = headers.get_all(KEY).iter();
        let Some(first) = sent.next() else { return SentKey::Nothing };
        match route.key_support() {
            KeySupport::Ignored => return SentKey::Nothing,
            KeySupport::Refused => {
                return SentKey::Refused(Refusal::bad_request("Idempotency-Key is not supported here."));
            }
            KeySupport::Stored => {}
        }
        if query.is_some_and(|query| Query::parse(query).last_value("dry_run") == Some("true")) {
            return SentKey::Nothing;
        }
        let key = first
            .to_str()
            .ok()
            .filter(|key| (1..=MAX_KEY).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()));
        match (key, sent.next()) {
            (Some(key), None) => SentKey::Key(key.to_owned()),
            _ => SentKey::Refused(Refusal::bad_request("Invalid Idempotency-Key.")),
        }
    }

    /// Returns whether the bytes of the body decide about a replay.
    pub(crate) fn is_key(&self) -> bool {
        matches!(self, SentKey::Key(_))
    }
}
