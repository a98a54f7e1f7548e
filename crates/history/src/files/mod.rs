//! Where the files of events live: in the data directory or in an S3 bucket (document 3, "Upload address"; document 4,
//! section 6, rows "upload address" and `…/file`).
//!
//! Files never come through the API itself. It hands out addresses that are good for 15 minutes: on S3 the bucket's own,
//! presigned; for the data directory addresses of this service, signed in the same spirit ([`address`]), which
//! [`Files::answer`] serves without any key in a header.

#[doc(hidden)]
pub mod address;
mod directory;
mod s3;

use crate::engine::{Error, Tenant};
use directory::Directory;
use hyper::body::Incoming;
use s3::S3;
use std::path::PathBuf;
use uuid::Uuid;
use web::clock::Clock;
use web::content::Content;

/// What the paths of the service's own addresses begin with.
pub const CONTENT_PATH: &str = "/api/files/content/";
/// How long an address is good.
const VALID_SECONDS: u64 = 15 * 60;

/// The files of all tenants.
pub struct Files(Place);

enum Place {
    Directory(Directory),
    S3(S3),
}

impl Files {
    /// Opens the place that `CHANCERY_FILES_URL` names, or the data directory; an error is one line that names the setting.
    ///
    /// - `directory`: where files lie if not on S3; made when it is missing;
    /// - `public_url`: `CHANCERY_HISTORY_URL`, without a slash at its end;
    /// - `key`: the secret that all processes share, from which the key of the addresses is derived.
    pub fn open(
        files_url: Option<&str>,
        directory: PathBuf,
        public_url: String,
        key: &[u8],
        clock: Clock,
    ) -> Result<Files, String> {
        let words =
            std::env::vars_os().filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()));
        Files::open_in(words, files_url, directory, public_url, key, clock)
    }

    /// The same with another environment than the process has: S3 takes its endpoint and keys from there
    /// (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT`, …).
    pub fn open_in(
        environment: impl IntoIterator<Item = (String, String)>,
        files_url: Option<&str>,
        directory: PathBuf,
        public_url: String,
        key: &[u8],
        clock: Clock,
    ) -> Result<Files, String> {
        let place = match files_url {
            Some(url) => Place::S3(S3::open(url, environment).map_err(|cause| format!("CHANCERY_FILES_URL: {cause}"))?),
            None => Place::Directory(
                Directory::open(directory.clone(), public_url, key, clock)
                    .map_err(|error| format!("CHANCERY_DATA: {}: {error}", directory.display()))?,
            ),
        };
        Ok(Files(place))
    }

    /// A fresh file id and the address that takes its content, by one PUT of at most 50 MB within 15 minutes.
    pub async fn upload_address(&self, tenant: &Tenant) -> Result<(Uuid, String), Error> {
        let file_id = Uuid::new_v4();
        let address = match &self.0 {
            Place::Directory(directory) => directory.upload_address(tenant, file_id).await?,
            Place::S3(s3) => s3.upload_address(tenant, file_id).await?,
        };
        Ok((file_id, address))
    }

    /// The address that gives a file for 15 minutes. Whether there is one shows when it is opened.
    pub async fn download_address(&self, tenant: &Tenant, file_id: Uuid) -> Result<String, Error> {
        match &self.0 {
            Place::Directory(directory) => Ok(directory.download_address(tenant, file_id)),
            Place::S3(s3) => s3.download_address(tenant, file_id).await,
        }
    }

    /// Removes all files of a tenant; can be repeated. It must stand between the beginning and the end of a tenant's
    /// deletion, while no other tenant can have its name.
    pub async fn delete_tenant(&self, tenant: &Tenant) -> Result<(), Error> {
        match &self.0 {
            Place::Directory(directory) => directory.delete_tenant(tenant).await,
            Place::S3(s3) => s3.delete_tenant(tenant).await,
        }
    }

    /// Answers a request for a path below [`CONTENT_PATH`]. Where files are on S3 nothing is there.
    pub async fn answer(&self, request: http::Request<Incoming>) -> http::Response<Content> {
        match &self.0 {
            Place::Directory(directory) => directory.answer(request).await,
            Place::S3(_) => directory::Refusal::Missing.into(),
        }
    }
}
