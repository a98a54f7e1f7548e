//! Restarts on a socket that stays open, as systemd passes it to the server (`docs/installing.md`, "systemd").

use crate::BINARY;
use serde_json::json;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use testkit::{ADMIN, ApiClient, Installation, PASSWORD, eventually_within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The number of clients of each kind, and of restarts.
const CLIENTS: usize = 4;
const RESTARTS: usize = 3;

/// The work of the clients so far.
#[derive(Default)]
struct Load {
    answered: AtomicUsize,
    is_over: AtomicBool,
}

impl Load {
    /// Counts an answer. Returns whether the client sends another request.
    fn count(&self) -> bool {
        self.answered.fetch_add(1, Ordering::Relaxed);
        !self.is_over.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_on_a_passed_socket_refuses_nobody() {
    let installation = Installation::with_build(BINARY);
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let mut server = installation.serve_api_on(&socket);
    let admin = ApiClient::new(address, "localhost").sign_in(ADMIN, PASSWORD).await;
    let role = admin.post("/api/roles/", json!({"name": "role"})).await.expect_created();
    let load = Arc::new(Load::default());
    let mut clients = Vec::new();
    for n in 0..CLIENTS {
        // A client with an open connection that writes, and a client with a new connection for each request.
        let (writing, admin, path) = (load.clone(), admin.clone(), format!("/api/roles/{}/", role["id"]));
        clients.push(tokio::spawn(async move {
            loop {
                admin.patch(&path, json!({"name": format!("role {n}")})).await.ok();
                if !writing.count() {
                    break;
                }
            }
        }));
        let reading = load.clone();
        clients.push(tokio::spawn(async move {
            loop {
                ask_on_new_connection(address).await;
                if !reading.count() {
                    break;
                }
            }
        }));
    }

    for _ in 0..RESTARTS {
        wait_for_answers(&load).await;
        server.stop();
        server = installation.serve_api_on(&socket);
    }
    wait_for_answers(&load).await;
    load.is_over.store(true, Ordering::Relaxed);

    for client in clients {
        client.await.expect("every request is answered with 200");
    }
}

/// Waits until the server has answered 100 more requests.
async fn wait_for_answers(load: &Load) {
    let before = load.answered.load(Ordering::Relaxed);
    eventually_within(Duration::from_secs(60), async || {
        let answered = load.answered.load(Ordering::Relaxed) - before;
        if answered >= 100 { Ok(()) } else { Err(format!("{answered} of 100 requests were answered")) }
    })
    .await;
}

async fn ask_on_new_connection(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).await.expect("the connection is accepted");
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.expect("the request is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("the request is answered");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}
