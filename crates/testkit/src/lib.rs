//! Real servers for tests, and clients that call them.
//!
//! A test reads as an example: it starts a [`TestServer`], signs a user in, calls the API, and compares the whole answer.
//!
//! ```no_run
//! # async fn example<Api: testkit::Api>() {
//! # use serde_json::json;
//! let server = testkit::TestServer::<Api>::start().await;
//! let api = server.as_type("internal").await;
//! api.post("/api/users/", json!({})).await.expect_reply(403, json!({"detail": "You do not have permission to perform this action."}));
//! # }
//! ```
//!
//! Servers use the embedded engine by default. `CHANCERY_TEST_DATABASE_URL` can name a PostgreSQL server on which
//! databases may be created. Each server then has its own database there, and the tests are the same.

mod at_once;
mod authenticator;
mod certificates;
mod clickhouse;
mod client;
mod database;
mod docx;
mod eventually;
mod fake_history;
mod fake_server;
mod forger;
mod git_server;
mod history;
mod mail_server;
mod mails;
pub mod message;
pub mod npm;
mod openid;
mod outbox;
mod postgresql;
mod process;
mod python;
mod receiver;
mod record_tables;
mod reply;
mod s3;
mod server;
mod settings;
pub mod shown;
mod small_disk;
mod stored;
mod trace;
mod waiting;

pub use at_once::{one_wins, send_concurrently, statuses};
pub use authenticator::{CodeGenerator, Passkey};
pub use certificates::Authority;
pub use clickhouse::ClickHouseServer;
pub use client::{ApiClient, Download, PreparedCall};
pub use database::{ClaimedDatabase, test_database};
pub use docx::{docx, paragraphs};
pub use eventually::{Check, eventually, eventually_within, other_processes_notice, quiet_period};
pub use fake_history::{Behaviour, FakeHistory, HistoryTenant};
pub use fake_server::{Answers, FakeServer, takes_all};
pub use forger::{Forger, ForgerState, parameters};
pub use git_server::{GIT_TOKEN, GIT_USERNAME, GitAnswer, GitServer};
pub use history::{HISTORY_KEY, HistoryServer, history_database_url};
pub use mail_server::{
    MAIL_PASSWORD, MAIL_TOKEN, MAIL_USERNAME, MailEncryption, MailOptions, MailServer, ReceivedMail,
};
pub use mails::MailFile;
pub use npm::ensure_installed as npm_packages;
pub use openid::{Browser, CLIENT_ID, CLIENT_SECRET, OpenIdProvider, TENANT_ID};
pub use outbox::{RecordEvent, WaitingSystemEvent, events, record_events};
pub use postgresql::PostgreSql;
pub use process::{CommandOutput, Installation, Process};
pub use python::python_environment;
pub use receiver::{ReceivedHook, Receiver, ReceiverBehaviour};
pub use record_tables::broken_rules;
pub use reply::{Reply, without_its_id};
pub use s3::S3Server;
pub use server::{ADMIN, API_KEY, Api, DOMAIN, NOW, PASSWORD, SECRET_KEY, TestBuild, TestServer, UUID};
pub use settings::{MIGRATIONS, TestSettings};
pub use small_disk::SmallDisk;
pub use stored::TextRow;
pub use trace::{SystemCall, Trace};

/// The same allocator as in the binary. The default one does not return the freed memory of each thread, which is
/// gigabytes after a hundred servers.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A second in microseconds, the unit of a [`TestServer`]'s clock.
pub const SECOND: i64 = 1_000_000;
/// A minute in microseconds.
pub const MINUTE: i64 = 60 * SECOND;
/// An hour in microseconds.
pub const HOUR: i64 = 60 * MINUTE;
/// A day in microseconds.
pub const DAY: i64 = 24 * HOUR;

/// Returns whether the tests run as root.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// The number of rounds of a repeatable test: `CHANCERY_TEST_ROUNDS`, or `default` in the ordinary suite.
pub fn rounds(default: usize) -> usize {
    std::env::var("CHANCERY_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(default)
}
