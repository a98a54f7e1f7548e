//! How the rows of a resource are shown: the declaration, and what it cannot say.

use super::sql::{tokens, value};
use crate::request::Request;
use resource::json::{Cells, Form, USER_REFERENCE, UserCells, Writer};
use resource::{Kind, Resource, Source};
use std::ops::Deref;
use std::sync::{Arc, LazyLock, OnceLock};
use store::{Arg, Error, Row, Sql};

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
    /// Further columns of a shape that is made while the server runs.
    extra_sql: Option<Sql>,
    meta: Meta,
    /// The moment at which a row is shown differently though nothing is written, or NULL.
    pub(super) changes_at: Option<&'static str>,
    /// The columns of each form, written at its first use, with [`NOW`] and [`CALLER`] as arguments.
    columns: [OnceLock<Sql>; 2],
    /// Selects what is stored of the row with an id.
    pub(super) stored: OnceLock<Sql>,
}

enum Meta {
    Static(WriteMeta),
    Owned(Box<WriteOwnedMeta>),
}

/// As [`WriteMeta`], for a shape that is made while the server runs, and knows what it is made for.
pub type WriteOwnedMeta =
    dyn Fn(&mut Writer, Form, &Cell<'_>, usize, &Request) -> Result<(), Error> + Send + Sync + 'static;

/// Writes what a declaration cannot: `_meta`, and fields that are stored elsewhere. The extra columns of the shape begin
/// at the position given.
pub type WriteMeta = fn(&mut Writer, Form, &Cell<'_>, usize, &Request) -> Result<(), Error>;

impl Shape {
    /// `extra` are further columns for `meta`, of the table `t`; `{caller}` in it stands for the caller's user id.
    pub const fn new(resource: Declaration, extra: &'static str, meta: WriteMeta) -> Shape {
        let columns = [const { OnceLock::new() }; 2];
        let meta = Meta::Static(meta);
        Shape { resource, extra, extra_sql: None, meta, changes_at: None, columns, stored: OnceLock::new() }
    }

    /// Of a resource that is declared while the server runs. `extra` are further columns for `meta`, in which [`NOW`] and
    /// [`CALLER`] stand for the moment of the request and for the caller's user id; without any it is empty.
    pub fn owned(
        resource: Arc<Resource>,
        extra: Sql,
        meta: impl Fn(&mut Writer, Form, &Cell<'_>, usize, &Request) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Shape {
        let mut shape = Shape::plain(Declaration::Owned(resource));
        shape.extra_sql = Some(extra).filter(|extra| !extra.text().is_empty());
        shape.meta = Meta::Owned(Box::new(meta));
        shape
    }

    /// Writes what the declaration cannot.
    pub(super) fn write_meta(
        &self,
        out: &mut Writer,
        form: Form,
        cells: &Cell<'_>,
        at: usize,
        request: &Request,
    ) -> Result<(), Error> {
        match &self.meta {
            Meta::Static(meta) => meta(out, form, cells, at, request),
            Meta::Owned(meta) => meta(out, form, cells, at, request),
        }
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
    pub(super) fn compares(&self, form: Form) -> bool {
        self.columns(form).args().contains(&Arg::Int(NOW))
    }

    /// Appends the columns as a request sees them.
    pub(super) fn select(&self, form: Form, sql: &mut Sql, request: &Request) {
        let caller = request.caller.as_ref().map_or(0, |caller| caller.user);
        let columns = self.columns(form);
        let of_request = |arg: &Arg| match *arg {
            Arg::Int(NOW) => Arg::Int(request.now),
            Arg::Int(CALLER) => Arg::Int(caller),
            _ => arg.clone(),
        };
        sql.append_with(columns, columns.args().iter().map(of_request));
    }
}

/// Stands for the moment of the request among the arguments of a shape's columns.
pub const NOW: i64 = i64::MIN;
/// Stands for the caller's user id there.
pub const CALLER: i64 = i64::MIN + 1;

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
    if let Some(extra) = &shape.extra_sql {
        sql.push(", ").append(extra);
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

/// Writes `"permissions":{…}` of `_meta`.
pub fn write_permissions(out: &mut Writer, permissions: &[(&str, bool)]) {
    out.name("permissions").raw("{");
    for (action, holds) in permissions {
        out.name(action).bool(*holds);
    }
    out.raw("}");
}
