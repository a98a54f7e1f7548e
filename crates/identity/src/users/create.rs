//! Inserts accounts: for a request, for the command line, and at a first single sign-on (`docs/reference/users.md`).

use super::rules;
use super::user::{ACCOUNT_TYPE, DELAY_ACTIVATION, FULL_NAME, PASSWORD, USER, account_type};
use crate::mailed_links;
use crate::passwords::{self, HashedPassword};
use kit::account_type::AccountType;
use kit::ids::UserId;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::{limits, log, rows};
use resource::{Changes, RowAfterWrite, message};
use store::Conn;

/// Inserts a user for a request, and sends an activation mail unless it is delayed. Returns the user's id.
pub fn insert(
    request: &Request,
    conn: &mut Conn,
    account_type: AccountType,
    mut changes: Changes,
    prepared: Option<&HashedPassword>,
) -> Result<UserId, Refusal> {
    changes.set(&FULL_NAME, rules::full_name(&RowAfterWrite { before: None, sent: &changes }));
    let is_active = account_type.is_active_from_creation();
    let invited = !is_active && changes.get(&DELAY_ACTIVATION) != Some(true);
    let status = if is_active { "active" } else { "pending" };
    let mut extra = vec![("status", status.into())];
    if is_active {
        extra.push(("activated_at", request.now.into()));
    }
    let prepared = prepared.filter(|_| account_type.is_service());
    if prepared.is_none() {
        changes.remove(&PASSWORD);
    }
    if let Some(prepared) = prepared {
        extra.extend(prepared.columns(request.now));
    }
    let id = UserId::new(rows::insert(request, conn, &USER, &changes, &extra)?);
    if let Some(prepared) = prepared {
        passwords::add_to_history(conn, id, prepared)?;
    }
    if invited {
        mailed_links::send_activation(request, conn, id)?;
    }
    // The counter is last, since other creations wait for its row until this transaction commits.
    count_against_limit(conn, account_type)?;
    Ok(id)
}

/// Inserts an active user with a password, for the command line.
pub fn insert_by_operator(
    conn: &mut Conn,
    mut changes: Changes,
    prepared: &HashedPassword,
    now: i64,
) -> Result<(), Refusal> {
    count_against_limit(conn, type_in(&changes)?)?;
    changes.set(&FULL_NAME, rules::full_name(&RowAfterWrite { before: None, sent: &changes }));
    let mut extra = vec![("status", "active".into()), ("activated_at", now.into())];
    extra.extend(prepared.columns(now));
    let id = rows::insert_row(conn, &USER, &changes, &extra, now, None)?;
    passwords::add_to_history(conn, UserId::new(id), prepared)?;
    log::write_by_operator(
        conn,
        now,
        "create",
        &USER,
        id,
        &log::name_of(&changes),
        log::diff_of_create(&USER, &changes),
    )
}

/// Inserts an active user without a password, at a single sign-on. Returns `None` if the limit of its type is reached.
pub fn insert_at_sign_in(request: &Request, conn: &mut Conn, changes: Changes) -> Result<Option<UserId>, Refusal> {
    match count_against_limit(conn, type_in(&changes)?) {
        Err(refusal) if refusal.is_by_rule() => return Ok(None),
        result => result?,
    }
    insert_active(request, conn, changes).map(Some)
}

/// Inserts an active user without a password, which the calling function counts against the limit of its type. Returns its id.
pub fn insert_active(request: &Request, conn: &mut Conn, mut changes: Changes) -> Result<UserId, Refusal> {
    changes.set(&FULL_NAME, rules::full_name(&RowAfterWrite { before: None, sent: &changes }));
    let extra = [("status", "active".into()), ("activated_at", request.now.into())];
    rows::insert(request, conn, &USER, &changes, &extra).map(UserId::new)
}

/// Counts an account against the limit of its type.
pub fn count_against_limit(conn: &mut Conn, account_type: AccountType) -> Result<(), Refusal> {
    limits::count_row(conn, rules::limit_of(account_type))
}

/// Returns the account type of accepted values.
pub fn type_in(changes: &Changes) -> Result<AccountType, Refusal> {
    account_type(changes).ok_or_else(|| Refusal::field(ACCOUNT_TYPE.name(), message::REQUIRED))
}
