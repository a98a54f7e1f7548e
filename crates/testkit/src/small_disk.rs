//! A small file system of a test's own, which can be filled. It is mounted where no other process sees it but those that
//! are started there, so that root is not needed where Linux lets users have such mounts.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A mounted file system, gone with its files when this is dropped.
pub struct SmallDisk {
    /// Keeps the mount, and ends with the process that started it, since its standard input ends then.
    keeper: Child,
    path: PathBuf,
    is_root: bool,
}

impl SmallDisk {
    /// Mounts one over a directory.
    pub fn mount(path: &Path, mebibytes: u32) -> SmallDisk {
        let is_root = crate::is_root();
        let mut command = Command::new("unshare");
        command.arg("--mount").args((!is_root).then_some("--map-root-user"));
        let mut keeper = command
            .args(["sh", "-c", "mount -t tmpfs -o size=$0m,mode=700 none \"$1\" && echo mounted && exec cat"])
            .arg(mebibytes.to_string())
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("unshare does not start: {error}"));
        let mut line = String::new();
        let output = keeper.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("it tells how it went");
        assert_eq!(line, "mounted\n", "no small disk can be mounted here");
        SmallDisk { keeper, path: path.to_owned(), is_root }
    }

    /// A program that sees it, in a working directory.
    pub(crate) fn command(&self, directory: &Path, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.keeper.id())).arg("--mount");
        if !self.is_root {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.args(["sh", "-c", "cd \"$0\" && exec \"$@\""]).arg(directory).arg(program);
        command
    }

    /// Takes all the room that is left.
    pub fn fill(&self) {
        let mut file = File::options().append(true).create(true).open(self.filler()).expect("the disk can be written");
        for size in [1 << 16, 1 << 12, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }

    /// Gives it back.
    pub fn free(&self) {
        std::fs::remove_file(self.filler()).expect("the disk was filled");
    }

    fn filler(&self) -> PathBuf {
        let inside = self.path.strip_prefix("/").expect("temporary directories are named from the root");
        Path::new("/proc").join(self.keeper.id().to_string()).join("root").join(inside).join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}
