//! Files in an S3 bucket.
//!
//! Only one piece of a file is in memory at a time. A new file is written to a temporary file on the disk first, since
//! S3 requires the length before the bytes.

use super::directory::temporary_file;
use super::outage::Outage;
use super::s3_client::{BucketConnector, client};
use super::{BlobContent, BlobError, BlobKey, BlobListing, assert_valid_part, blocking, clamp_range, is_name, pieces};
use futures_util::stream::{self, Stream, StreamExt, TryStreamExt};
use http::{Method, StatusCode, header};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::signer::{SignedUrlOptions, Signer};
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt, ObjectStoreScheme, RetryConfig};
use reqwest::{Body, Client};
use std::error::Error as _;
use std::fs::File;
use std::future::ready;
use std::io::{self, Seek, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use url::Url;

/// The maximum number of retries of a call to the bucket after transient failures.
const MAX_RETRIES: usize = 5;
/// The time after which no retry begins.
const MAX_RETRY_TIME: Duration = Duration::from_secs(20);
/// The pause before the first retry of an upload. Each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The maximum time without a byte from the bucket. A whole download has no limit, because its reader may be slow.
const MAX_SILENCE: Duration = Duration::from_secs(30);
/// The rate that extends the time limit of an upload beyond [`MAX_SILENCE`], in bytes per second.
const MIN_BYTES_PER_SECOND: u64 = 64 * 1024;
/// The validity of the address of an upload. The upload must begin within it.
const UPLOAD_VALID: Duration = Duration::from_secs(5 * 60);
/// The maximum number of characters of an error.
const MAX_ERROR_CHARS: usize = 500;

/// A bucket, or the keys of a bucket that begin with a prefix.
pub(super) struct S3Bucket {
    bucket: AmazonS3,
    /// Checks whether the bucket answers, without retries.
    probe: AmazonS3,
    /// Uploads files piece by piece. The library's own client requires whole files.
    uploads: Client,
    prefix: Path,
    /// The directory of temporary files.
    directory: PathBuf,
}

impl S3Bucket {
    /// Opens `s3://bucket/prefix`, or an `https` address of a bucket. The environment names the endpoint and the keys.
    /// It does not send a request.
    pub(super) fn open(
        url: &str,
        prefix: &str,
        environment: impl IntoIterator<Item = (String, String)>,
        directory: PathBuf,
    ) -> Result<S3Bucket, String> {
        let (builder, root) = builder(url, environment)?;
        let uploads = client(&builder, None).map_err(unmade)?;
        let without_retries = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        let probe = builder.clone().with_retry(without_retries).build().map_err(|error| error.to_string())?;
        let bucket = builder.build().map_err(|error| error.to_string())?;
        let prefix = if prefix.is_empty() { root } else { root.join(assert_valid_part(prefix)) };
        Ok(S3Bucket { bucket, probe, uploads, prefix, directory })
    }

    /// Lists one key below the prefix, with a name that no group has. The answer is empty, so it is cheap for a
    /// large bucket, and no server has to truncate it.
    pub(super) async fn probe(&self) -> Result<(), Outage> {
        let options = PaginatedListOptions { max_keys: Some(1), ..PaginatedListOptions::default() };
        match self.probe.list_paginated(Some(&format!("{}/.probe", self.prefix)), options).await {
            Ok(_) => Ok(()),
            Err(object_store::Error::NotFound { .. }) => Err(Outage::NoSuchBucket),
            Err(object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. }) => {
                Err(Outage::AccessDenied)
            }
            Err(error) => Err(outage(&error.to_string())),
        }
    }

    pub(super) async fn temporary_file(&self) -> Result<File, BlobError> {
        let directory = self.directory.clone();
        blocking(move || temporary_file(&directory)).await.map_err(BlobError::from_disk_error)
    }

    pub(super) async fn check_free(&self, key: &BlobKey) -> Result<(), BlobError> {
        match self.bucket.head(&self.path(key)).await {
            Ok(_) => Err(BlobError::Exists),
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(unavailable(error)),
        }
    }

    /// Uploads a file, with retries after transient failures.
    pub(super) async fn upload(&self, key: &BlobKey, file: Arc<File>) -> Result<(), BlobError> {
        // A lost answer of an attempt may mean that the file is stored, so this runs before the first attempt only.
        self.check_free(key).await?;
        let length = file.metadata().map_err(BlobError::from_disk_error)?.len();
        let (path, started, mut pause) = (self.path(key), Instant::now(), FIRST_PAUSE);
        let mut retries = 0;
        loop {
            let failure = match self.try_to_put(&path, file.clone(), length).await {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            if !failure.is_transient || retries == MAX_RETRIES || started.elapsed() > MAX_RETRY_TIME {
                return Err(BlobError::Unavailable(failure.cause));
            }
            retries += 1;
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    async fn try_to_put(&self, path: &Path, file: Arc<File>, length: u64) -> Result<(), PutFailure> {
        let address = self.bucket.signed_url(Method::PUT, path, UPLOAD_VALID).await;
        let address = address.map_err(|error| PutFailure { is_transient: false, cause: first_line(error) })?;
        let upload = self
            .uploads
            .put(address)
            .header(header::CONTENT_LENGTH, length)
            .timeout(MAX_SILENCE + Duration::from_secs(length / MIN_BYTES_PER_SECOND))
            .body(Body::wrap_stream(pieces(file, length)))
            .send();
        let answer = upload.await.map_err(|error| {
            // The library connects lazily, so all of these errors can be transient.
            PutFailure { is_transient: true, cause: error_text(error, "uploading to the bucket failed") }
        })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let is_transient = status.is_server_error()
            || status == StatusCode::TOO_MANY_REQUESTS
            || status == StatusCode::REQUEST_TIMEOUT;
        Err(PutFailure { is_transient, cause: format!("the bucket answered an upload with {status}") })
    }

    pub(super) async fn read(&self, key: &BlobKey, range: Option<Range<u64>>) -> Result<BlobContent, BlobError> {
        let path = self.path(key);
        // HTTP cannot express an empty range.
        if range.as_ref().is_some_and(|range| range.is_empty()) {
            return Ok(nothing_of(self.size(&path).await?));
        }
        let options = GetOptions { range: range.clone().map(GetRange::Bounded), ..GetOptions::default() };
        let object = match (self.bucket.get_opts(&path, options).await, range) {
            (Ok(object), _) => object,
            (Err(error @ object_store::Error::NotFound { .. }), _) | (Err(error), None) => {
                return Err(from_name_error(error));
            }
            // The bucket refuses a range beyond the end.
            (Err(error), Some(range)) => {
                let size = self.size(&path).await?;
                return if clamp_range(Some(range), size).is_empty() {
                    Ok(nothing_of(size))
                } else {
                    Err(from_name_error(error))
                };
            }
        };
        let (size, length) = (object.meta.size, object.range.end - object.range.start);
        let stream = object.into_stream().map_err(|error| io::Error::other(first_line(error))).boxed();
        Ok(BlobContent::Stream { size, length, stream })
    }

    pub(super) async fn local(&self, key: &BlobKey) -> Result<File, BlobError> {
        let object = self.bucket.get_opts(&self.path(key), GetOptions::default()).await.map_err(from_name_error)?;
        let size = object.meta.size;
        let mut file = self.temporary_file().await?;
        let mut pieces = object.into_stream();
        while let Some(piece) = pieces.try_next().await.map_err(unavailable)? {
            let written = blocking(move || file.write_all(&piece).map(|()| file));
            file = written.await.map_err(BlobError::from_disk_error)?;
        }
        file.rewind().map_err(BlobError::from_disk_error)?;
        match file.metadata() {
            Ok(metadata) if metadata.len() == size => Ok(file),
            Ok(_) => Err(BlobError::Unavailable("the bucket did not send the whole file".into())),
            Err(error) => Err(BlobError::from_disk_error(error)),
        }
    }

    /// Lists the files of a group. The bucket answers page by page.
    pub(super) fn list(&self, group: &str) -> impl Stream<Item = Result<BlobListing, BlobError>> + Send + 'static {
        let prefix = self.group(group);
        let objects = self.bucket.list(Some(&prefix)).map_err(unavailable);
        objects.try_filter_map(move |object| {
            let name = object.location.prefix_match(&prefix).and_then(|mut parts| match (parts.next(), parts.next()) {
                (Some(name), None) if is_name(name.as_ref()) => Some(name.as_ref().to_owned()),
                _ => None,
            });
            let stored_at = object.last_modified.timestamp_micros();
            ready(Ok(name.map(|name| BlobListing { name, stored_at })))
        })
    }

    pub(super) async fn remove(&self, key: &BlobKey) -> Result<(), BlobError> {
        match self.bucket.delete(&self.path(key)).await {
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            removed => removed.map_err(unavailable),
        }
    }

    /// Removes all files of a group. The bucket lists them page by page.
    pub(super) async fn remove_group(&self, group: &str) -> Result<(), BlobError> {
        let paths = self.bucket.list(Some(&self.group(group))).map_ok(|object| object.location).boxed();
        self.bucket.delete_stream(paths).try_for_each(|_| async { Ok(()) }).await.map_err(unavailable)
    }

    pub(super) async fn presigned(
        &self,
        method: Method,
        key: &BlobKey,
        valid: Duration,
        query: &[(&str, &str)],
    ) -> Result<String, BlobError> {
        let options = SignedUrlOptions::new().with_query(query.iter().copied());
        let address = self.bucket.signed_url_opts(method, &self.path(key), valid, &options).await;
        Ok(address.map_err(unavailable)?.into())
    }

    async fn size(&self, path: &Path) -> Result<u64, BlobError> {
        Ok(self.bucket.head(path).await.map_err(from_name_error)?.size)
    }

    /// Returns the prefix of the keys of a group's files, without the slash after it.
    fn group(&self, group: &str) -> Path {
        self.prefix.clone().join(assert_valid_part(group))
    }

    fn path(&self, key: &BlobKey) -> Path {
        self.group(&key.group).join(assert_valid_part(&key.name))
    }
}

/// Translates an error of a list. The library reports the bucket's own code only in its text.
fn outage(error: &str) -> Outage {
    if error.contains("NoSuchBucket") {
        Outage::NoSuchBucket
    } else if ["AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"].iter().any(|code| error.contains(code)) {
        Outage::AccessDenied
    } else {
        Outage::Unreachable
    }
}

/// The reason for which an attempt to upload failed.
struct PutFailure {
    /// Is true if another attempt may succeed.
    is_transient: bool,
    cause: String,
}

/// Returns the empty range of a file.
fn nothing_of(size: u64) -> BlobContent {
    BlobContent::Stream { size, length: 0, stream: stream::empty().boxed() }
}

/// Returns a builder for a bucket, and the prefix in its address.
pub(super) fn builder(
    url: &str,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<(AmazonS3Builder, Path), String> {
    // The library supports other stores, too.
    let unsupported = "expected s3://bucket/prefix";
    let parsed = Url::parse(url).map_err(|_| unsupported)?;
    let (ObjectStoreScheme::AmazonS3, root) = ObjectStoreScheme::parse(&parsed).map_err(|_| unsupported)? else {
        return Err(unsupported.into());
    };
    // The HTTP clients use the process's cryptography provider, and panic without one. A second installation changes
    // nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let retry = RetryConfig { max_retries: MAX_RETRIES, retry_timeout: MAX_RETRY_TIME, ..RetryConfig::default() };
    let mut builder = AmazonS3Builder::new().with_retry(retry);
    for (name, value) in environment.into_iter().filter(|(name, _)| name.starts_with("AWS_")) {
        if let Ok(key) = name.to_ascii_lowercase().parse() {
            builder = builder.with_config(key, value);
        }
    }
    let calls = client(&builder, Some(MAX_SILENCE)).map_err(unmade)?;
    Ok((builder.with_url(url).with_http_connector(BucketConnector(calls)), root))
}

fn unmade(error: reqwest::Error) -> String {
    error_text(error, "the client cannot be made")
}

/// Translates an error at a file that should exist.
fn from_name_error(error: object_store::Error) -> BlobError {
    match error {
        object_store::Error::NotFound { .. } => BlobError::Missing,
        error => unavailable(error),
    }
}

/// Translates an error. The library does not distinguish a bucket that refuses from one that does not answer.
pub(super) fn unavailable(error: object_store::Error) -> BlobError {
    BlobError::Unavailable(first_line(error))
}

/// Returns the first line of an error, which has the cause. The bucket's answer follows it and may be long.
pub(super) fn first_line(error: object_store::Error) -> String {
    error.to_string().lines().next().unwrap_or("").chars().take(MAX_ERROR_CHARS).collect()
}

/// Returns an error with its causes, without the address, which is equivalent to a key.
fn error_text(error: reqwest::Error, summary: &str) -> String {
    let error = error.without_url();
    let (mut words, mut cause) = (summary.to_owned(), error.source());
    while let Some(next) = cause {
        words += &format!(": {next}");
        cause = next.source();
    }
    words.lines().next().unwrap_or("").chars().take(MAX_ERROR_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(url: &str) -> Result<S3Bucket, String> {
        let environment =
            [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("AWS_REGION", "eu-west-1")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        S3Bucket::open(url, "", environment, PathBuf::from("/nowhere"))
    }

    #[tokio::test]
    async fn addresses_are_presigned_for_their_time() {
        let s3 = open("s3://bucket/some/prefix").unwrap();
        let (key, valid) = (BlobKey::new("acme", "a-file"), Duration::from_secs(900));
        for method in [Method::PUT, Method::GET] {
            let address = s3.presigned(method, &key, valid, &[("response-cache-control", "no-store")]).await.unwrap();
            let url = Url::parse(&address).unwrap();
            assert_eq!(url.host_str(), Some("s3.eu-west-1.amazonaws.com"));
            assert_eq!(url.path(), "/bucket/some/prefix/acme/a-file");
            for pair in [("X-Amz-Expires", "900"), ("response-cache-control", "no-store")] {
                assert!(url.query_pairs().any(|(name, value)| (&*name, &*value) == pair), "{url}");
            }
        }
    }

    #[test]
    fn other_addresses_than_of_s3_are_refused() {
        for url in
            ["", "bucket", "file:///srv/files", "memory:///", "gs://bucket/x", "http://host/bucket", "ftp://host/x"]
        {
            assert_eq!(open(url).err().as_deref(), Some("expected s3://bucket/prefix"), "{url}");
        }
        assert!(open("s3:///prefix").is_err());
        assert!(open("https://bucket.s3.eu-west-1.amazonaws.com/prefix").is_ok());
    }
}
