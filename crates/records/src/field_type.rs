//! The types of the fields of a class (`docs/reference/object-class-fields.md`).

/// The maximum length of a string that is unique or indexed, in characters. A folded character takes up to six bytes, and an
/// index entry of PostgreSQL at most 2,704.
pub const MAX_INDEXED_LENGTH: i64 = 400;

/// The type of a field. It decides how the field is checked, stored, filtered and shown.
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
    /// The types with their names and texts, in the order of answers.
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
        FieldType::ALL.iter().find(|(_, type_name, _)| *type_name == name).map(|(kind, _, _)| *kind)
    }

    pub fn name(self) -> &'static str {
        FieldType::ALL.iter().find(|(kind, _, _)| *kind == self).map_or("", |(_, name, _)| name)
    }

    /// Returns whether its values are texts, which have a folded copy and are searched.
    pub fn is_text(self) -> bool {
        matches!(self, String | Text | Url | Email)
    }

    /// Returns whether a field of this type may be unique or indexed.
    pub fn is_indexable(self) -> bool {
        !matches!(self, Text | Url | Set | Document)
    }

    /// Returns whether lists may be sorted by a field of this type.
    pub fn is_sortable(self) -> bool {
        !matches!(self, Text | Set | Document)
    }
}
