//! The cache of a build's callers in a process, which lets most requests be authenticated without the database.
//!
//! Every transaction that changes rights raises the version of the rights (`rights.rs`). The process that commits
//! evicts the callers that it cached under earlier versions, so its cache is never stale. Other processes read
//! the version again [`STALE_AFTER`] after their last read, so their caches are stale for at most that time.

use crate::caller::{Caller, CallerKey};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The maximum time for which changes made by another process remain unnoticed (`docs/reference/sign-in.md`).
pub const STALE_AFTER: Duration = Duration::from_millis(500);

/// The cache of a build's callers, by their credentials.
#[derive(Default)]
pub struct CallerCache(Mutex<KnownCallers>);

#[derive(Default)]
struct KnownCallers {
    version: i64,
    asked: Option<Instant>,
    callers: HashMap<CallerKey, Arc<Caller>>,
}

/// The size of the cache. A full cache is cleared, which costs each caller one statement.
const MAX_CALLERS: usize = 20_000;

impl CallerCache {
    fn lock(&self) -> MutexGuard<'_, KnownCallers> {
        web::lock(&self.0)
    }
    /// Returns the cached caller of a credential, and whether the version of the rights was read less than [`STALE_AFTER`] ago.
    pub fn get(&self, key: CallerKey) -> (Option<Arc<Caller>>, bool) {
        let cache = self.lock();
        let is_fresh = cache.asked.is_some_and(|asked_at| asked_at.elapsed() < STALE_AFTER);
        (cache.callers.get(&key).cloned(), is_fresh)
    }
    /// Evicts the callers that were cached under an earlier version of the rights.
    pub fn evict_before(&self, version: i64) {
        let mut cache = self.lock();
        if version > cache.version {
            cache.callers.clear();
            cache.version = version;
        }
    }
    /// Records that this version of the rights has just been read from the database.
    pub fn mark_version_read(&self, version: i64) {
        self.evict_before(version);
        self.lock().asked = Some(Instant::now());
    }
    /// Caches a caller, unless the cache has a later version of the rights.
    pub fn store(&self, key: CallerKey, caller: &Arc<Caller>) {
        self.mark_version_read(caller.version);
        let mut cache = self.lock();
        if cache.version == caller.version {
            if cache.callers.len() >= MAX_CALLERS {
                cache.callers.clear();
            }
            cache.callers.insert(key, caller.clone());
        }
    }
}
