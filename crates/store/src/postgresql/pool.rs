//! The threads that own the connections, and the distribution of tasks among them.
//!
//! Few threads run the short tasks, so that a thread and the server's process behind its connection continue without
//! sleeping. On two cores, four threads were faster than sixteen by a factor of 1.2 to 1.7. A thread whose task runs
//! for longer than [`SHORT_TASK`] is not counted, and a task that has waited for that long gets another thread. So slow
//! scripts do not delay the others, and a distant server or a slow disk gets more tasks at a time. `task_queue.rs`
//! decides which database is next and limits its number of threads.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::connection::{ConnectionFailure, PostgresConnection};
use super::schema::{BEGIN_SCHEMA, select_database};
use super::settings::{PostgresSettings, SHORT_TASK};
use crate::conn::Conn;
use crate::error::StoreError;
use crate::migrate;
use crate::slot::Slot;
use crate::task_queue::TaskQueue;
use crate::work::{NO_TIME_LIMIT, ScriptMode, ScriptWork, panicked};
use web::lock;

/// The number of times that the first task may be passed over for a task of the database that a thread served last.
const MAX_PASSED_OVER: u32 = 8;
/// The maximum number of runs of one script.
const MAX_RUNS: u32 = 3;

/// The place where a task runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskKind {
    /// In its database.
    Script(ScriptMode),
    /// Outside any schema, because it creates or removes one.
    Schema,
}

struct PoolTask {
    slot: Arc<Slot>,
    kind: TaskKind,
    work: ScriptWork,
    since: Instant,
}

/// The threads and their queue.
pub(super) struct Pool {
    state: Mutex<PoolState>,
    /// Wakes threads, one condition for each.
    wake: Vec<Condvar>,
    /// The duration of a task after which its thread counts as waiting for a server that does not answer.
    time_limit: Duration,
}

struct PoolState {
    workers: Vec<PoolWorker>,
    /// The idle threads. The first one has been idle for the longest time.
    idle: VecDeque<usize>,
    /// The tasks that found no idle thread, and the number of threads of each database.
    queue: TaskQueue<PoolTask>,
    /// The number of times that the first of those tasks was passed over.
    passed: u32,
    /// The maximum number of threads that run short tasks at the same time.
    few: usize,
    /// Is true if an idle thread watches the queue, to run a task that has waited for long.
    is_watched: bool,
    closed: bool,
}

#[derive(Default)]
struct PoolWorker {
    /// The id of the slot that it served last.
    last: Option<u64>,
    /// The task that was assigned to it while it was idle.
    next: Option<PoolTask>,
    /// The database that it works for.
    slot: Option<Arc<Slot>>,
    /// Is true if its last task was a short one.
    was_short: bool,
    /// The time at which it began its present task.
    began: Option<Instant>,
}

impl Pool {
    pub fn new(count: usize, time_limit: Duration) -> Pool {
        let workers = (0..count).map(|_| PoolWorker::default()).collect();
        let few_threads = 2 * std::thread::available_parallelism().map_or(2, usize::from);
        let (idle, queue) = (VecDeque::new(), TaskQueue::new(count));
        let state = PoolState { workers, idle, queue, passed: 0, few: few_threads, is_watched: false, closed: false };
        Pool { state: Mutex::new(state), wake: (0..count).map(|_| Condvar::new()).collect(), time_limit }
    }

    pub fn submit(&self, slot: &Arc<Slot>, kind: TaskKind, work: ScriptWork) -> Result<(), StoreError> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(StoreError::closed());
        }
        let task = PoolTask { slot: slot.clone(), kind, work, since: Instant::now() };
        if state.has_few_at_work()
            && !state.idle.is_empty()
            && state.queue.start(slot)
            && let Some(at) = state.choose(slot)
        {
            state.workers[at].next = Some(task);
            drop(state);
            self.wake[at].notify_one();
            return Ok(());
        }
        if state.is_stuck(slot, self.time_limit) {
            return Err(StoreError::unresponsive_refusal());
        }
        state.queue.push(slot, task)?;
        self.call_watcher(state);
        Ok(())
    }

    /// Wakes an idle thread to watch the queue, if tasks wait without a watcher.
    fn call_watcher(&self, state: MutexGuard<'_, PoolState>) {
        if !state.is_watched
            && state.queue.first_task().is_some()
            && let Some(&at) = state.idle.front()
        {
            drop(state);
            self.wake[at].notify_one();
        }
    }

    /// Refuses new tasks. The threads end when the old ones are done.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.wake.iter().for_each(Condvar::notify_one);
    }

    /// Waits for the next task. Returns `None` after the last one.
    fn wait_for_task(&self, at: usize) -> Option<PoolTask> {
        let mut state = lock(&self.state);
        let worker = &mut state.workers[at];
        worker.was_short = worker.began.take().is_some_and(|began| began.elapsed() < SHORT_TASK);
        if let Some(slot) = worker.slot.take() {
            state.queue.release_thread(&slot);
        }
        state.idle.push_back(at);
        let mut is_awake = true;
        let task = loop {
            if let Some(task) = state.workers[at].next.take() {
                break task;
            }
            if let Some(task) = state.take_task(at, is_awake) {
                state.idle.retain(|&idle| idle != at);
                break task;
            }
            if state.closed && state.queue.is_empty() {
                drop(state);
                // Threads that may not run any of the tasks need not wait any longer.
                self.wake.iter().for_each(Condvar::notify_one);
                return None;
            }
            is_awake = false;
            if state.queue.first_task().is_none() || state.is_watched {
                state = self.wake[at].wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                state.is_watched = true;
                (state, _) = self.wake[at].wait_timeout(state, SHORT_TASK).unwrap_or_else(PoisonError::into_inner);
                state.is_watched = false;
            }
        };
        state.workers[at].began = Some(Instant::now());
        self.call_watcher(state);
        Some(task)
    }

    /// Runs a thread until the store is closed.
    pub fn serve(&self, at: usize, settings: &PostgresSettings) {
        let mut conn = None;
        while let Some(mut task) = self.wait_for_task(at) {
            // A write is done even if its caller no longer waits for the outcome.
            let is_wanted = task.kind != TaskKind::Script(ScriptMode::Read) || task.work.is_wanted();
            if !is_wanted || task.since.elapsed() > settings.time_limit || !task.work.begin() {
                task.work.fail(StoreError::Busy);
            } else if let Err(panic) = catch_unwind(AssertUnwindSafe(|| serve(&mut conn, settings, &mut task))) {
                // Panics of scripts are caught where they run, so this one is a panic of the driver.
                conn = None;
                task.work.fail(panicked(&*panic));
            }
            task.work.answer();
        }
    }
}

impl PoolState {
    /// Chooses an idle thread for a database: the one that served it last, otherwise a new one, otherwise the one with
    /// the longest idle time.
    fn choose(&mut self, slot: &Arc<Slot>) -> Option<usize> {
        let workers = &self.workers;
        // The one of several that worked last is chosen, so that the others may sleep.
        let same_database = self.idle.iter().rposition(|&at| workers[at].last == Some(slot.id));
        let place = same_database.or_else(|| self.idle.iter().position(|&at| workers[at].last.is_none())).unwrap_or(0);
        let at = self.idle.remove(place)?;
        let worker = &mut self.workers[at];
        (worker.last, worker.slot, worker.began) = (Some(slot.id), Some(slot.clone()), Some(Instant::now()));
        Some(at)
    }

    /// Returns whether all threads that a database may have wait for a server that does not answer.
    fn is_stuck(&self, slot: &Slot, time_limit: Duration) -> bool {
        let is_stuck = |worker: &PoolWorker| worker.began.is_some_and(|began| began.elapsed() > time_limit);
        if self.queue.may_have_more(slot) {
            return false;
        }
        let mut own = self.workers.iter().filter(|worker| worker.slot.as_ref().is_some_and(|own| own.id == slot.id));
        match own.next() {
            Some(first) => is_stuck(first) && own.all(is_stuck),
            None => self.workers.iter().all(is_stuck),
        }
    }

    fn has_few_at_work(&self) -> bool {
        let is_at_short = |worker: &&PoolWorker| worker.began.is_some_and(|began| began.elapsed() < SHORT_TASK);
        self.workers.iter().filter(is_at_short).count() < self.few
    }

    /// Removes the next task for a thread. A thread that has just ended a task is awake and may run any. A woken thread
    /// leaves recent tasks to the others, which finish soon.
    fn take_task(&mut self, at: usize, is_awake: bool) -> Option<PoolTask> {
        let (first, task) = self.queue.first_task()?;
        let (first, is_due) = (first.id, task.since.elapsed() >= SHORT_TASK);
        let may = is_due || self.closed || is_awake && self.has_few_at_work();
        if !may {
            return None;
        }
        // After a slow task the thread does not prefer its database, so that slow tasks of one database do not follow
        // each other.
        let suits = self.workers[at].last.filter(|_| self.passed < MAX_PASSED_OVER && self.workers[at].was_short);
        let (slot, task) = self.queue.take_task(suits)?;
        self.passed = if slot.id == first { 0 } else { self.passed + 1 };
        let worker = &mut self.workers[at];
        (worker.last, worker.slot) = (Some(slot.id), Some(slot));
        Some(task)
    }
}

/// Runs a task, and again if that may help. The task then contains the outcome.
fn serve(conn: &mut Option<Conn>, settings: &PostgresSettings, task: &mut PoolTask) {
    for attempt in 1..=MAX_RUNS {
        let is_unfinished = run(conn, settings, task);
        if conn.as_mut().is_some_and(|conn| conn.as_postgres().take_trouble() == Some(ConnectionFailure::Broken)) {
            *conn = None;
        }
        if !is_unfinished {
            break;
        }
        if attempt < MAX_RUNS && conn.is_some() {
            // The script with which it collided gets a moment to finish.
            std::thread::sleep(Duration::from_millis(u64::from(attempt) * 5));
        }
    }
}

/// Runs a task once. Returns `true` if the task has no lasting effect and may succeed when it runs again.
fn run(stored_conn: &mut Option<Conn>, settings: &PostgresSettings, task: &mut PoolTask) -> bool {
    let conn = match stored_conn {
        Some(conn) => conn,
        None => match settings.connect() {
            Ok(conn) => stored_conn.insert(conn),
            Err(error) => {
                task.work.fail(error);
                return false;
            }
        },
    };
    let begin = match task.kind {
        TaskKind::Script(ScriptMode::Read) => Some("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
        TaskKind::Script(ScriptMode::Write) => Some("BEGIN ISOLATION LEVEL READ COMMITTED"),
        TaskKind::Script(ScriptMode::ShortRead) => None,
        TaskKind::Script(ScriptMode::Outside) => Some("SET statement_timeout = 0"),
        TaskKind::Schema => Some(BEGIN_SCHEMA),
    };
    let only_reads = matches!(task.kind, TaskKind::Script(ScriptMode::Read | ScriptMode::ShortRead));
    let entered = match task.kind {
        TaskKind::Schema => Ok(()),
        TaskKind::Script(_) => {
            select_database(conn, &task.slot, migrate::migrations_of(&settings.migrations, &task.slot))
        }
    };
    let connection = conn.as_postgres();
    let transaction_start = entered.and_then(|()| match (task.kind, begin) {
        (TaskKind::Script(ScriptMode::Read | ScriptMode::Write), Some(sql)) => {
            connection.begin_later(sql);
            Ok(())
        }
        (_, Some(sql)) => connection.control(sql),
        (_, None) => Ok(()),
    });
    if let Err(error) = transaction_start {
        task.work.fail(error);
        // The script has not run yet, so even a write can be run again on another connection.
        return is_worth_another_try(connection.take_trouble(), stored_conn);
    }

    if task.kind == TaskKind::Script(ScriptMode::Outside) {
        conn.start(false, NO_TIME_LIMIT);
        task.work.run(conn);
        // Such scripts are rare, and their connection has lost its time limit.
        *stored_conn = None;
        return false;
    }
    conn.start(begin.is_some(), settings.time_limit);
    let keep = task.work.run(conn);
    let connection = conn.as_postgres();
    let mut trouble = connection.take_trouble();
    // An idle connection that the server has closed fails at the first statement.
    let is_unbegun = matches!(task.kind, TaskKind::Script(_)) && !connection.has_begun();
    let is_undone = trouble == Some(ConnectionFailure::Broken) && is_unbegun;
    if begin.is_some() && trouble != Some(ConnectionFailure::Broken) {
        if keep && trouble.is_none() {
            trouble = commit(connection, &mut task.work);
        } else {
            connection.roll_back();
        }
    }
    if trouble == Some(ConnectionFailure::Broken) {
        // A commit may have succeeded, so the script of a write must not be run again.
        *stored_conn = None;
        return only_reads || is_undone;
    }
    trouble.is_some()
}

/// Commits a transaction. Returns the failure of the connection, if the commit failed by it.
fn commit(connection: &mut PostgresConnection, work: &mut ScriptWork) -> Option<ConnectionFailure> {
    match connection.control("COMMIT") {
        Ok(()) => None,
        Err(error) => {
            work.fail(error);
            connection.take_trouble()
        }
    }
}

fn is_worth_another_try(trouble: Option<ConnectionFailure>, stored_conn: &mut Option<Conn>) -> bool {
    if trouble == Some(ConnectionFailure::Broken) {
        *stored_conn = None;
    }
    trouble.is_some()
}
