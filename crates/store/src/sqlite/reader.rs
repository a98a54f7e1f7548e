//! The threads that read, and short reads on the thread of the caller.
//!
//! The number of threads that run short reads equals the number of processors, because more would compete for them.
//! Threads that are busy with a longer read are not counted, and a read that has waited for a while gets another
//! thread. So slow reads delay only reads of the same database, within the limits of `task_queue.rs`.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::open::ConnectionPurpose;
use super::open_connections::OpenConnections;
use super::settings::SqliteSettings;
use crate::conn::Conn;
use crate::error::StoreError;
use crate::slot::Slot;
use crate::task_queue::TaskQueue;
use crate::work::{ScriptMode, ScriptWork, attempt, panicked};
use web::lock;

/// The maximum duration of a short read. A read also waits for this time while threads are idle.
const SHORT_READ: Duration = Duration::from_millis(10);

/// The reader threads and their queue.
pub(super) struct ReaderPool {
    state: Mutex<ReaderState>,
    /// Wakes threads, one condition for each.
    wake: Vec<Condvar>,
}

struct ReaderState {
    queue: TaskQueue<ReadTask>,
    /// The idle threads. The last one that worked is woken first, so that few threads, with open connections, do the
    /// work.
    idle: Vec<usize>,
    /// The time at which each thread began its present task, or was woken for one.
    began: Vec<Option<Instant>>,
    /// The maximum number of threads that run short reads at the same time.
    few: usize,
    /// The idle thread that wakes after [`SHORT_READ`], to run a task that has waited for that time.
    watcher: Option<usize>,
    /// The number of requests to the threads to drop connections of past generations.
    sweeps: u64,
    closed: bool,
}

struct ReadTask {
    mode: ScriptMode,
    work: ScriptWork,
    since: Instant,
}

enum ReaderStep {
    Task(Arc<Slot>, ReadTask),
    Sweep,
}

impl ReaderPool {
    pub fn new(threads: usize) -> ReaderPool {
        let state = ReaderState {
            queue: TaskQueue::new(threads),
            idle: Vec::new(),
            began: vec![None; threads],
            few: std::thread::available_parallelism().map_or(2, usize::from).max(2),
            watcher: None,
            sweeps: 0,
            closed: false,
        };
        ReaderPool { state: Mutex::new(state), wake: (0..threads).map(|_| Condvar::new()).collect() }
    }

    pub fn submit(&self, slot: &Arc<Slot>, mode: ScriptMode, work: ScriptWork) -> Result<(), StoreError> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(StoreError::closed());
        }
        state.queue.push(slot, ReadTask { mode, work, since: Instant::now() })?;
        self.call_another(state);
        Ok(())
    }

    /// Wakes an idle thread if a task may be begun, now or soon. A woken thread counts as busy, so that the number of
    /// woken threads does not exceed the number of tasks.
    fn call_another(&self, mut state: MutexGuard<'_, ReaderState>) {
        if state.idle.is_empty() || state.queue.first_task().is_none() {
            return;
        }
        let called = if state.may_take() {
            let called = state.idle.pop();
            if let Some(at) = called {
                state.began[at] = Some(Instant::now());
            }
            called
        } else if state.watcher.is_none() {
            state.watcher = state.idle.last().copied();
            state.watcher
        } else {
            None
        };
        drop(state);
        if let Some(at) = called {
            self.wake[at].notify_one();
        }
    }

    /// Makes all threads drop their connections of past generations, including idle threads.
    pub fn sweep(&self) {
        lock(&self.state).sweeps += 1;
        self.wake.iter().for_each(Condvar::notify_one);
    }

    /// Refuses new tasks. The threads end when the old ones are done.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.wake.iter().for_each(Condvar::notify_one);
    }

    /// Waits for the next task of a thread. Returns `None` after the last one.
    fn wait_for_task(&self, at: usize, last_slot: Option<Arc<Slot>>, swept: &mut u64) -> Option<ReaderStep> {
        let mut state = lock(&self.state);
        if let Some(slot) = last_slot {
            state.queue.release_thread(&slot);
        }
        loop {
            state.began[at] = None;
            if *swept != state.sweeps {
                *swept = state.sweeps;
                return Some(ReaderStep::Sweep);
            }
            if state.may_take()
                && let Some((slot, task)) = state.queue.take_task(None)
            {
                state.began[at] = Some(Instant::now());
                state.watcher = state.watcher.filter(|&watcher| watcher != at);
                // A thread was released, so several databases may be allowed another one now.
                self.call_another(state);
                return Some(ReaderStep::Task(slot, task));
            }
            if state.closed && state.queue.is_empty() {
                drop(state);
                self.wake.iter().for_each(Condvar::notify_one);
                return None;
            }
            state.idle.push(at);
            if state.watcher.is_none() && state.queue.first_task().is_some() {
                state.watcher = Some(at);
            }
            if state.watcher == Some(at) {
                (state, _) = self.wake[at].wait_timeout(state, SHORT_READ).unwrap_or_else(PoisonError::into_inner);
                state.watcher = None;
            } else {
                state = self.wake[at].wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.idle.retain(|&idle| idle != at);
        }
    }

    /// Runs a reader thread until the store is closed.
    pub fn serve(&self, at: usize, settings: &SqliteSettings) {
        let mut open = OpenConnections::new(ConnectionPurpose::Read, settings.open_limits.reader);
        let (mut swept, mut last_slot) = (0, None);
        while let Some(next) = self.wait_for_task(at, last_slot.take(), &mut swept) {
            match next {
                ReaderStep::Sweep => open.sweep(),
                ReaderStep::Task(slot, mut task) => {
                    // Panics of scripts are caught where they run; this catches all others.
                    let outcome = catch_unwind(AssertUnwindSafe(|| read(&mut open, settings, &slot, &mut task)));
                    let outcome = outcome.unwrap_or_else(|panic| {
                        open.close(&slot);
                        Err(panicked(&*panic))
                    });
                    if let Err(error) = outcome {
                        task.work.fail(error);
                    }
                    task.work.answer();
                    last_slot = Some(slot);
                }
            }
        }
    }
}

impl ReaderState {
    /// Returns whether one more thread may begin the next task.
    fn may_take(&self) -> bool {
        let Some((_, task)) = self.queue.first_task() else { return false };
        let is_at_short = |began: &&Option<Instant>| began.is_some_and(|began| began.elapsed() < SHORT_READ);
        let has_few_at_work = || self.began.iter().filter(is_at_short).count() < self.few;
        self.closed || has_few_at_work() || task.since.elapsed() >= SHORT_READ
    }
}

fn read(
    open: &mut OpenConnections,
    settings: &SqliteSettings,
    slot: &Arc<Slot>,
    task: &mut ReadTask,
) -> Result<(), StoreError> {
    // The caller has gone, the task has waited for longer than a script may run, or it was given up.
    if !task.work.is_wanted() || task.since.elapsed() > settings.options.time_limit || !task.work.begin() {
        return Err(StoreError::Busy);
    }
    let conn = open.get(settings, slot)?;
    let whole = task.mode != ScriptMode::ShortRead;
    if whole {
        conn.as_sqlite().control("BEGIN")?;
    }
    conn.start(whole, settings.options.time_limit);
    task.work.run(conn);
    let connection = conn.as_sqlite();
    // The read has changed nothing, so COMMIT is equivalent to ROLLBACK for every outcome.
    if whole
        && !connection.is_autocommit()
        && let Err(error) = connection.control("COMMIT")
    {
        open.close(slot);
        return Err(error);
    }
    Ok(())
}

/// Runs a script immediately, on a connection of the calling thread.
pub(super) fn read_short<T, E: From<StoreError>>(
    settings: &SqliteSettings,
    slot: &Arc<Slot>,
    script: &impl Fn(&mut Conn) -> Result<T, E>,
) -> Result<T, E> {
    thread_local! {
        static OPEN: RefCell<OpenConnections> = RefCell::new(OpenConnections::new(ConnectionPurpose::Read, 1));
    }
    OPEN.with_borrow_mut(|open| {
        open.capacity = settings.open_limits.caller;
        let conn = open.get(settings, slot)?;
        conn.start(false, settings.options.time_limit);
        attempt(script, conn)
    })
}
