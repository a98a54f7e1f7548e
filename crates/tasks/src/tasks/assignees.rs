//! The users and groups to whom a task is assigned: principals, with negative ids for groups.

use super::counts;
use super::task::{ASSIGNEES, ASSIGNEES_LIMIT, GROUPS, GROUPS_LIMIT};
use crate::one_time;
use identity::assignees::Principals;
use identity::principals::push_principals;
use kit::app::App;
use kit::build::Build;
use kit::jobs::{self, Job, JobFailure, JobKind, NewJob};
use kit::limits;
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::request::Request;
use resource::{Changes, Errors, Query, SentObject, message};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::{BorrowedArgument, Conn, Sql, StoreError};

/// The columns of an assignee.
pub const COLUMNS: [&str; 6] = ["task", "principal", "status", "due_at", "class_id", "record_n"];

/// The assignees in a body. `None` if the body does not contain them.
#[derive(Default)]
pub struct AssigneeChange {
    pub users: Option<Vec<i64>>,
    pub groups: Option<Vec<i64>>,
}

impl AssigneeChange {
    /// Returns whether the body contains assignees.
    pub fn is_any(&self) -> bool {
        self.users.is_some() || self.groups.is_some()
    }

    /// Returns whether the body names a user or a group.
    pub fn names_any(&self) -> bool {
        [&self.users, &self.groups].into_iter().flatten().any(|ids| !ids.is_empty())
    }

    /// Removes lists from the body that exceed the build's limits of assignees. Returns the body and the errors about them.
    pub fn bounded<'a>(conn: &mut Conn, mut body: SentObject<'a>) -> Result<(SentObject<'a>, Errors), StoreError> {
        let mut errors = Errors::new();
        let names = [ASSIGNEES.name(), GROUPS.name()];
        let counts = names.map(|name| body.get(name).and_then(|sent| Some(sent.as_list(0)?.1)).unwrap_or(0));
        if counts == [0, 0] {
            return Ok((body, errors));
        }
        let limits = limits::values(conn, [&ASSIGNEES_LIMIT, &GROUPS_LIMIT])?;
        for ((name, count), most) in names.into_iter().zip(counts).zip(limits) {
            let most = usize::try_from(most).unwrap_or(0);
            if count > most {
                errors.add(name, message::too_many(most));
                body = body.filter_members(|sent| sent != name);
            }
        }
        Ok((body, errors))
    }

    /// Removes the assignees from checked values and returns them. Users and groups that the caller may not list are refused like
    /// unknown ids, unless `held` contains them.
    pub fn extract_from(
        request: &Request,
        conn: &mut Conn,
        changes: &mut Changes,
        held: &BTreeSet<i64>,
        errors: &mut Errors,
    ) -> Result<AssigneeChange, Refusal> {
        let sent = AssigneeChange { users: changes.get(&ASSIGNEES), groups: changes.get(&GROUPS) };
        changes.remove_value(ASSIGNEES.name());
        changes.remove_value(GROUPS.name());
        if !sent.is_any() {
            return Ok(sent);
        }
        let of =
            [(ASSIGNEES.name(), &sent.users, Principals::Users), (GROUPS.name(), &sent.groups, Principals::Groups)];
        for (name, ids, principals) in of {
            let Some(ids) = ids else { continue };
            let sign = if principals == Principals::Users { 1 } else { -1 };
            let new: Vec<i64> = ids.iter().copied().filter(|id| !held.contains(&(sign * id))).collect();
            let known = principals.load(conn, request.caller()?, &new)?;
            let is_unknown = |id: &&i64| known.get(id).is_none_or(|found| !found.is_listed);
            new.iter().filter(is_unknown).for_each(|id| errors.add(name, message::invalid_id_message(id)));
        }
        Ok(sent)
    }

    /// Returns the principals after the change of these previous ones.
    pub fn apply_to(&self, before: &BTreeSet<i64>) -> BTreeSet<i64> {
        let kept = |is_user: bool| before.iter().copied().filter(move |id| (*id > 0) == is_user).collect::<Vec<_>>();
        let users = self.users.clone().unwrap_or_else(|| kept(true));
        let groups = match &self.groups {
            Some(groups) => groups.iter().map(|group| -group).collect(),
            None => kept(false),
        };
        users.into_iter().chain(groups).collect()
    }
}

/// Loads the principals to whom a task is assigned.
pub fn load_task_principals(conn: &mut Conn, task: i64) -> Result<BTreeSet<i64>, StoreError> {
    let sql = Sql::new("SELECT principal FROM task_assignees WHERE task = $1").arg(task);
    Ok(conn.query_all(&sql, |row| row.int(0))?.into_iter().collect())
}

/// The users (or groups) among principals, by their own ids.
pub fn ids(principals: &BTreeSet<i64>, users: bool) -> Vec<i64> {
    principals.iter().filter(|id| (**id > 0) == users).map(|id| id.abs()).collect()
}

/// Assigns a task to other principals than before. New one-time accounts get links. Links of removed ones end.
pub fn set(
    request: &Request,
    conn: &mut Conn,
    task: i64,
    (status, due_at): (&str, Option<i64>),
    [before, after]: [&BTreeSet<i64>; 2],
) -> Result<(), Refusal> {
    let new: Vec<i64> = after.difference(before).copied().collect();
    let gone: Vec<i64> = before.difference(after).copied().collect();
    counts::remove(conn, &[task])?;
    let due_at = due_at.map_or(BorrowedArgument::Null, BorrowedArgument::Int);
    let sql = Sql::new("SELECT class_id, record_n FROM tasks WHERE id = $1").arg(task);
    let place = conn.query_one(&sql, |row| Ok([row.opt_int(0)?, row.opt_int(1)?]))?;
    let [class, n] = place.map(|number| number.map_or(BorrowedArgument::Null, BorrowedArgument::Int));
    let row = |id: &i64| {
        [BorrowedArgument::Int(task), BorrowedArgument::Int(*id), BorrowedArgument::Text(status), due_at, class, n]
    };
    conn.insert_rows("task_assignees", &COLUMNS, &new.iter().map(row).collect::<Vec<_>>(), "")?;
    if !gone.is_empty() {
        let mut sql = Sql::new("DELETE FROM task_assignees WHERE task = ");
        conn.exec(sql.bind(task).push(" AND principal").push_any(gone.clone()))?;
        one_time::end(request, conn, &[task], Some(&gone))?;
    }
    counts::store_audiences(conn, [after].into_iter())?;
    let sql = Sql::new("UPDATE tasks SET audience = $1 WHERE id = $2");
    conn.exec(&sql.arg(counts::audience(after)).arg(task))?;
    counts::add(conn, &[task])?;
    one_time::invite(request, conn, new.into_iter().map(|principal| (task, principal)).collect())
}

/// Copies the status and the due time of a task to its assignee rows, where lists filter by them.
pub fn repeat(conn: &mut Conn, task: i64, status: &str, due_at: Option<i64>) -> Result<(), StoreError> {
    let sql = Sql::new("UPDATE task_assignees SET status = $1, due_at = $2 WHERE task = $3");
    conn.exec(&sql.arg(status).arg(due_at).arg(task)).map(drop)
}

/// The `assignees` filters of a list.
pub struct AssigneeFilters {
    /// The condition on `tasks t`.
    pub condition: Sql,
    /// True if the filters select only the caller's own assignments.
    pub is_mine: bool,
    /// The other parameters.
    pub query: Query,
}

/// Returns whether a parameter of a list is an `assignees` filter.
pub fn is_filter(name: &str) -> bool {
    name.split("__").next() == Some(ASSIGNEES.name())
}

/// Reads the `assignees` filters of a list. `None` if there are none.
pub fn filter(request: &Request) -> Result<Option<AssigneeFilters>, Refusal> {
    const NAMES: [&str; 6] = [
        "assignees",
        "assignees__exact",
        "assignees__in",
        "assignees__exclude",
        "assignees__exact__exclude",
        "assignees__in__exclude",
    ];
    let caller = request.caller()?.user;
    let mut condition = Sql::new("");
    let mut errors = Errors::new();
    let mut is_mine = true;
    for (name, value) in request.query.pairs().filter(|(name, _)| is_filter(name)) {
        let predicate = name.split_once("__").map_or("exact", |(_, predicate)| predicate);
        if !NAMES.contains(&name) {
            errors.add(name, message::select_choice(predicate));
            continue;
        }
        let (mut ids, mut includes_me) = (Vec::new(), false);
        let is_complement = name.ends_with("exclude");
        let items: Vec<&str> = if predicate.starts_with("in") { value.split(',').collect() } else { vec![value] };
        for item in items {
            match item.trim().parse::<i64>() {
                _ if item.trim() == "me" => includes_me = true,
                Ok(id) => ids.push(id),
                Err(_) => errors.add(name, message::select_choice(item)),
            }
        }
        is_mine &= includes_me && ids.is_empty() && !is_complement;
        condition.push(if condition.text().is_empty() { "" } else { " AND " });
        condition.push(if is_complement { "t.id NOT IN (" } else { "t.id IN (" });
        condition.push("SELECT a.task FROM task_assignees a WHERE a.principal").push_any(ids);
        if includes_me {
            push_principals(condition.push(" OR a.principal IN "), caller);
        }
        condition.push(")");
    }
    errors.refuse()?;
    Ok(match condition.text().is_empty() {
        true => None,
        false => Some(AssigneeFilters { condition, is_mine, query: request.query.without_parameters(&NAMES) }),
    })
}

// ---- Users and groups that leave -----------------------------------------------------------------------------------

/// The maximum number of assignments that one transaction removes.
const PAGE: i64 = 1_000;

/// Removes the assignments of a deleted or anonymized user, or of a deleted group.
pub static UNASSIGN: JobKind =
    JobKind { name: "task_assignees", run: |app, build, job| Box::pin(unassign(app, build, job)), ..JobKind::LONG };

/// Queues the removal of the assignments of a deleted or anonymized user.
pub const ON_USER_LEAVING: Reaction =
    Reaction { resource: "users", when: ReactionTime::Leaving, run: |request, conn, id| leave(request, conn, id) };

/// Queues the removal of the assignments of a deleted group.
pub const ON_GROUP_LEAVING: Reaction = Reaction {
    resource: "user_groups",
    when: ReactionTime::Leaving,
    run: |request, conn, id| leave(request, conn, -id),
};

fn leave(request: &Request, conn: &mut Conn, principal: i64) -> Result<(), Refusal> {
    if principal > 0 {
        one_time::delete_all_of(conn, principal)?;
    }
    let sql = Sql::new("SELECT 1 FROM task_assignees WHERE principal = $1 LIMIT 1").arg(principal);
    if conn.query_optional(&sql, |_| Ok(()))?.is_some() {
        let key = principal.to_string();
        let payload = json!({"principal": principal});
        let job = NewJob { kind: &UNASSIGN, payload, key: Some(&key), not_before: request.now };
        jobs::enqueue(request, conn, &job)?;
    }
    Ok(())
}

async fn unassign(_: App, build: Arc<Build>, job: Job) -> Result<(), JobFailure> {
    let principal = job.payload.get("principal").and_then(Json::as_i64).unwrap_or(0);
    loop {
        let remove = move |conn: &mut Conn| {
            let sql = Sql::new(
                "SELECT t.id FROM tasks t WHERE t.id IN (SELECT a.task FROM task_assignees a WHERE a.principal = $1 \
                 ORDER BY a.task LIMIT $2) ORDER BY t.id FOR UPDATE",
            );
            let tasks = conn.query_all(&sql.arg(principal).arg(PAGE), |row| row.int(0))?;
            remove_from(conn, principal, &tasks).map(|()| tasks.is_empty())
        };
        match build.db.write::<_, StoreError>(remove).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => return Err(JobFailure::new(error.to_string())),
        }
    }
}

fn remove_from(conn: &mut Conn, principal: i64, tasks: &[i64]) -> Result<(), StoreError> {
    counts::remove(conn, tasks)?;
    let mut sql = Sql::new("DELETE FROM task_assignees WHERE principal = ");
    conn.exec(sql.bind(principal).push(" AND task").push_any(tasks))?;
    let mut left: BTreeMap<i64, BTreeSet<i64>> = tasks.iter().map(|task| (*task, BTreeSet::new())).collect();
    let mut sql = Sql::new("SELECT task, principal FROM task_assignees WHERE task");
    conn.for_each_row(sql.push_any(tasks), |row| {
        left.entry(row.int(0)?).or_default().insert(row.int(1)?);
        Ok(())
    })?;
    counts::store_audiences(conn, left.values())?;
    let names: Vec<(i64, String)> =
        left.iter().map(|(task, principals)| (*task, counts::audience(principals))).collect();
    let rows = names.iter().map(|(task, name)| [BorrowedArgument::Text(name), BorrowedArgument::Int(*task)]);
    conn.exec_each("UPDATE tasks SET audience = $1 WHERE id = $2", rows, |_| {})?;
    counts::add(conn, tasks)
}
