//! Lists of small objects in bodies: their schemas, their checks and their output.

use crate::accept::{CheckedBody, DatabaseChecks, WriteMode, accept};
use crate::{Changes, CheckedValue, Errors, Field, JsonValue, Resource, SentObject, message, openapi, options};
use serde_json::{Map, Value as Json, json};
use std::convert::Infallible;

/// Returns the declaration of the items of a list.
pub fn item(title: &'static str, fields: impl IntoIterator<Item = Field>) -> Resource {
    Resource::new("", title, "", fields)
}

/// Returns the schema of an object, in bodies and in answers.
pub fn schema_of(resource: &Resource) -> Json {
    let mut schema = openapi::request(resource, true);
    schema["title"] = resource.title.as_ref().into();
    schema
}

/// Returns the schema of a list of at most `most` items.
pub fn list_schema(item: Json, most: usize) -> Json {
    json!({"type": "array", "maxItems": most, "items": item})
}

/// Adds the schema of a list's items to an entry of OPTIONS.
pub fn describe_items(entry: &mut Json, item: &Resource, most: usize) {
    entry["validators"] = json!([{"name": "max_items", "value": most}]);
    entry["schema"] = options::details(item)["schema"].take();
}

/// Checks a list of at most `max` objects, each by `check`. The errors of an object are reported under its place, counted from 0.
pub fn accept_items(
    resource: &Resource,
    name: &str,
    value: JsonValue<'_>,
    max: usize,
    errors: &mut Errors,
    check: fn(&Resource, &SentObject<'_>) -> CheckedBody,
) -> Vec<Changes> {
    let items = match value.items(max) {
        Ok(items) => items,
        Err(wrong) => {
            errors.add(name, wrong);
            return Vec::new();
        }
    };
    let (mut accepted, mut wrong) = (Vec::with_capacity(items.len()), Errors::new());
    for (place, item) in items.into_iter().enumerate() {
        let place = place.to_string();
        match item.as_object(|name| resource.field(name).is_some()) {
            Some(item) => {
                let item = check(resource, &item);
                wrong.nest(&place, item.errors);
                accepted.push(item.changes);
            }
            None => wrong.add(&place, message::not_an_object(item.type_name())),
        }
    }
    errors.nest(name, wrong);
    accepted
}

/// Checks an object whose fields do not need the database.
pub fn accept_fields(resource: &Resource, body: &SentObject<'_>) -> CheckedBody {
    let Ok(accepted) = accept(resource, body, WriteMode::Create, &mut NoLookup);
    accepted
}

/// Returns an object with all of its fields, null for those that were not sent.
pub fn object_json(resource: &Resource, values: &Changes) -> Json {
    let shown = |field: &Field| values.value(&field.name).map_or(Json::Null, CheckedValue::to_json);
    resource.fields.iter().map(|field| (field.name.to_string(), shown(field))).collect::<Map<_, _>>().into()
}

/// The checks for fields that are neither unique nor references.
struct NoLookup;

impl DatabaseChecks for NoLookup {
    type Error = Infallible;
    fn missing_ids(&mut self, _: &Field, _: &[i64]) -> Result<Vec<i64>, Infallible> {
        Ok(Vec::new())
    }
    fn is_taken(&mut self, _: &Field, _: &CheckedValue) -> Result<bool, Infallible> {
        Ok(false)
    }
}
