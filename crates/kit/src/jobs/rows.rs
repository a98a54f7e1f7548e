//! Statements on the table `jobs` of a build.

use super::{Job, JobFailure, JobKind, NewJob, exponential_backoff};
use crate::app::App;
use crate::build::Build;
use crate::ids::JobId;
use crate::secret::{Context, SealedColumn};
use serde_json::Value as Json;
use std::sync::Arc;
use std::time::Duration;
use store::{BorrowedArgument, Conn, Sql, StoreError};
use web::clock::random_token;

/// The column of sealed payloads.
pub const PAYLOAD: SealedColumn = SealedColumn { table: "jobs", column: "payload", row: "row_key" };

/// The pause before the first retry of a job; it doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The maximum time for which a failed job waits for its retry when it is put again, in microseconds.
const MAX_WAIT_WHEN_PUT_AGAIN_US: i64 = 60_000_000;

/// A lease on a job: its process, and its start and end in microseconds since 1970.
#[derive(Clone)]
pub struct Lease {
    pub holder: String,
    pub now: i64,
    pub until: i64,
}

fn payload_context<'a>(build: &'a Build, row: &'a str) -> Context<'a> {
    Context { build: &build.uid, table: PAYLOAD.table, column: PAYLOAD.column, row }
}

/// Puts a job like [`enqueue`](super::enqueue), for code without a request. The caller must wake the build after the commit.
pub fn insert(app: &App, build: &Build, conn: &mut Conn, job: &NewJob, now: i64) -> Result<JobId, StoreError> {
    let row = random_token();
    let sealed = app.keys.seal(&payload_context(build, &row), job.payload.to_string().as_bytes());
    let sql = Sql::new(
        "INSERT INTO jobs(kind, once_key, row_key, payload, created_at, next_at) VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (kind, once_key) WHERE once_key IS NOT NULL DO UPDATE SET \
         next_at = CASE WHEN jobs.attempts > 0 AND jobs.next_at > $7 THEN $7 \
         WHEN jobs.attempts = 0 AND jobs.next_at > $6 THEN $6 ELSE jobs.next_at END, \
         is_asked_again = CASE WHEN jobs.held_until IS NULL THEN 0 ELSE $8 END, is_canceled = 0 RETURNING id",
    );
    let sql = sql.arg(job.kind.name).arg(job.key.map(str::to_owned)).arg(row).arg(sealed).arg(now);
    let sql =
        sql.arg(job.not_before).arg(job.not_before.max(now + MAX_WAIT_WHEN_PUT_AGAIN_US)).arg(job.kind.runs_again);
    conn.query_one(&sql, |row| row.id(0))
}

/// Puts jobs that are due now, one for each payload, without keys. The caller must wake the build after the commit.
pub fn insert_many(
    app: &App,
    build: &Build,
    conn: &mut Conn,
    kind: &JobKind,
    payloads: Vec<Json>,
    now: i64,
) -> Result<(), StoreError> {
    let sealed = |payload: Json| {
        let row = random_token();
        let sealed = app.keys.seal(&payload_context(build, &row), payload.to_string().as_bytes());
        (row, sealed)
    };
    let jobs: Vec<_> = payloads.into_iter().map(sealed).collect();
    let due = BorrowedArgument::Int(now);
    let mut rows = Vec::with_capacity(jobs.len());
    for (row, sealed) in &jobs {
        rows.push([
            BorrowedArgument::Text(kind.name),
            BorrowedArgument::Text(row),
            BorrowedArgument::Text(sealed),
            due,
            due,
        ]);
    }
    conn.insert_rows("jobs", &["kind", "row_key", "payload", "created_at", "next_at"], &rows, "").map(drop)
}

/// The state of a job that is moved from a table of an earlier version.
pub struct FormerJob {
    pub id: JobId,
    pub created_at: i64,
    pub next_at: i64,
    pub attempts: i64,
    pub last_error: Option<String>,
}

/// Puts a job that waited in a table of an earlier version, under the same id. Does nothing if a job
/// with its id or key is stored already.
pub fn insert_former(
    app: &App,
    build: &Build,
    conn: &mut Conn,
    job: &NewJob,
    former: &FormerJob,
) -> Result<(), StoreError> {
    let row = random_token();
    let sealed = app.keys.seal(&payload_context(build, &row), job.payload.to_string().as_bytes());
    let sql = Sql::new(
        "INSERT INTO jobs(id, kind, once_key, row_key, payload, created_at, next_at, attempts, last_error) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING",
    );
    let sql = sql.arg(former.id).arg(job.kind.name).arg(job.key.map(str::to_owned)).arg(row).arg(sealed);
    let sql = sql.arg(former.created_at).arg(former.next_at).arg(former.attempts).arg(former.last_error.clone());
    conn.exec(&sql).map(drop)
}

/// Counts the jobs of a kind that have a key, up to a bound.
pub fn count_with_key(conn: &mut Conn, kind: &JobKind, bound: i64) -> Result<i64, StoreError> {
    let sql = Sql::new(
        "SELECT count(*) FROM (SELECT 1 AS one FROM jobs WHERE kind = $1 AND once_key IS NOT NULL LIMIT $2) keyed",
    );
    conn.query_one(&sql.arg(kind.name).arg(bound), |row| row.int(0))
}

/// The state of a job that is waiting or running.
#[derive(Clone, Debug, PartialEq)]
pub struct JobState {
    pub is_running: bool,
    pub is_canceled: bool,
    /// The part of `total` that is done, as [`Job::progress`] last reported it.
    pub done: i64,
    /// The total amount of work; `None` before it is reported.
    pub total: Option<i64>,
    /// The number of failed tries.
    pub attempts: i64,
    pub last_error: Option<String>,
    /// The time at which the next try is due, in microseconds since 1970.
    pub next_at: i64,
}

/// Returns the state of a job; `None` if it is done, has failed for good, or was canceled.
pub fn state(conn: &mut Conn, id: JobId) -> Result<Option<JobState>, StoreError> {
    let sql = Sql::new(
        "SELECT CASE WHEN held_until IS NULL THEN 0 ELSE 1 END, is_canceled, done, total, attempts, last_error, next_at \
         FROM jobs WHERE id = $1",
    );
    conn.query_optional(&sql.arg(id), |row| {
        Ok(JobState {
            is_running: row.flag(0)?,
            is_canceled: row.flag(1)?,
            done: row.int(2)?,
            total: row.opt_int(3)?,
            attempts: row.int(4)?,
            last_error: row.opt_text(5)?.map(str::to_owned),
            next_at: row.int(6)?,
        })
    })
}

/// Deletes a waiting job, and marks a running one as canceled. A marked job is deleted when it stops or is leased again.
pub fn cancel(conn: &mut Conn, id: JobId) -> Result<(), StoreError> {
    if conn.exec(&Sql::new("DELETE FROM jobs WHERE id = $1 AND held_until IS NULL").arg(id))? == 0 {
        let sql = Sql::new("UPDATE jobs SET is_canceled = 1, is_asked_again = 0 WHERE id = $1");
        conn.exec(&sql.arg(id))?;
    }
    Ok(())
}

// ---- Work ----------------------------------------------------------------------------------------------------------

/// The due, leased and canceled jobs of a build.
pub struct Overview {
    /// The time at which the first waiting job of each kind is due, in the order of the kinds.
    pub next: Vec<Option<i64>>,
    /// The time at which the first lease expires.
    pub held: Option<i64>,
    /// The ids of jobs that are marked as canceled.
    pub canceled: Vec<JobId>,
}

/// Reads the overview of a build's jobs, from indexes alone and in one statement for all kinds.
pub fn overview(conn: &mut Conn, kinds: &[&JobKind]) -> Result<Overview, StoreError> {
    let mut sql = Sql::new("SELECT (SELECT min(held_until) FROM jobs WHERE held_until IS NOT NULL)");
    for kind in kinds {
        sql.push(", (SELECT min(next_at) FROM jobs WHERE held_until IS NULL AND kind = ").bind(kind.name).push(")");
    }
    let mut overview = conn.query_one(&sql, |row| {
        let next = (1..=kinds.len()).map(|at| row.opt_int(at)).collect::<Result<_, _>>()?;
        Ok(Overview { next, held: row.opt_int(0)?, canceled: Vec::new() })
    })?;
    if overview.held.is_some() {
        overview.canceled = conn.query_all(&Sql::new("SELECT id FROM jobs WHERE is_canceled = 1"), |row| row.id(0))?;
    }
    Ok(overview)
}

/// Counts the waiting jobs, and those of them that have failed before.
pub fn count(conn: &mut Conn) -> Result<(i64, i64), StoreError> {
    let sql = Sql::new(
        "SELECT count(*), CAST(COALESCE(sum(CASE WHEN attempts > 0 THEN 1 ELSE 0 END), 0) AS BIGINT) FROM jobs \
         WHERE held_until IS NULL",
    );
    conn.query_one(&sql, |row| Ok((row.int(0)?, row.int(1)?)))
}

/// Ends the leases that expired at or before a time; `None`: all leases.
pub fn end_leases(conn: &mut Conn, before: Option<i64>) -> Result<(), StoreError> {
    let sql = Sql::new("UPDATE jobs SET holder = NULL, held_until = NULL WHERE held_until <= $1");
    conn.exec(&sql.arg(before.unwrap_or(i64::MAX))).map(drop)
}

/// A leased job, and whether its payload could be decrypted.
pub struct LeasedJob {
    pub job: Job,
    pub is_open: bool,
}

/// Leases the first due job of a kind; `None` if no job is due.
pub fn lease_due_job(
    app: &App,
    build: &Arc<Build>,
    conn: &mut Conn,
    kind: &JobKind,
    lease: &Lease,
) -> Result<Option<LeasedJob>, StoreError> {
    let due = Sql::new(
        "SELECT id, is_canceled FROM jobs WHERE kind = $1 AND held_until IS NULL AND next_at <= $2 \
         ORDER BY next_at, id LIMIT 1 FOR UPDATE SKIP LOCKED",
    );
    let due = due.arg(kind.name).arg(lease.now);
    let id = loop {
        match conn.query_optional(&due, |row| Ok((row.id(0)?, row.flag(1)?)))? {
            None => return Ok(None),
            Some((id, false)) => break id,
            Some((id, true)) => conn.exec(&Sql::new("DELETE FROM jobs WHERE id = $1").arg(id)).map(drop)?,
        }
    };
    let sql = Sql::new("UPDATE jobs SET holder = $1, held_until = $2 WHERE id = $3");
    conn.exec(&sql.arg(&lease.holder).arg(lease.until).arg(id))?;
    let sql = Sql::new("SELECT created_at, attempts, row_key, payload FROM jobs WHERE id = $1").arg(id);
    let leased_job = conn.query_one(&sql, |row| {
        let plain = app.keys.open(&payload_context(build, row.text(2)?), row.text(3)?);
        let payload = plain.and_then(|plain| serde_json::from_slice(&plain).ok());
        let (is_open, payload) = (payload.is_some(), payload.unwrap_or_default());
        let (created_at, attempts) = (row.int(0)?, row.int(1)?);
        Ok(LeasedJob {
            job: Job { id, payload, created_at, attempts, app: app.clone(), build: build.clone() },
            is_open,
        })
    })?;
    Ok(Some(leased_job))
}

/// Renews a lease and stores the progress, if any. Returns `false` if the job was canceled, or another process has leased it.
pub fn renew(conn: &mut Conn, id: JobId, lease: &Lease, progress: Option<(i64, i64)>) -> Result<bool, StoreError> {
    let mut sql = Sql::new("UPDATE jobs SET held_until = ");
    sql.bind(lease.until);
    if let Some((done_count, total)) = progress {
        sql.push(", done = ").bind(done_count).push(", total = ").bind(total);
    }
    sql.push(" WHERE id = ").bind(id).push(" AND is_canceled = 0 AND holder = ").bind(&lease.holder);
    Ok(conn.exec(&sql)? == 1)
}

/// Deletes a job that needs no further try, or restarts it if it was put again while it ran. Returns
/// whether this process had the lease.
pub fn finish(conn: &mut Conn, id: JobId, lease: &Lease) -> Result<bool, StoreError> {
    let sql = Sql::new("DELETE FROM jobs WHERE id = $1 AND holder = $2 AND (is_asked_again = 0 OR is_canceled = 1)");
    if conn.exec(&sql.arg(id).arg(&lease.holder))? == 1 {
        return Ok(true);
    }
    let sql = Sql::new(
        "UPDATE jobs SET created_at = $1, next_at = $1, attempts = 0, last_error = NULL, holder = NULL, \
         held_until = NULL, done = 0, total = NULL, is_asked_again = 0 WHERE id = $2 AND holder = $3",
    );
    Ok(conn.exec(&sql.arg(lease.now).arg(id).arg(&lease.holder))? == 1)
}

/// Deletes a job that was canceled while it ran. If it was put again since, it becomes a waiting job.
pub fn finish_canceled(conn: &mut Conn, id: JobId, lease: &Lease) -> Result<(), StoreError> {
    let sql = Sql::new("DELETE FROM jobs WHERE id = $1 AND holder = $2 AND is_canceled = 1");
    if conn.exec(&sql.arg(id).arg(&lease.holder))? == 0 {
        let sql = Sql::new(
            "UPDATE jobs SET holder = NULL, held_until = NULL, is_asked_again = 0 WHERE id = $1 AND holder = $2",
        );
        conn.exec(&sql.arg(id).arg(&lease.holder))?;
    }
    Ok(())
}

/// Schedules the retry of a failed job, and ends its lease.
pub fn schedule_retry(
    conn: &mut Conn,
    kind: &JobKind,
    job: &Job,
    failure: &JobFailure,
    lease: &Lease,
) -> Result<(), StoreError> {
    let failures = u32::try_from(job.attempts).unwrap_or(u32::MAX).saturating_add(1);
    let pause = exponential_backoff(FIRST_PAUSE, kind.longest_pause, failures).as_micros() as i64;
    let sql = Sql::new(
        "UPDATE jobs SET attempts = attempts + 1, next_at = $1, last_error = $2, holder = NULL, held_until = NULL, \
         is_asked_again = 0 WHERE id = $3 AND holder = $4",
    );
    conn.exec(&sql.arg(lease.now + pause).arg(&failure.reason).arg(job.id).arg(&lease.holder)).map(drop)
}
