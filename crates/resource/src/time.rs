//! Moments as they are sent and shown: UTC, microseconds, `Z` (document 4, section 2, row "datetimes").

use jiff::civil;
use jiff::fmt::temporal::Pieces;

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;
/// 0001-01-01T00:00:00Z.
const EARLIEST: i64 = -62_135_596_800 * MICROS_PER_SECOND;
/// 9999-12-31T23:59:59.999999Z.
const LATEST: i64 = 253_402_300_800 * MICROS_PER_SECOND - 1;

/// Appends an instant as `2026-01-31T09:30:00.123456Z` (document 4, section 2, row "datetimes"): always 27 bytes.
///
/// Lists show several instants a row, so this neither allocates nor goes through a general formatter. Instants outside
/// the years 1 to 9999, which [`parse`] never gives, show as the nearest end of that range.
pub fn write(out: &mut Vec<u8>, micros: i64) {
    let micros = micros.clamp(EARLIEST, LATEST);
    let (year, month, day) = civil_from_days(micros.div_euclid(MICROS_PER_DAY));
    let in_day = micros.rem_euclid(MICROS_PER_DAY);
    let seconds = in_day / MICROS_PER_SECOND;

    let mut text = *b"0000-00-00T00:00:00.000000Z";
    put_digits(&mut text[0..4], year);
    put_digits(&mut text[5..7], month);
    put_digits(&mut text[8..10], day);
    put_digits(&mut text[11..13], seconds / 3600);
    put_digits(&mut text[14..16], seconds / 60 % 60);
    put_digits(&mut text[17..19], seconds % 60);
    put_digits(&mut text[20..26], in_day % MICROS_PER_SECOND);
    out.extend_from_slice(&text);
}

fn put_digits(place: &mut [u8], mut number: i64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Days since 1970 to year, month and day, after Howard Hinnant's `civil_from_days`: years begin in March, so that the
/// leap day is the last of its year.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The inverse of [`civil_from_days`].
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Reads an ISO 8601 date or datetime: a date alone (its midnight), `T` or a space between, an optional fraction (cut to
/// microseconds), `Z`, an offset, or nothing for UTC.
///
/// `None` for anything else, for years outside 1 to 9999, and for time zone names in brackets, which ISO 8601 lacks.
pub fn parse(text: &str) -> Option<i64> {
    // Pieces, not a timestamp: jiff's timestamps end a day early, and 9999-12-31 is what people write for "never ends".
    let pieces = Pieces::parse(text).ok()?;
    if pieces.time_zone_annotation().is_some() {
        return None;
    }
    let date = pieces.date();
    let time = pieces.time().unwrap_or_default();
    let offset = pieces.to_numeric_offset().map_or(0, |offset| i64::from(offset.seconds()));
    if offset.abs() >= 86_400 {
        return None;
    }

    let days = days_from_civil(i64::from(date.year()), i64::from(date.month()), i64::from(date.day()));
    let seconds = i64::from(time.hour()) * 3600 + i64::from(time.minute()) * 60 + i64::from(time.second()) - offset;
    let micros = days * MICROS_PER_DAY + seconds * MICROS_PER_SECOND + i64::from(time.subsec_nanosecond()) / 1000;
    (EARLIEST..=LATEST).contains(&micros).then_some(micros)
}

/// As [`write`], for one text.
pub fn show(micros: i64) -> String {
    let mut out = Vec::with_capacity(27);
    write(&mut out, micros);
    String::from_utf8(out).unwrap_or_default()
}

/// Reads a date as `2026-01-31`.
pub fn parse_date(text: &str) -> Option<String> {
    let date = (text.len() == 10).then(|| text.parse::<civil::Date>().ok())??;
    Some(date.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(micros: i64) -> String {
        show(micros)
    }

    #[test]
    fn datetimes_show_microseconds_and_z() {
        assert_eq!(shown(1_769_851_800_123_456), "2026-01-31T09:30:00.123456Z");
        assert_eq!(shown(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(shown(-1), "1969-12-31T23:59:59.999999Z");
        assert_eq!(shown(EARLIEST), "0001-01-01T00:00:00.000000Z");
        assert_eq!(shown(LATEST), "9999-12-31T23:59:59.999999Z");
        assert_eq!(shown(i64::MAX), shown(LATEST));
    }

    #[test]
    fn datetimes_agree_with_jiff() {
        // A stride that is prime to days and years, over the years that jiff's timestamps cover.
        let mut micros = EARLIEST;
        while micros < LATEST - 2 * MICROS_PER_DAY {
            let expected = format!("{:.6}", jiff::Timestamp::from_microsecond(micros).unwrap());
            assert_eq!(shown(micros), expected);
            assert_eq!(parse(&expected), Some(micros));
            micros += 7_919_173 * 1_000_003;
        }
    }

    #[test]
    fn datetimes_are_read_in_the_forms_of_iso_8601() {
        let at = |text| parse(text).map(shown);
        let expected = Some("2026-01-31T09:30:00.000000Z".to_string());
        for text in [
            "2026-01-31T09:30:00Z",
            "2026-01-31 09:30:00",
            "2026-01-31T09:30",
            "2026-01-31T11:30:00+02:00",
            "2026-01-31T09:30:00.000000999Z",
        ] {
            assert_eq!(at(text), expected, "{text}");
        }
        assert_eq!(at("2026-01-31"), Some("2026-01-31T00:00:00.000000Z".to_string()));
        assert_eq!(at("9999-12-31T23:59:59Z"), Some("9999-12-31T23:59:59.000000Z".to_string()));
        for text in [
            "",
            "now",
            "2026-02-30",
            "2026-01-31T25:00",
            "31.01.2026",
            "2026-01-31T09:30:00[Europe/Rome]",
            "0000-01-01",
        ] {
            assert_eq!(at(text), None, "{text}");
        }
    }
}
