//! Uploads: bodies that a handler reads in chunks, because they are too long for memory.
//!
//! A chunk is read from the connection only when the handler asks for it, so that few of them are in memory. The number
//! of uploads in flight is bounded in the process and in each build, and the time of each upload is bounded too.

use crate::bodies::{IDLE_TIMEOUT, MIN_LONG_RATE, busy, refuse};
use crate::refusal::Refusal;
use crate::request::Request;
use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use web::listener::{BodyError, BodyReader};

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
    _permits: [OwnedSemaphorePermit; 2],
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
    pub(crate) fn begin(request: &Arc<Request>, most: u64, body: Option<Incoming>) -> Result<Upload, Refusal> {
        let permit = |of: &Arc<Semaphore>| of.clone().try_acquire_owned().map_err(|_| busy());
        let permits = [permit(&request.build.bodies.uploads)?, permit(&request.app.bodies.uploads)?];
        let announced = body.as_ref().and_then(|body| body.size_hint().exact()).unwrap_or(most).min(most);
        let reader = body.map(|body| BodyReader::new(body, most, IDLE_TIMEOUT)).transpose();
        let time = IDLE_TIMEOUT + Duration::from_secs_f64(announced as f64 / MIN_LONG_RATE);
        let handed_over = Instant::now();
        Ok(Upload {
            request: request.clone(),
            is_too_large: reader.is_err(),
            reader: reader.unwrap_or_default(),
            deadline: handed_over + time,
            handed_over,
            _permits: permits,
        })
    }

    /// The next chunk; `None` at the end of the body, once the caller's rights have been checked again (`docs/reference/conventions.md`).
    pub async fn next(&mut self) -> Result<Option<Bytes>, UploadError> {
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

    async fn end(&self) -> Result<Option<Bytes>, UploadError> {
        let request = &self.request;
        if let Some(admission) = &request.admission {
            let again = admission.caller(&request.app, &request.build, request.address, Some(request.requirement));
            again.await.map_err(UploadError::Refused)?;
        }
        Ok(None)
    }
}
