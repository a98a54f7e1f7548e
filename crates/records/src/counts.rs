//! Counts the records of each class against the limit of the build (`docs/reference/limits.md`). Every create would lock the
//! single row of a class, so the number is the sum of slots.

use kit::ids::ClassId;
use kit::limits::{self, Limit, LimitSummary, slot};
use kit::refusal::Refusal;
use store::{Conn, Sql, StoreError};

/// The maximum number of records of a class.
pub static OBJECT_RECORDS: Limit = Limit {
    name: "object_records_per_object_class",
    default: 1_000_000,
    many: "Object Records",
    summary: LimitSummary::Additional("object_records_per_object_class"),
    ..Limit::EMPTY
};

/// The distance to the limit above which a create does not lock all slots. Concurrent transactions cannot create this many
/// records.
const PLENTY: i64 = 100_000;

/// Adds new records to the count. Refuses them if they exceed the limit. This is the last write of its transaction, because
/// others wait for the slot until the commit.
pub fn add_records(conn: &mut Conn, class: ClassId, more: i64) -> Result<(), Refusal> {
    let [mut stored_count, mut most] = held_and_most(conn, class)?;
    if !conn.is_embedded() && stored_count + more + PLENTY > most {
        limits::lock_slots(conn, "record_counts", "class_id", class)?;
        [stored_count, most] = held_and_most(conn, class)?;
    }
    limits::check_bound(&OBJECT_RECORDS, most, stored_count + more)?;
    add(conn, class, more).map_err(Refusal::from)
}

/// Refuses new records that would exceed the limit, without counting them.
pub fn check(conn: &mut Conn, class: ClassId, more: i64) -> Result<(), Refusal> {
    let [stored_count, most] = held_and_most(conn, class)?;
    limits::check_bound(&OBJECT_RECORDS, most, stored_count + more)
}

/// The number of records of a class, and the limit.
fn held_and_most(conn: &mut Conn, class: ClassId) -> Result<[i64; 2], StoreError> {
    let sql = Sql::new(
        "SELECT CAST(COALESCE(sum(c.n), 0) AS BIGINT), \
         COALESCE((SELECT l.value FROM limits l WHERE l.name = $2), CAST($3 AS BIGINT)) \
         FROM record_counts c WHERE c.class_id = $1",
    );
    let sql = sql.arg(class).arg(OBJECT_RECORDS.name).arg(OBJECT_RECORDS.default);
    conn.query_one(&sql, |row| Ok([row.int(0)?, row.int(1)?]))
}

/// Subtracts records from the count.
pub fn give_back(conn: &mut Conn, class: ClassId, count: i64) -> Result<(), StoreError> {
    add(conn, class, -count)
}

fn add(conn: &mut Conn, class: ClassId, more: i64) -> Result<(), StoreError> {
    let sql = Sql::new(
        "INSERT INTO record_counts(class_id, slot, n) VALUES ($1, $2, $3) \
         ON CONFLICT (class_id, slot) DO UPDATE SET n = record_counts.n + excluded.n",
    );
    conn.exec_later(&sql.arg(class).arg(slot(conn)).arg(more))
}

/// The number of records of a class.
pub fn sum(conn: &mut Conn, class: ClassId) -> Result<i64, StoreError> {
    let sql = Sql::new("SELECT CAST(COALESCE(sum(c.n), 0) AS BIGINT) FROM record_counts c WHERE c.class_id = $1");
    conn.query_one(&sql.arg(class), |row| row.int(0))
}
