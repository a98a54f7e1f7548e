//! The state of the data directory: checks that it is usable, and locks it for servers and commands.

use crate::open::CommandFailure;
use crate::settings::ProgramSettings;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The file that `chancery backup` creates first in a copy and removes last.
pub const UNFINISHED: &str = "unfinished-backup";
/// The content of that file in a data directory that `chancery restore` fills.
pub const RESTORE: &str = "restore";
/// The file that servers lock, in the data directory and in its `history`.
const SERVED: &str = "served";
/// The file in `history` that a command locks while it uses the embedded history.
const COMMAND: &str = "command";
/// The maximum time for which a starting server waits for a command that uses the embedded history, or for the end of the former
/// server.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Refuses an incomplete data directory. A command would treat it as a new one.
pub fn check(settings: &ProgramSettings) -> Result<(), CommandFailure> {
    let data = &settings.data;
    if data.join(UNFINISHED).exists() {
        let is_restore = std::fs::read_to_string(data.join(UNFINISHED)).is_ok_and(|text| text == RESTORE);
        let data = data.display();
        return Err(match is_restore {
            true => format!("CHANCERY_DATA: {data}: `chancery restore` was not finished here; call it again"),
            false => format!("CHANCERY_DATA: {data}: `chancery backup` was not finished here; make the copy again"),
        });
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

/// Refuses an embedded data directory without a database. A command would create one.
pub fn must_exist(settings: &ProgramSettings) -> Result<(), CommandFailure> {
    match settings.database_url.is_some() || settings.data.join("control.db").exists() {
        true => Ok(()),
        false => Err(format!("{}: there is no data directory", settings.data.display())),
    }
}

/// Makes this process the only server of the embedded databases in a directory, until the file is dropped.
pub async fn serve_alone(data: &Path) -> Result<File, CommandFailure> {
    lock(data, SERVED, File::try_lock).await?.ok_or_else(|| {
        format!(
            "CHANCERY_DATA: {}: another server serves this directory; only PostgreSQL takes several",
            data.display()
        )
    })
}

/// Signals to commands that this process serves the embedded history in a directory. Several processes may serve it.
pub async fn serve_history(history: &Path) -> Result<File, CommandFailure> {
    lock(history, SERVED, File::try_lock_shared)
        .await?
        .ok_or_else(|| format!("CHANCERY_DATA: {}: a command is at work in this directory", history.display()))
}

/// Locks servers and other commands out of the embedded history in a directory, until the files are dropped. Returns `None` while a
/// server serves it.
pub async fn without_server(history: &Path) -> Result<Option<[File; 2]>, CommandFailure> {
    // Commands wait for each other here, so only a server can own the other lock now.
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
