//! Reminders of tasks: a mail to each assignee, and to each member of an assigned group, whose account is active
//! (`docs/reference/tasks.md`).

use crate::moments::for_people;
use crate::tasks::task::{COMPLETED, OPEN};
use administration::company_details;
use administration::mail::message::MailMessage;
use administration::mail::queue::{self, ComposeContext, MailKind};
use administration::mail::templates;
use identity::principals::push_principals;
use kit::ids::{TaskId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use serde_json::{Value as Json, json};
use store::{Conn, Sql, StoreError};

/// The mail that reminds a user of a task. Its payload has the fields of [`ReminderMail`].
pub static REMINDER: MailKind = MailKind { name: "task_reminder", make, accepted: None };

/// The receivers of a task's reminder in the order of their ids: at most `limit` users after the user `after`.
pub fn receivers(conn: &mut Conn, task: TaskId, after: UserId, limit: usize) -> Result<Vec<UserId>, StoreError> {
    let sql = Sql::new(
        "SELECT u.id FROM (SELECT a.principal AS id FROM task_assignees a WHERE a.task = $1 AND a.principal > 0 \
         UNION SELECT m.user_id FROM task_assignees a JOIN user_group_members m ON m.group_id = -a.principal \
         WHERE a.task = $1 AND a.principal < 0) x JOIN users u ON u.id = x.id \
         WHERE u.id > $2 AND u.is_deleted = 0 AND u.status = 'active' ORDER BY u.id LIMIT $3",
    );
    conn.query_all(&sql.arg(task).arg(after).arg(i64::try_from(limit).unwrap_or(i64::MAX)), |row| row.id(0))
}

/// A mail that reminds a user of a task.
pub struct ReminderMail {
    pub task: TaskId,
    pub user: UserId,
    /// True if the reminder counts from the expiry. It then applies to a completed task, too.
    pub of_expiry: bool,
}

/// Puts the mails of reminders into the queue.
pub fn enqueue_mails(request: &Request, conn: &mut Conn, mails: &[ReminderMail]) -> Result<(), Refusal> {
    if mails.is_empty() {
        return Ok(());
    }
    let payload = |mail: &ReminderMail| json!([mail.task, mail.user, mail.of_expiry]);
    queue::put_many(request, conn, &REMINDER, mails.iter().map(payload).collect())
}

/// Composes the mail. Returns `None` if the task has ended or was deleted meanwhile, or is not assigned to this user any more.
fn make(making: &ComposeContext, conn: &mut Conn, payload: &Json) -> Result<Option<MailMessage>, StoreError> {
    let (task, user) = (payload[0].as_i64().map(TaskId::new), payload[1].as_i64().map(UserId::new));
    let (Some(task), Some(user)) = (task, user) else { return Ok(None) };
    let mut sql = Sql::new(
        "SELECT u.username, u.first_name, t.name, t.due_at, t.expires_at FROM users u JOIN tasks t ON t.id = ",
    );
    sql.bind(task).push(" WHERE u.is_deleted = 0 AND u.status = 'active' AND u.id = ").bind(user);
    sql.push(" AND t.status IN (").bind(OPEN);
    if payload[2] == true {
        sql.push(", ").bind(COMPLETED);
    }
    sql.push(") AND EXISTS (SELECT 1 FROM task_assignees a WHERE a.task = t.id AND a.principal IN ");
    push_principals(&mut sql, user);
    sql.push(")");
    let text_of_time = |at: Option<i64>| at.map(for_people).unwrap_or_default();
    let row = conn.query_optional(&sql, |row| {
        // The name is also in the subject, which is one line.
        let text = |at: usize| Ok::<_, StoreError>(row.text(at)?.replace(char::is_control, " "));
        Ok((text(0)?, text(1)?, text(2)?, text_of_time(row.opt_int(3)?), text_of_time(row.opt_int(4)?)))
    })?;
    let Some((to, first_name, name, due_at, expires_at)) = row else { return Ok(None) };
    let fields = company_details::merge_fields(conn)?.with_field("domain", &making.build.domain);
    let fields = fields.with_field("first_name", first_name).with_field("task", name).with_field("due_at", due_at);
    Ok(Some(templates::reminder(to, &fields.with_field("expires_at", expires_at))))
}
