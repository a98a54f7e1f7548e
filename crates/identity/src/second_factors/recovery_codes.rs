//! Recovery codes: `/api/users/me/second-factors/recovery-codes/`. Each replaces a factor once, for example after its loss.

use super::notices::{self, Notice};
use super::owner::{lock_account, require_person, require_recent_sign_in};
use super::rules::SECOND_FACTOR_RULES;
use http::Method;
use kit::answer::{Answer, Outcome};
use kit::ids::UserId;
use kit::log;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use kit::secret::{Context, SealedColumn};
use resource::openapi::{object, titled};
use serde_json::{Value as Json, json};
use store::{Conn, Sql, StoreError};
use subtle::ConstantTimeEq;
use web::clock::{random_bytes, random_token, sha256_hex};

/// The sealed hash of a recovery code.
pub const CODE_HASH: SealedColumn = SealedColumn { table: "recovery_codes", column: "code_hash", row: "code_row" };

/// The name of the member with new codes.
pub const RECOVERY_CODES: &str = "recovery_codes";
/// The number of codes that an account gets.
const COUNT: usize = 10;
/// The number of characters of a code, of five random bits each.
const LENGTH: usize = 10;
/// The alphabet of Crockford's Base32.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

const PATH: &str = "/api/users/me/second-factors/recovery-codes/";

pub fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, PATH, "How many recovery codes are left", Handler::ShortRead(view))
            .answers(200, Schema::Json(|| titled("RecoveryCodesLeft", object([("left", json!({"type": "integer"}))]))))
            .while_lacking_factor(),
        Route::post(PATH, "Replace the recovery codes", Handler::Write(replace))
            .action("replace")
            .answers(200, Schema::Json(|| titled("RecoveryCodes", object([(RECOVERY_CODES, schema())]))))
            .answers_secret()
            .while_lacking_factor(),
    ]
}

/// Returns the schema of new codes.
pub fn schema() -> Json {
    json!({"type": "array", "items": {"type": "string"}, "description": "Shown this once"})
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    let user = require_person(request)?;
    Ok(Answer::value(&json!({"left": count_left(conn, user)?})))
}

fn replace(request: &Request, conn: &mut Conn) -> Outcome {
    let user = require_person(request)?;
    require_recent_sign_in(request, conn)?;
    if lock_account(conn, user)?.confirmed == 0 {
        return Err(Refusal::bad_request("Action is not available."));
    }
    let codes = create(request, conn, user)?;
    notices::send(request, conn, user, Notice::RecoveryCodesReplaced)?;
    log::write(request, conn, "replace_recovery_codes", &SECOND_FACTOR_RULES, None, "", log::Diff::new())?;
    Ok(Answer::value(&json!({RECOVERY_CODES: codes})))
}

/// Returns the number of codes that a user has left.
pub fn count_left(conn: &mut Conn, user: UserId) -> Result<i64, StoreError> {
    conn.query_one(&Sql::new("SELECT count(*) FROM recovery_codes WHERE user_id = $1").arg(user), |row| row.int(0))
}

/// Replaces the codes of a user, and returns the new ones in the form in which they are shown.
pub fn create(request: &Request, conn: &mut Conn, user: UserId) -> Result<Vec<String>, StoreError> {
    conn.exec(&Sql::new("DELETE FROM recovery_codes WHERE user_id = $1").arg(user))?;
    let codes: Vec<String> = (0..COUNT).map(|_| random_code()).collect();
    for code in &codes {
        let row = random_token();
        let sealed = request.app.keys.seal(&place(request, &row), sha256_hex(code).as_bytes());
        let sql = Sql::new("INSERT INTO recovery_codes(user_id, code_hash, code_row) VALUES ($1, $2, $3)");
        conn.exec(&sql.arg(user).arg(sealed).arg(row))?;
    }
    Ok(codes.iter().map(|code| format!("{}-{}", &code[..LENGTH / 2], &code[LENGTH / 2..])).collect())
}

fn random_code() -> String {
    let number = u64::from_le_bytes(random_bytes());
    (0..LENGTH).map(|at| char::from(ALPHABET[(number >> (5 * at) & 31) as usize])).collect()
}

fn place<'a>(request: &'a Request, row: &'a str) -> Context<'a> {
    Context { build: &request.build.uid, table: CODE_HASH.table, column: CODE_HASH.column, row }
}

/// Reads a code without case, spaces and hyphens; `None` if it cannot be a code. Letters that resemble a digit are that digit.
fn normalize(text: &str) -> Option<String> {
    let code: String = text
        .chars()
        .filter(|character| *character != '-' && !character.is_whitespace())
        .take(LENGTH + 1)
        .map(|character| match character.to_ascii_uppercase() {
            'O' => '0',
            'I' | 'L' => '1',
            other => other,
        })
        .collect();
    let is_code = code.len() == LENGTH && code.bytes().all(|byte| ALPHABET.contains(&byte));
    is_code.then_some(code)
}

/// A stored code.
struct StoredCode {
    id: i64,
    row: String,
    sealed: String,
}

/// Uses a code of a user. Returns false if it is wrong or was used.
pub fn use_code(request: &Request, conn: &mut Conn, user: UserId, text: &str) -> Result<bool, StoreError> {
    let Some(code) = normalize(text) else { return Ok(false) };
    let hash = sha256_hex(&code);
    let sql = Sql::new("SELECT id, code_row, code_hash FROM recovery_codes WHERE user_id = $1").arg(user);
    let stored = conn.query_all(&sql, |row| {
        Ok(StoredCode { id: row.int(0)?, row: row.text(1)?.to_owned(), sealed: row.text(2)?.to_owned() })
    })?;
    let is_right = |stored: &&StoredCode| {
        let opened = request.app.keys.open(&place(request, &stored.row), &stored.sealed);
        opened.is_some_and(|opened| bool::from(opened.ct_eq(hash.as_bytes())))
    };
    let Some(recovery_code) = stored.iter().find(is_right) else { return Ok(false) };
    Ok(conn.exec(&Sql::new("DELETE FROM recovery_codes WHERE id = $1").arg(recovery_code.id))? == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_in_the_forms_in_which_people_write_it() {
        let code = "A0B1C-2D3E4";
        for spelling in [code, "a0b1c2d3e4", " AOBLC 2D3E4 ", "aobic-2d3e4", "A-0-B-1-C-2-D-3-E-4"] {
            assert_eq!(normalize(spelling).as_deref(), Some("A0B1C2D3E4"), "{spelling}");
        }
        for spelling in ["", "123456", "A0B1C-2D3E", "A0B1C-2D3E45", "U0B1C-2D3E4", "Ä0B1C-2D3E4"] {
            assert_eq!(normalize(spelling), None, "{spelling}");
        }
    }

    #[test]
    fn a_code_has_fifty_random_bits() {
        let codes: std::collections::HashSet<String> = (0..1000).map(|_| random_code()).collect();
        assert_eq!(codes.len(), 1000);
        assert!(codes.iter().all(|code| normalize(code).as_deref() == Some(code)));
    }
}
