//! JSON Schemas and parameters for the OpenAPI 3.1 document, made from declarations.

use crate::field::{Access, Field, Kind, Resource};
use crate::json::{Form, USER_REFERENCE};
use crate::select::{DEFAULT_LIMIT, MAX_LIMIT};
use serde_json::{Map, Value as Json, json};

/// The schema of an answer, in the form of a list or a detail.
pub fn response(resource: &Resource, form: Form) -> Json {
    let shown = |field: &&Field| {
        field.access != Access::WriteOnly && if form == Form::List { field.in_list } else { field.in_detail }
    };
    let fields: Vec<&Field> = resource.fields.iter().filter(shown).collect();
    let properties: Map<String, Json> = fields.iter().map(|field| (field.name.to_string(), shape(field))).collect();
    let required: Vec<&str> = fields.iter().map(|field| field.name.as_ref()).collect();
    json!({"type": "object", "properties": properties, "required": required})
}

/// The schema of a body.
pub fn request(resource: &Resource, is_create: bool) -> Json {
    let sent = |field: &&Field| field.is_writable() && (is_create || field.access != Access::CreateOnly);
    let fields: Vec<&Field> = resource.fields.iter().filter(sent).collect();
    let properties: Map<String, Json> = fields.iter().map(|field| (field.name.to_string(), input(field))).collect();
    let required: Vec<&str> =
        fields.iter().filter(|field| is_create && field.required).map(|field| field.name.as_ref()).collect();
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// The parameters of a list: paging, ordering, and a filter for each predicate of each filterable field.
pub fn parameters(resource: &Resource) -> Vec<Json> {
    let query = |name: &str, schema: Json| json!({"name": name, "in": "query", "schema": schema});
    let mut list = vec![
        query("limit", json!({"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT})),
        query("offset", json!({"type": "integer", "minimum": 0, "default": 0})),
    ];
    if !resource.is_selectable {
        return list;
    }
    let sortable: Vec<&str> =
        resource.fields.iter().filter(|field| field.sort).map(|field| field.name.as_ref()).collect();
    if !sortable.is_empty() {
        let mut ordering = query("ordering", json!({"type": "string"}));
        ordering["description"] = format!("Comma-separated, `-` for descending: {}", sortable.join(", ")).into();
        list.push(ordering);
    }
    for field in &resource.fields {
        for predicate in field.predicates() {
            let name = if predicate.name() == "exact" {
                field.name.to_string()
            } else {
                format!("{}__{}", field.name, predicate.name())
            };
            list.push(query(&name, json!({"type": "string"})));
        }
    }
    list
}

/// The schema of a user reference (document 1, "Shared shapes").
pub fn user_reference() -> Json {
    let properties: Map<String, Json> = USER_REFERENCE
        .iter()
        .map(|name| {
            let kind = match *name {
                "id" => "integer",
                "is_deleted" => "boolean",
                _ => "string",
            };
            ((*name).to_owned(), json!({"type": kind}))
        })
        .collect();
    json!({"type": "object", "properties": properties})
}

fn shape(field: &Field) -> Json {
    let schema = match &field.kind {
        Kind::User => json!({"$ref": "#/components/schemas/UserReference"}),
        _ => bare(field, false),
    };
    if !field.nullable {
        return schema;
    }
    match schema.get("type").cloned() {
        Some(Json::String(name)) if schema.get("enum").is_none() => {
            let mut schema = schema;
            schema["type"] = json!([name, "null"]);
            schema
        }
        _ => json!({"anyOf": [schema, {"type": "null"}]}),
    }
}

fn input(field: &Field) -> Json {
    let schema = bare(field, true);
    if field.nullable { json!({"anyOf": [schema, {"type": "null"}]}) } else { schema }
}

fn bare(field: &Field, is_input: bool) -> Json {
    let max_length = |max: &usize| json!({"type": "string", "maxLength": max});
    match &field.kind {
        Kind::Text { max, .. } | Kind::Email { max } | Kind::Url { max } | Kind::Secret { max } if is_input => {
            let mut schema = max_length(max);
            if !field.blank {
                schema["minLength"] = 1.into();
            }
            let mut form = Map::new();
            if let Kind::Email { .. } = field.kind {
                form.insert("format".to_owned(), "email".into());
            }
            let of_text = if let Kind::Text { charset, .. } = &field.kind { *charset } else { None };
            if let Some(charset) = of_text.or(field.charset).filter(|charset| !charset.regex.is_empty()) {
                form.insert("pattern".to_owned(), charset.regex.into());
            }
            match schema.as_object_mut() {
                Some(schema) if !field.blank => schema.extend(form),
                // A blank text matches no format or pattern, but is allowed.
                Some(schema) if !form.is_empty() => {
                    schema.insert("anyOf".to_owned(), json!([form, {"maxLength": 0}]));
                }
                _ => {}
            }
            schema
        }
        Kind::Integer { min, max } => {
            let mut schema = json!({"type": "integer"});
            if *min > i64::MIN {
                schema["minimum"] = (*min).into();
            }
            if *max < i64::MAX {
                schema["maximum"] = (*max).into();
            }
            schema
        }
        Kind::Reference { .. } | Kind::User => json!({"type": "integer"}),
        Kind::Boolean => json!({"type": "boolean"}),
        Kind::Date => json!({"type": "string", "format": "date"}),
        Kind::DateTime => json!({"type": "string", "format": "date-time"}),
        Kind::Uuid => json!({"type": "string", "format": "uuid"}),
        Kind::Enum { choices } => {
            json!({"type": "string", "enum": choices.iter().map(|choice| &choice.value).collect::<Vec<_>>()})
        }
        Kind::Listed { .. } => json!({"type": "string"}),
        Kind::Set { choices, max_items } => json!({
            "type": "array", "maxItems": max_items,
            "items": {"type": "string", "enum": choices.iter().map(|choice| &choice.value).collect::<Vec<_>>()},
        }),
        Kind::References { max_items, .. } => {
            json!({"type": "array", "maxItems": max_items, "items": {"type": "integer"}})
        }
        Kind::Texts { at_most, .. } => {
            let mut schema = json!({"type": "array", "items": {"type": "string"}});
            if let Some((max_items, _)) = at_most {
                schema["maxItems"] = (*max_items).into();
            }
            schema
        }
        Kind::Files { max_items } => {
            json!({"type": "array", "maxItems": max_items, "items": {"type": ["integer", "string"]}})
        }
        Kind::Json { .. } => json!({}),
        Kind::Object => json!({"type": "object"}),
        Kind::List => json!({"type": "array"}),
        _ => json!({"type": "string"}),
    }
}
