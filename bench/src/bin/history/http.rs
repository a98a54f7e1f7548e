//! A persistent connection with almost no overhead.

use super::Failure;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// A connection to the history service.
pub struct Connection {
    stream: BufReader<TcpStream>,
    key: String,
}

impl Connection {
    /// Opens a connection.
    pub fn open(address: &str, key: &str) -> Result<Connection, Failure> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream: BufReader::new(stream), key: key.to_owned() })
    }

    /// Sends a text.
    pub fn call(&mut self, method: &str, path: &str, client: &str, body: &str) -> Result<String, Failure> {
        self.send(method, path, client, body.as_bytes())
    }

    /// Returns the body of a successful answer.
    pub fn send(&mut self, method: &str, path: &str, client: &str, body: &[u8]) -> Result<String, Failure> {
        let client = if client.is_empty() { String::new() } else { format!("x-client-id: {client}\r\n") };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: bench\r\nx-api-key: {}\r\n{client}content-length: {}\r\n\r\n",
            self.key,
            body.len()
        );
        let stream = self.stream.get_mut();
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        let (mut status, mut length, mut is_chunked) = (String::new(), 0, false);
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
            is_chunked |= line == "transfer-encoding: chunked";
        }
        let mut answer = Vec::new();
        while is_chunked {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim(), 16)?;
            let start = answer.len();
            answer.resize(start + size + 2, 0);
            self.stream.read_exact(&mut answer[start..])?;
            answer.truncate(start + size);
            is_chunked = size > 0;
        }
        let start = answer.len();
        answer.resize(start + length, 0);
        self.stream.read_exact(&mut answer[start..])?;
        let answer = String::from_utf8(answer)?;
        if status.split(' ').nth(1).is_some_and(|status| status.starts_with('2')) {
            Ok(answer)
        } else {
            Err(format!("{} {answer}", status.trim()).into())
        }
    }
}
