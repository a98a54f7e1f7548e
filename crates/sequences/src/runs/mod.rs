//! Runs of sequences: `/api/sequence-runs/` and `/api/sequences/{id}/runs/` (`docs/reference/sequences.md`).

mod actions;
pub mod cleaning;
mod per_record;
mod steps;

pub use actions::CANCEL_RUNS;

use crate::definition::TRIGGER_TYPES;
use crate::engine::run::open;
use crate::sequences::access::{SequenceAccess, of_owned_classes};
use crate::sequences::sequence::{PERMISSIONS, may_edit};
use crate::skipped::visible_records;
use http::StatusCode;
use kit::answer::{Answer, Outcome};
use kit::caller::Caller;
use kit::ids::{RecordId, SequenceRunId, UserId};
use kit::listed::JsonItems;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::Route;
use kit::rows::{self, Declaration, RowCells, RowShape, Scope, write_permissions};
use kit::secret::SealedColumn;
use resource::json::{Cells, JsonWriter, RowForm, USER_REFERENCE, write_user};
use resource::{Field, FieldKind, ReferenceTarget, Resource, openapi, options};
use serde_json::{Value as Json, json};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;
use store::{Conn, Sql, StoreError};

/// The states of runs with their texts.
const STATES: [(&str, &str); 7] = [
    ("queued", "Queued"),
    ("running", "Running"),
    ("waiting", "Waiting"),
    ("held", "Held"),
    ("completed", "Completed"),
    ("failed", "Failed"),
    ("canceled", "Canceled"),
];

/// The columns whose values are sealed.
pub const SEALED_COLUMNS: [SealedColumn; 6] = [
    SealedColumn { table: "sequence_runs", column: "error_body", row: "row_key" },
    SealedColumn { table: "sequence_runs", column: "inputs", row: "row_key" },
    SealedColumn { table: "sequence_runs", column: "state", row: "row_key" },
    SealedColumn { table: "sequence_steps", column: "input", row: "row_key" },
    SealedColumn { table: "sequence_steps", column: "output", row: "row_key" },
    SealedColumn { table: "sequence_steps", column: "error_body", row: "row_key" },
];

/// A run in progress is held while its sequence is, or while its account cannot be used.
const STATUS: &str = "(CASE WHEN t.ended_at IS NULL AND (EXISTS (SELECT 1 FROM sequences s WHERE s.id = t.sequence AND s.is_holding = 1) \
    OR NOT EXISTS (SELECT 1 FROM sequence_versions v JOIN users u ON u.id = v.runs_as WHERE v.sequence = t.sequence \
    AND v.version = t.version AND u.is_deleted = 0 AND u.status = 'active')) THEN 'held' ELSE t.status END)";

/// The account of a run: that of its version while it is in progress.
const ACCOUNT: &str = "COALESCE(t.runs_as, (SELECT v.runs_as FROM sequence_versions v WHERE v.sequence = t.sequence AND v.version = t.version))";

/// A run in a list.
pub static RUN: LazyLock<Resource> = LazyLock::new(|| declaration("SequenceRunSummary"));
/// A single run, which also has its inputs.
pub static RUN_DETAIL: LazyLock<Resource> = LazyLock::new(|| declaration("SequenceRun"));

fn declaration(title: &'static str) -> Resource {
    let count = FieldKind::Integer { min: 0, max: i64::MAX };
    let id_of = |table: &'static str| FieldKind::Reference {
        target: ReferenceTarget { table: table.into(), autocomplete: None },
    };
    let fields = [
        Field::new("uuid", FieldKind::Uuid).filter(),
        Field::new("version", count.clone()).filter_exactly(),
        Field::new("status", FieldKind::choices(&STATES)).sql(STATUS).filter(),
        Field::new("cause", FieldKind::Uuid).filter(),
        Field::new("depth", count.clone()),
        Field::new("parent", FieldKind::Uuid).nullable(),
        Field::new("started_at", FieldKind::DateTime).filter().sort(),
        Field::new("ended_at", FieldKind::DateTime).nullable().filter().sort(),
        Field::new("next_at", FieldKind::DateTime)
            .sql("(CASE WHEN t.status = 'waiting' AND t.ended_at IS NULL THEN t.due_at END)")
            .nullable(),
        Field::new("step", FieldKind::text(500)).nullable(),
        Field::new("num_of_steps", count),
    ];
    let filters = [
        Field::new("sequence", id_of("sequences")).filter_as_set().filter_only(),
        Field::new("object_record", id_of("records")).column("record").filter_as_set().filter_only(),
    ];
    let fields = fields.map(Field::read_only).into_iter().chain(filters);
    Resource::new("sequence_runs", title, "sequence_runs", fields)
        .newest_first()
        .unlogged()
        .with_extra_schemas(extra_schemas)
}

fn extra_schemas(form: RowForm) -> Vec<(&'static str, Json)> {
    let user = json!({"anyOf": [openapi::user_reference(), {"type": "null"}]});
    let id = || json!({"type": ["integer", "null"]});
    let text = || json!({"type": ["string", "null"]});
    let sequence = openapi::object([("id", json!({"type": "integer"})), ("name", json!({"type": "string"}))]);
    let trigger = openapi::object([
        ("type", json!({"type": "string", "enum": TRIGGER_TYPES.map(|(name, _)| name)})),
        ("source_type", json!({"type": "string", "enum": crate::definition::SOURCES})),
        ("source_id", id()),
        ("source_name", text()),
        ("event_id", text()),
        ("at", json!({"type": "string", "format": "date-time"})),
    ]);
    let mut schemas = vec![
        ("sequence", openapi::titled("SequenceName", sequence)),
        ("runs_as", user),
        ("trigger", openapi::titled("SequenceRunTrigger", trigger)),
        ("object_record", id()),
        ("error", json!({"anyOf": [error_schema(), {"type": "null"}]})),
        ("_meta", openapi::meta(["view", "edit", "view_values"])),
    ];
    if form == RowForm::Detail {
        schemas.push((
            "inputs",
            json!({"type": ["object", "null"], "description": "Null for those who may not see values"}),
        ));
    }
    schemas
}

/// The schema of an error of a run or a step.
fn error_schema() -> Json {
    let error = openapi::object([
        ("step", json!({"type": ["string", "null"]})),
        ("status", json!({"type": ["integer", "null"]})),
        ("body", json!({"type": ["object", "null"]})),
    ]);
    openapi::titled("SequenceRunError", error)
}

pub fn routes() -> Vec<Route> {
    let who = "sequences.view, ownership of the class, or own starts";
    let of_sequence = "/api/sequences/{id}/runs/";
    let one = "/api/sequence-runs/{uuid}/";
    let mut routes = vec![
        Route::list("/api/sequence-runs/", &RUN, list_all).instance(who),
        Route::options("/api/sequence-runs/", |_| Ok(Answer::value(&options::document(&RUN)))),
        Route::list(of_sequence, &RUN, list_of_sequence).instance(who),
        Route::options_below(of_sequence, document_of_sequence).with_read(document_of_sequence),
        Route::view(one, &RUN_DETAIL, view).with_read(view).instance(who),
    ];
    routes.extend([actions::routes(), steps::routes(), per_record::routes()].into_iter().flatten());
    routes
}

fn document_of_sequence(request: &Request, conn: &mut Conn) -> Outcome {
    SequenceAccess::require_existing(conn, request.id())?;
    Ok(Answer::value(&options::document(&RUN)))
}

/// The condition on `sequence_runs t` for those that the caller may view.
fn visible(caller: &Caller) -> Sql {
    if caller.has_permission(PERMISSIONS.name, "view") && caller.agent.is_none() {
        return Sql::new("1 = 1");
    }
    let mut sql = Sql::new("(t.starter = ");
    sql.bind(caller.user);
    if caller.agent.is_none() {
        sql.push(" OR t.sequence IN (SELECT t.id FROM sequences t WHERE ").append(&of_owned_classes(caller)).push(")");
    }
    sql.push(")");
    sql
}

fn list_all(request: &Request, conn: &mut Conn) -> Outcome {
    let visible = visible(request.caller()?);
    list(request, conn, Scope::matching(visible))
}

fn list_of_sequence(request: &Request, conn: &mut Conn) -> Outcome {
    let sequence = SequenceAccess::load(request, conn)?;
    list(request, conn, Scope::matching(Sql::new("t.sequence = $1").arg(sequence.id)))
}

fn list(request: &Request, conn: &mut Conn, scope: Scope) -> Outcome {
    let shape = RowShape::with_declaration(Declaration::Static(&RUN), Sql::new("t.id"), |_, _, _, _, _| Ok(()));
    let columns = RUN.fields.iter().filter(|field| field.is_in(RowForm::List)).count();
    let page = rows::read_page(request, conn, &shape, &scope, |row| row.int(columns))?;
    let shown = shown(request, conn, &page.rows, RowForm::List)?;
    let mut items = JsonItems::with_capacity(1024);
    for item in page.rows.iter().filter_map(|id| shown.get(id)) {
        items.next_item().raw_bytes(item);
    }
    Ok(rows::list_answer(request, page.limit, page.offset, page.counts, items))
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    let run = RunAccess::load(request, conn, "")?;
    let shown = shown(request, conn, &[run.id.get()], RowForm::Detail)?.remove(&run.id.get());
    Ok(Answer::json(StatusCode::OK, shown.ok_or_else(Refusal::not_found)?))
}

/// A run that the caller may view.
pub struct RunAccess {
    pub id: SequenceRunId,
    pub record: Option<RecordId>,
    pub status: String,
    pub ended_at: Option<i64>,
}

impl RunAccess {
    /// Loads the run of the path. Answers 404 if the caller may not view such a run. `lock` is the end of the statement.
    pub fn load(request: &Request, conn: &mut Conn, lock: &'static str) -> Result<RunAccess, Refusal> {
        let mut sql = Sql::new("SELECT t.id, t.record, t.status, t.ended_at FROM sequence_runs t WHERE t.uuid = ");
        sql.bind(request.uuid().to_string()).push(" AND ").append(&visible(request.caller()?)).push(lock);
        let found = conn.query_optional(&sql, |row| {
            Ok(RunAccess {
                id: row.id(0)?,
                record: row.opt_id(1)?,
                status: row.text(2)?.to_owned(),
                ended_at: row.opt_int(3)?,
            })
        })?;
        found.ok_or_else(Refusal::not_found)
    }
}

/// The rights of the caller on runs.
struct Sight {
    caller: UserId,
    is_super: bool,
    views_sequences: bool,
    edits: bool,
    /// The records that the caller may view.
    records: HashSet<RecordId>,
}

impl Sight {
    fn load(request: &Request, conn: &mut Conn, records: Vec<RecordId>) -> Result<Sight, Refusal> {
        let caller = request.caller()?;
        Ok(Sight {
            caller: caller.user,
            is_super: caller.is_super(),
            views_sequences: caller.has_permission(PERMISSIONS.name, "view"),
            edits: may_edit(caller),
            records: visible_records(request, conn, records)?,
        })
    }

    fn sees_record(&self, record: Option<i64>) -> Option<i64> {
        record.filter(|record| self.records.contains(&RecordId::new(*record)))
    }

    /// Returns whether the caller sees the values of what an account has done on a record.
    fn sees_values(&self, account: Option<i64>, record: Option<i64>) -> bool {
        let sees_run = match record {
            Some(record) => self.records.contains(&RecordId::new(record)),
            None => self.views_sequences,
        };
        self.is_super || (account == Some(self.caller.get()) && sees_run)
    }
}

/// Returns runs as the caller sees them, by their ids.
fn shown(request: &Request, conn: &mut Conn, ids: &[i64], form: RowForm) -> Result<HashMap<i64, Vec<u8>>, Refusal> {
    let mut sql = Sql::new("SELECT DISTINCT record FROM sequence_runs WHERE record IS NOT NULL AND id");
    let records = conn.query_all(sql.push_any(ids.iter().copied()), |row| row.id(0))?;
    let sight = Sight::load(request, conn, records)?;
    let mut extra = Sql::new("t.sequence, COALESCE((SELECT s.name FROM sequences s WHERE s.id = t.sequence), ''), ");
    push_user(&mut extra, ACCOUNT);
    extra.push(", ").push(ACCOUNT).push(
        ", t.trigger_type, t.source_type, t.source_id, t.source_name, t.event_id, t.started_at, t.record, t.error_step, \
         t.error_status, t.error_body, t.row_key, t.inputs, t.starter, t.status",
    );
    let shape = RowShape::with_declaration(Declaration::Static(&RUN), extra, move |out, _, row, at, request| {
        write_run(out, row, at, (request, &sight, form))
    });
    let mut found = HashMap::new();
    let mut condition = Sql::new("t.id");
    condition.push_any(ids.iter().copied());
    found.extend(rows::items(request, conn, &shape, "id", &Scope::matching(condition))?);
    Ok(found)
}

/// Appends the user reference of an expression as one JSON value.
fn push_user(sql: &mut Sql, id: &'static str) {
    sql.push("(SELECT CAST(json_build_array(");
    for (n, shown) in USER_REFERENCE.iter().enumerate() {
        sql.push(if n > 0 { ", u." } else { "u." }).name(shown);
    }
    sql.push(") AS TEXT) FROM users u WHERE u.id = ").push(id).push(")");
}

fn write_run(
    out: &mut JsonWriter,
    row: &RowCells<'_>,
    at: usize,
    (request, sight, form): (&Request, &Sight, RowForm),
) -> Result<(), StoreError> {
    out.name("sequence").raw("{").name("id").int(row.int(at)?.unwrap_or(0));
    out.name("name").text(row.text(at + 1)?.unwrap_or_default()).raw("}");
    write_user(out.name("runs_as"), row.user(at + 2)?);
    out.name("trigger").raw("{").name("type").text(row.text(at + 4)?.unwrap_or_default());
    out.name("source_type").text(row.text(at + 5)?.unwrap_or_default());
    out.name("source_id").raw(&row.int(at + 6)?.map_or_else(|| "null".to_owned(), |id| id.to_string()));
    out.name("source_name").opt_text(row.text(at + 7)?).name("event_id").opt_text(row.text(at + 8)?);
    out.name("at").datetime(row.int(at + 9)?).raw("}");
    let record = row.int(at + 10)?;
    let shown = sight.sees_record(record);
    out.name("object_record").raw(&shown.map_or_else(|| "null".to_owned(), |id| id.to_string()));
    let sees_values = sight.sees_values(row.int(at + 3)?, record);
    let row_key = row.text(at + 14)?.unwrap_or_default();
    let opened = |column: &str, sealed: Option<&str>| -> Result<Json, StoreError> {
        match sealed.filter(|_| sees_values) {
            Some(sealed) => {
                let text = open(request, "sequence_runs", column, row_key, sealed)?;
                Ok(serde_json::from_str(&text).unwrap_or_default())
            }
            None => Ok(Json::Null),
        }
    };
    let has_failed = row.text(at + 17)? == Some("failed");
    let error = match has_failed {
        true => json!({
            "step": row.text(at + 11)?, "status": row.int(at + 12)?, "body": opened("error_body", row.text(at + 13)?)?,
        }),
        false => Json::Null,
    };
    out.name("error").raw(&error.to_string());
    if form == RowForm::Detail {
        let is_starter = row.int(at + 16)? == Some(sight.caller.get());
        let inputs = match row.text(at + 15)?.filter(|_| sees_values || is_starter) {
            Some(sealed) => {
                let text = open(request, "sequence_runs", "inputs", row_key, sealed)?;
                let named: crate::values::evaluate::Named = serde_json::from_str(&text).unwrap_or_default();
                named
                    .iter()
                    .map(|(name, value)| (name.clone(), value.to_json()))
                    .collect::<serde_json::Map<_, _>>()
                    .into()
            }
            None if sees_values || is_starter => json!({}),
            None => Json::Null,
        };
        out.name("inputs").raw(&inputs.to_string());
    }
    out.name("_meta").raw("{");
    write_permissions(out, &[("view", true), ("edit", sight.edits), ("view_values", sees_values)]);
    out.raw("}");
    Ok(())
}
