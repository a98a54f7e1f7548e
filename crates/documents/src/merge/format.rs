//! What values look like in a document.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use super::syntax::TagFilter;

/// What a tag stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum TagValue {
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

impl TagValue {
    /// Whether a condition on it holds: it is set, and not false.
    pub fn is_truthy(&self) -> bool {
        !self.is_empty() && *self != Self::Bool(false)
    }

    /// Whether it is not set.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Empty) || matches!(self, Self::Text(text) | Self::Number(text) if text.is_empty())
    }

    /// Its day and hour in a zone; a date has none.
    fn to_datetime(&self, zone: &TimeZone) -> Option<DateTime> {
        match self {
            Self::Date(date) => Some(date.at(0, 0, 0, 0)),
            Self::DateTime(microseconds) => Some(zone.to_datetime(Timestamp::from_microsecond(*microseconds).ok()?)),
            Self::Day(microseconds) => Some(Self::DateTime(*microseconds).to_datetime(zone)?.date().at(0, 0, 0, 0)),
            _ => None,
        }
    }

    /// The text of a value: dates and datetimes in ISO 8601 (UTC, with microseconds), Yes and No.
    pub fn text(self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Text(text) | Self::Number(text) => text,
            Self::Date(date) => date.to_string(),
            Self::DateTime(_) => self.to_datetime(&TimeZone::UTC).map(|at| format!("{at:.6}Z")).unwrap_or_default(),
            Self::Day(_) => self.to_datetime(&TimeZone::UTC).map(|at| at.date().to_string()).unwrap_or_default(),
            Self::Bool(true) => "Yes".to_owned(),
            Self::Bool(false) => "No".to_owned(),
        }
    }
}

/// The text that a tag shows: its value after its filters. A filter leaves alone what it is not for.
pub fn format_value(value: TagValue, filters: &[TagFilter]) -> String {
    filters.iter().fold(value, filtered).text()
}

fn filtered(value: TagValue, filter: &TagFilter) -> TagValue {
    match filter {
        TagFilter::Date(format) => {
            value.to_datetime(&format.zone).map(|at| TagValue::Text(format.format(at))).unwrap_or(value)
        }
        TagFilter::Number(pattern) => match &value {
            TagValue::Number(number) => pattern.format(number).map(TagValue::Text).unwrap_or(value),
            _ => value,
        },
        TagFilter::Default(text) if value.is_empty() => TagValue::Text(text.clone()),
        TagFilter::Default(_) => value,
        TagFilter::Upper if !value.is_empty() => TagValue::Text(value.text().to_uppercase()),
        TagFilter::Lower if !value.is_empty() => TagValue::Text(value.text().to_lowercase()),
        TagFilter::Upper | TagFilter::Lower => value,
    }
}
