//! Classes of builds, the defaults and options of their fields, and records of them.

use crate::bodies::{AnyIdLookup, show};
use crate::queries::selects;
use platform::kit::ids::FieldId;
use platform::records::readers;
use resource::{Changes, JsonBody, Query, Resource, WriteMode, accept};
use serde_json::{Map, Value as Json, json};

/// The types of fields.
const TYPES: [&str; 15] = [
    "string", "text", "url", "email", "integer", "decimal", "boolean", "date", "datetime", "enum", "set", "status",
    "user", "document", "relation",
];

/// Four bytes are the bounds of a class with a field of every type. The rest has several uses: a query, the default and the options
/// of a field, the value of each field of a record, and a whole record.
pub fn records(data: &[u8]) {
    let Some((numbers, text)) = data.split_first_chunk() else { return };
    let class = class(*numbers);
    if let Ok(text) = str::from_utf8(text) {
        selects(&class, &Query::parse(text));
        for field in &class.fields {
            for predicate in field.predicates() {
                let filter = format!("{}__{}={}", field.name, predicate.name(), text.replace('&', "%26"));
                selects(&class, &Query::parse(&filter));
                selects(&class, &Query::parse(&format!("a_relation.{filter}")));
            }
        }
    }
    let Ok(body) = JsonBody::parse(text.to_vec(), usize::MAX) else { return };
    let sent = body.as_value().to_json();
    for (n, kind) in TYPES.into_iter().enumerate() {
        for member in ["default", "options"] {
            let mut body = field_body(*numbers, kind);
            body[member] = sent.clone();
            check_declaration(n, &body);
        }
    }
    for mode in [WriteMode::Create, WriteMode::Edit] {
        let filled = TYPES.map(|kind| (alias(kind), sent.clone())).into_iter().collect();
        check_values(&class, &filled, mode);
        if let Json::Object(values) = &sent {
            check_values(&class, values, mode);
        }
    }
}

fn alias(kind: &str) -> String {
    format!("a_{kind}")
}

/// Returns the body of a new field of this type.
fn field_body([flags, low, high, scale]: [u8; 4], kind: &str) -> Json {
    let options =
        [("low", "Low"), ("high", "High"), ("ä", "Ä")].map(|(value, text)| json!({"value": value, "text": text}));
    json!({
        "label": kind, "alias": alias(kind), "type": kind, "is_required": flags & 1 == 0, "max_length": u16::from(high) + 1,
        "min_value": -i64::from(low), "max_value": high, "precision": high % 20 + 11, "scale": scale % 11,
        "max_num_of_files": u16::from(low) + 1, "options": options, "initial": "low", "related_object_class": 1,
    })
}

/// Returns a class with a field of every type.
fn class(numbers: [u8; 4]) -> Resource {
    let field = |(n, kind): (usize, &str)| {
        let body = JsonBody::from_json(&field_body(numbers, kind));
        let field =
            readers::field(FieldId::new(n as i64 + 1), &body.as_value().as_object(|_| true).unwrap_or_default());
        field.unwrap_or_else(|errors| panic!("{kind}: {}", errors.to_json()))
    };
    readers::records(&TYPES.into_iter().enumerate().map(field).collect::<Vec<_>>())
}

/// Checks that a created field has the sent default, which its records accept, or that the field is refused with a message.
fn check_declaration(n: usize, body: &Json) {
    let sent = JsonBody::from_json(body);
    let field =
        match readers::field(FieldId::new(n as i64 + 1), &sent.as_value().as_object(|_| true).unwrap_or_default()) {
            Ok(field) => field,
            Err(errors) => {
                let errors = errors.to_json();
                assert!(errors.as_object().is_some_and(|errors| !errors.is_empty()), "{body} is refused in silence");
                return;
            }
        };
    let class = readers::records(&[field]);
    let (changes, errors) = read(&class, &Map::new(), WriteMode::Create);
    let alias = body["alias"].as_str().unwrap_or_default();
    let has_default = body.get("default").is_some_and(|default| !default.is_null());
    assert!(!has_default || changes.value(alias).is_some(), "a record without {alias}: {errors} {body}");
}

fn check_values(class: &Resource, values: &Map<String, Json>, mode: WriteMode) {
    let (changes, errors) = read(class, values, mode);
    for messages in errors.as_object().into_iter().flat_map(Map::values) {
        let texts = messages.as_array().map(|all| all.iter().filter_map(Json::as_str).collect::<Vec<_>>());
        assert!(texts.is_some_and(|texts| !texts.is_empty() && !texts.contains(&"")), "{errors}");
    }
    let mut shown = Map::new();
    for (name, sent) in values {
        let [_, fields, _] = class.parts();
        let field = fields.iter().find(|field| field.name == name.as_str());
        match (field, changes.value(name)) {
            (Some(field), Some(value)) => {
                assert!(errors.get(name).is_none(), "{name} is taken and refused: {sent}");
                shown.insert(name.clone(), show(field, value));
            }
            // If the number of names is too large, only the first are reported.
            (None, None) if values.len() > 100 => {}
            (_, None) => assert!(errors.get(name).is_some(), "{name} is neither taken nor refused: {sent}"),
            (None, Some(_)) => panic!("{name} is no field, and taken"),
        }
    }
    let (again, errors) = read(class, &shown, mode);
    for name in shown.keys() {
        assert!(errors.get(name).is_none(), "{name} is not taken as it is shown: {shown:?} {errors:?}");
        assert_eq!(again.value(name), changes.value(name), "{name} of {shown:?}");
    }
}

/// Returns the values and the errors of a record's fields.
fn read(class: &Resource, values: &Map<String, Json>, mode: WriteMode) -> (Changes, Json) {
    let body = JsonBody::from_json(&json!({"fields": values}));
    let Ok(accepted) = accept(class, &body.as_value().as_object(|_| true).unwrap_or_default(), mode, &mut AnyIdLookup);
    (accepted.changes, accepted.errors.to_json()["fields"].take())
}
