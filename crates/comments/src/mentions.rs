//! Mentions of accounts in the text of a comment: `@[12]`.

use crate::subject::{Subject, is_staff};
use identity::visibility::visible_users;
use kit::account_type::AccountType;
use kit::caller::Caller;
use kit::ids::UserId;
use kit::refusal::Refusal;
use records::rights::VIEW;
use records::single_records::{RecordAccess, actions_on};
use resource::{Errors, message};
use store::{Conn, Sql, StoreError};

/// The maximum number of accounts that a comment mentions.
const MAX_MENTIONS: usize = 20;
/// The member of errors about mentions.
const MENTIONS: &str = "mentions";

/// Returns the accounts that a text mentions, each once, in the order of the text.
fn mentioned(text: &str) -> Vec<UserId> {
    let mut users = Vec::new();
    for part in text.split("@[").skip(1) {
        let digits = part.split(']').next().filter(|digits| digits.len() < part.len()).unwrap_or("");
        let is_id = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
        let Some(user) = digits.parse().ok().filter(|_| is_id).map(UserId::new) else { continue };
        if !users.contains(&user) {
            users.push(user);
        }
    }
    users
}

/// Returns the accounts that a text mentions. Adds an error for each that the caller may not mention.
///
/// `former` are the accounts that the comment mentions already.
pub fn check(
    conn: &mut Conn,
    caller: &Caller,
    subject: &Subject,
    text: &str,
    is_internal: bool,
    former: &[UserId],
    errors: &mut Errors,
) -> Result<Vec<UserId>, StoreError> {
    let users = mentioned(text);
    if users.len() > MAX_MENTIONS {
        errors.add(MENTIONS, message::too_many(MAX_MENTIONS));
        return Ok(Vec::new());
    }
    let others: Vec<UserId> =
        users.iter().copied().filter(|user| *user != caller.user && !former.contains(user)).collect();
    if others.is_empty() {
        return Ok(users);
    }
    let mut sql = Sql::new(
        "SELECT t.id, t.account_type FROM users t WHERE t.is_deleted = 0 AND t.status <> 'anonymized' AND t.id",
    );
    sql.push_any(others.iter().copied()).push(" AND ((").append(&visible_users(caller)).push(") OR t.id = ");
    sql.bind(subject.owner().unwrap_or(UserId::NONE));
    sql.push(" OR t.id IN (SELECT w.created_by FROM comments w WHERE ");
    subject.push_condition(&mut sql, "w");
    sql.push(if is_staff(caller.account_type) { "))" } else { " AND w.is_internal = 0))" });
    let known = conn.query_all(&sql, |row| Ok((row.id::<UserId>(0)?, AccountType::parse(row.text(1)?))))?;
    let may_be_mentioned =
        |account_type: AccountType| account_type.is_standard() && (!is_internal || is_staff(account_type));
    for user in others {
        let account_type = known.iter().find(|(id, _)| *id == user).and_then(|(_, account_type)| *account_type);
        if !account_type.is_some_and(may_be_mentioned) {
            errors.add(MENTIONS, message::invalid_id_message(user));
        }
    }
    Ok(users)
}

/// Replaces the mentions of a comment.
pub fn store(conn: &mut Conn, comment: i64, users: &[UserId]) -> Result<(), StoreError> {
    conn.exec(&Sql::new("DELETE FROM comment_mentions WHERE comment_id = $1").arg(comment))?;
    for (place, user) in users.iter().enumerate() {
        let sql = Sql::new("INSERT INTO comment_mentions(comment_id, place, user_id) VALUES ($1, $2, $3)");
        conn.exec(&sql.arg(comment).arg(place as i64).arg(*user))?;
    }
    Ok(())
}

/// Returns the accounts that a comment mentions.
pub fn load(conn: &mut Conn, comment: i64) -> Result<Vec<UserId>, StoreError> {
    let sql = Sql::new("SELECT user_id FROM comment_mentions WHERE comment_id = $1 ORDER BY place");
    conn.query_all(&sql.arg(comment), |row| row.id(0))
}

/// Returns for each account that a comment mentions, whether it may read the comment.
pub fn reaches(
    conn: &mut Conn,
    record: &RecordAccess,
    is_internal: bool,
    users: &[UserId],
) -> Result<Vec<bool>, Refusal> {
    let mut reached = Vec::with_capacity(users.len());
    for user in users {
        let caller = identity::as_caller(conn, *user)?;
        let may_read = identity::is_active(conn, *user)? && (!is_internal || is_staff(caller.account_type));
        let actions = match may_read {
            true => actions_on(conn, &caller, &[(record.class.id, record.id)])?.remove(&record.id).unwrap_or(0),
            false => 0,
        };
        reached.push(actions & VIEW != 0);
    }
    Ok(reached)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_brackets_are_mentions() {
        for (text, ids) in [
            ("@[12] and @[3], @[12] again", &[12, 3][..]),
            ("@[012] @[0] @[] @[1x] @[-1] @[ 1] @12 [12]", &[]),
            ("@[7", &[]),
            ("@[@[8]]", &[8]),
            ("@[99999999999999999999]", &[]),
        ] {
            let ids: Vec<UserId> = ids.iter().copied().map(UserId::new).collect();
            assert_eq!(mentioned(text), ids, "{text}");
        }
    }
}
