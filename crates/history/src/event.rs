//! What is kept: history events of records, and system events. Numbers are stored, names are shown (document 3,
//! "Events"; document 4, section 6).

use uuid::Uuid;

/// 1900-01-01T00:00:00Z, the first moment that is taken, in microseconds since 1970.
pub const EARLIEST: i64 = -2_208_988_800_000_000;
/// The last microsecond of 2299.
pub const LATEST: i64 = 10_413_792_000_000_000 - 1;

/// The types of history events; the first has the number 1.
pub const HISTORY_TYPES: [&str; 10] = [
    "record_created",
    "owner_initialized",
    "owners_added",
    "owners_removed",
    "assignees_added",
    "assignees_removed",
    "field_values_changed",
    "record_deleted",
    "document_generated",
    "status_initialized",
];

/// The types of system events; the first has the number 1.
pub const SYSTEM_TYPES: [&str; 10] = [
    "login_success",
    "login_failed",
    "login_failed_sso",
    "login_failed_inactive_account",
    "login_failed_invalid_auth_method",
    "account_locked",
    "password_reset_request_success",
    "password_reset_request_failed",
    "password_reset_success",
    "password_reset_failed",
];

/// The categories of system events; the first has the number 1.
pub const CATEGORIES: [&str; 1] = ["auth"];

/// Whom an event comes from; the first has the number 1. In system events 0 stands for nobody.
pub const SOURCE_TYPES: [&str; 4] = ["user", "sequence", "system", "mcp"];

/// What happened to a record.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryEvent {
    /// The idempotency key.
    pub id: Uuid,
    /// Microseconds since 1970, from [`EARLIEST`] to [`LATEST`].
    pub at: i64,
    /// A number of [`HISTORY_TYPES`].
    pub event_type: u8,
    /// The record.
    pub record_id: i64,
    /// Who.
    pub source_id: i64,
    /// A number of [`SOURCE_TYPES`].
    pub source_type: u8,
    /// How the source was called then; `None` when it was not said.
    pub source_name: Option<String>,
    /// The AI client, for instance.
    pub source_info: String,
    /// A JSON array, as text.
    pub data: String,
}

impl HistoryEvent {
    /// Where it stands among events of the same moment, newest first being the greatest: `record_created` comes last in
    /// a record's history, `owner_initialized` just before it (document 4, section 6, "order"). Lists are ordered by
    /// `(at, rank, bytes of the id)`, each descending.
    pub fn rank(&self) -> u8 {
        match self.event_type {
            1 => 0,
            2 => 1,
            _ => 2,
        }
    }

    /// The bytes of its texts.
    pub fn size(&self) -> usize {
        self.source_info.len() + self.data.len() + self.source_name.as_ref().map_or(0, String::len)
    }
}

/// What happened in the system, such as a sign-in. Lists are ordered by `(at, bytes of the id)`, each descending.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemEvent {
    /// The idempotency key.
    pub id: Uuid,
    /// Microseconds since 1970, from [`EARLIEST`] to [`LATEST`].
    pub at: i64,
    /// A number of [`CATEGORIES`].
    pub category: u8,
    /// A number of [`SYSTEM_TYPES`].
    pub event_type: u8,
    /// Who, or 0.
    pub source_id: i64,
    /// A number of [`SOURCE_TYPES`], or 0.
    pub source_type: u8,
    /// Free text.
    pub source_info: String,
    /// Where from.
    pub source_ip: String,
    /// JSON text, as it was sent.
    pub data: String,
}

impl SystemEvent {
    /// The bytes of its texts.
    pub fn size(&self) -> usize {
        self.source_info.len() + self.source_ip.len() + self.data.len()
    }
}
