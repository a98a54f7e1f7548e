//! `/oauth/authorize`: where a person signs in and consents that an agent works for him.

use super::authorization::{AuthorizationError, AuthorizationRequest, MAX_QUERY};
use super::pages;
use super::transaction::{ConsentTransaction, SignedIn};
use crate::grants::{self, Consent};
use http::{Method, StatusCode};
use identity::agent_sessions::{may_grant, must_change_password};
use identity::attempts;
use identity::is_person;
use identity::sessions::SessionOrigin;
use identity::sign_in::login::SignInPurpose;
use identity::single_sign_on::start;
use identity::single_sign_on::transaction::SignInStart;
use identity::single_sign_on::way_back::ReturnTarget;
use kit::answer::{Answer, Outcome};
use kit::origin;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, HandlerFuture, Route, Schema};
use resource::{Query, openapi};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use store::{Conn, Sql, StoreError};

const AUTHORIZE: &str = "/oauth/authorize/";
/// What every form of the pages has.
const REQUEST: &str = "request";
const TOKEN: &str = "token";
/// The tools that the page to consent showed.
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
        ("redirect_uri", "Where the agent is told; one that the connector's integration names"),
        ("response_type", "`code`"),
        ("state", "Sent back as it is"),
        ("code_challenge", "The challenge of a verifier (RFC 7636)"),
        ("code_challenge_method", "`S256`"),
        ("resource", "The `server_url` of the connector or its origin, which it is anyway"),
    ]
    .map(|(name, text)| openapi::query(name, text, json!({"type": "string"})))
    .to_vec()
}

fn error_answer(request: &Request, wrong: AuthorizationError) -> Answer {
    match wrong {
        AuthorizationError::Page(why) => pages::refusal_page(request, why),
        AuthorizationError::Redirect(address) if request.method == Method::POST => {
            Answer::redirect(StatusCode::SEE_OTHER, &address)
        }
        AuthorizationError::Redirect(address) => Answer::redirect(StatusCode::FOUND, &address),
    }
}

/// The page to sign in, or, for who has, the one to consent.
fn show(request: &Request, conn: &mut Conn) -> Outcome {
    let asked = match AuthorizationRequest::check(request, conn, &request.query, false)? {
        Ok(asked) => asked,
        Err(why) => return Ok(error_answer(request, why)),
    };
    let kept = ConsentTransaction::from_cookie(request, &asked.query);
    if let Some(kept) = &kept
        && let Some(signed_in) = kept.signed_in
        && let Some(username) = username(conn, signed_in.user)?
    {
        return Ok(pages::consent(request, &asked, kept, &username));
    }
    let transaction = kept.unwrap_or_else(|| ConsentTransaction::begin(request, &asked.query, None));
    let configurations = start::enabled_configurations(conn)?;
    Ok(pages::sign_in(request, &asked, &transaction, (StatusCode::OK, "", ""), &configurations))
}

fn username(conn: &mut Conn, user: i64) -> Result<Option<String>, StoreError> {
    let sql = Sql::new("SELECT username FROM users WHERE id = $1 AND is_deleted = 0 AND status = 'active'").arg(user);
    conn.query_optional(&sql, |row| Ok(row.text(0)?.to_owned()))
}

/// A field of a form, empty when it was not sent, without NUL, which PostgreSQL refuses.
fn field(request: &Request, name: &str) -> Result<String, Refusal> {
    let sent = request.object()?.get(name).and_then(|sent| sent.as_str());
    Ok(sent.map_or_else(String::new, |text| text.replace('\0', "")))
}

/// What a form carries on: the agent's request, and the transaction of the browser. Other pages than this server's own are
/// refused, front ends of other origins too, and so is a form whose token is not the browser's.
fn read_form_state(request: &Request) -> Result<Result<(Query, ConsentTransaction), Answer>, Refusal> {
    let host = request.origin.split_once("://").map_or("", |(_, host)| host);
    if !origin::is_own_page(&request.headers, host) {
        return Err(Refusal::forbidden());
    }
    let (text, token) = (field(request, REQUEST)?, field(request, TOKEN)?);
    let text = if text.len() <= MAX_QUERY { text } else { String::new() };
    Ok(match ConsentTransaction::from_form(request, &text, &token) {
        Some(transaction) => Ok((Query::parse(&text), transaction)),
        None => {
            let why = "This page was open for too long, or was opened elsewhere.";
            Err(pages::begin_again(request, StatusCode::BAD_REQUEST, why, &text))
        }
    })
}

/// What a form carries on, with the agent's request checked once more.
async fn check_request_again(
    request: &Arc<Request>,
) -> Result<Result<(AuthorizationRequest, ConsentTransaction), Answer>, Refusal> {
    let (sent, transaction) = match read_form_state(request)? {
        Ok(carried) => carried,
        Err(answer) => return Ok(Err(answer)),
    };
    let shared = request.clone();
    let script = move |conn: &mut Conn| AuthorizationRequest::check(&shared, conn, &sent, false);
    let asked = request.build.db.read::<_, StoreError>(script).await?;
    Ok(asked.map(|asked| (asked, transaction)).map_err(|why| error_answer(request, why)))
}

/// Leads on to the page to consent, for whom the cookie names.
fn to_consent(request: &Request, query: &str, signed_in: SignedIn) -> Answer {
    let mut answer = Answer::redirect(StatusCode::SEE_OTHER, &format!("/oauth/authorize?{query}"));
    // A new token, as whoever knew the former page has not signed in.
    answer.headers.push(ConsentTransaction::begin(request, query, Some(signed_in)).cookie(request));
    answer
}

fn sign_in(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let (asked, transaction) = match check_request_again(&request).await? {
            Ok(checked) => checked,
            Err(answer) => return Ok(answer),
        };
        let (username, password) = (field(&request, "username")?, field(&request, "password")?);
        let purpose = SignInPurpose {
            takes: is_person,
            then: |request, conn, user| Ok((user, must_change_password(request, conn, user)?)),
        };
        match purpose.sign_in_by_password(&request, username.clone(), password).await {
            Ok((_, true)) => Ok(pages::password_too_old(&request)),
            Ok((user, false)) => {
                let signed_in = SignedIn { user, single_sign_on: None, at: request.now };
                Ok(to_consent(&request, &asked.query, signed_in))
            }
            Err(refusal) => sign_in_failed(&request, &asked, &transaction, refusal, &username).await,
        }
    })
}

/// The page to sign in again, with what was wrong; what is no fault of the form is a page of its own.
async fn sign_in_failed(
    request: &Request,
    asked: &AuthorizationRequest,
    transaction: &ConsentTransaction,
    refusal: Refusal,
    username: &str,
) -> Outcome {
    let is_about_fields = matches!(refusal.status, StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED);
    if !refusal.is_by_rule() || !is_about_fields {
        return Err(refusal);
    }
    let configurations = request.build.db.read_short(start::enabled_configurations).await?;
    let why = refusal.reason.messages().join(" ");
    Ok(pages::sign_in(request, asked, transaction, (refusal.status, &why, username), &configurations))
}

fn sign_in_at_provider(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let (asked, transaction) = match check_request_again(&request).await? {
            Ok(checked) => checked,
            Err(answer) => return Ok(answer),
        };
        let id = field(&request, "id")?.parse().unwrap_or(0);
        let begun = SignInStart { return_to: &asked.query, way_back: WAY_BACK.name, browser: None };
        match start::start_page(&request, id, begun).await {
            Err(refusal) => sign_in_failed(&request, &asked, &transaction, refusal, "").await,
            page => page,
        }
    })
}

/// The way back from a provider to the page to consent. Its target is the query of the agent's request.
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

/// What the person decided. Everything is looked at once more: it may have changed while the page was open.
fn consent(request: &Request, conn: &mut Conn) -> Outcome {
    let (sent, transaction) = match read_form_state(request)? {
        Ok(carried) => carried,
        Err(answer) => return Ok(answer),
    };
    let asked = match AuthorizationRequest::check(request, conn, &sent, true)? {
        Ok(asked) => asked,
        Err(why) => return Ok(error_answer(request, why)),
    };
    let begin_again = |why: &str| Ok(pages::begin_again(request, StatusCode::BAD_REQUEST, why, &asked.query));
    let Some(signed_in) = transaction.signed_in else { return begin_again("Nobody has signed in.") };
    let address = match field(request, "decision")?.as_str() {
        "allow" => {
            let way = signed_in.single_sign_on.map_or(SessionOrigin::Password, SessionOrigin::SingleSignOn);
            let is_too_old =
                matches!(way, SessionOrigin::Password) && must_change_password(request, conn, signed_in.user)?;
            if is_too_old || !may_grant(request, conn, signed_in.user, way, signed_in.at)? {
                return begin_again("Please sign in again.");
            }
            if !transaction.spend(conn, request.now)? {
                return begin_again("This page was used already.");
            }
            let tools = consented_tools(request, &asked)?;
            let code = grants::begin(request, conn, &asked, &Consent { user: signed_in.user, way, tools })?;
            asked.code_address(request, &code)
        }
        "deny" => asked.error_address(request, "access_denied", "The person has denied it."),
        _ => return begin_again("Please allow or deny."),
    };
    let mut answer = Answer::redirect(StatusCode::SEE_OTHER, &address);
    answer.headers.push(transaction.expired_cookie(request));
    Ok(answer)
}

/// The tools that the page showed and that the connector still offers. A page of a former version does not say what it showed: then those
/// that the connector offers now.
fn consented_tools(request: &Request, asked: &AuthorizationRequest) -> Result<Vec<String>, Refusal> {
    let offered = &asked.client.tools;
    Ok(match request.object()?.get(TOOLS).and_then(|sent| sent.as_str()) {
        Some(shown) => offered.iter().filter(|tool| shown.split(' ').any(|shown| shown == *tool)).cloned().collect(),
        None => offered.clone(),
    })
}
