//! Encryption of values in the database with the deployment's key: client secrets, mail passwords, queued mails.
//!
//! The key of each purpose is derived from the deployment's key (`CHANCERY_SECRET_KEY`). A sealed (encrypted)
//! value is bound to its place. A copy in another row, column or build cannot be opened (decrypted).

use std::fmt;
use std::sync::OnceLock;

use aes_gcm_siv::aead::{Aead, Payload};
use aes_gcm_siv::{Aes256GcmSiv, KeyInit, Nonce};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hkdf::Hkdf;
use sha2::Sha256;

use web::clock::{hex, random_bytes};

const NONCE_BYTES: usize = 12;

/// The keys derived from the deployment's key. The `Debug` form does not reveal them.
#[derive(Clone)]
pub struct Keys {
    tokens: [u8; 32],
    names: [u8; 32],
    fingerprint: String,
    /// The id of the sealing key. Each sealed value begins with it, so that values of several keys can be distinguished.
    seal_id: String,
    cipher: Aes256GcmSiv,
}

/// A column of sealed values or NULL, in a table with an `id` (in the databases of builds). Each module lists its
/// columns, so that `chancery keys rotate` finds them all. In debug builds sealing for an unlisted column panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedColumn {
    pub table: &'static str,
    pub column: &'static str,
    /// The column with the random key of the row.
    pub row: &'static str,
}

static SEALED_COLUMNS: OnceLock<Vec<&'static SealedColumn>> = OnceLock::new();

/// Registers the sealed columns of all modules, once in a process.
pub(crate) fn register(columns: impl Iterator<Item = &'static SealedColumn>) {
    SEALED_COLUMNS.get_or_init(|| columns.collect());
}

/// Returns the sealed columns of builds, in the order of the modules.
pub fn sealed_columns() -> impl Iterator<Item = &'static SealedColumn> {
    SEALED_COLUMNS.get().into_iter().flatten().copied()
}

/// The sealed column of the control database, whose rows name their build.
pub static OF_HISTORY_TENANTS: SealedColumn =
    SealedColumn { table: "history_tenants", column: "client_secret", row: "client_id" };
/// The places of sealed cookies, which are not stored in a table. They are those of a single sign-on,
/// of a trial of one, and of the sign-in of an agent.
const COOKIES: [(&str, &str); 3] =
    [("single_sign_on", "transaction"), ("single_sign_on", "trial"), ("agents", "transaction")];

/// The place to which a sealed value is bound. The names must never change, or existing values cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context<'a> {
    /// The uid of the build.
    pub build: &'a str,
    pub table: &'a str,
    pub column: &'a str,
    /// The random key of the row, which is stored in the row. The row's id does not exist before the insert.
    pub row: &'a str,
}

impl Context<'_> {
    fn is_known(&self) -> bool {
        let columns = sealed_columns().chain([&OF_HISTORY_TENANTS]);
        let is_here = |table: &str, column: &str| self.table == table && self.column == column;
        columns.into_iter().any(|candidate| is_here(candidate.table, candidate.column))
            || COOKIES.iter().any(|(table, column)| is_here(table, column))
    }
}

impl Keys {
    /// Derives the keys from the deployment's key by HKDF-SHA256. The same text results in the same keys in every process.
    pub fn new(master: &str) -> Keys {
        let derive = Hkdf::<Sha256>::new(Some(b"chancery"), master.as_bytes());
        let seal_key: [u8; 32] = sub_key(&derive, "seal");
        Keys {
            tokens: sub_key(&derive, "tokens"),
            names: sub_key(&derive, "names"),
            fingerprint: hex(&sub_key::<16>(&derive, "fingerprint")),
            seal_id: hex(&sub_key::<4>(&derive, "seal id")),
            cipher: Aes256GcmSiv::new(&seal_key.into()),
        }
    }

    /// Returns the key that signs access tokens.
    pub fn tokens(&self) -> [u8; 32] {
        self.tokens
    }

    /// Returns the fingerprint of the key: 32 hexadecimal digits that do not reveal the key. The database
    /// stores it, so that a start with another key is detected.
    pub fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    /// Returns a keyed hash of a value for its place, as 32 hexadecimal digits. Without the key the value
    /// cannot be derived from the hash.
    pub fn name(&self, context: &Context, plain: &[u8]) -> String {
        let bytes = [&associated(context)[..], plain].concat();
        hex(&sub_key::<16>(&Hkdf::<Sha256>::new(Some(&self.names), &bytes), "name"))
    }

    /// Seals a value for its place: key id, a dot, base64url of a random nonce and the ciphertext.
    pub fn seal(&self, context: &Context, plain: &[u8]) -> String {
        debug_assert!(
            sealed_columns().next().is_none() || context.is_known(),
            "{}.{} is not in the list of sealed columns",
            context.table,
            context.column
        );
        let nonce = random_bytes::<NONCE_BYTES>();
        let sealed = self
            .cipher
            .encrypt(&Nonce::from(nonce), Payload { msg: plain, aad: &associated(context) })
            .expect("what fits into memory is below the cipher's limit");
        let mut bytes = Vec::with_capacity(NONCE_BYTES + sealed.len());
        bytes.extend_from_slice(&nonce);
        bytes.extend_from_slice(&sealed);
        format!("{}.{}", self.seal_id, URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Returns whether a sealed value begins with the id of this key.
    pub fn is_named_by(&self, sealed: &str) -> bool {
        sealed.strip_prefix(&self.seal_id).is_some_and(|rest| rest.starts_with('.'))
    }

    /// Opens a value that was sealed for this place with this key; `None` for any other text, place or key.
    pub fn open(&self, context: &Context, sealed: &str) -> Option<Vec<u8>> {
        let bytes = sealed.strip_prefix(&self.seal_id)?.strip_prefix('.')?;
        let bytes = URL_SAFE_NO_PAD.decode(bytes).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_BYTES>()?;
        self.cipher.decrypt(&Nonce::from(*nonce), Payload { msg: sealed, aad: &associated(context) }).ok()
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

fn sub_key<const N: usize>(derive: &Hkdf<Sha256>, purpose: &str) -> [u8; N] {
    let mut key = [0; N];
    derive.expand(purpose.as_bytes(), &mut key).expect("the key is shorter than HKDF's limit");
    key
}

/// Returns the bytes of a place. The length of each part precedes it, so that no two places have the same bytes.
fn associated(context: &Context) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    for part in [context.build, context.table, context.column, context.row] {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Context =
        Context { build: "a.example", table: "single_sign_on", column: "client_secret", row: "6fKq" };

    #[test]
    fn a_name_is_the_same_for_a_value_in_its_place_and_a_key() {
        let keys = Keys::new("the deployment's key");
        let name = keys.name(&PLACE, b"ann@example.com");
        assert_eq!((name.len(), &name), (32, &keys.name(&PLACE, b"ann@example.com")));
        for other_name in [
            keys.name(&PLACE, b"bob@example.com"),
            keys.name(&Context { build: "b.example", ..PLACE }, b"ann@example.com"),
            Keys::new("another key").name(&PLACE, b"ann@example.com"),
        ] {
            assert_ne!(other_name, name);
        }
    }

    #[test]
    fn a_sealed_value_opens_at_its_place() {
        let keys = Keys::new("the deployment's key");
        let sealed = keys.seal(&PLACE, b"hunter2");
        assert_eq!(keys.open(&PLACE, &sealed).unwrap(), b"hunter2");
        assert_eq!(Keys::new("the deployment's key").open(&PLACE, &sealed).unwrap(), b"hunter2");
        assert_ne!(sealed, keys.seal(&PLACE, b"hunter2"));
        assert_eq!(keys.open(&PLACE, &keys.seal(&PLACE, b"")).unwrap(), b"");
    }

    #[test]
    fn it_opens_nowhere_else() {
        let keys = Keys::new("the deployment's key");
        let sealed = keys.seal(&PLACE, b"hunter2");
        for other_place in [
            Context { build: "b.example", ..PLACE },
            Context { table: "mail", ..PLACE },
            Context { column: "name", ..PLACE },
            Context { row: "other", ..PLACE },
            // The same text with another boundary is another place.
            Context { table: "single_sign_onc", column: "lient_secret", ..PLACE },
        ] {
            assert_eq!(keys.open(&other_place, &sealed), None, "{other_place:?}");
        }
        assert_eq!(Keys::new("another key").open(&PLACE, &sealed), None);
    }

    #[test]
    fn an_edited_value_does_not_open() {
        let keys = Keys::new("the deployment's key");
        let sealed = keys.seal(&PLACE, b"hunter2");
        let (id, bytes) = sealed.split_once('.').unwrap();
        let mut bytes = URL_SAFE_NO_PAD.decode(bytes).unwrap();
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert_eq!(keys.open(&PLACE, &format!("{id}.{}", URL_SAFE_NO_PAD.encode(&bytes))), None);
            bytes[at] ^= 1;
        }
        for text in ["", id, &sealed[..12], "hunter2"] {
            assert_eq!(keys.open(&PLACE, text), None);
        }
    }

    #[test]
    fn purposes_have_different_keys_and_nothing_is_shown() {
        let keys = Keys::new("the deployment's key");
        assert_eq!(keys.fingerprint().len(), 32);
        assert_ne!(hex(&keys.tokens()[..16]), keys.fingerprint());
        assert_ne!(keys.fingerprint(), Keys::new("another key").fingerprint());
        assert_eq!(format!("{keys:?}"), "Keys");
    }
}
