//! SQL for a user together with their groups. Assignments of records and tasks are to such principals.

use kit::ids::UserId;
use kit::rows::sql::tokens;
use store::Sql;

/// SQL for the principals of `{caller}`: the user, and each group as its negative id.
#[macro_export]
macro_rules! principals {
    () => {
        "(SELECT CAST({caller} AS BIGINT) UNION ALL SELECT -m.group_id FROM user_group_members m WHERE m.user_id = {caller})"
    };
}

/// SQL that tests whether the permission set `s` applies to `{caller}`. A set of type `everyone` applies to all standard users.
/// Other sets apply to their assignees in the tables `$users` and `$groups`, directly or through a group. `$others` are further
/// conditions. The subqueries do not depend on the set, so a database evaluates each of them once in a statement.
#[macro_export]
macro_rules! set_applies_to_caller {
    ($users:literal, $groups:literal, $others:literal) => {
        concat!(
            "((s.type = 'everyone' AND EXISTS (SELECT 1 FROM users x WHERE x.id = {caller} \
               AND x.account_type NOT IN ('service_internal', 'service_external', 'one_time_completion'))) ",
            $others,
            "OR s.id IN (SELECT a.set_id FROM ",
            $users,
            " a WHERE a.user_id = {caller}) OR s.id IN (SELECT a.set_id FROM ",
            $groups,
            " a JOIN user_group_members m ON m.group_id = a.group_id WHERE m.user_id = {caller}))"
        )
    };
}

pub use {principals, set_applies_to_caller};

/// Appends the principals of a user: their own id, and each group as its negative id.
pub fn push_principals(sql: &mut Sql, user: UserId) {
    tokens(sql, principals!(), &[("{caller}", user)]);
}
