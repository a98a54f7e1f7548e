//! Changing a username (document 4, section 7). It is the address to which an account's links go and by which single
//! sign-on finds it, so whoever changes it may become the account: he needs what the account holds, and what was given
//! to its former owner ends. Any other spelling counts as a change, be it only of letter case.

use super::{ACCOUNT_TYPE, FIRST_NAME, USERNAME, rules};
use crate::caller::{Caller, of_roles};
use crate::http::{Refusal, Request};
use crate::links;
use crate::mail_queue::{self, Job};
use crate::permissions::Permissions;
use crate::sign_in::sessions;
use resource::Changes;
use store::{Conn, Sql};

/// Whether a body changes the username.
pub fn is_change(before: &Changes, sent: &Changes) -> bool {
    sent.has(&USERNAME) && sent.get(&USERNAME) != before.get(&USERNAME)
}

/// Only who holds all that the account holds may rename it; and only super admins one on which rights on single objects
/// hang, since nobody else is sure to hold them.
pub fn may_rename(conn: &mut Conn, caller: &Caller, id: i64, before: &Changes) -> Result<(), Refusal> {
    let account_type = before.get(&ACCOUNT_TYPE).unwrap_or_default();
    let held = Permissions::of_account(&account_type).union(of_roles(conn, id)?);
    if caller.permissions.covers(held) && (caller.is_super() || !rules::holds_objects(conn, id)?) {
        Ok(())
    } else {
        Err(Refusal::forbidden())
    }
}

/// Does what follows from a new username, once it is stored: links end, and of an account that was active once also
/// sessions, but the one that asks, and identities; its former address is told. The caller raises the version of rights.
pub fn follow(request: &Request, conn: &mut Conn, id: i64, before: &Changes) -> Result<(), Refusal> {
    links::forget(conn, id)?;
    let sql = Sql::new(
        "SELECT CASE WHEN u.activated_at IS NOT NULL OR u.password_set_at IS NOT NULL OR EXISTS \
         (SELECT 1 FROM single_sign_on_identities i WHERE i.user_id = u.id) THEN 1 ELSE 0 END, u.status FROM users u WHERE u.id = $1",
    );
    let (was_active, is_anonymized) = conn.one(&sql.arg(id), |row| Ok((row.flag(0)?, row.text(1)? == "anonymized")))?;
    if !was_active {
        return Ok(());
    }
    let caller = request.caller()?;
    let identities = if caller.user == id {
        "DELETE FROM single_sign_on_identities WHERE user_id = $1 AND is_linked = 0"
    } else {
        "DELETE FROM single_sign_on_identities WHERE user_id = $1"
    };
    conn.exec(&Sql::new(identities).arg(id))?;
    // A sign-in that has not become a session yet.
    conn.exec(&Sql::new("DELETE FROM single_sign_on_tickets WHERE user_id = $1 AND session_id IS NULL").arg(id))?;
    sessions::end_all(conn, id, request.now, Some(caller.session))?;
    if is_anonymized {
        // The former address is nobody's.
        return Ok(());
    }
    let address = before.get(&USERNAME).unwrap_or_default();
    mail_queue::put(request, conn, &Job::Renamed { address, first_name: before.get(&FIRST_NAME).unwrap_or_default() })
        .map(drop)
}
