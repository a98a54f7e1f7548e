//! `Idempotency-Key`: a POST that a program repeats has one effect (`docs/reference/conventions.md`).
//!
//! The answer of a POST with a key is stored in the transaction of its change (`script.rs`). A repetition gets the stored answer
//! (`replay.rs`). Two requests with the same key never run at the same time: in a process they wait for each other (`turns.rs`), and
//! on PostgreSQL the transaction of each acquires an advisory lock (`rows.rs`).

mod addresses;
pub(crate) mod key;
pub(crate) mod replay;
pub mod rows;
pub(crate) mod script;
pub mod sent_key;
pub(crate) mod turns;
