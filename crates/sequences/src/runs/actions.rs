//! Cancels and retries runs: `/api/sequence-runs/{uuid}/cancel/`, `retry/` and `/api/sequences/{id}/runs/cancel/`
//! (`docs/reference/sequences.md`).

use super::{RUN_DETAIL, RunAccess, shown};
use crate::engine::{self, run::Run};
use crate::sequences::access::SequenceAccess;
use http::StatusCode;
use kit::answer::{Answer, Outcome};
use kit::app::App;
use kit::build::Build;
use kit::commit;
use kit::ids::SequenceRunId;
use kit::jobs::{self, Job, JobFailure, JobFuture, JobKind, NewJob};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use resource::json::RowForm;
use resource::{message, openapi};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use store::{Conn, Sql};

/// The time after its failure for which a run can be retried.
const RETRIED_FOR_US: i64 = 30 * 86_400_000_000;
/// The runs that one transaction of the job cancels.
const AT_ONCE: i64 = 100;

pub fn routes() -> Vec<Route> {
    let action = |path, summary, handler| {
        Route::post(path, summary, Handler::Write(handler))
            .answers(200, Schema::One(&RUN_DETAIL))
            .named_by_path()
            .instance("sequences.edit")
    };
    let all = "/api/sequences/{id}/runs/cancel/";
    vec![
        action("/api/sequence-runs/{uuid}/cancel/", "Cancel", cancel),
        action("/api/sequence-runs/{uuid}/retry/", "Retry the failed step", retry),
        Route::post(all, "Cancel runs in progress", Handler::Write(cancel_many))
            .with_body(Schema::Json(filter_schema))
            .answers(202, Schema::Json(count_schema))
            .named_by_path()
            .instance("sequences.edit"),
    ]
}

fn filter_schema() -> Json {
    let properties = json!({
        "version": {"type": ["integer", "null"], "description": "Only runs of this version"},
        "status": {"type": ["string", "null"], "enum": ["queued", "running", "waiting", "held", null]},
    });
    openapi::titled("SequenceRunSelection", json!({"type": "object", "properties": properties}))
}

fn count_schema() -> Json {
    openapi::titled("CanceledSequenceRuns", openapi::object([("count", json!({"type": "integer"}))]))
}

fn not_available() -> Refusal {
    Refusal::bad_request("Action is not available.")
}

fn answer(request: &Request, conn: &mut Conn, id: SequenceRunId) -> Outcome {
    let shown = shown(request, conn, &[id.get()], RowForm::Detail)?.remove(&id.get());
    let body = shown.ok_or_else(Refusal::not_found)?;
    let tag = Some(kit::answer::etag(&body));
    Ok(Answer { tag, ..Answer::json(StatusCode::OK, body) })
}

/// Loads the run of the path and locks its row. Refuses with 403 a caller who may not edit it.
fn for_change(request: &Request, conn: &mut Conn) -> Result<RunAccess, Refusal> {
    let run = RunAccess::load(request, conn, " FOR UPDATE")?;
    if !crate::sequences::sequence::may_edit(request.caller()?) {
        return Err(Refusal::forbidden());
    }
    Ok(run)
}

fn cancel(request: &Request, conn: &mut Conn) -> Outcome {
    let run = for_change(request, conn)?;
    if !engine::cancel(request, conn, run.id)? {
        return Err(not_available());
    }
    answer(request, conn, run.id)
}

fn retry(request: &Request, conn: &mut Conn) -> Outcome {
    let run = for_change(request, conn)?;
    let is_recent = run.ended_at.is_some_and(|at| request.now - at <= RETRIED_FOR_US);
    if run.status != "failed" || !is_recent {
        return Err(not_available());
    }
    let run = Run::load(request, conn, run.id, "")?.ok_or_else(Refusal::not_found)?;
    if run.state == engine::run::RunState::default() && run.num_of_steps > 0 {
        return Err(not_available());
    }
    engine::retry(request, conn, &run)?;
    answer(request, conn, run.id)
}

fn cancel_many(request: &Request, conn: &mut Conn) -> Outcome {
    let sequence = SequenceAccess::load(request, conn)?;
    sequence.require_edit()?;
    let body = request.object()?;
    let version = match body.get("version").filter(|sent| !sent.is_null()) {
        None => None,
        Some(sent) => Some(sent.as_i64().ok_or_else(|| Refusal::field("version", message::INTEGER))?),
    };
    let status = body.get("status").filter(|sent| !sent.is_null());
    let status = status.map(|sent| (sent.message_text().to_string(), sent.as_str().map(|text| text.into_owned())));
    if let Some((sent, text)) = &status
        && !text.as_deref().is_some_and(|text| ["queued", "running", "waiting", "held"].contains(&text))
    {
        return Err(Refusal::field("status", message::choice(sent)));
    }
    let status = status.and_then(|(_, text)| text);
    let payload = json!({"sequence": sequence.id, "version": version, "status": status, "until": last_run(conn)?});
    let mut sql = Sql::new("SELECT count(*) FROM sequence_runs t WHERE ");
    let count = conn.query_one(sql.append(&selected(&payload)), |row| row.int(0))?;
    jobs::enqueue(request, conn, &NewJob { kind: &CANCEL_RUNS, payload, key: None, not_before: request.now })?;
    Ok(Answer { status: StatusCode::ACCEPTED, ..Answer::value(&json!({"count": count})) })
}

/// The id of the last run, so that the job does not cancel later ones.
fn last_run(conn: &mut Conn) -> Result<i64, Refusal> {
    Ok(conn.query_one(&Sql::new("SELECT COALESCE(max(id), 0) FROM sequence_runs"), |row| row.int(0))?)
}

/// The condition on `sequence_runs t` for the runs in progress that a payload selects.
fn selected(payload: &Json) -> Sql {
    let mut sql = Sql::new("t.ended_at IS NULL AND t.sequence = ");
    sql.bind(payload["sequence"].as_i64().unwrap_or(0)).push(" AND t.id <= ");
    sql.bind(payload["until"].as_i64().unwrap_or(0));
    if let Some(version) = payload["version"].as_i64() {
        sql.push(" AND t.version = ").bind(version);
    }
    if let Some(status) = payload["status"].as_str() {
        sql.push(" AND ").push(super::STATUS).push(" = ").bind(status);
    }
    sql
}

/// Cancels the runs in progress that its payload selects.
pub static CANCEL_RUNS: JobKind = JobKind {
    name: "cancel_sequence_runs",
    run: |app, build, job| Box::pin(run_job(app, build, job)) as JobFuture<_>,
    ..JobKind::LONG
};

async fn run_job(app: App, build: Arc<Build>, job: Job) -> Result<(), JobFailure> {
    loop {
        let request = Arc::new(Request::for_system(&app, &build));
        let payload = job.payload.clone();
        let script = move |request: &Request, conn: &mut Conn| {
            let mut sql = Sql::new("SELECT t.id FROM sequence_runs t WHERE ");
            sql.append(&selected(&payload)).push(" ORDER BY t.id LIMIT ").bind(AT_ONCE);
            let runs: Vec<SequenceRunId> = conn.query_all(&sql, |row| row.id(0))?;
            for run in &runs {
                engine::cancel(request, conn, *run)?;
            }
            Ok(runs.len() as i64)
        };
        let done = commit::write(&request, script).await;
        if done.map_err(|refusal| JobFailure::new(refusal.log_text()))? < AT_ONCE {
            return Ok(());
        }
    }
}
