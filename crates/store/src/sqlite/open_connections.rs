//! The open connections of a thread. At its capacity it closes the least recently used one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::open::{ConnectionPurpose, open};
use super::settings::SqliteSettings;
use crate::conn::Conn;
use crate::error::StoreError;
use crate::slot::Slot;

/// Counts the creations and removals of databases and the closings of stores in this process. A change tells every
/// thread to drop outdated connections.
static CLEARED: AtomicU64 = AtomicU64::new(0);

/// Makes every thread drop its connections of past generations at its next use of a connection.
pub(super) fn clear() {
    CLEARED.fetch_add(1, Ordering::AcqRel);
}

/// The open connections of one thread.
pub(super) struct OpenConnections {
    open: Vec<OpenFile>,
    /// The maximum number of open connections.
    pub capacity: usize,
    purpose: ConnectionPurpose,
    /// The number of uses so far.
    now: u64,
    cleared: u64,
}

struct OpenFile {
    slot: Arc<Slot>,
    generation: u64,
    conn: Conn,
    used: u64,
}

impl OpenFile {
    fn is_current(&self) -> bool {
        self.slot.generation() == self.generation
    }
}

impl OpenConnections {
    pub fn new(purpose: ConnectionPurpose, capacity: usize) -> OpenConnections {
        OpenConnections { open: Vec::new(), capacity, purpose, now: 0, cleared: 0 }
    }

    /// Returns the connection to a database. Opens it if needed.
    pub fn get(&mut self, settings: &SqliteSettings, slot: &Arc<Slot>) -> Result<&mut Conn, StoreError> {
        self.sweep();
        self.now += 1;
        let at = match self.open.iter().position(|entry| entry.slot.id == slot.id && entry.is_current()) {
            Some(at) => at,
            None => {
                // A removal between this line and the opening makes this a connection of a past generation.
                let generation = slot.generation();
                let conn = Conn::sqlite(open(settings, slot, self.purpose)?);
                if self.open.len() >= self.capacity
                    && let Some(oldest) = (0..self.open.len()).min_by_key(|&at| self.open[at].used)
                {
                    self.open.swap_remove(oldest);
                }
                self.open.push(OpenFile { slot: slot.clone(), generation, conn, used: 0 });
                self.open.len() - 1
            }
        };
        let entry = &mut self.open[at];
        entry.used = self.now;
        Ok(&mut entry.conn)
    }

    /// Drops connections of past generations.
    pub fn sweep(&mut self) {
        let cleared = CLEARED.load(Ordering::Acquire);
        if self.cleared != cleared {
            self.cleared = cleared;
            self.open.retain(OpenFile::is_current);
        }
    }

    pub fn close(&mut self, slot: &Slot) {
        self.open.retain(|entry| entry.slot.id != slot.id);
    }

    /// Empties the write-ahead logs and closes all connections.
    pub fn finish(mut self) {
        self.sweep();
        for entry in &mut self.open {
            entry.conn.as_sqlite().checkpoint();
        }
    }
}
