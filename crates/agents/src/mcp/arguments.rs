//! The arguments of a tool: their names and schemas, and what of a call of this API they become.

use kit::refusal::Refusal;
use resource::message;
use serde_json::{Map, Value as Json};

/// The name of an argument, with its description for the model and its schema.
#[derive(Clone, Copy)]
pub struct Name {
    pub name: &'static str,
    description: &'static str,
    schema: fn() -> Json,
}

impl Name {
    pub const fn new(name: &'static str, description: &'static str, schema: fn() -> Json) -> Name {
        Name { name, description, schema }
    }

    /// Its schema with its description.
    pub fn schema(&self) -> Json {
        let mut schema = (self.schema)();
        schema["description"] = self.description.into();
        schema
    }
}

/// What was sent to a tool.
pub struct Arguments(Map<String, Json>);

impl Arguments {
    /// The arguments; refuses one that the tool does not take, since it may have been meant to narrow what the tool does.
    pub fn of(sent: Map<String, Json>, known: &[Name]) -> Result<Arguments, Refusal> {
        match sent.keys().find(|sent| known.iter().all(|known| known.name != *sent)) {
            Some(unknown) => Err(Refusal::field(unknown, message::NO_FIELD)),
            None => Ok(Arguments(sent)),
        }
    }

    /// All that was sent, as JSON.
    pub fn text(&self) -> String {
        Json::Object(self.0.clone()).to_string()
    }

    /// What was sent under a name, if it is not null.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// A required id.
    pub fn id(&self, name: &Name) -> Result<i64, Refusal> {
        let sent = self.get(name.name).ok_or_else(|| Refusal::field(name.name, message::REQUIRED))?;
        id(sent).filter(|id| *id > 0).ok_or_else(|| Refusal::field(name.name, message::INTEGER))
    }

    /// A body with these arguments, as far as they were sent.
    pub fn body(&self, names: &[Name]) -> Json {
        let sent = |name: &Name| Some((name.name.to_owned(), self.0.get(name.name)?.clone()));
        Json::Object(names.iter().filter_map(sent).collect())
    }

    /// A query string with these arguments.
    pub fn query(&self, names: &[Name]) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for name in names {
            if let Some(value) = self.get(name.name) {
                query.append_pair(name.name, &text(value));
            }
        }
        query.finish()
    }
}

/// An id that was sent as a number or as a text.
pub fn id(sent: &Json) -> Option<i64> {
    sent.as_i64().or_else(|| sent.as_str()?.parse().ok())
}

/// A value as a parameter of a query string has it: arrays with commas between their items.
pub fn text(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}
