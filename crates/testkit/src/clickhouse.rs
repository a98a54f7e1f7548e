//! A ClickHouse server in a separate process: the library of the npm package `chdb`, which serves ClickHouse's HTTP
//! interface.
//!
//! It needs `python3` and `npm`; the library is installed once below the target directory, from the lock file in
//! `crates/testkit/clickhouse/`.

use crate::eventually::eventually_blocking;
use crate::npm;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;

const SCRIPT: &str = include_str!("clickhouse.py");
const SOURCES: [(&str, &str); 2] = [
    ("package.json", include_str!("../clickhouse/package.json")),
    ("package-lock.json", include_str!("../clickhouse/package-lock.json")),
];
const LIBRARY: &str = "node_modules/@chdb/lib-linux-x64-gnu/libchdb.so";

/// The time limit of a start: a busy machine needs this long to load the library.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A ClickHouse server. Dropping it ends the server and deletes its data. The server also ends with the process that
/// started it, since its standard input is closed then.
pub struct ClickHouseServer {
    directory: TempDir,
    process: Option<Child>,
    port: u16,
}

impl ClickHouseServer {
    /// Starts a server that all tests of this process share, and returns its URL.
    pub fn start() -> String {
        static SHARED: OnceLock<ClickHouseServer> = OnceLock::new();
        SHARED.get_or_init(ClickHouseServer::start_private).url()
    }

    /// Starts a private server, which can be killed and restarted with the same data and port.
    pub fn start_private() -> ClickHouseServer {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        drop(listener);
        let mut server = ClickHouseServer { directory, process: None, port };
        server.restart();
        server
    }

    /// The URL of the server.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Kills the server (SIGKILL).
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Shuts the server down cleanly, and waits until it has ended.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            drop(process.stdin.take());
            let _ = process.wait();
        }
    }

    /// Restarts the server after [`ClickHouseServer::kill`] or [`ClickHouseServer::stop`], and waits until it accepts connections.
    pub fn restart(&mut self) {
        self.kill();
        let log = std::fs::File::create(self.directory.path().join("log")).expect("the directory can be written");
        let mut process = Command::new("python3")
            .args(["-c", SCRIPT])
            .arg(npm::ensure_installed("clickhouse", &SOURCES).join(LIBRARY))
            .arg(format!("--path={}", self.directory.path().join("data").display()))
            .arg("--listen_host=127.0.0.1")
            .arg(format!("--http_port={}", self.port))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("python3 does not start: {error}"));
        let log = || std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        eventually_blocking(START_TIMEOUT, || {
            let ended = process.try_wait().expect("it is ours");
            assert!(ended.is_none(), "ClickHouse does not start ({ended:?}): {}", log());
            TcpStream::connect(("127.0.0.1", self.port)).map_err(|_| format!("ClickHouse does not start: {}", log()))
        });
        self.process = Some(process);
    }
}

impl Drop for ClickHouseServer {
    fn drop(&mut self) {
        self.kill();
    }
}
