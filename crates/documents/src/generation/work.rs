//! The job that makes a document: reads the values, writes the file, puts a copy of it into the history service, and ends the
//! run in one transaction, in which the rights of the requester are asked for again.

use super::runs::{self, COMPLETED, FAILED, FIELD_NOT_UPDATED, FIELD_UPDATED, Run};
use super::values::{NoValues, Values, gather};
use crate::docx::Refused;
use crate::merge::{self, Bounds, MergeError};
use crate::templates::merge_fields::{MergeField, may_view_classes};
use events::file_copies::put_copy;
use events::outbox::put_history;
use events::record_events::{Event, GeneratedDocument, Source};
use files::file_name;
use files::held::{FILE_COLUMNS, File, Holder, announce, forget, hold};
use files::{Storage, storage_key, stored};
use identity::as_caller;
use kit::app::App;
use kit::build::Build;
use kit::commit;
use kit::jobs::{Job, JobFailure, JobKind};
use kit::refusal::Refusal;
use kit::request::Request;
use records::record_values::may_view_all;
use records::rights::EDIT;
use records::single_records::{Held, add_file, files_of, for_change, of_record};
use serde_json::Value as Json;
use std::io::{BufReader, BufWriter, Seek};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::blobs::NewBlob;
use store::{Conn, Error, Sql};

/// How many documents a process makes at a time.
const AT_A_TIME: usize = 2;
/// How long writing a document may take.
const MERGE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the rest of a run may take after that, in microseconds; then its file is removed.
const END_TIMEOUT_US: i64 = 3_600_000_000;

/// Makes a document.
pub static GENERATE: JobKind = JobKind {
    name: "documents",
    at_a_time: AT_A_TIME,
    of_build: AT_A_TIME,
    patience: Duration::from_secs(180),
    // Somebody waits for it when the history service or the storage is there again.
    longest_pause: Duration::from_secs(60),
    given_up_after: Duration::from_secs(7 * 86_400),
    runs_again: false,
    run: |app, build, job| Box::pin(run(app, build, job)),
    given_up: |app, _, conn, job, _| {
        runs::end(conn, id_of(job), FAILED, "The document could not be made.", app.clock.now()).map(drop)
    },
};

fn id_of(job: &Job) -> i64 {
    job.payload.get("run").and_then(Json::as_i64).unwrap_or(0)
}

/// What is known before the file is written.
struct Prepared {
    run: Run,
    /// The name of the file.
    name: String,
    template: File,
    values: Values,
}

/// Why a try does not end with a file.
enum NoFile {
    /// The run was canceled, or is done.
    Over,
    /// For good; the text is shown to the requester.
    Failed(String),
    /// It is to be tried again.
    Later(String),
    /// Something was not written or read; a transaction is undone.
    Refused(Refusal),
}

impl From<NoValues> for NoFile {
    fn from(why: NoValues) -> NoFile {
        match why {
            NoValues::Failed(text) => NoFile::Failed(text.to_owned()),
            NoValues::Refused(refusal) => NoFile::Refused(refusal),
        }
    }
}

impl From<Refusal> for NoFile {
    fn from(refusal: Refusal) -> NoFile {
        NoFile::Refused(refusal)
    }
}

impl From<Error> for NoFile {
    fn from(error: Error) -> NoFile {
        NoFile::Refused(error.into())
    }
}

/// Why a try failed that is to be repeated.
fn reason(refusal: &Refusal) -> String {
    match &refusal.cause {
        Some(cause) => cause.to_string(),
        None => refusal.body["detail"].as_str().unwrap_or("it was refused").to_owned(),
    }
}

async fn run(app: App, build: Arc<Build>, job: Job) -> Result<(), JobFailure> {
    let id = id_of(&job);
    match make(&app, &build, id).await {
        Ok(()) | Err(NoFile::Over) => Ok(()),
        Err(NoFile::Later(reason)) => Err(JobFailure::new(reason)),
        Err(NoFile::Refused(refusal)) => Err(JobFailure::new(reason(&refusal))),
        Err(NoFile::Failed(text)) => {
            let now = app.clock.now();
            let end = move |conn: &mut Conn| runs::end(conn, id, FAILED, &text, now);
            build.db.write::<_, Error>(end).await.map(drop).map_err(|error| JobFailure::new(error.to_string()))
        }
    }
}

async fn make(app: &App, build: &Arc<Build>, id: i64) -> Result<(), NoFile> {
    let (with, of) = (app.clone(), build.clone());
    // The reading has errors of its own, which are no refusals.
    let read = move |conn: &mut Conn| Ok::<_, Error>(prepare(&with, &of, conn, id));
    let Prepared { run, name, template, values } = build.db.read(read).await??;
    let storage: &Storage = app.slot();
    let local = storage.blobs.local(&storage_key(build, &template.uuid)).await.map_err(stored)?;
    let blob = storage.blobs.begin().await.map_err(stored)?;
    let merged = tokio::task::spawn_blocking(move || fill(local, values, blob));
    let (mut blob, values) =
        merged.await.map_err(|error| NoFile::Failed(format!("The document could not be made: {error}.")))??;
    let size = blob.size();
    let copy = copy(app, build, &mut blob).await?;
    let (until, now) = (app.clock.now() + END_TIMEOUT_US, app.clock.now());
    let requester = run.requester;
    let announced = build.db.write(move |conn| announce(conn, &name, size as i64, None, [now, until]));
    let (file, uuid) = announced.await.map_err(|error: Error| NoFile::from(error))?;
    let ending = Ending { run: id, file, copy, related: values.related };
    let ended = end(app, build, requester, blob, &uuid, ending).await;
    if ended.is_err() {
        forget(app, build, file, &uuid).await;
    }
    ended
}

/// Stores the file of a run, and ends the run with it.
async fn end(
    app: &App,
    build: &Arc<Build>,
    requester: i64,
    blob: NewBlob,
    uuid: &str,
    ending: Ending,
) -> Result<(), NoFile> {
    let storage: &Storage = app.slot();
    storage.blobs.make_group(&build.uid).await.map_err(stored)?;
    blob.finish(&storage_key(build, uuid)).await.map_err(stored)?;
    let caller = build.db.read(move |conn| as_caller(conn, requester)).await?;
    let request = Arc::new(Request::of_job(app, build, caller));
    let ended = commit::write(&request, move |request, conn| match finish(request, conn, &ending) {
        // Nothing of it may be kept.
        Err(NoFile::Refused(refusal)) => Err(refusal),
        ended => Ok(ended),
    });
    ended.await?
}

/// Puts a copy of a file into the history service. There is none where nothing is delivered.
async fn copy(app: &App, build: &Arc<Build>, blob: &mut NewBlob) -> Result<Option<String>, NoFile> {
    let failed = |error: std::io::Error| NoFile::Later(error.to_string());
    let mut file = blob.file().try_clone().map_err(failed)?;
    file.rewind().map_err(failed)?;
    put_copy(app, build, file, blob.size()).await.map_err(|failure| match failure.may_retry {
        true => NoFile::Later(failure.to_string()),
        false => NoFile::Failed("The document could not be put into the history.".to_owned()),
    })
}

/// The requester as he is now; a run of somebody who is gone fails.
fn requester(app: &App, build: &Arc<Build>, conn: &mut Conn, run: &Run) -> Result<Request, NoFile> {
    let sql = Sql::new("SELECT 1 FROM users WHERE id = $1 AND is_deleted = 0 AND status = 'active'").arg(run.requester);
    if conn.opt(&sql, |_| Ok(()))?.is_none() {
        return Err(NoFile::Failed("The account that asked for the document is not active.".to_owned()));
    }
    Ok(Request::of_job(app, build, as_caller(conn, run.requester)?))
}

/// Checks the rights of the requester, and reads what the document shows.
fn prepare(app: &App, build: &Arc<Build>, conn: &mut Conn, id: i64) -> Result<Prepared, NoFile> {
    let run = runs::processing(conn, id, "")?.ok_or(NoFile::Over)?;
    let request = requester(app, build, conn, &run)?;
    let mut sql = Sql::new("SELECT ");
    sql.push(FILE_COLUMNS)
        .push(", t.name, t.merge_fields FROM document_templates t JOIN files f ON f.id = t.file WHERE t.id = ");
    let template = conn.opt(sql.bind(run.template), |row| {
        Ok((File::read(row, 0)?, row.text(4)?.to_owned(), row.text(5)?.to_owned()))
    })?;
    let (template, name, fields) = template.ok_or(NoFile::Over)?;
    let held = of_record(&request, conn, run.record)?.ok_or_else(no_record)?;
    if !may_view_classes(&request, conn, run.template)? {
        return Err(no_class());
    }
    let values = gather(&request, conn, &held.class, held.id, &MergeField::from_json(&fields))?;
    let name = file_name::clean(&format!("{}.docx", name.replace(['/', '\\'], "-")));
    Ok(Prepared { run, name, template, values })
}

fn no_record() -> NoFile {
    NoFile::Failed("The record no longer exists, or you do not have permission to view it.".to_owned())
}

fn no_class() -> NoFile {
    NoFile::Failed("You do not have permission for an object class that the document shows.".to_owned())
}

/// Writes the document.
fn fill(template: std::fs::File, values: Values, mut blob: NewBlob) -> Result<(NewBlob, Values), NoFile> {
    let end = Instant::now() + MERGE_TIMEOUT;
    let mut time_left = || Instant::now() < end;
    let failed = |error: &dyn std::fmt::Display| NoFile::Failed(error.to_string());
    let mut template = merge::open_stored(BufReader::new(template)).map_err(|error| match error.kind {
        Refused::Io => NoFile::Later(error.reason),
        _ => failed(&error),
    })?;
    let out = BufWriter::new(blob.file());
    match merge::merge(&mut template, &values, out, Bounds::usual(&mut time_left)) {
        Ok(()) => Ok((blob, values)),
        Err(MergeError::Io(error)) => Err(NoFile::Later(error.to_string())),
        Err(error) => Err(failed(&error)),
    }
}

/// How a run ends.
struct Ending {
    run: i64,
    file: i64,
    /// The copy in the history service.
    copy: Option<String>,
    related: runs::Related,
}

/// Ends a run with its file, if the requester may still see what it shows. Whatever else than a refusal is returned as an error,
/// is so before anything is written.
fn finish(request: &Request, conn: &mut Conn, ending: &Ending) -> Result<(), NoFile> {
    let run = runs::processing(conn, ending.run, " FOR UPDATE")?.ok_or(NoFile::Over)?;
    let request = &request.by(requester(&request.app, &request.build, conn, &run)?.caller.ok_or_else(no_record)?);
    let held = for_change(request, conn, run.record)?.ok_or_else(no_record)?;
    if !may_view_classes(request, conn, run.template)? {
        return Err(no_class());
    }
    for (class, ids) in &ending.related {
        if !may_view_all(request, conn, *class, ids)? {
            // What is left out, and what makes the run fail, is decided when the values are read again.
            return Err(NoFile::Later("a related record may not be viewed any more".to_owned()));
        }
    }
    hold(conn, ending.file, Holder::Run(run.id))?;
    let outcome = put_into_field(request, conn, &run, &held, ending.file)?;
    runs::end_with_file(request, conn, &run, outcome, ending.file, &ending.related)?;
    request.effects.after_commit(kit::jobs::wake);
    let Some(file_id) = ending.copy.as_deref() else { return Ok(()) };
    let name = Sql::new("SELECT full_name FROM users WHERE id = $1").arg(run.requester);
    let name = conn.one(&name, |row| Ok(row.text(0)?.to_owned()))?;
    let document = GeneratedDocument { document_template_id: run.template, field_id: run.field.unwrap_or(0), file_id };
    let event = Event::DocumentGenerated(document).of(run.record, &Source::user(run.requester, name), request.now);
    Ok(put_history(request, conn, &[event])?)
}

/// Puts the file into the field of the run, if there is one and it takes the file; the state of the run, and why not.
fn put_into_field(
    request: &Request,
    conn: &mut Conn,
    run: &Run,
    held: &Held,
    file: i64,
) -> Result<(&'static str, &'static str), Refusal> {
    let Some(wanted) = run.field else { return Ok((COMPLETED, "")) };
    let Some(field) = held.class.fields.iter().find(|field| field.id == wanted) else {
        return Ok((FIELD_NOT_UPDATED, "The field no longer exists."));
    };
    if !held.may(EDIT) {
        return Ok((FIELD_NOT_UPDATED, "You do not have permission to edit the record."));
    }
    let count = files_of(conn, &held.class, held.id)?.get(&field.alias).map_or(0, Vec::len) as i64;
    if count >= field.max_num_of_files.unwrap_or(1) {
        return Ok((FIELD_NOT_UPDATED, "The field is full."));
    }
    add_file(request, conn, held, field, file)?;
    Ok((FIELD_UPDATED, ""))
}
