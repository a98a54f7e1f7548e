//! Accounts and groups that the directory of a company maintains, by the rules of the endpoints for people (`docs/reference/scim.md`).
//! The requests have no caller; the administration log names the token instead.

use crate::single_sign_on::configuration::load_names;
use crate::user_groups::group::{GROUP, NAME};
use crate::user_groups::permission_sets;
use crate::users::rules::over_several_fields;
use crate::users::user::{FIRST_NAME, FULL_NAME, LAST_NAME, USER};
use crate::users::{actions, create, rename, rules};
use kit::ids::{GroupId, SingleSignOnId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::rows;
use resource::{Changes, RowAfterWrite, SentObject};
use store::{Conn, Sql, StoreError};

pub use crate::user_groups::people::{change_members, check_room};
pub use crate::users::view::load;

/// SQL for whether a directory may see the user `t`: an account of a person without further rights by its type.
pub const IS_PROVISIONED: &str =
    "(t.is_deleted = 0 AND t.status <> 'anonymized' AND t.account_type IN ('internal', 'external'))";

/// Creates an active account from a checked body. No activation mail is sent.
pub fn create_account(request: &Request, conn: &mut Conn, body: &SentObject<'_>) -> Result<UserId, Refusal> {
    let accepted = rows::check_body(conn, &USER, body, None)?;
    accepted.errors.refuse()?;
    over_several_fields(&RowAfterWrite { before: None, sent: &accepted.changes }).refuse()?;
    let account_type = create::type_in(&accepted.changes)?;
    let id = create::insert_active(request, conn, accepted.changes)?;
    // The counter is last, since other creations wait for its row until this transaction commits.
    create::count_against_limit(conn, account_type)?;
    Ok(id)
}

/// Changes an account whose row is locked. A new username has the consequences of a rename, but identities of this issuer stay.
pub fn change_account(
    request: &Request,
    conn: &mut Conn,
    id: UserId,
    before: &Changes,
    body: &SentObject<'_>,
    configuration: SingleSignOnId,
) -> Result<(), Refusal> {
    let accepted = rows::check_body(conn, &USER, body, Some(id.get()))?;
    accepted.errors.refuse()?;
    let mut changes = accepted.changes;
    if changes.contains(&FIRST_NAME) || changes.contains(&LAST_NAME) {
        changes.set(&FULL_NAME, rules::full_name(&RowAfterWrite { before: Some(before), sent: &changes }));
    }
    let is_renamed = rename::is_change(before, &changes);
    rows::update(request, conn, &USER, id.get(), before, &changes, &[])?;
    if is_renamed {
        let issuer = issuer(request, conn, configuration)?;
        rename::apply_rename(request, conn, id, before, rename::RenamedBy::Provider(issuer.as_deref()))?;
        rights::mark_rights_changed(request, conn)?;
    }
    Ok(())
}

/// Returns the issuer of a configuration; `None` if the operator has not set it.
fn issuer(request: &Request, conn: &mut Conn, configuration: SingleSignOnId) -> Result<Option<String>, StoreError> {
    let names = load_names(request, conn)?;
    Ok(names.into_iter().find(|named| named.id == configuration).and_then(|named| named.issuer))
}

/// Deactivates an account, or makes it active again even if it never had a password.
pub fn set_active(request: &Request, conn: &mut Conn, id: UserId, is_active: bool) -> Result<(), Refusal> {
    match is_active {
        true => actions::activate_by_provider(request, conn, id),
        false => actions::deactivate_by_provider(request, conn, id),
    }
}

/// Creates a group without owners. Super admins look after it.
pub fn create_group(request: &Request, conn: &mut Conn, body: &SentObject<'_>) -> Result<GroupId, Refusal> {
    let accepted = rows::check_body(conn, &GROUP, body, None)?;
    accepted.errors.refuse()?;
    let id = GroupId::new(rows::insert(request, conn, &GROUP, &accepted.changes, &[])?);
    permission_sets::insert_system_sets(request, conn, id)?;
    Ok(id)
}

/// Changes the name of a group whose row is locked.
pub fn rename_group(
    request: &Request,
    conn: &mut Conn,
    id: GroupId,
    name: &str,
    body: &SentObject<'_>,
) -> Result<(), Refusal> {
    let accepted = rows::check_body(conn, &GROUP, body, Some(id.get()))?;
    accepted.errors.refuse()?;
    let mut before = Changes::new();
    before.set(&NAME, name.to_owned());
    rows::update(request, conn, &GROUP, id.get(), &before, &accepted.changes, &[])
}

/// Deletes a group.
pub fn delete_group(request: &Request, conn: &mut Conn, id: GroupId, name: &str) -> Result<(), Refusal> {
    rows::delete(request, conn, &GROUP, id.get(), name)?;
    rights::object_rights_ended(request);
    Ok(())
}

/// Locks the accounts with these ids that a directory may see, and returns their ids.
pub fn lock_accounts(conn: &mut Conn, ids: &[i64]) -> Result<Vec<i64>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut sql = Sql::new("SELECT t.id FROM users t WHERE ");
    sql.push(IS_PROVISIONED).push(" AND t.id").push_any(ids.iter().copied()).push(" ORDER BY t.id FOR SHARE");
    conn.query_all(&sql, |row| row.int(0))
}
