//! The version of a build's rights: a number in its database that every change of rights raises, so that processes
//! notice that a cached caller is stale.
//!
//! Rights on single objects (of owners, of members, by permission sets) are not cached with a caller. They have a version of
//! their own, by which a write that waited detects that they have changed.

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

/// Raises the version of the rights for code without a request (on the command line), and returns it.
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

/// Records that the transaction revokes rights on single objects. Every transaction that removes
/// owners, members or assignees of permission sets, or reduces a set, must call it. Those of a single
/// record are an exception: transactions that use or change them lock the record's row.
pub fn object_rights_ended(request: &Request) {
    request.effects.set_ends_object_rights();
}

/// Raises the version of the rights on single objects. Returns `false` if another transaction has
/// locked it. It never waits, since the transaction already owns other locks.
pub fn raise_object_rights(conn: &mut Conn) -> Result<bool, StoreError> {
    let sql = Sql::new(
        "UPDATE versions SET n = n + 1 WHERE name = (SELECT v.name FROM versions v WHERE v.name = 'object_rights' \
         FOR UPDATE SKIP LOCKED)",
    );
    Ok(conn.exec(&sql)? == 1)
}

/// Locks the rights on single objects until the end of the transaction. This must be the first lock of the transaction.
pub fn lock_object_rights(conn: &mut Conn) -> Result<(), StoreError> {
    conn.query_one(&Sql::new("SELECT n FROM versions WHERE name = 'object_rights' FOR UPDATE"), |row| row.int(0))
        .map(drop)
}
