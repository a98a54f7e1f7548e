//! One-time tickets, which keep tokens out of addresses: for a session that is to begin, or for one that is to end.

use http::{HeaderValue, StatusCode, header};
use kit::answer::Answer;
use kit::refusal::Refusal;
use store::{Conn, Error, Sql};
use web::clock::{random_token, sha256_hex};

/// How long a ticket may be exchanged, in microseconds.
const TICKET: i64 = 60_000_000;

/// A ticket for a user's session that is to begin, or for one that is to end.
pub fn make_ticket(
    conn: &mut Conn,
    single_sign_on: i64,
    user: i64,
    session: Option<i64>,
    now: i64,
) -> Result<String, Error> {
    conn.exec(&Sql::new("DELETE FROM single_sign_on_tickets WHERE expires_at <= $1").arg(now))?;
    let ticket = random_token();
    let sql = Sql::new(
        "INSERT INTO single_sign_on_tickets(hash, single_sign_on_id, user_id, session_id, expires_at) VALUES ($1, $2, $3, $4, $5)",
    );
    conn.exec(&sql.arg(sha256_hex(&ticket)).arg(single_sign_on).arg(user).arg(session).arg(now + TICKET))?;
    Ok(ticket)
}

/// The refusal of a ticket that is unknown, spent or too old.
pub fn invalid_ticket() -> Refusal {
    Refusal::field("ticket", "Invalid token.")
}

/// A redirect that no cache keeps and that tells the next server nothing of this address.
pub fn redirect(address: &str) -> Answer {
    let mut answer = Answer::empty();
    answer.status = StatusCode::FOUND;
    answer.headers.extend(HeaderValue::from_str(address).ok().map(|address| (header::LOCATION, address)));
    answer.headers.push((header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")));
    answer
}
