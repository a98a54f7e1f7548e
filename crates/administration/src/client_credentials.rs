//! Requests access tokens by the client-credentials grant (RFC 6749, section 4.4), at an address that a build's settings name.

use crate::mail::smtp::Reason;
use http::header::{ACCEPT, CONTENT_TYPE};
use kit::address::Ranges;
use kit::app::App;
use kit::build::Build;
use kit::outbound;
use kit::secret::Context;
use reqwest::Url;
use serde_json::Value as Json;
use store::{Conn, Sql, StoreError};

/// The table of authentication objects. The encryption of their secrets is bound to it.
pub const TABLE: &str = "authentication_objects";
/// The column of the encrypted secrets.
pub const SECRET_COLUMN: &str = "client_secret";
/// The column of the random row key. The encryption of a secret is bound to it.
pub const ROW_KEY_COLUMN: &str = "row_key";
/// The provider of the authentication objects that outbound mail can use.
pub const VENDOR: &str = "vendor_client_credentials";

/// The maximum size of a token answer, in bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// The parameters of a token request. The type does not implement `Debug`, so logs cannot show the secret.
#[derive(Clone)]
pub struct ClientCredentials {
    /// The address of the token endpoint.
    pub token_url: String,
    /// The id of the client that requests the token.
    pub client_id: String,
    /// The secret of the client.
    pub client_secret: String,
    /// The requested scope. An empty scope is not sent.
    pub scope: String,
}

/// Loads the credentials of an authentication object. Returns `None` if the vendor's object does not exist or its secret cannot be
/// decrypted.
pub fn load(app: &App, build: &Build, conn: &mut Conn, object: i64) -> Result<Option<ClientCredentials>, StoreError> {
    let sql = Sql::new(
        "SELECT token_url, client_id, scope, row_key, client_secret FROM authentication_objects \
         WHERE id = $1 AND provider = $2 AND client_secret IS NOT NULL",
    );
    let row = conn.query_optional(&sql.arg(object).arg(VENDOR), |row| {
        let place = Context { build: &build.uid, table: TABLE, column: SECRET_COLUMN, row: row.text(3)? };
        let secret = app.keys.open(&place, row.text(4)?).and_then(|plain| String::from_utf8(plain).ok());
        let text = |at| row.text(at).map(str::to_owned);
        let (token_url, client_id, scope) = (text(0)?, text(1)?, text(2)?);
        Ok(secret.map(|client_secret| ClientCredentials { token_url, client_id, client_secret, scope }))
    })?;
    Ok(row.flatten())
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

/// Returns whether a text may follow `Bearer` (RFC 6750): visible ASCII characters.
fn is_token(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())
}
