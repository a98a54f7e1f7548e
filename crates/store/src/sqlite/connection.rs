//! One connection to an SQLite file: opening, statements, errors.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use rusqlite::config::DbConfig;
use rusqlite::types::Null;
use rusqlite::{CachedStatement, Connection as Handle, ErrorCode, OpenFlags, ffi};

use super::Settings;
use crate::Migration;
use crate::conn::{Conn, OnRow, QueryError, Row, Source};
use crate::error::Error;
use crate::migrate;
use crate::sql::{Arg, Sql, Value, sqlite_text};
use crate::state_tag::{EngineTag, StateTag};
use crate::work::{Slot, lock};

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    Write,
}

/// Other processes (the command line) may write to the same file; this is how long one waits for them.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_STATEMENTS: usize = 64;
/// Of a writer, in KiB: there may be many of them.
const SMALL_CACHE: &str = "PRAGMA cache_size = -1024";
/// Of a writer with thousands of rows to write.
const LARGE_CACHE: &str = "PRAGMA cache_size = -16384";
/// From how many rows on the cache is enlarged.
const MIN_ROWS_FOR_LARGE_CACHE: usize = 500;
/// Instructions of SQLite's virtual machine between two looks at the clock; well under a millisecond.
const INSTRUCTIONS_PER_CHECK: i32 = 10_000;
const NO_DEADLINE: u64 = u64::MAX;

/// A connection and what belongs to it.
pub(crate) struct Connection {
    handle: Handle,
    /// Unique in this process.
    id: u64,
    /// Statements in SQLite's form, by their canonical text: finding one costs less than making it.
    texts: HashMap<String, String, RandomState>,
    opened: Instant,
    /// Nanoseconds after `opened` at which statements are stopped.
    deadline: Arc<AtomicU64>,
    /// Whether the script at hand has changed anything.
    changed: bool,
    /// Whether the cache is larger than usual.
    is_enlarged: bool,
}

impl Connection {
    /// Opens a database of which the file exists, and brings it up to date if this process has not yet done so.
    pub fn open(settings: &Settings, slot: &Slot, purpose: Purpose) -> Result<Connection, Error> {
        prepare(settings, slot)?;
        let connection = Connection::of(open_file(slot)?)?;
        let rest = match purpose {
            Purpose::Read => "PRAGMA query_only = ON; PRAGMA cache_size = -512".to_owned(),
            Purpose::Write => {
                let limit = settings.options.page_limit.map(|pages| format!("; PRAGMA max_page_count = {pages}"));
                format!("{SMALL_CACHE}; PRAGMA journal_size_limit = 4194304{}", limit.unwrap_or_default())
            }
        };
        connection.handle.execute_batch(&rest).map_err(translate)?;
        Ok(connection)
    }

    fn of(mut handle: Handle) -> Result<Connection, Error> {
        handle.set_prepared_statement_cache_capacity(MAX_STATEMENTS);
        let opened = Instant::now();
        let deadline = Arc::new(AtomicU64::new(NO_DEADLINE));
        let limit = deadline.clone();
        let too_late = move || nanoseconds(opened.elapsed()) > limit.load(Ordering::Relaxed);
        handle.progress_handler(INSTRUCTIONS_PER_CHECK, Some(too_late)).map_err(translate)?;
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Connection { handle, id, texts: HashMap::default(), opened, deadline, changed: false, is_enlarged: false })
    }

    /// Called before each run of a script.
    pub fn start(&mut self, deadline: Instant) {
        self.changed = false;
        self.deadline.store(nanoseconds(deadline.saturating_duration_since(self.opened)), Ordering::Relaxed);
    }

    /// Called after each run of a script.
    pub fn finish(&self) {
        self.deadline.store(NO_DEADLINE, Ordering::Relaxed);
    }

    /// Lends the cache more memory when many rows are to come, so that no page is written twice in their transaction.
    pub fn expect_rows(&mut self, rows: usize) -> Result<(), Error> {
        if rows < MIN_ROWS_FOR_LARGE_CACHE || self.is_enlarged {
            return Ok(());
        }
        self.is_enlarged = true;
        self.control(LARGE_CACHE)
    }

    /// Called after each transaction: takes back what was lent.
    pub fn settle(&mut self) {
        if std::mem::take(&mut self.is_enlarged)
            && let Err(error) = self.control(SMALL_CACHE)
        {
            tracing::warn!(%error, "the cache was not made smaller");
        }
    }

    /// Whether the script that ran last has changed anything.
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// Runs a statement of the store's own, such as COMMIT.
    pub fn control(&self, sql: &str) -> Result<(), Error> {
        let result = self.handle.prepare_cached(sql).and_then(|mut statement| statement.raw_execute());
        result.map(|_| ()).map_err(translate)
    }

    /// Outside a transaction, of a connection that only reads: its own commits are not counted.
    pub fn state_tag(&self) -> Result<StateTag, Error> {
        let version = self.handle.prepare_cached("PRAGMA data_version");
        let version = version.and_then(|mut statement| statement.query_row([], |row| row.get(0)));
        Ok(StateTag(EngineTag::Sqlite { connection: self.id, version: version.map_err(translate)? }))
    }

    /// Whether no transaction is open. Some errors, a full disk among them, roll back the whole transaction.
    pub fn is_autocommit(&self) -> bool {
        self.handle.is_autocommit()
    }

    /// Writes what stands in the write-ahead log into the file and empties the log.
    pub fn checkpoint(&self) {
        let result = self.handle.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        if let Err(error) = result {
            // Nothing is lost: the log stays and is read at the next opening.
            tracing::warn!(%error, "no checkpoint at closing");
        }
    }

    pub fn exec(&mut self, sql: &Sql) -> Result<u64, Error> {
        self.exec_bound(sql, sql.args().iter().map(Arg::lent))
    }

    /// As [`Connection::exec`], with other arguments than the statement's own.
    pub fn exec_with(&mut self, sql: &Sql, args: &[Value<'_>]) -> Result<u64, Error> {
        self.exec_bound(sql, args.iter().copied())
    }

    fn exec_bound<'a>(&mut self, sql: &Sql, args: impl ExactSizeIterator<Item = Value<'a>>) -> Result<u64, Error> {
        let before = self.handle.total_changes();
        let run = |statement: &mut CachedStatement<'_>| statement.raw_execute().map_err(StatementError::Engine);
        self.with(sql, args, run).map_err(|stop| match stop {
            QueryError::Refused(error) | QueryError::Row(error) => error,
        })?;
        // After a statement that changes no rows, `changes` still tells of the one before.
        let changed = self.handle.total_changes() != before;
        Ok(if changed { self.handle.changes() } else { 0 })
    }

    pub fn query(&mut self, sql: &Sql, on_row: OnRow<'_>) -> Result<(), QueryError> {
        self.with(sql, sql.args().iter().map(Arg::lent), |statement| {
            let changes = !statement.readonly();
            let mut outcome = Ok(());
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next().map_err(StatementError::Engine)? {
                if outcome.is_ok() {
                    outcome = on_row(&Row(Source::Sqlite(row)));
                }
                // A statement that changes something must run to its end: constraints may be checked only there.
                if outcome.is_err() && !changes {
                    break;
                }
            }
            outcome.map_err(StatementError::Row)
        })
    }

    fn with<'a, T>(
        &mut self,
        sql: &Sql,
        args: impl ExactSizeIterator<Item = Value<'a>>,
        run: impl FnOnce(&mut CachedStatement<'_>) -> Result<T, StatementError>,
    ) -> Result<T, QueryError> {
        let is_kept = sql.is_kept();
        let made;
        let text = match self.texts.get(sql.text()) {
            Some(text) => text,
            None if !is_kept => {
                made = sqlite_text(sql.text());
                &made
            }
            None => {
                if self.texts.len() >= MAX_STATEMENTS {
                    self.texts.clear();
                }
                self.texts.entry(sql.text().to_owned()).or_insert(sqlite_text(sql.text()))
            }
        };
        let outcome = (|| {
            let mut statement = self.handle.prepare_cached(text).map_err(StatementError::Engine)?;
            bind(&mut statement, args)?;
            let before = self.handle.total_changes();
            let outcome = run(&mut statement);
            // Rows are counted; of other statements, only that they may change something is known.
            let counts = ["INSERT", "UPDATE", "DELETE"].iter().any(|word| text.starts_with(word));
            let is_idle = statement.readonly() || counts && self.handle.total_changes() == before;
            self.changed |= !is_idle;
            if !is_kept {
                statement.discard();
            }
            outcome
        })();
        outcome.map_err(|broke| match broke {
            StatementError::Engine(error) => QueryError::Refused(self.explain(error)),
            StatementError::Arguments(error) => QueryError::Refused(error),
            StatementError::Row(error) => QueryError::Row(error),
        })
    }

    fn explain(&self, error: rusqlite::Error) -> Error {
        if let rusqlite::Error::SqliteFailure(code, Some(message)) = &error {
            match code.extended_code {
                ffi::SQLITE_CONSTRAINT_UNIQUE => return Error::Unique(self.unique_index(message)),
                ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_ROWID => {
                    let table = columns_of(message).and_then(|columns| columns.split_once('.')).map_or("", |c| c.0);
                    return Error::Unique(format!("{table}_pkey"));
                }
                _ => {}
            }
        }
        translate(error)
    }

    /// The name of the index that a message tells of: "UNIQUE constraint failed: users.build, users.name" or, for an
    /// index over expressions, "UNIQUE constraint failed: index 'name'".
    ///
    /// The columns are looked up anew each time: such errors are rare, and tables change at run time.
    fn unique_index(&self, message: &str) -> String {
        let Some(columns) = columns_of(message) else { return message.to_owned() };
        if let Some(name) = columns.strip_prefix("index '").and_then(|rest| rest.strip_suffix('\'')) {
            return name.to_owned();
        }
        self.find_index(columns).ok().flatten().unwrap_or_else(|| columns.to_owned())
    }

    fn find_index(&self, columns: &str) -> rusqlite::Result<Option<String>> {
        let mut table = "";
        let mut wanted = Vec::new();
        for column in columns.split(", ") {
            let Some((of, name)) = column.split_once('.') else { return Ok(None) };
            table = of;
            wanted.push(name);
        }
        let mut indexes =
            self.handle.prepare("SELECT name, origin FROM pragma_index_list(?1) WHERE \"unique\" ORDER BY seq")?;
        let mut parts = self.handle.prepare("SELECT name FROM pragma_index_info(?1) ORDER BY seqno")?;
        let mut rows = indexes.query([table])?;
        while let Some(row) = rows.next()? {
            let (name, origin): (String, String) = (row.get(0)?, row.get(1)?);
            let found: Vec<Option<String>> = parts.query_map([&name], |row| row.get(0))?.collect::<Result<_, _>>()?;
            if found.iter().map(Option::as_deref).eq(wanted.iter().copied().map(Some)) {
                // A constraint in the table's definition has no name here: the one that PostgreSQL would give it.
                return Ok(Some(if origin == "c" { name } else { format!("{table}_{}_key", wanted.join("_")) }));
            }
        }
        Ok(None)
    }

    /// Copies the database into a new file.
    pub fn copy_into(&self, target: &str) -> Result<(), Error> {
        self.handle.execute("VACUUM INTO ?1", [target]).map(|_| ()).map_err(translate)
    }
}

/// Why a statement ended early.
enum StatementError {
    Engine(rusqlite::Error),
    Arguments(Error),
    Row(Error),
}

fn bind<'a>(
    statement: &mut CachedStatement<'_>,
    args: impl ExactSizeIterator<Item = Value<'a>>,
) -> Result<(), StatementError> {
    let expected = statement.parameter_count();
    if expected != args.len() {
        let text = format!("{} arguments for {expected} placeholders", args.len());
        return Err(StatementError::Arguments(Error::Db(text)));
    }
    for (at, arg) in (1..).zip(args) {
        let bound = match arg {
            Value::Null => statement.raw_bind_parameter(at, Null),
            Value::Int(number) => statement.raw_bind_parameter(at, number),
            Value::Text(text) => statement.raw_bind_parameter(at, text),
            Value::Blob(bytes) => statement.raw_bind_parameter(at, bytes),
        };
        bound.map_err(StatementError::Engine)?;
    }
    Ok(())
}

fn columns_of(message: &str) -> Option<&str> {
    message.split_once("constraint failed: ").map(|(_, columns)| columns)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NO_DEADLINE)
}

/// Opens a file that is there, with what every connection needs.
fn open_file(slot: &Slot) -> Result<Handle, Error> {
    // Never CREATE: a database that is not there is missing, not empty.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let missing = |error| {
        let error = translate(error);
        if slot.file.exists() { error } else { Error::Missing }
    };
    let handle = Handle::open_with_flags(&slot.file, flags).map_err(missing)?;
    handle.busy_timeout(BUSY_TIMEOUT).map_err(translate)?;
    for (setting, on) in [
        // Without it, a joined query is prepared anew at each bind.
        (DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true),
        // "Double quotes" are names, as in PostgreSQL, never strings.
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
    ] {
        handle.set_db_config(setting, on).map_err(translate)?;
    }
    // FULL: a commit is on the disk before anybody hears of it.
    let settings = "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;";
    handle.execute_batch(settings).map_err(missing)?;
    Ok(handle)
}

/// Brings a database up to date, once in the life of this process.
fn prepare(settings: &Settings, slot: &Slot) -> Result<(), Error> {
    if slot.is_prepared() {
        return Ok(());
    }
    let _one = lock(&slot.preparing);
    if slot.is_prepared() {
        return Ok(());
    }
    let generation = slot.generation();
    let handle = open_file(slot)?;
    use_write_ahead_log(&handle)?;
    migrate(Connection::of(handle)?, migrate::migrations_of(&settings.migrations, slot), &slot.name)?;
    slot.set_prepared(generation);
    Ok(())
}

/// A file made by the store has the write-ahead log from the start; one restored from a backup has not.
fn use_write_ahead_log(handle: &Handle) -> Result<(), Error> {
    let started = Instant::now();
    loop {
        let mode = handle.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
        match mode.map_err(translate) {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => return Err(Error::Unavailable(format!("journal mode {mode} instead of wal"))),
            // SQLite does not wait by itself when it would have to change the mode.
            Err(Error::Busy) if started.elapsed() < BUSY_TIMEOUT => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => return Err(error),
        }
    }
}

/// Runs the migrations that a database lacks, in one transaction, however many processes begin at once. Of a connection
/// that is closed without a commit, everything is rolled back.
fn migrate(connection: Connection, known: &[Migration], name: &str) -> Result<(), Error> {
    let version = |connection: &Connection| {
        let version = connection.handle.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0));
        migrate::lacking(name, version.map_err(translate)?, known.len())
    };
    if version(&connection)? == known.len() {
        return Ok(());
    }
    connection.control("BEGIN IMMEDIATE")?;
    let from = version(&connection)?;
    let mut conn = Conn::sqlite(connection);
    for migration in &known[from..] {
        let done = conn.as_sqlite().handle.execute_batch(&migrate::for_sqlite(migration.sql)).map_err(translate);
        let done = done.and_then(|()| migrate::then(migration, &mut conn));
        done.map_err(|error| migrate::failed(name, migration.name, error))?;
    }
    let connection = conn.as_sqlite();
    connection.handle.execute_batch(&format!("PRAGMA user_version = {}", known.len())).map_err(translate)?;
    connection.control("COMMIT")?;
    tracing::info!(database = name, from, to = known.len(), "migrated");
    Ok(())
}

/// SQLite's errors in the store's words.
pub(super) fn translate(error: rusqlite::Error) -> Error {
    let rusqlite::Error::SqliteFailure(code, message) = error else { return Error::Db(error.to_string()) };
    let message = message.unwrap_or_else(|| code.to_string());
    match code.code {
        ErrorCode::ConstraintViolation if code.extended_code == ffi::SQLITE_CONSTRAINT_FOREIGNKEY => Error::Referenced,
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Error::Busy,
        ErrorCode::DiskFull => Error::Full,
        ErrorCode::OperationInterrupted => Error::Slow,
        ErrorCode::SystemIoFailure
        | ErrorCode::CannotOpen
        | ErrorCode::FileLockingProtocolFailed
        | ErrorCode::PermissionDenied
        | ErrorCode::OutOfMemory => Error::Unavailable(message),
        _ => Error::Db(message),
    }
}
