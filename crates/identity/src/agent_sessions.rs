//! Grants: the sessions of agents, which work for a person through a connector (`docs/reference/agent-sign-in.md`). They end with
//! the person's other sessions. The module of agents issues their tokens, which are of another kind.

pub use crate::authenticate::{load_grant as load, record_use};

use crate::account::{METHOD_OF_USER, SignInAccount, is_person};
use crate::sessions::{self, SessionOrigin, could_begin};
use kit::ids::{ConnectorId, SessionId, UserId};
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use store::{Conn, Sql, StoreError};

/// The maximum number of grants of a person on one connector.
const MAX_OF_CONNECTOR: i64 = 20;
const DAY_US: i64 = 86_400_000_000;

/// Returns whether a password is so old that it only allows its change.
pub fn must_change_password(request: &Request, conn: &mut Conn, user: UserId) -> Result<bool, StoreError> {
    let sql = Sql::new(
        "SELECT u.password_set_at, (SELECT x.password_rotation_interval FROM security x WHERE x.id = 1) FROM users u WHERE u.id = $1",
    );
    let (set_at, rotation) = conn.query_one(&sql.arg(user), |row| Ok((row.opt_int(0)?, row.int(1)?)))?;
    let expires_at = set_at.filter(|_| rotation > 0).map(|set_at| set_at.saturating_add(rotation * DAY_US));
    Ok(expires_at.is_some_and(|expires_at| expires_at <= request.now))
}

/// Returns whether a person who signed in at `signed_in_at` (microseconds) may still let an agent work for them. Locks the person's
/// row.
pub fn may_grant(
    request: &Request,
    conn: &mut Conn,
    user: UserId,
    way: SessionOrigin,
    signed_in_at: i64,
) -> Result<bool, StoreError> {
    let Some(account) = SignInAccount::load_by_id_for_change(conn, user)? else { return Ok(false) };
    let sql = Sql::new("SELECT sessions_ended_at FROM users WHERE id = $1").arg(user);
    let ended_at = conn.query_one(&sql, |row| row.opt_int(0))?;
    Ok(account.is_active
        && is_person(account.account_type)
        && account.may_call_from(request)
        && ended_at.is_none_or(|ended_at| ended_at <= signed_in_at)
        && could_begin(request, conn, &account, way)?)
}

/// A grant to insert.
pub struct NewGrant<'a> {
    /// The id of the connector.
    pub connector: ConnectorId,
    /// The name of the client.
    pub client: &'a str,
    /// The names of the tools that the person consented to, as a JSON array.
    pub tools: &'a str,
    /// The time at which the grant ends unless it is renewed before, in microseconds.
    pub expires_at: i64,
}

/// Begins a grant and returns its id. If the person has too many grants on the connector, the oldest ones end.
pub fn begin(
    request: &Request,
    conn: &mut Conn,
    user: UserId,
    way: SessionOrigin,
    new: &NewGrant<'_>,
) -> Result<SessionId, Refusal> {
    let sql = Sql::new(
        "SELECT s.id FROM sessions s WHERE s.connector = $1 AND s.user_id = $2 AND s.ended_at IS NULL ORDER BY s.id DESC \
         LIMIT 100 OFFSET $3",
    );
    let too_many = conn.query_all(&sql.arg(new.connector).arg(user).arg(MAX_OF_CONNECTOR - 1), |row| row.id(0))?;
    end_all(request, conn, too_many)?;
    let single_sign_on = if let SessionOrigin::SingleSignOn(id) = way { Some(id) } else { None };
    let sql = Sql::new(
        "INSERT INTO sessions(user_id, created_at, last_used_at, expires_at, ip, user_agent, single_sign_on_id, connector, tools) \
         VALUES ($1, $2, $2, $3, $4, $5, $6, $7, $8) RETURNING id",
    );
    let sql = sql.arg(user).arg(request.now).arg(new.expires_at).arg(request.address.to_string()).arg(new.client);
    Ok(conn.query_one(&sql.arg(single_sign_on).arg(new.connector).arg(new.tools), |row| row.id(0))?)
}

/// The outcome of renewing a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantRenewal {
    /// The grant was extended. The value is its user.
    Done(UserId),
    /// The user does not allow calls from the agent's address.
    Elsewhere,
    /// The grant has ended, or must end.
    Refused,
}

/// Locks a grant of a connector. Returns false if the grant has ended or expired.
pub fn lock(request: &Request, conn: &mut Conn, grant: SessionId, connector: ConnectorId) -> Result<bool, StoreError> {
    let sql = Sql::new(
        "SELECT 1 FROM sessions WHERE id = $1 AND connector = $2 AND ended_at IS NULL AND expires_at > $3 FOR NO KEY UPDATE",
    );
    Ok(conn.query_optional(&sql.arg(grant).arg(connector).arg(request.now), |_| Ok(()))?.is_some())
}

/// Renews a locked grant. The grant ends if its user could no longer sign in by the method with which it began.
pub fn renew(request: &Request, conn: &mut Conn, grant: SessionId, expires_at: i64) -> Result<GrantRenewal, Refusal> {
    let sql = Sql::new("SELECT user_id, single_sign_on_id FROM sessions WHERE id = $1").arg(grant);
    let (user, single_sign_on) = conn.query_one(&sql, |row| Ok((row.id(0)?, row.opt_id(1)?)))?;
    let way = single_sign_on.map_or(SessionOrigin::Password, SessionOrigin::SingleSignOn);
    let account =
        SignInAccount::load_by_id(conn, user)?.filter(|account| account.is_active && is_person(account.account_type));
    let Some(account) = account else { return Ok(GrantRenewal::Refused) };
    if !could_begin(request, conn, &account, way)? {
        end_all(request, conn, vec![grant])?;
        return Ok(GrantRenewal::Refused);
    }
    if !account.may_call_from(request) {
        return Ok(GrantRenewal::Elsewhere);
    }
    // Processes of a former version do not store tools with the grants that they begin.
    let sql = Sql::new(
        "UPDATE sessions SET last_used_at = $1, expires_at = $2, ip = $3, \
         tools = COALESCE(tools, (SELECT c.allowed_tools FROM mcp_connectors c WHERE c.id = sessions.connector)) WHERE id = $4",
    );
    conn.exec(&sql.arg(request.now).arg(expires_at).arg(request.address.to_string()).arg(grant))?;
    Ok(GrantRenewal::Done(user))
}

/// Ends the grants of a connector.
pub fn end_of_connector(request: &Request, conn: &mut Conn, connector: ConnectorId) -> Result<(), Refusal> {
    let grants = find(conn, &Sql::new("s.connector = $1").arg(connector))?;
    end_all(request, conn, grants)
}

/// Ends a grant.
pub fn end(request: &Request, conn: &mut Conn, grant: SessionId) -> Result<(), Refusal> {
    end_all(request, conn, vec![grant])
}

fn end_all(request: &Request, conn: &mut Conn, grants: Vec<SessionId>) -> Result<(), Refusal> {
    if grants.is_empty() {
        return Ok(());
    }
    for grant in grants {
        sessions::end(conn, grant, request.now)?;
    }
    Ok(rights::mark_rights_changed(request, conn)?)
}

/// Returns the grants that match a condition on the session `s`, with their rows locked.
fn find(conn: &mut Conn, condition: &Sql) -> Result<Vec<SessionId>, StoreError> {
    let mut sql = Sql::new("SELECT s.id FROM sessions s WHERE s.connector IS NOT NULL AND s.ended_at IS NULL AND ");
    conn.query_all(sql.append(condition).push(" ORDER BY s.id FOR NO KEY UPDATE"), |row| row.id(0))
}

/// Ends those grants among the matching ones whose person could no longer sign in by the same method.
fn end_forbidden(request: &Request, conn: &mut Conn, condition: &Sql) -> Result<(), Refusal> {
    let mut sql = condition.clone();
    sql.push(
        " AND EXISTS (SELECT 1 FROM users u WHERE u.id = s.user_id AND CASE WHEN s.single_sign_on_id IS NULL THEN ",
    );
    sql.push(METHOD_OF_USER).push(" NOT IN ('any', 'password') ELSE ").push(METHOD_OF_USER);
    sql.push(" NOT IN ('any', 'sso') OR NOT EXISTS (SELECT 1 FROM single_sign_on c ");
    sql.push("WHERE c.id = s.single_sign_on_id AND c.is_enabled = 1) END)");
    let grants = find(conn, &sql)?;
    end_all(request, conn, grants)
}

/// Ends grants when the security rules forbid the method by which their person signed in.
pub const ON_RULES_CHANGED: Reaction = Reaction {
    resource: "standard_authentication",
    when: ReactionTime::Changed,
    run: |request, conn, _| end_forbidden(request, conn, &Sql::new("1 = 1")),
};

/// Ends grants when the configuration by which their person signed in is disabled.
pub const ON_CONFIGURATION_CHANGED: Reaction = Reaction {
    resource: "single_sign_on",
    when: ReactionTime::Changed,
    run: |request, conn, id| end_forbidden(request, conn, &Sql::new("s.single_sign_on_id = $1").arg(id)),
};

/// Ends the grants of a configuration when it is deleted.
pub const ON_CONFIGURATION_LEAVING: Reaction = Reaction {
    resource: "single_sign_on",
    when: ReactionTime::Leaving,
    run: |request, conn, id| {
        let grants = find(conn, &Sql::new("s.single_sign_on_id = $1").arg(id))?;
        end_all(request, conn, grants)
    },
};

/// Ends grants when their person gets an account type that may not sign in by the same method.
pub const ON_USER_CHANGED: Reaction = Reaction {
    resource: "users",
    when: ReactionTime::Changed,
    run: |request, conn, id| end_forbidden(request, conn, &Sql::new("s.user_id = $1").arg(id)),
};
