//! Lets the requests of this process with the same `Idempotency-Key` wait for each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::time::{Instant, timeout_at};

/// The requests of this process that wait for another one with the same key, by the hash of the key.
#[derive(Default)]
pub struct Turns(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

/// The right to be the only request of this process with a key.
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    hash: &'a str,
    lock: Option<tokio::sync::OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits until no other request has the key; `None` if this takes too long.
    pub(super) async fn acquire<'a>(&'a self, hash: &'a str, deadline: Instant) -> Option<Turn<'a>> {
        let lock = web::lock(&self.0).entry(hash.to_owned()).or_default().clone();
        let lock = timeout_at(deadline, lock.lock_owned()).await.ok()?;
        Some(Turn { turns: self, hash, lock: Some(lock) })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut all = web::lock(&self.turns.0);
        self.lock = None;
        // Only the table refers to a lock for which nobody waits.
        if all.get(self.hash).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            all.remove(self.hash);
        }
    }
}
