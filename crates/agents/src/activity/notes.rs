//! Writes the lines of the activity log. The transaction of a tool's write stores its line in `agent_writes`, and a job moves it to
//! `agent_activity`. Lines of reads wait in memory, so that one transaction stores many of them. A killed process loses these lines.
//! Equal reads of a minute are one line with their number.

use crate::calls::{self, CallCounts};
use kit::app::App;
use kit::build::Build;
use kit::ids::{ClassId, ConnectorId, RecordId, UserId};
use kit::jobs::{self, JobFuture, StandingJob};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use store::{BorrowedArgument, Conn, Sql, StoreError};
use web::clock::sha256_hex;

/// The maximum time that a line of a read waits in memory, in microseconds.
const GROUPING_US: i64 = 800_000;
/// The number of waiting lines from which each call writes them.
const MAX_WAITING: usize = 5_000;
/// The maximum number of lines that a transaction moves.
const PAGE: i64 = 1_000;
/// The retention of lines, in microseconds.
pub const RETENTION_US: i64 = 90 * 86_400_000_000;
/// The maximum number of stored lines of a connector.
const MAX_STORED: i64 = 1_000_000;
/// The period in which equal reads are one line, in microseconds.
const MINUTE_US: i64 = 60_000_000;
/// The interval of the sweeps of a build, in microseconds.
const SWEEP_US: i64 = 3_600_000_000;
/// The maximum number of lines that a transaction of a sweep changes.
const SWEEP_PAGE: i64 = 5_000;

const COLUMNS: [&str; 8] = ["connector", "at", "user_id", "client", "tool", "object_class", "record_id", "outcome"];

/// The columns of `agent_activity`: the build, the keys that identify the line, the number of its calls, and [`COLUMNS`].
const ACTIVITY_COLUMNS: [&str; 12] = [
    "build",
    "write_id",
    "read_key",
    "calls",
    "connector",
    "at",
    "user_id",
    "client",
    "tool",
    "object_class",
    "record_id",
    "outcome",
];

pub static ACTIVITY: StandingJob = StandingJob { name: "agent_activity", at_a_time: 4, due: next_gathering_time, run };

/// A call of a tool.
#[derive(Clone, Debug)]
pub struct ActivityLine {
    pub connector: ConnectorId,
    pub at: i64,
    pub user: UserId,
    pub client: Arc<str>,
    pub tool: &'static str,
    /// Is true if the tool only reads.
    pub is_read: bool,
    pub object_class: Option<ClassId>,
    pub record: Option<RecordId>,
    pub outcome: CallOutcome,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    Done,
    Refused,
    Failed,
}

impl CallOutcome {
    pub const NAMES: [(&str, &str); 3] = [("done", "Done"), ("refused", "Refused"), ("failed", "Failed")];

    fn name(self) -> &'static str {
        CallOutcome::NAMES[self as usize].0
    }
}

impl ActivityLine {
    fn values(&self) -> [BorrowedArgument<'_>; 8] {
        [
            self.connector.into(),
            BorrowedArgument::Int(self.at),
            self.user.into(),
            BorrowedArgument::Text(&self.client),
            BorrowedArgument::Text(self.tool),
            self.object_class.map_or(BorrowedArgument::Null, BorrowedArgument::from),
            self.record.map_or(BorrowedArgument::Null, BorrowedArgument::from),
            BorrowedArgument::Text(self.outcome.name()),
        ]
    }

    /// The key that equal reads of a minute share in a build; `None`: a call of a tool that may write.
    fn read_key(&self) -> Option<String> {
        if !self.is_read {
            return None;
        }
        let (class, record) = (self.object_class.map_or(0, ClassId::get), self.record.map_or(0, RecordId::get));
        let numbers = [self.connector.get(), self.at.div_euclid(MINUTE_US), self.user.get(), class, record];
        let identity = format!("{numbers:?} {} {} {}", self.tool, self.outcome.name(), self.client);
        Some(sha256_hex(&identity)[..32].to_owned())
    }
}

/// A line that represents equal reads.
struct FoldedLine<'a> {
    line: &'a ActivityLine,
    read_key: Option<String>,
    calls: i64,
}

impl FoldedLine<'_> {
    fn source(&self) -> LineSource<'_> {
        self.read_key.as_deref().map_or(LineSource::Call, |key| LineSource::Reads { key, calls: self.calls })
    }
}

/// The calls that a stored line represents.
enum LineSource<'a> {
    /// A write, by its id in `agent_writes`.
    Write(i64),
    /// A call without a write, of a tool that may write.
    Call,
    /// Equal reads, by their key, and their number.
    Reads { key: &'a str, calls: i64 },
}

/// Folds equal reads to one line, in the order of the lines.
fn fold_lines(lines: &[ActivityLine]) -> Vec<FoldedLine<'_>> {
    let (mut folded, mut places) = (Vec::<FoldedLine<'_>>::new(), HashMap::new());
    for line in lines {
        let read_key = line.read_key();
        let place = match &read_key {
            Some(key) => *places.entry(key.clone()).or_insert(folded.len()),
            None => folded.len(),
        };
        match folded.get_mut(place) {
            Some(equal) => equal.calls += 1,
            None => folded.push(FoldedLine { line, read_key, calls: 1 }),
        }
    }
    folded
}

/// The lines of a build that wait in the memory of this process.
#[derive(Default)]
pub struct WaitingLines {
    lines: Mutex<Vec<ActivityLine>>,
    /// Locked while lines are written. A list of the activity waits for it, so that it has all lines of former calls.
    writing: tokio::sync::Mutex<()>,
    /// The time at which the first line is due, in microseconds since 1970; 0: no line waits.
    due: AtomicI64,
    /// The time of the next sweep, in microseconds since 1970; 0: not computed yet.
    next_sweep: AtomicI64,
}

impl WaitingLines {
    fn take_lines(&self) -> Vec<ActivityLine> {
        let mut lines = web::lock(&self.lines);
        self.due.store(0, Ordering::Relaxed);
        std::mem::take(&mut *lines)
    }

    /// Returns lines that were not written, up to a bound. Above [`MAX_WAITING`] further calls fail until lines can be written.
    fn put_back(&self, mut unwritten: Vec<ActivityLine>, now: i64) {
        let mut lines = web::lock(&self.lines);
        unwritten.append(&mut lines);
        unwritten.truncate(2 * MAX_WAITING);
        *lines = unwritten;
        self.due.store(now + GROUPING_US, Ordering::Relaxed);
    }
}

/// Adds the line of a call without a write.
pub async fn record_call(app: &App, build: &Arc<Build>, line: ActivityLine) -> Result<(), StoreError> {
    let waiting: &WaitingLines = build.slot();
    let count = {
        let mut lines = web::lock(&waiting.lines);
        lines.push(line);
        lines.len()
    };
    if count == 1 {
        waiting.due.store(app.clock.now() + GROUPING_US, Ordering::Relaxed);
        jobs::wake(app, build);
    }
    if count >= MAX_WAITING { write_waiting(app, build).await } else { Ok(()) }
}

/// Stores the line of a write, in the transaction of the write.
pub fn note_write(conn: &mut Conn, line: &ActivityLine) -> Result<(), StoreError> {
    conn.insert_rows("agent_writes", &COLUMNS, &[line.values()], "").map(drop)
}

fn next_gathering_time(app: &App, build: &Build, conn: &mut Conn, _: i64) -> Result<Option<i64>, StoreError> {
    let waiting: &WaitingLines = build.slot();
    let next_reads = Some(waiting.due.load(Ordering::Relaxed)).filter(|due| *due > 0);
    let next_writes =
        conn.query_optional(&Sql::new("SELECT at FROM agent_writes ORDER BY id LIMIT 1"), |row| row.int(0))?;
    // A build that never had agents has no lines to sweep.
    let has_connectors = conn.query_optional(&Sql::new("SELECT 1 FROM mcp_connectors LIMIT 1"), |_| Ok(()))?.is_some();
    let next_sweep = has_connectors.then(|| next_sweep_time(waiting, build, app.clock.now()));
    Ok(next_reads.into_iter().chain(next_writes).chain(next_sweep).min())
}

/// The time of a build's next sweep. After a start the first sweeps of builds are spread over the interval by their ids.
fn next_sweep_time(waiting: &WaitingLines, build: &Build, now: i64) -> i64 {
    let spread = build.uid.bytes().fold(0, |sum, byte| (sum * 31 + i64::from(byte)) % (SWEEP_US / 1_000_000));
    let first = now + spread * 1_000_000;
    match waiting.next_sweep.compare_exchange(0, first, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => first,
        Err(computed) => computed,
    }
}

fn run(app: App, build: Arc<Build>) -> JobFuture<Result<(), StoreError>> {
    Box::pin(async move {
        gather_lines(&app, &build).await?;
        sweep(&app, &build).await
    })
}

/// Writes the waiting lines of this process and of the build's database to `agent_activity`.
pub async fn gather_lines(app: &App, build: &Arc<Build>) -> Result<(), StoreError> {
    write_waiting(app, build).await?;
    while move_writes(app, build).await? {}
    Ok(())
}

/// Writes the waiting lines of all builds when the process stops.
pub async fn finish(app: &App) {
    for build in jobs::builds(app) {
        if let Err(error) = write_waiting(app, &build).await {
            tracing::error!(%error, build = build.domain, "what agents read last was not noted");
        }
    }
}

/// Writes the waiting lines of a build, and the counts of its grants.
async fn write_waiting(app: &App, build: &Arc<Build>) -> Result<(), StoreError> {
    let (waiting, counted, now): (&WaitingLines, _, _) = (build.slot(), CallCounts::for_build(build), app.clock.now());
    let _writing = waiting.writing.lock().await;
    let (lines, unstored) = (Arc::new(waiting.take_lines()), Arc::new(counted.take_unstored(now)));
    if lines.is_empty() && unstored.is_empty() {
        return Ok(());
    }
    let (uid, written_lines, written_calls) = (build.uid.clone(), lines.clone(), unstored.clone());
    let write = move |conn: &mut Conn| {
        // The lock lets one process write at a time, so that processes do not wait for each other's lines.
        if !is_served(conn, &uid, " FOR NO KEY UPDATE")? {
            return Ok(Vec::new());
        }
        let folded = fold_lines(&written_lines);
        let rows: Vec<[BorrowedArgument<'_>; 12]> =
            folded.iter().map(|folded| row(&uid, folded.line.values(), folded.source())).collect();
        let on_conflict = "ON CONFLICT (build, read_key) WHERE read_key IS NOT NULL \
                    DO UPDATE SET calls = agent_activity.calls + excluded.calls";
        conn.insert_rows("agent_activity", &ACTIVITY_COLUMNS, &rows, on_conflict)?;
        calls::store(conn, &uid, &written_calls, now)
    };
    match app.store.control().write_unshown::<_, StoreError>(write).await {
        Ok(stored) => {
            counted.take_over(&stored);
            Ok(())
        }
        Err(error) => {
            waiting.put_back(lines.to_vec(), now);
            counted.put_back(&unstored);
            Err(error)
        }
    }
}

/// A row of `agent_activity`.
fn row<'a>(build: &'a str, line: [BorrowedArgument<'a>; 8], source: LineSource<'a>) -> [BorrowedArgument<'a>; 12] {
    let [connector, at, user, client, tool, class, record, outcome] = line;
    let (write, read_key, calls) = match source {
        LineSource::Write(id) => (BorrowedArgument::Int(id), BorrowedArgument::Null, 1),
        LineSource::Call => (BorrowedArgument::Null, BorrowedArgument::Null, 1),
        LineSource::Reads { key, calls } => (BorrowedArgument::Null, BorrowedArgument::Text(key), calls),
    };
    [
        BorrowedArgument::Text(build),
        write,
        read_key,
        BorrowedArgument::Int(calls),
        connector,
        at,
        user,
        client,
        tool,
        class,
        record,
        outcome,
    ]
}

/// A line of `agent_writes`.
struct WriteLine {
    id: i64,
    connector: ConnectorId,
    at: i64,
    user: UserId,
    client: String,
    tool: String,
    outcome: String,
    object_class: Option<ClassId>,
    record: Option<RecordId>,
}

impl WriteLine {
    fn values(&self) -> [BorrowedArgument<'_>; 8] {
        [
            self.connector.into(),
            BorrowedArgument::Int(self.at),
            self.user.into(),
            BorrowedArgument::Text(&self.client),
            BorrowedArgument::Text(&self.tool),
            self.object_class.map_or(BorrowedArgument::Null, BorrowedArgument::from),
            self.record.map_or(BorrowedArgument::Null, BorrowedArgument::from),
            BorrowedArgument::Text(&self.outcome),
        ]
    }
}

/// Moves lines of writes, and returns false if none is left. A process may die between the insertion and the deletion of a line. The id
/// of the line then prevents a second insertion.
async fn move_writes(app: &App, build: &Arc<Build>) -> Result<bool, StoreError> {
    let load_lines = |conn: &mut Conn| {
        let sql = Sql::new(
            "SELECT id, connector, at, user_id, client, tool, outcome, object_class, record_id FROM agent_writes \
             ORDER BY id LIMIT $1",
        );
        conn.query_all(&sql.arg(PAGE), |row| {
            let text = |at: usize| Ok::<_, StoreError>(row.text(at)?.to_owned());
            Ok(WriteLine {
                id: row.int(0)?,
                connector: row.id(1)?,
                at: row.int(2)?,
                user: row.id(3)?,
                client: text(4)?,
                tool: text(5)?,
                outcome: text(6)?,
                object_class: row.opt_id(7)?,
                record: row.opt_id(8)?,
            })
        })
    };
    let lines = Arc::new(build.db.read::<_, StoreError>(load_lines).await?);
    if lines.is_empty() {
        return Ok(false);
    }
    let (uid, shared) = (build.uid.clone(), lines.clone());
    let write = move |conn: &mut Conn| {
        if !is_served(conn, &uid, " FOR SHARE")? {
            return Ok(());
        }
        let rows: Vec<[BorrowedArgument<'_>; 12]> =
            shared.iter().map(|line| row(&uid, line.values(), LineSource::Write(line.id))).collect();
        let on_conflict = "ON CONFLICT (build, write_id) WHERE write_id IS NOT NULL DO NOTHING";
        conn.insert_rows("agent_activity", &ACTIVITY_COLUMNS, &rows, on_conflict).map(drop)
    };
    app.store.control().write_unshown::<_, StoreError>(write).await?;
    let ids: Vec<i64> = lines.iter().map(|line| line.id).collect();
    let is_last = (ids.len() as i64) < PAGE;
    let delete =
        move |conn: &mut Conn| conn.exec(Sql::new("DELETE FROM agent_writes WHERE id").push_any(ids.clone())).map(drop);
    build.db.write::<_, StoreError>(delete).await?;
    Ok(!is_last)
}

/// Returns whether a build is active. Locks its row, so that its deletion waits until the end of the transaction.
fn is_served(conn: &mut Conn, build: &str, lock: &'static str) -> Result<bool, StoreError> {
    let mut sql = Sql::new("SELECT 1 FROM builds WHERE uid = ");
    sql.bind(build).push(" AND state = 'active'").push(lock);
    Ok(conn.query_optional(&sql, |_| Ok(()))?.is_some())
}

/// Deletes the lines and the counts of a build that is being deleted, by several transactions.
pub async fn remove_build(app: &App, uid: &str) -> Result<(), StoreError> {
    run_in_steps(app, uid, |uid| {
        Sql::new(
            "DELETE FROM agent_activity WHERE id IN (SELECT id FROM agent_activity WHERE build = $1 ORDER BY at, id LIMIT $2)",
        )
        .arg(uid)
        .arg(SWEEP_PAGE)
    })
    .await?;
    let uid = uid.to_owned();
    let delete =
        move |conn: &mut Conn| conn.exec(&Sql::new("DELETE FROM agent_calls WHERE build = $1").arg(&uid)).map(drop);
    app.store.control().write_unshown::<_, StoreError>(delete).await
}

/// Enforces the retention of lines, and erases the clients of anonymized people, once in [`SWEEP_US`].
async fn sweep(app: &App, build: &Arc<Build>) -> Result<(), StoreError> {
    let (waiting, now): (&WaitingLines, _) = (build.slot(), app.clock.now());
    if next_sweep_time(waiting, build, now) > now {
        return Ok(());
    }
    waiting.next_sweep.store(now + SWEEP_US, Ordering::Relaxed);
    erase_clients(app, build).await?;
    enforce_retention(app, build, MAX_STORED).await
}

/// Erases the names of the programs of anonymized people. Lists omit them before.
async fn erase_clients(app: &App, build: &Arc<Build>) -> Result<(), StoreError> {
    let anonymized = |conn: &mut Conn| {
        conn.query_all(&Sql::new("SELECT id FROM users WHERE status = 'anonymized' ORDER BY id"), |row| row.id(0))
    };
    let anonymized: Vec<UserId> = build.db.read::<_, StoreError>(anonymized).await?;
    for users in anonymized.chunks(1_000) {
        let users = users.to_vec();
        run_in_steps(app, &build.uid, move |uid| {
            let mut sql = Sql::new(
                "UPDATE agent_activity SET client = '' WHERE id IN (SELECT id FROM agent_activity WHERE build = ",
            );
            sql.bind(uid)
                .push(" AND client > '' AND user_id")
                .push_any(users.clone())
                .push(" LIMIT ")
                .bind(SWEEP_PAGE)
                .push(")");
            sql
        })
        .await?;
    }
    Ok(())
}

/// Deletes the lines of a build that are older than [`RETENTION_US`], and the oldest lines of each connector above `maximum`.
pub async fn enforce_retention(app: &App, build: &Build, maximum: i64) -> Result<(), StoreError> {
    let oldest = app.clock.now() - RETENTION_US;
    let mut connector = ConnectorId::NONE;
    while let Some(next) = next_connector(app, build, connector).await? {
        connector = next;
        let excess = newest_excess_time(app, build, connector, maximum).await?;
        let before = excess.map_or(oldest, |at| (at + 1).max(oldest));
        run_in_steps(app, &build.uid, move |uid| {
            Sql::new(
                "DELETE FROM agent_activity WHERE id IN (SELECT id FROM agent_activity WHERE build = $1 AND connector = $2 AND at < $3 \
                 ORDER BY at, id LIMIT $4)",
            )
            .arg(uid)
            .arg(connector)
            .arg(before)
            .arg(SWEEP_PAGE)
        })
        .await?;
    }
    // This also deletes lines of builds without connectors. The order of ids is nearly the order of times.
    run_in_steps(app, &build.uid, move |_| {
        Sql::new(
            "DELETE FROM agent_activity WHERE at < $1 AND id IN (SELECT id FROM agent_activity ORDER BY id LIMIT $2)",
        )
        .arg(oldest)
        .arg(SWEEP_PAGE)
    })
    .await
}

/// The next connector of a build with lines, by id. It may be deleted.
async fn next_connector(app: &App, build: &Build, after: ConnectorId) -> Result<Option<ConnectorId>, StoreError> {
    let uid = build.uid.clone();
    let next = move |conn: &mut Conn| {
        let sql = Sql::new(
            "SELECT connector FROM agent_activity WHERE build = $1 AND connector > $2 ORDER BY connector LIMIT 1",
        );
        conn.query_optional(&sql.arg(&uid).arg(after), |row| row.id(0))
    };
    app.store.control().read::<_, StoreError>(next).await
}

/// The time of the newest line of a connector above the maximum number of lines.
async fn newest_excess_time(
    app: &App,
    build: &Build,
    connector: ConnectorId,
    maximum: i64,
) -> Result<Option<i64>, StoreError> {
    let uid = build.uid.clone();
    let time = move |conn: &mut Conn| {
        let sql = Sql::new(
            "SELECT at FROM agent_activity WHERE build = $1 AND connector = $2 ORDER BY at DESC, id DESC LIMIT 1 OFFSET $3",
        );
        conn.query_optional(&sql.arg(&uid).arg(connector).arg(maximum), |row| row.int(0))
    };
    app.store.control().read::<_, StoreError>(time).await
}

/// Repeats a statement that changes up to [`SWEEP_PAGE`] lines, until it changes fewer.
async fn run_in_steps(
    app: &App,
    uid: &str,
    change: impl Fn(&str) -> Sql + Clone + Send + Sync + 'static,
) -> Result<(), StoreError> {
    loop {
        let (uid, change) = (uid.to_owned(), change.clone());
        let changed = app.store.control().write_unshown::<_, StoreError>(move |conn| conn.exec(&change(&uid))).await?;
        if (changed as i64) < SWEEP_PAGE {
            return Ok(());
        }
    }
}
