//! Installs npm packages that tests need, once below the target directory, from lock files in this crate, and starts their
//! programs.

use serde_json::Value as Json;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;

/// Installs a program unless it is installed, and returns its directory. `sources` are the names and contents of its
/// files, including `package.json` and `package-lock.json`.
pub fn ensure_installed(name: &str, sources: &[(&str, &str)]) -> PathBuf {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _lock = web::lock(&INSTALLING);
    let texts: String = sources.iter().map(|(_, text)| *text).collect();
    let version = texts.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    let executable = std::env::current_exe().expect("a test is a program");
    // The path is `target/debug/deps/test` or `target/release/examples/example`.
    let target = executable.ancestors().nth(3).expect("tests are below the target directory");
    let directory = target.join(format!("{name}-{version:08x}"));
    if !directory.exists() {
        let fresh = target.join(format!("{name}-{}.new", std::process::id()));
        install(&fresh, sources);
        // Another test program may have installed it meanwhile.
        if std::fs::rename(&fresh, &directory).is_err() {
            let _ = std::fs::remove_dir_all(&fresh);
        }
    }
    directory
}

fn install(directory: &Path, sources: &[(&str, &str)]) {
    std::fs::create_dir_all(directory).expect("the target directory can be written");
    for (name, text) in sources {
        std::fs::write(directory.join(name), text).expect("the target directory can be written");
    }
    let npm = Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
        .current_dir(directory)
        .output()
        .unwrap_or_else(|error| panic!("npm does not start (it must be installed): {error}"));
    assert!(npm.status.success(), "npm: {}", String::from_utf8_lossy(&npm.stderr));
}

/// A server on Node.js in a separate process.
pub(crate) struct NodeServer {
    process: Child,
    pub port: u16,
    /// Its standard output. It stays open, since a program may end when it cannot write.
    _output: BufReader<ChildStdout>,
}

impl NodeServer {
    /// Starts a program, which receives its settings as JSON and reports its port in the first line of its output.
    pub fn start(program: &Path, settings: &Json) -> NodeServer {
        let mut process = Command::new("node")
            .arg(program)
            .arg(settings.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("node does not start (it must be installed): {error}"));
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().expect("its output is ours"));
        output.read_line(&mut line).expect("a line");
        let port = line.trim().strip_prefix("port ").and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("{} says {line:?}", program.display()));
        NodeServer { process, port, _output: output }
    }

    /// Ends the process. Its port then refuses connections.
    pub fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for NodeServer {
    fn drop(&mut self) {
        self.stop();
    }
}
