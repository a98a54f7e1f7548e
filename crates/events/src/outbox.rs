//! What waits for the history service: system events and history events of records, in one order
//! (`docs/reference/history.md`).
//!
//! An event is a row of `outbox`, written in the transaction of its cause, so that neither is there without the other;
//! `relay.rs` delivers the rows in the order of `n` and removes them. Two causes that run at once may be told in either
//! order; of two that wait for each other (changes of one record) the first comes first.
//!
//! The rows have a bound on the bytes they may take (`CHANCERY_OUTBOX_BYTES`). Beyond it, what would add an event is
//! refused, since a change without its history must not happen. Failed sign-ins cost an attacker nothing, so they are
//! folded long before: they share rows with a `count` (see [`Pressure`]). A shared row changes until the relay takes its
//! `fold_key` away, which it does when the row's minute is over; so a folded failure may arrive after events that came
//! behind it. History events are never folded.
//!
//! How many bytes wait is an estimate that each process keeps for each build, so that no row is written by everybody:
//! what was counted last, and what this process has added and delivered since.

use crate::relay;
use crate::settings;
use kit::build::Build;
use kit::refusal::Refusal;
use kit::request::Request;
use serde_json::{Map, Value as Json, json};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use store::{Conn, Error, Sql};
pub use uuid::Uuid;

/// What a row and its places in indexes take beside its body, about.
const ROW: usize = 200;
/// Failures share rows by kind, account and address when so many rows wait, or an eighth of the bytes.
const FOLDED_FROM: i64 = 10_000;
/// Failures share rows by kind alone when so many rows wait, or half of the bytes.
const BARE_FROM: i64 = 100_000;
/// Rows that are removed by one statement; always as many, so that there is one statement.
const REMOVED_AT_ONCE: usize = 100;
/// How long counting may take of all time, as one part in so many.
const COUNTING: u32 = 100;
/// How often rows are counted at most.
const COUNTED: Duration = Duration::from_secs(2);

/// What kind an event is of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Delivered in batches.
    System,
    /// Delivered one by one.
    History,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::System => "system",
            Kind::History => "history",
        }
    }
}

/// A system event.
pub struct SystemEvent {
    /// Microseconds since 1970.
    pub event_timestamp: i64,
    /// 1: `auth`.
    pub category: i64,
    /// See `system_events.rs`.
    pub event_type: i64,
    /// A user, or 0.
    pub source_id: i64,
    /// 1: user; 0: nobody.
    pub source_type: i64,
    /// Where from.
    pub source_ip: String,
    /// What the type does not say.
    pub event_data: Map<String, Json>,
}

/// A history event of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryEvent {
    /// The idempotency key, made once: see [`Uuid::new_v4`].
    pub event_id: Uuid,
    /// Microseconds since 1970.
    pub event_time: i64,
    /// 1 `record_created` to 10 `status_initialized`.
    pub event_type_id: i64,
    /// The record.
    pub record_id: i64,
    /// Who.
    pub source_id: i64,
    /// 1 user, 2 sequence, 3 system, 4 mcp.
    pub source_type_id: i64,
    /// How the source is called now; `None` when unknown.
    pub source_name: Option<String>,
    /// The AI client of an MCP event, else empty.
    pub source_info: String,
    /// Each the JSON text of one entry.
    pub event_data: Vec<String>,
}

/// How much waits, as far as failures are concerned, which are the first to be folded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pressure {
    /// Each failure is a row.
    Light,
    /// Those of the same kind, account and address within a minute share a row.
    Folded,
    /// Those of the same kind within a minute do: at most ten rows a minute.
    Bare,
    /// Those of the same kind do, whenever they are: at most ten rows beyond the bound.
    Full,
}

/// How much waits in the build, cheap failures being about to be added.
pub fn pressure(request: &Request, conn: &mut Conn) -> Result<Pressure, Error> {
    let (bytes, bound) = (backlog(&request.build).waiting().bytes, settings(&request.app).outbox_bytes);
    let rows = rows(conn)?;
    Ok(match () {
        () if bytes >= bound => Pressure::Full,
        () if rows >= BARE_FROM || bytes >= bound / 2 => Pressure::Bare,
        () if rows >= FOLDED_FROM || bytes >= bound / 8 => Pressure::Folded,
        () => Pressure::Light,
    })
}

/// How many rows wait, at most: gaps in the numbers count, and two looks at the ends of an index are all it costs.
fn rows(conn: &mut Conn) -> Result<i64, Error> {
    conn.one(&Sql::new("SELECT COALESCE((SELECT max(n) FROM outbox) - (SELECT min(n) FROM outbox) + 1, 0)"), |row| {
        row.int(0)
    })
}

/// Puts a system event into the outbox, in the transaction of its cause. One with a `fold_key` shares the row of that
/// key, and is not refused: [`Pressure`] sees to it that few keys are made when the outbox is full.
pub fn put_system(
    request: &Request,
    conn: &mut Conn,
    event: &SystemEvent,
    fold_key: Option<String>,
) -> Result<(), Refusal> {
    let id = Uuid::new_v4().to_string();
    let body = json!({
        "id": id,
        "event_timestamp": resource::time::show(event.event_timestamp),
        "category": event.category,
        "event_type": event.event_type,
        "source_id": event.source_id,
        "source_type": event.source_type,
        "source_info": "",
        "source_ip": event.source_ip,
        "event_data": Json::Object(event.event_data.clone()).to_string(),
    });
    let body = body.to_string();
    request.effects.after_commit(relay::wake);
    let Some(key) = fold_key else { return put(request, conn, Kind::System, &id, &body) };
    // The relay may take a shared row out of reach between the two statements, at most once a minute.
    for _ in 0..3 {
        if insert(request, conn, Kind::System, &id, &body, Some(&key))? || count_up(request, conn, &key)? {
            return Ok(());
        }
    }
    Ok(insert(request, conn, Kind::System, &id, &body, None).map(drop)?)
}

/// Puts a history event into the outbox, in the transaction of the change that it tells.
pub fn put_history(request: &Request, conn: &mut Conn, event: &HistoryEvent) -> Result<(), Refusal> {
    let id = event.event_id.to_string();
    let mut body = json!({
        "event_id": id,
        "event_time": resource::time::show(event.event_time),
        "event_type_id": event.event_type_id,
        "record_id": event.record_id,
        "source_id": event.source_id,
        "source_type_id": event.source_type_id,
        "source_info": event.source_info,
        "event_data": event.event_data,
    });
    if let Some(name) = &event.source_name {
        body["source_name"] = json!(name);
    }
    request.effects.after_commit(relay::wake);
    put(request, conn, Kind::History, &id, &body.to_string())
}

/// Refuses when the outbox is full, since what cannot be told must not happen.
fn put(request: &Request, conn: &mut Conn, kind: Kind, id: &str, body: &str) -> Result<(), Refusal> {
    if backlog(&request.build).waiting().bytes >= settings(&request.app).outbox_bytes {
        return Err(Refusal::busy("History is unavailable."));
    }
    Ok(insert(request, conn, kind, id, body, None).map(drop)?)
}

/// Whether the row is there now: not when another one has its key.
fn insert(
    request: &Request,
    conn: &mut Conn,
    kind: Kind,
    id: &str,
    body: &str,
    fold_key: Option<&str>,
) -> Result<bool, Error> {
    let sql = Sql::new(
        "INSERT INTO outbox(id, kind, size, created_at, fold_key, body) VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (fold_key) WHERE fold_key IS NOT NULL DO NOTHING",
    );
    let size = (body.len() + ROW) as i64;
    let sql = sql.arg(id).arg(kind.name()).arg(size).arg(request.now).arg(fold_key.map(str::to_owned)).arg(body);
    let is_new = conn.exec(&sql)? == 1;
    if is_new {
        backlog(&request.build).added(size, request.now);
    }
    Ok(is_new)
}

/// Adds one to the count of a shared row, and tells when the last of them was; whether there is such a row.
fn count_up(request: &Request, conn: &mut Conn, key: &str) -> Result<bool, Error> {
    let sql = Sql::new("SELECT n, body FROM outbox WHERE fold_key = $1 FOR UPDATE").arg(key);
    let found = conn.opt(&sql, |row| {
        let body: Json = serde_json::from_str(row.text(1)?).unwrap_or_else(|_| json!({}));
        Ok((row.int(0)?, body))
    })?;
    let Some((n, mut body)) = found else { return Ok(false) };
    let data = body["event_data"].as_str().and_then(|data| serde_json::from_str(data).ok());
    let mut data: Json = data.unwrap_or_else(|| json!({}));
    data["count"] = json!(data["count"].as_i64().unwrap_or(1) + 1);
    data["last_at"] = json!(resource::time::show(request.now));
    body["event_data"] = json!(data.to_string());
    let body = body.to_string();
    let sql = Sql::new("UPDATE outbox SET body = $1, size = $2 WHERE n = $3");
    conn.exec(&sql.arg(&body).arg((body.len() + ROW) as i64).arg(n)).map(|_| true)
}

// ---- What this process knows of it ---------------------------------------------------------------------------------

/// What waits in a build, as far as this process knows.
#[derive(Default)]
pub struct Backlog(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    waiting: Waiting,
    /// What was added since the last count began.
    since: Waiting,
    /// When the rows are to be counted again.
    next: Option<Instant>,
}

/// An estimate of what waits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waiting {
    /// How many events.
    pub rows: i64,
    /// How many bytes.
    pub bytes: i64,
    /// Since when the oldest does, microseconds since 1970.
    pub oldest: Option<i64>,
}

/// What is known of a build's outbox.
pub fn backlog(build: &Build) -> &Backlog {
    build.slot()
}

impl Waiting {
    /// Both together; what was there first is the older.
    fn and(self, later: Waiting) -> Waiting {
        let (rows, bytes) = (self.rows + later.rows, self.bytes + later.bytes);
        Waiting { rows, bytes, oldest: self.oldest.or(later.oldest) }
    }
}

impl Backlog {
    /// The estimate.
    pub fn waiting(&self) -> Waiting {
        self.known().waiting
    }

    /// What was undone by a transaction that failed shows at the next count.
    fn added(&self, size: i64, now: i64) {
        let Counted { waiting, since, .. } = &mut *self.known();
        let event = Waiting { rows: 1, bytes: size, oldest: Some(now) };
        (*waiting, *since) = (waiting.and(event), since.and(event));
    }

    /// The relay has removed rows, and knows when what is left began.
    pub fn removed(&self, rows: i64, bytes: i64, oldest: Option<i64>) {
        let waiting = &mut self.known().waiting;
        (waiting.rows, waiting.bytes) = ((waiting.rows - rows).max(0), (waiting.bytes - bytes).max(0));
        waiting.oldest = oldest;
    }

    /// Nothing waits.
    pub fn clear(&self) {
        *self.known() = Counted::default();
    }

    /// Whether what waits may be counted again.
    pub fn is_outdated(&self) -> bool {
        self.known().next.is_none_or(|next| Instant::now() >= next)
    }

    /// Counts what waits, unless it was counted a moment ago; counting many rows is done less often. What is added while
    /// it counts comes on top. Only an event whose transaction runs just when the count begins may be missing until the
    /// next one, or be there twice.
    pub fn count(&self, conn: &mut Conn) -> Result<(), Error> {
        let started = Instant::now();
        {
            let mut known = self.known();
            if known.next.is_some_and(|next| started < next) {
                return Ok(());
            }
            known.since = Waiting::default();
        }
        let sql = Sql::new("SELECT count(*), CAST(COALESCE(sum(size), 0) AS BIGINT), min(created_at) FROM outbox");
        let waiting =
            conn.one(&sql, |row| Ok(Waiting { rows: row.int(0)?, bytes: row.int(1)?, oldest: row.opt_int(2)? }))?;
        let next = Instant::now() + COUNTED.max(started.elapsed() * COUNTING);
        let mut known = self.known();
        (known.waiting, known.next) = (waiting.and(known.since), Some(next));
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// ---- Delivery ------------------------------------------------------------------------------------------------------

/// What is at the head of the outbox.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Head {
    /// Whether an event may be delivered as it is.
    pub is_ready: bool,
    /// When the first of the shared rows was begun, if there is one.
    pub folded_since: Option<i64>,
}

impl Head {
    /// A look at two indexes.
    pub fn look(conn: &mut Conn) -> Result<Head, Error> {
        let ready = Sql::new("SELECT 1 FROM outbox WHERE fold_key IS NULL LIMIT 1");
        let is_ready = conn.opt(&ready, |row| row.int(0))?.is_some();
        let folded = Sql::new("SELECT min(created_at) FROM outbox WHERE fold_key IS NOT NULL");
        Ok(Head { is_ready, folded_since: conn.one(&folded, |row| row.opt_int(0))? })
    }
}

/// Takes shared rows that were begun before a moment out of reach: they change no more.
pub fn seal(conn: &mut Conn, before: i64) -> Result<(), Error> {
    let sql = Sql::new("UPDATE outbox SET fold_key = NULL WHERE fold_key IS NOT NULL AND created_at < $1");
    conn.exec(&sql.arg(before)).map(drop)
}

/// Claims the outbox for a process until a moment; whether no other one has it.
pub fn claim(conn: &mut Conn, holder: &str, now: i64, until: i64) -> Result<bool, Error> {
    let sql = Sql::new("UPDATE outbox_claim SET holder = $1, until = $2 WHERE holder = $1 OR until <= $3");
    Ok(conn.exec(&sql.arg(holder).arg(until).arg(now))? == 1)
}

/// Gives a claim back.
pub fn release(conn: &mut Conn, holder: &str) -> Result<(), Error> {
    conn.exec(&Sql::new("UPDATE outbox_claim SET until = 0 WHERE holder = $1").arg(holder)).map(drop)
}

/// Events of one kind that stand together at the head.
pub struct Batch {
    /// Their kind.
    pub kind: Kind,
    /// The first is the oldest.
    pub events: Vec<Waits>,
}

/// An event that waits.
pub struct Waits {
    /// Its place in the order.
    pub n: i64,
    /// Its idempotency key.
    pub id: String,
    /// What it counts for the bound.
    pub size: i64,
    /// When it was put here.
    pub created_at: i64,
    /// JSON.
    pub body: String,
}

impl Batch {
    /// At most so many events and bytes, but at least one if there is one. Sizes come first, since a thousand bodies may
    /// be more than memory should hold.
    pub fn first(conn: &mut Conn, most: usize, most_bytes: i64) -> Result<Option<Batch>, Error> {
        let sql = Sql::new("SELECT n, kind, size FROM outbox WHERE fold_key IS NULL ORDER BY n LIMIT $1");
        let sizes = conn.all(&sql.arg(most as i64), |row| {
            let kind = if row.text(1)? == Kind::System.name() { Kind::System } else { Kind::History };
            Ok((row.int(0)?, kind, row.int(2)?))
        })?;
        let Some((first, kind, _)) = sizes.first().copied() else { return Ok(None) };
        let mut bytes = 0;
        let fitting = sizes.iter().take_while(|(n, of, size)| {
            bytes += size;
            *of == kind && (*n == first || bytes <= most_bytes)
        });
        let (count, last) = fitting.fold((0, first), |(count, _), (n, ..)| (count + 1, *n));
        let sql = Sql::new(
            "SELECT n, id, size, created_at, body FROM outbox \
             WHERE fold_key IS NULL AND kind = $1 AND n >= $2 AND n <= $3 ORDER BY n LIMIT $4",
        );
        let events = conn.all(&sql.arg(kind.name()).arg(first).arg(last).arg(count), |row| {
            let (id, body) = (row.text(1)?.to_owned(), row.text(4)?.to_owned());
            Ok(Waits { n: row.int(0)?, id, size: row.int(2)?, created_at: row.int(3)?, body })
        })?;
        Ok(Some(Batch { kind, events }))
    }
}

/// Removes events; since when the oldest of the others waits. One by one, not from the first to the last: between them
/// there may be one by now whose transaction took longer.
pub fn remove(conn: &mut Conn, numbers: &[i64]) -> Result<Option<i64>, Error> {
    for numbers in numbers.chunks(REMOVED_AT_ONCE) {
        let mut sql = Sql::new("DELETE FROM outbox WHERE n IN (");
        for at in 0..REMOVED_AT_ONCE {
            sql.push(if at == 0 { "" } else { ", " }).bind(numbers[at.min(numbers.len() - 1)]);
        }
        sql.push(")");
        conn.exec(&sql)?;
    }
    conn.opt(&Sql::new("SELECT created_at FROM outbox ORDER BY n LIMIT 1"), |row| row.int(0))
}

/// Puts an event that the history service refuses for good aside, with the reason, so that the others go on.
pub fn set_aside(conn: &mut Conn, n: i64, reason: &str, now: i64) -> Result<(), Error> {
    let sql = Sql::new(
        "INSERT INTO outbox_refused(id, kind, reason, created_at, refused_at, body) \
         SELECT id, kind, $1, created_at, $2, body FROM outbox WHERE n = $3 ON CONFLICT DO NOTHING",
    );
    conn.exec(&sql.arg(reason).arg(now).arg(n)).map(drop)
}
