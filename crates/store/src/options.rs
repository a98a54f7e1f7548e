//! Which engine a store uses, and its sizes and limits.

use std::path::PathBuf;
use std::time::Duration;

/// The engine, and where it keeps the databases.
#[derive(Clone, Debug)]
pub enum StoreEngine {
    /// SQLite in this process: `control.db` and `builds/*.db` (see [`Options::folder`]) under a directory, which is
    /// created if it does not exist.
    Sqlite {
        /// The data directory.
        directory: PathBuf,
    },
    /// A PostgreSQL database with the schema `chancery` and a schema for each build.
    Postgres {
        /// A connection URL. `sslmode=require` (or `verify-full`) encrypts and checks the server against the
        /// system's root certificates.
        url: String,
    },
}

/// Sizes and limits of a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// SQLite: the folder of the databases of builds, below the directory.
    pub folder: &'static str,
    /// SQLite: threads that run reads. No database gets all of them: see `task_queue.rs`.
    pub readers: usize,
    /// SQLite: threads that run writes. All writes of one build run on the same thread.
    pub writers: usize,
    /// SQLite: how many database files all threads together keep open. Each takes two or three file descriptors. The
    /// default uses an eighth of those that the process may have, because a process may have two stores.
    pub open_files: usize,
    /// PostgreSQL: connections with a thread each, shared among databases as the readers of SQLite are.
    pub postgres_connections: usize,
    /// Whether this process must be the only one that has the databases open. If another has, or comes meanwhile, it gets
    /// [`StoreError::InUse`](crate::StoreError::InUse). On PostgreSQL one thread then does all work.
    pub alone: bool,
    /// How long a script may run before it is stopped with [`StoreError::Slow`](crate::StoreError::Slow).
    pub time_limit: Duration,
    /// SQLite: the maximal size of a database in pages of 4 KiB, by which tests simulate a full disk.
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

/// How many file descriptors the process may have.
fn descriptors() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}
