//! The ClickHouse engine, as a process of its own: the library of npm's `chdb`, which serves ClickHouse's HTTP interface.
//!
//! It needs `python3` and `npm`; the library is installed once below the target directory, from the lock file in
//! `crates/testkit/clickhouse/`.

use crate::npm;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PROGRAM: &str = include_str!("clickhouse.py");
const SOURCES: [(&str, &str); 2] = [
    ("package.json", include_str!("../clickhouse/package.json")),
    ("package-lock.json", include_str!("../clickhouse/package-lock.json")),
];
const LIBRARY: &str = "node_modules/@chdb/lib-linux-x64-gnu/libchdb.so";

/// A server with its data, gone when this is dropped. It also ends with the process that started it, since its standard
/// input ends then.
pub struct ClickHouse {
    directory: TempDir,
    process: Option<Child>,
    port: u16,
}

impl ClickHouse {
    /// The address of a server that all tests of this process share.
    pub fn start() -> String {
        static SHARED: OnceLock<ClickHouse> = OnceLock::new();
        SHARED.get_or_init(ClickHouse::start_private).url()
    }

    /// One that can be killed, and started again on the same data and port.
    pub fn start_private() -> ClickHouse {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        drop(listener);
        let mut server = ClickHouse { directory, process: None, port };
        server.restart();
        server
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Ends it at once, wherever it stands.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Stops it in good order, and waits.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            drop(process.stdin.take());
            let _ = process.wait();
        }
    }

    /// Starts it again after [`ClickHouse::kill`] or [`ClickHouse::stop`], and waits until it answers.
    pub fn restart(&mut self) {
        self.kill();
        let log = std::fs::File::create(self.directory.path().join("log")).expect("the directory can be written");
        let mut process = Command::new("python3")
            .args(["-c", PROGRAM])
            .arg(npm::installed("clickhouse", &SOURCES).join(LIBRARY))
            .arg(format!("--path={}", self.directory.path().join("data").display()))
            .arg("--listen_host=127.0.0.1")
            .arg(format!("--http_port={}", self.port))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("python3 does not start: {error}"));
        let until = Instant::now() + Duration::from_secs(120);
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let ended = process.try_wait().expect("it is ours");
            if ended.is_some() || Instant::now() > until {
                let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
                panic!("ClickHouse does not start ({ended:?}): {log}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.process = Some(process);
    }
}

impl Drop for ClickHouse {
    fn drop(&mut self) {
        self.kill();
    }
}
