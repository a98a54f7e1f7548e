//! Typed names of fields, and the values that a request sends.

use crate::field::{Field, FieldKind, StaticText};
use crate::id::Id;
use crate::value::CheckedValue;
use foldhash::fast::RandomState;
use indexmap::IndexMap;
use std::marker::PhantomData;

/// The name of a field with the type of its value.
pub struct FieldKey<T> {
    name: &'static str,
    value: PhantomData<fn() -> T>,
}

impl<T> FieldKey<T> {
    /// Returns the key of the field `name`.
    pub const fn new(name: &'static str) -> Self {
        FieldKey { name, value: PhantomData }
    }
    /// Returns the field's name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
    /// Starts the declaration of the field.
    pub fn declare(&self, kind: FieldKind) -> Field {
        Field::new(self.name, kind)
    }
    /// Declares a trimmed text of at most `max` characters.
    pub fn text(&self, max: usize) -> Field {
        self.declare(FieldKind::text(max))
    }
    /// Declares a boolean.
    pub fn boolean(&self) -> Field {
        self.declare(FieldKind::Boolean)
    }
    /// Declares an integer from `min` to `max`.
    pub fn integer(&self, min: i64, max: i64) -> Field {
        self.declare(FieldKind::Integer { min, max })
    }
    /// Declares a date and time.
    pub fn datetime(&self) -> Field {
        self.declare(FieldKind::DateTime)
    }
}

/// A type that can be read from a [`CheckedValue`].
pub trait FromValue: Sized {
    /// Reads the value; `None` for null and for a value of another type.
    fn from_value(value: &CheckedValue) -> Option<Self>;
}
impl FromValue for String {
    fn from_value(value: &CheckedValue) -> Option<Self> {
        if let CheckedValue::Text(text) = value { Some(text.clone()) } else { None }
    }
}
impl FromValue for i64 {
    fn from_value(value: &CheckedValue) -> Option<Self> {
        if let CheckedValue::Int(number) = value { Some(*number) } else { None }
    }
}
impl FromValue for bool {
    fn from_value(value: &CheckedValue) -> Option<Self> {
        match value {
            CheckedValue::Bool(flag) => Some(*flag),
            CheckedValue::Int(number) => Some(*number != 0),
            _ => None,
        }
    }
}
impl<I: Id> FromValue for Vec<I> {
    fn from_value(value: &CheckedValue) -> Option<Self> {
        if let CheckedValue::List(_) = value { Some(value.ids()) } else { None }
    }
}
impl FromValue for Vec<String> {
    fn from_value(value: &CheckedValue) -> Option<Self> {
        let CheckedValue::List(items) = value else { return None };
        Some(items.iter().filter_map(String::from_value).collect())
    }
}
impl FromValue for serde_json::Value {
    fn from_value(value: &CheckedValue) -> Option<Self> {
        Some(value.to_json())
    }
}

/// Checked values by field name: those that a body sent, or those of a stored row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes(IndexMap<StaticText, CheckedValue, RandomState>);

impl Changes {
    /// Returns an empty collection of values.
    pub fn new() -> Self {
        Self::default()
    }
    /// Returns whether there is a value for the field, including null.
    pub fn contains<T>(&self, key: &FieldKey<T>) -> bool {
        self.0.contains_key(key.name)
    }
    /// Returns the value of a field; `None` if there is none or it is null.
    pub fn get<T: FromValue>(&self, key: &FieldKey<T>) -> Option<T> {
        self.0.get(key.name).and_then(T::from_value)
    }
    /// Returns the value of the field of this name.
    pub fn value(&self, name: &str) -> Option<&CheckedValue> {
        self.0.get(name)
    }
    /// Sets the value of a field, as if it had been sent.
    pub fn set<T>(&mut self, key: &FieldKey<T>, value: impl Into<CheckedValue>) {
        self.0.insert(key.name.into(), value.into());
    }
    /// Sets the value of the field of this name.
    pub fn insert(&mut self, name: impl Into<StaticText>, value: CheckedValue) {
        self.0.insert(name.into(), value);
    }
    /// Removes the value of a field.
    pub fn remove<T>(&mut self, key: &FieldKey<T>) -> Option<CheckedValue> {
        self.0.shift_remove(key.name)
    }
    /// Removes the value of the field of this name.
    pub fn remove_value(&mut self, name: &str) -> Option<CheckedValue> {
        self.0.shift_remove(name)
    }
    /// Returns all names and values, in the order of the declaration.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &CheckedValue)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value))
    }
    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The future state of a row after a write: the stored values, overlaid with those that were sent.
/// Rules over several fields read it, so that one rule serves create and PATCH.
pub struct RowAfterWrite<'a> {
    /// The stored values; `None` on create.
    pub before: Option<&'a Changes>,
    /// The values that were sent.
    pub sent: &'a Changes,
}

impl RowAfterWrite<'_> {
    /// Returns the value of a field after the write; `None` for null.
    pub fn get<T: FromValue>(&self, key: &FieldKey<T>) -> Option<T> {
        match self.sent.value(key.name) {
            Some(value) => T::from_value(value),
            None => self.before.and_then(|before| before.get(key)),
        }
    }
}
