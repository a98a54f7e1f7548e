//! The state of a sign-in between its start and the callback (`docs/reference/single-sign-on.md`). The browser stores it as a
//! sealed cookie, so that an attacker cannot fill the database by starting sign-ins. The callback needs both the cookie and the
//! `state` that the provider returns. The database stores each used state until its expiry, so that it works once.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderName, HeaderValue, header};
use kit::cookies;
use kit::ids::{SessionId, SingleSignOnId, UserId};
use kit::request::Request;
use kit::secret::Context;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use store::{Conn, Sql, StoreError};
use subtle::ConstantTimeEq;
use web::clock::{random_token, sha256_hex};

/// The purposes for which cookies are sealed. A process of a former version cannot open the cookie of a trial, so it does not
/// accept it as a sign-in.
const SIGN_IN: &str = "transaction";
const TRIAL: &str = "trial";
/// The maximum time that a person may spend at the provider, in seconds.
const MAX_SECONDS: i64 = 600;

/// The user and the session to which an identity will be linked.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Linking {
    pub user: UserId,
    pub session: SessionId,
}

/// The options of a session of a browser.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct BrowserSessionOptions {
    /// Is true if the browser retains the session when it is closed.
    pub is_kept: bool,
}

/// The start of a sign-in on a page, which continues afterwards.
pub struct SignInStart<'a> {
    /// The path to which the sign-in redirects.
    pub return_to: &'a str,
    /// See [`SignInTransaction::way_back`].
    pub way_back: &'a str,
    pub browser: Option<BrowserSessionOptions>,
}

/// The user and the session that test a configuration.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Tester {
    pub user: UserId,
    pub session: SessionId,
}

/// A sign-in between its start and the callback.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SignInTransaction {
    pub single_sign_on: SingleSignOnId,
    pub state: String,
    pub nonce: String,
    pub verifier: String,
    pub expires_at: i64,
    /// Is set if a signed-in user links an identity.
    pub linking: Option<Linking>,
    /// Is set if a configuration is only tested, so that no user is signed in.
    #[serde(default)]
    pub trial: Option<Tester>,
    /// Is true if the sign-in began on the build's own page, so that the callback answers with a page.
    pub from_page: bool,
    /// The path to which the page redirects after the sign-in. Cookies of a former version do not contain it.
    #[serde(default)]
    pub return_to: String,
    /// The name of the page's return target; empty for the page of the build itself.
    #[serde(default)]
    pub way_back: String,
    /// Is set if a session of a browser will begin.
    #[serde(default)]
    pub browser: Option<BrowserSessionOptions>,
    /// The session of the browser when the sign-in began. It ends when the new session begins. Browsers do not send its cookie to
    /// the callback, since another site redirects to it.
    #[serde(default)]
    pub former: Option<SessionId>,
}

impl SignInTransaction {
    /// Creates a transaction. `page` is set if it begins on a page.
    pub fn begin(
        single_sign_on: SingleSignOnId,
        linking: Option<Linking>,
        page: Option<SignInStart>,
        now: i64,
    ) -> SignInTransaction {
        let [state, nonce, verifier] = [(); 3].map(|()| random_token());
        let expires_at = now + MAX_SECONDS * 1_000_000;
        let from_page = page.is_some();
        let SignInStart { return_to, way_back, browser } =
            page.unwrap_or(SignInStart { return_to: "", way_back: "", browser: None });
        let (return_to, way_back) = (return_to.to_owned(), way_back.to_owned());
        SignInTransaction {
            single_sign_on,
            state,
            nonce,
            verifier,
            expires_at,
            linking,
            trial: None,
            from_page,
            return_to,
            way_back,
            browser,
            former: None,
        }
    }

    /// Returns the S256 challenge of the verifier (RFC 7636).
    pub fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier.as_bytes()))
    }

    /// Returns the cookie with this transaction. Browsers send it only to this host.
    pub fn cookie(&self, request: &Request, redirect_uri: &str) -> (HeaderName, HeaderValue) {
        let plain = serde_json::to_vec(self).unwrap_or_default();
        let column = if self.trial.is_some() { TRIAL } else { SIGN_IN };
        let sealed = request.app.keys.seal(&seal_context(request, column, &self.state), &plain);
        set_cookie(&self.state, &sealed, MAX_SECONDS, redirect_uri)
    }

    /// Returns the transaction in the browser's cookie for the state of a callback. Returns `None` if the cookie is missing,
    /// expired, or for another state or configuration.
    pub fn from_callback(request: &Request, state: &str) -> Option<SignInTransaction> {
        let is_secure = request.app.address_of(&request.build).starts_with("https://");
        let sealed = cookies::value(&request.headers, &cookie_name(state, is_secure))?;
        let open = |column| request.app.keys.open(&seal_context(request, column, state), sealed);
        let transaction: SignInTransaction = serde_json::from_slice(&open(SIGN_IN).or_else(|| open(TRIAL))?).ok()?;
        let is_same = bool::from(transaction.state.as_bytes().ct_eq(state.as_bytes()));
        (is_same
            && transaction.single_sign_on == request.id::<SingleSignOnId>()
            && transaction.expires_at > request.now)
            .then_some(transaction)
    }

    /// Returns the header that deletes the cookie.
    pub fn expired_cookie(state: &str, redirect_uri: &str) -> (HeaderName, HeaderValue) {
        set_cookie(state, "", 0, redirect_uri)
    }

    /// Marks the state as used. Returns false if it was used before.
    pub fn spend(&self, conn: &mut Conn, now: i64) -> Result<bool, StoreError> {
        spend(conn, &self.state, self.expires_at, now)
    }
}

/// Marks a value that may be used once as used, until its expiry. Returns false if it was used before.
pub fn spend(conn: &mut Conn, text: &str, expires_at: i64, now: i64) -> Result<bool, StoreError> {
    conn.exec(&Sql::new("DELETE FROM single_sign_on_spent WHERE expires_at <= $1").arg(now))?;
    let sql = Sql::new("INSERT INTO single_sign_on_spent(hash, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING");
    Ok(conn.exec(&sql.arg(sha256_hex(text)).arg(expires_at))? == 1)
}

fn seal_context<'a>(request: &'a Request, column: &'static str, state: &'a str) -> Context<'a> {
    Context { build: &request.build.uid, table: "single_sign_on", column, row: state }
}

/// Returns the name of the cookie. Each sign-in has a cookie of its own, so that two tabs do not interfere. Over TLS browsers
/// accept a cookie of this name only from the build's own host. Otherwise the owner of a neighbouring host could make another
/// person finish the owner's sign-in.
fn cookie_name(state: &str, is_secure: bool) -> String {
    let prefix = if is_secure { "__Host-" } else { "" };
    format!("{prefix}chancery_sso_{}", &sha256_hex(state)[..16])
}

fn set_cookie(state: &str, value: &str, seconds: i64, redirect_uri: &str) -> (HeaderName, HeaderValue) {
    let (scheme, after_scheme) = redirect_uri.split_once("://").unwrap_or(("https", redirect_uri));
    let is_secure = scheme == "https";
    // The prefix requires this path.
    let path = if is_secure {
        "/"
    } else {
        after_scheme.find('/').map_or("/", |at| &after_scheme[at..]).trim_end_matches('/')
    };
    let secure = if is_secure { "; Secure" } else { "" };
    let name = cookie_name(state, is_secure);
    let text = format!("{name}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    (header::SET_COOKIE, HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("")))
}
