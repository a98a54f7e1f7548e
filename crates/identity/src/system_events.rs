//! System events: the outcome of each attempt to sign in, for the history service (`docs/reference/history.md`).
//!
//! All reasons for the refusal of a login get the same 401 and differ only here. An attacker can cause any number of failures, so
//! they are folded into fewer events when many events wait (`outbox.rs`). Successes are never folded.
//!
//! `source_id` is the user, or 0 if the account does not exist. The username of the request is not stored, since people sometimes
//! enter their password there.

use events::outbox::{self, OutboxSystemEvent, Pressure};
use kit::ids::UserId;
use kit::refusal::Refusal;
use kit::request::Request;
use serde_json::{Map, json};
use store::Conn;

const MINUTE_US: i64 = 60_000_000;

/// The category `auth`.
const CATEGORY_AUTH: i64 = 1;
/// The `source_type` of an event about a user. Other events have 0.
pub const SOURCE_TYPE_USER: i64 = 1;

/// The events of the category `auth`, with their names and numbers in the history service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AuthEvent {
    LoginSuccess = 1,
    LoginFailed = 2,
    LoginFailedSso = 3,
    LoginFailedInactiveAccount = 4,
    LoginFailedInvalidAuthMethod = 5,
    AccountLocked = 6,
    PasswordResetRequestSuccess = 7,
    PasswordResetRequestFailed = 8,
    PasswordResetSuccess = 9,
    PasswordResetFailed = 10,
}

impl AuthEvent {
    /// Returns whether an attacker can cause any number of these events.
    fn is_foldable(self) -> bool {
        !matches!(self, AuthEvent::LoginSuccess | AuthEvent::PasswordResetSuccess)
    }
}

/// Writes an event about a user (`None` if the account does not exist), with a reason if the event has several.
pub fn write(
    request: &Request,
    conn: &mut Conn,
    event: AuthEvent,
    user: Option<UserId>,
    reason: Option<&str>,
) -> Result<(), Refusal> {
    let pressure = if event.is_foldable() { outbox::pressure(request, conn)? } else { Pressure::Light };
    let is_bare = matches!(pressure, Pressure::Bare | Pressure::Full);
    let (user, ip) = if is_bare { (None, String::new()) } else { (user, request.address.to_string()) };
    let (kind, source, minute) = (event as i64, user.map_or(0, UserId::get), request.now.div_euclid(MINUTE_US));
    let fold_key = match pressure {
        Pressure::Light => None,
        Pressure::Folded => Some(format!("{kind}/{source}/{ip}/{minute}")),
        Pressure::Bare => Some(format!("{kind}/{minute}")),
        Pressure::Full => Some(kind.to_string()),
    };
    let mut data = Map::new();
    data.extend(reason.map(|reason| ("reason".to_owned(), json!(reason))));
    // The lock is one microsecond later than the failure that caused it, so that lists by time show it after the failure.
    let event_timestamp = request.now + i64::from(event == AuthEvent::AccountLocked);
    let event = OutboxSystemEvent {
        event_timestamp,
        category: CATEGORY_AUTH,
        event_type: kind,
        source_id: source,
        source_type: if user.is_some() { SOURCE_TYPE_USER } else { 0 },
        source_ip: ip,
        event_data: data,
    };
    outbox::put_system(request, conn, &event, fold_key)
}
