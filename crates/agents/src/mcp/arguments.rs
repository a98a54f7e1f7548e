//! The arguments of a tool: their names and schemas, and the parameters, filters and bodies of API calls that they become.

use kit::refusal::Refusal;
use resource::{JsonBody, JsonValue, message};
use serde_json::Value as Json;
use std::cell::{Cell, RefCell};

/// The declaration of an argument: its name, its description for the model, and its schema.
#[derive(Clone, Copy)]
pub struct ArgumentName {
    pub name: &'static str,
    /// Is true if the input schema requires the argument.
    pub is_required: bool,
    description: &'static str,
    schema: fn() -> Json,
}

impl ArgumentName {
    pub const fn new(name: &'static str, description: &'static str, schema: fn() -> Json) -> ArgumentName {
        ArgumentName { name, is_required: false, description, schema }
    }

    /// The same argument, which the input schema requires.
    pub const fn required(self) -> ArgumentName {
        ArgumentName { is_required: true, ..self }
    }

    /// The schema of the argument, with its description.
    pub fn schema(&self) -> Json {
        let mut schema = (self.schema)();
        schema["description"] = self.description.into();
        schema
    }
}

/// A filter of a list, as a parameter of a query string.
pub struct ListFilter {
    pub name: String,
    pub value: String,
}

/// The maximum length of a name that a refusal repeats, in characters.
const MAX_NAMED: usize = 100;
/// The maximum number of filters that are read. Lists accept fewer.
const MAX_FILTERS: usize = 1_000;
/// The parameters of lists that are not filters.
const NO_FILTERS: [&str; 5] = ["limit", "offset", "ordering", "search", "fields"];

/// The arguments of a call. Each one is stored as text, since a tree of values takes up to a hundred times as much memory
/// (`docs/decisions/0009-bodies-are-kept-as-text.md`).
#[derive(Default)]
pub struct Arguments {
    values: Vec<ArgumentValue>,
    /// The first name that the tool does not declare.
    unknown: Option<String>,
}

/// An argument of a call.
struct ArgumentValue {
    name: &'static str,
    body: JsonBody,
}

impl Arguments {
    /// Reads the arguments of a call of a tool that declares `declared`. `None`: the value is not an object. The last one of
    /// several members with the same name counts.
    pub fn parse(value: JsonValue<'_>, declared: &'static [ArgumentName]) -> Option<Arguments> {
        let unknown = RefCell::new(None);
        let is_declared = |name: &str| {
            let is_declared = declared.iter().any(|argument| argument.name == name);
            if !is_declared {
                unknown.borrow_mut().get_or_insert_with(|| name.chars().take(MAX_NAMED).collect());
            }
            is_declared
        };
        let object = value.as_object(is_declared)?;
        let values = object.iter().filter_map(|(name, value)| {
            let argument = declared.iter().find(|argument| argument.name == name)?;
            Some(ArgumentValue { name: argument.name, body: JsonBody::from_checked_text(value.text().to_owned()) })
        });
        Some(Arguments { values: values.collect(), unknown: unknown.take() })
    }

    /// Refuses an argument that the tool does not declare, since it may have been meant to restrict the call.
    pub fn check(&self) -> Result<(), Refusal> {
        match &self.unknown {
            Some(unknown) => Err(Refusal::field(unknown, message::NO_FIELD)),
            None => Ok(()),
        }
    }

    /// The arguments as the text of a JSON object.
    pub fn text(&self) -> String {
        object(self.values.iter().map(|argument| JsonMember::new(argument.name, argument.body.as_value().text())))
    }

    /// The value of an argument; `None`: it is missing or null.
    pub fn get(&self, name: &str) -> Option<JsonValue<'_>> {
        self.get_or_null(name).filter(|value| !value.is_null())
    }

    fn get_or_null(&self, name: &str) -> Option<JsonValue<'_>> {
        self.values.iter().find(|argument| argument.name == name).map(|argument| argument.body.as_value())
    }

    /// Reads a required id, which is greater than 0.
    pub fn id(&self, argument: &ArgumentName) -> Result<i64, Refusal> {
        let value = self.get(argument.name).ok_or_else(|| Refusal::field(argument.name, message::REQUIRED))?;
        id(value).filter(|id| *id > 0).ok_or_else(|| Refusal::field(argument.name, message::INTEGER))
    }

    /// A body with the values of these arguments. Missing arguments are omitted.
    pub fn body(&self, names: &[ArgumentName]) -> JsonBody {
        let members = names
            .iter()
            .filter_map(|argument| Some(JsonMember::new(argument.name, self.get_or_null(argument.name)?.text())));
        JsonBody::from_checked_text(object(members))
    }

    /// A query string with the values of these arguments. Missing arguments are omitted.
    pub fn query(&self, names: &[ArgumentName]) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for argument in names {
            if let Some(value) = self.get(argument.name) {
                query.append_pair(argument.name, &text(value));
            }
        }
        query.finish()
    }

    /// Reads the filters of the argument `filters`.
    pub fn filters(&self) -> Result<Vec<ListFilter>, Refusal> {
        let Some(value) = self.get("filters") else { return Ok(Vec::new()) };
        let count = Cell::new(0);
        let is_read = |_: &str| {
            count.set(count.get() + 1);
            count.get() <= MAX_FILTERS
        };
        let no_object = || Refusal::field("filters", "Expected an object of `field__operator` and value.");
        let filters = value.as_object(is_read).ok_or_else(no_object)?;
        if count.get() > MAX_FILTERS {
            return Err(Refusal::bad_request(message::too_many_filters(MAX_FILTERS)));
        }
        if let Some((name, _)) = filters.iter().find(|(name, _)| NO_FILTERS.contains(name)) {
            return Err(Refusal::field("filters", format!("`{name}` is an argument beside `filters`.")));
        }
        Ok(filters.iter().map(|(name, value)| ListFilter { name: name.to_owned(), value: text(value) }).collect())
    }
}

/// A member of an object: its name, which needs no escapes, and its value as JSON.
#[derive(Clone, Copy)]
pub struct JsonMember<'a> {
    pub name: &'a str,
    pub json: &'a str,
}

impl<'a> JsonMember<'a> {
    pub fn new(name: &'a str, json: &'a str) -> JsonMember<'a> {
        JsonMember { name, json }
    }
}

/// The text of an object with these members.
pub fn object<'a>(members: impl Iterator<Item = JsonMember<'a>>) -> String {
    let mut text = String::from("{");
    for JsonMember { name, json } in members {
        let comma = if text.len() > 1 { "," } else { "" };
        text.extend([comma, "\"", name, "\":", json]);
    }
    text.push('}');
    text
}

/// Reads an id from a number or a text.
pub fn id(value: JsonValue<'_>) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

/// A value as a parameter of a query string: the items of an array are separated by commas.
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
