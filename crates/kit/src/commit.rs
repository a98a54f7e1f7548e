//! Runs the write of a request: one transaction that checks the caller's rights again, and the effects after its commit.

use crate::answer::Outcome;
use crate::caller::Caller;
use crate::idempotency::script::run_script;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::rights;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::Conn;

/// The duration from which on a write counts as one that has waited for other transactions.
const MIN_WAIT: Duration = Duration::from_millis(5);

/// The outcome of a transaction that is committed even if it refuses, for example to store the count of wrong passwords.
pub enum CommittedOutcome<T> {
    Done(T),
    Refused(Refusal),
}

impl<T> CommittedOutcome<T> {
    /// The outcome as a result.
    pub fn into_result(self) -> Result<T, Refusal> {
        match self {
            CommittedOutcome::Done(outcome) => Ok(outcome),
            CommittedOutcome::Refused(refusal) => Err(refusal),
        }
    }
}

/// Runs a script in one transaction, after a check that the caller may still do what the request asks.
pub async fn write<T: Send + 'static>(
    request: &Arc<Request>,
    script: impl Fn(&Request, &mut Conn) -> Result<T, Refusal> + Send + Sync + 'static,
) -> Result<T, Refusal> {
    run(request, script, false).await
}

/// Runs the write that makes the answer of a request. It stores the answer in its transaction, if the request has an `Idempotency-Key`.
pub async fn write_answer(
    request: &Arc<Request>,
    script: impl Fn(&Request, &mut Conn) -> Outcome + Send + Sync + 'static,
) -> Outcome {
    write(request, move |request, conn| run_script(request, conn, &script)).await
}

/// Runs a script that creates, changes or drops tables and makes the answer of a request, as [`write_answer`] does.
pub async fn alter_answer(
    request: &Arc<Request>,
    script: impl Fn(&Request, &mut Conn) -> Outcome + Send + Sync + 'static,
) -> Outcome {
    alter(request, move |request, conn| run_script(request, conn, &script)).await
}

/// Runs a script that creates, changes or drops tables, with the same checks as [`write`].
pub async fn alter<T: Send + 'static>(
    request: &Arc<Request>,
    script: impl Fn(&Request, &mut Conn) -> Result<T, Refusal> + Send + Sync + 'static,
) -> Result<T, Refusal> {
    run(request, script, true).await
}

/// The script of a write.
type Script<T> = dyn Fn(&Request, &mut Conn) -> Result<T, Refusal> + Send + Sync;

async fn run<T: Send + 'static>(
    request: &Arc<Request>,
    script: impl Fn(&Request, &mut Conn) -> Result<T, Refusal> + Send + Sync + 'static,
    alters_tables: bool,
) -> Result<T, Refusal> {
    // The type is erased, so that this code is compiled once for each type of outcome.
    let script: Arc<Script<T>> = Arc::new(script);
    let attempt = |keeps_rights: bool| {
        let (shared, script, db) = (request.clone(), script.clone(), request.build.db.clone());
        let work = move |conn: &mut Conn| attempt(&shared, conn, script.as_ref(), keeps_rights);
        async move { if alters_tables { db.alter(work).await } else { db.write(work).await } }
    };
    let outcome = match attempt(false).await {
        Err(refusal) if refusal.is_outdated() => attempt(refusal.is_by_rule()).await,
        outcome => outcome,
    };
    if outcome.is_err() {
        // Closures describe what was written.
        request.effects.take_closures();
    }
    run_effects(request);
    outcome
}

/// Runs a script between two checks of its caller. If rights have changed meanwhile, refuses as
/// outdated, and the script must run again. `keeps_rights` locks the rights on single objects meanwhile.
fn attempt<T>(request: &Request, conn: &mut Conn, script: &Script<T>, keeps_rights: bool) -> Result<T, Refusal> {
    // A run that was rolled back has no effects.
    request.effects.take_effects();
    request.effects.take_closures();
    if keeps_rights {
        rights::lock_object_rights(conn)?;
    }
    let started = Instant::now();
    let (readmitted, object_rights) = readmit(request, conn)?;
    request.effects.set_object_rights(object_rights);
    let admitted = readmitted.as_ref().unwrap_or(request);
    let outcome = script(admitted, conn)?;
    // On PostgreSQL the script may have waited for a transaction that revoked a right on which it relied.
    let has_waited = !request.app.store.is_embedded() && started.elapsed() > MIN_WAIT;
    if has_waited && !request.effects.caller_was_checked() && has_other_rights(admitted, conn)? {
        return Err(Refusal::outdated());
    }
    if request.effects.ends_object_rights() && !rights::raise_object_rights(conn)? {
        return Err(Refusal::outdated());
    }
    Ok(outcome)
}

/// Checks the caller again now instead of at the end, in a write that ends the caller's session.
pub fn check_caller_again(request: &Request, conn: &mut Conn) -> Result<(), Refusal> {
    if !request.app.store.is_embedded() && has_other_rights(request, conn)? {
        return Err(Refusal::outdated());
    }
    request.effects.set_caller_was_checked();
    Ok(())
}

/// Returns whether a caller's rights have changed since the admission, or may have changed. Rights on
/// single objects may have changed if their version differs.
fn has_other_rights(admitted: &Request, conn: &mut Conn) -> Result<bool, Refusal> {
    let (readmitted, object_rights_now) = readmit(admitted, conn)?;
    let object_rights = admitted.effects.object_rights();
    let Some(caller) = &admitted.caller else { return Ok(false) };
    let is_other = |now: &Caller| now.account_type != caller.account_type || now.permissions != caller.permissions;
    let is_other = readmitted.and_then(|request| request.caller).is_some_and(|now| is_other(&now));
    Ok(is_other || object_rights_now != object_rights && !caller.is_super())
}

/// Runs the effects of a write after its commit.
fn run_effects(request: &Request) {
    let with = request.effects.take_closures();
    let (rights, work) = request.effects.take_effects();
    if rights > 0 {
        request.build.callers.evict_before(rights);
    }
    work.iter().for_each(|work| work(&request.app, &request.build));
    with.into_iter().for_each(|work| work(&request.app, &request.build));
}

/// Checks in the transaction of a write that the caller may still do what the request asks
/// (`docs/reference/conventions.md`). Returns the version of the rights on single objects. If the
/// rights have changed, also returns the request with the caller read again.
fn readmit(request: &Request, conn: &mut Conn) -> Result<(Option<Request>, i64), Refusal> {
    let (Some(caller), Some(admission)) = (&request.caller, &request.admission) else { return Ok((None, 0)) };
    let now = request.app.clock.now();
    if admission.claims.expires_at <= now {
        return Err(Refusal::bad_token());
    }
    let [version, object_rights] = rights::versions(conn)?;
    if !is_outdated(request, caller, version, now) {
        return Ok((None, object_rights));
    }
    let caller = (admission.by.load)(conn, admission.claims, now)?.ok_or_else(Refusal::bad_token)?;
    caller.check_address(request.address)?;
    caller.fulfils(request.requirement, now)?;
    Ok((Some(request.with_caller(Arc::new(caller))), object_rights))
}

/// Returns whether a caller must be read again: the session has expired, or another transaction has raised the version of the
/// rights. Every change of rights, addresses and sessions raises the version; the write itself may have raised it by one.
fn is_outdated(request: &Request, caller: &Caller, version: i64, now: i64) -> bool {
    let own = request.effects.raised_to();
    let is_known = version == caller.version.max(own) && (own == 0 || own == caller.version + 1);
    !is_known || caller.session_expires_at <= now
}
