//! The answers of the floor, which every server must repeat: a line each, with marks at the places where answers can differ.

use crate::failure::Failure;
use crate::request::{Operation, Requests, parse};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

/// The marks. A JSON text never contains these bytes.
const NUMBER: char = '\u{1}';
const MOMENT: char = '\u{2}';
const SENT: char = '\u{3}';

const MOMENT_BYTES: usize = "2026-01-31T09:30:00.123456Z".len();

/// An answer, split at its marks.
pub struct Answer {
    start: String,
    rest: Vec<(char, String)>,
}

impl Answer {
    fn parse(line: &str) -> Answer {
        let mut answer = Answer { start: String::new(), rest: Vec::new() };
        let mut text = line;
        while let Some(at) = text.rfind([NUMBER, MOMENT, SENT]) {
            let mark = text[at..].chars().next().unwrap_or(SENT);
            answer.rest.insert(0, (mark, text[at + 1..].to_owned()));
            text = &text[..at];
        }
        text.clone_into(&mut answer.start);
        answer
    }

    /// Returns whether a body is this answer, byte for byte except for the marks.
    pub fn is(&self, body: &[u8], sent: &str) -> bool {
        let Some(mut body) = body.strip_prefix(self.start.as_bytes()) else { return false };
        for (mark, text) in &self.rest {
            let length = match *mark {
                NUMBER => body.iter().take_while(|byte| byte.is_ascii_digit()).count(),
                MOMENT => MOMENT_BYTES,
                _ if body.starts_with(sent.as_bytes()) => sent.len(),
                _ => return false,
            };
            let Some(next) = body.get(length..).and_then(|body| body.strip_prefix(text.as_bytes())) else {
                return false;
            };
            body = next;
        }
        body.is_empty()
    }
}

/// Reads the answers of an operation. Logins have none, because their answers differ completely.
pub fn read(expected: &Path, operation: &str) -> Result<Vec<Answer>, Failure> {
    if operation == "login" {
        return Ok(Vec::new());
    }
    Ok(fs::read_to_string(expected.join(operation))?.lines().map(Answer::parse).collect())
}

/// Returns the number of users, which is the number of answers to `get`.
pub fn users(expected: &Path) -> Result<usize, Failure> {
    Ok(fs::read_to_string(expected.join("users"))?.trim().parse()?)
}

/// Requests every answer from the floor.
pub fn record(address: &str, directory: &Path, expected: &Path) -> Result<(), Failure> {
    fs::create_dir_all(expected)?;
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let list = ask(&mut stream, &Requests::new(Operation::List, 1, directory, 0)?.case(0).bytes)?;
    let users: usize = after(&list, "\"total_count\":").split(',').next().unwrap_or("").parse()?;
    fs::write(expected.join("users"), users.to_string())?;
    for (name, cases) in
        [("list", 1), ("search", crate::seed::PARTS.len()), ("get", users), ("patch", users), ("create", 1)]
    {
        let mut requests = Requests::new(Operation::named(name)?, users, directory, 0)?;
        let mut lines = String::new();
        for case in 0..cases {
            let request = requests.case(case);
            let mut answer = ask(&mut stream, &request.bytes)?;
            if name == "patch" || name == "create" {
                answer = answer.replacen(&request.sent, &SENT.to_string(), 1);
                answer = mark(&answer, "\"modified_at\":\"", MOMENT_BYTES, MOMENT);
            }
            if name == "create" {
                answer = mark(&answer, "\"created_at\":\"", MOMENT_BYTES, MOMENT);
                let digits = after(&answer, "{\"id\":").bytes().take_while(u8::is_ascii_digit).count();
                answer = mark(&answer, "{\"id\":", digits, NUMBER);
            }
            lines.push_str(&answer);
            lines.push('\n');
        }
        fs::write(expected.join(name), lines)?;
    }
    Ok(())
}

fn after<'a>(text: &'a str, what: &str) -> &'a str {
    text.split_once(what).map_or("", |(_, rest)| rest)
}

fn mark(text: &str, before: &str, length: usize, mark: char) -> String {
    let at = text.find(before).map_or(text.len(), |at| at + before.len());
    let rest = text.get(at + length..).unwrap_or("");
    format!("{}{mark}{rest}", &text[..at])
}

/// Sends a request and returns the body of its answer, which must be successful.
pub fn ask(stream: &mut TcpStream, request: &[u8]) -> Result<String, Failure> {
    stream.write_all(request)?;
    let mut answer = Vec::new();
    let mut part = [0; 64 * 1024];
    loop {
        if let Some((status, body)) = parse(&answer) {
            let body = String::from_utf8(body.to_vec())?;
            return if status < 300 { Ok(body) } else { Err(format!("{status} {body}").into()) };
        }
        match stream.read(&mut part)? {
            0 => return Err("the server hung up".into()),
            length => answer.extend_from_slice(&part[..length]),
        }
    }
}
