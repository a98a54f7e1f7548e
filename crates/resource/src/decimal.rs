//! Decimals, stored as texts that sort like the numbers. Both engines sort the texts alike, unlike their own types.
//!
//! A stored decimal has a sign (`0` negative, `1` not), 30 whole digits and 10 decimal places. The digits of a negative
//! one are complemented and followed by `~`. An operand of a filter with more places therefore still compares as a number.

/// The maximum number of whole digits.
pub(crate) const WHOLE_DIGITS: usize = 30;
/// The maximum number of decimal places.
pub(crate) const DECIMAL_PLACES: usize = 10;
/// The stored form of an operand with more whole digits. It follows every digit.
const TOO_LARGE: &str = ":";

/// Returns the stored form of `[-]digits[.digits]`.
pub fn encode(text: &str) -> String {
    let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let digits = if whole.len() > WHOLE_DIGITS {
        TOO_LARGE.to_owned()
    } else {
        format!("{whole:0>WHOLE_DIGITS$}.{fraction:0<DECIMAL_PLACES$}")
    };
    let is_zero = digits.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    if is_negative && !is_zero { format!("0{}~", complement_digits(&digits)) } else { format!("1{digits}") }
}

/// Returns the plain form of a stored decimal, with `scale` decimal places. If it was stored with more, returns all that it needs.
pub fn decode(stored: &str, scale: usize) -> String {
    let (sign, digits) = match stored.strip_prefix('0') {
        Some(digits) => ("-", complement_digits(digits.trim_end_matches('~'))),
        None => ("", stored.get(1..).unwrap_or("").to_owned()),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let places = scale.max(fraction.trim_end_matches('0').len());
    let fraction = fraction.get(..places.min(fraction.len())).unwrap_or("");
    if places == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// Reverses the order of digits, and that of `:`, which becomes the `/` before them.
fn complement_digits(digits: &str) -> String {
    let turned = |byte: u8| if matches!(byte, b'/'..=b':') { b'0' + b'9' - byte } else { byte };
    digits.bytes().map(|byte| char::from(turned(byte))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_as_numbers_do() {
        let numbers = [
            "-1000000000000000000000000000000",
            "-999999999999999999999999999999.9999999999",
            "-100000",
            "-12.5",
            "-1.00000000001",
            "-1",
            "-0.5",
            "0",
            "0.25",
            "1",
            "1.00000000001",
            "1.5",
            "12",
            "999999999999999999999999999999",
            "1000000000000000000000000000000",
        ];
        let stored: Vec<String> = numbers.iter().map(|number| encode(number)).collect();
        assert!(stored.is_sorted_by(|one, next| one < next), "{stored:#?}");
    }

    #[test]
    fn shows_what_was_stored() {
        for number in ["-12.50", "0.00", "7.05", "123456789012345678.90"] {
            assert_eq!(decode(&encode(number), 2), number);
        }
        assert_eq!(decode(&encode("-3"), 0), "-3");
        assert_eq!(decode(&encode("-3.50"), 0), "-3.5");
        assert_eq!(decode(&encode("3.25"), 4), "3.2500");
        assert_eq!(encode("-0.00"), encode("0"));
        assert_eq!([encode("12.50000000000"), encode("-012.500000000000")], [encode("12.5"), encode("-12.5")]);
    }
}
