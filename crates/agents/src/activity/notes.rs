//! Notes of what agents do. What a tool wrote is noted in its transaction (`agent_writes`), and moved to `agent_activity` soon after; what
//! it only read is kept in memory for a moment, so that many lines make one write, and a process that is killed loses the last of them.

use kit::app::App;
use kit::build::Build;
use kit::jobs::{self, Pending, StandingJob};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use store::{Conn, Error, Sql, Value};

/// How long lines of reads wait for others, in microseconds.
const GROUPING_US: i64 = 800_000;
/// From so many lines on whoever adds one has them written.
const MANY: usize = 5_000;
/// How many lines are moved in a transaction.
const PAGE: i64 = 1_000;
/// For how long lines are kept, in microseconds.
pub const KEPT_US: i64 = 90 * 86_400_000_000;
/// How many lines of a build are kept.
const MAX_KEPT: i64 = 5_000_000;
/// The pause between two sweeps of a build, in microseconds.
const SWEEP_US: i64 = 3_600_000_000;
/// How many lines a sweep deletes in a transaction.
const SWEPT: i64 = 5_000;

const COLUMNS: [&str; 8] = ["connector", "at", "user_id", "client", "tool", "object_class", "record_id", "outcome"];

/// The columns of a stored line.
const STORED: [&str; 10] =
    ["build", "write_id", "connector", "at", "user_id", "client", "tool", "object_class", "record_id", "outcome"];

pub static ACTIVITY: StandingJob = StandingJob { name: "agent_activity", at_a_time: 4, due, run };

/// A call of a tool.
#[derive(Clone, Debug)]
pub struct Line {
    pub connector: i64,
    pub at: i64,
    pub user: i64,
    pub client: Arc<str>,
    pub tool: &'static str,
    pub object_class: Option<i64>,
    pub record: Option<i64>,
    pub outcome: Outcome,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Refused,
    Failed,
}

impl Outcome {
    pub const NAMES: [(&str, &str); 3] = [("done", "Done"), ("refused", "Refused"), ("failed", "Failed")];

    fn name(self) -> &'static str {
        Outcome::NAMES[self as usize].0
    }
}

impl Line {
    fn values(&self) -> [Value<'_>; 8] {
        let id = |id: Option<i64>| id.map_or(Value::Null, Value::Int);
        [
            Value::Int(self.connector),
            Value::Int(self.at),
            Value::Int(self.user),
            Value::Text(&self.client),
            Value::Text(self.tool),
            id(self.object_class),
            id(self.record),
            Value::Text(self.outcome.name()),
        ]
    }
}

/// The lines of a build that wait in this process.
#[derive(Default)]
pub struct Waiting {
    lines: Mutex<Vec<Line>>,
    /// When the first of them is due; 0: none waits.
    due: AtomicI64,
    /// When lines are swept next; 0: not known yet.
    next_sweep: AtomicI64,
}

impl Waiting {
    fn take(&self) -> Vec<Line> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        self.due.store(0, Ordering::Relaxed);
        std::mem::take(&mut *lines)
    }

    /// Puts lines back that were not written, as many as there is room for: with so many, further calls are refused.
    fn put_back(&self, mut taken: Vec<Line>, now: i64) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        taken.append(&mut lines);
        taken.truncate(2 * MANY);
        *lines = taken;
        self.due.store(now + GROUPING_US, Ordering::Relaxed);
    }
}

/// Notes a call that has written nothing.
pub async fn note(app: &App, build: &Arc<Build>, line: Line) -> Result<(), Error> {
    let waiting: &Waiting = build.slot();
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
pub fn note_write(conn: &mut Conn, line: &Line) -> Result<(), Error> {
    conn.insert_rows("agent_writes", &COLUMNS, &[line.values()], "").map(drop)
}

fn due(app: &App, build: &Build, conn: &mut Conn, _: i64) -> Result<Option<i64>, Error> {
    let waiting: &Waiting = build.slot();
    let of_reads = Some(waiting.due.load(Ordering::Relaxed)).filter(|due| *due > 0);
    let of_writes = conn.opt(&Sql::new("SELECT at FROM agent_writes ORDER BY id LIMIT 1"), |row| row.int(0))?;
    // A build that never had agents has no lines to sweep.
    let has_connectors = conn.opt(&Sql::new("SELECT 1 FROM mcp_connectors LIMIT 1"), |_| Ok(()))?.is_some();
    let of_sweep = has_connectors.then(|| next_sweep(waiting, build, app.clock.now()));
    Ok(of_reads.into_iter().chain(of_writes).chain(of_sweep).min())
}

/// When a build's lines are swept next. After a start the builds take turns within the pause, by their ids.
fn next_sweep(waiting: &Waiting, build: &Build, now: i64) -> i64 {
    let spread = build.uid.bytes().fold(0, |sum, byte| (sum * 31 + i64::from(byte)) % (SWEEP_US / 1_000_000));
    let first = now + spread * 1_000_000;
    match waiting.next_sweep.compare_exchange(0, first, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => first,
        Err(known) => known,
    }
}

fn run(app: App, build: Arc<Build>) -> Pending<Result<(), Error>> {
    Box::pin(async move {
        gather(&app, &build).await?;
        sweep(&app, &build).await
    })
}

/// Brings what this process and the build's database hold to the lines that are listed.
pub async fn gather(app: &App, build: &Arc<Build>) -> Result<(), Error> {
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

/// Writes the lines of a build that wait in this process.
async fn write_waiting(app: &App, build: &Arc<Build>) -> Result<(), Error> {
    let waiting: &Waiting = build.slot();
    let lines = Arc::new(waiting.take());
    if lines.is_empty() {
        return Ok(());
    }
    let (uid, shared) = (build.uid.clone(), lines.clone());
    let write = move |conn: &mut Conn| {
        if !is_served(conn, &uid)? {
            return Ok(());
        }
        let rows: Vec<[Value<'_>; 10]> = shared.iter().map(|line| row(&uid, None, line.values())).collect();
        conn.insert_rows("agent_activity", &STORED, &rows, "").map(drop)
    };
    let written = app.store.control().write_unshown::<_, Error>(write).await;
    if written.is_err() {
        waiting.put_back(lines.to_vec(), app.clock.now());
    }
    written
}

/// A row of `agent_activity`.
fn row<'a>(build: &'a str, write: Option<i64>, line: [Value<'a>; 8]) -> [Value<'a>; 10] {
    let [connector, at, user, client, tool, class, record, outcome] = line;
    let write = write.map_or(Value::Null, Value::Int);
    [Value::Text(build), write, connector, at, user, client, tool, class, record, outcome]
}

/// A line of `agent_writes`.
struct Written {
    id: i64,
    numbers: [i64; 3],
    texts: [String; 3],
    of: [Option<i64>; 2],
}

impl Written {
    fn values(&self) -> [Value<'_>; 8] {
        let id = |id: Option<i64>| id.map_or(Value::Null, Value::Int);
        let ([connector, at, user], [client, tool, outcome], [class, record]) = (self.numbers, &self.texts, self.of);
        [
            Value::Int(connector),
            Value::Int(at),
            Value::Int(user),
            Value::Text(client),
            Value::Text(tool),
            id(class),
            id(record),
            Value::Text(outcome),
        ]
    }
}

/// Moves lines of writes; false when none is left. One that was moved by a process that died before it was deleted is known by
/// its number.
async fn move_writes(app: &App, build: &Arc<Build>) -> Result<bool, Error> {
    let read = |conn: &mut Conn| {
        let sql = Sql::new(
            "SELECT id, connector, at, user_id, client, tool, outcome, object_class, record_id FROM agent_writes \
             ORDER BY id LIMIT $1",
        );
        conn.all(&sql.arg(PAGE), |row| {
            let text = |at: usize| Ok::<_, Error>(row.text(at)?.to_owned());
            Ok(Written {
                id: row.int(0)?,
                numbers: [row.int(1)?, row.int(2)?, row.int(3)?],
                texts: [text(4)?, text(5)?, text(6)?],
                of: [row.opt_int(7)?, row.opt_int(8)?],
            })
        })
    };
    let lines = Arc::new(build.db.read::<_, Error>(read).await?);
    if lines.is_empty() {
        return Ok(false);
    }
    let (uid, shared) = (build.uid.clone(), lines.clone());
    let write = move |conn: &mut Conn| {
        if !is_served(conn, &uid)? {
            return Ok(());
        }
        let rows: Vec<[Value<'_>; 10]> = shared.iter().map(|line| row(&uid, Some(line.id), line.values())).collect();
        let then = "ON CONFLICT (build, write_id) WHERE write_id IS NOT NULL DO NOTHING";
        conn.insert_rows("agent_activity", &STORED, &rows, then).map(drop)
    };
    app.store.control().write_unshown::<_, Error>(write).await?;
    let ids: Vec<i64> = lines.iter().map(|line| line.id).collect();
    let is_last = (ids.len() as i64) < PAGE;
    let delete =
        move |conn: &mut Conn| conn.exec(Sql::new("DELETE FROM agent_writes WHERE id").any(ids.clone())).map(drop);
    build.db.write::<_, Error>(delete).await?;
    Ok(!is_last)
}

/// Whether a build is not being deleted, which waits until the end of the transaction.
fn is_served(conn: &mut Conn, build: &str) -> Result<bool, Error> {
    let sql = Sql::new("SELECT 1 FROM builds WHERE uid = $1 AND state = 'active' FOR SHARE").arg(build);
    Ok(conn.opt(&sql, |_| Ok(()))?.is_some())
}

/// Deletes the lines of a build that is being deleted, some at a time.
pub async fn remove_build(app: &App, uid: &str) -> Result<(), Error> {
    let of_build = |uid: &str| {
        Sql::new(
            "DELETE FROM agent_activity WHERE id IN (SELECT id FROM agent_activity WHERE build = $1 ORDER BY at, id LIMIT $2)",
        )
        .arg(uid)
        .arg(SWEPT)
    };
    delete_in_steps(app, uid, of_build).await
}

/// Deletes what is too old, and what is too much, once in a while.
async fn sweep(app: &App, build: &Arc<Build>) -> Result<(), Error> {
    let (waiting, now): (&Waiting, _) = (build.slot(), app.clock.now());
    if next_sweep(waiting, build, now) > now {
        return Ok(());
    }
    waiting.next_sweep.store(now + SWEEP_US, Ordering::Relaxed);
    keep(app, build, MAX_KEPT).await
}

/// Deletes the lines of a build that are too old, and the oldest until there are at most so many.
pub async fn keep(app: &App, build: &Build, most: i64) -> Result<(), Error> {
    let now = app.clock.now();
    let uid = build.uid.clone();
    let beyond = move |conn: &mut Conn| {
        let sql =
            Sql::new("SELECT at FROM agent_activity WHERE build = $1 ORDER BY at DESC, id DESC LIMIT 1 OFFSET $2");
        conn.opt(&sql.arg(&uid).arg(most), |row| row.int(0))
    };
    let beyond = app.store.control().read::<_, Error>(beyond).await?;
    let oldest = beyond.map_or(now - KEPT_US, |at| (at + 1).max(now - KEPT_US));
    let of_build = move |uid: &str| {
        Sql::new(
            "DELETE FROM agent_activity WHERE id IN (SELECT id FROM agent_activity WHERE build = $1 AND at < $2 \
             ORDER BY at, id LIMIT $3)",
        )
        .arg(uid)
        .arg(oldest)
        .arg(SWEPT)
    };
    // Those of builds that have no connector any more, too: lines come in the order of their ids, nearly.
    let of_all = move |_: &str| {
        Sql::new(
            "DELETE FROM agent_activity WHERE at < $1 AND id IN (SELECT id FROM agent_activity ORDER BY id LIMIT $2)",
        )
        .arg(now - KEPT_US)
        .arg(SWEPT)
    };
    delete_in_steps(app, &build.uid, of_build).await?;
    delete_in_steps(app, &build.uid, of_all).await
}

/// Runs a statement that deletes up to [`SWEPT`] lines until nothing is left.
async fn delete_in_steps(
    app: &App,
    uid: &str,
    delete: impl Fn(&str) -> Sql + Copy + Send + Sync + 'static,
) -> Result<(), Error> {
    loop {
        let uid = uid.to_owned();
        let deleted = app.store.control().write_unshown::<_, Error>(move |conn| conn.exec(&delete(&uid))).await?;
        if (deleted as i64) < SWEPT {
            return Ok(());
        }
    }
}
