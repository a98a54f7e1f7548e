//! The state of each database in this process.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The state of one database in this process. Each name has one slot, which all handles share.
pub(crate) struct Slot {
    /// Unique in this process, across stores.
    pub id: u64,
    /// The stem of its file, or the name of its schema.
    pub name: String,
    /// Its file; unused on PostgreSQL.
    pub file: PathBuf,
    /// Is true for the control database.
    pub control: bool,
    /// The number of writes of this process that have ended. On PostgreSQL the slot of the control database counts the
    /// writes to all databases.
    pub writes: AtomicU64,
    /// Locked while its migrations are checked and run (SQLite).
    pub preparing: Mutex<()>,
    /// Twice the generation, plus 1 if its migrations have run.
    state: AtomicU64,
}

impl Slot {
    pub fn new(name: String, file: PathBuf, control: bool) -> Slot {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Slot { id, name, file, control, writes: AtomicU64::new(0), preparing: Mutex::new(()), state: AtomicU64::new(0) }
    }

    /// Returns the generation. Connections that were opened in an earlier generation must not be used any more.
    pub fn generation(&self) -> u64 {
        self.state.load(Ordering::Acquire) >> 1
    }

    /// Begins a new generation, whose migrations must be checked again.
    pub fn renew(&self) {
        let next = |state: u64| Some((state | 1) + 1);
        // The closure always returns a value, so this cannot fail.
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    }

    pub fn is_prepared(&self) -> bool {
        self.state.load(Ordering::Acquire) & 1 == 1
    }

    /// Records that the migrations have run in a generation. Does nothing if another generation has begun since.
    pub fn set_prepared(&self, generation: u64) {
        let (from, to) = (generation << 1, (generation << 1) | 1);
        let _ = self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
    }
}
