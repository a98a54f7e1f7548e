//! What both engines take, answer and promise:
//!
//! - an event id is written once, also when several requests or processes write it at the same time, and exactly one of
//!   them learns that it wrote it;
//! - what was answered with `Ok` survives the end of the process at any moment;
//! - before [`EngineError::Unavailable`] is answered, failures that may pass were retried, at most five times and for at most
//!   20 seconds.

use uuid::Uuid;

/// A tenant as the engines know it. Its database is named after the client id, so that any permitted name is safe.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// Identifies the tenant in requests; never used twice.
    pub client_id: Uuid,
    /// SHA-256 of the client's secret, as hexadecimal digits.
    pub secret_hash: String,
    pub database_name: String,
    pub client_label: String,
}

/// A page of a list, and how long the list is.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineList<T> {
    /// The number of all events of the tenant.
    pub total: i64,
    /// The number of those that meet the conditions.
    pub filtered: i64,
    pub results: Vec<T>,
}

/// The most bytes of texts in a page, since a page of the largest events would not fit into any memory. One event
/// always fits.
pub const MAX_PAGE_BYTES: usize = 32 << 20;

/// The most files that an engine is asked for at once.
pub const MAX_FILES: usize = 1000;

/// Why an engine did not do what it was asked.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineError {
    /// The tenant does not exist, or no longer.
    NoTenant,
    /// The page would have more than [`MAX_PAGE_BYTES`].
    PageTooLarge,
    /// The engine does not answer or is overloaded; a later attempt may succeed (503).
    Unavailable(String),
    /// The engine refused or failed (500).
    Failed(String),
}

impl std::fmt::Display for EngineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EngineError::NoTenant => f.write_str("there is no such tenant"),
            EngineError::PageTooLarge => f.write_str("the page is too large"),
            EngineError::Unavailable(cause) | EngineError::Failed(cause) => f.write_str(cause),
        }
    }
}
