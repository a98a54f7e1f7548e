//! The owner of factors: who they are, when they signed in, and the lock of their account.

use super::rule_sql::RULE_OF_USER;
use crate::account::is_person;
use http::StatusCode;
use kit::ids::UserId;
use kit::refusal::Refusal;
use kit::request::Request;
use store::{Conn, Sql};

/// The time after a sign-in for which it is recent, in microseconds.
const RECENT_US: i64 = 600_000_000;

/// Returns the caller's user. Refuses with 403 an account that does not belong to a person.
pub fn require_person(request: &Request) -> Result<UserId, Refusal> {
    let caller = request.caller()?;
    if is_person(caller.account_type) { Ok(caller.user) } else { Err(Refusal::forbidden()) }
}

/// Refuses with 403 a session that did not begin recently. A refresh does not move the beginning.
pub fn require_recent_sign_in(request: &Request, conn: &mut Conn) -> Result<(), Refusal> {
    let sql = Sql::new("SELECT 1 FROM sessions WHERE id = $1 AND connector IS NULL AND created_at >= $2");
    let sql = sql.arg(request.caller()?.session).arg(request.now - RECENT_US);
    let is_recent = conn.query_optional(&sql, |_| Ok(()))?.is_some();
    if is_recent { Ok(()) } else { Err(Refusal::detail(StatusCode::FORBIDDEN, "Please sign in again.")) }
}

/// A locked account.
pub struct LockedAccount {
    pub username: String,
    /// The rule for accounts of its type.
    pub rule: String,
    /// The number of its confirmed factors.
    pub confirmed: i64,
}

/// Locks the row of an account, so that its factors are changed one after the other.
pub fn lock_account(conn: &mut Conn, user: UserId) -> Result<LockedAccount, Refusal> {
    let sql = Sql::new("SELECT u.username FROM users u WHERE u.id = $1 FOR NO KEY UPDATE").arg(user);
    let username = conn.query_one(&sql, |row| Ok(row.text(0)?.to_owned()))?;
    // A later statement reads the rule and the factors that a transaction changed while this one waited for the lock.
    let mut sql = Sql::new("SELECT ").arg(user);
    sql.push(RULE_OF_USER).push(
        ", (SELECT count(*) FROM second_factors f WHERE f.user_id = u.id AND f.confirmed_at IS NOT NULL) \
         FROM users u WHERE u.id = $1",
    );
    let (rule, confirmed) = conn.query_one(&sql, |row| Ok((row.text(0)?.to_owned(), row.int(1)?)))?;
    Ok(LockedAccount { username, rule, confirmed })
}
