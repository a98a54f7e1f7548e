//! Filters (RFC 7644, section 3.4.2.2): comparisons with `eq`, joined by `and`.

use crate::error::bad_request;
use kit::refusal::Refusal;
use resource::message;
use serde_json::{Map, Value as Json};

/// The maximum number of comparisons of a filter.
const MAX_COMPARISONS: usize = 10;
/// The beginnings of attribute names with their schema.
const SCHEMAS: [&str; 2] =
    ["urn:ietf:params:scim:schemas:core:2.0:user:", "urn:ietf:params:scim:schemas:core:2.0:group:"];

/// A comparison of an attribute with a value.
#[derive(Debug, PartialEq)]
pub struct Comparison {
    /// The name of the attribute in lower case, without its schema.
    pub attribute: String,
    pub value: FilterValue,
}

/// A value in a filter.
#[derive(Debug, PartialEq)]
pub enum FilterValue {
    Text(String),
    Boolean(bool),
}

/// Parses a filter. Refuses other operators, brackets and `or`.
pub fn parse(text: &str) -> Result<Vec<Comparison>, Refusal> {
    let (mut comparisons, mut rest) = (Vec::new(), text.trim_start());
    loop {
        let (attribute, after) = word(rest);
        let (operator, after) = word(after);
        if attribute.is_empty() || !operator.eq_ignore_ascii_case("eq") {
            return Err(invalid("Only the operator eq is supported."));
        }
        let (value, after) = value(after)?;
        comparisons.push(Comparison { attribute: without_schema(&attribute.to_ascii_lowercase()), value });
        if after.is_empty() {
            return Ok(comparisons);
        }
        let (conjunction, after) = word(after);
        if !conjunction.eq_ignore_ascii_case("and") {
            return Err(invalid("Comparisons can be joined by and alone."));
        }
        if comparisons.len() == MAX_COMPARISONS {
            return Err(invalid("The filter has too many comparisons."));
        }
        rest = after;
    }
}

/// Returns the name of an attribute without the schema before it.
pub fn without_schema(name: &str) -> String {
    SCHEMAS.iter().find_map(|schema| name.strip_prefix(schema)).unwrap_or(name).to_owned()
}

/// Returns the refusal of a filter.
pub fn invalid(detail: &str) -> Refusal {
    bad_request("invalidFilter", detail)
}

/// Splits off a word and the spaces after it.
fn word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !":._$-".contains(c)).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, rest.trim_start())
}

/// Splits off a value and the spaces after it.
fn value(text: &str) -> Result<(FilterValue, &str), Refusal> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Json>();
    let value = match values.next() {
        Some(Ok(Json::String(value))) => FilterValue::Text(value),
        Some(Ok(Json::Bool(value))) => FilterValue::Boolean(value),
        _ => {
            // Some directories write booleans with a capital letter.
            let (text_value, rest) = word(text);
            return match boolean(text_value) {
                Some(value) => Ok((FilterValue::Boolean(value), rest)),
                None => Err(invalid("A value is a text in quotation marks, true or false.")),
            };
        }
    };
    Ok((value, text[values.byte_offset()..].trim_start()))
}

/// Reads `true` or `false` in any case.
pub fn boolean(text: &str) -> Option<bool> {
    match text {
        _ if text.eq_ignore_ascii_case("true") => Some(true),
        _ if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

impl FilterValue {
    /// Returns the text.
    pub fn text(&self) -> Result<&str, Refusal> {
        match self {
            FilterValue::Text(text) if text.contains('\0') => Err(invalid(message::NUL)),
            FilterValue::Text(text) => Ok(text),
            FilterValue::Boolean(_) => Err(invalid("The attribute is a text.")),
        }
    }

    /// Returns the boolean, which may be sent as a text.
    pub fn boolean(&self) -> Result<bool, Refusal> {
        match self {
            FilterValue::Boolean(value) => Ok(*value),
            FilterValue::Text(text) => boolean(text).ok_or_else(|| invalid("The attribute is true or false.")),
        }
    }

    /// Returns the number of an id; 0, which no row has, for another text.
    pub fn id(&self) -> Result<i64, Refusal> {
        Ok(number(self.text()?))
    }
}

/// Returns a member of an object. Names of attributes have any case.
pub fn member<'a>(object: &'a Map<String, Json>, name: &str) -> Option<&'a Json> {
    object.iter().find(|(member, _)| member.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// Returns the number of an id; 0 if the text is not one.
pub fn number(text: &str) -> i64 {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_digits { text.parse().unwrap_or(0) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<(String, FilterValue)> {
        parse(text).unwrap().into_iter().map(|comparison| (comparison.attribute, comparison.value)).collect()
    }

    #[test]
    fn comparisons_are_joined_by_and() {
        let text = |value: &str| FilterValue::Text(value.to_owned());
        assert_eq!(parsed("userName eq \"a@b.example\""), [("username".to_owned(), text("a@b.example"))]);
        assert_eq!(
            parsed("  USERNAME EQ \"a \\\"b\\\" and\"  AND active eq True "),
            [("username".to_owned(), text("a \"b\" and")), ("active".to_owned(), FilterValue::Boolean(true))]
        );
        let with_schema = "urn:ietf:params:scim:schemas:core:2.0:User:userName eq \"x\"";
        assert_eq!(parsed(with_schema), [("username".to_owned(), text("x"))]);
    }

    #[test]
    fn everything_else_is_refused() {
        let comparisons = ["id eq \"1\""; 11].join(" and ");
        for wrong in [
            "",
            " ",
            "userName",
            "userName eq",
            "userName co \"a\"",
            "userName eq a",
            "userName eq 5",
            "userName eq \"a",
            "userName eq \"a\" or id eq \"1\"",
            "not (userName eq \"a\")",
            "(userName eq \"a\")",
            "emails[type eq \"work\"]",
            "userName pr",
            "userName eq \"a\" and",
            "userName eq \"a\"x",
            &comparisons,
            &"(".repeat(100_000),
        ] {
            assert!(parse(wrong).is_err(), "{wrong:.60}");
        }
    }
}
