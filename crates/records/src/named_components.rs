//! The custom components that forms and UI configurations name (`docs/reference/forms.md`).

use resource::{Checked, CheckedValue, Field, FieldKey, FieldKind, JsonValue, ReferenceTarget, message, parse_id};
use std::collections::{BTreeSet, HashMap};
use store::{Conn, Sql, StoreError};

/// The maximum number of custom components in one list.
pub const MAX_COMPONENTS: usize = 100;

pub static CUSTOM_COMPONENTS: FieldKey<Vec<i64>> = FieldKey::new("custom_components");

/// The field `custom_components`. The components that a row names are in `table`, whose column `owner` contains the row's id.
pub fn custom_components(table: &'static str, owner: &'static str) -> Field {
    let target = ReferenceTarget { table: "custom_components".into(), autocomplete: None };
    CUSTOM_COMPONENTS
        .declare(FieldKind::References { target, max_items: MAX_COMPONENTS })
        .members(table, owner, "component")
        .default(CheckedValue::List(Vec::new()))
}

/// Checks the custom components of a body and returns their ids without duplicates, or the errors. They must be enabled, and are
/// locked until the end of the write.
pub fn accept(conn: &mut Conn, value: JsonValue<'_>) -> Result<Checked<CheckedValue, Vec<String>>, StoreError> {
    let list = |ids: BTreeSet<i64>| CheckedValue::List(ids.into_iter().map(CheckedValue::Int).collect());
    Ok(accept_ids(conn, value)?.map(list))
}

fn accept_ids(conn: &mut Conn, value: JsonValue<'_>) -> Result<Checked<BTreeSet<i64>, Vec<String>>, StoreError> {
    if value.is_null() {
        return Ok(Checked::Invalid(vec![message::NULL.to_owned()]));
    }
    let Some((items, count)) = value.as_list(MAX_COMPONENTS) else {
        return Ok(Checked::Invalid(vec![message::not_a_list(value.type_name())]));
    };
    if count > MAX_COMPONENTS {
        return Ok(Checked::Invalid(vec![message::list_too_long(MAX_COMPONENTS)]));
    }
    let id = |item: &JsonValue<'_>| match item.as_str() {
        _ if item.is_null() => Err(message::NULL.to_owned()),
        Some(text) if text.trim().is_empty() => Err(message::BLANK.to_owned()),
        _ => parse_id(*item),
    };
    let (ids, wrong): (Vec<_>, Vec<_>) = items.iter().map(id).partition(Result::is_ok);
    if !wrong.is_empty() {
        return Ok(Checked::Invalid(wrong.into_iter().filter_map(Result::err).collect()));
    }
    let ids: BTreeSet<i64> = ids.into_iter().flatten().collect();
    if ids.is_empty() {
        return Ok(Checked::Valid(ids));
    }
    let mut sql = Sql::new("SELECT id, is_enabled FROM custom_components WHERE id");
    sql.push_any(ids.iter().copied().collect::<Vec<_>>()).push(" ORDER BY id FOR SHARE");
    let is_enabled_by_id: HashMap<i64, bool> =
        conn.query_all(&sql, |row| Ok((row.int(0)?, row.flag(1)?)))?.into_iter().collect();
    let wrong = |id: &i64| match is_enabled_by_id.get(id) {
        Some(true) => None,
        Some(false) => Some(format!("Custom component {id} - object not enabled.")),
        None => Some(message::invalid_id_message(id)),
    };
    let wrong: Vec<String> = ids.iter().filter_map(wrong).collect();
    Ok(if wrong.is_empty() { Checked::Valid(ids) } else { Checked::Invalid(wrong) })
}
