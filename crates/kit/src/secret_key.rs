//! The deployment's key (`CHANCERY_SECRET_KEY`) and the databases that know it: a start with another key is refused
//! (`docs/operations.md`).
//!
//! The control database keeps the key's fingerprint as the setting `key`, or, while `chancery keys rotate` changes it,
//! both: `OLD>NEW`, with which no process starts, not even one of an earlier version.

use crate::secret::Keys;
use store::{Conn, Error, Sql, Store};

/// Characters of a key; shorter ones are kept, but no longer taken.
pub const SHORTEST: usize = 32;
/// Why a key is not taken.
pub const TOO_SHORT: &str = "expected at least 32 characters for a new database";

/// Whether a key is shorter than new ones may be.
pub fn is_short(key: &str) -> bool {
    key.chars().count() < SHORTEST
}

/// Writes the line of the log at each start with a key that is too short.
pub fn warn_if_short(key: &str) {
    if is_short(key) {
        tracing::warn!("CHANCERY_SECRET_KEY has fewer than {SHORTEST} characters; change it by `chancery keys rotate`");
    }
}

/// Checks that the key is the one that the databases know; new ones learn it.
pub async fn check(store: &Store, key: &str, keys: &Keys) -> Result<(), KeyError> {
    let known = match store.control().read(known).await? {
        Some(known) => known,
        None if is_short(key) => return Err(KeyError::Short),
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
        known if known.contains('>') => Err(KeyError::Changes),
        _ => Err(KeyError::Other),
    }
}

/// The fingerprint in the setting `key`: of the control database, or of a build that another key was put into.
pub fn known(conn: &mut Conn) -> Result<Option<String>, Error> {
    conn.opt(&Sql::new("SELECT value FROM settings WHERE name = 'key'"), |row| Ok(row.text(0)?.to_owned()))
}

/// Why the key is not taken.
#[derive(Debug)]
pub enum KeyError {
    /// The database knows another key.
    Other,
    /// A new database is not made with so short a key.
    Short,
    /// The key is being changed, or that was not finished.
    Changes,
    /// The store's own words.
    Store(Error),
}

impl From<Error> for KeyError {
    fn from(error: Error) -> Self {
        KeyError::Store(error)
    }
}

impl std::fmt::Display for KeyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            KeyError::Other => f.write_str("CHANCERY_SECRET_KEY: the database was made with another key"),
            KeyError::Short => write!(f, "CHANCERY_SECRET_KEY: {TOO_SHORT}"),
            KeyError::Changes => f.write_str(
                "CHANCERY_SECRET_KEY: `chancery keys rotate` is at work, or was interrupted: then call it again with the same two keys",
            ),
            KeyError::Store(error) => error.fmt(f),
        }
    }
}
