//! Who calls: the token, the session behind it, the account and its rights.
//!
//! What is known of a session is kept in memory and answers most requests without asking the database. It is exact in
//! the process that changes something, and at most [`FRESH`] old in the others: every transaction that changes rights
//! (an account's state or type, roles, sessions, ranges, the security rules) raises `versions.rights` in the build's
//! database; whoever commits drops what it knows at once, and every process asks for the version again when it last
//! did so [`FRESH`] ago.

use crate::address::Ranges;
use crate::app::{Build, FRESH};
use crate::http::{Refusal, Request};
use crate::permissions::Permissions;
use crate::routes::{Access, Route};
use crate::token::Claims;
use http::StatusCode;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use store::{Conn, Error, Sql};

/// The days of [`Caller::password_expires_at`] in microseconds.
pub const DAY: i64 = 86_400_000_000;
/// A session's `last_used_at` is written at most this often, in microseconds.
const TOUCH: i64 = 60_000_000;

/// An account that is signed in.
#[derive(Debug)]
pub struct Caller {
    /// The user.
    pub user: i64,
    /// The session.
    pub session: i64,
    /// The account type.
    pub account_type: String,
    /// What it may do globally: of the account type and of its roles.
    pub permissions: Permissions,
    /// The version of the build's rights under which this was read.
    pub version: i64,
    /// When the password must be changed.
    pub password_expires_at: Option<i64>,
    /// When the session ends unless it is refreshed; it may have been since this was read.
    session_expires_at: i64,
    ranges: Option<Ranges>,
    last_used_at: AtomicI64,
}

impl Caller {
    /// Whether the caller holds a global permission.
    pub fn may(&self, resource: &str, action: &str) -> bool {
        self.permissions.has(resource, action)
    }
    /// 403 unless the caller holds it.
    pub fn needs(&self, resource: &str, action: &str) -> Result<(), Refusal> {
        if self.may(resource, action) { Ok(()) } else { Err(Refusal::forbidden()) }
    }
    /// Super admins and `service_internal` (document 1, users, rule 2).
    pub fn is_super(&self) -> bool {
        is_super(&self.account_type)
    }
    /// 403 unless calls from the address are allowed.
    pub fn is_called_from(&self, address: IpAddr) -> Result<(), Refusal> {
        match self.ranges.as_ref().is_none_or(|ranges| ranges.contains(address)) {
            true => Ok(()),
            false => Err(Refusal::detail(StatusCode::FORBIDDEN, "Access from this address is not allowed.")),
        }
    }
    /// 403 unless the caller may call the route at all; what depends on the instance is decided there.
    pub fn may_use(&self, route: &Route, now: i64) -> Result<(), Refusal> {
        if !route.while_expired && self.password_expires_at.is_some_and(|expires_at| expires_at <= now) {
            return Err(Refusal::detail(StatusCode::FORBIDDEN, "Password change required."));
        }
        match route.access {
            Access::Permission(resource, action) => self.needs(resource, action),
            _ => Ok(()),
        }
    }
}

/// The types that hold everything, and that only their like may make or change.
pub fn is_super(account_type: &str) -> bool {
    matches!(account_type, "super_admin" | "service_internal")
}

/// What a process knows of a build's callers, by session.
#[derive(Default)]
pub struct Callers(Mutex<Known>);

#[derive(Default)]
struct Known {
    version: i64,
    asked: Option<Instant>,
    sessions: HashMap<i64, Arc<Caller>>,
}

/// More sessions than this are forgotten together, which costs each of them one statement.
const MOST: usize = 20_000;

impl Callers {
    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// What is known of the session, and whether that is fresh.
    fn get(&self, session: i64) -> (Option<Arc<Caller>>, bool) {
        let known = self.known();
        let fresh = known.asked.is_some_and(|asked| asked.elapsed() < FRESH);
        (known.sessions.get(&session).cloned(), fresh)
    }
    /// The rights have reached this version: what is older is forgotten.
    pub fn reached(&self, version: i64) {
        let mut known = self.known();
        if version > known.version {
            known.sessions.clear();
            known.version = version;
        }
    }
    fn asked(&self, version: i64) {
        self.reached(version);
        self.known().asked = Some(Instant::now());
    }
    /// Keeps a caller, unless something newer is known.
    fn keep(&self, caller: &Arc<Caller>) {
        self.asked(caller.version);
        let mut known = self.known();
        if known.version == caller.version {
            if known.sessions.len() >= MOST {
                known.sessions.clear();
            }
            known.sessions.insert(caller.session, caller.clone());
        }
    }
}

/// The caller whom the claims of an access token name; `None` when what stands behind them no longer holds.
pub async fn identify(build: &Arc<Build>, claims: Claims, now: i64) -> Result<Option<Arc<Caller>>, Error> {
    if claims.expires_at <= now {
        return Ok(None);
    }
    let (known, fresh) = build.callers.get(claims.session);
    let mut found = known;
    if found.is_some() && !fresh {
        build.callers.asked(build.db.read_short(version).await?);
        found = build.callers.get(claims.session).0;
    }
    let caller = match found {
        Some(caller) => caller,
        None => {
            let script = move |conn: &mut Conn| load(conn, claims.session, now);
            let Some(caller) = build.db.read(script).await?.map(Arc::new) else { return Ok(None) };
            build.callers.keep(&caller);
            caller
        }
    };
    if caller.user != claims.user {
        return Ok(None);
    }
    touch(build, &caller, now);
    Ok(Some(caller))
}

/// Notes that the session was used, now and then, behind the request's back.
fn touch(build: &Arc<Build>, caller: &Arc<Caller>, now: i64) {
    let last = caller.last_used_at.load(Ordering::Relaxed);
    if now - last < TOUCH
        || caller.last_used_at.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_err()
    {
        return;
    }
    let (db, session) = (build.db.clone(), caller.session);
    tokio::spawn(async move {
        let script = move |conn: &mut Conn| -> Result<u64, Error> {
            conn.exec(
                &Sql::new("UPDATE sessions SET last_used_at = $1 WHERE id = $2 AND ended_at IS NULL")
                    .arg(now)
                    .arg(session),
            )
        };
        if let Err(error) = db.write(script).await {
            tracing::debug!(%error, "a session's last use was not noted");
        }
    });
}

/// What a write asks first in its transaction: whether whom it was admitted for may still do it (document 4, section 7,
/// row "what a request may do"). The request to go on with, if his rights have changed.
pub fn readmit(request: &Request, conn: &mut Conn) -> Result<Option<Request>, Refusal> {
    let Some(caller) = &request.caller else { return Ok(None) };
    let now = request.app.clock.now();
    if request.token_expires_at <= now {
        return Err(Refusal::bad_token());
    }
    // Whatever ends a session but its time, or narrows addresses or rights, raises the version; the write itself, too.
    let own = request.effects.raised_to();
    if version(conn)? == caller.version.max(own)
        && (own == 0 || own == caller.version + 1)
        && caller.session_expires_at > now
    {
        return Ok(None);
    }
    let found = load(conn, caller.session, now)?.filter(|found| found.user == caller.user);
    let found = found.ok_or_else(Refusal::bad_token)?;
    found.is_called_from(request.address)?;
    found.may_use(request.route, now)?;
    Ok(Some(request.by(Arc::new(found))))
}

fn version(conn: &mut Conn) -> Result<i64, Error> {
    conn.one(&Sql::new("SELECT n FROM versions WHERE name = 'rights'"), |row| row.int(0))
}

/// Reads a live session with its account, roles and ranges, in one snapshot.
fn load(conn: &mut Conn, session: i64, now: i64) -> Result<Option<Caller>, Error> {
    let version = version(conn)?;
    let sql = Sql::new(
        "SELECT u.id, u.account_type, u.is_ip_restriction_enabled, u.allowed_ip_ranges, u.password_set_at, \
         (SELECT x.password_rotation_interval FROM security x WHERE x.id = 1), s.last_used_at, \
         CASE WHEN s.single_sign_on_id IS NULL THEN 1 ELSE 0 END, s.expires_at \
         FROM sessions s JOIN users u ON u.id = s.user_id \
         WHERE s.id = $1 AND s.ended_at IS NULL AND s.expires_at > $2 AND u.is_deleted = 0 AND u.status = 'active'",
    )
    .arg(session)
    .arg(now);
    let found = conn.opt(&sql, |row| {
        let account_type = row.text(1)?.to_owned();
        let ranges = if row.flag(2)? { Some(ranges(row.text(3)?)) } else { None };
        let rotation = row.int(5)?;
        // Who signed in elsewhere is not asked to change a password here.
        let is_by_password = row.flag(7)?;
        let set_at = row.opt_int(4)?.filter(|_| rotation > 0 && is_by_password);
        Ok(Caller {
            user: row.int(0)?,
            session,
            permissions: Permissions::of_account(&account_type),
            account_type,
            version,
            password_expires_at: set_at.map(|set_at| set_at.saturating_add(rotation * DAY)),
            ranges,
            session_expires_at: row.int(8)?,
            last_used_at: AtomicI64::new(row.int(6)?),
        })
    })?;
    let Some(mut caller) = found else { return Ok(None) };
    caller.permissions = caller.permissions.union(of_roles(conn, caller.user)?);
    Ok(Some(caller))
}

/// The ranges as stored; what cannot be read allows nothing.
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

/// To be called in every transaction that changes rights.
pub fn rights_changed(request: &Request, conn: &mut Conn) -> Result<(), Error> {
    request.effects.rights_changed(raise_version(conn)?);
    Ok(())
}

/// As [`rights_changed`], where there is no request: the command line.
pub fn raise_version(conn: &mut Conn) -> Result<i64, Error> {
    conn.one(&Sql::new("UPDATE versions SET n = n + 1 WHERE name = 'rights' RETURNING n"), |row| row.int(0))
}
