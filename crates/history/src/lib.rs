//! The history service stores the events of each tenant for years (`docs/reference/history.md`).
//!
//! A tenant is a database of its own in one of two engines: SQLite in the data directory, or ClickHouse. Both are
//! behind [`engine::HistoryEngine`]. All code above it (headers, validation, answers, filters, files) exists once. A
//! request passes through `serve.rs` to the file of its endpoint: `create_event.rs`, `batch.rs`, `lists.rs`,
//! `event_files.rs` or `tenants.rs`. Outside requests, `file_removal.rs` removes files that no event names.

mod batch;
mod body;
mod create_event;
pub mod engine;
pub mod event;
mod event_files;
mod fields;
pub mod file_removal;
pub mod files;
pub mod filter;
mod lists;
pub mod openapi;
mod reply;
pub mod routes;
mod schema;
mod serve;
pub mod service;
mod tenants;

pub use engine::{clickhouse, sqlite};

/// The functions that parse external input, for `crates/hostile`.
#[doc(hidden)]
pub mod readers {
    pub use crate::batch::read as batch;
    pub use crate::body::{MAX_BODY as LARGEST, unpack};
    pub use crate::create_event::read as create_event;
    use crate::filter::PageRange;
    use crate::lists::{HISTORY_FILTERS, SYSTEM_FILTERS, page};
    pub use crate::reply::HistoryRefusal;
    use resource::Query;

    pub fn history_events(query: &Query) -> Result<PageRange, HistoryRefusal> {
        page(&HISTORY_FILTERS, query)
    }

    pub fn system_events(query: &Query) -> Result<PageRange, HistoryRefusal> {
        page(&SYSTEM_FILTERS, query)
    }
}
