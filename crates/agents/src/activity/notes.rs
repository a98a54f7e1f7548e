//! Notes of what agents do. What a tool wrote is noted in its transaction (`agent_writes`), and moved to `agent_activity` soon after; what
//! it only read is kept in memory for a moment, so that many lines make one write, and a process that is killed loses the last of them.
//! Equal reads of a minute are one line with their number.

use crate::calls::{self, CallCounts};
use kit::app::App;
use kit::build::Build;
use kit::jobs::{self, JobFuture, StandingJob};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use store::{BorrowedArgument, Conn, Sql, StoreError};
use web::clock::sha256_hex;

/// How long lines of reads wait for others, in microseconds.
const GROUPING_US: i64 = 800_000;
/// From so many lines on whoever adds one has them written.
const MANY: usize = 5_000;
/// How many lines are moved in a transaction.
const PAGE: i64 = 1_000;
/// For how long lines are kept, in microseconds.
pub const KEPT_US: i64 = 90 * 86_400_000_000;
/// How many lines of a connector are kept.
const MAX_KEPT: i64 = 1_000_000;
/// Within what time equal reads are one line, in microseconds.
const MINUTE_US: i64 = 60_000_000;
/// The pause between two sweeps of a build, in microseconds.
const SWEEP_US: i64 = 3_600_000_000;
/// How many lines a sweep deletes in a transaction.
const SWEPT: i64 = 5_000;

const COLUMNS: [&str; 8] = ["connector", "at", "user_id", "client", "tool", "object_class", "record_id", "outcome"];

/// The columns of a stored line: its build, what makes it one line with others, how many calls it stands for, and [`COLUMNS`].
const STORED: [&str; 12] = [
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
    pub connector: i64,
    pub at: i64,
    pub user: i64,
    pub client: Arc<str>,
    pub tool: &'static str,
    /// Whether the tool only reads.
    pub is_read: bool,
    pub object_class: Option<i64>,
    pub record: Option<i64>,
    pub outcome: CallOutcome,
}

/// What became of a call.
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
        let id = |id: Option<i64>| id.map_or(BorrowedArgument::Null, BorrowedArgument::Int);
        [
            BorrowedArgument::Int(self.connector),
            BorrowedArgument::Int(self.at),
            BorrowedArgument::Int(self.user),
            BorrowedArgument::Text(&self.client),
            BorrowedArgument::Text(self.tool),
            id(self.object_class),
            id(self.record),
            BorrowedArgument::Text(self.outcome.name()),
        ]
    }

    /// Identifies this read among others of its build, the minute included; `None` for a call of a tool that writes.
    fn read_key(&self) -> Option<String> {
        if !self.is_read {
            return None;
        }
        let (class, record) = (self.object_class.unwrap_or(0), self.record.unwrap_or(0));
        let of = [self.connector, self.at.div_euclid(MINUTE_US), self.user, class, record];
        let equal = format!("{of:?} {} {} {}", self.tool, self.outcome.name(), self.client);
        Some(sha256_hex(&equal)[..32].to_owned())
    }
}

/// A line with the equal reads for which it stands.
struct FoldedLine<'a> {
    line: &'a ActivityLine,
    read_key: Option<String>,
    calls: i64,
}

impl FoldedLine<'_> {
    fn stands(&self) -> LineReference<'_> {
        self.read_key.as_deref().map_or(LineReference::Call, |key| LineReference::Reads(key, self.calls))
    }
}

/// What a stored line stands for.
enum LineReference<'a> {
    /// A write, by its number in `agent_writes`.
    Write(i64),
    /// A call that wrote nothing, of a tool that may write.
    Call,
    /// Equal reads, by what identifies them, and their number.
    Reads(&'a str, i64),
}

/// Lines with equal reads as one, in their order.
fn fold_lines(lines: &[ActivityLine]) -> Vec<FoldedLine<'_>> {
    let (mut stored, mut places) = (Vec::<FoldedLine<'_>>::new(), HashMap::new());
    for line in lines {
        let read_key = line.read_key();
        let place = match &read_key {
            Some(key) => *places.entry(key.clone()).or_insert(stored.len()),
            None => stored.len(),
        };
        match stored.get_mut(place) {
            Some(equal) => equal.calls += 1,
            None => stored.push(FoldedLine { line, read_key, calls: 1 }),
        }
    }
    stored
}

/// The lines of a build that wait in this process.
#[derive(Default)]
pub struct WaitingLines {
    lines: Mutex<Vec<ActivityLine>>,
    /// When the first of them is due; 0: none waits.
    due: AtomicI64,
    /// When lines are swept next; 0: not known yet.
    next_sweep: AtomicI64,
}

impl WaitingLines {
    fn take_lines(&self) -> Vec<ActivityLine> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        self.due.store(0, Ordering::Relaxed);
        std::mem::take(&mut *lines)
    }

    /// Puts lines back that were not written, as many as there is room for: with so many, further calls are refused.
    fn put_back(&self, mut taken: Vec<ActivityLine>, now: i64) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        taken.append(&mut lines);
        taken.truncate(2 * MANY);
        *lines = taken;
        self.due.store(now + GROUPING_US, Ordering::Relaxed);
    }
}

/// Notes a call that has written nothing.
pub async fn record_call(app: &App, build: &Arc<Build>, line: ActivityLine) -> Result<(), StoreError> {
    let waiting: &WaitingLines = build.slot();
    let (are_many, is_first) = {
        let mut lines = waiting.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(line);
        (lines.len() >= MANY, lines.len() == 1)
    };
    if is_first {
        waiting.due.store(app.clock.now() + GROUPING_US, Ordering::Relaxed);
        jobs::wake(app, build);
    }
    if are_many { write_waiting(app, build).await } else { Ok(()) }
}

/// Notes what a tool writes, in the transaction of the write.
pub fn note_write(conn: &mut Conn, line: &ActivityLine) -> Result<(), StoreError> {
    conn.insert_rows("agent_writes", &COLUMNS, &[line.values()], "").map(drop)
}

fn next_gathering_time(app: &App, build: &Build, conn: &mut Conn, _: i64) -> Result<Option<i64>, StoreError> {
    let waiting: &WaitingLines = build.slot();
    let of_reads = Some(waiting.due.load(Ordering::Relaxed)).filter(|due| *due > 0);
    let of_writes =
        conn.query_optional(&Sql::new("SELECT at FROM agent_writes ORDER BY id LIMIT 1"), |row| row.int(0))?;
    // A build that never had agents has no lines to sweep.
    let has_connectors = conn.query_optional(&Sql::new("SELECT 1 FROM mcp_connectors LIMIT 1"), |_| Ok(()))?.is_some();
    let of_sweep = has_connectors.then(|| next_sweep(waiting, build, app.clock.now()));
    Ok(of_reads.into_iter().chain(of_writes).chain(of_sweep).min())
}

/// When a build's lines are swept next. After a start the builds take turns within the pause, by their ids.
fn next_sweep(waiting: &WaitingLines, build: &Build, now: i64) -> i64 {
    let spread = build.uid.bytes().fold(0, |sum, byte| (sum * 31 + i64::from(byte)) % (SWEEP_US / 1_000_000));
    let first = now + spread * 1_000_000;
    match waiting.next_sweep.compare_exchange(0, first, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => first,
        Err(known) => known,
    }
}

fn run(app: App, build: Arc<Build>) -> JobFuture<Result<(), StoreError>> {
    Box::pin(async move {
        gather_lines(&app, &build).await?;
        sweep(&app, &build).await
    })
}

/// Brings what this process and the build's database hold to the lines that are listed.
pub async fn gather_lines(app: &App, build: &Arc<Build>) -> Result<(), StoreError> {
    write_waiting(app, build).await?;
    while move_writes(app, build).await? {}
    Ok(())
}

/// Writes the lines of all builds that wait in this process, when it stops.
pub async fn finish(app: &App) {
    for build in jobs::builds(app) {
        if let Err(error) = write_waiting(app, &build).await {
            tracing::error!(%error, build = build.domain, "what agents read last was not noted");
        }
    }
}

/// Writes the lines of a build that wait in this process, and the calls of its grants.
async fn write_waiting(app: &App, build: &Arc<Build>) -> Result<(), StoreError> {
    let (waiting, counted, now): (&WaitingLines, _, _) = (build.slot(), CallCounts::for_build(build), app.clock.now());
    let (lines, unstored) = (Arc::new(waiting.take_lines()), Arc::new(counted.take_unstored(now)));
    if lines.is_empty() && unstored.is_empty() {
        return Ok(());
    }
    let (uid, written_lines, written_calls) = (build.uid.clone(), lines.clone(), unstored.clone());
    let write = move |conn: &mut Conn| {
        // One process at a time, so that no two wait for each other's lines.
        if !is_served(conn, &uid, " FOR NO KEY UPDATE")? {
            return Ok(Vec::new());
        }
        let stored = fold_lines(&written_lines);
        let rows: Vec<[BorrowedArgument<'_>; 12]> =
            stored.iter().map(|of| row(&uid, of.line.values(), of.stands())).collect();
        let then = "ON CONFLICT (build, read_key) WHERE read_key IS NOT NULL \
                    DO UPDATE SET calls = agent_activity.calls + excluded.calls";
        conn.insert_rows("agent_activity", &STORED, &rows, then)?;
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
fn row<'a>(build: &'a str, line: [BorrowedArgument<'a>; 8], of: LineReference<'a>) -> [BorrowedArgument<'a>; 12] {
    let [connector, at, user, client, tool, class, record, outcome] = line;
    let (write, read, calls) = match of {
        LineReference::Write(id) => (BorrowedArgument::Int(id), BorrowedArgument::Null, 1),
        LineReference::Call => (BorrowedArgument::Null, BorrowedArgument::Null, 1),
        LineReference::Reads(key, calls) => (BorrowedArgument::Null, BorrowedArgument::Text(key), calls),
    };
    [
        BorrowedArgument::Text(build),
        write,
        read,
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
    numbers: [i64; 3],
    texts: [String; 3],
    of: [Option<i64>; 2],
}

impl WriteLine {
    fn values(&self) -> [BorrowedArgument<'_>; 8] {
        let id = |id: Option<i64>| id.map_or(BorrowedArgument::Null, BorrowedArgument::Int);
        let ([connector, at, user], [client, tool, outcome], [class, record]) = (self.numbers, &self.texts, self.of);
        [
            BorrowedArgument::Int(connector),
            BorrowedArgument::Int(at),
            BorrowedArgument::Int(user),
            BorrowedArgument::Text(client),
            BorrowedArgument::Text(tool),
            id(class),
            id(record),
            BorrowedArgument::Text(outcome),
        ]
    }
}

/// Moves lines of writes; false when none is left. One that was moved by a process that died before it was deleted is known by
/// its number.
async fn move_writes(app: &App, build: &Arc<Build>) -> Result<bool, StoreError> {
    let read = |conn: &mut Conn| {
        let sql = Sql::new(
            "SELECT id, connector, at, user_id, client, tool, outcome, object_class, record_id FROM agent_writes \
             ORDER BY id LIMIT $1",
        );
        conn.query_all(&sql.arg(PAGE), |row| {
            let text = |at: usize| Ok::<_, StoreError>(row.text(at)?.to_owned());
            Ok(WriteLine {
                id: row.int(0)?,
                numbers: [row.int(1)?, row.int(2)?, row.int(3)?],
                texts: [text(4)?, text(5)?, text(6)?],
                of: [row.opt_int(7)?, row.opt_int(8)?],
            })
        })
    };
    let lines = Arc::new(build.db.read::<_, StoreError>(read).await?);
    if lines.is_empty() {
        return Ok(false);
    }
    let (uid, shared) = (build.uid.clone(), lines.clone());
    let write = move |conn: &mut Conn| {
        if !is_served(conn, &uid, " FOR SHARE")? {
            return Ok(());
        }
        let rows: Vec<[BorrowedArgument<'_>; 12]> =
            shared.iter().map(|line| row(&uid, line.values(), LineReference::Write(line.id))).collect();
        let then = "ON CONFLICT (build, write_id) WHERE write_id IS NOT NULL DO NOTHING";
        conn.insert_rows("agent_activity", &STORED, &rows, then).map(drop)
    };
    app.store.control().write_unshown::<_, StoreError>(write).await?;
    let ids: Vec<i64> = lines.iter().map(|line| line.id).collect();
    let is_last = (ids.len() as i64) < PAGE;
    let delete =
        move |conn: &mut Conn| conn.exec(Sql::new("DELETE FROM agent_writes WHERE id").push_any(ids.clone())).map(drop);
    build.db.write::<_, StoreError>(delete).await?;
    Ok(!is_last)
}

/// Whether a build is not being deleted. Its row is locked, so that its deletion waits until the end of the transaction.
fn is_served(conn: &mut Conn, build: &str, lock: &'static str) -> Result<bool, StoreError> {
    let mut sql = Sql::new("SELECT 1 FROM builds WHERE uid = ");
    sql.bind(build).push(" AND state = 'active'").push(lock);
    Ok(conn.query_optional(&sql, |_| Ok(()))?.is_some())
}

/// Deletes the lines of a build that is being deleted, some at a time.
pub async fn remove_build(app: &App, uid: &str) -> Result<(), StoreError> {
    run_in_steps(app, uid, |uid| {
        Sql::new(
            "DELETE FROM agent_activity WHERE id IN (SELECT id FROM agent_activity WHERE build = $1 ORDER BY at, id LIMIT $2)",
        )
        .arg(uid)
        .arg(SWEPT)
    })
    .await?;
    let uid = uid.to_owned();
    let delete =
        move |conn: &mut Conn| conn.exec(&Sql::new("DELETE FROM agent_calls WHERE build = $1").arg(&uid)).map(drop);
    app.store.control().write_unshown::<_, StoreError>(delete).await
}

/// Deletes what is too old, and what is too much, once in a while, and what tells about people who were anonymized.
async fn sweep(app: &App, build: &Arc<Build>) -> Result<(), StoreError> {
    let (waiting, now): (&WaitingLines, _) = (build.slot(), app.clock.now());
    if next_sweep(waiting, build, now) > now {
        return Ok(());
    }
    waiting.next_sweep.store(now + SWEEP_US, Ordering::Relaxed);
    forget_clients(app, build).await?;
    enforce_retention(app, build, MAX_KEPT).await
}

/// Erases the names of the clients of people who were anonymized. Lists leave them out before.
pub async fn forget_clients(app: &App, build: &Arc<Build>) -> Result<(), StoreError> {
    let anonymized = |conn: &mut Conn| {
        conn.query_all(&Sql::new("SELECT id FROM users WHERE status = 'anonymized' ORDER BY id"), |row| row.int(0))
    };
    let anonymized: Vec<i64> = build.db.read::<_, StoreError>(anonymized).await?;
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
                .bind(SWEPT)
                .push(")");
            sql
        })
        .await?;
    }
    Ok(())
}

/// Deletes the lines of a build that are too old, and the oldest of each connector until it has at most so many.
pub async fn enforce_retention(app: &App, build: &Build, most: i64) -> Result<(), StoreError> {
    let oldest = app.clock.now() - KEPT_US;
    let mut connector = 0;
    while let Some(next) = next_connector(app, build, connector).await? {
        connector = next;
        let beyond = newest_beyond(app, build, connector, most).await?;
        let before = beyond.map_or(oldest, |at| (at + 1).max(oldest));
        run_in_steps(app, &build.uid, move |uid| {
            Sql::new(
                "DELETE FROM agent_activity WHERE id IN (SELECT id FROM agent_activity WHERE build = $1 AND connector = $2 AND at < $3 \
                 ORDER BY at, id LIMIT $4)",
            )
            .arg(uid)
            .arg(connector)
            .arg(before)
            .arg(SWEPT)
        })
        .await?;
    }
    // Those of builds that have no connector any more, too: lines come in the order of their ids, nearly.
    run_in_steps(app, &build.uid, move |_| {
        Sql::new(
            "DELETE FROM agent_activity WHERE at < $1 AND id IN (SELECT id FROM agent_activity ORDER BY id LIMIT $2)",
        )
        .arg(oldest)
        .arg(SWEPT)
    })
    .await
}

/// The next connector of a build that has lines, deleted ones among them.
async fn next_connector(app: &App, build: &Build, behind: i64) -> Result<Option<i64>, StoreError> {
    let uid = build.uid.clone();
    let next = move |conn: &mut Conn| {
        let sql = Sql::new(
            "SELECT connector FROM agent_activity WHERE build = $1 AND connector > $2 ORDER BY connector LIMIT 1",
        );
        conn.query_optional(&sql.arg(&uid).arg(behind), |row| row.int(0))
    };
    app.store.control().read::<_, StoreError>(next).await
}

/// When the newest line of a connector was noted of those that are too many.
async fn newest_beyond(app: &App, build: &Build, connector: i64, most: i64) -> Result<Option<i64>, StoreError> {
    let uid = build.uid.clone();
    let beyond = move |conn: &mut Conn| {
        let sql = Sql::new(
            "SELECT at FROM agent_activity WHERE build = $1 AND connector = $2 ORDER BY at DESC, id DESC LIMIT 1 OFFSET $3",
        );
        conn.query_optional(&sql.arg(&uid).arg(connector).arg(most), |row| row.int(0))
    };
    app.store.control().read::<_, StoreError>(beyond).await
}

/// Runs a statement that changes up to [`SWEPT`] lines until none is left.
async fn run_in_steps(
    app: &App,
    uid: &str,
    change: impl Fn(&str) -> Sql + Clone + Send + Sync + 'static,
) -> Result<(), StoreError> {
    loop {
        let (uid, change) = (uid.to_owned(), change.clone());
        let changed = app.store.control().write_unshown::<_, StoreError>(move |conn| conn.exec(&change(&uid))).await?;
        if (changed as i64) < SWEPT {
            return Ok(());
        }
    }
}
