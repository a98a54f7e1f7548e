//! User groups: `/api/user-groups/` (document 4, section 4, "user groups", "rights on a group"), and below them the
//! members and owners, the permission sets, and who is assigned to a set (document 1).

mod assignees;
mod people;
mod permission_sets;

use crate::autocomplete;
use crate::caller::Caller;
use crate::http::{Answer, Outcome, Refusal, Request, etag};
use crate::limits;
use crate::routes::Route;
use crate::rows::{self, Cell, Declaration, Scope, Shape, write_permissions};
use crate::select_sql;
use http::StatusCode;
use resource::json::{Cells, Form, Writer};
use resource::{Changes, Field, Key, Resource, options};
use std::sync::LazyLock;
use store::{Conn, Error, Sql};

static NAME: Key<String> = Key::new("name");
static DESCRIPTION: Key<String> = Key::new("description");

/// A user group.
pub static GROUP: LazyLock<Resource> = LazyLock::new(|| {
    let fields = [
        Field::id(),
        NAME.text(100).required().unique("user_groups_name").folded().filter().sort(),
        DESCRIPTION.text(500).default(""),
    ];
    let fields = fields.into_iter().chain(Field::audit().map(Field::sort));
    Resource::new("user_groups", "UserGroup", "user_groups", fields).limit_items(limits::USER_GROUPS.default)
});

static SHAPE: Shape = Shape::new(Declaration::Static(&GROUP), RIGHTS, write_meta);

/// The routes of groups and of everything below them.
pub fn routes() -> Vec<Route> {
    let mut routes = vec![
        Route::list("/api/user-groups/", &GROUP, list)
            .instance("user_groups.list, or user_groups.view of a group")
            .summary("The groups that the caller may list"),
        Route::create("/api/user-groups/", &GROUP, create).needs("user_groups", "create"),
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
    let mut document = options::document(&GROUP);
    document["restrictions"]["limit_items"] = limits::value(conn, limits::USER_GROUPS)?.into();
    Ok(Answer::value(&document))
}

fn complete(request: &Request, conn: &mut Conn) -> Outcome {
    let scope = scope(request.caller()?, conn)?;
    let source = autocomplete::Source { table: "user_groups", text: "name", fold: "name_fold" };
    autocomplete::answer(request, conn, &source, scope)
}

/// Who may list no group at all is refused.
fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let mut scope = scope(request.caller()?, conn)?;
    if scope.total.is_none() {
        let mut sql = Sql::new("SELECT count(*) FROM user_groups t WHERE ");
        let total = conn.one(sql.append(&scope.condition), |row| row.int(0))?;
        if total == 0 {
            return Err(Refusal::forbidden());
        }
        scope.total = Some(total);
    }
    rows::list(request, conn, &SHAPE, scope)
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    let (caller, id) = (request.caller()?, request.id());
    let mut condition = Sql::new("t.id = $1").arg(id);
    if !caller.may("user_groups", "view") {
        select_sql::tokens(condition.push(" AND ("), RIGHTS, &[("{caller}", caller.user)]);
        condition.push(" & 1) = 1");
    }
    if let Some(shown) = rows::view(request, conn, &SHAPE, &condition)? {
        return Ok(Answer::instance(StatusCode::OK, shown));
    }
    exists(conn, id)?;
    Err(Refusal::forbidden())
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let caller = request.caller()?;
    let accepted = rows::accepted(conn, &GROUP, &request.object()?, None)?;
    accepted.errors.refuse()?;
    limits::take(conn, limits::USER_GROUPS, |limit| {
        Refusal::limit(format!("Limit of {limit} User Groups has been exceeded."))
    })?;
    let id = rows::insert(request, conn, &GROUP, &accepted.changes, &[])?;
    let name = accepted.changes.get(&NAME).unwrap_or_default();
    people::make_first_owner(request, conn, id, name, caller.user)?;
    permission_sets::make_special(request, conn, id)?;
    Ok(Answer::instance(StatusCode::CREATED, rows::view_id(request, conn, &SHAPE, id)?))
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    let before = change(request, conn, EDIT)?;
    let accepted = rows::accepted(conn, &GROUP, &request.object()?, Some(id))?;
    accepted.errors.refuse()?;
    rows::update(request, conn, &GROUP, id, &before, &accepted.changes, &[])?;
    Ok(Answer::instance(StatusCode::OK, rows::view_id(request, conn, &SHAPE, id)?))
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    let before = change(request, conn, DELETE)?;
    delete_below(conn, id)?;
    rows::delete(request, conn, &GROUP, id, &before.get(&NAME).unwrap_or_default())?;
    limits::give_back(conn, limits::USER_GROUPS)?;
    Ok(Answer::empty())
}

/// The stored group, locked, once the caller is known to hold the right and to know the current state.
fn change(request: &Request, conn: &mut Conn, right: i64) -> Result<Changes, Refusal> {
    let id = request.id();
    let before = rows::load(conn, &SHAPE, id)?.ok_or_else(Refusal::not_found)?;
    needs(conn, request.caller()?, id, right)?;
    request.check_if_match(|| Ok(etag(&rows::view_id(request, conn, &SHAPE, id)?)))?;
    Ok(before)
}

/// What goes with a group: its people, its sets with their assignees, and what it is itself assigned to.
fn delete_below(conn: &mut Conn, id: i64) -> Result<(), Error> {
    // Locked before their assignees go, so that nobody assigns anything to a set that is about to be deleted.
    let sets = Sql::new("SELECT id FROM user_group_permission_sets WHERE group_id = $1 ORDER BY id FOR UPDATE").arg(id);
    conn.each(&sets, |_| Ok(()))?;
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

/// `_meta`.
fn write_meta(out: &mut Writer, _: Form, row: &Cell<'_>, at: usize, request: &Request) -> Result<(), Error> {
    let by_sets = row.int(at)?.unwrap_or(0);
    let held = request.caller.as_deref().map_or(0, |caller| with_global(caller, by_sets));
    out.name("_meta").raw("{");
    write_permissions(out, &RIGHT_NAMES.map(|(name, right)| (name, held & right != 0)));
    out.raw("}");
    Ok(())
}

// Rights on a group (document 4, section 4, "rights on a group"): bits, the first three as sets store them.

const VIEW: i64 = 1;
const EDIT: i64 = 2;
const DELETE: i64 = 4;
const EDIT_PERM_SET: i64 = 8;
const RIGHT_NAMES: [(&str, i64); 4] =
    [("view", VIEW), ("edit", EDIT), ("delete", DELETE), ("edit_perm_set", EDIT_PERM_SET)];

/// Whether the set `s` counts for `{caller}`: `everyone` for all standard users, `members` for those of its group, the
/// others for those who are assigned to it, themselves or through a group. The subqueries do not depend on the set, so
/// that a database evaluates each of them once in a statement.
macro_rules! counts_for_caller {
    () => {
        "((s.type = 'everyone' AND EXISTS (SELECT 1 FROM users x WHERE x.id = {caller} \
           AND x.account_type NOT IN ('service_internal', 'service_external', 'one_time_completion'))) \
         OR (s.type = 'members' AND s.group_id IN (SELECT m.group_id FROM user_group_members m WHERE m.user_id = {caller})) \
         OR s.id IN (SELECT a.set_id FROM user_group_set_users a WHERE a.user_id = {caller}) \
         OR s.id IN (SELECT a.set_id FROM user_group_set_groups a JOIN user_group_members m ON m.group_id = a.group_id \
           WHERE m.user_id = {caller}))"
    };
}

/// The rights of `{caller}` on the group `t`, without those that the caller has on every group.
const RIGHTS: &str = concat!(
    "(CASE WHEN EXISTS (SELECT 1 FROM user_group_owners o WHERE o.group_id = t.id AND o.user_id = {caller}) THEN 15 \
     ELSE COALESCE((SELECT max(s.permissions & 1) + max(s.permissions & 2) + max(s.permissions & 4) \
       FROM user_group_permission_sets s WHERE s.group_id = t.id AND ",
    counts_for_caller!(),
    "), 0) END)"
);

/// The groups that `{caller}` may view, likewise: from the caller's side, where there are many groups.
const VIEWED: &str = concat!(
    "(SELECT o.group_id FROM user_group_owners o WHERE o.user_id = {caller} \
     UNION ALL SELECT s.group_id FROM user_group_permission_sets s WHERE (s.permissions & 1) = 1 AND ",
    counts_for_caller!(),
    ")"
);

/// The condition that the caller may view the group whose id is the column.
pub fn may_view(caller: &Caller, group_column: &'static str) -> Sql {
    if caller.may("user_groups", "view") {
        return Sql::new("1 = 1");
    }
    let mut condition = Sql::new(group_column);
    select_sql::tokens(condition.push(" IN "), VIEWED, &[("{caller}", caller.user)]);
    condition
}

/// The groups that the caller may list: holders of `user_groups.list` all, others those that they may view.
pub fn visible_to(caller: &Caller) -> Sql {
    if caller.may("user_groups", "list") { Sql::new("1 = 1") } else { may_view(caller, "t.id") }
}

/// The same with what is known of them without counting.
fn scope(caller: &Caller, conn: &mut Conn) -> Result<Scope, Error> {
    let mut scope = Scope::of(visible_to(caller));
    if caller.may("user_groups", "list") {
        scope.total = Some(limits::taken(conn, limits::USER_GROUPS)?);
    }
    Ok(scope)
}

/// What the caller may do with a group; `None` when there is no such group.
fn rights(conn: &mut Conn, caller: &Caller, group: i64) -> Result<Option<i64>, Error> {
    let mut sql = Sql::new("SELECT ");
    select_sql::tokens(&mut sql, RIGHTS, &[("{caller}", caller.user)]);
    sql.push(" FROM user_groups t WHERE t.id = ").bind(group);
    Ok(conn.opt(&sql, |row| row.int(0))?.map(|held| with_global(caller, held)))
}

/// With what the account type and the roles give on every group.
fn with_global(caller: &Caller, held: i64) -> i64 {
    let global = RIGHT_NAMES.iter().filter(|(name, _)| caller.may("user_groups", name));
    global.fold(held, |held, (_, right)| held | right)
}

/// 404 when there is no such group, 403 when the caller lacks the right. Who changes something locks the row before.
fn needs(conn: &mut Conn, caller: &Caller, group: i64, right: i64) -> Result<(), Refusal> {
    match rights(conn, caller, group)? {
        None => Err(Refusal::not_found()),
        Some(held) if held & right == 0 => Err(Refusal::forbidden()),
        Some(_) => Ok(()),
    }
}

/// Locks a group for a change of what is below it, and gives its name; 404 when there is no such group.
fn lock(conn: &mut Conn, group: i64) -> Result<String, Refusal> {
    let sql = Sql::new("SELECT name FROM user_groups WHERE id = $1 FOR UPDATE").arg(group);
    conn.opt(&sql, |row| Ok(row.text(0)?.to_owned()))?.ok_or_else(Refusal::not_found)
}

/// 404 when there is no such group.
fn exists(conn: &mut Conn, group: i64) -> Result<(), Refusal> {
    if rows::existing(conn, "user_groups", &[group])?.is_empty() { Err(Refusal::not_found()) } else { Ok(()) }
}
