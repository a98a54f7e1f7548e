//! Reader threads, and peeking on the caller's own.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::files::Files;
use super::link::Purpose;
use super::{QUEUE, Settings, is_closed};
use crate::Mode;
use crate::conn::Conn;
use crate::error::Error;
use crate::work::{Slot, Work, attempt, lock, panicked};

/// Open files of one thread.
const OPEN_FILES: usize = 16;

/// The queue that all reader threads share.
#[derive(Default)]
pub(super) struct Readers {
    waiting: Mutex<Waiting>,
    wake: Condvar,
}

#[derive(Default)]
struct Waiting {
    tasks: VecDeque<Task>,
    /// Counts the times that threads are to look for connections they must not keep.
    sweeps: u64,
    closed: bool,
}

struct Task {
    slot: Arc<Slot>,
    mode: Mode,
    work: Box<dyn Work>,
}

enum Next {
    Task(Task),
    Sweep,
}

impl Readers {
    pub fn submit(&self, slot: &Arc<Slot>, mode: Mode, work: Box<dyn Work>) -> Result<(), Error> {
        let mut waiting = lock(&self.waiting);
        if waiting.closed {
            return Err(is_closed());
        }
        if waiting.tasks.len() >= QUEUE {
            return Err(Error::Busy);
        }
        waiting.tasks.push_back(Task { slot: slot.clone(), mode, work });
        drop(waiting);
        self.wake.notify_one();
        Ok(())
    }

    /// Makes idle threads, too, drop connections of past generations.
    pub fn sweep(&self) {
        lock(&self.waiting).sweeps += 1;
        self.wake.notify_all();
    }

    /// Refuses new tasks; the threads end when they have done the old ones.
    pub fn close(&self) {
        lock(&self.waiting).closed = true;
        self.wake.notify_all();
    }

    fn take(&self, swept: &mut u64) -> Option<Next> {
        let mut waiting = lock(&self.waiting);
        loop {
            if *swept != waiting.sweeps {
                *swept = waiting.sweeps;
                return Some(Next::Sweep);
            }
            if let Some(task) = waiting.tasks.pop_front() {
                return Some(Next::Task(task));
            }
            if waiting.closed {
                return None;
            }
            waiting = self.wake.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The life of a reader thread.
    pub fn serve(&self, settings: &Settings) {
        let mut files = Files::new(Purpose::Read, OPEN_FILES);
        let mut swept = 0;
        while let Some(next) = self.take(&mut swept) {
            match next {
                Next::Sweep => files.sweep(),
                Next::Task(mut task) => {
                    // Scripts' panics are caught nearer to them.
                    let done = catch_unwind(AssertUnwindSafe(|| read(&mut files, settings, &mut task)));
                    let done = done.unwrap_or_else(|panic| {
                        files.close(&task.slot);
                        Err(panicked(&*panic))
                    });
                    if let Err(error) = done {
                        task.work.fail(error);
                    }
                    task.work.answer();
                }
            }
        }
    }
}

fn read(files: &mut Files, settings: &Settings, task: &mut Task) -> Result<(), Error> {
    let conn = files.get(settings, &task.slot)?;
    let whole = task.mode != Mode::Peek;
    if whole {
        conn.as_sqlite().control("BEGIN")?;
    }
    conn.start(whole, settings.options.time_limit);
    task.work.run(conn);
    let link = conn.as_sqlite();
    // Nothing can have been changed, so COMMIT is as good as ROLLBACK, whatever the script came to.
    if whole
        && !link.is_autocommit()
        && let Err(error) = link.control("COMMIT")
    {
        files.close(&task.slot);
        return Err(error);
    }
    Ok(())
}

/// Runs a script here and now, on a connection that this thread keeps.
pub(super) fn peek<T, E: From<Error>>(
    settings: &Settings,
    slot: &Arc<Slot>,
    script: &impl Fn(&mut Conn) -> Result<T, E>,
) -> Result<T, E> {
    thread_local! {
        static FILES: RefCell<Files> = RefCell::new(Files::new(Purpose::Read, OPEN_FILES));
    }
    FILES.with_borrow_mut(|files| {
        let conn = files.get(settings, slot)?;
        conn.start(false, settings.options.time_limit);
        attempt(script, conn)
    })
}
