//! Where the bytes of files are: the data directory or S3, as `CHANCERY_FILES_URL` says (`docs/operations.md`). A build's
//! files are a group of their own.

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

/// What the keys of the main API's files begin with on S3. No tenant of the history service can have the name.
const PREFIX: &str = "main-files";
/// The file that a backup locks, and whoever removes files.
const REMOVALS: &str = ".removals";
/// How often a locked file is tried again.
const LOCK_POLL: Duration = Duration::from_secs(1);

/// The settings of files, named as in `docs/operations.md`.
#[derive(Clone)]
pub struct FileSettings {
    /// `CHANCERY_FILES_URL`; `None`: the data directory.
    pub files_url: Option<String>,
    /// `CHANCERY_UPLOAD_SECONDS`: how long an upload waits to be used.
    pub upload_seconds: i64,
    /// The environment that names the endpoint and the keys of S3; `None`: that of the process.
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
    /// How long an upload waits to be used, in microseconds.
    pub(crate) upload_us: i64,
    directory: PathBuf,
}

impl Storage {
    /// Opens the bucket that the settings name, else the directory `files` of the data directory. An error is one line that
    /// names the setting.
    pub(crate) fn open(settings: &kit::settings::KitSettings) -> Result<Storage, String> {
        let FileSettings { files_url, upload_seconds, environment } = settings.domains.get();
        let environment = environment.unwrap_or_else(|| process_environment().collect());
        let directory = directory(&settings.data);
        let blobs = Blobs::open(environment, files_url.as_deref(), PREFIX, directory.clone(), settings.clock.clone())?;
        Ok(Storage { blobs, watch: BlobWatch::default(), upload_us: upload_seconds * 1_000_000, directory })
    }

    /// Waits until no backup copies files, and keeps backups waiting until the file is dropped.
    pub(crate) async fn begin_removal(&self) -> io::Result<File> {
        lock(&self.directory, File::try_lock_shared).await
    }
}

/// Begins to watch whether the storage answers.
pub(crate) fn start_watch(app: &App) {
    let storage: &Storage = app.slot();
    storage.watch.start(storage.blobs.clone(), app.clock.clone());
}

/// The state of the storage for `/readyz`. A storage that was never reached since the start stops a rollout; one that is away
/// later is a warning, since everything but files works.
pub(crate) fn health(app: &App) -> Option<HealthReport> {
    let health = app.slot::<Storage>().watch.health()?;
    Some(HealthReport {
        name: HEALTH,
        details: health.details(),
        warning: health.warning(),
        is_ready: health.was_reached,
    })
}

/// The name of the state of the storage in `/readyz`.
pub(crate) const HEALTH: &str = "files";

/// The schema of the details of [`health`].
pub(crate) fn health_schema() -> Json {
    object([
        ("status", json!({"type": "string", "enum": ["ok", "unavailable"]})),
        ("since", json!({"type": "string", "format": "date-time"})),
    ])
}

/// The name under which a file of a build is stored.
pub fn key(build: &Build, uuid: &str) -> BlobKey {
    BlobKey { group: build.uid.clone(), name: uuid.to_owned() }
}

/// Removes all files of a build whose database is gone.
pub async fn remove_build(app: &App, uid: &str) -> Result<(), StoreError> {
    app.slot::<Storage>().blobs.remove_group(uid).await.map_err(to_store_error)
}

/// Keeps servers from removing files from a data directory until the returned file is dropped, so that a copy has every file
/// to which its databases refer.
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

/// An error of the storage of files as one of the store, which answers tell in the same way.
pub fn to_store_error(error: BlobError) -> StoreError {
    match error {
        BlobError::Full(_) => StoreError::Full,
        BlobError::Unavailable(_) | BlobError::Missing | BlobError::Exists | BlobError::Failed(_) => {
            StoreError::FileStore(error.to_string())
        }
    }
}
