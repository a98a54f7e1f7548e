//! Ensures that super admins can sign in (`docs/reference/security-rules.md`). One rule serves all changes of an authentication
//! method, a configuration, an identity, a username, an account type or a state.

use crate::account::authentication_method;
use crate::single_sign_on::configuration::enabled_issuers;
use kit::account_type::AccountType;
use kit::refusal::Refusal;
use kit::request::Request;
use store::{Conn, Sql, StoreError};

/// The message of a change that would lock out all super admins.
pub const NO_WAY_IN: &str = "Super admins could no longer sign in.";

/// The best access of all super admins. Changes must not reduce it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SuperAdminAccess {
    /// No super admin exists.
    Nobody,
    /// No super admin is active.
    Inactive,
    /// A super admin is active, but cannot sign in.
    Active,
    /// A super admin can sign in.
    CanSignIn,
}

/// The access of super admins before a change, for the comparison with the access after it; `None` if the change does not concern
/// them.
pub struct SuperAdminGuard(Option<SuperAdminAccess>);

/// Reads the access of super admins before a change. Reads and locks nothing if `is_concerned` is false.
///
/// The row of the security rules stays locked until the transaction ends, so that concurrent changes see each other. Callers lock
/// it after the row that they change and before counters and versions, which prevents deadlocks.
pub fn guard(request: &Request, conn: &mut Conn, is_concerned: bool) -> Result<SuperAdminGuard, StoreError> {
    if !is_concerned {
        return Ok(SuperAdminGuard(None));
    }
    conn.query_one(&Sql::new("SELECT 1 FROM security WHERE id = 1 FOR UPDATE"), |_| Ok(()))?;
    let method = authentication_method(conn, AccountType::SuperAdmin)?;
    Ok(SuperAdminGuard(Some(access(request, conn, &method)?)))
}

impl SuperAdminGuard {
    /// Refuses the change if super admins have less access after it.
    pub fn refuse_loss(&self, request: &Request, conn: &mut Conn) -> Result<(), Refusal> {
        let Some(before) = self.0 else { return Ok(()) };
        let method = authentication_method(conn, AccountType::SuperAdmin)?;
        match access(request, conn, &method)? {
            after if after >= before => Ok(()),
            SuperAdminAccess::Active => Err(Refusal::bad_request(NO_WAY_IN)),
            _ => Err(Refusal::bad_request("The last super admin must remain.")),
        }
    }

    /// Returns whether super admins would have less access under another authentication method.
    pub fn forbids_method(&self, request: &Request, conn: &mut Conn, method: &str) -> Result<bool, StoreError> {
        match self.0 {
            Some(before) => Ok(access(request, conn, method)? < before),
            None => Ok(false),
        }
    }
}

/// Returns the access of super admins under an authentication method. An identity that was bound by an address does not count,
/// since it does not sign in a super admin.
fn access(request: &Request, conn: &mut Conn, method: &str) -> Result<SuperAdminAccess, StoreError> {
    let issuers = enabled_issuers(request, conn)?;
    let (by_password, by_single_sign_on) = (method != "sso", method != "password");
    let sql = Sql::new(
        "SELECT u.status, CASE WHEN u.password_hash IS NULL THEN 0 ELSE 1 END, i.issuer FROM users u \
         LEFT JOIN single_sign_on_identities i ON i.user_id = u.id AND i.is_linked = 1 \
         WHERE u.account_type = 'super_admin' AND u.is_deleted = 0 AND u.status <> 'anonymized'",
    );
    let levels = conn.query_all(&sql, |row| {
        let is_linked = row.opt_text(2)?.is_some_and(|issuer| issuers.iter().any(|enabled| enabled == issuer));
        Ok(match row.text(0)? {
            "active" if by_password && row.flag(1)? || by_single_sign_on && is_linked => SuperAdminAccess::CanSignIn,
            "active" => SuperAdminAccess::Active,
            _ => SuperAdminAccess::Inactive,
        })
    })?;
    Ok(levels.into_iter().max().unwrap_or(SuperAdminAccess::Nobody))
}
