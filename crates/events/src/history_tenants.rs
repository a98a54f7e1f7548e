//! The tenant that each build has in the history service (`docs/reference/history.md`).
//!
//! The control database keeps a row for each build, written with the build itself. The tenant is made when the build is,
//! or, while the service is away, when there is something to deliver. Once the row has a `client_id` it keeps it.
//!
//! The answer to `initialize-tenant` may be lost. Its secret is shown once, so the tenant that nobody knows stays empty,
//! and another one is made, under the name of the next `attempt`; which one it is stands in the row before the call.

use crate::history_client::{Failure, HistoryClient, Made};
use kit::app::App;
use kit::build::Build;
use kit::secret::Context;
use std::time::Duration;
use store::{Conn, Error, Sql};
use web::clock::sha256_hex;

/// How often the name is changed in a row before the matter is left for later.
const TRIES: usize = 5;

/// Held while a build's tenant is made: at its creation an event may want one, too.
#[derive(Default)]
pub struct MakingTenant(tokio::sync::Mutex<()>);

/// A tenant that was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// The `X-Client-Id`.
    pub client_id: String,
    /// Its name at the service.
    pub database_name: String,
}

/// Why there is no tenant yet.
#[derive(Debug)]
pub enum NoTenant {
    /// Because of the service.
    Service(Failure),
    /// Because of the store.
    Store(Error),
}

impl From<Error> for NoTenant {
    fn from(error: Error) -> NoTenant {
        NoTenant::Store(error)
    }
}

impl std::fmt::Display for NoTenant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoTenant::Service(failure) => failure.fmt(f),
            NoTenant::Store(error) => error.fmt(f),
        }
    }
}

/// The domain in characters that every store takes, and eight digits of a hash, so that a domain that comes again is
/// another tenant. At most 60 characters, not beginning with a digit.
fn database_name(domain: &str, uid: &str, attempt: i64) -> String {
    let plain = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '_' };
    let name: String = domain.to_ascii_lowercase().chars().map(plain).take(50).collect();
    let front = if name.starts_with(|c: char| c.is_ascii_digit()) { "_" } else { "" };
    let hash = sha256_hex(&format!("{domain}\n{uid}\n{attempt}"));
    format!("{front}{name}_{}", &hash[..8])
}

fn label(domain: &str, uid: &str, attempt: i64) -> String {
    format!("{domain} {uid} {attempt}")
}

/// Writes the row of a build, if there is none.
pub fn insert(conn: &mut Conn, domain: &str, uid: &str, now: i64) -> Result<(), Error> {
    let sql = Sql::new(
        "INSERT INTO history_tenants(build_uid, domain, attempt, database_name, created_at) \
         VALUES ($1, $2, 0, $3, $4) ON CONFLICT DO NOTHING",
    );
    conn.exec(&sql.arg(uid).arg(domain).arg(database_name(domain, uid, 0)).arg(now)).map(drop)
}

/// The build is going: the row stays for as long as there is a tenant.
pub fn build_deleted(conn: &mut Conn, uid: &str, now: i64) -> Result<(), Error> {
    let sql = Sql::new("DELETE FROM history_tenants WHERE build_uid = $1 AND client_id IS NULL");
    conn.exec(&sql.arg(uid))?;
    let sql = Sql::new("UPDATE history_tenants SET build_deleted_at = $1 WHERE build_uid = $2");
    conn.exec(&sql.arg(now).arg(uid)).map(drop)
}

/// The tenant is gone.
pub fn remove(conn: &mut Conn, uid: &str) -> Result<(), Error> {
    conn.exec(&Sql::new("DELETE FROM history_tenants WHERE build_uid = $1").arg(uid)).map(drop)
}

/// The tenant of a build, if it was made.
pub async fn find(app: &App, uid: &str) -> Result<Option<Tenant>, Error> {
    let uid = uid.to_owned();
    let found = app.store.control().read(move |conn| stored(conn, &uid)).await?;
    Ok(found.and_then(|(_, tenant)| tenant))
}

/// The domains of builds that are served and have no tenant yet.
pub async fn missing(app: &App) -> Result<Vec<String>, Error> {
    let sql = Sql::new(
        "SELECT builds.domain FROM history_tenants JOIN builds ON builds.uid = history_tenants.build_uid \
         WHERE history_tenants.client_id IS NULL AND builds.state = 'active'",
    );
    app.store.control().read(move |conn| conn.all(&sql, |row| Ok(row.text(0)?.to_owned()))).await
}

/// The attempt, and the tenant if it was made; `None` when there is no row.
fn stored(conn: &mut Conn, uid: &str) -> Result<Option<(i64, Option<Tenant>)>, Error> {
    let sql = Sql::new("SELECT attempt, database_name, client_id FROM history_tenants WHERE build_uid = $1").arg(uid);
    conn.opt(&sql, |row| {
        let database_name = row.text(1)?.to_owned();
        let tenant = row.opt_text(2)?.map(|client_id| Tenant { client_id: client_id.to_owned(), database_name });
        Ok((row.int(0)?, tenant))
    })
}

/// The tenant of a build, made if need be.
pub async fn ensure(app: &App, service: &HistoryClient, build: &Build, patience: Duration) -> Result<Tenant, NoTenant> {
    let _one = build.slot::<MakingTenant>().0.lock().await;
    let mut failure = Failure::Exists;
    for _ in 0..TRIES {
        let (attempt, tenant) = attempt(app, build).await?;
        if let Some(tenant) = tenant {
            return Ok(tenant);
        }
        let (name, label) =
            (database_name(&build.domain, &build.uid, attempt), label(&build.domain, &build.uid, attempt));
        match service.initialize(&name, &label, patience).await {
            Ok(made) => return keep(app, build, attempt, name, &made).await,
            Err(Failure::Exists) => raise(app, build, attempt).await?,
            Err(other) => {
                failure = other;
                break;
            }
        }
    }
    Err(NoTenant::Service(failure))
}

/// [`Error::Missing`] when there is no row: the build is being deleted with its history.
async fn attempt(app: &App, build: &Build) -> Result<(i64, Option<Tenant>), Error> {
    let uid = build.uid.clone();
    let found = app.store.control().read(move |conn| stored(conn, &uid)).await?;
    found.ok_or(Error::Missing)
}

/// Another process may have been faster; then its tenant counts, and this one stays empty.
async fn keep(app: &App, build: &Build, attempt: i64, name: String, made: &Made) -> Result<Tenant, NoTenant> {
    let context =
        Context { build: &build.uid, table: "history_tenants", column: "client_secret", row: &made.client_id };
    let sealed = app.keys.seal(&context, made.client_secret.as_bytes());
    let (uid, client_id) = (build.uid.clone(), made.client_id.clone());
    let write = move |conn: &mut Conn| {
        let sql = Sql::new(
            "UPDATE history_tenants SET attempt = $1, database_name = $2, client_id = $3, client_secret = $4 \
             WHERE build_uid = $5 AND client_id IS NULL",
        );
        conn.exec(&sql.arg(attempt).arg(&name).arg(&client_id).arg(&sealed).arg(&uid))?;
        Ok::<_, Error>(stored(conn, &uid)?.and_then(|(_, tenant)| tenant))
    };
    let kept = app.store.control().write(write).await?;
    // No row: the build was deleted meanwhile.
    kept.ok_or(NoTenant::Store(Error::Missing))
}

async fn raise(app: &App, build: &Build, attempt: i64) -> Result<(), Error> {
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
