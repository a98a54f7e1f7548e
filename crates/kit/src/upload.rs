//! Uploads: bodies that a handler reads in chunks, because they are too long for memory.
//!
//! A chunk is read from the connection only when the handler requests it, so that few of them are in memory. The number of
//! uploads in flight is bounded in the process, in each build and for each account. The time of each upload is bounded too.
//!
//! On a public route the sender of the body is not identified at first. Until the handler has identified
//! the sender ([`Upload::admit`]), the body has the time of a short one and no permit of the uploads.

use crate::bodies::{IDLE_TIMEOUT, MIN_LONG_RATE, PRESSED_RATE, ROOM_TIMEOUT, refuse};
use crate::body::MAX_PUBLIC_BODY;
use crate::caller::RouteAccess;
use crate::places::upload_place;
use crate::refusal::Refusal;
use crate::request::Request;
use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use web::listener::{BodyError, BodyReader};
use web::pace::Pace;
use web::shares::Permit;

/// The interval at which an upload is compared with its pace.
const PACE_INTERVAL: Duration = Duration::from_secs(1);
/// The size from which on a body does not get more time, in bytes.
const LONGEST_FILE: u64 = 50 * 1024 * 1024;

/// A body, or a part of one, that arrives in chunks.
pub trait Chunks: Send {
    /// Returns the next chunk; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, UploadError>> + Send;
}

/// The body of an upload, which is read chunk by chunk.
pub struct Upload {
    request: Arc<Request>,
    /// `None` if the body has ended, or if its `Content-Length` is too large.
    reader: Option<BodyReader>,
    is_too_large: bool,
    /// The time by which the whole body must have arrived.
    deadline: Instant,
    /// The time at which the handler got the last chunk. The time that the handler spends extends the deadline.
    handed_over: Instant,
    /// The maximum length of the body, in bytes.
    announced: u64,
    /// The number of received bytes, and the time that the client has taken for them.
    received: (u64, Duration),
    /// The permit among the uploads; `None` before it is admitted.
    place: Option<Permit>,
    /// The memory of the bytes that are read before it is admitted.
    room: Option<Permit>,
}

/// The reason why an upload cannot be read further.
#[derive(Debug)]
pub enum UploadError {
    /// The body is larger than the route allows, by its `Content-Length` or by what was sent.
    TooLarge,
    /// The body arrived too slowly or is incomplete, or its caller has lost the right to send it.
    Refused(Refusal),
}

impl From<UploadError> for Refusal {
    /// Returns the refusal with the standard message. A route with its own message for a large body handles that case.
    fn from(error: UploadError) -> Refusal {
        match error {
            UploadError::TooLarge => refuse(BodyError::TooLarge),
            UploadError::Refused(refusal) => refusal,
        }
    }
}

impl Upload {
    /// Begins the upload of at most `most` bytes; 503 if too many are in flight. Without a body it is at its end.
    pub(crate) async fn begin(request: &Arc<Request>, most: u64, body: Option<Incoming>) -> Result<Upload, Refusal> {
        let announced = body.as_ref().and_then(|body| body.size_hint().exact()).unwrap_or(most).min(most);
        let reader = body.map(|body| BodyReader::new(body, most, IDLE_TIMEOUT)).transpose();
        let is_public = request.requirement.access == RouteAccess::Public;
        let mut room = None;
        if is_public {
            let memory = request.app.bodies.short.acquire(&request.holder(), MAX_PUBLIC_BODY, ROOM_TIMEOUT).await;
            room = Some(memory.ok_or_else(Refusal::overloaded)?);
        }
        let now = Instant::now();
        let mut upload = Upload {
            request: request.clone(),
            is_too_large: reader.is_err(),
            reader: reader.unwrap_or_default(),
            deadline: now + time_of(MAX_PUBLIC_BODY as u64),
            handed_over: now,
            announced,
            received: (0, Duration::ZERO),
            place: None,
            room,
        };
        if !is_public {
            upload.admit().await?;
        }
        Ok(upload)
    }

    /// Returns whether there is no body, according to its announced length.
    pub fn is_empty(&self) -> bool {
        self.announced == 0 || self.reader.is_none() && !self.is_too_large
    }

    /// Acquires a permit among the uploads, and restarts the time, which now depends on the length; 503 if too many are in flight.
    pub async fn admit(&mut self) -> Result<(), Refusal> {
        if self.place.is_none() {
            self.place = Some(upload_place(&self.request).await?);
            self.handed_over = Instant::now();
            self.deadline = self.handed_over + time_of(self.announced);
            self.received = (0, Duration::ZERO);
            self.room = None;
            if let Some(reader) = &mut self.reader {
                reader.begin_anew();
            }
        }
        Ok(())
    }

    async fn end(&self) -> Result<Option<Bytes>, UploadError> {
        let request = &self.request;
        if let Some(admission) = &request.admission {
            let readmission =
                admission.caller(&request.app, &request.build, request.address, Some(request.requirement));
            readmission.await.map_err(UploadError::Refused)?;
        }
        Ok(None)
    }
}

impl Chunks for Upload {
    /// Returns the next chunk; `None` at the end of the body, after the caller's rights were checked again
    /// (`docs/reference/conventions.md`).
    async fn next(&mut self) -> Result<Option<Bytes>, UploadError> {
        if self.is_too_large {
            return Err(UploadError::TooLarge);
        }
        let Some(reader) = &mut self.reader else { return self.end().await };
        let wait = self.handed_over.elapsed();
        reader.extend(wait);
        self.deadline += wait;
        let pace = self.place.as_ref().map(|place| Pace { demand: place.demand(), rates: PRESSED_RATE });
        let (asked_at, (bytes, before)) = (Instant::now(), self.received);
        let chunk = loop {
            let wake_at = self.deadline.min(Instant::now() + PACE_INTERVAL);
            if let Ok(chunk) = timeout_at(wake_at, reader.chunk()).await {
                break chunk;
            }
            let is_slow = pace.as_ref().is_some_and(|pace| pace.is_missed(bytes, before + asked_at.elapsed()));
            if wake_at == self.deadline || is_slow {
                break Err(BodyError::Slow);
            }
        };
        self.handed_over = Instant::now();
        let count = chunk.as_ref().ok().and_then(Option::as_ref).map_or(0, Bytes::len) as u64;
        self.received = (bytes + count, before + asked_at.elapsed());
        if pace.is_some_and(|pace| pace.is_missed(self.received.0, self.received.1)) {
            return Err(UploadError::Refused(refuse(BodyError::Slow)));
        }
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

/// Returns the time that a body of `bytes` bytes may take. A body longer than [`LONGEST_FILE`] must arrive faster.
fn time_of(bytes: u64) -> Duration {
    IDLE_TIMEOUT + Duration::from_secs_f64(bytes.min(LONGEST_FILE) as f64 / MIN_LONG_RATE)
}
