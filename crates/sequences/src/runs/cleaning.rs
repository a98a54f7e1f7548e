//! Removes old runs: those that ended 90 days ago, and the oldest ended ones beyond what a build may store.

use kit::app::App;
use kit::build::Build;
use kit::ids::SequenceRunId;
use kit::jobs::{Job, JobFailure, JobFuture, JobKind, StandingJob};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use store::{Conn, Sql, StoreError};

const HOUR_US: i64 = 3_600_000_000;
const DAY_US: i64 = 24 * HOUR_US;
/// The time for which an ended run and a count of skipped starts are stored.
const KEPT_US: i64 = 90 * DAY_US;
/// The maximum numbers of runs and steps of a build, and of bytes of their values.
const MAX_RUNS: i64 = 1_000_000;
const MAX_STEPS: i64 = 5_000_000;
const MAX_BYTES: i64 = 4 << 30;
/// The runs that one transaction removes.
const AT_ONCE: i64 = 500;

/// Removes the runs of a deleted sequence.
pub static LEFT_RUNS: JobKind = JobKind {
    name: "left_sequence_runs",
    run: |_, build, job| Box::pin(remove_of_sequence(build, job)) as JobFuture<_>,
    ..JobKind::LONG
};

async fn remove_of_sequence(build: Arc<Build>, job: Job) -> Result<(), JobFailure> {
    let sequence = job.payload.as_i64().unwrap_or(0);
    loop {
        let script = move |conn: &mut Conn| {
            let sql = Sql::new("SELECT id FROM sequence_runs WHERE sequence = $1 ORDER BY id LIMIT $2");
            let runs = conn.query_all(&sql.arg(sequence).arg(AT_ONCE), |row| row.id(0))?;
            conn.exec(&Sql::new("DELETE FROM sequence_skips WHERE sequence = $1").arg(sequence))?;
            remove(conn, runs)
        };
        let removed = build.db.write(script).await.map_err(|error: StoreError| JobFailure::new(error.to_string()))?;
        if removed < AT_ONCE {
            return Ok(());
        }
    }
}

/// Removes runs with their steps. Returns their number.
fn remove(conn: &mut Conn, runs: Vec<SequenceRunId>) -> Result<i64, StoreError> {
    if runs.is_empty() {
        return Ok(0);
    }
    let count = runs.len() as i64;
    for text in [
        "DELETE FROM sequence_steps WHERE run",
        "DELETE FROM sequence_wakes WHERE run",
        "DELETE FROM sequence_runs WHERE id",
    ] {
        let mut sql = Sql::new(text);
        conn.exec(sql.push_any(runs.iter().copied()))?;
    }
    Ok(count)
}

/// The time at which the runs of a build are counted again, in microseconds since 1970.
#[derive(Default)]
pub struct NextCount(AtomicI64);

/// Removes old runs, and once an hour those beyond what a build may store.
pub static OLD_RUNS: StandingJob = StandingJob {
    name: "old sequence runs",
    at_a_time: 2,
    due: |_, build, conn, _| {
        let sql = Sql::new("SELECT min(ended_at) FROM sequence_runs WHERE ended_at IS NOT NULL");
        let oldest = conn.query_one(&sql, |row| row.opt_int(0))?;
        let next_count = build.slot::<NextCount>().0.load(Ordering::Relaxed);
        Ok(oldest.map(|oldest| (oldest + KEPT_US).min(next_count)))
    },
    run: |app, build| Box::pin(remove_old(app, build)) as JobFuture<_>,
};

async fn remove_old(app: App, build: Arc<Build>) -> Result<(), StoreError> {
    build.slot::<NextCount>().0.store(app.clock.now() + HOUR_US, Ordering::Relaxed);
    remove_surplus(&build).await?;
    let before = app.clock.now() - KEPT_US;
    loop {
        let script = move |conn: &mut Conn| {
            let sql = Sql::new(
                "SELECT id FROM sequence_runs WHERE ended_at IS NOT NULL AND ended_at <= $1 ORDER BY ended_at LIMIT $2",
            );
            let runs = conn.query_all(&sql.arg(before).arg(AT_ONCE), |row| row.id(0))?;
            conn.exec(&Sql::new("DELETE FROM sequence_skips WHERE hour <= $1").arg(before))?;
            remove(conn, runs)
        };
        if build.db.write(script).await? < AT_ONCE {
            return Ok(());
        }
    }
}

/// Removes the oldest ended runs beyond what a build may store.
async fn remove_surplus(build: &Build) -> Result<(), StoreError> {
    loop {
        let script = |conn: &mut Conn| {
            let sql = Sql::new(
                "SELECT count(*), CAST(COALESCE(sum(num_of_steps), 0) AS BIGINT), \
                 CAST(COALESCE(sum(value_bytes + input_bytes), 0) AS BIGINT) FROM sequence_runs",
            );
            let (runs, steps, bytes) = conn.query_one(&sql, |row| Ok((row.int(0)?, row.int(1)?, row.int(2)?)))?;
            if runs <= MAX_RUNS && steps <= MAX_STEPS && bytes <= MAX_BYTES {
                return Ok(0);
            }
            let most = if runs > MAX_RUNS { (runs - MAX_RUNS).min(AT_ONCE) } else { AT_ONCE };
            let sql = Sql::new("SELECT id FROM sequence_runs WHERE ended_at IS NOT NULL ORDER BY ended_at LIMIT $1");
            let oldest = conn.query_all(&sql.arg(most), |row| row.id(0))?;
            remove(conn, oldest)
        };
        if build.db.write(script).await? == 0 {
            return Ok(());
        }
    }
}
