//! Signatures of webhooks (Standard Webhooks).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The prefix of a secret whose key is encoded in base64.
const PREFIX: &str = "whsec_";

/// Returns the header `webhook-signature` of a body that is sent at a time, in seconds since 1970.
pub fn sign(secret: &str, id: &str, timestamp: i64, body: &str) -> String {
    // HMAC accepts keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&key(secret)) else { return String::new() };
    for part in [id, ".", &timestamp.to_string(), ".", body] {
        mac.update(part.as_bytes());
    }
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// Returns the key of a secret: the decoded base64 behind `whsec_`, otherwise the secret's bytes.
fn key(secret: &str) -> Vec<u8> {
    let spelled = secret.strip_prefix(PREFIX).and_then(|rest| STANDARD.decode(rest).ok());
    spelled.unwrap_or_else(|| secret.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_a_key_in_base64_or_in_its_own_bytes() {
        assert_eq!(key("whsec_AAEC/w=="), [0, 1, 2, 255]);
        for own in ["sixteen letters!", "whsec_no base64", "whsec_AAEC/w", "WHSEC_AAEC/w=="] {
            assert_eq!(key(own), own.as_bytes());
        }
        // The same key in both forms.
        let spelled = format!("whsec_{}", STANDARD.encode("sixteen letters!"));
        let signature = sign(&spelled, "id", 1_700_000_000, "{}");
        assert_eq!(signature, sign("sixteen letters!", "id", 1_700_000_000, "{}"));
        for other_signature in [
            sign("another letters!", "id", 1_700_000_000, "{}"),
            sign("sixteen letters!", "ie", 1_700_000_000, "{}"),
            sign("sixteen letters!", "id", 1_700_000_001, "{}"),
            sign("sixteen letters!", "id", 1_700_000_000, "{ }"),
        ] {
            assert_ne!(signature, other_signature);
        }
    }
}
