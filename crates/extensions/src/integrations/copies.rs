//! Copies of documents: files that are added to the field of an integration are copied to the deployment's document store, at
//! `{build domain}/{folder}/{record id}/{file name}`.
//!
//! A row of `document_copies` and a job are written in the transaction of the event with the file. The job chooses a free name,
//! stores it in the row, and then writes. A repeated job therefore writes under the same name.

use crate::settings::store_of_documents;
use events::outbox::OutboxHistoryEvent;
use files::file_name::split;
use files::stored_files::{FILE_COLUMNS, StoredFile};
use files::{Storage, storage_key};
use kit::app::App;
use kit::build::Build;
use kit::ids::{FieldId, IntegrationId, RecordId};
use kit::jobs::{self, Job, JobFailure, JobKind};
use kit::refusal::Refusal;
use kit::request::Request;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;
use store::{BorrowedArgument, Conn, Sql, StoreError};
use tokio::task::spawn_blocking;
use web::clock::hex;

/// The types of events with new files: the creation of a record, and the change of values.
const TELLING: [i64; 2] = [1, 7];
/// The maximum number of names that are tried for a file.
const MAX_NAMES: u32 = 10_000;
/// The maximum length of the name of a copy, in bytes. It leaves space for a number.
const MAX_NAME_BYTES: usize = 200;
/// The number of bytes of a file that are read at a time.
const PIECE: usize = 256 * 1024;

pub static COPY: JobKind = JobKind {
    name: "document_copy",
    at_a_time: 4,
    of_build: 1,
    patience: Duration::from_secs(900),
    longest_pause: Duration::from_secs(300),
    given_up_after: Duration::from_secs(7 * 86_400),
    run: |app, build, job| Box::pin(async move { run(&app, &build, &job).await }),
    given_up: |_, _, conn, job, _| delete_copy_state(conn, id_of(job)),
    ..JobKind::LONG
};

fn id_of(job: &Job) -> i64 {
    job.payload["copy"].as_i64().unwrap_or(0)
}

fn delete_copy_state(conn: &mut Conn, copy: i64) -> Result<(), StoreError> {
    conn.exec(&Sql::new("DELETE FROM document_copies WHERE id = $1").arg(copy)).map(drop)
}

/// An entry of an event.
#[derive(Deserialize)]
struct EventFile {
    field_id: FieldId,
    field_type: String,
    field_value: Json,
}

/// Enqueues copies of the files in events. `fields` maps fields to their integrations.
pub fn enqueue_copies(
    request: &Request,
    conn: &mut Conn,
    events: &[OutboxHistoryEvent],
    fields: &HashMap<FieldId, Vec<IntegrationId>>,
) -> Result<(), Refusal> {
    let mut rows = Vec::new();
    for event in events.iter().filter(|event| TELLING.contains(&event.event_type_id)) {
        let entries = event.event_data.iter().filter_map(|entry| serde_json::from_str::<EventFile>(entry).ok());
        for entry in entries.filter(|entry| entry.field_type == "document") {
            for integration in fields.get(&entry.field_id).into_iter().flatten() {
                let row = |file: i64| {
                    [integration.get(), event.record_id.get(), file, request.now].map(BorrowedArgument::Int)
                };
                rows.extend(files_of(&entry.field_value).into_iter().map(row));
            }
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    let columns = ["integration", "record", "file", "created_at"];
    // Former files of the field already have their rows.
    let ids = conn.insert_rows("document_copies", &columns, &rows, " ON CONFLICT DO NOTHING RETURNING id")?;
    let payloads = ids.into_iter().map(|copy| json!({"copy": copy})).collect();
    Ok(jobs::put_many(request, conn, &COPY, payloads)?)
}

fn files_of(value: &Json) -> Vec<i64> {
    match value {
        Json::Array(items) => items.iter().filter_map(Json::as_i64).collect(),
        other => other.as_i64().into_iter().collect(),
    }
}

// ---- The job -------------------------------------------------------------------------------------------------------

/// A file to copy, and its destination.
struct Copy {
    id: i64,
    integration: IntegrationId,
    record: RecordId,
    path: Option<String>,
    folder: String,
    dedupe: bool,
    is_enabled: bool,
    file: StoredFile,
}

/// Reads an unfinished copy whose file is still a value of the integration's field.
fn read(conn: &mut Conn, id: i64) -> Result<Option<Copy>, StoreError> {
    let mut sql = Sql::new("SELECT c.id, c.integration, c.record, c.path, t.folder, t.dedupe, t.is_enabled, ");
    sql.push(FILE_COLUMNS).push(
        " FROM document_copies c JOIN integrations t ON t.id = c.integration \
         JOIN files f ON f.id = c.file AND f.record = c.record AND f.field = t.field_id WHERE c.copied_at IS NULL AND c.id = ",
    );
    conn.query_optional(sql.bind(id), |row| {
        Ok(Copy {
            id: row.int(0)?,
            integration: row.id(1)?,
            record: row.id(2)?,
            path: row.opt_text(3)?.map(str::to_owned),
            folder: row.text(4)?.to_owned(),
            dedupe: row.flag(5)?,
            is_enabled: row.flag(6)?,
            file: StoredFile::read(row, 7)?,
        })
    })
}

async fn run(app: &App, build: &Arc<Build>, job: &Job) -> Result<(), JobFailure> {
    let id = id_of(job);
    let failed = |error: StoreError| JobFailure::new(error.to_string());
    let Some(copy) = build.db.read::<_, StoreError>(move |conn| read(conn, id)).await.map_err(failed)? else {
        // The copy is finished, or its file is no longer a value of the field.
        let sql = "DELETE FROM document_copies WHERE copied_at IS NULL AND id = $1";
        let drop_row = move |conn: &mut Conn| conn.exec(&Sql::new(sql).arg(id));
        return build.db.write::<_, StoreError>(drop_row).await.map(drop).map_err(failed);
    };
    if !copy.is_enabled {
        return Err(JobFailure::new("the integration is disabled"));
    }
    let store = store_of_documents(app).ok_or_else(|| JobFailure::new("there is no document store"))?;
    let blobs = &app.slot::<Storage>().blobs;
    let of_store = |error: store::blobs::BlobError| JobFailure::new(error.to_string());
    let file = Arc::new(blobs.local(&storage_key(build, &copy.file.uuid)).await.map_err(of_store)?);
    let path = match copy.path.clone() {
        Some(path) => Some(path),
        None => {
            let content = content_of(file.clone()).await.map_err(|error| JobFailure::new(error.to_string()))?;
            choose(build, store, &copy, &content).await?
        }
    };
    if let Some(path) = path {
        store.write_file(&format!("{}/{path}", build.domain), file).await.map_err(of_store)?;
    }
    let now = app.clock.now();
    let sql = "UPDATE document_copies SET copied_at = $1 WHERE id = $2";
    let note = move |conn: &mut Conn| conn.exec(&Sql::new(sql).arg(now).arg(id));
    build.db.write::<_, StoreError>(note).await.map(drop).map_err(failed)
}

/// Returns the SHA-256 of a file.
async fn content_of(file: Arc<std::fs::File>) -> std::io::Result<String> {
    let read_file = move || {
        let (mut digest, mut at, mut piece) = (Sha256::new(), 0, vec![0; PIECE]);
        loop {
            match file.read_at(&mut piece, at)? {
                0 => return Ok(hex(&digest.finalize())),
                bytes => {
                    digest.update(&piece[..bytes]);
                    at += bytes as u64;
                }
            }
        }
    };
    spawn_blocking(read_file).await.unwrap_or_else(|error| Err(std::io::Error::other(error)))
}

/// The outcome of an attempt with a name.
enum NameOutcome {
    Taken,
    Free,
    Lost,
    /// A copy with the same content exists.
    Doubled,
}

/// Chooses a path that no copy and no other file has, and stores it. Returns `None` if a copy with the same content exists.
async fn choose(
    build: &Arc<Build>,
    store: &store::blobs::DocumentStore,
    copy: &Copy,
    content: &str,
) -> Result<Option<String>, JobFailure> {
    for number in 1..=MAX_NAMES {
        let folder = copy.folder.trim_end_matches('/');
        let path = format!("{folder}/{}/{}", copy.record, numbered(&copy.file.name, number));
        let whole = format!("{}/{path}", build.domain);
        let (id, integration, record, dedupe) = (copy.id, copy.integration, copy.record, copy.dedupe);
        let is_free = !store.exists(&whole).await.map_err(|error| JobFailure::new(error.to_string()))?;
        let (chosen_path, hash) = (path.clone(), content.to_owned());
        let write = move |conn: &mut Conn| {
            // The lock serializes two files with the same content.
            conn.query_optional(
                &Sql::new("SELECT id FROM integrations WHERE id = $1 FOR UPDATE").arg(integration),
                |_| Ok(()),
            )?;
            if dedupe {
                let sql = Sql::new(
                    "SELECT 1 FROM document_copies WHERE integration = $1 AND record = $2 AND content = $3 AND id <> $4 \
                     AND path IS NOT NULL LIMIT 1",
                );
                let sql = sql.arg(integration).arg(record).arg(&hash).arg(id);
                if conn.query_optional(&sql, |_| Ok(()))?.is_some() {
                    return Ok(NameOutcome::Doubled);
                }
            }
            let sql = Sql::new("SELECT 1 FROM document_copies WHERE path = $1").arg(&chosen_path);
            if !is_free || conn.query_optional(&sql, |_| Ok(()))?.is_some() {
                return Ok(NameOutcome::Taken);
            }
            let sql = Sql::new("UPDATE document_copies SET path = $1, content = $2 WHERE id = $3 AND path IS NULL");
            match conn.exec(&sql.arg(&chosen_path).arg(&hash).arg(id))? {
                // Another process has chosen a path meanwhile, and copies the file.
                0 => Ok(NameOutcome::Lost),
                _ => Ok(NameOutcome::Free),
            }
        };
        match build.db.write::<_, StoreError>(write).await {
            Ok(NameOutcome::Free) => return Ok(Some(path)),
            Ok(NameOutcome::Doubled) => return Ok(None),
            Ok(NameOutcome::Lost) => return Err(JobFailure::new("it was taken over")),
            Ok(NameOutcome::Taken) | Err(StoreError::Unique(_)) => {}
            Err(error) => return Err(JobFailure::new(error.to_string())),
        }
    }
    Err(JobFailure::new("all names are taken"))
}

/// Adds a number before the extension of a name, except for the number 1.
fn numbered(name: &str, number: u32) -> String {
    let (stem, extension) = split(name);
    let most = MAX_NAME_BYTES.saturating_sub(extension.len()).max(1);
    let stem = &stem[..stem.floor_char_boundary(most)];
    let extension = &extension[..extension.floor_char_boundary(MAX_NAME_BYTES)];
    if number == 1 { format!("{stem}{extension}") } else { format!("{stem}_{number}{extension}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_before_the_extension() {
        for (name, number, expected) in [
            ("report.pdf", 1, "report.pdf"),
            ("report.pdf", 2, "report_2.pdf"),
            ("a.tar.gz", 3, "a.tar_3.gz"),
            (".txt", 2, ".txt_2"),
        ] {
            assert_eq!(numbered(name, number), expected);
        }
        let long = numbered(&format!("{}.docx", "ä".repeat(250)), 10_000);
        assert!(long.len() <= 210 && long.ends_with("_10000.docx"), "{long}");
    }
}
