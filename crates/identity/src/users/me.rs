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
use kit::rows::{self, Declaration, RowCells, RowShape, Scope};
use resource::json::{Cells, JsonWriter, RowForm};
use resource::{Field, FieldAccess, FieldKind, Resource, RowAfterWrite, openapi, options};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;
use store::{Conn, Sql, StoreError};

/// The fields of their own user that people may change.
static OWN: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| [&FIRST_NAME, &LAST_NAME, &JOB_TITLE, &PHONE, &MOBILE, &TIMEZONE].map(|key| key.name()).to_vec());

/// The caller's own user. All other fields are read-only here.
static ME: LazyLock<Resource> = LazyLock::new(|| {
    let fields = USER
        .fields
        .iter()
        .filter(|field| field.access != FieldAccess::WriteOnly)
        .cloned()
        .map(|field| if OWN.contains(&field.name.as_ref()) { field } else { field.read_only() });
    Resource::new("users", "Me", "users", fields).with_extra_schemas(|form| vec![("_meta", meta_schema(form))])
});

/// Returns the schema of the caller's own user.
pub fn schema() -> Json {
    openapi::response(&ME, RowForm::Detail)
}

/// A session of the caller (`docs/reference/sign-in.md`).
static SESSION: LazyLock<Resource> = LazyLock::new(|| {
    Resource::new(
        "sessions",
        "Session",
        "sessions",
        [
            Field::new("id", FieldKind::Integer { min: 1, max: i64::MAX }).read_only(),
            Field::new("created_at", FieldKind::DateTime).read_only(),
            Field::new("last_used_at", FieldKind::DateTime).read_only(),
            Field::new("ip", FieldKind::text(45)).read_only(),
            Field::new("user_agent", FieldKind::text(255)).read_only(),
            Field::new("is_current", FieldKind::Boolean).read_only().stored_by_resource(),
            Field::new("agent", FieldKind::Object).read_only().nullable().schema(agent_schema).stored_by_resource(),
        ],
    )
    .unselectable()
    .newest_first()
});

static SESSIONS: RowShape = RowShape::new(
    Declaration::Static(&SESSION),
    "t.id, t.connector, (SELECT c.name FROM mcp_connectors c WHERE c.id = t.connector)",
    write_rest,
);

/// Returns the schema of the agent of a session: its connector. The `user_agent` contains the agent's own name.
fn agent_schema() -> Json {
    let connector = openapi::object([("id", json!({"type": "integer"})), ("name", json!({"type": "string"}))]);
    openapi::object([("connector", connector)])
}

pub fn routes() -> Vec<Route> {
    vec![
        Route::view("/api/users/me/", &ME, |request, conn| {
            let user = request.caller()?.user;
            view::answer(request, conn, StatusCode::OK, user)
        })
        .while_lacking_factor(),
        Route::edit("/api/users/me/", &ME, edit).without_keys(),
        Route::options("/api/users/me/", |_| Ok(Answer::value(&options::instance_document(&ME)))),
        Route::list("/api/users/me/sessions/", &SESSION, list_sessions),
        Route::options("/api/users/me/sessions/", |_| Ok(Answer::value(&options::document(&SESSION)))),
        Route::new(Method::DELETE, "/api/users/me/sessions/{id}/", "End a session", Handler::Write(end_session))
            .answers(204, Schema::Nothing)
            .without_keys(),
    ]
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.caller()?.user;
    let before = load(conn, id)?;
    request.check_if_match(|| view::tag(request, conn, id))?;
    let own = request.object()?.filter_members(|name| OWN.contains(&name));
    let accepted = rows::check_body(conn, &USER, &own, Some(id.get()))?;
    accepted.errors.refuse()?;
    let mut changes = accepted.changes;
    if changes.contains(&FIRST_NAME) || changes.contains(&LAST_NAME) {
        changes.set(&FULL_NAME, rules::full_name(&RowAfterWrite { before: Some(&before), sent: &changes }));
    }
    rows::update(request, conn, &USER, id.get(), &before, &changes, &[])?;
    view::answer(request, conn, StatusCode::OK, id)
}

fn list_sessions(request: &Request, conn: &mut Conn) -> Outcome {
    let mut condition = Sql::new("t.ended_at IS NULL AND t.user_id = ");
    condition.bind(request.caller()?.user).push(" AND t.expires_at > ").bind(request.now);
    rows::list(request, conn, &SESSIONS, Scope::matching(condition))
}

fn write_rest(
    out: &mut JsonWriter,
    _: RowForm,
    row: &RowCells<'_>,
    at: usize,
    request: &Request,
) -> Result<(), StoreError> {
    let current = request.caller.as_ref().map(|caller| caller.session.get());
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
    let row = conn.query_optional(&own.arg(id).arg(caller.user).arg(request.now), |_| Ok(()))?;
    if row.is_none() || !sessions::end(conn, id, request.now)? {
        return Err(Refusal::not_found());
    }
    rights::mark_rights_changed(request, conn)?;
    Ok(Answer::empty())
}
