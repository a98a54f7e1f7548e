//! A private PostgreSQL server for a test, which can be killed, stopped and frozen. In contrast to the shared one, it
//! syncs to disk.

use crate::certificates::Authority;
use crate::database::test_database;
use crate::eventually::eventually_blocking;
use postgres::{Client, NoTls};
use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use web::clock::random_token;

/// The time limit of a start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A private PostgreSQL server. Dropping it ends the server and deletes its data.
pub struct PostgreSql {
    directory: TempDir,
    programs: PathBuf,
    password: String,
    port: u16,
    process: Option<Child>,
    is_encrypted: bool,
}

impl PostgreSql {
    /// Starts a server. Returns `None` when tests use the embedded engine and `CHANCERY_TEST_ROUNDS` is not set.
    pub fn start() -> Option<PostgreSql> {
        PostgreSql::start_server(None)
    }

    /// Starts a server as [`PostgreSql::start`] does, with a certificate for its address, so that connections may be
    /// encrypted.
    pub fn start_encrypted(authority: &Authority) -> Option<PostgreSql> {
        PostgreSql::start_server(Some(authority))
    }

    fn start_server(authority: Option<&Authority>) -> Option<PostgreSql> {
        if test_database().is_none() && std::env::var_os("CHANCERY_TEST_ROUNDS").is_none() {
            return None;
        }
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        drop(listener);
        let (password, is_encrypted) = (random_token(), authority.is_some());
        let mut server = PostgreSql { directory, programs: programs(), password, port, process: None, is_encrypted };
        server.initialize();
        if let Some(authority) = authority {
            let (certificate, key) = authority.write_certificate(server.directory.path(), &["127.0.0.1".to_owned()]);
            std::fs::set_permissions(&key, Permissions::from_mode(0o600)).expect("it is ours");
            if let Some((user, group)) = server_user() {
                for path in [&certificate, &key] {
                    chown(path, Some(user), Some(group)).expect("root may give files away");
                }
            }
        }
        server.restart();
        Some(server)
    }

    /// The URL of its database.
    pub fn url(&self) -> String {
        format!("postgres://tests:{}@127.0.0.1:{}/postgres", self.password, self.port)
    }

    /// The URL of its Unix socket.
    pub fn socket_url(&self) -> String {
        let (password, port, directory) = (&self.password, self.port, self.directory.path().display());
        format!("postgres:///postgres?host={directory}&port={port}&user=tests&password={password}")
    }

    fn initialize(&self) {
        let password = self.directory.path().join("password");
        std::fs::write(&password, &self.password).expect("the directory can be written");
        if let Some((user, group)) = server_user() {
            for path in [self.directory.path(), &password] {
                chown(path, Some(user), Some(group)).expect("root may give files away");
            }
        }
        // The page cache survives everything that tests do, so a sync is not needed.
        let arguments =
            ["--no-sync", "--username=tests", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--pgdata=data"];
        let output = self.command("initdb").args(arguments).arg("--pwfile=password").output();
        let output = output.unwrap_or_else(|error| panic!("initdb does not start: {error}"));
        assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Returns a command of the server's programs. Root runs it as another user, since PostgreSQL refuses to run as
    /// root.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        if let Some((user, group)) = server_user() {
            command.uid(user).gid(group);
        }
        command.current_dir(self.directory.path()).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Restarts the server after [`PostgreSql::kill`] or [`PostgreSql::stop`], and returns the time at which it
    /// accepted connections.
    pub fn restart(&mut self) -> Instant {
        let log = self.directory.path().join("log");
        let port = format!("port={}", self.port);
        let mut command = self.command("postgres");
        let sockets = format!("unix_socket_directories={}", self.directory.path().display());
        for option in ["listen_addresses=127.0.0.1", &port, &sockets, "max_connections=50"] {
            command.args(["-c", option]);
        }
        if self.is_encrypted {
            for option in ["ssl=on", "ssl_cert_file=../certificate.pem", "ssl_key_file=../key.pem"] {
                command.args(["-c", option]);
            }
        }
        let file = std::fs::File::create(&log).expect("the directory can be written");
        let process = command.args(["-D", "data"]).stderr(file).spawn();
        self.process = Some(process.unwrap_or_else(|error| panic!("postgres does not start: {error}")));
        let url = self.url();
        // The blocking driver must not run inside a test's runtime.
        let connected = std::thread::spawn(move || {
            eventually_blocking(START_TIMEOUT, || {
                let log = || std::fs::read_to_string(&log).unwrap_or_default();
                Client::connect(&url, NoTls).map(drop).map_err(|error| format!("{error}: {}", log()))
            });
            Instant::now()
        });
        connected.join().expect("it accepts connections")
    }

    /// Kills the server and all its processes (SIGKILL).
    pub fn kill(&mut self) {
        if self.process.is_some() {
            // A stopped server starts no more processes.
            self.signal("STOP", &[self.id()]);
            self.signal("KILL", &self.process_ids());
            self.reap();
        }
    }

    /// Stops the server cleanly, without waiting for its clients (a fast shutdown).
    pub fn stop(&mut self) {
        self.signal("INT", &[self.id()]);
        self.reap();
    }

    /// Suspends the server, as a hanging disk would: connections stay open without answers.
    pub fn freeze(&self) {
        self.signal("STOP", &[self.id()]);
        self.signal("STOP", &self.process_ids());
    }

    /// Continues the server after [`PostgreSql::freeze`].
    pub fn thaw(&self) {
        self.signal("CONT", &self.process_ids());
    }

    fn reap(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.wait().expect("it is ours");
        }
    }

    fn id(&self) -> u32 {
        self.process.as_ref().unwrap_or_else(|| panic!("it does not run")).id()
    }

    /// Returns the ids of the server's process and its child processes.
    fn process_ids(&self) -> Vec<u32> {
        let parent = self.id();
        let entries = std::fs::read_dir("/proc").expect("Linux tells its processes");
        let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        ids.filter(|id| *id == parent || parent_of(*id) == Some(parent)).collect()
    }

    fn signal(&self, name: &str, ids: &[u32]) {
        // A process may have ended meanwhile, which is harmless.
        let _ = Command::new("kill").arg(format!("-{name}")).args(ids.iter().map(u32::to_string)).output();
    }
}

impl Drop for PostgreSql {
    fn drop(&mut self) {
        self.kill();
    }
}

fn parent_of(id: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Returns the directory of PostgreSQL's server programs, which on Debian is not in `PATH`.
pub(crate) fn programs() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut installed: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    installed.sort();
    let directory = std::env::split_paths(&path).chain(installed.into_iter().rev()).find_map(|directory| {
        // A link in `PATH` points into the directory of the other programs.
        let program = directory.join("initdb").canonicalize().ok()?;
        program.parent().map(Path::to_path_buf).filter(|programs| programs.join("postgres").exists())
    });
    directory.unwrap_or_else(|| panic!("PostgreSQL is not installed: there is no initdb"))
}

/// Returns the user and group as which root runs the server; `None` when the tests do not run as root.
fn server_user() -> Option<(u32, u32)> {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut numbers = line.split(':').skip(2).map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    };
    crate::is_root()
        .then(|| find("postgres").or_else(|| find("nobody")).unwrap_or_else(|| panic!("there is no user for it")))
}
