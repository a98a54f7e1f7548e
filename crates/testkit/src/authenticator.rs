//! Second factors of tests: a generator of codes, and a passkey that signs like an authenticator in a browser.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
    RsaPublicKeyComponents,
};
use serde_json::{Value as Json, json};

/// A key for RS256, since `ring` does not generate one.
const RSA_KEY: &[u8] = include_bytes!("passkey_rsa.der");

/// A generator of codes.
pub struct CodeGenerator(Vec<u8>);

impl CodeGenerator {
    /// Reads a secret in Base32.
    ///
    /// # Panics
    /// If the text is not Base32.
    pub fn new(secret: &str) -> CodeGenerator {
        const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
        let values = secret.chars().map(|letter| LETTERS.find(letter).expect("a letter of Base32"));
        let bits: String = values.map(|value| format!("{value:05b}")).collect();
        let bytes =
            bits.as_bytes().chunks_exact(8).map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | (bit - b'0')));
        CodeGenerator(bytes.collect())
    }

    /// Returns the code at a time in microseconds.
    pub fn code(&self, now: i64) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &self.0);
        let tag = hmac::sign(&key, &now.div_euclid(30_000_000).to_be_bytes());
        let at = usize::from(tag.as_ref()[19] & 15);
        let four: [u8; 4] = tag.as_ref()[at..at + 4].try_into().expect("four bytes");
        format!("{:06}", (u32::from_be_bytes(four) & 0x7fff_ffff) % 1_000_000)
    }
}

/// The key of a passkey.
enum PasskeyKey {
    Es256(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
    Rs256(RsaKeyPair),
}

/// A passkey. A test changes its fields to make wrong answers.
pub struct Passkey {
    key: PasskeyKey,
    pub id: Vec<u8>,
    /// The relying party, whose hash is signed.
    pub party: String,
    pub origin: String,
    pub cross_origin: Option<bool>,
    /// The number of uses that the next answer states.
    pub count: u32,
    pub is_user_present: bool,
    pub is_user_verified: bool,
    /// The handle of its user, from the options of its creation.
    pub user_handle: Option<String>,
}

impl Passkey {
    /// Creates a passkey with a key of `ES256`, `EdDSA` or `RS256` for the pages of an origin.
    ///
    /// # Panics
    /// For another algorithm.
    pub fn new(algorithm: &str, origin: &str) -> Passkey {
        let random = SystemRandom::new();
        let key = match algorithm {
            "ES256" => {
                let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).expect("a key");
                let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, document.as_ref(), &random);
                PasskeyKey::Es256(key.expect("a key"))
            }
            "EdDSA" => {
                let document = Ed25519KeyPair::generate_pkcs8(&random).expect("a key");
                PasskeyKey::EdDsa(Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("a key"))
            }
            "RS256" => PasskeyKey::Rs256(RsaKeyPair::from_pkcs8(RSA_KEY).expect("a key")),
            other => panic!("{other} is not an algorithm of passkeys"),
        };
        let host = origin.split("://").nth(1).and_then(|rest| rest.split(':').next()).unwrap_or(origin);
        Passkey {
            key,
            id: web::clock::random_bytes::<32>().to_vec(),
            party: host.to_owned(),
            origin: origin.to_owned(),
            cross_origin: Some(false),
            count: 0,
            is_user_present: true,
            is_user_verified: true,
            user_handle: None,
        }
    }

    /// Returns the id in base64url.
    pub fn id_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(&self.id)
    }

    /// Answers the options of a creation.
    pub fn create(&mut self, options: &Json) -> Json {
        self.user_handle = options["user"]["id"].as_str().map(str::to_owned);
        let client_data = self.client_data("webauthn.create", options);
        let length = u16::try_from(self.id.len()).expect("a short id").to_be_bytes();
        let attested = [&[7; 16], length.as_slice(), &self.id, &self.cose_key()].concat();
        let data = self.authenticator_data(0x40, &attested);
        let mut object = b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x59".to_vec();
        object.extend(u16::try_from(data.len()).expect("short data").to_be_bytes());
        object.extend(data);
        self.credential(json!({
            "clientDataJSON": URL_SAFE_NO_PAD.encode(client_data),
            "attestationObject": URL_SAFE_NO_PAD.encode(object),
            "transports": ["internal"],
        }))
    }

    /// Answers the options of a request.
    pub fn sign(&self, options: &Json) -> Json {
        let client_data = self.client_data("webauthn.get", options);
        let data = self.authenticator_data(0, &[]);
        let signed = [data.as_slice(), digest(&SHA256, client_data.as_bytes()).as_ref()].concat();
        self.credential(json!({
            "clientDataJSON": URL_SAFE_NO_PAD.encode(client_data),
            "authenticatorData": URL_SAFE_NO_PAD.encode(data),
            "signature": URL_SAFE_NO_PAD.encode(self.signature(&signed)),
            "userHandle": self.user_handle,
        }))
    }

    fn credential(&self, response: Json) -> Json {
        let id = self.id_text();
        json!({
            "id": id, "rawId": id, "type": "public-key", "response": response,
            "authenticatorAttachment": "platform", "clientExtensionResults": {},
        })
    }

    fn client_data(&self, kind: &str, options: &Json) -> String {
        let mut data = json!({"type": kind, "challenge": options["challenge"], "origin": self.origin});
        if let Some(cross_origin) = self.cross_origin {
            data["crossOrigin"] = cross_origin.into();
        }
        data.to_string()
    }

    fn authenticator_data(&self, flags: u8, attested: &[u8]) -> Vec<u8> {
        let flags = flags | u8::from(self.is_user_present) | u8::from(self.is_user_verified) << 2;
        let party = digest(&SHA256, self.party.as_bytes());
        [party.as_ref(), &[flags], &self.count.to_be_bytes(), attested].concat()
    }

    fn cose_key(&self) -> Vec<u8> {
        let bytes = |name: u8, bytes: &[u8]| {
            let length = u16::try_from(bytes.len()).expect("a short key").to_be_bytes();
            [&[name, 0x59], length.as_slice(), bytes].concat()
        };
        match &self.key {
            PasskeyKey::Es256(key) => {
                let (x, y) = key.public_key().as_ref()[1..].split_at(32);
                [b"\xa5\x01\x02\x03\x26\x20\x01".as_slice(), &bytes(0x21, x), &bytes(0x22, y)].concat()
            }
            PasskeyKey::EdDsa(key) => {
                [b"\xa4\x01\x01\x03\x27\x20\x06".as_slice(), &bytes(0x21, key.public_key().as_ref())].concat()
            }
            PasskeyKey::Rs256(key) => {
                let RsaPublicKeyComponents::<Vec<u8>> { n, e } = key.public().into();
                [b"\xa4\x01\x03\x03\x39\x01\x00".as_slice(), &bytes(0x20, &n), &bytes(0x21, &e)].concat()
            }
        }
    }

    fn signature(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.key {
            PasskeyKey::Es256(key) => key.sign(&random, message).expect("a signature").as_ref().to_vec(),
            PasskeyKey::EdDsa(key) => key.sign(message).as_ref().to_vec(),
            PasskeyKey::Rs256(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).expect("a signature");
                signature
            }
        }
    }
}
