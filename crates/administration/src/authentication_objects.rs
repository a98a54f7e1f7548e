//! Authentication objects: `/api/authentication-objects/` (`docs/reference/mail.md`), the credentials with which this server signs
//! in to other services. A secret can be written, but answers never contain it.

use crate::client_credentials::{ROW_KEY_COLUMN, SECRET_COLUMN, TABLE, VENDOR};
use crate::smtp_settings;
use http::StatusCode;
use kit::answer::{Answer, Outcome};
use kit::limits::{Limit, LimitSummary};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::Route;
use kit::rows::{self, Declaration, RowCells, RowShape, Scope, write_permissions};
use reqwest::Url;
use resource::json::{JsonWriter, RowForm};
use resource::{
    Changes, Errors, Field, FieldKey, FieldKind, LINE, Resource, RowAfterWrite, UNDIRECTED, message, openapi,
};
use std::sync::LazyLock;
use store::{Conn, StoreError};

const PROVIDERS: &[(&str, &str)] = &[(VENDOR, "Vendor client credentials"), ("basic", "Basic"), ("bearer", "Bearer")];

/// The maximum number of authentication objects of a build.
pub static AUTHENTICATION_OBJECTS: Limit = Limit {
    name: "authentication_objects",
    default: 100,
    many: "Authentication Objects",
    key: Some("authentication_object"),
    is_counted: true,
    summary: LimitSummary::Counter("authentication_objects"),
    has_slots: false,
};

static NAME: FieldKey<String> = FieldKey::new("name");
static PROVIDER: FieldKey<String> = FieldKey::new("provider");
static CLIENT_ID: FieldKey<String> = FieldKey::new("client_id");
static CLIENT_SECRET: FieldKey<String> = FieldKey::new("client_secret");
static TOKEN_URL: FieldKey<String> = FieldKey::new("token_url");
static SCOPE: FieldKey<String> = FieldKey::new("scope");

/// The fields that decide who receives the tokens for outbound mail. While the mail settings use the object, only super admins may
/// change them. Each secret in a request counts as a change, so that callers cannot test guesses of the stored secret.
static SUPER_ADMIN_FIELDS: [&FieldKey<String>; 4] = [&TOKEN_URL, &CLIENT_ID, &CLIENT_SECRET, &SCOPE];

static OBJECT: LazyLock<Resource> = LazyLock::new(|| {
    let [created_at, created_by, modified_at, modified_by] = Field::audit();
    Resource::new(
        "authentication_objects",
        "AuthenticationObject",
        TABLE,
        [
            Field::id(),
            NAME.text(100)
                .charset(UNDIRECTED)
                .required()
                .unique("authentication_objects_name")
                .folded()
                .filter()
                .sort(),
            PROVIDER.declare(FieldKind::choices(PROVIDERS)).required().filter(),
            CLIENT_ID.text(255).charset(LINE).default(""),
            CLIENT_SECRET
                .declare(FieldKind::Secret { min: 0, max: 1000 })
                .not_blank()
                .encrypted(SECRET_COLUMN, ROW_KEY_COLUMN),
            TOKEN_URL.declare(FieldKind::Url { max: 500 }).default(""),
            SCOPE.text(500).charset(LINE).default(""),
            created_at.sort(),
            created_by,
            modified_at.sort(),
            modified_by,
        ],
    )
    .limit(&AUTHENTICATION_OBJECTS)
    .with_extra_schemas(|_| vec![("_meta", openapi::meta(ACTIONS))])
});

/// The actions in `_meta`.
const ACTIONS: [&str; 5] = ["list", "view", "create", "edit", "delete"];

static SHAPE: RowShape = RowShape::new(Declaration::Static(&OBJECT), "", write_meta);

pub fn routes() -> Vec<Route> {
    const ALL: &str = "/api/authentication-objects/";
    const ONE: &str = "/api/authentication-objects/{id}/";
    let name = "authentication_objects";
    vec![
        Route::list(ALL, &OBJECT, list).requires(name, "list"),
        Route::create(ALL, &OBJECT, create).requires(name, "create"),
        Route::options_below(ALL, |_, conn| Ok(Answer::value(&rows::document(conn, &OBJECT)?))),
        Route::view(ONE, &OBJECT, view).requires(name, "view"),
        Route::edit(ONE, &OBJECT, edit).requires(name, "edit"),
        Route::delete(ONE, delete).requires(name, "delete"),
    ]
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    rows::list(request, conn, &SHAPE, Scope::matching("1 = 1").cacheable())
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    Ok(Answer::instance(StatusCode::OK, rows::view_id(request, conn, &SHAPE, request.id())?))
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let accepted = rows::check_body(conn, &OBJECT, &request.object()?, None)?;
    let (changes, mut errors) = (accepted.changes, accepted.errors);
    check(&RowAfterWrite { before: None, sent: &changes }, false, &mut errors);
    errors.refuse()?;
    let id = rows::insert(request, conn, &OBJECT, &changes, &[])?;
    rows::created_answer(request, conn, &SHAPE, id)
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    let before = rows::load_for_change(request, conn, &SHAPE, id)?;
    let body = request.object()?;
    let accepted = rows::check_body(conn, &OBJECT, &body, Some(id))?;
    let (changes, mut errors) = (accepted.changes, accepted.errors);
    let is_used = smtp_settings::is_used_for_mail(conn, id)?;
    let is_other =
        || SUPER_ADMIN_FIELDS.iter().any(|key| smtp_settings::sends_another(key.name(), &body, &before, &changes));
    if is_used && is_other() && !request.caller()?.is_super() {
        return Err(Refusal::forbidden());
    }
    let has_secret = rows::has_secret(&before, &CLIENT_SECRET);
    check(&RowAfterWrite { before: Some(&before), sent: &changes }, has_secret, &mut errors);
    if has_secret
        && changes_token_url(&before, &changes)
        && !changes.contains(&CLIENT_SECRET)
        && !errors.has_field(CLIENT_SECRET.name())
    {
        errors.add(CLIENT_SECRET.name(), message::REQUIRED);
    }
    let leaves_vendor = changes.get(&PROVIDER).is_some_and(|provider| provider != VENDOR);
    if leaves_vendor && is_used {
        errors.add(PROVIDER.name(), smtp_settings::IN_USE);
    }
    errors.refuse()?;
    rows::update(request, conn, &OBJECT, id, &before, &changes, &[])?;
    rows::edited_answer(request, conn, &SHAPE, id)
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    let before = rows::load_for_change(request, conn, &SHAPE, id)?;
    rows::delete(request, conn, &OBJECT, id, &before.get(&NAME).unwrap_or_default())?;
    Ok(Answer::empty())
}

/// Checks the token URL and the fields of an object of the vendor. The URL must be a web address without credentials, since answers
/// show it. An object of the vendor needs every field of a token request.
fn check(after: &RowAfterWrite, has_secret: bool, errors: &mut Errors) {
    let url = after.get(&TOKEN_URL).unwrap_or_default();
    if !url.is_empty() && !errors.has_field(TOKEN_URL.name()) && !is_token_url(&url) {
        errors.add(TOKEN_URL.name(), message::URL);
    }
    if after.get(&PROVIDER).as_deref() != Some(VENDOR) {
        return;
    }
    let is_empty = |key: &FieldKey<String>| after.get(key).is_none_or(|text| text.is_empty());
    for (key, is_missing) in [
        (&CLIENT_ID, is_empty(&CLIENT_ID)),
        (&CLIENT_SECRET, is_empty(&CLIENT_SECRET) && !has_secret),
        (&TOKEN_URL, is_empty(&TOKEN_URL)),
    ] {
        if is_missing && !errors.has_field(key.name()) {
            errors.add(key.name(), message::REQUIRED);
        }
    }
}

fn is_token_url(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.has_host() && url.username().is_empty() && url.password().is_none())
}

/// Returns whether the stored secret would be sent to another address. Such a change must contain the secret again.
fn changes_token_url(before: &Changes, changes: &Changes) -> bool {
    changes.get(&TOKEN_URL).is_some_and(|url| Some(url) != before.get(&TOKEN_URL))
}

fn write_meta(
    out: &mut JsonWriter,
    _: RowForm,
    _: &RowCells<'_>,
    _: usize,
    request: &Request,
) -> Result<(), StoreError> {
    out.name("_meta").raw("{");
    if let Some(caller) = request.caller.as_deref() {
        let holds = |action: &'static str| (action, caller.has_permission("authentication_objects", action));
        write_permissions(out, &ACTIONS.map(holds));
    }
    out.raw("}");
    Ok(())
}
