//! Changes usernames (`docs/reference/users.md`). The links of an account are mailed to its username, and single sign-on finds the
//! account by it. A caller who changes it can therefore take control of the account. The caller must have all permissions of the
//! account, and the sessions and links of its former owner end. A change of letter case counts, too.

use super::create::type_in;
use super::rules;
use super::user::{FIRST_NAME, USERNAME};
use crate::mailed_links;
use crate::sessions::{self, TaskLinks};
use administration::company_details;
use administration::mail::queue::{self, MailKind, QueuedMail};
use administration::mail::templates;
use kit::caller::Caller;
use kit::ids::UserId;
use kit::refusal::Refusal;
use kit::request::Request;
use resource::Changes;
use serde_json::json;
use store::{Conn, Sql};

/// The mail that informs a former address of the account's new username. Its payload is the address and the first name.
pub static RENAMED: MailKind = MailKind {
    name: "renamed",
    make: |making, conn, payload| {
        let (Some(address), Some(first_name)) = (payload[0].as_str(), payload[1].as_str()) else { return Ok(None) };
        let fields = company_details::merge_fields(conn)?.with_field("domain", &making.build.domain);
        Ok(Some(templates::renamed(address.to_owned(), &fields.with_field("first_name", first_name))))
    },
    accepted: None,
};

/// Returns whether a body changes the username.
pub fn is_change(before: &Changes, changes: &Changes) -> bool {
    changes.contains(&USERNAME) && changes.get(&USERNAME) != before.get(&USERNAME)
}

/// Refuses a caller who does not have all permissions of the account. Only super admins can rename an account with rights on single
/// objects, since only they have all such rights.
pub fn require_rename(conn: &mut Conn, caller: &Caller, id: UserId, before: &Changes) -> Result<(), Refusal> {
    rules::require_all_permissions_of(conn, caller, id, type_in(before)?)
}

/// The author of a rename.
#[derive(Clone, Copy)]
pub enum RenamedBy<'a> {
    Caller(&'a Caller),
    /// The directory of a company. Identities of the company's issuer stay.
    Provider(Option<&'a str>),
}

/// Carries out the consequences of a new username after it was stored. The links are deleted, and sessions that are narrowed to a
/// task end. If the account was ever active, its identities are deleted, and its sessions end except the caller's own. A mail is
/// sent to the former address. Callers who rename themselves retain their linked identities. The calling function raises the
/// version of the rights.
pub fn apply_rename(
    request: &Request,
    conn: &mut Conn,
    id: UserId,
    before: &Changes,
    by: RenamedBy<'_>,
) -> Result<(), Refusal> {
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
    let mut identities = Sql::new("DELETE FROM single_sign_on_identities WHERE user_id = $1").arg(id);
    let session = match by {
        RenamedBy::Caller(caller) => {
            identities.push(if caller.user == id { " AND is_linked = 0" } else { "" });
            Some(caller.session)
        }
        RenamedBy::Provider(issuer) => {
            if let Some(issuer) = issuer {
                identities.push(" AND issuer <> ").bind(issuer);
            }
            None
        }
    };
    conn.exec(&identities)?;
    // These tickets belong to sign-ins that do not have a session yet.
    conn.exec(&Sql::new("DELETE FROM single_sign_on_tickets WHERE user_id = $1 AND session_id IS NULL").arg(id))?;
    sessions::end_all(conn, id, request.now, session)?;
    if is_anonymized {
        // The former address does not belong to a person.
        return Ok(());
    }
    let address = before.get(&USERNAME).unwrap_or_default();
    let payload = json!([address, before.get(&FIRST_NAME).unwrap_or_default()]);
    queue::enqueue(request, conn, &QueuedMail { kind: &RENAMED, payload, once_for: None }).map(drop)
}
