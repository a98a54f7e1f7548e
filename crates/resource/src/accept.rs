//! Checking a body against the declaration of its resource. All wrong fields are reported at once.

use crate::check::check;
use crate::errors::{Errors, message};
use crate::field::{Access, Field, Kind, Resource};
use crate::key::Changes;
use crate::sent::Object;
use crate::value::Value;

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
/// declaration does not know and those that are read-only are ignored (document 1, users, rule 3).
pub fn accept<L: Lookup>(
    resource: &Resource,
    body: &Object<'_>,
    mode: Mode,
    lookup: &mut L,
) -> Result<Accepted, L::Error> {
    let mut accepted = Accepted::default();
    for field in resource.fields.iter().filter(|field| field.is_writable()) {
        if mode == Mode::Edit && field.access == Access::CreateOnly {
            continue;
        }
        let Some(sent) = body.get(field.name.as_ref()) else {
            if mode == Mode::Create {
                absent(field, &mut accepted);
            }
            continue;
        };
        match check(field, sent) {
            Err(messages) => messages.into_iter().for_each(|message| accepted.errors.add(&field.name, message)),
            Ok(value) => {
                look_up(field, &value, lookup, &mut accepted.errors)?;
                if !accepted.errors.has(&field.name) {
                    accepted.changes.insert(field.name.clone(), value);
                }
            }
        }
    }
    Ok(accepted)
}

fn absent(field: &Field, accepted: &mut Accepted) {
    if field.required {
        accepted.errors.add(&field.name, message::REQUIRED);
    } else if let Some(default) = &field.default {
        accepted.changes.insert(field.name.clone(), default.clone());
    }
}

fn look_up<L: Lookup>(field: &Field, value: &Value, lookup: &mut L, errors: &mut Errors) -> Result<(), L::Error> {
    if matches!(value, Value::Null) {
        return Ok(());
    }
    if matches!(field.kind, Kind::Reference { .. } | Kind::References { .. } | Kind::User) {
        let ids = value.ids();
        if !ids.is_empty() {
            lookup.missing(field, &ids)?.into_iter().for_each(|id| errors.add(&field.name, message::pk(id)));
        }
    }
    if field.unique.is_some() && lookup.is_taken(field, value)? {
        errors.add(&field.name, message::UNIQUE);
    }
    Ok(())
}
