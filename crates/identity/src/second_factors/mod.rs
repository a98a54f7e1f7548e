//! Second factors of an account: generated codes, passkeys, and recovery codes (`docs/reference/second-factors.md`). Signing in with
//! them is in `sign_in/`.

pub mod challenges;
mod codes;
pub mod notices;
mod own;
pub mod passkeys;
pub mod proof;
mod recovery_codes;
mod reset;
mod rules;

pub use reset::reset_by_operator;

use kit::ids::UserId;
use kit::reactions::{Reaction, ReactionTime};
use kit::route::Route;
use kit::secret::SealedColumn;
use store::{Conn, Sql, StoreError};

pub fn routes() -> Vec<Route> {
    [own::routes(), recovery_codes::routes(), rules::routes(), reset::routes()].into_iter().flatten().collect()
}

/// The sealed columns of factors and recovery codes.
pub const SEALED_COLUMNS: [SealedColumn; 2] = [codes::SECRET, recovery_codes::CODE_HASH];

/// SQL for the rule of the user `u`: `off`, `optional` or `required`.
macro_rules! rule_sql {
    () => {
        "(SELECT CASE u.account_type WHEN 'internal' THEN x.second_factor_internal WHEN 'external' THEN x.second_factor_external \
         WHEN 'full' THEN x.second_factor_full WHEN 'super_admin' THEN x.second_factor_super_admin ELSE 'off' END \
         FROM security x WHERE x.id = 1)"
    };
}

/// SQL for the rule of the user `u`.
const RULE_OF_USER: &str = rule_sql!();

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

/// Deletes the factors of a user, with their recovery codes.
fn delete_all(conn: &mut Conn, user: UserId) -> Result<(), StoreError> {
    for text in [
        "DELETE FROM used_code_steps WHERE factor_id IN (SELECT f.id FROM second_factors f WHERE f.user_id = $1)",
        "DELETE FROM second_factors WHERE user_id = $1",
        "DELETE FROM recovery_codes WHERE user_id = $1",
    ] {
        conn.exec(&Sql::new(text).arg(user))?;
    }
    challenges::end_of_user(conn, user)
}

/// Deletes the factors of a deleted or anonymized user, and blanks their names in the log.
pub const ON_USER_LEAVING: Reaction = Reaction {
    resource: "users",
    when: ReactionTime::Leaving,
    run: |_, conn, user| {
        delete_all(conn, UserId::new(user))?;
        // Only their owner adds and removes factors. The entries of the rules have no id.
        let sql = Sql::new(
            "UPDATE administration_log SET object_name = '', object_name_fold = '', ip = '' \
             WHERE resource = 'second_factors' AND object_id IS NOT NULL AND by_user = $1",
        );
        conn.exec(&sql.arg(user))?;
        Ok(())
    },
};
