//! The endpoints of document templates and generated documents (`docs/reference/document-templates.md`,
//! `docs/reference/document-generation.md`).

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod generation;
mod generation_faults;
mod generation_history;
mod set_up;
mod templates;
mod templates_check;
mod warnings;

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
    ];
}

type TestServer = testkit::TestServer<Api>;
