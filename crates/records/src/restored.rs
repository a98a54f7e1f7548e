//! The tables of classes in a build that an archive fills (`platform/src/moving/import.rs`): created from the stored fields, then
//! filled by the import, then indexed.

use crate::classes::{Class, ClassField, FIELD_COLUMNS, read_field};
use crate::object_records::texts::words_of_page;
use crate::tables;
use kit::ids::ClassId;
use store::{Conn, Sql, StoreError};

/// Returns the classes of a build.
pub fn class_ids(conn: &mut Conn) -> Result<Vec<ClassId>, StoreError> {
    conn.query_all(&Sql::new("SELECT id FROM object_classes ORDER BY id"), |row| row.id(0))
}

/// Creates the tables of a class.
pub fn create_tables(conn: &mut Conn, class: ClassId) -> Result<(), StoreError> {
    let fields = fields_of(conn, class)?;
    tables::restore_class(conn, class, &fields)
}

/// Creates the indexes of a class after its rows are stored.
///
/// # Errors
/// [`StoreError::Unique`] if two records have the same value in a unique field.
pub fn create_indexes(conn: &mut Conn, class: ClassId) -> Result<(), StoreError> {
    let fields = fields_of(conn, class)?;
    tables::restore_indexes(conn, class, &fields)
}

/// Adds some records of a class to the text search, from the record after the number `after`. Returns the number of the last
/// record, or `None` if there was none.
pub fn add_words(conn: &mut Conn, class: ClassId, after: i64, most: i64) -> Result<Option<i64>, StoreError> {
    match Class::load(conn, class)? {
        Some(class) => words_of_page(conn, &class, after, most),
        None => Ok(None),
    }
}

/// Makes the count of a class's records that of its stored records.
pub fn count_records(conn: &mut Conn, class: ClassId) -> Result<(), StoreError> {
    let mut stored = Sql::new("SELECT count(*) FROM ");
    let stored = conn.query_one(stored.name(&crate::classes::table(class)), |row| row.int(0))?;
    if crate::counts::sum(conn, class)? == stored {
        return Ok(());
    }
    conn.exec(&Sql::new("DELETE FROM record_counts WHERE class_id = $1").arg(class))?;
    let sql = Sql::new("INSERT INTO record_counts(class_id, slot, n) VALUES ($1, 0, $2)");
    conn.exec(&sql.arg(class).arg(stored)).map(drop)
}

fn fields_of(conn: &mut Conn, class: ClassId) -> Result<Vec<ClassField>, StoreError> {
    let mut sql = Sql::new("SELECT ");
    sql.push(FIELD_COLUMNS).push(" FROM object_class_fields f WHERE f.class_id = ").bind(class).push(" ORDER BY f.id");
    conn.query_all(&sql, read_field)
}
