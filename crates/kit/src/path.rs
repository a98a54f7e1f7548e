//! The values in a path. The name of a placeholder in a route's path determines the kind of its value.
//!
//! | In the path | Kind |
//! |---|---|
//! | `{id}`, `{group_id}` | integer |
//! | `{uuid}`, `{file_uuid}` | uuid |
//! | `{domain}`, `{build_domain}` | a build's domain |
//! | `{key}`, `{*component}` | a text that the handler checks |
//! | `{*rest}` | the rest of the path |
//! | anything else | a name |
//!
//! A value that is not of its kind is answered with 404. A text that the handler checks is always of
//! its kind. The handler gets it unchanged, reads it by [`unchecked_text`] and reports its errors.

use percent_encoding::percent_decode_str;
use uuid::Uuid;

/// The maximum length of a name in a path, in bytes.
const MAX_NAME: usize = 255;

/// The kind of a value in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    Integer,
    Uuid,
    Name,
    /// A build's domain, which selects the build on routes of the deployment.
    Domain,
    Rest,
    /// A text that the handler reads and checks.
    Unchecked,
}

/// A value in a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathValue {
    Integer(i64),
    Uuid(Uuid),
    Text(String),
}

impl PathValue {
    pub fn integer(&self) -> Option<i64> {
        if let PathValue::Integer(value) = self { Some(*value) } else { None }
    }
    pub fn uuid(&self) -> Option<Uuid> {
        if let PathValue::Uuid(value) = self { Some(*value) } else { None }
    }
    pub fn text(&self) -> Option<&str> {
        if let PathValue::Text(value) = self { Some(value) } else { None }
    }
}

impl PathKind {
    /// Returns the kind of a placeholder's value.
    pub fn from_placeholder(placeholder: &str) -> PathKind {
        let is_kind = |word: &str| {
            placeholder == word || placeholder.strip_suffix(word).is_some_and(|prefix| prefix.ends_with('_'))
        };
        match placeholder {
            "key" | "*component" => PathKind::Unchecked,
            rest if rest.starts_with('*') => PathKind::Rest,
            _ if is_kind("uuid") => PathKind::Uuid,
            _ if is_kind("id") => PathKind::Integer,
            _ if is_kind("domain") => PathKind::Domain,
            _ => PathKind::Name,
        }
    }

    /// Reads an unchanged value; `None` if it is not of this kind.
    pub fn read(self, segment: &str) -> Option<PathValue> {
        match self {
            PathKind::Integer => {
                let is_digits = !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit());
                // An integer that is too large for an id becomes 0, which is not the id of a row.
                is_digits.then(|| PathValue::Integer(segment.parse().unwrap_or(0)))
            }
            PathKind::Uuid => {
                // Only the hyphenated form is accepted: each address has one spelling.
                let is_hyphenated = segment.len() == 36;
                Uuid::parse_str(segment).ok().filter(|_| is_hyphenated).map(PathValue::Uuid)
            }
            PathKind::Name | PathKind::Domain => {
                text(segment).filter(|text| text.len() <= MAX_NAME).map(PathValue::Text)
            }
            PathKind::Rest => text(segment).map(PathValue::Text),
            PathKind::Unchecked => Some(PathValue::Text(segment.to_owned())),
        }
    }

    /// Returns the JSON schema for OpenAPI.
    pub fn schema(self) -> serde_json::Value {
        match self {
            PathKind::Integer => serde_json::json!({"type": "integer", "minimum": 1}),
            PathKind::Uuid => serde_json::json!({"type": "string", "format": "uuid"}),
            PathKind::Name | PathKind::Domain => serde_json::json!({"type": "string", "maxLength": MAX_NAME}),
            PathKind::Rest | PathKind::Unchecked => serde_json::json!({"type": "string"}),
        }
    }
}

/// Returns the placeholders of a route's path, without braces and star, each with its kind.
pub fn placeholders(path: &str) -> impl Iterator<Item = (&str, PathKind)> {
    let named = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    named.map(|name| (name.trim_start_matches('*'), PathKind::from_placeholder(name)))
}

/// Returns the text of a value that the handler checks. Invalid UTF-8 is replaced, so that no rule allows it.
pub fn unchecked_text(segment: &str) -> String {
    percent_decode_str(segment).decode_utf8_lossy().into_owned()
}

/// Decodes percent-encoded text; `None` if it is not UTF-8, is empty, or has control characters.
fn text(segment: &str) -> Option<String> {
    let text = percent_decode_str(segment).decode_utf8().ok()?;
    (!text.is_empty() && !text.chars().any(char::is_control)).then(|| text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_names_its_kind() {
        let kinds: Vec<_> =
            placeholders("/a/{id}/{group_id}/{uuid}/{file_uuid}/{build_domain}/{name}/{key}/{*component}/{*rest}")
                .collect();
        assert_eq!(
            kinds,
            [
                ("id", PathKind::Integer),
                ("group_id", PathKind::Integer),
                ("uuid", PathKind::Uuid),
                ("file_uuid", PathKind::Uuid),
                ("build_domain", PathKind::Domain),
                ("name", PathKind::Name),
                ("key", PathKind::Unchecked),
                ("component", PathKind::Unchecked),
                ("rest", PathKind::Rest),
            ]
        );
        assert_eq!(PathKind::from_placeholder("grid"), PathKind::Name);
    }

    #[test]
    fn a_value_is_of_its_kind_or_none() {
        assert_eq!(PathKind::Integer.read("007"), Some(PathValue::Integer(7)));
        assert_eq!(PathKind::Integer.read("99999999999999999999"), Some(PathValue::Integer(0)));
        for segment in ["", "x", "-1", "+1", "1.0", "%31"] {
            assert_eq!(PathKind::Integer.read(segment), None, "{segment}");
        }
        let uuid = "0f8fad5b-d9cb-469f-a165-70867728950e";
        assert_eq!(PathKind::Uuid.read(&uuid.to_uppercase()), Uuid::parse_str(uuid).ok().map(PathValue::Uuid));
        for segment in ["", "7", &uuid[1..], &uuid.replace('-', ""), "{0f8fad5b-d9cb-469f-a165-70867728950e}"] {
            assert_eq!(PathKind::Uuid.read(segment), None, "{segment}");
        }
        assert_eq!(PathKind::Name.read("a%20b%C3%BC"), Some(PathValue::Text("a bü".to_owned())));
        for segment in ["", "%00", "%ff", "a%0Ab", &"x".repeat(MAX_NAME + 1)] {
            assert_eq!(PathKind::Name.read(segment), None, "{segment}");
        }
        assert_eq!(PathKind::Rest.read("css/a.css"), Some(PathValue::Text("css/a.css".to_owned())));
        for (segment, text) in [("a%00/", "a\0/"), ("%ff", "\u{fffd}"), ("", ""), ("%2574", "%74")] {
            assert_eq!(PathKind::Unchecked.read(segment), Some(PathValue::Text(segment.to_owned())), "{segment}");
            assert_eq!(unchecked_text(segment), text, "{segment}");
        }
    }
}
