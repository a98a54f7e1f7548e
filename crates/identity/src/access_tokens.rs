//! Access tokens: signed JWTs for one build (`docs/reference/sign-in.md`).
//!
//! A token names a user and a session and is valid for some minutes. `authenticate.rs` checks on each request that the session has
//! not ended. The end of a session therefore takes effect immediately.
//!
//! All tokens of this server begin with the same header, byte for byte. Verification compares that text, which fixes the algorithm
//! before the token is parsed. A token with `none`, another algorithm or a key in its header is refused.
//!
//! Clients send the same token with each request, so tokens with a correct signature are cached with their claims. The key of a
//! process never changes, so no entry becomes wrong. Each use checks the usage, the audience and the validity again. A lookup
//! compares hashes with a random seed before it compares texts, so its duration does not reveal a token.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kit::caller::CredentialClaims;
use kit::ids::{SessionId, UserId};
use quick_cache::sync::Cache;
use ring::hmac;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

/// The encoded header `{"alg":"HS256","typ":"JWT"}` and the dot behind it.
const HEADER: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.";
const ISSUER: &str = "chancery";
/// The usage of a token: a session of the main API, or the grant of an agent. A token of one usage is never valid for the other.
const OF_SESSION: &str = "access";
const OF_GRANT: &str = "agent";
const MICROS_PER_SECOND: i64 = 1_000_000;
/// The time by which the validity of a token begins before its issue, so that a server whose clock is slightly behind accepts the
/// token.
const CLOCK_SKEW_SECONDS: i64 = 10;
/// The maximum length of a token. Longer tokens are refused before their signature is computed. Tokens of this server have about
/// 300 bytes.
const MAX_BYTES: usize = 4096;
/// The maximum number of cached tokens. They need about 2 MB.
const MAX_CACHED: usize = 4096;

/// Issues and verifies access tokens under one key.
#[derive(Clone)]
pub struct AccessTokens {
    key: hmac::Key,
    signed: Arc<Cache<Box<str>, Arc<SignedClaims>>>,
}

/// The claims of a token with a correct signature.
struct SignedClaims {
    usage: String,
    audience: String,
    /// The start of the validity in microseconds.
    valid_from: i64,
    claims: CredentialClaims,
}

/// The payload of a token. All members are required. A duplicate member is an error.
#[derive(Serialize, Deserialize)]
struct Payload<'a> {
    #[serde(borrow)]
    iss: Cow<'a, str>,
    #[serde(borrow)]
    aud: Cow<'a, str>,
    #[serde(borrow)]
    sub: Cow<'a, str>,
    sid: SessionId,
    iat: i64,
    nbf: i64,
    exp: i64,
    #[serde(borrow, rename = "use")]
    usage: Cow<'a, str>,
}

impl AccessTokens {
    /// Creates tokens under `key`, the sub-key for tokens ([`kit::secret::Keys::tokens`]).
    pub fn new(key: &[u8]) -> AccessTokens {
        AccessTokens { key: hmac::Key::new(hmac::HMAC_SHA256, key), signed: Arc::new(Cache::new(MAX_CACHED)) }
    }

    /// Issues a token for a user's session in a build (its uid). It is valid for `seconds` from `now` (microseconds).
    pub fn issue(&self, build: &str, user: UserId, session: SessionId, now: i64, seconds: i64) -> String {
        self.sign(OF_SESSION, build, user, session, now, seconds)
    }

    /// Issues a token for a grant, like [`AccessTokens::issue`] for a session. Its audience is one connector of a build.
    pub fn issue_of_grant(&self, audience: &str, user: UserId, grant: SessionId, now: i64, seconds: i64) -> String {
        self.sign(OF_GRANT, audience, user, grant, now, seconds)
    }

    fn sign(&self, usage: &str, audience: &str, user: UserId, session: SessionId, now: i64, seconds: i64) -> String {
        let issued = now.div_euclid(MICROS_PER_SECOND);
        let user = user.to_string();
        let payload = Payload {
            iss: ISSUER.into(),
            aud: audience.into(),
            sub: user.as_str().into(),
            sid: session,
            iat: issued,
            nbf: issued - CLOCK_SKEW_SECONDS,
            exp: issued.saturating_add(seconds),
            usage: usage.into(),
        };
        let payload = serde_json::to_vec(&payload).expect("strings and numbers serialise");
        let mut token = String::with_capacity(384);
        token.push_str(HEADER);
        URL_SAFE_NO_PAD.encode_string(payload, &mut token);
        let signature = hmac::sign(&self.key, token.as_bytes());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        token
    }

    /// Returns the claims of a token that this deployment issued for this build and that is valid at `now` (microseconds). Returns
    /// `None` for other texts, without a reason, since all wrong tokens get the same answer.
    pub fn verify(&self, token: &str, build: &str, now: i64) -> Option<CredentialClaims> {
        self.read(OF_SESSION, token, build, now)
    }

    /// Returns the claims of a grant's token for this audience, like [`AccessTokens::verify`] for a session.
    pub fn verify_of_grant(&self, token: &str, audience: &str, now: i64) -> Option<CredentialClaims> {
        self.read(OF_GRANT, token, audience, now)
    }

    fn read(&self, usage: &str, token: &str, audience: &str, now: i64) -> Option<CredentialClaims> {
        if token.len() > MAX_BYTES {
            return None;
        }
        let signed = match self.signed.get(token) {
            Some(signed) => signed,
            None => {
                let signed = Arc::new(self.verify_signature(token)?);
                self.signed.insert(token.into(), Arc::clone(&signed));
                signed
            }
        };
        let is_valid = signed.valid_from <= now && now < signed.claims.expires_at;
        (signed.usage == usage && signed.audience == audience && is_valid).then_some(signed.claims)
    }

    /// Returns the claims of a token that this deployment signed.
    fn verify_signature(&self, token: &str) -> Option<SignedClaims> {
        let (payload, signature) = token.strip_prefix(HEADER)?.split_once('.')?;
        let message = &token.as_bytes()[..HEADER.len() + payload.len()];
        hmac::verify(&self.key, message, &URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
        let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
        let payload: Payload = serde_json::from_slice(&payload).ok()?;
        if payload.iss != ISSUER {
            return None;
        }
        let user = UserId::new(payload.sub.parse().ok()?);
        let expires_at = payload.exp.checked_mul(MICROS_PER_SECOND)?;
        Some(SignedClaims {
            usage: payload.usage.into_owned(),
            audience: payload.aud.into_owned(),
            valid_from: payload.nbf.checked_mul(MICROS_PER_SECOND)?,
            claims: CredentialClaims::of_session(user, payload.sid, expires_at),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const KEY: &[u8] = b"0123456789abcdef0123456789abcdef";
    const NOW: i64 = 1_769_851_800_500_000;
    const SECONDS: i64 = 1_769_851_800;

    fn valid_claims() -> Value {
        json!({"iss": "chancery", "aud": "a.example", "sub": "7", "sid": 9, "iat": SECONDS, "nbf": SECONDS,
               "exp": SECONDS + 900, "use": "access"})
    }

    fn sign_token(header: &str, algorithm: hmac::Algorithm, payload: &Value) -> String {
        let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload.to_string()));
        let signature = hmac::sign(&hmac::Key::new(algorithm, KEY), message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// Signs a payload with the header of this server, so that only the payload decides.
    fn signed_as_ours(payload: &Value) -> String {
        sign_token(r#"{"alg":"HS256","typ":"JWT"}"#, hmac::HMAC_SHA256, payload)
    }

    fn verify(token: &str) -> Option<CredentialClaims> {
        AccessTokens::new(KEY).verify(token, "a.example", NOW)
    }

    fn claims_with(name: &str, value: Value) -> String {
        let mut payload = valid_claims();
        payload[name] = value;
        signed_as_ours(&payload)
    }

    #[test]
    fn a_token_is_good_for_its_build_until_it_ends() {
        let tokens = AccessTokens::new(KEY);
        let token = tokens.issue("a.example", UserId::new(7), SessionId::new(9), NOW, 900);
        let expires_at = (SECONDS + 900) * MICROS_PER_SECOND;
        let claims = CredentialClaims::of_session(UserId::new(7), SessionId::new(9), expires_at);
        assert_eq!(tokens.verify(&token, "a.example", NOW), Some(claims));
        assert_eq!(tokens.verify(&token, "a.example", claims.expires_at - 1), Some(claims));
        // The token is cached now. Its validity, build and usage are checked again.
        assert_eq!(tokens.verify(&token, "a.example", claims.expires_at), None);
        assert_eq!(tokens.verify(&token, "a.example", (SECONDS - 11) * MICROS_PER_SECOND), None);
        assert_eq!(tokens.verify_of_grant(&token, "a.example", NOW), None);
        assert_eq!(tokens.verify(&token, "b.example", NOW), None);
        assert_eq!(AccessTokens::new(b"another key").verify(&token, "a.example", NOW), None);
    }

    #[test]
    fn a_token_that_another_library_signed_is_read() {
        let token = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJjaGFuY2VyeSIsImF1ZCI6ImEuZXhhbXBsZSIsInN1YiI6IjciLCJzaWQiO\
                     jksImlhdCI6MTc2OTg1MTgwMCwibmJmIjoxNzY5ODUxODAwLCJleHAiOjE3Njk4NTI3MDAsInVzZSI6ImFjY2VzcyJ9.a7Mv1LYIOa4DP_7a\
                     esqw6V_hVIM-W-6bcygcLDzThxk";
        assert!(verify(token).is_some());
        let own_token = AccessTokens::new(KEY).issue("a.example", UserId::new(7), SessionId::new(9), NOW, 900);
        let header = URL_SAFE_NO_PAD.decode(own_token.split('.').next().unwrap()).unwrap();
        assert_eq!(header, br#"{"alg":"HS256","typ":"JWT"}"#);
    }

    #[test]
    fn another_algorithm_is_refused() {
        for (name, algorithm) in [("HS384", hmac::HMAC_SHA384), ("HS512", hmac::HMAC_SHA512)] {
            let header = format!(r#"{{"alg":"{name}","typ":"JWT"}}"#);
            assert_eq!(verify(&sign_token(&header, algorithm, &valid_claims())), None);
        }
        for header in [r#"{"alg":"none","typ":"JWT"}"#, r#"{"alg":"None"}"#] {
            let payload = URL_SAFE_NO_PAD.encode(valid_claims().to_string());
            assert_eq!(verify(&format!("{}.{payload}.", URL_SAFE_NO_PAD.encode(header))), None);
        }
    }

    #[test]
    fn wrong_or_missing_claims_are_refused() {
        for (name, value) in [
            ("iss", json!("someone")),
            ("aud", json!("b.example")),
            ("aud", json!(["a.example"])),
            ("use", json!("refresh")),
            ("sub", json!(7)),
            ("sub", json!("x")),
            ("exp", json!(SECONDS)),
            ("exp", json!("never")),
            ("exp", json!(i64::MAX)),
            ("nbf", json!(SECONDS + 1)),
        ] {
            assert_eq!(verify(&claims_with(name, value.clone())), None, "{name} {value}");
        }
        for name in ["iss", "aud", "sub", "sid", "iat", "nbf", "exp", "use"] {
            let mut payload = valid_claims();
            payload.as_object_mut().unwrap().remove(name);
            assert_eq!(verify(&signed_as_ours(&payload)), None, "without {name}");
        }
    }

    #[test]
    fn an_edited_token_is_refused() {
        let token = AccessTokens::new(KEY).issue("a.example", UserId::new(7), SessionId::new(9), NOW, 900);
        let parts: Vec<&str> = token.split('.').collect();
        let mut payload = valid_claims();
        payload["sub"] = json!("1");
        let edited = URL_SAFE_NO_PAD.encode(payload.to_string());
        assert_eq!(verify(&format!("{}.{edited}.{}", parts[0], parts[2])), None);
        assert_eq!(verify(&format!("{}.{}.", parts[0], parts[1])), None);
        assert_eq!(verify(&format!("{token}.x")), None);
        assert_eq!(verify(&token[..token.len() - 1]), None);
        assert_eq!(verify(""), None);
        assert_eq!(verify(&"x".repeat(100_000)), None);
    }
}
