//! The storage of the bytes of files: the data directory or S3, selected by `CHANCERY_FILES_URL` (`docs/operations.md`). The files
//! of a build are a separate group.

use kit::app::App;
use kit::build::Build;
use kit::domain::HealthReport;
use resource::openapi::object;
use serde_json::{Value as Json, json};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::StoreError;
use store::blobs::health::BlobWatch;
use store::blobs::{BlobError, BlobKey, Blobs, process_environment};
use web::metrics::MetricsText;

/// The prefix of the keys of the main API's files on S3. Tenants of the history service cannot have this name.
const PREFIX: &str = "main-files";
/// The file that backups and removals of files lock.
const REMOVALS: &str = ".removals";
/// The time between two attempts to lock the file.
const LOCK_POLL: Duration = Duration::from_secs(1);

/// The settings of files, named as in `docs/operations.md`.
#[derive(Clone)]
pub struct FileSettings {
    /// `CHANCERY_FILES_URL`; `None` for the data directory.
    pub files_url: Option<String>,
    /// `CHANCERY_UPLOAD_SECONDS`: the time for which an unused upload is stored.
    pub upload_seconds: i64,
    /// The environment variables with the endpoint and the keys of S3; `None` for those of the process.
    pub environment: Option<Vec<(String, String)>>,
}

impl Default for FileSettings {
    fn default() -> FileSettings {
        FileSettings { files_url: None, upload_seconds: 86_400, environment: None }
    }
}

/// The files of all builds.
pub struct Storage {
    pub blobs: Blobs,
    watch: BlobWatch,
    /// The time for which an unused upload is stored, in microseconds.
    pub(crate) upload_us: i64,
    directory: PathBuf,
}

impl Storage {
    /// Opens the bucket of the settings, otherwise the directory `files` of the data directory. An error is one line with the name
    /// of the setting.
    pub(crate) fn open(settings: &kit::settings::KitSettings) -> Result<Storage, String> {
        let FileSettings { files_url, upload_seconds, environment } = settings.domains.get();
        let environment = environment.unwrap_or_else(|| process_environment().collect());
        let directory = directory(&settings.data);
        let blobs = Blobs::open(environment, files_url.as_deref(), PREFIX, directory.clone(), settings.clock.clone())?;
        Ok(Storage { blobs, watch: BlobWatch::default(), upload_us: upload_seconds * 1_000_000, directory })
    }

    /// Waits until backups do not copy files. Backups wait until the returned file is dropped.
    pub(crate) async fn begin_removal(&self) -> io::Result<File> {
        lock(&self.directory, File::try_lock_shared).await
    }
}

/// Starts to monitor the availability of the storage.
pub(crate) fn start_watch(app: &App) {
    let storage: &Storage = app.slot();
    storage.watch.start(storage.blobs.clone(), app.clock.clone());
}

/// Returns the state of the storage for `/readyz`. A storage that was not reached since the start stops a rollout. A later outage
/// is a warning, since only files do not work.
pub(crate) fn health(app: &App) -> Option<HealthReport> {
    let health = app.slot::<Storage>().watch.health()?;
    Some(HealthReport {
        name: HEALTH,
        details: health.details(),
        warning: health.warning(),
        is_ready: health.was_reached,
    })
}

/// Writes whether the storage is available.
pub(crate) fn write_metrics(app: &App, out: &mut MetricsText) {
    let Some(health) = app.slot::<Storage>().watch.health() else { return };
    let is_available = u8::from(health.outage.is_none());
    out.single("chancery_files_available", "gauge", "1 if the store of files answers.", is_available);
}

/// The name of the storage's state in `/readyz`.
pub(crate) const HEALTH: &str = "files";

/// Returns the schema of the details of [`health`].
pub(crate) fn health_schema() -> Json {
    object([
        ("status", json!({"type": "string", "enum": ["ok", "unavailable"]})),
        ("since", json!({"type": "string", "format": "date-time"})),
    ])
}

/// Returns the name under which a file of a build is stored.
pub fn key(build: &Build, uuid: &str) -> BlobKey {
    BlobKey { group: build.uid.clone(), name: uuid.to_owned() }
}

/// Removes all files of a build whose database was deleted.
pub async fn remove_build(app: &App, uid: &str) -> Result<(), StoreError> {
    app.slot::<Storage>().blobs.remove_group(uid).await.map_err(to_store_error)
}

/// Prevents servers from removing files from a data directory until the returned file is dropped. A copy then contains all files to
/// which its databases refer.
pub async fn without_removals(data: &Path) -> io::Result<File> {
    lock(&directory(data), File::try_lock).await
}

fn directory(data: &Path) -> PathBuf {
    data.join("files")
}

async fn lock(directory: &Path, lock: fn(&File) -> Result<(), TryLockError>) -> io::Result<File> {
    store::make_directory(directory)?;
    let path = directory.join(REMOVALS);
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    loop {
        match lock(&file) {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_POLL).await,
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Converts an error of the storage of files to an error of the store, which answers report in the same way.
pub fn to_store_error(error: BlobError) -> StoreError {
    match error {
        BlobError::Full(_) => StoreError::Full,
        BlobError::Unavailable(_) | BlobError::Missing | BlobError::Exists | BlobError::Failed(_) => {
            StoreError::FileStore(error.to_string())
        }
    }
}
