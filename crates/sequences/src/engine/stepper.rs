//! The means by which a step acts, and its outcome.

use super::run::Run;
use crate::definition::values::Value;
use crate::values::Val;
use crate::values::evaluate::{Evaluator, Named};
use http::Method;
use kit::answer::{AnswerBody, AnswerSubject};
use kit::caller::Caller;
use kit::domain::table;
use kit::ids::{ClassId, RecordId};
use kit::inner_call::{InnerCall, call_for_run};
use kit::refusal::Refusal;
use kit::request::{Request, RunWriter};
use records::classes::{Class, class};
use records::field_type::FieldType;
use resource::JsonBody;
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use store::{Conn, StoreError};

/// The records that a step has found, in a snapshot before its transaction.
pub struct Reading {
    /// The number of steps before it.
    pub num_of_steps: i64,
    pub records: Vec<i64>,
    /// The number of further ones.
    pub left_out: i64,
}

/// The objects for which a run waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Awaited {
    pub task: Option<i64>,
    /// The record whose changes are awaited.
    pub record: Option<RecordId>,
    /// The run of a document.
    pub document: Option<i64>,
}

/// The outcome of an action.
pub enum Outcome {
    Done(Done),
    /// The run waits until a time, for a task or for a change of a record.
    Waits {
        until: i64,
        awaited: Awaited,
        input: Json,
    },
    /// The run enters a branch.
    Branch(Option<usize>),
    /// The run repeats the steps inside for records. Further ones are left out.
    Each {
        records: Vec<i64>,
        left_out: i64,
    },
    Stop {
        is_failure: bool,
        message: String,
    },
    NeedsReading,
}

/// A step that was done.
#[derive(Default)]
pub struct Done {
    pub input: Json,
    pub outputs: Named,
    pub record: Option<i64>,
    pub task: Option<i64>,
}

/// The means by which a step acts: the transaction's request, the account with its rights, and the run as the writer.
pub struct Stepper<'a> {
    pub request: &'a Request,
    /// The request with the account as its caller.
    pub as_account: &'a Request,
    pub account: &'a Arc<Caller>,
    pub writer: &'a Arc<RunWriter>,
    pub reading: Option<&'a Reading>,
}

impl Stepper<'_> {
    /// Calls the API as the account, on the open connection. Returns the answer as JSON, null if it has none.
    pub fn call(&self, conn: &mut Conn, method: Method, path: String, body: Json) -> Result<Json, Refusal> {
        self.call_with(conn, (method, path, String::new()), body)
    }

    pub fn call_with(
        &self,
        conn: &mut Conn,
        (method, path, query): (Method, String, String),
        body: Json,
    ) -> Result<Json, Refusal> {
        let call = InnerCall { method, path, query, body: JsonBody::from_json(&body) };
        let answer = call_for_run(self.request, conn, (self.account, self.writer), table(), call)?;
        match answer.body {
            AnswerBody::Whole(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or_default()),
            // The form of a task is long. Only the id of the task is needed.
            _ => match answer.subject {
                Some(AnswerSubject::Task { id, .. }) => Ok(json!({"id": id})),
                _ => Ok(Json::Null),
            },
        }
    }

    /// Refuses with 404 a task that the account may not view, unless the run has made it.
    pub fn require_task(&self, conn: &mut Conn, run: &Run, task: i64) -> Result<(), Refusal> {
        if run.state.tasks.contains(&task) {
            return Ok(());
        }
        self.call(conn, Method::GET, format!("/api/tasks/{task}/"), Json::Null).map(drop)
    }

    /// The records that the step has found before its transaction, if they were read.
    pub fn reading_of(&self, run: &Run) -> Option<&Reading> {
        self.reading.filter(|reading| reading.num_of_steps == run.num_of_steps)
    }

    pub fn evaluate(&self, conn: &mut Conn, run: &Run, value: &Value) -> Result<Val, Refusal> {
        Evaluator::for_account(self.as_account, run.facts()).value(conn, value)
    }

    /// Returns the record of a step: that of the run, unless the step names another one.
    pub fn record(&self, conn: &mut Conn, run: &Run, record: Option<&Value>) -> Result<RecordId, Refusal> {
        let Some(value) = record else { return run.record.ok_or_else(Refusal::not_found) };
        match self.evaluate(conn, run, value)? {
            Val::Record(id) | Val::Int(id) => Ok(RecordId::new(id)),
            _ => Err(Refusal::not_found()),
        }
    }

    pub fn class(&self, conn: &mut Conn, id: i64) -> Result<Option<Arc<Class>>, StoreError> {
        class(&self.request.app, &self.request.build, conn, ClassId::new(id))
    }

    /// Computes the values of fields, as a body has them.
    pub fn fields(
        &self,
        conn: &mut Conn,
        run: &Run,
        class: Option<&Class>,
        fields: &[(String, Value)],
    ) -> Result<Map<String, Json>, Refusal> {
        let mut evaluator = Evaluator::for_account(self.as_account, run.facts());
        let mut values = Map::new();
        for (alias, value) in fields {
            let kind = class.and_then(|class| class.field(alias)).map_or(FieldType::String, |field| field.kind);
            values.insert(alias.clone(), evaluator.value(conn, value)?.to_json_for(kind));
        }
        Ok(values)
    }

    pub fn user(&self, conn: &mut Conn, run: &Run, value: &Value) -> Result<Json, Refusal> {
        Ok(self.evaluate(conn, run, value)?.to_json())
    }
}
