//! Writes many records in one request: `/api/object-classes/{id}/object-records/batch/` (`docs/reference/object-records.md`). All
//! of them are written, or none. The errors of each record are reported under its index.

use super::change::{self, ErrorsByIndex, HAS_CHILDREN};
use super::list::advised;
use super::record_access::RecordAccess;
use super::run_sequences::{self, RUN_SEQUENCES};
use super::write;
use crate::classes::Class;
use crate::counts;
use crate::rights::{CREATE, ClassRights, DELETE, EDIT};
use events::outbox;
use http::{Method, StatusCode};
use kit::answer::{Answer, Outcome};
use kit::commit;
use kit::ids::RecordId;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, HandlerFuture, Route, Schema};
use resource::{Checked, Errors, JsonValue, SentObject, message, openapi, parse_id};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use store::Conn;

/// The maximum number of records that a request may name.
const MAX_ITEMS: usize = 1000;
const ITEMS: &str = "items";
const IDS: &str = "ids";
const ID: &str = "id";
const DRY_RUN: &str = "dry_run";
const PATH: &str = "/api/object-classes/{class_id}/object-records/batch/";

pub fn routes() -> Vec<Route> {
    let route = |method, summary, handler| {
        Route::new(method, PATH, summary, Handler::Async(handler)).parameters(parameters).named_by_path()
    };
    vec![
        route(Method::POST, "Create many", |request| write_with_turn(request, create))
            .with_body(Schema::Json(|| items_schema("ObjectRecordsToCreate", super::schemas::body_schema())))
            .answers(201, Schema::Json(ids_schema))
            .instance("object_records.create")
            .action("create"),
        route(Method::PATCH, "Change many", |request| write_with_turn(request, edit))
            .with_body(Schema::Json(|| items_schema("ObjectRecordsToChange", change_schema())))
            .answers(200, Schema::Json(ids_schema))
            .instance("object_records.edit")
            .action("update"),
        route(Method::DELETE, "Delete many", |request| write_with_turn(request, delete))
            .with_body(Schema::Json(ids_to_delete_schema))
            .answers(204, Schema::Nothing)
            .instance("object_records.delete")
            .action("delete"),
    ]
}

/// Runs a write in the turn of the build's batches, so that an import cannot fill the outbox of the history service.
fn write_with_turn(request: Arc<Request>, write: fn(&Request, &mut Conn) -> Outcome) -> HandlerFuture {
    Box::pin(async move {
        let build = request.build.clone();
        let _turn = outbox::turn(&request.app, &build).await;
        commit::write_answer(&request, write).await
    })
}

fn parameters() -> Vec<Json> {
    let flag = |name: &str, text: &str| json!({"name": name, "in": "query", "required": false, "schema": {"type": "boolean"}, "description": text});
    vec![
        flag(DRY_RUN, "Checks everything and answers as if it were done, but writes nothing"),
        flag(RUN_SEQUENCES, "`false`: the writes start no sequence; for owners of the class and super admins"),
    ]
}

fn items_schema(title: &'static str, item: Json) -> Json {
    let items = json!({"type": "array", "minItems": 1, "maxItems": MAX_ITEMS, "items": item});
    openapi::titled(title, json!({"type": "object", "required": [ITEMS], "properties": {ITEMS: items}}))
}

fn change_schema() -> Json {
    openapi::titled(
        "ObjectRecordChange",
        json!({
            "type": "object",
            "required": [ID],
            "properties": {
                ID: {"type": "integer"},
                "fields": {"type": "object", "description": "Values by alias", "additionalProperties": true},
                "owner": {"type": ["integer", "null"]},
            },
        }),
    )
}

fn ids_to_delete_schema() -> Json {
    let ids = json!({"type": "array", "minItems": 1, "maxItems": MAX_ITEMS, "items": {"type": "integer"}});
    openapi::titled("ObjectRecordsToDelete", json!({"type": "object", "required": [IDS], "properties": {IDS: ids}}))
}

fn ids_schema() -> Json {
    let ids = json!({
        "type": ["array", "null"], "items": {"type": "integer"},
        "description": "In the order of the items; null where a trial would make records",
    });
    openapi::titled("ObjectRecordIds", json!({"type": "object", "required": [IDS], "properties": {IDS: ids}}))
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    create_all(request, conn).map_err(advised)
}

fn create_all(request: &Request, conn: &mut Conn) -> Outcome {
    let (class, on_class) = change::open(request, conn, request.id())?;
    on_class.require(CREATE)?;
    let is_trial = is_trial(request)?;
    run_sequences::check(request, conn, &class)?;
    let BatchItems { bodies, mut wrong } = BatchItems::from_request(request)?;
    let (places, bodies): (Vec<usize>, Vec<SentObject<'_>>) = bodies.into_iter().unzip();
    let checked = change::check_new(request, conn, &class, on_class, bodies)?;
    let new =
        keep_errors(checked, &places, &mut wrong).filter(|_| wrong.is_empty()).ok_or_else(|| items_refusal(wrong))?;
    if is_trial {
        counts::check(conn, class.id, new.len() as i64)?;
        return Ok(Answer::json(StatusCode::CREATED, json!({IDS: null}).to_string()));
    }
    run_sequences::log_without(request, conn, &class)?;
    let ids = write::insert(request, conn, &class, &new)?;
    Ok(Answer::json(StatusCode::CREATED, json!({IDS: ids}).to_string()))
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    edit_all(request, conn).map_err(advised)
}

fn edit_all(request: &Request, conn: &mut Conn) -> Outcome {
    let (class, on_class) = change::open(request, conn, request.id())?;
    let is_trial = is_trial(request)?;
    run_sequences::check(request, conn, &class)?;
    let BatchItems { bodies, wrong: mut errors } = BatchItems::from_request(request)?;
    let sent_ids: Vec<(usize, Option<JsonValue<'_>>)> =
        bodies.iter().map(|(place, body)| (*place, body.get(ID))).collect();
    let BatchRecords { held: records, wrong, is_forbidden, hides } =
        find(request, conn, &class, on_class, &sent_ids, EDIT)?;
    wrong.into_iter().for_each(|(place, message)| errors.entry(place).or_default().add(ID, message));
    if is_forbidden && !hides {
        return Err(Refusal::forbidden());
    }
    let mut bodies: HashMap<usize, SentObject<'_>> = bodies.into_iter().collect();
    let (places, targets): (Vec<usize>, Vec<(RecordAccess, SentObject<'_>)>) =
        records.into_iter().filter_map(|(place, record)| Some((place, (record, bodies.remove(&place)?)))).unzip();
    let validated =
        change::authorise_edits(&targets).and_then(|edits| change::validate_edits(request, conn, &class, edits));
    let checked = match validated {
        // Unknown ids are reported before a forbidden change of another record.
        Err(refusal) if refusal.status == StatusCode::FORBIDDEN && hides => Err(items_refusal(errors.clone())),
        checked => checked,
    }?;
    let changes = keep_errors(checked, &places, &mut errors)
        .filter(|_| errors.is_empty())
        .ok_or_else(|| items_refusal(errors))?;
    let ids: Vec<RecordId> = targets.iter().map(|(record, _)| record.id).collect();
    if !is_trial {
        run_sequences::log_without(request, conn, &class)?;
        write::update(request, conn, &class, &changes)?;
    }
    Ok(Answer::value(&json!({IDS: ids})))
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    delete_all(request, conn).map_err(advised)
}

fn delete_all(request: &Request, conn: &mut Conn) -> Outcome {
    let (class, on_class) = change::open(request, conn, request.id())?;
    let is_trial = is_trial(request)?;
    run_sequences::check(request, conn, &class)?;
    let body = request.object()?;
    let ids: Vec<_> = list(&body, IDS)?.into_iter().map(Some).enumerate().collect();
    let BatchRecords { held: records, mut wrong, is_forbidden, hides } =
        find(request, conn, &class, on_class, &ids, DELETE)?;
    if is_forbidden && !hides {
        return Err(Refusal::forbidden());
    }
    let (places, targets): (Vec<usize>, Vec<RecordAccess>) = records.into_iter().unzip();
    let cleared = match change::check_deletion(conn, &class, &targets)? {
        Checked::Valid(cleared) => Some(cleared),
        Checked::Invalid(by_place) => {
            wrong.extend(by_place.iter().map(|(at, _)| (places[*at], HAS_CHILDREN.to_owned())));
            None
        }
    };
    let Some(cleared) = cleared.filter(|_| wrong.is_empty()) else {
        let mut errors = Errors::new();
        wrong.iter().for_each(|(place, message)| errors.add_nested(IDS, &place.to_string(), message.clone()));
        return Err(errors.into());
    };
    if !is_trial {
        run_sequences::log_without(request, conn, &class)?;
        change::delete_checked(request, conn, &class, &targets, &cleared)?;
    }
    Ok(Answer::empty())
}

/// Returns whether the request is a dry run.
fn is_trial(request: &Request) -> Result<bool, Refusal> {
    match request.query.last_value(DRY_RUN) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Refusal::field(DRY_RUN, message::BOOLEAN)),
    }
}

/// The values of a required list of the body.
fn list<'a>(body: &SentObject<'a>, name: &str) -> Result<Vec<JsonValue<'a>>, Refusal> {
    let wrong = |message: String| Refusal::field(name, message);
    let value = body.get(name).ok_or_else(|| wrong(message::REQUIRED.to_owned()))?;
    let items = value.items(MAX_ITEMS).map_err(wrong)?;
    if items.is_empty() { Err(wrong(message::EMPTY_LIST.to_owned())) } else { Ok(items) }
}

/// The items of a body.
struct BatchItems<'a> {
    /// The items that are objects, with their indexes.
    bodies: Vec<(usize, SentObject<'a>)>,
    /// The errors of the other items, by their indexes.
    wrong: BTreeMap<usize, Errors>,
}

impl BatchItems<'_> {
    fn from_request(request: &Request) -> Result<BatchItems<'_>, Refusal> {
        const DECLARED: [&str; 4] =
            [ID, super::check::FIELDS, super::check::OWNER, super::assignments::PERMISSION_SETS];
        let body = request.object()?;
        let mut items = BatchItems { bodies: Vec::new(), wrong: BTreeMap::new() };
        for (place, item) in list(&body, ITEMS)?.into_iter().enumerate() {
            match item.as_object(|name| DECLARED.contains(&name)) {
                Some(item) => items.bodies.push((place, item)),
                None => {
                    let wrong = message::not_an_object(item.type_name());
                    items.wrong.insert(place, Errors::single("non_field_errors", wrong));
                }
            }
        }
        Ok(items)
    }
}

/// Returns the checked values. If there are errors, adds them at their indexes and returns `None`.
fn keep_errors<T>(
    checked: Checked<T, ErrorsByIndex>,
    places: &[usize],
    wrong: &mut BTreeMap<usize, Errors>,
) -> Option<T> {
    match checked {
        Checked::Valid(checked) => Some(checked),
        Checked::Invalid(by_place) => {
            by_place.into_iter().for_each(|(at, errors)| wrong.entry(places[at]).or_default().merge(errors));
            None
        }
    }
}

/// The refusal of items with errors.
fn items_refusal(wrong: BTreeMap<usize, Errors>) -> Refusal {
    let (mut items, mut errors) = (Errors::new(), Errors::new());
    wrong.into_iter().for_each(|(place, wrong)| items.nest(&place.to_string(), wrong));
    errors.nest(ITEMS, items);
    errors.into()
}

/// The records that a request names.
struct BatchRecords {
    /// The records on which the caller may perform the action, with their indexes. Their rows are locked.
    held: Vec<(usize, RecordAccess)>,
    /// The errors of the other ids, by their indexes.
    wrong: BTreeMap<usize, String>,
    /// True if the caller may view one of the records but not perform the action.
    is_forbidden: bool,
    /// True if one of the ids is unknown, or hidden from the caller.
    hides: bool,
}

fn find(
    request: &Request,
    conn: &mut Conn,
    class: &Arc<Class>,
    on_class: ClassRights,
    sent_ids: &[(usize, Option<JsonValue<'_>>)],
    action: i64,
) -> Result<BatchRecords, Refusal> {
    let (mut ids, mut unique_ids, mut wrong) = (Vec::new(), HashSet::new(), BTreeMap::new());
    for (place, sent_id) in sent_ids {
        match sent_id.map(parse_id) {
            None => drop(wrong.insert(*place, message::REQUIRED.to_owned())),
            Some(Err(message)) => drop(wrong.insert(*place, message)),
            Some(Ok(id)) if unique_ids.insert(id) => ids.push((*place, id)),
            // The id occurs earlier in the request.
            Some(Ok(_)) => drop(wrong.insert(*place, message::UNIQUE.to_owned())),
        }
    }
    let named: Vec<RecordId> = ids.iter().map(|(_, id)| *id).collect();
    let mut accesses = change::held_many(request, conn, class, on_class, &named)?;
    let mut batch = BatchRecords { held: Vec::new(), wrong, is_forbidden: false, hides: false };
    for (place, id) in ids {
        match accesses.remove(&id) {
            None => {
                batch.hides = true;
                batch.wrong.insert(place, message::invalid_id_message(id));
            }
            Some(record) if record.allows(action) => batch.held.push((place, record)),
            Some(_) => batch.is_forbidden = true,
        }
    }
    Ok(batch)
}
