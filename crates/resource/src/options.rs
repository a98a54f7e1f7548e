//! The schema document that `OPTIONS` answers (`docs/reference/conventions.md`).

use crate::field::{EnumOption, Field, FieldAccess, FieldKind, StaticText};
use crate::resource::Resource;
use crate::value::CheckedValue;
use serde_json::{Value as Json, json};
use std::iter::once;

/// Returns the document of a collection.
pub fn document(resource: &Resource) -> Json {
    let mut document = json!({
        "list": {"columns": resource.columns().map(|field| column(field, resource)).collect::<Vec<_>>()},
        "details": details(resource),
    });
    if let Some((limit, autocomplete)) = &resource.batch {
        document["batch"] = json!({"type": "set", "required": true, "autocomplete": autocomplete, "max_items": limit});
    }
    let mut restrictions = serde_json::Map::new();
    restrictions.extend(resource.limit_items.map(|limit| ("limit_items".to_owned(), limit.into())));
    restrictions.extend(resource.batch.iter().map(|(limit, _)| ("limit_items_in_batch".to_owned(), (*limit).into())));
    if !restrictions.is_empty() {
        document["restrictions"] = Json::Object(restrictions);
    }
    document
}

/// Returns the text of a document in pieces, each about one field, so that a large document is never in
/// memory as a whole. The list has these columns, in their order.
pub fn pieces<'a>(resource: &'a Resource, columns: Vec<&'a Field>, restrictions: Json) -> impl Iterator<Item = String> {
    let [before, grouped, after] = resource.parts();
    let [before, grouped, after] = [before, grouped, after].map(|fields| fields.iter().filter(is_shown));
    let group = resource.group.iter().flat_map(move |(name, _)| {
        let entry = group(name, grouped.clone(), Vec::new()).to_string();
        // Its last member is the list, which is empty.
        let begin = entry.strip_suffix("]}").unwrap_or_default().to_owned();
        let fields = grouped.clone().map(declared_schema);
        once(format!(",{begin}")).chain(separated(fields)).chain(once("]}".to_owned()))
    });
    let text = |text: &str| once(text.to_owned());
    text(r#"{"list":{"columns":["#)
        .chain(separated(columns.into_iter().map(move |field| column(field, resource))))
        .chain(text(r#"]},"details":{"schema":["#))
        .chain(separated(before.map(schema)))
        .chain(group)
        .chain(after.map(|field| format!(",{}", schema(field))))
        .chain(once(format!(r#"]}},"restrictions":{restrictions}}}"#)))
}

/// Returns the texts of values, with a comma before all except the first.
fn separated(values: impl Iterator<Item = Json>) -> impl Iterator<Item = String> {
    values.enumerate().map(|(n, value)| if n > 0 { format!(",{value}") } else { value.to_string() })
}

/// Returns the document of a single instance.
pub fn instance_document(resource: &Resource) -> Json {
    json!({"details": details(resource)})
}

/// Returns the part `details` of a document. The entries of a group are in the entry of its name.
pub fn details(resource: &Resource) -> Json {
    let [before, grouped, after] = resource.parts();
    let mut entries: Vec<Json> = before.iter().filter(is_shown).map(schema).collect();
    if let Some((name, _)) = &resource.group {
        let shown = grouped.iter().filter(is_shown);
        entries.push(group(name, shown.clone(), shown.map(declared_schema).collect()));
    }
    entries.extend(after.iter().filter(is_shown).map(schema));
    json!({"schema": entries})
}

fn is_shown(field: &&Field) -> bool {
    field.in_detail || field.access == FieldAccess::WriteOnly
}

/// Returns the entry of a group of these fields.
fn group<'a>(name: &StaticText, mut fields: impl Iterator<Item = &'a Field>, entries: Vec<Json>) -> Json {
    json!({
        "alias": name,
        "type": "object",
        "required": fields.any(Field::must_be_sent),
        "editable": true,
        "validators": [],
        "schema": entries,
    })
}

fn column(field: &Field, resource: &Resource) -> Json {
    let is_selectable = resource.is_selectable;
    let mut column = json!({
        "alias": field.name,
        "type": if field.filters_as_set { "set" } else { field.kind.type_name() },
        "predicates": resource.filters_of(field),
        "sort_ok": field.sort && is_selectable,
    });
    describe_values(&mut column, field);
    if resource.group_of(field).is_some() {
        describe_declared(&mut column, field);
    }
    column
}

/// The maximum number of a field's values in [`BriefEntries`].
const FEW_VALUES: usize = 100;
/// The maximum size of the values of all fields in [`BriefEntries`], in bytes.
const ROOM_FOR_VALUES: usize = 256 * 1024;

/// Writes entries of fields for a reader with little room, such as a model. A field with many values
/// has the first ones, and the number of omitted values (`values_left_out`).
pub struct BriefEntries {
    /// The number of bytes of values that may still be written.
    room: usize,
}

impl Default for BriefEntries {
    fn default() -> BriefEntries {
        BriefEntries { room: ROOM_FOR_VALUES }
    }
}

impl BriefEntries {
    /// Returns the entry of the next field, without its autocomplete path. The path names a class, and the reader cannot call it.
    pub fn entry(&mut self, field: &Field) -> Json {
        let mut entry = declared_schema(field);
        if let Some(entry) = entry.as_object_mut() {
            entry.shift_remove("autocomplete");
        }
        let Some(values) = entry.get_mut("values").and_then(Json::as_array_mut) else { return entry };
        let mut shown_count = 0;
        for value in values.iter().take(FEW_VALUES) {
            let bytes = value.to_string().len();
            if bytes > self.room {
                break;
            }
            self.room -= bytes;
            shown_count += 1;
        }
        let left_out = values.len() - shown_count;
        values.truncate(shown_count);
        if left_out > 0 {
            entry["values_left_out"] = left_out.into();
        }
        entry
    }
}

/// Returns the entry of a field of a group, which a build declares. No other document contains its purpose.
pub fn declared_schema(field: &Field) -> Json {
    let mut schema = schema(field);
    describe_declared(&mut schema, field);
    schema
}

fn describe_declared(entry: &mut Json, field: &Field) {
    if let Some(label) = &field.label {
        entry["label"] = json!(label);
    }
    if let Some(description) = &field.description {
        entry["description"] = json!(description);
    }
    match &field.default {
        Some(default) if matches!(field.kind, FieldKind::DateTime) => entry["default"] = default.to_json_datetime(),
        Some(default) if *default != CheckedValue::Null => entry["default"] = default.to_json(),
        _ => {}
    }
    if let FieldKind::Files { max_items } = field.kind {
        entry["max_num_of_files"] = max_items.into();
    }
}

/// Returns the entry of a field in `details.schema`.
pub fn schema(field: &Field) -> Json {
    let mut schema = json!({
        "alias": field.name,
        "type": field.kind.type_name(),
        "required": field.must_be_sent(),
        "editable": matches!(field.access, FieldAccess::ReadWrite | FieldAccess::WriteOnly),
        "validators": validators(field),
    });
    if field.access == FieldAccess::WriteOnly {
        schema["write_only"] = true.into();
    }
    describe_values(&mut schema, field);
    schema
}

fn describe_values(entry: &mut Json, field: &Field) {
    match &field.kind {
        FieldKind::Enum { choices } | FieldKind::Set { choices, .. } => {
            entry["values"] = choices.iter().map(value).collect()
        }
        FieldKind::Listed { all: list_values, .. } => {
            entry["values"] = list_values().into_iter().map(|name| json!({"value": name, "text": name})).collect()
        }
        FieldKind::Reference { target } | FieldKind::References { target, .. } => {
            if let Some(address) = &target.autocomplete {
                entry["autocomplete"] = json!(address);
            }
        }
        FieldKind::User | FieldKind::UserId => {
            entry["autocomplete"] = json!("/api/users/autocomplete/?text__icontains=")
        }
        _ => {}
    }
}

fn value(choice: &EnumOption) -> Json {
    let mut value = json!({"value": choice.value, "text": choice.text});
    if let Some(system) = choice.system {
        value["system"] = system.into();
    }
    value
}

fn validators(field: &Field) -> Vec<Json> {
    let mut list = Vec::new();
    let mut add = |name: &str, value: Json| list.push(json!({"name": name, "value": value}));
    if !field.is_writable() {
        return list;
    }
    match &field.kind {
        FieldKind::Text { min, max, charset, .. } => {
            let min = if field.blank { *min } else { (*min).max(1) };
            if min > 0 {
                add("min_length", min.into());
            }
            add("max_length", field.advertised_max.unwrap_or(*max).into());
            if let Some(charset) = charset.filter(|charset| !charset.regex.is_empty()) {
                add("regex", charset.regex.into());
            }
        }
        FieldKind::Email { max } | FieldKind::Url { max } | FieldKind::Secret { max, .. } => {
            if let FieldKind::Secret { min: min @ 1.., .. } = &field.kind {
                add("min_length", (*min).into());
            }
            add("max_length", field.advertised_max.unwrap_or(*max).into());
            if let Some(charset) = field.charset.filter(|charset| !charset.regex.is_empty()) {
                add("regex", charset.regex.into());
            }
        }
        FieldKind::Integer { min, max } => {
            if *min > i64::MIN {
                add("min_value", (*min).into());
            }
            if *max < i64::MAX {
                add("max_value", (*max).into());
            }
        }
        FieldKind::Set { max_items, .. }
        | FieldKind::References { max_items, .. }
        | FieldKind::Texts { at_most: Some((max_items, _)), .. }
        | FieldKind::Files { max_items } => {
            add("max_items", (*max_items).into());
        }
        FieldKind::File { extension } => {
            add("max_items", 1.into());
            add("extension", format!(".{extension}").into());
        }
        _ => {}
    }
    if !field.reserved.is_empty() {
        add("reserved", json!(field.reserved));
    }
    list
}
