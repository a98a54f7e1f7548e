//! User groups: `/api/user-groups/` (`docs/reference/user-groups.md`), and below them the members and owners, the permission sets,
//! and the assignees of a set.

pub(crate) mod assignees;
pub mod group;
pub(crate) mod people;
pub(crate) mod permission_sets;
pub mod rights;

pub use permission_sets::ON_LEAVING as ON_SET_LEAVING;

use group::{GROUP, MEMBER, NAME, USER_GROUPS};
use http::StatusCode;
use kit::answer::{Answer, Outcome};
use kit::autocomplete;
use kit::caller::Caller;
use kit::ids::GroupId;
use kit::limits;
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::Route;
use kit::rows::sql as select_sql;
use kit::rows::{self, Declaration, RowCells, RowShape, Scope, write_permissions};
use resource::Changes;
use resource::json::{Cells, JsonWriter, RowForm};
use rights::{
    DELETE, EDIT, RIGHT_NAMES, RIGHTS, check_exists, principal_tokens, require_right, view_condition, visible_groups,
    with_global,
};
use store::{Conn, Sql, StoreError};

static SHAPE: RowShape = RowShape::new(Declaration::Static(&GROUP), RIGHTS, write_meta);

pub fn routes() -> Vec<Route> {
    let mut routes = vec![
        Route::list("/api/user-groups/", &GROUP, list)
            .instance("user_groups.list, or user_groups.view of a group")
            .summary("The groups that the caller may list"),
        Route::create("/api/user-groups/", &GROUP, create).requires("user_groups", "create"),
        Route::options_below("/api/user-groups/", document),
        autocomplete::route("/api/user-groups/autocomplete/", complete),
        Route::view("/api/user-groups/{group_id}/", &GROUP, view).instance("user_groups.view"),
        Route::edit("/api/user-groups/{group_id}/", &GROUP, edit).instance("user_groups.edit"),
        Route::delete("/api/user-groups/{group_id}/", delete).instance("user_groups.delete"),
    ];
    routes.extend(people::routes());
    routes.extend(permission_sets::routes());
    routes.extend(assignees::routes());
    routes
}

fn document(_: &Request, conn: &mut Conn) -> Outcome {
    Ok(Answer::value(&rows::document(conn, &GROUP)?))
}

fn complete(request: &Request, conn: &mut Conn) -> Outcome {
    let scope = scope(request.caller()?, conn)?;
    let source = autocomplete::LabelSource { table: "user_groups", text: "name", fold: "name_fold" };
    autocomplete::answer(request, conn, &source, scope)
}

/// Lists groups. Refuses with 403 a caller who may list none.
fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let mut scope = scope(request.caller()?, conn)?;
    if scope.total.is_none() {
        let mut sql = Sql::new("SELECT count(*) FROM user_groups t WHERE ");
        let total = conn.query_one(sql.append(&scope.condition), |row| row.int(0))?;
        if total == 0 {
            return Err(Refusal::forbidden());
        }
        scope.total = Some(total);
    }
    // The permission to list a group does not include its members. Only callers who may view it may filter by member.
    if filters_by_member(request)? {
        scope.condition.push(" AND ").append(&view_condition(request.caller()?, "t.id"));
    }
    rows::list(request, conn, &SHAPE, scope)
}

fn filters_by_member(request: &Request) -> Result<bool, Refusal> {
    let select = resource::select(&GROUP, &request.query)?;
    Ok(select.filters.iter().any(|filter| filter.field().name == MEMBER.name()))
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    let (caller, id) = (request.caller()?, request.id());
    let mut condition = Sql::new("t.id = $1").arg(id);
    if !caller.has_permission("user_groups", "view") {
        select_sql::tokens(condition.push(" AND ("), RIGHTS, &principal_tokens(caller));
        condition.push(" & 1) = 1");
    }
    if let Some(shown) = rows::view(request, conn, &SHAPE, &condition)? {
        return Ok(Answer::instance(StatusCode::OK, shown));
    }
    check_exists(conn, id)?;
    Err(Refusal::forbidden())
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let caller = request.caller()?;
    let accepted = rows::check_body(conn, &GROUP, &request.object()?, None)?;
    accepted.errors.refuse()?;
    let id = rows::insert(request, conn, &GROUP, &accepted.changes, &[])?;
    let name = accepted.changes.get(&NAME).unwrap_or_default();
    people::make_first_owner(request, conn, GroupId::new(id), name, caller.user)?;
    permission_sets::insert_system_sets(request, conn, GroupId::new(id))?;
    rows::created_answer(request, conn, &SHAPE, id)
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    let before = load_for_change(request, conn, EDIT)?;
    let accepted = rows::check_body(conn, &GROUP, &request.object()?, Some(id))?;
    accepted.errors.refuse()?;
    rows::update(request, conn, &GROUP, id, &before, &accepted.changes, &[])?;
    rows::edited_answer(request, conn, &SHAPE, id)
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    let before = load_for_change(request, conn, DELETE)?;
    rows::delete(request, conn, &GROUP, id, &before.get(&NAME).unwrap_or_default())?;
    kit::rights::object_rights_ended(request);
    Ok(Answer::empty())
}

/// Returns the stored group with its row locked, if the caller has the right and `If-Match` matches.
fn load_for_change(request: &Request, conn: &mut Conn, right: i64) -> Result<Changes, Refusal> {
    let id = request.id();
    let before = rows::load(conn, &SHAPE, id)?.ok_or_else(Refusal::not_found)?;
    require_right(conn, request.caller()?, GroupId::new(id), right)?;
    rows::check_if_match(request, conn, &SHAPE, id)?;
    Ok(before)
}

/// Deletes the dependents of a deleted group: its members and owners, its sets with their assignees, and its own assignments.
pub const ON_LEAVING: Reaction =
    Reaction { resource: "user_groups", when: ReactionTime::Leaving, run: delete_belongings };

fn delete_belongings(_: &Request, conn: &mut Conn, id: i64) -> Result<(), Refusal> {
    // The sets are locked first, so that assignees are not added to a set during its deletion.
    let sets = Sql::new("SELECT id FROM user_group_permission_sets WHERE group_id = $1 ORDER BY id FOR UPDATE").arg(id);
    conn.for_each_row(&sets, |_| Ok(()))?;
    for text in [
        "DELETE FROM user_group_set_users WHERE set_id IN (SELECT s.id FROM user_group_permission_sets s WHERE s.group_id = $1)",
        "DELETE FROM user_group_set_groups WHERE set_id IN (SELECT s.id FROM user_group_permission_sets s WHERE s.group_id = $1)",
        "DELETE FROM user_group_set_groups WHERE group_id = $1",
        "DELETE FROM user_group_permission_sets WHERE group_id = $1",
        "DELETE FROM user_group_members WHERE group_id = $1",
        "DELETE FROM user_group_owners WHERE group_id = $1",
    ] {
        conn.exec(&Sql::new(text).arg(id))?;
    }
    Ok(())
}

/// Removes a deleted or anonymized user from members, owners and assignees. The last owner is removed, too. Super admins maintain a
/// group without owners.
pub const ON_USER_LEAVING: Reaction = Reaction {
    resource: "users",
    when: ReactionTime::Leaving,
    run: |_, conn, id| {
        for text in [
            "DELETE FROM user_group_members WHERE user_id = $1",
            "DELETE FROM user_group_owners WHERE user_id = $1",
            "DELETE FROM user_group_set_users WHERE user_id = $1",
        ] {
            conn.exec(&Sql::new(text).arg(id))?;
        }
        Ok(())
    },
};

/// Writes `_meta`.
fn write_meta(
    out: &mut JsonWriter,
    _: RowForm,
    row: &RowCells<'_>,
    at: usize,
    request: &Request,
) -> Result<(), StoreError> {
    let by_sets = row.int(at)?.unwrap_or(0);
    let actions = request.caller.as_deref().map_or(0, |caller| with_global(caller, by_sets));
    out.name("_meta").raw("{");
    write_permissions(out, &RIGHT_NAMES.map(|(name, right)| (name, actions & right != 0)));
    out.raw("}");
    Ok(())
}

/// Returns the groups that the caller may list. If the caller may list all groups, the counter is the total.
fn scope(caller: &Caller, conn: &mut Conn) -> Result<Scope, StoreError> {
    let mut scope = Scope::matching(visible_groups(caller)).cacheable();
    if caller.has_permission("user_groups", "list") {
        scope.total = Some(limits::count_used(conn, &USER_GROUPS)?);
    }
    Ok(scope)
}
