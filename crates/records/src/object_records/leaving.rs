//! Removes the assignments to records that count no more, since their user, group or permission set is gone
//! (`docs/reference/object-records.md`). There may be a million of them: a job removes them in pages, without events in the
//! history of the records.

use crate::visible_records::Changed;
use kit::app::App;
use kit::build::Build;
use kit::jobs::{self, Job, JobFailure, JobKind, NewJob, Pending};
use kit::reactions::{Reaction, When};
use kit::request::Request;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use store::{Conn, Error, Sql};

/// How many assignments are removed in one transaction.
const PAGE: i64 = 1_000;

/// Removes the assignments of one user or group, or to one set.
pub static UNASSIGN: JobKind = JobKind { name: "record_assignees", run, ..JobKind::LONG };

/// Has the assignments of a user removed who is deleted or anonymized.
pub const ON_USER_LEAVING: Reaction = Reaction {
    resource: "users",
    when: When::Leaving,
    run: |request, conn, id| Ok(put(request, conn, "principal", id)?),
};

/// Has the assignments of a group removed that is deleted.
pub const ON_GROUP_LEAVING: Reaction = Reaction {
    resource: "user_groups",
    when: When::Leaving,
    run: |request, conn, id| Ok(put(request, conn, "principal", -id)?),
};

/// Has the assignments to a set removed that is deleted.
pub fn of_set(request: &Request, conn: &mut Conn, set: i64) -> Result<(), Error> {
    put(request, conn, "permission_set", set)
}

fn put(request: &Request, conn: &mut Conn, column: &'static str, id: i64) -> Result<(), Error> {
    let mut sql = Sql::new("SELECT 1 FROM record_assignees WHERE ");
    sql.name(column).push(" = ").bind(id).push(" LIMIT 1");
    if conn.opt(&sql, |_| Ok(()))?.is_none() {
        return Ok(());
    }
    let key = format!("{column} {id}");
    let job = NewJob { kind: &UNASSIGN, payload: json!({column: id}), key: Some(&key), not_before: request.now };
    jobs::put(request, conn, &job).map(drop)
}

fn run(_: App, build: Arc<Build>, job: Job) -> Pending<Result<(), JobFailure>> {
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

/// Removes assignments to records of one class, so that the versions of one class are raised at a time. `false`: there are
/// no more.
fn remove_page(conn: &mut Conn, column: &'static str, id: i64) -> Result<bool, Error> {
    let mut sql = Sql::new(
        "SELECT a.id, a.principal, COALESCE(r.class_id, 0) FROM record_assignees a LEFT JOIN records r ON r.id = a.record \
         WHERE a.",
    );
    sql.name(column).push(" = ").bind(id).push(" ORDER BY a.id LIMIT ").bind(PAGE);
    let found = conn.all(&sql, |row| Ok((row.int(0)?, row.int(1)?, row.int(2)?)))?;
    let Some(class) = found.first().map(|(_, _, class)| *class) else { return Ok(false) };
    let mut changed = Changed::default();
    let mut ids = Vec::with_capacity(found.len());
    for (assignment, principal, _) in found.into_iter().filter(|(_, _, of)| *of == class) {
        ids.push(assignment);
        changed.principal(principal);
    }
    conn.exec(Sql::new("DELETE FROM record_assignees WHERE id").any(ids))?;
    if class != 0 {
        changed.note(conn, class)?;
    }
    Ok(true)
}
