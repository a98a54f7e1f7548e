//! The outbox: the events of a build that wait for delivery to the history service. System events and
//! history events of records are in one order (`docs/reference/history.md`).
//!
//! An event is a row of `outbox`, written in the transaction of its cause, so that neither exists
//! without the other. `relay.rs` delivers the rows in the order of `n` and removes them. Events of
//! concurrent transactions may be in either order, and history events arrive in any order.
//!
//! The size of the rows is limited (`CHANCERY_OUTBOX_BYTES`). Beyond the limit, requests that would add an event are
//! refused, since no change may happen without its history. Failed sign-ins cost an attacker nothing, so they are folded
//! long before that: several share one row with a `count` (see [`Pressure`]). A shared row changes until its minute is
//! over and the relay removes its `fold_key`. A folded failure may therefore arrive after later events. History events
//! are never folded. A batch that writes thousands of them waits for its turn before it begins ([`turn`]). Batches are
//! therefore not faster than the delivery, and leave most of the outbox for times without delivery.
//!
//! The number of waiting bytes is an estimate that each process has for each build, since every writer would
//! lock a stored counter. It is the last count, with the events that this process has added and delivered since.

use crate::relay;
use crate::settings;
use kit::app::App;
use kit::build::Build;
use kit::ids::RecordId;
use kit::refusal::Refusal;
use kit::request::Request;
use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use store::{BorrowedArgument, Conn, Sql, StoreError};
use tokio::sync::{Semaphore, SemaphorePermit};
pub use uuid::Uuid;

/// The approximate size in bytes of a row and its index entries, without the body.
const ROW_OVERHEAD_BYTES: usize = 200;
/// The number of waiting rows from which failures share rows by type, account and address.
const FOLDED_FROM_ROWS: i64 = 10_000;
/// The number of waiting rows from which failures share rows by type alone.
const BARE_FROM_ROWS: i64 = 100_000;
/// The pause after a count, as a multiple of the time that it took, so that counting uses about 1 % of the time.
const COUNT_PAUSE_FACTOR: u32 = 100;
/// The shortest time between two counts of the rows.
const MIN_COUNT_INTERVAL: Duration = Duration::from_secs(2);

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EventKind {
    /// A system event. System events are delivered in batches.
    System,
    /// A history event. Each one is sent by a call of its own, and many calls run at once.
    History,
}

impl EventKind {
    fn name(self) -> &'static str {
        match self {
            EventKind::System => "system",
            EventKind::History => "history",
        }
    }
}

/// A system event.
pub struct OutboxSystemEvent {
    /// The time of the event, in microseconds since 1970.
    pub event_timestamp: i64,
    /// The category; 1 is `auth`.
    pub category: i64,
    /// The type; see `system_events.rs` of identity.
    pub event_type: i64,
    /// The id of the user, or 0.
    pub source_id: i64,
    /// The type of the source: 1 for a user, 0 for none.
    pub source_type: i64,
    /// The IP address of the caller.
    pub source_ip: String,
    /// Details of the event.
    pub event_data: Map<String, Json>,
}

/// A history event of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboxHistoryEvent {
    /// The idempotency key, such as [`Uuid::new_v4`].
    pub event_id: Uuid,
    /// The time of the event, in microseconds since 1970.
    pub event_time: i64,
    /// The type, from 1 `record_created` to 10 `status_initialized`.
    pub event_type_id: i64,
    /// The id of the record.
    pub record_id: RecordId,
    /// The id of the user, sequence or other source that caused the event.
    pub source_id: i64,
    /// The type of the source: 1 user, 2 sequence, 3 system, 4 mcp.
    pub source_type_id: i64,
    /// The current name of the source; `None` if unknown.
    pub source_name: Option<String>,
    /// The AI client of an MCP event, otherwise empty.
    pub source_info: String,
    /// The entries, each as JSON text.
    pub event_data: Vec<String>,
}

/// The fill level of the outbox. It decides which failures share rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pressure {
    /// Each failure gets its own row.
    Light,
    /// Failures of the same type, account and address within a minute share a row.
    Folded,
    /// Failures of the same type within a minute share a row, so there are at most ten new rows a minute.
    Bare,
    /// Failures of the same type share a row at any time, so at most ten rows exceed the limit.
    Full,
}

/// Returns the fill level of the build's outbox, by its rows and its bytes (an eighth, a half or all of the limit).
pub fn pressure(request: &Request, conn: &mut Conn) -> Result<Pressure, StoreError> {
    let (bytes, limit) = (backlog(&request.build).current_estimate().bytes, settings(&request.app).outbox_bytes);
    let rows = max_rows(conn)?;
    Ok(match () {
        () if bytes >= limit => Pressure::Full,
        () if rows >= BARE_FROM_ROWS || bytes >= limit / 2 => Pressure::Bare,
        () if rows >= FOLDED_FROM_ROWS || bytes >= limit / 8 => Pressure::Folded,
        () => Pressure::Light,
    })
}

/// Returns an upper bound of the number of waiting rows, from the first and the last number. Gaps count, but the read is cheap.
fn max_rows(conn: &mut Conn) -> Result<i64, StoreError> {
    conn.query_one(
        &Sql::new("SELECT COALESCE((SELECT max(n) FROM outbox) - (SELECT min(n) FROM outbox) + 1, 0)"),
        |row| row.int(0),
    )
}

/// Puts a system event into the outbox, in the transaction of its cause. An event with a `fold_key` shares the row of
/// that key. It is never refused, since there are only few keys when the outbox is full (see [`Pressure`]).
pub fn put_system(
    request: &Request,
    conn: &mut Conn,
    event: &OutboxSystemEvent,
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
    let Some(key) = fold_key else {
        admit(&request.app, &request.build, size(&body))?;
        return Ok(insert(request, conn, &id, &body, None).map(drop)?);
    };
    // The relay may close the shared row between the two statements, at most once a minute.
    for _ in 0..3 {
        if insert(request, conn, &id, &body, Some(&key))? || count_up(request, conn, &key)? {
            return Ok(());
        }
    }
    Ok(insert(request, conn, &id, &body, None).map(drop)?)
}

/// The functions of higher modules that process history events, in the transaction that puts them into the outbox.
#[derive(Default)]
pub struct HistoryHooks(pub Vec<HistoryHook>);

/// A function that gets the events of a transaction, and the version of the subscribers in the transaction.
pub type HistoryHook = fn(&Request, &mut Conn, &[OutboxHistoryEvent], i64) -> Result<(), Refusal>;

/// Reads the version of the subscribers in the insert of the events on PostgreSQL, so that it costs no round trip.
const RETURN_SUBSCRIBERS: &str = " RETURNING (SELECT v.n FROM versions v WHERE v.name = 'event_subscribers')";
/// Reads the version on SQLite. There an `INSERT … RETURNING` opens a savepoint, at which FTS5 writes
/// out the words of the transaction.
const SUBSCRIBERS: &str = "SELECT v.n FROM versions v WHERE v.name = 'event_subscribers'";

/// Records that the subscribers of events have changed. Every transaction that changes the data that a
/// [`HistoryHook`] reads must call it, so that all processes notice.
pub fn subscribers_changed(conn: &mut Conn) -> Result<(), StoreError> {
    conn.exec(&Sql::new("UPDATE versions SET n = n + 1 WHERE name = 'event_subscribers'")).map(drop)
}

/// Puts history events into the outbox, in the transaction of the changes that they describe. It puts
/// all of them, or none if the outbox has no room for all.
pub fn put_history(request: &Request, conn: &mut Conn, events: &[OutboxHistoryEvent]) -> Result<(), Refusal> {
    if events.is_empty() {
        return Ok(());
    }
    request.effects.after_commit(relay::wake);
    let bodies: Vec<(String, String)> =
        events.iter().map(|event| (event.event_id.to_string(), event.to_json())).collect();
    let bytes = bodies.iter().map(|(_, body)| size(body)).sum();
    admit(&request.app, &request.build, bytes)?;
    let now = request.now;
    let rows = bodies.iter().map(|(id, body)| {
        [
            BorrowedArgument::Text(id),
            BorrowedArgument::Text(EventKind::History.name()),
            BorrowedArgument::Int(size(body)),
            BorrowedArgument::Int(now),
            BorrowedArgument::Text(body),
        ]
    });
    let rows: Vec<[BorrowedArgument<'_>; 5]> = rows.collect();
    let columns = ["id", "kind", "size", "created_at", "body"];
    let version = if conn.is_embedded() {
        conn.insert_rows("outbox", &columns, &rows, "")?;
        conn.query_optional(&Sql::new(SUBSCRIBERS), |row| row.int(0))?
    } else {
        conn.insert_rows("outbox", &columns, &rows, RETURN_SUBSCRIBERS)?.last().copied()
    };
    let version = version.unwrap_or_default();
    backlog(&request.build).added(OutboxSize { rows: events.len() as i64, bytes, oldest: Some(now) });
    let hooks = &request.app.slot::<HistoryHooks>().0;
    hooks.iter().try_for_each(|hook| hook(request, conn, events, version))
}

impl OutboxHistoryEvent {
    /// Returns the event as JSON text, in the form that the history service accepts (`docs/reference/history.md`).
    fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct EventBody<'a> {
            event_id: String,
            event_time: String,
            event_type_id: i64,
            record_id: RecordId,
            source_id: i64,
            source_type_id: i64,
            source_info: &'a str,
            event_data: &'a [String],
            #[serde(skip_serializing_if = "Option::is_none")]
            source_name: Option<&'a str>,
        }
        let body = EventBody {
            event_id: self.event_id.to_string(),
            event_time: resource::time::show(self.event_time),
            event_type_id: self.event_type_id,
            record_id: self.record_id,
            source_id: self.source_id,
            source_type_id: self.source_type_id,
            source_info: &self.source_info,
            event_data: &self.event_data,
            source_name: self.source_name.as_deref(),
        };
        // All values are texts and numbers, which always become JSON.
        serde_json::to_string(&body).unwrap_or_default()
    }
}

/// Refuses `bytes` bytes if the outbox has no room for them. An empty outbox accepts everything, since
/// it will never have more room.
fn admit(app: &App, build: &Build, bytes: i64) -> Result<(), Refusal> {
    let waiting = backlog(build).current_estimate().bytes;
    let has_room = waiting == 0 || waiting + bytes <= settings(app).outbox_bytes;
    if has_room { Ok(()) } else { Err(Refusal::service_busy("History is unavailable.")) }
}

/// Returns the size of a row with this body, as counted for the limit.
fn size(body: &str) -> i64 {
    (body.len() + ROW_OVERHEAD_BYTES) as i64
}

/// Inserts a system event and returns whether that succeeded. It fails if another row has the same `fold_key`.
fn insert(
    request: &Request,
    conn: &mut Conn,
    id: &str,
    body: &str,
    fold_key: Option<&str>,
) -> Result<bool, StoreError> {
    let sql = Sql::new(
        "INSERT INTO outbox(id, kind, size, created_at, fold_key, body) VALUES ($1, 'system', $2, $3, $4, $5) \
         ON CONFLICT (fold_key) WHERE fold_key IS NOT NULL DO NOTHING",
    );
    let sql = sql.arg(id).arg(size(body)).arg(request.now).arg(fold_key.map(str::to_owned)).arg(body);
    let is_new = conn.exec(&sql)? == 1;
    if is_new {
        backlog(&request.build).added(OutboxSize { rows: 1, bytes: size(body), oldest: Some(request.now) });
    }
    Ok(is_new)
}

/// Adds one to the count of a shared row and updates its `last_at`; returns false if there is no such row.
fn count_up(request: &Request, conn: &mut Conn, key: &str) -> Result<bool, StoreError> {
    let sql = Sql::new("SELECT n, body FROM outbox WHERE fold_key = $1 FOR UPDATE").arg(key);
    let row = conn.query_optional(&sql, |row| Ok((row.int(0)?, row.json::<Json>(1)?)))?;
    let Some((n, mut body)) = row else { return Ok(false) };
    let data = body["event_data"].as_str().and_then(|data| serde_json::from_str(data).ok());
    let mut data: Json = data.unwrap_or_else(|| json!({}));
    data["count"] = json!(data["count"].as_i64().unwrap_or(1) + 1);
    data["last_at"] = json!(resource::time::show(request.now));
    body["event_data"] = json!(data.to_string());
    let body = body.to_string();
    let sql = Sql::new("UPDATE outbox SET body = $1, size = $2 WHERE n = $3");
    conn.exec(&sql.arg(&body).arg(size(&body)).arg(n)).map(|_| true)
}

// ---- Turns of batches ----------------------------------------------------------------------------------------------

/// The divisor of the limit that results in the size beyond which batches wait.
const BATCHES_WAIT_FROM: i64 = 16;
/// The number of waiting rows beyond which batches wait. These and one more batch are delivered within
/// seconds, and do not make failures share rows.
const BATCHES_WAIT_FROM_ROWS: i64 = FOLDED_FROM_ROWS / 5;
/// The number of batches of a build that may be written at a time in a process.
const BATCHES_AT_A_TIME: usize = 4;
/// The maximum time for which a batch waits for its turn.
const MAX_WAIT_FOR_TURN: Duration = Duration::from_secs(10);
/// The pause between two checks of the waiting events.
const TURN_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The turn of a batch, which ends on drop.
pub struct BatchTurn<'a>(#[expect(dead_code, reason = "it is held")] Option<SemaphorePermit<'a>>);

/// Waits until a batch of changes with thousands of events may begin. The caller drops the turn after the
/// commit. Few batches are written at a time, and none while many events wait for delivery. If nothing is
/// delivered, or after [`MAX_WAIT_FOR_TURN`], the batch begins immediately, and only the limit applies.
pub async fn turn<'a>(app: &App, build: &'a Build) -> BatchTurn<'a> {
    let until = Instant::now() + MAX_WAIT_FOR_TURN;
    let turns = &backlog(build).turns;
    let permit = tokio::time::timeout_at(until.into(), turns.acquire()).await;
    let has_much = || {
        let waiting = backlog(build).current_estimate();
        waiting.bytes > settings(app).outbox_bytes / BATCHES_WAIT_FROM || waiting.rows > BATCHES_WAIT_FROM_ROWS
    };
    while relay::is_delivering(app, build) && has_much() && Instant::now() < until {
        tokio::time::sleep(TURN_CHECK_INTERVAL).await;
    }
    // The semaphore is never closed.
    BatchTurn(permit.ok().and_then(Result::ok))
}

// ---- The backlog ---------------------------------------------------------------------------------------------------

/// This process's estimate of the events that wait in a build's outbox, and the turns of batches that add to it.
pub struct Backlog {
    estimate: Mutex<Estimate>,
    turns: Semaphore,
}

impl Default for Backlog {
    fn default() -> Backlog {
        Backlog { estimate: Mutex::default(), turns: Semaphore::new(BATCHES_AT_A_TIME) }
    }
}

#[derive(Default)]
struct Estimate {
    waiting: OutboxSize,
    /// The events that this process has added since the last count began.
    added: OutboxSize,
    /// The time from which on the rows may be counted again.
    next_count: Option<Instant>,
}

/// The number, size and age of waiting events.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OutboxSize {
    /// The number of events.
    pub rows: i64,
    /// Their size in bytes.
    pub bytes: i64,
    /// The time since which the oldest one waits, in microseconds since 1970.
    pub oldest: Option<i64>,
}

/// Returns the backlog of a build.
pub fn backlog(build: &Build) -> &Backlog {
    build.slot()
}

impl OutboxSize {
    /// Returns the sum of both. The events of `later` are the newer ones.
    fn add(self, later: OutboxSize) -> OutboxSize {
        let (rows, bytes) = (self.rows + later.rows, self.bytes + later.bytes);
        OutboxSize { rows, bytes, oldest: self.oldest.or(later.oldest) }
    }
}

impl Backlog {
    /// Returns the current estimate.
    pub fn current_estimate(&self) -> OutboxSize {
        self.estimate().waiting
    }

    /// Adds events to the estimate. If their transaction fails, the next count corrects that.
    fn added(&self, events: OutboxSize) {
        let Estimate { waiting, added, .. } = &mut *self.estimate();
        (*waiting, *added) = (waiting.add(events), added.add(events));
    }

    /// Subtracts delivered events from the estimate; `oldest` is the time of the oldest remaining event.
    pub fn removed(&self, rows: i64, bytes: i64, oldest: Option<i64>) {
        let waiting = &mut self.estimate().waiting;
        (waiting.rows, waiting.bytes) = ((waiting.rows - rows).max(0), (waiting.bytes - bytes).max(0));
        waiting.oldest = oldest;
    }

    /// Sets the estimate to zero.
    pub fn clear(&self) {
        *self.estimate() = Estimate::default();
    }

    /// Returns whether the rows may be counted again.
    pub fn is_outdated(&self) -> bool {
        self.estimate().next_count.is_none_or(|next| Instant::now() >= next)
    }

    /// Counts the rows, unless the last count is recent. Slow counts run less often. Events that are added
    /// during the count are added to its result. An event whose transaction runs when the count begins may
    /// be missing or counted twice until the next count.
    pub fn count(&self, conn: &mut Conn) -> Result<(), StoreError> {
        let started = Instant::now();
        {
            let mut estimate = self.estimate();
            if estimate.next_count.is_some_and(|next| started < next) {
                return Ok(());
            }
            estimate.added = OutboxSize::default();
        }
        let sql = Sql::new("SELECT count(*), CAST(COALESCE(sum(size), 0) AS BIGINT), min(created_at) FROM outbox");
        let waiting = conn
            .query_one(&sql, |row| Ok(OutboxSize { rows: row.int(0)?, bytes: row.int(1)?, oldest: row.opt_int(2)? }))?;
        let next = Instant::now() + MIN_COUNT_INTERVAL.max(started.elapsed() * COUNT_PAUSE_FACTOR);
        let mut estimate = self.estimate();
        (estimate.waiting, estimate.next_count) = (waiting.add(estimate.added), Some(next));
        Ok(())
    }

    fn estimate(&self) -> MutexGuard<'_, Estimate> {
        web::lock(&self.estimate)
    }
}

// ---- Delivery ------------------------------------------------------------------------------------------------------

/// The events of an outbox that can be delivered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeliverableEvents {
    /// Is true if an event can be delivered now.
    pub is_ready: bool,
    /// The creation time of the oldest shared row that may still change, if there is one.
    pub folded_since: Option<i64>,
}

impl DeliverableEvents {
    /// Reads the head of the outbox, from two indexes.
    pub fn read(conn: &mut Conn) -> Result<DeliverableEvents, StoreError> {
        let ready = Sql::new("SELECT 1 FROM outbox WHERE fold_key IS NULL LIMIT 1");
        let is_ready = conn.query_optional(&ready, |row| row.int(0))?.is_some();
        let folded = Sql::new("SELECT min(created_at) FROM outbox WHERE fold_key IS NOT NULL");
        Ok(DeliverableEvents { is_ready, folded_since: conn.query_one(&folded, |row| row.opt_int(0))? })
    }
}

/// Closes the shared rows that were created before a time. They do not change any more and can be delivered.
pub fn close_shared(conn: &mut Conn, before: i64) -> Result<(), StoreError> {
    let sql = Sql::new("UPDATE outbox SET fold_key = NULL WHERE fold_key IS NOT NULL AND created_at < $1");
    conn.exec(&sql.arg(before)).map(drop)
}

/// Claims the outbox for a process until a time; returns false if another process has the claim.
pub fn claim(conn: &mut Conn, holder: &str, now: i64, until: i64) -> Result<bool, StoreError> {
    let sql = Sql::new("UPDATE outbox_claim SET holder = $1, until = $2 WHERE holder = $1 OR until <= $3");
    Ok(conn.exec(&sql.arg(holder).arg(until).arg(now))? == 1)
}

/// Releases the claim of a process.
pub fn release(conn: &mut Conn, holder: &str) -> Result<(), StoreError> {
    conn.exec(&Sql::new("UPDATE outbox_claim SET until = 0 WHERE holder = $1").arg(holder)).map(drop)
}

/// Consecutive events of one kind, from the first one that can be delivered.
pub struct EventBatch {
    /// The kind of all events.
    pub kind: EventKind,
    /// The events, the oldest first.
    pub events: Vec<WaitingEvent>,
}

/// An event that waits for delivery.
pub struct WaitingEvent {
    /// The number that determines the order of delivery.
    pub n: i64,
    /// The idempotency key.
    pub id: String,
    /// The size in bytes, as counted for the limit.
    pub size: i64,
    /// The time at which it was put into the outbox.
    pub created_at: i64,
    /// The event as JSON text.
    pub body: String,
}

impl EventBatch {
    /// Loads the first batch of at most `max_events` events and `max_bytes` bytes, with at least one event. Returns `None` if
    /// no event can be delivered. The sizes are read before the bodies, since a thousand bodies may be too large for memory.
    pub fn load_first_batch(
        conn: &mut Conn,
        max_events: usize,
        max_bytes: i64,
    ) -> Result<Option<EventBatch>, StoreError> {
        let sql = Sql::new("SELECT n, kind, size FROM outbox WHERE fold_key IS NULL ORDER BY n LIMIT $1");
        let sizes = conn.query_all(&sql.arg(max_events as i64), |row| {
            let kind = if row.text(1)? == EventKind::System.name() { EventKind::System } else { EventKind::History };
            Ok((row.int(0)?, kind, row.int(2)?))
        })?;
        let Some((first, kind, _)) = sizes.first().copied() else { return Ok(None) };
        let mut bytes = 0;
        let fitting = sizes.iter().take_while(|(n, row_kind, size)| {
            bytes += size;
            *row_kind == kind && (*n == first || bytes <= max_bytes)
        });
        let (count, last) = fitting.fold((0, first), |(count, _), (n, ..)| (count + 1, *n));
        let sql = Sql::new(
            "SELECT n, id, size, created_at, body FROM outbox \
             WHERE fold_key IS NULL AND kind = $1 AND n >= $2 AND n <= $3 ORDER BY n LIMIT $4",
        );
        let events = conn.query_all(&sql.arg(kind.name()).arg(first).arg(last).arg(count), |row| {
            let (id, body) = (row.text(1)?.to_owned(), row.text(4)?.to_owned());
            Ok(WaitingEvent { n: row.int(0)?, id, size: row.int(2)?, created_at: row.int(3)?, body })
        })?;
        Ok(Some(EventBatch { kind, events }))
    }
}

/// Deletes events and returns the time of the oldest remaining one. They are deleted by number, not as
/// a range, since a slower transaction may have inserted another event between them.
pub fn remove(conn: &mut Conn, numbers: &[i64]) -> Result<Option<i64>, StoreError> {
    if !numbers.is_empty() {
        let mut sql = Sql::new("DELETE FROM outbox WHERE n");
        conn.exec(sql.push_any(numbers.iter().copied()))?;
    }
    conn.query_optional(&Sql::new("SELECT created_at FROM outbox ORDER BY n LIMIT 1"), |row| row.int(0))
}

/// Copies an event that the history service rejects for good to `outbox_refused`, with the reason.
pub fn store_refused(conn: &mut Conn, n: i64, reason: &str, now: i64) -> Result<(), StoreError> {
    let sql = Sql::new(
        "INSERT INTO outbox_refused(id, kind, reason, created_at, refused_at, body) \
         SELECT id, kind, $1, created_at, $2, body FROM outbox WHERE n = $3 ON CONFLICT DO NOTHING",
    );
    conn.exec(&sql.arg(reason).arg(now).arg(n)).map(drop)
}
