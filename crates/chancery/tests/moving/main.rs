//! Moves of builds between deployments by the real binary (`docs/moving.md`): exports, imports, restores, checks and receipts. The
//! target is separate from `server`, because an edit of an archive's code then compiles and runs only this.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod archives;
mod crawl;
mod hostile;
mod kills;
mod receipts;
mod round_trip;

/// The binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_chancery");
