//! JSON bodies with declarations.

use crate::declared;
use resource::{
    Changes, CheckedValue, DatabaseChecks, Errors, Field, FieldKind, JsonBody, Resource, WriteMode, accept,
};
use serde_json::{Map, Value as Json};
use std::convert::Infallible;

/// Four bytes choose the declaration; the rest is a body, and the value of every field of another body.
pub fn bodies(data: &[u8]) {
    let Some((numbers, text)) = data.split_first_chunk() else { return };
    let Ok(body) = JsonBody::parse(text.to_vec(), usize::MAX) else { return };
    let sent = body.as_value().to_json();
    declared::with_declaration(*numbers, |resource| {
        for mode in [WriteMode::Create, WriteMode::Edit] {
            let filled = resource.fields.iter().map(|field| (field.name.to_string(), sent.clone())).collect();
            check_body(resource, &filled, mode);
            if let Json::Object(body) = &sent {
                check_body(resource, body, mode);
            }
        }
    });
}

fn check_body(resource: &Resource, body: &Map<String, Json>, mode: WriteMode) {
    let (changes, errors) = read(resource, body, mode);
    let errors = errors.to_json();
    for messages in errors.as_object().into_iter().flat_map(Map::values) {
        let texts = messages.as_array().map(|all| all.iter().filter_map(Json::as_str).collect::<Vec<_>>());
        assert!(texts.is_some_and(|texts| !texts.is_empty() && !texts.contains(&"")), "{errors}");
    }
    let mut shown = Map::new();
    for (name, sent) in body {
        let Some(field) = resource.field(name).filter(|field| field.is_writable()) else {
            assert!(changes.value(name).is_none() && errors.get(name).is_none(), "{name} is nothing that may be sent");
            continue;
        };
        match changes.value(name) {
            Some(value) => {
                assert!(errors.get(name).is_none(), "{name} is taken and refused: {sent}");
                shown.insert(name.clone(), show(field, value));
            }
            None => assert!(
                errors.get(name).is_some()
                    || mode == WriteMode::Edit && field.access == resource::FieldAccess::CreateOnly,
                "{name} is neither taken nor refused: {sent}"
            ),
        }
    }
    let (again, errors) = read(resource, &shown, mode);
    for name in shown.keys() {
        assert!(!errors.has_field(name), "{name} is not taken as it is shown: {shown:?} {errors:?}");
        assert_eq!(again.value(name), changes.value(name), "{name} of {shown:?}");
    }
}

pub fn show(field: &Field, value: &CheckedValue) -> Json {
    if matches!(field.kind, FieldKind::DateTime) { value.to_json_datetime() } else { value.to_json() }
}

fn read(resource: &Resource, body: &Map<String, Json>, mode: WriteMode) -> (Changes, Errors) {
    let body = JsonBody::from_json(&Json::Object(body.clone()));
    let object = body.as_value().as_object(|_| true).unwrap_or_default();
    let Ok(accepted) = accept(resource, &object, mode, &mut AnyIdLookup);
    (accepted.changes, accepted.errors)
}

/// A database in which every id exists and every value is unique.
pub struct AnyIdLookup;

impl DatabaseChecks for AnyIdLookup {
    type Error = Infallible;
    fn missing_ids(&mut self, _: &Field, _: &[i64]) -> Result<Vec<i64>, Infallible> {
        Ok(Vec::new())
    }
    fn is_taken(&mut self, _: &Field, _: &CheckedValue) -> Result<bool, Infallible> {
        Ok(false)
    }
}
