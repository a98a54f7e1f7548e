//! The mail queue: messages wait in the build's database until they are sent. Requests therefore do not wait for mail, their
//! response times do not reveal whether a receiver exists, and a crash does not lose mail (`docs/reference/mail.md`). Waiting
//! messages are encrypted. The link in a message is created when the message is sent.
//!
//! Each message is a job ([`kit::jobs`]). A build sends one message at a time: through its mail server, or into a file while it is
//! without mail settings. A failed message is retried with back-off for three days. Then it is given up, and the `failure_email`
//! addresses of the settings are notified. Delivery is at least once. If a process dies after the mail server accepted a message
//! and before its row was removed, the message is sent again.

use crate::company_details;
use crate::mail::message::{self, ComposedMessage, MailMessage};
use crate::mail::smtp::{self, RequiredReceivers, SmtpServer};
use crate::mail::templates;
use crate::smtp_settings::server;
use kit::app::App;
use kit::build::Build;
use kit::ids::JobId;
use kit::jobs::{self, FormerJob, Job, JobFailure, JobFuture, JobKind, NewJob, StandingJob};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::secret::Context;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{Conn, Sql, StoreError};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// The maximum time for sending one message.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum number of waiting messages of a build with a key (`once_for`), since anybody may request them. Further ones are
/// dropped.
const MAX_KEYED: i64 = 10_000;
/// The maximum number of concurrent tests of mail settings of a build.
const MAX_CONCURRENT_TESTS: usize = 4;

/// The kind of job that sends a message.
pub static MAIL: JobKind = JobKind {
    name: "mail",
    at_a_time: 256,
    of_build: 1,
    patience: Duration::from_secs(120),
    longest_pause: jobs::LONGEST_PAUSE,
    given_up_after: GIVEN_UP_AFTER,
    runs_again: false,
    run,
    given_up: notify_given_up,
};

/// The time for which a failed message is retried.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(3 * 86_400);

/// A kind of message. A message is composed when it is sent, from the payload that was stored when it was requested.
pub struct MailKind {
    /// The name that is stored with waiting messages. It must never change.
    pub name: &'static str,
    pub make: ComposeFunction,
    /// Is called when a mail server has accepted a message, but not when the message was written to the disk.
    pub accepted: Option<AcceptedHook>,
}

/// Composes a message just before it is sent. Returns `None` when the message has no receiver any more.
pub type ComposeFunction = fn(&ComposeContext, &mut Conn, &Json) -> Result<Option<MailMessage>, StoreError>;

/// Stores that a mail server has accepted the message of a payload at a time in microseconds.
pub type AcceptedHook = fn(&mut Conn, &Json, i64) -> Result<(), StoreError>;

/// The context in which a message is composed.
pub struct ComposeContext<'a> {
    pub app: &'a App,
    pub build: &'a Build,
    /// The id of the job, the same in each attempt.
    pub job: JobId,
    /// The time at which the message was requested, in microseconds.
    pub asked_at: i64,
    pub now: i64,
}

/// The kinds of messages that the modules have registered.
#[derive(Default)]
pub struct MailKinds(pub Vec<&'static MailKind>);

/// A request to send a message.
pub struct QueuedMail<'a> {
    pub kind: &'static MailKind,
    /// The values from which the message is composed.
    pub payload: Json,
    /// The key of the message. At most one message with the same key waits at a time, and at most [`MAX_KEYED`] messages with any
    /// key.
    pub once_for: Option<&'a str>,
}

/// The kind of the notice that a message was given up. Its payload is the subject, the receiver and the reason. It is sent to the
/// `failure_email` addresses.
const GIVEN_UP: &str = "given_up";

/// Adds a message to the queue, in the transaction of its cause, and returns the id of its job. Returns `None` if the message was
/// dropped because too many messages with a key wait.
pub fn enqueue(request: &Request, conn: &mut Conn, mail: &QueuedMail) -> Result<Option<JobId>, Refusal> {
    put_at(request, conn, mail, request.now)
}

/// Adds a message like [`enqueue`]. The message is sent at `not_before` (microseconds since 1970) or later.
pub fn put_at(
    request: &Request,
    conn: &mut Conn,
    mail: &QueuedMail,
    not_before: i64,
) -> Result<Option<JobId>, Refusal> {
    // The key is hashed, so that the table does not show the text that a person entered as a username.
    let place = Context { build: &request.build.uid, table: "mail_jobs", column: "name_key", row: "" };
    let key = mail.once_for.map(|name| request.app.keys.name(&place, name.as_bytes()));
    if key.is_some() && jobs::count_with_key(conn, &MAIL, MAX_KEYED)? >= MAX_KEYED {
        let (build, kind) = (&request.build.domain, mail.kind.name);
        tracing::warn!(build, kind, "a message was dropped, since too many wait");
        return Ok(None);
    }
    let payload = json!({mail.kind.name: mail.payload});
    let job = NewJob { kind: &MAIL, payload, key: key.as_deref(), not_before };
    Ok(Some(jobs::enqueue(request, conn, &job)?))
}

/// Adds one message of a kind for each payload to the queue, in the transaction of their cause.
pub fn put_many(request: &Request, conn: &mut Conn, kind: &MailKind, payloads: Vec<Json>) -> Result<(), Refusal> {
    let payloads = payloads.into_iter().map(|payload| json!({kind.name: payload})).collect();
    Ok(jobs::put_many(request, conn, &MAIL, payloads)?)
}

/// Makes all waiting messages due now, in the transaction of a change that may let them succeed.
pub fn make_due_now(request: &Request, conn: &mut Conn) -> Result<(), StoreError> {
    jobs::make_due_now(request, conn, &MAIL)
}

/// Limits the concurrent tests of mail settings and authentication objects for each build, so that hanging servers of
/// one build do not delay another.
#[derive(Default)]
pub struct TestPlaces(Mutex<HashMap<String, Arc<Semaphore>>>);

impl TestPlaces {
    /// Returns the semaphore of a build.
    pub fn for_build(&self, build: &Build) -> Arc<Semaphore> {
        let mut places = web::lock(&self.0);
        places.entry(build.uid.clone()).or_insert_with(|| Arc::new(Semaphore::new(MAX_CONCURRENT_TESTS))).clone()
    }
}

/// The way in which a message is sent.
#[derive(Clone)]
enum Transport {
    File,
    Smtp(Box<SmtpServer>),
    /// The settings exist, but their secret cannot be decrypted.
    Blocked,
}

/// Composes a message and sends it.
fn run(app: App, build: Arc<Build>, job: Job) -> JobFuture<Result<(), JobFailure>> {
    Box::pin(async move {
        let (shared_app, shared_build, from) = (app.clone(), build.clone(), job.clone());
        let mail = build.db.write(move |conn| make(&shared_app, &shared_build, conn, &from)).await;
        let (message, transport) = mail.map_err(|error: StoreError| JobFailure::new(error.to_string()))?;
        // The message has no receiver any more.
        let Some(message) = message else { return Ok(()) };
        let outcome = send(&app, &build, &job, &message, &transport).await;
        outcome.map_err(|failure| JobFailure { details: json!([message.subject, message.to]), ..failure })?;
        if let Transport::Smtp(_) = transport {
            store_acceptance(&app, &build, &job).await;
        }
        Ok(())
    })
}

/// Calls the `accepted` hook of the message's kind. A failure does not repeat the job, which would send the message a second time.
async fn store_acceptance(app: &App, build: &Build, job: &Job) {
    let Some((name, payload)) = named_payload(job) else { return };
    let Some(accepted) = kind_of(app, name).and_then(|kind| kind.accepted) else { return };
    let (payload, now) = (payload.clone(), app.clock.now());
    if let Err(error) = build.db.write::<_, StoreError>(move |conn| accepted(conn, &payload, now)).await {
        tracing::warn!(build = build.domain, kind = name, %error, "a message was sent, and the time of it could not be stored");
    }
}

fn kind_of(app: &App, name: &str) -> Option<&'static MailKind> {
    app.slot::<MailKinds>().0.iter().copied().find(|kind| kind.name == name)
}

fn make(app: &App, build: &Build, conn: &mut Conn, job: &Job) -> Result<(Option<MailMessage>, Transport), StoreError> {
    let settings = server::load(app, build, conn)?;
    let failure_email = settings.as_ref().map(|settings| settings.failure_email.clone());
    let transport = match settings {
        None => Transport::File,
        Some(settings) => settings.server.map_or(Transport::Blocked, |server| Transport::Smtp(Box::new(server))),
    };
    let Some((name, payload)) = named_payload(job) else { return Ok((None, transport)) };
    let message = if name == GIVEN_UP {
        let part = |at: usize| payload[at].as_str().unwrap_or("");
        let fields = company_details::merge_fields(conn)?.with_field("domain", &build.domain);
        let fields =
            fields.with_field("subject", part(0)).with_field("receiver", part(1)).with_field("reason", part(2));
        failure_email.map(|to| templates::given_up(to, &fields))
    } else {
        let making = ComposeContext { app, build, job: job.id, asked_at: job.created_at, now: app.clock.now() };
        match kind_of(app, name) {
            Some(kind) => (kind.make)(&making, conn, payload)?,
            None => None,
        }
    };
    Ok((message, transport))
}

/// Returns the name of the message's kind, and its payload.
fn named_payload(job: &Job) -> Option<(&str, &Json)> {
    job.payload.as_object()?.iter().next().map(|(name, payload)| (name.as_str(), payload))
}

/// Notifies the `failure_email` addresses that a message was given up, unless the message was such a notice itself.
fn notify_given_up(
    app: &App,
    build: &Build,
    conn: &mut Conn,
    job: &Job,
    failure: &JobFailure,
) -> Result<(), StoreError> {
    let (Some(subject), Some(to)) = (failure.details[0].as_str(), failure.details[1].as_str()) else { return Ok(()) };
    if named_payload(job).is_none_or(|(name, _)| name == GIVEN_UP) {
        return Ok(());
    }
    let (payload, now) = (json!({GIVEN_UP: [subject, to, failure.reason]}), app.clock.now());
    jobs::insert(app, build, conn, &NewJob { kind: &MAIL, payload, key: None, not_before: now }, now).map(drop)
}

async fn send(
    app: &App,
    build: &Build,
    job: &Job,
    message: &MailMessage,
    transport: &Transport,
) -> Result<(), JobFailure> {
    // The id is the same in each attempt, so that a receiver can recognize a duplicate.
    let name = format!("{}-{}", job.created_at, job.id);
    let id = format!("<{name}@{}>", build.domain);
    let compose = |from: &str| -> Result<ComposedMessage, JobFailure> {
        // A later attempt would fail in the same way.
        let never = |error: message::MailError| JobFailure { is_final: true, ..JobFailure::new(error.to_string()) };
        message::compose(from, message, app.clock.now(), &id).map_err(never)
    };
    match transport {
        Transport::Blocked => Err(JobFailure::new("the secret of the mail settings cannot be read")),
        Transport::Smtp(server) => {
            let (composed, deadline) = (compose(&server.from)?, Instant::now() + SEND_TIMEOUT);
            let allow = &app.settings.outbound_allow;
            let outcome = smtp::send(server, &build.domain, &composed, RequiredReceivers::Any, allow, deadline).await;
            outcome.map_err(|failure| JobFailure { is_final: failure.is_final, ..JobFailure::new(failure.to_string()) })
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

// ---- Messages that former versions have queued ---------------------------------------------------------------------

/// Converts messages in the table of former versions to jobs. During a rolling upgrade, processes of the former version may still
/// add messages to it.
pub static FORMER_MAILS: StandingJob =
    StandingJob { name: "mails of former versions", at_a_time: 16, due: next_adoption_time, run: adopt };

/// The maximum number of messages that are converted in one transaction.
const MAX_ADOPTED_AT_ONCE: i64 = 100;
/// The delay before another attempt to decrypt a message, in microseconds.
const RETRY_DELAY_US: i64 = 600_000_000;

fn next_adoption_time(_: &App, _: &Build, conn: &mut Conn, _: i64) -> Result<Option<i64>, StoreError> {
    conn.query_one(&Sql::new("SELECT min(COALESCE(claimed_until, 0)) FROM mail_jobs"), |row| row.opt_int(0))
}

fn adopt(app: App, build: Arc<Build>) -> JobFuture<Result<(), StoreError>> {
    Box::pin(async move {
        let _place = jobs::acquire_permit(&app, FORMER_MAILS.name).await;
        let (shared_app, shared_build) = (app.clone(), build.clone());
        build.db.write(move |conn| adopt_some(&shared_app, &shared_build, conn, shared_app.clock.now())).await
    })
}

/// Converts messages that processes do not send at present to jobs. Their ids do not change, since they identify their links.
fn adopt_some(app: &App, build: &Build, conn: &mut Conn, now: i64) -> Result<(), StoreError> {
    let sql = Sql::new(
        "SELECT id, row_key, sealed, name_key, created_at, next_at, attempts, last_error FROM mail_jobs \
         WHERE claimed_until IS NULL OR claimed_until <= $1 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED",
    );
    let waiting = conn.query_all(&sql.arg(now).arg(MAX_ADOPTED_AT_ONCE), |row| {
        let place = Context { build: &build.uid, table: "mail_jobs", column: "sealed", row: row.text(1)? };
        let payload = app.keys.open(&place, row.text(2)?).and_then(|plain| serde_json::from_slice(&plain).ok());
        let (key, last_error) = (row.opt_text(3)?.map(str::to_owned), row.opt_text(7)?.map(str::to_owned));
        let (created_at, next_at) = (row.int(4)?, row.int(5)?);
        Ok((payload, key, FormerJob { id: row.id(0)?, created_at, next_at, attempts: row.int(6)?, last_error }))
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
                    message = former.id.get(),
                    "a message that cannot be unsealed was given up"
                );
            }
            None => {
                // Another process may have another key.
                let sql = Sql::new(
                    "UPDATE mail_jobs SET claimed_until = $1, attempts = attempts + 1, \
                     last_error = 'the message could not be unsealed' WHERE id = $2",
                );
                conn.exec(&sql.arg(now + RETRY_DELAY_US).arg(former.id))?;
                continue;
            }
        }
        conn.exec(&Sql::new("DELETE FROM mail_jobs WHERE id = $1").arg(former.id))?;
    }
    Ok(())
}
