//! The transaction of a step. It locks the run, reads the account of its version with the present rights, does the step by the handlers of
//! the API, and writes the row of the step and the place of the next one.

use super::actions;
use super::documents;
use super::ending;
use super::finding;
use super::published::{self, PublishedVersion};
use super::run::{self, Continuation, End, Run, StepRow};
use super::starts::BLOCKED_PAUSE_US;
use super::stepper::{Awaited, Done, Outcome, Reading, Stepper};
use crate::definition::{Action, Definition, Step};
use crate::sequences::access::SequenceAccess;
use crate::sequences::pausing::pause_by_system;
use crate::sequences::publishing::lacks_rights;
use crate::values::Val;
use crate::values::evaluate::{Evaluator, Named};
use identity::{as_caller, is_active};
use kit::caller::Caller;
use kit::ids::{SequenceId, SequenceRunId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use resource::message;
use serde_json::{Value as Json, json};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::{Conn, Sql, StoreError};

/// The maximum number of steps of a run.
const MAX_STEPS: i64 = 10_000;
/// The time after which a run ends.
const MAX_AGE_US: i64 = 400 * 86_400_000_000;
/// The maximum size of the outputs of a step.
const MAX_OUTPUT: usize = 64 * 1024;
/// The pause before a run is looked at again whose account cannot be used.
const UNUSABLE_PAUSE_US: i64 = 30_000_000;
/// The duration from which on a transaction counts as one that has waited for others.
const MIN_WAIT: Duration = Duration::from_millis(5);
const HOUR_US: i64 = 3_600_000_000;

/// The progress of a transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// A step was done, and another one may follow at once.
    More,
    /// The run waits, is held or has ended.
    Later,
    /// Another transaction has locked the run.
    Busy,
    /// The step reads records before its transaction.
    NeedsReading,
}

/// The numbers of runs that began in an hour, by sequence, as they were counted last.
#[derive(Default)]
pub struct BegunRuns(Mutex<HashMap<SequenceId, BegunCount>>);

struct BegunCount {
    hour: i64,
    read_at: Instant,
    /// The runs that other processes had begun when they were counted.
    runs: i64,
    /// The runs that this process has begun in the hour. A transaction that is run again counts its run once.
    begun: HashSet<SequenceRunId>,
}

impl BegunCount {
    fn new(hour: i64) -> BegunCount {
        BegunCount { hour, read_at: Instant::now(), runs: 0, begun: HashSet::new() }
    }
}

/// Does the next step of a run.
pub fn transaction(
    request: &Request,
    conn: &mut Conn,
    id: SequenceRunId,
    reading: Option<&Reading>,
) -> Result<Progress, Refusal> {
    let Some(mut run) = Run::lock(request, conn, id)? else { return Ok(Progress::Busy) };
    let present = Present::read(conn, &run)?;
    // The wake stays for the time after the pause.
    if present.is_holding && !present.has_lost_record {
        return Ok(Progress::Later);
    }
    let woken = conn.exec(&Sql::new("DELETE FROM sequence_wakes WHERE run = $1").arg(id))? > 0;
    let woken = woken || documents::has_ended(conn, id)?;
    if !woken && run.due_at.is_none_or(|due| due > request.now) {
        return Ok(Progress::Later);
    }
    let Some(sequence) = SequenceAccess::load_any(conn, run.sequence, "")? else { return Ok(Progress::Later) };
    if present.has_lost_record {
        ending::cancel(request, conn, id)?;
        return Ok(Progress::Later);
    }
    let started = Instant::now();
    let versions = rights::versions(conn)?;
    let Some(account) = usable_account(request, conn, &run, &sequence)? else { return Ok(Progress::Later) };
    let published = published::load(&request.build, conn, run.sequence, run.version)?
        .ok_or_else(|| StoreError::internal("a run has no version"))?;
    if request.now - run.started_at >= MAX_AGE_US {
        return fail_run(request, conn, &run, account.user, "The run has lasted too long.");
    }
    if run.status == "queued"
        && let Some(progress) = begin(request, conn, &run, &sequence, &published, &account)?
    {
        return Ok(progress);
    }
    let progress = do_step(request, conn, &mut run, (&sequence.name, &published), (&account, reading))?;
    check_account(request, conn, &account, versions, started)?;
    Ok(progress)
}

/// The present state of the sequence and the record of a run.
struct Present {
    /// Is true if a pause holds the run.
    is_holding: bool,
    /// Is true if somebody else has deleted its record.
    has_lost_record: bool,
}

impl Present {
    fn read(conn: &mut Conn, run: &Run) -> Result<Present, StoreError> {
        let sql = Sql::new(
            "SELECT s.is_holding, CASE WHEN EXISTS (SELECT 1 FROM records r WHERE r.id = $2) THEN 1 ELSE 0 END \
             FROM sequences s WHERE s.id = $1",
        );
        let found =
            conn.query_optional(&sql.arg(run.sequence).arg(run.record), |row| Ok((row.flag(0)?, row.flag(1)?)))?;
        let (is_holding, has_record) = found.unwrap_or((true, true));
        let needs_record = run.record.is_some() && run.event != "deleted" && !run.state.has_deleted_record;
        Ok(Present { is_holding, has_lost_record: needs_record && !has_record })
    }
}

/// Reads the account of a run with its present rights. `None` if it cannot be used; the run is then put off.
fn usable_account(
    request: &Request,
    conn: &mut Conn,
    run: &Run,
    sequence: &SequenceAccess,
) -> Result<Option<Arc<Caller>>, Refusal> {
    let account = published::account_of(conn, run.sequence, run.version)?;
    if let Some(account) = account
        && is_active(conn, account)?
    {
        return Ok(Some(Arc::new(as_caller(conn, account)?)));
    }
    if sequence.published_version == Some(run.version) {
        pause_by_system(request, conn, run.sequence, "account")?;
    }
    put_off(conn, run, request.now + UNUSABLE_PAUSE_US)?;
    Ok(None)
}

fn put_off(conn: &mut Conn, run: &Run, until: i64) -> Result<(), StoreError> {
    let sql = Sql::new("UPDATE sequence_runs SET due_at = $1 WHERE id = $2");
    conn.exec(&sql.arg(until).arg(run.id)).map(drop)
}

/// Refuses as outdated a step that has waited for a transaction after which its account has other rights.
fn check_account(
    request: &Request,
    conn: &mut Conn,
    account: &Caller,
    before: [i64; 2],
    started: Instant,
) -> Result<(), Refusal> {
    if request.app.store.is_embedded() || started.elapsed() <= MIN_WAIT {
        return Ok(());
    }
    let now = rights::versions(conn)?;
    if now == before {
        return Ok(());
    }
    if !is_active(conn, account.user)? {
        return Err(Refusal::outdated());
    }
    let caller = as_caller(conn, account.user)?;
    let is_other = caller.account_type != account.account_type || caller.permissions != account.permissions;
    if is_other || (now[1] != before[1] && !account.is_super()) {
        return Err(Refusal::outdated());
    }
    Ok(())
}

/// Decides whether a queued run begins now. Returns the progress if it does not.
fn begin(
    request: &Request,
    conn: &mut Conn,
    run: &Run,
    sequence: &SequenceAccess,
    published: &PublishedVersion,
    account: &Caller,
) -> Result<Option<Progress>, Refusal> {
    if run.concurrency == "queue" && !earlier(conn, run, 1)?.is_empty() {
        put_off(conn, run, request.now + BLOCKED_PAUSE_US)?;
        return Ok(Some(Progress::Later));
    }
    if lacks_rights(conn, account, &published.definition)? {
        if sequence.published_version == Some(run.version) {
            pause_by_system(request, conn, run.sequence, "rights")?;
            return Ok(Some(Progress::Later));
        }
        let refusal = Refusal::forbidden();
        let error = Some((None, Some(403), refusal.body()));
        run::end(request, conn, run, Some(account.user), &End { status: "failed", error })?;
        return Ok(Some(Progress::Later));
    }
    if !has_hourly_room(request, conn, run, published.definition.hourly_limit)? {
        let hour = request.now - request.now.rem_euclid(HOUR_US);
        put_off(conn, run, hour + HOUR_US)?;
        return Ok(Some(Progress::Later));
    }
    if run.concurrency == "replace" {
        for id in earlier(conn, run, 1_000)? {
            ending::cancel(request, conn, id)?;
        }
    }
    Ok(None)
}

/// The earlier runs in progress of the sequence and the record, at most `most`.
fn earlier(conn: &mut Conn, run: &Run, most: i64) -> Result<Vec<SequenceRunId>, StoreError> {
    let mut sql = Sql::new("SELECT id FROM sequence_runs WHERE ended_at IS NULL AND sequence = ");
    sql.bind(run.sequence);
    match run.record {
        Some(record) => drop(sql.push(" AND record = ").bind(record)),
        None => drop(sql.push(" AND record IS NULL")),
    }
    sql.push(" AND id < ").bind(run.id).push(" ORDER BY id LIMIT ").bind(most);
    conn.query_all(&sql, |row| row.id(0))
}

/// Returns whether one more run of a sequence may begin in this hour.
fn has_hourly_room(request: &Request, conn: &mut Conn, run: &Run, limit: i64) -> Result<bool, StoreError> {
    let hour = request.now - request.now.rem_euclid(HOUR_US);
    let counts = || web::lock(&request.build.slot::<BegunRuns>().0);
    let is_known = counts()
        .get(&run.sequence)
        .is_some_and(|count| count.hour == hour && count.read_at.elapsed() < Duration::from_secs(1));
    if !is_known {
        let sql = Sql::new(
            "SELECT count(*) FROM (SELECT 1 FROM sequence_runs WHERE sequence = $1 AND begun_at >= $2 LIMIT $3) x",
        );
        let runs = conn.query_one(&sql.arg(run.sequence).arg(hour).arg(limit), |row| row.int(0))?;
        let begun: Vec<SequenceRunId> = counts()
            .get(&run.sequence)
            .filter(|count| count.hour == hour)
            .map_or_else(Vec::new, |count| count.begun.iter().copied().collect());
        // Those that are committed are counted in the database, too.
        let mut sql = Sql::new("SELECT count(*) FROM sequence_runs WHERE begun_at >= ");
        sql.bind(hour).push(" AND id").push_any(begun);
        let committed = conn.query_one(&sql, |row| row.int(0))?;
        let mut counts = counts();
        let count = counts.entry(run.sequence).or_insert_with(|| BegunCount::new(hour));
        if count.hour != hour {
            *count = BegunCount::new(hour);
        }
        (count.read_at, count.runs) = (Instant::now(), runs - committed);
    }
    let mut counts = counts();
    let Some(count) = counts.get_mut(&run.sequence) else { return Ok(true) };
    if count.runs + count.begun.len() as i64 >= limit && !count.begun.contains(&run.id) {
        return Ok(false);
    }
    count.begun.insert(run.id);
    Ok(true)
}

fn fail_run(request: &Request, conn: &mut Conn, run: &Run, account: UserId, detail: &str) -> Result<Progress, Refusal> {
    let error = Some((None, None, json!({"detail": detail})));
    run::end(request, conn, run, Some(account), &End { status: "failed", error })?;
    ending::note_failed(request, conn, run.sequence)?;
    Ok(Progress::Later)
}

/// Does the next step, or ends the run behind the last one.
fn do_step(
    request: &Request,
    conn: &mut Conn,
    run: &mut Run,
    (name, published): (&str, &Arc<PublishedVersion>),
    (account, reading): (&Arc<Caller>, Option<&Reading>),
) -> Result<Progress, Refusal> {
    let definition = &published.definition;
    let Some((step, path)) = run.state.next_step(definition) else {
        return complete(request, conn, run, account.user);
    };
    if run.num_of_steps >= MAX_STEPS {
        let detail = format!("Limit of {MAX_STEPS} steps of a run has been exceeded.");
        return fail_run(request, conn, run, account.user, &detail);
    }
    let as_account = request.with_caller(account.clone());
    if run.state.wait.is_none()
        && let Some(condition) = &step.condition
        && !Evaluator::for_account(&as_account, run.facts()).condition(conn, condition)?
    {
        let row = StepRow {
            path: &path,
            of: step.action.type_name(),
            status: "left_out",
            account: account.user,
            input: Json::Null,
            output: None,
            record: None,
            task: None,
            error: None,
        };
        run::write_step(request, conn, run, row)?;
        run.state.advance();
        return proceed(request, conn, run, definition, account.user);
    }
    let writer = run.writer(name);
    let stepper = Stepper { request, as_account: &as_account, account, writer: &writer, reading };
    let outcome = actions::run(&stepper, conn, run, step)?;
    settle(request, conn, run, (step, &path, definition), (account.user, outcome))
}

/// Stores the outcome of a step, and continues the run or ends it.
fn settle(
    request: &Request,
    conn: &mut Conn,
    run: &mut Run,
    (step, path, definition): (&Step, &str, &Definition),
    (account, outcome): (UserId, Outcome),
) -> Result<Progress, Refusal> {
    match outcome {
        Outcome::NeedsReading => Ok(Progress::NeedsReading),
        Outcome::Waits { until, awaited, input } => {
            let row = StepRow { status: "waiting", ..row_of(step, path, account, input) };
            wait(request, conn, run, (row, until), awaited)
        }
        Outcome::Stop { is_failure, message } => {
            let row = StepRow { status: "done", ..row_of(step, path, account, json!({"message": message})) };
            run::write_step(request, conn, run, row)?;
            stop(request, conn, run, account, (path.to_owned(), is_failure, message))
        }
        Outcome::Branch(taken) => {
            let branch = taken.map_or(Val::Null, |taken| Val::Int(taken as i64));
            let outputs = Named::from([("taken".to_owned(), branch)]);
            finish_step(request, conn, run, (step, path), (account, Done { outputs, ..Done::default() }))?;
            let Action::Branch { branches, .. } = &step.action else { return Ok(Progress::More) };
            run.state.enter(&step.key, taken.unwrap_or(branches.len()));
            proceed(request, conn, run, definition, account)
        }
        Outcome::Each { records, left_out } => {
            let outputs = [("count", records.len() as i64), ("left_out", left_out)];
            let outputs = outputs.map(|(name, number)| (name.to_owned(), Val::Int(number)));
            let done = Done { outputs: Named::from(outputs), ..Done::default() };
            finish_step(request, conn, run, (step, path), (account, done))?;
            run.state.repeat(&step.key, records);
            proceed(request, conn, run, definition, account)
        }
        Outcome::Done(done) => {
            finish_step(request, conn, run, (step, path), (account, done))?;
            proceed(request, conn, run, definition, account)
        }
    }
}

fn row_of<'a>(step: &Step, path: &'a str, account: UserId, input: Json) -> StepRow<'a> {
    StepRow {
        path,
        of: step.action.type_name(),
        status: "done",
        account,
        input,
        output: None,
        record: None,
        task: None,
        error: None,
    }
}

/// Stores the outputs of a step and moves behind it.
fn finish_step(
    request: &Request,
    conn: &mut Conn,
    run: &mut Run,
    (step, path): (&Step, &str),
    (account, done): (UserId, Done),
) -> Result<(), Refusal> {
    let Done { input, mut outputs, record, task } = done;
    let shown = |outputs: &Named| -> Json {
        outputs.iter().map(|(name, value)| (name.clone(), value.to_json())).collect::<serde_json::Map<_, _>>().into()
    };
    if shown(&outputs).to_string().len() > MAX_OUTPUT && outputs.contains_key("response") {
        outputs.insert("response".to_owned(), Val::Null);
    }
    let output = shown(&outputs);
    if output.to_string().len() > MAX_OUTPUT {
        return Err(Refusal::bad_request(message::TOO_LARGE));
    }
    let row = StepRow { output: Some(output), record, task, ..row_of(step, path, account, input) };
    run::write_step(request, conn, run, row)?;
    outputs.insert("failed".to_owned(), Val::Bool(false));
    run.state.outputs.insert(step.key.clone(), outputs);
    run.state.advance();
    Ok(())
}

fn wait(
    request: &Request,
    conn: &mut Conn,
    run: &mut Run,
    (row, until): (StepRow<'_>, i64),
    awaited: Awaited,
) -> Result<Progress, Refusal> {
    let path = row.path.to_owned();
    if run.state.wait.is_none() {
        run::write_step(request, conn, run, row)?;
        run.state.wait = Some(run::WaitState { n: run.num_of_steps, until });
    }
    let next = Continuation { status: "waiting", due_at: until, step: Some(path), awaited };
    run::store(request, conn, run, &next)?;
    Ok(Progress::Later)
}

fn stop(
    request: &Request,
    conn: &mut Conn,
    run: &mut Run,
    account: UserId,
    (path, is_failure, message): (String, bool, String),
) -> Result<Progress, Refusal> {
    if !is_failure {
        return complete(request, conn, run, account);
    }
    let error = Some((Some(path), None, json!({"detail": message})));
    run::end(request, conn, run, Some(account), &End { status: "failed", error })?;
    ending::note_failed(request, conn, run.sequence)?;
    Ok(Progress::Later)
}

fn complete(request: &Request, conn: &mut Conn, run: &Run, account: UserId) -> Result<Progress, Refusal> {
    run::end(request, conn, run, Some(account), &End { status: "completed", error: None })?;
    Ok(Progress::Later)
}

/// Stores that the next step is due, or ends the run if there is none.
pub fn proceed(
    request: &Request,
    conn: &mut Conn,
    run: &mut Run,
    definition: &Definition,
    account: UserId,
) -> Result<Progress, Refusal> {
    let Some((_, path)) = run.state.next_step(definition) else {
        return complete(request, conn, run, account);
    };
    let next = Continuation { status: "running", due_at: request.now, step: Some(path), awaited: Awaited::default() };
    run::store(request, conn, run, &next)?;
    Ok(Progress::More)
}

/// Reads what the next step of a run finds.
pub fn next_reading(request: &Request, conn: &mut Conn, id: SequenceRunId) -> Result<Reading, Refusal> {
    let nothing = |num_of_steps: i64| Reading { num_of_steps, records: Vec::new(), left_out: 0 };
    let Some(mut run) = Run::load(request, conn, id, " AND ended_at IS NULL")? else { return Ok(nothing(-1)) };
    let published = published::load(&request.build, conn, run.sequence, run.version)?;
    let account = published::account_of(conn, run.sequence, run.version)?;
    let (Some(published), Some(account)) = (published, account) else { return Ok(nothing(run.num_of_steps)) };
    let account = Arc::new(as_caller(conn, account)?);
    let num_of_steps = run.num_of_steps;
    let Some((step, _)) = run.state.next_step(&published.definition) else { return Ok(nothing(num_of_steps)) };
    let as_account = request.with_caller(account.clone());
    let writer = run.writer("");
    let stepper = Stepper { request, as_account: &as_account, account: &account, writer: &writer, reading: None };
    let (records, left_out) = match &step.action {
        Action::FindRecords { object_class, selection, at_most } => {
            (finding::find(&stepper, conn, &run, (*object_class, selection, *at_most))?, 0)
        }
        Action::ForEach { source, selection, at_most, .. } => {
            finding::find_items(&stepper, conn, &run, (source, selection, *at_most))?
        }
        _ => (Vec::new(), 0),
    };
    Ok(Reading { num_of_steps, records, left_out })
}
