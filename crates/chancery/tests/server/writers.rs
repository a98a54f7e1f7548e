//! Concurrent writers that write until they are stopped, for the tests of crashes and outages.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use testkit::eventually;
use tokio::task::JoinHandle;

/// The shared record of the writers.
pub trait WriterNotes: Send + 'static {
    /// The number of further acknowledgements after which writers count as working.
    const AT_WORK: usize;
    /// Returns the number of acknowledgements.
    fn acknowledged(&self) -> usize;
    /// Returns answers that must not occur.
    fn faults(&self) -> &[String];
}

/// One of the writers.
pub trait WorkloadWriter: Send + Sync + 'static {
    /// Writes for the `n`th time. Returns `None` if a write was not acknowledged. The writer then pauses.
    fn write(&self, n: usize) -> impl Future<Output = Option<()>> + Send;
}

/// Running writers and their record.
pub struct RunningWriters<T> {
    told: Arc<Mutex<T>>,
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl<T: WriterNotes> RunningWriters<T> {
    /// Starts a number of writers. Each gets its number and the flag that stops it.
    pub fn start<W: WorkloadWriter>(
        count: usize,
        acknowledged: &Arc<Mutex<T>>,
        writer: impl Fn(usize, &Arc<AtomicBool>) -> W,
    ) -> RunningWriters<T> {
        let stop = Arc::new(AtomicBool::new(false));
        let task = |number: usize| {
            let (writer, stop) = (writer(number, &stop), stop.clone());
            tokio::spawn(async move {
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    if writer.write(n).await.is_none() {
                        // A client does not repeat a failed call immediately.
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
            })
        };
        RunningWriters { told: acknowledged.clone(), tasks: (0..count).map(task).collect(), stop }
    }

    /// Waits until some more writes are acknowledged.
    pub async fn are_at_work(&self) {
        let wanted = lock(&self.told).acknowledged() + T::AT_WORK;
        eventually(async || {
            let faults = lock(&self.told).faults().to_vec();
            assert!(faults.is_empty(), "{faults:?}");
            lock(&self.told).acknowledged() >= wanted
        })
        .await;
    }

    /// Ends the round.
    pub async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

/// Waits for up to 300 ms before a kill, for another time in each round, so that kills meet different steps of the work.
pub async fn until_kill(round: usize) {
    // The writers continue in the meantime.
    tokio::time::sleep(Duration::from_millis(37 * round as u64 % 300)).await;
}

/// Waits while a database is unavailable.
pub async fn down_time() {
    // The time is sufficient for a failed call of each writer.
    tokio::time::sleep(Duration::from_millis(300)).await;
}

pub fn lock<T>(told: &Mutex<T>) -> MutexGuard<'_, T> {
    told.lock().unwrap_or_else(PoisonError::into_inner)
}
