//! Functions for other modules on single tasks: their outcome, their assignees and their cancellation.

pub use crate::hooks::{OnTasks, TaskHooks};
use crate::tasks::acting;
use crate::tasks::task::{IN_APPROVAL, OPEN};
use crate::tasks::task_access;
use kit::ids::{ClassId, PrincipalId, RecordId, TaskId, TaskTemplateId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use serde_json::Value as Json;
use std::collections::HashSet;
use store::{Conn, Sql, StoreError};

/// The state of a task, and what people have answered.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskOutcome {
    pub status: String,
    pub completed_by: Option<UserId>,
    pub response: Option<Json>,
    pub comment: Option<String>,
    pub approved_by: Option<UserId>,
    pub approval_condition: Option<String>,
    pub approval_comment: Option<String>,
}

impl TaskOutcome {
    /// Loads the outcome of a task and locks its row against changes of the state; `None` if the task is gone.
    pub fn lock(conn: &mut Conn, task: TaskId) -> Result<Option<TaskOutcome>, StoreError> {
        let sql = Sql::new(
            "SELECT status, completed_by, response, comment, approval_by, approval_condition, approval_comment FROM tasks \
             WHERE id = $1 FOR SHARE",
        );
        conn.query_optional(&sql.arg(task), |row| {
            let text = |at: usize| Ok::<_, StoreError>(row.opt_text(at)?.map(str::to_owned));
            Ok(TaskOutcome {
                status: row.text(0)?.to_owned(),
                completed_by: row.opt_id(1)?,
                response: row.opt_json(2)?,
                comment: text(3)?,
                approved_by: row.opt_id(4)?,
                approval_condition: text(5)?,
                approval_comment: text(6)?,
            })
        })
    }

    /// Returns whether nobody works on the task any more.
    pub fn has_ended(&self) -> bool {
        ![OPEN, IN_APPROVAL].contains(&self.status.as_str())
    }
}

/// A task in its present state.
#[derive(Clone, Debug)]
pub struct TaskState {
    pub id: TaskId,
    pub status: String,
    pub record: Option<RecordId>,
    pub class: Option<ClassId>,
    pub template: TaskTemplateId,
    pub completed_by: Option<UserId>,
    pub response: Option<Json>,
}

/// Loads the states of tasks, by id. Tasks that are gone are left out.
pub fn states(conn: &mut Conn, tasks: &[TaskId]) -> Result<Vec<TaskState>, StoreError> {
    let mut sql = Sql::new("SELECT id, status, record, class_id, template, completed_by, response FROM tasks WHERE id");
    sql.push_any(tasks.iter().copied()).push(" ORDER BY id");
    conn.query_all(&sql, |row| {
        Ok(TaskState {
            id: row.id(0)?,
            status: row.text(1)?.to_owned(),
            record: row.opt_id(2)?,
            class: row.opt_id(3)?,
            template: row.id(4)?,
            completed_by: row.opt_id(5)?,
            response: row.opt_json(6)?,
        })
    })
}

/// The users and groups to whom a task is assigned.
pub fn principals(conn: &mut Conn, task: TaskId) -> Result<Vec<PrincipalId>, StoreError> {
    let sql = Sql::new("SELECT principal FROM task_assignees WHERE task = $1 ORDER BY principal").arg(task);
    conn.query_all(&sql, |row| row.id(0))
}

/// Cancels a task that has not ended, without a check of rights, since the caller's run has made it.
pub fn cancel(request: &Request, conn: &mut Conn, task: TaskId) -> Result<(), Refusal> {
    acting::cancel_own(request, conn, task)
}

/// Returns those of these tasks that the caller may view.
pub fn visible(request: &Request, conn: &mut Conn, tasks: &[TaskId]) -> Result<HashSet<TaskId>, Refusal> {
    let mut visible = HashSet::new();
    for task in tasks {
        if task_access::load(request, conn, *task)?.is_some() {
            visible.insert(*task);
        }
    }
    Ok(visible)
}
