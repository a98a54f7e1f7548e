//! The templates from which a caller may create a task for a record: `/api/object-records/{id}/task-templates/`
//! (`docs/reference/task-templates.md`).

use super::form::{TT_FORM, TT_UPDATE};
use super::plugin_config::{TASK_TYPES, TYPE_OF_TEMPLATE};
use crate::tasks::task_access::needed_on_record;
use kit::answer::{Answer, Outcome};
use kit::request::Request;
use kit::route::Route;
use kit::rows::{self, Declaration, RowShape, Scope};
use records::rights::TASKS_CREATE;
use records::single_records::load_from_path;
use resource::{Field, FieldKind, Resource, options};
use std::sync::LazyLock;
use store::{Conn, Sql};

const COLLECTION: &str = "/api/object-records/{record_id}/task-templates/";

/// The fields of a template for callers who may not list templates.
static RECORD_TEMPLATE: LazyLock<Resource> = LazyLock::new(|| {
    Resource::new(
        "task_templates",
        "RecordTaskTemplate",
        "task_templates",
        [
            Field::id(),
            Field::new("name", FieldKind::text(100)).read_only().folded().filter().sort(),
            Field::new("description", FieldKind::text(500)).read_only(),
            Field::new("task_type", FieldKind::choices(TASK_TYPES)).sql(TYPE_OF_TEMPLATE).read_only(),
        ],
    )
});

static SHAPE: RowShape = RowShape::from_declaration(Declaration::Static(&RECORD_TEMPLATE));

pub fn routes() -> Vec<Route> {
    vec![
        Route::list(COLLECTION, &RECORD_TEMPLATE, list).instance("tasks.create"),
        Route::options_below(COLLECTION, document).with_read(document),
    ]
}

fn document(request: &Request, conn: &mut Conn) -> Outcome {
    load_from_path(request, conn)?;
    Ok(Answer::value(&options::document(&RECORD_TEMPLATE)))
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let record = load_from_path(request, conn)?;
    record.require(TASKS_CREATE)?;
    let mut usable = Sql::new("t.form IN (SELECT f.id FROM task_forms f WHERE f.task_type = ");
    usable.bind(TT_FORM);
    if record.allows(needed_on_record(true)) {
        usable.push(" OR (f.task_type = ").bind(TT_UPDATE).push(" AND f.class_id = ").bind(record.class.id).push(")");
    }
    usable.push(")");
    rows::list(request, conn, &SHAPE, Scope::matching(usable).cacheable())
}
