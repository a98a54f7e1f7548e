//! The system calls of a process in their order, as traced by `strace`.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

/// The system calls that are traced: writes, syncs, changes of names, and sends.
const TRACED_CALLS: &str = "trace=write,writev,pwrite64,pwritev,pwritev2,sendto,sendmsg,fsync,fdatasync,openat,mkdir,mkdirat,\
                     rename,renameat,renameat2,link,linkat,unlink,unlinkat";

/// A trace of system calls.
pub struct Trace {
    /// The completed calls, in the order in which they began.
    pub calls: Vec<SystemCall>,
}

/// A system call.
#[derive(Clone, Debug)]
pub struct SystemCall {
    /// The name of the system call.
    pub name: String,
    /// The arguments; file descriptors have their paths in angle brackets, and texts are in quotes.
    pub arguments: String,
    /// The returned value; with an error, also its name.
    pub result: String,
    /// The line of the trace on which the call began.
    pub began: usize,
    /// The line of the trace on which the call ended.
    pub ended: usize,
}

impl SystemCall {
    /// Returns whether the call has synced the file whose path ends with `file`.
    pub fn syncs(&self, file: &str) -> bool {
        matches!(self.name.as_str(), "fsync" | "fdatasync") && self.result == "0" && self.is_on(file)
    }

    /// Returns whether the call writes to the file whose path ends with `file`.
    pub fn writes(&self, file: &str) -> bool {
        let is_write = matches!(self.name.as_str(), "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2");
        is_write && self.is_on(file)
    }

    /// Returns whether the call is on the file whose path ends with `file`.
    fn is_on(&self, file: &str) -> bool {
        let path = self.arguments.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
        path.is_some_and(|(path, _)| path.ends_with(file))
    }

    /// Returns whether the call succeeded.
    pub fn is_done(&self) -> bool {
        !self.result.starts_with('-')
    }

    /// Returns the quoted texts in the arguments.
    pub fn texts(&self) -> Vec<&str> {
        self.arguments.split('"').skip(1).step_by(2).collect()
    }
}

impl Trace {
    /// Returns a command that runs a program and appends its calls to a file. The tracer runs detached, so that the
    /// program is a direct child of the test.
    pub(crate) fn command(file: &Path, program: &Path) -> Command {
        let mut command = Command::new("strace");
        command.args(["-D", "-f", "-y", "-A", "-s", "200", "-e", TRACED_CALLS, "-e", "signal=none", "-o"]).arg(file);
        command.arg("--").arg(program);
        command
    }

    pub(crate) fn read(file: &Path) -> Trace {
        let text = std::fs::read(file).unwrap_or_else(|error| panic!("strace wrote nothing: {error}"));
        let text = String::from_utf8_lossy(&text);
        let mut calls: Vec<SystemCall> = Vec::new();
        // The unfinished call of each thread.
        let mut unfinished: HashMap<&str, (usize, String)> = HashMap::new();
        for (at, line) in text.lines().enumerate() {
            let Some((thread, call)) = line.split_once(' ') else { continue };
            let call = call.trim_start();
            let (began, whole) = match call.strip_suffix(" <unfinished ...>") {
                Some(beginning) => {
                    unfinished.insert(thread, (at, beginning.to_owned()));
                    continue;
                }
                None if call.starts_with("<... ") => {
                    let Some((began, beginning)) = unfinished.remove(thread) else { continue };
                    (began, beginning + call.split_once("resumed>").map_or("", |(_, rest)| rest))
                }
                None => (at, call.to_owned()),
            };
            let Some((name, rest)) = whole.split_once('(') else { continue };
            let Some((arguments, result)) = rest.rsplit_once(" = ") else { continue };
            calls.push(SystemCall {
                name: name.to_owned(),
                arguments: arguments.to_owned(),
                result: result.trim().to_owned(),
                began,
                ended: at,
            });
        }
        calls.sort_by_key(|call| call.began);
        Trace { calls }
    }
}
