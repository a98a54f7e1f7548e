//! Loads, inserts, updates and deletes a row, with its audit fields and its entry in the administration log.

use super::sealed;
use super::shape::{NOW, RowShape};
use super::sql::{OWN, push_joins, to_argument, value};
use super::view::view_id;
use crate::answer::etag;
use crate::ids::UserId;
use crate::limits;
use crate::log;
use crate::reactions::{self, ReactionTime};
use crate::refusal::Refusal;
use crate::request::Request;
use resource::{Changes, CheckedValue, ColumnSource, Errors, Field, FieldKind, Resource, fold, message};
use serde_json::{Map, Value as Json};
use store::{Argument, Conn, Row, Sql, StoreError};

/// Loads and locks the row that a PATCH changes, and checks `If-Match`; 404 if there is no row, 412 if its state differs.
pub fn load_for_change(request: &Request, conn: &mut Conn, shape: &RowShape, id: i64) -> Result<Changes, Refusal> {
    let stored = load(conn, shape, id)?.ok_or_else(Refusal::not_found)?;
    check_if_match(request, conn, shape, id)?;
    Ok(stored)
}

/// Refuses with 412 if `If-Match` names another state of a row than the current one.
pub fn check_if_match(request: &Request, conn: &mut Conn, shape: &RowShape, id: i64) -> Result<(), Refusal> {
    request.check_if_match(|| Ok(etag(&view_id(request, conn, shape, id)?)))
}

/// Loads the stored values of a row and locks it for a change; `None` if there is no row.
pub fn load(conn: &mut Conn, shape: &RowShape, id: i64) -> Result<Option<Changes>, StoreError> {
    values(conn, shape, id, " FOR UPDATE")
}

/// Loads the stored values of a row without a lock; `None` if there is no row.
pub fn load_shared(conn: &mut Conn, shape: &RowShape, id: i64) -> Result<Option<Changes>, StoreError> {
    values(conn, shape, id, "")
}

fn values(conn: &mut Conn, shape: &RowShape, id: i64, lock: &'static str) -> Result<Option<Changes>, StoreError> {
    let (mut lock, mut sql) = (lock, Sql::new(""));
    if !lock.is_empty() && !shape.resource.further_tables.is_empty() {
        // PostgreSQL does not lock rows of an outer join. Only a later statement reads the changes of the
        // further tables for which the lock has waited.
        let mut locked = Sql::new("SELECT 1 FROM ");
        locked.name(&shape.resource.table).push(" t WHERE t.id = ").bind(id).push(std::mem::take(&mut lock));
        if conn.query_optional(&locked, |_| Ok(()))?.is_none() {
            return Ok(None);
        }
    }
    sql.append_with(shape.stored.get_or_init(|| select_stored(&shape.resource)), [id.into()]).push(lock);
    conn.query_optional(&sql, |row| {
        let mut values = Changes::new();
        for (at, field) in stored_fields(&shape.resource).enumerate() {
            values.insert(field.name.clone(), stored_value(field, row, at)?);
        }
        Ok(values)
    })
}

fn stored_fields(resource: &Resource) -> impl Iterator<Item = &Field> {
    resource.fields.iter().filter(|field| match field.source {
        ColumnSource::Column(_) | ColumnSource::Sealed(_) => true,
        ColumnSource::Members(_) => field.is_writable(),
        ColumnSource::Sql(_) | ColumnSource::None => false,
    })
}

fn select_stored(resource: &Resource) -> Sql {
    let mut sql = Sql::new("SELECT ");
    for (n, field) in stored_fields(resource).enumerate() {
        sql.push(if n > 0 { ", " } else { "" });
        value(&mut sql, OWN, field, NOW);
    }
    sql.push(" FROM ").name(&resource.table).push(" t");
    push_joins(&mut sql, OWN, resource, stored_fields(resource));
    sql.push(" WHERE t.id = ").bind(0);
    sql
}

/// Reads the stored value of a field from a column.
pub fn stored_value(field: &Field, row: &Row, at: usize) -> Result<CheckedValue, StoreError> {
    Ok(match &field.kind {
        FieldKind::Boolean => row.opt_int(at)?.map(|value| value != 0).into(),
        FieldKind::Integer { .. }
        | FieldKind::DateTime
        | FieldKind::User
        | FieldKind::UserId
        | FieldKind::Reference { .. }
        | FieldKind::File { .. } => row.opt_int(at)?.into(),
        FieldKind::References { .. } => {
            let ids = row.opt_text(at)?.unwrap_or("").split(',').filter_map(|id| id.parse().ok());
            let mut ids: Vec<i64> = ids.collect();
            ids.sort_unstable();
            CheckedValue::List(ids.into_iter().map(CheckedValue::Int).collect())
        }
        FieldKind::Texts { .. } | FieldKind::Set { .. } | FieldKind::Files { .. } => {
            let items: Vec<Json> = row.opt_json(at)?.unwrap_or_default();
            let item = |item: Json| match item {
                Json::String(text) => CheckedValue::Text(text),
                other => other.as_i64().map_or(CheckedValue::Json(other), CheckedValue::Int),
            };
            CheckedValue::List(items.into_iter().map(item).collect())
        }
        FieldKind::Decimal { scale, .. } => {
            row.opt_text(at)?.map(|text| resource::decimal::decode(text, *scale)).into()
        }
        FieldKind::Json { .. } => {
            row.opt_text(at)?.map_or(CheckedValue::Null, |text| CheckedValue::JsonText(text.to_owned()))
        }
        FieldKind::Object | FieldKind::List => row.opt_json(at)?.map_or(CheckedValue::Null, CheckedValue::Json),
        _ => row.opt_text(at)?.map(str::to_owned).into(),
    })
}

/// Inserts a row with its secrets and audit fields, writes the administration log, runs the reactions and counts the
/// row under its limit. `extra` are columns that no field of the declaration writes.
pub fn insert(
    request: &Request,
    conn: &mut Conn,
    resource: &Resource,
    changes: &Changes,
    extra: &[(&'static str, Argument)],
) -> Result<i64, Refusal> {
    let user = request.writer();
    let mut columns = sealed::columns(request, resource, changes, true);
    columns.extend(extra.iter().cloned());
    let id = insert_row(conn, resource, changes, &columns, request.now, user)?;
    log::write(request, conn, "create", resource, id, &log::name_of(changes), log::diff_of_create(resource, changes))?;
    reactions::run(request, conn, &resource.name, ReactionTime::Created, id)?;
    if let Some(limit) = resource.limit {
        // This is the last step, since it locks the counter's row: other creates wait for it until the commit.
        limits::count_row(conn, limit)?;
    }
    Ok(id)
}

/// Inserts a row with its audit fields alone, for code without a request, such as the command line.
pub fn insert_row(
    conn: &mut Conn,
    resource: &Resource,
    changes: &Changes,
    extra: &[(&'static str, Argument)],
    now: i64,
    user: Option<UserId>,
) -> Result<i64, Refusal> {
    let mut columns: Vec<(String, Argument)> = stored_columns(resource, 0, changes);
    columns.extend(extra.iter().map(|(name, arg)| ((*name).to_owned(), arg.clone())));
    for (name, arg) in [
        ("created_at", now.into()),
        ("modified_at", now.into()),
        ("created_by", user.into()),
        ("modified_by", user.into()),
    ] {
        if resource.field(name).is_some() && !columns.iter().any(|(column, _)| column == name) {
            columns.push((name.to_owned(), arg));
        }
    }
    let mut sql = Sql::new("INSERT INTO ");
    sql.name(&resource.table).push("(");
    for (n, (column, _)) in columns.iter().enumerate() {
        sql.push(if n > 0 { ", " } else { "" }).name(column);
    }
    sql.push(") VALUES (");
    for (n, (_, arg)) in columns.into_iter().enumerate() {
        sql.push(if n > 0 { ", " } else { "" }).bind(arg);
    }
    sql.push(") RETURNING id");
    let id = conn.query_one(&sql, |row| row.int(0)).map_err(|error| unique(resource, error))?;
    set_elsewhere(conn, resource, id, changes)?;
    Ok(id)
}

/// Updates a row with its secrets and audit fields, logs the fields whose values differ from `before`, and runs the
/// reactions.
pub fn update(
    request: &Request,
    conn: &mut Conn,
    resource: &Resource,
    id: i64,
    before: &Changes,
    changes: &Changes,
    extra: &[(&'static str, Argument)],
) -> Result<(), Refusal> {
    let user = request.writer();
    let mut columns = sealed::columns(request, resource, changes, false);
    columns.extend(extra.iter().cloned());
    update_row(conn, resource, id, changes, &columns, request.now, user)?;
    let changed = log::diff_of_edit(resource, before, changes);
    if !changed.is_empty() {
        let name = if log::name_of(changes).is_empty() { log::name_of(before) } else { log::name_of(changes) };
        log::write(request, conn, "edit", resource, id, &name, changed)?;
    }
    reactions::run(request, conn, &resource.name, ReactionTime::Changed, id)
}

/// Updates a row with its audit fields alone.
pub fn update_row(
    conn: &mut Conn,
    resource: &Resource,
    id: i64,
    changes: &Changes,
    extra: &[(&'static str, Argument)],
    now: i64,
    user: Option<UserId>,
) -> Result<(), Refusal> {
    let mut sql = Sql::new("UPDATE ");
    sql.name(&resource.table).push(" SET modified_at = ").bind(now).push(", modified_by = ").bind(user);
    for (column, arg) in stored_columns(resource, 0, changes) {
        sql.push(", ").name(&column).push(" = ").bind(arg);
    }
    for (column, arg) in extra {
        sql.push(", ").name(column).push(" = ").bind(arg.clone());
    }
    sql.push(" WHERE id = ").bind(id);
    // A violation of a unique index is reported on its field.
    if changes.iter().any(|(name, _)| resource.field(name).is_some_and(|field| field.unique.is_some())) {
        conn.exec(&sql).map_err(|error| unique(resource, error))?;
    } else {
        conn.exec_later(&sql)?;
    }
    set_elsewhere(conn, resource, id, changes)
}

/// Runs the reactions, which may refuse. Then deletes a row, decrements the counter of its limit and writes the administration log.
pub fn delete(request: &Request, conn: &mut Conn, resource: &Resource, id: i64, name: &str) -> Result<(), Refusal> {
    reactions::run(request, conn, &resource.name, ReactionTime::Leaving, id)?;
    let from = |table: &str| {
        let mut sql = Sql::new("DELETE FROM ");
        sql.name(table).push(" WHERE id = ").bind(id);
        sql
    };
    if conn.exec(&from(&resource.table))? == 0 {
        return Err(Refusal::not_found());
    }
    for table in &resource.further_tables {
        conn.exec(&from(table))?;
    }
    if let Some(limit) = resource.limit {
        limits::give_back(conn, limit)?;
    }
    log::write(request, conn, "delete", resource, id, name, Map::new())
}

/// Returns the columns of one of the resource's tables that changes write: those of the fields and of their folded texts.
fn stored_columns(resource: &Resource, table: usize, changes: &Changes) -> Vec<(String, Argument)> {
    let mut columns = Vec::new();
    for (name, value) in changes.iter() {
        let Some(field) = resource.field(name).filter(|field| field.table == table) else { continue };
        if let ColumnSource::Column(column) = &field.source {
            columns.push((column.to_string(), to_argument(field, value)));
        }
        if let Some(folded) = &field.folded {
            let text = if let CheckedValue::Text(text) = value { Some(fold(text)) } else { None };
            columns.push((folded.to_string(), text.into()));
        }
    }
    columns
}

/// Writes the values that are stored outside of the resource's own table.
fn set_elsewhere(conn: &mut Conn, resource: &Resource, id: i64, changes: &Changes) -> Result<(), Refusal> {
    for (n, table) in resource.further_tables.iter().enumerate() {
        let columns = stored_columns(resource, n + 1, changes);
        if columns.is_empty() {
            continue;
        }
        let mut sql = Sql::new("INSERT INTO ");
        sql.name(table).push("(id");
        for (column, _) in &columns {
            sql.push(", ").name(column);
        }
        sql.push(") VALUES (").bind(id);
        for (_, arg) in &columns {
            sql.push(", ").bind(arg.clone());
        }
        sql.push(") ON CONFLICT (id) DO UPDATE SET ");
        for (n, (column, _)) in columns.iter().enumerate() {
            sql.push(if n > 0 { ", " } else { "" }).name(column).push(" = excluded.").name(column);
        }
        conn.exec(&sql).map_err(|error| unique(resource, error))?;
    }
    Ok(set_members(conn, resource, id, changes)?)
}

fn set_members(conn: &mut Conn, resource: &Resource, id: i64, changes: &Changes) -> Result<(), StoreError> {
    for field in &resource.fields {
        let (ColumnSource::Members(members), Some(value)) = (&field.source, changes.value(&field.name)) else {
            continue;
        };
        let mut sql = Sql::new("DELETE FROM ");
        sql.name(members.table).push(" WHERE ").name(members.owner).push(" = ").bind(id);
        conn.exec(&sql)?;
        for item in value.ids::<i64>() {
            let mut sql = Sql::new("INSERT INTO ");
            sql.name(members.table).push("(").name(members.owner).push(", ").name(members.item).push(") VALUES (");
            sql.bind(id).push(", ").bind(item).push(")");
            conn.exec(&sql)?;
        }
    }
    Ok(())
}

/// Turns a violation of a unique index into the standard message on the index's field.
fn unique(resource: &Resource, error: StoreError) -> Refusal {
    match &error {
        StoreError::Unique(index) => match resource.field_of_index(index) {
            Some(field) => {
                let error = Errors::single(&field.name, message::UNIQUE);
                let Some(group) = resource.group_of(field) else { return error.into() };
                let mut errors = Errors::new();
                errors.nest(group, error);
                errors.into()
            }
            None => error.into(),
        },
        _ => error.into(),
    }
}
