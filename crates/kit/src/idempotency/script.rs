//! Stores the answer of a request with an `Idempotency-Key` in the transaction of its change.

use super::rows::{KeyState, StoredAnswer, insert, state};
use crate::answer::Outcome;
use crate::refusal::Refusal;
use crate::request::Request;
use http::StatusCode;
use std::sync::atomic::Ordering;
use store::Conn;

/// Runs the script of a write. If the request has a key, stores the answer in the same transaction.
///
/// # Errors
/// A refusal with [`Refusal::meets_used_key`] if another process works on the key, or has stored its answer.
pub(crate) fn run_script(
    request: &Request,
    conn: &mut Conn,
    script: impl Fn(&Request, &mut Conn) -> Outcome,
) -> Outcome {
    let Some(key) = &request.idempotency else { return script(request, conn) };
    key.is_stored.store(false, Ordering::Relaxed);
    match state(request, conn, key)? {
        KeyState::Free => {}
        KeyState::AtWork | KeyState::Answered(_) => return Err(at_work().with_used_key()),
    }
    let answer = script(request, conn)?;
    // The key of any other answer stays free.
    if answer.status.is_success() {
        insert(request, conn, key, &StoredAnswer::new(request, key, &answer))?;
    }
    Ok(answer)
}

/// 409: another request with the key is at work.
pub(crate) fn at_work() -> Refusal {
    Refusal::detail(StatusCode::CONFLICT, "A request with this Idempotency-Key is at work.")
        .header(http::header::RETRY_AFTER, "1")
}
