//! What a process remembers of a build's callers, which answers most requests without a look into the database.
//!
//! It is exact in the process that changes something, and at most [`STALE_AFTER`] old in the others: every transaction
//! that changes rights raises the version of the rights (`rights.rs`); the process that commits forgets what is older, and
//! every process asks for the version again when it last did so [`STALE_AFTER`] ago.

use crate::caller::Caller;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long another process's changes may go unseen (`docs/reference/sign-in.md`: within one second).
pub const STALE_AFTER: Duration = Duration::from_millis(500);

/// What a process knows of a build's callers, by session.
#[derive(Default)]
pub struct Callers(Mutex<KnownCallers>);

#[derive(Default)]
struct KnownCallers {
    version: i64,
    asked: Option<Instant>,
    sessions: HashMap<i64, Arc<Caller>>,
}

/// More sessions than this are forgotten together, which costs each of them one statement.
const MAX_SESSIONS: usize = 20_000;

impl Callers {
    fn known(&self) -> MutexGuard<'_, KnownCallers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// What is known of a session, and whether the version of the rights was asked for lately enough.
    pub fn get(&self, session: i64) -> (Option<Arc<Caller>>, bool) {
        let known = self.known();
        let is_fresh = known.asked.is_some_and(|asked| asked.elapsed() < STALE_AFTER);
        (known.sessions.get(&session).cloned(), is_fresh)
    }
    /// The rights have reached this version: what is older is forgotten.
    pub fn reached(&self, version: i64) {
        let mut known = self.known();
        if version > known.version {
            known.sessions.clear();
            known.version = version;
        }
    }
    /// The database has just told this version.
    pub fn asked(&self, version: i64) {
        self.reached(version);
        self.known().asked = Some(Instant::now());
    }
    /// Keeps a caller, unless something newer is known.
    pub fn keep(&self, caller: &Arc<Caller>) {
        self.asked(caller.version);
        let mut known = self.known();
        if known.version == caller.version {
            if known.sessions.len() >= MAX_SESSIONS {
                known.sessions.clear();
            }
            known.sessions.insert(caller.session, caller.clone());
        }
    }
}
