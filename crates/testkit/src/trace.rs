//! What a process asked of the system, in what order, as `strace` saw it.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

/// The calls that tell what reaches the disk, under what name, and who is told.
const CALLS: &str = "trace=write,writev,pwrite64,pwritev,pwritev2,sendto,sendmsg,fsync,fdatasync,openat,mkdir,mkdirat,\
                     rename,renameat,renameat2,link,linkat,unlink,unlinkat";

/// Calls in the order of their beginnings.
pub struct Trace {
    /// All that are done.
    pub calls: Vec<Call>,
}

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// Its arguments; open files with their paths in angle brackets, texts in quotes.
    pub arguments: String,
    /// What it returned; errors have their names with it.
    pub result: String,
    /// The line on which it began.
    pub began: usize,
    /// The line on which it was done.
    pub ended: usize,
}

impl Call {
    /// Whether its data are on the disk when it has ended.
    pub fn syncs(&self, file: &str) -> bool {
        matches!(self.name.as_str(), "fsync" | "fdatasync") && self.result == "0" && self.is_on(file)
    }

    /// Whether it writes to an open file.
    pub fn writes(&self, file: &str) -> bool {
        let is_write = matches!(self.name.as_str(), "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2");
        is_write && self.is_on(file)
    }

    /// Whether its open file is the one whose path ends like this.
    fn is_on(&self, file: &str) -> bool {
        let path = self.arguments.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
        path.is_some_and(|(path, _)| path.ends_with(file))
    }

    /// Whether it succeeded.
    pub fn is_done(&self) -> bool {
        !self.result.starts_with('-')
    }

    /// The texts among its arguments.
    pub fn texts(&self) -> Vec<&str> {
        self.arguments.split('"').skip(1).step_by(2).collect()
    }
}

impl Trace {
    /// A program whose calls are added to a file. The tracer stands aside, so that the program is the caller's own child.
    pub(crate) fn command(file: &Path, program: &Path) -> Command {
        let mut command = Command::new("strace");
        command.args(["-D", "-f", "-y", "-A", "-s", "200", "-e", CALLS, "-e", "signal=none", "-o"]).arg(file);
        command.arg("--").arg(program);
        command
    }

    pub(crate) fn read(file: &Path) -> Trace {
        let text = std::fs::read(file).unwrap_or_else(|error| panic!("strace wrote nothing: {error}"));
        let text = String::from_utf8_lossy(&text);
        let mut calls: Vec<Call> = Vec::new();
        // By thread, what has begun and not ended.
        let mut open: HashMap<&str, (usize, String)> = HashMap::new();
        for (at, line) in text.lines().enumerate() {
            let Some((thread, call)) = line.split_once(' ') else { continue };
            let call = call.trim_start();
            let (began, whole) = match call.strip_suffix(" <unfinished ...>") {
                Some(begun) => {
                    open.insert(thread, (at, begun.to_owned()));
                    continue;
                }
                None if call.starts_with("<... ") => {
                    let Some((began, begun)) = open.remove(thread) else { continue };
                    (began, begun + call.split_once("resumed>").map_or("", |(_, rest)| rest))
                }
                None => (at, call.to_owned()),
            };
            let Some((name, rest)) = whole.split_once('(') else { continue };
            let Some((arguments, result)) = rest.rsplit_once(" = ") else { continue };
            calls.push(Call {
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
