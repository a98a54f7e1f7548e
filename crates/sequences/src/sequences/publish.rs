//! Publishes drafts: `POST /api/sequences/{id}/publish/` (`docs/reference/sequences.md`). A published definition is a version, whose
//! runs have the rights of the account that published it.

use super::access::SequenceAccess;
use super::answer::answer;
use super::publishing::{check_class_limit, check_definition, draft, lacks_rights, listen, parse};
use super::sequence::{self, DRAFT, PAUSED, RUNNING, SEQUENCE, SEQUENCE_STEPS, ViewForm};
use crate::definition::{Definition, Trigger};
use crate::engine::{moments, published};
use crate::notices;
use http::{StatusCode, header};
use kit::answer::Outcome;
use kit::limits;
use kit::log;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use resource::{Errors, Field, FieldKind, check_value, openapi};
use serde_json::{Map, Value as Json, json};
use store::{Conn, Sql};

/// The size of a value above which the administration log has null.
const MAX_KEPT: usize = 16 * 1024;
/// The versions of a sequence that are stored although no run of them is.
const KEPT_VERSIONS: i64 = 100;

pub fn routes() -> Vec<Route> {
    let publish = Route::post("/api/sequences/{id}/publish/", "Publish the draft", Handler::Write(publish))
        .with_body(Schema::Json(comment_schema))
        .parameters(|| vec![if_match()])
        .answers(200, Schema::One(&SEQUENCE))
        .also_answers(412, Schema::Refusal)
        .also_answers(428, Schema::Refusal)
        .named_by_path()
        .instance("sequences.edit, and what the definition asks for")
        .without_keys();
    vec![publish]
}

fn if_match() -> Json {
    json!({
        "name": "If-Match", "in": "header", "required": true, "schema": {"type": "string"},
        "description": "The `ETag` of the draft that is published; 412 if it is another by now",
    })
}

fn comment_schema() -> Json {
    let comment =
        json!({"type": ["string", "null"], "maxLength": 255, "description": "The reason, for the list of versions"});
    openapi::titled("SequencePublication", json!({"type": "object", "properties": {"comment": comment}}))
}

fn publish(request: &Request, conn: &mut Conn) -> Outcome {
    let sequence = SequenceAccess::load_for_change(request, conn)?;
    sequence.require_edit()?;
    require_if_match(request)?;
    sequence::check_if_match(request, conn, sequence.id)?;
    let comment = read_comment(request)?;
    let text = draft(conn, sequence.id)?;
    let (definition, problems) = check_definition(request, conn, &text)?;
    if !problems.is_empty() {
        let mut errors = Errors::new();
        errors.nest("definition", problems.to_errors());
        return Err(errors.into());
    }
    let caller = request.caller()?;
    if lacks_rights(conn, caller, &definition)? {
        return Err(Refusal::forbidden());
    }
    limits::check_bound(&SEQUENCE_STEPS, limits::value(conn, &SEQUENCE_STEPS)?, definition.count_steps())?;
    check_class_limit(conn, sequence.id, &definition)?;
    let former = published::text_of(conn, sequence.id, sequence.published_version)?;
    let is_same = former.as_deref().is_some_and(|former| parse(former) == parse(&text));
    if is_same && sequence.runs_as == Some(caller.user) {
        return Err(Refusal::bad_request("Nothing has changed."));
    }
    let version = insert_version(request, conn, &sequence, &text, &comment)?;
    note_published(request, conn, &sequence, (version, &text), &definition)?;
    write_log(request, conn, &sequence, version, [former.as_deref().unwrap_or("{}"), &text])?;
    notices::taken_over(request, conn, &sequence.name, sequence.runs_as.filter(|former| *former != caller.user))?;
    request.effects.after_commit(crate::engine::wake);
    answer(request, conn, StatusCode::OK, sequence.id, ViewForm::Draft)
}

/// Refuses with 428 a request that does not name the state of the draft.
fn require_if_match(request: &Request) -> Result<(), Refusal> {
    let sent = request.headers.get(header::IF_MATCH).and_then(|sent| sent.to_str().ok()).map(str::trim);
    match sent {
        None | Some("*" | "") => Err(Refusal::detail(StatusCode::PRECONDITION_REQUIRED, "If-Match is required.")),
        Some(_) => Ok(()),
    }
}

fn read_comment(request: &Request) -> Result<String, Refusal> {
    let field = Field::new("comment", FieldKind::text(255)).nullable();
    let body = request.object()?;
    let Some(sent) = body.get("comment") else { return Ok(String::new()) };
    match check_value(&field, sent) {
        Ok(resource::CheckedValue::Text(comment)) => Ok(comment),
        Ok(_) => Ok(String::new()),
        Err(wrong) => {
            let mut errors = Errors::new();
            wrong.into_iter().for_each(|message| errors.add("comment", message));
            Err(errors.into())
        }
    }
}

fn insert_version(
    request: &Request,
    conn: &mut Conn,
    sequence: &SequenceAccess,
    text: &str,
    comment: &str,
) -> Result<i64, Refusal> {
    let sql = Sql::new("SELECT COALESCE(max(version), 0) + 1 FROM sequence_versions WHERE sequence = $1");
    let version = conn.query_one(&sql.arg(sequence.id), |row| row.int(0))?;
    let user = request.caller()?.user;
    let sql = Sql::new(
        "INSERT INTO sequence_versions(sequence, version, definition, runs_as, published_at, published_by, comment) \
         VALUES ($1, $2, $3, $4, $5, $4, $6)",
    );
    conn.exec(&sql.arg(sequence.id).arg(version).arg(text).arg(user).arg(request.now).arg(comment))?;
    let sql = Sql::new(
        "DELETE FROM sequence_versions WHERE sequence = $1 AND version <= $2 AND NOT EXISTS \
         (SELECT 1 FROM sequence_runs r WHERE r.sequence = $1 AND r.version = sequence_versions.version)",
    );
    conn.exec(&sql.arg(sequence.id).arg(version - KEPT_VERSIONS))?;
    Ok(version)
}

/// Stores which version of a sequence is published, and what follows from its trigger.
fn note_published(
    request: &Request,
    conn: &mut Conn,
    sequence: &SequenceAccess,
    (version, text): (i64, &str),
    definition: &Definition,
) -> Result<(), Refusal> {
    let stays_paused = sequence.status == PAUSED && ["person", "operator"].contains(&sequence.paused_because.as_str());
    let mut sql = Sql::new("UPDATE sequences SET published_version = ");
    sql.bind(version).push(", has_changes = 0, runs_as = ").bind(request.caller()?.user);
    sql.push(", trigger_type = ").bind(definition.trigger.as_ref().map(Trigger::type_name));
    sql.push(", object_class = ").bind(definition.trigger.as_ref().and_then(Trigger::object_class));
    let (people, agents, edit) = match &definition.trigger {
        Some(Trigger::Manual(manual)) => (manual.from_people, manual.from_agents, manual.needs_edit),
        _ => (false, false, false),
    };
    sql.push(", from_people = ").bind(i64::from(people)).push(", from_agents = ").bind(i64::from(agents));
    sql.push(", needs_edit = ").bind(i64::from(edit)).push(", warning = '', failures_since = ").bind(request.now);
    if !stays_paused {
        sql.push(", status = ").bind(RUNNING).push(", paused_because = '', is_holding = 0, paused_by = NULL");
    }
    conn.exec(sql.push(" WHERE id = ").bind(sequence.id))?;
    conn.exec(&Sql::new("DELETE FROM sequence_groups WHERE sequence = $1").arg(sequence.id))?;
    if let Some(Trigger::Manual(manual)) = &definition.trigger {
        for group in &manual.user_groups {
            let sql = Sql::new("INSERT INTO sequence_groups(sequence, group_id) VALUES ($1, $2)");
            conn.exec(&sql.arg(sequence.id).arg(*group))?;
        }
    }
    moments::note_published(request, conn, sequence.id, definition.trigger.as_ref(), &parse(text)["trigger"])?;
    debug_assert!(sequence.status != DRAFT || !stays_paused);
    listen(conn, sequence.id, version, definition)
}

/// Writes the administration log: the version, and the changed parts of the definition.
fn write_log(
    request: &Request,
    conn: &mut Conn,
    sequence: &SequenceAccess,
    version: i64,
    [before, after]: [&str; 2],
) -> Result<(), Refusal> {
    let [before, after] = [before, after].map(|text| parts_of(&parse(text)));
    let mut changes = Map::from_iter([("version".to_owned(), json!([sequence.published_version, version]))]);
    for name in before.keys().chain(after.keys()) {
        let [old, new] = [&before, &after].map(|parts| parts.get(name).cloned().unwrap_or_default());
        if old != new {
            changes.insert(name.clone(), json!([kept(old), kept(new)]));
        }
    }
    log::write(request, conn, "publish", &SEQUENCE, sequence.id.get(), &sequence.name, changes)
}

/// The parts of a definition by their names in the log: each member, and each step by its key.
fn parts_of(definition: &Json) -> Map<String, Json> {
    let mut parts = Map::new();
    for (name, value) in definition.as_object().into_iter().flatten() {
        if name == "steps" {
            steps_of(value, &mut parts);
        } else {
            parts.insert(format!("definition.{name}"), value.clone());
        }
    }
    parts
}

fn steps_of(steps: &Json, parts: &mut Map<String, Json>) {
    for step in steps.as_array().into_iter().flatten() {
        let key = step["key"].as_str().unwrap_or_default();
        let mut own = step.clone();
        for branch in own.get_mut("branches").and_then(Json::as_array_mut).into_iter().flatten() {
            if let Some(inner) = branch.get_mut("steps") {
                steps_of(&inner.take(), parts);
            }
        }
        if let Some(inner) = own.get_mut("else") {
            steps_of(&inner.take(), parts);
        }
        parts.insert(format!("definition.steps.{key}"), own);
    }
}

/// A value as it is kept: null if it is long.
fn kept(value: Json) -> Json {
    if value.to_string().len() > MAX_KEPT { Json::Null } else { value }
}
