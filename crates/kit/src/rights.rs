//! The version of a build's rights: a number in its database that every change of rights raises, so that processes
//! notice that a cached caller is stale.

use crate::request::Request;
use store::{Conn, Error, Sql};

/// Reads the version of the rights.
pub fn version(conn: &mut Conn) -> Result<i64, Error> {
    conn.one(&Sql::new("SELECT n FROM versions WHERE name = 'rights'"), |row| row.int(0))
}

/// Raises the version of the rights. Every transaction that changes rights must call it: an account's state or type,
/// roles, sessions, address ranges, the security rules.
pub fn changed(request: &Request, conn: &mut Conn) -> Result<(), Error> {
    request.effects.rights_changed(raise_version(conn)?);
    Ok(())
}

/// Raises the version of the rights where there is no request (on the command line), and returns it.
pub fn raise_version(conn: &mut Conn) -> Result<i64, Error> {
    conn.one(&Sql::new("UPDATE versions SET n = n + 1 WHERE name = 'rights' RETURNING n"), |row| row.int(0))
}
