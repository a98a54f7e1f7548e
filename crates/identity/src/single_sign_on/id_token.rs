//! Verifies ID tokens (OpenID Connect Core 1.0, section 3.1.3.7). A token must be signed by a key of the issuer with an
//! asymmetric algorithm, come from exactly this issuer for exactly this client, be valid now, and have the nonce of the
//! sign-in. Clocks may differ by a minute.

use super::failure::Failure;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::{Map, Value as Json};
use subtle::ConstantTimeEq;

/// How far the provider's clock may differ, in seconds.
const CLOCK_SKEW_SECONDS: i64 = 60;
const MAX_BYTES: usize = 64 * 1024;
/// The shortest RSA modulus that is accepted, in bytes.
const MIN_MODULUS_BYTES: usize = 256;

/// The accepted algorithms, each with the type and curve of its keys. Symmetric ones and `none` are not among them.
const ALGORITHMS: &[(&str, Algorithm, &str, &str)] = &[
    ("RS256", Algorithm::RS256, "RSA", ""),
    ("RS384", Algorithm::RS384, "RSA", ""),
    ("RS512", Algorithm::RS512, "RSA", ""),
    ("PS256", Algorithm::PS256, "RSA", ""),
    ("PS384", Algorithm::PS384, "RSA", ""),
    ("PS512", Algorithm::PS512, "RSA", ""),
    ("ES256", Algorithm::ES256, "EC", "P-256"),
    ("ES384", Algorithm::ES384, "EC", "P-384"),
    ("EdDSA", Algorithm::EdDSA, "OKP", "Ed25519"),
    ("Ed25519", Algorithm::EdDSA, "OKP", "Ed25519"),
];

/// A signing key of a provider.
#[derive(Clone)]
pub struct SigningKey {
    pub id: Option<String>,
    kind: String,
    curve: String,
    algorithm: Option<String>,
    decoding: DecodingKey,
}

impl SigningKey {
    /// Reads a key of a JWK set; `None` for a key that cannot have signed an accepted token.
    pub fn from_json(jwk: &Json) -> Option<SigningKey> {
        let text = |name: &str| jwk.get(name).and_then(Json::as_str);
        if text("use").is_some_and(|usage| usage != "sig") {
            return None;
        }
        let kind = text("kty")?;
        let decoding = match kind {
            "RSA" => {
                let modulus = URL_SAFE_NO_PAD.decode(text("n")?).ok()?;
                if modulus.iter().skip_while(|byte| **byte == 0).count() < MIN_MODULUS_BYTES {
                    return None;
                }
                DecodingKey::from_rsa_components(text("n")?, text("e")?)
            }
            "EC" => DecodingKey::from_ec_components(text("x")?, text("y")?),
            "OKP" => DecodingKey::from_ed_components(text("x")?),
            _ => return None,
        };
        Some(SigningKey {
            id: text("kid").map(str::to_owned),
            kind: kind.to_owned(),
            curve: text("crv").unwrap_or("").to_owned(),
            algorithm: text("alg").map(str::to_owned),
            decoding: decoding.ok()?,
        })
    }
}

/// An ID token of which only the header was read.
pub struct Unverified<'a> {
    /// The id of the signing key, as the header names it.
    pub key_id: Option<String>,
    name: &'static str,
    algorithm: Algorithm,
    kind: &'static str,
    curve: &'static str,
    message: &'a str,
    payload: &'a str,
    signature: &'a str,
}

/// The values that the claims of an ID token must have.
pub struct ExpectedClaims<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    pub nonce: &'a str,
    /// Microseconds since 1970.
    pub now: i64,
}

/// Reads the header of an ID token.
pub fn read(token: &str) -> Result<Unverified<'_>, Failure> {
    if token.len() > MAX_BYTES {
        return Err("the ID token is too long".into());
    }
    let (message, signature) = token.rsplit_once('.').ok_or("the ID token is no JWT")?;
    let (header, payload) = message.split_once('.').ok_or("the ID token is no JWT")?;
    let header = json_object(header)?;
    if header.contains_key("crit") {
        return Err("the ID token has critical headers".into());
    }
    let named = header.get("alg").and_then(Json::as_str).unwrap_or("");
    let known = ALGORITHMS.iter().find(|(name, ..)| *name == named);
    let (name, algorithm, kind, curve) = *known.ok_or("the ID token's algorithm is not taken")?;
    let key_id = header.get("kid").and_then(Json::as_str).map(str::to_owned);
    Ok(Unverified { key_id, name, algorithm, kind, curve, message, payload, signature })
}

impl Unverified<'_> {
    /// The claims of the token, when one of the keys signed it and the claims are as expected.
    pub fn verify(&self, keys: &[SigningKey], expected: &ExpectedClaims) -> Result<Map<String, Json>, Failure> {
        let fits = |key: &&SigningKey| {
            key.kind == self.kind
                && key.curve == self.curve
                && key.algorithm.as_deref().is_none_or(|algorithm| algorithm == self.name)
        };
        let signed = |key: &SigningKey| {
            let verified =
                jsonwebtoken::crypto::verify(self.signature, self.message.as_bytes(), &key.decoding, self.algorithm);
            verified.unwrap_or(false)
        };
        if !keys.iter().filter(fits).any(signed) {
            return Err("no key of the provider signed the ID token".into());
        }
        let claims = json_object(self.payload)?;
        check_claims(&claims, expected)?;
        Ok(claims)
    }
}

fn json_object(part: &str) -> Result<Map<String, Json>, Failure> {
    Ok(serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part)?)?)
}

fn check_claims(claims: &Map<String, Json>, expected: &ExpectedClaims) -> Result<(), Failure> {
    let text = |name: &str| claims.get(name).and_then(Json::as_str);
    if text("iss") != Some(expected.issuer) {
        return Err("the ID token is from another issuer".into());
    }
    let audiences: Vec<&str> = match claims.get("aud") {
        Some(Json::String(audience)) => vec![audience],
        Some(Json::Array(all)) => all.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    };
    if !audiences.contains(&expected.client_id) {
        return Err("the ID token is for another audience".into());
    }
    let party = claims.get("azp");
    if party.is_some_and(|party| party != expected.client_id) || audiences.len() > 1 && party.is_none() {
        return Err("the ID token was made for another party".into());
    }
    let now = expected.now.div_euclid(1_000_000);
    // A provider may send fractions of seconds.
    let moment = |name: &str| claims.get(name).and_then(Json::as_f64).map(|seconds| seconds as i64);
    if moment("exp").is_none_or(|expires| expires.saturating_add(CLOCK_SKEW_SECONDS) <= now) {
        return Err("the ID token is expired".into());
    }
    if moment("iat").is_none_or(|issued| issued > now + CLOCK_SKEW_SECONDS) {
        return Err("the ID token is issued in the future".into());
    }
    if claims.contains_key("nbf") && moment("nbf").is_none_or(|begins| begins > now + CLOCK_SKEW_SECONDS) {
        return Err("the ID token does not hold yet".into());
    }
    let nonce = text("nonce").unwrap_or("");
    if !bool::from(nonce.as_bytes().ct_eq(expected.nonce.as_bytes())) {
        return Err("the ID token has another nonce".into());
    }
    match text("sub") {
        Some(subject) if (1..=255).contains(&subject.len()) && !subject.contains('\0') => Ok(()),
        _ => Err("the ID token has no subject".into()),
    }
}
