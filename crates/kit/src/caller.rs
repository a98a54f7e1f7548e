//! Who calls: an account with its rights, what a route asks of it, and what a process remembers of callers.
//!
//! How a credential is read, and which account stands behind it, a domain says ([`Authenticate`]). What is known of a
//! session is kept in memory and answers most requests without a look into the database. It is exact in the process that
//! changes something, and at most [`STALE_AFTER`] old in the others: every transaction that changes rights raises the
//! version of the rights (`rights.rs`); the process that commits forgets what is older, and every process asks for the
//! version again when it last did so [`STALE_AFTER`] ago.

use crate::account_type::AccountType;
use crate::address::Ranges;
use crate::app::App;
use crate::build::{Build, STALE_AFTER};
use crate::permissions::Permissions;
use crate::refusal::Refusal;
use http::StatusCode;
use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use store::{Conn, Error};

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Access {
    /// Anyone.
    Public,
    /// Anyone who is signed in.
    Authenticated,
    /// Holders of a global permission.
    Permission(&'static str, &'static str),
    /// Decided by the instance, in the handler; the name is for people.
    Instance(&'static str),
    /// Operators with the deployment's `X-API-Key`: no account of a build.
    ApiKey,
}

/// What a route asks of its caller before its handler is called.
#[derive(Clone, Copy, Debug)]
pub struct Requirement {
    pub access: Access,
    /// Whether it may be called while the password must be changed (document 4, section 3, "forced rotation").
    pub while_expired: bool,
}

/// Where a credential stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// Any token behind `Authorization: JWT` or `Bearer`, which mean the same.
    Token,
    /// One that begins with this.
    Prefix(&'static str),
}

/// What a credential says by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The user's id in the build.
    pub user: i64,
    /// The session's id in the build.
    pub session: i64,
    /// When the credential ends, in microseconds since 1970.
    pub expires_at: i64,
}

/// The account behind a credential, still being looked for.
pub type Identifying<'a> = Pin<Box<dyn Future<Output = Result<Option<Arc<Caller>>, Error>> + Send + 'a>>;

/// How one kind of credentials is read.
pub struct Authenticate {
    /// What a credential says at a moment; `None` for one that does not hold.
    pub read: fn(&App, &Build, &str, i64) -> Option<Claims>,
    /// The account behind it as it is now; `None` when it may no longer call.
    pub identify: for<'a> fn(&'a Arc<Build>, Claims, i64) -> Identifying<'a>,
    /// The same in a transaction, never from memory.
    pub load: fn(&mut Conn, Claims, i64) -> Result<Option<Caller>, Error>,
}

/// By what a caller was admitted.
#[derive(Clone, Copy)]
pub struct Admission {
    pub claims: Claims,
    pub by: &'static Authenticate,
}

impl Admission {
    /// Who calls, if he may call from where he is, and may call a route that asks this of him.
    pub async fn caller(
        &self,
        app: &App,
        build: &Arc<Build>,
        address: IpAddr,
        requirement: Option<Requirement>,
    ) -> Result<Arc<Caller>, Refusal> {
        let now = app.clock.now();
        let caller = (self.by.identify)(build, self.claims, now).await?.ok_or_else(Refusal::bad_token)?;
        caller.is_called_from(address)?;
        if let Some(requirement) = requirement {
            caller.fulfils(requirement, now)?;
        }
        Ok(caller)
    }

    /// The admission of an upload that has begun: the token counts no more, the session does (document 4, section 7).
    pub fn of_upload(mut self) -> Admission {
        self.claims.expires_at = i64::MAX;
        self
    }
}

/// An account that is signed in.
#[derive(Debug)]
pub struct Caller {
    /// The user.
    pub user: i64,
    /// The session.
    pub session: i64,
    pub account_type: AccountType,
    /// What it may do globally: of the account type and of its roles.
    pub permissions: Permissions,
    /// The version of the build's rights under which this was read.
    pub version: i64,
    /// When the password must be changed.
    pub password_expires_at: Option<i64>,
    /// When the session ends unless it is refreshed; it may have been since this was read.
    pub session_expires_at: i64,
    /// The addresses from which it may call; `None`: from everywhere.
    pub ranges: Option<Ranges>,
    /// When the session was last noted as used.
    pub last_used_at: AtomicI64,
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
        self.account_type.is_super()
    }
    /// 403 unless calls from the address are allowed.
    pub fn is_called_from(&self, address: IpAddr) -> Result<(), Refusal> {
        match self.ranges.as_ref().is_none_or(|ranges| ranges.contains(address)) {
            true => Ok(()),
            false => Err(Refusal::detail(StatusCode::FORBIDDEN, "Access from this address is not allowed.")),
        }
    }
    /// 403 unless the caller fulfils what a route asks; what depends on the instance is decided there.
    pub fn fulfils(&self, requirement: Requirement, now: i64) -> Result<(), Refusal> {
        if !requirement.while_expired && self.password_expires_at.is_some_and(|expires_at| expires_at <= now) {
            return Err(Refusal::detail(StatusCode::FORBIDDEN, "Password change required."));
        }
        match requirement.access {
            Access::Permission(resource, action) => self.needs(resource, action),
            _ => Ok(()),
        }
    }
}

/// What a process knows of a build's callers, by session.
#[derive(Default)]
pub struct Callers(Mutex<KnownCallers>);

#[derive(Default)]
struct KnownCallers {
    version: i64,
    asked: Option<Instant>,
    sessions: HashMap<i64, Arc<Caller>>,
}

/// More sessions than this are forgotten together, which costs each of them one statement.
const MAX_SESSIONS: usize = 20_000;

impl Callers {
    fn known(&self) -> MutexGuard<'_, KnownCallers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// What is known of a session, and whether the version of the rights was asked for lately enough.
    pub fn get(&self, session: i64) -> (Option<Arc<Caller>>, bool) {
        let known = self.known();
        let is_fresh = known.asked.is_some_and(|asked| asked.elapsed() < STALE_AFTER);
        (known.sessions.get(&session).cloned(), is_fresh)
    }
    /// The rights have reached this version: what is older is forgotten.
    pub fn reached(&self, version: i64) {
        let mut known = self.known();
        if version > known.version {
            known.sessions.clear();
            known.version = version;
        }
    }
    /// The database has just told this version.
    pub fn asked(&self, version: i64) {
        self.reached(version);
        self.known().asked = Some(Instant::now());
    }
    /// Keeps a caller, unless something newer is known.
    pub fn keep(&self, caller: &Arc<Caller>) {
        self.asked(caller.version);
        let mut known = self.known();
        if known.version == caller.version {
            if known.sessions.len() >= MAX_SESSIONS {
                known.sessions.clear();
            }
            known.sessions.insert(caller.session, caller.clone());
        }
    }
}
