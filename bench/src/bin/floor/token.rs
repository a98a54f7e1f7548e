//! `Authorization: JWT <access token>`.

use axum::http::{HeaderMap, StatusCode, header};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use sha2::Sha256;

/// The prepared key of the tokens.
pub struct Key(Hmac<Sha256>);

#[derive(Deserialize)]
struct Claims<'a> {
    sub: &'a str,
    exp: i64,
}

impl Key {
    /// Reads the key from a file of hexadecimal digits.
    pub fn read(file: &str) -> Key {
        let digits = std::fs::read_to_string(file).expect("FLOOR_KEY can be read");
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("digits");
        let bytes: Vec<u8> = digits.trim().as_bytes().chunks(2).map(byte).collect();
        Key(Hmac::new_from_slice(&bytes).expect("a key of any length will do"))
    }

    /// Returns the user of the token. Refuses with 401 if the token is not valid.
    pub fn caller(&self, headers: &HeaderMap) -> Result<i64, StatusCode> {
        self.verify(headers).ok_or(StatusCode::UNAUTHORIZED)
    }

    fn verify(&self, headers: &HeaderMap) -> Option<i64> {
        let token = headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("JWT ")?;
        let (message, signature) = token.rsplit_once('.')?;
        let mut mac = self.0.clone();
        mac.update(message.as_bytes());
        mac.verify_slice(&URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
        let payload = URL_SAFE_NO_PAD.decode(message.split_once('.')?.1).ok()?;
        let claims: Claims = serde_json::from_slice(&payload).ok()?;
        if crate::now() / 1_000_000 < claims.exp { claims.sub.parse().ok() } else { None }
    }
}
