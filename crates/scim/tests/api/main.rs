//! The contract of SCIM: tokens, users, groups, the protocol, and attacks.
//!
//! Each test starts a server, on the embedded engine or, with `CHANCERY_TEST_DATABASE_URL`, on PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod attacks;
mod discovery;
mod groups;
mod libraries;
mod set_up;
mod tokens;
mod users;

/// The modules that the tests serve.
struct Api;

impl testkit::Api for Api {
    const MODULES: &'static [&'static kit::domain::Module] =
        &[&events::MODULE, &administration::MODULE, &identity::MODULE, &scim::MODULE];
}

type TestServer = testkit::TestServer<Api>;
