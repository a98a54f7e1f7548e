//! The load: one thread, 16 connections, each with one request at a time. Prints a line for the table.

use crate::expected::{self, Answer};
use crate::failure::Failure;
use crate::process::{self, Usage};
use crate::request::{Operation, Request, Requests, parse};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(30);

struct Connection {
    stream: TcpStream,
    request: Request,
    started: Instant,
    answer: Vec<u8>,
}

/// Measures one operation.
pub fn run(
    address: &str,
    directory: &Path,
    expected: &Path,
    operation: &str,
    seconds: &str,
    pids: &[&str],
) -> Result<(), Failure> {
    let answers = expected::read(expected, operation)?;
    let users = expected::users(expected)?;
    let mut requests = Requests::new(Operation::named(operation)?, users, directory, stamp())?;
    let pids: Vec<u32> = pids.iter().map(|pid| pid.parse()).collect::<Result<_, _>>()?;

    let mut poll = Poll::new()?;
    let mut connections = Vec::with_capacity(CONNECTIONS);
    for at in 0..CONNECTIONS {
        let stream = std::net::TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry().register(&mut stream, Token(at), Interest::READABLE)?;
        connections.push(Connection { stream, request: requests.next(), started: Instant::now(), answer: Vec::new() });
    }

    let mut times = Vec::with_capacity(1 << 20);
    let mut wrong = 0_u64;
    let before = Usage::of(&pids);
    let started = Instant::now();
    let end = started + Duration::from_secs_f64(seconds.parse()?);
    for connection in &mut connections {
        connection.start()?;
    }
    let mut events = Events::with_capacity(CONNECTIONS);
    while Instant::now() < end {
        poll.poll(&mut events, Some(PATIENCE))?;
        if events.is_empty() {
            return Err("no answer for 30 s".into());
        }
        for event in &events {
            let connection = &mut connections[event.token().0];
            if connection.read()?
                && let Some((status, body)) = parse(&connection.answer)
            {
                times.push(connection.started.elapsed().as_nanos() as u64);
                if !is_right(&answers, &connection.request, status, body) {
                    wrong += 1;
                    if wrong == 1 {
                        eprintln!("{operation}: {status} {}", String::from_utf8_lossy(&body[..body.len().min(2000)]));
                    }
                }
                connection.request = requests.next();
                connection.start()?;
            }
        }
    }
    let elapsed = started.elapsed();
    let used = Usage::of(&pids).since(&before);
    times.sort_unstable();
    let count = times.len().max(1);
    let at = |share: f64| times.get((count as f64 * share) as usize).copied().unwrap_or(0) as f64 / 1e6;
    println!(
        "{operation},{:.1},{:.3},{:.3},{wrong},{:.1},{:.1}",
        times.len() as f64 / elapsed.as_secs_f64(),
        at(0.5),
        at(0.99),
        used.microseconds / count as f64,
        process::peak(&pids)
    );
    Ok(())
}

fn is_right(answers: &[Answer], request: &Request, status: u16, body: &[u8]) -> bool {
    (200..300).contains(&status) && answers.get(request.case).is_none_or(|answer| answer.is(body, &request.sent))
}

impl Connection {
    fn start(&mut self) -> Result<(), Failure> {
        self.answer.clear();
        self.started = Instant::now();
        // Some hundred bytes always fit into the socket's buffer.
        if self.stream.write(&self.request.bytes)? == self.request.bytes.len() {
            Ok(())
        } else {
            Err("a full socket".into())
        }
    }

    /// Reads the received bytes. Returns `false` if there were none.
    fn read(&mut self) -> Result<bool, Failure> {
        let mut part = [0; 64 * 1024];
        loop {
            match self.stream.read(&mut part) {
                Ok(0) => return Err("the server hung up".into()),
                Ok(length) => self.answer.extend_from_slice(&part[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(!self.answer.is_empty()),
                Err(error) => return Err(error.into()),
            }
            // The buffer was not filled, so no more bytes are available now. The next poll reports later ones.
            if parse(&self.answer).is_some() {
                return Ok(true);
            }
        }
    }
}

/// Waits for the first 200 of a server that has just been started, and prints the time.
pub fn first(address: &str, directory: &Path, path: &str) -> Result<(), Failure> {
    let started = Instant::now();
    let token = std::fs::read_to_string(directory.join("token")).unwrap_or_default();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: JWT {token}\r\n\r\n");
    while started.elapsed() < PATIENCE {
        if let Ok(mut stream) = std::net::TcpStream::connect(address) {
            let mut answer = String::new();
            stream.write_all(request.as_bytes())?;
            stream.read_to_string(&mut answer)?;
            if answer.starts_with("HTTP/1.1 200") {
                println!("{:.1}", started.elapsed().as_secs_f64() * 1e3);
                return Ok(());
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(format!("no 200 from {address}{path} in 30 s").into())
}

/// Returns a number that no former run had.
#[expect(clippy::disallowed_methods, reason = "nobody fixes the time of a benchmark")]
fn stamp() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |since| since.as_millis() as u64 / 100)
}
