//! Answers a page of a list in the envelope.

use super::page::PageWriter;
use super::shape::{RowCells, RowShape};
use super::sql::{OWN, Relations, conditions, depends_on_time, order, push_joins};
use super::view::show;
use crate::answer::{Answer, Outcome};
use crate::listed::{JsonItems, ListCounts, ListedItems};
use crate::refusal::Refusal;
use crate::request::Request;
use http::StatusCode;
use resource::json::{JsonWriter, RowForm};
use resource::{CheckedFilter, Field, RelatedRows, Resource, Select, select_related};
use std::ops::ControlFlow;
use store::{Conn, Row, Sql, StoreError};

/// The rows of a list that the caller may see.
pub struct Scope {
    /// The condition in SQL, over the table `t`.
    pub condition: Sql,
    /// The number of the rows, if it is stored; `None`: they are counted.
    pub total: Option<i64>,
    /// The validity of the list in the cache.
    pub cacheable: Cacheable,
    /// A subselect with the columns of the resource's table, which replaces the table.
    pub from: Option<Sql>,
    /// The related resources on which filters may depend.
    pub relations: Relations,
}

/// The validity of a list if nothing is written, for `answer_cache.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cacheable {
    /// The list is not cached.
    Never,
    /// Unlimited, unless a column or a filter depends on the time of the request.
    Always,
    /// Until a time, in microseconds since 1970, or unlimited (`None`). This is valid even if a column or a
    /// filter depends on the time of the request.
    Until(Option<i64>),
}

impl Scope {
    /// Selects all rows that fulfil a condition. The list is not cached.
    pub fn matching(condition: impl Into<Sql>) -> Scope {
        let (condition, relations) = (condition.into(), Relations::new());
        Scope { condition, total: None, cacheable: Cacheable::Never, from: None, relations }
    }

    /// Selects all rows of a subselect that replaces the resource's table.
    pub fn from(subselect: Sql) -> Scope {
        Scope { from: Some(subselect), ..Scope::matching("1 = 1") }
    }

    /// Allows the list to be cached. Its condition must not depend on the time of the request.
    pub fn cacheable(self) -> Scope {
        Scope { cacheable: Cacheable::Always, ..self }
    }
}

/// Answers a page of a list in its envelope, by at most three statements.
pub fn list(request: &Request, conn: &mut Conn, shape: &RowShape, scope: Scope) -> Outcome {
    let related = |field: &Field| scope.relations.get(&field.name).map(|related| RelatedRows::Of(&related.resource));
    let select = select_related(&shape.resource, &request.query, related, shape.resource.max_filters)?;
    let mut results = PageWriter::with_capacity(request, 1024 + 900 * select.limit.min(100) as usize);
    let sql = page(request, shape, &scope, &select);
    let outcome = conn.for_each_row_until(&sql, |row| {
        results.item(row, |out, row| show(out, shape, RowForm::List, &RowCells(row), 0, request))
    })?;
    if let ControlFlow::Break(refusal) = outcome {
        return Err(refusal);
    }
    let (total, filtered) = counts(conn, &shape.resource, &scope, &select.filters, request.now)?;
    let mut answer = results.answer(select.limit, select.offset, ListCounts { total, filtered });
    let compares =
        || shape.compares(RowForm::List) || select.filters.iter().any(|filter| depends_on_time(filter.field()));
    answer.cacheable_until = match scope.cacheable {
        Cacheable::Until(end) => Some(end.unwrap_or(i64::MAX)),
        Cacheable::Always if !compares() => Some(i64::MAX),
        _ => None,
    };
    Ok(answer)
}

/// The rows of a page, and the numbers of the rows of its list.
pub struct ReadPage<T> {
    pub limit: i64,
    pub offset: i64,
    pub counts: ListCounts,
    pub rows: Vec<T>,
}

/// Reads a page by the statements of [`list`], for an answer with values that are not in the database of the rows. `read`
/// receives the columns of the list form.
pub fn read_page<T>(
    request: &Request,
    conn: &mut Conn,
    shape: &RowShape,
    scope: &Scope,
    read_row: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
) -> Result<ReadPage<T>, Refusal> {
    let related = |field: &Field| scope.relations.get(&field.name).map(|related| RelatedRows::Of(&related.resource));
    let select = select_related(&shape.resource, &request.query, related, shape.resource.max_filters)?;
    let rows = conn.query_all(&page(request, shape, scope, &select), read_row)?;
    let (total, filtered) = counts(conn, &shape.resource, scope, &select.filters, request.now)?;
    Ok(ReadPage { limit: select.limit, offset: select.offset, counts: ListCounts { total, filtered }, rows })
}

/// Answers a page of items in its envelope.
pub fn list_answer(request: &Request, limit: i64, offset: i64, counts: ListCounts, items: JsonItems) -> Answer {
    let (results, mut starts) = items.finish();
    let array = results.len();
    let body = envelope(request, limit, offset, counts.total, counts.filtered, results);
    // The array ends before the brace of the envelope.
    let shift = body.len() - 1 - array;
    starts.iter_mut().for_each(|start| *start += shift);
    let listed = ListedItems { counts, starts, end: body.len() - 2 };
    Answer { listed: Some(Box::new(listed)), ..Answer::json(StatusCode::OK, body) }
}

/// Puts a page that is already written as a JSON array into its envelope
/// (`docs/reference/conventions.md`). It does so in place, since a page may be large.
pub fn envelope(
    request: &Request,
    limit: i64,
    offset: i64,
    total: i64,
    filtered: i64,
    mut results: Vec<u8>,
) -> Vec<u8> {
    let mut out = JsonWriter::with_capacity(512);
    out.raw("{").name("limit").int(limit).name("offset").int(offset);
    out.name("total_count").int(total).name("filtered_count").int(filtered);
    let next = offset.checked_add(limit).filter(|next| *next < filtered);
    out.name("next").opt_text(next.map(|next| address(request, limit, next)).as_deref());
    let previous = (offset > 0).then(|| (offset - limit).max(0));
    out.name("previous").opt_text(previous.map(|previous| address(request, limit, previous)).as_deref());
    out.name("results");
    let head = out.into_bytes();
    results.reserve(head.len() + 1);
    results.splice(0..0, head);
    results.push(b'}');
    results
}

/// Returns the address of another page: that of the request with a slash at the path's end and its other parameters.
fn address(request: &Request, limit: i64, offset: i64) -> String {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    let mut address = format!("{}{}/?limit={limit}", request.origin, request.path.trim_end_matches('/'));
    if offset > 0 {
        address.push_str(&format!("&offset={offset}"));
    }
    for (name, value) in request.query.pairs().filter(|(name, _)| *name != "limit" && *name != "offset") {
        address.push('&');
        address.extend(utf8_percent_encode(name, KEPT));
        address.push('=');
        address.extend(utf8_percent_encode(value, KEPT));
    }
    return address;
    const KEPT: &percent_encoding::AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b',').remove(b':').remove(b'@');
}

/// Returns the statement of a page. A subquery selects the ids, so that an index can serve it; then their rows are joined.
fn page(request: &Request, shape: &RowShape, scope: &Scope, select: &Select) -> Sql {
    let resource: &Resource = &shape.resource;
    let ordered = || select.ordering.iter().map(|order| order.field);
    let mut sql = Sql::new("SELECT ");
    shape.select(RowForm::List, &mut sql, request);
    push_table(sql.push(" FROM (SELECT t.id FROM "), resource, scope).push(" t");
    push_joins(&mut sql, OWN, resource, select.filters.iter().map(CheckedFilter::own_field).chain(ordered()));
    sql.push(" WHERE ").append(&scope.condition);
    conditions(&mut sql, OWN, &select.filters, &scope.relations, request.now);
    order(&mut sql, OWN, resource, &select.ordering);
    sql.page(select.limit, select.offset);
    push_table(sql.push(") page JOIN "), resource, scope).push(" t ON t.id = page.id");
    push_joins(&mut sql, OWN, resource, shape.fields(RowForm::List).chain(ordered()));
    order(&mut sql, OWN, resource, &select.ordering);
    sql
}

/// Appends the table of a scope: that of the resource, or its replacement.
pub(super) fn push_table<'a>(sql: &'a mut Sql, resource: &Resource, scope: &Scope) -> &'a mut Sql {
    match &scope.from {
        Some(subselect) => sql.push("(").append(subselect).push(")"),
        None => sql.name(&resource.table),
    }
}

/// Returns the numbers of the rows of a scope and of those that pass the filters, by at most one statement.
fn counts(
    conn: &mut Conn,
    resource: &Resource,
    scope: &Scope,
    filters: &[CheckedFilter],
    now: i64,
) -> Result<(i64, i64), StoreError> {
    let count = |filters: &[CheckedFilter]| {
        let mut sql = Sql::new("SELECT count(*) FROM ");
        push_table(&mut sql, resource, scope).push(" t");
        push_joins(&mut sql, OWN, resource, filters.iter().map(CheckedFilter::own_field));
        sql.push(" WHERE ").append(&scope.condition);
        conditions(&mut sql, OWN, filters, &scope.relations, now);
        sql
    };
    match (scope.total, filters) {
        (Some(total), []) => Ok((total, total)),
        (Some(total), _) => conn.query_one(&count(filters), |row| Ok((total, row.int(0)?))),
        (None, []) => conn.query_one(&count(&[]), |row| Ok((row.int(0)?, row.int(0)?))),
        (None, _) => {
            let mut sql = Sql::new("SELECT (");
            sql.append(&count(&[])).push("), (").append(&count(filters)).push(")");
            conn.query_one(&sql, |row| Ok((row.int(0)?, row.int(1)?)))
        }
    }
}
