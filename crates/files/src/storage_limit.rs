//! The limit `storage_gigabytes` (`docs/reference/limits.md`): the bytes of all files of a build, and of the copies of its
//! documents in the history service.
//!
//! A counter in the database has the number of bytes. The transaction that inserts, completes or deletes the row of a file changes
//! it. It is therefore exact after a crash and in all processes. Processes of the version before the counter do not change it. When
//! they have stopped, the rows are counted again.

use kit::app::App;
use kit::build::Build;
use kit::jobs::{JobFuture, StandingJob};
use kit::limits::{self, Limit, LimitSummary};
use kit::refusal::Refusal;
use std::sync::Arc;
use store::{Conn, Sql, StoreError};

/// The maximum storage of a build, in gigabytes of 2^30 bytes.
pub static STORAGE: Limit = Limit {
    name: "storage_gigabytes",
    default: 100,
    many: "GB of storage",
    summary: LimitSummary::Additional("storage_gigabytes"),
    ..Limit::EMPTY
};

/// The delay between the two counts of a migrated build, in microseconds. Processes of the former version have stopped after it.
const SECOND_COUNT_US: i64 = 300_000_000;

/// Counts bytes that will be stored. Refuses them if they exceed the limit.
pub fn reserve_bytes(conn: &mut Conn, bytes: i64) -> Result<(), Refusal> {
    // The bytes are rounded up to gigabytes, since a limit times 2^30 may exceed 64 bits.
    let sql = Sql::new(
        "UPDATE counters SET n = n + $1 WHERE name = 'storage_bytes' AND (n + $1 + 1073741823) / 1073741824 <= \
         COALESCE((SELECT l.value FROM limits l WHERE l.name = $2), CAST($3 AS BIGINT))",
    );
    match conn.exec(&sql.arg(bytes).arg(STORAGE.name).arg(STORAGE.default))? {
        0 => Err(limits::limit_refusal(conn, &STORAGE)?),
        _ => Ok(()),
    }
}

/// Refuses `more` bytes that would exceed the limit, without counting them. With 0 it refuses a build that already exceeds its
/// limit.
pub fn check(conn: &mut Conn, more: i64) -> Result<(), Refusal> {
    let sql =
        Sql::new("SELECT (n + $1 + 1073741823) / 1073741824 FROM counters WHERE name = 'storage_bytes'").arg(more);
    let gigabytes = conn.query_one(&sql, |row| row.int(0))?;
    limits::check(conn, &STORAGE, gigabytes, 0)
}

/// Counts the bytes of a copy in the history service. Such copies are never removed.
pub fn take_for_event(conn: &mut Conn, bytes: i64) -> Result<(), Refusal> {
    reserve_bytes(conn, bytes)?;
    let sql = Sql::new("UPDATE counters SET n = n + $1 WHERE name = 'event_file_bytes'").arg(bytes);
    Ok(conn.exec(&sql).map(drop)?)
}

/// Subtracts bytes that are no longer stored.
pub(crate) fn give_back(conn: &mut Conn, bytes: i64) -> Result<(), StoreError> {
    conn.exec(&Sql::new("UPDATE counters SET n = n - $1 WHERE name = 'storage_bytes'").arg(bytes)).map(drop)
}

/// Counts the files of a migrated build again, immediately and after [`SECOND_COUNT_US`].
pub static COUNT: StandingJob = StandingJob { name: "storage", at_a_time: 2, due: next_count_time, run };

fn next_count_time(_: &App, _: &Build, conn: &mut Conn, _: i64) -> Result<Option<i64>, StoreError> {
    conn.query_optional(&Sql::new("SELECT n FROM counters WHERE name = 'storage_count_due'"), |row| row.int(0))
}

fn run(app: App, build: Arc<Build>) -> JobFuture<Result<(), StoreError>> {
    Box::pin(async move {
        let _place = kit::jobs::acquire_permit(&app, COUNT.name).await;
        let now = app.clock.now();
        build.db.write(move |conn| count(conn, now)).await
    })
}

fn count(conn: &mut Conn, now: i64) -> Result<(), StoreError> {
    // A transaction that counts a file waits for this row, or has committed.
    conn.query_one(&Sql::new("SELECT n FROM counters WHERE name = 'storage_bytes' FOR UPDATE"), |row| row.int(0))?;
    let sql = Sql::new(
        "UPDATE counters SET n = (SELECT CAST(COALESCE(sum(COALESCE(counted, size)), 0) AS BIGINT) FROM files) + \
         (SELECT e.n FROM counters e WHERE e.name = 'event_file_bytes') WHERE name = 'storage_bytes'",
    );
    conn.exec(&sql)?;
    conn.exec(&Sql::new("DELETE FROM counters WHERE name = 'storage_count_due' AND n BETWEEN 1 AND $1").arg(now))?;
    let second = Sql::new("UPDATE counters SET n = $1 WHERE name = 'storage_count_due' AND n = 0");
    conn.exec(&second.arg(now + SECOND_COUNT_US)).map(drop)
}
