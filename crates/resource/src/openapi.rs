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
    let object = |fields: &[Field]| {
        let fields: Vec<&Field> = fields.iter().filter(shown).collect();
        let properties: Map<String, Json> = fields.iter().map(|field| (field.name.to_string(), shape(field))).collect();
        let required: Vec<&str> = fields.iter().map(|field| field.name.as_ref()).collect();
        json!({"type": "object", "properties": properties, "required": required})
    };
    grouped(resource, object, |_| true)
}

/// The schema of a body.
pub fn request(resource: &Resource, is_create: bool) -> Json {
    let sent = |field: &&Field| field.is_writable() && (is_create || field.access != Access::CreateOnly);
    let object = |fields: &[Field]| {
        let fields: Vec<&Field> = fields.iter().filter(sent).collect();
        let properties: Map<String, Json> = fields.iter().map(|field| (field.name.to_string(), input(field))).collect();
        let required: Vec<&str> =
            fields.iter().filter(|field| is_create && field.required).map(|field| field.name.as_ref()).collect();
        let mut schema = json!({"type": "object", "properties": properties});
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schema
    };
    grouped(resource, object, |group| group.get("required").is_some())
}

/// The schema of all fields, with that of the group among them.
fn grouped(resource: &Resource, object: impl Fn(&[Field]) -> Json, is_required: fn(&Json) -> bool) -> Json {
    let Some((name, _)) = &resource.group else { return object(&resource.fields) };
    let [before, fields, after] = resource.parts();
    let (mut schema, group, after) = (object(before), object(fields), object(after));
    let mut required: Vec<Json> = schema["required"].as_array().cloned().unwrap_or_default();
    required.extend(is_required(&group).then(|| json!(name)));
    required.extend(after["required"].as_array().cloned().unwrap_or_default());
    schema["properties"][name.as_ref()] = group;
    if let (Some(all), Some(after)) = (schema["properties"].as_object_mut(), after["properties"].as_object()) {
        all.extend(after.clone());
    }
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

/// The parameters of a list: paging, ordering, and a filter for each predicate of each filterable field.
pub fn parameters(resource: &Resource) -> Vec<Json> {
    let mut list = paging();
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

/// The parameters of a list whose declaration a tenant makes: paging, ordering, and filters of any name.
pub fn open_parameters() -> Vec<Json> {
    let mut list = paging();
    list.push(query("ordering", json!({"type": "string"})));
    let mut filters = query("filters", json!({"type": "object", "additionalProperties": {"type": "string"}}));
    (filters["style"], filters["explode"]) = ("form".into(), true.into());
    list.push(filters);
    list
}

fn paging() -> Vec<Json> {
    vec![
        query("limit", json!({"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT})),
        query("offset", json!({"type": "integer", "minimum": 0, "default": 0})),
    ]
}

fn query(name: &str, schema: Json) -> Json {
    json!({"name": name, "in": "query", "schema": schema})
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
