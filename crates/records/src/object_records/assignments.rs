//! Checks and collects the assignments that a create request contains (`docs/reference/object-records.md`). The rules and
//! messages are those of the assignee collections. Each statement serves all records of a request.

use super::assignees::{AssignableSet, RECORD_SET_GROUPS, RECORD_SET_USERS, principal, sets_for_assigning, unlisted};
use super::check::CheckedRecord;
use crate::classes::Class;
use crate::history_events::Assignment;
use crate::rights::EDIT_OWNERS;
use identity::assignees::{Candidate, Principals};
use kit::ids::{PrincipalId, RecordSetId};
use kit::limits;
use kit::refusal::Refusal;
use kit::request::Request;
use resource::{JsonValue, SentObject, ids, message, parse_id};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use store::Conn;

/// The name of the member with the assignments of a new record.
pub const PERMISSION_SETS: &str = "permission_sets";
/// The maximum number of entries of one record.
const MAX_ENTRIES: usize = 10;
/// The maximum number of assignments of one request. SQLite has one writer, and a short body could block it for seconds.
const MAX_ASSIGNMENTS: usize = 20_000;

/// An entry of `permission_sets`: a set, and the users and groups to assign by it.
struct AssignmentEntry {
    /// The index of its record in the request, and its index in the record.
    record: usize,
    place: usize,
    set: RecordSetId,
    users: Vec<i64>,
    groups: Vec<i64>,
}

/// The assignments that each body requests. `may` contains the caller's actions on each record. Errors are added to the errors of
/// the record.
pub fn parse_assignments(
    request: &Request,
    conn: &mut Conn,
    class: &Class,
    bodies: &[&SentObject<'_>],
    may: &[i64],
    checked_records: &mut [CheckedRecord],
) -> Result<Vec<Vec<Assignment>>, Refusal> {
    let mut entries = Vec::new();
    let mut assigned: Vec<Vec<Assignment>> = bodies.iter().map(|_| Vec::new()).collect();
    let lists = bodies.iter().enumerate().filter_map(|(record, body)| Some((record, body.get(PERMISSION_SETS)?)));
    for (record, list) in lists.filter(|(_, list)| list.as_list(0).is_none_or(|(_, count)| count > 0)) {
        if may[record] & EDIT_OWNERS == 0 {
            return Err(Refusal::forbidden());
        }
        read_entries(record, list, &mut checked_records[record], &mut entries);
    }
    if entries.is_empty() {
        return Ok(assigned);
    }
    let sets = sets_for_assigning(conn, class.id)?;
    let is_beyond =
        |entry: &AssignmentEntry| sets.get(&entry.set).is_some_and(|set| set.grants & !may[entry.record] != 0);
    if entries.iter().any(is_beyond) {
        return Err(Refusal::forbidden());
    }
    let users = People::load(request, conn, Principals::Users, entries.iter().flat_map(|entry| &entry.users))?;
    let groups = People::load(request, conn, Principals::Groups, entries.iter().flat_map(|entry| &entry.groups))?;
    let mut unique_assignments: HashSet<(usize, RecordSetId, PrincipalId)> = HashSet::new();
    let mut counts: HashMap<(usize, RecordSetId), [i64; 2]> = HashMap::new();
    for entry in &entries {
        match assignments(entry, &sets, [&users, &groups]) {
            Err(wrong) => {
                checked_records[entry.record].errors.add_nested(PERMISSION_SETS, &entry.place.to_string(), wrong)
            }
            Ok(assignments) => {
                let new = assignments.into_iter().filter(|assignment| {
                    unique_assignments.insert((entry.record, assignment.set, assignment.principal))
                });
                for assignment in new {
                    counts.entry((entry.record, entry.set)).or_default()
                        [usize::from(assignment.principal.is_group())] += 1;
                    assigned[entry.record].push(assignment);
                }
            }
        }
    }
    if assigned.iter().map(Vec::len).sum::<usize>() > MAX_ASSIGNMENTS {
        return Err(Refusal::limit(format!("Limit of {MAX_ASSIGNMENTS} Assignments has been exceeded.")));
    }
    let of_set = [&RECORD_SET_USERS, &RECORD_SET_GROUPS];
    for (at, most) in limits::values(conn, of_set)?.into_iter().enumerate() {
        limits::check_bound(of_set[at], most, counts.values().map(|set_counts| set_counts[at]).max().unwrap_or(0))?;
    }
    Ok(assigned)
}

fn read_entries(record: usize, list: JsonValue<'_>, checked: &mut CheckedRecord, entries: &mut Vec<AssignmentEntry>) {
    let errors = &mut checked.errors;
    let items = match list.items(MAX_ENTRIES) {
        Ok(items) => items,
        Err(wrong) => return errors.add(PERMISSION_SETS, wrong),
    };
    for (place, item) in items.into_iter().enumerate() {
        match read_entry(record, place, item) {
            Ok(entry) => entries.push(entry),
            Err(wrong) => errors.add_nested(PERMISSION_SETS, &place.to_string(), wrong),
        }
    }
}

fn read_entry(record: usize, place: usize, item: JsonValue<'_>) -> Result<AssignmentEntry, String> {
    let names = ["permission_set", "users", "user_groups"];
    let wrong = || message::not_an_object(item.type_name());
    let entry = item.as_object(|name| names.contains(&name)).ok_or_else(wrong)?;
    let set = parse_id(entry.get("permission_set").ok_or(message::REQUIRED)?)?;
    let ids_of = |name: &str, principals: Principals| {
        entry.get(name).map_or(Ok(Vec::new()), |ids| read_ids(ids, principals.max_batch()))
    };
    Ok(AssignmentEntry {
        record,
        place,
        set,
        users: ids_of("users", Principals::Users)?,
        groups: ids_of("user_groups", Principals::Groups)?,
    })
}

/// Reads a list of ids in the format of the collections.
fn read_ids(value: JsonValue<'_>, max: usize) -> Result<Vec<i64>, String> {
    match ids(value, max)? {
        (_, Some(wrong)) => Err(wrong),
        (ids, None) => Ok(ids),
    }
}

/// Returns the assignments of an entry, or its first error.
fn assignments(
    entry: &AssignmentEntry,
    sets: &HashMap<RecordSetId, AssignableSet>,
    people: [&People; 2],
) -> Result<Vec<Assignment>, String> {
    let set = sets.get(&entry.set).ok_or_else(|| message::invalid_id_message(entry.set))?;
    let mut assignments = Vec::new();
    for (ids, people) in [&entry.users, &entry.groups].into_iter().zip(people) {
        for id in ids {
            let name = people.assignable(*id)?;
            let principal = principal(people.of, *id);
            assignments.push(Assignment { set: set.id, set_name: set.name.clone(), principal, name });
        }
    }
    Ok(assignments)
}

/// The users or groups that bodies name. The ids are numbers, since the code serves both kinds.
struct People {
    of: Principals,
    known: HashMap<i64, Candidate>,
}

impl People {
    fn load<'a>(
        request: &Request,
        conn: &mut Conn,
        principals: Principals,
        ids: impl Iterator<Item = &'a i64>,
    ) -> Result<People, Refusal> {
        let ids: Vec<i64> = ids.copied().collect::<HashSet<i64>>().into_iter().collect();
        Ok(People { of: principals, known: principals.load(conn, request.caller()?, &ids)? })
    }

    /// Returns the name of a user or group that the caller may assign, otherwise the error.
    fn assignable(&self, id: i64) -> Result<Arc<str>, String> {
        let candidate = self.known.get(&id).ok_or_else(|| message::invalid_id_message(id))?;
        if candidate.is_one_time {
            return Err(format!("1 Time Completion account {id} cannot be assignee."));
        }
        if !candidate.is_listed {
            return Err(unlisted(self.of, id));
        }
        Ok(candidate.name.clone())
    }
}
