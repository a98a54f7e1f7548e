//! The contract of both engines:
//!
//! - an event id is written once, even when several requests or processes write it at the same time. Exactly one of
//!   them learns that it wrote it;
//! - data that was acknowledged with `Ok` survives the end of the process at any time;
//! - transient failures are retried before [`EngineError::Unavailable`] is returned, at most five times and for at most
//!   20 seconds.

use uuid::Uuid;

/// A tenant of the engines. The name of its database contains the client id, so that any permitted name is safe.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// Identifies the tenant in requests; never reused.
    pub client_id: Uuid,
    /// SHA-256 of the client's secret, as hexadecimal digits.
    pub secret_hash: String,
    pub database_name: String,
    pub client_label: String,
}

/// A page of a list, and the length of the list.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineList<T> {
    /// The number of all events of the tenant.
    pub total: i64,
    /// The number of events that meet the conditions.
    pub filtered: i64,
    pub results: Vec<T>,
}

/// The maximum size of the texts in a page in bytes, since a page of the largest events would exceed any memory. One
/// event always fits.
pub const MAX_PAGE_BYTES: usize = 32 << 20;

/// The maximum number of files in one query of an engine.
pub const MAX_FILES: usize = 1000;

/// The reason for which an engine failed.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineError {
    /// The tenant does not exist, or no longer exists.
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
