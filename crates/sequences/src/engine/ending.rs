//! Steps that fail, and runs that are canceled or put off.

use super::published;
use super::run::{self, Continuation, End, Run, StepRow};
use super::step::{Progress, proceed};
use super::stepper::Awaited;
use crate::notices;
use crate::sequences::pausing::pause_by_system;
use crate::values::Val;
use crate::values::evaluate::Named;
use identity::is_active;
use kit::ids::{RecordId, SequenceId, SequenceRunId, UserId};
use kit::jobs::exponential_backoff;
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::request::Request;
use serde_json::Value as Json;
use std::time::Duration;
use store::{Conn, Sql, StoreError};

/// The number of runs in a row whose failure pauses a sequence.
const FAILURES: i64 = 20;
/// The first and the longest pause before a step is tried again, and the time for which it is.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
const PATIENCE_US: i64 = 86_400_000_000;

/// The refusal of a step.
pub struct Failure {
    status: i64,
    body: Json,
    detail: String,
}

impl Failure {
    pub fn from_refusal(refusal: &Refusal) -> Failure {
        let detail = refusal.reason.messages().join(" ");
        Failure { status: i64::from(refusal.status.as_u16()), body: refusal.body(), detail }
    }
}

/// Stores that the current step of a run has failed. The run goes on if the step says so.
pub fn record_failure(
    request: &Request,
    conn: &mut Conn,
    id: SequenceRunId,
    failure: &Failure,
) -> Result<Progress, Refusal> {
    let Some(mut run) = Run::lock(request, conn, id)? else { return Ok(Progress::Busy) };
    let published = published::load(&request.build, conn, run.sequence, run.version)?
        .ok_or_else(|| StoreError::internal("a run has no version"))?;
    let account = published::account_of(conn, run.sequence, run.version)?.unwrap_or(UserId::NONE);
    let Some((step, path)) = run.state.next_step(&published.definition) else { return Ok(Progress::Later) };
    let error = (Some(failure.status), failure.body.clone());
    let row = StepRow {
        path: &path,
        of: step.action.type_name(),
        status: "failed",
        account,
        input: Json::Null,
        output: None,
        record: None,
        task: None,
        error: Some(error),
    };
    run::write_step(request, conn, &mut run, row)?;
    run.state.document = None;
    if step.continues {
        let outputs = Named::from([
            ("failed".to_owned(), Val::Bool(true)),
            ("error.status".to_owned(), Val::Int(failure.status)),
            ("error.detail".to_owned(), Val::Text(failure.detail.clone())),
        ]);
        run.state.outputs.insert(step.key.clone(), outputs);
        run.state.advance();
        return proceed(request, conn, &mut run, &published.definition, account);
    }
    let error = Some((Some(path), Some(failure.status), failure.body.clone()));
    run::end(request, conn, &run, Some(account), &End { status: "failed", error })?;
    note_failed(request, conn, run.sequence)?;
    Ok(Progress::Later)
}

/// Puts a step off that failed for a reason that passes. After a day it fails.
pub fn try_later(request: &Request, conn: &mut Conn, id: SequenceRunId) -> Result<Progress, Refusal> {
    let Some(run) = Run::lock(request, conn, id)? else { return Ok(Progress::Busy) };
    let since = run.trying_since.unwrap_or(request.now);
    if request.now - since >= PATIENCE_US {
        let failure = Failure::from_refusal(&Refusal::overloaded());
        return record_failure(request, conn, id, &failure);
    }
    let failures = u32::try_from(run.attempts + 1).unwrap_or(u32::MAX);
    let pause = exponential_backoff(FIRST_PAUSE, LONGEST_PAUSE, failures).as_micros() as i64;
    let sql = Sql::new(
        "UPDATE sequence_runs SET attempts = attempts + 1, trying_since = $1, due_at = $2, \
         status = CASE WHEN status = 'running' THEN 'waiting' ELSE status END WHERE id = $3",
    );
    conn.exec(&sql.arg(since).arg(request.now + pause).arg(id))?;
    Ok(Progress::Later)
}

/// Pauses a sequence whose last runs have all failed.
pub fn note_failed(request: &Request, conn: &mut Conn, id: SequenceId) -> Result<(), Refusal> {
    let sql = Sql::new(
        "SELECT count(*) FROM (SELECT r.status FROM sequence_runs r WHERE r.sequence = $1 AND r.status IN ('failed', 'completed') \
         AND r.ended_at >= (SELECT s.failures_since FROM sequences s WHERE s.id = $1) ORDER BY r.ended_at DESC, r.id DESC LIMIT $2) x \
         WHERE x.status = 'failed'",
    );
    if conn.query_one(&sql.arg(id).arg(FAILURES), |row| row.int(0))? >= FAILURES {
        return pause_by_system(request, conn, id, "failures");
    }
    notices::failed(request, conn, id)
}

/// Cancels a run in progress. Returns `false` if it has ended.
pub fn cancel(request: &Request, conn: &mut Conn, id: SequenceRunId) -> Result<bool, Refusal> {
    let Some(run) = Run::load(request, conn, id, " AND ended_at IS NULL FOR UPDATE")? else { return Ok(false) };
    let sql =
        Sql::new("UPDATE sequence_steps SET status = 'canceled', ended_at = $1 WHERE run = $2 AND status = 'waiting'");
    conn.exec(&sql.arg(request.now).arg(id))?;
    let account = published::account_of(conn, run.sequence, run.version)?;
    run::end(request, conn, &run, account, &End { status: "canceled", error: None })?;
    Ok(true)
}

/// Wakes the runs on records that are deleted. The engine cancels them before their next step, so that the deletion does not wait.
pub fn cancel_runs_of_records(request: &Request, conn: &mut Conn, records: &[RecordId]) -> Result<(), Refusal> {
    let mut sql = Sql::new(
        "INSERT INTO sequence_wakes(run) SELECT r.id FROM sequence_runs r WHERE r.ended_at IS NULL AND r.record",
    );
    sql.push_any(records.iter().copied()).push(" AND r.event <> 'deleted'");
    if conn.exec(&sql)? > 0 {
        request.effects.after_commit(super::waker::wake);
    }
    Ok(())
}

/// Pauses the sequences of an account that cannot be used any more, in the transaction that makes it so.
pub const ON_USER_CHANGED: [Reaction; 2] = [
    Reaction { resource: "users", when: ReactionTime::Changed, run: note_account },
    Reaction { resource: "users", when: ReactionTime::Leaving, run: pause_of_account },
];

fn note_account(request: &Request, conn: &mut Conn, id: i64) -> Result<(), Refusal> {
    if !is_active(conn, UserId::new(id))? {
        return pause_of_account(request, conn, id);
    }
    // Runs that were put off while the account could not be used are due again.
    let sql = Sql::new("SELECT 1 FROM sequence_versions WHERE runs_as = $1 LIMIT 1").arg(id);
    if conn.query_optional(&sql, |_| Ok(()))?.is_some() {
        request.effects.after_commit(super::waker::wake);
    }
    Ok(())
}

fn pause_of_account(request: &Request, conn: &mut Conn, id: i64) -> Result<(), Refusal> {
    let sql = Sql::new("SELECT id, name FROM sequences WHERE runs_as = $1 AND status = 'running' ORDER BY id").arg(id);
    let running = conn.query_all(&sql, |row| Ok((row.id::<SequenceId>(0)?, row.text(1)?.to_owned())))?;
    let mut names = Vec::new();
    for (sequence, name) in running {
        pause_by_system(request, conn, sequence, "account")?;
        names.push(name);
    }
    notices::account_lost(request, conn, &names)
}

/// Puts a failed run back to its former place.
pub fn retry(request: &Request, conn: &mut Conn, run: &Run) -> Result<(), Refusal> {
    let next = Continuation { status: "queued", due_at: request.now, step: None, awaited: Awaited::default() };
    run::store(request, conn, run, &next)?;
    let sql = Sql::new(
        "UPDATE sequence_runs SET ended_at = NULL, runs_as = NULL, error_step = NULL, error_status = NULL, error_body = NULL WHERE id = $1",
    );
    conn.exec(&sql.arg(run.id))?;
    request.effects.after_commit(super::waker::wake);
    Ok(())
}
