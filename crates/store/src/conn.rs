//! The connection of a script, the same for both engines.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::error::StoreError;
use crate::postgresql::connection::PostgresConnection as Postgres;
use crate::postgresql::look_ahead::StatementRecorder;
use crate::row::{OnRow, QueryError, Row};
use crate::sql::{Argument, BorrowedArgument, Insert, Sql};
use crate::sqlite::connection::SqliteConnection as Sqlite;
use crate::state_tag::StateTag;

/// A connection to one database, lent to a script.
///
/// In a transaction (`read` and `write`) an error of one statement fails the transaction. Later statements return the
/// same error, and the work is rolled back even if the script returns `Ok`. PostgreSQL does this itself. On SQLite this
/// type does it, so that a script behaves alike on both. Handle an expected conflict in SQL (`ON CONFLICT DO NOTHING`).
pub struct Conn {
    pub(crate) connection: ConnectionKind,
    deadline: Instant,
    in_transaction: bool,
    failed: Option<StoreError>,
    statements: u64,
}

pub(crate) enum ConnectionKind {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
    LookAhead(Box<StatementRecorder>),
}

impl Conn {
    pub(crate) fn sqlite(connection: Sqlite) -> Conn {
        Conn::new(ConnectionKind::Sqlite(connection))
    }

    pub(crate) fn postgres(connection: Postgres) -> Conn {
        Conn::new(ConnectionKind::Postgres(Box::new(connection)))
    }

    /// A connection without a server. It runs a script to record its statements.
    pub(crate) fn look_ahead(look_ahead: StatementRecorder) -> Conn {
        Conn::new(ConnectionKind::LookAhead(Box::new(look_ahead)))
    }

    fn new(connection: ConnectionKind) -> Conn {
        Conn { connection, deadline: Instant::now(), in_transaction: false, failed: None, statements: 0 }
    }

    /// The number of statements that the script has run. Tests use it to check that the cost of a list does not grow
    /// with its page.
    pub fn statements(&self) -> u64 {
        self.statements
    }

    /// The number of instructions of SQLite's virtual machine that the queries of this connection took so far; 0 on
    /// PostgreSQL. Tests use it to check that hidden rows cost nothing.
    pub fn instructions(&self) -> u64 {
        match &self.connection {
            ConnectionKind::Sqlite(connection) => connection.instructions,
            _ => 0,
        }
    }

    /// Calls `row` for each row of the answer, without storing the rows.
    pub fn for_each_row(
        &mut self,
        sql: &Sql,
        mut row: impl FnMut(&Row<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.query(sql, &mut |db_row| {
            row(db_row)?;
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Calls `row` for each row of the answer until it breaks, without storing the rows. Returns the break, if there was one.
    pub fn for_each_row_until<B>(
        &mut self,
        sql: &Sql,
        mut row: impl FnMut(&Row<'_>) -> Result<ControlFlow<B>, StoreError>,
    ) -> Result<ControlFlow<B>, StoreError> {
        let mut end = ControlFlow::Continue(());
        self.query(sql, &mut |db_row| {
            end = row(db_row)?;
            Ok(if end.is_break() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(end)
    }

    /// Returns all rows of the answer.
    pub fn query_all<T>(
        &mut self,
        sql: &Sql,
        mut row: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut rows = Vec::new();
        self.query(sql, &mut |r| {
            rows.push(row(r)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(rows)
    }

    /// Returns the first row of the answer, if it has one.
    pub fn query_optional<T>(
        &mut self,
        sql: &Sql,
        row: impl FnOnce(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let (mut row, mut first_value) = (Some(row), None);
        self.query(sql, &mut |r| {
            if let Some(row) = row.take() {
                first_value = Some(row(r)?);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(first_value)
    }

    /// Returns the first row of the answer, or [`StoreError::NotFound`] if the answer is empty.
    pub fn query_one<T>(
        &mut self,
        sql: &Sql,
        row: impl FnOnce(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.query_optional(sql, row)?.ok_or(StoreError::NotFound)
    }

    /// Runs a statement that returns no rows. Returns the number of rows that it inserted, updated or deleted. Rows
    /// that foreign keys changed in turn are not counted.
    pub fn exec(&mut self, sql: &Sql) -> Result<u64, StoreError> {
        self.check_deadline()?;
        let result = match &mut self.connection {
            ConnectionKind::Sqlite(connection) => connection.exec(sql),
            ConnectionKind::Postgres(connection) => connection.exec(sql),
            ConnectionKind::LookAhead(look_ahead) => look_ahead.exec(),
        };
        result.map_err(|error| self.mark_failed(error))
    }

    /// Runs a statement that returns no rows and whose success the script takes for granted. PostgreSQL receives it together with
    /// the next statement, without a round trip of its own. Its error is returned by the next statement or by the commit, and fails
    /// the transaction. A large statement is sent immediately, so that few bytes wait.
    pub fn exec_later(&mut self, sql: &Sql) -> Result<(), StoreError> {
        if !self.in_transaction || !may_wait(sql.args().iter().map(Argument::borrowed)) {
            return self.exec(sql).map(drop);
        }
        self.check_deadline()?;
        let result = match &mut self.connection {
            ConnectionKind::Sqlite(connection) => connection.exec(sql).map(drop),
            ConnectionKind::Postgres(connection) => connection.exec_later(sql, sql.args().to_vec()),
            ConnectionKind::LookAhead(look_ahead) => look_ahead.exec().map(drop),
        };
        result.map_err(|error| self.mark_failed(error))
    }

    /// Runs one statement for each row of arguments, efficiently for thousands of rows. Calls `on_executed` for each row, in
    /// order, with the number of rows that were changed. The statement's own arguments are not used.
    ///
    /// To insert rows, [`Conn::insert_rows`] needs fewer round trips.
    pub fn exec_each<'a, R: AsRef<[BorrowedArgument<'a>]>>(
        &mut self,
        sql: impl Into<Sql>,
        rows: impl ExactSizeIterator<Item = R>,
        mut on_executed: impl FnMut(u64),
    ) -> Result<(), StoreError> {
        self.check_not_failed()?;
        let sql = sql.into();
        let (deadline, statements) = (self.deadline, &mut self.statements);
        let mut go_on = || count(statements, deadline);
        let result = match &mut self.connection {
            ConnectionKind::Sqlite(connection) => {
                let enlarged = connection.expect_rows(rows.len());
                enlarged.and_then(|()| connection.exec_each(&sql, rows, go_on, on_executed))
            }
            ConnectionKind::Postgres(connection) => rows.into_iter().try_for_each(|row| {
                go_on()?;
                on_executed(connection.exec_with(&sql, row.as_ref())?);
                Ok(())
            }),
            ConnectionKind::LookAhead(look_ahead) => look_ahead.exec().map(|_| ()),
        };
        result.map_err(|error| self.mark_failed(error))
    }

    /// Inserts rows into a table whose name is only available at run time, efficiently for thousands of rows. Each row
    /// has a value for each of the columns. `suffix` is the end of the statement, and may be empty. `RETURNING` with a
    /// BIGINT column returns this column of each row in the order of the rows. With an `ON CONFLICT` clause, two of the rows must
    /// not meet the same stored row.
    ///
    /// PostgreSQL inserts 5,000 rows in one round trip. For a row that it refuses it reports the error, not the place
    /// of the row. A single row without `RETURNING` is inserted as by [`Conn::exec_later`].
    ///
    /// # Panics
    /// As [`Sql::name`].
    pub fn insert_rows<'a, R: AsRef<[BorrowedArgument<'a>]>>(
        &mut self,
        table: &str,
        columns: &[&str],
        rows: &[R],
        suffix: &'static str,
    ) -> Result<Vec<i64>, StoreError> {
        let rows: Vec<&[BorrowedArgument<'a>]> = rows.iter().map(AsRef::as_ref).collect();
        self.insert_slices(table, columns, &rows, suffix)
    }

    fn insert_slices(
        &mut self,
        table: &str,
        columns: &[&str],
        rows: &[&[BorrowedArgument<'_>]],
        suffix: &'static str,
    ) -> Result<Vec<i64>, StoreError> {
        self.check_not_failed()?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let insert = Insert::new(table, columns, suffix);
        let mut returned = Vec::new();
        let on_row = |row: &Row<'_>| {
            returned.push(row.int(0)?);
            Ok(())
        };
        let (deadline, statements) = (self.deadline, &mut self.statements);
        let mut go_on = || count(statements, deadline);
        let result = match &mut self.connection {
            _ if rows.iter().any(|row| row.len() != columns.len()) => {
                Err(StoreError::Db(format!("{table}: a row has not {} values", columns.len())))
            }
            ConnectionKind::Sqlite(connection) => {
                let enlarged = connection.expect_rows(rows.len());
                enlarged.and_then(|()| connection.insert_rows(&insert, rows, go_on, on_row))
            }
            ConnectionKind::Postgres(connection) => go_on().and_then(|()| match rows {
                [row] if self.in_transaction && insert.is_silent() && may_wait(row.iter().copied()) => {
                    connection.exec_later(&insert.single_row(), row.iter().map(|arg| (*arg).into()).collect())
                }
                _ => connection.insert_rows(&insert, rows, on_row),
            }),
            ConnectionKind::LookAhead(look_ahead) => look_ahead.exec().map(|_| ()),
        };
        result.map_err(|error| self.mark_failed(error))?;
        Ok(returned)
    }

    /// Returns whether the engine is embedded (SQLite).
    pub fn is_embedded(&self) -> bool {
        matches!(self.connection, ConnectionKind::Sqlite(_))
    }

    /// Runs statements without arguments that define tables or indexes. Connections do not cache them as prepared
    /// statements.
    pub(crate) fn define(&mut self, sql: &Sql) -> Result<(), StoreError> {
        self.check_deadline()?;
        let result = match &mut self.connection {
            ConnectionKind::Sqlite(connection) => connection.define(sql.text()),
            ConnectionKind::Postgres(connection) => connection.define(sql.text()),
            ConnectionKind::LookAhead(look_ahead) => look_ahead.exec().map(|_| ()),
        };
        result.map_err(|error| self.mark_failed(error))
    }

    /// Runs a statement that locks a table, together with the next statement. On PostgreSQL only.
    pub(crate) fn lock_later(&mut self, sql: &Sql) -> Result<(), StoreError> {
        match &mut self.connection {
            ConnectionKind::Postgres(connection) if self.in_transaction && self.failed.is_none() => {
                connection.lock_later(sql.text());
                Ok(())
            }
            _ => self.define(sql),
        }
    }

    /// Limits the time for which the transaction waits for each lock, on PostgreSQL only.
    pub(crate) fn limit_lock_time(&mut self) -> Result<(), StoreError> {
        match &mut self.connection {
            ConnectionKind::Postgres(connection) => {
                connection.limit_lock_time().map_err(|error| self.mark_failed(error))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether a wait for a lock has timed out since [`Conn::limit_lock_time`].
    pub(crate) fn has_missed_lock(&self) -> bool {
        matches!(&self.connection, ConnectionKind::Postgres(connection) if connection.has_missed_lock)
    }

    /// See [`crate::Database::state_tag`].
    pub(crate) fn state_tag(&mut self) -> Result<Option<StateTag>, StoreError> {
        match &mut self.connection {
            ConnectionKind::Sqlite(connection) => connection.state_tag().map(Some),
            ConnectionKind::Postgres(connection) => connection.state_tag(),
            ConnectionKind::LookAhead(look_ahead) => look_ahead.state_tag(),
        }
    }

    /// See [`crate::Database::write_unshown`].
    pub(crate) fn keep_state_tags(&mut self) -> Result<(), StoreError> {
        match &mut self.connection {
            ConnectionKind::Postgres(connection) => {
                connection.keep_state_tags().map_err(|error| self.mark_failed(error))
            }
            _ => Ok(()),
        }
    }

    fn query(&mut self, sql: &Sql, row: OnRow<'_>) -> Result<(), StoreError> {
        self.check_deadline()?;
        let result = match &mut self.connection {
            ConnectionKind::Sqlite(connection) => connection.query(sql, row),
            ConnectionKind::Postgres(connection) => connection.query(sql, row),
            ConnectionKind::LookAhead(look_ahead) => look_ahead.query(sql, row),
        };
        result.map_err(|stop| match stop {
            QueryError::Refused(error) => self.mark_failed(error),
            QueryError::Row(error) => error,
        })
    }

    /// Counts a statement and checks the deadline. The engines stop a single statement that runs for too long. This
    /// check stops a script with many short ones.
    fn check_deadline(&mut self) -> Result<(), StoreError> {
        self.check_not_failed()?;
        count(&mut self.statements, self.deadline).map_err(|error| self.mark_failed(error))
    }

    fn check_not_failed(&self) -> Result<(), StoreError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn mark_failed(&mut self, error: StoreError) -> StoreError {
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
        if let ConnectionKind::Sqlite(connection) = &mut self.connection {
            connection.start(self.deadline);
        }
    }

    /// Ends one run of a script. Returns the error that rolled back its transaction, if there was one.
    pub(crate) fn finish(&mut self) -> Option<StoreError> {
        if let ConnectionKind::Sqlite(connection) = &self.connection {
            connection.finish();
        }
        self.failed.take()
    }

    /// The SQLite connection.
    ///
    /// # Panics
    /// If this is not an SQLite connection. Only the module `sqlite` calls this, for connections of its own.
    pub(crate) fn as_sqlite(&mut self) -> &mut Sqlite {
        match &mut self.connection {
            ConnectionKind::Sqlite(connection) => connection,
            _ => unreachable!("a connection of PostgreSQL among SQLite's"),
        }
    }

    /// The PostgreSQL connection.
    ///
    /// # Panics
    /// If this is not a PostgreSQL connection. Only the module `postgresql` calls this, for connections of its own.
    pub(crate) fn as_postgres(&mut self) -> &mut Postgres {
        match &mut self.connection {
            ConnectionKind::Postgres(connection) => connection,
            _ => unreachable!("a connection of SQLite among PostgreSQL's"),
        }
    }

    /// Returns the recorded statements of a script.
    pub(crate) fn into_look_ahead(self) -> StatementRecorder {
        match self.connection {
            ConnectionKind::LookAhead(look_ahead) => *look_ahead,
            _ => unreachable!("a real connection where a script was to be learnt"),
        }
    }
}

/// The maximum size of the arguments of a statement that waits for the next one, in bytes.
const MAX_WAITING_BYTES: usize = 16 * 1024;

/// Returns whether arguments are few enough to wait for the next statement.
fn may_wait<'a>(args: impl Iterator<Item = BorrowedArgument<'a>>) -> bool {
    let bytes = args.map(|arg| match arg {
        BorrowedArgument::Null | BorrowedArgument::Int(_) => 8,
        BorrowedArgument::Text(text) => text.len(),
        BorrowedArgument::Blob(bytes) => bytes.len(),
        BorrowedArgument::Ints(numbers) => 8 * numbers.len(),
    });
    bytes.sum::<usize>() <= MAX_WAITING_BYTES
}

fn count(statements: &mut u64, deadline: Instant) -> Result<(), StoreError> {
    *statements += 1;
    if Instant::now() > deadline { Err(StoreError::Slow) } else { Ok(()) }
}
