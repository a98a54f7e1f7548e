//! Runs in the database: their rows, and the position and values that are sealed in them.

use super::stepper::Awaited;
use crate::definition::{Action, Definition, Step};
use crate::values::evaluate::{Facts, Named};
use kit::ids::{ClassId, RecordId, SequenceId, SequenceRunId, UserId};
use kit::refusal::Refusal;
use kit::request::{Request, RunWriter};
use kit::secret::Context;
use resource::message;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{Conn, Sql, StoreError};
use web::clock::random_token;

/// The maximum size of the values of a run.
const MAX_VALUES: i64 = 16 * 1024 * 1024;
/// The maximum size of an input that is stored.
const MAX_INPUT: usize = 16 * 1024;

/// The position of a run, and the outputs of its steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunState {
    /// The lists of steps in which it stands, from the outside.
    pub frames: Vec<Frame>,
    /// The outputs of steps by their keys.
    pub outputs: BTreeMap<String, Named>,
    pub before: Named,
    /// The task whose state started the run, as it was then.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub task: Named,
    /// The values of a record whose deletion started the run.
    pub deleted: Option<Named>,
    /// The tasks that it made.
    pub tasks: Vec<i64>,
    /// The run of the document that its current step generates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<i64>,
    /// The number of mails that it sent.
    pub mails: i64,
    /// Is true if one of its steps has deleted its record.
    pub has_deleted_record: bool,
    /// The wait at which it stands.
    pub wait: Option<WaitState>,
    /// The time zone of its schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// A list of steps: that of the definition, or of a branch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// The step with the branches and the place of the branch; `None`: the steps of the definition.
    pub branch: Option<(String, usize)>,
    /// The repetition whose steps it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each: Option<Repetition>,
    /// The place of the next step.
    pub at: usize,
}

/// A step that repeats its steps for records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Repetition {
    pub key: String,
    pub records: Vec<i64>,
    /// The place of the present record.
    pub at: usize,
}

/// A step that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitState {
    /// The number of the step in the run.
    pub n: i64,
    /// The time at which it ends without that for which it waits.
    pub until: i64,
}

impl RunState {
    pub fn to_text(&self) -> String {
        json!(self).to_string()
    }

    /// Returns the next step and its path. Leaves lists that are at their end.
    pub fn next_step<'d>(&mut self, definition: &'d Definition) -> Option<(&'d Step, String)> {
        if self.frames.is_empty() {
            self.frames.push(Frame::default());
        }
        loop {
            let frame = self.frames.last()?;
            let steps = list_of(definition, frame);
            if let Some(step) = steps.and_then(|steps| steps.get(frame.at)) {
                return Some((step, format!("{}{}", self.path(definition), step.key)));
            }
            if self.frames.len() == 1 {
                return None;
            }
            if !self.begin_next_record(definition) {
                self.frames.pop();
            }
        }
    }

    /// Begins the steps of a repetition again, with the next record. Returns `false` if there is none.
    fn begin_next_record(&mut self, definition: &Definition) -> bool {
        let Some(frame) = self.frames.last_mut() else { return false };
        let Some(each) = frame.each.as_mut().filter(|each| each.at + 1 < each.records.len()) else { return false };
        each.at += 1;
        frame.at = 0;
        let key = each.key.clone();
        if let Some(Action::ForEach { steps, .. }) = find_step(definition, &key).map(|step| &step.action) {
            // The outputs of the steps for the former record are no longer known.
            crate::definition::for_each_step(steps, &mut |step| drop(self.outputs.remove(&step.key)));
        }
        true
    }

    /// The record for which the innermost repetition is.
    pub fn item(&self) -> Option<RecordId> {
        let each = self.frames.iter().rev().find_map(|frame| frame.each.as_ref())?;
        each.records.get(each.at).map(|id| RecordId::new(*id))
    }

    /// The path of the lists in which it stands, such as `decide/1/`.
    fn path(&self, definition: &Definition) -> String {
        let mut path = String::new();
        for frame in &self.frames {
            if let Some(each) = &frame.each {
                path.push_str(&format!("{}[{}]/", each.key, each.at));
            }
            let Some((key, branch)) = &frame.branch else { continue };
            let is_else = find_step(definition, key).is_some_and(
                |step| matches!(&step.action, Action::Branch { branches, .. } if *branch >= branches.len()),
            );
            let name = if is_else { "else".to_owned() } else { branch.to_string() };
            path.push_str(&format!("{key}/{name}/"));
        }
        path
    }

    /// Moves behind the current step.
    pub fn advance(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.at += 1;
        }
    }

    /// Enters a branch of a step.
    pub fn enter(&mut self, key: &str, branch: usize) {
        self.frames.push(Frame { branch: Some((key.to_owned(), branch)), ..Frame::default() });
    }

    /// Repeats the steps of a step for records.
    pub fn repeat(&mut self, key: &str, records: Vec<i64>) {
        if !records.is_empty() {
            let each = Repetition { key: key.to_owned(), records, at: 0 };
            self.frames.push(Frame { each: Some(each), ..Frame::default() });
        }
    }
}

/// Returns the step with this key.
pub fn find_step<'d>(definition: &'d Definition, key: &str) -> Option<&'d Step> {
    let mut found = None;
    definition.for_each_step(&mut |step| {
        if step.key == key {
            found = Some(step);
        }
    });
    found
}

fn list_of<'d>(definition: &'d Definition, frame: &Frame) -> Option<&'d [Step]> {
    if let Some(each) = &frame.each {
        return match &find_step(definition, &each.key)?.action {
            Action::ForEach { steps, .. } => Some(steps),
            _ => None,
        };
    }
    let Some((key, branch)) = &frame.branch else { return Some(&definition.steps) };
    match &find_step(definition, key)?.action {
        Action::Branch { branches, otherwise } => {
            Some(branches.get(*branch).map_or(otherwise.as_slice(), |(_, steps)| steps.as_slice()))
        }
        _ => None,
    }
}

/// A run whose row is locked.
pub struct Run {
    pub id: SequenceRunId,
    pub uuid: String,
    pub sequence: SequenceId,
    pub version: i64,
    pub status: String,
    pub due_at: Option<i64>,
    pub event: String,
    pub record: Option<RecordId>,
    pub class: Option<ClassId>,
    pub concurrency: String,
    pub starter: Option<UserId>,
    pub cause: String,
    pub depth: i64,
    pub started_at: i64,
    pub num_of_steps: i64,
    pub attempts: i64,
    pub trying_since: Option<i64>,
    pub value_bytes: i64,
    row_key: String,
    pub state: RunState,
    pub inputs: Named,
}

const COLUMNS: &str = "SELECT uuid, sequence, version, status, due_at, event, record, concurrency, starter, cause, depth, \
    started_at, num_of_steps, attempts, trying_since, value_bytes, row_key, state, inputs, class_id FROM sequence_runs WHERE id = ";

impl Run {
    /// Loads a run in progress and locks its row; `None` if it has ended or another transaction has locked it.
    pub fn lock(request: &Request, conn: &mut Conn, id: SequenceRunId) -> Result<Option<Run>, Refusal> {
        Run::load(request, conn, id, " AND ended_at IS NULL FOR UPDATE SKIP LOCKED")
    }

    /// Loads a run. `further` is the end of the statement.
    pub fn load(
        request: &Request,
        conn: &mut Conn,
        id: SequenceRunId,
        further: &'static str,
    ) -> Result<Option<Run>, Refusal> {
        let mut sql = Sql::new(COLUMNS);
        sql.bind(id).push(further);
        let loaded = conn.query_optional(&sql, |row| {
            let text = |at: usize| Ok::<_, StoreError>(row.opt_text(at)?.map(str::to_owned));
            let run = Run {
                id,
                uuid: row.text(0)?.to_owned(),
                sequence: row.id(1)?,
                version: row.int(2)?,
                status: row.text(3)?.to_owned(),
                due_at: row.opt_int(4)?,
                event: row.text(5)?.to_owned(),
                record: row.opt_id(6)?,
                concurrency: row.text(7)?.to_owned(),
                starter: row.opt_id(8)?,
                cause: row.text(9)?.to_owned(),
                depth: row.int(10)?,
                started_at: row.int(11)?,
                num_of_steps: row.int(12)?,
                attempts: row.int(13)?,
                trying_since: row.opt_int(14)?,
                value_bytes: row.int(15)?,
                row_key: row.text(16)?.to_owned(),
                state: RunState::default(),
                inputs: Named::new(),
                class: row.opt_id(19)?,
            };
            Ok((run, text(17)?, text(18)?))
        })?;
        let Some((mut run, state, inputs)) = loaded else { return Ok(None) };
        let open = |column: &str, sealed: &str| open(request, "sequence_runs", column, &run.row_key, sealed);
        if let Some(state) = state {
            run.state = parse(&open("state", &state)?)?;
        }
        if let Some(inputs) = inputs {
            run.inputs = parse(&open("inputs", &inputs)?)?;
        }
        Ok(Some(run))
    }

    /// The facts about it, besides the records that it reads.
    pub fn facts(&self) -> Facts<'_> {
        Facts {
            record: self.record,
            item: self.state.item(),
            before: &self.state.before,
            task: &self.state.task,
            deleted: self.state.deleted.as_ref(),
            inputs: &self.inputs,
            outputs: &self.state.outputs,
            starter: self.starter,
            run: &self.uuid,
            zone: self.state.zone.as_deref(),
        }
    }

    /// The run as the writer of what its steps change.
    pub fn writer(&self, name: &str) -> Arc<RunWriter> {
        let (sequence, name) = (self.sequence, name.to_owned());
        Arc::new(RunWriter { sequence, name, run: self.uuid.clone(), cause: self.cause.clone(), depth: self.depth })
    }

    /// Seals a value for a column of the run's row.
    pub fn seal(&self, request: &Request, column: &str, text: &str) -> String {
        seal(request, "sequence_runs", column, &self.row_key, text)
    }
}

pub fn seal(request: &Request, table: &str, column: &str, row: &str, text: &str) -> String {
    let place = Context { build: &request.build.uid, table, column, row };
    request.app.keys.seal(&place, text.as_bytes())
}

/// Opens a sealed value.
pub fn open(request: &Request, table: &str, column: &str, row: &str, sealed: &str) -> Result<String, StoreError> {
    let place = Context { build: &request.build.uid, table, column, row };
    let opened = request.app.keys.open(&place, sealed).and_then(|plain| String::from_utf8(plain).ok());
    opened.ok_or_else(|| StoreError::internal(format_args!("{table}.{column} could not be unsealed")))
}

fn parse<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text)
        .map_err(|error| StoreError::internal(format_args!("the state of a run cannot be read: {error}")))
}

/// A step that was done, left out, that waits or failed.
pub struct StepRow<'a> {
    pub path: &'a str,
    pub of: &'a str,
    pub status: &'static str,
    pub account: UserId,
    pub input: Json,
    pub output: Option<Json>,
    pub record: Option<i64>,
    pub task: Option<i64>,
    pub error: Option<(Option<i64>, Json)>,
}

/// Writes the row of a step. The step of a wait that ends already has one.
pub fn write_step(request: &Request, conn: &mut Conn, run: &mut Run, step: StepRow<'_>) -> Result<(), Refusal> {
    if let Some(wait) = run.state.wait.take() {
        return update_step(request, conn, run, wait.n, &step);
    }
    run.num_of_steps += 1;
    let row_key = random_token();
    let mut input = step.input.to_string();
    if input.len() > MAX_INPUT || run.value_bytes + input.len() as i64 > MAX_VALUES {
        input = json!({"left_out": input.len()}).to_string();
    }
    let output = step.output.as_ref().map(Json::to_string);
    let bytes = (input.len() + output.as_ref().map_or(0, String::len)) as i64;
    if output.is_some() && run.value_bytes + bytes > MAX_VALUES {
        return Err(Refusal::bad_request(message::TOO_LARGE));
    }
    run.value_bytes += bytes;
    let sealed = |column: &str, text: &str| seal(request, "sequence_steps", column, &row_key, text);
    let error = step.error.as_ref();
    let mut sql = Sql::new(
        "INSERT INTO sequence_steps(run, n, path, type, status, started_at, ended_at, attempts, runs_as, record, task, \
         error_status, row_key, input, output, error_body) VALUES (",
    );
    let ended_at = (step.status != "waiting").then_some(request.now);
    sql.bind(run.id).push(", ").bind(run.num_of_steps).push(", ").bind(step.path).push(", ").bind(step.of);
    sql.push(", ").bind(step.status).push(", ").bind(run.trying_since.unwrap_or(request.now)).push(", ").bind(ended_at);
    sql.push(", ").bind(run.attempts + 1).push(", ").bind(step.account).push(", ").bind(step.record);
    sql.push(", ").bind(step.task).push(", ").bind(error.and_then(|(status, _)| *status)).push(", ").bind(&row_key);
    sql.push(", ").bind(sealed("input", &input)).push(", ").bind(output.map(|text| sealed("output", &text)));
    sql.push(", ").bind(error.map(|(_, body)| sealed("error_body", &body.to_string()))).push(")");
    conn.exec(&sql)?;
    Ok(())
}

fn update_step(request: &Request, conn: &mut Conn, run: &mut Run, n: i64, step: &StepRow<'_>) -> Result<(), Refusal> {
    let sql = Sql::new("SELECT row_key FROM sequence_steps WHERE run = $1 AND n = $2").arg(run.id).arg(n);
    let Some(row_key) = conn.query_optional(&sql, |row| Ok(row.text(0)?.to_owned()))? else { return Ok(()) };
    let sealed = |column: &str, text: &str| seal(request, "sequence_steps", column, &row_key, text);
    let output = step.output.as_ref().map(Json::to_string);
    run.value_bytes += output.as_ref().map_or(0, String::len) as i64;
    if run.value_bytes > MAX_VALUES {
        return Err(Refusal::bad_request(message::TOO_LARGE));
    }
    let error = step.error.as_ref();
    let mut sql = Sql::new("UPDATE sequence_steps SET status = ");
    sql.bind(step.status).push(", ended_at = ").bind(request.now).push(", runs_as = ").bind(step.account);
    sql.push(", output = ").bind(output.map(|text| sealed("output", &text)));
    sql.push(", error_status = ").bind(error.and_then(|(status, _)| *status));
    sql.push(", error_body = ").bind(error.map(|(_, body)| sealed("error_body", &body.to_string())));
    sql.push(" WHERE run = ").bind(run.id).push(" AND n = ").bind(n);
    conn.exec(&sql)?;
    Ok(())
}

/// The next state of a run in progress.
pub struct Continuation {
    pub status: &'static str,
    pub due_at: i64,
    pub step: Option<String>,
    pub awaited: Awaited,
}

/// Stores where a run stands now.
pub fn store(request: &Request, conn: &mut Conn, run: &Run, next: &Continuation) -> Result<(), Refusal> {
    let mut sql = Sql::new("UPDATE sequence_runs SET status = ");
    sql.bind(next.status).push(", due_at = ").bind(next.due_at).push(", step = ").bind(next.step.clone());
    sql.push(", begun_at = COALESCE(begun_at, ").bind(request.now).push("), waits_task = ").bind(next.awaited.task);
    sql.push(", waits_document = ").bind(next.awaited.document);
    sql.push(", waits_record = ")
        .bind(next.awaited.record)
        .push(", attempts = 0, trying_since = NULL, num_of_steps = ");
    sql.bind(run.num_of_steps).push(", value_bytes = ").bind(run.value_bytes).push(", state = ");
    sql.bind(run.seal(request, "state", &run.state.to_text())).push(" WHERE id = ").bind(run.id);
    conn.exec(&sql)?;
    Ok(())
}

/// The end of a run.
pub struct End {
    pub status: &'static str,
    /// The failed step, the status of the API's refusal, and its body.
    pub error: Option<(Option<String>, Option<i64>, Json)>,
}

/// Ends a run. The run that waits for it becomes due. A failed run retains its position, so that it can be retried.
pub fn end(request: &Request, conn: &mut Conn, run: &Run, account: Option<UserId>, end: &End) -> Result<(), Refusal> {
    let error = end.error.as_ref();
    let mut sql = Sql::new("UPDATE sequence_runs SET status = ");
    sql.bind(end.status)
        .push(", ended_at = ")
        .bind(request.now)
        .push(", due_at = NULL, waits_task = NULL, waits_document = NULL");
    sql.push(", waits_record = NULL, begun_at = COALESCE(begun_at, ").bind(request.now).push("), runs_as = ");
    sql.bind(account).push(", num_of_steps = ").bind(run.num_of_steps).push(", step = NULL, value_bytes = ");
    sql.bind(run.value_bytes).push(", error_step = ").bind(error.and_then(|(step, _, _)| step.clone()));
    sql.push(", error_status = ").bind(error.and_then(|(_, status, _)| *status)).push(", error_body = ");
    sql.bind(error.map(|(_, _, body)| run.seal(request, "error_body", &body.to_string()))).push(", state = ");
    sql.bind((end.status == "failed").then(|| run.seal(request, "state", &run.state.to_text())));
    conn.exec(sql.push(" WHERE id = ").bind(run.id))?;
    conn.exec(&Sql::new("DELETE FROM sequence_wakes WHERE run = $1").arg(run.id))?;
    release_next(request, conn, run)
}

/// Makes the next queued run of the sequence and the record due.
pub fn release_next(request: &Request, conn: &mut Conn, run: &Run) -> Result<(), Refusal> {
    if run.concurrency != "queue" {
        return Ok(());
    }
    let mut sql = Sql::new("UPDATE sequence_runs SET due_at = ");
    sql.bind(request.now)
        .push(" WHERE id = (SELECT min(r.id) FROM sequence_runs r WHERE r.ended_at IS NULL AND r.sequence = ");
    sql.bind(run.sequence);
    match run.record {
        Some(record) => drop(sql.push(" AND r.record = ").bind(record)),
        None => drop(sql.push(" AND r.record IS NULL")),
    }
    conn.exec(sql.push(" AND r.status = 'queued')"))?;
    request.effects.after_commit(super::waker::wake);
    Ok(())
}
