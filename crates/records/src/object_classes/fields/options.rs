//! The options of an enum, a set or a status (`docs/reference/object-class-fields.md`).

use super::field::{DEFAULT, INITIAL, MAX_OPTION_TEXT, MAX_OPTION_VALUE, OPTIONS};
use crate::classes::{ClassField, options_of, table_of};
use crate::field_type::FieldType;
use kit::ids::ClassId;
use kit::rows::sql::{push_joined, push_member_test};
use resource::{Changes, CheckedValue, EnumOption, Errors, JsonBody, StaticText, message, nfc};
use serde_json::{Value as Json, json};
use std::collections::HashSet;
use store::{Conn, Sql, StoreError};

/// The maximum number of options whose errors are reported.
const MAX_WRONG: usize = 20;
/// The maximum number of options that one statement searches.
const MAX_AT_ONCE: usize = 500;

/// Checks the sent options, and converts them to their stored form.
pub fn check(changes: &mut Changes, max_items: usize, errors: &mut Errors) {
    let Some(list) = changes.get(&OPTIONS) else { return };
    let Json::Array(items) = &list else {
        return errors.add(OPTIONS.name(), message::not_a_list(resource::type_name(&list)));
    };
    if items.is_empty() {
        return errors.add(OPTIONS.name(), message::EMPTY_LIST);
    }
    if items.len() > max_items {
        return errors.add(OPTIONS.name(), message::too_many(max_items));
    }
    let mut wrong = Errors::new();
    let mut wrong_options = 0;
    let mut options = Vec::with_capacity(items.len());
    for (place, item) in items.iter().enumerate() {
        match option(item) {
            Ok(option) => {
                options.push(option);
                continue;
            }
            Err(OptionsRefusal::Whole(text)) => wrong.add(&place.to_string(), text),
            Err(OptionsRefusal::Members(errors)) => wrong.nest(&place.to_string(), errors),
        }
        wrong_options += 1;
        if wrong_options == MAX_WRONG {
            break;
        }
    }
    if !wrong.is_empty() {
        return errors.nest(OPTIONS.name(), wrong);
    }
    let mut values = HashSet::new();
    if let Some((value, _)) = options.iter().find(|(value, _)| !values.insert(nfc(value))) {
        return errors.add(OPTIONS.name(), format!("Option {value} must be unique."));
    }
    let stored: Vec<Json> = options.iter().map(|(value, text)| json!({"value": value, "text": text})).collect();
    changes.set(&OPTIONS, CheckedValue::Json(Json::Array(stored)));
}

enum OptionsRefusal {
    Whole(String),
    Members(Errors),
}

/// Reads the value and the text of an option.
fn option(item: &Json) -> Result<(String, String), OptionsRefusal> {
    if !item.is_object() {
        return Err(OptionsRefusal::Whole(message::not_an_object(resource::type_name(item))));
    }
    let mut errors = Errors::new();
    let mut member = |name: &'static str, max: usize| {
        let field = resource::Field::new(name, resource::FieldKind::text(max)).required();
        let Some(value) = item.get(name) else {
            errors.add(name, message::REQUIRED);
            return String::new();
        };
        match resource::check_value(&field, JsonBody::from_json(value).as_value()) {
            Ok(CheckedValue::Text(text)) if name == "value" && text.contains(',') => errors.add(name, message::VALUE),
            Ok(CheckedValue::Text(text)) => return text,
            Ok(_) => errors.add(name, message::STRING),
            Err(wrong) => wrong.into_iter().for_each(|wrong| errors.add(name, wrong)),
        }
        String::new()
    };
    let option = (member("value", MAX_OPTION_VALUE), member("text", MAX_OPTION_TEXT));
    if errors.is_empty() { Ok(option) } else { Err(OptionsRefusal::Members(errors)) }
}

/// Checks that the initial option of a status, in its future state, is one of its options.
pub fn check_initial(after: &ClassField, errors: &mut Errors) {
    if let Some(initial) = after.initial.as_deref().filter(|_| !errors.has_field(OPTIONS.name()))
        && !after.options.iter().any(|option| option.value == initial)
    {
        errors.add(INITIAL.name(), message::choice(initial));
    }
}

/// Refuses to remove an option in use, and to reorder options of a set that are in use. The caller must have locked out writers
/// of records.
pub fn check_removed(
    conn: &mut Conn,
    class: ClassId,
    before: &ClassField,
    changes: &Changes,
    errors: &mut Errors,
) -> Result<(), StoreError> {
    if !changes.contains(&OPTIONS) || errors.has_field(OPTIONS.name()) {
        return Ok(());
    }
    let after = options_of(changes.get(&OPTIONS));
    let is_kept = |value: &str| after.iter().any(|option| option.value == value);
    let removed: Vec<&str> =
        before.options.iter().map(|option| option.value.as_ref()).filter(|value| !is_kept(value)).collect();
    let is_default = |value: &str| match &before.default {
        Some(Json::Array(members)) => members.iter().any(|member| member == value),
        Some(default) => default == value,
        None => false,
    };
    let is_used = |value: &&&str| {
        (!changes.contains(&DEFAULT) && is_default(value))
            || (!changes.contains(&INITIAL) && before.initial.as_deref() == Some(**value))
    };
    let mut used = removed.iter().find(is_used).map(|value| (*value).to_owned());
    for chunk in removed.chunks(MAX_AT_ONCE) {
        if used.is_none() {
            used = first_held(conn, class, before, chunk)?;
        }
    }
    if let Some(value) = used {
        errors.add(OPTIONS.name(), format!("Option {value} is in use."));
        return Ok(());
    }
    // The members of a set are stored in the order of its options.
    let common_values = |options: &[EnumOption], other_options: &[EnumOption]| -> Vec<StaticText> {
        let is_in_both = |value: &&StaticText| other_options.iter().any(|option| option.value == **value);
        options.iter().map(|option| &option.value).filter(is_in_both).cloned().collect()
    };
    let is_reordered = common_values(&before.options, &after) != common_values(&after, &before.options);
    if before.kind == FieldType::Set && is_reordered && crate::tables::has_values(conn, class, before)? {
        errors.add(OPTIONS.name(), "The order of options in use cannot be changed.");
    }
    Ok(())
}

/// Returns the first of these options that a record contains.
fn first_held(
    conn: &mut Conn,
    class: ClassId,
    field: &ClassField,
    options: &[&str],
) -> Result<Option<String>, StoreError> {
    let column = field.column();
    let mut sql = Sql::new("SELECT x.");
    sql.name(&column).push(" FROM ").name(&table_of(class, field.table_number)).push(" x WHERE ");
    if field.kind == FieldType::Set {
        push_joined(&mut sql, " OR ", options, |sql, option| {
            push_member_test(
                sql,
                |sql| {
                    sql.push("x.").name(&column);
                },
                &CheckedValue::from(*option),
            );
        });
    } else {
        sql.push("x.").name(&column).push(" IN (");
        for (n, option) in options.iter().enumerate() {
            sql.push(if n > 0 { ", " } else { "" }).bind(*option);
        }
        sql.push(")");
    }
    let stored_values = conn.query_optional(sql.push(" LIMIT 1"), |row| match field.kind {
        FieldType::Set => row.json::<Vec<String>>(0),
        _ => Ok(vec![row.text(0)?.to_owned()]),
    })?;
    Ok(stored_values.and_then(|values| values.into_iter().find(|value| options.contains(&value.as_str()))))
}
