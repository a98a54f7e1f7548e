//! The runs on a record: `/api/object-records/{id}/sequence-runs/` (`docs/reference/sequences.md`).

use kit::answer::{Answer, Outcome};
use kit::request::Request;
use kit::route::Route;
use kit::rows::{self, Declaration, RowShape, Scope};
use records::rights::EDIT;
use records::single_records::load_from_path;
use resource::json::Cells;
use resource::{Field, FieldKind, Resource, openapi, options};
use serde_json::json;
use std::sync::LazyLock;
use store::{Conn, Sql};

static RUN_OF_RECORD: LazyLock<Resource> = LazyLock::new(|| {
    let states = ["queued", "running", "waiting", "completed", "failed", "canceled"].map(|state| (state, state));
    let fields = [
        Field::new("uuid", FieldKind::Uuid),
        Field::new("status", FieldKind::choices(&states)),
        Field::new("started_at", FieldKind::DateTime),
        Field::new("ended_at", FieldKind::DateTime).nullable(),
    ];
    Resource::new("sequence_runs", "SequenceRunOfRecord", "sequence_runs", fields.map(Field::read_only))
        .newest_first()
        .unselectable()
        .unlogged()
        .with_extra_schemas(|_| {
            let sequence = openapi::object([("id", json!({"type": "integer"})), ("name", json!({"type": "string"}))]);
            vec![("sequence", openapi::titled("SequenceName", sequence))]
        })
});
static SHAPE: RowShape = RowShape::new(
    Declaration::Static(&RUN_OF_RECORD),
    "t.sequence, COALESCE((SELECT s.name FROM sequences s WHERE s.id = t.sequence), '')",
    |out, _, row, at, _| {
        out.name("sequence").raw("{").name("id").int(row.int(at)?.unwrap_or(0));
        out.name("name").text(row.text(at + 1)?.unwrap_or_default()).raw("}");
        Ok(())
    },
);

pub fn routes() -> Vec<Route> {
    let path = "/api/object-records/{record_id}/sequence-runs/";
    vec![
        Route::list(path, &RUN_OF_RECORD, list).instance("object_records.edit"),
        Route::options_below(path, document).with_read(document),
    ]
}

fn document(request: &Request, conn: &mut Conn) -> Outcome {
    load_from_path(request, conn)?;
    Ok(Answer::value(&options::document(&RUN_OF_RECORD)))
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let held = load_from_path(request, conn)?;
    held.require(EDIT)?;
    rows::list(request, conn, &SHAPE, Scope::matching(Sql::new("t.record = $1").arg(held.id)))
}
