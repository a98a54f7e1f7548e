//! The parts of a template that tasks need.

use super::form::TT_UPDATE;
use crate::moments::{CompleteBy, Expiry, Notice, Plan, Reminder, TimeFrame, Unit};
use kit::ids::{ClassId, TaskTemplateId};
use kit::limits::slot;
use serde_json::Value as Json;
use store::{Conn, Row, Sql, StoreError};

/// A template with the fields that determine its tasks.
#[derive(Clone)]
pub struct TaskTemplate {
    pub id: TaskTemplateId,
    pub name: String,
    pub description: String,
    /// The number of the template's form.
    pub form: i64,
    /// The class whose records its tasks change.
    pub class: Option<ClassId>,
    pub complete_by: CompleteBy,
    pub expiry: Option<Expiry>,
    pub plan: Plan,
}

const SELECT: &str = "SELECT t.id, t.name, t.description, t.form, f.task_type, f.class_id, \
    t.complete_by, t.complete_by_date, t.complete_by_time_unit, t.complete_by_time_value, \
    t.expiry, t.expiry_time_unit, t.expiry_time_value, t.expiry_time_rel_to, t.expiry_date, t.expiry_day, \
    t.expiry_periodic_day, t.expiry_periodic_month, t.reminders, t.renewals \
    FROM task_templates t JOIN task_forms f ON f.id = t.form WHERE ";

impl TaskTemplate {
    /// Loads the template with this id.
    pub fn load(conn: &mut Conn, id: TaskTemplateId) -> Result<Option<TaskTemplate>, StoreError> {
        let mut sql = Sql::new(SELECT);
        conn.query_optional(sql.push("t.id = ").bind(id), read)
    }

    /// Loads the templates that create a task for each new record of a class, and locks them until the end of the transaction.
    pub fn automatic_of(conn: &mut Conn, class: ClassId) -> Result<Vec<TaskTemplate>, StoreError> {
        let mut sql = Sql::new(SELECT);
        conn.query_all(sql.push("t.automatic_class = ").bind(class).push(" ORDER BY t.id FOR SHARE"), read)
    }

    /// Returns whether its tasks change a record.
    pub fn is_update(&self) -> bool {
        self.class.is_some()
    }
}

fn read(row: &Row<'_>) -> Result<TaskTemplate, StoreError> {
    let text = |at: usize| Ok::<_, StoreError>(row.opt_text(at)?.unwrap_or("").to_owned());
    let frame = |at: usize| -> Result<Option<TimeFrame>, StoreError> {
        Ok(unit(row.opt_text(at)?).zip(row.opt_int(at + 1)?).map(|(unit, value)| TimeFrame { unit, value }))
    };
    let date = |at: usize| -> Result<_, StoreError> {
        let date = row.opt_text(at)?.map(str::parse).transpose();
        date.map_err(|_| StoreError::internal("a stored date cannot be parsed"))
    };
    let complete_by = match row.text(6)? {
        "date" => date(7)?.map(CompleteBy::Date),
        "time_frame" => frame(8)?.map(CompleteBy::TimeFrame),
        _ => None,
    };
    let expiry = match row.opt_text(10)? {
        Some("time_frame") => frame(11)?.map(match row.opt_text(13)? {
            Some("completed") => Expiry::AfterCompletion,
            _ => Expiry::AfterAssignment,
        }),
        Some("date") => date(14)?.map(Expiry::Date),
        Some("monthly") => row.opt_int(15)?.map(Expiry::Monthly),
        Some("annually") => row.opt_int(17)?.zip(row.opt_int(16)?).map(|(month, day)| Expiry::Annually(month, day)),
        _ => None,
    };
    Ok(TaskTemplate {
        id: row.id(0)?,
        name: text(1)?,
        description: text(2)?,
        form: row.int(3)?,
        class: row.opt_id(5)?.filter(|_| matches!(row.text(4), Ok(TT_UPDATE))),
        complete_by: complete_by.unwrap_or(CompleteBy::Asap),
        plan: Plan {
            expires_after: match expiry {
                Some(Expiry::AfterCompletion(time)) => Some(time),
                _ => None,
            },
            reminders: items(row, 18, reminder)?,
            renewals: items(row, 19, renewal)?,
        },
        expiry,
    })
}

fn unit(name: Option<&str>) -> Option<Unit> {
    match name? {
        "days" => Some(Unit::Days),
        "weeks" => Some(Unit::Weeks),
        "months" => Some(Unit::Months),
        _ => None,
    }
}

fn items<T>(row: &Row<'_>, column: usize, read_item: fn(&Json) -> Option<T>) -> Result<Vec<T>, StoreError> {
    let items: Vec<Json> = row.json(column)?;
    Ok(items.iter().filter_map(read_item).collect())
}

fn reminder(item: &Json) -> Option<Reminder> {
    let notice_type = match item["notice_type"].as_str()? {
        "before_due" => Notice::BeforeDue,
        "after_due" => Notice::AfterDue,
        _ => Notice::BeforeExpiry,
    };
    let time = TimeFrame { unit: unit(item["time_unit"].as_str())?, value: item["time_value"].as_i64()? };
    Some(Reminder { notice_type, time })
}

/// Reads a renewal. The default unit is days, the default value 0.
fn renewal(item: &Json) -> Option<TimeFrame> {
    let unit = unit(item["renewal_time_unit"].as_str()).unwrap_or(Unit::Days);
    Some(TimeFrame { unit, value: item["renewal_time_value"].as_i64().unwrap_or(0) })
}

/// Adds new tasks to the count of a template. This is one of the last writes, because others may wait for its row.
pub fn count_tasks(conn: &mut Conn, template: TaskTemplateId, more: i64, now: i64) -> Result<(), StoreError> {
    let sql = Sql::new(
        "INSERT INTO task_template_counts(template, slot, n, last_at) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (template, slot) DO UPDATE SET n = task_template_counts.n + excluded.n, last_at = excluded.last_at",
    );
    let slot = slot(conn);
    conn.exec(&sql.arg(template).arg(slot).arg(more).arg(now)).map(drop)
}
