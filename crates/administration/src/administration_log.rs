//! The administration log: `GET /api/administration/log/` (`docs/reference/administration-log.md`) lists changes and their users.
//! [`kit::log`] writes the entries, in the transaction of the change.

use kit::answer::{Answer, Outcome};
use kit::request::Request;
use kit::route::Route;
use kit::rows::{self, Declaration, RowShape, Scope};
use resource::{Field, FieldKind, Resource, options};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;
use store::Conn;

/// An entry of the administration log.
pub static ENTRY: LazyLock<Resource> = LazyLock::new(|| {
    Resource::new(
        "administration_log",
        "AdministrationLogEntry",
        "administration_log",
        [
            Field::id(),
            Field::new("at", FieldKind::DateTime).read_only().filter().sort(),
            Field::new("by", FieldKind::User).column("by_user").read_only().nullable().filter(),
            Field::new("ip", FieldKind::text(45)).read_only().filter(),
            Field::new("action", FieldKind::text(50)).read_only().filter(),
            Field::new("resource", FieldKind::text(50)).read_only().filter(),
            Field::new("object_id", FieldKind::Integer { min: 1, max: i64::MAX }).read_only().nullable().filter(),
            Field::new("object_name", FieldKind::text(255)).folded().read_only().filter(),
            Field::new("changes", FieldKind::Object).schema(changes_schema).read_only(),
        ],
    )
    .newest_first()
});

static SHAPE: RowShape = RowShape::from_declaration(Declaration::Static(&ENTRY));

/// Returns the schema of `changes`: the old and the new value of each changed field.
fn changes_schema() -> Json {
    json!({"type": "object", "additionalProperties": {"type": "array", "minItems": 2, "maxItems": 2, "items": {}}})
}

pub fn routes() -> Vec<Route> {
    vec![
        Route::list("/api/administration/log/", &ENTRY, list)
            .requires("administration_log", "list")
            .summary("The changes of administrators, newest first"),
        Route::options("/api/administration/log/", |_| Ok(Answer::value(&options::document(&ENTRY)))),
    ]
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    rows::list(request, conn, &SHAPE, Scope::matching("1 = 1").cacheable())
}
