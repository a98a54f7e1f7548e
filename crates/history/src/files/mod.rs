//! The files of events, in the data directory or in an S3 bucket (`docs/reference/history.md`).
//!
//! The API itself transfers no files. It returns signed addresses that are valid for 15 minutes. For S3 they are the
//! bucket's own presigned addresses. For the data directory they are addresses of this service ([`address`]), which
//! [`Files::answer`] serves ([`requests`]) and which need no key in a header.

#[doc(hidden)]
pub mod address;
mod requests;

pub use address::CONTENT_PATH;

use crate::engine::{EngineError, Tenant};
use address::{ADDRESS_VALID_SECONDS, Addresses};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt, TryStreamExt};
use http::Method;
use hyper::body::Incoming;
use requests::FileRefusal;
use std::fs::File;
use std::future::ready;
use std::path::PathBuf;
use std::time::Duration;
use store::blobs::health::{BlobHealth, BlobWatch};
use store::blobs::{BlobError, BlobKey, Blobs, NewBlob, process_environment};
use uuid::Uuid;
use web::clock::Clock;
use web::content::BodyContent;

/// The group in a bucket with an empty file for each service that uses it, named by its id. The hyphen distinguishes it
/// from every `database_name`.
const USERS: &str = "history-services";

/// The files of all tenants.
pub struct Files {
    blobs: Blobs,
    watch: BlobWatch,
    public_url: String,
    addresses: Addresses,
    clock: Clock,
}

impl Files {
    /// Opens the bucket that `CHANCERY_FILES_URL` names, otherwise the data directory. An error is one line that names
    /// the setting.
    ///
    /// - `directory`: the directory of the files without S3, created if it is missing;
    /// - `public_url`: `CHANCERY_HISTORY_URL`, without a slash at its end;
    /// - `key`: a secret that all processes share, from which the key of the addresses is derived.
    pub fn open(
        files_url: Option<&str>,
        directory: PathBuf,
        public_url: String,
        key: &[u8],
        clock: Clock,
    ) -> Result<Files, String> {
        Files::open_in(process_environment(), files_url, directory, public_url, key, clock)
    }

    /// Opens files as [`Files::open`] does, with an environment in place of that of the process. It contains the endpoint and
    /// the keys of S3 (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT`, …).
    pub fn open_in(
        environment: impl IntoIterator<Item = (String, String)>,
        files_url: Option<&str>,
        directory: PathBuf,
        public_url: String,
        key: &[u8],
        clock: Clock,
    ) -> Result<Files, String> {
        let blobs = Blobs::open(environment, files_url, "", directory, clock.clone())?;
        Ok(Files {
            blobs,
            watch: BlobWatch::default(),
            public_url,
            addresses: Addresses::new(key, clock.clone()),
            clock,
        })
    }

    /// Begins to check periodically whether the store of files answers.
    pub fn start_watch(&self) {
        self.watch.start(self.blobs.clone(), self.clock.clone());
    }

    /// Returns the health of the store of files, if the checks have begun.
    pub(crate) fn health(&self) -> Option<BlobHealth> {
        self.watch.health()
    }

    /// Returns a new file id, and the address to which the file's content can be uploaded once. The upload is a PUT of
    /// at most 50 MB within 15 minutes.
    pub async fn upload_address(&self, tenant: &Tenant) -> Result<(Uuid, String), EngineError> {
        let file_id = Uuid::new_v4();
        // An upload must not create the group, because the tenant may have been deleted.
        self.blobs.make_group(&self.group(tenant)).await?;
        Ok((file_id, self.address(Method::PUT, tenant, file_id, &[]).await?))
    }

    /// Returns the address at which a file can be downloaded for 15 minutes. Does not check that the file exists.
    pub async fn download_address(&self, tenant: &Tenant, file_id: Uuid) -> Result<String, EngineError> {
        // These headers prevent browsers from showing or running the file, independent of its type at the upload.
        let query = [
            ("response-cache-control", "no-store"),
            ("response-content-disposition", "attachment"),
            ("response-content-type", "application/octet-stream"),
        ];
        self.address(Method::GET, tenant, file_id, &query).await
    }

    /// Removes all files of a tenant. It can be repeated. Call it between the beginning and the end of the tenant's
    /// deletion, when no other tenant can have its name.
    pub async fn delete_tenant(&self, tenant: &Tenant) -> Result<(), EngineError> {
        Ok(self.blobs.remove_group(&self.group(tenant)).await?)
    }

    /// Returns the files of a tenant with at least this age, in microseconds.
    pub(crate) fn older_than(
        &self,
        tenant: &Tenant,
        age: i64,
    ) -> impl Stream<Item = Result<Uuid, EngineError>> + Send + Unpin + use<> {
        let put_until = self.clock.now() - age;
        let old = self.blobs.list(&self.group(tenant)).try_filter_map(move |file| {
            // Other names are not those of this service.
            let id = Uuid::try_parse(&file.name).ok().filter(|id| id.to_string() == file.name);
            ready(Ok(id.filter(|_| file.stored_at <= put_until)))
        });
        old.map_err(EngineError::from)
    }

    /// Returns the ids of all files of a tenant, for the export of its build.
    pub fn list(&self, tenant: &Tenant) -> BoxStream<'static, Result<Uuid, EngineError>> {
        self.older_than(tenant, i64::MIN / 2).boxed()
    }

    /// Returns the content of a file as a local one.
    pub async fn local(&self, tenant: &Tenant, file_id: Uuid) -> Result<File, EngineError> {
        Ok(self.blobs.local(&BlobKey::new(self.group(tenant), file_id)).await?)
    }

    /// Begins a file of a tenant whose build is imported.
    pub async fn begin(&self, tenant: &Tenant) -> Result<NewBlob, EngineError> {
        self.blobs.make_group(&self.group(tenant)).await?;
        Ok(self.blobs.begin().await?)
    }

    /// Stores a file of [`Files::begin`] under its id.
    pub async fn store(&self, tenant: &Tenant, file_id: Uuid, file: NewBlob) -> Result<(), EngineError> {
        Ok(file.finish(&BlobKey::new(self.group(tenant), file_id)).await?)
    }

    /// Removes a file. It can be repeated.
    pub(crate) async fn remove(&self, tenant: &Tenant, file_id: Uuid) -> Result<(), EngineError> {
        Ok(self.blobs.remove(&BlobKey::new(self.group(tenant), file_id)).await?)
    }

    /// Records in a bucket that this service uses it, and returns the ids of the other recorded services. A data
    /// directory belongs to one service.
    pub(crate) async fn other_users(&self, service_id: &str) -> Result<Vec<String>, EngineError> {
        if !self.blobs.is_on_s3() {
            return Ok(Vec::new());
        }
        let mut users: Vec<String> = self.blobs.list(USERS).map_ok(|user| user.name).try_collect().await?;
        if !users.iter().any(|user| user == service_id) {
            match self.blobs.begin().await?.finish(&BlobKey::new(USERS, service_id)).await {
                // Another process of the service was faster.
                Err(BlobError::Exists) => {}
                noted => noted?,
            }
            // Another service may have recorded itself at the same time.
            users = self.blobs.list(USERS).map_ok(|user| user.name).try_collect().await?;
        }
        users.retain(|user| user != service_id);
        Ok(users)
    }

    /// Answers a request for a path below [`CONTENT_PATH`]. If files are on S3, the answer is 404.
    pub async fn answer(&self, request: http::Request<Incoming>) -> http::Response<BodyContent> {
        if self.blobs.is_on_s3() {
            return FileRefusal::Missing.into();
        }
        requests::respond(&self.blobs, &self.addresses, request).await.unwrap_or_else(FileRefusal::into)
    }

    /// Returns an address of the bucket, with a query that only a bucket interprets, or of this service.
    async fn address(
        &self,
        method: Method,
        tenant: &Tenant,
        file_id: Uuid,
        query: &[(&str, &str)],
    ) -> Result<String, EngineError> {
        let (key, valid) = (BlobKey::new(self.group(tenant), file_id), Duration::from_secs(ADDRESS_VALID_SECONDS));
        let presigned = self.blobs.presigned(method.clone(), &key, valid, query).await?;
        Ok(presigned.unwrap_or_else(|| format!("{}{}", self.public_url, self.addresses.make(&method, tenant, file_id))))
    }

    /// Returns the group of a tenant's files. In a bucket people should find them by the tenant's name.
    fn group(&self, tenant: &Tenant) -> String {
        if self.blobs.is_on_s3() { tenant.database_name.clone() } else { tenant.client_id.to_string() }
    }
}

impl From<BlobError> for EngineError {
    fn from(error: BlobError) -> EngineError {
        match error {
            // The tenant was deleted.
            BlobError::Missing => EngineError::NoTenant,
            BlobError::Full(cause) | BlobError::Unavailable(cause) => EngineError::Unavailable(cause),
            BlobError::Exists | BlobError::Failed(_) => EngineError::Failed(error.to_string()),
        }
    }
}
