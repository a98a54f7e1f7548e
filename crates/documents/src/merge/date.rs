//! The filter `date`: its pattern, its time zone and its language.

use identity::timezones;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::date_names::{DateNames, MONTHS_AND_DAYS};

/// The valid letters of a pattern. A longer run of letters, or another letter, is an error.
const LETTERS: [&str; 16] =
    ["yyyy", "yy", "MMMM", "MMM", "MM", "M", "dd", "d", "EEEE", "EEE", "HH", "H", "hh", "h", "mm", "ss"];
const LONGEST: usize = 200;

/// The format of a date.
#[derive(Clone, Debug, PartialEq)]
pub struct DateFormat {
    pattern: Vec<DatePiece>,
    /// The zone for the day and the hour of a date and time.
    pub zone: TimeZone,
    pub language: Language,
}

#[derive(Clone, Debug, PartialEq)]
enum DatePiece {
    Letters(&'static str),
    Text(String),
}

/// The names of months and days of the week in a language.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Language(&'static DateNames);

impl Language {
    const ENGLISH: Language = Language(&MONTHS_AND_DAYS[0]);

    /// Parses a tag such as `de` or `pt-BR`. Ignores the text behind the language.
    pub fn parse(tag: &str) -> Result<Language, String> {
        let language = tag.trim().split(['-', '_']).next().unwrap_or_default();
        let language_names = MONTHS_AND_DAYS.iter().find(|names| names.language.eq_ignore_ascii_case(language));
        let languages = || MONTHS_AND_DAYS.iter().map(|names| names.language).collect::<Vec<_>>().join(", ");
        language_names
            .map(Language)
            .ok_or_else(|| format!("unknown language \"{tag}\", which is none of {}", languages()))
    }
}

/// Returns the time zone of an IANA name, such as `Europe/Berlin`, from the compiled-in database.
pub fn zone(name: &str) -> Result<TimeZone, String> {
    timezones::zone_in_any_case(name.trim())
        .ok_or_else(|| format!("unknown time zone \"{name}\", which is none such as Europe/Berlin"))
}

impl DateFormat {
    /// Parses a pattern: letters as in Java and Excel, text in single quotes, all other characters literally. The zone is UTC, the
    /// language English.
    pub fn parse(pattern: &str) -> Result<Self, String> {
        if pattern.chars().count() > LONGEST {
            return Err("a pattern of a date is too long".to_owned());
        }
        let mut pieces = Vec::new();
        let mut text = String::new();
        let mut rest = pattern;
        while let Some(c) = rest.chars().next() {
            if is_single_quote(c) {
                rest = read_quoted(&rest[c.len_utf8()..], &mut text)?;
            } else if c.is_ascii_alphabetic() {
                let run = rest.len() - rest.trim_start_matches(c).len();
                let letters = &rest[..run];
                let letter_run = LETTERS.into_iter().chain(["a"]).find(|candidate| *candidate == letters);
                let letter_run =
                    letter_run.ok_or_else(|| format!("unknown letters {letters} in the pattern of a date"))?;
                if !text.is_empty() {
                    pieces.push(DatePiece::Text(std::mem::take(&mut text)));
                }
                pieces.push(DatePiece::Letters(letter_run));
                rest = &rest[run..];
            } else {
                text.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        if !text.is_empty() {
            pieces.push(DatePiece::Text(text));
        }
        Ok(Self { pattern: pieces, zone: TimeZone::UTC, language: Language::ENGLISH })
    }

    pub fn format(&self, at: DateTime) -> String {
        self.pattern
            .iter()
            .map(|piece| match piece {
                DatePiece::Letters(letters) => letters_of(letters, at, self.language.0),
                DatePiece::Text(text) => text.clone(),
            })
            .collect()
    }
}

/// Reads the text up to the closing quote. Two quotes in a row are one visible quote.
fn read_quoted<'a>(rest: &'a str, text: &mut String) -> Result<&'a str, String> {
    if let Some(rest) = rest.strip_prefix(is_single_quote) {
        text.push('\'');
        return Ok(rest);
    }
    let mut rest = rest;
    loop {
        let end = rest.find(is_single_quote).ok_or("a single quote that is never closed in the pattern of a date")?;
        text.push_str(&rest[..end]);
        rest = rest[end..].strip_prefix(is_single_quote).unwrap_or_default();
        let Some(next) = rest.strip_prefix(is_single_quote) else { return Ok(rest) };
        text.push('\'');
        rest = next;
    }
}

fn is_single_quote(c: char) -> bool {
    matches!(c, '\'' | '‘' | '’' | '‚' | '‛')
}

fn letters_of(letters: &str, at: DateTime, names: &DateNames) -> String {
    let month = at.month() as usize - 1;
    let day = at.weekday().to_monday_zero_offset() as usize;
    let hour_of_twelve = (at.hour() + 11) % 12 + 1;
    match letters {
        "yyyy" => format!("{:04}", at.year()),
        "yy" => format!("{:02}", at.year().rem_euclid(100)),
        "MMMM" => names.months[month].to_owned(),
        "MMM" => names.short_months[month].to_owned(),
        "MM" => format!("{:02}", at.month()),
        "M" => at.month().to_string(),
        "dd" => format!("{:02}", at.day()),
        "d" => at.day().to_string(),
        "EEEE" => names.days[day].to_owned(),
        "EEE" => names.short_days[day].to_owned(),
        "HH" => format!("{:02}", at.hour()),
        "H" => at.hour().to_string(),
        "hh" => format!("{hour_of_twelve:02}"),
        "h" => hour_of_twelve.to_string(),
        "mm" => format!("{:02}", at.minute()),
        "ss" => format!("{:02}", at.second()),
        _ => if at.hour() < 12 { "AM" } else { "PM" }.to_owned(),
    }
}
