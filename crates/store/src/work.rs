//! Scripts with their types erased, so that queues can hold them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tokio::sync::oneshot;

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
}

/// The channel on which the outcome of a script arrives.
pub(crate) type Outcome<T, E> = oneshot::Receiver<Result<T, E>>;

/// Erases the types of a script.
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
