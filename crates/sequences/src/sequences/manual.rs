//! Starts of runs by people and agents: `/api/sequences/{id}/start/` and `/api/object-records/{id}/sequences/`
//! (`docs/reference/sequences.md`).

use super::access::SequenceAccess;
use super::sequence::{PERMISSIONS, RUNNING};
use crate::definition::check::{field_of_input, input_errors};
use crate::definition::{Input, ManualTrigger, Trigger};
use crate::engine::published::{self, PublishedVersion};
use crate::engine::run::RunState;
use crate::engine::starts::{self, Start, Started};
use crate::skipped::SkipReason;
use crate::values::Val;
use crate::values::evaluate::{Evaluator, Facts, Named};
use http::StatusCode;
use identity::visibility::visible_users;
use kit::answer::{Answer, Outcome};
use kit::caller::Caller;
use kit::ids::{ClassId, RecordId, SequenceId};
use kit::listed::{JsonItems, ListCounts};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use kit::rows;
use records::rights::{EDIT, VIEW, owns_class};
use records::single_records::{RecordAccess, load_from_path, load_record_access};
use resource::{Errors, Field, FieldKind, Resource, message, openapi, options, parse_id};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use store::{Conn, Sql};

/// The maximum size of the inputs of a start.
const MAX_INPUTS: usize = 64 * 1024;

/// A sequence that the caller may start for a record.
static STARTABLE: LazyLock<Resource> = LazyLock::new(|| {
    let list = || json!({"type": "array", "items": {"type": "object"}, "description": "As the trigger declares them"});
    let fields = [
        Field::id(),
        Field::new("name", FieldKind::text(100)),
        Field::new("description", FieldKind::text(500)),
        Field::new("inputs", FieldKind::List).schema(list),
    ];
    Resource::new("startable_sequences", "StartableSequence", "sequences", fields.map(Field::read_only))
        .unselectable()
        .unlogged()
});

pub fn routes() -> Vec<Route> {
    let of_record = "/api/object-records/{record_id}/sequences/";
    vec![
        Route::post("/api/sequences/{id}/start/", "Start a run", Handler::Write(start))
            .with_body(Schema::Json(start_schema))
            .answers(201, Schema::Json(started_schema))
            .also_answers(409, Schema::Refusal)
            .named_by_path()
            .instance("what the trigger asks for"),
        Route::list(of_record, &STARTABLE, list_startable)
            .summary("The sequences that the caller may start for a record")
            .instance("object_records.view"),
        Route::options_below(of_record, document).with_read(document),
    ]
}

fn start_schema() -> Json {
    let body = json!({
        "type": "object",
        "properties": {
            "object_record": {"type": ["integer", "null"], "description": "The record, if the trigger has a class"},
            "inputs": {"type": "object", "description": "Values by the names of the trigger's inputs"},
        },
    });
    openapi::titled("SequenceStart", body)
}

fn started_schema() -> Json {
    let members = [
        ("uuid", json!({"type": "string", "format": "uuid"})),
        ("sequence", json!({"type": "integer"})),
        ("version", json!({"type": "integer"})),
        ("status", json!({"type": "string"})),
        ("object_record", json!({"type": ["integer", "null"]})),
    ];
    openapi::titled("StartedSequenceRun", openapi::object(members))
}

fn document(request: &Request, conn: &mut Conn) -> Outcome {
    load_from_path(request, conn)?;
    Ok(Answer::value(&options::document(&STARTABLE)))
}

/// The conditions under which a caller may start a sequence.
struct StartRight {
    /// Is true if the trigger lets the caller's kind start: people or agents.
    is_for_kind: bool,
    /// Is true if the caller is in the groups of the trigger.
    is_in_group: bool,
}

impl StartRight {
    fn load(conn: &mut Conn, caller: &Caller, sequence: SequenceId) -> Result<StartRight, Refusal> {
        let mut sql = Sql::new("SELECT s.from_people, s.from_agents, CASE WHEN ");
        sql.append(&has_group(caller)).push(" THEN 1 ELSE 0 END FROM sequences s WHERE s.id = ").bind(sequence);
        let (people, agents, is_member) = conn.query_one(&sql, |row| Ok((row.flag(0)?, row.flag(1)?, row.flag(2)?)))?;
        let is_for_kind = if caller.agent.is_some() { agents } else { people };
        Ok(StartRight { is_for_kind, is_in_group: is_member || caller.is_super() })
    }
}

/// The condition on `sequences s` for those that have no groups, or one of the caller.
fn has_group(caller: &Caller) -> Sql {
    let mut sql = Sql::new(
        "(NOT EXISTS (SELECT 1 FROM sequence_groups g WHERE g.sequence = s.id) OR EXISTS (SELECT 1 FROM sequence_groups g \
         JOIN user_group_members m ON m.group_id = g.group_id WHERE g.sequence = s.id AND m.user_id = ",
    );
    sql.bind(caller.user).push("))");
    sql
}

/// The facts about a run that has not started.
fn facts<'a>(record: Option<RecordId>, nothing: &'a Named, outputs: &'a BTreeMap<String, Named>) -> Facts<'a> {
    Facts {
        record,
        item: None,
        before: nothing,
        task: nothing,
        deleted: None,
        inputs: nothing,
        outputs,
        starter: None,
        run: "",
        zone: None,
    }
}

/// A start that a body asks for.
struct AskedStart {
    sequence: SequenceAccess,
    published: Arc<PublishedVersion>,
    version: i64,
    record: Option<RecordAccess>,
}

fn start(request: &Request, conn: &mut Conn) -> Outcome {
    let asked = authorise(request, conn)?;
    let AskedStart { sequence, published, version, record } = asked;
    let Some(Trigger::Manual(manual)) = &published.definition.trigger else {
        return Err(Refusal::bad_request("Action is not available."));
    };
    let inputs = read_inputs(request, conn, manual)?;
    if sequence.status != RUNNING {
        return Err(Refusal::bad_request("Sequence is not running."));
    }
    let record_id = record.as_ref().map(|held| held.id);
    if !meets_condition(request, conn, manual, record_id)? {
        return Err(Refusal::bad_request("The record does not meet the condition of the sequence."));
    }
    let start = Start {
        sequence: sequence.id,
        version,
        trigger_type: "manual",
        event: "",
        record: record_id,
        class: record.as_ref().map(|held| held.class.id.get()),
        task: None,
        concurrency: published.definition.concurrency(),
        event_id: None,
        state: RunState::default(),
        inputs,
    };
    match starts::insert(request, conn, vec![start])?.pop() {
        Some((_, Started::Run(uuid))) => {
            let body = json!({
                "uuid": uuid, "sequence": sequence.id, "version": version, "status": "queued", "object_record": record_id,
            });
            Ok(Answer::json(StatusCode::CREATED, body.to_string()))
        }
        Some((_, Started::Skipped(SkipReason::Limit))) => Err(starts::limit_refusal(conn)?),
        _ => Err(Refusal::detail(StatusCode::CONFLICT, "Sequence is busy.")),
    }
}

/// Checks that the caller may start the sequence of the path for the record of the body. The order of the refusals is that of the
/// reference.
fn authorise(request: &Request, conn: &mut Conn) -> Result<AskedStart, Refusal> {
    let caller = request.caller()?;
    let sequence = SequenceAccess::load_any(conn, request.id(), "")?.ok_or_else(Refusal::not_found)?;
    let may_view = caller.agent.is_none()
        && (caller.has_permission(PERMISSIONS.name, "view")
            || match sequence.object_class {
                Some(class) => owns_class(conn, caller.ownership(), class)?,
                None => false,
            });
    let hidden = |refusal: Refusal| if may_view { refusal } else { Refusal::not_found() };
    let right = StartRight::load(conn, caller, sequence.id)?;
    let version = sequence.published_version.filter(|_| right.is_for_kind);
    let version = version.ok_or_else(|| hidden(Refusal::bad_request("Action is not available.")))?;
    let published = published::load(&request.build, conn, sequence.id, version)?.ok_or_else(Refusal::not_found)?;
    let Some(Trigger::Manual(manual)) = &published.definition.trigger else {
        return Err(hidden(Refusal::bad_request("Action is not available.")));
    };
    let record = match manual.object_class {
        Some(class) => Some(record_of_body(request, conn, class).map_err(hidden)?),
        None => None,
    };
    let needed = if manual.needs_edit { EDIT } else { VIEW };
    let is_allowed = match &record {
        Some(held) => held.allows(needed),
        None => caller.agent.is_none() && caller.has_permission(PERMISSIONS.name, "start"),
    };
    if !is_allowed || !right.is_in_group {
        return Err(hidden(Refusal::forbidden()));
    }
    Ok(AskedStart { sequence, published: published.clone(), version, record })
}

/// Loads the record that a body names, which must be one of the class that the caller may view.
fn record_of_body(request: &Request, conn: &mut Conn, class: i64) -> Result<RecordAccess, Refusal> {
    let body = request.object()?;
    let Some(sent) = body.get("object_record").filter(|sent| !sent.is_null()) else {
        return Err(Refusal::field("object_record", message::REQUIRED));
    };
    let id: RecordId = parse_id(sent).map_err(|wrong| Refusal::field("object_record", wrong))?;
    let held = load_record_access(request, conn, id)?.filter(|held| held.class.id == ClassId::new(class));
    held.ok_or_else(|| Refusal::field("object_record", message::invalid_id_message(id)))
}

fn meets_condition(
    request: &Request,
    conn: &mut Conn,
    manual: &ManualTrigger,
    record: Option<RecordId>,
) -> Result<bool, Refusal> {
    let Some(condition) = &manual.condition else { return Ok(true) };
    let (nothing, outputs) = (Named::new(), BTreeMap::new());
    Evaluator::for_system(request, facts(record, &nothing, &outputs)).condition(conn, condition)
}

/// Reads the inputs of a body, checked as values of fields that the starter writes.
fn read_inputs(request: &Request, conn: &mut Conn, manual: &ManualTrigger) -> Result<Named, Refusal> {
    let body = request.object()?;
    let sent = body.get("inputs").filter(|sent| !sent.is_null());
    if sent.is_some_and(|sent| sent.text().len() > MAX_INPUTS) {
        return Err(Refusal::field("inputs", message::TOO_LARGE));
    }
    let sent = match sent.map(|sent| serde_json::from_str::<Json>(sent.text()).unwrap_or_default()) {
        None => Map::new(),
        Some(Json::Object(sent)) => sent,
        Some(other) => {
            return Err(Refusal::field("inputs", message::not_an_object(resource::type_name(&other))));
        }
    };
    let mut errors = Errors::new();
    for name in sent.keys().filter(|name| !manual.inputs.iter().any(|input| input.name == **name)) {
        errors.add(name, message::NO_FIELD);
    }
    let mut inputs = Named::new();
    for input in &manual.inputs {
        let value = sent.get(&input.name).or(input.default.as_ref());
        let Some(value) = value.filter(|value| !value.is_null() || input.is_required) else {
            if input.is_required {
                errors.add(&input.name, message::REQUIRED);
            }
            continue;
        };
        let wrong = input_errors(input, value);
        if !wrong.is_empty() {
            wrong.into_iter().for_each(|wrong| errors.add(&input.name, wrong));
            continue;
        }
        if !names_visible(request, conn, input, value)? {
            errors.add(&input.name, message::invalid_id_message(crate::definition::text_of(value)));
            continue;
        }
        inputs.insert(input.name.clone(), value_of_input(input, value));
    }
    if errors.is_empty() {
        return Ok(inputs);
    }
    let mut nested = Errors::new();
    nested.nest("inputs", errors);
    Err(nested.into())
}

/// Returns whether the user or record that a value names is visible to the caller.
fn names_visible(request: &Request, conn: &mut Conn, input: &Input, value: &Json) -> Result<bool, Refusal> {
    match (input.of, value.as_i64()) {
        ("user", Some(id)) => {
            let mut sql = Sql::new("SELECT 1 FROM users t WHERE ");
            sql.append(&visible_users(request.caller()?)).push(" AND t.id = ").bind(id);
            Ok(conn.query_optional(&sql, |_| Ok(()))?.is_some())
        }
        ("relation", Some(id)) => {
            let held = load_record_access(request, conn, RecordId::new(id))?;
            Ok(held.is_some_and(|held| Some(held.class.id.get()) == input.object_class))
        }
        _ => Ok(true),
    }
}

fn value_of_input(input: &Input, value: &Json) -> Val {
    if input.of == "enum" {
        let option = input.options.iter().find(|(option, _)| value.as_str() == Some(option));
        return option.map_or(Val::Null, |(value, text)| Val::Choice(value.clone(), text.clone()));
    }
    debug_assert!(field_of_input(input).is_some());
    Val::of_json(input.of, value).unwrap_or_default()
}

fn list_startable(request: &Request, conn: &mut Conn) -> Outcome {
    let held = load_from_path(request, conn)?;
    let caller = request.caller()?;
    let select = resource::select(&STARTABLE, &request.query)?;
    let mut sql = Sql::new(
        "SELECT s.id, s.name, s.description, s.published_version FROM sequences s WHERE s.trigger_type = 'manual' \
         AND s.status = 'running' AND s.published_version IS NOT NULL AND s.object_class = ",
    );
    sql.bind(held.class.id).push(if caller.agent.is_some() {
        " AND s.from_agents = 1"
    } else {
        " AND s.from_people = 1"
    });
    if !caller.is_super() {
        sql.push(" AND ").append(&has_group(caller));
    }
    sql.push(" ORDER BY s.id");
    let sequences: Vec<(SequenceId, String, String, i64)> =
        conn.query_all(&sql, |row| Ok((row.id(0)?, row.text(1)?.to_owned(), row.text(2)?.to_owned(), row.int(3)?)))?;
    let (nothing, outputs) = (Named::new(), BTreeMap::new());
    let mut evaluator = Evaluator::for_system(request, facts(Some(held.id), &nothing, &outputs));
    let mut found = Vec::new();
    for (id, name, description, version) in sequences {
        let Some(published) = published::load(&request.build, conn, id, version)? else { continue };
        let Some(Trigger::Manual(manual)) = &published.definition.trigger else { continue };
        let is_met = match &manual.condition {
            Some(condition) => evaluator.condition(conn, condition)?,
            None => true,
        };
        if is_met && held.allows(if manual.needs_edit { EDIT } else { VIEW }) {
            let inputs: Vec<Json> = manual.inputs.iter().map(shown_input).collect();
            found.push(json!({"id": id, "name": name, "description": description, "inputs": inputs}));
        }
    }
    let total = found.len() as i64;
    let mut items = JsonItems::with_capacity(1024);
    let page = found.iter().skip(select.offset.max(0) as usize).take(select.limit as usize);
    page.for_each(|item| {
        items.next_item().raw(&item.to_string());
    });
    let counts = ListCounts { total, filtered: total };
    Ok(rows::list_answer(request, select.limit, select.offset, counts, items))
}

fn shown_input(input: &Input) -> Json {
    let options: Vec<Json> = input.options.iter().map(|(value, text)| json!({"value": value, "text": text})).collect();
    json!({
        "name": input.name, "label": input.label, "type": input.of, "required": input.is_required,
        "default": input.default, "options": options, "object_class": input.object_class,
    })
}
