//! The users and groups that are assigned to a permission set of a group (`docs/reference/permission-sets.md`).

use super::permission_sets::{SET, SETS};
use super::rights::{EDIT_PERM_SET, RIGHTS, VIEW, principal_tokens, require_right, with_global};
use crate::assignees::{
    self, AssigneeCollection, Parent, Principals, SetAssigneePaths, SetAssignees, group_entries, user_entries,
};
use kit::ids::{GroupId, GroupSetId};
use kit::limits::{Limit, LimitSummary};
use kit::permission_set::StoredSet;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::Route;
use kit::rows::sql as select_sql;
use resource::Resource;
use std::sync::LazyLock;
use store::{Conn, Sql};

/// The name of the counted objects in the messages of both limits.
const ASSIGNEES: &str = "permission set assignees";
/// The maximum number of users that are assigned to a permission set of a group.
pub static GROUP_SET_USERS: Limit = Limit {
    name: "users_group_permission_set_assignees_users",
    default: 100,
    many: ASSIGNEES,
    summary: LimitSummary::Additional("users_group_permission_set_assignees_users"),
    ..Limit::EMPTY
};
/// The maximum number of groups that are assigned to a permission set of a group.
pub static GROUP_SET_GROUPS: Limit = Limit {
    name: "users_group_permission_set_assignees_user_groups",
    default: 10,
    many: ASSIGNEES,
    summary: LimitSummary::Additional("users_group_permission_set_assignees_user_groups"),
    ..Limit::EMPTY
};

static USER: LazyLock<Resource> =
    LazyLock::new(|| user_entries("UserGroupSetUser", "user_group_set_users", &GROUP_SET_USERS));
static USERS: AssigneeCollection<GroupSetId> =
    AssigneeCollection::of_set(Principals::Users, &USER, &GROUP_SET_USERS, &SET, |user, set| {
        format!("You do not have permission to assign user {user} to User Group Permission Set {set}.")
    });

static GROUP: LazyLock<Resource> =
    LazyLock::new(|| group_entries("UserGroupSetGroup", "user_group_set_groups", &GROUP_SET_GROUPS));
static GROUPS: AssigneeCollection<GroupSetId> =
    AssigneeCollection::of_set(Principals::Groups, &GROUP, &GROUP_SET_GROUPS, &SET, |group, set| {
        format!("You do not have permission to assign user group {group} to User Group Permission Set {set}.")
    });

pub fn routes() -> Vec<Route> {
    assignees::routes_of_sets::<GroupSetAssignees>(&SetAssigneePaths {
        users: [
            "/api/user-groups/{group_id}/permission-sets/{set_id}/assignees/users/",
            "/api/user-groups/{group_id}/permission-sets/{set_id}/assignees/users/{user_id}/",
        ],
        groups: [
            "/api/user-groups/{group_id}/permission-sets/{set_id}/assignees/user-groups/",
            "/api/user-groups/{group_id}/permission-sets/{set_id}/assignees/user-groups/{user_group_id}/",
        ],
        reads: "user_groups.view",
        changes: "user_groups.edit_perm_set",
    })
}

struct GroupSetAssignees;

impl SetAssignees for GroupSetAssignees {
    type Set = GroupSetId;

    fn users() -> &'static AssigneeCollection<GroupSetId> {
        &USERS
    }

    fn groups() -> &'static AssigneeCollection<GroupSetId> {
        &GROUPS
    }

    /// Returns the id of the path's set, in a group that the caller may view. An unknown group is 403 only here. The check is one
    /// statement, since a list may run at most three.
    fn viewable_set(request: &Request, conn: &mut Conn) -> Result<GroupSetId, Refusal> {
        let (caller, set) = (request.caller()?, request.second_id());
        let mut sql = Sql::new("SELECT ");
        select_sql::tokens(&mut sql, RIGHTS, &principal_tokens(caller));
        sql.push(", (SELECT count(*) FROM user_group_permission_sets s WHERE s.group_id = t.id AND s.id = ").bind(set);
        sql.push(") FROM user_groups t WHERE t.id = ").bind(request.id::<GroupId>());
        match conn.query_optional(&sql, |row| Ok((row.int(0)?, row.int(1)? == 1)))? {
            None => Err(Refusal::forbidden()),
            Some((_, false)) => Err(Refusal::not_found()),
            Some((actions, true)) if with_global(caller, actions) & VIEW == 0 => Err(Refusal::forbidden()),
            Some(_) => Ok(set),
        }
    }

    /// Returns the path's set with its row locked, in a group whose sets the caller may change. The group is locked first, in the same
    /// order as for its deletion, since it may be one of the assigned groups.
    fn set_for_change(request: &Request, conn: &mut Conn) -> Result<StoredSet<GroupSetId>, Refusal> {
        let group = Sql::new("SELECT 1 FROM user_groups WHERE id = $1 FOR SHARE").arg(request.id::<GroupId>());
        conn.query_optional(&group, |_| Ok(()))?.ok_or_else(Refusal::not_found)?;
        let set = SETS.load_for_change(conn, request.id(), request.second_id())?;
        require_right(conn, request.caller()?, request.id(), EDIT_PERM_SET)?;
        Ok(set)
    }

    /// Returns the path's set with its row locked, for the addition of assignees. System sets do not have assignees: they apply to
    /// everyone, or to all members.
    fn assignable_set(request: &Request, conn: &mut Conn) -> Result<Parent<GroupSetId>, Refusal> {
        let set = Self::set_for_change(request, conn)?;
        if set.is_system() {
            return Err(Refusal::bad_request("Assignees can not be set to this permission set type."));
        }
        Ok(set.into())
    }

    /// Refuses with 404 unless the path's set belongs to the path's group.
    fn check_set(request: &Request, conn: &mut Conn) -> Result<(), Refusal> {
        let sql = Sql::new("SELECT 1 FROM user_group_permission_sets WHERE id = $1 AND group_id = $2");
        let sql = sql.arg(request.second_id::<GroupSetId>()).arg(request.id::<GroupId>());
        let set = conn.query_optional(&sql, |_| Ok(()))?;
        set.ok_or_else(Refusal::not_found)
    }
}
