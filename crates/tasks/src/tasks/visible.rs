//! The tasks that a caller may view (`docs/reference/tasks.md`). These are tasks that are assigned to them directly or through a
//! group, and tasks that they created without a record. Tasks of a record are visible by the rights on the record.

use super::counts::{self, TaskCount};
use super::per_record;
use super::task::STATES;
use identity::principals::push_principals;
use kit::ids::{ClassId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use records::visible_records::{VisibleRecords, visible_tasks};
use store::{Conn, Sql, StoreError};

/// Up to this number of records of a class, their tasks are counted one by one. For more records the cached counts are used.
const MANY_RECORDS: i64 = 500;

/// The maximum number of an agent's tasks that are read before other conditions apply (`records::visible_records::read_first`).
const MAX_READ_FIRST: i64 = 5_000;

/// The tasks that a caller may view.
pub struct VisibleTasks {
    user: UserId,
    /// The user whose tasks without a record the caller may view ([`kit::caller::Caller::ownership`]).
    creator: UserId,
    is_super: bool,
    /// Agents may view only tasks of records, independent of the assignees.
    is_agent: bool,
    /// The classes in which the caller may view the tasks of all records.
    whole: Vec<ClassId>,
    /// Other classes, with the records whose tasks the caller may view.
    some: Vec<(ClassId, VisibleRecords)>,
    /// The counts of the tasks that are assigned to the caller, directly or through a group.
    pub assigned: Vec<TaskCount>,
}

impl VisibleTasks {
    /// Loads the visible tasks of the caller. A super admin's assigned tasks are counted only if `is_mine`.
    pub fn load(request: &Request, conn: &mut Conn, is_mine: bool) -> Result<VisibleTasks, Refusal> {
        let caller = request.caller()?;
        let is_agent = caller.agent.is_some();
        let are_counted = !is_agent && (is_mine || !caller.is_super());
        let classes = if caller.is_super() { Vec::new() } else { visible_tasks(request, conn)? };
        let (whole, partial): (Vec<_>, Vec<_>) =
            classes.into_iter().partition(|(_, records)| matches!(records, VisibleRecords::All));
        Ok(VisibleTasks {
            user: caller.user,
            creator: caller.ownership(),
            is_super: caller.is_super(),
            is_agent,
            whole: whole.into_iter().map(|(class, _)| class).collect(),
            some: partial,
            assigned: if are_counted { counts::load_user_counts(conn, caller.user)? } else { Vec::new() },
        })
    }

    /// Returns whether the tasks are read before other conditions apply, for this total.
    pub fn are_read_first(&self, total: i64) -> bool {
        self.is_agent && total <= MAX_READ_FIRST
    }

    /// Returns the condition on `tasks t`.
    pub fn condition(&self) -> Sql {
        if self.is_super {
            return Sql::new("1 = 1");
        }
        if self.is_agent {
            let mut sql = Sql::new("");
            self.push_records(&mut sql, ["t.class_id", "t.record_n"]);
            return sql;
        }
        // There are few audiences, even for a user with hundreds of thousands of tasks.
        let mut sql = Sql::new("(t.audience IN (SELECT m.audience FROM task_audiences m WHERE m.principal IN ");
        push_principals(&mut sql, self.user);
        sql.push(") OR (t.record IS NULL AND t.created_by = ").bind(self.creator).push(")");
        if !self.whole.is_empty() {
            sql.push(" OR t.class_id").push_any(self.whole.iter().copied());
        }
        self.push_records(sql.push(" OR "), ["t.class_id", "t.record_n"]);
        sql.push(")");
        sql
    }

    /// Appends the condition that selects tasks of single records in `some`, on these two columns.
    fn push_records(&self, sql: &mut Sql, [class, n]: [&'static str; 2]) {
        sql.push("(1 = 0");
        for (id, records) in &self.some {
            sql.push(" OR (").push(class).push(" = ").bind(*id).push(" AND ");
            records.condition(sql, n);
            sql.push(")");
        }
        sql.push(")");
    }

    /// Counts the tasks in these states. Each kind excludes the kinds before it.
    pub fn count(&self, request: &Request, conn: &mut Conn, states: &[&'static str]) -> Result<i64, Refusal> {
        let classes = if self.is_super { None } else { Some(self.whole.as_slice()) };
        let whole = counts::sum(&counts::load_class_counts(conn, classes)?, states);
        if self.is_super {
            return Ok(whole);
        }
        if self.is_agent {
            return self.count_of_records(request, conn, states);
        }
        Ok(whole
            + self.count_of_records(request, conn, states)?
            + self.count_assigned(conn, states)?
            + self.count_created(conn, states)?)
    }

    fn count_of_records(&self, request: &Request, conn: &mut Conn, states: &[&'static str]) -> Result<i64, Refusal> {
        // The cached counts do not depend on states, so tasks in some states are counted one by one.
        let are_many = |records: &VisibleRecords| records.count().is_some_and(|count| count > MANY_RECORDS);
        let is_known = |records: &VisibleRecords| are_many(records) && states.len() == STATES.len();
        let (countable, listed): (Vec<_>, Vec<_>) =
            self.some.iter().map(|(class, records)| (*class, records)).partition(|(_, records)| is_known(records));
        let mut count = if countable.is_empty() { 0 } else { per_record::count(request, conn, &countable)? };
        if !listed.is_empty() {
            let mut sql = Sql::new("SELECT count(*) FROM tasks t WHERE t.class_id");
            sql.push_any(listed.into_iter().map(|(class, _)| class).collect::<Vec<_>>());
            push_states_condition(&mut sql, "t.status", states);
            self.push_records(sql.push(" AND "), ["t.class_id", "t.record_n"]);
            count += conn.query_one(&sql, |row| row.int(0))?;
        }
        Ok(count)
    }

    /// Counts the tasks that are assigned to the caller, except those of records whose tasks they may view.
    fn count_assigned(&self, conn: &mut Conn, states: &[&'static str]) -> Result<i64, StoreError> {
        let partial_classes: Vec<ClassId> = self.some.iter().map(|(class, _)| *class).collect();
        let counts_elsewhere = self.assigned.iter().filter(|count| !self.whole.contains(&count.class));
        let (of_some, other_counts): (Vec<&TaskCount>, Vec<&TaskCount>) =
            counts_elsewhere.partition(|count| partial_classes.contains(&count.class));
        let other_count = counts::sum(other_counts, states);
        if counts::sum(of_some, states) == 0 {
            return Ok(other_count);
        }
        let mut sql = Sql::new("SELECT count(DISTINCT a.task) FROM task_assignees a WHERE a.principal IN ");
        push_principals(&mut sql, self.user);
        push_states_condition(sql.push(" AND a.class_id").push_any(partial_classes), "a.status", states);
        self.push_records(sql.push(" AND NOT "), ["a.class_id", "a.record_n"]);
        Ok(other_count + conn.query_one(&sql, |row| row.int(0))?)
    }

    /// Counts the tasks that the caller created without a record, except those that are assigned to them.
    fn count_created(&self, conn: &mut Conn, states: &[&'static str]) -> Result<i64, StoreError> {
        let mut sql = Sql::new("SELECT count(*) FROM tasks t WHERE t.record IS NULL AND t.created_by = ");
        push_states_condition(sql.bind(self.creator), "t.status", states);
        sql.push(" AND NOT EXISTS (SELECT 1 FROM task_assignees a WHERE a.task = t.id AND a.principal IN ");
        push_principals(&mut sql, self.user);
        sql.push(")");
        conn.query_one(&sql, |row| row.int(0))
    }
}

/// Appends the condition that a column has one of these states. All states need no condition.
fn push_states_condition(sql: &mut Sql, column: &'static str, states: &[&'static str]) {
    if states.len() == STATES.len() {
        return;
    }
    sql.push(" AND ").push(column).push(" IN (NULL");
    for state in states {
        sql.push(", ").bind(*state);
    }
    sql.push(")");
}
