//! Spans of time: `{time_value, time_unit}` (`docs/reference/sequences.md`).

use jiff::Span as JiffSpan;
use jiff::civil::{Date, DateTime};
use resource::message;
use serde_json::Value as Json;

const DAY_US: i64 = 86_400_000_000;
/// The longest span, in days. A month counts as 31 days.
const MAX_DAYS: i64 = 400;
const UNITS: [&str; 6] = ["seconds", "minutes", "hours", "days", "weeks", "months"];

/// A number of seconds to months.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeSpan {
    value: i64,
    /// The index of the unit in [`UNITS`].
    unit: usize,
}

impl TimeSpan {
    /// Reads a span, or returns its errors, each with the name of its member.
    pub fn read(sent: &Json) -> Result<TimeSpan, Vec<(&'static str, String)>> {
        let Some(object) = sent.as_object() else {
            return Err(vec![("", message::not_an_object(resource::type_name(sent)))]);
        };
        let mut errors = Vec::new();
        let value = match object.get("time_value") {
            None => Err(message::REQUIRED.to_owned()),
            Some(value) => match value.as_i64() {
                None => Err(message::INTEGER.to_owned()),
                Some(value) if value < 1 => Err(message::too_small(1)),
                Some(value) if value > 1_000 => Err(message::too_big(1_000)),
                Some(value) => Ok(value),
            },
        };
        let unit = match object.get("time_unit") {
            None => Err(message::REQUIRED.to_owned()),
            Some(sent) => UNITS
                .iter()
                .position(|unit| sent.as_str() == Some(unit))
                .ok_or_else(|| message::choice(sent.as_str().map_or_else(|| sent.to_string(), str::to_owned))),
        };
        errors.extend(
            object
                .keys()
                .filter(|name| !["time_value", "time_unit"].contains(&name.as_str()))
                .map(|_| ("", message::NO_FIELD.to_owned())),
        );
        match (value, unit) {
            (Ok(value), Ok(unit)) if errors.is_empty() => {
                let span = TimeSpan { value, unit };
                if span.longest_us() > MAX_DAYS * DAY_US {
                    return Err(vec![("time_value", message::too_big("400 days"))]);
                }
                Ok(span)
            }
            (value, unit) => {
                errors.extend(value.err().map(|wrong| ("time_value", wrong)));
                errors.extend(unit.err().map(|wrong| ("time_unit", wrong)));
                Err(errors)
            }
        }
    }

    /// Returns the duration in microseconds, with months of 31 days.
    fn longest_us(self) -> i64 {
        let unit = [1_000_000, 60_000_000, 3_600_000_000, DAY_US, 7 * DAY_US, 31 * DAY_US][self.unit];
        self.value.saturating_mul(unit)
    }

    /// Returns the moment that is this span after another one (`sign` 1), or before it (-1), in microseconds since 1970.
    pub fn moved(self, moment: i64, sign: i64) -> i64 {
        if self.unit < 5 {
            return moment.saturating_add(self.longest_us().saturating_mul(sign));
        }
        let epoch = jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0);
        let at = epoch.checked_add(jiff::SignedDuration::from_micros(moment)).unwrap_or(DateTime::MAX);
        let months = JiffSpan::new().try_months(self.value * sign);
        let at = months.and_then(|months| at.checked_add(months)).unwrap_or(DateTime::MAX);
        i64::try_from(at.duration_since(epoch).as_micros()).unwrap_or(i64::MAX)
    }

    /// Returns the date that is this span after or before another one; `None` for a unit shorter than a day.
    pub fn moved_date(self, date: Date, sign: i64) -> Option<Date> {
        let span = match self.unit {
            3 => JiffSpan::new().try_days(self.value * sign),
            4 => JiffSpan::new().try_weeks(self.value * sign),
            5 => JiffSpan::new().try_months(self.value * sign),
            _ => return None,
        };
        date.checked_add(span.ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_month_later_is_the_same_day_or_the_last_of_that_month() {
        let month = TimeSpan::read(&json!({"time_value": 1, "time_unit": "months"})).unwrap();
        let parse = |text| resource::time::parse(text).unwrap();
        let shown = resource::time::show(month.moved(parse("2026-01-31T09:30:00Z"), 1));
        assert_eq!(shown, "2026-02-28T09:30:00.000000Z");
        assert_eq!(month.moved_date(jiff::civil::date(2028, 3, 31), -1), Some(jiff::civil::date(2028, 2, 29)));
    }

    #[test]
    fn a_span_has_at_most_400_days() {
        let read = |value: i64, unit: &str| TimeSpan::read(&json!({"time_value": value, "time_unit": unit}));
        assert!(read(400, "days").is_ok() && read(12, "months").is_ok() && read(1_000, "hours").is_ok());
        let too_long = "Ensure this value is less than or equal to 400 days.".to_owned();
        assert_eq!(read(401, "days"), Err(vec![("time_value", too_long.clone())]));
        assert_eq!(read(13, "months"), Err(vec![("time_value", too_long)]));
        assert_eq!(read(0, "days"), Err(vec![("time_value", message::too_small(1))]));
        assert_eq!(read(1, "years"), Err(vec![("time_unit", message::choice("years"))]));
    }
}
