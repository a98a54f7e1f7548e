//! A store outside the deployment's own files, to which documents are copied under readable names: a directory, or an
//! S3 bucket.

use super::s3::{self, builder};
use super::{BlobError, blocking, pieces};
use futures_util::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, WriteMultipart};
use std::fs::File;
use std::pin::pin;
use std::sync::Arc;
use url::Url;

/// The size of a part of a larger file on S3, in bytes.
const PART: usize = 8 * 1024 * 1024;

/// A directory or a bucket, or a prefix of it.
pub struct DocumentStore {
    store: Arc<dyn ObjectStore>,
    root: Path,
}

impl DocumentStore {
    /// Opens `file:///directory` or `s3://bucket/prefix`. Creates a missing directory. The environment names the
    /// endpoint and the keys of S3. An error is one line.
    pub fn open(url: &str, environment: impl IntoIterator<Item = (String, String)>) -> Result<DocumentStore, String> {
        let unsupported = || "expected file:///directory or s3://bucket/prefix".to_owned();
        let parsed = Url::parse(url).map_err(|_| unsupported())?;
        if parsed.scheme() == "file" {
            let directory = parsed.to_file_path().map_err(|()| unsupported())?;
            let result = std::fs::create_dir_all(&directory);
            result.map_err(|error| format!("{}: {error}", directory.display()))?;
            let store = LocalFileSystem::new_with_prefix(&directory).map_err(s3::first_line)?;
            return Ok(DocumentStore { store: Arc::new(store.with_fsync(true)), root: Path::default() });
        }
        let (builder, root) = builder(url, environment).map_err(|_| unsupported())?;
        let store = builder.build().map_err(s3::first_line)?;
        Ok(DocumentStore { store: Arc::new(store), root })
    }

    /// Returns the location of a path. The parts of the path are names, never `.` or `..`.
    fn object_path(&self, path: &str) -> Result<Path, BlobError> {
        let root = if self.root.as_ref().is_empty() { String::new() } else { format!("{}/", self.root) };
        Path::parse(root + path).map_err(|error| BlobError::Failed(error.to_string()))
    }

    /// Returns whether a file with this path exists.
    pub async fn exists(&self, path: &str) -> Result<bool, BlobError> {
        match self.store.head(&self.object_path(path)?).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(s3::unavailable(error)),
        }
    }

    /// Writes a file, and replaces an existing one.
    pub async fn write_file(&self, path: &str, file: Arc<File>) -> Result<(), BlobError> {
        let place = self.object_path(path)?;
        let handle = file.clone();
        let length = blocking(move || handle.metadata()).await.map_err(BlobError::from_disk_error)?.len();
        let mut pieces = pin!(pieces(file, length));
        if length <= PART as u64 {
            let mut bytes = Vec::with_capacity(length as usize);
            while let Some(piece) = pieces.try_next().await.map_err(BlobError::from_disk_error)? {
                bytes.extend_from_slice(&piece);
            }
            return self.store.put(&place, PutPayload::from(bytes)).await.map(drop).map_err(s3::unavailable);
        }
        let upload = self.store.put_multipart(&place).await.map_err(s3::unavailable)?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PART);
        while let Some(piece) = pieces.try_next().await.map_err(BlobError::from_disk_error)? {
            upload.wait_for_capacity(1).await.map_err(s3::unavailable)?;
            upload.write(&piece);
        }
        upload.finish().await.map(drop).map_err(s3::unavailable)
    }
}
