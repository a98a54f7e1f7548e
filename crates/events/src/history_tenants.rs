//! The tenant of each build in the history service (`docs/reference/history.md`).
//!
//! The control database has a row for each build, which is written together with the build. The tenant is created with the build.
//! If the service was unavailable then, it is created before the first delivery. Only [`forget_all`] changes a stored `client_id`.
//!
//! The answer to `initialize-tenant` may be lost. The secret is sent only once, so that tenant stays empty, and
//! another one is created under the name of the next `attempt`. The row has the number of the attempt before the call.

use crate::history_client::{CallFailure, CreatedTenant, HistoryClient};
use kit::app::App;
use kit::build::Build;
use kit::secret::Context;
use std::time::Duration;
use store::{Conn, Sql, StoreError};
use web::clock::sha256_hex;

/// The maximum number of names that one call of [`ensure`] tries if tenants of these names exist already.
const MAX_NAMES: usize = 5;

/// The lock for the creation of a build's tenant. The creation and the first delivery of the build may run at once.
#[derive(Default)]
pub struct TenantCreationLock(tokio::sync::Mutex<()>);

/// A tenant of a build in the history service.
#[derive(Clone, Debug, PartialEq)]
pub struct BuildTenant {
    /// The `X-Client-Id` of the tenant.
    pub client_id: String,
    /// The name of the tenant in the history service.
    pub database_name: String,
}

/// The reason why a tenant could not be found or created.
#[derive(Debug)]
pub enum TenantError {
    /// A call of the history service failed.
    Service(CallFailure),
    /// The database failed, or the build is being deleted ([`StoreError::Missing`]).
    Store(StoreError),
}

impl From<StoreError> for TenantError {
    fn from(error: StoreError) -> TenantError {
        TenantError::Store(error)
    }
}

impl std::fmt::Display for TenantError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TenantError::Service(failure) => failure.fmt(f),
            TenantError::Store(error) => error.fmt(f),
        }
    }
}

/// Returns the name of a build's tenant: the domain in characters that every store accepts, and eight digits of a hash. A new
/// build of the same domain therefore gets another tenant. The name has at most 60 characters and does not begin with a digit.
fn database_name(domain: &str, uid: &str, attempt: i64) -> String {
    let plain = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '_' };
    let name: String = domain.to_ascii_lowercase().chars().map(plain).take(50).collect();
    let prefix = if name.starts_with(|c: char| c.is_ascii_digit()) { "_" } else { "" };
    let hash = sha256_hex(&format!("{domain}\n{uid}\n{attempt}"));
    format!("{prefix}{name}_{}", &hash[..8])
}

fn label(domain: &str, uid: &str, attempt: i64) -> String {
    format!("{domain} {uid} {attempt}")
}

/// Inserts the row of a build, unless it exists.
pub fn insert(conn: &mut Conn, domain: &str, uid: &str, now: i64) -> Result<(), StoreError> {
    let sql = Sql::new(
        "INSERT INTO history_tenants(build_uid, domain, attempt, database_name, created_at) \
         VALUES ($1, $2, 0, $3, $4) ON CONFLICT DO NOTHING",
    );
    conn.exec(&sql.arg(uid).arg(domain).arg(database_name(domain, uid, 0)).arg(now)).map(drop)
}

/// Marks the build of a row as deleted, or deletes the row if no tenant was created.
pub fn build_deleted(conn: &mut Conn, uid: &str, now: i64) -> Result<(), StoreError> {
    let sql = Sql::new("DELETE FROM history_tenants WHERE build_uid = $1 AND client_id IS NULL");
    conn.exec(&sql.arg(uid))?;
    let sql = Sql::new("UPDATE history_tenants SET build_deleted_at = $1 WHERE build_uid = $2");
    conn.exec(&sql.arg(now).arg(uid)).map(drop)
}

/// Deletes the row of a build whose tenant was deleted.
pub fn remove(conn: &mut Conn, uid: &str) -> Result<(), StoreError> {
    conn.exec(&Sql::new("DELETE FROM history_tenants WHERE build_uid = $1").arg(uid)).map(drop)
}

/// Clears the tenants of all builds except deleted ones, so that new ones are created.
pub fn forget_all(conn: &mut Conn) -> Result<(), StoreError> {
    let sql = "SELECT build_uid, domain, attempt FROM history_tenants WHERE client_id IS NOT NULL AND build_deleted_at IS NULL";
    let rows =
        conn.query_all(&Sql::new(sql), |row| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned(), row.int(2)?)))?;
    for (uid, domain, attempt) in rows {
        let sql = Sql::new(
            "UPDATE history_tenants SET attempt = $1, database_name = $2, client_id = NULL, client_secret = NULL \
             WHERE build_uid = $3",
        );
        conn.exec(&sql.arg(attempt + 1).arg(database_name(&domain, &uid, attempt + 1)).arg(&uid))?;
    }
    Ok(())
}

/// Returns the tenant of a build, if it was created.
pub async fn find(app: &App, uid: &str) -> Result<Option<BuildTenant>, StoreError> {
    let uid = uid.to_owned();
    let row = app.store.control().read(move |conn| load_tenant(conn, &uid)).await?;
    Ok(row.and_then(|(_, tenant)| tenant))
}

/// Returns the uids and domains of active builds that have no tenant yet.
pub async fn load_builds_without_tenant(app: &App) -> Result<Vec<(String, String)>, StoreError> {
    let sql = Sql::new(
        "SELECT builds.uid, builds.domain FROM history_tenants JOIN builds ON builds.uid = history_tenants.build_uid \
         WHERE history_tenants.client_id IS NULL AND builds.state = 'active'",
    );
    let load =
        move |conn: &mut Conn| conn.query_all(&sql, |row| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned())));
    app.store.control().read(load).await
}

/// Returns the stored attempt of a build, and its tenant if it was created; `None` if there is no row.
fn load_tenant(conn: &mut Conn, uid: &str) -> Result<Option<(i64, Option<BuildTenant>)>, StoreError> {
    let sql = Sql::new("SELECT attempt, database_name, client_id FROM history_tenants WHERE build_uid = $1").arg(uid);
    conn.query_optional(&sql, |row| {
        let database_name = row.text(1)?.to_owned();
        let tenant = row.opt_text(2)?.map(|client_id| BuildTenant { client_id: client_id.to_owned(), database_name });
        Ok((row.int(0)?, tenant))
    })
}

/// Returns the tenant of a build. Creates it if there is none.
pub async fn ensure(
    app: &App,
    service: &HistoryClient,
    build: &Build,
    timeout: Duration,
) -> Result<BuildTenant, TenantError> {
    let _lock = build.slot::<TenantCreationLock>().0.lock().await;
    let mut failure = CallFailure::Exists;
    for _ in 0..MAX_NAMES {
        let (attempt, tenant) = stored_of(app, build).await?;
        if let Some(tenant) = tenant {
            return Ok(tenant);
        }
        let (name, label) =
            (database_name(&build.domain, &build.uid, attempt), label(&build.domain, &build.uid, attempt));
        match service.initialize(&name, &label, timeout).await {
            Ok(created) => return store_tenant(app, build, attempt, name, &created).await,
            Err(CallFailure::Exists) => start_next_attempt(app, build, attempt).await?,
            Err(other) => {
                failure = other;
                break;
            }
        }
    }
    Err(TenantError::Service(failure))
}

/// Returns the stored attempt and tenant of a build. [`StoreError::Missing`]: there is no row, since
/// the build is being deleted with its history.
async fn stored_of(app: &App, build: &Build) -> Result<(i64, Option<BuildTenant>), StoreError> {
    let uid = build.uid.clone();
    let row = app.store.control().read(move |conn| load_tenant(conn, &uid)).await?;
    row.ok_or(StoreError::Missing)
}

/// Stores a new tenant and returns the tenant of the build. If another process has stored one before,
/// returns that one, and the new one stays empty.
async fn store_tenant(
    app: &App,
    build: &Build,
    attempt: i64,
    name: String,
    created: &CreatedTenant,
) -> Result<BuildTenant, TenantError> {
    let context =
        Context { build: &build.uid, table: "history_tenants", column: "client_secret", row: &created.client_id };
    let sealed = app.keys.seal(&context, created.client_secret.as_bytes());
    let (uid, client_id) = (build.uid.clone(), created.client_id.clone());
    let write = move |conn: &mut Conn| {
        let sql = Sql::new(
            "UPDATE history_tenants SET attempt = $1, database_name = $2, client_id = $3, client_secret = $4 \
             WHERE build_uid = $5 AND client_id IS NULL",
        );
        conn.exec(&sql.arg(attempt).arg(&name).arg(&client_id).arg(&sealed).arg(&uid))?;
        Ok::<_, StoreError>(load_tenant(conn, &uid)?.and_then(|(_, tenant)| tenant))
    };
    let tenant = app.store.control().write(write).await?;
    // Without a row, the build was deleted meanwhile.
    tenant.ok_or(TenantError::Store(StoreError::Missing))
}

/// Stores that the next attempt begins, unless another process has stored it.
async fn start_next_attempt(app: &App, build: &Build, attempt: i64) -> Result<(), StoreError> {
    let next = attempt + 1;
    let (uid, name) = (build.uid.clone(), database_name(&build.domain, &build.uid, next));
    let write = move |conn: &mut Conn| {
        let sql = Sql::new(
            "UPDATE history_tenants SET attempt = $1, database_name = $2 \
             WHERE build_uid = $3 AND attempt = $4 AND client_id IS NULL",
        );
        conn.exec(&sql.arg(next).arg(&name).arg(&uid).arg(attempt)).map(drop)
    };
    app.store.control().write(write).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_every_store_takes_and_never_the_same() {
        let name = database_name("Ünder-score.example", "u1", 0);
        assert!(name.starts_with("_nder_score_example_"), "{name}");
        for domain in ["a.example", "3com.example", "1", &"x".repeat(253)] {
            let name = database_name(domain, "u1", 0);
            assert!(name.len() <= 64 && !name.starts_with(|c: char| c.is_ascii_digit()), "{name}");
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{name}");
            assert_ne!(name, database_name(domain, "u2", 0));
            assert_ne!(name, database_name(domain, "u1", 1));
        }
        assert_ne!(database_name("a-b.example", "u1", 0), database_name("a.b.example", "u1", 0));
    }
}
