//! Identifies the caller of an API key (`docs/reference/api-keys.md`): its account, its permissions and its address ranges.
//!
//! The cache of callers stores it like a session. The deletion of a key and the deactivation of its account raise the version of
//! the rights, so other processes notice them within [`kit::callers::STALE_AFTER`]. Its expiry is compared at each use.

use crate::account::{account_type_of, columns, read_account_type, read_ranges};
use crate::authenticate::identify_by;
use crate::bearer_secrets::{self, NewSecret};
use kit::authenticate::{Authenticate, Credential, Identifying};
use kit::build::Build;
use kit::caller::{Caller, CredentialClaims, KeyUse};
use kit::ids::{ApiKeyId, SessionId, UserId};
use kit::permissions::Permissions;
use kit::rights;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use store::{Conn, Sql, StoreError};
use web::clock::hex;

/// The beginning of every key.
const PREFIX: &str = "chk_";
/// The number of characters after [`PREFIX`] by which people recognise a key.
const SHOWN_LENGTH: usize = 8;

/// Identifies callers by an API key.
pub const API_KEY: (Credential, Authenticate) = (
    Credential::Prefix(PREFIX),
    Authenticate {
        read: |_, _, secret, _| bearer_secrets::claims(PREFIX, secret),
        identify: |build, claims, now| Box::pin(identify(build, claims, now)) as Identifying<'_>,
        load,
    },
);

/// Returns a random key, and its beginning, which is stored and shown.
pub fn random_key() -> (NewSecret, String) {
    let new = NewSecret::random(PREFIX);
    let prefix = new.text[..PREFIX.len() + SHOWN_LENGTH].to_owned();
    (new, prefix)
}

async fn identify(build: &Arc<Build>, claims: CredentialClaims, now: i64) -> Result<Option<Arc<Caller>>, StoreError> {
    let caller = identify_by(build, claims, now, load).await?.filter(|caller| caller.session_expires_at > now);
    if let (Some(caller), Some(hash)) = (&caller, claims.secret) {
        let text = "UPDATE api_keys SET last_used_at = $1 WHERE hash = $2 AND COALESCE(last_used_at, 0) < $1";
        bearer_secrets::record_use(build, caller, now, text, hex(&hash));
    }
    Ok(caller)
}

/// Reads a key with its active account, in one snapshot.
fn load(conn: &mut Conn, claims: CredentialClaims, now: i64) -> Result<Option<Caller>, StoreError> {
    let Some(hash) = claims.secret else { return Ok(None) };
    find(conn, &Sql::new("k.hash = $1 AND k.expires_at > $2").arg(hex(&hash)).arg(now))
}

fn find(conn: &mut Conn, condition: &Sql) -> Result<Option<Caller>, StoreError> {
    let version = rights::version(conn)?;
    let mut sql = Sql::new(
        "SELECT k.id, k.user_id, k.permissions, k.expires_at, k.last_used_at, u.account_type, \
         u.is_ip_restriction_enabled, u.allowed_ip_ranges \
         FROM api_keys k JOIN users u ON u.id = k.user_id WHERE u.is_deleted = 0 AND u.status = 'active' AND ",
    );
    let [id, user, permissions, expires_at, used_at, account_type, is_restricted, ranges] = columns();
    let key_caller = conn.query_optional(sql.append(condition), |row| {
        let account_type = read_account_type(row.text(account_type)?)?;
        let type_permissions = Permissions::for_account_type(account_type);
        let own = match row.opt_text(permissions)? {
            Some(_) => Some(Permissions::from_actions(&row.json(permissions)?)),
            None => None,
        };
        Ok(Caller {
            user: row.id(user)?,
            session: SessionId::NONE,
            account_type,
            narrowed_to: None,
            agent: None,
            key: Some(KeyUse { id: row.id(id)?, is_narrowed: own.is_some() }),
            permissions: own.map_or(type_permissions, |own| own.intersection(type_permissions)),
            version,
            password_expires_at: None,
            lacks_second_factor: false,
            session_expires_at: row.int(expires_at)?,
            ranges: if row.flag(is_restricted)? { Some(read_ranges(row, ranges)?) } else { None },
            last_used_at: AtomicI64::new(row.opt_int(used_at)?.unwrap_or(0)),
        })
    })?;
    Ok(key_caller.filter(|caller| caller.account_type.is_service()))
}

/// Returns the caller that a key of a user is at `now`, for a job that the key requested. Returns `None` if the key has ended.
pub fn as_caller_by_key(conn: &mut Conn, user: UserId, key: ApiKeyId, now: i64) -> Result<Option<Caller>, StoreError> {
    find(conn, &Sql::new("k.user_id = $1 AND k.id = $2 AND k.expires_at > $3").arg(user).arg(key).arg(now))
}

/// Returns the permissions of a service account. It has no roles.
pub fn permissions_of_account(conn: &mut Conn, user: UserId) -> Result<Permissions, StoreError> {
    Ok(Permissions::for_account_type(account_type_of(conn, user)?))
}
