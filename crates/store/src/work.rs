//! Scripts with their types erased, so that queues can hold them.

use std::any::Any;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::conn::Conn;
use crate::error::StoreError;

/// The time limit of scripts that have none: longer than any of them runs.
pub(crate) const NO_TIME_LIMIT: Duration = Duration::from_secs(u32::MAX as u64);

/// How a script is to be run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScriptMode {
    Read,
    ShortRead,
    Write,
    Outside,
}

/// The outcome of a script, a `Result<T, E>` whose types its caller knows. Everything but the script itself is compiled once,
/// not for each type.
type Erased = Box<dyn Any + Send>;

/// Runs a script once. Returns its outcome, and whether that is `Ok`.
type Attempt = dyn FnMut(&mut Conn) -> (Erased, bool) + Send;

/// A script with a place for its outcome. It can be run again, because a deadlock, or another script in the same group
/// commit, may undo it through no fault of its own.
pub(crate) struct ScriptWork {
    attempt: Box<Attempt>,
    /// Makes an outcome of an error.
    refuse: fn(StoreError) -> Erased,
    outcome: Option<Erased>,
    reply: oneshot::Sender<Erased>,
    turn: ScriptTurn,
}

/// Whether a script that waits is begun or given up. The first of the two decides.
#[derive(Clone, Default)]
struct ScriptTurn(Arc<OnceLock<Option<Instant>>>);

impl ScriptTurn {
    /// Whether it may run.
    fn begin(&self) -> bool {
        self.0.get_or_init(|| Some(Instant::now())).is_some()
    }

    /// When it was begun; `None`: it was not, and never will be.
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
    /// [`StoreError::Busy`] if the script was not begun within `turn`: then it is never run. [`StoreError::Unavailable`] if it ran for
    /// `patience` without an outcome; it may still come to its end.
    pub async fn wait_for(self, turn: Duration, patience: Duration) -> Result<T, E> {
        let outcome = wait(self.reply, self.turn, turn, patience).await?;
        match outcome.downcast::<Result<T, E>>() {
            Ok(outcome) => *outcome,
            Err(_) => Err(E::from(StoreError::given_up())),
        }
    }
}

/// Waits for an outcome, as [`ScriptOutcome::wait_for`] says.
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
pub(crate) fn work<T, E, F>(script: F) -> (ScriptWork, ScriptOutcome<T, E>)
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
    let work = ScriptWork { attempt, refuse, outcome: None, reply, turn: turn.clone() };
    (work, ScriptOutcome { reply: outcome, turn, types: PhantomData })
}

impl ScriptWork {
    /// Takes the turn to run; `false` if the caller has given the script up, so that it must not run any more.
    pub fn begin(&self) -> bool {
        self.turn.begin()
    }

    /// Runs the script and keeps its outcome. `true` if that is `Ok`, so that the work is to be committed.
    pub fn run(&mut self, conn: &mut Conn) -> bool {
        let (outcome, is_ok) = (self.attempt)(conn);
        self.outcome = Some(outcome);
        is_ok
    }

    /// Whether the caller still waits for the outcome.
    pub fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    /// Replaces the outcome by an error.
    pub fn fail(&mut self, error: StoreError) {
        self.outcome = Some((self.refuse)(error));
    }

    /// Sends the outcome to the caller, if it still waits.
    pub fn answer(self) {
        if let Some(outcome) = self.outcome {
            // If the caller has gone, its work is done all the same.
            drop(self.reply.send(outcome));
        }
    }
}

/// Runs a script once. A panic becomes an error, so that it ends no thread, and so does an `Ok` after a refused statement
/// (see [`Conn`]).
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

/// Runs a script that says whether it succeeded. Returns the error of one that panicked, or that succeeded after a refused
/// statement.
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
