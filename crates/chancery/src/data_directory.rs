//! What the data directory says of itself: whether it may be used, and who serves it.

use crate::open::CommandFailure;
use crate::settings::ProgramSettings;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The file that `chancery backup` puts into a copy first and removes last.
pub const UNFINISHED: &str = "unfinished-backup";
/// The file that servers lock, in the data directory and in its `history`.
const SERVED: &str = "served";
/// The file in `history` that a command locks which works on the embedded history.
const COMMAND: &str = "command";
/// How long a starting server waits for a command that works on the embedded history, or for the end of the server
/// before it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Refuses a data directory that is no whole one, which a command would take for a new one.
pub fn check(settings: &ProgramSettings) -> Result<(), CommandFailure> {
    let data = &settings.data;
    if data.join(UNFINISHED).exists() {
        let data = data.display();
        return Err(format!("CHANCERY_DATA: {data}: `chancery backup` was not finished here; make the copy again"));
    }
    let has_control = settings.database_url.is_some() || data.join("control.db").exists();
    let is_database = |entry: io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.path().extension().is_some_and(|extension| extension == "db"))
    };
    if !has_control && std::fs::read_dir(data.join("builds")).is_ok_and(|mut entries| entries.any(is_database)) {
        let data = data.display();
        return Err(format!("CHANCERY_DATA: {data}: control.db is missing beside the builds; put it back"));
    }
    Ok(())
}

/// Refuses an embedded data directory without a database, which a command would make anew.
pub fn must_exist(settings: &ProgramSettings) -> Result<(), CommandFailure> {
    match settings.database_url.is_some() || settings.data.join("control.db").exists() {
        true => Ok(()),
        false => Err(format!("{}: there is no data directory", settings.data.display())),
    }
}

/// Makes this process the only server of the embedded databases in a directory; it is that until the file is dropped.
pub async fn serve_alone(data: &Path) -> Result<File, CommandFailure> {
    lock(data, SERVED, File::try_lock).await?.ok_or_else(|| {
        format!(
            "CHANCERY_DATA: {}: another server serves this directory; only PostgreSQL takes several",
            data.display()
        )
    })
}

/// Tells commands that this process serves the embedded history in a directory. Several processes may.
pub async fn serve_history(history: &Path) -> Result<File, CommandFailure> {
    lock(history, SERVED, File::try_lock_shared)
        .await?
        .ok_or_else(|| format!("CHANCERY_DATA: {}: a command is at work in this directory", history.display()))
}

/// Keeps servers and other commands away from the embedded history in a directory, until the files are dropped; `None`
/// while a server serves it.
pub async fn without_server(history: &Path) -> Result<Option<[File; 2]>, CommandFailure> {
    // Commands wait for one another here, so whoever has the other file now is a server.
    let alone = lock(history, COMMAND, File::try_lock).await?;
    let alone = alone.ok_or_else(|| format!("CHANCERY_DATA: {}: another command is at work", history.display()))?;
    Ok(try_lock(history, SERVED, File::try_lock)?.map(|served| [served, alone]))
}

async fn lock(
    directory: &Path,
    name: &str,
    lock: fn(&File) -> Result<(), TryLockError>,
) -> Result<Option<File>, CommandFailure> {
    let end = Instant::now() + LOCK_TIMEOUT;
    loop {
        match try_lock(directory, name, lock)? {
            None if Instant::now() < end => tokio::time::sleep(Duration::from_millis(50)).await,
            locked => return Ok(locked),
        }
    }
}

fn try_lock(
    directory: &Path,
    name: &str,
    lock: fn(&File) -> Result<(), TryLockError>,
) -> Result<Option<File>, CommandFailure> {
    let path = directory.join(name);
    let failed = |error: io::Error| format!("CHANCERY_DATA: {}: {error}", path.display());
    store::make_directory(directory).map_err(|error| format!("CHANCERY_DATA: {}: {error}", directory.display()))?;
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(failed)?;
    match lock(&file) {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}
