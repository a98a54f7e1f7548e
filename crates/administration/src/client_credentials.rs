//! Access tokens by the client-credentials grant (RFC 6749, section 4.4), from an address that a tenant named.

use crate::mail::smtp::Reason;
use http::header::{ACCEPT, CONTENT_TYPE};
use kit::address::Ranges;
use kit::outbound;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;
use serde_json::Value as Json;

/// The table of authentication objects, and the place that their secrets are bound to.
pub const TABLE: &str = "authentication_objects";
/// The column of the secrets.
pub const SECRET_COLUMN: &str = "client_secret";
/// The column of the random key that a secret is bound to.
pub const ROW_KEY_COLUMN: &str = "row_key";
/// The provider whose objects outbound mail uses.
pub const VENDOR: &str = "vendor_client_credentials";

/// The largest answer that is read, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// What a token is asked for with. Shows nothing of its secret.
#[derive(Clone)]
pub struct ClientCredentials {
    /// Where.
    pub token_url: String,
    /// By whom.
    pub client_id: String,
    /// With what.
    pub client_secret: String,
    /// For what; not sent when empty.
    pub scope: String,
}

/// Asks for a token.
pub async fn token(credentials: &ClientCredentials, allow: &Ranges) -> Result<String, Reason> {
    let url = Url::parse(&credentials.token_url).map_err(|_| Reason::Connect)?;
    let client = outbound::http_client_for(&url, allow).await?;
    let mut fields = vec![
        ("grant_type", "client_credentials"),
        ("client_id", &credentials.client_id),
        ("client_secret", &credentials.client_secret),
    ];
    if !credentials.scope.is_empty() {
        fields.push(("scope", &credentials.scope));
    }
    let form: Vec<String> =
        fields.iter().map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC))).collect();
    let request = client.post(url).header(ACCEPT, "application/json");
    let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form.join("&"));
    let response = request.send().await.map_err(|error| outbound::reason(&error))?;
    if !response.status().is_success() {
        return Err(Reason::SignIn);
    }
    let body = outbound::body(response, MAX_BYTES).await.ok_or(Reason::SignIn)?;
    let answer: Json = serde_json::from_slice(&body).map_err(|_| Reason::SignIn)?;
    let token = answer["access_token"].as_str().filter(|token| is_token(token));
    token.map(str::to_owned).ok_or(Reason::SignIn)
}

/// What may stand behind `Bearer` (RFC 6750): visible ASCII.
fn is_token(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())
}
