//! Checking a body against the declaration of its resource. All wrong fields are reported at once.

use crate::check::check;
use crate::errors::{Errors, message};
use crate::field::{Access, Field, Kind};
use crate::key::Changes;
use crate::resource::Resource;
use crate::sent::Object;
use crate::value::Value;
use std::cell::RefCell;
use std::collections::HashSet;

/// More names that are not declared are not told.
const MAX_UNKNOWN: usize = 100;

/// Whether the body creates a row or changes one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    Create,
    Edit,
}

/// Questions that only the database can answer, inside the transaction of the write.
pub trait Lookup {
    /// The error of the database.
    type Error;
    /// Those of the ids that do not exist, in the given order.
    fn missing(&mut self, field: &Field, ids: &[i64]) -> Result<Vec<i64>, Self::Error>;
    /// Whether another row has the value of a unique field.
    fn is_taken(&mut self, field: &Field, value: &Value) -> Result<bool, Self::Error>;
}

/// The outcome of checking a body.
#[derive(Debug, Default)]
pub struct Accepted {
    /// The values of the right fields, in the order of the declaration. On create also the defaults of fields that were not
    /// sent.
    pub changes: Changes,
    /// The errors of the wrong fields.
    pub errors: Errors,
}

/// Checks a body against the declaration: types, bounds, uniqueness and unknown ids together. Fields that the
/// declaration does not know and those that are read-only are ignored (`docs/reference/conventions.md`).
pub fn accept<L: Lookup>(
    resource: &Resource,
    body: &Object<'_>,
    mode: Mode,
    lookup: &mut L,
) -> Result<Accepted, L::Error> {
    let mut accepted = Accepted::default();
    let [before, grouped, after] = resource.parts();
    check_fields(before, Some(body), mode, lookup, &mut accepted.changes, &mut accepted.errors)?;
    if let Some((name, _)) = &resource.group {
        check_group(name, grouped, body, mode, lookup, &mut accepted)?;
    }
    check_fields(after, Some(body), mode, lookup, &mut accepted.changes, &mut accepted.errors)?;
    Ok(accepted)
}

/// Checks the object with the fields of the group, whose errors are nested as its values are. Unlike elsewhere, a name that
/// is not declared is an error.
fn check_group<L: Lookup>(
    name: &str,
    fields: &[Field],
    body: &Object<'_>,
    mode: Mode,
    lookup: &mut L,
    accepted: &mut Accepted,
) -> Result<(), L::Error> {
    let unknown = RefCell::new(Vec::new());
    let known: HashSet<&str> = fields.iter().map(|field| field.name.as_ref()).collect();
    let is_known = |sent: &str| {
        let is_known = known.contains(sent);
        if !is_known && unknown.borrow().len() < MAX_UNKNOWN {
            unknown.borrow_mut().push(sent.to_owned());
        }
        is_known
    };
    let group = match body.get(name) {
        None => None,
        Some(sent) if sent.is_null() => {
            accepted.errors.add(name, message::NULL);
            return Ok(());
        }
        Some(sent) => match sent.as_object(is_known) {
            Some(group) => Some(group),
            None => {
                accepted.errors.add(name, message::not_an_object(sent.type_name()));
                return Ok(());
            }
        },
    };
    let mut errors = Errors::new();
    check_fields(fields, group.as_ref(), mode, lookup, &mut accepted.changes, &mut errors)?;
    unknown.into_inner().iter().for_each(|name| errors.add(name, message::NO_FIELD));
    accepted.errors.nest(name, errors);
    Ok(())
}

fn check_fields<L: Lookup>(
    fields: &[Field],
    body: Option<&Object<'_>>,
    mode: Mode,
    lookup: &mut L,
    changes: &mut Changes,
    errors: &mut Errors,
) -> Result<(), L::Error> {
    for field in fields.iter().filter(|field| field.is_writable()) {
        if mode == Mode::Edit && field.access == Access::CreateOnly {
            continue;
        }
        let Some(sent) = body.and_then(|body| body.get(field.name.as_ref())) else {
            if mode == Mode::Create {
                absent(field, lookup, changes, errors)?;
            }
            continue;
        };
        match check(field, sent) {
            Err(messages) => messages.into_iter().for_each(|message| errors.add(&field.name, message)),
            Ok(value) => {
                look_up(field, &value, lookup, errors)?;
                if !errors.has(&field.name) {
                    changes.insert(field.name.clone(), value);
                }
            }
        }
    }
    Ok(())
}

/// What a create stores for a field that it does not send. A default is looked up for uniqueness alone: whether its ids
/// exist was asked when it was set, and callers did not choose them.
fn absent<L: Lookup>(
    field: &Field,
    lookup: &mut L,
    changes: &mut Changes,
    errors: &mut Errors,
) -> Result<(), L::Error> {
    if field.must_be_sent() {
        errors.add(&field.name, message::REQUIRED);
    } else if let Some(default) = &field.default {
        look_for_another(field, default, lookup, errors)?;
        if !errors.has(&field.name) {
            changes.insert(field.name.clone(), default.clone());
        }
    }
    Ok(())
}

fn look_up<L: Lookup>(field: &Field, value: &Value, lookup: &mut L, errors: &mut Errors) -> Result<(), L::Error> {
    if matches!(value, Value::Null) {
        return Ok(());
    }
    if matches!(field.kind, Kind::Reference { .. } | Kind::References { .. } | Kind::User | Kind::UserId) {
        let ids = value.ids();
        if !ids.is_empty() {
            lookup.missing(field, &ids)?.into_iter().for_each(|id| errors.add(&field.name, message::pk(id)));
        }
    }
    look_for_another(field, value, lookup, errors)
}

/// Refuses the value of a unique field that another row has. Rows without a value do not count.
fn look_for_another<L: Lookup>(
    field: &Field,
    value: &Value,
    lookup: &mut L,
    errors: &mut Errors,
) -> Result<(), L::Error> {
    if field.unique.is_some() && !matches!(value, Value::Null) && lookup.is_taken(field, value)? {
        errors.add(&field.name, message::UNIQUE);
    }
    Ok(())
}
