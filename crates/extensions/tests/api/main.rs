//! The contract of the endpoints of extensions, a module for each address.
//!
//! Each test starts a server, on the embedded engine or, with `CHANCERY_TEST_DATABASE_URL`, on PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod class_with_everything;
mod custom_components;
mod document_copies;
mod integrations;
mod integrations_bodies;
mod set_up;
mod ui_config;
mod webhooks;
mod webhooks_libraries;
mod webhooks_receivers;

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
    ];
}

type TestServer = testkit::TestServer<Api>;
