//! The binary as a process: its commands, settings and keys, and its behaviour in crashes, outages and overload.
//!
//! Each test starts a server of its own, on the embedded engine or, with `CHANCERY_TEST_DATABASE_URL`, on PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod agent_processes;
mod classes;
mod clients;
mod command_output;
mod connections;
mod console;
mod crash;
mod data_directory;
mod demo;
mod durability;
mod encryption;
mod file_load;
mod file_outages;
mod file_writers;
mod files_crash;
mod first_start;
mod guessing;
mod history_crash;
mod keys;
mod metrics;
mod outages;
mod process;
mod processes;
mod record_writers;
mod restarts;
mod second_factors;
mod sequences;
#[path = "../served/mod.rs"]
mod served;
mod sign_in_burst;
mod stored;
mod task_forms;
mod tasks_crash;
mod warnings;
mod webhooks_crash;
mod workload;
mod writers;

use served::TestServer;
use testkit::message;

/// The binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_chancery");
