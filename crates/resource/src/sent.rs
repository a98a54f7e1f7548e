//! JSON bodies, stored as text. The text is checked once, and a field is parsed when it is requested.
//!
//! A body never becomes a tree. A tree would use up to a hundred times the memory of the text
//! (`[[0],[0],…]`), and clients would control how much. Undeclared fields use no memory.

use crate::errors::message;
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Number, Value as Json};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fmt;

/// The maximum depth of a body (`docs/reference/conventions.md`).
pub const MAX_DEPTH: usize = 100;

/// The maximum number of characters of a value that a message repeats.
const MAX_CHARS_IN_MESSAGE: usize = 1000;

/// The text of a body, which is JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonBody(String);

impl JsonBody {
    /// Checks a body of at most [`MAX_DEPTH`] levels and `max_values` values. The memory of the check does not grow with the body.
    ///
    /// # Errors
    /// The text that follows `JSON parse error - ` in the answer.
    pub fn parse(bytes: Vec<u8>, max_values: usize) -> Result<JsonBody, String> {
        let (refused, values_left) = (Cell::new(None), Cell::new(max_values));
        let walk =
            JsonChecker { bounds: NestingBounds { depth: MAX_DEPTH, refused: &refused }, values_left: &values_left };
        let mut deserializer = serde_json::Deserializer::from_slice(&bytes);
        let walked = walk.deserialize(&mut deserializer).and_then(|()| deserializer.end());
        walked.map_err(|error| refused.get().map_or_else(|| error.to_string(), str::to_owned))?;
        String::from_utf8(bytes).map(JsonBody).map_err(|error| error.to_string())
    }

    /// Returns the body with this value.
    pub fn from_json(value: &Json) -> JsonBody {
        JsonBody(value.to_string())
    }

    /// Returns the body with this text, which was checked to be JSON.
    pub fn from_checked_text(text: String) -> JsonBody {
        JsonBody(text)
    }

    /// Returns the value of the body.
    pub fn as_value(&self) -> JsonValue<'_> {
        JsonValue(self.0.trim_matches(is_space))
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether it has no bytes, which is never true for JSON.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns whether a character is white space in JSON.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// The remaining depth of a value, and the reason of a refusal. The reason is stored beside the
/// parser's error, to which the parser would add a position.
#[derive(Clone, Copy)]
struct NestingBounds<'s> {
    depth: usize,
    refused: &'s Cell<Option<&'static str>>,
}

impl NestingBounds<'_> {
    fn refuse<E: de::Error>(self, reason: &'static str) -> E {
        self.refused.set(Some(reason));
        E::custom(reason)
    }

    /// Returns the bounds of the contents of a list or an object.
    fn nested<E: de::Error>(self, too_deep: &'static str) -> Result<Self, E> {
        let depth = self.depth.checked_sub(1).ok_or_else(|| self.refuse(too_deep))?;
        Ok(NestingBounds { depth, ..self })
    }
}

/// Checks a value without storing it.
#[derive(Clone, Copy)]
struct JsonChecker<'s> {
    bounds: NestingBounds<'s>,
    values_left: &'s Cell<usize>,
}

impl JsonChecker<'_> {
    fn nested<E: de::Error>(self) -> Result<Self, E> {
        Ok(JsonChecker { bounds: self.bounds.nested("too deep.")?, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for JsonChecker<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let values_left =
            self.values_left.get().checked_sub(1).ok_or_else(|| self.bounds.refuse("too many values."))?;
        self.values_left.set(values_left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonChecker<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let inside = self.nested()?;
        while items.next_element_seed(inside)?.is_some() {}
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let inside = self.nested()?;
        while members.next_key_seed(NameReader)?.is_some() {
            members.next_value_seed(inside)?;
        }
        Ok(())
    }
}

/// Reads the name of a member without storing it.
struct NameReader;

impl<'de> DeserializeSeed<'de> for NameReader {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for NameReader {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

/// Writes a value in its canonical spelling.
#[derive(Clone, Copy)]
struct Canonical<'s> {
    bounds: NestingBounds<'s>,
    out: &'s RefCell<String>,
}

impl Canonical<'_> {
    fn write<E>(self, text: impl fmt::Display) -> Result<(), E> {
        // Writing to a string never fails.
        let _ = fmt::write(&mut *self.out.borrow_mut(), format_args!("{text}"));
        Ok(())
    }

    fn write_text<E: de::Error>(self, text: &str) -> Result<(), E> {
        if text.contains('\0') {
            return Err(self.bounds.refuse(message::NUL));
        }
        self.write(serde_json::to_string(text).map_err(E::custom)?)
    }

    fn nested<E: de::Error>(self) -> Result<Self, E> {
        Ok(Canonical { bounds: self.bounds.nested(message::TOO_LARGE)?, ..self })
    }

    /// Ends a list or an object. After its last value there is one comma too many.
    fn close<E>(self, count: usize, end: char) -> Result<(), E> {
        if count > 0 {
            self.out.borrow_mut().pop();
        }
        self.write(end)
    }
}

impl<'de> DeserializeSeed<'de> for Canonical<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Canonical<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.write("null")
    }
    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        self.write(value)
    }
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<(), E> {
        self.write(number)
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<(), E> {
        self.write(number)
    }
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<(), E> {
        self.write(Number::from_f64(number).ok_or_else(|| self.bounds.refuse(message::VALUE))?)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        self.write_text(text)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let inside = self.nested()?;
        self.write("[")?;
        let mut count = 0;
        while items.next_element_seed(inside)?.is_some() {
            self.write(",")?;
            count += 1;
        }
        self.close(count, ']')
    }
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let inside = self.nested()?;
        self.write("{")?;
        let mut names = HashSet::new();
        while let Some(BorrowedText(name)) = members.next_key()? {
            self.write_text(&name)?;
            self.write(":")?;
            if !names.insert(name) {
                return Err(self.bounds.refuse(message::VALUE));
            }
            members.next_value_seed(inside)?;
            self.write(",")?;
        }
        self.close(names.len(), '}')
    }
}

/// The JSON text of a value in a body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JsonValue<'a>(&'a str);

impl<'a> From<&'a RawValue> for JsonValue<'a> {
    fn from(value: &'a RawValue) -> JsonValue<'a> {
        JsonValue(value.get())
    }
}

impl<'a> JsonValue<'a> {
    /// Returns the text, as it was sent.
    pub fn text(self) -> &'a str {
        self.0
    }

    fn starts_with(self, first: char) -> bool {
        self.0.starts_with(first)
    }

    /// Returns whether it is `null`.
    pub fn is_null(self) -> bool {
        self.0 == "null"
    }

    /// Returns the value as a boolean.
    pub fn as_bool(self) -> Option<bool> {
        match self.0 {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// Returns the value as a number.
    pub fn as_number(self) -> Option<Number> {
        let is_number = self.0.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        if is_number { serde_json::from_str(self.0).ok() } else { None }
    }

    /// Returns the value as an integer of 64 bits.
    pub fn as_i64(self) -> Option<i64> {
        if self.is_integer() { self.0.parse().ok() } else { None }
    }

    /// Returns whether it is an integer, even if it is too large or too small for [`JsonValue::as_i64`].
    pub fn is_integer(self) -> bool {
        let is_number = self.0.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        is_number && !self.0.contains(['.', 'e', 'E'])
    }

    /// Returns the value as a string, which is borrowed if it has no escapes.
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        let inside = self.0.strip_prefix('"')?.strip_suffix('"')?;
        if inside.contains('\\') { serde_json::from_str(self.0).ok().map(Cow::Owned) } else { Some(inside.into()) }
    }

    /// Returns the value as a list: its first items, at most `most`, and the number of all items.
    pub fn as_list(self, most: usize) -> Option<(Vec<JsonValue<'a>>, usize)> {
        let (mut first, mut count) = (Vec::new(), 0);
        self.for_each_item(|item| {
            if first.len() < most {
                first.push(item);
            }
            count += 1;
        })?;
        Some((first, count))
    }

    /// Returns the items of a list of at most `most`, or the error message.
    pub fn items(self, most: usize) -> Result<Vec<JsonValue<'a>>, String> {
        match self.as_list(most) {
            None if self.is_null() => Err(message::NULL.to_owned()),
            None => Err(message::not_a_list(self.type_name())),
            Some((_, count)) if count > most => Err(message::too_many(most)),
            Some((items, _)) => Ok(items),
        }
    }

    /// Calls `see` with each item of a list; `None` if the value is not a list. The items use no memory.
    pub fn for_each_item(self, see: impl FnMut(JsonValue<'a>)) -> Option<()> {
        if !self.starts_with('[') {
            return None;
        }
        let mut deserializer = serde_json::Deserializer::from_str(self.0);
        deserializer.deserialize_seq(ListReader { see }).ok()
    }

    /// Returns the value as an object, with the members whose names `is_wanted` accepts. If a member was
    /// sent twice, the last one counts. Other members use no memory.
    pub fn as_object(self, is_wanted: impl Fn(&str) -> bool) -> Option<SentObject<'a>> {
        if !self.starts_with('{') {
            return None;
        }
        let mut deserializer = serde_json::Deserializer::from_str(self.0);
        deserializer.deserialize_map(MemberReader { is_wanted }).ok()
    }

    /// Returns the value as a tree; only for values that are always small.
    pub fn to_json(self) -> Json {
        serde_json::from_str(self.0).unwrap_or_default()
    }

    /// Returns the text without white space between its parts.
    pub fn compact(self) -> String {
        let (mut compact, mut in_string, mut is_escaped) = (String::with_capacity(self.0.len()), false, false);
        for c in self.0.chars() {
            if in_string {
                in_string = is_escaped || c != '"';
                is_escaped = !is_escaped && c == '\\';
            } else if is_space(c) {
                continue;
            } else {
                in_string = c == '"';
            }
            compact.push(c);
        }
        compact
    }

    /// Returns the value in its canonical spelling, in which fields of any JSON are stored. It may nest `max_depth`
    /// levels deep (0: neither list nor object). It may not contain NUL, nor a name twice in an object.
    ///
    /// # Errors
    /// The message for the first of these rules that it breaks.
    pub fn canonical(self, max_depth: usize) -> Result<String, &'static str> {
        let (out, refused) = (RefCell::new(String::with_capacity(self.0.len())), Cell::new(None));
        let writing = Canonical { bounds: NestingBounds { depth: max_depth, refused: &refused }, out: &out };
        match writing.deserialize(&mut serde_json::Deserializer::from_str(self.0)) {
            Ok(()) => Ok(out.into_inner()),
            Err(_) => Err(refused.get().unwrap_or(message::VALUE)),
        }
    }

    /// Returns the name of the type in messages (`docs/reference/conventions.md`).
    pub fn type_name(self) -> &'static str {
        match self.0.as_bytes().first() {
            Some(b'"') => "str",
            Some(b'[') => "list",
            Some(b'{') => "dict",
            Some(b't' | b'f') => "bool",
            Some(b'n') => "NoneType",
            _ if self.is_integer() => "int",
            _ => "float",
        }
    }

    /// Returns the value as messages repeat it: a string without quotes, booleans as `True` and `False`. Long values are cut.
    pub fn message_text(self) -> String {
        let whole = match (self.as_str(), self.as_bool(), self.as_number()) {
            (Some(text), ..) => text,
            (_, Some(true), _) => "True".into(),
            (_, Some(false), _) => "False".into(),
            (.., Some(number)) if !self.is_integer() => number.to_string().into(),
            _ => self.compact().into(),
        };
        match whole.char_indices().nth(MAX_CHARS_IN_MESSAGE) {
            Some((end, _)) => format!("{}…", &whole[..end]),
            None => whole.into_owned(),
        }
    }
}

/// The accepted members of an object, each once, in the order in which they were sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SentObject<'a>(Vec<(Cow<'a, str>, JsonValue<'a>)>);

impl<'a> SentObject<'a> {
    /// Returns the value of the member of this name.
    pub fn get(&self, name: &str) -> Option<JsonValue<'a>> {
        self.0.iter().find(|(member, _)| member == name).map(|(_, value)| *value)
    }

    /// Returns whether a member was sent.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns all members.
    pub fn iter(&self) -> impl Iterator<Item = (&str, JsonValue<'a>)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), *value))
    }

    /// Removes all members except those whose names `is_wanted` accepts.
    pub fn filter_members(mut self, is_wanted: impl Fn(&str) -> bool) -> SentObject<'a> {
        self.0.retain(|(name, _)| is_wanted(name));
        self
    }
}

/// Collects members, whose names differ.
impl<'a> FromIterator<(&'a str, JsonValue<'a>)> for SentObject<'a> {
    fn from_iter<T: IntoIterator<Item = (&'a str, JsonValue<'a>)>>(members: T) -> SentObject<'a> {
        SentObject(members.into_iter().map(|(name, value)| (Cow::Borrowed(name), value)).collect())
    }
}

/// Reads the items of a list.
struct ListReader<F> {
    see: F,
}

impl<'de, F: FnMut(JsonValue<'de>)> Visitor<'de> for ListReader<F> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }
    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element::<&RawValue>()? {
            (self.see)(JsonValue(item.get()));
        }
        Ok(())
    }
}

/// Reads the accepted members of an object.
struct MemberReader<F> {
    is_wanted: F,
}

impl<'de, F: Fn(&str) -> bool> Visitor<'de> for MemberReader<F> {
    type Value = SentObject<'de>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<SentObject<'de>, A::Error> {
        let mut object: Vec<(Cow<'de, str>, JsonValue<'de>)> = Vec::new();
        while let Some(BorrowedText(name)) = members.next_key()? {
            let value = JsonValue(members.next_value::<&RawValue>()?.get());
            match object.iter_mut().find(|(member, _)| *member == name) {
                Some((_, member_value)) => *member_value = value,
                None if (self.is_wanted)(&name) => object.push((name, value)),
                None => {}
            }
        }
        Ok(SentObject(object))
    }
}

/// A text that is borrowed if it has no escapes.
struct BorrowedText<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for BorrowedText<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextReader;
        impl<'de> Visitor<'de> for TextReader {
            type Value = BorrowedText<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(BorrowedText(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(BorrowedText(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextReader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(text: &str) -> Result<JsonBody, String> {
        JsonBody::parse(text.as_bytes().to_vec(), usize::MAX)
    }

    #[test]
    fn a_body_is_read_as_it_was_sent() {
        let body =
            parse(" {\"a\": \"x\", \"b\": [1, [2]], \"c\": null, \"a\": \"\\u00e4\\n\", \"d\" : -1.50} ").unwrap();
        let object = body.as_value().as_object(|name| name != "c").unwrap();
        assert_eq!(object.get("a").unwrap().as_str().unwrap(), "ä\n", "of two the last");
        let (items, count) = object.get("b").unwrap().as_list(1).unwrap();
        assert_eq!((items[0].as_i64(), items.len(), count), (Some(1), 1, 2));
        assert!(!object.contains_key("c") && !object.contains_key("e"), "not wanted, not sent");
        assert_eq!(object.get("d").unwrap().message_text(), "-1.5");
        assert_eq!(object.get("b").unwrap().message_text(), "[1,[2]]");
        let names: Vec<&str> = object.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b", "d"]);
    }

    #[test]
    fn types_are_named_as_in_messages() {
        for (text, name) in [
            ("null", "NoneType"),
            ("true", "bool"),
            ("1", "int"),
            ("18446744073709551616", "int"),
            ("-0", "int"),
            ("1.0", "float"),
            ("1e400", "float"),
            ("\"x\"", "str"),
            ("[]", "list"),
            ("{}", "dict"),
        ] {
            match parse(text) {
                Ok(body) => assert_eq!(body.as_value().type_name(), name, "{text}"),
                Err(error) => assert_eq!(error, "number out of range at line 1 column 5", "{text}"),
            }
        }
    }

    #[test]
    fn text_that_is_no_json_is_refused_with_the_message_of_the_parser() {
        for (text, error) in [
            ("{", "EOF while parsing an object at line 1 column 1"),
            ("[1] 2", "trailing characters at line 1 column 5"),
            ("{\"a\": \"\\ud800\"}", "unexpected end of hex escape at line 1 column 14"),
        ] {
            assert_eq!(parse(text).unwrap_err(), error, "{text}");
        }
        assert!(JsonBody::parse(b"\"\xff\"".to_vec(), 9).unwrap_err().starts_with("invalid unicode code point"));
    }

    #[test]
    fn depth_and_number_of_values_are_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(&nested(MAX_DEPTH)).is_ok());
        assert_eq!(parse(&nested(MAX_DEPTH + 1)).unwrap_err(), "too deep.");
        assert_eq!(parse(&nested(100_000)).unwrap_err(), "too deep.");
        assert_eq!(parse(&"{\"a\":".repeat(MAX_DEPTH + 1)).unwrap_err(), "too deep.");
        let list = |values: usize| format!("[{}]", vec!["0"; values - 1].join(",")).into_bytes();
        assert!(JsonBody::parse(list(1000), 1000).is_ok());
        assert_eq!(JsonBody::parse(list(1001), 1000).unwrap_err(), "too many values.");
    }

    #[test]
    fn any_json_has_a_canonical_spelling() {
        for value in [json!({"a b": [1, {"\"c\\": " [ \\\" "}], "d": {}}), json!("x [ y"), json!(1), json!([[[]]])] {
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            let body = parse(&pretty).unwrap();
            assert_eq!(body.as_value().compact(), value.to_string());
            assert_eq!(body.as_value().canonical(9), Ok(value.to_string()));
            assert_eq!(body.as_value().to_json(), value);
        }
        let canonical = |text: &str, depth| parse(text).unwrap().as_value().canonical(depth);
        assert_eq!(
            canonical("{\"\\u0061\": [1e2, -0.0, 12], \"b\": []}", 2),
            Ok(r#"{"a":[100.0,-0.0,12],"b":[]}"#.into())
        );
        assert_eq!(canonical("{\"a\": [1, {\"b\": \"[[[\"}]}", 2), Err("Value is too large."));
        assert_eq!(canonical("[{\"a\": 1, \"\\u0061\": 2}]", 2), Err("Enter a valid value."));
        assert_eq!(canonical("[\"\\u0000\"]", 2), Err("Null characters are not allowed."));
    }
}
