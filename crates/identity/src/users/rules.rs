//! The rules of users that concern several fields, other rows or the rights of the caller (`docs/reference/users.md`).

use super::user::{
    ACCOUNT_TYPE, DELAY_ACTIVATION, FIRST_NAME, LAST_NAME, PASSWORD, RANGES, ROLES, USER_RANGES, account_type,
};
use crate::account::permissions_of_roles;
use crate::passwords::{self, HashedPassword};
use kit::account_type::AccountType;
use kit::caller::Caller;
use kit::domain::holds_objects;
use kit::ids::UserId;
use kit::limits::{self, Limit};
use kit::permissions::Permissions;
use kit::refusal::Refusal;
use resource::{Changes, Errors, RowAfterWrite, SentObject, message};
use serde_json::Value as Json;
use store::{Conn, Sql, StoreError};

/// The types that can be converted to one another.
const CHANGEABLE: [AccountType; 4] =
    [AccountType::Internal, AccountType::External, AccountType::Full, AccountType::SuperAdmin];

/// The maximum number of accounts of each type in a build.
pub static ACCOUNTS: [Limit; 7] = [
    account_limit("users_internal", 1000, "internal accounts"),
    account_limit("users_external", 2500, "external accounts"),
    account_limit("users_full", 100, "full accounts"),
    account_limit("users_one_time_completion", 5000, "one_time_completion accounts"),
    account_limit("users_super_admin", 25, "super_admin accounts"),
    account_limit("users_service_internal", 1, "service_internal accounts"),
    account_limit("users_service_external", 5, "service_external accounts"),
];

const fn account_limit(name: &'static str, default: i64, many: &'static str) -> Limit {
    Limit { name, default, many, has_slots: true, ..Limit::EMPTY }
}

/// Returns the limit of an account type.
pub fn limit_of(account_type: AccountType) -> &'static Limit {
    &ACCOUNTS[account_type as usize]
}

/// Refuses with 403 to change a super admin, unless the caller is one.
pub fn require_change(caller: &Caller, account_type: AccountType) -> Result<(), Refusal> {
    if account_type.is_super() && !caller.is_super() { Err(Refusal::forbidden()) } else { Ok(()) }
}

/// Refuses with 403 an API key that would change its own account.
pub fn require_other_account(caller: &Caller, id: UserId) -> Result<(), Refusal> {
    if caller.key.is_some() && caller.user == id { Err(Refusal::forbidden()) } else { Ok(()) }
}

/// Refuses with 403 a caller who does not have all permissions of an account. Only super admins have all rights on single objects.
pub fn require_all_permissions_of(
    conn: &mut Conn,
    caller: &Caller,
    id: UserId,
    account_type: AccountType,
) -> Result<(), Refusal> {
    let permissions = Permissions::for_account_type(account_type).union(permissions_of_roles(conn, id)?);
    let holds_all = caller.permissions.covers(permissions) && (caller.is_super() || !holds_objects(conn, id)?);
    if holds_all { Ok(()) } else { Err(Refusal::forbidden()) }
}

/// Returns the types to which the caller may change an account of this type.
pub fn allowed_type_changes(caller: &Caller, account_type: AccountType) -> Vec<AccountType> {
    if !CHANGEABLE.contains(&account_type) || require_change(caller, account_type).is_err() {
        return Vec::new();
    }
    CHANGEABLE
        .into_iter()
        .filter(|new_type| *new_type != account_type && require_change(caller, *new_type).is_ok())
        .collect()
}

/// Adds an error if an account type may not be changed to the new one.
pub fn account_type_change(current: AccountType, new: AccountType, errors: &mut Errors) {
    if current != new && !(CHANGEABLE.contains(&current) && CHANGEABLE.contains(&new)) {
        errors.add(
            ACCOUNT_TYPE.name(),
            format!("Account type cannot be changed from {} to {}.", current.name(), new.name()),
        );
    }
}

/// Returns the errors over several fields. Only configuration administrators can have roles. A type that is active from its
/// creation cannot have `delay_activation`.
pub fn over_several_fields(after: &RowAfterWrite) -> Errors {
    let mut errors = Errors::new();
    let account_type = after.get(&ACCOUNT_TYPE).and_then(|name| AccountType::parse(&name));
    if account_type != Some(AccountType::Full) && after.sent.get(&ROLES).is_some_and(|roles| !roles.is_empty()) {
        errors.add(ROLES.name(), "Roles can be assigned only to config admin account.");
    }
    if after.sent.contains(&DELAY_ACTIVATION) && account_type.is_some_and(AccountType::is_active_from_creation) {
        errors.add(DELAY_ACTIVATION.name(), "delay_activation can not be set with this account type.");
    }
    errors
}

/// Removes the address ranges from a body if they exceed the limit of the build. Returns the body and the message about them.
pub fn bounded_ranges<'a>(conn: &mut Conn, body: SentObject<'a>) -> Result<(SentObject<'a>, Errors), StoreError> {
    let mut errors = Errors::new();
    let ranges = body.get(RANGES.name()).and_then(|value| value.as_list(0));
    let Some((_, count)) = ranges.filter(|(_, count)| *count > 0) else { return Ok((body, errors)) };
    let most = limits::value(conn, &USER_RANGES)?;
    if usize::try_from(most).is_ok_and(|most| count <= most) {
        return Ok((body, errors));
    }
    errors.add(RANGES.name(), format!("Limit of {most} {} has been exceeded.", USER_RANGES.many));
    Ok((body.filter_members(|name| name != RANGES.name()), errors))
}

/// Returns the first and the last name, as lists show them.
pub fn full_name(after: &RowAfterWrite) -> String {
    let (first, last) = (after.get(&FIRST_NAME).unwrap_or_default(), after.get(&LAST_NAME).unwrap_or_default());
    format!("{first} {last}").trim().to_owned()
}

/// Refuses the assignment of a role with a permission that the caller does not have.
pub fn require_role_grant(
    conn: &mut Conn,
    caller: &Caller,
    role_ids: &[i64],
    new_role_ids: &[i64],
) -> Result<(), Refusal> {
    for role in new_role_ids.iter().filter(|role| !role_ids.contains(role)) {
        let sql = Sql::new("SELECT permissions FROM roles WHERE id = $1").arg(*role);
        let grants: Json = conn.query_one(&sql, |row| row.json(0))?;
        if !caller.permissions.covers(Permissions::from_actions(&grants)) {
            return Err(Refusal::forbidden());
        }
    }
    Ok(())
}

/// Checks the password of a new service account, which requires one. The password of other accounts is ignored.
pub fn password_on_create(
    conn: &mut Conn,
    changes: &Changes,
    body: &SentObject<'_>,
    prepared: Option<&HashedPassword>,
    errors: &mut Errors,
) -> Result<(), Refusal> {
    if !account_type(changes).is_some_and(AccountType::is_service) {
        return Ok(());
    }
    if !body.contains_key(PASSWORD.name()) {
        errors.add(PASSWORD.name(), message::REQUIRED);
    }
    check_password(conn, None, changes, prepared, errors)
}

/// Checks a new password of a service account, including reuse.
pub fn password_on_edit(
    conn: &mut Conn,
    id: UserId,
    changes: &Changes,
    prepared: Option<&HashedPassword>,
    errors: &mut Errors,
) -> Result<(), Refusal> {
    check_password(conn, Some(id), changes, prepared, errors)
}

fn check_password(
    conn: &mut Conn,
    id: Option<UserId>,
    changes: &Changes,
    prepared: Option<&HashedPassword>,
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

/// The state of a service account's password history.
pub struct ServicePasswords {
    /// The salt of the former passwords' hashes. `None` if the account has never had a password.
    pub salt: Option<String>,
}

/// Returns the password history of a service account; `None` for other accounts and unknown ids.
pub fn passwords_of_service(conn: &mut Conn, id: UserId) -> Result<Option<ServicePasswords>, StoreError> {
    let sql = Sql::new("SELECT password_salt FROM users WHERE id = $1 AND is_deleted = 0 AND account_type IN ('service_internal', 'service_external')").arg(id);
    conn.query_optional(&sql, |row| Ok(ServicePasswords { salt: row.opt_text(0)?.map(str::to_owned) }))
}

/// Returns the actions that are available for an account, by the state that users see.
pub fn next_actions(status: &str, account_type: AccountType) -> Vec<&'static str> {
    let can_be_invited = account_type.is_invited();
    let mut actions = Vec::new();
    match status {
        "pending" | "invited" => {
            if can_be_invited {
                actions.push("send_activation_link");
            }
            actions.push("deactivate");
        }
        "active" => actions.push("deactivate"),
        "locked" => actions.extend(["deactivate", "unlock"]),
        "inactive" => actions.push("reactivate"),
        _ => return actions,
    }
    actions.push("anonymize");
    actions
}
