//! The deployment's key (`CHANCERY_SECRET_KEY`) and the databases that know it: a start with another key is refused
//! (document 4, section 1), and `chancery keys rotate` puts another in its place (section 7).
//!
//! The control database keeps the key's fingerprint as the setting `key`, or, while it is being changed, both: `OLD>NEW`,
//! with which no process starts, not even one of an earlier version. Each build is done in one transaction that leaves
//! the new fingerprint in its own setting `key`; so a change that was interrupted goes on where it was. Whoever changes
//! the key is alone with the databases (`store::Options::alone`).

use crate::app::{App, MIGRATIONS, OpenError, database_name};
use crate::caller;
use crate::clock::Clock;
use crate::secret::{Column, Context, Keys, OF_BUILDS, OF_HISTORY_TENANTS};
use std::time::Duration;
use store::{Conn, Engine, Error, Options, Sql, Store};

/// Characters of a key; shorter ones are kept, but no longer taken.
pub const SHORTEST: usize = 32;
/// Why a key is not taken.
pub const TOO_SHORT: &str = "expected at least 32 characters for a new database";

/// How long a build may take.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Whether a key is shorter than new ones may be.
pub fn is_short(key: &str) -> bool {
    key.chars().count() < SHORTEST
}

/// The line of the log at each start with a key that is too short.
pub fn warn_if_short(app: &App) {
    if is_short(&app.config.secret_key) {
        tracing::warn!("CHANCERY_SECRET_KEY has fewer than {SHORTEST} characters; change it by `chancery keys rotate`");
    }
}

/// Checks that the key is the one that the databases know; new ones learn it.
pub async fn check(store: &Store, key: &str, keys: &Keys) -> Result<(), OpenError> {
    let known = match store.control().read(known).await? {
        Some(known) => known,
        None if is_short(key) => return Err(OpenError::ShortKey),
        None => {
            let fingerprint = keys.fingerprint();
            let insert = move |conn: &mut Conn| -> Result<Option<String>, Error> {
                let sql = Sql::new("INSERT INTO settings(name, value) VALUES ('key', $1) ON CONFLICT DO NOTHING");
                conn.exec(&sql.arg(&fingerprint))?;
                known(conn)
            };
            store.control().write(insert).await?.unwrap_or_default()
        }
    };
    match known {
        known if known == keys.fingerprint() => Ok(()),
        known if known.contains('>') => Err(OpenError::KeyChanges),
        _ => Err(OpenError::OtherKey),
    }
}

fn known(conn: &mut Conn) -> Result<Option<String>, Error> {
    conn.opt(&Sql::new("SELECT value FROM settings WHERE name = 'key'"), |row| Ok(row.text(0)?.to_owned()))
}

/// What a change of the key did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotated {
    /// The builds that there are.
    pub builds: usize,
    /// Values that neither key opens; they stay as they are.
    pub unopened: usize,
}

/// Puts a new key in the place of the old one: seals anew everything that is sealed, and ends every session, link and
/// ticket. `None` if that was done before. `progress` is told how many builds of how many are done.
///
/// # Errors
/// A line that says why it was not, or not wholly, done. It can be called again.
pub async fn rotate(
    engine: Engine,
    old: &str,
    new: &str,
    progress: impl Fn(usize, usize),
) -> Result<Option<Rotated>, String> {
    if is_short(new) {
        return Err(format!("CHANCERY_NEW_SECRET_KEY: expected at least {SHORTEST} characters"));
    }
    let options = Options { alone: true, time_limit: PATIENCE, ..Options::default() };
    let store = Store::open(engine, MIGRATIONS, options).await.map_err(|error| match error {
        Error::InUse => "a server or another command is running; end it first".to_owned(),
        error => error.to_string(),
    })?;
    let done = exchange(&store, Keys::new(old), Keys::new(new), progress).await;
    store.close().await;
    done
}

async fn exchange(
    store: &Store,
    old: Keys,
    new: Keys,
    progress: impl Fn(usize, usize),
) -> Result<Option<Rotated>, String> {
    let text = |error: Error| error.to_string();
    let control = store.control();
    let (from, to) = (old.fingerprint(), new.fingerprint());
    if !control.write(move |conn| begin(conn, &from, &to)).await.map_err(|refused| refused.0)? {
        return Ok(None);
    }
    let (with, and) = (old.clone(), new.clone());
    let mut unopened = control.write(move |conn| history_tenants(conn, &with, &and)).await.map_err(text)?;
    let builds = control.read(builds).await.map_err(text)?;
    for (done, (id, uid)) in builds.iter().cloned().enumerate() {
        progress(done, builds.len());
        let (with, and, now) = (old.clone(), new.clone(), Clock::system().now());
        let database = store.database(&database_name(id));
        match database.write(move |conn| build(conn, &uid, &with, &and, now)).await {
            Ok(left) => unopened += left,
            // Half-made or half-deleted: there is nothing in it.
            Err(Error::Missing) => {}
            Err(error) => return Err(format!("build {id}: {error}")),
        }
    }
    progress(builds.len(), builds.len());
    control.write(move |conn| set(conn, &new.fingerprint())).await.map_err(text)?;
    Ok(Some(Rotated { builds: builds.len(), unopened }))
}

/// A refusal in words, or the store's own.
struct Refused(String);

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused(error.to_string())
    }
}

/// Notes which key gives way to which; whether there is anything to do.
fn begin(conn: &mut Conn, old: &str, new: &str) -> Result<bool, Refused> {
    let change = format!("{old}>{new}");
    match known(conn)? {
        Some(known) if known == new => Ok(false),
        Some(known) if known == change => Ok(true),
        Some(known) if known == old => {
            set(conn, &change)?;
            Ok(true)
        }
        Some(known) if known.contains('>') => Err(Refused(
            "CHANCERY_NEW_SECRET_KEY: the key was being changed with two other keys; call it with those".to_owned(),
        )),
        Some(_) => Err(Refused("CHANCERY_SECRET_KEY: the database was made with another key".to_owned())),
        None => Err(Refused("the database has no key yet; start a server with the new one".to_owned())),
    }
}

/// Sets the setting `key` of the control database or of a build.
fn set(conn: &mut Conn, value: &str) -> Result<(), Error> {
    let sql =
        Sql::new("INSERT INTO settings(name, value) VALUES ('key', $1) ON CONFLICT(name) DO UPDATE SET value = $1");
    conn.exec(&sql.arg(value)).map(drop)
}

fn builds(conn: &mut Conn) -> Result<Vec<(i64, String)>, Error> {
    conn.all(&Sql::new("SELECT id, uid FROM builds ORDER BY id"), |row| Ok((row.int(0)?, row.text(1)?.to_owned())))
}

/// All of a build, once; how many values could not be opened.
fn build(conn: &mut Conn, uid: &str, old: &Keys, new: &Keys, now: i64) -> Result<usize, Error> {
    if known(conn)? == Some(new.fingerprint()) {
        return Ok(0);
    }
    let mut unopened = 0;
    for column in &OF_BUILDS {
        unopened += sealed_anew(conn, column, uid, old, new)?;
    }
    conn.exec(&Sql::new("UPDATE sessions SET ended_at = $1 WHERE ended_at IS NULL").arg(now))?;
    for text in ["DELETE FROM refresh_tokens", "DELETE FROM link_tokens", "DELETE FROM single_sign_on_tickets"] {
        conn.exec(&Sql::new(text))?;
    }
    caller::raise_version(conn)?;
    set(conn, &new.fingerprint())?;
    Ok(unopened)
}

fn sealed_anew(conn: &mut Conn, column: &Column, uid: &str, old: &Keys, new: &Keys) -> Result<usize, Error> {
    let mut sql = Sql::new("SELECT id, ");
    sql.name(column.row).push(", ").name(column.column).push(" FROM ").name(column.table);
    sql.push(" WHERE ").name(column.column).push(" IS NOT NULL");
    let rows = conn.all(&sql, |row| Ok((row.int(0)?, row.text(1)?.to_owned(), row.text(2)?.to_owned())))?;
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

/// The tenants of the history service, each with the build that it is for.
fn history_tenants(conn: &mut Conn, old: &Keys, new: &Keys) -> Result<usize, Error> {
    let Column { table, column, .. } = OF_HISTORY_TENANTS;
    let sql = Sql::new(
        "SELECT build_uid, client_id, client_secret FROM history_tenants \
         WHERE client_id IS NOT NULL AND client_secret IS NOT NULL",
    );
    let text = |row: &store::Row, at| Ok::<_, Error>(row.text(at)?.to_owned());
    let rows = conn.all(&sql, |row| Ok((text(row, 0)?, text(row, 1)?, text(row, 2)?)))?;
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
