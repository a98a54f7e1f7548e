//! Sets passwords: complexity, reuse, history (`docs/reference/security-rules.md`). Hashing takes tens of milliseconds, so it
//! happens before the transaction. The rules are checked inside it.

use crate::hasher::{Complexity, Hasher, QueuePath};
use crate::mailed_links;
use kit::app::App;
use kit::ids::UserId;
use kit::refusal::Refusal;
use store::{Argument, Conn, Sql, StoreError};
use web::clock::random_token;

/// The maximum length of a password, in characters.
pub const MAX_LENGTH: usize = 512;
/// The number of a user's earlier passwords that may not be used again.
const HISTORY_LENGTH: i64 = 24;

/// Truncates a password that is to be verified, so that it occupies little memory while its hash waits. The result is one character
/// longer than the longest stored password, so a truncated password is still wrong.
pub fn truncate_password(text: &str) -> String {
    text.chars().take(MAX_LENGTH + 1).collect()
}

/// A new password, hashed for storing.
#[derive(Clone)]
pub struct HashedPassword {
    hash: String,
    /// The salt of the user's password history. All digests of the history have the same salt, so that one hash is compared with
    /// all.
    salt: String,
    digest: String,
}

impl HashedPassword {
    /// Returns the columns of `users` that store the password.
    pub fn columns(&self, now: i64) -> Vec<(&'static str, Argument)> {
        vec![
            ("password_hash", (&self.hash).into()),
            ("password_salt", (&self.salt).into()),
            ("password_set_at", now.into()),
        ]
    }
}

/// Hashes a new password. `salt` is the salt of the user's password history, if it exists.
pub async fn prepare(
    app: &App,
    path: &QueuePath,
    password: &str,
    salt: Option<String>,
) -> Result<HashedPassword, Refusal> {
    // A password that is too long is refused later, so hashing its first characters is sufficient.
    let password: String = password.chars().take(MAX_LENGTH).collect();
    let salt = salt.unwrap_or_else(random_token);
    let hash = app.slot::<Hasher>().hash(path, password.clone()).await?;
    let digest = app.slot::<Hasher>().digest(path, password, salt.clone()).await?;
    Ok(HashedPassword { hash, salt, digest })
}

/// Returns the complexity rules of a build.
pub fn complexity(conn: &mut Conn) -> Result<Complexity, StoreError> {
    let sql = Sql::new(
        "SELECT max_repeating_chars, min_letters, min_numbers, min_symbols, min_lower_case, min_upper_case, min_length FROM security WHERE id = 1",
    );
    conn.query_one(&sql, |row| {
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

/// Returns the messages of the rules that a new password breaks. Reuse is checked only with a user and a hash.
pub fn broken_rules(
    conn: &mut Conn,
    user: Option<UserId>,
    password: &str,
    prepared: Option<&HashedPassword>,
) -> Result<Vec<String>, StoreError> {
    let mut messages = complexity(conn)?.broken_rules(password);
    if let (Some(user), Some(prepared), true) = (user, prepared, prevents_reuse(conn)?) {
        let sql = Sql::new("SELECT digest FROM password_history WHERE user_id = $1 ORDER BY id DESC LIMIT $2")
            .arg(user)
            .arg(HISTORY_LENGTH);
        if conn.query_all(&sql, |row| Ok(row.text(0)? == prepared.digest))?.contains(&true) {
            messages.push("Password has been used before.".to_owned());
        }
    }
    Ok(messages)
}

fn prevents_reuse(conn: &mut Conn) -> Result<bool, StoreError> {
    conn.query_one(&Sql::new("SELECT password_prevent_reuse FROM security WHERE id = 1"), |row| row.flag(0))
}

/// Returns the rules for a new password, as sentences for the person who chooses it.
pub fn sentences(conn: &mut Conn) -> Result<Vec<String>, StoreError> {
    let mut sentences = complexity(conn)?.sentences();
    sentences.push(format!("At most {MAX_LENGTH} characters"));
    if prevents_reuse(conn)? {
        sentences.push(format!("None of your last {HISTORY_LENGTH} passwords"));
    }
    Ok(sentences)
}

/// Converts the messages of broken rules to sentences for the person who chose the password. Messages of other errors do not
/// change.
pub fn as_sentences(conn: &mut Conn, messages: &[String]) -> Result<Vec<String>, StoreError> {
    let complexity = complexity(conn)?;
    Ok(messages.iter().map(|message| complexity.sentence_of(message).unwrap_or_else(|| message.clone())).collect())
}

/// Adds a password to the user's history, which retains the last [`HISTORY_LENGTH`].
pub fn add_to_history(conn: &mut Conn, user: UserId, prepared: &HashedPassword) -> Result<(), StoreError> {
    conn.exec(
        &Sql::new("INSERT INTO password_history(user_id, digest) VALUES ($1, $2)").arg(user).arg(&prepared.digest),
    )?;
    let sql = Sql::new(
        "DELETE FROM password_history WHERE user_id = $1 AND id NOT IN \
         (SELECT h.id FROM password_history h WHERE h.user_id = $1 ORDER BY h.id DESC LIMIT $2)",
    );
    conn.exec(&sql.arg(user).arg(HISTORY_LENGTH)).map(|_| ())
}

/// Stores a user's password, adds it to the history, unlocks the account, and deletes all links for setting a password.
pub fn store(conn: &mut Conn, user: UserId, prepared: &HashedPassword, now: i64) -> Result<(), StoreError> {
    let sql = Sql::new(
        "UPDATE users SET password_hash = $1, password_salt = $2, password_set_at = $3, failed_attempts = 0, failed_since = NULL, \
         locked_until = NULL WHERE id = $4",
    );
    conn.exec(&sql.arg(&prepared.hash).arg(&prepared.salt).arg(now).arg(user))?;
    mailed_links::delete_links(conn, user)?;
    add_to_history(conn, user, prepared)
}

/// Returns the salt of a user's password history.
pub fn history_salt(conn: &mut Conn, user: UserId) -> Result<Option<String>, StoreError> {
    let sql = Sql::new("SELECT password_salt FROM users WHERE id = $1").arg(user);
    Ok(conn.query_optional(&sql, |row| Ok(row.opt_text(0)?.map(str::to_owned)))?.flatten())
}
