//! The tasks of a process: one for each build, and beside it one for each kind that has something to do there.

use super::rows::{self, Lease, Seen, Taken};
use super::{Job, JobFailure, JobKind, Settings, StandingJob};
use crate::app::App;
use crate::build::Build;
use serde_json::{Value as Json, json};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use store::{Conn, Error};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::task::{AbortHandle, JoinHandle};
use web::clock::unique_id;

/// How often a process looks for what others left behind, and at the clock, which may have been set.
const LOOK: Duration = Duration::from_secs(300);
/// How long a build that is woken waits for more to come, so that many causes at once are one look.
const GATHER: Duration = Duration::from_millis(20);
/// The shortest sleep until something is due.
const SHORTEST: Duration = Duration::from_millis(100);
/// The pause after an error of the store.
const AFTER_ERROR: Duration = Duration::from_secs(10);
/// How many jobs run at a time in a process, of all kinds and builds.
const AT_A_TIME: usize = 512;
/// How often what waits is counted at most, and how long counting may take of all time, as one part in so many.
const COUNTED: (Duration, u32) = (Duration::from_secs(2), 100);

/// The background work of a process.
pub struct Jobs {
    is_on: AtomicBool,
    /// By the build's uid.
    tasks: Mutex<HashMap<String, Arc<Task>>>,
    kinds: Vec<&'static JobKind>,
    standing: Vec<&'static StandingJob>,
    places: Semaphore,
    places_of_kinds: HashMap<&'static str, Semaphore>,
    /// This process, for leases.
    holder: String,
    lease: Duration,
}

/// What runs for a build.
struct Task {
    build: Arc<Build>,
    waker: Notify,
    /// The kinds that are being worked off.
    open: Mutex<HashSet<&'static str>>,
    /// The jobs that run, each with what ends it.
    running: Mutex<HashMap<i64, Arc<Notify>>>,
    counts: Mutex<Counts>,
}

/// What waits, as the last count had it.
#[derive(Default)]
struct Counts {
    waiting: i64,
    failed: i64,
    next: Option<Instant>,
}

impl Jobs {
    /// None run before [`start`].
    pub fn new(
        settings: &Settings,
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
            places: Semaphore::new(AT_A_TIME),
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn jobs(app: &App) -> &Jobs {
    app.slot()
}

/// Begins, first with what an earlier process left behind.
pub fn start(app: &App) {
    jobs(app).is_on.store(true, Ordering::Relaxed);
    let app = app.clone();
    tokio::spawn(async move {
        match app.active_builds().await {
            Ok(builds) => builds.iter().for_each(|build| wake(&app, build)),
            Err(error) => tracing::error!(%error, "the builds were not looked at for jobs"),
        }
    });
}

/// Begins nothing any more, so that the store can be closed.
pub fn stop(app: &App) {
    jobs(app).is_on.store(false, Ordering::Relaxed);
    lock(&jobs(app).tasks).values().for_each(|task| task.waker.notify_one());
}

/// Whether this process runs jobs.
pub fn is_on(app: &App) -> bool {
    jobs(app).is_on()
}

/// Looks at a build: there may be something to do.
pub fn wake(app: &App, build: &Arc<Build>) {
    if !is_on(app) {
        return;
    }
    let mut tasks = lock(&jobs(app).tasks);
    let task = tasks.entry(build.uid.clone()).or_insert_with(|| {
        let task = Arc::new(Task {
            build: build.clone(),
            waker: Notify::new(),
            open: Mutex::default(),
            running: Mutex::default(),
            counts: Mutex::default(),
        });
        tokio::spawn(look_after(app.clone(), task.clone()));
        task
    });
    task.waker.notify_one();
}

/// The builds that this process works for.
pub fn builds(app: &App) -> Vec<Arc<Build>> {
    lock(&jobs(app).tasks).values().map(|task| task.build.clone()).collect()
}

/// The health details: what waits in the builds that this process works for, and what it runs.
pub fn health(app: &App) -> Json {
    let (mut waiting, mut running, mut failed) = (0, 0, 0);
    for task in lock(&jobs(app).tasks).values() {
        let counts = lock(&task.counts);
        (waiting, failed) = (waiting + counts.waiting, failed + counts.failed);
        running += lock(&task.running).len();
    }
    json!({"waiting": waiting, "running": running, "failed": failed})
}

/// The right to run, given back when it is dropped.
pub struct Place<'a> {
    _of_kind: Option<SemaphorePermit<'a>>,
    _of_all: Option<SemaphorePermit<'a>>,
}

/// Waits for a place among those that run jobs of a kind. Builds wait in a queue, so each has its turn.
pub async fn place<'a>(app: &'a App, kind: &str) -> Place<'a> {
    // They are never closed.
    let _of_kind = match jobs(app).places_of_kinds.get(kind) {
        Some(places) => places.acquire().await.ok(),
        None => None,
    };
    Place { _of_kind, _of_all: jobs(app).places.acquire().await.ok() }
}

/// A lease from now on.
pub(super) fn lease(app: &App) -> Lease {
    let (now, jobs) = (app.clock.now(), jobs(app));
    Lease { holder: jobs.holder.clone(), now, until: now + jobs.lease.as_micros() as i64 }
}

// ---- The task of a build -------------------------------------------------------------------------------------------

async fn look_after(app: App, task: Arc<Task>) {
    // The only process there is has just begun: whoever holds a lease is gone.
    let mut is_first = app.store.is_embedded();
    while is_on(&app) {
        match look(&app, &task, is_first).await {
            Ok(wait) => {
                is_first = false;
                match wait {
                    Some(wait) => drop(tokio::time::timeout(wait, task.waker.notified()).await),
                    None => task.waker.notified().await,
                }
                tokio::time::sleep(GATHER).await;
            }
            Err(Error::Missing) => break,
            Err(error) => {
                if is_on(&app) {
                    tracing::error!(%error, build = task.build.domain, "the jobs were not looked at");
                }
                tokio::time::sleep(AFTER_ERROR).await;
            }
        }
    }
    // The build is gone, or this process goes.
    lock(&jobs(&app).tasks).remove(&task.build.uid);
}

/// What a look has found.
struct Found {
    seen: Seen,
    /// For each standing job when it is due.
    standing: Vec<Option<i64>>,
    /// What waits, if it was counted.
    counted: Option<(i64, i64)>,
}

/// Begins what is due; how long until the next look, `None`: until the build is woken.
async fn look(app: &App, task: &Arc<Task>, is_first: bool) -> Result<Option<Duration>, Error> {
    let (started, now) = (Instant::now(), app.clock.now());
    let counts = lock(&task.counts).next.is_none_or(|next| started >= next);
    let (with, of) = (app.clone(), task.build.clone());
    let read = move |conn: &mut Conn| {
        let seen = rows::look(conn, &jobs(&with).kinds)?;
        let is_any = seen.next.iter().any(Option::is_some);
        let counted = match is_any {
            true if counts => Some(rows::count(conn)?),
            true => None,
            false => Some((0, 0)),
        };
        let standing =
            jobs(&with).standing.iter().map(|job| (job.due)(&with, &of, conn, now)).collect::<Result<_, Error>>()?;
        Ok::<_, Error>(Found { seen, standing, counted })
    };
    let Found { seen, standing: due, counted } = task.build.db.read(read).await?;
    if let Some(until) = seen.held
        && (is_first || until <= now)
    {
        let before = (!is_first).then_some(now);
        task.build.db.write(move |conn| rows::free(conn, before)).await?;
        return Ok(Some(Duration::ZERO));
    }
    for id in &seen.canceled {
        if let Some(end) = lock(&task.running).get(id) {
            end.notify_one();
        }
    }
    let mut next = seen.held;
    for (kind, due) in jobs(app).kinds.iter().zip(seen.next) {
        if begin(task, kind.name, due, now, &mut next) {
            tokio::spawn(work_off(app.clone(), task.clone(), kind));
        }
    }
    for (job, due) in jobs(app).standing.iter().zip(due) {
        if begin(task, job.name, due, now, &mut next) {
            tokio::spawn(stand(app.clone(), task.clone(), job));
        }
    }
    let wait = next.map(|next| Duration::from_micros(u64::try_from(next - now).unwrap_or(0)).clamp(SHORTEST, LOOK));
    let wait = match wait {
        None if !app.store.is_embedded() => Some(LOOK),
        wait => wait,
    };
    let count = note_counts(task, started, counted);
    Ok(match (wait, count) {
        (Some(wait), Some(count)) => Some(wait.min(count)),
        (wait, count) => wait.or(count),
    })
}

/// Whether a kind is to be begun; else `next` is when the build is to be looked at for it. When it ends, there is a look.
fn begin(task: &Task, name: &'static str, due: Option<i64>, now: i64, next: &mut Option<i64>) -> bool {
    let Some(due) = due else { return false };
    let mut open = lock(&task.open);
    if open.contains(name) {
        return false;
    }
    if due > now {
        *next = Some(next.map_or(due, |next| next.min(due)));
        return false;
    }
    open.insert(name)
}

/// Notes what was counted; how long until what waits is to be counted, when it was not.
fn note_counts(task: &Task, started: Instant, counted: Option<(i64, i64)>) -> Option<Duration> {
    let mut counts = lock(&task.counts);
    match counted {
        Some((waiting, failed)) => {
            let pause = COUNTED.0.max(started.elapsed() * COUNTED.1);
            *counts = Counts { waiting, failed, next: (waiting > 0).then(|| Instant::now() + pause) };
            None
        }
        None => counts.next.map(|next| next.saturating_duration_since(started)),
    }
}

/// Ends a kind's turn, and has the build looked at.
struct Open {
    task: Arc<Task>,
    name: &'static str,
}

impl Drop for Open {
    fn drop(&mut self) {
        lock(&self.task.open).remove(self.name);
        self.task.waker.notify_one();
    }
}

// ---- What runs -----------------------------------------------------------------------------------------------------

/// A task that ends with whoever waits for it.
struct Owned<T>(JoinHandle<T>, AbortHandle);

impl<T: Send + 'static> Owned<T> {
    fn spawn(work: impl Future<Output = T> + Send + 'static) -> Owned<T> {
        let handle = tokio::spawn(work);
        let abort = handle.abort_handle();
        Owned(handle, abort)
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        self.1.abort();
    }
}

async fn stand(app: App, task: Arc<Task>, job: &'static StandingJob) {
    let _open = Open { task: task.clone(), name: job.name };
    let mut run = Owned::spawn((job.run)(app.clone(), task.build.clone()));
    let reason = match (&mut run.0).await {
        Ok(Ok(())) => return,
        // The build is being deleted.
        Ok(Err(Error::Missing)) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(error) => Some(format!("it ended early: {error}")),
    };
    if let Some(reason) = reason
        && is_on(&app)
    {
        tracing::error!(reason, build = task.build.domain, kind = job.name, "standing work failed");
    }
    tokio::time::sleep(AFTER_ERROR).await;
}

/// Runs the jobs of a kind that are due, one after the other.
async fn work_off(app: App, task: Arc<Task>, kind: &'static JobKind) {
    let _open = Open { task: task.clone(), name: kind.name };
    loop {
        let place = place(&app, kind.name).await;
        if !is_on(&app) {
            return;
        }
        let outcome = run_next(&app, &task, kind).await;
        drop(place);
        match outcome {
            Ok(true) => {}
            Ok(false) | Err(Error::Missing) => return,
            Err(error) => {
                if is_on(&app) {
                    tracing::error!(%error, build = task.build.domain, kind = kind.name, "jobs were not run");
                }
                tokio::time::sleep(AFTER_ERROR).await;
                return;
            }
        }
    }
}

/// Runs the first job that is due; whether there was one.
async fn run_next(app: &App, task: &Arc<Task>, kind: &'static JobKind) -> Result<bool, Error> {
    let (with, build, from) = (app.clone(), task.build.clone(), lease(app));
    let taken = task.build.db.write(move |conn| rows::take(&with, &build, conn, kind, &from)).await?;
    let Some(Taken { job, is_open }) = taken else { return Ok(false) };
    let outcome = if is_open {
        run(app, task, kind, &job).await
    } else {
        // Another process may have another key.
        Some(Err(JobFailure::new("it could not be unsealed")))
    };
    finish(app, task, kind, job, outcome).await?;
    Ok(true)
}

/// Runs a job, and renews the lease meanwhile; `None` when it is not to go on.
async fn run(app: &App, task: &Arc<Task>, kind: &JobKind, job: &Job) -> Option<Result<(), JobFailure>> {
    let running = Running::begin(task, job.id);
    let mut work = Owned::spawn((kind.run)(app.clone(), task.build.clone(), job.clone()));
    let end = tokio::time::Instant::now() + kind.patience;
    loop {
        tokio::select! {
            done = &mut work.0 => {
                return Some(done.unwrap_or_else(|error| Err(JobFailure::new(format!("it ended early: {error}")))));
            }
            () = running.end.notified() => return None,
            () = tokio::time::sleep_until(end) => return Some(Err(JobFailure::new("it took too long"))),
            () = tokio::time::sleep(jobs(app).lease / 3) => {
                let (id, until) = (job.id, lease(app));
                // What cannot be renewed now may be at the next time, or it runs out.
                match task.build.db.write(move |conn| rows::renew(conn, id, &until, None)).await {
                    Ok(true) | Err(_) => {}
                    Ok(false) => return None,
                }
            }
        }
    }
}

/// A job among those that run.
struct Running<'a> {
    task: &'a Task,
    id: i64,
    end: Arc<Notify>,
}

impl Running<'_> {
    fn begin(task: &Task, id: i64) -> Running<'_> {
        let end = Arc::new(Notify::new());
        lock(&task.running).insert(id, end.clone());
        Running { task, id, end }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        lock(&self.task.running).remove(&self.id);
    }
}

/// Removes what was done, canceled or is given up; what failed waits.
async fn finish(
    app: &App,
    task: &Arc<Task>,
    kind: &'static JobKind,
    job: Job,
    outcome: Option<Result<(), JobFailure>>,
) -> Result<(), Error> {
    let (build, now) = (&task.build.domain, app.clock.now());
    let (number, attempts, age) = (job.id, job.attempts + 1, now - job.created_at);
    let is_over = age >= kind.given_up_after.as_micros() as i64;
    let name = kind.name;
    match &outcome {
        None => tracing::info!(build, kind = name, job = number, "a job was canceled, or taken over"),
        Some(Ok(())) => tracing::debug!(build, kind = name, job = number, attempts, "a job was done"),
        Some(Err(JobFailure { reason, is_final, .. })) if is_over || *is_final => {
            tracing::error!(reason, build, kind = name, job = number, attempts, "a job was given up");
        }
        Some(Err(JobFailure { reason, .. })) => {
            tracing::warn!(reason, build, kind = name, job = number, attempts, "a job was not done");
        }
    }
    let (with, of, from) = (app.clone(), task.build.clone(), lease(app));
    let write = move |conn: &mut Conn| match &outcome {
        None => rows::end_canceled(conn, job.id, &from),
        Some(Ok(())) => rows::end(conn, job.id, &from).map(drop),
        Some(Err(failure)) if is_over || failure.is_final => match rows::end(conn, job.id, &from)? {
            true => (kind.given_up)(&with, &of, conn, &job, failure),
            false => Ok(()),
        },
        Some(Err(failure)) => rows::put_off(conn, &job, failure, &from),
    };
    task.build.db.write(write).await
}
