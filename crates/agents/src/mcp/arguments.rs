//! The arguments of a tool: their names and schemas, and what of a call of this API they become.

use kit::refusal::Refusal;
use resource::{JsonBody, JsonValue, message};
use serde_json::Value as Json;
use std::cell::{Cell, RefCell};

/// The name of an argument, with its description for the model and its schema.
#[derive(Clone, Copy)]
pub struct ArgumentName {
    pub name: &'static str,
    description: &'static str,
    schema: fn() -> Json,
}

impl ArgumentName {
    pub const fn new(name: &'static str, description: &'static str, schema: fn() -> Json) -> ArgumentName {
        ArgumentName { name, description, schema }
    }

    /// Its schema with its description.
    pub fn schema(&self) -> Json {
        let mut schema = (self.schema)();
        schema["description"] = self.description.into();
        schema
    }
}

/// The longest name that a refusal repeats, in characters.
const MAX_NAMED: usize = 100;
/// How many filters are read at most. Lists take fewer.
const MAX_FILTERS: usize = 1_000;
/// Parameters of lists that are no filters.
const NO_FILTERS: [&str; 5] = ["limit", "offset", "ordering", "search", "fields"];

/// What was sent to a tool: each argument as its text, since a tree of values takes up to a hundred times as much
/// (`docs/decisions/0009-bodies-are-kept-as-text.md`).
#[derive(Default)]
pub struct Arguments {
    sent: Vec<(&'static str, JsonBody)>,
    /// The first name that the tool does not take.
    unknown: Option<String>,
}

impl Arguments {
    /// The arguments that were sent to a tool that takes these; `None` when it is no object. Of one that was sent twice the last
    /// counts.
    pub fn parse(sent: JsonValue<'_>, known: &'static [ArgumentName]) -> Option<Arguments> {
        let unknown = RefCell::new(None);
        let is_known = |name: &str| {
            let is_known = known.iter().any(|known| known.name == name);
            if !is_known {
                unknown.borrow_mut().get_or_insert_with(|| name.chars().take(MAX_NAMED).collect());
            }
            is_known
        };
        let object = sent.as_object(is_known)?;
        let sent = object.iter().filter_map(|(name, value)| {
            let known = known.iter().find(|known| known.name == name)?;
            Some((known.name, JsonBody::from_checked_text(value.text().to_owned())))
        });
        Some(Arguments { sent: sent.collect(), unknown: unknown.take() })
    }

    /// Refuses an argument that the tool does not take, since it may have been meant to narrow what the tool does.
    pub fn check(&self) -> Result<(), Refusal> {
        match &self.unknown {
            Some(unknown) => Err(Refusal::field(unknown, message::NO_FIELD)),
            None => Ok(()),
        }
    }

    /// All of them, as JSON.
    pub fn text(&self) -> String {
        object(self.sent.iter().map(|(name, value)| (*name, value.as_value().text())))
    }

    /// What was sent under a name, if it is not null.
    pub fn get(&self, name: &str) -> Option<JsonValue<'_>> {
        self.sent_as(name).filter(|value| !value.is_null())
    }

    fn sent_as(&self, name: &str) -> Option<JsonValue<'_>> {
        self.sent.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_value())
    }

    /// A required id.
    pub fn id(&self, name: &ArgumentName) -> Result<i64, Refusal> {
        let sent = self.get(name.name).ok_or_else(|| Refusal::field(name.name, message::REQUIRED))?;
        id(sent).filter(|id| *id > 0).ok_or_else(|| Refusal::field(name.name, message::INTEGER))
    }

    /// A body with these arguments, as far as they were sent.
    pub fn body(&self, names: &[ArgumentName]) -> JsonBody {
        let sent = names.iter().filter_map(|name| Some((name.name, self.sent_as(name.name)?.text())));
        JsonBody::from_checked_text(object(sent))
    }

    /// A query string with these arguments.
    pub fn query(&self, names: &[ArgumentName]) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for name in names {
            if let Some(value) = self.get(name.name) {
                query.append_pair(name.name, &text(value));
            }
        }
        query.finish()
    }

    /// The filters that were sent, each with its value as a parameter has it.
    pub fn filters(&self) -> Result<Vec<(String, String)>, Refusal> {
        let Some(sent) = self.get("filters") else { return Ok(Vec::new()) };
        let count = Cell::new(0);
        let is_read = |_: &str| {
            count.set(count.get() + 1);
            count.get() <= MAX_FILTERS
        };
        let wrong = || Refusal::field("filters", "Expected an object of `field__operator` and value.");
        let filters = sent.as_object(is_read).ok_or_else(wrong)?;
        if count.get() > MAX_FILTERS {
            return Err(Refusal::bad_request(message::too_many_filters(MAX_FILTERS)));
        }
        if let Some((name, _)) = filters.iter().find(|(name, _)| NO_FILTERS.contains(name)) {
            return Err(Refusal::field("filters", format!("`{name}` is an argument beside `filters`.")));
        }
        Ok(filters.iter().map(|(name, value)| (name.to_owned(), text(value))).collect())
    }
}

/// The text of an object with these members, whose names need no escapes.
pub fn object<'a>(members: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::from("{");
    for (name, value) in members {
        let comma = if text.len() > 1 { "," } else { "" };
        text.extend([comma, "\"", name, "\":", value]);
    }
    text.push('}');
    text
}

/// An id that was sent as a number or as a text.
pub fn id(sent: JsonValue<'_>) -> Option<i64> {
    sent.as_i64().or_else(|| sent.as_str()?.parse().ok())
}

/// A value as a parameter of a query string has it: arrays with commas between their items.
pub fn text(value: JsonValue<'_>) -> String {
    if let Some(text) = value.as_str() {
        return text.into_owned();
    }
    let mut items = Vec::new();
    match value.for_each_item(|item| items.push(text(item))) {
        Some(()) => items.join(","),
        None => value.compact(),
    }
}
