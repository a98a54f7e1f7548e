//! Converts records of older versions to the current forms for comparison: folded copies in form NFC, words without marks and by
//! pairs of characters, and unique fields whose index compares form NFC. `platform/src/text_forms.rs` has the passes.

use crate::classes::{ClassField, FIELD_COLUMNS, class, raise_version, read_field};
use crate::object_records::texts::refold_page;
use crate::tables;
use kit::app::App;
use kit::build::Build;
use kit::ids::{ClassId, FieldId};
use store::{Conn, Sql, StoreError};

/// The number of records that one step reads.
const RECORDS_IN_STEP: i64 = 200;

/// Refolds some records of a class, from the record after the number `after`. Records whose last change is before `since` are
/// skipped. Returns the number of the last record, or `None` if there was none.
pub fn refold_records(
    app: &App,
    build: &Build,
    conn: &mut Conn,
    id: ClassId,
    (after, changed_since): (i64, i64),
) -> Result<Option<i64>, StoreError> {
    if class(app, build, conn, id)?.is_none() {
        return Ok(None);
    }
    tables::lock_for_write(conn, id)?;
    // The class may have changed during the wait for the lock.
    match class(app, build, conn, id)? {
        Some(class) => refold_page(conn, &class, after, RECORDS_IN_STEP, changed_since),
        None => Ok(None),
    }
}

/// Returns the next field after this id that is unique by its stored texts, with its class.
pub fn next_unique_by_stored_texts(
    conn: &mut Conn,
    after: FieldId,
) -> Result<Option<(ClassId, ClassField)>, StoreError> {
    let at = FIELD_COLUMNS.split(',').count();
    let mut sql = Sql::new("SELECT ");
    sql.push(FIELD_COLUMNS).push(
        ", f.class_id FROM object_class_fields f WHERE f.is_unique = 1 AND f.unique_in_nfc = 0 \
         AND f.type IN ('string', 'email') AND f.id > ",
    );
    conn.query_optional(sql.bind(after).push(" ORDER BY f.id LIMIT 1"), |row| Ok((row.id(at)?, read_field(row)?)))
}

/// Creates the index of a field that compares form NFC. For [`store::Database::run_outside_transaction`]. Returns `false` if two
/// records have the same text in several forms. Both then remain, and the field stays unique by its stored texts.
pub fn index_in_nfc(conn: &mut Conn, class: ClassId, field: &ClassField) -> Result<bool, StoreError> {
    match tables::make_unique_in_nfc(conn, class, field) {
        Ok(()) => Ok(true),
        Err(StoreError::Unique(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the index of [`index_in_nfc`] the only unique index of a field. For [`store::Database::alter`].
pub fn use_index_in_nfc(conn: &mut Conn, class: ClassId, field: &ClassField) -> Result<(), StoreError> {
    let lock = Sql::new("SELECT id FROM object_classes WHERE id = $1 FOR UPDATE").arg(class);
    conn.query_optional(&lock, |_| Ok(()))?;
    let sql = Sql::new("SELECT 1 FROM object_class_fields WHERE id = $1 AND is_unique = 1").arg(field.id);
    match conn.query_optional(&sql, |_| Ok(()))? {
        Some(()) => tables::replace_unique(conn, class, field)?,
        None => tables::drop_unique(conn, class, field)?,
    }
    raise_version(conn, class)
}
