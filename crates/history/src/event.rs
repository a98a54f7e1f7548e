//! Stored events: history events of records, and system events. Types, categories and source types are stored as
//! numbers and returned as names (`docs/reference/history.md`).

use serde_json::Value as Json;
use uuid::Uuid;

/// 1900-01-01T00:00:00Z, the earliest accepted time, in microseconds since 1970.
pub const EARLIEST: i64 = -2_208_988_800_000_000;
/// The last microsecond of 2299, the latest accepted time, in microseconds since 1970.
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

/// The number of `document_generated`, the type of the events that name files.
pub const DOCUMENT_GENERATED: u8 = 9;

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

/// The types of sources, which cause events; the first has the number 1. In system events 0 means that there is no
/// source.
pub const SOURCE_TYPES: [&str; 4] = ["user", "sequence", "system", "mcp"];

/// Returns the name that has a number; empty for other numbers.
pub fn name_of(names: &[&'static str], number: u8) -> &'static str {
    usize::from(number).checked_sub(1).and_then(|at| names.get(at)).copied().unwrap_or("")
}

/// A change of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryEvent {
    /// The id, which is also the idempotency key.
    pub id: Uuid,
    /// The time in microseconds since 1970, from [`EARLIEST`] to [`LATEST`].
    pub at: i64,
    /// A number of [`HISTORY_TYPES`].
    pub event_type: u8,
    pub record_id: i64,
    /// The user, sequence or other source that caused the event.
    pub source_id: i64,
    /// A number of [`SOURCE_TYPES`].
    pub source_type: u8,
    /// The source's name at that time, if the event has one.
    pub source_name: Option<String>,
    /// More about the source, for example the AI client.
    pub source_info: String,
    /// A JSON array, as text.
    pub data: String,
}

impl HistoryEvent {
    /// Returns the order of events of the same time: lists are ordered by `(at, rank, bytes of the id)`, each
    /// descending. So `record_created` comes last in a record's history, and `owner_initialized` just before it.
    pub fn rank(&self) -> u8 {
        match self.event_type {
            1 => 0,
            2 => 1,
            _ => 2,
        }
    }

    /// Returns the ids of the files that the event names, in order. Only an event `document_generated` names files.
    pub fn files(&self) -> Vec<Uuid> {
        if self.event_type == DOCUMENT_GENERATED { files_in(&self.data) } else { Vec::new() }
    }

    /// The size of the texts in bytes.
    pub fn size(&self) -> usize {
        self.source_info.len() + self.data.len() + self.source_name.as_ref().map_or(0, String::len)
    }
}

/// Returns the ids of the files that the data of an event `document_generated` names.
pub(crate) fn files_in(data: &str) -> Vec<Uuid> {
    let data: Json = serde_json::from_str(data).unwrap_or_default();
    let items = data.as_array().into_iter().flatten();
    items.filter_map(|item| Uuid::try_parse(item.get("file_id")?.as_str()?).ok()).collect()
}

/// An event of the system, such as a sign-in. Lists are ordered by `(at, bytes of the id)`, each descending.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemEvent {
    /// The id, which is also the idempotency key.
    pub id: Uuid,
    /// The time in microseconds since 1970, from [`EARLIEST`] to [`LATEST`].
    pub at: i64,
    /// A number of [`CATEGORIES`].
    pub category: u8,
    /// A number of [`SYSTEM_TYPES`].
    pub event_type: u8,
    /// The source that caused the event, or 0.
    pub source_id: i64,
    /// A number of [`SOURCE_TYPES`], or 0.
    pub source_type: u8,
    pub source_info: String,
    /// The address from which the source acted.
    pub source_ip: String,
    /// A text without further format.
    pub data: String,
}

impl SystemEvent {
    /// The size of the texts in bytes.
    pub fn size(&self) -> usize {
        self.source_info.len() + self.source_ip.len() + self.data.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_document_generated_is_that_of_its_name() {
        assert_eq!(name_of(&HISTORY_TYPES, DOCUMENT_GENERATED), "document_generated");
    }
}
