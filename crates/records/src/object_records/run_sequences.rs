//! The parameter `run_sequences=false`, by which the writes of a batch start no sequence (`docs/reference/object-records.md`).

use crate::classes::Class;
use crate::object_classes::class::CLASS as OBJECT_CLASS;
use crate::rights::owns_class;
use kit::log;
use kit::refusal::Refusal;
use kit::request::Request;
use resource::message;
use serde_json::{Map, json};
use store::Conn;

pub const RUN_SEQUENCES: &str = "run_sequences";

/// Returns whether the request is a batch whose writes start no sequence.
pub fn starts_none(request: &Request) -> bool {
    let is_batch = request.path.trim_end_matches('/').ends_with("/object-records/batch");
    is_batch && request.query.last_value(RUN_SEQUENCES) == Some("false")
}

/// Checks the parameter. It is for owners of the class and super admins.
pub fn check(request: &Request, conn: &mut Conn, class: &Class) -> Result<(), Refusal> {
    match request.query.last_value(RUN_SEQUENCES) {
        None | Some("true") => Ok(()),
        Some("false") => {
            let caller = request.caller()?;
            let is_allowed = caller.is_super() || owns_class(conn, caller.ownership(), class.id)?;
            if is_allowed { Ok(()) } else { Err(Refusal::forbidden()) }
        }
        Some(_) => Err(Refusal::field(RUN_SEQUENCES, message::BOOLEAN)),
    }
}

/// Writes the administration log of a batch that starts no sequence.
pub fn log_without(request: &Request, conn: &mut Conn, class: &Class) -> Result<(), Refusal> {
    if !starts_none(request) {
        return Ok(());
    }
    let changes = Map::from_iter([(RUN_SEQUENCES.to_owned(), json!([true, false]))]);
    log::write(request, conn, "edit", &OBJECT_CLASS, class.id.get(), &class.name, changes)
}
