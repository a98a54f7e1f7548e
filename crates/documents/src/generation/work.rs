//! The job that generates a document. It reads the values, writes the file and puts a copy into the history service. It ends the
//! run in one transaction, which checks the rights of the requester again.

use super::runs::{self, COMPLETED, FAILED, FIELD_NOT_UPDATED, FIELD_UPDATED, FormerDocument, Run};
use super::values::{DocumentValues, ValuesFailure, read_values};
use crate::docx::DocxError;
use crate::merge::{self, MergeBounds, MergeError};
use crate::templates::merge_fields::{MergeField, may_view_classes};
use events::file_copies::{FileCopy, client_id, put_copy};
use events::outbox::put_history;
use events::record_events::{EventSource, GeneratedDocument, RecordChangeEvent};
use files::file_name;
use files::stored_files::{
    FILE_COLUMNS, FileReference, Size, StoredFile, add_reference, announce, remove_announced_file,
};
use files::{Storage, storage_key, storage_limit, to_store_error};
use identity::{as_caller, as_caller_by_key, is_active};
use kit::app::App;
use kit::build::Build;
use kit::commit;
use kit::ids::{FieldId, FileId, RunId, UserId};
use kit::jobs::{Job, JobFailure, JobKind};
use kit::refusal::Refusal;
use kit::request::Request;
use records::record_values::may_view_all;
use records::rights::EDIT;
use records::single_records::{RecordAccess, add_file, files_of, for_change, load_record_access};
use serde_json::Value as Json;
use std::io::{BufReader, BufWriter, Seek};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::blobs::NewBlob;
use store::{Conn, Sql, StoreError};

/// The number of documents that a process generates at a time.
const AT_A_TIME: usize = 2;
/// The maximum time for writing a document.
const MERGE_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum time for the remaining steps of a run in microseconds. Afterwards its file is removed.
const END_TIMEOUT_US: i64 = 3_600_000_000;

/// Generates a document.
pub static GENERATE: JobKind = JobKind {
    name: "documents",
    at_a_time: AT_A_TIME,
    of_build: AT_A_TIME,
    patience: Duration::from_secs(180),
    // A user waits for the document when the history service or the storage is available again.
    longest_pause: Duration::from_secs(60),
    given_up_after: Duration::from_secs(7 * 86_400),
    runs_again: false,
    run: |app, build, job| Box::pin(run(app, build, job)),
    given_up: |app, _, conn, job, _| {
        runs::end(conn, id_of(job), FAILED, "The document could not be made.", app.clock.now()).map(drop)
    },
};

fn id_of(job: &Job) -> RunId {
    RunId::new(job.payload.get("run").and_then(Json::as_i64).unwrap_or(0))
}

/// The data that is read before the file is written.
struct PreparedRun {
    run: Run,
    /// The name of the file.
    name: String,
    template: StoredFile,
    values: DocumentValues,
}

/// The reason for which an attempt does not end with a file.
enum NoFile {
    /// The run was canceled or has ended.
    Over,
    /// A permanent failure. The requester sees the text.
    Failed(String),
    /// The job tries again.
    Later(String),
    /// A read or a write failed. The transaction is rolled back.
    Refused(Refusal),
}

impl From<ValuesFailure> for NoFile {
    fn from(reason: ValuesFailure) -> NoFile {
        match reason {
            ValuesFailure::Failed(text) => NoFile::Failed(text.to_owned()),
            ValuesFailure::Refused(refusal) => NoFile::Refused(refusal),
        }
    }
}

impl From<Refusal> for NoFile {
    fn from(refusal: Refusal) -> NoFile {
        NoFile::Refused(refusal)
    }
}

impl From<StoreError> for NoFile {
    fn from(error: StoreError) -> NoFile {
        NoFile::Refused(error.into())
    }
}

async fn run(app: App, build: Arc<Build>, job: Job) -> Result<(), JobFailure> {
    let id = id_of(&job);
    let error_message = match make(&app, &build, id).await {
        Ok(()) | Err(NoFile::Over) => return Ok(()),
        Err(NoFile::Later(reason)) => return Err(JobFailure::new(reason)),
        Err(NoFile::Failed(text)) => text,
        // Another attempt would exceed the limit of storage too.
        Err(NoFile::Refused(refusal)) => match refusal.exceeded_limit() {
            Some(text) => text.to_owned(),
            None => return Err(JobFailure::new(refusal.log_text())),
        },
    };
    let now = app.clock.now();
    let end = move |conn: &mut Conn| runs::end(conn, id, FAILED, &error_message, now);
    build.db.write::<_, StoreError>(end).await.map(drop).map_err(|error| JobFailure::new(error.to_string()))
}

async fn make(app: &App, build: &Arc<Build>, id: RunId) -> Result<(), NoFile> {
    let (shared_app, shared_build) = (app.clone(), build.clone());
    // The reading has error values that are not refusals.
    let load_run = move |conn: &mut Conn| Ok::<_, StoreError>(prepare(&shared_app, &shared_build, conn, id));
    let PreparedRun { run, name, template, values } = build.db.read(load_run).await??;
    let storage: &Storage = app.slot();
    let local = storage.blobs.local(&storage_key(build, &template.uuid)).await.map_err(to_store_error)?;
    let blob = storage.blobs.begin().await.map_err(to_store_error)?;
    let merged = tokio::task::spawn_blocking(move || write_document(local, values, blob));
    let (blob, values, hash) =
        merged.await.map_err(|error| NoFile::Failed(format!("The document could not be made: {error}.")))??;
    let size = blob.size() as i64;
    let equal = find_equal_document(app, build, &run, &hash, size).await?;
    let copy = equal.as_ref().and_then(|equal| equal.copy.clone());
    // An equal document reuses the file, unless the file has another name or belongs to a field of the record.
    let equal_document = equal.filter(|equal| equal.file.name == name && !equal.is_in_field);
    // Avoids a copy that would be refused at the end.
    let of_copy = if copy.is_some() { 0 } else { size };
    let document = Document { hash, size, copy, has_new_copy: false, related: values.related };
    let ending = |file| RunEnding { run: run.id, file, document };
    if let Some(document) = equal_document {
        return end(app, build, run.requester, ending(document.file.id), blob, None).await;
    }
    let (kept_until, now) = (app.clock.now() + END_TIMEOUT_US, app.clock.now());
    let announced = build.db.write(move |conn| {
        let announced = announce(conn, &name, Size::Exactly(size), None, [now, kept_until])?;
        storage_limit::check(conn, of_copy)?;
        Ok::<_, Refusal>(announced)
    });
    let (file, uuid) = announced.await?;
    let ended = end(app, build, run.requester, ending(file), blob, Some(&uuid)).await;
    if ended.is_err() {
        remove_announced_file(app, build, file).await;
    }
    ended
}

/// Returns the document of the last run of the same record and template, if it has the same content. Omits its copy if the copy
/// belongs to another client id of the history service.
async fn find_equal_document(
    app: &App,
    build: &Build,
    run: &Run,
    hash: &str,
    size: i64,
) -> Result<Option<FormerDocument>, NoFile> {
    let (equal_run, content) = (run.clone(), hash.to_owned());
    let equal = build.db.read(move |conn| runs::equal_document(conn, &equal_run, &content, size)).await?;
    let Some(mut equal) = equal else { return Ok(None) };
    if let Some(copy) = &equal.copy
        && client_id(app, build).await?.as_ref() != Some(&copy.client_id)
    {
        equal.copy = None;
    }
    Ok(Some(equal))
}

/// Ends a run with its file. Puts a copy of the document into the history service unless an equal one exists, and stores the file
/// if it has a new name.
async fn end(
    app: &App,
    build: &Arc<Build>,
    requester: UserId,
    mut ending: RunEnding,
    mut blob: NewBlob,
    uuid: Option<&str>,
) -> Result<(), NoFile> {
    let storage: &Storage = app.slot();
    let document = &mut ending.document;
    if document.copy.is_none() {
        document.copy = copy(app, build, &mut blob).await?;
        document.has_new_copy = document.copy.is_some();
    }
    if let Some(uuid) = uuid {
        storage.blobs.make_group(&build.uid).await.map_err(to_store_error)?;
        blob.finish(&storage_key(build, uuid)).await.map_err(to_store_error)?;
    }
    let caller = build.db.read(move |conn| as_caller(conn, requester)).await?;
    let request = Arc::new(Request::for_job(app, build, caller));
    let ended = commit::write(&request, move |request, conn| match finish(request, conn, &ending) {
        // The error rolls the transaction back.
        Err(NoFile::Refused(refusal)) => Err(refusal),
        ended => Ok(ended),
    });
    ended.await?
}

/// Puts a copy of a file into the history service. Returns `None` if the deployment delivers no events.
async fn copy(app: &App, build: &Arc<Build>, blob: &mut NewBlob) -> Result<Option<FileCopy>, NoFile> {
    let failed = |error: std::io::Error| NoFile::Later(error.to_string());
    let mut file = blob.file().try_clone().map_err(failed)?;
    file.rewind().map_err(failed)?;
    let put = put_copy(app, build, file, blob.size()).await.map_err(|failure| match failure.may_retry {
        true => NoFile::Later(failure.to_string()),
        false => NoFile::Failed("The document could not be put into the history.".to_owned()),
    });
    let Some(file_id) = put? else { return Ok(None) };
    Ok(client_id(app, build).await?.map(|client_id| FileCopy { client_id, file_id }))
}

/// Loads the present state of the requester. The run fails if the account is not active.
fn requester(app: &App, build: &Arc<Build>, conn: &mut Conn, run: &Run) -> Result<Request, NoFile> {
    if !is_active(conn, run.requester)? {
        return Err(NoFile::Failed("The account that asked for the document is not active.".to_owned()));
    }
    let caller = match run.api_key {
        None => as_caller(conn, run.requester)?,
        Some(key) => as_caller_by_key(conn, run.requester, key, app.clock.now())?
            .ok_or_else(|| NoFile::Failed("The API key that asked for the document has ended.".to_owned()))?,
    };
    Ok(Request::for_job(app, build, caller))
}

/// Checks the rights of the requester, and reads the values of the document.
fn prepare(app: &App, build: &Arc<Build>, conn: &mut Conn, id: RunId) -> Result<PreparedRun, NoFile> {
    let run = runs::processing(conn, id, "")?.ok_or(NoFile::Over)?;
    let request = requester(app, build, conn, &run)?;
    let mut sql = Sql::new("SELECT ");
    sql.push(FILE_COLUMNS)
        .push(", t.name, t.merge_fields FROM document_templates t JOIN files f ON f.id = t.file WHERE t.id = ");
    let template = conn.query_optional(sql.bind(run.template), |row| {
        Ok((StoredFile::read(row, 0)?, row.text(4)?.to_owned(), MergeField::read(row, 5)?))
    })?;
    let (template, name, fields) = template.ok_or(NoFile::Over)?;
    let record = load_record_access(&request, conn, run.record)?.ok_or_else(record_missing)?;
    if !may_view_classes(&request, conn, run.template)? {
        return Err(class_missing());
    }
    let values = read_values(&request, conn, &record.class, record.id, &fields)?;
    let name = file_name::clean(&format!("{}.docx", name.replace(['/', '\\'], "-")));
    Ok(PreparedRun { run, name, template, values })
}

fn record_missing() -> NoFile {
    NoFile::Failed("The record no longer exists, or you do not have permission to view it.".to_owned())
}

fn class_missing() -> NoFile {
    NoFile::Failed("You do not have permission for an object class that the document shows.".to_owned())
}

/// Writes the document. Returns its bytes, its values and the hash of the bytes.
fn write_document(
    template: std::fs::File,
    values: DocumentValues,
    mut blob: NewBlob,
) -> Result<(NewBlob, DocumentValues, String), NoFile> {
    let end = Instant::now() + MERGE_TIMEOUT;
    let mut time_left = || Instant::now() < end;
    let failed = |error: &dyn std::fmt::Display| NoFile::Failed(error.to_string());
    let mut template = merge::open_stored(BufReader::new(template)).map_err(|error| match error.kind {
        DocxError::Io => NoFile::Later(error.reason),
        _ => failed(&error),
    })?;
    let out = BufWriter::new(blob.file());
    match merge::merge(&mut template, &values, out, MergeBounds::default_bounds(&mut time_left)) {
        Ok(()) => {
            let hash = blob.sha256().map_err(|error| NoFile::Later(error.to_string()))?;
            Ok((blob, values, hash))
        }
        Err(MergeError::Io(error)) => Err(NoFile::Later(error.to_string())),
        Err(error) => Err(failed(&error)),
    }
}

/// The outcome of a run.
struct RunEnding {
    run: RunId,
    file: FileId,
    document: Document,
}

/// A document that was written.
struct Document {
    hash: String,
    size: i64,
    /// The copy in the history service.
    copy: Option<FileCopy>,
    /// False if the copy belongs to an equal document of a former run.
    has_new_copy: bool,
    related: runs::RelatedRecords,
}

/// Ends a run with its file, if the requester may still view its content. Errors other than refusals are returned before anything
/// is written.
fn finish(request: &Request, conn: &mut Conn, ending: &RunEnding) -> Result<(), NoFile> {
    let run = runs::processing(conn, ending.run, " FOR UPDATE")?.ok_or(NoFile::Over)?;
    let request =
        &request.with_caller(requester(&request.app, &request.build, conn, &run)?.caller.ok_or_else(record_missing)?);
    let record = for_change(request, conn, run.record)?.ok_or_else(record_missing)?;
    if !may_view_classes(request, conn, run.template)? {
        return Err(class_missing());
    }
    let document = &ending.document;
    for (class, ids) in &document.related {
        if !may_view_all(request, conn, *class, ids)? {
            // The next attempt reads the values again. It decides which records to omit and whether the run fails.
            return Err(NoFile::Later("a related record may not be viewed any more".to_owned()));
        }
    }
    add_reference(conn, ending.file, FileReference::Run(run.id))?;
    let (status, error_message) = put_into_field(request, conn, &run, &record, ending.file)?;
    let outcome = runs::RunFile {
        status,
        error_message,
        file: ending.file,
        content_hash: &document.hash,
        copy: document.copy.as_ref(),
        related: &document.related,
    };
    runs::end_with_file(request, conn, &run, &outcome)?;
    request.effects.after_commit(kit::jobs::wake);
    if document.has_new_copy {
        storage_limit::take_for_event(conn, document.size)?;
    }
    let Some(copy) = &document.copy else { return Ok(()) };
    let name = Sql::new("SELECT full_name FROM users WHERE id = $1").arg(run.requester);
    let name = conn.query_one(&name, |row| Ok(row.text(0)?.to_owned()))?;
    let (document_template_id, field_id) = (run.template, run.field.unwrap_or(FieldId::NONE));
    let generated = GeneratedDocument { document_template_id, field_id, file_id: &copy.file_id };
    let event = RecordChangeEvent::DocumentGenerated(generated).to_history_event(
        run.record,
        &EventSource::user(run.requester, name),
        request.now,
    );
    Ok(put_history(request, conn, &[event])?)
}

/// Puts the file into the field of the run, if the run has a field that accepts it. Returns the state of the run and the reason.
fn put_into_field(
    request: &Request,
    conn: &mut Conn,
    run: &Run,
    record: &RecordAccess,
    file: FileId,
) -> Result<(&'static str, &'static str), Refusal> {
    let Some(field_id) = run.field else { return Ok((COMPLETED, "")) };
    let Some(field) = record.class.fields.iter().find(|field| field.id == field_id) else {
        return Ok((FIELD_NOT_UPDATED, "The field no longer exists."));
    };
    if !record.allows(EDIT) {
        return Ok((FIELD_NOT_UPDATED, "You do not have permission to edit the record."));
    }
    let count = files_of(conn, &record.class, record.id)?.get(&field.alias).map_or(0, Vec::len) as i64;
    if count >= field.max_num_of_files.unwrap_or(1) {
        return Ok((FIELD_NOT_UPDATED, "The field is full."));
    }
    add_file(request, conn, record, field, file)?;
    Ok((FIELD_UPDATED, ""))
}
