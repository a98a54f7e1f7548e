//! Pages of lists as agents get them: small, with a cursor, and items without what their instances tell.

use super::arguments::Arguments;
use kit::refusal::Refusal;
use resource::{JsonValue, message};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::json;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use store::StoreError;

/// The longest answer of a tool, in bytes: a model has no use for more.
pub const MAX_ANSWER: usize = 1024 * 1024;
/// How many results a list has, unless told, and at most.
const USUAL_LIMIT: i64 = 10;
const MAX_LIMIT: i64 = 100;

/// A page of results that is asked for.
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

    /// The answer with these results, each as JSON: as many of them as fit into an answer, behind which the cursor goes on.
    pub fn answer(&self, results: &[String], total: i64, filtered: i64) -> Result<String, Refusal> {
        let mut room = MAX_ANSWER;
        let has_room = |result: &&String| {
            let left = room.checked_sub(result.len() + 1);
            room = left.unwrap_or(0);
            left.is_some()
        };
        let shown: Vec<&str> = results.iter().take_while(has_room).map(String::as_str).collect();
        if shown.is_empty() && !results.is_empty() {
            return Err(too_long());
        }
        let end = self.offset + shown.len() as i64;
        let next = (end < filtered && !shown.is_empty()).then(|| end.to_string());
        let (results, next) = (shown.join(","), json!(next));
        Ok(format!(
            r#"{{"results":[{results}],"total_count":{total},"filtered_count":{filtered},"next_cursor":{next}}}"#
        ))
    }

    /// The answer with what a list of the API holds.
    pub fn page_from_list(&self, list: &[u8]) -> Result<String, Refusal> {
        let listed: ApiList<'_> = serde_json::from_slice(list).map_err(invalid_answer_refusal)?;
        let (mut results, mut bytes) = (Vec::new(), 0);
        for item in &listed.results {
            bytes += item.get().len();
            if bytes > MAX_ANSWER {
                break;
            }
            results.push(shorten_item(item).map_err(invalid_answer_refusal)?);
        }
        if results.is_empty() && !listed.results.is_empty() {
            return Err(too_long());
        }
        self.answer(&results, listed.total_count, listed.filtered_count)
    }
}

/// What is told where an answer of the API is no JSON.
pub fn invalid_answer_refusal(error: serde_json::Error) -> Refusal {
    StoreError::Db(format!("an answer is no JSON: {error}")).into()
}

/// The refusal of what is longer than an answer may be.
pub fn too_long() -> Refusal {
    Refusal::bad_request("The answer is longer than 1 MiB. Name the few `fields` that you need.")
}

/// A list of the API, whose items are taken as they are.
#[derive(Deserialize)]
struct ApiList<'a> {
    total_count: i64,
    filtered_count: i64,
    #[serde(borrow)]
    results: Vec<&'a RawValue>,
}

/// The members of an object, in their order.
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

/// An item of a list without what its instance tells when it is asked for.
pub fn shorten_item(item: &RawValue) -> Result<String, serde_json::Error> {
    without_members(item, &["created_by", "modified_at", "modified_by"], |name, value| match name {
        "_meta" => without_members(value, &["permissions"], |_, value| Ok(value.get().to_owned())),
        _ => Ok(value.get().to_owned()),
    })
}

/// An object without the members of these names, the others as they are `shown`.
fn without_members(
    object: &RawValue,
    names: &[&str],
    shown: impl Fn(&str, &RawValue) -> Result<String, serde_json::Error>,
) -> Result<String, serde_json::Error> {
    let ObjectMembers(members) = serde_json::from_str(object.get())?;
    let mut text = String::with_capacity(object.get().len());
    for (name, value) in members.iter().filter(|(name, _)| !names.contains(&name.as_ref())) {
        text.push(if text.is_empty() { '{' } else { ',' });
        text.push_str(&serde_json::to_string(name)?);
        text.push(':');
        text.push_str(&shown(name, value)?);
    }
    text.push_str(if text.is_empty() { "{}" } else { "}" });
    Ok(text)
}
