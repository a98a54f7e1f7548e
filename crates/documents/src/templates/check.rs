//! Reads uploaded templates: outside of every transaction, few at a time, since the largest take some time and memory.

use super::merge_fields::MergeField;
use crate::docx::{Refused, TemplateError};
use crate::merge::{self, Survey};
use files::held::File;
use files::{Storage, storage_key, stored};
use kit::refusal::Refusal;
use kit::request::Request;
use std::io::BufReader;
use std::time::Duration;
use store::Error;
use web::shares::{Bounds, Shares};

/// How many templates a process reads at a time: one of a build.
const AT_A_TIME: usize = 2;
/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// The turns to read templates.
pub struct Readers(Shares);

impl Default for Readers {
    fn default() -> Readers {
        Readers(Shares::new(Bounds { total: AT_A_TIME, build: 1, account: 1, kept: 0 }))
    }
}

/// What a file says.
pub struct Read {
    /// The file that was read.
    pub file: i64,
    /// Its tags; `None`: it is no template.
    pub fields: Option<Vec<MergeField>>,
}

/// Reads the merge fields of a stored file.
pub async fn read(request: &Request, file: &File) -> Result<Read, Refusal> {
    let survey = survey(request, file).await?;
    let fields = survey.errors.is_empty().then(|| MergeField::of_tags(&survey.tags));
    Ok(Read { file: file.id, fields })
}

/// Reads what a stored file would be as a template.
pub async fn survey(request: &Request, file: &File) -> Result<Survey, Refusal> {
    let survey = in_turn(request, file, merge::survey).await?;
    Ok(survey.map_err(|error| Error::Unavailable(error.reason))?)
}

/// Reads a stored file when it is its turn. An error of the file is the inner one.
async fn in_turn<T: Send + 'static>(
    request: &Request,
    file: &File,
    read: impl FnOnce(BufReader<std::fs::File>) -> Result<T, TemplateError> + Send + 'static,
) -> Result<Result<T, TemplateError>, Refusal> {
    let readers = &request.app.slot::<Readers>().0;
    let turn = readers.acquire(&request.holder(), 1, PATIENCE).await.ok_or_else(Refusal::overloaded)?;
    let storage: &Storage = request.app.slot();
    let local = storage.blobs.local(&storage_key(&request.build, &file.uuid)).await.map_err(stored)?;
    let read = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        read(BufReader::new(local))
    });
    match read.await.map_err(|error| Error::Db(format!("a template was not read: {error}")))? {
        Err(error) if error.kind == Refused::Io => Err(Error::Unavailable(error.reason).into()),
        read => Ok(read),
    }
}
