//! Sessions: each has an access token and a refresh token, which are replaced at each refresh. The second use of a refresh token
//! ends its session (`docs/reference/sign-in.md`).

use crate::access_tokens::AccessTokens;
use crate::account::SignInAccount;
use crate::second_factors::challenges;
use crate::settings::IdentitySettings;
use crate::single_sign_on::configuration::is_enabled;
use crate::system_events::{self, AuthEvent};
use kit::commit;
use kit::ids::{PrincipalId, SessionId, SingleSignOnId, TaskId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use resource::openapi::{object, titled};
use serde_json::{Value as Json, json};
use store::{Conn, Sql, StoreError};
use web::clock::{random_token, sha256_hex};

/// The maximum number of sessions of a link.
const MAX_OF_LINK: i64 = 20;

/// The way in which a session begins.
#[derive(Clone, Copy, Debug)]
pub enum SessionOrigin {
    Password,
    /// By the single sign-on configuration with this id.
    SingleSignOn(SingleSignOnId),
    /// By the link to the task with this id, to which the session is narrowed.
    TaskLink(TaskId),
}

impl SessionOrigin {
    /// Returns the configuration or the task for the columns of `sessions`: `single_sign_on_id`, `task`.
    fn to_columns(self) -> (Option<SingleSignOnId>, Option<TaskId>) {
        match self {
            SessionOrigin::Password => (None, None),
            SessionOrigin::SingleSignOn(id) => (Some(id), None),
            SessionOrigin::TaskLink(task) => (None, Some(task)),
        }
    }

    /// Returns the origin for these columns of `sessions`.
    pub fn from_columns(single_sign_on: Option<SingleSignOnId>, task: Option<TaskId>) -> SessionOrigin {
        match (single_sign_on, task) {
            (_, Some(task)) => SessionOrigin::TaskLink(task),
            (Some(id), None) => SessionOrigin::SingleSignOn(id),
            (None, None) => SessionOrigin::Password,
        }
    }
}

/// The functions that the module of tasks registers for the links to tasks.
pub struct TaskLinks {
    /// Returns whether a user may still open a task by a link. The arguments are the user and the task.
    pub holds: fn(&mut Conn, UserId, TaskId) -> Result<bool, StoreError>,
    /// Ends the mailed links of a user.
    pub delete_tokens: fn(&mut Conn, UserId) -> Result<(), StoreError>,
}

impl Default for TaskLinks {
    /// Returns the functions of an API without tasks, in which links do not exist.
    fn default() -> TaskLinks {
        TaskLinks { holds: |_, _, _| Ok(false), delete_tokens: |_, _| Ok(()) }
    }
}

/// Begins a session and returns its first tokens.
pub fn begin(request: &Request, conn: &mut Conn, user: UserId, way: SessionOrigin) -> Result<Json, StoreError> {
    let (session, expires_at) = insert(request, conn, user, way)?;
    issue_tokens(request, conn, user, session, expires_at)
}

/// Begins a session without a refresh token. Returns its id and its expiry in microseconds.
pub fn insert(
    request: &Request,
    conn: &mut Conn,
    user: UserId,
    way: SessionOrigin,
) -> Result<(SessionId, i64), StoreError> {
    let now = request.now;
    let expires_at = now + request.app.slot::<IdentitySettings>().refresh_token_seconds * 1_000_000;
    let sql = Sql::new(
        "INSERT INTO sessions(user_id, created_at, last_used_at, expires_at, ip, user_agent, single_sign_on_id, task) \
         VALUES ($1, $2, $2, $3, $4, $5, $6, $7) RETURNING id",
    );
    let sql = sql.arg(user).arg(now).arg(expires_at).arg(request.address.to_string()).arg(request.user_agent());
    let (single_sign_on, task) = way.to_columns();
    let sql = sql.arg(single_sign_on).arg(task);
    Ok((conn.query_one(&sql, |row| row.id(0))?, expires_at))
}

/// Issues a new pair of tokens for a session.
fn issue_tokens(
    request: &Request,
    conn: &mut Conn,
    user: UserId,
    session: SessionId,
    expires_at: i64,
) -> Result<Json, StoreError> {
    let refresh_token = random_token();
    let sql = Sql::new("INSERT INTO refresh_tokens(hash, session_id, expires_at) VALUES ($1, $2, $3)");
    conn.exec(&sql.arg(sha256_hex(&refresh_token)).arg(session).arg(expires_at))?;
    let (access_token, seconds) = issue_access_token(request, user, session);
    Ok(json!({"access_token": access_token, "refresh_token": refresh_token, "expires_in": seconds}))
}

/// Issues an access token for a session. Returns it with its lifetime in seconds.
pub fn issue_access_token(request: &Request, user: UserId, session: SessionId) -> (String, i64) {
    let seconds = request.app.slot::<IdentitySettings>().access_token_seconds;
    let tokens = request.app.slot::<AccessTokens>();
    (tokens.issue(&request.build.uid, user, session, request.now, seconds), seconds)
}

/// The outcome of redeeming a refresh token.
pub enum RefreshOutcome {
    /// New tokens.
    Tokens(Json),
    /// The token is unknown or expired, or its account may not sign in any more.
    Refused,
    /// The token was used before, or the session could no longer begin by the method with which it began. The session has ended.
    Ended,
}

/// Redeems a refresh token, which works once.
pub fn redeem(request: &Request, conn: &mut Conn, token: &str) -> Result<RefreshOutcome, Refusal> {
    let (now, hash) = (request.now, sha256_hex(token));
    let sql = Sql::new(
        "SELECT r.session_id, r.used_at, s.user_id, s.single_sign_on_id, s.task FROM refresh_tokens r JOIN sessions s ON s.id = r.session_id \
         WHERE r.hash = $1 AND r.expires_at > $2 AND s.ended_at IS NULL",
    );
    let row = conn.query_optional(&sql.arg(&hash).arg(now), |row| {
        let way = SessionOrigin::from_columns(row.opt_id(3)?, row.opt_id(4)?);
        Ok((row.id(0)?, row.opt_int(1)?.is_some(), row.id(2)?, way))
    })?;
    let Some((session, mut is_used, user, way)) = row else { return Ok(RefreshOutcome::Refused) };
    if !lock(conn, session)? {
        return Ok(RefreshOutcome::Refused);
    }
    if !is_used {
        let sql =
            Sql::new("UPDATE refresh_tokens SET used_at = $1 WHERE hash = $2 AND used_at IS NULL").arg(now).arg(&hash);
        is_used = conn.exec(&sql)? == 0;
    }
    if is_used {
        end_at_once(request, conn, session)?;
        return Ok(RefreshOutcome::Ended);
    }
    let expires_at = match renew(request, conn, session, user, way)? {
        SessionRenewal::Until(expires_at) => expires_at,
        SessionRenewal::Refused => return Ok(RefreshOutcome::Refused),
        SessionRenewal::Ended => return Ok(RefreshOutcome::Ended),
    };
    conn.exec(
        &Sql::new("DELETE FROM refresh_tokens WHERE session_id = $1 AND expires_at <= $2").arg(session).arg(now),
    )?;
    Ok(RefreshOutcome::Tokens(issue_tokens(request, conn, user, session, expires_at)?))
}

/// Locks a session. Returns false if it has ended. Each transaction locks a session before its tokens, which prevents deadlocks.
pub fn lock(conn: &mut Conn, session: SessionId) -> Result<bool, StoreError> {
    let sql = Sql::new("SELECT 1 FROM sessions WHERE id = $1 AND ended_at IS NULL FOR NO KEY UPDATE").arg(session);
    Ok(conn.query_optional(&sql, |_| Ok(()))?.is_some())
}

/// The outcome of renewing a session.
pub enum SessionRenewal {
    /// The new expiry of the session, in microseconds.
    Until(i64),
    /// The account may not sign in now, or not from the request's address.
    Refused,
    /// The session could no longer begin by the method with which it began, and has ended.
    Ended,
}

/// Renews a locked session.
pub fn renew(
    request: &Request,
    conn: &mut Conn,
    session: SessionId,
    user: UserId,
    way: SessionOrigin,
) -> Result<SessionRenewal, Refusal> {
    let account =
        SignInAccount::load_by_id(conn, user)?.filter(|account| account.is_active && account.may_call_from(request));
    let Some(account) = account else { return Ok(SessionRenewal::Refused) };
    if !could_begin(request, conn, &account, way)? {
        end_at_once(request, conn, session)?;
        return Ok(SessionRenewal::Ended);
    }
    let expires_at = request.now + request.app.slot::<IdentitySettings>().refresh_token_seconds * 1_000_000;
    let sql =
        Sql::new("UPDATE sessions SET last_used_at = $1, expires_at = $2, ip = $3, user_agent = $4 WHERE id = $5");
    let sql = sql.arg(request.now).arg(expires_at).arg(request.address.to_string()).arg(request.user_agent());
    conn.exec(&sql.arg(session))?;
    Ok(SessionRenewal::Until(expires_at))
}

/// Ends a session. Its access tokens end in all processes.
pub fn end_at_once(request: &Request, conn: &mut Conn, session: SessionId) -> Result<(), Refusal> {
    end(conn, session, request.now)?;
    Ok(rights::mark_rights_changed(request, conn)?)
}

/// Returns whether a session could still begin by the method with which it began.
pub fn could_begin(
    request: &Request,
    conn: &mut Conn,
    account: &SignInAccount,
    way: SessionOrigin,
) -> Result<bool, StoreError> {
    match way {
        SessionOrigin::Password => Ok(account.may_use_password()),
        SessionOrigin::SingleSignOn(id) => Ok(account.may_use_single_sign_on() && is_enabled(conn, id)?),
        SessionOrigin::TaskLink(task) => (request.app.slot::<TaskLinks>().holds)(conn, account.id, task),
    }
}

/// Returns whether the account of a user may use a link now, from the request's address. `lock` locks its row.
pub fn may_use_link(request: &Request, conn: &mut Conn, user: UserId, lock: bool) -> Result<bool, StoreError> {
    let account =
        if lock { SignInAccount::load_by_id_for_change(conn, user)? } else { SignInAccount::load_by_id(conn, user)? };
    Ok(account.is_some_and(|account| account.is_active && account.may_call_from(request)))
}

/// Begins a session that is narrowed to a task, as a sign-in. If the link has too many sessions, the oldest ones end.
pub fn begin_by_link(request: &Request, conn: &mut Conn, user: UserId, task: TaskId) -> Result<Json, Refusal> {
    let sql = Sql::new(
        "SELECT s.id FROM sessions s WHERE s.user_id = $1 AND s.task = $2 AND s.ended_at IS NULL ORDER BY s.id DESC LIMIT 100 OFFSET $3",
    );
    for session in conn.query_all(&sql.arg(user).arg(task).arg(MAX_OF_LINK - 1), |row| row.id(0))? {
        end(conn, session, request.now)?;
        rights::mark_rights_changed(request, conn)?;
    }
    conn.exec(&Sql::new("UPDATE users SET last_login = $1 WHERE id = $2").arg(request.now).arg(user))?;
    system_events::write(request, conn, AuthEvent::LoginSuccess, Some(user), Some("task_link"))?;
    Ok(begin(request, conn, user, SessionOrigin::TaskLink(task))?)
}

/// Returns the session of a refresh token, whether or not the token was used.
pub fn find_by_refresh_token(conn: &mut Conn, token: &str, now: i64) -> Result<Option<SessionId>, StoreError> {
    let sql = Sql::new(
        "SELECT r.session_id FROM refresh_tokens r JOIN sessions s ON s.id = r.session_id \
         WHERE r.hash = $1 AND r.expires_at > $2 AND s.ended_at IS NULL",
    );
    conn.query_optional(&sql.arg(sha256_hex(token)).arg(now), |row| row.id(0))
}

/// Ends a session. Returns false if it had ended before.
pub fn end(conn: &mut Conn, session: SessionId, now: i64) -> Result<bool, StoreError> {
    let ended = conn.exec(
        &Sql::new("UPDATE sessions SET ended_at = $1 WHERE id = $2 AND ended_at IS NULL").arg(now).arg(session),
    )? == 1;
    for text in
        ["DELETE FROM refresh_tokens WHERE session_id = $1", "DELETE FROM browser_sessions WHERE session_id = $1"]
    {
        conn.exec(&Sql::new(text).arg(session))?;
    }
    Ok(ended)
}

/// Ends all sessions of a user except `but`, including grants of agents, and sign-ins that do not have a session yet.
pub fn end_all(
    conn: &mut Conn,
    user: UserId,
    now: i64,
    remaining_session: Option<SessionId>,
) -> Result<(), StoreError> {
    let remaining_id = remaining_session.map_or(0, SessionId::get);
    let sql = Sql::new("UPDATE sessions SET ended_at = $1 WHERE user_id = $2 AND ended_at IS NULL AND id <> $3");
    conn.exec(&sql.arg(now).arg(user).arg(remaining_id))?;
    for text in [
        "DELETE FROM refresh_tokens WHERE session_id IN (SELECT s.id FROM sessions s WHERE s.user_id = $1 AND s.id <> $2)",
        "DELETE FROM browser_sessions WHERE session_id IN (SELECT s.id FROM sessions s WHERE s.user_id = $1 AND s.id <> $2)",
    ] {
        conn.exec(&Sql::new(text).arg(user).arg(remaining_id))?;
    }
    challenges::end_of_user(conn, user)?;
    conn.exec(&Sql::new("UPDATE users SET sessions_ended_at = $1 WHERE id = $2").arg(now).arg(user)).map(|_| ())
}

/// Ends the sessions that are narrowed to one of these tasks, of the users among these principals or of all users.
pub fn end_of_tasks(
    request: &Request,
    conn: &mut Conn,
    tasks: &[TaskId],
    principals: Option<&[PrincipalId]>,
) -> Result<(), Refusal> {
    let mut narrowed = Sql::new("s.task");
    narrowed.push_any(tasks.iter().copied());
    if let Some(principals) = principals {
        narrowed.push(" AND s.user_id").push_any(principals.iter().copied());
    }
    end_narrowed(request, conn, &narrowed)
}

/// Ends the narrowed sessions of a user.
pub fn end_narrowed_of(request: &Request, conn: &mut Conn, user: UserId) -> Result<(), Refusal> {
    end_narrowed(request, conn, Sql::new("s.task IS NOT NULL AND s.user_id = ").bind(user))
}

fn end_narrowed(request: &Request, conn: &mut Conn, condition: &Sql) -> Result<(), Refusal> {
    let mut sql = Sql::new("SELECT s.id FROM sessions s WHERE s.ended_at IS NULL AND ");
    let sessions = conn.query_all(sql.append(condition).push(" ORDER BY s.id FOR NO KEY UPDATE"), |row| row.id(0))?;
    if sessions.is_empty() {
        return Ok(());
    }
    if request.caller.as_ref().is_some_and(|caller| sessions.contains(&caller.session)) {
        commit::check_caller_again(request, conn)?;
    }
    for sessions in sessions.chunks(1_000) {
        let mut ended = Sql::new("UPDATE sessions SET ended_at = ");
        conn.exec(ended.bind(request.now).push(" WHERE id").push_any(sessions.iter().copied()))?;
        let mut tokens = Sql::new("DELETE FROM refresh_tokens WHERE session_id");
        conn.exec(tokens.push_any(sessions.iter().copied()))?;
    }
    Ok(rights::mark_rights_changed(request, conn)?)
}

/// Returns the schema of an answer with tokens, for OpenAPI.
pub fn tokens_schema() -> Json {
    let lifetime = json!({"type": "integer", "description": "Seconds until the access token ends"});
    let fields = [
        ("access_token", json!({"type": "string"})),
        ("refresh_token", json!({"type": "string"})),
        ("expires_in", lifetime),
    ];
    titled("Tokens", object(fields))
}
