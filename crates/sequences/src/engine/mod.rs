//! The engine of sequences: starts, runs and their steps (`docs/reference/sequences.md`).

mod actions;
mod documents;
mod ending;
mod finding;
pub mod mails;
pub mod moments;
mod people;
pub mod published;
pub mod run;
pub mod starts;
mod step;
mod stepper;
mod task_starts;
mod waits;
mod waker;
pub mod work;

pub use ending::{ON_USER_CHANGED, cancel, cancel_runs_of_records, retry};
pub use task_starts::on_tasks;
pub use waits::on_tasks_changed;
pub use waker::{EngineJob, wake};
