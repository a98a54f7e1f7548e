//! A substitute for the server that records the statements of a script one after the other.

use std::ops::ControlFlow;

use tokio_postgres::Row as Found;

use super::connection::{STATE_TAG, state_tag};
use crate::error::StoreError;
use crate::row::{OnRow, QueryError, Row, RowSource};
use crate::sql::Sql;
use crate::state_tag::StateTag;

/// Substitutes the server while a short script runs: first to record its first statement, then again with the rows.
pub(crate) struct StatementRecorder {
    /// The statements that the server has answered, in the order of the script.
    pub(super) answers: Vec<(Sql, Vec<Found>)>,
    /// The number of them that the script has requested in this run.
    pub(super) asked: usize,
    pub(super) has_state_tags: bool,
    pub(super) needs: Option<Needs>,
}

/// The first requirement of a script that was not met.
pub(super) enum Needs {
    /// The rows of its next statement.
    Answer(Sql),
    /// A real connection, because it changes something.
    Thread,
}

impl StatementRecorder {
    pub fn exec(&mut self) -> Result<u64, StoreError> {
        self.needs.get_or_insert(Needs::Thread);
        Err(StoreError::Busy)
    }

    pub fn query(&mut self, sql: &Sql, on_row: OnRow<'_>) -> Result<(), QueryError> {
        let Some((answered, rows)) = self.answers.get(self.asked) else {
            self.needs.get_or_insert_with(|| Needs::Answer(sql.clone()));
            return Err(QueryError::Refused(StoreError::Busy));
        };
        if answered != sql {
            // The script does not run the same statements when it is run again.
            self.needs.get_or_insert(Needs::Thread);
            return Err(QueryError::Refused(StoreError::Busy));
        }
        self.asked += 1;
        for row in rows {
            if on_row(&Row(RowSource::Postgres(row))).map_err(QueryError::Row)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    pub fn state_tag(&mut self) -> Result<Option<StateTag>, StoreError> {
        if !self.has_state_tags {
            return Ok(None);
        }
        let mut tag = None;
        let query_result = self.query(&Sql::new(STATE_TAG), &mut |row| {
            tag = Some(state_tag(row)?);
            Ok(ControlFlow::Continue(()))
        });
        match query_result {
            Ok(()) => Ok(tag),
            Err(QueryError::Refused(error) | QueryError::Row(error)) => Err(error),
        }
    }
}
