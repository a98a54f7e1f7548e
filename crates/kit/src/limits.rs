//! Count limits (`docs/reference/limits.md`). The transaction that creates a row checks and raises a
//! counter in the database by one statement, so that concurrent creates never exceed a limit. The
//! statement also reads the limit, so that a changed limit applies in every process immediately.
//!
//! On PostgreSQL the row of a counter is locked until the commit is on the disk. A counter with slots is the sum of several
//! rows. A transaction locks one row while the count is far below the limit, and all rows near it.

use crate::refusal::Refusal;
pub use resource::{Limit, LimitSummary};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use store::{Argument, Conn, Sql, StoreError};

/// The key of the file extensions in the build limits.
pub const FILE_EXTENSIONS: &str = "allowed_file_extensions";

/// The file extensions that may be uploaded unless a build has its own list.
pub const DEFAULT_FILE_EXTENSIONS: [&str; 41] = [
    "csv", "doc", "docx", "dot", "gif", "jfif", "jpe", "jpeg", "jpg", "json", "odf", "ods", "odt", "pdf", "png", "pot",
    "potx", "ppa", "pps", "ppsx", "ppt", "pptx", "pwz", "rdf", "rtf", "rtx", "text", "txt", "wiz", "wsdl", "xla",
    "xlb", "xlc", "xlm", "xls", "xlsx", "xlt", "xlw", "xml", "xpdl", "xsl",
];

/// Counts one more row under a limit; refuses if the limit is reached.
pub fn count_row(conn: &mut Conn, limit: &Limit) -> Result<(), Refusal> {
    if !count_up(conn, limit)? {
        return Err(limit_refusal(conn, limit)?);
    }
    Ok(())
}

fn count_up(conn: &mut Conn, limit: &Limit) -> Result<bool, StoreError> {
    if uses_slots(conn, limit) {
        if count_in_slot(conn, limit)? {
            return Ok(true);
        }
        lock_slots(conn, "counter_slots", "name", limit.name)?;
    }
    // A transaction that waited for the row tests its new value, but the slots as they were before. Nobody changes them then.
    let sql = Sql::new(
        "UPDATE counters SET n = n + 1 \
         WHERE name = $1 AND n + (SELECT COALESCE(sum(s.n), 0) FROM counter_slots s WHERE s.name = $1) < \
         COALESCE((SELECT l.value FROM limits l WHERE l.name = $1), CAST($2 AS BIGINT))",
    );
    let sql = sql.arg(limit.name).arg(limit.default);
    if conn.exec(&sql)? == 1 {
        return Ok(true);
    }
    // The limit is reached, or the counter does not exist yet.
    conn.exec(&Sql::new("INSERT INTO counters(name, n) VALUES ($1, 0) ON CONFLICT DO NOTHING").arg(limit.name))?;
    Ok(conn.exec(&sql)? == 1)
}

/// Counts one row less under a limit.
pub fn give_back(conn: &mut Conn, limit: &Limit) -> Result<(), StoreError> {
    let sql = match uses_slots(conn, limit) {
        true => Sql::new(
            "INSERT INTO counter_slots(name, slot, n) VALUES ($1, $2, -1) \
             ON CONFLICT (name, slot) DO UPDATE SET n = counter_slots.n - 1",
        )
        .arg(limit.name)
        .arg(slot(conn)),
        false => Sql::new("UPDATE counters SET n = n - 1 WHERE name = $1").arg(limit.name),
    };
    conn.exec(&sql).map(drop)
}

/// The number of rows that a counter is spread over, so that writers seldom wait for each other.
const SLOTS: i64 = 16;

/// The distance to the limit above which a transaction locks one slot. Transactions that run at once count fewer rows.
const PLENTY: i64 = 1_000;

/// Returns the slot that a transaction writes to. The embedded database has one writer, so it needs only one slot.
pub fn slot(conn: &Conn) -> i64 {
    if conn.is_embedded() {
        return 0;
    }
    static NEXT: AtomicI64 = AtomicI64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed).rem_euclid(SLOTS)
}

fn uses_slots(conn: &Conn, limit: &Limit) -> bool {
    limit.has_slots && !conn.is_embedded()
}

/// Counts one more row in a slot, if the count is far below the limit. Otherwise returns false.
fn count_in_slot(conn: &mut Conn, limit: &Limit) -> Result<bool, StoreError> {
    let sql = Sql::new(
        "INSERT INTO counter_slots(name, slot, n) SELECT $1, $2, 1 \
         WHERE COALESCE((SELECT sum(c.n) FROM all_counters c WHERE c.name = $1), 0) + $3 < \
         COALESCE((SELECT l.value FROM limits l WHERE l.name = $1), CAST($4 AS BIGINT)) \
         ON CONFLICT (name, slot) DO UPDATE SET n = counter_slots.n + 1",
    );
    let sql = sql.arg(limit.name).arg(slot(conn)).arg(PLENTY).arg(limit.default);
    Ok(conn.exec(&sql)? == 1)
}

/// Locks all slots of a counter in ascending order, so that no other transaction counts a row until the commit. The table has the
/// columns `key`, `slot` and `n`. Only PostgreSQL needs it.
pub fn lock_slots(
    conn: &mut Conn,
    table: &'static str,
    key: &'static str,
    counter: impl Into<Argument>,
) -> Result<(), StoreError> {
    let counter = counter.into();
    let mut sql = Sql::new("INSERT INTO ");
    sql.push(table).push("(").push(key).push(", slot, n) SELECT ").bind(counter.clone());
    sql.push(", s.slot, 0 FROM generate_series(0, ").bind(SLOTS - 1).push(") s(slot) ON CONFLICT DO NOTHING");
    conn.exec(&sql)?;
    let mut sql = Sql::new("SELECT n FROM ");
    sql.push(table).push(" WHERE ").push(key).push(" = ").bind(counter).push(" ORDER BY slot FOR UPDATE");
    conn.for_each_row(&sql, |_| Ok(()))
}

/// Moves a row from one limit to another. Counters are locked in the order of their names, so that two transactions
/// that move rows in opposite directions do not deadlock.
pub fn change(conn: &mut Conn, from: &Limit, to: &Limit) -> Result<(), Refusal> {
    if from.name < to.name {
        give_back(conn, from)?;
        return count_row(conn, to);
    }
    count_row(conn, to)?;
    Ok(give_back(conn, from)?)
}

/// Returns a limit's value in this build.
pub fn value(conn: &mut Conn, limit: &Limit) -> Result<i64, StoreError> {
    let sql = Sql::new("SELECT value FROM limits WHERE name = $1").arg(limit.name);
    Ok(conn.query_optional(&sql, |row| row.int(0))?.unwrap_or(limit.default))
}

/// Returns the number of rows counted under a limit.
pub fn count_used(conn: &mut Conn, limit: &Limit) -> Result<i64, StoreError> {
    let sql = Sql::new("SELECT CAST(COALESCE(sum(n), 0) AS BIGINT) FROM all_counters WHERE name = $1").arg(limit.name);
    conn.query_one(&sql, |row| row.int(0))
}

/// Refuses if `count` rows and `more` exceed a limit. It is for limits within one parent, whose row the
/// calling code must have locked.
pub fn check(conn: &mut Conn, limit: &Limit, count: i64, more: i64) -> Result<(), Refusal> {
    let most = value(conn, limit)?;
    check_bound(limit, most, count + more)
}

/// Refuses `count` rows if they exceed a limit with the value `most`.
pub fn check_bound(limit: &Limit, most: i64, count: i64) -> Result<(), Refusal> {
    if count > most { Err(refusal(limit, most)) } else { Ok(()) }
}

/// Returns the values of some limits in this build.
pub fn values<const N: usize>(conn: &mut Conn, limits: [&Limit; N]) -> Result<[i64; N], StoreError> {
    let mut values = limits.map(|limit| limit.default);
    let mut sql = Sql::new("SELECT name, value FROM limits WHERE name IN (");
    for (at, limit) in limits.iter().enumerate() {
        sql.push(if at > 0 { ", " } else { "" }).bind(limit.name);
    }
    conn.for_each_row(sql.push(")"), |row| {
        let (name, value) = (row.text(0)?, row.int(1)?);
        limits.iter().position(|limit| limit.name == name).into_iter().for_each(|at| values[at] = value);
        Ok(())
    })?;
    Ok(values)
}

/// Returns the refusal of a row that would exceed a limit of this build.
pub fn limit_refusal(conn: &mut Conn, limit: &Limit) -> Result<Refusal, StoreError> {
    Ok(refusal(limit, value(conn, limit)?))
}

fn refusal(limit: &Limit, value: i64) -> Refusal {
    Refusal::limit(format!("Limit of {value} {} has been exceeded.", limit.many))
}

/// A build's limits: its own values, and the number of rows that are counted under each.
pub struct BuildLimits {
    values: HashMap<String, i64>,
    taken: HashMap<String, i64>,
    extensions: Option<Vec<String>>,
}

impl BuildLimits {
    /// Reads the limits of a build.
    pub fn read(conn: &mut Conn) -> Result<BuildLimits, StoreError> {
        let numbers = |conn: &mut Conn, sql: &'static str| {
            let rows = conn.query_all(&Sql::new(sql), |row| Ok((row.text(0)?.to_owned(), row.int(1)?)))?;
            Ok::<_, StoreError>(rows.into_iter().collect())
        };
        Ok(BuildLimits {
            values: numbers(conn, "SELECT name, value FROM limits")?,
            taken: numbers(conn, "SELECT name, CAST(sum(n) AS BIGINT) FROM all_counters GROUP BY name")?,
            extensions: own_file_extensions(conn)?,
        })
    }

    /// Reads the limits of a build and locks them against other transactions that change limits.
    pub fn read_for_change(conn: &mut Conn) -> Result<BuildLimits, StoreError> {
        // A limit may have no row to lock; this row always exists.
        conn.query_one(&Sql::new("SELECT n FROM versions WHERE name = 'rights' FOR UPDATE"), |row| row.int(0))?;
        BuildLimits::read(conn)
    }

    pub fn value(&self, limit: &Limit) -> i64 {
        self.values.get(limit.name).copied().unwrap_or(limit.default)
    }

    pub fn used(&self, limit: &Limit) -> i64 {
        self.taken.get(limit.name).copied().unwrap_or(0)
    }

    pub fn is_default(&self, limit: &Limit) -> bool {
        !self.values.contains_key(limit.name)
    }

    pub fn file_extensions(&self) -> Vec<String> {
        self.extensions.clone().unwrap_or_else(default_file_extensions)
    }

    pub fn has_default_file_extensions(&self) -> bool {
        self.extensions.is_none()
    }
}

/// Sets the build's value of a limit; `None`: the default.
pub fn set(conn: &mut Conn, limit: &Limit, value: Option<i64>) -> Result<(), StoreError> {
    let sql = match value {
        Some(value) => {
            Sql::new("INSERT INTO limits(name, value) VALUES ($1, $2) ON CONFLICT(name) DO UPDATE SET value = $2")
                .arg(limit.name)
                .arg(value)
        }
        None => Sql::new("DELETE FROM limits WHERE name = $1").arg(limit.name),
    };
    conn.exec(&sql).map(|_| ())
}

/// Returns the file extensions that may be uploaded in this build.
pub fn file_extensions(conn: &mut Conn) -> Result<Vec<String>, StoreError> {
    Ok(own_file_extensions(conn)?.unwrap_or_else(default_file_extensions))
}

/// Sets the build's list of file extensions; `None`: the default.
pub fn set_file_extensions(conn: &mut Conn, extensions: Option<&[String]>) -> Result<(), StoreError> {
    let sql = match extensions {
        Some(extensions) => Sql::new(
            "INSERT INTO file_extensions(id, allowed) VALUES (1, $1) ON CONFLICT(id) DO UPDATE SET allowed = $1",
        )
        .arg(serde_json::json!(extensions).to_string()),
        None => Sql::new("DELETE FROM file_extensions"),
    };
    conn.exec(&sql).map(|_| ())
}

fn own_file_extensions(conn: &mut Conn) -> Result<Option<Vec<String>>, StoreError> {
    let sql = Sql::new("SELECT allowed FROM file_extensions");
    conn.query_optional(&sql, |row| row.json(0))
}

fn default_file_extensions() -> Vec<String> {
    DEFAULT_FILE_EXTENSIONS.map(str::to_owned).to_vec()
}
