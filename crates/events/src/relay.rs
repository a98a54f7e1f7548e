//! The relay delivers the events of each build's outbox to the history service, at least once. The
//! service recognizes a duplicate by the id of its event.
//!
//! Delivery is a standing job of each build ([`DELIVERY`]), woken at each commit. System events are sent in batches,
//! in the order of the outbox. Each history event is a call of its own, and up to [`MAX_CALLS`] calls run at once. History events
//! therefore arrive in any order; lists order them by their time. While the service is unavailable, delivery is
//! retried after growing pauses, which new events do not shorten. An event that the service rejects for good is moved
//! to `outbox_refused`, so that it does not block the others. Among system events it is found by halving the batch.
//! If the tenant does not exist in the service, all events of the build wait until an operator has repaired that.
//!
//! Several processes share an outbox, so a process claims it before it delivers; otherwise all would
//! send the same events. The claim of a process that died expires.

use crate::history_client::{CALL_TIMEOUT, CallFailure, Envelope, HistoryClient};
use crate::history_tenants::{self, BuildTenant, TenantError};
use crate::outbox::{self, DeliverableEvents, EventBatch, EventKind, WaitingEvent, backlog};
use crate::own_history;
use crate::{client, settings};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use kit::app::App;
use kit::build::Build;
use kit::domain::HealthReport;
use kit::jobs::{self, JobFuture, StandingJob, exponential_backoff};
use resource::openapi::object;
use serde_json::{Value as Json, json};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use store::{Conn, StoreError};
use web::clock::unique_id;
use web::metrics::MetricsText;

/// The maximum number of events of a batch.
const MAX_BATCH_EVENTS: usize = 1000;
/// The maximum size of a batch, in bytes.
const MAX_BATCH_BYTES: i64 = 4 * 1024 * 1024;
/// The time for which calls of history events begin, before the delivered events are deleted.
const HISTORY_BATCH_TIME: Duration = Duration::from_secs(2);
/// The maximum number of concurrent calls of history events for one build. The service stores the
/// events that wait for the same tenant together.
const MAX_CALLS: usize = 64;
/// The maximum number of such calls of a process. Each build that delivers has an equal share, at least one.
const MAX_CALLS_OF_ALL: usize = 256;
/// The duration of a claim, in microseconds. Other processes wait for this time if a process has died.
const CLAIM_US: i64 = 10_000_000;
/// The interval at which a process renews its claim.
const CLAIM_RENEWAL_INTERVAL: Duration = Duration::from_secs(3);
/// The first pause after a failure. It doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause after a failure.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The longest pause while the service belongs to another database, so that an adopted one is soon found.
/// Each attempt is one small request for the service's id.
const MAX_FOREIGN_PAUSE: Duration = Duration::from_secs(10);
/// The interval of the search for builds without a tenant, by one statement on the control database.
const NEW_BUILDS_INTERVAL: Duration = Duration::from_secs(2);
/// The interval at which events of other processes are counted while many wait.
const COUNT_INTERVAL: Duration = Duration::from_secs(5);
const MINUTE_US: i64 = 60_000_000;

/// The standing job that delivers the events of a build.
pub static DELIVERY: StandingJob = StandingJob { name: "history", at_a_time: 64, due: next_delivery_time, run };

/// The state that the deliveries of all builds of a process share.
pub struct Relay {
    /// The id of this process in claims.
    holder: String,
    /// The number of events that the service has rejected for good.
    refused: AtomicI64,
    /// The number of builds that send history events now.
    senders: AtomicUsize,
}

/// The state of a build's delivery in this process.
#[derive(Default)]
pub struct RelayState {
    progress: Mutex<Progress>,
    /// Is true if the last call of the service for this build failed.
    has_failed: AtomicBool,
}

/// The waiting events of all builds of this process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lag {
    /// The number of waiting events.
    pub waiting: i64,
    /// The time for which the oldest event has been waiting, in seconds.
    pub seconds: i64,
    /// Is true if the last call of the service succeeded, for each build.
    pub is_reachable: bool,
    /// The number of events that were rejected for good since this process started; `outbox_refused` contains them.
    pub refused: i64,
}

impl Default for Relay {
    fn default() -> Relay {
        Relay { holder: unique_id(), refused: AtomicI64::new(0), senders: AtomicUsize::new(0) }
    }
}

/// Starts a task that finds builds without a tenant. Those of other processes may have no event that wakes them.
pub fn start(app: &App) {
    if client(app).is_none() {
        return;
    }
    let app = app.clone();
    tokio::spawn(async move {
        while jobs::is_on(&app) {
            tokio::time::sleep(NEW_BUILDS_INTERVAL).await;
            let new = history_tenants::load_builds_without_tenant(&app).await.unwrap_or_default();
            for (_, domain) in new.into_iter().filter(|(uid, _)| !jobs::has_task(&app, uid)) {
                if let Ok(Some(build)) = app.build(&domain).await {
                    jobs::start_task_and_wait(&app, &build).await;
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
        let lag = delivery_lag(app);
        if lag.waiting == 0 || !lag.is_reachable {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    jobs::stop(app);
}

/// Returns the waiting events, by the estimate of this process.
pub fn delivery_lag(app: &App) -> Lag {
    let (now, refused) = (app.clock.now(), relay(app).refused.load(Ordering::Relaxed));
    let mut lag = Lag { waiting: 0, seconds: 0, is_reachable: true, refused };
    for build in jobs::builds(app) {
        lag.add(&build, now);
    }
    lag
}

/// Returns the state of the delivery of a build.
pub fn lag_of_build(app: &App, build: &Build) -> Lag {
    let mut lag = Lag { waiting: 0, seconds: 0, is_reachable: true, refused: 0 };
    lag.add(build, app.clock.now());
    lag
}

impl Lag {
    fn add(&mut self, build: &Build, now: i64) {
        let waiting = backlog(build).current_estimate();
        self.waiting += waiting.rows;
        if let Some(oldest) = waiting.oldest.filter(|_| waiting.rows > 0) {
            self.seconds = self.seconds.max((now - oldest) / 1_000_000);
        }
        self.is_reachable &= !delivery(build).has_failed.load(Ordering::Relaxed);
    }
}

fn relay(app: &App) -> &Relay {
    app.slot()
}

fn delivery(build: &Build) -> &RelayState {
    build.slot()
}

/// Returns whether this process delivers the events of a build, according to its last call. A command does not deliver events.
pub(crate) fn is_delivering(app: &App, build: &Build) -> bool {
    client(app).is_some() && jobs::is_on(app) && !delivery(build).has_failed.load(Ordering::Relaxed)
}

/// Returns the tenant of a build, if a delivery of this process has already loaded it.
pub(crate) fn tenant(build: &Build) -> Option<BuildTenant> {
    delivery(build).progress().tenant.clone()
}

impl RelayState {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        web::lock(&self.progress)
    }
}

/// Wakes the delivery of a build after an event was added.
pub fn wake(app: &App, build: &Arc<Build>) {
    if client(app).is_some() {
        jobs::wake_for(app, build, &DELIVERY);
    }
}

/// The name of the health details of delivery.
pub const HEALTH: &str = "history";

/// Returns the schema of [`health`].
pub fn health_schema() -> Json {
    let seconds = json!({"type": "integer", "description": "Age of the oldest waiting event"});
    let mut schema = object([
        ("waiting", json!({"type": "integer"})),
        ("lag_seconds", seconds),
        ("is_reachable", json!({"type": "boolean"})),
        ("refused", json!({"type": "integer"})),
    ]);
    schema["properties"]["warning"] = json!({"type": "string"});
    schema
}

/// Returns the health details of delivery.
pub fn health(app: &App) -> Option<HealthReport> {
    let service = client(app)?;
    let lag = delivery_lag(app);
    let mut details = json!({
        "waiting": lag.waiting, "lag_seconds": lag.seconds, "is_reachable": lag.is_reachable, "refused": lag.refused,
    });
    if service.is_foreign() {
        details["warning"] = json!("CHANCERY_HISTORY_URL: not the history service of this database");
    }
    Some(HealthReport { name: HEALTH, details, warning: None, is_ready: true })
}

/// Writes the metrics of the outbox.
pub fn write_metrics(app: &App, out: &mut MetricsText) {
    if client(app).is_none() {
        return;
    }
    let lag = delivery_lag(app);
    let reachable = u8::from(lag.is_reachable);
    out.single("chancery_outbox_waiting", "gauge", "Events that wait for the history service.", lag.waiting);
    out.single("chancery_outbox_lag_seconds", "gauge", "Age of the oldest waiting event, in seconds.", lag.seconds);
    out.single("chancery_outbox_refused_total", "counter", "Events that the history service refused.", lag.refused);
    out.single(
        "chancery_history_reachable",
        "gauge",
        "1 if the last call of each build reached the history service.",
        reachable,
    );
}

/// The result of a round of delivery that did not fail.
enum RoundOutcome {
    /// Events were delivered, and more may wait.
    Delivered,
    /// No event waits.
    Empty,
    /// Only shared rows wait, which may still change.
    Folded,
    /// Another process has the claim.
    Claimed,
}

/// The reason why a round of delivery failed.
enum RoundError {
    Service(CallFailure),
    Store(StoreError),
}

impl From<StoreError> for RoundError {
    fn from(error: StoreError) -> RoundError {
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

/// The state of a delivery from round to round.
#[derive(Clone)]
struct Progress {
    tenant: Option<BuildTenant>,
    /// The number of failures in a row.
    failures: u32,
    /// The number of rounds in a row in which another process had the claim.
    lost_claims: u32,
    /// The maximum number of events of the next batch: halved when a batch is rejected, doubled when one is accepted.
    max_events: usize,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress { tenant: None, failures: 0, lost_claims: 0, max_events: MAX_BATCH_EVENTS }
    }
}

/// Returns the time at which the delivery of a build is due; `None` if no event waits. Without a tenant it is due immediately.
fn next_delivery_time(app: &App, build: &Build, conn: &mut Conn, now: i64) -> Result<Option<i64>, StoreError> {
    if client(app).is_none() {
        return Ok(None);
    }
    if delivery(build).progress().tenant.is_none() {
        return Ok(Some(now));
    }
    let head = DeliverableEvents::read(conn)?;
    match head.folded_since {
        _ if head.is_ready => Ok(Some(now)),
        Some(_) if backlog(build).is_outdated() => Ok(Some(now)),
        Some(since) => Ok(Some(minute_of(since) + MINUTE_US)),
        None => {
            backlog(build).clear();
            // Another process has delivered the events that this one could not deliver.
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

/// Delivers the waiting events of a build. Ends after a pause on a failure or if another process delivers.
fn run(app: App, build: Arc<Build>) -> JobFuture<Result<(), StoreError>> {
    Box::pin(async move {
        let Some(service) = client(&app) else { return Ok(()) };
        let mut progress = delivery(&build).progress().clone();
        if progress.tenant.is_none() {
            // Events of an earlier process count for the limit from the start. If this fails, the first round also fails.
            let _ = count(&build).await;
        }
        while jobs::is_on(&app) {
            let round = round(&app, service, &build, &mut progress).await;
            log_outcome(service, &build, &mut progress, &round);
            *delivery(&build).progress() = progress.clone();
            match round {
                Ok(RoundOutcome::Delivered) => {}
                Ok(RoundOutcome::Empty) => return Ok(()),
                Ok(RoundOutcome::Folded) => return count(&build).await,
                Ok(RoundOutcome::Claimed) => {
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

/// Returns the pause of a delivery after `failures` failures in a row.
fn pause(failure: &CallFailure, failures: u32) -> Duration {
    match failure {
        CallFailure::NoTenant(_) => MAX_PAUSE,
        CallFailure::Foreign(_) => exponential_backoff(FIRST_PAUSE, MAX_FOREIGN_PAUSE, failures),
        _ => exponential_backoff(FIRST_PAUSE, MAX_PAUSE, failures),
    }
}

/// Counts the waiting events of a build.
async fn count(build: &Arc<Build>) -> Result<(), StoreError> {
    let counted_build = build.clone();
    build.db.read(move |conn| backlog(&counted_build).count(conn)).await
}

/// Sleeps after a failure; new events do not shorten the pause. If other processes may add events and
/// more than an eighth of the limit waits, the events are counted at intervals.
async fn pause_after_failure(app: &App, build: &Arc<Build>, pause: Duration) -> Result<(), StoreError> {
    count(build).await?;
    let end = tokio::time::Instant::now() + pause;
    while !app.store.is_embedded() && backlog(build).current_estimate().bytes > settings(app).outbox_bytes / 8 {
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
fn log_outcome(
    service: &HistoryClient,
    relayed_build: &Build,
    progress: &mut Progress,
    round: &Result<RoundOutcome, RoundError>,
) {
    let build = &relayed_build.domain;
    match round {
        Ok(RoundOutcome::Delivered) => {
            if progress.failures > 0 {
                tracing::info!(build, "history is delivered again");
            }
            (progress.failures, progress.lost_claims) = (0, 0);
            delivery(relayed_build).has_failed.store(false, Ordering::Relaxed);
        }
        Ok(RoundOutcome::Claimed) => progress.lost_claims = (progress.lost_claims + 1).min(5),
        Err(RoundError::Service(failure)) => {
            progress.failures = progress.failures.saturating_add(1);
            let waiting = backlog(relayed_build).current_estimate().rows;
            match failure {
                CallFailure::Foreign(_) if progress.failures == 1 => {
                    tracing::error!(
                        reason = %failure, address = service.url(), build, waiting,
                        "this is not the history service of the database"
                    );
                }
                CallFailure::NoTenant(_) => {
                    // An operator may have created a new tenant for the build.
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
            delivery(relayed_build).has_failed.store(true, Ordering::Relaxed);
        }
        Ok(RoundOutcome::Empty | RoundOutcome::Folded) | Err(RoundError::Store(_)) => {}
    }
}

/// Delivers the first events of a build's outbox, and creates its tenant if there is none.
async fn round(
    app: &App,
    service: &HistoryClient,
    build: &Build,
    progress: &mut Progress,
) -> Result<RoundOutcome, RoundError> {
    own_history::verify(app, service, CALL_TIMEOUT).await?;
    let tenant = match &progress.tenant {
        Some(tenant) => tenant.clone(),
        None => {
            let tenant = history_tenants::ensure(app, service, build, CALL_TIMEOUT).await?;
            progress.tenant.insert(tenant).clone()
        }
    };
    let head = build.db.read::<_, StoreError>(DeliverableEvents::read).await?;
    let minute = minute_of(app.clock.now());
    // While the service is unavailable, rows stay shared if there are other events to retry with.
    let is_over = head.folded_since.is_some_and(|since| since < minute);
    let closes_shared = is_over && (progress.failures == 0 || !head.is_ready);
    if !head.is_ready && !closes_shared {
        return Ok(if head.folded_since.is_some() { RoundOutcome::Folded } else { RoundOutcome::Empty });
    }
    let _place = jobs::acquire_permit(app, DELIVERY.name).await;
    if !claim(app, build, closes_shared.then_some(minute)).await? {
        return Ok(RoundOutcome::Claimed);
    }
    with_claim(app, build, deliver(app, service, build, &tenant, progress)).await
}

/// Claims the outbox for this process, and closes the shared rows that were created before `closed_before`.
async fn claim(app: &App, build: &Build, closed_before: Option<i64>) -> Result<bool, StoreError> {
    // On the embedded engine there is only one process, which does not need a claim.
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
            Ok(outcome) => return outcome,
            // A lost claim causes at most repetitions and another order, since the service recognizes duplicates.
            Err(_) => drop(claim(app, build, None).await),
        }
    }
}

/// The outcome of a batch for its events.
#[derive(Default)]
struct BatchResult<'a> {
    /// The events that arrived.
    delivered: Vec<&'a WaitingEvent>,
    /// The events that the service rejected for good, with the reasons.
    refused: Vec<(&'a WaitingEvent, String)>,
    /// The reason why the other events wait.
    failure: Option<CallFailure>,
}

/// Sends a batch, and deletes the events that arrived or were rejected for good.
async fn deliver(
    app: &App,
    service: &HistoryClient,
    build: &Build,
    tenant: &BuildTenant,
    progress: &mut Progress,
) -> Result<RoundOutcome, RoundError> {
    let max_events = progress.max_events;
    let batch = build
        .db
        .read::<_, StoreError>(move |conn| EventBatch::load_first_batch(conn, max_events, MAX_BATCH_BYTES))
        .await?;
    let Some(EventBatch { kind, events }) = batch else {
        // Another process has delivered them.
        finish_delivery(app, build, &BatchResult::default()).await?;
        return Ok(RoundOutcome::Delivered);
    };
    let batch = match kind {
        EventKind::System => send_system_events(service, tenant, &events, progress).await,
        EventKind::History => send_history_events(app, service, build, tenant, &events, progress.failures > 0).await,
    };
    if !batch.delivered.is_empty() {
        progress.max_events = (progress.max_events * 2).min(MAX_BATCH_EVENTS);
    }
    for (event, reason) in &batch.refused {
        tracing::error!(reason, build = build.domain, event = event.id, "the history service refused an event");
        relay(app).refused.fetch_add(1, Ordering::Relaxed);
    }
    finish_delivery(app, build, &batch).await?;
    match batch.failure {
        Some(failure) => Err(RoundError::Service(failure)),
        None => Ok(RoundOutcome::Delivered),
    }
}

/// Sends system events in one call. If it is rejected, the next batch has half the size, until the wrong event is alone.
async fn send_system_events<'a>(
    service: &HistoryClient,
    tenant: &BuildTenant,
    events: &'a [WaitingEvent],
    progress: &mut Progress,
) -> BatchResult<'a> {
    let bodies: Vec<&str> = events.iter().map(|event| event.body.as_str()).collect();
    let mut batch = BatchResult::default();
    match (service.batch(&tenant.client_id, &bodies).await, events) {
        (Ok(()), _) => batch.delivered = events.iter().collect(),
        (Err(failure), [event]) if failure.is_final() => batch.refused.push((event, failure.to_string())),
        (Err(failure), _) if failure.is_final() => progress.max_events = (events.len() / 2).max(1),
        (Err(failure), _) => batch.failure = Some(failure),
    }
    batch
}

/// Sends history events, many at once. Begins no further calls after a failure or after [`HISTORY_BATCH_TIME`]. After a
/// failure of the previous round (`is_doubtful`), the first event is sent alone, to check whether the service is back.
async fn send_history_events<'a>(
    app: &App,
    service: &HistoryClient,
    build: &Build,
    tenant: &BuildTenant,
    events: &'a [WaitingEvent],
    mut is_doubtful: bool,
) -> BatchResult<'a> {
    let (started, sender, mut batch) = (Instant::now(), SendingBuild::new(relay(app)), BatchResult::default());
    let send = async |event: &'a WaitingEvent| {
        let envelope = Envelope {
            id: &event.id,
            source: &tenant.database_name,
            account: &build.domain,
            time: event.created_at,
            detail: &event.body,
        };
        (event, service.create_event(&tenant.client_id, &envelope).await)
    };
    let (mut waiting, mut calls) = (events.iter(), FuturesUnordered::new());
    loop {
        let max_calls = if is_doubtful { 1 } else { sender.max_calls() };
        while calls.len() < max_calls && batch.failure.is_none() && started.elapsed() < HISTORY_BATCH_TIME {
            let Some(event) = waiting.next() else { break };
            calls.push(send(event));
        }
        match calls.next().await {
            None => return batch,
            Some((event, Ok(()))) => batch.delivered.push(event),
            Some((event, Err(failure))) if failure.is_final() => batch.refused.push((event, failure.to_string())),
            Some((_, Err(failure))) => batch.failure = Some(failure),
        }
        is_doubtful = false;
    }
}

/// A build that sends history events. It counts as such until this is dropped.
struct SendingBuild<'a>(&'a Relay);

impl SendingBuild<'_> {
    fn new(relay: &Relay) -> SendingBuild<'_> {
        relay.senders.fetch_add(1, Ordering::Relaxed);
        SendingBuild(relay)
    }

    /// Returns the maximum number of its concurrent calls.
    fn max_calls(&self) -> usize {
        (MAX_CALLS_OF_ALL / self.0.senders.load(Ordering::Relaxed).max(1)).clamp(1, MAX_CALLS)
    }
}

impl Drop for SendingBuild<'_> {
    fn drop(&mut self) {
        self.0.senders.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Deletes the events that were delivered or refused, and releases the claim. The refused ones are
/// stored in `outbox_refused` before.
async fn finish_delivery(app: &App, build: &Build, batch: &BatchResult<'_>) -> Result<(), StoreError> {
    let (is_alone, holder, now) = (app.store.is_embedded(), relay(app).holder.clone(), app.clock.now());
    let refused: Vec<(i64, String)> = batch.refused.iter().map(|(event, reason)| (event.n, reason.clone())).collect();
    let handled_events = || batch.delivered.iter().chain(batch.refused.iter().map(|(event, _)| event));
    let numbers: Vec<i64> = handled_events().map(|event| event.n).collect();
    if is_alone && numbers.is_empty() {
        return Ok(());
    }
    let (rows, bytes) = (numbers.len() as i64, handled_events().map(|event| event.size).sum());
    let write = move |conn: &mut Conn| {
        for (n, reason) in &refused {
            outbox::store_refused(conn, *n, reason, now)?;
        }
        let oldest = outbox::remove(conn, &numbers)?;
        if !is_alone {
            outbox::release(conn, &holder)?;
        }
        Ok::<_, StoreError>(oldest)
    };
    let oldest = build.db.write(write).await?;
    backlog(build).removed(rows, bytes, oldest);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_share_the_calls_of_a_process() {
        let relay = Relay::default();
        let builds: Vec<SendingBuild<'_>> = (0..1000).map(|_| SendingBuild::new(&relay)).collect();
        assert_eq!(builds[0].max_calls(), 1);
        let share = |senders: usize| {
            relay.senders.store(senders, Ordering::Relaxed);
            builds[0].max_calls()
        };
        assert_eq!([1, 4, 8, 64, 256].map(share), [64, 64, 32, 4, 1]);
        relay.senders.store(builds.len(), Ordering::Relaxed);
        drop(builds);
        assert_eq!(relay.senders.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn pauses_grow_and_a_foreign_service_is_soon_asked_again() {
        let seconds = |failure: CallFailure, failures| pause(&failure, failures).as_secs();
        assert_eq!(seconds(CallFailure::Unavailable(String::new()), 100), 60);
        assert_eq!(seconds(CallFailure::NoTenant(String::new()), 1), 60);
        assert_eq!(seconds(CallFailure::Foreign(String::new()), 100), 10);
    }
}
