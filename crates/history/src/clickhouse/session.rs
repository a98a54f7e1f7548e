//! Whose turn it is to write a tenant's events: numbered sessions, of which one is open at a time.
//!
//! A session is a table without rows, `writer_7`, that whoever made it holds; making it is atomic. Number 8 can be made
//! when 7 has ended (its comment says so) or is taken for dead. The highest number is never dropped, so that no number
//! comes twice: an event's `session` tells which events a process cannot know yet.
//!
//! No clock decides about right and wrong. An insert names its session's table, and the server refuses it once that is
//! dropped. Who takes over from a session that has not ended drops its table first and then waits until none of its
//! inserts runs any more. So a process that was only asleep, whose turn another one took, can do no harm: patience
//! decides when to take over, not whether it is safe. See docs/decisions/0006.

use super::server::{DELAYS, Fault, Server, again};
use crate::engine::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// When somebody else's session has not ended for so long, and nothing of it runs on the server, its holder is dead.
const QUIET: Duration = Duration::from_secs(3);
/// And so is it after this time, whatever runs.
const DEAD: Duration = Duration::from_secs(8);
/// How long inserts that were killed may take to end.
const DYING: Duration = Duration::from_secs(15);
const ENDED: &str = "ended";
/// The only column of a session's table.
pub(super) const COLUMN: &str = "held";

/// The table of a session that has ended, for a new tenant.
pub(super) fn first(database: &str) -> String {
    format!("CREATE TABLE {database}.writer_0 ({COLUMN} UInt8) ENGINE = Null COMMENT '{ENDED}'")
}

/// Where sessions of one tenant are opened.
pub(super) struct Desk {
    pub(super) server: Server,
    pub(super) database: String,
    /// Names this process; nobody else has it.
    pub(super) holder: Arc<str>,
}

/// An open session.
pub(super) struct Session {
    /// Its number.
    pub(super) number: u64,
    /// How many events each table had when it was opened.
    pub(super) history_rows: u64,
    /// The same of system events.
    pub(super) system_rows: u64,
    /// When it was opened.
    pub(super) since: Instant,
    former: Vec<u64>,
}

/// The tables of a tenant at one moment.
struct Scene {
    /// Every session's number and comment, the highest number last.
    sessions: Vec<(u64, String)>,
    history_rows: u64,
    system_rows: u64,
}

impl Scene {
    fn highest(&self) -> u64 {
        self.sessions.last().map_or(0, |(number, _)| *number)
    }
}

impl Desk {
    async fn scene(&self) -> Result<Scene, Fault> {
        let sql = format!("SELECT name, comment, total_rows FROM system.tables WHERE database = '{}'", self.database);
        let tables: Vec<(String, String, Option<u64>)> = self.server.rows(&sql).await?;
        let rows = |table: &str| {
            let found = tables.iter().find(|(name, ..)| name == table).and_then(|(.., rows)| *rows);
            found.ok_or_else(|| Fault::Code(60, format!("{}.{table} does not exist", self.database)))
        };
        let (history_rows, system_rows) = (rows("history_events")?, rows("system_events")?);
        let numbered =
            |(name, comment, _): (String, String, _)| Some((name.strip_prefix("writer_")?.parse().ok()?, comment));
        let mut sessions: Vec<(u64, String)> = tables.into_iter().filter_map(numbered).collect();
        sessions.sort_unstable();
        Ok(Scene { sessions, history_rows, system_rows })
    }

    /// The number below which all sessions are over, as far as can be seen, and how many events there are in all.
    pub(super) async fn look(&self) -> Result<(u64, u64, u64), Fault> {
        let scene = self.scene().await?;
        Ok((scene.highest(), scene.history_rows, scene.system_rows))
    }

    /// Opens a session as soon as it is this process's turn. `next` is the number that comes next, if nobody else wrote
    /// since. It may be given up at any point: what it leaves behind is taken over at once by the next one who calls
    /// from this process, and in three seconds by others.
    pub(super) async fn open(&self, mut next: Option<u64>) -> Result<Session, Error> {
        let mut watched: Option<(u64, Instant)> = None;
        let mut failures = DELAYS.iter();
        loop {
            let number = match next.take() {
                Some(number) => number,
                None => {
                    let scene = self.scene().await?;
                    let highest = scene.highest();
                    let comment = scene.sessions.last().map_or(ENDED, |(_, comment)| comment);
                    if comment != ENDED && comment != &*self.holder {
                        let since = match watched {
                            Some((number, since)) if number == highest => since,
                            _ => Instant::now(),
                        };
                        watched = Some((highest, since));
                        let waited = since.elapsed();
                        if waited < QUIET || (waited < DEAD && self.running(None).await? > 0) {
                            pause(10..20).await;
                            continue;
                        }
                        tracing::warn!(database = self.database, session = highest, "a writer does not end its turn");
                    }
                    highest + 1
                }
            };
            let table = format!("{}.writer_{number}", self.database);
            let create = format!("CREATE TABLE {table} ({COLUMN} UInt8) ENGINE = Null COMMENT '{}'", self.holder);
            match self.server.run(&create).await {
                Ok(()) => {}
                Err(fault) if fault.is_taken() => continue,
                Err(fault) if fault.is_transient() => match failures.next() {
                    // It may have been made all the same; the next look tells.
                    Some(delay) => {
                        tokio::time::sleep(*delay).await;
                        continue;
                    }
                    None => return Err(fault.into()),
                },
                Err(fault) => return Err(fault.into()),
            }
            let mut scene = self.scene().await?;
            if scene.highest() != number {
                // What was seen before was old: the turn has moved on since.
                self.drop(number).await?;
                continue;
            }
            scene.sessions.pop();
            let mut former: Vec<u64> = scene.sessions.iter().map(|(number, _)| *number).collect();
            if scene.sessions.iter().any(|(_, comment)| comment != ENDED) {
                for number in former.drain(..) {
                    self.drop(number).await?;
                }
                self.end_inserts_but_of(number).await?;
                scene = self.scene().await?;
            }
            let (history_rows, system_rows) = (scene.history_rows, scene.system_rows);
            return Ok(Session { number, history_rows, system_rows, since: Instant::now(), former });
        }
    }

    /// Lets the next one write. All inserts of the session must have been answered; one whose insert was not is left
    /// open instead, so that whoever comes next takes it over with care.
    pub(super) async fn close(&self, session: Session) -> Result<(), Fault> {
        let number = session.number;
        let end = format!("ALTER TABLE {}.writer_{number} MODIFY COMMENT '{ENDED}'", self.database);
        again(|| self.server.run(&end)).await?;
        for number in session.former {
            self.drop(number).await?;
        }
        Ok(())
    }

    async fn drop(&self, number: u64) -> Result<(), Fault> {
        let drop = format!("DROP TABLE IF EXISTS {}.writer_{number} SYNC", self.database);
        again(|| self.server.run(&drop)).await
    }

    /// How many statements of sessions, but for one of them, run on the server.
    async fn running(&self, but: Option<u64>) -> Result<u64, Fault> {
        self.server.row(&format!("SELECT count() FROM system.processes WHERE {}", self.theirs(but))).await
    }

    fn theirs(&self, but: Option<u64>) -> String {
        let but = but
            .map_or(String::new(), |number| format!(" AND NOT startsWith(query_id, '{}')", self.statements_of(number)));
        format!("startsWith(query_id, '{}/'){but}", self.database)
    }

    /// What the ids of a session's statements begin with.
    pub(super) fn statements_of(&self, number: u64) -> String {
        format!("{}/{number}/", self.database)
    }

    async fn end_inserts_but_of(&self, number: u64) -> Result<(), Error> {
        let until = Instant::now() + DYING;
        while self.running(Some(number)).await? > 0 {
            // Without the right to kill them it only takes longer: each is bounded in time.
            let kill = format!("KILL QUERY WHERE {} ASYNC", self.theirs(Some(number)));
            if let Err(fault) = self.server.run(&kill).await {
                tracing::warn!(database = self.database, ?fault, "an insert could not be ended");
            }
            if Instant::now() > until {
                return Err(Error::Unavailable("an insert of another process does not end".to_owned()));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

/// A pause of some milliseconds, so that those who wait do not all ask at once.
pub(super) async fn pause(millis: std::ops::Range<u64>) {
    let [byte] = web::clock::random_bytes::<1>();
    let spread = millis.end.saturating_sub(millis.start);
    tokio::time::sleep(Duration::from_millis(millis.start + u64::from(byte) * spread / 256)).await;
}
