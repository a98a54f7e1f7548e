//! The value of a field, as checked and as stored.

use crate::time;
use serde_json::Value as Json;

/// A checked value. Datetimes are `Int` microseconds since 1970 (UTC), dates `Text` as `2026-01-31`, decimals `Text`
/// padded to their scale, sets and lists `List`.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants say what they hold")]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Text(String),
    List(Vec<Value>),
    Json(Json),
    /// As it was sent and is stored: a tree of it would take many times its bytes.
    JsonText(String),
}

impl Value {
    /// As shown in answers and in the administration log, where microseconds of a datetime field stay a number.
    pub fn to_json(&self) -> Json {
        match self {
            Value::Null => Json::Null,
            Value::Bool(value) => (*value).into(),
            Value::Int(value) => (*value).into(),
            Value::Text(value) => value.clone().into(),
            Value::List(items) => Json::Array(items.iter().map(Value::to_json).collect()),
            Value::Json(value) => value.clone(),
            Value::JsonText(text) => serde_json::from_str(text).unwrap_or_default(),
        }
    }

    /// As [`Value::to_json`], for a datetime.
    pub fn to_json_datetime(&self) -> Json {
        match self {
            Value::Int(micros) => time::show(*micros).into(),
            other => other.to_json(),
        }
    }

    /// The ids of a list of ids.
    pub fn ids(&self) -> Vec<i64> {
        match self {
            Value::List(items) => {
                items.iter().filter_map(|item| if let Value::Int(id) = item { Some(*id) } else { None }).collect()
            }
            Value::Int(id) => vec![*id],
            _ => Vec::new(),
        }
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Value::Text(value.to_owned())
    }
}
impl From<String> for Value {
    fn from(value: String) -> Self {
        Value::Text(value)
    }
}
impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Value::Int(value)
    }
}
impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

/// The name of a JSON type in messages (document 4, section 2, row "{type} in messages").
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
