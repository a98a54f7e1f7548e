//! The rules of task templates over several fields, and those of the items of their lists
//! (`docs/reference/task-templates.md`).

use super::plugin_config::PLUGIN_CONFIG;
use super::{COMPLETE_BY, EXPIRY, TASK_CREATION, TEMPLATE, UNITS};
use crate::moments;
use jiff::civil::Date;
use kit::ids::{ClassId, TaskTemplateId};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows;
use resource::items::{accept_fields, accept_items, item, list_schema, object_json, schema_of};
use resource::{Changes, CheckedValue, Errors, Field, FieldKey, FieldKind, Resource, message};
use serde_json::Value as Json;
use std::sync::LazyLock;
use store::{Conn, Sql};

pub const REMINDERS: &str = "reminders";
pub const RENEWALS: &str = "renewals";
/// The maximum number of reminders of a template, and of its renewals.
pub const MAX_ITEMS: usize = 10;

pub const AUTOMATIC: &str = "automatic";
pub const MANUAL: &str = "manual";
/// The maximum number of templates that create tasks for the new records of one class.
const MAX_AUTOMATIC: i64 = 10;

const NOTICE_TYPES: &[(&str, &str)] =
    &[("before_due", "Before due"), ("after_due", "After due"), ("before_expiry", "Before expiry")];

/// A mail that reminds of a task.
pub static REMINDER: LazyLock<Resource> = LazyLock::new(|| {
    item(
        "TaskReminder",
        [
            Field::new("notice_type", FieldKind::choices(NOTICE_TYPES)).required(),
            Field::new("time_unit", FieldKind::choices(UNITS)).required(),
            Field::new("time_value", FieldKind::Integer { min: 0, max: 100 }).required(),
        ],
    )
});

/// A renewal of a task before its expiry.
pub static RENEWAL: LazyLock<Resource> = LazyLock::new(|| {
    item(
        "TaskRenewal",
        [
            Field::new("renewal_time_unit", FieldKind::choices(UNITS)).nullable(),
            Field::new("renewal_time_value", FieldKind::Integer { min: 0, max: 100 }).nullable(),
        ],
    )
});

pub fn reminders_schema() -> Json {
    list_schema(schema_of(&REMINDER), MAX_ITEMS)
}

pub fn renewals_schema() -> Json {
    list_schema(schema_of(&RENEWAL), MAX_ITEMS)
}

/// The fields that each choice needs.
static NEEDED: [(&FieldKey<String>, &str, &[&str]); 6] = [
    (&COMPLETE_BY, "date", &["complete_by_date"]),
    (&COMPLETE_BY, "time_frame", &["complete_by_time_unit", "complete_by_time_value"]),
    (&EXPIRY, "time_frame", &["expiry_time_unit", "expiry_time_value", "expiry_time_rel_to"]),
    (&EXPIRY, "date", &["expiry_date"]),
    (&EXPIRY, "monthly", &["expiry_day"]),
    (&EXPIRY, "annually", &["expiry_periodic_day", "expiry_periodic_month"]),
];

/// Checks a body except `plugin_config`. `before` is the template that a PATCH changes.
pub fn accept(
    request: &Request,
    conn: &mut Conn,
    before: Option<(TaskTemplateId, &Changes)>,
) -> Result<(Changes, Errors), Refusal> {
    let body = request.object()?;
    let own = body.clone().filter_members(|name| ![PLUGIN_CONFIG, REMINDERS, RENEWALS].contains(&name));
    let accepted = rows::check_body(conn, &TEMPLATE, &own, before.map(|(id, _)| id.get()))?;
    let (mut changes, mut errors) = (accepted.changes, accepted.errors);
    for (name, item) in [(REMINDERS, &REMINDER), (RENEWALS, &RENEWAL)] {
        if let Some(list) = body.get(name) {
            let items = accept_items(item, name, list, MAX_ITEMS, &mut errors, accept_fields);
            let items = items.iter().map(|values| object_json(item, values)).collect();
            changes.insert(name, CheckedValue::Json(items));
        }
    }
    check_dates(&changes, request.now, &mut errors);
    check_choices(before.map(|(_, before)| before), &changes, &mut errors);
    Ok((changes, errors))
}

/// Refuses dates that are not in the future. Today is not.
fn check_dates(changes: &Changes, now: i64, errors: &mut Errors) {
    for name in ["complete_by_date", "expiry_date"] {
        if let Some(CheckedValue::Text(date)) = changes.value(name)
            && !date.parse::<Date>().is_ok_and(|date| moments::is_future(date, now))
        {
            errors.add(name, message::NOT_IN_FUTURE);
        }
    }
}

/// Refuses a choice without the fields that it needs, in the future state of the template.
fn check_choices(before: Option<&Changes>, changes: &Changes, errors: &mut Errors) {
    let value =
        |name: &str| changes.value(name).or_else(|| before?.value(name)).filter(|value| **value != CheckedValue::Null);
    for (choice, chosen, needed) in NEEDED {
        if errors.has_field(choice.name()) || value(choice.name()) != Some(&CheckedValue::from(chosen)) {
            continue;
        }
        for name in needed {
            if value(name).is_none() && !errors.has_field(name) {
                errors.add(name, message::REQUIRED);
            }
        }
    }
}

/// Refuses an automatic template whose tasks have no record.
pub fn refuse_automatic(errors: &mut Errors) {
    errors.add(TASK_CREATION.name(), message::choice(AUTOMATIC));
}

/// Refuses one more automatic template if the class, whose row is locked, has the maximum number.
pub fn check_automatic(conn: &mut Conn, class: ClassId) -> Result<(), Refusal> {
    let count = Sql::new("SELECT count(*) FROM task_templates WHERE automatic_class = $1").arg(class);
    match conn.query_one(&count, |row| row.int(0))? < MAX_AUTOMATIC {
        true => Ok(()),
        false => {
            let text = format!("Limit of {MAX_AUTOMATIC} automatic templates has been exceeded.");
            Err(Refusal::field(TASK_CREATION.name(), text))
        }
    }
}
