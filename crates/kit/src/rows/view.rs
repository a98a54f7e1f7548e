//! Writes one row as an instance, and rows as list items without the envelope.

use super::list::{Scope, push_table};
use super::page::PageSize;
use super::shape::{RowCells, RowShape};
use super::sql::{OWN, push_joins};
use crate::answer::{Answer, Instance, Outcome};
use crate::limits;
use crate::refusal::Refusal;
use crate::request::Request;
use http::StatusCode;
use resource::json::{JsonWriter, RowForm, write_fields};
use resource::{Resource, options};
use serde_json::Value as Json;
use std::ops::ControlFlow;
use store::{Conn, Sql, StoreError};

/// Reads one row as an instance; `None` if no row fulfils the condition. The condition must not depend on the time of the request.
pub fn view(
    request: &Request,
    conn: &mut Conn,
    shape: &RowShape,
    condition: &Sql,
) -> Result<Option<Instance>, StoreError> {
    let mut sql = Sql::new("SELECT ");
    sql.push(shape.changes_at.unwrap_or("CAST(NULL AS BIGINT)")).push(", ");
    shape.select(RowForm::Detail, &mut sql, request);
    sql.push(" FROM ").name(&shape.resource.table).push(" t");
    push_joins(&mut sql, OWN, &shape.resource, shape.fields(RowForm::Detail));
    sql.push(" WHERE ").append(condition);
    let mut out = JsonWriter::with_capacity(2048);
    let end_of_validity = conn.query_optional(&sql, |row| {
        show(&mut out, shape, RowForm::Detail, &RowCells(row), 1, request)?;
        row.opt_int(0)
    })?;
    let is_cacheable = shape.changes_at.is_some() || !shape.compares(RowForm::Detail);
    Ok(end_of_validity.map(|changes_at| Instance {
        body: out.into_bytes(),
        cacheable_until: is_cacheable.then(|| changes_at.filter(|at| *at > request.now).unwrap_or(i64::MAX)),
    }))
}

/// Reads the rows that fulfil a condition as list items, each with the id in its column `key`.
pub fn records(
    request: &Request,
    conn: &mut Conn,
    shape: &RowShape,
    key: &str,
    condition: &Sql,
) -> Result<Vec<(i64, Vec<u8>)>, Refusal> {
    items(request, conn, shape, key, &Scope::matching(condition.clone()))
}

/// Reads the rows of a scope as list items, each with the id in its column `key`; refuses more than the maximum of a page.
pub fn items(
    request: &Request,
    conn: &mut Conn,
    shape: &RowShape,
    key: &str,
    scope: &Scope,
) -> Result<Vec<(i64, Vec<u8>)>, Refusal> {
    let mut sql = Sql::new("SELECT t.");
    sql.name(key).push(", ");
    shape.select(RowForm::List, &mut sql, request);
    push_table(sql.push(" FROM "), &shape.resource, scope).push(" t");
    push_joins(&mut sql, OWN, &shape.resource, shape.fields(RowForm::List));
    sql.push(" WHERE ").append(&scope.condition);
    let (mut items, mut size) = (Vec::new(), PageSize::default());
    let outcome = conn.for_each_row_until(&sql, |row| {
        let mut out = JsonWriter::with_capacity(512);
        show(&mut out, shape, RowForm::List, &RowCells(row), 1, request)?;
        items.push((row.int(0)?, out.into_bytes()));
        size = PageSize { items: size.items + 1, bytes: size.bytes + items.last().map_or(0, |(_, item)| item.len()) };
        Ok(size.check_in_loop(request))
    })?;
    match outcome {
        ControlFlow::Continue(()) => Ok(items),
        ControlFlow::Break(refusal) => Err(refusal),
    }
}

/// Answers a PATCH with the current row.
pub fn edited_answer(request: &Request, conn: &mut Conn, shape: &RowShape, id: i64) -> Outcome {
    Ok(Answer::instance(StatusCode::OK, view_id(request, conn, shape, id)?))
}

/// Answers a create with the new row.
pub fn created_answer(request: &Request, conn: &mut Conn, shape: &RowShape, id: i64) -> Outcome {
    Ok(Answer::instance(StatusCode::CREATED, view_id(request, conn, shape, id)?))
}

/// Reads one row by id as an instance; 404 if there is none.
pub fn view_id(request: &Request, conn: &mut Conn, shape: &RowShape, id: i64) -> Result<Instance, Refusal> {
    view(request, conn, shape, &Sql::new("t.id = $1").arg(id))?.ok_or_else(Refusal::not_found)
}

pub(super) fn show(
    out: &mut JsonWriter,
    shape: &RowShape,
    form: RowForm,
    cells: &RowCells<'_>,
    at: usize,
    request: &Request,
) -> Result<(), StoreError> {
    out.raw("{");
    let at = write_fields(out, &shape.resource, form, cells, at)?;
    shape.write_meta(out, form, cells, at, request)?;
    out.raw("}");
    Ok(())
}

/// Returns the schema document of a collection, with the build's limit.
pub fn document(conn: &mut Conn, resource: &Resource) -> Result<Json, StoreError> {
    let mut document = options::document(resource);
    if let Some(limit) = resource.limit {
        document["restrictions"]["limit_items"] = limits::value(conn, limit)?.into();
    }
    Ok(document)
}
