//! The default of a field: a value that its records could hold (`docs/reference/object-class-fields.md`).

use super::field::{DEFAULT, OPTIONS, TYPE};
use crate::classes::ClassField;
use crate::field_type::FieldType;
use crate::object_records::held::viewable;
use identity::assignees::Principals;
use kit::refusal::Refusal;
use kit::request::Request;
use resource::{Changes, CheckedValue, Errors, JsonBody, SentObject, message};
use serde_json::Value as Json;
use store::Conn;

/// Checks the default of a field as it will be, and puts one that was sent into the form of answers. It is checked when it
/// is not sent, too, since bounds that are may leave it out.
pub fn check(
    request: &Request,
    conn: &mut Conn,
    body: &SentObject<'_>,
    after: &ClassField,
    changes: &mut Changes,
    errors: &mut Errors,
) -> Result<(), Refusal> {
    // What is wrong with the type or the options says what is wrong with the default.
    let Some(default) =
        after.default.as_ref().filter(|_| !errors.has_field(TYPE.name()) && !errors.has_field(OPTIONS.name()))
    else {
        return Ok(());
    };
    if after.kind == FieldType::Document {
        errors.add(DEFAULT.name(), "This field cannot be set for the type document.");
        return Ok(());
    }
    let kept = JsonBody::from_json(default);
    // As it was sent: of a decimal the stored form of any JSON may have lost digits.
    let sent = body.get(DEFAULT.name()).filter(|_| changes.contains(&DEFAULT));
    let value = match after.checked_default(sent.unwrap_or(kept.as_value())) {
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

/// Whether the caller may set a user or a record as the value; any other number is as good as another.
fn may_be_chosen(request: &Request, conn: &mut Conn, field: &ClassField, id: i64) -> Result<bool, Refusal> {
    let caller = request.caller()?;
    Ok(match (field.kind, field.related_object_class) {
        (FieldType::User, _) => {
            let users = Principals::Users.load(conn, caller, &[id])?;
            users.get(&id).is_some_and(|user| user.is_listed && !user.is_one_time)
        }
        (FieldType::Relation, Some(class)) => viewable(conn, caller, class, &[id])?.contains(&id),
        (FieldType::Relation, None) => false,
        _ => true,
    })
}
