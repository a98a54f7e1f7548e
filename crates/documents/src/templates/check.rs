//! Reads uploaded templates: outside of every transaction, few at a time, since the largest take some time and memory.

use super::merge_fields::MergeField;
use crate::docx::{Refused, TemplateError};
use crate::merge::{self, Survey};
use files::held::File;
use files::{Storage, storage_key, stored};
use kit::app::App;
use kit::build::Build;
use kit::refusal::Refusal;
use std::io::BufReader;
use std::sync::Arc;
use std::time::Duration;
use store::Error;
use tokio::sync::Semaphore;

/// How many templates a process reads at a time.
const AT_A_TIME: usize = 2;
/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// The turns to read templates.
pub struct Readers(Arc<Semaphore>);

impl Default for Readers {
    fn default() -> Readers {
        Readers(Arc::new(Semaphore::new(AT_A_TIME)))
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
pub async fn read(app: &App, build: &Build, file: &File) -> Result<Read, Refusal> {
    let survey = survey(app, build, file).await?;
    let fields = survey.errors.is_empty().then(|| MergeField::of_tags(&survey.tags));
    Ok(Read { file: file.id, fields })
}

/// Reads what a stored file would be as a template.
pub async fn survey(app: &App, build: &Build, file: &File) -> Result<Survey, Refusal> {
    let survey = in_turn(app, build, file, merge::survey).await?;
    Ok(survey.map_err(|error| Error::Unavailable(error.reason))?)
}

/// Reads a stored file when it is its turn. An error of the file is the inner one.
async fn in_turn<T: Send + 'static>(
    app: &App,
    build: &Build,
    file: &File,
    read: impl FnOnce(BufReader<std::fs::File>) -> Result<T, TemplateError> + Send + 'static,
) -> Result<Result<T, TemplateError>, Refusal> {
    let busy = || Refusal::busy("The server is busy. Please try again.");
    let turns = app.slot::<Readers>().0.clone();
    let turn = tokio::time::timeout(PATIENCE, turns.acquire_owned()).await.map_err(|_| busy())?.map_err(|_| busy())?;
    let local = app.slot::<Storage>().blobs.local(&storage_key(build, &file.uuid)).await.map_err(stored)?;
    let read = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        read(BufReader::new(local))
    });
    match read.await.map_err(|error| Error::Db(format!("a template was not read: {error}")))? {
        Err(error) if error.kind == Refused::Io => Err(Error::Unavailable(error.reason).into()),
        read => Ok(read),
    }
}
