//! Opening a database file, and running its migrations.

use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection as Handle, OpenFlags};

use super::connection::{SMALL_CACHE, SqliteConnection, translate};
use super::settings::SqliteSettings;
use crate::conn::Conn;
use crate::error::StoreError;
use crate::migrate::{self, DroppedReference, Migration};
use crate::slot::Slot;
use web::lock;

/// The purpose of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionPurpose {
    Read,
    Write,
}

/// The maximum wait for other processes that write to the same file, such as the command line.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens a database whose file exists. Runs the migrations that it lacks if this process has not yet done so.
pub(super) fn open(
    settings: &SqliteSettings,
    slot: &Slot,
    purpose: ConnectionPurpose,
) -> Result<SqliteConnection, StoreError> {
    prepare(settings, slot)?;
    let connection = SqliteConnection::new(open_file(slot)?)?;
    let pragmas = match purpose {
        ConnectionPurpose::Read => "PRAGMA query_only = ON; PRAGMA cache_size = -512".to_owned(),
        ConnectionPurpose::Write => {
            let limit = settings.options.page_limit.map(|pages| format!("; PRAGMA max_page_count = {pages}"));
            format!("{SMALL_CACHE}; PRAGMA journal_size_limit = 4194304{}", limit.unwrap_or_default())
        }
    };
    connection.handle.execute_batch(&pragmas).map_err(translate)?;
    Ok(connection)
}

/// Opens a file that exists, with the settings that every connection needs.
fn open_file(slot: &Slot) -> Result<Handle, StoreError> {
    // Without CREATE a database without a file is missing, not empty.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let missing = |error| {
        let error = translate(error);
        if slot.file.exists() { error } else { StoreError::Missing }
    };
    let handle = Handle::open_with_flags(&slot.file, flags).map_err(missing)?;
    handle.busy_timeout(BUSY_TIMEOUT).map_err(translate)?;
    for (setting, on) in [
        // SQLite would otherwise prepare a query with joins again at each bind.
        (DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true),
        // "Double quotes" are names, as in PostgreSQL, never strings.
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
    ] {
        handle.set_db_config(setting, on).map_err(translate)?;
    }
    // FULL: a commit is on the disk before the caller gets its outcome.
    let settings = "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;";
    handle.execute_batch(settings).map_err(missing)?;
    Ok(handle)
}

/// Runs the migrations that a database lacks, once per process.
fn prepare(settings: &SqliteSettings, slot: &Slot) -> Result<(), StoreError> {
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
    migrate(SqliteConnection::new(handle)?, migrate::migrations_of(&settings.migrations, slot), &slot.name)?;
    slot.set_prepared(generation);
    Ok(())
}

/// Switches a file to the write-ahead log. Files that the store created use it from the start; restored backups do not.
fn use_write_ahead_log(handle: &Handle) -> Result<(), StoreError> {
    let started = Instant::now();
    loop {
        let mode = handle.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
        match mode.map_err(translate) {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => return Err(StoreError::Unavailable(format!("journal mode {mode} instead of wal"))),
            // SQLite's own busy timeout does not apply to a change of the mode.
            Err(StoreError::Busy) if started.elapsed() < BUSY_TIMEOUT => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => return Err(error),
        }
    }
}

/// Runs the migrations that a database lacks, in one transaction, so that several processes may begin at once. After an
/// error the connection is closed, which rolls back everything.
fn migrate(connection: SqliteConnection, migrations: &[Migration], name: &str) -> Result<(), StoreError> {
    let version = |connection: &SqliteConnection| {
        let version = connection.handle.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0));
        migrate::first_missing(name, version.map_err(translate)?, migrations.len())
    };
    if version(&connection)? == migrations.len() {
        return Ok(());
    }
    connection.control("BEGIN IMMEDIATE")?;
    let from = version(&connection)?;
    let mut conn = Conn::sqlite(connection);
    for migration in &migrations[from..] {
        let result = conn.as_sqlite().handle.execute_batch(&migrate::for_sqlite(migration.sql)).map_err(translate);
        let result = result.and_then(|()| drop_references(&conn.as_sqlite().handle, migration.dropped_references));
        let result = result.and_then(|()| migrate::run_step(migration, &mut conn));
        result.map_err(|error| migrate::migration_error(name, migration.name, error))?;
    }
    let connection = conn.as_sqlite();
    connection.handle.execute_batch(&format!("PRAGMA user_version = {}", migrations.len())).map_err(translate)?;
    connection.control("COMMIT")?;
    tracing::info!(database = name, from, to = migrations.len(), "migrated");
    Ok(())
}

/// Drops foreign keys. SQLite has no statement for that, so their text is removed from the declarations of the tables, as its
/// documentation recommends for changes that do not concern stored rows.
fn drop_references(handle: &Handle, dropped: &[DroppedReference]) -> Result<(), StoreError> {
    if dropped.is_empty() {
        return Ok(());
    }
    let schema_version =
        handle.query_row("PRAGMA schema_version", [], |row| row.get::<_, i64>(0)).map_err(translate)?;
    handle.execute_batch("PRAGMA writable_schema = ON").map_err(translate)?;
    for DroppedReference { table, column, referenced } in dropped {
        let declared = format!("{column} BIGINT REFERENCES {referenced}(id)");
        let update = "UPDATE sqlite_schema SET sql = replace(sql, ?1, ?2) \
             WHERE type = 'table' AND name = ?3 AND instr(sql, ?1) > 0";
        let changed = handle.execute(update, (&declared, format!("{column} BIGINT"), table)).map_err(translate)?;
        if changed != 1 {
            return Err(StoreError::Db(format!("table {table} does not declare {declared}")));
        }
    }
    // The raised version makes every connection read the declarations again.
    let apply = format!("PRAGMA schema_version = {}; PRAGMA writable_schema = RESET", schema_version + 1);
    handle.execute_batch(&apply).map_err(translate)
}
