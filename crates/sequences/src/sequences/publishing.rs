//! The rules of publishing: what a draft must be, which rights its account must have, and which classes a version listens to.

use crate::definition::people::People;
use crate::definition::{Action, Definition, Trigger, Wait, check};
use crate::engine::published;
use crate::problems::Problems;
use kit::caller::Caller;
use kit::ids::{ClassId, SequenceId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use records::rights::{TASKS_VIEW, VIEW, load_class_actions};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use store::{Conn, Sql, StoreError};

/// The maximum number of running sequences with triggers about one class.
const MAX_OF_CLASS: i64 = 10;

/// Reads a definition and checks it for the caller as its publisher.
pub fn check_definition(request: &Request, conn: &mut Conn, text: &str) -> Result<(Definition, Problems), Refusal> {
    let sent: Json = serde_json::from_str(text).unwrap_or_default();
    let mut problems = Problems::default();
    let definition = Definition::read(&sent, &mut problems);
    check::check(request, conn, &definition, &mut problems)?;
    Ok((definition, problems))
}

/// Returns the problems for which the caller could not publish the draft of a sequence.
pub fn problems_of_draft(request: &Request, conn: &mut Conn, id: SequenceId) -> Result<Problems, Refusal> {
    let draft = draft(conn, id)?;
    Ok(check_definition(request, conn, &draft)?.1)
}

pub fn draft(conn: &mut Conn, id: SequenceId) -> Result<String, Refusal> {
    let sql = Sql::new("SELECT definition FROM sequences WHERE id = $1").arg(id);
    Ok(conn.query_one(&sql, |row| Ok(row.text(0)?.to_owned()))?)
}

/// Returns whether an account lacks a right that it must have to lend its rights to a definition.
pub fn lacks_rights(conn: &mut Conn, account: &Caller, definition: &Definition) -> Result<bool, StoreError> {
    if !account.has_permission("sequences", "edit") {
        return Ok(true);
    }
    let mut writes_outside = false;
    definition.for_each_step(&mut |step| {
        writes_outside |= matches!(&step.action, Action::SendMail(mail) if mail.to.iter().any(People::is_outside));
    });
    if writes_outside && !account.is_super() {
        return Ok(true);
    }
    let is_of_tasks = matches!(definition.trigger, Some(Trigger::Task(_)));
    let Some(class) = definition.trigger.as_ref().and_then(Trigger::object_class) else {
        return Ok(is_of_tasks && !account.is_super());
    };
    let rights = load_class_actions(conn, account, ClassId::new(class))?;
    let allows = |right: i64| rights.as_ref().is_some_and(|rights| rights.allows(right));
    Ok(!allows(VIEW) || (is_of_tasks && !allows(TASKS_VIEW)))
}

/// Refuses more than [`MAX_OF_CLASS`] running sequences that start by writes to one class.
pub fn check_class_limit(conn: &mut Conn, id: SequenceId, definition: &Definition) -> Result<(), Refusal> {
    let Some(trigger @ (Trigger::Record(_) | Trigger::Task(_))) = &definition.trigger else { return Ok(()) };
    let mut sql = Sql::new(
        "SELECT count(*) FROM sequences WHERE trigger_type IN ('record', 'task') AND status = 'running' AND object_class",
    );
    match trigger.object_class() {
        Some(class) => {
            // The row of the class orders those who publish at once.
            records::rights::lock_class(conn, ClassId::new(class))?;
            sql.push(" = ").bind(class);
        }
        None => drop(sql.push(" IS NULL")),
    }
    sql.push(" AND id <> ").bind(id);
    match conn.query_one(&sql, |row| row.int(0))? < MAX_OF_CLASS {
        true => Ok(()),
        false => Err(Refusal::limit(format!("Limit of {MAX_OF_CLASS} Sequences of the class has been exceeded."))),
    }
}

/// Stores the classes to whose records a version listens, and forgets those of versions without runs in progress.
pub fn listen(conn: &mut Conn, id: SequenceId, version: i64, definition: &Definition) -> Result<(), Refusal> {
    let sql = Sql::new(
        "DELETE FROM sequence_classes WHERE sequence = $1 AND version <> $2 AND NOT EXISTS (SELECT 1 FROM sequence_runs r \
         WHERE r.sequence = $1 AND r.version = sequence_classes.version AND r.ended_at IS NULL) RETURNING class_id",
    );
    let mut classes: BTreeSet<i64> = conn.query_all(&sql.arg(id).arg(version), |row| row.int(0))?.into_iter().collect();
    let mut waits = false;
    definition.for_each_step(&mut |step| {
        waits |= matches!(&step.action, Action::Wait { for_what: Wait::Condition(_), .. });
    });
    let class = definition.trigger.as_ref().and_then(|trigger| match trigger {
        Trigger::Record(record) => Some(record.object_class),
        trigger => trigger.object_class().filter(|_| waits),
    });
    if let Some(class) = class {
        let sql = Sql::new("INSERT INTO sequence_classes(sequence, version, class_id) VALUES ($1, $2, $3)");
        conn.exec(&sql.arg(id).arg(version).arg(class))?;
        classes.insert(class);
    }
    Ok(note_listeners(conn, classes)?)
}

/// Stores whether sequences listen to these classes, and raises the versions of those that changed.
fn note_listeners(conn: &mut Conn, classes: BTreeSet<i64>) -> Result<(), StoreError> {
    for class in classes {
        let sql = Sql::new(
            "UPDATE object_classes SET version = version + 1, starts_sequences = 1 - starts_sequences WHERE id = $1 \
             AND starts_sequences <> CASE WHEN EXISTS (SELECT 1 FROM sequence_classes k WHERE k.class_id = $1) THEN 1 ELSE 0 END",
        );
        conn.exec(&sql.arg(class))?;
    }
    Ok(())
}

/// Deletes the versions of a deleted sequence.
pub fn delete_versions(conn: &mut Conn, id: SequenceId) -> Result<(), StoreError> {
    let sql = Sql::new("DELETE FROM sequence_classes WHERE sequence = $1 RETURNING class_id").arg(id);
    let classes = conn.query_all(&sql, |row| row.int(0))?.into_iter().collect();
    for text in [
        "DELETE FROM sequence_versions WHERE sequence = $1",
        "DELETE FROM sequence_groups WHERE sequence = $1",
        "DELETE FROM sequence_moments WHERE sequence = $1",
    ] {
        conn.exec(&Sql::new(text).arg(id))?;
    }
    note_listeners(conn, classes)
}

/// Stores whether the draft of a sequence differs from its published version.
pub fn note_changes(conn: &mut Conn, id: SequenceId) -> Result<(), Refusal> {
    let text = draft(conn, id)?;
    let sql = Sql::new("SELECT published_version FROM sequences WHERE id = $1").arg(id);
    let version = conn.query_one(&sql, |row| row.opt_int(0))?;
    let published = published::text_of(conn, id, version)?;
    let has_changes = published.is_none_or(|published| parse(&published) != parse(&text));
    let sql = Sql::new("UPDATE sequences SET has_changes = $1 WHERE id = $2");
    conn.exec(&sql.arg(i64::from(has_changes)).arg(id))?;
    Ok(())
}

/// Parses a definition that is stored.
pub fn parse(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_default()
}

/// The definitions of the versions whose account changes by a take-over: the published one, and those with runs in progress.
pub fn versions_in_use(conn: &mut Conn, id: SequenceId) -> Result<Vec<(i64, UserId, String)>, StoreError> {
    let sql = Sql::new(
        "SELECT v.version, v.runs_as, v.definition FROM sequence_versions v WHERE v.sequence = $1 AND (v.version = \
         (SELECT s.published_version FROM sequences s WHERE s.id = $1) OR EXISTS (SELECT 1 FROM sequence_runs r \
         WHERE r.sequence = $1 AND r.version = v.version AND r.ended_at IS NULL)) ORDER BY v.version",
    );
    conn.query_all(&sql.arg(id), |row| Ok((row.int(0)?, row.id(1)?, row.text(2)?.to_owned())))
}
