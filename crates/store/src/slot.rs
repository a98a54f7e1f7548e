//! The databases that a process has heard of.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A database that this process has heard of; there is one slot to a name, and all handles share it.
pub(crate) struct Slot {
    /// Unique in this process, across stores.
    pub id: u64,
    /// The file's stem or the schema's name.
    pub name: String,
    /// SQLite: its file. Unused on PostgreSQL.
    pub file: PathBuf,
    /// Whether it is the control database.
    pub control: bool,
    /// Writes of this process that have ended; on PostgreSQL the control database's slot counts those of all.
    pub writes: AtomicU64,
    /// Held while its migrations are looked at.
    pub preparing: Mutex<()>,
    /// Twice the generation, plus 1 once its migrations are known to have run.
    state: AtomicU64,
}

impl Slot {
    pub fn new(name: String, file: PathBuf, control: bool) -> Slot {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Slot { id, name, file, control, writes: AtomicU64::new(0), preparing: Mutex::new(()), state: AtomicU64::new(0) }
    }

    /// Changes whenever connections opened before must not be used again.
    pub fn generation(&self) -> u64 {
        self.state.load(Ordering::Acquire) >> 1
    }

    /// Begins a new generation, whose migrations are not known to have run.
    pub fn renew(&self) {
        let next = |state: u64| Some((state | 1) + 1);
        // The closure always gives a value, so this cannot fail.
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    }

    pub fn is_prepared(&self) -> bool {
        self.state.load(Ordering::Acquire) & 1 == 1
    }

    /// Notes that the migrations of a generation have run; nothing if another one has begun since.
    pub fn set_prepared(&self, generation: u64) {
        let (from, to) = (generation << 1, (generation << 1) | 1);
        let _ = self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// Locks, whatever became of a thread that held it before: what these locks guard is left whole by every holder.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
