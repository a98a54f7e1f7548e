//! The contract of identity's endpoints, a module for each address: users, roles, groups, the security rules, signing in.
//!
//! Each test starts a server, on the embedded engine or, with `CHANCERY_TEST_DATABASE_URL`, on PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod api_keys;
mod auth;
mod auth_passkey;
mod auth_second_factor;
mod browser_sessions;
mod permissions;
mod races;
mod rights_that_end;
mod roles;
mod second_factors;
mod security;
mod security_second_factors;
mod sign_ins;
mod single_sign_on;
mod sso_sign_in;
mod user_groups;
mod user_groups_assignees;
mod user_groups_people;
mod user_groups_permission_sets;
mod users;
mod users_actions;
mod users_me;
mod users_me_preferences;
mod users_me_second_factors;
mod users_reset_second_factors;

use testkit::{message, shown};

/// The modules that the tests serve.
struct Api;

impl testkit::Api for Api {
    const MODULES: &'static [&'static kit::domain::Module] =
        &[&events::MODULE, &administration::MODULE, &identity::MODULE, &web_console::MODULE];
}

type TestServer = testkit::TestServer<Api>;
