//! Looks up the people and groups that a step names. Accounts that cannot be used are left out.

use super::run::Run;
use super::stepper::Stepper;
use crate::definition::people::People;
use crate::definition::values::Reference;
use crate::values::Val;
use crate::values::evaluate::Evaluator;
use kit::ids::{PrincipalId, RecordId, TaskId};
use kit::refusal::Refusal;
use std::collections::BTreeSet;
use store::{Conn, Sql};
use tasks::single_tasks;

/// Users and groups, each once.
#[derive(Debug, Default)]
pub struct FoundPeople {
    pub users: Vec<i64>,
    pub groups: Vec<i64>,
}

/// Looks up people. `record` is the record of the step.
pub fn find(
    stepper: &Stepper<'_>,
    conn: &mut Conn,
    run: &Run,
    people: &[People],
    record: Option<RecordId>,
) -> Result<FoundPeople, Refusal> {
    let (mut users, mut groups) = (BTreeSet::new(), BTreeSet::new());
    let facts = crate::values::evaluate::Facts { record, ..run.facts() };
    let mut evaluator = Evaluator::for_account(stepper.as_account, facts);
    let mut named = |conn: &mut Conn, name: &str| -> Result<Val, Refusal> {
        match Reference::parse(&format!("record.{name}")) {
            Some(reference) => evaluator.reference(conn, &reference),
            None => Ok(Val::Null),
        }
    };
    for person in people {
        let value = match person {
            People::Owner => named(conn, "owner")?,
            People::Creator => named(conn, "created_by")?,
            People::Field(alias) => named(conn, alias)?,
            People::Starter => run.starter.map_or(Val::Null, |starter| Val::User(starter.get())),
            People::Reference(reference) => {
                Evaluator::for_account(stepper.as_account, run.facts()).reference(conn, reference)?
            }
            People::Users(ids) => Val::Users(ids.clone()),
            People::Groups(ids) => Val::Groups(ids.clone()),
            People::EmailField(_) | People::Address(_) => Val::Null,
            People::PermissionSet(set) => {
                add_principals(&assigned(conn, record, *set)?, &mut users, &mut groups);
                continue;
            }
            People::AssigneesOf(task) => {
                let task = Evaluator::for_account(stepper.as_account, run.facts()).value(conn, task)?;
                if let Val::Task(id) | Val::Int(id) = task {
                    stepper.require_task(conn, run, id)?;
                    add_principals(&single_tasks::principals(conn, TaskId::new(id))?, &mut users, &mut groups);
                }
                continue;
            }
        };
        match value {
            Val::User(id) => drop(users.insert(id)),
            Val::Users(ids) => users.extend(ids),
            Val::Groups(ids) => groups.extend(ids),
            _ => {}
        }
    }
    let mut sql = Sql::new("SELECT u.id FROM users u WHERE u.is_deleted = 0 AND u.status = 'active' AND u.id");
    let users = conn.query_all(sql.push_any(users).push(" ORDER BY u.id"), |row| row.int(0))?;
    let mut sql = Sql::new("SELECT g.id FROM user_groups g WHERE g.id");
    let groups = conn.query_all(sql.push_any(groups).push(" ORDER BY g.id"), |row| row.int(0))?;
    Ok(FoundPeople { users, groups })
}

fn add_principals(principals: &[PrincipalId], users: &mut BTreeSet<i64>, groups: &mut BTreeSet<i64>) {
    for principal in principals {
        match principal.is_group() {
            true => groups.insert(-principal.get()),
            false => users.insert(principal.get()),
        };
    }
}

/// Those who are assigned to a record by a permission set.
fn assigned(conn: &mut Conn, record: Option<RecordId>, set: i64) -> Result<Vec<PrincipalId>, Refusal> {
    let sql =
        Sql::new("SELECT principal FROM record_assignees WHERE record = $1 AND permission_set = $2 ORDER BY principal");
    Ok(conn.query_all(&sql.arg(record).arg(set), |row| row.id(0))?)
}
