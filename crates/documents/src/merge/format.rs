//! Formats values for a document.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use super::syntax::TagFilter;

/// The value of a tag.
#[derive(Clone, Debug, PartialEq)]
pub enum TagValue {
    Empty,
    /// Any text. Options are their texts, separated by `, `.
    Text(String),
    /// A decimal number as text, such as `-1234.50`, of any length.
    Number(String),
    Date(Date),
    /// Microseconds since 1970 in UTC.
    DateTime(i64),
    /// The day of a date and time, in microseconds since 1970.
    Day(i64),
    Bool(bool),
}

impl TagValue {
    /// Returns whether a condition on it is true: it is set, and not false.
    pub fn is_truthy(&self) -> bool {
        !self.is_empty() && *self != Self::Bool(false)
    }

    /// Returns whether it is not set.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Empty) || matches!(self, Self::Text(text) | Self::Number(text) if text.is_empty())
    }

    /// Returns its day and hour in a zone. A date has no zone.
    fn to_datetime(&self, zone: &TimeZone) -> Option<DateTime> {
        match self {
            Self::Date(date) => Some(date.at(0, 0, 0, 0)),
            Self::DateTime(microseconds) => Some(zone.to_datetime(Timestamp::from_microsecond(*microseconds).ok()?)),
            Self::Day(microseconds) => Some(Self::DateTime(*microseconds).to_datetime(zone)?.date().at(0, 0, 0, 0)),
            _ => None,
        }
    }

    /// Returns the text of a value: dates and datetimes in ISO 8601 (UTC, with microseconds), Yes and No.
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

/// Returns the text that a tag shows: its value after its filters. A filter does not change values of other types.
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
