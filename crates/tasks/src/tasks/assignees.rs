//! The users and groups to whom a task is assigned: principals, with negative ids for groups.

use super::counts;
use super::task::{ASSIGNEES, ASSIGNEES_LIMIT, GROUPS, GROUPS_LIMIT};
use crate::one_time;
use identity::assignees::Principals;
use identity::principals::push_principals;
use kit::app::App;
use kit::build::Build;
use kit::caller::Caller;
use kit::ids::{GroupId, Principal, PrincipalId, TaskId, UserId};
use kit::jobs::{self, Job, JobFailure, JobKind, NewJob};
use kit::limits;
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::request::Request;
use resource::{Changes, Errors, Id, Query, SentObject, message};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::{BorrowedArgument, Conn, Sql, StoreError};

/// The columns of an assignee.
pub const COLUMNS: [&str; 6] = ["task", "principal", "status", "due_at", "class_id", "record_n"];

/// The assignees in a body. `None` if the body does not contain them.
#[derive(Default)]
pub struct AssigneeChange {
    pub users: Option<Vec<UserId>>,
    pub groups: Option<Vec<GroupId>>,
}

impl AssigneeChange {
    /// Returns whether the body contains assignees.
    pub fn is_any(&self) -> bool {
        self.users.is_some() || self.groups.is_some()
    }

    /// Returns whether the body names a user or a group.
    pub fn names_any(&self) -> bool {
        self.users.as_ref().is_some_and(|users| !users.is_empty())
            || self.groups.as_ref().is_some_and(|groups| !groups.is_empty())
    }

    /// Removes lists from the body that exceed the build's limits of assignees. Returns the body and the errors about them.
    pub fn bounded<'a>(conn: &mut Conn, mut body: SentObject<'a>) -> Result<(SentObject<'a>, Errors), StoreError> {
        let mut errors = Errors::new();
        let names = [ASSIGNEES.name(), GROUPS.name()];
        let counts = names.map(|name| body.get(name).and_then(|value| Some(value.as_list(0)?.1)).unwrap_or(0));
        if counts == [0, 0] {
            return Ok((body, errors));
        }
        let limits = limits::values(conn, [&ASSIGNEES_LIMIT, &GROUPS_LIMIT])?;
        for ((name, count), most) in names.into_iter().zip(counts).zip(limits) {
            let most = usize::try_from(most).unwrap_or(0);
            if count > most {
                errors.add(name, message::too_many(most));
                body = body.filter_members(|member| member != name);
            }
        }
        Ok((body, errors))
    }

    /// Removes the assignees from checked values and returns them. Users and groups that the caller may not list are refused like
    /// unknown ids, unless `present` contains them.
    pub fn extract_from(
        request: &Request,
        conn: &mut Conn,
        changes: &mut Changes,
        present: &BTreeSet<PrincipalId>,
        errors: &mut Errors,
    ) -> Result<AssigneeChange, Refusal> {
        let change = AssigneeChange { users: changes.get(&ASSIGNEES), groups: changes.get(&GROUPS) };
        changes.remove_value(ASSIGNEES.name());
        changes.remove_value(GROUPS.name());
        if !change.is_any() {
            return Ok(change);
        }
        let caller = request.caller()?;
        if let Some(ids) = &change.users {
            refuse_unlisted(conn, caller, (ASSIGNEES.name(), Principals::Users), ids, present, errors)?;
        }
        if let Some(ids) = &change.groups {
            refuse_unlisted(conn, caller, (GROUPS.name(), Principals::Groups), ids, present, errors)?;
        }
        Ok(change)
    }

    /// Returns the principals after the change of these previous ones.
    pub fn apply_to(&self, before: &BTreeSet<PrincipalId>) -> BTreeSet<PrincipalId> {
        let is_kept = |principal: &PrincipalId| match principal.to_enum() {
            Principal::User(_) => self.users.is_none(),
            Principal::Group(_) => self.groups.is_none(),
        };
        let users = self.users.iter().flatten().copied().map(PrincipalId::from);
        let groups = self.groups.iter().flatten().copied().map(PrincipalId::from);
        before.iter().copied().filter(is_kept).chain(users).chain(groups).collect()
    }
}

/// Adds an error to a field for each user or group that the caller may not list, unless `present` contains it.
fn refuse_unlisted<I: Id + Into<PrincipalId>>(
    conn: &mut Conn,
    caller: &Caller,
    (field, kind): (&str, Principals),
    ids: &[I],
    present: &BTreeSet<PrincipalId>,
    errors: &mut Errors,
) -> Result<(), StoreError> {
    let new: Vec<I> = ids.iter().copied().filter(|id| !present.contains(&(*id).into())).collect();
    let principals = kind.load(conn, caller, &new)?;
    let is_unknown = |id: &&I| principals.get(id).is_none_or(|principal| !principal.is_listed);
    new.iter().filter(is_unknown).for_each(|id| errors.add(field, message::invalid_id_message(id)));
    Ok(())
}

/// Loads the principals to whom a task is assigned.
pub fn load_task_principals(conn: &mut Conn, task: TaskId) -> Result<BTreeSet<PrincipalId>, StoreError> {
    let sql = Sql::new("SELECT principal FROM task_assignees WHERE task = $1").arg(task);
    Ok(conn.query_all(&sql, |row| row.id(0))?.into_iter().collect())
}

/// The users (or groups) among principals, by their own ids.
pub fn ids(principals: &BTreeSet<PrincipalId>, users: bool) -> Vec<i64> {
    let ids = principals.iter().filter_map(|principal| match principal.to_enum() {
        Principal::User(user) => users.then_some(user.get()),
        Principal::Group(group) => (!users).then_some(group.get()),
    });
    ids.collect()
}

/// Assigns a task to other principals than before. New one-time accounts get links. Links of removed ones end.
pub fn set(
    request: &Request,
    conn: &mut Conn,
    task: TaskId,
    (status, due_at): (&str, Option<i64>),
    [before, after]: [&BTreeSet<PrincipalId>; 2],
) -> Result<(), Refusal> {
    let new: Vec<PrincipalId> = after.difference(before).copied().collect();
    let removed: Vec<PrincipalId> = before.difference(after).copied().collect();
    counts::remove(conn, &[task])?;
    let due_at = due_at.map_or(BorrowedArgument::Null, BorrowedArgument::Int);
    let sql = Sql::new("SELECT class_id, record_n FROM tasks WHERE id = $1").arg(task);
    let place = conn.query_one(&sql, |row| Ok([row.opt_int(0)?, row.opt_int(1)?]))?;
    let [class, n] = place.map(|number| number.map_or(BorrowedArgument::Null, BorrowedArgument::Int));
    let row =
        |principal: &PrincipalId| [task.into(), (*principal).into(), BorrowedArgument::Text(status), due_at, class, n];
    conn.insert_rows("task_assignees", &COLUMNS, &new.iter().map(row).collect::<Vec<_>>(), "")?;
    if !removed.is_empty() {
        let mut sql = Sql::new("DELETE FROM task_assignees WHERE task = ");
        conn.exec(sql.bind(task).push(" AND principal").push_any(removed.clone()))?;
        one_time::end(request, conn, &[task], Some(&removed))?;
    }
    counts::store_audiences(conn, [after].into_iter())?;
    let sql = Sql::new("UPDATE tasks SET audience = $1 WHERE id = $2");
    conn.exec_later(&sql.arg(counts::audience(after)).arg(task))?;
    counts::add(conn, &[task])?;
    one_time::invite(request, conn, new.into_iter().map(|principal| (task, principal)).collect())
}

/// Copies the status and the due time of a task to its assignee rows, where lists filter by them.
pub fn repeat(conn: &mut Conn, task: TaskId, status: &str, due_at: Option<i64>) -> Result<(), StoreError> {
    let sql = Sql::new("UPDATE task_assignees SET status = $1, due_at = $2 WHERE task = $3");
    conn.exec_later(&sql.arg(status).arg(due_at).arg(task))
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
pub const ON_USER_LEAVING: Reaction = Reaction {
    resource: "users",
    when: ReactionTime::Leaving,
    run: |request, conn, id| leave(request, conn, UserId::new(id).into()),
};

/// Queues the removal of the assignments of a deleted group.
pub const ON_GROUP_LEAVING: Reaction = Reaction {
    resource: "user_groups",
    when: ReactionTime::Leaving,
    run: |request, conn, id| leave(request, conn, GroupId::new(id).into()),
};

fn leave(request: &Request, conn: &mut Conn, principal: PrincipalId) -> Result<(), Refusal> {
    if let Principal::User(user) = principal.to_enum() {
        one_time::delete_all_of(conn, user)?;
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
    let principal = PrincipalId::new(principal);
    loop {
        let remove = move |conn: &mut Conn| {
            let sql = Sql::new(
                "SELECT t.id FROM tasks t WHERE t.id IN (SELECT a.task FROM task_assignees a WHERE a.principal = $1 \
                 ORDER BY a.task LIMIT $2) ORDER BY t.id FOR UPDATE",
            );
            let tasks = conn.query_all(&sql.arg(principal).arg(PAGE), |row| row.id(0))?;
            remove_from(conn, principal, &tasks).map(|()| tasks.is_empty())
        };
        match build.db.write::<_, StoreError>(remove).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => return Err(JobFailure::new(error.to_string())),
        }
    }
}

fn remove_from(conn: &mut Conn, principal: PrincipalId, tasks: &[TaskId]) -> Result<(), StoreError> {
    counts::remove(conn, tasks)?;
    let mut sql = Sql::new("DELETE FROM task_assignees WHERE principal = ");
    conn.exec(sql.bind(principal).push(" AND task").push_any(tasks.iter().copied()))?;
    let mut remaining: BTreeMap<TaskId, BTreeSet<PrincipalId>> =
        tasks.iter().map(|task| (*task, BTreeSet::new())).collect();
    let mut sql = Sql::new("SELECT task, principal FROM task_assignees WHERE task");
    conn.for_each_row(sql.push_any(tasks.iter().copied()), |row| {
        remaining.entry(row.id(0)?).or_default().insert(row.id(1)?);
        Ok(())
    })?;
    counts::store_audiences(conn, remaining.values())?;
    let names: Vec<(TaskId, String)> =
        remaining.iter().map(|(task, principals)| (*task, counts::audience(principals))).collect();
    let rows = names.iter().map(|(task, name)| [BorrowedArgument::Text(name), (*task).into()]);
    conn.exec_each("UPDATE tasks SET audience = $1 WHERE id = $2", rows, |_| {})?;
    counts::add(conn, tasks)
}
