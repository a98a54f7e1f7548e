//! Checks the deployment's key (`CHANCERY_SECRET_KEY`) at the start. A key other than that of the
//! databases is refused (`docs/operations.md`).
//!
//! The control database stores the key's fingerprint as the setting `key`. While `chancery keys rotate` changes the
//! key, the setting is `OLD>NEW` with both fingerprints. No process starts with it, not even one of an earlier version.

use crate::secret::Keys;
use store::{Conn, Sql, Store, StoreError};

/// The minimum length of a new key, in characters. Existing databases may have a shorter one.
pub const SHORTEST: usize = 32;
/// The message if the key of a new database is too short.
pub const TOO_SHORT: &str = "expected at least 32 characters for a new database";

/// Returns whether a key is shorter than a new one may be.
pub fn is_short(key: &str) -> bool {
    key.chars().count() < SHORTEST
}

/// Logs a warning if the key is too short.
pub fn warn_if_short(key: &str) {
    if is_short(key) {
        tracing::warn!("CHANCERY_SECRET_KEY has fewer than {SHORTEST} characters; change it by `chancery keys rotate`");
    }
}

/// Checks that the key is that of the databases, and stores the fingerprint in a new control database.
pub async fn check(store: &Store, key: &str, keys: &Keys) -> Result<(), KeyError> {
    let fingerprint = match store.control().read(load_fingerprint).await? {
        Some(fingerprint) => fingerprint,
        None if is_short(key) => return Err(KeyError::Short),
        None => {
            let fingerprint = keys.fingerprint();
            let insert = move |conn: &mut Conn| -> Result<Option<String>, StoreError> {
                let sql = Sql::new("INSERT INTO settings(name, value) VALUES ('key', $1) ON CONFLICT DO NOTHING");
                conn.exec(&sql.arg(&fingerprint))?;
                load_fingerprint(conn)
            };
            store.control().write(insert).await?.unwrap_or_default()
        }
    };
    match fingerprint {
        fingerprint if fingerprint == keys.fingerprint() => Ok(()),
        fingerprint if fingerprint.contains('>') => Err(KeyError::Changes),
        _ => Err(KeyError::Other),
    }
}

/// Reads the setting `key` of the control database, or of a build that `chancery keys rotate` changed: the fingerprint.
pub fn load_fingerprint(conn: &mut Conn) -> Result<Option<String>, StoreError> {
    conn.query_optional(&Sql::new("SELECT value FROM settings WHERE name = 'key'"), |row| Ok(row.text(0)?.to_owned()))
}

/// The reason why a key is refused.
#[derive(Debug)]
pub enum KeyError {
    /// The databases have another key.
    Other,
    /// The key is too short for a new database.
    Short,
    /// The key is being changed, or a change was interrupted.
    Changes,
    /// The database could not be read or written.
    Store(StoreError),
}

impl From<StoreError> for KeyError {
    fn from(error: StoreError) -> Self {
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
