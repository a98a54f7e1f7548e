//! Values at run time: what references, texts and calculations of a definition result in when a step begins.

pub mod compare;
pub mod evaluate;
pub mod numbers;

use numbers::Number;
use records::classes::ClassField;
use records::field_type::FieldType;
use resource::{CheckedValue, time};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

/// A value with its type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Val {
    #[default]
    Null,
    Text(String),
    Int(i64),
    Decimal(String),
    Bool(bool),
    Date(String),
    /// Microseconds since 1970.
    Moment(i64),
    /// The value of an option and its text.
    Choice(String, String),
    /// The options of a set, each with its text.
    Set(Vec<(String, String)>),
    User(i64),
    Users(Vec<i64>),
    Groups(Vec<i64>),
    Record(i64),
    Records(Vec<i64>),
    Task(i64),
    Json(Json),
}

impl Val {
    pub fn is_null(&self) -> bool {
        matches!(self, Val::Null | Val::Json(Json::Null))
    }

    /// Returns the value of a field of a record.
    pub fn of_field(field: &ClassField, value: &CheckedValue) -> Val {
        let option = |value: &str| {
            let text = field.options.iter().find(|option| option.value == value);
            (value.to_owned(), text.map_or_else(|| value.to_owned(), |option| option.text.to_string()))
        };
        match (field.kind, value) {
            (_, CheckedValue::Null) => Val::Null,
            (FieldType::Enum | FieldType::Status, CheckedValue::Text(value)) => {
                let (value, text) = option(value);
                Val::Choice(value, text)
            }
            (FieldType::Set, CheckedValue::List(items)) => {
                let texts = items.iter().filter_map(|item| match item {
                    CheckedValue::Text(item) => Some(option(item)),
                    _ => None,
                });
                Val::Set(texts.collect())
            }
            (FieldType::Date, CheckedValue::Text(date)) => Val::Date(date.clone()),
            (FieldType::Decimal, CheckedValue::Text(number)) => Val::Decimal(number.clone()),
            (_, CheckedValue::Text(text)) => Val::Text(text.clone()),
            (FieldType::Datetime, CheckedValue::Int(at)) => Val::Moment(*at),
            (FieldType::User, CheckedValue::Int(user)) => Val::User(*user),
            (FieldType::Relation, CheckedValue::Int(record)) => Val::Record(*record),
            (_, CheckedValue::Int(number)) => Val::Int(*number),
            (_, CheckedValue::Bool(value)) => Val::Bool(*value),
            (_, value) => Val::Json(value.to_json()),
        }
    }

    /// Returns a value that JSON has as the named type of inputs; `None` if it is not of that type.
    pub fn of_json(of: &str, sent: &Json) -> Option<Val> {
        if sent.is_null() {
            return Some(Val::Null);
        }
        Some(match of {
            "json" => Val::Json(sent.clone()),
            "integer" => Val::Int(sent.as_i64()?),
            "decimal" => match sent {
                Json::Number(number) => Val::Decimal(Number::parse(&number.to_string())?.to_text()),
                sent => Val::Decimal(Number::parse(sent.as_str()?)?.to_text()),
            },
            "boolean" => Val::Bool(sent.as_bool()?),
            "date" => Val::Date(time::parse_date(sent.as_str()?)?),
            "datetime" => Val::Moment(time::parse(sent.as_str()?)?),
            "user" => Val::User(sent.as_i64()?),
            "relation" => Val::Record(sent.as_i64()?),
            "set" => {
                let items: Option<Vec<_>> = sent
                    .as_array()?
                    .iter()
                    .map(|item| item.as_str().map(|item| (item.to_owned(), item.to_owned())))
                    .collect();
                Val::Set(items?)
            }
            _ => Val::Text(sent.as_str()?.to_owned()),
        })
    }

    /// Returns the value as bodies and answers have it.
    pub fn to_json(&self) -> Json {
        match self {
            Val::Null => Json::Null,
            Val::Text(text) | Val::Date(text) | Val::Decimal(text) => text.clone().into(),
            Val::Int(number) => (*number).into(),
            Val::Bool(value) => (*value).into(),
            Val::Moment(at) => time::show(*at).into(),
            Val::Choice(value, _) => value.clone().into(),
            Val::Set(items) => items.iter().map(|(value, _)| value.clone()).collect(),
            Val::User(id) | Val::Record(id) | Val::Task(id) => (*id).into(),
            Val::Users(ids) | Val::Groups(ids) | Val::Records(ids) => json!(ids),
            Val::Json(value) => value.clone(),
        }
    }

    /// Returns the value as a field of this type takes it.
    pub fn to_json_for(&self, kind: FieldType) -> Json {
        match (self, kind) {
            (Val::Date(date), FieldType::Datetime) => format!("{date}T00:00:00.000000Z").into(),
            (Val::Choice(value, _), FieldType::Set) => json!([value]),
            (Val::Text(value), FieldType::Set) => json!([value]),
            (Val::Int(number), FieldType::Decimal) => number.to_string().into(),
            _ => self.to_json(),
        }
    }

    /// The name of the type of JSON, in messages.
    pub fn json_type(sent: &Json) -> &'static str {
        match sent {
            Json::String(_) => "string",
            Json::Number(number) if number.is_i64() => "integer",
            Json::Number(_) => "decimal",
            Json::Bool(_) => "boolean",
            _ => "json",
        }
    }
}
