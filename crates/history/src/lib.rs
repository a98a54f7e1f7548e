//! The history service: what happened, per tenant, for years (document 3, "History service"; document 4, section 6).
//!
//! A tenant is a database of its own in one of two engines, which stand beside each other behind [`engine::Engine`]:
//! SQLite in the data directory, or ClickHouse. Everything above them (headers, validation, shapes, filters, files) is
//! written once. A request goes through [`service`] to the file of its endpoint: [`create_event`](create_event),
//! [`batch`](batch), [`lists`](lists), [`tenants`](tenants).

mod batch;
mod body;
mod create_event;
pub mod engine;
pub mod event;
mod event_files;
pub mod files;
pub mod filter;
mod lists;
pub mod openapi;
mod reply;
mod scalar;
pub mod service;
mod tenants;

pub use engine::{clickhouse, sqlite};

/// The readers of what comes from outside, each alone, for `crates/hostile`.
#[doc(hidden)]
pub mod readers {
    pub use crate::batch::read as batch;
    pub use crate::body::{LARGEST, unpack};
    pub use crate::create_event::read as create_event;
    use crate::filter::Page;
    use crate::lists::{HISTORY, SYSTEM, page};
    pub use crate::reply::Refusal;
    use resource::Query;

    /// The page of history events that parameters ask for.
    pub fn history_events(query: &Query) -> Result<Page, Refusal> {
        page(&HISTORY, query)
    }

    /// The page of system events that parameters ask for.
    pub fn system_events(query: &Query) -> Result<Page, Refusal> {
        page(&SYSTEM, query)
    }
}
