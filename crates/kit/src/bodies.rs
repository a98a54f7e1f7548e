//! Bounds the memory, permits, descriptors and time of bodies in flight. Builds and accounts share each bound ([`Shares`]).

use crate::refusal::Refusal;
use http::StatusCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use web::listener::BodyError;
use web::pace::Rates;
use web::shares::{ShareBounds, Shares, descriptors};

/// The time without progress after which the request of a body is refused.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// The minimum average rate of a long body, in bytes per second, since it occupies memory for which others wait.
pub(crate) const MIN_LONG_RATE: f64 = 16.0 * 1024.0;
/// The minimum rate of a long body or an upload while others wait for what it occupies.
pub(crate) const PRESSED_RATE: Rates = Rates { usual: 0, pressed: 128 * 1024 };
/// The maximum time for which a request waits for memory.
pub(crate) const ROOM_TIMEOUT: Duration = Duration::from_secs(20);

/// The number of larger bodies that are parsed at a time.
const PARSED_AT_A_TIME: usize = 2;

const MIB: usize = 1024 * 1024;

/// The bounds on the bodies in flight of a process, of requests and of answers.
pub struct ProcessBounds {
    /// The memory of bodies up to the size of a public one.
    pub(crate) short: Shares,
    /// The memory of longer bodies.
    pub(crate) long: Shares,
    /// A permit for each larger body that is being parsed.
    pub(crate) parsing: Arc<Semaphore>,
    /// The memory of large answers, from their creation until they are sent.
    pub(crate) answers: Shares,
    /// The permits of uploads. Each stands for about 64 KiB of memory and a descriptor.
    pub(crate) uploads: Shares,
    /// The permits of files that are sent. Each stands for about 64 KiB of memory and a descriptor.
    pub(crate) downloads: Shares,
}

impl Default for ProcessBounds {
    fn default() -> ProcessBounds {
        let shares = |total, build, account, kept| Shares::new(ShareBounds { total, build, account, kept });
        // A sixteenth of the descriptors each; connections and databases use most of the others.
        let most = (descriptors() / 16).max(8);
        let (uploads, downloads) = (most.min(256), most.min(2048));
        ProcessBounds {
            short: shares(96 * MIB, 64 * MIB, 32 * MIB, 16 * MIB),
            long: shares(48 * MIB, 24 * MIB, 6 * MIB, 12 * MIB),
            // During its creation, the largest page occupies twice its 32 MiB.
            answers: shares(140 * MIB, 72 * MIB, 68 * MIB, 68 * MIB),
            uploads: shares(uploads, uploads / 2, uploads / 4, uploads / 6),
            downloads: shares(downloads, downloads / 2, downloads / 4, downloads / 4),
            parsing: Arc::new(Semaphore::new(PARSED_AT_A_TIME)),
        }
    }
}

/// The refusal of a body that is too large, too slow or incomplete.
pub(crate) fn refuse(error: BodyError) -> Refusal {
    match error {
        BodyError::TooLarge => Refusal::detail(StatusCode::PAYLOAD_TOO_LARGE, "Request body is too large."),
        BodyError::Slow => Refusal::detail(StatusCode::REQUEST_TIMEOUT, "The request body did not arrive in time."),
        BodyError::Broken => Refusal::bad_request("The request body is incomplete."),
    }
}
