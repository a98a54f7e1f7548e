//! The room that bodies in flight share, in the process and in each build, and how long they may take.

use crate::refusal::Refusal;
use http::StatusCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use web::listener::BodyError;
use web::room::Room;

/// A body that stands still this long is given up.
pub(crate) const PROGRESS: Duration = Duration::from_secs(10);
/// What a long body must bring, in bytes a second over all of it, since it keeps others from their room.
pub(crate) const SLOWEST_LONG: f64 = 16.0 * 1024.0;

/// How many uploads are in flight, in all and of a build. Each has about 64 KiB in memory.
const UPLOADS: usize = 256;
const UPLOADS_OF_BUILD: usize = 64;
/// How many of the larger bodies are parsed at a time.
const PARSED_AT_A_TIME: usize = 2;
/// What the large answers of a build take at most, until they are sent.
pub(crate) const ANSWERS_OF_BUILD: usize = 12 * 1024 * 1024;

/// What the bodies in flight of a process may take, those of requests and those of answers.
pub struct Bodies {
    /// Bodies that a stranger may send, too: more than half of all connections bring, which is what one peer may have.
    pub(crate) short: Room,
    /// Longer ones.
    pub(crate) long: Room,
    pub(crate) parsing: Arc<Semaphore>,
    pub(crate) answers: Room,
    /// A place for each upload.
    pub(crate) uploads: Arc<Semaphore>,
}

impl Default for Bodies {
    fn default() -> Bodies {
        let [short, long, answers] = [96, 48, 48].map(|mebibytes| Room::new(mebibytes * 1024 * 1024));
        let [parsing, uploads] = [PARSED_AT_A_TIME, UPLOADS].map(|places| Arc::new(Semaphore::new(places)));
        Bodies { short, long, answers, parsing, uploads }
    }
}

/// What a build may take of that.
pub struct BodiesOfBuild {
    pub(crate) long: Room,
    pub(crate) answers: Room,
    pub(crate) uploads: Arc<Semaphore>,
}

impl Default for BodiesOfBuild {
    fn default() -> BodiesOfBuild {
        let (long, answers) = (Room::new(12 * 1024 * 1024), Room::new(ANSWERS_OF_BUILD));
        BodiesOfBuild { long, answers, uploads: Arc::new(Semaphore::new(UPLOADS_OF_BUILD)) }
    }
}

pub(crate) fn busy() -> Refusal {
    Refusal::busy("The server is busy. Please try again.")
}

/// The refusal of a body that does not come as it should.
pub(crate) fn refuse(error: BodyError) -> Refusal {
    match error {
        BodyError::TooLarge => Refusal::detail(StatusCode::PAYLOAD_TOO_LARGE, "Request body is too large."),
        BodyError::Slow => Refusal::detail(StatusCode::REQUEST_TIMEOUT, "The request body did not arrive in time."),
        BodyError::Broken => Refusal::bad("The request body is incomplete."),
    }
}
