//! Changing a username (`docs/reference/users.md`). It is the address to which an account's links are mailed and by
//! which single sign-on finds the account, so a caller who changes it can take the account over. The caller must
//! therefore hold all that the account holds, and the sessions and links of its former owner end. A change of letter
//! case counts too.

use super::create::type_in;
use super::rules;
use super::user::{FIRST_NAME, USERNAME};
use crate::mailed_links;
use crate::sessions::{self, TaskLinks};
use administration::company_details;
use administration::mail::queue::{self, MailKind, QueuedMail};
use administration::mail::templates;
use kit::caller::Caller;
use kit::refusal::Refusal;
use kit::request::Request;
use resource::Changes;
use serde_json::json;
use store::{Conn, Sql};

/// The mail to a former address that its account has another username. Its payload is the address and the first name.
pub static RENAMED: MailKind = MailKind {
    name: "renamed",
    make: |making, conn, payload| {
        let (Some(address), Some(first_name)) = (payload[0].as_str(), payload[1].as_str()) else { return Ok(None) };
        let fields = company_details::merge_fields(conn)?.with_field("domain", &making.build.domain);
        Ok(Some(templates::renamed(address.to_owned(), &fields.with_field("first_name", first_name))))
    },
    accepted: None,
};

/// Whether a body changes the username.
pub fn is_change(before: &Changes, sent: &Changes) -> bool {
    sent.contains(&USERNAME) && sent.get(&USERNAME) != before.get(&USERNAME)
}

/// Refuses a caller who does not hold all that the account holds. An account with rights on single objects can be
/// renamed by super admins only, since only they hold all such rights.
pub fn require_rename(conn: &mut Conn, caller: &Caller, id: i64, before: &Changes) -> Result<(), Refusal> {
    rules::holds_all_of(conn, caller, id, type_in(before)?)
}

/// Carries out what follows from a new username, once it is stored: the links are deleted. When the account was active
/// once, its identities are deleted too, its sessions end except the caller's own, and a mail goes to the former
/// address. The caller of this function raises the version of the rights.
pub fn apply_rename(request: &Request, conn: &mut Conn, id: i64, before: &Changes) -> Result<(), Refusal> {
    mailed_links::delete_links(conn, id)?;
    (request.app.slot::<TaskLinks>().delete_tokens)(conn, id)?;
    sessions::end_narrowed_of(request, conn, id)?;
    let sql = Sql::new(
        "SELECT CASE WHEN u.activated_at IS NOT NULL OR u.password_set_at IS NOT NULL OR EXISTS \
         (SELECT 1 FROM single_sign_on_identities i WHERE i.user_id = u.id) THEN 1 ELSE 0 END, u.status FROM users u WHERE u.id = $1",
    );
    let (was_active, is_anonymized) =
        conn.query_one(&sql.arg(id), |row| Ok((row.flag(0)?, row.text(1)? == "anonymized")))?;
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
    // Tickets of sign-ins that have no session yet.
    conn.exec(&Sql::new("DELETE FROM single_sign_on_tickets WHERE user_id = $1 AND session_id IS NULL").arg(id))?;
    sessions::end_all(conn, id, request.now, Some(caller.session))?;
    if is_anonymized {
        // The former address belongs to nobody.
        return Ok(());
    }
    let address = before.get(&USERNAME).unwrap_or_default();
    let payload = json!([address, before.get(&FIRST_NAME).unwrap_or_default()]);
    queue::enqueue(request, conn, &QueuedMail { kind: &RENAMED, payload, once_for: None }).map(drop)
}
