//! Changes of tasks: PATCH, and new links for one-time accounts (`docs/reference/tasks.md`).

use super::acting::require_state;
use super::assignees::{self, AssigneeChange};
use super::log::{self, ActorKind};
use super::task::{self, DESCRIPTION, DUE_AT, EXPIRES_AT, IN_APPROVAL, NAME, OPEN, ShownTask, TASK, TaskLabels, shape};
use super::task_access::{self, TaskAccess};
use crate::one_time;
use crate::schedule;
use crate::task_templates::form::TemplateForm;
use http::StatusCode;
use kit::answer::{Answer, Outcome};
use kit::ids::{PrincipalId, TaskId};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows;
use records::rights::{TASKS_ASSIGN, TASKS_EDIT};
use resource::SentObject;
use serde_json::{Map, json};
use std::collections::BTreeSet;
use store::{Conn, Sql, StoreError};

pub fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let has_any = |names: &[&str]| {
        let has_any = |body: SentObject<'_>| names.iter().any(|name| body.contains_key(name));
        request.object().is_ok_and(has_any)
    };
    let assigns = has_any(&[task::ASSIGNEES.name(), task::GROUPS.name()]);
    let edits = !assigns || has_any(&[NAME.name(), DESCRIPTION, DUE_AT.name(), EXPIRES_AT.name()]);
    let (mut task, record) = task_access::for_change(request, conn, request.id())?;
    if assigns {
        task.require(TASKS_ASSIGN)?;
    }
    if edits {
        task.require(TASKS_EDIT)?;
    }
    let body = request.object()?;
    task::check_if_match(request, conn, task.id, task.actions)?;
    require_state(&task, &[OPEN, IN_APPROVAL])?;
    let (body, too_many) = AssigneeChange::bounded(conn, body)?;
    let mut accepted = rows::check_body(conn, &TASK, &body, Some(task.id.get()))?;
    accepted.errors.merge(too_many);
    let before = assignees::load_task_principals(conn, task.id)?;
    let assignees = AssigneeChange::extract_from(request, conn, &mut accepted.changes, &before, &mut accepted.errors)?;
    let after = assignees.apply_to(&before);
    if !after.is_subset(&before) {
        require_assign(conn, &task)?;
    }
    accepted.errors.refuse()?;
    let changes = accepted.changes;
    let stored = rows::load(conn, &shape(TaskLabels::default()), task.id.get())?;
    let stored = stored.ok_or_else(|| StoreError::internal("a locked task is missing"))?;
    rows::update(request, conn, &TASK, task.id.get(), &stored, &changes, &[])?;
    let diff = kit::log::diff_of_edit(&TASK, &stored, &changes);
    if !diff.is_empty() {
        log::write(request, conn, task.id, ActorKind::Caller, "edit", diff)?;
    }
    if changes.contains(&DUE_AT) {
        task.due_at = changes.get(&DUE_AT);
    }
    if changes.contains(&EXPIRES_AT) {
        task.expires_at = changes.get(&EXPIRES_AT);
    }
    if changes.contains(&DUE_AT) || changes.contains(&EXPIRES_AT) {
        assignees::repeat(conn, task.id, &task.status, task.due_at)?;
        schedule::reset(request, conn, &task)?;
    }
    if before != after {
        log_assignees(request, conn, task.id, [&before, &after])?;
        assignees::set(request, conn, task.id, (&task.status, task.due_at), [&before, &after])?;
    }
    // A caller who is not assigned any more may not be able to view the task.
    let actions = task_access::load(request, conn, task.id)?.map_or(0, |task| task.actions);
    let form = TemplateForm::load(conn, task.form)?;
    task::answer(
        request,
        conn,
        StatusCode::OK,
        ShownTask { id: task.id, actions, template: task.template, form, record },
    )
}

/// Answers 403 if the caller may not assign the task to others.
fn require_assign(conn: &mut Conn, task: &TaskAccess) -> Result<(), Refusal> {
    task.require(task_access::needed_on_record(TemplateForm::load(conn, task.form)?.is_update()))
}

fn log_assignees(
    request: &Request,
    conn: &mut Conn,
    task: TaskId,
    [before, after]: [&BTreeSet<PrincipalId>; 2],
) -> Result<(), Refusal> {
    let mut changes = Map::new();
    for (name, users) in [(task::ASSIGNEES.name(), true), (task::GROUPS.name(), false)] {
        let [old, new] = [before, after].map(|principals| assignees::ids(principals, users));
        if old != new {
            changes.insert(name.to_owned(), json!([old, new]));
        }
    }
    log::write(request, conn, task, ActorKind::Caller, "assign", changes)
}

/// The minimum time between two `send-link/` requests of a task, in microseconds.
const LINK_PAUSE_US: i64 = 60_000_000;

/// Sends a new link to each one-time account among the assignees. The former links end.
pub fn send_link(request: &Request, conn: &mut Conn) -> Outcome {
    let (task, _) = task_access::for_change(request, conn, request.id())?;
    task.require(TASKS_ASSIGN)?;
    require_state(&task, &[OPEN, IN_APPROVAL])?;
    let sql = Sql::new(
        "UPDATE tasks SET links_sent_at = $1 WHERE id = $2 AND (links_sent_at IS NULL OR links_sent_at NOT BETWEEN $3 AND $1)",
    );
    if conn.exec(&sql.arg(request.now).arg(task.id).arg(request.now - LINK_PAUSE_US + 1))? == 0 {
        return Err(Refusal::bad_request("A link was sent less than a minute ago."));
    }
    let assigned = assignees::load_task_principals(conn, task.id)?;
    one_time::end(request, conn, &[task.id], None)?;
    one_time::invite(request, conn, assigned.into_iter().map(|principal| (task.id, principal)).collect())?;
    Ok(Answer::empty())
}
