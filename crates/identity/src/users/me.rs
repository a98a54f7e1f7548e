//! The caller's own user and sessions: `/api/users/me/…` (`docs/reference/users.md`).

use super::rules;
use super::user::{FIRST_NAME, FULL_NAME, JOB_TITLE, LAST_NAME, MOBILE, PHONE, TIMEZONE, USER, meta_schema};
use super::view::{self, load};
use crate::sessions;
use http::{Method, StatusCode};
use kit::answer::{Answer, Outcome};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::route::{Handler, Route, Schema};
use kit::rows::{self, Cell, Declaration, Scope, Shape};
use resource::json::{Cells, Form, Writer};
use resource::{Access, After, Field, Kind, Resource, openapi, options};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;
use store::{Conn, Error, Sql};

/// The fields that people may change of their own user.
static OWN: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| [&FIRST_NAME, &LAST_NAME, &JOB_TITLE, &PHONE, &MOBILE, &TIMEZONE].map(|key| key.name()).to_vec());

/// The caller's own user. All other fields are read-only here.
static ME: LazyLock<Resource> = LazyLock::new(|| {
    let fields = USER
        .fields
        .iter()
        .filter(|field| field.access != Access::WriteOnly)
        .cloned()
        .map(|field| if OWN.contains(&field.name.as_ref()) { field } else { field.read_only() });
    Resource::new("users", "Me", "users", fields).shows(|form| vec![("_meta", meta_schema(form))])
});

/// The schema of the caller's own user.
pub fn schema() -> Json {
    openapi::response(&ME, Form::Detail)
}

/// A session of the caller (`docs/reference/sign-in.md`).
static SESSION: LazyLock<Resource> = LazyLock::new(|| {
    Resource::new(
        "sessions",
        "Session",
        "sessions",
        [
            Field::new("id", Kind::Integer { min: 1, max: i64::MAX }).read_only(),
            Field::new("created_at", Kind::DateTime).read_only(),
            Field::new("last_used_at", Kind::DateTime).read_only(),
            Field::new("ip", Kind::text(45)).read_only(),
            Field::new("user_agent", Kind::text(255)).read_only(),
            Field::new("is_current", Kind::Boolean).read_only().stored_by_resource(),
            Field::new("agent", Kind::Object).read_only().nullable().schema(agent_schema).stored_by_resource(),
        ],
    )
    .unselectable()
    .newest_first()
});

static SESSIONS: Shape = Shape::new(
    Declaration::Static(&SESSION),
    "t.id, t.connector, (SELECT c.name FROM mcp_connectors c WHERE c.id = t.connector)",
    write_rest,
);

/// The schema of the agent whose session it is: its connector. What it calls itself is the `user_agent`.
fn agent_schema() -> Json {
    let connector = openapi::object([("id", json!({"type": "integer"})), ("name", json!({"type": "string"}))]);
    openapi::object([("connector", connector)])
}

pub fn routes() -> Vec<Route> {
    vec![
        Route::view("/api/users/me/", &ME, |request, conn| {
            let user = request.caller()?.user;
            view::answer(request, conn, StatusCode::OK, user)
        }),
        Route::edit("/api/users/me/", &ME, edit),
        Route::options("/api/users/me/", |_| Ok(Answer::value(&options::single(&ME)))),
        Route::list("/api/users/me/sessions/", &SESSION, list_sessions),
        Route::options("/api/users/me/sessions/", |_| Ok(Answer::value(&options::document(&SESSION)))),
        Route::new(Method::DELETE, "/api/users/me/sessions/{id}/", "End a session", Handler::Write(end_session))
            .answers(204, Schema::Nothing),
    ]
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.caller()?.user;
    let before = load(conn, id)?;
    request.check_if_match(|| view::tag(request, conn, id))?;
    let own = request.object()?.only(|name| OWN.contains(&name));
    let accepted = rows::accepted(conn, &USER, &own, Some(id))?;
    accepted.errors.refuse()?;
    let mut changes = accepted.changes;
    if changes.has(&FIRST_NAME) || changes.has(&LAST_NAME) {
        changes.set(&FULL_NAME, rules::full_name(&After { before: Some(&before), sent: &changes }));
    }
    rows::update(request, conn, &USER, id, &before, &changes, &[])?;
    view::answer(request, conn, StatusCode::OK, id)
}

fn list_sessions(request: &Request, conn: &mut Conn) -> Outcome {
    let mut condition = Sql::new("t.ended_at IS NULL AND t.user_id = ");
    condition.bind(request.caller()?.user).push(" AND t.expires_at > ").bind(request.now);
    rows::list(request, conn, &SESSIONS, Scope::of(condition))
}

fn write_rest(out: &mut Writer, _: Form, row: &Cell<'_>, at: usize, request: &Request) -> Result<(), Error> {
    let current = request.caller.as_ref().map(|caller| caller.session);
    out.name("is_current").bool(row.int(at)? == current);
    match (row.int(at + 1)?, row.text(at + 2)?) {
        (Some(connector), Some(name)) => {
            let out = out.name("agent").raw("{").name("connector").raw("{");
            out.name("id").int(connector).name("name").text(name).raw("}}")
        }
        _ => out.name("agent").raw("null"),
    };
    Ok(())
}

fn end_session(request: &Request, conn: &mut Conn) -> Outcome {
    let (caller, id) = (request.caller()?, request.id());
    let own =
        Sql::new("SELECT 1 FROM sessions WHERE id = $1 AND user_id = $2 AND ended_at IS NULL AND expires_at > $3");
    let found = conn.opt(&own.arg(id).arg(caller.user).arg(request.now), |_| Ok(()))?;
    if found.is_none() || !sessions::end(conn, id, request.now)? {
        return Err(Refusal::not_found());
    }
    rights::changed(request, conn)?;
    Ok(Answer::empty())
}
