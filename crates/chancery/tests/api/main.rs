//! The contract of the main API, a module for each address. One binary, so that it is linked once.
//!
//! Each test starts a server of its own, on the embedded engine or, with `CHANCERY_TEST_DATABASE_URL`, on PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod administration_log;
mod auth;
mod authentication_objects;
mod autocomplete;
mod bodies;
mod company_details;
mod connections;
mod conventions;
mod crash;
mod declared_at_run_time;
mod durability;
mod guessing;
mod history;
mod history_crash;
mod history_delivery;
mod hostile_bodies;
mod jobs;
mod keys;
mod mail;
mod many_filters;
mod nonsense;
mod origins;
mod outages;
mod outlived;
mod pages;
mod permissions;
mod process;
mod processes;
mod races;
mod readmission;
mod roles;
mod routes;
mod security;
mod shown;
mod sign_in_burst;
mod single_sign_on;
mod smtp_settings;
mod sso_sign_in;
mod statements;
mod stored;
mod system_events;
mod tenancy;
mod user_groups;
mod user_groups_assignees;
mod user_groups_people;
mod user_groups_permission_sets;
mod users;
mod users_actions;
mod users_me;
mod workload;

/// The binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_chancery");

/// The messages that many tests expect.
mod message {
    use serde_json::{Value, json};

    pub fn detail(text: &str) -> Value {
        json!({"detail": text})
    }
    pub fn unauthenticated() -> Value {
        detail("Authentication credentials were not provided.")
    }
    pub fn bad_token() -> Value {
        detail("Invalid or expired token.")
    }
    pub fn forbidden() -> Value {
        detail("You do not have permission to perform this action.")
    }
    pub fn not_found() -> Value {
        detail("Not found.")
    }
}
