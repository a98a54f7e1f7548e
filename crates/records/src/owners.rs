//! The format of owners of classes and records in answers: an ownership with the user (`docs/reference/object-classes.md`,
//! `docs/reference/object-records.md`).

use identity::assignees::{Principals, check_each};
use kit::caller::Caller;
use kit::ids::UserId;
use kit::refusal::Refusal;
use kit::rows::{Declaration, RowCells, RowShape};
use resource::json::{Cells, JsonWriter, RowForm};
use resource::{Field, FieldKind, Resource};
use serde_json::json;
use std::sync::LazyLock;
use store::{Conn, Sql, StoreError};

/// The declaration of a collection of owners.
fn declaration(title: &'static str, limit: i64, in_batch: i64) -> Resource {
    let fields = [
        Field::id(),
        Field::new("owner_id", FieldKind::Integer { min: 1, max: i64::MAX }).read_only().filter(),
        Field::new("type", FieldKind::text(10)).read_only().sql("'user'"),
        Field::new("name", FieldKind::text(201)).folded().read_only().filter().sort(),
        Field::new("created_at", FieldKind::DateTime).read_only().filter().sort(),
        // Answers show the creator's name.
        Field::new("created_by", FieldKind::User).filter_only(),
        Field::new("user", FieldKind::User).column("owner_id").read_only(),
    ];
    let autocomplete = "/api/users/autocomplete/?account_type__exclude=one_time_completion&text__icontains=";
    Resource::new("owners", title, "owners", fields)
        .limit_items(limit)
        .batch(in_batch, autocomplete)
        .with_extra_schemas(|_| {
            let name = json!({"type": ["string", "null"], "description": "The full name of who made the user owner"});
            vec![("created_by", name)]
        })
}

/// The owner of a class.
pub static CLASS_OWNER: LazyLock<Resource> = LazyLock::new(|| declaration("ObjectClassOwner", 10, 10));
/// The owner of a record.
pub static RECORD_OWNER: LazyLock<Resource> = LazyLock::new(|| declaration("ObjectRecordOwner", 1, 1));

const CREATOR: &str = "(SELECT c.full_name FROM users c WHERE c.id = t.created_by)";
pub static CLASS_OWNER_SHAPE: RowShape = RowShape::new(Declaration::Static(&CLASS_OWNER), CREATOR, write_creator);
pub static RECORD_OWNER_SHAPE: RowShape = RowShape::new(Declaration::Static(&RECORD_OWNER), CREATOR, write_creator);

fn write_creator(
    out: &mut JsonWriter,
    _: RowForm,
    row: &RowCells<'_>,
    at: usize,
    _: &kit::request::Request,
) -> Result<(), StoreError> {
    out.name("created_by").opt_text(row.text(at)?);
    Ok(())
}

/// The rows of a collection of owners, from a subselect `o` with the columns `id`, `user_id`, `created_at` and `created_by`.
/// Deleted and anonymized accounts own nothing.
pub fn rows_of(ownerships: &Sql) -> Sql {
    let mut sql = Sql::new(
        "SELECT o.id, u.id AS owner_id, u.full_name AS name, u.full_name_fold AS name_fold, o.created_at, o.created_by \
         FROM (",
    );
    sql.append(ownerships)
        .push(") o JOIN users u ON u.id = o.user_id AND u.is_deleted = 0 AND u.status <> 'anonymized'");
    sql
}

/// Refuses users whom the caller may not make owners of a `thing`.
pub fn check_users(conn: &mut Conn, caller: &Caller, users: &[UserId], thing: &str) -> Result<(), Refusal> {
    let unlisted = |user| format!("You do not have permission to make user {user} the owner of the {thing}.");
    check_each(conn, caller, Principals::Users, users, "owner", unlisted)
}

/// The schema document of a collection of owners, with the build's limit.
pub fn document(resource: &Resource, limit: i64) -> serde_json::Value {
    let mut document = resource::options::document(resource);
    // The other fields appear only in answers.
    let is_column = |name: &serde_json::Value| name != "type" && name != "user";
    if let Some(columns) = document["list"]["columns"].as_array_mut() {
        columns.retain(|column| is_column(&column["alias"]));
    }
    document["restrictions"]["limit_items"] = limit.into();
    document
}
