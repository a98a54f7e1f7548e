//! The bounds on bodies in flight, in the process and in each build: memory, number and time.

use crate::refusal::Refusal;
use http::StatusCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use web::listener::BodyError;
use web::room::Room;

/// How long a body may stand still before its request is refused.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// The minimum rate of a long body, in bytes a second over all of it, since it holds memory that others wait for.
pub(crate) const MIN_LONG_RATE: f64 = 16.0 * 1024.0;

/// The maximum number of uploads in flight in a process. Each holds about 64 KiB of memory.
const MAX_UPLOADS: usize = 256;
/// The maximum number of uploads in flight of a build.
const MAX_UPLOADS_OF_BUILD: usize = 64;
/// How many of the larger bodies are parsed at a time.
const PARSED_AT_A_TIME: usize = 2;
/// The memory of a build's large answers until they are sent, in bytes.
pub(crate) const ANSWERS_OF_BUILD: usize = 12 * 1024 * 1024;

/// The bounds on the bodies in flight of a process, those of requests and those of answers.
pub struct Bodies {
    /// The memory of bodies up to the size of a public one. One peer, with at most half the connections, cannot fill
    /// it.
    pub(crate) short: Room,
    /// The memory of longer bodies.
    pub(crate) long: Room,
    /// A permit for each larger body that is being parsed.
    pub(crate) parsing: Arc<Semaphore>,
    /// The memory of large answers.
    pub(crate) answers: Room,
    /// A permit for each upload.
    pub(crate) uploads: Arc<Semaphore>,
}

impl Default for Bodies {
    fn default() -> Bodies {
        let [short, long, answers] = [96, 48, 48].map(|mebibytes| Room::new(mebibytes * 1024 * 1024));
        let [parsing, uploads] = [PARSED_AT_A_TIME, MAX_UPLOADS].map(|permits| Arc::new(Semaphore::new(permits)));
        Bodies { short, long, answers, parsing, uploads }
    }
}

/// The bounds on the bodies in flight of a build, within those of the process.
pub struct BodiesOfBuild {
    pub(crate) long: Room,
    pub(crate) answers: Room,
    pub(crate) uploads: Arc<Semaphore>,
}

impl Default for BodiesOfBuild {
    fn default() -> BodiesOfBuild {
        let (long, answers) = (Room::new(12 * 1024 * 1024), Room::new(ANSWERS_OF_BUILD));
        BodiesOfBuild { long, answers, uploads: Arc::new(Semaphore::new(MAX_UPLOADS_OF_BUILD)) }
    }
}

pub(crate) fn busy() -> Refusal {
    Refusal::busy("The server is busy. Please try again.")
}

/// The refusal of a body that is too large, too slow or incomplete.
pub(crate) fn refuse(error: BodyError) -> Refusal {
    match error {
        BodyError::TooLarge => Refusal::detail(StatusCode::PAYLOAD_TOO_LARGE, "Request body is too large."),
        BodyError::Slow => Refusal::detail(StatusCode::REQUEST_TIMEOUT, "The request body did not arrive in time."),
        BodyError::Broken => Refusal::bad("The request body is incomplete."),
    }
}
