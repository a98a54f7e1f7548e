//! `/oauth/authorize`: the pages on which a person signs in and consents to the work of an agent.

use super::StepFailure;
use super::authorization::{AuthorizationError, AuthorizationRequest, MAX_QUERY, OAuthError};
use super::pages::{self, SignInNotice};
use super::transaction::{ConsentTransaction, SignedIn};
use crate::grants::{self, Consent};
use http::{Method, StatusCode};
use identity::agent_sessions::{may_grant, must_change_password};
use identity::attempts;
use identity::is_person;
use identity::second_factors::challenges::ChallengePurpose;
use identity::sessions::SessionOrigin;
use identity::sign_in::login::{FirstStep, SignInPurpose};
use identity::sign_in::second_form::{self, SentForm};
use identity::sign_in::second_step::repeat_second_step;
use identity::single_sign_on::start;
use identity::single_sign_on::transaction::SignInStart;
use identity::single_sign_on::way_back::ReturnTarget;
use kit::answer::{Answer, Outcome};
use kit::ids::{SingleSignOnId, UserId};
use kit::origin;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, HandlerFuture, Route, Schema};
use resource::{Query, openapi};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use store::{Conn, Sql, StoreError};

const AUTHORIZE: &str = "/oauth/authorize/";
/// The fields of every form of the pages.
const REQUEST: &str = "request";
const TOKEN: &str = "token";
/// The field with the tools that the consent page showed.
const TOOLS: &str = "tools";

pub fn routes() -> Vec<Route> {
    let send = |path, summary, handler, fields| {
        Route::post(path, summary, handler)
            .public()
            .with_body(Schema::Form(fields))
            .answers(200, Schema::Html)
            .also_answers(303, Schema::Nothing)
            .also_answers(400, Schema::Html)
            .also_answers(403, Schema::Html)
    };
    vec![
        Route::new(Method::GET, AUTHORIZE, "Page to let an agent work for somebody", Handler::ShortRead(show))
            .public()
            .parameters(parameters)
            .answers(200, Schema::Html)
            .also_answers(302, Schema::Nothing)
            .also_answers(400, Schema::Html),
        send(
            pages::SIGN_IN,
            "Sign in from the page of an agent",
            Handler::Async(sign_in),
            &[REQUEST, TOKEN, "username", "password"],
        )
        .with_guard(attempts::guard)
        .also_answers(401, Schema::Html)
        .also_answers(429, Schema::Html),
        send(
            pages::SECOND_STEP,
            "Prove a second factor from the page of an agent",
            Handler::Async(prove_factor),
            &[REQUEST, TOKEN, "challenge", "code", "credential"],
        )
        .with_guard(attempts::guard)
        .also_answers(401, Schema::Html)
        .also_answers(429, Schema::Html),
        send(
            pages::SINGLE_SIGN_ON,
            "Sign in at a provider from the page of an agent",
            Handler::Async(sign_in_at_provider),
            &[REQUEST, TOKEN, "id"],
        )
        .with_guard(attempts::guard)
        .also_answers(429, Schema::Html),
        send(
            pages::CONSENT,
            "Consent from the page of an agent",
            Handler::Write(consent),
            &[REQUEST, TOKEN, TOOLS, "decision"],
        ),
    ]
}

fn parameters() -> Vec<Json> {
    [
        ("client_id", "That of the connector"),
        ("redirect_uri", "The redirect address of the agent; one of the connector's integration"),
        ("response_type", "`code`"),
        ("state", "Sent back as it is"),
        ("code_challenge", "The challenge of a verifier (RFC 7636)"),
        ("code_challenge_method", "`S256`"),
        ("resource", "The `server_url` of the connector or its origin, which it is anyway"),
    ]
    .map(|(name, text)| openapi::query(name, text, json!({"type": "string"})))
    .to_vec()
}

/// The page or the redirect of an invalid request.
fn invalid_request(request: &Request, error: AuthorizationError) -> StepFailure {
    let address = match error {
        AuthorizationError::Page(reason) => return StepFailure::answer(pages::refusal_page(request, reason)),
        AuthorizationError::Store(error) => return error.into(),
        AuthorizationError::Redirect(address) => address,
    };
    let status = if request.method == Method::POST { StatusCode::SEE_OTHER } else { StatusCode::FOUND };
    StepFailure::answer(Answer::redirect(status, &address))
}

fn show(request: &Request, conn: &mut Conn) -> Outcome {
    first_page(request, conn).or_else(StepFailure::into_outcome)
}

/// The consent page if the person has signed in, and the sign-in page otherwise.
fn first_page(request: &Request, conn: &mut Conn) -> Result<Answer, StepFailure> {
    let authorization = AuthorizationRequest::check(request, conn, &request.query, false)
        .map_err(|error| invalid_request(request, error))?;
    let transaction = ConsentTransaction::from_cookie(request, &authorization.query);
    if let Some(transaction) = &transaction
        && let Some(signed_in) = transaction.signed_in
        && let Some(username) = username(conn, signed_in.user)?
    {
        return Ok(pages::consent(request, &authorization, transaction, &username));
    }
    let transaction = transaction.unwrap_or_else(|| ConsentTransaction::begin(request, &authorization.query, None));
    let configurations = start::enabled_configurations(conn)?;
    Ok(pages::sign_in(request, &authorization, &transaction, SignInNotice::default(), &configurations))
}

fn username(conn: &mut Conn, user: UserId) -> Result<Option<String>, StoreError> {
    let sql = Sql::new("SELECT username FROM users WHERE id = $1 AND is_deleted = 0 AND status = 'active'").arg(user);
    conn.query_optional(&sql, |row| Ok(row.text(0)?.to_owned()))
}

/// Reads a field of a form. A missing field is empty. NUL is removed, since PostgreSQL refuses it.
fn field(request: &Request, name: &str) -> Result<String, Refusal> {
    let text = request.object()?.get(name).and_then(|value| value.as_str());
    Ok(text.map_or_else(String::new, |text| text.replace('\0', "")))
}

/// The state that a form carries.
struct FormState {
    /// The query of the agent's request.
    query: Query,
    transaction: ConsentTransaction,
}

/// Reads the state of a form. Refuses pages of other sites, front ends of other origins, and a form without the token of the
/// browser's cookie.
fn read_form_state(request: &Request) -> Result<FormState, StepFailure> {
    let host = request.origin.split_once("://").map_or("", |(_, host)| host);
    if !origin::is_own_page(&request.headers, host) {
        return Err(Refusal::forbidden().into());
    }
    let (text, token) = (field(request, REQUEST)?, field(request, TOKEN)?);
    let text = if text.len() <= MAX_QUERY { text } else { String::new() };
    match ConsentTransaction::from_form(request, &text, &token) {
        Some(transaction) => Ok(FormState { query: Query::parse(&text), transaction }),
        None => {
            let reason = "This page was open for too long, or was opened elsewhere.";
            Err(StepFailure::answer(pages::begin_again(request, StatusCode::BAD_REQUEST, reason, &text)))
        }
    }
}

/// A step of a sign-in: the agent's request and the transaction of the browser.
struct SignInStep {
    authorization: AuthorizationRequest,
    transaction: ConsentTransaction,
}

/// Reads the state of a form, and checks the agent's request again.
async fn check_form(request: &Arc<Request>) -> Result<SignInStep, StepFailure> {
    let FormState { query, transaction } = read_form_state(request)?;
    let shared = request.clone();
    let script = move |conn: &mut Conn| AuthorizationRequest::check(&shared, conn, &query, false);
    let checked = request.build.db.read::<_, AuthorizationError>(script).await;
    let authorization = checked.map_err(|error| invalid_request(request, error))?;
    Ok(SignInStep { authorization, transaction })
}

/// Redirects to the consent page, with a cookie that names the person.
fn to_consent(request: &Request, query: &str, signed_in: SignedIn) -> Answer {
    let mut answer = Answer::redirect(StatusCode::SEE_OTHER, &format!("/oauth/authorize?{query}"));
    // The cookie has a new token, since the previous page did not require a sign-in.
    answer.headers.push(ConsentTransaction::begin(request, query, Some(signed_in)).cookie(request));
    answer
}

fn sign_in(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move { sign_in_by_password(&request).await.or_else(StepFailure::into_outcome) })
}

/// The person of a correct password.
struct PasswordSignIn {
    user: UserId,
    must_change_password: bool,
}

async fn sign_in_by_password(request: &Arc<Request>) -> Result<Answer, StepFailure> {
    let step = check_form(request).await?;
    let (username, password) = (field(request, "username")?, field(request, "password")?);
    match PERSON.sign_in_by_password(request, username.clone(), password).await {
        Ok(FirstStep::SignedIn(person)) => Ok(person_signed_in(request, &step, person)),
        Ok(FirstStep::NeedsFactor(second)) => {
            let (shared, user) = (request.clone(), second.user);
            let load_requirement = move |conn: &mut Conn| must_change_password(&shared, conn, user);
            Ok(match request.build.db.read_short::<_, StoreError>(load_requirement).await? {
                true => pages::password_too_old(request),
                false => {
                    pages::second_step(request, &step.authorization, &step.transaction, &second, StatusCode::OK, "")
                }
            })
        }
        Err(refusal) => Ok(sign_in_failed(request, &step, refusal, &username).await?),
    }
}

/// The sign-in of a person who lets an agent work for them.
const PERSON: SignInPurpose<PasswordSignIn> = SignInPurpose {
    challenge: ChallengePurpose::Agent,
    takes: is_person,
    then: |request, conn, user| {
        Ok(PasswordSignIn { user, must_change_password: must_change_password(request, conn, user)? })
    },
};

fn person_signed_in(request: &Request, step: &SignInStep, person: PasswordSignIn) -> Answer {
    if person.must_change_password {
        return pages::password_too_old(request);
    }
    let signed_in = SignedIn { user: person.user, single_sign_on: None, at: request.now };
    to_consent(request, &step.authorization.query, signed_in)
}

fn prove_factor(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move { sign_in_by_factor(&request).await.or_else(StepFailure::into_outcome) })
}

async fn sign_in_by_factor(request: &Arc<Request>) -> Result<Answer, StepFailure> {
    let step = check_form(request).await?;
    let SentForm { challenge, proof } = second_form::read(request)?;
    let refusal = match PERSON.sign_in_by_factor(request, challenge.clone(), proof).await {
        Ok(person) => return Ok(person_signed_in(request, &step, person)),
        Err(refusal) => refusal,
    };
    if refusal.is_by_rule()
        && refusal.status == StatusCode::UNAUTHORIZED
        && let Some(second) = repeat_second_step(request, challenge, ChallengePurpose::Agent).await?
    {
        let (status, error) = (refusal.status, refusal.reason.messages().join(" "));
        return Ok(pages::second_step(request, &step.authorization, &step.transaction, &second, status, &error));
    }
    Ok(sign_in_failed(request, &step, refusal, "").await?)
}

/// The sign-in page with the error of a sign-in. An error that is not about the fields of the form is a page of its own.
async fn sign_in_failed(request: &Request, step: &SignInStep, refusal: Refusal, username: &str) -> Outcome {
    let is_about_fields = matches!(refusal.status, StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED);
    if !refusal.is_by_rule() || !is_about_fields {
        return Err(refusal);
    }
    let configurations = request.build.db.read_short(start::enabled_configurations).await?;
    let error = refusal.reason.messages().join(" ");
    let notice = SignInNotice { status: refusal.status, error: &error, username };
    Ok(pages::sign_in(request, &step.authorization, &step.transaction, notice, &configurations))
}

fn sign_in_at_provider(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move { start_at_provider(&request).await.or_else(StepFailure::into_outcome) })
}

async fn start_at_provider(request: &Arc<Request>) -> Result<Answer, StepFailure> {
    let step = check_form(request).await?;
    let id = SingleSignOnId::new(field(request, "id")?.parse().unwrap_or(0));
    let sign_in_start = SignInStart { return_to: &step.authorization.query, way_back: WAY_BACK.name, browser: None };
    match start::start_page(request, id, sign_in_start).await {
        Err(refusal) => Ok(sign_in_failed(request, &step, refusal, "").await?),
        Ok(page) => Ok(page),
    }
}

/// The return from a provider to the consent page. Its target is the query of the agent's request.
pub static WAY_BACK: ReturnTarget = ReturnTarget {
    name: "agents",
    signed_in: |request, _, user, single_sign_on, query| {
        let signed_in = SignedIn { user, single_sign_on: Some(single_sign_on), at: request.now };
        Ok(to_consent(request, query, signed_in))
    },
    failed: |request, refusal, query| {
        pages::begin_again(request, refusal.status, &refusal.reason.messages().join(" "), query)
    },
};

fn consent(request: &Request, conn: &mut Conn) -> Outcome {
    decide(request, conn).or_else(StepFailure::into_outcome)
}

/// Executes the decision of the person. All conditions are checked again, since they may have changed while the page was open.
fn decide(request: &Request, conn: &mut Conn) -> Result<Answer, StepFailure> {
    let FormState { query, transaction } = read_form_state(request)?;
    let authorization =
        AuthorizationRequest::check(request, conn, &query, true).map_err(|error| invalid_request(request, error))?;
    let begin_again = |reason: &str| {
        StepFailure::answer(pages::begin_again(request, StatusCode::BAD_REQUEST, reason, &authorization.query))
    };
    let signed_in = transaction.signed_in.ok_or_else(|| begin_again("Nobody has signed in."))?;
    let address = match field(request, "decision")?.as_str() {
        "allow" => {
            let way = signed_in.single_sign_on.map_or(SessionOrigin::Password, SessionOrigin::SingleSignOn);
            let is_too_old =
                matches!(way, SessionOrigin::Password) && must_change_password(request, conn, signed_in.user)?;
            if is_too_old || !may_grant(request, conn, signed_in.user, way, signed_in.at)? {
                return Err(begin_again("Please sign in again."));
            }
            if !transaction.spend(conn, request.now)? {
                return Err(begin_again("This page was used already."));
            }
            let tools = consented_tools(request, &authorization)?;
            let consent = Consent { user: signed_in.user, way, tools };
            authorization.code_address(request, &grants::begin(request, conn, &authorization, &consent)?)
        }
        "deny" => {
            let error = OAuthError { code: "access_denied", why: "The person has denied it." };
            authorization.error_address(request, error)
        }
        _ => return Err(begin_again("Please allow or deny.")),
    };
    let mut answer = Answer::redirect(StatusCode::SEE_OTHER, &address);
    answer.headers.push(transaction.expired_cookie(request));
    Ok(answer)
}

/// The tools that the page showed and that the connector still offers. A page of an earlier version has no field with its tools. Then
/// all tools of the connector count.
fn consented_tools(request: &Request, authorization: &AuthorizationRequest) -> Result<Vec<String>, Refusal> {
    let offered = &authorization.client.tools;
    Ok(match request.object()?.get(TOOLS).and_then(|value| value.as_str()) {
        Some(shown) => offered.iter().filter(|tool| shown.split(' ').any(|name| name == *tool)).cloned().collect(),
        None => offered.clone(),
    })
}
