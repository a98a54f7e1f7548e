//! The types of values of a definition, and which of them fit where (`docs/reference/sequences.md`).

use records::classes::ClassField;
use records::field_type::FieldType;
use resource::{EnumOption, Field, FieldKind, Predicate, ReferenceTarget};

/// The type of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// A type of fields whose values need nothing more than the type.
    Field(FieldType),
    /// A record of a class; `None`: of any class.
    Record(Option<i64>),
    /// Several records of a class.
    Records(Option<i64>),
    Task,
    Users,
    Groups,
    Json,
}

impl Type {
    pub const STRING: Type = Type::Field(FieldType::String);
    pub const TEXT: Type = Type::Field(FieldType::Text);
    pub const INTEGER: Type = Type::Field(FieldType::Integer);
    pub const DECIMAL: Type = Type::Field(FieldType::Decimal);
    pub const BOOLEAN: Type = Type::Field(FieldType::Boolean);
    pub const DATE: Type = Type::Field(FieldType::Date);
    pub const DATETIME: Type = Type::Field(FieldType::Datetime);
    pub const USER: Type = Type::Field(FieldType::User);
    pub const ENUM: Type = Type::Field(FieldType::Enum);

    /// The type of a field of a class.
    pub fn of_field(field: &ClassField) -> Type {
        match field.kind {
            FieldType::Relation => Type::Record(field.related_object_class.map(kit::ids::ClassId::get)),
            kind => Type::Field(kind),
        }
    }

    /// The type of an input, or of what a pointer finds.
    pub fn of_input(name: &str, object_class: Option<i64>) -> Option<Type> {
        match (name, FieldType::parse(name)) {
            ("json", _) => Some(Type::Json),
            ("relation", _) => Some(Type::Record(object_class)),
            (_, Some(FieldType::Document)) => None,
            (_, kind) => kind.map(Type::Field),
        }
    }

    /// The name in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Type::Field(kind) => kind.name(),
            Type::Record(_) => "relation",
            Type::Records(_) => "relations",
            Type::Task => "task",
            Type::Users => "users",
            Type::Groups => "user_groups",
            Type::Json => "json",
        }
    }

    pub fn is_textual(&self) -> bool {
        matches!(self, Type::Field(kind) if kind.is_text())
    }

    /// Returns whether a value of this type may stand where another type is expected.
    pub fn fits(&self, expected: &Type) -> bool {
        use FieldType::{Date, Datetime, Decimal, Enum, Integer, Set, Status, String, Text};
        match (self, expected) {
            (_, Type::Json) => true,
            (Type::Record(of), Type::Record(expected)) | (Type::Records(of), Type::Records(expected)) => {
                expected.is_none() || of.is_none() || of == expected
            }
            (Type::Record(of), Type::Records(expected)) => expected.is_none() || of == expected,
            (Type::Field(FieldType::User), Type::Users) => true,
            (Type::Field(of), Type::Field(expected)) => {
                of == expected
                    || matches!((of, expected), (Integer, Decimal) | (Date, Datetime))
                    || matches!((of, expected), (Enum | Status, String | Text | Enum | Status))
                    || matches!((of, expected), (String | Enum | Status, Set))
                    || (of.is_text() && *expected == Text)
            }
            _ => self == expected,
        }
    }

    /// A field of this type without bounds, by which literals are checked.
    pub fn to_field(&self) -> Option<Field> {
        let kind = match self {
            Type::Field(FieldType::String) => FieldKind::text(20_000),
            Type::Field(FieldType::Text) => FieldKind::text(65_000),
            Type::Field(FieldType::Url) => FieldKind::Url { max: 2048 },
            Type::Field(FieldType::Email) => FieldKind::Email { max: 254 },
            Type::Field(FieldType::Integer) => FieldKind::Integer { min: i64::MIN, max: i64::MAX },
            Type::Field(FieldType::Decimal) => FieldKind::Decimal { precision: 30, scale: 15 },
            Type::Field(FieldType::Boolean) => FieldKind::Boolean,
            Type::Field(FieldType::Date) => FieldKind::Date,
            Type::Field(FieldType::Datetime) => FieldKind::DateTime,
            Type::Field(FieldType::Enum | FieldType::Status) => FieldKind::text(20_000),
            Type::Field(FieldType::Set) => return None,
            Type::Field(FieldType::User) => FieldKind::UserId,
            Type::Record(_) | Type::Task => {
                FieldKind::Reference { target: ReferenceTarget { table: "records".into(), autocomplete: None } }
            }
            Type::Field(FieldType::Document | FieldType::Relation)
            | Type::Records(_)
            | Type::Users
            | Type::Groups
            | Type::Json => return None,
        };
        Some(Field::new("value", kind).nullable())
    }

    /// The predicates by which conditions compare a value of this type.
    pub fn predicates(&self) -> Vec<Predicate> {
        let none = || -> FieldKind { FieldKind::Files { max_items: 1 } };
        let kind = match self {
            Type::Field(FieldType::Enum | FieldType::Status) => {
                FieldKind::Enum { choices: Vec::<EnumOption>::new().into() }
            }
            Type::Field(FieldType::Set) => FieldKind::Set { choices: Vec::<EnumOption>::new().into(), max_items: 0 },
            other => other.to_field().map_or_else(none, |field| field.kind),
        };
        let mut field = Field::new("value", kind).filter().isnull();
        field.also_in = matches!(self, Type::Record(_));
        field.predicates()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fit_as_the_specification_says() {
        let field = |name: &str| Type::of_input(name, None).unwrap();
        for (from, into) in [
            ("integer", "decimal"),
            ("date", "datetime"),
            ("enum", "string"),
            ("status", "string"),
            ("enum", "set"),
            ("string", "text"),
            ("user", "user"),
        ] {
            assert!(field(from).fits(&field(into)), "{from} {into}");
        }
        for (from, into) in [
            ("decimal", "integer"),
            ("datetime", "date"),
            ("string", "user"),
            ("integer", "string"),
            ("text", "string"),
        ] {
            assert!(!field(from).fits(&field(into)), "{from} {into}");
        }
        assert!(
            Type::Record(Some(3)).fits(&Type::Record(Some(3))) && !Type::Record(Some(3)).fits(&Type::Record(Some(4)))
        );
    }
}
