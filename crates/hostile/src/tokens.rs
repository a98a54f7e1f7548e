//! Tokens and signed addresses: forged ones, and correctly signed ones with any content.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use history::engine::Tenant;
use history::files::CONTENT_PATH;
use history::files::address::Addresses;
use http::Method;
use platform::identity::access_tokens::AccessTokens;
use platform::identity::single_sign_on::id_token::{self, ExpectedClaims, SigningKey};
use platform::kit::ids::{SessionId, UserId};
use platform::kit::secret::{Context, Keys};
use ring::hmac;
use ring::signature::Ed25519KeyPair;
use serde_json::{Value as Json, json};
use std::sync::LazyLock;
use uuid::Uuid;
use web::clock::Clock;

const NOW: i64 = 1_769_851_800_000_000;
const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
/// An Ed25519 key for tests only (PKCS #8), and its public half.
const PRIVATE: [u8; 48] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20, 0x3b, 0x17, 0x9c,
    0x2c, 0xe8, 0x90, 0x28, 0x7b, 0xfa, 0x5b, 0x0a, 0xa0, 0x96, 0xd2, 0x86, 0xf1, 0x30, 0x45, 0x43, 0x17, 0x7c, 0xc1,
    0xc6, 0x21, 0x48, 0x08, 0xb6, 0xe4, 0x0f, 0x61, 0x34, 0x3c,
];
const PUBLIC: [u8; 32] = [
    0xb7, 0x00, 0xa0, 0x3a, 0xf7, 0x27, 0x49, 0x2f, 0x55, 0x76, 0x35, 0x85, 0xe8, 0x54, 0xbb, 0xc2, 0x70, 0xef, 0x42,
    0xbe, 0x79, 0xcb, 0x58, 0x73, 0x25, 0x13, 0xfc, 0xda, 0x56, 0x28, 0xdc, 0x27,
];

/// Uses the same text as a token of every kind, and as the content of a token.
pub fn tokens(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    access_token(text);
    id_token(text);
    sealed(text);
    signed_address(text);
}

fn access_token(text: &str) {
    static TOKENS: LazyLock<AccessTokens> = LazyLock::new(|| AccessTokens::new(SECRET));
    assert_eq!(TOKENS.verify(text, "a.example", NOW), None, "{text:?} was not made here");
    let honest = TOKENS.issue("a.example", UserId::new(7), SessionId::new(9), NOW, 900);
    let (header, _) = honest.split_once('.').unwrap_or_default();
    let message = format!("{header}.{}", URL_SAFE_NO_PAD.encode(text));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), message.as_bytes());
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature));
    if let Some(claims) = TOKENS.verify(&token, "a.example", NOW) {
        assert!(claims.expires_at > NOW, "{text}");
        let said: Json = serde_json::from_str(text).unwrap_or_default();
        assert_eq!(
            (&said["aud"], &said["iss"], &said["use"]),
            (&json!("a.example"), &json!("chancery"), &json!("access"))
        );
        assert_eq!(said["sid"], claims.session.get(), "{text}");
    }
}

fn id_token(text: &str) {
    static KEYS: LazyLock<Vec<SigningKey>> = LazyLock::new(|| {
        let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode(PUBLIC)});
        SigningKey::from_json(&jwk).into_iter().collect()
    });
    static PAIR: LazyLock<Ed25519KeyPair> =
        LazyLock::new(|| Ed25519KeyPair::from_pkcs8_maybe_unchecked(&PRIVATE).expect("a test key"));
    assert_eq!(KEYS.len(), 1);
    let expected = ExpectedClaims { issuer: "https://idp.example", client_id: "client", nonce: "nonce", now: NOW };
    let verify = |token: &str| id_token::read(token).and_then(|read| read.verify(&KEYS, &expected));
    assert!(verify(text).is_err(), "{text:?} was not signed");
    if let Ok(jwk) = serde_json::from_str(text) {
        drop(SigningKey::from_json(&jwk));
    }
    // The text as the header, which a signature does not make valid, and as the claims.
    let said = |header: &str, payload: &str| {
        let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload));
        let signature = PAIR.sign(message.as_bytes());
        verify(&format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
    };
    drop(said(text, "{}"));
    if let Ok(claims) = said(r#"{"alg":"EdDSA"}"#, text) {
        assert_eq!((&claims["iss"], &claims["nonce"]), (&json!("https://idp.example"), &json!("nonce")), "{text}");
        assert!(claims["exp"].as_f64().is_some_and(|seconds| seconds > NOW as f64 / 1e6 - 61.0), "{text}");
        assert!(claims["sub"].as_str().is_some_and(|subject| !subject.is_empty()), "{text}");
    }
}

fn sealed(text: &str) {
    static KEYS: LazyLock<Keys> = LazyLock::new(|| Keys::new("a key for tests"));
    let place = Context { build: "uid", table: "single_sign_on", column: "transaction", row: "state" };
    assert_eq!(KEYS.open(&place, text), None, "{text:?} was not sealed here");
    let sealed = KEYS.seal(&place, text.as_bytes());
    assert_eq!(KEYS.open(&place, &sealed).as_deref(), Some(text.as_bytes()));
    assert_eq!(KEYS.open(&Context { row: text, ..place }, &sealed).is_some(), text == "state");
}

fn signed_address(text: &str) {
    static ADDRESSES: LazyLock<Addresses> = LazyLock::new(|| Addresses::new(SECRET, Clock::fixed(NOW)));
    let (client_id, file_id) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let tenant = Tenant {
        client_id,
        secret_hash: String::new(),
        database_name: "acme".to_owned(),
        client_label: "Acme".to_owned(),
    };
    let honest = ADDRESSES.make(&Method::PUT, &tenant, file_id);
    let (path, query) = honest.split_once('?').unwrap_or_default();
    assert_eq!(ADDRESSES.verify(&Method::PUT, path, query), Some((client_id, file_id)));
    let (edited_path, edited_query) = text.split_once('?').unwrap_or((text, ""));
    for (path, query) in [(edited_path, edited_query), (path, text), (&format!("{CONTENT_PATH}{text}"), query)] {
        let is_honest = format!("{path}?{query}") == honest;
        assert!(is_honest || ADDRESSES.verify(&Method::PUT, path, query).is_none(), "{path}?{query}");
    }
}
