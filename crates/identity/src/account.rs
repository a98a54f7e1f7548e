//! An account as signing in sees it: its state, its password, how and from where it may sign in, and what its roles give.

use crate::settings::Settings;
use crate::system_events::{self, Event};
use kit::account_type::AccountType;
use kit::address::Ranges;
use kit::permissions::Permissions;
use kit::refusal::Refusal;
use kit::request::Request;
use store::{Conn, Error, Sql};

/// The authentication method of an account type, given as SQL, by the row `x` of the security rules.
macro_rules! method_of {
    ($account_type:literal) => {
        concat!(
            "CASE ",
            $account_type,
            " WHEN 'internal' THEN x.method_internal WHEN 'external' THEN x.method_external WHEN 'full' THEN x.method_full \
             WHEN 'super_admin' THEN x.method_super_admin WHEN 'one_time_completion' THEN 'none' ELSE 'password' END"
        )
    };
}

/// The one answer to a sign-in that fails.
pub fn sign_in_refused() -> Refusal {
    Refusal::unauthorised("Unable to sign in with the credentials given.")
}

/// The address ranges as stored; what cannot be read allows nothing.
pub fn ranges(stored: &str) -> Ranges {
    let texts: Vec<String> = serde_json::from_str(stored).unwrap_or_default();
    Ranges::parse(&texts).unwrap_or_default()
}

/// What the roles of a user give.
pub fn of_roles(conn: &mut Conn, user: i64) -> Result<Permissions, Error> {
    let sql =
        Sql::new("SELECT r.permissions FROM user_roles ur JOIN roles r ON r.id = ur.role_id WHERE ur.user_id = $1")
            .arg(user);
    let grants = conn.all(&sql, |row| Ok(serde_json::from_str(row.text(0)?).unwrap_or_default()))?;
    Ok(grants.iter().fold(Permissions::NONE, |set, grants| set.union(Permissions::from_grants(grants))))
}

/// The type of an account that exists.
pub fn type_of(conn: &mut Conn, user: i64) -> Result<AccountType, Error> {
    let sql = Sql::new("SELECT account_type FROM users WHERE id = $1").arg(user);
    conn.one(&sql, |row| read_type(row.text(0)?))
}

/// A stored account type.
pub fn read_type(stored: &str) -> Result<AccountType, Error> {
    AccountType::of(stored).ok_or_else(|| Error::Db(format!("{stored}: no account type")))
}

/// How accounts of a type may sign in: `any`, `password`, `sso`, or `none`.
pub fn method_of(conn: &mut Conn, account_type: AccountType) -> Result<String, Error> {
    let sql = Sql::new(concat!("SELECT ", method_of!("$1"), " FROM security x WHERE x.id = 1"));
    conn.one(&sql.arg(account_type.name()), |row| Ok(row.text(0)?.to_owned()))
}

/// The account that a name or id finds, as far as signing in cares.
#[derive(Clone, Debug)]
pub struct Account {
    /// The user.
    pub id: i64,
    /// The PHC string of its password, if it has one.
    pub hash: Option<String>,
    /// Neither inactive, nor still to be activated.
    pub is_active: bool,
    locked_until: Option<i64>,
    failed_attempts: i64,
    failed_since: Option<i64>,
    method: String,
    ranges: Option<String>,
}

impl Account {
    /// The account of a username, as it is.
    pub fn named(conn: &mut Conn, username: &str) -> Result<Option<Account>, Error> {
        Account::find(conn, &Sql::new("u.username_fold = $1").arg(resource::fold(username.trim())))
    }

    /// As [`Account::named`], locked for the change to come.
    pub fn named_for_change(conn: &mut Conn, username: &str) -> Result<Option<Account>, Error> {
        Account::find(conn, &Sql::new("u.username_fold = $1 FOR NO KEY UPDATE").arg(resource::fold(username.trim())))
    }

    /// The account of a user, as it is.
    pub fn of(conn: &mut Conn, user: i64) -> Result<Option<Account>, Error> {
        Account::find(conn, &Sql::new("u.id = $1").arg(user))
    }

    /// As [`Account::of`], locked for the change to come.
    pub fn of_for_change(conn: &mut Conn, user: i64) -> Result<Option<Account>, Error> {
        Account::find(conn, &Sql::new("u.id = $1 FOR NO KEY UPDATE").arg(user))
    }

    fn find(conn: &mut Conn, condition: &Sql) -> Result<Option<Account>, Error> {
        let mut sql = Sql::new(concat!(
            "SELECT u.id, u.password_hash, u.status, u.locked_until, u.failed_attempts, u.failed_since, \
             u.is_ip_restriction_enabled, u.allowed_ip_ranges, (SELECT ",
            method_of!("u.account_type"),
            " FROM security x WHERE x.id = 1) FROM users u WHERE u.is_deleted = 0 AND "
        ));
        sql.append(condition);
        conn.opt(&sql, |row| {
            Ok(Account {
                id: row.int(0)?,
                hash: row.opt_text(1)?.map(str::to_owned),
                is_active: row.text(2)? == "active",
                locked_until: row.opt_int(3)?,
                failed_attempts: row.int(4)?,
                failed_since: row.opt_int(5)?,
                ranges: if row.flag(6)? { Some(row.text(7)?.to_owned()) } else { None },
                method: row.text(8)?.to_owned(),
            })
        })
    }

    /// Whether too many wrong passwords keep it closed.
    pub fn is_locked(&self, now: i64) -> bool {
        self.locked_until.is_some_and(|until| until > now)
    }

    /// Whether its type may sign in with a password.
    pub fn may_use_password(&self) -> bool {
        matches!(self.method.as_str(), "any" | "password")
    }

    /// Whether its type may sign in by single sign-on: never that of services.
    pub fn may_use_single_sign_on(&self) -> bool {
        matches!(self.method.as_str(), "any" | "sso")
    }

    /// Whether it may be used from where the request comes from.
    pub fn may_call_from(&self, request: &Request) -> bool {
        self.ranges.as_ref().is_none_or(|stored| ranges(stored).contains(request.address))
    }

    /// Whether a right password would sign it in now, from where the request comes from.
    pub fn is_open_to_passwords(&self, request: &Request) -> bool {
        self.is_active
            && self.hash.is_some()
            && self.may_use_password()
            && !self.is_locked(request.now)
            && self.may_call_from(request)
    }

    /// Notes a wrong password: too many in a row within the window lock the account. The row is read and written in
    /// one transaction, so that parallel guesses count one by one. Where no password would sign in, none counts: or
    /// strangers could lock accounts at which there is nothing to guess (document 4, section 7, "wrong passwords").
    pub fn failed(&self, request: &Request, conn: &mut Conn) -> Result<(), Refusal> {
        if !self.is_open_to_passwords(request) {
            return Ok(());
        }
        let (now, settings) = (request.now, request.app.slot::<Settings>());
        let window = settings.lock_seconds * 1_000_000;
        let goes_on = self.failed_since.is_some_and(|since| since > now - window) && self.failed_attempts > 0;
        let (attempts, since) = if goes_on { (self.failed_attempts + 1, self.failed_since) } else { (1, Some(now)) };
        let locks = attempts >= settings.lock_attempts;
        let sql = Sql::new("UPDATE users SET failed_attempts = $1, failed_since = $2, locked_until = $3 WHERE id = $4");
        let until = if locks { Some(now + window) } else { self.locked_until };
        conn.exec(&sql.arg(if locks { 0 } else { attempts }).arg(since).arg(until).arg(self.id))?;
        if locks {
            system_events::note(request, conn, Event::AccountLocked, Some(self.id), None)?;
        }
        Ok(())
    }
}
