//! The steps of a run: `/api/sequence-runs/{uuid}/steps/` (`docs/reference/sequences.md`).

use super::{RunAccess, Sight, error_schema, push_user};
use crate::definition::STEP_TYPES;
use crate::engine::run::open;
use kit::answer::{Answer, Outcome};
use kit::ids::TaskId;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::Route;
use kit::rows::{self, Declaration, RowCells, RowShape, Scope};
use resource::json::{Cells, JsonWriter, RowForm, write_user};
use resource::{Field, FieldKind, Resource, openapi, options};
use serde_json::{Value as Json, json};
use std::collections::HashSet;
use std::sync::LazyLock;
use store::{Conn, Sql, StoreError};
use tasks::single_tasks;

const STATES: [(&str, &str); 6] = [
    ("done", "Done"),
    ("left_out", "Left out"),
    ("waiting", "Waiting"),
    ("trying", "Trying again"),
    ("failed", "Failed"),
    ("canceled", "Canceled"),
];

static STEP: LazyLock<Resource> = LazyLock::new(|| {
    let count = FieldKind::Integer { min: 0, max: i64::MAX };
    let fields = [
        Field::new("n", count.clone()),
        Field::new("path", FieldKind::text(500)),
        Field::new("type", FieldKind::choices(&STEP_TYPES)).filter(),
        Field::new("status", FieldKind::choices(&STATES)).filter(),
        Field::new("started_at", FieldKind::DateTime),
        Field::new("ended_at", FieldKind::DateTime).nullable(),
        Field::new("attempts", count),
    ];
    Resource::new("sequence_steps", "SequenceRunStep", "sequence_steps", fields.map(Field::read_only))
        .ordered_by("n")
        .unlogged()
        .with_extra_schemas(|_| {
            let any = || json!({"description": "Null for those who may not see values"});
            let id = || json!({"type": ["integer", "null"]});
            vec![
                ("runs_as", json!({"anyOf": [openapi::user_reference(), {"type": "null"}]})),
                ("input", any()),
                ("output", any()),
                ("error", json!({"anyOf": [error_schema(), {"type": "null"}]})),
                ("object_record", id()),
                ("task", id()),
            ]
        })
});

pub fn routes() -> Vec<Route> {
    let path = "/api/sequence-runs/{uuid}/steps/";
    let who = "sequences.view, ownership of the class, or own starts";
    vec![Route::list(path, &STEP, list).instance(who), Route::options_below(path, document).with_read(document)]
}

fn document(request: &Request, conn: &mut Conn) -> Outcome {
    let sql = Sql::new("SELECT 1 FROM sequence_runs WHERE uuid = $1").arg(request.uuid().to_string());
    conn.query_optional(&sql, |_| Ok(()))?.ok_or_else(Refusal::not_found)?;
    Ok(Answer::value(&options::document(&STEP)))
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let run = RunAccess::load(request, conn, "")?;
    let sql = Sql::new("SELECT DISTINCT record FROM sequence_steps WHERE run = $1 AND record IS NOT NULL").arg(run.id);
    let mut records = conn.query_all(&sql, |row| row.id(0))?;
    records.extend(run.record);
    let sql = Sql::new("SELECT DISTINCT task FROM sequence_steps WHERE run = $1 AND task IS NOT NULL").arg(run.id);
    let tasks: Vec<TaskId> = conn.query_all(&sql, |row| row.id(0))?;
    let tasks = single_tasks::visible(request, conn, &tasks)?;
    let sight = Sight::load(request, conn, records)?;
    let mut extra = Sql::new("");
    push_user(&mut extra, "t.runs_as");
    extra.push(
        ", t.runs_as, t.record, t.task, t.row_key, t.input, t.output, t.error_body, t.error_status, t.status, t.path",
    );
    let record = run.record.map(kit::ids::RecordId::get);
    let shape = RowShape::with_declaration(Declaration::Static(&STEP), extra, move |out, _, row, at, request| {
        write_step(out, row, at, (request, &sight, record, &tasks))
    });
    debug_assert!(STEP.fields.iter().all(|field| field.is_in(RowForm::List)));
    rows::list(request, conn, &shape, Scope::matching(Sql::new("t.run = $1").arg(run.id)))
}

fn write_step(
    out: &mut JsonWriter,
    row: &RowCells<'_>,
    at: usize,
    (request, sight, run_record, tasks): (&Request, &Sight, Option<i64>, &HashSet<TaskId>),
) -> Result<(), StoreError> {
    write_user(out.name("runs_as"), row.user(at)?);
    let sees_values = sight.sees_values(row.int(at + 1)?, run_record);
    let row_key = row.text(at + 4)?.unwrap_or_default();
    let opened = |column: &str, at: usize| -> Result<Json, StoreError> {
        match row.text(at)?.filter(|_| sees_values) {
            Some(sealed) => {
                let text = open(request, "sequence_steps", column, row_key, sealed)?;
                Ok(serde_json::from_str(&text).unwrap_or_default())
            }
            None => Ok(Json::Null),
        }
    };
    out.name("input").raw(&opened("input", at + 5)?.to_string());
    out.name("output").raw(&opened("output", at + 6)?.to_string());
    let error = match row.text(at + 9)? {
        Some("failed") => {
            json!({"step": row.text(at + 10)?, "status": row.int(at + 8)?, "body": opened("error_body", at + 7)?})
        }
        _ => Json::Null,
    };
    out.name("error").raw(&error.to_string());
    let number = |id: Option<i64>| id.map_or_else(|| "null".to_owned(), |id| id.to_string());
    out.name("object_record").raw(&number(sight.sees_record(row.int(at + 2)?)));
    let task = row.int(at + 3)?.filter(|task| tasks.contains(&TaskId::new(*task)));
    out.name("task").raw(&number(task));
    Ok(())
}
