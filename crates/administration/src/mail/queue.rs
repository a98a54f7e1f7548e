//! Messages wait in the build's database until they are sent, so that no request waits for mail, time tells nothing
//! about whom it is for, and no mail is lost in a crash (document 4, section 3, "a message that a request causes").
//! What waits is sealed, and the link in it is made when it is sent.
//!
//! Each message is a job ([`kit::jobs`]): one of a build is sent at a time. It goes by the build's mail server, or into a
//! file while the build has no mail settings. What cannot be sent is tried again after growing delays, for three days; then
//! it is given up, and the `failure_email` addresses of the settings are told. A process that dies after the mail server
//! took a message and before it was removed sends it twice; that is the price of losing none.

use crate::company_details;
use crate::mail::message::{self, Composed, Message};
use crate::mail::smtp::{self, Receivers, Server};
use crate::mail::templates;
use crate::smtp_settings::server;
use kit::app::App;
use kit::build::Build;
use kit::jobs::{self, Former, Job, JobFailure, JobKind, NewJob, Pending, StandingJob};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::secret::Context;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store::{Conn, Error, Sql};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// How long the mail server has for one message.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many messages wait in a build that there is one of for a name: anybody may ask for them. What is beyond is not sent.
const MAX_NAMED: i64 = 10_000;
/// How many tests of its mail settings a build may run at a time.
const TESTS_AT_A_TIME: usize = 4;

/// A message to be sent.
pub static MAIL: JobKind = JobKind {
    name: "mail",
    at_a_time: 256,
    patience: Duration::from_secs(120),
    given_up_after: GIVEN_UP_AFTER,
    runs_again: false,
    run,
    given_up: tell_of_given_up,
};

/// How long a message is tried.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(3 * 86_400);

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

/// Puts a message into the queue, in the transaction of what causes it; its number. `None`: so many wait that there is one
/// of for a name that it is dropped.
pub fn put(request: &Request, conn: &mut Conn, mail: &Mail) -> Result<Option<i64>, Refusal> {
    // What was typed as a name is not to be read in the key.
    let place = Context { build: &request.build.uid, table: "mail_jobs", column: "name_key", row: "" };
    let key = mail.once_for.map(|name| request.app.keys.name(&place, name.as_bytes()));
    if key.is_some() && jobs::keyed(conn, &MAIL, MAX_NAMED)? >= MAX_NAMED {
        let (build, kind) = (&request.build.domain, mail.kind.name);
        tracing::warn!(build, kind, "a message was dropped, since too many wait");
        return Ok(None);
    }
    let payload = json!({mail.kind.name: mail.payload});
    let job = NewJob { kind: &MAIL, payload, key: key.as_deref(), not_before: request.now };
    Ok(Some(jobs::put(request, conn, &job)?))
}

/// Tries everything that waits at once, in the transaction of what gives it another chance.
pub fn hurry(request: &Request, conn: &mut Conn) -> Result<(), Error> {
    jobs::hurry(request, conn, &MAIL)
}

/// The places of those that test the settings of a build: hanging servers of one build are no burden to another.
#[derive(Default)]
pub struct TestPlaces(Mutex<HashMap<String, Arc<Semaphore>>>);

impl TestPlaces {
    /// Those of a build.
    pub fn of(&self, build: &Build) -> Arc<Semaphore> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        places.entry(build.uid.clone()).or_insert_with(|| Arc::new(Semaphore::new(TESTS_AT_A_TIME))).clone()
    }
}

/// How a message is sent.
#[derive(Clone)]
enum Transport {
    File,
    Smtp(Box<Server>),
    /// There are settings, but their secret cannot be read.
    Blocked,
}

/// Makes a message and sends it.
fn run(app: App, build: Arc<Build>, job: Job) -> Pending<Result<(), JobFailure>> {
    Box::pin(async move {
        let (with, of, from) = (app.clone(), build.clone(), job.clone());
        let made = build.db.write(move |conn| make(&with, &of, conn, &from)).await;
        let (message, transport) = made.map_err(|error: Error| JobFailure::new(error.to_string()))?;
        // `None`: there is nobody to send it to any more.
        let Some(message) = message else { return Ok(()) };
        let sent = send(&app, &build, &job, &message, &transport).await;
        sent.map_err(|failure| JobFailure { details: json!([message.subject, message.to]), ..failure })
    })
}

fn make(app: &App, build: &Build, conn: &mut Conn, job: &Job) -> Result<(Option<Message>, Transport), Error> {
    let settings = server::stored(app, build, conn)?;
    let failure_email = settings.as_ref().map(|settings| settings.failure_email.clone());
    let transport = match settings {
        None => Transport::File,
        Some(settings) => settings.server.map_or(Transport::Blocked, |server| Transport::Smtp(Box::new(server))),
    };
    let Some((name, payload)) = named_payload(job) else { return Ok((None, transport)) };
    let message = if name == GIVEN_UP {
        let part = |at: usize| payload[at].as_str().unwrap_or("");
        let fields = company_details::merge_fields(conn)?.with("domain", &build.domain);
        let fields = fields.with("subject", part(0)).with("receiver", part(1)).with("reason", part(2));
        failure_email.map(|to| templates::given_up(to, &fields))
    } else {
        match app.slot::<MailKinds>().0.iter().find(|kind| kind.name == name) {
            Some(kind) => (kind.make)(&Making { app, build, job: job.id, now: app.clock.now() }, conn, payload)?,
            None => None,
        }
    };
    Ok((message, transport))
}

/// The name of the kind of a message, and what it is made from.
fn named_payload(job: &Job) -> Option<(&str, &Json)> {
    job.payload.as_object()?.iter().next().map(|(name, payload)| (name.as_str(), payload))
}

/// Tells the `failure_email` addresses of a message that was given up, unless it was such a word itself.
fn tell_of_given_up(app: &App, build: &Build, conn: &mut Conn, job: &Job, failure: &JobFailure) -> Result<(), Error> {
    let (Some(subject), Some(to)) = (failure.details[0].as_str(), failure.details[1].as_str()) else { return Ok(()) };
    if named_payload(job).is_none_or(|(name, _)| name == GIVEN_UP) {
        return Ok(());
    }
    let (payload, now) = (json!({GIVEN_UP: [subject, to, failure.reason]}), app.clock.now());
    jobs::insert(app, build, conn, &NewJob { kind: &MAIL, payload, key: None, not_before: now }, now).map(drop)
}

async fn send(app: &App, build: &Build, job: &Job, message: &Message, transport: &Transport) -> Result<(), JobFailure> {
    // The same at each attempt, so that whoever gets it twice can see that.
    let name = format!("{}-{}", job.created_at, job.id);
    let id = format!("<{name}@{}>", build.domain);
    let compose = |from: &str| -> Result<Composed, JobFailure> {
        // No later attempt makes another receiver of it.
        let never = |error: message::MailError| JobFailure { is_final: true, ..JobFailure::new(error.to_string()) };
        message::compose(from, message, app.clock.now(), &id).map_err(never)
    };
    match transport {
        Transport::Blocked => Err(JobFailure::new("the secret of the mail settings cannot be read")),
        Transport::Smtp(server) => {
            let (composed, deadline) = (compose(&server.from)?, Instant::now() + PATIENCE);
            let allow = &app.settings.outbound_allow;
            let sent = smtp::send(server, &build.domain, &composed, Receivers::Any, allow, deadline).await;
            sent.map_err(|failure| JobFailure { is_final: failure.is_final, ..JobFailure::new(failure.to_string()) })
        }
        Transport::File => {
            let domain = if build.domain.contains('.') { &build.domain } else { "localhost.localdomain" };
            let composed = compose(&format!("Chancery <no-reply@{domain}>"))?;
            let (directory, domain) = (app.settings.data.clone(), build.domain.clone());
            let write = move || message::write_eml(&directory, &domain, &composed.bytes, &name);
            match tokio::task::spawn_blocking(write).await {
                Ok(written) => written.map(drop).map_err(|error| JobFailure::new(error.to_string())),
                Err(error) => Err(JobFailure::new(error.to_string())),
            }
        }
    }
}

// ---- What former versions left waiting -----------------------------------------------------------------------------

/// Messages in the table of former versions, of which a process may still write some for a moment, become jobs.
pub static FORMER_MAILS: StandingJob = StandingJob { name: "mails of former versions", at_a_time: 16, due, run: adopt };

/// How many become jobs in one transaction.
const ADOPTED_AT_ONCE: i64 = 100;
/// How long a message that cannot be unsealed is left alone, in microseconds.
const LEFT_ALONE: i64 = 600_000_000;

fn due(_: &App, _: &Build, conn: &mut Conn, _: i64) -> Result<Option<i64>, Error> {
    conn.one(&Sql::new("SELECT min(COALESCE(claimed_until, 0)) FROM mail_jobs"), |row| row.opt_int(0))
}

fn adopt(app: App, build: Arc<Build>) -> Pending<Result<(), Error>> {
    Box::pin(async move {
        let _place = jobs::place(&app, FORMER_MAILS.name).await;
        let (with, of) = (app.clone(), build.clone());
        build.db.write(move |conn| adopt_some(&with, &of, conn, with.clock.now())).await
    })
}

/// Makes jobs of messages that nobody is sending. They keep their numbers, by which their links are known.
fn adopt_some(app: &App, build: &Build, conn: &mut Conn, now: i64) -> Result<(), Error> {
    let sql = Sql::new(
        "SELECT id, row_key, sealed, name_key, created_at, next_at, attempts, last_error FROM mail_jobs \
         WHERE claimed_until IS NULL OR claimed_until <= $1 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED",
    );
    let waiting = conn.all(&sql.arg(now).arg(ADOPTED_AT_ONCE), |row| {
        let place = Context { build: &build.uid, table: "mail_jobs", column: "sealed", row: row.text(1)? };
        let payload = app.keys.open(&place, row.text(2)?).and_then(|plain| serde_json::from_slice(&plain).ok());
        let (key, last_error) = (row.opt_text(3)?.map(str::to_owned), row.opt_text(7)?.map(str::to_owned));
        let (created_at, next_at) = (row.int(4)?, row.int(5)?);
        Ok((payload, key, Former { id: row.int(0)?, created_at, next_at, attempts: row.int(6)?, last_error }))
    })?;
    for (payload, key, former) in waiting {
        let is_over = now - former.created_at >= GIVEN_UP_AFTER.as_micros() as i64;
        match payload {
            Some(payload) => {
                let job = NewJob { kind: &MAIL, payload, key: key.as_deref(), not_before: former.next_at };
                jobs::insert_former(app, build, conn, &job, &former)?;
            }
            None if is_over => {
                tracing::error!(
                    build = build.domain,
                    message = former.id,
                    "a message that cannot be unsealed was given up"
                );
            }
            None => {
                // Another process may have another key.
                let sql = Sql::new(
                    "UPDATE mail_jobs SET claimed_until = $1, attempts = attempts + 1, \
                     last_error = 'the message could not be unsealed' WHERE id = $2",
                );
                conn.exec(&sql.arg(now + LEFT_ALONE).arg(former.id))?;
                continue;
            }
        }
        conn.exec(&Sql::new("DELETE FROM mail_jobs WHERE id = $1").arg(former.id))?;
    }
    Ok(())
}
