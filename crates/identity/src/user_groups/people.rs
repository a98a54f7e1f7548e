//! The members and owners of a group (`docs/reference/user-groups.md`).

use super::group::GROUP;
use super::rights::{EDIT, EDIT_PERM_SET, VIEW, check_exists, lock, require_right};
use crate::assignees::{self, AssigneeCollection, AssigneeTexts, Handlers, LogNames, Parent, Principals, user_entries};
use kit::ids::{GroupId, UserId};
use kit::limits::{self, Limit, LimitSummary};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::Route;
use resource::Resource;
use std::sync::LazyLock;
use store::Conn;

/// The maximum number of members of a group.
pub static GROUP_MEMBERS: Limit = Limit {
    name: "user_group_members",
    default: 1000,
    many: "User Group Members",
    summary: LimitSummary::Additional("user_group_members"),
    ..Limit::EMPTY
};
/// The maximum number of owners of a group.
pub static GROUP_OWNERS: Limit = Limit {
    name: "user_group_owners",
    default: 10,
    many: "User Group Owners",
    summary: LimitSummary::Additional("user_group_owners"),
    ..Limit::EMPTY
};

static MEMBER: LazyLock<Resource> =
    LazyLock::new(|| user_entries("UserGroupMember", "user_group_members", &GROUP_MEMBERS));
static MEMBERS: AssigneeCollection<GroupId> = AssigneeCollection {
    resource: &MEMBER,
    shape: assignees::shape(&MEMBER),
    parent_column: "group_id",
    principals: Principals::Users,
    limit: &GROUP_MEMBERS,
    messages: AssigneeTexts { role: "member", unlisted },
    log_names: LogNames { parent: &GROUP, add: "add_members", remove: "remove_members", field: "members" },
};

static OWNER: LazyLock<Resource> = LazyLock::new(|| user_entries("UserGroupOwner", "user_group_owners", &GROUP_OWNERS));
static OWNERS: AssigneeCollection<GroupId> = AssigneeCollection {
    resource: &OWNER,
    shape: assignees::shape(&OWNER),
    parent_column: "group_id",
    principals: Principals::Users,
    limit: &GROUP_OWNERS,
    messages: AssigneeTexts { role: "owner", unlisted },
    log_names: LogNames { parent: &GROUP, add: "add_owners", remove: "remove_owners", field: "owners" },
};

pub fn routes() -> Vec<Route> {
    let members = Handlers {
        list: |request, conn| MEMBERS.list(viewable_group(request, conn)?, request, conn),
        add: |request, conn| MEMBERS.add(&group_for_change(request, conn, EDIT)?, request, conn),
        remove: |request, conn| MEMBERS.remove(&group_for_change(request, conn, EDIT)?, request, conn),
        document: |request, conn| check_exists(conn, request.id()).and_then(|()| MEMBERS.document(conn)),
    };
    let owners = Handlers {
        list: |request, conn| OWNERS.list(viewable_group(request, conn)?, request, conn),
        add: |request, conn| OWNERS.add(&group_for_change(request, conn, EDIT_PERM_SET)?, request, conn),
        remove: |request, conn| {
            let group = group_for_change(request, conn, EDIT_PERM_SET)?;
            let answer = OWNERS.remove(&group, request, conn)?;
            keep_an_owner(conn, group.id)?;
            Ok(answer)
        },
        document: |request, conn| check_exists(conn, request.id()).and_then(|()| OWNERS.document(conn)),
    };
    let mut routes = assignees::routes(
        "/api/user-groups/{group_id}/members/users/",
        "/api/user-groups/{group_id}/members/users/{user_id}/",
        &MEMBER,
        members,
        "user_groups.view",
        "user_groups.edit",
    );
    routes.extend(assignees::routes(
        "/api/user-groups/{group_id}/owners/users/",
        "/api/user-groups/{group_id}/owners/users/{user_id}/",
        &OWNER,
        owners,
        "user_groups.view",
        "user_groups.edit_perm_set",
    ));
    routes
}

/// Returns the id of the path's group, which the caller may view.
fn viewable_group(request: &Request, conn: &mut Conn) -> Result<GroupId, Refusal> {
    require_right(conn, request.caller()?, request.id(), VIEW)?;
    Ok(request.id())
}

/// Returns the path's group with its row locked, if the caller has the right on it.
fn group_for_change(request: &Request, conn: &mut Conn, right: i64) -> Result<Parent<GroupId>, Refusal> {
    let id = request.id();
    let name = lock(conn, id)?;
    require_right(conn, request.caller()?, id, right)?;
    Ok(Parent { id, name })
}

/// Makes the creator of a group its first owner. The account type does not matter.
pub fn make_first_owner(
    request: &Request,
    conn: &mut Conn,
    id: GroupId,
    name: String,
    user: UserId,
) -> Result<(), Refusal> {
    OWNERS.insert(&Parent { id, name }, &[user.get()], request, conn)
}

/// Adds and removes members of a group whose row is locked. The calling function has checked the ids and the limit.
pub fn change_members(
    request: &Request,
    conn: &mut Conn,
    (id, name): (GroupId, &str),
    added: &[i64],
    removed: &[i64],
) -> Result<(), Refusal> {
    let parent = Parent { id, name: name.to_owned() };
    if !removed.is_empty() {
        MEMBERS.delete(&parent, removed, request, conn)?;
    }
    if !added.is_empty() {
        MEMBERS.insert(&parent, added, request, conn)?;
    }
    Ok(())
}

/// Refuses a change of the members of a group whose row is locked if it exceeds the limit.
pub fn check_room(conn: &mut Conn, id: GroupId, added: usize, removed: usize) -> Result<(), Refusal> {
    if added == 0 {
        return Ok(());
    }
    let count = MEMBERS.count(id, conn)?.saturating_sub(removed);
    limits::check(conn, &GROUP_MEMBERS, count as i64, added as i64)
}

/// Refuses the removal of the last owner. Call it after the removal; a refusal rolls it back. The group's row is locked, so that
/// concurrent removals do not remove all owners.
fn keep_an_owner(conn: &mut Conn, group: GroupId) -> Result<(), Refusal> {
    match OWNERS.count(group, conn)? {
        0 => Err(Refusal::bad_request("The last owner must remain.")),
        _ => Ok(()),
    }
}

fn unlisted(user: i64, group: GroupId) -> String {
    format!("You do not have permission to assign user {user} to User Group {group}.")
}
