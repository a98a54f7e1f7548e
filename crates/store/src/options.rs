//! Which engine a store uses, and its sizes and limits.

use std::path::PathBuf;
use std::time::Duration;

/// Where the databases live.
#[derive(Clone, Debug)]
pub enum Engine {
    /// Embedded: `control.db` and `builds/*.db` (see [`Options::folder`]) under a directory, which is made if need be.
    Sqlite {
        /// The data directory.
        directory: PathBuf,
    },
    /// A PostgreSQL database: schema `chancery` and a schema per build.
    Postgres {
        /// A connection URL. `sslmode=require` (or `verify-full`) encrypts and checks the server against the
        /// system's root certificates.
        url: String,
    },
}

/// Sizes and limits.
#[derive(Clone, Debug)]
pub struct Options {
    /// SQLite: the folder of all databases but the control database, below the directory.
    pub folder: &'static str,
    /// SQLite: threads that run reads. A database has half of them at most while others have none, and so on.
    pub readers: usize,
    /// SQLite: threads that run writes; a build always has the same one.
    pub writers: usize,
    /// SQLite: databases that all threads together keep open; each takes two file descriptors, or three. An eighth of
    /// those that the process may have when these options are made, for it may have two stores.
    pub open_files: usize,
    /// PostgreSQL: connections, each with a thread; shared among databases as readers are.
    pub postgres_connections: usize,
    /// Whether no other process may have the databases open meanwhile: [`Error::InUse`] where one has, and for those that
    /// come. PostgreSQL: with one connection only.
    pub alone: bool,
    /// How long a script may run before it is stopped with [`Error::Slow`].
    pub time_limit: Duration,
    /// SQLite: the greatest size of a database in pages of 4 KiB; stands for a full disk in tests.
    pub page_limit: Option<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            folder: "builds",
            readers: 8,
            writers: 4,
            open_files: descriptors() / 8 / 3,
            postgres_connections: 16,
            alone: false,
            time_limit: Duration::from_secs(10),
            page_limit: None,
        }
    }
}

/// File descriptors that the process may have.
fn descriptors() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}
