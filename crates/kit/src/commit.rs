//! One transaction of a request, for whoever may still do it when it takes effect, and what follows its commit.

use crate::caller::Caller;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::rights;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::Conn;

/// A write that took longer may have waited for others.
const WAITED: Duration = Duration::from_millis(5);

/// What a transaction has come to that is kept either way: what was counted of a wrong password stays counted.
pub enum Kept<T> {
    Done(T),
    Refused(Refusal),
}

impl<T> Kept<T> {
    /// What the caller is told.
    pub fn told(self) -> Result<T, Refusal> {
        match self {
            Kept::Done(done) => Ok(done),
            Kept::Refused(refusal) => Err(refusal),
        }
    }
}

/// Runs a script in one transaction, once the caller is found to be still allowed what the request asks.
pub async fn write<T: Send + 'static>(
    request: &Arc<Request>,
    script: impl Fn(&Request, &mut Conn) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let shared = request.clone();
    let work = move |conn: &mut Conn| {
        let started = Instant::now();
        let readmitted = readmit(&shared, conn)?;
        let admitted = readmitted.as_ref().unwrap_or(&shared);
        let done = script(admitted, conn)?;
        // On PostgreSQL it may have waited for others, who may have taken the right meanwhile.
        if !shared.app.store.is_embedded() && started.elapsed() > WAITED {
            readmit(admitted, conn)?;
        }
        Ok(done)
    };
    let outcome = request.build.db.write(work).await;
    follow(request);
    outcome
}

/// What follows the commit.
fn follow(request: &Request) {
    let (rights, work) = request.effects.take();
    if rights > 0 {
        request.build.callers.reached(rights);
    }
    work.iter().for_each(|work| work(&request.app, &request.build));
}

/// What a write asks first in its transaction: whether whom it was admitted for may still do it
/// (`docs/reference/conventions.md`). The request to go on with, if his rights have changed.
pub fn readmit(request: &Request, conn: &mut Conn) -> Result<Option<Request>, Refusal> {
    let (Some(caller), Some(admission)) = (&request.caller, &request.admission) else { return Ok(None) };
    let now = request.app.clock.now();
    if admission.claims.expires_at <= now {
        return Err(Refusal::bad_token());
    }
    if !is_outdated(request, caller, rights::version(conn)?, now) {
        return Ok(None);
    }
    let found = (admission.by.load)(conn, admission.claims, now)?.ok_or_else(Refusal::bad_token)?;
    found.is_called_from(request.address)?;
    found.fulfils(request.requirement, now)?;
    Ok(Some(request.by(Arc::new(found))))
}

/// Whether a caller has to be read again: whatever ends a session but its time, or narrows addresses or rights, raises the
/// version of the rights; the write itself may have, too.
fn is_outdated(request: &Request, caller: &Caller, version: i64, now: i64) -> bool {
    let own = request.effects.raised_to();
    let is_known = version == caller.version.max(own) && (own == 0 || own == caller.version + 1);
    !is_known || caller.session_expires_at <= now
}
