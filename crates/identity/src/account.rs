//! The part of an account that a sign-in needs: its state, its password, its authentication method, its address ranges, and the
//! permissions of its roles (`docs/reference/sign-in.md`).

use crate::second_factors::rule_sql::IS_ASKED;
use crate::settings::IdentitySettings;
use crate::system_events::{self, AuthEvent};
use kit::account_type::AccountType;
use kit::address::Ranges;
use kit::caller::Caller;
use kit::ids::{SessionId, UserId};
use kit::permissions::Permissions;
use kit::refusal::Refusal;
use kit::request::Request;
use std::sync::atomic::AtomicI64;
use store::{Conn, Row, Sql, StoreError};

/// SQL for the authentication method of an account type (an SQL expression), read from the row `x` of the security rules.
macro_rules! method_sql {
    ($account_type:literal) => {
        concat!(
            "CASE ",
            $account_type,
            " WHEN 'internal' THEN x.method_internal WHEN 'external' THEN x.method_external WHEN 'full' THEN x.method_full \
             WHEN 'super_admin' THEN x.method_super_admin WHEN 'one_time_completion' THEN 'none' ELSE 'password' END"
        )
    };
}

/// SQL for the authentication method of the user `u`.
pub const METHOD_OF_USER: &str = concat!("(SELECT ", method_sql!("u.account_type"), " FROM security x WHERE x.id = 1)");

/// Returns whether accounts of a type belong to people who may let agents work for them.
pub fn is_person(account_type: AccountType) -> bool {
    use AccountType::{External, Full, Internal, SuperAdmin};
    matches!(account_type, Internal | External | Full | SuperAdmin)
}

/// Returns the refusal of a failed sign-in. It is the same for all failures, so that it reveals nothing about the account.
pub fn sign_in_refused() -> Refusal {
    Refusal::unauthorised("Unable to sign in with the credentials given.")
}

/// Reads a column with address ranges.
pub fn read_ranges(row: &Row<'_>, column: usize) -> Result<Ranges, StoreError> {
    let texts: Vec<String> = row.json(column)?;
    Ranges::parse(&texts).ok_or_else(|| StoreError::internal("stored address ranges cannot be parsed"))
}

/// A role that a user has.
pub struct UserRole {
    pub id: i64,
    pub name: String,
    pub permissions: Permissions,
}

/// Returns the roles of a user, ordered by id.
pub fn roles_of(conn: &mut Conn, user: UserId) -> Result<Vec<UserRole>, StoreError> {
    let sql = Sql::new(
        "SELECT r.id, r.name, r.permissions FROM user_roles ur JOIN roles r ON r.id = ur.role_id WHERE ur.user_id = $1 \
         ORDER BY r.id",
    );
    conn.query_all(&sql.arg(user), |row| {
        let grants = row.json(2)?;
        Ok(UserRole { id: row.int(0)?, name: row.text(1)?.to_owned(), permissions: Permissions::from_actions(&grants) })
    })
}

/// Returns the permissions that a user has by roles.
pub fn permissions_of_roles(conn: &mut Conn, user: UserId) -> Result<Permissions, StoreError> {
    Ok(roles_of(conn, user)?.iter().fold(Permissions::NONE, |set, role| set.union(role.permissions)))
}

/// Returns whether the account of a user exists and is active. An account that is locked after failed sign-ins is active.
pub fn is_active(conn: &mut Conn, user: UserId) -> Result<bool, StoreError> {
    let sql = Sql::new("SELECT 1 FROM users WHERE id = $1 AND is_deleted = 0 AND status = 'active'").arg(user);
    Ok(conn.query_optional(&sql, |_| Ok(()))?.is_some())
}

/// Returns the caller that an account would be, without a session. It serves checks of another user's rights.
pub fn as_caller(conn: &mut Conn, user: UserId) -> Result<Caller, StoreError> {
    let account_type = account_type_of(conn, user)?;
    Ok(Caller {
        user,
        session: SessionId::NONE,
        account_type,
        agent: None,
        key: None,
        narrowed_to: None,
        permissions: Permissions::for_account_type(account_type).union(permissions_of_roles(conn, user)?),
        version: 0,
        password_expires_at: None,
        lacks_second_factor: false,
        session_expires_at: 0,
        ranges: None,
        last_used_at: AtomicI64::new(0),
    })
}

/// Returns the type of an existing account.
pub fn account_type_of(conn: &mut Conn, user: UserId) -> Result<AccountType, StoreError> {
    let sql = Sql::new("SELECT account_type FROM users WHERE id = $1").arg(user);
    conn.query_one(&sql, |row| read_account_type(row.text(0)?))
}

/// Reads a stored account type.
pub fn read_account_type(stored: &str) -> Result<AccountType, StoreError> {
    AccountType::parse(stored).ok_or_else(|| StoreError::internal(format_args!("{stored} is no account type")))
}

/// Returns the positions of a row's columns. Destructure the array into names in the order of the SELECT list.
pub fn columns<const N: usize>() -> [usize; N] {
    std::array::from_fn(|position| position)
}

/// Returns the authentication method of an account type: `any`, `password`, `sso`, or `none`.
pub fn authentication_method(conn: &mut Conn, account_type: AccountType) -> Result<String, StoreError> {
    let sql = Sql::new(concat!("SELECT ", method_sql!("$1"), " FROM security x WHERE x.id = 1"));
    conn.query_one(&sql.arg(account_type.name()), |row| Ok(row.text(0)?.to_owned()))
}

/// The columns of an account that a sign-in needs.
#[derive(Clone, Debug)]
pub struct SignInAccount {
    /// The id of its user.
    pub id: UserId,
    pub account_type: AccountType,
    /// The PHC string of its password; `None` for an account without a password.
    pub hash: Option<String>,
    /// Is true if the account is activated and not deactivated.
    pub is_active: bool,
    locked_until: Option<i64>,
    failed_attempts: i64,
    failed_since: Option<i64>,
    method: String,
    /// The stored address ranges; `None` if the account is not restricted to them.
    ranges: Option<Ranges>,
    /// Is true if the account is asked for a second factor after its password.
    pub is_asked_for_factor: bool,
}

impl SignInAccount {
    /// Loads the account with a username.
    pub fn load_by_username(conn: &mut Conn, username: &str) -> Result<Option<SignInAccount>, StoreError> {
        SignInAccount::find(conn, &Sql::new("u.username_fold = $1").arg(resource::fold(username.trim())))
    }

    /// Loads the account with a username and locks its row.
    pub fn load_by_username_for_change(conn: &mut Conn, username: &str) -> Result<Option<SignInAccount>, StoreError> {
        SignInAccount::find_locked(conn, &Sql::new("u.username_fold = $1").arg(resource::fold(username.trim())))
    }

    /// Loads the account of a user.
    pub fn load_by_id(conn: &mut Conn, user: UserId) -> Result<Option<SignInAccount>, StoreError> {
        SignInAccount::find(conn, &Sql::new("u.id = $1").arg(user))
    }

    /// Loads the account of a user and locks its row.
    pub fn load_by_id_for_change(conn: &mut Conn, user: UserId) -> Result<Option<SignInAccount>, StoreError> {
        SignInAccount::find_locked(conn, &Sql::new("u.id = $1").arg(user))
    }

    /// Locks the row before it is read, so that rules and factors are those after a wait for the lock.
    fn find_locked(conn: &mut Conn, condition: &Sql) -> Result<Option<SignInAccount>, StoreError> {
        // SQLite has one writer, which waits for nobody.
        if !conn.is_embedded() {
            let mut sql = Sql::new("SELECT 1 FROM users u WHERE u.is_deleted = 0 AND ");
            conn.query_optional(sql.append(condition).push(" FOR NO KEY UPDATE"), |_| Ok(()))?;
        }
        SignInAccount::find(conn, condition)
    }

    fn find(conn: &mut Conn, condition: &Sql) -> Result<Option<SignInAccount>, StoreError> {
        let mut sql = Sql::new(concat!(
            "SELECT u.id, u.password_hash, u.status, u.locked_until, u.failed_attempts, u.failed_since, \
             u.is_ip_restriction_enabled, u.allowed_ip_ranges, (SELECT ",
            method_sql!("u.account_type"),
            " FROM security x WHERE x.id = 1), u.account_type, CASE WHEN "
        ));
        sql.push(IS_ASKED).push(" THEN 1 ELSE 0 END FROM users u WHERE u.is_deleted = 0 AND ");
        let [
            id,
            hash,
            status,
            locked_until,
            failed_attempts,
            failed_since,
            is_restricted,
            ranges,
            method,
            account_type,
            is_asked,
        ] = columns();
        sql.append(condition);
        conn.query_optional(&sql, |row| {
            Ok(SignInAccount {
                id: row.id(id)?,
                hash: row.opt_text(hash)?.map(str::to_owned),
                is_active: row.text(status)? == "active",
                locked_until: row.opt_int(locked_until)?,
                failed_attempts: row.int(failed_attempts)?,
                failed_since: row.opt_int(failed_since)?,
                ranges: if row.flag(is_restricted)? { Some(read_ranges(row, ranges)?) } else { None },
                method: row.text(method)?.to_owned(),
                account_type: read_account_type(row.text(account_type)?)?,
                is_asked_for_factor: row.flag(is_asked)?,
            })
        })
    }

    /// Returns whether the account is locked after too many wrong passwords.
    pub fn is_locked(&self, now: i64) -> bool {
        self.locked_until.is_some_and(|until| until > now)
    }

    /// Returns whether accounts of this type may sign in with a password.
    pub fn may_use_password(&self) -> bool {
        matches!(self.method.as_str(), "any" | "password")
    }

    /// Returns whether accounts of this type may sign in by single sign-on. Services never may.
    pub fn may_use_single_sign_on(&self) -> bool {
        matches!(self.method.as_str(), "any" | "sso")
    }

    /// Returns whether the account may be used from the request's address.
    pub fn may_call_from(&self, request: &Request) -> bool {
        self.ranges.as_ref().is_none_or(|ranges| ranges.contains(request.address))
    }

    /// Returns whether the right password would sign the account in now, from the request's address.
    pub fn is_open_to_passwords(&self, request: &Request) -> bool {
        self.is_active
            && self.hash.is_some()
            && self.may_use_password()
            && !self.is_locked(request.now)
            && self.may_call_from(request)
    }

    /// Counts a wrong password. Too many in a row within the window lock the account. The row must be locked, so that parallel
    /// guesses count one by one. Nothing is counted if no password could sign the account in, so that attackers cannot lock such an
    /// account.
    pub fn count_wrong_password(&self, request: &Request, conn: &mut Conn) -> Result<(), Refusal> {
        if !self.is_open_to_passwords(request) {
            return Ok(());
        }
        let (now, settings) = (request.now, request.app.slot::<IdentitySettings>());
        let window = settings.lock_seconds * 1_000_000;
        let continues = self.failed_since.is_some_and(|since| since > now - window) && self.failed_attempts > 0;
        let (attempts, since) = if continues { (self.failed_attempts + 1, self.failed_since) } else { (1, Some(now)) };
        let locks = attempts >= settings.lock_attempts;
        let sql = Sql::new("UPDATE users SET failed_attempts = $1, failed_since = $2, locked_until = $3 WHERE id = $4");
        let until = if locks { Some(now + window) } else { self.locked_until };
        conn.exec(&sql.arg(if locks { 0 } else { attempts }).arg(since).arg(until).arg(self.id))?;
        if locks {
            system_events::write(request, conn, AuthEvent::AccountLocked, Some(self.id), None)?;
        }
        Ok(())
    }
}
