//! Stores data: the databases (SQLite or PostgreSQL, migrations, transactions), and files ([`blobs`]).
//!
//! Each build has a database of its own: one SQLite file, or one PostgreSQL schema. Queries do not need a column for the
//! build, because a connection reaches one database only. A [`Database`] is the only way to a connection. Other crates
//! do not name an engine: callers write one portable SQL text, and get one set of errors.
//!
//! Callers pass *scripts*: synchronous closures that run on database threads. A script can be run again after a
//! deadlock, and it cannot block a database thread by awaiting something else. A write is completed even if its caller
//! disconnects. The caller chooses the error type, so that a refusal (for example a 400) can leave the script and roll it
//! back.

pub mod blobs;
mod catalog;
mod conn;
mod error;
mod migrate;
mod options;
mod postgresql;
mod row;
mod schema;
mod slot;
mod sql;
mod sqlite;
mod state_tag;
mod task_queue;
mod text_functions;
mod text_search;
mod work;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub use catalog::{ColumnInfo, StoredKind, TableInfo};
pub use conn::Conn;
pub use error::StoreError;
pub use migrate::{DroppedReference, Migration, MigrationStep, Migrations};
pub use options::{Options, StoreEngine};
pub use row::Row;
pub use schema::{ColumnKind, Index, IndexKind, TableColumn, TableLock};
pub use sql::{Argument, BorrowedArgument, Sql};
pub use sqlite::make_directory;
pub use state_tag::StateTag;
pub use text_search::{SearchWord, Words, each_word, search_words};
pub use work::StoreCounts;

use slot::Slot;
use web::lock;
use work::{NO_TIME_LIMIT, ScriptMode, work};

/// The time for which [`Database::alter`] retries.
const MAX_ALTER_TIME: Duration = Duration::from_secs(10);
/// The pause between two attempts, so that transactions that waited behind the change get their turn.
const ALTER_PAUSE: Duration = Duration::from_millis(100);

/// All databases of a deployment. Cheap to clone.
#[derive(Clone)]
pub struct Store(Arc<StoreState>);

struct StoreState {
    slots: Mutex<HashMap<String, Arc<Slot>>>,
    control: Arc<Slot>,
    backend: Backend,
    counts: Arc<StoreCounts>,
}

enum Backend {
    Sqlite(sqlite::SqliteEngine),
    Postgres(postgresql::PostgresEngine),
}

/// Returns the name of the control database: the stem of its file, or its schema.
fn control_name(engine: &StoreEngine) -> &'static str {
    match engine {
        StoreEngine::Sqlite { .. } => "control",
        StoreEngine::Postgres { .. } => "chancery",
    }
}

impl StoreEngine {
    /// Checks the address of the engine without a connection.
    ///
    /// # Errors
    /// [`StoreError::Url`], which contains neither the user nor the password.
    pub fn check(&self) -> Result<(), StoreError> {
        match self {
            StoreEngine::Sqlite { .. } => Ok(()),
            StoreEngine::Postgres { url } => postgresql::check(url),
        }
    }

    /// Connects to the engine, signs in and disconnects. Blocks for at most the time limit of a connection. Changes nothing.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn check_connection(&self) -> Result<(), StoreError> {
        match self {
            StoreEngine::Sqlite { .. } => Ok(()),
            StoreEngine::Postgres { url } => postgresql::check_connection(url),
        }
    }
}

impl Store {
    /// Opens the store. Creates the control database if it does not exist, and runs the migrations that it lacks.
    ///
    /// # Errors
    /// - [`StoreError::Unavailable`] if the directory or the server cannot be used;
    /// - [`StoreError::InUse`] if another process has the databases open and one of the two requires exclusive access
    ///   ([`Options::alone`]);
    /// - [`StoreError::Db`] if a migration fails, or if a later version wrote the control database.
    pub async fn open(engine: StoreEngine, migrations: Migrations, options: Options) -> Result<Store, StoreError> {
        let name = control_name(&engine).to_owned();
        match engine {
            StoreEngine::Sqlite { directory } => {
                let control = Arc::new(Slot::new(name, directory.join("control.db"), true));
                let backend = sqlite::SqliteEngine::open(directory, migrations, options, control.clone()).await?;
                Ok(Store::new(control, Backend::Sqlite(backend)))
            }
            StoreEngine::Postgres { url } => {
                let control = Arc::new(Slot::new(name, PathBuf::new(), true));
                let backend = postgresql::PostgresEngine::open(&url, migrations, options, control.clone()).await?;
                Ok(Store::new(control, Backend::Postgres(backend)))
            }
        }
    }

    fn new(control: Arc<Slot>, backend: Backend) -> Store {
        Store(Arc::new(StoreState { slots: Mutex::default(), control, backend, counts: Arc::default() }))
    }

    /// The control database, which lists the builds, their domains and limits.
    pub fn control(&self) -> Database {
        Database { slot: self.0.control.clone(), store: self.0.clone() }
    }

    /// Returns the database of a build. Its first use opens it and runs the migrations that it lacks.
    ///
    /// # Panics
    /// Unless the name is `[a-z][a-z0-9_]*` with at most 63 bytes and not reserved (`chancery`, `public`,
    /// `information_schema`, `pg_…`). The program chooses such names, never a user.
    pub fn database(&self, name: &str) -> Database {
        Database { slot: self.slot(name), store: self.0.clone() }
    }

    fn slot(&self, name: &str) -> Arc<Slot> {
        let mut slots = lock(&self.0.slots);
        if let Some(slot) = slots.get(name) {
            return slot.clone();
        }
        assert!(is_database_name(name), "not a database name: {name:?}");
        let file = match &self.0.backend {
            Backend::Sqlite(sqlite) => sqlite.file(name),
            Backend::Postgres(_) => PathBuf::new(),
        };
        let slot = Arc::new(Slot::new(name.to_owned(), file, false));
        slots.insert(name.to_owned(), slot.clone());
        slot
    }

    /// Creates the database of a build, durably and with all migrations.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if it exists.
    ///
    /// # Panics
    /// As [`Store::database`].
    pub async fn create(&self, name: &str) -> Result<(), StoreError> {
        let slot = self.slot(name);
        match &self.0.backend {
            Backend::Sqlite(sqlite) => sqlite.create(slot).await,
            Backend::Postgres(postgres) => postgres.create(slot).await,
        }
    }

    /// Removes the database of a build with all its content. Succeeds if the database does not exist, so an interrupted
    /// removal can be repeated.
    ///
    /// # Panics
    /// As [`Store::database`].
    pub async fn drop_database(&self, name: &str) -> Result<(), StoreError> {
        let slot = self.slot(name);
        match &self.0.backend {
            Backend::Sqlite(sqlite) => sqlite.drop_database(slot).await,
            Backend::Postgres(postgres) => postgres.drop_database(slot).await,
        }
    }

    /// Checks that the control database answers within two seconds.
    pub async fn ready(&self) -> Result<(), StoreError> {
        let sql = match &self.0.backend {
            Backend::Sqlite(_) => "SELECT COUNT(*) FROM sqlite_schema",
            Backend::Postgres(_) => "SELECT COUNT(*) FROM schema_version",
        };
        let control = self.control();
        let answer =
            control.run(ScriptMode::Read, move |conn: &mut Conn| conn.query_one(&Sql::new(sql), |row| row.int(0)));
        match tokio::time::timeout(Duration::from_secs(2), answer).await {
            Ok(answer) => answer.map(|_| ()),
            Err(_) => Err(StoreError::Unavailable("no answer within 2 s".to_owned())),
        }
    }

    /// Writes a copy of a database (`None`: the control database) to a new file during other work. The file
    /// appears only when it is complete and synced to the disk.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if the target exists; [`StoreError::Db`] on PostgreSQL, which has its own tools for this.
    pub async fn backup(&self, name: Option<&str>, target: PathBuf) -> Result<(), StoreError> {
        let slot = name.map_or_else(|| self.0.control.clone(), |name| self.slot(name));
        match &self.0.backend {
            Backend::Sqlite(sqlite) => sqlite.backup(slot, target).await,
            Backend::Postgres(_) => Err(StoreError::Db("use pg_dump to back up a PostgreSQL database".to_owned())),
        }
    }

    /// The scripts that wait, run and failed, for metrics.
    pub fn counts(&self) -> &StoreCounts {
        &self.0.counts
    }

    /// Returns whether the engine is embedded (SQLite).
    pub fn is_embedded(&self) -> bool {
        matches!(self.0.backend, Backend::Sqlite(_))
    }

    /// Closes the store: refuses new work, waits for accepted work, and closes the connections. It may be called more
    /// than once.
    pub async fn close(&self) {
        match &self.0.backend {
            Backend::Sqlite(sqlite) => {
                sqlite.close().await;
                // Other threads have connections for short reads. They drop them at their next use.
                self.0.control.renew();
                lock(&self.0.slots).values().for_each(|slot| slot.renew());
            }
            Backend::Postgres(postgres) => postgres.close().await,
        }
    }
}

fn is_database_name(name: &str) -> bool {
    // PostgreSQL truncates names that are longer than 63 bytes.
    name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !name.starts_with("pg_")
        && !["chancery", "public", "information_schema"].contains(&name)
}

/// A handle of one database. It owns no connection and is cheap to clone.
#[derive(Clone)]
pub struct Database {
    slot: Arc<Slot>,
    store: Arc<StoreState>,
}

impl Database {
    /// The name, e.g. `build_1`.
    pub fn name(&self) -> &str {
        &self.slot.name
    }

    /// Runs a script that only reads. All its statements see the same snapshot.
    ///
    /// # Errors
    /// The error of the script, or an error of the store (see [`StoreError`]). After a lost connection to PostgreSQL the
    /// script is run again on a new connection, once or twice.
    pub async fn read<T, E>(&self, script: impl Fn(&mut Conn) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.run(ScriptMode::Read, script).await
    }

    /// Runs a read that is short enough for the caller's own thread. Its statements may see different snapshots.
    ///
    /// On SQLite it runs immediately, without a transaction. On PostgreSQL a script with up to three statements is run once
    /// more for each of them. The first runs record the statements, the last one reads the rows. A script with more
    /// statements runs as in [`Database::read`], but without a transaction.
    pub async fn read_short<T, E>(&self, script: impl Fn(&mut Conn) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        match &self.store.backend {
            // The first use may have to run migrations, which take too long for the caller's thread.
            Backend::Sqlite(sqlite) if self.slot.is_prepared() => {
                // A task with short reads alone would never yield to other tasks.
                tokio::task::coop::consume_budget().await;
                sqlite.read_short(&self.slot, &script)
            }
            Backend::Sqlite(_) => self.run(ScriptMode::ShortRead, script).await,
            Backend::Postgres(postgres) => {
                let (work, outcome) = work(script, self.store.counts.clone());
                if let Some(work) = postgres.run_short_read(&self.slot, work).await {
                    postgres.submit(&self.slot, ScriptMode::ShortRead, work)?;
                }
                outcome.wait_for(postgres.time_limit, postgres.patience).await
            }
        }
    }

    /// Returns a tag of the present state of the database, for the detection of later changes; `None` if the engine
    /// cannot compute it. It costs one short statement.
    ///
    /// # Errors
    /// As [`Database::read_short`].
    pub async fn state_tag(&self) -> Result<Option<StateTag>, StoreError> {
        self.read_short(|conn: &mut Conn| conn.state_tag()).await
    }

    /// The number of writes in this process that have ended and that change the state tag of this database. A
    /// comparison of this number is free and often saves the query for the tag.
    pub fn writes(&self) -> u64 {
        self.count_of_writes().load(Ordering::Relaxed)
    }

    fn count_of_writes(&self) -> &AtomicU64 {
        match &self.store.backend {
            Backend::Sqlite(_) => &self.slot.writes,
            // On PostgreSQL any write changes the state tags of all databases.
            Backend::Postgres(_) => &self.store.control.writes,
        }
    }

    /// Runs a script in one transaction, and returns after it is committed durably.
    ///
    /// A script that returns `Err` or panics is rolled back. Once the future has been polled, the script is completed even
    /// if the future is dropped. It may be run more than once, so it must have no effects outside the database.
    ///
    /// # Errors
    /// The error of the script, or an error of the store (see [`StoreError`]).
    pub async fn write<T, E>(&self, script: impl Fn(&mut Conn) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let outcome = self.run(ScriptMode::Write, script).await;
        self.count_of_writes().fetch_add(1, Ordering::Relaxed);
        outcome
    }

    /// Runs a script as [`Database::write`] does. Use it for rows that are not part of anything that is cached by a
    /// state tag. On PostgreSQL the tag covers the whole server; it does not change, unless others write at the same
    /// time. On SQLite only the tag of this database changes.
    ///
    /// # Errors
    /// As [`Database::write`].
    pub async fn write_unshown<T, E>(&self, script: impl Fn(&mut Conn) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        if matches!(self.store.backend, Backend::Sqlite(_)) {
            return self.write(script).await;
        }
        let script = move |conn: &mut Conn| {
            let outcome = script(conn)?;
            conn.keep_state_tags()?;
            Ok(outcome)
        };
        self.run(ScriptMode::Write, script).await
    }

    /// Runs a script that changes tables, in one transaction as [`Database::write`] does.
    ///
    /// On PostgreSQL such a change waits for the transactions that use the table, and all later ones wait behind it. So
    /// the wait is limited to two seconds. After a pause the whole script is run again; it fails after ten seconds. If
    /// the future is dropped, it is not run again.
    ///
    /// # Errors
    /// As [`Database::write`]; [`StoreError::Busy`] if the table was in use all the time.
    pub async fn alter<T, E>(&self, script: impl Fn(&mut Conn) -> Result<T, E> + Send + Sync + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (script, has_missed) = (Arc::new(script), Arc::new(AtomicBool::new(false)));
        let started = Instant::now();
        loop {
            let (script, missed) = (script.clone(), has_missed.clone());
            let outcome = self.write(move |conn: &mut Conn| {
                conn.limit_lock_time()?;
                let outcome = script(conn);
                missed.store(conn.has_missed_lock(), Ordering::Relaxed);
                outcome
            });
            match outcome.await {
                Err(_) if has_missed.swap(false, Ordering::Relaxed) => {
                    if started.elapsed() >= MAX_ALTER_TIME {
                        return Err(E::from(StoreError::Busy));
                    }
                    tokio::time::sleep(ALTER_PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Runs a script outside any transaction and without a time limit, for statements that require this, such as
    /// `CREATE INDEX CONCURRENTLY` of PostgreSQL.
    ///
    /// Each statement is committed separately, and remains if a later one fails. The store never runs the script again,
    /// and completes it even if the future is dropped. On SQLite all other writes to the database wait until it ends,
    /// and so do writes to the databases that share its thread.
    ///
    /// # Errors
    /// The error of the script, or an error of the store (see [`StoreError`]).
    pub async fn run_outside_transaction<T, E>(
        &self,
        script: impl Fn(&mut Conn) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let outcome = self.run(ScriptMode::Outside, script).await;
        self.count_of_writes().fetch_add(1, Ordering::Relaxed);
        outcome
    }

    async fn run<T, E>(
        &self,
        mode: ScriptMode,
        script: impl Fn(&mut Conn) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (work, outcome) = work(script, self.store.counts.clone());
        let (turn, patience) = match &self.store.backend {
            Backend::Sqlite(sqlite) => {
                sqlite.submit(&self.slot, mode, work)?;
                let is_read = matches!(mode, ScriptMode::Read | ScriptMode::ShortRead);
                (if is_read { sqlite.time_limit() } else { NO_TIME_LIMIT }, NO_TIME_LIMIT)
            }
            Backend::Postgres(postgres) => {
                postgres.submit(&self.slot, mode, work)?;
                // A server that hangs blocks its connections; it must not block the callers, too.
                (postgres.time_limit, if mode == ScriptMode::Outside { NO_TIME_LIMIT } else { postgres.patience })
            }
        };
        outcome.wait_for(turn, patience).await
    }
}
