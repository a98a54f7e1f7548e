//! Files in an S3 bucket. Clients upload and download directly, at presigned addresses of the bucket.

use super::address::ADDRESS_VALID_SECONDS;
use crate::engine::{Error, Tenant};
use futures_util::{StreamExt, TryStreamExt};
use http::Method;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::signer::{SignedUrlOptions, Signer};
use object_store::{ObjectStore, ObjectStoreScheme, RetryConfig};
use std::time::Duration;
use url::Url;
use uuid::Uuid;

/// How often a call to the bucket is retried after a transient failure.
const MAX_RETRIES: usize = 5;
/// No retry begins after this time.
const MAX_RETRY_TIME: Duration = Duration::from_secs(20);

/// A bucket, or the keys of a bucket that begin with a prefix.
pub struct S3 {
    bucket: AmazonS3,
    prefix: Path,
}

impl S3 {
    /// Opens `s3://bucket/prefix`, or an `https` address of a bucket, with the endpoint and the keys that the
    /// environment names. Nothing is asked of the bucket yet.
    pub fn open(url: &str, environment: impl IntoIterator<Item = (String, String)>) -> Result<S3, String> {
        // Of the stores that the library knows, only S3 is supported.
        let unsupported = "expected s3://bucket/prefix";
        let parsed = Url::parse(url).map_err(|_| unsupported)?;
        let (ObjectStoreScheme::AmazonS3, prefix) = ObjectStoreScheme::parse(&parsed).map_err(|_| unsupported)? else {
            return Err(unsupported.into());
        };
        // The library's HTTP client takes the process's cryptography provider, and panics if there is none. Installing
        // it twice changes nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let retry = RetryConfig { max_retries: MAX_RETRIES, retry_timeout: MAX_RETRY_TIME, ..RetryConfig::default() };
        let mut builder = AmazonS3Builder::new().with_retry(retry);
        for (name, value) in environment.into_iter().filter(|(name, _)| name.starts_with("AWS_")) {
            if let Ok(key) = name.to_ascii_lowercase().parse() {
                builder = builder.with_config(key, value);
            }
        }
        let bucket = builder.with_url(url).build().map_err(|error| error.to_string())?;
        Ok(S3 { bucket, prefix })
    }

    /// An address to which a file can be uploaded by PUT.
    pub async fn upload_address(&self, tenant: &Tenant, file_id: Uuid) -> Result<String, Error> {
        self.address(Method::PUT, tenant, file_id, &SignedUrlOptions::new()).await
    }

    /// An address at which a file can be downloaded by GET. Whatever type it was uploaded with, no browser shows or
    /// runs it.
    pub async fn download_address(&self, tenant: &Tenant, file_id: Uuid) -> Result<String, Error> {
        let options = SignedUrlOptions::new().with_query([
            ("response-cache-control", "no-store"),
            ("response-content-disposition", "attachment"),
            ("response-content-type", "application/octet-stream"),
        ]);
        self.address(Method::GET, tenant, file_id, &options).await
    }

    /// Removes all files of a tenant. The bucket lists them page by page.
    pub async fn delete_tenant(&self, tenant: &Tenant) -> Result<(), Error> {
        let found = self.bucket.list(Some(&self.tenant_prefix(tenant))).map_ok(|object| object.location).boxed();
        self.bucket.delete_stream(found).try_for_each(|_| async { Ok(()) }).await.map_err(error)
    }

    async fn address(
        &self,
        method: Method,
        tenant: &Tenant,
        file_id: Uuid,
        options: &SignedUrlOptions,
    ) -> Result<String, Error> {
        let key = self.tenant_prefix(tenant).join(file_id.to_string());
        let valid = Duration::from_secs(ADDRESS_VALID_SECONDS);
        Ok(self.bucket.signed_url_opts(method, &key, valid, options).await.map_err(error)?.into())
    }

    /// What the keys of a tenant's files begin with, without the slash after it.
    fn tenant_prefix(&self, tenant: &Tenant) -> Path {
        self.prefix.clone().join(tenant.database_name.as_str())
    }
}

/// An error of the library, which does not distinguish a bucket that refuses from one that does not answer. The first
/// line has the cause; the bucket's answer follows, which may be long.
fn error(error: object_store::Error) -> Error {
    let text = error.to_string();
    Error::Unavailable(text.lines().next().unwrap_or("").chars().take(500).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(url: &str) -> Result<S3, String> {
        let environment =
            [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("AWS_REGION", "eu-west-1")];
        S3::open(url, environment.map(|(name, value)| (name.to_owned(), value.to_owned())))
    }

    #[tokio::test]
    async fn addresses_are_presigned_for_a_quarter_of_an_hour() {
        let s3 = open("s3://bucket/some/prefix").unwrap();
        let (client_id, file_id) = (Uuid::new_v4(), Uuid::new_v4());
        let (secret_hash, client_label) = (String::new(), String::new());
        let tenant = Tenant { client_id, secret_hash, database_name: "acme".into(), client_label };
        for address in
            [s3.upload_address(&tenant, file_id).await.unwrap(), s3.download_address(&tenant, file_id).await.unwrap()]
        {
            let url = Url::parse(&address).unwrap();
            assert_eq!(url.host_str(), Some("s3.eu-west-1.amazonaws.com"));
            assert_eq!(url.path(), format!("/bucket/some/prefix/acme/{file_id}"));
            assert!(url.query_pairs().any(|pair| pair == ("X-Amz-Expires".into(), "900".into())), "{url}");
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
