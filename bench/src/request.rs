//! The requests of each operation, and the parser of answers.

use crate::failure::Failure;
use crate::seed::{ADMIN, Dice, PARTS};
use std::path::Path;

/// A measured operation.
#[derive(Clone, Copy, PartialEq)]
pub enum Operation {
    /// Lists the newest 25 users.
    List,
    /// Lists the newest 25 users whose names contain a text.
    Search,
    /// Reads one user.
    Get,
    /// Changes the job title of one user.
    Patch,
    /// Creates a user without a mail.
    Create,
    /// Signs in with a correct password.
    Login,
}

impl Operation {
    /// Returns the operation with this name.
    pub fn named(name: &str) -> Result<Operation, Failure> {
        Ok(match name {
            "list" => Operation::List,
            "search" => Operation::Search,
            "get" => Operation::Get,
            "patch" => Operation::Patch,
            "create" => Operation::Create,
            "login" => Operation::Login,
            _ => return Err(format!("{name}: no such operation").into()),
        })
    }
}

/// A request and its expected answer.
pub struct Request {
    /// The index of the expected answer among those of the operation.
    pub case: usize,
    /// The sent text, which the answer must contain.
    pub sent: String,
    /// The bytes to send.
    pub bytes: Vec<u8>,
}

/// Creates requests.
pub struct Requests {
    operation: Operation,
    users: usize,
    token: String,
    dice: Dice,
    count: u64,
    stamp: u64,
}

impl Requests {
    /// Creates requests of an operation on a build with this number of users. `stamp` makes names that no other run uses.
    pub fn new(operation: Operation, users: usize, directory: &Path, stamp: u64) -> Result<Requests, Failure> {
        let token = std::fs::read_to_string(directory.join("token"))?;
        Ok(Requests { operation, users, token, dice: Dice::new(stamp), count: 0, stamp })
    }

    /// Returns the next request.
    pub fn next(&mut self) -> Request {
        let most = match self.operation {
            Operation::Search => PARTS.len(),
            Operation::Get | Operation::Patch => self.users,
            _ => 1,
        };
        let case = self.dice.roll(most as i64) as usize;
        self.case(case)
    }

    /// Returns the request of a case.
    pub fn case(&mut self, case: usize) -> Request {
        self.count += 1;
        let unique = format!("{:06}{:08}", self.stamp % 1_000_000, self.count);
        let id = case + 1;
        let (mut sent, mut body) = (String::new(), String::new());
        let line = match self.operation {
            Operation::List => "GET /api/users/?limit=25&ordering=-id".to_owned(),
            Operation::Search => format!("GET /api/users/?limit=25&ordering=-id&full_name__icontains={}", PARTS[case]),
            Operation::Get => format!("GET /api/users/{id}/"),
            Operation::Patch => {
                sent = format!("Job {unique}");
                body = format!(r#"{{"job_title":"{sent}"}}"#);
                format!("PATCH /api/users/{id}/")
            }
            Operation::Create => {
                sent = format!("new.{unique}@example.com");
                body = format!(
                    r#"{{"username":"{sent}","account_type":"external","first_name":"New","last_name":"Person","job_title":"Clerk","company_name":"Alder Ltd","phone":"+49 30 1","mobile":"+49 170 1","timezone":"UTC","delay_activation":true}}"#
                );
                "POST /api/users/".to_owned()
            }
            Operation::Login => {
                body = format!(r#"{{"username":"{}","password":"{}"}}"#, ADMIN.0, ADMIN.1);
                "POST /api/auth/login/".to_owned()
            }
        };
        let mut text = head(&line, "localhost", &self.token);
        if !body.is_empty() {
            text.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
        }
        Request { case, sent, bytes: format!("{text}\r\n{body}").into_bytes() }
    }
}

/// Returns the head of a request without the empty line at its end.
pub fn head(line: &str, host: &str, token: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: {host}\r\nAuthorization: JWT {token}\r\n")
}

/// Returns the status and body of an answer, when it is complete. Both servers send its length.
pub fn parse(answer: &[u8]) -> Option<(u16, &[u8])> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let status = head.get(9..12)?.parse().ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        if name.eq_ignore_ascii_case("content-length") { value.parse::<usize>().ok() } else { None }
    });
    let body = answer.get(end + 4..end + 4 + length?)?;
    Some((status, body))
}
