//! The answers of handlers.

use crate::ids::{ClassId, RecordId, TaskId};
use crate::listed::ListedItems;
use crate::refusal::Refusal;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, header};
use http_body_util::BodyExt;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use resource::json::JsonWriter;
use serde_json::Value as Json;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::pin::Pin;
use web::content::{self, PieceSender};
use web::shares::Permit;
pub use web::tag::{EntityTag, etag};

/// The outcome of a handler.
pub type Outcome = Result<Answer, Refusal>;

/// One instance as JSON.
pub struct Instance {
    /// The bytes.
    pub body: Vec<u8>,
    /// See [`Answer::cacheable_until`].
    pub cacheable_until: Option<i64>,
}

impl Instance {
    /// Returns the instance with one more member, which is shown once. To be called after the tag was computed, which does not depend
    /// on the secret.
    pub fn with_secret(mut self, name: &'static str, secret: &str) -> Instance {
        // The last byte closes the object.
        self.body.pop();
        let mut json = JsonWriter::continuing(self.body);
        json.name(name).text(secret).raw("}");
        Instance { body: json.into_bytes(), ..self }
    }
}

impl Deref for Instance {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.body
    }
}

/// The function that produces the body of an answer while it is sent. It waits at each piece until the client has
/// received the earlier ones. It must not occupy shared resources meanwhile, in particular a connection of the store.
pub type BodyProducer = Box<dyn FnOnce(PieceSender) -> BodyFuture + Send>;
/// The future that produces a body. An error closes the connection, so that the client detects the incomplete body.
pub type BodyFuture = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// The body of an answer.
pub enum AnswerBody {
    Whole(Bytes),
    /// A file, sent from its current position, and the number of bytes to send.
    File {
        file: File,
        length: u64,
        /// The permit for its descriptor.
        permit: Option<Permit>,
    },
    /// Pieces that are produced while they are sent, and their total number of bytes, if it is known.
    Pieces {
        length: Option<u64>,
        produce: BodyProducer,
    },
}

impl AnswerBody {
    /// Returns the bytes of a body that is in memory; an empty slice for other bodies.
    pub fn in_memory_bytes(&self) -> &[u8] {
        match self {
            AnswerBody::Whole(bytes) => bytes,
            _ => &[],
        }
    }
    /// Returns the bytes of a body. Pieces are produced first. Returns `None` if there are more than `most`
    /// bytes, or if the body is a file.
    ///
    /// # Errors
    /// If the production of the body fails.
    pub async fn into_bytes(self, most: usize) -> io::Result<Option<Bytes>> {
        let (length, produce) = match self {
            AnswerBody::Whole(bytes) => return Ok((bytes.len() <= most).then_some(bytes)),
            AnswerBody::File { .. } => return Ok(None),
            AnswerBody::Pieces { length, produce } => (length, produce),
        };
        let (producer, mut body) = content::pieces(length);
        let making = async move {
            produce(producer.clone()).await?;
            producer.finish().await;
            Ok(())
        };
        let gathering = async move {
            let mut bytes = Vec::new();
            while let Some(frame) = body.frame().await {
                bytes.extend_from_slice(&frame?.into_data().unwrap_or_default());
                if bytes.len() > most {
                    // Without a receiver, the producer stops.
                    drop(body);
                    return Ok(None);
                }
            }
            Ok(Some(Bytes::from(bytes)))
        };
        match tokio::join!(making, gathering) {
            (_, Ok(None)) => Ok(None),
            (outcome, gathered) => outcome.and(gathered),
        }
    }
    /// Returns the length of a body that is not in memory, if it is known.
    pub fn length_of_stream(&self) -> Option<u64> {
        match self {
            AnswerBody::Whole(_) => None,
            AnswerBody::File { length, .. } => Some(*length),
            AnswerBody::Pieces { length, .. } => *length,
        }
    }
}

impl fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnswerBody::Whole(bytes) => bytes.fmt(f),
            AnswerBody::File { length, .. } => write!(f, "a file of {length} bytes"),
            AnswerBody::Pieces { length, .. } => write!(f, "pieces of {length:?} bytes"),
        }
    }
}

/// Returns the header by which a browser saves an answer under this name.
pub fn attachment(name: &str) -> (HeaderName, HeaderValue) {
    let name = utf8_percent_encode(name, ATTRIBUTE_CHARACTERS);
    let value = HeaderValue::try_from(format!("attachment; filename*=UTF-8''{name}"));
    (header::CONTENT_DISPOSITION, value.unwrap_or(HeaderValue::from_static("attachment")))
}

/// The characters that are not escaped in a parameter with a character set (RFC 8187).
const ATTRIBUTE_CHARACTERS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The object that an answer shows. The activity of agents refers to it (`docs/reference/mcp-server.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerSubject {
    /// A class, by its id.
    Class(ClassId),
    /// A record, and its class if it is known.
    Record { id: RecordId, class: Option<ClassId> },
    /// A task, and its record if it has one.
    Task { id: TaskId, record: Option<RecordId> },
}

impl AnswerSubject {
    /// Returns the address of the record or the task.
    pub fn address(self) -> Option<String> {
        match self {
            AnswerSubject::Class(_) => None,
            AnswerSubject::Record { id, .. } => Some(format!("/api/object-records/{id}/")),
            AnswerSubject::Task { id, .. } => Some(format!("/api/tasks/{id}/")),
        }
    }
    /// The id of the class, or of the class of the record.
    pub fn object_class(self) -> Option<ClassId> {
        match self {
            AnswerSubject::Class(id) => Some(id),
            AnswerSubject::Record { class, .. } => class,
            AnswerSubject::Task { .. } => None,
        }
    }
    /// The id of the record, or of the record of the task.
    pub fn record(self) -> Option<RecordId> {
        match self {
            AnswerSubject::Class(_) => None,
            AnswerSubject::Record { id, .. } => Some(id),
            AnswerSubject::Task { record, .. } => record,
        }
    }
}

/// A successful answer.
#[derive(Debug)]
pub struct Answer {
    /// 200, 201, 204 or 206, 304, or a redirect.
    pub status: StatusCode,
    pub body: AnswerBody,
    /// The content type; `None` for an empty body.
    pub content_type: Option<&'static str>,
    /// The `ETag` of an instance or of a page of a list.
    pub tag: Option<EntityTag>,
    /// Further headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The end of the answer's validity, in microseconds since 1970. Until then the same request has the same
    /// answer, if nothing is committed to the build's database. `None` if the end is unknown. See `answer_cache.rs`.
    pub cacheable_until: Option<i64>,
    /// The object that the answer shows, for answers to which the activity of agents refers.
    pub subject: Option<AnswerSubject>,
    /// The items of a page of a list, for tools of agents. Not all lists have them.
    pub listed: Option<Box<ListedItems>>,
}

impl Answer {
    fn new(status: StatusCode, content_type: Option<&'static str>, body: impl Into<Bytes>) -> Answer {
        let body = AnswerBody::Whole(body.into());
        Answer {
            status,
            body,
            content_type,
            tag: None,
            headers: Vec::new(),
            cacheable_until: None,
            subject: None,
            listed: None,
        }
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
    /// A file, sent from its current position, with the permit for its descriptor
    /// ([`crate::download_place`]). A file that is not stored has no permit.
    pub fn file(content_type: &'static str, file: File, length: u64, permit: Option<Permit>) -> Answer {
        let body = AnswerBody::File { file, length, permit };
        Answer { body, ..Answer::new(StatusCode::OK, Some(content_type), Bytes::new()) }
    }
    /// A body that is produced while it is sent, with its number of bytes, if that is known. HEAD does not produce the body.
    pub fn pieces<F>(
        content_type: &'static str,
        length: Option<u64>,
        produce: impl FnOnce(PieceSender) -> F + Send + 'static,
    ) -> Answer
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let produce = move |producer| Box::pin(produce(producer)) as BodyFuture;
        let body = AnswerBody::Pieces { length, produce: Box::new(produce) };
        Answer { body, ..Answer::new(StatusCode::OK, Some(content_type), Bytes::new()) }
    }
    /// Turns the answer into a 304 without a body, for a client that has sent the `ETag` of this state.
    pub fn not_modified(self) -> Answer {
        Answer { status: StatusCode::NOT_MODIFIED, body: AnswerBody::Whole(Bytes::new()), ..self }
    }
    /// A refusal whose transaction is committed nevertheless.
    pub fn refusal(refusal: &Refusal) -> Answer {
        let mut answer = Answer::json(refusal.status, refusal.body().to_string());
        answer.headers.clone_from(&refusal.headers);
        answer
    }
    /// A redirect to an address. Its policy prevents the browser from sending a `Referer` there.
    pub fn redirect(status: StatusCode, address: &str) -> Answer {
        let mut answer = Answer::new(status, None, Bytes::new());
        answer.headers.extend(HeaderValue::from_str(address).ok().map(|address| (header::LOCATION, address)));
        answer.headers.push((header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")));
        answer
    }
    /// A page for people. Other pages cannot frame it, and cannot access the window that they opened for it.
    pub fn page(status: StatusCode, html: impl Into<Bytes>) -> Answer {
        let policy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
        let mut answer = Answer::new(status, Some("text/html; charset=utf-8"), html);
        answer.headers = vec![
            (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy)),
            (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
            (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        ];
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_that_is_made_while_it_is_sent_is_gathered_up_to_a_bound() {
        let answer = |fails: bool| {
            let produce = async move |producer: PieceSender| {
                for _ in 0..10 {
                    producer.send("0123456789").await?;
                }
                if fails { Err(io::ErrorKind::Other.into()) } else { Ok(()) }
            };
            Answer::pieces("text/plain", None, produce).body
        };
        assert_eq!(answer(false).into_bytes(100).await.unwrap().unwrap(), "0123456789".repeat(10));
        assert_eq!(answer(false).into_bytes(99).await.unwrap(), None);
        assert!(answer(true).into_bytes(100).await.is_err());
        assert_eq!(Answer::json(StatusCode::OK, "{}").body.into_bytes(1).await.unwrap(), None);
        assert_eq!(Answer::json(StatusCode::OK, "{}").body.into_bytes(2).await.unwrap().unwrap(), "{}");
    }
}
