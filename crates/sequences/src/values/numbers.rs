//! Exact decimal numbers of at most 30 digits.

use std::cmp::Ordering;

/// The maximum number of digits.
const MAX_DIGITS: u32 = 30;

/// A decimal number: a whole number divided by a power of ten.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    digits: i128,
    scale: u32,
}

impl Number {
    /// Parses a number such as `-1234.50`; `None` for other texts and for more digits than allowed.
    pub fn parse(text: &str) -> Option<Number> {
        let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let is_number = !whole.is_empty() && (whole.len() + fraction.len()) <= MAX_DIGITS as usize;
        let all: String = [whole, fraction].concat();
        if !is_number || !all.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(Number { digits: sign * all.parse::<i128>().ok()?, scale: fraction.len() as u32 })
    }

    pub fn from_int(number: i64) -> Number {
        Number { digits: number.into(), scale: 0 }
    }

    /// Returns the digits of both numbers at the same scale, and that scale.
    fn aligned(self, other: Number) -> Option<(i128, i128, u32)> {
        let scale = self.scale.max(other.scale);
        let at = |number: Number| number.digits.checked_mul(10_i128.checked_pow(scale - number.scale)?);
        Some((at(self)?, at(other)?, scale))
    }

    fn bounded(digits: i128, scale: u32) -> Option<Number> {
        let (mut digits, mut scale) = (digits, scale);
        while scale > 0 && digits % 10 == 0 {
            (digits, scale) = (digits / 10, scale - 1);
        }
        (digits.unsigned_abs() < 10_u128.pow(MAX_DIGITS)).then_some(Number { digits, scale })
    }

    /// Returns the sum; `None` if it has too many digits.
    pub fn plus(self, other: Number) -> Option<Number> {
        let (first, second, scale) = self.aligned(other)?;
        Number::bounded(first.checked_add(second)?, scale)
    }

    /// Returns the difference; `None` if it has too many digits.
    pub fn minus(self, other: Number) -> Option<Number> {
        let (first, second, scale) = self.aligned(other)?;
        Number::bounded(first.checked_sub(second)?, scale)
    }

    /// Returns the product; `None` if it has too many digits.
    pub fn times(self, other: Number) -> Option<Number> {
        Number::bounded(self.digits.checked_mul(other.digits)?, self.scale + other.scale)
    }

    pub fn compare(self, other: Number) -> Ordering {
        match self.aligned(other) {
            Some((first, second, _)) => first.cmp(&second),
            // Numbers that differ so much in their scales differ in their signs or in their magnitudes.
            None => (self.digits as f64 / 10_f64.powi(self.scale as i32))
                .total_cmp(&(other.digits as f64 / 10_f64.powi(other.scale as i32))),
        }
    }

    /// Returns the number as an integer, if it is one of 64 bits.
    pub fn to_int(self) -> Option<i64> {
        let Number { digits, scale } = Number::bounded(self.digits, self.scale)?;
        if scale == 0 { i64::try_from(digits).ok() } else { None }
    }

    /// Returns the number as text, such as `-1234.5`.
    pub fn to_text(self) -> String {
        let Number { digits, scale } = Number::bounded(self.digits, self.scale).unwrap_or(self);
        let sign = if digits < 0 { "-" } else { "" };
        let all = format!("{:0>width$}", digits.unsigned_abs(), width = scale as usize + 1);
        let (whole, fraction) = all.split_at(all.len() - scale as usize);
        if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_up_to_30_digits() {
        let number = |text: &str| Number::parse(text).unwrap();
        assert_eq!(number("0.1").plus(number("0.2")).unwrap().to_text(), "0.3");
        assert_eq!(number("-1.50").minus(number("2")).unwrap().to_text(), "-3.5");
        assert_eq!(number("1.25").times(number("-4")).unwrap().to_text(), "-5");
        assert_eq!(number("0.05").to_text(), "0.05");
        let large = "9".repeat(30);
        assert!(number(&large).plus(number("1")).is_none() && number(&large).times(number(&large)).is_none());
        assert_eq!(number("10").compare(number("9.99")), Ordering::Greater);
        assert_eq!((number("5.0").to_int(), number("5.5").to_int()), (Some(5), None));
        for wrong in ["", "-", "1.2.3", "1e5", ".5", "+1"] {
            assert!(Number::parse(wrong).is_none(), "{wrong}");
        }
    }
}
