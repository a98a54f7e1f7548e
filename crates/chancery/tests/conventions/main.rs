//! The rules of every endpoint, across all modules. Most tests walk the table of routes.
//!
//! Each test starts a server of its own, on the embedded engine or, with `CHANCERY_TEST_DATABASE_URL`, on PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod accounts;
mod autocomplete;
mod bodies;
mod compression;
mod conditional;
mod conventions;
mod declared_at_run_time;
mod declared_classes;
mod hostile_bodies;
mod idempotency;
mod many_filters;
mod nonsense;
mod openapi;
mod origins;
mod outlived;
mod pages;
mod readmission;
mod routes;
#[path = "../served/mod.rs"]
mod served;
mod shared_places;
mod statements;
mod streams;
mod tenancy;
mod unread_answers;
mod viewer;

use served::TestServer;
use testkit::{message, shown};

/// The binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_chancery");
