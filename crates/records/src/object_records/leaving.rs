//! Removes the assignments to records whose user, group or permission set is gone (`docs/reference/object-records.md`). There may
//! be a million of them, so a job removes them in pages, without events in the history of the records.

use crate::visible_records::VersionChanges;
use kit::app::App;
use kit::build::Build;
use kit::ids::{ClassId, GroupId, PrincipalId, RecordSetId};
use kit::jobs::{self, Job, JobFailure, JobFuture, JobKind, NewJob};
use kit::reactions::{Reaction, ReactionTime};
use kit::request::Request;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use store::{Conn, Sql, StoreError};

/// The maximum number of assignments that are removed in one transaction.
const PAGE: i64 = 1_000;

/// Removes the assignments of one user or group, or to one set.
pub static UNASSIGN: JobKind = JobKind { name: "record_assignees", run, ..JobKind::LONG };

/// Queues the removal of the assignments of a deleted or anonymized user.
pub const ON_USER_LEAVING: Reaction = Reaction {
    resource: "users",
    when: ReactionTime::Leaving,
    run: |request, conn, id| Ok(enqueue_removal(request, conn, "principal", id)?),
};

/// Queues the removal of the assignments of a deleted group.
pub const ON_GROUP_LEAVING: Reaction = Reaction {
    resource: "user_groups",
    when: ReactionTime::Leaving,
    run: |request, conn, id| {
        Ok(enqueue_removal(request, conn, "principal", PrincipalId::from(GroupId::new(id)).get())?)
    },
};

/// Queues the removal of the assignments by a deleted set.
pub fn queue_set_removal(request: &Request, conn: &mut Conn, set: RecordSetId) -> Result<(), StoreError> {
    enqueue_removal(request, conn, "permission_set", set.get())
}

fn enqueue_removal(request: &Request, conn: &mut Conn, column: &'static str, id: i64) -> Result<(), StoreError> {
    let mut sql = Sql::new("SELECT 1 FROM record_assignees WHERE ");
    sql.name(column).push(" = ").bind(id).push(" LIMIT 1");
    if conn.query_optional(&sql, |_| Ok(()))?.is_none() {
        return Ok(());
    }
    let key = format!("{column} {id}");
    let job = NewJob { kind: &UNASSIGN, payload: json!({column: id}), key: Some(&key), not_before: request.now };
    jobs::enqueue(request, conn, &job).map(drop)
}

fn run(_: App, build: Arc<Build>, job: Job) -> JobFuture<Result<(), JobFailure>> {
    Box::pin(async move {
        let id = |name: &str| job.payload.get(name).and_then(Json::as_i64);
        let (column, id) = match (id("principal"), id("permission_set")) {
            (Some(principal), _) => ("principal", principal),
            (None, Some(set)) => ("permission_set", set),
            (None, None) => return Err(JobFailure { is_final: true, ..JobFailure::new("it names nothing") }),
        };
        loop {
            let removed = build.db.write(move |conn| remove_page(conn, column, id)).await;
            match removed {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => return Err(JobFailure::new(error.to_string())),
            }
        }
    })
}

/// Removes assignments to records of one class, so that a transaction raises the versions of one class only. Returns `false` if
/// there are none left.
fn remove_page(conn: &mut Conn, column: &'static str, id: i64) -> Result<bool, StoreError> {
    let mut sql = Sql::new(
        "SELECT a.id, a.principal, COALESCE(r.class_id, 0) FROM record_assignees a LEFT JOIN records r ON r.id = a.record \
         WHERE a.",
    );
    sql.name(column).push(" = ").bind(id).push(" ORDER BY a.id LIMIT ").bind(PAGE);
    let rows = conn.query_all(&sql, |row| Ok((row.int(0)?, row.id(1)?, row.id(2)?)))?;
    let Some(class) = rows.first().map(|(_, _, class)| *class) else { return Ok(false) };
    let mut changed = VersionChanges::default();
    let mut ids = Vec::with_capacity(rows.len());
    for (assignment, principal, _) in rows.into_iter().filter(|(_, _, class_of_row)| *class_of_row == class) {
        ids.push(assignment);
        changed.principal(principal);
    }
    conn.exec(Sql::new("DELETE FROM record_assignees WHERE id").push_any(ids))?;
    if class != ClassId::NONE {
        changed.raise_versions(conn, class)?;
    }
    Ok(true)
}
