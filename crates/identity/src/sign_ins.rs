//! `GET /api/administration/sign-ins/`: attempts to sign in and their outcomes (`docs/reference/administration-log.md`).
//! [`crate::system_events`] writes the events; the history service stores them.

use crate::system_events::SOURCE_TYPE_USER;
use events::system_history::{ShownSystemEvent, SystemEvents, system_events};
use http::{Method, StatusCode};
use kit::answer::{Answer, Outcome};
use kit::ids::UserId;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use kit::rows;
use resource::json::{JsonWriter, USER_REFERENCE, UserCells, write_user};
use resource::{Field, FieldKind, Resource, openapi, options};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use store::{Conn, Sql, StoreError};

const PATH: &str = "/api/administration/sign-ins/";

/// The event types, with their names in the history service.
const EVENT_TYPES: [(&str, &str); 10] = [
    ("login_success", "Signed in"),
    ("login_failed", "Sign-in failed"),
    ("login_failed_sso", "Single sign-on failed"),
    ("login_failed_inactive_account", "Account not active"),
    ("login_failed_invalid_auth_method", "Method not allowed"),
    ("account_locked", "Account locked"),
    ("password_reset_request_success", "Password reset asked for"),
    ("password_reset_request_failed", "Password reset refused"),
    ("password_reset_success", "Password reset"),
    ("password_reset_failed", "Password reset failed"),
];

/// The fields that have another name in the history service.
const NAMED_THERE: [(&str, &str); 2] = [("at", "event_timestamp"), ("user", "source_id")];

static SIGN_IN: LazyLock<Resource> = LazyLock::new(|| {
    let fields = [
        Field::new("id", FieldKind::Uuid),
        Field::new("at", FieldKind::DateTime).filter(),
        Field::new("event_type", FieldKind::choices(&EVENT_TYPES)).filter(),
        Field::new("user", FieldKind::User).nullable().filter(),
        Field::new("ip", FieldKind::text(45)),
        Field::new("reason", FieldKind::text(255)).nullable(),
    ];
    Resource::new("sign_ins", "SignIn", "sign_ins", fields.map(Field::read_only))
});

pub fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            PATH,
            "Sign-ins and failed attempts",
            Handler::Async(|request| Box::pin(list(request))),
        )
        .answers(200, Schema::Page(&SIGN_IN))
        .parameters(|| openapi::parameters(&SIGN_IN))
        .requires("administration_log", "list")
        .action("list"),
        Route::options(PATH, |_| Ok(Answer::value(&options::document(&SIGN_IN)))),
    ]
}

async fn list(request: Arc<Request>) -> Outcome {
    let events = system_events(&request, &SIGN_IN, &NAMED_THERE).await?;
    let users: Vec<UserId> = events.results.iter().filter_map(user_of).collect();
    let users = request.build.db.read(move |conn| users_by_id(conn, &users)).await?;
    let mut out = JsonWriter::with_capacity(2 + 400 * events.results.len());
    out.raw("[");
    for event in &events.results {
        out.comma();
        write(&mut out, event, user_of(event).and_then(|id| users.get(&id)))?;
    }
    out.raw("]");
    let SystemEvents { limit, offset, total_count, filtered_count, .. } = events;
    let body = rows::envelope(&request, limit, offset, total_count, filtered_count, out.into_bytes());
    Ok(Answer::json(StatusCode::OK, body))
}

/// Returns the user of an event; `None` if the account does not exist.
fn user_of(event: &ShownSystemEvent) -> Option<UserId> {
    (event.source_type == SOURCE_TYPE_USER).then_some(UserId::new(event.source_id))
}

fn write(out: &mut JsonWriter, event: &ShownSystemEvent, user: Option<&String>) -> Result<(), StoreError> {
    out.raw("{").name("id").text(&event.id).name("at").text(&event.event_timestamp);
    out.name("event_type").text(&event.event_type).name("user");
    let cells: Option<UserCells<'_>> = user.map(|user| serde_json::from_str(user)).transpose().map_err(unreadable)?;
    write_user(out, cells);
    out.name("ip").text(&event.source_ip).name("reason").opt_text(event.reason().as_deref()).raw("}");
    Ok(())
}

fn unreadable(error: serde_json::Error) -> StoreError {
    StoreError::internal(format_args!("a user reference: {error}"))
}

/// Returns the cells of the references to users, as JSON.
fn users_by_id(conn: &mut Conn, ids: &[UserId]) -> Result<HashMap<UserId, String>, StoreError> {
    let mut sql = Sql::new("SELECT u.id, CAST(json_build_array(");
    for (n, column) in USER_REFERENCE.iter().enumerate() {
        sql.push(if n > 0 { ", u." } else { "u." }).name(column);
    }
    sql.push(") AS TEXT) FROM users u WHERE u.id").push_any(ids.iter().copied());
    let rows = conn.query_all(&sql, |row| Ok((row.id(0)?, row.text(1)?.to_owned())))?;
    Ok(rows.into_iter().collect())
}
