//! An S3 server in a separate process: a maintained fork of the npm package `s3rver`, which checks signatures of
//! version 4 and their expiry.

use crate::npm::{self, NodeServer};
use serde_json::json;
use std::path::Path;
use tempfile::TempDir;

/// The name of the server's only bucket.
const BUCKET: &str = "files";
/// The suffix of the files in which the server stores the contents of objects.
const CONTENT_SUFFIX: &str = "._S3rver_object";

const SOURCES: [(&str, &str); 3] = [
    ("package.json", include_str!("../s3/package.json")),
    ("package-lock.json", include_str!("../s3/package-lock.json")),
    ("server.mjs", include_str!("../s3/server.mjs")),
];

/// A running S3 server. Dropping it ends the process and deletes its objects.
pub struct S3Server {
    node: NodeServer,
    directory: TempDir,
}

impl S3Server {
    /// Starts a server with an empty bucket.
    pub fn start() -> S3Server {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        S3Server { node: run(directory.path(), 0), directory }
    }

    /// Ends the process. Its port then refuses connections.
    pub fn stop(&mut self) {
        self.node.stop();
    }

    /// Starts the process after [`S3Server::stop`], at the same port and with the same objects.
    pub fn restart(&mut self) {
        self.node = run(self.directory.path(), self.node.port);
    }

    /// Returns the value for `CHANCERY_FILES_URL` with a prefix of keys.
    pub fn url(&self, prefix: &str) -> String {
        format!("s3://{BUCKET}/{prefix}")
    }

    /// Returns the environment variables that a client of the server needs.
    pub fn environment(&self) -> Vec<(String, String)> {
        let endpoint = format!("http://127.0.0.1:{}", self.node.port);
        [
            ("AWS_ACCESS_KEY_ID", "S3RVER"),
            ("AWS_SECRET_ACCESS_KEY", "S3RVER"),
            ("AWS_ENDPOINT", endpoint.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }

    /// Returns the keys of all objects, sorted.
    pub fn keys(&self) -> Vec<String> {
        let bucket = self.directory.path().join(BUCKET);
        let mut keys = Vec::new();
        collect(&bucket, &bucket, &mut keys);
        keys.sort();
        keys
    }
}

/// Runs the server at a port; 0 for any free port.
fn run(directory: &Path, port: u16) -> NodeServer {
    let program = npm::ensure_installed("s3-server", &SOURCES).join("server.mjs");
    NodeServer::start(&program, &json!({"directory": directory, "bucket": BUCKET, "port": port}))
}

/// Collects the keys of the objects below a directory.
fn collect(bucket: &Path, directory: &Path, keys: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(bucket, &path, keys);
        } else if let Some(key) =
            path.strip_prefix(bucket).ok().and_then(|key| key.to_str()?.strip_suffix(CONTENT_SUFFIX))
        {
            keys.push(key.to_owned());
        }
    }
}
