//! A real mail server (aiosmtpd) with encryption, sign-in and a token endpoint.
//!
//! It needs `python3` with `pip`, which installs the library once below the target directory.

use crate::certificates::Authority;
use crate::eventually::eventually;
use serde_json::{Value as Json, json};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

const SCRIPT: &str = include_str!("mail_server.py");
const LIBRARY: &str = "aiosmtpd==1.4.6";

/// The username for the mail server.
pub const MAIL_USERNAME: &str = "mailer@a.example";
/// The password for the mail server, which is also the secret of the client `client` at the token endpoint.
pub const MAIL_PASSWORD: &str = "päss wörd: \\\"=";
/// The access token that the token endpoint issues.
pub const MAIL_TOKEN: &str = "t0ken.of-the_endpoint";

/// The encryption of connections to a mail server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MailEncryption {
    /// Connections are not encrypted.
    Plain,
    /// STARTTLS is required.
    StartTls,
    /// TLS from the first byte.
    Implicit,
}

/// The options of a mail server.
pub struct MailOptions<'a> {
    /// The encryption of connections.
    pub mode: MailEncryption,
    /// The sign-in mechanisms, of `PLAIN`, `LOGIN` and `XOAUTH2`.
    pub mechanisms: &'a [&'a str],
    /// The address of its listener.
    pub address: &'a str,
    /// The port of its listener; 0 for any free port.
    pub port: u16,
    /// The names in its certificate; empty for `localhost` and the address.
    pub names: &'a [&'a str],
}

impl Default for MailOptions<'_> {
    fn default() -> Self {
        let mechanisms = &["PLAIN", "LOGIN", "XOAUTH2"];
        MailOptions { mode: MailEncryption::StartTls, mechanisms, address: "127.0.0.1", port: 0, names: &[] }
    }
}

/// A message that the mail server received.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedMail {
    /// The sender of the envelope.
    pub from: String,
    /// The receivers of the envelope.
    pub to: Vec<String>,
    /// The headers and the body.
    pub data: String,
    /// The name in the sender's `EHLO`.
    pub hello: String,
    /// Is true if the connection was encrypted.
    pub is_secured: bool,
    /// Is true if the sender had signed in.
    pub is_signed_in: bool,
}

impl ReceivedMail {
    /// Returns the value of a header, or an empty text.
    pub fn header(&self, name: &str) -> &str {
        let head = self.data.split("\r\n\r\n").next().unwrap_or("");
        head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or("")
    }

    /// Returns the body, with `\n` line ends.
    pub fn text(&self) -> String {
        self.data.split_once("\r\n\r\n").map_or("", |(_, text)| text).replace("\r\n", "\n")
    }
}

/// A mail server in a separate process. Dropping it ends the process.
pub struct MailServer {
    child: Child,
    directory: TempDir,
    /// The port of its SMTP listener.
    pub port: u16,
    /// The port of its token endpoint, `POST /token`.
    pub token_port: u16,
}

impl MailServer {
    /// Starts a mail server whose certificate the authority signs.
    pub fn start(authority: &Authority, options: &MailOptions) -> MailServer {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let default_names = ["localhost", options.address];
        let names = if options.names.is_empty() { &default_names[..] } else { options.names };
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let (certificate, key) = authority.write_certificate(directory.path(), &names);
        let mode = match options.mode {
            MailEncryption::Plain => "plain",
            MailEncryption::StartTls => "starttls",
            MailEncryption::Implicit => "implicit",
        };
        let settings = json!({
            "mode": mode, "mechanisms": options.mechanisms, "address": options.address, "port": options.port,
            "certificate": certificate, "key": key, "directory": directory.path(),
            "username": MAIL_USERNAME, "password": MAIL_PASSWORD, "token": MAIL_TOKEN,
        });
        let mut command = Command::new("python3");
        command.args(["-W", "ignore", "-c", SCRIPT, &settings.to_string()]).env("PYTHONPATH", library());
        let log = directory.path().join("log");
        let log_file = File::create(&log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log_file).spawn();
        let mut child = spawned.unwrap_or_else(|error| panic!("python3 does not start: {error}"));
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("its first line");
        let ports: Json = serde_json::from_str(&line).unwrap_or_else(|_| {
            panic!("the mail server does not start: {}", std::fs::read_to_string(&log).unwrap_or_default())
        });
        let port = |name: &str| ports[name].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(0);
        MailServer { port: port("port"), token_port: port("token_port"), child, directory }
    }

    fn lines(&self, file: &str) -> Vec<Json> {
        let text = std::fs::read_to_string(self.directory.path().join(file)).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Returns all messages so far, in order of arrival.
    pub fn messages(&self) -> Vec<ReceivedMail> {
        let text = |value: &Json| value.as_str().unwrap_or("").to_owned();
        let to_mail = |message: Json| ReceivedMail {
            from: text(&message["from"]),
            to: message["to"].as_array().into_iter().flatten().map(text).collect(),
            data: text(&message["data"]),
            hello: text(&message["hello"]),
            is_secured: message["secured"] == true,
            is_signed_in: message["signed_in"] == true,
        };
        self.lines("messages").into_iter().map(to_mail).collect()
    }

    /// Waits until `count` messages have arrived, and returns all messages.
    #[track_caller]
    pub fn wait_for(&self, count: usize) -> impl Future<Output = Vec<ReceivedMail>> + '_ {
        eventually(async move || {
            let messages = self.messages();
            if messages.len() >= count { Ok(messages) } else { Err(messages) }
        })
    }

    /// Returns all sign-ins so far: the mechanism, and whether it was accepted.
    pub fn sign_ins(&self) -> Vec<(String, bool)> {
        let sign_in = |entry: Json| (entry["mechanism"].as_str().unwrap_or("").to_owned(), entry["accepted"] == true);
        self.lines("sign_ins").into_iter().map(sign_in).collect()
    }

    /// Returns the fields of all token requests so far.
    pub fn token_requests(&self) -> Vec<Json> {
        self.lines("token_requests")
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the directory of the library, which is installed on first use.
fn library() -> &'static Path {
    static LIBRARY_PATH: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY_PATH.get_or_init(|| {
        let test = std::env::current_exe().expect("a test has a file");
        // The path is `target/debug/deps/test`.
        let target = test.ancestors().nth(3).unwrap_or(Path::new("/tmp"));
        let library = target.join(LIBRARY.replace("==", "-"));
        if library.exists() {
            return library;
        }
        let fetched = target.join(format!("{LIBRARY}.{}", std::process::id()));
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--target"]).arg(&fetched).arg(LIBRARY);
        let status = pip.status().unwrap_or_else(|error| panic!("python3 does not start: {error}"));
        assert!(status.success(), "{LIBRARY} is needed for the tests of mail, and pip did not fetch it");
        // Another process may have installed it meanwhile.
        if std::fs::rename(&fetched, &library).is_err() {
            let _ = std::fs::remove_dir_all(&fetched);
        }
        library
    })
}
