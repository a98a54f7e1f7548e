//! Writes the administration log: who changed what (`docs/reference/administration-log.md`). An entry is written in the transaction of
//! the change, mostly by [`crate::rows`]; the domain `administration` has its endpoint.

use crate::refusal::Refusal;
use crate::request::Request;
use resource::{Access, Changes, Field, Kind, Resource, Source, Value};
use serde_json::{Map, Value as Json, json};
use store::{Conn, Error, Sql};

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
    let by = request.caller.as_ref().map(|caller| caller.user);
    write_by(request, conn, by, action, resource, id, name, changes)
}

/// Writes an entry for the user `by`, where the request has no caller but its body identifies a user.
#[allow(clippy::too_many_arguments, reason = "the columns of the row")]
pub fn write_by(
    request: &Request,
    conn: &mut Conn,
    by: Option<i64>,
    action: &str,
    resource: &Resource,
    id: impl Into<Option<i64>>,
    name: &str,
    changes: Diff,
) -> Result<(), Refusal> {
    insert(conn, request.now, by, &request.address.to_string(), action, resource, id.into(), name, &changes)?;
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
    insert(conn, now, None, "", action, resource, id.into(), name, &changes)?;
    Ok(())
}

/// Inserts an entry, unless changes of the resource are not logged.
#[allow(clippy::too_many_arguments, reason = "the columns of the row")]
fn insert(
    conn: &mut Conn,
    at: i64,
    by: Option<i64>,
    ip: &str,
    action: &str,
    resource: &Resource,
    id: Option<i64>,
    name: &str,
    changes: &Diff,
) -> Result<(), Error> {
    if !resource.is_logged {
        return Ok(());
    }
    let changes = serde_json::to_string(changes).map_err(|error| Error::Db(error.to_string()))?;
    let sql = Sql::new(
        "INSERT INTO administration_log(at, by_user, ip, action, resource, object_id, object_name, object_name_fold, changes) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    );
    let sql =
        sql.arg(at).arg(by).arg(ip).arg(action).arg(resource.name.as_ref()).arg(id).arg(name).arg(resource::fold(name));
    conn.exec(&sql.arg(changes)).map(|_| ())
}

/// Anonymizes the entries about a row: its name becomes `nobody`, and the old and new values of personal fields null.
pub fn forget(conn: &mut Conn, resource: &Resource, id: i64, nobody: &str) -> Result<(), Error> {
    let name: &str = &resource.name;
    let sql = Sql::new(
        "UPDATE administration_log SET object_name = $1, object_name_fold = $2 WHERE resource = $3 AND object_id = $4",
    );
    conn.exec(&sql.arg(nobody).arg(resource::fold(nobody)).arg(name).arg(id))?;
    let sql = Sql::new("SELECT id, changes FROM administration_log WHERE resource = $1 AND object_id = $2");
    let entries = conn.all(&sql.arg(name).arg(id), |row| Ok((row.int(0)?, row.text(1)?.to_owned())))?;
    for (entry, changes) in entries {
        let mut changes: Diff = serde_json::from_str(&changes).unwrap_or_default();
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

/// The display name of a row: its `name`, `username` or `label`, or an empty text.
pub fn name_of(values: &Changes) -> String {
    ["name", "username", "label"]
        .iter()
        .find_map(|name| match values.value(name) {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        })
        .unwrap_or_default()
}

/// The diff of a create.
pub fn created(resource: &Resource, changes: &Changes) -> Diff {
    let fields = changes.iter().filter_map(|(name, value)| Some((name, logged(resource, name)?, value)));
    fields.map(|(name, field, value)| (name.to_owned(), json!([null, logged_value(field, value)]))).collect()
}

/// The diff of a PATCH: the fields whose values differ, and every secret that was sent, as `***`.
pub fn changed(resource: &Resource, before: &Changes, changes: &Changes) -> Diff {
    let mut diff = Diff::new();
    for (name, value) in changes.iter() {
        let Some(field) = logged(resource, name) else { continue };
        let old = before.value(name);
        if is_secret(field) || old.unwrap_or(&Value::Null) != value {
            // The log does not even tell whether there was a secret before.
            let old =
                if is_secret(field) { "***".into() } else { old.map_or(Json::Null, |old| logged_value(field, old)) };
            diff.insert(name.to_owned(), json!([old, logged_value(field, value)]));
        }
    }
    diff
}

/// The field of a name, if its changes are logged: writable fields, except those that are neither stored nor shown.
fn logged<'r>(resource: &'r Resource, name: &str) -> Option<&'r Field> {
    let is_kept = |field: &Field| field.access != Access::WriteOnly || !matches!(field.source, Source::None);
    resource.field(name).filter(|field| field.is_writable() && (is_secret(field) || is_kept(field)))
}

fn is_secret(field: &Field) -> bool {
    matches!(field.kind, Kind::Secret { .. })
}

/// A field's value as the log shows it.
fn logged_value(field: &Field, value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        _ if is_secret(field) => "***".into(),
        _ if matches!(field.kind, Kind::DateTime) => value.to_json_datetime(),
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
            [Field::new("key", Kind::Secret { max: 9 }).write_only(), Field::new("name", Kind::text(9))],
        );
        let mut changes = Changes::new();
        changes.insert("key", "s3cret".into());
        changes.insert("name", "a".into());
        assert_eq!(Json::Object(created(&thing, &changes)), json!({"key": [null, "***"], "name": [null, "a"]}));
        assert_eq!(Json::Object(changed(&thing, &changes, &changes)), json!({"key": ["***", "***"]}));
        let (mut shown, mut sent) = (Changes::new(), Changes::new());
        shown.insert("name", "a".into());
        sent.insert("key", "other".into());
        assert_eq!(Json::Object(changed(&thing, &shown, &sent)), json!({"key": ["***", "***"]}));
    }
}
