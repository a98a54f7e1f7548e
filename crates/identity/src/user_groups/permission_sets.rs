//! The permission sets of a group (`docs/reference/permission-sets.md`).

use super::rights::{DELETE, EDIT, EDIT_PERM_SET, VIEW, check_exists, lock, require_right};
use kit::answer::Outcome;
use kit::ids::{GroupId, GroupSetId};
use kit::limits::{Limit, LimitSummary};
use kit::permission_set::{self, PERMISSIONS, PermissionKey, PermissionSets, SetAction, StoredSet, Vocabulary};
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::Route;
use kit::rows::{self, Declaration, RowCells, RowShape, Scope};
use resource::json::{Cells, JsonWriter, RowForm};
use resource::{Changes, Resource};
use std::marker::PhantomData;
use std::sync::LazyLock;
use store::{Conn, Sql, StoreError};

/// The maximum number of permission sets of a group, including those of the system.
pub static GROUP_SETS: Limit = Limit {
    name: "user_group_permission_set",
    default: 10,
    many: "User Group Permission Sets",
    summary: LimitSummary::Additional("user_group_permission_sets"),
    ..Limit::EMPTY
};

/// The types of sets: value, text, and whether only the system creates sets of the type. Sets never have the type `owners`, but
/// schema documents list it.
const TYPES: [(&str, &str, bool); 4] = [
    ("everyone", "Everyone", true),
    ("members", "Members", true),
    ("owners", "Owners", true),
    ("custom", "Custom", false),
];

/// All actions that a set can contain.
const ALL: i64 = VIEW | EDIT | DELETE;

static VOCABULARY: Vocabulary = Vocabulary(&[PermissionKey {
    name: "user_groups",
    actions: &[
        SetAction { name: "view", text: "View", bit: VIEW, needs: 0 },
        SetAction { name: "edit", text: "Edit", bit: EDIT, needs: VIEW },
        SetAction { name: "delete", text: "Delete", bit: DELETE, needs: VIEW },
    ],
}]);

/// A permission set of a group.
pub static SET: LazyLock<Resource> = LazyLock::new(|| {
    let fields = permission_set::fields(TYPES, "Readers", "user_group_permission_sets_name");
    Resource::new("user_group_permission_sets", "UserGroupPermissionSet", "user_group_permission_sets", fields)
        .unselectable()
        .limit_items(GROUP_SETS.default)
});

/// The permission sets of groups.
pub static SETS: PermissionSets<GroupId, GroupSetId> = PermissionSets {
    resource: &SET,
    vocabulary: &VOCABULARY,
    limit: &GROUP_SETS,
    parent_column: "group_id",
    ids: PhantomData,
};

static SHAPE: RowShape = RowShape::new(Declaration::Static(&SET), "t.permissions", write_grants);

pub fn routes() -> Vec<Route> {
    let collection = "/api/user-groups/{group_id}/permission-sets/";
    let single = "/api/user-groups/{group_id}/permission-sets/{set_id}/";
    vec![
        Route::list(collection, &SET, list).instance("user_groups.view"),
        Route::create(collection, &SET, create).instance("user_groups.edit_perm_set"),
        Route::options_below(collection, document),
        Route::edit(single, &SET, edit).instance("user_groups.edit_perm_set"),
        Route::delete(single, delete).instance("user_groups.edit_perm_set"),
    ]
}

fn document(request: &Request, conn: &mut Conn) -> Outcome {
    check_exists(conn, request.id())?;
    SETS.document(conn)
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let group = request.id();
    require_right(conn, request.caller()?, group, VIEW)?;
    rows::list(request, conn, &SHAPE, Scope::matching(Sql::new("t.group_id = $1").arg(group)).cacheable())
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let group = request.id();
    lock(conn, group)?;
    require_right(conn, request.caller()?, group, EDIT_PERM_SET)?;
    let (changes, grants) = accept(request, conn, None)?;
    let id = SETS.insert(request, conn, group, &changes, grants)?;
    rows::created_answer(request, conn, &SHAPE, id.get())
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let set = change_target(request, conn)?;
    let (changes, grants) = accept(request, conn, Some(&set))?;
    let before =
        rows::load(conn, &SHAPE, set.id.get())?.ok_or_else(|| StoreError::internal("a locked set is missing"))?;
    SETS.update(request, conn, set.id, before, &changes, (set.grants, grants))?;
    rows::edited_answer(request, conn, &SHAPE, set.id.get())
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let set = change_target(request, conn)?;
    SETS.delete(request, conn, &set)
}

/// Deletes the assignments to a deleted set.
pub const ON_LEAVING: Reaction = Reaction {
    resource: "user_group_permission_sets",
    when: ReactionTime::Leaving,
    run: |_, conn, id| {
        for text in [
            "DELETE FROM user_group_set_users WHERE set_id = $1",
            "DELETE FROM user_group_set_groups WHERE set_id = $1",
        ] {
            conn.exec(&Sql::new(text).arg(id))?;
        }
        Ok(())
    },
};

/// Returns the path's set with its row locked, if the caller has the right and `If-Match` matches.
fn change_target(request: &Request, conn: &mut Conn) -> Result<StoredSet<GroupSetId>, Refusal> {
    let set = SETS.load_for_change(conn, request.id(), request.second_id())?;
    require_right(conn, request.caller()?, request.id(), EDIT_PERM_SET)?;
    rows::check_if_match(request, conn, &SHAPE, set.id.get())?;
    Ok(set)
}

/// Checks a body. Returns its changes, and the actions of the set after the change, as bits.
fn accept(request: &Request, conn: &mut Conn, set: Option<&StoredSet<GroupSetId>>) -> Result<(Changes, i64), Refusal> {
    let mut accepted = SETS.check_body(conn, &request.object()?, request.id(), set)?;
    let (current, allowed) = set.map_or((0, ALL), |set| (set.grants, allowed(set)));
    let grants = VOCABULARY.accept(&mut accepted, current, allowed);
    accepted.errors.refuse()?;
    Ok((accepted.changes, grants))
}

/// Returns the actions that the type of a set accepts, as bits.
fn allowed(set: &StoredSet<GroupSetId>) -> i64 {
    if set.kind == "everyone" { VIEW } else { ALL }
}

/// Inserts the two sets that the system creates for each group.
pub fn insert_system_sets(request: &Request, conn: &mut Conn, group: GroupId) -> Result<(), Refusal> {
    SETS.insert_system_set(request, conn, group, "everyone", 0)?;
    SETS.insert_system_set(request, conn, group, "members", VIEW)
}

fn write_grants(
    out: &mut JsonWriter,
    _: RowForm,
    row: &RowCells<'_>,
    at: usize,
    _: &Request,
) -> Result<(), StoreError> {
    VOCABULARY.write(out.name(PERMISSIONS), row.int(at)?.unwrap_or(0));
    Ok(())
}
