//! Limits the calls of a grant to 600 a minute (`docs/reference/mcp-server.md`).
//!
//! Each process counts a call before it runs, so that parallel calls never exceed the limit. A process stores its counts together with
//! the lines of the activity log, and then reads the counts of the others. The limit is exact within a process. Several processes may
//! exceed it by the calls of about a second.

use kit::build::Build;
use kit::ids::SessionId;
use kit::rate_limit::{RateLimit, RateLimitState};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use store::{BorrowedArgument, Conn, Sql, StoreError};

/// The maximum number of calls of a grant in a window, which begins with the first call.
static CALLS: RateLimit = RateLimit { name: "tool-calls", most: 600, seconds: 60 };
/// The length of a window, in microseconds.
const WINDOW_US: i64 = CALLS.seconds * 1_000_000;

/// The counts of one process, by the grants of a build.
#[derive(Default)]
pub struct CallCounts(Mutex<HashMap<SessionId, WindowCount>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct WindowCount {
    /// The start of the window, in microseconds since 1970.
    since: i64,
    calls: i64,
    /// The number of calls that are not stored yet.
    unstored: i64,
}

/// The calls of a grant in the window that began at `since`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantCalls {
    pub grant: SessionId,
    pub since: i64,
    pub calls: i64,
}

/// A grant has reached the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany {
    /// The time until the next window, in microseconds.
    pub wait: i64,
}

impl CallCounts {
    pub fn for_build(build: &Build) -> &CallCounts {
        build.slot()
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<SessionId, WindowCount>> {
        web::lock(&self.0)
    }

    /// Counts calls of a grant before they run. Counts all of them or none.
    pub fn begin(&self, grant: SessionId, calls: i64, now: i64) -> Result<(), TooMany> {
        let mut counts = self.counts();
        let count = counts.entry(grant).or_insert(WindowCount { since: now, ..WindowCount::default() });
        if count.since + WINDOW_US <= now {
            *count = WindowCount { since: now, ..WindowCount::default() };
        }
        if count.calls + calls > CALLS.most {
            return Err(TooMany { wait: count.since + WINDOW_US - now });
        }
        count.calls += calls;
        count.unstored += calls;
        Ok(())
    }

    /// Returns the state of the rate limit of a grant.
    pub fn state(&self, grant: SessionId, now: i64) -> RateLimitState {
        let count = self.counts().get(&grant).copied().unwrap_or(WindowCount { since: now, ..WindowCount::default() });
        // The client gets whole seconds. An earlier call is refused again, so they are rounded up.
        CALLS.state(count.calls, count.since + WINDOW_US - now + 999_999)
    }

    /// Takes the calls that are not stored yet. Removes grants whose window is over.
    pub fn take_unstored(&self, now: i64) -> Vec<GrantCalls> {
        let mut counts = self.counts();
        counts.retain(|_, count| count.since + WINDOW_US > now);
        let unstored = counts.iter_mut().filter(|(_, count)| count.unstored > 0);
        let calls = unstored.map(|(grant, count)| GrantCalls {
            grant: *grant,
            since: count.since,
            calls: std::mem::take(&mut count.unstored),
        });
        calls.collect()
    }

    /// Returns calls that could not be stored.
    pub fn put_back(&self, unstored: &[GrantCalls]) {
        let mut counts = self.counts();
        for calls in unstored {
            if let Some(count) = counts.get_mut(&calls.grant).filter(|count| count.since == calls.since) {
                count.unstored += calls.calls;
            }
        }
    }

    /// Replaces the counts of grants by the stored counts, which include those of other processes.
    pub fn take_over(&self, stored: &[GrantCalls]) {
        let mut counts = self.counts();
        for calls in stored {
            if let Some(count) = counts.get_mut(&calls.grant) {
                count.since = calls.since;
                count.calls = calls.calls + count.unstored;
            }
        }
    }
}

/// Stores the calls of grants of a build, and returns the stored calls of all processes of these grants. The caller has locked the row
/// of the build, so that processes store one after the other.
pub fn store(conn: &mut Conn, build: &str, unstored: &[GrantCalls], now: i64) -> Result<Vec<GrantCalls>, StoreError> {
    if unstored.is_empty() {
        return Ok(Vec::new());
    }
    let sql = Sql::new("DELETE FROM agent_calls WHERE build = $1 AND since <= $2").arg(build).arg(now - WINDOW_US);
    conn.exec(&sql)?;
    let rows: Vec<[BorrowedArgument<'_>; 4]> = unstored
        .iter()
        .map(|calls| {
            [
                BorrowedArgument::Text(build),
                calls.grant.into(),
                BorrowedArgument::Int(calls.since),
                BorrowedArgument::Int(calls.calls),
            ]
        })
        .collect();
    let conflict = "ON CONFLICT (build, session_id) DO UPDATE SET calls = agent_calls.calls + excluded.calls";
    conn.insert_rows("agent_calls", &["build", "session_id", "since", "calls"], &rows, conflict)?;
    let mut sql = Sql::new("SELECT session_id, since, calls FROM agent_calls WHERE build = ");
    let grants: Vec<SessionId> = unstored.iter().map(|calls| calls.grant).collect();
    sql.bind(build).push(" AND session_id").push_any(grants);
    conn.query_all(&sql, |row| Ok(GrantCalls { grant: row.id(0)?, since: row.int(1)?, calls: row.int(2)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn a_grant_may_call_600_times_in_the_minute_that_its_first_call_begins() {
        let calls = CallCounts::default();
        assert_eq!(calls.begin(SessionId::new(1), 1, 10 * SECOND), Ok(()));
        assert_eq!(calls.begin(SessionId::new(1), 599, 69 * SECOND), Ok(()));
        assert_eq!(calls.begin(SessionId::new(1), 1, 69 * SECOND), Err(TooMany { wait: SECOND }));
        assert_eq!(calls.begin(SessionId::new(2), 1, 69 * SECOND), Ok(()));
        assert_eq!(calls.begin(SessionId::new(1), 1, 70 * SECOND), Ok(()));
        // Several calls are counted together or not at all.
        assert_eq!(calls.begin(SessionId::new(1), 600, 71 * SECOND), Err(TooMany { wait: 59 * SECOND }));
        assert_eq!(calls.begin(SessionId::new(1), 599, 71 * SECOND), Ok(()));
    }

    #[test]
    fn calls_of_other_processes_count_once_they_are_stored() {
        let (own_calls, mut stored) =
            (CallCounts::default(), GrantCalls { grant: SessionId::new(1), since: 5 * SECOND, calls: 400 });
        own_calls.begin(SessionId::new(1), 100, 10 * SECOND).unwrap();
        let unstored = own_calls.take_unstored(11 * SECOND);
        assert_eq!(unstored, [GrantCalls { grant: SessionId::new(1), since: 10 * SECOND, calls: 100 }]);
        assert_eq!(own_calls.take_unstored(11 * SECOND), []);
        // Another call is counted while the first calls are stored.
        own_calls.begin(SessionId::new(1), 1, 11 * SECOND).unwrap();
        stored.calls += 100;
        own_calls.take_over(&[stored]);
        assert_eq!(own_calls.begin(SessionId::new(1), 100, 12 * SECOND), Err(TooMany { wait: 53 * SECOND }));
        assert_eq!(own_calls.begin(SessionId::new(1), 99, 12 * SECOND), Ok(()));
        // Calls that could not be stored are stored later.
        let unstored = own_calls.take_unstored(13 * SECOND);
        own_calls.put_back(&unstored);
        assert_eq!(
            own_calls.take_unstored(13 * SECOND),
            [GrantCalls { grant: SessionId::new(1), since: 5 * SECOND, calls: 100 }]
        );
        // The counts of a window that is over are removed.
        assert_eq!((own_calls.take_unstored(65 * SECOND), own_calls.counts().len()), (vec![], 0));
    }
}
