//! Background work: jobs that run after the answer to a request, or at a later time.
//!
//! A job of a [`JobKind`] is a row in the table `jobs` of its build. [`enqueue`] writes it in the
//! transaction that causes it. Any process may lease the job, and renews the lease while the job runs. A failed
//! job is retried with growing pauses, until the kind's time limit. If a process dies, its leases expire and other
//! processes run its jobs: a job runs at least once. A [`StandingJob`] has no rows; it computes its own next time.
//!
//! Each process has one task for each build. The task sleeps until a commit wakes it or a job is due. It then
//! starts every kind that has due jobs; the kinds run concurrently. In one process a build runs few jobs of a
//! kind at a time, mostly one. Each kind bounds the number of its running jobs over all builds; builds queue for
//! these permits. A process that does not serve requests (a command) runs no jobs, since it may end at any time.

mod rows;
mod work;

use crate::app::App;
use crate::build::Build;
use crate::ids::JobId;
use crate::request::Request;
pub use rows::{FormerJob, JobState, PAYLOAD, count_with_key, insert, insert_former, state};
use serde_json::Value as Json;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use store::{Conn, Sql, StoreError};
pub(crate) use work::write_metrics;
pub use work::{
    JobPermit, Jobs, acquire_permit, builds, has_task, health, health_schema, is_on, start, start_task,
    start_task_and_wait, stop, wake, wake_for,
};

/// The longest pause before a retry of most jobs.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// The number of pages after which [`Job::run_in_pages`] stores the progress.
const PAGES_BETWEEN_PROGRESS: i64 = 100;

/// The boxed future of a job.
pub type JobFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The function that runs a job.
pub type JobFunction = fn(App, Arc<Build>, Job) -> JobFuture<Result<(), JobFailure>>;
/// The function that is called in the transaction that drops a job for good after its last failure.
pub type DropHook = fn(&App, &Build, &mut Conn, &Job, &JobFailure) -> Result<(), StoreError>;
/// The function that returns the time at which a standing job is due. Its last argument is the current
/// time. Both are in microseconds since 1970.
pub type DueFunction = fn(&App, &Build, &mut Conn, i64) -> Result<Option<i64>, StoreError>;

/// A kind of jobs: its function and the rules of its retries.
pub struct JobKind {
    /// The name under which its jobs are stored. It must never change.
    pub name: &'static str,
    /// The number of jobs of this kind that a process runs at a time, over all builds.
    pub at_a_time: usize,
    /// The number of these that may be of one build.
    pub of_build: usize,
    /// The timeout of one try.
    pub patience: Duration,
    /// The longest pause before a retry.
    pub longest_pause: Duration,
    /// The age after which a job that fails is not retried.
    pub given_up_after: Duration,
    /// Is true if a job that is put again while it runs runs once more afterwards. A kind needs it if the
    /// running job may have read its input already.
    pub runs_again: bool,
    /// Runs the job. Its future is dropped when the job is canceled or times out.
    pub run: JobFunction,
    /// Called in the transaction that drops a job for good after its last failure.
    pub given_up: DropHook,
}

impl JobKind {
    /// A kind that works through a table for hours, without its name and its function.
    pub const LONG: JobKind = JobKind {
        name: "",
        at_a_time: 2,
        of_build: 1,
        patience: Duration::from_secs(4 * 3600),
        longest_pause: LONGEST_PAUSE,
        given_up_after: Duration::from_secs(30 * 86_400),
        runs_again: false,
        run: |_, _, _| Box::pin(async { Ok(()) }),
        given_up: |_, _, _, _, _| Ok(()),
    };
}

/// Recurring work that every build has, without a row in `jobs`.
pub struct StandingJob {
    /// The name in log lines.
    pub name: &'static str,
    /// The number of builds in a process that may own a permit of [`acquire_permit`] for it at a time.
    pub at_a_time: usize,
    /// Returns the time at which the work is due, in microseconds since 1970; `None`: not before the build
    /// is woken. It may be called at any time, also while the work runs.
    pub due: DueFunction,
    /// Does the work that is due, and controls its own pauses after failures. After a store error it runs again later.
    pub run: fn(App, Arc<Build>) -> JobFuture<Result<(), StoreError>>,
}

/// A new job, to be stored by [`enqueue`].
pub struct NewJob<'a> {
    pub kind: &'static JobKind,
    /// The input of the job. It is stored encrypted.
    pub payload: Json,
    /// A deduplication key: there is at most one job of a kind with the same key. It is stored unencrypted.
    pub key: Option<&'a str>,
    /// The earliest time at which the job runs, in microseconds since 1970.
    pub not_before: i64,
}

/// A job that this process has leased.
#[derive(Clone)]
pub struct Job {
    /// The job's id, the same for every try.
    pub id: JobId,
    pub payload: Json,
    /// The time at which the job was put, in microseconds since 1970.
    pub created_at: i64,
    /// The number of failed tries.
    pub attempts: i64,
    app: App,
    build: Arc<Build>,
}

impl Job {
    /// Stores the progress of the job and renews its lease.
    ///
    /// # Errors
    /// If the job must stop: it was canceled, or another process has leased it.
    pub async fn progress(&self, done_count: i64, total: i64) -> Result<(), JobFailure> {
        let (id, lease) = (self.id, work::lease(&self.app));
        let write = move |conn: &mut Conn| rows::renew(conn, id, &lease, Some((done_count, total)));
        match self.build.db.write(write).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(JobFailure::new("it was canceled, or taken over")),
            Err(error) => Err(JobFailure::new(error.to_string())),
        }
    }

    /// Works through a table of the build page by page, each page in a transaction of its own. `page` gets the id
    /// behind which its page begins. It returns the last id of the page, or `None` if there is no further page.
    ///
    /// # Errors
    /// Those of a page, and those of [`Job::progress`].
    pub async fn run_in_pages(
        &self,
        page_size: i64,
        page: impl Fn(&mut Conn, i64) -> Result<Option<i64>, StoreError> + Clone + Send + 'static,
    ) -> Result<(), JobFailure> {
        let (mut after, mut pages) = (Some(0), 0);
        while let Some(last) = after {
            let page = page.clone();
            let written = self.build.db.write(move |conn| page(conn, last)).await;
            after = written.map_err(|error| JobFailure::new(error.to_string()))?;
            pages += 1;
            if pages % PAGES_BETWEEN_PROGRESS == 0 {
                self.progress(pages * page_size, pages * page_size).await?;
            }
        }
        Ok(())
    }
}

/// The failure of a try of a job.
#[derive(Debug)]
pub struct JobFailure {
    /// The reason, for the log and the database. It must not contain confidential data.
    pub reason: String,
    /// Is true if a retry is pointless.
    pub is_final: bool,
    /// Details for [`JobKind::given_up`].
    pub details: Json,
}

impl JobFailure {
    /// A failure after which the job is retried.
    pub fn new(reason: impl Into<String>) -> JobFailure {
        JobFailure { reason: reason.into(), is_final: false, details: Json::Null }
    }
}

/// Settings of background work. Tests change them.
#[derive(Clone)]
pub struct JobSettings {
    /// Job kinds in addition to those of the modules.
    pub kinds: &'static [&'static JobKind],
    /// The duration of a lease unless it is renewed. Afterwards another process may lease the job.
    pub lease: Duration,
}

impl Default for JobSettings {
    fn default() -> JobSettings {
        JobSettings { kinds: &[], lease: Duration::from_secs(60) }
    }
}

/// Puts a job in the transaction that causes it, and returns its id. If a job with the same key is
/// already stored, that job replaces the new one. Its payload is unchanged, and it is due no later than
/// the new job would be. If it has failed, it is due within a minute, but not before `not_before`.
pub fn enqueue(request: &Request, conn: &mut Conn, job: &NewJob) -> Result<JobId, StoreError> {
    request.effects.after_commit(wake);
    insert(&request.app, &request.build, conn, job, request.now)
}

/// Puts jobs of a kind that are due now, one for each payload, without keys.
pub fn put_many(request: &Request, conn: &mut Conn, kind: &JobKind, payloads: Vec<Json>) -> Result<(), StoreError> {
    request.effects.after_commit(wake);
    rows::insert_many(&request.app, &request.build, conn, kind, payloads, request.now)
}

/// Cancels a job, in the transaction that makes it unnecessary. A running job is aborted.
pub fn cancel(request: &Request, conn: &mut Conn, id: JobId) -> Result<(), StoreError> {
    request.effects.after_commit(wake);
    rows::cancel(conn, id)
}

/// Makes the failed jobs of a kind due immediately, in the transaction of a change after which they may succeed.
pub fn make_due_now(request: &Request, conn: &mut Conn, kind: &JobKind) -> Result<(), StoreError> {
    request.effects.after_commit(wake);
    let sql = Sql::new("UPDATE jobs SET next_at = $1 WHERE kind = $2 AND next_at > $1 AND attempts > 0");
    conn.exec(&sql.arg(request.now).arg(kind.name)).map(drop)
}

/// The exponential backoff: `first` after one failure, doubled for each further failure in a row, at most `longest`.
pub fn exponential_backoff(first: Duration, longest: Duration, failures: u32) -> Duration {
    first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(longest)
}
