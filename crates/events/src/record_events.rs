//! The history events of records (`docs/reference/history.md`): the contents of each of the ten types,
//! in the shapes that the history service shows. [`crate::outbox::put_history`] accepts these events.
//!
//! ```
//! # use events::record_events::{EventSource, FieldValue, RecordChangeEvent};
//! # use kit::ids::{FieldId, RecordId, UserId};
//! # use serde_json::json;
//! let (field_id, field_value) = (FieldId::new(31), json!("paid"));
//! let changed = FieldValue { field_id, field_type: "string", field_name: "State", field_value };
//! let source = EventSource::user(UserId::new(3), "Ada Lovelace");
//! let event = RecordChangeEvent::FieldValuesChanged(vec![changed]);
//! let event = event.to_history_event(RecordId::new(12), &source, 1_769_852_999_500_000);
//! let data = r#"{"field_id":31,"field_type":"string","field_value":"paid","field_name":"State"}"#;
//! assert_eq!((event.event_type_id, event.event_data), (7, vec![data.to_owned()]));
//! ```

use crate::outbox::{OutboxHistoryEvent, Uuid};
use kit::ids::{DocumentTemplateId, FieldId, GroupId, RecordId, RecordSetId, SequenceId, UserId};
use serde::Serialize;
use serde_json::Value as Json;
use uuid::Builder;

/// The types of events with their texts, in the order of their numbers, which count from 1.
pub const EVENT_TYPES: [(&str, &str); 10] = [
    ("record_created", "Record created"),
    ("owner_initialized", "Owner initialized"),
    ("owners_added", "Owners added"),
    ("owners_removed", "Owners removed"),
    ("assignees_added", "Assignees added"),
    ("assignees_removed", "Assignees removed"),
    ("field_values_changed", "Field values changed"),
    ("record_deleted", "Record deleted"),
    ("document_generated", "Document generated"),
    ("status_initialized", "Status initialized"),
];
/// The types of sources with their texts, in the order of their numbers, which count from 1.
pub const SOURCE_TYPES: [(&str, &str); 4] =
    [("user", "User"), ("sequence", "Sequence"), ("system", "System"), ("mcp", "MCP")];

/// The source of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct EventSource {
    /// The number of its type: 1 user, 2 sequence, 3 system, 4 mcp.
    type_id: i64,
    /// The id of the user or sequence; 0 for the system.
    id: i64,
    /// Its name at the time of the event; `None` if unknown.
    name: Option<String>,
    /// The AI client of an agent, or the uuid of the run of a sequence, otherwise empty.
    info: String,
}

impl EventSource {
    /// A user.
    pub fn user(id: UserId, name: impl Into<String>) -> EventSource {
        EventSource { type_id: 1, id: id.get(), name: Some(name.into()), info: String::new() }
    }

    /// A run of a sequence, with the name of the sequence and the uuid of the run.
    pub fn sequence(id: SequenceId, name: impl Into<String>, run: impl Into<String>) -> EventSource {
        EventSource { type_id: 2, id: id.get(), name: Some(name.into()), info: run.into() }
    }

    /// The system: a job that was not requested by a user.
    pub fn system() -> EventSource {
        EventSource { type_id: 3, id: 0, name: None, info: String::new() }
    }

    /// An agent that acts for a user, with the name and the version of its AI client.
    pub fn mcp(user: UserId, name: Option<String>, client: impl Into<String>) -> EventSource {
        EventSource { type_id: 4, id: user.get(), name, info: client.into() }
    }
}

/// A change of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordChangeEvent<'a> {
    /// It was created, or restored, with these values.
    RecordCreated(Vec<FieldValue<'a>>),
    /// It was created with this owner.
    OwnerInitialized(EventPerson<'a>),
    OwnersAdded(Vec<EventPerson<'a>>),
    OwnersRemoved(Vec<EventPerson<'a>>),
    AssigneesAdded(Vec<Assignee<'a>>),
    AssigneesRemoved(Vec<Assignee<'a>>),
    /// These fields have other values now.
    FieldValuesChanged(Vec<FieldValue<'a>>),
    RecordDeleted,
    DocumentGenerated(GeneratedDocument<'a>),
    /// It was created with this value of its status.
    StatusInitialized(FieldValue<'a>),
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldValue<'a> {
    pub field_id: FieldId,
    /// The type of the field, such as `string` or `relation`.
    pub field_type: &'a str,
    /// The value, as answers show it; null if it was removed.
    pub field_value: Json,
    /// The label of the field.
    pub field_name: &'a str,
}

/// An owner, or an assignee of a permission set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventPerson<'a> {
    pub id: i64,
    /// The kind of the id.
    #[serde(rename = "type")]
    pub kind: PersonKind,
    pub name: &'a str,
}

/// The kind of an id: of a user or of a user group.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PersonKind {
    User,
    UserGroup,
}

/// A user or a user group, and the permission set through which it has rights on the record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Assignee<'a> {
    #[serde(flatten)]
    pub person: EventPerson<'a>,
    pub permission_set: SetName<'a>,
}

/// A permission set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetName<'a> {
    pub id: RecordSetId,
    pub name: &'a str,
}

/// A file that was generated from a document template.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GeneratedDocument<'a> {
    pub document_template_id: DocumentTemplateId,
    /// The id of the field with the file, or 0.
    pub field_id: FieldId,
    /// The id of the history service's own copy.
    pub file_id: &'a str,
}

impl<'a> EventPerson<'a> {
    /// A user.
    pub fn user(id: UserId, name: &'a str) -> EventPerson<'a> {
        EventPerson { id: id.get(), kind: PersonKind::User, name }
    }

    /// A user group.
    pub fn user_group(id: GroupId, name: &'a str) -> EventPerson<'a> {
        EventPerson { id: id.get(), kind: PersonKind::UserGroup, name }
    }
}

impl RecordChangeEvent<'_> {
    /// Returns the event of a record at a time in microseconds since 1970, with an id of its own.
    pub fn to_history_event(&self, record_id: RecordId, source: &EventSource, time: i64) -> OutboxHistoryEvent {
        let (event_type_id, event_data) = match self {
            RecordChangeEvent::RecordCreated(values) => (1, texts(values)),
            RecordChangeEvent::OwnerInitialized(owner) => (2, texts([owner])),
            RecordChangeEvent::OwnersAdded(owners) => (3, texts(owners)),
            RecordChangeEvent::OwnersRemoved(owners) => (4, texts(owners)),
            RecordChangeEvent::AssigneesAdded(assignees) => (5, texts(assignees)),
            RecordChangeEvent::AssigneesRemoved(assignees) => (6, texts(assignees)),
            RecordChangeEvent::FieldValuesChanged(values) => (7, texts(values)),
            RecordChangeEvent::RecordDeleted => (8, Vec::new()),
            RecordChangeEvent::DocumentGenerated(document) => (9, texts([document])),
            RecordChangeEvent::StatusInitialized(value) => (10, texts([value])),
        };
        OutboxHistoryEvent {
            event_id: new_id(time),
            event_time: time,
            event_type_id,
            record_id,
            source_id: source.id,
            source_type_id: source.type_id,
            source_name: source.name.clone(),
            source_info: source.info.clone(),
            event_data,
        }
    }
}

/// Returns a new id that begins with the time (UUID version 7). Ids of events that are written together are adjacent in
/// the indexes of the outbox and of the history service. Random ids would be scattered over all pages of the indexes.
fn new_id(time: i64) -> Uuid {
    let random = Uuid::new_v4().into_bytes();
    // The version and the variant are not random; they are in the bytes 6 and 8.
    let [a, b, c, d, e, f, _, _, _, g, h, i, j, ..] = random;
    let milliseconds = u64::try_from(time / 1000).unwrap_or(0);
    Builder::from_unix_timestamp_millis(milliseconds, &[a, b, c, d, e, f, g, h, i, j]).into_uuid()
}

/// Returns each entry as JSON text.
fn texts(entries: impl IntoIterator<Item = impl Serialize>) -> Vec<String> {
    // The conversion to JSON never fails: all names are texts.
    entries.into_iter().map(|entry| serde_json::to_string(&entry).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_different_and_in_the_order_of_their_times() {
        let mut ids: Vec<Uuid> = (0..1000).map(|n| new_id(1_769_852_999_500_000 + n * 1000)).collect();
        ids.extend([new_id(0), new_id(-1), new_id(0)]);
        assert!(ids.iter().all(|id| id.get_version_num() == 7), "{ids:?}");
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), ids.len());
        assert_eq!(sorted[3..], ids[..1000]);
    }
}
