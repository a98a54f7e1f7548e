//! Tests the endpoints of sequences and their runs (`docs/reference/sequences.md`).
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod definitions;
mod document_steps;
mod mails;
mod runs;
mod runs_limits;
mod runs_rights;
mod runs_tasks;
mod schedules;
mod sequences;
mod sequences_publish;
mod sequences_start;
mod set_up;
mod task_triggers;

/// The modules that the tests serve.
struct Api;

impl testkit::Api for Api {
    const MODULES: &'static [&'static kit::domain::Module] = &[
        &events::MODULE,
        &files::MODULE,
        &administration::MODULE,
        &identity::MODULE,
        &records::MODULE,
        &documents::MODULE,
        &tasks::MODULE,
        &extensions::MODULE,
        &agents::MODULE,
        &::sequences::MODULE,
    ];
}

type TestServer = testkit::TestServer<Api>;
