//! Reads and writes times and dates: UTC, microseconds, `Z` (`docs/reference/conventions.md`).

use jiff::Timestamp;
use jiff::civil::{self, DateTime};
use jiff::fmt::temporal::Pieces;
use jiff::tz::Offset;

const MICROS_PER_SECOND: i64 = 1_000_000;
/// The period after which the Gregorian calendar repeats itself.
const MICROS_PER_400_YEARS: i64 = 146_097 * 86_400 * MICROS_PER_SECOND;
/// 0001-01-01T00:00:00Z.
const EARLIEST: i64 = -62_135_596_800 * MICROS_PER_SECOND;
/// 9999-12-31T23:59:59.999999Z.
const LATEST: i64 = 253_402_300_800 * MICROS_PER_SECOND - 1;
const EPOCH: DateTime = civil::date(1970, 1, 1).at(0, 0, 0, 0);

/// Appends an instant as `2026-01-31T09:30:00.123456Z`: always 27 bytes.
///
/// Lists show several instants a row, so this neither allocates nor uses a general formatter. Instants
/// outside the years 1 to 9999, which [`parse`] never returns, are shown as the nearest end of that range.
pub fn write(out: &mut Vec<u8>, micros: i64) {
    let micros = micros.clamp(EARLIEST, LATEST);
    // The conversion is done 400 years earlier, because jiff's timestamps end a day before the end of the year 9999.
    let earlier = Timestamp::from_microsecond(micros - MICROS_PER_400_YEARS).unwrap_or_default();
    let at = Offset::UTC.to_datetime(earlier);

    let mut text = *b"0000-00-00T00:00:00.000000Z";
    put_digits(&mut text[0..4], at.year() + 400);
    put_digits(&mut text[5..7], at.month());
    put_digits(&mut text[8..10], at.day());
    put_digits(&mut text[11..13], at.hour());
    put_digits(&mut text[14..16], at.minute());
    put_digits(&mut text[17..19], at.second());
    put_digits(&mut text[20..26], at.subsec_nanosecond() / 1000);
    out.extend_from_slice(&text);
}

fn put_digits(place: &mut [u8], number: impl Into<i32>) {
    let mut number = number.into().unsigned_abs();
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Reads an ISO 8601 date or datetime. It may be a date alone (its midnight), have `T` or a space
/// between, and a fraction (cut to microseconds). It ends with `Z`, an offset, or neither for UTC.
///
/// Returns `None` for anything else, for years outside 1 to 9999, and for time zone names in brackets, which ISO 8601 lacks.
pub fn parse(text: &str) -> Option<i64> {
    // Pieces are read, not a timestamp: jiff's timestamps end a day early, and people write 9999-12-31 for "never ends".
    let pieces = Pieces::parse(text).ok()?;
    if pieces.time_zone_annotation().is_some() {
        return None;
    }
    let offset = pieces.to_numeric_offset().map_or(0, |offset| i64::from(offset.seconds()));
    if offset.abs() >= 86_400 {
        return None;
    }
    let time = pieces.time().unwrap_or_default();
    let whole = pieces.date().at(time.hour(), time.minute(), time.second(), 0);
    let seconds = whole.duration_since(EPOCH).as_secs() - offset;
    let micros = seconds * MICROS_PER_SECOND + i64::from(time.subsec_nanosecond()) / 1000;
    (EARLIEST..=LATEST).contains(&micros).then_some(micros)
}

/// Returns an instant in the form of [`write()`].
pub fn show(micros: i64) -> String {
    let mut out = Vec::with_capacity(27);
    write(&mut out, micros);
    String::from_utf8(out).unwrap_or_default()
}

/// Reads a date of the form `2026-01-31`, and returns it in that form. `None` for anything else, and for the year 0.
pub fn parse_date(text: &str) -> Option<String> {
    let date = (text.len() == 10).then(|| text.parse::<civil::Date>().ok())??;
    (date.year() >= 1).then(|| date.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datetimes_show_microseconds_and_z() {
        assert_eq!(show(1_769_851_800_123_456), "2026-01-31T09:30:00.123456Z");
        assert_eq!(show(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(show(-1), "1969-12-31T23:59:59.999999Z");
        assert_eq!(show(EARLIEST), "0001-01-01T00:00:00.000000Z");
        assert_eq!(show(LATEST), "9999-12-31T23:59:59.999999Z");
        assert_eq!(show(i64::MAX), show(LATEST));
    }

    #[test]
    fn dates_are_of_the_years_of_datetimes() {
        for text in ["0001-01-01", "2026-02-28", "9999-12-31"] {
            assert_eq!(parse_date(text).as_deref(), Some(text));
        }
        for text in ["0000-01-01", "0000-12-31", "2026-02-29", "2026-2-28", "-001-01-01", "10000-01-01"] {
            assert_eq!(parse_date(text), None, "{text}");
        }
    }

    #[test]
    fn datetimes_agree_with_jiff() {
        // A stride that is prime to days and years, over the years that jiff's timestamps cover.
        let mut micros = EARLIEST;
        while micros < LATEST - 2 * 86_400 * MICROS_PER_SECOND {
            let expected = format!("{:.6}", jiff::Timestamp::from_microsecond(micros).unwrap());
            assert_eq!(show(micros), expected);
            assert_eq!(parse(&expected), Some(micros));
            micros += 7_919_173 * 1_000_003;
        }
    }

    #[test]
    fn datetimes_are_read_in_the_forms_of_iso_8601() {
        let at = |text| parse(text).map(show);
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
        assert_eq!(parse("1969-12-31T23:59:59.9999999Z"), Some(-1), "cut, also before 1970");
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
