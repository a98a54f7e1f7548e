//! Functions for other modules on single records: load them with the caller's actions, and change their values.

use crate::classes::{Class, ClassField, table};
use crate::field_type::FieldType;
use crate::object_records::change::{self, Edit};
use crate::object_records::{record_access, write};
use crate::rights::{ClassRights, select_held};
use kit::caller::Caller;
use kit::ids::{ClassId, FileId, RecordId};
use kit::refusal::Refusal;
use kit::request::Request;
use resource::{Changes, Checked, CheckedValue, Errors, SentObject};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use store::{Conn, Sql, StoreError};

pub use crate::object_records::read::{RecordValues, load_values};
pub use crate::object_records::record_access::{
    RecordAccess, for_change, from_open, load, load_from_path, load_record_access,
};
pub use crate::object_records::write::{
    CreatedRecord, RecordChange, RecordHooks, RecordWrite, StoredRecord, WriteKind, each_stored,
};

/// The files in the `document` fields of a record, by the aliases of the fields.
pub fn files_of(conn: &mut Conn, class: &Class, record: RecordId) -> Result<HashMap<String, Vec<FileId>>, StoreError> {
    let mut files = HashMap::new();
    let is_wanted = |field: &ClassField| field.kind == FieldType::Document;
    write::each_stored(conn, class, vec![record], is_wanted, |stored| {
        files.extend(stored.values.iter().map(|(alias, value)| (alias.to_owned(), value.ids())));
    })?;
    Ok(files)
}

/// Adds a file to a `document` field of a record whose row is locked, with the event of the change.
pub fn add_file(
    request: &Request,
    conn: &mut Conn,
    record: &RecordAccess,
    field: &ClassField,
    file: FileId,
) -> Result<(), Refusal> {
    let mut files = files_of(conn, &record.class, record.id)?.remove(&field.alias).unwrap_or_default();
    files.push(file);
    let mut values = Changes::new();
    values.insert(field.alias.clone(), CheckedValue::List(files.into_iter().map(CheckedValue::from).collect()));
    let change = RecordChange::from_values(record.id, record.n, values);
    write::update(request, conn, &record.class, &[change])
}

/// Validates new values of the fields of a record whose row is locked, as the answer to a task of the record. The task
/// authorises the caller, who needs no right on the record. The values may name these files by their ids.
pub fn validate_values(
    request: &Request,
    conn: &mut Conn,
    record: &RecordAccess,
    fields: &SentObject<'_>,
    files: &[FileId],
) -> Result<Checked<RecordChange>, Refusal> {
    let edit = Edit::by_task(record, fields, files);
    Ok(match change::validate_edits(request, conn, &record.class, vec![edit])? {
        Checked::Valid(changes) => {
            changes.into_iter().next().map_or_else(|| Checked::Invalid(Errors::new()), Checked::Valid)
        }
        Checked::Invalid(errors) => {
            Checked::Invalid(errors.into_iter().next().map(|(_, errors)| errors).unwrap_or_default())
        }
    })
}

/// Writes checked values, with the event of the change. Its source is the caller.
pub fn write_values(
    request: &Request,
    conn: &mut Conn,
    record: &RecordAccess,
    change: RecordChange,
) -> Result<(), Refusal> {
    write::update(request, conn, &record.class, &[change])
}

/// The class of the record of this id, or `None` if there is none.
pub fn class_of(conn: &mut Conn, record: RecordId) -> Result<Option<ClassId>, StoreError> {
    conn.query_optional(&Sql::new("SELECT class_id FROM records WHERE id = $1").arg(record), |row| row.id(0))
}

/// The label of a record.
pub fn label(conn: &mut Conn, class: &Arc<Class>, record: RecordId) -> Result<String, StoreError> {
    use crate::object_records::read::{join_label, select_label};
    let mut sql = Sql::new("SELECT ");
    select_label(&mut sql, class, "t");
    join_label(sql.push(" FROM ").name(&class.table()).push(" t"), class, "t");
    conn.query_one(sql.push(" WHERE t.id = ").bind(record), |row| Ok(row.text(0)?.to_owned()))
}

/// The caller's actions on each of these records, even if there are none. Records are pairs of class and id.
pub fn actions_on(
    conn: &mut Conn,
    caller: &Caller,
    records: &[(ClassId, RecordId)],
) -> Result<HashMap<RecordId, i64>, StoreError> {
    let mut by_class: BTreeMap<ClassId, Vec<RecordId>> = BTreeMap::new();
    for (class, record) in records {
        by_class.entry(*class).or_default().push(*record);
    }
    let mut actions = HashMap::new();
    if by_class.is_empty() {
        return Ok(actions);
    }
    let mut sql = Sql::new("SELECT t.id, ");
    select_held(&mut sql, caller);
    sql.push(" FROM object_classes t WHERE t.id").push_any(by_class.keys().copied().collect::<Vec<_>>());
    for (class, on_class) in conn.query_all(&sql, |row| Ok((row.id(0)?, ClassRights::new(caller, row.int(1)?))))? {
        let ids = by_class.remove(&class).unwrap_or_default();
        let mut sql = Sql::new("SELECT t.id, t.owner FROM ");
        sql.name(&table(class)).push(" t WHERE t.id").push_any(ids);
        let owners = conn.query_all(&sql, |row| Ok((row.id(0)?, row.opt_id(1)?)))?;
        actions.extend(record_access::actions(conn, caller, on_class, &owners)?);
    }
    Ok(actions)
}
