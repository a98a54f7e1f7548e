//! The default of a field: a value that is valid in its records (`docs/reference/object-class-fields.md`).

use super::field::{DEFAULT, OPTIONS, TYPE};
use crate::classes::ClassField;
use crate::field_type::FieldType;
use crate::object_records::record_access::viewable;
use identity::assignees::Principals;
use kit::ids::{RecordId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use resource::{Changes, CheckedValue, Errors, JsonBody, SentObject, message};
use serde_json::Value as Json;
use store::Conn;

/// Checks the default in the future state of a field, and converts a sent default to the form of answers. A default that was not
/// sent is checked too, because changed bounds may exclude it.
pub fn check(
    request: &Request,
    conn: &mut Conn,
    body: &SentObject<'_>,
    after: &ClassField,
    changes: &mut Changes,
    errors: &mut Errors,
) -> Result<(), Refusal> {
    // An error of the type or the options also explains an invalid default.
    let Some(default) =
        after.default.as_ref().filter(|_| !errors.has_field(TYPE.name()) && !errors.has_field(OPTIONS.name()))
    else {
        return Ok(());
    };
    if after.kind == FieldType::Document {
        errors.add(DEFAULT.name(), "This field cannot be set for the type document.");
        return Ok(());
    }
    let stored_default = JsonBody::from_json(default);
    // The sent form is checked, because the stored form of any JSON may have lost digits of a decimal.
    let sent_default = body.get(DEFAULT.name()).filter(|_| changes.contains(&DEFAULT));
    let value = match after.checked_default(sent_default.unwrap_or(stored_default.as_value())) {
        Ok(value) => value,
        Err(wrong) => {
            wrong.into_iter().for_each(|wrong| errors.add(DEFAULT.name(), wrong));
            return Ok(());
        }
    };
    if !changes.contains(&DEFAULT) {
        return Ok(());
    }
    if let CheckedValue::Int(id) = value
        && !may_be_chosen(request, conn, after, id)?
    {
        errors.add(DEFAULT.name(), message::invalid_id_message(id));
    }
    let shown = if after.kind == FieldType::Datetime { value.to_json_datetime() } else { value.to_json() };
    changes.set(&DEFAULT, if shown == Json::Null { CheckedValue::Null } else { CheckedValue::Json(shown) });
    Ok(())
}

/// Returns whether the caller may set a user or a record as the value. Other numbers are always allowed.
fn may_be_chosen(request: &Request, conn: &mut Conn, field: &ClassField, id: i64) -> Result<bool, Refusal> {
    let caller = request.caller()?;
    Ok(match (field.kind, field.related_object_class) {
        (FieldType::User, _) => {
            let user = UserId::new(id);
            let users = Principals::Users.load(conn, caller, &[user])?;
            users.get(&user).is_some_and(|user| user.is_listed && !user.is_one_time)
        }
        (FieldType::Relation, Some(class)) => {
            let record = RecordId::new(id);
            viewable(conn, caller, class, &[record])?.contains(&record)
        }
        (FieldType::Relation, None) => false,
        _ => true,
    })
}
