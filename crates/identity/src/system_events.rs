//! System events: what became of each attempt to sign in, for the history service (document 3, "System events").
//!
//! The five reasons for which a login is refused answer the same 401, and differ here alone. Failures cost an attacker
//! nothing, so they are folded when many events wait (`outbox.rs`); successes never are.
//!
//! `source_id` is the user, 0 when there is no such account. What was typed as a name is not kept: people type passwords
//! there.

use events::outbox::{self, Pressure, SystemEvent};
use kit::refusal::Refusal;
use kit::request::Request;
use serde_json::{Map, json};
use store::Conn;

const MINUTE: i64 = 60_000_000;

/// Category 1.
const AUTH: i64 = 1;
/// `source_type` of an event with a user; 0 is that of one without.
const USER: i64 = 1;

/// The events of the category `auth`, with their numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as in document 3")]
pub enum Event {
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

impl Event {
    /// Whether an attacker causes it at no cost.
    fn is_cheap(self) -> bool {
        !matches!(self, Event::LoginSuccess | Event::PasswordResetSuccess)
    }
}

/// Writes an event about a user (`None`: no such account), with its reason where the kind does not say it.
pub fn note(
    request: &Request,
    conn: &mut Conn,
    event: Event,
    user: Option<i64>,
    reason: Option<&str>,
) -> Result<(), Refusal> {
    let pressure = if event.is_cheap() { outbox::pressure(request, conn)? } else { Pressure::Light };
    let is_bare = matches!(pressure, Pressure::Bare | Pressure::Full);
    let (user, ip) = if is_bare { (None, String::new()) } else { (user, request.address.to_string()) };
    let (kind, source, minute) = (event as i64, user.unwrap_or(0), request.now.div_euclid(MINUTE));
    let fold_key = match pressure {
        Pressure::Light => None,
        Pressure::Folded => Some(format!("{kind}/{source}/{ip}/{minute}")),
        Pressure::Bare => Some(format!("{kind}/{minute}")),
        Pressure::Full => Some(kind.to_string()),
    };
    let mut data = Map::new();
    data.extend(reason.map(|reason| ("reason".to_owned(), json!(reason))));
    // A lock comes after the failure that caused it, also where events are listed by their moments.
    let event_timestamp = request.now + i64::from(event == Event::AccountLocked);
    let event = SystemEvent {
        event_timestamp,
        category: AUTH,
        event_type: kind,
        source_id: source,
        source_type: if user.is_some() { USER } else { 0 },
        source_ip: ip,
        event_data: data,
    };
    outbox::put_system(request, conn, &event, fold_key)
}
