//! The callback of a provider. It exchanges the code for an ID token, finds the account of the person, and begins a session
//! (`docs/reference/single-sign-on.md`). It answers with the tokens of the session. With a front end (`CHANCERY_SIGN_IN_URL`) it
//! redirects to it with a one-time ticket, so that addresses do not contain tokens.

use super::account::{self, Decision, ProviderPerson};
use super::configuration::{SignInConfiguration, endpoint_address};
use super::failure::ProviderFailure;
use super::id_token;
use super::provider::{Providers, with_query};
use super::tickets::{invalid_ticket, make_ticket};
use super::transaction::{BrowserSessionOptions, SignInTransaction};
use super::trial;
use super::way_back::ReturnTarget;
use crate::account::sign_in_refused;
use crate::attempts::check_address;
use crate::browser_sessions;
use crate::sessions::{self, SessionOrigin};
use crate::sign_in::aim::{Aim, lead_on};
use crate::sign_in::pages;
use crate::system_events::{self, AuthEvent};
use http::{Method, StatusCode};
use kit::answer::{Answer, Outcome};
use kit::commit::write;
use kit::html::{self, Theme};
use kit::ids::{SingleSignOnId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, HandlerFuture, Route, Schema};
use resource::openapi::{filled_text, object, query, titled};
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use store::{Conn, Sql, StoreError};
use web::clock::sha256_hex;

pub fn routes() -> Vec<Route> {
    let ticket = || titled("Ticket", object([("ticket", filled_text())]));
    vec![
        Route::new(
            Method::GET,
            "/api/single-sign-on/{id}/callback/",
            "The address to which a provider sends people back",
            Handler::Async(callback),
        )
        .public()
        .named_by_path()
        .parameters(|| {
            let sent = [
                ("state", "Names the sign-in that began here"),
                ("code", "Authorization code for the provider's token endpoint"),
                ("error", "Reason of the provider's refusal"),
                ("iss", "The provider's issuer"),
            ];
            sent.map(|(name, text)| query(name, text, json!({"type": "string"}))).to_vec()
        })
        .answers(200, Schema::Json(sessions::tokens_schema))
        .answers_secret()
        // The answers are a page (also of a trial), a link without a session, and a redirect to the front end.
        .also_answers(200, Schema::Html)
        .also_answers(204, Schema::Nothing)
        .also_answers(302, Schema::Nothing)
        .also_answers(303, Schema::Nothing)
        .also_answers(400, Schema::Refusal)
        .also_answers(400, Schema::Html)
        .also_answers(401, Schema::Refusal)
        .also_answers(401, Schema::Html)
        .also_answers(403, Schema::Html)
        .also_answers(429, Schema::Refusal)
        .also_answers(429, Schema::Html),
        Route::post(
            "/api/auth/ticket/",
            "Exchange the ticket of a single sign-on for a pair",
            Handler::Write(exchange_ticket),
        )
        .public()
        .with_body(Schema::Json(ticket))
        .answers(200, Schema::Json(sessions::tokens_schema))
        .answers_secret(),
    ]
}

/// The result of a sign-in.
enum SignInResult {
    /// A session has begun.
    Tokens(Json),
    /// A session begins when this ticket is exchanged.
    Ticket(String),
    /// An identity was linked, without a session.
    Linked,
    /// 401.
    Refused,
    /// 400.
    Failed,
    /// The answer of another module's page, without a session; or the redirect of a browser with a session of its own.
    Led(Answer),
}

fn callback(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let state = request.query.last_value("state").unwrap_or("").to_owned();
        // Any web page can send a browser here. A request without the cookie of a sign-in is not counted and does not write an
        // event. Otherwise such a page could use up the attempts of an address or fill the outbox.
        let Some(transaction) = SignInTransaction::from_callback(&request, &state) else {
            return answer(&request, SignInResult::Failed, None).await;
        };
        if let Some(tester) = transaction.trial {
            return trial::finish(&request, &transaction, tester).await;
        }
        let result = match finish_sign_in(&request, &transaction).await {
            // A sign-in that began on the page gets a page as the answer.
            Err(refusal) if transaction.from_page && refusal.is_by_rule() => {
                return Ok(html::refusal_page(&request.build, Theme::from_headers(&request.headers), &refusal));
            }
            result => result?,
        };
        let mut answer = match ReturnTarget::find_by_name(&request, &transaction.way_back) {
            Some(way) => match result {
                SignInResult::Led(answer) => answer,
                SignInResult::Refused => (way.failed)(&request, &sign_in_refused(), &transaction.return_to),
                _ => (way.failed)(&request, &sign_in_failed(), &transaction.return_to),
            },
            None => answer(&request, result, Some(&transaction).filter(|begun| begun.from_page)).await?,
        };
        let redirect_uri = endpoint_address(&request.app, &request.build, request.id(), "callback");
        answer.headers.push(SignInTransaction::expired_cookie(&state, &redirect_uri));
        Ok(answer)
    })
}

async fn finish_sign_in(request: &Arc<Request>, transaction: &SignInTransaction) -> Result<SignInResult, Refusal> {
    let spent = transaction.clone();
    let configuration = write(request, move |request, conn| {
        check_address(request, conn)?;
        let configuration =
            SignInConfiguration::load(request, conn, request.id())?.filter(|configuration| configuration.is_enabled);
        let is_first = spent.spend(conn, request.now)?;
        Ok(configuration.filter(|_| is_first))
    })
    .await?;
    let Some(configuration) = configuration else { return fail(request, "state").await };
    let person = match claims_of(request, &configuration, transaction).await {
        Ok(claims) => ProviderPerson::from_claims(&configuration, &claims),
        Err(failure) => {
            account::log_failure(request, &configuration, &failure);
            return fail(request, "provider").await;
        }
    };
    let linking = transaction.linking;
    let (way, target) = (ReturnTarget::find_by_name(request, &transaction.way_back), transaction.return_to.clone());
    let (browser, former) = (transaction.browser, transaction.former);
    let decide = move |request: &Request, conn: &mut Conn| {
        let decision = account::decide(request, conn, &configuration, &person, linking)?;
        match (way, decision) {
            (Some(way), Decision::SignIn(user)) => {
                note_sign_in(request, conn, user)?;
                Ok(SignInResult::Led((way.signed_in)(request, conn, user, configuration.id, &target)?))
            }
            (None, Decision::SignIn(user)) if let Some(BrowserSessionOptions { is_kept }) = browser => {
                note_sign_in(request, conn, user)?;
                if let Some(former) = former {
                    sessions::end_at_once(request, conn, former)?;
                }
                let (way, replaced) =
                    (SessionOrigin::SingleSignOn(configuration.id), linking.map(|linking| linking.session));
                let cookie = browser_sessions::begin(request, conn, user, way, is_kept, replaced)?;
                Ok(SignInResult::Led(lead_on(&target, Some(cookie))))
            }
            // The session in which the identity was linked continues.
            (None, Decision::Linked) if browser.is_some() => Ok(SignInResult::Led(lead_on(&target, None))),
            (_, decision) => carry_out(request, conn, configuration.id, decision),
        }
    };
    match write(request, decide.clone()).await {
        // Another first sign-in at the same time may have created the account or bound the identity.
        Err(refusal) if may_be_race(&refusal) => write(request, decide).await,
        outcome => outcome,
    }
}

fn may_be_race(refusal: &Refusal) -> bool {
    refusal.status == StatusCode::BAD_REQUEST || matches!(refusal.cause.as_deref(), Some(StoreError::Unique(_)))
}

async fn fail(request: &Arc<Request>, reason: &'static str) -> Result<SignInResult, Refusal> {
    write(request, move |request, conn| account::record_failure(request, conn, None, reason)).await?;
    Ok(SignInResult::Failed)
}

/// Requests the claims of the person from the provider.
pub async fn claims_of(
    request: &Request,
    configuration: &SignInConfiguration,
    transaction: &SignInTransaction,
) -> Result<Map<String, Json>, ProviderFailure> {
    let clock = &request.app.clock;
    let issuer = configuration.issuer.as_deref().ok_or("the provider's issuer is not set")?;
    let provider = request.app.slot::<Providers>().provider(issuer);
    // The response of another provider is refused (a mix-up attack, RFC 9207).
    match request.query.last_value("iss") {
        Some(named) if named != issuer => return Err("another issuer answered".into()),
        None if provider.discovery(clock).await?.names_issuer_in_response => {
            return Err("the provider's answer does not name it".into());
        }
        _ => {}
    }
    if request.query.last_value("error").is_some() {
        return Err("the provider answered with an error".into());
    }
    let code = request.query.last_value("code").ok_or("the provider's answer has no code")?;
    let tokens = provider.exchange(clock, configuration, code, &transaction.verifier).await?;
    let unverified = id_token::read(&tokens.id_token)?;
    let keys = provider.keys(clock, unverified.key_id.as_deref()).await?;
    let expected = id_token::ExpectedClaims {
        issuer,
        client_id: &configuration.client_id,
        nonce: &transaction.nonce,
        now: clock.now(),
    };
    let mut claims = unverified.verify(&keys, &expected)?;
    if !claims.contains_key("email")
        && let Some(access_token) = &tokens.access_token
        && let Some(more) = provider.user_info(clock, access_token).await?
    {
        add_user_info(&mut claims, more)?;
    }
    Ok(claims)
}

/// Adds claims of the user-info endpoint, which must have the same subject. Claims of the ID token take precedence.
fn add_user_info(claims: &mut Map<String, Json>, more: Map<String, Json>) -> Result<(), ProviderFailure> {
    if more.get("sub") != claims.get("sub") {
        return Err("the user info is of another subject".into());
    }
    for (name, value) in more {
        claims.entry(name).or_insert(value);
    }
    Ok(())
}

/// Carries out a decision, in its transaction.
fn carry_out(
    request: &Request,
    conn: &mut Conn,
    single_sign_on: SingleSignOnId,
    decision: Decision,
) -> Result<SignInResult, Refusal> {
    Ok(match decision {
        Decision::SignIn(user) if request.app.settings.sign_in_url.is_some() => {
            SignInResult::Ticket(make_ticket(conn, single_sign_on, user, None, request.now)?)
        }
        Decision::SignIn(user) => SignInResult::Tokens(begin_session(request, conn, single_sign_on, user)?),
        Decision::Linked => SignInResult::Linked,
        Decision::Refused => SignInResult::Refused,
        Decision::Failed => SignInResult::Failed,
    })
}

fn note_sign_in(request: &Request, conn: &mut Conn, user: UserId) -> Result<(), Refusal> {
    conn.exec(&Sql::new("UPDATE users SET last_login = $1 WHERE id = $2").arg(request.now).arg(user))?;
    system_events::write(request, conn, AuthEvent::LoginSuccess, Some(user), Some("single_sign_on"))
}

fn begin_session(
    request: &Request,
    conn: &mut Conn,
    single_sign_on: SingleSignOnId,
    user: UserId,
) -> Result<Json, Refusal> {
    note_sign_in(request, conn, user)?;
    Ok(sessions::begin(request, conn, user, SessionOrigin::SingleSignOn(single_sign_on))?)
}

fn exchange_ticket(request: &Request, conn: &mut Conn) -> Outcome {
    let [ticket] = request.texts(["ticket"])?;
    let sql = Sql::new(
        "DELETE FROM single_sign_on_tickets WHERE hash = $1 AND session_id IS NULL AND expires_at > $2 \
         RETURNING single_sign_on_id, user_id",
    );
    let spent =
        conn.query_optional(&sql.arg(sha256_hex(&ticket)).arg(request.now), |row| Ok((row.id(0)?, row.id(1)?)))?;
    let (single_sign_on, user) = spent.ok_or_else(invalid_ticket)?;
    if !account::may_redeem_ticket(request, conn, single_sign_on, user)? {
        // An `Err` would roll back the deletion of the ticket.
        return Ok(Answer::refusal(&sign_in_refused()));
    }
    Ok(Answer::value(&begin_session(request, conn, single_sign_on, user)?))
}

pub fn sign_in_failed() -> Refusal {
    Refusal::bad_request("Sign-in failed.")
}

/// Returns the answer to the browser. `begun` is set if the sign-in began on the build's own page.
async fn answer(request: &Arc<Request>, result: SignInResult, begun: Option<&SignInTransaction>) -> Outcome {
    let for_browser = begun.and_then(|begun| begun.browser);
    if let Some(front_end) = request.app.front_end_of(&request.build).filter(|_| for_browser.is_none()) {
        return Ok(Answer::redirect(
            StatusCode::FOUND,
            &match result {
                SignInResult::Ticket(ticket) => with_query(&front_end, &[("ticket", &ticket)]),
                SignInResult::Linked => with_query(&front_end, &[("linked", "true")]),
                _ => with_query(&front_end, &[("error", "sign_in_failed")]),
            },
        ));
    }
    let refusal = match result {
        SignInResult::Led(answer) => return Ok(answer),
        SignInResult::Tokens(tokens) => {
            return Ok(match begun {
                Some(begun) => pages::signed_in(request, &tokens, &begun.return_to).await?,
                None => Answer::value(&tokens),
            });
        }
        SignInResult::Linked | SignInResult::Ticket(_) => return Ok(Answer::empty()),
        SignInResult::Refused => sign_in_refused(),
        SignInResult::Failed => sign_in_failed(),
    };
    let Some(SignInTransaction { return_to, linking, .. }) = begun else { return Err(refusal) };
    if linking.is_some() {
        return Ok(pages::linking_failed(request, &refusal, return_to));
    }
    let return_to = return_to.clone();
    let aim = match for_browser {
        Some(BrowserSessionOptions { is_kept }) => Aim::Browser { return_to, is_kept },
        None => Aim::Tokens { return_to, is_chosen: true },
    };
    pages::sign_in_failed(request, refusal, "", &aim).await
}
