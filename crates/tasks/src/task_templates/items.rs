//! Lists of small objects in the bodies of task templates: reminders, renewals, approval conditions.

use resource::accept::{Lookup, Mode};
use resource::{Accepted, Changes, Errors, Field, Object, Resource, Sent, Value, message, openapi, options};
use serde_json::{Value as Json, json};
use std::convert::Infallible;

/// The declaration of the items of a list.
pub fn item(title: &'static str, fields: impl IntoIterator<Item = Field>) -> Resource {
    Resource::new("", title, "", fields)
}

/// The schema of an object, in bodies as in answers.
pub fn schema_of(of: &Resource) -> Json {
    let mut schema = openapi::request(of, true);
    schema["title"] = of.title.as_ref().into();
    schema
}

/// The schema of a list of at most so many items.
pub fn list_schema(item: Json, most: usize) -> Json {
    json!({"type": "array", "maxItems": most, "items": item})
}

/// Adds to an entry of OPTIONS what the items of a list are.
pub fn describe_items(entry: &mut Json, item: &Resource, most: usize) {
    entry["validators"] = json!([{"name": "max_items", "value": most}]);
    entry["schema"] = options::details(item)["schema"].take();
}

/// Checks a list of at most `max` objects; what is wrong with one is told by its place, counted from 0.
pub fn accept_items(of: &Resource, name: &str, sent: Sent<'_>, max: usize, errors: &mut Errors) -> Vec<Changes> {
    let Some((items, count)) = sent.as_list(max) else {
        let wrong = if sent.is_null() { message::NULL.to_owned() } else { message::not_a_list(sent.type_name()) };
        errors.add(name, wrong);
        return Vec::new();
    };
    if count > max {
        errors.add(name, message::too_many(max));
        return Vec::new();
    }
    let (mut accepted, mut wrong) = (Vec::with_capacity(items.len()), Errors::new());
    for (place, item) in items.into_iter().enumerate() {
        let place = place.to_string();
        match item.as_object(|name| of.field(name).is_some()) {
            Some(item) => {
                let item = accept_fields(of, &item);
                wrong.nest(&place, item.errors);
                accepted.push(item.changes);
            }
            None => wrong.add(&place, message::not_an_object(item.type_name())),
        }
    }
    errors.nest(name, wrong);
    accepted
}

/// Checks an object whose fields need no look into the database.
pub fn accept_fields(of: &Resource, sent: &Object<'_>) -> Accepted {
    let Ok(accepted) = resource::accept(of, sent, Mode::Create, &mut Nothing);
    accepted
}

/// The answers for fields that are neither unique nor references.
struct Nothing;

impl Lookup for Nothing {
    type Error = Infallible;
    fn missing(&mut self, _: &Field, _: &[i64]) -> Result<Vec<i64>, Infallible> {
        Ok(Vec::new())
    }
    fn is_taken(&mut self, _: &Field, _: &Value) -> Result<bool, Infallible> {
        Ok(false)
    }
}
