//! Removes files without references, and uploads that were not used in time. A process may die at any time. The row of a file is
//! deleted first, and its name stays in `removed_files` until its bytes are removed, too.

use crate::storage::{Storage, key, to_store_error};
use crate::stored_files::delete;
use kit::app::App;
use kit::build::Build;
use kit::jobs::{JobFuture, StandingJob};
use std::sync::Arc;
use store::{Conn, Sql, StoreError};

/// The number of files that are removed at a time.
const PAGE: i64 = 200;

/// SQL for files without references. The partial index `files_unheld` has the same condition.
const UNHELD: &str = "kept_until IS NULL AND is_public = 0 AND record IS NULL AND template IS NULL AND run IS NULL \
    AND task IS NULL";

pub static REMOVAL: StandingJob = StandingJob { name: "files", at_a_time: 4, due: next_removal_time, run };

fn next_removal_time(_: &App, _: &Build, conn: &mut Conn, _: i64) -> Result<Option<i64>, StoreError> {
    let mut sql =
        Sql::new("SELECT CASE WHEN EXISTS (SELECT 1 FROM removed_files) OR EXISTS (SELECT 1 FROM files WHERE ");
    sql.push(UNHELD).push(") THEN 0 ELSE (SELECT min(kept_until) FROM files WHERE kept_until IS NOT NULL) END");
    conn.query_one(&sql, |row| row.opt_int(0))
}

fn run(app: App, build: Arc<Build>) -> JobFuture<Result<(), StoreError>> {
    Box::pin(async move {
        let storage: &Storage = app.slot();
        loop {
            let failed = |error: std::io::Error| StoreError::Unavailable(error.to_string());
            let _no_backup = storage.begin_removal().await.map_err(failed)?;
            let _place = kit::jobs::acquire_permit(&app, REMOVAL.name).await;
            let now = app.clock.now();
            let uuids = build.db.write::<_, StoreError>(move |conn| take_page(conn, now)).await?;
            if uuids.is_empty() {
                return Ok(());
            }
            for uuid in &uuids {
                storage.blobs.remove(&key(&build, uuid)).await.map_err(to_store_error)?;
            }
            let delete = move |conn: &mut Conn| delete_file_rows(conn, &uuids);
            build.db.write::<_, StoreError>(delete).await?;
        }
    })
}

/// Deletes the rows of some files. Returns the names of files whose bytes are not removed yet.
fn take_page(conn: &mut Conn, now: i64) -> Result<Vec<String>, StoreError> {
    // The condition occurs twice, since a row that was locked by another transaction is only compared with the outer one.
    let mut condition = Sql::new("id IN (SELECT f.id FROM (");
    condition.push("SELECT id FROM files WHERE ").push(UNHELD);
    condition.push(" UNION ALL SELECT id FROM files WHERE kept_until <= ").bind(now);
    condition.push(") f LIMIT ").bind(PAGE).push(") AND (").push(UNHELD).push(" OR kept_until <= ").bind(now).push(")");
    delete(conn, &condition)?;
    let sql = Sql::new("SELECT uuid FROM removed_files LIMIT $1").arg(PAGE);
    conn.query_all(&sql, |row| Ok(row.text(0)?.to_owned()))
}

fn delete_file_rows(conn: &mut Conn, uuids: &[String]) -> Result<(), StoreError> {
    for uuid in uuids {
        conn.exec(&Sql::new("DELETE FROM removed_files WHERE uuid = $1").arg(uuid))?;
    }
    Ok(())
}
