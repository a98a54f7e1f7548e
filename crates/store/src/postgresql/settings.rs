//! The settings with which connections to PostgreSQL are opened.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio_postgres::Config;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::client::PostgresClient;
use super::connection::PostgresConnection;
use super::url;
use crate::conn::Conn;
use crate::error::StoreError;
use crate::migrate::Migrations;
use crate::options::Options;
use web::lock;

/// The pause after a failed attempt to connect. Other attempts fail immediately during it, so that callers do not queue up.
pub(super) const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// The maximum duration of a short task. A task also waits for this time while threads are idle.
pub(super) const SHORT_TASK: Duration = Duration::from_millis(10);

/// The time limit of a connection without `connect_timeout` in the URL.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The settings of all connections.
pub(super) struct PostgresSettings {
    pub config: Config,
    pub tls: Option<MakeRustlsConnect>,
    pub migrations: Migrations,
    alone: bool,
    pub time_limit: Duration,
    /// The end of the pause between attempts to connect, and the error that caused it.
    down: Mutex<Option<(Instant, StoreError)>>,
}

impl PostgresSettings {
    pub fn new(url: &str, migrations: Migrations, options: &Options) -> Result<PostgresSettings, StoreError> {
        let (mut config, tls) = url::read(url)?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            // A server that vanished is detected even while an answer is awaited.
            config.tcp_user_timeout(options.time_limit * 2);
        }
        config.keepalives_idle(Duration::from_secs(15));
        config.keepalives_interval(Duration::from_secs(5));
        config.keepalives_retries(3);
        if config.get_application_name().is_none() {
            config.application_name("chancery");
        }
        let (alone, time_limit) = (options.alone, options.time_limit);
        Ok(PostgresSettings { config, tls, migrations, alone, time_limit, down: Mutex::default() })
    }

    pub fn connect(&self) -> Result<Conn, StoreError> {
        if let Some((retry_at, error)) = &*lock(&self.down)
            && Instant::now() < *retry_at
        {
            return Err(error.clone());
        }
        let client = PostgresClient::connect(&self.config, self.tls.as_ref());
        match client.and_then(|client| PostgresConnection::new(client, self.time_limit, self.alone)) {
            Ok(connection) => {
                *lock(&self.down) = None;
                Ok(Conn::postgres(connection))
            }
            Err(error) => {
                tracing::warn!(%error, "PostgreSQL cannot be reached");
                *lock(&self.down) = Some((Instant::now() + RECONNECT_PAUSE, error.clone()));
                Err(error)
            }
        }
    }
}
