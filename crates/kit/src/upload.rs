//! Uploads: bodies that a handler reads in chunks, because they are too long for memory.
//!
//! A chunk is read from the connection only when the handler asks for it, so that few of them are in memory. The number
//! of uploads in flight is bounded in the process and in each build, and the time of each upload is bounded too.
//!
//! On a public route nobody is known yet who sends the body. It has the time of a short one, and no place among the uploads,
//! until the handler has found out who sends it ([`Upload::admit`]).

use crate::bodies::{IDLE_TIMEOUT, MIN_LONG_RATE, busy, refuse};
use crate::body::{MAX_PUBLIC_BODY, ROOM_TIMEOUT};
use crate::caller::Access;
use crate::refusal::Refusal;
use crate::request::Request;
use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use web::listener::{BodyError, BodyReader};
use web::room::Taken;

/// No body has more time than one of so many bytes.
const LONGEST_FILE: u64 = 50 * 1024 * 1024;

/// A body, or a part of one, that arrives in chunks.
pub trait Chunks: Send {
    /// The next chunk; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, UploadError>> + Send;
}

/// The body of an upload, which is read chunk by chunk.
pub struct Upload {
    request: Arc<Request>,
    /// `None` when the body has ended, or when its `Content-Length` is too large.
    reader: Option<BodyReader>,
    is_too_large: bool,
    /// When the whole body must have arrived.
    deadline: Instant,
    /// When the handler was given the last chunk. The time that the handler takes extends the deadline.
    handed_over: Instant,
    /// How long it is at most, in bytes.
    announced: u64,
    /// The place among the uploads; `None` before it is admitted.
    permits: Option<[OwnedSemaphorePermit; 2]>,
    /// The memory of what is read before it is admitted.
    room: Taken,
}

/// The reason why an upload cannot be read further.
#[derive(Debug)]
pub enum UploadError {
    /// The body is larger than the route allows, by its `Content-Length` or by what was sent.
    TooLarge,
    /// The body came too slowly or is incomplete, or its caller has lost the right to send it.
    Refused(Refusal),
}

impl From<UploadError> for Refusal {
    /// The refusal with the standard message. A route with its own message for a large body handles that case itself.
    fn from(error: UploadError) -> Refusal {
        match error {
            UploadError::TooLarge => refuse(BodyError::TooLarge),
            UploadError::Refused(refusal) => refusal,
        }
    }
}

impl Upload {
    /// Begins the upload of at most `most` bytes; 503 when too many are in flight. Without a body it is at its end.
    pub(crate) async fn begin(request: &Arc<Request>, most: u64, body: Option<Incoming>) -> Result<Upload, Refusal> {
        let announced = body.as_ref().and_then(|body| body.size_hint().exact()).unwrap_or(most).min(most);
        let reader = body.map(|body| BodyReader::new(body, most, IDLE_TIMEOUT)).transpose();
        let (now, mut room) = (Instant::now(), Taken::default());
        let is_public = request.requirement.access == Access::Public;
        if is_public && !request.app.bodies.short.take(MAX_PUBLIC_BODY, ROOM_TIMEOUT, &mut room).await {
            return Err(busy());
        }
        let mut upload = Upload {
            request: request.clone(),
            is_too_large: reader.is_err(),
            reader: reader.unwrap_or_default(),
            deadline: now + time_of(MAX_PUBLIC_BODY as u64),
            handed_over: now,
            announced,
            permits: None,
            room,
        };
        if !is_public {
            upload.admit()?;
        }
        Ok(upload)
    }

    /// Whether there is no body, as far as was announced.
    pub fn is_empty(&self) -> bool {
        self.announced == 0 || self.reader.is_none() && !self.is_too_large
    }

    /// Gives it a place among the uploads, and the time of its length from now on; 503 when too many are in flight.
    pub fn admit(&mut self) -> Result<(), Refusal> {
        if self.permits.is_none() {
            let permit = |of: &Arc<Semaphore>| of.clone().try_acquire_owned().map_err(|_| busy());
            let request = &self.request;
            self.permits = Some([permit(&request.build.bodies.uploads)?, permit(&request.app.bodies.uploads)?]);
            self.deadline = Instant::now() + time_of(self.announced);
            self.room = Taken::default();
        }
        Ok(())
    }

    async fn end(&self) -> Result<Option<Bytes>, UploadError> {
        let request = &self.request;
        if let Some(admission) = &request.admission {
            let again = admission.caller(&request.app, &request.build, request.address, Some(request.requirement));
            again.await.map_err(UploadError::Refused)?;
        }
        Ok(None)
    }
}

impl Chunks for Upload {
    /// The next chunk; `None` at the end of the body, once the caller's rights have been checked again (`docs/reference/conventions.md`).
    async fn next(&mut self) -> Result<Option<Bytes>, UploadError> {
        if self.is_too_large {
            return Err(UploadError::TooLarge);
        }
        let Some(reader) = &mut self.reader else { return self.end().await };
        let wait = self.handed_over.elapsed();
        reader.extend(wait);
        self.deadline += wait;
        let chunk = timeout_at(self.deadline, reader.chunk()).await.unwrap_or(Err(BodyError::Slow));
        self.handed_over = Instant::now();
        match chunk {
            Ok(Some(chunk)) => Ok(Some(chunk)),
            Ok(None) => {
                self.reader = None;
                self.end().await
            }
            Err(BodyError::TooLarge) => {
                self.is_too_large = true;
                Err(UploadError::TooLarge)
            }
            Err(error) => Err(UploadError::Refused(refuse(error))),
        }
    }
}

/// How long a body of so many bytes may take. One that is longer than a file must come faster.
fn time_of(bytes: u64) -> Duration {
    IDLE_TIMEOUT + Duration::from_secs_f64(bytes.min(LONGEST_FILE) as f64 / MIN_LONG_RATE)
}
