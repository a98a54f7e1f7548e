//! The actions of a caller on tasks (`docs/reference/tasks.md`). They come from the rights on the task's record, from the
//! creation of a task without a record, and from the assignment.

use crate::moments::Plan;
use identity::principals::push_principals;
use kit::caller::Caller;
use kit::ids::{ClassId, PrincipalId, RecordId, TaskId, TaskTemplateId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use records::rights::{
    EDIT, TASK_ACTIONS, TASKS_ASSIGN, TASKS_COMPLETE, TASKS_CREATE, TASKS_DELETE, TASKS_EDIT, TASKS_VIEW,
};
use records::single_records::{self, RecordAccess as HeldRecord, actions_on};
use std::collections::{BTreeMap, HashMap, HashSet};
use store::{Conn, Sql, StoreError};

/// Every action on a task.
pub const ALL_ACTIONS: i64 = TASKS_CREATE | TASKS_EDIT | TASKS_VIEW | TASKS_DELETE | TASKS_COMPLETE | TASKS_ASSIGN;
/// The actions of an assignee.
const OF_ASSIGNEE: i64 = TASKS_VIEW | TASKS_COMPLETE;

/// Returns the actions on its record that a caller needs to assign or reopen a task. The answer to an update task changes the
/// record.
pub fn needed_on_record(is_update: bool) -> i64 {
    if is_update { EDIT } else { 0 }
}

/// The permissions that answers show.
pub const SHOWN: [(&str, i64); 5] = TASK_ACTIONS.named(["view", "edit", "delete", "complete", "assign"]);

/// A task with the caller's actions on it.
#[derive(Clone)]
pub struct TaskAccess {
    pub id: TaskId,
    pub name: String,
    pub template: TaskTemplateId,
    /// The number of the task's form.
    pub form: i64,
    pub record: Option<RecordId>,
    pub status: String,
    pub due_at: Option<i64>,
    pub expires_at: Option<i64>,
    pub completed_at: Option<i64>,
    pub completed_by: Option<UserId>,
    pub created_by: Option<UserId>,
    pub plan: Plan,
    /// The actions on the task and on its record.
    pub actions: i64,
}

impl TaskAccess {
    pub fn allows(&self, action: i64) -> bool {
        self.actions & action == action
    }

    /// Answers 403 without an action.
    pub fn require(&self, action: i64) -> Result<(), Refusal> {
        if self.allows(action) { Ok(()) } else { Err(Refusal::forbidden()) }
    }
}

const COLUMNS: &str = "t.id, t.name, t.template, t.form, t.record, t.status, t.due_at, t.expires_at, t.completed_at, \
    t.completed_by, t.created_by, t.plan, t.class_id";

fn read(row: &store::Row<'_>) -> Result<(TaskAccess, Option<ClassId>), StoreError> {
    let access = TaskAccess {
        id: row.id(0)?,
        name: row.text(1)?.to_owned(),
        template: row.id(2)?,
        form: row.int(3)?,
        record: row.opt_id(4)?,
        status: row.text(5)?.to_owned(),
        due_at: row.opt_int(6)?,
        expires_at: row.opt_int(7)?,
        completed_at: row.opt_int(8)?,
        completed_by: row.opt_id(9)?,
        created_by: row.opt_id(10)?,
        plan: row.json(11)?,
        actions: 0,
    };
    Ok((access, row.opt_id(12)?))
}

/// Locks and returns those of these tasks that no other transaction has locked (`SKIP LOCKED`). Rights are not checked.
pub fn unlocked(conn: &mut Conn, ids: Vec<TaskId>) -> Result<BTreeMap<TaskId, TaskAccess>, StoreError> {
    let mut sql = Sql::new("SELECT ");
    sql.push(COLUMNS).push(" FROM tasks t WHERE t.id").push_any(ids).push(" ORDER BY t.id FOR UPDATE SKIP LOCKED");
    let tasks = conn.query_all(&sql, read)?;
    Ok(tasks.into_iter().map(|(task, _)| (task.id, task)).collect())
}

/// Loads a task and locks its row, without a check of rights; `None` if it is gone.
pub fn locked(conn: &mut Conn, id: TaskId) -> Result<Option<TaskAccess>, StoreError> {
    let mut sql = Sql::new("SELECT ");
    sql.push(COLUMNS).push(" FROM tasks t WHERE t.id = ").bind(id).push(" FOR UPDATE");
    Ok(conn.query_optional(&sql, read)?.map(|(task, _)| task))
}

/// Loads the task of the path. Answers 404 if the caller may not view such a task.
pub fn load_from_path(request: &Request, conn: &mut Conn) -> Result<TaskAccess, Refusal> {
    load(request, conn, request.id())?.ok_or_else(Refusal::not_found)
}

/// A task whose row is locked, and whose record is, before the caller is authorised.
pub struct LockedTask {
    task: TaskAccess,
    class: Option<ClassId>,
    record: Option<HeldRecord>,
}

/// Locks the row of the task's record, and then that of the task. The deletion of a record locks in the same order. `None` if
/// the task does not exist, or an agent may not view it.
pub fn lock(request: &Request, conn: &mut Conn, id: TaskId) -> Result<Option<LockedTask>, Refusal> {
    let mut sql = Sql::new("SELECT t.record");
    from_task(&mut sql, request.caller()?, id);
    let Some(record) = conn.query_optional(&sql, |row| row.opt_id(0))? else { return Ok(None) };
    let record = match record {
        Some(record) => single_records::load(request, conn, record, true)?,
        None => None,
    };
    let mut sql = Sql::new("SELECT ");
    sql.push(COLUMNS).push(" FROM tasks t WHERE t.id = ").bind(id).push(" FOR UPDATE");
    let locked = conn.query_optional(&sql, read)?;
    Ok(locked.map(|(task, class)| LockedTask { task, class, record }))
}

impl LockedTask {
    /// Returns the task with the actions of the caller, and its record. 404 if the caller may not view the task.
    pub fn authorise(self, request: &Request, conn: &mut Conn) -> Result<(TaskAccess, Option<HeldRecord>), Refusal> {
        let (caller, LockedTask { mut task, class, record }) = (request.caller()?, self);
        caller.reaches(task.id)?;
        let reference = TaskRef { id: task.id, record: task.record, class, created_by: task.created_by };
        let on_records = match &record {
            Some(record) => HashMap::from([(record.id, record.actions)]),
            None => load_record_actions(conn, caller, std::slice::from_ref(&reference))?,
        };
        task.actions = actions_with(conn, caller, &[reference], &on_records)?.remove(&task.id).unwrap_or(0);
        if task.allows(TASKS_VIEW) { Ok((task, record)) } else { Err(Refusal::not_found()) }
    }
}

/// Appends the FROM of a statement about a task. An agent may only view tasks of records.
fn from_task(sql: &mut Sql, caller: &Caller, id: TaskId) {
    let record = Sql::new("(SELECT t.record FROM tasks t WHERE t.id = $1)").arg(id);
    single_records::from_open(sql, caller, TASKS_VIEW, &record, ["tasks t", "t.id", ""], id);
}

/// Loads a task and its record, if there is one, for a change, and locks both. Answers 404 if the caller may not view such a
/// task.
pub fn for_change(request: &Request, conn: &mut Conn, id: TaskId) -> Result<(TaskAccess, Option<HeldRecord>), Refusal> {
    request.caller()?.reaches(id)?;
    lock(request, conn, id)?.ok_or_else(Refusal::not_found)?.authorise(request, conn)
}

/// Loads the task with this id if the caller may view it. Answers 403 if the caller's session is restricted to another task.
pub fn load(request: &Request, conn: &mut Conn, id: TaskId) -> Result<Option<TaskAccess>, Refusal> {
    request.caller()?.reaches(id)?;
    let mut sql = Sql::new("SELECT ");
    sql.push(COLUMNS);
    from_task(&mut sql, request.caller()?, id);
    let Some((mut task, class)) = conn.query_optional(&sql, read)? else { return Ok(None) };
    let task_ref = TaskRef { id, record: task.record, class, created_by: task.created_by };
    task.actions = actions(conn, request.caller()?, &[task_ref])?.remove(&id).unwrap_or(0);
    Ok(Some(task).filter(|access| access.allows(TASKS_VIEW)))
}

/// The columns of a task that decide rights on it.
pub struct TaskRef {
    pub id: TaskId,
    pub record: Option<RecordId>,
    pub class: Option<ClassId>,
    pub created_by: Option<UserId>,
}

/// The caller's actions on each of these tasks and on their records.
pub fn actions(conn: &mut Conn, caller: &Caller, tasks: &[TaskRef]) -> Result<HashMap<TaskId, i64>, StoreError> {
    let on_records = load_record_actions(conn, caller, tasks)?;
    actions_with(conn, caller, tasks, &on_records)
}

/// The actions of the caller on the records of tasks, by record. They are not loaded for super admins, who may do everything.
fn load_record_actions(
    conn: &mut Conn,
    caller: &Caller,
    tasks: &[TaskRef],
) -> Result<HashMap<RecordId, i64>, StoreError> {
    if caller.is_super() {
        return Ok(HashMap::new());
    }
    let records: Vec<(ClassId, RecordId)> = tasks.iter().filter_map(|task| task.class.zip(task.record)).collect();
    actions_on(conn, caller, &records)
}

/// The actions of the caller on each of these tasks, by task: those on its record, and those of its assignees.
fn actions_with(
    conn: &mut Conn,
    caller: &Caller,
    tasks: &[TaskRef],
    on_records: &HashMap<RecordId, i64>,
) -> Result<HashMap<TaskId, i64>, StoreError> {
    let without_assignment = |task: &TaskRef| match task.record {
        _ if caller.is_super() => ALL_ACTIONS | EDIT,
        Some(record) => on_records.get(&record).copied().unwrap_or(0),
        None if caller.has_rights_of(task.created_by) => ALL_ACTIONS,
        None => 0,
    };
    let mut actions: HashMap<TaskId, i64> = tasks.iter().map(|task| (task.id, without_assignment(task))).collect();
    let lacking = actions.iter().filter(|(_, actions)| **actions & OF_ASSIGNEE != OF_ASSIGNEE);
    let lacking = lacking.map(|(task, _)| *task).collect();
    for task in assigned(conn, caller, lacking)? {
        *actions.entry(task).or_default() |= OF_ASSIGNEE;
    }
    Ok(actions)
}

/// The principals of the caller.
pub fn principals(request: &Request, conn: &mut Conn) -> Result<Vec<PrincipalId>, Refusal> {
    let mut sql = Sql::new("SELECT x.* FROM ");
    push_principals(&mut sql, request.caller()?.user);
    Ok(conn.query_all(sql.push(" x"), |row| row.id(0))?)
}

/// Returns the tasks that are assigned to the caller, directly or through a group. Assignments grant an agent nothing.
fn assigned(conn: &mut Conn, caller: &Caller, tasks: Vec<TaskId>) -> Result<HashSet<TaskId>, StoreError> {
    if tasks.is_empty() || caller.agent.is_some() {
        return Ok(HashSet::new());
    }
    let mut sql = Sql::new("SELECT a.task FROM task_assignees a WHERE a.task");
    sql.push_any(tasks).push(" AND a.principal IN ");
    push_principals(&mut sql, caller.user);
    Ok(conn.query_all(&sql, |row| row.id(0))?.into_iter().collect())
}
