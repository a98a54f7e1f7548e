//! Answers requests for the signed addresses of this service, at which files in the data directory are put and got.

use super::address::{Addresses, CONTENT_PATH};
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use std::sync::LazyLock;
use std::time::Duration;
use store::blobs::{BlobContent, BlobError, BlobKey, Blobs};
use web::content::BodyContent;
use web::listener::{BodyError, BodyReader};
use web::pace::{OF_FILE, PLACE_TIMEOUT, Pace};
use web::shares::{PermitHolder, ShareAccount, ShareBounds, Shares, descriptors};

/// The maximum size of a file in bytes.
const MAX_FILE_BYTES: u64 = 50 * 1024 * 1024;
/// The maximum time without a byte of an upload. The upload is refused after it.
const MAX_STALL: Duration = Duration::from_secs(10);

/// The permits for descriptors of files that are sent and received. A tenant may use half.
static PLACES: LazyLock<Shares> = LazyLock::new(|| {
    let total = (descriptors() / 16).clamp(8, 2048);
    Shares::new(ShareBounds { total, build: total / 2, account: total / 2, kept: total / 4 })
});

/// Answers a request for an address.
pub async fn respond(
    blobs: &Blobs,
    addresses: &Addresses,
    request: Request<Incoming>,
) -> Result<Response<BodyContent>, FileRefusal> {
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
    let (client_id, file_id) = addresses.verify(&method, head.uri.path(), query).ok_or(FileRefusal::Address)?;
    let key = BlobKey::new(client_id, file_id);
    let holder = PermitHolder { build: client_id.to_string().into(), account: ShareAccount::Build };
    let place = PLACES.acquire(&holder, 1, PLACE_TIMEOUT).await.ok_or(FileRefusal::Busy)?;
    if method == Method::PUT {
        upload(blobs, &key, body).await?;
        return Ok(response(StatusCode::OK, Full::default().into()));
    }
    // Files on S3 have addresses of their own.
    let BlobContent::File { file, length, .. } = blobs.read(&key, None).await? else {
        return Err(FileRefusal::Missing);
    };
    let pace = Pace { demand: place.demand(), rates: OF_FILE };
    let content = match head.method {
        Method::HEAD => Full::default().into(),
        _ => BodyContent::File { file: file.into(), left: length, permit: Some(place) },
    };
    let mut response = response(StatusCode::OK, content);
    response.extensions_mut().insert(pace);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, length.into());
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    Ok(response)
}

/// Stores an uploaded file. When this returns `Ok`, the file survives a power failure.
async fn upload(blobs: &Blobs, key: &BlobKey, body: Incoming) -> Result<(), FileRefusal> {
    // This refuses an upload before its body is read.
    blobs.check_free(key).await?;
    let mut body = BodyReader::new(body, MAX_FILE_BYTES, MAX_STALL)?;
    let mut file = blobs.begin().await?;
    while let Some(bytes) = body.chunk().await? {
        file.write(&bytes).await?;
    }
    Ok(file.finish(key).await?)
}

/// The reason for which a request for a file is refused.
#[derive(Debug)]
pub enum FileRefusal {
    /// The address is invalid, for another method, or has expired.
    Address,
    /// The file or the tenant does not exist, or no longer exists.
    Missing,
    /// The file was uploaded already.
    Exists,
    /// Addresses are not created for this method.
    Method(Method),
    /// Too many files are being sent and received.
    Busy,
    Body(BodyError),
    Storage(BlobError),
}

impl From<BlobError> for FileRefusal {
    fn from(error: BlobError) -> FileRefusal {
        match error {
            BlobError::Missing => FileRefusal::Missing,
            BlobError::Exists => FileRefusal::Exists,
            error => FileRefusal::Storage(error),
        }
    }
}

impl From<BodyError> for FileRefusal {
    fn from(error: BodyError) -> FileRefusal {
        FileRefusal::Body(error)
    }
}

impl From<FileRefusal> for Response<BodyContent> {
    fn from(refusal: FileRefusal) -> Response<BodyContent> {
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
            FileRefusal::Storage(BlobError::Full(_)) => {
                (StatusCode::SERVICE_UNAVAILABLE, "The storage is full.".into())
            }
            FileRefusal::Busy | FileRefusal::Storage(BlobError::Unavailable(_)) => {
                (StatusCode::SERVICE_UNAVAILABLE, "The server is busy. Please try again.".into())
            }
            FileRefusal::Storage(_) => (StatusCode::INTERNAL_SERVER_ERROR, "Internal server error.".into()),
        };
        if let FileRefusal::Storage(error) = &refusal {
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
            FileRefusal::Busy | FileRefusal::Storage(BlobError::Full(_) | BlobError::Unavailable(_)) => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}

/// Creates an answer with the headers that all answers have.
fn response(status: StatusCode, content: BodyContent) -> Response<BodyContent> {
    let mut response = Response::new(content);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    response
}
