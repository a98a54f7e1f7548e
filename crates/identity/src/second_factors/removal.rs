//! Removes the factors of an account.

use super::challenges;
use kit::ids::UserId;
use kit::reactions::{Reaction, ReactionTime};
use store::{Conn, Sql, StoreError};

/// Deletes the factors of a user, with their recovery codes.
pub fn delete_all(conn: &mut Conn, user: UserId) -> Result<(), StoreError> {
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
