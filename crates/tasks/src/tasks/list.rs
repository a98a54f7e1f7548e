//! Lists the tasks that the caller may view (`docs/reference/tasks.md`).

use super::assignees;
use super::counts;
use super::mine;
use super::task::{STATES, TASK, TaskLabels, labels_of_records, shape};
use super::task_access::{self, TaskRef};
use super::visible::VisibleTasks;
use kit::answer::Outcome;
use kit::listed::{JsonItems, ListCounts};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows::sql::{OWN, conditions, order};
use kit::rows::{self, PageSize, Relations, Scope};
use records::visible_records::read_first;
use resource::select::{self, bound_filters};
use resource::{CheckedFilter, CheckedValue, Predicate};
use std::collections::HashMap;
use store::{Conn, Sql};

/// The number of tasks that are read at a time: their responses may be large, and the size of a page is limited.
const AT_ONCE: usize = 25;

pub fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let is_filter = |name: &str| assignees::is_filter(name) || select::is_filter(&TASK, name);
    bound_filters(&request.query, TASK.max_filters, is_filter)?;
    let assigned = assignees::filter(request)?;
    let query = assigned.as_ref().map_or(&request.query, |assigned| &assigned.query);
    let select = select::select(&TASK, query)?;
    let is_mine = assigned.as_ref().is_some_and(|assigned| assigned.is_mine);
    let visible = VisibleTasks::load(request, conn, is_mine)?;
    // Every user may view the tasks that are assigned to them. An agent has only the rights of its connector.
    let is_mine = is_mine && request.caller()?.agent.is_none();
    let state_names = STATES.map(|(name, _)| name);
    let total = visible.count(request, conn, &state_names)?;
    let mut may_view = if is_mine { Sql::new("1 = 1") } else { visible.condition() };
    if let Some(assigned) = &assigned {
        may_view.push(" AND ").append(&assigned.condition);
    }
    let (table, mut condition) = match visible.are_read_first(total) {
        true => read_first("tasks", OWN, &may_view),
        false => (Sql::new("tasks t"), may_view),
    };
    conditions(&mut condition, OWN, &select.filters, &Relations::new(), request.now);
    let states = states(&select.filters);

    let of_mine = match &states {
        Some(states) if is_mine => mine::page(&task_access::principals(request, conn)?, states, &select),
        _ => None,
    };
    let sql = of_mine.unwrap_or_else(|| {
        let mut sql = Sql::new("SELECT t.id, t.record, t.class_id, t.created_by FROM ");
        order(sql.append(&table).push(" WHERE ").append(&condition), OWN, &TASK, &select.ordering);
        sql.page(select.limit, select.offset);
        sql
    });
    let page = conn.query_all(&sql, |row| {
        Ok(TaskRef { id: row.id(0)?, record: row.opt_id(1)?, class: row.opt_id(2)?, created_by: row.opt_id(3)? })
    })?;
    let items = task_items(request, conn, &page)?;
    let filtered = match &states {
        Some(states) if is_mine => counts::sum(&visible.assigned, states),
        Some(states) if assigned.is_none() && states.len() == state_names.len() => total,
        Some(states) if assigned.is_none() => visible.count(request, conn, states)?,
        _ => {
            let mut sql = Sql::new("SELECT count(*) FROM ");
            conn.query_one(sql.append(&table).push(" WHERE ").append(&condition), |row| row.int(0))?
        }
    };
    let mut answer = rows::list_answer(request, select.limit, select.offset, ListCounts { total, filtered }, items);
    answer.cacheable_until = Some(i64::MAX);
    Ok(answer)
}

/// The states that the filters select. `None` if there are other filters.
fn states(filters: &[CheckedFilter<'_>]) -> Option<Vec<&'static str>> {
    let mut states = STATES.map(|(name, _)| name).to_vec();
    for filter in filters {
        let is_known = filter.relation_field().is_none()
            && filter.field().name == "status"
            && matches!(filter.predicate(), Predicate::Exact | Predicate::In);
        if !is_known {
            return None;
        }
        let is_named = |state: &str| filter.operands().iter().any(|operand| *operand == CheckedValue::from(state));
        states.retain(|state| is_named(state) != filter.is_complement());
    }
    Some(states)
}

/// Returns the JSON array of these tasks, in the order of `page`.
fn task_items(request: &Request, conn: &mut Conn, page: &[TaskRef]) -> Result<JsonItems, Refusal> {
    let actions = task_access::actions(conn, request.caller()?, page)?;
    let labels = labels_of_records(request, conn, page.iter().filter_map(|task| task.class.zip(task.record)))?;
    let shape = shape(TaskLabels { actions, labels: Some(labels) });
    let mut results = JsonItems::with_capacity(1024 + 900 * page.len().min(100));
    for chunk in page.chunks(AT_ONCE) {
        let mut condition = Sql::new("t.id");
        condition.push_any(chunk.iter().map(|task| task.id).collect::<Vec<_>>());
        let items: HashMap<i64, Vec<u8>> =
            rows::items(request, conn, &shape, "id", &Scope::matching(condition))?.into_iter().collect();
        for item in chunk.iter().filter_map(|task| items.get(&task.id.get())) {
            results.next_item().raw_bytes(item);
            PageSize { items: page.len(), bytes: results.bytes() }.check(request)?;
        }
    }
    Ok(results)
}
