//! Limits the calls of a grant to [`MAX_CALLS`] a minute (`docs/reference/mcp-server.md`).
//!
//! Each process counts a call before it runs, so that parallel calls never exceed the limit. The calls are stored with the notes of
//! what agents did, and each process takes over the stored calls of the others then. So the limit is exact within a process; over several
//! it may be exceeded by the calls of the second until the next notes are written.

use kit::build::Build;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use store::{BorrowedArgument, Conn, Sql, StoreError};

/// How many calls a grant may make in [`WINDOW_US`].
const MAX_CALLS: i64 = 600;
/// How long the minute of a grant lasts, which begins with its first call, in microseconds.
const WINDOW_US: i64 = 60_000_000;

/// The calls of a build's grants, as one process counts them.
#[derive(Default)]
pub struct CallCounts(Mutex<HashMap<i64, MinuteCount>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MinuteCount {
    /// When the minute began, in microseconds since 1970.
    since: i64,
    calls: i64,
    /// How many of the calls are not stored yet.
    unstored: i64,
}

/// The calls of a grant in the minute that began at `since`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallsOfGrant {
    pub grant: i64,
    pub since: i64,
    pub calls: i64,
}

/// A grant has reached the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany {
    /// How long it has to wait, in microseconds.
    pub wait: i64,
}

impl CallCounts {
    pub fn for_build(build: &Build) -> &CallCounts {
        build.slot()
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<i64, MinuteCount>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts calls of a grant that are about to run: all of them, or none.
    pub fn begin(&self, grant: i64, calls: i64, now: i64) -> Result<(), TooMany> {
        let mut counts = self.counts();
        let count = counts.entry(grant).or_insert(MinuteCount { since: now, ..MinuteCount::default() });
        if count.since + WINDOW_US <= now {
            *count = MinuteCount { since: now, ..MinuteCount::default() };
        }
        if count.calls + calls > MAX_CALLS {
            return Err(TooMany { wait: count.since + WINDOW_US - now });
        }
        count.calls += calls;
        count.unstored += calls;
        Ok(())
    }

    /// Takes the calls that are not stored yet. Forgets grants whose minute is over.
    pub fn take_unstored(&self, now: i64) -> Vec<CallsOfGrant> {
        let mut counts = self.counts();
        counts.retain(|_, count| count.since + WINDOW_US > now);
        let unstored = counts.iter_mut().filter(|(_, count)| count.unstored > 0);
        let taken = unstored.map(|(grant, count)| CallsOfGrant {
            grant: *grant,
            since: count.since,
            calls: std::mem::take(&mut count.unstored),
        });
        taken.collect()
    }

    /// Takes back calls that could not be stored.
    pub fn put_back(&self, unstored: &[CallsOfGrant]) {
        let mut counts = self.counts();
        for of in unstored {
            if let Some(count) = counts.get_mut(&of.grant).filter(|count| count.since == of.since) {
                count.unstored += of.calls;
            }
        }
    }

    /// Takes over the stored calls of grants, those of other processes among them.
    pub fn take_over(&self, stored: &[CallsOfGrant]) {
        let mut counts = self.counts();
        for of in stored {
            if let Some(count) = counts.get_mut(&of.grant) {
                count.since = of.since;
                count.calls = of.calls + count.unstored;
            }
        }
    }
}

/// Stores the calls of grants of a build, and returns what all processes have stored of these grants. The caller holds the row of
/// the build, so that no two processes do so at once.
pub fn store(
    conn: &mut Conn,
    build: &str,
    unstored: &[CallsOfGrant],
    now: i64,
) -> Result<Vec<CallsOfGrant>, StoreError> {
    if unstored.is_empty() {
        return Ok(Vec::new());
    }
    let sql = Sql::new("DELETE FROM agent_calls WHERE build = $1 AND since <= $2").arg(build).arg(now - WINDOW_US);
    conn.exec(&sql)?;
    let rows: Vec<[BorrowedArgument<'_>; 4]> = unstored
        .iter()
        .map(|of| {
            [
                BorrowedArgument::Text(build),
                BorrowedArgument::Int(of.grant),
                BorrowedArgument::Int(of.since),
                BorrowedArgument::Int(of.calls),
            ]
        })
        .collect();
    let then = "ON CONFLICT (build, session_id) DO UPDATE SET calls = agent_calls.calls + excluded.calls";
    conn.insert_rows("agent_calls", &["build", "session_id", "since", "calls"], &rows, then)?;
    let mut sql = Sql::new("SELECT session_id, since, calls FROM agent_calls WHERE build = ");
    let grants: Vec<i64> = unstored.iter().map(|of| of.grant).collect();
    sql.bind(build).push(" AND session_id").push_any(grants);
    conn.query_all(&sql, |row| Ok(CallsOfGrant { grant: row.int(0)?, since: row.int(1)?, calls: row.int(2)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn a_grant_may_call_600_times_in_the_minute_that_its_first_call_begins() {
        let calls = CallCounts::default();
        assert_eq!(calls.begin(1, 1, 10 * SECOND), Ok(()));
        assert_eq!(calls.begin(1, 599, 69 * SECOND), Ok(()));
        assert_eq!(calls.begin(1, 1, 69 * SECOND), Err(TooMany { wait: SECOND }));
        assert_eq!(calls.begin(2, 1, 69 * SECOND), Ok(()));
        assert_eq!(calls.begin(1, 1, 70 * SECOND), Ok(()));
        // Several are counted as a whole, or not at all.
        assert_eq!(calls.begin(1, 600, 71 * SECOND), Err(TooMany { wait: 59 * SECOND }));
        assert_eq!(calls.begin(1, 599, 71 * SECOND), Ok(()));
    }

    #[test]
    fn calls_of_other_processes_count_once_they_are_stored() {
        let (here, mut stored) = (CallCounts::default(), CallsOfGrant { grant: 1, since: 5 * SECOND, calls: 400 });
        here.begin(1, 100, 10 * SECOND).unwrap();
        let unstored = here.take_unstored(11 * SECOND);
        assert_eq!(unstored, [CallsOfGrant { grant: 1, since: 10 * SECOND, calls: 100 }]);
        assert_eq!(here.take_unstored(11 * SECOND), []);
        // One more is counted while these are stored.
        here.begin(1, 1, 11 * SECOND).unwrap();
        stored.calls += 100;
        here.take_over(&[stored]);
        assert_eq!(here.begin(1, 100, 12 * SECOND), Err(TooMany { wait: 53 * SECOND }));
        assert_eq!(here.begin(1, 99, 12 * SECOND), Ok(()));
        // What could not be stored is stored later.
        let unstored = here.take_unstored(13 * SECOND);
        here.put_back(&unstored);
        assert_eq!(here.take_unstored(13 * SECOND), [CallsOfGrant { grant: 1, since: 5 * SECOND, calls: 100 }]);
        // Nothing is left of a minute that is over.
        assert_eq!((here.take_unstored(65 * SECOND), here.counts().len()), (vec![], 0));
    }
}
