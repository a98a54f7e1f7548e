//! The rows that statements return.

use rusqlite::types::ValueRef;

use crate::error::Error;
use crate::postgresql::types;

/// Why a query ended early.
pub(crate) enum QueryError {
    /// The engine refused the statement.
    Refused(Error),
    /// The caller could not use a row.
    Row(Error),
}

impl From<QueryError> for Error {
    fn from(stop: QueryError) -> Error {
        match stop {
            QueryError::Refused(error) | QueryError::Row(error) => error,
        }
    }
}

/// The function that is called for each row.
pub(crate) type OnRow<'a> = &'a mut dyn FnMut(&Row<'_>) -> Result<(), Error>;

/// One row of an answer. Columns are counted from 0. A column that does not exist or has another type gives
/// [`Error::Db`].
pub struct Row<'a>(pub(crate) Source<'a>);

pub(crate) enum Source<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a tokio_postgres::Row),
}

impl Row<'_> {
    /// The bytes that the driver holds of the row: all its values on PostgreSQL, nothing on SQLite, which lends them.
    pub fn held(&self) -> usize {
        match &self.0 {
            Source::Sqlite(_) => 0,
            Source::Postgres(row) => row.raw_size_bytes(),
        }
    }

    /// A BIGINT.
    pub fn int(&self, column: usize) -> Result<i64, Error> {
        self.opt_int(column)?.ok_or_else(|| is_null(column))
    }

    /// A BIGINT or NULL.
    pub fn opt_int(&self, column: usize) -> Result<Option<i64>, Error> {
        match &self.0 {
            Source::Sqlite(row) => match value(row, column)? {
                ValueRef::Null => Ok(None),
                ValueRef::Integer(number) => Ok(Some(number)),
                other => Err(wrong(column, "an integer", &other.data_type().to_string())),
            },
            Source::Postgres(row) => types::int(row, column),
        }
    }

    /// A flag, which is stored as BIGINT: 0 is false, anything else is true.
    pub fn flag(&self, column: usize) -> Result<bool, Error> {
        Ok(self.int(column)? != 0)
    }

    /// A TEXT.
    pub fn text(&self, column: usize) -> Result<&str, Error> {
        self.opt_text(column)?.ok_or_else(|| is_null(column))
    }

    /// A TEXT or NULL.
    pub fn opt_text(&self, column: usize) -> Result<Option<&str>, Error> {
        match &self.0 {
            Source::Sqlite(row) => match value(row, column)? {
                ValueRef::Null => Ok(None),
                ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                    Ok(text) => Ok(Some(text)),
                    Err(_) => Err(wrong(column, "text", "text that is not UTF-8")),
                },
                other => Err(wrong(column, "text", &other.data_type().to_string())),
            },
            Source::Postgres(row) => types::text(row, column),
        }
    }

    /// A BLOB or BYTEA.
    pub fn blob(&self, column: usize) -> Result<&[u8], Error> {
        self.opt_blob(column)?.ok_or_else(|| is_null(column))
    }

    /// A BLOB, a BYTEA or NULL.
    pub fn opt_blob(&self, column: usize) -> Result<Option<&[u8]>, Error> {
        match &self.0 {
            Source::Sqlite(row) => match value(row, column)? {
                ValueRef::Null => Ok(None),
                ValueRef::Blob(bytes) => Ok(Some(bytes)),
                other => Err(wrong(column, "a blob", &other.data_type().to_string())),
            },
            Source::Postgres(row) => types::blob(row, column),
        }
    }
}

fn value<'a>(row: &'a rusqlite::Row<'_>, column: usize) -> Result<ValueRef<'a>, Error> {
    row.get_ref(column).map_err(|error| Error::Db(format!("column {column}: {error}")))
}

fn is_null(column: usize) -> Error {
    Error::Db(format!("column {column} is NULL"))
}

fn wrong(column: usize, expected: &str, found: &str) -> Error {
    Error::Db(format!("column {column}: expected {expected}, found {found}"))
}
