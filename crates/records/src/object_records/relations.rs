//! The rules over relations of a class to itself (`docs/reference/object-records.md`): a record is never its own ancestor, and a
//! chain of records has a maximum length.

use super::check::{CheckedRecord, FIELDS};
use crate::classes::{Class, ClassField, table_of};
use kit::ids::{FieldId, RecordId};
use kit::limits::{self, Limit};
use kit::refusal::Refusal;
use resource::{CheckedValue, FromValue};
use std::collections::{HashMap, HashSet};
use store::{Conn, Sql};

/// The maximum number of relations that one statement follows.
const FIELDS_IN_STATEMENT: usize = 50;

/// Refuses values of relations of a class to itself that close a cycle or make a chain too long. `ids` are the changed records in
/// the order of `checked_records`. `None` is a new record.
pub fn check(
    conn: &mut Conn,
    class: &Class,
    depth: &'static Limit,
    ids: &[Option<RecordId>],
    checked_records: &mut [CheckedRecord],
) -> Result<(), Refusal> {
    let own: Vec<&ClassField> =
        class.fields.iter().filter(|field| field.related_object_class == Some(class.id)).collect();
    let is_set = |field: &&&ClassField| {
        checked_records.iter().any(|checked| matches!(checked.changes.value(&field.alias), Some(CheckedValue::Int(_))))
    };
    if own.iter().filter(is_set).count() == 0 {
        return Ok(());
    }
    // Two concurrent writes could close a cycle that neither detects, so this lock serializes them.
    let lock = Sql::new("SELECT id FROM object_classes WHERE id = $1 FOR NO KEY UPDATE").arg(class.id);
    conn.query_optional(&lock, |_| Ok(()))?;
    let most = limits::value(conn, depth)?;
    let mut graph = Graph::default();
    let (mut parents, mut changed) = (Vec::new(), Vec::new());
    for (id, checked) in ids.iter().zip(checked_records.iter()) {
        for field in &own {
            let value = checked.changes.value(&field.alias);
            if let Some(parent) = value.and_then(RecordId::from_value) {
                parents.push(parent);
                changed.extend(*id);
            }
            if let (Some(id), Some(value)) = (*id, value) {
                graph.plan(id, field.id, RecordId::from_value(value));
            }
        }
    }
    graph.load_relations(conn, class, &own, Direction::Up, parents, most)?;
    graph.load_relations(conn, class, &own, Direction::Down, changed, most)?;
    let (up, down) = (lengths(&graph.parents, most), lengths(&graph.children, most));
    let length = |lengths: &HashMap<RecordId, i64>, id: RecordId| lengths.get(&id).copied().unwrap_or(1);
    for (id, checked) in ids.iter().zip(checked_records) {
        for field in &own {
            let Some(parent) = checked.changes.value(&field.alias).and_then(RecordId::from_value) else { continue };
            // Paths from a record in a cycle do not end.
            let is_circle = id.is_some_and(|id| length(&up, id) > most && graph.leads_up(parent, id, most));
            let wrong = if is_circle {
                "Circular relations are not allowed.".to_owned()
            } else if length(&up, parent) + id.map_or(1, |id| length(&down, id)) > most {
                format!("Limit of {most} relation levels has been exceeded.")
            } else {
                continue;
            };
            checked.errors.add_nested(FIELDS, &field.alias, wrong);
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Up,
    Down,
}

/// The relations around the changed records, in their state after the request.
#[derive(Default)]
struct Graph {
    /// The records and fields that the request changes. Their stored values do not count.
    planned: HashSet<(RecordId, FieldId)>,
    parents: HashMap<RecordId, Vec<RecordId>>,
    children: HashMap<RecordId, Vec<RecordId>>,
}

impl Graph {
    fn plan(&mut self, record: RecordId, field: FieldId, parent: Option<RecordId>) {
        self.planned.insert((record, field));
        if let Some(parent) = parent {
            self.parents.entry(record).or_default().push(parent);
            self.children.entry(parent).or_default().push(record);
        }
    }

    /// Reads the stored relations on the paths from these records, up to the maximum length of a chain. One statement reads a
    /// level of all paths together.
    fn load_relations(
        &mut self,
        conn: &mut Conn,
        class: &Class,
        own: &[&ClassField],
        way: Direction,
        from: Vec<RecordId>,
        most: i64,
    ) -> Result<(), Refusal> {
        let mut visited: HashSet<RecordId> = from.into_iter().collect();
        let mut level: Vec<RecordId> = visited.iter().copied().collect();
        let (planned, further) = match way {
            Direction::Up => (&self.planned, &mut self.parents),
            Direction::Down => (&self.planned, &mut self.children),
        };
        for _ in 0..most {
            if level.is_empty() {
                break;
            }
            for fields in own.chunks(FIELDS_IN_STATEMENT) {
                conn.for_each_row(&load_relations(class, fields, way, &level), |row| {
                    let (record, parent, field) = (row.id(0)?, row.id(1)?, row.id(2)?);
                    if !planned.contains(&(record, field)) {
                        let (here, there) = if way == Direction::Up { (record, parent) } else { (parent, record) };
                        further.entry(here).or_default().push(there);
                    }
                    Ok(())
                })?;
            }
            let next = level.iter().filter_map(|record| further.get(record)).flatten();
            level = next.copied().filter(|record| visited.insert(*record)).collect();
        }
        Ok(())
    }

    /// Returns whether a path of at most `most` steps leads up from one record to another.
    fn leads_up(&self, from: RecordId, to: RecordId, most: i64) -> bool {
        let (mut visited, mut level) = (HashSet::from([from]), vec![from]);
        for _ in 0..most {
            let next = level.iter().filter_map(|record| self.parents.get(record)).flatten();
            level = next.copied().filter(|record| visited.insert(*record)).collect();
            if level.is_empty() || visited.contains(&to) {
                break;
            }
        }
        visited.contains(&to)
    }
}

/// Selects the stored relations of these fields from records to their parents or children. The columns are record, parent and
/// field.
fn load_relations(class: &Class, fields: &[&ClassField], way: Direction, records: &[RecordId]) -> Sql {
    let mut sql = Sql::new("");
    for (n, field) in fields.iter().enumerate() {
        let column = field.column();
        sql.push(if n > 0 { " UNION ALL SELECT x.id, x." } else { "SELECT x.id, x." }).name(&column);
        sql.push(", CAST(").bind(field.id).push(" AS BIGINT) FROM ");
        sql.name(&table_of(class.id, field.table_number)).push(" x WHERE x.");
        match way {
            Direction::Up => {
                sql.push("id").push_any(records.iter().copied()).push(" AND x.").name(&column).push(" IS NOT NULL")
            }
            Direction::Down => sql.name(&column).push_any(records.iter().copied()),
        };
    }
    sql
}

/// The number of records on the longest path from each record with a relation. Paths that are longer than `most`, and cycles,
/// count as `most` + 1.
fn lengths(further: &HashMap<RecordId, Vec<RecordId>>, most: i64) -> HashMap<RecordId, i64> {
    let mut lengths = HashMap::new();
    // The records from which a path of this length starts.
    let mut from: HashSet<RecordId> = further.keys().copied().collect();
    let mut length = 2;
    while !from.is_empty() && length <= most.saturating_add(1) {
        // A path through more records than the graph has is a cycle.
        let is_endless = length > further.len() as i64 + 1;
        let level_length = if is_endless { most.saturating_add(1) } else { length };
        lengths.extend(from.iter().map(|record| (*record, level_length)));
        if is_endless {
            break;
        }
        let leads_on = |record: &&RecordId| further[*record].iter().any(|next| from.contains(next));
        from = from.iter().filter(leads_on).copied().collect();
        length += 1;
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_way_counts_and_a_circle_has_no_end() {
        let relations = [(1, vec![2, 5]), (2, vec![3]), (3, vec![5]), (7, vec![8]), (8, vec![7]), (9, vec![7])];
        let ids = |records: Vec<i64>| records.into_iter().map(RecordId::new).collect();
        let further = HashMap::from(relations.map(|(record, next)| (RecordId::new(record), ids(next))));
        let depths = |most: i64| {
            let lengths = lengths(&further, most);
            [1, 2, 3, 5, 7, 8, 9].map(|record| lengths.get(&RecordId::new(record)).copied().unwrap_or(1))
        };
        assert_eq!(depths(10), [4, 3, 2, 1, 11, 11, 11]);
        assert_eq!(depths(2), [3, 3, 2, 1, 3, 3, 3]);
        assert_eq!(depths(0), [1, 1, 1, 1, 1, 1, 1]);
    }
}
