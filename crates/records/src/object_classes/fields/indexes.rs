//! The indexes of fields (`docs/reference/object-class-fields.md`). The transaction of the change creates an index that makes a
//! field unique. A job creates an index for filters and order, concurrently with writes of records. The field is marked as
//! indexed when the index exists.

use super::field::{IS_INDEXED, IS_UNIQUE, MAX_LENGTH};
use crate::classes::{ClassField, FIELD_COLUMNS, read_field};
use crate::field_type::{FieldType, MAX_INDEXED_LENGTH};
use crate::object_classes::raise_version;
use crate::tables;
use kit::build::Build;
use kit::ids::{ClassId, FieldId};
use kit::jobs::{self, Job, JobFailure, JobKind, NewJob};
use kit::refusal::Refusal;
use kit::request::Request;
use resource::{Errors, message};
use serde_json::json;
use std::sync::Arc;
use store::{Conn, Sql, StoreError};

/// The maximum number of indexed fields of a class.
const MAX_INDEXED: i64 = 20;

/// Creates the requested index of a field.
pub static INDEX: JobKind = JobKind {
    name: "object_class_field_index",
    runs_again: true,
    run: |_, build, job| Box::pin(make(build, job)),
    ..JobKind::LONG
};

/// Checks whether the future state of a field may be unique or indexed.
pub fn check(kind: Option<FieldType>, after: &ClassField, wants_index: bool, errors: &mut Errors) {
    for (name, _) in
        [(IS_UNIQUE.name(), after.is_unique), (IS_INDEXED.name(), wants_index)].iter().filter(|(_, is_set)| *is_set)
    {
        if let Some(kind) = kind.filter(|kind| !kind.is_indexable()) {
            errors.add(name, format!("This field cannot be true for the type {}.", kind.name()));
        }
    }
    let is_too_long = after.max_length.is_some_and(|length| length > MAX_INDEXED_LENGTH);
    if (after.is_unique || wants_index) && is_too_long && kind == Some(FieldType::String) {
        errors.add(MAX_LENGTH.name(), message::too_big(MAX_INDEXED_LENGTH));
    }
}

/// Refuses one more index if the class, whose row is locked, has the maximum number.
pub fn check_count(conn: &mut Conn, class: ClassId) -> Result<(), Refusal> {
    let sql = Sql::new("SELECT count(*) FROM object_class_fields WHERE class_id = $1 AND wants_index = 1");
    if conn.query_one(&sql.arg(class), |row| row.int(0))? >= MAX_INDEXED {
        return Err(Refusal::limit(format!("Limit of {MAX_INDEXED} Indexed Fields has been exceeded.")));
    }
    Ok(())
}

/// Makes a field unique.
pub fn make_unique(conn: &mut Conn, class: ClassId, field: &ClassField) -> Result<(), Refusal> {
    check_lengths(conn, class, field, IS_UNIQUE.name())?;
    tables::make_unique(conn, class, field).map_err(|error| match error {
        StoreError::Unique(_) => Errors::single(IS_UNIQUE.name(), message::UNIQUE).into(),
        error => error.into(),
    })
}

/// Queues the creation of a field's index.
pub fn want(request: &Request, conn: &mut Conn, class: ClassId, field: &ClassField) -> Result<(), Refusal> {
    check_lengths(conn, class, field, IS_INDEXED.name())?;
    let key = field.id.to_string();
    let payload = json!({"class": class, "field": field.id});
    jobs::enqueue(request, conn, &NewJob { kind: &INDEX, payload, key: Some(&key), not_before: request.now })?;
    Ok(())
}

/// Refuses an index over texts that were stored under a higher bound.
fn check_lengths(conn: &mut Conn, class: ClassId, field: &ClassField, name: &str) -> Result<(), Refusal> {
    if field.kind == FieldType::String && tables::has_longer(conn, class, field, MAX_INDEXED_LENGTH)? {
        return Err(Errors::single(name, message::too_long(MAX_INDEXED_LENGTH as usize)).into());
    }
    Ok(())
}

async fn make(build: Arc<Build>, job: Job) -> Result<(), JobFailure> {
    let failed = |error: StoreError| JobFailure::new(error.to_string());
    let id = |name: &str| job.payload[name].as_i64().unwrap_or(0);
    let (class, field) = (ClassId::new(id("class")), FieldId::new(id("field")));
    let load_field = move |conn: &mut Conn| -> Result<Option<ClassField>, StoreError> {
        let mut sql = Sql::new("SELECT ");
        sql.push(FIELD_COLUMNS)
            .push(" FROM object_class_fields f WHERE f.wants_index = 1 AND f.is_indexed = 0 AND f.id = ");
        conn.query_optional(sql.bind(field), read_field)
    };
    let Some(field) = build.db.read(load_field).await.map_err(failed)? else { return Ok(()) };
    let indexed_field = field.clone();
    build
        .db
        .run_outside_transaction(move |conn| tables::make_index(conn, class, &indexed_field))
        .await
        .map_err(failed)?;
    let finish = move |conn: &mut Conn| -> Result<(), StoreError> {
        let lock = Sql::new("SELECT id FROM object_classes WHERE id = $1 FOR UPDATE").arg(class);
        conn.query_optional(&lock, |_| Ok(()))?;
        let sql = Sql::new("UPDATE object_class_fields SET is_indexed = 1 WHERE id = $1 AND wants_index = 1");
        match conn.exec(&sql.arg(field.id))? {
            // The index is not requested any more.
            0 => tables::drop_index(conn, class, &field),
            _ => raise_version(conn, class),
        }
    };
    build.db.alter(finish).await.map_err(failed)
}
