//! Actions on tasks: `/api/tasks/{id}/complete/`, `approve/`, `reject/`, `cancel/`, `reopen/` (`docs/reference/tasks.md`).

use super::assignees;
use super::counts;
use super::log::{self, ActorKind};
use super::response::{self, CheckedResponse, RESPONSE, check_form, check_update};
use super::task::{self, CANCELED, COMPLETED, EXPIRED, IN_APPROVAL, OPEN, REJECTED, ShownTask};
use super::task_access::{self, LockedTask, TaskAccess};
use crate::hooks;
use crate::one_time;
use crate::schedule;
use crate::task_templates::form::TemplateForm;
use http::StatusCode;
use identity::{as_caller, is_active};
use kit::answer::Outcome;
use kit::ids::{TaskId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use records::rights::{TASKS_COMPLETE, TASKS_EDIT};
use records::single_records::{RecordAccess as HeldRecord, write_values};
use resource::{
    Checked, CheckedValue, Errors, Field, FieldKind, JsonBody, SentObject, check_value, message, openapi, time,
};
use serde_json::{Map, Value as Json, json};
use std::sync::{Arc, LazyLock};
use store::{Argument, Conn, Sql};

const COMMENT: &str = "comment";
const CONDITION: &str = "condition";

static COMMENT_FIELD: LazyLock<Field> = LazyLock::new(|| Field::new(COMMENT, FieldKind::text(4_000)).nullable());

pub fn routes() -> Vec<Route> {
    let action = |path, summary, handler, permission| {
        Route::post(path, summary, Handler::Write(handler))
            .answers(200, Schema::One(&task::TASK))
            .named_by_path()
            .instance(permission)
    };
    let decision = || Schema::Json(decision_schema);
    vec![
        action("/api/tasks/{task_id}/complete/", "Complete", complete, "tasks.complete")
            .with_body(Schema::Json(completion_schema))
            .for_narrowed(),
        action("/api/tasks/{task_id}/approve/", "Approve", approve, "tasks.edit").with_body(decision()),
        action("/api/tasks/{task_id}/reject/", "Reject", reject, "tasks.edit").with_body(decision()),
        action("/api/tasks/{task_id}/cancel/", "Cancel", cancel, "tasks.edit"),
        action("/api/tasks/{task_id}/reopen/", "Reopen", reopen, "tasks.edit"),
    ]
}

fn comment_schema() -> Json {
    json!({"type": ["string", "null"], "maxLength": 4_000})
}

fn completion_schema() -> Json {
    openapi::titled(
        "TaskCompletion",
        json!({
            "type": "object",
            "required": [RESPONSE],
            "properties": {
                RESPONSE: {"description": "Any JSON; of an update `{\"fields\": {alias: value}}`. `{\"file\": token}` in it is an upload"},
                COMMENT: comment_schema(),
            },
        }),
    )
}

fn decision_schema() -> Json {
    let condition = json!({"type": ["string", "null"], "description": "The name of one of the form's conditions"});
    openapi::titled(
        "TaskDecision",
        json!({"type": "object", "properties": {CONDITION: condition, COMMENT: comment_schema()}}),
    )
}

/// Answers 400 unless the task is in one of these states.
pub fn require_state(task: &TaskAccess, states: &[&str]) -> Result<(), Refusal> {
    match states.contains(&task.status.as_str()) {
        true => Ok(()),
        false => Err(Refusal::bad_request("Action is not available.")),
    }
}

fn comment(body: &SentObject<'_>, form: &TemplateForm, errors: &mut Errors) -> Option<String> {
    let value = body.get(COMMENT)?;
    match check_value(&COMMENT_FIELD, value) {
        Err(messages) => messages.into_iter().for_each(|message| errors.add(COMMENT, message)),
        Ok(CheckedValue::Text(text)) if text.is_empty() => {}
        Ok(CheckedValue::Text(_)) if !form.allow_comment => errors.add(COMMENT, "Comments are not allowed."),
        Ok(CheckedValue::Text(text)) => return Some(text),
        Ok(_) => {}
    }
    None
}

/// A task after an action, with what its answer shows.
pub struct ActedTask {
    task: TaskAccess,
    record: Option<HeldRecord>,
    form: TemplateForm,
}

impl ActedTask {
    /// The state of the task.
    pub fn status(self) -> String {
        self.task.status
    }

    /// The task as it is now. The caller may not be able to view it any more.
    fn answer(self, request: &Request, conn: &mut Conn) -> Outcome {
        let ActedTask { task, record, form } = self;
        let shown = ShownTask { id: task.id, actions: task.actions, template: task.template, form, record };
        task::answer(request, conn, StatusCode::OK, shown)
    }
}

fn complete(request: &Request, conn: &mut Conn) -> Outcome {
    request.caller()?.reaches(request.id())?;
    let locked = task_access::lock(request, conn, request.id())?.ok_or_else(Refusal::not_found)?;
    complete_with(request, conn, locked, request.object())?.answer(request, conn)
}

/// Completes a task with a body. Errors of the body are reported after all other refusals.
pub fn complete_with(
    request: &Request,
    conn: &mut Conn,
    locked: LockedTask,
    body: Result<SentObject<'_>, Refusal>,
) -> Result<ActedTask, Refusal> {
    let (mut task, record) = locked.authorise(request, conn)?;
    task.require(TASKS_COMPLETE)?;
    require_state(&task, &[OPEN])?;
    let form = TemplateForm::load(conn, task.form)?;
    let changed = record.as_ref().filter(|_| form.is_update());
    let (body, mut errors) = (body?, Errors::new());
    let comment = comment(&body, &form, &mut errors);
    let checked = match response::read(body.get(RESPONSE)) {
        Err(invalid) => Checked::Invalid(invalid),
        Ok(text) => check_response(request, conn, &task, &form, changed, text)?,
    };
    let accepted = match checked {
        Checked::Valid(accepted) if errors.is_empty() => accepted,
        Checked::Valid(_) => return Err(errors.into()),
        Checked::Invalid(invalid) => {
            errors.merge(invalid);
            return Err(errors.into());
        }
    };
    response::update_references(request, conn, task.id, &accepted)?;
    (task.completed_at, task.completed_by) = (Some(request.now), Some(request.caller()?.user));
    let columns = vec![("response", accepted.text.as_str().into()), (COMMENT, comment.clone().into())];
    let changes = comment.map(|comment| (COMMENT.to_owned(), json!([null, comment]))).into_iter().collect();
    let status = if form.approval_required { IN_APPROVAL } else { COMPLETED };
    change_status(request, conn, &mut task, StatusChange { status, action: "complete", changes, columns })?;
    // Last, since SQLite flushes the changed words of the record before each later statement that writes several rows.
    if !form.approval_required {
        write_record(request, conn, changed, accepted)?;
    }
    Ok(ActedTask { task, record, form })
}

/// Checks an answer: as values of the task's record, or as any JSON.
fn check_response(
    request: &Request,
    conn: &mut Conn,
    task: &TaskAccess,
    form: &TemplateForm,
    record: Option<&HeldRecord>,
    text: String,
) -> response::CheckOutcome {
    match record {
        Some(record) => check_update(request, conn, task, form, record, &JsonBody::from_checked_text(text)),
        None => check_form(request, conn, task, &text),
    }
}

fn write_record(
    request: &Request,
    conn: &mut Conn,
    record: Option<&HeldRecord>,
    accepted: CheckedResponse,
) -> Result<(), Refusal> {
    match (record, accepted.change) {
        (Some(record), Some(change)) => write_values(request, conn, record, change),
        _ => Ok(()),
    }
}

fn approve(request: &Request, conn: &mut Conn) -> Outcome {
    decide(request, conn, COMPLETED, "approve")
}

fn reject(request: &Request, conn: &mut Conn) -> Outcome {
    decide(request, conn, REJECTED, "reject")
}

/// Approves or rejects what somebody else has completed.
fn decide(request: &Request, conn: &mut Conn, status: &'static str, action: &'static str) -> Outcome {
    let (mut task, record) = task_access::for_change(request, conn, request.id())?;
    task.require(TASKS_EDIT)?;
    require_state(&task, &[IN_APPROVAL])?;
    let caller = request.caller()?.user;
    if task.completed_by == Some(caller) {
        return Err(Refusal::forbidden());
    }
    // The account may have been deactivated because its answers cannot be trusted.
    if status == COMPLETED && !is_active(conn, task.completed_by.unwrap_or(UserId::NONE))? {
        return Err(Refusal::bad_request("The account that completed the task is not active."));
    }
    let form = TemplateForm::load(conn, task.form)?;
    let (body, mut errors) = (request.object()?, Errors::new());
    let condition = condition(&body, &form, &mut errors);
    let comment = comment(&body, &form, &mut errors);
    errors.refuse()?;
    if let Some(record) = record.as_ref().filter(|_| status == COMPLETED && form.is_update()) {
        write_approved(request, conn, &task, &form, record)?;
    }
    let columns = vec![
        ("approval_at", request.now.into()),
        ("approval_by", caller.into()),
        ("approval_condition", condition.clone().into()),
        ("approval_comment", comment.clone().into()),
    ];
    let texts = [(CONDITION, condition), (COMMENT, comment)].into_iter();
    let changes = texts.filter_map(|(name, text)| Some((name.to_owned(), json!([null, text?])))).collect();
    change_status(request, conn, &mut task, StatusChange { status, action, changes, columns })?;
    ActedTask { task, record, form }.answer(request, conn)
}

/// Writes the stored answer to its record. It is checked again as if the completer wrote it. The approver is the source of
/// the event.
fn write_approved(
    request: &Request,
    conn: &mut Conn,
    task: &TaskAccess,
    form: &TemplateForm,
    record: &HeldRecord,
) -> Result<(), Refusal> {
    let sql = Sql::new("SELECT response FROM tasks WHERE id = $1").arg(task.id);
    let text = conn.query_one(&sql, |row| Ok(row.opt_text(0)?.unwrap_or("{}").to_owned()))?;
    let completer = as_caller(conn, task.completed_by.unwrap_or(request.caller()?.user))?;
    let request_of_completer = request.with_caller(Arc::new(completer));
    let checked = check_response(&request_of_completer, conn, task, form, Some(record), text)?;
    write_record(request, conn, Some(record), checked.or_refuse(Refusal::from)?)
}

/// Returns the condition of a decision. It is one of the form's conditions, or `None` if the form has none.
fn condition(body: &SentObject<'_>, form: &TemplateForm, errors: &mut Errors) -> Option<String> {
    let value = body.get(CONDITION);
    let Some(value) = value.filter(|value| !value.is_null()) else {
        if !form.approval_conditions.is_empty() {
            errors.add(CONDITION, if value.is_some() { message::NULL } else { message::REQUIRED });
        }
        return None;
    };
    let condition_name = value
        .as_str()
        .filter(|name| form.approval_conditions.iter().any(|name_of_condition| name_of_condition == name.trim()));
    if condition_name.is_none() {
        errors.add(CONDITION, message::choice(value.message_text()));
    }
    condition_name.map(|name| name.trim().to_owned())
}

fn cancel(request: &Request, conn: &mut Conn) -> Outcome {
    let (mut task, record) = task_access::for_change(request, conn, request.id())?;
    task.require(TASKS_EDIT)?;
    require_state(&task, &[OPEN, IN_APPROVAL])?;
    change_status(request, conn, &mut task, StatusChange::to(CANCELED, "cancel"))?;
    let form = TemplateForm::load(conn, task.form)?;
    ActedTask { task, record, form }.answer(request, conn)
}

/// Cancels a task that the caller's run has made. A task that has ended or is gone stays as it is.
pub fn cancel_own(request: &Request, conn: &mut Conn, id: TaskId) -> Result<(), Refusal> {
    let Some(mut task) = task_access::locked(conn, id)? else { return Ok(()) };
    if require_state(&task, &[OPEN, IN_APPROVAL]).is_err() {
        return Ok(());
    }
    change_status(request, conn, &mut task, StatusChange::to(CANCELED, "cancel"))
}

fn reopen(request: &Request, conn: &mut Conn) -> Outcome {
    let (mut task, record) = task_access::for_change(request, conn, request.id())?;
    task.require(TASKS_EDIT)?;
    let form = TemplateForm::load(conn, task.form)?;
    task.require(task_access::needed_on_record(form.is_update()))?;
    require_state(&task, &[COMPLETED, REJECTED, EXPIRED, CANCELED])?;
    (task.completed_at, task.completed_by) = (None, None);
    // The next completion sets an expiry that counts from it. A past expiry would end the task immediately.
    let expires_at = task.expires_at.filter(|at| task.plan.expires_after.is_none() && *at > request.now);
    let mut change = StatusChange::to(OPEN, "reopen");
    if expires_at != task.expires_at {
        change.changes.insert("expires_at".to_owned(), json!([task.expires_at.map(time::show), null]));
        task.expires_at = expires_at;
    }
    change_status(request, conn, &mut task, change)?;
    let assigned = assignees::load_task_principals(conn, task.id)?;
    one_time::invite(request, conn, assigned.into_iter().map(|principal| (task.id, principal)).collect())?;
    ActedTask { task, record, form }.answer(request, conn)
}

/// A change of the state of a task.
struct StatusChange {
    status: &'static str,
    /// The action in the log of the task.
    action: &'static str,
    /// The old and the new value of what else changes, for the log.
    changes: Map<String, Json>,
    /// Further columns of the task that change.
    columns: Vec<(&'static str, Argument)>,
}

impl StatusChange {
    fn to(status: &'static str, action: &'static str) -> StatusChange {
        StatusChange { status, action, changes: Map::new(), columns: Vec::new() }
    }
}

/// Sets the state of a task, and what depends on it: its scheduled changes, its links, its log.
fn change_status(
    request: &Request,
    conn: &mut Conn,
    task: &mut TaskAccess,
    change: StatusChange,
) -> Result<(), Refusal> {
    let StatusChange { status, action, mut changes, columns } = change;
    changes.insert("status".to_owned(), json!([task.status, status]));
    counts::change_status(conn, task.id, &task.status, status)?;
    task.status = status.to_owned();
    if let Some(time) = task.plan.expires_after.filter(|_| status == COMPLETED) {
        let expires_at = time.add_to(request.now);
        changes.insert("expires_at".to_owned(), json!([task.expires_at.map(time::show), time::show(expires_at)]));
        task.expires_at = Some(expires_at);
    }
    let mut sql = Sql::new("UPDATE tasks SET status = ");
    sql.bind(status).push(", expires_at = ").bind(task.expires_at);
    sql.push(", completed_at = ").bind(task.completed_at).push(", completed_by = ").bind(task.completed_by);
    sql.push(", modified_at = ").bind(request.now).push(", modified_by = ").bind(request.writer());
    for (column, value) in columns {
        sql.push(", ").push(column).push(" = ").bind(value);
    }
    conn.exec_later(sql.push(" WHERE id = ").bind(task.id))?;
    assignees::repeat(conn, task.id, status, task.due_at)?;
    schedule::reset(request, conn, task)?;
    if ![OPEN, IN_APPROVAL].contains(&status) {
        one_time::end(request, conn, &[task.id], None)?;
    }
    hooks::run_changed(request, conn, &[task.id])?;
    log::write(request, conn, task.id, ActorKind::Caller, action, changes)
}
