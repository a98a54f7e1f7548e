//! `chancery health`: asks a service on this machine whether it is ready, for health checks of containers.

use crate::cli::ServicePart;
use crate::open::CommandFailure;
use crate::output::{print_line, say_lines};
use crate::settings::{ProgramSettings, address_of};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The time limit of the connection, and of each read and write.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum length of an answer, in bytes.
const MAX_ANSWER: u64 = 1024 * 1024;

/// Sends `GET /readyz` to the listener in the settings (`docs/operations.md`, "Health"). Every status except 200 is a failure.
pub fn run(settings: &ProgramSettings, part: ServicePart, as_json: bool) -> Result<(), CommandFailure> {
    let listener = match part {
        ServicePart::Api => settings.listen,
        ServicePart::History => settings.history_listen,
    };
    let url = address_of(listener);
    let address = url.trim_start_matches("http://");
    let answer = fetch(address).map_err(|error| format!("{url}/readyz: {error}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap_or("no status");
    if as_json {
        say_lines(&format!("{body}\n"))?;
    }
    match (status, as_json) {
        ("200", true) => Ok(()),
        ("200", false) => print_line("ready"),
        (status, _) => Err(format!("{url}/readyz: not ready (status {status})")),
    }
}

fn fetch(address: &str) -> std::io::Result<String> {
    let target = address.parse().map_err(std::io::Error::other)?;
    let mut stream = TcpStream::connect_timeout(&target, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.take(MAX_ANSWER).read_to_string(&mut answer)?;
    Ok(answer)
}
