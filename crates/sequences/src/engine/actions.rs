//! The steps inside the system. Each calls the handlers of the API as the account of the run, so that every check, right and message is
//! that of the API.

use super::documents;
use super::mails;
use super::people::{self, FoundPeople};
use super::run::Run;
use super::stepper::{Done, Outcome, Stepper};
use super::waits;
use crate::definition::people::People;
use crate::definition::values::Value;
use crate::definition::{Action, Step, TaskRecordOf};
use crate::values::Val;
use crate::values::evaluate::{Evaluator, Named};
use http::Method;
use kit::ids::{RecordId, TaskId};
use kit::refusal::Refusal;
use records::classes::Class;
use records::field_type::FieldType;
use records::rights::{EDIT, EDIT_OWNERS};
use records::single_records::{self, each_stored};
use resource::{Changes, CheckedValue, JsonBody, check_value};
use serde_json::{Map, Value as Json, json};
use store::{Conn, Sql, StoreError};
use tasks::single_tasks::{self, TaskOutcome};

/// The maximum length of the name of a task.
const MAX_TASK_NAME: usize = 100;

/// Does the action of a step.
pub fn run(stepper: &Stepper<'_>, conn: &mut Conn, run: &mut Run, step: &Step) -> Result<Outcome, Refusal> {
    match &step.action {
        Action::CreateRecord { object_class, fields, owner, sets } => {
            create_record(stepper, conn, run, (*object_class, fields, owner.as_ref(), sets))
        }
        Action::UpdateRecord { record, fields, owner } => {
            update_record(stepper, conn, run, (record.as_ref(), fields, owner.as_ref()))
        }
        Action::DeleteRecord { record } => delete_record(stepper, conn, run, record.as_ref()),
        Action::Assign { is_removal, record, set, to } => {
            assign(stepper, conn, run, (*is_removal, record.as_ref(), *set, to))
        }
        Action::FindRecords { object_class, .. } => Ok(found_records(stepper, run, *object_class)),
        Action::CreateTask { template, record, name, assignees, due_at } => {
            let task = NewTask { template: *template, record, name: name.as_ref(), assignees, due_at: due_at.as_ref() };
            create_task(stepper, conn, run, &task)
        }
        Action::GenerateDocument { template, record, field } => {
            documents::generate(stepper, conn, run, (*template, record.as_ref(), field.as_deref()))
        }
        Action::SendMail(mail) => mails::send(stepper, conn, run, mail),
        Action::CancelTask { task } => cancel_task(stepper, conn, run, task),
        Action::Wait { for_what, at_most } => waits::run(stepper, conn, run, (for_what, *at_most)),
        Action::Branch { branches, .. } => {
            let mut evaluator = Evaluator::for_account(stepper.as_account, run.facts());
            for (at, (condition, _)) in branches.iter().enumerate() {
                if evaluator.condition(conn, condition)? {
                    return Ok(Outcome::Branch(Some(at)));
                }
            }
            Ok(Outcome::Branch(None))
        }
        Action::ForEach { .. } => Ok(match stepper.reading_of(run) {
            Some(reading) => Outcome::Each { records: reading.records.clone(), left_out: reading.left_out },
            None => Outcome::NeedsReading,
        }),
        Action::Stop { is_failure, message } => {
            let message = match message {
                Some(message) => Evaluator::for_account(stepper.as_account, run.facts()).text(conn, message)?,
                None => String::new(),
            };
            Ok(Outcome::Stop { is_failure: *is_failure, message: message.chars().take(255).collect() })
        }
    }
}

fn named(outputs: impl IntoIterator<Item = (&'static str, Val)>) -> Named {
    outputs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

type NewRecord<'a> = (i64, &'a [(String, Value)], Option<&'a Value>, &'a [(i64, Vec<People>)]);

fn create_record(
    stepper: &Stepper<'_>,
    conn: &mut Conn,
    run: &Run,
    (object_class, fields, owner, sets): NewRecord<'_>,
) -> Result<Outcome, Refusal> {
    let class = stepper.class(conn, object_class)?;
    let mut body = json!({"fields": stepper.fields(conn, run, class.as_deref(), fields)?});
    if let Some(owner) = owner {
        let owner = stepper.user(conn, run, owner)?;
        if !owner.is_null() {
            body["owner"] = owner;
        }
    }
    let mut assigned = Vec::new();
    for (set, to) in sets {
        let FoundPeople { users, groups } = people::find(stepper, conn, run, to, run.record)?;
        assigned.push(json!({"permission_set": set, "users": users, "user_groups": groups}));
    }
    if !assigned.is_empty() {
        body["permission_sets"] = assigned.into();
    }
    let path = format!("/api/object-classes/{object_class}/object-records/");
    let created = stepper.call(conn, Method::POST, path, body.clone())?;
    let record = created["id"].as_i64();
    let outputs = named([("record", record.map_or(Val::Null, Val::Record))]);
    Ok(Outcome::Done(Done { input: body, outputs, record, task: None }))
}

type RecordUpdate<'a> = (Option<&'a Value>, &'a [(String, Value)], Option<&'a Value>);

fn update_record(
    stepper: &Stepper<'_>,
    conn: &mut Conn,
    run: &Run,
    (record, fields, owner): RecordUpdate<'_>,
) -> Result<Outcome, Refusal> {
    let id = stepper.record(conn, run, record)?;
    let held = single_records::for_change(stepper.as_account, conn, id)?.ok_or_else(Refusal::not_found)?;
    held.require(EDIT)?;
    let fields = stepper.fields(conn, run, Some(&held.class), fields)?;
    let mut body = Map::new();
    if let Some(owner) = owner {
        if !held.allows(EDIT_OWNERS) {
            return Err(Refusal::forbidden());
        }
        let owner = stepper.user(conn, run, owner)?;
        if owner.as_i64() != held.owner.map(kit::ids::UserId::get) {
            body.insert("owner".to_owned(), owner);
        }
    }
    let changed = differing(conn, &held.class, id, &fields)?;
    let input = json!({"object_record": id, "fields": fields, "owner": body.get("owner")});
    let sent: Map<String, Json> = fields.into_iter().filter(|(alias, _)| changed.contains(alias)).collect();
    if !sent.is_empty() {
        body.insert("fields".to_owned(), sent.into());
    }
    if !body.is_empty() {
        stepper.call(conn, Method::PATCH, format!("/api/object-records/{id}/"), body.into())?;
    }
    let changed = Val::Set(changed.into_iter().map(|alias| (alias.clone(), alias)).collect());
    let outputs = named([("record", Val::Record(id.get())), ("changed", changed)]);
    Ok(Outcome::Done(Done { input, outputs, record: Some(id.get()), task: None }))
}

/// The aliases of fields whose values differ from the stored ones. A value that the API refuses differs.
fn differing(
    conn: &mut Conn,
    class: &Class,
    record: RecordId,
    fields: &Map<String, Json>,
) -> Result<Vec<String>, StoreError> {
    let mut stored = Changes::new();
    each_stored(
        conn,
        class,
        vec![record],
        |field| fields.contains_key(&field.alias),
        |record| {
            stored = record.values;
        },
    )?;
    let is_equal = |alias: &String, sent: &Json| {
        let Some(declared) = class.resource_field(alias) else { return false };
        let body = JsonBody::from_json(sent);
        let checked = if sent.is_null() { Ok(CheckedValue::Null) } else { check_value(declared, body.as_value()) };
        checked.is_ok_and(|value| stored.value(alias) == Some(&value))
    };
    Ok(fields.iter().filter(|(alias, sent)| !is_equal(alias, sent)).map(|(alias, _)| alias.clone()).collect())
}

fn delete_record(
    stepper: &Stepper<'_>,
    conn: &mut Conn,
    run: &mut Run,
    record: Option<&Value>,
) -> Result<Outcome, Refusal> {
    let id = stepper.record(conn, run, record)?;
    stepper.call(conn, Method::DELETE, format!("/api/object-records/{id}/"), Json::Null)?;
    if run.record == Some(id) {
        run.state.has_deleted_record = true;
    }
    Ok(Outcome::Done(Done { input: json!({"object_record": id}), record: Some(id.get()), ..Done::default() }))
}

type Assignment<'a> = (bool, Option<&'a Value>, i64, &'a [People]);

fn assign(
    stepper: &Stepper<'_>,
    conn: &mut Conn,
    run: &Run,
    (is_removal, record, set, to): Assignment<'_>,
) -> Result<Outcome, Refusal> {
    let id = stepper.record(conn, run, record)?;
    let FoundPeople { users, groups } = people::find(stepper, conn, run, to, Some(id))?;
    let input = json!({"object_record": id, "permission_set": set, "users": users, "user_groups": groups});
    let path = format!("/api/object-records/{id}/permission-sets/{set}/assignees/");
    let of_groups = format!("{path}user-groups/");
    let (users, groups) = match is_removal {
        false => {
            for (path, ids) in [(path, &users), (of_groups, &groups)] {
                if !ids.is_empty() {
                    stepper.call(conn, Method::POST, path, json!(ids))?;
                }
            }
            (users, groups)
        }
        true => {
            let present = assigned(conn, id, set)?;
            let of_user = |user: &i64| present.iter().find(|(_, principal)| principal == user);
            let removed: Vec<(i64, i64)> = users.iter().filter_map(|user| of_user(user).copied()).collect();
            let groups: Vec<i64> = groups.into_iter().filter(|group| of_user(&-group).is_some()).collect();
            let ids: Vec<i64> = removed.iter().map(|(assignment, _)| *assignment).collect();
            for (path, ids) in [(path, &ids), (of_groups, &groups)] {
                if !ids.is_empty() {
                    stepper.call(conn, Method::DELETE, path, json!(ids))?;
                }
            }
            (removed.into_iter().map(|(_, user)| user).collect(), groups)
        }
    };
    let outputs = named([("users", Val::Users(users)), ("user_groups", Val::Groups(groups))]);
    Ok(Outcome::Done(Done { input, outputs, record: Some(id.get()), task: None }))
}

/// The assignments to a record by a set: their ids, and users or groups as negative ids.
fn assigned(conn: &mut Conn, record: RecordId, set: i64) -> Result<Vec<(i64, i64)>, StoreError> {
    let sql = Sql::new("SELECT id, principal FROM record_assignees WHERE record = $1 AND permission_set = $2");
    conn.query_all(&sql.arg(record).arg(set), |row| Ok((row.int(0)?, row.int(1)?)))
}

fn found_records(stepper: &Stepper<'_>, run: &Run, object_class: i64) -> Outcome {
    let Some(reading) = stepper.reading_of(run) else { return Outcome::NeedsReading };
    let records = reading.records.clone();
    let outputs = named([
        ("count", Val::Int(records.len() as i64)),
        ("first", records.first().copied().map_or(Val::Null, Val::Record)),
        ("records", Val::Records(records)),
    ]);
    Outcome::Done(Done { input: json!({"object_class": object_class}), outputs, ..Done::default() })
}

struct NewTask<'a> {
    template: i64,
    record: &'a TaskRecordOf,
    name: Option<&'a Value>,
    assignees: &'a [People],
    due_at: Option<&'a Value>,
}

fn create_task(stepper: &Stepper<'_>, conn: &mut Conn, run: &mut Run, task: &NewTask<'_>) -> Result<Outcome, Refusal> {
    let record = match task.record {
        TaskRecordOf::Nothing => None,
        TaskRecordOf::Run => Some(stepper.record(conn, run, None)?),
        TaskRecordOf::Value(value) => Some(stepper.record(conn, run, Some(value))?),
    };
    let FoundPeople { users, groups } = people::find(stepper, conn, run, task.assignees, record.or(run.record))?;
    let mut body = json!({"task_template": task.template, "object_record": record});
    if let Some(name) = task.name
        && let Val::Text(name) = stepper.evaluate(conn, run, name)?
    {
        body["name"] = name.chars().take(MAX_TASK_NAME).collect::<String>().into();
    }
    if !users.is_empty() {
        body["assignees"] = json!(users);
    }
    if !groups.is_empty() {
        body["assignee_groups"] = json!(groups);
    }
    let due_at = match task.due_at {
        Some(due_at) => Some(stepper.evaluate(conn, run, due_at)?.to_json_for(FieldType::Datetime)),
        None => None,
    };
    let created = stepper.call(conn, Method::POST, "/api/tasks/".to_owned(), body.clone())?;
    let id = created["id"].as_i64().ok_or_else(|| StoreError::internal("a created task has no id"))?;
    run.state.tasks.push(id);
    if let Some(due_at) = due_at {
        stepper.call(conn, Method::PATCH, format!("/api/tasks/{id}/"), json!({"due_at": due_at}))?;
    }
    let outputs = named([("task", Val::Task(id))]);
    Ok(Outcome::Done(Done { input: body, outputs, record: record.map(RecordId::get), task: Some(id) }))
}

fn cancel_task(stepper: &Stepper<'_>, conn: &mut Conn, run: &Run, task: &Value) -> Result<Outcome, Refusal> {
    let (Val::Task(id) | Val::Int(id)) = stepper.evaluate(conn, run, task)? else {
        return Ok(Outcome::Done(Done::default()));
    };
    let input = json!({"task": id});
    let done = Outcome::Done(Done { input, task: Some(id), ..Done::default() });
    if run.state.tasks.contains(&id) {
        let as_run = stepper.as_account.for_run(stepper.writer.clone());
        single_tasks::cancel(&as_run, conn, TaskId::new(id))?;
        stepper.request.effects.merge(&as_run.effects);
        return Ok(done);
    }
    stepper.require_task(conn, run, id)?;
    let has_ended = TaskOutcome::lock(conn, TaskId::new(id))?.is_none_or(|task| task.has_ended());
    if !has_ended {
        stepper.call(conn, Method::POST, format!("/api/tasks/{id}/cancel/"), Json::Null)?;
    }
    Ok(done)
}
