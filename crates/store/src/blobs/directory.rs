//! Files in a directory:
//!
//! - `{group}/{name}`: the files. The removal of a group replaces its directory by an empty file for an hour, so that
//!   an earlier request cannot create the directory again;
//! - `.arriving/{unique}`: files that are being written, or were when a process was killed;
//! - `.deleted/{unique}`: directories that are being removed.
//!
//! A file gets its final name by a hard link, which fails if the name exists or the group's directory does not. So
//! files are never overwritten, and a file that is finished during the removal of its group leaves nothing. All files
//! are private to the user who runs the process.

use super::outage::Outage;
use super::{BlobContent, BlobError, BlobKey, BlobListing, assert_valid_part, blocking, clamp_range, is_name};
use crate::sqlite::{make_directory, private};
use futures_util::stream::{self, Stream, TryStreamExt};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::UNIX_EPOCH;
use tokio::task::spawn_blocking;
use web::clock::{Clock, unique_id};

/// The age in microseconds at which a leftover is certainly not in use. Files are written continuously, and requests
/// end long before.
const LEFTOVER_AGE_US: i64 = 3_600_000_000;

/// The number of entries of a directory that are read at a time.
const ENTRIES_AT_A_TIME: usize = 1000;

const ARRIVING: &str = ".arriving";
const DELETED: &str = ".deleted";

/// A directory of files.
pub(super) struct BlobDirectory {
    root: PathBuf,
    clock: Clock,
    /// The time of the last removal of leftovers, in microseconds since 1970.
    swept_at: AtomicI64,
}

impl BlobDirectory {
    /// Removes the leftovers of killed processes. The first file creates a missing directory, since a process whose
    /// start is refused must leave nothing.
    pub(super) fn open(root: PathBuf, clock: Clock) -> io::Result<BlobDirectory> {
        let now = clock.now();
        if root.try_exists()? {
            make(&root)?;
            sweep_or_log(&root, now);
        }
        Ok(BlobDirectory { root, clock, swept_at: AtomicI64::new(now) })
    }

    /// Checks that files can be written to the directory, or to its nearest existing ancestor, in which the first file
    /// creates it.
    pub(super) fn probe(&self) -> Result<(), Outage> {
        let directory = self.root.ancestors().find(|directory| directory.exists());
        let writable = Access::WRITE_OK | Access::EXEC_OK;
        match directory.map(|directory| access(directory, writable)) {
            Some(Ok(())) => Ok(()),
            Some(Err(Errno::ACCESS | Errno::PERM | Errno::ROFS)) => Err(Outage::AccessDenied),
            _ => Err(Outage::Unreachable),
        }
    }

    /// Creates a group's directory if it is missing. [`BlobDirectory::finish`] must not create it, because the group
    /// may have been removed.
    pub(super) async fn make_group(&self, group: &str) -> Result<(), BlobError> {
        self.sweep_if_due();
        let (root, home) = (self.root.clone(), self.home(group));
        let creation = blocking(move || match make(&root).and_then(|()| DirBuilder::new().mode(0o700).create(&home)) {
            // Another entry than a directory is the empty file of a removal. A missing entry is a removal that is about
            // to create that file.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => match fs::symlink_metadata(&home) {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
                result => result.map(|metadata| metadata.is_dir()),
            },
            result => result.map(|()| true),
        });
        if creation.await.map_err(BlobError::from_disk_error)? { Ok(()) } else { Err(BlobError::Missing) }
    }

    pub(super) async fn begin(&self) -> Result<(File, TemporaryFile), BlobError> {
        self.sweep_if_due();
        let root = self.root.clone();
        blocking(move || make(&root).and_then(|()| new_file(&root))).await.map_err(BlobError::from_disk_error)
    }

    pub(super) async fn check_free(&self, key: &BlobKey) -> Result<(), BlobError> {
        let (home, path) = (self.home(&key.group), self.path(key));
        let lookup = blocking(move || match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => fs::symlink_metadata(&home).map(|_| false),
            result => result.map(|_| true),
        });
        if lookup.await.map_err(BlobError::from_name_error)? { Err(BlobError::Exists) } else { Ok(()) }
    }

    /// Stores a file under its final name, durably. It is completed even if the caller is dropped.
    pub(super) async fn finish(
        &self,
        file: Arc<File>,
        arriving: TemporaryFile,
        key: &BlobKey,
    ) -> Result<(), BlobError> {
        let (root, home, path) = (self.root.clone(), self.home(&key.group), self.path(key));
        blocking(move || {
            file.sync_all()?;
            fs::hard_link(&arriving.0, &path)?;
            drop(arriving);
            sync(&home)?;
            // The group's directory may be new and must survive, too.
            sync(&root)
        })
        .await
        .map_err(BlobError::from_name_error)
    }

    pub(super) async fn read(&self, key: &BlobKey, range: Option<Range<u64>>) -> Result<BlobContent, BlobError> {
        let path = self.path(key);
        blocking(move || {
            let mut file = File::open(path)?;
            let size = file.metadata()?.len();
            let range = clamp_range(range, size);
            file.seek(SeekFrom::Start(range.start))?;
            Ok(BlobContent::File { file, size, length: range.end - range.start })
        })
        .await
        .map_err(BlobError::from_name_error)
    }

    pub(super) async fn file(&self, key: &BlobKey) -> Result<File, BlobError> {
        let path = self.path(key);
        blocking(move || File::open(path)).await.map_err(BlobError::from_name_error)
    }

    /// Lists the files of a group.
    pub(super) fn list(&self, group: &str) -> impl Stream<Item = Result<BlobListing, BlobError>> + Send + 'static {
        let home = self.home(group);
        let pages = stream::try_unfold(None, move |entries: Option<fs::ReadDir>| {
            let home = home.clone();
            async move {
                let listing = blocking(move || {
                    let mut entries = entries.map_or_else(|| fs::read_dir(home), Ok)?;
                    Ok(next_page(&mut entries)?.map(|page| (page, Some(entries))))
                });
                match listing.await.map_err(BlobError::from_name_error) {
                    Err(BlobError::Missing) => Ok(None),
                    result => result,
                }
            }
        });
        pages.map_ok(|page| stream::iter(page.into_iter().map(Ok))).try_flatten()
    }

    pub(super) async fn remove(&self, key: &BlobKey) -> Result<(), BlobError> {
        let (home, path) = (self.home(&key.group), self.path(key));
        let removed = blocking(move || {
            fs::remove_file(path)?;
            sync(&home)
        });
        match removed.await.map_err(BlobError::from_name_error) {
            Err(BlobError::Missing) => Ok(()),
            removed => removed,
        }
    }

    pub(super) async fn remove_group(&self, group: &str) -> Result<(), BlobError> {
        let (root, home) = (self.root.clone(), self.home(group));
        blocking(move || make(&root).and_then(|()| remove_group(&root, &home)))
            .await
            .map_err(BlobError::from_disk_error)
    }

    /// Returns the directory of a group.
    fn home(&self, group: &str) -> PathBuf {
        self.root.join(assert_valid_part(group))
    }

    fn path(&self, key: &BlobKey) -> PathBuf {
        self.home(&key.group).join(assert_valid_part(&key.name))
    }

    fn sweep_if_due(&self) {
        let (now, last) = (self.clock.now(), self.swept_at.load(Ordering::Relaxed));
        let is_due = now - last >= LEFTOVER_AGE_US;
        if is_due && self.swept_at.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            let root = self.root.clone();
            spawn_blocking(move || sweep_or_log(&root, now));
        }
    }
}

/// The path of a file that is being written. The file is removed when this is dropped, for every outcome of the
/// writing.
pub(super) struct TemporaryFile(PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Creates the directories that all files need.
fn make(root: &Path) -> io::Result<()> {
    [ARRIVING, DELETED].into_iter().try_for_each(|name| make_directory(&root.join(name)))
}

/// Creates an empty file in the directory for files that are being written.
fn new_file(root: &Path) -> io::Result<(File, TemporaryFile)> {
    let path = root.join(ARRIVING).join(unique_id());
    let file = private().read(true).write(true).create_new(true).open(&path)?;
    Ok((file, TemporaryFile(path)))
}

/// Creates an empty file without a name, so that closing it removes it. Creates the directory if it is missing.
pub(super) fn temporary_file(root: &Path) -> io::Result<File> {
    make_directory(&root.join(ARRIVING))?;
    new_file(root).map(|(file, _)| file)
}

/// Moves a group's directory away, so that no file can be linked into it. Then removes it, with the leftovers of an
/// earlier call.
fn remove_group(root: &Path, home: &Path) -> io::Result<()> {
    let deleted = root.join(DELETED);
    loop {
        if fs::symlink_metadata(home).is_ok_and(|metadata| metadata.is_dir()) {
            unless_missing(fs::rename(home, deleted.join(unique_id())))?;
        }
        match private().write(true).create_new(true).open(home) {
            Ok(_) => break,
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            // The group was removed before.
            Err(_) if fs::symlink_metadata(home)?.is_file() => break,
            // A request that was admitted before has created the directory again.
            Err(_) => {}
        }
    }
    sync(root)?;
    empty(&deleted)
}

/// Removes leftovers. A failure is only logged, since leftovers are harmless.
fn sweep_or_log(root: &Path, now: i64) {
    sweep(root, now).unwrap_or_else(|error| tracing::warn!(%error, "removing leftovers of stored files failed"));
}

/// Removes old leftovers: files of killed processes, unfinished removals, and the empty files that replace removed
/// groups.
fn sweep(root: &Path, now: i64) -> io::Result<()> {
    if !root.try_exists()? {
        return Ok(());
    }
    empty(&root.join(DELETED))?;
    for directory in [root.to_owned(), root.join(ARRIVING)] {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_type()?.is_file() && is_old(&entry, now) {
                unless_missing(fs::remove_file(entry.path()))?;
            }
        }
    }
    Ok(())
}

fn is_old(entry: &fs::DirEntry, now: i64) -> bool {
    changed_at(entry).is_ok_and(|changed_at| now - changed_at >= LEFTOVER_AGE_US)
}

/// Returns the time at which a file was last written, in microseconds since 1970; 0 for earlier times.
fn changed_at(entry: &fs::DirEntry) -> io::Result<i64> {
    let changed = entry.metadata()?.modified()?;
    Ok(changed.duration_since(UNIX_EPOCH).map_or(0, |since_1970| since_1970.as_micros() as i64))
}

/// Returns the files among the next entries of a directory; `None` at its end.
fn next_page(entries: &mut fs::ReadDir) -> io::Result<Option<Vec<BlobListing>>> {
    let (mut page, mut is_end) = (Vec::new(), true);
    for entry in entries.take(ENTRIES_AT_A_TIME) {
        let entry = entry?;
        is_end = false;
        let Some(name) = entry.file_name().into_string().ok().filter(|name| is_name(name)) else { continue };
        if !entry.file_type()?.is_file() {
            continue;
        }
        match changed_at(&entry) {
            Ok(stored_at) => page.push(BlobListing { name, stored_at }),
            // The file was removed meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok((!is_end).then_some(page))
}

/// Removes all directories in a directory. Other processes may do the same at the same time.
fn empty(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let mut removed = unless_missing(fs::remove_dir_all(&path));
        // A process that opened the directory before the move may have linked its file just now.
        if removed.as_ref().is_err_and(|error| error.kind() == ErrorKind::DirectoryNotEmpty) {
            removed = unless_missing(fs::remove_dir_all(&path));
        }
        removed?;
    }
    Ok(())
}

fn unless_missing(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Makes the names in a directory survive a power failure.
fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
