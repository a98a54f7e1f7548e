//! Checks outside requests whether a store of files answers, so that `/readyz` reports it without a check of its own
//! (`docs/operations.md`).

use super::Blobs;
use super::outage::Outage;
use resource::time;
use serde_json::{Value as Json, json};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use web::clock::Clock;

/// The pause between two checks.
const PAUSE: Duration = Duration::from_secs(15);
/// The time limit of an answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// The state of a store of files at its last check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobHealth {
    /// `None` if the store answers.
    pub outage: Option<Outage>,
    /// The time of the last change, in microseconds since 1970.
    pub since: i64,
    /// Is true if the store has answered since the start.
    pub was_reached: bool,
}

impl BlobHealth {
    /// The details for `/readyz`: `{status, since}`.
    pub fn details(&self) -> Json {
        let status = if self.outage.is_none() { "ok" } else { "unavailable" };
        json!({"status": status, "since": time::show(self.since)})
    }

    /// The warning for operators.
    pub fn warning(&self) -> Option<String> {
        self.outage.map(|reason| format!("The file store is unavailable ({reason}); uploads are refused."))
    }
}

/// Checks a store of files every 15 seconds. Cheap to clone.
#[derive(Clone, Default)]
pub struct BlobWatch(Arc<Mutex<Option<BlobHealth>>>);

impl BlobWatch {
    /// Begins the checks. Checks a directory before this returns. A bucket counts as unreachable until its first
    /// answer.
    pub fn start(&self, blobs: Blobs, clock: Clock) {
        let first = blobs.probe_local().unwrap_or(Err(Outage::Unreachable));
        *self.lock() = Some(BlobHealth { outage: first.err(), since: clock.now(), was_reached: first.is_ok() });
        if let (Err(outage), false) = (first, blobs.is_on_s3()) {
            log_outage(outage);
        }
        let watch = self.clone();
        tokio::spawn(async move {
            let mut is_first = true;
            loop {
                let answer = timeout(PATIENCE, blobs.probe()).await.unwrap_or(Err(Outage::Timeout));
                watch.record_answer(answer, clock.now(), std::mem::take(&mut is_first) && blobs.is_on_s3());
                sleep(PAUSE).await;
            }
        });
    }

    /// Returns the state, if the checks have begun.
    pub fn health(&self) -> Option<BlobHealth> {
        *self.lock()
    }

    /// Stores an answer, and logs each change of it. An outage at the first answer counts as a change, too.
    fn record_answer(&self, answer: Result<(), Outage>, now: i64, is_first: bool) {
        let mut state = self.lock();
        let Some(before) = *state else { return };
        let outage = answer.err();
        if outage == before.outage && !is_first {
            return;
        }
        match outage {
            Some(outage) => log_outage(outage),
            None if is_first => {}
            None => tracing::info!("file store answers again"),
        }
        *state = Some(BlobHealth { outage, since: now, was_reached: before.was_reached || outage.is_none() });
    }

    fn lock(&self) -> MutexGuard<'_, Option<BlobHealth>> {
        web::lock(&self.0)
    }
}

fn log_outage(reason: Outage) {
    tracing::error!(%reason, "file store is unavailable, uploads are refused");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_answer_is_stored_with_its_time() {
        let watch = BlobWatch::default();
        *watch.lock() = Some(BlobHealth { outage: Some(Outage::Unreachable), since: 1, was_reached: false });
        watch.record_answer(Err(Outage::NoSuchBucket), 2, true);
        let missing = BlobHealth { outage: Some(Outage::NoSuchBucket), since: 2, was_reached: false };
        assert_eq!(watch.health(), Some(missing));
        watch.record_answer(Err(Outage::NoSuchBucket), 3, false);
        assert_eq!(watch.health(), Some(missing), "nothing changed");
        watch.record_answer(Ok(()), 4, false);
        assert_eq!(watch.health(), Some(BlobHealth { outage: None, since: 4, was_reached: true }));
        watch.record_answer(Err(Outage::Timeout), 5, false);
        let unreachable = BlobHealth { outage: Some(Outage::Timeout), since: 5, was_reached: true };
        assert_eq!(watch.health(), Some(unreachable), "it was reached once");
    }
}
