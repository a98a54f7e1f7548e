//! Tests a configuration: `POST /api/single-sign-on/{id}/test/` (`docs/reference/single-sign-on.md`). The test begins a sign-in
//! whose callback neither begins a session nor binds an identity. It shows the claims of the provider and the outcome of a sign-in
//! to the browser that began it.

use super::account::{self, AccountLookup, ProviderPerson, SignInRefusal};
use super::callback::{claims_of, sign_in_failed};
use super::configuration::{SignInConfiguration, endpoint_address};
use super::failure::ProviderFailure;
use super::start;
use super::transaction::{SignInTransaction, Tester, spend};
use crate::authenticate::ACCESS_TOKEN;
use crate::system_events::AuthEvent;
use crate::users::create::type_in;
use crate::users::rules::limit_of;
use crate::visibility::visible_users;
use http::StatusCode;
use kit::answer::{Answer, Outcome};
use kit::caller::{Caller, CredentialClaims, Requirement, RouteAccess};
use kit::commit::write;
use kit::html::{self, Theme, alert, escape, page};
use kit::ids::UserId;
use kit::limits;
use kit::rate_limit::RateLimit;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, HandlerFuture, Route, Schema};
use serde_json::{Map, Value as Json};
use std::collections::HashMap;
use std::sync::Arc;
use store::{Conn, Sql, StoreError};
use web::clock::sha256_hex;

/// The maximum number of trials of an account in an hour, since each trial makes this server call the provider.
static TRIALS: RateLimit = RateLimit { name: "sign-in-trials", most: 20, seconds: 3600 };
const HOUR_US: i64 = 3_600_000_000;
/// The maximum length of a provider's error on the page, in characters.
const MAX_ERROR: usize = 200;
const TITLE: &str = "Single sign-on tried";
const NOTHING_DONE: &str = "<p>Nobody was signed in, and nothing was stored.</p>";

/// The permission that a caller needs, at the start and again at the callback.
const MUST_HOLD: (&str, &str) = ("single_sign_on", "edit");

pub fn routes() -> Vec<Route> {
    let (resource, action) = MUST_HOLD;
    vec![
        Route::post(
            "/api/single-sign-on/{id}/test/",
            "Begin to try a configuration, by a sign-in that only shows what it would come to",
            Handler::Async(begin),
        )
        .requires(resource, action)
        .answers(200, Schema::Json(start::address_schema))
        .answers_secret()
        .without_keys()
        .also_answers(429, Schema::Refusal),
    ]
}

fn begin(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let tester = Tester { user: request.caller()?.user, session: request.caller()?.session };
        let configuration = write(&request, move |request, conn| {
            let configuration =
                SignInConfiguration::load(request, conn, request.id())?.ok_or_else(Refusal::not_found)?;
            take_place(request, conn, tester.user)?;
            Ok(configuration)
        })
        .await?;
        let transaction = SignInTransaction::begin(configuration.id, None, None, request.now);
        let transaction = SignInTransaction { trial: Some(tester), ..transaction };
        Ok(start::redirect_to_provider(&request, &configuration, &transaction).await?.answer())
    })
}

/// Acquires one of the trial permits of an account for an hour. Permits are stored with the values that may be used once, so that
/// two processes never acquire the same permit.
fn take_place(request: &Request, conn: &mut Conn, user: UserId) -> Result<(), Refusal> {
    let now = request.now;
    let places: Vec<String> = (0..TRIALS.most).map(|n| format!("trial {n} of user {user}")).collect();
    let mut sql = Sql::new("SELECT hash, expires_at FROM single_sign_on_spent WHERE expires_at > ");
    sql.bind(now).push(" AND hash IN (");
    for (n, place) in places.iter().enumerate() {
        sql.push(if n > 0 { ", " } else { "" }).bind(sha256_hex(place));
    }
    sql.push(")");
    let trials = conn.query_all(&sql, |row| Ok((row.text(0)?.to_owned(), row.int(1)?)))?;
    let trials: HashMap<String, i64> = trials.into_iter().collect();
    let next = trials.values().copied().min().unwrap_or(now + HOUR_US);
    request.count_call(&TRIALS, trials.len() as i64, next - HOUR_US)?;
    for place in places.iter().filter(|place| !trials.contains_key(&sha256_hex(place))) {
        if spend(conn, place, now + HOUR_US, now)? {
            return Ok(());
        }
    }
    Err(Refusal::too_many(next - now))
}

/// Answers the callback of a trial.
pub async fn finish(request: &Arc<Request>, transaction: &SignInTransaction, tester: Tester) -> Outcome {
    let mut answer = match show(request, transaction, tester).await {
        Err(refusal) if refusal.is_by_rule() => {
            html::refusal_page(&request.build, Theme::from_headers(&request.headers), &refusal)
        }
        outcome => outcome?,
    };
    let redirect_uri = endpoint_address(&request.app, &request.build, request.id(), "callback");
    answer.headers.push(SignInTransaction::expired_cookie(&transaction.state, &redirect_uri));
    Ok(answer)
}

async fn show(request: &Arc<Request>, transaction: &SignInTransaction, tester: Tester) -> Outcome {
    let spent = transaction.clone();
    let configuration = write(request, move |request, conn| {
        caller_of(request, conn, tester)?;
        let is_first = spent.spend(conn, request.now)?;
        Ok(SignInConfiguration::load(request, conn, request.id())?.filter(|_| is_first))
    })
    .await?;
    let configuration = configuration.ok_or_else(sign_in_failed)?;
    let claims = match claims_of(request, &configuration, transaction).await {
        Ok(claims) => claims,
        Err(failure) => {
            account::log_failure(request, &configuration, &failure);
            return Ok(failed_page(request, &failure));
        }
    };
    write(request, move |request, conn| {
        // The caller may have lost the permission during the requests to the provider.
        let caller = caller_of(request, conn, tester)?;
        let Some(now) = configuration.reload(request, conn)? else {
            return Err(Refusal::bad_request("The configuration was changed meanwhile."));
        };
        let person = ProviderPerson::from_claims(&now, &claims);
        let lookup = account::load_account(request, conn, &now, &person)?;
        let verdict = TrialOutcome::from_lookup(conn, lookup)?;
        let explanation = verdict.told_to(conn, &caller)?;
        Ok(result_page(request, &now, &person, &explanation, &claims))
    })
    .await
}

/// Returns the account that tests a configuration, if its session is active and it still has the permission.
fn caller_of(request: &Request, conn: &mut Conn, tester: Tester) -> Result<Caller, Refusal> {
    let now = request.app.clock.now();
    // The access token may expire while the person is at the provider. The session must still be active.
    let claims = CredentialClaims::of_session(tester.user, tester.session, i64::MAX);
    let (_, by) = ACCESS_TOKEN;
    let caller = (by.load)(conn, claims, now)?.ok_or_else(Refusal::bad_token)?;
    caller.check_address(request.address)?;
    let (resource, action) = MUST_HOLD;
    let access = RouteAccess::Permission(resource, action);
    let requirement =
        Requirement { access, while_expired: false, while_lacking_factor: false, for_narrowed: false, for_keys: false };
    caller.fulfils(requirement, now)?;
    Ok(caller)
}

/// The outcome that a sign-in would have.
struct TrialOutcome {
    /// The account of the person, if it exists.
    user: Option<UserId>,
    /// The outcome for the account, or the reason why the person would be refused.
    text: &'static str,
    is_let_in: bool,
}

impl TrialOutcome {
    fn from_lookup(conn: &mut Conn, lookup: AccountLookup) -> Result<TrialOutcome, Refusal> {
        let let_in = |user, text| TrialOutcome { user, text, is_let_in: true };
        Ok(match lookup {
            AccountLookup::Account(user) => let_in(Some(user), "the identity is bound to the account."),
            AccountLookup::Bind(user) => let_in(Some(user), "the address would bind the identity to the account."),
            AccountLookup::Create(values) => {
                let limit = limit_of(type_in(&values)?);
                match limits::count_used(conn, limit)? < limits::value(conn, limit)? {
                    true => let_in(None, "an account would be made."),
                    false => TrialOutcome::from_obstacle(&SignInRefusal::account_limit()),
                }
            }
            AccountLookup::Obstacle(obstacle) => TrialOutcome::from_obstacle(&obstacle),
        })
    }

    fn from_obstacle(obstacle: &SignInRefusal) -> TrialOutcome {
        TrialOutcome { user: obstacle.user, text: reason_text(obstacle), is_let_in: false }
    }

    /// Returns the text for a caller, as HTML. For an account that the caller may not list, it only says whether the person would
    /// be signed in. If no account exists, only callers with `users.list` get the reason, since it would reveal other accounts.
    fn told_to(&self, conn: &mut Conn, caller: &Caller) -> Result<String, StoreError> {
        let name = match self.user {
            Some(user) => username_for(conn, caller, user)?,
            None => None,
        };
        let is_told = name.is_some() || self.user.is_none() && caller.has_permission("users", "list");
        let outcome =
            if self.is_let_in { "The person would be signed in" } else { "The person would not be signed in" };
        let text = if is_told { format!("{outcome}: {}", self.text) } else { format!("{outcome}.") };
        let text = if self.is_let_in { format!("<p>{}</p>", escape(&text)) } else { alert(&text) };
        let account = name.map(|name| format!("<p>Account: <strong>{}</strong></p>", escape(&name)));
        Ok(text + &account.unwrap_or_default())
    }
}

/// Returns the username of an account, if the caller may list it.
fn username_for(conn: &mut Conn, caller: &Caller, user: UserId) -> Result<Option<String>, StoreError> {
    let mut sql = Sql::new("SELECT t.username FROM users t WHERE t.id = ");
    sql.bind(user).push(" AND ").append(&visible_users(caller));
    conn.query_optional(&sql, |row| Ok(row.text(0)?.to_owned()))
}

fn reason_text(obstacle: &SignInRefusal) -> &'static str {
    match (obstacle.event, obstacle.reason) {
        (AuthEvent::LoginFailedInactiveAccount, _) => "the account is not active.",
        (AuthEvent::LoginFailedInvalidAuthMethod, _) => "accounts of this type sign in by password alone.",
        (_, "address_not_allowed") => "the account may not be used from this network address.",
        (_, "address_not_verified") => "no account has this identity, and the provider has verified no e-mail address.",
        (_, "not_linked") => "the owner of the account has not linked the identity.",
        (_, "not_vouched") if obstacle.user.is_none() => "the configuration does not vouch for what its roles give.",
        (_, "not_vouched") => "the configuration does not vouch for the account, or the account has another identity.",
        (_, "unusable_claims") => "no account can be made of these claims.",
        (_, "account_limit") => "the limit of accounts is reached.",
        _ => "there is no account.",
    }
}

fn result_page(
    request: &Request,
    configuration: &SignInConfiguration,
    person: &ProviderPerson,
    explanation: &str,
    claims: &Map<String, Json>,
) -> Answer {
    let disabled = match configuration.is_enabled {
        true => "",
        false => {
            "<p>The configuration is disabled: nobody can sign in by it. This is what a sign-in would come to otherwise.</p>"
        }
    };
    let address = match &person.address {
        Some(address) => format!("<p>Verified e-mail address: {}</p>", escape(address)),
        None => "<p>The provider has verified no e-mail address.</p>".to_owned(),
    };
    let claim = |(name, value): (&String, &Json)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("<dt>{}</dt><dd><code>{}</code></dd>", escape(name), escape(&value))
    };
    let claims: String = claims.iter().map(claim).collect();
    let body = format!("{NOTHING_DONE}{disabled}{explanation}{address}<h2>Claims</h2><dl>{claims}</dl>");
    page(request, StatusCode::OK, TITLE, &body)
}

/// Returns the page of a trial in which the provider could not be used.
fn failed_page(request: &Request, failure: &ProviderFailure) -> Answer {
    let explanation = alert(&format!("The provider could not be used: {}.", failure.why));
    let error: String = request.query.last_value("error").unwrap_or("").chars().take(MAX_ERROR).collect();
    let error = match error.as_str() {
        "" => String::new(),
        error => format!("<p>Its error: <code>{}</code></p>", escape(error)),
    };
    page(request, StatusCode::OK, TITLE, &format!("{NOTHING_DONE}{explanation}{error}"))
}
