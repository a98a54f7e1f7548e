//! The assignees of a record by a permission set: `/api/object-records/{id}/permission-sets/{id}/assignees/`, users and groups
//! (`docs/reference/object-records.md`).

use super::record_access::{self, RecordAccess};
use super::write::insert_assignments;
use crate::history_events::{Assignment, Events, names_of_users};
use crate::object_classes::assignees::{ASSIGNEES, unlisted_group, unlisted_user};
use crate::rights::EDIT_OWNERS;
use crate::visible_records::VersionChanges;
use http::StatusCode;
use identity::assignees::{self, Handlers, Principals, check_each, group_entries, shape};
use kit::answer::{Answer, Outcome};
use kit::ids::{ClassId, GroupId, PrincipalId, RecordId, RecordSetId, UserId};
use kit::limits::{self, Limit, LimitSummary};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route};
use kit::rows::{self, RowShape, Scope};
use resource::{Field, FieldKind, Resource, message, options};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use store::{Conn, Sql, StoreError};

/// The users assigned to a record by one set.
pub static RECORD_SET_USERS: Limit = Limit {
    name: "object_record_permission_set_assignees",
    default: 100,
    many: ASSIGNEES,
    summary: LimitSummary::Additional("object_record_permission_set_assignees_users"),
    ..Limit::EMPTY
};
/// The groups assigned to a record by one set.
pub static RECORD_SET_GROUPS: Limit = Limit {
    name: "object_record_permission_set_users_groups_assignees",
    default: 10,
    many: ASSIGNEES,
    summary: LimitSummary::Additional("object_record_permission_set_assignees_user_groups"),
    ..Limit::EMPTY
};

/// A user who is assigned to a record.
static USER: LazyLock<Resource> = LazyLock::new(|| {
    let fields = [
        Field::id().list_only(),
        Field::new("user", FieldKind::User).column("user_id").read_only().list_only(),
        Field::new("created_at", FieldKind::DateTime).read_only().list_only(),
        Field::new("created_by", FieldKind::User).read_only().nullable().list_only(),
    ];
    let autocomplete = "/api/users/autocomplete/?account_type__exclude=one_time_completion&text__icontains=";
    Resource::new("record_set_users", "ObjectRecordAssignee", "record_assignees", fields)
        .unselectable()
        .limit_items(RECORD_SET_USERS.default)
        .batch(Principals::Users.max_batch() as i64, autocomplete)
});
/// A group that is assigned to a record.
static GROUP: LazyLock<Resource> =
    LazyLock::new(|| group_entries("ObjectRecordGroupAssignee", "record_assignees", &RECORD_SET_GROUPS));

static USERS: RecordAssigneeCollection =
    RecordAssigneeCollection { of: Principals::Users, shape: shape(&USER), limit: &RECORD_SET_USERS, key: "user_id" };
static GROUPS: RecordAssigneeCollection = RecordAssigneeCollection {
    of: Principals::Groups,
    shape: shape(&GROUP),
    limit: &RECORD_SET_GROUPS,
    key: "group_id",
};

pub fn routes() -> Vec<Route> {
    let users = Handlers {
        list: |request, conn| USERS.list(request, conn),
        add: |request, conn| USERS.add(request, conn),
        remove: |request, conn| USERS.remove(request, conn),
        document: |request, conn| USERS.document(request, conn),
    };
    let groups = Handlers {
        list: |request, conn| GROUPS.list(request, conn),
        add: |request, conn| GROUPS.add(request, conn),
        remove: |request, conn| GROUPS.remove(request, conn),
        document: |request, conn| GROUPS.document(request, conn),
    };
    let mut routes = assignees::routes(
        "/api/object-records/{record_id}/permission-sets/{set_id}/assignees/",
        "/api/object-records/{record_id}/permission-sets/{set_id}/assignees/{assignee_id}/",
        &USER,
        users,
        "object_records.view",
        "object_records.edit_owners",
    );
    routes.extend(assignees::routes(
        "/api/object-records/{record_id}/permission-sets/{set_id}/assignees/user-groups/",
        "/api/object-records/{record_id}/permission-sets/{set_id}/assignees/user-groups/{user_group_id}/",
        &GROUP,
        groups,
        "object_records.view",
        "object_records.edit_owners",
    ));
    // The computation of the rights on a record takes more than one statement.
    let reads = |route: Route| match route.handler {
        Handler::ShortRead(document) => route.with_read(document),
        _ => route,
    };
    routes.into_iter().map(reads).collect()
}

/// A record permission set, with the columns that assigning needs.
#[derive(Clone)]
pub struct AssignableSet {
    pub id: RecordSetId,
    pub name: Arc<str>,
    /// The actions, as bits.
    pub grants: i64,
}

/// The record permission sets of a class, locked against changes until the end of a write.
pub fn sets_for_assigning(conn: &mut Conn, class: ClassId) -> Result<HashMap<RecordSetId, AssignableSet>, StoreError> {
    let sql =
        Sql::new("SELECT id, name, permissions FROM record_permission_sets WHERE class_id = $1 ORDER BY id FOR SHARE");
    let read_set =
        |row: &store::Row<'_>| Ok(AssignableSet { id: row.id(0)?, name: row.text(1)?.into(), grants: row.int(2)? });
    Ok(conn.query_all(&sql.arg(class), read_set)?.into_iter().map(|set| (set.id, set)).collect())
}

/// Loads the set of the path. Answers 404 if it is not a set of the record's class.
fn set_of_path(
    request: &Request,
    conn: &mut Conn,
    record: &RecordAccess,
    lock: &'static str,
) -> Result<AssignableSet, Refusal> {
    let mut sql = Sql::new("SELECT name, permissions FROM record_permission_sets WHERE id = ");
    sql.bind(request.second_id::<RecordSetId>()).push(" AND class_id = ").bind(record.class.id).push(lock);
    let read_set = |row: &store::Row<'_>| {
        Ok(AssignableSet { id: request.second_id(), name: row.text(0)?.into(), grants: row.int(1)? })
    };
    conn.query_optional(&sql, read_set)?.ok_or_else(Refusal::not_found)
}

/// Loads the record of the path and locks its row, so that the limit is exact. Refuses callers who may not change its assignees.
fn for_change(request: &Request, conn: &mut Conn) -> Result<RecordAccess, Refusal> {
    let record = record_access::for_change(request, conn, request.id())?.ok_or_else(Refusal::forbidden)?;
    record.require(EDIT_OWNERS)?;
    Ok(record)
}

/// The assignees of a record by a set: users or groups. The ids are numbers, since the code serves both kinds.
struct RecordAssigneeCollection {
    of: Principals,
    shape: RowShape,
    limit: &'static Limit,
    /// The column of the users or groups in [`RecordAssigneeCollection::assigned`].
    key: &'static str,
}

impl RecordAssigneeCollection {
    fn document(&self, request: &Request, conn: &mut Conn) -> Outcome {
        let record = record_access::load_from_path(request, conn)?;
        set_of_path(request, conn, &record, "")?;
        let mut document = options::document(&self.shape.resource);
        document["restrictions"]["limit_items"] = limits::value(conn, self.limit)?.into();
        Ok(Answer::value(&document))
    }

    fn list(&self, request: &Request, conn: &mut Conn) -> Outcome {
        let record = record_access::load_record_access(request, conn, request.id())?.ok_or_else(Refusal::forbidden)?;
        let set = set_of_path(request, conn, &record, "")?;
        rows::list(request, conn, &self.shape, Scope::from(self.assigned(record.id, set.id)).cacheable())
    }

    fn add(&self, request: &Request, conn: &mut Conn) -> Outcome {
        let record = for_change(request, conn)?;
        let set = set_of_path(request, conn, &record, " FOR SHARE")?;
        record.require(set.grants)?;
        let batch = request.batch(self.of.max_batch())?;
        let present: Vec<i64> = self.present(conn, record.id, set.id)?.into_iter().map(|(_, id)| id).collect();
        let new: Vec<i64> = batch.ids.iter().copied().filter(|id| !present.contains(id)).collect();
        check_each(conn, request.caller()?, self.of, &new, "assignee", |id| unlisted(self.of, id))?;
        let ids = batch.finish()?;
        // Existing ids are accepted even when the limit was lowered below their number.
        if !new.is_empty() {
            limits::check(conn, self.limit, present.len() as i64, new.len() as i64)?;
            self.insert(request, conn, &record, &set, &new)?;
        }
        let shown = rows::items(request, conn, &self.shape, self.key, &Scope::from(self.assigned(record.id, set.id)))?;
        let shown: HashMap<i64, Vec<u8>> = shown.into_iter().collect();
        let added: Vec<&[u8]> = ids.iter().filter_map(|id| Some(shown.get(id)?.as_slice())).collect();
        Ok(Answer::json(StatusCode::CREATED, [b"[", added.join(&b","[..]).as_slice(), b"]"].concat()))
    }

    /// Removes the assignments that the body names by the ids of the list.
    fn remove(&self, request: &Request, conn: &mut Conn) -> Outcome {
        let record = for_change(request, conn)?;
        let set = set_of_path(request, conn, &record, " FOR SHARE")?;
        let batch = request.batch(self.of.max_batch())?;
        let present = self.present(conn, record.id, set.id)?;
        let by_id: HashMap<i64, (i64, i64)> =
            present.into_iter().map(|assignment| (self.shown_id(assignment), assignment)).collect();
        if let Some(id) = batch.ids.iter().find(|id| !by_id.contains_key(id)) {
            return Err(Refusal::bad_request(message::invalid_id_message(id)));
        }
        let ids = batch.finish()?;
        let (removed, principals): (Vec<i64>, Vec<i64>) = ids.iter().filter_map(|id| by_id.get(id).copied()).unzip();
        conn.exec(Sql::new("DELETE FROM record_assignees WHERE id").push_any(removed))?;
        let assignments = self.assignments(conn, &set, &principals)?;
        let mut events = Events::for_request(request, conn, [])?;
        events.assignees_removed(record.id, &assignments);
        events.write_to_outbox(request, conn)?;
        raise_principal_versions(conn, &record, &assignments)?;
        Ok(Answer::empty())
    }

    fn insert(
        &self,
        request: &Request,
        conn: &mut Conn,
        record: &RecordAccess,
        set: &AssignableSet,
        ids: &[i64],
    ) -> Result<(), Refusal> {
        let assignments = self.assignments(conn, set, ids)?;
        let rows: Vec<(RecordId, i64, &Assignment)> =
            assignments.iter().map(|assignment| (record.id, record.n, assignment)).collect();
        insert_assignments(request, conn, &rows)?;
        let mut events = Events::for_request(request, conn, [])?;
        events.assignees_added(record.id, &assignments);
        events.write_to_outbox(request, conn)?;
        Ok(raise_principal_versions(conn, record, &assignments)?)
    }

    /// The assignments of these users or groups by a set.
    fn assignments(&self, conn: &mut Conn, set: &AssignableSet, ids: &[i64]) -> Result<Vec<Assignment>, StoreError> {
        let names = names(conn, self.of, ids)?;
        let assignment_of = |id: &i64| Assignment {
            set: set.id,
            set_name: set.name.clone(),
            principal: principal(self.of, *id),
            name: names.get(id).map_or("", String::as_str).into(),
        };
        Ok(ids.iter().map(assignment_of).collect())
    }

    /// The id of an assignment in lists. The argument is the id of the assignment and the id of its user or group.
    fn shown_id(&self, (assignment, id): (i64, i64)) -> i64 {
        match self.of {
            Principals::Users => assignment,
            Principals::Groups => id,
        }
    }

    /// The ids of the listed assignments, each with the id of its user or group.
    fn present(&self, conn: &mut Conn, record: RecordId, set: RecordSetId) -> Result<Vec<(i64, i64)>, StoreError> {
        let mut sql = Sql::new("SELECT t.id, t.");
        sql.name(self.key).push(" FROM (").append(&self.assigned(record, set)).push(") t");
        conn.query_all(&sql, |row| Ok((row.int(0)?, row.int(1)?)))
    }

    /// The assignments to a record by a set. Deleted and anonymized accounts are not assignees, even before their assignments are
    /// removed.
    fn assigned(&self, record: RecordId, set: RecordSetId) -> Sql {
        let sql = match self.of {
            Principals::Users => Sql::new(
                "SELECT a.id, a.principal AS user_id, a.created_at, a.created_by FROM record_assignees a \
                 JOIN users u ON u.id = a.principal AND u.is_deleted = 0 AND u.status <> 'anonymized' \
                 WHERE a.record = $1 AND a.permission_set = $2",
            ),
            Principals::Groups => Sql::new(
                "SELECT a.id, g.id AS group_id, a.created_at, a.created_by FROM record_assignees a \
                 JOIN user_groups g ON g.id = -a.principal WHERE a.record = $1 AND a.permission_set = $2",
            ),
        };
        sql.arg(record).arg(set)
    }
}

/// The refusal of a user or group that the caller may not list.
pub fn unlisted(principals: Principals, id: i64) -> String {
    match principals {
        Principals::Users => unlisted_user(UserId::new(id)),
        Principals::Groups => unlisted_group(GroupId::new(id)),
    }
}

/// The user or the group of an id.
pub fn principal(principals: Principals, id: i64) -> PrincipalId {
    match principals {
        Principals::Users => UserId::new(id).into(),
        Principals::Groups => GroupId::new(id).into(),
    }
}

/// The names of users or groups.
fn names(conn: &mut Conn, principals: Principals, ids: &[i64]) -> Result<HashMap<i64, String>, StoreError> {
    if principals == Principals::Users {
        let names = names_of_users(conn, ids.iter().copied().map(UserId::new))?;
        return Ok(names.into_iter().map(|(user, name)| (user.get(), name)).collect());
    }
    let mut sql = Sql::new("SELECT g.id, g.name FROM user_groups g WHERE g.id");
    Ok(conn
        .query_all(sql.push_any(ids.iter().copied()), |row| Ok((row.int(0)?, row.text(1)?.to_owned())))?
        .into_iter()
        .collect())
}

/// Raises the versions of the assigned principals: their visible records have changed.
fn raise_principal_versions(
    conn: &mut Conn,
    record: &RecordAccess,
    assignments: &[Assignment],
) -> Result<(), StoreError> {
    let mut changed = VersionChanges::default();
    assignments.iter().for_each(|assignment| changed.principal(assignment.principal));
    changed.raise_versions(conn, record.class.id)
}
