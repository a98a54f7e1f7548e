//! Starts of runs. A run is a row that the transaction of its cause writes, so that neither exists without the other. A start changes no
//! row of another run.

use super::published;
use super::run::RunState;
use crate::definition::{RecordTrigger, Trigger};
use crate::sequences::sequence::{RUNNING, RUNS_IN_PROGRESS};
use crate::skipped::{SkipReason, skip};
use crate::values::Val;
use crate::values::evaluate::{Evaluator, Facts, Named};
use events::outbox::Uuid;
use kit::ids::{RecordId, SequenceId, TaskId, UserId};
use kit::limits;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::secret::Context;
use records::classes::Class;
use records::single_records::{RecordWrite, WriteKind, each_stored};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use store::{BorrowedArgument, Conn, Sql, StoreError};
use web::clock::random_token;

/// The maximum number of levels of runs that start each other.
pub const MAX_DEPTH: i64 = 10;
/// The maximum number of runs of one cause.
const MAX_OF_CAUSE: i64 = 10_000;
/// The maximum number of runs that wait for another one of their sequence and record.
const MAX_QUEUED: i64 = 100;
/// The maximum size of the inputs of all runs in progress.
const MAX_INPUT_BYTES: i64 = 1 << 30;
/// The pause before a run that waits for an earlier one is looked at again. The end of that one makes it due at once.
pub const BLOCKED_PAUSE_US: i64 = 10_000_000;
/// The size of a kept value above which it is null.
const MAX_KEPT: usize = 16 * 1024;

/// A start of a sequence.
pub struct Start {
    pub sequence: SequenceId,
    pub version: i64,
    pub trigger_type: &'static str,
    /// The write to the record; otherwise empty.
    pub event: &'static str,
    pub record: Option<RecordId>,
    pub class: Option<i64>,
    pub task: Option<TaskId>,
    pub concurrency: &'static str,
    pub event_id: Option<Uuid>,
    pub state: RunState,
    pub inputs: Named,
}

/// The outcome of a start.
pub enum Started {
    /// The uuid of the run.
    Run(String),
    Skipped(SkipReason),
}

/// The numbers of runs in progress of a build, as they were counted within the last second.
#[derive(Default)]
pub struct RunCounts(Mutex<Option<Counted>>);

struct Counted {
    at: Instant,
    limit: i64,
    runs: HashMap<SequenceId, (i64, i64)>,
}

impl RunCounts {
    /// Returns whether a build has room for one more run of a sequence with inputs of this size, and counts it.
    fn admit(request: &Request, conn: &mut Conn, sequence: SequenceId, bytes: i64) -> Result<bool, StoreError> {
        let counts = || web::lock(&request.build.slot::<RunCounts>().0);
        let is_old = counts().as_ref().is_none_or(|counted| counted.at.elapsed() > Duration::from_secs(1));
        if is_old {
            let counted = Counted::read(conn)?;
            *counts() = Some(counted);
        }
        let mut counts = counts();
        let Some(counted) = counts.as_mut() else { return Ok(true) };
        let (runs, sizes) = counted.runs.values().fold((0, 0), |(runs, sizes), (n, size)| (runs + n, sizes + size));
        let own = counted.runs.get(&sequence).copied().unwrap_or_default();
        // One sequence has at most half of both.
        let has_room = runs < counted.limit
            && sizes + bytes <= MAX_INPUT_BYTES
            && own.0 < (counted.limit / 2).max(1)
            && own.1 + bytes <= MAX_INPUT_BYTES / 2;
        if has_room {
            let own = counted.runs.entry(sequence).or_default();
            *own = (own.0 + 1, own.1 + bytes);
        }
        Ok(has_room)
    }
}

impl Counted {
    fn read(conn: &mut Conn) -> Result<Counted, StoreError> {
        let limit = limits::value(conn, &RUNS_IN_PROGRESS)?;
        let sql = Sql::new(
            "SELECT sequence, count(*), CAST(sum(input_bytes) AS BIGINT) FROM sequence_runs WHERE ended_at IS NULL GROUP BY sequence",
        );
        let runs = conn.query_all(&sql, |row| Ok((row.id(0)?, (row.int(1)?, row.int(2)?))))?;
        Ok(Counted { at: Instant::now(), limit, runs: runs.into_iter().collect() })
    }
}

/// Returns the refusal of a start beyond the limit of runs in progress.
pub fn limit_refusal(conn: &mut Conn) -> Result<Refusal, StoreError> {
    let limit = limits::value(conn, &RUNS_IN_PROGRESS)?;
    Ok(Refusal::limit(format!("Limit of {limit} runs in progress has been exceeded.")))
}

/// Starts sequences for the writes of a transaction to records of a class, and notes changes for which runs wait.
pub fn on_written(request: &Request, conn: &mut Conn, class: &Class, writes: &[RecordWrite]) -> Result<(), Refusal> {
    wake_waiting(request, conn, writes)?;
    let sql = Sql::new(
        "SELECT id, published_version, status FROM sequences WHERE object_class = $1 AND trigger_type = 'record' \
         AND published_version IS NOT NULL ORDER BY id",
    );
    let sequences: Vec<(SequenceId, i64, bool)> =
        conn.query_all(&sql.arg(class.id), |row| Ok((row.id(0)?, row.int(1)?, row.text(2)? == RUNNING)))?;
    let mut starts = Vec::new();
    for (id, version, is_running) in sequences {
        let Some(published) = published::load(&request.build, conn, id, version)? else { continue };
        let Some(Trigger::Record(trigger)) = &published.definition.trigger else { continue };
        for write in writes {
            let Some(event) = event_of(request, class, trigger, write) else { continue };
            let before = former_values(class, write, &published.former_fields);
            if !meets_condition(request, conn, trigger, write, &before)? {
                continue;
            }
            if !is_running {
                skip(request, id, SkipReason::Paused, Some(write.id));
                continue;
            }
            let deleted = match write.kind {
                WriteKind::Deleted => Some(kept_values(conn, class, write.id, &published.record_fields)?),
                _ => None,
            };
            starts.push(Start {
                sequence: id,
                version,
                trigger_type: "record",
                event,
                record: Some(write.id),
                class: Some(class.id.get()),
                task: None,
                concurrency: published.definition.concurrency(),
                event_id: write.event,
                state: RunState { before, deleted, ..RunState::default() },
                inputs: Named::new(),
            });
        }
    }
    for (start, started) in insert(request, conn, starts)? {
        if let Started::Skipped(reason) = started {
            skip(request, start.0, reason, start.1);
        }
    }
    Ok(())
}

/// Adds a row for each run that waits for one of the changed records.
fn wake_waiting(request: &Request, conn: &mut Conn, writes: &[RecordWrite]) -> Result<(), StoreError> {
    let changed: Vec<RecordId> =
        writes.iter().filter(|write| write.kind == WriteKind::Changed).map(|write| write.id).collect();
    if changed.is_empty() {
        return Ok(());
    }
    let mut sql = Sql::new("INSERT INTO sequence_wakes(run) SELECT r.id FROM sequence_runs r WHERE r.waits_record");
    if conn.exec(sql.push_any(changed))? > 0 {
        request.effects.after_commit(super::waker::wake);
    }
    Ok(())
}

/// Returns what a trigger sees in a write; `None` if it does not listen to it.
fn event_of(request: &Request, class: &Class, trigger: &RecordTrigger, write: &RecordWrite) -> Option<&'static str> {
    if !trigger.sources.contains(&source_of(request)) {
        return None;
    }
    let listens = |event: &str| trigger.on.contains(&event);
    let is_changed =
        |alias: &String| class.field(alias).is_some_and(|field| write.changed.binary_search(&field.id).is_ok());
    match write.kind {
        WriteKind::Created => listens("created").then_some("created"),
        WriteKind::Deleted => listens("deleted").then_some("deleted"),
        WriteKind::Restored => listens("restored").then_some("restored"),
        WriteKind::Changed => {
            let has_field = trigger.fields.is_empty() || trigger.fields.iter().any(is_changed);
            if listens("changed") && !write.changed.is_empty() && has_field {
                return Some("changed");
            }
            (listens("owner_changed") && write.has_other_owner).then_some("owner_changed")
        }
    }
}

/// The type of the source of a request.
pub fn source_of(request: &Request) -> &'static str {
    match (&request.run, &request.caller) {
        (Some(_), _) => "sequence",
        (None, None) => "system",
        (None, Some(caller)) if caller.agent.is_some() => "mcp",
        (None, Some(_)) => "user",
    }
}

fn former_values(class: &Class, write: &RecordWrite, named: &BTreeSet<String>) -> Named {
    let Some(before) = &write.before else { return Named::new() };
    let value = |alias: &String| Some((alias.clone(), kept(Val::of_field(class.field(alias)?, before.value(alias)?))));
    named.iter().filter_map(value).collect()
}

/// A value as it is kept: null if it is long.
pub fn kept(value: Val) -> Val {
    if value.to_json().to_string().len() > MAX_KEPT { Val::Null } else { value }
}

/// The values of a record in the fields that a version names, and its audit fields.
fn kept_values(
    conn: &mut Conn,
    class: &Class,
    record: RecordId,
    named: &BTreeSet<String>,
) -> Result<Named, StoreError> {
    let mut values = Named::new();
    each_stored(
        conn,
        class,
        vec![record],
        |field| named.contains(&field.alias),
        |stored| {
            let user = |user: Option<UserId>| user.map_or(Val::Null, |user| Val::User(user.get()));
            values.insert("owner".to_owned(), user(stored.owner));
            values.insert("created_at".to_owned(), Val::Moment(stored.created_at));
            values.insert("created_by".to_owned(), user(stored.created_by));
            values.insert("modified_at".to_owned(), Val::Moment(stored.modified_at));
            values.insert("modified_by".to_owned(), user(stored.modified_by));
            for (alias, value) in stored.values.iter() {
                if let Some(field) = class.field(alias) {
                    values.insert(alias.to_owned(), kept(Val::of_field(field, value)));
                }
            }
        },
    )?;
    Ok(values)
}

/// Returns whether a written record meets the condition of a trigger.
fn meets_condition(
    request: &Request,
    conn: &mut Conn,
    trigger: &RecordTrigger,
    write: &RecordWrite,
    before: &Named,
) -> Result<bool, Refusal> {
    let Some(condition) = &trigger.condition else { return Ok(true) };
    let (nothing, outputs) = (Named::new(), BTreeMap::new());
    let facts = Facts {
        record: Some(write.id),
        item: None,
        before,
        task: &nothing,
        deleted: None,
        inputs: &nothing,
        outputs: &outputs,
        starter: None,
        run: "",
        zone: None,
    };
    let met = Evaluator::for_system(request, facts).condition(conn, condition);
    // A write is never refused because of a condition.
    match met {
        Err(refusal) if refusal.cause.is_none() => Ok(false),
        met => met,
    }
}

/// The source of the runs of a request.
struct StartSource {
    of: &'static str,
    id: Option<i64>,
    name: Option<String>,
    starter: Option<UserId>,
}

impl StartSource {
    fn load(request: &Request, conn: &mut Conn) -> Result<StartSource, StoreError> {
        let of = source_of(request);
        if let Some(run) = &request.run {
            let (id, name) = (Some(run.sequence.get()), Some(run.name.clone()));
            return Ok(StartSource { of, id, name, starter: None });
        }
        let Some(user) = request.caller.as_ref().map(|caller| caller.user) else {
            return Ok(StartSource { of, id: None, name: None, starter: None });
        };
        let sql = Sql::new("SELECT full_name FROM users WHERE id = $1").arg(user);
        let name = conn.query_optional(&sql, |row| Ok(row.text(0)?.to_owned()))?;
        Ok(StartSource { of, id: Some(user.get()), name, starter: Some(user) })
    }
}

const COLUMNS: [&str; 26] = [
    "uuid",
    "sequence",
    "version",
    "status",
    "due_at",
    "trigger_type",
    "event",
    "record",
    "class_id",
    "task",
    "concurrency",
    "source_type",
    "source_id",
    "source_name",
    "event_id",
    "starter",
    "cause",
    "parent",
    "depth",
    "started_at",
    "row_key",
    "inputs",
    "state",
    "input_bytes",
    "num_of_steps",
    "attempts",
];

/// A start that was decided, by its sequence and its record.
pub type StartKey = (SequenceId, Option<RecordId>);

/// Inserts the runs of starts. Those that a loop, the concurrency of the sequence or a limit turns away are returned with the reason.
pub fn insert(request: &Request, conn: &mut Conn, starts: Vec<Start>) -> Result<Vec<(StartKey, Started)>, Refusal> {
    if starts.is_empty() {
        return Ok(Vec::new());
    }
    let source = StartSource::load(request, conn)?;
    let mut outcomes = Vec::with_capacity(starts.len());
    let mut rows: Vec<NewRow> = Vec::new();
    for start in starts {
        let key = (start.sequence, start.record);
        let inputs = (!start.inputs.is_empty()).then(|| serde_json::json!(start.inputs).to_string());
        let bytes = inputs.as_ref().map_or(0, String::len) as i64;
        if let Some(reason) = turned_away(request, conn, &start, bytes)? {
            outcomes.push((key, Started::Skipped(reason)));
            continue;
        }
        let is_blocked = start.concurrency == "queue" && is_blocked(conn, &start)?;
        let row = NewRow::new(request, start, inputs, is_blocked);
        outcomes.push((key, Started::Run(row.uuid.clone())));
        rows.push(row);
    }
    if !rows.is_empty() {
        let all: Vec<_> = rows.iter().map(|row| row.arguments(request, &source)).collect();
        conn.insert_rows("sequence_runs", &COLUMNS, &all, "")?;
        request.effects.after_commit(super::waker::wake);
    }
    Ok(outcomes)
}

/// The texts of a row to insert.
struct NewRow {
    uuid: String,
    start: Start,
    event_id: Option<String>,
    cause: String,
    parent: Option<String>,
    depth: i64,
    row_key: String,
    inputs: Option<String>,
    state: Option<String>,
    input_bytes: i64,
    due_at: i64,
}

impl NewRow {
    fn new(request: &Request, start: Start, inputs: Option<String>, is_blocked: bool) -> NewRow {
        let uuid = Uuid::new_v4().to_string();
        let (cause, parent, depth) = match &request.run {
            Some(run) => (run.cause.clone(), Some(run.run.clone()), run.depth + 1),
            None => (uuid.clone(), None, 0),
        };
        let row_key = random_token();
        let seal = |column: &str, text: &str| {
            let place = Context { build: &request.build.uid, table: "sequence_runs", column, row: &row_key };
            request.app.keys.seal(&place, text.as_bytes())
        };
        let input_bytes = inputs.as_ref().map_or(0, String::len) as i64;
        let state = (start.state != RunState::default()).then(|| seal("state", &start.state.to_text()));
        let inputs = inputs.map(|text| seal("inputs", &text));
        let due_at = request.now + if is_blocked { BLOCKED_PAUSE_US } else { 0 };
        let event_id = start.event_id.map(|id| id.to_string());
        NewRow { uuid, start, event_id, cause, parent, depth, row_key, inputs, state, input_bytes, due_at }
    }

    fn arguments<'a>(&'a self, request: &Request, source: &'a StartSource) -> Vec<BorrowedArgument<'a>> {
        use BorrowedArgument::{Int, Null, Text};
        let start = &self.start;
        let text = |text: &'a Option<String>| text.as_deref().map_or(Null, Text);
        vec![
            Text(&self.uuid),
            start.sequence.into(),
            Int(start.version),
            Text("queued"),
            Int(self.due_at),
            Text(start.trigger_type),
            Text(start.event),
            start.record.map_or(Null, BorrowedArgument::from),
            start.class.map_or(Null, Int),
            start.task.map_or(Null, BorrowedArgument::from),
            Text(start.concurrency),
            Text(source.of),
            source.id.map_or(Null, Int),
            text(&source.name),
            text(&self.event_id),
            source.starter.map_or(Null, BorrowedArgument::from),
            Text(&self.cause),
            text(&self.parent),
            Int(self.depth),
            Int(request.now),
            Text(&self.row_key),
            text(&self.inputs),
            text(&self.state),
            Int(self.input_bytes),
            Int(0),
            Int(0),
        ]
    }
}

/// Returns the reason for which a start does not become a run.
fn turned_away(
    request: &Request,
    conn: &mut Conn,
    start: &Start,
    bytes: i64,
) -> Result<Option<SkipReason>, StoreError> {
    if let Some(run) = &request.run {
        if run.depth + 1 > MAX_DEPTH {
            return Ok(Some(SkipReason::Depth));
        }
        let is_task = start.trigger_type == "task";
        let mut sql = Sql::new("SELECT 1 FROM sequence_runs WHERE cause = ");
        sql.bind(run.cause.as_str()).push(" AND sequence = ").bind(start.sequence);
        match is_task {
            true => drop(sql.push(" AND trigger_type = 'task' AND task = ").bind(start.task)),
            false => drop(sql.push(" AND trigger_type = 'record' AND record = ").bind(start.record)),
        }
        sql.push(" LIMIT 1");
        if (is_task || start.trigger_type == "record") && conn.query_optional(&sql, |_| Ok(()))?.is_some() {
            return Ok(Some(SkipReason::Loop));
        }
        let sql = Sql::new("SELECT count(*) FROM (SELECT 1 FROM sequence_runs WHERE cause = $1 LIMIT $2) x");
        let sql = sql.arg(run.cause.as_str()).arg(MAX_OF_CAUSE);
        if conn.query_one(&sql, |row| row.int(0))? >= MAX_OF_CAUSE {
            return Ok(Some(SkipReason::Limit));
        }
    }
    if start.concurrency == "skip" && start.record.is_none() {
        // Starts without a record are written one after the other.
        let sql = Sql::new("SELECT id FROM sequences WHERE id = $1 FOR UPDATE").arg(start.sequence);
        conn.query_optional(&sql, |_| Ok(()))?;
    }
    let is_busy = match start.concurrency {
        "skip" => in_progress(conn, start, "", 1)? > 0,
        "queue" => in_progress(conn, start, " AND status = 'queued'", MAX_QUEUED)? >= MAX_QUEUED,
        _ => false,
    };
    if is_busy {
        return Ok(Some(SkipReason::Busy));
    }
    Ok((!RunCounts::admit(request, conn, start.sequence, bytes)?).then_some(SkipReason::Limit))
}

/// Returns whether another run of the sequence and the record is in progress.
fn is_blocked(conn: &mut Conn, start: &Start) -> Result<bool, StoreError> {
    Ok(in_progress(conn, start, "", 1)? > 0)
}

/// The number of runs in progress of the sequence and the record of a start, counted up to `most`.
fn in_progress(conn: &mut Conn, start: &Start, further: &'static str, most: i64) -> Result<i64, StoreError> {
    let mut sql = Sql::new("SELECT count(*) FROM (SELECT 1 FROM sequence_runs WHERE ended_at IS NULL AND sequence = ");
    sql.bind(start.sequence);
    match start.record {
        Some(record) => drop(sql.push(" AND record = ").bind(record)),
        None => drop(sql.push(" AND record IS NULL")),
    }
    sql.push(further).push(" LIMIT ").bind(most).push(") x");
    conn.query_one(&sql, |row| row.int(0))
}
