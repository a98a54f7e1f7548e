//! A receiver of webhooks over HTTP, whose answers a test chooses.

use crate::eventually::eventually;
use bytes::Bytes;
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The reaction of a receiver to a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReceiverBehaviour {
    /// It answers with this status and no body, and leaves the connection open.
    Answer(u16),
    /// It sends these bytes and closes the connection.
    Bytes(&'static str),
    /// It sends these bytes and leaves the connection open.
    Hang(&'static str),
}

/// A request that a receiver got.
#[derive(Clone, Debug)]
pub struct ReceivedHook {
    pub path: String,
    /// The headers by their names in lower case.
    pub headers: HashMap<String, String>,
    pub body: Bytes,
    pub at: Instant,
}

impl ReceivedHook {
    /// The id of the event.
    pub fn id(&self) -> &str {
        self.headers.get("webhook-id").map_or("", String::as_str)
    }

    /// The body as JSON.
    pub fn json(&self) -> Json {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }
}

/// A receiver of webhooks.
#[derive(Clone)]
pub struct Receiver {
    pub port: u16,
    state: Arc<Mutex<ReceiverState>>,
}

struct ReceiverState {
    reaction: ReceiverBehaviour,
    received: Vec<ReceivedHook>,
    connections: usize,
}

impl Receiver {
    /// Starts a receiver that answers 200.
    pub async fn start() -> Receiver {
        Receiver::start_on_port(0).await
    }

    /// Starts a receiver at a port; 0 for any free port.
    pub async fn start_on_port(port: u16) -> Receiver {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the port is free");
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let state = ReceiverState { reaction: ReceiverBehaviour::Answer(200), received: Vec::new(), connections: 0 };
        let receiver = Receiver { port, state: Arc::new(Mutex::new(state)) };
        let serving = receiver.clone();
        // It ends with the runtime of the test.
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serving.state().connections += 1;
                tokio::spawn(serve(serving.clone(), stream));
            }
        });
        receiver
    }

    fn state(&self) -> MutexGuard<'_, ReceiverState> {
        web::lock(&self.state)
    }

    /// Returns the address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Changes its reaction.
    pub fn reacts(&self, reaction: ReceiverBehaviour) {
        self.state().reaction = reaction;
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<ReceivedHook> {
        self.state().received.clone()
    }

    /// The number of connections so far.
    pub fn connections(&self) -> usize {
        self.state().connections
    }

    /// Waits until it has received `count` requests, and returns all requests.
    #[track_caller]
    pub fn wait_for_requests(&self, count: usize) -> impl Future<Output = Vec<ReceivedHook>> + '_ {
        eventually(async move || {
            let requests = self.requests();
            if requests.len() >= count { Ok(requests) } else { Err(format!("{} of {count} requests", requests.len())) }
        })
    }
}

async fn serve(receiver: Receiver, mut stream: TcpStream) {
    let mut bytes = Vec::new();
    while let Some(request) = read(&mut stream, &mut bytes).await {
        let reaction = {
            let mut state = receiver.state();
            state.received.push(request);
            state.reaction
        };
        let (text, goes_on) = match reaction {
            ReceiverBehaviour::Answer(status) => (format!("HTTP/1.1 {status} Said\r\ncontent-length: 0\r\n\r\n"), true),
            ReceiverBehaviour::Bytes(text) => (text.to_owned(), false),
            ReceiverBehaviour::Hang(text) => (text.to_owned(), false),
        };
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
        if matches!(reaction, ReceiverBehaviour::Hang(_)) {
            // The loop ends when the other side closes.
            while stream.read(&mut [0; 256]).await.is_ok_and(|count| count > 0) {}
        }
        if !goes_on {
            return;
        }
    }
}

/// Reads a request with a length.
async fn read(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<ReceivedHook> {
    loop {
        if let Some(head_ends) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..head_ends]).into_owned();
            let mut lines = head.lines();
            let path = lines.next()?.split(' ').nth(1)?.to_owned();
            let header = |line: &str| {
                let (name, value) = line.split_once(':')?;
                Some((name.to_ascii_lowercase(), value.trim().to_owned()))
            };
            let headers: HashMap<String, String> = lines.filter_map(header).collect();
            let length: usize = headers.get("content-length")?.parse().ok()?;
            let end = head_ends + 4 + length;
            if bytes.len() >= end {
                let body = Bytes::copy_from_slice(&bytes[head_ends + 4..end]);
                bytes.drain(..end);
                return Some(ReceivedHook { path, headers, body, at: Instant::now() });
            }
        }
        if stream.read_buf(bytes).await.ok()? == 0 {
            return None;
        }
    }
}
