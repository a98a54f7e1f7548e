//! Sequences: `/api/sequences/` (`docs/reference/sequences.md`).

pub mod access;
mod answer;
mod manual;
mod next_moments;
mod pause;
pub mod pausing;
mod publish;
pub mod publishing;
pub mod sequence;
mod versions;

use crate::definition::{STEP_TYPES, TRIGGER_TYPES, names_of_step};
use access::SequenceAccess;
use http::StatusCode;
use kit::answer::{Answer, Outcome};
use kit::autocomplete::{self, LabelSource};
use kit::ids::SequenceId;
use kit::jobs;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::Route;
use kit::rows::{self, Scope};
use resource::{Changes, CheckedValue, Errors, message};
use sequence::{DEFINITION, NAME, PERMISSIONS, SEQUENCE, SHAPE, ViewForm};
use serde_json::{Map, Value as Json, json};
use store::{Conn, Sql};

const COLLECTION: &str = "/api/sequences/";
const ONE: &str = "/api/sequences/{id}/";

pub fn routes() -> Vec<Route> {
    let who = "sequences.view, or ownership of the class of the trigger";
    let mut routes = vec![
        Route::list(COLLECTION, &SEQUENCE, list).instance("sequences.list, or ownership of a class"),
        Route::create(COLLECTION, &SEQUENCE, create).requires(PERMISSIONS.name, "create"),
        Route::options_below(COLLECTION, document),
        autocomplete::route("/api/sequences/autocomplete/", labels).instance("sequences.list, or ownership of a class"),
        Route::view(ONE, &SEQUENCE, view).with_read(view).instance(who),
        Route::edit(ONE, &SEQUENCE, edit).instance("sequences.edit"),
        Route::delete(ONE, delete).instance("sequences.delete"),
    ];
    let others = [publish::routes(), pause::routes(), versions::routes(), next_moments::routes(), manual::routes()];
    routes.extend(others.into_iter().flatten());
    routes
}

fn document(_: &Request, conn: &mut Conn) -> Outcome {
    let mut document = rows::document(conn, &SEQUENCE)?;
    let by_type = |types: &[(&'static str, &'static str)], names: &dyn Fn(&str) -> Vec<&'static str>| {
        let schema = |(name, text): &(&'static str, &'static str)| {
            let fields: Vec<Json> = names(name).into_iter().map(|field| schema_of(name, field)).collect();
            ((*name).to_owned(), json!({"label": text, "description": description_of(name), "fields": fields}))
        };
        Json::Object(types.iter().map(schema).collect::<Map<_, _>>())
    };
    document["details"]["schema_by_trigger_type"] = by_type(&TRIGGER_TYPES, &names_of_trigger);
    document["details"]["schema_by_step_type"] = by_type(&STEP_TYPES, &names_of_step);
    Ok(Answer::value(&document))
}

/// The names that a trigger of a type may have.
fn names_of_trigger(of: &str) -> Vec<&'static str> {
    match of {
        "record" => vec!["type", "object_class", "on", "fields", "condition", "sources"],
        "task" => crate::definition::TASK_NAMES.to_vec(),
        "schedule" => {
            vec!["type", "time_zone", "every", "interval", "at", "weekdays", "day", "starts_on", "ends_on", "for_each"]
        }
        _ => vec!["type", "object_class", "from", "right", "user_groups", "condition", "inputs"],
    }
}

/// The schema of a member of a trigger or step.
fn schema_of(of: &str, name: &str) -> Json {
    use crate::definition::{EVENTS, SOURCES};
    let is_required = matches!(
        (of, name),
        (_, "type" | "key")
            | ("record", "object_class" | "on")
            | ("task", "status")
            | ("schedule", "time_zone" | "every")
            | ("for_each", "in" | "steps")
            | ("create_record" | "find_records", "object_class")
            | ("assign" | "unassign", "permission_set" | "to")
            | ("create_task", "task_template")
            | ("generate_document", "document_template")
            | ("send_mail", "to" | "subject" | "text")
            | ("cancel_task", "task")
            | ("wait", "for")
            | ("branch", "branches")
            | ("stop", "as")
    );
    let values: Json = match (of, name) {
        ("record", "on") => json!(EVENTS),
        ("record", "sources") => json!(SOURCES),
        ("task", "status") => json!(crate::definition::TASK_STATES),
        ("schedule", "every") => json!(crate::definition::schedules::EVERY),
        ("manual", "from") => json!(["people", "agents"]),
        ("manual", "right") => json!(["edit", "view"]),
        ("stop", "as") => json!(["completed", "failed"]),
        (_, "on_error") => json!(["fail", "continue"]),
        _ => Json::Null,
    };
    let label = format!("{}{}", name[..1].to_uppercase(), name[1..].replace('_', " "));
    json!({"alias": name, "label": label, "required": is_required, "values": values})
}

fn description_of(of: &str) -> &'static str {
    match of {
        "record" => "Starts when a record of the class is written",
        "task" => "Starts when a task is created or gets another state",
        "schedule" => "Starts at moments, once or for each of many records",
        "manual" => "Is started by people or agents",
        "create_record" => "Creates a record of a class",
        "update_record" => "Changes fields or the owner of a record",
        "delete_record" => "Deletes a record",
        "assign" => "Assigns people and groups to a record by a permission set",
        "unassign" => "Ends assignments to a record by a permission set",
        "find_records" => "Finds records of a class by conditions",
        "create_task" => "Creates a task of a template",
        "cancel_task" => "Cancels an open task",
        "generate_document" => "Generates a document of the record, and waits for it",
        "send_mail" => "Sends a mail to people, or to addresses",
        "wait" => "Waits for a time, a task or a condition",
        "branch" => "Continues with the first branch whose condition is true",
        "for_each" => "Repeats steps for records",
        _ => "Ends the run",
    }
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let visible = access::visible(request.caller()?, conn)?;
    rows::list(request, conn, &SHAPE, Scope::matching(visible))
}

fn labels(request: &Request, conn: &mut Conn) -> Outcome {
    let visible = access::visible(request.caller()?, conn)?;
    let source = LabelSource { table: "sequences", text: "name", fold: "name_fold" };
    autocomplete::answer(request, conn, &source, Scope::matching(visible))
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    let sequence = SequenceAccess::load(request, conn)?;
    answer::answer(request, conn, StatusCode::OK, sequence.id, sequence.form)
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let body = request.object()?;
    let mut accepted = rows::check_body(conn, &SEQUENCE, &body, None)?;
    check_draft(&accepted.changes, &mut accepted.errors);
    accepted.errors.refuse()?;
    let id = rows::insert(request, conn, &SEQUENCE, &accepted.changes, &[])?;
    answer::answer(request, conn, StatusCode::CREATED, SequenceId::new(id), ViewForm::Draft)
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let sequence = SequenceAccess::load_for_change(request, conn)?;
    sequence.require_edit()?;
    let (id, before) = (sequence.id, load_for_change(request, conn, sequence.id)?);
    let body = request.object()?;
    let mut accepted = rows::check_body(conn, &SEQUENCE, &body, Some(id.get()))?;
    check_draft(&accepted.changes, &mut accepted.errors);
    accepted.errors.refuse()?;
    rows::update(request, conn, &SEQUENCE, id.get(), &before, &accepted.changes, &[])?;
    publishing::note_changes(conn, id)?;
    answer::answer(request, conn, StatusCode::OK, id, ViewForm::Draft)
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let sequence = SequenceAccess::load_for_change(request, conn)?;
    if !request.caller()?.has_permission(PERMISSIONS.name, "delete") {
        return Err(Refusal::forbidden());
    }
    let before = load_for_change(request, conn, sequence.id)?;
    let sql = Sql::new("SELECT 1 FROM sequence_runs WHERE sequence = $1 AND ended_at IS NULL LIMIT 1").arg(sequence.id);
    if conn.query_optional(&sql, |_| Ok(()))?.is_some() {
        return Err(Refusal::bad_request("Sequence has runs in progress and cannot be deleted."));
    }
    rows::delete(request, conn, &SEQUENCE, sequence.id.get(), &before.get(&NAME).unwrap_or_default())?;
    publishing::delete_versions(conn, sequence.id)?;
    let payload = json!(sequence.id);
    let job = jobs::NewJob { kind: &crate::runs::cleaning::LEFT_RUNS, payload, key: None, not_before: request.now };
    jobs::enqueue(request, conn, &job)?;
    Ok(Answer::empty())
}

/// Loads the stored values of a sequence and checks `If-Match`.
fn load_for_change(request: &Request, conn: &mut Conn, id: SequenceId) -> Result<Changes, Refusal> {
    let before = rows::load(conn, &SHAPE, id.get())?.ok_or_else(Refusal::not_found)?;
    sequence::check_if_match(request, conn, id)?;
    Ok(before)
}

/// Checks that a sent draft is an object of known members. Publishing checks everything else.
fn check_draft(changes: &Changes, errors: &mut Errors) {
    let Some(CheckedValue::JsonText(text)) = changes.value(DEFINITION.name()) else { return };
    let draft: Json = serde_json::from_str(text).unwrap_or_default();
    let Some(draft) = draft.as_object() else {
        errors.add(DEFINITION.name(), message::not_an_object(resource::type_name(&draft)));
        return;
    };
    let known = ["trigger", "steps", "concurrency", "hourly_limit", "notify"];
    let mut wrong = Errors::new();
    draft.keys().filter(|name| !known.contains(&name.as_str())).for_each(|name| wrong.add(name, message::NO_FIELD));
    errors.nest(DEFINITION.name(), wrong);
}
