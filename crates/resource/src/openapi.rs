//! JSON Schemas and parameters for the OpenAPI 3.1 document, generated from declarations.
//!
//! A schema with a `title` becomes a component of that name in the final document. The document
//! therefore contains it once, and clients get a type for it.

mod share;

pub use share::share;

use crate::account_type::AccountType;
use crate::decimal::{DECIMAL_PLACES, WHOLE_DIGITS};
use crate::field::{Field, FieldAccess, FieldKind, StaticText};
use crate::json::{RowForm, USER_REFERENCE};
use crate::query::Query;
use crate::resource::Resource;
use crate::select::{DEFAULT_LIMIT, MAX_LIMIT, Predicate};
use serde_json::{Map, Value as Json, json};

/// The readers of a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Audience {
    /// All readers: every endpoint.
    All,
    /// Programs that generate clients: without endpoints that are `x-internal`, such as pages for people.
    Clients,
}

impl Audience {
    /// The parameter of a document's address, and its only value.
    pub const PARAMETER: &str = "audience";
    const CLIENTS: &str = "clients";

    /// Returns the audience that a query names; `None` if there is none of that name.
    pub fn from_query(query: &Query) -> Option<Audience> {
        match query.last_value(Audience::PARAMETER) {
            None => Some(Audience::All),
            Some(Audience::CLIENTS) => Some(Audience::Clients),
            Some(_) => None,
        }
    }

    /// Returns the parameter as the document describes it.
    pub fn parameters() -> Vec<Json> {
        let text = "`clients` leaves out what is `x-internal`, for generators of clients";
        vec![query(Audience::PARAMETER, text, json!({"type": "string", "enum": [Audience::CLIENTS]}))]
    }
}

/// Returns the schema of the document itself.
pub fn document_schema() -> Json {
    titled("OpenApiDocument", json!({"type": "object", "description": "An OpenAPI document"}))
}

/// Returns the schema of an answer, in the form of a list or a detail.
pub fn response(resource: &Resource, form: RowForm) -> Json {
    let shown = |field: &&Field| is_shown(field, form);
    let object = |fields: &[Field]| {
        let fields: Vec<&Field> = fields.iter().filter(shown).collect();
        let properties: Map<String, Json> = fields.iter().map(|field| (field.name.to_string(), shape(field))).collect();
        let required: Vec<&str> = fields.iter().map(|field| field.name.as_ref()).collect();
        json!({"type": "object", "properties": properties, "required": required})
    };
    let mut schema = grouped(resource, object, |_| true);
    for (name, schema_beside) in resource.shown_beside.map(|schemas| schemas(form)).unwrap_or_default() {
        require(&mut schema, name, schema_beside);
    }
    titled(title(resource, form), schema)
}

fn is_shown(field: &Field, form: RowForm) -> bool {
    field.access != FieldAccess::WriteOnly && if form == RowForm::List { field.in_list } else { field.in_detail }
}

/// Returns the name of an answer's schema. A list shows a summary if an instance shows other fields.
fn title(resource: &Resource, form: RowForm) -> String {
    let has_detail = resource.fields.iter().any(|field| is_shown(field, RowForm::Detail));
    let differs =
        resource.fields.iter().any(|field| is_shown(field, RowForm::List) != is_shown(field, RowForm::Detail));
    let is_summary = form == RowForm::List && has_detail && differs;
    if is_summary { format!("{}Summary", resource.title) } else { resource.title.to_string() }
}

/// Returns the schema of a body.
pub fn request(resource: &Resource, is_create: bool) -> Json {
    let is_accepted = |field: &&Field| field.is_writable() && (is_create || field.access != FieldAccess::CreateOnly);
    let object = |fields: &[Field]| {
        let fields: Vec<&Field> = fields.iter().filter(is_accepted).collect();
        let properties: Map<String, Json> = fields.iter().map(|field| (field.name.to_string(), input(field))).collect();
        let required: Vec<&str> =
            fields.iter().filter(|field| is_create && field.must_be_sent()).map(|field| field.name.as_ref()).collect();
        let mut schema = json!({"type": "object", "properties": properties});
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schema
    };
    let schema = grouped(resource, object, |group| group.get("required").is_some());
    match &resource.body_title {
        Some(title) if is_create => titled(title.as_ref(), schema),
        _ => titled(format!("{}{}", resource.title, if is_create { "Create" } else { "Patch" }), schema),
    }
}

/// Returns the schema of all fields, with that of the group among them.
fn grouped(resource: &Resource, object: impl Fn(&[Field]) -> Json, is_required: fn(&Json) -> bool) -> Json {
    let Some((name, _)) = &resource.group else { return object(&resource.fields) };
    let [before, fields, after] = resource.parts();
    let (mut schema, group, after) = (object(before), object(fields), object(after));
    let mut required: Vec<Json> = schema["required"].as_array().cloned().unwrap_or_default();
    required.extend(is_required(&group).then(|| json!(name)));
    required.extend(after["required"].as_array().cloned().unwrap_or_default());
    schema["properties"][name.as_ref()] = group;
    if let (Some(properties), Some(after)) = (schema["properties"].as_object_mut(), after["properties"].as_object()) {
        properties.extend(after.clone());
    }
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

/// Returns a schema with the name that it has as a component.
pub fn titled(title: impl Into<String>, schema: Json) -> Json {
    let mut named = Map::new();
    named.insert("title".to_owned(), Json::Null);
    if let Json::Object(schema) = schema {
        named.extend(schema);
    }
    named.insert("title".to_owned(), Json::String(title.into()));
    Json::Object(named)
}

/// Returns an object with these fields. All of them are required.
pub fn object<N: Into<String>>(properties: impl IntoIterator<Item = (N, Json)>) -> Json {
    let properties: Map<String, Json> = properties.into_iter().map(|(name, schema)| (name.into(), schema)).collect();
    let required: Vec<&String> = properties.keys().collect();
    json!({"type": "object", "required": required, "properties": properties})
}

/// Adds a required field to an object, in place of one of the same name.
pub fn require(object: &mut Json, name: &str, schema: Json) {
    object["properties"][name] = schema;
    if let Some(required) = object["required"].as_array_mut()
        && !required.iter().any(|present| present == name)
    {
        required.push(name.into());
    }
}

/// Returns the schema of a text in a body that may not be empty.
pub fn filled_text() -> Json {
    json!({"type": "string", "minLength": 1})
}

/// Returns the schema of `_meta` with the permissions of the caller, under these names.
pub fn meta<'a>(actions: impl IntoIterator<Item = &'a str>) -> Json {
    let mut permissions = object(actions.into_iter().map(|action| (action, json!({"type": "boolean"}))));
    permissions["description"] = "The permissions of the caller".into();
    object([("permissions", permissions)])
}

/// Returns the parameters of a list: paging, ordering, and a filter for each predicate of each filterable field.
pub fn parameters(resource: &Resource) -> Vec<Json> {
    let mut list = paging();
    if !resource.is_selectable {
        return list;
    }
    let sortable: Vec<&str> =
        resource.fields.iter().filter(|field| field.sort).map(|field| field.name.as_ref()).collect();
    if !sortable.is_empty() {
        let text = format!("Comma-separated, `-` for descending: {}", sortable.join(", "));
        list.push(query("ordering", &text, json!({"type": "string", "examples": [format!("-{}", sortable[0])]})));
    }
    for field in &resource.fields {
        for predicate in field.predicates() {
            let name = match predicate {
                Predicate::Exact => field.name.to_string(),
                _ => format!("{}__{}", field.name, predicate.name()),
            };
            list.push(filter(&name, field, predicate));
            if resource.has_complements {
                list.push(complement_parameter(field, predicate));
            }
        }
    }
    list
}

/// Returns a parameter that filters by the complement of one predicate of a field.
fn complement_parameter(field: &Field, predicate: Predicate) -> Json {
    let mut parameter = filter(&format!("{}__{}", field.name, predicate.name_of_complement()), field, predicate);
    let text = parameter["description"].as_str().unwrap_or_default();
    parameter["description"] = format!("Not that {text}").into();
    parameter
}

/// Returns a parameter that filters by one predicate of a field.
fn filter(name: &str, field: &Field, predicate: Predicate) -> Json {
    let value = match &field.kind {
        _ if predicate == Predicate::Isnull => json!({"type": "boolean"}),
        FieldKind::Text { .. } | FieldKind::Email { .. } | FieldKind::Url { .. } | FieldKind::Uuid => {
            json!({"type": "string"})
        }
        FieldKind::Integer { .. } | FieldKind::References { .. } => json!({"type": "integer"}),
        FieldKind::Set { choices, .. } => any_of(choices.iter().map(|choice| &choice.value)),
        // A filter accepts any number of places.
        FieldKind::Decimal { .. } => json!({"type": "string", "format": "decimal"}),
        _ => value_schema(field, false),
    };
    let is_set = matches!(field.kind, FieldKind::Set { .. } | FieldKind::References { .. });
    let meaning = match predicate {
        Predicate::Exact if is_set => "has these values and no others",
        Predicate::In if is_set => "has one of the values",
        _ => predicate.meaning(),
    };
    let mut schema = match predicate {
        Predicate::Range => json!({"type": "array", "minItems": 2, "maxItems": 2, "items": value}),
        Predicate::Exact if matches!(field.kind, FieldKind::Set { .. }) => json!({"type": "array", "items": value}),
        Predicate::In => json!({"type": "array", "minItems": 1, "items": value}),
        Predicate::Exact if is_set => json!({"type": "array", "minItems": 1, "items": value}),
        _ => value,
    };
    let is_list = schema["type"] == "array";
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("maxLength");
    }
    let mut parameter = query(name, &format!("`{}` {meaning}", field.name), schema);
    if is_list {
        parameter["explode"] = false.into();
    }
    parameter
}

/// Returns the parameters of a list whose declaration a build creates: paging, ordering, and filters of any name.
pub fn open_parameters() -> Vec<Json> {
    let mut list = paging();
    list.push(query("ordering", "Comma-separated names of fields, `-` for descending", json!({"type": "string"})));
    let filters_schema = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let mut filters = query("filters", "Filters by the names of fields and predicates", filters_schema);
    (filters["style"], filters["explode"]) = ("form".into(), true.into());
    list.push(filters);
    list
}

/// Returns the parameters of every list.
pub fn paging() -> Vec<Json> {
    let limit = json!({"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT});
    let offset = json!({"type": "integer", "minimum": 0, "default": 0});
    vec![
        query("limit", "Maximum number of results of the page", limit),
        query("offset", "Number of results before the page", offset),
    ]
}

/// Returns a parameter of the query.
pub fn query(name: &str, description: &str, schema: Json) -> Json {
    json!({"name": name, "in": "query", "description": description, "schema": schema})
}

/// Returns the header by which a read is answered only if the state has changed.
pub fn if_none_match() -> Json {
    json!({
        "name": "If-None-Match", "in": "header", "schema": {"type": "string"},
        "description": "The `ETag` of an answer that is known already; 304 if it is still the same",
    })
}

/// Returns the header `ETag` of an answer.
pub fn etag() -> Json {
    json!({"required": true, "description": "The state that the answer shows", "schema": {"type": "string"}})
}

/// Returns the answer to `If-None-Match` with the current state.
pub fn not_modified() -> Json {
    json!({"description": "The state is the one that `If-None-Match` names", "headers": {"ETag": etag()}})
}

/// Returns the schema of the answer to OPTIONS.
pub fn schema_document() -> Json {
    titled("SchemaDocument", json!({"type": "object", "description": "The fields, columns and bounds of a resource"}))
}

/// Returns the schema of a user reference (`docs/reference/conventions.md`).
pub fn user_reference() -> Json {
    let schema = |name: &'static str| match name {
        "id" => json!({"type": "integer"}),
        "is_deleted" => json!({"type": "boolean"}),
        "account_type" => {
            let names: Vec<&str> = AccountType::all().map(AccountType::name).collect();
            json!({"type": "string", "enum": names})
        }
        _ => json!({"type": "string"}),
    };
    titled("UserReference", object(USER_REFERENCE.map(|name| (name, schema(name)))))
}

fn shape(field: &Field) -> Json {
    let schema = match &field.kind {
        FieldKind::User => user_reference(),
        _ => with_example(field, value_schema(field, false)),
    };
    if field.may_be_null() { nullable(schema) } else { schema }
}

/// Returns the schema of null and of the values that `schema` allows.
pub fn nullable(mut schema: Json) -> Json {
    match schema.get("type").cloned() {
        Some(Json::String(name)) if schema.get("enum").is_none() && schema.get("title").is_none() => {
            schema["type"] = json!([name, "null"]);
            schema
        }
        _ => schema_or_null(schema),
    }
}

/// Returns a schema with null as an alternative. A schema that allows any value already allows null.
fn schema_or_null(mut schema: Json) -> Json {
    let nothing = json!({"type": "null"});
    if schema == json!({}) {
        return schema;
    }
    let Some(members) = schema.get_mut("anyOf").and_then(Json::as_array_mut) else {
        return json!({"anyOf": [schema, nothing]});
    };
    if !members.contains(&nothing) {
        members.push(nothing);
    }
    schema
}

fn input(field: &Field) -> Json {
    let schema = with_example(field, value_schema(field, true));
    if field.nullable { schema_or_null(schema) } else { schema }
}

fn with_example(field: &Field, mut schema: Json) -> Json {
    if let Some(example) = &field.example {
        schema["examples"] = json!([example]);
    }
    schema
}

/// Returns the schema of a text that is one of these names; of any text if there are no names.
fn any_of<'a>(names: impl Iterator<Item = &'a StaticText>) -> Json {
    let mut schema = json!({"type": "string"});
    let names: Vec<&StaticText> = names.collect();
    if !names.is_empty() {
        schema["enum"] = json!(names);
    }
    schema
}

/// Returns the schema of a decimal. An answer pads it to its scale, and has more places if it was stored with more.
fn decimal(precision: usize, scale: usize, is_input: bool) -> Json {
    let (whole, places) = match is_input {
        true => ((precision - scale.min(precision)).max(1), format!("{{1,{scale}}}")),
        false => (WHOLE_DIGITS, format!("{{{},{DECIMAL_PLACES}}}", scale.max(1))),
    };
    let is_whole = scale == 0;
    let fraction = match (is_input, is_whole) {
        (true, true) => String::new(),
        (false, false) => format!(r"\.\d{places}"),
        _ => format!(r"(\.\d{places})?"),
    };
    let types = if is_input { json!(["string", "number"]) } else { json!("string") };
    json!({"type": types, "format": "decimal", "pattern": format!(r"^-?\d{{1,{whole}}}{fraction}$")})
}

/// Returns the schema of a text in a body.
fn text_schema(field: &Field, max: usize) -> Json {
    let mut schema = json!({"type": "string", "maxLength": max});
    if !field.blank {
        schema["minLength"] = match &field.kind {
            FieldKind::Text { min, .. } | FieldKind::Secret { min, .. } => (*min).max(1),
            _ => 1,
        }
        .into();
    }
    let mut form = Map::new();
    if let FieldKind::Email { .. } = field.kind {
        form.insert("format".to_owned(), "email".into());
    }
    let of_text = if let FieldKind::Text { charset, .. } = &field.kind { *charset } else { None };
    if let Some(charset) = of_text.or(field.charset).filter(|charset| !charset.regex.is_empty()) {
        form.insert("pattern".to_owned(), charset.regex.into());
    }
    match schema.as_object_mut() {
        Some(schema) if !field.blank => schema.extend(form),
        // A blank text matches no format or pattern, but is allowed.
        Some(schema) if !form.is_empty() => {
            form.insert("type".to_owned(), "string".into());
            schema.insert("anyOf".to_owned(), json!([form, {"type": "string", "maxLength": 0}]));
        }
        _ => {}
    }
    schema
}

/// Returns the schema of a value. In answers it has no bounds of sent values: a value may be older than the bounds.
fn value_schema(field: &Field, is_input: bool) -> Json {
    let is_bounded = is_input || !field.is_writable();
    let list = |items: Json, most: Option<usize>| {
        let mut schema = json!({"type": "array", "items": items});
        if let Some(most) = most.filter(|_| is_bounded) {
            schema["maxItems"] = most.into();
        }
        schema
    };
    if let Some(schema) = field.schema {
        return schema();
    }
    match &field.kind {
        FieldKind::Text { max, .. }
        | FieldKind::Email { max }
        | FieldKind::Url { max }
        | FieldKind::Secret { max, .. }
            if is_input =>
        {
            text_schema(field, *max)
        }
        FieldKind::Integer { min, max } => {
            let mut schema = json!({"type": "integer"});
            if *min > i64::MIN && is_bounded {
                schema["minimum"] = (*min).into();
            }
            if *max < i64::MAX && is_bounded {
                schema["maximum"] = (*max).into();
            }
            schema
        }
        FieldKind::Reference { .. } | FieldKind::User | FieldKind::UserId => json!({"type": "integer"}),
        FieldKind::Boolean => json!({"type": "boolean"}),
        FieldKind::Date => json!({"type": "string", "format": "date"}),
        FieldKind::DateTime => json!({"type": "string", "format": "date-time"}),
        FieldKind::Uuid => json!({"type": "string", "format": "uuid"}),
        FieldKind::Enum { choices } => any_of(choices.iter().map(|choice| &choice.value)),
        FieldKind::Listed { .. } => json!({"type": "string"}),
        FieldKind::Decimal { precision, scale } => decimal(*precision, *scale, is_input),
        FieldKind::Set { choices, max_items } => {
            list(any_of(choices.iter().map(|choice| &choice.value)), Some(*max_items))
        }
        FieldKind::References { max_items, .. } => list(json!({"type": "integer"}), Some(*max_items)),
        FieldKind::Texts { at_most, .. } => {
            list(json!({"type": "string"}), at_most.as_ref().map(|(max_items, _)| *max_items))
        }
        FieldKind::File { .. } if is_input => json!({"type": "string", "description": "The token of an upload"}),
        FieldKind::File { .. } => json!({"type": "integer"}),
        FieldKind::Files { max_items } => {
            // A body may contain the token of an upload.
            let item = if is_input { json!(["integer", "string"]) } else { json!("integer") };
            list(json!({"type": item}), Some(*max_items))
        }
        FieldKind::Json { .. } => json!({}),
        FieldKind::Object => json!({"type": "object"}),
        FieldKind::List => json!({"type": "array", "items": {}}),
        _ => json!({"type": "string"}),
    }
}
