//! A server of the S3 protocol (a maintained fork of `s3rver` of npm, which checks signatures of version 4 and their
//! expiry) as a process of its own.

use crate::npm;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Its one bucket.
const BUCKET: &str = "files";
/// What the server appends to the name of a file with an object's content.
const CONTENT: &str = "._S3rver_object";

const SOURCES: [(&str, &str); 3] = [
    ("package.json", include_str!("../s3/package.json")),
    ("package-lock.json", include_str!("../s3/package-lock.json")),
    ("server.mjs", include_str!("../s3/server.mjs")),
];

/// A running server with an empty bucket; gone when this is dropped.
pub struct S3 {
    process: Child,
    port: u16,
    directory: TempDir,
}

impl S3 {
    /// Starts one.
    pub fn start() -> S3 {
        let program = npm::installed("s3-server", &SOURCES).join("server.mjs");
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let mut process = Command::new("node")
            .arg(program)
            .arg(json!({"directory": directory.path(), "bucket": BUCKET}).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("node does not start (it must be installed): {error}"));
        let mut line = String::new();
        let stdout = process.stdout.take().expect("its output is ours");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let port = line.trim().strip_prefix("port ").and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("the server says {line:?}"));
        S3 { process, port, directory }
    }

    /// As `CHANCERY_FILES_URL` has it.
    pub fn url(&self, prefix: &str) -> String {
        format!("s3://{BUCKET}/{prefix}")
    }

    /// What the environment must say of it.
    pub fn environment(&self) -> Vec<(String, String)> {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        [
            ("AWS_ACCESS_KEY_ID", "S3RVER"),
            ("AWS_SECRET_ACCESS_KEY", "S3RVER"),
            ("AWS_ENDPOINT", endpoint.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }

    /// The keys of all objects, in order.
    pub fn keys(&self) -> Vec<String> {
        let bucket = self.directory.path().join(BUCKET);
        let mut keys = Vec::new();
        collect(&bucket, &bucket, &mut keys);
        keys.sort();
        keys
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn collect(bucket: &Path, directory: &Path, keys: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(bucket, &path, keys);
        } else if let Some(key) = path.strip_prefix(bucket).ok().and_then(|key| key.to_str()?.strip_suffix(CONTENT)) {
            keys.push(key.to_owned());
        }
    }
}
