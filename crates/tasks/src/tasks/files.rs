//! The files that responses name: `/api/files/response/file/{uuid}/` (`docs/reference/tasks.md`).

use super::task_access;
use files::stored_files::{FILE_COLUMNS, StoredFile};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{HandlerFuture, Route};
use kit::snapshot;
use std::sync::Arc;
use store::{Conn, Sql};

pub fn routes() -> Vec<Route> {
    vec![Route::download("/api/files/response/file/{uuid}/", download).instance("tasks.view").for_narrowed()]
}

fn download(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let file = snapshot::read(&request, find).await?;
        files::send(&request, &file).await
    })
}

/// Loads the file of the path. Answers 404 unless the caller may view its task.
fn find(request: &Request, conn: &mut Conn) -> Result<StoredFile, Refusal> {
    let mut sql = Sql::new("SELECT ");
    sql.push(FILE_COLUMNS).push(", f.task FROM files f WHERE f.task IS NOT NULL AND f.uuid = ");
    let row =
        conn.query_optional(sql.bind(request.uuid().to_string()), |row| Ok((StoredFile::read(row, 0)?, row.id(4)?)))?;
    let (file, task) = row.ok_or_else(Refusal::not_found)?;
    task_access::load(request, conn, task)?.ok_or_else(Refusal::not_found)?;
    Ok(file)
}
