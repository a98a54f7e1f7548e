//! What a browser keeps between the first page of a sign-in and the person's consent: a sealed cookie, so that a stranger's
//! request stores nothing here. It is bound to the agent's request, has the token of the forms, and says who has signed in.
//! No session of the main API begins.

use http::{HeaderName, HeaderValue, header};
use identity::single_sign_on::transaction::spend;
use kit::cookies;
use kit::request::Request;
use kit::secret::Context;
use serde::{Deserialize, Serialize};
use store::{Conn, StoreError};
use subtle::ConstantTimeEq;
use web::clock::{random_token, sha256_hex};

/// How long a person may take from one page to the next, in seconds.
const MAX_SECONDS: i64 = 600;

/// Who has signed in.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct SignedIn {
    pub user: i64,
    /// By which configuration; `None`: with a password.
    pub single_sign_on: Option<i64>,
    /// When, in microseconds since 1970.
    pub at: i64,
}

/// What the cookie holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConsentTransaction {
    /// The hash of the agent's request.
    asked: String,
    /// The token of the forms.
    pub token: String,
    expires_at: i64,
    pub signed_in: Option<SignedIn>,
}

impl ConsentTransaction {
    /// A new one for the query of an agent's request.
    pub fn begin(request: &Request, query: &str, signed_in: Option<SignedIn>) -> ConsentTransaction {
        let expires_at = request.now + MAX_SECONDS * 1_000_000;
        ConsentTransaction { asked: sha256_hex(query), token: random_token(), expires_at, signed_in }
    }

    /// The one that the browser kept for the query of an agent's request.
    pub fn from_cookie(request: &Request, query: &str) -> Option<ConsentTransaction> {
        let asked = sha256_hex(query);
        let sealed = cookies::value(&request.headers, &cookie_name(&asked))?;
        let plain = request.app.keys.open(&seal_context(request, &asked), sealed)?;
        let kept: ConsentTransaction = serde_json::from_slice(&plain).ok()?;
        (kept.asked == asked && kept.expires_at > request.now).then_some(kept)
    }

    /// The one that the browser kept, if a form has its token.
    pub fn from_form(request: &Request, query: &str, token: &str) -> Option<ConsentTransaction> {
        ConsentTransaction::from_cookie(request, query)
            .filter(|kept| bool::from(kept.token.as_bytes().ct_eq(token.as_bytes())))
    }

    /// The cookie with it, which browsers send to the pages of the sign-in only.
    pub fn cookie(&self, request: &Request) -> (HeaderName, HeaderValue) {
        let plain = serde_json::to_vec(self).unwrap_or_default();
        set_cookie(
            request,
            &self.asked,
            &request.app.keys.seal(&seal_context(request, &self.asked), &plain),
            MAX_SECONDS,
        )
    }

    /// The header that deletes the cookie.
    pub fn expired_cookie(&self, request: &Request) -> (HeaderName, HeaderValue) {
        set_cookie(request, &self.asked, "", 0)
    }

    /// Marks it as used; false when it was used before.
    pub fn spend(&self, conn: &mut Conn, now: i64) -> Result<bool, StoreError> {
        spend(conn, &self.token, self.expires_at, now)
    }
}

fn seal_context<'a>(request: &'a Request, asked: &'a str) -> Context<'a> {
    Context { build: &request.build.uid, table: "agents", column: "transaction", row: asked }
}

/// Each request of an agent has a cookie of its own, so that two tabs do not disturb each other.
fn cookie_name(asked: &str) -> String {
    format!("chancery_agent_{}", &asked[..16])
}

fn set_cookie(request: &Request, asked: &str, value: &str, seconds: i64) -> (HeaderName, HeaderValue) {
    let address = request.app.address_of(&request.build);
    let (scheme, rest) = address.split_once("://").unwrap_or(("https", &address));
    let path = rest.find('/').map_or("", |at| &rest[at..]).trim_end_matches('/');
    let secure = if scheme == "https" { "; Secure" } else { "" };
    let name = cookie_name(asked);
    let text = format!("{name}={value}; Path={path}/oauth; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    (header::SET_COOKIE, HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("")))
}
