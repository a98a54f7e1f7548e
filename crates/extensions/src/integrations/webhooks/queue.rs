//! The deliveries of webhooks in the database: a row of `webhook_deliveries` for each webhook and event, and the body in
//! `webhook_events`, once for all webhooks. One process at a time sends the deliveries of a webhook, one after the other, while it
//! has the lease in `webhook_queues`.
//!
//! The deliveries of a webhook are tried in the order of `next_at` and `id`. New ones come first, in the order of their events.
//! Retries follow.

use kit::ids::IntegrationId;
use kit::jobs::exponential_backoff;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;
use store::{BorrowedArgument, Conn, Sql, StoreError};

const PENDING: &str = "pending";
const DELIVERED: &str = "delivered";
const FAILED: &str = "failed";

/// The `next_at` of a test, which a disabled webhook sends, too.
const TEST: i64 = -1;
/// The time for which a delivery is retried, in microseconds.
const DAY_US: i64 = 86_400_000_000;
/// The pause before the second attempt. Each further pause is twice the former one.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The maximum pause of a delivery that its receiver answers with an error.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// The maximum pause of a webhook whose receiver does not answer.
const LONGEST_SILENCE: Duration = Duration::from_secs(300);
/// The duration of the lease on the deliveries of a webhook, in microseconds. A turn is shorter.
const LEASE_US: i64 = 60_000_000;
/// The time after which a process checks again whether another process has released a webhook, in microseconds.
const HELD_POLL_US: i64 = 500_000;
/// The maximum number of deliveries of a webhook in one turn.
const TURN: i64 = 100;
/// The number of deliveries of a webhook that are stored and listed.
pub const KEPT: i64 = 1_000;

/// A delivery to be stored.
pub struct NewDelivery {
    webhook: IntegrationId,
    event_id: String,
    event_type: &'static str,
    size: i64,
    created_at: i64,
    next_at: i64,
}

impl NewDelivery {
    /// Creates a delivery of an event whose body has `size` bytes.
    pub fn new(
        webhook: IntegrationId,
        event_id: String,
        event_type: &'static str,
        size: usize,
        now: i64,
    ) -> NewDelivery {
        NewDelivery { webhook, event_id, event_type, size: size as i64, created_at: now, next_at: 0 }
    }

    /// Creates a test, which is tried once.
    pub fn test(webhook: IntegrationId, event_id: String, size: usize, now: i64) -> NewDelivery {
        NewDelivery { next_at: TEST, ..NewDelivery::new(webhook, event_id, "test", size, now) }
    }
}

/// Stores deliveries, and their bodies by the ids of the events.
pub fn enqueue_deliveries(
    conn: &mut Conn,
    bodies: &[(String, String)],
    deliveries: &[NewDelivery],
    now: i64,
) -> Result<(), StoreError> {
    let events: Vec<_> = bodies
        .iter()
        .map(|(id, body)| [BorrowedArgument::Text(id), BorrowedArgument::Int(now), BorrowedArgument::Text(body)])
        .collect();
    conn.insert_rows("webhook_events", &["event_id", "created_at", "body"], &events, "")?;
    let rows: Vec<_> = deliveries
        .iter()
        .map(|delivery| {
            [
                delivery.webhook.into(),
                BorrowedArgument::Text(&delivery.event_id),
                BorrowedArgument::Text(delivery.event_type),
                BorrowedArgument::Int(delivery.size),
                BorrowedArgument::Int(delivery.created_at),
                BorrowedArgument::Int(delivery.next_at),
            ]
        })
        .collect();
    let columns = ["webhook", "event_id", "event_type", "size", "created_at", "next_at"];
    conn.insert_rows("webhook_deliveries", &columns, &rows, "").map(drop)
}

/// Inserts the queue of a new webhook.
pub fn make(conn: &mut Conn, webhook: IntegrationId) -> Result<(), StoreError> {
    conn.exec(&Sql::new("INSERT INTO webhook_queues(integration) VALUES ($1)").arg(webhook)).map(drop)
}

/// Ends the pause of a webhook, since its receiver may have changed.
pub fn end_pause(conn: &mut Conn, webhook: IntegrationId) -> Result<(), StoreError> {
    let sql =
        Sql::new("UPDATE webhook_queues SET failures = 0, not_before = 0 WHERE integration = $1 AND failures > 0");
    conn.exec(&sql.arg(webhook)).map(drop)
}

/// The process that works on the queues.
#[derive(Clone)]
pub struct QueueWorker {
    /// The id of the process.
    pub holder: String,
    /// Is true if it is the only process.
    pub is_alone: bool,
}

/// Returns the time at which the first delivery that this process may send is due; `None` if none waits.
pub fn next_due_time(conn: &mut Conn, worker: &QueueWorker, now: i64) -> Result<Option<i64>, StoreError> {
    let sql = Sql::new(
        "SELECT q.holder, q.held_until, q.not_before, t.is_enabled, (SELECT d.next_at FROM webhook_deliveries d \
         WHERE d.webhook = q.integration AND d.status = 'pending' ORDER BY d.next_at, d.id LIMIT 1) \
         FROM webhook_queues q JOIN integrations t ON t.id = q.integration",
    );
    let mut first: Option<i64> = None;
    conn.for_each_row(&sql, |row| {
        let Some(next_at) = row.opt_int(4)?.filter(|next_at| *next_at == TEST || row.flag(3).unwrap_or(false)) else {
            return Ok(());
        };
        let mut at = next_at.max(row.int(2)?);
        let (holder, held_until) = (row.text(0)?, row.int(1)?);
        if !worker.is_alone && !holder.is_empty() && holder != worker.holder && held_until > now {
            at = at.max(held_until.min(now + HELD_POLL_US));
        }
        first = Some(first.map_or(at, |first| first.min(at)));
        Ok(())
    })?;
    Ok(first)
}

/// Returns whether a build has queues or deliveries of webhooks.
pub fn is_used(conn: &mut Conn) -> Result<bool, StoreError> {
    let sql = Sql::new(
        "SELECT CASE WHEN EXISTS (SELECT 1 FROM webhook_queues) OR EXISTS (SELECT 1 FROM webhook_deliveries) \
         THEN 1 ELSE 0 END",
    );
    conn.query_one(&sql, |row| row.flag(0))
}

/// The claimed deliveries of a webhook.
pub struct WebhookTurn {
    pub webhook: IntegrationId,
    /// Is true if the last attempt had no answer.
    pub is_doubtful: bool,
    pub deliveries: Vec<DueDelivery>,
}

/// A delivery that is due.
#[derive(Clone)]
pub struct DueDelivery {
    pub id: i64,
    pub event_id: String,
    pub size: i64,
    created_at: i64,
    attempts: i64,
    is_test: bool,
}

/// The outcome of a turn: the tried deliveries, each with the status of its answer, if it had one.
#[derive(Clone)]
pub struct TurnResult {
    pub webhook: IntegrationId,
    /// Is true if attempts had failed before the turn.
    pub was_doubtful: bool,
    pub tried: Vec<(DueDelivery, Option<u16>)>,
}

/// Claims the due deliveries of at most `most` webhooks, except those that the process already works on.
pub fn claim_due(
    conn: &mut Conn,
    worker: &QueueWorker,
    taken_webhooks: &HashSet<IntegrationId>,
    most: usize,
    now: i64,
) -> Result<Vec<WebhookTurn>, StoreError> {
    if most == 0 {
        return Ok(Vec::new());
    }
    let mut sql = Sql::new("SELECT q.integration, q.failures FROM webhook_queues q WHERE q.not_before <= ");
    sql.bind(now);
    if !worker.is_alone {
        sql.push(" AND (q.held_until <= ").bind(now).push(" OR q.holder = '' OR q.holder = ");
        sql.bind(&worker.holder).push(")");
    }
    for webhook in taken_webhooks {
        sql.push(" AND q.integration <> ").bind(*webhook);
    }
    sql.push(
        " AND EXISTS (SELECT 1 FROM integrations t JOIN webhook_deliveries d ON d.webhook = t.id WHERE t.id = q.integration \
         AND d.status = 'pending' AND d.next_at <= CASE WHEN t.is_enabled = 1 THEN CAST(",
    );
    sql.bind(now).push(" AS BIGINT) ELSE -1 END) ORDER BY q.held_until, q.integration LIMIT ").bind(most as i64);
    sql.push(" FOR UPDATE SKIP LOCKED");
    let webhooks = conn.query_all(&sql, |row| Ok((row.id(0)?, row.int(1)? > 0)))?;
    if webhooks.is_empty() {
        return Ok(Vec::new());
    }
    let mut sql = Sql::new("UPDATE webhook_queues SET holder = ");
    sql.bind(&worker.holder).push(", held_until = ").bind(now + LEASE_US).push(" WHERE integration");
    conn.exec(sql.push_any(webhooks.iter().map(|(webhook, _)| *webhook).collect::<Vec<_>>()))?;
    let mut turns = Vec::with_capacity(webhooks.len());
    for (webhook, is_doubtful) in webhooks {
        turns.push(WebhookTurn { webhook, is_doubtful, deliveries: load_due_deliveries(conn, webhook, now)? });
    }
    Ok(turns)
}

fn load_due_deliveries(conn: &mut Conn, webhook: IntegrationId, now: i64) -> Result<Vec<DueDelivery>, StoreError> {
    let sql = Sql::new(
        "SELECT d.id, d.event_id, d.size, d.created_at, d.attempts, d.next_at FROM webhook_deliveries d \
         WHERE d.webhook = $1 AND d.status = 'pending' AND d.next_at <= $2 ORDER BY d.next_at, d.id LIMIT $3",
    );
    conn.query_all(&sql.arg(webhook).arg(now).arg(TURN), |row| {
        Ok(DueDelivery {
            id: row.int(0)?,
            event_id: row.text(1)?.to_owned(),
            size: row.int(2)?,
            created_at: row.int(3)?,
            attempts: row.int(4)?,
            is_test: row.int(5)? == TEST,
        })
    })
}

/// Stores the outcomes of turns, and releases their queues.
pub fn finish(conn: &mut Conn, worker: &QueueWorker, turns: &[TurnResult], now: i64) -> Result<(), StoreError> {
    if turns.is_empty() {
        return Ok(());
    }
    let mut delivered: BTreeMap<u16, Vec<i64>> = BTreeMap::new();
    let mut finished: Vec<&str> = Vec::new();
    for (delivery, status) in turns.iter().flat_map(|turn| &turn.tried) {
        match status {
            Some(status @ 200..=299) => delivered.entry(*status).or_default().push(delivery.id),
            status => match retry_at(delivery, now) {
                Some(next_at) => {
                    note_attempt(conn, delivery, *status, PENDING, next_at, now)?;
                    continue;
                }
                None => note_attempt(conn, delivery, *status, FAILED, 0, now)?,
            },
        }
        finished.push(&delivery.event_id);
    }
    for (status, ids) in delivered {
        let mut sql = Sql::new("UPDATE webhook_deliveries SET attempts = attempts + 1, last_attempt_at = ");
        sql.bind(now).push(", response_status = ").bind(i64::from(status)).push(", status = ").bind(DELIVERED);
        conn.exec(sql.push(" WHERE status = 'pending' AND id").push_any(ids))?;
    }
    remove_bodies(conn, &finished)?;
    for turn in turns {
        note_silence(conn, turn, now)?;
    }
    let mut sql = Sql::new("UPDATE webhook_queues SET holder = '', held_until = ");
    sql.bind(now).push(" WHERE holder = ").bind(&worker.holder).push(" AND integration");
    conn.exec(sql.push_any(turns.iter().map(|turn| turn.webhook).collect::<Vec<_>>())).map(drop)
}

/// Returns the time of the next attempt of a failed delivery; `None` if it is not retried.
fn retry_at(delivery: &DueDelivery, now: i64) -> Option<i64> {
    let failures = u32::try_from(delivery.attempts).unwrap_or(u32::MAX).saturating_add(1);
    let next_at = now + exponential_backoff(FIRST_PAUSE, LONGEST_PAUSE, failures).as_micros() as i64;
    (!delivery.is_test && next_at <= delivery.created_at + DAY_US).then_some(next_at)
}

fn note_attempt(
    conn: &mut Conn,
    delivery: &DueDelivery,
    answer: Option<u16>,
    status: &'static str,
    next_at: i64,
    now: i64,
) -> Result<(), StoreError> {
    let sql = Sql::new(
        "UPDATE webhook_deliveries SET attempts = attempts + 1, last_attempt_at = $1, response_status = $2, status = $3, \
         next_at = $4 WHERE id = $5 AND status = 'pending'",
    );
    let sql = sql.arg(now).arg(answer.map(i64::from)).arg(status).arg(next_at).arg(delivery.id);
    conn.exec(&sql).map(drop)
}

/// Pauses all deliveries of a webhook whose receiver does not answer, with back-off, so that such a receiver costs few attempts.
fn note_silence(conn: &mut Conn, turn: &TurnResult, now: i64) -> Result<(), StoreError> {
    let sql = match turn.tried.last() {
        None => return Ok(()),
        Some((_, Some(_))) if !turn.was_doubtful => return Ok(()),
        Some((_, Some(_))) => {
            Sql::new("UPDATE webhook_queues SET failures = 0, not_before = 0 WHERE integration = $1").arg(turn.webhook)
        }
        // A test does not change the pause.
        Some((delivery, None)) if delivery.is_test => return Ok(()),
        Some((_, None)) => {
            let sql = Sql::new("SELECT failures FROM webhook_queues WHERE integration = $1").arg(turn.webhook);
            let Some(failures) = conn.query_optional(&sql, |row| row.int(0))? else { return Ok(()) };
            let failures = failures + 1;
            let pause = exponential_backoff(FIRST_PAUSE, LONGEST_SILENCE, u32::try_from(failures).unwrap_or(u32::MAX));
            let sql = Sql::new("UPDATE webhook_queues SET failures = $1, not_before = $2 WHERE integration = $3");
            sql.arg(failures).arg(now + pause.as_micros() as i64).arg(turn.webhook)
        }
    };
    conn.exec(&sql).map(drop)
}

/// Deletes the bodies of finished deliveries, unless another waiting delivery has the same body.
fn remove_bodies(conn: &mut Conn, events: &[&str]) -> Result<(), StoreError> {
    // Lists of texts need one placeholder per item, so the statements are bounded.
    for chunk in events.chunks(100) {
        let mut sql = Sql::new("DELETE FROM webhook_events WHERE event_id IN (");
        for (n, event) in chunk.iter().enumerate() {
            sql.push(if n > 0 { ", " } else { "" }).bind(*event);
        }
        conn.exec(sql.push(") AND ").push(NO_DELIVERY))?;
    }
    Ok(())
}

/// The condition on `webhook_events` that no waiting delivery uses the body.
const NO_DELIVERY: &str = "NOT EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.event_id = webhook_events.event_id \
                           AND d.status = 'pending')";

/// Deletes the dependents of a deleted webhook.
pub fn delete_webhook_state(conn: &mut Conn, webhook: IntegrationId) -> Result<(), StoreError> {
    for text in
        ["DELETE FROM webhook_queues WHERE integration = $1", "DELETE FROM webhook_deliveries WHERE webhook = $1"]
    {
        conn.exec(&Sql::new(text).arg(webhook))?;
    }
    let mut sql = Sql::new("DELETE FROM webhook_events WHERE ");
    conn.exec(sql.push(NO_DELIVERY)).map(drop)
}

/// Fails deliveries that are older than a day, and those beyond `most` waiting deliveries of a webhook. Deletes finished ones that
/// are no longer listed. A thorough sweep also deletes rows that concurrent transactions left.
pub fn sweep(conn: &mut Conn, most: i64, now: i64, is_thorough: bool) -> Result<(), StoreError> {
    let sql = Sql::new("UPDATE webhook_deliveries SET status = 'failed' WHERE status = 'pending' AND created_at <= $1");
    let mut given_up = conn.exec(&sql.arg(now - DAY_US))?;
    let webhooks = conn.query_all(&Sql::new("SELECT integration FROM webhook_queues"), |row| row.int(0))?;
    for webhook in webhooks {
        let mut sql = Sql::new("SELECT id FROM webhook_deliveries WHERE status = 'pending' AND webhook = ");
        let nth = conn.query_optional(sql.bind(webhook).push(" ORDER BY id DESC").page(1, most), |row| row.int(0))?;
        if let Some(last) = nth {
            let sql = Sql::new(
                "UPDATE webhook_deliveries SET status = 'failed' WHERE status = 'pending' AND webhook = $1 AND id <= $2",
            );
            given_up += conn.exec(&sql.arg(webhook).arg(last))?;
        }
        let mut sql = Sql::new("SELECT id FROM webhook_deliveries WHERE webhook = ");
        let nth = conn.query_optional(sql.bind(webhook).push(" ORDER BY id DESC").page(1, KEPT), |row| row.int(0))?;
        if let Some(last) = nth {
            let sql =
                Sql::new("DELETE FROM webhook_deliveries WHERE status <> 'pending' AND webhook = $1 AND id <= $2");
            conn.exec(&sql.arg(webhook).arg(last))?;
        }
    }
    if given_up == 0 && !is_thorough {
        return Ok(());
    }
    // These belong to webhooks that were deleted while an event was written.
    conn.exec(&Sql::new(
        "DELETE FROM webhook_deliveries WHERE webhook NOT IN (SELECT q.integration FROM webhook_queues q)",
    ))?;
    let mut sql = Sql::new("DELETE FROM webhook_events WHERE ");
    conn.exec(sql.push(NO_DELIVERY)).map(drop)
}
