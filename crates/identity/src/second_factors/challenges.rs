//! Challenges: sign-ins between their first and their second step. A challenge is a random token whose hash is stored. It is bound
//! to the build, to a purpose and, except for a passkey alone, to an account.

use crate::attempts::{network_name, networks_of};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kit::ids::UserId;
use kit::refusal::Refusal;
use kit::request::Request;
use sha2::{Digest, Sha256};
use store::{Conn, Sql, StoreError};
use web::clock::{random_token, sha256_hex};

/// The validity of a challenge, in seconds.
pub const SECONDS: i64 = 300;
/// The number of failures that end a challenge.
const MAX_FAILURES: i64 = 5;
/// The maximum number of challenges of an account. The oldest ones end.
const MAX_OF_ACCOUNT: i64 = 10;
/// The maximum number of challenges of a client's widest network for sign-ins by a passkey alone. The oldest ones end. An
/// attacker needs 25 networks to reach [`MAX_OF_BUILD`].
const MAX_OF_NETWORK: i64 = 2000;
/// The maximum number of challenges of a build for sign-ins by a passkey alone.
const MAX_OF_BUILD: i64 = 50_000;

/// The purpose of a challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChallengePurpose {
    /// A session after a password.
    Session,
    /// The consent to an agent after a password.
    Agent,
    /// A session by a passkey alone.
    Passkey,
}

impl ChallengePurpose {
    fn name(self) -> &'static str {
        match self {
            ChallengePurpose::Session => "session",
            ChallengePurpose::Agent => "agent",
            ChallengePurpose::Passkey => "passkey",
        }
    }
}

/// Begins a challenge of an account, whose row must be locked. Returns its token.
pub fn begin(
    request: &Request,
    conn: &mut Conn,
    user: UserId,
    purpose: ChallengePurpose,
) -> Result<String, StoreError> {
    delete_expired(request, conn)?;
    delete_oldest(conn, Sql::new("c.user_id = ").bind(user), MAX_OF_ACCOUNT)?;
    insert(request, conn, Some(user), None, purpose)
}

/// Begins a challenge without an account, for a sign-in by a passkey alone. Returns its token.
pub fn begin_without_user(request: &Request, conn: &mut Conn) -> Result<String, Refusal> {
    delete_expired(request, conn)?;
    let network = networks_of(request.address).last().map(network_name).unwrap_or_default();
    delete_oldest(conn, Sql::new("c.network = ").bind(network.as_str()), MAX_OF_NETWORK)?;
    let count = Sql::new("SELECT count(*) FROM sign_in_challenges WHERE network IS NOT NULL");
    if conn.query_one(&count, |row| row.int(0))? >= MAX_OF_BUILD {
        return Err(Refusal::too_many(SECONDS * 1_000_000));
    }
    Ok(insert(request, conn, None, Some(network), ChallengePurpose::Passkey)?)
}

fn delete_expired(request: &Request, conn: &mut Conn) -> Result<(), StoreError> {
    let sql = Sql::new(
        "DELETE FROM sign_in_challenges WHERE hash IN (SELECT c.hash FROM sign_in_challenges c WHERE c.expires_at <= $1 LIMIT 100)",
    );
    conn.exec(&sql.arg(request.now)).map(drop)
}

/// Deletes the oldest challenges that match a condition, so that one more does not exceed `most`.
fn delete_oldest(conn: &mut Conn, condition: &Sql, most: i64) -> Result<(), StoreError> {
    let mut sql =
        Sql::new("DELETE FROM sign_in_challenges WHERE hash IN (SELECT c.hash FROM sign_in_challenges c WHERE ");
    sql.append(condition).push(" ORDER BY c.created_at DESC, c.hash LIMIT 100 OFFSET ").bind(most - 1).push(")");
    conn.exec(&sql).map(drop)
}

fn insert(
    request: &Request,
    conn: &mut Conn,
    user: Option<UserId>,
    network: Option<String>,
    purpose: ChallengePurpose,
) -> Result<String, StoreError> {
    let token = random_token();
    let sql = Sql::new(
        "INSERT INTO sign_in_challenges(hash, purpose, user_id, network, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6)",
    );
    let sql = sql.arg(sha256_hex(&token)).arg(purpose.name()).arg(user).arg(network);
    conn.exec(&sql.arg(request.now).arg(request.now + SECONDS * 1_000_000))?;
    Ok(token)
}

/// A live challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveChallenge {
    /// The account; `None` for a passkey alone.
    pub user: Option<UserId>,
}

/// Returns the live challenge of a token.
pub fn find(
    request: &Request,
    conn: &mut Conn,
    token: &str,
    purpose: ChallengePurpose,
) -> Result<Option<LiveChallenge>, StoreError> {
    let sql = Sql::new("SELECT user_id FROM sign_in_challenges WHERE hash = $1 AND purpose = $2 AND expires_at > $3");
    let sql = sql.arg(sha256_hex(token)).arg(purpose.name()).arg(request.now);
    conn.query_optional(&sql, |row| Ok(LiveChallenge { user: row.opt_id(0)? }))
}

/// Counts a failure of a challenge, which may end it. A challenge of another purpose does not change.
pub fn count_failure(conn: &mut Conn, token: &str, purpose: ChallengePurpose) -> Result<(), StoreError> {
    let sql = Sql::new("UPDATE sign_in_challenges SET failures = failures + 1 WHERE hash = $1 AND purpose = $2");
    conn.exec(&sql.arg(sha256_hex(token)).arg(purpose.name()))?;
    let sql = Sql::new("DELETE FROM sign_in_challenges WHERE hash = $1 AND failures >= $2");
    conn.exec(&sql.arg(sha256_hex(token)).arg(MAX_FAILURES)).map(drop)
}

/// Ends a challenge. Returns false if it had ended before.
pub fn end(conn: &mut Conn, token: &str) -> Result<bool, StoreError> {
    Ok(conn.exec(&Sql::new("DELETE FROM sign_in_challenges WHERE hash = $1").arg(sha256_hex(token)))? == 1)
}

/// Ends the challenges of a user.
pub fn end_of_user(conn: &mut Conn, user: UserId) -> Result<(), StoreError> {
    conn.exec(&Sql::new("DELETE FROM sign_in_challenges WHERE user_id = $1").arg(user)).map(drop)
}

/// Returns the challenge that a passkey signs. It follows from the token, and does not reveal it.
pub fn for_passkey(token: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(format!("webauthn {token}")))
}
