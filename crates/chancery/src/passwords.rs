//! Passwords that commands read from other sources than the command line, which all users of the machine can see.

use crate::cli::PasswordSource;
use crate::open::CommandFailure;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

/// A number of bytes that is greater than the maximum of any password.
const MAX_BYTES: u64 = 64 * 1024;

/// Reads the password from the source of a command. `None` if the command names no source. A terminal does not show the typed text.
pub fn read(source: &PasswordSource) -> Result<Option<String>, CommandFailure> {
    if let Some(path) = &source.password_file {
        let name = format!("--password-file: {}", path.display());
        let file = File::open(path).map_err(|error| format!("{name}: {error}"))?;
        return from(file, &name).map(Some);
    }
    if !source.password_stdin {
        return Ok(None);
    }
    if io::stdin().is_terminal() {
        prompt_password().map(Some)
    } else {
        from(io::stdin(), "--password-stdin").map(Some)
    }
}

/// Asks for a password on the terminal.
pub fn prompt_password() -> Result<String, CommandFailure> {
    rpassword::prompt_password("Password: ").map_err(|error| error.to_string())
}

/// Reads the passphrase of an archive from a file, or asks for it on the terminal.
pub fn read_passphrase(file: Option<&Path>) -> Result<String, CommandFailure> {
    match file {
        Some(path) => {
            let name = format!("--passphrase-file: {}", path.display());
            from(File::open(path).map_err(|error| format!("{name}: {error}"))?, &name)
        }
        None if io::stdin().is_terminal() => {
            rpassword::prompt_password("Passphrase: ").map_err(|error| error.to_string())
        }
        None => Err("--passphrase-file: must be given where there is no terminal to ask on".to_owned()),
    }
}

/// Reads a password to the end of its source, without a newline at the end.
fn from(source: impl Read, name: &str) -> Result<String, CommandFailure> {
    let mut text = String::new();
    let outcome = source.take(MAX_BYTES + 1).read_to_string(&mut text);
    outcome.map_err(|error| format!("{name}: {error}"))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(format!("{name}: longer than {MAX_BYTES} bytes"));
    }
    let password = text.strip_suffix('\n').map_or(&*text, |line| line.strip_suffix('\r').unwrap_or(line));
    if password.is_empty() { Err(format!("{name}: the password is empty")) } else { Ok(password.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_newline_behind_a_password_is_dropped() {
        for (input, password) in [("a b", "a b"), ("a b\n", "a b"), ("a b\r\n", "a b"), (" a\nb \n\n", " a\nb \n")] {
            assert_eq!(from(input.as_bytes(), "x").unwrap(), password, "{input:?}");
        }
    }

    #[test]
    fn invalid_passwords_are_refused() {
        for input in ["", "\n", "\r\n"] {
            assert_eq!(from(input.as_bytes(), "x").unwrap_err(), "x: the password is empty", "{input:?}");
        }
        assert_eq!(from(&b"\xff"[..], "x").unwrap_err(), "x: stream did not contain valid UTF-8");
        assert_eq!(from(io::repeat(b'a'), "x").unwrap_err(), "x: longer than 65536 bytes");
    }
}
