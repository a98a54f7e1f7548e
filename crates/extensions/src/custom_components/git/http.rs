//! Git's protocol over HTTP, version 2 (`gitprotocol-http`, `gitprotocol-v2`): finds the commit of `HEAD` and fetches a pack of it.

use super::shared::{GitError, Id, MAX_RECEIVED};
use bytes::Bytes;
use kit::address::Ranges;
use kit::outbound::{self, http_client_for};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url, header};
use std::time::{Duration, Instant};
use store::blobs::NewBlob;

/// The maximum time until an answer begins, and for each [`MIN_PROGRESS`] bytes of it.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(5);
/// The minimum number of bytes in [`PROGRESS_TIMEOUT`]: 1 kB a second.
const MIN_PROGRESS: usize = 5000;
/// The maximum size of an answer other than the pack, in bytes.
const MAX_OTHER: u64 = 1024 * 1024;
/// The number of bytes that are written to the disk at a time.
const WRITTEN_AT_ONCE: usize = 256 * 1024;

/// The username and the token for requests to a server. The type does not implement `Debug`.
pub struct Credentials {
    pub username: String,
    pub token: String,
}

/// Requests the commit of `HEAD` and writes the pack with its objects, without its history, into a file. Returns `None` if the
/// repository is empty.
pub async fn fetch(
    repository_url: &str,
    credentials: &Credentials,
    allow: &Ranges,
    pack: &mut NewBlob,
) -> Result<Option<Id>, GitError> {
    let base = Url::parse(repository_url).map_err(|_| GitError::Unreachable)?;
    if base.scheme() != "https" {
        return Err(GitError::Unreachable);
    }
    let client = http_client_for(&base, allow).await.map_err(|_| GitError::Unreachable)?;
    let server = GitHttpServer { client, base: base.as_str().trim_end_matches('/').to_owned(), credentials };
    let is_shallow = server.advertised().await?;
    let Some(head) = server.head().await? else { return Ok(None) };
    server.pack(head, is_shallow, pack).await?;
    Ok(Some(head))
}

struct GitHttpServer<'a> {
    client: Client,
    base: String,
    credentials: &'a Credentials,
}

impl GitHttpServer<'_> {
    /// Requests the capabilities of the server. Returns whether it can send a commit without its history.
    async fn advertised(&self) -> Result<bool, GitError> {
        let url = format!("{}/info/refs?service=git-upload-pack", self.base);
        let response = self.send(self.client.get(url), "application/x-git-upload-pack-advertisement").await?;
        let mut lines = Packets::new(response, MAX_OTHER);
        let mut is_version_2 = false;
        let mut is_shallow = None;
        loop {
            match lines.next().await? {
                // Some servers begin with the name of the service in a separate section.
                Packet::Data(line) if line.starts_with(b"# service=") => {}
                Packet::End if !is_version_2 => {}
                Packet::Data(line) if !is_version_2 && text(&line) == "version 2" => is_version_2 = true,
                Packet::Data(_) if !is_version_2 => return Err(GitError::Unreadable),
                Packet::Data(line) => match text(&line).split_once('=') {
                    Some(("fetch", features)) => {
                        is_shallow = Some(features.split(' ').any(|feature| feature == "shallow"))
                    }
                    Some(("object-format", format)) if format != "sha1" => return Err(GitError::Unreadable),
                    _ if text(&line) == "fetch" => is_shallow = Some(false),
                    _ => {}
                },
                Packet::End => return is_shallow.ok_or(GitError::Unreadable),
                Packet::Delimiter => return Err(GitError::Unreadable),
            }
        }
    }

    /// Requests the commit of `HEAD`.
    async fn head(&self) -> Result<Option<Id>, GitError> {
        let body =
            [line("command=ls-refs\n"), DELIMITER.to_owned(), line("ref-prefix HEAD\n"), END.to_owned()].concat();
        let mut lines = self.post(body, MAX_OTHER).await?;
        let mut head = None;
        loop {
            match lines.next().await? {
                Packet::Data(line) => {
                    if let Some((id, name)) = text(&line).split_once(' ')
                        && name.split(' ').next() == Some("HEAD")
                    {
                        head = Some(Id::parse(id).ok_or(GitError::Unreadable)?);
                    }
                }
                Packet::End => return Ok(head),
                Packet::Delimiter => return Err(GitError::Unreadable),
            }
        }
    }

    /// Writes the pack of a commit into a file.
    async fn pack(&self, head: Id, is_shallow: bool, pack: &mut NewBlob) -> Result<(), GitError> {
        let mut body =
            [line("command=fetch"), DELIMITER.to_owned(), line("no-progress\n"), line("ofs-delta\n")].concat();
        if is_shallow {
            body += &line("deepen 1\n");
        }
        body += &[line(&format!("want {head}\n")), line("done\n"), END.to_owned()].concat();
        let mut lines = self.post(body, MAX_RECEIVED).await?;
        loop {
            match lines.next().await? {
                Packet::Data(line) if text(&line) == "packfile" => break,
                Packet::Data(_) | Packet::Delimiter => {}
                Packet::End => return Err(GitError::Unreadable),
            }
        }
        let mut waiting = Vec::with_capacity(2 * WRITTEN_AT_ONCE);
        let written = |_| GitError::Disk;
        loop {
            match lines.next().await? {
                // The first byte is a channel: the pack, messages for people, or the reason for an early end.
                Packet::Data(data) => match data.split_first() {
                    Some((1, bytes)) => waiting.extend_from_slice(bytes),
                    Some((2, _)) => {}
                    _ => return Err(GitError::Unreadable),
                },
                Packet::End => break,
                Packet::Delimiter => return Err(GitError::Unreadable),
            }
            if waiting.len() >= WRITTEN_AT_ONCE {
                pack.write(&waiting).await.map_err(written)?;
                waiting.clear();
            }
        }
        pack.write(&waiting).await.map_err(written)
    }

    async fn post(&self, body: String, most: u64) -> Result<Packets, GitError> {
        let post = self.client.post(format!("{}/git-upload-pack", self.base)).body(body);
        let post = post.header(header::CONTENT_TYPE, "application/x-git-upload-pack-request");
        Ok(Packets::new(self.send(post, "application/x-git-upload-pack-result").await?, most))
    }

    /// Sends a request. Refuses an answer with another status or type. Redirects are not followed.
    async fn send(&self, request: RequestBuilder, media_type: &'static str) -> Result<Response, GitError> {
        let request = request
            .basic_auth(&self.credentials.username, Some(&self.credentials.token))
            .header("git-protocol", "version=2")
            .header(header::ACCEPT, media_type)
            .header(header::USER_AGENT, "git/chancery");
        let response_result = tokio::time::timeout(PROGRESS_TIMEOUT, request.send()).await;
        let response = response_result.map_err(|_| GitError::Unreachable)?.map_err(|error| {
            // The reason may be the server's certificate.
            tracing::debug!(reason = outbound::error_text(error), "a repository was not reached");
            GitError::Unreachable
        })?;
        if response.status() != StatusCode::OK {
            return Err(GitError::Unreachable);
        }
        let is_right =
            response.headers().get(header::CONTENT_TYPE).is_some_and(|content_type| content_type == media_type);
        if is_right { Ok(response) } else { Err(GitError::Unreadable) }
    }
}

const DELIMITER: &str = "0001";
const END: &str = "0000";

/// Formats a text as a packet line: the text after its length, which includes the length field.
fn line(text: &str) -> String {
    format!("{:04x}{text}", text.len() + 4)
}

/// Returns a line without its line feed.
fn text(line: &[u8]) -> &str {
    std::str::from_utf8(line).unwrap_or("").trim_end_matches('\n')
}

#[derive(Debug)]
enum Packet {
    Data(Vec<u8>),
    /// The end of a section.
    Delimiter,
    /// The end of the answer.
    End,
}

/// The packet lines of an answer. At most one line and the rest of its chunk are in memory.
struct Packets {
    response: Response,
    received: Vec<u8>,
    /// The received bytes of the present [`MIN_PROGRESS`], and the remaining time for the others.
    progress: usize,
    patience: Duration,
    /// The number of consumed bytes of `received`.
    at: usize,
    left: u64,
}

impl Packets {
    fn new(response: Response, most: u64) -> Packets {
        Packets { response, received: Vec::new(), progress: 0, patience: PROGRESS_TIMEOUT, at: 0, left: most }
    }

    async fn next(&mut self) -> Result<Packet, GitError> {
        let length = self.read_piece(4).await?;
        let length = text(&length);
        let is_hex = length.len() == 4 && length.bytes().all(|byte| byte.is_ascii_hexdigit());
        match usize::from_str_radix(length, 16) {
            Ok(0) => Ok(Packet::End),
            Ok(1) => Ok(Packet::Delimiter),
            Ok(length) if is_hex && length >= 4 => match self.read_piece(length - 4).await? {
                refusal if refusal.starts_with(b"ERR ") => Err(GitError::Unreachable),
                line => Ok(Packet::Data(line)),
            },
            _ => Err(GitError::Unreadable),
        }
    }

    /// Returns the next chunk, within the time that the server has for [`MIN_PROGRESS`].
    async fn chunk(&mut self) -> Result<Bytes, GitError> {
        let started = Instant::now();
        let chunk = tokio::time::timeout(self.patience, self.response.chunk()).await;
        let chunk = chunk.map_err(|_| GitError::Unreachable)?.map_err(|_| GitError::Unreachable)?;
        let chunk = chunk.ok_or(GitError::Unreadable)?;
        self.progress += chunk.len();
        self.patience = self.patience.saturating_sub(started.elapsed());
        if self.progress >= MIN_PROGRESS {
            (self.progress, self.patience) = (0, PROGRESS_TIMEOUT);
        }
        Ok(chunk)
    }

    /// Returns the next `count` bytes, at most 64 KiB.
    async fn read_piece(&mut self, count: usize) -> Result<Vec<u8>, GitError> {
        while self.received.len() - self.at < count {
            self.received.drain(..self.at);
            self.at = 0;
            let chunk = self.chunk().await?;
            self.left = self.left.checked_sub(chunk.len() as u64).ok_or(GitError::TooLarge)?;
            self.received.extend_from_slice(&chunk);
        }
        let piece = self.received[self.at..self.at + count].to_vec();
        self.at += count;
        Ok(piece)
    }
}
