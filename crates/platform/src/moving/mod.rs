//! Moves builds between deployments (`docs/moving.md`): exports, imports, the contents of a deleted build, and checks.

mod archive;
pub mod check;
mod contents;
pub mod deletion_draft;
mod export;
pub mod history;
mod import;
mod rows;
mod tables;

pub use archive::ArchiveWriter;
pub use contents::{BuildContents, read_contents};
pub use export::{ExportOptions, ExportReport, export};
pub use import::{ImportOptions, ImportReport, import};
pub use tables::Extent;

use crate::MIGRATIONS;
use argon2::{Algorithm, Argon2, Params, Version};
use kit::app::App;
use kit::secret::{Context, Keys, SealedColumn};
use serde::{Deserialize, Serialize};
use std::io;
use std::time::Duration;
use store::{Migrations, Options, Store, StoreEngine, StoreError};
use web::clock::hex;

/// The format of archives of builds.
const FORMAT: &str = "chancery-build";
/// The version of the format that this program writes.
const VERSION: u32 = 1;
/// The time limit of a script that reads or writes a whole build.
const TIME_LIMIT: Duration = Duration::from_secs(12 * 3600);
/// The maximum number of missing files that an archive names.
const MAX_MISSING: usize = 10_000;
/// The directory of rows in archives.
const TABLES: &str = "tables/";
/// The directory of files in archives.
const FILES: &str = "files/";
/// The name in the place of the build's uid to which the archive's own seals are bound.
const SEALED_FOR: &str = "archive";
/// The text whose seal tells whether a passphrase is right.
const CHECKED_TEXT: &[u8] = b"chancery";
/// The cost of a key from a passphrase. It belongs to [`VERSION`], so an archive cannot raise it.
const KEY_MEMORY_KIB: u32 = 32 * 1024;
const KEY_PASSES: u32 = 3;

/// The reason for which a build was not moved.
#[derive(Debug)]
pub enum MoveError {
    /// The database failed.
    Store(StoreError),
    /// The archive cannot be read or written, or is not accepted.
    Archive(io::Error),
    /// A line for the operator.
    Refused(String),
}

impl std::fmt::Display for MoveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MoveError::Store(error) => error.fmt(f),
            MoveError::Archive(error) => error.fmt(f),
            MoveError::Refused(line) => f.write_str(line),
        }
    }
}

impl From<StoreError> for MoveError {
    fn from(error: StoreError) -> MoveError {
        MoveError::Store(error)
    }
}

impl From<io::Error> for MoveError {
    fn from(error: io::Error) -> MoveError {
        MoveError::Archive(error)
    }
}

impl From<String> for MoveError {
    fn from(line: String) -> MoveError {
        MoveError::Refused(line)
    }
}

/// A part of the work that is done, for a progress bar.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub step: &'static str,
    pub done: u64,
    pub total: u64,
}

/// A function that shows progress.
pub type ShowProgress<'a> = &'a (dyn Fn(Progress) + Sync);

/// The first entry of an archive.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    format: String,
    version: u32,
    /// The version of the program that wrote the archive.
    program: String,
    /// The time of the export, in microseconds since 1970.
    exported_at: i64,
    domain: String,
    /// The time at which the build was created, in microseconds since 1970.
    created_at: i64,
    /// The number of migrations of the build's database.
    schema: usize,
    extent: Extent,
    /// Is present if the archive has secrets, sealed by a passphrase.
    secrets: Option<SecretsHeader>,
    has_history: bool,
    tables: Vec<TableHeader>,
}

/// The parameters of an archive's seals.
#[derive(Debug, Serialize, Deserialize)]
struct SecretsHeader {
    salt: String,
    /// The seal of [`CHECKED_TEXT`].
    check: String,
}

/// A table of an archive.
#[derive(Debug, Serialize, Deserialize)]
struct TableHeader {
    name: String,
    columns: Vec<String>,
    /// The last number that the database gave in the numbered column.
    last_number: Option<i64>,
}

/// The number of rows and files in an archive, from its last entry.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Counts {
    tables: std::collections::BTreeMap<String, u64>,
    files: u64,
    file_bytes: u64,
    missing_files: Vec<String>,
    /// The number of secrets that were left out, for each table and column.
    emptied: std::collections::BTreeMap<String, u64>,
    history_events: u64,
    system_events: u64,
    history_files: u64,
}

/// Opens the databases of the application once more, for scripts that run for hours on one connection.
async fn open_store(engine: &StoreEngine, schema: usize) -> Result<Store, StoreError> {
    let migrations = Migrations { control: MIGRATIONS.control, build: &MIGRATIONS.build[..schema] };
    let options =
        Options { readers: 1, writers: 1, postgres_connections: 1, time_limit: TIME_LIMIT, ..Options::default() };
    Store::open(engine.clone(), migrations, options).await
}

/// Derives the keys of an archive from its passphrase. Call it on a thread that may block.
fn archive_keys(passphrase: &str, salt: &str) -> Result<Keys, MoveError> {
    let failed = |error: argon2::Error| MoveError::Refused(format!("the passphrase: {error}"));
    let params = Params::new(KEY_MEMORY_KIB, KEY_PASSES, 1, Some(32)).map_err(failed)?;
    let mut key = [0; 32];
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon2.hash_password_into(passphrase.as_bytes(), salt.as_bytes(), &mut key).map_err(failed)?;
    Ok(Keys::new(&hex(&key)))
}

/// Returns the place to which a secret in an archive is bound.
fn archive_context<'a>(column: &SealedColumn, row: &'a str) -> Context<'a> {
    Context { build: SEALED_FOR, table: column.table, column: column.column, row }
}

/// Returns the engine of the application's databases.
fn engine(app: &App) -> &StoreEngine {
    &app.settings.engine
}
