//! Sessions of browsers (`docs/reference/browser-sessions.md`). A cookie that scripts cannot read outlives the page. It opens only
//! the two endpoints here; the first one exchanges it for access tokens. In all other respects a session of a browser works like
//! other sessions.

use crate::authenticate;
use crate::sessions::{self, SessionOrigin, SessionRenewal};
use crate::settings::IdentitySettings;
use crate::sign_in::login::{logged_out_schema, wants_provider_schema};
use crate::single_sign_on::logout;
use crate::users::{me, permissions_schema, view};
use http::{HeaderName, HeaderValue, header};
use kit::answer::{Answer, Outcome};
use kit::caller::CredentialClaims;
use kit::cookies;
use kit::domain::front_end;
use kit::ids::{SessionId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use resource::openapi::{object, titled};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use store::{Conn, Sql, StoreError};
use web::clock::{random_token, sha256_hex};

/// The name of the cookie. A browser accepts it only from this host, over TLS, and for all of its paths.
const COOKIE: &str = "__Host-chancery";
/// The name of the cookie if the build's address is plain http. Browsers would refuse the other name there.
const PLAIN_COOKIE: &str = "chancery";

pub fn routes() -> Vec<Route> {
    vec![
        Route::post("/api/auth/browser/token/", "Exchange the cookie for an access token", Handler::Write(exchange))
            .public()
            .from_own_pages_alone()
            .answers(200, Schema::Json(start_schema))
            .also_answers(401, Schema::Refusal)
            .answers_secret(),
        Route::post("/api/auth/browser/logout/", "End the session of the cookie", Handler::Write(logout))
            .public()
            .from_own_pages_alone()
            .with_body(Schema::Json(wants_provider_schema))
            .answers(204, Schema::Nothing)
            .also_answers(200, Schema::Json(logged_out_schema))
            .answers_secret(),
    ]
}

/// Returns the schema of the data that a front end needs to start.
fn start_schema() -> Json {
    let or_null = |schema: Json, text: &str| json!({"anyOf": [schema, {"type": "null"}], "description": text});
    let user = or_null(me::schema(), "As `/api/users/me/`; null while the password must be changed");
    let permissions =
        or_null(permissions_schema(), "As `/api/users/permissions/`; null while the password must be changed");
    let text = |text: &str| json!({"type": "string", "description": text});
    let names = json!({"type": "array", "items": {"type": "string"}});
    let ui_config = or_null(
        names,
        "The components that have a UI configuration; null while the password must be changed, or a second factor is lacking",
    );
    let fields = [
        ("access_token", json!({"type": "string"})),
        ("expires_in", json!({"type": "integer", "description": "Seconds until the access token ends"})),
        ("password_change_required", json!({"type": "boolean"})),
        ("second_factor_required", json!({"type": "boolean"})),
        ("user", user),
        ("permissions", permissions),
        ("ui_config", ui_config),
        ("build", text("The domain of the build")),
        ("version", text("That of the console's files; empty where the console is switched off")),
    ];
    titled("BrowserToken", object(fields))
}

/// The `Set-Cookie` header of an answer.
pub type Cookie = (HeaderName, HeaderValue);

/// Returns the name of the cookie, and whether the build's address is plain http.
fn name(request: &Request) -> (&'static str, bool) {
    let is_plain = request.app.address_of(&request.build).starts_with("http://");
    (if is_plain { PLAIN_COOKIE } else { COOKIE }, is_plain)
}

/// Returns the cookie with a value. It lasts for `seconds`, or until the browser is closed.
fn cookie(request: &Request, value: &str, seconds: Option<i64>) -> Cookie {
    let (name, is_plain) = name(request);
    let secure = if is_plain { "" } else { "; Secure" };
    let age = seconds.map_or_else(String::new, |seconds| format!("; Max-Age={seconds}"));
    let text = format!("{name}={value}; Path=/{age}; HttpOnly; SameSite=Strict{secure}");
    (header::SET_COOKIE, HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("")))
}

fn kept_for(request: &Request, is_kept: bool) -> Option<i64> {
    is_kept.then(|| request.app.slot::<IdentitySettings>().refresh_token_seconds)
}

/// Begins a session of a browser and returns its cookie, which is new at each sign-in. Ends the session of the browser's former
/// cookie, and `replaced` if it is a session of a browser. They could not be used any more. If `replaced` outlives the browser
/// (`is_kept`), so does the new session.
pub fn begin(
    request: &Request,
    conn: &mut Conn,
    user: UserId,
    way: SessionOrigin,
    is_kept: bool,
    replaced: Option<SessionId>,
) -> Result<Cookie, Refusal> {
    let replaced = match replaced {
        Some(session) => {
            let sql = Sql::new("SELECT is_kept FROM browser_sessions WHERE session_id = $1").arg(session);
            conn.query_optional(&sql, |row| row.flag(0))?.map(|is_kept| (session, is_kept))
        }
        None => None,
    };
    let former = find(request, conn)?.map(|session| (session.session, false));
    let is_kept = is_kept || replaced.is_some_and(|(_, is_kept)| is_kept);
    for (session, _) in former.into_iter().chain(replaced) {
        sessions::end_at_once(request, conn, session)?;
    }
    let (session, _) = sessions::insert(request, conn, user, way)?;
    let value = random_token();
    let sql = Sql::new("INSERT INTO browser_sessions(hash, session_id, is_kept) VALUES ($1, $2, $3)");
    conn.exec(&sql.arg(sha256_hex(&value)).arg(session).arg(is_kept))?;
    Ok(cookie(request, &value, kept_for(request, is_kept)))
}

/// An active session of a browser.
struct BrowserSession {
    session: SessionId,
    user: UserId,
    way: SessionOrigin,
    is_kept: bool,
}

/// Returns the active session of the request's cookie.
fn find(request: &Request, conn: &mut Conn) -> Result<Option<BrowserSession>, StoreError> {
    let Some(value) = cookies::value(&request.headers, name(request).0) else { return Ok(None) };
    let sql = Sql::new(
        "SELECT s.id, s.user_id, s.single_sign_on_id, s.task, b.is_kept FROM browser_sessions b \
         JOIN sessions s ON s.id = b.session_id WHERE b.hash = $1 AND s.ended_at IS NULL AND s.expires_at > $2",
    );
    conn.query_optional(&sql.arg(sha256_hex(value)).arg(request.now), |row| {
        let way = SessionOrigin::from_columns(row.opt_id(2)?, row.opt_id(3)?);
        Ok(BrowserSession { session: row.id(0)?, user: row.id(1)?, way, is_kept: row.flag(4)? })
    })
}

/// Returns the id of the active session of the request's cookie.
pub fn session(request: &Request, conn: &mut Conn) -> Result<Option<SessionId>, StoreError> {
    Ok(find(request, conn)?.map(|session| session.session))
}

/// The answer to the start of a front end, or the reason for its refusal.
enum BrowserStart {
    With(Answer),
    /// The session continues, but the account may not call from the request's address.
    Refused,
    Over,
}

fn exchange(request: &Request, conn: &mut Conn) -> Outcome {
    // An `Err` would roll back the end of a session that could not begin any more.
    let refused = || Answer::refusal(&Refusal::bad_token());
    Ok(match start(request, conn)? {
        BrowserStart::With(answer) => answer,
        BrowserStart::Refused => refused(),
        BrowserStart::Over => {
            let mut answer = refused();
            answer.headers.push(cookie(request, "", Some(0)));
            answer
        }
    })
}

/// Returns the data that a front end needs to start. The cookie does not change, since a second tab, or a page whose answer was
/// lost, sends it again.
fn start(request: &Request, conn: &mut Conn) -> Result<BrowserStart, Refusal> {
    let Some(browser_session) = find(request, conn)? else { return Ok(BrowserStart::Over) };
    if !sessions::lock(conn, browser_session.session)? {
        return Ok(BrowserStart::Over);
    }
    let expires_at =
        match sessions::renew(request, conn, browser_session.session, browser_session.user, browser_session.way)? {
            SessionRenewal::Until(expires_at) => expires_at,
            SessionRenewal::Refused => return Ok(BrowserStart::Refused),
            SessionRenewal::Ended => return Ok(BrowserStart::Over),
        };
    let claims = CredentialClaims::of_session(browser_session.user, browser_session.session, expires_at);
    let Some(caller) = authenticate::load(conn, claims, request.now)? else { return Ok(BrowserStart::Over) };
    let must_change_password = caller.must_change_password(request.now);
    let lacks_second_factor = caller.lacks_second_factor;
    let (mut user, mut permissions, mut ui_config) = (Json::Null, Json::Null, Json::Null);
    if !must_change_password {
        permissions = caller.permissions.to_json();
        if !lacks_second_factor {
            ui_config = ui_configurations(conn)?.into();
        }
        let instance = view::instance(&request.with_caller(Arc::new(caller)), conn, browser_session.user)?;
        user = serde_json::from_slice(&instance)
            .map_err(|error| StoreError::internal(format_args!("a user is no JSON: {error}")))?;
    }
    let (access_token, seconds) = sessions::issue_access_token(request, browser_session.user, browser_session.session);
    let mut answer = Answer::value(&json!({
        "access_token": access_token,
        "expires_in": seconds,
        "password_change_required": must_change_password,
        "second_factor_required": lacks_second_factor,
        "user": user,
        "permissions": permissions,
        "ui_config": ui_config,
        "build": request.build.domain,
        "version": front_end(&request.app).map_or("", |front_end| front_end.version),
    }));
    if browser_session.is_kept {
        let value = cookies::value(&request.headers, name(request).0).unwrap_or("");
        answer.headers.push(cookie(request, value, kept_for(request, true)));
    }
    Ok(BrowserStart::With(answer))
}

/// Returns the components with a UI configuration, so that a front end does not request the others.
fn ui_configurations(conn: &mut Conn) -> Result<Vec<String>, StoreError> {
    conn.query_all(&Sql::new("SELECT component FROM ui_configs ORDER BY component"), |row| Ok(row.text(0)?.to_owned()))
}

fn logout(request: &Request, conn: &mut Conn) -> Outcome {
    let with_provider = logout::wants_single_sign_on(request)?;
    let mut answer = Answer::empty();
    if let Some(BrowserSession { session, .. }) = find(request, conn)? {
        let logout_url = if with_provider { logout::logout_url(request, conn, session)? } else { None };
        match logout_url {
            // The session ends when the address is opened, but its cookie is invalid immediately.
            Some(logout_url) => {
                conn.exec(&Sql::new("DELETE FROM browser_sessions WHERE session_id = $1").arg(session))?;
                answer = Answer::value(&json!({"logout_url": logout_url}));
            }
            None => sessions::end_at_once(request, conn, session)?,
        }
    }
    answer.headers.push(cookie(request, "", Some(0)));
    Ok(answer)
}
