//! The rights of callers on a group, as SQL and as checks (`docs/reference/user-groups.md`).

use crate::principals::set_applies_to_caller;
use kit::caller::Caller;
use kit::ids::{GroupId, UserId};
use kit::refusal::Refusal;
use kit::rows::{self, sql as select_sql};
use store::{Conn, Sql, StoreError};

// The rights as bits. Permission sets store the first three.
pub const VIEW: i64 = 1;
pub const EDIT: i64 = 2;
pub const DELETE: i64 = 4;
pub const EDIT_PERM_SET: i64 = 8;
/// Every right on a group.
const ALL: i64 = VIEW | EDIT | DELETE | EDIT_PERM_SET;
// The SQL of groups contains these numbers.
const _: () = assert!(VIEW == 1 && EDIT == 2 && DELETE == 4 && ALL == 15);
pub const RIGHT_NAMES: [(&str, i64); 4] =
    [("view", VIEW), ("edit", EDIT), ("delete", DELETE), ("edit_perm_set", EDIT_PERM_SET)];

/// SQL that tests whether the set `s` applies to `{caller}`. A set of type `members` applies to the members of its group.
macro_rules! counts_for_caller {
    () => {
        set_applies_to_caller!(
            "user_group_set_users",
            "user_group_set_groups",
            "OR (s.type = 'members' AND s.group_id IN (SELECT m.group_id FROM user_group_members m WHERE m.user_id = {caller})) "
        )
    };
}

/// SQL for the rights of `{caller}`, who has the rights of the owner `{owner}`, on the group `t`, without the rights that the caller has on all groups.
pub const RIGHTS: &str = concat!(
    "(CASE WHEN EXISTS (SELECT 1 FROM user_group_owners o WHERE o.group_id = t.id AND o.user_id = {owner}) THEN 15 \
     ELSE COALESCE((SELECT max(s.permissions & 1) + max(s.permissions & 2) + max(s.permissions & 4) \
       FROM user_group_permission_sets s WHERE s.group_id = t.id AND ",
    counts_for_caller!(),
    "), 0) END)"
);

/// SQL for the ids of the groups that `{caller}` may view, without the right to view all groups. It starts from the caller's sets,
/// which is faster than [`RIGHTS`] if there are many groups.
const VIEWABLE_GROUPS: &str = concat!(
    "(SELECT o.group_id FROM user_group_owners o WHERE o.user_id = {owner} \
     UNION ALL SELECT s.group_id FROM user_group_permission_sets s WHERE (s.permissions & 1) = 1 AND ",
    counts_for_caller!(),
    ")"
);

/// The values of `{caller}` and `{owner}` for a caller. The second one owns nothing if ownership grants the caller nothing.
pub fn principal_tokens(caller: &Caller) -> [(&'static str, UserId); 2] {
    // An agent may name the groups that its person owns (`docs/reference/mcp-server.md`).
    let owner = if caller.agent.is_some() { caller.user } else { caller.ownership() };
    [("{caller}", caller.user), ("{owner}", owner)]
}

/// Returns the condition that the caller may view the group whose id is in the column.
pub fn view_condition(caller: &Caller, group_column: &'static str) -> Sql {
    if caller.has_permission("user_groups", "view") {
        return Sql::new("1 = 1");
    }
    let mut condition = Sql::new(group_column);
    select_sql::tokens(condition.push(" IN "), VIEWABLE_GROUPS, &principal_tokens(caller));
    condition
}

/// Returns the condition on `user_groups t` for the groups that the caller may list: all with `user_groups.list`, otherwise those
/// that the caller may view.
pub fn visible_groups(caller: &Caller) -> Sql {
    if caller.has_permission("user_groups", "list") { Sql::new("1 = 1") } else { view_condition(caller, "t.id") }
}

/// Returns the rights of the caller on a group; `None` if the group does not exist.
pub fn rights(conn: &mut Conn, caller: &Caller, group: GroupId) -> Result<Option<i64>, StoreError> {
    let mut sql = Sql::new("SELECT ");
    select_sql::tokens(&mut sql, RIGHTS, &principal_tokens(caller));
    sql.push(" FROM user_groups t WHERE t.id = ").bind(group);
    Ok(conn.query_optional(&sql, |row| row.int(0))?.map(|actions| with_global(caller, actions)))
}

/// Adds the rights that the caller has on all groups, by account type and roles.
pub fn with_global(caller: &Caller, actions: i64) -> i64 {
    let global = RIGHT_NAMES.iter().filter(|(name, _)| caller.has_permission("user_groups", name));
    global.fold(actions, |bits_so_far, (_, right)| bits_so_far | right)
}

/// Refuses with 404 if the group does not exist, and with 403 if the caller lacks the right. Changes lock the row first.
pub fn require_right(conn: &mut Conn, caller: &Caller, group: GroupId, right: i64) -> Result<(), Refusal> {
    match rights(conn, caller, group)? {
        None => Err(Refusal::not_found()),
        Some(actions) if actions & right == 0 => Err(Refusal::forbidden()),
        Some(_) => Ok(()),
    }
}

/// Locks the row of a group for a change below it, and returns its name. Refuses with 404 if the group does not exist.
pub fn lock(conn: &mut Conn, group: GroupId) -> Result<String, Refusal> {
    let sql = Sql::new("SELECT name FROM user_groups WHERE id = $1 FOR UPDATE").arg(group);
    conn.query_optional(&sql, |row| Ok(row.text(0)?.to_owned()))?.ok_or_else(Refusal::not_found)
}

/// Refuses with 404 if the group does not exist.
pub fn check_exists(conn: &mut Conn, group: GroupId) -> Result<(), Refusal> {
    if rows::existing_ids(conn, "user_groups", &[group.get()])?.is_empty() { Err(Refusal::not_found()) } else { Ok(()) }
}

/// Returns whether an account has rights on single groups: it owns one, or is assigned to a set, directly or through a group.
pub fn holds_groups(conn: &mut Conn, user: UserId) -> Result<bool, StoreError> {
    let sql = Sql::new(
        "SELECT CASE WHEN EXISTS (SELECT 1 FROM user_group_owners o WHERE o.user_id = $1) \
         OR EXISTS (SELECT 1 FROM user_group_set_users a WHERE a.user_id = $1) \
         OR EXISTS (SELECT 1 FROM user_group_set_groups a JOIN user_group_members m ON m.group_id = a.group_id \
         WHERE m.user_id = $1) THEN 1 ELSE 0 END",
    );
    conn.query_one(&sql.arg(user), |row| row.flag(0))
}
