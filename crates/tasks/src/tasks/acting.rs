//! Actions on tasks: `/api/tasks/{id}/complete/`, `approve/`, `reject/`, `cancel/`, `reopen/` (`docs/reference/tasks.md`).

use super::assignees;
use super::counts;
use super::held::{self, TaskAccess};
use super::log::{self, ActorKind};
use super::response::{self, CheckedResponse, RESPONSE, check_form, check_update};
use super::task::{self, CANCELED, COMPLETED, EXPIRED, IN_APPROVAL, OPEN, REJECTED};
use crate::one_time;
use crate::schedule;
use crate::task_templates::form::TemplateForm;
use http::StatusCode;
use identity::{as_caller, is_active};
use kit::answer::Outcome;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use records::rights::{EDIT, TASKS_COMPLETE, TASKS_EDIT};
use records::single_records::{RecordAccess as HeldRecord, write_values};
use resource::{CheckedValue, Errors, Field, FieldKind, SentObject, check_value, message, openapi, time};
use serde_json::{Map, Value as Json, json};
use std::sync::{Arc, LazyLock};
use store::{Conn, Sql};

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
    let sent = body.get(COMMENT)?;
    match check_value(&COMMENT_FIELD, sent) {
        Err(messages) => messages.into_iter().for_each(|message| errors.add(COMMENT, message)),
        Ok(CheckedValue::Text(text)) if text.is_empty() => {}
        Ok(CheckedValue::Text(_)) if !form.allow_comment => errors.add(COMMENT, "Comments are not allowed."),
        Ok(CheckedValue::Text(text)) => return Some(text),
        Ok(_) => {}
    }
    None
}

fn complete(request: &Request, conn: &mut Conn) -> Outcome {
    let task = complete_with(request, conn, request.id(), request.object())?;
    answer(request, conn, &task)
}

/// Completes a task with a body. Errors of the body are reported last.
pub fn complete_with(
    request: &Request,
    conn: &mut Conn,
    id: i64,
    body: Result<SentObject<'_>, Refusal>,
) -> Result<TaskAccess, Refusal> {
    let (mut task, record) = held::for_change(request, conn, id)?;
    task.require(TASKS_COMPLETE)?;
    require_state(&task, &[OPEN])?;
    let form = TemplateForm::load(conn, task.form)?;
    let record = record.filter(|_| form.is_update());
    let (body, mut errors) = (body?, Errors::new());
    let comment = comment(&body, &form, &mut errors);
    let checked = match response::read(body.get(RESPONSE)) {
        Err(wrong) => Err(wrong),
        Ok(text) => check_response(request, conn, &task, &form, record.as_ref(), &text)?,
    };
    let accepted = checked.map_err(|wrong| errors.merge(wrong)).ok().filter(|_| errors.is_empty());
    let Some(accepted) = accepted else { return Err(errors.into()) };
    response::update_references(request, conn, task.id, &accepted)?;
    let sql = Sql::new("UPDATE tasks SET response = $1, comment = $2 WHERE id = $3");
    conn.exec(&sql.arg(accepted.text.as_str()).arg(comment.clone()).arg(task.id))?;
    (task.completed_at, task.completed_by) = (Some(request.now), Some(request.caller()?.user));
    let mut changes = Map::new();
    if let Some(comment) = comment {
        changes.insert(COMMENT.to_owned(), json!([null, comment]));
    }
    if form.approval_required {
        change_status(request, conn, &mut task, IN_APPROVAL, "complete", changes)?;
    } else {
        write_record(request, conn, record.as_ref(), accepted)?;
        change_status(request, conn, &mut task, COMPLETED, "complete", changes)?;
    }
    Ok(task)
}

/// Checks an answer: as values of the task's record, or as any JSON.
fn check_response(
    request: &Request,
    conn: &mut Conn,
    task: &TaskAccess,
    form: &TemplateForm,
    record: Option<&HeldRecord>,
    text: &str,
) -> response::CheckOutcome {
    match record {
        Some(record) => check_update(request, conn, task, form, record, text),
        None => check_form(request, conn, task, text),
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

/// Approves or rejects a task that another user has completed.
fn decide(request: &Request, conn: &mut Conn, status: &'static str, action: &str) -> Outcome {
    let (mut task, record) = held::for_change(request, conn, request.id())?;
    task.require(TASKS_EDIT)?;
    require_state(&task, &[IN_APPROVAL])?;
    let caller = request.caller()?.user;
    if task.completed_by == Some(caller) {
        return Err(Refusal::forbidden());
    }
    // The account may have been deactivated because its answers cannot be trusted.
    if status == COMPLETED && !is_active(conn, task.completed_by.unwrap_or(0))? {
        return Err(Refusal::bad_request("The account that completed the task is not active."));
    }
    let form = TemplateForm::load(conn, task.form)?;
    let record = record.filter(|_| form.is_update());
    let (body, mut errors) = (request.object()?, Errors::new());
    let condition = condition(&body, &form, &mut errors);
    let comment = comment(&body, &form, &mut errors);
    errors.refuse()?;
    if status == COMPLETED && record.is_some() {
        // The values are checked again as a write of the completer. The source of the event is the approver.
        let sql = Sql::new("SELECT response FROM tasks WHERE id = $1").arg(task.id);
        let text = conn.query_one(&sql, |row| Ok(row.opt_text(0)?.unwrap_or("{}").to_owned()))?;
        let completer = as_caller(conn, task.completed_by.unwrap_or(caller))?;
        let of_completer = request.with_caller(Arc::new(completer));
        let accepted = check_response(&of_completer, conn, &task, &form, record.as_ref(), &text)??;
        write_record(request, conn, record.as_ref(), accepted)?;
    }
    let sql = Sql::new(
        "UPDATE tasks SET approval_at = $1, approval_by = $2, approval_condition = $3, approval_comment = $4 WHERE id = $5",
    );
    let sql = sql.arg(request.now).arg(caller).arg(condition.clone()).arg(comment.clone());
    conn.exec(&sql.arg(task.id))?;
    let said = [(CONDITION, condition), (COMMENT, comment)].into_iter();
    let changes = said.filter_map(|(name, text)| Some((name.to_owned(), json!([null, text?])))).collect();
    change_status(request, conn, &mut task, status, action, changes)?;
    answer(request, conn, &task)
}

/// Returns the condition of a decision. It is one of the form's conditions, or `None` if the form has none.
fn condition(body: &SentObject<'_>, form: &TemplateForm, errors: &mut Errors) -> Option<String> {
    let sent = body.get(CONDITION);
    let Some(sent) = sent.filter(|sent| !sent.is_null()) else {
        if !form.approval_conditions.is_empty() {
            errors.add(CONDITION, if sent.is_some() { message::NULL } else { message::REQUIRED });
        }
        return None;
    };
    let known = sent.as_str().filter(|name| form.approval_conditions.iter().any(|known| known == name.trim()));
    if known.is_none() {
        errors.add(CONDITION, message::choice(sent.message_text()));
    }
    known.map(|name| name.trim().to_owned())
}

fn cancel(request: &Request, conn: &mut Conn) -> Outcome {
    let (mut task, _) = held::for_change(request, conn, request.id())?;
    task.require(TASKS_EDIT)?;
    require_state(&task, &[OPEN, IN_APPROVAL])?;
    change_status(request, conn, &mut task, CANCELED, "cancel", Map::new())?;
    answer(request, conn, &task)
}

fn reopen(request: &Request, conn: &mut Conn) -> Outcome {
    let (mut task, _) = held::for_change(request, conn, request.id())?;
    task.require(TASKS_EDIT)?;
    let changes_record = TemplateForm::load(conn, task.form)?.is_update();
    if changes_record && !task.allows(EDIT) {
        return Err(Refusal::forbidden());
    }
    require_state(&task, &[COMPLETED, REJECTED, EXPIRED, CANCELED])?;
    (task.completed_at, task.completed_by) = (None, None);
    // The next completion sets an expiry that counts from it. A past expiry would end the task immediately.
    let expires_at = task.expires_at.filter(|at| task.plan.expires_after.is_none() && *at > request.now);
    let mut changes = Map::new();
    if expires_at != task.expires_at {
        changes.insert("expires_at".to_owned(), json!([task.expires_at.map(time::show), null]));
        task.expires_at = expires_at;
    }
    change_status(request, conn, &mut task, OPEN, "reopen", changes)?;
    let assigned = assignees::load_task_principals(conn, task.id)?;
    one_time::invite(request, conn, assigned.into_iter().map(|principal| (task.id, principal)).collect())?;
    answer(request, conn, &task)
}

/// Sets the state of a task, and changes its moments, its links and its log accordingly.
fn change_status(
    request: &Request,
    conn: &mut Conn,
    task: &mut TaskAccess,
    status: &'static str,
    action: &str,
    mut changes: Map<String, Json>,
) -> Result<(), Refusal> {
    changes.insert("status".to_owned(), json!([task.status, status]));
    task.status = status.to_owned();
    if let Some(time) = task.plan.expires_after.filter(|_| status == COMPLETED) {
        let expires_at = time.add_to(request.now);
        changes.insert("expires_at".to_owned(), json!([task.expires_at.map(time::show), time::show(expires_at)]));
        task.expires_at = Some(expires_at);
    }
    counts::remove(conn, &[task.id])?;
    let sql = Sql::new(
        "UPDATE tasks SET status = $1, expires_at = $2, completed_at = $3, completed_by = $4, modified_at = $5, \
         modified_by = $6 WHERE id = $7",
    );
    let sql = sql.arg(status).arg(task.expires_at).arg(task.completed_at).arg(task.completed_by);
    conn.exec(&sql.arg(request.now).arg(request.caller()?.user).arg(task.id))?;
    assignees::repeat(conn, task.id, status, task.due_at)?;
    counts::add(conn, &[task.id])?;
    schedule::reset(request, conn, task)?;
    if ![OPEN, IN_APPROVAL].contains(&status) {
        one_time::end(request, conn, &[task.id], None)?;
    }
    log::write(request, conn, task.id, ActorKind::Caller, action, changes)
}

/// Answers the current state of the task. After the action the caller may not be able to view it any more.
fn answer(request: &Request, conn: &mut Conn, task: &TaskAccess) -> Outcome {
    task::answer(request, conn, StatusCode::OK, task.id, task.actions)
}
