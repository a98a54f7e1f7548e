//! Computes the times of a task: due, expiry, reminders and renewals (`docs/reference/task-templates.md`). This is arithmetic
//! only, in microseconds since 1970, UTC. A date means its last microsecond. Times beyond the year 9999 become the last
//! microsecond of that year.

use jiff::Span;
use jiff::civil::{self, Date, DateTime};
use serde::{Deserialize, Serialize};

const EPOCH: DateTime = civil::date(1970, 1, 1).at(0, 0, 0, 0);
const LAST: DateTime = DateTime::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    Days,
    Weeks,
    Months,
}

/// A number of days, weeks or months.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeFrame {
    pub unit: Unit,
    pub value: i64,
}

impl TimeFrame {
    /// The time after this duration. A month later is the same day, or the last day of that month.
    pub fn add_to(self, time: i64) -> i64 {
        self.from(time, 1)
    }

    /// The time before this duration.
    pub fn subtract_from(self, time: i64) -> i64 {
        self.from(time, -1)
    }

    fn from(self, time: i64, sign: i64) -> i64 {
        let value = self.value.saturating_mul(sign);
        let span = match self.unit {
            Unit::Days => Span::new().try_days(value),
            Unit::Weeks => Span::new().try_weeks(value),
            Unit::Months => Span::new().try_months(value),
        };
        let end = if sign < 0 { DateTime::MIN } else { LAST };
        micros(span.and_then(|span| datetime(time).checked_add(span)).unwrap_or(end))
    }
}

/// The event from which a reminder counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    BeforeDue,
    AfterDue,
    BeforeExpiry,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reminder {
    pub notice_type: Notice,
    #[serde(flatten)]
    pub time: TimeFrame,
}

/// The deadline of a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CompleteBy {
    Asap,
    Date(Date),
    TimeFrame(TimeFrame),
}

/// The expiry of a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expiry {
    AfterAssignment(TimeFrame),
    AfterCompletion(TimeFrame),
    Date(Date),
    /// The next such day of a month.
    Monthly(i64),
    /// The next such day of a year: month and day.
    Annually(i64, i64),
}

/// The parts of a template that a task retains for later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The time between its completion and its expiry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_after: Option<TimeFrame>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reminders: Vec<Reminder>,
    /// The times before its expiry at which it is renewed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renewals: Vec<TimeFrame>,
}

/// The due time of a task that is created now.
pub fn due_at(complete_by: CompleteBy, now: i64) -> i64 {
    match complete_by {
        CompleteBy::Asap => now,
        CompleteBy::Date(date) => end_of(date),
        CompleteBy::TimeFrame(time) => time.add_to(now),
    }
}

/// The expiry of a task that is created now. `None` if it never expires, or not before its completion.
pub fn expires_at(expiry: Expiry, now: i64) -> Option<i64> {
    match expiry {
        Expiry::AfterAssignment(time) => Some(time.add_to(now)),
        Expiry::AfterCompletion(_) => None,
        Expiry::Date(date) => Some(end_of(date)),
        Expiry::Monthly(day) => Some(next_day(now, |date| day_of_month(date, day), 1)),
        Expiry::Annually(month, day) => {
            let such_day = |date: Date| {
                let first = civil::date(date.year(), i8::try_from(month.clamp(1, 12)).unwrap_or(1), 1);
                day_of_month(first, day)
            };
            Some(next_day(now, such_day, 12))
        }
    }
}

/// This day of the date's month, or the last day of a shorter month.
fn day_of_month(date: Date, day: i64) -> Date {
    let last = i64::from(date.days_in_month());
    let day = i8::try_from(day.clamp(1, last)).unwrap_or(1);
    date.with().day(day).build().unwrap_or(date)
}

/// The end of the next such day after today, in this month or year or in the next one.
fn next_day(now: i64, such_day: impl Fn(Date) -> Date, months: i32) -> i64 {
    let today = datetime(now).date();
    let day = such_day(today);
    if day > today {
        return end_of(day);
    }
    let next = today.first_of_month().checked_add(Span::new().months(months));
    next.map_or(micros(LAST), |next| end_of(such_day(next)))
}

/// Returns whether a date is in the future. Today is not.
pub fn is_future(date: Date, now: i64) -> bool {
    date > datetime(now).date()
}

/// Formats a time for people. The end of a day is formatted as that day without a zone, other times to the minute in UTC.
pub fn for_people(time: i64) -> String {
    let at = datetime(time);
    match time == end_of(at.date()) {
        true => at.date().to_string(),
        false => format!("{} UTC", at.strftime("%Y-%m-%d %H:%M")),
    }
}

/// The last microsecond of a date.
pub fn end_of(date: Date) -> i64 {
    micros(date.at(23, 59, 59, 999_999_000))
}

fn datetime(micros: i64) -> DateTime {
    let duration = jiff::SignedDuration::from_micros(micros);
    EPOCH.checked_add(duration).unwrap_or(if micros < 0 { DateTime::MIN } else { LAST })
}

fn micros(at: DateTime) -> i64 {
    let duration = at.duration_since(EPOCH);
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_time(text: &str) -> i64 {
        resource::time::parse(text).unwrap()
    }

    fn format_time(micros: i64) -> String {
        resource::time::show(micros)
    }

    fn time(unit: Unit, value: i64) -> TimeFrame {
        TimeFrame { unit, value }
    }

    #[test]
    fn time_frames_end_at_exact_times() {
        for (from, unit, value, after) in [
            ("2026-01-31T09:30:00.123456Z", Unit::Days, 0, "2026-01-31T09:30:00.123456Z"),
            ("2026-01-31T09:30:00.123456Z", Unit::Days, 1, "2026-02-01T09:30:00.123456Z"),
            ("2026-01-31T09:30:00Z", Unit::Weeks, 2, "2026-02-14T09:30:00.000000Z"),
            ("2026-01-31T09:30:00Z", Unit::Months, 1, "2026-02-28T09:30:00.000000Z"),
            ("2028-01-31T09:30:00Z", Unit::Months, 1, "2028-02-29T09:30:00.000000Z"),
            ("2026-01-31T09:30:00Z", Unit::Months, 2, "2026-03-31T09:30:00.000000Z"),
            ("2026-03-31T09:30:00Z", Unit::Months, 1, "2026-04-30T09:30:00.000000Z"),
            ("2028-02-29T00:00:00Z", Unit::Months, 12, "2029-02-28T00:00:00.000000Z"),
            ("2026-12-31T23:59:59.999999Z", Unit::Months, 2, "2027-02-28T23:59:59.999999Z"),
            // Changes to or from daylight saving time have no effect, because days are UTC days.
            ("2026-03-28T12:00:00Z", Unit::Days, 1, "2026-03-29T12:00:00.000000Z"),
            ("2026-10-24T23:30:00Z", Unit::Weeks, 1, "2026-10-31T23:30:00.000000Z"),
            ("9999-12-31T00:00:00Z", Unit::Months, 100, "9999-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(format_time(time(unit, value).add_to(parse_time(from))), after, "{value} {unit:?} after {from}");
        }
        for (from, unit, value, before) in [
            ("2026-03-31T23:59:59.999999Z", Unit::Months, 1, "2026-02-28T23:59:59.999999Z"),
            ("2026-03-01T00:00:00Z", Unit::Days, 1, "2026-02-28T00:00:00.000000Z"),
            ("2028-03-01T00:00:00Z", Unit::Days, 1, "2028-02-29T00:00:00.000000Z"),
            ("2026-01-05T00:00:00Z", Unit::Weeks, 1, "2025-12-29T00:00:00.000000Z"),
        ] {
            assert_eq!(
                format_time(time(unit, value).subtract_from(parse_time(from))),
                before,
                "{value} {unit:?} before {from}"
            );
        }
    }

    #[test]
    fn a_task_is_due_as_its_template_says() {
        let now = parse_time("2026-11-23T15:00:00Z");
        assert_eq!(format_time(due_at(CompleteBy::Asap, now)), "2026-11-23T15:00:00.000000Z");
        let date = civil::date(2026, 12, 24);
        assert_eq!(format_time(due_at(CompleteBy::Date(date), now)), "2026-12-24T23:59:59.999999Z");
        let due = due_at(CompleteBy::TimeFrame(time(Unit::Weeks, 2)), now);
        assert_eq!(format_time(due), "2026-12-07T15:00:00.000000Z");
    }

    #[test]
    fn a_task_expires_at_the_next_such_day() {
        for (now, expiry, expires) in [
            ("2026-11-23T15:00:00Z", Expiry::Monthly(24), "2026-11-24T23:59:59.999999Z"),
            // Today is not in the future.
            ("2026-11-23T15:00:00Z", Expiry::Monthly(23), "2026-12-23T23:59:59.999999Z"),
            ("2026-11-23T00:00:00Z", Expiry::Monthly(1), "2026-12-01T23:59:59.999999Z"),
            ("2026-12-31T23:59:59.999999Z", Expiry::Monthly(31), "2027-01-31T23:59:59.999999Z"),
            ("2026-01-31T12:00:00Z", Expiry::Monthly(31), "2026-02-28T23:59:59.999999Z"),
            ("2026-02-28T12:00:00Z", Expiry::Monthly(31), "2026-03-31T23:59:59.999999Z"),
            ("2028-02-28T12:00:00Z", Expiry::Monthly(30), "2028-02-29T23:59:59.999999Z"),
            ("2026-04-30T12:00:00Z", Expiry::Monthly(31), "2026-05-31T23:59:59.999999Z"),
            ("2026-11-23T15:00:00Z", Expiry::Annually(12, 31), "2026-12-31T23:59:59.999999Z"),
            ("2026-11-23T15:00:00Z", Expiry::Annually(11, 23), "2027-11-23T23:59:59.999999Z"),
            ("2026-11-23T15:00:00Z", Expiry::Annually(11, 22), "2027-11-22T23:59:59.999999Z"),
            ("2026-11-23T15:00:00Z", Expiry::Annually(2, 29), "2027-02-28T23:59:59.999999Z"),
            ("2027-11-23T15:00:00Z", Expiry::Annually(2, 29), "2028-02-29T23:59:59.999999Z"),
            ("2028-02-29T15:00:00Z", Expiry::Annually(2, 29), "2029-02-28T23:59:59.999999Z"),
            ("2026-06-30T15:00:00Z", Expiry::Annually(6, 31), "2027-06-30T23:59:59.999999Z"),
            ("2026-11-23T15:00:00Z", Expiry::Date(civil::date(2027, 1, 1)), "2027-01-01T23:59:59.999999Z"),
            ("2026-01-30T15:00:00Z", Expiry::AfterAssignment(time(Unit::Months, 1)), "2026-02-28T15:00:00.000000Z"),
        ] {
            assert_eq!(format_time(expires_at(expiry, parse_time(now)).unwrap()), expires, "{expiry:?} from {now}");
        }
        assert_eq!(expires_at(Expiry::AfterCompletion(time(Unit::Days, 1)), 0), None);
    }

    #[test]
    fn a_date_is_in_the_future_from_tomorrow_on() {
        let now = parse_time("2026-11-23T23:59:59.999999Z");
        assert!(is_future(civil::date(2026, 11, 24), now));
        assert!(!is_future(civil::date(2026, 11, 23), now));
        assert!(!is_future(civil::date(2025, 12, 31), now));
    }

    #[test]
    fn the_end_of_a_day_is_shown_as_that_day() {
        for (time, text) in [
            ("2026-12-31T23:59:59.999999Z", "2026-12-31"),
            ("9999-12-31T23:59:59.999999Z", "9999-12-31"),
            ("1969-12-31T23:59:59.999999Z", "1969-12-31"),
            ("2026-12-31T23:59:59.999998Z", "2026-12-31 23:59 UTC"),
            ("2026-12-31T23:59:59Z", "2026-12-31 23:59 UTC"),
            ("2027-01-01T00:00:00Z", "2027-01-01 00:00 UTC"),
        ] {
            assert_eq!(for_people(parse_time(time)), text, "{time}");
        }
    }

    #[test]
    fn a_plan_is_kept_as_json() {
        let plan = Plan {
            expires_after: Some(time(Unit::Months, 6)),
            reminders: vec![Reminder { notice_type: Notice::BeforeDue, time: time(Unit::Days, 3) }],
            renewals: vec![time(Unit::Weeks, 1)],
        };
        let plan_json = serde_json::to_string(&plan).unwrap();
        assert_eq!(
            plan_json,
            r#"{"expires_after":{"unit":"months","value":6},"reminders":[{"notice_type":"before_due","unit":"days","value":3}],"renewals":[{"unit":"weeks","value":1}]}"#
        );
        assert_eq!(serde_json::from_str::<Plan>(&plan_json).unwrap(), plan);
        assert_eq!(serde_json::from_str::<Plan>("{}").unwrap(), Plan::default());
    }
}
