//! The credential that a browser sends, as WebAuthn writes it in JSON. Binary members are base64url.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

/// The maximum length of a credential as JSON text, in bytes.
const MAX_TEXT: usize = 128 * 1024;
/// The maximum length of the id of a credential in base64url: 1023 bytes.
const MAX_ID: usize = 1364;

/// A credential whose signatures are not checked yet.
#[derive(Deserialize)]
pub struct SentCredential {
    pub id: String,
    #[serde(rename = "type")]
    kind: String,
    response: AuthenticatorResponse,
}

/// The answer of an authenticator to a creation or to a request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthenticatorResponse {
    #[serde(rename = "clientDataJSON")]
    client_data: String,
    attestation_object: Option<String>,
    authenticator_data: Option<String>,
    signature: Option<String>,
    user_handle: Option<String>,
}

/// Statements of the browser about the page that used the passkey.
#[derive(Deserialize)]
pub struct ClientData {
    #[serde(rename = "type")]
    pub kind: String,
    pub challenge: String,
    pub origin: String,
    #[serde(rename = "crossOrigin")]
    pub cross_origin: Option<bool>,
}

fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()
}

impl SentCredential {
    /// Reads a credential; `None` if it is not one.
    pub fn parse(text: &str) -> Option<SentCredential> {
        if text.len() > MAX_TEXT {
            return None;
        }
        let credential: SentCredential = serde_json::from_str(text).ok()?;
        let is_id = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let has_id = !credential.id.is_empty() && credential.id.len() <= MAX_ID && credential.id.bytes().all(is_id);
        (has_id && credential.kind == "public-key").then_some(credential)
    }

    pub fn client_data_bytes(&self) -> Option<Vec<u8>> {
        decode(&self.response.client_data)
    }

    pub fn client_data(&self) -> Option<ClientData> {
        serde_json::from_slice(&self.client_data_bytes()?).ok()
    }

    pub fn attestation_object(&self) -> Option<Vec<u8>> {
        decode(self.response.attestation_object.as_deref()?)
    }

    pub fn authenticator_data(&self) -> Option<Vec<u8>> {
        decode(self.response.authenticator_data.as_deref()?)
    }

    pub fn signature(&self) -> Option<Vec<u8>> {
        decode(self.response.signature.as_deref()?)
    }

    /// The handle of the user, without padding.
    pub fn user_handle(&self) -> Option<&str> {
        self.response
            .user_handle
            .as_deref()
            .map(|handle| handle.trim_end_matches('='))
            .filter(|handle| !handle.is_empty())
    }
}
