//! The state between the first page of a sign-in and the consent: a sealed cookie, so that an anonymous request stores no data on
//! the server. It belongs to one request of an agent, and contains the token of the forms and the person who has signed in. A sign-in
//! begins no session of the main API.

use http::{HeaderName, HeaderValue, header};
use identity::single_sign_on::transaction::spend;
use kit::cookies;
use kit::ids::{SingleSignOnId, UserId};
use kit::request::Request;
use kit::secret::Context;
use serde::{Deserialize, Serialize};
use store::{Conn, StoreError};
use subtle::ConstantTimeEq;
use web::clock::{random_token, sha256_hex};

/// The validity of the cookie, in seconds. Each page begins it again.
const MAX_SECONDS: i64 = 600;

/// A person who has signed in.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct SignedIn {
    pub user: UserId,
    /// The id of the provider's configuration; `None`: by a password.
    pub single_sign_on: Option<SingleSignOnId>,
    /// The time of the sign-in, in microseconds since 1970.
    pub at: i64,
}

/// The content of the cookie.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConsentTransaction {
    /// The hash of the query of the agent's request.
    #[serde(rename = "asked")]
    query_hash: String,
    /// The token of the forms.
    pub token: String,
    expires_at: i64,
    pub signed_in: Option<SignedIn>,
}

impl ConsentTransaction {
    /// Begins a transaction for the query of an agent's request.
    pub fn begin(request: &Request, query: &str, signed_in: Option<SignedIn>) -> ConsentTransaction {
        let expires_at = request.now + MAX_SECONDS * 1_000_000;
        ConsentTransaction { query_hash: sha256_hex(query), token: random_token(), expires_at, signed_in }
    }

    /// Reads the transaction of the browser's cookie for the query of an agent's request.
    pub fn from_cookie(request: &Request, query: &str) -> Option<ConsentTransaction> {
        let query_hash = sha256_hex(query);
        let sealed = cookies::value(&request.headers, &cookie_name(&query_hash))?;
        let plain = request.app.keys.open(&seal_context(request, &query_hash), sealed)?;
        let transaction: ConsentTransaction = serde_json::from_slice(&plain).ok()?;
        (transaction.query_hash == query_hash && transaction.expires_at > request.now).then_some(transaction)
    }

    /// Reads the transaction of the browser's cookie. Returns `None`, too, if the form has another token.
    pub fn from_form(request: &Request, query: &str, token: &str) -> Option<ConsentTransaction> {
        ConsentTransaction::from_cookie(request, query)
            .filter(|transaction| bool::from(transaction.token.as_bytes().ct_eq(token.as_bytes())))
    }

    /// The header that sets the cookie. Browsers send it only to the pages of the sign-in.
    pub fn cookie(&self, request: &Request) -> (HeaderName, HeaderValue) {
        let plain = serde_json::to_vec(self).unwrap_or_default();
        set_cookie(
            request,
            &self.query_hash,
            &request.app.keys.seal(&seal_context(request, &self.query_hash), &plain),
            MAX_SECONDS,
        )
    }

    /// The header that deletes the cookie.
    pub fn expired_cookie(&self, request: &Request) -> (HeaderName, HeaderValue) {
        set_cookie(request, &self.query_hash, "", 0)
    }

    /// Marks the transaction as used. Returns false if it was used before.
    pub fn spend(&self, conn: &mut Conn, now: i64) -> Result<bool, StoreError> {
        spend(conn, &self.token, self.expires_at, now)
    }
}

fn seal_context<'a>(request: &'a Request, query_hash: &'a str) -> Context<'a> {
    Context { build: &request.build.uid, table: "agents", column: "transaction", row: query_hash }
}

/// The name of the cookie. Each request of an agent has its own cookie, so that two tabs are independent.
fn cookie_name(query_hash: &str) -> String {
    format!("chancery_agent_{}", &query_hash[..16])
}

fn set_cookie(request: &Request, query_hash: &str, value: &str, seconds: i64) -> (HeaderName, HeaderValue) {
    let address = request.app.address_of(&request.build);
    let (scheme, host_and_path) = address.split_once("://").unwrap_or(("https", &address));
    let path = host_and_path.find('/').map_or("", |at| &host_and_path[at..]).trim_end_matches('/');
    let secure = if scheme == "https" { "; Secure" } else { "" };
    let name = cookie_name(query_hash);
    let text = format!("{name}={value}; Path={path}/oauth; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    (header::SET_COOKIE, HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("")))
}
