//! That super admins can always sign in (document 4, section 7, "super admins' last way in"): one rule for every change
//! of a method, a configuration, an identity, a name, a type or a state.

use crate::account::method_of;
use crate::single_sign_on::configuration::enabled_issuers;
use kit::account_type::AccountType;
use kit::refusal::Refusal;
use kit::request::Request;
use store::{Conn, Error, Sql};

/// What is told when nobody could sign in any more.
pub const NO_WAY_IN: &str = "Super admins could no longer sign in.";

/// How far the best placed super admin gets. No change may make it less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Access {
    /// There is none.
    Nobody,
    /// There are some, but none is active.
    Inactive,
    /// One is active, but has no way to sign in.
    Active,
    /// One can sign in.
    Open,
}

/// The access of super admins before a change, to be compared with that after it.
pub struct Guard(Option<Access>);

/// Begins to guard a change. A change that does not concern super admins (`is_concerned` is false) costs nothing.
///
/// The row of the security rules is locked until the transaction ends, so that two changes which are harmless alone do
/// not pass each other. Callers lock it after the row that they change, and before counters and versions: so no two
/// wait for each other.
pub fn guard(request: &Request, conn: &mut Conn, is_concerned: bool) -> Result<Guard, Error> {
    if !is_concerned {
        return Ok(Guard(None));
    }
    conn.one(&Sql::new("SELECT 1 FROM security WHERE id = 1 FOR UPDATE"), |_| Ok(()))?;
    let method = method_of(conn, AccountType::SuperAdmin)?;
    Ok(Guard(Some(access(request, conn, &method)?)))
}

impl Guard {
    /// Refuses the change if it has taken the last way in.
    pub fn keep(&self, request: &Request, conn: &mut Conn) -> Result<(), Refusal> {
        let Some(before) = self.0 else { return Ok(()) };
        let method = method_of(conn, AccountType::SuperAdmin)?;
        match access(request, conn, &method)? {
            after if after >= before => Ok(()),
            Access::Active => Err(Refusal::bad(NO_WAY_IN)),
            _ => Err(Refusal::bad("The last super admin must remain.")),
        }
    }

    /// Whether another authentication method of super admins would take the last way in.
    pub fn forbids_method(&self, request: &Request, conn: &mut Conn, method: &str) -> Result<bool, Error> {
        match self.0 {
            Some(before) => Ok(access(request, conn, method)? < before),
            None => Ok(false),
        }
    }
}

/// What super admins can do under an authentication method. An identity that an address has bound does not count: it
/// signs no super admin in.
fn access(request: &Request, conn: &mut Conn, method: &str) -> Result<Access, Error> {
    let issuers = enabled_issuers(request, conn)?;
    let (by_password, by_single_sign_on) = (method != "sso", method != "password");
    let sql = Sql::new(
        "SELECT u.status, CASE WHEN u.password_hash IS NULL THEN 0 ELSE 1 END, i.issuer FROM users u \
         LEFT JOIN single_sign_on_identities i ON i.user_id = u.id AND i.is_linked = 1 \
         WHERE u.account_type = 'super_admin' AND u.is_deleted = 0 AND u.status <> 'anonymized'",
    );
    let each = conn.all(&sql, |row| {
        let is_linked = row.opt_text(2)?.is_some_and(|issuer| issuers.iter().any(|enabled| enabled == issuer));
        Ok(match row.text(0)? {
            "active" if by_password && row.flag(1)? || by_single_sign_on && is_linked => Access::Open,
            "active" => Access::Active,
            _ => Access::Inactive,
        })
    })?;
    Ok(each.into_iter().max().unwrap_or(Access::Nobody))
}
