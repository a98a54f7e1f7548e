//! The caller of a request: an account with its rights, and the requirement of a route that it must meet.

use crate::account_type::AccountType;
use crate::address::Ranges;
use crate::ids::{ApiKeyId, ConnectorId, SessionId, TaskId, UserId};
use crate::permissions::Permissions;
use crate::refusal::Refusal;
use http::StatusCode;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

/// The callers that a route accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RouteAccess {
    /// All clients.
    Public,
    /// All signed-in accounts.
    Authenticated,
    /// Callers with a global permission: resource and action.
    Permission(&'static str, &'static str),
    /// Callers with a right on the instance, which the handler checks. The text describes the right in OpenAPI.
    Instance(&'static str),
    /// Operators with the deployment's `X-API-Key`. They have no account in a build.
    ApiKey,
}

/// The requirement of a route that its caller must meet before the handler is called.
#[derive(Clone, Copy, Debug)]
pub struct Requirement {
    pub access: RouteAccess,
    /// Is true if the route may be called while the password must be changed (`docs/reference/sign-in.md`).
    pub while_expired: bool,
    /// Is true if the route may be called while the account lacks a second factor (`docs/reference/second-factors.md`).
    pub while_lacking_factor: bool,
    /// Is true if sessions that are narrowed to one object may call the route ([`Caller::narrowed_to`]).
    pub for_narrowed: bool,
    /// Is true if API keys may call the route.
    pub for_keys: bool,
}

/// The claims of a credential, which are read without the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CredentialClaims {
    pub user: UserId,
    pub session: SessionId,
    /// The hash of a credential that is not signed. Only the database names its account, so `user` and `session` are `NONE`.
    pub secret: Option<SecretHash>,
    /// The expiry of the credential, in microseconds since 1970.
    pub expires_at: i64,
}

/// The SHA-256 of a secret.
pub type SecretHash = [u8; 32];

impl CredentialClaims {
    /// Returns the claims of a session.
    pub fn of_session(user: UserId, session: SessionId, expires_at: i64) -> CredentialClaims {
        CredentialClaims { user, session, secret: None, expires_at }
    }
    /// Returns the claims of a credential that is not signed. The database stores its expiry.
    pub fn of_secret(hash: SecretHash) -> CredentialClaims {
        CredentialClaims { user: UserId::NONE, session: SessionId::NONE, secret: Some(hash), expires_at: i64::MAX }
    }
    /// Returns the name of the credential in the cache of callers.
    pub fn cache_key(&self) -> CallerKey {
        self.secret.map_or(CallerKey::Session(self.session), CallerKey::Secret)
    }
}

/// The name of a credential in the cache of callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallerKey {
    Session(SessionId),
    Secret(SecretHash),
}

/// The caller of a request: a signed-in account with its rights. Times are in microseconds since 1970.
#[derive(Debug)]
pub struct Caller {
    pub user: UserId,
    pub session: SessionId,
    pub account_type: AccountType,
    /// The only task that the session may use. The handlers of the few routes that it may call compare this id.
    pub narrowed_to: Option<TaskId>,
    /// The agent that calls for the account. It has none of the account's rights. On records it may do what
    /// permission sets grant both to the account and to the agent's connector.
    pub agent: Option<Agent>,
    /// The API key of the call; `None`: a session.
    pub key: Option<KeyUse>,
    /// The global permissions of the account type and the roles; empty for an agent. A narrowed key has some of them.
    pub permissions: Permissions,
    /// The version of the build's rights under which the caller was read.
    pub version: i64,
    /// The time at which the password must be changed.
    pub password_expires_at: Option<i64>,
    /// Is true if the account must have a second factor and has none.
    pub lacks_second_factor: bool,
    /// The expiry of the session unless it is refreshed. It may have been refreshed since the caller was read.
    pub session_expires_at: i64,
    /// The addresses from which the account may call; `None`: any.
    pub ranges: Option<Ranges>,
    /// The time at which the use of the session was last recorded.
    pub last_used_at: AtomicI64,
}

/// An AI agent that calls for an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// The connector that it uses.
    pub connector: ConnectorId,
    /// The name and version of its client; empty if the client has not sent them.
    pub client: Arc<str>,
}

/// An API key by which a program calls for its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUse {
    pub id: ApiKeyId,
    /// Is true if the key has only its own permissions, and what sets and groups grant to the account. Its account type and
    /// ownership grant it nothing.
    pub is_narrowed: bool,
}

impl Caller {
    /// Returns whether rights of the account type and of ownership apply: neither to an agent nor to a narrowed key.
    fn is_whole(&self) -> bool {
        self.agent.is_none() && self.key.is_none_or(|key| !key.is_narrowed)
    }
    /// Returns the user whose ownership of groups, classes, records and tasks grants rights to the caller. It is `NONE`, which owns
    /// nothing, for agents and narrowed keys.
    pub fn ownership(&self) -> UserId {
        if self.is_whole() { self.user } else { UserId::NONE }
    }
    /// Returns whether the caller has the rights of this owner of an object.
    pub fn has_rights_of(&self, owner: Option<UserId>) -> bool {
        self.is_whole() && owner == Some(self.user)
    }
    /// Returns whether the caller has a global permission.
    pub fn has_permission(&self, resource: &str, action: &str) -> bool {
        self.permissions.contains(resource, action)
    }
    /// Refuses with 403 unless the caller has a global permission.
    pub fn require_permission(&self, resource: &str, action: &str) -> Result<(), Refusal> {
        if self.has_permission(resource, action) { Ok(()) } else { Err(Refusal::forbidden()) }
    }
    /// Returns whether the caller is a super admin (`docs/reference/users.md`).
    pub fn is_super(&self) -> bool {
        self.is_whole() && self.account_type.is_super()
    }
    /// Refuses with 403 unless the caller may call from the address.
    pub fn check_address(&self, address: IpAddr) -> Result<(), Refusal> {
        match self.ranges.as_ref().is_none_or(|ranges| ranges.contains(address)) {
            true => Ok(()),
            false => Err(Refusal::detail(StatusCode::FORBIDDEN, "Access from this address is not allowed.")),
        }
    }
    /// Returns whether the password of the session has expired, so that the session may only call routes that change it.
    pub fn must_change_password(&self, now: i64) -> bool {
        self.password_expires_at.is_some_and(|expires_at| expires_at <= now)
    }
    /// Refuses with 403 if the session is narrowed to another task.
    pub fn reaches(&self, id: TaskId) -> Result<(), Refusal> {
        if self.narrowed_to.is_none_or(|only| only == id) { Ok(()) } else { Err(Refusal::forbidden()) }
    }
    /// Refuses with 403 unless the caller meets a route's requirement. The handler checks rights on the instance.
    pub fn fulfils(&self, requirement: Requirement, now: i64) -> Result<(), Refusal> {
        if !requirement.for_narrowed && self.narrowed_to.is_some() {
            return Err(Refusal::forbidden());
        }
        if !requirement.for_keys && self.key.is_some() {
            return Err(Refusal::forbidden());
        }
        if !requirement.while_expired && self.must_change_password(now) {
            return Err(Refusal::detail(StatusCode::FORBIDDEN, "Password change required."));
        }
        if !requirement.while_lacking_factor && self.lacks_second_factor {
            return Err(Refusal::detail(StatusCode::FORBIDDEN, "Second factor required."));
        }
        match requirement.access {
            RouteAccess::Permission(resource, action) => self.require_permission(resource, action),
            _ => Ok(()),
        }
    }
}
