//! A stand-in for the server, by which the statement of a script is learnt.

use tokio_postgres::Row as Found;

use super::connection::{STATE_TAG, state_tag};
use crate::error::Error;
use crate::row::{OnRow, QueryError, Row, Source};
use crate::sql::Sql;
use crate::state_tag::StateTag;

/// Stands in for the server when a short script is run: first to learn its statement, then again with the rows.
pub(crate) struct LookAhead {
    pub(super) answer: Option<(Sql, Vec<Found>)>,
    pub(super) has_state_tags: bool,
    pub(super) needs: Option<Needs>,
}

/// The first thing that a script lacked.
pub(super) enum Needs {
    /// The rows of its first statement.
    Answer(Sql),
    /// A real connection, because it changes something or runs more than one statement.
    Thread,
}

impl LookAhead {
    pub fn exec(&mut self) -> Result<u64, Error> {
        self.needs.get_or_insert(Needs::Thread);
        Err(Error::Busy)
    }

    pub fn query(&mut self, sql: &Sql, on_row: OnRow<'_>) -> Result<(), QueryError> {
        if let Some((asked, rows)) = &self.answer
            && asked == sql
        {
            return rows.iter().try_for_each(|row| on_row(&Row(Source::Postgres(row)))).map_err(QueryError::Row);
        }
        let needs = if self.answer.is_some() { Needs::Thread } else { Needs::Answer(sql.clone()) };
        self.needs.get_or_insert(needs);
        Err(QueryError::Refused(Error::Busy))
    }

    pub fn state_tag(&mut self) -> Result<Option<StateTag>, Error> {
        if !self.has_state_tags {
            return Ok(None);
        }
        let mut found = None;
        let asked = self.query(&Sql::new(STATE_TAG), &mut |row| {
            found = Some(state_tag(row)?);
            Ok(())
        });
        match asked {
            Ok(()) => Ok(found),
            Err(QueryError::Refused(error) | QueryError::Row(error)) => Err(error),
        }
    }
}
