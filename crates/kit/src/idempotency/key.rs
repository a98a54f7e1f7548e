//! The key of a request, and the hashes by which a repetition is recognized.

use crate::build::Build;
use crate::ids::UserId;
use sha2::{Digest, Sha256};
use std::sync::atomic::AtomicBool;
use web::clock::hex;

/// The key of a request, with the hashes by which a repetition is recognized.
pub struct RequestKey {
    /// A hash of the build, the account, the method, the path, the query string and the key, in hexadecimal digits.
    pub(super) hash: String,
    /// The hash of the body, in hexadecimal digits.
    pub(super) body: String,
    pub(super) account: UserId,
    /// Is true if the transaction of the request has stored the answer.
    pub(super) is_stored: AtomicBool,
}

/// The parts of a request that distinguish its key from others.
pub(crate) struct KeyParts<'a> {
    pub build: &'a Build,
    pub account: UserId,
    pub path: &'a str,
    pub query: &'a str,
    pub key: &'a str,
    /// The hash of the body, in hexadecimal digits.
    pub body: String,
}

impl RequestKey {
    pub(crate) fn new(parts: KeyParts<'_>) -> RequestKey {
        let account = parts.account.get().to_string();
        let path = parts.path.strip_suffix('/').unwrap_or(parts.path);
        let mut hash = Sha256::new();
        for part in [parts.build.uid.as_str(), &account, "POST", path, parts.query, parts.key] {
            // The length separates the parts.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let (hash, body) = (hex(&hash.finalize()), parts.body);
        RequestKey { hash, body, account: parts.account, is_stored: AtomicBool::new(false) }
    }
}

/// Returns the hash of a body, in hexadecimal digits.
pub(crate) fn body_hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}
