//! Setting one's own password: `activate/`, `password-reset/`, `password-change/`.

use crate::account::{Account, sign_in_refused};
use crate::attempts::Attempt;
use crate::attempts::{self, check_address, count_address};
use crate::hasher::Hasher;
use crate::hasher::Turn;
use crate::mailed_links::{self, Kind};
use crate::passwords::{self, Prepared};
use crate::sessions;
use crate::system_events::{self, Event};
use kit::answer::{Answer, Outcome};
use kit::commit::{Kept, write};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::route::{Handler, Pending, Route, Schema};
use resource::{Errors, message};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use store::{Conn, Sql};

fn strings(names: &[&str]) -> Json {
    let properties: serde_json::Map<_, _> =
        names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
    json!({"type": "object", "required": names, "properties": properties})
}

/// The routes of passwords.
pub fn routes() -> Vec<Route> {
    let public = |path, summary, handler, body| {
        Route::post(path, summary, handler)
            .public()
            .guarded(attempts::guard)
            .takes(Schema::Json(body))
            .answers(204, Schema::Nothing)
    };
    vec![
        public("/api/auth/activate/", "Choose the first password", Handler::Async(activate), || {
            strings(&["token", "password"])
        }),
        public("/api/auth/password-reset/", "Ask for a reset link", Handler::Async(ask), || strings(&["username"])),
        public("/api/auth/password-reset/confirm/", "Choose a new password", Handler::Async(confirm), || {
            strings(&["token", "password"])
        }),
        Route::post("/api/auth/password-change/", "Change the own password", Handler::Async(change))
            .takes(Schema::Json(|| strings(&["current_password", "new_password"])))
            .answers(204, Schema::Nothing)
            .while_expired(),
    ]
}

fn activate(request: Arc<Request>) -> Pending {
    Box::pin(async move {
        let [token, password] = request.texts(["token", "password"])?;
        by_link(&request, token, password, Kind::Activation).await
    })
}

fn confirm(request: Arc<Request>) -> Pending {
    Box::pin(async move {
        let [token, password] = request.texts(["token", "password"])?;
        by_link(&request, token, password, Kind::Reset).await
    })
}

/// Sets a password by the token of a mailed link. What a stranger can be refused for is looked at before anything is
/// hashed. A token that is wrong counts for the address, so that there is a bound on the events of it.
pub async fn by_link(request: &Arc<Request>, token: String, password: String, kind: Kind) -> Outcome {
    let mut attempt = Attempt::begin(request)?;
    let (shared, sent) = (request.clone(), (token.clone(), password.clone()));
    let looked = request
        .build
        .db
        .read(move |conn| {
            check_address(&shared, conn)?;
            let (token, password) = &sent;
            let Some(user) = mailed_links::user_of(conn, token, kind, shared.now)? else {
                return Ok(Err((invalid_token(), true)));
            };
            let salt = passwords::salt(conn, user)?;
            // Whoever has the link may look for a password that will do.
            let checked = check_rules(conn, user, "password", password, None);
            Ok::<_, Refusal>(checked.map(|()| salt).map_err(|refusal| (refusal, false)))
        })
        .await?;
    attempt.check()?;
    let (outcome, counts) = match looked {
        Ok(salt) => {
            let prepared = passwords::prepare(&request.app, &Turn::of(request), &password, salt).await?;
            attempt.tried();
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
                attempt.tried();
            }
            log_failure(request, kind, refusal, counts).await
        }
        Err(refusal) => Err(refusal),
        Ok(answer) => {
            attempt.succeeded();
            Ok(answer)
        }
    }
}

fn set_by_link(
    request: &Request,
    conn: &mut Conn,
    token: &str,
    password: &str,
    kind: Kind,
    prepared: &Prepared,
) -> Outcome {
    let user = mailed_links::spend(conn, token, kind, request.now)?.ok_or_else(invalid_token)?;
    check_rules(conn, user, "password", password, Some(prepared))?;
    passwords::store(conn, user, prepared, request.now)?;
    if kind == Kind::Reset {
        system_events::note(request, conn, Event::PasswordResetSuccess, Some(user), None)?;
    }
    if kind == Kind::Activation {
        let sql =
            Sql::new("UPDATE users SET status = 'active', activated_at = $1 WHERE id = $2 AND status = 'invited'");
        conn.exec(&sql.arg(request.now).arg(user))?;
    }
    sessions::end_all(conn, user, request.now, None)?;
    rights::changed(request, conn)?;
    Ok(Answer::empty())
}

/// A failure is undone, and so noted by itself; beyond the bound of the address it is refused for that, without an event.
async fn log_failure(request: &Arc<Request>, kind: Kind, refusal: Refusal, counts: bool) -> Outcome {
    let note = move |request: &Request, conn: &mut Conn| {
        check_address(request, conn)?;
        if counts {
            count_address(request, conn)?;
        }
        match kind {
            Kind::Reset => system_events::note(request, conn, Event::PasswordResetFailed, None, None),
            Kind::Activation => Ok(()),
        }
    };
    write(request, note).await?;
    Err(refusal)
}

fn invalid_token() -> Refusal {
    Refusal::field("token", "Invalid token.")
}

/// Refuses a password that breaks rules; whether it was used before can be told when it is hashed.
fn check_rules(
    conn: &mut Conn,
    user: i64,
    field: &str,
    password: &str,
    prepared: Option<&Prepared>,
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

fn ask(request: Arc<Request>) -> Pending {
    Box::pin(async move {
        let [username] = request.texts(["username"])?;
        ask_for_reset(&request, username).await?;
        Ok(Answer::empty())
    })
}

/// Queues the one job that a reset request is, whoever it names.
pub async fn ask_for_reset(request: &Arc<Request>, username: String) -> Result<(), Refusal> {
    let mut attempt = Attempt::begin(request)?;
    write(request, move |request, conn| {
        check_address(request, conn)?;
        count_address(request, conn)?;
        queue_reset(request, conn, &username)
    })
    .await?;
    attempt.tried();
    Ok(())
}

fn queue_reset(request: &Request, conn: &mut Conn, username: &str) -> Result<(), Refusal> {
    let named = Sql::new(
        "SELECT id, CASE WHEN status = 'active' AND account_type IN ('internal', 'external', 'full', 'super_admin') \
         THEN 1 ELSE 0 END FROM users WHERE username_fold = $1 AND is_deleted = 0",
    );
    let user = conn.opt(&named.arg(resource::fold(username.trim())), |row| Ok((row.int(0)?, row.flag(1)?)))?;
    let is_open = user.is_some_and(|(_, is_open)| is_open);
    let event = if is_open { Event::PasswordResetRequestSuccess } else { Event::PasswordResetRequestFailed };
    system_events::note(request, conn, event, user.map(|(id, _)| id), None)?;
    // No address is longer than this; a longer name is nobody's, and must not fill the queue.
    let username: String = username.trim().chars().take(100).collect();
    mailed_links::ask_for_reset(request, conn, username).map(drop)
}

fn change(request: Arc<Request>) -> Pending {
    Box::pin(async move {
        let [current, new] = request.texts(["current_password", "new_password"])?;
        let user = request.caller()?.user;
        let found = request
            .build
            .db
            .read(move |conn| Ok::<_, store::Error>((Account::of(conn, user)?, passwords::salt(conn, user)?)))
            .await?;
        let (Some(account), salt) = found else { return Err(sign_in_refused()) };
        let hash = account.hash.clone();
        let turn = Turn::of(&request);
        let is_right = request.app.slot::<Hasher>().verify(&turn, passwords::cut(&current), account.hash).await?;
        let prepared = if is_right { Some(passwords::prepare(&request.app, &turn, &new, salt).await?) } else { None };
        write(&request, move |request, conn| decide_change(request, conn, hash.as_deref(), &new, prepared.as_ref()))
            .await?
            .told()
    })
}

fn decide_change(
    request: &Request,
    conn: &mut Conn,
    checked: Option<&str>,
    new: &str,
    prepared: Option<&Prepared>,
) -> Result<Kept<Answer>, Refusal> {
    let caller = request.caller()?;
    let wrong = || Refusal::field("current_password", "Invalid password.");
    let account = Account::of_for_change(conn, caller.user)?.ok_or_else(wrong)?;
    if account.is_locked(request.now) || account.hash.as_deref() != checked {
        return Err(wrong());
    }
    let Some(prepared) = prepared else {
        account.failed(request, conn)?;
        return Ok(Kept::Refused(wrong()));
    };
    check_rules(conn, caller.user, "new_password", new, Some(prepared))?;
    passwords::store(conn, caller.user, prepared, request.now)?;
    sessions::end_all(conn, caller.user, request.now, Some(caller.session))?;
    rights::changed(request, conn)?;
    Ok(Kept::Done(Answer::empty()))
}
