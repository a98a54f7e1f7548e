//! Signatures of receipts by the deployment's Ed25519 key (`CHANCERY_SIGNING_KEY`; `docs/moving.md`, "Receipts").
//!
//! A signature covers the canonical JSON (RFC 8785) of all other members of a document. Signed documents contain only texts,
//! whole numbers, booleans, null, arrays and objects.

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};
use web::clock::hex;

/// The member with the signature of a document.
const SIGNATURE: &str = "signature";
/// The member with the id of the key that signed a document.
const KEY_ID: &str = "key_id";
/// The largest whole number that every reader of JSON represents exactly.
const MAX_INTEGER: u64 = 1 << 53;

/// The message about a key that cannot be used.
pub const INVALID_KEY: &str = "expected 32 bytes in base64";

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD_LENIENT: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE_LENIENT: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// The key that signs the deployment's receipts.
pub struct SigningKey(Ed25519KeyPair);

/// The reason for which a signed document is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureError {
    /// The public key is not one.
    Key,
    /// The document has no signature, or has values that cannot be signed.
    Unsigned,
    /// Another key signed the document.
    OtherKey,
    /// The document was changed after it was signed.
    Changed,
}

impl std::fmt::Display for SignatureError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SignatureError::Key => INVALID_KEY,
            SignatureError::Unsigned => "the document is not signed",
            SignatureError::OtherKey => "another key signed the document",
            SignatureError::Changed => "the signature does not match: the document was changed",
        })
    }
}

impl SigningKey {
    /// Reads a key: 32 bytes in base64, in the standard or the URL alphabet.
    ///
    /// # Errors
    /// [`INVALID_KEY`].
    pub fn parse(text: &str) -> Result<SigningKey, &'static str> {
        let seed = decode(text).ok_or(INVALID_KEY)?;
        Ed25519KeyPair::from_seed_unchecked(&seed).map(SigningKey).map_err(|_| INVALID_KEY)
    }

    /// Returns the public key in base64.
    pub fn public_key(&self) -> String {
        STANDARD.encode(self.0.public_key())
    }

    /// Returns the id of the key: the first 16 hexadecimal digits of the SHA-256 of the public key.
    pub fn id(&self) -> String {
        key_id(self.0.public_key().as_ref())
    }

    /// Adds the id of the key and the signature to a document.
    ///
    /// # Panics
    /// If the document contains a fraction or a number beyond 2^53. The program chooses its values.
    pub fn sign(&self, mut document: Map<String, Json>) -> Json {
        document.remove(SIGNATURE);
        document.insert(KEY_ID.to_owned(), self.id().into());
        let text = canonical(&document, "").expect("signed documents contain whole numbers only");
        document.insert(SIGNATURE.to_owned(), STANDARD.encode(self.0.sign(text.as_bytes())).into());
        Json::Object(document)
    }
}

/// Checks that the holder of a public key (base64) signed a document, and that it was not changed since.
pub fn verify(document: &Json, public_key: &str) -> Result<(), SignatureError> {
    let key = decode(public_key).ok_or(SignatureError::Key)?;
    let members = document.as_object().ok_or(SignatureError::Unsigned)?;
    let text = |name: &str| members.get(name).and_then(Json::as_str).ok_or(SignatureError::Unsigned);
    let signature = STANDARD_LENIENT.decode(text(SIGNATURE)?).map_err(|_| SignatureError::Unsigned)?;
    if text(KEY_ID)? != key_id(&key) {
        return Err(SignatureError::OtherKey);
    }
    let signed = canonical(members, SIGNATURE).ok_or(SignatureError::Unsigned)?;
    UnparsedPublicKey::new(&ED25519, key).verify(signed.as_bytes(), &signature).map_err(|_| SignatureError::Changed)
}

fn decode(text: &str) -> Option<[u8; 32]> {
    let text = text.trim();
    let bytes = STANDARD_LENIENT.decode(text).or_else(|_| URL_SAFE_LENIENT.decode(text)).ok()?;
    bytes.try_into().ok()
}

fn key_id(public_key: &[u8]) -> String {
    hex(&Sha256::digest(public_key)[..8])
}

/// Returns the canonical JSON of an object without one member; `None` if it contains a fraction or too large a number.
fn canonical(object: &Map<String, Json>, without: &str) -> Option<String> {
    let mut out = String::new();
    push_object(&mut out, object, without)?;
    Some(out)
}

fn push_object(out: &mut String, object: &Map<String, Json>, without: &str) -> Option<()> {
    let mut members: Vec<(&String, &Json)> = object.iter().filter(|(name, _)| *name != without).collect();
    // RFC 8785 orders names by their UTF-16 code units.
    members.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
    out.push('{');
    for (at, (name, value)) in members.into_iter().enumerate() {
        out.push_str(if at > 0 { "," } else { "" });
        push_value(out, &Json::from(name.as_str()))?;
        out.push(':');
        push_value(out, value)?;
    }
    out.push('}');
    Some(())
}

fn push_value(out: &mut String, value: &Json) -> Option<()> {
    match value {
        Json::Object(object) => return push_object(out, object, ""),
        Json::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                push_value(out, item)?;
            }
            out.push(']');
        }
        Json::Number(number) => {
            let is_exact = number.as_i64().is_some_and(|number| number.unsigned_abs() <= MAX_INTEGER);
            out.push_str(&is_exact.then(|| number.to_string())?);
        }
        // The escapes of serde_json are those of RFC 8785.
        Json::String(_) | Json::Bool(_) | Json::Null => out.push_str(&value.to_string()),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The first key of RFC 8032, section 7.1.
    const SEED: &str = "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=";
    const PUBLIC: &str = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

    fn document() -> Map<String, Json> {
        let json = json!({"b": [1, null, "\u{1}é"], "a": {"y": true, "x": -3}, "€": "", "\u{10000}": 0});
        json.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn the_canonical_form_sorts_names_and_has_no_blanks() {
        assert_eq!(
            canonical(&document(), "").unwrap(),
            "{\"a\":{\"x\":-3,\"y\":true},\"b\":[1,null,\"\\u0001é\"],\"€\":\"\",\"\u{10000}\":0}"
        );
        assert_eq!(canonical(json!({"a": 0.5}).as_object().unwrap(), ""), None);
        assert_eq!(canonical(json!({"a": u64::MAX}).as_object().unwrap(), ""), None);
    }

    #[test]
    fn a_document_is_accepted_until_it_is_changed() {
        let key = SigningKey::parse(SEED).unwrap();
        assert_eq!((key.public_key(), key.id().len()), (PUBLIC.to_owned(), 16));
        let signed = key.sign(document());
        assert_eq!(verify(&signed, PUBLIC), Ok(()));
        for change in [json!({"a": 2}), json!({"c": 1}), json!({"signature": "AAAA"})] {
            let mut changed = signed.clone();
            for (name, value) in change.as_object().unwrap() {
                changed[name] = value.clone();
            }
            assert_eq!(verify(&changed, PUBLIC), Err(SignatureError::Changed), "{change}");
        }
        let other = SigningKey::parse(&STANDARD.encode([7; 32])).unwrap().public_key();
        assert_eq!(verify(&signed, &other), Err(SignatureError::OtherKey));
        assert_eq!(verify(&json!({"a": 1}), PUBLIC), Err(SignatureError::Unsigned));
        assert_eq!(verify(&signed, "short"), Err(SignatureError::Key));
    }

    #[test]
    fn keys_are_read_in_both_alphabets_with_and_without_padding() {
        for text in
            [SEED, "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A", " nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=\n"]
        {
            assert_eq!(SigningKey::parse(text).unwrap().public_key(), PUBLIC, "{text}");
        }
        assert!(SigningKey::parse("c2hvcnQ=").is_err());
    }
}
