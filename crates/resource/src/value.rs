//! The values of fields, as they are checked and stored.

use crate::id::Id;
use crate::time;
use serde_json::Value as Json;

/// A checked value. Datetimes are `Int` microseconds since 1970 (UTC), dates `Text` as `2026-01-31`, decimals `Text`
/// padded to their scale, sets and lists `List`.
#[derive(Clone, Debug, PartialEq)]
pub enum CheckedValue {
    Null,
    Bool(bool),
    Int(i64),
    Text(String),
    List(Vec<CheckedValue>),
    Json(Json),
    /// JSON as its text, since a tree would use many times the memory.
    JsonText(String),
}

impl CheckedValue {
    /// Returns the value as JSON. A datetime is a number of microseconds.
    pub fn to_json(&self) -> Json {
        match self {
            CheckedValue::Null => Json::Null,
            CheckedValue::Bool(value) => (*value).into(),
            CheckedValue::Int(value) => (*value).into(),
            CheckedValue::Text(value) => value.clone().into(),
            CheckedValue::List(items) => Json::Array(items.iter().map(CheckedValue::to_json).collect()),
            CheckedValue::Json(value) => value.clone(),
            CheckedValue::JsonText(text) => serde_json::from_str(text).unwrap_or_default(),
        }
    }

    /// Returns the value of a datetime field as JSON, in the form of [`time::show`].
    pub fn to_json_datetime(&self) -> Json {
        match self {
            CheckedValue::Int(micros) => time::show(*micros).into(),
            other => other.to_json(),
        }
    }

    /// Returns the ids of a list of ids, or a single id as a list.
    pub fn ids<I: Id>(&self) -> Vec<I> {
        match self {
            CheckedValue::List(items) => items
                .iter()
                .filter_map(|item| if let CheckedValue::Int(id) = item { Some(I::from_number(*id)) } else { None })
                .collect(),
            CheckedValue::Int(id) => vec![I::from_number(*id)],
            _ => Vec::new(),
        }
    }
}

impl From<&str> for CheckedValue {
    fn from(value: &str) -> Self {
        CheckedValue::Text(value.to_owned())
    }
}
impl From<String> for CheckedValue {
    fn from(value: String) -> Self {
        CheckedValue::Text(value)
    }
}
impl From<i64> for CheckedValue {
    fn from(value: i64) -> Self {
        CheckedValue::Int(value)
    }
}
impl From<bool> for CheckedValue {
    fn from(value: bool) -> Self {
        CheckedValue::Bool(value)
    }
}
impl<T: Into<CheckedValue>> From<Option<T>> for CheckedValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(CheckedValue::Null, Into::into)
    }
}

/// Returns the name of a JSON type in messages (`docs/reference/conventions.md`).
pub fn type_name(value: &Json) -> &'static str {
    match value {
        Json::Null => "NoneType",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_f64() => "float",
        Json::Number(_) => "int",
        Json::String(_) => "str",
        Json::Array(_) => "list",
        Json::Object(_) => "dict",
    }
}
