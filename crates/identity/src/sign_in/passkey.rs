//! Signing in with a passkey alone: `/api/auth/passkey/` (`docs/reference/second-factors.md`). The passkey verifies its user, so it
//! replaces the password and the second factor.

use super::login::{ErasedPurpose, SESSION, SignInPurpose};
use super::second_factor::{attempt, sent_challenge};
use crate::account::{SignInAccount, sign_in_refused};
use crate::attempts::{self, check_address, count_failure};
use crate::second_factors::challenges::{self, ChallengePurpose, for_passkey};
use crate::second_factors::passkeys::{self, AssertionRequest};
use crate::second_factors::proof::use_passkey;
use crate::sessions;
use crate::system_events::{self, AuthEvent};
use kit::answer::{Answer, Outcome};
use kit::commit::CommittedOutcome;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, HandlerFuture, Route, Schema};
use resource::openapi::{filled_text, object, titled};
use resource::{Errors, message};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use store::{Conn, Sql};

/// The reason of the system events.
const REASON: &str = "passkey";

pub fn routes() -> Vec<Route> {
    vec![
        Route::post("/api/auth/passkey/", "Begin to sign in with a passkey alone", Handler::Write(begin))
            .public()
            .with_guard(attempts::guard)
            .answers(200, Schema::Json(challenge_schema))
            .answers_secret()
            .action("begin"),
        Route::post("/api/auth/passkey/confirm/", "Sign in with a passkey alone", Handler::Async(confirm))
            .public()
            .with_guard(attempts::guard)
            .with_body(Schema::Json(answer_schema))
            .answers(200, Schema::Json(sessions::tokens_schema))
            .answers_secret(),
    ]
}

fn challenge_schema() -> Json {
    let options = json!({"type": "object", "description": "The options of WebAuthn"});
    titled("PasskeyChallenge", object([("challenge", json!({"type": "string"})), ("options", options)]))
}

fn answer_schema() -> Json {
    let credential = json!({"type": "object", "description": "The answer of a passkey, as WebAuthn writes it in JSON"});
    titled("PasskeySignIn", object([("challenge", filled_text()), ("credential", credential)]))
}

fn begin(request: &Request, conn: &mut Conn) -> Outcome {
    check_address(request, conn)?;
    let challenge = challenges::begin_without_user(request, conn)?;
    let options = passkeys::open_request_options(request, &for_passkey(&challenge)).ok_or_else(Refusal::not_found)?;
    Ok(Answer::value(&json!({"challenge": challenge, "options": options})))
}

fn confirm(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let mut errors = Errors::new();
        let challenge = sent_challenge(&request, &mut errors)?;
        let credential = match request.object()?.get("credential") {
            Some(value) if value.type_name() == "dict" => value.text().to_owned(),
            value => {
                errors.add(
                    "credential",
                    match value {
                        None => message::REQUIRED.to_owned(),
                        Some(value) if value.is_null() => message::NULL.to_owned(),
                        Some(value) => message::not_an_object(value.type_name()),
                    },
                );
                String::new()
            }
        };
        errors.refuse()?;
        Ok(Answer::value(&SESSION.sign_in_by_passkey(&request, challenge, credential).await?))
    })
}

impl<T: Send + 'static> SignInPurpose<T> {
    /// Signs in with a passkey alone.
    pub async fn sign_in_by_passkey(
        self,
        request: &Arc<Request>,
        challenge: String,
        credential: String,
    ) -> Result<T, Refusal> {
        let (purpose, outcome) = self.erase();
        let decide = move |request: &Request, conn: &mut Conn| decide(request, conn, &challenge, &credential, &purpose);
        attempt(request, decide).await?;
        outcome.take()
    }
}

fn decide(
    request: &Request,
    conn: &mut Conn,
    challenge: &str,
    credential: &str,
    purpose: &ErasedPurpose,
) -> Result<CommittedOutcome<()>, Refusal> {
    check_address(request, conn)?;
    let account = match passkeys::owner(conn, credential)? {
        Some(user) => SignInAccount::load_by_id_for_change(conn, user)?,
        None => None,
    };
    let lives = challenges::find(request, conn, challenge, ChallengePurpose::Passkey)?.is_some();
    let is_open = |account: &&SignInAccount| {
        account.is_active
            && account.may_use_password()
            && account.may_call_from(request)
            && (purpose.takes)(account.account_type)
    };
    if let Some(account) = account.as_ref().filter(|_| lives).filter(is_open) {
        let signed = for_passkey(challenge);
        let assertion_request = AssertionRequest { challenge: &signed, user: Some(account.id), must_verify_user: true };
        let is_right = use_passkey(request, conn, credential, &assertion_request)?.is_some();
        // Two requests may use the challenge at once for two accounts.
        if is_right && challenges::end(conn, challenge)? {
            // A lock after wrong passwords stays, since it does not concern passkeys.
            let sql =
                Sql::new("UPDATE users SET last_login = $1, failed_attempts = 0, failed_since = NULL WHERE id = $2");
            conn.exec(&sql.arg(request.now).arg(account.id))?;
            system_events::write(request, conn, AuthEvent::LoginSuccess, Some(account.id), Some(REASON))?;
            (purpose.then)(request, conn, account.id)?;
            return Ok(CommittedOutcome::Done(()));
        }
    }
    let event = match &account {
        Some(account) if !account.is_active => AuthEvent::LoginFailedInactiveAccount,
        Some(account) if !account.may_use_password() => AuthEvent::LoginFailedInvalidAuthMethod,
        _ => AuthEvent::LoginFailed,
    };
    system_events::write(request, conn, event, account.map(|account| account.id), Some(REASON))?;
    challenges::count_failure(conn, challenge, ChallengePurpose::Passkey)?;
    count_failure(request, conn)?;
    Ok(CommittedOutcome::Refused(sign_in_refused()))
}
