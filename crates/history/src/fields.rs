//! Reads the fields of a JSON object with values of any type, so that a refusal can report all errors. Serde would stop
//! at the first error. Texts without escapes are borrowed from the body.

use crate::event::{EARLIEST, LATEST};
use crate::reply::{HistoryRefusal, MAX_PROBLEMS, PathStep, Problem, Problems};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use uuid::Uuid;

/// The methods of a visitor with the same answer for every boolean, number and text.
macro_rules! any_plain_value {
    ($value:ty, $answer:expr) => {
        fn visit_bool<E>(self, _: bool) -> Result<$value, E> {
            Ok($answer)
        }
        fn visit_i64<E>(self, _: i64) -> Result<$value, E> {
            Ok($answer)
        }
        fn visit_u64<E>(self, _: u64) -> Result<$value, E> {
            Ok($answer)
        }
        fn visit_f64<E>(self, _: f64) -> Result<$value, E> {
            Ok($answer)
        }
        fn visit_str<E>(self, _: &str) -> Result<$value, E> {
            Ok($answer)
        }
    };
}

/// Declares the fields of an object. Each has a name, a type, a schema in the OpenAPI document, and a way to read it,
/// if that is not `Deserialize`.
macro_rules! fields {
    ($(#[$about:meta])* $object:ident {
        $($name:literal => $field:ident: $kind:ty = $schema:expr $(, $entries:ident => $read:expr)?;)*
    }) => {
        $(#[$about])*
        #[derive(Default)]
        struct $object<'a> {
            $($field: $kind,)*
        }

        impl<'de: 'a, 'a> $crate::fields::FromFields<'de> for $object<'a> {
            fn read_field<A: serde::de::MapAccess<'de>>(&mut self, name: &str, entries: &mut A) -> Result<(), A::Error> {
                match name {
                    $($name => self.$field = $crate::fields::fields!(@read entries $(, $entries => $read)?),)*
                    _ => drop(entries.next_value::<serde::de::IgnoredAny>()?),
                }
                Ok(())
            }
        }

        impl $object<'_> {
            fn schema() -> serde_json::Value {
                $crate::schema::object([$(($name, $schema)),*])
            }
        }
    };
    (@read $all:ident) => { $all.next_value()? };
    (@read $all:ident, $entries:ident => $read:expr) => {{
        let $entries = $all;
        $read
    }};
}
pub(crate) use fields;

/// The value of a field.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Scalar<'a> {
    /// The field was not sent.
    #[default]
    Missing,
    Null,
    Text(Cow<'a, str>),
    /// A whole number of 64 bits.
    Int(i64),
    /// A value of any other type.
    Other,
}

impl<'a> Scalar<'a> {
    pub fn text(self) -> Result<Cow<'a, str>, Problem> {
        match self {
            Scalar::Text(text) => Ok(text),
            other => Err(other.type_problem(Problem::NotAString)),
        }
    }

    pub fn string(self) -> Result<String, Problem> {
        self.text().map(Cow::into_owned)
    }

    /// Returns a text, empty if the field was not sent.
    pub fn string_or_empty(self) -> Result<String, Problem> {
        if self == Scalar::Missing { Ok(String::new()) } else { self.string() }
    }

    pub fn int(self) -> Result<i64, Problem> {
        match self {
            Scalar::Int(number) => Ok(number),
            other => Err(other.type_problem(Problem::NotAnInteger)),
        }
    }

    /// Returns a whole number, 0 if the field was not sent.
    pub fn int_or_zero(self) -> Result<i64, Problem> {
        if self == Scalar::Missing { Ok(0) } else { self.int() }
    }

    /// Returns the number of one of these names; the first has the number 1.
    pub fn number_of(self, names: &[&str]) -> Result<u8, Problem> {
        match self {
            Scalar::Int(number) if number >= 1 => {
                let number = u8::try_from(number).ok().filter(|number| usize::from(*number) <= names.len());
                number.ok_or(Problem::NotAMember)
            }
            other => Err(other.type_problem(Problem::NotAMember)),
        }
    }

    /// Returns the number of one of these names, or 0 if the field was not sent or is 0.
    pub fn number_of_or_zero(self, names: &[&str]) -> Result<u8, Problem> {
        if matches!(self, Scalar::Missing | Scalar::Int(0)) { Ok(0) } else { self.number_of(names) }
    }

    pub fn uuid(self) -> Result<Uuid, Problem> {
        match self {
            Scalar::Text(text) => Uuid::try_parse(&text).map_err(|_| Problem::NotAUuid),
            other => Err(other.type_problem(Problem::NotAUuid)),
        }
    }

    /// Returns a time of the years 1900 to 2299, in microseconds since 1970.
    pub fn parse_datetime(self) -> Result<i64, Problem> {
        match self {
            Scalar::Text(text) => parse_datetime_text(&text).ok_or(Problem::NotADateTime),
            other => Err(other.type_problem(Problem::NotADateTime)),
        }
    }

    /// Returns the problem of a value of the wrong type.
    fn type_problem(&self, otherwise: Problem) -> Problem {
        match self {
            Scalar::Missing => Problem::Missing,
            Scalar::Null => Problem::Null,
            _ => otherwise,
        }
    }
}

/// Parses a time of the years 1900 to 2299, in microseconds since 1970 (`docs/reference/history.md`).
pub fn parse_datetime_text(text: &str) -> Option<i64> {
    resource::time::parse(text).filter(|at| (EARLIEST..=LATEST).contains(at))
}

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar<'a>, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E>(self) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Null)
    }
    fn visit_bool<E>(self, _: bool) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Other)
    }
    fn visit_i64<E>(self, number: i64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Int(number))
    }
    fn visit_u64<E>(self, number: u64) -> Result<Scalar<'de>, E> {
        Ok(i64::try_from(number).map_or(Scalar::Other, Scalar::Int))
    }
    fn visit_f64<E>(self, _: f64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Other)
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Borrowed(text)))
    }
    fn visit_str<E>(self, text: &str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Owned(text.to_owned())))
    }
    fn visit_string<E>(self, text: String) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Owned(text)))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Scalar<'de>, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Scalar<'de>, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }
}

/// Reads a body that must be an object, into fields that are still empty.
pub fn read<'a, T: FromFields<'a>>(body: &'a [u8], empty: T) -> Result<T, HistoryRefusal> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let outcome = ReadInto(empty).deserialize(&mut deserializer);
    let outcome = outcome.and_then(|object| deserializer.end().map(|()| object));
    let object = outcome.map_err(|_| HistoryRefusal::bad_request("Invalid JSON body."))?;
    object.0.ok_or_else(|| {
        let mut problems = Problems::default();
        problems.add(&[PathStep::Name("body")], Problem::NotAnObject);
        problems.into()
    })
}

/// The fields of an object; `None` if another value was sent. If a field was sent twice, the last value counts.
pub struct ObjectValue<T>(pub Option<T>);

/// A struct that is filled from the fields of an object.
pub trait FromFields<'de>: Sized {
    /// Reads the value of a field, or skips it with [`IgnoredAny`].
    fn read_field<A: MapAccess<'de>>(&mut self, name: &str, entries: &mut A) -> Result<(), A::Error>;
}

impl<'de, T: FromFields<'de> + Default> Deserialize<'de> for ObjectValue<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ObjectValue<T>, D::Error> {
        ReadInto(T::default()).deserialize(deserializer)
    }
}

/// Reads an object into fields that are still empty.
struct ReadInto<T>(T);

impl<'de, T: FromFields<'de>> DeserializeSeed<'de> for ReadInto<T> {
    type Value = ObjectValue<T>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ObjectValue<T>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: FromFields<'de>> Visitor<'de> for ReadInto<T> {
    type Value = ObjectValue<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<ObjectValue<T>, A::Error> {
        let mut fields = self.0;
        while let Some(name) = entries.next_key::<FieldName<'_>>()? {
            fields.read_field(&name.0, &mut entries)?;
        }
        Ok(ObjectValue(Some(fields)))
    }
    fn visit_unit<E>(self) -> Result<ObjectValue<T>, E> {
        Ok(ObjectValue(None))
    }
    any_plain_value!(ObjectValue<T>, ObjectValue(None));
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ObjectValue<T>, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(ObjectValue(None))
    }
}

struct FieldName<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for FieldName<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FieldName<'a>, D::Error> {
        match deserializer.deserialize_str(ScalarVisitor)? {
            Scalar::Text(text) => Ok(FieldName(text)),
            _ => Ok(FieldName(Cow::Borrowed(""))),
        }
    }
}

/// The value of a field that should be an array.
#[derive(Debug, Default, PartialEq)]
pub enum ArrayValue<T> {
    /// The field was not sent.
    #[default]
    Missing,
    Null,
    /// A value of any other type.
    Other,
    Items(Vec<T>),
    /// An array with too many items.
    TooLong,
}

/// Reads an array with a maximum number of items. The remaining items of a longer one are skipped, since a body full of
/// tiny items would need a hundred times its size in memory.
pub struct BoundedList<T>(usize, PhantomData<T>);

impl<T> BoundedList<T> {
    pub fn new(max_items: usize) -> BoundedList<T> {
        BoundedList(max_items, PhantomData)
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for BoundedList<T> {
    type Value = ArrayValue<T>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ArrayValue<T>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for BoundedList<T> {
    type Value = ArrayValue<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<ArrayValue<T>, A::Error> {
        let mut items = Vec::new();
        while items.len() < self.0 {
            match sequence.next_element()? {
                Some(item) => items.push(item),
                None => return Ok(ArrayValue::Items(items)),
            }
        }
        if sequence.next_element::<IgnoredAny>()?.is_none() {
            return Ok(ArrayValue::Items(items));
        }
        drop(items);
        while sequence.next_element::<IgnoredAny>()?.is_some() {}
        Ok(ArrayValue::TooLong)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<ArrayValue<T>, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(ArrayValue::Other)
    }
    fn visit_unit<E>(self) -> Result<ArrayValue<T>, E> {
        Ok(ArrayValue::Null)
    }
    any_plain_value!(ArrayValue<T>, ArrayValue::Other);
}

/// The value that [`JsonTexts`] reads.
#[derive(Debug, Default)]
pub struct JsonArray {
    /// The values of the texts as one array, in JSON.
    pub array: String,
    /// The problems of items with their places, the first [`MAX_PROBLEMS`].
    pub wrong: Vec<(usize, Problem)>,
}

/// Reads an array of texts that contain JSON, without storing the texts.
pub struct JsonTexts;

impl<'de> DeserializeSeed<'de> for JsonTexts {
    type Value = ArrayValue<JsonArray>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ArrayValue<JsonArray>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonTexts {
    type Value = ArrayValue<JsonArray>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<ArrayValue<JsonArray>, A::Error> {
        let mut texts = JsonArray { array: "[".to_owned(), wrong: Vec::new() };
        let mut at = 0;
        while let Some(item) = sequence.next_element::<Scalar<'_>>()? {
            match item.text() {
                Ok(text) if is_json(&text) => {
                    texts.array.push_str(if at == 0 { "" } else { "," });
                    texts.array.push_str(text.trim());
                }
                wrong if texts.wrong.len() < MAX_PROBLEMS => {
                    texts.wrong.push((at, wrong.err().unwrap_or(Problem::NotJson)));
                }
                _ => {}
            }
            at += 1;
        }
        texts.array.push(']');
        Ok(ArrayValue::Items(vec![texts]))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<ArrayValue<JsonArray>, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(ArrayValue::Other)
    }
    fn visit_unit<E>(self) -> Result<ArrayValue<JsonArray>, E> {
        Ok(ArrayValue::Null)
    }
    any_plain_value!(ArrayValue<JsonArray>, ArrayValue::Other);
}

/// Returns whether a text is JSON that every reader of a list can read: not too deep, without lone surrogates, with
/// finite numbers.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<AnyValue>(text).is_ok()
}

/// Any value, checked and not stored. In contrast to [`IgnoredAny`] it checks the depth, and the values of texts and
/// numbers.
struct AnyValue;

impl<'de> Deserialize<'de> for AnyValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AnyValue, D::Error> {
        deserializer.deserialize_any(ReadableVisitor)
    }
}

struct ReadableVisitor;

impl<'de> Visitor<'de> for ReadableVisitor {
    type Value = AnyValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E>(self) -> Result<AnyValue, E> {
        Ok(AnyValue)
    }
    any_plain_value!(AnyValue, AnyValue);
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<AnyValue, A::Error> {
        while items.next_element::<AnyValue>()?.is_some() {}
        Ok(AnyValue)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<AnyValue, A::Error> {
        while entries.next_entry::<AnyValue, AnyValue>()?.is_some() {}
        Ok(AnyValue)
    }
}

impl<T> ArrayValue<T> {
    /// Returns the items, or the problem with them.
    pub fn items(self, max_items: usize) -> Result<Vec<T>, Problem> {
        match self {
            ArrayValue::Items(items) => Ok(items),
            ArrayValue::Missing => Err(Problem::Missing),
            ArrayValue::Null => Err(Problem::Null),
            ArrayValue::Other => Err(Problem::NotAList),
            ArrayValue::TooLong => Err(Problem::TooManyItems(max_items)),
        }
    }
}
