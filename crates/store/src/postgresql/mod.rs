//! The engine PostgreSQL: one schema for each database, and a fixed number of threads with a connection each. Short
//! reads have connections of their own (`short_reads.rs`).
//!
//! A thread connects at its first task, and again after its connection was lost. An idle thread whose connection served
//! the same database last is preferred. After a change of the search path the server plans each statement again (488
//! instead of 256 microseconds).

mod client;
pub(crate) mod connection;
pub(crate) mod look_ahead;
mod pool;
mod schema;
mod settings;
mod short_reads;
pub(crate) mod types;
mod url;

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::conn::Conn;
use crate::error::StoreError;
use crate::migrate::{self, Migrations};
use crate::options::Options;
use crate::slot::Slot;
use crate::work::{NO_TIME_LIMIT, ScriptMode, ScriptWork, work};
use web::lock;

use client::PostgresClient;
use connection::UNSHOWN_WRITES;
use pool::{Pool, TaskKind};
use schema::{Create, prepare_schema};
use settings::PostgresSettings;
use short_reads::ShortReads;

/// Checks the URL of a database without a connection.
pub(crate) fn check(url: &str) -> Result<(), StoreError> {
    url::read(url).map(drop)
}

/// Connects to a database and disconnects.
pub(crate) fn check_connection(url: &str) -> Result<(), StoreError> {
    let (mut config, tls) = url::read(url)?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(settings::CONNECT_TIMEOUT);
    }
    PostgresClient::connect(&config, tls.as_ref()).map(drop)
}

/// The engine PostgreSQL.
pub(crate) struct PostgresEngine {
    migrations: Migrations,
    /// The time for which a task may wait and a script may run.
    pub time_limit: Duration,
    /// The time for which a caller waits for a running script, and the closing of the store for all scripts. The server
    /// should have stopped the script by then.
    pub patience: Duration,
    pool: Arc<Pool>,
    short_reads: Arc<ShortReads>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl PostgresEngine {
    pub async fn open(
        url: &str,
        migrations: Migrations,
        options: Options,
        control: Arc<Slot>,
    ) -> Result<PostgresEngine, StoreError> {
        let settings = Arc::new(PostgresSettings::new(url, migrations, &options)?);
        let count = if options.alone { 1 } else { options.postgres_connections.max(1) };
        let pool = Arc::new(Pool::new(count, options.time_limit));
        let mut threads = Vec::with_capacity(count);
        for at in 0..count {
            let (pool, settings) = (pool.clone(), settings.clone());
            let thread = std::thread::Builder::new().name(format!("postgres-{at}"));
            threads.push(thread.spawn(move || pool.serve(at, &settings))?);
        }
        let time_limit = options.time_limit;
        let patience = time_limit * 3 / 2;
        let short_reads = Arc::new(ShortReads::new(settings, patience));
        let threads = Mutex::new(threads);
        let postgres = PostgresEngine { migrations, time_limit, patience, pool, short_reads, threads };
        let slot = control.clone();
        let make = move |conn: &mut Conn| {
            prepare_schema(conn, &slot, migrations.control, Create::IfMissing)?;
            conn.as_postgres().control(UNSHOWN_WRITES)
        };
        postgres.schema(control, make).await?;
        Ok(postgres)
    }

    pub fn submit(&self, slot: &Arc<Slot>, mode: ScriptMode, work: ScriptWork) -> Result<(), StoreError> {
        self.pool.submit(slot, TaskKind::Script(mode), work)
    }

    /// Runs a short read without a thread. Returns the script if it must be submitted to a thread instead.
    pub async fn run_short_read(&self, slot: &Arc<Slot>, script: ScriptWork) -> Option<ScriptWork> {
        self.short_reads.run_short_read(slot, script).await
    }

    pub async fn create(&self, slot: Arc<Slot>) -> Result<(), StoreError> {
        let (new_slot, migrations) = (slot.clone(), migrate::migrations_of(&self.migrations, &slot));
        self.schema(slot, move |conn| prepare_schema(conn, &new_slot, migrations, Create::New)).await
    }

    pub async fn drop_database(&self, slot: Arc<Slot>) -> Result<(), StoreError> {
        let dropped = slot.clone();
        self.schema(slot, move |conn| conn.as_postgres().drop_schema(&dropped)).await
    }

    async fn schema(
        &self,
        slot: Arc<Slot>,
        run: impl Fn(&mut Conn) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), StoreError> {
        let (work, outcome) = work(run, Arc::default());
        self.pool.submit(&slot, TaskKind::Schema, work)?;
        outcome.wait_for(self.time_limit, NO_TIME_LIMIT).await
    }

    pub async fn close(&self) {
        self.short_reads.close();
        self.pool.close();
        let threads = std::mem::take(&mut *lock(&self.threads));
        let end = Instant::now() + self.patience;
        while !threads.iter().all(JoinHandle::is_finished) {
            if Instant::now() > end {
                tracing::warn!("PostgreSQL does not answer; it is not known whether the last writes were done");
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

impl Drop for PostgresEngine {
    /// Stops the threads when the queue is empty. Only `close` waits for that.
    fn drop(&mut self) {
        self.short_reads.close();
        self.pool.close();
    }
}
