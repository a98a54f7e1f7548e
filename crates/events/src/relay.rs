//! The relay delivers the events of each build's outbox to the history service, in order and at least once. Each event
//! has an id, by which the service recognizes a duplicate.
//!
//! Delivery is a standing job of each build ([`DELIVERY`]), woken at each commit. System events are sent in batches,
//! history events one by one. While the service is unavailable, delivery is retried after growing pauses, which new
//! events do not shorten. An event that the service rejects for good is found by halving the batch and moved to
//! `outbox_refused`, so that it does not block the others. When the service does not know the tenant, all events of the
//! build wait until an operator has repaired that.
//!
//! Several processes share an outbox, so a process claims it before it delivers, which keeps the order. The claim of a
//! process that died expires.

use crate::history_client::{CALL_TIMEOUT, Envelope, Failure, HistoryClient};
use crate::history_tenants::{self, Tenant, TenantError};
use crate::outbox::{self, Batch, Head, Kind, WaitingEvent, backlog};
use crate::own_history;
use crate::{client, settings};
use kit::app::App;
use kit::build::Build;
use kit::jobs::{self, Pending, StandingJob, growing};
use resource::openapi::object;
use serde_json::{Value as Json, json};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use store::{Conn, Error};
use web::clock::unique_id;

/// The most events of a batch.
const MAX_BATCH_EVENTS: usize = 1000;
/// The most bytes of a batch.
const MAX_BATCH_BYTES: i64 = 4 * 1024 * 1024;
/// How long history events are sent before the delivered ones are deleted.
const HISTORY_BATCH_TIME: Duration = Duration::from_secs(2);
/// How long a claim lasts, in microseconds; so long do other processes wait for one that died.
const CLAIM_US: i64 = 10_000_000;
/// The interval at which a process renews its claim.
const CLAIM_RENEWAL_INTERVAL: Duration = Duration::from_secs(3);
/// The first pause after a failure; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause after a failure.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The longest pause while the service is not the database's own, so that an adopted one is soon seen. Asking it for its
/// id is one small request.
const MAX_FOREIGN_PAUSE: Duration = Duration::from_secs(10);
/// The interval at which builds without a tenant are looked for, by one statement on the control database.
const NEW_BUILDS_INTERVAL: Duration = Duration::from_secs(2);
/// The interval at which events of other processes are counted while many wait.
const COUNT_INTERVAL: Duration = Duration::from_secs(5);
const MINUTE_US: i64 = 60_000_000;

/// The standing job that delivers the events of a build.
pub static DELIVERY: StandingJob = StandingJob { name: "history", at_a_time: 64, due, run };

/// The state that the deliveries of all builds of a process share.
pub struct Relay {
    /// The id of this process in claims.
    holder: String,
    /// The number of events that the service has rejected for good.
    refused: AtomicI64,
}

/// The state of a build's delivery in this process.
#[derive(Default)]
pub struct Delivery {
    progress: Mutex<Progress>,
    /// Whether the last call of the service for this build failed.
    has_failed: AtomicBool,
}

/// The waiting events of all builds of this process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lag {
    /// The number of waiting events.
    pub waiting: i64,
    /// How long the oldest event has been waiting, in seconds.
    pub seconds: i64,
    /// Whether the last call of the service succeeded, for each build.
    pub is_reachable: bool,
    /// The number of events that were rejected for good since this process started; `outbox_refused` has them.
    pub refused: i64,
}

impl Default for Relay {
    fn default() -> Relay {
        Relay { holder: unique_id(), refused: AtomicI64::new(0) }
    }
}

/// Starts a task that looks for builds without a tenant: those of other processes may have no event that wakes them.
pub fn start(app: &App) {
    if client(app).is_none() {
        return;
    }
    let app = app.clone();
    tokio::spawn(async move {
        while jobs::is_on(&app) {
            tokio::time::sleep(NEW_BUILDS_INTERVAL).await;
            for domain in history_tenants::missing(&app).await.unwrap_or_default() {
                if let Ok(Some(build)) = app.build(&domain).await {
                    jobs::wake(&app, &build);
                }
            }
        }
    });
}

/// Delivers the events of the last requests for at most `timeout` and then stops all jobs, so that the store can be
/// closed. Events that still wait are delivered by the next process.
pub async fn finish(app: &App, timeout: Duration) {
    let until = Instant::now() + timeout;
    while client(app).is_some() && jobs::is_on(app) && Instant::now() < until {
        let lag = lag(app);
        if lag.waiting == 0 || !lag.is_reachable {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    jobs::stop(app);
}

/// The waiting events of this process, as it estimates them.
pub fn lag(app: &App) -> Lag {
    let (now, refused) = (app.clock.now(), relay(app).refused.load(Ordering::Relaxed));
    let mut lag = Lag { waiting: 0, seconds: 0, is_reachable: true, refused };
    for build in jobs::builds(app) {
        let waiting = backlog(&build).waiting();
        lag.waiting += waiting.rows;
        if let Some(oldest) = waiting.oldest.filter(|_| waiting.rows > 0) {
            lag.seconds = lag.seconds.max((now - oldest) / 1_000_000);
        }
        lag.is_reachable &= !delivery(&build).has_failed.load(Ordering::Relaxed);
    }
    lag
}

fn relay(app: &App) -> &Relay {
    app.slot()
}

fn delivery(build: &Build) -> &Delivery {
    build.slot()
}

impl Delivery {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the delivery of a build after an event was added.
pub fn wake(app: &App, build: &Arc<Build>) {
    if client(app).is_some() {
        jobs::wake(app, build);
    }
}

/// The name of the details of delivery.
pub const HEALTH: &str = "history";

/// The schema of [`health`].
pub fn health_schema() -> Json {
    let seconds = json!({"type": "integer", "description": "How long the oldest event has waited"});
    let mut schema = object([
        ("waiting", json!({"type": "integer"})),
        ("lag_seconds", seconds),
        ("is_reachable", json!({"type": "boolean"})),
        ("refused", json!({"type": "integer"})),
    ]);
    schema["properties"]["warning"] = json!({"type": "string"});
    schema
}

/// The details of delivery for the health endpoint.
pub fn health(app: &App) -> Option<(&'static str, Json)> {
    let service = client(app)?;
    let lag = lag(app);
    let mut details = json!({
        "waiting": lag.waiting, "lag_seconds": lag.seconds, "is_reachable": lag.is_reachable, "refused": lag.refused,
    });
    if service.is_foreign() {
        details["warning"] = json!("CHANCERY_HISTORY_URL: not the history service of this database");
    }
    Some((HEALTH, details))
}

/// The result of a round of delivery that did not fail.
enum Round {
    /// Events were delivered, and more may wait.
    Delivered,
    /// No event waits.
    Empty,
    /// Only shared rows wait, which may still change.
    Folded,
    /// Another process has the claim.
    Claimed,
}

/// Why a round of delivery failed.
enum RoundError {
    Service(Failure),
    Store(Error),
}

impl From<Error> for RoundError {
    fn from(error: Error) -> RoundError {
        RoundError::Store(error)
    }
}

impl From<TenantError> for RoundError {
    fn from(error: TenantError) -> RoundError {
        match error {
            TenantError::Service(failure) => RoundError::Service(failure),
            TenantError::Store(error) => RoundError::Store(error),
        }
    }
}

/// The state that a delivery keeps from round to round.
#[derive(Clone)]
struct Progress {
    tenant: Option<Tenant>,
    /// The number of failures in a row.
    failures: u32,
    /// The number of rounds in a row in which another process had the claim.
    lost_claims: u32,
    /// The most events of the next batch: halved when a batch is rejected, doubled when one is accepted.
    max_events: usize,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress { tenant: None, failures: 0, lost_claims: 0, max_events: MAX_BATCH_EVENTS }
    }
}

/// When the delivery of a build is due; `None` when no event waits. A build without a tenant is due at once.
fn due(app: &App, build: &Build, conn: &mut Conn, now: i64) -> Result<Option<i64>, Error> {
    if client(app).is_none() {
        return Ok(None);
    }
    if delivery(build).progress().tenant.is_none() {
        return Ok(Some(now));
    }
    let head = Head::read(conn)?;
    match head.folded_since {
        _ if head.is_ready => Ok(Some(now)),
        Some(_) if backlog(build).is_outdated() => Ok(Some(now)),
        Some(since) => Ok(Some(minute_of(since) + MINUTE_US)),
        None => {
            backlog(build).clear();
            // Another process has delivered what this one could not.
            let mut progress = delivery(build).progress();
            (progress.failures, progress.lost_claims) = (0, 0);
            delivery(build).has_failed.store(false, Ordering::Relaxed);
            Ok(None)
        }
    }
}

fn minute_of(time: i64) -> i64 {
    time.div_euclid(MINUTE_US) * MINUTE_US
}

/// Delivers the waiting events of a build. Ends after a pause on a failure or when another process delivers.
fn run(app: App, build: Arc<Build>) -> Pending<Result<(), Error>> {
    Box::pin(async move {
        let Some(service) = client(&app) else { return Ok(()) };
        let mut progress = delivery(&build).progress().clone();
        if progress.tenant.is_none() {
            // Events that an earlier process left count for the limit from the start. If this fails, so does the first
            // round.
            let _ = count(&build).await;
        }
        while jobs::is_on(&app) {
            let round = round(&app, service, &build, &mut progress).await;
            log_outcome(service, &build, &mut progress, &round);
            *delivery(&build).progress() = progress.clone();
            match round {
                Ok(Round::Delivered) => {}
                Ok(Round::Empty) => return Ok(()),
                Ok(Round::Folded) => return count(&build).await,
                Ok(Round::Claimed) => {
                    tokio::time::sleep(Duration::from_millis(25 << progress.lost_claims)).await;
                    return count(&build).await;
                }
                Err(RoundError::Service(failure)) => {
                    return pause_after_failure(&app, &build, pause(&failure, progress.failures)).await;
                }
                Err(RoundError::Store(error)) => return Err(error),
            }
        }
        Ok(())
    })
}

/// How long a delivery waits after so many failures in a row.
fn pause(failure: &Failure, failures: u32) -> Duration {
    match failure {
        Failure::NoTenant(_) => MAX_PAUSE,
        Failure::Foreign(_) => growing(FIRST_PAUSE, MAX_FOREIGN_PAUSE, failures),
        _ => growing(FIRST_PAUSE, MAX_PAUSE, failures),
    }
}

/// Counts the waiting events of a build.
async fn count(build: &Arc<Build>) -> Result<(), Error> {
    let of = build.clone();
    build.db.read(move |conn| backlog(&of).count(conn)).await
}

/// Sleeps after a failure; new events do not shorten the pause. When other processes may add events and more than an
/// eighth of the limit waits, the events are counted at intervals.
async fn pause_after_failure(app: &App, build: &Arc<Build>, pause: Duration) -> Result<(), Error> {
    count(build).await?;
    let end = tokio::time::Instant::now() + pause;
    while !app.store.is_embedded() && backlog(build).waiting().bytes > settings(app).outbox_bytes / 8 {
        let now = tokio::time::Instant::now();
        if now >= end {
            break;
        }
        tokio::time::sleep_until(end.min(now + COUNT_INTERVAL)).await;
        count(build).await?;
    }
    tokio::time::sleep_until(end).await;
    Ok(())
}

/// Logs the result of a round, and stores it for the next round and the health details.
fn log_outcome(service: &HistoryClient, of: &Build, progress: &mut Progress, round: &Result<Round, RoundError>) {
    let build = &of.domain;
    match round {
        Ok(Round::Delivered) => {
            if progress.failures > 0 {
                tracing::info!(build, "history is delivered again");
            }
            (progress.failures, progress.lost_claims) = (0, 0);
            delivery(of).has_failed.store(false, Ordering::Relaxed);
        }
        Ok(Round::Claimed) => progress.lost_claims = (progress.lost_claims + 1).min(5),
        Err(RoundError::Service(failure)) => {
            progress.failures = progress.failures.saturating_add(1);
            let waiting = backlog(of).waiting().rows;
            match failure {
                Failure::Foreign(_) if progress.failures == 1 => {
                    tracing::error!(
                        reason = %failure, address = service.url(), build, waiting,
                        "this is not the history service of the database"
                    );
                }
                Failure::NoTenant(_) => {
                    // An operator may give the build a new one.
                    progress.tenant = None;
                    tracing::error!(reason = %failure, build, waiting, "the history service does not know the build");
                }
                _ if progress.failures == 1 => {
                    tracing::warn!(reason = %failure, build, waiting, "history is not delivered");
                }
                _ => {
                    tracing::debug!(reason = %failure, build, waiting, "history is not delivered");
                }
            }
            delivery(of).has_failed.store(true, Ordering::Relaxed);
        }
        Ok(Round::Empty | Round::Folded) | Err(RoundError::Store(_)) => {}
    }
}

/// Delivers the first events of a build's outbox, and creates its tenant if there is none.
async fn round(
    app: &App,
    service: &HistoryClient,
    build: &Build,
    progress: &mut Progress,
) -> Result<Round, RoundError> {
    own_history::verify(app, service, CALL_TIMEOUT).await?;
    let tenant = match &progress.tenant {
        Some(tenant) => tenant.clone(),
        None => {
            let tenant = history_tenants::ensure(app, service, build, CALL_TIMEOUT).await?;
            progress.tenant.insert(tenant).clone()
        }
    };
    let head = build.db.read::<_, Error>(Head::read).await?;
    let minute = minute_of(app.clock.now());
    // While the service is unavailable, rows stay shared as long as there are other events to retry with.
    let is_over = head.folded_since.is_some_and(|since| since < minute);
    let closes_shared = is_over && (progress.failures == 0 || !head.is_ready);
    if !head.is_ready && !closes_shared {
        return Ok(if head.folded_since.is_some() { Round::Folded } else { Round::Empty });
    }
    let _place = jobs::place(app, DELIVERY.name).await;
    if !claim(app, build, closes_shared.then_some(minute)).await? {
        return Ok(Round::Claimed);
    }
    let delivered = with_claim(app, build, deliver(app, service, build, &tenant, progress)).await;
    if let Err(RoundError::Service(_)) = delivered {
        finish_delivery(app, build, &[], None).await?;
    }
    delivered
}

/// Claims the outbox for this process, and closes the shared rows that were created before `closed_before`.
async fn claim(app: &App, build: &Build, closed_before: Option<i64>) -> Result<bool, Error> {
    // On the embedded engine there is only one process, which needs no claim.
    let is_alone = app.store.is_embedded();
    if is_alone && closed_before.is_none() {
        return Ok(true);
    }
    let (holder, now) = (relay(app).holder.clone(), app.clock.now());
    let write = move |conn: &mut Conn| {
        if !is_alone && !outbox::claim(conn, &holder, now, now + CLAIM_US)? {
            return Ok(false);
        }
        if let Some(before) = closed_before {
            outbox::close_shared(conn, before)?;
        }
        Ok(true)
    };
    build.db.write(write).await
}

/// Runs `work` while the claim is renewed.
async fn with_claim<T>(app: &App, build: &Build, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(CLAIM_RENEWAL_INTERVAL, &mut work).await {
            Ok(done) => return done,
            // A lost claim costs at most the order of events, since the service recognizes duplicates.
            Err(_) => drop(claim(app, build, None).await),
        }
    }
}

/// Delivers a batch, and deletes the events that arrived.
async fn deliver(
    app: &App,
    service: &HistoryClient,
    build: &Build,
    tenant: &Tenant,
    progress: &mut Progress,
) -> Result<Round, RoundError> {
    let max_events = progress.max_events;
    let batch = build.db.read::<_, Error>(move |conn| Batch::first(conn, max_events, MAX_BATCH_BYTES)).await?;
    let Some(Batch { kind, events }) = batch else {
        // Another process has delivered them.
        finish_delivery(app, build, &[], None).await?;
        return Ok(Round::Delivered);
    };
    let (arrived, outcome) = match kind {
        Kind::System => {
            let bodies: Vec<&str> = events.iter().map(|event| event.body.as_str()).collect();
            match service.batch(&tenant.client_id, &bodies).await {
                Ok(()) => (events.len(), Ok(())),
                Err(failure) => (0, Err(failure)),
            }
        }
        Kind::History => send_history_events(service, build, tenant, &events).await,
    };
    let (delivered, rest) = events.split_at(arrived);
    // The invalid event is known when it was sent alone; it is the first of the rest.
    let is_alone = kind == Kind::History || events.len() == 1;
    match outcome {
        Ok(()) => {
            progress.max_events = (max_events * 2).min(MAX_BATCH_EVENTS);
            finish_delivery(app, build, delivered, None).await?;
            Ok(Round::Delivered)
        }
        Err(Failure::Refused(_) | Failure::TooLarge) if !is_alone => {
            progress.max_events = (events.len() / 2).max(1);
            finish_delivery(app, build, delivered, None).await?;
            Ok(Round::Delivered)
        }
        Err(failure @ (Failure::Refused(_) | Failure::TooLarge)) => {
            let (refused, reason) = (rest.first(), failure.to_string());
            let (id, build_name) = (refused.map_or("", |event| &event.id), &build.domain);
            tracing::error!(reason, build = build_name, event = id, "the history service refused an event");
            relay(app).refused.fetch_add(1, Ordering::Relaxed);
            finish_delivery(app, build, delivered, refused.map(|event| (event, reason))).await?;
            Ok(Round::Delivered)
        }
        Err(failure) => {
            finish_delivery(app, build, delivered, None).await?;
            Err(RoundError::Service(failure))
        }
    }
}

/// Sends history events until one fails or [`HISTORY_BATCH_TIME`] is over, and returns the number of those that
/// arrived.
async fn send_history_events(
    service: &HistoryClient,
    build: &Build,
    tenant: &Tenant,
    events: &[WaitingEvent],
) -> (usize, Result<(), Failure>) {
    let started = Instant::now();
    for (at, event) in events.iter().enumerate() {
        if started.elapsed() > HISTORY_BATCH_TIME {
            return (at, Ok(()));
        }
        let envelope = Envelope {
            id: &event.id,
            source: &tenant.database_name,
            account: &build.domain,
            time: event.created_at,
            detail: &event.body,
        };
        if let Err(failure) = service.create_event(&tenant.client_id, &envelope).await {
            return (at, Err(failure));
        }
    }
    (events.len(), Ok(()))
}

/// Deletes the delivered events, stores a rejected one in `outbox_refused`, and releases the claim.
async fn finish_delivery(
    app: &App,
    build: &Build,
    delivered: &[WaitingEvent],
    refused: Option<(&WaitingEvent, String)>,
) -> Result<(), Error> {
    let (is_alone, holder, now) = (app.store.is_embedded(), relay(app).holder.clone(), app.clock.now());
    let refused = refused.map(|(event, reason)| (event.n, event.size, reason));
    let mut numbers: Vec<i64> = delivered.iter().map(|event| event.n).collect();
    numbers.extend(refused.iter().map(|(n, ..)| n));
    if is_alone && numbers.is_empty() {
        return Ok(());
    }
    let rows = numbers.len() as i64;
    let bytes = delivered.iter().map(|event| event.size).chain(refused.iter().map(|(_, size, _)| *size)).sum();
    let write = move |conn: &mut Conn| {
        if let Some((n, _, reason)) = &refused {
            outbox::store_refused(conn, *n, reason, now)?;
        }
        let oldest = outbox::remove(conn, &numbers)?;
        if !is_alone {
            outbox::release(conn, &holder)?;
        }
        Ok::<_, Error>(oldest)
    };
    let oldest = build.db.write(write).await?;
    backlog(build).removed(rows, bytes, oldest);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_a_foreign_service_is_soon_asked_again() {
        let seconds = |failure: Failure, failures| pause(&failure, failures).as_secs();
        assert_eq!(seconds(Failure::Unavailable(String::new()), 100), 60);
        assert_eq!(seconds(Failure::NoTenant(String::new()), 1), 60);
        assert_eq!(seconds(Failure::Foreign(String::new()), 100), 10);
    }
}
