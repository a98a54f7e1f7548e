//! Single sign-on: `/api/single-sign-on/` (`docs/reference/single-sign-on.md`).
//!
//! This file contains the configurations as a resource. The sign-in has files of its own:
//! - `start.rs`: the redirect to the provider.
//! - `callback.rs`: the redirect from the provider.
//! - `account.rs`: the account of the person.
//! - `logout.rs`: the end of a session here and at the provider.
//! - `identities.rs`: the identities of users.
//! - `trial.rs`: a sign-in that only shows its outcome.
//!
//! They use `provider.rs` (discovery, keys, codes), `id_token.rs` (verification) and `transaction.rs` (the cookie between start and
//! callback).

mod account;
mod callback;
pub mod configuration;
mod failure;
#[doc(hidden)]
pub mod id_token;
mod identities;
pub mod logout;
mod provider;
pub mod start;
mod tickets;
pub mod transaction;
mod trial;
mod vouching;
pub mod way_back;

pub use provider::Providers;
pub use vouching::{migrate as migrate_vouching, warn_at_start};

use crate::super_admin_access;
use crate::users::rules::require_role_grant;
use configuration::{
    ACTIONS, AUTO_CREATE_USER, CLIENT_ID, CLIENT_SECRET, DOCS_ADDIN, IS_ENABLED, NAME, PATH, PROVIDER, ROLES,
    SINGLE_SIGN_ON, TENANT_ID, endpoint_address,
};
use http::StatusCode;
use kit::answer::{Answer, Outcome};
use kit::ids::SingleSignOnId;
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::{Refusal, RefusalReason};
use kit::request::Request;
use kit::route::Route;
use kit::rows::{self, Declaration, RowCells, RowShape, Scope, write_permissions};
use resource::json::{Cells, JsonWriter, RowForm};
use resource::{Changes, Errors, FieldKey, RowAfterWrite, SentObject, message};
use store::{Conn, Sql, StoreError};

/// The unique index that allows one add-in per client and tenant.
const DOCS_ADDIN_INDEX: &str = "single_sign_on_docs_addin";
static SHAPE: RowShape = RowShape::new(
    Declaration::Static(&SINGLE_SIGN_ON),
    concat!(
        "t.id, (SELECT string_agg(r.name, '\n' ORDER BY r.id) FROM single_sign_on_roles sr JOIN roles r ON r.id = sr.role_id \
         WHERE sr.single_sign_on_id = t.id), ",
        vouching::vouched_by!()
    ),
    write_meta,
);

pub fn routes() -> Vec<Route> {
    let instance = "/api/single-sign-on/{id}/";
    let mut routes = vec![
        Route::list(PATH, &SINGLE_SIGN_ON, list).requires("single_sign_on", "list"),
        Route::create(PATH, &SINGLE_SIGN_ON, create).requires("single_sign_on", "create"),
        Route::options_below(PATH, document),
        Route::view(instance, &SINGLE_SIGN_ON, view).requires("single_sign_on", "view"),
        Route::edit(instance, &SINGLE_SIGN_ON, edit).requires("single_sign_on", "edit"),
        Route::delete(instance, delete).requires("single_sign_on", "delete"),
    ];
    routes.extend(start::routes());
    routes.extend(callback::routes());
    routes.extend(logout::routes());
    routes.extend(identities::routes());
    routes.extend(trial::routes());
    routes
}

fn document(_: &Request, conn: &mut Conn) -> Outcome {
    Ok(Answer::value(&rows::document(conn, &SINGLE_SIGN_ON)?))
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    rows::list(request, conn, &SHAPE, Scope::matching("1 = 1").cacheable())
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    Ok(Answer::instance(StatusCode::OK, rows::view_id(request, conn, &SHAPE, request.id())?))
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let body = request.object()?;
    let accepted = rows::check_body(conn, &SINGLE_SIGN_ON, &body, None)?;
    let (changes, mut errors) = (accepted.changes, accepted.errors);
    require_role_grant(conn, request.caller()?, &[], &changes.get(&ROLES).unwrap_or_default())?;
    check_docs_addin(conn, &body, &RowAfterWrite { before: None, sent: &changes }, SingleSignOnId::NONE, &mut errors)?;
    errors.refuse()?;
    let inserted = rows::insert(request, conn, &SINGLE_SIGN_ON, &changes, &[]);
    let id = inserted.map_err(second_docs_addin).map_err(limit_detail_as_list)?;
    vouching::renew(conn, SingleSignOnId::new(id), request.caller()?)?;
    rows::created_answer(request, conn, &SHAPE, id)
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    let before = rows::load_for_change(request, conn, &SHAPE, id)?;
    let body = request.object()?;
    let accepted = rows::check_body(conn, &SINGLE_SIGN_ON, &body, Some(id))?;
    let (changes, mut errors) = (accepted.changes, accepted.errors);
    let after = RowAfterWrite { before: Some(&before), sent: &changes };
    require_role_grant(conn, request.caller()?, &[], &given_roles(&before, &after))?;
    check_docs_addin(conn, &body, &after, SingleSignOnId::new(id), &mut errors)?;
    if redirects_secret(&before, &after) && !changes.contains(&CLIENT_SECRET) && !errors.has_field(CLIENT_SECRET.name())
    {
        errors.add(CLIENT_SECRET.name(), message::REQUIRED);
    }
    errors.refuse()?;
    let access = super_admin_access::guard(request, conn, true)?;
    rows::update(request, conn, &SINGLE_SIGN_ON, id, &before, &changes, &[]).map_err(second_docs_addin)?;
    if vouching::is_renewed_by(&changes) {
        vouching::renew(conn, SingleSignOnId::new(id), request.caller()?)?;
    }
    access.refuse_loss(request, conn)?;
    rows::edited_answer(request, conn, &SHAPE, id)
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    let before = rows::load_for_change(request, conn, &SHAPE, id)?;
    let access = super_admin_access::guard(request, conn, true)?;
    for text in [
        "DELETE FROM single_sign_on_roles WHERE single_sign_on_id = $1",
        "DELETE FROM single_sign_on_tickets WHERE single_sign_on_id = $1",
    ] {
        conn.exec(&Sql::new(text).arg(id))?;
    }
    rows::delete(request, conn, &SINGLE_SIGN_ON, id, &before.get(&NAME).unwrap_or_default())?;
    access.refuse_loss(request, conn)?;
    Ok(Answer::empty())
}

/// Removes a deleted role from the configurations that assign it.
pub const ON_ROLE_LEAVING: Reaction = Reaction {
    resource: "roles",
    when: ReactionTime::Leaving,
    run: |_, conn, id| {
        conn.exec(&Sql::new("DELETE FROM single_sign_on_roles WHERE role_id = $1").arg(id))?;
        Ok(())
    },
};

/// Deletes the identities and tickets of a user who is deleted or anonymized.
pub const ON_USER_LEAVING: Reaction = Reaction {
    resource: "users",
    when: ReactionTime::Leaving,
    run: |_, conn, id| {
        for text in [
            "DELETE FROM single_sign_on_identities WHERE user_id = $1",
            "DELETE FROM single_sign_on_tickets WHERE user_id = $1",
        ] {
            conn.exec(&Sql::new(text).arg(id))?;
        }
        Ok(())
    },
};

/// Converts the refusal of the limit: `detail` is an array, and the code is removed. Only this resource has this form.
fn limit_detail_as_list(mut refusal: Refusal) -> Refusal {
    if let RefusalReason::Limit(detail) = refusal.reason {
        refusal.reason = RefusalReason::LimitAsList(detail);
    }
    refusal
}

/// Adds the errors of an add-in, which is allowed only for `provider_a` and for one configuration per client and tenant.
fn check_docs_addin(
    conn: &mut Conn,
    body: &SentObject<'_>,
    after: &RowAfterWrite,
    id: SingleSignOnId,
    errors: &mut Errors,
) -> Result<(), StoreError> {
    let fields = [DOCS_ADDIN.name(), PROVIDER.name(), CLIENT_ID.name(), TENANT_ID.name()];
    let is_wrong = |name: &&str| errors.has_field(name);
    if fields[..2].iter().any(is_wrong) {
        return Ok(());
    }
    if body.contains_key(DOCS_ADDIN.name()) && after.get(&PROVIDER).as_deref() != Some("provider_a") {
        errors.add(DOCS_ADDIN.name(), "Provider must be `provider_a`");
        return Ok(());
    }
    if fields.iter().any(is_wrong) || after.get(&DOCS_ADDIN) != Some(true) {
        return Ok(());
    }
    let sql = Sql::new(
        "SELECT 1 FROM single_sign_on WHERE is_docs_addin_enabled = 1 AND client_id = $1 AND tenant_id = $2 AND id <> $3",
    );
    let sql = sql.arg(after.get(&CLIENT_ID)).arg(after.get(&TENANT_ID)).arg(id);
    if conn.query_optional(&sql, |_| Ok(()))?.is_some() {
        errors.add(DOCS_ADDIN.name(), message::UNIQUE);
    }
    Ok(())
}

/// Returns the error of [`check_docs_addin`] if another request at the same time has enabled an add-in.
fn second_docs_addin(refusal: Refusal) -> Refusal {
    match refusal.cause.as_deref() {
        Some(StoreError::Unique(index)) if index == DOCS_ADDIN_INDEX => {
            Refusal::field(DOCS_ADDIN.name(), message::UNIQUE)
        }
        _ => refusal,
    }
}

/// Returns the roles that a change assigns: the added ones, and all roles if other people may get them after the change.
fn given_roles(before: &Changes, after: &RowAfterWrite) -> Vec<i64> {
    let differs = |key: &FieldKey<String>| after.get(key) != before.get(key);
    let begins = |key: &FieldKey<bool>| after.get(key) == Some(true) && before.get(key) != Some(true);
    let to_others = differs(&CLIENT_ID) || differs(&TENANT_ID) || begins(&IS_ENABLED) || begins(&AUTO_CREATE_USER);
    let role_ids = before.get(&ROLES).unwrap_or_default();
    let roles = after.get(&ROLES).unwrap_or_default();
    roles.into_iter().filter(|role| to_others || !role_ids.contains(role)).collect()
}

/// Returns whether the stored secret would be sent to another tenant or client. The body must then contain the secret.
fn redirects_secret(before: &Changes, after: &RowAfterWrite) -> bool {
    [&CLIENT_ID, &TENANT_ID].iter().any(|key| after.get(key) != before.get(key))
}

/// Writes the addresses and `_meta`.
fn write_meta(
    out: &mut JsonWriter,
    form: RowForm,
    row: &RowCells<'_>,
    at: usize,
    request: &Request,
) -> Result<(), StoreError> {
    let id = SingleSignOnId::new(row.int(at)?.unwrap_or(0));
    out.name("redirect_uri").text(&endpoint_address(&request.app, &request.build, id, "callback"));
    if form == RowForm::Detail {
        out.name("logout_url").text(&endpoint_address(&request.app, &request.build, id, "logout"));
    }
    out.name("_meta").raw("{").name("labels").raw("{").name("roles").raw("[");
    for name in row.text(at + 1)?.unwrap_or("").split('\n').filter(|name| !name.is_empty()) {
        out.comma().text(name);
    }
    out.raw("]").name("vouched_by").opt_text(row.text(at + 2)?).raw("}");
    if let Some(caller) = request.caller.as_deref() {
        let holds = |action: &'static str| (action, caller.has_permission("single_sign_on", action));
        write_permissions(out, &ACTIONS.map(holds));
    }
    out.raw("}");
    Ok(())
}
