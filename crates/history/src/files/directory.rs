//! Files in the data directory:
//!
//! - `{client_id}/{file_id}`: the files. The tenant's directory is made with the first upload address. After a deletion
//!   an empty file takes its place for an hour, so that a request that was admitted before cannot make the directory
//!   again;
//! - `.arriving/{unique}`: files that are being uploaded, or were when a process was killed;
//! - `.deleted/{unique}`: directories that are being removed.
//!
//! An uploaded file gets its final name by a hard link, which fails if the name exists or the tenant's directory does
//! not. So a second upload never overwrites, and an upload that races with the tenant's deletion leaves nothing.
//! Everything is private to the user who runs the process.

use super::address::{Addresses, CONTENT_PATH};
use crate::engine::{Error, Tenant};
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, UNIX_EPOCH};
use tokio::io::AsyncWriteExt;
use tokio::task::spawn_blocking;
use uuid::Uuid;
use web::clock::{Clock, unique_id};
use web::content::Content;
use web::listener::{BodyError, BodyReader};

/// The most bytes of a file.
const MAX_FILE_BYTES: u64 = 50 * 1024 * 1024;
/// An upload of which nothing arrives for so long is refused.
const MAX_STALL: Duration = Duration::from_secs(10);
/// The age at which a leftover is certainly not in use, in microseconds: uploads write all the time, and requests end
/// long before.
const LEFTOVER_AGE_US: i64 = 3_600_000_000;

const ARRIVING: &str = ".arriving";
const DELETED: &str = ".deleted";

/// Files in a directory, at addresses of this service.
pub struct Directory {
    root: PathBuf,
    public_url: String,
    addresses: Addresses,
    clock: Clock,
    /// When leftovers were last removed, in microseconds since 1970.
    swept_at: AtomicI64,
}

impl Directory {
    /// Makes the directory if it is missing, and removes what killed processes left.
    pub fn open(root: PathBuf, public_url: String, key: &[u8], clock: Clock) -> io::Result<Directory> {
        for directory in [root.join(ARRIVING), root.join(DELETED)] {
            store::make_directory(&directory)?;
        }
        let now = clock.now();
        sweep_or_log(&root, now);
        let addresses = Addresses::new(key, clock.clone());
        Ok(Directory { root, public_url, addresses, clock, swept_at: AtomicI64::new(now) })
    }

    /// An address to which a file can be uploaded. The tenant's directory is made here and not by uploads, since an
    /// upload must not make it again after the tenant was deleted.
    pub async fn upload_address(&self, tenant: &Tenant, file_id: Uuid) -> Result<String, Error> {
        self.sweep_if_due();
        let home = self.home(tenant.client_id);
        match tokio::fs::DirBuilder::new().mode(0o700).create(&home).await {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => match tokio::fs::symlink_metadata(&home).await {
                Ok(metadata) if metadata.is_dir() => {}
                // The empty file that a deletion leaves in its place, or is about to make.
                Ok(_) => return Err(Error::NoTenant),
                Err(error) if error.kind() == ErrorKind::NotFound => return Err(Error::NoTenant),
                Err(error) => return Err(failed(error)),
            },
            made => made.map_err(failed)?,
        }
        Ok(format!("{}{}", self.public_url, self.addresses.make(&Method::PUT, tenant, file_id)))
    }

    pub fn download_address(&self, tenant: &Tenant, file_id: Uuid) -> String {
        format!("{}{}", self.public_url, self.addresses.make(&Method::GET, tenant, file_id))
    }

    pub async fn delete_tenant(&self, tenant: &Tenant) -> Result<(), Error> {
        let (root, home) = (self.root.clone(), self.home(tenant.client_id));
        let removed = spawn_blocking(move || remove_tenant(&root, &home)).await;
        removed.map_err(|error| Error::Failed(error.to_string()))?.map_err(failed)
    }

    /// Answers a request for an address.
    pub async fn answer(&self, request: Request<Incoming>) -> Response<Content> {
        self.respond(request).await.unwrap_or_else(Response::from)
    }

    async fn respond(&self, request: Request<Incoming>) -> Result<Response<Content>, FileRefusal> {
        let (head, body) = request.into_parts();
        if !head.uri.path().starts_with(CONTENT_PATH) {
            return Err(FileRefusal::Missing);
        }
        let method = match head.method {
            Method::HEAD => Method::GET,
            Method::GET | Method::PUT => head.method.clone(),
            other => return Err(FileRefusal::Method(other)),
        };
        let query = head.uri.query().unwrap_or("");
        let (client_id, file_id) =
            self.addresses.verify(&method, head.uri.path(), query).ok_or(FileRefusal::Address)?;
        let home = self.home(client_id);
        if method == Method::PUT {
            self.store(home, file_id, body).await?;
            return Ok(response(StatusCode::OK, Full::default().into()));
        }
        let file = tokio::fs::File::open(home.join(file_id.to_string())).await?;
        let left = file.metadata().await?.len();
        let is_head = head.method == Method::HEAD;
        let content = if is_head { Full::default().into() } else { Content::File { file, left } };
        let mut response = response(StatusCode::OK, content);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.insert(header::CONTENT_LENGTH, left.into());
        headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
        Ok(response)
    }

    /// Stores an uploaded file. When this returns `Ok`, the file survives a power cut.
    async fn store(&self, home: PathBuf, file_id: Uuid, body: Incoming) -> Result<(), FileRefusal> {
        let path = home.join(file_id.to_string());
        // An early refusal, before the body is read. The link below decides.
        match tokio::fs::symlink_metadata(&path).await {
            Ok(_) => return Err(FileRefusal::Exists),
            Err(error) if error.kind() == ErrorKind::NotFound => tokio::fs::symlink_metadata(&home).await?,
            Err(error) => return Err(error.into()),
        };
        let mut body = BodyReader::new(body, MAX_FILE_BYTES, MAX_STALL)?;
        let arriving = Arriving(self.root.join(ARRIVING).join(unique_id()));
        let mut options = tokio::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&arriving.0).await?;
        while let Some(bytes) = body.chunk().await? {
            file.write_all(&bytes).await?;
        }
        file.flush().await?;
        file.sync_all().await?;
        let root = self.root.clone();
        // It is completed although the client hangs up.
        let linked = spawn_blocking(move || {
            fs::hard_link(&arriving.0, &path)?;
            drop(arriving);
            sync(&home)?;
            // The tenant's directory may be new and must survive, too.
            sync(&root)
        });
        Ok(linked.await.map_err(io::Error::other)??)
    }

    fn home(&self, client_id: Uuid) -> PathBuf {
        self.root.join(client_id.to_string())
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

/// The path of a file that is being uploaded. It is removed when this is dropped, however the upload ends.
struct Arriving(PathBuf);

impl Drop for Arriving {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Moves a tenant's directory away, so that uploads cannot link into it, and then removes it, together with what an
/// earlier call left.
fn remove_tenant(root: &Path, home: &Path) -> io::Result<()> {
    let deleted = root.join(DELETED);
    loop {
        if fs::symlink_metadata(home).is_ok_and(|found| found.is_dir()) {
            unless_missing(fs::rename(home, deleted.join(unique_id())))?;
        }
        match File::options().write(true).create_new(true).mode(0o600).open(home) {
            Ok(_) => break,
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            // The tenant was deleted before.
            Err(_) if fs::symlink_metadata(home)?.is_file() => break,
            // A request that was admitted before has made the directory again.
            Err(_) => {}
        }
    }
    sync(root)?;
    empty(&deleted)
}

/// Removes leftovers. A failure is only logged, since leftovers do no harm.
fn sweep_or_log(root: &Path, now: i64) {
    sweep(root, now)
        .unwrap_or_else(|error| tracing::warn!(%error, "removing leftovers of uploads and deletions failed"));
}

/// Removes old leftovers: uploads that a killed process left, deletions that it did not end, and the empty files in
/// place of deleted tenants.
fn sweep(root: &Path, now: i64) -> io::Result<()> {
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
    let changed = entry.metadata().and_then(|metadata| metadata.modified()).ok();
    let since_1970 = changed.and_then(|changed| changed.duration_since(UNIX_EPOCH).ok());
    since_1970.is_some_and(|age| now - age.as_micros() as i64 >= LEFTOVER_AGE_US)
}

/// Removes all directories in a directory. Other processes may be doing the same.
fn empty(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let mut removed = unless_missing(fs::remove_dir_all(&path));
        // An upload that opened the directory before it was moved may have linked its file just now.
        if removed.as_ref().is_err_and(|error| error.kind() == ErrorKind::DirectoryNotEmpty) {
            removed = unless_missing(fs::remove_dir_all(&path));
        }
        removed?;
    }
    Ok(())
}

fn unless_missing(done: io::Result<()>) -> io::Result<()> {
    done.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Makes the names in a directory survive a power cut.
fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn failed(error: io::Error) -> Error {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::Unavailable(error.to_string()),
        _ => Error::Failed(error.to_string()),
    }
}

/// Why a request for a file is refused.
#[derive(Debug)]
pub enum FileRefusal {
    /// The address was not made here, was made for another method, or has expired.
    Address,
    /// The file or the tenant does not exist, or no longer.
    Missing,
    /// The file was uploaded already.
    Exists,
    /// No address is made for this method.
    Method(Method),
    Body(BodyError),
    Disk(io::Error),
}

impl From<io::Error> for FileRefusal {
    fn from(error: io::Error) -> FileRefusal {
        match error.kind() {
            // The tenant's directory is missing, or a file is in its place.
            ErrorKind::NotFound | ErrorKind::NotADirectory => FileRefusal::Missing,
            ErrorKind::AlreadyExists => FileRefusal::Exists,
            _ => FileRefusal::Disk(error),
        }
    }
}

impl From<BodyError> for FileRefusal {
    fn from(error: BodyError) -> FileRefusal {
        FileRefusal::Body(error)
    }
}

impl From<FileRefusal> for Response<Content> {
    fn from(refusal: FileRefusal) -> Response<Content> {
        let (status, detail) = match &refusal {
            FileRefusal::Address => (StatusCode::FORBIDDEN, "Invalid or expired address.".into()),
            FileRefusal::Missing => (StatusCode::NOT_FOUND, "Not found.".into()),
            FileRefusal::Exists => (StatusCode::CONFLICT, "The file was uploaded already.".into()),
            FileRefusal::Method(method) => {
                (StatusCode::METHOD_NOT_ALLOWED, format!("Method \"{method}\" not allowed."))
            }
            FileRefusal::Body(BodyError::TooLarge) => {
                (StatusCode::PAYLOAD_TOO_LARGE, "Max file size is 50.0 MB.".into())
            }
            FileRefusal::Body(BodyError::Slow) => {
                (StatusCode::REQUEST_TIMEOUT, "The request body did not arrive in time.".into())
            }
            FileRefusal::Body(BodyError::Broken) => (StatusCode::BAD_REQUEST, "The request body is incomplete.".into()),
            FileRefusal::Disk(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                (StatusCode::SERVICE_UNAVAILABLE, "The storage is full.".into())
            }
            FileRefusal::Disk(_) => (StatusCode::INTERNAL_SERVER_ERROR, "Internal server error.".into()),
        };
        if let FileRefusal::Disk(error) = &refusal {
            tracing::error!(%error, "a file in the data directory could not be read or written");
        }
        let body: Bytes = serde_json::json!({"detail": detail}).to_string().into();
        let mut response = response(status, Full::from(body).into());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match refusal {
            FileRefusal::Method(_) => {
                headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD, PUT"));
            }
            FileRefusal::Disk(_) if status == StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}

/// An answer with the headers that all answers have.
fn response(status: StatusCode, content: Content) -> Response<Content> {
    let mut response = Response::new(content);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    response
}
