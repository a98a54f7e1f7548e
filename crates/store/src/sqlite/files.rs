//! Creating, removing and locking the files of the data directory.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::StoreError;

/// Locks the directory. Every process that creates or removes files there locks it first. The lock is released when the
/// file is dropped, or the process dies.
pub(super) fn lock_directory(directory: &Path) -> Result<File, StoreError> {
    let file = private().write(true).create(true).truncate(false).open(directory.join("lock"))?;
    file.lock()?;
    Ok(file)
}

/// Locks the databases for this process: shared, or exclusive if it must be alone. The lock is released when the file
/// is dropped, or the process dies.
pub(super) fn lock_for_process(directory: &Path, alone: bool) -> Result<File, StoreError> {
    let file = private().write(true).create(true).truncate(false).open(directory.join("open"))?;
    let lock_result = if alone { file.try_lock() } else { file.try_lock_shared() };
    match lock_result {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Options for files that only the server's own user may read, since they contain personal data.
pub(crate) fn private() -> OpenOptions {
    #[allow(unused_mut, reason = "changed only where files have modes")]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a directory that only the server's own user may enter, and the missing directories above it, durably.
pub fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        make_directory(above)?;
    }
    #[allow(unused_mut, reason = "changed only where directories have modes")]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        result => result?,
    }
    sync_directory_of(path)
}

/// Creates an empty file, which is an empty database, unless it exists.
pub(super) fn make_empty(path: &Path) -> Result<(), StoreError> {
    match private().write(true).create_new(true).open(path) {
        Ok(_) => Ok(sync_directory_of(path)?),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Creates a database file with this content, atomically and durably. The directory must be locked.
pub(super) fn put_file(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    if path.try_exists()? {
        return Err(StoreError::Exists);
    }
    // SQLite would apply a log of an interrupted removal to the new file.
    remove_if_there(&sibling_path(path, "-wal"))?;
    remove_if_there(&sibling_path(path, "-shm"))?;
    let partial = sibling_path(path, ".new");
    let written = (|| {
        let mut file = private().write(true).create(true).truncate(true).open(&partial)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&partial, path)
    })();
    if let Err(error) = written {
        remove_if_there(&partial)?;
        return Err(error.into());
    }
    Ok(sync_directory_of(path)?)
}

/// Removes a database file and the files beside it. The database is the first, so that no process opens it any more.
pub(super) fn remove_file(path: &Path) -> Result<(), StoreError> {
    for suffix in ["", "-wal", "-shm", ".new"] {
        remove_if_there(&sibling_path(path, suffix))?;
    }
    Ok(sync_directory_of(path)?)
}

fn sibling_path(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

pub(super) fn remove_if_there(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Syncs the directory of a file, because this makes a new, renamed or removed name durable.
pub(super) fn sync_directory_of(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if let Some(directory) = path.parent() {
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}
