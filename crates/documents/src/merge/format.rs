//! What values look like in a document.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use super::syntax::Filter;

/// What a tag stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Empty,
    /// Any text; options as their texts with `, ` between.
    Text(String),
    /// A decimal number as text, such as `-1234.50`, of any length.
    Number(String),
    Date(Date),
    /// Microseconds since 1970 in UTC.
    DateTime(i64),
    /// The day of a moment, in microseconds since 1970.
    Day(i64),
    Bool(bool),
}

impl Value {
    /// Whether a condition on it holds: it is set, and not false.
    pub fn holds(&self) -> bool {
        !self.is_empty() && *self != Self::Bool(false)
    }

    /// Whether it is not set.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Empty) || matches!(self, Self::Text(text) | Self::Number(text) if text.is_empty())
    }

    /// Its day and hour in a zone; a date has none.
    fn moment(&self, zone: &TimeZone) -> Option<DateTime> {
        match self {
            Self::Date(date) => Some(date.at(0, 0, 0, 0)),
            Self::DateTime(microseconds) => Some(zone.to_datetime(Timestamp::from_microsecond(*microseconds).ok()?)),
            Self::Day(microseconds) => Some(Self::DateTime(*microseconds).moment(zone)?.date().at(0, 0, 0, 0)),
            _ => None,
        }
    }

    /// The text of a value: dates and datetimes in ISO 8601 (UTC, with microseconds), Yes and No.
    pub fn text(self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Text(text) | Self::Number(text) => text,
            Self::Date(date) => date.to_string(),
            Self::DateTime(_) => self.moment(&TimeZone::UTC).map(|at| format!("{at:.6}Z")).unwrap_or_default(),
            Self::Day(_) => self.moment(&TimeZone::UTC).map(|at| at.date().to_string()).unwrap_or_default(),
            Self::Bool(true) => "Yes".to_owned(),
            Self::Bool(false) => "No".to_owned(),
        }
    }
}

/// The text that a tag shows: its value after its filters. A filter leaves alone what it is not for.
pub fn shown(value: Value, filters: &[Filter]) -> String {
    filters.iter().fold(value, filtered).text()
}

fn filtered(value: Value, filter: &Filter) -> Value {
    match filter {
        Filter::Date(format) => value.moment(&format.zone).map(|at| Value::Text(format.format(at))).unwrap_or(value),
        Filter::Number(pattern) => match &value {
            Value::Number(number) => pattern.format(number).map(Value::Text).unwrap_or(value),
            _ => value,
        },
        Filter::Default(text) if value.is_empty() => Value::Text(text.clone()),
        Filter::Default(_) => value,
        Filter::Upper if !value.is_empty() => Value::Text(value.text().to_uppercase()),
        Filter::Lower if !value.is_empty() => Value::Text(value.text().to_lowercase()),
        Filter::Upper | Filter::Lower => value,
    }
}
