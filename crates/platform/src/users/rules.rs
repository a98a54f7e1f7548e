//! The rules of users that go over several fields, rows or the caller's own rights.

use super::{ACCOUNT_TYPE, DELAY_ACTIVATION, FIRST_NAME, LAST_NAME, PASSWORD, ROLES};
use crate::caller::{Caller, is_super};
use crate::http::Refusal;
use crate::passwords::{self, Prepared};
use crate::permissions::Permissions;
use resource::{After, Changes, Errors, Object, message};
use serde_json::Value as Json;
use store::{Conn, Error, Sql};

/// The types that may become one another (document 4, section 4, "account type changes").
const CHANGEABLE: [&str; 4] = ["internal", "external", "full", "super_admin"];

/// Accounts of programs.
pub fn is_service(account_type: &str) -> bool {
    matches!(account_type, "service_internal" | "service_external")
}

/// Accounts that need no activation (document 4, section 4, "status", "one_time_completion accounts").
pub fn is_active_from_creation(account_type: &str) -> bool {
    is_service(account_type) || account_type == "one_time_completion"
}

/// Only super admins and `service_internal` change their like: 403 for others.
pub fn may_change(caller: &Caller, account_type: &str) -> Result<(), Refusal> {
    if is_super(account_type) && !caller.is_super() { Err(Refusal::forbidden()) } else { Ok(()) }
}

/// What the caller may turn an account of this type into.
pub fn allowed_changes(caller: &Caller, account_type: &str) -> Vec<&'static str> {
    if !CHANGEABLE.contains(&account_type) || may_change(caller, account_type).is_err() {
        return Vec::new();
    }
    CHANGEABLE
        .into_iter()
        .filter(|new_type| *new_type != account_type && may_change(caller, new_type).is_ok())
        .collect()
}

/// An account type may change within [`CHANGEABLE`] alone.
pub fn account_type_change(current: &str, new: &str, errors: &mut Errors) {
    if current != new && !(CHANGEABLE.contains(&current) && CHANGEABLE.contains(&new)) {
        errors.add(ACCOUNT_TYPE.name(), format!("Account type cannot be changed from {current} to {new}."));
    }
}

/// Roles are for the configuration admin, and some types refuse `delay_activation`.
pub fn over_several_fields(after: &After) -> Errors {
    let mut errors = Errors::new();
    let account_type = after.get(&ACCOUNT_TYPE).unwrap_or_default();
    if account_type != "full" && after.sent.get(&ROLES).is_some_and(|roles| !roles.is_empty()) {
        errors.add(ROLES.name(), "Roles can be assigned only to config admin account.");
    }
    if after.sent.has(&DELAY_ACTIVATION) && is_active_from_creation(&account_type) {
        errors.add(DELAY_ACTIVATION.name(), "delay_activation can not be set with this account type.");
    }
    errors
}

/// The name that lists show.
pub fn full_name(after: &After) -> String {
    let (first, last) = (after.get(&FIRST_NAME).unwrap_or_default(), after.get(&LAST_NAME).unwrap_or_default());
    format!("{first} {last}").trim().to_owned()
}

/// A role is given only by a caller who holds every permission in it (document 4, section 4).
pub fn may_give_roles(conn: &mut Conn, caller: &Caller, held: &[i64], given: &[i64]) -> Result<(), Refusal> {
    for role in given.iter().filter(|role| !held.contains(role)) {
        let sql = Sql::new("SELECT permissions FROM roles WHERE id = $1").arg(*role);
        let grants: Json = conn.one(&sql, |row| Ok(serde_json::from_str(row.text(0)?).unwrap_or_default()))?;
        if !caller.permissions.covers(Permissions::from_grants(&grants)) {
            return Err(Refusal::forbidden());
        }
    }
    Ok(())
}

/// Whether rights on single objects hang on an account, beside what its type and roles give: it owns a group, or is
/// assigned to a set, by itself or through a group of its. Each domain of such objects adds its own here.
pub fn holds_objects(conn: &mut Conn, user: i64) -> Result<bool, Error> {
    let sql = Sql::new(
        "SELECT CASE WHEN EXISTS (SELECT 1 FROM user_group_owners o WHERE o.user_id = $1) \
         OR EXISTS (SELECT 1 FROM user_group_set_users a WHERE a.user_id = $1) \
         OR EXISTS (SELECT 1 FROM user_group_set_groups a JOIN user_group_members m ON m.group_id = a.group_id \
         WHERE m.user_id = $1) THEN 1 ELSE 0 END",
    );
    conn.one(&sql.arg(user), |row| row.flag(0))
}

/// A service account needs a password that keeps the rules; other accounts' is ignored (document 4, section 4).
pub fn password_on_create(
    conn: &mut Conn,
    changes: &Changes,
    body: &Object<'_>,
    prepared: Option<&Prepared>,
    errors: &mut Errors,
) -> Result<(), Refusal> {
    let account_type = changes.get(&ACCOUNT_TYPE).unwrap_or_default();
    if !is_service(&account_type) {
        return Ok(());
    }
    if !body.contains_key(PASSWORD.name()) {
        errors.add(PASSWORD.name(), message::REQUIRED);
    }
    check(conn, None, changes, prepared, errors)
}

/// As [`password_on_create`], with the rule against reuse.
pub fn password_on_edit(
    conn: &mut Conn,
    id: i64,
    changes: &Changes,
    prepared: Option<&Prepared>,
    errors: &mut Errors,
) -> Result<(), Refusal> {
    check(conn, Some(id), changes, prepared, errors)
}

fn check(
    conn: &mut Conn,
    id: Option<i64>,
    changes: &Changes,
    prepared: Option<&Prepared>,
    errors: &mut Errors,
) -> Result<(), Refusal> {
    let Some(password) = changes.get(&PASSWORD) else { return Ok(()) };
    if password.is_empty() {
        errors.add(PASSWORD.name(), message::BLANK);
        return Ok(());
    }
    for message in passwords::broken_rules(conn, id, &password, prepared)? {
        errors.add(PASSWORD.name(), message);
    }
    Ok(())
}

/// The salt of a service account's password history; `None` for other accounts and unknown ids.
pub fn salt_of_service(conn: &mut Conn, id: i64) -> Result<Option<Option<String>>, Error> {
    let sql = Sql::new("SELECT password_salt FROM users WHERE id = $1 AND is_deleted = 0 AND account_type IN ('service_internal', 'service_external')").arg(id);
    conn.opt(&sql, |row| Ok(row.opt_text(0)?.map(str::to_owned)))
}

/// The refusal of the account that is one too many.
pub fn account_limit(limit: i64, account_type: &str) -> Refusal {
    Refusal::limit(format!("Limit of {limit} {account_type} accounts has been exceeded."))
}
