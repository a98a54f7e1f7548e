//! Shapes: the JSON form of the rows of a resource.

use super::sql::{OWN, column, tokens, value};
use crate::request::Request;
use resource::json::{Cells, JsonWriter, RowForm, USER_REFERENCE, UserCells};
use resource::{ColumnSource, Field, FieldKind, Resource};
use std::ops::Deref;
use std::sync::{Arc, LazyLock, OnceLock};
use store::{Argument, Row, Sql, StoreError};

/// A declaration that is static, or one that a build created at run time.
#[derive(Clone)]
pub enum Declaration {
    Static(&'static LazyLock<Resource>),
    Owned(Arc<Resource>),
}

impl From<Arc<Resource>> for Declaration {
    fn from(resource: Arc<Resource>) -> Declaration {
        Declaration::Owned(resource)
    }
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

/// The shape of a resource's rows in answers: the declaration, and a function that writes the parts outside of the declaration.
pub struct RowShape {
    pub resource: Declaration,
    /// Further columns for `meta`.
    extra: &'static str,
    /// Further columns for `meta` of a shape that is created at run time.
    extra_sql: Option<Sql>,
    meta: Meta,
    /// The column with the time at which a row's instance changes without a write, or NULL.
    pub(super) changes_at: Option<&'static str>,
    /// The cached columns of each form, with [`NOW`] and [`CALLER`] as arguments.
    columns: [OnceLock<Sql>; 2],
    /// The cached statement that selects the stored values of a row.
    pub(super) stored: OnceLock<Sql>,
}

enum Meta {
    Static(WriteMeta),
    Owned(Box<WriteOwnedMeta>),
}

/// A closure that replaces a [`WriteMeta`], for a shape that is created at run time.
pub type WriteOwnedMeta =
    dyn Fn(&mut JsonWriter, RowForm, &RowCells<'_>, usize, &Request) -> Result<(), StoreError> + Send + Sync + 'static;

/// A function that writes the parts that a declaration cannot express: `_meta`, and fields that are
/// stored elsewhere. Its position is that of the first extra column of the shape.
pub type WriteMeta = fn(&mut JsonWriter, RowForm, &RowCells<'_>, usize, &Request) -> Result<(), StoreError>;

impl RowShape {
    /// Returns a shape with further columns of the table `t` (`extra`) for `meta`. In them `{caller}`
    /// stands for the caller's user id, `{owner}` for [`Caller::ownership`](crate::caller::Caller::ownership) and `{now}`
    /// for the time of the request.
    pub const fn new(resource: Declaration, extra: &'static str, meta: WriteMeta) -> RowShape {
        let columns = [const { OnceLock::new() }; 2];
        let meta = Meta::Static(meta);
        RowShape { resource, extra, extra_sql: None, meta, changes_at: None, columns, stored: OnceLock::new() }
    }

    /// Returns a shape that is created at run time. `extra` are further columns for `meta`, or empty. [`NOW`],
    /// [`CALLER`] and [`OWNER`] among its arguments stand for the values of the request.
    pub fn with_declaration(
        resource: impl Into<Declaration>,
        extra: Sql,
        meta: impl Fn(&mut JsonWriter, RowForm, &RowCells<'_>, usize, &Request) -> Result<(), StoreError>
        + Send
        + Sync
        + 'static,
    ) -> RowShape {
        let mut shape = RowShape::from_declaration(resource.into());
        shape.extra_sql = Some(extra).filter(|extra| !extra.text().is_empty());
        shape.meta = Meta::Owned(Box::new(meta));
        shape
    }

    /// Writes the parts that the declaration cannot express.
    pub(super) fn write_meta(
        &self,
        out: &mut JsonWriter,
        form: RowForm,
        cells: &RowCells<'_>,
        at: usize,
        request: &Request,
    ) -> Result<(), StoreError> {
        match &self.meta {
            Meta::Static(meta) => meta(out, form, cells, at, request),
            Meta::Owned(meta) => meta(out, form, cells, at, request),
        }
    }

    /// Sets the column of `t` with the only time that the shape compares with the time of the request.
    pub const fn changes_at(mut self, column: &'static str) -> RowShape {
        self.changes_at = Some(column);
        self
    }

    /// Returns a shape that writes only the fields of the declaration.
    pub const fn from_declaration(resource: Declaration) -> RowShape {
        RowShape::new(resource, "", |_, _, _, _, _| Ok(()))
    }

    fn columns(&self, form: RowForm) -> &Sql {
        self.columns[form as usize].get_or_init(|| columns(self, form))
    }

    /// Returns whether a form depends on the time of the request.
    pub(super) fn compares(&self, form: RowForm) -> bool {
        self.columns(form).args().contains(&Argument::Int(NOW))
    }

    /// Returns the fields that a form shows.
    pub(super) fn fields(&self, form: RowForm) -> impl Iterator<Item = &Field> {
        self.resource.fields.iter().filter(move |field| field.is_in(form))
    }

    /// Appends the columns of a form, with the time and the caller of the request as arguments.
    pub fn select(&self, form: RowForm, sql: &mut Sql, request: &Request) {
        let caller = request.caller.as_ref().map_or(0, |caller| caller.user.get());
        let owner = request.caller.as_ref().map_or(0, |caller| caller.ownership().get());
        let columns = self.columns(form);
        let of_request = |arg: &Argument| match *arg {
            Argument::Int(NOW) => Argument::Int(request.now),
            Argument::Int(CALLER) => Argument::Int(caller),
            Argument::Int(OWNER) => Argument::Int(owner),
            _ => arg.clone(),
        };
        sql.append_with(columns, columns.args().iter().map(of_request));
    }
}

/// A placeholder for the time of the request among the arguments of a shape's columns.
pub const NOW: i64 = i64::MIN;
/// A placeholder for the caller's user id among the arguments of a shape's columns.
pub const CALLER: i64 = i64::MIN + 1;
/// A placeholder for the user whose ownership grants rights to the caller, among the arguments of a shape's columns.
pub const OWNER: i64 = i64::MIN + 2;

/// A row of the store as the cells that `resource::json` writes.
pub struct RowCells<'a>(pub &'a Row<'a>);

impl Cells for RowCells<'_> {
    type Error = StoreError;
    fn int(&self, at: usize) -> Result<Option<i64>, StoreError> {
        self.0.opt_int(at)
    }
    fn text(&self, at: usize) -> Result<Option<&str>, StoreError> {
        self.0.opt_text(at)
    }
    fn user(&self, at: usize) -> Result<Option<UserCells<'_>>, StoreError> {
        self.0.opt_json(at)
    }
}

fn columns(shape: &RowShape, form: RowForm) -> Sql {
    let mut sql = Sql::new("");
    for (n, field) in shape.fields(form).enumerate() {
        if n > 0 {
            sql.push(", ");
        }
        match (&field.kind, &field.source) {
            (FieldKind::User, ColumnSource::Column(column)) => user(&mut sql, field, column),
            _ => value(&mut sql, OWN, field, NOW),
        }
    }
    if !shape.extra.is_empty() {
        sql.push(", ");
        tokens(&mut sql, shape.extra, &[("{caller}", CALLER), ("{owner}", OWNER), ("{now}", NOW)]);
    }
    if let Some(extra) = &shape.extra_sql {
        sql.push(", ").append(extra);
    }
    sql
}

/// Selects the user whose id is in a column as one JSON value. PostgreSQL starts a statement with three
/// such subqueries in 84 microseconds, and one with three joins in 137.
fn user(sql: &mut Sql, field: &Field, id: &str) {
    sql.push("(SELECT CAST(json_build_array(");
    for (n, shown) in USER_REFERENCE.iter().enumerate() {
        sql.push(if n > 0 { ", u." } else { "u." }).name(shown);
    }
    sql.push(") AS TEXT) FROM users u WHERE u.id = ");
    column(sql, OWN, field, id);
    sql.push(")");
}

/// Writes the member `"permissions":{…}` of `_meta`.
pub fn write_permissions(out: &mut JsonWriter, permissions: &[(&str, bool)]) {
    out.name("permissions").raw("{");
    for (action, holds) in permissions {
        out.name(action).bool(*holds);
    }
    out.raw("}");
}
