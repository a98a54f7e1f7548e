//! Reader threads, and peeking on the caller's own.
//!
//! Short reads are done by as many threads as there are processors, which more would only disturb. Those that are at
//! something longer are not counted among them, and what has waited for as long gets another thread: so slow reads hold up
//! nobody, but as many of their own database as `task_queue.rs` allows.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::open::Purpose;
use super::open_connections::OpenConnections;
use super::settings::Settings;
use crate::conn::Conn;
use crate::error::Error;
use crate::slot::{Slot, lock};
use crate::task_queue::TaskQueue;
use crate::work::{Mode, Work, attempt, panicked};

/// How long a read is taken for a short one, and how long one waits at most while somebody could see to it.
const SHORT_READ: Duration = Duration::from_millis(10);

/// The threads, and what waits for them.
pub(super) struct Readers {
    state: Mutex<State>,
    /// One for each thread.
    wake: Vec<Condvar>,
}

struct State {
    queue: TaskQueue<Task>,
    /// Idle threads. The one that worked last goes on, so that few of them do what few can do, with what they have open.
    idle: Vec<usize>,
    /// When each thread began what it is doing, or was called to do something.
    began: Vec<Option<Instant>>,
    /// How many threads do short reads at a time.
    few: usize,
    /// The idle thread that looks again after [`SHORT_READ`], to take what has waited for long.
    watcher: Option<usize>,
    /// Counts the times that threads are to look for connections they must not keep.
    sweeps: u64,
    closed: bool,
}

struct Task {
    mode: Mode,
    work: Box<dyn Work>,
    since: Instant,
}

enum Next {
    Task(Arc<Slot>, Task),
    Sweep,
}

impl Readers {
    pub fn new(threads: usize) -> Readers {
        let state = State {
            queue: TaskQueue::new(threads),
            idle: Vec::new(),
            began: vec![None; threads],
            few: std::thread::available_parallelism().map_or(2, usize::from).max(2),
            watcher: None,
            sweeps: 0,
            closed: false,
        };
        Readers { state: Mutex::new(state), wake: (0..threads).map(|_| Condvar::new()).collect() }
    }

    pub fn submit(&self, slot: &Arc<Slot>, mode: Mode, work: Box<dyn Work>) -> Result<(), Error> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(Error::closed());
        }
        state.queue.push(slot, Task { mode, work, since: Instant::now() })?;
        self.call_another(state);
        Ok(())
    }

    /// Calls a thread if there is something that one may do, now or soon. Those that are on their way count as at work, so
    /// that no more are called than can have something to do.
    fn call_another(&self, mut state: MutexGuard<'_, State>) {
        if state.idle.is_empty() || state.queue.first().is_none() {
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

    /// Makes idle threads, too, drop connections of past generations.
    pub fn sweep(&self) {
        lock(&self.state).sweeps += 1;
        self.wake.iter().for_each(Condvar::notify_one);
    }

    /// Refuses new tasks; the threads end when they have done the old ones.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.wake.iter().for_each(Condvar::notify_one);
    }

    /// Waits for what a thread is to do next; `None` when there will be nothing.
    fn take(&self, at: usize, done: Option<Arc<Slot>>, swept: &mut u64) -> Option<Next> {
        let mut state = lock(&self.state);
        if let Some(slot) = done {
            state.queue.done(&slot);
        }
        loop {
            state.began[at] = None;
            if *swept != state.sweeps {
                *swept = state.sweeps;
                return Some(Next::Sweep);
            }
            if state.may_take()
                && let Some((slot, task)) = state.queue.take(None)
            {
                state.began[at] = Some(Instant::now());
                state.watcher = state.watcher.filter(|&watcher| watcher != at);
                // That one thread more is free may let two databases have one more.
                self.call_another(state);
                return Some(Next::Task(slot, task));
            }
            if state.closed && state.queue.is_empty() {
                drop(state);
                self.wake.iter().for_each(Condvar::notify_one);
                return None;
            }
            state.idle.push(at);
            if state.watcher.is_none() && state.queue.first().is_some() {
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

    /// The life of a reader thread.
    pub fn serve(&self, at: usize, settings: &Settings) {
        let mut open = OpenConnections::new(Purpose::Read, settings.open_limits.reader);
        let (mut swept, mut done) = (0, None);
        while let Some(next) = self.take(at, done.take(), &mut swept) {
            match next {
                Next::Sweep => open.sweep(),
                Next::Task(slot, mut task) => {
                    // Scripts' panics are caught nearer to them.
                    let read = catch_unwind(AssertUnwindSafe(|| read(&mut open, settings, &slot, &mut task)));
                    let read = read.unwrap_or_else(|panic| {
                        open.close(&slot);
                        Err(panicked(&*panic))
                    });
                    if let Err(error) = read {
                        task.work.fail(error);
                    }
                    task.work.answer();
                    done = Some(slot);
                }
            }
        }
    }
}

impl State {
    /// Whether what is next is to be begun by one thread more.
    fn may_take(&self) -> bool {
        let Some((_, task)) = self.queue.first() else { return false };
        let is_at_short = |began: &&Option<Instant>| began.is_some_and(|began| began.elapsed() < SHORT_READ);
        let has_few_at_work = || self.began.iter().filter(is_at_short).count() < self.few;
        self.closed || has_few_at_work() || task.since.elapsed() >= SHORT_READ
    }
}

fn read(open: &mut OpenConnections, settings: &Settings, slot: &Arc<Slot>, task: &mut Task) -> Result<(), Error> {
    // Nobody waits for an answer any more, or has waited for as long as a script may run.
    if !task.work.is_wanted() || task.since.elapsed() > settings.options.time_limit {
        return Err(Error::Busy);
    }
    let conn = open.get(settings, slot)?;
    let whole = task.mode != Mode::ShortRead;
    if whole {
        conn.as_sqlite().control("BEGIN")?;
    }
    conn.start(whole, settings.options.time_limit);
    task.work.run(conn);
    let connection = conn.as_sqlite();
    // Nothing can have been changed, so COMMIT is as good as ROLLBACK, whatever the script came to.
    if whole
        && !connection.is_autocommit()
        && let Err(error) = connection.control("COMMIT")
    {
        open.close(slot);
        return Err(error);
    }
    Ok(())
}

/// Runs a script here and now, on a connection that this thread keeps.
pub(super) fn read_short<T, E: From<Error>>(
    settings: &Settings,
    slot: &Arc<Slot>,
    script: &impl Fn(&mut Conn) -> Result<T, E>,
) -> Result<T, E> {
    thread_local! {
        static OPEN: RefCell<OpenConnections> = RefCell::new(OpenConnections::new(Purpose::Read, 1));
    }
    OPEN.with_borrow_mut(|open| {
        open.capacity = settings.open_limits.caller;
        let conn = open.get(settings, slot)?;
        conn.start(false, settings.options.time_limit);
        attempt(script, conn)
    })
}
