//! Counts tasks by class and status: all tasks, and those of each audience. An audience is a set of principals to whom tasks are
//! assigned together. Every change updates the counts, so that a list of 200,000 tasks does not have to count them. A task has
//! one audience, so a user's assigned tasks are the sum over the audiences that contain the user. Every writer would lock the
//! single row of a count, so each count is the sum of slots.

use identity::principals::push_principals;
use kit::ids::{ClassId, PrincipalId, TaskId, UserId};
use kit::limits::slot;
use std::collections::{BTreeMap, BTreeSet};
use store::{BorrowedArgument, Conn, Sql, StoreError};
use web::clock::sha256_hex;

/// Longer names of audiences are hashed.
const MAX_NAME: usize = 64;

/// The name of an audience. Empty if the audience is empty.
pub fn audience(principals: &BTreeSet<PrincipalId>) -> String {
    let name = principals.iter().map(PrincipalId::to_string).collect::<Vec<_>>().join(",");
    if name.len() > MAX_NAME { sha256_hex(&name) } else { name }
}

/// Stores the members of audiences.
pub fn store_audiences<'a>(
    conn: &mut Conn,
    audiences: impl Iterator<Item = &'a BTreeSet<PrincipalId>>,
) -> Result<(), StoreError> {
    let audiences: BTreeMap<String, &BTreeSet<PrincipalId>> =
        audiences.map(|principals| (audience(principals), principals)).collect();
    let mut rows = Vec::new();
    for (name, principals) in &audiences {
        rows.extend(principals.iter().map(|principal| [(*principal).into(), BorrowedArgument::Text(name)]));
    }
    conn.insert_rows("task_audiences", &["principal", "audience"], &rows, "ON CONFLICT DO NOTHING").map(drop)
}

/// The number of tasks of a class and status.
pub struct TaskCount {
    /// 0 for tasks without a record.
    pub class: ClassId,
    pub status: String,
    pub n: i64,
}

/// Counts tasks that were created or changed.
pub fn add(conn: &mut Conn, tasks: &[TaskId]) -> Result<(), StoreError> {
    write(conn, tasks, 1)
}

/// Counts a task under another status. Its row is locked.
pub fn change_status(conn: &mut Conn, task: TaskId, before: &str, after: &str) -> Result<(), StoreError> {
    let mut sql = Sql::new(
        "INSERT INTO task_counts(audience, class_id, status, slot, n) SELECT x.audience, x.class_id, s.status, CAST(",
    );
    sql.bind(slot(conn)).push(" AS BIGINT), s.n FROM (SELECT CAST(").bind(before);
    sql.push(" AS TEXT) AS status, CAST(-1 AS BIGINT) AS n UNION ALL SELECT CAST(").bind(after);
    sql.push(" AS TEXT), CAST(1 AS BIGINT)) s CROSS JOIN (SELECT t.audience, COALESCE(t.class_id, 0) AS class_id FROM tasks t");
    sql.push(" WHERE t.audience <> '' AND t.id = ").bind(task);
    sql.push(" UNION ALL SELECT '', COALESCE(t.class_id, 0) FROM tasks t WHERE t.id = ").bind(task);
    // In the order of the key, so that transactions seldom wait for each other in a circle.
    sql.push(
        ") x ORDER BY x.audience, x.class_id, s.status \
         ON CONFLICT (audience, class_id, status, slot) DO UPDATE SET n = task_counts.n + excluded.n",
    );
    conn.exec_later(&sql)
}

/// Subtracts tasks from the counts, before their status, their audience or they themselves change. Their rows are locked.
pub fn remove(conn: &mut Conn, tasks: &[TaskId]) -> Result<(), StoreError> {
    write(conn, tasks, -1)
}

fn write(conn: &mut Conn, tasks: &[TaskId], sign: i64) -> Result<(), StoreError> {
    if tasks.is_empty() {
        return Ok(());
    }
    let mut sql = Sql::new(
        "INSERT INTO task_counts(audience, class_id, status, slot, n) SELECT x.audience, x.class_id, x.status, CAST(",
    );
    sql.bind(slot(conn)).push(" AS BIGINT), CAST(").bind(sign).push(
        " AS BIGINT) * count(*) FROM (SELECT t.audience, COALESCE(t.class_id, 0) AS class_id, t.status FROM tasks t \
         WHERE t.audience <> '' AND t.id",
    );
    sql.push_any(tasks.iter().copied())
        .push(" UNION ALL SELECT '', COALESCE(t.class_id, 0), t.status FROM tasks t WHERE t.id");
    // The order of the key makes deadlocks between transactions rare.
    sql.push_any(tasks.iter().copied()).push(
        ") x GROUP BY x.audience, x.class_id, x.status ORDER BY x.audience, x.class_id, x.status \
         ON CONFLICT (audience, class_id, status, slot) DO UPDATE SET n = task_counts.n + excluded.n",
    );
    conn.exec_later(&sql)
}

/// The counts of tasks that are assigned to a user, directly or through a group.
pub fn load_user_counts(conn: &mut Conn, user: UserId) -> Result<Vec<TaskCount>, StoreError> {
    let mut sql = Sql::new(COUNTED);
    sql.push("c.audience IN (SELECT m.audience FROM task_audiences m WHERE m.principal IN ");
    push_principals(&mut sql, user);
    sql.push(")");
    read(conn, sql)
}

/// The counts of all tasks of these classes. `None` counts all tasks, including those without a record.
pub fn load_class_counts(conn: &mut Conn, classes: Option<&[ClassId]>) -> Result<Vec<TaskCount>, StoreError> {
    let mut sql = Sql::new(COUNTED);
    sql.push("c.audience = ''");
    match classes {
        Some([]) => return Ok(Vec::new()),
        Some(classes) => drop(sql.push(" AND c.class_id").push_any(classes.iter().copied())),
        None => {}
    }
    read(conn, sql)
}

const COUNTED: &str = "SELECT c.class_id, c.status, CAST(sum(c.n) AS BIGINT) FROM task_counts c WHERE ";

fn read(conn: &mut Conn, mut sql: Sql) -> Result<Vec<TaskCount>, StoreError> {
    sql.push(" GROUP BY c.class_id, c.status HAVING sum(c.n) <> 0");
    conn.query_all(&sql, |row| Ok(TaskCount { class: row.id(0)?, status: row.text(1)?.to_owned(), n: row.int(2)? }))
}

/// The sum of the counts in these states.
pub fn sum<'a>(counts: impl IntoIterator<Item = &'a TaskCount>, states: &[&str]) -> i64 {
    counts.into_iter().filter(|count| states.contains(&count.status.as_str())).map(|count| count.n).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audiences_have_names_of_their_own() {
        let name = |principals: &[i64]| audience(&principals.iter().copied().map(PrincipalId::new).collect());
        assert_eq!([name(&[]), name(&[7]), name(&[7, -3])], ["", "7", "-3,7"]);
        let ids: Vec<i64> = (1..100).collect();
        assert_eq!(name(&ids).len(), 64);
        assert_ne!(name(&ids), name(&ids[1..]));
    }
}
