//! `/sign-in/`, `/activate/` and `/password-reset/`: plain pages with a form each, which work without scripts, so that
//! an installation can be used without a front end (document 4, section 3, "pages").

use super::{login, set_password};
use crate::attempts;
use crate::mailed_links::LinkKind;
use crate::single_sign_on::start::{self, EnabledConfiguration};
use http::{Method, StatusCode};
use kit::answer::{Answer, Outcome};
use kit::html::{alert, escape, messages, page};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Pending, Route, Schema};
use serde_json::Value as Json;
use std::sync::Arc;
use store::Conn;

pub fn routes() -> Vec<Route> {
    let show = |path, summary, handler| {
        Route::new(Method::GET, path, summary, Handler::NoDatabase(handler)).public().answers(200, Schema::Html)
    };
    let send = |path, summary, handler, fields| {
        Route::post(path, summary, handler)
            .public()
            .guarded(attempts::guard)
            .takes(Schema::Form(fields))
            .answers(200, Schema::Html)
    };
    vec![
        Route::new(Method::GET, "/sign-in/", "Page to sign in", Handler::ShortRead(show_sign_in))
            .public()
            .answers(200, Schema::Html),
        send("/sign-in/", "Sign in from the page", Handler::Async(sign_in), &["username", "password"]),
        send(
            "/sign-in/single-sign-on/",
            "Sign in at a provider from the page",
            Handler::Async(sign_in_at_provider),
            &["id"],
        ),
        show("/activate/", "Page to choose the first password", |request| {
            Ok(new_password_page(StatusCode::OK, LinkKind::Activation, request.query.last("token").unwrap_or(""), &[]))
        }),
        send(
            "/activate/",
            "Activate from the page",
            Handler::Async(|request| set_password_from_page(request, LinkKind::Activation)),
            &["token", "password"],
        ),
        show("/password-reset/", "Page to reset a password", |request| {
            Ok(match request.query.last("token") {
                Some(token) => new_password_page(StatusCode::OK, LinkKind::Reset, token, &[]),
                None => ask_for_reset_page(StatusCode::OK, ""),
            })
        }),
        send("/password-reset/", "Reset from the page", Handler::Async(reset), &["username", "token", "password"]),
    ]
}

/// A field of the form, empty when it was not sent. NUL is removed: no username, token or password has one, and
/// PostgreSQL refuses it.
fn form_field(request: &Request, name: &str) -> Result<String, Refusal> {
    let sent = request.object()?.get(name).and_then(|sent| sent.as_str());
    Ok(sent.map_or_else(String::new, |text| text.replace('\0', "")))
}

fn sign_in(request: Arc<Request>) -> Pending {
    Box::pin(async move {
        let (username, password) = (form_field(&request, "username")?, form_field(&request, "password")?);
        match login::sign_in(&request, username, password).await {
            Ok(tokens) => Ok(tokens_page(&tokens)),
            Err(refusal) if !refusal.is_by_rule() => Err(refusal),
            Err(refusal) => sign_in_failed(&request, &refusal).await,
        }
    })
}

fn show_sign_in(_: &Request, conn: &mut Conn) -> Outcome {
    Ok(sign_in_page(StatusCode::OK, "", &start::enabled_configurations(conn)?))
}

fn sign_in_at_provider(request: Arc<Request>) -> Pending {
    Box::pin(async move {
        let id = form_field(&request, "id")?.parse().unwrap_or(0);
        match start::start_page(&request, id).await {
            Err(refusal) if !refusal.is_by_rule() => Err(refusal),
            Err(refusal) => sign_in_failed(&request, &refusal).await,
            page => page,
        }
    })
}

/// The page to sign in, with the messages of a refusal.
pub async fn sign_in_failed(request: &Request, refusal: &Refusal) -> Outcome {
    let enabled = request.build.db.read_short(start::enabled_configurations).await?;
    Ok(sign_in_page(refusal.status, &messages(refusal).join(" "), &enabled))
}

fn reset(request: Arc<Request>) -> Pending {
    if request.object().is_ok_and(|body| body.contains_key("token")) {
        return set_password_from_page(request, LinkKind::Reset);
    }
    Box::pin(async move {
        let username = form_field(&request, "username")?;
        Ok(match set_password::ask_for_reset(&request, username).await {
            Ok(()) => page(
                StatusCode::OK,
                "Check your mail",
                "<p>If there is such an account, a link to choose a new password is on its way.</p>",
            ),
            Err(refusal) if !refusal.is_by_rule() => return Err(refusal),
            Err(refusal) => ask_for_reset_page(refusal.status, &messages(&refusal).join(" ")),
        })
    })
}

fn set_password_from_page(request: Arc<Request>, kind: LinkKind) -> Pending {
    Box::pin(async move {
        let (token, password) = (form_field(&request, "token")?, form_field(&request, "password")?);
        let outcome: Outcome = set_password::by_link(&request, token.clone(), password, kind).await;
        Ok(match outcome {
            Ok(_) => {
                page(StatusCode::OK, "Password set", "<p>Your password is set. <a href=\"/sign-in/\">Sign in</a></p>")
            }
            Err(refusal) if !refusal.is_by_rule() => return Err(refusal),
            Err(refusal) => new_password_page(refusal.status, kind, &token, &messages(&refusal)),
        })
    })
}

fn sign_in_page(status: StatusCode, error: &str, configurations: &[EnabledConfiguration]) -> Answer {
    let provider_forms: Vec<String> = configurations
        .iter()
        .map(|configuration| {
            format!(
                "<form method=\"post\" action=\"/sign-in/single-sign-on/\"><input name=\"id\" type=\"hidden\" value=\"{}\">\
                 <p><button>Sign in with {}</button></p></form>",
                configuration.id,
                escape(&configuration.name)
            )
        })
        .collect();
    let form = format!(
        "{}<form method=\"post\" action=\"/sign-in/\">\
         <label>E-mail address <input name=\"username\" type=\"email\" autocomplete=\"username\" required autofocus></label>\
         <label>Password <input name=\"password\" type=\"password\" autocomplete=\"current-password\" required></label>\
         <button>Sign in</button></form><p><a href=\"/password-reset/\">Forgot the password?</a></p>{}",
        alert(error),
        provider_forms.concat()
    );
    page(status, "Sign in", &form)
}

fn ask_for_reset_page(status: StatusCode, error: &str) -> Answer {
    let form = format!(
        "{}<form method=\"post\" action=\"/password-reset/\">\
         <label>E-mail address <input name=\"username\" type=\"email\" autocomplete=\"username\" required autofocus></label>\
         <button>Send a link</button></form>",
        alert(error)
    );
    page(status, "Reset your password", &form)
}

fn new_password_page(status: StatusCode, kind: LinkKind, token: &str, errors: &[String]) -> Answer {
    let (title, action) = match kind {
        LinkKind::Activation => ("Activate your account", "/activate/"),
        LinkKind::Reset => ("Choose a new password", "/password-reset/"),
    };
    let form = format!(
        "{}<form method=\"post\" action=\"{action}\"><input name=\"token\" type=\"hidden\" value=\"{}\">\
         <label>New password <input name=\"password\" type=\"password\" autocomplete=\"new-password\" required autofocus></label>\
         <button>Set password</button></form>",
        alert(&errors.join(" ")),
        escape(token)
    );
    page(status, title, &form)
}

/// A page that shows the tokens, for an installation without a front end.
pub fn tokens_page(tokens: &Json) -> Answer {
    let shown = |name: &str| escape(tokens.get(name).and_then(Json::as_str).unwrap_or(""));
    let body = format!(
        "<p>You are signed in. A program uses these as <code>Authorization: JWT …</code>; keep them to yourself.</p>\
         <label>Access token <textarea readonly rows=\"4\" name=\"access_token\">{}</textarea></label>\
         <label>Refresh token <textarea readonly rows=\"2\" name=\"refresh_token\">{}</textarea></label>",
        shown("access_token"),
        shown("refresh_token")
    );
    page(StatusCode::OK, "Signed in", &body)
}
