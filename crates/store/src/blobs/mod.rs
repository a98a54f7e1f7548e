//! Stored files, in a directory ([`directory`]) or in an S3 bucket ([`s3`]).
//!
//! Callers see only two differences. A bucket has addresses of its own ([`Blobs::presigned`]), and only a directory
//! creates groups ([`Blobs::make_group`]).

mod directory;
mod document_store;
pub mod health;
mod outage;
mod s3;
mod s3_client;

pub use document_store::DocumentStore;
pub use outage::Outage;

use bytes::Bytes;
use directory::{BlobDirectory, TemporaryFile};
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};
use http::Method;
use rustix::io::Errno;
use s3::S3Bucket;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Seek, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use web::clock::{Clock, sha256_hex_of};

/// A store of files: a directory, or an S3 bucket. Cheap to clone.
#[derive(Clone)]
pub struct Blobs(BlobStore);

#[derive(Clone)]
enum BlobStore {
    Directory(Arc<BlobDirectory>),
    S3(Arc<S3Bucket>),
}

/// The name of a stored file: a group (a build or a history tenant), and a name in it. All files of a group can be
/// removed together.
///
/// Both are `[A-Za-z0-9_-]+`, which every use checks, so neither can be the path of another place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BlobKey {
    pub group: String,
    pub name: String,
}

impl BlobKey {
    /// Creates the key of a file.
    ///
    /// # Panics
    /// Unless both are `[A-Za-z0-9_-]+`. The program chooses such names, never a user.
    pub fn new(group: impl fmt::Display, name: impl fmt::Display) -> BlobKey {
        let key = BlobKey { group: group.to_string(), name: name.to_string() };
        assert_valid_part(&key.group);
        assert_valid_part(&key.name);
        key
    }
}

/// Returns a group or a name unchanged.
///
/// # Panics
/// Unless it is `[A-Za-z0-9_-]+`.
fn assert_valid_part(part: &str) -> &str {
    assert!(is_name(part), "not a name of a stored file: {part:?}");
    part
}

fn is_name(part: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !part.is_empty() && part.bytes().all(is_allowed)
}

/// A file in the listing of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobListing {
    pub name: String,
    /// The time at which the file was stored, in microseconds since 1970, by the clock of the disk or the bucket.
    pub stored_at: i64,
}

/// The reason for which a file could not be stored, read or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlobError {
    /// The file or its group does not exist, or no longer exists.
    Missing,
    /// A file of this name exists already.
    Exists,
    /// The disk is full.
    Full(String),
    /// S3 does not answer, or refuses, or the process has reached its limit of file descriptors. The text is one short
    /// line.
    Unavailable(String),
    /// The disk failed.
    Failed(String),
}

impl fmt::Display for BlobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlobError::Missing => f.write_str("the file does not exist"),
            BlobError::Exists => f.write_str("the file exists"),
            BlobError::Full(cause) | BlobError::Unavailable(cause) | BlobError::Failed(cause) => f.write_str(cause),
        }
    }
}

impl std::error::Error for BlobError {}

impl BlobError {
    /// Translates the error of an operation on a named file or directory.
    fn from_name_error(error: io::Error) -> BlobError {
        match error.kind() {
            // The group's directory is missing, or an empty file is in its place.
            ErrorKind::NotFound | ErrorKind::NotADirectory => BlobError::Missing,
            ErrorKind::AlreadyExists => BlobError::Exists,
            _ => BlobError::from_disk_error(error),
        }
    }

    /// Translates the error of an operation on an open file, or on a directory that must exist.
    fn from_disk_error(error: io::Error) -> BlobError {
        let has_no_descriptor =
            [Errno::MFILE, Errno::NFILE].iter().any(|no| error.raw_os_error() == Some(no.raw_os_error()));
        match error.kind() {
            _ if has_no_descriptor => BlobError::Unavailable(error.to_string()),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => BlobError::Full(error.to_string()),
            _ => BlobError::Failed(error.to_string()),
        }
    }
}

/// The content of a stored file, or of a range of it.
pub enum BlobContent {
    /// A local file.
    File {
        /// The file, at the start of the range.
        file: File,
        /// The size of the whole file, in bytes.
        size: u64,
        /// The size of the range, in bytes.
        length: u64,
    },
    /// The bytes that a bucket sends.
    Stream {
        /// The size of the whole file, in bytes.
        size: u64,
        /// The size of the range, in bytes.
        length: u64,
        /// The range, in pieces. It fails if the bucket sends fewer bytes.
        stream: Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>,
    },
}

/// Returns the variables of the process's environment that are text, for [`Blobs::open`].
pub fn process_environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()))
}

impl Blobs {
    /// Opens the bucket that `CHANCERY_FILES_URL` names, otherwise a directory. An error is one line that names the
    /// setting.
    ///
    /// - `environment`: the endpoint and the keys of S3 (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT`, …);
    /// - `files_url`: `CHANCERY_FILES_URL`;
    /// - `prefix`: the prefix of keys on S3, below the prefix of the URL. The history service has none, and its groups
    ///   are the `database_name`s of its tenants: `[A-Za-z_][A-Za-z0-9_]*`. So a prefix with a hyphen (`main-files`) is
    ///   never one of its groups, and the removal of a tenant does not remove its files;
    /// - `directory`: the directory of the files without S3, created if it is missing. With S3 it stores files while
    ///   they are written, and the first file creates it;
    /// - `clock`: determines the age of leftovers.
    pub fn open(
        environment: impl IntoIterator<Item = (String, String)>,
        files_url: Option<&str>,
        prefix: &str,
        directory: PathBuf,
        clock: Clock,
    ) -> Result<Blobs, String> {
        let place = match files_url {
            Some(url) => {
                let s3 = S3Bucket::open(url, prefix, environment, directory);
                BlobStore::S3(Arc::new(s3.map_err(|cause| format!("CHANCERY_FILES_URL: {cause}"))?))
            }
            None => {
                let opened = BlobDirectory::open(directory.clone(), clock);
                BlobStore::Directory(Arc::new(
                    opened.map_err(|error| format!("CHANCERY_DATA: {}: {error}", directory.display()))?,
                ))
            }
        };
        Ok(Blobs(place))
    }

    /// Returns whether files are on S3, which has addresses of its own.
    pub fn is_on_s3(&self) -> bool {
        matches!(self.0, BlobStore::S3(_))
    }

    /// Checks that a directory exists and can be written; `None` on S3.
    fn probe_local(&self) -> Option<Result<(), Outage>> {
        match &self.0 {
            BlobStore::Directory(directory) => Some(directory.probe()),
            BlobStore::S3(_) => None,
        }
    }

    /// Checks that the store answers. A bucket lists one key below the prefix.
    pub async fn probe(&self) -> Result<(), Outage> {
        match &self.0 {
            BlobStore::Directory(directory) => {
                let directory = directory.clone();
                spawn_blocking(move || directory.probe()).await.unwrap_or(Err(Outage::Unreachable))
            }
            BlobStore::S3(s3) => s3.probe().await,
        }
    }

    /// Creates the directory of a group if it is missing. Does nothing on S3.
    ///
    /// # Errors
    /// [`BlobError::Missing`] if the group was removed within the last hour: a request that was admitted before cannot
    /// create it again.
    pub async fn make_group(&self, group: &str) -> Result<(), BlobError> {
        match &self.0 {
            BlobStore::Directory(directory) => directory.make_group(group).await,
            BlobStore::S3(_) => Ok(()),
        }
    }

    /// Begins a new file, whose bytes are written to the disk as they arrive.
    pub async fn begin(&self) -> Result<NewBlob, BlobError> {
        let (file, destination) = match &self.0 {
            BlobStore::Directory(directory) => {
                let (file, arriving) = directory.begin().await?;
                (file, Destination::Directory(directory.clone(), arriving))
            }
            BlobStore::S3(s3) => (s3.temporary_file().await?, Destination::S3(s3.clone())),
        };
        Ok(NewBlob { file: Arc::new(file), destination })
    }

    /// Checks whether a file of this name can be stored now, for an early refusal. [`NewBlob::finish`] decides.
    ///
    /// # Errors
    /// [`BlobError::Exists`]; [`BlobError::Missing`] if the group was not created, or was removed.
    pub async fn check_free(&self, key: &BlobKey) -> Result<(), BlobError> {
        match &self.0 {
            BlobStore::Directory(directory) => directory.check_free(key).await,
            BlobStore::S3(s3) => s3.check_free(key).await,
        }
    }

    /// Returns the size of a stored file, and its bytes of a range (`None`: all). The part of a range beyond the end is
    /// left out.
    pub async fn read(&self, key: &BlobKey, range: Option<Range<u64>>) -> Result<BlobContent, BlobError> {
        match &self.0 {
            BlobStore::Directory(directory) => directory.read(key, range).await,
            BlobStore::S3(s3) => s3.read(key, range).await,
        }
    }

    /// Returns the whole file as a local one with random access, at its beginning. A file on S3 is copied into a
    /// temporary file without a name.
    pub async fn local(&self, key: &BlobKey) -> Result<File, BlobError> {
        match &self.0 {
            BlobStore::Directory(directory) => directory.file(key).await,
            BlobStore::S3(s3) => s3.local(key).await,
        }
    }

    /// Lists the files of a group, unordered. They are read page by page, so the memory does not depend on the size of
    /// the group. Entries without the name of a stored file are left out. A missing group is an empty one.
    pub fn list(&self, group: &str) -> BoxStream<'static, Result<BlobListing, BlobError>> {
        match &self.0 {
            BlobStore::Directory(directory) => directory.list(group).boxed(),
            BlobStore::S3(s3) => s3.list(group).boxed(),
        }
    }

    /// Removes a file. Succeeds if the file is missing.
    pub async fn remove(&self, key: &BlobKey) -> Result<(), BlobError> {
        match &self.0 {
            BlobStore::Directory(directory) => directory.remove(key).await,
            BlobStore::S3(s3) => s3.remove(key).await,
        }
    }

    /// Removes all files of a group. It can be repeated. In a directory the group cannot be created again for an hour,
    /// and files that are being written cannot be finished. On S3 they can, so the group must have no writers any more.
    pub async fn remove_group(&self, group: &str) -> Result<(), BlobError> {
        match &self.0 {
            BlobStore::Directory(directory) => directory.remove_group(group).await,
            BlobStore::S3(s3) => s3.remove_group(group).await,
        }
    }

    /// Returns an address of the bucket at which anybody can put or get a file for some time; `None` if files are in a
    /// directory. `query` contains further parameters, which are signed, too (`response-content-type`, …).
    pub async fn presigned(
        &self,
        method: Method,
        key: &BlobKey,
        valid: Duration,
        query: &[(&str, &str)],
    ) -> Result<Option<String>, BlobError> {
        match &self.0 {
            BlobStore::Directory(_) => Ok(None),
            BlobStore::S3(s3) => s3.presigned(method, key, valid, query).await.map(Some),
        }
    }
}

/// A file that is being written. If it is dropped without [`NewBlob::finish`], it leaves nothing.
pub struct NewBlob {
    file: Arc<File>,
    destination: Destination,
}

/// The destination of a file that is being written.
enum Destination {
    Directory(Arc<BlobDirectory>, TemporaryFile),
    S3(Arc<S3Bucket>),
}

impl NewBlob {
    /// Appends bytes.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        let (file, bytes) = (self.file.clone(), bytes.to_vec());
        blocking(move || (&*file).write_all(&bytes)).await.map_err(BlobError::from_disk_error)
    }

    /// Returns the file, for synchronous writers (`&File` is `Read`, `Write` and `Seek`) on a thread that may block.
    pub fn file(&mut self) -> &File {
        &self.file
    }

    /// Returns the number of bytes so far.
    pub fn size(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }

    /// Returns the SHA-256 of the bytes so far in hexadecimal digits. Call it on a thread that may block.
    pub fn sha256(&self) -> io::Result<String> {
        let mut file = &*self.file;
        let end = file.stream_position()?;
        file.rewind()?;
        let hash = sha256_hex_of(file)?;
        file.seek(io::SeekFrom::Start(end))?;
        Ok(hash)
    }

    /// Stores the file under its key. When this returns `Ok`, the file survives a power failure.
    ///
    /// # Errors
    /// [`BlobError::Exists`] if the name exists. On S3 names must be unique: if two files of one name are finished at
    /// the same time, the later may replace the earlier. [`BlobError::Missing`] if the group was not created, or was
    /// removed (in a directory).
    pub async fn finish(self, key: &BlobKey) -> Result<(), BlobError> {
        match self.destination {
            Destination::Directory(directory, arriving) => directory.finish(self.file, arriving, key).await,
            Destination::S3(s3) => s3.upload(key, self.file).await,
        }
    }
}

/// Returns the part of a range that is within a file.
fn clamp_range(range: Option<Range<u64>>, size: u64) -> Range<u64> {
    let Range { start, end } = range.unwrap_or(0..size);
    let end = end.min(size);
    start.min(end)..end
}

/// The number of bytes of a file that are sent at a time.
const PIECE: u64 = 64 * 1024;

/// Streams the bytes of a file from its beginning, as the body of an upload. Each stream has a position of its own, so
/// a retry is independent of earlier attempts. It fails if the file is shorter.
pub fn pieces(file: Arc<File>, length: u64) -> impl Stream<Item = io::Result<Vec<u8>>> {
    stream::try_unfold(0, move |at| {
        let file = file.clone();
        async move {
            if at == length {
                return Ok(None);
            }
            let piece = blocking(move || {
                let mut piece = vec![0; (length - at).min(PIECE) as usize];
                file.read_exact_at(&mut piece, at).map(|()| piece)
            });
            let piece = piece.await?;
            let end = at + piece.len() as u64;
            Ok(Some((piece, end)))
        }
    })
}

/// Runs work on files on a thread that may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_descriptors_is_unavailable_and_not_broken() {
        for no in [Errno::MFILE, Errno::NFILE] {
            let error = || io::Error::from_raw_os_error(no.raw_os_error());
            assert!(matches!(BlobError::from_disk_error(error()), BlobError::Unavailable(_)));
            assert!(matches!(BlobError::from_name_error(error()), BlobError::Unavailable(_)));
        }
        assert!(matches!(BlobError::from_disk_error(io::ErrorKind::StorageFull.into()), BlobError::Full(_)));
        assert!(matches!(BlobError::from_disk_error(io::ErrorKind::Other.into()), BlobError::Failed(_)));
    }
}
