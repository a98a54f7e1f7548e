//! The contract of administration's endpoints, a module for each address, and the delivery of mail.
//!
//! Each test starts a server of its own, on the embedded engine or, with `CHANCERY_TEST_DATABASE_URL`, on PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod administration_log;
mod authentication_objects;
mod authentication_objects_test;
mod company_details;
mod limits;
mod limits_walk;
mod mail;
mod messages;
mod network;
#[path = "../served/mod.rs"]
mod served;
mod smtp_settings;
mod system;

use served::TestServer;
use testkit::{message, shown};

/// The binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_chancery");
