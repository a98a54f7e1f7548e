//! Which users a caller may list.

use crate::user_groups::rights::may_view;
use kit::caller::Caller;
use store::Sql;

/// Whom the caller may list: holders of `users.list` everyone, others themselves and the members of groups that they
/// may view (document 4, section 4, "who may list whom").
pub fn visible_users(caller: &Caller) -> Sql {
    if caller.may("users", "list") {
        return Sql::new("t.is_deleted = 0");
    }
    let mut condition = Sql::new("t.is_deleted = 0 AND (t.id = ");
    condition.bind(caller.user).push(" OR t.id IN (SELECT m.user_id FROM user_group_members m WHERE ");
    condition.append(&may_view(caller, "m.group_id")).push("))");
    condition
}
