//! The identities of users at providers: `/api/users/me/identities/` and `/api/users/{user_id}/identities/`
//! (`docs/reference/single-sign-on.md`).

use super::configuration::{ConfigurationName, load_names};
use crate::account::account_type_of;
use crate::sessions;
use crate::super_admin_access;
use crate::users::rules::{require_all_permissions_of, require_other_account};
use kit::account_type::AccountType;
use kit::answer::{Answer, Outcome};
use kit::commit::check_caller_again;
use kit::ids::{SessionId, SingleSignOnId, UserId};
use kit::log;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::route::Route;
use kit::rows::{self, Declaration, RowCells, RowShape, Scope};
use resource::json::Cells;
use resource::{Field, FieldKind, Resource, openapi, options};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;
use store::{Conn, Sql, StoreError};

/// An identity: its issuer and whether its user linked it. The subject is not shown.
static IDENTITY: LazyLock<Resource> = LazyLock::new(|| {
    let fields = [
        Field::new("id", FieldKind::Integer { min: 1, max: i64::MAX }),
        Field::new("issuer", FieldKind::text(2048)),
        Field::new("single_sign_on", FieldKind::Object).nullable().stored_by_resource().schema(configuration_schema),
        Field::new("is_linked", FieldKind::Boolean),
        Field::new("created_at", FieldKind::DateTime),
    ];
    Resource::new("identities", "Identity", "single_sign_on_identities", fields.map(Field::read_only)).unselectable()
});

fn configuration_schema() -> Json {
    openapi::object([("id", json!({"type": "integer"})), ("name", json!({"type": "string"}))])
}

pub fn routes() -> Vec<Route> {
    const OWN: &str = "/api/users/me/identities/";
    const OTHERS: &str = "/api/users/{user_id}/identities/";
    vec![
        Route::list(OWN, &IDENTITY, |request, conn| list(request, conn, request.caller()?.user)),
        Route::options(OWN, |_| Ok(Answer::value(&options::document(&IDENTITY)))),
        Route::delete("/api/users/me/identities/{id}/", |request, conn| {
            delete(request, conn, request.caller()?.user, request.id())
        })
        .without_keys(),
        Route::list(OTHERS, &IDENTITY, list_of_other).requires("users", "edit"),
        Route::options_below(OTHERS, document),
        Route::delete("/api/users/{user_id}/identities/{id}/", |request, conn| {
            delete(request, conn, request.id(), request.second_id())
        })
        .requires("users", "edit"),
    ]
}

fn document(request: &Request, conn: &mut Conn) -> Outcome {
    check_exists(conn, request.id())?;
    Ok(Answer::value(&options::document(&IDENTITY)))
}

fn check_exists(conn: &mut Conn, user: UserId) -> Result<(), Refusal> {
    let sql = Sql::new("SELECT 1 FROM users WHERE id = $1 AND is_deleted = 0").arg(user);
    conn.query_optional(&sql, |_| Ok(()))?.ok_or_else(Refusal::not_found)
}

fn list_of_other(request: &Request, conn: &mut Conn) -> Outcome {
    let user = request.id();
    check_user(request, conn, user)?;
    list(request, conn, user)
}

/// Refuses an unknown user, and a user with more permissions than the caller. The deletion of identities determines how a user can
/// sign in.
fn check_user(request: &Request, conn: &mut Conn, user: UserId) -> Result<(), Refusal> {
    check_exists(conn, user)?;
    let caller = request.caller()?;
    if caller.user == user {
        return Ok(());
    }
    let account_type = account_type_of(conn, user)?;
    require_all_permissions_of(conn, caller, user, account_type)
}

fn list(request: &Request, conn: &mut Conn, user: UserId) -> Outcome {
    let configurations = load_names(request, conn)?;
    let shape = RowShape::with_declaration(
        Declaration::Static(&IDENTITY),
        Sql::new("t.issuer"),
        move |out, _, row: &RowCells<'_>, at, _| {
            let issuer = row.text(at)?;
            out.name("single_sign_on");
            match configurations
                .iter()
                .find(|configuration| configuration.issuer.is_some() && configuration.issuer.as_deref() == issuer)
            {
                Some(ConfigurationName { id, name, .. }) => {
                    out.raw("{").name("id").int(id.get()).name("name").text(name).raw("}")
                }
                None => out.raw("null"),
            };
            Ok::<(), StoreError>(())
        },
    );
    rows::list(request, conn, &shape, Scope::matching(Sql::new("t.user_id = $1").arg(user)))
}

/// Deletes an identity of a user, and ends the sessions that began with it.
fn delete(request: &Request, conn: &mut Conn, user: UserId, id: i64) -> Outcome {
    // A sign-in locks the row, too. Its session begins before this, or it does not find the identity.
    conn.query_optional(&Sql::new("SELECT 1 FROM users WHERE id = $1 FOR NO KEY UPDATE").arg(user), |_| Ok(()))?;
    check_user(request, conn, user)?;
    require_other_account(request.caller()?, user)?;
    let sql = Sql::new("SELECT issuer FROM single_sign_on_identities WHERE id = $1 AND user_id = $2 FOR UPDATE");
    let issuer = conn.query_optional(&sql.arg(id).arg(user), |row| Ok(row.text(0)?.to_owned()))?;
    let issuer = issuer.ok_or_else(Refusal::not_found)?;
    let is_super_admin = account_type_of(conn, user)? == AccountType::SuperAdmin;
    let access = super_admin_access::guard(request, conn, is_super_admin)?;
    conn.exec(&Sql::new("DELETE FROM single_sign_on_identities WHERE id = $1").arg(id))?;
    access.refuse_loss(request, conn)?;
    end_sessions(request, conn, user, &issuer)?;
    // The name of the entry is the issuer, since the subject and the username are personal.
    let changes = [("user".to_owned(), json!([user, null]))].into_iter().collect();
    log::write(request, conn, "delete", &IDENTITY, id, &issuer, changes)?;
    rights::mark_rights_changed(request, conn)?;
    Ok(Answer::empty())
}

/// Ends everything that began with a deleted identity of this issuer: sessions, grants of agents, and sign-ins that do not have a
/// session yet. A session stores its configuration, not its identity, and the issuer of a configuration may have changed. Only
/// sessions and sign-ins by a configuration with another issuer stay, if the user still has an identity of that issuer.
fn end_sessions(request: &Request, conn: &mut Conn, user: UserId, issuer: &str) -> Result<(), Refusal> {
    let issuers = Sql::new("SELECT issuer FROM single_sign_on_identities WHERE user_id = $1").arg(user);
    let issuers = conn.query_all(&issuers, |row| Ok(row.text(0)?.to_owned()))?;
    let stays = |configuration: &ConfigurationName| {
        configuration.issuer.as_deref().is_some_and(|configured_issuer| {
            configured_issuer != issuer && issuers.iter().any(|user_issuer| user_issuer == configured_issuer)
        })
    };
    let staying: Vec<SingleSignOnId> = load_names(request, conn)?
        .iter()
        .filter(|configuration| stays(configuration))
        .map(|configuration| configuration.id)
        .collect();
    let begun = Sql::new(
        "SELECT s.id, s.single_sign_on_id FROM sessions s WHERE s.user_id = $1 AND s.ended_at IS NULL \
         AND s.single_sign_on_id IS NOT NULL ORDER BY s.id FOR NO KEY UPDATE",
    );
    let begun = conn.query_all(&begun.arg(user), |row| Ok((row.id(0)?, row.id(1)?)))?;
    let ending: Vec<SessionId> =
        begun.iter().filter(|(_, by)| !staying.contains(by)).map(|(session, _)| *session).collect();
    if ending.contains(&request.caller()?.session) {
        check_caller_again(request, conn)?;
    }
    for session in ending {
        sessions::end(conn, session, request.now)?;
    }
    let tickets =
        "SELECT hash, single_sign_on_id FROM single_sign_on_tickets WHERE user_id = $1 AND session_id IS NULL";
    let tickets = conn.query_all(&Sql::new(tickets).arg(user), |row| Ok((row.text(0)?.to_owned(), row.id(1)?)))?;
    for (hash, _) in tickets.iter().filter(|(_, by)| !staying.contains(by)) {
        conn.exec(&Sql::new("DELETE FROM single_sign_on_tickets WHERE hash = $1").arg(hash))?;
    }
    // Agents request consent between a sign-in and its grant. This time ends such sign-ins.
    let sql = Sql::new("UPDATE users SET sessions_ended_at = $1 WHERE id = $2");
    conn.exec(&sql.arg(request.now).arg(user))?;
    Ok(())
}
