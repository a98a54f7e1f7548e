//! Creates tasks: single ones for a request, those of automatic templates for new records, and renewals.

use super::assignees::{self, AssigneeChange};
use super::counts;
use super::log::{self, ActorKind};
use super::per_record;
use super::task::{self, NAME, OBJECT_RECORD, OPEN, ShownTask, TASK, TASK_TEMPLATE};
use super::task_access::{ALL_ACTIONS, TaskAccess, needed_on_record};
use crate::hooks;
use crate::moments::{Expiry, due_at, expires_at};
use crate::one_time;
use crate::schedule;
use crate::task_templates::form::TemplateForm;
use crate::task_templates::template::{TaskTemplate, count_tasks};
use http::StatusCode;
use kit::answer::Outcome;
use kit::ids::{ClassId, PrincipalId, RecordId, TaskId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows;
use records::classes::Class;
use records::rights::{TASKS_ASSIGN, TASKS_CREATE};
use records::single_records::{CreatedRecord, for_change};
use records::tables;
use resource::{Errors, fold, message, parse_id};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeSet, HashMap};
use store::{Argument, BorrowedArgument, Conn, Sql, StoreError};

/// A record for which a task is created.
#[derive(Clone, Copy)]
pub struct TaskRecord {
    pub id: RecordId,
    pub class: ClassId,
    /// The number of the record within the class.
    pub n: i64,
}

/// A task to insert.
pub struct NewTask {
    pub record: Option<TaskRecord>,
    pub name: Option<String>,
    pub principals: BTreeSet<PrincipalId>,
    pub created_by: Option<UserId>,
}

pub fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let body = request.object()?.filter_members(|name| {
        let template_names =
            [NAME.name(), TASK_TEMPLATE.name(), OBJECT_RECORD.name(), task::ASSIGNEES.name(), task::GROUPS.name()];
        template_names.contains(&name)
    });
    let caller = request.caller()?;
    // The record's row is locked before others, and rights on the record are checked behind the lock.
    let record = match body.get(OBJECT_RECORD.name()).filter(|value| !value.is_null()).map(parse_id) {
        Some(Ok(id)) => Some((id, for_change(request, conn, id)?)),
        Some(Err(_)) => Some((RecordId::NONE, None)),
        None => None,
    };
    match &record {
        Some((_, Some(task_record))) => task_record.require(TASKS_CREATE)?,
        Some((_, None)) => {}
        None => caller.require_permission("task_templates", "view")?,
    }
    let (body, too_many) = AssigneeChange::bounded(conn, body)?;
    let mut accepted = rows::check_body(conn, &TASK, &body, None)?;
    accepted.errors.merge(too_many);
    let errors = &mut accepted.errors;
    if let Some((id, None)) = &record
        && !errors.has_field(OBJECT_RECORD.name())
    {
        errors.add(OBJECT_RECORD.name(), message::invalid_id_message(id));
    }
    let assignees = AssigneeChange::extract_from(request, conn, &mut accepted.changes, &BTreeSet::new(), errors)?;
    let template = match accepted.changes.get(&TASK_TEMPLATE) {
        Some(id) => TaskTemplate::load(conn, id)?,
        None => None,
    };
    let task_record = record.and_then(|(_, access)| access);
    if let Some(task_record) = &task_record {
        let is_update = template.as_ref().is_some_and(TaskTemplate::is_update);
        let to_assign = if assignees.names_any() { TASKS_ASSIGN } else { 0 };
        task_record.require(to_assign | needed_on_record(is_update))?;
    }
    accepted.errors.refuse()?;
    let template = template.ok_or_else(Refusal::not_found)?;
    let record_ref =
        task_record.as_ref().map(|access| TaskRecord { id: access.id, class: access.class.id, n: access.n });
    check_template_class(&template, record_ref)?;
    let new = NewTask {
        record: record_ref,
        name: accepted.changes.get(&NAME),
        principals: assignees.apply_to(&BTreeSet::new()),
        created_by: request.writer(),
    };
    let ids = make(request, conn, &template, &[new], ActorKind::Caller)?;
    let id = ids.first().copied().ok_or_else(|| StoreError::internal("no task was created"))?;
    let actions = super::task_access::load(request, conn, id)?.map_or(0, |task| task.actions & ALL_ACTIONS);
    let form = TemplateForm::load(conn, template.form)?;
    task::answer(
        request,
        conn,
        StatusCode::CREATED,
        ShownTask { id, actions, template: template.id, form, record: task_record },
    )
}

/// Refuses a template whose tasks change records, unless there is a record of its class.
fn check_template_class(template: &TaskTemplate, record: Option<TaskRecord>) -> Result<(), Refusal> {
    let errors = match (template.class, record) {
        (None, _) => return Ok(()),
        (Some(class), Some(record)) if class == record.class => return Ok(()),
        (Some(_), None) => Errors::single(OBJECT_RECORD.name(), message::REQUIRED),
        (Some(_), Some(_)) => {
            Errors::single("non_field_errors", "Record and task template must belong to the same object class.")
        }
    };
    Err(errors.into())
}

const COLUMNS: [&str; 17] = [
    "name",
    "name_fold",
    "description",
    "template",
    "form",
    "record",
    "class_id",
    "record_n",
    "status",
    "due_at",
    "expires_at",
    "audience",
    "plan",
    "created_at",
    "created_by",
    "modified_at",
    "modified_by",
];

/// Creates tasks of a template, and returns their ids in the same order. The caller has already checked the rights.
pub fn make(
    request: &Request,
    conn: &mut Conn,
    template: &TaskTemplate,
    new: &[NewTask],
    source: ActorKind,
) -> Result<Vec<TaskId>, Refusal> {
    let expires = template.expiry.and_then(|expiry| expires_at(expiry, request.now));
    make_expiring(request, conn, template, new, source, expires)
}

fn make_expiring(
    request: &Request,
    conn: &mut Conn,
    template: &TaskTemplate,
    new: &[NewTask],
    source: ActorKind,
    expires: Option<i64>,
) -> Result<Vec<TaskId>, Refusal> {
    let due = Some(due_at(template.complete_by, request.now));
    let ids = insert_tasks(request, conn, template, new, due, expires)?;
    insert_assignees(conn, &ids, new, due)?;
    counts::store_audiences(conn, new.iter().map(|new| &new.principals))?;
    let logged: Vec<_> =
        ids.iter().zip(new).map(|(id, new)| (*id, creation_log_entry(template, new, due, expires))).collect();
    log::write_many(request, conn, source, "create", logged)?;
    schedule::begin(request, conn, &ids, &template.plan, due, expires)?;
    let assigned = ids.iter().zip(new).flat_map(|(id, new)| new.principals.iter().map(|principal| (*id, *principal)));
    one_time::invite(request, conn, assigned.collect())?;
    count_tasks(conn, template.id, new.len() as i64, request.now)?;
    counts::add(conn, &ids)?;
    per_record::raise_block_versions(
        conn,
        new.iter().filter_map(|new| new.record).map(|record| (record.class, record.n)),
    )?;
    hooks::run_created(request, conn, &ids)?;
    Ok(ids)
}

/// Inserts the rows of new tasks. Returns their ids.
fn insert_tasks(
    request: &Request,
    conn: &mut Conn,
    template: &TaskTemplate,
    new: &[NewTask],
    due: Option<i64>,
    expires: Option<i64>,
) -> Result<Vec<TaskId>, Refusal> {
    let now = request.now;
    let plan = serde_json::to_string(&template.plan)
        .map_err(|error| StoreError::internal(format_args!("a plan cannot be written: {error}")))?;
    let row = |new: &NewTask| -> Vec<Argument> {
        let name = new.name.as_ref().unwrap_or(&template.name);
        vec![
            name.into(),
            fold(name).into(),
            (&template.description).into(),
            template.id.into(),
            template.form.into(),
            new.record.map(|record| record.id).into(),
            new.record.map(|record| record.class).into(),
            new.record.map(|record| record.n).into(),
            OPEN.into(),
            due.into(),
            expires.into(),
            counts::audience(&new.principals).into(),
            plan.as_str().into(),
            now.into(),
            new.created_by.into(),
            now.into(),
            new.created_by.into(),
        ]
    };
    let rows: Vec<Vec<Argument>> = new.iter().map(row).collect();
    let ids = tables::insert(conn, "tasks", &COLUMNS, &rows, "RETURNING id")?;
    Ok(ids.into_iter().map(TaskId::new).collect())
}

/// Inserts the assignees of new tasks with these ids.
fn insert_assignees(conn: &mut Conn, ids: &[TaskId], new: &[NewTask], due: Option<i64>) -> Result<(), StoreError> {
    let mut assigned: Vec<[BorrowedArgument<'_>; 6]> = Vec::new();
    for (id, new) in ids.iter().zip(new) {
        let due = due.map_or(BorrowedArgument::Null, BorrowedArgument::Int);
        let class = new.record.map_or(BorrowedArgument::Null, |record| record.class.into());
        let n = new.record.map_or(BorrowedArgument::Null, |record| BorrowedArgument::Int(record.n));
        let row =
            |principal: &PrincipalId| [(*id).into(), (*principal).into(), BorrowedArgument::Text(OPEN), due, class, n];
        assigned.extend(new.principals.iter().map(row));
    }
    conn.insert_rows("task_assignees", &assignees::COLUMNS, &assigned, "").map(drop)
}

fn creation_log_entry(
    template: &TaskTemplate,
    new: &NewTask,
    due: Option<i64>,
    expires: Option<i64>,
) -> Map<String, Json> {
    let text_of_time = |at: Option<i64>| at.map(resource::time::show);
    let values = [
        ("name", json!(new.name.as_ref().unwrap_or(&template.name))),
        ("task_template", template.id.into()),
        ("object_record", new.record.map(|record| record.id).into()),
        ("status", OPEN.into()),
        ("assignees", assignees::ids(&new.principals, true).into()),
        ("assignee_groups", assignees::ids(&new.principals, false).into()),
        ("due_at", text_of_time(due).into()),
        ("expires_at", text_of_time(expires).into()),
    ];
    let is_said = |(_, value): &(&str, Json)| !value.is_null() && value.as_array().is_none_or(|ids| !ids.is_empty());
    values.into_iter().filter(is_said).map(|(name, value)| (name.to_owned(), json!([null, value]))).collect()
}

/// Creates the tasks of a class's automatic templates for its new records, each assigned to the owner.
pub fn for_new_records(
    request: &Request,
    conn: &mut Conn,
    class: &Class,
    records: &[CreatedRecord],
) -> Result<(), Refusal> {
    if !class.makes_tasks {
        return Ok(());
    }
    for template in &TaskTemplate::automatic_of(conn, class.id)? {
        let created_by = request.writer();
        let new: Vec<NewTask> = records
            .iter()
            .map(|record| NewTask {
                record: Some(TaskRecord { id: record.id, class: class.id, n: record.n }),
                name: None,
                principals: record.owner.into_iter().map(PrincipalId::from).collect(),
                created_by,
            })
            .collect();
        make(request, conn, template, &new, ActorKind::System)?;
    }
    Ok(())
}

/// Renews a task: creates another one of its template for the same record and the same principals. An expiry by a day of a month
/// or year is the next one after the expiry of this task. Returns `None` if the template is gone, or the new task would not
/// expire later. It also returns `None` if a task of the template is still open for the record or, without one, for the same
/// principals.
pub fn renew(request: &Request, conn: &mut Conn, task: &TaskAccess) -> Result<Option<TaskId>, Refusal> {
    let mut open = Sql::new("SELECT 1 FROM tasks WHERE template = ");
    open.bind(task.template).push(" AND status IN ('open', 'in_approval') AND record");
    let place =
        Sql::new("SELECT record, class_id, record_n FROM tasks WHERE id = $1 AND record IS NOT NULL").arg(task.id);
    let record =
        conn.query_optional(&place, |row| Ok(TaskRecord { id: row.id(0)?, class: row.id(1)?, n: row.int(2)? }))?;
    let principals = assignees::load_task_principals(conn, task.id)?;
    let principals = still_there(conn, principals)?;
    match record {
        Some(record) => drop(open.push(" = ").bind(record.id)),
        None => {
            // A concurrent renewal of such a task waits for this lock. With a record, it waits for the record's lock.
            let sql = Sql::new("SELECT 1 FROM task_templates WHERE id = $1 FOR NO KEY UPDATE").arg(task.template);
            conn.query_optional(&sql, |_| Ok(()))?;
            open.push(" IS NULL AND audience = ").bind(counts::audience(&principals));
        }
    }
    let Some(template) = TaskTemplate::load(conn, task.template)? else { return Ok(None) };
    if conn.query_optional(open.push(" LIMIT 1"), |_| Ok(()))?.is_some() {
        return Ok(None);
    }
    let expires = template.expiry.and_then(|expiry| match (expiry, task.expires_at) {
        (Expiry::Monthly(_) | Expiry::Annually(..), Some(former)) => expires_at(expiry, former.max(request.now)),
        _ => expires_at(expiry, request.now),
    });
    if expires.is_some() && expires <= task.expires_at {
        return Ok(None);
    }
    let new = NewTask { record, name: Some(task.name.clone()), principals, created_by: task.created_by };
    Ok(make_expiring(request, conn, &template, &[new], ActorKind::System, expires)?.first().copied())
}

/// Removes deleted and anonymized accounts, and deleted groups.
fn still_there(conn: &mut Conn, principals: BTreeSet<PrincipalId>) -> Result<BTreeSet<PrincipalId>, StoreError> {
    let mut existing: HashMap<PrincipalId, ()> = HashMap::new();
    let mut users = Sql::new("SELECT id FROM users WHERE is_deleted = 0 AND status <> 'anonymized' AND id");
    users.push_any(assignees::ids(&principals, true));
    let mut groups = Sql::new("SELECT -id FROM user_groups WHERE id");
    groups.push_any(assignees::ids(&principals, false));
    for sql in [users, groups] {
        conn.for_each_row(&sql, |row| {
            existing.insert(row.id(0)?, ());
            Ok(())
        })?;
    }
    Ok(principals.into_iter().filter(|principal| existing.contains_key(principal)).collect())
}
