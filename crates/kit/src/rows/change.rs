//! Loads, inserts, updates and deletes a row, with its audit fields and its entry in the administration log.

use super::sealed;
use super::shape::{NOW, Shape};
use super::sql::{stored, value};
use super::view::view_id;
use crate::answer::etag;
use crate::limits;
use crate::log;
use crate::reactions::{self, When};
use crate::refusal::Refusal;
use crate::request::Request;
use resource::{Changes, Field, Kind, Resource, Source, Value, fold, message};
use serde_json::{Map, Value as Json};
use store::{Arg, Conn, Error, Row, Sql};

/// Loads and locks the row that a PATCH changes, and checks `If-Match`; 404 when there is no row, 412 when its state is
/// another.
pub fn load_for_change(request: &Request, conn: &mut Conn, shape: &Shape, id: i64) -> Result<Changes, Refusal> {
    let stored = load(conn, shape, id)?.ok_or_else(Refusal::not_found)?;
    check_if_match(request, conn, shape, id)?;
    Ok(stored)
}

/// 412 when `If-Match` names another state of a row than the current one.
pub fn check_if_match(request: &Request, conn: &mut Conn, shape: &Shape, id: i64) -> Result<(), Refusal> {
    request.check_if_match(|| Ok(etag(&view_id(request, conn, shape, id)?)))
}

/// Loads the stored values of a row and locks it for a change; `None` when there is no row.
pub fn load(conn: &mut Conn, shape: &Shape, id: i64) -> Result<Option<Changes>, Error> {
    values(conn, shape, id, " FOR UPDATE")
}

/// Loads the stored values of a row without a lock; `None` when there is no row.
pub fn load_shared(conn: &mut Conn, shape: &Shape, id: i64) -> Result<Option<Changes>, Error> {
    values(conn, shape, id, "")
}

fn values(conn: &mut Conn, shape: &Shape, id: i64, lock: &'static str) -> Result<Option<Changes>, Error> {
    let mut sql = Sql::new("");
    sql.append_with(shape.stored.get_or_init(|| select_stored(&shape.resource)), [id.into()]).push(lock);
    conn.opt(&sql, |row| {
        let mut values = Changes::new();
        for (at, field) in stored_fields(&shape.resource).enumerate() {
            values.insert(field.name.clone(), stored_value(field, row, at)?);
        }
        Ok(values)
    })
}

fn stored_fields(resource: &Resource) -> impl Iterator<Item = &Field> {
    resource
        .fields
        .iter()
        .filter(|field| matches!(field.source, Source::Column(_) | Source::Members(_) | Source::Sealed(_)))
}

fn select_stored(resource: &Resource) -> Sql {
    let mut sql = Sql::new("SELECT ");
    for (n, field) in stored_fields(resource).enumerate() {
        sql.push(if n > 0 { ", " } else { "" });
        value(&mut sql, field, NOW);
    }
    sql.push(" FROM ").name(&resource.table).push(" t WHERE t.id = ").bind(0);
    sql
}

fn stored_value(field: &Field, row: &Row, at: usize) -> Result<Value, Error> {
    Ok(match &field.kind {
        Kind::Boolean => row.opt_int(at)?.map(|value| value != 0).into(),
        Kind::Integer { .. } | Kind::DateTime | Kind::User | Kind::Reference { .. } => row.opt_int(at)?.into(),
        Kind::References { .. } => {
            let ids = row.opt_text(at)?.unwrap_or("").split(',').filter_map(|id| id.parse().ok());
            let mut ids: Vec<i64> = ids.collect();
            ids.sort_unstable();
            Value::List(ids.into_iter().map(Value::Int).collect())
        }
        Kind::Texts { .. } | Kind::Set { .. } | Kind::Files { .. } => {
            let items: Vec<Json> =
                row.opt_text(at)?.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
            let item = |item: Json| match item {
                Json::String(text) => Value::Text(text),
                other => other.as_i64().map_or(Value::Json(other), Value::Int),
            };
            Value::List(items.into_iter().map(item).collect())
        }
        Kind::Decimal { scale, .. } => row.opt_text(at)?.map(|text| resource::decimal::decode(text, *scale)).into(),
        Kind::Json { .. } | Kind::Object => {
            row.opt_text(at)?.and_then(|text| serde_json::from_str(text).ok()).map_or(Value::Null, Value::Json)
        }
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
    extra: &[(&'static str, Arg)],
) -> Result<i64, Refusal> {
    let by = request.caller.as_ref().map(|caller| caller.user);
    let mut columns = sealed::columns(request, resource, changes, true);
    columns.extend(extra.iter().cloned());
    let id = insert_row(conn, resource, changes, &columns, request.now, by)?;
    log::write(request, conn, "create", resource, id, &log::name_of(changes), log::created(resource, changes))?;
    reactions::run(request, conn, &resource.name, When::Created, id)?;
    if let Some(limit) = resource.limit {
        // Last, since it locks the counter's row: other creates wait for it until the commit.
        limits::take(conn, limit)?;
    }
    Ok(id)
}

/// Inserts a row with its audit fields alone, where there is no request: on the command line.
pub fn insert_row(
    conn: &mut Conn,
    resource: &Resource,
    changes: &Changes,
    extra: &[(&'static str, Arg)],
    now: i64,
    by: Option<i64>,
) -> Result<i64, Refusal> {
    let mut columns: Vec<(String, Arg)> = stored_columns(resource, changes);
    columns.extend(extra.iter().map(|(name, arg)| ((*name).to_owned(), arg.clone())));
    for (name, arg) in
        [("created_at", now.into()), ("modified_at", now.into()), ("created_by", by.into()), ("modified_by", by.into())]
    {
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
    let id = conn.one(&sql, |row| row.int(0)).map_err(|error| unique(resource, error))?;
    set_members(conn, resource, id, changes)?;
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
    extra: &[(&'static str, Arg)],
) -> Result<(), Refusal> {
    let by = request.caller.as_ref().map(|caller| caller.user);
    let mut sql = Sql::new("UPDATE ");
    sql.name(&resource.table).push(" SET modified_at = ").bind(request.now).push(", modified_by = ").bind(by);
    for (column, arg) in stored_columns(resource, changes) {
        sql.push(", ").name(&column).push(" = ").bind(arg);
    }
    for (column, arg) in sealed::columns(request, resource, changes, false).iter().chain(extra) {
        sql.push(", ").name(column).push(" = ").bind(arg.clone());
    }
    sql.push(" WHERE id = ").bind(id);
    conn.exec(&sql).map_err(|error| unique(resource, error))?;
    set_members(conn, resource, id, changes)?;
    let changed = log::changed(resource, before, changes);
    if !changed.is_empty() {
        let name = if log::name_of(changes).is_empty() { log::name_of(before) } else { log::name_of(changes) };
        log::write(request, conn, "edit", resource, id, &name, changed)?;
    }
    reactions::run(request, conn, &resource.name, When::Changed, id)
}

/// Runs the reactions, which may refuse, then deletes a row, uncounts it under its limit and writes the administration
/// log.
pub fn delete(request: &Request, conn: &mut Conn, resource: &Resource, id: i64, name: &str) -> Result<(), Refusal> {
    reactions::run(request, conn, &resource.name, When::Leaving, id)?;
    let mut sql = Sql::new("DELETE FROM ");
    sql.name(&resource.table).push(" WHERE id = ").bind(id);
    if conn.exec(&sql)? == 0 {
        return Err(Refusal::not_found());
    }
    if let Some(limit) = resource.limit {
        limits::give_back(conn, limit)?;
    }
    log::write(request, conn, "delete", resource, id, name, Map::new())
}

/// The columns that changes write: those of the fields, and those of their folded texts.
fn stored_columns(resource: &Resource, changes: &Changes) -> Vec<(String, Arg)> {
    let mut columns = Vec::new();
    for (name, value) in changes.iter() {
        let Some(field) = resource.field(name) else { continue };
        if let Source::Column(column) = &field.source {
            columns.push((column.to_string(), stored(field, value)));
        }
        if let (Some(folded), Value::Text(text)) = (&field.folded, value) {
            columns.push((folded.to_string(), fold(text).into()));
        }
    }
    columns
}

fn set_members(conn: &mut Conn, resource: &Resource, id: i64, changes: &Changes) -> Result<(), Error> {
    for field in &resource.fields {
        let (Source::Members(members), Some(value)) = (&field.source, changes.value(&field.name)) else { continue };
        let mut sql = Sql::new("DELETE FROM ");
        sql.name(members.table).push(" WHERE ").name(members.owner).push(" = ").bind(id);
        conn.exec(&sql)?;
        for item in value.ids() {
            let mut sql = Sql::new("INSERT INTO ");
            sql.name(members.table).push("(").name(members.owner).push(", ").name(members.item).push(") VALUES (");
            sql.bind(id).push(", ").bind(item).push(")");
            conn.exec(&sql)?;
        }
    }
    Ok(())
}

/// Turns a violation of a unique index into the standard message on the index's field.
fn unique(resource: &Resource, error: Error) -> Refusal {
    match &error {
        Error::Unique(index) => match resource.field_of_index(index) {
            Some(field) => Refusal::field(&field.name, message::UNIQUE),
            None => error.into(),
        },
        _ => error.into(),
    }
}
