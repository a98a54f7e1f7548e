//! System events: what became of each attempt to sign in, for the history service (document 3, "System events").
//!
//! An event is a row of `outbox`, written in the transaction of its cause; what delivers the rows takes them in the order
//! of `n` and removes them. The five reasons for which a login is refused answer the same 401, and differ here alone.
//!
//! Failures cost an attacker nothing, so they must not fill the disk. While the outbox is short, each is a row. From
//! [`FOLDED_FROM`] rows on, failures of the same kind, account and address within a minute share one row with a `count`
//! in `event_data`; from [`BARE_FROM`] on, those of the same kind within a minute do, whatever their account and address,
//! which leaves at most ten rows a minute. Successes are never folded. A row that has a `fold_key` of the current minute
//! may still change, so delivery leaves it for a minute.
//!
//! `source_id` is the user, 0 when there is no such account. What was typed as a name is not kept: people type passwords
//! there.

use crate::http::Request;
use serde_json::{Map, Value as Json, json};
use store::{Conn, Error, Sql};

/// Failures share rows by kind, account and address when so many rows wait.
const FOLDED_FROM: i64 = 10_000;
/// Failures share rows by kind alone when so many rows wait.
const BARE_FROM: i64 = 100_000;
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
) -> Result<(), Error> {
    let waiting = if event.is_cheap() { waiting(conn)? } else { 0 };
    let is_bare = waiting >= BARE_FROM;
    let (user, ip) = if is_bare { (None, String::new()) } else { (user, request.address.to_string()) };
    let source = user.unwrap_or(0);
    let fold_key = (waiting >= FOLDED_FROM).then(|| {
        let minute = request.now.div_euclid(MINUTE);
        if is_bare { format!("{}/{minute}", event as i64) } else { format!("{}/{source}/{ip}/{minute}", event as i64) }
    });
    let mut data = Map::new();
    data.extend(reason.map(|reason| ("reason".to_owned(), json!(reason))));
    let sql = Sql::new(
        "INSERT INTO outbox(id, event_timestamp, category, event_type, source_id, source_type, source_info, source_ip, event_data, fold_key) \
         VALUES ($1, $2, $3, $4, $5, $6, '', $7, $8, $9) ON CONFLICT (fold_key) DO NOTHING",
    );
    let sql = sql
        .arg(uuid::Uuid::new_v4().to_string())
        .arg(request.now)
        .arg(AUTH)
        .arg(event as i64)
        .arg(source)
        .arg(if user.is_some() { USER } else { 0 })
        .arg(ip)
        .arg(Json::Object(data).to_string())
        .arg(fold_key.clone());
    if conn.exec(&sql)? == 0
        && let Some(key) = fold_key
    {
        count_up(conn, &key)?;
    }
    Ok(())
}

/// How many rows wait, at most: gaps in the numbers count, and two looks at the ends of an index are all it costs.
fn waiting(conn: &mut Conn) -> Result<i64, Error> {
    conn.one(&Sql::new("SELECT COALESCE((SELECT max(n) FROM outbox) - (SELECT min(n) FROM outbox) + 1, 0)"), |row| {
        row.int(0)
    })
}

fn count_up(conn: &mut Conn, key: &str) -> Result<(), Error> {
    let sql = Sql::new("SELECT n, event_data FROM outbox WHERE fold_key = $1 FOR UPDATE").arg(key);
    let found = conn.opt(&sql, |row| {
        let data: Json = serde_json::from_str(row.text(1)?).unwrap_or_else(|_| json!({}));
        Ok((row.int(0)?, data))
    })?;
    let Some((n, mut data)) = found else { return Ok(()) };
    data["count"] = json!(data["count"].as_i64().unwrap_or(1) + 1);
    let sql = Sql::new("UPDATE outbox SET event_data = $1 WHERE n = $2").arg(data.to_string()).arg(n);
    conn.exec(&sql).map(|_| ())
}
