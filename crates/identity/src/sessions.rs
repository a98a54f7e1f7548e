//! Sessions: each has an access token and a refresh token, which are replaced at each refresh. A refresh token that is
//! used twice ends its session (`docs/reference/sign-in.md`).

use crate::access_tokens::AccessTokens;
use crate::account::Account;
use crate::settings::Settings;
use crate::single_sign_on::configuration::is_enabled;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use resource::openapi::{object, titled};
use serde_json::{Value as Json, json};
use store::{Conn, Error, Sql};
use web::clock::{random_token, sha256_hex};

/// Begins a session, by password or by a single sign-on configuration, and returns its first tokens.
pub fn begin(request: &Request, conn: &mut Conn, user: i64, single_sign_on: Option<i64>) -> Result<Json, Error> {
    let now = request.now;
    let expires_at = now + request.app.slot::<Settings>().refresh_token_seconds * 1_000_000;
    let sql = Sql::new(
        "INSERT INTO sessions(user_id, created_at, last_used_at, expires_at, ip, user_agent, single_sign_on_id) VALUES ($1, $2, $2, $3, $4, $5, $6) RETURNING id",
    );
    let sql = sql.arg(user).arg(now).arg(expires_at).arg(request.address.to_string()).arg(request.user_agent());
    let sql = sql.arg(single_sign_on);
    let session = conn.one(&sql, |row| row.int(0))?;
    issue_tokens(request, conn, user, session, expires_at)
}

/// Issues a new pair of tokens for a session.
fn issue_tokens(request: &Request, conn: &mut Conn, user: i64, session: i64, expires_at: i64) -> Result<Json, Error> {
    let refresh_token = random_token();
    let sql = Sql::new("INSERT INTO refresh_tokens(hash, session_id, expires_at) VALUES ($1, $2, $3)");
    conn.exec(&sql.arg(sha256_hex(&refresh_token)).arg(session).arg(expires_at))?;
    let seconds = request.app.slot::<Settings>().access_token_seconds;
    let access_token =
        request.app.slot::<AccessTokens>().issue(&request.build.uid, user, session, request.now, seconds);
    Ok(json!({"access_token": access_token, "refresh_token": refresh_token, "expires_in": seconds}))
}

/// The outcome of redeeming a refresh token.
pub enum Redeemed {
    /// New tokens.
    Tokens(Json),
    /// The token is unknown or expired, or its account may not sign in any more.
    Refused,
    /// The token was used before, or its session could not begin any more in the way it began. The session has ended.
    Ended,
}

/// Redeems a refresh token, which works once.
pub fn redeem(request: &Request, conn: &mut Conn, token: &str) -> Result<Redeemed, Refusal> {
    let (now, hash) = (request.now, sha256_hex(token));
    let sql = Sql::new(
        "SELECT r.session_id, r.used_at, s.user_id, s.single_sign_on_id FROM refresh_tokens r JOIN sessions s ON s.id = r.session_id \
         WHERE r.hash = $1 AND r.expires_at > $2 AND s.ended_at IS NULL",
    );
    let found = conn.opt(&sql.arg(&hash).arg(now), |row| {
        Ok((row.int(0)?, row.opt_int(1)?.is_some(), row.int(2)?, row.opt_int(3)?))
    })?;
    let Some((session, mut is_used, user, single_sign_on)) = found else { return Ok(Redeemed::Refused) };
    // Every transaction locks a session before its tokens, so that no two deadlock.
    let lock = Sql::new("SELECT 1 FROM sessions WHERE id = $1 AND ended_at IS NULL FOR NO KEY UPDATE").arg(session);
    if conn.opt(&lock, |_| Ok(()))?.is_none() {
        return Ok(Redeemed::Refused);
    }
    if !is_used {
        let sql =
            Sql::new("UPDATE refresh_tokens SET used_at = $1 WHERE hash = $2 AND used_at IS NULL").arg(now).arg(&hash);
        is_used = conn.exec(&sql)? == 0;
    }
    let account = Account::by_id(conn, user)?.filter(|account| account.is_active && account.may_call_from(request));
    match account {
        _ if is_used => return end_misused(request, conn, session),
        None => return Ok(Redeemed::Refused),
        Some(account) if !could_begin(conn, &account, single_sign_on)? => return end_misused(request, conn, session),
        Some(_) => {}
    }
    let expires_at = now + request.app.slot::<Settings>().refresh_token_seconds * 1_000_000;
    let sql =
        Sql::new("UPDATE sessions SET last_used_at = $1, expires_at = $2, ip = $3, user_agent = $4 WHERE id = $5");
    conn.exec(&sql.arg(now).arg(expires_at).arg(request.address.to_string()).arg(request.user_agent()).arg(session))?;
    conn.exec(
        &Sql::new("DELETE FROM refresh_tokens WHERE session_id = $1 AND expires_at <= $2").arg(session).arg(now),
    )?;
    Ok(Redeemed::Tokens(issue_tokens(request, conn, user, session, expires_at)?))
}

fn end_misused(request: &Request, conn: &mut Conn, session: i64) -> Result<Redeemed, Refusal> {
    end(conn, session, request.now)?;
    rights::changed(request, conn)?;
    Ok(Redeemed::Ended)
}

/// Whether a session could still begin in the way it began.
fn could_begin(conn: &mut Conn, account: &Account, single_sign_on: Option<i64>) -> Result<bool, Error> {
    match single_sign_on {
        None => Ok(account.may_use_password()),
        Some(id) => Ok(account.may_use_single_sign_on() && is_enabled(conn, id)?),
    }
}

/// The session of a refresh token, whether the token was used or not.
pub fn of_refresh_token(conn: &mut Conn, token: &str, now: i64) -> Result<Option<i64>, Error> {
    let sql = Sql::new(
        "SELECT r.session_id FROM refresh_tokens r JOIN sessions s ON s.id = r.session_id \
         WHERE r.hash = $1 AND r.expires_at > $2 AND s.ended_at IS NULL",
    );
    conn.opt(&sql.arg(sha256_hex(token)).arg(now), |row| row.int(0))
}

/// Ends a session; false when it has ended before.
pub fn end(conn: &mut Conn, session: i64, now: i64) -> Result<bool, Error> {
    let ended = conn.exec(
        &Sql::new("UPDATE sessions SET ended_at = $1 WHERE id = $2 AND ended_at IS NULL").arg(now).arg(session),
    )? == 1;
    conn.exec(&Sql::new("DELETE FROM refresh_tokens WHERE session_id = $1").arg(session))?;
    Ok(ended)
}

/// Ends every session of a user except `but`.
pub fn end_all(conn: &mut Conn, user: i64, now: i64, but: Option<i64>) -> Result<(), Error> {
    let but = but.unwrap_or(0);
    let sql = Sql::new("UPDATE sessions SET ended_at = $1 WHERE user_id = $2 AND ended_at IS NULL AND id <> $3");
    conn.exec(&sql.arg(now).arg(user).arg(but))?;
    let sql = Sql::new(
        "DELETE FROM refresh_tokens WHERE session_id IN (SELECT s.id FROM sessions s WHERE s.user_id = $1 AND s.id <> $2)",
    );
    conn.exec(&sql.arg(user).arg(but)).map(|_| ())
}

/// The schema of an answer with tokens, for OpenAPI.
pub fn tokens_schema() -> Json {
    let lifetime = json!({"type": "integer", "description": "Seconds until the access token ends"});
    let fields = [
        ("access_token", json!({"type": "string"})),
        ("refresh_token", json!({"type": "string"})),
        ("expires_in", lifetime),
    ];
    titled("Tokens", object(fields))
}
