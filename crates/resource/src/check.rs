//! Checks one value of a body against its field (`docs/reference/conventions.md`).

use crate::errors::message;
use crate::field::{EnumOption, Field, FieldKind};
use crate::id::Id;
use crate::sent::JsonValue;
use crate::time;
use crate::value::CheckedValue;
use std::collections::HashSet;

/// The maximum length of an object as JSON text, in bytes. The objects of the specification are far smaller.
const MAX_OBJECT_BYTES: usize = 64 * 1024;

/// Checks the value that was sent for a field. `Err` contains all messages about it.
pub fn check(field: &Field, json: JsonValue<'_>) -> Result<CheckedValue, Vec<String>> {
    if json.is_null() {
        return if field.nullable { Ok(CheckedValue::Null) } else { Err(vec![message::NULL.to_owned()]) };
    }
    match &field.kind {
        FieldKind::Text { min, max, trim, charset } => {
            let text = string(field, json, *trim)?;
            let is_valid = charset.is_none_or(|set| text.chars().all(set.allows));
            finish(text_errors(&text, *min, *max, is_valid, message::VALUE), stored_text(field, text))
        }
        FieldKind::Email { max } => {
            let text = string(field, json, true)?;
            let is_valid = text.is_empty() || is_email(&text);
            finish(text_errors(&text, 0, *max, is_valid, message::EMAIL), stored_text(field, text))
        }
        FieldKind::Url { max } => {
            let text = string(field, json, true)?;
            let is_valid = text.is_empty() || is_url(&text);
            finish(text_errors(&text, 0, *max, is_valid, message::URL), stored_text(field, text))
        }
        FieldKind::Secret { min, max } => {
            let text = string(field, json, false)?;
            let is_valid = field.charset.is_none_or(|set| text.chars().all(set.allows));
            finish(text_errors(&text, *min, *max, is_valid, message::VALUE), text.into())
        }
        FieldKind::Integer { min, max } => integer(json, *min, *max).map(CheckedValue::Int),
        FieldKind::Decimal { precision, scale } => decimal(json, *precision, *scale).map(CheckedValue::Text),
        FieldKind::Boolean => json.as_bool().map(CheckedValue::Bool).ok_or_else(|| vec![message::BOOLEAN.to_owned()]),
        FieldKind::Date => text(json, message::DATE, time::parse_date).map(CheckedValue::Text),
        FieldKind::DateTime => text(json, message::DATETIME, time::parse).map(CheckedValue::Int),
        FieldKind::Uuid => text(json, message::UUID, uuid).map(CheckedValue::Text),
        FieldKind::Enum { choices } => match trimmed(json) {
            Some(value) if choices.iter().any(|choice| choice.value == value) => Ok(value.into()),
            _ => Err(vec![message::choice(json.message_text())]),
        },
        FieldKind::Listed { is_listed, .. } => match trimmed(json) {
            Some(value) if is_listed(&value) => Ok(value.into()),
            _ => Err(vec![message::choice(json.message_text())]),
        },
        FieldKind::Set { choices, max_items } => set(json, choices, *max_items),
        FieldKind::Reference { .. } | FieldKind::User | FieldKind::UserId => {
            parse_id(json).map(CheckedValue::Int).map_err(|wrong| vec![wrong])
        }
        FieldKind::References { max_items, .. } => references(json, *max_items),
        FieldKind::Texts { at_most, are_valid, invalid } => {
            let at_most = at_most.as_ref().map(|(max_items, too_many)| (*max_items, too_many.as_ref()));
            texts(json, at_most, *are_valid, invalid)
        }
        FieldKind::File { .. } => file(json),
        FieldKind::Files { max_items } => files(json, *max_items),
        FieldKind::Json { max_bytes, max_depth } => canonical_json(json, *max_bytes, *max_depth),
        FieldKind::Object if json.type_name() != "dict" => Err(vec![message::not_an_object(json.type_name())]),
        FieldKind::Object if json.text().len() > MAX_OBJECT_BYTES => Err(vec![message::TOO_LARGE.to_owned()]),
        FieldKind::Object => Ok(CheckedValue::Json(json.to_json())),
        FieldKind::List => Err(vec![message::VALUE.to_owned()]),
    }
}

/// Checks the chosen values of a set. The valid value has them in the order of the choices.
fn set(json: JsonValue<'_>, choices: &[EnumOption], max_items: usize) -> Result<CheckedValue, Vec<String>> {
    let items = list(json, max_items)?;
    let is_choice =
        |item: &JsonValue<'_>| trimmed(*item).is_some_and(|value| choices.iter().any(|choice| choice.value == value));
    let unknown = items.iter().filter(|item| !is_choice(item));
    let wrong = unknown.map(|item| message::choice(item.message_text())).collect();
    let values: Vec<_> = items.iter().filter_map(|item| trimmed(*item)).collect();
    let chosen = choices.iter().filter(|choice| values.iter().any(|value| choice.value == *value));
    finish(wrong, CheckedValue::List(chosen.map(|choice| choice.value.as_ref().into()).collect()))
}

/// Checks a list of ids. The valid value has no duplicates.
fn references(value: JsonValue<'_>, max_items: usize) -> Result<CheckedValue, Vec<String>> {
    let items = list(value, max_items)?;
    let mut ids = Vec::with_capacity(items.len());
    let mut wrong = Vec::new();
    for item in items {
        match parse_id(item) {
            Ok(id) if ids.contains(&CheckedValue::Int(id)) => {}
            Ok(id) => ids.push(CheckedValue::Int(id)),
            Err(message) => wrong.push(message),
        }
    }
    finish(wrong, CheckedValue::List(ids))
}

/// Checks a list of texts. `at_most` has the maximum number of items and the message for more. The message `invalid` is for the
/// list as a whole.
fn texts(
    value: JsonValue<'_>,
    at_most: Option<(usize, &str)>,
    are_valid: impl Fn(&[String]) -> bool,
    invalid: &str,
) -> Result<CheckedValue, Vec<String>> {
    let max_items = at_most.map_or(usize::MAX, |(max_items, _)| max_items);
    let (items, count) = value.as_list(max_items).ok_or_else(|| vec![message::not_a_list(value.type_name())])?;
    if let Some((_, too_many)) = at_most.filter(|_| count > max_items) {
        return Err(vec![too_many.to_owned()]);
    }
    let texts: Vec<String> = items.iter().filter_map(|item| item.as_str().map(|text| text.trim().to_owned())).collect();
    if texts.len() < items.len() || !are_valid(&texts) {
        return Err(vec![invalid.to_owned()]);
    }
    Ok(CheckedValue::List(texts.into_iter().map(CheckedValue::Text).collect()))
}

/// Checks the token of an upload, or the id of a stored file.
fn file(value: JsonValue<'_>) -> Result<CheckedValue, Vec<String>> {
    match value.as_str() {
        Some(token) if token.is_empty() => Err(vec![message::BLANK.to_owned()]),
        Some(token) => Ok(CheckedValue::Text(token.into_owned())),
        None if value.type_name() == "int" => parse_id(value).map(CheckedValue::Int).map_err(|wrong| vec![wrong]),
        None => Err(vec![message::STRING.to_owned()]),
    }
}

/// Checks a list of tokens of uploads and ids of stored files.
fn files(value: JsonValue<'_>, max_items: usize) -> Result<CheckedValue, Vec<String>> {
    let items = list(value, max_items)?;
    let file = |item: &JsonValue<'_>| match item.as_str() {
        Some(token) => Ok(CheckedValue::Text(token.into_owned())),
        None => parse_id(*item).map(CheckedValue::Int),
    };
    let (files, wrong): (Vec<_>, Vec<_>) = items.iter().map(file).partition(Result::is_ok);
    let wrong = wrong.into_iter().filter_map(Result::err).collect();
    finish(wrong, CheckedValue::List(files.into_iter().filter_map(Result::ok).collect()))
}

/// Checks JSON of any form. The valid value is its canonical text.
fn canonical_json(value: JsonValue<'_>, max_bytes: usize, max_depth: usize) -> Result<CheckedValue, Vec<String>> {
    let text = value.canonical(max_depth).map_err(|wrong| vec![wrong.to_owned()])?;
    if text.len() > max_bytes {
        return Err(vec![message::TOO_LARGE.to_owned()]);
    }
    Ok(CheckedValue::JsonText(text))
}

/// Returns the errors of a text: those of its length, and `invalid` if it has not the right form.
fn text_errors(text: &str, min: usize, max: usize, is_valid: bool, invalid: &str) -> Vec<String> {
    let mut wrong = lengths(text, min, max);
    if !is_valid {
        wrong.push(invalid.to_owned());
    }
    wrong
}

fn finish(wrong: Vec<String>, value: CheckedValue) -> Result<CheckedValue, Vec<String>> {
    if wrong.is_empty() { Ok(value) } else { Err(wrong) }
}

fn string(field: &Field, value: JsonValue<'_>, trim: bool) -> Result<String, Vec<String>> {
    let text = value.as_str().ok_or_else(|| vec![message::STRING.to_owned()])?;
    let text = if trim { text.trim() } else { &text };
    if text.is_empty() && !field.blank {
        return Err(vec![message::BLANK.to_owned()]);
    }
    if text.contains('\0') {
        return Err(vec![message::NUL.to_owned()]);
    }
    Ok(text.to_owned())
}

fn stored_text(field: &Field, text: String) -> CheckedValue {
    if field.is_blank_null && text.is_empty() { CheckedValue::Null } else { text.into() }
}

fn lengths(text: &str, min: usize, max: usize) -> Vec<String> {
    let length = if text.len() <= max && min <= 1 { text.len().min(max) } else { text.chars().count() };
    if length > max {
        vec![message::too_long(max)]
    } else if length < min && !text.is_empty() {
        vec![message::too_short(min)]
    } else {
        Vec::new()
    }
}

fn text<T>(value: JsonValue<'_>, wrong: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, Vec<String>> {
    trimmed(value).and_then(|text| parse(&text)).ok_or_else(|| vec![wrong.to_owned()])
}

fn trimmed(value: JsonValue<'_>) -> Option<String> {
    value.as_str().map(|text| text.trim().to_owned())
}

fn integer(json: JsonValue<'_>, min: i64, max: i64) -> Result<i64, Vec<String>> {
    match json.as_i64() {
        Some(value) if value < min => Err(vec![message::too_small(min)]),
        Some(value) if value > max => Err(vec![message::too_big(max)]),
        Some(value) => Ok(value),
        None if !json.is_integer() => Err(vec![message::INTEGER.to_owned()]),
        None if json.text().starts_with('-') => Err(vec![message::too_small(min)]),
        None => Err(vec![message::too_big(max)]),
    }
}

fn decimal(value: JsonValue<'_>, precision: usize, scale: usize) -> Result<String, Vec<String>> {
    let text = match value.as_str() {
        Some(text) => text.trim().to_owned(),
        None if value.as_number().is_some() => without_exponent(value.text()),
        None => return Err(vec![message::DECIMAL.to_owned()]),
    };
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(&text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !all_digits(whole) || !all_digits(fraction) {
        return Err(vec![message::DECIMAL.to_owned()]);
    }
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let mut wrong = Vec::new();
    let most_whole = precision - scale.min(precision);
    if whole.len() + fraction.len() > precision {
        wrong.push(message::digits(precision));
    } else if whole.len() > most_whole {
        wrong.push(message::whole_digits(most_whole));
    }
    if fraction.len() > scale {
        wrong.push(message::decimal_places(scale));
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let sign = if whole.is_empty() && fraction.is_empty() { "" } else { sign };
    let whole = if whole.is_empty() { "0" } else { whole };
    Ok(if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction:0<scale$}") })
}

/// Returns a number of JSON as digits alone, with its point moved by the exponent. Floating point
/// cannot represent all numbers that fit into a field.
fn without_exponent(number: &str) -> String {
    let Some((digits, exponent)) = number.split_once(['e', 'E']) else { return number.to_owned() };
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    // A point that is moved farther does not fit either.
    let farthest = number.len() + 100;
    let places = exponent.trim_start_matches(['+', '-']).parse().unwrap_or(farthest).min(farthest);
    let zeros = "0".repeat(places);
    if exponent.starts_with('-') {
        let whole = zeros + whole;
        let (whole, moved) = whole.split_at(whole.len() - places);
        format!("{sign}{whole}.{moved}{fraction}")
    } else {
        let fraction = fraction.to_owned() + &zeros;
        let (moved, fraction) = fraction.split_at(places);
        format!("{sign}{whole}{moved}.{fraction}")
    }
}

/// Reads an id, which must be an integer.
pub fn parse_id<I: Id>(value: JsonValue<'_>) -> Result<I, String> {
    value.as_i64().map(I::from_number).ok_or_else(|| {
        if value.is_integer() { message::invalid_id_message(value.text()) } else { message::pk_type(value.type_name()) }
    })
}

/// Reads a list of at most `max` ids. A repeated id counts once. Returns the ids before the first item that is
/// not an id, in the order sent, and the message of that item. At most `max` ids of a longer list are stored.
///
/// # Errors
/// The message for a value that is not a list, an empty list or too many items.
pub fn ids<I: Id>(value: JsonValue<'_>, max: usize) -> Result<(Vec<I>, Option<String>), String> {
    let (mut ids, mut unique_ids, mut wrong, mut count) = (Vec::new(), HashSet::<I>::new(), None, 0);
    value
        .for_each_item(|item| {
            // Items beyond the bound are not checked.
            if count > max {
                return;
            }
            match parse_id(item) {
                Ok(id) if unique_ids.contains(&id) => return,
                Ok(id) => {
                    unique_ids.insert(id);
                    if wrong.is_none() && count < max {
                        ids.push(id);
                    }
                }
                Err(message) => wrong = wrong.take().or(Some(message)),
            }
            count += 1;
        })
        .ok_or_else(|| message::not_a_list(value.type_name()))?;
    match count {
        0 => Err(message::EMPTY_LIST.to_owned()),
        _ if count > max => Err(message::too_many(max)),
        _ => Ok((ids, wrong)),
    }
}

fn list(value: JsonValue<'_>, max: usize) -> Result<Vec<JsonValue<'_>>, Vec<String>> {
    let (items, count) = value.as_list(max).ok_or_else(|| vec![message::not_a_list(value.type_name())])?;
    if count > max { Err(vec![message::too_many(max)]) } else { Ok(items) }
}

fn uuid(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split('-').collect();
    let right = parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()));
    right.then(|| text.to_ascii_lowercase())
}

/// Returns whether a text is an email address: a local part of the usual characters, and a domain with a dot or `localhost`.
pub fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let atom = |c: char| c.is_alphanumeric() || "!#$%&'*+/=?^_`{|}~-".contains(c);
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.chars().all(|c| c.is_alphanumeric() || c == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    local.len() <= 64
        && local.split('.').all(|part| !part.is_empty() && part.chars().all(atom))
        && domain.len() <= 253
        && domain.split('.').all(label)
        && (domain.contains('.') || domain.eq_ignore_ascii_case("localhost"))
        && domain.rsplit('.').next().is_some_and(|top| !top.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_url(text: &str) -> bool {
    let Some((scheme, after_scheme)) = text.split_once("://") else { return false };
    let host = after_scheme.split(['/', '?', '#']).next().unwrap_or("");
    ["http", "https"].iter().any(|web_scheme| scheme.eq_ignore_ascii_case(web_scheme))
        && !host.is_empty()
        && !host.starts_with(':')
        // A user name before the host reads like the host, and a password would be shown to every reader.
        && !host.contains('@')
        && text.chars().all(|c| !c.is_whitespace() && !c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{EnumOption, ReferenceTarget, UNDIRECTED};
    use crate::sent::JsonBody;
    use serde_json::{Value as Json, json};

    fn check_kind(kind: FieldKind, json: Json) -> Result<Json, Vec<String>> {
        check(&Field::new("f", kind), JsonBody::from_json(&json).as_value()).map(|value| value.to_json())
    }

    #[test]
    fn strict_types() {
        assert_eq!(check_kind(FieldKind::text(5), json!(5)), Err(vec!["Not a valid string.".into()]));
        assert_eq!(
            check_kind(FieldKind::Integer { min: 0, max: 9 }, json!("5")),
            Err(vec!["A valid integer is required.".into()])
        );
        assert_eq!(
            check_kind(FieldKind::Integer { min: 0, max: 9 }, json!(true)),
            Err(vec!["A valid integer is required.".into()])
        );
        assert_eq!(
            check_kind(FieldKind::Integer { min: 0, max: 9 }, json!(5.0)),
            Err(vec!["A valid integer is required.".into()])
        );
        assert_eq!(check_kind(FieldKind::Boolean, json!("true")), Err(vec!["Must be a valid boolean.".into()]));
    }

    #[test]
    fn integers_of_more_than_64_bits_are_beyond_every_bound() {
        let check = |text: &str, kind: FieldKind| {
            let body = JsonBody::parse(text.as_bytes().to_vec(), 9).unwrap();
            check(&Field::new("f", kind), body.as_value()).map(|value| value.to_json())
        };
        let digit = || FieldKind::Integer { min: 0, max: 9 };
        let id = || FieldKind::Reference { target: ReferenceTarget { table: "roles".into(), autocomplete: None } };
        for text in ["9223372036854775808", "18446744073709551616", "99999999999999999999"] {
            assert_eq!(check(text, digit()), Err(vec!["Ensure this value is less than or equal to 9.".into()]));
            assert_eq!(check(text, id()), Err(vec![format!("Invalid pk {text} - object does not exist.")]));
        }
        let small = "Ensure this value is greater than or equal to 0.";
        assert_eq!(check("-99999999999999999999", digit()), Err(vec![small.into()]));
        assert_eq!(check("-0", digit()), Ok(json!(0)));
        for text in ["1.0", "1e2", "1E2"] {
            assert_eq!(check(text, digit()), Err(vec!["A valid integer is required.".into()]), "{text}");
            let wrong = "Incorrect type. Expected pk value, received float.";
            assert_eq!(check(text, id()), Err(vec![wrong.into()]), "{text}");
        }
    }

    #[test]
    fn strings_are_trimmed_before_they_are_checked() {
        let choices = || vec![EnumOption::new("a", "A"), EnumOption::new("b", "B")];
        for (kind, input, value) in [
            (FieldKind::Date, json!(" 2026-01-31\n"), json!("2026-01-31")),
            (FieldKind::DateTime, json!(" 1970-01-01T00:00:01Z "), json!(1_000_000)),
            (FieldKind::Enum { choices: choices().into() }, json!(" a "), json!("a")),
            (FieldKind::Set { choices: choices().into(), max_items: 9 }, json!([" b", "a "]), json!(["a", "b"])),
        ] {
            assert_eq!(check_kind(kind, input), Ok(value));
        }
    }

    #[test]
    fn texts() {
        assert_eq!(check_kind(FieldKind::text(3), json!(" äöü ")), Ok(json!("äöü")));
        assert_eq!(
            check_kind(FieldKind::text(3), json!("abcd")),
            Err(vec!["Ensure this field has no more than 3 characters.".into()])
        );
        assert_eq!(check_kind(FieldKind::text(3), json!("a\0")), Err(vec!["Null characters are not allowed.".into()]));
        assert_eq!(
            check(&Field::new("f", FieldKind::text(3)).required(), JsonBody::from_json(&json!("  ")).as_value()),
            Err(vec!["This field may not be blank.".into()])
        );
        assert_eq!(check_kind(FieldKind::Secret { min: 0, max: 3 }, json!(" a ")), Ok(json!(" a ")));
    }

    #[test]
    fn a_url_names_no_user_and_no_password() {
        let check = |url: &str| check_kind(FieldKind::Url { max: 99 }, json!(url));
        for url in ["https://a.example", "http://a.example:8000/@b?c=d@e#f@g"] {
            assert_eq!(check(url), Ok(json!(url)));
        }
        for url in ["https://bank.example@evil.example/", "https://user:secret@a.example", "https://@a.example"] {
            assert_eq!(check(url), Err(vec!["Enter a valid URL.".into()]), "{url}");
        }
    }

    #[test]
    fn a_name_has_no_bidirectional_controls() {
        let check = |text: &str| {
            let field = Field::new("f", FieldKind::text(99)).charset(UNDIRECTED);
            check(&field, JsonBody::from_json(&json!(text)).as_value()).map(|value| value.to_json())
        };
        for control in ['\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}'] {
            assert_eq!(check(&format!("a{control}b")), Err(vec!["Enter a valid value.".into()]), "{control:?}");
        }
        // Text of either direction does not need them; marks and joiners belong to spelling.
        for name in ["עברית", "العربية", "a\u{200d}b", "a\u{200f}b"] {
            assert_eq!(check(name), Ok(json!(name)));
        }
    }

    #[test]
    fn empty_texts_that_are_null() {
        for kind in [FieldKind::text(9), FieldKind::Email { max: 9 }, FieldKind::Url { max: 9 }] {
            let field = Field::new("f", kind).blank_is_null();
            assert_eq!(check(&field, JsonBody::from_json(&json!(" ")).as_value()), Ok(CheckedValue::Null));
            assert_eq!(
                check(&field.required(), JsonBody::from_json(&json!(" ")).as_value()),
                Err(vec!["This field may not be blank.".into()])
            );
        }
    }

    #[test]
    fn decimals() {
        let kind = || FieldKind::Decimal { precision: 5, scale: 2 };
        assert_eq!(check_kind(kind(), json!("7.5")), Ok(json!("7.50")));
        assert_eq!(check_kind(kind(), json!(-12)), Ok(json!("-12.00")));
        assert_eq!(check_kind(kind(), json!("-0")), Ok(json!("0.00")));
        assert_eq!(
            check_kind(kind(), json!("1.234")),
            Err(vec!["Ensure that there are no more than 2 decimal places.".into()])
        );
        assert_eq!(
            check_kind(kind(), json!("12345")),
            Err(vec!["Ensure that there are no more than 3 digits before the decimal point.".into()])
        );
        assert_eq!(
            check_kind(kind(), json!("123456")),
            Err(vec!["Ensure that there are no more than 5 digits in total.".into()])
        );
        assert_eq!(check_kind(kind(), json!("1e3")), Err(vec!["A valid number is required.".into()]));
    }

    #[test]
    fn a_number_of_json_is_a_decimal_to_its_last_digit() {
        let check = |precision, scale, number: &str| {
            let body = JsonBody::parse(number.into(), 9).unwrap();
            check(&Field::new("f", FieldKind::Decimal { precision, scale }), body.as_value())
                .map(|value| value.to_json())
        };
        for (number, shown) in [
            ("999999999999999.99", "999999999999999.99"),
            ("-1234567890123456.78", "-1234567890123456.78"),
            ("10000000000000000.5", "10000000000000000.50"),
            ("1e17", "100000000000000000.00"),
            ("1.25E+1", "12.50"),
            ("-1250e-2", "-12.50"),
            ("12e-1", "1.20"),
            ("0e99999999999999999999", "0.00"),
            (&format!("1{}e-200", "0".repeat(200)), "1.00"),
        ] {
            assert_eq!(check(20, 2, number), Ok(json!(shown)), "{number}");
        }
        assert_eq!(check(30, 0, "123456789012345678901"), Ok(json!("123456789012345678901")));
        let digits = || "Ensure that there are no more than 20 digits in total.".to_owned();
        let places = || "Ensure that there are no more than 2 decimal places.".to_owned();
        for (number, wrong) in [
            ("12345678901234567890.12", vec![digits()]),
            ("1e18", vec!["Ensure that there are no more than 18 digits before the decimal point.".to_owned()]),
            ("1e300", vec![digits()]),
            ("1e-3", vec![places()]),
            ("1e-99999999999999999999", vec![digits(), places()]),
        ] {
            assert_eq!(check(20, 2, number), Err(wrong), "{number}");
        }
    }

    #[test]
    fn lists_of_ids() {
        let kind = || FieldKind::References {
            target: ReferenceTarget { table: "roles".into(), autocomplete: None },
            max_items: 2,
        };
        assert_eq!(check_kind(kind(), json!([1, 1, 2])), Err(vec!["Up to 2 items allowed.".into()]));
        assert_eq!(check_kind(kind(), json!([2, 2])), Ok(json!([2])));
        assert_eq!(
            check_kind(kind(), json!(["1"])),
            Err(vec!["Incorrect type. Expected pk value, received str.".into()])
        );
        assert_eq!(check_kind(kind(), json!({})), Err(vec!["Expected a list of items but got type dict.".into()]));
    }

    #[test]
    fn urls() {
        for good in ["http://a", "HTTPS://A.example/x?y#z", "http://a:80", "http://[::1]:80/", "Http://ä.example"] {
            assert!(is_url(good), "{good}");
        }
        for bad in [
            "",
            "a",
            "http://",
            "http://:80",
            "http://user@:80",
            "http://user:word@a:80",
            "http:///x",
            "ftp://a",
            "http://a b",
            "http:/a",
        ] {
            assert!(!is_url(bad), "{bad}");
        }
    }

    #[test]
    fn addresses() {
        for good in ["a@b.co", "Ünï.cöde+x@exämple.org", "admin@localhost"] {
            assert!(is_email(good), "{good}");
        }
        for bad in ["", "a", "@b.co", "a@", "a@b", "a b@c.de", "a@b..c", "a@-b.co", "a@1.2", "a.@b.co", "a\n@b.co"] {
            assert!(!is_email(bad), "{bad}");
        }
    }
}
