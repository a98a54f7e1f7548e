//! Scripts without their types, so that one queue can store all of them.

use std::any::Any;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::timeout;
use web::metrics::{Counter, Gauge};

use crate::conn::Conn;
use crate::error::StoreError;

/// The time limit of scripts without a limit: longer than any of them runs.
pub(crate) const NO_TIME_LIMIT: Duration = Duration::from_secs(u32::MAX as u64);

/// The mode in which a script runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScriptMode {
    Read,
    ShortRead,
    Write,
    Outside,
}

/// The outcome of a script, a `Result<T, E>` with types that only its caller has. All code except the script is
/// compiled once, not for each type.
type Erased = Box<dyn Any + Send>;

/// Runs a script once. Returns its outcome, and whether that is `Ok`.
type Attempt = dyn FnMut(&mut Conn) -> (Erased, bool) + Send;

/// A script with a place for its outcome. It can be run again, because a deadlock, or another script in the same group
/// commit, may undo it although it is correct.
pub(crate) struct ScriptWork {
    attempt: Box<Attempt>,
    /// Converts an error into an outcome.
    refuse: fn(StoreError) -> Erased,
    outcome: Option<Erased>,
    reply: oneshot::Sender<Erased>,
    turn: ScriptTurn,
    count: ScriptCount,
}

/// The scripts of a store, for metrics. Short reads of SQLite, which run at once, are not among them.
#[derive(Debug, Default)]
pub struct StoreCounts {
    /// Those that wait for a connection.
    pub waiting: Gauge,
    /// Those that run, or wait for their commit.
    pub running: Gauge,
    /// Those that ended.
    pub ended: Counter,
    /// Those that the store failed, for example because the server was not available or the commit failed.
    pub failed: Counter,
}

/// Counts one script as waiting, then as running, until it is dropped.
struct ScriptCount {
    counts: Arc<StoreCounts>,
    is_running: AtomicBool,
}

impl ScriptCount {
    fn new(counts: Arc<StoreCounts>) -> ScriptCount {
        counts.waiting.increment();
        ScriptCount { counts, is_running: AtomicBool::new(false) }
    }

    fn begin(&self) {
        if !self.is_running.swap(true, Ordering::Relaxed) {
            self.counts.waiting.decrement();
            self.counts.running.increment();
        }
    }
}

impl Drop for ScriptCount {
    fn drop(&mut self) {
        let is_running = *self.is_running.get_mut();
        if is_running {
            self.counts.running.decrement()
        } else {
            self.counts.waiting.decrement()
        }
        self.counts.ended.increment();
    }
}

/// The decision whether a waiting script is begun or given up. The first call decides.
#[derive(Clone, Default)]
struct ScriptTurn(Arc<OnceLock<Option<Instant>>>);

impl ScriptTurn {
    /// Returns whether the script may run.
    fn begin(&self) -> bool {
        self.0.get_or_init(|| Some(Instant::now())).is_some()
    }

    /// Returns the time at which the script was begun. `None` if it was not begun; then it never will be.
    fn give_up(&self) -> Option<Instant> {
        *self.0.get_or_init(|| None)
    }
}

/// The caller's end of a script.
pub(crate) struct ScriptOutcome<T, E> {
    reply: oneshot::Receiver<Erased>,
    turn: ScriptTurn,
    types: PhantomData<fn() -> Result<T, E>>,
}

impl<T: 'static, E: From<StoreError> + 'static> ScriptOutcome<T, E> {
    /// Waits for the outcome.
    ///
    /// # Errors
    /// - [`StoreError::Busy`] if the script was not begun within `turn`: then it never runs;
    /// - [`StoreError::Unavailable`] if it ran for `patience` without an outcome; it may still complete.
    pub async fn wait_for(self, turn: Duration, patience: Duration) -> Result<T, E> {
        let outcome = wait(self.reply, self.turn, turn, patience).await?;
        match outcome.downcast::<Result<T, E>>() {
            Ok(outcome) => *outcome,
            Err(_) => Err(E::from(StoreError::given_up())),
        }
    }
}

/// Waits for an outcome, as described at [`ScriptOutcome::wait_for`].
fn wait(
    mut reply: oneshot::Receiver<Erased>,
    turn: ScriptTurn,
    until_begun: Duration,
    patience: Duration,
) -> Pin<Box<dyn Future<Output = Result<Erased, StoreError>> + Send>> {
    Box::pin(async move {
        let outcome = match timeout(until_begun, &mut reply).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let began = turn.give_up().ok_or(StoreError::Busy)?;
                let answer = timeout(patience.saturating_sub(began.elapsed()), reply).await;
                answer.map_err(|_| StoreError::unresponsive_refusal())?
            }
        };
        outcome.map_err(|_| StoreError::given_up())
    })
}

/// Erases the types of a script.
pub(crate) fn work<T, E, F>(script: F, counts: Arc<StoreCounts>) -> (ScriptWork, ScriptOutcome<T, E>)
where
    F: Fn(&mut Conn) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    let ((reply, outcome), turn) = (oneshot::channel(), ScriptTurn::default());
    let attempt = Box::new(move |conn: &mut Conn| {
        let outcome = attempt(&script, conn);
        let is_ok = outcome.is_ok();
        (Box::new(outcome) as Erased, is_ok)
    });
    let refuse = |error| Box::new(Err::<T, E>(E::from(error))) as Erased;
    let work =
        ScriptWork { attempt, refuse, outcome: None, reply, turn: turn.clone(), count: ScriptCount::new(counts) };
    (work, ScriptOutcome { reply: outcome, turn, types: PhantomData })
}

impl ScriptWork {
    /// Claims the turn to run. Returns `false` if the caller has given up the script, so that it must not run any more.
    pub fn begin(&self) -> bool {
        let may_run = self.turn.begin();
        if may_run {
            self.count.begin();
        }
        may_run
    }

    /// Runs the script and stores its outcome. Returns `true` if that is `Ok`, so that the work is to be committed.
    pub fn run(&mut self, conn: &mut Conn) -> bool {
        self.count.begin();
        let (outcome, is_ok) = (self.attempt)(conn);
        self.outcome = Some(outcome);
        is_ok
    }

    /// Returns whether the caller still waits for the outcome.
    pub fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    /// Replaces the outcome by an error.
    pub fn fail(&mut self, error: StoreError) {
        self.count.counts.failed.increment();
        self.outcome = Some((self.refuse)(error));
    }

    /// Sends the outcome to the caller, if it still waits.
    pub fn answer(self) {
        if let Some(outcome) = self.outcome {
            // The work of a caller that disconnected is done nevertheless.
            drop(self.reply.send(outcome));
        }
    }
}

/// Runs a script once. A panic becomes an error, so that it does not end the thread. An `Ok` after a refused statement
/// becomes an error, too (see [`Conn`]).
pub(crate) fn attempt<T, E: From<StoreError>>(
    script: &impl Fn(&mut Conn) -> Result<T, E>,
    conn: &mut Conn,
) -> Result<T, E> {
    let mut outcome = None;
    let failed = guarded(conn, &mut |conn| outcome.insert(script(conn)).is_ok());
    match (outcome, failed) {
        (_, Some(error)) => Err(E::from(error)),
        (Some(outcome), None) => outcome,
        (None, None) => Err(E::from(StoreError::given_up())),
    }
}

/// Runs a script that returns whether it succeeded. Returns the error of a script that panicked, or that succeeded
/// after a refused statement.
fn guarded(conn: &mut Conn, script: &mut dyn FnMut(&mut Conn) -> bool) -> Option<StoreError> {
    let outcome = catch_unwind(AssertUnwindSafe(|| script(conn)));
    let failed = conn.finish();
    match outcome {
        Ok(true) => failed,
        Ok(false) => None,
        Err(panic) => Some(panicked(&*panic)),
    }
}

/// Turns a caught panic into an error.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> StoreError {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("no message");
    tracing::error!(panic = text, "a database script panicked");
    StoreError::Db(format!("a script panicked: {text}"))
}
