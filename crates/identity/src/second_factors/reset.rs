//! Removes the lost factors of an account: `/api/users/{id}/reset-second-factors/`, and the same on the command line
//! (`docs/reference/second-factors.md`).

use super::notices::{self, Notice};
use super::owner::{lock_account, require_recent_sign_in};
use super::removal::delete_all;
use crate::account::{account_type_of, is_person};
use crate::sessions;
use crate::users::rules::{require_all_permissions_of, require_change};
use crate::users::user::USER;
use kit::answer::{Answer, Outcome};
use kit::app::App;
use kit::build::Build;
use kit::commit::check_caller_again;
use kit::ids::UserId;
use kit::log;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::route::{Handler, Route, Schema};
use std::sync::Arc;
use store::{Conn, Sql};

const ACTION: &str = "reset_second_factors";

pub fn routes() -> Vec<Route> {
    vec![
        Route::post("/api/users/{id}/reset-second-factors/", "Remove lost second factors", Handler::Write(reset))
            .requires("users", "edit")
            .answers(204, Schema::Nothing),
    ]
}

fn reset(request: &Request, conn: &mut Conn) -> Outcome {
    let (caller, user) = (request.caller()?, request.id());
    let exists = Sql::new("SELECT 1 FROM users WHERE id = $1 AND is_deleted = 0").arg(user);
    conn.query_optional(&exists, |_| Ok(()))?.ok_or_else(Refusal::not_found)?;
    let username = lock_account(conn, user)?.username;
    let account_type = account_type_of(conn, user)?;
    require_change(caller, account_type)?;
    if caller.user != user {
        require_all_permissions_of(conn, caller, user, account_type)?;
    }
    if !is_person(account_type) {
        return Err(Refusal::bad_request("Action is not available."));
    }
    // With a stolen session alone, nobody removes the factors of its account.
    if caller.user == user {
        require_recent_sign_in(request, conn)?;
        check_caller_again(request, conn)?;
    }
    delete_all(conn, user)?;
    sessions::end_all(conn, user, request.now, None)?;
    notices::send(request, conn, user, Notice::FactorsReset)?;
    log::write(request, conn, ACTION, &USER, user.get(), &username, log::Diff::new())?;
    rights::mark_rights_changed(request, conn)?;
    Ok(Answer::empty())
}

/// Removes the factors of the account with a username, for the command line. Returns false if there is no such account.
pub async fn reset_by_operator(app: &App, build: &Arc<Build>, username: &str) -> Result<bool, Refusal> {
    let request = Request::for_system(app, build);
    let name = resource::fold(username.trim());
    let script = move |conn: &mut Conn| {
        let sql =
            Sql::new("SELECT id, username FROM users WHERE username_fold = $1 AND is_deleted = 0 FOR NO KEY UPDATE");
        let row = conn.query_optional(&sql.arg(&name), |row| Ok((row.id::<UserId>(0)?, row.text(1)?.to_owned())))?;
        let Some((user, username)) = row else { return Ok(false) };
        if !is_person(account_type_of(conn, user)?) {
            return Err(Refusal::bad_request("Action is not available."));
        }
        delete_all(conn, user)?;
        sessions::end_all(conn, user, request.now, None)?;
        notices::send(&request, conn, user, Notice::FactorsReset)?;
        rights::raise_version(conn)?;
        log::write_by_operator(conn, request.now, ACTION, &USER, user.get(), &username, log::Diff::new())?;
        Ok(true)
    };
    build.db.write::<_, Refusal>(script).await
}
