//! Background work: what is done after the answer to a request, or at a later moment.
//!
//! A [`JobKind`]'s jobs are rows of the table `jobs` of a build, written in the transaction of their cause ([`put`]). Any
//! process may take one; it holds a lease on it, which it renews while the job runs. A job that fails is tried again after
//! growing pauses, until it is given up. A process that dies leaves its lease to run out, and the job is taken again: so a
//! job is done at least once. A [`StandingJob`] has no rows; it finds out by itself when there is something to do.
//!
//! Each build has one task, which sleeps until it is woken by a commit or something is due, and then runs each kind that
//! has something to do beside the others: of a kind one job of a build at a time in a process, and of all builds so many
//! as the kind says, in turns of builds. A process that does not serve (a command) runs nothing: it may end at any time.

mod rows;
mod work;

use crate::app::App;
use crate::build::Build;
use crate::request::Request;
pub use rows::{Former, PAYLOAD, State, insert, insert_former, keyed, state};
use serde_json::Value as Json;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use store::{Conn, Error, Sql};
pub use work::{Jobs, Place, builds, health, is_on, place, start, stop, wake};

/// What work becomes.
pub type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Does a job.
pub type Run = fn(App, Arc<Build>, Job) -> Pending<Result<(), JobFailure>>;
/// Follows a job that is given up.
pub type GivenUp = fn(&App, &Build, &mut Conn, &Job, &JobFailure) -> Result<(), Error>;
/// Tells when there is something to do.
pub type Due = fn(&App, &Build, &mut Conn, i64) -> Result<Option<i64>, Error>;

/// A kind of jobs.
pub struct JobKind {
    /// The name under which its jobs are stored; it stays.
    pub name: &'static str,
    /// How many run at a time in a process, over all builds.
    pub at_a_time: usize,
    /// How long one may run; then that try has failed.
    pub patience: Duration,
    /// How long after its cause a job that fails is tried.
    pub given_up_after: Duration,
    /// Whether a job whose cause comes again while it runs is done once more, for a job that has read its input by then.
    pub runs_again: bool,
    /// Does it. The future is dropped when the job is canceled or its time is over.
    pub run: Run,
    /// What is done in the transaction that gives a job up.
    pub given_up: GivenUp,
}

/// Work that each build always has.
pub struct StandingJob {
    /// What it is called in the log.
    pub name: &'static str,
    /// How many builds may have a [`place`] for it at a time in a process.
    pub at_a_time: usize,
    /// From which moment on there is something to do; `None`: nothing, until the build is woken. It may be asked at any
    /// time, also while the work runs.
    pub due: Due,
    /// Does what there is to do, and rests by itself after a failure. After an error of the store it is run again later.
    pub run: fn(App, Arc<Build>) -> Pending<Result<(), Error>>,
}

/// A job to be put.
pub struct NewJob<'a> {
    pub kind: &'static JobKind,
    /// What it is run with. It is stored sealed.
    pub payload: Json,
    /// Of jobs of a kind with the same key there is one at most; whoever can read the database can read the key.
    pub key: Option<&'a str>,
    /// The moment before which it sleeps.
    pub not_before: i64,
}

/// A job that this process holds.
#[derive(Clone)]
pub struct Job {
    /// Its number, the same at each try.
    pub id: i64,
    pub payload: Json,
    /// When it was put, microseconds since 1970.
    pub created_at: i64,
    /// How often it has failed.
    pub attempts: i64,
    app: App,
    build: Arc<Build>,
}

impl Job {
    /// Stores how much of it is done.
    ///
    /// # Errors
    /// When it is not to go on: it was canceled, or another process has it.
    pub async fn progress(&self, done: i64, total: i64) -> Result<(), JobFailure> {
        let (id, lease) = (self.id, work::lease(&self.app));
        let write = move |conn: &mut Conn| rows::renew(conn, id, &lease, Some((done, total)));
        match self.build.db.write(write).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(JobFailure::new("it was canceled, or taken over")),
            Err(error) => Err(JobFailure::new(error.to_string())),
        }
    }
}

/// Why a job was not done.
#[derive(Debug)]
pub struct JobFailure {
    /// For the log and the database: nothing that is nobody else's matter.
    pub reason: String,
    /// Whether no later try can do better.
    pub is_final: bool,
    /// What [`JobKind::given_up`] is to know.
    pub details: Json,
}

impl JobFailure {
    /// A failure after which the job is tried again.
    pub fn new(reason: impl Into<String>) -> JobFailure {
        JobFailure { reason: reason.into(), is_final: false, details: Json::Null }
    }
}

/// What the kit is told beside the list of domains, in tests.
#[derive(Clone)]
pub struct Settings {
    /// More kinds.
    pub kinds: &'static [&'static JobKind],
    /// How long a process that runs a job may be silent before another one takes it.
    pub lease: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { kinds: &[], lease: Duration::from_secs(60) }
    }
}

/// Puts a job, in the transaction of its cause; its number. Where one with its key waits, that one is it: it keeps its
/// payload, and waits no longer than the new one would, after a failure a minute at most.
pub fn put(request: &Request, conn: &mut Conn, job: &NewJob) -> Result<i64, Error> {
    request.effects.after_commit(wake);
    insert(&request.app, &request.build, conn, job, request.now)
}

/// Cancels a job, in the transaction of what makes it needless: one that runs is ended where it stands.
pub fn cancel(request: &Request, conn: &mut Conn, id: i64) -> Result<(), Error> {
    request.effects.after_commit(wake);
    rows::cancel(conn, id)
}

/// Tries what has failed at once, in the transaction of what gives it another chance.
pub fn hurry(request: &Request, conn: &mut Conn, kind: &JobKind) -> Result<(), Error> {
    request.effects.after_commit(wake);
    let sql = Sql::new("UPDATE jobs SET next_at = $1 WHERE kind = $2 AND next_at > $1 AND attempts > 0");
    conn.exec(&sql.arg(request.now).arg(kind.name)).map(drop)
}

/// A pause that is twice as long after each failure in a row.
pub fn growing(first: Duration, longest: Duration, failures: u32) -> Duration {
    first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(longest)
}
