//! One connection to PostgreSQL: statements and their errors.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::Statement;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::BorrowToSql;

use super::client::{PostgresClient, error_text};
use super::types::ColumnOf;
use crate::error::StoreError;
use crate::row::{OnRow, QueryError, Row, RowSource};
use crate::slot::Slot;
use crate::sql::{Argument, BorrowedArgument, Insert, Sql};
use crate::state_tag::{EngineTag, StateTag};

/// The maximum number of prepared statements that a connection caches.
pub(super) const MAX_STATEMENTS: usize = 256;
/// The maximum number of rows that one statement inserts, so that its arrays fit into memory.
const MAX_ROWS: usize = 5000;
/// The maximum number of statements that are sent together, so that their arguments fit into memory.
const MAX_DEFERRED: usize = 64;

/// A failure of a connection during a script, in addition to the script's own outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionFailure {
    /// The connection is lost.
    Broken,
    /// A deadlock or a conflict of transactions. The same script may succeed now.
    Conflict,
    /// A prepared statement no longer fitted its tables. It is removed from the cache, and the same script may succeed
    /// now.
    Stale,
}

/// A connection to PostgreSQL. It serves one database after another.
pub(crate) struct PostgresConnection {
    client: PostgresClient,
    /// Prepared statements by their text, with the number of their last use.
    statements: HashMap<String, (Statement, u64)>,
    /// The number of uses of statements so far.
    now: u64,
    /// The database on the search path.
    at: Option<Arc<Slot>>,
    trouble: Option<ConnectionFailure>,
    /// Is true if a wait for a lock has timed out since [`PostgresConnection::limit_lock_time`].
    pub has_missed_lock: bool,
    /// Is true if this server has state tags; `None` before the first query for it.
    has_state_tags: Option<bool>,
}

/// Selects whether a snapshot of the server shows every commit. With Citus it does not, since Citus also commits on
/// other servers. Before version 15 the server read the time of the statistics, which the tag contains, from a file.
pub(super) const HAS_STATE_TAGS: &str = "SELECT pg_catalog.current_setting('server_version_num')::int >= 150000 \
     AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_extension WHERE extname = 'citus')";
/// Selects the state tag. A snapshot alone is not sufficient: after a crash the server reuses numbers of transactions
/// that were undone. So the tag contains the time when the statistics were reset, which a crash does. The server's
/// start is not sufficient, because it does not change if only one of the server's processes has crashed.
///
/// The last column is for the last transaction that the snapshot sees. If that is one of [`MARK_UNSHOWN`], it is the
/// `first` of its row.
pub(super) const STATE_TAG: &str = "SELECT pg_catalog.pg_current_snapshot()::text, \
     pg_catalog.pg_postmaster_start_time()::text || ' ' || COALESCE(pg_catalog.pg_stat_get_bgwriter_stat_reset_time()::text, ''), \
     (SELECT first FROM chancery.unshown_writes WHERE server = pg_catalog.pg_postmaster_start_time() \
      AND last = pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::bigint - 1)";

/// Reads the row of [`STATE_TAG`].
pub(super) fn state_tag(row: &Row<'_>) -> Result<StateTag, StoreError> {
    let snapshot = row.text(0)?;
    let snapshot = match row.opt_int(2)? {
        Some(first) => {
            before_unshown(snapshot, first).ok_or_else(|| StoreError::Db(format!("no snapshot: {snapshot}")))?
        }
        None => snapshot.to_owned(),
    };
    Ok(StateTag(EngineTag::Postgres(format!("{snapshot} {}", row.text(1)?))))
}

/// Returns the snapshot (`xmin:xmax:xip,…`) before the transactions from `first` on, which all have ended. A
/// transaction directly before `first` that still runs was not part of that snapshot, because no later one had ended.
fn before_unshown(snapshot: &str, first: i64) -> Option<String> {
    let running = snapshot.rsplit(':').next()?;
    let mut running: Vec<i64> =
        running.split(',').filter(|id| !id.is_empty()).map(str::parse).collect::<Result<_, _>>().ok()?;
    let mut next = first;
    while running.last() == Some(&(next - 1)) {
        running.pop();
        next -= 1;
    }
    let ids: Vec<String> = running.iter().map(i64::to_string).collect();
    Some(format!("{}:{next}:{}", running.first().unwrap_or(&next), ids.join(",")))
}

/// A row for each sequence of writes that change nothing visible, from its first to its last transaction without a gap.
/// A tag leaves these transactions out. The server's start identifies rows that were restored from another server.
pub(super) const UNSHOWN_WRITES: &str = "CREATE TABLE IF NOT EXISTS unshown_writes \
     (last BIGINT PRIMARY KEY, first BIGINT NOT NULL, server TIMESTAMPTZ NOT NULL)";
/// Marks the present transaction as one that changes nothing visible. Deletes former rows, since only the row of the
/// server's last transaction is queried. Rows that another transaction deletes at the same time are skipped.
const MARK_UNSHOWN: &str = "WITH this AS (SELECT pg_catalog.pg_current_xact_id()::text::bigint AS id, \
     pg_catalog.pg_postmaster_start_time() AS server), \
     gone AS (DELETE FROM unshown_writes WHERE last IN (SELECT last FROM unshown_writes LIMIT 100 FOR UPDATE SKIP LOCKED)) \
     INSERT INTO unshown_writes (last, first, server) \
     SELECT id, COALESCE((SELECT first FROM unshown_writes AS before WHERE last = id - 1 AND before.server = this.server), id), server \
     FROM this ON CONFLICT (last) DO NOTHING";

/// Returns the statements that set the time limits of each connection. The second limit prevents a process that hangs
/// inside a transaction from blocking others with its locks for ever.
pub(super) fn session_limits(time_limit: Duration) -> String {
    let milliseconds = time_limit.as_millis().max(1);
    format!("SET statement_timeout = {milliseconds}; SET idle_in_transaction_session_timeout = {}", milliseconds * 3)
}

/// The time for which a change of a table waits for a lock. Later transactions wait behind it.
const LOCK_TIME: Duration = Duration::from_secs(2);
/// Acquired by a process that has the databases open, so that others detect that they are not alone
/// ([`crate::Options::alone`]).
const LOCK_SHARED: &str =
    "SELECT pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('chancery open', 0))";
/// The time for which a lock is retried: the server may detect late that the process with the lock has ended.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
/// Acquired by a process that must be alone with the databases.
const LOCK_EXCLUSIVE: &str = "SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended('chancery open', 0))";

impl PostgresConnection {
    pub(super) fn new(
        mut client: PostgresClient,
        time_limit: Duration,
        alone: bool,
    ) -> Result<PostgresConnection, StoreError> {
        let unavailable = |error: tokio_postgres::Error| StoreError::Unavailable(error_text(&error));
        client.run(&session_limits(time_limit)).map_err(unavailable)?;
        // The lock lasts until the connection ends, so that an exclusive process stays alone.
        let hold = if alone { LOCK_EXCLUSIVE } else { LOCK_SHARED };
        let deadline = Instant::now() + LOCK_PATIENCE;
        while !client.query_optional(hold, None).map_err(unavailable)?.is_some_and(|row| row.get::<_, bool>(0)) {
            if Instant::now() > deadline {
                return Err(StoreError::InUse);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(PostgresConnection {
            client,
            statements: HashMap::new(),
            now: 0,
            at: None,
            trouble: None,
            has_missed_lock: false,
            has_state_tags: None,
        })
    }

    pub fn take_trouble(&mut self) -> Option<ConnectionFailure> {
        self.trouble.take()
    }

    /// Runs statements of the store itself, such as COMMIT.
    pub fn control(&mut self, sql: &str) -> Result<(), StoreError> {
        self.client.run(sql).map_err(|error| self.translate_error(&error, false, sql))
    }

    /// Sends a BEGIN together with the first statement of the transaction.
    pub fn begin_later(&mut self, sql: &'static str) {
        self.client.defer_begin(sql);
    }

    /// Returns whether the server has begun the transaction of the last [`PostgresConnection::begin_later`].
    pub fn has_begun(&self) -> bool {
        self.client.has_begun()
    }

    /// Runs statements that define tables or indexes, or lock them.
    pub fn define(&mut self, sql: &str) -> Result<(), StoreError> {
        self.client.run(sql).map_err(|error| self.translate_error(&error, false, sql))
    }

    /// Locks a table, together with the next statement.
    pub fn lock_later(&mut self, sql: &str) {
        self.client.defer(None, sql, Vec::new());
    }

    /// Limits the time for which the transaction waits for each lock to [`LOCK_TIME`].
    pub fn limit_lock_time(&mut self) -> Result<(), StoreError> {
        self.has_missed_lock = false;
        self.control(&format!("SET LOCAL lock_timeout = {}", LOCK_TIME.as_millis()))
    }

    /// Makes a database the current one. Sets the search path only if it changes, because that discards the server's
    /// plans.
    pub fn set_search_path(&mut self, slot: &Arc<Slot>) -> Result<(), StoreError> {
        if self.at.as_ref().is_none_or(|at| at.id != slot.id) {
            self.at = None;
            self.control(&format!("SET search_path TO \"{}\"", slot.name))?;
            self.at = Some(slot.clone());
        }
        Ok(())
    }

    /// Returns the version of a schema; `None` before its first migration.
    pub fn version(&mut self, slot: &Slot) -> Result<Option<i64>, StoreError> {
        const HAS_VERSION: &str = "SELECT to_regclass(quote_ident(nspname) || '.schema_version') IS NOT NULL \
                             FROM pg_catalog.pg_namespace WHERE nspname = $1";
        let schema_row =
            self.client.query_optional(HAS_VERSION, Some(&slot.name)).map_err(|error| self.translate(&error))?;
        let Some(schema_row) = schema_row else { return Err(StoreError::Missing) };
        if !schema_row.get::<_, bool>(0) {
            return Ok(None);
        }
        let sql = format!("SELECT version FROM \"{}\".schema_version", slot.name);
        match self.client.query_optional(&sql, None) {
            Ok(row) => Ok(row.map(|row| row.get(0))),
            // The schema was dropped after the previous statement.
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Err(StoreError::Missing),
            Err(error) => Err(self.translate(&error)),
        }
    }

    /// Removes a schema with all its content, if it exists. Call it inside a transaction.
    pub fn drop_schema(&mut self, slot: &Slot) -> Result<(), StoreError> {
        self.lock_schema(&slot.name)?;
        self.control(&format!("DROP SCHEMA IF EXISTS \"{}\" CASCADE", slot.name))?;
        slot.renew();
        Ok(())
    }

    /// Acquires the lock of a schema until the transaction ends.
    pub fn lock_schema(&mut self, name: &str) -> Result<(), StoreError> {
        // The prefix separates it from locks of other programs, which may use plain numbers.
        self.control(&format!("SELECT pg_advisory_xact_lock(hashtextextended('chancery schema {name}', 0))"))
    }

    /// Rolls back the transaction. If that fails, the connection cannot be used any more.
    pub fn roll_back(&mut self) {
        let is_unsent = self.client.drop_deferred();
        if !is_unsent && self.client.run("ROLLBACK").is_err() {
            self.trouble = Some(ConnectionFailure::Broken);
        }
    }

    pub fn exec(&mut self, sql: &Sql) -> Result<u64, StoreError> {
        self.exec_bound(sql, sql.args().iter())
    }

    /// Runs a statement that returns no rows. `args` replace its arguments.
    pub fn exec_with(&mut self, sql: &Sql, args: &[BorrowedArgument<'_>]) -> Result<u64, StoreError> {
        self.exec_bound(sql, args.iter().copied())
    }

    fn exec_bound<A: BorrowToSql>(
        &mut self,
        sql: &Sql,
        args: impl ExactSizeIterator<Item = A>,
    ) -> Result<u64, StoreError> {
        let (statement, is_cached) = self.statement(sql.text(), sql.is_kept())?;
        self.client.execute(&statement, args).map_err(|error| self.translate_error(&error, is_cached, sql.text()))
    }

    /// Runs a statement that returns no rows, together with the next one. Its error is that of the next one. `args` replace the
    /// arguments of the statement.
    pub fn exec_later(&mut self, sql: &Sql, args: Vec<Argument>) -> Result<(), StoreError> {
        if self.client.deferred_count() >= MAX_DEFERRED {
            self.client.flush().map_err(|error| self.translate_error(&error, false, sql.text()))?;
        }
        let (statement, is_cached) = self.statement(sql.text(), sql.is_kept())?;
        self.client.defer(Some((statement, is_cached)), sql.text(), args);
        Ok(())
    }

    /// Inserts rows by a statement with an array for each column. 1,000 rows of 30 columns cost a third of a long list
    /// of values. The statement does not depend on the number of rows, so it stays prepared.
    pub fn insert_rows(
        &mut self,
        insert: &Insert,
        rows: &[&[BorrowedArgument<'_>]],
        mut on_row: impl FnMut(&Row<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let single = insert.single_row();
        // The statement is for the columns' types, and for a single row.
        let (statement, is_cached) = self.statement(single.text(), single.is_kept())?;
        let mut outcome = Ok(());
        if let [row] = rows {
            let args = row.iter().copied();
            let query_result =
                self.client.query(&statement, args, |db_row| outcome = on_row(&Row(RowSource::Postgres(db_row))));
            return query_result.map_err(|error| self.translate_error(&error, is_cached, single.text())).and(outcome);
        }
        let types = statement.params();
        let arrays: Vec<String> = (1..)
            .zip(types)
            .map(|(at, column_type)| {
                format!("CAST(${at} AS \"{}\".\"{}\"[])", column_type.schema(), column_type.name())
            })
            .collect();
        let many_rows = insert.rows_text(&arrays.join(", "));
        let (statement, many_known) = self.statement(&many_rows, true)?;
        for rows in rows.chunks(MAX_ROWS) {
            let columns = (0..types.len()).map(|column| ColumnOf { rows, column });
            let query_result = self.client.query(&statement, columns, |db_row| {
                if outcome.is_ok() {
                    outcome = on_row(&Row(RowSource::Postgres(db_row)));
                }
            });
            query_result.map_err(|error| {
                // If a deferred statement failed, this only costs another preparation.
                if is_cached {
                    self.statements.remove(single.text());
                }
                self.translate_error(&error, is_cached || many_known, &many_rows)
            })?;
        }
        outcome
    }

    pub fn state_tag(&mut self) -> Result<Option<StateTag>, StoreError> {
        if self.has_state_tags()? { self.query_first(STATE_TAG, state_tag) } else { Ok(None) }
    }

    /// Preserves the state tags at the commit of the present transaction.
    pub fn keep_state_tags(&mut self) -> Result<(), StoreError> {
        if self.has_state_tags()? { self.exec(&Sql::new(MARK_UNSHOWN)).map(drop) } else { Ok(()) }
    }

    fn has_state_tags(&mut self) -> Result<bool, StoreError> {
        if self.has_state_tags.is_none() {
            self.has_state_tags = self.query_first(HAS_STATE_TAGS, |row| row.flag(0))?;
        }
        Ok(self.has_state_tags == Some(true))
    }

    /// Returns the first row of a statement of the store itself.
    fn query_first<T>(
        &mut self,
        text: &'static str,
        row: impl Fn(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let mut first = None;
        let query_result = self.query(&Sql::new(text), &mut |db_row| {
            first = Some(row(db_row)?);
            Ok(ControlFlow::Continue(()))
        });
        match query_result {
            Ok(()) => Ok(first),
            Err(QueryError::Refused(error) | QueryError::Row(error)) => Err(error),
        }
    }

    pub fn query(&mut self, sql: &Sql, on_row: OnRow<'_>) -> Result<(), QueryError> {
        let (statement, is_cached) = self.statement(sql.text(), sql.is_kept()).map_err(QueryError::Refused)?;
        let mut outcome = Ok(ControlFlow::Continue(()));
        let query_result = self.client.query(&statement, sql.args().iter(), |db_row| {
            if outcome == Ok(ControlFlow::Continue(())) {
                outcome = on_row(&Row(RowSource::Postgres(db_row)));
            }
        });
        match query_result {
            Ok(()) => outcome.map(drop).map_err(QueryError::Row),
            Err(error) => Err(QueryError::Refused(self.translate_error(&error, is_cached, sql.text()))),
        }
    }

    /// Returns a prepared statement, and whether it was cached.
    fn statement(&mut self, text: &str, is_kept: bool) -> Result<(Statement, bool), StoreError> {
        self.now += 1;
        if let Some((statement, used)) = self.statements.get_mut(text) {
            *used = self.now;
            return Ok((statement.clone(), true));
        }
        let statement = self.client.prepare(text).map_err(|error| self.translate_error(&error, false, text))?;
        if !is_kept {
            return Ok((statement, false));
        }
        if self.statements.len() >= MAX_STATEMENTS
            && let Some(oldest) = self.statements.iter().min_by_key(|(_, (_, used))| *used)
        {
            let oldest = oldest.0.clone();
            self.statements.remove(&oldest);
        }
        self.statements.insert(text.to_owned(), (statement.clone(), self.now));
        Ok((statement, false))
    }

    /// Translates the error of a script's statement or of a deferred one before it. Removes the statement from the cache if it is
    /// stale.
    fn translate_error(&mut self, error: &tokio_postgres::Error, is_cached: bool, text: &str) -> StoreError {
        let code = error.code();
        let deferred = self.client.take_failed();
        let (is_cached, text) =
            deferred.as_ref().map_or((is_cached, text), |failed| (failed.is_cached, failed.text.as_str()));
        // All databases of a connection share a prepared statement. A table may have changed, or have other types in
        // another database. The error is then one of syntax or type, on the server (class 42) or when arguments are
        // sent.
        let stale = match code {
            Some(code) if *code == SqlState::UNDEFINED_TABLE => false,
            Some(code) if *code == SqlState::FEATURE_NOT_SUPPORTED => true,
            Some(code) if *code == SqlState::INVALID_SQL_STATEMENT_NAME => true,
            Some(code) => code.code().starts_with("42"),
            None => true,
        };
        if is_cached && stale {
            self.statements.remove(text);
            self.trouble = Some(ConnectionFailure::Stale);
        }
        // This may set a more serious failure: a lost connection instead of a stale statement.
        let error = self.translate(error);
        if code == Some(&SqlState::UNDEFINED_TABLE) && self.is_schema_missing() { StoreError::Missing } else { error }
    }

    /// Returns whether the current schema is missing, which PostgreSQL reports as a missing table. Rolls back first,
    /// because a failed transaction runs no other statement.
    fn is_schema_missing(&mut self) -> bool {
        let Some(slot) = self.at.clone() else { return false };
        self.roll_back();
        let missing = matches!(self.version(&slot), Err(StoreError::Missing));
        if missing {
            slot.renew();
        }
        missing
    }

    /// Translates an error of PostgreSQL, and records its effect on the connection.
    fn translate(&mut self, error: &tokio_postgres::Error) -> StoreError {
        let Some(db) = error.as_db_error() else {
            let lost = self.client.is_closed()
                || error.is_closed()
                || StdError::source(error).is_some_and(|source| source.is::<std::io::Error>());
            return if lost {
                self.trouble = Some(ConnectionFailure::Broken);
                StoreError::Unavailable(error_text(error))
            } else {
                StoreError::Db(error_text(error))
            };
        };
        let code = db.code().code();
        match code {
            "23505" if db.constraint() == Some("pg_namespace_nspname_index") => StoreError::Exists,
            "23505" => StoreError::Unique(db.constraint().unwrap_or_default().to_owned()),
            "23503" => StoreError::Referenced,
            "40001" | "40P01" => {
                self.trouble = Some(ConnectionFailure::Conflict);
                StoreError::Busy
            }
            "55P03" => {
                self.has_missed_lock = true;
                StoreError::Busy
            }
            // A column or a table is missing, or a prepared statement would return other columns than before.
            "42703" | "42P01" | "0A000" => StoreError::SchemaChanged(error_text(error)),
            "57014" => StoreError::Slow,
            "53100" => StoreError::Full,
            "42P06" => StoreError::Exists,
            "3F000" => StoreError::Missing,
            "57P01" | "57P02" | "57P03" | "57P04" | "57P05" | "25P03" | "25P04" => {
                self.trouble = Some(ConnectionFailure::Broken);
                StoreError::Unavailable(error_text(error))
            }
            _ if code.starts_with("08") => {
                self.trouble = Some(ConnectionFailure::Broken);
                StoreError::Unavailable(error_text(error))
            }
            _ if code.starts_with("53") || code.starts_with("58") => StoreError::Unavailable(error_text(error)),
            _ => StoreError::Db(error_text(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::before_unshown;

    #[test]
    fn a_snapshot_without_the_last_transactions_is_the_one_before_them() {
        let before = |snapshot, first| before_unshown(snapshot, first).unwrap();
        // No transaction runs.
        assert_eq!(before("105:105:", 104), "104:104:");
        // Some transactions have run for a long time.
        assert_eq!(before("90:105:90,95", 103), "90:103:90,95");
        // Some transactions began just before, and were not part of any snapshot.
        assert_eq!(before("90:105:90,101,102", 103), "90:101:90");
        assert_eq!(before("101:105:101,102", 103), "101:101:");
    }
}
