//! The moments of schedules. A moment is done once: the row of its sequence is locked, and says which moment was the last and which
//! one is next. Runs for each of many records are written in parts; a row of `sequence_moments` holds the place.

use super::finding;
use super::published::{self, PublishedVersion};
use super::run::RunState;
use super::starts::{self, Start, Started};
use super::stepper::Stepper;
use crate::definition::Trigger;
use crate::definition::conditions::Selection;
use crate::definition::schedules::ScheduleTrigger;
use crate::schedule::date_of;
use crate::sequences::sequence::RUNNING;
use crate::skipped::{SkipReason, skip, skip_many};
use crate::values::evaluate::{Evaluator, Facts, Named};
use identity::{as_caller, is_active};
use jiff::civil::Date;
use kit::app::App;
use kit::build::Build;
use kit::commit;
use kit::ids::{RecordId, SequenceId};
use kit::refusal::Refusal;
use kit::request::{Request, RunWriter};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{Conn, Sql, StoreError};

const DAY_US: i64 = 86_400_000_000;
/// The runs that one transaction writes.
const PART: i64 = 500;
/// The maximum number of runs of a moment.
const MAX_RUNS: i64 = 10_000;
/// The maximum number of missed moments that are counted.
const MAX_MISSED: i64 = 100_000;

/// Does the due moments of a build.
pub async fn begin_due(app: &App, build: &Arc<Build>) -> Result<(), StoreError> {
    let now = app.clock.now();
    let read = move |conn: &mut Conn| {
        let sql = Sql::new("SELECT id FROM sequences WHERE schedule_next <= $1 ORDER BY schedule_next, id").arg(now);
        let due: Vec<SequenceId> = conn.query_all(&sql, |row| row.id(0))?;
        let sql = Sql::new("SELECT DISTINCT sequence FROM sequence_moments ORDER BY sequence");
        let begun: Vec<SequenceId> = conn.query_all(&sql, |row| row.id(0))?;
        Ok::<_, StoreError>((due, begun))
    };
    let (due, mut begun) = build.db.read(read).await?;
    for id in due {
        if write(app, build, move |request, conn| begin(request, conn, id)).await? {
            begun.push(id);
        }
    }
    for id in begun {
        while write(app, build, move |request, conn| next_part(request, conn, id)).await? {}
    }
    Ok(())
}

async fn write(
    app: &App,
    build: &Arc<Build>,
    script: impl Fn(&Request, &mut Conn) -> Result<bool, Refusal> + Send + Sync + 'static,
) -> Result<bool, StoreError> {
    let request = Arc::new(Request::for_system(app, build));
    commit::write(&request, script).await.map_err(|refusal| refusal.cause.map_or(StoreError::Busy, |cause| *cause))
}

/// Begins the last due moment of a sequence, and counts those before it. Returns `true` if it starts runs for records.
fn begin(request: &Request, conn: &mut Conn, id: SequenceId) -> Result<bool, Refusal> {
    let sql = Sql::new(
        "SELECT schedule_next, schedule_from, published_version, status FROM sequences WHERE id = $1 AND schedule_next <= $2 \
         FOR UPDATE SKIP LOCKED",
    );
    let found = conn.query_optional(&sql.arg(id).arg(request.now), |row| {
        Ok((row.int(0)?, row.text(1)?.to_owned(), row.int(2)?, row.text(3)? == RUNNING))
    })?;
    let Some((due, from, version, is_running)) = found else { return Ok(false) };
    let published = published::load(&request.build, conn, id, version)?;
    let trigger = published.as_ref().and_then(|published| published.definition.trigger.as_ref());
    let (Some(published), Some(Trigger::Schedule(trigger))) = (&published, trigger) else { return Ok(false) };
    let first = from.parse().unwrap_or_else(|_| date_of(due, &trigger.schedule.zone()));
    let (last, count) = last_due(trigger, first, due, request.now);
    let next = trigger.schedule.next(first, last.max(request.now));
    let sql = Sql::new("UPDATE sequences SET schedule_done = $1, schedule_next = $2 WHERE id = $3");
    conn.exec(&sql.arg(last).arg(next).arg(id))?;
    let is_too_old = request.now - last > DAY_US;
    let missed = if is_too_old { count } else { count - 1 };
    skip_many(request, id, if is_running { SkipReason::Missed } else { SkipReason::Paused }, missed);
    if is_too_old {
        return Ok(false);
    }
    if !is_running {
        skip(request, id, SkipReason::Paused, None);
        return Ok(false);
    }
    if trigger.for_each.is_some() {
        let sql = Sql::new(
            "INSERT INTO sequence_moments(sequence, version, moment, after_record, n) VALUES ($1, $2, $3, 0, 0)",
        );
        conn.exec(&sql.arg(id).arg(version).arg(last))?;
        return Ok(true);
    }
    insert(request, conn, (id, version, published, trigger), &[None])?;
    Ok(false)
}

/// Returns the last moment that is due, and the number of those from `due` to it.
fn last_due(trigger: &ScheduleTrigger, first: Date, due: i64, now: i64) -> (i64, i64) {
    let (mut last, mut count) = (due, 1);
    while let Some(next) = trigger.schedule.next(first, last).filter(|next| *next <= now && count < MAX_MISSED) {
        (last, count) = (next, count + 1);
    }
    (last, count)
}

type Scheduled<'a> = (SequenceId, i64, &'a PublishedVersion, &'a ScheduleTrigger);

/// Writes runs of a moment, each for a record or for none.
fn insert(
    request: &Request,
    conn: &mut Conn,
    (sequence, version, published, trigger): Scheduled<'_>,
    records: &[Option<RecordId>],
) -> Result<(), Refusal> {
    let start = |record: &Option<RecordId>| Start {
        sequence,
        version,
        trigger_type: "schedule",
        event: "",
        record: *record,
        class: record.and(trigger.for_each.as_ref().map(|(class, _)| *class)),
        concurrency: published.definition.concurrency(),
        task: None,
        event_id: None,
        state: RunState { zone: Some(trigger.schedule.time_zone.clone()), ..RunState::default() },
        inputs: Named::new(),
    };
    for (start, started) in starts::insert(request, conn, records.iter().map(start).collect())? {
        if let Started::Skipped(reason) = started {
            skip(request, start.0, reason, start.1);
        }
    }
    Ok(())
}

/// A moment whose runs are being written.
struct Moment {
    version: i64,
    at: i64,
    after: i64,
    runs: i64,
}

/// Writes the next runs of a moment. Returns `false` if there are no more.
fn next_part(request: &Request, conn: &mut Conn, id: SequenceId) -> Result<bool, Refusal> {
    let sql = Sql::new(
        "SELECT version, moment, after_record, n FROM sequence_moments WHERE sequence = $1 ORDER BY moment LIMIT 1 \
         FOR UPDATE SKIP LOCKED",
    );
    let moment = conn.query_optional(&sql.arg(id), |row| {
        Ok(Moment { version: row.int(0)?, at: row.int(1)?, after: row.int(2)?, runs: row.int(3)? })
    })?;
    let Some(moment) = moment else { return Ok(false) };
    let published = published::load(&request.build, conn, id, moment.version)?;
    let trigger = published.as_ref().and_then(|published| published.definition.trigger.as_ref());
    let found = match (&published, trigger) {
        (Some(published), Some(Trigger::Schedule(trigger))) => {
            let found = find(request, conn, (id, &moment), trigger)?;
            let records: Vec<_> = found.0.iter().map(|record| Some(RecordId::new(*record))).collect();
            insert(request, conn, (id, moment.version, published, trigger), &records)?;
            Some(found)
        }
        _ => None,
    };
    let (records, all) = found.unwrap_or_default();
    let (runs, rest) = (moment.runs + records.len() as i64, all - records.len() as i64);
    let is_last = rest <= 0 || runs >= MAX_RUNS;
    if is_last {
        skip_many(request, id, SkipReason::Limit, rest);
        let sql = Sql::new("DELETE FROM sequence_moments WHERE sequence = $1 AND moment = $2");
        conn.exec(&sql.arg(id).arg(moment.at))?;
        return Ok(has_moments(conn, id)?);
    }
    let sql = Sql::new("UPDATE sequence_moments SET after_record = $1, n = $2 WHERE sequence = $3 AND moment = $4");
    conn.exec(&sql.arg(records.last().copied()).arg(runs).arg(id).arg(moment.at))?;
    Ok(true)
}

fn has_moments(conn: &mut Conn, id: SequenceId) -> Result<bool, StoreError> {
    let sql = Sql::new("SELECT 1 FROM sequence_moments WHERE sequence = $1 LIMIT 1").arg(id);
    Ok(conn.query_optional(&sql, |_| Ok(()))?.is_some())
}

/// Finds the next records of a moment, which the account of the version may view, and the number of all that are left.
fn find(
    request: &Request,
    conn: &mut Conn,
    (sequence, moment): (SequenceId, &Moment),
    trigger: &ScheduleTrigger,
) -> Result<(Vec<i64>, i64), Refusal> {
    let Some((class, selection)) = &trigger.for_each else { return Ok((Vec::new(), 0)) };
    let Some(account) = published::account_of(conn, sequence, moment.version)? else { return Ok((Vec::new(), 0)) };
    if !is_active(conn, account)? {
        return Ok((Vec::new(), 0));
    }
    let account = Arc::new(as_caller(conn, account)?);
    let as_account = request.with_caller(account.clone());
    let writer = RunWriter { sequence, name: String::new(), run: String::new(), cause: String::new(), depth: 0 };
    let writer = Arc::new(writer);
    let stepper = Stepper { request, as_account: &as_account, account: &account, writer: &writer, reading: None };
    select(&stepper, conn, (*class, selection, trigger), moment)
}

fn select(
    stepper: &Stepper<'_>,
    conn: &mut Conn,
    (class, selection, trigger): (i64, &Selection, &ScheduleTrigger),
    moment: &Moment,
) -> Result<(Vec<i64>, i64), Refusal> {
    let (nothing, outputs) = (Named::new(), BTreeMap::new());
    let facts = Facts {
        record: None,
        item: None,
        before: &nothing,
        task: &nothing,
        deleted: None,
        inputs: &nothing,
        outputs: &outputs,
        starter: None,
        run: "",
        zone: Some(&trigger.schedule.time_zone),
    };
    let mut evaluator = Evaluator::for_account(stepper.as_account, facts);
    let Some(mut parameters) = finding::parameters(&mut evaluator, conn, selection)? else {
        return Ok((Vec::new(), 0));
    };
    parameters.push(("id__gt".to_owned(), moment.after.to_string()));
    match finding::page(stepper, conn, class, &parameters, PART.min(MAX_RUNS - moment.runs)) {
        // An account that may not list the class selects nothing.
        Err(refusal) if refusal.cause.is_none() => Ok((Vec::new(), 0)),
        found => found,
    }
}

/// Stores the moments of a published version: none if it has no schedule.
pub fn note_published(
    request: &Request,
    conn: &mut Conn,
    id: SequenceId,
    trigger: Option<&Trigger>,
    sent: &Json,
) -> Result<(), Refusal> {
    let Some(Trigger::Schedule(trigger)) = trigger else {
        let sql = Sql::new("UPDATE sequences SET schedule_next = NULL WHERE id = $1").arg(id);
        conn.exec(&sql)?;
        return Ok(());
    };
    let key = sent.to_string();
    let sql = Sql::new("SELECT schedule_key, schedule_from, schedule_done FROM sequences WHERE id = $1").arg(id);
    let (former, from, done) = conn.query_one(&sql, |row| {
        let text = |at: usize| Ok::<_, StoreError>(row.opt_text(at)?.map(str::to_owned));
        Ok((text(0)?, text(1)?, row.opt_int(2)?))
    })?;
    // Intervals count from the date on which this trigger was first published.
    let from = from.filter(|_| former.as_deref() == Some(key.as_str()));
    let from = from.unwrap_or_else(|| date_of(request.now, &trigger.schedule.zone()).to_string());
    let first = from.parse().map_err(|_| StoreError::internal("the first date of a schedule cannot be read"))?;
    let next = trigger.schedule.next(first, request.now.max(done.unwrap_or(i64::MIN)));
    let sql = Sql::new("UPDATE sequences SET schedule_key = $1, schedule_from = $2, schedule_next = $3 WHERE id = $4");
    conn.exec(&sql.arg(key).arg(from).arg(next).arg(id))?;
    Ok(())
}
