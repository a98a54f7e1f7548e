//! The step `generate_document`. It begins a run of a document and waits for its end, which the engine looks for.

use super::run::Run;
use super::stepper::{Awaited, Done, Outcome, Stepper};
use crate::definition::values::Value;
use crate::values::Val;
use crate::values::evaluate::Named;
use http::Method;
use kit::ids::{RecordId, SequenceRunId};
use kit::refusal::Refusal;
use serde_json::{Value as Json, json};
use store::{Conn, Sql, StoreError};

const DAY_US: i64 = 86_400_000_000;
const PROCESSING: &str = "processing";
const FAILED: &str = "failed";

/// Begins the run of a document, or looks whether it has ended.
pub fn generate(
    stepper: &Stepper<'_>,
    conn: &mut Conn,
    run: &mut Run,
    (template, record, field): (i64, Option<&Value>, Option<&str>),
) -> Result<Outcome, Refusal> {
    let record = stepper.record(conn, run, record)?;
    let body = json!({"object_record": record, "document_template": template, "object_record_field": field});
    let wait = |document: i64, body: Json| Outcome::Waits {
        until: stepper.request.now + DAY_US,
        awaited: Awaited { document: Some(document), ..Awaited::default() },
        input: body,
    };
    let Some(document) = run.state.document else {
        // Another run of the same record and template is waited for.
        if let Some((other, status)) = latest(conn, record, template)?
            && status == PROCESSING
        {
            return Ok(wait(other, body));
        }
        stepper.call(conn, Method::POST, "/api/object-records/documents/".to_owned(), body.clone())?;
        let begun = latest(conn, record, template)?.ok_or_else(|| StoreError::internal("a document has no run"))?;
        run.state.document = Some(begun.0);
        return Ok(wait(begun.0, body));
    };
    let sql = Sql::new("SELECT status, error_message FROM document_runs WHERE id = $1").arg(document);
    let ended = conn.query_optional(&sql, |row| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned())))?;
    match ended {
        Some((status, _)) if status == PROCESSING => Ok(wait(document, body)),
        Some((status, message)) if status == FAILED => Err(Refusal::bad_request(message)),
        ended => {
            run.state.document = None;
            let status = ended.map_or(Val::Null, |(status, _)| Val::Text(status));
            let outputs = Named::from([("status".to_owned(), status)]);
            Ok(Outcome::Done(Done { input: body, outputs, record: Some(record.get()), task: None }))
        }
    }
}

/// The last run of a record and a template, and its state.
fn latest(conn: &mut Conn, record: RecordId, template: i64) -> Result<Option<(i64, String)>, StoreError> {
    let sql =
        Sql::new("SELECT id, status FROM document_runs WHERE record = $1 AND template = $2 ORDER BY id DESC LIMIT 1");
    conn.query_optional(&sql.arg(record).arg(template), |row| Ok((row.int(0)?, row.text(1)?.to_owned())))
}

/// The condition on `sequence_runs r` for those whose document is no longer processing.
pub const ENDED: &str = "r.waits_document IS NOT NULL AND r.ended_at IS NULL \
    AND NOT EXISTS (SELECT 1 FROM document_runs d WHERE d.id = r.waits_document AND d.status = 'processing')";

/// Returns whether a run waits for a document that is no longer processing.
pub fn has_ended(conn: &mut Conn, id: SequenceRunId) -> Result<bool, StoreError> {
    let mut sql = Sql::new("SELECT 1 FROM sequence_runs r WHERE ");
    sql.push(ENDED).push(" AND r.id = ").bind(id);
    Ok(conn.query_optional(&sql, |_| Ok(()))?.is_some())
}
