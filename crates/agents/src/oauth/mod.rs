//! The sign-in of agents for a person: OAuth 2.1 (`docs/reference/agent-sign-in.md`).
//!
//! An agent sends a person to `/oauth/authorize`. The person signs in and consents there. The agent gets a code, and exchanges it at
//! `/oauth/token` for the tokens of a grant.

pub mod authorization;
mod authorize;
pub mod client;
pub mod metadata;
mod pages;
mod token;
mod transaction;

pub use authorize::WAY_BACK;

use kit::answer::{Answer, Outcome};
use kit::refusal::Refusal;
use kit::route::Route;

pub fn routes() -> Vec<Route> {
    [metadata::routes(), authorize::routes(), token::routes()].into_iter().flatten().collect()
}

/// The reason for which a step of a sign-in has no result.
pub enum StepFailure {
    /// An answer. Its transaction is committed, for example with the end of a grant.
    Answer(Box<Answer>),
    /// A refusal. Its transaction is rolled back.
    Refusal(Refusal),
}

impl<E: Into<Refusal>> From<E> for StepFailure {
    fn from(refusal: E) -> StepFailure {
        StepFailure::Refusal(refusal.into())
    }
}

impl StepFailure {
    fn answer(answer: Answer) -> StepFailure {
        StepFailure::Answer(Box::new(answer))
    }

    fn into_outcome(self) -> Outcome {
        match self {
            StepFailure::Answer(answer) => Ok(*answer),
            StepFailure::Refusal(refusal) => Err(refusal),
        }
    }
}
