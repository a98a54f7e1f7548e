//! The redirect to a provider: the list of configurations, and the start of a sign-in or of linking an identity
//! (`docs/reference/single-sign-on.md`).

use super::account;
use super::configuration::SignInConfiguration;
use super::failure::ProviderFailure;
use super::provider::{Providers, with_query};
use super::transaction::{BrowserSessionOptions, Linking, SignInStart, SignInTransaction};
use crate::attempts::{self, check_address};
use crate::browser_sessions;
use crate::sign_in::aim::console_path;
use http::{Method, StatusCode};
use kit::answer::{Answer, Outcome};
use kit::html::{escape, page};
use kit::ids::SingleSignOnId;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, HandlerFuture, Route, Schema};
use resource::message;
use resource::openapi::{object, titled};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use store::{Conn, Sql, StoreError};

const SCOPES: &str = "openid email profile";

pub fn routes() -> Vec<Route> {
    let id = || titled("SingleSignOnStart", object([("id", json!({"type": "integer"}))]));
    let schema = || {
        let provider_schema = object([("id", json!({"type": "integer"})), ("name", json!({"type": "string"}))]);
        json!({"type": "array", "items": titled("EnabledSingleSignOn", provider_schema)})
    };
    vec![
        Route::new(
            Method::GET,
            "/api/single-sign-on/login/",
            "The enabled configurations, for a sign-in page",
            Handler::ShortRead(list_enabled),
        )
        .public()
        .action("list")
        .answers(200, Schema::Json(schema)),
        Route::post("/api/single-sign-on/login/", "Begin to sign in at a provider", Handler::Async(login))
            .public()
            .with_guard(attempts::guard)
            .action("start")
            .with_body(Schema::Json(id))
            .answers(200, Schema::Json(address_schema))
            .answers_secret(),
        Route::post(
            "/api/single-sign-on/{id}/link/",
            "Begin to link an identity to the own account",
            Handler::Async(link),
        )
        .with_body(Schema::Json(link_schema))
        .answers(200, Schema::Json(address_schema))
        .answers_secret()
        .without_keys()
        .also_answers(429, Schema::Refusal),
    ]
}

fn link_schema() -> Json {
    let text = "The path of the console that the browser goes on to, with a new session: null or nothing for none";
    let return_to = json!({"type": ["string", "null"], "description": text});
    titled("SingleSignOnLink", json!({"type": "object", "properties": {"return_to": return_to}}))
}

/// Returns the schema of the answer with the address of a provider.
pub fn address_schema() -> Json {
    titled("ProviderAddress", object([("redirect_uri", json!({"type": "string", "format": "uri"}))]))
}

/// An enabled configuration on the sign-in page.
pub struct EnabledConfiguration {
    pub id: SingleSignOnId,
    pub name: String,
}

/// Returns the enabled configurations, ordered by name.
pub fn enabled_configurations(conn: &mut Conn) -> Result<Vec<EnabledConfiguration>, StoreError> {
    let sql = Sql::new("SELECT id, name FROM single_sign_on WHERE is_enabled = 1 ORDER BY name_fold, id");
    conn.query_all(&sql, |row| Ok(EnabledConfiguration { id: row.id(0)?, name: row.text(1)?.to_owned() }))
}

fn list_enabled(_: &Request, conn: &mut Conn) -> Outcome {
    let enabled = enabled_configurations(conn)?;
    let items =
        enabled.iter().map(|configuration| json!({"id": configuration.id, "name": configuration.name})).collect();
    Ok(Answer::value(&Json::Array(items)))
}

fn login(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let id = sent_id(&request)?;
        let unknown = || Refusal::field("id", message::invalid_id_message(id));
        let configuration = load_configuration(&request, id).await?.ok_or_else(unknown)?;
        let started = begin(&request, &configuration, None, None).await?;
        Ok(started.answer())
    })
}

fn sent_id(request: &Request) -> Result<SingleSignOnId, Refusal> {
    let wrong = |message: String| Refusal::field("id", message);
    match request.object()?.get("id") {
        None => Err(wrong(message::REQUIRED.to_owned())),
        Some(value) if value.is_null() => Err(wrong(message::NULL.to_owned())),
        Some(value) => resource::parse_id(value).map_err(wrong),
    }
}

fn link(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let caller = request.caller()?;
        let linking = Linking { user: caller.user, session: caller.session };
        let configuration = load_configuration(&request, request.id()).await?.ok_or_else(Refusal::not_found)?;
        let return_to = sent_return_to(&request)?;
        // The session in which the identity is linked determines whether the browser retains the next session.
        let browser = Some(BrowserSessionOptions { is_kept: false });
        let page = return_to.as_deref().map(|return_to| SignInStart { return_to, way_back: "", browser });
        let started = begin(&request, &configuration, Some(linking), page).await?;
        Ok(started.answer())
    })
}

/// Returns the path of the console to which the caller wants to be redirected. Returns `None` if the body does not contain it, or
/// no console is served.
fn sent_return_to(request: &Request) -> Result<Option<String>, Refusal> {
    match request.object()?.get("return_to") {
        None => Ok(None),
        Some(value) if value.is_null() => Ok(None),
        Some(value) => match value.as_str() {
            Some(path) => Ok(console_path(request, &path)),
            None => Err(Refusal::field("return_to", message::STRING)),
        },
    }
}

/// Begins a sign-in from the build's own page and answers with a page that leads to the provider. The answer is not a redirect,
/// since the page's content security policy allows its form to lead only to this server.
pub async fn start_page(request: &Arc<Request>, id: SingleSignOnId, begun: SignInStart<'_>) -> Outcome {
    // The person may have left the page open, and may not understand the term configuration.
    let is_gone = || Refusal::bad_request("This way to sign in is no longer available.");
    let configuration =
        load_configuration(request, id).await?.filter(|configuration| configuration.is_enabled).ok_or_else(is_gone)?;
    let started = begin(request, &configuration, None, Some(begun)).await?;
    let address = escape(&started.redirect_uri);
    let body = format!(
        "<meta http-equiv=\"refresh\" content=\"0;url={address}\"><p><a href=\"{address}\">Continue to your provider</a></p>"
    );
    let mut answer = page(request, StatusCode::OK, "Sign in", &body);
    answer.headers.push(started.cookie);
    Ok(answer)
}

async fn load_configuration(
    request: &Arc<Request>,
    id: SingleSignOnId,
) -> Result<Option<SignInConfiguration>, Refusal> {
    let shared = request.clone();
    request
        .build
        .db
        .read(move |conn| {
            check_address(&shared, conn)?;
            Ok::<_, Refusal>(SignInConfiguration::load(&shared, conn, id)?)
        })
        .await
}

/// A sign-in that has started: the provider's address for the browser, and the cookie for the callback.
pub struct StartedSignIn {
    redirect_uri: String,
    cookie: (http::HeaderName, http::HeaderValue),
}

impl StartedSignIn {
    pub fn answer(self) -> Answer {
        let mut answer = Answer::value(&json!({"redirect_uri": self.redirect_uri}));
        answer.headers.push(self.cookie);
        answer
    }
}

async fn begin(
    request: &Arc<Request>,
    configuration: &SignInConfiguration,
    linking: Option<Linking>,
    page: Option<SignInStart<'_>>,
) -> Result<StartedSignIn, Refusal> {
    if !configuration.is_enabled {
        return Err(Refusal::bad_request("Single sign-on configuration is disabled."));
    }
    let mut transaction = SignInTransaction::begin(configuration.id, linking, page, request.now);
    if transaction.browser.is_some() {
        let shared = request.clone();
        transaction.former = request.build.db.read(move |conn| browser_sessions::session(&shared, conn)).await?;
    }
    redirect_to_provider(request, configuration, &transaction).await
}

/// Returns the redirect of a browser to the provider of a configuration, enabled or not.
pub async fn redirect_to_provider(
    request: &Request,
    configuration: &SignInConfiguration,
    transaction: &SignInTransaction,
) -> Result<StartedSignIn, Refusal> {
    let fetched = match &configuration.issuer {
        Some(issuer) => request.app.slot::<Providers>().provider(issuer).discovery(&request.app.clock).await,
        None => Err(ProviderFailure::from("the provider's issuer is not set")),
    };
    let discovery = fetched.map_err(|failure| {
        account::log_failure(request, configuration, &failure);
        Refusal::bad_request("Sign-in failed.")
    })?;
    let challenge = transaction.challenge();
    let redirect_uri = with_query(
        &discovery.authorization_endpoint,
        &[
            ("response_type", "code"),
            ("client_id", &configuration.client_id),
            ("redirect_uri", &configuration.redirect_uri),
            ("scope", SCOPES),
            ("state", &transaction.state),
            ("nonce", &transaction.nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ],
    );
    Ok(StartedSignIn { redirect_uri, cookie: transaction.cookie(request, &configuration.redirect_uri) })
}
