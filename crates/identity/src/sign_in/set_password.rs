//! Sets the caller's own password: `/api/auth/activate/`, `password-reset/` and `password-change/` (`docs/reference/sign-in.md`).

use crate::account::{SignInAccount, sign_in_refused};
use crate::attempts::{self, AddressAttempt, check_address, count_failure};
use crate::hasher::{Hasher, QueuePath};
use crate::mailed_links::{self, LinkKind};
use crate::passwords::{self, HashedPassword};
use crate::sessions;
use crate::system_events::{self, AuthEvent};
use kit::answer::{Answer, Outcome};
use kit::commit::{CommittedOutcome, write};
use kit::ids::UserId;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::route::{Handler, HandlerFuture, Route, Schema};
use resource::openapi::{filled_text, object, titled};
use resource::{Errors, message};
use serde_json::Value as Json;
use std::sync::Arc;
use store::{Conn, Sql};

fn strings_schema<const N: usize>(title: &str, names: [&str; N]) -> Json {
    titled(title, object(names.map(|name| (name, filled_text()))))
}

pub fn routes() -> Vec<Route> {
    let public = |path, summary, handler, body| {
        Route::post(path, summary, handler)
            .public()
            .with_guard(attempts::guard)
            .with_body(Schema::Json(body))
            .answers(204, Schema::Nothing)
    };
    vec![
        public("/api/auth/activate/", "Choose the first password", Handler::Async(activate), || {
            strings_schema("Activation", ["token", "password"])
        }),
        public("/api/auth/password-reset/", "Ask for a reset link", Handler::Async(request_reset), || {
            strings_schema("PasswordReset", ["username"])
        })
        .action("request"),
        public("/api/auth/password-reset/confirm/", "Choose a new password", Handler::Async(confirm), || {
            strings_schema("NewPassword", ["token", "password"])
        }),
        Route::post("/api/auth/password-change/", "Change the own password", Handler::Async(change_password))
            .with_body(Schema::Json(|| strings_schema("PasswordChange", ["current_password", "new_password"])))
            .answers(204, Schema::Nothing)
            .while_expired()
            .while_lacking_factor()
            .without_keys(),
    ]
}

fn activate(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let [token, password] = request.texts(["token", "password"])?;
        set_password_by_link(&request, token, password, LinkKind::Activation).await
    })
}

fn confirm(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let [token, password] = request.texts(["token", "password"])?;
        set_password_by_link(&request, token, password, LinkKind::Reset).await
    })
}

/// Sets a password by the token of a mailed link. Token and password are checked before the password is hashed. A wrong token
/// counts as a failed attempt of the address, which limits the system events that it causes.
pub async fn set_password_by_link(request: &Arc<Request>, token: String, password: String, kind: LinkKind) -> Outcome {
    let mut attempt = AddressAttempt::begin(request)?;
    let (shared, texts) = (request.clone(), (token.clone(), password.clone()));
    let checked = request
        .build
        .db
        .read(move |conn| {
            check_address(&shared, conn)?;
            let (token, password) = &texts;
            let Some(user) = mailed_links::user_of_token(conn, token, kind, shared.now)? else {
                return Ok(Err((invalid_token(), true)));
            };
            let salt = passwords::history_salt(conn, user)?;
            // A password that breaks a rule does not count as a failed attempt, since the token is right.
            let obeys = check_rules(conn, user, "password", password, None);
            Ok::<_, Refusal>(obeys.map(|()| salt).map_err(|refusal| (refusal, false)))
        })
        .await?;
    attempt.check()?;
    let (outcome, counts) = match checked {
        Ok(salt) => {
            let prepared = passwords::prepare(&request.app, &QueuePath::request_path(request), &password, salt).await?;
            attempt.count_as_failed();
            let set = move |request: &Request, conn: &mut Conn| {
                set_by_link(request, conn, &token, &password, kind, &prepared)
            };
            (write(request, set).await, true)
        }
        Err((refusal, counts)) => (Err(refusal), counts),
    };
    match outcome {
        Err(refusal) if refusal.is_by_rule() => {
            if counts {
                attempt.count_as_failed();
            }
            log_failure(request, kind, refusal, counts).await
        }
        Err(refusal) => Err(refusal),
        Ok(answer) => {
            attempt.succeed();
            Ok(answer)
        }
    }
}

fn set_by_link(
    request: &Request,
    conn: &mut Conn,
    token: &str,
    password: &str,
    kind: LinkKind,
    prepared: &HashedPassword,
) -> Outcome {
    let user = mailed_links::spend(conn, token, kind, request.now)?.ok_or_else(invalid_token)?;
    check_rules(conn, user, "password", password, Some(prepared))?;
    passwords::store(conn, user, prepared, request.now)?;
    if kind == LinkKind::Reset {
        system_events::write(request, conn, AuthEvent::PasswordResetSuccess, Some(user), None)?;
    }
    if kind == LinkKind::Activation {
        let sql =
            Sql::new("UPDATE users SET status = 'active', activated_at = $1 WHERE id = $2 AND status = 'invited'");
        conn.exec(&sql.arg(request.now).arg(user))?;
    }
    sessions::end_all(conn, user, request.now, None)?;
    rights::mark_rights_changed(request, conn)?;
    Ok(Answer::empty())
}

/// Writes the system event of a failure in a transaction of its own, since the transaction of the attempt was rolled back. An
/// address beyond its limit is refused for that reason, without an event.
async fn log_failure(request: &Arc<Request>, kind: LinkKind, refusal: Refusal, counts: bool) -> Outcome {
    let record = move |request: &Request, conn: &mut Conn| {
        check_address(request, conn)?;
        if counts {
            count_failure(request, conn)?;
        }
        match kind {
            LinkKind::Reset => system_events::write(request, conn, AuthEvent::PasswordResetFailed, None, None),
            LinkKind::Activation => Ok(()),
        }
    };
    write(request, record).await?;
    Err(refusal)
}

fn invalid_token() -> Refusal {
    Refusal::field("token", "Invalid token.")
}

/// Refuses a password that breaks a rule. The rule against reuse is checked only with `prepared`.
fn check_rules(
    conn: &mut Conn,
    user: UserId,
    field: &str,
    password: &str,
    prepared: Option<&HashedPassword>,
) -> Result<(), Refusal> {
    let mut errors = Errors::new();
    if password.chars().count() > passwords::MAX_LENGTH {
        errors.add(field, message::too_long(passwords::MAX_LENGTH));
    }
    passwords::broken_rules(conn, Some(user), password, prepared)?
        .into_iter()
        .for_each(|message| errors.add(field, message));
    Ok(errors.refuse()?)
}

fn request_reset(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let [username] = request.texts(["username"])?;
        ask_for_reset(&request, username).await?;
        Ok(Answer::empty())
    })
}

/// Queues a reset mail. All usernames are queued, whether or not they exist, so that the answer reveals nothing.
pub async fn ask_for_reset(request: &Arc<Request>, username: String) -> Result<(), Refusal> {
    let mut attempt = AddressAttempt::begin(request)?;
    write(request, move |request, conn| {
        check_address(request, conn)?;
        count_failure(request, conn)?;
        queue_reset(request, conn, &username)
    })
    .await?;
    attempt.count_as_failed();
    Ok(())
}

fn queue_reset(request: &Request, conn: &mut Conn, username: &str) -> Result<(), Refusal> {
    let named = Sql::new(
        "SELECT id, CASE WHEN status = 'active' AND account_type IN ('internal', 'external', 'full', 'super_admin') \
         THEN 1 ELSE 0 END FROM users WHERE username_fold = $1 AND is_deleted = 0",
    );
    let user =
        conn.query_optional(&named.arg(resource::fold(username.trim())), |row| Ok((row.id(0)?, row.flag(1)?)))?;
    let count_reset_if_allowed = user.is_some_and(|(_, count_reset_if_allowed)| count_reset_if_allowed);
    let event = if count_reset_if_allowed {
        AuthEvent::PasswordResetRequestSuccess
    } else {
        AuthEvent::PasswordResetRequestFailed
    };
    system_events::write(request, conn, event, user.map(|(id, _)| id), None)?;
    // Usernames are never longer. A longer text must not occupy space in the queue.
    let username: String = username.trim().chars().take(100).collect();
    mailed_links::ask_for_reset(request, conn, username).map(drop)
}

fn change_password(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let [current, new] = request.texts(["current_password", "new_password"])?;
        let user = request.caller()?.user;
        let account_and_salt = request
            .build
            .db
            .read(move |conn| {
                Ok::<_, store::StoreError>((
                    SignInAccount::load_by_id(conn, user)?,
                    passwords::history_salt(conn, user)?,
                ))
            })
            .await?;
        let (Some(account), salt) = account_and_salt else { return Err(sign_in_refused()) };
        let hash = account.hash.clone();
        let path = QueuePath::request_path(&request);
        let is_right =
            request.app.slot::<Hasher>().verify(&path, passwords::truncate_password(&current), account.hash).await?;
        let prepared = if is_right { Some(passwords::prepare(&request.app, &path, &new, salt).await?) } else { None };
        write(&request, move |request, conn| decide_change(request, conn, hash.as_deref(), &new, prepared.as_ref()))
            .await?
            .into_result()
    })
}

fn decide_change(
    request: &Request,
    conn: &mut Conn,
    checked: Option<&str>,
    new: &str,
    prepared: Option<&HashedPassword>,
) -> Result<CommittedOutcome<Answer>, Refusal> {
    let caller = request.caller()?;
    let wrong = || Refusal::field("current_password", "Invalid password.");
    let account = SignInAccount::load_by_id_for_change(conn, caller.user)?.ok_or_else(wrong)?;
    if account.is_locked(request.now) || account.hash.as_deref() != checked {
        return Err(wrong());
    }
    let Some(prepared) = prepared else {
        account.count_wrong_password(request, conn)?;
        return Ok(CommittedOutcome::Refused(wrong()));
    };
    check_rules(conn, caller.user, "new_password", new, Some(prepared))?;
    passwords::store(conn, caller.user, prepared, request.now)?;
    sessions::end_all(conn, caller.user, request.now, Some(caller.session))?;
    rights::mark_rights_changed(request, conn)?;
    Ok(CommittedOutcome::Done(Answer::empty()))
}
