//! Random secrets that programs send as `Authorization: Bearer`: API keys and the tokens of directories. They are stored as hashes.

use kit::build::Build;
use kit::caller::{Caller, CredentialClaims};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::{Conn, Sql, StoreError};
use web::clock::{hex, random_token};

/// The number of characters after the prefix: 256 random bits.
const SECRET_LENGTH: usize = 43;
const MINUTE_US: i64 = 60_000_000;

/// A new secret.
pub struct NewSecret {
    /// The text, which is shown once.
    pub text: String,
    /// The hash, as it is stored.
    pub hash: String,
}

impl NewSecret {
    /// Returns a random secret that begins with a prefix.
    pub fn random(prefix: &str) -> NewSecret {
        let text = format!("{prefix}{}", random_token());
        let hash = hex(&Sha256::digest(&text));
        NewSecret { text, hash }
    }
}

/// Returns the claims of a text with the form of a secret. Only the database tells whether the secret exists.
pub fn claims(prefix: &str, secret: &str) -> Option<CredentialClaims> {
    let is_secret = secret.len() == prefix.len() + SECRET_LENGTH && secret.starts_with(prefix) && secret.is_ascii();
    is_secret.then(|| CredentialClaims::of_secret(Sha256::digest(secret).into()))
}

/// Writes the minute of a secret's last use in the background, once a minute and process. The statement has the minute and the hash as
/// arguments.
pub fn record_use(build: &Arc<Build>, caller: &Caller, now: i64, statement: &'static str, hash: String) {
    let (minute, last) = (now - now.rem_euclid(MINUTE_US), caller.last_used_at.load(Ordering::Relaxed));
    let is_first = last < minute
        && caller.last_used_at.compare_exchange(last, minute, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if !is_first {
        return;
    }
    let db = build.db.clone();
    tokio::spawn(async move {
        let script = move |conn: &mut Conn| -> Result<u64, StoreError> {
            conn.exec(&Sql::new(statement).arg(minute).arg(hash.as_str()))
        };
        if let Err(error) = db.write(script).await {
            tracing::debug!(%error, "the last use of a secret was not written");
        }
    });
}
