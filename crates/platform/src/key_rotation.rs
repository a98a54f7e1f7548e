//! `chancery keys rotate` replaces the key of the deployment (`docs/operations.md`).
//!
//! Each build is rotated in one transaction, which writes the fingerprint of the new key to the build's own setting `key`. An
//! interrupted rotation therefore continues at the same build. No other process may use the databases in the meantime
//! (`store::Options::alone`).

use crate::{MIGRATIONS, MODULES};
use kit::build::database_name;
use kit::domain;
use kit::rights;
use kit::secret::{Context, Keys, OF_HISTORY_TENANTS, SealedColumn, sealed_columns};
use kit::secret_key::{SHORTEST, is_short, load_fingerprint};
use std::time::Duration;
use store::{Conn, Options, Sql, Store, StoreEngine, StoreError};
use web::clock::Clock;

/// The time limit of a build's transaction.
const TIME_LIMIT: Duration = Duration::from_secs(3600);

/// The result of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotationResult {
    /// The number of builds.
    pub builds: usize,
    /// The number of values that neither key opens. They remain unchanged.
    pub unopened: usize,
}

/// Replaces the old key by a new one: seals all secrets again, and ends every session, link and ticket. Returns `None` if that was
/// done before. `progress` gets the number of rotated builds and the number of all builds.
///
/// # Errors
/// A line with the reason for which the rotation was not finished. It can be called again.
pub async fn rotate(
    engine: StoreEngine,
    old: &str,
    new: &str,
    progress: impl Fn(usize, usize),
) -> Result<Option<RotationResult>, String> {
    domain::register(&MODULES);
    if is_short(new) {
        return Err(format!("CHANCERY_NEW_SECRET_KEY: expected at least {SHORTEST} characters"));
    }
    let options = Options { alone: true, time_limit: TIME_LIMIT, ..Options::default() };
    let store = Store::open(engine, MIGRATIONS, options).await.map_err(|error| match error {
        StoreError::InUse => "a server or another command is running; end it first".to_owned(),
        error => error.to_string(),
    })?;
    let rotated = rotate_all(&store, Keys::new(old), Keys::new(new), progress).await;
    store.close().await;
    rotated
}

async fn rotate_all(
    store: &Store,
    old: Keys,
    new: Keys,
    progress: impl Fn(usize, usize),
) -> Result<Option<RotationResult>, String> {
    let text = |error: StoreError| error.to_string();
    let control = store.control();
    let (from, to) = (old.fingerprint(), new.fingerprint());
    if !control.write(move |conn| begin(conn, &from, &to)).await.map_err(|refused| refused.0)? {
        return Ok(None);
    }
    let (old_key, new_key) = (old.clone(), new.clone());
    let mut unopened =
        control.write(move |conn| rotate_history_tenants(conn, &old_key, &new_key)).await.map_err(text)?;
    let builds = control.read(builds).await.map_err(text)?;
    for (done_count, (id, uid)) in builds.iter().cloned().enumerate() {
        progress(done_count, builds.len());
        let (old_key, new_key, now) = (old.clone(), new.clone(), Clock::system().now());
        let database = store.database(&database_name(id));
        match database.write(move |conn| rotate_build(conn, &uid, &old_key, &new_key, now)).await {
            Ok(unopened_here) => unopened += unopened_here,
            // A build can be without a database if its creation or deletion was not finished.
            Err(StoreError::Missing) => {}
            Err(error) => return Err(format!("build {id}: {error}")),
        }
    }
    progress(builds.len(), builds.len());
    control.write(move |conn| set_key(conn, &new.fingerprint())).await.map_err(text)?;
    Ok(Some(RotationResult { builds: builds.len(), unopened }))
}

/// The reason for which a rotation cannot begin.
struct RotationRefusal(String);

impl From<StoreError> for RotationRefusal {
    fn from(error: StoreError) -> RotationRefusal {
        RotationRefusal(error.to_string())
    }
}

/// Stores the fingerprints of the old and the new key. Returns false if the rotation was done before.
fn begin(conn: &mut Conn, old: &str, new: &str) -> Result<bool, RotationRefusal> {
    let change = format!("{old}>{new}");
    match load_fingerprint(conn)? {
        Some(fingerprint) if fingerprint == new => Ok(false),
        Some(fingerprint) if fingerprint == change => Ok(true),
        Some(fingerprint) if fingerprint == old => {
            set_key(conn, &change)?;
            Ok(true)
        }
        Some(fingerprint) if fingerprint.contains('>') => Err(RotationRefusal(
            "CHANCERY_NEW_SECRET_KEY: the key was being changed with two other keys; call it with those".to_owned(),
        )),
        Some(_) => Err(RotationRefusal("CHANCERY_SECRET_KEY: the database was made with another key".to_owned())),
        None => Err(RotationRefusal("the database has no key yet; start a server with the new one".to_owned())),
    }
}

/// Sets the setting `key` of the control database or of a build.
fn set_key(conn: &mut Conn, value: &str) -> Result<(), StoreError> {
    let sql =
        Sql::new("INSERT INTO settings(name, value) VALUES ('key', $1) ON CONFLICT(name) DO UPDATE SET value = $1");
    conn.exec(&sql.arg(value)).map(drop)
}

/// Returns the id and uid of every build.
fn builds(conn: &mut Conn) -> Result<Vec<(i64, String)>, StoreError> {
    conn.query_all(&Sql::new("SELECT id, uid FROM builds ORDER BY id"), |row| {
        Ok((row.int(0)?, row.text(1)?.to_owned()))
    })
}

/// Rotates the key of a build, if that was not done before. Returns the number of values that neither key opens.
fn rotate_build(conn: &mut Conn, uid: &str, old: &Keys, new: &Keys, now: i64) -> Result<usize, StoreError> {
    if load_fingerprint(conn)? == Some(new.fingerprint()) {
        return Ok(0);
    }
    let mut unopened = 0;
    for column in sealed_columns() {
        unopened += seal_again(conn, column, uid, old, new)?;
    }
    conn.exec(&Sql::new("UPDATE sessions SET ended_at = $1 WHERE ended_at IS NULL").arg(now))?;
    for text in [
        "DELETE FROM refresh_tokens",
        "DELETE FROM browser_sessions",
        "DELETE FROM agent_refresh_tokens",
        "DELETE FROM agent_codes",
        "DELETE FROM link_tokens",
        // Links that are not mailed yet get their tokens later.
        "UPDATE task_links SET hash = 'unsent-' || CAST(job AS TEXT)",
        "DELETE FROM single_sign_on_tickets",
        "DELETE FROM sign_in_challenges",
    ] {
        conn.exec(&Sql::new(text))?;
    }
    rights::raise_version(conn)?;
    set_key(conn, &new.fingerprint())?;
    Ok(unopened)
}

/// Seals the values of a column with the new key. Returns the number of values that neither key opens.
fn seal_again(conn: &mut Conn, column: &SealedColumn, uid: &str, old: &Keys, new: &Keys) -> Result<usize, StoreError> {
    let mut sql = Sql::new("SELECT id, ");
    sql.name(column.row).push(", ").name(column.column).push(" FROM ").name(column.table);
    sql.push(" WHERE ").name(column.column).push(" IS NOT NULL");
    let rows = conn.query_all(&sql, |row| Ok((row.int(0)?, row.text(1)?.to_owned(), row.text(2)?.to_owned())))?;
    let mut unopened = 0;
    for (id, row, sealed) in rows {
        let place = Context { build: uid, table: column.table, column: column.column, row: &row };
        let Some(plain) = old.open(&place, &sealed) else {
            unopened += usize::from(!new.is_named_by(&sealed));
            continue;
        };
        let mut sql = Sql::new("UPDATE ");
        sql.name(column.table).push(" SET ").name(column.column).push(" = ").bind(new.seal(&place, &plain));
        conn.exec(sql.push(" WHERE id = ").bind(id))?;
    }
    Ok(unopened)
}

/// Seals the client secrets of the history tenants with the new key. Returns the number of secrets that neither key opens.
fn rotate_history_tenants(conn: &mut Conn, old: &Keys, new: &Keys) -> Result<usize, StoreError> {
    let SealedColumn { table, column, .. } = OF_HISTORY_TENANTS;
    let sql = Sql::new(
        "SELECT build_uid, client_id, client_secret FROM history_tenants \
         WHERE client_id IS NOT NULL AND client_secret IS NOT NULL",
    );
    let text = |row: &store::Row, at| Ok::<_, StoreError>(row.text(at)?.to_owned());
    let rows = conn.query_all(&sql, |row| Ok((text(row, 0)?, text(row, 1)?, text(row, 2)?)))?;
    let mut unopened = 0;
    for (uid, client_id, sealed) in rows {
        let place = Context { build: &uid, table, column, row: &client_id };
        let Some(plain) = old.open(&place, &sealed) else {
            unopened += usize::from(!new.is_named_by(&sealed));
            continue;
        };
        let sql = Sql::new("UPDATE history_tenants SET client_secret = $1 WHERE build_uid = $2");
        conn.exec(&sql.arg(new.seal(&place, &plain)).arg(&uid))?;
    }
    Ok(unopened)
}
