//! Scripts with their types erased, so that queues can hold them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::conn::Conn;
use crate::error::Error;

/// The time limit of scripts that have none: longer than any of them runs.
pub(crate) const NO_TIME_LIMIT: Duration = Duration::from_secs(u32::MAX as u64);

/// How a script is to be run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Read,
    ShortRead,
    Write,
    Outside,
}

/// A script with a place for its outcome. It can be run again, because a deadlock, or another script in the same group
/// commit, may undo it through no fault of its own.
pub(crate) trait Work: Send {
    /// Takes the turn to run; `false` if the caller has given the script up, so that it must not run any more.
    fn begin(&self) -> bool;
    /// Runs the script and keeps its outcome. `true` if that is `Ok`, so that the work is to be committed.
    fn run(&mut self, conn: &mut Conn) -> bool;
    /// Whether the caller still waits for the outcome.
    fn is_wanted(&self) -> bool;
    /// Replaces the outcome by an error.
    fn fail(&mut self, error: Error);
    /// Sends the outcome to the caller, if it still waits.
    fn answer(self: Box<Self>);
}

struct Script<F, T, E> {
    script: F,
    outcome: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
    turn: Turn,
}

/// Whether a script that waits is begun or given up. The first of the two decides.
#[derive(Clone, Default)]
struct Turn(Arc<OnceLock<Option<Instant>>>);

impl Turn {
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
pub(crate) struct Outcome<T, E> {
    reply: oneshot::Receiver<Result<T, E>>,
    turn: Turn,
}

impl<T, E: From<Error>> Outcome<T, E> {
    /// Waits for the outcome.
    ///
    /// # Errors
    /// [`Error::Busy`] if the script was not begun within `turn`: then it is never run. [`Error::Unavailable`] if it ran for
    /// `patience` without an outcome; it may still come to its end.
    pub async fn within(mut self, turn: Duration, patience: Duration) -> Result<T, E> {
        let outcome = match timeout(turn, &mut self.reply).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let began = self.turn.give_up().ok_or_else(|| E::from(Error::Busy))?;
                let answer = timeout(patience.saturating_sub(began.elapsed()), self.reply).await;
                answer.map_err(|_| E::from(Error::no_answer()))?
            }
        };
        outcome.unwrap_or_else(|_| Err(E::from(Error::given_up())))
    }
}

/// Erases the types of a script.
pub(crate) fn work<T, E, F>(script: F) -> (Box<dyn Work>, Outcome<T, E>)
where
    F: Fn(&mut Conn) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: From<Error> + Send + 'static,
{
    let ((reply, outcome), turn) = (oneshot::channel(), Turn::default());
    (Box::new(Script { script, outcome: None, reply, turn: turn.clone() }), Outcome { reply: outcome, turn })
}

impl<T, E, F> Work for Script<F, T, E>
where
    F: Fn(&mut Conn) -> Result<T, E> + Send,
    T: Send,
    E: From<Error> + Send,
{
    fn begin(&self) -> bool {
        self.turn.begin()
    }

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
            // If the caller has gone, its work is done all the same.
            drop(self.reply.send(outcome));
        }
    }
}

/// Runs a script once. A panic becomes an error, so that it ends no thread, and so does an `Ok` after a refused statement
/// (see [`Conn`]).
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
