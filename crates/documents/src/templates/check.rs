//! Reads uploaded templates outside of transactions, and few at a time, because the largest need some time and memory.

use super::merge_fields::MergeField;
use crate::merge::{self, TemplateReport};
use files::stored_files::StoredFile;
use files::{Storage, storage_key, to_store_error};
use kit::ids::FileId;
use kit::refusal::Refusal;
use kit::request::Request;
use std::io::BufReader;
use std::time::Duration;
use store::StoreError;
use web::shares::{ShareBounds, Shares};

/// The number of templates that a process reads at a time, at most one of each build.
const AT_A_TIME: usize = 2;
/// The maximum time that a request waits for a permit.
const PATIENCE: Duration = Duration::from_secs(10);

/// The permits to read templates.
pub struct TemplatePermits(Shares);

impl Default for TemplatePermits {
    fn default() -> TemplatePermits {
        TemplatePermits(Shares::new(ShareBounds { total: AT_A_TIME, build: 1, account: 1, kept: 0 }))
    }
}

/// The result of the check of a file.
pub struct CheckedFile {
    /// The file that was read.
    pub file: FileId,
    /// Its tags. `None` if it is not a template.
    pub fields: Option<Vec<MergeField>>,
}

/// Reads the merge fields of a stored file.
pub async fn read(request: &Request, file: &StoredFile) -> Result<CheckedFile, Refusal> {
    let survey = survey(request, file).await?;
    let fields = survey.errors.is_empty().then(|| MergeField::distinct_tags(&survey.tags));
    Ok(CheckedFile { file: file.id, fields })
}

/// Surveys a stored file as a template, with a permit.
pub async fn survey(request: &Request, file: &StoredFile) -> Result<TemplateReport, Refusal> {
    let readers = &request.app.slot::<TemplatePermits>().0;
    let turn = readers.acquire(&request.holder(), 1, PATIENCE).await.ok_or_else(Refusal::overloaded)?;
    let storage: &Storage = request.app.slot();
    let local = storage.blobs.local(&storage_key(&request.build, &file.uuid)).await.map_err(to_store_error)?;
    let survey = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        merge::survey(BufReader::new(local))
    });
    let survey =
        survey.await.map_err(|error| StoreError::internal(format_args!("a template was not read: {error}")))?;
    Ok(survey.map_err(|error| StoreError::Unavailable(error.reason))?)
}
