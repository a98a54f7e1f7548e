//! Converts the texts of older versions to the forms in which they are compared: names with a folded copy, and records.
//!
//! The migration (`migrations::text_forms`) creates two passes, each a row of `text_passes`. The first one begins immediately.
//! Processes of the old version can write beside it for a minute, so the second one begins later. It repeats the names and the
//! records that were changed since the migration, and then replaces the indexes of unique fields. Each step is a transaction and
//! stores its progress.

use kit::app::App;
use kit::build::Build;
use kit::domain::Module;
use kit::ids::{ClassId, FieldId};
use kit::jobs::{JobFuture, StandingJob};
use migrations::text_forms::{LAST_PASS, refold_names};
use records::classes::ClassField;
use records::text_forms::{index_in_nfc, next_unique_by_stored_texts, refold_records, use_index_in_nfc};
use std::sync::Arc;
use store::{Conn, Sql, StoreError};

pub static MODULE: Module = Module { name: "text_forms", standing_jobs: &[&PASSES], ..Module::EMPTY };

/// Runs the steps of the passes.
static PASSES: StandingJob = StandingJob { name: "text forms", at_a_time: 2, due: next_pass_time, run };

/// The time for which a process creates an index before another one tries.
const LEASE_US: i64 = 4 * 3_600_000_000;
/// The pause after a failure before the next attempt to create an index.
const PAUSE_US: i64 = 60_000_000;
/// The class id of a pass that has finished all classes.
const BEHIND_CLASSES: ClassId = ClassId::new(-1);

fn next_pass_time(_: &App, _: &Build, conn: &mut Conn, _: i64) -> Result<Option<i64>, StoreError> {
    conn.query_one(&Sql::new("SELECT min(due_at) FROM text_passes"), |row| row.opt_int(0))
}

/// The remaining work after a step.
enum RemainingWork {
    /// Further steps are due.
    Taken,
    /// An index of a field of a class must be created outside of transactions.
    Index(ClassId, Arc<ClassField>),
    /// Nothing is due.
    Done,
}

fn run(app: App, build: Arc<Build>) -> JobFuture<Result<(), StoreError>> {
    Box::pin(async move {
        let _place = kit::jobs::acquire_permit(&app, PASSES.name).await;
        loop {
            let (of_step, of_build) = (app.clone(), build.clone());
            match build.db.write(move |conn: &mut Conn| step(&of_step, &of_build, conn)).await? {
                RemainingWork::Taken => {}
                RemainingWork::Index(class, field) => make_index(&app, &build, class, field).await?,
                RemainingWork::Done => return Ok(()),
            }
        }
    })
}

/// Runs the next step of the first pass that is due.
fn step(app: &App, build: &Build, conn: &mut Conn) -> Result<RemainingWork, StoreError> {
    let now = app.clock.now();
    let sql = Sql::new(
        "SELECT n, changed_since, class_id, after_n FROM text_passes WHERE due_at <= $1 ORDER BY n LIMIT 1 FOR UPDATE",
    );
    let pass = conn.query_optional(&sql.arg(now), |row| Ok((row.int(0)?, row.int(1)?, row.id(2)?, row.int(3)?)))?;
    let Some((n, folded_since, class, after)) = pass else { return Ok(RemainingWork::Done) };
    if class == BEHIND_CLASSES {
        return next_index(conn, n, after, now);
    }
    if class == ClassId::NONE {
        refold_names(conn)?;
    } else if let Some(last) = refold_records(app, build, conn, class, (after, folded_since))? {
        return go_on(conn, n, class, last);
    }
    let sql = Sql::new("SELECT min(id) FROM object_classes WHERE id > $1").arg(class);
    let next = conn.query_one(&sql, |row| row.opt_id(0))?;
    go_on(conn, n, next.unwrap_or(BEHIND_CLASSES), 0)
}

fn go_on(conn: &mut Conn, n: i64, class: ClassId, after: i64) -> Result<RemainingWork, StoreError> {
    let sql = Sql::new("UPDATE text_passes SET class_id = $1, after_n = $2 WHERE n = $3");
    conn.exec(&sql.arg(class).arg(after).arg(n)).map(|_| RemainingWork::Taken)
}

/// Returns the next index of a pass that has finished all classes, or ends the pass.
fn next_index(conn: &mut Conn, n: i64, after: i64, now: i64) -> Result<RemainingWork, StoreError> {
    let next = if n == LAST_PASS { next_unique_by_stored_texts(conn, FieldId::new(after))? } else { None };
    let Some((class, field)) = next else {
        conn.exec(&Sql::new("DELETE FROM text_passes WHERE n = $1").arg(n))?;
        return Ok(RemainingWork::Taken);
    };
    // Prevents that another process creates the index at the same time.
    conn.exec(&Sql::new("UPDATE text_passes SET due_at = $1 WHERE n = $2").arg(now + LEASE_US).arg(n))?;
    Ok(RemainingWork::Index(class, Arc::new(field)))
}

async fn make_index(app: &App, build: &Build, class: ClassId, field: Arc<ClassField>) -> Result<(), StoreError> {
    let indexed_field = field.clone();
    let is_made = match build
        .db
        .run_outside_transaction(move |conn: &mut Conn| index_in_nfc(conn, class, &indexed_field))
        .await
    {
        Ok(is_made) => is_made,
        Err(error) => {
            let sql = Sql::new("UPDATE text_passes SET due_at = $1 WHERE n = $2");
            let later = sql.arg(app.clock.now() + PAUSE_US).arg(LAST_PASS);
            build.db.write::<_, StoreError>(move |conn: &mut Conn| conn.exec(&later)).await?;
            return Err(error);
        }
    };
    if !is_made {
        tracing::warn!(
            build = build.domain,
            object_class = class.get(),
            field = field.id.get(),
            "two records have one text in several Unicode forms, the field stays unique by its stored texts"
        );
    }
    let now = app.clock.now();
    let finish = move |conn: &mut Conn| -> Result<(), StoreError> {
        if is_made {
            use_index_in_nfc(conn, class, &field)?;
        }
        let sql = Sql::new("UPDATE text_passes SET due_at = $1, after_n = $2 WHERE n = $3");
        conn.exec(&sql.arg(now).arg(field.id).arg(LAST_PASS)).map(|_| ())
    };
    build.db.alter(finish).await
}
