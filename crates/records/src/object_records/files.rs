//! The files of records: the values of `document` fields, and `/api/object-records/{id}/files/{uuid}/`
//! (`docs/reference/object-records.md`).

use super::check::{CheckedRecord, RecordBody};
use super::record_access;
use super::write::StoredBefore;
use crate::classes::{Class, ClassField};
use crate::field_type::FieldType;
use files::stored_files::{
    EndedReferences, FILE_COLUMNS, FileReference, StoredFile, add_reference, release, release_page_of_field,
};
use files::uploads::{invalid_token, load_by_tokens};
use kit::ids::{ClassId, FieldId, FileId, RecordId};
use kit::jobs::{self, JobKind, NewJob};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{HandlerFuture, Route};
use kit::snapshot;
use resource::{Changes, CheckedValue, message};
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use store::{Conn, Sql, StoreError};
use uuid::Uuid;

/// The number of files of a deleted field that one transaction releases.
const PAGE: i64 = 1_000;

pub fn routes() -> Vec<Route> {
    vec![Route::download("/api/object-records/{record_id}/files/{uuid}/", download).instance("object_records.view")]
}

fn download(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let find = |request: &Request, conn: &mut Conn| {
            let record = record_access::load_from_path(request, conn)?;
            load_record_file(conn, record.id, request.uuid())?.ok_or_else(Refusal::not_found)
        };
        let file = snapshot::read(&request, find).await?;
        files::send(&request, &file).await
    })
}

/// Loads the file of a uuid from an existing field of a record.
fn load_record_file(conn: &mut Conn, record: RecordId, uuid: Uuid) -> Result<Option<StoredFile>, StoreError> {
    let mut sql = Sql::new("SELECT ");
    sql.push(FILE_COLUMNS).push(" FROM files f JOIN object_class_fields c ON c.id = f.field WHERE f.uuid = ");
    conn.query_optional(sql.bind(uuid.to_string()).push(" AND f.record = ").bind(record), |row| {
        StoredFile::read(row, 0)
    })
}

fn fields(class: &Class) -> impl Iterator<Item = &ClassField> {
    class.fields.iter().filter(|field| field.kind == FieldType::Document)
}

/// Replaces the tokens in bodies by the ids of their files. A token works for one value. An id must belong to a file that the
/// field contains, or that was sent beside the body.
pub fn check(
    request: &Request,
    conn: &mut Conn,
    class: &Class,
    bodies: &[RecordBody<'_>],
    before: &StoredBefore,
    checked_records: &mut [CheckedRecord],
) -> Result<(), Refusal> {
    let values = |checked: &CheckedRecord| -> Vec<(String, Vec<CheckedValue>)> {
        let value = |field: &ClassField| match checked.changes.value(&field.alias) {
            Some(CheckedValue::List(items)) => Some((field.alias.clone(), items.clone())),
            _ => None,
        };
        fields(class).filter_map(value).collect()
    };
    let all_values: Vec<_> = checked_records.iter().map(values).collect();
    let items = || all_values.iter().flatten().flat_map(|(_, items)| items);
    let tokens: HashSet<&str> = items()
        .filter_map(|item| if let CheckedValue::Text(token) = item { Some(token.as_str()) } else { None })
        .collect();
    let mut unspent = load_by_tokens(request, conn, &tokens.into_iter().collect::<Vec<_>>())?;
    let names_files = items().any(|item| matches!(item, CheckedValue::Int(_)));
    let stored = if names_files { load_current_files(conn, class, before, checked_records)? } else { HashMap::new() };
    for ((checked, body), values) in checked_records.iter_mut().zip(bodies).zip(&all_values) {
        let before = body.id.and_then(|id| stored.get(&id));
        for (alias, items) in values {
            let mut allowed_ids = before.map(|values| ids(values, alias)).unwrap_or_default();
            allowed_ids.extend(body.files);
            let (mut files, mut is_right) = (Vec::new(), true);
            for item in items {
                let (file, wrong) = match item {
                    CheckedValue::Text(token) => (unspent.remove(token).map(|file| file.id), invalid_token(token)),
                    CheckedValue::Int(id) => {
                        (Some(FileId::new(*id)).filter(|id| allowed_ids.contains(id)), message::invalid_id_message(id))
                    }
                    other => (None, message::invalid_id_message(other.to_json())),
                };
                match file {
                    Some(file) if !files.contains(&file.into()) => files.push(file.into()),
                    Some(_) => {}
                    None => {
                        checked.refuse_field(alias, wrong);
                        is_right = false;
                    }
                }
            }
            let is_required = class.field(alias).is_some_and(|field| field.is_required);
            match files.is_empty() {
                _ if !is_right => {}
                true if is_required => checked.refuse_field(alias, message::EMPTY_LIST.to_owned()),
                true => checked.changes.insert(alias.clone(), CheckedValue::Null),
                false => checked.changes.insert(alias.clone(), CheckedValue::List(files)),
            }
        }
    }
    Ok(())
}

/// Loads the values of the `document` fields that the bodies name, for the records that they change.
fn load_current_files(
    conn: &mut Conn,
    class: &Class,
    before: &StoredBefore,
    checked_records: &[CheckedRecord],
) -> Result<HashMap<RecordId, Changes>, StoreError> {
    let mut values: HashMap<RecordId, Changes> = HashMap::new();
    let is_named =
        |field: &ClassField| checked_records.iter().any(|checked| checked.changes.value(&field.alias).is_some());
    let is_wanted = |field: &ClassField| field.kind == FieldType::Document && is_named(field);
    before.for_each_record(conn, class, is_wanted, |id, alias, value| {
        values.entry(id).or_default().insert(alias.to_owned(), value.clone());
    })?;
    Ok(values)
}

fn ids(values: &Changes, alias: &str) -> Vec<FileId> {
    values.value(alias).map(CheckedValue::ids).unwrap_or_default()
}

/// Adds the references of a record to the files of its new values, and releases those that only the previous values contain.
/// Fields that are not in `values` remain unchanged.
pub fn update_references(
    request: &Request,
    conn: &mut Conn,
    class: &Class,
    record: RecordId,
    values: &Changes,
    before: Option<&Changes>,
) -> Result<(), StoreError> {
    for field in fields(class).filter(|field| values.value(&field.alias).is_some()) {
        let now = ids(values, &field.alias);
        let before = before.map(|before| ids(before, &field.alias)).unwrap_or_default();
        for file in now.iter().filter(|file| !before.contains(file)) {
            add_reference(conn, *file, FileReference::Record { record, field: field.id })?;
        }
        let files: Vec<FileId> = before.into_iter().filter(|file| !now.contains(file)).collect();
        if !files.is_empty() {
            release(request, conn, EndedReferences::OfRecord { record, files })?;
        }
    }
    Ok(())
}

/// Releases the files of a deleted field. There may be a million of them, so the job works in pages.
pub static LEFT_FILES: JobKind = JobKind {
    name: "object_class_field_files",
    run: |_, _, job| {
        let field = FieldId::new(job.payload["field"].as_i64().unwrap_or(0));
        let page =
            move |conn: &mut Conn, after: i64| Ok(release_page_of_field(conn, field, PAGE)?.then_some(after + PAGE));
        Box::pin(async move { job.run_in_pages(PAGE, page).await })
    },
    ..JobKind::LONG
};

/// Queues the release of the files of a deleted field.
pub fn leave_field(request: &Request, conn: &mut Conn, field: FieldId) -> Result<(), StoreError> {
    let key = field.to_string();
    let job = NewJob { kind: &LEFT_FILES, payload: json!({"field": field}), key: Some(&key), not_before: request.now };
    jobs::enqueue(request, conn, &job).map(drop)
}

/// Queues the release of the files of all fields of a deleted class.
pub fn leave_class(request: &Request, conn: &mut Conn, class: ClassId) -> Result<(), StoreError> {
    let sql = Sql::new("SELECT id FROM object_class_fields WHERE class_id = $1 AND type = 'document' ORDER BY id");
    let fields = conn.query_all(&sql.arg(class), |row| row.id(0))?;
    fields.into_iter().try_for_each(|field| leave_field(request, conn, field))
}
