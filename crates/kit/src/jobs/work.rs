//! The tasks that run jobs. Each process has one task for each build, and up to [`JobKind::of_build`]
//! tasks for each of its kinds that has due jobs.

use super::rows::{self, Lease, LeasedJob, Overview};
use super::{Job, JobFailure, JobKind, JobSettings, StandingJob};
use crate::app::App;
use crate::build::Build;
use crate::ids::JobId;
use resource::openapi::object;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::{Conn, StoreError};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, watch};
use tokio::task::{AbortHandle, JoinHandle};
use web::clock::unique_id;
use web::lock;
use web::metrics::{Counter, MetricsText};

/// The interval at which a process reads the jobs that other processes left, and the clock, which may have been set.
const LOOK_INTERVAL: Duration = Duration::from_secs(300);
/// The delay before a woken task reads the jobs, so that many simultaneous wake-ups cost one read.
const WAKE_DELAY: Duration = Duration::from_millis(20);
/// The shortest sleep until the next job is due.
const MIN_SLEEP: Duration = Duration::from_millis(100);
/// A task that is woken for single standing jobs reads their due times alone. Within this time after it has read all of them,
/// it reads all of them again, so that no other job waits for its own wake-up.
const FULL_READ_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after a store error.
const ERROR_PAUSE: Duration = Duration::from_secs(10);
/// The number of jobs that a process runs at a time, of all kinds and builds.
const MAX_RUNNING_JOBS: usize = 512;
/// The shortest interval between two counts of the waiting jobs.
const MIN_COUNT_INTERVAL: Duration = Duration::from_secs(2);
/// The minimum ratio of the interval between two counts to the duration of a count.
const COUNT_INTERVAL_FACTOR: u32 = 100;

/// The background work of a process.
pub struct Jobs {
    is_on: AtomicBool,
    /// The task of each build, by the build's uid.
    tasks: Mutex<HashMap<String, Arc<BuildTask>>>,
    kinds: Vec<&'static JobKind>,
    standing: Vec<&'static StandingJob>,
    places: Semaphore,
    places_of_kinds: HashMap<&'static str, Semaphore>,
    outcomes: HashMap<&'static str, OutcomeCounts>,
    /// The unique name of this process in leases.
    holder: String,
    lease: Duration,
}

/// The task of a build, with the jobs that it runs in this process.
struct BuildTask {
    build: Arc<Build>,
    waker: Notify,
    /// The reasons of the wake-ups since the task last read due times.
    wake_reason: Mutex<WakeReason>,
    /// The number of tasks that run the due jobs of each kind now.
    active_kinds: Mutex<HashMap<&'static str, usize>>,
    /// The running jobs by id, each with the signal that aborts it.
    running: Mutex<HashMap<JobId, Arc<Notify>>>,
    counts: Mutex<JobCounts>,
    /// Is true when the task has read due times, has failed to, or has ended.
    has_read: watch::Sender<bool>,
}

/// The reasons for which the task of a build is woken.
#[derive(Default)]
struct WakeReason {
    /// Any job may be due.
    is_general: bool,
    /// The names of standing jobs that may be due.
    standing: Vec<&'static str>,
}

/// The due times of a build as the task last read all of them.
struct DueTimes {
    read_at: Instant,
    /// The earliest due time after that.
    next: Option<i64>,
}

impl DueTimes {
    /// Returns whether they still hold, except for the jobs for which the task was woken.
    fn are_current(&self, now: i64) -> bool {
        self.read_at.elapsed() < FULL_READ_INTERVAL && self.next.is_none_or(|next| next > now)
    }
}

impl BuildTask {
    fn wake(&self) {
        lock(&self.wake_reason).is_general = true;
        self.waker.notify_one();
    }

    fn wake_for(&self, job: &StandingJob) {
        let mut reason = lock(&self.wake_reason);
        if !reason.standing.contains(&job.name) {
            reason.standing.push(job.name);
        }
        drop(reason);
        self.waker.notify_one();
    }
}

/// The waiting jobs of a build as of the last count.
#[derive(Default)]
struct JobCounts {
    waiting: i64,
    failed: i64,
    /// The time of the next count.
    next: Option<Instant>,
}

impl Jobs {
    /// Returns the background work of a process. It runs no jobs before [`start`].
    pub fn new(
        settings: &JobSettings,
        kinds: impl Iterator<Item = &'static JobKind>,
        standing: impl Iterator<Item = &'static StandingJob>,
    ) -> Jobs {
        let kinds: Vec<&JobKind> = kinds.chain(settings.kinds.iter().copied()).collect();
        let standing: Vec<&StandingJob> = standing.collect();
        let bounds = kinds.iter().map(|kind| (kind.name, kind.at_a_time));
        let bounds = bounds.chain(standing.iter().map(|job| (job.name, job.at_a_time)));
        Jobs {
            is_on: AtomicBool::new(false),
            tasks: Mutex::default(),
            outcomes: kinds.iter().map(|kind| (kind.name, OutcomeCounts::default())).collect(),
            places: Semaphore::new(MAX_RUNNING_JOBS),
            places_of_kinds: bounds.map(|(name, bound)| (name, Semaphore::new(bound))).collect(),
            holder: unique_id(),
            lease: settings.lease,
            kinds,
            standing,
        }
    }

    fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }
}

fn jobs(app: &App) -> &Jobs {
    app.slot()
}

/// Starts background work, first with the jobs that earlier processes left. The builds are read one after the other, so that
/// requests do not wait behind all of them. A request to a build starts the task of this build before its turn.
pub fn start(app: &App) {
    jobs(app).is_on.store(true, Ordering::Relaxed);
    let app = app.clone();
    tokio::spawn(async move {
        let domains = match app.active_domains().await {
            Ok(domains) => domains,
            Err(error) => return tracing::error!(%error, "the builds were not looked at for jobs"),
        };
        for domain in domains {
            // A build that cannot be read now is found at its next request.
            if let Ok(Some(build)) = app.build(&domain).await {
                start_task_and_wait(&app, &build).await;
            }
        }
    });
}

/// Starts the task of a build if there is none, and waits until it has read due times once, or has failed to.
pub async fn start_task_and_wait(app: &App, build: &Arc<Build>) {
    if let Some(task) = task_of(app, build) {
        // The sender lives as long as the task, so that waiting does not fail.
        let _ = task.has_read.subscribe().wait_for(|has_read| *has_read).await;
    }
}

/// Starts the task of a build if there is none. A new task reads due times without a wake-up.
pub fn start_task(app: &App, build: &Arc<Build>) {
    task_of(app, build);
}

/// Stops background work: no further job is started, so that the store can be closed.
pub fn stop(app: &App) {
    jobs(app).is_on.store(false, Ordering::Relaxed);
    lock(&jobs(app).tasks).values().for_each(|task| task.wake());
}

/// Returns whether this process runs jobs.
pub fn is_on(app: &App) -> bool {
    jobs(app).is_on()
}

/// Wakes the task of a build, which then reads the due jobs. Starts the task if there is none.
pub fn wake(app: &App, build: &Arc<Build>) {
    if let Some(task) = task_of(app, build) {
        task.wake();
    }
}

/// Wakes the task of a build for one standing job, whose due time has changed. The task reads the other due times up to a
/// second later. Starts the task if there is none.
pub fn wake_for(app: &App, build: &Arc<Build>, job: &StandingJob) {
    if let Some(task) = task_of(app, build) {
        task.wake_for(job);
    }
}

/// The task of a build, which is started if there is none. `None` if this process runs no jobs.
fn task_of(app: &App, build: &Arc<Build>) -> Option<Arc<BuildTask>> {
    if !is_on(app) {
        return None;
    }
    let mut tasks = lock(&jobs(app).tasks);
    let task = tasks.entry(build.uid.clone()).or_insert_with(|| {
        let task = Arc::new(BuildTask {
            build: build.clone(),
            waker: Notify::new(),
            wake_reason: Mutex::default(),
            active_kinds: Mutex::default(),
            running: Mutex::default(),
            counts: Mutex::default(),
            has_read: watch::Sender::new(false),
        });
        tokio::spawn(run_build(app.clone(), task.clone()));
        task
    });
    Some(task.clone())
}

/// Returns whether this process has a task for the build of this uid. The task then knows its due times.
pub fn has_task(app: &App, build_uid: &str) -> bool {
    lock(&jobs(app).tasks).contains_key(build_uid)
}

/// Returns the builds whose jobs this process runs.
pub fn builds(app: &App) -> Vec<Arc<Build>> {
    lock(&jobs(app).tasks).values().map(|task| task.build.clone()).collect()
}

/// Returns the health details: the numbers of waiting, failed and running jobs in the builds whose jobs
/// this process runs. Failed jobs are included in the waiting ones.
pub fn health(app: &App) -> Json {
    let (mut waiting, mut running, mut failed) = (0, 0, 0);
    for task in lock(&jobs(app).tasks).values() {
        let counts = lock(&task.counts);
        (waiting, failed) = (waiting + counts.waiting, failed + counts.failed);
        running += lock(&task.running).len();
    }
    json!({"waiting": waiting, "running": running, "failed": failed})
}

/// The attempts of jobs of a kind, by their outcome.
#[derive(Default)]
struct OutcomeCounts {
    done: Counter,
    retried: Counter,
    given_up: Counter,
}

/// Writes the metrics of jobs. Mails are jobs of the kind `mail`.
pub(crate) fn write_metrics(app: &App, out: &mut MetricsText) {
    let counts = health(app);
    out.metric("chancery_jobs", "gauge", "Jobs of builds whose jobs this process runs. Failed ones wait for a retry.");
    for state in ["waiting", "running", "failed"] {
        out.sample("chancery_jobs", &[("state", state)], &counts[state]);
    }
    let name = "chancery_job_attempts_total";
    out.metric(name, "counter", "Ended attempts of jobs.");
    for kind in &jobs(app).kinds {
        let Some(counts) = jobs(app).outcomes.get(kind.name) else { continue };
        for (outcome, count) in [("done", &counts.done), ("retried", &counts.retried), ("given_up", &counts.given_up)] {
            out.sample(name, &[("kind", kind.name), ("outcome", outcome)], count.get());
        }
    }
}

/// The schema of [`health`].
pub fn health_schema() -> Json {
    object(["waiting", "running", "failed"].map(|name| (name, json!({"type": "integer"}))))
}

/// A permit to run one job, returned when it is dropped.
pub struct JobPermit<'a> {
    _of_kind: Option<SemaphorePermit<'a>>,
    _of_all: Option<SemaphorePermit<'a>>,
}

/// Waits for a permit to run a job of a kind. Builds wait in a fair queue.
pub async fn acquire_permit<'a>(app: &'a App, kind: &str) -> JobPermit<'a> {
    // The semaphores are never closed.
    let _of_kind = match jobs(app).places_of_kinds.get(kind) {
        Some(places) => places.acquire().await.ok(),
        None => None,
    };
    JobPermit { _of_kind, _of_all: jobs(app).places.acquire().await.ok() }
}

/// A lease of this process that starts now.
pub(super) fn lease(app: &App) -> Lease {
    let (now, jobs) = (app.clock.now(), jobs(app));
    Lease { holder: jobs.holder.clone(), now, until: now + jobs.lease.as_micros() as i64 }
}

// ---- The task of a build -------------------------------------------------------------------------------------------

async fn run_build(app: App, task: Arc<BuildTask>) {
    // An embedded store has one process, which has just started, so all leases belong to a process that has ended.
    let mut is_first = app.store.is_embedded();
    let mut due_times: Option<DueTimes> = None;
    while is_on(&app) {
        let WakeReason { is_general, standing } = std::mem::take(&mut *lock(&task.wake_reason));
        let current_times =
            due_times.as_mut().filter(|due| !is_general && !standing.is_empty() && due.are_current(app.clock.now()));
        let started = match current_times {
            Some(due_times) => start_due_standing(&app, &task, standing, due_times).await,
            None => start_due_kinds(&app, &task, is_first, &mut due_times).await,
        };
        task.has_read.send_replace(true);
        match started {
            Ok(wait) => {
                is_first = false;
                match wait {
                    Some(wait) => drop(tokio::time::timeout(wait, task.waker.notified()).await),
                    None => task.waker.notified().await,
                }
                tokio::time::sleep(WAKE_DELAY).await;
            }
            Err(StoreError::Missing) => break,
            Err(error) => {
                if is_on(&app) {
                    tracing::error!(%error, build = task.build.domain, "the jobs were not looked at");
                }
                tokio::time::sleep(ERROR_PAUSE).await;
            }
        }
    }
    // The build was deleted, or this process is stopping.
    task.has_read.send_replace(true);
    lock(&jobs(&app).tasks).remove(&task.build.uid);
}

/// The data that [`start_due_kinds`] reads from the database of a build.
struct DueJobs {
    overview: Overview,
    /// The time at which each standing job is due.
    standing: Vec<Option<i64>>,
    /// The numbers of waiting and of failed jobs, if they were counted. Failed jobs wait too.
    counted: Option<(i64, i64)>,
}

/// Starts those of these standing jobs that are due. Returns the time until the next read, which is one of all due times.
async fn start_due_standing(
    app: &App,
    task: &Arc<BuildTask>,
    names: Vec<&'static str>,
    due_times: &mut DueTimes,
) -> Result<Option<Duration>, StoreError> {
    let (started, now) = (Instant::now(), app.clock.now());
    let standing = jobs(app).standing.iter().copied().filter(|job| names.contains(&job.name));
    let standing: Vec<&'static StandingJob> = standing.collect();
    let (shared, build, standing_jobs) = (app.clone(), task.build.clone(), standing.clone());
    let load_due = move |conn: &mut Conn| {
        standing_jobs.iter().map(|job| (job.due)(&shared, &build, conn, now)).collect::<Result<Vec<_>, StoreError>>()
    };
    let due = task.build.db.read(load_due).await?;
    for (job, due) in standing.into_iter().zip(due) {
        if begin_kind(task, (job.name, 1), due, now, &mut due_times.next) {
            tokio::spawn(run_standing(app.clone(), task.clone(), job));
        }
    }
    let wait = time_to_next(app, due_times.next, now, note_counts(task, started, None));
    let until_full_read = FULL_READ_INTERVAL.saturating_sub(due_times.read_at.elapsed());
    Ok(Some(wait.map_or(until_full_read, |wait| wait.min(until_full_read))))
}

/// The time until the task of a build reads due times again; `None`: when it is woken.
fn time_to_next(app: &App, next: Option<i64>, now: i64, count: Option<Duration>) -> Option<Duration> {
    let wait =
        next.map(|next| Duration::from_micros(u64::try_from(next - now).unwrap_or(0)).clamp(MIN_SLEEP, LOOK_INTERVAL));
    let wait = match wait {
        None if !app.store.is_embedded() => Some(LOOK_INTERVAL),
        wait => wait,
    };
    match (wait, count) {
        (Some(wait), Some(count)) => Some(wait.min(count)),
        (wait, count) => wait.or(count),
    }
}

/// Starts the kinds that have due jobs. Returns the time until the next read; `None`: when the build is woken.
async fn start_due_kinds(
    app: &App,
    task: &Arc<BuildTask>,
    is_first: bool,
    due_times: &mut Option<DueTimes>,
) -> Result<Option<Duration>, StoreError> {
    *due_times = None;
    let (started, now) = (Instant::now(), app.clock.now());
    let counts = lock(&task.counts).next.is_none_or(|next| started >= next);
    let (shared_app, shared_build) = (app.clone(), task.build.clone());
    let load_due = move |conn: &mut Conn| {
        let overview = rows::overview(conn, &jobs(&shared_app).kinds)?;
        let is_any = overview.next.iter().any(Option::is_some);
        let counted = match is_any {
            true if counts => Some(rows::count(conn)?),
            true => None,
            false => Some((0, 0)),
        };
        let standing = jobs(&shared_app)
            .standing
            .iter()
            .map(|job| (job.due)(&shared_app, &shared_build, conn, now))
            .collect::<Result<_, StoreError>>()?;
        Ok::<_, StoreError>(DueJobs { overview, standing, counted })
    };
    let DueJobs { overview, standing: due, counted } = task.build.db.read(load_due).await?;
    if let Some(lease_end) = overview.held
        && (is_first || lease_end <= now)
    {
        let before = (!is_first).then_some(now);
        task.build.db.write(move |conn| rows::end_leases(conn, before)).await?;
        return Ok(Some(Duration::ZERO));
    }
    for id in &overview.canceled {
        if let Some(end) = lock(&task.running).get(id) {
            end.notify_one();
        }
    }
    let mut next = overview.held;
    let mut is_room_left = false;
    for (kind, due) in jobs(app).kinds.iter().zip(overview.next) {
        if begin_kind(task, (kind.name, kind.of_build), due, now, &mut next) {
            tokio::spawn(run_due_jobs(app.clone(), task.clone(), kind));
            is_room_left |= kind.of_build > 1;
        }
    }
    for (job, due) in jobs(app).standing.iter().zip(due) {
        if begin_kind(task, (job.name, 1), due, now, &mut next) {
            tokio::spawn(run_standing(app.clone(), task.clone(), job));
        }
    }
    if is_room_left {
        // The overview does not tell whether more than one job of a kind is due.
        task.wake();
    }
    *due_times = Some(DueTimes { read_at: started, next });
    Ok(time_to_next(app, next, now, note_counts(task, started, counted)))
}

/// Returns whether to start a task for a kind that may have `most` tasks in a build. If the kind is due later,
/// `next` is moved forward to that time. If all tasks are active, the next read follows the end of one.
fn begin_kind(
    task: &BuildTask,
    (name, most): (&'static str, usize),
    due: Option<i64>,
    now: i64,
    next: &mut Option<i64>,
) -> bool {
    let Some(due) = due else { return false };
    let mut active = lock(&task.active_kinds);
    let active = active.entry(name).or_default();
    if *active >= most {
        return false;
    }
    if due > now {
        *next = Some(next.map_or(due, |next| next.min(due)));
        return false;
    }
    *active += 1;
    true
}

/// Stores a count of the waiting jobs. Without a count, returns the time until the next one.
fn note_counts(task: &BuildTask, started: Instant, counted: Option<(i64, i64)>) -> Option<Duration> {
    let mut counts = lock(&task.counts);
    match counted {
        Some((waiting, failed)) => {
            let pause = MIN_COUNT_INTERVAL.max(started.elapsed() * COUNT_INTERVAL_FACTOR);
            *counts = JobCounts { waiting, failed, next: (waiting > 0).then(|| Instant::now() + pause) };
            None
        }
        None => counts.next.map(|next| next.saturating_duration_since(started)),
    }
}

/// An active task of a kind. On drop it is no longer counted, and the build's task is woken.
struct ActiveKind {
    task: Arc<BuildTask>,
    name: &'static str,
    /// The standing job that it runs. Only the due time of this job may have changed.
    standing: Option<&'static StandingJob>,
}

impl Drop for ActiveKind {
    fn drop(&mut self) {
        if let Some(active) = lock(&self.task.active_kinds).get_mut(self.name) {
            *active -= 1;
        }
        match self.standing {
            Some(job) => self.task.wake_for(job),
            None => self.task.wake(),
        }
    }
}

// ---- Running jobs --------------------------------------------------------------------------------------------------

/// A spawned task that is aborted when this handle is dropped.
struct AbortOnDrop<T>(JoinHandle<T>, AbortHandle);

impl<T: Send + 'static> AbortOnDrop<T> {
    fn spawn(work: impl Future<Output = T> + Send + 'static) -> AbortOnDrop<T> {
        let handle = tokio::spawn(work);
        let abort = handle.abort_handle();
        AbortOnDrop(handle, abort)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.1.abort();
    }
}

async fn run_standing(app: App, task: Arc<BuildTask>, job: &'static StandingJob) {
    let _active = ActiveKind { task: task.clone(), name: job.name, standing: Some(job) };
    let mut run = AbortOnDrop::spawn((job.run)(app.clone(), task.build.clone()));
    let reason = match (&mut run.0).await {
        Ok(Ok(())) => return,
        // The build is being deleted.
        Ok(Err(StoreError::Missing)) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(error) => Some(format!("it ended early: {error}")),
    };
    if let Some(reason) = reason
        && is_on(&app)
    {
        tracing::error!(reason, build = task.build.domain, kind = job.name, "standing work failed");
    }
    tokio::time::sleep(ERROR_PAUSE).await;
}

/// Runs the due jobs of a kind, one after the other.
async fn run_due_jobs(app: App, task: Arc<BuildTask>, kind: &'static JobKind) {
    let _active = ActiveKind { task: task.clone(), name: kind.name, standing: None };
    loop {
        let place = acquire_permit(&app, kind.name).await;
        if !is_on(&app) {
            return;
        }
        let outcome = run_next(&app, &task, kind).await;
        drop(place);
        match outcome {
            Ok(true) => {}
            Ok(false) | Err(StoreError::Missing) => return,
            Err(error) => {
                if is_on(&app) {
                    tracing::error!(%error, build = task.build.domain, kind = kind.name, "jobs were not run");
                }
                tokio::time::sleep(ERROR_PAUSE).await;
                return;
            }
        }
    }
}

/// Runs the first due job of a kind. Returns whether there was one.
async fn run_next(app: &App, task: &Arc<BuildTask>, kind: &'static JobKind) -> Result<bool, StoreError> {
    let (shared_app, build, from) = (app.clone(), task.build.clone(), lease(app));
    let leased_job =
        task.build.db.write(move |conn| rows::lease_due_job(&shared_app, &build, conn, kind, &from)).await?;
    let Some(LeasedJob { job, is_open }) = leased_job else { return Ok(false) };
    let outcome = if is_open {
        run(app, task, kind, &job).await
    } else {
        // The job is retried, since another process may have the key that encrypted the payload.
        JobOutcome::Failed(JobFailure::new("it could not be unsealed"))
    };
    finish(app, task, kind, job, outcome).await?;
    Ok(true)
}

/// The end of an attempt of a job.
enum JobOutcome {
    Done,
    Failed(JobFailure),
    /// The job was canceled, or another process has leased it.
    Withdrawn,
}

impl From<Result<(), JobFailure>> for JobOutcome {
    fn from(result: Result<(), JobFailure>) -> JobOutcome {
        match result {
            Ok(()) => JobOutcome::Done,
            Err(failure) => JobOutcome::Failed(failure),
        }
    }
}

/// Runs a job and renews its lease meanwhile.
async fn run(app: &App, task: &Arc<BuildTask>, kind: &JobKind, job: &Job) -> JobOutcome {
    let running = RunningJob::begin(task, job.id);
    let mut work = AbortOnDrop::spawn((kind.run)(app.clone(), task.build.clone(), job.clone()));
    let end = tokio::time::Instant::now() + kind.patience;
    loop {
        tokio::select! {
            done = &mut work.0 => {
                return done.unwrap_or_else(|error| Err(JobFailure::new(format!("it ended early: {error}")))).into();
            }
            () = running.end.notified() => return JobOutcome::Withdrawn,
            () = tokio::time::sleep_until(end) => return JobOutcome::Failed(JobFailure::new("it took too long")),
            () = tokio::time::sleep(jobs(app).lease / 3) => {
                let (id, until) = (job.id, lease(app));
                // After an error the next attempt may still renew the lease; otherwise it expires.
                match task.build.db.write(move |conn| rows::renew(conn, id, &until, None)).await {
                    Ok(true) | Err(_) => {}
                    Ok(false) => return JobOutcome::Withdrawn,
                }
            }
        }
    }
}

/// An entry in the task's running jobs. It is removed on drop.
struct RunningJob<'a> {
    task: &'a BuildTask,
    id: JobId,
    end: Arc<Notify>,
}

impl RunningJob<'_> {
    fn begin(task: &BuildTask, id: JobId) -> RunningJob<'_> {
        let end = Arc::new(Notify::new());
        lock(&task.running).insert(id, end.clone());
        RunningJob { task, id, end }
    }
}

impl Drop for RunningJob<'_> {
    fn drop(&mut self) {
        lock(&self.task.running).remove(&self.id);
    }
}

fn count_outcome(app: &App, kind: &str, outcome: &JobOutcome, is_over: bool) {
    let Some(counts) = jobs(app).outcomes.get(kind) else { return };
    match outcome {
        JobOutcome::Withdrawn => {}
        JobOutcome::Done => counts.done.increment(),
        JobOutcome::Failed(failure) if is_over || failure.is_final => counts.given_up.increment(),
        JobOutcome::Failed(_) => counts.retried.increment(),
    }
}

/// Deletes a job that is done, canceled or failed for good; schedules the retry of any other failed job.
async fn finish(
    app: &App,
    task: &Arc<BuildTask>,
    kind: &'static JobKind,
    job: Job,
    outcome: JobOutcome,
) -> Result<(), StoreError> {
    let (build, now) = (&task.build.domain, app.clock.now());
    let (number, attempts, age) = (job.id.get(), job.attempts + 1, now - job.created_at);
    let is_over = age >= kind.given_up_after.as_micros() as i64;
    let name = kind.name;
    count_outcome(app, name, &outcome, is_over);
    match &outcome {
        JobOutcome::Withdrawn => tracing::info!(build, kind = name, job = number, "a job was canceled, or taken over"),
        JobOutcome::Done => tracing::debug!(build, kind = name, job = number, attempts, "a job was done"),
        JobOutcome::Failed(JobFailure { reason, is_final, .. }) if is_over || *is_final => {
            tracing::error!(reason, build, kind = name, job = number, attempts, "a job was given up");
        }
        JobOutcome::Failed(JobFailure { reason, .. }) => {
            tracing::warn!(reason, build, kind = name, job = number, attempts, "a job was not done");
        }
    }
    let (shared_app, shared_build, from) = (app.clone(), task.build.clone(), lease(app));
    let write = move |conn: &mut Conn| match &outcome {
        JobOutcome::Withdrawn => rows::finish_canceled(conn, job.id, &from),
        JobOutcome::Done => rows::finish(conn, job.id, &from).map(drop),
        JobOutcome::Failed(failure) if is_over || failure.is_final => match rows::finish(conn, job.id, &from)? {
            true => (kind.given_up)(&shared_app, &shared_build, conn, &job, failure),
            false => Ok(()),
        },
        JobOutcome::Failed(failure) => rows::schedule_retry(conn, kind, &job, failure, &from),
    };
    task.build.db.write(write).await
}
