//! The patterns of the filter `number`.

/// The maximum length of a pattern in bytes.
const LONGEST: usize = 200;

/// The format of a number, such as `#,##0.00`.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberPattern {
    prefix: String,
    suffix: String,
    /// The minimum number of digits before the point.
    whole: usize,
    group: Option<DigitGrouping>,
    /// The character before the decimals.
    point: char,
    /// The minimum and maximum number of decimals.
    decimals: Decimals,
}

/// The grouping of digits before the decimals.
#[derive(Clone, Copy, Debug, PartialEq)]
struct DigitGrouping {
    digits: usize,
    separator: char,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Decimals {
    least: usize,
    most: usize,
}

impl NumberPattern {
    /// Parses a pattern. `#` is an optional digit, `0` a digit that is always shown. Points, commas, blanks and apostrophes between
    /// them separate groups, except the last one where it begins decimals. Text before and after is shown literally; a `%` does not
    /// multiply.
    pub fn parse(pattern: &str) -> Result<Self, String> {
        let wrong = || format!("\"{pattern}\" is no pattern of a number, such as #,##0.00");
        let at_digit = |at: usize| pattern[at..].starts_with(is_digit);
        let after = |at: usize| at + pattern[at..].chars().next().map_or(0, char::len_utf8);
        let begins = |at: usize| at_digit(at) || (pattern[at..].starts_with('.') && at_digit(after(at)));
        let mut positions = pattern.char_indices().map(|(at, _)| at);
        let start = positions.find(|at| begins(*at)).filter(|_| pattern.len() <= LONGEST).ok_or_else(wrong)?;
        let mut end = start;
        while end < pattern.len()
            && (at_digit(end) || (pattern[end..].starts_with(is_separator) && at_digit(after(end))))
        {
            end = after(end);
        }
        let (digits, suffix) = (&pattern[start..end], &pattern[end..]);
        let (whole, point, decimals) = split(digits);
        let separator = whole.chars().find(|c| is_separator(*c));
        let is_mixed = whole.chars().any(|c| is_separator(c) && Some(c) != separator);
        if is_mixed || (separator.is_some() && separator == point) {
            return Err(wrong());
        }
        let group = separator.and_then(|separator| {
            Some(DigitGrouping { digits: whole.len() - whole.rfind(separator)? - separator.len_utf8(), separator })
        });
        // Points are separators only where another meaning is impossible.
        if group.is_some_and(|group| group.separator == '.' && group.digits != 3) {
            return Err(wrong());
        }
        let digits: String = whole.chars().filter(|c| is_digit(*c)).collect();
        let least = digits.trim_start_matches('#');
        let shown = decimals.trim_end_matches('#');
        if suffix.contains(['#', '0']) || least.contains('#') || shown.contains('#') {
            return Err(wrong());
        }
        Ok(Self {
            prefix: pattern[..start].to_owned(),
            suffix: suffix.to_owned(),
            whole: least.len(),
            group,
            point: point.unwrap_or('.'),
            decimals: Decimals { least: shown.len(), most: decimals.len() },
        })
    }

    /// Formats a decimal number, rounded half up (half away from zero). Returns `None` if `number` is not a decimal number.
    pub fn format(&self, number: &str) -> Option<String> {
        let (negative, unsigned) = match number.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, decimals) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if !all_digits(whole) || !all_digits(decimals) || whole.len() + decimals.len() == 0 {
            return None;
        }
        let (whole, decimals) = self.rounded(whole, decimals);
        let zero = whole.bytes().chain(decimals.bytes()).all(|b| b == b'0');
        let mut out = String::new();
        if negative && !zero {
            out.push('-');
        }
        out.push_str(&self.prefix);
        self.put_whole(&whole, decimals.is_empty(), &mut out);
        if !decimals.is_empty() {
            out.push(self.point);
            out.push_str(&decimals);
        }
        out.push_str(&self.suffix);
        Some(out)
    }

    /// Returns the visible digits before and after the point, without zeros beyond the pattern.
    fn rounded(&self, whole: &str, decimals: &str) -> (String, String) {
        let Decimals { least, most } = self.decimals;
        let mut digits: Vec<u8> = [b"0", whole.as_bytes()].concat();
        digits.extend(decimals.bytes().chain(std::iter::repeat(b'0')).take(most));
        if decimals.as_bytes().get(most).is_some_and(|next| *next >= b'5') {
            let mut at = digits.len() - 1;
            while digits[at] == b'9' {
                digits[at] = b'0';
                at -= 1;
            }
            digits[at] += 1;
        }
        let digits = String::from_utf8(digits).unwrap_or_default();
        let (whole, decimals) = digits.split_at(digits.len() - most);
        let mut length = decimals.len();
        while length > least && decimals.as_bytes()[length - 1] == b'0' {
            length -= 1;
        }
        (whole.trim_start_matches('0').to_owned(), decimals[..length].to_owned())
    }

    fn put_whole(&self, whole: &str, alone: bool, out: &mut String) {
        let least = if alone { self.whole.max(1) } else { self.whole };
        let missing = least.saturating_sub(whole.len());
        let length = missing + whole.len();
        for (at, digit) in std::iter::repeat_n('0', missing).chain(whole.chars()).enumerate() {
            if let Some(group) = self.group.filter(|group| at > 0 && (length - at).is_multiple_of(group.digits)) {
                out.push(group.separator);
            }
            out.push(digit);
        }
    }
}

fn is_digit(c: char) -> bool {
    matches!(c, '#' | '0')
}

fn is_separator(c: char) -> bool {
    matches!(c, ',' | '.' | '\'' | '’' | ' ' | '\u{a0}' | '\u{202f}')
}

/// Splits a pattern into the digits before the decimals with their separators, the character that begins the decimals, and the
/// decimals. That character is the last separator, unless it can only be a group separator. It is one if there are several of its
/// kind, or if it is between a `#` and a `0`. It is one too if it is the only comma and three digits follow, as in `#,###`.
fn split(digits: &str) -> (&str, Option<char>, &str) {
    let Some((at, point)) = digits.char_indices().rfind(|(_, c)| matches!(c, '.' | ',')) else {
        return (digits, None, "");
    };
    let (whole, decimals) = (&digits[..at], &digits[at + 1..]);
    let is_plain = decimals.chars().all(is_digit) && !decimals.trim_end_matches('#').contains('#');
    let is_only = !whole.contains(is_separator);
    match is_plain && !whole.contains(point) && !(is_only && point == ',' && decimals.len() == 3) {
        true => (whole, Some(point), decimals),
        false => (digits, None, ""),
    }
}
