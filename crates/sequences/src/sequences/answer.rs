//! Answers a sequence.

use super::publishing::problems_of_draft;
use super::sequence::{ViewForm, instance};
use http::StatusCode;
use kit::answer::{Answer, Outcome};
use kit::ids::SequenceId;
use kit::request::Request;
use store::Conn;

/// Answers a sequence with the problems that publishing its draft would have.
pub fn answer(request: &Request, conn: &mut Conn, status: StatusCode, id: SequenceId, form: ViewForm) -> Outcome {
    let (instance, tag) = instance(request, conn, id, form)?;
    let problems = problems_of_draft(request, conn, id)?;
    let mut body = instance.body;
    body.pop();
    body.extend_from_slice(format!(",\"problems\":{}}}", problems.to_json()).as_bytes());
    Ok(Answer { tag: Some(tag), ..Answer::json(status, body) })
}
