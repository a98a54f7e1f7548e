//! One connection to an SQLite file: statements and their errors.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::{Null, Value, ValueRef};
use rusqlite::vtab::array::{self, Array};
use rusqlite::{CachedStatement, Connection as Handle, ErrorCode, StatementStatus, ffi};

use crate::error::StoreError;
use crate::row::{OnRow, QueryError, Row, RowSource};
use crate::sql::{Argument, BorrowedArgument, Insert, Sql, sqlite_text};
use crate::state_tag::{EngineTag, StateTag};
use crate::text_functions::{self, TextFunction};

/// The maximum number of prepared statements that a connection caches.
const MAX_STATEMENTS: usize = 64;
/// The cache of a writer, of 1 MiB, because a process can have many writers.
pub(super) const SMALL_CACHE: &str = "PRAGMA cache_size = -1024";
/// The cache of a writer with thousands of rows to write, of 16 MiB.
const LARGE_CACHE: &str = "PRAGMA cache_size = -16384";
/// The number of rows from which on the cache is enlarged.
const MIN_ROWS_FOR_LARGE_CACHE: usize = 500;
/// The number of instructions of SQLite's virtual machine between two checks of the deadline: well under a millisecond.
const INSTRUCTIONS_PER_CHECK: i32 = 10_000;
/// Checks all tables, and samples those with ten times more or fewer rows than at their last analysis.
const ANALYSE: &str = "PRAGMA optimize = 0x10012";
/// The number of committed groups of transactions between two analyses.
const TIDIED_PER_ANALYSIS: u32 = 1_000;
const NO_DEADLINE: u64 = u64::MAX;

/// A connection to one SQLite file.
pub(crate) struct SqliteConnection {
    pub(super) handle: Handle,
    /// Unique in this process.
    id: u64,
    /// Translated statements by their original text, because a cache hit costs less than a translation.
    texts: HashMap<String, String, RandomState>,
    opened: Instant,
    /// Nanoseconds after `opened` at which statements are stopped.
    deadline: Arc<AtomicU64>,
    /// Is true if the running script has changed anything.
    changed: bool,
    /// Is true if the cache is larger than usual.
    is_enlarged: bool,
    /// The number of groups of transactions that were committed since the last analysis.
    tidied: u32,
    /// The number of instructions of the virtual machine that queries took.
    pub(crate) instructions: u64,
}

impl SqliteConnection {
    pub(super) fn new(mut handle: Handle) -> Result<SqliteConnection, StoreError> {
        handle.set_prepared_statement_cache_capacity(MAX_STATEMENTS);
        let opened = Instant::now();
        let deadline = Arc::new(AtomicU64::new(NO_DEADLINE));
        let limit = deadline.clone();
        let too_late = move || nanoseconds(opened.elapsed()) > limit.load(Ordering::Relaxed);
        handle.progress_handler(INSTRUCTIONS_PER_CHECK, Some(too_late)).map_err(translate)?;
        let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
        handle.create_scalar_function("get_bit", 2, flags, get_bit).map_err(translate)?;
        array::load_module(&handle).map_err(translate)?;
        handle.create_aggregate_function("bit_or", 1, flags, BitOr).map_err(translate)?;
        for (name, function) in text_functions::ALL {
            let of_text = move |context: &Context<'_>| changed_text(context, function);
            handle.create_scalar_function(name, 1, flags, of_text).map_err(translate)?;
        }
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(SqliteConnection {
            handle,
            id,
            texts: HashMap::default(),
            opened,
            deadline,
            changed: false,
            is_enlarged: false,
            tidied: 0,
            instructions: 0,
        })
    }

    /// Prepares for one run of a script.
    pub fn start(&mut self, deadline: Instant) {
        self.changed = false;
        self.deadline.store(nanoseconds(deadline.saturating_duration_since(self.opened)), Ordering::Relaxed);
    }

    /// Ends one run of a script.
    pub fn finish(&self) {
        self.deadline.store(NO_DEADLINE, Ordering::Relaxed);
    }

    /// Enlarges the cache before many rows are written, so that each page is written only once in their transaction.
    pub fn expect_rows(&mut self, rows: usize) -> Result<(), StoreError> {
        if rows < MIN_ROWS_FOR_LARGE_CACHE || self.is_enlarged {
            return Ok(());
        }
        self.is_enlarged = true;
        self.control(LARGE_CACHE)
    }

    /// Makes the cache small again after transactions. After a large one, and after each thousand of others, the
    /// statistics of tables that have grown are renewed. Without them SQLite assumes that an index of five values is a
    /// good one.
    pub fn tidy(&mut self) {
        self.tidied += 1;
        if std::mem::take(&mut self.is_enlarged) {
            self.tidied = TIDIED_PER_ANALYSIS;
            if let Err(error) = self.control(SMALL_CACHE) {
                tracing::warn!(%error, "the cache was not made smaller");
            }
        }
        if self.tidied >= TIDIED_PER_ANALYSIS {
            self.tidied = 0;
            if let Err(error) = self.control(ANALYSE) {
                tracing::warn!(%error, "the statistics were not renewed");
            }
        }
    }

    /// Returns whether the last script has changed anything.
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// Runs a statement of the store itself, such as COMMIT.
    pub fn control(&self, sql: &str) -> Result<(), StoreError> {
        let result = self.handle.prepare_cached(sql).and_then(|mut statement| statement.raw_execute());
        result.map(|_| ()).map_err(translate)
    }

    /// Runs statements that define tables or indexes.
    pub fn define(&mut self, sql: &str) -> Result<(), StoreError> {
        self.changed = true;
        self.handle.execute_batch(sql).map_err(|error| self.explain(error))
    }

    /// Returns the indexes of a table that contain one of some columns.
    pub fn indexes_of(&self, table: &str, columns: &[&str]) -> Result<Vec<String>, StoreError> {
        let find = || {
            let mut indexes = self.handle.prepare(
                "SELECT list.name, info.name FROM pragma_index_list(?1) list, pragma_index_info(list.name) info",
            )?;
            let mut rows = indexes.query([table])?;
            let mut indexes = Vec::new();
            while let Some(row) = rows.next()? {
                let (index, column): (String, Option<String>) = (row.get(0)?, row.get(1)?);
                if column.is_some_and(|column| columns.contains(&column.as_str())) && !indexes.contains(&index) {
                    indexes.push(index);
                }
            }
            Ok(indexes)
        };
        find().map_err(translate)
    }

    /// Returns the state tag of the database. Call it outside transactions, on a connection that only reads, since its
    /// own commits are not counted.
    pub fn state_tag(&self) -> Result<StateTag, StoreError> {
        let version = self.handle.prepare_cached("PRAGMA data_version");
        let version = version.and_then(|mut statement| statement.query_row([], |row| row.get(0)));
        Ok(StateTag(EngineTag::Sqlite { connection: self.id, version: version.map_err(translate)? }))
    }

    /// Returns whether the connection is outside a transaction. Some errors, for example a full disk, roll back the
    /// whole transaction.
    pub fn is_autocommit(&self) -> bool {
        self.handle.is_autocommit()
    }

    /// Moves the content of the write-ahead log into the file, and empties the log.
    pub fn checkpoint(&self) {
        let result = self.handle.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        if let Err(error) = result {
            // The log remains, and is read when the file is opened again.
            tracing::warn!(%error, "no checkpoint at closing");
        }
    }

    pub fn exec(&mut self, sql: &Sql) -> Result<u64, StoreError> {
        let run = |handle: &Handle, statement: &mut CachedStatement<'_>| execute(handle, statement, bound(sql));
        self.run_with(sql, run).map_err(QueryError::into)
    }

    /// Runs one statement, which is prepared once, for each row of arguments. Calls `go_on` before each, and `on_executed`
    /// with the number of rows that it changed.
    pub fn exec_each<'a, R: AsRef<[BorrowedArgument<'a>]>>(
        &mut self,
        sql: &Sql,
        rows: impl Iterator<Item = R>,
        mut go_on: impl FnMut() -> Result<(), StoreError>,
        mut on_executed: impl FnMut(u64),
    ) -> Result<(), StoreError> {
        let run = |handle: &Handle, statement: &mut CachedStatement<'_>| {
            for row in rows {
                go_on().map_err(StatementError::Store)?;
                on_executed(execute(handle, statement, row.as_ref().iter().copied())?);
            }
            Ok(())
        };
        self.run_with(sql, run).map_err(QueryError::into)
    }

    /// Inserts rows by a statement that is prepared once, and calls `on_row` with each row that it returns.
    pub fn insert_rows(
        &mut self,
        insert: &Insert,
        rows: &[&[BorrowedArgument<'_>]],
        mut go_on: impl FnMut() -> Result<(), StoreError>,
        mut on_row: impl FnMut(&Row<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let run = |_: &Handle, statement: &mut CachedStatement<'_>| {
            for row in rows {
                go_on().map_err(StatementError::Store)?;
                bind(statement, row.iter().copied())?;
                each_row(statement, &mut |row| on_row(row).map(ControlFlow::Continue))?;
            }
            Ok(())
        };
        self.run_with(&insert.single_row(), run).map_err(QueryError::into)
    }

    pub fn query(&mut self, sql: &Sql, on_row: OnRow<'_>) -> Result<(), QueryError> {
        let mut instructions = 0;
        let outcome = self.run_with(sql, |_, statement| {
            bind(statement, bound(sql))?;
            let outcome = each_row(statement, on_row);
            instructions = statement.reset_status(StatementStatus::VmStep);
            outcome
        });
        self.instructions += u64::try_from(instructions).unwrap_or(0);
        outcome
    }

    fn run_with<T>(
        &mut self,
        sql: &Sql,
        run: impl FnOnce(&Handle, &mut CachedStatement<'_>) -> Result<T, StatementError>,
    ) -> Result<T, QueryError> {
        let is_kept = sql.is_kept();
        let translated_text;
        let text = match self.texts.get(sql.text()) {
            Some(text) => text,
            None if !is_kept => {
                translated_text = sqlite_text(sql.text());
                &translated_text
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
            let before = self.handle.total_changes();
            let outcome = run(&self.handle, &mut statement);
            // SQLite counts changed rows. Any other statement that is not read-only may have changed something.
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
            StatementError::Store(error) => QueryError::Refused(error),
            StatementError::Row(error) => QueryError::Row(error),
        })
    }

    fn explain(&self, error: rusqlite::Error) -> StoreError {
        if let rusqlite::Error::SqliteFailure(code, Some(message)) = &error {
            match code.extended_code {
                ffi::SQLITE_CONSTRAINT_UNIQUE => return StoreError::Unique(self.unique_index(message)),
                ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_ROWID => {
                    let table = columns_of(message).and_then(|columns| columns.split_once('.')).map_or("", |c| c.0);
                    return StoreError::Unique(format!("{table}_pkey"));
                }
                _ => {}
            }
        }
        translate(error)
    }

    /// Returns the name of the index in a message such as "UNIQUE constraint failed: users.build, users.name". For an
    /// index over expressions the message is "UNIQUE constraint failed: index 'name'".
    ///
    /// The columns are looked up each time, because such errors are rare and tables change at run time.
    fn unique_index(&self, message: &str) -> String {
        let Some(columns) = columns_of(message) else { return message.to_owned() };
        if let Some(name) = columns.strip_prefix("index '").and_then(|rest| rest.strip_suffix('\'')) {
            return name.to_owned();
        }
        self.find_index(columns).ok().flatten().unwrap_or_else(|| columns.to_owned())
    }

    fn find_index(&self, columns: &str) -> rusqlite::Result<Option<String>> {
        let mut table = "";
        let mut column_names = Vec::new();
        for column in columns.split(", ") {
            let Some((table_name, name)) = column.split_once('.') else { return Ok(None) };
            table = table_name;
            column_names.push(name);
        }
        let mut indexes =
            self.handle.prepare("SELECT name, origin FROM pragma_index_list(?1) WHERE \"unique\" ORDER BY seq")?;
        let mut parts = self.handle.prepare("SELECT name FROM pragma_index_info(?1) ORDER BY seqno")?;
        let mut rows = indexes.query([table])?;
        while let Some(row) = rows.next()? {
            let (name, origin): (String, String) = (row.get(0)?, row.get(1)?);
            let index_columns: Vec<Option<String>> =
                parts.query_map([&name], |row| row.get(0))?.collect::<Result<_, _>>()?;
            if index_columns.iter().map(Option::as_deref).eq(column_names.iter().copied().map(Some)) {
                // A constraint in the table's definition has no name in SQLite. It gets the name that PostgreSQL would
                // generate.
                return Ok(Some(if origin == "c" { name } else { format!("{table}_{}_key", column_names.join("_")) }));
            }
        }
        Ok(None)
    }

    /// Copies the database into a new file.
    pub fn copy_into(&self, target: &str) -> Result<(), StoreError> {
        self.handle.execute("VACUUM INTO ?1", [target]).map(|_| ()).map_err(translate)
    }
}

/// The reason for which a statement ended early.
enum StatementError {
    Engine(rusqlite::Error),
    /// The arguments do not fit, or the deadline has passed.
    Store(StoreError),
    Row(StoreError),
}

fn bind<'a>(
    statement: &mut CachedStatement<'_>,
    args: impl ExactSizeIterator<Item = BorrowedArgument<'a>>,
) -> Result<(), StatementError> {
    let expected = statement.parameter_count();
    if expected != args.len() {
        let text = format!("{} arguments for {expected} placeholders", args.len());
        return Err(StatementError::Store(StoreError::Db(text)));
    }
    for (at, arg) in (1..).zip(args) {
        let bound = match arg {
            BorrowedArgument::Null => statement.raw_bind_parameter(at, Null),
            BorrowedArgument::Int(number) => statement.raw_bind_parameter(at, number),
            BorrowedArgument::Text(text) => statement.raw_bind_parameter(at, text),
            BorrowedArgument::Blob(bytes) => statement.raw_bind_parameter(at, bytes),
            BorrowedArgument::Ints(numbers) => statement.raw_bind_parameter(at, int_array(numbers)),
        };
        bound.map_err(StatementError::Engine)?;
    }
    Ok(())
}

fn bound(sql: &Sql) -> impl ExactSizeIterator<Item = BorrowedArgument<'_>> {
    sql.args().iter().map(Argument::borrowed)
}

/// Runs a statement that returns no rows. Returns the number of rows that it changed.
fn execute<'a>(
    handle: &Handle,
    statement: &mut CachedStatement<'_>,
    args: impl ExactSizeIterator<Item = BorrowedArgument<'a>>,
) -> Result<u64, StatementError> {
    bind(statement, args)?;
    let before = handle.total_changes();
    statement.raw_execute().map_err(StatementError::Engine)?;
    // After a statement without changes, `changes` still returns the number of the previous one.
    Ok(if handle.total_changes() != before { handle.changes() } else { 0 })
}

/// Runs a statement, and calls a function for each row that it returns, until the function breaks or fails.
fn each_row(statement: &mut CachedStatement<'_>, on_row: OnRow<'_>) -> Result<(), StatementError> {
    let changes = !statement.readonly();
    let mut outcome = Ok(ControlFlow::Continue(()));
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(StatementError::Engine)? {
        if outcome == Ok(ControlFlow::Continue(())) {
            outcome = on_row(&Row(RowSource::Sqlite(row)));
        }
        // A statement that changes something must run to its end, because SQLite may check constraints there.
        if outcome != Ok(ControlFlow::Continue(())) && !changes {
            break;
        }
    }
    outcome.map(drop).map_err(StatementError::Row)
}

/// Integers as the argument of `rarray`. The statement holds them until its next use.
fn int_array(numbers: &[i64]) -> Array {
    Rc::new(numbers.iter().copied().map(Value::Integer).collect())
}

/// The function `get_bit` of PostgreSQL: bit `n` of a blob is bit `n % 8` of byte `n / 8`, the least significant first.
/// Beyond the end it returns 0, where PostgreSQL returns an error.
fn get_bit(context: &Context<'_>) -> rusqlite::Result<Option<i64>> {
    let (blob, n) = (context.get_raw(0), context.get_raw(1));
    if blob == ValueRef::Null || n == ValueRef::Null {
        return Ok(None);
    }
    let (bytes, n) = (blob.as_blob()?, n.as_i64()?);
    let byte = usize::try_from(n / 8).ok().filter(|_| n >= 0).and_then(|at| bytes.get(at));
    Ok(Some(byte.map_or(0, |byte| i64::from(byte >> (n % 8) & 1))))
}

/// Applies a function to a text. Returns NULL for NULL.
fn changed_text(context: &Context<'_>, function: TextFunction) -> rusqlite::Result<Option<String>> {
    let text = context.get_raw(0);
    if text == ValueRef::Null { Ok(None) } else { Ok(Some(function(text.as_str()?).into_owned())) }
}

/// The aggregate `bit_or` of PostgreSQL. Returns NULL if the input has no numbers.
struct BitOr;

impl Aggregate<Option<i64>, Option<i64>> for BitOr {
    fn init(&self, _: &mut Context<'_>) -> rusqlite::Result<Option<i64>> {
        Ok(None)
    }
    fn step(&self, context: &mut Context<'_>, bits: &mut Option<i64>) -> rusqlite::Result<()> {
        if let Some(more) = context.get::<Option<i64>>(0)? {
            *bits = Some(bits.unwrap_or(0) | more);
        }
        Ok(())
    }
    fn finalize(&self, _: &mut Context<'_>, bits: Option<Option<i64>>) -> rusqlite::Result<Option<i64>> {
        Ok(bits.flatten())
    }
}

fn columns_of(message: &str) -> Option<&str> {
    message.split_once("constraint failed: ").map(|(_, columns)| columns)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NO_DEADLINE)
}

/// Returns whether a message reports a missing table or column, because SQLite has no code for that.
fn is_schema_changed(message: &str) -> bool {
    ["no such column: ", "no such table: "].iter().any(|start| message.starts_with(start))
        || message.starts_with("table ") && message.contains(" has no column named ")
}

/// Translates an error of SQLite.
pub(super) fn translate(error: rusqlite::Error) -> StoreError {
    let (code, message) = match error {
        rusqlite::Error::SqliteFailure(code, message) => (code, message.unwrap_or_else(|| code.to_string())),
        // The text of this error contains the statement, too.
        rusqlite::Error::SqlInputError { error: code, .. } => (code, error.to_string()),
        _ => return StoreError::Db(error.to_string()),
    };
    match code.code {
        ErrorCode::Unknown if is_schema_changed(&message) => StoreError::SchemaChanged(message),
        ErrorCode::ConstraintViolation if code.extended_code == ffi::SQLITE_CONSTRAINT_FOREIGNKEY => {
            StoreError::Referenced
        }
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::Busy,
        ErrorCode::DiskFull => StoreError::Full,
        ErrorCode::OperationInterrupted => StoreError::Slow,
        ErrorCode::SystemIoFailure
        | ErrorCode::CannotOpen
        | ErrorCode::FileLockingProtocolFailed
        | ErrorCode::PermissionDenied
        | ErrorCode::OutOfMemory => StoreError::Unavailable(message),
        _ => StoreError::Db(message),
    }
}
