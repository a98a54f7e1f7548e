//! The log of a task: `/api/tasks/{id}/log/` (`docs/reference/tasks.md`). An entry is written in the transaction of the change.

use super::task_access;
use kit::answer::{Answer, Outcome};
use kit::ids::{TaskId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::Route;
use kit::rows::{self, Declaration, RowShape, Scope};
use resource::{Field, FieldKind, Resource, options};
use serde_json::{Map, Value as Json};
use std::collections::HashMap;
use std::sync::LazyLock;
use store::{BorrowedArgument, Conn, Sql, StoreError};

const ACTIONS: [(&str, &str); 9] = [
    ("create", "Create"),
    ("edit", "Edit"),
    ("assign", "Assign"),
    ("complete", "Complete"),
    ("approve", "Approve"),
    ("reject", "Reject"),
    ("cancel", "Cancel"),
    ("reopen", "Reopen"),
    ("expire", "Expire"),
];
const SOURCES: [(&str, &str); 4] = [("user", "User"), ("system", "System"), ("mcp", "MCP"), ("sequence", "Sequence")];

static ENTRY: LazyLock<Resource> = LazyLock::new(|| {
    let fields = [
        Field::new("id", FieldKind::Integer { min: 1, max: i64::MAX }).read_only(),
        Field::new("at", FieldKind::DateTime).read_only(),
        Field::new("by", FieldKind::User).column("by_user").read_only().nullable(),
        Field::new("source_type", FieldKind::choices(&SOURCES)).read_only(),
        Field::new("action", FieldKind::choices(&ACTIONS)).read_only(),
        Field::new("changes", FieldKind::Object).read_only(),
    ];
    Resource::new("task_log", "TaskLogEntry", "task_log", fields).newest_first().unselectable()
});
static SHAPE: RowShape = RowShape::from_declaration(Declaration::Static(&ENTRY));

pub fn routes() -> Vec<Route> {
    let path = "/api/tasks/{task_id}/log/";
    vec![
        Route::list(path, &ENTRY, list).instance("tasks.view"),
        Route::options_below(path, document).with_read(document).instance("tasks.view"),
    ]
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let task = task_access::load_from_path(request, conn)?;
    rows::list(request, conn, &SHAPE, Scope::matching(Sql::new("t.task = $1").arg(task.id)))
}

fn document(request: &Request, conn: &mut Conn) -> Outcome {
    task_access::load_from_path(request, conn)?;
    Ok(Answer::value(&options::document(&ENTRY)))
}

/// The actor of a log entry.
#[derive(Clone, Copy, PartialEq)]
pub enum ActorKind {
    /// The caller of the request.
    Caller,
    /// The system. The change is due to the time, or follows from another action of the caller.
    System,
}

/// Writes an entry. `changes` contains the old and the new value of each field.
pub fn write(
    request: &Request,
    conn: &mut Conn,
    task: TaskId,
    source: ActorKind,
    action: &str,
    changes: Map<String, Json>,
) -> Result<(), Refusal> {
    write_many(request, conn, source, action, vec![(task, changes)])
}

/// Writes an entry of the same action for each of these tasks.
pub fn write_many(
    request: &Request,
    conn: &mut Conn,
    source: ActorKind,
    action: &str,
    entries: Vec<(TaskId, Map<String, Json>)>,
) -> Result<(), Refusal> {
    let user = request.writer().map_or(BorrowedArgument::Null, BorrowedArgument::from);
    let source = match &request.caller {
        Some(_) if source == ActorKind::Caller && request.run.is_some() => "sequence",
        Some(caller) if source == ActorKind::Caller => {
            if caller.agent.is_some() {
                "mcp"
            } else {
                "user"
            }
        }
        _ => "system",
    };
    let changes: Vec<(TaskId, String)> =
        entries.into_iter().map(|(task, changes)| (task, Json::Object(changes).to_string())).collect();
    let row = |(task, changes)| {
        [
            task,
            BorrowedArgument::Int(request.now),
            user,
            BorrowedArgument::Text(source),
            BorrowedArgument::Text(action),
            changes,
        ]
    };
    let rows: Vec<_> =
        changes.iter().map(|(task, changes)| row(((*task).into(), BorrowedArgument::Text(changes.as_str())))).collect();
    let columns = ["task", "at", "by_user", "source_type", "action", "changes"];
    Ok(conn.insert_rows("task_log", &columns, &rows, "").map(drop)?)
}

/// The time and the user of the last completion of each of these tasks.
pub fn last_completions(
    conn: &mut Conn,
    tasks: &[TaskId],
) -> Result<HashMap<TaskId, (i64, Option<UserId>)>, StoreError> {
    let mut sql = Sql::new(
        "SELECT l.task, l.at, l.by_user FROM task_log l JOIN (SELECT max(id) AS id FROM task_log WHERE action = 'complete' AND task",
    );
    sql.push_any(tasks.iter().copied()).push(" GROUP BY task) x ON x.id = l.id");
    Ok(conn.query_all(&sql, |row| Ok((row.id(0)?, (row.int(1)?, row.opt_id(2)?))))?.into_iter().collect())
}
