//! Shares repeated parts of a document, as components.

use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, HashMap};

/// The names of shared answers, by status.
const ANSWERS: [(&str, &str); 14] = [
    ("304", "NotModified"),
    ("400", "BadRequest"),
    ("401", "Unauthorized"),
    ("403", "Forbidden"),
    ("404", "NotFound"),
    ("408", "RequestTimeout"),
    ("409", "Conflict"),
    ("412", "PreconditionFailed"),
    ("413", "ContentTooLarge"),
    ("415", "UnsupportedMediaType"),
    ("422", "UnprocessableContent"),
    ("429", "TooManyRequests"),
    ("500", "InternalServerError"),
    ("503", "ServiceUnavailable"),
];

/// Moves into `components` each schema with a title, under this name. Also moves each parameter,
/// refusal and 304 that several operations have.
pub fn share(document: &mut Json) {
    let mut schemas = Components::new("schemas");
    for operation in operations(document) {
        take_schemas(operation, &mut schemas);
    }
    let (mut answers, mut parameters) = (Components::new("responses"), Components::new("parameters"));
    let mut uses: HashMap<String, usize> = HashMap::new();
    for operation in operations(document) {
        for (_, item) in parts(operation) {
            *uses.entry(item.to_string()).or_default() += 1;
        }
    }
    for operation in operations(document) {
        for (status, item) in parts(operation) {
            if uses.get(&item.to_string()).is_none_or(|uses| *uses == 1) {
                continue;
            }
            match status {
                None => {
                    let text = |name| item[name].as_str().unwrap_or_default();
                    let name = format!("{}.{}", text("in"), text("name"));
                    parameters.replace_by_reference(&name, item);
                }
                Some(status) => {
                    if let Some((_, name)) = ANSWERS.iter().find(|(answer_status, _)| *answer_status == status) {
                        answers.replace_by_reference(name, item);
                    }
                }
            }
        }
    }
    for components in [parameters, answers, schemas] {
        document["components"][components.section] = Json::Object(Map::from_iter(components.by_name));
    }
}

fn operations(document: &mut Json) -> impl Iterator<Item = &mut Json> {
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    paths.flat_map(|(_, operations)| operations.as_object_mut().into_iter().flatten()).map(|(_, operation)| operation)
}

/// Returns the parameters of an operation, and its answers with their statuses.
fn parts(operation: &mut Json) -> impl Iterator<Item = (Option<String>, &mut Json)> {
    let (mut parameters, mut answers) = (None, None);
    for (name, member) in operation.as_object_mut().into_iter().flatten() {
        match name.as_str() {
            "parameters" => parameters = member.as_array_mut(),
            "responses" => answers = member.as_object_mut(),
            _ => {}
        }
    }
    let parameters = parameters.into_iter().flatten().map(|parameter| (None, parameter));
    parameters.chain(answers.into_iter().flatten().map(|(status, answer)| (Some(status.clone()), answer)))
}

/// Moves each schema with a title out of this part of the document, the inner ones first.
fn take_schemas(described: &mut Json, schemas: &mut Components) {
    match described {
        Json::Array(items) => items.iter_mut().for_each(|item| take_schemas(item, schemas)),
        Json::Object(members) => {
            // The members of these names are values, not schemas.
            let inner = members.iter_mut().filter(|(name, _)| !matches!(name.as_str(), "examples" | "enum"));
            inner.for_each(|(_, member)| take_schemas(member, schemas));
            // A property with the name `title` has a schema there, not a text.
            if let Some(Json::String(name)) = members.get("title").cloned() {
                members.shift_remove("title");
                let is_taken = schemas.replace_by_reference(&name, described);
                debug_assert!(is_taken, "two schemas are called {name}");
            }
        }
        _ => {}
    }
}

/// A section of `components`.
struct Components {
    section: &'static str,
    by_name: BTreeMap<String, Json>,
}

impl Components {
    fn new(section: &'static str) -> Components {
        Components { section, by_name: BTreeMap::new() }
    }

    /// Replaces an item by a reference to its component. Returns `false` if another component has the name.
    fn replace_by_reference(&mut self, name: &str, item: &mut Json) -> bool {
        let is_free = self.by_name.get(name).is_none_or(|stored_item| stored_item == item);
        if is_free {
            let reference = json!({"$ref": format!("#/components/{}/{name}", self.section)});
            self.by_name.insert(name.to_owned(), std::mem::replace(item, reference));
        }
        is_free
    }
}
