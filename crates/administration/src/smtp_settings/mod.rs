//! Outbound mail settings: `/api/administration/smtp-settings/` (document 1, "Outbound mail settings"; document 4,
//! section 5). Before the first PATCH they are empty, and messages become files.

mod server;
mod test;

pub use server::stored;

use crate::client_credentials::{self, VENDOR};
use crate::mail::message::is_address;
use crate::mail::queue;
use http::StatusCode;
use kit::answer::{Answer, Outcome};
use kit::caller::Caller;
use kit::reactions::{Reaction, When};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use kit::rows::{self, Declaration, Shape};
use resource::{After, Changes, Errors, Key, Kind, LINE, Object, Resource, Target, Value, message, openapi, options};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;
use store::{Arg, Conn, Error, Sql};

const PATH: &str = "/api/administration/smtp-settings/";
const TEST_PATH: &str = "/api/administration/smtp-settings/test/";
const TABLE: &str = "smtp_settings";
/// How many addresses are told of a failure (document 1, "Limits").
const FAILURE_ADDRESSES: usize = 10;

const BY_PASSWORD: &str = "username_and_password";
const METHODS: &[(&str, &str)] = &[(BY_PASSWORD, "Username and password"), (VENDOR, "Vendor client credentials")];

const TLS_REQUIRED: &str = "TLS is required for this authorization method.";
/// Why an authentication object stays as it is.
pub const IN_USE: &str = "Authentication object is used by the outbound mail settings.";

static USERNAME: Key<String> = Key::new("username");
static PORT: Key<i64> = Key::new("port");
static TLS: Key<bool> = Key::new("tls");
static HOST: Key<String> = Key::new("host");
static FROM_EMAIL: Key<String> = Key::new("from_email");
static FAILURE_EMAIL: Key<String> = Key::new("failure_email");
static METHOD: Key<String> = Key::new("authorization_method");
static OBJECT: Key<i64> = Key::new("authentication_object");
static PASSWORD: Key<String> = Key::new("password");

static SETTINGS: LazyLock<Resource> = LazyLock::new(|| {
    let autocomplete = "/api/authentication-objects/?provider=vendor_client_credentials";
    let object = Target { table: client_credentials::TABLE.into(), autocomplete: Some(autocomplete.into()) };
    Resource::new(
        "outbound_mail_setup",
        "OutboundMailSettings",
        TABLE,
        [
            USERNAME.text(254).charset(LINE).required(),
            PORT.integer(0, 65535).required(),
            TLS.boolean().default(false),
            HOST.text(63).charset(LINE).required(),
            FROM_EMAIL.is(Kind::Email { max: 254 }).required(),
            FAILURE_EMAIL.text(255).charset(LINE).required(),
            METHOD.is(Kind::choices(METHODS)).default(BY_PASSWORD),
            OBJECT.is(Kind::Reference { target: object }).nullable(),
            PASSWORD.is(Kind::Secret { max: 128 }).not_blank().encrypted("password", "row_key"),
        ],
    )
});

static SHAPE: Shape = Shape::plain(Declaration::Static(&SETTINGS));

/// The routes of this instance.
pub fn routes() -> Vec<Route> {
    let name = "outbound_mail_setup";
    vec![
        Route::view(PATH, &SETTINGS, view).needs(name, "view"),
        Route::edit(PATH, &SETTINGS, edit).needs(name, "edit"),
        Route::options(PATH, |_| Ok(Answer::value(&document()))),
        Route::post(TEST_PATH, "Send a test message to the failure addresses", Handler::Async(test::run))
            .needs(name, "edit")
            .takes(Schema::Json(|| openapi::request(&SETTINGS, false)))
            .answers(200, Schema::Json(test::shape)),
    ]
}

/// The schema document; what a method needs is required there.
fn document() -> Json {
    let needed = |key: &str| {
        let schema = SETTINGS.field(key).map(options::schema).map(|mut schema| {
            schema["required"] = true.into();
            schema
        });
        schema.into_iter().collect::<Json>()
    };
    let mut document = options::single(&SETTINGS);
    document["details"]["schema_by_authorization_method"] =
        json!({BY_PASSWORD: needed(PASSWORD.name()), VENDOR: needed(OBJECT.name())});
    document
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    Ok(Answer::instance(StatusCode::OK, rows::view_id(request, conn, &SHAPE, 1)?))
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let before = rows::load_for_change(request, conn, &SHAPE, 1)?;
    let body = request.object()?;
    let changes = checked(conn, request.caller()?, &body, &before, Purpose::Change)?;
    // It was given for one place and name, and is used for no other.
    let drops_password = !changes.has(&PASSWORD) && moves(&before, &changes);
    let columns: &[_] = if drops_password { &[("password", Arg::Null)] } else { &[] };
    rows::update(request, conn, &SETTINGS, 1, &before, &changes, columns)?;
    // What waits for better settings is tried with these.
    queue::hurry(request, conn)?;
    view(request, conn)
}

/// What the body is checked for.
#[derive(Clone, Copy, PartialEq)]
enum Purpose {
    /// The settings will be these.
    Change,
    /// They are tried.
    Test,
}

/// Checks a body over the stored settings. The rules of PATCH are those of the test, too.
fn checked(
    conn: &mut Conn,
    caller: &Caller,
    body: &Object<'_>,
    before: &Changes,
    purpose: Purpose,
) -> Result<Changes, Refusal> {
    let is_set = !before.get(&HOST).unwrap_or_default().is_empty();
    let accepted = rows::accepted(conn, &SETTINGS, body, is_set.then_some(1))?;
    let (changes, mut errors) = (accepted.changes, accepted.errors);
    let is_elsewhere = !is_set || decisive().iter().any(|name| sends_another(name, body, before, &changes));
    if is_elsewhere && !caller.is_super() {
        return Err(Refusal::forbidden());
    }
    check_addresses(body, &mut errors);
    if !errors.has(METHOD.name()) {
        let after = After { before: Some(before), sent: &changes };
        if after.get(&METHOD).as_deref() == Some(BY_PASSWORD) {
            let is_kept = rows::has_secret(before, &PASSWORD) && !moves(before, &changes);
            if !is_kept && !body.contains_key(PASSWORD.name()) {
                errors.add(PASSWORD.name(), message::REQUIRED);
            }
        } else {
            if after.get(&OBJECT).is_none() && !errors.has(OBJECT.name()) {
                errors.add(OBJECT.name(), message::REQUIRED);
            }
            // What was stored without it before is sent with it, and may stay as it is.
            let is_decided = !is_set || body.contains_key(TLS.name()) || body.contains_key(METHOD.name());
            if is_decided && after.get(&TLS) != Some(true) && !errors.has(TLS.name()) {
                errors.add(TLS.name(), TLS_REQUIRED);
            }
        }
    }
    if let Some(object) = changes.get(&OBJECT)
        && !is_of_vendor(conn, object, purpose)?
    {
        errors.add(OBJECT.name(), message::choice(object));
    }
    if errors.is_empty() { Ok(changes) } else { Err(errors.into()) }
}

/// The fields that decide who reads everybody's links: only super admins change them, or try other values (document 4,
/// section 7, "mail settings"). A password serves for its place and name alone, so it decides nothing.
fn decisive() -> [&'static str; 6] {
    [HOST.name(), PORT.name(), TLS.name(), USERNAME.name(), METHOD.name(), OBJECT.name()]
}

/// Whether a body has something else for a field than what is stored, be it a wrong value.
pub fn sends_another(name: &str, body: &Object<'_>, before: &Changes, changes: &Changes) -> bool {
    body.contains_key(name) && changes.value(name).is_none_or(|sent| Some(sent) != before.value(name))
}

/// Each address must be one that a message can be sent to.
fn check_addresses(body: &Object<'_>, errors: &mut Errors) {
    let is_address = |text: &str| resource::is_email(text) && is_address(text);
    let sent = |key: &Key<String>| {
        let text = body.get(key.name()).and_then(|sent| sent.as_str()).map(|text| text.trim().to_owned());
        text.filter(|text| !text.is_empty() && text.chars().all(LINE.allows))
    };
    if let Some(from) = sent(&FROM_EMAIL)
        && !is_address(&from)
    {
        errors.add(FROM_EMAIL.name(), message::EMAIL);
    }
    if let Some(list) = sent(&FAILURE_EMAIL) {
        if list.split(',').count() > FAILURE_ADDRESSES {
            errors.add(FAILURE_EMAIL.name(), message::too_many(FAILURE_ADDRESSES));
        }
        if !list.split(',').all(|address| is_address(address.trim())) {
            errors.add(FAILURE_EMAIL.name(), message::EMAIL);
        }
    }
}

/// Whether a stored password would be used elsewhere, for somebody else, or in the open.
fn moves(before: &Changes, changes: &Changes) -> bool {
    [HOST.name(), PORT.name(), TLS.name(), USERNAME.name()]
        .iter()
        .any(|name| changes.value(name).is_some_and(|value| Some(value) != before.value(name)))
}

/// Whether mail may be sent with this authentication object. A change holds it fast until it is done.
fn is_of_vendor(conn: &mut Conn, object: i64, purpose: Purpose) -> Result<bool, Error> {
    let mut sql = Sql::new("SELECT provider FROM authentication_objects WHERE id = ");
    sql.bind(object).push(if purpose == Purpose::Change { " FOR UPDATE" } else { "" });
    let provider = conn.opt(&sql, |row| Ok(row.text(0)?.to_owned()))?;
    Ok(provider.as_deref() == Some(VENDOR))
}

/// Whether mail is sent with this authentication object.
pub fn uses(conn: &mut Conn, object: i64) -> Result<bool, Error> {
    let sql = Sql::new("SELECT 1 FROM smtp_settings WHERE authentication_object = $1 AND authorization_method = $2");
    Ok(conn.opt(&sql.arg(object).arg(VENDOR), |_| Ok(()))?.is_some())
}

/// An authentication object does not leave while mail is sent with it.
pub const ON_OBJECT_LEAVING: Reaction = Reaction {
    resource: "authentication_objects",
    when: When::Leaving,
    run: |_, conn, object| {
        if uses(conn, object)? {
            return Err(Refusal::bad(IN_USE));
        }
        let sql = Sql::new("UPDATE smtp_settings SET authentication_object = NULL WHERE authentication_object = $1");
        conn.exec(&sql.arg(object))?;
        Ok(())
    },
};

/// A text of the settings as they are.
fn text(settings: &Changes, key: &Key<String>) -> String {
    match settings.value(key.name()) {
        Some(Value::Text(text)) => text.clone(),
        _ => String::new(),
    }
}
