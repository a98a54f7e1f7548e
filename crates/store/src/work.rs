//! What the engines run: scripts with their types erased, and the databases that they run in.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::conn::Conn;
use crate::error::Error;

/// A script on its way to a database thread and back. It can be run again, because a deadlock or a neighbour in the
/// same group commit may undo it through no fault of its own.
pub(crate) trait Work: Send {
    /// Runs the script and keeps what it came to; `true` if that is `Ok`, so that the work is to be committed.
    fn run(&mut self, conn: &mut Conn) -> bool;
    /// Whether the caller still waits for the outcome.
    fn is_wanted(&self) -> bool;
    /// Replaces whatever the script came to.
    fn fail(&mut self, error: Error);
    /// Tells the caller, if it still listens.
    fn answer(self: Box<Self>);
}

struct Script<F, T, E> {
    script: F,
    outcome: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

/// Where the outcome of a script will appear.
pub(crate) type Outcome<T, E> = oneshot::Receiver<Result<T, E>>;

/// Makes work of a script.
pub(crate) fn work<T, E, F>(script: F) -> (Box<dyn Work>, Outcome<T, E>)
where
    F: Fn(&mut Conn) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: From<Error> + Send + 'static,
{
    let (reply, outcome) = oneshot::channel();
    (Box::new(Script { script, outcome: None, reply }), outcome)
}

impl<T, E, F> Work for Script<F, T, E>
where
    F: Fn(&mut Conn) -> Result<T, E> + Send,
    T: Send,
    E: From<Error> + Send,
{
    fn run(&mut self, conn: &mut Conn) -> bool {
        let outcome = attempt(&self.script, conn);
        let keep = outcome.is_ok();
        self.outcome = Some(outcome);
        keep
    }

    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn fail(&mut self, error: Error) {
        self.outcome = Some(Err(E::from(error)));
    }

    fn answer(self: Box<Self>) {
        if let Some(outcome) = self.outcome {
            // The caller may have gone; its work is done all the same.
            drop(self.reply.send(outcome));
        }
    }
}

/// Runs a script once. A panic becomes an error, so that no thread dies of it, and so does an `Ok` after a refused
/// statement (see [`Conn`]).
pub(crate) fn attempt<T, E: From<Error>>(script: &impl Fn(&mut Conn) -> Result<T, E>, conn: &mut Conn) -> Result<T, E> {
    let outcome = catch_unwind(AssertUnwindSafe(|| script(conn)));
    let failed = conn.finish();
    match (outcome, failed) {
        (Ok(Ok(_)), Some(error)) => Err(E::from(error)),
        (Ok(outcome), _) => outcome,
        (Err(panic), _) => Err(E::from(panicked(&*panic))),
    }
}

/// TaskQueue a caught panic into an error.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("no message");
    tracing::error!(panic = text, "a database script panicked");
    Error::Db(format!("a script panicked: {text}"))
}

/// A database that this process has heard of; there is one slot to a name, and all handles share it.
pub(crate) struct Slot {
    /// Unique in this process, across stores.
    pub id: u64,
    /// The file's stem or the schema's name.
    pub name: String,
    /// SQLite: its file. Unused on PostgreSQL.
    pub file: PathBuf,
    /// Whether it is the control database.
    pub control: bool,
    /// Writes of this process that have ended; on PostgreSQL the control database's slot counts those of all.
    pub writes: AtomicU64,
    /// Held while its migrations are looked at.
    pub preparing: Mutex<()>,
    /// Twice the generation, plus 1 once its migrations are known to have run.
    state: AtomicU64,
}

impl Slot {
    pub fn new(name: String, file: PathBuf, control: bool) -> Slot {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Slot { id, name, file, control, writes: AtomicU64::new(0), preparing: Mutex::new(()), state: AtomicU64::new(0) }
    }

    /// Changes whenever connections opened before must not be used again.
    pub fn generation(&self) -> u64 {
        self.state.load(Ordering::Acquire) >> 1
    }

    /// Begins a new generation, whose migrations are not known to have run.
    pub fn renew(&self) {
        let next = |state: u64| Some((state | 1) + 1);
        // The closure always gives a value, so this cannot fail.
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    }

    pub fn is_prepared(&self) -> bool {
        self.state.load(Ordering::Acquire) & 1 == 1
    }

    /// Notes that the migrations of a generation have run; nothing if another one has begun since.
    pub fn set_prepared(&self, generation: u64) {
        let (from, to) = (generation << 1, (generation << 1) | 1);
        let _ = self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// Locks, whatever became of a thread that held it before: what these locks guard is left whole by every holder.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
