//! The relay: what waits in a build's outbox goes to the history service, in its order and at least once (an event has an
//! id, by which the service knows it again).
//!
//! Delivery is standing work of each build ([`DELIVERY`]), woken at each commit. System events go in batches, history events
//! one by one. While the service is away it is tried again after growing pauses, which new events do not shorten. What the
//! service refuses for good is looked for by halving and put aside, so that it does not hold up the rest; an unknown tenant
//! is an operator's matter, and everything waits for it.
//!
//! Several processes share an outbox: whoever delivers claims it first, so that the order holds. A process that dies
//! leaves its claim to run out.

use crate::history_client::{Envelope, Failure, HistoryClient, PATIENCE};
use crate::history_tenants::{self, NoTenant, Tenant};
use crate::outbox::{self, Batch, Head, Kind, Waits, backlog};
use crate::own_history;
use crate::{client, settings};
use kit::app::App;
use kit::build::Build;
use kit::jobs::{self, Pending, StandingJob, growing};
use serde_json::{Value as Json, json};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use store::{Conn, Error};
use web::clock::unique_id;

/// The most events that are delivered at once.
const MOST: usize = 1000;
/// The most bytes that are.
const MOST_BYTES: i64 = 4 * 1024 * 1024;
/// How long history events are sent one by one before those that arrived are removed.
const A_WHILE: Duration = Duration::from_secs(2);
/// How long a claim holds, in microseconds, and so how long the others wait for a process that died.
const CLAIM: i64 = 10_000_000;
/// How often a living process renews its claim.
const RENEWAL: Duration = Duration::from_secs(3);
/// The first pause after a failure; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause.
const LAST_PAUSE: Duration = Duration::from_secs(60);
/// How often builds without a tenant are looked for, one statement on the control database.
const NEW_BUILDS: Duration = Duration::from_secs(2);
/// How often what others have added is counted while much waits.
const COUNT: Duration = Duration::from_secs(5);
const MINUTE: i64 = 60_000_000;

/// Delivery to the history service.
pub static DELIVERY: StandingJob = StandingJob { name: "history", at_a_time: 64, due, run };

/// What the deliveries of a process share.
pub struct Relay {
    /// This process, for claims.
    holder: String,
    /// Events that the service refused for good.
    refused: AtomicI64,
}

/// What a process knows of a build's delivery.
#[derive(Default)]
pub struct Delivery {
    progress: Mutex<Progress>,
    /// Whether the last thing that the service was asked for this build failed because of it.
    is_cut_off: AtomicBool,
}

/// What waits, over all builds of this process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lag {
    /// How many events.
    pub waiting: i64,
    /// How long the oldest has been waiting.
    pub seconds: i64,
    /// Whether the service answered when it was asked last.
    pub is_reachable: bool,
    /// How many events it has refused for good since this process began; they are kept in `outbox_refused`.
    pub refused: i64,
}

impl Default for Relay {
    fn default() -> Relay {
        Relay { holder: unique_id(), refused: AtomicI64::new(0) }
    }
}

/// Begins to look for builds that another process makes: they have no event yet, and may have no tenant.
pub fn start(app: &App) {
    if client(app).is_none() {
        return;
    }
    let app = app.clone();
    tokio::spawn(async move {
        while jobs::is_on(&app) {
            tokio::time::sleep(NEW_BUILDS).await;
            for domain in history_tenants::missing(&app).await.unwrap_or_default() {
                if let Ok(Some(build)) = app.build(&domain).await {
                    jobs::wake(&app, &build);
                }
            }
        }
    });
}

/// Delivers what the last requests caused, for a short while, and then begins no job any more, so that the store can be
/// closed; what still waits is delivered by the next process.
pub async fn finish(app: &App, patience: Duration) {
    let until = Instant::now() + patience;
    while client(app).is_some() && jobs::is_on(app) && Instant::now() < until {
        let lag = lag(app);
        if lag.waiting == 0 || !lag.is_reachable {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    jobs::stop(app);
}

/// What waits, from memory.
pub fn lag(app: &App) -> Lag {
    let (now, refused) = (app.clock.now(), relay(app).refused.load(Ordering::Relaxed));
    let mut lag = Lag { waiting: 0, seconds: 0, is_reachable: true, refused };
    for build in jobs::builds(app) {
        let waiting = backlog(&build).waiting();
        lag.waiting += waiting.rows;
        if let Some(oldest) = waiting.oldest.filter(|_| waiting.rows > 0) {
            lag.seconds = lag.seconds.max((now - oldest) / 1_000_000);
        }
        lag.is_reachable &= !delivery(&build).is_cut_off.load(Ordering::Relaxed);
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

/// Something may wait in the build's outbox.
pub fn wake(app: &App, build: &Arc<Build>) {
    if client(app).is_some() {
        jobs::wake(app, build);
    }
}

/// The health details.
pub fn health(app: &App) -> Option<(&'static str, Json)> {
    let service = client(app)?;
    let lag = lag(app);
    let mut details = json!({
        "waiting": lag.waiting, "lag_seconds": lag.seconds, "is_reachable": lag.is_reachable, "refused": lag.refused,
    });
    if service.is_foreign() {
        details["warning"] = json!("CHANCERY_HISTORY_URL: not the history service of this database");
    }
    Some(("history", details))
}

/// What a round came to.
enum Round {
    /// There may be more.
    Delivered,
    /// Nothing waits.
    Empty,
    /// What waits may still change.
    Folded,
    /// Another process delivers.
    Claimed,
}

/// Why a round came to nothing.
enum Trouble {
    Service(Failure),
    Store(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Store(error)
    }
}

impl From<NoTenant> for Trouble {
    fn from(error: NoTenant) -> Trouble {
        match error {
            NoTenant::Service(failure) => Trouble::Service(failure),
            NoTenant::Store(error) => Trouble::Store(error),
        }
    }
}

/// What is known from round to round.
#[derive(Clone)]
struct Progress {
    tenant: Option<Tenant>,
    /// In a row.
    failures: u32,
    /// How many rounds in a row another process had the claim.
    turns: u32,
    /// The most events of the next batch: halved when one is refused, doubled when one is taken.
    most: usize,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress { tenant: None, failures: 0, turns: 0, most: MOST }
    }
}

/// When there is something to deliver. A build without a tenant has one made first.
fn due(app: &App, build: &Build, conn: &mut Conn, now: i64) -> Result<Option<i64>, Error> {
    if client(app).is_none() {
        return Ok(None);
    }
    if delivery(build).progress().tenant.is_none() {
        return Ok(Some(now));
    }
    let head = Head::look(conn)?;
    match head.folded_since {
        _ if head.is_ready => Ok(Some(now)),
        Some(_) if backlog(build).is_outdated() => Ok(Some(now)),
        Some(since) => Ok(Some(minute_of(since) + MINUTE)),
        None => {
            backlog(build).clear();
            // Where this process could not deliver, another one could.
            let mut progress = delivery(build).progress();
            (progress.failures, progress.turns) = (0, 0);
            delivery(build).is_cut_off.store(false, Ordering::Relaxed);
            Ok(None)
        }
    }
}

fn minute_of(moment: i64) -> i64 {
    moment.div_euclid(MINUTE) * MINUTE
}

/// Delivers what waits; after a failure, or when another process delivers, it is over after a pause.
fn run(app: App, build: Arc<Build>) -> Pending<Result<(), Error>> {
    Box::pin(async move {
        let Some(service) = client(&app) else { return Ok(()) };
        let mut progress = delivery(&build).progress().clone();
        if progress.tenant.is_none() {
            // What an earlier process left counts for the bound from the start. If this fails, so does the first round.
            let _ = count(&build).await;
        }
        while jobs::is_on(&app) {
            let round = round(&app, service, &build, &mut progress).await;
            tell(service, &build, &mut progress, &round);
            *delivery(&build).progress() = progress.clone();
            match round {
                Ok(Round::Delivered) => {}
                Ok(Round::Empty) => return Ok(()),
                Ok(Round::Folded) => return count(&build).await,
                Ok(Round::Claimed) => {
                    tokio::time::sleep(Duration::from_millis(25 << progress.turns)).await;
                    return count(&build).await;
                }
                Err(Trouble::Service(failure)) => {
                    let pause = match failure {
                        Failure::NoTenant(_) => LAST_PAUSE,
                        _ => growing(FIRST_PAUSE, LAST_PAUSE, progress.failures),
                    };
                    return rest(&app, &build, pause).await;
                }
                Err(Trouble::Store(error)) => return Err(error),
            }
        }
        Ok(())
    })
}

/// Counts what waits in the build.
async fn count(build: &Arc<Build>) -> Result<(), Error> {
    let of = build.clone();
    build.db.read(move |conn| backlog(&of).count(conn)).await
}

/// A pause after a failure, whatever is added meanwhile. Where other processes may add, too, and the bound is not far,
/// what waits is counted now and then.
async fn rest(app: &App, build: &Arc<Build>, pause: Duration) -> Result<(), Error> {
    count(build).await?;
    let end = tokio::time::Instant::now() + pause;
    while !app.store.is_embedded() && backlog(build).waiting().bytes > settings(app).outbox_bytes / 8 {
        let now = tokio::time::Instant::now();
        if now >= end {
            break;
        }
        tokio::time::sleep_until(end.min(now + COUNT)).await;
        count(build).await?;
    }
    tokio::time::sleep_until(end).await;
    Ok(())
}

/// The lines of the log, and what the health details say.
fn tell(service: &HistoryClient, of: &Build, progress: &mut Progress, round: &Result<Round, Trouble>) {
    let build = &of.domain;
    match round {
        Ok(Round::Delivered) => {
            if progress.failures > 0 {
                tracing::info!(build, "history is delivered again");
            }
            (progress.failures, progress.turns) = (0, 0);
            delivery(of).is_cut_off.store(false, Ordering::Relaxed);
        }
        Ok(Round::Claimed) => progress.turns = (progress.turns + 1).min(5),
        Err(Trouble::Service(failure)) => {
            progress.failures = progress.failures.saturating_add(1);
            let waiting = backlog(of).waiting().rows;
            match failure {
                Failure::Foreign(_) if progress.failures == 1 => {
                    tracing::error!(
                        reason = %failure, address = service.url(), build, waiting,
                        "this is not the history service of the database: set CHANCERY_HISTORY_URL to its own, or run `chancery history adopt`"
                    );
                }
                Failure::NoTenant(_) => {
                    tracing::error!(reason = %failure, build, waiting, "the history service does not know the build");
                }
                _ if progress.failures == 1 => {
                    tracing::warn!(reason = %failure, build, waiting, "history is not delivered");
                }
                _ => {
                    tracing::debug!(reason = %failure, build, waiting, "history is not delivered");
                }
            }
            delivery(of).is_cut_off.store(true, Ordering::Relaxed);
        }
        Ok(Round::Empty | Round::Folded) | Err(Trouble::Store(_)) => {}
    }
}

/// Delivers what stands at the head.
async fn round(app: &App, service: &HistoryClient, build: &Build, progress: &mut Progress) -> Result<Round, Trouble> {
    own_history::verify(app, service, PATIENCE).await?;
    let tenant = match &progress.tenant {
        Some(tenant) => tenant.clone(),
        None => {
            let tenant = history_tenants::ensure(app, service, build, PATIENCE).await?;
            progress.tenant.insert(tenant).clone()
        }
    };
    let head = build.db.read::<_, Error>(Head::look).await?;
    let minute = minute_of(app.clock.now());
    // While the service is away, rows stay shared for as long as there are others to try it with.
    let is_over = head.folded_since.is_some_and(|since| since < minute);
    let seals = is_over && (progress.failures == 0 || !head.is_ready);
    if !head.is_ready && !seals {
        return Ok(if head.folded_since.is_some() { Round::Folded } else { Round::Empty });
    }
    let _place = jobs::place(app, DELIVERY.name).await;
    if !claim(app, build, seals.then_some(minute)).await? {
        return Ok(Round::Claimed);
    }
    let delivered = holding(app, build, deliver(app, service, build, &tenant, progress)).await;
    if let Err(Trouble::Service(_)) = delivered {
        settle(app, build, &[], None).await?;
    }
    delivered
}

/// Takes the outbox for this process, and shared rows that were begun before a moment out of reach.
async fn claim(app: &App, build: &Build, sealed_before: Option<i64>) -> Result<bool, Error> {
    // The only process there is has nobody to claim it from.
    let is_alone = app.store.is_embedded();
    if is_alone && sealed_before.is_none() {
        return Ok(true);
    }
    let (holder, now) = (relay(app).holder.clone(), app.clock.now());
    let write = move |conn: &mut Conn| {
        if !is_alone && !outbox::claim(conn, &holder, now, now + CLAIM)? {
            return Ok(false);
        }
        if let Some(before) = sealed_before {
            outbox::seal(conn, before)?;
        }
        Ok(true)
    };
    build.db.write(write).await
}

/// Does something under the claim, which is renewed for as long as that takes.
async fn holding<T>(app: &App, build: &Build, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(RENEWAL, &mut work).await {
            Ok(done) => return done,
            // Lost, it costs the order at worst: the service knows events again.
            Err(_) => drop(claim(app, build, None).await),
        }
    }
}

async fn deliver(
    app: &App,
    service: &HistoryClient,
    build: &Build,
    tenant: &Tenant,
    progress: &mut Progress,
) -> Result<Round, Trouble> {
    let most = progress.most;
    let batch = build.db.read::<_, Error>(move |conn| Batch::first(conn, most, MOST_BYTES)).await?;
    let Some(Batch { kind, events }) = batch else {
        // Another process was faster.
        settle(app, build, &[], None).await?;
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
        Kind::History => one_by_one(service, build, tenant, &events).await,
    };
    let (gone, rest) = events.split_at(arrived);
    // The event that is wrong is the first of the rest, once it stands alone.
    let is_alone = kind == Kind::History || events.len() == 1;
    match outcome {
        Ok(()) => {
            progress.most = (most * 2).min(MOST);
            settle(app, build, gone, None).await?;
            Ok(Round::Delivered)
        }
        Err(Failure::Refused(_) | Failure::TooLarge) if !is_alone => {
            progress.most = (events.len() / 2).max(1);
            settle(app, build, gone, None).await?;
            Ok(Round::Delivered)
        }
        Err(failure @ (Failure::Refused(_) | Failure::TooLarge)) => {
            let (refused, reason) = (rest.first(), failure.to_string());
            let (id, build_name) = (refused.map_or("", |event| &event.id), &build.domain);
            tracing::error!(reason, build = build_name, event = id, "the history service refused an event");
            relay(app).refused.fetch_add(1, Ordering::Relaxed);
            settle(app, build, gone, refused.map(|event| (event, reason))).await?;
            Ok(Round::Delivered)
        }
        Err(failure) => {
            settle(app, build, gone, None).await?;
            Err(Trouble::Service(failure))
        }
    }
}

/// Sends history events until one does not arrive, or a while is over; how many arrived.
async fn one_by_one(
    service: &HistoryClient,
    build: &Build,
    tenant: &Tenant,
    events: &[Waits],
) -> (usize, Result<(), Failure>) {
    let started = Instant::now();
    for (at, event) in events.iter().enumerate() {
        if started.elapsed() > A_WHILE {
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

/// Removes what arrived, puts aside what was refused, and gives the claim back.
async fn settle(app: &App, build: &Build, gone: &[Waits], refused: Option<(&Waits, String)>) -> Result<(), Error> {
    let (is_alone, holder, now) = (app.store.is_embedded(), relay(app).holder.clone(), app.clock.now());
    let aside = refused.map(|(event, reason)| (event.n, event.size, reason));
    let mut numbers: Vec<i64> = gone.iter().map(|event| event.n).collect();
    numbers.extend(aside.iter().map(|(n, ..)| n));
    if is_alone && numbers.is_empty() {
        return Ok(());
    }
    let rows = numbers.len() as i64;
    let bytes = gone.iter().map(|event| event.size).chain(aside.iter().map(|(_, size, _)| *size)).sum();
    let write = move |conn: &mut Conn| {
        if let Some((n, _, reason)) = &aside {
            outbox::set_aside(conn, *n, reason, now)?;
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
