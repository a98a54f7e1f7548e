//! Databases for tests on PostgreSQL.
//!
//! Each test server claims a database for its lifetime, by an advisory lock of an open session. So the number of
//! databases is that of concurrent servers, and a killed test leaves no lock behind. Creating and dropping a database
//! for each test would cost a checkpoint of the whole server.
//!
//! A claimed database is empty, or has the first build ready ([`Contents`]). Creating its 87 tables costs half a
//! second, emptying the tables that have rows some milliseconds. The schema `ready` contains the rows that the build
//! had when it was new. A database whose tables have changed since is emptied and filled again.

use crate::eventually::eventually_blocking;
use postgres::{Client, Error, NoTls};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The first key of the advisory locks. The second is the number of the database.
const LOCK_KEY: i32 = 0x6368_616e;

/// The URL of the PostgreSQL server for tests (`CHANCERY_TEST_DATABASE_URL`); `None` if tests use the embedded engine.
pub fn test_database() -> Option<String> {
    std::env::var("CHANCERY_TEST_DATABASE_URL").ok().filter(|url| !url.is_empty())
}

/// The contents of a claimed database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// The database is empty.
    Nothing,
    /// The control database and the first build, as they were at the last call of [`ClaimedDatabase::keep_ready`]. The
    /// database is empty if there was no call, or if a test has changed their tables.
    Ready,
}

/// A claimed database of one test server. Dropping it releases the claim.
pub struct ClaimedDatabase {
    /// The URL of the database.
    pub url: String,
    /// Is true if it has the first build ready.
    pub is_ready: bool,
    name: String,
    server: String,
    /// Dropping it releases the claim.
    claim: Option<Sender<()>>,
    holder: Option<JoinHandle<()>>,
}

impl ClaimedDatabase {
    /// Claims a database. Returns `None` when tests use the embedded engine.
    pub fn claim(contents: Contents) -> Option<ClaimedDatabase> {
        let server = test_database()?;
        let (claimed, answer) = channel();
        let (claim, released) = channel();
        let address = server.clone();
        // The blocking driver must not run inside a test's runtime.
        let holder = std::thread::spawn(move || keep_claim(&address, contents, &claimed, &released));
        let answer = answer.recv().unwrap_or_else(|_| Err("the driver panicked".to_owned()));
        let (name, is_ready) = answer.unwrap_or_else(|error| panic!("CHANCERY_TEST_DATABASE_URL: {error}"));
        let url = with_database(&server, &name);
        Some(ClaimedDatabase { url, is_ready, name, server, claim: Some(claim), holder: Some(holder) })
    }

    /// Saves the rows of the first build, which is new, for [`Contents::Ready`].
    pub fn keep_ready(&self) {
        let url = self.url.clone();
        let keeper =
            std::thread::spawn(move || Client::connect(&url, NoTls)?.batch_execute(include_str!("ready/keep.sql")));
        if let Ok(Err(error)) = keeper.join() {
            panic!("the rows of {} are not kept: {error}", self.name);
        }
    }

    /// Drops the database even while it is in use, as an outage would.
    pub fn lose(self) {
        let (server, sql) = (self.server.clone(), format!("DROP DATABASE {} WITH (FORCE)", self.name));
        let lost = std::thread::spawn(move || Client::connect(&server, NoTls)?.batch_execute(&sql));
        assert!(lost.join().is_ok_and(|lost| lost.is_ok()), "{} is not lost", self.name);
    }
}

impl Drop for ClaimedDatabase {
    fn drop(&mut self) {
        self.claim = None;
        if let Some(holder) = self.holder.take() {
            let _ = holder.join();
        }
    }
}

/// Maintains a claim by an open session until it is released.
fn keep_claim(
    server: &str,
    contents: Contents,
    claimed: &Sender<Result<(String, bool), String>>,
    released: &Receiver<()>,
) {
    let claim =
        Client::connect(server, NoTls).and_then(|mut client| Ok((find(server, contents, &mut client)?, client)));
    let _client = match claim {
        Ok((place, client)) => {
            let _ = claimed.send(Ok(place));
            client
        }
        Err(error) => {
            let _ = claimed.send(Err(error.to_string()));
            return;
        }
    };
    // The channel carries no values: this returns when the sender is dropped.
    let _ = released.recv();
}

/// Locks the first free number, and creates its database or clears the leftovers of the previous test. Returns its
/// name, and whether it has the first build ready.
fn find(server: &str, contents: Contents, client: &mut Client) -> Result<(String, bool), Error> {
    let mut number = 1;
    while !client.query_one("SELECT pg_try_advisory_lock($1, $2)", &[&LOCK_KEY, &number])?.get::<_, bool>(0) {
        number += 1;
    }
    let name = format!("chancery_test_{number}");
    if client.query_opt("SELECT 1 FROM pg_database WHERE datname = $1", &[&name])?.is_none() {
        client.batch_execute(&format!("CREATE DATABASE {name}"))?;
        return Ok((name, false));
    }
    // Sessions of a killed process may still be running.
    let terminate = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1";
    eventually_blocking(Duration::from_secs(60), || match client.query_one(terminate, &[&name]) {
        Ok(row) if row.get::<_, i64>(0) > 0 => Err("other sessions use the database"),
        answer => Ok(answer.map(drop)),
    })?;
    let mut inside = Client::connect(&with_database(server, &name), NoTls)?;
    let is_ready = contents == Contents::Ready && restore(&mut inside)?;
    if !is_ready {
        drop_schemas(&mut inside, &[])?;
    }
    Ok((name, is_ready))
}

/// Drops all schemas except these and those of PostgreSQL.
fn drop_schemas(client: &mut Client, names: &[&str]) -> Result<(), Error> {
    let schemas = "SELECT quote_ident(nspname) FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_%' \
                   AND nspname NOT IN ('information_schema', 'public') AND nspname <> ALL($1)";
    for schema in client.query(schemas, &[&names])? {
        client.batch_execute(&format!("DROP SCHEMA {} CASCADE", schema.get::<_, String>(0)))?;
    }
    Ok(())
}

/// The schemas of the control database and of the first build, and the schema of their rows.
const SCHEMAS: [&str; 3] = ["chancery", "build_1", "ready"];

/// Restores the rows that the first build had when it was new. Returns `false` if it does not exist, or if one of its
/// tables has changed.
fn restore(client: &mut Client) -> Result<bool, Error> {
    if client.query_opt("SELECT 1 FROM pg_namespace WHERE nspname = 'ready'", &[])?.is_none() {
        return Ok(false);
    }
    drop_schemas(client, &SCHEMAS)?;
    client.batch_execute(include_str!("ready/drop_tables.sql"))?;
    let is_same = client.query_one(include_str!("ready/is_same.sql"), &[])?.get::<_, bool>(0);
    if is_same {
        client.batch_execute(include_str!("ready/restore.sql"))?;
    }
    Ok(is_same)
}

/// Returns the URL of another database on the same server.
fn with_database(url: &str, name: &str) -> String {
    let (address, parameters) = url.split_once('?').unwrap_or((url, ""));
    let (scheme, rest) = address.split_once("://").unwrap_or(("postgres", address));
    let authority = rest.split('/').next().unwrap_or(rest);
    let parameters = if parameters.is_empty() { String::new() } else { format!("?{parameters}") };
    format!("{scheme}://{authority}/{name}{parameters}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_is_the_path_of_the_address() {
        assert_eq!(with_database("postgres://u@h:1/postgres", "x"), "postgres://u@h:1/x");
        assert_eq!(with_database("postgres://u:p@h:1?sslmode=disable", "x"), "postgres://u:p@h:1/x?sslmode=disable");
    }

    #[test]
    fn a_claim_is_exclusive_and_the_next_one_finds_nothing() {
        let Some(first) = ClaimedDatabase::claim(Contents::Nothing) else { return };
        let Some(second) = ClaimedDatabase::claim(Contents::Nothing) else { return };
        assert_ne!(first.name, second.name);
        let mut client = Client::connect(&first.url, NoTls).unwrap();
        client.batch_execute("CREATE SCHEMA build_1; CREATE TABLE build_1.x ()").unwrap();
        let name = first.name.clone();
        drop(first);
        let mut claims = vec![second];
        while claims.last().is_some_and(|claim| claim.name != name) {
            claims.extend(ClaimedDatabase::claim(Contents::Nothing));
        }
        assert!(client.batch_execute("SELECT 1").is_err(), "connections of the one before are ended");
        let mut client = Client::connect(&claims.last().unwrap().url, NoTls).unwrap();
        assert!(client.query_opt("SELECT 1 FROM pg_namespace WHERE nspname = 'build_1'", &[]).unwrap().is_none());
    }
}
