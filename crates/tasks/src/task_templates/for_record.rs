//! The templates from which a caller may create a task for a record: `/api/object-records/{id}/task-templates/`
//! (`docs/reference/task-templates.md`).

use super::form::{TT_FORM, TT_UPDATE};
use super::plugin_config::{TASK_TYPES, TYPE_OF_TEMPLATE};
use kit::answer::{Answer, Outcome};
use kit::request::Request;
use kit::route::Route;
use kit::rows::{self, Declaration, Scope, Shape};
use records::rights::{EDIT, TASKS_CREATE};
use records::single_records::of_path;
use resource::{Field, Kind, Resource, options};
use std::sync::LazyLock;
use store::{Conn, Sql};

const COLLECTION: &str = "/api/object-records/{record_id}/task-templates/";

/// What is told of a template to those who may not list templates.
static RECORD_TEMPLATE: LazyLock<Resource> = LazyLock::new(|| {
    Resource::new(
        "task_templates",
        "RecordTaskTemplate",
        "task_templates",
        [
            Field::id(),
            Field::new("name", Kind::text(100)).read_only().folded().filter().sort(),
            Field::new("description", Kind::text(500)).read_only(),
            Field::new("task_type", Kind::choices(TASK_TYPES)).sql(TYPE_OF_TEMPLATE).read_only(),
        ],
    )
});

static SHAPE: Shape = Shape::plain(Declaration::Static(&RECORD_TEMPLATE));

pub fn routes() -> Vec<Route> {
    vec![
        Route::list(COLLECTION, &RECORD_TEMPLATE, list).instance("tasks.create"),
        Route::options_below(COLLECTION, document).reads(document),
    ]
}

fn document(request: &Request, conn: &mut Conn) -> Outcome {
    of_path(request, conn)?;
    Ok(Answer::value(&options::document(&RECORD_TEMPLATE)))
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let record = of_path(request, conn)?;
    record.needs(TASKS_CREATE)?;
    let mut usable = Sql::new("t.form IN (SELECT f.id FROM task_forms f WHERE f.task_type = ");
    usable.bind(TT_FORM);
    if record.may(EDIT) {
        usable.push(" OR (f.task_type = ").bind(TT_UPDATE).push(" AND f.class_id = ").bind(record.class.id).push(")");
    }
    usable.push(")");
    rows::list(request, conn, &SHAPE, Scope::of(usable).cacheable())
}
