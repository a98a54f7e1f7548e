//! One connection to PostgreSQL: statements and their errors.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::Statement;
use tokio_postgres::error::SqlState;

use super::client::{Client, plain};
use crate::error::Error;
use crate::row::{OnRow, QueryError, Row, Source};
use crate::slot::Slot;
use crate::sql::Sql;
use crate::state_tag::{EngineTag, StateTag};

/// Prepared statements kept per connection.
pub(super) const MAX_STATEMENTS: usize = 256;

/// What happened to a connection during a script, that the script's outcome may not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The connection is lost.
    Broken,
    /// A deadlock, or a conflict of transactions: the same script may succeed now.
    Conflict,
    /// A prepared statement no longer fits its tables; it is forgotten, and the same script may succeed now.
    Stale,
}

/// A connection and what belongs to it.
pub(crate) struct Connection {
    client: Client,
    /// Statements by their text, with the time of their last use.
    statements: HashMap<String, (Statement, u64)>,
    /// Counts uses of statements.
    now: u64,
    /// The database on the search path.
    at: Option<Arc<Slot>>,
    trouble: Option<Trouble>,
    /// Whether a snapshot of this server tells of every commit, once that is known.
    has_state_tags: Option<bool>,
}

/// Citus commits on other servers, of which no snapshot here tells. Before version 15 statistics were read from a file.
pub(super) const HAS_STATE_TAGS: &str = "SELECT pg_catalog.current_setting('server_version_num')::int >= 150000 \
     AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_extension WHERE extname = 'citus')";
/// After a crash, numbers of transactions that were undone are given out again. A crash also resets the statistics, and
/// when that was is told; the server's start alone is not enough, since it survives the crash of one of its processes.
pub(super) const STATE_TAG: &str = "SELECT pg_catalog.pg_current_snapshot()::text || ' ' || pg_catalog.pg_postmaster_start_time()::text \
     || ' ' || COALESCE(pg_catalog.pg_stat_get_bgwriter_stat_reset_time()::text, '')";

/// The row of [`STATE_TAG`].
pub(super) fn state_tag(row: &Row<'_>) -> Result<StateTag, Error> {
    Ok(StateTag(EngineTag::Postgres(row.text(0)?.to_owned())))
}

/// What is set on each connection: a process that hangs inside a transaction must not hold its locks for ever.
pub(super) fn session_limits(time_limit: Duration) -> String {
    let milliseconds = time_limit.as_millis().max(1);
    format!("SET statement_timeout = {milliseconds}; SET idle_in_transaction_session_timeout = {}", milliseconds * 3)
}

/// Says that a process has the databases open, to those who want to be alone with them ([`crate::Options::alone`]).
const LOCK_SHARED: &str =
    "SELECT pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtextextended('chancery open', 0))";
/// How long the server may take to notice that a process which had them open is gone.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
/// Says that it is alone.
const LOCK_EXCLUSIVE: &str = "SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended('chancery open', 0))";

impl Connection {
    pub(super) fn new(mut client: Client, time_limit: Duration, alone: bool) -> Result<Connection, Error> {
        let unavailable = |error: tokio_postgres::Error| Error::Unavailable(plain(&error));
        client.run(&session_limits(time_limit)).map_err(unavailable)?;
        // Held as long as the connection is, so that a process which is alone is so until it ends.
        let hold = if alone { LOCK_EXCLUSIVE } else { LOCK_SHARED };
        let until = Instant::now() + LOCK_PATIENCE;
        while !client.one(hold, None).map_err(unavailable)?.is_some_and(|row| row.get::<_, bool>(0)) {
            if Instant::now() > until {
                return Err(Error::InUse);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(Connection { client, statements: HashMap::new(), now: 0, at: None, trouble: None, has_state_tags: None })
    }

    pub fn take_trouble(&mut self) -> Option<Trouble> {
        self.trouble.take()
    }

    /// Runs statements of the store's own, such as COMMIT.
    pub fn control(&mut self, sql: &str) -> Result<(), Error> {
        self.client.run(sql).map_err(|error| self.translate(&error))
    }

    /// Makes a database the current one. The search path is set only when it changes, since plans are made anew then.
    pub fn set_search_path(&mut self, slot: &Arc<Slot>) -> Result<(), Error> {
        if self.at.as_ref().is_none_or(|at| at.id != slot.id) {
            self.at = None;
            self.control(&format!("SET search_path TO \"{}\"", slot.name))?;
            self.at = Some(slot.clone());
        }
        Ok(())
    }

    /// The version of a schema; `None` if it has none yet.
    pub fn version(&mut self, slot: &Slot) -> Result<Option<i64>, Error> {
        const HAS_VERSION: &str = "SELECT to_regclass(quote_ident(nspname) || '.schema_version') IS NOT NULL \
                             FROM pg_catalog.pg_namespace WHERE nspname = $1";
        let there = self.client.one(HAS_VERSION, Some(&slot.name)).map_err(|error| self.translate(&error))?;
        let Some(there) = there else { return Err(Error::Missing) };
        if !there.get::<_, bool>(0) {
            return Ok(None);
        }
        let sql = format!("SELECT version FROM \"{}\".schema_version", slot.name);
        match self.client.one(&sql, None) {
            Ok(row) => Ok(row.map(|row| row.get(0))),
            // Dropped since the question before.
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Err(Error::Missing),
            Err(error) => Err(self.translate(&error)),
        }
    }

    /// Removes a schema with all it holds, if it is there. Inside a transaction.
    pub fn drop_schema(&mut self, slot: &Slot) -> Result<(), Error> {
        self.lock_schema(&slot.name)?;
        self.control(&format!("DROP SCHEMA IF EXISTS \"{}\" CASCADE", slot.name))?;
        slot.renew();
        Ok(())
    }

    /// Held until the transaction ends.
    pub fn lock_schema(&mut self, name: &str) -> Result<(), Error> {
        // The name in front keeps clear of locks that others may take by numbers of their own.
        self.control(&format!("SELECT pg_advisory_xact_lock(hashtextextended('chancery schema {name}', 0))"))
    }

    /// Ends a transaction without keeping its work. If that fails, the connection is of no more use.
    pub fn roll_back(&mut self) {
        if self.client.run("ROLLBACK").is_err() {
            self.trouble = Some(Trouble::Broken);
        }
    }

    pub fn exec(&mut self, sql: &Sql) -> Result<u64, Error> {
        let (statement, known) = self.statement(sql)?;
        self.client.execute(&statement, sql).map_err(|error| self.refused(&error, known, sql.text()))
    }

    pub fn state_tag(&mut self) -> Result<Option<StateTag>, Error> {
        if self.has_state_tags.is_none() {
            self.has_state_tags = self.first(HAS_STATE_TAGS, |found| found.flag(0))?;
        }
        match self.has_state_tags {
            Some(true) => self.first(STATE_TAG, state_tag),
            _ => Ok(None),
        }
    }

    /// The first row of a statement of the store's own.
    fn first<T>(&mut self, text: &'static str, row: impl Fn(&Row<'_>) -> Result<T, Error>) -> Result<Option<T>, Error> {
        let mut first = None;
        let asked = self.query(&Sql::new(text), &mut |found| {
            first = Some(row(found)?);
            Ok(())
        });
        match asked {
            Ok(()) => Ok(first),
            Err(QueryError::Refused(error) | QueryError::Row(error)) => Err(error),
        }
    }

    pub fn query(&mut self, sql: &Sql, on_row: OnRow<'_>) -> Result<(), QueryError> {
        let (statement, known) = self.statement(sql).map_err(QueryError::Refused)?;
        let mut outcome = Ok(());
        let asked = self.client.query(&statement, sql, |found| {
            if outcome.is_ok() {
                outcome = on_row(&Row(Source::Postgres(found)));
            }
        });
        match asked {
            Ok(()) => outcome.map_err(QueryError::Row),
            Err(error) => Err(QueryError::Refused(self.refused(&error, known, sql.text()))),
        }
    }

    /// A prepared statement, and whether it was known before.
    fn statement(&mut self, sql: &Sql) -> Result<(Statement, bool), Error> {
        let (text, is_kept) = (sql.text(), sql.is_kept());
        self.now += 1;
        if let Some((statement, used)) = self.statements.get_mut(text) {
            *used = self.now;
            return Ok((statement.clone(), true));
        }
        let statement = self.client.prepare(text).map_err(|error| self.refused(&error, false, text))?;
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

    /// The error of a script's statement.
    fn refused(&mut self, error: &tokio_postgres::Error, known: bool, text: &str) -> Error {
        let code = error.code();
        // A statement is prepared once for all databases of a connection. Where a table was changed, or another
        // database has other types in its place, that shows as an error of syntax or type, on the server (class 42)
        // or already when the arguments are sent.
        let stale = match code {
            Some(code) if *code == SqlState::UNDEFINED_TABLE => false,
            Some(code) if *code == SqlState::FEATURE_NOT_SUPPORTED => true,
            Some(code) if *code == SqlState::INVALID_SQL_STATEMENT_NAME => true,
            Some(code) => code.code().starts_with("42"),
            None => true,
        };
        if known && stale {
            self.statements.remove(text);
            self.trouble = Some(Trouble::Stale);
        }
        // Says more where there is more: a lost connection is no stale statement.
        let error = self.translate(error);
        if code == Some(&SqlState::UNDEFINED_TABLE) && self.is_schema_missing() { Error::Missing } else { error }
    }

    /// Whether the current schema is gone, which PostgreSQL reports as a missing table. The transaction, if there is
    /// one, is lost already; it is ended, since it answers no more questions.
    fn is_schema_missing(&mut self) -> bool {
        let Some(slot) = self.at.clone() else { return false };
        self.roll_back();
        let missing = matches!(self.version(&slot), Err(Error::Missing));
        if missing {
            slot.renew();
        }
        missing
    }

    /// PostgreSQL's errors in the store's words. Notes what they mean for the connection.
    fn translate(&mut self, error: &tokio_postgres::Error) -> Error {
        let Some(db) = error.as_db_error() else {
            let lost = self.client.is_closed()
                || error.is_closed()
                || StdError::source(error).is_some_and(|source| source.is::<std::io::Error>());
            return if lost {
                self.trouble = Some(Trouble::Broken);
                Error::Unavailable(plain(error))
            } else {
                Error::Db(plain(error))
            };
        };
        let code = db.code().code();
        match code {
            "23505" if db.constraint() == Some("pg_namespace_nspname_index") => Error::Exists,
            "23505" => Error::Unique(db.constraint().unwrap_or_default().to_owned()),
            "23503" => Error::Referenced,
            "40001" | "40P01" => {
                self.trouble = Some(Trouble::Conflict);
                Error::Busy
            }
            "55P03" => Error::Busy,
            "57014" => Error::Slow,
            "53100" => Error::Full,
            "42P06" => Error::Exists,
            "3F000" => Error::Missing,
            "57P01" | "57P02" | "57P03" | "57P04" | "57P05" | "25P03" | "25P04" => {
                self.trouble = Some(Trouble::Broken);
                Error::Unavailable(plain(error))
            }
            _ if code.starts_with("08") => {
                self.trouble = Some(Trouble::Broken);
                Error::Unavailable(plain(error))
            }
            _ if code.starts_with("53") || code.starts_with("58") => Error::Unavailable(plain(error)),
            _ => Error::Db(plain(error)),
        }
    }
}
