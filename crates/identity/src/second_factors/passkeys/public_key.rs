//! Public keys of passkeys: their form in COSE and in the database, and the check of signatures.

use super::cbor::{CborReader, IntegerOrBytes};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};

const ES256: i64 = -7;
const EDDSA: i64 = -8;
const RS256: i64 = -257;
/// The algorithms that a passkey may have, the preferred one first.
pub const ALGORITHMS: [i64; 3] = [ES256, EDDSA, RS256];

/// The length of a coordinate and of an Ed25519 key, in bytes.
const COORDINATE: usize = 32;
/// The lengths of a modulus, in bytes.
const MIN_MODULUS: usize = 256;
const MAX_MODULUS: usize = 1024;
/// The maximum length of an exponent, in bytes.
const MAX_EXPONENT: usize = 8;

/// The members of a key in the form of COSE (RFC 9052, section 7).
#[derive(Default)]
struct CoseKey {
    kind: i64,
    algorithm: i64,
    curve: i64,
    /// The modulus of an RSA key.
    modulus: Vec<u8>,
    /// The first coordinate, or the exponent of an RSA key.
    x: Vec<u8>,
    y: Vec<u8>,
}

impl CoseKey {
    fn parse(bytes: &[u8]) -> Option<CoseKey> {
        let (mut reader, mut key) = (CborReader::new(bytes), CoseKey::default());
        for _ in 0..reader.map()? {
            match reader.integer()? {
                1 => key.kind = reader.integer()?,
                3 => key.algorithm = reader.integer()?,
                -1 => match reader.integer_or_bytes()? {
                    IntegerOrBytes::Integer(curve) => key.curve = curve,
                    IntegerOrBytes::Bytes(modulus) => key.modulus = modulus,
                },
                -2 => key.x = reader.string()?,
                -3 => key.y = reader.string()?,
                _ => reader.skip()?,
            }
        }
        Some(key)
    }
}

/// A public key.
#[derive(Debug, PartialEq, Eq)]
pub enum PublicKey {
    /// A point of P-256, uncompressed.
    Es256(Vec<u8>),
    EdDsa(Vec<u8>),
    Rs256 {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
}

impl PublicKey {
    /// Reads a key in the form of COSE; `None` if it has another algorithm or a wrong length.
    pub fn from_cose(bytes: &[u8]) -> Option<PublicKey> {
        let CoseKey { kind, algorithm, curve, modulus, x, y } = CoseKey::parse(bytes)?;
        match (algorithm, kind, curve) {
            (ES256, 2, 1) if x.len() == COORDINATE && y.len() == COORDINATE => {
                Some(PublicKey::Es256([&[4], x.as_slice(), &y].concat()))
            }
            (EDDSA, 1, 6) if x.len() == COORDINATE => Some(PublicKey::EdDsa(x)),
            (RS256, 3, 0)
                if (MIN_MODULUS..=MAX_MODULUS).contains(&modulus.len()) && (1..=MAX_EXPONENT).contains(&x.len()) =>
            {
                Some(PublicKey::Rs256 { modulus, exponent: x })
            }
            _ => None,
        }
    }

    /// Returns the stored form: the algorithm, and the parts of the key in base64url, separated by dots.
    pub fn to_text(&self) -> String {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self {
            PublicKey::Es256(point) => format!("ES256.{}", encode(point)),
            PublicKey::EdDsa(key) => format!("EdDSA.{}", encode(key)),
            PublicKey::Rs256 { modulus, exponent } => format!("RS256.{}.{}", encode(modulus), encode(exponent)),
        }
    }

    /// Reads the stored form.
    pub fn from_text(text: &str) -> Option<PublicKey> {
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        let (algorithm, key) = text.split_once('.')?;
        match algorithm {
            "ES256" => Some(PublicKey::Es256(decode(key)?)),
            "EdDSA" => Some(PublicKey::EdDsa(decode(key)?)),
            "RS256" => {
                let (modulus, exponent) = key.split_once('.')?;
                Some(PublicKey::Rs256 { modulus: decode(modulus)?, exponent: decode(exponent)? })
            }
            _ => None,
        }
    }

    /// Returns whether a signature of a message is that of the key.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match self {
            PublicKey::Es256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(message, signature)
            }
            PublicKey::EdDsa(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
            PublicKey::Rs256 { modulus, exponent } => RsaPublicKeyComponents { n: modulus, e: exponent }.verify(
                &RSA_PKCS1_2048_8192_SHA256,
                message,
                signature,
            ),
        };
        verified.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_stored_as_text() {
        for key in [
            PublicKey::Es256(vec![4; 65]),
            PublicKey::EdDsa(vec![1; 32]),
            PublicKey::Rs256 { modulus: vec![200; 256], exponent: vec![1, 0, 1] },
        ] {
            assert_eq!(PublicKey::from_text(&key.to_text()), Some(key));
        }
        for text in ["", "ES256", "ES512.AA", "ES256.!", "RS256.AA"] {
            assert_eq!(PublicKey::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn a_key_of_another_kind_or_length_is_refused() {
        let es256 = |kind: u8, algorithm: u8, curve: u8, length: u8| {
            let coordinate = |name: u8| [&[name, 0x58, length], vec![1; length.into()].as_slice()].concat();
            [&[0xa5, 1, kind, 3, algorithm, 0x20, curve], coordinate(0x21).as_slice(), &coordinate(0x22)].concat()
        };
        assert!(matches!(PublicKey::from_cose(&es256(2, 0x26, 1, 32)), Some(PublicKey::Es256(_))));
        for key in
            [es256(1, 0x26, 1, 32), es256(2, 0x27, 1, 32), es256(2, 0x26, 2, 32), es256(2, 0x26, 1, 31), vec![0xa0]]
        {
            assert_eq!(PublicKey::from_cose(&key), None);
        }
        let key = es256(2, 0x26, 1, 32);
        for at in 0..key.len() {
            for byte in 0..=u8::MAX {
                let mut edited = key.clone();
                edited[at] = byte;
                PublicKey::from_cose(&edited);
            }
            assert_eq!(PublicKey::from_cose(&key[..at]), None);
        }
    }
}
