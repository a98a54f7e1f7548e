//! Authentication objects: `/api/authentication-objects/` (`docs/reference/mail.md`), the credentials with which this
//! server signs in to other services. A secret can be written, but no answer contains it.

use crate::client_credentials::{ROW_KEY_COLUMN, SECRET_COLUMN, TABLE, VENDOR};
use crate::smtp_settings;
use http::StatusCode;
use kit::answer::{Answer, Outcome};
use kit::limits::{Limit, LimitSummary};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::Route;
use kit::rows::{self, Cell, Declaration, Scope, Shape, write_permissions};
use reqwest::Url;
use resource::json::{Form, Writer};
use resource::{After, Changes, Errors, Field, Key, Kind, LINE, Resource, UNDIRECTED, message, openapi};
use std::sync::LazyLock;
use store::{Conn, Error};

const PROVIDERS: &[(&str, &str)] = &[(VENDOR, "Vendor client credentials"), ("basic", "Basic"), ("bearer", "Bearer")];

/// The limit on how many authentication objects a build may have.
pub static AUTHENTICATION_OBJECTS: Limit = Limit {
    name: "authentication_objects",
    default: 100,
    many: "Authentication Objects",
    key: Some("authentication_object"),
    is_counted: true,
    summary: LimitSummary::Counter("authentication_objects"),
};

static NAME: Key<String> = Key::new("name");
static PROVIDER: Key<String> = Key::new("provider");
static CLIENT_ID: Key<String> = Key::new("client_id");
static CLIENT_SECRET: Key<String> = Key::new("client_secret");
static TOKEN_URL: Key<String> = Key::new("token_url");
static SCOPE: Key<String> = Key::new("scope");

/// The fields that decide who receives the tokens for outbound mail. While the mail settings use the object, only super
/// admins may change them. Any secret that is sent counts as a change, so that nobody can test guesses of the stored
/// one.
static SUPER_ADMIN_FIELDS: [&Key<String>; 4] = [&TOKEN_URL, &CLIENT_ID, &CLIENT_SECRET, &SCOPE];

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
            PROVIDER.is(Kind::choices(PROVIDERS)).required().filter(),
            CLIENT_ID.text(255).charset(LINE).default(""),
            CLIENT_SECRET.is(Kind::Secret { min: 0, max: 1000 }).not_blank().encrypted(SECRET_COLUMN, ROW_KEY_COLUMN),
            TOKEN_URL.is(Kind::Url { max: 500 }).default(""),
            SCOPE.text(500).charset(LINE).default(""),
            created_at.sort(),
            created_by,
            modified_at.sort(),
            modified_by,
        ],
    )
    .limit(&AUTHENTICATION_OBJECTS)
    .shows(|_| vec![("_meta", openapi::meta(ACTIONS))])
});

/// The actions that `_meta` tells.
const ACTIONS: [&str; 5] = ["list", "view", "create", "edit", "delete"];

static SHAPE: Shape = Shape::new(Declaration::Static(&OBJECT), "", write_meta);

pub fn routes() -> Vec<Route> {
    const ALL: &str = "/api/authentication-objects/";
    const ONE: &str = "/api/authentication-objects/{id}/";
    let name = "authentication_objects";
    vec![
        Route::list(ALL, &OBJECT, list).needs(name, "list"),
        Route::create(ALL, &OBJECT, create).needs(name, "create"),
        Route::options_below(ALL, |_, conn| Ok(Answer::value(&rows::document(conn, &OBJECT)?))),
        Route::view(ONE, &OBJECT, view).needs(name, "view"),
        Route::edit(ONE, &OBJECT, edit).needs(name, "edit"),
        Route::delete(ONE, delete).needs(name, "delete"),
    ]
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    rows::list(request, conn, &SHAPE, Scope::of("1 = 1").cacheable())
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    Ok(Answer::instance(StatusCode::OK, rows::view_id(request, conn, &SHAPE, request.id())?))
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let accepted = rows::accepted(conn, &OBJECT, &request.object()?, None)?;
    let (changes, mut errors) = (accepted.changes, accepted.errors);
    check(&After { before: None, sent: &changes }, false, &mut errors);
    errors.refuse()?;
    let id = rows::insert(request, conn, &OBJECT, &changes, &[])?;
    rows::created(request, conn, &SHAPE, id)
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    let before = rows::load_for_change(request, conn, &SHAPE, id)?;
    let body = request.object()?;
    let accepted = rows::accepted(conn, &OBJECT, &body, Some(id))?;
    let (changes, mut errors) = (accepted.changes, accepted.errors);
    let is_used = smtp_settings::uses(conn, id)?;
    let is_other =
        || SUPER_ADMIN_FIELDS.iter().any(|key| smtp_settings::sends_another(key.name(), &body, &before, &changes));
    if is_used && is_other() && !request.caller()?.is_super() {
        return Err(Refusal::forbidden());
    }
    let has_secret = rows::has_secret(&before, &CLIENT_SECRET);
    check(&After { before: Some(&before), sent: &changes }, has_secret, &mut errors);
    if has_secret
        && changes_token_url(&before, &changes)
        && !changes.has(&CLIENT_SECRET)
        && !errors.has(CLIENT_SECRET.name())
    {
        errors.add(CLIENT_SECRET.name(), message::REQUIRED);
    }
    let leaves_vendor = changes.get(&PROVIDER).is_some_and(|provider| provider != VENDOR);
    if leaves_vendor && is_used {
        errors.add(PROVIDER.name(), smtp_settings::IN_USE);
    }
    errors.refuse()?;
    rows::update(request, conn, &OBJECT, id, &before, &changes, &[])?;
    rows::changed(request, conn, &SHAPE, id)
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    let before = rows::load_for_change(request, conn, &SHAPE, id)?;
    rows::delete(request, conn, &OBJECT, id, &before.get(&NAME).unwrap_or_default())?;
    Ok(Answer::empty())
}

/// Checks that the token URL is a web address without credentials, since answers show it, and that an object of the
/// vendor has every field that a token request needs.
fn check(after: &After, has_secret: bool, errors: &mut Errors) {
    let url = after.get(&TOKEN_URL).unwrap_or_default();
    if !url.is_empty() && !errors.has(TOKEN_URL.name()) && !is_token_url(&url) {
        errors.add(TOKEN_URL.name(), message::URL);
    }
    if after.get(&PROVIDER).as_deref() != Some(VENDOR) {
        return;
    }
    let is_empty = |key: &Key<String>| after.get(key).is_none_or(|text| text.is_empty());
    for (key, is_missing) in [
        (&CLIENT_ID, is_empty(&CLIENT_ID)),
        (&CLIENT_SECRET, is_empty(&CLIENT_SECRET) && !has_secret),
        (&TOKEN_URL, is_empty(&TOKEN_URL)),
    ] {
        if is_missing && !errors.has(key.name()) {
            errors.add(key.name(), message::REQUIRED);
        }
    }
}

fn is_token_url(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.has_host() && url.username().is_empty() && url.password().is_none())
}

/// Whether the stored secret would be sent to another address. Such a change must contain the secret again.
fn changes_token_url(before: &Changes, changes: &Changes) -> bool {
    changes.get(&TOKEN_URL).is_some_and(|url| Some(url) != before.get(&TOKEN_URL))
}

fn write_meta(out: &mut Writer, _: Form, _: &Cell<'_>, _: usize, request: &Request) -> Result<(), Error> {
    out.name("_meta").raw("{");
    if let Some(caller) = request.caller.as_deref() {
        let holds = |action: &'static str| (action, caller.may("authentication_objects", action));
        write_permissions(out, &ACTIONS.map(holds));
    }
    out.raw("}");
    Ok(())
}
