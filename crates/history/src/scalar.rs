//! Fields of a JSON object as they come, so that everything that is wrong with a request can be told at once: serde
//! would stop at the first. Texts are borrowed from the body where they hold no escapes.

use crate::event::{EARLIEST, LATEST};
use crate::reply::Problem;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use uuid::Uuid;

/// What a visitor answers to a value that is neither null nor holds others.
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

/// Declares the fields of an object: each with its name, what it is read as, its schema in the OpenAPI document, and how
/// it is read, unless like any value.
macro_rules! fields {
    ($(#[$about:meta])* $object:ident {
        $($name:literal => $field:ident: $kind:ty = $schema:expr $(, $entries:ident => $read:expr)?;)*
    }) => {
        $(#[$about])*
        #[derive(Default)]
        struct $object<'a> {
            $($field: $kind,)*
        }

        impl<'de: 'a, 'a> $crate::scalar::Fields<'de> for $object<'a> {
            fn take<A: serde::de::MapAccess<'de>>(&mut self, name: &str, entries: &mut A) -> Result<(), A::Error> {
                match name {
                    $($name => self.$field = $crate::scalar::fields!(@read entries $(, $entries => $read)?),)*
                    _ => drop(entries.next_value::<serde::de::IgnoredAny>()?),
                }
                Ok(())
            }
        }

        impl $object<'_> {
            fn schema() -> serde_json::Value {
                $crate::openapi::object([$(($name, $schema)),*])
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

/// A value of a field, as far as this service cares.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Scalar<'a> {
    /// The field was not sent.
    #[default]
    Missing,
    /// `null`
    Null,
    /// A string.
    Text(Cow<'a, str>),
    /// A whole number of 64 bits.
    Int(i64),
    /// Anything else.
    Other,
}

impl<'a> Scalar<'a> {
    /// A string.
    pub fn text(self) -> Result<Cow<'a, str>, Problem> {
        match self {
            Scalar::Text(text) => Ok(text),
            other => Err(other.wrong(Problem::NotAString)),
        }
    }

    /// A string, owned.
    pub fn string(self) -> Result<String, Problem> {
        self.text().map(Cow::into_owned)
    }

    /// A string, or what it is when it was not sent.
    pub fn string_or_empty(self) -> Result<String, Problem> {
        if self == Scalar::Missing { Ok(String::new()) } else { self.string() }
    }

    /// A whole number.
    pub fn int(self) -> Result<i64, Problem> {
        match self {
            Scalar::Int(number) => Ok(number),
            other => Err(other.wrong(Problem::NotAnInteger)),
        }
    }

    /// A whole number, or 0 when it was not sent.
    pub fn int_or_zero(self) -> Result<i64, Problem> {
        if self == Scalar::Missing { Ok(0) } else { self.int() }
    }

    /// A number from 1 to `last`.
    pub fn member(self, last: usize) -> Result<u8, Problem> {
        match self {
            Scalar::Int(number) if number >= 1 => {
                u8::try_from(number).ok().filter(|number| usize::from(*number) <= last).ok_or(Problem::NotAMember)
            }
            other => Err(other.wrong(Problem::NotAMember)),
        }
    }

    /// A number from 1 to `last`, or 0 when it was not sent or is 0.
    pub fn member_or_zero(self, last: usize) -> Result<u8, Problem> {
        if matches!(self, Scalar::Missing | Scalar::Int(0)) { Ok(0) } else { self.member(last) }
    }

    /// A UUID.
    pub fn uuid(self) -> Result<Uuid, Problem> {
        match self {
            Scalar::Text(text) => Uuid::try_parse(&text).map_err(|_| Problem::NotAUuid),
            other => Err(other.wrong(Problem::NotAUuid)),
        }
    }

    /// A moment of the years 1900 to 2299, in microseconds since 1970.
    pub fn moment(self) -> Result<i64, Problem> {
        match self {
            Scalar::Text(text) => moment(&text).ok_or(Problem::NotAMoment),
            other => Err(other.wrong(Problem::NotAMoment)),
        }
    }

    fn wrong(&self, otherwise: Problem) -> Problem {
        match self {
            Scalar::Missing => Problem::Missing,
            Scalar::Null => Problem::Null,
            _ => otherwise,
        }
    }
}

/// A moment of the years 1900 to 2299 (document 4, section 6, row "ranges").
pub fn moment(text: &str) -> Option<i64> {
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

/// An object, of which some fields are wanted; `None` where there is anything else. The same field twice: the last
/// counts.
pub struct Object<T>(pub Option<T>);

/// What fills itself from the fields of an object.
pub trait Fields<'de>: Sized {
    /// Takes the value of a field, or skips it with [`IgnoredAny`].
    fn take<A: MapAccess<'de>>(&mut self, name: &str, entries: &mut A) -> Result<(), A::Error>;
}

impl<'de, T: Fields<'de> + Default> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        Reading(T::default()).deserialize(deserializer)
    }
}

/// Reads an object into fields that are there already.
pub struct Reading<T>(pub T);

impl<'de, T: Fields<'de>> DeserializeSeed<'de> for Reading<T> {
    type Value = Object<T>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Object<T>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Fields<'de>> Visitor<'de> for Reading<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Object<T>, A::Error> {
        let mut fields = self.0;
        while let Some(name) = entries.next_key::<Name<'_>>()? {
            fields.take(&name.0, &mut entries)?;
        }
        Ok(Object(Some(fields)))
    }
    fn visit_unit<E>(self) -> Result<Object<T>, E> {
        Ok(Object(None))
    }
    any_plain_value!(Object<T>, Object(None));
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Object<T>, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Object(None))
    }
}

/// A field's name.
struct Name<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name<'a>, D::Error> {
        match deserializer.deserialize_str(ScalarVisitor)? {
            Scalar::Text(text) => Ok(Name(text)),
            _ => Ok(Name(Cow::Borrowed(""))),
        }
    }
}

/// What came where an array belongs.
#[derive(Debug, Default, PartialEq)]
pub enum List<T> {
    /// The field was not sent.
    #[default]
    Missing,
    /// `null`
    Null,
    /// Anything else that is no array.
    Other,
    /// An array.
    Items(Vec<T>),
    /// An array of more items than are taken.
    Over,
}

/// Reads an array of at most so many items; of a longer one the rest is only skipped, since a body full of tiny items
/// would grow a hundredfold in memory.
pub struct AtMost<T>(pub usize, PhantomData<T>);

impl<T> AtMost<T> {
    /// At most `most` items.
    pub fn new(most: usize) -> AtMost<T> {
        AtMost(most, PhantomData)
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for AtMost<T> {
    type Value = List<T>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<List<T>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for AtMost<T> {
    type Value = List<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<List<T>, A::Error> {
        let mut items = Vec::new();
        while items.len() < self.0 {
            match sequence.next_element()? {
                Some(item) => items.push(item),
                None => return Ok(List::Items(items)),
            }
        }
        if sequence.next_element::<IgnoredAny>()?.is_none() {
            return Ok(List::Items(items));
        }
        drop(items);
        while sequence.next_element::<IgnoredAny>()?.is_some() {}
        Ok(List::Over)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<List<T>, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(List::Other)
    }
    fn visit_unit<E>(self) -> Result<List<T>, E> {
        Ok(List::Null)
    }
    any_plain_value!(List<T>, List::Other);
}

/// An array of strings that are JSON texts each, as the array of their values.
#[derive(Debug, Default)]
pub struct Texts {
    /// The array, as JSON.
    pub array: String,
    /// Items that are wrong, the first ones.
    pub wrong: Vec<(usize, Problem)>,
}

/// Reads an array into [`Texts`], without holding the items.
pub struct JsonTexts;

/// Wrong items that are told.
const WRONG: usize = 1000;

impl<'de> DeserializeSeed<'de> for JsonTexts {
    type Value = List<Texts>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<List<Texts>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonTexts {
    type Value = List<Texts>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<List<Texts>, A::Error> {
        let mut texts = Texts { array: "[".to_owned(), wrong: Vec::new() };
        let mut at = 0;
        while let Some(item) = sequence.next_element::<Scalar<'_>>()? {
            match item.text() {
                Ok(text) if is_json(&text) => {
                    texts.array.push_str(if at == 0 { "" } else { "," });
                    texts.array.push_str(text.trim());
                }
                wrong if texts.wrong.len() < WRONG => texts.wrong.push((at, wrong.err().unwrap_or(Problem::NotJson))),
                _ => {}
            }
            at += 1;
        }
        texts.array.push(']');
        Ok(List::Items(vec![texts]))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<List<Texts>, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(List::Other)
    }
    fn visit_unit<E>(self) -> Result<List<Texts>, E> {
        Ok(List::Null)
    }
    any_plain_value!(List<Texts>, List::Other);
}

/// Whether a text is JSON that every reader of a list can read: not too deep, with real characters and finite numbers.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<Readable>(text).is_ok()
}

/// Any value, looked at and not kept. Unlike [`IgnoredAny`] it minds the depth and what strings and numbers stand for.
struct Readable;

impl<'de> Deserialize<'de> for Readable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Readable, D::Error> {
        deserializer.deserialize_any(ReadableVisitor)
    }
}

struct ReadableVisitor;

impl<'de> Visitor<'de> for ReadableVisitor {
    type Value = Readable;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E>(self) -> Result<Readable, E> {
        Ok(Readable)
    }
    any_plain_value!(Readable, Readable);
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Readable, A::Error> {
        while items.next_element::<Readable>()?.is_some() {}
        Ok(Readable)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Readable, A::Error> {
        while entries.next_entry::<Readable, Readable>()?.is_some() {}
        Ok(Readable)
    }
}

impl<T> List<T> {
    /// The items, or what is wrong with them.
    pub fn items(self, most: usize) -> Result<Vec<T>, Problem> {
        match self {
            List::Items(items) => Ok(items),
            List::Missing => Err(Problem::Missing),
            List::Null => Err(Problem::Null),
            List::Other => Err(Problem::NotAList),
            List::Over => Err(Problem::TooManyItems(most)),
        }
    }
}
