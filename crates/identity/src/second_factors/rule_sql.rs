//! The rule of an account type as SQL, for statements that read an account anyway.

/// SQL for the rule of the user `u`: `off`, `optional` or `required`.
macro_rules! rule_sql {
    () => {
        "(SELECT CASE u.account_type WHEN 'internal' THEN x.second_factor_internal WHEN 'external' THEN x.second_factor_external \
         WHEN 'full' THEN x.second_factor_full WHEN 'super_admin' THEN x.second_factor_super_admin ELSE 'off' END \
         FROM security x WHERE x.id = 1)"
    };
}

/// SQL for the rule of the user `u`.
pub const RULE_OF_USER: &str = rule_sql!();

/// SQL that is true if the user `u` has a factor and accounts of the user's type are asked for it.
pub const IS_ASKED: &str = concat!(
    "EXISTS (SELECT 1 FROM second_factors f WHERE f.user_id = u.id AND f.confirmed_at IS NOT NULL) AND ",
    rule_sql!(),
    " <> 'off'"
);

/// SQL that is true if the user `u` must have a factor and has none.
pub const IS_LACKING: &str = concat!(
    rule_sql!(),
    " = 'required' AND NOT EXISTS (SELECT 1 FROM second_factors f WHERE f.user_id = u.id AND f.confirmed_at IS NOT NULL)"
);
