//! Starts of runs by the states of tasks.

use super::published::{self, PublishedVersion};
use super::run::RunState;
use super::starts::{self, Start, Started, kept};
use crate::definition::{TaskTrigger, Trigger};
use crate::sequences::sequence::RUNNING;
use crate::skipped::{SkipReason, skip};
use crate::values::Val;
use crate::values::evaluate::{Evaluator, Facts, Named};
use kit::ids::{SequenceId, TaskId};
use kit::refusal::Refusal;
use kit::request::Request;
use std::collections::BTreeMap;
use store::{Conn, Sql};
use tasks::single_tasks::{TaskState, states};

/// Starts sequences for tasks that were created or whose state has changed.
pub fn on_tasks(request: &Request, conn: &mut Conn, tasks: &[TaskId]) -> Result<(), Refusal> {
    let sql = Sql::new(
        "SELECT id, published_version, status FROM sequences WHERE trigger_type = 'task' AND published_version IS NOT NULL \
         ORDER BY id",
    );
    let sequences: Vec<(SequenceId, i64, bool)> =
        conn.query_all(&sql, |row| Ok((row.id(0)?, row.int(1)?, row.text(2)? == RUNNING)))?;
    if sequences.is_empty() {
        return Ok(());
    }
    let tasks = states(conn, tasks)?;
    let mut starts = Vec::new();
    for (id, version, is_running) in sequences {
        let Some(published) = published::load(&request.build, conn, id, version)? else { continue };
        let Some(Trigger::Task(trigger)) = &published.definition.trigger else { continue };
        for task in &tasks {
            if !listens(trigger, task) || !meets_condition(request, conn, trigger, task)? {
                continue;
            }
            match is_running {
                true => starts.push(start(id, version, &published, task)),
                false => skip(request, id, SkipReason::Paused, task.record),
            }
        }
    }
    for (start, started) in starts::insert(request, conn, starts)? {
        if let Started::Skipped(reason) = started {
            skip(request, start.0, reason, start.1);
        }
    }
    Ok(())
}

fn listens(trigger: &TaskTrigger, task: &TaskState) -> bool {
    trigger.status.contains(&task.status.as_str())
        && trigger.object_class == task.class.map(kit::ids::ClassId::get)
        && trigger.task_template.is_none_or(|template| template == task.template.get())
}

/// A write is never refused because of a condition.
fn meets_condition(
    request: &Request,
    conn: &mut Conn,
    trigger: &TaskTrigger,
    task: &TaskState,
) -> Result<bool, Refusal> {
    let Some(condition) = &trigger.condition else { return Ok(true) };
    let (nothing, outputs) = (Named::new(), BTreeMap::new());
    let facts = Facts {
        record: task.record,
        item: None,
        before: &nothing,
        task: &nothing,
        deleted: None,
        inputs: &nothing,
        outputs: &outputs,
        starter: None,
        run: "",
        zone: None,
    };
    match Evaluator::for_system(request, facts).condition(conn, condition) {
        Err(refusal) if refusal.cause.is_none() => Ok(false),
        met => met,
    }
}

fn start(sequence: SequenceId, version: i64, published: &PublishedVersion, task: &TaskState) -> Start {
    let values = [
        ("id", Val::Task(task.id.get())),
        ("status", Val::Text(task.status.clone())),
        ("completed_by", task.completed_by.map_or(Val::Null, |user| Val::User(user.get()))),
        ("response", task.response.clone().map_or(Val::Null, |response| kept(Val::Json(response)))),
    ];
    let task_values = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Start {
        sequence,
        version,
        trigger_type: "task",
        event: "",
        record: task.record,
        class: task.class.map(kit::ids::ClassId::get),
        task: Some(task.id),
        concurrency: published.definition.concurrency(),
        event_id: None,
        state: RunState { task: task_values, ..RunState::default() },
        inputs: Named::new(),
    }
}
