//! What a handler answers with, and the state tag of an instance.

use crate::refusal::Refusal;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde_json::Value as Json;
use std::fmt;
use std::ops::Deref;

/// The outcome of a handler.
pub type Outcome = Result<Answer, Refusal>;

/// One instance as JSON.
pub struct Instance {
    /// The bytes.
    pub body: Vec<u8>,
    /// See [`Answer::cacheable_until`].
    pub cacheable_until: Option<i64>,
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
    /// (microseconds since 1970); `None` where that is not known. See `answer_cache.rs`.
    pub cacheable_until: Option<i64>,
}

impl Answer {
    fn new(status: StatusCode, content_type: Option<&'static str>, body: impl Into<Bytes>) -> Answer {
        Answer { status, body: body.into(), content_type, tag: None, headers: Vec::new(), cacheable_until: None }
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
        let (tag, cacheable_until) = (Some(etag(&instance)), instance.cacheable_until);
        Answer { tag, cacheable_until, ..Answer::json(status, instance.body) }
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
