//! The endpoints of connectors (`docs/reference/mcp-connectors.md`), and the sign-in of agents (`docs/reference/agent-sign-in.md`).
//!
//! Each test starts its own server, on the embedded engine or, with `CHANCERY_TEST_DATABASE_URL`, on PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod associations;
mod conformance;
mod connectors;
mod consent;
mod dance;
mod hidden_work;
mod mcp;
mod mcp_attacks;
mod mcp_large;
mod mcp_messages;
mod mcp_reach;
mod mcp_tools;
mod oauth_attacks;
mod oauth_authorize;
mod oauth_grants;
mod oauth_second_factor;
mod oauth_single_sign_on;
mod oauth_token;
mod program;
mod rights_model;
mod rights_steps;
mod rights_walk;
mod scene;
mod sdks;
mod set_up;
mod tenancy;
mod traces;

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
        &extensions::MODULE,
        &agents::MODULE,
    ];
}

type TestServer = testkit::TestServer<Api>;
