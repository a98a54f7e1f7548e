//! Time-based codes of a generator (TOTP, RFC 6238): SHA-1, six digits, steps of 30 seconds.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use kit::ids::UserId;
use kit::request::Request;
use kit::secret::{Context, SealedColumn};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use ring::hmac;
use store::{Conn, Sql, StoreError};
use subtle::ConstantTimeEq;
use web::clock::{random_bytes, random_token};

/// The sealed secret of a generator.
pub const SECRET: SealedColumn = SealedColumn { table: "second_factors", column: "secret", row: "secret_row" };

/// The length of a secret, in bytes.
const SECRET_BYTES: usize = 20;
/// The length of a step, in microseconds.
const STEP_US: i64 = 30_000_000;
/// The number of digits of a code.
pub const DIGITS: usize = 6;
/// The number of past steps whose use remains stored.
const REMEMBERED_STEPS: i64 = 10;

/// A new secret in the forms in which it is stored and shown.
pub struct NewSecret {
    /// The random key of the row.
    pub row: String,
    pub sealed: String,
    /// The secret in Base32 (RFC 4648), without padding.
    pub shown: String,
}

/// Creates a secret.
pub fn new_secret(request: &Request) -> NewSecret {
    let (secret, row) = (random_bytes::<SECRET_BYTES>(), random_token());
    let sealed = request.app.keys.seal(&place(request, &row), STANDARD_NO_PAD.encode(secret).as_bytes());
    NewSecret { sealed, row, shown: base32(&secret) }
}

/// Returns the address that a generator reads, for example from a QR code.
pub fn uri(request: &Request, username: &str, secret: &str) -> String {
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let (issuer, account) = (encode(&request.build.domain), encode(username));
    format!(
        "otpauth://totp/{issuer}:{account}?secret={secret}&issuer={issuer}&algorithm=SHA1&digits={DIGITS}&period={}",
        STEP_US / 1_000_000
    )
}

fn place<'a>(request: &'a Request, row: &'a str) -> Context<'a> {
    Context { build: &request.build.uid, table: SECRET.table, column: SECRET.column, row }
}

fn base32(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    // The length of a secret is a multiple of five bytes.
    let groups = bytes.chunks(5).map(|group| group.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)));
    groups
        .flat_map(|group| (0..8).rev().map(move |at| char::from(LETTERS[(group >> (5 * at) & 31) as usize])))
        .collect()
}

/// A factor that may have generated a code.
struct Generator {
    id: i64,
    row: String,
    sealed: String,
}

/// Uses a code of one of the user's confirmed generators. Returns the id of the factor; `None` if the code is wrong or was used.
pub fn use_code(request: &Request, conn: &mut Conn, user: UserId, code: &str) -> Result<Option<i64>, StoreError> {
    use_code_of(request, conn, code, &Sql::new("user_id = $1 AND confirmed_at IS NOT NULL").arg(user))
}

/// Uses a code of one of the generators that match a condition.
pub fn use_code_of(request: &Request, conn: &mut Conn, code: &str, condition: &Sql) -> Result<Option<i64>, StoreError> {
    let digits: String = code.chars().filter(|character| !character.is_whitespace()).take(DIGITS + 1).collect();
    let mut sql =
        Sql::new("SELECT id, secret_row, secret FROM second_factors WHERE type = 'totp' AND secret IS NOT NULL AND ");
    let generators = conn.query_all(sql.append(condition).push(" ORDER BY id"), |row| {
        Ok(Generator { id: row.int(0)?, row: row.text(1)?.to_owned(), sealed: row.text(2)?.to_owned() })
    })?;
    for generator in generators {
        let Some(encoded) = request.app.keys.open(&place(request, &generator.row), &generator.sealed) else { continue };
        let Ok(secret) = STANDARD_NO_PAD.decode(encoded) else { continue };
        for step in matching_steps(&secret, &digits, request.now) {
            if use_step(conn, generator.id, step)? {
                return Ok(Some(generator.id));
            }
        }
    }
    Ok(None)
}

/// Marks a step of a factor as used. Returns false if it was used before, in any process.
fn use_step(conn: &mut Conn, factor: i64, step: i64) -> Result<bool, StoreError> {
    let forget = Sql::new("DELETE FROM used_code_steps WHERE factor_id = $1 AND step < $2");
    conn.exec(&forget.arg(factor).arg(step - REMEMBERED_STEPS))?;
    let sql = Sql::new("INSERT INTO used_code_steps(factor_id, step) VALUES ($1, $2) ON CONFLICT DO NOTHING");
    Ok(conn.exec(&sql.arg(factor).arg(step))? == 1)
}

/// Returns the steps beside `now` whose code is `digits`. All codes are compared in constant time.
fn matching_steps(secret: &[u8], digits: &str, now: i64) -> Vec<i64> {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret);
    let current = now.div_euclid(STEP_US);
    let steps = [current, current - 1, current + 1];
    steps.into_iter().filter(|step| bool::from(code_at(&key, *step).as_bytes().ct_eq(digits.as_bytes()))).collect()
}

/// Returns the code of a step (RFC 4226, section 5.3).
fn code_at(key: &hmac::Key, step: i64) -> String {
    let tag = hmac::sign(key, &step.to_be_bytes());
    let bytes = tag.as_ref();
    let at = usize::from(bytes[bytes.len() - 1] & 15);
    let number = bytes[at..at + 4].iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte)) & 0x7fff_ffff;
    format!("{:0width$}", number % 10_u32.pow(DIGITS as u32), width = DIGITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The secret of the examples of RFC 6238.
    const EXAMPLE: &[u8] = b"12345678901234567890";

    #[test]
    fn the_codes_are_those_of_the_standard() {
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, EXAMPLE);
        for (second, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ] {
            assert_eq!(code_at(&key, second / 30), code, "{second}");
        }
    }

    #[test]
    fn a_code_matches_its_step_and_one_step_beside_it() {
        let steps = |digits, second: i64| matching_steps(EXAMPLE, digits, second * 1_000_000);
        for (second, matches) in [(29, true), (0, true), (30, true), (59, true), (60, true), (89, true), (90, false)] {
            assert_eq!(steps("287082", second) == [1], matches, "{second}");
        }
        for digits in ["", "28708", "2870822", "287083", "２８７０８２"] {
            assert!(steps(digits, 59).is_empty(), "{digits}");
        }
    }

    #[test]
    fn a_secret_is_shown_in_base32() {
        assert_eq!(base32(EXAMPLE), "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
    }
}
