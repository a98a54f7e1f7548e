//! The output of commands. A closed or full output is a failure of the command, where `println!` would panic.

use crate::open::CommandFailure;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use std::fmt::Display;
use std::io::{self, Write};

/// Prints a line on standard output.
pub fn print_line(line: impl Display) -> Result<(), CommandFailure> {
    say_lines(&format!("{line}\n"))
}

/// Prints lines on standard output without a change.
pub fn say_lines(lines: &str) -> Result<(), CommandFailure> {
    let mut output = io::stdout().lock();
    let written = output.write_all(lines.as_bytes()).and_then(|()| output.flush());
    written.map_err(|error| format!("standard output: {error}"))
}

/// Prints a JSON value on standard output, indented.
pub fn print_json(value: &Value) -> Result<(), CommandFailure> {
    print_line(format_args!("{value:#}"))
}

/// Prints a line on standard error. Ignores a failure, because the output can be closed.
pub fn print_error_line(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Creates a progress bar on standard error, if that is a terminal.
pub fn progress(title: &'static str, length: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{msg:20} {bar:30} {pos}/{len}").unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style).with_message(title)
}
