//! The memory of large answers (`docs/reference/conventions.md`). It is reserved while an answer grows,
//! and released when the connection has sent the last byte.
//!
//! A request without memory does not wait with an incomplete answer: the work is undone, the request waits,
//! and the work runs again. A read can be repeated; a write reserves in its transaction, before the commit.

use crate::answer::{Answer, AnswerBody, Outcome};
use crate::bodies::ROOM_TIMEOUT;
use crate::refusal::Refusal;
use crate::request::Request;
use std::sync::{Mutex, MutexGuard};
use tokio::time::Instant;
use web::shares::Permit;

/// The largest answer, in bytes, that is sent without reserving memory.
const MAX_UNRESERVED: usize = 64 * 1024;
/// The first reservation of an answer, and the first amount for which a request waits if a reservation fails, in bytes.
const FIRST_RESERVED: usize = 256 * 1024;
const FIRST_AWAITED: usize = 8 * 1024 * 1024;

/// The memory that is reserved for the answer to a request.
#[derive(Default)]
pub struct AnswerRoom(Mutex<ReservedMemory>);

#[derive(Default)]
struct ReservedMemory {
    permit: Option<Permit>,
    /// The size of the last reservation that failed, in bytes.
    missing: usize,
}

impl AnswerRoom {
    /// Moves the reservation to the room of an inner call.
    pub(crate) fn hand_on(&self) -> AnswerRoom {
        let permit = self.reserved().permit.take();
        AnswerRoom(Mutex::new(ReservedMemory { permit, missing: 0 }))
    }

    /// Moves the reservation of an inner call back.
    pub(crate) fn take_back(&self, inner: &AnswerRoom) {
        let permit = inner.reserved().permit.take();
        self.reserved().permit = permit;
    }

    /// Returns the permit for an answer of this size; `None` if the answer does not need a permit.
    pub(crate) fn permit(&self, bytes: usize) -> Option<Permit> {
        let mut permit = self.reserved().permit.take().filter(|_| bytes > MAX_UNRESERVED)?;
        permit.shrink(bytes);
        Some(permit)
    }

    fn reserved(&self) -> MutexGuard<'_, ReservedMemory> {
        web::lock(&self.0)
    }
}

impl Request {
    /// Reserves memory for an answer that has `bytes` so far and may be copied once more. It does not wait.
    /// Without free memory it refuses, and the work is repeated when memory is free.
    pub fn reserve_answer(&self, bytes: usize) -> Result<(), Refusal> {
        if bytes <= MAX_UNRESERVED { Ok(()) } else { self.reserve(2 * bytes) }
    }

    /// Reserves memory for a complete answer.
    fn reserve_made(&self, answer: &Answer) -> Result<(), Refusal> {
        let bytes = answer.body.in_memory_bytes().len();
        if bytes <= MAX_UNRESERVED { Ok(()) } else { self.reserve(bytes) }
    }

    fn reserve(&self, bytes: usize) -> Result<(), Refusal> {
        let shares = &self.app.bodies.answers;
        let mut reserved = self.answer_room.reserved();
        let amount = bytes.next_power_of_two().max(FIRST_RESERVED);
        let has_room = match &mut reserved.permit {
            Some(permit) => permit.amount() >= bytes.min(shares.account_bound()) || permit.try_grow(amount),
            none => {
                *none = shares.try_acquire(&self.holder(), amount);
                none.is_some()
            }
        };
        if has_room {
            return Ok(());
        }
        reserved.missing = bytes;
        Err(Refusal::without_room())
    }

    /// Returns the reserved memory and waits for more; 503 if none becomes free in time.
    pub async fn await_room(&self, bytes: usize, deadline: Instant) -> Result<(), Refusal> {
        let bytes = {
            let mut reserved = self.answer_room.reserved();
            reserved.permit = None;
            reserved.missing.max(bytes)
        };
        let patience = deadline.saturating_duration_since(Instant::now());
        let permit = self.app.bodies.answers.acquire(&self.holder(), bytes, patience).await;
        let permit = permit.ok_or_else(Refusal::overloaded)?;
        self.answer_room.reserved().permit = Some(permit);
        Ok(())
    }
}

/// Runs work that can be repeated. If it lacks memory for its answer, waits for memory and runs it again.
pub async fn with_room<T, F>(request: &Request, work: impl Fn() -> F) -> Result<T, Refusal>
where
    F: Future<Output = Result<T, Refusal>>,
{
    let deadline = Instant::now() + ROOM_TIMEOUT;
    for awaited in [FIRST_AWAITED, usize::MAX] {
        match work().await {
            Err(refusal) if refusal.lacks_room() => request.await_room(awaited, deadline).await?,
            outcome => return outcome,
        }
    }
    work().await
}

/// Returns a complete answer with its memory reserved, for work that cannot be repeated. Returns the
/// answer even if memory is not available, since the work may have changed something.
pub(crate) async fn reserve_memory(request: &Request, answer: Answer) -> Outcome {
    let reservation = request.reserve_made(&answer);
    if reservation.is_err() {
        let _ = request.await_room(0, Instant::now() + ROOM_TIMEOUT).await;
    }
    Ok(answer)
}

/// Returns a complete answer if there is memory for it; otherwise a refusal.
pub(crate) fn reserve_or_refuse(request: &Request, outcome: Outcome) -> Outcome {
    let answer = outcome?;
    request.reserve_made(&answer)?;
    Ok(answer)
}

/// Attaches the permit to the body of an answer until it is sent.
pub(crate) fn with_permit(answer: Answer, permit: Permit) -> Answer {
    let body = match answer.body {
        AnswerBody::Whole(bytes) => AnswerBody::Whole(permit.attach_to(bytes)),
        other => other,
    };
    Answer { body, ..answer }
}
