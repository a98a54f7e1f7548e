//! The errors of the store, the same for both engines.

use std::panic::Location;
use std::{fmt, io};

/// An error of the store. It is `Clone` because one failed commit may concern a whole group of writers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// A query that must return a row returned none.
    NotFound,
    /// The database, schema or file that was to be created exists already.
    Exists,
    /// A unique index refused the row. Carries the name of the index, which is the same on both engines.
    Unique(String),
    /// A foreign key refused the change. It carries no name, because SQLite does not report one.
    Referenced,
    /// A queue is full, or a lock was held for too long. The same call may succeed later.
    Busy,
    /// The disk is full.
    Full,
    /// The engine cannot be reached, or its disk fails. If the connection was lost during COMMIT, the outcome is unknown.
    Unavailable(String),
    /// The store of files does not answer, refuses a request, or fails.
    FileStore(String),
    /// The database (file or schema) does not exist.
    Missing,
    /// Another process has the databases open, and one of the two processes requires exclusive access.
    InUse,
    /// A statement names a table or a column that does not exist, or no longer exists. Tables can change at run time,
    /// so the script may succeed if it runs again with the current declaration.
    SchemaChanged(String),
    /// The script or statement was stopped because it ran for too long.
    Slow,
    /// Any other error: a mistake in the SQL, a wrong column type, a panic of a script. Do not show it to users.
    Db(String),
    /// A mistake of the program outside of the database, made by [`StoreError::internal`]. Do not show it to users.
    Internal(String),
    /// The URL of the database is invalid.
    Url(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::NotFound => f.write_str("no such row"),
            StoreError::Exists => f.write_str("exists already"),
            StoreError::Unique(index) => write!(f, "not unique: {index}"),
            StoreError::Referenced => f.write_str("a foreign key refuses the change"),
            StoreError::Busy => f.write_str("the database is busy"),
            StoreError::Full => f.write_str("the disk is full"),
            StoreError::Unavailable(reason) => write!(f, "the database is unavailable: {reason}"),
            StoreError::FileStore(reason) => write!(f, "the file store fails: {reason}"),
            StoreError::Missing => f.write_str("no such database"),
            StoreError::InUse => f.write_str("another process has the databases open"),
            StoreError::SchemaChanged(reason) => write!(f, "a statement does not fit its tables: {reason}"),
            StoreError::Slow => f.write_str("stopped: ran for too long"),
            StoreError::Url(reason) => f.write_str(reason),
            StoreError::Db(reason) => write!(f, "database error: {reason}"),
            StoreError::Internal(reason) => write!(f, "internal error: {reason}"),
        }
    }
}

impl StoreError {
    /// The error for a mistake of the program, such as a stored value that it cannot parse or a row that must be there. Callers
    /// return it, and the edge logs it once with the line of this call and answers 500.
    #[track_caller]
    pub fn internal(cause: impl fmt::Display) -> StoreError {
        StoreError::Internal(format!("{cause} ({})", Location::caller()))
    }

    /// The error for work that is submitted after [`crate::Store::close`].
    pub(crate) fn closed() -> StoreError {
        StoreError::Unavailable("the store is closed".to_owned())
    }

    /// The error for a caller when PostgreSQL does not answer. The caller's write may still be done later.
    pub(crate) fn unresponsive_refusal() -> StoreError {
        StoreError::Unavailable("PostgreSQL does not answer".to_owned())
    }

    /// The error for a caller when the thread with its work ended without an outcome.
    pub(crate) fn given_up() -> StoreError {
        StoreError::Unavailable("the work was given up".to_owned())
    }
}

impl std::error::Error for StoreError {}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> StoreError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full,
            _ => StoreError::Unavailable(error.to_string()),
        }
    }
}
