//! The schemas of SCIM's bodies in OpenAPI. SCIM describes its resources itself (`discovery.rs`).

use resource::openapi::{query, titled};
use serde_json::{Value as Json, json};

/// Returns the schema of a resource in an answer.
pub fn resource() -> Json {
    titled("ScimResource", json!({"type": "object", "additionalProperties": true}))
}

/// Returns the schema of the body of a write.
pub fn body() -> Json {
    titled("ScimBody", json!({"type": "object", "additionalProperties": true}))
}

/// Returns the schema of a list.
pub fn list() -> Json {
    let number = || json!({"type": "integer"});
    let fields = json!({
        "totalResults": number(), "startIndex": number(), "itemsPerPage": number(),
        "Resources": {"type": "array", "items": resource()},
    });
    titled("ScimList", json!({"type": "object", "properties": fields, "additionalProperties": true}))
}

/// Returns the parameters of a list.
pub fn list_parameters() -> Vec<Json> {
    let text = || json!({"type": "string"});
    vec![
        query("filter", "Comparisons with `eq`, joined by `and`", text()),
        query("startIndex", "The number of the first resource, from 1", json!({"type": "integer"})),
        query("count", "How many the page has at most, up to 200", json!({"type": "integer"})),
        query("attributes", "Comma-separated names: no other attributes are answered", text()),
        query("excludedAttributes", "Comma-separated names of attributes that are not answered", text()),
    ]
}
