//! The data directory:
//!
//! - `{client_id}/{file_id}`: the files. The directory is made with the tenant's first address. In place of one that was
//!   deleted stands an empty file for an hour, so that a request that still thinks of the tenant cannot bring it back;
//! - `.arriving/{unique}`: what is being uploaded, or was when a process was killed;
//! - `.deleted/{unique}`: directories on their way out.
//!
//! A file gets its final name by a link, which fails when there is one already, or when the tenant's directory is gone.
//! So a second upload never overwrites, and one that races with the tenant's deletion leaves nothing. All is private to
//! the owner of the process.

use super::CONTENT_PATH;
use super::address::Addresses;
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

/// The largest file.
const MAX_BYTES: u64 = 50 * 1024 * 1024;
/// An upload that stands still this long is given up.
const PROGRESS: Duration = Duration::from_secs(10);
/// When what a killed process left is certainly nobody's any more, in microseconds. Uploads that go on write all the
/// time, and requests end long before.
const HOUR: i64 = 3_600_000_000;

const ARRIVING: &str = ".arriving";
const DELETED: &str = ".deleted";

/// Files in the data directory, at addresses of the service itself.
pub struct Directory {
    root: PathBuf,
    public_url: String,
    addresses: Addresses,
    clock: Clock,
    swept_at: AtomicI64,
}

impl Directory {
    /// Makes the directory when it is missing, and clears what killed processes left.
    pub fn open(root: PathBuf, public_url: String, key: &[u8], clock: Clock) -> io::Result<Directory> {
        for directory in [root.join(ARRIVING), root.join(DELETED)] {
            store::make_directory(&directory)?;
        }
        let now = clock.now();
        sweep_or_tell(&root, now);
        let addresses = Addresses::new(key, clock.clone());
        Ok(Directory { root, public_url, addresses, clock, swept_at: AtomicI64::new(now) })
    }

    /// The tenant's directory is made here and not by uploads, so that none of them can make it again.
    pub async fn upload_address(&self, tenant: &Tenant, file_id: Uuid) -> Result<String, Error> {
        self.sweep_at_times();
        let home = self.home(tenant.client_id);
        match tokio::fs::DirBuilder::new().mode(0o700).create(&home).await {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => match tokio::fs::symlink_metadata(&home).await {
                Ok(metadata) if metadata.is_dir() => {}
                // What a deletion leaves in its place, or is just putting there.
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

    async fn respond(&self, request: Request<Incoming>) -> Result<Response<Content>, Refusal> {
        let (head, body) = request.into_parts();
        if !head.uri.path().starts_with(CONTENT_PATH) {
            return Err(Refusal::Missing);
        }
        let method = match head.method {
            Method::HEAD => Method::GET,
            Method::GET | Method::PUT => head.method.clone(),
            other => return Err(Refusal::Method(other)),
        };
        let query = head.uri.query().unwrap_or("");
        let (client_id, file_id) = self.addresses.verify(&method, head.uri.path(), query).ok_or(Refusal::Address)?;
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

    /// Takes a file; when it answers `Ok`, the file is on the disk.
    async fn store(&self, home: PathBuf, file_id: Uuid, body: Incoming) -> Result<(), Refusal> {
        let path = home.join(file_id.to_string());
        // Better told before the body has come; what counts is the link.
        match tokio::fs::symlink_metadata(&path).await {
            Ok(_) => return Err(Refusal::Taken),
            Err(error) if error.kind() == ErrorKind::NotFound => tokio::fs::symlink_metadata(&home).await?,
            Err(error) => return Err(error.into()),
        };
        let mut body = BodyReader::new(body, MAX_BYTES, PROGRESS)?;
        let arriving = Arriving(self.root.join(ARRIVING).join(unique_id()));
        let mut options = tokio::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&arriving.0).await?;
        while let Some(bytes) = body.chunk().await? {
            file.write_all(&bytes).await?;
        }
        file.flush().await?;
        file.sync_all().await?;
        let root = self.root.clone();
        // Goes on to its end when the client hangs up.
        let linked = spawn_blocking(move || {
            fs::hard_link(&arriving.0, &path)?;
            drop(arriving);
            sync(&home)?;
            // The tenant's directory may be new.
            sync(&root)
        });
        Ok(linked.await.map_err(io::Error::other)??)
    }

    fn home(&self, client_id: Uuid) -> PathBuf {
        self.root.join(client_id.to_string())
    }

    fn sweep_at_times(&self) {
        let (now, last) = (self.clock.now(), self.swept_at.load(Ordering::Relaxed));
        let is_due = now - last >= HOUR;
        if is_due && self.swept_at.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            let root = self.root.clone();
            spawn_blocking(move || sweep_or_tell(&root, now));
        }
    }
}

/// A file that has not arrived yet. Its name goes with this, whatever ends the upload.
struct Arriving(PathBuf);

impl Drop for Arriving {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Moves a tenant's directory away, so that uploads find nothing to link to, and then removes it and what an earlier
/// call may have left.
fn remove_tenant(root: &Path, home: &Path) -> io::Result<()> {
    let grave = root.join(DELETED);
    loop {
        if fs::symlink_metadata(home).is_ok_and(|found| found.is_dir()) {
            unless_missing(fs::rename(home, grave.join(unique_id())))?;
        }
        match File::options().write(true).create_new(true).mode(0o600).open(home) {
            Ok(_) => break,
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            // Deleted before, or made again in this moment by a request that knew the tenant.
            Err(_) if fs::symlink_metadata(home)?.is_file() => break,
            Err(_) => {}
        }
    }
    sync(root)?;
    empty(&grave)
}

/// What cannot be removed is in nobody's way.
fn sweep_or_tell(root: &Path, now: i64) {
    sweep(root, now).unwrap_or_else(|error| tracing::warn!(%error, "leftovers of files are not removed"));
}

/// Removes what nobody needs any more: uploads that a killed process left, deletions that it did not end, and the marks
/// of deleted tenants.
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
    since_1970.is_some_and(|age| now - age.as_micros() as i64 >= HOUR)
}

/// Removes all directories in a directory; others may be doing the same.
fn empty(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let mut removed = unless_missing(fs::remove_dir_all(&path));
        // An upload that had found its way in when the directory was moved may have left its file just now.
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

/// What a directory names survives a power cut from here on.
fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn failed(error: io::Error) -> Error {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::Unavailable(error.to_string()),
        _ => Error::Failed(error.to_string()),
    }
}

/// Why a request is refused.
#[derive(Debug)]
pub enum Refusal {
    /// The address was not made here, not for this, or is too old.
    Address,
    /// There is no such file, or no such tenant (any more).
    Missing,
    /// The file is there already.
    Taken,
    /// No address allows this method.
    Method(Method),
    /// The body did not come as it should.
    Body(BodyError),
    /// The disk refused.
    Disk(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        match error.kind() {
            // A tenant's directory is missing, or a file in its place.
            ErrorKind::NotFound | ErrorKind::NotADirectory => Refusal::Missing,
            ErrorKind::AlreadyExists => Refusal::Taken,
            _ => Refusal::Disk(error),
        }
    }
}

impl From<BodyError> for Refusal {
    fn from(error: BodyError) -> Refusal {
        Refusal::Body(error)
    }
}

impl From<Refusal> for Response<Content> {
    fn from(refusal: Refusal) -> Response<Content> {
        let (status, detail) = match &refusal {
            Refusal::Address => (StatusCode::FORBIDDEN, "Invalid or expired address.".into()),
            Refusal::Missing => (StatusCode::NOT_FOUND, "Not found.".into()),
            Refusal::Taken => (StatusCode::CONFLICT, "The file was uploaded already.".into()),
            Refusal::Method(method) => (StatusCode::METHOD_NOT_ALLOWED, format!("Method \"{method}\" not allowed.")),
            Refusal::Body(BodyError::TooLarge) => (StatusCode::PAYLOAD_TOO_LARGE, "Max file size is 50.0 MB.".into()),
            Refusal::Body(BodyError::Slow) => {
                (StatusCode::REQUEST_TIMEOUT, "The request body did not arrive in time.".into())
            }
            Refusal::Body(BodyError::Broken) => (StatusCode::BAD_REQUEST, "The request body is incomplete.".into()),
            Refusal::Disk(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                (StatusCode::SERVICE_UNAVAILABLE, "The storage is full.".into())
            }
            Refusal::Disk(_) => (StatusCode::INTERNAL_SERVER_ERROR, "Internal server error.".into()),
        };
        if let Refusal::Disk(error) = &refusal {
            tracing::error!(%error, "a file in the data directory");
        }
        let body: Bytes = serde_json::json!({"detail": detail}).to_string().into();
        let mut response = response(status, Full::from(body).into());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match refusal {
            Refusal::Method(_) => {
                headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD, PUT"));
            }
            Refusal::Disk(_) if status == StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}

/// What every answer has in common.
fn response(status: StatusCode, content: Content) -> Response<Content> {
    let mut response = Response::new(content);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    response
}
