//! A small file system that a test can fill. It is mounted in a separate mount namespace, which only processes of the
//! test enter. So root is not needed where Linux lets users create such namespaces.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A small mounted file system. Dropping it unmounts it and deletes its files.
pub struct SmallDisk {
    /// The process that owns the mount. It ends with the test process, since its standard input is closed then.
    keeper: Child,
    path: PathBuf,
    is_root: bool,
}

impl SmallDisk {
    /// Mounts a small file system on a directory.
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

    /// Returns a command that runs a program in the mount namespace, with a working directory.
    pub fn command(&self, directory: &Path, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.keeper.id())).arg("--mount");
        if !self.is_root {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.args(["sh", "-c", "cd \"$0\" && exec \"$@\""]).arg(directory).arg(program);
        command
    }

    /// Fills the file system completely.
    pub fn fill_disk(&self) {
        self.fill_but(0);
    }

    /// Fills the file system except some bytes.
    pub fn fill_but(&self, bytes: u64) {
        let mut file = File::options().append(true).create(true).open(self.filler()).expect("the disk can be written");
        for size in [1 << 16, 1 << 12, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
        let length = file.metadata().expect("it is open").len();
        file.set_len(length.saturating_sub(bytes)).expect("a file may become shorter");
    }

    /// Frees the space that [`SmallDisk::fill_disk`] has filled.
    pub fn free_space(&self) {
        std::fs::remove_file(self.filler()).expect("the disk was filled");
    }

    /// Returns the path of the file that fills the disk, as seen from outside the mount namespace.
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
