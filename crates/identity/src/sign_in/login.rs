//! `/api/auth/login/`, `refresh/` and `logout/` (`docs/reference/sign-in.md`). All failed logins get the same 401 after the same
//! work: a read, a hash, a write. Neither the answer nor its timing reveals the reason.

use super::second_step::{begin_second_step, second_step_schema};
use crate::account::{SignInAccount, sign_in_refused};
use crate::attempts::{self, AddressAttempt, check_address, count_failure};
use crate::hasher::{Hasher, QueuePath};
use crate::passwords;
use crate::second_factors::challenges::ChallengePurpose;
use crate::second_factors::proof::SecondStep;
use crate::sessions::{self, RefreshOutcome, SessionOrigin};
use crate::single_sign_on::logout;
use crate::system_events::{self, AuthEvent};
use http::StatusCode;
use kit::account_type::AccountType;
use kit::answer::{Answer, Outcome};
use kit::commit::{CommittedOutcome, write};
use kit::ids::UserId;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, HandlerFuture, Route, Schema};
use resource::openapi::{filled_text, object, titled};
use serde_json::{Value as Json, json};
use std::sync::{Arc, Mutex};
use store::{Conn, Sql};

pub fn routes() -> Vec<Route> {
    vec![
        Route::post("/api/auth/login/", "Sign in with a password", Handler::Async(login))
            .public()
            .with_guard(attempts::guard)
            .with_body(Schema::Json(login_schema))
            .answers(200, Schema::Json(sessions::tokens_schema))
            .also_answers(202, Schema::Json(second_step_schema))
            .answers_secret(),
        Route::post("/api/auth/refresh/", "Exchange a refresh token for a new pair", Handler::Write(refresh))
            .public()
            .with_body(Schema::Json(refresh_token_schema))
            .answers(200, Schema::Json(sessions::tokens_schema))
            .answers_secret(),
        Route::post("/api/auth/logout/", "End the session of a refresh token", Handler::Write(logout))
            .public()
            .with_body(Schema::Json(logout_schema))
            .answers(204, Schema::Nothing)
            .also_answers(200, Schema::Json(logged_out_schema))
            .answers_secret(),
    ]
}

fn login_schema() -> Json {
    let mut username = filled_text();
    username["examples"] = json!(["anna.berg@example.com"]);
    titled("Login", object([("username", username), ("password", filled_text())]))
}

fn refresh_token_schema() -> Json {
    titled("Refresh", object([("refresh_token", filled_text())]))
}

fn logout_schema() -> Json {
    let mut body = titled("Logout", refresh_token_schema());
    body["properties"]["single_sign_on"] = wants_provider();
    body
}

fn wants_provider() -> Json {
    json!({"type": "boolean", "description": "True to end the session at the provider, too"})
}

/// Returns the schema of the body of a logout without a refresh token.
pub fn wants_provider_schema() -> Json {
    titled("BrowserLogout", json!({"type": "object", "properties": {"single_sign_on": wants_provider()}}))
}

/// Returns the schema of the answer to a logout that continues at the provider.
pub fn logged_out_schema() -> Json {
    let text = "Address that ends the session at the provider";
    titled("LoggedOut", object([("logout_url", json!({"type": "string", "description": text}))]))
}

fn login(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let [username, password] = request.texts(["username", "password"])?;
        Ok(match SESSION.sign_in_by_password(&request, username, password).await? {
            FirstStep::SignedIn(tokens) => Answer::value(&tokens),
            FirstStep::NeedsFactor(step) => Answer { status: StatusCode::ACCEPTED, ..Answer::value(&step.to_json()) },
        })
    })
}

/// Signing in to a session with tokens.
pub const SESSION: SignInPurpose<Json> = SignInPurpose {
    challenge: ChallengePurpose::Session,
    takes: |_| true,
    then: |request, conn, user| Ok(sessions::begin(request, conn, user, SessionOrigin::Password)?),
};

/// The purpose of a sign-in.
pub struct SignInPurpose<T> {
    /// The purpose of a challenge between its steps.
    pub challenge: ChallengePurpose,
    /// Returns whether accounts of a type may sign in for this purpose. Others are refused like a wrong password.
    pub takes: fn(AccountType) -> bool,
    /// Runs for the user, in the transaction that decides the sign-in.
    pub then: fn(&Request, &mut Conn, UserId) -> Result<T, Refusal>,
}

impl<T> Clone for SignInPurpose<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SignInPurpose<T> {}

/// The outcome of a right password.
pub enum FirstStep<T> {
    SignedIn(T),
    /// The account has a second factor.
    NeedsFactor(SecondStep),
}

impl<T> FirstStep<T> {
    /// Converts the outcome of a sign-in.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> FirstStep<U> {
        match self {
            FirstStep::SignedIn(outcome) => FirstStep::SignedIn(convert(outcome)),
            FirstStep::NeedsFactor(step) => FirstStep::NeedsFactor(step),
        }
    }
}

/// Runs for the user of a completed sign-in, and puts the outcome aside.
type ErasedCompletion = dyn Fn(&Request, &mut Conn, UserId) -> Result<(), Refusal> + Send + Sync;

/// A purpose without the type of its outcome, so that signing in is compiled once. The outcome is put aside.
pub struct ErasedPurpose {
    pub challenge: ChallengePurpose,
    pub takes: fn(AccountType) -> bool,
    pub then: Box<ErasedCompletion>,
}

/// The place for the outcome of an [`ErasedPurpose`].
pub struct PurposeOutcome<T>(Arc<Mutex<Option<T>>>);

impl<T> PurposeOutcome<T> {
    /// Returns the outcome of a sign-in that has succeeded.
    pub fn take(&self) -> Result<T, Refusal> {
        web::lock(&self.0).take().ok_or_else(sign_in_refused)
    }
}

impl<T: Send + 'static> SignInPurpose<T> {
    /// Returns the purpose without its type, and the place for its outcome.
    pub fn erase(self) -> (ErasedPurpose, PurposeOutcome<T>) {
        let outcome = Arc::new(Mutex::new(None));
        let (place, complete) = (outcome.clone(), self.then);
        let complete = Box::new(move |request: &Request, conn: &mut Conn, user| {
            let result = complete(request, conn, user)?;
            *web::lock(&place) = Some(result);
            Ok(())
        });
        (ErasedPurpose { challenge: self.challenge, takes: self.takes, then: complete }, PurposeOutcome(outcome))
    }

    /// Signs in with a password.
    pub async fn sign_in_by_password(
        self,
        request: &Arc<Request>,
        username: String,
        password: String,
    ) -> Result<FirstStep<T>, Refusal> {
        let (purpose, outcome) = self.erase();
        Ok(match sign_in_by_password(request, username, password, purpose).await? {
            FirstStep::SignedIn(()) => FirstStep::SignedIn(outcome.take()?),
            FirstStep::NeedsFactor(step) => FirstStep::NeedsFactor(step),
        })
    }
}

async fn sign_in_by_password(
    request: &Arc<Request>,
    username: String,
    password: String,
    purpose: ErasedPurpose,
) -> Result<FirstStep<()>, Refusal> {
    let mut attempt = AddressAttempt::begin(request)?;
    let (shared, name) = (request.clone(), username.clone());
    let hash = request
        .build
        .db
        .read(move |conn| {
            check_address(&shared, conn)?;
            Ok::<_, Refusal>(SignInAccount::load_by_username(conn, &name)?.and_then(|account| account.hash))
        })
        .await?;
    attempt.check()?;
    let checked = hash.clone();
    let is_right = request
        .app
        .slot::<Hasher>()
        .verify(&QueuePath::request_path(request), passwords::truncate_password(&password), hash)
        .await?;
    attempt.count_as_failed();
    let decided = write(request, move |request, conn| {
        decide_login(request, conn, &username, checked.as_deref(), is_right, &purpose)
    })
    .await;
    let is_signed_in = matches!(decided, Ok(CommittedOutcome::Done(_)));
    // A right password does not count as failed if only the store failed.
    if is_signed_in || is_right && decided.as_ref().is_err_and(|refusal| !refusal.is_by_rule()) {
        attempt.succeed();
    }
    decided?.into_result()
}

/// Decides a login after its password was verified, on the present state of the account. A right password is refused if parallel
/// guesses have locked the account meanwhile.
fn decide_login(
    request: &Request,
    conn: &mut Conn,
    username: &str,
    checked: Option<&str>,
    is_right: bool,
    purpose: &ErasedPurpose,
) -> Result<CommittedOutcome<FirstStep<()>>, Refusal> {
    check_address(request, conn)?;
    let account = SignInAccount::load_by_username_for_change(conn, username)?;
    let signed_in = account
        .as_ref()
        .filter(|account| is_right && account.is_open_to_passwords(request) && account.hash.as_deref() == checked)
        .filter(|account| (purpose.takes)(account.account_type));
    if let Some(account) = signed_in {
        if account.is_asked_for_factor
            && let Some(step) = begin_second_step(request, conn, account.id, purpose.challenge)?
        {
            return Ok(CommittedOutcome::Done(FirstStep::NeedsFactor(step)));
        }
        complete_sign_in(request, conn, account.id, "password", purpose)?;
        return Ok(CommittedOutcome::Done(FirstStep::SignedIn(())));
    }
    let (event, reason) = match &account {
        Some(account) if account.is_active && !(purpose.takes)(account.account_type) => {
            (AuthEvent::LoginFailedInvalidAuthMethod, "password")
        }
        _ => failure_event(request, account.as_ref(), is_right),
    };
    system_events::write(request, conn, event, account.as_ref().map(|account| account.id), Some(reason))?;
    if let Some(account) = account.filter(|_| !is_right) {
        account.count_wrong_password(request, conn)?;
    }
    count_failure(request, conn)?;
    Ok(CommittedOutcome::Refused(sign_in_refused()))
}

/// Completes a sign-in, and takes back the count of failures.
pub fn complete_sign_in(
    request: &Request,
    conn: &mut Conn,
    user: UserId,
    reason: &str,
    purpose: &ErasedPurpose,
) -> Result<(), Refusal> {
    let sql = Sql::new(
        "UPDATE users SET last_login = $1, failed_attempts = 0, failed_since = NULL, locked_until = NULL WHERE id = $2",
    );
    conn.exec(&sql.arg(request.now).arg(user))?;
    system_events::write(request, conn, AuthEvent::LoginSuccess, Some(user), Some(reason))?;
    (purpose.then)(request, conn, user)
}

/// Returns the system event of a failed login, with the reason that the answer does not contain.
pub fn failure_event(request: &Request, account: Option<&SignInAccount>, is_right: bool) -> (AuthEvent, &'static str) {
    match account {
        None => (AuthEvent::LoginFailed, "unknown_account"),
        Some(account) if !account.is_active => (AuthEvent::LoginFailedInactiveAccount, "password"),
        Some(account) if !account.may_use_password() => (AuthEvent::LoginFailedInvalidAuthMethod, "password"),
        Some(account) if account.is_locked(request.now) => (AuthEvent::LoginFailed, "locked"),
        Some(account) if is_right && !account.may_call_from(request) => (AuthEvent::LoginFailed, "address_not_allowed"),
        Some(_) => (AuthEvent::LoginFailed, "wrong_password"),
    }
}

fn refresh(request: &Request, conn: &mut Conn) -> Outcome {
    let [token] = request.texts(["refresh_token"])?;
    match sessions::redeem(request, conn, &token)? {
        RefreshOutcome::Tokens(tokens) => Ok(Answer::value(&tokens)),
        RefreshOutcome::Refused => Err(Refusal::bad_token()),
        // An `Err` would roll back the end of the session.
        RefreshOutcome::Ended => Ok(Answer::refusal(&Refusal::bad_token())),
    }
}

fn logout(request: &Request, conn: &mut Conn) -> Outcome {
    let [token] = request.texts(["refresh_token"])?;
    let with_provider = logout::wants_single_sign_on(request)?;
    if let Some(session) = sessions::find_by_refresh_token(conn, &token, request.now)? {
        if with_provider && let Some(logout_url) = logout::logout_url(request, conn, session)? {
            return Ok(Answer::value(&json!({"logout_url": logout_url})));
        }
        sessions::end_at_once(request, conn, session)?;
    }
    Ok(Answer::empty())
}
