//! A fake server of a line-based protocol such as SMTP, with scripted answers. It records the lines that it receives.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Returns the answer to a received line; `None` if the server does not answer.
pub type Answers = fn(&str) -> Option<&'static str>;

/// A running fake server. Dropping it closes its listener.
pub struct FakeServer {
    /// The address of its listener.
    pub address: SocketAddr,
    listening: JoinHandle<()>,
    heard: Arc<Mutex<Vec<String>>>,
}

impl FakeServer {
    /// Starts a server on a free port. It sends `greeting` to each connection, and `answers` returns the answer to each
    /// line.
    pub async fn start(greeting: &'static str, answers: Answers) -> FakeServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let shared = heard.clone();
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve_connection(stream, greeting, answers, shared.clone()));
            }
        });
        FakeServer { address, listening, heard }
    }

    /// Returns a port without a listener.
    pub async fn closed_port() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        listener.local_addr().expect("a bound listener has an address").port()
    }

    /// The received lines, and `connected` for each connection.
    pub fn received_lines(&self) -> Vec<String> {
        web::lock(&self.heard).clone()
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn serve_connection(
    mut stream: TcpStream,
    greeting: &'static str,
    answers: Answers,
    heard: Arc<Mutex<Vec<String>>>,
) {
    let record = |line: &str| web::lock(&heard).push(line.to_owned());
    record("connected");
    let mut outcome = stream.write_all(greeting.as_bytes()).await;
    let (mut buffer, mut chunk) = (Vec::new(), [0; 1024]);
    while outcome.is_ok() {
        match stream.read(&mut chunk).await {
            Ok(byte_count) if byte_count > 0 => buffer.extend_from_slice(&chunk[..byte_count]),
            _ => return,
        }
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&buffer.drain(..=end).collect::<Vec<_>>()).trim_end().to_owned();
            record(&line);
            if let Some(answer) = answers(&line) {
                outcome = stream.write_all(answer.as_bytes()).await;
            }
        }
    }
}

/// The answers of a mail server without encryption that accepts every message.
pub fn takes_all(line: &str) -> Option<&'static str> {
    Some(match line.split(' ').next().unwrap_or("") {
        "EHLO" => "250-mail.test\r\n250 AUTH PLAIN\r\n",
        "AUTH" => "235 welcome\r\n",
        "DATA" => "354 go on\r\n",
        "MAIL" | "RCPT" | "." => "250 OK\r\n",
        "QUIT" => "221 bye\r\n",
        _ => return None,
    })
}
