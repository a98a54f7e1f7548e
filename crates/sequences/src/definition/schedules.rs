//! Reads the trigger of a schedule.

use super::conditions::Selection;
use super::{
    check_names, read_integer, read_list, read_object, read_required_choice, read_required_id, require, text_of,
};
use crate::problems::{Place, Problems};
use crate::schedule::Schedule;
use identity::timezones::is_timezone;
use jiff::civil::Date;
use resource::{message, time};
use serde_json::{Map, Value as Json};

pub const EVERY: [&str; 5] = ["minutes", "hours", "days", "weeks", "months"];

/// Starts runs at moments: one each, or one for each selected record.
#[derive(Clone, Debug)]
pub struct ScheduleTrigger {
    pub schedule: Schedule,
    pub for_each: Option<(i64, Selection)>,
}

/// The names that a schedule may have.
pub fn names(every: &str) -> Vec<&'static str> {
    let own: &[&'static str] = match every {
        "minutes" => &[],
        "weeks" => &["at", "weekdays"],
        "months" => &["at", "day"],
        _ => &["at"],
    };
    let shared = ["type", "time_zone", "every", "interval", "starts_on", "ends_on", "for_each"];
    shared.iter().chain(own).copied().collect()
}

/// Reads a trigger of the type `schedule`.
pub fn read(object: &Map<String, Json>, place: &Place, problems: &mut Problems) -> ScheduleTrigger {
    let every = read_required_choice(object, "every", &EVERY, &place.of("every"), problems);
    match every {
        Some(every) => check_names(object, &names(every), place, problems),
        None => check_names(object, &[names("weeks"), names("months")].concat(), place, problems),
    }
    let every = every.unwrap_or("days");
    let starts_on = read_date(object, "starts_on", place, problems);
    let ends_on = read_date(object, "ends_on", place, problems);
    if let (Some(first), Some(last)) = (starts_on, ends_on)
        && last < first
    {
        problems.add(&place.of("ends_on"), format!("Ensure this value is greater than or equal to {first}."));
    }
    let schedule = Schedule {
        time_zone: read_zone(object, &place.of("time_zone"), problems),
        every,
        interval: read_interval(object, every, &place.of("interval"), problems),
        at: if every == "minutes" { (0, 0) } else { read_time(object, place, problems) },
        weekdays: if every == "weeks" { read_weekdays(object, place, problems) } else { Vec::new() },
        day: if every == "months" { read_day(object, place, problems) } else { 1 },
        starts_on,
        ends_on,
    };
    ScheduleTrigger { schedule, for_each: read_for_each(object, &place.of("for_each"), problems) }
}

fn read_for_each(object: &Map<String, Json>, place: &Place, problems: &mut Problems) -> Option<(i64, Selection)> {
    let sent = object.get("for_each").filter(|sent| !sent.is_null())?;
    let object = read_object(sent, place, problems)?;
    check_names(object, &["object_class", "condition"], place, problems);
    let class = read_required_id(object, "object_class", &place.of("object_class"), problems);
    Some((class.unwrap_or(0), Selection::read(object.get("condition"), &place.of("condition"), problems)))
}

fn read_zone(object: &Map<String, Json>, place: &Place, problems: &mut Problems) -> String {
    match object.get("time_zone").filter(|sent| !sent.is_null()) {
        None => problems.add(place, message::REQUIRED),
        Some(sent) => match sent.as_str().filter(|name| is_timezone(name)) {
            Some(name) => return name.to_owned(),
            None => problems.add(place, message::choice(text_of(sent))),
        },
    }
    "UTC".to_owned()
}

fn read_interval(object: &Map<String, Json>, every: &str, place: &Place, problems: &mut Problems) -> i64 {
    let choices: &[i64] = match every {
        "minutes" => &[5, 10, 15, 20, 30],
        "hours" => &[1, 2, 3, 4, 6, 8, 12],
        _ => &[],
    };
    let most = match every {
        "days" => 366,
        "weeks" => 52,
        "months" => 12,
        _ => i64::MAX,
    };
    let interval = read_integer(object, "interval", (1, most), place, problems);
    match interval {
        None if every == "minutes" => {
            if !problems.has_any(place) {
                problems.add(place, message::REQUIRED);
            }
            5
        }
        None => 1,
        Some(interval) if !choices.is_empty() && !choices.contains(&interval) => {
            problems.add(place, message::choice(interval));
            choices[0]
        }
        Some(interval) => interval,
    }
}

/// Reads `HH:MM`.
fn read_time(object: &Map<String, Json>, place: &Place, problems: &mut Problems) -> (i8, i8) {
    require(object, "at", place, problems);
    let Some(sent) = object.get("at").filter(|sent| !sent.is_null()) else { return (0, 0) };
    let number = |text: &str, most: i8| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| is_number && *number <= most)
    };
    let time = sent.as_str().and_then(|text| text.split_once(':'));
    let time = time.and_then(|(hour, minute)| Some((number(hour, 23)?, number(minute, 59)?)));
    time.unwrap_or_else(|| {
        problems.add(&place.of("at"), message::VALUE);
        (0, 0)
    })
}

fn read_weekdays(object: &Map<String, Json>, place: &Place, problems: &mut Problems) -> Vec<i8> {
    require(object, "weekdays", place, problems);
    let at = place.of("weekdays");
    let Some(sent) = object.get("weekdays").filter(|sent| !sent.is_null()) else { return Vec::new() };
    let Some(items) = read_list(sent, 7, &at, problems) else { return Vec::new() };
    if items.is_empty() {
        problems.add(&at, message::EMPTY_LIST);
    }
    let mut weekdays = Vec::new();
    for item in items {
        match item.as_i64().filter(|day| (1..=7).contains(day)) {
            Some(day) if weekdays.contains(&(day as i8)) => {}
            Some(day) => weekdays.push(day as i8),
            None => problems.add(&at, message::choice(text_of(item))),
        }
    }
    weekdays
}

fn read_day(object: &Map<String, Json>, place: &Place, problems: &mut Problems) -> i8 {
    require(object, "day", place, problems);
    read_integer(object, "day", (1, 31), &place.of("day"), problems).map_or(1, |day| day as i8)
}

fn read_date(object: &Map<String, Json>, name: &str, place: &Place, problems: &mut Problems) -> Option<Date> {
    let sent = object.get(name).filter(|sent| !sent.is_null())?;
    let date = sent.as_str().and_then(time::parse_date).and_then(|date| date.to_string().parse().ok());
    if date.is_none() {
        problems.add(&place.of(name), message::DATE);
    }
    date
}
