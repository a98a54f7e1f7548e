//! Verifies ID tokens (OpenID Connect Core 1.0, section 3.1.3.7). A key of the issuer must have signed the token with an asymmetric
//! algorithm. The token must be from exactly this issuer for exactly this client, be valid now, and contain the nonce of the
//! sign-in. Clocks may differ by a minute.

use super::failure::ProviderFailure;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use serde_json::{Map, Value as Json};
use subtle::ConstantTimeEq;

/// The maximum difference of the provider's clock, in seconds.
const CLOCK_SKEW_SECONDS: i64 = 60;
const MAX_BYTES: usize = 64 * 1024;
/// The minimum length of an RSA modulus, in bytes.
const MIN_MODULUS_BYTES: usize = 256;
/// The byte before the two coordinates of a point (SEC 1).
const UNCOMPRESSED: u8 = 4;

/// An accepted algorithm.
struct Algorithm {
    name: &'static str,
    /// The type and curve of its keys.
    kind: &'static str,
    curve: &'static str,
    scheme: Scheme,
}

enum Scheme {
    Rsa(&'static RsaParameters),
    Curve(&'static dyn VerificationAlgorithm),
}

/// The accepted algorithms. Symmetric algorithms and `none` are not accepted.
static ALGORITHMS: [Algorithm; 10] = [
    rsa("RS256", &signature::RSA_PKCS1_2048_8192_SHA256),
    rsa("RS384", &signature::RSA_PKCS1_2048_8192_SHA384),
    rsa("RS512", &signature::RSA_PKCS1_2048_8192_SHA512),
    rsa("PS256", &signature::RSA_PSS_2048_8192_SHA256),
    rsa("PS384", &signature::RSA_PSS_2048_8192_SHA384),
    rsa("PS512", &signature::RSA_PSS_2048_8192_SHA512),
    curve("ES256", "EC", "P-256", &signature::ECDSA_P256_SHA256_FIXED),
    curve("ES384", "EC", "P-384", &signature::ECDSA_P384_SHA384_FIXED),
    curve("EdDSA", "OKP", "Ed25519", &signature::ED25519),
    curve("Ed25519", "OKP", "Ed25519", &signature::ED25519),
];

const fn rsa(name: &'static str, parameters: &'static RsaParameters) -> Algorithm {
    Algorithm { name, kind: "RSA", curve: "", scheme: Scheme::Rsa(parameters) }
}

const fn curve(
    name: &'static str,
    kind: &'static str,
    curve: &'static str,
    of_ring: &'static dyn VerificationAlgorithm,
) -> Algorithm {
    Algorithm { name, kind, curve, scheme: Scheme::Curve(of_ring) }
}

/// A signing key of a provider.
#[derive(Clone)]
pub struct SigningKey {
    pub id: Option<String>,
    kind: String,
    curve: String,
    algorithm: Option<String>,
    public: PublicKey,
}

#[derive(Clone)]
enum PublicKey {
    /// Modulus and exponent, without leading zeros.
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    /// A point of a curve.
    Point(Vec<u8>),
}

impl SigningKey {
    /// Reads a key of a JWK set. Returns `None` for a key that cannot have signed an accepted token.
    pub fn from_json(jwk: &Json) -> Option<SigningKey> {
        let text = |name: &str| jwk.get(name).and_then(Json::as_str);
        if text("use").is_some_and(|usage| usage != "sig") {
            return None;
        }
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        let number = |name: &str| Some(bytes(name)?.into_iter().skip_while(|byte| *byte == 0).collect::<Vec<_>>());
        let kind = text("kty")?;
        let public = match kind {
            "RSA" => PublicKey::Rsa(RsaPublicKeyComponents { n: number("n")?, e: number("e")? }),
            "EC" => PublicKey::Point([&[UNCOMPRESSED], &*bytes("x")?, &*bytes("y")?].concat()),
            "OKP" => PublicKey::Point(bytes("x")?),
            _ => return None,
        };
        if matches!(&public, PublicKey::Rsa(components) if components.n.len() < MIN_MODULUS_BYTES) {
            return None;
        }
        Some(SigningKey {
            id: text("kid").map(str::to_owned),
            kind: kind.to_owned(),
            curve: text("crv").unwrap_or("").to_owned(),
            algorithm: text("alg").map(str::to_owned),
            public,
        })
    }

    /// Returns whether this key signed a message with the algorithm.
    fn verifies(&self, algorithm: &Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let fits = algorithm.kind == self.kind
            && algorithm.curve == self.curve
            && self.algorithm.as_deref().is_none_or(|name| name == algorithm.name);
        match (&algorithm.scheme, &self.public) {
            (Scheme::Rsa(parameters), PublicKey::Rsa(key)) if fits => {
                key.verify(parameters, message, signature).is_ok()
            }
            (Scheme::Curve(curve), PublicKey::Point(point)) if fits => {
                UnparsedPublicKey::new(*curve, point).verify(message, signature).is_ok()
            }
            _ => false,
        }
    }
}

/// An ID token that is not verified. Only its header was read.
pub struct UnverifiedToken<'a> {
    /// The id of the signing key in the header.
    pub key_id: Option<String>,
    algorithm: &'static Algorithm,
    message: &'a str,
    payload: &'a str,
    signature: &'a str,
}

/// The values that the claims of an ID token must have.
pub struct ExpectedClaims<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    pub nonce: &'a str,
    /// The time, in microseconds since 1970.
    pub now: i64,
}

/// Reads the header of an ID token.
pub fn read(token: &str) -> Result<UnverifiedToken<'_>, ProviderFailure> {
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
    let known_algorithm = ALGORITHMS.iter().find(|algorithm| algorithm.name == named);
    let algorithm = known_algorithm.ok_or("the ID token's algorithm is not taken")?;
    let key_id = header.get("kid").and_then(Json::as_str).map(str::to_owned);
    Ok(UnverifiedToken { key_id, algorithm, message, payload, signature })
}

impl UnverifiedToken<'_> {
    /// Returns the claims of the token if one of the keys signed it and the claims have the expected values.
    pub fn verify(&self, keys: &[SigningKey], expected: &ExpectedClaims) -> Result<Map<String, Json>, ProviderFailure> {
        let (message, signature) =
            (self.message.as_bytes(), URL_SAFE_NO_PAD.decode(self.signature).unwrap_or_default());
        if !keys.iter().any(|key| key.verifies(self.algorithm, message, &signature)) {
            return Err("no key of the provider signed the ID token".into());
        }
        let claims = json_object(self.payload)?;
        check_claims(&claims, expected)?;
        Ok(claims)
    }
}

fn json_object(part: &str) -> Result<Map<String, Json>, ProviderFailure> {
    Ok(serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part)?)?)
}

fn check_claims(claims: &Map<String, Json>, expected: &ExpectedClaims) -> Result<(), ProviderFailure> {
    let text = |name: &str| claims.get(name).and_then(Json::as_str);
    if text("iss") != Some(expected.issuer) {
        return Err("the ID token is from another issuer".into());
    }
    let audiences: Vec<&str> = match claims.get("aud") {
        Some(Json::String(audience)) => vec![audience],
        Some(Json::Array(values)) => values.iter().filter_map(Json::as_str).collect(),
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
    let seconds_of = |name: &str| claims.get(name).and_then(Json::as_f64).map(|seconds| seconds as i64);
    if seconds_of("exp").is_none_or(|expires| expires.saturating_add(CLOCK_SKEW_SECONDS) <= now) {
        return Err("the ID token is expired".into());
    }
    if seconds_of("iat").is_none_or(|issued| issued > now + CLOCK_SKEW_SECONDS) {
        return Err("the ID token is issued in the future".into());
    }
    if claims.contains_key("nbf") && seconds_of("nbf").is_none_or(|begins| begins > now + CLOCK_SKEW_SECONDS) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens that another library signed, one for each algorithm.
    const SIGNED: &str = include_str!("id_tokens.json");
    const EXPECTED: ExpectedClaims<'static> = ExpectedClaims {
        issuer: "https://idp.example",
        client_id: "client",
        nonce: "nonce",
        now: 1_769_851_800_000_000,
    };

    fn signed_examples() -> Vec<(String, Json, String)> {
        let examples: Vec<Json> = serde_json::from_str(SIGNED).unwrap();
        let text = |example: &Json, name: &str| example[name].as_str().unwrap().to_owned();
        examples
            .iter()
            .map(|example| (text(example, "algorithm"), example["key"].clone(), text(example, "token")))
            .collect()
    }

    #[test]
    fn tokens_of_every_algorithm_are_read() {
        let examples = signed_examples();
        assert_eq!(examples.len(), ALGORITHMS.len());
        for (algorithm, key, token) in examples {
            let key = SigningKey::from_json(&key).unwrap();
            let claims = read(&token).and_then(|id_token| id_token.verify(&[key], &EXPECTED));
            assert_eq!(claims.unwrap()["sub"], "ann", "{algorithm}");
        }
    }

    #[test]
    fn another_key_algorithm_or_text_is_refused() {
        let examples = signed_examples();
        for (algorithm, key, token) in &examples {
            let is_read = |token: &str, key: &Json| {
                let key = SigningKey::from_json(key).unwrap();
                read(token).and_then(|id_token| id_token.verify(&[key], &EXPECTED)).is_ok()
            };
            for (other_algorithm, other_key, _) in examples.iter().filter(|(_, other_key, _)| other_key != key) {
                assert!(!is_read(token, other_key), "{algorithm} with a key of {other_algorithm}");
            }
            let mut named = key.clone();
            named["alg"] = "ES512".into();
            assert!(!is_read(token, &named), "{algorithm} with a key for another");
            let (message, signature) = token.rsplit_once('.').unwrap();
            let (header, claims) = message.split_once('.').unwrap();
            let longer = URL_SAFE_NO_PAD.encode([&URL_SAFE_NO_PAD.decode(claims).unwrap()[..], b" "].concat());
            assert!(!is_read(&format!("{header}.{longer}.{signature}"), key), "{algorithm} of other claims");
            assert!(!is_read(&format!("{message}."), key), "{algorithm} without a signature");
        }
    }

    #[test]
    fn a_modulus_may_have_zeros_before_it_and_must_be_long() {
        let (_, mut key, token) = signed_examples().swap_remove(0);
        let modulus = URL_SAFE_NO_PAD.decode(key["n"].as_str().unwrap()).unwrap();
        key["n"] = URL_SAFE_NO_PAD.encode([&[0], &modulus[..]].concat()).into();
        let padded = SigningKey::from_json(&key).unwrap();
        assert!(read(&token).and_then(|read| read.verify(&[padded], &EXPECTED)).is_ok());
        key["n"] = URL_SAFE_NO_PAD.encode(&modulus[1..]).into();
        assert!(SigningKey::from_json(&key).is_none());
    }
}
