//! The header `X-Request-Id` (`docs/reference/conventions.md`).

use crate::clock::unique_id;
use http::{HeaderMap, HeaderName, HeaderValue};

pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Returns the request id that the caller sent, if it has a safe form, else a new one.
pub fn request_id(headers: &HeaderMap) -> HeaderValue {
    let is_safe = |text: &str| {
        (1..=128).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
    };
    if let Some(value) = headers.get(&REQUEST_ID)
        && value.to_str().is_ok_and(is_safe)
    {
        return value.clone();
    }
    HeaderValue::from_str(&unique_id()).unwrap_or(HeaderValue::from_static("none"))
}
