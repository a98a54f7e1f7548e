//! Writes the administration log of all changes and their authors (`docs/reference/administration-log.md`). An entry is
//! written in the transaction of the change, mostly by [`crate::rows`]. The module `administration` has its endpoint.

use crate::ids::UserId;
use crate::refusal::Refusal;
use crate::request::Request;
use resource::{Changes, CheckedValue, ColumnSource, Field, FieldAccess, FieldKind, Resource};
use serde_json::{Map, Value as Json, json};
use store::{BorrowedArgument as SqlValue, Conn, Sql, StoreError};

/// The changed fields of a row, each as `[old, new]`.
pub type Diff = Map<String, Json>;

/// Writes an entry for the caller of a request. `id` is `None` for a row that has only a name.
pub fn write(
    request: &Request,
    conn: &mut Conn,
    action: &str,
    resource: &Resource,
    id: impl Into<Option<i64>>,
    name: &str,
    changes: Diff,
) -> Result<(), Refusal> {
    let user = request.writer();
    write_by(request, conn, user, action, resource, id, name, changes)
}

/// Writes an entry for `user`, where the request has no caller but its body identifies a user.
#[allow(clippy::too_many_arguments, reason = "the columns of the row")]
pub fn write_by(
    request: &Request,
    conn: &mut Conn,
    user: Option<UserId>,
    action: &str,
    resource: &Resource,
    id: impl Into<Option<i64>>,
    name: &str,
    changes: Diff,
) -> Result<(), Refusal> {
    let changes = with_author(request, changes);
    insert(conn, request.now, user, &request.address.to_string(), action, resource, &[(id.into(), name, &changes)])?;
    Ok(())
}

/// Writes an entry for the command line, without a user and an address.
pub fn write_by_operator(
    conn: &mut Conn,
    now: i64,
    action: &str,
    resource: &Resource,
    id: impl Into<Option<i64>>,
    name: &str,
    changes: Diff,
) -> Result<(), Refusal> {
    insert(conn, now, None, "", action, resource, &[(id.into(), name, &changes)])?;
    Ok(())
}

/// Writes an entry of the same action for each of these rows, with its id, name and changes.
pub fn write_many(
    request: &Request,
    conn: &mut Conn,
    action: &str,
    resource: &Resource,
    entries: &[(i64, String, Diff)],
) -> Result<(), Refusal> {
    let user = request.writer();
    let entries: Vec<LogEntry<'_>> =
        entries.iter().map(|(id, name, changes)| (Some(*id), name.as_str(), changes)).collect();
    insert(conn, request.now, user, &request.address.to_string(), action, resource, &entries)?;
    Ok(())
}

/// Adds the author of a request without a caller to the changes of an entry.
fn with_author(request: &Request, mut changes: Diff) -> Diff {
    if let Some((field, name)) = &request.author {
        changes.insert((*field).to_owned(), json!([null, name.as_ref()]));
    }
    changes
}

/// The id of a row, its name, and its changes.
type LogEntry<'a> = (Option<i64>, &'a str, &'a Diff);

/// Inserts entries, unless changes of the resource are not logged.
fn insert(
    conn: &mut Conn,
    at: i64,
    user: Option<UserId>,
    ip: &str,
    action: &str,
    resource: &Resource,
    entries: &[LogEntry<'_>],
) -> Result<(), StoreError> {
    if !resource.is_logged {
        return Ok(());
    }
    let mut texts = Vec::with_capacity(entries.len());
    for (_, name, changes) in entries {
        let changes = serde_json::to_string(changes)
            .map_err(|error| StoreError::internal(format_args!("changes cannot be written: {error}")))?;
        texts.push((resource::fold(name), changes));
    }
    let user = user.map_or(SqlValue::Null, SqlValue::from);
    let rows: Vec<_> = (entries.iter().zip(&texts))
        .map(|((id, name, _), (folded, changes))| {
            [
                SqlValue::Int(at),
                user,
                SqlValue::Text(ip),
                SqlValue::Text(action),
                SqlValue::Text(&resource.name),
                id.map_or(SqlValue::Null, SqlValue::Int),
                SqlValue::Text(name),
                SqlValue::Text(folded),
                SqlValue::Text(changes),
            ]
        })
        .collect();
    let columns =
        ["at", "by_user", "ip", "action", "resource", "object_id", "object_name", "object_name_fold", "changes"];
    conn.insert_rows("administration_log", &columns, &rows, "").map(drop)
}

/// Anonymizes the entries about a row: its name becomes `nobody`, and old and new values of personal fields become null.
pub fn anonymize_entries(conn: &mut Conn, resource: &Resource, id: i64, nobody: &str) -> Result<(), StoreError> {
    let name: &str = &resource.name;
    let sql = Sql::new(
        "UPDATE administration_log SET object_name = $1, object_name_fold = $2 WHERE resource = $3 AND object_id = $4",
    );
    conn.exec(&sql.arg(nobody).arg(resource::fold(nobody)).arg(name).arg(id))?;
    let sql = Sql::new("SELECT id, changes FROM administration_log WHERE resource = $1 AND object_id = $2");
    let entries = conn.query_all(&sql.arg(name).arg(id), |row| Ok((row.int(0)?, row.json::<Diff>(1)?)))?;
    for (entry, mut changes) in entries {
        let is_personal = |name: &String| resource.field(name).is_none_or(|field| field.is_personal);
        let mut personal = changes.iter_mut().filter(|(name, _)| is_personal(name)).peekable();
        if personal.peek().is_none() {
            continue;
        }
        personal.for_each(|(_, change)| *change = json!([null, null]));
        let changes = Json::Object(changes).to_string();
        conn.exec(&Sql::new("UPDATE administration_log SET changes = $1 WHERE id = $2").arg(changes).arg(entry))?;
    }
    Ok(())
}

/// Returns the display name of a row: its `name`, `username` or `label`, or an empty text.
pub fn name_of(values: &Changes) -> String {
    ["name", "username", "label"]
        .iter()
        .find_map(|name| match values.value(name) {
            Some(CheckedValue::Text(text)) => Some(text.clone()),
            _ => None,
        })
        .unwrap_or_default()
}

/// Returns the diff of a create.
pub fn diff_of_create(resource: &Resource, changes: &Changes) -> Diff {
    let fields = changes.iter().filter_map(|(name, value)| Some((name, logged_field(resource, name)?, value)));
    fields.map(|(name, field, value)| (name.to_owned(), json!([null, logged_value(field, value)]))).collect()
}

/// Returns the diff of a PATCH: the fields whose values differ, and every secret that was sent, as `***`.
pub fn diff_of_edit(resource: &Resource, before: &Changes, changes: &Changes) -> Diff {
    let mut diff = Diff::new();
    for (name, value) in changes.iter() {
        let Some(field) = logged_field(resource, name) else { continue };
        let old = before.value(name);
        if is_secret(field) || !is_same(old.unwrap_or(&CheckedValue::Null), value) {
            // The log does not reveal whether there was a secret before.
            let old =
                if is_secret(field) { "***".into() } else { old.map_or(Json::Null, |old| logged_value(field, old)) };
            diff.insert(name.to_owned(), json!([old, logged_value(field, value)]));
        }
    }
    diff
}

/// Returns whether two values are the same. One may be JSON as text and the other one JSON as a tree.
fn is_same(old: &CheckedValue, new: &CheckedValue) -> bool {
    match (old, new) {
        (CheckedValue::JsonText(_), CheckedValue::Json(_)) | (CheckedValue::Json(_), CheckedValue::JsonText(_)) => {
            old.to_json() == new.to_json()
        }
        _ => old == new,
    }
}

/// Returns the field of a name if its changes are logged: writable fields, except those that are neither stored nor shown.
fn logged_field<'r>(resource: &'r Resource, name: &str) -> Option<&'r Field> {
    let is_kept = |field: &Field| field.access != FieldAccess::WriteOnly || !matches!(field.source, ColumnSource::None);
    resource.field(name).filter(|field| field.is_writable() && (is_secret(field) || is_kept(field)))
}

fn is_secret(field: &Field) -> bool {
    matches!(field.kind, FieldKind::Secret { .. })
}

/// Returns a field's value as the log shows it.
fn logged_value(field: &Field, value: &CheckedValue) -> Json {
    match value {
        CheckedValue::Null => Json::Null,
        _ if is_secret(field) => "***".into(),
        _ if matches!(field.kind, FieldKind::DateTime) => value.to_json_datetime(),
        CheckedValue::JsonText(text) | CheckedValue::Text(text)
            if field.max_logged_bytes.is_some_and(|most| text.len() > most) =>
        {
            format!("{} bytes", text.len()).into()
        }
        _ => value.to_json(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_never_shown() {
        let thing = Resource::new(
            "things",
            "Thing",
            "things",
            [
                Field::new("key", FieldKind::Secret { min: 0, max: 9 }).write_only(),
                Field::new("name", FieldKind::text(9)),
            ],
        );
        let mut changes = Changes::new();
        changes.insert("key", "s3cret".into());
        changes.insert("name", "a".into());
        assert_eq!(Json::Object(diff_of_create(&thing, &changes)), json!({"key": [null, "***"], "name": [null, "a"]}));
        assert_eq!(Json::Object(diff_of_edit(&thing, &changes, &changes)), json!({"key": ["***", "***"]}));
        let (mut shown, mut edits) = (Changes::new(), Changes::new());
        shown.insert("name", "a".into());
        edits.insert("key", "other".into());
        assert_eq!(Json::Object(diff_of_edit(&thing, &shown, &edits)), json!({"key": ["***", "***"]}));
    }

    #[test]
    fn of_long_json_the_size_is_told() {
        let kind = FieldKind::Json { max_bytes: 100, max_depth: 9 };
        let thing = Resource::new("things", "Thing", "things", [Field::new("data", kind).logged_up_to(9)]);
        let values_of = |value: CheckedValue| {
            let mut changes = Changes::new();
            changes.insert("data", value);
            changes
        };
        let text = |text: &str| CheckedValue::JsonText(text.to_owned());
        let (short, long) = (values_of(text("{\"a\":1}")), values_of(text("[1,2,3,4,5]")));
        assert_eq!(Json::Object(diff_of_create(&thing, &long)), json!({"data": [null, "11 bytes"]}));
        assert_eq!(Json::Object(diff_of_edit(&thing, &short, &long)), json!({"data": [{"a": 1}, "11 bytes"]}));
        assert_eq!(Json::Object(diff_of_edit(&thing, &long, &long)), json!({}));
        assert_eq!(
            Json::Object(diff_of_edit(&thing, &short, &values_of(CheckedValue::Json(json!({"a": 1}))))),
            json!({})
        );
    }
}
