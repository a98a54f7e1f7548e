//! The history service, run inside the test's own process.

use crate::clickhouse::ClickHouseServer;
use crate::client::ApiClient;
use crate::s3::S3Server;
use crate::server::NOW;
use history::engine::HistoryEngine;
use history::files::Files;
use history::service::{HistoryService, HistorySettings};
use history::sqlite::HistorySqlite;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;
use tokio::net::TcpListener;
use web::clock::Clock;
use web::listener::{self, Limits};

/// The `X-API-Key` of history services in tests.
pub const HISTORY_KEY: &str = "a-history-key-for-tests";

/// The URL of a ClickHouse server with a new registry, if `CHANCERY_TEST_HISTORY` is `clickhouse`. `None` if tests of
/// the history service use the embedded engine.
pub fn history_database_url() -> Option<String> {
    static REGISTRIES: AtomicU32 = AtomicU32::new(1);
    let is_wanted = std::env::var("CHANCERY_TEST_HISTORY").is_ok_and(|engine| engine == "clickhouse");
    let registry = || format!("{}/registry_{}", ClickHouseServer::start(), REGISTRIES.fetch_add(1, Ordering::Relaxed));
    is_wanted.then(registry)
}

/// A running history service. Its clock stands still until a test advances it, and its data is deleted when it is
/// dropped.
pub struct HistoryServer {
    /// The service.
    pub service: Arc<HistoryService>,
    /// The address of its listener.
    pub address: SocketAddr,
    /// Its clock.
    pub clock: Clock,
    data: TempDir,
}

impl HistoryServer {
    /// Starts a history service on a free port, with files in its data directory.
    pub async fn start() -> HistoryServer {
        HistoryServer::with_files(None).await
    }

    /// Starts a history service on a free port, with files in a bucket or, without one, in its data directory.
    pub async fn with_files(s3: Option<&S3Server>) -> HistoryServer {
        let data = tempfile::tempdir().expect("a temporary directory can be made");
        let clock = Clock::fixed(NOW);
        let engine = match history_database_url() {
            Some(url) => history::clickhouse::ClickHouseEngine::open(&url).map(HistoryEngine::ClickHouse),
            None => HistorySqlite::open(data.path().join("history"), clock.clone()).await.map(HistoryEngine::Sqlite),
        };
        let engine = engine.unwrap_or_else(|error| panic!("the engine does not open: {error}"));
        let settings = HistorySettings { api_key: HISTORY_KEY.to_owned(), batch_events: 10_000 };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let (directory, url) = (data.path().join("history/files"), format!("http://{address}"));
        let (environment, bucket) = s3.map(|s3| (s3.environment(), s3.url("history"))).unzip();
        let (environment, key) = (environment.unwrap_or_default(), HISTORY_KEY.as_bytes());
        let files = Files::open_in(environment, bucket.as_deref(), directory, url, key, clock.clone());
        let files = files.unwrap_or_else(|error| panic!("the files do not open: {error}"));
        let service = Arc::new(HistoryService::new(engine, files, settings));
        let served = service.clone();
        let handler = move |request, peer| served.clone().answer(request, peer);
        // The task ends with the runtime of the test.
        tokio::spawn(listener::serve(listener, handler, Limits::default(), std::future::pending::<()>()));
        HistoryServer { service, address, clock, data }
    }

    /// Returns a client without the key.
    pub fn client_without_key(&self) -> ApiClient {
        ApiClient::new(self.address, "history.example")
    }

    /// Returns a client with the key.
    pub fn client_with_key(&self) -> ApiClient {
        self.client_without_key().with_header("x-api-key", HISTORY_KEY)
    }

    /// Creates a tenant and returns its client, with the key.
    pub async fn tenant(&self, database_name: &str) -> ApiClient {
        let tenant_names = json!({"database_name": database_name, "client_label": format!("label of {database_name}")});
        let tenant = self.client_with_key().post("/api/initialize-tenant", tenant_names).await.expect_created();
        self.client_with_key().with_header("x-client-id", tenant["client_id"].as_str().unwrap_or(""))
    }

    /// The data directory.
    pub fn data(&self) -> &std::path::Path {
        self.data.path()
    }
}
