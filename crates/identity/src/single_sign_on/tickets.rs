//! One-time tickets, which replace tokens in addresses (`docs/reference/single-sign-on.md`). A ticket is exchanged for a new
//! session, or ends a session.

use kit::ids::{SessionId, SingleSignOnId, UserId};
use kit::refusal::Refusal;
use store::{Conn, Sql, StoreError};
use web::clock::{random_token, sha256_hex};

/// The validity of a ticket, in microseconds.
const TICKET_LIFETIME_US: i64 = 60_000_000;

/// Creates a ticket: for a new session of a user, or to end `session`.
pub fn make_ticket(
    conn: &mut Conn,
    single_sign_on: SingleSignOnId,
    user: UserId,
    session: Option<SessionId>,
    now: i64,
) -> Result<String, StoreError> {
    conn.exec(&Sql::new("DELETE FROM single_sign_on_tickets WHERE expires_at <= $1").arg(now))?;
    let ticket = random_token();
    let sql = Sql::new(
        "INSERT INTO single_sign_on_tickets(hash, single_sign_on_id, user_id, session_id, expires_at) VALUES ($1, $2, $3, $4, $5)",
    );
    conn.exec(&sql.arg(sha256_hex(&ticket)).arg(single_sign_on).arg(user).arg(session).arg(now + TICKET_LIFETIME_US))?;
    Ok(ticket)
}

/// Returns the refusal of a ticket that is unknown, used or expired.
pub fn invalid_ticket() -> Refusal {
    Refusal::field("ticket", "Invalid token.")
}
