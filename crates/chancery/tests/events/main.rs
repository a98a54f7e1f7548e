//! Events: each sign-in in the outbox, and its delivery to the history service.
//!
//! Each test starts a server of its own, on the embedded engine or, with `CHANCERY_TEST_DATABASE_URL`, on PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod file_copies;
mod history;
mod history_delivery;
mod history_speed;
mod jobs;
mod own_history;
mod record_history;
#[path = "../served/mod.rs"]
mod served;
mod system_events;

use served::TestServer;
use testkit::message;

/// The binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_chancery");
