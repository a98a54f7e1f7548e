//! What all parts of reading a repository share: its bounds, its errors, and the names of objects.

use std::fmt;
use std::time::Instant;

/// The most bytes that a server may send for an import.
pub const MAX_RECEIVED: u64 = 64 * 1024 * 1024;
/// The most objects of a commit: files, directories, and what is not served.
pub const MAX_OBJECTS: u32 = 10_000;
/// The most bytes of an object, and so of a file.
pub const MAX_OBJECT: u64 = 10 * 1024 * 1024;
/// The most bytes of all objects.
pub const MAX_ALL_OBJECTS: u64 = 64 * 1024 * 1024;
/// The most files of a commit.
pub const MAX_FILES: usize = 2_000;
/// The most bytes of all files, each counted as often as it is in the tree.
pub const MAX_ALL_FILES: u64 = 50 * 1024 * 1024;

/// Why a repository was not read. Its texts are what users are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitError {
    /// There is no connection, or no answer in time, or the server refuses: a user learns no more of a network.
    Unreachable,
    /// The server is none of git, or sends what is no repository.
    Unreadable,
    TooLarge,
    /// Our own disk failed.
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

/// The name of an object: the SHA-1 of its kind, length and bytes.
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

/// An error when a deadline is over.
pub fn check_deadline(deadline: Instant) -> Result<(), GitError> {
    if Instant::now() < deadline { Ok(()) } else { Err(GitError::Unreachable) }
}
