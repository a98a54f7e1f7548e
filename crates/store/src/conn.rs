//! The connection that a script gets, whatever the engine.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::postgresql::connection::Connection as Postgres;
use crate::postgresql::look_ahead::LookAhead;
use crate::row::{OnRow, QueryError, Row};
use crate::sql::{Insert, Sql, Value};
use crate::sqlite::connection::Connection as Sqlite;
use crate::state_tag::StateTag;

/// A connection to one database, lent to a script.
///
/// In a transaction (`read` and `write`) an error of one statement ends the whole: later statements give the same error,
/// and the work is rolled back even if the script returns `Ok`. PostgreSQL does so itself; on SQLite it is done here, so
/// that a script behaves alike on both. Where a conflict is expected, handle it in SQL (`ON CONFLICT DO NOTHING`).
pub struct Conn {
    pub(crate) connection: Connection,
    deadline: Instant,
    in_transaction: bool,
    failed: Option<Error>,
    statements: u64,
}

pub(crate) enum Connection {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
    LookAhead(Box<LookAhead>),
}

impl Conn {
    pub(crate) fn sqlite(connection: Sqlite) -> Conn {
        Conn::new(Connection::Sqlite(connection))
    }

    pub(crate) fn postgres(connection: Postgres) -> Conn {
        Conn::new(Connection::Postgres(Box::new(connection)))
    }

    /// A connection without a server, by which a script is run to learn its statements.
    pub(crate) fn look_ahead(look_ahead: LookAhead) -> Conn {
        Conn::new(Connection::LookAhead(Box::new(look_ahead)))
    }

    fn new(connection: Connection) -> Conn {
        Conn { connection, deadline: Instant::now(), in_transaction: false, failed: None, statements: 0 }
    }

    /// How many statements the script has run. Tests check by it that the cost of a list does not grow with its page.
    pub fn statements(&self) -> u64 {
        self.statements
    }

    /// How many instructions of SQLite's virtual machine the queries of this connection took so far; 0 on PostgreSQL. Tests
    /// check by it that what is hidden costs nothing.
    pub fn instructions(&self) -> u64 {
        match &self.connection {
            Connection::Sqlite(connection) => connection.instructions,
            _ => 0,
        }
    }

    /// Calls `row` for each row of the answer, without keeping the rows.
    pub fn each(&mut self, sql: &Sql, mut row: impl FnMut(&Row<'_>) -> Result<(), Error>) -> Result<(), Error> {
        self.query(sql, &mut row)
    }

    /// All rows of the answer.
    pub fn all<T>(&mut self, sql: &Sql, mut row: impl FnMut(&Row<'_>) -> Result<T, Error>) -> Result<Vec<T>, Error> {
        let mut found = Vec::new();
        self.query(sql, &mut |r| {
            found.push(row(r)?);
            Ok(())
        })?;
        Ok(found)
    }

    /// The first row of the answer, if there is one.
    pub fn opt<T>(&mut self, sql: &Sql, row: impl FnOnce(&Row<'_>) -> Result<T, Error>) -> Result<Option<T>, Error> {
        let (mut row, mut found) = (Some(row), None);
        self.query(sql, &mut |r| {
            if let Some(row) = row.take() {
                found = Some(row(r)?);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// The first row of the answer; [`Error::NotFound`] if there is none.
    pub fn one<T>(&mut self, sql: &Sql, row: impl FnOnce(&Row<'_>) -> Result<T, Error>) -> Result<T, Error> {
        self.opt(sql, row)?.ok_or(Error::NotFound)
    }

    /// Runs a statement that returns no rows. Returns how many rows it inserted, updated or deleted, not counting those
    /// that foreign keys changed in turn.
    pub fn exec(&mut self, sql: &Sql) -> Result<u64, Error> {
        self.may_go_on()?;
        let result = match &mut self.connection {
            Connection::Sqlite(connection) => connection.exec(sql),
            Connection::Postgres(connection) => connection.exec(sql),
            Connection::LookAhead(look_ahead) => look_ahead.exec(),
        };
        result.map_err(|error| self.refused(error))
    }

    /// Runs one statement for each row of arguments; made for thousands of rows. `done` is called for each, in order, with
    /// the number of rows that were changed. Arguments that the statement has itself are not used.
    ///
    /// To insert rows, [`Conn::insert_rows`] needs fewer round trips.
    pub fn exec_each<'a, R: AsRef<[Value<'a>]>>(
        &mut self,
        sql: impl Into<Sql>,
        rows: impl ExactSizeIterator<Item = R>,
        mut done: impl FnMut(u64),
    ) -> Result<(), Error> {
        self.has_not_failed()?;
        let sql = sql.into();
        let (deadline, statements) = (self.deadline, &mut self.statements);
        let mut go_on = || count(statements, deadline);
        let result = match &mut self.connection {
            Connection::Sqlite(connection) => {
                let enlarged = connection.expect_rows(rows.len());
                enlarged.and_then(|()| connection.exec_each(&sql, rows, go_on, done))
            }
            Connection::Postgres(connection) => rows.into_iter().try_for_each(|row| {
                go_on()?;
                done(connection.exec_with(&sql, row.as_ref())?);
                Ok(())
            }),
            Connection::LookAhead(look_ahead) => look_ahead.exec().map(|_| ()),
        };
        result.map_err(|error| self.refused(error))
    }

    /// Inserts rows into a table that is known at run time; made for thousands of rows. Each row has a value for each of the
    /// columns. `then` is the end of the statement: `RETURNING` a BIGINT column, which is returned of each row in their
    /// order, an `ON CONFLICT` clause by which no two of the rows meet the same stored one, or nothing.
    ///
    /// PostgreSQL inserts 5,000 rows in one round trip; a row that it refuses names its error, not its place.
    ///
    /// # Panics
    /// As [`Sql::name`].
    pub fn insert_rows<'a, R: AsRef<[Value<'a>]>>(
        &mut self,
        table: &str,
        columns: &[&str],
        rows: &[R],
        then: &'static str,
    ) -> Result<Vec<i64>, Error> {
        let rows: Vec<&[Value<'a>]> = rows.iter().map(AsRef::as_ref).collect();
        self.insert_slices(table, columns, &rows, then)
    }

    fn insert_slices(
        &mut self,
        table: &str,
        columns: &[&str],
        rows: &[&[Value<'_>]],
        then: &'static str,
    ) -> Result<Vec<i64>, Error> {
        self.has_not_failed()?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let insert = Insert::new(table, columns, then);
        let mut returned = Vec::new();
        let done = |row: &Row<'_>| {
            returned.push(row.int(0)?);
            Ok(())
        };
        let (deadline, statements) = (self.deadline, &mut self.statements);
        let mut go_on = || count(statements, deadline);
        let result = match &mut self.connection {
            _ if rows.iter().any(|row| row.len() != columns.len()) => {
                Err(Error::Db(format!("{table}: a row has not {} values", columns.len())))
            }
            Connection::Sqlite(connection) => {
                let enlarged = connection.expect_rows(rows.len());
                enlarged.and_then(|()| connection.insert_rows(&insert, rows, go_on, done))
            }
            Connection::Postgres(connection) => go_on().and_then(|()| connection.insert_rows(&insert, rows, done)),
            Connection::LookAhead(look_ahead) => look_ahead.exec().map(|_| ()),
        };
        result.map_err(|error| self.refused(error))?;
        Ok(returned)
    }

    /// Whether the engine is embedded (SQLite).
    pub fn is_embedded(&self) -> bool {
        matches!(self.connection, Connection::Sqlite(_))
    }

    /// Runs statements without arguments that define tables or indexes. They are not kept prepared.
    pub(crate) fn define(&mut self, sql: &Sql) -> Result<(), Error> {
        self.may_go_on()?;
        let result = match &mut self.connection {
            Connection::Sqlite(connection) => connection.define(sql.text()),
            Connection::Postgres(connection) => connection.define(sql.text()),
            Connection::LookAhead(look_ahead) => look_ahead.exec().map(|_| ()),
        };
        result.map_err(|error| self.refused(error))
    }

    /// On PostgreSQL, lets the transaction wait for each lock for a short time only.
    pub(crate) fn limit_lock_time(&mut self) -> Result<(), Error> {
        match &mut self.connection {
            Connection::Postgres(connection) => connection.limit_lock_time().map_err(|error| self.refused(error)),
            _ => Ok(()),
        }
    }

    /// Whether a lock was waited for in vain since [`Conn::limit_lock_time`].
    pub(crate) fn has_missed_lock(&self) -> bool {
        matches!(&self.connection, Connection::Postgres(connection) if connection.has_missed_lock)
    }

    /// See [`crate::Database::state_tag`].
    pub(crate) fn state_tag(&mut self) -> Result<Option<StateTag>, Error> {
        match &mut self.connection {
            Connection::Sqlite(connection) => connection.state_tag().map(Some),
            Connection::Postgres(connection) => connection.state_tag(),
            Connection::LookAhead(look_ahead) => look_ahead.state_tag(),
        }
    }

    /// See [`crate::Database::write_unshown`].
    pub(crate) fn keep_state_tags(&mut self) -> Result<(), Error> {
        match &mut self.connection {
            Connection::Postgres(connection) => connection.keep_state_tags().map_err(|error| self.refused(error)),
            _ => Ok(()),
        }
    }

    fn query(&mut self, sql: &Sql, row: OnRow<'_>) -> Result<(), Error> {
        self.may_go_on()?;
        let result = match &mut self.connection {
            Connection::Sqlite(connection) => connection.query(sql, row),
            Connection::Postgres(connection) => connection.query(sql, row),
            Connection::LookAhead(look_ahead) => look_ahead.query(sql, row),
        };
        result.map_err(|stop| match stop {
            QueryError::Refused(error) => self.refused(error),
            QueryError::Row(error) => error,
        })
    }

    /// Counts a statement and checks the deadline. The engines stop a single statement that runs for too long; this stops
    /// a script of many short ones.
    fn may_go_on(&mut self) -> Result<(), Error> {
        self.has_not_failed()?;
        count(&mut self.statements, self.deadline).map_err(|error| self.refused(error))
    }

    fn has_not_failed(&self) -> Result<(), Error> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn refused(&mut self, error: Error) -> Error {
        if self.in_transaction {
            self.failed.get_or_insert_with(|| error.clone());
        }
        error
    }

    /// Prepares for one run of a script.
    pub(crate) fn start(&mut self, in_transaction: bool, limit: Duration) {
        self.deadline = Instant::now() + limit;
        self.in_transaction = in_transaction;
        self.failed = None;
        self.statements = 0;
        if let Connection::Sqlite(connection) = &mut self.connection {
            connection.start(self.deadline);
        }
    }

    /// Ends one run of a script. Returns the error by which its transaction was lost, if there was one.
    pub(crate) fn finish(&mut self) -> Option<Error> {
        if let Connection::Sqlite(connection) = &self.connection {
            connection.finish();
        }
        self.failed.take()
    }

    /// The SQLite connection.
    ///
    /// # Panics
    /// If it is none; only the module `sqlite` calls this, for connections of its own.
    pub(crate) fn as_sqlite(&mut self) -> &mut Sqlite {
        match &mut self.connection {
            Connection::Sqlite(connection) => connection,
            _ => unreachable!("a connection of PostgreSQL among SQLite's"),
        }
    }

    /// The PostgreSQL connection.
    ///
    /// # Panics
    /// If it is none; only the module `postgresql` calls this, for connections of its own.
    pub(crate) fn as_postgres(&mut self) -> &mut Postgres {
        match &mut self.connection {
            Connection::Postgres(connection) => connection,
            _ => unreachable!("a connection of SQLite among PostgreSQL's"),
        }
    }

    /// What was learnt of a script.
    pub(crate) fn into_look_ahead(self) -> LookAhead {
        match self.connection {
            Connection::LookAhead(look_ahead) => *look_ahead,
            _ => unreachable!("a real connection where a script was to be learnt"),
        }
    }
}

fn count(statements: &mut u64, deadline: Instant) -> Result<(), Error> {
    *statements += 1;
    if Instant::now() > deadline { Err(Error::Slow) } else { Ok(()) }
}
