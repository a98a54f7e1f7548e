//! `login/`, `refresh/`, `logout/`. Whatever is wrong with a login, the answer is the same 401 after the same work: a
//! look, a hash, a write.

use crate::account::{Account, sign_in_refused};
use crate::attempts::Attempt;
use crate::attempts::{self, check_address, count_address};
use crate::hasher::{Hasher, Turn};
use crate::passwords;
use crate::sessions::{self, Redeemed};
use crate::single_sign_on::logout;
use crate::system_events::{self, Event};
use kit::answer::{Answer, Outcome};
use kit::commit::{Kept, write};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::route::{Handler, Pending, Route, Schema};
use serde_json::json;
use std::sync::Arc;
use store::{Conn, Sql};

/// The routes of signing in and out.
pub fn routes() -> Vec<Route> {
    vec![
        Route::post("/api/auth/login/", "Sign in with a password", Handler::Async(login))
            .public()
            .guarded(attempts::guard)
            .takes(Schema::Json(|| json!({"type": "object", "required": ["username", "password"], "properties": {"username": {"type": "string"}, "password": {"type": "string"}}})))
            .answers(200, Schema::Json(sessions::pair_schema)),
        Route::post("/api/auth/refresh/", "Exchange a refresh token for a new pair", Handler::Write(refresh))
            .public()
            .takes(Schema::Json(token_body))
            .answers(200, Schema::Json(sessions::pair_schema)),
        Route::post("/api/auth/logout/", "End the session of a refresh token", Handler::Write(logout))
            .public()
            .takes(Schema::Json(logout_body))
            .answers(204, Schema::Nothing)
            .or(200, Schema::Json(|| json!({"type": "object", "required": ["logout_url"], "properties": {"logout_url": {"type": "string"}}}))),
    ]
}

fn token_body() -> serde_json::Value {
    json!({"type": "object", "required": ["refresh_token"], "properties": {"refresh_token": {"type": "string"}}})
}

fn logout_body() -> serde_json::Value {
    let mut body = token_body();
    body["properties"]["single_sign_on"] = json!({"type": "boolean"});
    body
}

fn login(request: Arc<Request>) -> Pending {
    Box::pin(async move {
        let [username, password] = request.texts(["username", "password"])?;
        let tokens = sign_in(&request, username, password).await?;
        Ok(Answer::value(&tokens))
    })
}

/// Signs in with a password: the token pair, or the refusal.
pub async fn sign_in(request: &Arc<Request>, username: String, password: String) -> Result<serde_json::Value, Refusal> {
    let mut attempt = Attempt::begin(request)?;
    let (shared, name) = (request.clone(), username.clone());
    let hash = request
        .build
        .db
        .read(move |conn| {
            check_address(&shared, conn)?;
            Ok::<_, Refusal>(Account::named(conn, &name)?.and_then(|account| account.hash))
        })
        .await?;
    attempt.check()?;
    let checked = hash.clone();
    let is_right = request.app.slot::<Hasher>().verify(&Turn::of(request), passwords::cut(&password), hash).await?;
    attempt.tried();
    let decided =
        write(request, move |request, conn| decide_login(request, conn, &username, checked.as_deref(), is_right)).await;
    let is_signed_in = matches!(decided, Ok(Kept::Done(_)));
    // A right password that the store could not take counts for nobody either.
    if is_signed_in || is_right && decided.as_ref().is_err_and(|refusal| !refusal.is_by_rule()) {
        attempt.succeeded();
    }
    decided?.told()
}

/// Decides about a password that was checked, on the account as it is now: what parallel guesses have done to it
/// meanwhile counts, so that a right guess behind the last allowed one is no way in.
fn decide_login(
    request: &Request,
    conn: &mut Conn,
    username: &str,
    checked: Option<&str>,
    is_right: bool,
) -> Result<Kept<serde_json::Value>, Refusal> {
    check_address(request, conn)?;
    let account = Account::named_for_change(conn, username)?;
    let open = account
        .as_ref()
        .filter(|account| is_right && account.is_open_to_passwords(request) && account.hash.as_deref() == checked);
    if let Some(account) = open {
        let sql = Sql::new(
            "UPDATE users SET last_login = $1, failed_attempts = 0, failed_since = NULL, locked_until = NULL WHERE id = $2",
        );
        conn.exec(&sql.arg(request.now).arg(account.id))?;
        system_events::note(request, conn, Event::LoginSuccess, Some(account.id), Some("password"))?;
        return Ok(Kept::Done(sessions::begin(request, conn, account.id, None)?));
    }
    let (event, reason) = failure(request, account.as_ref(), is_right);
    system_events::note(request, conn, event, account.as_ref().map(|account| account.id), Some(reason))?;
    if let Some(account) = account.filter(|_| !is_right) {
        account.failed(request, conn)?;
    }
    count_address(request, conn)?;
    Ok(Kept::Refused(sign_in_refused()))
}

/// What the one answer does not tell.
fn failure(request: &Request, account: Option<&Account>, is_right: bool) -> (Event, &'static str) {
    match account {
        None => (Event::LoginFailed, "unknown_account"),
        Some(account) if !account.is_active => (Event::LoginFailedInactiveAccount, "password"),
        Some(account) if !account.may_use_password() => (Event::LoginFailedInvalidAuthMethod, "password"),
        Some(account) if account.is_locked(request.now) => (Event::LoginFailed, "locked"),
        Some(account) if is_right && !account.may_call_from(request) => (Event::LoginFailed, "address_not_allowed"),
        Some(_) => (Event::LoginFailed, "wrong_password"),
    }
}

fn refresh(request: &Request, conn: &mut Conn) -> Outcome {
    let [token] = request.texts(["refresh_token"])?;
    match sessions::redeem(request, conn, &token)? {
        Redeemed::Pair(pair) => Ok(Answer::value(&pair)),
        Redeemed::Refused => Err(Refusal::bad_token()),
        // Not an Err, which would undo the end of the session.
        Redeemed::Ended => Ok(Answer::refusal(&Refusal::bad_token())),
    }
}

fn logout(request: &Request, conn: &mut Conn) -> Outcome {
    let [token] = request.texts(["refresh_token"])?;
    let everywhere = logout::wants_single_sign_on(request)?;
    if let Some((session, _)) = sessions::of_token(conn, &token, request.now)? {
        if everywhere && let Some(logout_url) = logout::logout_url(request, conn, session)? {
            return Ok(Answer::value(&json!({"logout_url": logout_url})));
        }
        sessions::end(conn, session, request.now)?;
        rights::changed(request, conn)?;
    }
    Ok(Answer::empty())
}
