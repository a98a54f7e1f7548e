//! Deletes single tasks, or tasks with their records (`docs/reference/tasks.md`). Each deletion is an entry of the administration
//! log.

use super::counts;
use super::log::last_completions;
use super::per_record;
use super::task;
use super::task_access;
use crate::hooks;
use crate::one_time;
use crate::task_templates::form::remove_unused;
use files::stored_files::{EndedReferences, release};
use kit::answer::{Answer, Outcome};
use kit::ids::{RecordId, TaskId};
use kit::log;
use kit::refusal::Refusal;
use kit::request::Request;
use records::rights::TASKS_DELETE;
use resource::{Field, FieldKind, Resource, time};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;
use std::sync::LazyLock;
use store::{Conn, Sql};

/// A deleted task in the administration log.
static DELETED: LazyLock<Resource> =
    LazyLock::new(|| Resource::new("tasks", "Task", "tasks", [Field::new("name", FieldKind::text(100))]));

pub fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let (task, _) = task_access::for_change(request, conn, request.id())?;
    task.require(TASKS_DELETE)?;
    task::check_if_match(request, conn, task.id, task.actions)?;
    remove(request, conn, vec![task.id])?;
    Ok(Answer::empty())
}

/// Deletes the tasks of records that are deleted.
pub fn delete_tasks_of_records(request: &Request, conn: &mut Conn, records: &[RecordId]) -> Result<(), Refusal> {
    // A concurrent creation of a task for one of them waits for this lock. If it commits first, its task is read below.
    let mut sql = Sql::new("SELECT id FROM records WHERE id");
    sql.push_any(records.iter().copied()).push(" ORDER BY id FOR UPDATE");
    conn.for_each_row(&sql, |_| Ok(()))?;
    let mut sql = Sql::new("SELECT id FROM tasks WHERE record");
    sql.push_any(records.iter().copied()).push(" ORDER BY id FOR UPDATE");
    let tasks = conn.query_all(&sql, |row| row.id(0))?;
    tasks.chunks(1_000).try_for_each(|chunk| remove(request, conn, chunk.to_vec()))
}

/// Deletes tasks whose rows are locked, with all their data.
fn remove(request: &Request, conn: &mut Conn, tasks: Vec<TaskId>) -> Result<(), Refusal> {
    if tasks.is_empty() {
        return Ok(());
    }
    let mut sql = Sql::new("SELECT id, name, record, status, completed_at, completed_by, form FROM tasks WHERE id");
    sql.push_any(tasks.iter().copied()).push(" ORDER BY id");
    let rows = conn.query_all(&sql, |row| {
        let completion = (row.opt_int(4)?, row.opt_id(5)?);
        Ok((row.int(0)?, row.text(1)?.to_owned(), row.opt_int(2)?, row.text(3)?.to_owned(), completion, row.int(6)?))
    })?;
    let former = last_completions(conn, &tasks)?;
    let mut forms = BTreeSet::new();
    let mut entries = Vec::new();
    for (id, name, record, status, completion, form) in rows {
        let mut changes: Map<String, Json> = Map::new();
        changes.insert("object_record".to_owned(), json!([record, null]));
        changes.insert("status".to_owned(), json!([status, null]));
        let completion = match completion {
            (Some(at), completer) => Some((at, completer)),
            // The task was reopened.
            _ => former.get(&TaskId::new(id)).copied(),
        };
        if let Some((at, completer)) = completion {
            changes.insert("completed_at".to_owned(), json!([time::show(at), null]));
            changes.insert("completed_by".to_owned(), json!([completer, null]));
        }
        entries.push((id, name, changes));
        forms.insert(form);
    }
    log::write_many(request, conn, "delete", &DELETED, &entries)?;
    release(request, conn, EndedReferences::OfTasks(tasks.clone()))?;
    let mut sql = Sql::new("SELECT class_id, record_n FROM tasks WHERE class_id IS NOT NULL AND id");
    let records = conn.query_all(sql.push_any(tasks.clone()), |row| Ok((row.id(0)?, row.int(1)?)))?;
    counts::remove(conn, &tasks)?;
    one_time::end(request, conn, &tasks, None)?;
    for text in [
        "DELETE FROM task_assignees WHERE task",
        "DELETE FROM task_moments WHERE task",
        "DELETE FROM task_log WHERE task",
        "DELETE FROM tasks WHERE id",
    ] {
        let mut sql = Sql::new(text);
        conn.exec(sql.push_any(tasks.iter().copied()))?;
    }
    per_record::raise_block_versions(conn, records.into_iter())?;
    hooks::run_changed(request, conn, &tasks)?;
    Ok(remove_unused(conn, forms.into_iter().collect())?)
}
