//! Takes due runs and does their steps. Any process takes any run. A step is one transaction that locks the run, so that a run is with one
//! process at a time, and a process that ends early loses nothing.

use super::step::{Progress, next_reading, transaction};
use super::stepper::Reading;
use super::waker::EngineOfBuild;
use super::{documents, ending, moments, starts};
use crate::settings::SequenceSettings;
use kit::app::App;
use kit::build::Build;
use kit::commit;
use kit::ids::{SequenceId, SequenceRunId};
use kit::jobs::{self, JobFuture, StandingJob};
use kit::refusal::Refusal;
use kit::request::Request;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use store::{Conn, Sql, StoreError};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The steps of a build that a process does at a time.
const OF_BUILD: usize = 8;
/// The steps of all builds that a process does at a time.
const OF_PROCESS: usize = 32;
/// The steps of a run in one turn. Then other runs have theirs.
const TURN: usize = 50;
/// The interval at which a process looks for runs of others, in microseconds.
const POLL_US: i64 = 5_000_000;
/// The interval at which a process looks for the ends of documents, in microseconds.
const DOCUMENT_POLL_US: i64 = 500_000;
/// The pause before a run is looked at again that another process has locked.
const BUSY_PAUSE: Duration = Duration::from_millis(100);
/// The pause after an error of the store.
const ERROR_PAUSE: Duration = Duration::from_secs(1);

/// The steps that a process may do at a time.
pub struct EngineOfProcess {
    places: Semaphore,
}

impl Default for EngineOfProcess {
    fn default() -> EngineOfProcess {
        EngineOfProcess { places: Semaphore::new(OF_PROCESS) }
    }
}

/// Does the steps of the due runs of a build.
pub static RUNS: StandingJob = StandingJob {
    name: "sequences",
    at_a_time: 64,
    due: |app, _, conn, now| due(app, conn, now),
    run: |app, build| Box::pin(run(app, build)) as JobFuture<_>,
};

fn due(app: &App, conn: &mut Conn, now: i64) -> Result<Option<i64>, StoreError> {
    if !app.slot::<SequenceSettings>().runs {
        return Ok(None);
    }
    let sql = Sql::new(
        "SELECT CASE WHEN EXISTS (SELECT 1 FROM sequence_wakes w JOIN sequence_runs r ON r.id = w.run JOIN sequences s ON s.id = r.sequence \
         WHERE r.ended_at IS NULL AND s.is_holding = 0) THEN 1 ELSE 0 END, \
         (SELECT min(x.at) FROM (SELECT (SELECT min(r.due_at) FROM sequence_runs r WHERE r.sequence = s.id AND r.due_at IS NOT NULL) AS at \
         FROM sequences s WHERE s.is_holding = 0) x), \
         CASE WHEN EXISTS (SELECT 1 FROM sequences WHERE published_version IS NOT NULL) THEN 1 ELSE 0 END, \
         (SELECT min(schedule_next) FROM sequences), CASE WHEN EXISTS (SELECT 1 FROM sequence_moments) THEN 1 ELSE 0 END, \
         CASE WHEN EXISTS (SELECT 1 FROM sequence_runs r WHERE r.waits_document IS NOT NULL) THEN 1 ELSE 0 END",
    );
    let (is_woken, next, is_used, moment, has_moments, has_documents) = conn.query_one(&sql, |row| {
        Ok((row.flag(0)?, row.opt_int(1)?, row.flag(2)?, row.opt_int(3)?, row.flag(4)?, row.flag(5)?))
    })?;
    let next = next.into_iter().chain(moment).min();
    if is_woken || has_moments {
        return Ok(Some(now));
    }
    if has_documents {
        let mut sql =
            Sql::new("SELECT 1 FROM sequence_runs r JOIN sequences s ON s.id = r.sequence WHERE s.is_holding = 0 AND ");
        let has_ended = conn.query_optional(sql.push(documents::ENDED).push(" LIMIT 1"), |_| Ok(()))?.is_some();
        let look = if has_ended { now } else { now + DOCUMENT_POLL_US };
        return Ok(Some(next.map_or(look, |next| next.min(look))));
    }
    let polls = is_used && !app.store.is_embedded();
    Ok(match next {
        Some(next) if polls => Some(next.min(now + POLL_US)),
        None if polls => Some(now + POLL_US),
        next => next,
    })
}

async fn run(app: App, build: Arc<Build>) -> Result<(), StoreError> {
    let mut working = JoinSet::new();
    loop {
        let engine = build.slot::<EngineOfBuild>();
        if jobs::is_on(&app) {
            moments::begin_due(&app, &build).await?;
        }
        let room = OF_BUILD.saturating_sub(working.len());
        let found = if room > 0 && jobs::is_on(&app) { due_runs(&app, &build, room).await? } else { Vec::new() };
        for run in found {
            web::lock(&engine.claimed).insert(run);
            working.spawn(work_on(app.clone(), build.clone(), run));
        }
        if working.is_empty() {
            return Ok(());
        }
        tokio::select! {
            _ = working.join_next() => {}
            () = engine.woken.notified() => {}
        }
    }
}

/// Returns due runs that this process does not work on, at most `room`. Sequences take turns.
async fn due_runs(app: &App, build: &Arc<Build>, room: usize) -> Result<Vec<SequenceRunId>, StoreError> {
    let claimed: HashSet<SequenceRunId> = web::lock(&build.slot::<EngineOfBuild>().claimed).clone();
    let now = app.clock.now();
    let read = move |conn: &mut Conn| {
        let most = (room + claimed.len()) as i64;
        let sql = Sql::new(
            "SELECT DISTINCT w.run FROM sequence_wakes w JOIN sequence_runs r ON r.id = w.run JOIN sequences s ON s.id = r.sequence \
             WHERE r.ended_at IS NULL AND s.is_holding = 0 LIMIT $1",
        );
        let mut lists: Vec<Vec<SequenceRunId>> = vec![conn.query_all(&sql.arg(most), |row| row.id(0))?];
        let mut sql = Sql::new(
            "SELECT r.id FROM sequence_runs r JOIN sequences s ON s.id = r.sequence WHERE s.is_holding = 0 AND ",
        );
        sql.push(documents::ENDED).push(" ORDER BY r.id LIMIT ").bind(most);
        lists.push(conn.query_all(&sql, |row| row.id(0))?);
        let sql = Sql::new(
            "SELECT s.id FROM sequences s WHERE s.is_holding = 0 AND EXISTS (SELECT 1 FROM sequence_runs r \
             WHERE r.sequence = s.id AND r.due_at IS NOT NULL AND r.due_at <= $1) ORDER BY s.id",
        );
        let due: Vec<SequenceId> = conn.query_all(&sql.arg(now), |row| row.id(0))?;
        for sequence in due {
            let sql = Sql::new(
                "SELECT id FROM sequence_runs WHERE sequence = $1 AND due_at IS NOT NULL AND due_at <= $2 ORDER BY due_at, id LIMIT $3",
            );
            lists.push(conn.query_all(&sql.arg(sequence).arg(now).arg(most), |row| row.id(0))?);
        }
        let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
        let mut found = Vec::new();
        for at in 0..longest {
            for id in lists.iter().filter_map(|list| list.get(at)) {
                if !claimed.contains(id) && !found.contains(id) && found.len() < room {
                    found.push(*id);
                }
            }
        }
        Ok(found)
    };
    build.db.read(read).await
}

/// The claim of a run by this process, which ends with this value.
struct Claim {
    build: Arc<Build>,
    run: SequenceRunId,
}

impl Drop for Claim {
    fn drop(&mut self) {
        web::lock(&self.build.slot::<EngineOfBuild>().claimed).remove(&self.run);
    }
}

/// Does the steps of a run, until it waits, ends, or has had its turn.
async fn work_on(app: App, build: Arc<Build>, run: SequenceRunId) {
    let _claim = Claim { build: build.clone(), run };
    for _ in 0..TURN {
        let Ok(_place) = app.slot::<EngineOfProcess>().places.acquire().await else { return };
        if !jobs::is_on(&app) {
            return;
        }
        match advance(&app, &build, run).await {
            Ok(Progress::More) => {}
            Ok(Progress::Later | Progress::NeedsReading) => return,
            Ok(Progress::Busy) => {
                tokio::time::sleep(BUSY_PAUSE).await;
                return;
            }
            // The build is being deleted, or the store is away: the run stays due.
            Err(error) => {
                if jobs::is_on(&app) && error != StoreError::Missing {
                    tracing::warn!(%error, build = build.domain, "a step was not done, will retry");
                }
                tokio::time::sleep(ERROR_PAUSE).await;
                return;
            }
        }
    }
}

/// Does the next step of a run.
async fn advance(app: &App, build: &Arc<Build>, run: SequenceRunId) -> Result<Progress, StoreError> {
    let mut reading: Option<Arc<Reading>> = None;
    loop {
        let request = Arc::new(Request::for_system(app, build));
        let known = reading.clone();
        let script = move |request: &Request, conn: &mut Conn| transaction(request, conn, run, known.as_deref());
        let read = match commit::write(&request, script).await {
            Ok(Progress::NeedsReading) => read_before(&request, run).await,
            Ok(progress) => return Ok(progress),
            Err(refusal) => Err(refusal),
        };
        match read {
            Ok(found) => reading = Some(Arc::new(found)),
            Err(refusal) => return note_failure(&request, run, refusal).await,
        }
    }
}

/// Reads what the next step finds, in a snapshot before its transaction.
async fn read_before(request: &Arc<Request>, run: SequenceRunId) -> Result<Reading, Refusal> {
    let shared = request.clone();
    request.build.db.read(move |conn: &mut Conn| next_reading(&shared, conn, run)).await
}

/// Stores the failure of a step, or that it is tried again.
async fn note_failure(request: &Arc<Request>, run: SequenceRunId, refusal: Refusal) -> Result<Progress, StoreError> {
    let passes = refusal.cause.is_some() || refusal.status.is_server_error();
    let failure = Arc::new(ending::Failure::from_refusal(&refusal));
    let request = Arc::new(Request::for_system(&request.app, &request.build));
    let script = move |request: &Request, conn: &mut Conn| match passes {
        true => ending::try_later(request, conn, run),
        false => ending::record_failure(request, conn, run, &failure),
    };
    commit::write(&request, script).await.map_err(|refusal| refusal.cause.map_or(StoreError::Busy, |cause| *cause))
}

/// The state of the engine of a build.
pub fn build_slots(slots: &mut kit::slots::Slots) {
    slots.insert(EngineOfBuild::default());
    slots.insert(super::published::KnownVersions::default());
    slots.insert(starts::RunCounts::default());
    slots.insert(crate::skipped::SkipCounts::default());
    slots.insert(super::step::BegunRuns::default());
    slots.insert(crate::runs::cleaning::NextCount::default());
}
