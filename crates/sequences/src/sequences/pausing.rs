//! Stores pauses of sequences.

use super::access::SequenceAccess;
use super::sequence::{PAUSED, RUNNING, SEQUENCE};
use kit::ids::{SequenceId, UserId};
use kit::log;
use kit::refusal::Refusal;
use kit::request::Request;
use serde_json::{Map, json};
use store::{Conn, Sql};

/// Pauses a running sequence. Returns `false` if it does not run.
pub fn store_pause(
    conn: &mut Conn,
    id: SequenceId,
    because: &str,
    holds: bool,
    by: Option<UserId>,
) -> Result<bool, store::StoreError> {
    let sql = Sql::new(
        "UPDATE sequences SET status = 'paused', paused_because = $1, is_holding = $2, paused_by = $3 \
         WHERE id = $4 AND status = 'running'",
    );
    Ok(conn.exec(&sql.arg(because).arg(i64::from(holds)).arg(by).arg(id))? == 1)
}

/// Pauses a running sequence for a reason of the system, and holds its runs.
pub fn pause_by_system(request: &Request, conn: &mut Conn, id: SequenceId, because: &str) -> Result<(), Refusal> {
    let Some(sequence) = SequenceAccess::load_any(conn, id, " FOR UPDATE")? else { return Ok(()) };
    if !store_pause(conn, id, because, true, None)? {
        return Ok(());
    }
    let changes = Map::from_iter([
        ("status".to_owned(), json!([RUNNING, PAUSED])),
        ("paused_because".to_owned(), json!(["", because])),
    ]);
    log::write_by(request, conn, None, "pause", &SEQUENCE, id.get(), &sequence.name, changes)
}
