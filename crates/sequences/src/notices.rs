//! Mails about sequences: their runs fail, they are paused, or another account lends its rights. They have names and no values.

use crate::engine::published;
use administration::mail::message::MailMessage;
use administration::mail::queue::{self, ComposeContext, MailKind, QueuedMail};
use kit::ids::{SequenceId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use store::{Conn, Sql, StoreError};

const HOUR_US: i64 = 3_600_000_000;

/// The payload of each kind is the account, the name of the sequence, and the cause.
pub static FAILED: MailKind = MailKind { name: "sequence_failed", make: make_failed, accepted: None };
pub static PAUSED: MailKind = MailKind { name: "sequence_paused", make: make_paused, accepted: None };
pub static TAKEN_OVER: MailKind = MailKind { name: "sequence_taken_over", make: make_taken_over, accepted: None };

const ACCOUNT_LOST: &str = "account";

/// Tells that a run has failed, at most once an hour for a sequence.
pub fn failed(request: &Request, conn: &mut Conn, id: SequenceId) -> Result<(), Refusal> {
    let sql = Sql::new(
        "UPDATE sequences SET failure_mailed_at = $1 WHERE id = $2 AND failure_mailed_at <= $3 RETURNING name",
    );
    let sql = sql.arg(request.now).arg(id).arg(request.now - HOUR_US);
    match conn.query_optional(&sql, |row| Ok(row.text(0)?.to_owned()))? {
        Some(name) => tell(request, conn, &FAILED, (id, &name, "")),
        None => Ok(()),
    }
}

/// Tells that the system has paused a sequence. One mail tells of all sequences whose account was lost.
pub fn paused(
    request: &Request,
    conn: &mut Conn,
    (id, name, because): (SequenceId, &str, &str),
) -> Result<(), Refusal> {
    if because == ACCOUNT_LOST { Ok(()) } else { tell(request, conn, &PAUSED, (id, name, because)) }
}

/// Tells super admins which sequences are paused because their account cannot be used.
pub fn account_lost(request: &Request, conn: &mut Conn, names: &[String]) -> Result<(), Refusal> {
    if names.is_empty() {
        return Ok(());
    }
    let names = names.join(", ");
    for user in super_admins(conn)? {
        enqueue(request, conn, &PAUSED, json!([user, names, ACCOUNT_LOST]))?;
    }
    Ok(())
}

/// Tells former accounts of a sequence that another account lends its rights now.
pub fn taken_over(
    request: &Request,
    conn: &mut Conn,
    name: &str,
    former: impl IntoIterator<Item = UserId>,
) -> Result<(), Refusal> {
    let former: BTreeSet<i64> = former.into_iter().map(UserId::get).collect();
    for user in people(conn, former.into_iter().collect())? {
        enqueue(request, conn, &TAKEN_OVER, json!([user, name, ""]))?;
    }
    Ok(())
}

/// Sends a mail to the account of a sequence and to those whom its version notifies, or to super admins if nobody is left.
fn tell(
    request: &Request,
    conn: &mut Conn,
    kind: &'static MailKind,
    (id, name, because): (SequenceId, &str, &str),
) -> Result<(), Refusal> {
    let sql = Sql::new("SELECT runs_as, published_version FROM sequences WHERE id = $1").arg(id);
    let (account, version) = conn.query_one(&sql, |row| Ok((row.opt_int(0)?, row.opt_int(1)?)))?;
    let mut users: Vec<i64> = account.into_iter().collect();
    if let Some(version) = version
        && let Some(published) = published::load(&request.build, conn, id, version)?
    {
        users.extend(&published.definition.notify);
    }
    let mut receivers = people(conn, users)?;
    if receivers.is_empty() {
        receivers = super_admins(conn)?;
    }
    for user in receivers {
        enqueue(request, conn, kind, json!([user, name, because]))?;
    }
    Ok(())
}

fn enqueue(request: &Request, conn: &mut Conn, kind: &'static MailKind, payload: Json) -> Result<(), Refusal> {
    queue::enqueue(request, conn, &QueuedMail { kind, payload, once_for: None }).map(drop)
}

/// Those of these accounts that can be used and are not service accounts.
fn people(conn: &mut Conn, users: Vec<i64>) -> Result<Vec<i64>, StoreError> {
    let mut sql = Sql::new(
        "SELECT u.id FROM users u WHERE u.is_deleted = 0 AND u.status = 'active' \
         AND u.account_type NOT IN ('service_internal', 'service_external') AND u.id",
    );
    conn.query_all(sql.push_any(users).push(" ORDER BY u.id"), |row| row.int(0))
}

fn super_admins(conn: &mut Conn) -> Result<Vec<i64>, StoreError> {
    let sql = Sql::new(
        "SELECT id FROM users WHERE is_deleted = 0 AND status = 'active' AND account_type = 'super_admin' ORDER BY id",
    );
    conn.query_all(&sql, |row| row.int(0))
}

fn make_failed(context: &ComposeContext, conn: &mut Conn, payload: &Json) -> Result<Option<MailMessage>, StoreError> {
    let texts = |name: &str, _: &str| {
        (format!("A run of the sequence \"{name}\" failed"), format!("A run of the sequence \"{name}\" failed."))
    };
    compose(context, conn, payload, texts)
}

fn make_paused(context: &ComposeContext, conn: &mut Conn, payload: &Json) -> Result<Option<MailMessage>, StoreError> {
    let texts = |name: &str, because: &str| {
        let cause = match because {
            ACCOUNT_LOST => "its account cannot be used any more. Somebody else may take it over",
            "rights" => "its account lacks rights",
            _ => "its last runs failed",
        };
        (format!("Paused: {name}"), format!("The sequence \"{name}\" is paused, because {cause}."))
    };
    compose(context, conn, payload, texts)
}

fn make_taken_over(
    context: &ComposeContext,
    conn: &mut Conn,
    payload: &Json,
) -> Result<Option<MailMessage>, StoreError> {
    let texts = |name: &str, _: &str| {
        let text =
            format!("The sequence \"{name}\" has the rights of another account now, and no longer those of yours.");
        (format!("The sequence \"{name}\" has another account"), text)
    };
    compose(context, conn, payload, texts)
}

/// Composes a mail from its subject and its text. Returns `None` if the account cannot be used any more.
fn compose(
    context: &ComposeContext,
    conn: &mut Conn,
    payload: &Json,
    texts: impl Fn(&str, &str) -> (String, String),
) -> Result<Option<MailMessage>, StoreError> {
    let sql = Sql::new("SELECT username FROM users WHERE id = $1 AND is_deleted = 0 AND status = 'active'");
    let to = conn.query_optional(&sql.arg(payload[0].as_i64()), |row| Ok(row.text(0)?.to_owned()))?;
    let Some(to) = to else { return Ok(None) };
    let name = payload[1].as_str().unwrap_or_default().replace(char::is_control, " ");
    let (subject, text) = texts(&name, payload[2].as_str().unwrap_or_default());
    let subject = subject.chars().take(255).collect();
    let text = format!("{text}\n\n-- \n{} has sent this message automatically.\n", context.build.domain);
    Ok(Some(MailMessage { to, subject, text }))
}
