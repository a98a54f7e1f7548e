//! PostgreSQL: one schema per database, on a fixed set of threads, each with a connection; short reads are asked on lines
//! of the callers' own (`short_reads.rs`).
//!
//! A thread's connection is made when its thread first has something to do, and again after it was lost. Work goes to an
//! idle thread whose connection served the same database last, where there is one: when the search path changes, the
//! server makes its plans anew (design: the store, 488 against 256 microseconds).

mod client;
mod connection;
mod pool;
mod short_reads;
mod types;

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::conn::Conn;
use crate::error::Error;
use crate::migrate;
use crate::work::{Slot, Work, lock, work};
use crate::{Migrations, Mode, Options};

use client::Client;
pub(crate) use connection::Connection;
use connection::{Create, plain, prepare_schema};
use pool::{Pool, TaskKind};
pub(crate) use short_reads::LookAhead;
use short_reads::ShortReads;
pub(crate) use types::{blob, int, text};

/// After a failed attempt to connect, others fail at once for this long, so that callers do not queue up.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// How long a task is taken for a short one, and how long one waits at most while somebody could see to it.
const SHORT_TASK: Duration = Duration::from_millis(10);

/// The server has the question, and does not answer it. A write may be done later, or not.
pub(crate) fn no_answer() -> Error {
    Error::Unavailable("PostgreSQL does not answer".to_owned())
}

/// What connections are made with.
struct Settings {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    migrations: Migrations,
    alone: bool,
    time_limit: Duration,
    /// Until when not to try to connect, and why.
    down: Mutex<Option<(Instant, Error)>>,
}

/// The engine.
pub(crate) struct Postgres {
    migrations: Migrations,
    /// How long a caller, or the end of the process, waits for a script; the server itself should have stopped it by then.
    pub patience: Duration,
    pool: Arc<Pool>,
    short_reads: Arc<ShortReads>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Postgres {
    pub async fn open(
        url: &str,
        migrations: Migrations,
        options: Options,
        control: Arc<Slot>,
    ) -> Result<Postgres, Error> {
        let settings = Arc::new(Settings::new(url, migrations, &options)?);
        let count = if options.alone { 1 } else { options.postgres_connections.max(1) };
        let pool = Arc::new(Pool::new(count, options.time_limit));
        let mut threads = Vec::with_capacity(count);
        for at in 0..count {
            let (pool, settings) = (pool.clone(), settings.clone());
            let thread = std::thread::Builder::new().name(format!("postgres-{at}"));
            threads.push(thread.spawn(move || pool.serve(at, &settings))?);
        }
        let patience = options.time_limit * 3 / 2;
        let short_reads = Arc::new(ShortReads::new(settings, patience));
        let postgres = Postgres { migrations, patience, pool, short_reads, threads: Mutex::new(threads) };
        let slot = control.clone();
        let make = move |conn: &mut Conn| prepare_schema(conn, &slot, migrations.control, Create::IfMissing);
        postgres.schema(control, make).await?;
        Ok(postgres)
    }

    pub fn submit(&self, slot: &Arc<Slot>, mode: Mode, work: Box<dyn Work>) -> Result<(), Error> {
        self.pool.submit(slot, TaskKind::Script(mode), work)
    }

    /// What a short read comes to; gives the script back where it is to be submitted.
    pub async fn ask<T, E, F>(&self, slot: &Arc<Slot>, script: F) -> Result<Result<T, E>, F>
    where
        F: Fn(&mut Conn) -> Result<T, E>,
        E: From<Error>,
    {
        self.short_reads.ask(slot, script).await
    }

    pub async fn create(&self, slot: Arc<Slot>) -> Result<(), Error> {
        let (made, migrations) = (slot.clone(), migrate::migrations_of(&self.migrations, &slot));
        self.schema(slot, move |conn| prepare_schema(conn, &made, migrations, Create::New)).await
    }

    pub async fn drop(&self, slot: Arc<Slot>) -> Result<(), Error> {
        let dropped = slot.clone();
        self.schema(slot, move |conn| conn.as_postgres().drop_schema(&dropped)).await
    }

    async fn schema(
        &self,
        slot: Arc<Slot>,
        run: impl Fn(&mut Conn) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let (work, outcome) = work(run);
        self.pool.submit(&slot, TaskKind::Schema, work)?;
        outcome.await.unwrap_or_else(|_| Err(Error::Unavailable("the work was given up".to_owned())))
    }

    pub async fn close(&self) {
        self.short_reads.close();
        self.pool.close();
        let threads = std::mem::take(&mut *lock(&self.threads));
        let end = Instant::now() + self.patience;
        while !threads.iter().all(JoinHandle::is_finished) {
            if Instant::now() > end {
                tracing::warn!("PostgreSQL does not answer; what it was asked last may be done or not");
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

impl Drop for Postgres {
    /// The threads end when the queue is empty; only `close` waits for that.
    fn drop(&mut self) {
        self.short_reads.close();
        self.pool.close();
    }
}

impl Settings {
    fn new(url: &str, migrations: Migrations, options: &Options) -> Result<Settings, Error> {
        // What libpq calls verify-full is what `require` does here: the certificate is always checked.
        let url = url.replace("sslmode=verify-full", "sslmode=require").replace("sslmode=verify-ca", "sslmode=require");
        let mut config: Config = url.parse().map_err(|error| Error::Db(format!("database URL: {}", plain(&error))))?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(3));
        }
        if config.get_tcp_user_timeout().is_none() {
            // A server that vanished without a word is noticed even while an answer is awaited.
            config.tcp_user_timeout(options.time_limit * 2);
        }
        config.keepalives_idle(Duration::from_secs(15));
        config.keepalives_interval(Duration::from_secs(5));
        config.keepalives_retries(3);
        if config.get_application_name().is_none() {
            config.application_name("chancery");
        }
        let tls = if config.get_ssl_mode() == SslMode::Require { Some(tls()?) } else { None };
        let (alone, time_limit) = (options.alone, options.time_limit);
        Ok(Settings { config, tls, migrations, alone, time_limit, down: Mutex::default() })
    }

    fn connect(&self) -> Result<Conn, Error> {
        if let Some((until, error)) = &*lock(&self.down)
            && Instant::now() < *until
        {
            return Err(error.clone());
        }
        let client = Client::connect(&self.config, self.tls.as_ref());
        match client.and_then(|client| Connection::new(client, self.time_limit, self.alone)) {
            Ok(connection) => {
                *lock(&self.down) = None;
                Ok(Conn::postgres(connection))
            }
            Err(error) => {
                tracing::warn!(%error, "no connection to PostgreSQL");
                *lock(&self.down) = Some((Instant::now() + RECONNECT_PAUSE, error.clone()));
                Err(error)
            }
        }
    }
}

/// Encryption that trusts the system's root certificates.
fn tls() -> Result<MakeRustlsConnect, Error> {
    let mut roots = rustls::RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err(Error::Unavailable(format!("no root certificates: {:?}", found.errors)));
    }
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Db(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
