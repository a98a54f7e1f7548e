//! Writer threads and group commit.
//!
//! A commit costs a sync of the disk, independent of its size. So a writer commits all waiting scripts of one database
//! together, and answers their callers after COMMIT (13,400 durable inserts a second instead of 4,800). A script that
//! fails must not affect what is committed: see [`Isolation`].

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::open::ConnectionPurpose;
use super::open_connections::OpenConnections;
use super::settings::SqliteSettings;
use crate::conn::Conn;
use crate::error::StoreError;
use crate::slot::Slot;
use crate::work::{NO_TIME_LIMIT, ScriptWork, panicked};
use web::lock;

/// The maximum number of scripts in one commit.
const MAX_GROUP: usize = 64;
/// The maximum duration of a group before its commit, so that its first script does not wait for many slow ones.
const MAX_GROUP_TIME: Duration = Duration::from_millis(200);
/// The maximum number of waiting tasks of one thread. Further tasks are refused with [`StoreError::Busy`].
const MAX_WAITING: usize = 4096;

/// A task for a writer thread.
pub(super) enum WriteTask {
    Write(ScriptWork),
    /// A function that runs alone, in turn with the writes.
    Alone(Box<dyn FnOnce(&mut OpenConnections) + Send>),
}

/// The queue of one writer thread.
#[derive(Default)]
pub(super) struct WriterThread {
    waiting: Mutex<WriteQueue>,
    wake: Condvar,
}

#[derive(Default)]
struct WriteQueue {
    /// The databases that have tasks, each once. They take turns, so that a busy one does not starve the others.
    turns: VecDeque<Arc<Slot>>,
    /// The tasks of the databases, by the id of the slot.
    tasks: HashMap<u64, VecDeque<WriteTask>>,
    count: usize,
    closed: bool,
}

enum WriteBatch {
    Writes(VecDeque<ScriptWork>),
    Alone(Box<dyn FnOnce(&mut OpenConnections) + Send>),
}

impl WriterThread {
    pub fn submit(&self, slot: &Arc<Slot>, task: WriteTask) -> Result<(), StoreError> {
        let mut waiting = lock(&self.waiting);
        if waiting.closed {
            return Err(StoreError::closed());
        }
        // A database gets one more place only while more are free than it has, so that other databases find places.
        let free = MAX_WAITING - waiting.count;
        if waiting.tasks.get(&slot.id).map_or(0, VecDeque::len) >= free {
            return Err(StoreError::Busy);
        }
        waiting.count += 1;
        let tasks = waiting.tasks.entry(slot.id).or_default();
        tasks.push_back(task);
        if tasks.len() == 1 {
            waiting.turns.push_back(slot.clone());
        }
        drop(waiting);
        self.wake.notify_one();
        Ok(())
    }

    /// Refuses new tasks. The thread ends when the old ones are done.
    pub fn close(&self) {
        lock(&self.waiting).closed = true;
        self.wake.notify_one();
    }

    /// Waits for the next batch. Returns `None` after the last one of a closed store.
    fn wait_for_batch(&self) -> Option<(Arc<Slot>, WriteBatch)> {
        let mut waiting = lock(&self.waiting);
        loop {
            if let Some(slot) = waiting.turns.pop_front() {
                let mut tasks = waiting.tasks.remove(&slot.id).unwrap_or_default();
                let batch = next_batch(&mut tasks);
                waiting.count -= match &batch {
                    WriteBatch::Writes(group) => group.len(),
                    WriteBatch::Alone(_) => 1,
                };
                if !tasks.is_empty() {
                    waiting.tasks.insert(slot.id, tasks);
                    waiting.turns.push_back(slot.clone());
                }
                return Some((slot, batch));
            }
            if waiting.closed {
                return None;
            }
            waiting = self.wake.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Runs a writer thread until the store is closed.
    pub fn serve(&self, settings: &SqliteSettings) {
        let mut open = OpenConnections::new(ConnectionPurpose::Write, settings.open_limits.writer);
        while let Some((slot, batch)) = self.wait_for_batch() {
            // Panics of scripts are caught where they run. After any other panic this thread must continue to serve its
            // databases.
            let outcome = catch_unwind(AssertUnwindSafe(|| perform(&mut open, settings, &slot, batch)));
            if let Err(panic) = outcome {
                panicked(&*panic);
                open.close(&slot);
            }
        }
        open.finish();
    }
}

fn perform(open: &mut OpenConnections, settings: &SqliteSettings, slot: &Arc<Slot>, batch: WriteBatch) {
    match batch {
        WriteBatch::Alone(task) => task(open),
        WriteBatch::Writes(group) => match open.get(settings, slot) {
            Ok(conn) => {
                let is_sound = commit(conn, group, settings.options.time_limit);
                conn.as_sqlite().tidy();
                if !is_sound {
                    open.close(slot);
                }
            }
            Err(error) => fail(group, &error),
        },
    }
}

/// Runs a script outside any transaction and without a time limit.
pub(super) fn run_outside(
    open: &mut OpenConnections,
    settings: &SqliteSettings,
    slot: &Arc<Slot>,
    mut work: ScriptWork,
) {
    match open.get(settings, slot) {
        Ok(conn) => {
            conn.start(false, NO_TIME_LIMIT);
            work.run(conn);
            // The script may have run BEGIN itself.
            roll_back(conn);
            conn.as_sqlite().tidy();
        }
        Err(error) => work.fail(error),
    }
    work.answer();
}

fn next_batch(tasks: &mut VecDeque<WriteTask>) -> WriteBatch {
    let mut group = VecDeque::new();
    while group.len() < MAX_GROUP {
        match tasks.pop_front() {
            Some(WriteTask::Write(work)) => group.push_back(work),
            Some(WriteTask::Alone(task)) if group.is_empty() => return WriteBatch::Alone(task),
            Some(task) => {
                tasks.push_front(task);
                break;
            }
            None => break,
        }
    }
    WriteBatch::Writes(group)
}

fn fail(group: impl IntoIterator<Item = ScriptWork>, error: &StoreError) {
    for mut work in group {
        work.fail(error.clone());
        work.answer();
    }
}

/// The isolation of the scripts of a group, so that a failed one leaves nothing in the commit of the others.
#[derive(Clone, Copy, PartialEq)]
enum Isolation {
    /// No isolation: most scripts succeed, or fail before they have changed anything.
    None,
    /// Each script has a savepoint, for which SQLite copies every page that it changes.
    Savepoints,
    /// Each script has a transaction of its own.
    Transactions,
}

/// Runs all scripts of a group and commits them, in one transaction if all succeed. Returns `false` if the connection
/// must be closed and opened again.
fn commit(conn: &mut Conn, mut group: VecDeque<ScriptWork>, limit: Duration) -> bool {
    let mut isolation = Isolation::None;
    while !group.is_empty() {
        if let Err(error) = conn.as_sqlite().control("BEGIN IMMEDIATE") {
            fail(group, &error);
            return !matches!(error, StoreError::Unavailable(_));
        }
        let finished_scripts = match run(conn, &mut group, limit, isolation) {
            Ok(finished_scripts) => finished_scripts,
            Err(GroupFailure::Transaction) => continue,
            Err(GroupFailure::Isolation) => {
                roll_back(conn);
                isolation = Isolation::Savepoints;
                continue;
            }
            Err(GroupFailure::Connection(finished_scripts, error)) => {
                roll_back(conn);
                fail(finished_scripts.into_iter().chain(group), &error);
                return false;
            }
        };
        match conn.as_sqlite().control("COMMIT") {
            Ok(()) => finished_scripts.into_iter().for_each(|work| work.answer()),
            Err(error) => {
                roll_back(conn);
                if error == StoreError::Referenced && isolation != Isolation::Transactions {
                    // A constraint that is checked at COMMIT failed. Separate transactions show which script broke it.
                    isolation = Isolation::Transactions;
                    wait_again(&mut group, finished_scripts);
                    continue;
                }
                let sound = !matches!(error, StoreError::Unavailable(_));
                fail(finished_scripts, &error);
                if !sound {
                    fail(group, &error);
                    return false;
                }
            }
        }
    }
    true
}

/// The reason for which the transaction of a group ended before its COMMIT.
enum GroupFailure {
    /// It was rolled back. The script that caused it is answered; the others wait again.
    Transaction,
    /// A script failed after it had changed something, and a savepoint to undo only that was missing. All scripts wait
    /// again.
    Isolation,
    /// Savepoints do not work any more. Carries the scripts that had run.
    Connection(Vec<ScriptWork>, StoreError),
}

/// Runs scripts from the front of the group, and returns those that are to be committed.
///
/// Some errors (a full disk, an interrupted write) roll back the whole transaction, with the work of the scripts
/// before. Those scripts are run again; only the script that caused the error gets it.
fn run(
    conn: &mut Conn,
    group: &mut VecDeque<ScriptWork>,
    limit: Duration,
    isolation: Isolation,
) -> Result<Vec<ScriptWork>, GroupFailure> {
    let started = Instant::now();
    let mut finished_scripts: Vec<ScriptWork> = Vec::new();
    while let Some(mut work) = group.pop_front() {
        if isolation == Isolation::Savepoints
            && let Err(error) = conn.as_sqlite().control("SAVEPOINT script")
        {
            group.push_front(work);
            return Err(GroupFailure::Connection(finished_scripts, error));
        }
        conn.start(true, limit);
        let keep = work.run(conn);
        let connection = conn.as_sqlite();
        if connection.is_autocommit() {
            if keep {
                // The script ran COMMIT or ROLLBACK itself.
                work.fail(StoreError::Db("the script ended its transaction".to_owned()));
            }
            work.answer();
            wait_again(group, finished_scripts);
            return Err(GroupFailure::Transaction);
        }
        if isolation == Isolation::Savepoints {
            let undone = if keep { Ok(()) } else { connection.control("ROLLBACK TO script") };
            finished_scripts.push(work);
            if let Err(error) = undone.and_then(|()| connection.control("RELEASE script")) {
                return Err(GroupFailure::Connection(finished_scripts, error));
            }
        } else if keep || !connection.has_changed() {
            finished_scripts.push(work);
        } else if finished_scripts.is_empty() {
            // The transaction contains no work of other scripts.
            roll_back(conn);
            work.answer();
            return Err(GroupFailure::Transaction);
        } else {
            group.push_front(work);
            wait_again(group, finished_scripts);
            return Err(GroupFailure::Isolation);
        }
        if isolation == Isolation::Transactions || started.elapsed() > MAX_GROUP_TIME {
            break;
        }
    }
    Ok(finished_scripts)
}

fn wait_again(group: &mut VecDeque<ScriptWork>, finished_scripts: Vec<ScriptWork>) {
    finished_scripts.into_iter().rev().for_each(|work| group.push_front(work));
}

fn roll_back(conn: &mut Conn) {
    let connection = conn.as_sqlite();
    if !connection.is_autocommit()
        && let Err(error) = connection.control("ROLLBACK")
    {
        tracing::warn!(%error, "rollback failed");
    }
}
