//! The rows that statements return.

use std::ops::ControlFlow;

use resource::Id;
use rusqlite::types::ValueRef;
use serde::Deserialize;

use crate::error::StoreError;
use crate::postgresql::types;

/// The reason for which a query ended early.
pub(crate) enum QueryError {
    /// The engine refused the statement.
    Refused(StoreError),
    /// The caller could not use a row.
    Row(StoreError),
}

impl From<QueryError> for StoreError {
    fn from(stop: QueryError) -> StoreError {
        match stop {
            QueryError::Refused(error) | QueryError::Row(error) => error,
        }
    }
}

/// The function that is called for each row, until it returns a break or an error.
pub(crate) type OnRow<'a> = &'a mut dyn FnMut(&Row<'_>) -> Result<ControlFlow<()>, StoreError>;

/// One row of an answer. Columns are counted from 0. A column that does not exist or has another type gives
/// [`StoreError::Db`].
pub struct Row<'a>(pub(crate) RowSource<'a>);

pub(crate) enum RowSource<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a tokio_postgres::Row),
}

impl Row<'_> {
    /// The size of the row in the memory of the driver, in bytes. It is 0 on SQLite, which lends the values.
    pub fn size_in_bytes(&self) -> usize {
        match &self.0 {
            RowSource::Sqlite(_) => 0,
            RowSource::Postgres(row) => row.raw_size_bytes(),
        }
    }

    /// A BIGINT.
    pub fn int(&self, column: usize) -> Result<i64, StoreError> {
        self.opt_int(column)?.ok_or_else(|| null_error(column))
    }

    /// A BIGINT or NULL.
    pub fn opt_int(&self, column: usize) -> Result<Option<i64>, StoreError> {
        match &self.0 {
            RowSource::Sqlite(row) => match value(row, column)? {
                ValueRef::Null => Ok(None),
                ValueRef::Integer(number) => Ok(Some(number)),
                other => Err(type_error(column, "an integer", &other.data_type().to_string())),
            },
            RowSource::Postgres(row) => types::int(row, column),
        }
    }

    /// A BIGINT that is the id of a row.
    pub fn id<I: Id>(&self, column: usize) -> Result<I, StoreError> {
        self.int(column).map(I::from_number)
    }

    /// A BIGINT that is the id of a row, or NULL.
    pub fn opt_id<I: Id>(&self, column: usize) -> Result<Option<I>, StoreError> {
        Ok(self.opt_int(column)?.map(I::from_number))
    }

    /// A flag, which is stored as BIGINT: 0 is false, anything else is true.
    pub fn flag(&self, column: usize) -> Result<bool, StoreError> {
        Ok(self.int(column)? != 0)
    }

    /// A TEXT.
    pub fn text(&self, column: usize) -> Result<&str, StoreError> {
        self.opt_text(column)?.ok_or_else(|| null_error(column))
    }

    /// A TEXT or NULL.
    pub fn opt_text(&self, column: usize) -> Result<Option<&str>, StoreError> {
        match &self.0 {
            RowSource::Sqlite(row) => match value(row, column)? {
                ValueRef::Null => Ok(None),
                ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                    Ok(text) => Ok(Some(text)),
                    Err(_) => Err(type_error(column, "text", "text that is not UTF-8")),
                },
                other => Err(type_error(column, "text", &other.data_type().to_string())),
            },
            RowSource::Postgres(row) => types::text(row, column),
        }
    }

    /// The bytes of a TEXT or NULL, which are UTF-8. For searches in many texts, which need not test that.
    pub fn opt_text_bytes(&self, column: usize) -> Result<Option<&[u8]>, StoreError> {
        match &self.0 {
            RowSource::Sqlite(row) => match value(row, column)? {
                ValueRef::Null => Ok(None),
                ValueRef::Text(bytes) => Ok(Some(bytes)),
                other => Err(type_error(column, "text", &other.data_type().to_string())),
            },
            RowSource::Postgres(row) => Ok(types::text(row, column)?.map(str::as_bytes)),
        }
    }

    /// A BLOB or BYTEA.
    pub fn blob(&self, column: usize) -> Result<&[u8], StoreError> {
        self.opt_blob(column)?.ok_or_else(|| null_error(column))
    }

    /// A BLOB, a BYTEA or NULL.
    pub fn opt_blob(&self, column: usize) -> Result<Option<&[u8]>, StoreError> {
        match &self.0 {
            RowSource::Sqlite(row) => match value(row, column)? {
                ValueRef::Null => Ok(None),
                ValueRef::Blob(bytes) => Ok(Some(bytes)),
                other => Err(type_error(column, "a blob", &other.data_type().to_string())),
            },
            RowSource::Postgres(row) => types::blob(row, column),
        }
    }

    /// A TEXT with JSON that this program has written. Another text gives [`StoreError::Internal`], without the text.
    #[track_caller]
    pub fn json<'a, T: Deserialize<'a>>(&'a self, column: usize) -> Result<T, StoreError> {
        parse_json(column, self.text(column)?)
    }

    /// A TEXT with JSON or NULL, as [`Row::json`] reads it.
    #[track_caller]
    pub fn opt_json<'a, T: Deserialize<'a>>(&'a self, column: usize) -> Result<Option<T>, StoreError> {
        match self.opt_text(column)? {
            Some(text) => Ok(Some(parse_json(column, text)?)),
            None => Ok(None),
        }
    }
}

#[track_caller]
fn parse_json<'a, T: Deserialize<'a>>(column: usize, text: &'a str) -> Result<T, StoreError> {
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        // The error of the parser may repeat a part of the text.
        Err(error) => Err(StoreError::internal(format_args!(
            "the JSON in column {column} cannot be parsed: line {}, column {}",
            error.line(),
            error.column()
        ))),
    }
}

fn value<'a>(row: &'a rusqlite::Row<'_>, column: usize) -> Result<ValueRef<'a>, StoreError> {
    row.get_ref(column).map_err(|error| StoreError::Db(format!("column {column}: {error}")))
}

fn null_error(column: usize) -> StoreError {
    StoreError::Db(format!("column {column} is NULL"))
}

fn type_error(column: usize, expected: &str, actual: &str) -> StoreError {
    StoreError::Db(format!("column {column}: expected {expected}, found {actual}"))
}
