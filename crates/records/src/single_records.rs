//! What other domains do with single records: look them up with what the caller may do, and change values of theirs.

use crate::classes::{Class, ClassField};
use crate::field_type::FieldType;
use crate::object_records::{held, write};
use kit::refusal::Refusal;
use kit::request::Request;
use resource::{Changes, Value};
use std::collections::HashMap;
use std::sync::Arc;
use store::{Conn, Error, Sql};

pub use crate::object_records::held::{Held, of_path, of_record};

/// The record of this id with its row locked, when the caller may view it.
pub fn for_change(request: &Request, conn: &mut Conn, id: i64) -> Result<Option<Held>, Refusal> {
    held::for_change(request, conn, id)
}

/// The files that a record holds in its `document` fields, by their aliases.
pub fn files_of(conn: &mut Conn, class: &Class, record: i64) -> Result<HashMap<String, Vec<i64>>, Error> {
    let mut files = HashMap::new();
    let is_wanted = |field: &ClassField| field.kind == FieldType::Document;
    write::each_stored(conn, class, vec![record], is_wanted, |stored| {
        files.extend(stored.values.iter().map(|(alias, value)| (alias.to_owned(), value.ids())));
    })?;
    Ok(files)
}

/// Adds a file to a `document` field of a record whose row is locked, with the event of the change.
pub fn add_file(request: &Request, conn: &mut Conn, held: &Held, field: &ClassField, file: i64) -> Result<(), Refusal> {
    let mut files = files_of(conn, &held.class, held.id)?.remove(&field.alias).unwrap_or_default();
    files.push(file);
    let mut values = Changes::new();
    values.insert(field.alias.clone(), Value::List(files.into_iter().map(Value::Int).collect()));
    let change = write::Change { id: held.id, n: held.n, values, owner: None };
    write::update(request, conn, &held.class, &[change])
}

/// Whether a record of this id is there, in whatever class, and of which.
pub fn class_of(conn: &mut Conn, record: i64) -> Result<Option<i64>, Error> {
    conn.opt(&Sql::new("SELECT class_id FROM records WHERE id = $1").arg(record), |row| row.int(0))
}

/// What a record is called.
pub fn label(conn: &mut Conn, class: &Arc<Class>, record: i64) -> Result<String, Error> {
    use crate::object_records::read::{join_label, select_label};
    let mut sql = Sql::new("SELECT ");
    select_label(&mut sql, class, "t");
    join_label(sql.push(" FROM ").name(&class.table()).push(" t"), class, "t");
    conn.one(sql.push(" WHERE t.id = ").bind(record), |row| Ok(row.text(0)?.to_owned()))
}
