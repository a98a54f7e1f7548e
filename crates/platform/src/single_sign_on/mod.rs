//! Single sign-on: `/api/single-sign-on/` (document 1, "Single sign-on configurations"; document 4, sections 3 and 4).
//!
//! This file is the resource. What happens when somebody signs in stands beside it: `start.rs` (to the provider),
//! `callback.rs` (and back), `account.rs` (who that is here), `logout.rs`; and under them `provider.rs` (discovery, keys,
//! codes), `id_token.rs` (what a token must be), `transaction.rs` (what a browser keeps between start and callback).

mod account;
mod callback;
#[doc(hidden)]
pub mod id_token;
mod logout;
mod provider;
mod start;
mod transaction;
mod vouching;

pub use logout::{logout_url, wants_single_sign_on};
pub use provider::Providers;
pub use start::{Named, enabled, start_page};
pub use vouching::{migrate as migrate_vouching, warn_at_start};

use crate::app::{App, Build};
use crate::clock::random_token;
use crate::http::{Answer, Outcome, Refusal, Request, etag};
use crate::limits;
use crate::routes::Route;
use crate::rows::{self, Cell, Declaration, Scope, Shape, write_permissions};
use crate::secret::Context;
use crate::super_admin_access;
use crate::users::may_give_roles;
use http::StatusCode;
use resource::json::{Cells, Form, Writer};
use resource::{After, Changes, Errors, Field, Key, Kind, Object, Resource, TOKEN, Target, Value, message, options};
use serde_json::json;
use std::sync::LazyLock;
use store::{Arg, Conn, Error, Sql};

const PATH: &str = "/api/single-sign-on/";
const PROVIDERS: &[(&str, &str)] = &[("provider_a", "Provider A"), ("provider_b", "Provider B")];
/// The database's word against a second add-in (document 1: "at most one may be true").
const DOCS_ADDIN_INDEX: &str = "single_sign_on_docs_addin";
const MAX_ROLES: usize = 10;

static NAME: Key<String> = Key::new("name");
static CLIENT_ID: Key<String> = Key::new("client_id");
static CLIENT_SECRET: Key<String> = Key::new("client_secret");
static TENANT_ID: Key<String> = Key::new("tenant_id");
static PROVIDER: Key<String> = Key::new("provider");
static IS_ENABLED: Key<bool> = Key::new("is_enabled");
static AUTO_CREATE_USER: Key<bool> = Key::new("auto_create_user");
static ROLES: Key<Vec<i64>> = Key::new("roles");
static DOCS_ADDIN: Key<bool> = Key::new("is_docs_addin_enabled");

/// A configuration.
pub static SINGLE_SIGN_ON: LazyLock<Resource> = LazyLock::new(|| {
    let [created_at, created_by, modified_at, modified_by] = Field::audit();
    let credential = |key: &Key<String>| key.text(255).required().charset(TOKEN).advertise(256);
    Resource::new(
        "single_sign_on",
        "SingleSignOn",
        "single_sign_on",
        [
            Field::id(),
            NAME.text(100).required().unique("single_sign_on_name").folded().filter().sort(),
            credential(&CLIENT_ID),
            CLIENT_SECRET
                .is(Kind::Secret { max: 255 })
                .required()
                .charset(TOKEN)
                .advertise(256)
                .write_only()
                .stored_by_resource(),
            credential(&TENANT_ID),
            PROVIDER.is(Kind::choices(PROVIDERS)).required().create_only().filter(),
            IS_ENABLED.boolean().default(false).filter(),
            AUTO_CREATE_USER.boolean().default(false).filter(),
            ROLES
                .is(Kind::References {
                    target: Target {
                        table: "roles".into(),
                        autocomplete: Some("/api/roles/autocomplete/?text__icontains=".into()),
                    },
                    max_items: MAX_ROLES,
                })
                .members("single_sign_on_roles", "single_sign_on_id", "role_id"),
            DOCS_ADDIN.boolean().default(false).filter(),
            Field::new("redirect_uri", Kind::Url { max: 2048 }).read_only().stored_by_resource(),
            Field::new("logout_url", Kind::Url { max: 2048 }).read_only().stored_by_resource().detail_only(),
            created_at.sort(),
            created_by,
            modified_at.sort(),
            modified_by,
        ],
    )
    .limit_items(limits::SINGLE_SIGN_ON.default)
});

static SHAPE: Shape = Shape::new(
    Declaration::Static(&SINGLE_SIGN_ON),
    concat!(
        "t.id, (SELECT string_agg(r.name, '\n' ORDER BY r.id) FROM single_sign_on_roles sr JOIN roles r ON r.id = sr.role_id \
         WHERE sr.single_sign_on_id = t.id), ",
        vouching::vouched_by!()
    ),
    write_meta,
);

/// The routes of the configurations and of signing in with them.
pub fn routes() -> Vec<Route> {
    let instance = "/api/single-sign-on/{id}/";
    let mut routes = vec![
        Route::list(PATH, &SINGLE_SIGN_ON, list).needs("single_sign_on", "list"),
        Route::create(PATH, &SINGLE_SIGN_ON, create).needs("single_sign_on", "create"),
        Route::options_below(PATH, document),
        Route::view(instance, &SINGLE_SIGN_ON, view).needs("single_sign_on", "view"),
        Route::edit(instance, &SINGLE_SIGN_ON, edit).needs("single_sign_on", "edit"),
        Route::delete(instance, delete).needs("single_sign_on", "delete"),
    ];
    routes.extend(start::routes());
    routes.extend(callback::routes());
    routes.extend(logout::routes());
    routes
}

fn document(_: &Request, conn: &mut Conn) -> Outcome {
    let mut document = options::document(&SINGLE_SIGN_ON);
    document["restrictions"]["limit_items"] = limits::value(conn, limits::SINGLE_SIGN_ON)?.into();
    Ok(Answer::value(&document))
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    rows::list(request, conn, &SHAPE, Scope::of("1 = 1"))
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    Ok(Answer::instance(StatusCode::OK, rows::view_id(request, conn, &SHAPE, request.id())?))
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let body = request.object()?;
    let accepted = rows::accepted(conn, &SINGLE_SIGN_ON, &body, None)?;
    let (changes, mut errors) = (accepted.changes, accepted.errors);
    may_give_roles(conn, request.caller()?, &[], &changes.get(&ROLES).unwrap_or_default())?;
    docs_addin(conn, &body, &After { before: None, sent: &changes }, 0, &mut errors)?;
    refuse(errors)?;
    let extra = sealed(request, &changes);
    let id = rows::insert(request, conn, &SINGLE_SIGN_ON, &changes, &extra).map_err(second_docs_addin)?;
    vouching::renew(conn, id, request.caller()?.user)?;
    limits::take(conn, limits::SINGLE_SIGN_ON, too_many)?;
    Ok(Answer::instance(StatusCode::CREATED, rows::view_id(request, conn, &SHAPE, id)?))
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    let before = rows::load(conn, &SHAPE, id)?.ok_or_else(Refusal::not_found)?;
    request.check_if_match(|| Ok(etag(&rows::view_id(request, conn, &SHAPE, id)?)))?;
    let body = request.object()?;
    let accepted = rows::accepted(conn, &SINGLE_SIGN_ON, &body, Some(id))?;
    let (changes, mut errors) = (accepted.changes, accepted.errors);
    let after = After { before: Some(&before), sent: &changes };
    may_give_roles(conn, request.caller()?, &[], &given(&before, &after))?;
    docs_addin(conn, &body, &after, id, &mut errors)?;
    if moves(&before, &after) && !changes.has(&CLIENT_SECRET) && !errors.has(CLIENT_SECRET.name()) {
        errors.add(CLIENT_SECRET.name(), message::REQUIRED);
    }
    refuse(errors)?;
    let access = super_admin_access::guard(request, conn, true)?;
    let extra = sealed(request, &changes);
    rows::update(request, conn, &SINGLE_SIGN_ON, id, &before, &changes, &extra).map_err(second_docs_addin)?;
    if vouching::is_renewed_by(&changes) {
        vouching::renew(conn, id, request.caller()?.user)?;
    }
    access.keep(request, conn)?;
    Ok(Answer::instance(StatusCode::OK, rows::view_id(request, conn, &SHAPE, id)?))
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    let before = rows::load(conn, &SHAPE, id)?.ok_or_else(Refusal::not_found)?;
    request.check_if_match(|| Ok(etag(&rows::view_id(request, conn, &SHAPE, id)?)))?;
    let access = super_admin_access::guard(request, conn, true)?;
    for text in [
        "DELETE FROM single_sign_on_roles WHERE single_sign_on_id = $1",
        "DELETE FROM single_sign_on_tickets WHERE single_sign_on_id = $1",
    ] {
        conn.exec(&Sql::new(text).arg(id))?;
    }
    rows::delete(request, conn, &SINGLE_SIGN_ON, id, &before.get(&NAME).unwrap_or_default())?;
    access.keep(request, conn)?;
    limits::give_back(conn, limits::SINGLE_SIGN_ON)?;
    Ok(Answer::empty())
}

fn refuse(errors: Errors) -> Result<(), Refusal> {
    if errors.is_empty() { Ok(()) } else { Err(errors.into()) }
}

/// Document 1 wants `detail` to be an array here, and here alone.
fn too_many(limit: i64) -> Refusal {
    let mut refusal = Refusal::bad("");
    refusal.body = json!({"detail": [format!("Limit of {limit} SSO configurations has been exceeded.")]});
    refusal
}

/// The add-in is for `provider_a` alone, and for one configuration of a client and tenant.
fn docs_addin(conn: &mut Conn, body: &Object<'_>, after: &After, id: i64, errors: &mut Errors) -> Result<(), Error> {
    let fields = [DOCS_ADDIN.name(), PROVIDER.name(), CLIENT_ID.name(), TENANT_ID.name()];
    let is_wrong = |name: &&str| errors.has(name);
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
    if conn.opt(&sql, |_| Ok(()))?.is_some() {
        errors.add(DOCS_ADDIN.name(), message::UNIQUE);
    }
    Ok(())
}

/// The same answer when the database noticed first.
fn second_docs_addin(refusal: Refusal) -> Refusal {
    match refusal.cause.as_deref() {
        Some(Error::Unique(index)) if index == DOCS_ADDIN_INDEX => Refusal::field(DOCS_ADDIN.name(), message::UNIQUE),
        _ => refusal,
    }
}

/// The roles that a change gives to somebody: new ones, and all of them when the change decides anew who gets them.
fn given(before: &Changes, after: &After) -> Vec<i64> {
    let differs = |key: &Key<String>| after.get(key) != before.get(key);
    let begins = |key: &Key<bool>| after.get(key) == Some(true) && before.get(key) != Some(true);
    let to_others = differs(&CLIENT_ID) || differs(&TENANT_ID) || begins(&IS_ENABLED) || begins(&AUTO_CREATE_USER);
    let held = before.get(&ROLES).unwrap_or_default();
    let roles = after.get(&ROLES).unwrap_or_default();
    roles.into_iter().filter(|role| to_others || !held.contains(role)).collect()
}

/// Whether the secret would go to another tenant or client: only who knows it may send it there.
fn moves(before: &Changes, after: &After) -> bool {
    [&CLIENT_ID, &TENANT_ID].iter().any(|key| after.get(key) != before.get(key))
}

/// The secret as it is stored, when one was sent.
fn sealed(request: &Request, changes: &Changes) -> Vec<(&'static str, Arg)> {
    let Some(Value::Text(secret)) = changes.value(CLIENT_SECRET.name()) else { return Vec::new() };
    let row = random_token();
    let sealed = request.app.keys.seal(&place(&request.build, &row), secret.as_bytes());
    vec![("client_secret", sealed.into()), ("secret_key", row.into())]
}

fn place<'a>(build: &'a Build, row: &'a str) -> Context<'a> {
    Context { build: &build.uid, table: "single_sign_on", column: "client_secret", row }
}

/// Where a configuration's callback or logout is.
fn address(app: &App, build: &Build, id: i64, part: &str) -> String {
    format!("{}{PATH}{id}/{part}/", app.address_of(build))
}

/// The issuer of a provider for a tenant, if the operator has set one.
fn issuer(app: &App, provider: &str, tenant_id: &str) -> Option<String> {
    let template = match provider {
        "provider_a" => app.config.sso_provider_a_issuer.as_ref(),
        _ => app.config.sso_provider_b_issuer.as_ref(),
    };
    template.map(|template| template.replace("{tenant_id}", tenant_id))
}

/// A configuration as signing in needs it.
#[derive(Clone)]
struct Configuration {
    id: i64,
    provider: String,
    client_id: String,
    client_secret: String,
    issuer: Option<String>,
    is_enabled: bool,
    auto_create_user: bool,
    redirect_uri: String,
}

impl Configuration {
    /// `None` when there is no such configuration.
    fn load(request: &Request, conn: &mut Conn, id: i64) -> Result<Option<Configuration>, Error> {
        Configuration::find(request, conn, id, "")
    }

    /// The configuration as it is now, locked until the sign-in is over; `None` when it no longer leads where it led when
    /// the person was asked for.
    fn still(&self, request: &Request, conn: &mut Conn) -> Result<Option<Configuration>, Error> {
        let now = Configuration::find(request, conn, self.id, " FOR SHARE")?;
        let is_same = |now: &Configuration| now.client_id == self.client_id && now.issuer == self.issuer;
        Ok(now.filter(|now| now.is_enabled && is_same(now)))
    }

    fn find(request: &Request, conn: &mut Conn, id: i64, lock: &'static str) -> Result<Option<Configuration>, Error> {
        let mut sql = Sql::new(
            "SELECT provider, client_id, tenant_id, client_secret, secret_key, is_enabled, auto_create_user \
             FROM single_sign_on WHERE id = $1",
        )
        .arg(id);
        let (app, build) = (&request.app, &*request.build);
        conn.opt(sql.push(lock), |row| {
            let secret = app.keys.open(&place(build, row.text(4)?), row.text(3)?);
            let secret = secret.and_then(|secret| String::from_utf8(secret).ok());
            Ok(Configuration {
                id,
                provider: row.text(0)?.to_owned(),
                client_id: row.text(1)?.to_owned(),
                client_secret: secret.ok_or_else(|| Error::Db("a client secret does not open".to_owned()))?,
                issuer: issuer(app, row.text(0)?, row.text(2)?),
                is_enabled: row.flag(5)?,
                auto_create_user: row.flag(6)?,
                redirect_uri: address(app, build, id, "callback"),
            })
        })
    }
}

/// The issuers that enabled configurations name.
pub fn enabled_issuers(request: &Request, conn: &mut Conn) -> Result<Vec<String>, Error> {
    let sql = Sql::new("SELECT provider, tenant_id FROM single_sign_on WHERE is_enabled = 1");
    let issuers = conn.all(&sql, |row| Ok(issuer(&request.app, row.text(0)?, row.text(1)?)))?;
    Ok(issuers.into_iter().flatten().collect())
}

/// Whether there is such a configuration, and it is enabled.
pub fn is_enabled(conn: &mut Conn, id: i64) -> Result<bool, Error> {
    let sql = Sql::new("SELECT 1 FROM single_sign_on WHERE id = $1 AND is_enabled = 1").arg(id);
    Ok(conn.opt(&sql, |_| Ok(()))?.is_some())
}

/// The addresses and `_meta`.
fn write_meta(out: &mut Writer, form: Form, row: &Cell<'_>, at: usize, request: &Request) -> Result<(), Error> {
    let id = row.int(at)?.unwrap_or(0);
    out.name("redirect_uri").text(&address(&request.app, &request.build, id, "callback"));
    if form == Form::Detail {
        out.name("logout_url").text(&address(&request.app, &request.build, id, "logout"));
    }
    out.name("_meta").raw("{").name("labels").raw("{").name("roles").raw("[");
    for name in row.text(at + 1)?.unwrap_or("").split('\n').filter(|name| !name.is_empty()) {
        out.comma().text(name);
    }
    out.raw("]").name("vouched_by").opt_text(row.text(at + 2)?).raw("}");
    if let Some(caller) = request.caller.as_deref() {
        let holds = |action: &'static str| (action, caller.may("single_sign_on", action));
        write_permissions(out, &["list", "view", "edit", "create", "delete"].map(holds));
    }
    out.raw("}");
    Ok(())
}
