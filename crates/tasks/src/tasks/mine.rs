//! The tasks that are assigned to the caller, directly or through a group, in the order of their due times. A page is the union
//! of the first tasks of each principal and state, which an index contains in this order.

use super::task::DUE_AT;
use kit::ids::PrincipalId;
use resource::Select;
use store::Sql;

/// The maximum number of parts in a union. SQLite limits it.
const MAX_PARTS: usize = 100;

/// Returns the statement for a page of the tasks of these principals in these states. `None` if another order is requested, or
/// there are too many parts.
pub fn page(principals: &[PrincipalId], states: &[&'static str], select: &Select<'_>) -> Option<Sql> {
    let [ordered] = select.ordering.as_slice() else { return None };
    if ordered.field.name != DUE_AT.name() || principals.len() * states.len() > MAX_PARTS {
        return None;
    }
    let order = match ordered.descending {
        false => " ORDER BY a.due_at NULLS FIRST, a.task",
        true => " ORDER BY a.due_at DESC NULLS LAST, a.task DESC",
    };
    let mut sql = Sql::new(
        "SELECT t.id, t.record, t.class_id, t.created_by FROM (SELECT DISTINCT a.task, a.due_at FROM (\
         SELECT CAST(0 AS BIGINT) AS task, CAST(0 AS BIGINT) AS due_at WHERE 1 = 0",
    );
    for principal in principals {
        for state in states {
            sql.push(" UNION ALL SELECT * FROM (SELECT a.task, a.due_at FROM task_assignees a WHERE a.principal = ");
            sql.bind(*principal).push(" AND a.status = ").bind(*state).push(order);
            sql.page(select.offset.saturating_add(select.limit), 0).push(") x");
        }
    }
    sql.push(") a").push(order).page(select.limit, select.offset);
    sql.push(") a JOIN tasks t ON t.id = a.task").push(order);
    Some(sql)
}
