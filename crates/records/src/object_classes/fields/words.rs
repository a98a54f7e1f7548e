//! Updates the words of a class's records in the text search after a field of texts was deleted. Until then a search may find a
//! record by a word that it does not contain any more.

use crate::classes::class;
use crate::object_records::texts::words_of_page;
use crate::tables;
use kit::app::App;
use kit::build::Build;
use kit::ids::ClassId;
use kit::jobs::{self, Job, JobFailure, JobKind, NewJob};
use kit::request::Request;
use serde_json::json;
use std::sync::Arc;
use store::{Conn, StoreError};

/// The number of records that one transaction updates. Writers of these records wait for it.
const PAGE: i64 = 50;

pub static WORDS: JobKind = JobKind {
    name: "object_record_words",
    runs_again: true,
    run: |app, build, job| Box::pin(rebuild_words(app, build, job)),
    ..JobKind::LONG
};

/// Queues the update of the words of a class's records.
pub fn feed_again(request: &Request, conn: &mut Conn, class: ClassId) -> Result<(), StoreError> {
    let key = class.to_string();
    jobs::enqueue(
        request,
        conn,
        &NewJob { kind: &WORDS, payload: json!({"class": class}), key: Some(&key), not_before: request.now },
    )
    .map(drop)
}

async fn rebuild_words(app: App, build: Arc<Build>, job: Job) -> Result<(), JobFailure> {
    let id = ClassId::new(job.payload["class"].as_i64().unwrap_or(0));
    let page = move |conn: &mut Conn, after: i64| {
        if class(&app, &build, conn, id)?.is_none() {
            return Ok(None);
        }
        tables::lock_for_write(conn, id)?;
        let Some(class) = class(&app, &build, conn, id)? else { return Ok(None) };
        words_of_page(conn, &class, after, PAGE)
    };
    job.run_in_pages(PAGE, page).await
}
