//! Runs the real binary as a child process, for tests of commands, signals and kills.

use crate::client::ApiClient;
use crate::database::{ClaimedDatabase, Contents};
use crate::eventually::eventually_blocking;
use crate::settings::MIGRATIONS;
use crate::small_disk::SmallDisk;
use crate::trace::Trace;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use store::{Store, StoreEngine};
use tempfile::TempDir;

/// The time limit of a start or a stop.
const TIMEOUT: Duration = Duration::from_secs(60);

/// An installation of the binary with its own working directory and settings.
pub struct Installation {
    binary: PathBuf,
    home: TempDir,
    environment: Vec<(String, String)>,
    started: AtomicU32,
    database: Option<ClaimedDatabase>,
    is_traced: bool,
    disk: Option<SmallDisk>,
    listen: String,
    descriptors: Option<u32>,
}

/// The exit code and the output of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandOutput {
    /// The exit code; -1 when a signal ended the command.
    pub code: i32,
    /// The text on standard output.
    pub stdout: String,
    /// The text on standard error.
    pub stderr: String,
}

impl Installation {
    /// Creates an installation on the embedded engine, independent of the engine of the other tests. `binary` is
    /// `env!("CARGO_BIN_EXE_chancery")`; `CHANCERY_TEST_BINARY` replaces it by a release build for measurements.
    pub fn embedded(binary: &str) -> Installation {
        let home = tempfile::tempdir().expect("a temporary directory can be made");
        Installation {
            binary: std::env::var_os("CHANCERY_TEST_BINARY").map_or_else(|| binary.into(), PathBuf::from),
            home,
            environment: Vec::new(),
            started: AtomicU32::new(0),
            database: None,
            is_traced: false,
            disk: None,
            listen: "127.0.0.1:0".to_owned(),
            descriptors: None,
        }
    }

    /// Creates an installation on PostgreSQL. Returns `None` when tests use the embedded engine.
    pub fn postgresql(binary: &str) -> Option<Installation> {
        let database = ClaimedDatabase::claim(Contents::Nothing)?;
        let mut installation = Installation::on_postgres(binary, &database.url);
        installation.database = Some(database);
        Some(installation)
    }

    /// Creates an installation on a PostgreSQL database.
    pub fn on_postgres(binary: &str, database_url: &str) -> Installation {
        let installation = Installation::embedded(binary).set("CHANCERY_DATABASE_URL", database_url);
        installation.set("CHANCERY_SECRET_KEY", crate::SECRET_KEY)
    }

    /// Creates an installation on the engine that tests use, with the build `localhost` and the usual super admin.
    pub fn with_build(binary: &str) -> Installation {
        Installation::postgresql(binary).unwrap_or_else(|| Installation::embedded(binary)).and_build()
    }

    /// Creates the build `localhost` with the usual super admin.
    pub fn and_build(self) -> Installation {
        let installation =
            self.set("CHANCERY_FALLBACK_BUILD", "localhost").set("CHANCERY_ADMIN_PASSWORD", crate::PASSWORD);
        installation.succeeds(&["build", "create", "localhost"]);
        installation
    }

    /// Sets an environment variable of its processes.
    pub fn set(mut self, name: &str, value: &str) -> Installation {
        self.environment.retain(|(variable, _)| variable != name);
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Makes the main API listen on an address. Port 0 is any free port.
    pub fn listening_at(mut self, address: &str) -> Installation {
        self.listen = address.to_owned();
        self
    }

    /// Limits the file descriptors of its processes, soft and hard (`ulimit -n`).
    pub fn with_descriptors(mut self, max: u32) -> Installation {
        self.descriptors = Some(max);
        self
    }

    /// The URL of its PostgreSQL database; `None` on the embedded engine.
    pub fn database_url(&self) -> Option<&str> {
        let setting = self.environment.iter().find(|(name, _)| name == "CHANCERY_DATABASE_URL");
        setting.map(|(_, url)| url.as_str())
    }

    /// Traces the system calls by which its processes write, sync, rename and send (see [`Installation::trace`]). It
    /// needs `strace` and the permission to trace.
    pub fn with_trace(mut self) -> Installation {
        self.is_traced = true;
        self
    }

    /// Returns the system calls of its processes so far.
    pub fn trace(&self) -> Trace {
        Trace::read(&self.home().join("trace"))
    }

    /// Mounts a small disk as its data directory, which can be filled (see [`Installation::disk`]).
    pub fn with_small_disk(mut self, mebibytes: u32) -> Installation {
        std::fs::create_dir(self.data()).expect("the temporary directory can be written");
        self.disk = Some(SmallDisk::mount(&self.data(), mebibytes));
        self
    }

    /// Returns the small disk of its data directory.
    pub fn disk(&self) -> &SmallDisk {
        self.disk.as_ref().unwrap_or_else(|| panic!("the data directory is on no small disk"))
    }

    /// Opens its databases, also while its processes use them.
    pub async fn store(&self) -> Store {
        let engine = match self.variable("CHANCERY_DATABASE_URL") {
            Some(url) => StoreEngine::Postgres { url: url.to_owned() },
            None => StoreEngine::Sqlite { directory: self.data() },
        };
        let store = Store::open(engine, MIGRATIONS, store::Options::default()).await;
        store.unwrap_or_else(|error| panic!("the databases do not open: {error}"))
    }

    /// Drops its PostgreSQL database, as an outage would.
    pub fn lose_database(&mut self) {
        if let Some(database) = self.database.take() {
            database.lose();
        }
    }

    /// The working directory of its processes.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.home().join("chancery-data")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = match &self.disk {
            Some(disk) => disk.command(self.home(), &self.binary),
            None if self.is_traced => Trace::command(&self.home().join("trace"), &self.binary),
            None => match self.descriptors {
                Some(max) => {
                    let mut command = Command::new("sh");
                    command.args(["-c", &format!("ulimit -n {max} && exec \"$0\" \"$@\"")]).arg(&self.binary);
                    command
                }
                None => Command::new(&self.binary),
            },
        };
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CHANCERY_") || name == "RUST_LOG" {
                command.env_remove(name);
            }
        }
        let environment = self.environment.iter().map(|(name, value)| (name, value));
        command.args(args).envs(environment).current_dir(self.home()).stdin(Stdio::null());
        command
    }

    /// Runs a command and waits for its end.
    pub fn run(&self, args: &[&str]) -> CommandOutput {
        Self::run_to_end(self.command(args))
    }

    /// Runs a command that reads a file as its standard input.
    pub fn run_with_input(&self, args: &[&str], input: &Path) -> CommandOutput {
        let mut command = self.command(args);
        command.stdin(File::open(input).unwrap_or_else(|error| panic!("{}: {error}", input.display())));
        Self::run_to_end(command)
    }

    /// Runs a command whose output is a terminal (of `script`, which Debian always has). Returns its output.
    pub fn run_on_terminal(&self, args: &[&str]) -> String {
        let command = self.command(args);
        let words = [command.get_program()].into_iter().chain(command.get_args());
        let quoted: Vec<String> = words.map(|word| format!("'{}'", word.to_string_lossy())).collect();
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", &quoted.join(" "), "/dev/null"]).stdin(Stdio::null());
        script.current_dir(self.home()).envs(self.environment.iter().map(|(name, value)| (name, value)));
        let output = Self::run_to_end(script);
        assert_eq!(output.code, 0, "{args:?} failed: {output:#?}");
        output.stdout
    }

    fn run_to_end(mut command: Command) -> CommandOutput {
        let output =
            command.output().unwrap_or_else(|error| panic!("{:?} does not start: {error}", command.get_program()));
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        CommandOutput {
            code: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Runs a command and kills it after a time (SIGKILL). Returns its output only if it had ended before.
    pub fn run_killed(&self, args: &[&str], after: Duration) -> Option<CommandOutput> {
        let mut command = self.command(args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{:?} does not start: {error}", command.get_program()));
        // The caller chooses the time of the kill.
        std::thread::sleep(after);
        child.kill().expect("it is ours");
        let output = child.wait_with_output().expect("it is ours");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let code = output.status.code()?;
        Some(CommandOutput { code, stdout: text(output.stdout), stderr: text(output.stderr) })
    }

    /// The value of an environment variable that was set.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.iter().find(|(variable, _)| variable == name).map(|(_, value)| value.as_str())
    }

    /// Runs a command that must succeed, and returns its standard output.
    #[track_caller]
    pub fn succeeds(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.code == 0, "{args:?} failed: {output:#?}");
        output.stdout
    }

    /// Runs a command that must fail, and returns its standard error.
    #[track_caller]
    pub fn fails(&self, args: &[&str]) -> String {
        let mut command = self.command(args);
        // Concurrent tests must not compete for the default ports.
        for name in ["CHANCERY_LISTEN", "CHANCERY_HISTORY_LISTEN"] {
            if !self.environment.iter().any(|(variable, _)| variable == name) {
                command.env(name, "127.0.0.1:0");
            }
        }
        let output = Self::run_to_end(command);
        assert!(output.code == 1 && output.stdout.is_empty(), "{args:?} should have failed: {output:#?}");
        output.stderr
    }

    /// Starts both services on free ports, and returns when they listen.
    #[track_caller]
    pub fn serve(&self) -> Process {
        self.serve_with(&[])
    }

    /// Starts both services with additional flags; see [`Installation::serve`].
    #[track_caller]
    pub fn serve_with(&self, flags: &[&str]) -> Process {
        let mut process = self.spawn(&[&["serve"], flags].concat());
        process.wait_until(|process| process.api.is_some() && process.history.is_some());
        process
    }

    /// Starts only the main API.
    #[track_caller]
    pub fn serve_api(&self) -> Process {
        let mut process = self.spawn(&["serve", "api"]);
        process.wait_until(|process| process.api.is_some());
        process
    }

    /// Starts only the history service.
    #[track_caller]
    pub fn serve_history(&self) -> Process {
        let mut process = self.spawn(&["serve", "history"]);
        process.wait_until(|process| process.history.is_some());
        process
    }

    /// Starts the main API on a socket that this process has opened, as systemd passes it (`sd_listen_fds(3)`). Does not wait: the
    /// kernel accepts connections already.
    pub fn serve_api_on(&self, socket: &TcpListener) -> Process {
        // The shell moves the socket from standard input to descriptor 3, and has the id of the server.
        const PASS: &str = r#"exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=api exec "$0" "$@""#;
        let server = self.command(&["serve", "api", "--history-listen", "127.0.0.1:0"]);
        let mut command = Command::new("sh");
        command.args(["-c", PASS]).arg(server.get_program()).args(server.get_args()).current_dir(self.home());
        for (name, value) in server.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let passed = socket.try_clone().expect("a descriptor is left");
        command.stdin(OwnedFd::from(passed));
        self.start(command)
    }

    fn spawn(&self, args: &[&str]) -> Process {
        let mut command = self.command(args);
        command.args(["--listen", &self.listen, "--history-listen", "127.0.0.1:0"]);
        self.start(command)
    }

    /// Starts a command that serves, with files for its output.
    fn start(&self, mut command: Command) -> Process {
        let n = self.started.fetch_add(1, Ordering::Relaxed);
        let (stdout, stderr) = (self.home().join(format!("serve-{n}.out")), self.home().join(format!("serve-{n}.err")));
        let file = |path: &Path| File::create(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let child = command.stdout(file(&stdout)).stderr(file(&stderr)).spawn();
        let child = child.unwrap_or_else(|error| panic!("{:?} does not start: {error}", command.get_program()));
        Process { child, stdout, stderr, api: None, history: None }
    }
}

/// A serving process. Dropping it kills the process.
pub struct Process {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
    api: Option<SocketAddr>,
    history: Option<SocketAddr>,
}

impl Process {
    #[track_caller]
    fn wait_until(&mut self, listens: fn(&Process) -> bool) {
        eventually_blocking(TIMEOUT, || {
            let printed = self.stdout();
            self.api = address(&printed, "The main API listens on http://");
            self.history = address(&printed, "The history service listens on http://");
            if listens(self) {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("it ended with {status} before it listened: {}{}", self.stdout(), self.stderr());
            }
            Err(format!("it does not listen: {}{}", self.stdout(), self.stderr()))
        });
    }

    /// Returns a client of the main API that is not signed in.
    pub fn client(&self, host: &str) -> ApiClient {
        ApiClient::new(self.api(), host)
    }

    /// The address of the main API's listener.
    pub fn api(&self) -> SocketAddr {
        self.api.unwrap_or_else(|| panic!("the main API does not listen"))
    }

    /// The address of the history service's listener.
    pub fn history(&self) -> SocketAddr {
        self.history.unwrap_or_else(|| panic!("the history service does not listen"))
    }

    /// The text on its standard output so far.
    pub fn stdout(&self) -> String {
        std::fs::read_to_string(&self.stdout).unwrap_or_default()
    }

    /// The text on its standard error so far, which is the log.
    pub fn stderr(&self) -> String {
        std::fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// The maximum resident memory of the process so far, in MiB.
    pub fn peak_memory(&self) -> u64 {
        self.memory("VmHWM:")
    }

    /// The current resident memory of the process, in MiB.
    pub fn held_memory(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or_else(|| panic!("its memory is not told: {status}")) / 1024
    }

    /// Sends a signal to the process by name (`TERM`, `INT`).
    pub fn signal(&self, name: &str) {
        let exit_status = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(exit_status.is_ok_and(|status| status.success()), "the signal {name} was not sent");
    }

    /// Kills the process, as a crash would (SIGKILL).
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until the process has ended.
    #[track_caller]
    pub fn end(&mut self) -> ExitStatus {
        eventually_blocking(TIMEOUT, || match self.child.try_wait() {
            Ok(Some(status)) => Ok(status),
            _ => Err(format!("it does not end: {}", self.stderr())),
        })
    }

    /// Stops the process by SIGTERM, and checks that it exits with code 0.
    #[track_caller]
    pub fn stop(mut self) {
        self.signal("TERM");
        let status = self.end();
        assert!(status.success(), "it ended with {status}: {}", self.stderr());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the address after a printed text, if the line is complete.
fn address(printed: &str, line: &str) -> Option<SocketAddr> {
    let (line, _) = printed.split_once(line)?.1.split_once('\n')?;
    line.parse().ok()
}
