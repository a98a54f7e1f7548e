//! How connections to PostgreSQL are made.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::client::{Client, plain};
use super::connection::Connection;
use crate::conn::Conn;
use crate::error::Error;
use crate::migrate::Migrations;
use crate::options::Options;
use crate::slot::lock;

/// For how long after a failed attempt to connect others fail at once, so that callers do not queue up.
pub(super) const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// How long a task counts as short, and how long one waits while there are idle threads.
pub(super) const SHORT_TASK: Duration = Duration::from_millis(10);

/// The settings of all connections.
pub(super) struct Settings {
    pub config: Config,
    pub tls: Option<MakeRustlsConnect>,
    pub migrations: Migrations,
    alone: bool,
    pub time_limit: Duration,
    /// Until when not to try to connect, and the error why.
    down: Mutex<Option<(Instant, Error)>>,
}

impl Settings {
    pub fn new(url: &str, migrations: Migrations, options: &Options) -> Result<Settings, Error> {
        // With this driver `require` does what libpq calls verify-full: the certificate is always checked.
        let url = url.replace("sslmode=verify-full", "sslmode=require").replace("sslmode=verify-ca", "sslmode=require");
        let mut config: Config = url.parse().map_err(|error| Error::Db(format!("database URL: {}", plain(&error))))?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(3));
        }
        if config.get_tcp_user_timeout().is_none() {
            // So that a server that vanished is noticed even while an answer is awaited.
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

    pub fn connect(&self) -> Result<Conn, Error> {
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
                tracing::warn!(%error, "PostgreSQL cannot be reached");
                *lock(&self.down) = Some((Instant::now() + RECONNECT_PAUSE, error.clone()));
                Err(error)
            }
        }
    }
}

/// TLS that trusts the system's root certificates.
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
