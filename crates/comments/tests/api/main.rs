//! The contract of comments on records and tasks.
//!
//! Each test starts a server, on the embedded engine or, with `CHANCERY_TEST_DATABASE_URL`, on PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod comments;
mod mentions;
mod set_up;

/// The modules that the tests serve.
struct Api;

impl testkit::Api for Api {
    const MODULES: &'static [&'static kit::domain::Module] = &[
        &events::MODULE,
        &files::MODULE,
        &administration::MODULE,
        &identity::MODULE,
        &records::MODULE,
        &tasks::MODULE,
        &::comments::MODULE,
    ];
}

type TestServer = testkit::TestServer<Api>;
