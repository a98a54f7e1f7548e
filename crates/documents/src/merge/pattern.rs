//! The patterns of the filters `date` and `number`.

use jiff::civil::DateTime;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
/// What a pattern may consist of; a longer run of letters, or another one, is a mistake.
const LETTERS: [&str; 16] =
    ["yyyy", "yy", "MMMM", "MMM", "MM", "M", "dd", "d", "EEEE", "EEE", "HH", "H", "hh", "h", "mm", "ss"];
const LONGEST: usize = 200;

/// How a date is written, such as `dd MMMM yyyy`.
#[derive(Clone, Debug, PartialEq)]
pub struct DatePattern(Vec<DatePiece>);

#[derive(Clone, Debug, PartialEq)]
enum DatePiece {
    Letters(&'static str),
    Text(String),
}

impl DatePattern {
    /// Reads a pattern: letters as in Java and Excel, text in single quotes, all other characters as they are.
    pub fn parse(pattern: &str) -> Result<Self, String> {
        if pattern.chars().count() > LONGEST {
            return Err("a pattern of a date is too long".to_owned());
        }
        let mut pieces = Vec::new();
        let mut text = String::new();
        let mut rest = pattern;
        while let Some(c) = rest.chars().next() {
            if is_single_quote(c) {
                rest = quoted(&rest[c.len_utf8()..], &mut text)?;
            } else if c.is_ascii_alphabetic() {
                let run = rest.len() - rest.trim_start_matches(c).len();
                let letters = &rest[..run];
                let known = LETTERS.into_iter().chain(["a"]).find(|known| *known == letters);
                let known = known.ok_or_else(|| format!("unknown letters {letters} in the pattern of a date"))?;
                if !text.is_empty() {
                    pieces.push(DatePiece::Text(std::mem::take(&mut text)));
                }
                pieces.push(DatePiece::Letters(known));
                rest = &rest[run..];
            } else {
                text.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        if !text.is_empty() {
            pieces.push(DatePiece::Text(text));
        }
        Ok(Self(pieces))
    }

    pub fn format(&self, at: DateTime) -> String {
        self.0
            .iter()
            .map(|piece| match piece {
                DatePiece::Letters(letters) => letters_of(letters, at),
                DatePiece::Text(text) => text.clone(),
            })
            .collect()
    }
}

/// Takes the text up to the closing quote; two quotes in a row are one that is shown.
fn quoted<'a>(rest: &'a str, text: &mut String) -> Result<&'a str, String> {
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

fn letters_of(letters: &str, at: DateTime) -> String {
    let month = MONTHS[at.month() as usize - 1];
    let day = DAYS[at.weekday().to_monday_zero_offset() as usize];
    let hour_of_twelve = (at.hour() + 11) % 12 + 1;
    match letters {
        "yyyy" => format!("{:04}", at.year()),
        "yy" => format!("{:02}", at.year().rem_euclid(100)),
        "MMMM" => month.to_owned(),
        "MMM" => month[..3].to_owned(),
        "MM" => format!("{:02}", at.month()),
        "M" => at.month().to_string(),
        "dd" => format!("{:02}", at.day()),
        "d" => at.day().to_string(),
        "EEEE" => day.to_owned(),
        "EEE" => day[..3].to_owned(),
        "HH" => format!("{:02}", at.hour()),
        "H" => at.hour().to_string(),
        "hh" => format!("{hour_of_twelve:02}"),
        "h" => hour_of_twelve.to_string(),
        "mm" => format!("{:02}", at.minute()),
        "ss" => format!("{:02}", at.second()),
        _ => if at.hour() < 12 { "AM" } else { "PM" }.to_owned(),
    }
}

/// How a number is written, such as `#,##0.00`.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberPattern {
    prefix: String,
    suffix: String,
    /// How many digits stand before the point at least.
    whole: usize,
    /// How many digits stand between two commas.
    group: Option<usize>,
    /// How many digits stand after the point, at least and at most.
    decimals: (usize, usize),
}

impl NumberPattern {
    /// Reads a pattern: `#` a digit where there is one, `0` a digit in any case, `,` between groups, `.` before the
    /// decimals. What stands before and after is shown as it is; a `%` does not multiply.
    pub fn parse(pattern: &str) -> Result<Self, String> {
        let wrong = || format!("\"{pattern}\" is no pattern of a number, such as #,##0.00");
        let bytes = pattern.as_bytes();
        let is_digit = |at: usize| matches!(bytes.get(at), Some(b'#' | b'0'));
        let start = (0..bytes.len())
            .find(|&at| is_digit(at) || (bytes[at] == b'.' && is_digit(at + 1)))
            .filter(|_| bytes.len() <= LONGEST)
            .ok_or_else(wrong)?;
        let mut at = start;
        while is_digit(at) || (bytes.get(at) == Some(&b',') && is_digit(at + 1)) {
            at += 1;
        }
        let whole = &pattern[start..at];
        let point = at;
        if bytes.get(at) == Some(&b'.') && is_digit(at + 1) {
            at += 1;
            while is_digit(at) {
                at += 1;
            }
        }
        let decimals = pattern[point..at].trim_start_matches('.');
        let suffix = &pattern[at..];
        let digits = whole.replace(',', "");
        let least = digits.trim_start_matches('#');
        let shown = decimals.trim_end_matches('#');
        if suffix.contains(['#', '0']) || least.contains('#') || shown.contains('#') {
            return Err(wrong());
        }
        Ok(Self {
            prefix: pattern[..start].to_owned(),
            suffix: suffix.to_owned(),
            whole: least.len(),
            group: whole.rfind(',').map(|comma| whole.len() - comma - 1),
            decimals: (shown.len(), decimals.len()),
        })
    }

    /// Writes a decimal number, rounded half up (half away from zero); none where `number` is no decimal number.
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
            out.push('.');
            out.push_str(&decimals);
        }
        out.push_str(&self.suffix);
        Some(out)
    }

    /// The digits before and after the point as they are shown, without zeros that nobody asked for.
    fn rounded(&self, whole: &str, decimals: &str) -> (String, String) {
        let (least, most) = self.decimals;
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
        let mut kept = decimals.len();
        while kept > least && decimals.as_bytes()[kept - 1] == b'0' {
            kept -= 1;
        }
        (whole.trim_start_matches('0').to_owned(), decimals[..kept].to_owned())
    }

    fn put_whole(&self, whole: &str, alone: bool, out: &mut String) {
        let least = if alone { self.whole.max(1) } else { self.whole };
        let missing = least.saturating_sub(whole.len());
        let length = missing + whole.len();
        for (at, digit) in std::iter::repeat_n('0', missing).chain(whole.chars()).enumerate() {
            if at > 0 && self.group.is_some_and(|group| (length - at).is_multiple_of(group)) {
                out.push(',');
            }
            out.push(digit);
        }
    }
}
