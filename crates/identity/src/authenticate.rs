//! Identifies the caller of an access token: its session, account, roles and address ranges (`docs/reference/sign-in.md`).

use crate::access_tokens::AccessTokens;
use crate::account::{columns, permissions_of_roles, read_account_type, read_ranges};
use crate::second_factors::rule_sql::IS_LACKING;
use kit::authenticate::{Authenticate, Credential, Identifying};
use kit::build::Build;
use kit::caller::{Agent, Caller, CredentialClaims};
use kit::ids::SessionId;
use kit::permissions::Permissions;
use kit::rights;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use store::{Conn, Row, Sql, StoreError};

const DAY_US: i64 = 86_400_000_000;
/// The minimum time between two writes of a session's last use, in microseconds.
const LAST_USE_INTERVAL_US: i64 = 60_000_000;

/// Identifies callers by the access token of a session.
pub const ACCESS_TOKEN: (Credential, Authenticate) = (
    Credential::Token,
    Authenticate {
        read: |app, build, token, now| app.slot::<AccessTokens>().verify(token, &build.uid, now),
        identify: |build, claims, now| Box::pin(identify(build, claims, now)) as Identifying<'_>,
        load,
    },
);

/// Returns the caller that the claims of an access token name. Returns `None` if the token or the session has ended, or the account
/// may no longer call.
async fn identify(build: &Arc<Build>, claims: CredentialClaims, now: i64) -> Result<Option<Arc<Caller>>, StoreError> {
    if claims.expires_at <= now {
        return Ok(None);
    }
    let caller = identify_by(build, claims, now, load).await?.filter(|caller| caller.user == claims.user);
    if let Some(caller) = &caller {
        record_use(build, caller, now);
    }
    Ok(caller)
}

/// The function that reads the caller of claims in a transaction, as in [`Authenticate::load`].
pub type LoadCaller = fn(&mut Conn, CredentialClaims, i64) -> Result<Option<Caller>, StoreError>;

/// Returns the caller of a credential from the cache, else as `load` reads it. Callers are cached until the version of the rights
/// changes.
pub async fn identify_by(
    build: &Arc<Build>,
    claims: CredentialClaims,
    now: i64,
    load: LoadCaller,
) -> Result<Option<Arc<Caller>>, StoreError> {
    let key = claims.cache_key();
    let (mut cached_caller, is_fresh) = build.callers.get(key);
    if cached_caller.is_some() && !is_fresh {
        build.callers.mark_version_read(build.db.read_short(rights::version).await?);
        cached_caller = build.callers.get(key).0;
    }
    if cached_caller.is_some() {
        return Ok(cached_caller);
    }
    let loaded = build.db.read(move |conn: &mut Conn| load(conn, claims, now)).await?.map(Arc::new);
    if let Some(caller) = &loaded {
        build.callers.store(key, caller);
    }
    Ok(loaded)
}

/// Writes the last use of a session in the background, at most once in [`LAST_USE_INTERVAL_US`].
pub fn record_use(build: &Arc<Build>, caller: &Arc<Caller>, now: i64) {
    let last = caller.last_used_at.load(Ordering::Relaxed);
    if now - last < LAST_USE_INTERVAL_US
        || caller.last_used_at.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_err()
    {
        return;
    }
    let (db, session) = (build.db.clone(), caller.session);
    tokio::spawn(async move {
        let script = move |conn: &mut Conn| -> Result<u64, StoreError> {
            conn.exec(
                &Sql::new("UPDATE sessions SET last_used_at = $1 WHERE id = $2 AND ended_at IS NULL")
                    .arg(now)
                    .arg(session),
            )
        };
        if let Err(error) = db.write(script).await {
            tracing::debug!(%error, "a session's last use was not written");
        }
    });
}

/// Reads an active session of the main API with its account, roles and address ranges, in one snapshot.
pub fn load(conn: &mut Conn, claims: CredentialClaims, now: i64) -> Result<Option<Caller>, StoreError> {
    load_where(conn, claims, now, " AND s.connector IS NULL")
}

/// Reads a grant of an agent, like [`load`] for a session.
pub fn load_grant(conn: &mut Conn, claims: CredentialClaims, now: i64) -> Result<Option<Caller>, StoreError> {
    load_where(conn, claims, now, " AND s.connector IS NOT NULL")
}

/// Reads the columns of [`load_where`] as the caller of a session, without the permissions of roles.
fn read_caller(row: &Row<'_>, session: SessionId, version: i64) -> Result<Caller, StoreError> {
    let [
        user,
        account_type,
        is_restricted,
        ranges,
        set_at,
        rotation,
        used_at,
        by_password,
        expires_at,
        task,
        connector,
        client,
        is_lacking,
    ] = columns();
    let account_type = read_account_type(row.text(account_type)?)?;
    let ranges = if row.flag(is_restricted)? { Some(read_ranges(row, ranges)?) } else { None };
    let rotation = row.int(rotation)?;
    // A password never expires in a session by single sign-on.
    let is_by_password = row.flag(by_password)?;
    let set_at = row.opt_int(set_at)?.filter(|_| rotation > 0 && is_by_password);
    let agent = match row.opt_id(connector)? {
        Some(connector) => Some(Agent { connector, client: row.text(client)?.into() }),
        None => None,
    };
    let permissions = match &agent {
        Some(_) => Permissions::NONE,
        None => Permissions::for_account_type(account_type),
    };
    Ok(Caller {
        user: row.id(user)?,
        session,
        permissions,
        account_type,
        agent,
        key: None,
        narrowed_to: row.opt_id(task)?,
        version,
        password_expires_at: set_at.map(|set_at| set_at.saturating_add(rotation * DAY_US)),
        lacks_second_factor: row.flag(is_lacking)?,
        ranges,
        session_expires_at: row.int(expires_at)?,
        last_used_at: AtomicI64::new(row.int(used_at)?),
    })
}

fn load_where(
    conn: &mut Conn,
    claims: CredentialClaims,
    now: i64,
    condition: &'static str,
) -> Result<Option<Caller>, StoreError> {
    let version = rights::version(conn)?;
    let mut sql = Sql::new(
        "SELECT u.id, u.account_type, u.is_ip_restriction_enabled, u.allowed_ip_ranges, u.password_set_at, \
         (SELECT x.password_rotation_interval FROM security x WHERE x.id = 1), s.last_used_at, \
         CASE WHEN s.single_sign_on_id IS NULL THEN 1 ELSE 0 END, s.expires_at, s.task, s.connector, s.user_agent, \
         CASE WHEN s.single_sign_on_id IS NULL AND s.task IS NULL AND ",
    )
    .arg(claims.session)
    .arg(now);
    sql.push(IS_LACKING).push(
        " THEN 1 ELSE 0 END FROM sessions s JOIN users u ON u.id = s.user_id \
         WHERE s.id = $1 AND s.ended_at IS NULL AND s.expires_at > $2 AND u.is_deleted = 0 AND u.status = 'active'",
    );
    sql.push(condition);
    let row = conn.query_optional(&sql, |row| read_caller(row, claims.session, version))?;
    let Some(mut caller) = row.filter(|caller| caller.user == claims.user) else { return Ok(None) };
    if caller.agent.is_none() {
        caller.permissions = caller.permissions.union(permissions_of_roles(conn, caller.user)?);
    }
    Ok(Some(caller))
}
