//! Sessions: the lease on writing a tenant's events. Sessions are numbered, and one process at a time owns one.
//!
//! A session is a table without rows, such as `writer_7`. It belongs to the process that created the table, which is
//! atomic. Session 8 can be opened when session 7 was closed (according to the table's comment) or its process counts
//! as dead. The table of the highest number is never dropped, so that numbers are not reused. Events are stored with
//! the number of their session, by which a process finds the events of other processes.
//!
//! Safety does not depend on clocks. An insert names its session's table, and the server refuses the insert once that
//! table is dropped. Before the takeover of a session that was not closed, a process drops that session's table. Then
//! it waits until the session's inserts have ended. So a suspended process is harmless after a takeover by another one.
//! The waiting times below determine the time of the takeover, not its safety. See docs/decisions/0006.

use super::server::{ClickHouseClient, RETRY_DELAYS, StatementFailure, UNKNOWN_TABLE, retry};
use crate::engine::contract::EngineError;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time for which a session is seen open, without running statements, until its process counts as dead.
const TAKEOVER_IF_QUIET: Duration = Duration::from_secs(3);
/// The time for which a session is seen open until its process counts as dead in any case.
const TAKEOVER: Duration = Duration::from_secs(8);
/// The time limit for the end of killed inserts.
const MAX_KILL_TIME: Duration = Duration::from_secs(15);
/// The comment of a session's table after the session was closed. Before, it is the holder's name.
const CLOSED: &str = "ended";
/// The only column of a session's table.
pub(super) const SESSION_COLUMN: &str = "held";

/// Returns the statement that creates a new tenant's first session, which is closed already.
pub(super) fn create_first(database: &str) -> String {
    format!("CREATE TABLE {database}.writer_0 ({SESSION_COLUMN} UInt8) ENGINE = Null COMMENT '{CLOSED}'")
}

/// The sessions of one tenant.
pub(super) struct Sessions {
    pub(super) server: ClickHouseClient,
    pub(super) database: String,
    /// The name of this process, which is unique.
    pub(super) holder: Arc<str>,
}

/// A session that this process owns.
pub(super) struct WriterSession {
    pub(super) number: u64,
    /// The number of stored history events when the session was opened.
    pub(super) history_rows: u64,
    /// The number of stored system events when the session was opened.
    pub(super) system_rows: u64,
    pub(super) opened_at: Instant,
    /// The numbers of sessions whose tables are still to be dropped.
    previous: Vec<u64>,
}

/// The tables of a tenant at one time.
pub(super) struct Snapshot {
    /// The number and the comment of each session, the highest number last.
    sessions: Vec<(u64, String)>,
    pub(super) history_rows: u64,
    pub(super) system_rows: u64,
}

impl Snapshot {
    /// Returns the number of the newest session.
    pub(super) fn highest(&self) -> u64 {
        self.sessions.last().map_or(0, |(number, _)| *number)
    }
}

impl Sessions {
    pub(super) async fn snapshot(&self) -> Result<Snapshot, StatementFailure> {
        let sql = format!("SELECT name, comment, total_rows FROM system.tables WHERE database = '{}'", self.database);
        let tables: Vec<(String, String, Option<u64>)> = self.server.rows(&sql).await?;
        let rows = |table: &str| {
            let row_count = tables.iter().find(|(name, ..)| name == table).and_then(|(.., rows)| *rows);
            row_count.ok_or_else(|| {
                StatementFailure::Refused(UNKNOWN_TABLE, format!("{}.{table} does not exist", self.database))
            })
        };
        let (history_rows, system_rows) = (rows("history_events")?, rows("system_events")?);
        let numbered =
            |(name, comment, _): (String, String, _)| Some((name.strip_prefix("writer_")?.parse().ok()?, comment));
        let mut sessions: Vec<(u64, String)> = tables.into_iter().filter_map(numbered).collect();
        sessions.sort_unstable();
        Ok(Snapshot { sessions, history_rows, system_rows })
    }

    /// Opens a session when no other process owns one. `next` is the next number, if no other process has written since
    /// this one. The future may be dropped at any point. If that leaves a session open, this process continues immediately,
    /// and others after [`TAKEOVER_IF_QUIET`].
    pub(super) async fn open(&self, mut next: Option<u64>) -> Result<WriterSession, EngineError> {
        let mut watched = None;
        let mut retry_delays = RETRY_DELAYS.iter();
        loop {
            let number = match next.take() {
                Some(number) => number,
                None => match self.next_number(&mut watched).await? {
                    Some(number) => number,
                    None => continue,
                },
            };
            match self.create_session_table(number).await {
                Ok(()) => {}
                Err(fault) if fault.already_exists() => continue,
                Err(fault) if fault.is_transient() => match retry_delays.next() {
                    // The table may have been created nevertheless; the next snapshot shows it.
                    Some(delay) => {
                        tokio::time::sleep(*delay).await;
                        continue;
                    }
                    None => return Err(fault.into()),
                },
                Err(fault) => return Err(fault.into()),
            }
            let snapshot = self.snapshot().await?;
            if snapshot.highest() == number {
                return self.begin_session(number, snapshot).await;
            }
            // The number was outdated: other processes have opened sessions since.
            self.drop_session_table(number).await?;
        }
    }

    /// Returns the number of the next session. `None` after a pause if another process owns a session that it may still close.
    /// `watched` is the open session of another process, and the time at which it was first seen.
    async fn next_number(&self, watched: &mut Option<(u64, Instant)>) -> Result<Option<u64>, EngineError> {
        let snapshot = self.snapshot().await?;
        let highest = snapshot.highest();
        let comment = snapshot.sessions.last().map_or(CLOSED, |(_, comment)| comment);
        if comment != CLOSED && comment != &*self.holder {
            let watched_since = match *watched {
                Some((number, watched_since)) if number == highest => watched_since,
                _ => Instant::now(),
            };
            *watched = Some((highest, watched_since));
            let waited = watched_since.elapsed();
            if waited < TAKEOVER_IF_QUIET || (waited < TAKEOVER && self.running_statements(None).await? > 0) {
                random_pause(10..20).await;
                return Ok(None);
            }
            tracing::warn!(
                database = self.database,
                session = highest,
                "taking over the writing session of another process, which does not close it"
            );
        }
        Ok(Some(highest + 1))
    }

    async fn create_session_table(&self, number: u64) -> Result<(), StatementFailure> {
        let table = format!("{}.writer_{number}", self.database);
        let create = format!("CREATE TABLE {table} ({SESSION_COLUMN} UInt8) ENGINE = Null COMMENT '{}'", self.holder);
        self.server.run(&create).await
    }

    /// Ends earlier sessions that were not closed, and returns the session with this number, which is the last of the snapshot.
    async fn begin_session(&self, number: u64, mut snapshot: Snapshot) -> Result<WriterSession, EngineError> {
        snapshot.sessions.pop();
        let mut previous: Vec<u64> = snapshot.sessions.iter().map(|(number, _)| *number).collect();
        if snapshot.sessions.iter().any(|(_, comment)| comment != CLOSED) {
            for number in previous.drain(..) {
                self.drop_session_table(number).await?;
            }
            self.end_inserts_except_of(number).await?;
            snapshot = self.snapshot().await?;
        }
        let (history_rows, system_rows) = (snapshot.history_rows, snapshot.system_rows);
        Ok(WriterSession { number, history_rows, system_rows, opened_at: Instant::now(), previous })
    }

    /// Closes a session, so that another one can be opened. All its inserts must have been answered. A session with an
    /// unanswered insert stays open, so that the next session begins by waiting for that insert.
    pub(super) async fn close(&self, session: WriterSession) -> Result<(), StatementFailure> {
        let number = session.number;
        let close = format!("ALTER TABLE {}.writer_{number} MODIFY COMMENT '{CLOSED}'", self.database);
        retry(|| self.server.run(&close)).await?;
        for number in session.previous {
            self.drop_session_table(number).await?;
        }
        Ok(())
    }

    async fn drop_session_table(&self, number: u64) -> Result<(), StatementFailure> {
        let drop = format!("DROP TABLE IF EXISTS {}.writer_{number} SYNC", self.database);
        retry(|| self.server.run(&drop)).await
    }

    /// Returns the number of running statements of sessions, except those of the session `except`.
    async fn running_statements(&self, except: Option<u64>) -> Result<u64, StatementFailure> {
        self.server.row(&format!("SELECT count() FROM system.processes WHERE {}", self.session_condition(except))).await
    }

    /// Returns the condition on `system.processes` that a statement belongs to a session, but not to the session
    /// `except`.
    fn session_condition(&self, except: Option<u64>) -> String {
        let but_not = |number| format!(" AND NOT startsWith(query_id, '{}')", self.query_id_prefix(number));
        format!("startsWith(query_id, '{}/'){}", self.database, except.map_or(String::new(), but_not))
    }

    /// Returns the prefix of the query ids of a session's statements.
    pub(super) fn query_id_prefix(&self, number: u64) -> String {
        format!("{}/{number}/", self.database)
    }

    /// Kills the inserts of all sessions except one, and waits for their end.
    async fn end_inserts_except_of(&self, number: u64) -> Result<(), EngineError> {
        let deadline = Instant::now() + MAX_KILL_TIME;
        while self.running_statements(Some(number)).await? > 0 {
            // Without the right to kill, this only needs more time, since each insert has a time limit.
            let kill = format!("KILL QUERY WHERE {} ASYNC", self.session_condition(Some(number)));
            if let Err(fault) = self.server.run(&kill).await {
                tracing::warn!(database = self.database, ?fault, "killing an insert of another process failed");
            }
            if Instant::now() > deadline {
                return Err(EngineError::Unavailable("an insert of another process does not end".to_owned()));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

/// Waits a random time from this range of milliseconds, so that waiting processes do not send their requests at once.
pub(super) async fn random_pause(millis: std::ops::Range<u64>) {
    let [byte] = web::clock::random_bytes::<1>();
    let spread = millis.end.saturating_sub(millis.start);
    tokio::time::sleep(Duration::from_millis(millis.start + u64::from(byte) * spread / 256)).await;
}
