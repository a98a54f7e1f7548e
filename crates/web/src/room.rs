//! Bounds on the memory that bodies may take together. A body for which there is no room waits a little and is then refused,
//! so that a server that is sent too much answers 503 and goes on.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The unit in which memory is counted, in bytes.
const UNIT: usize = 1024;

/// A number of bytes that many bodies share.
#[derive(Clone, Debug)]
pub struct Room(Arc<Semaphore>);

/// Bytes that were taken from one or more rooms. They are given back when this is dropped.
#[derive(Debug, Default)]
pub struct Taken(Vec<OwnedSemaphorePermit>);

impl Room {
    /// A room of so many bytes.
    pub fn new(bytes: usize) -> Room {
        Room(Arc::new(Semaphore::new(bytes / UNIT)))
    }

    /// Takes more bytes, rounded up to whole units. `false` if they do not become free within `patience`.
    pub async fn take(&self, bytes: usize, patience: Duration, taken: &mut Taken) -> bool {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let permit = match self.0.clone().try_acquire_many_owned(units) {
            Ok(permit) => permit,
            Err(_) => match timeout(patience, self.0.clone().acquire_many_owned(units)).await {
                Ok(Ok(permit)) => permit,
                _ => return false,
            },
        };
        match taken.0.iter_mut().find(|held| Arc::ptr_eq(held.semaphore(), permit.semaphore())) {
            Some(held) => held.merge(permit),
            None => taken.0.push(permit),
        }
        true
    }

    /// How many bytes are free.
    pub fn left(&self) -> usize {
        self.0.available_permits() * UNIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_are_free_again_when_what_took_them_is_dropped() {
        let (room, other, mut taken) = (Room::new(4 * UNIT), Room::new(UNIT), Taken::default());
        assert!(room.take(1, Duration::ZERO, &mut taken).await);
        assert!(room.take(2 * UNIT + 1, Duration::ZERO, &mut taken).await);
        assert!(other.take(UNIT, Duration::ZERO, &mut taken).await);
        assert_eq!((room.left(), other.left()), (0, 0));
        assert!(!room.take(1, Duration::ZERO, &mut Taken::default()).await);
        drop(taken);
        assert_eq!((room.left(), other.left()), (4 * UNIT, UNIT));
    }

    #[tokio::test]
    async fn a_body_waits_for_room() {
        let (room, mut first) = (Room::new(UNIT), Taken::default());
        assert!(room.take(1, Duration::ZERO, &mut first).await);
        let (waits, mut second) = (room.clone(), Taken::default());
        let waiting = tokio::spawn(async move { waits.take(1, Duration::from_secs(60), &mut second).await });
        tokio::task::yield_now().await;
        drop(first);
        assert!(waiting.await.unwrap());
    }
}
