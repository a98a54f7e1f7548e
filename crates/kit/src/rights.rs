//! The version of a build's rights: a number in its database that every change of rights raises, so that processes
//! notice that a cached caller is stale.
//!
//! Rights on single objects (of owners, of members, by permission sets) are cached with no caller and have a version of
//! their own, by which a write that waited notices that they have changed.

use crate::request::Request;
use store::{Conn, Sql, StoreError};

/// Reads the version of the rights.
pub fn version(conn: &mut Conn) -> Result<i64, StoreError> {
    conn.query_one(&Sql::new("SELECT n FROM versions WHERE name = 'rights'"), |row| row.int(0))
}

/// Raises the version of the rights. Every transaction that changes rights must call it: an account's state or type,
/// roles, sessions, address ranges, the security rules.
pub fn mark_rights_changed(request: &Request, conn: &mut Conn) -> Result<(), StoreError> {
    request.effects.rights_changed(raise_version(conn)?);
    Ok(())
}

/// Raises the version of the rights where there is no request (on the command line), and returns it.
pub fn raise_version(conn: &mut Conn) -> Result<i64, StoreError> {
    conn.query_one(&Sql::new("UPDATE versions SET n = n + 1 WHERE name = 'rights' RETURNING n"), |row| row.int(0))
}

/// Reads the version of the rights, and that of the rights on single objects.
pub fn versions(conn: &mut Conn) -> Result<[i64; 2], StoreError> {
    let sql = Sql::new(
        "SELECT (SELECT n FROM versions WHERE name = 'rights'), (SELECT n FROM versions WHERE name = 'object_rights')",
    );
    conn.query_one(&sql, |row| Ok([row.int(0)?, row.int(1)?]))
}

/// Notes that the transaction takes from somebody what he holds on single objects. Every one must that removes owners,
/// members, or assignees of permission sets, or makes a set smaller; but not where they are those of a single record,
/// whose row is locked by whoever uses or changes them.
pub fn object_rights_ended(request: &Request) {
    request.effects.set_ends_object_rights();
}

/// Raises the version of the rights on single objects, or returns `false` when another transaction has it locked. Nobody
/// waits for it who holds other locks.
pub fn raise_object_rights(conn: &mut Conn) -> Result<bool, StoreError> {
    let sql = Sql::new(
        "UPDATE versions SET n = n + 1 WHERE name = (SELECT v.name FROM versions v WHERE v.name = 'object_rights' \
         FOR UPDATE SKIP LOCKED)",
    );
    Ok(conn.exec(&sql)? == 1)
}

/// Keeps the rights on single objects as they are until the end of the transaction. It comes before every other lock.
pub fn lock_object_rights(conn: &mut Conn) -> Result<(), StoreError> {
    conn.query_one(&Sql::new("SELECT n FROM versions WHERE name = 'object_rights' FOR UPDATE"), |row| row.int(0))
        .map(drop)
}
