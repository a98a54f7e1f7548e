//! API keys of service accounts: `/api/users/{id}/api-keys/` (`docs/reference/api-keys.md`). `key_callers.rs` identifies their
//! callers.

use crate::key_callers::{permissions_of_account, random_key};
use crate::users::create;
use crate::users::user::USERNAME;
use crate::users::view::load;
use http::StatusCode;
use kit::account_type::AccountType;
use kit::answer::{Answer, Outcome, etag};
use kit::ids::UserId;
use kit::limits::{self, Limit};
use kit::log;
use kit::permission_set::grants_schema;
use kit::permissions::{Permissions, accept_held_grants};
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::route::{Route, Schema};
use kit::rows::{self, Declaration, RowShape, Scope};
use resource::json::RowForm;
use resource::{
    Changes, CheckedValue, Errors, Field, FieldKey, FieldKind, Resource, UNDIRECTED, message, openapi, time,
};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;
use store::{Conn, Sql, StoreError};

/// The maximum number of keys of an account. The limits of the API do not contain it.
static API_KEYS: Limit = Limit { name: "api_keys", default: 20, many: "API Keys", ..Limit::EMPTY };
/// The maximum time until a key expires, in microseconds.
const LONGEST_US: i64 = 366 * 86_400_000_000;

const COLLECTION: &str = "/api/users/{user_id}/api-keys/";
const ONE: &str = "/api/users/{user_id}/api-keys/{id}/";
/// The permission of these routes in the description.
const BY: &str = "an account of type super_admin";

static NAME: FieldKey<String> = FieldKey::new("name");
static PERMISSIONS: FieldKey<Json> = FieldKey::new("permissions");
static EXPIRES_AT: FieldKey<i64> = FieldKey::new("expires_at");

/// An API key without the key itself.
static KEY: LazyLock<Resource> = LazyLock::new(|| {
    let [created_at, created_by, _, _] = Field::audit();
    let fields = [
        Field::id(),
        NAME.text(100)
            .charset(UNDIRECTED)
            .min_length(1)
            .example("Nightly import")
            .required()
            .unique("api_keys_name")
            .folded()
            .filter()
            .sort(),
        Field::new("prefix", FieldKind::text(12)).read_only(),
        PERMISSIONS.declare(FieldKind::Object).schema(grants_schema).nullable().required(),
        EXPIRES_AT.datetime().required().sort(),
        created_at.sort(),
        created_by,
        Field::new("last_used_at", FieldKind::DateTime).read_only().nullable(),
    ];
    Resource::new("api_keys", "ApiKey", "api_keys", fields).limit_items(API_KEYS.default)
});

static SHAPE: RowShape = RowShape::from_declaration(Declaration::Static(&KEY));

pub fn routes() -> Vec<Route> {
    vec![
        Route::list(COLLECTION, &KEY, list).instance(BY),
        Route::create(COLLECTION, &KEY, create)
            .answers(201, Schema::OneOf(created_schema))
            .instance(BY)
            .answers_secret()
            .without_keys(),
        Route::options_below(COLLECTION, document),
        Route::view(ONE, &KEY, view).instance(BY),
        Route::delete(ONE, delete).instance(BY),
    ]
}

fn created_schema() -> Json {
    let mut schema = openapi::response(&KEY, RowForm::Detail);
    let key = json!({"type": "string", "description": "Shown here alone; it is stored as a hash"});
    openapi::require(&mut schema, "key", key);
    openapi::titled("ApiKeyCreated", schema)
}

fn document(request: &Request, conn: &mut Conn) -> Outcome {
    existing_user(request, conn)?;
    Ok(Answer::value(&rows::document(conn, &KEY)?))
}

/// Returns the id of the path's account. Refuses with 404 if it does not exist.
fn existing_user(request: &Request, conn: &mut Conn) -> Result<UserId, Refusal> {
    let user = request.id::<UserId>();
    if rows::existing_ids(conn, "users", &[user.get()])?.is_empty() { Err(Refusal::not_found()) } else { Ok(user) }
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    require_super_admin(request)?;
    let user = existing_user(request, conn)?;
    rows::list(request, conn, &SHAPE, Scope::matching(Sql::new("t.user_id = $1").arg(user)))
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    require_super_admin(request)?;
    let id = own_key(request, conn)?;
    Ok(Answer::instance(StatusCode::OK, rows::view_id(request, conn, &SHAPE, id)?))
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    require_super_admin(request)?;
    let user = request.id::<UserId>();
    // The lock of the account's row makes the limit exact.
    let account = load(conn, user)?;
    if !create::type_in(&account)?.is_service() {
        return Err(Refusal::bad_request("Action is not available."));
    }
    let accepted = rows::accepted_within(conn, &KEY, &request.object()?, None, ("user_id", user.get()))?;
    let (mut changes, mut errors) = (accepted.changes, accepted.errors);
    check_expiry(request, &changes, &mut errors);
    narrow(conn, user, &mut changes, &mut errors)?;
    errors.refuse()?;
    let count = Sql::new("SELECT count(*) FROM api_keys WHERE user_id = $1").arg(user);
    let count = conn.query_one(&count, |row| row.int(0))?;
    limits::check_bound(&API_KEYS, API_KEYS.default, count + 1)?;
    let (new, prefix) = random_key();
    let columns = [("user_id", user.into()), ("prefix", prefix.into()), ("hash", new.hash.into())];
    let id = rows::insert_row(conn, &KEY, &changes, &columns, request.now, Some(request.caller()?.user))?;
    let name = logged_name(&account, &changes);
    log::write(request, conn, "create", &KEY, id, &name, log::diff_of_create(&KEY, &changes))?;
    let instance = rows::view_id(request, conn, &SHAPE, id)?;
    let tag = etag(&instance);
    Ok(Answer { tag: Some(tag), ..Answer::instance(StatusCode::CREATED, instance.with_secret("key", &new.text)) })
}

/// Adds an error if the expiry is past or more than a year ahead.
fn check_expiry(request: &Request, changes: &Changes, errors: &mut Errors) {
    let Some(expires_at) = changes.get(&EXPIRES_AT) else { return };
    let latest = request.now + LONGEST_US;
    if expires_at <= request.now {
        errors.add(EXPIRES_AT.name(), message::NOT_IN_FUTURE);
    } else if expires_at > latest {
        errors.add(EXPIRES_AT.name(), message::too_big(time::show(latest)));
    }
}

/// Replaces the permissions of the body by all permissions that they imply. Adds errors for those that the account lacks.
fn narrow(conn: &mut Conn, user: UserId, changes: &mut Changes, errors: &mut Errors) -> Result<(), StoreError> {
    let Some(Json::Object(grants)) = changes.get(&PERMISSIONS) else { return Ok(()) };
    match accept_held_grants(&grants, permissions_of_account(conn, user)?) {
        Ok(granted) => changes.set(&PERMISSIONS, CheckedValue::Json(Permissions::to_actions(granted))),
        Err(wrong) => errors.merge(wrong),
    }
    Ok(())
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    require_super_admin(request)?;
    let id = own_key(request, conn)?;
    let before = rows::load_for_change(request, conn, &SHAPE, id)?;
    let username = Sql::new("SELECT username FROM users WHERE id = $1").arg(request.id::<UserId>());
    let mut account = Changes::new();
    account.set(&USERNAME, conn.query_one(&username, |row| Ok(row.text(0)?.to_owned()))?);
    rows::delete(request, conn, &KEY, id, &logged_name(&account, &before))?;
    rights::mark_rights_changed(request, conn)?;
    Ok(Answer::empty())
}

/// Deletes the keys of a deleted or anonymized account.
pub const ON_USER_LEAVING: Reaction = Reaction {
    resource: "users",
    when: ReactionTime::Leaving,
    run: |_, conn, id| Ok(conn.exec(&Sql::new("DELETE FROM api_keys WHERE user_id = $1").arg(id)).map(drop)?),
};

/// Refuses callers other than super admins, as for passwords. A service account has all their permissions, but sets no passwords.
fn require_super_admin(request: &Request) -> Result<(), Refusal> {
    if request.caller()?.account_type == AccountType::SuperAdmin { Ok(()) } else { Err(Refusal::forbidden()) }
}

/// Returns the id of the path's key, which belongs to the path's account. Refuses with 404 otherwise.
fn own_key(request: &Request, conn: &mut Conn) -> Result<i64, Refusal> {
    let sql = Sql::new(
        "SELECT k.id FROM api_keys k JOIN users u ON u.id = k.user_id WHERE k.id = $1 AND u.id = $2 AND u.is_deleted = 0",
    );
    let sql = sql.arg(request.second_id::<UserId>()).arg(request.id::<UserId>());
    conn.query_optional(&sql, |row| row.int(0))?.ok_or_else(Refusal::not_found)
}

/// Returns the name of a key in the log: `{username}: {name}`.
fn logged_name(account: &Changes, key: &Changes) -> String {
    format!("{}: {}", account.get(&USERNAME).unwrap_or_default(), key.get(&NAME).unwrap_or_default())
}
