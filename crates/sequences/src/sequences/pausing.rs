//! Stores pauses of sequences.

use super::access::SequenceAccess;
use super::sequence::{PAUSED, RUNNING, SEQUENCE};
use crate::notices;
use identity::builds::{BuildFailure, refusal_line};
use kit::app::App;
use kit::build::Build;
use kit::commit;
use kit::ids::{SequenceId, UserId};
use kit::log;
use kit::refusal::Refusal;
use kit::request::Request;
use serde_json::{Map, json};
use std::sync::Arc;
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
    notices::paused(request, conn, (id, &sequence.name, because))?;
    log::write_by(request, conn, None, "pause", &SEQUENCE, id.get(), &sequence.name, changes)
}

/// Pauses a sequence of a build for the operator, or all of them, and holds their runs. Returns their names.
pub async fn pause_by_operator(app: &App, build: &Arc<Build>, id: Option<i64>) -> Result<Vec<String>, BuildFailure> {
    let request = Arc::new(Request::for_system(app, build));
    let paused = commit::write(&request, move |request: &Request, conn: &mut Conn| hold_all(request, conn, id)).await;
    let paused = paused.map_err(refusal_line)?;
    match id.filter(|_| paused.is_empty()) {
        Some(id) => Err(format!("{id}: there is no such published sequence")),
        None => Ok(paused),
    }
}

/// Also holds the runs of sequences that are paused already.
fn hold_all(request: &Request, conn: &mut Conn, id: Option<i64>) -> Result<Vec<String>, Refusal> {
    let mut sql =
        Sql::new("SELECT id, name, status, paused_because FROM sequences WHERE published_version IS NOT NULL");
    if let Some(id) = id {
        sql.push(" AND id = ").bind(id);
    }
    let found: Vec<(SequenceId, [String; 3])> = conn.query_all(sql.push(" ORDER BY id FOR UPDATE"), |row| {
        Ok((row.id(0)?, [row.text(1)?.to_owned(), row.text(2)?.to_owned(), row.text(3)?.to_owned()]))
    })?;
    let mut names = Vec::new();
    for (id, [name, status, because]) in found {
        let sql = Sql::new(
            "UPDATE sequences SET status = 'paused', paused_because = 'operator', is_holding = 1, paused_by = NULL WHERE id = $1",
        );
        conn.exec(&sql.arg(id))?;
        let changes = Map::from_iter([
            ("status".to_owned(), json!([status, PAUSED])),
            ("paused_because".to_owned(), json!([because, "operator"])),
        ]);
        log::write_by(request, conn, None, "pause", &SEQUENCE, id.get(), &name, changes)?;
        names.push(name);
    }
    Ok(names)
}
