//! The version of a build's rights: a number in its database that every change of rights raises, so that no process
//! serves a caller by rights which he no longer has.

use crate::request::Request;
use store::{Conn, Error, Sql};

/// The version as it is.
pub fn version(conn: &mut Conn) -> Result<i64, Error> {
    conn.one(&Sql::new("SELECT n FROM versions WHERE name = 'rights'"), |row| row.int(0))
}

/// To be called in every transaction that changes rights: an account's state or type, roles, sessions, address ranges,
/// the security rules.
pub fn changed(request: &Request, conn: &mut Conn) -> Result<(), Error> {
    request.effects.rights_changed(raise_version(conn)?);
    Ok(())
}

/// As [`changed`], where there is no request: the command line.
pub fn raise_version(conn: &mut Conn) -> Result<i64, Error> {
    conn.one(&Sql::new("UPDATE versions SET n = n + 1 WHERE name = 'rights' RETURNING n"), |row| row.int(0))
}
