//! The endpoints of `next_actions`: actions on an account other than changes of its fields (`docs/reference/users.md`).

use super::create::type_in;
use super::rules::{self, limit_of};
use super::user::USER;
use super::view::{self, load};
use crate::mailed_links;
use crate::sessions;
use crate::super_admin_access;
use http::StatusCode;
use kit::account_type::AccountType;
use kit::answer::{Answer, Outcome};
use kit::idempotency::rows::delete_all;
use kit::ids::UserId;
use kit::limits::{self, Limit};
use kit::log;
use kit::reactions::{self, Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::route::{Handler, Route, Schema};
use resource::openapi::{object, titled};
use resource::time;
use serde_json::{Value as Json, json};
use store::{Conn, Sql, StoreError};

/// The counter of anonymized users. They are listed but do not count against a limit.
pub static ANONYMIZED: Limit =
    Limit { name: "users_anonymized", default: i64::MAX, many: "anonymized accounts", ..Limit::EMPTY };

pub fn routes() -> Vec<Route> {
    let action = |path, summary, handler| {
        Route::post(path, summary, Handler::Write(handler)).requires("users", "edit").answers(200, Schema::One(&USER))
    };
    vec![
        action("/api/users/{id}/send-activation-link/", "Mail the activation link", |request, conn| {
            run_action(request, conn, "send_activation_link", |request, conn, id, _| {
                mailed_links::send_activation_again(request, conn, id)
            })
        })
        .without_keys()
        .also_answers(429, Schema::Refusal),
        action("/api/users/{id}/activation-link/", "Make an activation link, shown once", show_activation_link)
            .answers(200, Schema::Json(activation_link_schema))
            .also_answers(429, Schema::Refusal)
            .answers_secret()
            .without_keys(),
        action("/api/users/{id}/deactivate/", "Deactivate", |request, conn| {
            run_action(request, conn, "deactivate", deactivate)
        }),
        action("/api/users/{id}/reactivate/", "Reactivate", |request, conn| {
            run_action(request, conn, "reactivate", reactivate)
        }),
        action("/api/users/{id}/unlock/", "Unlock", |request, conn| run_action(request, conn, "unlock", unlock)),
        action("/api/users/{id}/anonymize/", "Anonymize, for ever", |request, conn| {
            run_action(request, conn, "anonymize", anonymize)
        }),
    ]
}

fn activation_link_schema() -> Json {
    let expires_at =
        json!({"type": ["string", "null"], "format": "date-time", "description": "Null: it does not expire"});
    let url = json!({"type": "string", "format": "uri"});
    titled("ActivationLink", object([("url", url), ("expires_at", expires_at)]))
}

/// Creates an activation link and shows it once. Only super admins get it, since a link gives control of the account.
fn show_activation_link(request: &Request, conn: &mut Conn) -> Outcome {
    if !request.caller()?.is_super() {
        return Err(Refusal::forbidden());
    }
    let logged = UserAction { open_as: "send_activation_link", logged_as: "activation_link" };
    let link =
        carry_out(request, conn, logged, |request, conn, id, _| mailed_links::make_activation(request, conn, id))?;
    Ok(Answer::value(&json!({"url": link.url, "expires_at": link.expires_at.map(time::show)})))
}

fn run_action(
    request: &Request,
    conn: &mut Conn,
    name: &'static str,
    action: fn(&Request, &mut Conn, UserId, AccountType) -> Result<(), Refusal>,
) -> Outcome {
    carry_out(request, conn, UserAction { open_as: name, logged_as: name }, action)?;
    view::answer(request, conn, StatusCode::OK, request.id())
}

/// The names of an action.
struct UserAction {
    /// The entry of `next_actions` under which it is available.
    open_as: &'static str,
    logged_as: &'static str,
}

/// Carries out an action on the account of the path, if it is available, and writes it into the log.
fn carry_out<T>(
    request: &Request,
    conn: &mut Conn,
    UserAction { open_as, logged_as }: UserAction,
    action: fn(&Request, &mut Conn, UserId, AccountType) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let (caller, id) = (request.caller()?, request.id());
    let before = load(conn, id)?;
    let account_type = type_in(&before)?;
    rules::require_change(caller, account_type)?;
    rules::require_other_account(caller, id)?;
    if !rules::next_actions(&shown_status(conn, id, request.now)?, account_type).contains(&open_as) {
        return Err(Refusal::bad_request("Action is not available."));
    }
    let access = super_admin_access::guard(request, conn, account_type == AccountType::SuperAdmin)?;
    let result = action(request, conn, id, account_type)?;
    access.refuse_loss(request, conn)?;
    record(request, conn, id, logged_as)?;
    Ok(result)
}

/// Records an action on an account: its audit fields, its entry in the log, and the version of the rights.
fn record(request: &Request, conn: &mut Conn, id: UserId, logged_as: &'static str) -> Result<(), Refusal> {
    let by = request.caller.as_ref().map(|caller| caller.user);
    let sql = Sql::new("UPDATE users SET modified_at = $1, modified_by = $2 WHERE id = $3");
    conn.exec(&sql.arg(request.now).arg(by).arg(id))?;
    // The username is read again, since anonymizing replaces it.
    let username = Sql::new("SELECT username FROM users WHERE id = $1").arg(id);
    let username = conn.query_one(&username, |row| Ok(row.text(0)?.to_owned()))?;
    log::write(request, conn, logged_as, &USER, id.get(), &username, log::Diff::new())?;
    Ok(rights::mark_rights_changed(request, conn)?)
}

/// Deactivates the account of a person for the directory of a company.
pub fn deactivate_by_provider(request: &Request, conn: &mut Conn, id: UserId) -> Result<(), Refusal> {
    deactivate(request, conn, id, AccountType::Internal)?;
    record(request, conn, id, "deactivate")
}

/// Makes the account of a person active for the directory of a company, even without a password: the person signs in at the
/// provider.
pub fn activate_by_provider(request: &Request, conn: &mut Conn, id: UserId) -> Result<(), Refusal> {
    let sql = Sql::new("UPDATE users SET status = 'active', activated_at = COALESCE(activated_at, $1) WHERE id = $2");
    conn.exec(&sql.arg(request.now).arg(id))?;
    record(request, conn, id, "reactivate")?;
    reactions::run(request, conn, "users", ReactionTime::Changed, id.get())
}

/// Returns the stored state, which is never `locked`.
pub fn stored_status(conn: &mut Conn, id: UserId) -> Result<String, StoreError> {
    conn.query_one(&Sql::new("SELECT status FROM users WHERE id = $1").arg(id), |row| Ok(row.text(0)?.to_owned()))
}

/// Returns the state that users see. An active account may be `locked`.
fn shown_status(conn: &mut Conn, id: UserId, now: i64) -> Result<String, StoreError> {
    let sql = Sql::new("SELECT status, locked_until FROM users WHERE id = $1").arg(id);
    conn.query_one(&sql, |row| {
        let is_locked = row.text(0)? == "active" && row.opt_int(1)?.is_some_and(|until| until > now);
        Ok(if is_locked { "locked".to_owned() } else { row.text(0)?.to_owned() })
    })
}

fn deactivate(request: &Request, conn: &mut Conn, id: UserId, _: AccountType) -> Result<(), Refusal> {
    conn.exec(
        &Sql::new("UPDATE users SET status = 'inactive', failed_attempts = 0, locked_until = NULL WHERE id = $1")
            .arg(id),
    )?;
    sessions::end_all(conn, id, request.now, None)?;
    mailed_links::delete_links(conn, id)?;
    reactions::run(request, conn, "users", ReactionTime::Changed, id.get())
}

fn reactivate(request: &Request, conn: &mut Conn, id: UserId, account_type: AccountType) -> Result<(), Refusal> {
    let text =
        "UPDATE users SET status = CASE WHEN password_set_at IS NULL THEN 'pending' ELSE 'active' END WHERE id = $1";
    // Accounts of this type become active without setting a password.
    let text =
        if account_type.is_active_from_creation() { "UPDATE users SET status = 'active' WHERE id = $1" } else { text };
    conn.exec(&Sql::new(text).arg(id))?;
    reactions::run(request, conn, "users", ReactionTime::Changed, id.get())
}

fn unlock(_: &Request, conn: &mut Conn, id: UserId, _: AccountType) -> Result<(), Refusal> {
    conn.exec(
        &Sql::new("UPDATE users SET failed_attempts = 0, failed_since = NULL, locked_until = NULL WHERE id = $1")
            .arg(id),
    )?;
    Ok(())
}

/// Replaces all personal fields of a user, and all other personal data of the row.
const ANONYMIZE: &str = "UPDATE users SET status = 'anonymized', username = $1, username_fold = $1, \
    first_name = 'Anonymized', last_name = 'Anonymized', full_name = 'Anonymized', full_name_fold = 'anonymized', \
    job_title = '', company_name = '', phone = '', mobile = '', timezone = 'UTC', is_ip_restriction_enabled = 0, \
    allowed_ip_ranges = '[]', password_hash = NULL, password_salt = NULL, failed_attempts = 0, failed_since = NULL, \
    locked_until = NULL WHERE id = $2";

fn anonymize(request: &Request, conn: &mut Conn, id: UserId, account_type: AccountType) -> Result<(), Refusal> {
    reactions::run(request, conn, "users", ReactionTime::Leaving, id.get())?;
    let replacement = format!("anonymized-{id}@anonymized.invalid");
    conn.exec(&Sql::new(ANONYMIZE).arg(&replacement).arg(id))?;
    erase_traces(conn, id, &replacement)?;
    delete_all(conn)?;
    limits::change(conn, limit_of(account_type), &ANONYMIZED)
}

/// Erases the person's data from the log's entries about the account and from its ended sessions.
fn erase_traces(conn: &mut Conn, id: UserId, username: &str) -> Result<(), StoreError> {
    log::anonymize_entries(conn, &USER, id.get(), username)?;
    for text in [
        // The address of an entry is the person's only if the person changed their own account.
        "UPDATE administration_log SET ip = '' WHERE resource = 'users' AND object_id = $1 AND by_user = $1",
        "UPDATE sessions SET ip = '', user_agent = '' WHERE user_id = $1",
    ] {
        conn.exec(&Sql::new(text).arg(id))?;
    }
    Ok(())
}

/// Erases the traces of users who were anonymized before [`erase_traces`] existed (a migration).
pub fn migrate_anonymized(conn: &mut Conn) -> Result<(), StoreError> {
    let sql = Sql::new("SELECT id, username FROM users WHERE status = 'anonymized'");
    for (id, username) in conn.query_all(&sql, |row| Ok((row.id(0)?, row.text(1)?.to_owned())))? {
        erase_traces(conn, id, &username)?;
    }
    Ok(())
}

/// Ends the sessions of a deleted or anonymized user, and deletes the links, the password history and the roles.
pub const ON_LEAVING: Reaction = Reaction {
    resource: "users",
    when: ReactionTime::Leaving,
    run: |request, conn, id| {
        let id = UserId::new(id);
        sessions::end_all(conn, id, request.now, None)?;
        mailed_links::delete_links(conn, id)?;
        for text in ["DELETE FROM password_history WHERE user_id = $1", "DELETE FROM user_roles WHERE user_id = $1"] {
            conn.exec(&Sql::new(text).arg(id))?;
        }
        Ok(())
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use resource::ColumnSource;

    #[test]
    fn every_personal_field_is_replaced() {
        for field in USER.fields.iter().filter(|field| field.is_personal) {
            let ColumnSource::Column(column) = &field.source else { panic!("{} is no column", field.name) };
            for column in std::iter::once(column).chain(&field.folded) {
                assert!(ANONYMIZE.contains(&format!(" {column} = ")), "{column}");
            }
        }
    }
}
