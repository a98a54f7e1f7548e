//! Programs that are agents, as separate processes, and the person whose browser they open.

use crate::TestServer;
use crate::dance::{ADDRESS, decide, signed_in};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use tempfile::TempDir;
use testkit::{Browser, PASSWORD, npm_packages, python_environment};

/// The callback of the sign-ins of these programs, at any port.
pub const CALLBACK: &str = "http://127.0.0.1:5000/callback";

macro_rules! text {
    ($name:literal) => {
        ($name, include_str!(concat!("../clients/", $name)))
    };
}

/// The directory of the packages from npm.
pub fn packages() -> PathBuf {
    npm_packages("agent-clients", &[text!("package.json"), text!("package-lock.json")])
}

/// A directory of programs on Node.js. It is deleted when it is dropped.
pub fn node_programs() -> TempDir {
    let directory = tempfile::tempdir_in(packages()).unwrap();
    for (name, program) in [text!("agent.mjs"), text!("conformance.mjs"), text!("fs_with_glob.mjs")] {
        std::fs::write(directory.path().join(name), program).unwrap();
    }
    directory
}

/// Runs a program on Node.js.
pub fn node(programs: &TempDir, name: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(programs.path().join(name));
    command
}

/// Runs the agent on the Python SDK.
pub fn python() -> Command {
    let programs = python_environment("agent-clients-python", text!("requirements.txt").1);
    let mut command = Command::new(programs.join("python"));
    command.args(["-c", text!("agent.py").1]);
    command
}

/// The person whose browser a program opens, and their decision.
pub struct BrowserPerson<'a> {
    pub server: &'a TestServer,
    pub username: &'a str,
    pub decision: &'a str,
}

impl BrowserPerson<'_> {
    /// Signs in and decides. Returns the address of the redirect.
    pub async fn opens(&self, address: &str) -> String {
        // The browser of the test reaches the build by its domain.
        let path = address.split_once("/oauth/").unwrap_or_else(|| panic!("{address} is no page to sign in")).1;
        let mut browser = Browser::new(self.server);
        let page = signed_in(&mut browser, &format!("{ADDRESS}/oauth/{path}"), self.username, PASSWORD).await;
        decide(&mut browser, &page, self.decision).await.header("location").to_owned()
    }
}

/// A program that reads commands, as `clients/agent.mjs` describes.
pub struct Program {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Program {
    pub fn start(mut command: Command, settings: &Value) -> Program {
        command.arg(settings.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let commands = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Program { process, commands, answers }
    }

    /// The answer to a command, `{result}` or `{error}`. Without a person the program must not request a sign-in.
    pub async fn send_command(&mut self, command: Value, person: Option<&BrowserPerson<'_>>) -> Value {
        self.write_line(&command);
        loop {
            let mut line = String::new();
            tokio::task::block_in_place(|| self.answers.read_line(&mut line)).unwrap();
            let said: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("to {command} it says {line:?}"));
            let Some(address) = said["open"].as_str() else { return said };
            let person = person.unwrap_or_else(|| panic!("for {command} it wants a new sign-in"));
            self.write_line(&json!({"returned": person.opens(address).await}));
        }
    }

    fn write_line(&mut self, line: &Value) {
        writeln!(self.commands, "{line}").unwrap();
    }

    /// The result of a tool.
    pub async fn calls(&mut self, tool: &str, arguments: Value) -> Value {
        let called = self.send_command(json!({"do": "call", "tool": tool, "arguments": arguments}), None).await;
        assert!(called["result"].is_object(), "{tool}: {called}");
        called["result"].clone()
    }

    /// The answer of a tool that succeeds. The SDK has compared it with the schema.
    pub async fn call_tool(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.calls(tool, arguments).await;
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result["structuredContent"].clone()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a program that prints the address for the sign-in of its user. Returns whether the program succeeds, and its standard
/// output.
pub async fn run_with(person: &BrowserPerson<'_>, mut command: Command) -> (bool, String) {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let (sender, lines) = mpsc::channel();
    let errors = read_lines(process.stderr.take().unwrap(), sender.clone());
    let output = read_lines(process.stdout.take().unwrap(), sender);
    while let Ok(line) = tokio::task::block_in_place(|| lines.recv()) {
        let Some(at) = line.find("http").filter(|_| line.contains("/oauth/authorize?")) else { continue };
        let returned = person.opens(line[at..].trim()).await;
        Browser::new(person.server).open(&returned, None).await;
    }
    let succeeds = process.wait().unwrap().success();
    let (output, errors) = (output.join().unwrap(), errors.join().unwrap());
    if !succeeds {
        eprintln!("{command:?}: {output}\n{errors}");
    }
    (succeeds, output)
}

/// Sends each line that a program prints, and returns all of them.
fn read_lines(from: impl std::io::Read + Send + 'static, to: mpsc::Sender<String>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut all = String::new();
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            all.push_str(&line);
            all.push('\n');
            let _ = to.send(line);
        }
        all
    })
}
