//! The history service: what happened, per tenant, for years (document 3, "History service"; document 4, section 6).
//!
//! A tenant is a database of its own in one of two engines, which stand beside each other behind [`engine::Engine`]:
//! SQLite in the data directory, or ClickHouse. Everything above them (headers, validation, shapes, filters, files) is
//! written once.

pub mod clickhouse;
pub mod engine;
pub mod event;
pub mod filter;
pub mod sqlite;
