//! Who stands behind an access token: the session, the account, its roles and address ranges.

use crate::access_tokens::AccessTokens;
use crate::account::{of_roles, ranges, read_type};
use kit::authenticate::{Authenticate, Credential, Identifying};
use kit::build::Build;
use kit::caller::{Caller, Claims};
use kit::permissions::Permissions;
use kit::rights;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use store::{Conn, Error, Sql};

/// A day in microseconds.
const DAY: i64 = 86_400_000_000;
/// How old the noted last use of a session gets before it is noted again, in microseconds.
const NOTED_AFTER: i64 = 60_000_000;

/// Access tokens of sessions.
pub const ACCESS_TOKEN: (Credential, Authenticate) = (
    Credential::Token,
    Authenticate {
        read: |app, build, token, now| app.slot::<AccessTokens>().verify(token, &build.uid, now),
        identify: |build, claims, now| Box::pin(identify(build, claims, now)) as Identifying<'_>,
        load,
    },
);

/// The caller whom the claims of an access token name; `None` when what stands behind them no longer holds.
async fn identify(build: &Arc<Build>, claims: Claims, now: i64) -> Result<Option<Arc<Caller>>, Error> {
    if claims.expires_at <= now {
        return Ok(None);
    }
    let (known, is_fresh) = build.callers.get(claims.session);
    let mut found = known;
    if found.is_some() && !is_fresh {
        build.callers.asked(build.db.read_short(rights::version).await?);
        found = build.callers.get(claims.session).0;
    }
    let caller = match found {
        Some(caller) => caller,
        None => {
            let script = move |conn: &mut Conn| load(conn, claims, now);
            let Some(caller) = build.db.read(script).await?.map(Arc::new) else { return Ok(None) };
            build.callers.keep(&caller);
            caller
        }
    };
    if caller.user != claims.user {
        return Ok(None);
    }
    note_use(build, &caller, now);
    Ok(Some(caller))
}

/// Notes now and then that the session was used; the request does not wait for it.
fn note_use(build: &Arc<Build>, caller: &Arc<Caller>, now: i64) {
    let last = caller.last_used_at.load(Ordering::Relaxed);
    if now - last < NOTED_AFTER
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

/// Reads a live session with its account, roles and ranges, in one snapshot.
fn load(conn: &mut Conn, claims: Claims, now: i64) -> Result<Option<Caller>, Error> {
    let version = rights::version(conn)?;
    let sql = Sql::new(
        "SELECT u.id, u.account_type, u.is_ip_restriction_enabled, u.allowed_ip_ranges, u.password_set_at, \
         (SELECT x.password_rotation_interval FROM security x WHERE x.id = 1), s.last_used_at, \
         CASE WHEN s.single_sign_on_id IS NULL THEN 1 ELSE 0 END, s.expires_at \
         FROM sessions s JOIN users u ON u.id = s.user_id \
         WHERE s.id = $1 AND s.ended_at IS NULL AND s.expires_at > $2 AND u.is_deleted = 0 AND u.status = 'active'",
    )
    .arg(claims.session)
    .arg(now);
    let found = conn.opt(&sql, |row| {
        let account_type = read_type(row.text(1)?)?;
        let ranges = if row.flag(2)? { Some(ranges(row.text(3)?)) } else { None };
        let rotation = row.int(5)?;
        // Who signed in elsewhere is not asked to change a password here.
        let is_by_password = row.flag(7)?;
        let set_at = row.opt_int(4)?.filter(|_| rotation > 0 && is_by_password);
        Ok(Caller {
            user: row.int(0)?,
            session: claims.session,
            permissions: Permissions::of_account(account_type),
            account_type,
            version,
            password_expires_at: set_at.map(|set_at| set_at.saturating_add(rotation * DAY)),
            ranges,
            session_expires_at: row.int(8)?,
            last_used_at: AtomicI64::new(row.int(6)?),
        })
    })?;
    let Some(mut caller) = found.filter(|found| found.user == claims.user) else { return Ok(None) };
    caller.permissions = caller.permissions.union(of_roles(conn, caller.user)?);
    Ok(Some(caller))
}
