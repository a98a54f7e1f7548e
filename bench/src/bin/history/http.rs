//! A kept connection that costs next to nothing.

use super::Failure;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// A connection to the history service.
pub struct Connection {
    stream: BufReader<TcpStream>,
    key: String,
}

impl Connection {
    /// Opens one.
    pub fn open(address: &str, key: &str) -> Result<Connection, Failure> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream: BufReader::new(stream), key: key.to_owned() })
    }

    /// The body of the answer, if it is a good one.
    pub fn call(&mut self, method: &str, path: &str, client: &str, body: &str) -> Result<String, Failure> {
        let client = if client.is_empty() { String::new() } else { format!("x-client-id: {client}\r\n") };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: bench\r\nx-api-key: {}\r\n{client}content-length: {}\r\n\r\n",
            self.key,
            body.len()
        );
        let stream = self.stream.get_mut();
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        let (mut status, mut length) = (String::new(), 0);
        self.stream.read_line(&mut status)?;
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err("the connection ended".into());
            }
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer)?;
        let answer = String::from_utf8(answer)?;
        if status.split(' ').nth(1).is_some_and(|status| status.starts_with('2')) {
            Ok(answer)
        } else {
            Err(format!("{} {answer}", status.trim()).into())
        }
    }
}
