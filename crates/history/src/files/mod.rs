//! The files of events, in the data directory or in an S3 bucket (`docs/reference/history.md`).
//!
//! The API itself transfers no files. It hands out signed addresses that are valid for 15 minutes: for S3 the bucket's
//! own presigned addresses, for the data directory addresses of this service ([`address`]), which [`Files::answer`]
//! serves and which need no key in a header.

#[doc(hidden)]
pub mod address;
mod directory;
mod s3;

pub use address::CONTENT_PATH;

use crate::engine::{Error, Tenant};
use directory::Directory;
use hyper::body::Incoming;
use s3::S3;
use std::path::PathBuf;
use uuid::Uuid;
use web::clock::Clock;
use web::content::Content;

/// The files of all tenants.
pub struct Files(Storage);

enum Storage {
    Directory(Directory),
    S3(S3),
}

impl Files {
    /// Opens the bucket that `CHANCERY_FILES_URL` names, else the data directory. An error is one line that names the
    /// setting.
    ///
    /// - `directory`: where files are stored if not on S3; made if it is missing;
    /// - `public_url`: `CHANCERY_HISTORY_URL`, without a slash at its end;
    /// - `key`: a secret that all processes share, from which the key of the addresses is derived.
    pub fn open(
        files_url: Option<&str>,
        directory: PathBuf,
        public_url: String,
        key: &[u8],
        clock: Clock,
    ) -> Result<Files, String> {
        let variables =
            std::env::vars_os().filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()));
        Files::open_in(variables, files_url, directory, public_url, key, clock)
    }

    /// Does what [`Files::open`] does, in an environment that is not the process's. S3 takes its endpoint and keys from
    /// it (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT`, …).
    pub fn open_in(
        environment: impl IntoIterator<Item = (String, String)>,
        files_url: Option<&str>,
        directory: PathBuf,
        public_url: String,
        key: &[u8],
        clock: Clock,
    ) -> Result<Files, String> {
        let storage = match files_url {
            Some(url) => {
                Storage::S3(S3::open(url, environment).map_err(|cause| format!("CHANCERY_FILES_URL: {cause}"))?)
            }
            None => Storage::Directory(
                Directory::open(directory.clone(), public_url, key, clock)
                    .map_err(|error| format!("CHANCERY_DATA: {}: {error}", directory.display()))?,
            ),
        };
        Ok(Files(storage))
    }

    /// A new file id, and the address to which the file's content can be uploaded, once: by a PUT of at most 50 MB
    /// within 15 minutes.
    pub async fn upload_address(&self, tenant: &Tenant) -> Result<(Uuid, String), Error> {
        let file_id = Uuid::new_v4();
        let address = match &self.0 {
            Storage::Directory(directory) => directory.upload_address(tenant, file_id).await?,
            Storage::S3(s3) => s3.upload_address(tenant, file_id).await?,
        };
        Ok((file_id, address))
    }

    /// The address at which a file can be downloaded for 15 minutes. Whether the file exists is not checked here.
    pub async fn download_address(&self, tenant: &Tenant, file_id: Uuid) -> Result<String, Error> {
        match &self.0 {
            Storage::Directory(directory) => Ok(directory.download_address(tenant, file_id)),
            Storage::S3(s3) => s3.download_address(tenant, file_id).await,
        }
    }

    /// Removes all files of a tenant; can be repeated. It must be called between the beginning and the end of the
    /// tenant's deletion, when no other tenant can have its name.
    pub async fn delete_tenant(&self, tenant: &Tenant) -> Result<(), Error> {
        match &self.0 {
            Storage::Directory(directory) => directory.delete_tenant(tenant).await,
            Storage::S3(s3) => s3.delete_tenant(tenant).await,
        }
    }

    /// Answers a request for a path below [`CONTENT_PATH`]. If files are on S3, the answer is 404.
    pub async fn answer(&self, request: http::Request<Incoming>) -> http::Response<Content> {
        match &self.0 {
            Storage::Directory(directory) => directory.answer(request).await,
            Storage::S3(_) => directory::FileRefusal::Missing.into(),
        }
    }
}
