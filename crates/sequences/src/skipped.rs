//! Starts that did not become runs: `/api/sequences/{id}/skipped/` (`docs/reference/sequences.md`). They are counted in the process and
//! written within a second, so that a write does not wait for a counter. A kill may lose the last second.

use crate::sequences::access::SequenceAccess;
use kit::answer::{Answer, Outcome};
use kit::app::App;
use kit::build::Build;
use kit::ids::{RecordId, SequenceId};
use kit::jobs::{self, JobFuture, StandingJob};
use kit::request::Request;
use kit::route::Route;
use kit::rows::{self, Declaration, RowShape, Scope};
use records::single_records::{actions_on, class_of};
use resource::{Field, FieldKind, Resource, options};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};
use store::{Conn, Sql, StoreError};

const HOUR_US: i64 = 3_600_000_000;
/// The shortest time between two writes of counts.
const PAUSE: Duration = Duration::from_secs(1);

/// The reasons with their texts.
pub const REASONS: [(&str, &str); 6] = [
    ("loop", "It has started for the record already"),
    ("depth", "Too many levels"),
    ("busy", "Another run is in progress"),
    ("paused", "The sequence was paused"),
    ("missed", "The moment was missed"),
    ("limit", "A limit was reached"),
];

/// A reason for which a start did not become a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkipReason {
    Loop,
    Depth,
    Busy,
    Paused,
    Missed,
    Limit,
}

impl SkipReason {
    fn name(self) -> &'static str {
        match self {
            SkipReason::Loop => "loop",
            SkipReason::Depth => "depth",
            SkipReason::Busy => "busy",
            SkipReason::Paused => "paused",
            SkipReason::Missed => "missed",
            SkipReason::Limit => "limit",
        }
    }
}

/// The counts of a build that are not written yet.
#[derive(Default)]
pub struct SkipCounts(Mutex<Pending>);

#[derive(Default)]
struct Pending {
    counts: BTreeMap<(SequenceId, i64, SkipReason), (i64, Option<RecordId>)>,
    written_at: Option<Instant>,
}

static SKIP: LazyLock<Resource> = LazyLock::new(|| {
    let record = FieldKind::Integer { min: 1, max: i64::MAX };
    let fields = [
        Field::new("hour", FieldKind::DateTime),
        Field::new("reason", FieldKind::choices(&REASONS)),
        Field::new("count", FieldKind::Integer { min: 1, max: i64::MAX }).column("n"),
        Field::new("last_object_record", record).nullable().column("last_record"),
    ];
    Resource::new("sequence_skips", "SkippedStart", "sequence_skips", fields.map(Field::read_only))
        .newest_first()
        .unselectable()
        .unlogged()
});

pub fn routes() -> Vec<Route> {
    let path = "/api/sequences/{id}/skipped/";
    let who = "sequences.view, or ownership of the class of the trigger";
    vec![Route::list(path, &SKIP, list).instance(who), Route::options_below(path, document).with_read(document)]
}

fn document(request: &Request, conn: &mut Conn) -> Outcome {
    SequenceAccess::require_existing(conn, request.id())?;
    Ok(Answer::value(&options::document(&SKIP)))
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let sequence = SequenceAccess::load(request, conn)?;
    let sql =
        Sql::new("SELECT DISTINCT last_record FROM sequence_skips WHERE sequence = $1 AND last_record IS NOT NULL");
    let records: Vec<RecordId> = conn.query_all(&sql.arg(sequence.id), |row| row.id(0))?;
    let visible = visible_records(request, conn, records)?;
    // The rows with hidden records show null.
    let mut from = Sql::new("SELECT s.id, s.hour, s.reason, s.n, CASE WHEN s.last_record");
    from.push_any(visible.into_iter().collect::<Vec<_>>());
    from.push(" THEN s.last_record END AS last_record FROM sequence_skips s WHERE s.sequence = ").bind(sequence.id);
    let shape = RowShape::from_declaration(Declaration::Static(&SKIP));
    rows::list(request, conn, &shape, Scope::from(from))
}

/// Returns those of these records that the caller may view.
pub fn visible_records(
    request: &Request,
    conn: &mut Conn,
    records: Vec<RecordId>,
) -> Result<HashSet<RecordId>, kit::refusal::Refusal> {
    let mut pairs = Vec::new();
    for record in records {
        if let Some(class) = class_of(conn, record)? {
            pairs.push((class, record));
        }
    }
    let actions = actions_on(conn, request.caller()?, &pairs)?;
    Ok(actions.into_iter().filter(|(_, held)| held & records::rights::VIEW != 0).map(|(id, _)| id).collect())
}

/// Counts a start that did not become a run, once the transaction has committed.
pub fn skip(request: &Request, sequence: SequenceId, reason: SkipReason, record: Option<RecordId>) {
    count(request, sequence, (reason, 1), record);
}

/// Counts several starts that did not become runs.
pub fn skip_many(request: &Request, sequence: SequenceId, reason: SkipReason, number: i64) {
    if number > 0 {
        count(request, sequence, (reason, number), None);
    }
}

fn count(request: &Request, sequence: SequenceId, (reason, number): (SkipReason, i64), record: Option<RecordId>) {
    let hour = request.now - request.now.rem_euclid(HOUR_US);
    request.effects.after_commit_with(Box::new(move |app, build| {
        let mut pending = web::lock(&build.slot::<SkipCounts>().0);
        let (count, last) = pending.counts.entry((sequence, hour, reason)).or_default();
        *count += number;
        *last = record.or(*last);
        drop(pending);
        jobs::wake_for(app, build, &SKIPS);
    }));
}

/// Writes the counts.
pub static SKIPS: StandingJob = StandingJob {
    name: "skipped sequences",
    at_a_time: 8,
    due: |_, build, _, now| {
        let pending = web::lock(&build.slot::<SkipCounts>().0);
        if pending.counts.is_empty() {
            return Ok(None);
        }
        let rest = pending.written_at.map_or(Duration::ZERO, |at| PAUSE.saturating_sub(at.elapsed()));
        Ok(Some(now + rest.as_micros() as i64))
    },
    run: |app, build| Box::pin(write(app, build)) as JobFuture<_>,
};

async fn write(_: App, build: Arc<Build>) -> Result<(), StoreError> {
    let counts = {
        let mut pending = web::lock(&build.slot::<SkipCounts>().0);
        pending.written_at = Some(Instant::now());
        std::mem::take(&mut pending.counts)
    };
    let script = move |conn: &mut Conn| {
        for ((sequence, hour, reason), (count, record)) in &counts {
            let sql = Sql::new(
                "INSERT INTO sequence_skips(sequence, hour, reason, n, last_record) SELECT CAST($1 AS BIGINT), CAST($2 AS BIGINT), CAST($3 AS TEXT), \
                 CAST($4 AS BIGINT), CAST($5 AS BIGINT) \
                 WHERE EXISTS (SELECT 1 FROM sequences s WHERE s.id = $1) ON CONFLICT (sequence, hour, reason) DO UPDATE \
                 SET n = sequence_skips.n + excluded.n, last_record = COALESCE(excluded.last_record, sequence_skips.last_record)",
            );
            let sql = sql.arg(*sequence).arg(*hour).arg(reason.name()).arg(*count).arg(*record);
            conn.exec(&sql)?;
        }
        Ok(())
    };
    build.db.write(script).await
}
