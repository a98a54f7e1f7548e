//! Count limits, decided by the database inside the transaction that creates (document 4, section 4, "26th, 11th,
//! 1001st …"): a row of counters for each, changed in one statement with its check, so that parallel creates never
//! exceed a limit.

use crate::refusal::Refusal;
pub use resource::Limit;
use store::{Conn, Error, Sql};

/// Takes one place under a limit, or refuses when none is left.
pub fn take(conn: &mut Conn, limit: &Limit) -> Result<(), Refusal> {
    if !count_up(conn, limit)? {
        return Err(exceeded(limit, value(conn, limit)?));
    }
    Ok(())
}

fn count_up(conn: &mut Conn, limit: &Limit) -> Result<bool, Error> {
    let sql = Sql::new(
        "UPDATE counters SET n = n + 1 WHERE name = $1 AND n < COALESCE((SELECT l.value FROM limits l WHERE l.name = $1), CAST($2 AS BIGINT))",
    );
    let sql = sql.arg(limit.name).arg(limit.default);
    if conn.exec(&sql)? == 1 {
        return Ok(true);
    }
    // Either full, or the first of its kind.
    conn.exec(&Sql::new("INSERT INTO counters(name, n) VALUES ($1, 0) ON CONFLICT DO NOTHING").arg(limit.name))?;
    Ok(conn.exec(&sql)? == 1)
}

/// Gives a place back.
pub fn give_back(conn: &mut Conn, limit: &Limit) -> Result<(), Error> {
    conn.exec(&Sql::new("UPDATE counters SET n = n - 1 WHERE name = $1").arg(limit.name)).map(|_| ())
}

/// What took a place under one limit takes one under another. Counters are changed in the order of their names, so that
/// two that go opposite ways do not wait for each other.
pub fn change(conn: &mut Conn, from: &Limit, to: &Limit) -> Result<(), Refusal> {
    if from.name < to.name {
        give_back(conn, from)?;
        return take(conn, to);
    }
    take(conn, to)?;
    Ok(give_back(conn, from)?)
}

/// The limit's value in this build.
pub fn value(conn: &mut Conn, limit: &Limit) -> Result<i64, Error> {
    let sql = Sql::new("SELECT value FROM limits WHERE name = $1").arg(limit.name);
    Ok(conn.opt(&sql, |row| row.int(0))?.unwrap_or(limit.default))
}

/// How many places are taken.
pub fn taken(conn: &mut Conn, limit: &Limit) -> Result<i64, Error> {
    let sql = Sql::new("SELECT n FROM counters WHERE name = $1").arg(limit.name);
    Ok(conn.opt(&sql, |row| row.int(0))?.unwrap_or(0))
}

/// Refuses when `count` rows are there already and `more` come, for limits within one parent, whose row the caller
/// has locked.
pub fn check(conn: &mut Conn, limit: &Limit, count: i64, more: i64) -> Result<(), Refusal> {
    let most = value(conn, limit)?;
    if count + more > most { Err(exceeded(limit, most)) } else { Ok(()) }
}

/// The refusal of what would be one too many.
fn exceeded(limit: &Limit, value: i64) -> Refusal {
    Refusal::limit(format!("Limit of {value} {} has been exceeded.", limit.many))
}
