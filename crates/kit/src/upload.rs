//! Bodies that a handler takes in pieces, because they are too long to be held: uploads.
//!
//! Of each there are never more than a few pieces in memory, however fast it comes and however slowly the handler takes
//! them: what is not taken is not read. How many are in flight is bounded in the process and in each build, and so is the
//! time that one takes.

use crate::bodies::{PROGRESS, SLOWEST_LONG, busy, refuse};
use crate::refusal::Refusal;
use crate::request::Request;
use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use web::listener::{BodyError, BodyReader};

/// The body of an upload, which is read as it is asked for.
pub struct Upload {
    request: Arc<Request>,
    /// `None` before anything is read of a body that announces too much, and after its end.
    reader: Option<BodyReader>,
    is_too_large: bool,
    /// When the last piece must have come.
    deadline: Instant,
    /// Since when the handler has the last piece. What it does with it is not the client's time.
    handed_over: Instant,
    _places: [OwnedSemaphorePermit; 2],
}

/// Why an upload does not go on.
#[derive(Debug)]
pub enum UploadError {
    /// It has more bytes than the route takes, announced or sent.
    TooLarge,
    /// It came too slowly or not to its end, or its caller may not do this any more.
    Refused(Refusal),
}

impl From<UploadError> for Refusal {
    /// A route that has words of its own for what is too large looks for it before.
    fn from(error: UploadError) -> Refusal {
        match error {
            UploadError::TooLarge => refuse(BodyError::TooLarge),
            UploadError::Refused(refusal) => refusal,
        }
    }
}

impl Upload {
    /// The upload of a request, of at most `most` bytes; 503 when there are too many. Without a body it is at its end.
    pub(crate) fn begin(request: &Arc<Request>, most: u64, body: Option<Incoming>) -> Result<Upload, Refusal> {
        let place = |of: &Arc<Semaphore>| of.clone().try_acquire_owned().map_err(|_| busy());
        let places = [place(&request.build.bodies.uploads)?, place(&request.app.bodies.uploads)?];
        let announced = body.as_ref().and_then(|body| body.size_hint().exact()).unwrap_or(most).min(most);
        let reader = body.map(|body| BodyReader::new(body, most, PROGRESS)).transpose();
        let time = PROGRESS + Duration::from_secs_f64(announced as f64 / SLOWEST_LONG);
        let handed_over = Instant::now();
        Ok(Upload {
            request: request.clone(),
            is_too_large: reader.is_err(),
            reader: reader.unwrap_or_default(),
            deadline: handed_over + time,
            handed_over,
            _places: places,
        })
    }

    /// The next bytes; `None` when all have come and the caller may still do what he asks for, which is looked at then
    /// (`docs/reference/conventions.md`).
    pub async fn next(&mut self) -> Result<Option<Bytes>, UploadError> {
        if self.is_too_large {
            return Err(UploadError::TooLarge);
        }
        let Some(reader) = &mut self.reader else { return self.end().await };
        let wait = self.handed_over.elapsed();
        reader.extend(wait);
        self.deadline += wait;
        let piece = timeout_at(self.deadline, reader.chunk()).await.unwrap_or(Err(BodyError::Slow));
        self.handed_over = Instant::now();
        match piece {
            Ok(Some(piece)) => Ok(Some(piece)),
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
