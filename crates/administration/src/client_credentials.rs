//! Requests access tokens by the client-credentials grant (RFC 6749, section 4.4), at an address that a tenant chose.

use crate::mail::smtp::Reason;
use http::header::{ACCEPT, CONTENT_TYPE};
use kit::address::Ranges;
use kit::outbound;
use reqwest::Url;
use serde_json::Value as Json;

/// The table of authentication objects, to which the encryption of their secrets is bound.
pub const TABLE: &str = "authentication_objects";
/// The column that holds the encrypted secrets.
pub const SECRET_COLUMN: &str = "client_secret";
/// The column of the random row key to which the encryption of a secret is bound.
pub const ROW_KEY_COLUMN: &str = "row_key";
/// The provider of the authentication objects that outbound mail can use.
pub const VENDOR: &str = "vendor_client_credentials";

/// The largest token answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// The parameters of a token request. The type has no `Debug`, so no log shows the secret.
#[derive(Clone)]
pub struct ClientCredentials {
    /// The address of the token endpoint.
    pub token_url: String,
    /// The client that asks.
    pub client_id: String,
    /// The secret of the client.
    pub client_secret: String,
    /// The requested scope; not sent when empty.
    pub scope: String,
}

/// Requests an access token.
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
    let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let request = client.post(url).header(ACCEPT, "application/json");
    let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form);
    let response = request.send().await.map_err(|error| outbound::reason(&error))?;
    if !response.status().is_success() {
        return Err(Reason::SignIn);
    }
    let body = outbound::body(response, MAX_ANSWER_BYTES).await.ok_or(Reason::SignIn)?;
    let answer: Json = serde_json::from_slice(&body).map_err(|_| Reason::SignIn)?;
    let token = answer["access_token"].as_str().filter(|token| is_token(token));
    token.map(str::to_owned).ok_or(Reason::SignIn)
}

/// Whether a text may follow `Bearer` (RFC 6750): visible ASCII characters.
fn is_token(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())
}
