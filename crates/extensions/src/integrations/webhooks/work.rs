//! The standing job that sends the deliveries of a build's webhooks.
//!
//! It works in rounds. A round is one transaction, which stores the outcomes of former deliveries and claims due ones, of at most
//! [`MAX_TURNS`] webhooks at a time. A task for each webhook then sends its deliveries one after the other, so that a slow receiver
//! delays only its own webhook. Rounds follow each other after [`ROUND_INTERVAL`], so that many deliveries share a transaction.
//!
//! A commit in this process wakes the job. Commits of other processes wake their own jobs. A check every second finds the
//! deliveries that a dead process left.

use super::queue::{self, DueDelivery, QueueWorker, TurnResult, WebhookTurn};
use super::send::{ReceiverConnections, WebhookMessage};
use super::signature::sign;
use crate::integrations::integration::{SECRET, Type, URL};
use crate::settings::ExtensionSettings;
use kit::app::App;
use kit::build::Build;
use kit::ids::IntegrationId;
use kit::jobs::{self, JobFuture, StandingJob};
use kit::rows;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use store::{Conn, Sql, StoreError};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use url::Url;
use web::clock::unique_id;
use web::metrics::{Counter, Gauge, MetricsText};
use web::shares::ShareAccount;

/// The maximum number of webhooks of a build to which a process sends at a time.
const MAX_TURNS: usize = 32;
/// The maximum number of these whose receivers do not answer.
const MAX_DOUBTFUL: usize = MAX_TURNS / 2;
/// The minimum time between the begins of two rounds.
const ROUND_INTERVAL: Duration = Duration::from_millis(50);
/// The time for which the deliveries of a webhook are sent before their outcomes are stored.
const TURN_TIME: Duration = Duration::from_secs(1);
/// The maximum time for which a turn waits for its permit. Together with an attempt it is shorter than the lease.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// The duration of an attempt above which its receiver is doubtful.
const SLOW: Duration = Duration::from_secs(1);
/// The pause after a store error.
const ERROR_PAUSE: Duration = Duration::from_secs(1);
/// The time between two checks of all builds for deliveries that other processes left.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of checks in a second.
const MAX_LOOKS: u32 = 50;
/// The interval between two sweeps, in microseconds, and between two thorough ones.
const SWEEP_US: i64 = 60_000_000;
const THOROUGH_SWEEP_US: i64 = 3_600_000_000;

pub static DELIVERY: StandingJob = StandingJob { name: "webhooks", at_a_time: 64, due: next_delivery_time, run };

/// The shared state of a process for all webhooks.
pub struct Webhooks {
    /// The id of this process in leases.
    holder: String,
    receivers: ReceiverConnections,
    /// The attempts that run.
    running: Gauge,
    /// The attempts that a receiver answered with a status below 300, with another one, and not at all.
    accepted: Counter,
    refused: Counter,
    unanswered: Counter,
}

impl Default for Webhooks {
    fn default() -> Webhooks {
        Webhooks {
            holder: unique_id(),
            receivers: ReceiverConnections::default(),
            running: Gauge::default(),
            accepted: Counter::new(),
            refused: Counter::new(),
            unanswered: Counter::new(),
        }
    }
}

/// The state of the work for a build.
#[derive(Default)]
pub struct WebhooksOfBuild {
    waker: Notify,
    next_sweep: AtomicI64,
    next_thorough_sweep: AtomicI64,
}

fn worker(app: &App) -> QueueWorker {
    QueueWorker { holder: app.slot::<Webhooks>().holder.clone(), is_alone: app.store.is_embedded() }
}

fn for_build(build: &Build) -> &WebhooksOfBuild {
    build.slot()
}

/// Wakes the work for a build after deliveries were enqueued.
pub fn wake(app: &App, build: &Arc<Build>) {
    for_build(build).waker.notify_one();
    jobs::wake_for(app, build, &DELIVERY);
}

/// Starts the checks for deliveries that other processes left, and closes old connections.
pub fn start(app: &App) {
    let app = app.clone();
    tokio::spawn(async move {
        while jobs::is_on(&app) {
            app.slot::<Webhooks>().receivers.close_old();
            let builds = if app.store.is_embedded() { Vec::new() } else { jobs::builds(&app) };
            for build in builds {
                tokio::time::sleep(LOOK_INTERVAL / MAX_LOOKS).await;
                let (worker, now) = (worker(&app), app.clock.now());
                let next =
                    build.db.read_short::<_, StoreError>(move |conn| queue::next_due_time(conn, &worker, now)).await;
                if next.is_ok_and(|next| next.is_some_and(|at| at <= now)) {
                    wake(&app, &build);
                }
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    });
}

/// Writes the metrics of deliveries.
pub fn write_metrics(app: &App, out: &mut MetricsText) {
    let counts = app.slot::<Webhooks>();
    out.single(
        "chancery_deliveries_running",
        "gauge",
        "Deliveries of webhooks that are being sent.",
        counts.running.get(),
    );
    let name = "chancery_delivery_attempts_total";
    out.metric(name, "counter", "Ended attempts to deliver webhooks.");
    for (outcome, count) in
        [("accepted", &counts.accepted), ("refused", &counts.refused), ("unanswered", &counts.unanswered)]
    {
        out.sample(name, &[("outcome", outcome)], count.get());
    }
}

fn next_delivery_time(app: &App, build: &Build, conn: &mut Conn, now: i64) -> Result<Option<i64>, StoreError> {
    let next = queue::next_due_time(conn, &worker(app), now)?;
    let sweep = for_build(build).next_sweep.load(Ordering::Relaxed);
    if next.is_none() && !queue::is_used(conn)? {
        return Ok(None);
    }
    Ok(Some(next.map_or(sweep, |next| next.min(sweep))))
}

fn run(app: App, build: Arc<Build>) -> JobFuture<Result<(), StoreError>> {
    Box::pin(async move {
        sweep(&app, &build).await?;
        let mut work =
            DeliveryWork { app, build, turns: JoinSet::new(), held: HashSet::new(), doubtful: HashSet::new() };
        let mut ended_turns = Vec::new();
        while jobs::is_on(&work.app) {
            let started = Instant::now();
            match work.round(&mut ended_turns).await {
                Ok(()) => {}
                Err(StoreError::Missing) => return Ok(()),
                Err(error) => {
                    tracing::error!(%error, build = work.build.domain, "deliveries were not stored");
                    tokio::time::sleep(ERROR_PAUSE).await;
                    continue;
                }
            }
            if work.turns.is_empty() {
                return Ok(());
            }
            let ended = tokio::select! {
                ended = work.turns.join_next() => ended,
                () = for_build(&work.build).waker.notified() => None,
            };
            tokio::time::sleep(ROUND_INTERVAL.saturating_sub(started.elapsed())).await;
            let mut ended = ended;
            while let Some(turn) = ended {
                // The lease of a turn that panicked expires.
                ended_turns.extend(turn.ok());
                ended = work.turns.try_join_next();
            }
        }
        Ok(())
    })
}

/// Sweeps the deliveries at most once per [`SWEEP_US`].
async fn sweep(app: &App, build: &Arc<Build>) -> Result<(), StoreError> {
    let (now, state) = (app.clock.now(), for_build(build));
    if state.next_sweep.load(Ordering::Relaxed) > now {
        return Ok(());
    }
    let most = app.slot::<ExtensionSettings>().waiting_deliveries;
    let is_thorough = state.next_thorough_sweep.load(Ordering::Relaxed) <= now;
    build.db.write::<_, StoreError>(move |conn| queue::sweep(conn, most, now, is_thorough)).await?;
    if is_thorough {
        state.next_thorough_sweep.store(now + THOROUGH_SWEEP_US, Ordering::Relaxed);
    }
    state.next_sweep.store(now + SWEEP_US, Ordering::Relaxed);
    Ok(())
}

/// The deliveries of a build that this process sends.
struct DeliveryWork {
    app: App,
    build: Arc<Build>,
    turns: JoinSet<TurnResult>,
    /// The webhooks whose deliveries are being sent.
    held: HashSet<IntegrationId>,
    /// The webhooks of `held` whose receivers answered late or not at all.
    doubtful: HashSet<IntegrationId>,
}

impl DeliveryWork {
    /// Stores the outcomes of turns, which are removed from `ended_turns`, and begins new turns.
    async fn round(&mut self, ended_turns: &mut Vec<TurnResult>) -> Result<(), StoreError> {
        let (worker, now) = (worker(&self.app), self.app.clock.now());
        let ended: Arc<Vec<TurnResult>> = Arc::new(std::mem::take(ended_turns));
        let mut webhooks = self.held.clone();
        webhooks.retain(|webhook| ended.iter().all(|turn| turn.webhook != *webhook));
        let (stored, busy) = (ended.clone(), webhooks.clone());
        let most = MAX_TURNS.saturating_sub(webhooks.len());
        let write = move |conn: &mut Conn| {
            queue::finish(conn, &worker, &stored, now)?;
            queue::claim_due(conn, &worker, &busy, most, now)
        };
        let turns = match self.build.db.write::<_, StoreError>(write).await {
            Ok(turns) => turns,
            Err(error) => {
                ended_turns.extend(ended.iter().cloned());
                return Err(error);
            }
        };
        self.held = webhooks;
        self.doubtful.retain(|webhook| self.held.contains(webhook));
        for turn in turns {
            self.held.insert(turn.webhook);
            if turn.is_doubtful {
                self.doubtful.insert(turn.webhook);
            }
            let is_crowded = self.doubtful.len() > MAX_DOUBTFUL;
            self.turns.spawn(send_turn(self.app.clone(), self.build.clone(), turn, is_crowded));
        }
        Ok(())
    }
}

/// Sends the deliveries of a webhook, one after the other, until one has no answer or the time of the turn is over.
async fn send_turn(app: App, build: Arc<Build>, turn: WebhookTurn, is_crowded: bool) -> TurnResult {
    let started = Instant::now();
    let mut result = TurnResult { webhook: turn.webhook, was_doubtful: turn.is_doubtful, tried: Vec::new() };
    if is_crowded && turn.is_doubtful {
        // Other webhooks would wait for this one, since many receivers do not answer. Its turn comes later.
        tokio::time::sleep(TURN_TIME).await;
        return result;
    }
    let receivers = &app.slot::<Webhooks>().receivers;
    let holder = build.holder(ShareAccount::Id(turn.webhook.get()));
    let mut is_doubtful = turn.is_doubtful;
    for delivery in turn.deliveries {
        if started.elapsed() > TURN_TIME || !jobs::is_on(&app) {
            break;
        }
        let place = receivers.acquire_permit(&holder, is_doubtful, delivery.size, MAX_WAIT);
        let Ok(Some(_place)) = tokio::time::timeout(MAX_WAIT, place).await else { break };
        let began = Instant::now();
        match send_one(&app, &build, receivers, turn.webhook, &delivery).await {
            AttemptResult::Nothing => {}
            AttemptResult::Stopped => break,
            AttemptResult::Answered(status) => {
                is_doubtful = began.elapsed() > SLOW;
                result.tried.push((delivery, Some(status)));
            }
            AttemptResult::Unanswered => {
                result.tried.push((delivery, None));
                break;
            }
        }
    }
    result
}

/// The outcome of an attempt.
enum AttemptResult {
    /// The delivery no longer waits.
    Nothing,
    /// The webhook was disabled, or the store failed.
    Stopped,
    Answered(u16),
    Unanswered,
}

/// Sends a delivery, with the present address and secret of the webhook.
async fn send_one(
    app: &App,
    build: &Arc<Build>,
    receivers: &ReceiverConnections,
    webhook: IntegrationId,
    delivery: &DueDelivery,
) -> AttemptResult {
    let (shared_app, of_build, id) = (app.clone(), build.clone(), delivery.id);
    let load_delivery = move |conn: &mut Conn| {
        let sql = Sql::new(
            "SELECT t.url, t.secret_row, t.secret, t.is_enabled, d.event_type, e.body FROM webhook_deliveries d \
             JOIN integrations t ON t.id = d.webhook JOIN webhook_events e ON e.event_id = d.event_id \
             WHERE d.id = $1 AND d.status = 'pending'",
        );
        conn.query_optional(&sql.arg(id), |row| {
            let secret = rows::open_secret(&shared_app.keys, &of_build, Type::Webhook.declaration(), &SECRET, row, 1)?;
            let may_be_sent = row.flag(3)? || row.text(4)? == "test";
            Ok((row.text(0)?.to_owned(), secret, may_be_sent, row.text(5)?.to_owned()))
        })
    };
    let (url, secret, body) = match build.db.read_short::<_, StoreError>(load_delivery).await {
        Ok(Some((url, secret, true, body))) => (url, secret, body),
        Ok(None) => return AttemptResult::Nothing,
        Ok(Some(_)) | Err(_) => return AttemptResult::Stopped,
    };
    let (Ok(url), Some(secret)) = (Url::parse(&url), secret) else {
        tracing::error!(
            build = build.domain,
            webhook = webhook.get(),
            field = URL.name(),
            "a webhook has no address or secret"
        );
        return AttemptResult::Unanswered;
    };
    let timestamp = app.clock.now().div_euclid(1_000_000);
    let message = WebhookMessage {
        of: (build.uid.clone(), webhook),
        url: &url,
        id: &delivery.event_id,
        timestamp,
        signature: sign(&secret, &delivery.event_id, timestamp, &body),
        body: body.into(),
    };
    let counts = app.slot::<Webhooks>();
    counts.running.increment();
    let answer = receivers.send(&message, &app.settings.outbound_allow).await;
    counts.running.decrement();
    match answer {
        Some(status) => {
            if status < 300 {
                counts.accepted.increment()
            } else {
                counts.refused.increment()
            }
            AttemptResult::Answered(status)
        }
        None => {
            counts.unanswered.increment();
            AttemptResult::Unanswered
        }
    }
}
