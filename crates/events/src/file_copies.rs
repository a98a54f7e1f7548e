//! The copies of generated documents in the history service (`docs/reference/history.md`). A copy is put there first; the event
//! `document_generated` that names it is written afterwards. The service removes a copy after 7 days if no event names it.

use crate::client;
use crate::history_client::{CALL_TIMEOUT, CallFailure};
use crate::history_tenants::{self, TenantError};
use crate::own_history;
use http::StatusCode;
use kit::app::App;
use kit::build::Build;
use std::fmt;
use std::fs::File;
use store::StoreError;

/// The maximum size of a file that the history service accepts, in bytes.
pub const MAX_BYTES: u64 = 50 * 1024 * 1024;

/// The reason why a file was not put.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyFailure {
    /// The reason in one line, without secrets.
    pub why: String,
    /// Is true if a later attempt may succeed.
    pub may_retry: bool,
}

impl CopyFailure {
    fn new(why: impl fmt::Display, may_retry: bool) -> CopyFailure {
        // The answer may be a page of a proxy.
        let why = why.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        CopyFailure { why, may_retry }
    }
}

impl fmt::Display for CopyFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl From<TenantError> for CopyFailure {
    fn from(error: TenantError) -> CopyFailure {
        match error {
            TenantError::Service(failure) => failure.into(),
            // The build is being deleted.
            TenantError::Store(StoreError::Missing) => CopyFailure::new("the build does not exist", false),
            TenantError::Store(error) => CopyFailure::new(error, true),
        }
    }
}

impl From<CallFailure> for CopyFailure {
    fn from(failure: CallFailure) -> CopyFailure {
        CopyFailure::new(&failure, !failure.is_final())
    }
}

/// A copy in the history service.
#[derive(Clone, Debug, PartialEq)]
pub struct FileCopy {
    /// The `X-Client-Id` of the tenant for which it is stored.
    pub client_id: String,
    pub file_id: String,
}

/// Returns the `X-Client-Id` of a build's tenant in the history service; `None` without a history
/// service or a tenant there. Events cannot name copies of another tenant.
pub async fn client_id(app: &App, build: &Build) -> Result<Option<String>, StoreError> {
    if client(app).is_none() {
        return Ok(None);
    }
    Ok(history_tenants::find(app, &build.uid).await?.map(|tenant| tenant.client_id))
}

/// Puts the first `size` bytes of a file into the history service. Returns the id of the copy, which an event must
/// name; `None` if there is no history service. A retry repeats all steps: each attempt creates another copy.
///
/// The operator chooses the service, so it may be in a network that tenants may not reach.
pub async fn put_copy(app: &App, build: &Build, file: File, size: u64) -> Result<Option<String>, CopyFailure> {
    let Some(service) = client(app) else { return Ok(None) };
    if size > MAX_BYTES {
        return Err(CopyFailure::new("the file has more than 50 MB", false));
    }
    own_history::verify(app, service, CALL_TIMEOUT).await?;
    let tenant = history_tenants::ensure(app, service, build, CALL_TIMEOUT).await?;
    let address = service.upload_address(&tenant.client_id).await?;
    let put = service.put_file(&address.upload_url, file, size).await;
    let status = put.map_err(|why| CopyFailure::new(format_args!("the file was not uploaded: {why}"), true))?;
    if status.is_success() {
        return Ok(Some(address.file_id));
    }
    Err(CopyFailure::new(format_args!("the upload of the file was answered with {status}"), may_pass(status)))
}

/// Returns whether another attempt, which has another address, may get another answer.
fn may_pass(status: StatusCode) -> bool {
    let is_for_now = [
        // The address has expired, for example.
        StatusCode::FORBIDDEN,
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    !status.is_client_error() || is_for_now.contains(&status)
}
