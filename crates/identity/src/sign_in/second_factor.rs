//! The second step of a sign-in: `/api/auth/second-factor/` (`docs/reference/second-factors.md`). A wrong proof counts as a wrong
//! password, and has the same 401.

use super::login::{ErasedPurpose, SESSION, SignInPurpose, complete_sign_in, failure_event};
use crate::account::{SignInAccount, sign_in_refused};
use crate::attempts::{self, AddressAttempt, check_address, count_failure};
use crate::second_factors::challenges;
use crate::second_factors::proof::{Proof, use_proof};
use crate::sessions;
use crate::system_events::{self, AuthEvent};
use kit::answer::Answer;
use kit::commit::{CommittedOutcome, write};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, HandlerFuture, Route, Schema};
use resource::openapi::{filled_text, object, titled};
use resource::{Errors, message};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use store::Conn;

/// The reason of the system event of a wrong proof.
const REASON: &str = "second_factor";

pub fn routes() -> Vec<Route> {
    vec![
        Route::post("/api/auth/second-factor/", "Prove a second factor", Handler::Async(prove))
            .public()
            .with_guard(attempts::guard)
            .with_body(Schema::Json(proof_schema))
            .answers(200, Schema::Json(sessions::tokens_schema))
            .answers_secret(),
    ]
}

fn proof_schema() -> Json {
    let text = |text: &str| json!({"type": "string", "description": text});
    let mut body = object([("challenge", filled_text())]);
    for (name, schema) in [
        ("code", text("The present code of a generator")),
        ("recovery_code", text("A recovery code")),
        (
            "credential",
            json!({"type": "object", "description": "The answer of a passkey, as WebAuthn writes it in JSON"}),
        ),
    ] {
        body["properties"][name] = schema;
    }
    titled("SecondFactorProof", body)
}

fn prove(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let (body, mut errors) = (request.object()?, Errors::new());
        let challenge = sent_challenge(&request, &mut errors)?;
        let proof = Proof::from_body(&body, &mut errors);
        errors.refuse()?;
        let proof = proof.ok_or_else(sign_in_refused)?;
        Ok(Answer::value(&SESSION.sign_in_by_factor(&request, challenge, proof).await?))
    })
}

/// Returns the challenge of a body. Adds an error if it is missing or not a text.
pub fn sent_challenge(request: &Request, errors: &mut Errors) -> Result<String, Refusal> {
    let mut wrong = |message: &str| {
        errors.add("challenge", message);
        Ok(String::new())
    };
    match request.object()?.get("challenge") {
        None => wrong(message::REQUIRED),
        Some(value) if value.is_null() => wrong(message::NULL),
        Some(value) => match value.as_str() {
            None => wrong(message::STRING),
            Some(text) if text.is_empty() => wrong(message::BLANK),
            Some(text) if text.contains('\0') => wrong(message::NUL),
            Some(text) => Ok(text.into_owned()),
        },
    }
}

impl<T: Send + 'static> SignInPurpose<T> {
    /// Signs in with the proof of a second factor.
    pub async fn sign_in_by_factor(
        self,
        request: &Arc<Request>,
        challenge: String,
        proof: Proof,
    ) -> Result<T, Refusal> {
        let (purpose, outcome) = self.erase();
        let decide =
            move |request: &Request, conn: &mut Conn| decide_proof(request, conn, &challenge, &proof, &purpose);
        attempt(request, decide).await?;
        outcome.take()
    }
}

/// Runs the decision of an attempt, which counts for the address of the client unless it succeeds.
pub async fn attempt(
    request: &Arc<Request>,
    decide: impl Fn(&Request, &mut Conn) -> Result<CommittedOutcome<()>, Refusal> + Send + Sync + 'static,
) -> Result<(), Refusal> {
    let mut attempt = AddressAttempt::begin(request)?;
    attempt.count_as_failed();
    let decided = write(request, decide).await;
    let has_succeeded = matches!(decided, Ok(CommittedOutcome::Done(())));
    if has_succeeded || decided.as_ref().is_err_and(|refusal| !refusal.is_by_rule()) {
        attempt.succeed();
    }
    decided?.into_result()
}

fn decide_proof(
    request: &Request,
    conn: &mut Conn,
    challenge: &str,
    proof: &Proof,
    purpose: &ErasedPurpose,
) -> Result<CommittedOutcome<()>, Refusal> {
    check_address(request, conn)?;
    let account = match challenges::find(request, conn, challenge, purpose.challenge)?
        .and_then(|challenge_row| challenge_row.user)
    {
        Some(user) => SignInAccount::load_by_id_for_change(conn, user)?,
        None => None,
    };
    // Another transaction may have ended the challenge while this one waited for the lock of the account.
    let lives = challenges::find(request, conn, challenge, purpose.challenge)?.is_some();
    let Some(account) = account.filter(|_| lives) else {
        system_events::write(request, conn, AuthEvent::LoginFailed, None, Some(REASON))?;
        count_failure(request, conn)?;
        return Ok(CommittedOutcome::Refused(sign_in_refused()));
    };
    let is_open = account.is_open_to_passwords(request) && (purpose.takes)(account.account_type);
    let proven = if is_open { use_proof(request, conn, account.id, challenge, proof)? } else { None };
    if let Some(reason) = proven {
        challenges::end(conn, challenge)?;
        complete_sign_in(request, conn, account.id, reason, purpose)?;
        return Ok(CommittedOutcome::Done(()));
    }
    let (event, reason) =
        if is_open { (AuthEvent::LoginFailed, REASON) } else { failure_event(request, Some(&account), true) };
    system_events::write(request, conn, event, Some(account.id), Some(reason))?;
    challenges::count_failure(conn, challenge, purpose.challenge)?;
    account.count_wrong_password(request, conn)?;
    count_failure(request, conn)?;
    Ok(CommittedOutcome::Refused(sign_in_refused()))
}
