//! Checks a body against the declaration of its resource. All wrong fields are reported together.

use crate::check::check;
use crate::errors::{Errors, message};
use crate::field::{Field, FieldAccess, FieldKind};
use crate::key::Changes;
use crate::resource::Resource;
use crate::sent::SentObject;
use crate::value::CheckedValue;
use std::cell::RefCell;

/// The maximum number of undeclared names that are reported.
const MAX_UNKNOWN: usize = 100;

/// The mode of a write: the body creates a row or changes one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WriteMode {
    Create,
    Edit,
}

/// Checks that only the database can make, in the transaction of the write.
pub trait DatabaseChecks {
    /// The error of the database.
    type Error;
    /// Returns the ids that do not exist, in the order of `ids`.
    fn missing_ids(&mut self, field: &Field, ids: &[i64]) -> Result<Vec<i64>, Self::Error>;
    /// Returns whether another row has the value of a unique field.
    fn is_taken(&mut self, field: &Field, value: &CheckedValue) -> Result<bool, Self::Error>;
}

/// The outcome of the check of a body.
#[derive(Debug, Default)]
pub struct CheckedBody {
    /// The values of the valid fields, in the order of the declaration. A create also has the defaults of fields that were not
    /// sent.
    pub changes: Changes,
    /// The errors of the wrong fields.
    pub errors: Errors,
}

/// Checks a body against the declaration: types, bounds, uniqueness and unknown ids together.
/// Undeclared and read-only fields are ignored (`docs/reference/conventions.md`).
pub fn accept<L: DatabaseChecks>(
    resource: &Resource,
    body: &SentObject<'_>,
    mode: WriteMode,
    lookup: &mut L,
) -> Result<CheckedBody, L::Error> {
    let mut accepted = CheckedBody::default();
    let [before, grouped, after] = resource.parts();
    check_fields(before, Some(body), mode, lookup, &mut accepted.changes, &mut accepted.errors)?;
    if let Some((name, _)) = &resource.group {
        check_group(resource, (name, grouped), body, mode, lookup, &mut accepted)?;
    }
    check_fields(after, Some(body), mode, lookup, &mut accepted.changes, &mut accepted.errors)?;
    Ok(accepted)
}

/// Checks the values of the resource's group alone, by the names of its fields. `values` holds all members that were sent, also
/// those that are not declared, which are errors here. The errors stand under the name of the group.
pub fn accept_group<L: DatabaseChecks>(
    resource: &Resource,
    values: &SentObject<'_>,
    mode: WriteMode,
    lookup: &mut L,
) -> Result<CheckedBody, L::Error> {
    let mut accepted = CheckedBody::default();
    if let Some((name, _)) = &resource.group {
        let [_, fields, _] = resource.parts();
        let is_unknown = |name: &&str| !resource.is_in_group(name);
        let unknown: Vec<String> =
            values.iter().map(|(name, _)| name).filter(is_unknown).take(MAX_UNKNOWN).map(str::to_owned).collect();
        check_members(name, fields, Some(values), &unknown, mode, lookup, &mut accepted)?;
    }
    Ok(accepted)
}

/// Checks the object with the fields of the group. Its errors are nested like its values. Unlike in
/// other objects, an undeclared name is an error.
fn check_group<L: DatabaseChecks>(
    resource: &Resource,
    (name, fields): (&str, &[Field]),
    body: &SentObject<'_>,
    mode: WriteMode,
    lookup: &mut L,
    accepted: &mut CheckedBody,
) -> Result<(), L::Error> {
    let unknown = RefCell::new(Vec::new());
    let is_known = |member: &str| {
        let is_known = resource.is_in_group(member);
        if !is_known && unknown.borrow().len() < MAX_UNKNOWN {
            unknown.borrow_mut().push(member.to_owned());
        }
        is_known
    };
    let group = match body.get(name) {
        None => None,
        Some(value) if value.is_null() => {
            accepted.errors.add(name, message::NULL);
            return Ok(());
        }
        Some(value) => match value.as_object(is_known) {
            Some(group) => Some(group),
            None => {
                accepted.errors.add(name, message::not_an_object(value.type_name()));
                return Ok(());
            }
        },
    };
    check_members(name, fields, group.as_ref(), &unknown.into_inner(), mode, lookup, accepted)
}

fn check_members<L: DatabaseChecks>(
    name: &str,
    fields: &[Field],
    group: Option<&SentObject<'_>>,
    unknown: &[String],
    mode: WriteMode,
    lookup: &mut L,
    accepted: &mut CheckedBody,
) -> Result<(), L::Error> {
    let mut errors = Errors::new();
    check_fields(fields, group, mode, lookup, &mut accepted.changes, &mut errors)?;
    unknown.iter().for_each(|name| errors.add(name, message::NO_FIELD));
    accepted.errors.nest(name, errors);
    Ok(())
}

fn check_fields<L: DatabaseChecks>(
    fields: &[Field],
    body: Option<&SentObject<'_>>,
    mode: WriteMode,
    lookup: &mut L,
    changes: &mut Changes,
    errors: &mut Errors,
) -> Result<(), L::Error> {
    for field in fields.iter().filter(|field| field.is_writable()) {
        if mode == WriteMode::Edit && field.access == FieldAccess::CreateOnly {
            continue;
        }
        let Some(json) = body.and_then(|body| body.get(field.name.as_ref())) else {
            if mode == WriteMode::Create {
                absent(field, lookup, changes, errors)?;
            }
            continue;
        };
        match check(field, json) {
            Err(messages) => messages.into_iter().for_each(|message| errors.add(&field.name, message)),
            Ok(value) => {
                check_in_database(field, &value, lookup, errors)?;
                if !errors.has_field(&field.name) {
                    changes.insert(field.name.clone(), value);
                }
            }
        }
    }
    Ok(())
}

/// Stores the default of a field that a create does not send, or refuses the create. A default is
/// checked for uniqueness only. Its ids were checked when it was set, and callers did not choose them.
fn absent<L: DatabaseChecks>(
    field: &Field,
    lookup: &mut L,
    changes: &mut Changes,
    errors: &mut Errors,
) -> Result<(), L::Error> {
    if field.must_be_sent() {
        errors.add(&field.name, message::REQUIRED);
    } else if let Some(default) = &field.default {
        look_for_another(field, default, lookup, errors)?;
        if !errors.has_field(&field.name) {
            changes.insert(field.name.clone(), default.clone());
        }
    }
    Ok(())
}

fn check_in_database<L: DatabaseChecks>(
    field: &Field,
    value: &CheckedValue,
    lookup: &mut L,
    errors: &mut Errors,
) -> Result<(), L::Error> {
    if matches!(value, CheckedValue::Null) {
        return Ok(());
    }
    if matches!(
        field.kind,
        FieldKind::Reference { .. } | FieldKind::References { .. } | FieldKind::User | FieldKind::UserId
    ) {
        let ids = value.ids();
        if !ids.is_empty() {
            lookup
                .missing_ids(field, &ids)?
                .into_iter()
                .for_each(|id| errors.add(&field.name, message::invalid_id_message(id)));
        }
    }
    look_for_another(field, value, lookup, errors)
}

/// Refuses the value of a unique field if another row has it. Rows without a value do not count.
fn look_for_another<L: DatabaseChecks>(
    field: &Field,
    value: &CheckedValue,
    lookup: &mut L,
    errors: &mut Errors,
) -> Result<(), L::Error> {
    if field.unique.is_some() && !matches!(value, CheckedValue::Null) && lookup.is_taken(field, value)? {
        errors.add(&field.name, message::UNIQUE);
    }
    Ok(())
}
