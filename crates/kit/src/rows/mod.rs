//! Between declarations and the database: the list, the single row, and the three ways to change one. Everything a
//! resource does not decide by itself happens here: columns, joins of user references, filters as SQL, counts, audit
//! fields, uniqueness, and the administration log.

pub mod sql;

use crate::answer::{Answer, Instance, Outcome};
use crate::log;
use crate::refusal::Refusal;
use crate::request::Request;
use http::StatusCode;
use resource::json::{Cells, Form, USER_REFERENCE, UserCells, Writer, write_fields};
use resource::{
    Accepted, Changes, Field, Kind, Lookup, Mode, Object, Resource, Select, Source, Value, accept, fold, message,
    select,
};
use serde_json::{Map, Value as Json};
use sql::{conditions, is_of_the_moment, order, stored, tokens, value};
use std::ops::Deref;
use std::sync::{Arc, LazyLock, OnceLock};
use store::{Arg, Conn, Error, Row, Sql};

/// A declaration that is static, or one that a tenant made while the server runs.
#[derive(Clone)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Declaration {
    Static(&'static LazyLock<Resource>),
    Owned(Arc<Resource>),
}

impl Deref for Declaration {
    type Target = Resource;
    fn deref(&self) -> &Resource {
        match self {
            Declaration::Static(resource) => resource,
            Declaration::Owned(resource) => resource,
        }
    }
}

/// How the rows of a resource are shown: the declaration, and what it cannot say.
pub struct Shape {
    /// The declaration.
    pub resource: Declaration,
    extra: &'static str,
    meta: WriteMeta,
    /// The moment at which a row is shown differently though nothing is written, or NULL.
    changes_at: Option<&'static str>,
    /// The columns of each form, written at its first use, with [`NOW`] and [`CALLER`] as arguments.
    columns: [OnceLock<Sql>; 2],
    /// Selects what is stored of the row with an id.
    stored: OnceLock<Sql>,
}

/// Writes what a declaration cannot: `_meta`, and fields that are stored elsewhere. The extra columns of the shape begin
/// at the position given.
pub type WriteMeta = fn(&mut Writer, Form, &Cell<'_>, usize, &Request) -> Result<(), Error>;

impl Shape {
    /// `extra` are further columns for `meta`, of the table `t`; `{caller}` in it stands for the caller's user id.
    pub const fn new(resource: Declaration, extra: &'static str, meta: WriteMeta) -> Shape {
        let columns = [const { OnceLock::new() }; 2];
        Shape { resource, extra, meta, changes_at: None, columns, stored: OnceLock::new() }
    }

    /// The column of `t` that holds the only moment with which that of the request is compared.
    pub const fn changes_at(mut self, column: &'static str) -> Shape {
        self.changes_at = Some(column);
        self
    }

    /// Of a resource that shows what its declaration says, and no more.
    pub const fn plain(resource: Declaration) -> Shape {
        Shape::new(resource, "", |_, _, _, _, _| Ok(()))
    }

    fn columns(&self, form: Form) -> &Sql {
        self.columns[form as usize].get_or_init(|| columns(self, form))
    }

    /// Whether what is shown depends on the moment of the request.
    fn compares(&self, form: Form) -> bool {
        self.columns(form).args().contains(&Arg::Int(NOW))
    }

    /// Appends the columns as a request sees them.
    fn select(&self, form: Form, sql: &mut Sql, request: &Request) {
        let caller = request.caller.as_ref().map_or(0, |caller| caller.user);
        let columns = self.columns(form);
        let of_request = |arg: &Arg| Arg::Int(if *arg == Arg::Int(CALLER) { caller } else { request.now });
        sql.append_with(columns, columns.args().iter().map(of_request));
    }
}

/// Stands for the moment of the request among the arguments of [`Shape::columns`].
const NOW: i64 = 0;
/// Stands for the caller's user id there.
const CALLER: i64 = 1;

/// The rows of a list that the caller may see: SQL over the table `t`.
pub struct Scope {
    /// The condition.
    pub condition: Sql,
    /// How many there are, when that is kept; counted otherwise.
    pub total: Option<i64>,
    /// How long it lasts.
    pub cacheable: Cacheable,
}

/// How long a list would be the same if nothing were written, for `answer_cache.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cacheable {
    /// Nobody knows.
    Unknown,
    /// For ever, unless a moment is compared in what is shown or in a filter.
    Always,
    /// Until a moment, in microseconds since 1970, or for ever when none is given, whatever is compared.
    Until(Option<i64>),
}

impl Scope {
    /// All rows that fulfil a condition, which does not compare the moment of the request.
    pub fn of(condition: impl Into<Sql>) -> Scope {
        Scope { condition: condition.into(), total: None, cacheable: Cacheable::Always }
    }
}

/// A row's cells, for the writer of the declaration kit.
pub struct Cell<'a>(pub &'a Row<'a>);

impl Cells for Cell<'_> {
    type Error = Error;
    fn int(&self, at: usize) -> Result<Option<i64>, Error> {
        self.0.opt_int(at)
    }
    fn text(&self, at: usize) -> Result<Option<&str>, Error> {
        self.0.opt_text(at)
    }
    fn user(&self, at: usize) -> Result<Option<UserCells<'_>>, Error> {
        let text = self.0.opt_text(at)?;
        text.map(serde_json::from_str).transpose().map_err(|error| Error::Db(format!("column {at}: {error}")))
    }
}

/// A page of a list in its envelope: at most three statements, whatever its size.
pub fn list(request: &Request, conn: &mut Conn, shape: &Shape, scope: Scope) -> Outcome {
    let select = select(&shape.resource, &request.query)?;
    let mut out = Writer::with_capacity(1024 + 900 * select.limit.min(100) as usize);
    out.raw("[");
    let sql = page(request, shape, &scope, &select);
    conn.each(&sql, |row| {
        out.comma();
        show(&mut out, shape, Form::List, &Cell(row), 0, request)
    })?;
    out.raw("]");
    let total = match scope.total {
        Some(total) => total,
        None => count(conn, &shape.resource, &scope, &[], request.now)?,
    };
    let filtered = match select.filters.is_empty() {
        true => total,
        false => count(conn, &shape.resource, &scope, &select.filters, request.now)?,
    };
    let body = envelope(request, select.limit, select.offset, total, filtered, &out.into_bytes());
    let mut answer = Answer::json(StatusCode::OK, body);
    let compares =
        || shape.compares(Form::List) || select.filters.iter().any(|filter| is_of_the_moment(filter.field()));
    answer.cacheable_until = match scope.cacheable {
        Cacheable::Until(moment) => Some(moment.unwrap_or(i64::MAX)),
        Cacheable::Always if !compares() => Some(i64::MAX),
        _ => None,
    };
    Ok(answer)
}

/// The envelope (document 1, convention 3) around items that are written already.
pub fn envelope(request: &Request, limit: i64, offset: i64, total: i64, filtered: i64, results: &[u8]) -> Vec<u8> {
    let mut out = Writer::with_capacity(results.len() + 512);
    out.raw("{").name("limit").int(limit).name("offset").int(offset);
    out.name("total_count").int(total).name("filtered_count").int(filtered);
    let next = offset.checked_add(limit).filter(|next| *next < filtered);
    out.name("next").opt_text(next.map(|next| address(request, limit, next)).as_deref());
    let previous = (offset > 0).then(|| (offset - limit).max(0));
    out.name("previous").opt_text(previous.map(|previous| address(request, limit, previous)).as_deref());
    out.name("results").raw_bytes(results).raw("}");
    out.into_bytes()
}

/// The address of another page: the request's own in its documented form, with the other parameters kept.
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

/// The statement of a page: first its ids, from an index where there is one, then their rows with what they refer to.
fn page(request: &Request, shape: &Shape, scope: &Scope, select: &Select) -> Sql {
    let resource: &Resource = &shape.resource;
    let mut sql = Sql::new("SELECT ");
    shape.select(Form::List, &mut sql, request);
    sql.push(" FROM (SELECT t.id FROM ").name(&resource.table).push(" t WHERE ").append(&scope.condition);
    conditions(&mut sql, &select.filters, request.now);
    order(&mut sql, resource, &select.ordering);
    sql.push(" LIMIT ").bind(select.limit).push(" OFFSET ").bind(select.offset);
    sql.push(") page JOIN ").name(&resource.table).push(" t ON t.id = page.id");
    order(&mut sql, resource, &select.ordering);
    sql
}

fn count(
    conn: &mut Conn,
    resource: &Resource,
    scope: &Scope,
    filters: &[resource::Filter],
    now: i64,
) -> Result<i64, Error> {
    let mut sql = Sql::new("SELECT count(*) FROM ");
    sql.name(&resource.table).push(" t WHERE ").append(&scope.condition);
    conditions(&mut sql, filters, now);
    conn.one(&sql, |row| row.int(0))
}

/// One row as an instance shows it; `None` when there is none that fulfils the condition, which does not compare the
/// moment of the request.
pub fn view(request: &Request, conn: &mut Conn, shape: &Shape, condition: &Sql) -> Result<Option<Instance>, Error> {
    let mut sql = Sql::new("SELECT ");
    sql.push(shape.changes_at.unwrap_or("CAST(NULL AS BIGINT)")).push(", ");
    shape.select(Form::Detail, &mut sql, request);
    sql.push(" FROM ").name(&shape.resource.table).push(" t").push(" WHERE ").append(condition);
    let mut out = Writer::with_capacity(2048);
    let found = conn.opt(&sql, |row| {
        show(&mut out, shape, Form::Detail, &Cell(row), 1, request)?;
        row.opt_int(0)
    })?;
    let is_vouched_for = shape.changes_at.is_some() || !shape.compares(Form::Detail);
    Ok(found.map(|changes_at| Instance {
        body: out.into_bytes(),
        cacheable_until: is_vouched_for.then(|| changes_at.filter(|at| *at > request.now).unwrap_or(i64::MAX)),
    }))
}

/// The rows that fulfil a condition as a list shows them, each with the id in its column `key`.
pub fn records(
    request: &Request,
    conn: &mut Conn,
    shape: &Shape,
    key: &str,
    condition: &Sql,
) -> Result<Vec<(i64, Vec<u8>)>, Error> {
    let mut sql = Sql::new("SELECT t.");
    sql.name(key).push(", ");
    shape.select(Form::List, &mut sql, request);
    sql.push(" FROM ").name(&shape.resource.table).push(" t").push(" WHERE ").append(condition);
    conn.all(&sql, |row| {
        let mut out = Writer::with_capacity(512);
        show(&mut out, shape, Form::List, &Cell(row), 1, request)?;
        Ok((row.int(0)?, out.into_bytes()))
    })
}

/// As [`view`], by id.
pub fn view_id(request: &Request, conn: &mut Conn, shape: &Shape, id: i64) -> Result<Instance, Refusal> {
    view(request, conn, shape, &Sql::new("t.id = $1").arg(id))?.ok_or_else(Refusal::not_found)
}

fn show(
    out: &mut Writer,
    shape: &Shape,
    form: Form,
    cells: &Cell<'_>,
    at: usize,
    request: &Request,
) -> Result<(), Error> {
    out.raw("{");
    let at = write_fields(out, &shape.resource, form, cells, at)?;
    (shape.meta)(out, form, cells, at, request)?;
    out.raw("}");
    Ok(())
}

fn columns(shape: &Shape, form: Form) -> Sql {
    let mut sql = Sql::new("");
    for (n, field) in shape.resource.fields.iter().filter(|field| field.is_in(form)).enumerate() {
        if n > 0 {
            sql.push(", ");
        }
        match (&field.kind, &field.source) {
            (Kind::User, Source::Column(column)) => user(&mut sql, column),
            _ => value(&mut sql, field, NOW),
        }
    }
    if !shape.extra.is_empty() {
        sql.push(", ");
        tokens(&mut sql, shape.extra, &[("{caller}", CALLER), ("{now}", NOW)]);
    }
    sql
}

/// The user whose id stands in a column, as one value: PostgreSQL begins a statement with three joins, each of all the
/// columns before it, in 137 microseconds, and one with these in 84.
fn user(sql: &mut Sql, column: &str) {
    sql.push("(SELECT CAST(json_build_array(");
    for (n, shown) in USER_REFERENCE.iter().enumerate() {
        sql.push(if n > 0 { ", u." } else { "u." }).name(shown);
    }
    sql.push(") AS TEXT) FROM users u WHERE u.id = t.").name(column).push(")");
}

/// A value as a statement's argument.
pub fn arg(value: &Value) -> Arg {
    match value {
        Value::Null => Arg::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        Value::Text(value) => value.into(),
        Value::JsonText(text) => text.into(),
        Value::List(_) | Value::Json(_) => value.to_json().to_string().into(),
    }
}

/// The stored row as values, locked for a change to lay over. `None` when there is none.
pub fn load(conn: &mut Conn, shape: &Shape, id: i64) -> Result<Option<Changes>, Error> {
    values(conn, shape, id, " FOR UPDATE")
}

/// As [`load`], to be shown alone.
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
    resource.fields.iter().filter(|field| matches!(field.source, Source::Column(_) | Source::Members(_)))
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

/// Checks a body against the declaration, inside the write's transaction.
pub fn accepted(conn: &mut Conn, resource: &Resource, body: &Object<'_>, id: Option<i64>) -> Result<Accepted, Refusal> {
    let mode = if id.is_some() { Mode::Edit } else { Mode::Create };
    Ok(accept(resource, body, mode, &mut InTransaction { conn, resource, id, scope: None })?)
}

/// As [`accepted`], where names are unique among the rows with `column = value` alone.
pub fn accepted_within(
    conn: &mut Conn,
    resource: &Resource,
    body: &Object<'_>,
    id: Option<i64>,
    scope: (&'static str, i64),
) -> Result<Accepted, Refusal> {
    let mode = if id.is_some() { Mode::Edit } else { Mode::Create };
    Ok(accept(resource, body, mode, &mut InTransaction { conn, resource, id, scope: Some(scope) })?)
}

struct InTransaction<'a> {
    conn: &'a mut Conn,
    resource: &'a Resource,
    id: Option<i64>,
    scope: Option<(&'static str, i64)>,
}

impl Lookup for InTransaction<'_> {
    type Error = Error;

    /// What is there stays as it is until the write is over: it is neither deleted nor, as a role, made stronger.
    fn missing(&mut self, field: &Field, ids: &[i64]) -> Result<Vec<i64>, Error> {
        let table = match &field.kind {
            Kind::Reference { target } | Kind::References { target, .. } => target.table.as_ref(),
            _ => "users",
        };
        let known = known(self.conn, table, ids, " ORDER BY t.id FOR SHARE")?;
        Ok(ids.iter().copied().filter(|id| !known.contains(id)).collect())
    }

    fn is_taken(&mut self, field: &Field, value: &Value) -> Result<bool, Error> {
        let (column, value) = match (&field.folded, &field.source, value) {
            (Some(folded), _, Value::Text(text)) => (folded.as_ref(), Arg::from(fold(text))),
            (_, Source::Column(column), value) => (column.as_ref(), stored(field, value)),
            _ => return Ok(false),
        };
        let mut sql = Sql::new("SELECT 1 FROM ");
        sql.name(&self.resource.table).push(" t WHERE t.").name(column).push(" = ").bind(value);
        sql.push(" AND t.id <> ").bind(self.id.unwrap_or(0));
        if self.resource.table == "users" {
            sql.push(" AND t.is_deleted = 0");
        }
        if let Some((column, value)) = self.scope {
            sql.push(" AND t.").name(column).push(" = ").bind(value);
        }
        Ok(self.conn.opt(&sql, |_| Ok(()))?.is_some())
    }
}

/// Those of the ids that exist in a table (deleted users do not).
pub fn existing(conn: &mut Conn, table: &str, ids: &[i64]) -> Result<Vec<i64>, Error> {
    known(conn, table, ids, "")
}

fn known(conn: &mut Conn, table: &str, ids: &[i64], lock: &'static str) -> Result<Vec<i64>, Error> {
    let mut sql = Sql::new("SELECT t.id FROM ");
    sql.name(table).push(" t WHERE t.id IN (");
    for (n, id) in ids.iter().enumerate() {
        sql.push(if n > 0 { ", " } else { "" }).bind(*id);
    }
    sql.push(")");
    if table == "users" {
        sql.push(" AND t.is_deleted = 0");
    }
    conn.all(sql.push(lock), |row| row.int(0))
}

/// Inserts a row with its audit fields and notes it in the administration log. `extra` are columns that no field of
/// the declaration writes.
pub fn insert(
    request: &Request,
    conn: &mut Conn,
    resource: &Resource,
    changes: &Changes,
    extra: &[(&'static str, Arg)],
) -> Result<i64, Refusal> {
    let by = request.caller.as_ref().map(|caller| caller.user);
    let id = insert_row(conn, resource, changes, extra, request.now, by)?;
    log::write(request, conn, "create", resource, id, &log::name_of(changes), log::created(resource, changes))?;
    Ok(id)
}

/// As [`insert`], without a request: the command line.
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

/// Changes a row, its `modified_at` and `modified_by`, and notes what really changed in the administration log.
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
    for (column, arg) in extra {
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
    Ok(())
}

/// Deletes a row and notes it in the administration log.
pub fn delete(request: &Request, conn: &mut Conn, resource: &Resource, id: i64, name: &str) -> Result<(), Refusal> {
    let mut sql = Sql::new("DELETE FROM ");
    sql.name(&resource.table).push(" WHERE id = ").bind(id);
    if conn.exec(&sql)? == 0 {
        return Err(Refusal::not_found());
    }
    log::write(request, conn, "delete", resource, id, name, Map::new())
}

/// The columns that changes write: each field's own, and its folded text.
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

/// What the database refuses as a duplicate, as the standard message on the field that its index keeps unique.
fn unique(resource: &Resource, error: Error) -> Refusal {
    match &error {
        Error::Unique(index) => match resource.field_of_index(index) {
            Some(field) => Refusal::field(&field.name, message::UNIQUE),
            None => error.into(),
        },
        _ => error.into(),
    }
}

/// Writes `"permissions":{…}` of `_meta`.
pub fn write_permissions(out: &mut Writer, permissions: &[(&str, bool)]) {
    out.name("permissions").raw("{");
    for (action, holds) in permissions {
        out.name(action).bool(*holds);
    }
    out.raw("}");
}
