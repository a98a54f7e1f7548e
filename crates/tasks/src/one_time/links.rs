//! The links to tasks. A one-time account has a link to each task that is assigned to it directly, not through a group.
//! The row of a link is created with the job of its mail. The token is created when the mail is sent, so that only the mail
//! contains it. A retry of the job creates another token. A mail whose link has no row any more is not sent.

use crate::tasks::task::{IN_APPROVAL, OPEN};
use administration::company_details;
use administration::mail::message::MailMessage;
use administration::mail::queue::{self, ComposeContext, MailKind, QueuedMail};
use administration::mail::templates;
use identity::sessions;
use kit::ids::{JobId, Principal, PrincipalId, TaskId, UserId};
use kit::jobs;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::secret::Context;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use store::{BorrowedArgument, Conn, Sql, StoreError};
use web::clock::{random_token, sha256_hex};

/// A link that opens a task for an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskLink {
    pub task: TaskId,
    pub user: UserId,
}

/// The maximum number of links that are mailed to one address within [`HOUR_US`]. Further ones are mailed later.
const LINKS_AN_HOUR: i64 = 20;
const HOUR_US: i64 = 3_600_000_000;
/// The maximum number of outdated rows that one invitation removes.
const MAX_REMOVED: i64 = 100;

/// The mail with a link. Its payload contains the ids of the task and of the user.
pub static TASK_LINK: MailKind = MailKind { name: "task_link", make, accepted: None };

/// Mails a link to each one-time account among the new assignees. `assigned` contains pairs of a task and a principal.
pub fn invite(request: &Request, conn: &mut Conn, assigned: Vec<(TaskId, PrincipalId)>) -> Result<(), Refusal> {
    let mut tasks: BTreeMap<UserId, BTreeSet<TaskId>> = BTreeMap::new();
    for (task, principal) in assigned {
        if let Principal::User(user) = principal.to_enum() {
            tasks.entry(user).or_default().insert(task);
        }
    }
    if tasks.is_empty() {
        return Ok(());
    }
    let mut sql = Sql::new("SELECT id, username_fold FROM users WHERE account_type = 'one_time_completion' AND id");
    // The lock ensures that concurrent links to the same address are counted together.
    sql.push_any(tasks.keys().copied().collect::<Vec<_>>()).push(" ORDER BY id FOR NO KEY UPDATE");
    let place = Context { build: &request.build.uid, table: "task_link_mails", column: "address", row: "" };
    for (user, address) in conn.query_all(&sql, |row| Ok((row.id(0)?, row.text(1)?.to_owned())))? {
        // The address is hashed, because its row is retained after the account is deleted.
        let address = request.app.keys.name(&place, address.as_bytes());
        for task in tasks.remove(&user).unwrap_or_default() {
            let at = next_send_time(conn, &address, request.now)?;
            let mail = QueuedMail { kind: &TASK_LINK, payload: json!([task, user]), once_for: None };
            let Some(job) = queue::put_at(request, conn, &mail, at)? else { continue };
            let (hash, now) = (placeholder_hash(job), BorrowedArgument::Int(request.now));
            let row = [BorrowedArgument::Text(&hash), task.into(), user.into(), now, job.into()];
            conn.insert_rows("task_links", &["hash", "task", "user_id", "created_at", "job"], &[row], "")?;
            let row = [job.into(), BorrowedArgument::Text(&address), BorrowedArgument::Int(at)];
            conn.insert_rows("task_link_mails", &["job", "address", "at"], &[row], "")?;
        }
    }
    remove_former(conn, request.now)
}

/// The time at which the next link may be mailed to an address: now, or an hour after the twentieth link before it.
fn next_send_time(conn: &mut Conn, address: &str, now: i64) -> Result<i64, StoreError> {
    let sql = Sql::new("SELECT at FROM task_link_mails WHERE address = $1 ORDER BY at DESC LIMIT 1 OFFSET $2");
    let before = conn.query_optional(&sql.arg(address).arg(LINKS_AN_HOUR - 1), |row| row.int(0))?;
    Ok(before.map_or(now, |before| now.max(before.saturating_add(HOUR_US))))
}

/// Removes rows that do not delay links any more.
fn remove_former(conn: &mut Conn, now: i64) -> Result<(), Refusal> {
    let sql = Sql::new(
        "DELETE FROM task_link_mails WHERE job IN (SELECT job FROM task_link_mails WHERE at <= $1 ORDER BY at LIMIT $2 \
         FOR UPDATE SKIP LOCKED)",
    );
    Ok(conn.exec(&sql.arg(now - HOUR_US).arg(MAX_REMOVED)).map(drop)?)
}

/// The placeholder of the hash of a link without a token.
fn placeholder_hash(job: JobId) -> String {
    format!("unsent-{job}")
}

/// Ends the links to tasks of the users among these principals, or of all users, and the sessions that began with them.
pub fn end(
    request: &Request,
    conn: &mut Conn,
    tasks: &[TaskId],
    principals: Option<&[PrincipalId]>,
) -> Result<(), Refusal> {
    let mut sql = Sql::new("DELETE FROM task_links WHERE task");
    sql.push_any(tasks.iter().copied());
    if let Some(principals) = principals {
        sql.push(" AND user_id").push_any(principals.iter().copied());
    }
    let mails = conn.query_all(sql.push(" RETURNING job"), |row| row.int(0))?;
    // Links that were still to be mailed free their share of the limit.
    if !mails.is_empty() {
        let mut sql = Sql::new("DELETE FROM task_link_mails WHERE at > ");
        sql.bind(request.now).push(" AND job").push_any(mails).push(" RETURNING job");
        for job in conn.query_all(&sql, |row| row.id(0))? {
            jobs::cancel(request, conn, job)?;
        }
    }
    sessions::end_of_tasks(request, conn, tasks, principals)
}

/// Ends all links of a deleted or anonymized account. Its sessions end with it.
pub fn delete_all_of(conn: &mut Conn, user: UserId) -> Result<(), StoreError> {
    conn.exec(&Sql::new("DELETE FROM task_links WHERE user_id = $1").arg(user)).map(drop)
}

/// Ends the links of an account that were already mailed. Mails that are still queued go to the account's current address when
/// they are sent.
pub fn delete_tokens_of(conn: &mut Conn, user: UserId) -> Result<(), StoreError> {
    let sql = Sql::new("UPDATE task_links SET hash = 'unsent-' || CAST(job AS TEXT) WHERE user_id = $1");
    conn.exec(&sql.arg(user)).map(drop)
}

/// The conditions of a link besides its token: the task has not ended, and is assigned to the account, which is active.
const HOLDS: &str = "SELECT 1 FROM tasks t JOIN task_assignees a ON a.task = t.id JOIN users u ON u.id = a.principal \
    WHERE u.account_type = 'one_time_completion' AND u.is_deleted = 0 AND u.status = 'active' AND t.status IN (";

/// Returns whether a user may still open a task by a link.
pub fn may_open_task(conn: &mut Conn, user: UserId, task: TaskId) -> Result<bool, StoreError> {
    let mut sql = Sql::new(HOLDS);
    sql.bind(OPEN).push(", ").bind(IN_APPROVAL).push(") AND t.id = ").bind(task).push(" AND u.id = ").bind(user);
    Ok(conn.query_optional(&sql, |_| Ok(()))?.is_some())
}

/// Returns the link of a token, if it works from the address of the request.
pub fn find(request: &Request, conn: &mut Conn, token: &str) -> Result<Option<TaskLink>, StoreError> {
    let Some(link) = find_by_token(conn, token)? else { return Ok(None) };
    let works = sessions::may_use_link(request, conn, link.user, false)? && may_open_task(conn, link.user, link.task)?;
    Ok(Some(link).filter(|_| works))
}

/// Does the same as [`find`], and locks the rows of the task and of the account. So the link works until the end of the
/// transaction.
pub fn find_for_change(request: &Request, conn: &mut Conn, token: &str) -> Result<Option<TaskLink>, StoreError> {
    let Some(link) = find_by_token(conn, token)? else { return Ok(None) };
    // The order of the locks is that of a change of the task's assignees.
    conn.query_optional(&Sql::new("SELECT 1 FROM tasks WHERE id = $1 FOR SHARE").arg(link.task), |_| Ok(()))?;
    let works = sessions::may_use_link(request, conn, link.user, true)?
        && find_by_token(conn, token)? == Some(link)
        && may_open_task(conn, link.user, link.task)?;
    Ok(Some(link).filter(|_| works))
}

fn find_by_token(conn: &mut Conn, token: &str) -> Result<Option<TaskLink>, StoreError> {
    let sql = Sql::new("SELECT task, user_id FROM task_links WHERE hash = $1").arg(sha256_hex(token));
    conn.query_optional(&sql, |row| Ok(TaskLink { task: row.id(0)?, user: row.id(1)? }))
}

fn make(making: &ComposeContext, conn: &mut Conn, payload: &Json) -> Result<Option<MailMessage>, StoreError> {
    let (Some(task), Some(user)) = (payload[0].as_i64(), payload[1].as_i64()) else { return Ok(None) };
    let (task, user) = (TaskId::new(task), UserId::new(user));
    let token = random_token();
    let sql = Sql::new("UPDATE task_links SET hash = $1 WHERE task = $2 AND user_id = $3 AND job = $4");
    let row_count = conn.exec(&sql.arg(sha256_hex(&token)).arg(task).arg(user).arg(making.job))?;
    if row_count == 0 || !may_open_task(conn, user, task)? {
        return Ok(None);
    }
    let sql =
        Sql::new("SELECT u.username, u.first_name, t.name FROM users u JOIN tasks t ON t.id = $1 WHERE u.id = $2");
    let [to, first_name, name] = conn.query_one(&sql.arg(task).arg(user), |row| {
        // The name is also in the subject, which is one line.
        let text = |at: usize| Ok::<_, StoreError>(row.text(at)?.replace(char::is_control, " "));
        Ok([text(0)?, text(1)?, text(2)?])
    })?;
    let base = making.app.front_end_of(making.build).unwrap_or_else(|| making.app.address_of(making.build));
    let fields = company_details::merge_fields(conn)?.with_field("domain", &making.build.domain);
    let fields = fields.with_field("first_name", first_name).with_field("task", name);
    Ok(Some(templates::task_link(to, &fields.with_field("link", format!("{base}/task/?token={token}")))))
}
