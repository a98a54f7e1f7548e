//! The engine of a store, its sizes and its limits.

use std::path::PathBuf;
use std::time::Duration;

/// The engine, and the location of the databases.
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
    /// SQLite: the number of threads that run reads. One database never gets all of them: see `task_queue.rs`.
    pub readers: usize,
    /// SQLite: the number of threads that run writes. All writes of one build run on the same thread.
    pub writers: usize,
    /// SQLite: the number of database files that all threads together may have open. Each file needs two or three file
    /// descriptors. The default uses an eighth of the descriptors of the process, because a process may have two
    /// stores.
    pub open_files: usize,
    /// PostgreSQL: the number of connections, with a thread each. Databases share them as they share the readers of
    /// SQLite.
    pub postgres_connections: usize,
    /// Is true if this process requires exclusive access to the databases. The process that opens them second, this one
    /// or another, gets [`StoreError::InUse`](crate::StoreError::InUse). On PostgreSQL one thread then does all work.
    pub alone: bool,
    /// The time limit of a script. A slower script is stopped with [`StoreError::Slow`](crate::StoreError::Slow).
    pub time_limit: Duration,
    /// SQLite: the maximum size of a database in pages of 4 KiB. Tests use it to simulate a full disk.
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

/// Returns the number of file descriptors that the process may have.
fn descriptors() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}
