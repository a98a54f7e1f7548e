//! The rules that a PATCH and a test of the settings share (`docs/reference/mail.md`).

use super::settings::{
    BY_PASSWORD, FAILURE_EMAIL, FROM_EMAIL, HOST, METHOD, OBJECT, PASSWORD, PORT, SETTINGS, TLS, USERNAME,
};
use crate::client_credentials::VENDOR;
use crate::mail::message::is_address;
use kit::caller::Caller;
use kit::refusal::Refusal;
use kit::rows;
use resource::{Changes, Errors, FieldKey, LINE, RowAfterWrite, SentObject, message};
use store::{Conn, Sql, StoreError};

/// The maximum number of `failure_email` addresses.
const MAX_FAILURE_ADDRESSES: usize = 10;
const TLS_REQUIRED: &str = "TLS is required for this authorization method.";

/// The purpose for which a body is checked.
#[derive(Clone, Copy, PartialEq)]
pub enum CheckPurpose {
    /// The settings are stored.
    Change,
    /// The settings are only tested.
    Test,
}

/// Checks a body against the stored settings. Returns its changes, or a refusal with all errors.
pub fn check_settings(
    conn: &mut Conn,
    caller: &Caller,
    body: &SentObject<'_>,
    before: &Changes,
    purpose: CheckPurpose,
) -> Result<Changes, Refusal> {
    let is_set = !before.get(&HOST).unwrap_or_default().is_empty();
    let accepted = rows::check_body(conn, &SETTINGS, body, is_set.then_some(1))?;
    let (changes, mut errors) = (accepted.changes, accepted.errors);
    let needs_super_admin =
        !is_set || super_admin_fields().iter().any(|name| sends_another(name, body, before, &changes));
    if needs_super_admin && !caller.is_super() {
        return Err(Refusal::forbidden());
    }
    check_addresses(body, &mut errors);
    if !errors.has_field(METHOD.name()) {
        let after = RowAfterWrite { before: Some(before), sent: &changes };
        if after.get(&METHOD).as_deref() == Some(BY_PASSWORD) {
            let is_kept = rows::has_secret(before, &PASSWORD) && !changes_password_use(before, &changes);
            if !is_kept && !body.contains_key(PASSWORD.name()) {
                errors.add(PASSWORD.name(), message::REQUIRED);
            }
        } else {
            if after.get(&OBJECT).is_none() && !errors.has_field(OBJECT.name()) {
                errors.add(OBJECT.name(), message::REQUIRED);
            }
            // Settings from before TLS was required may stay without it. Mail is sent with TLS anyway.
            let is_decided = !is_set || body.contains_key(TLS.name()) || body.contains_key(METHOD.name());
            if is_decided && after.get(&TLS) != Some(true) && !errors.has_field(TLS.name()) {
                errors.add(TLS.name(), TLS_REQUIRED);
            }
        }
    }
    if let Some(object) = changes.get(&OBJECT)
        && !is_of_vendor(conn, object, purpose)?
    {
        errors.add(OBJECT.name(), message::choice(object));
    }
    if errors.is_empty() { Ok(changes) } else { Err(errors.into()) }
}

/// Returns the fields that decide which server receives all mail and the links in it. Only super admins may change them or test
/// other values. The password is not one of them, since it is valid only for the stored server and username.
fn super_admin_fields() -> [&'static str; 6] {
    [HOST.name(), PORT.name(), TLS.name(), USERNAME.name(), METHOD.name(), OBJECT.name()]
}

/// Returns whether a body has a value for a field that differs from the stored one. An invalid value differs, too.
pub fn sends_another(name: &str, body: &SentObject<'_>, before: &Changes, changes: &Changes) -> bool {
    body.contains_key(name) && changes.value(name).is_none_or(|value| Some(value) != before.value(name))
}

/// Checks that a message can be sent to each address.
fn check_addresses(body: &SentObject<'_>, errors: &mut Errors) {
    let is_address = |text: &str| resource::is_email(text) && is_address(text);
    let text_of = |key: &FieldKey<String>| {
        let text = body.get(key.name()).and_then(|value| value.as_str()).map(|text| text.trim().to_owned());
        text.filter(|text| !text.is_empty() && text.chars().all(LINE.allows))
    };
    if let Some(from) = text_of(&FROM_EMAIL)
        && !is_address(&from)
    {
        errors.add(FROM_EMAIL.name(), message::EMAIL);
    }
    if let Some(list) = text_of(&FAILURE_EMAIL) {
        if list.split(',').count() > MAX_FAILURE_ADDRESSES {
            errors.add(FAILURE_EMAIL.name(), message::too_many(MAX_FAILURE_ADDRESSES));
        }
        if !list.split(',').all(|address| is_address(address.trim())) {
            errors.add(FAILURE_EMAIL.name(), message::EMAIL);
        }
    }
}

/// Returns whether a change would use the stored password with another server, username or TLS setting.
pub fn changes_password_use(before: &Changes, changes: &Changes) -> bool {
    [HOST.name(), PORT.name(), TLS.name(), USERNAME.name()]
        .iter()
        .any(|name| changes.value(name).is_some_and(|value| Some(value) != before.value(name)))
}

/// Returns whether mail may be sent with this authentication object. A change of the settings locks its row until the commit.
fn is_of_vendor(conn: &mut Conn, object: i64, purpose: CheckPurpose) -> Result<bool, StoreError> {
    let mut sql = Sql::new("SELECT provider FROM authentication_objects WHERE id = ");
    sql.bind(object).push(if purpose == CheckPurpose::Change { " FOR UPDATE" } else { "" });
    let provider = conn.query_optional(&sql, |row| Ok(row.text(0)?.to_owned()))?;
    Ok(provider.as_deref() == Some(VENDOR))
}
