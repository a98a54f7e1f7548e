//! The shared parts of reading a repository: its bounds, its errors, and the ids of objects.

use std::fmt;
use std::time::Instant;

/// The maximum number of bytes that a server may send for an import.
pub const MAX_RECEIVED: u64 = 64 * 1024 * 1024;
/// The maximum number of objects of a commit: files, directories, and objects that are not served.
pub const MAX_OBJECTS: u32 = 10_000;
/// The maximum size of an object, and therefore of a file, in bytes.
pub const MAX_OBJECT: u64 = 10 * 1024 * 1024;
/// The maximum size of all objects, in bytes.
pub const MAX_ALL_OBJECTS: u64 = 64 * 1024 * 1024;
/// The maximum number of files of a commit.
pub const MAX_FILES: usize = 2_000;
/// The maximum size of all files, in bytes. A file counts once for each of its paths.
pub const MAX_ALL_FILES: u64 = 50 * 1024 * 1024;

/// The reason why a repository was not read. Its texts are shown to users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitError {
    /// The connection failed, the answer was late, or the server refused. Users get no further details of a network.
    Unreachable,
    /// The server does not support git, or does not send a repository.
    Unreadable,
    TooLarge,
    /// The disk of this server failed.
    Disk,
}

impl fmt::Display for GitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GitError::Unreachable => "Repository is not reachable, or access to it is not permitted.",
            GitError::Unreadable => "Repository could not be read.",
            GitError::TooLarge => {
                "Repository is too large. Up to 2000 files, 50 MB in all and 10 MB a file, are allowed."
            }
            GitError::Disk => "Repository could not be stored.",
        })
    }
}

/// The id of an object: the SHA-1 of its kind, length and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id(pub [u8; 20]);

impl Id {
    /// Reads 40 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Id> {
        let mut bytes = [0; 20];
        if text.len() != 40 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (byte, at) in bytes.iter_mut().zip((0..40).step_by(2)) {
            *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
        }
        Some(Id(bytes))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Fails if a deadline is over.
pub fn check_deadline(deadline: Instant) -> Result<(), GitError> {
    if Instant::now() < deadline { Ok(()) } else { Err(GitError::Unreachable) }
}
