//! Steps that wait: for a time, for a task, or for a condition on the record of the run.

use super::run::Run;
use super::stepper::{Awaited, Done, Outcome, Stepper};
use crate::definition::Wait;
use crate::definition::conditions::Condition;
use crate::span::TimeSpan;
use crate::values::Val;
use crate::values::evaluate::{Evaluator, Named};
use kit::ids::TaskId;
use kit::refusal::Refusal;
use kit::request::Request;
use records::single_records;
use resource::time;
use serde_json::{Value as Json, json};
use store::{Conn, Sql};
use tasks::single_tasks::TaskOutcome;

/// Begins or continues a wait.
pub fn run(
    stepper: &Stepper<'_>,
    conn: &mut Conn,
    run: &Run,
    (for_what, at_most): (&Wait, Option<TimeSpan>),
) -> Result<Outcome, Refusal> {
    let now = stepper.request.now;
    // The end of a wait is decided when it begins.
    let until = |otherwise: i64| run.state.wait.as_ref().map_or(otherwise, |wait| wait.until);
    let bound = until(at_most.map_or(now, |span| span.moved(now, 1)));
    match for_what {
        Wait::Broken => Ok(done("done")),
        Wait::Span(span) => Ok(at(now, until(span.moved(now, 1)), json!({}))),
        Wait::Until(value) => {
            let value = Evaluator::for_account(stepper.as_account, run.facts()).value(conn, value)?;
            let moment = moment_of(&value).unwrap_or(now);
            Ok(at(now, until(moment), json!({"until": value.to_json()})))
        }
        Wait::Task(value) => {
            let value = Evaluator::for_account(stepper.as_account, run.facts()).value(conn, value)?;
            for_task(stepper, conn, run, (value, bound))
        }
        Wait::Condition(condition) => for_condition(stepper, conn, run, (condition, bound)),
    }
}

fn done(outcome: &str) -> Outcome {
    let outputs = Named::from([("outcome".to_owned(), Val::Text(outcome.to_owned()))]);
    Outcome::Done(Done { outputs, ..Done::default() })
}

fn at(now: i64, until: i64, input: Json) -> Outcome {
    if until <= now { done("done") } else { Outcome::Waits { until, awaited: Awaited::default(), input } }
}

fn moment_of(value: &Val) -> Option<i64> {
    match value {
        Val::Moment(at) => Some(*at),
        Val::Date(date) => time::parse(&format!("{date}T00:00:00Z")),
        Val::Text(text) => match time::parse_date(text) {
            Some(date) => time::parse(&format!("{date}T00:00:00Z")),
            None => time::parse(text),
        },
        _ => None,
    }
}

fn for_task(stepper: &Stepper<'_>, conn: &mut Conn, run: &Run, (value, bound): (Val, i64)) -> Result<Outcome, Refusal> {
    let (Val::Task(id) | Val::Int(id)) = value else { return Ok(done("done")) };
    let task = TaskOutcome::lock(conn, TaskId::new(id))?;
    let Some(task) = task else {
        // A task that is gone was a task that could be seen, or one that never was.
        if run.state.wait.is_none() && !run.state.tasks.contains(&id) {
            return Err(Refusal::not_found());
        }
        return Ok(done("done"));
    };
    if run.state.wait.is_none() {
        stepper.require_task(conn, run, id)?;
    }
    if !task.has_ended() {
        if bound <= stepper.request.now {
            return Ok(of_task("timed_out", &task));
        }
        return Ok(Outcome::Waits {
            until: bound,
            awaited: Awaited { task: Some(id), ..Awaited::default() },
            input: json!({"task": id}),
        });
    }
    Ok(of_task("done", &task))
}

fn of_task(outcome: &str, task: &TaskOutcome) -> Outcome {
    let text = |text: &Option<String>| text.clone().map_or(Val::Null, Val::Text);
    let user = |user: Option<kit::ids::UserId>| user.map_or(Val::Null, |user| Val::User(user.get()));
    let outputs = [
        ("outcome", Val::Text(outcome.to_owned())),
        ("status", Val::Text(task.status.clone())),
        ("completed_by", user(task.completed_by)),
        ("response", task.response.clone().map_or(Val::Null, Val::Json)),
        ("comment", text(&task.comment)),
        ("approved_by", user(task.approved_by)),
        ("approval_condition", text(&task.approval_condition)),
        ("approval_comment", text(&task.approval_comment)),
    ];
    let outputs = outputs.map(|(name, value)| (name.to_owned(), value));
    Outcome::Done(Done { outputs: Named::from(outputs), ..Done::default() })
}

fn for_condition(
    stepper: &Stepper<'_>,
    conn: &mut Conn,
    run: &Run,
    (condition, bound): (&Condition, i64),
) -> Result<Outcome, Refusal> {
    let record = run.record.ok_or_else(Refusal::not_found)?;
    // The lock of the record's row orders this step and those who change the record, so that no change is missed.
    single_records::for_change(stepper.as_account, conn, record)?.ok_or_else(Refusal::not_found)?;
    if Evaluator::for_account(stepper.as_account, run.facts()).condition(conn, condition)? {
        return Ok(done("done"));
    }
    if bound <= stepper.request.now {
        return Ok(done("timed_out"));
    }
    Ok(Outcome::Waits {
        until: bound,
        awaited: Awaited { record: Some(record), ..Awaited::default() },
        input: json!({}),
    })
}

/// Wakes the runs that wait for tasks whose state has changed.
pub fn on_tasks_changed(request: &Request, conn: &mut Conn, tasks: &[TaskId]) -> Result<(), Refusal> {
    let mut sql = Sql::new("INSERT INTO sequence_wakes(run) SELECT r.id FROM sequence_runs r WHERE r.waits_task");
    if conn.exec(sql.push_any(tasks.iter().copied()))? > 0 {
        request.effects.after_commit(super::waker::wake);
    }
    Ok(())
}
