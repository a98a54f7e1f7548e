//! A git server: Debian's `git http-backend` behind TLS, with a name and a token. It can also return other answers.

use crate::certificates::Authority;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// The username that may read the repositories of a [`GitServer`].
pub const GIT_USERNAME: &str = "deploy";
/// The token of [`GIT_USERNAME`].
pub const GIT_TOKEN: &str = "glpat-s3cr3t-t0ken";

/// The answer of a git server to a request.
#[derive(Clone, Debug)]
pub enum GitAnswer {
    /// The answer of git.
    Git,
    /// The answer of git, after a delay.
    After(Duration),
    /// No answer, on a connection that stays open.
    Never,
    /// The first half of the answer of git, on a connection that stays open.
    Half,
    /// A status, headers and a body.
    Other(u16, Vec<(&'static str, String)>, Vec<u8>),
}

/// A running git server. Dropping it closes its listener and deletes its repositories.
pub struct GitServer {
    /// The port of its listener at 127.0.0.1.
    pub port: u16,
    directory: TempDir,
    listening: JoinHandle<()>,
    shared: Arc<GitServerState>,
}

struct GitServerState {
    root: PathBuf,
    answer: Mutex<GitAnswer>,
    heard: Mutex<Vec<String>>,
}

impl GitServer {
    /// Starts a server without repositories, whose certificate names `127.0.0.1` and `localhost`.
    pub async fn start(authority: &Authority) -> GitServer {
        // A second installation of the provider fails, which is harmless.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let names = ["127.0.0.1", "localhost"].map(str::to_owned);
        let (certificate, key) = authority.write_certificate(directory.path(), &names);
        let root = directory.path().join("repositories");
        std::fs::create_dir(&root).expect("the temporary directory can be written");
        let shared = Arc::new(GitServerState { root, answer: Mutex::new(GitAnswer::Git), heard: Mutex::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let (acceptor, server_state) = (acceptor(&certificate, &key), shared.clone());
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, shared) = (acceptor.clone(), server_state.clone());
                tokio::spawn(async move { serve(stream, acceptor, &shared).await });
            }
        });
        GitServer { port, directory, listening, shared }
    }

    /// Returns the address of a repository.
    pub fn url(&self, name: &str) -> String {
        format!("https://127.0.0.1:{}/{name}", self.port)
    }

    /// Changes the answer to further requests.
    pub fn answers(&self, answer: GitAnswer) {
        *web::lock(&self.shared.answer) = answer;
    }

    /// Returns the first lines of the requests so far.
    pub fn request_lines(&self) -> Vec<String> {
        web::lock(&self.shared.heard).clone()
    }

    /// Returns the path of a repository, with its working tree. Creates it if it is missing.
    pub fn repository(&self, name: &str) -> PathBuf {
        let path = self.shared.root.join(name);
        if !path.exists() {
            std::fs::create_dir(&path).expect("the temporary directory can be written");
            self.git(&path, &["init", "--quiet", "--initial-branch=main"]);
        }
        path
    }

    /// Commits these files, and no others, to a repository. Returns the commit.
    pub fn commit(&self, name: &str, files: &[(&str, &[u8])]) -> String {
        let path = self.repository(name);
        for entry in std::fs::read_dir(&path).into_iter().flatten().flatten() {
            match entry.file_type() {
                _ if entry.file_name() == ".git" => {}
                Ok(kind) if kind.is_dir() => std::fs::remove_dir_all(entry.path()).expect("it is ours"),
                _ => std::fs::remove_file(entry.path()).expect("it is ours"),
            }
        }
        for (file, bytes) in files {
            let file = path.join(file);
            std::fs::create_dir_all(file.parent().expect("it is below the repository")).expect("it is ours");
            std::fs::write(&file, bytes).expect("it is ours");
        }
        self.commit_all(name)
    }

    /// Commits the working tree of a repository. Returns the commit.
    pub fn commit_all(&self, name: &str) -> String {
        let path = self.repository(name);
        self.git(&path, &["add", "--all", "--force"]);
        self.git(&path, &["commit", "--quiet", "--allow-empty", "--message", "Change"]);
        self.git(&path, &["rev-parse", "HEAD"]).trim().to_owned()
    }

    /// Runs git in a repository. Returns its output.
    pub fn git(&self, path: &Path, args: &[&str]) -> String {
        let mut git = git(self.directory.path());
        let output = git.args(args).current_dir(path).output().expect("git is installed");
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// Returns git without the configuration of the machine.
fn git(home: &Path) -> Command {
    let mut git = Command::new("git");
    git.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", home);
    for name in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"] {
        git.env(name, "Ann");
    }
    for name in ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"] {
        git.env(name, "ann@example.com");
    }
    git.env("GIT_CONFIG_NOSYSTEM", "1").stdin(Stdio::null());
    git
}

fn acceptor(certificate: &Path, key: &Path) -> TlsAcceptor {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate).expect("a certificate").collect();
    let key = PrivateKeyDer::from_pem_file(key).expect("a key");
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain.expect("a certificate"), key);
    TlsAcceptor::from(Arc::new(config.expect("the key fits the certificate")))
}

struct GitRequest {
    method: String,
    target: String,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, shared: &GitServerState) -> io::Result<()> {
    let mut stream = BufReader::new(acceptor.accept(stream).await?);
    while let Some(request) = read(&mut stream).await? {
        let line = format!("{} {}", request.method, request.target);
        web::lock(&shared.heard).push(line);
        let answer = web::lock(&shared.answer).clone();
        let credentials = STANDARD.encode(format!("{GIT_USERNAME}:{GIT_TOKEN}"));
        let is_right =
            request.headers.get("authorization").is_some_and(|header| *header == format!("Basic {credentials}"));
        let (status, headers, body) = match &answer {
            GitAnswer::Other(status, headers, body) => {
                let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
                (*status, headers, body.clone())
            }
            GitAnswer::Never => std::future::pending().await,
            _ if !is_right => (401, vec![("WWW-Authenticate".to_owned(), "Basic".to_owned())], Vec::new()),
            GitAnswer::Git | GitAnswer::Half | GitAnswer::After(_) => {
                if let GitAnswer::After(time) = answer {
                    // The test requires a slow answer.
                    tokio::time::sleep(time).await;
                }
                let root = shared.root.clone();
                tokio::task::spawn_blocking(move || run_backend(&root, &request)).await.map_err(io::Error::other)??
            }
        };
        let is_half = matches!(answer, GitAnswer::Half) && body.len() > 1000;
        let mut head = format!("HTTP/1.1 {status} Answer\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).await?;
        stream.write_all(if is_half { &body[..body.len() / 2] } else { &body }).await?;
        stream.flush().await?;
        if is_half {
            return std::future::pending().await;
        }
    }
    Ok(())
}

async fn read(stream: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<Option<GitRequest>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut first = lines.first().map_or("", String::as_str).split(' ');
    let (method, target) = (first.next().unwrap_or("").to_owned(), first.next().unwrap_or("").to_owned());
    let headers: HashMap<String, String> = lines.iter().skip(1).filter_map(|line| line.split_once(": ")).fold(
        HashMap::new(),
        |mut headers, (name, value)| {
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
            headers
        },
    );
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Some(GitRequest { method, target, headers, body }))
}

type GitReply = (u16, Vec<(String, String)>, Vec<u8>);

/// Runs git as a CGI program.
fn run_backend(root: &Path, request: &GitRequest) -> io::Result<GitReply> {
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let mut backend = git(root);
    backend.arg("http-backend").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    backend.env("GIT_PROJECT_ROOT", root).env("GIT_HTTP_EXPORT_ALL", "1").env("REQUEST_METHOD", &request.method);
    backend.env("PATH_INFO", path).env("QUERY_STRING", query).env("REMOTE_USER", GIT_USERNAME);
    backend.env("CONTENT_LENGTH", request.body.len().to_string());
    for (variable, header) in [("CONTENT_TYPE", "content-type"), ("GIT_PROTOCOL", "git-protocol")] {
        backend.env(variable, request.headers.get(header).map_or("", String::as_str));
    }
    let mut running = backend.spawn()?;
    if let Some(mut input) = running.stdin.take() {
        io::Write::write_all(&mut input, &request.body)?;
    }
    let output = running.wait_with_output()?.stdout;
    let end = output.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap_or(0);
    let head = String::from_utf8_lossy(&output[..end]).into_owned();
    let mut status = 200;
    let mut headers = Vec::new();
    for (name, value) in head.lines().filter_map(|line| line.split_once(": ")) {
        match name {
            "Status" => status = value.split(' ').next().and_then(|status| status.parse().ok()).unwrap_or(500),
            _ => headers.push((name.to_owned(), value.to_owned())),
        }
    }
    Ok((status, headers, output.get(end + 4..).unwrap_or_default().to_vec()))
}
