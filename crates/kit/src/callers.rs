//! The cache of a build's callers in a process, which lets most requests be authenticated without the database.
//!
//! Every transaction that changes rights raises the version of the rights (`rights.rs`). The process that commits drops
//! what it cached under earlier versions, so it is never stale. Every process reads the version again when it last did
//! so [`STALE_AFTER`] ago, so in others the cache is stale for no longer than that.

use crate::caller::Caller;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long changes made by another process may go unseen (`docs/reference/sign-in.md`).
pub const STALE_AFTER: Duration = Duration::from_millis(500);

/// The cache of a build's callers, by session.
#[derive(Default)]
pub struct CallerCache(Mutex<KnownCallers>);

#[derive(Default)]
struct KnownCallers {
    version: i64,
    asked: Option<Instant>,
    sessions: HashMap<i64, Arc<Caller>>,
}

/// The size of the cache. When it is full it is cleared, which costs each session one statement.
const MAX_SESSIONS: usize = 20_000;

impl CallerCache {
    fn lock(&self) -> MutexGuard<'_, KnownCallers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The cached caller of a session, and whether the version of the rights was read less than [`STALE_AFTER`] ago.
    pub fn get(&self, session: i64) -> (Option<Arc<Caller>>, bool) {
        let known = self.lock();
        let is_fresh = known.asked.is_some_and(|asked| asked.elapsed() < STALE_AFTER);
        (known.sessions.get(&session).cloned(), is_fresh)
    }
    /// Drops the callers cached under a version of the rights before this one.
    pub fn evict_before(&self, version: i64) {
        let mut known = self.lock();
        if version > known.version {
            known.sessions.clear();
            known.version = version;
        }
    }
    /// Notes that this version of the rights has just been read from the database.
    pub fn mark_version_read(&self, version: i64) {
        self.evict_before(version);
        self.lock().asked = Some(Instant::now());
    }
    /// Caches a caller, unless a later version of the rights is known.
    pub fn store(&self, caller: &Arc<Caller>) {
        self.mark_version_read(caller.version);
        let mut known = self.lock();
        if known.version == caller.version {
            if known.sessions.len() >= MAX_SESSIONS {
                known.sessions.clear();
            }
            known.sessions.insert(caller.session, caller.clone());
        }
    }
}
