//! Messages wait in the build's database until they are sent, so that no request waits for mail, time tells nothing
//! about whom it is for, and no mail is lost in a crash (document 4, section 3, "a message that a request causes").
//! What waits is sealed, and the link in it is made when it is sent.
//!
//! A message goes by the build's mail server, or into a file while the build has no mail settings. What cannot be sent
//! is tried again after growing delays, for three days; then it is given up, and the `failure_email` addresses of the
//! settings are told. Several processes share a queue: whoever sends a message claims it first. A process that dies
//! after the mail server took a message and before it was removed sends it twice; that is the price of losing none.

use crate::app::{App, Build};
use crate::clock::random_token;
use crate::company_details;
use crate::http::{Refusal, Request};
use crate::links::{self, Kind};
use crate::mail::{self, Composed, Message};
use crate::messages;
use crate::secret::Context;
use crate::smtp::{self, Receivers, Server};
use crate::smtp_settings;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store::{Conn, Error, Sql};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::Instant;

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
/// How many resets wait in a build, whoever they name: anybody may ask for them. What is beyond is not sent.
const MOST_RESETS: i64 = 10_000;
/// How long a reset that could not be sent waits at most when it is asked for once more, in microseconds.
const HURRY: i64 = 60_000_000;
/// How many tests of its mail settings a build may run at a time.
const TESTS_AT_A_TIME: usize = 4;

/// A message to be made and sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Job {
    /// The link that activates an account.
    Activation {
        /// Whose.
        user: i64,
    },
    /// The link that resets a password, if there is such a user who may have one.
    Reset {
        /// As typed by whoever asked.
        username: String,
    },
    /// The word to a former address that its account has another username.
    Renamed {
        /// The former address.
        address: String,
        /// The first name of the user.
        first_name: String,
    },
    /// The word that another message was given up.
    GivenUp {
        /// Its subject.
        subject: String,
        /// Its receiver.
        receiver: String,
        /// Why.
        reason: String,
    },
}

impl Job {
    fn to_json(&self) -> Json {
        match self {
            Job::Activation { user } => json!({"activation": user}),
            Job::Reset { username } => json!({"reset": username}),
            Job::Renamed { address, first_name } => json!({"renamed": [address, first_name]}),
            Job::GivenUp { subject, receiver, reason } => json!({"given_up": [subject, receiver, reason]}),
        }
    }
    fn from_json(job: &Json) -> Option<Job> {
        if let Some(user) = job.get("activation").and_then(Json::as_i64) {
            return Some(Job::Activation { user });
        }
        if let Some(parts) = job.get("given_up").and_then(Json::as_array) {
            let part = |at: usize| parts.get(at).and_then(Json::as_str).map(str::to_owned);
            return Some(Job::GivenUp { subject: part(0)?, receiver: part(1)?, reason: part(2)? });
        }
        if let Some(parts) = job.get("renamed").and_then(Json::as_array) {
            let part = |at: usize| parts.get(at).and_then(Json::as_str).map(str::to_owned);
            return Some(Job::Renamed { address: part(0)?, first_name: part(1)? });
        }
        let username = job.get("reset")?.as_str()?.to_owned();
        Some(Job::Reset { username })
    }
}

impl Job {
    /// What there is one waiting message of at most: a reset for a name, so that asking again adds nothing. What was
    /// typed as the name is not to be read in it.
    fn name_key(&self, app: &App, build: &Build) -> Option<String> {
        let Job::Reset { username } = self else { return None };
        let place = Context { build: &build.uid, table: "mail_jobs", column: "name_key", row: "" };
        Some(app.keys.name(&place, resource::fold(username.trim()).as_bytes()))
    }
}

fn context<'a>(build: &'a Build, row: &'a str) -> Context<'a> {
    Context { build: &build.uid, table: "mail_jobs", column: "sealed", row }
}

/// Puts a message into the queue, in the transaction of what causes it; its number. `None`: so many resets wait that it
/// is dropped, be there such an account or not.
pub fn put(request: &Request, conn: &mut Conn, job: &Job) -> Result<Option<i64>, Refusal> {
    let number = insert(&request.app, &request.build, conn, job, request.now)?;
    if number.is_none() {
        tracing::warn!(build = request.build.domain, "a reset was dropped, since too many wait");
    }
    request.effects.mail_queued();
    Ok(number)
}

fn insert(app: &App, build: &Build, conn: &mut Conn, job: &Job, now: i64) -> Result<Option<i64>, Error> {
    let name_key = job.name_key(app, build);
    if name_key.is_some() && waiting_resets(conn)? >= MOST_RESETS {
        return Ok(None);
    }
    let row = random_token();
    let sealed = app.keys.seal(&context(build, &row), job.to_json().to_string().as_bytes());
    let sql = Sql::new(
        "INSERT INTO mail_jobs(row_key, sealed, created_at, next_at, name_key) VALUES ($1, $2, $3, $3, $4) \
         ON CONFLICT (name_key) WHERE name_key IS NOT NULL DO UPDATE SET \
         next_at = CASE WHEN mail_jobs.next_at > $5 THEN $5 ELSE mail_jobs.next_at END RETURNING id",
    );
    conn.one(&sql.arg(row).arg(sealed).arg(now).arg(name_key).arg(now + HURRY), |row| row.int(0)).map(Some)
}

/// How many resets wait, as far as the bound cares.
fn waiting_resets(conn: &mut Conn) -> Result<i64, Error> {
    let sql =
        Sql::new("SELECT count(*) FROM (SELECT 1 AS one FROM mail_jobs WHERE name_key IS NOT NULL LIMIT $1) waiting");
    conn.one(&sql.arg(MOST_RESETS), |row| row.int(0))
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
        app.mail.is_on.store(true, Ordering::Relaxed);
        let app = app.clone();
        tokio::spawn(async move {
            match crate::builds::active(&app).await {
                Ok(builds) => builds.iter().for_each(|build| app.mail.wake(&app, build)),
                Err(error) => tracing::error!(error, "the mail queues were not looked at"),
            }
        });
    }

    /// Something may wait in the build's queue.
    pub fn wake(&self, app: &App, build: &Arc<Build>) {
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
    job: Option<Job>,
    /// `None`: there is nobody to send it to any more.
    message: Option<Message>,
    way: Way,
}

/// How it leaves the house.
#[derive(Clone)]
enum Way {
    File,
    Smtp(Box<Server>),
    /// There are settings, but their secret cannot be read.
    Blocked,
}

/// Why it did not.
struct Unsent {
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
        let place = app.mail.place().await;
        let (claimer, of) = (app.clone(), build.clone());
        let Some(claimed) = build.db.write(move |conn| claim(&claimer, &of, conn, now)).await? else { break };
        let sent = send(app, build, &claimed).await;
        drop(place);
        tell(build, &claimed, &sent, now);
        let (settler, of) = (app.clone(), build.clone());
        build.db.write(move |conn| settle(&settler, &of, conn, &claimed, &sent, now)).await?;
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
        let job = plain.and_then(|plain| serde_json::from_slice(&plain).ok()).and_then(|json| Job::from_json(&json));
        Ok((row.int(0)?, row.int(1)?, job))
    })?;
    let settings = smtp_settings::stored(app, build, conn)?;
    let failure_email = settings.as_ref().map(|settings| settings.failure_email.clone());
    let way = match settings {
        None => Way::File,
        Some(settings) => settings.server.map_or(Way::Blocked, |server| Way::Smtp(Box::new(server))),
    };
    let message = make(app, build, conn, id, job.as_ref(), failure_email, now)?;
    Ok(Some(Claimed { id, until, attempts, created_at, job, message, way }))
}

fn make(
    app: &App,
    build: &Build,
    conn: &mut Conn,
    id: i64,
    job: Option<&Job>,
    failure_email: Option<String>,
    now: i64,
) -> Result<Option<Message>, Error> {
    match job {
        Some(Job::Activation { user }) => links::make(app, build, conn, id, *user, Kind::Activation, now),
        Some(Job::Reset { username }) => {
            let sql = Sql::new(
                "SELECT id FROM users WHERE username_fold = $1 AND is_deleted = 0 \
                 AND account_type IN ('internal', 'external', 'full', 'super_admin')",
            );
            match conn.opt(&sql.arg(resource::fold(username.trim())), |row| row.int(0))? {
                Some(user) => links::make(app, build, conn, id, user, Kind::Reset, now),
                None => Ok(None),
            }
        }
        Some(Job::Renamed { address, first_name }) => {
            let fields = company_details::merge_fields(conn)?.with("domain", &build.domain);
            Ok(Some(messages::renamed(address.clone(), &fields.with("first_name", first_name))))
        }
        Some(Job::GivenUp { subject, receiver, reason }) => {
            let fields = company_details::merge_fields(conn)?.with("domain", &build.domain);
            let fields = fields.with("subject", subject).with("receiver", receiver).with("reason", reason);
            Ok(failure_email.map(|to| messages::given_up(to, &fields)))
        }
        None => Ok(None),
    }
}

async fn send(app: &App, build: &Build, claimed: &Claimed) -> Result<(), Unsent> {
    let later = |reason: String| Unsent { reason, is_final: false };
    if claimed.job.is_none() {
        // Another process may have another key.
        return Err(later("the message could not be unsealed".to_owned()));
    }
    let Some(message) = &claimed.message else { return Ok(()) };
    // The same at each attempt, so that whoever gets it twice can see that.
    let name = format!("{}-{}", claimed.created_at, claimed.id);
    let id = format!("<{name}@{}>", build.domain);
    let compose = |from: &str| -> Result<Composed, Unsent> {
        // No later attempt makes another receiver of it.
        let never = |error: mail::MailError| Unsent { reason: error.to_string(), is_final: true };
        mail::compose(from, message, app.clock.now(), &id).map_err(never)
    };
    match &claimed.way {
        Way::Blocked => Err(later("the secret of the mail settings cannot be read".to_owned())),
        Way::Smtp(server) => {
            let (composed, deadline) = (compose(&server.from)?, Instant::now() + PATIENCE);
            let allow = &app.config.outbound_allow;
            let sent = smtp::send(server, &build.domain, &composed, Receivers::Any, allow, deadline).await;
            sent.map_err(|failure| Unsent { reason: failure.to_string(), is_final: failure.is_final })
        }
        Way::File => {
            let domain = if build.domain.contains('.') { &build.domain } else { "localhost.localdomain" };
            let composed = compose(&format!("Chancery <no-reply@{domain}>"))?;
            let (directory, domain) = (app.config.data.clone(), build.domain.clone());
            let write = move || mail::write_eml(&directory, &domain, &composed.bytes, &name);
            match tokio::task::spawn_blocking(write).await {
                Ok(written) => written.map(drop).map_err(|error| later(error.to_string())),
                Err(error) => Err(later(error.to_string())),
            }
        }
    }
}

impl Claimed {
    fn is_given_up(&self, sent: &Result<(), Unsent>, now: i64) -> bool {
        let is_final = sent.as_ref().is_err_and(|unsent| unsent.is_final);
        is_final || sent.is_err() && now - self.created_at >= GIVEN_UP_AFTER
    }
}

/// The line of the log: which message, not whose.
fn tell(build: &Build, claimed: &Claimed, sent: &Result<(), Unsent>, now: i64) {
    let (build, message, attempts) = (&build.domain, claimed.id, claimed.attempts + 1);
    match sent {
        Ok(()) => tracing::debug!(build, message, attempts, "a message was sent"),
        Err(Unsent { reason, .. }) if claimed.is_given_up(sent, now) => {
            tracing::error!(reason, build, message, attempts, "a message was given up");
        }
        Err(Unsent { reason, .. }) => tracing::warn!(reason, build, message, attempts, "a message was not sent"),
    }
}

/// Removes what was sent; what failed waits twice as long as before, from 10 seconds to an hour, until it is given up.
fn settle(
    app: &App,
    build: &Build,
    conn: &mut Conn,
    claimed: &Claimed,
    sent: &Result<(), Unsent>,
    now: i64,
) -> Result<(), Error> {
    let remove = Sql::new("DELETE FROM mail_jobs WHERE id = $1 AND claimed_until = $2");
    let remove = remove.arg(claimed.id).arg(claimed.until);
    match sent {
        Ok(()) => conn.exec(&remove).map(drop),
        Err(unsent) if claimed.is_given_up(sent, now) => {
            if conn.exec(&remove)? == 1
                && let Some(message) = &claimed.message
                && !matches!(claimed.job, Some(Job::GivenUp { .. }))
            {
                let (subject, receiver) = (message.subject.clone(), message.to.clone());
                insert(app, build, conn, &Job::GivenUp { subject, receiver, reason: unsent.reason.clone() }, now)?;
            }
            Ok(())
        }
        Err(unsent) => {
            let wait = (10_000_000_i64 << claimed.attempts.clamp(0, 10)).min(3_600_000_000);
            let sql = Sql::new(
                "UPDATE mail_jobs SET attempts = attempts + 1, next_at = $1, last_error = $2, claimed_until = NULL \
                 WHERE id = $3 AND claimed_until = $4",
            );
            conn.exec(&sql.arg(now + wait).arg(&unsent.reason).arg(claimed.id).arg(claimed.until)).map(drop)
        }
    }
}
