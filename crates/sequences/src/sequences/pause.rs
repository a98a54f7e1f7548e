//! Pauses and resumes sequences, and takes over their runs: `/api/sequences/{id}/pause/`, `resume/`, `take-over/`
//! (`docs/reference/sequences.md`).

use super::access::SequenceAccess;
use super::answer::answer;
use super::pausing::store_pause;
use super::publishing::{check_class_limit, lacks_rights, versions_in_use};
use super::sequence::{PAUSED, RUNNING, SEQUENCE};
use crate::definition::Definition;
use crate::engine::{published, wake};
use crate::notices;
use crate::problems::Problems;
use http::StatusCode;
use identity::{as_caller, is_active};
use kit::answer::Outcome;
use kit::log;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use resource::{message, openapi};
use serde_json::{Map, Value as Json, json};
use store::{Conn, Sql};

pub fn routes() -> Vec<Route> {
    let action = |path, summary, handler, who| {
        Route::post(path, summary, Handler::Write(handler))
            .answers(200, Schema::One(&SEQUENCE))
            .named_by_path()
            .instance(who)
    };
    vec![
        action(
            "/api/sequences/{id}/pause/",
            "Pause",
            pause,
            "sequences.edit, or ownership of the class of the trigger",
        )
        .with_body(Schema::Json(pause_schema)),
        action("/api/sequences/{id}/resume/", "Resume", resume, "its account, who paused it, and super admins"),
        action(
            "/api/sequences/{id}/take-over/",
            "Take over",
            take_over,
            "sequences.edit, and what publishing asks for",
        )
        .without_keys(),
    ]
}

fn pause_schema() -> Json {
    let runs = json!({
        "type": "string", "enum": ["hold", "finish"], "default": "hold",
        "description": "`hold`: runs in progress stop before their next step; `finish`: they continue",
    });
    openapi::titled("SequencePause", json!({"type": "object", "properties": {"runs": runs}}))
}

fn not_available() -> Refusal {
    Refusal::bad_request("Action is not available.")
}

fn pause(request: &Request, conn: &mut Conn) -> Outcome {
    let sequence = SequenceAccess::load_for_change(request, conn)?;
    sequence.require_pause()?;
    let body = request.object()?;
    let holds = match body.get("runs").filter(|sent| !sent.is_null()) {
        None => true,
        Some(sent) => match sent.as_str().as_deref() {
            Some("hold") => true,
            Some("finish") => false,
            _ => return Err(Refusal::field("runs", message::choice(sent.message_text()))),
        },
    };
    if sequence.status != RUNNING {
        return Err(not_available());
    }
    let by = request.caller()?.user;
    store_pause(conn, sequence.id, "person", holds, Some(by))?;
    write_log(request, conn, &sequence, "pause", [RUNNING, PAUSED])?;
    answer(request, conn, StatusCode::OK, sequence.id, sequence.form)
}

fn write_log(
    request: &Request,
    conn: &mut Conn,
    sequence: &SequenceAccess,
    action: &str,
    [before, after]: [&str; 2],
) -> Result<(), Refusal> {
    let changes = Map::from_iter([("status".to_owned(), json!([before, after]))]);
    log::write(request, conn, action, &SEQUENCE, sequence.id.get(), &sequence.name, changes)
}

fn resume(request: &Request, conn: &mut Conn) -> Outcome {
    let sequence = SequenceAccess::load_for_change(request, conn)?;
    let caller = request.caller()?;
    let may_resume = match sequence.paused_because.as_str() {
        "operator" => caller.is_super(),
        _ => {
            let is_account = caller.has_rights_of(sequence.runs_as);
            caller.is_super()
                || is_account
                || (sequence.paused_by.is_some() && caller.has_rights_of(sequence.paused_by))
        }
    };
    if !may_resume {
        return Err(Refusal::forbidden());
    }
    if sequence.status != PAUSED {
        return Err(not_available());
    }
    let unusable = || Refusal::bad_request("The account of the sequence cannot be used.");
    let account = sequence.runs_as.ok_or_else(unusable)?;
    if !is_active(conn, account)? {
        return Err(unusable());
    }
    let account = as_caller(conn, account)?;
    let text = published::text_of(conn, sequence.id, sequence.published_version)?.unwrap_or_default();
    let definition = read(&text);
    if lacks_rights(conn, &account, &definition)? {
        return Err(unusable());
    }
    check_class_limit(conn, sequence.id, &definition)?;
    let sql = Sql::new(
        "UPDATE sequences SET status = 'running', paused_because = '', is_holding = 0, paused_by = NULL, warning = '', \
         failures_since = $1 WHERE id = $2",
    );
    conn.exec(&sql.arg(request.now).arg(sequence.id))?;
    write_log(request, conn, &sequence, "resume", [PAUSED, RUNNING])?;
    request.effects.after_commit(wake);
    answer(request, conn, StatusCode::OK, sequence.id, sequence.form)
}

/// Reads a definition that was published.
fn read(text: &str) -> Definition {
    Definition::read(&serde_json::from_str(text).unwrap_or_default(), &mut Problems::default())
}

fn take_over(request: &Request, conn: &mut Conn) -> Outcome {
    let sequence = SequenceAccess::load_for_change(request, conn)?;
    sequence.require_edit()?;
    if sequence.published_version.is_none() {
        return Err(not_available());
    }
    let caller = request.caller()?;
    let versions = versions_in_use(conn, sequence.id)?;
    for (_, _, text) in &versions {
        if lacks_rights(conn, caller, &read(text))? {
            return Err(Refusal::forbidden());
        }
    }
    let of_others: Vec<i64> =
        versions.iter().filter(|(_, account, _)| *account != caller.user).map(|(version, _, _)| *version).collect();
    if of_others.is_empty() {
        return Err(not_available());
    }
    let mut sql = Sql::new("UPDATE sequence_versions SET runs_as = ");
    sql.bind(caller.user).push(" WHERE sequence = ").bind(sequence.id).push(" AND version").push_any(of_others);
    conn.exec(&sql)?;
    let mut sql = Sql::new("UPDATE sequences SET runs_as = ");
    sql.bind(caller.user);
    let ends_pause = sequence.status == PAUSED && ["account", "rights"].contains(&sequence.paused_because.as_str());
    if ends_pause {
        sql.push(", status = 'running', paused_because = '', is_holding = 0, paused_by = NULL, warning = ''");
    }
    conn.exec(sql.push(" WHERE id = ").bind(sequence.id))?;
    // Runs of an account that could not be used were put off.
    let sql =
        Sql::new("UPDATE sequence_runs SET due_at = $1 WHERE sequence = $2 AND status = 'queued' AND due_at > $1");
    conn.exec(&sql.arg(request.now).arg(sequence.id))?;
    let changes = Map::from_iter([("runs_as".to_owned(), json!([sequence.runs_as, caller.user]))]);
    let former = versions.iter().map(|(_, account, _)| *account).filter(|account| *account != caller.user);
    notices::taken_over(request, conn, &sequence.name, former)?;
    log::write(request, conn, "take_over", &SEQUENCE, sequence.id.get(), &sequence.name, changes)?;
    request.effects.after_commit(wake);
    answer(request, conn, StatusCode::OK, sequence.id, sequence.form)
}
