//! Values that front ends store for a user, by key: `/api/users/me/preferences/` (`docs/reference/preferences.md`).

use http::{Method, StatusCode};
use kit::answer::{Answer, Outcome, etag};
use kit::ids::UserId;
use kit::limits::{self, Limit, LimitSummary};
use kit::path::unchecked_text;
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use kit::rows::{self, Declaration, RowShape, Scope};
use resource::{Charset, CheckedValue, Field, FieldKey, FieldKind, Resource, check_value, message};
use std::sync::LazyLock;
use store::{Conn, Sql, StoreError};

/// The maximum number of preferences of a user.
pub static PREFERENCES: Limit = Limit {
    name: "user_preferences",
    default: 100,
    many: "User Preferences",
    summary: LimitSummary::Additional("user_preferences"),
    ..Limit::EMPTY
};

/// The maximum length of a key, in characters.
const MAX_KEY: usize = 100;
/// The maximum size of a value, in bytes.
const MAX_VALUE: usize = 64 * 1024;
/// The maximum number of nested levels of lists and objects in a value.
const MAX_LEVELS: usize = 32;

const COLLECTION: &str = "/api/users/me/preferences/";
const ONE: &str = "/api/users/me/preferences/{key}/";

static KEY: FieldKey<String> = FieldKey::new("key");
static VALUE: FieldKey<serde_json::Value> = FieldKey::new("value");

/// The characters of a key. The first one is a letter or a digit.
const CHARACTERS: Charset =
    Charset { allows: |c| matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '-'), regex: "^[a-z0-9][a-z0-9._-]*$" };

/// The declaration of a preference. Preferences are private to their user, so they are not in the administration log.
static PREFERENCE: LazyLock<Resource> = LazyLock::new(|| {
    let json = FieldKind::Json { max_bytes: MAX_VALUE, max_depth: MAX_LEVELS };
    let modified_at = Field::new("modified_at", FieldKind::DateTime).read_only();
    Resource::new(
        "user_preferences",
        "UserPreference",
        "user_preferences",
        [
            KEY.text(MAX_KEY).charset(CHARACTERS).read_only().filter().sort().example("records.columns"),
            VALUE.declare(json).required().example(serde_json::json!({"columns": ["title"]})),
            modified_at,
        ],
    )
    .limit_items(PREFERENCES.default)
    .unlogged()
});

static SHAPE: RowShape = RowShape::from_declaration(Declaration::Static(&PREFERENCE));

pub fn routes() -> Vec<Route> {
    let put = Route::new(Method::PUT, ONE, "Create or replace", Handler::Write(save));
    vec![
        Route::list(COLLECTION, &PREFERENCE, |request, conn| {
            let own = user_condition(request.caller()?.user);
            rows::list(request, conn, &SHAPE, Scope::matching(own).cacheable())
        }),
        Route::options_below(COLLECTION, |_, conn| {
            let mut document = rows::document(conn, &PREFERENCE)?;
            document["restrictions"]["limit_items"] = limits::value(conn, &PREFERENCES)?.into();
            Ok(Answer::value(&document))
        }),
        Route::view(ONE, &PREFERENCE, view).also_answers(400, Schema::Refusal),
        put.with_body(Schema::Body(&PREFERENCE, true))
            .answers(200, Schema::One(&PREFERENCE))
            .also_answers(201, Schema::One(&PREFERENCE))
            .action("replace"),
        Route::delete(ONE, delete),
    ]
}

fn user_condition(user: UserId) -> Sql {
    Sql::new("t.user_id = $1").arg(user)
}

fn own_condition(request: &Request, key: &str) -> Result<Sql, Refusal> {
    let mut own = user_condition(request.caller()?.user);
    own.push(" AND t.key = ").bind(key);
    Ok(own)
}

/// Returns the key of the path. Refuses with 400 a key that breaks the rules.
fn key(request: &Request) -> Result<String, Refusal> {
    let key = unchecked_text(request.name());
    let begins = key.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    match begins && key.len() <= MAX_KEY && key.chars().all(CHARACTERS.allows) {
        true => Ok(key),
        false => Err(Refusal::field(KEY.name(), message::VALUE)),
    }
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    answer(request, conn, StatusCode::OK, &key(request)?)
}

fn answer(request: &Request, conn: &mut Conn, status: StatusCode, key: &str) -> Outcome {
    let instance = rows::view(request, conn, &SHAPE, &own_condition(request, key)?)?;
    Ok(Answer::instance(status, instance.ok_or_else(Refusal::not_found)?))
}

/// Creates a preference, or replaces its value.
fn save(request: &Request, conn: &mut Conn) -> Outcome {
    let (key, user) = (key(request)?, request.caller()?.user);
    let value = check_body(request)?;
    let before = stored_for_change(request, conn, &key)?;
    let sql = match before {
        Some(id) => Sql::new("UPDATE user_preferences SET value = $1, modified_at = $2 WHERE id = $3")
            .arg(value)
            .arg(request.now)
            .arg(id),
        None => {
            let count = Sql::new("SELECT count(*) FROM user_preferences WHERE user_id = $1").arg(user);
            let count = conn.query_one(&count, |row| row.int(0))?;
            limits::check(conn, &PREFERENCES, count, 1)?;
            Sql::new("INSERT INTO user_preferences(user_id, key, value, modified_at) VALUES ($1, $2, $3, $4)")
                .arg(user)
                .arg(&key)
                .arg(value)
                .arg(request.now)
        }
    };
    conn.exec(&sql)?;
    let status = if before.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    answer(request, conn, status, &key)
}

/// Returns the value of a body as its text. Any JSON is a value, also null.
fn check_body(request: &Request) -> Result<String, Refusal> {
    let body = request.object()?;
    let value = body.get(VALUE.name()).ok_or_else(|| Refusal::field(VALUE.name(), message::REQUIRED))?;
    if value.is_null() {
        return Ok("null".to_owned());
    }
    let field = PREFERENCE.field(VALUE.name()).ok_or_else(|| StoreError::internal("a field is not declared"))?;
    let mut errors = resource::Errors::new();
    match check_value(field, value) {
        Ok(CheckedValue::JsonText(text)) => return Ok(text),
        Ok(_) => errors.add(VALUE.name(), message::VALUE),
        Err(wrong) => wrong.into_iter().for_each(|wrong| errors.add(VALUE.name(), wrong)),
    }
    Err(errors.into())
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let key = key(request)?;
    let id = stored_for_change(request, conn, &key)?.ok_or_else(Refusal::not_found)?;
    conn.exec(&Sql::new("DELETE FROM user_preferences WHERE id = $1").arg(id))?;
    Ok(Answer::empty())
}

/// Returns the id of the caller's preference of a key, if `If-Match` matches. Locks the caller's row, so that preferences are
/// counted one after the other.
fn stored_for_change(request: &Request, conn: &mut Conn, key: &str) -> Result<Option<i64>, Refusal> {
    let user = request.caller()?.user;
    conn.query_optional(&Sql::new("SELECT id FROM users WHERE id = $1 FOR NO KEY UPDATE").arg(user), |_| Ok(()))?;
    let sql = Sql::new("SELECT id FROM user_preferences WHERE user_id = $1 AND key = $2").arg(user).arg(key);
    let id = conn.query_optional(&sql, |row| row.int(0))?;
    let own = own_condition(request, key)?;
    request.check_if_match(|| match rows::view(request, conn, &SHAPE, &own)? {
        Some(shown) => Ok(etag(&shown)),
        None if request.method == Method::DELETE => Err(Refusal::not_found()),
        None => Err(Refusal::detail(StatusCode::PRECONDITION_FAILED, "Object has been changed.")),
    })?;
    Ok(id)
}

/// Deletes the preferences of a user who is deleted or anonymized, since they may contain personal data.
pub const ON_USER_LEAVING: Reaction = Reaction {
    resource: "users",
    when: ReactionTime::Leaving,
    run: |_, conn, user| {
        conn.exec(&Sql::new("DELETE FROM user_preferences WHERE user_id = $1").arg(user))?;
        Ok(())
    },
};
