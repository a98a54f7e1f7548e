//! Messages wait in the build's database until they are sent, so that no request waits for mail, time tells nothing
//! about whom it is for, and no mail is lost in a crash (document 4, section 3, "a message that a request causes").
//! What waits is sealed, and the link in it is made when it is sent.
//!
//! A message goes by the build's mail server, or into a file while the build has no mail settings. What cannot be sent
//! is tried again after growing delays, for three days; then it is given up, and the `failure_email` addresses of the
//! settings are told. Several processes share a queue: whoever sends a message claims it first. A process that dies
//! after the mail server took a message and before it was removed sends it twice; that is the price of losing none.

use crate::company_details;
use crate::mail::message::{self, Composed, Message};
use crate::mail::smtp::{self, Receivers, Server};
use crate::mail::templates;
use crate::smtp_settings::server;
use kit::app::App;
use kit::build::Build;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::secret::Context;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store::{Conn, Error, Sql};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::Instant;
use web::clock::random_token;

/// How long a message is tried, in microseconds.
const GIVEN_UP_AFTER: i64 = 3 * 86_400_000_000;
/// How long the mail server has for one message.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a claim holds, in microseconds: longer than [`PATIENCE`], since a message of a living process is its own.
const CLAIM: i64 = 60_000_000;
/// How often a process looks for what others left behind.
const LOOK: Duration = Duration::from_secs(300);
/// How many messages are sent at a time; one of each build.
const AT_A_TIME: usize = 256;
/// How many messages wait in a build that there is one of for a name: anybody may ask for them. What is beyond is not sent.
const MAX_NAMED: i64 = 10_000;
/// How long a reset that could not be sent waits at most when it is asked for once more, in microseconds.
const HURRY: i64 = 60_000_000;
/// How many tests of its mail settings a build may run at a time.
const TESTS_AT_A_TIME: usize = 4;

/// A kind of message: how it is made from what was stored when it was asked for.
pub struct MailKind {
    /// The name under which it is stored; it stays.
    pub name: &'static str,
    pub make: Make,
}

/// Makes a message when its turn has come; `None` when there is nobody to send it to any more.
pub type Make = fn(&Making, &mut Conn, &Json) -> Result<Option<Message>, Error>;

/// The circumstances in which a message is made.
pub struct Making<'a> {
    pub app: &'a App,
    pub build: &'a Build,
    /// The number of the message, the same at each try.
    pub job: i64,
    pub now: i64,
}

/// The kinds of messages that the domains have.
#[derive(Default)]
pub struct MailKinds(pub Vec<&'static MailKind>);

/// A message that is asked for.
pub struct Mail<'a> {
    pub kind: &'static MailKind,
    /// What it is made from.
    pub payload: Json,
    /// Of messages with the same text one waits at most, and so many of them altogether ([`MAX_NAMED`]).
    pub once_for: Option<&'a str>,
}

/// The word that a message was given up: its subject, its receiver, and why. Who gets it stands in the settings.
const GIVEN_UP: &str = "given_up";

fn context<'a>(build: &'a Build, row: &'a str) -> Context<'a> {
    Context { build: &build.uid, table: "mail_jobs", column: "sealed", row }
}

/// Puts a message into the queue, in the transaction of what causes it; its number. `None`: so many wait that there is one
/// of for a name that it is dropped.
pub fn put(request: &Request, conn: &mut Conn, mail: &Mail) -> Result<Option<i64>, Refusal> {
    let stored = json!({mail.kind.name: mail.payload});
    let number = insert(&request.app, &request.build, conn, &stored, mail.once_for, request.now)?;
    if number.is_none() {
        tracing::warn!(
            build = request.build.domain,
            kind = mail.kind.name,
            "a message was dropped, since too many wait"
        );
    }
    request.effects.after_commit(wake);
    Ok(number)
}

/// Tries everything that waits at once, in the transaction of what gives it another chance.
pub fn hurry(request: &Request, conn: &mut Conn) -> Result<(), Error> {
    conn.exec(&Sql::new("UPDATE mail_jobs SET next_at = $1 WHERE next_at > $1").arg(request.now))?;
    request.effects.after_commit(wake);
    Ok(())
}

fn insert(
    app: &App,
    build: &Build,
    conn: &mut Conn,
    stored: &Json,
    once_for: Option<&str>,
    now: i64,
) -> Result<Option<i64>, Error> {
    // What was typed as a name is not to be read in the key.
    let place = Context { build: &build.uid, table: "mail_jobs", column: "name_key", row: "" };
    let name_key = once_for.map(|name| app.keys.name(&place, name.as_bytes()));
    if name_key.is_some() && named(conn)? >= MAX_NAMED {
        return Ok(None);
    }
    let row = random_token();
    let sealed = app.keys.seal(&context(build, &row), stored.to_string().as_bytes());
    let sql = Sql::new(
        "INSERT INTO mail_jobs(row_key, sealed, created_at, next_at, name_key) VALUES ($1, $2, $3, $3, $4) \
         ON CONFLICT (name_key) WHERE name_key IS NOT NULL DO UPDATE SET \
         next_at = CASE WHEN mail_jobs.next_at > $5 THEN $5 ELSE mail_jobs.next_at END RETURNING id",
    );
    conn.one(&sql.arg(row).arg(sealed).arg(now).arg(name_key).arg(now + HURRY), |row| row.int(0)).map(Some)
}

/// How many messages wait that there is one of for a name, as far as the bound cares.
fn named(conn: &mut Conn) -> Result<i64, Error> {
    let sql =
        Sql::new("SELECT count(*) FROM (SELECT 1 AS one FROM mail_jobs WHERE name_key IS NOT NULL LIMIT $1) waiting");
    conn.one(&sql.arg(MAX_NAMED), |row| row.int(0))
}

/// One worker for each build that ever had a message in this process, asleep while there is none. A process that does
/// not serve (a command) has none: it may end at any time.
pub struct Worker {
    is_on: AtomicBool,
    wakers: Mutex<HashMap<String, Arc<Notify>>>,
    places: Semaphore,
    test_places: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Default for Worker {
    fn default() -> Worker {
        Worker {
            is_on: AtomicBool::new(false),
            wakers: Mutex::default(),
            places: Semaphore::new(AT_A_TIME),
            test_places: Mutex::default(),
        }
    }
}

impl Worker {
    /// Begins to send, first what an earlier process left behind.
    pub fn start(app: &App) {
        worker(app).is_on.store(true, Ordering::Relaxed);
        let app = app.clone();
        tokio::spawn(async move {
            match app.active_builds().await {
                Ok(builds) => builds.iter().for_each(|build| wake(&app, build)),
                Err(error) => tracing::error!(%error, "the mail queues were not looked at"),
            }
        });
    }

    fn wake(&self, app: &App, build: &Arc<Build>) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        let waker = wakers.entry(build.uid.clone()).or_insert_with(|| {
            let waker = Arc::new(Notify::new());
            tokio::spawn(work(app.clone(), build.clone(), waker.clone()));
            waker
        });
        waker.notify_one();
    }

    /// A place among those that send, given back when it is dropped.
    async fn place(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.places.acquire().await.ok()
    }

    /// The places of those that test a build's settings: hanging servers of one build are no burden to another.
    pub fn test_places(&self, build: &Build) -> Arc<Semaphore> {
        let mut places = self.test_places.lock().unwrap_or_else(PoisonError::into_inner);
        places.entry(build.uid.clone()).or_insert_with(|| Arc::new(Semaphore::new(TESTS_AT_A_TIME))).clone()
    }
}

/// Something may wait in the build's queue.
pub fn wake(app: &App, build: &Arc<Build>) {
    worker(app).wake(app, build);
}

/// What sends messages in this process.
pub fn worker(app: &App) -> &Worker {
    app.slot()
}

async fn work(app: App, build: Arc<Build>, waker: Arc<Notify>) {
    let is_alone = app.store.is_embedded();
    let mut is_first = is_alone;
    loop {
        let wait = match drain(&app, &build, is_first).await {
            Ok(wait) => wait,
            Err(Error::Missing) => return,
            Err(error) => {
                tracing::error!(%error, build = build.domain, "the mail queue was not read");
                Some(Duration::from_secs(10))
            }
        };
        is_first = false;
        // Another process may die with what it has queued.
        let wait = if is_alone { wait } else { Some(wait.unwrap_or(LOOK).min(LOOK)) };
        match wait {
            Some(wait) => drop(tokio::time::timeout(wait.max(Duration::from_millis(100)), waker.notified()).await),
            None => waker.notified().await,
        }
    }
}

/// A message that this process is sending.
struct Claimed {
    id: i64,
    until: i64,
    attempts: i64,
    created_at: i64,
    job: Option<Json>,
    /// `None`: there is nobody to send it to any more.
    message: Option<Message>,
    transport: Transport,
}

/// How a message is sent.
#[derive(Clone)]
enum Transport {
    File,
    Smtp(Box<Server>),
    /// There are settings, but their secret cannot be read.
    Blocked,
}

/// Why a message was not sent.
struct SendFailure {
    reason: String,
    is_final: bool,
}

/// Sends what is due; how long until the next is.
async fn drain(app: &App, build: &Arc<Build>, is_first: bool) -> Result<Option<Duration>, Error> {
    if is_first {
        // The only process here has just begun: whoever claimed these is gone.
        let sql = Sql::new("UPDATE mail_jobs SET claimed_until = NULL WHERE claimed_until IS NOT NULL");
        build.db.write(move |conn| conn.exec(&sql)).await?;
    }
    loop {
        let now = app.clock.now();
        if build.db.read(move |conn| due(conn, now, "")).await?.is_none() {
            break;
        }
        let place = worker(app).place().await;
        let (claimer, of) = (app.clone(), build.clone());
        let Some(claimed) = build.db.write(move |conn| claim(&claimer, &of, conn, now)).await? else { break };
        let sent = send(app, build, &claimed).await;
        drop(place);
        log_outcome(build, &claimed, &sent, now);
        let (finisher, of) = (app.clone(), build.clone());
        build.db.write(move |conn| finish_delivery(&finisher, &of, conn, &claimed, &sent, now)).await?;
    }
    let now = app.clock.now();
    let sql =
        Sql::new("SELECT min(CASE WHEN claimed_until > next_at THEN claimed_until ELSE next_at END) FROM mail_jobs");
    let next: Option<i64> = build.db.read(move |conn| conn.one(&sql, |row| row.opt_int(0))).await?;
    Ok(next.map(|next: i64| Duration::from_micros(u64::try_from(next - now).unwrap_or(0))))
}

/// The first message that is due and nobody's.
fn due(conn: &mut Conn, now: i64, lock: &'static str) -> Result<Option<i64>, Error> {
    let mut sql = Sql::new(
        "SELECT id FROM mail_jobs WHERE next_at <= $1 AND (claimed_until IS NULL OR claimed_until <= $1) \
         ORDER BY next_at, id LIMIT 1",
    )
    .arg(now);
    conn.opt(sql.push(lock), |row| row.int(0))
}

/// Claims the first message that is due, and makes it.
fn claim(app: &App, build: &Build, conn: &mut Conn, now: i64) -> Result<Option<Claimed>, Error> {
    let Some(id) = due(conn, now, " FOR UPDATE SKIP LOCKED")? else { return Ok(None) };
    let until = now + CLAIM;
    conn.exec(&Sql::new("UPDATE mail_jobs SET claimed_until = $1 WHERE id = $2").arg(until).arg(id))?;
    let sql = Sql::new("SELECT attempts, created_at, row_key, sealed FROM mail_jobs WHERE id = $1").arg(id);
    let (attempts, created_at, job) = conn.one(&sql, |row| {
        let plain = app.keys.open(&context(build, row.text(2)?), row.text(3)?);
        let job = plain.and_then(|plain| serde_json::from_slice(&plain).ok());
        Ok((row.int(0)?, row.int(1)?, job))
    })?;
    let settings = server::stored(app, build, conn)?;
    let failure_email = settings.as_ref().map(|settings| settings.failure_email.clone());
    let transport = match settings {
        None => Transport::File,
        Some(settings) => settings.server.map_or(Transport::Blocked, |server| Transport::Smtp(Box::new(server))),
    };
    let message = make(app, build, conn, id, job.as_ref(), failure_email, now)?;
    Ok(Some(Claimed { id, until, attempts, created_at, job, message, transport }))
}

fn make(
    app: &App,
    build: &Build,
    conn: &mut Conn,
    id: i64,
    stored: Option<&Json>,
    failure_email: Option<String>,
    now: i64,
) -> Result<Option<Message>, Error> {
    let Some((name, payload)) = stored.and_then(|stored| stored.as_object()?.iter().next()) else { return Ok(None) };
    if name == GIVEN_UP {
        let part = |at: usize| payload[at].as_str().unwrap_or("");
        let fields = company_details::merge_fields(conn)?.with("domain", &build.domain);
        let fields = fields.with("subject", part(0)).with("receiver", part(1)).with("reason", part(2));
        return Ok(failure_email.map(|to| templates::given_up(to, &fields)));
    }
    match app.slot::<MailKinds>().0.iter().find(|kind| kind.name == name) {
        Some(kind) => (kind.make)(&Making { app, build, job: id, now }, conn, payload),
        None => Ok(None),
    }
}

async fn send(app: &App, build: &Build, claimed: &Claimed) -> Result<(), SendFailure> {
    let later = |reason: String| SendFailure { reason, is_final: false };
    if claimed.job.is_none() {
        // Another process may have another key.
        return Err(later("the message could not be unsealed".to_owned()));
    }
    let Some(message) = &claimed.message else { return Ok(()) };
    // The same at each attempt, so that whoever gets it twice can see that.
    let name = format!("{}-{}", claimed.created_at, claimed.id);
    let id = format!("<{name}@{}>", build.domain);
    let compose = |from: &str| -> Result<Composed, SendFailure> {
        // No later attempt makes another receiver of it.
        let never = |error: message::MailError| SendFailure { reason: error.to_string(), is_final: true };
        message::compose(from, message, app.clock.now(), &id).map_err(never)
    };
    match &claimed.transport {
        Transport::Blocked => Err(later("the secret of the mail settings cannot be read".to_owned())),
        Transport::Smtp(server) => {
            let (composed, deadline) = (compose(&server.from)?, Instant::now() + PATIENCE);
            let allow = &app.settings.outbound_allow;
            let sent = smtp::send(server, &build.domain, &composed, Receivers::Any, allow, deadline).await;
            sent.map_err(|failure| SendFailure { reason: failure.to_string(), is_final: failure.is_final })
        }
        Transport::File => {
            let domain = if build.domain.contains('.') { &build.domain } else { "localhost.localdomain" };
            let composed = compose(&format!("Chancery <no-reply@{domain}>"))?;
            let (directory, domain) = (app.settings.data.clone(), build.domain.clone());
            let write = move || message::write_eml(&directory, &domain, &composed.bytes, &name);
            match tokio::task::spawn_blocking(write).await {
                Ok(written) => written.map(drop).map_err(|error| later(error.to_string())),
                Err(error) => Err(later(error.to_string())),
            }
        }
    }
}

impl Claimed {
    /// Whether it is the word that another message was given up.
    fn is_about_another(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.get(GIVEN_UP).is_some())
    }

    fn is_given_up(&self, sent: &Result<(), SendFailure>, now: i64) -> bool {
        let is_final = sent.as_ref().is_err_and(|failure| failure.is_final);
        is_final || sent.is_err() && now - self.created_at >= GIVEN_UP_AFTER
    }
}

/// The line of the log: which message, not whose.
fn log_outcome(build: &Build, claimed: &Claimed, sent: &Result<(), SendFailure>, now: i64) {
    let (build, message, attempts) = (&build.domain, claimed.id, claimed.attempts + 1);
    match sent {
        Ok(()) => tracing::debug!(build, message, attempts, "a message was sent"),
        Err(SendFailure { reason, .. }) if claimed.is_given_up(sent, now) => {
            tracing::error!(reason, build, message, attempts, "a message was given up");
        }
        Err(SendFailure { reason, .. }) => tracing::warn!(reason, build, message, attempts, "a message was not sent"),
    }
}

/// Removes what was sent; what failed waits twice as long as before, from 10 seconds to an hour, until it is given up.
fn finish_delivery(
    app: &App,
    build: &Build,
    conn: &mut Conn,
    claimed: &Claimed,
    sent: &Result<(), SendFailure>,
    now: i64,
) -> Result<(), Error> {
    let remove = Sql::new("DELETE FROM mail_jobs WHERE id = $1 AND claimed_until = $2");
    let remove = remove.arg(claimed.id).arg(claimed.until);
    match sent {
        Ok(()) => conn.exec(&remove).map(drop),
        Err(failure) if claimed.is_given_up(sent, now) => {
            if conn.exec(&remove)? == 1
                && let Some(message) = &claimed.message
                && !claimed.is_about_another()
            {
                let told = json!({GIVEN_UP: [message.subject, message.to, failure.reason]});
                insert(app, build, conn, &told, None, now)?;
            }
            Ok(())
        }
        Err(failure) => {
            let wait = (10_000_000_i64 << claimed.attempts.clamp(0, 10)).min(3_600_000_000);
            let sql = Sql::new(
                "UPDATE mail_jobs SET attempts = attempts + 1, next_at = $1, last_error = $2, claimed_until = NULL \
                 WHERE id = $3 AND claimed_until = $4",
            );
            conn.exec(&sql.arg(now + wait).arg(&failure.reason).arg(claimed.id).arg(claimed.until)).map(drop)
        }
    }
}
