//! The moments of a schedule (`docs/reference/sequences.md`).

use identity::timezones;
use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, ToSpan};

const MINUTE_US: i64 = 60_000_000;
/// The days within which the next date of every schedule lies, from the first date on.
const MAX_DAYS: usize = 800;

/// The moments at which runs start.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub time_zone: String,
    pub every: &'static str,
    pub interval: i64,
    /// The hour and the minute.
    pub at: (i8, i8),
    /// The days of the week, from 1 (Monday) to 7.
    pub weekdays: Vec<i8>,
    pub day: i8,
    pub starts_on: Option<Date>,
    pub ends_on: Option<Date>,
}

/// The date of a time in a zone.
pub fn date_of(at: i64, zone: &TimeZone) -> Date {
    zone.to_datetime(Timestamp::from_microsecond(at).unwrap_or(Timestamp::UNIX_EPOCH)).date()
}

/// A time in a zone, with its offset.
pub fn local(at: i64, zone: &TimeZone) -> String {
    let at = Timestamp::from_microsecond(at).unwrap_or(Timestamp::UNIX_EPOCH);
    let offset = zone.to_offset(at);
    let (sign, seconds) = (if offset.seconds() < 0 { '-' } else { '+' }, offset.seconds().abs());
    format!(
        "{}{sign}{:02}:{:02}",
        zone.to_datetime(at).strftime("%Y-%m-%dT%H:%M:%S"),
        seconds / 3600,
        seconds / 60 % 60
    )
}

impl Schedule {
    pub fn zone(&self) -> TimeZone {
        timezones::zone(&self.time_zone).unwrap_or(TimeZone::UTC)
    }

    /// Returns the first moment after a time. `first` is the date from which intervals count, unless the schedule has one.
    pub fn next(&self, first: Date, after: i64) -> Option<i64> {
        let first = self.starts_on.unwrap_or(first);
        if self.every == "minutes" {
            return self.next_minutes(after);
        }
        let zone = self.zone();
        let mut date = date_of(after, &zone).yesterday().ok()?.max(first);
        for _ in 0..MAX_DAYS {
            if self.ends_on.is_some_and(|last| date > last) {
                return None;
            }
            if self.has_date(first, date) {
                let next = self.times().filter_map(|time| moment(date, time, self.every == "hours", &zone));
                if let Some(next) = next.filter(|at| *at > after).min() {
                    return Some(next);
                }
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// Minutes count from the hour in UTC, and know no zone.
    fn next_minutes(&self, after: i64) -> Option<i64> {
        let step = self.interval.max(1) * MINUTE_US;
        let begin = self.starts_on.and_then(|date| start_of(date, &TimeZone::UTC)).unwrap_or(i64::MIN);
        let next = (after.div_euclid(step) + 1).saturating_mul(step).max(begin);
        let end = self.ends_on.and_then(|date| start_of(date.tomorrow().ok()?, &TimeZone::UTC));
        end.is_none_or(|end| next < end).then_some(next)
    }

    /// Returns whether there are moments on a date.
    fn has_date(&self, first: Date, date: Date) -> bool {
        let days = |from: Date, to: Date| i64::from(from.until(to).map_or(0, |span| span.get_days()));
        match self.every {
            "hours" => true,
            "days" => days(first, date) % self.interval == 0,
            "weeks" => {
                let weeks = days(monday(first), monday(date)) / 7;
                weeks % self.interval == 0 && self.weekdays.contains(&date.weekday().to_monday_one_offset())
            }
            _ => {
                let month = |date: Date| i64::from(date.year()) * 12 + i64::from(date.month());
                (month(date) - month(first)) % self.interval == 0 && date.day() == self.day.min(date.days_in_month())
            }
        }
    }

    fn times(&self) -> impl Iterator<Item = Time> + use<> {
        let (hour, minute) = self.at;
        let step = if self.every == "hours" { self.interval.clamp(1, 24) as usize } else { 24 };
        let first = if self.every == "hours" { 0 } else { hour };
        (0..24).step_by(step).filter_map(move |hours: i8| Time::new(first + hours, minute, 0, 0).ok())
    }
}

fn monday(date: Date) -> Date {
    let days = i64::from(date.weekday().since(Weekday::Monday));
    date.checked_sub(days.days()).unwrap_or(date)
}

fn start_of(date: Date, zone: &TimeZone) -> Option<i64> {
    Some(zone.to_ambiguous_timestamp(date.to_datetime(Time::midnight())).compatible().ok()?.as_microsecond())
}

/// The moment of a time of day. One that exists twice is the first; one that does not exist is the first moment after the gap, or is
/// left out.
fn moment(date: Date, time: Time, leaves_out: bool, zone: &TimeZone) -> Option<i64> {
    let local = date.to_datetime(time);
    let found = zone.to_ambiguous_timestamp(local);
    let AmbiguousOffset::Gap { before, .. } = found.offset() else {
        return Some(found.earlier().ok()?.as_microsecond());
    };
    if leaves_out || is_skipped(date, zone) {
        return None;
    }
    // The gap begins at the last change of the offset before that time.
    let within = before.to_timestamp(local).ok()?.checked_add(SignedDuration::from_secs(1)).ok()?;
    Some(zone.preceding(within).next()?.timestamp().as_microsecond())
}

/// Returns whether a zone skipped a whole date.
fn is_skipped(date: Date, zone: &TimeZone) -> bool {
    let is_in_gap =
        |local: DateTime| matches!(zone.to_ambiguous_timestamp(local).offset(), AmbiguousOffset::Gap { .. });
    is_in_gap(date.to_datetime(Time::midnight())) && is_in_gap(date.at(23, 59, 59, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use resource::time;

    fn schedule(every: &'static str, interval: i64, at: (i8, i8)) -> Schedule {
        let time_zone = "Europe/Berlin".to_owned();
        Schedule { time_zone, every, interval, at, weekdays: vec![1, 5], day: 31, starts_on: None, ends_on: None }
    }

    /// The next moments after a time, in the zone of the schedule.
    fn moments(schedule: &Schedule, first: &str, after: &str, count: usize) -> Vec<String> {
        let (first, mut after) = (first.parse().unwrap(), time::parse(after).unwrap());
        let mut found = Vec::new();
        while let Some(next) = schedule.next(first, after).filter(|_| found.len() < count) {
            found.push(local(next, &schedule.zone()));
            after = next;
        }
        found
    }

    #[test]
    fn a_time_that_does_not_exist_is_the_end_of_the_gap() {
        let found = moments(&schedule("days", 1, (2, 30)), "2026-03-01", "2026-03-27T12:00:00Z", 3);
        assert_eq!(found, ["2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]);
    }

    #[test]
    fn a_time_that_exists_twice_happens_once() {
        let found = moments(&schedule("days", 1, (2, 30)), "2026-10-01", "2026-10-24T12:00:00Z", 2);
        assert_eq!(found, ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]);
    }

    #[test]
    fn hours_leave_out_a_time_that_does_not_exist() {
        let found = moments(&schedule("hours", 1, (9, 15)), "2026-03-01", "2026-03-28T23:30:00Z", 3);
        assert_eq!(found, ["2026-03-29T01:15:00+01:00", "2026-03-29T03:15:00+02:00", "2026-03-29T04:15:00+02:00"]);
    }

    #[test]
    fn weeks_begin_on_monday() {
        // The first date is a Wednesday.
        let found = moments(&schedule("weeks", 2, (8, 0)), "2026-01-07", "2026-01-07T00:00:00Z", 3);
        assert_eq!(found, ["2026-01-09T08:00:00+01:00", "2026-01-19T08:00:00+01:00", "2026-01-23T08:00:00+01:00"]);
    }

    #[test]
    fn a_shorter_month_has_its_last_day() {
        let found = moments(&schedule("months", 1, (8, 0)), "2026-01-01", "2026-01-30T00:00:00Z", 3);
        assert_eq!(found, ["2026-01-31T08:00:00+01:00", "2026-02-28T08:00:00+01:00", "2026-03-31T08:00:00+02:00"]);
    }

    #[test]
    fn minutes_count_from_the_hour_within_the_dates() {
        let mut every = schedule("minutes", 20, (0, 0));
        every.time_zone = "UTC".to_owned();
        every.starts_on = Some("2026-01-02".parse().unwrap());
        every.ends_on = Some("2026-01-02".parse().unwrap());
        let found = moments(&every, "2026-01-01", "2026-01-01T10:01:00Z", 100);
        assert_eq!((found.len(), found[0].as_str()), (72, "2026-01-02T00:00:00+00:00"));
        assert_eq!(found[71], "2026-01-02T23:40:00+00:00");
    }

    #[test]
    fn a_date_that_the_zone_skipped_is_left_out() {
        let mut every = schedule("days", 1, (12, 0));
        every.time_zone = "Pacific/Apia".to_owned();
        let found = moments(&every, "2011-12-01", "2011-12-29T00:00:00Z", 2);
        assert_eq!(found, ["2011-12-29T12:00:00-10:00", "2011-12-31T12:00:00+14:00"]);
    }
}
