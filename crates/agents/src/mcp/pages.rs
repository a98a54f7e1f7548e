//! Pages of lists in the form for agents: short, with a cursor, and with items that omit some members of their instances.

use super::arguments::Arguments;
use bytes::Bytes;
use kit::listed::{ListCounts, ListedItems};
use kit::refusal::Refusal;
use resource::json::JsonWriter;
use resource::{JsonValue, message};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use store::StoreError;

/// The maximum length of a tool's answer, in bytes: a model cannot use more.
pub const MAX_ANSWER: usize = 1024 * 1024;
/// The default number of results of a page.
const USUAL_LIMIT: i64 = 10;
/// The maximum number of results of a page.
const MAX_LIMIT: i64 = 100;

/// The page of results that a call requests.
#[derive(Clone, Copy)]
pub struct ToolPage {
    pub limit: i64,
    pub offset: i64,
}

impl ToolPage {
    pub fn from_arguments(arguments: &Arguments) -> Result<ToolPage, Refusal> {
        let limit = arguments.get("limit").map_or(Some(USUAL_LIMIT), JsonValue::as_i64);
        let limit = limit.filter(|limit| (1..=MAX_LIMIT).contains(limit));
        let offset = arguments.get("cursor").map_or(Some(0), |cursor| cursor.as_str()?.parse().ok());
        let offset = offset.filter(|offset| *offset >= 0);
        let limit =
            limit.ok_or_else(|| Refusal::field("limit", format!("Ensure this value is from 1 to {MAX_LIMIT}.")))?;
        let offset = offset.ok_or_else(|| Refusal::field("cursor", message::VALUE))?;
        Ok(ToolPage { limit, offset })
    }

    /// The answer with these results, each as JSON. Results that do not fit are left for the page of the cursor.
    pub fn answer(&self, results: &[String], counts: ListCounts) -> Result<Bytes, Refusal> {
        let mut room = MAX_ANSWER;
        let has_room = |result: &&String| {
            let room_left = room.checked_sub(result.len() + 1);
            room = room_left.unwrap_or(0);
            room_left.is_some()
        };
        let mut json = JsonWriter::default();
        json.raw("{").name("results").raw("[");
        let mut count = 0;
        for result in results.iter().take_while(has_room) {
            json.comma().raw(result);
            count += 1;
        }
        if count == 0 && !results.is_empty() {
            return Err(too_long());
        }
        json.raw("]").name("total_count").int(counts.total).name("filtered_count").int(counts.filtered);
        let end = self.offset + count;
        let next_cursor = (end < counts.filtered && count > 0).then(|| end.to_string());
        json.name("next_cursor").opt_text(next_cursor.as_deref()).raw("}");
        Ok(json.into_bytes().into())
    }

    /// The answer with the items of a list of the API.
    pub fn page_from_list(&self, list: &ApiList) -> Result<Bytes, Refusal> {
        // Only the members of the items are split again, and their values are copied.
        let (mut results, mut bytes) = (Vec::new(), 0);
        let mut items = list.items().peekable();
        let is_empty = items.peek().is_none();
        for item in items {
            bytes += item.len();
            if bytes > MAX_ANSWER {
                break;
            }
            let item = serde_json::from_slice(item).map_err(invalid_answer_refusal)?;
            results.push(shorten_item(item).map_err(invalid_answer_refusal)?);
        }
        if results.is_empty() && !is_empty {
            return Err(too_long());
        }
        self.answer(&results, list.listed.counts)
    }
}

/// The refusal where an answer of the API is not JSON.
pub fn invalid_answer_refusal(error: serde_json::Error) -> Refusal {
    StoreError::internal(format_args!("an answer is no JSON: {error}")).into()
}

/// The refusal of an answer above [`MAX_ANSWER`].
pub fn too_long() -> Refusal {
    Refusal::bad_request("The answer is longer than 1 MiB. Name the few `fields` that you need.")
}

/// A list of the API. Its items stay text.
pub struct ApiList {
    pub listed: Box<ListedItems>,
    pub body: Bytes,
}

impl ApiList {
    /// Returns the items, each as JSON.
    pub fn items(&self) -> impl Iterator<Item = &[u8]> {
        self.listed.items(&self.body)
    }
}

/// The members of an object, in the order of its text.
struct ObjectMembers<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for ObjectMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMembers<'a>, D::Error> {
        struct MemberVisitor;
        impl<'de> Visitor<'de> for MemberVisitor {
            type Value = ObjectMembers<'de>;
            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<ObjectMembers<'de>, M::Error> {
                let mut members = Vec::with_capacity(16);
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(ObjectMembers(members))
            }
        }
        deserializer.deserialize_map(MemberVisitor)
    }
}

/// An item of a list without its creator, the time and the user of its last change, and `_meta.permissions`.
pub fn shorten_item(item: &RawValue) -> Result<String, serde_json::Error> {
    without_members(item, &["created_by", "modified_at", "modified_by"], |name, value| match name {
        "_meta" => without_members(value, &["permissions"], |_, value| Ok(value.get().to_owned())),
        _ => Ok(value.get().to_owned()),
    })
}

/// An object without the members `names`. The function `to_json` returns the JSON of every other member.
fn without_members(
    object: &RawValue,
    names: &[&str],
    to_json: impl Fn(&str, &RawValue) -> Result<String, serde_json::Error>,
) -> Result<String, serde_json::Error> {
    let ObjectMembers(members) = serde_json::from_str(object.get())?;
    let mut text = String::with_capacity(object.get().len());
    for (name, value) in members.iter().filter(|(name, _)| !names.contains(&name.as_ref())) {
        text.push(if text.is_empty() { '{' } else { ',' });
        text.push_str(&serde_json::to_string(name)?);
        text.push(':');
        text.push_str(&to_json(name, value)?);
    }
    text.push_str(if text.is_empty() { "{}" } else { "}" });
    Ok(text)
}
