//! The parts of JSON Schema by which endpoints describe their bodies and answers.

use serde_json::{Map, Value as Json, json};

/// The schema of a field, and whether the field is required.
pub type SchemaField = (bool, Json);

pub fn required(schema: Json) -> SchemaField {
    (true, schema)
}

pub fn optional(schema: Json) -> SchemaField {
    (false, schema)
}

pub fn object<const N: usize>(fields: [(&str, SchemaField); N]) -> Json {
    let required: Vec<&str> =
        fields.iter().filter(|(_, (is_required, _))| *is_required).map(|(name, _)| *name).collect();
    let properties: Map<String, Json> =
        fields.iter().map(|(name, (_, schema))| ((*name).to_owned(), schema.clone())).collect();
    json!({"type": "object", "required": required, "properties": properties})
}

pub fn text() -> Json {
    json!({"type": "string"})
}

/// A whole number of 64 bits.
pub fn int() -> Json {
    json!({"type": "integer", "minimum": i64::MIN, "maximum": i64::MAX})
}

pub fn uuid() -> Json {
    json!({"type": "string", "format": "uuid"})
}

/// A date and time that the service accepts.
pub fn datetime_schema() -> Json {
    json!({"type": "string", "format": "date-time", "description": "From 1900 to 2299"})
}

/// One of these names.
pub fn one_of(names: &[&str]) -> Json {
    json!({"type": "string", "enum": names})
}

/// One of these names, as its number; the first has the number 1.
pub fn number_of(names: &[&str]) -> Json {
    json!({"type": "integer", "minimum": 1, "maximum": names.len(), "description": names.join(", ")})
}

/// One of these names, as its number, or 0 for none.
pub fn number_of_or_zero(names: &[&str]) -> Json {
    let mut schema = number_of(names);
    schema["minimum"] = 0.into();
    schema
}

/// Null, or a value of the schema.
pub fn nullable(mut schema: Json) -> Json {
    schema["type"] = json!([schema["type"], "null"]);
    schema
}
