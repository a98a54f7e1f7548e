//! The users and groups that are assigned to a permission set of a class (`docs/reference/object-classes.md`).

use super::permission_sets::{SET, SETS};
use crate::rights::{
    CLASS_EDIT_PERM_SET, CLASS_VIEW, ClassRights, load_class_rights, lock_class, rights_on_class, select_rights,
};
use identity::assignees::{
    self, AssigneeCollection, Parent, Principals, SetAssigneePaths, SetAssignees, group_entries, user_entries,
};
use kit::ids::{ClassId, ClassSetId, GroupId, UserId};
use kit::limits::{Limit, LimitSummary};
use kit::permission_set::StoredSet;
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::Route;
use resource::Resource;
use std::sync::LazyLock;
use store::{Conn, Sql};

/// The limited items, in the words of the limit's message.
pub const ASSIGNEES: &str = "Permission Set Assignees";
/// The maximum number of users assigned to a permission set of a class.
pub static CLASS_SET_USERS: Limit = Limit {
    name: "object_class_permission_set_assignees",
    default: 100,
    many: ASSIGNEES,
    summary: LimitSummary::Additional("object_class_permission_set_assignees_users"),
    ..Limit::EMPTY
};
/// The maximum number of groups assigned to a permission set of a class.
pub static CLASS_SET_GROUPS: Limit = Limit {
    name: "object_class_permission_set_users_groups_assignees",
    default: 10,
    many: ASSIGNEES,
    summary: LimitSummary::Additional("object_class_permission_set_assignees_user_groups"),
    ..Limit::EMPTY
};

static USER: LazyLock<Resource> =
    LazyLock::new(|| user_entries("ObjectClassSetUser", "object_class_set_users", &CLASS_SET_USERS));
static USERS: AssigneeCollection<ClassSetId> =
    AssigneeCollection::of_set(Principals::Users, &USER, &CLASS_SET_USERS, &SET, |user, _| {
        unlisted_user(UserId::new(user))
    });

static GROUP: LazyLock<Resource> =
    LazyLock::new(|| group_entries("ObjectClassSetGroup", "object_class_set_groups", &CLASS_SET_GROUPS));
static GROUPS: AssigneeCollection<ClassSetId> =
    AssigneeCollection::of_set(Principals::Groups, &GROUP, &CLASS_SET_GROUPS, &SET, |group, _| {
        unlisted_group(GroupId::new(group))
    });

/// The refusal of a user whom the caller may not list.
pub fn unlisted_user(user: UserId) -> String {
    format!("You do not have permission to assign user {user} to the permission set.")
}

/// The refusal of a group that the caller may not list.
pub fn unlisted_group(group: GroupId) -> String {
    format!("You do not have permission to assign user group {group} to the permission set.")
}

pub fn routes() -> Vec<Route> {
    assignees::routes_of_sets::<ClassSetAssignees>(&SetAssigneePaths {
        users: [
            "/api/object-classes/{class_id}/permission-sets/{set_id}/assignees/users/",
            "/api/object-classes/{class_id}/permission-sets/{set_id}/assignees/users/{user_id}/",
        ],
        groups: [
            "/api/object-classes/{class_id}/permission-sets/{set_id}/assignees/user-groups/",
            "/api/object-classes/{class_id}/permission-sets/{set_id}/assignees/user-groups/{user_group_id}/",
        ],
        reads: "object_class.view",
        changes: "object_class.edit_perm_set",
    })
}

struct ClassSetAssignees;

impl SetAssignees for ClassSetAssignees {
    type Set = ClassSetId;

    fn users() -> &'static AssigneeCollection<ClassSetId> {
        &USERS
    }

    fn groups() -> &'static AssigneeCollection<ClassSetId> {
        &GROUPS
    }

    /// Returns the id of the path's set. The caller needs `view` on its class.
    fn viewable_set(request: &Request, conn: &mut Conn) -> Result<ClassSetId, Refusal> {
        let caller = request.caller()?;
        let mut sql = Sql::new("SELECT ");
        select_rights(&mut sql, caller);
        sql.push(", (SELECT o.id FROM object_class_permission_sets o WHERE o.class_id = t.id AND o.id = ");
        sql.bind(request.second_id::<ClassSetId>())
            .push(") FROM object_classes t WHERE t.id = ")
            .bind(request.id::<ClassId>());
        let row = conn.query_optional(&sql, |row| Ok((ClassRights::read(caller, row, 0)?, row.opt_id(2)?)))?;
        let (rights, set) = row.ok_or_else(Refusal::not_found)?;
        rights.require(CLASS_VIEW)?;
        set.ok_or_else(Refusal::not_found)
    }

    /// Answers 404 unless the caller may view the path's class and it has the path's set.
    fn check_set(request: &Request, conn: &mut Conn) -> Result<(), Refusal> {
        rights_on_class(request, conn)?;
        let sql = Sql::new("SELECT id FROM object_class_permission_sets WHERE id = $1 AND class_id = $2");
        let sql = sql.arg(request.second_id::<ClassSetId>()).arg(request.id::<ClassId>());
        let set = conn.query_optional(&sql, |_| Ok(()))?;
        set.ok_or_else(Refusal::not_found)
    }

    /// Loads the path's set and locks its row. The caller must have the right to change the sets of its class.
    fn set_for_change(request: &Request, conn: &mut Conn) -> Result<StoredSet<ClassSetId>, Refusal> {
        lock_class(conn, request.id())?;
        load_class_rights(conn, request.caller()?, request.id())?.require(CLASS_EDIT_PERM_SET)?;
        SETS.load_for_change(conn, request.id(), request.second_id())
    }

    /// Loads the path's set and locks its row, for new assignees. The caller must have the actions that the set grants. The system's
    /// set has no assignees: it applies to everyone.
    fn assignable_set(request: &Request, conn: &mut Conn) -> Result<Parent<ClassSetId>, Refusal> {
        let set = Self::set_for_change(request, conn)?;
        load_class_rights(conn, request.caller()?, request.id())?.require(set.grants)?;
        if set.is_system() {
            return Err(Refusal::bad_request("Assignees can not be set to this permission set type."));
        }
        Ok(set.into())
    }
}

/// Removes a deleted group from the assignees of classes.
pub const ON_GROUP_LEAVING: Reaction = Reaction {
    resource: "user_groups",
    when: ReactionTime::Leaving,
    run: |_, conn, id| {
        conn.exec(&Sql::new("DELETE FROM object_class_set_groups WHERE group_id = $1").arg(id))?;
        Ok(())
    },
};
