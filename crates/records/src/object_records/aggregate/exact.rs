//! Exact sums of integers and decimals, and their averages.

use std::cmp::Ordering;

/// The decimal places of stored decimals and of averages.
pub const PLACES: usize = 10;
const ONE: i128 = 10_i128.pow(PLACES as u32);

/// An exact number with ten decimal places. Equal numbers are stored alike, and the order is that of the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exact {
    /// The greatest whole number that is not above the number.
    whole: i128,
    /// The rest, in units of the last decimal place.
    rest: i128,
}

impl Exact {
    /// Returns `whole` and `fraction` units of the last decimal place together. Both may have any sign.
    pub fn new(whole: i128, fraction: i128) -> Exact {
        Exact { whole: whole + fraction.div_euclid(ONE), rest: fraction.rem_euclid(ONE) }
    }

    /// Returns the number divided by `count`, which is positive, rounded to the last decimal place, half away from zero.
    pub fn divide(self, count: i64) -> Exact {
        let (is_negative, whole, fraction) = self.magnitude();
        let count = i128::from(count);
        let units = whole % count * ONE + fraction;
        let (quotient, left) = (units / count, units % count);
        let rounded = if 2 * left >= count { quotient + 1 } else { quotient };
        match is_negative {
            true => Exact::new(-(whole / count), -rounded),
            false => Exact::new(whole / count, rounded),
        }
    }

    /// Shows the number with `scale` decimal places, or with all that it needs.
    pub fn show(self, scale: usize) -> String {
        let (is_negative, whole, fraction) = self.magnitude();
        let digits = format!("{fraction:0>PLACES$}");
        let places = scale.min(PLACES).max(digits.trim_end_matches('0').len());
        let sign = if is_negative { "-" } else { "" };
        if places == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{}", &digits[..places]) }
    }

    /// Returns whether the number is negative, and the whole number and the fraction of its magnitude.
    fn magnitude(self) -> (bool, i128, i128) {
        match (self.whole.cmp(&0), self.rest) {
            (Ordering::Less, 0) => (true, -self.whole, 0),
            (Ordering::Less, rest) => (true, -(self.whole + 1), ONE - rest),
            (Ordering::Equal | Ordering::Greater, rest) => (false, self.whole, rest),
        }
    }
}

/// Reads a stored decimal (`resource::decimal`) as a whole number and units of the last decimal place, with the same sign.
pub fn read_decimal(stored: &str) -> Option<(i128, i128)> {
    let plain = resource::decimal::decode(stored, PLACES);
    let (is_negative, digits) = plain.strip_prefix('-').map_or((false, plain.as_str()), |digits| (true, digits));
    let (whole, fraction) = digits.split_once('.')?;
    let (whole, fraction) = (whole.parse::<i128>().ok()?, fraction.parse::<i128>().ok()?);
    Some(if is_negative { (-whole, -fraction) } else { (whole, fraction) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(numbers: &[&str]) -> Exact {
        let read = |number: &&str| read_decimal(&resource::decimal::encode(number)).unwrap();
        let (whole, fraction) =
            numbers.iter().map(read).fold((0, 0), |sum, number| (sum.0 + number.0, sum.1 + number.1));
        Exact::new(whole, fraction)
    }

    #[test]
    fn sums_are_exact() {
        for (numbers, shown) in [
            (&["0.10", "0.20"][..], "0.30"),
            (&["-0.10", "0.05"], "-0.05"),
            (&["-12.50", "-0.50"], "-13.00"),
            (&["1", "-1"], "0.00"),
            (&["999999999999999999999999999999.99", "0.01"], "1000000000000000000000000000000.00"),
            (&["0.001", "1"], "1.001"),
        ] {
            assert_eq!(sum(numbers).show(2), shown, "{numbers:?}");
        }
        assert_eq!(sum(&["-3", "1"]).show(0), "-2");
    }

    #[test]
    fn averages_are_rounded_half_away_from_zero() {
        for (number, count, shown) in [
            ("1", 3, "0.3333333333"),
            ("2", 3, "0.6666666667"),
            ("-2", 3, "-0.6666666667"),
            ("0.0000000001", 2, "0.0000000001"),
            ("-0.0000000001", 2, "-0.0000000001"),
            ("-7.5", 3, "-2.5000000000"),
            ("5.9999999999", 6, "1.0000000000"),
        ] {
            assert_eq!(sum(&[number]).divide(count).show(PLACES), shown, "{number} / {count}");
        }
    }

    #[test]
    fn the_order_is_that_of_the_numbers() {
        let numbers = ["-2.5", "-2", "-0.5", "0", "0.5", "1.25"].map(|number| sum(&[number]));
        assert!(numbers.is_sorted());
    }
}
