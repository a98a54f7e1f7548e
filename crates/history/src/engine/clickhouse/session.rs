//! Sessions: the lease on writing a tenant's events. They are numbered, and one process at a time holds one.
//!
//! A session is a table without rows, such as `writer_7`, and belongs to the process that made the table, which is
//! atomic. Session 8 can be opened when session 7 was closed (the table's comment says so) or its process is taken for
//! dead. The table of the highest number is never dropped, so that no number is used twice. Events are stored with
//! their session's number, by which a process finds the events that other processes stored.
//!
//! Safety does not depend on clocks. An insert names its session's table, and the server refuses the insert once that
//! table is dropped. Before a process takes over from a session that was not closed, it drops that session's table and
//! waits until none of its inserts is running. So a process that was suspended while another one took over can do no
//! harm: the waiting times below decide when to take over, not whether that is safe. See docs/decisions/0006.

use super::server::{ClickHouseClient, RETRY_DELAYS, StatementFailure, UNKNOWN_TABLE, retry};
use crate::engine::contract::EngineError;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A process is taken for dead when its session has been open for so long and none of its statements is running.
const TAKEOVER_IF_QUIET: Duration = Duration::from_secs(3);
/// A process is taken for dead when its session has been open for so long, whatever is running.
const TAKEOVER: Duration = Duration::from_secs(8);
/// How long inserts that were killed may take to end.
const MAX_KILL_TIME: Duration = Duration::from_secs(15);
/// The comment of a session's table after the session was closed; before, it is the holder's name.
const CLOSED: &str = "ended";
/// The only column of a session's table.
pub(super) const SESSION_COLUMN: &str = "held";

/// The statement that makes a new tenant's first session, which is closed already.
pub(super) fn create_first(database: &str) -> String {
    format!("CREATE TABLE {database}.writer_0 ({SESSION_COLUMN} UInt8) ENGINE = Null COMMENT '{CLOSED}'")
}

/// The sessions of one tenant.
pub(super) struct Sessions {
    pub(super) server: ClickHouseClient,
    pub(super) database: String,
    /// The name of this process, which no other process has.
    pub(super) holder: Arc<str>,
}

/// A session that this process holds.
pub(super) struct WriterSession {
    pub(super) number: u64,
    /// How many history events were stored when the session was opened.
    pub(super) history_rows: u64,
    /// How many system events were stored when the session was opened.
    pub(super) system_rows: u64,
    pub(super) opened_at: Instant,
    /// The numbers of sessions whose tables are still to be dropped.
    previous: Vec<u64>,
}

/// The tables of a tenant at one moment.
pub(super) struct Snapshot {
    /// The number and the comment of each session, the highest number last.
    sessions: Vec<(u64, String)>,
    pub(super) history_rows: u64,
    pub(super) system_rows: u64,
}

impl Snapshot {
    /// The number of the newest session.
    pub(super) fn highest(&self) -> u64 {
        self.sessions.last().map_or(0, |(number, _)| *number)
    }
}

impl Sessions {
    pub(super) async fn snapshot(&self) -> Result<Snapshot, StatementFailure> {
        let sql = format!("SELECT name, comment, total_rows FROM system.tables WHERE database = '{}'", self.database);
        let tables: Vec<(String, String, Option<u64>)> = self.server.rows(&sql).await?;
        let rows = |table: &str| {
            let found = tables.iter().find(|(name, ..)| name == table).and_then(|(.., rows)| *rows);
            found.ok_or_else(|| {
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

    /// Opens a session as soon as no other process holds one. `next` is the next number if no other process wrote since
    /// this one did. The future may be dropped at any point: a session that it leaves open is taken over at once by
    /// this process, and after [`TAKEOVER_IF_QUIET`] by others.
    pub(super) async fn open(&self, mut next: Option<u64>) -> Result<WriterSession, EngineError> {
        // The open session of another process, and since when it was seen.
        let mut watched: Option<(u64, Instant)> = None;
        let mut retry_delays = RETRY_DELAYS.iter();
        loop {
            let number = match next.take() {
                Some(number) => number,
                None => {
                    let snapshot = self.snapshot().await?;
                    let highest = snapshot.highest();
                    let comment = snapshot.sessions.last().map_or(CLOSED, |(_, comment)| comment);
                    if comment != CLOSED && comment != &*self.holder {
                        let since = match watched {
                            Some((number, since)) if number == highest => since,
                            _ => Instant::now(),
                        };
                        watched = Some((highest, since));
                        let waited = since.elapsed();
                        if waited < TAKEOVER_IF_QUIET || (waited < TAKEOVER && self.running_statements(None).await? > 0)
                        {
                            random_pause(10..20).await;
                            continue;
                        }
                        tracing::warn!(
                            database = self.database,
                            session = highest,
                            "taking over the writing session of another process, which does not close it"
                        );
                    }
                    highest + 1
                }
            };
            let table = format!("{}.writer_{number}", self.database);
            let create =
                format!("CREATE TABLE {table} ({SESSION_COLUMN} UInt8) ENGINE = Null COMMENT '{}'", self.holder);
            match self.server.run(&create).await {
                Ok(()) => {}
                Err(fault) if fault.already_exists() => continue,
                Err(fault) if fault.is_transient() => match retry_delays.next() {
                    // The table may have been made all the same; the next snapshot shows it.
                    Some(delay) => {
                        tokio::time::sleep(*delay).await;
                        continue;
                    }
                    None => return Err(fault.into()),
                },
                Err(fault) => return Err(fault.into()),
            }
            let mut snapshot = self.snapshot().await?;
            if snapshot.highest() != number {
                // The number was chosen by outdated knowledge: other processes have opened sessions since.
                self.drop_session_table(number).await?;
                continue;
            }
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
            return Ok(WriterSession { number, history_rows, system_rows, opened_at: Instant::now(), previous });
        }
    }

    /// Closes a session, so that another one can be opened. All its inserts must have been answered. A session with an
    /// insert that was not answered is left open, so that the next session begins by waiting for that insert.
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

    /// How many statements of sessions are running on the server, without those of the session `except`.
    async fn running_statements(&self, except: Option<u64>) -> Result<u64, StatementFailure> {
        self.server.row(&format!("SELECT count() FROM system.processes WHERE {}", self.session_condition(except))).await
    }

    /// The condition on `system.processes` that a statement is one of a session, but not of the session `except`.
    fn session_condition(&self, except: Option<u64>) -> String {
        let but_not = |number| format!(" AND NOT startsWith(query_id, '{}')", self.query_id_prefix(number));
        format!("startsWith(query_id, '{}/'){}", self.database, except.map_or(String::new(), but_not))
    }

    /// What the query ids of a session's statements begin with.
    pub(super) fn query_id_prefix(&self, number: u64) -> String {
        format!("{}/{number}/", self.database)
    }

    /// Kills the inserts of all sessions but one, and waits until none is running.
    async fn end_inserts_except_of(&self, number: u64) -> Result<(), EngineError> {
        let until = Instant::now() + MAX_KILL_TIME;
        while self.running_statements(Some(number)).await? > 0 {
            // Without the right to kill them it only takes longer, since the time of each insert is bounded.
            let kill = format!("KILL QUERY WHERE {} ASYNC", self.session_condition(Some(number)));
            if let Err(fault) = self.server.run(&kill).await {
                tracing::warn!(database = self.database, ?fault, "killing an insert of another process failed");
            }
            if Instant::now() > until {
                return Err(EngineError::Unavailable("an insert of another process does not end".to_owned()));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

/// Waits a random time from this range of milliseconds, so that processes that wait do not all ask at once.
pub(super) async fn random_pause(millis: std::ops::Range<u64>) {
    let [byte] = web::clock::random_bytes::<1>();
    let spread = millis.end.saturating_sub(millis.start);
    tokio::time::sleep(Duration::from_millis(millis.start + u64::from(byte) * spread / 256)).await;
}
