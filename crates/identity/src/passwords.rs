//! Setting a password: complexity, reuse, history (document 4, section 3). Hashing takes tens of milliseconds and so
//! happens before the transaction; whether the password may be used is decided inside it.

use crate::hasher::{Complexity, Hasher, Turn};
use crate::mailed_links;
use kit::app::App;
use kit::refusal::Refusal;
use store::{Arg, Conn, Error, Sql};
use web::clock::random_token;

/// Characters of the longest password (document 4, section 3, "complexity messages").
pub const MAX_LENGTH: usize = 512;
/// How many earlier passwords may not be used again.
const REMEMBERED: i64 = 24;

/// As much of what was sent as a password as decides whether it is the right one: no right one is longer. It waits for
/// its hash, and that must not be much.
pub fn cut(sent: &str) -> String {
    sent.chars().take(MAX_LENGTH + 1).collect()
}

/// A password that was hashed for storing.
#[derive(Clone)]
pub struct Prepared {
    hash: String,
    /// The salt of the user's history: all its digests have the same, so that one hash is compared with all.
    salt: String,
    digest: String,
}

impl Prepared {
    /// The columns of `users` that hold it.
    pub fn columns(&self, now: i64) -> Vec<(&'static str, Arg)> {
        vec![
            ("password_hash", (&self.hash).into()),
            ("password_salt", (&self.salt).into()),
            ("password_set_at", now.into()),
        ]
    }
}

/// Hashes a password; `salt` is that of the user's history, if there is one.
pub async fn prepare(app: &App, turn: &Turn, password: &str, salt: Option<String>) -> Result<Prepared, Refusal> {
    // Too long a password is refused later, with its message; it need not be hashed.
    let password: String = password.chars().take(MAX_LENGTH).collect();
    let salt = salt.unwrap_or_else(random_token);
    let hash = app.slot::<Hasher>().hash(turn, password.clone()).await?;
    let digest = app.slot::<Hasher>().digest(turn, password, salt.clone()).await?;
    Ok(Prepared { hash, salt, digest })
}

/// The rules of complexity that are in force.
pub fn complexity(conn: &mut Conn) -> Result<Complexity, Error> {
    let sql = Sql::new(
        "SELECT max_repeating_chars, min_letters, min_numbers, min_symbols, min_lower_case, min_upper_case, min_length FROM security WHERE id = 1",
    );
    conn.one(&sql, |row| {
        Ok(Complexity {
            max_repeating_chars: row.int(0)?,
            min_letters: row.int(1)?,
            min_numbers: row.int(2)?,
            min_symbols: row.int(3)?,
            min_lower_case: row.int(4)?,
            min_upper_case: row.int(5)?,
            min_length: row.int(6)?,
        })
    })
}

/// The messages of the rules that a password breaks, for a user or for one still to be made.
pub fn broken_rules(
    conn: &mut Conn,
    user: Option<i64>,
    password: &str,
    prepared: Option<&Prepared>,
) -> Result<Vec<String>, Error> {
    let mut messages = complexity(conn)?.broken(password);
    let prevents = Sql::new("SELECT password_prevent_reuse FROM security WHERE id = 1");
    if let (Some(user), Some(prepared), true) = (user, prepared, conn.one(&prevents, |row| row.flag(0))?) {
        let sql = Sql::new("SELECT digest FROM password_history WHERE user_id = $1 ORDER BY id DESC LIMIT $2")
            .arg(user)
            .arg(REMEMBERED);
        if conn.all(&sql, |row| Ok(row.text(0)? == prepared.digest))?.contains(&true) {
            messages.push("Password has been used before.".to_owned());
        }
    }
    Ok(messages)
}

/// Puts the password into the user's history and forgets what is beyond it.
pub fn remember(conn: &mut Conn, user: i64, prepared: &Prepared) -> Result<(), Error> {
    conn.exec(
        &Sql::new("INSERT INTO password_history(user_id, digest) VALUES ($1, $2)").arg(user).arg(&prepared.digest),
    )?;
    let sql = Sql::new(
        "DELETE FROM password_history WHERE user_id = $1 AND id NOT IN \
         (SELECT h.id FROM password_history h WHERE h.user_id = $1 ORDER BY h.id DESC LIMIT $2)",
    );
    conn.exec(&sql.arg(user).arg(REMEMBERED)).map(|_| ())
}

/// Stores a password for a user: the hash, the history, and an unlocked account. Every link to set another one ends.
pub fn store(conn: &mut Conn, user: i64, prepared: &Prepared, now: i64) -> Result<(), Error> {
    let sql = Sql::new(
        "UPDATE users SET password_hash = $1, password_salt = $2, password_set_at = $3, failed_attempts = 0, failed_since = NULL, \
         locked_until = NULL WHERE id = $4",
    );
    conn.exec(&sql.arg(&prepared.hash).arg(&prepared.salt).arg(now).arg(user))?;
    mailed_links::forget(conn, user)?;
    remember(conn, user, prepared)
}

/// The salt of a user's history.
pub fn salt(conn: &mut Conn, user: i64) -> Result<Option<String>, Error> {
    let sql = Sql::new("SELECT password_salt FROM users WHERE id = $1").arg(user);
    Ok(conn.opt(&sql, |row| Ok(row.opt_text(0)?.map(str::to_owned)))?.flatten())
}
