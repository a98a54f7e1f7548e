//! Users: `/api/users/` (`docs/reference/users.md`).

pub mod actions;
mod autocomplete;
pub mod create;
pub mod me;
pub(crate) mod rename;
pub mod rules;
pub mod user;
pub mod view;

pub use actions::migrate_anonymized;
pub use rename::RENAMED;

use crate::hasher::QueuePath;
use crate::passwords::{self, HashedPassword};
use crate::sessions;
use crate::super_admin_access;
use http::StatusCode;
use kit::account_type::AccountType;
use kit::answer::{Answer, Outcome};
use kit::commit::{write, write_answer};
use kit::ids::UserId;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, HandlerFuture, Route, Schema};
use kit::{limits, log, reactions, rights, rows};
use resource::openapi::titled;
use resource::{Changes, RowAfterWrite, options};
use rules::{ServicePasswords, limit_of};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use store::{Conn, Sql};
use user::{
    ACCOUNT_TYPE, FIRST_NAME, FULL_NAME, IS_RESTRICTED, LAST_NAME, PASSWORD, RANGES, ROLES, USER, USER_RANGES,
    account_type,
};
use view::{LIST, load, scope};

pub fn routes() -> Vec<Route> {
    let mut routes = vec![
        Route::list("/api/users/", &USER, list).summary("The users whom the caller may list"),
        Route::create_async("/api/users/", &USER, create).requires("users", "create"),
        Route::options_below("/api/users/", schema_document),
        Route::new(
            http::Method::GET,
            "/api/users/permissions/",
            "The permissions of the caller",
            Handler::NoDatabase(permissions),
        )
        .answers(200, Schema::Json(permissions_schema))
        .while_lacking_factor(),
        Route::view("/api/users/{id}/", &USER, view).requires("users", "view"),
        Route::edit_async("/api/users/{id}/", &USER, edit).requires("users", "edit"),
        Route::delete("/api/users/{id}/", delete).requires("users", "delete"),
    ];
    routes.extend(actions::routes());
    routes.extend(autocomplete::routes());
    routes.extend(me::routes());
    routes
}

/// Returns the schema of the caller's permissions, by resource and action.
pub fn permissions_schema() -> Json {
    let actions = json!({"type": "object", "additionalProperties": {"type": "boolean"}});
    titled("OwnPermissions", json!({"type": "object", "additionalProperties": actions}))
}

fn permissions(request: &Request) -> Outcome {
    Ok(Answer::value(&request.caller()?.permissions.to_json()))
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let scope = scope(request.caller()?, conn, request.now)?;
    rows::list(request, conn, &LIST, scope)
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    view::answer(request, conn, StatusCode::OK, request.id())
}

fn schema_document(_: &Request, conn: &mut Conn) -> Outcome {
    let mut document = options::document(&USER);
    let most = limits::value(conn, &USER_RANGES)?;
    let schema = document["details"]["schema"].as_array_mut();
    if let Some(ranges) = schema.and_then(|fields| fields.iter_mut().find(|field| field["alias"] == RANGES.name())) {
        ranges["validators"] = json!([{"name": "max_items", "value": most}]);
    }
    Ok(Answer::value(&document))
}

fn create(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let body = request.object()?;
        let text = |name| body.get(name).and_then(|value| value.as_str());
        let is_service =
            text("account_type").and_then(|name| AccountType::parse(&name)).is_some_and(AccountType::is_service);
        let value = text("password").filter(|_| is_service);
        let prepared = match value {
            Some(password) => {
                Some(passwords::prepare(&request.app, &QueuePath::request_path(&request), &password, None).await?)
            }
            None => None,
        };
        write_answer(&request, move |request, conn| {
            let id = create_user(request, conn, prepared.as_ref())?;
            view::answer(request, conn, StatusCode::CREATED, id)
        })
        .await
    })
}

fn create_user(request: &Request, conn: &mut Conn, prepared: Option<&HashedPassword>) -> Result<UserId, Refusal> {
    let caller = request.caller()?;
    let (body, too_many) = rules::bounded_ranges(conn, request.object()?)?;
    let mut accepted = rows::check_body(conn, &USER, &body, None)?;
    accepted.errors.merge(too_many);
    if account_type(&accepted.changes).is_some_and(AccountType::is_super) && !caller.is_super() {
        return Err(Refusal::forbidden());
    }
    if caller.key.is_some() && account_type(&accepted.changes).is_some_and(AccountType::is_service) {
        // A key sets no passwords, and these accounts require one.
        return Err(Refusal::forbidden());
    }
    rules::require_role_grant(conn, caller, &[], &accepted.changes.get(&ROLES).unwrap_or_default())?;
    rules::password_on_create(conn, &accepted.changes, &body, prepared, &mut accepted.errors)?;
    accepted.errors.refuse()?;
    let changes = accepted.changes;
    rules::over_several_fields(&RowAfterWrite { before: None, sent: &changes }).refuse()?;
    create::insert(request, conn, create::type_in(&changes)?, changes, prepared)
}

fn edit(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let id = request.id();
        // Only super admins set passwords here, and only those of service accounts. Other passwords are not hashed.
        let is_super_admin = request.caller()?.account_type == AccountType::SuperAdmin;
        let value = request.object().ok().and_then(|body| Some(body.get("password")?.as_str()?.into_owned()));
        let prepared = match value.filter(|_| is_super_admin) {
            Some(password) => {
                let service = request.build.db.read_short(move |conn| rules::passwords_of_service(conn, id)).await?;
                match service {
                    Some(ServicePasswords { salt }) => Some(
                        passwords::prepare(&request.app, &QueuePath::request_path(&request), &password, salt).await?,
                    ),
                    None => None,
                }
            }
            None => None,
        };
        write(&request, move |request, conn| {
            edit_user(request, conn, prepared.as_ref())?;
            view::answer(request, conn, StatusCode::OK, request.id())
        })
        .await
    })
}

fn edit_user(request: &Request, conn: &mut Conn, prepared: Option<&HashedPassword>) -> Result<(), Refusal> {
    let (caller, id) = (request.caller()?, request.id());
    let before = load(conn, id)?;
    let current_type = create::type_in(&before)?;
    rules::require_change(caller, current_type)?;
    rules::require_other_account(caller, id)?;
    request.check_if_match(|| view::tag(request, conn, id))?;
    let (body, too_many) = rules::bounded_ranges(conn, request.object()?)?;
    let sets_password = body.contains_key("password") && current_type.is_service();
    if sets_password && caller.account_type != AccountType::SuperAdmin {
        return Err(Refusal::forbidden());
    }
    let mut accepted = rows::check_body(conn, &USER, &body, Some(id.get()))?;
    accepted.errors.merge(too_many);
    let new_type = account_type(&accepted.changes).unwrap_or(current_type);
    if new_type.is_super() && !caller.is_super() {
        return Err(Refusal::forbidden());
    }
    let role_ids = before.get(&ROLES).unwrap_or_default();
    rules::require_role_grant(conn, caller, &role_ids, &accepted.changes.get(&ROLES).unwrap_or_default())?;
    let is_renamed = rename::is_change(&before, &accepted.changes);
    if is_renamed {
        rename::require_rename(conn, caller, id, &before)?;
    }
    if sets_password {
        rules::password_on_edit(conn, id, &accepted.changes, prepared, &mut accepted.errors)?;
    }
    accepted.errors.refuse()?;
    let mut changes = accepted.changes;
    let mut errors = rules::over_several_fields(&RowAfterWrite { before: Some(&before), sent: &changes });
    rules::account_type_change(current_type, new_type, &mut errors);
    errors.refuse()?;
    if new_type != current_type && new_type != AccountType::Full {
        changes.set(&ROLES, resource::CheckedValue::List(Vec::new()));
    }
    if changes.contains(&FIRST_NAME) || changes.contains(&LAST_NAME) {
        changes.set(&FULL_NAME, rules::full_name(&RowAfterWrite { before: Some(&before), sent: &changes }));
    }
    let prepared = prepared.filter(|_| sets_password && changes.contains(&PASSWORD));
    if prepared.is_none() {
        changes.remove(&PASSWORD);
    }
    store_edit(request, conn, &before, Edit { changes, current_type, new_type, is_renamed, prepared })
}

/// An accepted PATCH of a user.
struct Edit<'a> {
    changes: Changes,
    current_type: AccountType,
    new_type: AccountType,
    is_renamed: bool,
    /// The new password of a service account.
    prepared: Option<&'a HashedPassword>,
}

/// Stores a PATCH with the consequences of another username, account type or password.
fn store_edit(request: &Request, conn: &mut Conn, before: &Changes, edit: Edit) -> Result<(), Refusal> {
    let (id, Edit { changes, current_type, new_type, is_renamed, prepared }) = (request.id::<UserId>(), edit);
    let has_new_type = new_type != current_type;
    let is_concerned = current_type == AccountType::SuperAdmin && (has_new_type || is_renamed);
    let access = super_admin_access::guard(request, conn, is_concerned)?;
    let extra = prepared.map(|prepared| prepared.columns(request.now)).unwrap_or_default();
    rows::update(request, conn, &USER, id.get(), before, &changes, &extra)?;
    if is_renamed {
        rename::apply_rename(request, conn, id, before, rename::RenamedBy::Caller(request.caller()?))?;
    }
    access.refuse_loss(request, conn)?;
    // An anonymized user counts as anonymized for all types.
    if has_new_type && actions::stored_status(conn, id)? != "anonymized" {
        limits::change(conn, limit_of(current_type), limit_of(new_type))?;
    }
    if let Some(prepared) = prepared {
        passwords::add_to_history(conn, id, prepared)?;
        sessions::end_all(conn, id, request.now, None)?;
    }
    let touches_rights = changes.contains(&ACCOUNT_TYPE)
        || changes.contains(&ROLES)
        || changes.contains(&IS_RESTRICTED)
        || changes.contains(&RANGES);
    if touches_rights || is_renamed || prepared.is_some() {
        rights::mark_rights_changed(request, conn)?;
    }
    Ok(())
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let (caller, id) = (request.caller()?, request.id());
    let before = load(conn, id)?;
    let account_type = create::type_in(&before)?;
    rules::require_change(caller, account_type)?;
    rules::require_other_account(caller, id)?;
    request.check_if_match(|| view::tag(request, conn, id))?;
    let access = super_admin_access::guard(request, conn, account_type == AccountType::SuperAdmin)?;
    reactions::run(request, conn, "users", reactions::ReactionTime::Leaving, id.get())?;
    let is_anonymized = actions::stored_status(conn, id)? == "anonymized";
    let sql = Sql::new("UPDATE users SET is_deleted = 1, modified_at = $1, modified_by = $2 WHERE id = $3")
        .arg(request.now)
        .arg(caller.user)
        .arg(id);
    conn.exec(&sql)?;
    access.refuse_loss(request, conn)?;
    limits::give_back(conn, if is_anonymized { &actions::ANONYMIZED } else { limit_of(account_type) })?;
    log::write(request, conn, "delete", &USER, id.get(), &log::name_of(&before), log::Diff::new())?;
    rights::mark_rights_changed(request, conn)?;
    Ok(Answer::empty())
}
