//! The users and groups that a caller may list (`docs/reference/users.md`).

use crate::user_groups::rights::view_condition;
pub use crate::user_groups::rights::visible_groups;
use kit::caller::Caller;
use store::Sql;

/// Returns the condition on `users t` for the users that the caller may list. With `users.list` these are all users. Otherwise they
/// are the caller and the members of groups that the caller may view.
pub fn visible_users(caller: &Caller) -> Sql {
    if caller.has_permission("users", "list") {
        return Sql::new("t.is_deleted = 0");
    }
    let mut condition = Sql::new("t.is_deleted = 0 AND (t.id = ");
    condition.bind(caller.user).push(" OR t.id IN (SELECT m.user_id FROM user_group_members m WHERE ");
    condition.append(&view_condition(caller, "m.group_id")).push("))");
    condition
}
