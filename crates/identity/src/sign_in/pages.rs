//! `/sign-in/`, `/activate/` and `/password-reset/`: plain pages with one form each. They work without scripts, so that an
//! installation can be used without a front end (`docs/reference/sign-in.md`).

use super::aim::{Aim, MAX_RETURN_TO, lead_on};
use super::form::form_field;
use super::login::{FirstStep, SESSION, SignInPurpose};
use super::page_script::PageScript;
use super::second_form::{self, SentForm};
use super::second_step::repeat_second_step;
use super::set_password;
use crate::attempts::{self, AddressAttempt, check_address, count_failure};
use crate::authenticate::ACCESS_TOKEN;
use crate::browser_sessions;
use crate::mailed_links::{self, LinkKind};
use crate::passwords;
use crate::second_factors::challenges::ChallengePurpose;
use crate::second_factors::proof::SecondStep;
use crate::sessions::SessionOrigin;
use crate::single_sign_on::start::{self, EnabledConfiguration};
use administration::company_details;
use http::{Method, StatusCode};
use kit::answer::{Answer, Outcome};
use kit::commit::write;
use kit::html::{alert, alert_list, escape, page};
use kit::ids::{SingleSignOnId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, HandlerFuture, Route, Schema};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use resource::openapi::query;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use store::{Conn, StoreError};

/// The characters that are encoded in the address of a `mailto:` link.
const NOT_IN_MAILTO: &AsciiSet = &NON_ALPHANUMERIC.remove(b'@').remove(b'.').remove(b'-').remove(b'_').remove(b'+');

/// The address of the form of the second step.
const SECOND_STEP: &str = "/sign-in/second-factor/";

/// Signs in with a passkey alone: it asks for a challenge and sends the answer of the passkey with the form.
const PASSKEY_SCRIPT: PageScript =
    PageScript { text: include_str!("passkey_button.js"), directives: "; connect-src 'self'" };

pub fn routes() -> Vec<Route> {
    let show =
        |path, summary, handler| Route::new(Method::GET, path, summary, handler).public().answers(200, Schema::Html);
    // A token is not read if the address has reached its limit.
    let show_link = |path, summary, handler| {
        show(path, summary, Handler::Async(handler)).parameters(link_parameters).also_answers(429, Schema::Html)
    };
    let send = |path, summary, handler, fields| {
        Route::post(path, summary, handler)
            .public()
            .with_guard(attempts::guard)
            .with_body(Schema::Form(fields))
            .answers(200, Schema::Html)
    };
    vec![
        show("/sign-in/", "Page to sign in", Handler::ShortRead(show_sign_in)).parameters(sign_in_parameters),
        send(
            "/sign-in/",
            "Sign in from the page",
            Handler::Async(sign_in),
            &["username", "password", "keep", "for", "return_to"],
        )
        .from_own_pages_alone()
        .also_answers(303, Schema::Nothing),
        send(
            SECOND_STEP,
            "Prove a second factor from the page",
            Handler::Async(prove_factor),
            &["challenge", "code", "credential", "keep", "for", "return_to"],
        )
        .from_own_pages_alone()
        .also_answers(303, Schema::Nothing),
        send(
            "/sign-in/passkey/",
            "Sign in with a passkey alone from the page",
            Handler::Async(sign_in_with_passkey),
            &["challenge", "credential", "keep", "for", "return_to"],
        )
        .from_own_pages_alone()
        .also_answers(303, Schema::Nothing),
        send(
            "/sign-in/single-sign-on/",
            "Sign in at a provider from the page",
            Handler::Async(sign_in_at_provider),
            &["id", "keep", "for", "return_to"],
        )
        .from_own_pages_alone(),
        show_link("/activate/", "Page to choose the first password", |request| {
            open_link(request, LinkKind::Activation)
        }),
        send(
            "/activate/",
            "Activate from the page",
            Handler::Async(|request| set_password_from_page(request, LinkKind::Activation)),
            &["token", "password"],
        ),
        show_link("/password-reset/", "Page to reset a password", |request| open_link(request, LinkKind::Reset)),
        send("/password-reset/", "Reset from the page", Handler::Async(reset), &["username", "token", "password"]),
    ]
}

fn link_parameters() -> Vec<Json> {
    vec![query("token", "The token of the link in the mail", json!({"type": "string"}))]
}

fn sign_in_parameters() -> Vec<Json> {
    let text = format!(
        "The path that the page leads on to, at most {MAX_RETURN_TO} bytes: one of the console, else its first page; for tokens one \
         of this server, else `/`"
    );
    vec![
        query("return_to", &text, json!({"type": "string"})),
        query("for", "`program` shows tokens for a program instead", json!({"type": "string"})),
    ]
}

/// Returns whether a page shows a refusal above its form, since the values of the fields are wrong. Other refusals have pages of
/// their own.
fn is_about_fields(refusal: &Refusal) -> bool {
    refusal.is_by_rule() && matches!(refusal.status, StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED)
}

fn show_sign_in(request: &Request, conn: &mut Conn) -> Outcome {
    let aim = Aim::from_query(request);
    Ok(sign_in_page(request, StatusCode::OK, "", "", &aim, &start::enabled_configurations(conn)?))
}

fn sign_in(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let (username, password) = (form_field(&request, "username")?, form_field(&request, "password")?);
        let aim = Aim::from_form(&request)?;
        let first_step = match &aim {
            Aim::Browser { .. } => {
                let step = BROWSER_SESSION.sign_in_by_password(&request, username.clone(), password).await;
                step.map(|step| step.map(PageSession::Browser))
            }
            Aim::Tokens { .. } => {
                let step = SESSION.sign_in_by_password(&request, username.clone(), password).await;
                step.map(|step| step.map(PageSession::Tokens))
            }
        };
        match first_step {
            Ok(FirstStep::SignedIn(session)) => session.answer(&request, &aim).await,
            Ok(FirstStep::NeedsFactor(step)) => Ok(second_step_page(&request, StatusCode::OK, "", &step, &aim)),
            Err(refusal) => sign_in_failed(&request, refusal, &username, &aim).await,
        }
    })
}

/// A session that began on the page.
enum PageSession {
    Browser(browser_sessions::Cookie),
    Tokens(Json),
}

impl PageSession {
    async fn answer(self, request: &Request, aim: &Aim) -> Outcome {
        match self {
            PageSession::Browser(cookie) => Ok(lead_on(aim.return_to(), Some(cookie))),
            PageSession::Tokens(tokens) => signed_in(request, &tokens, aim.return_to()).await,
        }
    }
}

fn prove_factor(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let SentForm { challenge, proof } = second_form::read(&request)?;
        let aim = Aim::from_form(&request)?;
        let session = match &aim {
            Aim::Browser { .. } => {
                BROWSER_SESSION.sign_in_by_factor(&request, challenge.clone(), proof).await.map(PageSession::Browser)
            }
            Aim::Tokens { .. } => {
                SESSION.sign_in_by_factor(&request, challenge.clone(), proof).await.map(PageSession::Tokens)
            }
        };
        let refusal = match session {
            Ok(session) => return session.answer(&request, &aim).await,
            Err(refusal) if !is_about_fields(&refusal) => return Err(refusal),
            Err(refusal) => refusal,
        };
        match repeat_second_step(&request, challenge, ChallengePurpose::Session).await? {
            Some(step) => {
                let error = refusal.reason.messages().join(" ");
                Ok(second_step_page(&request, refusal.status, &error, &step, &aim))
            }
            None => sign_in_failed(&request, refusal, "", &aim).await,
        }
    })
}

fn second_step_page(request: &Request, status: StatusCode, error: &str, step: &SecondStep, aim: &Aim) -> Answer {
    let keep = match aim {
        Aim::Browser { is_kept: true, .. } => "<input name=\"keep\" type=\"hidden\" value=\"true\">",
        _ => "",
    };
    let hidden = aim.fields() + keep;
    let mut answer =
        page(request, status, "Sign in", &second_form::form(step, SECOND_STEP, &hidden, error, &aim.address()));
    second_form::permit_script(&mut answer);
    answer
}

fn sign_in_with_passkey(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let (challenge, credential) = (form_field(&request, "challenge")?, form_field(&request, "credential")?);
        let aim = Aim::from_form(&request)?;
        let session = match &aim {
            Aim::Browser { .. } => {
                BROWSER_SESSION.sign_in_by_passkey(&request, challenge, credential).await.map(PageSession::Browser)
            }
            Aim::Tokens { .. } => {
                SESSION.sign_in_by_passkey(&request, challenge, credential).await.map(PageSession::Tokens)
            }
        };
        match session {
            Ok(session) => session.answer(&request, &aim).await,
            Err(refusal) => sign_in_failed(&request, refusal, "", &aim).await,
        }
    })
}

/// Signing in to a session of a browser.
const BROWSER_SESSION: SignInPurpose<browser_sessions::Cookie> =
    SignInPurpose { challenge: ChallengePurpose::Session, takes: |_| true, then: begin_browser_session };

fn begin_browser_session(
    request: &Request,
    conn: &mut Conn,
    user: UserId,
) -> Result<browser_sessions::Cookie, Refusal> {
    let is_kept = matches!(Aim::from_form(request)?, Aim::Browser { is_kept: true, .. });
    browser_sessions::begin(request, conn, user, SessionOrigin::Password, is_kept, None)
}

fn sign_in_at_provider(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        let id = SingleSignOnId::new(form_field(&request, "id")?.parse().unwrap_or(0));
        let aim = Aim::from_form(&request)?;
        match start::start_page(&request, id, aim.sign_in_start()).await {
            Err(refusal) => sign_in_failed(&request, refusal, "", &aim).await,
            page => page,
        }
    })
}

/// Returns the page to sign in, with the messages of a refusal and the username of the form.
pub async fn sign_in_failed(request: &Request, refusal: Refusal, username: &str, aim: &Aim) -> Outcome {
    if !is_about_fields(&refusal) {
        return Err(refusal);
    }
    let enabled = request.build.db.read_short(start::enabled_configurations).await?;
    Ok(sign_in_page(request, refusal.status, &refusal.reason.messages().join(" "), username, aim, &enabled))
}

fn reset(request: Arc<Request>) -> HandlerFuture {
    if request.object().is_ok_and(|body| body.contains_key("token")) {
        return set_password_from_page(request, LinkKind::Reset);
    }
    Box::pin(async move {
        let username = form_field(&request, "username")?;
        Ok(match set_password::ask_for_reset(&request, username.clone()).await {
            Ok(()) => page(
                &request,
                StatusCode::OK,
                "Check your mail",
                "<p>If there is such an account, a link to choose a new password is on its way.</p>\
                 <p><a href=\"/sign-in/\">Back to sign-in</a></p>",
            ),
            Err(refusal) if !is_about_fields(&refusal) => return Err(refusal),
            Err(refusal) => {
                ask_for_reset_page(&request, refusal.status, &alert(&refusal.reason.messages().join(" ")), &username)
            }
        })
    })
}

/// Returns the page of a link in a mail. An invalid token counts as a failed attempt of the address, like an invalid token with a
/// password. Otherwise this page would allow guesses of tokens.
fn open_link(request: Arc<Request>, kind: LinkKind) -> HandlerFuture {
    Box::pin(async move {
        let token = request.query.last_value("token").unwrap_or("").to_owned();
        if token.is_empty() {
            return without_token(request, kind).await;
        }
        let mut attempt = AddressAttempt::begin(&request)?;
        let shared = request.clone();
        let form = request
            .build
            .db
            .read(move |conn| {
                check_address(&shared, conn)?;
                Ok::<_, Refusal>(new_password_form(&shared, conn, StatusCode::OK, kind, &token, &[])?)
            })
            .await?;
        attempt.check()?;
        if let Some(form) = form {
            return Ok(form);
        }
        attempt.count_as_failed();
        write(&request, move |request, conn| {
            check_address(request, conn)?;
            count_failure(request, conn)?;
            Ok(invalid_link_page(request, conn, StatusCode::OK, kind)?)
        })
        .await
    })
}

/// Returns the page of an address without a token.
async fn without_token(request: Arc<Request>, kind: LinkKind) -> Outcome {
    if kind == LinkKind::Reset {
        return Ok(ask_for_reset_page(&request, StatusCode::OK, "", ""));
    }
    let shared = request.clone();
    let page = move |conn: &mut Conn| {
        activation_refusal_page(&shared, conn, StatusCode::OK, "<p>Open the link from your mail.</p>")
    };
    Ok(request.build.db.read_short::<_, StoreError>(page).await?)
}

/// Returns the form for a new password; `None` if the token is not valid.
fn new_password_form(
    request: &Request,
    conn: &mut Conn,
    status: StatusCode,
    kind: LinkKind,
    token: &str,
    messages: &[String],
) -> Result<Option<Answer>, StoreError> {
    let Some(username) = mailed_links::username_of_token(conn, token, kind, request.now)? else { return Ok(None) };
    let (errors, rules) = (passwords::as_sentences(conn, messages)?, passwords::sentences(conn)?);
    Ok(Some(new_password_page(request, status, kind, token, &username, &errors, &rules)))
}

fn set_password_from_page(request: Arc<Request>, kind: LinkKind) -> HandlerFuture {
    Box::pin(async move {
        let (token, password) = (form_field(&request, "token")?, form_field(&request, "password")?);
        match set_password::set_password_by_link(&request, token.clone(), password, kind).await {
            Ok(_) => Ok(page(
                &request,
                StatusCode::OK,
                "Password set",
                "<p>Your password is set. <a href=\"/sign-in/\">Sign in</a></p>",
            )),
            Err(refusal) if !is_about_fields(&refusal) => Err(refusal),
            Err(refusal) => set_password_failed(request, refusal, kind, token).await,
        }
    })
}

async fn set_password_failed(request: Arc<Request>, refusal: Refusal, kind: LinkKind, token: String) -> Outcome {
    let (status, errors) = (refusal.status, refusal.reason.messages());
    let shared = request.clone();
    let answer = move |conn: &mut Conn| match new_password_form(&shared, conn, status, kind, &token, &errors)? {
        Some(form) => Ok(form),
        None => invalid_link_page(&shared, conn, status, kind),
    };
    Ok(request.build.db.read::<_, StoreError>(answer).await?)
}

fn sign_in_page(
    request: &Request,
    status: StatusCode,
    error: &str,
    username: &str,
    aim: &Aim,
    configurations: &[EnabledConfiguration],
) -> Answer {
    // The page has one form, so that the checkbox applies to all ways to sign in.
    let provider = |configuration: &EnabledConfiguration| {
        format!(
            "<p><button class=\"second\" formaction=\"/sign-in/single-sign-on/\" formnovalidate name=\"id\" value=\"{}\">\
             Sign in with {}</button></p>",
            configuration.id,
            escape(&configuration.name)
        )
    };
    let providers: String = configurations.iter().map(provider).collect();
    let keep = match aim {
        Aim::Browser { is_kept, .. } => {
            let checked = if *is_kept { " checked" } else { "" };
            format!("<label><input name=\"keep\" type=\"checkbox\" value=\"true\"{checked}>Keep me signed in</label>")
        }
        Aim::Tokens { .. } => String::new(),
    };
    // The script shows the button in browsers that have passkeys.
    let passkey = "<input name=\"challenge\" type=\"hidden\"><input name=\"credential\" type=\"hidden\">\
                   <p hidden><button class=\"second\" type=\"button\" \
                   data-failed=\"No passkey was used. Try again, or sign in with your password.\">\
                   Sign in with a passkey</button></p>";
    let script = PASSKEY_SCRIPT.element();
    let (at_username, at_password) = if username.is_empty() { (" autofocus", "") } else { ("", " autofocus") };
    let form = format!(
        "{}<form method=\"post\" action=\"/sign-in/\">{}<label>E-mail address \
         <input name=\"username\" type=\"email\" value=\"{}\" autocomplete=\"username\" required{at_username}></label>\
         <label>Password \
         <input name=\"password\" type=\"password\" autocomplete=\"current-password\" required{at_password}></label>{keep}\
         <button>Sign in</button>{passkey}{providers}{script}</form>\
         <p><a href=\"/password-reset/\">Forgot the password?</a></p>",
        alert(error),
        aim.fields(),
        escape(username)
    );
    let mut answer = page(request, status, "Sign in", &form);
    PASSKEY_SCRIPT.permit(&mut answer);
    answer
}

/// Returns the page that requests a reset link, with a note above the form.
fn ask_for_reset_page(request: &Request, status: StatusCode, note: &str, username: &str) -> Answer {
    let form = format!(
        "{note}<form method=\"post\" action=\"/password-reset/\"><label>E-mail address \
         <input name=\"username\" type=\"email\" value=\"{}\" autocomplete=\"username\" required autofocus></label>\
         <button>Send a link</button></form><p><a href=\"/sign-in/\">Back to sign-in</a></p>",
        escape(username)
    );
    page(request, status, "Reset your password", &form)
}

fn new_password_page(
    request: &Request,
    status: StatusCode,
    kind: LinkKind,
    token: &str,
    username: &str,
    errors: &[String],
    rules: &[String],
) -> Answer {
    let (title, action) = match kind {
        LinkKind::Activation => ("Activate your account", "/activate/"),
        LinkKind::Reset => ("Choose a new password", "/password-reset/"),
    };
    let rules: String = rules.iter().map(|rule| format!("<li>{rule}</li>")).collect();
    let form = format!(
        "{}<form method=\"post\" action=\"{action}\"><input name=\"token\" type=\"hidden\" value=\"{}\">\
         <label>E-mail address <input type=\"email\" value=\"{}\" autocomplete=\"username\" readonly></label>\
         <label>New password <input name=\"password\" type=\"password\" autocomplete=\"new-password\" \
         aria-describedby=\"rules\" required autofocus></label>\
         <div id=\"rules\">Rules for the password:<ul>{rules}</ul></div><p><button>Set password</button></p></form>",
        alert_list("Choose another password:", errors),
        escape(token),
        escape(username)
    );
    page(request, status, title, &form)
}

/// Returns the page of an invalid link. For a reset it offers a new link. For an activation it names the person who can send one.
fn invalid_link_page(
    request: &Request,
    conn: &mut Conn,
    status: StatusCode,
    kind: LinkKind,
) -> Result<Answer, StoreError> {
    let note = alert("This link is not valid. It was used already, is too old, or is not complete.");
    if kind == LinkKind::Reset {
        return Ok(ask_for_reset_page(request, status, &format!("{note}<p>We can send you a new one.</p>"), ""));
    }
    activation_refusal_page(request, conn, status, &note)
}

/// Returns the page of a failed activation, with a note.
fn activation_refusal_page(
    request: &Request,
    conn: &mut Conn,
    status: StatusCode,
    note: &str,
) -> Result<Answer, StoreError> {
    let address = company_details::admin_email_address(conn)?;
    let contact = match address.as_str() {
        "" => "your administrator".to_owned(),
        address => {
            format!("<a href=\"mailto:{}\">{}</a>", utf8_percent_encode(address, NOT_IN_MAILTO), escape(address))
        }
    };
    let body = format!(
        "{note}<p>If you have a password already, <a href=\"/sign-in/\">sign in</a>. Otherwise ask {contact} for a new link.</p>"
    );
    Ok(page(request, status, "Activate your account", &body))
}

/// Returns the page of a signed-in user whose identity could not be linked.
pub fn linking_failed(request: &Request, refusal: &Refusal, return_to: &str) -> Answer {
    let body =
        format!("{}<p><a href=\"{}\">Back</a></p>", alert(&refusal.reason.messages().join(" ")), escape(return_to));
    page(request, refusal.status, "Link a sign-in", &body)
}

/// Returns the page of a session that has begun.
pub async fn signed_in(request: &Request, tokens: &Json, return_to: &str) -> Outcome {
    let (_, by) = ACCESS_TOKEN;
    let token = tokens.get("access_token").and_then(Json::as_str).unwrap_or("");
    let caller = match (by.read)(&request.app, &request.build, token, request.now) {
        Some(claims) => (by.identify)(&request.build, claims, request.now).await?,
        None => None,
    };
    if caller.is_some_and(|caller| caller.must_change_password(request.now)) {
        let body = "<p>Your password is too old. <a href=\"/password-reset/\">Choose a new one</a></p>";
        return Ok(page(request, StatusCode::OK, "Choose a new password", body));
    }
    Ok(tokens_page(request, tokens, return_to))
}

/// Returns a page that shows the tokens, for an installation without a front end.
fn tokens_page(request: &Request, tokens: &Json, return_to: &str) -> Answer {
    let shown = |name: &str| escape(tokens.get(name).and_then(Json::as_str).unwrap_or(""));
    let return_to = if return_to.is_empty() { "/" } else { return_to };
    let body = format!(
        "<p>You are signed in. <a href=\"{}\">Continue</a></p>\
         <p>A program uses these as <code>Authorization: JWT …</code>; keep them to yourself.</p>\
         <label>Access token <textarea readonly rows=\"4\" name=\"access_token\">{}</textarea></label>\
         <label>Refresh token <textarea readonly rows=\"2\" name=\"refresh_token\">{}</textarea></label>",
        escape(return_to),
        shown("access_token"),
        shown("refresh_token")
    );
    page(request, StatusCode::OK, "Signed in", &body)
}
