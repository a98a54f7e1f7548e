//! The types of the fields of a class (`docs/reference/object-class-fields.md`).

/// The most characters of a string that is unique or indexed. A folded one takes up to six bytes a character, and an entry
/// of an index of PostgreSQL 2,704.
pub const MAX_INDEXED_LENGTH: i64 = 400;

/// The type of a field, by which it is checked, stored, filtered and shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    String,
    Text,
    Url,
    Email,
    Integer,
    Decimal,
    Boolean,
    Date,
    Datetime,
    Enum,
    Set,
    Status,
    User,
    Document,
    Relation,
}

use FieldType::*;

impl FieldType {
    /// The types with their names and texts, in the order in which they are shown.
    pub const ALL: [(FieldType, &'static str, &'static str); 15] = [
        (String, "string", "String"),
        (Text, "text", "Text"),
        (Url, "url", "URL"),
        (Email, "email", "Email"),
        (Integer, "integer", "Integer"),
        (Decimal, "decimal", "Decimal"),
        (Boolean, "boolean", "Boolean"),
        (Date, "date", "Date"),
        (Datetime, "datetime", "Date and time"),
        (Enum, "enum", "Enum"),
        (Set, "set", "Set"),
        (Status, "status", "Status"),
        (User, "user", "User"),
        (Document, "document", "Document"),
        (Relation, "relation", "Relation"),
    ];

    pub fn parse(name: &str) -> Option<FieldType> {
        FieldType::ALL.iter().find(|(_, known, _)| *known == name).map(|(kind, _, _)| *kind)
    }

    pub fn name(self) -> &'static str {
        FieldType::ALL.iter().find(|(kind, _, _)| *kind == self).map_or("", |(_, name, _)| name)
    }

    /// Whether its values are texts, which have a folded copy and are searched.
    pub fn is_text(self) -> bool {
        matches!(self, String | Text | Url | Email)
    }

    /// Whether a field of it may be unique or indexed.
    pub fn is_indexable(self) -> bool {
        !matches!(self, Text | Url | Set | Document)
    }

    /// Whether lists may be sorted by it.
    pub fn is_sortable(self) -> bool {
        !matches!(self, Text | Set | Document)
    }
}
