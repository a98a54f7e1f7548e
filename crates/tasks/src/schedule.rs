//! The scheduled changes of tasks (`docs/reference/tasks.md`): they expire, remind and are renewed. Each such change is a row of
//! `task_moments`, which one process handles once when it is due. Changes that become due while no process runs are handled at
//! the next start.

use crate::hooks;
use crate::moments::{Notice, Plan};
use crate::one_time;
use crate::reminders::{self, ReminderMail};
use crate::tasks::counts;
use crate::tasks::create::renew;
use crate::tasks::log::{self, ActorKind};
use crate::tasks::task::{COMPLETED, EXPIRED, IN_APPROVAL, OPEN};
use crate::tasks::task_access::{self, TaskAccess};
use kit::app::App;
use kit::build::Build;
use kit::commit;
use kit::ids::{RecordId, TaskId, UserId};
use kit::jobs::{self, JobFuture, StandingJob};
use kit::refusal::Refusal;
use kit::request::Request;
use serde_json::{Map, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use store::{BorrowedArgument, Conn, Sql, StoreError};
use tokio::time::Instant;

const EXPIRE: &str = "expire";
const REMIND: &str = "remind";
const RENEW: &str = "renew";

/// The maximum number of due changes that one transaction reads.
const PAGE: i64 = 50;
/// The maximum number of mails that one transaction puts into the queue.
const MAILS: usize = 1_000;
/// The maximum pause after a transaction. The pause is as long as the transaction took.
const LONGEST_TURN: Duration = Duration::from_millis(100);
/// The pause if other transactions have locked the tasks.
const BUSY_PAUSE: Duration = Duration::from_millis(200);

/// A kind of scheduled change, and the index of the reminder or renewal in the plan.
type ChangeKey = (&'static str, i64);

/// The scheduled changes of a task in this state.
fn schedule_changes(
    plan: &Plan,
    status: &str,
    due_at: Option<i64>,
    expires_at: Option<i64>,
) -> BTreeMap<ChangeKey, i64> {
    let mut changes = BTreeMap::new();
    if let Some(at) = expires_at.filter(|_| [OPEN, IN_APPROVAL, COMPLETED].contains(&status)) {
        changes.insert((EXPIRE, 0), at);
    }
    for (n, reminder) in (0..).zip(&plan.reminders) {
        let at = match reminder.notice_type {
            Notice::BeforeDue if status == OPEN => due_at.map(|due| reminder.time.subtract_from(due)),
            Notice::AfterDue if status == OPEN => due_at.map(|due| reminder.time.add_to(due)),
            Notice::BeforeExpiry if [OPEN, COMPLETED].contains(&status) => {
                expires_at.map(|expires| reminder.time.subtract_from(expires))
            }
            _ => None,
        };
        let is_told = |at: &i64| changes.iter().any(|((kind, _), reminder_at)| *kind == REMIND && reminder_at == at);
        let at = at.filter(|at| !is_told(at));
        changes.extend(at.map(|at| ((REMIND, n), at)));
    }
    if status == COMPLETED {
        let renewals = (0..).zip(&plan.renewals);
        changes.extend(renewals.filter_map(|(n, time)| Some(((RENEW, n), time.subtract_from(expires_at?)))));
    }
    changes
}

/// Returns whether a new scheduled change is skipped because it is past. This applies only to reminders.
fn is_past((kind, _): ChangeKey, at: i64, now: i64) -> bool {
    kind == REMIND && at < now
}

/// Inserts the scheduled changes of new tasks with the same plan.
pub fn begin(
    request: &Request,
    conn: &mut Conn,
    tasks: &[TaskId],
    plan: &Plan,
    due_at: Option<i64>,
    expires_at: Option<i64>,
) -> Result<(), StoreError> {
    let changes: Vec<_> = schedule_changes(plan, OPEN, due_at, expires_at)
        .into_iter()
        .filter(|(key, at)| !is_past(*key, *at, request.now))
        .collect();
    let of_task = |task: &TaskId| changes.iter().map(|(key, at)| row(*task, *key, *at)).collect::<Vec<_>>();
    let rows: Vec<_> = tasks.iter().flat_map(of_task).collect();
    insert(request, conn, &rows, "")
}

fn row(task: TaskId, (kind, n): ChangeKey, at: i64) -> [BorrowedArgument<'static>; 5] {
    [
        task.into(),
        BorrowedArgument::Text(kind),
        BorrowedArgument::Int(n),
        BorrowedArgument::Int(at),
        BorrowedArgument::Int(0),
    ]
}

/// Wakes the job of scheduled changes after changes were added.
fn wake(app: &App, build: &Arc<Build>) {
    jobs::wake_for(app, build, &SCHEDULED_CHANGES);
}

fn insert(
    request: &Request,
    conn: &mut Conn,
    rows: &[[BorrowedArgument<'static>; 5]],
    suffix: &'static str,
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    request.effects.after_commit(wake);
    conn.insert_rows("task_moments", &["task", "kind", "n", "at", "is_done"], rows, suffix).map(drop)
}

/// Updates the scheduled changes of a task whose state, due time or expiry has changed. Done changes that stay are not repeated.
pub fn reset(request: &Request, conn: &mut Conn, task: &TaskAccess) -> Result<(), StoreError> {
    let mut new_changes = schedule_changes(&task.plan, &task.status, task.due_at, task.expires_at);
    let sql = Sql::new("SELECT kind, n, at, is_done FROM task_moments WHERE task = $1").arg(task.id);
    let stored = conn.query_all(&sql, |row| Ok((row.text(0)?.to_owned(), row.int(1)?, row.int(2)?, row.flag(3)?)))?;
    let mut removed = Vec::new();
    for (kind, n, at, is_done) in stored {
        let Some(kind) = [EXPIRE, REMIND, RENEW].into_iter().find(|kind_name| *kind_name == kind) else { continue };
        // A task that expired and was reopened expires again.
        let is_over = kind == EXPIRE && is_done;
        let is_wanted = new_changes.get(&(kind, n)).map(|time| *time == at && !is_over);
        if is_wanted == Some(true) {
            new_changes.remove(&(kind, n));
        }
        // A done change that is not wanted now stays, because it may be wanted again.
        if is_wanted == Some(false) || (is_wanted.is_none() && !is_done) {
            removed.push((kind, n));
        }
    }
    for (kind, n) in removed {
        let sql = Sql::new("DELETE FROM task_moments WHERE task = $1 AND kind = $2 AND n = $3");
        conn.exec(&sql.arg(task.id).arg(kind).arg(n))?;
    }
    new_changes.retain(|key, at| !is_past(*key, *at, request.now));
    let rows: Vec<_> = new_changes.into_iter().map(|(key, at)| row(task.id, key, at)).collect();
    insert(request, conn, &rows, "")
}

/// Handles the due changes of all tasks of a build.
pub static SCHEDULED_CHANGES: StandingJob = StandingJob {
    name: "tasks",
    at_a_time: 8,
    due: |_, _, conn, _| {
        conn.query_one(&Sql::new("SELECT min(at) FROM task_moments WHERE is_done = 0"), |row| row.opt_int(0))
    },
    run: |app, build| Box::pin(run(app, build)) as JobFuture<_>,
};

async fn run(app: App, build: Arc<Build>) -> Result<(), StoreError> {
    loop {
        let place = jobs::acquire_permit(&app, SCHEDULED_CHANGES.name).await;
        let request = Arc::new(Request::for_system(&app, &build));
        let started = Instant::now();
        let outcome = commit::write(&request, some_due).await;
        drop(place);
        match outcome.map_err(|refusal| refusal.cause.map_or(StoreError::Busy, |cause| *cause))? {
            ScheduleProgress::All => return Ok(()),
            // Other builds get their turn if very many changes are due at once.
            ScheduleProgress::Some => tokio::time::sleep(started.elapsed().min(LONGEST_TURN)).await,
            ScheduleProgress::Busy => tokio::time::sleep(BUSY_PAUSE).await,
        }
    }
}

/// The progress of a transaction.
enum ScheduleProgress {
    /// Nothing is due.
    All,
    Some,
    /// Other transactions have locked all tasks with due changes.
    Busy,
}

/// Handles the due changes of some tasks. A task is locked first, as in requests. The records of tasks that may be renewed are
/// locked before it, as in their deletion.
fn some_due(request: &Request, conn: &mut Conn) -> Result<ScheduleProgress, Refusal> {
    let now = request.now;
    let sql = Sql::new(
        "SELECT d.task, CASE WHEN EXISTS (SELECT 1 FROM task_moments r WHERE r.task = d.task AND r.kind = 'renew' \
         AND r.is_done = 0 AND r.at <= $1) THEN t.record END FROM (SELECT task, min(at) AS at FROM (SELECT task, at \
         FROM task_moments WHERE is_done = 0 AND at <= $1 ORDER BY at, task LIMIT $2) m GROUP BY task) d \
         JOIN tasks t ON t.id = d.task ORDER BY d.at, d.task",
    );
    let due = conn.query_all(&sql.arg(now).arg(PAGE), |row| Ok((row.id(0)?, row.opt_id(1)?)))?;
    if due.is_empty() {
        return Ok(ScheduleProgress::All);
    }
    let records: BTreeSet<RecordId> = due.iter().filter_map(|(_, record)| *record).collect();
    let mut sql = Sql::new("SELECT id FROM records WHERE id");
    sql.push_any(records.iter().copied().collect::<Vec<_>>()).push(" ORDER BY id FOR NO KEY UPDATE");
    conn.for_each_row(&sql, |_| Ok(()))?;
    let ids: Vec<TaskId> = due.iter().map(|(task, _)| *task).collect();
    let mut tasks = task_access::unlocked(conn, ids)?;
    if tasks.is_empty() {
        return Ok(ScheduleProgress::Busy);
    }
    let ids: Vec<TaskId> = tasks.keys().copied().collect();
    let due = take_due(conn, ids, now)?;
    let (mut expiring, mut reminders) = (Vec::new(), BTreeMap::new());
    let mut later = Later::default();
    for change in due {
        let Some(task) = tasks.get_mut(&change.task) else { continue };
        if later.tasks.contains(&task.id) {
            later.insert_change(change);
            continue;
        }
        match change.kind.as_str() {
            _ if task.status == EXPIRED => undo(conn, &change)?,
            EXPIRE => {
                if let Some(former) = expire(task, now) {
                    expiring.push((task.id, former));
                }
            }
            // The latest reminder replaces those that became due before it and were not sent.
            REMIND if is_timely(task, &change, now) => drop(reminders.insert(task.id, change)),
            REMIND => {}
            // The renewal became due after the lock of the records.
            _ if task.status == COMPLETED && task.record.is_some_and(|record| !records.contains(&record)) => {
                later.insert_change(change);
            }
            _ if task.status == COMPLETED => {
                // Tasks that have expired before must not count as open.
                write_expired(request, conn, std::mem::take(&mut expiring))?;
                renew(request, conn, task)?;
            }
            _ => {}
        }
    }
    reminders.retain(|task, _| tasks.get(task).is_some_and(|task| task.status != EXPIRED));
    let mails = mails_of(conn, &tasks, reminders, &mut later)?;
    later.store(conn)?;
    write_expired(request, conn, expiring)?;
    reminders::enqueue_mails(request, conn, &mails)?;
    Ok(ScheduleProgress::Some)
}

/// A scheduled change that is due.
struct DueChange {
    task: TaskId,
    kind: String,
    n: i64,
    at: i64,
    reminded_to: UserId,
}

/// Marks the due changes of some tasks as done, and returns them in the order of their times. Among changes of one task with the
/// same time, a renewal comes first, then reminders, and the expiry last.
fn take_due(conn: &mut Conn, tasks: Vec<TaskId>, now: i64) -> Result<Vec<DueChange>, StoreError> {
    let mut sql = Sql::new("SELECT task, kind, n, at, reminded_to FROM task_moments WHERE is_done = 0 AND at <= ");
    sql.bind(now).push(" AND task").push_any(tasks.iter().copied()).push(" ORDER BY at, task, kind DESC, n");
    let due = conn.query_all(&sql, |row| {
        let (task, kind, n) = (row.id(0)?, row.text(1)?.to_owned(), row.int(2)?);
        Ok(DueChange { task, kind, n, at: row.int(3)?, reminded_to: row.id(4)? })
    })?;
    let mut sql = Sql::new("UPDATE task_moments SET is_done = 1 WHERE is_done = 0 AND at <= ");
    conn.exec(sql.bind(now).push(" AND task").push_any(tasks))?;
    Ok(due)
}

/// The notice type of a due reminder in the plan of its task.
fn due_notice(task: &TaskAccess, change: &DueChange) -> Option<Notice> {
    let reminder = usize::try_from(change.n).ok().and_then(|n| task.plan.reminders.get(n));
    reminder.map(|reminder| reminder.notice_type)
}

/// Returns whether a reminder still applies. A reminder before `due_at` does not apply once the task is due.
fn is_timely(task: &TaskAccess, change: &DueChange, now: i64) -> bool {
    let is_late = |due: i64| change.at < due && due <= now;
    due_notice(task, change) != Some(Notice::BeforeDue) || !task.due_at.is_some_and(is_late)
}

/// The mails of reminders, which are grouped by task: at most [`MAILS`]. The others are left for later.
fn mails_of(
    conn: &mut Conn,
    tasks: &BTreeMap<TaskId, TaskAccess>,
    reminders: BTreeMap<TaskId, DueChange>,
    later: &mut Later,
) -> Result<Vec<ReminderMail>, StoreError> {
    let mut mails = Vec::new();
    for (id, mut change) in reminders {
        let Some(task) = tasks.get(&id) else { continue };
        let room = MAILS - mails.len();
        let mut to = reminders::receivers(conn, id, change.reminded_to, room + 1)?;
        let of_expiry = due_notice(task, &change) == Some(Notice::BeforeExpiry);
        if to.len() > room {
            to.truncate(room);
            change.reminded_to = to.last().copied().unwrap_or(change.reminded_to);
            later.insert_change(change);
        }
        mails.extend(to.into_iter().map(|user| ReminderMail { task: id, user, of_expiry }));
    }
    Ok(mails)
}

/// The changes that a transaction leaves to a later one, because it has queued the maximum number of mails or has not locked a
/// record. `reminded_to` of a change is the last user who was reminded.
#[derive(Default)]
struct Later {
    tasks: BTreeSet<TaskId>,
    changes: Vec<DueChange>,
}

impl Later {
    fn insert_change(&mut self, change: DueChange) {
        self.tasks.insert(change.task);
        self.changes.push(change);
    }

    fn store(self, conn: &mut Conn) -> Result<(), StoreError> {
        let rows = self.changes.iter().map(|change| {
            [
                change.reminded_to.into(),
                change.task.into(),
                BorrowedArgument::Text(&change.kind),
                BorrowedArgument::Int(change.n),
            ]
        });
        let text = "UPDATE task_moments SET is_done = 0, reminded_to = $1 WHERE task = $2 AND kind = $3 AND n = $4";
        conn.exec_each(text, rows, |_| {})
    }
}

/// Removes a scheduled change that follows the expiry of its task.
fn undo(conn: &mut Conn, change: &DueChange) -> Result<(), StoreError> {
    let sql = Sql::new("DELETE FROM task_moments WHERE task = $1 AND kind = $2 AND n = $3");
    conn.exec(&sql.arg(change.task).arg(change.kind.as_str()).arg(change.n)).map(drop)
}

/// Expires a task whose expiry is due. Returns its former status.
fn expire(task: &mut TaskAccess, now: i64) -> Option<String> {
    let is_due = task.expires_at.is_some_and(|at| at <= now);
    let expires = is_due && [OPEN, IN_APPROVAL, COMPLETED].contains(&task.status.as_str());
    expires.then(|| std::mem::replace(&mut task.status, EXPIRED.to_owned()))
}

/// Writes the expiry of tasks, each with its former status, and deletes their future changes.
fn write_expired(request: &Request, conn: &mut Conn, expired: Vec<(TaskId, String)>) -> Result<(), Refusal> {
    let ids: Vec<TaskId> = expired.iter().map(|(id, _)| *id).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let change = |former: String| Map::from_iter([("status".to_owned(), json!([former, EXPIRED]))]);
    let entries = expired.into_iter().map(|(id, former)| (id, change(former))).collect();
    log::write_many(request, conn, ActorKind::System, "expire", entries)?;
    counts::remove(conn, &ids)?;
    let mut tasks = Sql::new("UPDATE tasks SET modified_by = NULL, modified_at = ");
    tasks.bind(request.now).push(", status = ").bind(EXPIRED).push(" WHERE id").push_any(ids.iter().copied());
    let mut assigned = Sql::new("UPDATE task_assignees SET status = ");
    assigned.bind(EXPIRED).push(" WHERE task").push_any(ids.iter().copied());
    let mut changes = Sql::new("DELETE FROM task_moments WHERE is_done = 0 AND task");
    changes.push_any(ids.iter().copied());
    for sql in [tasks, assigned, changes] {
        conn.exec(&sql)?;
    }
    counts::add(conn, &ids)?;
    hooks::run_changed(request, conn, &ids)?;
    one_time::end(request, conn, &ids, None)
}
