//! Checks a body against its declaration in the transaction of the write: the rules of its fields,
//! uniqueness and unknown ids. All errors are reported together.

use super::sql::{OWN, column, push_joins, to_argument};
use crate::refusal::Refusal;
use resource::{
    CheckedBody, CheckedValue, ColumnSource, DatabaseChecks, Field, FieldKind, Resource, SentObject, WriteMode, accept,
    fold,
};
use store::{Argument, Conn, Sql, StoreError};

/// Checks a body against the declaration, in the transaction of the write. `id` is the row that a PATCH changes.
pub fn check_body(
    conn: &mut Conn,
    resource: &Resource,
    body: &SentObject<'_>,
    id: Option<i64>,
) -> Result<CheckedBody, Refusal> {
    let mode = if id.is_some() { WriteMode::Edit } else { WriteMode::Create };
    Ok(accept(resource, body, mode, &mut InTransaction { conn, resource, id, scope: None })?)
}

/// Checks a body like [`check_body`]. Names are unique only among the rows with the column and value of `scope`.
pub fn accepted_within(
    conn: &mut Conn,
    resource: &Resource,
    body: &SentObject<'_>,
    id: Option<i64>,
    scope: (&'static str, i64),
) -> Result<CheckedBody, Refusal> {
    let mode = if id.is_some() { WriteMode::Edit } else { WriteMode::Create };
    Ok(accept(resource, body, mode, &mut InTransaction { conn, resource, id, scope: Some(scope) })?)
}

struct InTransaction<'a> {
    conn: &'a mut Conn,
    resource: &'a Resource,
    id: Option<i64>,
    scope: Option<(&'static str, i64)>,
}

impl DatabaseChecks for InTransaction<'_> {
    type Error = StoreError;

    /// Returns the ids that do not exist. Existing rows are locked until the end of the write, so that they
    /// cannot be deleted or changed. A role, for example, could otherwise get more permissions meanwhile.
    fn missing_ids(&mut self, field: &Field, ids: &[i64]) -> Result<Vec<i64>, StoreError> {
        let table = match &field.kind {
            FieldKind::Reference { target } | FieldKind::References { target, .. } => target.table.as_ref(),
            _ => "users",
        };
        let existing_ids = select_existing(self.conn, table, ids, " ORDER BY t.id FOR SHARE")?;
        Ok(ids.iter().copied().filter(|id| !existing_ids.contains(id)).collect())
    }

    fn is_taken(&mut self, field: &Field, value: &CheckedValue) -> Result<bool, StoreError> {
        let (name, value) = match (&field.folded, &field.source, value) {
            (Some(folded), _, CheckedValue::Text(text)) if !field.is_unique_exactly => {
                (folded.as_ref(), Argument::from(fold(text)))
            }
            (_, ColumnSource::Column(name), value) => (name.as_ref(), to_argument(field, value)),
            _ => return Ok(false),
        };
        let mut sql = Sql::new("SELECT 1 FROM ");
        sql.name(&self.resource.table).push(" t");
        push_joins(&mut sql, OWN, self.resource, [field]);
        sql.push(" WHERE ");
        column(&mut sql, OWN, field, name);
        sql.push(" = ").bind(value);
        sql.push(" AND t.id <> ").bind(self.id.unwrap_or(0));
        if let Some(alive) = self.resource.alive {
            sql.push(" AND ").push(alive);
        }
        if let Some((column, value)) = self.scope {
            sql.push(" AND t.").name(column).push(" = ").bind(value);
        }
        Ok(self.conn.query_optional(&sql, |_| Ok(()))?.is_some())
    }
}

/// Returns the ids that exist in a table; deleted users do not exist.
pub fn existing_ids(conn: &mut Conn, table: &str, ids: &[i64]) -> Result<Vec<i64>, StoreError> {
    select_existing(conn, table, ids, "")
}

fn select_existing(conn: &mut Conn, table: &str, ids: &[i64], lock: &'static str) -> Result<Vec<i64>, StoreError> {
    let mut sql = Sql::new("SELECT t.id FROM ");
    sql.name(table).push(" t WHERE t.id IN (");
    for (n, id) in ids.iter().enumerate() {
        sql.push(if n > 0 { ", " } else { "" }).bind(*id);
    }
    sql.push(")");
    if table == "users" {
        sql.push(" AND t.is_deleted = 0");
    }
    conn.query_all(sql.push(lock), |row| row.int(0))
}
