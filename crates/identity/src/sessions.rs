//! Sessions: a pair of tokens, rotated at each refresh; a refresh token that comes back ends its session (document 4,
//! section 3).

use crate::access_tokens::AccessTokens;
use crate::account::Account;
use crate::settings::Settings;
use crate::single_sign_on::configuration::is_enabled;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use serde_json::{Value as Json, json};
use store::{Conn, Error, Sql};
use web::clock::{random_token, sha256_hex};

/// Begins a session, with a password or a single sign-on configuration, and gives its first pair.
pub fn begin(request: &Request, conn: &mut Conn, user: i64, single_sign_on: Option<i64>) -> Result<Json, Error> {
    let now = request.now;
    let expires_at = now + request.app.slot::<Settings>().refresh_token_seconds * 1_000_000;
    let sql = Sql::new(
        "INSERT INTO sessions(user_id, created_at, last_used_at, expires_at, ip, user_agent, single_sign_on_id) VALUES ($1, $2, $2, $3, $4, $5, $6) RETURNING id",
    );
    let sql = sql.arg(user).arg(now).arg(expires_at).arg(request.address.to_string()).arg(request.user_agent());
    let sql = sql.arg(single_sign_on);
    let session = conn.one(&sql, |row| row.int(0))?;
    pair(request, conn, user, session, expires_at)
}

/// A new pair for a session.
fn pair(request: &Request, conn: &mut Conn, user: i64, session: i64, expires_at: i64) -> Result<Json, Error> {
    let refresh_token = random_token();
    let sql = Sql::new("INSERT INTO refresh_tokens(hash, session_id, expires_at) VALUES ($1, $2, $3)");
    conn.exec(&sql.arg(sha256_hex(&refresh_token)).arg(session).arg(expires_at))?;
    let seconds = request.app.slot::<Settings>().access_token_seconds;
    let access_token =
        request.app.slot::<AccessTokens>().issue(&request.build.uid, user, session, request.now, seconds);
    Ok(json!({"access_token": access_token, "refresh_token": refresh_token, "expires_in": seconds}))
}

/// What a refresh token is found to be.
pub enum Redeemed {
    /// A new pair.
    Pair(Json),
    /// Unknown, expired, or of an account that may no longer sign in.
    Refused,
    /// Used before, or of a session that could not begin any more as it began: it is over now.
    Ended,
}

/// Redeems a refresh token, once.
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
    // The session before its tokens, as everywhere, so that nobody waits in a circle.
    let lock = Sql::new("SELECT 1 FROM sessions WHERE id = $1 AND ended_at IS NULL FOR NO KEY UPDATE").arg(session);
    if conn.opt(&lock, |_| Ok(()))?.is_none() {
        return Ok(Redeemed::Refused);
    }
    if !is_used {
        let sql =
            Sql::new("UPDATE refresh_tokens SET used_at = $1 WHERE hash = $2 AND used_at IS NULL").arg(now).arg(&hash);
        is_used = conn.exec(&sql)? == 0;
    }
    let account = Account::of(conn, user)?.filter(|account| account.is_active && account.may_call_from(request));
    match account {
        _ if is_used => return over(request, conn, session),
        None => return Ok(Redeemed::Refused),
        Some(account) if !is_open(conn, &account, single_sign_on)? => return over(request, conn, session),
        Some(_) => {}
    }
    let expires_at = now + request.app.slot::<Settings>().refresh_token_seconds * 1_000_000;
    let sql =
        Sql::new("UPDATE sessions SET last_used_at = $1, expires_at = $2, ip = $3, user_agent = $4 WHERE id = $5");
    conn.exec(&sql.arg(now).arg(expires_at).arg(request.address.to_string()).arg(request.user_agent()).arg(session))?;
    conn.exec(
        &Sql::new("DELETE FROM refresh_tokens WHERE session_id = $1 AND expires_at <= $2").arg(session).arg(now),
    )?;
    Ok(Redeemed::Pair(pair(request, conn, user, session, expires_at)?))
}

fn over(request: &Request, conn: &mut Conn, session: i64) -> Result<Redeemed, Refusal> {
    end(conn, session, request.now)?;
    rights::changed(request, conn)?;
    Ok(Redeemed::Ended)
}

/// Whether a session could still begin in the way in which it began (document 4, section 7, "refresh").
fn is_open(conn: &mut Conn, account: &Account, single_sign_on: Option<i64>) -> Result<bool, Error> {
    match single_sign_on {
        None => Ok(account.may_use_password()),
        Some(id) => Ok(account.may_use_single_sign_on() && is_enabled(conn, id)?),
    }
}

/// The session of a refresh token, used or not.
pub fn of_token(conn: &mut Conn, token: &str, now: i64) -> Result<Option<(i64, bool)>, Error> {
    let sql = Sql::new(
        "SELECT r.session_id, r.used_at FROM refresh_tokens r JOIN sessions s ON s.id = r.session_id \
         WHERE r.hash = $1 AND r.expires_at > $2 AND s.ended_at IS NULL",
    );
    conn.opt(&sql.arg(sha256_hex(token)).arg(now), |row| Ok((row.int(0)?, row.opt_int(1)?.is_some())))
}

/// Ends a session.
pub fn end(conn: &mut Conn, session: i64, now: i64) -> Result<bool, Error> {
    let ended = conn.exec(
        &Sql::new("UPDATE sessions SET ended_at = $1 WHERE id = $2 AND ended_at IS NULL").arg(now).arg(session),
    )? == 1;
    conn.exec(&Sql::new("DELETE FROM refresh_tokens WHERE session_id = $1").arg(session))?;
    Ok(ended)
}

/// Ends every session of a user but the one given.
pub fn end_all(conn: &mut Conn, user: i64, now: i64, but: Option<i64>) -> Result<(), Error> {
    let but = but.unwrap_or(0);
    let sql = Sql::new("UPDATE sessions SET ended_at = $1 WHERE user_id = $2 AND ended_at IS NULL AND id <> $3");
    conn.exec(&sql.arg(now).arg(user).arg(but))?;
    let sql = Sql::new(
        "DELETE FROM refresh_tokens WHERE session_id IN (SELECT s.id FROM sessions s WHERE s.user_id = $1 AND s.id <> $2)",
    );
    conn.exec(&sql.arg(user).arg(but)).map(|_| ())
}

/// A pair of tokens, for OpenAPI.
pub fn pair_schema() -> Json {
    json!({"type": "object", "properties": {"access_token": {"type": "string"}, "refresh_token": {"type": "string"}, "expires_in": {"type": "integer"}}})
}
