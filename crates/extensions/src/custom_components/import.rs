//! The job that imports a repository, and the standing job that installs components after an import.
//!
//! The files of a commit become one stored file. It replaces the former one in the transaction that ends the import. Until then,
//! and if an import fails, the former files are served.

use super::PERMISSIONS;
use super::config::{self, CONFIG, Config, INDEX};
use super::git::{self, Credentials, GitError, Id, Objects, ServedFile, files_of};
use super::repository::{REPOSITORY, TOKEN, failure_of_url};
use files::stored_files::{
    EndedReferences, FileReference, Size, add_reference, announce, release_by_job, remove_announced_file,
};
use files::{Storage, storage_key, to_store_error};
use identity::as_caller;
use kit::app::App;
use kit::build::Build;
use kit::ids::{ComponentRepositoryId, FileId, UserId};
use kit::jobs::{self, Job, JobFailure, JobFuture, JobKind, NewJob, StandingJob};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows;
use resource::{Errors, message};
use serde_json::json;
use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::blobs::NewBlob;
use store::{BorrowedArgument as SqlValue, Conn, Sql, StoreError};
use web::shares::{ShareAccount, ShareBounds, Shares};

/// The maximum number of commits that a process reads at a time. Each allocates about 40 MiB. Receiving them needs little memory.
const READ_AT_A_TIME: usize = 4;
/// The maximum time for which a received commit waits to be read.
const READ_PATIENCE: Duration = Duration::from_secs(120);
/// The maximum time in which a server sends a commit.
const FETCH_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum time for reading the received data.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum time for storing the files, in microseconds. After it they count as left by a dead process.
const END_TIMEOUT_US: i64 = 600_000_000;

/// The job that imports a repository. An error of the repository or its server ends it. An error of this deployment's storage
/// causes a retry.
pub static IMPORT: JobKind = JobKind {
    name: "custom_component_import",
    at_a_time: 16,
    of_build: 1,
    patience: Duration::from_secs(600),
    longest_pause: Duration::from_secs(300),
    given_up_after: Duration::from_secs(3600),
    runs_again: true,
    run: |app, build, job| Box::pin(run(app, build, job)),
    given_up: |_, _, conn, job, _| {
        let sql = Sql::new("SELECT import_n FROM custom_component_repositories WHERE id = $1").arg(id_of(job));
        match conn.query_optional(&sql, |row| row.int(0))? {
            Some(n) => fail(conn, id_of(job), n, &failure_of_url(&GitError::Disk.to_string())),
            None => Ok(()),
        }
    },
};

/// The permits for the commits that a process reads.
pub struct CommitPermits(Shares);

impl Default for CommitPermits {
    fn default() -> CommitPermits {
        CommitPermits(Shares::new(ShareBounds { total: READ_AT_A_TIME, build: 1, account: 1, kept: 0 }))
    }
}

/// Enqueues the job of a repository, in the transaction that requests the import.
pub fn enqueue_import(request: &Request, conn: &mut Conn, repository: ComponentRepositoryId) -> Result<(), StoreError> {
    let (payload, key) = (json!({"repository": repository}), repository.to_string());
    let job = NewJob { kind: &IMPORT, payload, key: Some(&key), not_before: request.now };
    let job = jobs::enqueue(request, conn, &job)?;
    let sql = Sql::new("UPDATE custom_component_repositories SET job = $1 WHERE id = $2").arg(job).arg(repository);
    conn.exec(&sql).map(drop)
}

/// Cancels the job of a repository that is deleted.
pub fn cancel(request: &Request, conn: &mut Conn, repository: ComponentRepositoryId) -> Result<(), StoreError> {
    let sql = Sql::new("SELECT job FROM custom_component_repositories WHERE id = $1").arg(repository);
    match conn.query_one(&sql, |row| row.opt_id(0))? {
        Some(job) => jobs::cancel(request, conn, job),
        None => Ok(()),
    }
}

fn id_of(job: &Job) -> ComponentRepositoryId {
    ComponentRepositoryId::new(job.payload["repository"].as_i64().unwrap_or(0))
}

/// The import that was requested last.
struct RequestedImport {
    url: String,
    /// `None` if the token cannot be decrypted.
    credentials: Option<Credentials>,
    /// The number of the import.
    n: i64,
    /// Is true if the user who requested it may still import.
    is_permitted: bool,
}

/// The reason why an import failed.
enum NotImported {
    /// The repository or its server caused the failure.
    Failed(Errors),
    /// This deployment's storage caused the failure. Another attempt may succeed.
    Later(String),
}

impl From<GitError> for NotImported {
    fn from(error: GitError) -> NotImported {
        match error {
            GitError::Disk => NotImported::Later("the disk failed".to_owned()),
            error => NotImported::Failed(failure_of_url(&error.to_string())),
        }
    }
}

impl From<Refusal> for NotImported {
    fn from(refusal: Refusal) -> NotImported {
        match refusal.exceeded_limit() {
            Some(text) => NotImported::Failed(failure_of_url(text)),
            None => NotImported::Later(refusal.log_text()),
        }
    }
}

impl From<StoreError> for NotImported {
    fn from(error: StoreError) -> NotImported {
        NotImported::Later(error.to_string())
    }
}

async fn run(app: App, build: Arc<Build>, job: Job) -> Result<(), JobFailure> {
    let id = id_of(&job);
    let later = |error: StoreError| JobFailure::new(error.to_string());
    let (shared_app, shared_build) = (app.clone(), build.clone());
    let requested =
        build.db.read(move |conn| load_requested_import(&shared_app, &shared_build, conn, id)).await.map_err(later)?;
    let Some(requested) = requested else { return Ok(()) };
    let n = requested.n;
    match import(&app, &build, id, requested).await {
        Ok(()) => {}
        Err(NotImported::Later(reason)) => return Err(JobFailure::new(reason)),
        Err(NotImported::Failed(errors)) => {
            tracing::info!(build = build.domain, repository = id.get(), "an import failed");
            build.db.write(move |conn| fail(conn, id, n, &errors)).await.map_err(later)?;
        }
    }
    // Files without references are removed, and waiting components are installed.
    jobs::wake(&app, &build);
    Ok(())
}

/// Loads the requested import. Returns `None` if the repository was deleted or the import has ended.
fn load_requested_import(
    app: &App,
    build: &Build,
    conn: &mut Conn,
    id: ComponentRepositoryId,
) -> Result<Option<RequestedImport>, StoreError> {
    let sql = Sql::new(
        "SELECT repository_url, username, import_n, import_by, token_row, token FROM custom_component_repositories \
         WHERE id = $1 AND status = 'processing'",
    );
    let row = conn.query_optional(&sql.arg(id), |row| {
        let token = rows::open_secret(&app.keys, build, &REPOSITORY, &TOKEN, row, 4)?;
        let username = row.text(1)?.to_owned();
        let credentials = token.map(|token| Credentials { username, token });
        Ok((
            RequestedImport { url: row.text(0)?.to_owned(), credentials, n: row.int(2)?, is_permitted: false },
            row.id(3)?,
        ))
    })?;
    let Some((mut requested, importer)) = row else { return Ok(None) };
    requested.is_permitted = may_import(conn, importer)?;
    Ok(Some(requested))
}

/// Returns whether an account may import repositories. The actions `create` and `edit` are independent, and each is sufficient.
fn may_import(conn: &mut Conn, user: UserId) -> Result<bool, StoreError> {
    let active = Sql::new("SELECT 1 FROM users WHERE id = $1 AND is_deleted = 0 AND status = 'active'").arg(user);
    if conn.query_optional(&active, |_| Ok(()))?.is_none() {
        return Ok(false);
    }
    let caller = as_caller(conn, user)?;
    Ok(["create", "edit"].iter().any(|action| caller.has_permission(PERMISSIONS.name, action)))
}

async fn import(
    app: &App,
    build: &Arc<Build>,
    id: ComponentRepositoryId,
    requested: RequestedImport,
) -> Result<(), NotImported> {
    let credentials = requested.credentials.filter(|_| requested.is_permitted).ok_or(GitError::Unreachable)?;
    let storage: &Storage = app.slot();
    let mut pack = storage.blobs.begin().await.map_err(to_store_error)?;
    let fetched = git::fetch(&requested.url, &credentials, &app.settings.outbound_allow, &mut pack);
    let fetched = tokio::time::timeout(FETCH_TIMEOUT, fetched).await.map_err(|_| GitError::Unreachable)?;
    // An empty repository has no files.
    let commit = fetched?.ok_or_else(|| NotImported::Failed(missing_file_errors(&[CONFIG, INDEX])))?;
    let (scratch, archive) =
        (storage.blobs.begin().await.map_err(to_store_error)?, storage.blobs.begin().await.map_err(to_store_error)?);
    let place =
        app.slot::<CommitPermits>().0.acquire(&build.holder(ShareAccount::Id(id.get())), 1, READ_PATIENCE).await;
    let place = place.ok_or_else(|| NotImported::Later("too many commits are read".to_owned()))?;
    let reading = tokio::task::spawn_blocking(move || {
        let _place = place;
        read(pack, scratch, archive, commit)
    });
    let imported = reading.await.map_err(|error| NotImported::Later(format!("it ended early: {error}")))??;
    end(app, build, id, requested.n, imported).await
}

/// The result of reading a repository.
struct ImportOutcome {
    commit: Id,
    config: Config,
    /// The concatenated files.
    archive: NewBlob,
    places: Vec<ArchivePosition>,
}

/// The position of a file in the archive.
struct ArchivePosition {
    path: String,
    start: u64,
    size: u64,
}

/// Reads the objects of a pack and writes the files of a commit into an archive.
fn read(
    mut pack: NewBlob,
    mut scratch: NewBlob,
    mut archive: NewBlob,
    commit: Id,
) -> Result<ImportOutcome, NotImported> {
    let deadline = Instant::now() + READ_TIMEOUT;
    let objects = Objects::read(pack.file(), scratch.file(), deadline)?;
    let files = files_of(&objects, commit, deadline)?;
    let config = configuration(&objects, &files)?;
    let places = write(&objects, files, &mut archive)?;
    Ok(ImportOutcome { commit, config, archive, places })
}

/// Checks that the required files exist, and reads the configuration.
fn configuration(objects: &Objects<'_>, files: &[ServedFile]) -> Result<Config, NotImported> {
    let find = |path: &str| files.iter().find(|file| file.path == path);
    let missing: Vec<&str> = [CONFIG, INDEX].into_iter().filter(|path| find(path).is_none()).collect();
    let mut errors = missing_file_errors(&missing);
    let Some(file) = find(CONFIG) else { return Err(NotImported::Failed(errors)) };
    let config = match file.object.size > config::MAX_BYTES {
        true => Err(Errors::single(CONFIG, message::too_long(config::MAX_CHARACTERS))),
        false => config::read(objects.bytes(file.object)?),
    };
    match config {
        Ok(config) if errors.is_empty() => Ok(config),
        Ok(_) => Err(NotImported::Failed(errors)),
        Err(wrong) => {
            errors.merge(wrong);
            Err(NotImported::Failed(errors))
        }
    }
}

fn missing_file_errors(files: &[&str]) -> Errors {
    let mut errors = Errors::new();
    files.iter().for_each(|file| errors.add(file, "This file is required."));
    errors
}

fn write(
    objects: &Objects<'_>,
    files: Vec<ServedFile>,
    archive: &mut NewBlob,
) -> Result<Vec<ArchivePosition>, NotImported> {
    let failed = |error: std::io::Error| NotImported::Later(error.to_string());
    let mut out = BufWriter::new(archive.file());
    // Equal bytes at several paths are stored once.
    let mut starts: HashMap<Id, u64> = HashMap::new();
    let (mut end, mut places) = (0, Vec::with_capacity(files.len()));
    for ServedFile { path, id, object } in files {
        let start = match starts.get(&id) {
            Some(start) => *start,
            None => {
                out.write_all(&objects.bytes(object)?).map_err(failed)?;
                starts.insert(id, end);
                end += object.size;
                end - object.size
            }
        };
        places.push(ArchivePosition { path, start, size: object.size });
    }
    out.flush().map_err(failed)?;
    Ok(places)
}

/// Stores the files of an import, which are then served.
async fn end(
    app: &App,
    build: &Arc<Build>,
    id: ComponentRepositoryId,
    n: i64,
    imported: ImportOutcome,
) -> Result<(), NotImported> {
    let ImportOutcome { commit, config, archive, places } = imported;
    let storage: &Storage = app.slot();
    let (size, now) = (archive.size(), app.clock.now());
    let name = format!("{commit}.component");
    let (size, kept_until) = (Size::Exactly(size as i64), now + END_TIMEOUT_US);
    let (file, uuid) = build.db.write(move |conn| announce(conn, &name, size, None, [now, kept_until])).await?;
    let stored = async {
        storage.blobs.make_group(&build.uid).await.map_err(to_store_error)?;
        archive.finish(&storage_key(build, &uuid)).await.map_err(to_store_error)?;
        build.db.write(move |conn| install(conn, id, n, file, &commit.to_string(), &config, &places, now)).await
    };
    let ended: Result<bool, StoreError> = stored.await;
    if !matches!(ended, Ok(true)) {
        remove_announced_file(app, build, file).await;
    }
    Ok(ended.map(drop)?)
}

/// Replaces the former files by those of an import. Returns false if another import was requested meanwhile, the repository was
/// deleted, or the user who requested the import may no longer import.
#[allow(clippy::too_many_arguments, reason = "the columns of the row")]
fn install(
    conn: &mut Conn,
    id: ComponentRepositoryId,
    n: i64,
    file: FileId,
    commit: &str,
    config: &Config,
    places: &[ArchivePosition],
    now: i64,
) -> Result<bool, StoreError> {
    let asked_by = Sql::new(
        "SELECT import_by FROM custom_component_repositories WHERE id = $1 AND import_n = $2 AND status = 'processing' \
         FOR UPDATE",
    );
    let Some(importer) = conn.query_optional(&asked_by.arg(id).arg(n), |row| row.id(0))? else { return Ok(false) };
    if !may_import(conn, importer)? {
        fail(conn, id, n, &failure_of_url(&GitError::Unreachable.to_string()))?;
        return Ok(false);
    }
    let sql = Sql::new(
        "UPDATE custom_component_repositories SET status = 'imported', errors = NULL, version = $1, publisher = $2, \
         publisher_url = $3, logo = $4, parameters = $5, commit_id = $6, file = $7, imported_at = $8 WHERE id = $9",
    );
    let sql =
        sql.arg(&config.version).arg(&config.publisher).arg(config.publisher_url.clone()).arg(config.logo.clone());
    let sql = sql.arg(config.parameters.to_string()).arg(commit).arg(file).arg(now).arg(id);
    conn.exec(&sql)?;
    release_by_job(conn, EndedReferences::OfComponentRepository(id))?;
    add_reference(conn, file, FileReference::ComponentRepository(id))?;
    conn.exec(&Sql::new("DELETE FROM custom_component_files WHERE repository = $1").arg(id))?;
    let number = |number: u64| SqlValue::Int(number as i64);
    let rows: Vec<_> = (places.iter())
        .map(|place| [id.into(), SqlValue::Text(&place.path), number(place.start), number(place.size)])
        .collect();
    conn.insert_rows("custom_component_files", &["repository", "path", "start", "size"], &rows, "")?;
    Ok(true)
}

/// Stores the reason why an import failed, unless another one was requested meanwhile.
fn fail(conn: &mut Conn, id: ComponentRepositoryId, n: i64, errors: &Errors) -> Result<(), StoreError> {
    let sql = Sql::new(
        "UPDATE custom_component_repositories SET status = 'failed', errors = $1 \
         WHERE id = $2 AND import_n = $3 AND status = 'processing'",
    );
    conn.exec(&sql.arg(errors.to_json().to_string()).arg(id).arg(n)).map(drop)
}

// ---- Components ------------------------------------------------------------------------------------------------------

/// SQL for components that still wait although their repository's import has ended.
const ENDED: &str = "status = 'processing' AND repository IN \
    (SELECT r.id FROM custom_component_repositories r WHERE r.status <> 'processing')";

/// Sets the status of components whose repository's import has ended.
pub static INSTALL: StandingJob =
    StandingJob { name: "custom components", at_a_time: 4, due: install_is_due, run: install_components };

fn install_is_due(_: &App, _: &Build, conn: &mut Conn, _: i64) -> Result<Option<i64>, StoreError> {
    let mut sql = Sql::new("SELECT CASE WHEN EXISTS (SELECT 1 FROM custom_components WHERE ");
    sql.push(ENDED).push(") THEN 0 ELSE NULL END");
    conn.query_one(&sql, |row| row.opt_int(0))
}

fn install_components(app: App, build: Arc<Build>) -> JobFuture<Result<(), StoreError>> {
    Box::pin(async move {
        let _place = jobs::acquire_permit(&app, INSTALL.name).await;
        build.db.write(settle).await
    })
}

fn settle(conn: &mut Conn) -> Result<(), StoreError> {
    let mut sql = Sql::new(
        "UPDATE custom_components SET status = CASE WHEN (SELECT r.commit_id FROM custom_component_repositories r \
         WHERE r.id = custom_components.repository) IS NULL THEN 'failed' ELSE 'installed' END WHERE ",
    );
    conn.exec(sql.push(ENDED)).map(drop)
}
