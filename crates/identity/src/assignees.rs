//! Collections of users or groups that are changed by arrays of ids. They are the assignees of a permission set, and the members
//! and owners of a group (`docs/reference/permission-sets.md`). Classes and records have such collections, too.
//!
//! An *entry* connects one user or group to the parent: the set, group, class or record that has the collection. This file
//! contains the shared parts: the shape of an entry, the checks of each id, the limit, the audit fields and the log. The resource
//! with the collection loads the parent and authorises the caller. It locks the parent's row, so that the limit is exact and the
//! parent is not deleted meanwhile.
//!
//! A batch is accepted or refused as a whole. The answer contains the first error in the order of the ids. Limits are checked last.

use crate::user_groups::rights::visible_groups;
use crate::visibility::visible_users;
use http::{Method, StatusCode};
use kit::answer::{Answer, Outcome};
use kit::caller::Caller;
use kit::limits::{self, Limit};
use kit::log;
use kit::permission_set::StoredSet;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::route::{Handler, Route, Schema, StaticResource};
use kit::rows::{self, Declaration, RowShape, Scope};
use resource::json::JsonWriter;
use resource::{Field, FieldKind, Id, Resource, message, options};
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use store::{BorrowedArgument, Conn, Sql, StoreError};

/// The maximum number of users in one request.
const MAX_USERS_IN_BATCH: usize = 100;
/// The maximum number of groups in one request.
const MAX_GROUPS_IN_BATCH: usize = 10;

/// A collection of users or groups below a parent.
pub struct AssigneeCollection<P> {
    /// The declaration of its entries: [`user_entries`] or [`group_entries`].
    pub resource: StaticResource,
    /// The shape of its entries.
    pub shape: RowShape,
    /// The column of the parent's id.
    pub parent_column: &'static str,
    pub principals: Principals,
    /// The maximum number of entries of a parent.
    pub limit: &'static Limit,
    pub messages: AssigneeTexts<P>,
    pub log_names: LogNames,
}

/// The kind of the ids of a collection.
#[derive(Clone, Copy, PartialEq)]
pub enum Principals {
    Users,
    Groups,
}

/// The parts of error messages in which collections differ.
pub struct AssigneeTexts<P> {
    /// The role of an entry, as in "1 Time Completion account 5 cannot be `assignee`."
    pub role: &'static str,
    /// Returns the error message for an id that the caller may not list, from the id and the parent's id.
    pub unlisted: fn(i64, P) -> String,
}

/// The names in the administration log. The log entries name the parent.
pub struct LogNames {
    /// The declaration of the parent.
    pub parent: StaticResource,
    /// The action of an addition.
    pub add: &'static str,
    /// The action of a removal.
    pub remove: &'static str,
    /// The field of an entry that contains the ids.
    pub field: &'static str,
}

/// The set, group, class or record that has a collection.
pub struct Parent<P> {
    pub id: P,
    /// The name in the log.
    pub name: String,
}

impl<S> From<StoredSet<S>> for Parent<S> {
    fn from(set: StoredSet<S>) -> Parent<S> {
        Parent { id: set.id, name: set.name }
    }
}

/// The handlers of a collection, for GET, POST, DELETE and OPTIONS.
#[derive(Clone, Copy)]
pub struct Handlers {
    pub list: fn(&Request, &mut Conn) -> Outcome,
    pub add: fn(&Request, &mut Conn) -> Outcome,
    pub remove: fn(&Request, &mut Conn) -> Outcome,
    pub document: fn(&Request, &mut Conn) -> Outcome,
}

/// The assignees of the permission sets of groups or classes: a collection of users and one of groups for each set.
pub trait SetAssignees {
    /// The type of the sets' ids.
    type Set: Id + 'static;

    fn users() -> &'static AssigneeCollection<Self::Set>;
    fn groups() -> &'static AssigneeCollection<Self::Set>;

    /// Returns the id of the path's set. Refuses callers who may not view it.
    fn viewable_set(request: &Request, conn: &mut Conn) -> Result<Self::Set, Refusal>;

    /// Returns the path's set with its row locked, for new assignees.
    fn assignable_set(request: &Request, conn: &mut Conn) -> Result<Parent<Self::Set>, Refusal>;

    /// Returns the path's set with its row locked, in a group or class whose sets the caller may change.
    fn set_for_change(request: &Request, conn: &mut Conn) -> Result<StoredSet<Self::Set>, Refusal>;

    /// Refuses with 404 if the path has no such set.
    fn check_set(request: &Request, conn: &mut Conn) -> Result<(), Refusal>;
}

/// The paths of the assignees of sets, and the permissions in their descriptions.
pub struct SetAssigneePaths {
    /// The collection of users, and a single user in it.
    pub users: [&'static str; 2],
    /// The collection of groups, and a single group in it.
    pub groups: [&'static str; 2],
    /// The permission to read a collection.
    pub reads: &'static str,
    /// The permission to change a collection.
    pub changes: &'static str,
}

/// Returns the routes of both collections of assignees.
pub fn routes_of_sets<S: SetAssignees>(paths: &SetAssigneePaths) -> Vec<Route> {
    let users = Handlers {
        list: |request, conn| S::users().list(S::viewable_set(request, conn)?, request, conn),
        add: |request, conn| S::users().add(&S::assignable_set(request, conn)?, request, conn),
        remove: |request, conn| S::users().remove(&S::set_for_change(request, conn)?.into(), request, conn),
        document: |request, conn| S::check_set(request, conn).and_then(|()| S::users().document(conn)),
    };
    let groups = Handlers {
        list: |request, conn| S::groups().list(S::viewable_set(request, conn)?, request, conn),
        add: |request, conn| S::groups().add(&S::assignable_set(request, conn)?, request, conn),
        remove: |request, conn| S::groups().remove(&S::set_for_change(request, conn)?.into(), request, conn),
        document: |request, conn| S::check_set(request, conn).and_then(|()| S::groups().document(conn)),
    };
    let routes_of =
        |[path, entry_path]: [&'static str; 2], collection: &'static AssigneeCollection<S::Set>, handlers| {
            routes(path, entry_path, collection.resource, handlers, paths.reads, paths.changes)
        };
    let users = routes_of(paths.users, S::users(), users);
    users.into_iter().chain(routes_of(paths.groups, S::groups(), groups)).collect()
}

/// Declares a collection of users.
pub fn user_entries(title: &'static str, table: &'static str, limit: &'static Limit) -> Resource {
    let fields = [
        // Is a column in OPTIONS, but not in the entries (`docs/reference/permission-sets.md`).
        Field::id().filter_only(),
        Field::new("user", FieldKind::User).column("user_id").read_only().list_only(),
        Field::new("created_at", FieldKind::DateTime).read_only().list_only(),
        Field::new("created_by", FieldKind::User).read_only().nullable().list_only(),
    ];
    let autocomplete = "/api/users/autocomplete/?account_type__exclude=one_time_completion&text__icontains=";
    let resource = Resource::new(table, title, table, fields).unselectable();
    resource.limit_items(limit.default).batch(MAX_USERS_IN_BATCH as i64, autocomplete)
}

/// Declares a collection of groups.
pub fn group_entries(title: &'static str, table: &'static str, limit: &'static Limit) -> Resource {
    let name = "(SELECT g.name FROM user_groups g WHERE g.id = t.group_id)";
    let fields = [
        Field::id().column("group_id").list_only(),
        Field::new("name", FieldKind::text(100)).sql(name).read_only().list_only(),
        Field::new("created_by", FieldKind::User).read_only().nullable().list_only(),
        Field::new("created_at", FieldKind::DateTime).read_only().list_only(),
    ];
    let autocomplete = "/api/user-groups/autocomplete/?text__icontains=";
    let resource = Resource::new(table, title, table, fields).unselectable();
    resource.limit_items(limit.default).batch(MAX_GROUPS_IN_BATCH as i64, autocomplete)
}

/// Returns the shape of a collection with this declaration.
pub const fn shape(resource: StaticResource) -> RowShape {
    RowShape::from_declaration(Declaration::Static(resource))
}

/// Returns the routes of a collection. The path of a single entry answers 405. `reads` and `changes` name the permissions in the
/// description.
pub fn routes(
    path: &'static str,
    entry_path: &'static str,
    resource: StaticResource,
    handlers: Handlers,
    reads: &'static str,
    changes: &'static str,
) -> Vec<Route> {
    let ids =
        |method, summary, handler| Route::new(method, path, summary, Handler::Write(handler)).with_body(Schema::Ids);
    vec![
        Route::list(path, resource, handlers.list).instance(reads),
        ids(Method::POST, "Add", handlers.add).answers(201, Schema::Records(resource)).action("add").instance(changes),
        ids(Method::DELETE, "Remove", handlers.remove).answers(204, Schema::Nothing).action("remove").instance(changes),
        Route::options_below(path, handlers.document),
        Route::without_methods(entry_path),
    ]
}

impl<P: Id> AssigneeCollection<P> {
    /// Returns the collection of users or groups that are assigned to a permission set. `set` is the declaration of the set.
    pub const fn of_set(
        principals: Principals,
        resource: StaticResource,
        limit: &'static Limit,
        set: StaticResource,
        unlisted: fn(i64, P) -> String,
    ) -> AssigneeCollection<P> {
        let field = match principals {
            Principals::Users => "users",
            Principals::Groups => "user_groups",
        };
        AssigneeCollection {
            resource,
            shape: shape(resource),
            parent_column: "set_id",
            principals,
            limit,
            messages: AssigneeTexts { role: "assignee", unlisted },
            log_names: LogNames { parent: set, add: "add_assignees", remove: "remove_assignees", field },
        }
    }

    /// Returns the schema document, with the build's limit.
    pub fn document(&self, conn: &mut Conn) -> Outcome {
        let mut document = options::document(&self.shape.resource);
        document["restrictions"]["limit_items"] = limits::value(conn, self.limit)?.into();
        Ok(Answer::value(&document))
    }

    /// Lists the entries of a parent, in the order of their creation.
    pub fn list(&self, parent: P, request: &Request, conn: &mut Conn) -> Outcome {
        rows::list(request, conn, &self.shape, Scope::matching(self.parent_condition(parent)).cacheable())
    }

    /// Adds the ids of the body to a parent whose row is locked. Existing entries are not changed. The answer contains the
    /// entries of all ids, in the order of the body.
    pub fn add(&self, parent: &Parent<P>, request: &Request, conn: &mut Conn) -> Outcome {
        let batch = request.batch(self.principals.max_batch())?;
        let present_ids = self.load_ids(parent.id, conn)?;
        let new: Vec<i64> = batch.ids.iter().copied().filter(|id| !present_ids.contains(id)).collect();
        let unlisted = |id| (self.messages.unlisted)(id, parent.id);
        check_each(conn, request.caller()?, self.principals, &new, self.messages.role, unlisted)?;
        let ids = batch.finish()?;
        // Existing ids are accepted even when the limit was lowered below their number.
        if !new.is_empty() {
            limits::check(conn, self.limit, present_ids.len() as i64, new.len() as i64)?;
            self.insert(parent, &new, request, conn)?;
        }
        Ok(Answer::json(StatusCode::CREATED, self.entries_json(parent.id, &ids, request, conn)?))
    }

    /// Removes the ids of the body from a parent whose row is locked.
    pub fn remove(&self, parent: &Parent<P>, request: &Request, conn: &mut Conn) -> Outcome {
        let batch = request.batch(self.principals.max_batch())?;
        let present_ids = self.load_ids(parent.id, conn)?;
        if let Some(id) = batch.ids.iter().find(|id| !present_ids.contains(id)) {
            return Err(Refusal::bad_request(message::invalid_id_message(id)));
        }
        let ids = batch.finish()?;
        self.delete(parent, &ids, request, conn)?;
        Ok(Answer::empty())
    }

    /// Deletes the entries of these ids, and writes the log.
    pub fn delete(&self, parent: &Parent<P>, ids: &[i64], request: &Request, conn: &mut Conn) -> Result<(), Refusal> {
        let mut sql = Sql::new("DELETE FROM ");
        sql.name(&self.shape.resource.table)
            .push(" WHERE ")
            .name(self.parent_column)
            .push(" = ")
            .bind(parent.id.to_number());
        sql.push(" AND ").name(self.principals.column()).push(" IN (");
        conn.exec(push_ids(&mut sql, ids).push(")"))?;
        let changes = log::Diff::from_iter([(self.log_names.field.to_owned(), json!([ids, []]))]);
        let names = &self.log_names;
        log::write(request, conn, names.remove, names.parent, parent.id.to_number(), &parent.name, changes)?;
        rights::object_rights_ended(request);
        Ok(())
    }

    /// Inserts entries for checked ids that do not have one yet, and writes the log.
    pub fn insert(&self, parent: &Parent<P>, ids: &[i64], request: &Request, conn: &mut Conn) -> Result<(), Refusal> {
        let by = request.caller.as_ref().map_or(BorrowedArgument::Null, |caller| caller.user.into());
        let [parent_id, now] = [parent.id.to_number(), request.now].map(BorrowedArgument::Int);
        let rows: Vec<_> = ids.iter().map(|id| [parent_id, BorrowedArgument::Int(*id), now, by]).collect();
        let columns = [self.parent_column, self.principals.column(), "created_at", "created_by"];
        conn.insert_rows(&self.shape.resource.table, &columns, &rows, "")?;
        let changes = log::Diff::from_iter([(self.log_names.field.to_owned(), json!([[], ids]))]);
        let names = &self.log_names;
        log::write(request, conn, names.add, names.parent, parent.id.to_number(), &parent.name, changes)
    }

    /// Returns the number of a parent's entries.
    pub fn count(&self, parent: P, conn: &mut Conn) -> Result<usize, StoreError> {
        Ok(self.load_ids(parent, conn)?.len())
    }

    /// Returns the condition for the entries of a parent.
    fn parent_condition(&self, parent: P) -> Sql {
        let mut condition = Sql::new("t.");
        condition.name(self.parent_column).push(" = ").bind(parent.to_number());
        condition
    }

    /// Returns the ids of the users or groups of a parent's entries.
    fn load_ids(&self, parent: P, conn: &mut Conn) -> Result<HashSet<i64>, StoreError> {
        let mut sql = Sql::new("SELECT t.");
        sql.name(self.principals.column()).push(" FROM ").name(&self.shape.resource.table).push(" t WHERE ");
        sql.append(&self.parent_condition(parent));
        Ok(conn.query_all(&sql, |row| row.int(0))?.into_iter().collect())
    }

    /// Returns the entries of these ids as a JSON array, in the order of the ids.
    fn entries_json(&self, parent: P, ids: &[i64], request: &Request, conn: &mut Conn) -> Result<Vec<u8>, Refusal> {
        let mut condition = self.parent_condition(parent);
        condition.push(" AND t.").name(self.principals.column()).push(" IN (");
        push_ids(&mut condition, ids).push(")");
        let records = rows::records(request, conn, &self.shape, self.principals.column(), &condition)?;
        let records: HashMap<i64, Vec<u8>> = records.into_iter().collect();
        let mut out = JsonWriter::with_capacity(512 * ids.len());
        out.raw("[");
        for record in ids.iter().filter_map(|id| records.get(id)) {
            out.comma().raw_bytes(record);
        }
        out.raw("]");
        Ok(out.into_bytes())
    }
}

/// Refuses the first user or group that the caller cannot add, with 400. There are three causes: the user or group does not
/// exist, cannot have the `role` ("1 Time Completion account 5 cannot be `assignee`."), or is not listed for the caller.
/// `unlisted` returns the message of the last one.
pub fn check_each<I: Id>(
    conn: &mut Conn,
    caller: &Caller,
    principals: Principals,
    ids: &[I],
    role: &str,
    unlisted: impl Fn(I) -> String,
) -> Result<(), Refusal> {
    let candidates = principals.load(conn, caller, ids)?;
    for id in ids {
        let Some(candidate) = candidates.get(id) else {
            return Err(Refusal::bad_request(message::invalid_id_message(id)));
        };
        if candidate.is_one_time {
            return Err(Refusal::bad_request(format!("1 Time Completion account {id} cannot be {role}.")));
        }
        if !candidate.is_listed {
            return Err(Refusal::bad_request(unlisted(*id)));
        }
    }
    Ok(())
}

/// A user or group as the receiver of an assignment.
pub struct Candidate {
    pub is_one_time: bool,
    /// Is true if the caller may list the user or group.
    pub is_listed: bool,
    /// The full name of a user, or the name of a group.
    pub name: Arc<str>,
}

impl Principals {
    fn column(self) -> &'static str {
        match self {
            Principals::Users => "user_id",
            Principals::Groups => "group_id",
        }
    }

    pub fn max_batch(self) -> usize {
        match self {
            Principals::Users => MAX_USERS_IN_BATCH,
            Principals::Groups => MAX_GROUPS_IN_BATCH,
        }
    }

    /// Loads the users or groups with these ids (`docs/reference/permission-sets.md`). Anonymized users are omitted, since they
    /// cannot get assignments. The rows are locked, so that they are not deleted or anonymized before the insert.
    pub fn load<I: Id>(self, conn: &mut Conn, caller: &Caller, ids: &[I]) -> Result<HashMap<I, Candidate>, StoreError> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let (from, listed_by) = match self {
            Principals::Users => (
                "t.account_type, t.full_name FROM users t WHERE t.is_deleted = 0 AND t.status <> 'anonymized'",
                visible_users(caller),
            ),
            Principals::Groups => ("'', t.name FROM user_groups t WHERE 1 = 1", visible_groups(caller)),
        };
        let mut sql = Sql::new("SELECT t.id, CASE WHEN ");
        sql.append(&listed_by).push(" THEN 1 ELSE 0 END, ").push(from).push(" AND t.id");
        sql.push_any(ids.iter().copied()).push(" ORDER BY t.id FOR SHARE");
        let candidates = conn.query_all(&sql, |row| {
            let is_one_time = row.text(2)? == "one_time_completion";
            Ok((row.id(0)?, Candidate { is_listed: row.flag(1)?, is_one_time, name: row.text(3)?.into() }))
        })?;
        Ok(candidates.into_iter().collect())
    }
}

fn push_ids<'a>(sql: &'a mut Sql, ids: &[i64]) -> &'a mut Sql {
    for (n, id) in ids.iter().enumerate() {
        sql.push(if n > 0 { ", " } else { "" }).bind(*id);
    }
    sql
}
